"""The control worker: what a connection itself owes, never behind anything else."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any, Iterator, List

import pytest
from minimcp.engine.control import ControlWorker

from minimcp.engine.requests import IncomingRequest, Route
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import NEWEST_HANDSHAKE

from .scripted import RecordingOutlet, Task, wait_for
from .support import WAIT


class Bench:
    """A control worker and what it sends, piece by piece."""

    def __init__(self) -> None:
        self.waiting: List[bytes] = []
        self.pieces: "SimpleQueue[Any]" = SimpleQueue()
        self.control = ControlWorker(self.waiting.append, self.flush)
        self.task = Task(self.control.live)

    def flush(self, answers: int) -> None:
        lines = []
        while self.waiting:
            lines.append(self.waiting.pop(0))
        self.pieces.put((b"".join(lines), answers))

    def next(self) -> Any:
        return self.pieces.get(timeout=WAIT)

    def close(self) -> None:
        self.control.close()
        self.task.result()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def exchange(id: int, outlet: Any = None) -> IncomingRequest:
    route = Route(lambda exchange: {"n": id}, control=True)
    return IncomingRequest(Request(id, "ping"), Peer(NEWEST_HANDSHAKE), route, outlet or RecordingOutlet())


def test_what_is_owed_is_sent_and_no_answer(bench: Bench) -> None:
    bench.control.owe(b"refusal\n")
    assert bench.next() == (b"refusal\n", 0)


def test_a_request_is_answered(bench: Bench) -> None:
    bench.control.run(exchange(1))
    assert bench.next() == (b'{"jsonrpc":"2.0","id":1,"result":{"n":1}}\n', 1)


def test_a_request_that_was_cancelled_leaves_nothing(bench: Bench) -> None:
    outlet = RecordingOutlet()
    outlet.open = False
    bench.control.run(exchange(1, outlet))
    assert bench.next() == (b"", 0)


def test_a_function_is_called(bench: Bench) -> None:
    called = threading.Event()
    bench.control.run(called.set)
    wait_for(called)


def test_a_function_that_fails_does_not_end_it(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("at close")

    bench.control.run(fail)
    bench.control.owe(b"a\n")
    while bench.next() != (b"a\n", 0):
        pass
    assert "at close" in caplog.text


def test_what_is_ready_together_leaves_together(bench: Bench) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        wait_for(go)

    bench.control.run(hold)
    wait_for(begun)
    for id in range(3):
        bench.control.run(exchange(id))
    go.set()
    piece, answers = bench.next()
    assert piece.count(b"\n") == answers == 3


def test_a_flood_does_not_keep_answers_back(bench: Bench) -> None:
    """There is always more to do, and something leaves all the same."""
    left = [True]
    outlet = RecordingOutlet()

    def again(one: IncomingRequest) -> Any:
        outlet.open = True
        if left:
            bench.control.run(one)
        return {}

    flood = IncomingRequest(Request(1, "ping"), Peer(NEWEST_HANDSHAKE), Route(again, control=True), outlet)
    bench.control.run(flood)
    assert bench.next()[1] > 0
    left.clear()


def test_close_sends_what_was_there_before() -> None:
    bench = Bench()
    bench.control.owe(b"farewell\n")
    bench.close()
    assert bench.control.ended.is_set()
    sent = b""
    while not bench.pieces.empty():
        sent += bench.next()[0]
    assert sent == b"farewell\n"


def test_an_answer_of_somebody_else_is_written_and_counted(bench: Bench) -> None:
    bench.control.deliver(b"answer\n")
    assert bench.next() == (b"answer\n", 1)
