"""Deadlines that several steps share and that can be paused, and the timer of the process."""

from __future__ import annotations

import threading
from typing import Any, List

import pytest

from minimcp.engine import timer as timer_module
from minimcp.engine.timer import MAX_WAIT_SECONDS, Deadline, Timeout, Timer, timer

from ..scripted import wait_for
from ..support import WAIT, MovedTime


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
