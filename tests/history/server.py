"""The server of these runs, in this process or, with the path of a journal, as a process of its
own.

With "http" after the path it serves over HTTP, prints its port, and ends at the end of its input.
With the location of a store after that, it is one of several processes that share their sessions.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable, Dict

from minimcp import Context, HttpOptions, Limits, RpcError, Server, ToolError
from minimcp.stores import processes

from ..redis_server import store_at
from .record import Journal

ERROR = 4660  # the code of the errors that ``refuse`` answers with
GRACE = 0.2  # seconds that it gives its handlers at the end of its input
# seconds without a sign of life after which one of several processes counts as ended
LEASE = 2.0


def padded(tag: str, size: int) -> str:
    """Return the result of ``echo``: as long as requested, and different from any other text."""
    return f"{tag} {tag[-1] * size}"


def make_server(note: Callable[[str, str], Any], **options: Any) -> Server:
    """A server whose handlers record their beginning and their end."""
    server = Server(
        "history", version="1", limits=Limits(drain_grace=GRACE, ask_timeout=2.0), **options
    )

    @server.middleware
    def noted(ctx: Context, call_next: Callable[[], Any]) -> Any:
        if ctx.method != "tools/call":
            return call_next()
        tag = ctx.params["arguments"]["tag"]
        note("run", tag)
        try:
            return call_next()
        finally:
            if not ctx.cancelled:
                note("done", tag)

    @server.tool
    def echo(tag: str, size: int) -> str:
        """Give the tag back, and more."""
        return padded(tag, size)

    @server.tool
    def work(tag: str, size: int, ctx: Context) -> str:
        """Report progress step by step."""
        for step in range(1, size + 1):
            ctx.progress(step, size)
            ctx.sleep(0.002)
        return tag

    @server.tool
    def fail(tag: str, size: int) -> str:
        """Fail as a tool does."""
        raise ToolError(tag)

    @server.tool
    def refuse(tag: str, size: int) -> str:
        """Answer with an error."""
        raise RpcError(ERROR, "as asked", tag)

    @server.tool
    def hold(tag: str, size: int, ctx: Context) -> str:
        """Wait for the cancellation."""
        ctx.sleep(60)
        return tag

    @server.tool
    def ask(tag: str, size: int, ctx: Context) -> str:
        """Ask the client to return the tag."""
        schema = {"type": "object", "properties": {"tag": {"type": "string"}}, "required": ["tag"]}
        return str(ctx.elicit(tag, schema).require()["tag"])

    return server


def sharing(place: str) -> Dict[str, Any]:
    """The options of a server that shares a store: a URL of Redis, or the path of a file."""
    processes.LEASE_SECONDS, processes.RENEW_SECONDS = LEASE, LEASE / 4
    return {"store": store_at(place), "http": HttpOptions(keepalive=1)}


if __name__ == "__main__":
    options = sharing(sys.argv[3]) if sys.argv[3:] else {}
    journaled = make_server(Journal(Path(sys.argv[1])).note, **options)
    if sys.argv[2:]:
        with journaled.start_http() as running:
            print(running.port, flush=True)
            sys.stdin.read()
    else:
        journaled.run()
