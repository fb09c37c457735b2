"""Prompts where the interaction tests do not reach: what registration refuses, and what becomes of values."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp.server.context import Context

from ..rows import for_each
from .requests import registry


def greet(name: str, ctx: Context, loud: bool = False) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


async def waits() -> str:
    return ""


def untyped(x) -> str:  # type: ignore[no-untyped-def]
    return ""


@for_each(("function", "options", "kind", "words"), [
    (greet, {"name": 5}, TypeError, "name"), (waits, {}, TypeError, "is async"),
    (untyped, {}, TypeError, "no annotation"), (greet, {"icons": ["x"]}, TypeError, "icons"),
    (greet, {"complete": {"nome": []}}, ValueError, "no argument to complete is called 'nome'"),
    (greet, {"complete": {"ctx": []}}, ValueError, "no argument to complete is called 'ctx'"),
    (greet, {"complete": {"name": 5}}, TypeError, "completer of 'name'"),
])
def test_what_registration_refuses(function: Any, options: Any, kind: Any, words: str) -> None:
    made = registry()
    with pytest.raises(kind, match=words):
        made.add("prompt", function, options)
    assert not made.prompts.items
