"""Prompts where the interaction tests do not reach: what registration refuses, and changes."""

from __future__ import annotations

import logging
from typing import Any, List, Optional

import pytest

from minimcp import InvalidParams
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME
from minimcp.server.context import Context
from minimcp.server.prompts import Prompts
from minimcp.types import EmbeddedResource, PromptMessage, Text, TextResourceContents

from ..answering import R4, R5
from .support import exchange, facts, read


def greet(name: str, ctx: Context, loud: bool = False) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def prompts(function: Any = greet, **options: Any) -> Prompts:
    made = Prompts(facts())
    made.add(function, **options)
    return made


def got(made: Prompts, name: str, **arguments: Any) -> Any:
    asked = exchange("prompts/get", {"name": name, "arguments": arguments})
    return read(made.route_of_get(asked.request).handle(asked))


def names(made: Prompts) -> List[str]:
    route: Any = made.routes()["prompts/list"]
    return [each["name"] for each in read(route.handle(exchange("prompts/list")))["prompts"]]


def test_what_registration_refuses() -> None:
    async def waits() -> str:
        return ""

    def untyped(x) -> str:  # type: ignore[no-untyped-def]
        return ""

    for function, options, kind, words in (
        (greet, {"name": 5}, TypeError, "name"),
        (waits, {}, TypeError, "is async"),
        (untyped, {}, TypeError, "no annotation"),
        (greet, {"icons": ["x"]}, TypeError, "icons"),
        (greet, {"complete": {"nome": []}}, ValueError, "'nome', which is no argument"),
        (greet, {"complete": {"ctx": []}}, ValueError, "'ctx', which is no argument"),
        (greet, {"complete": {"name": 5}}, TypeError, "completer of 'name'"),
    ):
        made = Prompts(facts())
        with pytest.raises(kind, match=words):
            made.add(function, **options)  # type: ignore[arg-type]
        assert len(made) == 0 and not made.offered


def test_the_table_of_prompts() -> None:
    told: List[str] = []
    made = prompts()
    made._facts.changed = told.append
    assert made.offered and made.completes and len(made) == 1, "a bool completes by itself"
    with pytest.raises(ValueError, match="the prompt 'greet' exists: greet"):
        made.add(greet)
    made.add(greet, replace=True)
    made.add(greet, name="other")
    assert names(made) == ["greet", "other"] and told == ["prompts"] * 2
    made.remove("greet")
    assert names(made) == ["other"] and told == ["prompts"] * 3
    with pytest.raises(KeyError):
        made.remove("greet")
    assert made.declared(BY_NAME[R4]) == {"listChanged": True} == made.declared(BY_NAME[R5])
    found = made.named("other")
    assert found is not None and list(found.completers) == ["name", "loud"] and made.named("greet") is None


def test_what_is_said_about_one_without_a_description(caplog: pytest.LogCaptureFixture) -> None:
    def silent() -> str:
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    assert "description" not in got(prompts(silent), "silent")
    assert "prompt silent has no description" in caplog.text
    assert got(prompts(silent, description="Said."), "silent")["description"] == "Said."
    assert repr(prompts()._prompts.get("greet")).startswith("<RegisteredPrompt 'greet' = greet (")


def test_messages() -> None:
    def gives(value: Any) -> Any:
        def made() -> Any:
            """Give."""
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
        """Ask."""
        return f"{count!r} {word!r}"

    made = prompts(ask)
    for arguments, said in (
        ({}, "None None"), ({"count": "5", "word": "5"}, "5 '5'"), ({"count": "", "word": ""}, "None ''"),
    ):
        assert got(made, "ask", **arguments)["messages"][0]["content"]["text"] == said
    with pytest.raises(InvalidParams, match="ask: count: expected an integer or null, got the string 'x'"):
        got(made, "ask", count="x")


def test_what_names_no_prompt() -> None:
    made = prompts()
    for params, words in (
        ({}, "name is a string"), ({"name": 5}, "name is a string"), ({"name": "x"}, "Unknown prompt: x"),
        ({"name": "greet", "arguments": []}, "arguments is an object"),
    ):
        with pytest.raises(InvalidParams, match=words):
            made.route_of_get(Request(1, "prompts/get", params))  # type: ignore[arg-type]
    assert made.route_of_get(Request(1, "prompts/get", {"name": "greet", "arguments": None}))
