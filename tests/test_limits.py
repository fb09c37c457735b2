"""What a connection may cost: each limit is kept as it is given, and none can stop everything."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp.engine.limits import Limits

from .rows import for_each

DEFAULTS = {
    "max_message_bytes": 64 * 1024 * 1024,
    "max_depth": 256,
    "max_batch": 100,
    "max_workers": 64,
    "max_requests": 1000,
    "max_queue_bytes": 64 * 1024 * 1024,
    "max_backlog_bytes": 64 * 1024 * 1024,
    "write_timeout": 30.0,
    "drain_grace": 5.0,
}
"""As api.md has them, in bytes and seconds."""


def kept(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in Limits.__slots__}


def test_the_defaults_are_those_of_the_table() -> None:
    assert kept(Limits()) == DEFAULTS


def test_each_limit_is_its_own() -> None:
    given = {name: number for number, name in enumerate(DEFAULTS, start=1)}
    assert kept(Limits(**given)) == given


@for_each("name", [name for name in DEFAULTS if name != "drain_grace"])
def test_none_is_no_limit(name: str) -> None:
    given: dict[str, Any] = {name: None}
    assert kept(Limits(**given)) == {**DEFAULTS, name: None}


@for_each("name", DEFAULTS)
def test_a_limit_that_would_stop_everything_is_refused(name: str) -> None:
    counts = ("max_depth", "max_batch", "max_workers", "max_requests")
    least = 1 if name in counts else 0
    assert getattr(Limits(**{name: least}), name) == least
    with pytest.raises(ValueError, match=f"^{name} is at least {least}, not {least - 1}$"):
        Limits(**{name: least - 1})
