"""What can be known of a function without calling it."""

from __future__ import annotations

from typing import Any

COROUTINES, ASYNC_GENERATOR = 0x180, 0x200
"""Flags of a function's code."""


def unbound(function: Any) -> Any:
    """The function that a method of an object calls; anything else as it is."""
    return getattr(function, "__func__", function)


def innermost(function: Any) -> Any:
    """The function that wrappers made with `functools.wraps` stand for."""
    plain = unbound(function)
    while hasattr(plain, "__wrapped__"):
        plain = unbound(plain.__wrapped__)
    return plain


def refuse_async(function: Any, owner: str) -> None:
    """Refuse a function whose call runs nothing and only makes something to await.

    Raises:
        TypeError: It is async; the message says what to write instead.
    """
    flags = getattr(getattr(unbound(function), "__code__", None), "co_flags", 0)
    if flags & (COROUTINES | ASYNC_GENERATOR):
        raise TypeError(f"{owner} is async: write a plain def; it runs on a thread and may block")
