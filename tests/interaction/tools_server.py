"""The server of tests/interaction/test_tools.py: one tool for everything that a tool can do.

``python -m tests.interaction.tools_server '{"page_size": 2}'`` serves it over stdio; `build` makes it for memory.
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
from typing import Annotated, Any, Dict, List, NamedTuple, Optional, TypedDict, Union

from minimcp import (
    Audio,
    CallToolResult,
    ConnectionLost,
    Context,
    EmbeddedResource,
    Image,
    InvalidParams,
    ResourceLink,
    RpcError,
    Server,
    Text,
    ToolError,
    UrlElicitationRequired,
    current_context,
)
from minimcp.errors import error_from_peer
from minimcp.types import Annotations, Icon, TextResourceContents


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


def text() -> str:
    """Some text."""
    return "plain"


def annotated() -> Annotated[str, "words"]:
    """Some text, annotated."""
    return "words"


def forced() -> str:
    """Some text as structured content."""
    return "forced"


def unstructured() -> Dict[str, int]:
    """A dict as text only."""
    return {"a": 1}


def block() -> Text:
    """One block."""
    return Text("in a block", annotations=Annotations(priority=1))


def picture() -> Image:
    """A picture."""
    return Image(PICTURE, "image/png")


def sound() -> Audio:
    """A sound."""
    return Audio(SOUND, "audio/wav", annotations=Annotations(audience=["user"]))


def link() -> ResourceLink:
    """A link."""
    return LINK


def embedded() -> EmbeddedResource:
    """An embedded resource."""
    return EmbeddedResource(TextResourceContents("file:///a.txt", "inside"))


def several() -> List[Union[str, Image, Text]]:
    """Texts and blocks."""
    return ["first", Image(PICTURE, "image/png"), Text("last")]


def no_blocks() -> List[Text]:
    """A list of blocks that is empty."""
    return []


def no_picture() -> Optional[Image]:
    """No picture."""
    return None


def day() -> Day:
    """A dataclass."""
    return Day("Monday")


def typed() -> Typed:
    """A TypedDict."""
    return {"count": 3}


def pair() -> Pair:
    """A NamedTuple."""
    return Pair(1, "x")


def mapping() -> Dict[str, Any]:
    """A dict."""
    return {"deep": [1, {"x": None}]}


def numbers() -> List[int]:
    """A list."""
    return [1, 2]


def number() -> float:
    """A number."""
    return 2.5


def flag() -> bool:
    """A flag."""
    return False


def nothing() -> None:
    """Nothing."""


def colour() -> Colour:
    """An Enum."""
    return Colour.BLUE


def date() -> datetime.date:
    """A date."""
    return datetime.date(2026, 7, 28)


def path() -> PurePosixPath:
    """A path."""
    return PurePosixPath("/a/b")


def loose():  # type: ignore[no-untyped-def]
    """A dict that nobody announced."""
    return {"loose": True}


def anything() -> Any:
    """A list that nobody announced."""
    return ["any"]


def by_hand() -> Dict[str, Any]:
    """Its output schema is written by hand, and is no object's."""
    return {"even": 2}


def whole() -> CallToolResult:
    """A whole result."""
    return CallToolResult(
        [Text("whole"), Audio(SOUND, "audio/wav")], structured_content={"a": 1}, meta={"example.com/x": 1}
    )


def whole_list() -> CallToolResult:
    """A whole result whose structured content is no object."""
    return CallToolResult([Text("list")], structured_content=[1])


def whole_bare() -> CallToolResult:
    """A whole result with nothing but a failure."""
    return CallToolResult([Text("no")], is_error=True)


def liar() -> int:
    """Promises a number."""
    return "one"  # type: ignore[return-value]


def any_blocks() -> List[Any]:
    """Promises a list of anything."""
    return [Text("a block"), ResourceLink("a:b", "b")]


def blocks_for_a_list() -> List[int]:
    """Promises a list of values."""
    return [Text("a block")]  # type: ignore[list-item]


def raw():  # type: ignore[no-untyped-def]
    """Bytes."""
    return b"raw"


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


FAILURES = {
    "tool": lambda: ToolError("told you"),
    "content": lambda: ToolError("unused", content=["words", Image(PICTURE, "image/png"), LINK]),
    "content-wrong": lambda: ToolError("unused", content=[5]),
    "params": lambda: InvalidParams("not this", {"field": "how"}),
    "url": lambda: UrlElicitationRequired("open it", {"elicitations": []}),
    "old": lambda: RpcError(-32003, "it failed", [2]),
    "own": lambda: RpcError(7, "seven", [1]),
    "quota": lambda: RpcError(-32050, "quota exceeded", {"left": 0}),
    "unfit": lambda: RpcError(8, "eight", {1, 2}),
    "peer": lambda: error_from_peer(-32602, "the other server says no"),
    "lost": lambda: ConnectionLost("the other server is gone"),
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


def hinted() -> str:
    """All that a tool can say about itself."""
    return ""


def annotated_title() -> str:
    """Its title stands among the annotations as well."""
    return ""


def needs() -> str:
    """Needs a client that samples."""
    return "sampled"


def needs_extension() -> str:
    """Needs a client with an extension."""
    return "extended"


def pooled(ctx: Context) -> str:
    """Runs on a worker of its own."""
    return "pooled"


def endless(ctx: Context) -> str:
    """Longer than it may."""
    ctx.sleep(60)
    return "never"


def careless(ctx: Context) -> str:
    """Does not notice that its time is over until it has returned."""
    waiting_for_the_end(ctx)
    return "too late"


def quick() -> str:
    """Within its time."""
    return "in time"


def waiting_for_the_end(ctx: Context) -> None:
    over = threading.Event()
    ctx.on_cancel(over.set)
    over.wait(20)


def about(ctx: Context) -> Dict[str, Any]:
    """What a handler sees."""
    current = current_context()
    info = ctx.client.info
    return {
        "revision": ctx.revision,
        "id": ctx.request_id,
        "method": ctx.method,
        "name": ctx.params["name"],
        "meta": {key: value for key, value in ctx.meta.items() if key.startswith("example.com/")},
        "session": ctx.session is not None,
        "server": ctx.server.name,
        "client": None if info is None else [info.name, info.version],
        "capabilities": sorted(ctx.client.capabilities),
        "extension": ctx.client.supports("ext:com.example/x"),
        "cancelled": ctx.cancelled,
        "same": current.request_id == ctx.request_id and repr(current) == repr(ctx),
    }


def count(ctx: Context) -> int:
    """Count the calls of a session."""
    if ctx.session is None:
        return 0
    ctx.session["count"] = ctx.session.get("count", 0) + 1
    return int(ctx.session["count"])


def report(ctx: Context, steps: int = 3) -> str:
    """Report progress."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps, f"step {step}")
    ctx.progress(1, steps)  # does not increase
    return "done"


def talk(ctx: Context) -> str:
    """Say something on every level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        getattr(ctx, level)(level)
    ctx.log("emergency", {"end": True}, "bell")
    return "said"


def shout(ctx: Context) -> str:
    """Use a level that there is not."""
    ctx.log("loud", "x")
    return "never"


cancels: Dict[str, List[str]] = {}


def wait(ctx: Context, key: str) -> str:
    """Wait until it is cancelled, and note what was seen then."""
    seen = cancels.setdefault(key, [])
    called = threading.Event()
    ctx.on_cancel(called.set)
    ctx.progress(1)
    try:
        ctx.sleep(60)
    except Exception as error:
        seen.append(type(error).__name__)
        for ask in (ctx.check, lambda: ctx.progress(2), lambda: ctx.info("x")):
            try:
                ask()
            except Exception as later:
                seen.append(type(later).__name__)
        late = threading.Event()
        ctx.on_cancel(late.set)
        seen.append(str(called.wait(20) and late.wait(20) and ctx.cancelled))
        raise
    return "never"


def seen(key: str) -> List[str]:
    """What `wait` noted."""
    return cancels.get(key, [])


def added() -> str:
    """Was added while the client was connected."""
    return "added"


def grow(ctx: Context) -> str:
    """Add a tool."""
    ctx.server.add_tool(added)
    return "grown"


def shrink(ctx: Context) -> str:
    """Remove it."""
    ctx.server.remove_tool("added")
    return "shrunk"


OPTIONS: Dict[Any, Dict[str, Any]] = {
    forced: {"structured": True},
    unstructured: {"structured": False},
    by_hand: {"output_schema": {"$ref": "#/definitions/even", "definitions": {"even": {"required": ["even"]}}}},
    by_schema: {
        "input_schema": {
            "type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}, "required": ["size"],
        },
    },
    hinted: {
        "title": "A title",
        "description": "Described",
        "annotations": {"read_only_hint": True},
        "icons": [Icon("https://example.com/i.png")],
        "meta": {"example.com/m": 1},
    },
    annotated_title: {"title": "Outer", "annotations": {"title": "Inner"}},
    needs: {"requires": "sampling.tools"},
    needs_extension: {"requires": ["ext:com.example/x"]},
    endless: {"timeout": 0.05},
    careless: {"timeout": 0.05},
    quick: {"timeout": 60},
}

TOOLS = (
    text, annotated, forced, unstructured, block, picture, sound, link, embedded, several, no_blocks, no_picture, day,
    typed, pair, mapping, numbers, number, flag, nothing, colour, date, path, loose, anything, by_hand, whole,
    whole_list, whole_bare, liar, any_blocks, blocks_for_a_list, raw, fail, forecast, by_schema, hinted,
    annotated_title, needs, needs_extension, pooled, endless, careless, quick, about, count, report, talk, shout, wait,
    seen, grow, shrink,
)
NAMES = [tool.__name__ for tool in TOOLS]


def build(**options: Any) -> Server:
    """The server, with options of its own."""
    server = Server("tools", version="1.2", **options)
    for tool in TOOLS:
        server.add_tool(tool, **OPTIONS.get(tool, {}))
    return server


if __name__ == "__main__":
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)  # what the tools do wrong on purpose is no news
    build(**json.loads(sys.argv[1])).run()
