"""`Limits`: numbers that are refused."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from minimcp import Limits
from minimcp.engine.limits import check_number


@pytest.mark.parametrize(("name", "value", "error", "words"), [
    ("workers", 0, ValueError, "workers must be at least 1, not 0"),
    ("batch", "5", TypeError, "batch must be a whole number or None, not '5'"),
    ("depth", True, TypeError, "depth must be a whole number or None, not True"),
    ("streams", 1.5, TypeError, "streams must be a whole number or None, not 1.5"),
    ("requests", -1, ValueError, "requests must be at least 1, not -1"),
    ("write_timeout", math.nan, ValueError, "write_timeout must be a number of seconds or None, not nan"),
    ("write_timeout", math.inf, ValueError, "write_timeout must be a number of seconds or None, not inf"),
    ("waiting_handlers", -1, ValueError, "waiting_handlers must be at least 0, not -1"),
    ("waiting_handlers", "16", TypeError, "waiting_handlers must be a whole number or None, not '16'"),
    ("drain_grace", None, TypeError, "drain_grace must be a number of seconds, not None"),
    ("drain_grace", -0.1, ValueError, "drain_grace must be at least 0, not -0.1"),
    ("ask_timeout", 0, ValueError, "ask_timeout must be more than 0 seconds, not 0"),
    ("call_rate", "5", TypeError, "call_rate must be a number per second or None, not '5'"),
    ("call_rate", True, TypeError, "call_rate must be a number per second or None, not True"),
    ("call_rate", math.inf, ValueError, "call_rate must be a number per second or None, not inf"),
    ("call_rate", -1, ValueError, "call_rate must be at least 0, not -1"),
    ("call_rate", 0, ValueError, "call_rate must be more than 0 per second, not 0: write None for no limit"),
    ("notification_rate", 0.0, ValueError, "notification_rate must be more than 0 per second, .*"),
    ("notification_rate", [], TypeError, "notification_rate must be a number per second or None, .*"),
])  # fmt: skip
def test_invalid_limits(name: str, value: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}$"):
        Limits(**{name: value})


def test_valid_limits() -> None:
    nothing: Any = {each.name: None for each in fields(Limits) if each.name != "drain_grace"}
    assert (
        Limits(**nothing).workers is None
        and Limits(streams=0, drain_grace=0, write_timeout=0.5).streams == 0
    )
    with pytest.raises(TypeError, match="port must be a whole number, not None"):
        check_number("port", None, optional=False)
