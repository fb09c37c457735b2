"""The server of test_resources.py, test_prompts.py and test_completion.py: resources, templates,
prompts, completers.

``python -m tests.interaction.resources_server '{"page_size": 2}'`` serves it over stdio; `build`
makes it for memory.
"""

from __future__ import annotations

import enum
import json
import logging
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Literal, Mapping, Optional

import minimcp
from minimcp import Context, RpcError, Server, TextResourceContents

PICTURE = b"\x89PNG\x00\xff"
ICON = minimcp.Icon("https://example.com/i.png", sizes="48x48 96x96")
ODD = "ODD+x.y:%7euser/%C3%A9?B=b&a=a%20#Frag"
"""A URI that every library would like to rewrite."""

Tone = Literal["plain", "formal"]


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Day:
    name: str
    degrees: float


def build(**options: Any) -> Server:
    """The server, with options of its own."""
    server = Server("shelf", version="1.3", **options)
    _add_resources(server)
    _add_templates(server)
    _add_prompts(server)
    _add_tools(server)
    return server


def _add_resources(server: Server) -> None:
    @server.resource(
        "notes://all",
        title="All notes",
        mime_type="text/markdown",
        size=7,
        icons=[ICON],
        meta={"example.com/m": 1},
        annotations={
            "audience": ["user"],
            "priority": 0.5,
            "last_modified": "2026-01-02T03:04:05Z",
        },
        ttl=1.5,
        cache_scope="public",
    )
    def notes() -> str:
        """All notes."""
        return "# notes"

    @server.resource("bin://data")
    def data() -> bytes:
        """Bytes."""
        return PICTURE

    @server.resource("json://day")
    def day() -> Day:
        """A dataclass."""
        return Day("Monday", 1.5)

    @server.resource("dir://both")
    def both() -> List[Any]:
        """Several things."""
        return [
            TextResourceContents("dir://both/a", "a", meta={"example.com/c": 1}),
            minimcp.BlobResourceContents("dir://both/b", b"b", "image/png"),
        ]

    @server.resource("dir://empty")
    def empty() -> List[TextResourceContents]:
        """A folder with nothing in it."""
        return []

    @server.resource("own://hints", ttl=60)
    def hints() -> minimcp.ReadResourceResult:
        """Says itself how long it stays true."""
        return minimcp.ReadResourceResult(
            [TextResourceContents("own://hints", "now")],
            ttl_ms=7,
            cache_scope="public",
            meta={"example.com/r": 2},
        )

    @server.resource(ODD)
    def odd(ctx: Context) -> str:
        """A URI like no other."""
        return str(ctx.params["uri"])

    @server.resource("fail://gone")
    def gone() -> str:
        """Has been removed."""
        raise minimcp.ResourceNotFound("no such day")

    @server.resource("fail://secret")
    def secret() -> str:
        """Not for everybody."""
        raise minimcp.ResourceAccessDenied("only for Ada", {"uri": "fail://secret", "who": "Ada"})

    @server.resource("fail://broken")
    def broken() -> str:
        """Fails."""
        raise ValueError("secret words")

    @server.resource("fail://own")
    def own() -> str:
        """An error of its own."""
        raise RpcError(7, "seven", [1])

    @server.resource("fail://value")
    def value() -> object:
        """Returns what nobody can send."""
        return {1, 2, object()}

    @server.resource("needs://sampling", requires="sampling")
    def needs() -> str:
        """Needs a client that samples."""
        return "sampled"


def _add_templates(server: Server) -> None:
    @server.resource(
        "weather://{city}/{days}",
        title="Weather",
        mime_type="application/json",
        icons=[ICON],
        meta={"a.example/t": 1},
        annotations=minimcp.Annotations(priority=1),
        complete={"city": ["Oslo", "Odense", "Bergen"]},
        ttl=2,
    )
    def weather(city: str, days: int, ctx: Context) -> Dict[str, Any]:
        """The weather of some days."""
        return {"city": city, "days": days, "method": ctx.method}

    @server.resource("weather://{place}/{word}")
    def words(place: str, word: str) -> str:
        """Takes what the first one does not."""
        return f"{place}: {word}"

    @server.resource("weather://oslo/1")
    def exactly() -> str:
        """A resource comes before the templates."""
        return "exactly"

    @server.resource("file:///{+path}")
    def file(path: str) -> str:
        """Slashes are welcome."""
        return path

    @server.resource("db://rows{?limit,colour,deep}")
    def rows(limit: int = 10, colour: Optional[Colour] = None, deep: bool = False) -> str:
        """Query variables have defaults."""
        return f"{limit} {colour} {deep}"

    @server.resource("item://{id}")
    def item(id: int) -> str:
        """Needs a number."""
        return f"item {id}"


def cities(value: str) -> List[str]:
    return [
        city for city in ("Oslo", "Odense", "Ålesund") if city.lower().startswith(value.lower())
    ]


def streets(value: str, arguments: Mapping[str, str]) -> List[str]:
    return [f"{arguments.get('city', 'nowhere')} {number}" for number in range(150)]


def whole(value: str) -> minimcp.Completion:
    return minimcp.Completion([value + each for each in "ab"], total=900, has_more=True)


def broken_completer(value: str) -> List[str]:
    raise ValueError("secret words")


def own_completer(value: str) -> List[str]:
    raise RpcError(9, "nine")


def wrong_completer(value: str) -> Any:
    return [value, 5]


def _add_prompts(server: Server) -> None:
    @server.prompt(
        title="Briefing",
        icons=[ICON],
        meta={"example.com/p": 1},
        complete={
            "city": cities,
            "street": streets,
            "part": whole,
            "broken": broken_completer,
            "own": own_completer,
            "wrong": wrong_completer,
        },
    )
    def briefing(
        city: str,
        tone: Tone = "plain",
        street: str = "",
        part: str = "",
        broken: str = "",
        own: str = "",
        wrong: str = "",
        free: str = "",
        shout: bool = False,
        colour: Colour = Colour.RED,
    ) -> str:
        """Brief somebody.

        Args:
            city: Name of the city.
            tone: The tone of the text.
        """
        text = f"{city} {tone} {colour.name}"
        return text.upper() if shout else text

    @server.prompt
    def typed(
        count: int, ctx: Context, ratio: float = 0.5, tags: Optional[List[str]] = None
    ) -> str:
        """Typed arguments."""
        return f"{count!r} {ratio!r} {tags!r} {ctx.method}"

    @server.prompt
    def talk() -> List[Any]:
        """Several messages."""
        return [
            "question",
            minimcp.Message("assistant", "answer"),
            minimcp.Image(PICTURE, "image/png"),
        ]

    @server.prompt
    def blocks() -> List[Any]:
        """Every kind of block."""
        return [
            minimcp.Audio(b"RIFF", "audio/wav"),
            minimcp.ResourceLink("notes://all", "notes"),
            minimcp.EmbeddedResource(TextResourceContents("notes://all", "inside")),
            minimcp.EmbeddedResource(minimcp.BlobResourceContents("bin://data", b"x")),
        ]

    @server.prompt(name="whole")
    def whole_prompt() -> minimcp.GetPromptResult:
        """A whole result."""
        return minimcp.GetPromptResult(
            [minimcp.Message("user", "all")], "described here", meta={"example.com/g": 1}
        )

    @server.prompt
    def broken() -> str:
        """Fails."""
        raise ValueError("secret words")

    @server.prompt
    def own() -> str:
        """An error of its own."""
        raise RpcError(7, "seven")

    @server.prompt
    def wrong():  # type: ignore[no-untyped-def]
        """Returns a value that is not a message."""
        return {"role": "user"}

    @server.prompt(requires=["sampling"])
    def needs() -> str:
        """Needs a client that samples."""
        return "sampled"


def _add_tools(server: Server) -> None:
    @server.tool
    def grow() -> str:
        """Register a resource while clients are connected."""
        server.add_resource(lambda: "added", "new://added", name="added")
        return "grown"


if __name__ == "__main__":
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)  # intended errors are not worth logging
    build(**json.loads(sys.argv[1])).run()
