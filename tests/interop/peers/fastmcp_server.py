"""The shared tools, and resources, prompts and a question, on a server of the package FastMCP.

Usage: fastmcp_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT;
without, over stdio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mcp_types as types
from fastmcp.prompts import Message
from python_tools import (
    PIXEL,
    TEXT,
    TONES,
    Context,
    Image,
    Server,
    add_notes,
    add_tools,
    way_and_port,
)

server = Server("interop", instructions="Tools of the interop grid.")
add_tools(server)
add_notes(server)


@dataclass
class Person:
    name: str
    age: int = 36


@server.tool
async def ask_form(ctx: Context) -> str:
    """Ask who somebody is."""
    answer = await ctx.elicit("Who are you?", Person)
    return (
        f"accept {answer.data.name} {answer.data.age}"
        if answer.action == "accept"
        else answer.action
    )


@server.prompt
def picture() -> list[Message]:
    """Look at a picture."""
    resource: Any = types.TextResourceContents(uri="note://all", mime_type="text/plain", text=TEXT)
    return [
        Message("Look:"),
        Message(Image(data=PIXEL, format="png").to_image_content()),
        Message(types.EmbeddedResource(type="resource", resource=resource), role="assistant"),
    ]


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Any:
    return types.Completion(values=[tone for tone in TONES if tone.startswith(argument.value)])


if __name__ == "__main__":
    way, port = way_and_port()
    where = {} if way == "stdio" else {"host": "127.0.0.1", "port": port}
    server.run(way, show_banner=False, **where)
