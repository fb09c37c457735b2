"""C31 to C36 of the fault catalogue: every way for a server to end, and what it does when the system runs dry."""

from __future__ import annotations

import os
import pty
import signal
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import pytest

from .conftest import Serve
from .harness import HERE, RawServer
from .messages import INTERNAL, MODERN, encode, hello, notification, request

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


@pytest.mark.requirement("STDIO-11", "M:STD-10")
@pytest.mark.parametrize("tool", ["slow", "never"])
def test_c31_the_grace_ends_it(serve: Serve, tool: str) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.1})
    server.begin_call(tool, {"seconds": 30} if tool == "slow" else {}, id=1)
    server.text("echo", {"text": "x"})
    server.close_input()
    assert len(last_words(server)) <= 1


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


@pytest.mark.parametrize("number", STOPS[:2])
@pytest.mark.parametrize("seconds, answers", [(0.15, [1]), (30, [])])
def test_c32_a_signal_lets_running_calls_finish_within_the_grace(
    serve: Serve, number: int, seconds: float, answers: Any
) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 0.1 if seconds > 1 else 600})
    server.begin_call("deaf_slow", {"seconds": seconds}, id=1)
    server.text("echo", {"text": "x"})
    server.signal(number)
    assert [message["id"] for message in last_words(server) if "result" in message] == answers


@pytest.mark.parametrize("number", STOPS[:2])
@pytest.mark.figures  # it ends by itself after 1.4 s
def test_c32_a_second_signal_ends_it_at_once(serve: Serve, number: int) -> None:
    server = serve("2025-06-18", limits={"drain_grace": 600})
    server.begin_call("never", id=1)
    server.begin_call("slow", {"seconds": 600}, id=2)
    server.text("echo", {"text": "x"})
    server.signal(number)
    assert server.answer(2)["error"]["code"] == INTERNAL  # the first has been seen: two at once could be one
    server.notify("notifications/nobody")
    assert not server.poll(0.1) and server.process.poll() is None
    server.signal(number)
    server.exit()
    assert "Traceback" not in server.stderr()


def test_c32_an_interrupt_does_not_strike_a_tool(serve: Serve, tmp_path: Path) -> None:
    server, gate = serve("2025-06-18", limits={"drain_grace": 600}), tmp_path / "gate"
    os.mkfifo(gate)
    server.begin_call("slow", {"seconds": 600}, id=1)
    server.text("echo", {"text": "x"})
    server.begin_call("hold_file", {"path": str(gate)}, id=2)
    with open(gate, "wb"):  # open when the tool has opened it too
        server.signal(signal.SIGINT)
        assert server.answer(1)["error"]["code"] == INTERNAL  # it has been seen
    assert [message["result"]["content"][0]["text"] for message in last_words(server)] == ["released"]


# ---------------------------------------------------------------- C33, C34: nobody reads, and nobody is there


@pytest.mark.requirement("LIFE-27", "M:STD-11")
def test_c33_nobody_reads_the_output_any_more(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.lives()
    server.close_output()
    server.send(call(1, "echo", text="x"))
    assert last_words(server) == []


@pytest.mark.parametrize("also_output", [False, True])
def test_c33_nobody_reads_stderr(serve: Serve, also_output: bool) -> None:
    reader, writer = os.pipe()
    server = serve("2025-06-18", stderr=writer)
    os.close(writer)
    os.close(reader)
    if also_output:
        server.close_output()
        server.send(call(1, "raiser", kind="OSError"))
    else:
        _loud(server)
        server.close_input()
    assert last_words(server) == []


def _loud(server: RawServer) -> None:
    """Write to stderr, in both ways."""
    for _ in range(3):
        server.call("prints", {"kind": "os.write"})
        assert server.call("raiser", {"kind": "OSError"})["isError"] is True
    server.lives()


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


# ---------------------------------------------------------------- C35: other standard streams

SCRIPT = b"".join(
    map(encode, [request(1, "initialize", hello("2025-06-18")), notification("notifications/initialized")])
) + call(2, "echo", text="x")


def test_c35_input_from_a_file(serve: Serve) -> None:
    for content, ids in ((SCRIPT, [1, 2]), (b"", [])):
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            assert sorted(message["id"] for message in last_words(serve(stdin=file))) == ids


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
        server.ended = True
        assert last_words(server) == []


@contextmanager
def terminal(serve: Serve) -> Iterator[Any]:
    """A server with a terminal for input, and the other end of that."""
    master, slave = pty.openpty()
    try:
        yield serve(stdin=slave), master
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize("end", ["Ctrl-D", "Ctrl-C"])
def test_c35_input_from_a_terminal(serve: Serve, end: str) -> None:
    with terminal(serve) as (server, master):
        os.write(master, SCRIPT)
        assert server.answer(1)["result"]["protocolVersion"] == "2025-06-18"
        assert server.answer(2)["result"]["content"][0]["text"] == "x"
        if end == "Ctrl-D":
            os.write(master, b"\x04")
        else:
            server.signal(signal.SIGINT)
        assert last_words(server) == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_c35_a_standard_stream_that_is_closed_from_the_start(number: int) -> None:
    """Without stdin or stdout the server ends by itself, without stderr it works; it never hangs."""
    server = RawServer(script=HERE / "servers" / "closed.py", env={"CLOSE": str(number)})
    try:
        if number == 2:
            server.initialize("2025-06-18")
            _loud(server)
        server.close_input()
        assert server.rest() == [] and server.exit() >= 0
        assert "Exception in thread" not in server.stderr()
    finally:
        server.dispose()


# ---------------------------------------------------------------- C36: the system runs dry


def test_c36_sixteen_open_files(serve: Serve) -> None:
    server = serve("2025-06-18")
    server.text("limit_files", {"most": 16})
    for id in [server.begin_call("deaf_slow", {"seconds": 0.05}) for _ in range(30)]:
        assert server.answer(id)["result"]["content"][0]["text"] == "slept"
    server.lives()


def test_c36_no_thread_can_be_started(serve: Serve) -> None:
    """Calls are refused or wait for a worker that is there; none is lost and the server lives."""
    server = serve("2025-06-18")
    server.text("no_more_threads", {"on": True})
    for id in [server.begin_call("deaf_slow", {"seconds": 0.01}) for _ in range(20)]:
        reply = server.answer(id)
        assert "result" in reply or reply["error"]["code"] == INTERNAL, reply
    assert server.result("ping") == {}
    assert server.call("no_more_threads", {"on": False})["content"]
    server.lives()


def test_c36_the_log_is_full(serve: Serve) -> None:
    with open("/dev/full", "wb") as full:
        server = serve("2025-06-18", stderr=full)
        _loud(server)
        assert server.finish() == []
