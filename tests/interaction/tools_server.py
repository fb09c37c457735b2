"""The server of tests/interaction/test_tools.py: one tool for everything that a tool can do.

``python -m tests.interaction.tools_server '{"page_size": 2}'`` serves it over stdio; `build` makes
it for memory.
"""

from __future__ import annotations

import datetime
import enum
import json
import logging
import sys
import threading
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Callable, Dict, List, NamedTuple, TypedDict

import minimcp
from minimcp import Context, Image, RpcError, Text, ToolError
from minimcp.errors import error_from_peer
from minimcp.types import (
    Annotations,
    Audio,
    EmbeddedResource,
    Icon,
    ResourceLink,
    TextResourceContents,
)


@dataclass
class Day:
    name: str
    degrees: float = 1.5


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: int
    right: str


class Typed(TypedDict):
    count: int


PICTURE, SOUND = b"\x89PNG\x00", b"RIFF\xff"
LINK = ResourceLink("file:///notes.txt", "notes")


def giving(name: str, kind: Any, value: Any, description: str) -> Callable[[], Any]:
    """Make a tool that returns this value, with this return annotation; `Ellipsis` means none."""

    def tool() -> Any:
        return value

    tool.__name__ = tool.__qualname__ = name
    tool.__doc__ = description
    tool.__annotations__ = {} if kind is ... else {"return": kind}
    return tool


GIVING = {
    name: giving(name, kind, value, description)
    for name, kind, value, description in (
        ("text", str, "plain", "Some text."),
        ("annotated", Annotated[str, "words"], "words", "Some text, annotated."),
        ("forced", str, "forced", "Some text as structured content."),
        ("block", Text, Text("in a block", annotations=Annotations(priority=1)), "One block."),
        ("picture", Image, Image(PICTURE, "image/png"), "A picture."),
        (
            "sound",
            Audio,
            Audio(SOUND, "audio/wav", annotations=Annotations(audience=["user"])),
            "A sound.",
        ),
        ("link", ResourceLink, LINK, "A link."),
        (
            "embedded",
            EmbeddedResource,
            EmbeddedResource(TextResourceContents("file:///a.txt", "inside")),
            "Embedded.",
        ),
        ("day", Day, Day("Monday"), "A dataclass."),
        ("typed", Typed, {"count": 3}, "A TypedDict."),
        ("pair", Pair, Pair(1, "x"), "A NamedTuple."),
        ("mapping", Dict[str, Any], {"deep": [1, {"x": None}]}, "A dict."),
        ("numbers", List[int], [1, 2], "A list."),
        ("number", float, 2.5, "A number."),
        ("flag", bool, False, "A flag."),
        ("nothing", None, None, "Nothing."),
        ("colour", Colour, Colour.BLUE, "An Enum."),
        ("date", datetime.date, datetime.date(2026, 7, 28), "A date."),
        ("path", PurePosixPath, PurePosixPath("/a/b"), "A path."),
        ("loose", ..., {"loose": True}, "A dict that nobody announced."),
        ("anything", Any, ["any"], "A list that nobody announced."),
        (
            "by_hand",
            Dict[str, Any],
            {"even": 2},
            "Its output schema is written by hand, and is no object's.",
        ),
        ("liar", int, "one", "Promises a number."),
        ("blocks_for_a_list", List[int], [Text("a block")], "Promises a list of values."),
        ("raw", ..., b"raw", "Bytes."),
        ("hinted", str, "", "All that a tool can say about itself."),
        ("annotated_title", str, "", "Its title stands among the annotations as well."),
        ("needs", str, "sampled", "Needs a client that samples."),
        ("needs_extension", str, "extended", "Needs a client with an extension."),
        ("quick", str, "in time", "Within its time."),
        ("added", str, "added", "Was added while the client was connected."),
    )
}


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


FAILURES = {
    "tool": lambda: ToolError("told you"),
    "content": lambda: ToolError("unused", content=["words", Image(PICTURE, "image/png"), LINK]),
    "content-wrong": lambda: ToolError("unused", content=[5]),
    "params": lambda: minimcp.InvalidParams("not this", {"field": "how"}),
    "declined": lambda: minimcp.Declined("not now"),
    "url": lambda: minimcp.UrlElicitationRequired("open it", {"elicitations": []}),
    "old": lambda: RpcError(-32003, "it failed", [2]),
    "own": lambda: RpcError(7, "seven", [1]),
    "quota": lambda: RpcError(-32050, "quota exceeded", {"left": 0}),
    "unfit": lambda: RpcError(8, "eight", {1, 2}),
    "peer": lambda: error_from_peer(-32602, "the other server says no"),
    "lost": lambda: minimcp.ConnectionLost("the other server is gone"),
    "value": lambda: ValueError("secret words"),
    "empty": lambda: KeyError(),
    "odd": Odd,
    "exit": lambda: SystemExit(3),
    "surrogate": lambda: ValueError("half \ud800"),
}


def fail(how: str) -> str:
    """Fail in one of many ways."""
    raise FAILURES[how]()


def forecast(city: str, ctx: Context, days: int = 3, unit: Colour = Colour.RED) -> str:
    """Take arguments.

    Args:
        city: Name of the city.
    """
    return f"{city} {days} {unit.name} {ctx.method}"


def by_schema(size: int = 0, word: str = "") -> str:
    """Its input schema is written by hand."""
    return f"{size!r} {word!r}"


def endless(ctx: Context) -> str:
    """Longer than it may."""
    ctx.sleep(60)
    return "never"


def careless(ctx: Context) -> str:
    """Does not notice that its time is over until it has returned."""
    waiting_for_the_end(ctx)
    return "too late"


def waiting_for_the_end(ctx: Context) -> None:
    over = threading.Event()
    ctx.on_cancel(over.set)
    over.wait(20)


def count(ctx: Context) -> int:
    """Count the calls of a session."""
    if ctx.session is None:
        return 0
    ctx.session["count"] = ctx.session.get("count", 0) + 1
    return int(ctx.session["count"])


def grow(ctx: Context) -> str:
    """Add a tool."""
    ctx.server.add_tool(GIVING["added"])
    return "grown"


def shrink(ctx: Context) -> str:
    """Remove it."""
    ctx.server.remove_tool("added")
    return "shrunk"


OPTIONS: Dict[str, Dict[str, Any]] = {
    "forced": {"structured": True},
    "by_hand": {
        "output_schema": {
            "$ref": "#/definitions/even",
            "definitions": {"even": {"required": ["even"]}},
        }
    },
    "by_schema": {
        "input_schema": {
            "type": "object",
            "properties": {"size": {"type": "integer", "minimum": 1}},
            "required": ["size"],
        },
    },
    "hinted": {
        "title": "A title",
        "description": "Described",
        "annotations": {"read_only_hint": True},
        "icons": [Icon("https://example.com/i.png")],
        "meta": {"example.com/m": 1},
    },
    "annotated_title": {"title": "Outer", "annotations": {"title": "Inner"}},
    "needs": {"requires": "sampling.tools"},
    "needs_extension": {"requires": ["ext:com.example/x"]},
    "endless": {"timeout": 0.05},
    "careless": {"timeout": 0.05},
    "quick": {"timeout": 60},
}

TOOLS = (
    *(tool for name, tool in GIVING.items() if name != "added"),
    fail,
    forecast,
    by_schema,
    endless,
    careless,
    count,
    grow,
    shrink,
)
NAMES = [tool.__name__ for tool in TOOLS]


def build(**options: Any) -> minimcp.Server:
    """The server, with options of its own."""
    server = minimcp.Server("tools", version="1.2", **options)
    for tool in TOOLS:
        server.add_tool(tool, **OPTIONS.get(tool.__name__, {}))
    return server


if __name__ == "__main__":
    logging.getLogger("minimcp").setLevel(
        logging.CRITICAL
    )  # intended errors of the tools are not worth logging
    build(**json.loads(sys.argv[1])).run()
