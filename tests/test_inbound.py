"""The requests that the peer waits for: in once, out once, counted until their answers are written."""

from __future__ import annotations

import json
from typing import Any, Callable, List

import pytest

from minimcp.engine.limits import Limits
from minimcp.engine.requests import (
    LATER,
    Batch,
    Inbound,
    IncomingRequest,
    Outgoing,
    Route,
    Sink,
    current_exchange,
    why_no_batch,
)
from minimcp.errors import INVALID_PARAMS, InternalError, InvalidRequest
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Failure, InvalidMessage, Notification, Request, Response
from minimcp.protocol.versions import NEWEST_HANDSHAKE

from .rows import for_each
from .scripted import Task
from .support import WAIT, eventually

PEER = Peer(NEWEST_HANDSHAKE)
CALLS = Outgoing("test", post=lambda line: None, owe=lambda line: None)


class Bench:
    """The requests of one connection, and what they send, owe and run aside."""

    def __init__(self, **limits: Any) -> None:
        self.sent: List[bytes] = []
        self.owed: List[bytes] = []
        self.delivered: List[bytes] = []
        self.aside: List[Callable[[], None]] = []
        self.works: List[Callable[[], Any]] = []
        self.inbound = Inbound(
            Limits(**limits), send=self.sent.append, owe=self.owed.append, deliver=self.delivered.append,
            later=self.works.append, run_aside=self.aside.append, calls=CALLS,
        )

    def add(self, id: Any = 1, *, method: str = "work", outlet: Any = None, size: int = 0, **route: Any) -> IncomingRequest:
        exchange = IncomingRequest(
            Request(id, method), PEER, Route(lambda exchange: {"n": 1}, **route), outlet or self.inbound, size
        )
        self.inbound.add(exchange)
        return exchange

    def batch(self, *ids: Any, lines: Any = ()) -> Batch:
        return Batch(self.inbound, list(lines), list(ids))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def answers(line: Any) -> Any:
    return [(item["id"], "result" in item) for item in json.loads(line)]


def test_a_request_may_stay_open_without_a_thread(bench: Bench) -> None:
    for outlet in (bench.inbound, bench.batch(2)):
        exchange = bench.add(2, outlet=outlet)
        exchange.route.handle = lambda exchange: LATER
        assert exchange.run() is None
        assert len(bench.inbound) == 1 and not bench.inbound.wait_until_empty(0)
        assert current_exchange() is None
        exchange.outlet.later(lambda: b"news\n")
        assert bench.works.pop()() == b"news\n"
        farewell = json.loads(exchange.outlet.farewell(2) or b"")
        assert (farewell["method"], farewell["params"]) == ("notifications/cancelled", {"requestId": 2})
        assert exchange.outlet.claim(exchange)
        assert bench.inbound.wait_until_empty(0)
    assert Sink().farewell(2) is None


def test_a_request_is_in_until_it_is_answered_and_counts_until_that_is_written(bench: Bench) -> None:
    exchange = bench.add()
    assert len(bench.inbound) == 1
    assert not bench.inbound.wait_until_empty(0)
    assert exchange.run() is not None
    assert len(bench.inbound) == 0
    assert not bench.inbound.wait_until_empty(0)
    bench.inbound.written(1)
    assert bench.inbound.wait_until_empty(0)


def test_who_waits_is_told_when_the_last_answer_is_written(bench: Bench) -> None:
    exchanges = [bench.add(1), bench.add("1")]
    waiting = Task(bench.inbound.wait_until_empty, WAIT)
    assert eventually(lambda: bench.inbound._awaited)
    for exchange in exchanges:
        exchange.run()
        bench.inbound.written(1)
    assert waiting.result()


@pytest.mark.requirement("BASE-04")
def test_an_id_that_is_in_use(bench: Bench) -> None:
    bench.add(1)
    bench.add("1")
    with pytest.raises(InvalidRequest, match="id 1 is in use"):
        bench.add(1)


def test_an_id_may_come_again_after_its_answer(bench: Bench) -> None:
    bench.add(1).run()
    assert bench.add(1).run() is not None


def test_bytes_that_wait_are_bounded() -> None:
    bench = Bench(max_queue_bytes=10)
    first = bench.add(1, size=6)
    with pytest.raises(InternalError, match="wait already"):
        bench.add(2, size=5)
    bench.add(3, size=4)
    first.run()  # it waits no longer
    bench.add(4, size=6)


def test_bytes_without_a_limit() -> None:
    Bench(max_queue_bytes=None).add(size=1 << 40)


def test_requests_that_run_are_bounded_except_what_the_connection_owes() -> None:
    bench = Bench(max_requests=1)
    running = bench.add(1)
    assert bench.inbound.begin(running) is None
    refused = bench.add(2).run()
    assert refused is not None
    assert b"more than 1 requests run" in refused
    assert b"result" in (bench.add(3, control=True).run() or b"")
    assert b"result" in (Bench(max_requests=None).add().run() or b"")


@pytest.mark.requirement("CANC-04")
def test_what_waits_in_an_executor_counts_as_begun() -> None:
    bench = Bench(max_requests=2, max_queue_bytes=10)
    waiting = bench.add(1, size=6)
    assert bench.inbound.queue(waiting) is None
    with pytest.raises(InternalError, match="wait already"):
        bench.add(2, size=6)  # its bytes count until it runs
    assert bench.inbound.queue(bench.add(3)) is None
    full = bench.inbound.queue(bench.add(4))
    assert full is not None and "more than 2 requests run" in full.message
    assert b"more than 2 requests" in (bench.add(5).run() or b"")
    assert b"result" in (waiting.run() or b"")
    bench.add(6, size=6)
    batch = bench.batch(7)
    assert batch.queue(bench.add(7, outlet=batch)) is None
    batch.deliver(b"answer\n")
    assert bench.delivered == [b"answer\n"]


def test_a_cancel_takes_the_answer_away(bench: Bench) -> None:
    exchange = bench.add()
    bench.inbound.cancel(1, "never mind")
    bench.inbound.cancel(1, "twice")
    assert exchange.cancelled
    assert exchange.reason == "never mind"
    assert len(bench.inbound) == 0
    assert exchange.run() is None
    assert bench.inbound.wait_until_empty(0)


@pytest.mark.requirement("CANC-02", "CANC-03", "CANC-05")
@pytest.mark.parametrize("id", [1, "2", 3])
def test_a_cancel_of_something_else_does_nothing(bench: Bench, id: Any) -> None:
    exchanges = [bench.add("1"), bench.add(2), bench.add(3, method="initialize")]
    bench.inbound.cancel(id, None)
    assert not any(exchange.cancelled for exchange in exchanges)


def test_a_cancel_that_meets_the_answer(bench: Bench) -> None:
    class Leaving(dict):  # type: ignore[type-arg]
        def get(self, id: Any, default: Any = None) -> Any:
            """Found, and gone in the next moment."""
            found = super().get(id)
            self.pop(id, None)
            return found

    exchange = bench.add()
    bench.inbound._exchanges = Leaving(bench.inbound._exchanges)
    bench.inbound.cancel(1, None)
    assert not exchange.cancelled


def test_an_answer_to_an_id_that_is_anothers_by_now(bench: Bench) -> None:
    first = bench.add(1)
    bench.inbound.cancel(1, None)
    second = bench.add(1)
    assert first.run() is None
    assert not second.cancelled
    assert second.run() is not None


def test_what_belongs_to_a_request_goes_the_way_of_the_connection(bench: Bench) -> None:
    exchange = bench.add()
    exchange.send("notifications/message", {})
    exchange.expire(b"late\n", "slow")
    exchange.on_cancel(lambda: None)
    assert (len(bench.sent), bench.owed, len(bench.aside)) == (1, [b"late\n"], 1)
    assert exchange.run() is None


def test_an_answer_may_be_as_long_as_the_limit() -> None:
    size = len(Bench().add().run() or b"") - 1
    for limit, fits in ((size, True), (None, True), (size - 1, False)):
        bench = Bench(max_message_bytes=limit)
        assert answers(b"[" + (bench.add().run() or b"") + b"]") == [(1, fits)]


def test_an_array_of_answers_is_one_message() -> None:
    def whole(**limits: Any) -> bytes:
        bench = Bench(**limits)
        batch = bench.batch(1, 2, 3)
        exchanges = [bench.add(id, outlet=batch) for id in (1, 2, 3)]
        assert batch.complete() is None
        return [exchange.run() for exchange in exchanges][-1] or b""

    size = len(whole()) - 1
    assert answers(whole(max_message_bytes=size)) == [(1, True), (2, True), (3, True)]
    assert answers(whole(max_message_bytes=size - 1)) == [(1, True), (2, True), (3, False)]


def test_what_is_interrupted_is_cancelled_and_may_still_answer(bench: Bench) -> None:
    running, owed = bench.add(1), bench.add(2, control=True)
    bench.inbound.interrupt("the server ends")
    assert (running.cancelled, running.reason, owed.cancelled) == (True, "the server ends", False)
    assert answers(b"[" + (owed.run() or b"") + b"]") == [(2, True)]
    assert answers(b"[" + (running.run() or b"") + b"]") == [(1, False)]  # cancelled before it began


def test_what_is_abandoned_is_cancelled_and_waited_for_no_longer(bench: Bench) -> None:
    exchanges = [bench.add(1), bench.add(2)]
    bench.inbound.begin(exchanges[0])
    waiting = Task(bench.inbound.wait_until_empty, WAIT)
    assert eventually(lambda: bench.inbound._awaited)
    bench.inbound.abandon("closed")
    assert waiting.result()
    assert bench.inbound.wait_until_empty(WAIT)
    assert [exchange.reason for exchange in exchanges] == ["closed", "closed"]
    assert len(bench.inbound) == 0


def test_what_is_answered_while_it_is_abandoned(bench: Bench) -> None:
    class Leaving(dict):  # type: ignore[type-arg]
        def values(self) -> Any:
            """All are there, and gone in the next moment."""
            found = list(super().values())
            self.clear()
            return found

    exchange = bench.add()
    bench.inbound._exchanges = Leaving(bench.inbound._exchanges)
    bench.inbound.abandon("closed")
    assert not exchange.cancelled


# ------------------------------------------------------------ arrays


def test_answers_of_an_array_leave_together(bench: Bench) -> None:
    batch = bench.batch(1, 2, lines=[b'{"id":0,"error":{}}\n'])
    first, second = bench.add(1, outlet=batch), bench.add(2, outlet=batch)
    assert first.run() is None
    assert batch.complete() is None
    assert answers(second.run()) == [(0, False), (1, True), (2, True)]
    assert not bench.inbound.wait_until_empty(0)
    bench.inbound.written(1)
    assert bench.inbound.wait_until_empty(0)


def test_an_array_that_is_answered_before_it_is_read_to_its_end(bench: Bench) -> None:
    batch = bench.batch(1)
    assert bench.add(1, outlet=batch).run() is None
    assert answers(batch.complete()) == [(1, True)]


def test_an_array_without_answers(bench: Bench) -> None:
    assert bench.batch().complete() is None


def test_a_cancelled_request_leaves_no_gap_in_an_array(bench: Bench) -> None:
    batch = bench.batch(1, 2)
    first, second = bench.add(1, outlet=batch), bench.add(2, outlet=batch)
    batch.complete()
    bench.inbound.cancel(1, None)
    assert first.run() is None
    assert answers(second.run()) == [(2, True)]


def test_an_array_of_cancelled_requests_has_no_answer(bench: Bench) -> None:
    batch = bench.batch(1)
    exchange = bench.add(1, outlet=batch)
    batch.complete()
    bench.inbound.cancel(1, None)
    assert exchange.run() is None
    assert bench.inbound.wait_until_empty(0)


def test_a_request_of_an_array_whose_time_is_over(bench: Bench) -> None:
    batch = bench.batch(1, 2)
    slow, quick = bench.add(1, outlet=batch), bench.add(2, outlet=batch)
    batch.complete()
    slow.expire(b'{"id":1,"result":"late"}\n', "slow")
    assert bench.owed == []
    assert answers(quick.run()) == [(1, True), (2, True)]
    assert slow.run() is None


def test_the_last_request_of_an_array_whose_time_is_over(bench: Bench) -> None:
    batch = bench.batch(1)
    slow = bench.add(1, outlet=batch)
    batch.complete()
    slow.expire(b'{"id":1,"result":"late"}\n', "slow")
    assert answers(bench.owed[0]) == [(1, True)]


def test_an_id_that_stands_twice_in_an_array_is_answered_twice(bench: Bench) -> None:
    batch = bench.batch(1, 1)
    exchange = bench.add(1, outlet=batch)
    batch.owe(1, b'{"id":1,"error":"in use"}\n')
    batch.complete()
    assert answers(exchange.run()) == [(1, False), (1, True)]


def test_what_belongs_to_a_request_in_an_array(bench: Bench) -> None:
    exchange = bench.add(1, outlet=bench.batch(1))
    exchange.send("notifications/message", {})
    bench.inbound.cancel(1, None)
    exchange.on_cancel(lambda: None)
    assert len(bench.sent) == len(bench.aside) == 1


@for_each(
    ("items", "taken", "limit", "reason"),
    [
        ([Request(1, "a")], False, None, "one object"),
        ([], True, None, "not empty"),
        ([Notification("a")] * 3, True, 2, "at most 2"),
        ([Request(1, "a"), Response(2, {})], True, None, "not both"),
        ([Notification("a"), Failure(2, 1, "x")], True, None, "not both"),
        ([Request(1, "a"), Notification("a"), InvalidMessage(INVALID_PARAMS, "x")], True, 3, None),
        ([Response(1, {}), Failure(2, 1, "x")], True, 2, None),
    ],
)
def test_why_an_array_is_refused(items: Any, taken: bool, limit: Any, reason: Any) -> None:
    found = why_no_batch(items, taken=taken, limit=limit)
    assert found is None if reason is None else reason in (found or "")


def test_the_calls_of_this_side_are_at_hand() -> None:
    bench = Bench()
    assert bench.inbound.calls() is CALLS
    assert bench.batch(1).calls() is CALLS
