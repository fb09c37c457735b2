"""The shared tools on a minimcp server, for foreign clients.

Usage: our_server.py LIFE [WAY] where LIFE is a file that gets one line when the server starts and
    one when it has exited normally, so a missing line shows that it was killed. WAY is "http" or
    "sse", at the port in the variable PORT; without WAY it serves over stdio. Several processes
    share a store, a file or Redis, if MINIMCP_SHARED_STORE names it.
"""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from minimcp import Cancelled, Context, Image, RpcError, Server, ToolError  # noqa: E402
from tests.interop.our_features import add_all  # noqa: E402
from tests.redis_server import store_at  # noqa: E402
from tests.support import eventually  # noqa: E402

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
OF_ONE = "each process has tools of its own"
PLACE = os.environ.get("MINIMCP_SHARED_STORE", "")
BOUND = 5.0  # seconds that a tool waits for another call, at most

server = Server(
    "interop",
    version="0",
    instructions="Tools of the interop grid.",
    page_size=2,
    list_ttl=30,
    list_cache_scope="public",
    store=store_at(PLACE) if PLACE else None,
)


@dataclass
class Place:
    city: str
    tags: list[str]


@dataclass
class Weather:
    place: Place
    degrees: float


def one_of_several(ctx: Context, call_next: Callable[[], Any]) -> Any:
    """Reject calls that would change the lists of only this process."""
    if ctx.method == "tools/call" and ctx.params["name"] in ("grow", "shrink"):
        raise RpcError(-32000, OF_ONE)
    return call_next()


def write_line(path: str, line: str) -> None:
    """Append a line in one piece: there may be several of us, each a process."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Marks:
    """A list of words in a file, which every process of this server reads."""

    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, word: str) -> None:
        write_line(self._path, word)

    def count(self, word: str) -> int:
        path = Path(self._path)
        return path.read_text("utf-8").split().count(word) if path.exists() else 0

    def reach(self, word: str, expected: int) -> int:
        """Wait until a word occurs this many times, and return the number."""
        eventually(lambda: self.count(word) >= expected, BOUND)
        return self.count(word)


def add_tools() -> None:
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
        return Weather(Place(city, ["å", "b"]), 21.5)

    @server.tool
    def count(n: int, ctx: Context, hold: bool = False) -> str:
        """Report progress n times; with hold, answer only after a release."""
        released = marks.count("released")
        for i in range(1, n + 1):
            ctx.progress(i, n, f"step {i}")
        if hold:
            marks.reach("released", released + 1)
        return str(n)

    @server.tool
    def release() -> str:
        """Let a count answer that holds."""
        marks.add("released")
        return "released"

    @server.tool
    def fail() -> str:
        """Fail always."""
        raise ToolError("this tool fails")

    @server.tool
    def slow(seconds: float, ctx: Context) -> str:
        """Report once, then take the seconds."""
        ctx.progress(1)
        try:
            ctx.sleep(seconds)
        except Cancelled:
            marks.add("cancelled")
            raise
        return "done"

    @server.tool
    def cancellations(expected: int) -> int:
        """Wait until this many slow calls were cancelled, and return the number."""
        return marks.reach("cancelled", expected)

    @server.tool
    def image() -> Image:
        """Give a picture of one pixel."""
        return Image(PIXEL, "image/png")

    @server.tool
    def note(text: str, ctx: Context) -> str:
        """Send one log message."""
        ctx.info(text)
        return "noted"


if __name__ == "__main__":
    marks = Marks(sys.argv[1] + ".marks")
    add_tools()
    add_all(server, PIXEL, marks)
    if PLACE:
        server.middleware(one_of_several)
    write_line(sys.argv[1], "started")
    if sys.argv[2:]:
        server.run(sys.argv[2], port=int(os.environ["PORT"]))
    else:
        server.run()
    write_line(sys.argv[1], "ended")
