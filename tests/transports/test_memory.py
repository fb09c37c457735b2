"""What the memory pipe does beyond the contract."""

from __future__ import annotations

import os
import threading
from typing import Optional

import pytest

from minimcp.engine.connection import Connection
from minimcp.engine.timer import Deadline
from minimcp.engine.transport import MemoryPipe, _Gate
from minimcp.errors import ConnectionLost

from ..scripted import ScriptedRole
from ..support import WAIT
from .ends import Task, receive_all


def test_a_full_pipe_makes_the_sender_wait() -> None:
    ours, peer = MemoryPipe.pair(capacity=10)
    assert ours.send(b"123456789\nabc", 0) == 10
    assert ours.send(b"abc", 0) == 0
    assert ours.send(b"abc", 0.01) == 0
    sending = Task(ours.send, b"abc\n", WAIT)
    assert peer.receive() == [b"123456789"]
    assert sending.result() == 4
    assert peer.receive() == [b"abc"]
    ours.close()
    peer.close()


def test_what_was_sent_before_the_close_can_still_be_read() -> None:
    ours, peer = MemoryPipe.pair()
    assert ours.send(b"a\nb", WAIT) == 3
    assert repr(ours) == "<MemoryPipe open>"
    ours.close()
    assert repr(ours) == "<MemoryPipe closed>"
    with pytest.raises(ConnectionLost):
        peer.send(b"x\n", WAIT)
    assert receive_all(peer) == [b"a", b"b"]
    peer.close()


def test_a_receiver_waits_for_a_whole_line() -> None:
    ours, peer = MemoryPipe.pair()
    waiting = Task(peer.receive)
    assert ours.send(b"ha", WAIT) == 2
    assert ours.send(b"lf\n", WAIT) == 3
    assert waiting.result() == [b"half"]
    ours.close()
    peer.close()


def test_close_during_a_half_line() -> None:
    ours, peer = MemoryPipe.pair()
    assert ours.send(b"ha", WAIT) == 2
    waiting = Task(receive_all, peer)
    peer.close()
    assert waiting.result() == []
    ours.close()


def test_a_forked_process_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, peer = MemoryPipe.pair()
    real = os.getpid()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: real + 1)
        with pytest.raises(ConnectionLost, match="fork"):
            ours.send(b"x\n", WAIT)
        assert ours.receive() == []
        ours.finish()
        ours.close()
    assert ours.send(b"x\n", WAIT) == 2
    assert peer.receive() == [b"x"]
    ours.close()
    peer.close()


def test_a_gate_opened_early_or_twice_is_open_once() -> None:
    gate = _Gate()
    gate.open()
    gate.open()
    gate.wait(WAIT)
    gate.wait(0)


def test_a_peer_that_left_is_told_from_an_end_of_our_own() -> None:
    """As by a real pipe: whoever learns that the peer has left may still read what it sent before."""
    ours, peer = MemoryPipe.pair()
    peer.close()
    with pytest.raises(ConnectionLost) as left:
        ours.send(b"x\n", WAIT)
    assert isinstance(left.value.__cause__, BrokenPipeError)
    ours.close()
    with pytest.raises(ConnectionLost) as closed:
        ours.send(b"x\n", WAIT)
    assert closed.value.__cause__ is None


def test_an_answer_that_came_before_the_peer_left_is_not_lost_to_a_write_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, go_on = threading.Event(), threading.Event()

    def hold(way: str, line: bytes) -> None:
        if way == "<--" and b"first" in line:
            reading.set()
            go_on.wait(WAIT)

    class Awaited(threading.Event):
        def wait(self, timeout: Optional[float] = None) -> bool:
            go_on.set()  # the write that failed waits for the reader
            return super().wait(WAIT)

    ours, peer = MemoryPipe.pair()
    channel = Connection(ours, ScriptedRole(), name="test", trace=hold)
    monkeypatch.setattr(channel, "_read_out", Awaited())
    channel.open()
    try:
        call = channel.calls.call("echo", lambda id: {})
        peer.send(b'{"jsonrpc":"2.0","method":"first"}\n', WAIT)
        assert reading.wait(WAIT)
        peer.send(b'{"jsonrpc":"2.0","id":%d,"result":{"text":"there"}}\n' % call.id, WAIT)
        peer.close()
        with pytest.raises(ConnectionLost):
            channel.calls.call("echo", lambda id: {})
        assert channel.calls.wait(call, Deadline(WAIT)) == {"text": "there"}
    finally:
        go_on.set()
        channel.close()
        assert channel.wait_until_ended(WAIT)
