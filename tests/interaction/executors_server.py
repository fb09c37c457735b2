"""The server of tests/interaction/test_executors.py: tools with different executors.

``python -m tests.interaction.executors_server`` serves it over stdio; `build` makes it for memory.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List

from minimcp import Context, Limits, Serial, Server, current_context
from minimcp.server import run

SERIAL = Serial()


def build(drain_grace: float = 5, **options: Any) -> Server:
    """The server, with options of its own."""
    server = Server("executors", limits=Limits(drain_grace=drain_grace), **options)
    order: List[int] = []

    def where(number: int = 0) -> str:
        """Name the thread; note the number."""
        order.append(number)
        assert current_context().method == "tools/call"
        on_main = threading.current_thread() is threading.main_thread()
        return "main" if on_main else str(threading.get_ident())

    server.add_tool(where, name="where_main", executor="main")
    server.add_tool(where, name="where_serial", executor=SERIAL)
    server.add_tool(where, name="where_pool")

    @server.tool
    def numbers() -> List[int]:
        """The numbers that were noted, in order."""
        return order

    @server.tool(executor="main")
    def patient(ctx: Context) -> str:
        """Wait on the main thread, as a tool should."""
        ctx.progress(1)
        print("begun", file=sys.stderr, flush=True)
        ctx.sleep(3600)
        return "never"

    @server.tool(executor="main")
    def deaf(ctx: Context) -> str:
        """Wait on the main thread, as a tool should not."""
        ctx.on_cancel(lambda: print("told", file=sys.stderr, flush=True))
        print("begun", file=sys.stderr, flush=True)
        threading.Event().wait(3600)
        return "never"

    @server.tool(executor="main")
    def wedged() -> str:
        """Keep the main thread in C."""
        print("begun", file=sys.stderr, flush=True)
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2_000_000_000)
        return "never"

    submitted = ThreadPoolExecutor(1)  # its threads are not daemons

    @server.tool(executor=submitted)
    def stuck() -> str:
        """Keep a thread that the interpreter waits for when it ends."""
        print("begun", file=sys.stderr, flush=True)
        threading.Event().wait(3600)
        return "never"

    @server.tool(executor="main")
    def leave() -> str:
        """Close the server, and stay a little."""
        server.close()
        return "left"

    @server.tool(executor="main")
    def interrupted() -> str:
        """Raise as if Ctrl-C had struck."""
        raise KeyboardInterrupt

    return server


if __name__ == "__main__":
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    run.EXIT_SECONDS = given.pop("last", run.EXIT_SECONDS)
    run.SIGNAL_SECONDS = given.pop("signal", run.SIGNAL_SECONDS)
    assert build(**given).run() is None  # type: ignore[func-returns-value]
    print("back", file=sys.stderr, flush=True)
