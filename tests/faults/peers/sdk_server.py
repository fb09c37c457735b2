"""The official Python SDK's server, 1.x or 2.x, with the tools that the fault runner asks for.

With a port as its argument it serves over HTTP there, else over stdin and stdout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import anyio

try:
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context

    PORT: dict[str, int] = {}
except ImportError:
    from mcp.server.fastmcp import Context, FastMCP as MCPServer

    PORT = {"port": int(sys.argv[1])} if sys.argv[1:] else {}

server = MCPServer("sdk", log_level="ERROR", **PORT)


def tool(function: Any) -> Any:
    """A tool whose result is text alone."""
    return server.tool(structured_output=False)(function)


@tool
def echo(text: str) -> str:
    """Give the text back."""
    return text


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def big(size: int) -> str:
    """A text of this many characters."""
    return "x" * size


@tool
async def slow(seconds: float) -> str:
    """Sleep as a tool should."""
    await anyio.sleep(seconds)
    return "slept"


@tool
def deaf_slow(seconds: float) -> str:
    """Sleep as a tool should not."""
    time.sleep(seconds)
    return "slept"


@tool
def never() -> str:
    """Never return."""
    while True:
        time.sleep(60)


class Wordless(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@tool
def raiser(kind: str) -> str:
    """Raise this."""
    kinds = (SystemExit, KeyboardInterrupt, MemoryError, RecursionError, GeneratorExit, Wordless)
    raise {one.__name__: one for one in kinds}[kind]()


class Unprintable:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def _cycle() -> list[Any]:
    knot: list[Any] = []
    knot.append(knot)
    return knot


def _deep() -> Any:
    found: Any = 1
    for _ in range(100_000):
        found = [found]
    return found


RETURNED = {
    "nan": lambda: float("nan"), "infinity": lambda: {"x": [float("inf")]}, "bytes": lambda: b"raw", "cycle": _cycle,
    "unprintable": Unprintable, "surrogate": lambda: "\ud800", "deep": _deep, "large": lambda: "x" * 10_000_000,
}  # fmt: skip


@tool
def returns(kind: str) -> Any:
    """Return this."""
    return RETURNED[kind]()


@tool
def prints(kind: str) -> str:
    """Write where the wire should be."""
    if kind == "print":
        print("stray print", flush=True)
    elif kind == "os.write":
        os.write(1, b"stray os.write\n")
    elif kind == "child":
        subprocess.run([sys.executable, "-c", "print('stray child')"], check=True, stdin=subprocess.DEVNULL)
    elif kind == "system":
        os.system("echo stray system")
    return "printed"


PROGRAM = (
    "import os; print('\\n'.join(f'{n} ' + os.readlink(f'/proc/self/fd/{n}')"
    " for n in range(64) if os.path.islink(f'/proc/self/fd/{n}')))"
)


@tool
def child_descriptors() -> str:
    """What a child process that inherits all it can has open."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], close_fds=False, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


@tool
async def count(n: int, ctx: Context) -> str:
    """Report n steps of progress."""
    for step in range(1, n + 1):
        await ctx.report_progress(step, n)
    return str(n)


@tool
async def pour(events: int, size: int, ctx: Context) -> str:
    """Send so many log messages of so many characters."""
    for _ in range(events):
        await ctx.error("x" * size)
    return "poured"


@tool
async def spoil(ctx: Context) -> str:
    """Begin a stream, and raise."""
    await ctx.error("soon")
    raise ValueError("secret words of a traceback")


reached: dict[str, anyio.Event] = {}
left: dict[str, anyio.Event] = {}
ended: dict[str, str] = {}


@tool
async def watch(name: str) -> str:
    """Sleep until cancelled, and remember how it ended."""
    reached.setdefault(name, anyio.Event()).set()
    try:
        await anyio.sleep(60)
        ended[name] = "slept"
    except BaseException:
        ended[name] = "cancelled"
        raise
    finally:
        left.setdefault(name, anyio.Event()).set()
    return "slept"


@tool
async def wait_for(name: str, what: str) -> str:
    """Wait until a `watch` of this name has begun or ended, and say how it ended."""
    with anyio.move_on_after(30):
        await (reached if what == "begin" else left).setdefault(name, anyio.Event()).wait()
    return ended.get(name, "open")


if __name__ == "__main__":
    if not sys.argv[1:]:
        server.run()
    elif PORT:
        server.run("streamable-http")
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
