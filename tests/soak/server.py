"""The servers of a soak, each in a process of its own: over stdio, or with "http" as argument over HTTP of all kinds.

The HTTP server prints the URLs of both transports in one line, and ends at the end of its input.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Dict

from minimcp import Context, EventStore, HttpOptions, Server

from ..history.server import make_server

COMMAND = [sys.executable, "-S", "-m", "tests.soak.server"]  # what starts it, in the top of the repository

URI = "soak://{name}"  # what may be subscribed to

HTTP = HttpOptions(  # options that have whatever is bounded come to its bound in the first seconds of a soak
    event_store=EventStore(max_events=200, max_bytes=1 << 20),  # full before the first quarter is over
    session_ttl=10.0,  # those who vanish leave a session; the others use theirs in time, on a busy machine too
    max_sessions=10_000,
)


ARENA_MAX = -8  # M_ARENA_MAX of mallopt(3)


def with_one_heap() -> None:
    """Have all threads allocate from one heap.

    The C library gives threads heaps of their own. Each of them grows to the most that was ever needed in it at once,
    which takes hours when threads come and go: that is no growth of what is used.
    """
    _of_the_c_library("mallopt", ARENA_MAX, 1)


def settle() -> int:
    """Give back what is not used; how many blocks Python holds then, each of them in use, or lost."""
    gc.collect()
    _of_the_c_library("malloc_trim", 0)
    return sys.getallocatedblocks()


def _of_the_c_library(function: str, *arguments: int) -> None:
    try:
        getattr(ctypes.CDLL(None), function)(*arguments)
    except (AttributeError, OSError, TypeError):
        pass  # another one, which has no such thing


def make(**options: Any) -> Server:
    """The server of the histories, with what can be subscribed to; options as `Server`."""
    server = make_server(lambda kind, tag: None, **options)

    @server.resource(URI)
    def state(name: str) -> str:
        """What changes when it is touched."""
        return name

    @server.method("soak/touch")
    def touch(params: Dict[str, Any], ctx: Context) -> Dict[str, Any]:
        ctx.server.resource_updated(params["uri"])
        return {}

    @server.method("soak/settle")
    def rest(params: Dict[str, Any]) -> Dict[str, Any]:
        return {"blocks": settle()}

    return server


def main() -> None:
    with_one_heap()
    if sys.argv[1:] != ["http"]:
        make().run()
        return
    with make(http=HTTP).start_http(legacy_sse=True) as running:
        print(running.url, running.url.rpartition("/")[0] + "/sse", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
