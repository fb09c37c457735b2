"""Descriptors that a thread can be called away from."""

from __future__ import annotations

import os
import pty
import select
import socket
from typing import Any, Iterator, List, Optional, Tuple

import pytest

from minimcp.engine import transport
from minimcp.engine.transport import Bell, Sink, Source, close_quietly, enlarge
from minimcp.errors import ConnectionLost

from ..support import WAIT, eventually
from .ends import Task, over, receive_all


@pytest.fixture
def ends() -> Iterator[Tuple[Source, Sink, int, int]]:
    """A source and a sink with one bell, and the far ends of their pipes."""
    there, back = os.pipe(), os.pipe()
    bell = Bell()
    source, sink = Source(back[0], bell), Sink(there[1], bell, nonblocking=True)
    far = [there[0], back[1]]
    yield source, sink, there[0], back[1]
    bell.ring()
    source.retire()
    sink.retire()
    for number in far:
        close_quietly(number)


def test_a_read_grows_while_there_is_much_to_read(ends: Any) -> None:
    source, _, _, writing = ends
    enlarge(writing)
    os.write(writing, b"x" * 65536)
    assert len(source.read()) == 65536
    assert source._size == 4 * 65536
    os.write(writing, b"x")
    assert source.read() == b"x"
    assert source._size == 65536


def test_a_bell_that_rang_ends_reads_and_writes(ends: Any) -> None:
    source, sink, _, writing = ends
    os.write(writing, b"unread")
    source.bell.ring()
    source.bell.ring()
    assert source.read() is None
    with pytest.raises(BrokenPipeError):
        sink.write(b"x", WAIT, [])


def test_whether_anybody_hears_may_be_asked_while_a_write_waits() -> None:
    """As at the end of a server's input, while its last answers wait for room."""
    reading, writing = os.pipe()
    bell = Bell()
    sink = Sink(writing, bell, nonblocking=False)
    try:
        task = Task(sink.write, b"x" * 10_000_000, WAIT, [])
        assert eventually(lambda: bool(select.select([reading], [], [], 0)[0]) and not _has_room(writing))
        for _ in range(1000):
            assert sink.is_heard()
        close_quietly(reading)
        reading = -1
        with pytest.raises(OSError):
            task.result()
        assert eventually(lambda: not sink.is_heard())
    finally:
        close_quietly(reading)
        bell.ring()
        sink.retire()


def _has_room(number: int) -> bool:
    return bool(select.select([], [number], [], 0)[1])


def test_the_last_user_closes(ends: Any) -> None:
    source, _, _, _ = ends
    assert source.enter()
    source.retire()
    assert not source.gone.is_set()
    assert not source.enter()
    assert source.read() is None
    source.leave()
    assert source.gone.is_set()
    source.retire()


def test_a_source_that_only_seemed_ready(ends: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _, _, writing = ends
    os.set_blocking(source.number, False)
    waits: List[None] = []

    def wait(self: Any, milliseconds: Optional[float] = None) -> bool:
        waits.append(None)
        if len(waits) == 2:
            os.write(writing, b"now")
        return True

    monkeypatch.setattr(transport.Descriptor, "wait", wait)
    assert source.read() == b"now"
    assert len(waits) == 2


def test_a_reset_connection_ends_without_the_half_line() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    server = listener.accept()[0]
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    writing = os.dup(server.fileno())
    pipe = over(server.detach(), writing)
    waiting = Task(receive_all, pipe)
    client.close()
    assert waiting.result() == []

    def refused() -> bool:
        try:
            pipe.send(b"x\n", WAIT)
        except ConnectionLost as error:
            return isinstance(error.__cause__, OSError)
        return False

    assert eventually(refused)
    pipe.close()
    listener.close()


def test_the_end_of_a_terminal_lasts() -> None:
    master, slave = pty.openpty()
    pipe = over(slave, os.open(os.devnull, os.O_WRONLY))
    os.write(master, b"typed\n\x04more\n")
    assert pipe.receive() == [b"typed"]
    assert pipe.receive() == []
    assert pipe.receive() == []
    pipe.close()
    os.close(master)


def test_a_blocking_descriptor_is_written_in_pieces(tmp_path: Any) -> None:
    target = tmp_path / "out"
    writing = os.open(target, os.O_WRONLY | os.O_CREAT)
    pipe = over(os.open(os.devnull, os.O_RDONLY), writing, nonblocking=False)
    assert pipe.send(b"x" * 200_000, WAIT) == 200_000
    assert pipe.send(b"y" * 200_000, 0) == 200_000
    assert target.stat().st_size == 400_000
    assert receive_all(pipe) == []
    pipe.close()


def test_the_flag_of_a_shared_file_is_put_back() -> None:
    reading, writing = os.pipe()
    shared = os.dup(writing)
    sink = Sink(writing, Bell(), nonblocking=True)
    assert not os.get_blocking(shared)
    sink.bell.ring()
    sink.retire()
    assert os.get_blocking(shared)
    os.set_blocking(shared, False)
    sink = Sink(os.dup(shared), Bell(), nonblocking=True)
    sink.bell.ring()
    sink.retire()
    assert not os.get_blocking(shared)
    os.close(shared)
    os.close(reading)


def test_in_a_fork_descriptors_are_closed_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    there, back = os.pipe(), os.pipe()
    shared = os.dup(there[1])
    pipe = over(back[0], there[1])
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    with pytest.raises(ConnectionLost, match="fork"):
        pipe.send(b"x", WAIT)
    assert pipe.receive() == []
    pipe.finish()
    pipe.close()
    pipe.close()
    assert not os.get_blocking(shared)
    for number in (there[0], back[1], shared):
        os.close(number)
    assert set(os.listdir("/proc/self/fd")) == before


def test_without_poll_a_read_and_a_write_end_with_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(select, "poll")
    there, back = os.pipe(), os.pipe()
    pipe = over(back[0], there[1], nonblocking=False)
    waiting = Task(receive_all, pipe)
    assert pipe.send(b"x\n", WAIT) == 2
    assert os.read(there[0], 100) == b"x\n"
    monkeypatch.setattr(transport, "LEAVING_SECONDS", 0.0)
    pipe.close()
    os.close(back[1])
    assert waiting.result() == []
    os.close(there[0])


def test_what_is_no_pipe_is_not_enlarged(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "file", "wb") as file:
        enlarge(file.fileno())
    monkeypatch.setattr(transport, "fcntl", None)
    enlarge(-1)


def test_closing_quietly() -> None:
    number = os.open(os.devnull, os.O_RDONLY)
    close_quietly(number)
    close_quietly(number)
    close_quietly(-1)
