"""The shared tools, and resources, prompts and a question, on a server of the package FastMCP.

Usage: fastmcp_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT; without, over stdio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from fastmcp.prompts import Message
from python_tools import PIXEL, Context, Image, Server, add_tools, way_and_port

TEXT = "alle: å"
TONES = ["plain", "formal", "friendly"]

server = Server("interop", instructions="Tools of the interop grid.")
add_tools(server)


@dataclass
class Person:
    name: str
    age: int = 36


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
    way, port = way_and_port()
    where = {} if way == "stdio" else {"host": "127.0.0.1", "port": port}
    server.run(way, show_banner=False, **where)
