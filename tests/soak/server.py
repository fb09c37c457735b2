"""The servers of a soak, each in a process of its own: over stdio, or with "http" as argument over HTTP of all kinds.

The HTTP server prints the URLs of both transports in one line, and ends at the end of its input.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Dict

from minimcp import Context, EventStore, Server

from ..history.server import make_server

COMMAND = [sys.executable, "-S", "-m", "tests.soak.server"]
"""What starts it, in the top of the repository."""

URI = "soak://{name}"
"""What may be subscribed to."""

HTTP: Dict[str, Any] = {
    "event_store": EventStore(max_events=200, max_bytes=1 << 20),  # full before the first quarter is over
    "session_ttl": 10.0,  # those who vanish leave a session; the others use theirs in time, on a busy machine too
    "max_sessions": 10_000,
}
"""Options that have whatever is bounded come to its bound in the first seconds of a soak."""


def settle() -> None:
    """Give back what is not used: what is measured after that is used, or lost."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        pass  # another C library


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
        settle()
        return {}

    return server


def main() -> None:
    """Serve."""
    if sys.argv[1:] != ["http"]:
        make().run()
        return
    with make(**HTTP).start_http(legacy_sse=True) as running:
        print(running.url, running.url.rpartition("/")[0] + "/sse", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
