"""C31 to C36 of the fault catalogue: every way for a server to end, and what it does when the system runs dry."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import INTERNAL, MODERN, encode, request

STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def call(id: object, tool: str, **arguments: Any) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


def last_words(server: RawServer) -> list[Any]:
    """What it still says; it exits with 0, and nothing on stderr says that the end was an accident."""
    found = server.rest() if not server.ended else []
    assert server.exit() == 0
    log = server.stderr()
    for sign in ("Traceback", "Fatal Python error", "_enter_buffered_busy", "Exception ignored"):
        assert sign not in log, log[-3000:]
    return found


# ---------------------------------------------------------------- C31: the end of the input


@pytest.mark.requirement("STDIO-11", "LIFE-25", "M:STD-10")
@pytest.mark.parametrize("revision", [None, "2025-06-18", MODERN])
def test_c31_end_of_input_when_idle(serve: Serve, revision: str) -> None:
    server = serve(revision)
    if revision:
        server.lives()
    server.close_input()
    assert last_words(server) == []


@pytest.mark.requirement("STDIO-11")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c31_what_was_accepted_is_answered(serve: Serve, revision: str) -> None:
    """Calls, slow ones too, and the end of input in one go."""
    server = serve(revision)
    ids = [server.begin_call("echo", {"text": str(n)}, id=n) for n in range(20)]
    ids += [server.begin_call("deaf_slow", {"seconds": 0.15}, id=n) for n in range(20, 23)]
    server.close_input()
    assert sorted(message["id"] for message in last_words(server)) == ids


@pytest.mark.requirement("STDIO-11", "BASE-20")
@pytest.mark.parametrize("line, code", [
    (b"garbage\n", -32700), (b"half a line without its line feed", -32700), (b"x" * 5000 + b"\n", -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}\n', -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}\n', -32602),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600),
], ids=["garbage", "half", "long", "method", "tool", "id"])  # fmt: skip
def test_c31_refusals_are_answers_too(serve: Serve, line: bytes, code: int) -> None:
    server = serve("2025-06-18", limits={"message_bytes": 4000})
    server.send(line)
    server.close_input()
    assert [message["error"]["code"] for message in last_words(server)] == [code]


# ---------------------------------------------------------------- C32: signals


@pytest.mark.parametrize("number", STOPS)
def test_c32_a_signal_ends_it_and_cancels_what_heeds_that(serve: Serve, number: int) -> None:
    server, idle = serve("2025-06-18", limits={"drain_grace": 600}), serve("2025-06-18")
    server.begin_call("slow", {"seconds": 600}, id=1)
    for each in (server, idle):
        each.lives()
        each.signal(number)
    assert [(message["id"], message["error"]["code"]) for message in last_words(server)] == [(1, INTERNAL)]
    assert last_words(idle) == []


# ---------------------------------------------------------------- C33, C34: nobody reads, and nobody is there


@pytest.mark.requirement("LIFE-27", "M:STD-11")
def test_c33_nobody_reads_the_output_any_more(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.lives()
    server.close_output()
    server.send(call(1, "echo", text="x"))
    assert last_words(server) == []
