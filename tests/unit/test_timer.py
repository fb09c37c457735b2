"""Deadlines that several steps share and that can be paused, and the timer of the process."""

from __future__ import annotations

import threading
import weakref
from typing import Any, List

import pytest

from minimcp.engine import timer as timer_module
from minimcp.engine.timer import MAX_WAIT_SECONDS, Deadline, Timeout, Timer, timer

from ..scripted import wait_for
from ..support import WAIT, MovedTime, eventually


class StillTime(MovedTime):
    """A clock that advances only when a test sets it."""

    def monotonic(self) -> float:
        return self.ahead


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> MovedTime:
    moved = StillTime()
    monkeypatch.setattr(timer_module, "time", moved)
    return moved


def test_a_deadline_stays_paused_until_every_pause_is_resumed(time: MovedTime) -> None:
    deadline = Deadline(10)
    deadline.pause()
    time.ahead += 100
    deadline.pause()
    assert deadline.to_wait() == MAX_WAIT_SECONDS and deadline.remaining() == 10
    deadline.resume()
    assert deadline.to_wait() == MAX_WAIT_SECONDS and not deadline.expired
    deadline.resume()
    assert deadline.to_wait() == 10
    time.ahead += 11
    deadline.pause()
    assert deadline.expired and deadline.to_wait() == 0  # an expired deadline stays expired


def test_functions_are_called_in_the_order_of_their_times(
    time: MovedTime, caplog: pytest.LogCaptureFixture
) -> None:
    own, called, done = Timer(), [], threading.Event()
    own.after(4000, done.set)
    own.after(3000, lambda: called.append("late"))
    cancel = own.after(2000, lambda: called.append("never"))
    own.after(1000, lambda: called.append("early"))
    own.after(1000, lambda: {}["missing"])
    cancel()
    cancel()
    time.ahead += 5000
    own.after(3600, done.clear)()
    wait_for(done)
    assert called == ["early", "late"] and "'missing'" in caplog.text


def test_one_thread_calls_all_timers_and_starts_again_in_a_fork() -> None:
    own, threads, done = Timer(), set(), threading.Semaphore(0)
    for _ in range(3):
        own.after(0, lambda: (threads.add(threading.get_ident()), done.release()))
        assert done.acquire(timeout=WAIT)
    assert len(threads) == 1
    own.renew_in_fork()
    own.after(0, done.release)
    assert done.acquire(timeout=WAIT)


def test_a_paused_timeout_continues_with_the_remaining_time(
    time: MovedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed: List[Any] = []
    monkeypatch.setattr(
        timer, "after", lambda seconds, look: armed.append((seconds, look)) or armed.clear
    )
    rung = threading.Event()
    timeout = Timeout(3600, rung.set)
    timeout.pause()
    time.ahead += 7200
    armed[0][1]()
    timeout.resume()
    time.ahead += 1800
    armed[1][1]()
    assert not rung.is_set() and [seconds for seconds, _ in armed] == [3600, 3600, 1800]
    time.ahead += 1801
    armed[2][1]()
    assert rung.is_set() and len(armed) == 3


def test_a_timer_keeps_no_cancelled_calls_and_nothing_of_a_call_that_it_made() -> None:
    own = Timer()
    called = threading.Event()

    class Callback:
        def __call__(self) -> None:
            called.set()

    kept = [own.after(3600, bool) for _ in range(100)]
    cancelled = [Callback() for _ in range(10_000)]
    references = [weakref.ref(each) for each in cancelled]
    for each in cancelled:
        own.after(3600, each)()
    del cancelled, each
    assert not any(reference() for reference in references)
    callback = Callback()
    reference = weakref.ref(callback)
    own.after(0, callback)
    del callback
    wait_for(called)
    assert eventually(lambda: reference() is None)
    for cancel in kept:
        cancel()


def test_an_earlier_call_is_made_first() -> None:
    own, order, done = Timer(), [], threading.Event()
    own.after(3600, bool)
    own.after(0.02, lambda: order.append("second"))
    own.after(0.01, lambda: order.append("first"))
    own.after(0.03, done.set)
    wait_for(done)
    assert order == ["first", "second"]
