"""More than a server can do at once, and damage: C17, C20 and C24 to C27 of the fault catalogue.

C20: messages with seeded damage. Nothing crashes, hangs, or prints what is not JSON. A failure names its seed:
MINIMCP_FUZZ_SEEDS="17,18" runs others, MINIMCP_FUZZ_COUNT another number of messages.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, Callable

import pytest

from ..support import eventually
from .conftest import Serve
from .messages import INTERNAL, MODERN, encode, hello, modern, notification, request

MEGABYTE = 1 << 20


def call(id: object, tool: str, **arguments: Any) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


def said(message: Any) -> str:
    return str(message["result"]["content"][0]["text"])


def test_c24_requests_before_anything_is_read_are_all_answered(serve: Serve) -> None:
    server = serve("2025-06-18")
    flood = b"".join(call(n, "echo", text="x" * 100) for n in range(4_000))
    taken = server.send(flood, reading=False, wait=0.3)
    server.send(flood[taken:])
    answers = [server.message() for _ in range(4_000)]
    assert {said(message) for message in answers} == {"x" * 100}
    assert {message["id"] for message in answers} == {*range(4_000)}
    server.lives()


def test_c25_a_peer_that_takes_nothing_is_lost_in_time(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"write_timeout": 0.2, "drain_grace": 0.1})
    server.send(call(1, "big", size=5 * MEGABYTE))
    assert server.exit() == 0


@pytest.mark.requirement("M:BASE-15", "PING-09")
def test_c26_two_hundred_that_hold_their_workers(serve: Serve, tmp_path: Path) -> None:
    server, gate = serve("2025-06-18"), tmp_path / "gate"
    os.mkfifo(gate)
    holding = os.open(gate, os.O_RDWR)  # as long as it is held open, whoever reads waits
    server.send(b"".join(call(n, "hold_file", path=str(gate)) for n in range(200)))
    assert eventually(lambda: server.status("Threads") >= 32)  # they run at once
    for _ in range(50):
        assert server.result("ping") == {}
    threads = [server.status("Threads")]
    (tmp_path / "nothing").touch()
    os.replace(tmp_path / "nothing", gate)  # for those that open it later
    os.close(holding)
    for n in range(200):
        assert said(server.answer(n)) == "released"
        threads.append(server.status("Threads"))
    assert max(threads) <= 64 + 8  # workers, and the connection's own


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


def test_more_requests_than_may_be_unfinished_are_refused(serve: Serve) -> None:
    server = serve("2025-06-18", limits={"workers": 20, "requests": 10, "drain_grace": 0.05})
    for n in range(15):
        server.begin_call("hold", {"name": "many"}, id=n)
    assert [server.message()["error"]["code"] for _ in range(5)] == [INTERNAL] * 5
    assert server.fence() == []
    server.close_input()
    server.rest()
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-12", "M:STD-14")
def test_writers_never_interleave(serve: Serve) -> None:
    """Every line is looked at: one that held two pieces would not be JSON."""
    server = serve("2025-06-18")
    sizes = [10, 70_000, 200, 5_000, 300_000]
    server.send(b"".join(call(n, "big", size=sizes[n % 5]) for n in range(250)))
    assert [len(said(server.answer(n))) for n in range(250)] == sizes * 50


# ---------------------------------------------------------------- C20: mutants

SEEDS = [int(seed) for seed in os.environ.get("MINIMCP_FUZZ_SEEDS", "1,2").split(",")]
COUNT = int(os.environ.get("MINIMCP_FUZZ_COUNT", "5000"))
CHUNK = 500

TOOL = {"name": "echo", "arguments": {"text": "h\u00e9llo \U0001f600"}, "_meta": {"progressToken": 1}}
CORPUS = [
    json.dumps(message).encode()
    for message in (
        request(1, "ping"),
        request("two", "tools/list", {"cursor": "abc"}),
        request(3, "tools/call", TOOL),
        request(4, "tools/call", modern(TOOL)),
        request(5, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        request(6, "tools/call", modern({"name": "take", "arguments": {"value": [1, None, {"x": 1.5}]}})),
        request(7, "tools/call", {"name": "fail", "arguments": {"message": "on purpose"}}),
        request(8, "initialize", hello("2025-03-26", sampling={}, roots={"listChanged": True})),
        request(9, "logging/setLevel", {"level": "error"}),
        request(10, "server/discover", modern()),
        request(11, "completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}),
        notification("notifications/initialized"),
        notification("notifications/cancelled", {"requestId": 3, "reason": "x"}),
        notification("notifications/progress", {"progressToken": 1, "progress": 0.5}),
        {"jsonrpc": "2.0", "id": 12, "result": {"roots": []}},
        {"jsonrpc": "2.0", "id": 13, "error": {"code": -32601, "message": "no", "data": None}},
        [request(14, "ping"), notification("notifications/initialized"), 1],
    )
]
WORDS = [
    b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"\\ud800", b"\\u0000", b"\x00", b"\xff",
    b"\xf0\x9f", b"\n", b"\r", b'"', b"\\", b",", b":", b"[[[[", b"}}}}", b'"id":', b'"method":', b"9" * 5000,
    b"\xe2\x80\xa8", b"\xef\xbb\xbf", b'"jsonrpc":"2.0"', b"1.0", b"io.modelcontextprotocol/",
]  # fmt: skip


def place(data: bytearray, dice: random.Random, most: int) -> slice:
    start = dice.randrange(len(data) + 1)
    return slice(start, start + dice.randrange(most))


def swap(data: bytearray, dice: random.Random) -> None:
    """Put a part of another message in."""
    start, other = dice.randrange(len(data) + 1), dice.choice(CORPUS)
    part = other[place(bytearray(other), dice, 100)]
    data[start : start + len(part)] = part


CHANGES: list[Callable[[bytearray, random.Random], Any]] = [
    lambda data, dice: data.__setitem__(at := dice.randrange(len(data)), data[at] ^ 1 << dice.randrange(8)),
    lambda data, dice: data.__delitem__(place(data, dice, 12)),
    lambda data, dice: data.__setitem__(slice(at := dice.randrange(len(data)), at), data[at : at + dice.randrange(40)]),
    lambda data, dice: data.__setitem__(slice(at := dice.randrange(len(data)), at), dice.choice(WORDS)),
    lambda data, dice: data.__delitem__(slice(dice.randrange(len(data)), None)),
    swap,
]
"""Flip a bit, take bytes out, say some twice, put in a word that has a meaning somewhere, end too early."""


def mutant(dice: random.Random) -> bytes:
    """One message of the corpus with one to four changes."""
    data = bytearray(dice.choice(CORPUS))
    for _ in range(dice.randrange(1, 5)):
        if data:
            dice.choice(CHANGES)(data, dice)
    return bytes(data) + b"\n"


@pytest.mark.parametrize("seed", SEEDS)
def test_c20_thousands_of_mutants(serve: Serve, seed: int) -> None:
    dice = random.Random(seed)
    server = serve("2025-06-18" if seed % 2 else None)
    base, threads = server.status("VmRSS"), server.status("Threads")
    for start in range(0, COUNT, CHUNK):
        fence = f"fence {start}"
        try:
            server.send(b"".join(mutant(dice) for _ in range(CHUNK)))
            server.write(request(fence, "ping"))
            for message in iter(server.message, None):  # every line strict JSON and well-formed
                if isinstance(message, dict) and message.get("id") == fence:
                    assert "result" in message, message
                    break
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, messages {start} to {start + CHUNK}: {error}") from error
    server.send(b"\n")
    server.aside.clear()
    server.ask("tools/call", modern({"name": "echo", "arguments": {"text": "alive"}}), id="end")
    assert server.status("VmRSS") - base < 30_000, "memory grew by more than 30 MB"
    assert server.status("Threads") <= threads + 8
    server.close_input()
    server.rest()
    assert server.exit() == 0
    for sign in ("Exception in thread", "Fatal Python error"):
        assert sign not in server.stderr(), (seed, server.stderr()[-3000:])


# ---------------------------------------------------------------- figures


@pytest.mark.figures
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


@pytest.mark.figures
@pytest.mark.parametrize("backlog, calls, size, most", [(2_000_000, 10_000, 5_000, 30), (8_000_000, 60, MEGABYTE, 40)])
def test_c24_answers_nobody_takes_are_not_piled_up(
    serve: Serve, backlog: int, calls: int, size: int, most: int
) -> None:
    """Fifty megabytes of answers and more: nothing is lost, and they are never all in memory."""
    server = serve("2025-06-18", limits={"backlog_bytes": backlog, "requests": None})
    server.lives()
    base = server.status("VmRSS")
    flood = b"".join(call(n, "big", size=size) for n in range(calls))
    taken = server.send(flood, reading=False, wait=0.3)
    for _ in range(20):
        server.poll(0.02)  # one read of a pipe's worth, then a pause
    assert (server.status("VmRSS") - base) * 1024 < most * MEGABYTE
    server.send(flood[taken:])
    assert {len(said(server.message())) for _ in range(calls)} == {size}


CALLS = int(os.environ.get("MINIMCP_SOAK_CALLS", "2000"))
"""The catalogue asks for 100,000 (C38)."""


@pytest.mark.figures
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c38_the_same_work_again_and_again_leaves_nothing_behind(serve: Serve, revision: str) -> None:
    """Calls, errors, cancels, progress, refusals and strays, in turn."""
    server = serve(revision)

    def work(number: int) -> None:
        for n in range(number):
            assert server.text("add", {"a": n, "b": 1}) == str(n + 1)
            if n % 20 == 0:
                server.call("raiser", {"kind": "OSError"})
                server.call("count", {"n": 3}, token=n)
                server.ask("no/such/method")
                server.begin_call("watch", {"name": f"w{n % 7}"}, id=f"w{n}")
                cancel = notification("notifications/cancelled", {"requestId": f"w{n}"})
                server.write(cancel, {"jsonrpc": "2.0", "id": n})
                server.fence()

    work(CALLS // 10)
    threads, files, memory = server.status("Threads"), server.descriptors(), server.status("VmRSS")
    work(CALLS)
    assert server.descriptors() == files
    assert eventually(lambda: server.status("Threads") <= threads + 2)  # idle workers end
    assert server.status("VmRSS") - memory < 3_000
