"""C17 and C24 to C27 of the fault catalogue: floods, peers that do not read, and more work than workers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ..support import eventually
from .conftest import Serve
from .messages import INTERNAL, MODERN, encode, modern, notification, request

MEGABYTE = 1 << 20


def call(id: object, tool: str, arguments: dict[str, object]) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


@pytest.mark.requirement("BASE-10", "M:BASE-8")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c17_fifty_thousand_unknown_notifications(serve: Serve, revision: str) -> None:
    server = serve(revision)
    server.lives()
    base, spent = server.status("VmRSS"), server.cpu()
    flood = encode(notification("notifications/nobody/knows", {"x": [1, 2, 3]})) * 5_000
    for _ in range(10):
        server.send(flood)
    assert server.fence() == []
    assert server.cpu() - spent < 5.0  # 10,000 a second
    assert server.status("VmRSS") - base < 10_000
    server.lives()


def test_c24_twenty_thousand_requests_before_anything_is_read(serve: Serve) -> None:
    server = serve("2025-06-18")
    base = server.status("VmRSS")
    flood = b"".join(call(n, "echo", {"text": "x" * 100}) for n in range(20_000))
    taken = server.send(flood, reading=False, wait=0.3)
    server.send(flood[taken:])
    seen = set()
    for _ in range(20_000):
        message = server.message()
        assert message["result"]["content"][0]["text"] == "x" * 100, message
        seen.add(message["id"])
    assert seen == set(range(20_000))
    assert server.status("VmRSS") - base < 120_000
    server.lives()


def test_c24_answers_nobody_takes_are_not_piled_up(serve: Serve) -> None:
    """Fifty megabytes of answers against a backlog of 2: nothing is lost, and they are never all in memory."""
    server = serve("2025-06-18", limits={"backlog_bytes": 2_000_000, "requests": None})
    base = server.status("VmRSS")
    flood = b"".join(call(n, "big", {"size": 5_000}) for n in range(10_000))
    taken = server.send(flood, reading=False, wait=0.3)
    assert server.status("VmRSS") - base < 30_000
    server.send(flood[taken:])
    for n in range(10_000):
        assert len(server.answer(n)["result"]["content"][0]["text"]) == 5_000
    server.lives()


def test_c25_a_slow_reader_costs_bounded_memory(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"backlog_bytes": 8 * MEGABYTE})
    server.lives()
    base = server.status("VmRSS")
    server.send(b"".join(call(n, "big", {"size": MEGABYTE}) for n in range(60)), reading=False, wait=0.3)
    for _ in range(20):
        server.poll(0.02)  # one read of a pipe's worth, then a pause
    assert (server.status("VmRSS") - base) * 1024 < 40 * MEGABYTE
    for n in range(60):
        assert len(server.answer(n)["result"]["content"][0]["text"]) == MEGABYTE
    server.lives()


def test_c25_a_peer_that_takes_nothing_is_lost_in_time(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"write_timeout": 0.2, "drain_grace": 0.1})
    server.send(call(1, "big", {"size": 5 * MEGABYTE}))
    assert server.exit() == 0


@pytest.mark.requirement("M:BASE-15")
def test_c26_two_hundred_sleepers(serve: Serve, tmp_path: Path) -> None:
    server, gate = serve("2025-06-18"), tmp_path / "gate"
    os.mkfifo(gate)
    holding = os.open(gate, os.O_RDWR)  # as long as it is held open, whoever reads waits
    server.send(b"".join(call(n, "hold_file", {"path": str(gate)}) for n in range(200)))
    assert eventually(lambda: server.status("Threads") >= 32)  # they run at once
    assert server.result("ping") == {}
    threads = [server.status("Threads")]
    os.replace(holding_nothing(tmp_path), gate)  # for those that open it later
    os.close(holding)
    for n in range(200):
        assert server.answer(n)["result"]["content"][0]["text"] == "released"
        threads.append(server.status("Threads"))
    assert max(threads) <= 64 + 8  # workers, and the connection's own
    server.lives()


def holding_nothing(folder: Path) -> Path:
    """An empty file."""
    (folder / "nothing").touch()
    return folder / "nothing"


@pytest.mark.requirement("M:BASE-15", "M:STD-17")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c27_a_fast_call_behind_a_blocked_one(serve: Serve, revision: str) -> None:
    server = serve(revision)
    server.begin_call("hold", {"name": "slow"}, id="slow")
    server.lives()
    assert server.text("add", {"a": 2, "b": 3}) == "5"
    server.text("release", {"name": "slow"})
    assert server.answer("slow")["result"]["content"][0]["text"] == "released"


@pytest.mark.requirement("PING-01", "PING-09", "M:STD-17")
def test_c27_the_control_lane_behind_a_full_pool(serve: Serve) -> None:
    """Every worker is busy and more calls wait: ping, lists, discover, refusals and cancels go on."""
    server = serve("2025-06-18", limits={"workers": 4, "drain_grace": 0.05})
    for n in range(12):
        server.begin_call("hold", {"name": "full"}, id=n)
    for _ in range(20):
        assert server.result("ping") == {}
    assert server.result("tools/list")["tools"]
    server.write(request("d", "server/discover", modern()))
    assert "result" in server.answer("d")
    assert server.error(b"garbage") == -32700
    assert server.ask("no/such/method")["error"]["code"] == -32601
    server.notify("notifications/cancelled", {"requestId": 11})
    assert server.fence() == []
    server.close_input()  # nobody can call `release`: the grace ends it
    server.rest()
    assert server.exit() == 0


@pytest.mark.requirement("PING-09")
def test_c27_ping_behind_a_hundred_sleepers(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.05})
    for n in range(100):
        server.begin_call("hold", {"name": "crowd"}, id=n)
    for _ in range(50):
        assert server.result("ping") == {}
    server.close_input()
    server.rest()
    assert server.exit() == 0


def test_more_requests_than_may_be_unfinished_are_refused(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"workers": 20, "requests": 10, "drain_grace": 0.05})
    for n in range(15):
        server.begin_call("hold", {"name": "many"}, id=n)
    refused = [server.message() for _ in range(5)]
    assert [message["error"]["code"] for message in refused] == [INTERNAL] * 5
    assert server.fence() == []
    server.close_input()
    server.rest()
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_writers_never_interleave(serve: Serve) -> None:
    """Every line is looked at: one that held two pieces would not be JSON."""
    server = serve("2025-06-18")
    sizes = [10, 70_000, 200, 5_000, 300_000]
    server.send(b"".join(call(n, "big", {"size": sizes[n % 5]}) for n in range(250)))
    for n in range(250):
        assert server.answer(n)["result"]["content"][0]["text"] == "x" * sizes[n % 5]
    server.lives()
