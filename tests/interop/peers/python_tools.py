"""The shared tools on any server of a Python package: FastMCP's, or the official SDK's, 1.x or 2.x."""

from __future__ import annotations

import base64
import os
import sys
from typing import Any

import anyio
from mcp.shared.exceptions import UrlElicitationRequiredError
from pydantic import BaseModel
from typing_extensions import TypedDict

try:
    import mcp_types as types
except ImportError:
    from mcp import types

try:
    from fastmcp import Context, FastMCP as Server
    from fastmcp.exceptions import ToolError
    from fastmcp.utilities.types import Image
except ImportError:
    try:
        from mcp.server.mcpserver import Context, Image, MCPServer as Server
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        from mcp.server.fastmcp import Context, FastMCP as Server, Image
        from mcp.server.fastmcp.exceptions import ToolError

__all__ = [
    "ENCODED", "PIXEL", "TEXT", "TONES", "URL", "Age", "Context", "Image", "Person", "Server", "add_notes", "add_tools",
    "need_url", "said", "types", "way_and_port",
]  # fmt: skip

ENCODED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PIXEL = base64.b64decode(ENCODED)


class Place(TypedDict):
    city: str
    tags: list[str]


class Weather(TypedDict):
    place: Place
    degrees: float


class Cancellations:
    """Counts cancelled slow calls, and wakes a caller that waits for the next one."""

    def __init__(self) -> None:
        self.count = 0
        self.changed: anyio.Event | None = None

    def add(self) -> None:
        self.count += 1
        if self.changed is not None:
            self.changed.set()

    async def reach(self, expected: int) -> int:
        with anyio.move_on_after(5):
            while self.count < expected:
                self.changed = anyio.Event()
                await self.changed.wait()
        return self.count


cancelled = Cancellations()
held: list[anyio.Event] = []


def echo(text: str) -> str:
    """Give the text back."""
    return text


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def weather(city: str) -> Weather:
    """Tell a nested record."""
    return {"place": {"city": city, "tags": ["å", "b"]}, "degrees": 21.5}


async def count(n: int, ctx: Context, hold: bool = False) -> str:
    """Report progress n times; with hold, answer only after a release."""
    held.append(anyio.Event())
    for i in range(1, n + 1):
        await ctx.report_progress(i, n, f"step {i}")
    with anyio.move_on_after(5 if hold else 0):
        await held[-1].wait()
    return str(n)


async def release() -> str:
    """Let the last count answer."""
    held[-1].set()
    return "released"


def fail() -> str:
    """Fail always."""
    raise ToolError("this tool fails")


async def slow(seconds: float, ctx: Context) -> str:
    """Report once, then take the seconds."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        cancelled.add()
        raise
    return "done"


async def cancellations(expected: int) -> int:
    """Wait until so many slow calls were cancelled, and tell how many were."""
    return await cancelled.reach(expected)


def image() -> Image:
    """Give a picture of one pixel."""
    return Image(data=PIXEL, format="png")


async def note(text: str, ctx: Context) -> str:
    """Send one log message."""
    await ctx.info(text)
    return "noted"


URL = "https://example.com/open?a=1"
opened: list[bool] = []


class Person(BaseModel):
    name: str
    age: int = 36


class Age(BaseModel):
    age: int


def said(role: str, *content: Any) -> types.SamplingMessage:
    return types.SamplingMessage.model_validate({"role": role, "content": list(content)})


def need_url() -> str:
    """Answer the second call only: the first one needs a URL to be opened."""
    if not opened:
        opened.append(True)
        asked = {"mode": "url", "message": "First this", "url": URL, "elicitationId": "interop-2"}
        raise UrlElicitationRequiredError([types.ElicitRequestURLParams.model_validate(asked)])
    return "opened"


TEXT = "alle: å"
TONES = ["plain", "formal", "friendly"]


def everything() -> str:
    """All notes."""
    return TEXT


def one_pixel() -> bytes:
    """A picture of one pixel."""
    return PIXEL


def by_id(number: int) -> str:
    """One note."""
    return f"note {number}"


def greet(name: str, tone: str = "plain") -> str:
    """Greet somebody."""
    return f"Greet {name} in a {tone} tone"


def add_notes(server: Any) -> None:
    server.resource("note://all", name="all", mime_type="text/plain")(everything)
    server.resource("note://pixel", name="pixel", mime_type="image/png")(one_pixel)
    server.resource("note://by-id/{number}", name="by_id", mime_type="text/plain")(by_id)
    server.prompt()(greet)


def add_tools(server: Any) -> None:
    for tool in (echo, add, weather, count, release, fail, slow, cancellations, image, note):
        server.tool()(tool)


def way_and_port() -> tuple[str, int]:
    """How to serve: "stdio", or "http" or "sse" at a port."""
    return (sys.argv[1] if sys.argv[1:] else "stdio"), int(os.environ.get("PORT", "0"))
