"""More than a server can do at once, and damage: C17, C20 and C24 to C27 of the fault catalogue.

C20: messages with seeded damage. Nothing crashes, hangs, or prints what is not JSON. A failure names its seed:
MINIMCP_FUZZ_SEEDS="17,18" runs others, MINIMCP_FUZZ_COUNT another number of messages.
"""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .messages import encode, modern, request

MEGABYTE = 1 << 20


def call(id: object, tool: str, **arguments: Any) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


def said(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


def test_c25_a_peer_that_takes_nothing_is_lost_in_time(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"write_timeout": 0.2, "drain_grace": 0.1})
    server.send(call(1, "big", size=5 * MEGABYTE))
    assert server.exit() == 0


@pytest.mark.requirement("PING-01", "PING-09", "M:STD-17", "M:BASE-15")
def test_c27_what_needs_no_worker_behind_a_full_pool(serve: Serve) -> None:
    """Every worker is busy and more calls wait: ping, lists, discover, refusals and cancels go on."""
    server = serve("2025-06-18", limits={"workers": 4, "drain_grace": 0.05})
    server.begin_call("hold", {"name": "full"}, id=0)
    assert server.text("add", {"a": 2, "b": 3}) == "5"  # a fast one behind one that is blocked
    for n in range(1, 12):
        server.begin_call("hold", {"name": "full"}, id=n)
    assert server.result("ping") == {} and server.result("tools/list")["tools"]
    server.write(request("d", "server/discover", modern()))
    assert "result" in server.answer("d")
    assert server.error(b"garbage") == -32700
    assert server.ask("no/such/method")["error"]["code"] == -32601
    server.notify("notifications/cancelled", {"requestId": 11})
    assert server.fence() == []
    server.close_input()  # nobody can call `release`: the grace ends it
    server.rest()
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_writers_never_interleave(serve: Serve) -> None:
    """Every line is looked at: one that held two pieces would not be JSON."""
    server = serve("2025-06-18")
    sizes = [10, 70_000, 200, 5_000, 300_000]
    server.send(b"".join(call(n, "big", size=sizes[n % 5]) for n in range(250)))
    assert [len(said(server.answer(n))) for n in range(250)] == sizes * 50
