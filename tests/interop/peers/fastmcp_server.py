"""Tools, resources, prompts and a question on a server of the package FastMCP.

Usage: fastmcp_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT; without, over stdio.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.prompts import Message
from fastmcp.utilities.types import Image
from typing_extensions import TypedDict

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d4944415478da6364f8cf500f00038601805a34da6b0000000049454e44ae426082"
)
TEXT = "alle: å"
TONES = ["plain", "formal", "friendly"]

server = FastMCP("interop", instructions="Tools of the interop grid.")


class Place(TypedDict):
    city: str
    tags: list[str]


class Weather(TypedDict):
    place: Place
    degrees: float


@dataclass
class Person:
    name: str
    age: int = 36


class Cancellations:
    """How many slow calls were cancelled, and somebody who waits for the next."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = anyio.Event()

    def add(self) -> None:
        self.count += 1
        self.changed.set()

    async def reach(self, expected: int) -> int:
        with anyio.move_on_after(5):
            while self.count < expected:
                self.changed = anyio.Event()
                await self.changed.wait()
        return self.count


cancelled = Cancellations()


@server.tool
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def weather(city: str) -> Weather:
    """Tell a nested record."""
    return {"place": {"city": city, "tags": ["å", "b"]}, "degrees": 21.5}


@server.tool
async def count(n: int, ctx: Context) -> str:
    """Report progress n times."""
    for i in range(1, n + 1):
        await ctx.report_progress(i, n, f"step {i}")
    return str(n)


@server.tool
def fail() -> str:
    """Fail always."""
    raise ToolError("this tool fails")


@server.tool
async def slow(seconds: float, ctx: Context) -> str:
    """Report once, then take the seconds."""
    await ctx.report_progress(1)
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        cancelled.add()
        raise
    return "done"


@server.tool
async def cancellations(expected: int) -> int:
    """Wait until so many slow calls were cancelled, and tell how many were."""
    return await cancelled.reach(expected)


@server.tool
def image() -> Image:
    """Give a picture of one pixel."""
    return Image(data=PIXEL, format="png")


@server.tool
async def note(text: str, ctx: Context) -> str:
    """Send one log message."""
    await ctx.info(text)
    return "noted"


@server.tool
async def ask_form(ctx: Context) -> str:
    """Ask who somebody is."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"accept {answer.data.name} {answer.data.age}" if answer.action == "accept" else answer.action


@server.resource("note://all", name="all", mime_type="text/plain")
def everything() -> str:
    """All notes."""
    return TEXT


@server.resource("note://pixel", name="pixel", mime_type="image/png")
def picture_of_one_pixel() -> bytes:
    """A picture of one pixel."""
    return PIXEL


@server.resource("note://by-id/{number}", name="by_id", mime_type="text/plain")
def by_id(number: int) -> str:
    """One note."""
    return f"note {number}"


@server.prompt
def greet(name: str, tone: str = "plain") -> str:
    """Greet somebody."""
    return f"Greet {name} in a {tone} tone"


@server.prompt
def picture() -> list[Message]:
    """Look at a picture."""
    resource: Any = types.TextResourceContents(uri="note://all", mime_type="text/plain", text=TEXT)
    return [
        Message("Look:"), Message(Image(data=PIXEL, format="png").to_image_content()),
        Message(types.EmbeddedResource(type="resource", resource=resource), role="assistant"),
    ]


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Any:
    return types.Completion(values=[tone for tone in TONES if tone.startswith(argument.value)])


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run(sys.argv[1], show_banner=False, host="127.0.0.1", port=int(os.environ["PORT"]))
    else:
        server.run("stdio", show_banner=False)
