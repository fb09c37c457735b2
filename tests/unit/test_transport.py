"""Lines, the transport over descriptors, the pair in memory, and the trace."""

from __future__ import annotations

import io
import os
import socket
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest

import minimcp
from minimcp.engine import transport as transport_module
from minimcp.engine.output import tracer
from minimcp.engine.transport import (
    HEAD_BYTES,
    TAIL_BYTES,
    LineSplitter,
    StreamTransport,
    TooLong,
    Transport,
    close_quietly,
    enlarge,
    memory_pair,
)
from minimcp.errors import ConnectionLost

from ..scripted import Task, wait_for
from ..support import WAIT, eventually

Pair = Tuple[Any, Any]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = memory_pair(None)
    yield ours, theirs
    ours.close()
    theirs.close()


# ------------------------------------------------------------ lines


@pytest.mark.requirement("M:STD-2", "M:STD-3")
@pytest.mark.parametrize("size", [1, 2, 3, 1000])
@pytest.mark.parametrize(("data", "lines"), [
    (b"", []), (b"one\n", [b"one"]), (b"one\r\n\n\r\ntwo", [b"one", b"two"]), (b"\xef\xbb\xbfone\n\xef\xbb\xbf\n", [
        b"one", b"\xef\xbb\xbf"]), (b"a\rb\n", [b"a\rb"]), (b"12345\r\n123456\n12\n", [b"12345", "long", b"12"]),
    (b"\xc2\x85\xe2\x80\xa8\n", [b"\xc2\x85\xe2\x80\xa8"]), (b"1234567", ["long"]), (b"\n" * 9, []),
])  # fmt: skip
def test_lines_do_not_depend_on_the_pieces_that_arrive(
    data: bytes, lines: List[Any], size: int
) -> None:
    splitter, found = LineSplitter(5), []
    for start in range(0, len(data), size):
        found += splitter.feed(data[start : start + size])
    found += splitter.rest()
    assert ["long" if isinstance(each, TooLong) else each for each in found] == lines


def test_both_ends_of_an_oversized_line_are_kept() -> None:
    splitter, text = LineSplitter(10_000), b"".join(b"%07d " % number for number in range(5000))
    found: List[Any] = []
    for start in range(0, len(text), 900):
        found += splitter.feed(text[start : start + 900])
        assert len(splitter.incomplete) <= 11_000
    found += splitter.feed(b"\nnext\n" + b"x" * 10_000 + b"\r\n")
    long, following, longest = found
    assert following == b"next" and long.limit == 10_000 and longest == b"x" * 10_000
    assert text.startswith(long.head) and len(long.head) == HEAD_BYTES
    assert text.endswith(long.tail) and len(long.tail) == TAIL_BYTES
    assert LineSplitter(None).feed(b"x" * 100_000 + b"\n") == [b"x" * 100_000]


# ------------------------------------------------------------ over descriptors


def test_a_reader_that_leaves_during_an_interruption_keeps_it_for_the_next(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ours, theirs), write, calling, go_on = pair, os.write, threading.Event(), threading.Event()

    def call(number: int, data: bytes) -> int:
        if data == b"!":
            calling.set()
            wait_for(go_on)
        return write(number, data)

    monkeypatch.setattr(os, "write", call)
    receiving, closing = Task(ours.receive), Task(ends_of(ours)[0].close, WAIT)
    wait_for(calling)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        theirs.close()  # for which the other thread leaves
    receiving.thread.join(0.05)
    go_on.set()
    closing.result()
    assert receiving.result() == []


@pytest.mark.parametrize("how", ["close", "twice"])
def test_close_interrupts_waiting_threads(pair: Pair, how: str) -> None:
    ours, theirs = pair
    while ours.send(b"x" * 100_000, 0):
        pass
    receiving, sending = Task(ours.receive), Task(ours.send, b"x", WAIT)
    closing = [Task(ours.close) for _ in range(1 if how == "close" else 5)]
    for each in closing:
        each.result()
    assert receiving.result() == []
    with pytest.raises(ConnectionLost, match="closed"):
        sending.result()
    assert not ours.peer_may_read()
    ours.close()


def test_the_end_of_a_process_is_the_end_of_its_stream() -> None:
    (reading, held), (ended, ending), (sink, writing) = os.pipe(), os.pipe(), os.pipe()
    transport = StreamTransport("child", reading, writing, None, ended=ended)
    os.write(held, b"said\nlast")
    os.close(ending)
    try:
        assert [transport.receive(), transport.receive(), transport.receive()] == [
            [b"said"],
            [b"last"],
            [],
        ]
    finally:
        transport.close()
        for number in (held, sink):
            os.close(number)


def test_a_shared_file_is_not_made_non_blocking_and_no_write_blocks() -> None:
    (nothing, writing_in), (reading, writing) = os.pipe(), os.pipe()
    transport = StreamTransport("shared", nothing, writing, None, shared=True)
    try:
        assert os.get_blocking(writing)
        total = 0
        while True:
            taken = transport.send(b"x" * 100_000, 0)
            if not taken:
                break
            total += taken
        assert total > 0 and transport.send(b"x", 0.01) == 0
        assert len(os.read(reading, 4096)) == 4096
        assert transport.send(b"x" * 10_000, WAIT) == 4096
    finally:
        transport.close()
        os.close(writing_in)
        os.close(reading)


def test_the_flag_of_a_file_is_put_back() -> None:
    (nothing, writing_in), (reading, writing) = os.pipe(), os.pipe()
    twin = os.dup(writing)
    transport = StreamTransport("pipe", nothing, writing, None)
    assert not os.get_blocking(twin)
    transport.close()
    assert os.get_blocking(twin)
    for number in (writing_in, reading, twin):
        os.close(number)


def test_descriptors_that_broke() -> None:
    transport = StreamTransport(
        "broken", os.open("/", os.O_RDONLY), -1, None
    )  # a folder cannot be read
    assert transport.receive() == [] and not transport.peer_may_read()
    transport.close()
    close_quietly(-1)
    close_quietly(1_000_000)  # there is none
    enlarge(1_000_000)


def ends_of(transport: Any) -> Any:
    """The descriptors of a transport: the one that it reads from, and the one that it writes to."""
    return transport._in, transport._out


@contextmanager
def used(transport: Any) -> Iterator[None]:
    """While it lasts another thread uses both descriptors."""
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        reading, writing = ends_of(transport)
        with reading.lock, writing.lock:
            held.set()
            wait_for(free)

    holding = Task(hold)
    wait_for(held)
    yield
    free.set()
    holding.result()


def test_descriptors_that_a_thread_does_not_leave_are_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "LEAVING_SECONDS", 0.01)
    (reading, held), (ended, ending), (sink, writing) = os.pipe(), os.pipe(), os.pipe()
    transport = StreamTransport("child", reading, writing, None, ended=ended)
    with used(transport):
        transport.close()
        assert [os.fstat(number).st_mode for number in (reading, ended, writing)]
    transport.close()
    for number in (reading, ended, writing):
        with pytest.raises(OSError):
            os.fstat(number)
    for number in (held, ending, sink):
        os.close(number)


def test_a_fork_closes_descriptors_and_changes_no_flag(pair: Pair) -> None:
    ours, _ = pair
    flag = os.dup(ends_of(ours)[1].number)
    with used(ours):  # by a thread that is not there in a fork
        ours.close_in_fork()
        assert ours.receive() == [] and not ours.peer_may_read() and not os.get_blocking(flag)
        with pytest.raises(ConnectionLost, match="closed"):
            ours.send(b"x", 0)
    os.close(flag)


def test_without_poll_reads_and_writes_end_when_the_peer_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_module, "HAS_POLL", False)
    ours, theirs = memory_pair(None)
    assert ours.send(b"one\n", 0) == 0 and ours.peer_may_read()
    assert ours.send(b"one\n", WAIT) == 4
    assert theirs.receive() == [b"one"]
    receiving = Task(theirs.receive)
    assert eventually(lambda: receiving.thread.is_alive())
    theirs.close()
    ours.close()
    assert receiving.result() == []


# ------------------------------------------------------------ the interface


class SocketTransport(Transport):
    """The shortest transport that keeps the rules, over a stream socket."""

    def __init__(self, stream: socket.socket) -> None:
        self.name, self._socket, self._lines = "custom", stream, LineSplitter(None)

    def receive(self) -> List[Any]:
        frames: List[Any] = []
        while not frames:
            try:
                chunk = self._socket.recv(65536)
            except OSError:
                chunk = b""
            if not chunk:
                return list(self._lines.rest())
            frames = self._lines.feed(chunk)
        return frames

    def send(self, data: bytes, seconds: float) -> int:
        if not seconds:
            return 0
        try:
            return self._socket.send(data)
        except OSError as error:
            raise self.loss("it is closed") from error

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()


class OverSocket(minimcp.Server):
    """Its clients come by sockets."""

    def open_pipe(self) -> Transport:
        ours, theirs = socket.socketpair()
        self.connect(SocketTransport(ours))
        return SocketTransport(theirs)


def conversation(server: minimcp.Server, revision: str) -> List[str]:
    said: List[str] = []
    with minimcp.connect(
        server, revision=revision, trace=lambda arrow, text: said.append(f"{arrow} {text}")
    ) as client:
        assert client.call_tool("echo", {"text": "é" * 10_000}).text == "é" * 10_000
        assert [tool.name for tool in client.list_tools()] == ["echo"]
    return said


@pytest.mark.requirement("TRANS-01", "TRANS-02", "M:BASE-24", "M:STD-16")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_a_foreign_transport_carries_the_same_messages(revision: str) -> None:
    said = []
    for make in (OverSocket, minimcp.Server):
        server = make("x")

        @server.tool
        def echo(text: str) -> str:
            """Give the text back."""
            return text

        said.append(conversation(server, revision))
        server.close()
    assert said[0] == said[1]


# ------------------------------------------------------------ the trace


def test_a_trace_is_a_file_or_a_function_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    assert tracer(None) is None
    file = io.StringIO()
    record = tracer(file)
    assert record is not None
    record("-->", b"a\xff\x1b[2J\xc2\x9b")
    assert file.getvalue() == "--> a\N{REPLACEMENT CHARACTER}\\x1b[2J\\x9b\n"
    file.close()
    record("-->", b"b")
    record("-->", b"c")
    assert len([each for each in caplog.records if "trace= failed" in each.getMessage()]) == 1
    with pytest.raises(TypeError, match="trace must be a text file or a callable, not int"):
        tracer(5)


def test_a_trace_to_a_real_file_goes_past_its_buffer(tmp_path: Path) -> None:
    """After the text that the program has written, and in its encoding."""
    path = tmp_path / "trace"
    with open(path, "w", encoding="latin-1", errors="backslashreplace") as file:
        file.write("mine\n")
        record = tracer(file)
        assert record is not None
        record("<--", "\xe9\u20ac\n".encode())
        assert path.read_bytes() == b"mine\n<-- \xe9\\u20ac\\n\n"


def test_without_free_descriptors_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: List[Any] = []
    pipe = os.pipe

    def scarce() -> Any:
        if len(made) == 2:
            raise OSError("too many open files")
        made.append(pipe())
        return made[-1]

    monkeypatch.setattr(os, "pipe", scarce)
    with pytest.raises(OSError, match="too many"):
        memory_pair(None)
    for number in [number for pair in made for number in pair]:
        with pytest.raises(OSError):
            os.fstat(number)
