"""The shared tools on a server of the official Python SDK, 1.x or 2.x.

Usage: python_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT; without, over stdio.
"""

from __future__ import annotations

import base64
import os
import sys

import anyio
from mcp.server.stdio import stdio_server
from python_features import OPTIONS, Features
from typing_extensions import TypedDict

try:
    from python_questions_2 import add_questions
except ImportError:
    from python_questions_1 import add_questions

try:
    from mcp.server.mcpserver import Context, Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as MCPServer, Image
    from mcp.server.fastmcp.exceptions import ToolError

ENCODED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PIXEL = base64.b64decode(ENCODED)

server = MCPServer("interop", instructions="Tools of the interop grid.", **OPTIONS)
features = Features(server, PIXEL, ENCODED)
add_questions(server)


class Place(TypedDict):
    city: str
    tags: list[str]


class Weather(TypedDict):
    place: Place
    degrees: float


class Cancellations:
    """How many slow calls were cancelled, and somebody who waits for the next."""

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


@server.tool()
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def weather(city: str) -> Weather:
    """Tell a nested record."""
    return {"place": {"city": city, "tags": ["å", "b"]}, "degrees": 21.5}


@server.tool()
async def count(n: int, ctx: Context, hold: bool = False) -> str:
    """Report progress n times; with hold, answer only after a release."""
    held.append(anyio.Event())
    for i in range(1, n + 1):
        await ctx.report_progress(i, n, f"step {i}")
    with anyio.move_on_after(5 if hold else 0):
        await held[-1].wait()
    return str(n)


@server.tool()
async def release() -> str:
    """Let the last count answer."""
    held[-1].set()
    return "released"


@server.tool()
def fail() -> str:
    """Fail always."""
    raise ToolError("this tool fails")


@server.tool()
async def slow(seconds: float, ctx: Context) -> str:
    """Report once, then take the seconds."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        cancelled.add()
        raise
    return "done"


@server.tool()
async def cancellations(expected: int) -> int:
    """Wait until so many slow calls were cancelled, and tell how many were."""
    return await cancelled.reach(expected)


@server.tool()
def image() -> Image:
    """Give a picture of one pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
async def note(text: str, ctx: Context) -> str:
    """Send one log message."""
    await ctx.info(text)
    return "noted"


async def serve() -> None:
    async with stdio_server() as (reading, writing):
        await features.low.run(reading, writing, features.initialization())


def serve_web(way: str) -> None:
    import uvicorn

    # Its transports over HTTP ask the low-level server what to declare.
    declared = features.initialization()
    features.low.create_initialization_options = lambda *args, **options: declared
    app = server.sse_app() if way == "sse" else server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    serve_web(sys.argv[1]) if sys.argv[1:] else anyio.run(serve)
