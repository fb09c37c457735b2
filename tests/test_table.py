"""The calls that wait: one ending each, whoever comes second does nothing."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import Counter
from typing import Any, List

import pytest

from minimcp.engine import requests as table_module
from minimcp.engine.requests import PendingCall, RequestTable
from minimcp.engine.timer import Deadline
from minimcp.errors import ConnectionLost
from minimcp.protocol.messages import Failure

from .scripted import Task, wait_for
from .support import WAIT


def soon() -> Deadline:
    return Deadline(WAIT)


@pytest.mark.requirement("BASE-04")
def test_ids_are_never_used_twice() -> None:
    table = RequestTable()
    first = table.register("a")
    table.settle(first.id, {})
    assert table.register("b").id != first.id
    assert len(table) == 1


def test_an_answer_ends_a_call_once() -> None:
    table = RequestTable()
    call = table.register("a")
    assert repr(call) == "<PendingCall 1 a waiting>"
    assert not call.ended
    assert table.settle(call.id, {"n": 1})
    assert not table.settle(call.id, Failure(call.id, 1, "late"))
    assert call.wait(soon()) == {"n": 1}
    assert call.wait(soon()) == {"n": 1}
    assert repr(call) == "<PendingCall 1 a ended>"


@pytest.mark.requirement("BASE-05")
def test_an_answer_to_another_id_is_nobodys() -> None:
    table = RequestTable()
    call = table.register("a")
    assert table.find(call.id) is call
    assert table.find("1") is None
    assert not table.settle("1", {})
    assert not table.settle(7, {})
    assert len(table) == 1


def test_an_ending_wakes_the_thread_that_waits() -> None:
    table = RequestTable()
    call = table.register("a")
    waiting = Task(call.wait, Deadline(None))
    table.settle(call.id, {"n": 1})
    assert waiting.result() == {"n": 1}


def test_items_come_in_order_before_the_return_on_the_thread_that_waits() -> None:
    table = RequestTable()
    got: List[int] = []
    call = table.register("a", got.append)
    for n in range(100):
        call.put(n)
    table.settle(call.id, {})
    assert got == []
    call.wait(soon())
    assert got == list(range(100))


def test_items_that_nobody_wants_are_dropped() -> None:
    table = RequestTable()
    call = table.register("a")
    call.put(1)
    assert call.wait(Deadline(0)) is None
    table.settle(call.id, {})
    assert call.wait(soon()) == {}


def test_an_exception_of_a_callback_reaches_the_caller_and_the_call_stays() -> None:
    table = RequestTable()

    def fail(item: Any) -> None:
        raise KeyError(item)

    call = table.register("a", fail)
    call.put("x")
    with pytest.raises(KeyError):
        call.wait(soon())
    assert table.find(call.id) is call


def test_time_is_up() -> None:
    assert RequestTable().register("a").wait(Deadline(0)) is None


class _Crossing(Deadline):
    """A deadline that comes in the moment in which the last item and the ending do."""

    __slots__ = ("call",)

    def __init__(self, call: PendingCall) -> None:
        super().__init__(0)
        self.call = call

    @property
    def expired(self) -> bool:
        if not self.call.ended:
            self.call.put("last")
            self.call.end({"n": 1})
        return True


def test_what_comes_with_the_deadline_is_not_lost() -> None:
    got: List[str] = []
    call = PendingCall(1, "a", got.append)
    assert call.wait(_Crossing(call)) == {"n": 1}
    assert got == ["last"]


def test_all_callers_look_at_their_deadlines_again() -> None:
    class Moving(Deadline):
        """Is far away, until it is not."""

        waits = 0

        def wait(self) -> float:
            self.waits += 1
            looked.release()
            return super().wait()

    table, looked = RequestTable(), threading.Semaphore(0)
    table.wake_all()
    woken = table.register("w")
    for _ in range(2):  # nobody has looked in between: once is enough
        table.wake_all()
    table.settle(woken.id, {})
    call, moment = table.register("a"), Moving(WAIT)
    task = Task(call.wait, moment)
    assert looked.acquire(timeout=WAIT)
    table.wake_all()
    assert looked.acquire(timeout=WAIT) and moment.waits == 2
    table.settle(call.id, {})
    assert task.result() == {}


def test_loss_ends_all_with_one_cause_and_refuses_new_ones_with_it() -> None:
    table = RequestTable()
    calls = [table.register("a") for _ in range(3)]
    assert table.cause is None
    cause = ConnectionLost("gone", exit_code=3)
    assert table.close(cause) == calls
    assert [call.wait(soon()) for call in calls] == [cause] * 3
    assert table.close(ConnectionLost("later")) == []
    assert table.cause is cause
    assert len(table) == 0
    with pytest.raises(ConnectionLost, match="gone") as caught:
        table.register("a")
    assert caught.value.exit_code == 3


def test_a_cause_that_is_raised_again_and_again_does_not_grow() -> None:
    table = RequestTable()
    table.close(ConnectionLost("gone"))
    lengths = set()
    for _ in range(5):
        with pytest.raises(ConnectionLost) as caught:
            table.register("a")
        lengths.add(len(traceback.extract_tb(caught.value.__traceback__)))
    assert len(lengths) == 1


def test_a_signal_handler_may_close_the_table_in_the_middle_of_a_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs on the thread that registers, so a lock of that thread's would never come free."""
    table, made = RequestTable(), PendingCall

    def interrupted(*arguments: Any) -> PendingCall:
        table.close(ConnectionLost("gone"))
        return made(*arguments)

    monkeypatch.setattr(table_module, "PendingCall", interrupted)
    with pytest.raises(ConnectionLost, match="gone"):
        Task(table.register, "a").result()
    assert len(table) == 0


class _Counted(PendingCall):
    """A call that counts its endings."""

    __slots__ = ("endings",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.endings: List[Any] = []

    def end(self, ending: Any, *, wake: bool = True) -> None:
        self.endings.append(ending)
        super().end(ending, wake=wake)


@pytest.mark.requirement("BASE-04", "CANC-07")
def test_calls_of_many_threads_end_once_each_while_loss_strikes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "PendingCall", _Counted)
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, 1e-5))
    try:
        for number in range(0, 200, 5):
            _lose_while_eight_threads_call(number)
    finally:
        sys.setswitchinterval(usual)


def _lose_while_eight_threads_call(number: int) -> None:
    table, calls, started = RequestTable(), [], threading.Barrier(10)
    causes = [ConnectionLost("one"), ConnectionLost("other")]
    lost = threading.Event()

    def call() -> None:
        started.wait(WAIT)
        for turn in range(10_000):
            try:
                registered = table.register("a")
            except ConnectionLost:
                return
            calls.append(registered)
            if turn % 3:
                table.settle(registered.id, {})
            if len(calls) > number:
                lost.set()

    def lose(cause: ConnectionLost) -> None:
        started.wait(WAIT)
        wait_for(lost)
        table.close(cause)

    tasks = [Task(call) for _ in range(8)] + [Task(lose, cause) for cause in causes]
    for task in tasks:
        task.result()
    assert len(table) == 0
    assert len({call.id for call in calls}) == len(calls)
    assert Counter(len(call.endings) for call in calls) == {1: len(calls)}
    assert {str(call.wait(soon())) for call in calls} <= {"{}", str(table.cause)}


def test_the_ids_of_those_that_wait() -> None:
    table = RequestTable()
    for method in ("a", "b", "c"):
        table.register(method)
    table.settle(2, {})
    assert table.ids() == [1, 3]


def test_a_wait_for_something_else_than_the_ending() -> None:
    call, found = PendingCall(1, "listen"), []  # type: ignore[var-annotated]

    def take() -> Any:
        return found.pop(0) if found else None

    assert call.wait_for(take, Deadline(0.01)) is None
    found += ["a", "b"]
    assert [call.wait_for(take, Deadline(WAIT)) for _ in range(2)] == ["a", "b"]
    call.wake()
    task = Task(call.wait_for, take, Deadline(WAIT))
    found.append("c")
    call.wake()
    assert task.result() == "c"
    found.append("d")
    call.end({})
    assert [call.wait_for(take, Deadline(None)) for _ in range(2)] == ["d", None]
    assert call.ending == {}
