"""A server whose processes share a store: ``python -m tests.hosts.shared_server PORT``, or ``app``
for gunicorn.

MINIMCP_SHARED_STORE names the store: a URL of Redis, the path of a file, or "memory". After
SIGTERM, running calls finish.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys

import minimcp
from minimcp import Context, HttpOptions

from ..redis_server import store_at

PLACE = os.environ["MINIMCP_SHARED_STORE"]
server = minimcp.Server(
    "shared",
    store=minimcp.MemoryStore() if PLACE == "memory" else store_at(PLACE),
    http=HttpOptions(health="/healthz", max_sessions=100_000, keepalive=1),
    limits=minimcp.Limits(drain_grace=20),
)


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
def count(ctx: Context) -> list[int]:
    """Return the number of calls in the session, and the id of this process."""
    assert ctx.session is not None
    ctx.session["calls"] = ctx.session.get("calls", 0) + 1
    return [ctx.session["calls"], os.getpid()]


@server.tool
def ask(ctx: Context) -> str:
    """Ask for a name."""
    return str(ctx.elicit("Who?", {"name": str}).require()["name"])


@server.tool
def steps(number: int, seconds: float, ctx: Context) -> str:
    """Report this many steps, with the process in the first message."""
    for step in range(number):
        ctx.progress(step + 1, number, str(os.getpid()))
        ctx.sleep(seconds)
    return "done"


@server.tool
def touch() -> str:
    """Have the resource be another one."""
    server.resource_updated("notes://one")
    return "touched"


@server.resource("notes://one")
def one() -> str:
    """A note."""
    return "1"


app = server.wsgi(max_streams=8)


def main(port: int) -> None:
    """Serve until SIGTERM."""
    faulthandler.register(signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with server.start_http(port=port):
        signal.sigwait({signal.SIGTERM})
    server.close()


if __name__ == "__main__":
    main(int(sys.argv[1]))
