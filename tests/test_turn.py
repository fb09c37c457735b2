"""`Turn`: one at a time, and nobody waits longer than its call may."""

from __future__ import annotations

import threading
from typing import Any, List

import pytest

from minimcp.client.turn import Turn
from minimcp.engine.requests import CancelToken
from minimcp.engine.timer import Deadline
from minimcp.engine.requests import Outgoing
from minimcp.errors import Cancelled, ConnectionLost, ProtocolViolation, RequestTimeout

from .scripted import Task
from .support import WAIT, eventually


def made() -> "tuple[Turn, Outgoing]":
    calls = Outgoing("test", post=lambda line: None, owe=lambda line: None)
    return Turn(calls), calls


def wait_for_turn(turn: Turn, cancel: Any = None, seconds: Any = WAIT) -> None:
    with turn.taken(Deadline(seconds), cancel):
        pass


def test_one_at_a_time_in_order() -> None:
    turn, calls = made()
    seen: List[int] = []
    inside: List[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            with turn.taken(Deadline(WAIT)):
                inside.append(number)
                assert len(inside) == 1
                seen.append(inside.pop())

    with turn.taken(Deadline(WAIT)):
        tasks = [Task(work, number) for number in range(4)]
        assert eventually(lambda: "5 in line" in repr(turn)) and not seen
    for task in tasks:
        task.result()
    assert len(seen) == 200 and not len(calls.table) and repr(turn) == "<Turn 0 in line>"


def test_a_wait_ends_with_its_call() -> None:
    turn, calls = made()
    token = CancelToken()
    with turn.taken(Deadline(WAIT)):
        with pytest.raises(RequestTimeout, match="takes too long"):
            wait_for_turn(turn, seconds=0.01)
        waiting = Task(wait_for_turn, turn, token)
        assert eventually(lambda: "2 in line" in repr(turn))
        token.cancel("enough")
        with pytest.raises(Cancelled, match="enough"):
            waiting.result()
        with pytest.raises(Cancelled):
            wait_for_turn(turn, token)
        waiting = Task(wait_for_turn, turn)
        assert eventually(lambda: len(calls.table) == 1)
        calls.table.settle(calls.table.ids()[0], {"rogue": True})
        with pytest.raises(ProtocolViolation):
            waiting.result()
    wait_for_turn(turn)
    with pytest.raises(ZeroDivisionError), turn.taken(Deadline(WAIT)):
        raise ZeroDivisionError
    wait_for_turn(turn)


def test_the_loss_ends_every_wait() -> None:
    turn, calls = made()
    held = threading.Event()

    def hold() -> None:
        with turn.taken(Deadline(WAIT)):
            held.set()
            assert eventually(lambda: calls.table.cause is not None)

    holder = Task(hold)
    assert held.wait(WAIT)
    waiting = Task(wait_for_turn, turn)
    assert eventually(lambda: "2 in line" in repr(turn))
    calls.table.close(ConnectionLost("gone"))
    holder.result()
    with pytest.raises(ConnectionLost, match="gone"):
        waiting.result()
    with pytest.raises(ConnectionLost, match="gone"):
        wait_for_turn(turn)
