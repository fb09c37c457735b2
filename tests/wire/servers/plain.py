"""A server for raw bytes: plain tools, and tools that do what no tool should.

Called with one argument, a JSON object of keywords for `Server`. "tools": false leaves the tools
out, "preset" names a function below that is run before the server.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import minimcp  # noqa: E402
from minimcp import Cancelled, Context  # noqa: E402
from minimcp.server import run  # noqa: E402

OPTIONS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
TOOLS, PRESET = OPTIONS.pop("tools", True), OPTIONS.pop("preset", None)

LIMITS, HTTP = (
    minimcp.Limits(**OPTIONS.pop("limits", {})),
    minimcp.HttpOptions(**OPTIONS.pop("http", {})),
)
server = minimcp.Server("plain", limits=LIMITS, http=HTTP, **{"version": "1.2.3", **OPTIONS})
gates: dict[str, threading.Event] = {}
reached: dict[str, threading.Event] = {}
ended: dict[str, str] = {}
lock = threading.Lock()


def gate(name: str, table: dict[str, threading.Event]) -> threading.Event:
    """Return the event of this name."""
    with lock:
        return table.setdefault(name, threading.Event())


def echo(text: str) -> str:
    """Give the text back."""
    return text


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def take(value: Any) -> dict[str, Any]:
    """Give any value back, in an object."""
    return {"value": value}


def big(size: int) -> str:
    """A text of this many characters."""
    return "x" * size


def slow(seconds: float, ctx: Context) -> str:
    """Report the start to callers that request progress, and sleep as a tool should."""
    ctx.progress(0)
    ctx.sleep(seconds)
    return "slept"


def deaf_slow(seconds: float) -> str:
    """Sleep as a tool should not."""
    time.sleep(seconds)
    return "slept"


def hold(name: str) -> str:
    """Wait until `release` is called with this name, whatever happens."""
    gate(name, reached).set()
    gate(name, gates).wait(60)
    return "released"


def release(name: str) -> str:
    """Release `hold`."""
    gate(name, gates).set()
    return "done"


def never() -> str:
    """Never return."""
    threading.Event().wait()
    return "impossible"


def watch(name: str, ctx: Context) -> str:
    """Sleep until cancelled, and remember how it ended."""
    gate(name, reached).set()
    try:
        ctx.sleep(60)
        ended[name] = "slept"
    except Cancelled:
        ended[name] = f"cancelled {ctx.cancelled}"
        raise
    finally:
        gate(name, gates).set()
    return "slept"


def wait_for(name: str, what: str) -> str:
    """Wait until a `hold` or `watch` of this name has begun or ended, and return how it ended."""
    table = reached if what == "begin" else gates
    happened = gate(name, table).wait(30)
    return ended.get(name, "open") if happened else "nothing happened"


def count(n: int, ctx: Context) -> str:
    """Report n steps of progress."""
    for i in range(1, n + 1):
        ctx.progress(i, n, f"step {i}")
    return str(n)


def report_when_released(name: str, ctx: Context) -> str:
    """Report 1, hold, report 2: the second is refused after a cancel."""
    ctx.progress(1)
    gate(name, gates).wait(60)
    try:
        ctx.progress(2)
        ended[name] = "reported"
    except Cancelled:
        ended[name] = "cancelled"
        raise
    finally:
        gate(name, reached).set()
    return "returned"


def log(level: str, data: Any, ctx: Context, logger: str = "") -> str:
    """Send one log line."""
    ctx.log(level, data, logger=logger or None)
    return "logged"


def log_all(ctx: Context) -> str:
    """Send one log line of each level, mildest first."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        getattr(ctx, level)(level)
    return "logged"


def about(ctx: Context) -> dict[str, Any]:
    """Return the handler's view of its request."""
    return {
        "revision": ctx.revision,
        "id": ctx.request_id,
        "id_type": type(ctx.request_id).__name__,
        "meta": dict(ctx.meta or {}),
        "session": getattr(ctx, "session", None) is not None,
        "sampling": ctx.client.supports("sampling"),
        "info": str(getattr(ctx.client.info, "name", ctx.client.info)),
    }


def fail(message: str) -> str:
    """Fail as a tool should."""
    raise minimcp.ToolError(message)


class Wordless(Exception):
    """An exception that cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


def recurse(n: int) -> int:
    """Never return."""
    return recurse(n + 1) + 1


RAISED = {
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "MemoryError": MemoryError,
    "GeneratorExit": GeneratorExit,
    "Wordless": Wordless,
}


def raiser(kind: str) -> str:
    """Raise this exception, or a ValueError with this text."""
    if kind == "RecursionError":
        return str(recurse(0))
    raise RAISED[kind]() if kind in RAISED else ValueError(kind)


class Unprintable:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


def cycle() -> list[Any]:
    """A list that holds itself."""
    knot: list[Any] = []
    knot.append(knot)
    return knot


RETURNED = {
    "nan": lambda: float("nan"),
    "infinity": lambda: {"x": [float("inf")]},
    "bytes": lambda: b"raw",
    "cycle": cycle,
    "unprintable": Unprintable,
    "surrogate": lambda: "\ud800",
    "deep": lambda: functools.reduce(lambda inner, _: [inner], range(100_000), 1),
    "large": lambda: "x" * 10_000_000,
}


def returns(kind: str):  # type: ignore[no-untyped-def]
    """Return this."""
    return RETURNED[kind]()


CHILD = "import os, sys; sys.stdout.write('stray child %d\\n' % len(sys.stdin.read())); sys.stdout.flush()"


def prints(kind: str) -> str:
    """Write where the wire should be."""
    if kind == "print":
        print("stray print")
        sys.stdout.flush()
    elif kind == "os.write":
        os.write(1, b"stray os.write\n")
    elif kind == "sys.__stdout__":
        assert sys.__stdout__ is not None
        print("stray sys.__stdout__", file=sys.__stdout__, flush=True)
    elif kind == "buffer":
        sys.stdout.buffer.write(b"stray buffer\n")
        sys.stdout.flush()
    elif kind == "child":
        import subprocess  # here, because it makes every start slower

        subprocess.run([sys.executable, "-c", CHILD], check=True)
    elif kind == "system":
        os.system("echo stray system")
    elif kind == "input":
        return repr(sys.stdin.read())
    return "printed"


def child_descriptors() -> str:
    """Return the open descriptors of a child process that inherits all it can, as lines "number
    target"."""
    import subprocess

    program = (
        "import os; print('\\n'.join(f'{n} ' + os.readlink(f'/proc/self/fd/{n}') for n in range(64)"
    )
    program += " if os.path.exists(f'/proc/self/fd/{n}') or os.path.islink(f'/proc/self/fd/{n}')))"
    done = subprocess.run(
        [sys.executable, "-c", program], close_fds=False, stdout=subprocess.PIPE, check=True
    )
    return done.stdout.decode()


SHARED_META = {
    "com.example/mine": [1],
    "io.modelcontextprotocol/serverInfo": {"name": "other", "version": "9"},
}


def tagged() -> minimcp.CallToolResult:
    """A result with a `_meta` of its own, the same object every time."""
    return minimcp.CallToolResult([minimcp.Text(json.dumps(SHARED_META))], meta=SHARED_META)


def grow(name: str) -> str:
    """Register another tool while the server runs."""
    server.add_tool(echo, name=name, description="Another one.")
    return "grown"


if TOOLS:
    for tool in (
        echo, add, take, big, slow, deaf_slow, hold, release, never, watch, wait_for, count, report_when_released, log,
        log_all, about, fail, raiser, returns, prints, child_descriptors, tagged, grow,
    ):  # fmt: skip
        server.tool(tool)
if PRESET == "patient":
    run.SIGNAL_SECONDS = run.LAST_SECONDS = (
        60.0  # no handler keeps the main thread, but a busy machine may
    )
if PRESET == "many":
    for index in range(23):
        server.add_tool(echo, name=f"many-{index:02}", description="One of many.")

if __name__ == "__main__":
    server.run()
