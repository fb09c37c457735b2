"""C38 of the fault catalogue, shortened: the same work again and again leaves nothing behind.

MINIMCP_SOAK_CALLS runs more (the catalogue asks for 100,000).
"""

from __future__ import annotations

import os

import pytest

from ..support import eventually
from .conftest import Serve
from .messages import MODERN, notification

CALLS = int(os.environ.get("MINIMCP_SOAK_CALLS", "2000"))


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c38_sequential_calls(serve: Serve, revision: str) -> None:
    server = serve(revision)
    for n in range(CALLS // 10):
        server.text("add", {"a": n, "b": 1})
    threads, files, memory = server.status("Threads"), server.descriptors(), server.status("VmRSS")
    for n in range(CALLS):
        assert server.text("add", {"a": n, "b": 1}) == str(n + 1)
    assert server.descriptors() == files
    assert eventually(lambda: server.status("Threads") <= threads + 1)  # idle workers end
    assert server.status("VmRSS") - memory < 3_000


def test_c38_a_mixture(serve: Serve) -> None:
    """Errors, cancels, progress, refusals and strays, in turn."""
    server = serve("2025-06-18")

    def round(n: int) -> None:
        server.text("echo", {"text": "x" * (n % 3000)})
        server.call("fail", {"message": "on purpose"})
        server.call("raiser", {"kind": "OSError"})
        server.call("count", {"n": 3}, token=n)
        server.ask("no/such/method")
        server.begin_call("watch", {"name": f"w{n % 7}"}, id=f"w{n}")
        server.write(notification("notifications/cancelled", {"requestId": f"w{n}"}), {"jsonrpc": "2.0", "id": n})
        server.fence()

    for n in range(CALLS // 100):
        round(n)
    threads, files, memory = server.status("Threads"), server.descriptors(), server.status("VmRSS")
    for n in range(CALLS // 20):
        round(n)
    assert server.descriptors() == files
    assert eventually(lambda: server.status("Threads") <= threads + 2)
    assert server.status("VmRSS") - memory < 3_000
