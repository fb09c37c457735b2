"""Resources, prompts, completion, changes, log levels and questions on a minimcp server, for
foreign clients."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import minimcp
from minimcp import Context, Server

TEXT = "alle: å"
TONES = ["plain", "formal", "friendly"]
URL = "https://example.com/open?a=1"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

CHOICES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "Mail", "description": "Where to?"},
        "word": {"type": "string", "minLength": 2, "maxLength": 5},
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "sure": {"type": "boolean", "default": True},
        "colour": {"type": "string", "enum": ["red", "green"]},
        "size": {
            "type": "string",
            "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}],
        },
    },
    "required": ["mail", "size"],
}
LIST_CHOICES = {
    "days": {
        "type": "array",
        "items": {"type": "string", "enum": ["mon", "tue"]},
        "minItems": 1,
        "maxItems": 2,
    },
    "fish": {
        "type": "array",
        "items": {"anyOf": [{"const": "f1", "title": "Cod"}, {"const": "f2", "title": "Eel"}]},
    },
}


@dataclass
class Person:
    name: str
    age: int = 36


@dataclass
class Age:
    age: int


def names(value: str, chosen: Any) -> list[str]:
    known = ["Sir Å", "Dame B"] if chosen.get("tone") == "formal" else ["Alice", "Bob"]
    return [name for name in known if name.startswith(value)]


def add_all(server: Server, pixel: bytes, marks: Any) -> None:
    """Register everything of this page."""
    add_resources(server, pixel)
    add_prompts(server, pixel)
    add_changes(server)
    add_contents(server, pixel)
    add_questions(server, marks)


def add_resources(server: Server, pixel: bytes) -> None:
    @server.resource("note://all", name="all", mime_type="text/plain", ttl=5, cache_scope="private")
    def everything() -> str:
        """All notes."""
        return TEXT

    @server.resource("note://pixel", name="pixel", mime_type="image/png")
    def picture() -> bytes:
        """A picture of one pixel."""
        return pixel

    @server.resource(
        "note://by-id/{number}",
        name="by_id",
        mime_type="text/plain",
        complete={"number": ["1", "10", "100", "2"]},
    )
    def by_id(number: int) -> str:
        """One note."""
        return f"note {number}"

    @server.resource("note://secret/{number}", name="secret", mime_type="text/plain")
    def secret(number: int, ctx: Context) -> str:
        """A note that asks for its reader first."""
        return f"secret {number} for {ctx.elicit('Who reads?', Person).require().name}"


def add_prompts(server: Server, pixel: bytes) -> None:
    @server.prompt(complete={"name": names, "tone": TONES})
    def greet(name: str, tone: str = "plain") -> str:
        """Greet somebody.

        Args:
            name: Who.
            tone: The tone of the text.
        """
        return f"Greet {name} in a {tone} tone"

    @server.prompt
    def picture() -> list[Any]:
        """Look at a picture."""
        note = minimcp.EmbeddedResource(
            minimcp.TextResourceContents("note://all", TEXT, "text/plain")
        )
        return ["Look:", minimcp.Image(pixel, "image/png"), minimcp.Message("assistant", note)]

    @server.prompt
    def survey(ctx: Context) -> str:
        """Ask before there is a prompt."""
        return f"survey by {ctx.elicit('Who are you?', Person).require().name}"


def add_changes(server: Server) -> None:
    def grown() -> str:
        """Came later."""
        return "grown"

    @server.tool(
        title="Touch it",
        annotations={"idempotent_hint": True, "read_only_hint": False},
        icons=[minimcp.Icon("https://example.com/i.png", mime_type="image/png")],
        meta={"example.com/colour": "blue"},
    )
    def touch(uri: str) -> str:
        """Say that a resource has changed."""
        server.resource_updated(uri)
        return "touched"

    @server.tool
    def grow() -> str:
        """Add a tool, a prompt and a resource."""
        server.add_tool(grown)
        server.add_prompt(grown)
        server.add_resource(grown, "note://grown")
        return "grown"

    @server.tool
    def shrink() -> str:
        """Take them away again."""
        server.remove_tool("grown")
        server.remove_prompt("grown")
        server.remove_resource("note://grown")
        return "shrunk"


def add_contents(server: Server, pixel: bytes) -> None:
    @server.tool
    def mixed(kinds: list[str]) -> minimcp.CallToolResult:
        """Give blocks of these kinds."""
        blocks = {
            "text": minimcp.Text("text"),
            "image": minimcp.Image(pixel, "image/png"),
            "audio": minimcp.Audio(b"RIFF", "audio/wav"),
            "resource": minimcp.EmbeddedResource(
                minimcp.TextResourceContents("note://all", TEXT, "text/plain")
            ),
            "resource_link": minimcp.ResourceLink("note://all", "all", mime_type="text/plain"),
        }
        return minimcp.CallToolResult([blocks[kind] for kind in kinds])

    @server.tool
    def logs(ctx: Context) -> str:
        """Send one message of each level."""
        for level in LEVELS:
            ctx.log(level, {"level": level}, "interop")
        return "logged"


def add_questions(server: Server, marks: Any) -> None:
    @server.tool
    def ask_form(ctx: Context) -> str:
        """Ask the user to fill in a form."""
        answer = ctx.elicit("Who are you?", Person)
        return f"accept {answer.content.name} {answer.content.age}" if answer else answer.action

    @server.tool
    def ask_url(ctx: Context) -> str:
        """Ask the user to open a URL, and say that it is done."""
        answer = ctx.elicit_url("Open it", URL, elicitation_id="interop-1")
        if answer:
            ctx.complete_elicitation("interop-1")
        return answer.action

    @server.tool
    def need_url() -> str:
        """Answer the second call only: the first one needs a URL to be opened."""
        if not marks.count("opened"):
            marks.add("opened")
            wanted = {
                "mode": "url",
                "message": "First this",
                "url": URL,
                "elicitationId": "interop-2",
            }
            raise minimcp.UrlElicitationRequired("open it first", {"elicitations": [wanted]})
        return "opened"

    @server.tool
    def ask_model(text: str, ctx: Context) -> str:
        """Ask the client's model."""
        result = ctx.sample(text, 50, system="Be short.", temperature=0.5, stop_sequences=["."])
        return f"{result.model}: {result.text} ({result.stop_reason})"

    @server.tool
    def ask_tools(ctx: Context) -> str:
        """Let the client's model use a tool."""
        tools = [
            minimcp.Tool("twice", {"type": "object", "properties": {"a": {"type": "integer"}}})
        ]
        asked = ctx.sample("Twice 1?", 50, tools=tools, tool_choice="required", key="use")
        use: Any = asked.content[0]
        done = minimcp.SamplingMessage(
            "user", minimcp.ToolResult(use.id, [minimcp.Text(str(2 * use.input["a"]))])
        )
        said: list[Any] = ["Twice 1?", minimcp.SamplingMessage("assistant", [use]), done]
        return ctx.sample(said, 50, tools=tools, key="answer").text

    @server.tool
    def ask_roots(ctx: Context) -> str:
        """Ask for the roots."""
        return ", ".join(root.uri for root in ctx.list_roots())

    @server.tool
    def ask_many(ctx: Context) -> str:
        """Ask three things at once."""
        who = minimcp.Elicit("Who are you?", Person)
        found = ctx.ask_all(
            {"who": who, "model": minimcp.Sample("Hi", 50), "roots": minimcp.ListRoots()}
        )
        return f"{found['who'].content.name} | {found['model'].text} | {len(found['roots'])}"

    @server.tool
    def ask_twice(ctx: Context) -> str:
        """Ask, do something once, and ask about the answer."""
        name = ctx.elicit("Who are you?", Person, key="who").require().name
        ctx.step("note", lambda: marks.add(ctx.call_id))
        age = ctx.elicit(f"How old is {name}?", Age, key="age").require().age
        return f"{name} is {age}, {marks.count(ctx.call_id)} step"

    @server.tool
    def ask_choices(lists: bool, ctx: Context) -> str:
        """Ask with every kind of field."""
        form = {
            **CHOICES,
            "properties": {**CHOICES["properties"], **(LIST_CHOICES if lists else {})},
        }
        answer = ctx.elicit("Choose", form)
        return (
            json.dumps(answer.content, sort_keys=True)
            if answer.action == "accept"
            else answer.action
        )
