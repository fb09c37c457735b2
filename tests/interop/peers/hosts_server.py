"""A server with a tool for each kind of content, for hosts.

If the variable ROWS is set, the program is replaced by `minimcp trace`, which starts this server and
records the messages in a file: the value of ROWS, a dot and the number of the process.
"""

import os
import sys
import time

from minimcp import Audio, Context, EmbeddedResource, Image, ResourceLink, Server, Text, ToolError
from minimcp.types import TextResourceContents

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
WAV = b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data\0\0\0\0"

server = Server("proof", version="1")


@server.tool
def words(text: str, count: int = 1) -> str:
    """Repeat a text."""
    return " ".join([text] * count)


@server.tool
def facts(city: str) -> dict:
    """Return structured content."""
    return {"city": city, "degrees": 3}


@server.tool
def picture():
    """Return an image after a text."""
    return [Text("a picture:"), Image(PNG, "image/png")]


@server.tool
def sound():
    """Return audio."""
    return Audio(WAV, "audio/wav")


@server.tool
def link():
    """Return a link to a resource."""
    return ResourceLink("file:///proof/link.txt", "the link")


@server.tool
def embedded():
    """Return an embedded resource."""
    return EmbeddedResource(TextResourceContents("proof://embedded", text="the embedded text"))


@server.tool
def work(ctx: Context) -> str:
    """Report progress."""
    for step in range(1, 4):
        ctx.progress(step, 3, f"step {step}")
        time.sleep(0.2)
    return "the work is done"


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("out of stock")


@server.tool
def ask(ctx: Context) -> str:
    """Ask the user."""
    if not ctx.client.supports("elicitation.form"):
        return "nobody can be asked"
    answer = ctx.elicit("How many?", {"count": int})
    return f"{answer.action} {answer.content}" if answer.action == "accept" else answer.action


if __name__ == "__main__":
    rows = os.environ.pop("ROWS", None)
    if rows:
        file = f"{rows}.{os.getpid()}"
        trace = ["-m", "minimcp", "trace", "--json", "--output", file, "--"]
        os.execv(sys.executable, [sys.executable, *trace, sys.executable, __file__])
    server.run()
