"""Options of an author for a server and for registrations: unknown and invalid options are rejected
by name."""

from __future__ import annotations

import math
import re
from typing import Any, List

import pytest

import minimcp
from minimcp import Server, connect, tool

from ..answering import R4, R5
from ..rows import for_each

FLAG = "True or False"

WRONG_TYPES = [
    ("instructions", "text or None", 5),
    *[(name, FLAG, wrong) for wrong in ("no", 1, None)
      for name in ("strict_version", "strict_arguments", "strict_schemas", "accept_batches", "mask_errors", "logging", "check_replay")],
    *[("page_size", "a whole number or None", wrong) for wrong in ("3", 1.5, True, [1])],
    ("list_ttl", "a number of seconds", "1"), ("list_ttl", "a number of seconds", None),
    ("capabilities", "a list of kinds, a mapping or None", 5),
    ("extensions", "a list of extensions, a mapping or None", "com.example/x"),
    ("revisions", "a list of names or None", 2025), ("state_keys", "a list of keys or None", 5),
    ("on_pump_needed", "a callable", 5), ("executor", "None, 'main', an object with submit()", 5),
    ("trace", "a text file or a callable", 5), ("limits", "a Limits(...) or None", {"workers": 2}),
    ("http", "an HttpOptions(...) or None", False),
]  # fmt: skip

WRONG_VALUES = [
    ("page_size", 0, "page_size must be at least 1, not 0"), ("list_ttl", -1, "list_ttl must be at least 0, not -1"),
    *[("list_ttl", wrong, "list_ttl must be a number of seconds, not") for wrong in (math.nan, math.inf, -math.inf)],
    ("executor", "elsewhere", "executor must be None, 'main'"), ("executor", "pool", "not 'pool'"),
    *[("list_cache_scope", wrong, 'list_cache_scope must be "private" or "public"') for wrong in ("secret", None)],
    ("capabilities", {"roots"}, "capabilities: servers cannot declare 'roots'"),
    ("revisions", ["1999-01-01"], "1999-01-01"), ("revisions", [], "name one of"),
]  # fmt: skip

MOVED = [
    ("max_workers", "limits=Limits(workers=...)"), ("message_bytes", "limits=Limits(message_bytes=...)"),
    ("max_body_bytes", "http=HttpOptions(body_bytes=...)"), ("max_sessions", "http=HttpOptions(max_sessions=...)"),
    ("ask_timeout", "limits=Limits(ask_timeout=...)"), ("drain_grace", "limits=Limits(drain_grace=...)"),
    ("sessions", "http=HttpOptions(sessions=...)"), ("allowed_hosts", "http=HttpOptions(allowed_hosts=...)"),
]  # fmt: skip


@for_each(("name", "what", "wrong"), WRONG_TYPES)
def test_an_option_of_another_type_is_refused_by_name(name: str, what: str, wrong: Any) -> None:
    with pytest.raises(TypeError) as caught:
        Server("s", **{name: wrong})
    message = str(caught.value)
    assert re.match(f"{name} must be {re.escape(what)}", message) and "\n" not in message
    assert repr(wrong) in message or message.endswith(f"not {type(wrong).__name__}")


@for_each(("name", "wrong", "words"), WRONG_VALUES)
def test_an_option_of_another_value_is_refused_by_name(name: str, wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Server("s", **{name: wrong})


@for_each(("name", "now"), MOVED)
def test_an_option_that_has_moved_says_where(name: str, now: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"Server(...): {name}= is now {now}")):
        Server("s", **{name: 1})  # type: ignore[arg-type]


def test_an_unknown_option() -> None:
    for name, words in (
        ("stateless_http", "sessions=False"),
        ("lifespan", "write code before and after"),
        ("host", r"server.run\(...\)"),
        ("titel", r"did you mean title=\?"),
        ("xyzzy", "the options are version, title, .*, limits, http, auth, card, visible, lists$"),
    ):
        with pytest.raises(TypeError, match=rf"Server\(...\) has no option {name}=: .*{words}"):
            Server("s", **{name: 1})  # type: ignore[arg-type]


def text() -> str:
    """A short text."""
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
    assert Server("y").resource("a:b", text) is text
    assert (
        server.resource("a:b")(text) is text and server.resource(uri="a:c", name="c")(text) is text
    )
    assert (
        server.prompt(text) is text
        and server.prompt(name="other")(text) is text
        and server.prompt()(greet) is greet
    )
    server.add_resource(notes.read, "notes://{number}", name="note")
    server.add_resource_template(notes.read, "old://{number}")
    server.add_prompt(notes.brief, title="Brief")
    for revision in (R4, R5):
        with minimcp.connect(server, revision=revision) as client:
            assert [each.name for each in client.list_resources()] == ["text", "c"]
            assert [each.name for each in client.list_resource_templates()] == ["note", "read"]
            assert client.read_resource("notes://1").text == "b"
            assert client.get_prompt("brief", {"topic": "t"}).messages[0].content.text == "t: 2"  # type: ignore[union-attr]
            assert [each.name for each in client.list_prompts()] == [
                "text",
                "other",
                "greet",
                "brief",
            ]
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


class Misspelt:
    """A decorator with an unknown option."""

    @tool(descriptoin="Greet.")
    def greet(self) -> str:
        return "hello"


HERE = re.escape(__file__)


def test_wrong_ways_to_make_a_server_or_a_client() -> None:
    server: Any = Server("x")
    for wrong, words in (
        (
            lambda: server.add(Misspelt()),
            rf"^Misspelt.greet \({HERE}:\d+\): .* did you mean description=",
        ),
        (lambda: Server(Misspelt()), r": Server.of\(...\) uses the name of the object's class$"),  # type: ignore
        (lambda: connect(Misspelt), r"Misspelt is a class: connect\(Server.of\(Misspelt\(\)\)\)$"),
        (
            lambda: connect(Misspelt()),
            r"not Misspelt: to serve an object with marked methods, write connect\(Server.of\(",
        ),
        (
            lambda: server.tool(timeout=True)(text),
            "timeout must be a number of seconds or None, not True",
        ),
        (
            lambda: server.tool(requires=[5])(text),
            "requires must contain names of capabilities, not 5",
        ),
    ):
        with pytest.raises(TypeError, match=words):
            wrong()
    for wrong, words in (
        (lambda: server.prompt(name="")(text), "the name of a prompt must not be empty"),
        (lambda: server.resource("a:b", name="")(text), "the name of a resource must not be empty"),
        (lambda: Server(""), "a server's name must not be empty"),
    ):
        with pytest.raises(ValueError, match=words):
            wrong()
    assert "0 tools" in repr(server)
