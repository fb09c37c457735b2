"""What an author writes to register resources and prompts; what is registered then, tests/interaction shows."""

from __future__ import annotations

from typing import Any, List

import pytest

import minimcp
from minimcp import Server

from .answering import R4, R5


def text() -> str:
    """Some text."""
    return "text"


class Notes:
    """Methods of an object are registered like functions."""

    def __init__(self, notes: List[str]) -> None:
        self.notes = notes

    def read(self, number: int) -> str:
        """One note."""
        return self.notes[number]

    def brief(self, topic: str) -> str:
        """Brief."""
        return f"{topic}: {len(self.notes)}"


def test_every_way_to_register() -> None:
    server, notes = Server("x"), Notes(["a", "b"])
    assert server.resource("a:b")(text) is text and server.resource(uri="a:c", name="c")(text) is text
    assert server.prompt(text) is text and server.prompt(name="other")(text) is text and server.prompt()(greet) is greet
    server.add_resource(notes.read, "notes://{number}", name="note")
    server.add_resource_template(notes.read, "old://{number}")
    server.add_prompt(notes.brief, title="Brief")
    for revision in (R4, R5):
        with minimcp.connect(server, revision=revision) as client:
            assert [each.name for each in client.list_resources()] == ["text", "c"]
            assert [each.name for each in client.list_resource_templates()] == ["note", "read"]
            assert client.read_resource("notes://1").text == "b"
            assert client.get_prompt("brief", {"topic": "t"}).messages[0].content.text == "t: 2"  # type: ignore[union-attr]
            assert [each.name for each in client.list_prompts()] == ["text", "other", "greet", "brief"]
    server.remove_resource("a:b")
    server.remove_resource_template("old://{number}")
    server.remove_prompt("text")
    with minimcp.connect(server) as client:
        assert len(client.list_resources()) == len(client.list_resource_templates()) == 1
        assert len(client.list_prompts()) == 3
    for gone in (server.remove_resource, server.remove_resource_template, server.remove_prompt):
        with pytest.raises(KeyError):
            gone("nothing")


def greet() -> str:
    """Greet."""
    return "hello"


def test_what_is_no_way() -> None:
    server: Any = Server("x")
    for wrong, words in (
        (lambda: server.resource(text), 'the URI comes first: @server.resource\\("notes://all"\\)'),
        (lambda: server.prompt("greet"), "did you mean name='greet'"),
        (lambda: server.prompt("greet")(greet), "did you mean name='greet'"),
        (lambda: server.prompt(prefix="x")(greet), "prefix"),
        (lambda: server.resource("a:b", prefix="x"), "prefix"),
        (lambda: server.add_resource("a:b", text), "the URI comes first"),
    ):
        with pytest.raises(TypeError, match=words):
            wrong()
