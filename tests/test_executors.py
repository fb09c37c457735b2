"""A queue of requests: who leaves it how, exactly once, and what is counted meanwhile."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, List, Optional

import pytest

from minimcp.engine.requests import IncomingRequest, Route, current_exchange
from minimcp.errors import InternalError
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import NEWEST_HANDSHAKE
from minimcp.server.executors import Executor, Ticket

from .scripted import RecordingOutlet, Task


class Kept(Executor):
    """Remembers its tickets and leaves them where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.tickets: List[Ticket] = []
        self.arrives: Callable[[Ticket], None] = self.tickets.append

    def _arrived(self, ticket: Ticket) -> None:
        self.arrives(ticket)

    def __len__(self) -> int:
        return len(self._waiting)


def exchange(handle: Optional[Callable[[IncomingRequest], Any]] = None, outlet: Any = None) -> Any:
    route = Route(handle or (lambda exchange: {"n": 1}))
    return IncomingRequest(Request(1, "work"), Peer(NEWEST_HANDSHAKE), route, outlet or RecordingOutlet())


def delivered(made: IncomingRequest) -> Any:
    outlet: Any = made.outlet
    return [json.loads(line) for line in outlet.delivered]


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_request_is_run_where_its_ticket_is_run_and_only_once(kept: Kept) -> None:
    seen: List[Any] = []
    made = exchange(lambda exchange: seen.append((exchange, current_exchange())) or {"n": 1})  # type: ignore[func-returns-value]
    kept.start(made)
    (ticket,) = kept.tickets
    assert (len(kept), repr(kept), seen) == (1, "<Kept 1 waiting>", [])
    assert [ticket.run(), ticket.run()] == [True, False]
    ticket.withdraw()
    assert ticket.job() is None  # type: ignore[func-returns-value]
    assert seen == [(made, made)] and len(kept) == 0 and made.withdraw is None
    assert [line["result"] for line in delivered(made)] == [{"n": 1}]


def test_a_request_that_runs_inside_another_leaves_that_its_context(kept: Kept) -> None:
    inner = exchange()
    kept.start(inner)
    seen: List[Any] = []

    def outside(exchange: IncomingRequest) -> Any:
        kept.tickets[0].run()
        seen.append(current_exchange())
        return {}

    outer = exchange(outside)
    outer.run()
    assert seen == [outer] and delivered(inner) and current_exchange() is None


@pytest.mark.parametrize("waited_for", [True, False])
def test_a_request_that_is_cancelled_leaves_the_queue_and_never_runs(kept: Kept, waited_for: bool) -> None:
    called: List[Any] = []
    made = exchange(called.append)
    kept.start(made)
    made.outlet.open = waited_for
    made.cancel("enough")
    assert len(kept) == 0 and not kept.tickets[0].run() and called == []
    assert ["error" in line for line in delivered(made)] == [True] * waited_for


def test_a_ticket_cancels_its_request_while_it_has_it(kept: Kept) -> None:
    made, run = exchange(), exchange()
    kept.start(made)
    kept.start(run)
    kept.tickets[1].run()
    for ticket in kept.tickets:
        ticket.cancel("closing")
    assert made.cancelled and made.reason == "closing" and not run.cancelled


def test_a_request_that_was_cancelled_before_it_could_be_withdrawn(kept: Kept) -> None:
    made = exchange()
    made.cancel()
    kept.start(made)
    assert len(kept) == 0 and not kept.tickets[0].run()


def test_what_refuses_it_keeps_it_out(kept: Kept) -> None:
    outlet = RecordingOutlet()
    outlet.refusal = InternalError("too many")
    with pytest.raises(InternalError, match="too many"):
        kept.start(exchange(outlet=outlet))
    assert len(kept) == 0 and kept.tickets == []


def test_who_watches_is_told_when_the_wait_is_over(kept: Kept) -> None:
    notes: List[str] = []

    def watch(exchange: IncomingRequest) -> Callable[[], None]:
        notes.append("waits")
        return lambda: notes.append("begins")

    kept.start(exchange(lambda exchange: notes.append("runs") or {}), watch)  # type: ignore[func-returns-value]
    assert notes == ["waits"]
    kept.tickets[0].run()
    assert notes == ["waits", "begins", "runs"]


def test_without_a_thread_it_is_not_queued(kept: Kept) -> None:
    def arrives(ticket: Ticket) -> None:
        kept.tickets.append(ticket)
        raise RuntimeError("no threads")

    kept.arrives = arrives
    made = exchange()
    with pytest.raises(RuntimeError):
        kept.start(made)
    assert len(kept) == 0 and not kept.tickets[0].run() and delivered(made) == []

    def arrives_and_is_cancelled(ticket: Ticket) -> None:
        made.cancel()
        raise RuntimeError("no threads")

    kept.arrives, made = arrives_and_is_cancelled, exchange()
    kept.start(made)  # it has left already, with an answer
    assert len(kept) == 0 and len(delivered(made)) == 1


def test_an_executor_that_fails_is_the_answer(kept: Kept, caplog: pytest.LogCaptureFixture) -> None:
    called: List[Any] = []
    made, gone = exchange(called.append), exchange(called.append)
    gone.outlet.open = False
    for each in (made, gone):
        kept.start(each)
    for ticket in kept.tickets:
        ticket.fail(ValueError("secret"))
    assert called == [] and len(kept) == 0
    assert "Internal error (reference" in delivered(made)[0]["error"]["message"] and delivered(gone) == []
    kept.tickets[0].fail(ValueError("late"))
    assert "after its job had been run" in caplog.messages[-1] and len(delivered(made)) == 1


def interrupt(exchange: IncomingRequest) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_handler_goes_on_to_the_main_thread_after_the_answer(kept: Kept) -> None:
    here, there = exchange(interrupt), exchange(interrupt)
    kept.start(here)
    kept.start(there)
    with pytest.raises(KeyboardInterrupt):
        kept.tickets[0].run()
    assert Task(kept.tickets[1].run).result() is True
    for made in (here, there):
        assert made.interrupted and "error" in delivered(made)[0]
    assert current_exchange() is None


def test_a_request_that_is_struck_where_nothing_else_catches_it_is_answered(kept: Kept) -> None:
    class Struck(RecordingOutlet):
        __slots__ = ()

        def answer(self, exchange: IncomingRequest, line: bytes) -> Any:
            raise KeyboardInterrupt

    made = exchange(outlet=Struck())
    kept.start(made)
    with pytest.raises(KeyboardInterrupt):
        kept.tickets[0].run()
    ((id, line),) = made.outlet.owed
    assert (id, json.loads(line)["error"]["message"]) == (1, "interrupted")


def test_a_cancel_and_a_run_at_once_end_it_once() -> None:
    for _ in range(200):
        kept = Kept()
        made = exchange()
        kept.start(made)
        start = threading.Barrier(2)

        def cancel(made: Any = made, start: threading.Barrier = start) -> None:
            start.wait()
            made.cancel()

        task = Task(cancel)
        start.wait()
        kept.tickets[0].run()
        task.result()
        assert len(delivered(made)) == 1 and len(kept) == 0


def test_in_a_fork_nothing_waits(kept: Kept) -> None:
    kept.start(exchange())
    kept.join(None)
    kept.leave(None)
    kept.renew()
    assert len(kept) == 0
    with pytest.raises(NotImplementedError):
        Executor().start(exchange())
