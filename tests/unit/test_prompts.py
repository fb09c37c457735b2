"""Prompts where the interaction tests do not reach: what registration refuses, and what becomes of values."""

from __future__ import annotations

import logging
from typing import Any, Optional

import pytest

from minimcp import InvalidParams
from minimcp.server.context import Context
from minimcp.server.registry import Registry
from minimcp.types import EmbeddedResource, PromptMessage, Text, TextResourceContents

from ..rows import for_each
from .requests import answered, registry


def greet(name: str, ctx: Context, loud: bool = False) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def prompts(function: Any = greet, **options: Any) -> Registry:
    made = registry()
    made.add("prompt", function, options)
    return made


def got(made: Registry, name: str, **arguments: Any) -> Any:
    return answered(made, "prompts/get", {"name": name, "arguments": arguments})


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


def test_what_is_said_about_one_without_a_description(caplog: pytest.LogCaptureFixture) -> None:
    def silent() -> str:
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    assert "description" not in got(prompts(silent), "silent")
    assert "prompt silent has no description" in caplog.text
    assert got(prompts(silent, description="Said."), "silent")["description"] == "Said."
    with pytest.raises(ValueError, match="the prompt 'greet' exists: greet"):
        prompts().add("prompt", greet, {})


def test_messages() -> None:
    def gives(value: Any) -> Any:
        def made() -> Any:
            return value

        return [message["content"].get("text") for message in got(prompts(made), "made")["messages"]]

    assert gives("a") == ["a"] and gives(["a", Text("b")]) == ["a", "b"] and gives(("a",)) == ["a"]
    assert gives(Text("a")) == ["a"] and gives(PromptMessage("assistant", "a")) == ["a"] and gives([]) == []
    typed = EmbeddedResource(TextResourceContents("a:b", "x", "x/y"))
    assert gives(typed) == [None]
    for wrong in (5, None, {"role": "user", "content": "x"}, [["a"]], b"a", [5]):
        with pytest.raises(TypeError, match="content"):
            gives(wrong)


def test_optional_arguments() -> None:
    def ask(count: Optional[int] = None, word: Optional[str] = None) -> str:
        return f"{count!r} {word!r}"

    made = prompts(ask)
    for arguments, said in (
        ({}, "None None"), ({"count": "5", "word": "5"}, "5 '5'"), ({"count": "", "word": ""}, "None ''"),
    ):
        assert got(made, "ask", **arguments)["messages"][0]["content"]["text"] == said
    with pytest.raises(InvalidParams, match="ask: count: expected an integer or null, got the string 'x'"):
        got(made, "ask", count="x")
