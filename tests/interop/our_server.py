"""The shared tools on a minimcp server, for foreign clients.

Usage: our_server.py LIFE [WAY] where LIFE is a file that gets one line when the server starts and one when it has
ended by itself: a server that had to be killed is seen by its missing line. WAY is "http" or "sse", at the port in
the variable PORT; without, it serves over stdio.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from minimcp import Cancelled, Context, Image, Server, ToolError  # noqa: E402
from tests.interop.our_features import add_all  # noqa: E402

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
BOUND = 5.0  # seconds that a tool waits for another call, at most

server = Server(
    "interop", version="0", instructions="Tools of the interop grid.", page_size=2, list_ttl=30,
    list_cache_scope="public",
)
add_all(server, PIXEL)


@dataclass
class Place:
    city: str
    tags: list[str]


@dataclass
class Weather:
    place: Place
    degrees: float


class Cancellations:
    """How many slow calls were cancelled; `reach` waits for the next."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    def add(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def reach(self, expected: int) -> int:
        with self._changed:
            self._changed.wait_for(lambda: self._count >= expected, BOUND)
            return self._count


cancelled = Cancellations()
held: list[threading.Event] = []


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
    released = threading.Event()
    held.append(released)
    for i in range(1, n + 1):
        ctx.progress(i, n, f"step {i}")
    if hold:
        released.wait(BOUND)
    return str(n)


@server.tool
def release() -> str:
    """Let the last count answer."""
    held[-1].set()
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
        cancelled.add()
        raise
    return "done"


@server.tool
def cancellations(expected: int) -> int:
    """Wait until so many slow calls were cancelled, and tell how many were."""
    return cancelled.reach(expected)


@server.tool
def image() -> Image:
    """Give a picture of one pixel."""
    return Image(PIXEL, "image/png")


@server.tool
def note(text: str, ctx: Context) -> str:
    """Send one log message."""
    ctx.info(text)
    return "noted"


def write_life(line: str) -> None:
    """Append a line in one piece: a client that probes on a process of its own starts two of us."""
    descriptor = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


if __name__ == "__main__":
    write_life("started")
    if sys.argv[2:]:
        server.run(sys.argv[2], port=int(os.environ["PORT"]))
    else:
        server.run()
    write_life("ended")
