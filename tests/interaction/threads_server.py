"""The server of test_threads: in memory when it is imported, a real process when it is run."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from minimcp import Context, Limits, Serial, Server


def make_server(**limits: Any) -> Server:
    """A server with the tools that test the rules for threads."""
    server = Server("rules", limits=Limits(**{"drain_grace": 0.2, **limits}))
    begun, released = threading.Semaphore(0), threading.Event()

    @server.tool
    def echo(text: str) -> str:
        """Give the text back."""
        return text

    @server.tool
    def big(size: int) -> str:
        """Return a text of this size."""
        return "x" * size

    @server.tool
    def sleep(seconds: float, ctx: Context) -> str:
        """Sleep as a tool should."""
        begun.release()
        ctx.sleep(seconds)
        return "slept"

    @server.tool
    def hold(seconds: float) -> str:
        """Sleep as a tool should not: it keeps its worker."""
        begun.release()
        return "let go" if released.wait(seconds) else "held"

    @server.tool(executor=Serial())
    def let_go() -> str:
        """Release all held calls."""
        released.set()
        return "done"

    @server.tool(executor=Serial())
    def wait_for(number: int) -> str:
        """Return when this many sleepers have started."""
        for _ in range(number):
            begun.acquire()
        return "all sleep"

    return server


if __name__ == "__main__":
    make_server(**json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}")).run()
