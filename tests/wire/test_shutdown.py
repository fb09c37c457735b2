"""C31 to C36 of the fault catalogue: every way for a server to end, and what it does when the system runs dry."""

from __future__ import annotations

import os
import pty
import signal
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .conftest import Serve
from .harness import HERE, RawServer
from .messages import INTERNAL, MODERN, encode, hello, notification, request

STOPS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
BUSY_STOPS = [signal.SIGTERM, signal.SIGINT]


def call(id: object, tool: str, **arguments: Any) -> bytes:
    """A call in a handshake session."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": arguments}))


def clean(server: RawServer) -> None:
    """Nothing on stderr says that the end was an accident."""
    log = server.stderr()
    for sign in ("Traceback", "Fatal Python error", "_enter_buffered_busy", "Exception ignored"):
        assert sign not in log, log[-3000:]


@pytest.mark.requirement("STDIO-11", "LIFE-25", "M:STD-10")
@pytest.mark.parametrize("revision", [None, "2025-06-18", MODERN])
def test_c31_end_of_input_when_idle(serve: Serve, revision: str) -> None:
    server = serve(revision)
    if revision:
        server.lives()
    server.close_input()
    assert server.rest() == []
    assert server.exit() == 0
    clean(server)


@pytest.mark.requirement("STDIO-11")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c31_what_was_accepted_is_answered(serve: Serve, revision: str) -> None:
    """Twenty calls and the end of input in one go: twenty answers."""
    server = serve(revision)
    ids = [server.begin_call("echo", {"text": str(n)}, id=n) for n in range(20)]
    server.close_input()
    assert sorted(message["id"] for message in server.rest()) == ids
    assert server.exit() == 0
    clean(server)


@pytest.mark.requirement("STDIO-11", "BASE-20")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"garbage\n", -32700),
        (b"half a line without its line feed", -32700),
        (b"x" * 5000 + b"\n", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such/method"}\n', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}\n', -32602),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}\n', -32600),
    ],
    ids=["garbage", "half", "long", "method", "tool", "id"],
)
def test_c31_refusals_are_answers_too(serve: Serve, line: bytes, code: int) -> None:
    server = serve("2025-06-18", limits={"message_bytes": 4000})
    server.send(line)
    server.close_input()
    assert [message["error"]["code"] for message in server.rest()] == [code]
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-11")
def test_c31_a_slow_call_is_answered_before_the_end(serve: Serve) -> None:
    server = serve("2025-06-18")
    for n in range(3):
        server.begin_call("deaf_slow", {"seconds": 0.15}, id=n)
    server.close_input()
    assert sorted(message["id"] for message in server.rest()) == [0, 1, 2]
    assert server.exit() == 0


@pytest.mark.requirement("STDIO-11", "M:STD-10")
@pytest.mark.parametrize("tool", ["slow", "never"])
def test_c31_the_grace_ends_it(serve: Serve, tool: str) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.1})
    server.begin_call(tool, {"seconds": 30} if tool == "slow" else {}, id=1)
    server.text("echo", {"text": "x"})
    server.close_input()
    assert len(server.rest()) <= 1
    assert server.exit() == 0
    clean(server)


@pytest.mark.requirement("M:STD-10")
def test_c31_end_of_input_before_the_first_line() -> None:
    server = RawServer()
    assert server.finish() == []


@pytest.mark.parametrize("number", STOPS)
def test_c32_a_signal_when_idle(serve: Serve, number: int) -> None:
    server = serve("2025-06-18")
    server.lives()
    server.signal(number)
    assert server.exit() == 0
    assert server.rest() == []
    clean(server)


@pytest.mark.parametrize("number", BUSY_STOPS)
def test_c32_a_signal_with_a_call_in_flight(serve: Serve, number: int) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.1})
    server.begin_call("deaf_slow", {"seconds": 30}, id=1)
    server.text("echo", {"text": "x"})
    server.signal(number)
    assert server.exit() == 0
    clean(server)


def test_c32_a_signal_lets_running_calls_finish(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.begin_call("deaf_slow", {"seconds": 0.15}, id=1)
    server.text("echo", {"text": "x"})
    server.signal(signal.SIGTERM)
    assert [message["id"] for message in server.rest()] == [1]
    assert server.exit() == 0
    clean(server)


@pytest.mark.parametrize("number", STOPS)
def test_c32_a_signal_cancels_what_heeds_it(serve: Serve, number: int) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 600})
    server.begin_call("slow", {"seconds": 600}, id=1)
    server.text("echo", {"text": "x"})
    server.signal(number)
    assert [(message["id"], message["error"]["code"]) for message in server.rest()] == [(1, INTERNAL)]
    assert server.exit() == 0
    clean(server)


@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)])
def test_c32_a_second_signal_ends_it_at_once(serve: Serve, first: int, second: int) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 600})
    server.begin_call("never", id=1)
    server.begin_call("slow", {"seconds": 600}, id=2)
    server.text("echo", {"text": "x"})
    server.signal(first)
    assert server.answer(2)["error"]["code"] == INTERNAL  # the first has been seen: two at once could be one
    server.notify("notifications/nobody")
    assert not server.poll(0.1)
    assert server.process.poll() is None
    server.signal(second)
    server.exit()
    clean(server)


def test_c32_an_interrupt_with_a_terminal_for_input(serve: Serve) -> None:
    master, slave = pty.openpty()
    try:
        server = serve(stdin=slave)
        os.write(master, encode(request(1, "ping")))
        assert server.answer(1)["result"] == {}
        server.signal(signal.SIGINT)
        assert server.exit() == 0
        clean(server)
    finally:
        os.close(master)
        os.close(slave)


def test_c32_an_interrupt_does_not_strike_a_tool(serve: Serve, tmp_path: Path) -> None:
    server, gate = serve("2025-06-18", limits={"drain_grace": 600}), tmp_path / "gate"
    os.mkfifo(gate)
    server.begin_call("slow", {"seconds": 600}, id=1)
    server.text("echo", {"text": "x"})
    server.begin_call("hold_file", {"path": str(gate)}, id=2)
    with open(gate, "wb"):  # open when the tool has opened it too
        server.signal(signal.SIGINT)
        assert server.answer(1)["error"]["code"] == INTERNAL  # it has been seen
    left = server.rest()
    assert [message["result"]["content"][0]["text"] for message in left] == ["released"]
    assert server.exit() == 0


@pytest.mark.requirement("LIFE-27", "M:STD-11")
def test_c33_nobody_reads_the_output_any_more(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.lives()
    server.close_output()
    server.send(call(1, "echo", text="x"))
    assert server.exit() == 0
    clean(server)


def test_c33_nobody_reads_stderr(serve: Serve) -> None:
    reader, writer = os.pipe()
    server = serve("2025-06-18", stderr=writer)
    os.close(writer)
    os.close(reader)
    for _ in range(3):
        server.call("prints", {"kind": "os.write"})
        assert server.call("raiser", {"kind": "OSError"})["isError"] is True
    server.lives()
    server.close_input()
    assert server.rest() == []
    assert server.exit() == 0


def test_c33_nobody_reads_either(serve: Serve) -> None:
    reader, writer = os.pipe()
    server = serve("2025-06-18", stderr=writer)
    os.close(writer)
    os.close(reader)
    server.close_output()
    server.send(call(1, "raiser", kind="OSError"))
    assert server.exit() == 0


def test_c34_the_parent_is_killed(serve: Serve) -> None:
    """The pipes stay open in this process, so only the look at the parent can tell."""
    reader, writer = os.pipe()
    parent = serve(script=HERE / "servers" / "parent.py", stderr=writer, limits={"drain_grace": 0.1})
    os.close(writer)
    try:
        assert int(os.read(reader, 100)) != parent.process.pid
        parent.initialize("2025-06-18")
        parent.lives()
        parent.begin_call("never")
        parent.lives()
        parent.signal(signal.SIGKILL)
        parent.exit()
        parent.rest()  # the end of the output: the last process that had it is gone
    finally:
        os.close(reader)


SCRIPT = b"".join(
    map(encode, [request(1, "initialize", hello("2025-06-18")), notification("notifications/initialized")])
) + call(2, "echo", text="x")


def test_c35_input_from_a_file(serve: Serve) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(SCRIPT)
        file.seek(0)
        server = serve(stdin=file)
        assert sorted(message["id"] for message in server.rest()) == [1, 2]
        assert server.exit() == 0
        clean(server)


def test_c35_input_from_dev_null(serve: Serve) -> None:
    with open(os.devnull, "rb") as nothing:
        server = serve(stdin=nothing)
        assert server.rest() == []
        assert server.exit() == 0
        clean(server)


def test_c35_input_and_output_are_one_socket(serve: Serve) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = serve(stdin=theirs, stdout=theirs)
        theirs.close()
        ours.settimeout(20)
        ours.sendall(SCRIPT)
        found = b""
        while found.count(b"\n") < 2:
            found += ours.recv(65536)
        ours.shutdown(socket.SHUT_WR)
        assert ours.recv(1) == b""
        assert server.exit() == 0
        clean(server)


def test_c35_input_from_a_terminal(serve: Serve) -> None:
    master, slave = pty.openpty()
    try:
        server = serve(stdin=slave)
        os.write(master, SCRIPT)
        assert server.answer(1)["result"]["protocolVersion"] == "2025-06-18"
        assert server.answer(2)["result"]["content"][0]["text"] == "x"
        os.write(master, b"\x04")  # what Ctrl-D sends
        assert server.rest() == []
        assert server.exit() == 0
        clean(server)
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_c35_a_standard_stream_that_is_closed_from_the_start(number: int) -> None:
    """Without stdin or stdout the server ends by itself, without stderr it works; it never hangs."""
    server = RawServer(script=HERE / "servers" / "closed.py", env={"CLOSE": str(number)})
    try:
        if number == 2:
            server.initialize("2025-06-18")
            server.lives()
            server.call("prints", {"kind": "os.write"})
            server.call("raiser", {"kind": "OSError"})
            server.lives()
        server.close_input()
        assert server.rest() == []
        assert server.exit() >= 0
        assert "Exception in thread" not in server.stderr()
    finally:
        server.dispose()


def test_c36_sixteen_open_files(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.text("limit_files", {"most": 16})
    for n in range(30):
        server.text("add", {"a": n, "b": n})
    ids = [server.begin_call("deaf_slow", {"seconds": 0.05}) for _ in range(30)]
    for id in ids:
        assert server.answer(id)["result"]["content"][0]["text"] == "slept"
    server.lives()


def test_c36_no_thread_can_be_started(serve: Serve) -> None:
    """Calls are refused or wait for a worker that is there; none is lost and the server lives."""
    server = serve("2025-06-18")
    server.text("no_more_threads", {"on": True})
    ids = [server.begin_call("deaf_slow", {"seconds": 0.01}) for _ in range(20)]
    for id in ids:
        reply = server.answer(id)
        assert "result" in reply or reply["error"]["code"] == INTERNAL, reply
    assert server.result("ping") == {}
    assert server.call("no_more_threads", {"on": False})["content"]
    server.lives()


def test_c36_the_log_is_full(serve: Serve) -> None:
    with open("/dev/full", "wb") as full:
        server = serve("2025-06-18", stderr=full)
        for _ in range(3):
            assert server.call("raiser", {"kind": "OSError"})["isError"] is True
            server.call("prints", {"kind": "os.write"})
        server.lives()
        assert server.finish() == []
