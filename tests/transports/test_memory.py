"""What the memory pipe does beyond the contract."""

from __future__ import annotations

import os

import pytest

from minimcp.errors import ConnectionLost
from minimcp.transports.memory import MemoryPipe, _Gate

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
