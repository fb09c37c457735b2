"""Options of a server or client that are wrong: the message names the option, what it takes and what came."""

from __future__ import annotations

import math
from typing import Any

import pytest

from minimcp import Limits, Server, connect
from minimcp.protocol.options import TEXT, check_options, never_none

from .rows import for_each

NUMBER, WHOLE, FLAG = "a number of seconds or None", "a whole number or None", "True or False"

WRONG_TYPES = [
    *[(name, "text or None", 5) for name in ("title", "description", "website_url", "instructions")],
    ("version", "text", 1.0), ("version", "text", None), ("list_cache_scope", "text", None),
    *[(name, FLAG, wrong) for wrong in ("no", 1, None)
      for name in ("strict_version", "strict_arguments", "accept_batches", "mask_errors", "logging", "check_replay")],
    *[(name, WHOLE, wrong) for wrong in ("3", 1.5, True, [1])
      for name in ("page_size", "max_streams", "max_rounds", "max_depth", "max_batch", "max_workers", "max_requests",
                   "max_message_bytes", "max_backlog_bytes")],
    *[(name, NUMBER, wrong) for wrong in ("5", False, {})
      for name in ("ask_timeout", "write_timeout", "drain_grace")],
    ("list_ttl", "a number of seconds", "1"), ("list_ttl", "a number of seconds", None),
    ("icons", "a list of Icon objects or None", "icon.png"),
    ("capabilities", "a list of kinds, a mapping or None", 5),
    ("extensions", "a mapping or None", ["com.example/x"]),
    ("revisions", "a list of names or None", 2025), ("state_keys", "a list of keys or None", 5),
    ("on_pump_needed", "a callable", 5), ("executor", "None, 'pool', 'main', a Serial() or a callable", 5),
    ("trace", "a text file or a callable", 5),
]  # fmt: skip
TOO_SMALL = [
    *[(name, 1, 0) for name in ("page_size", "max_depth", "max_batch", "max_workers", "max_requests")],
    *[(name, 0, -1) for name in ("max_message_bytes", "max_backlog_bytes", "max_streams", "list_ttl", "write_timeout",
                                 "drain_grace")],
]  # fmt: skip


@for_each(("name", "what", "wrong"), WRONG_TYPES)
def test_an_option_of_another_type_is_refused_by_name(name: str, what: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        Server("s", **{name: wrong})
    message = str(caught.value)
    assert message.startswith(f"{name} is {what}") and "\n" not in message
    assert repr(wrong) in message or message.endswith(f"not {type(wrong).__name__}")


@for_each("name", ["ask_timeout", "write_timeout", "drain_grace", "list_ttl"])
def test_time_is_finite(name: str) -> None:
    for wrong in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError) as caught:
            Server("s", **{name: wrong})  # type: ignore[arg-type]
        assert str(caught.value).startswith(f"{name} is a number of seconds")


@for_each(("name", "least", "wrong"), TOO_SMALL)
def test_a_number_that_is_too_small_is_refused_by_name(name: str, least: int, wrong: int) -> None:
    with pytest.raises(ValueError) as caught:
        Server("s", **{name: wrong})  # type: ignore[arg-type]
    assert str(caught.value) == f"{name} is at least {least}, not {wrong}"


@for_each("name", ["max_rounds", "ask_timeout"])
def test_nothing_is_too_small_as_well(name: str) -> None:
    with pytest.raises(ValueError) as caught:
        Server("s", **{name: 0})  # type: ignore[arg-type]
    assert str(caught.value) == f"{name} is more than 0, not 0"


def test_what_is_given_as_it_should_be_is_taken() -> None:
    Server("s", page_size=1, limits=Limits(rounds=None, ask_timeout=0.5, drain_grace=0), list_ttl=1.5, icons=[], capabilities={})
    Server("s", limits=Limits(streams=0, depth=None), state_keys=None, revisions=("2026-07-28",), extensions={}, title="T")


def test_the_owner_goes_first() -> None:
    with pytest.raises(TypeError, match="^tool x: title is text, not 'a{40}"):
        check_options({"title": never_none(TEXT)._replace(fits=lambda value: False)}, {"title": "a" * 99}, "tool x: ")


@for_each(("name", "what", "wrong"), [
    ("restart", FLAG, "yes"), ("cache", FLAG, None), ("send_shutdown", FLAG, 1),
    ("extensions", "a mapping or None", "x"),
    ("client_info", "an Implementation, a mapping or None", "x"), ("max_cache_bytes", WHOLE, "1"),
    ("timeout", NUMBER, "x"), ("probe_timeout", NUMBER, "x"), ("connect_timeout", NUMBER, "x"),
    ("max_depth", WHOLE, "x"),
])
def test_an_option_of_a_client_is_refused_by_name(name: str, what: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        connect(Server("s"), **{name: wrong})
    assert str(caught.value).startswith(f"{name} is {what}, not ") and repr(wrong) in str(caught.value)
