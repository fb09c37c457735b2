"""What is known of functions that nobody calls."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from minimcp.schema.functions import innermost, refuse_async, unbound


class Notes:
    def method(self) -> None: ...


async def coroutine() -> None: ...


async def async_generator() -> Any:
    yield 1


def generator() -> Any:
    yield 1


@functools.wraps(coroutine)
def wrapper(*arguments: Any) -> None: ...


@pytest.mark.parametrize("function", [coroutine, async_generator])
def test_what_only_makes_something_to_await_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="^it is async: write a plain def"):
        refuse_async(function, "it")


@pytest.mark.parametrize("function", [generator, wrapper, len, Notes, Notes().method])
def test_what_can_be_called_is_not(function: Any) -> None:
    refuse_async(function, "it")


def test_what_a_function_stands_for() -> None:
    assert unbound(Notes().method) is Notes.method and unbound(len) is len
    assert innermost(wrapper) is coroutine and innermost(Notes().method) is Notes.method
