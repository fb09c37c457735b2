"""The servers of a soak, each in a process of its own: over stdio, or with "http" as argument over
HTTP of all kinds.

The HTTP server prints the URLs of both transports in one line, and ends at the end of its input.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Dict

from minimcp import Context, EventStore, HttpOptions, Server

from ..history.server import make_server

COMMAND = [
    sys.executable,
    "-S",
    "-m",
    "tests.soak.server",
]  # what starts it, in the top of the repository
URI = "soak://{name}"  # resources for subscriptions

# options with which every limit is reached in the first seconds of a soak
HTTP = HttpOptions(
    event_store=EventStore(
        max_events=200, max_bytes=1 << 20
    ),  # full before the first quarter is over
    # clients that vanish leave a session; the others use theirs in time, even on a busy machine
    session_ttl=10.0,
    max_sessions=10_000,
)


class _Mallinfo(ctypes.Structure):
    """The result of mallinfo2(3)."""

    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
    )]  # fmt: skip


def settle() -> Dict[str, float]:
    """Collect garbage, and return the memory that is then in use or leaked.

    Returns:
        ``memory``, the MiB that the C library's allocator has given out, which has all blocks above
        512 bytes; and ``blocks``, the thousands of blocks that Python's own allocator has given
        out. Resident memory would be larger, because the heap keeps sparsely used pages, and more
        of them for hours.
    """
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return {
        "memory": (found.uordblks + found.hblkhd) / 2**20,
        "blocks": sys.getallocatedblocks() / 1000,
    }


def make(**options: Any) -> Server:
    """Make the server of the histories, with resources for subscriptions; options as for `Server`."""
    server = make_server(lambda kind, tag: None, **options)

    @server.resource(URI)
    def state(name: str) -> str:
        """A resource that changes when it is touched."""
        return name

    @server.method("soak/touch")
    def touch(params: Dict[str, Any], ctx: Context) -> Dict[str, Any]:
        ctx.server.resource_updated(params["uri"])
        return {}

    @server.method("soak/settle")
    def rest(params: Dict[str, Any]) -> Dict[str, Any]:
        return dict(settle())

    return server


def main() -> None:
    if sys.argv[1:] != ["http"]:
        make().run()
        return
    with make(http=HTTP).start_http(legacy_sse=True) as running:
        print(running.url, running.url.rpartition("/")[0] + "/sse", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
