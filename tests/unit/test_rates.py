"""Token buckets: the events that each client may cause, and notifications of a request above their
rate."""

from __future__ import annotations

import threading
from typing import Any, List

import pytest
from hypothesis import given, strategies as st

from minimcp.engine.rates import NotificationRate, Rate, RateLimiter, whole_seconds
from minimcp.engine.timer import LOOK_SECONDS

from ..scripted import ScriptedClock, Task, wait_for


@pytest.mark.parametrize(("rate", "burst"), [
    (0.001, 1), (0.5, 1), (1, 1), (1.5, 1), (2, 2), (2.5, 2), (3, 3), (7, 7), (10, 10), (1000, 1000),
])  # fmt: skip
def test_a_burst_may_be_as_large_as_the_rate_of_one_second(rate: float, burst: int) -> None:
    clock = ScriptedClock()
    limiter = RateLimiter(Rate(rate), clock=clock)
    for start in (0.0, 1e6):
        clock.now += start
        assert [limiter.take("a") for _ in range(burst)] == [0.0] * burst
        wait = limiter.take("a")
        assert 0 < wait <= 1 / rate
        assert limiter.take("b") == 0.0, "each client has its own bucket"
        clock.now += wait
        assert limiter.take("a") == 0.0, "the wait is exact"
        assert limiter.take("a") > 0.0


@given(
    st.floats(0.01, 100),
    st.lists(st.floats(0, 5), min_size=1, max_size=60),
)
def test_no_window_has_more_events_than_its_seconds_allow(rate: float, pauses: List[float]) -> None:
    clock = ScriptedClock()
    limiter = RateLimiter(Rate(rate), clock=clock)
    taken: List[float] = []
    for pause in pauses:
        clock.now += pause
        if limiter.take("a") == 0.0:
            taken.append(clock.now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            allowed = max(rate, 1.0) + rate * (taken[last] - taken[first])
            assert last - first + 1 <= allowed + 1e-6


def test_buckets_of_clients_that_left_are_dropped() -> None:
    clock = ScriptedClock()
    limiter = RateLimiter(Rate(2), clock=clock)
    for number in range(1000):
        limiter.take(number)
    assert len(limiter) == 1000
    clock.now += 1.0
    limiter.take("the next one")
    assert len(limiter) == 1


def test_a_rate_above_the_clock_keeps_no_bucket() -> None:
    limiter = RateLimiter(Rate(4e9), clock=ScriptedClock())
    assert [limiter.take("a") for _ in range(3)] == [0.0] * 3 and len(limiter) == 0


def test_the_table_is_bounded() -> None:
    limiter = RateLimiter(Rate(0.001), clock=ScriptedClock(), max_clients=10)
    for number in range(1000):
        assert limiter.take(number) == 0.0
        assert len(limiter) <= 10
    assert limiter.take(999) > 0.0, "the clients that called last are remembered"


def test_threads_share_a_bucket() -> None:
    limiter = RateLimiter(Rate(50), clock=ScriptedClock())
    tasks = [Task(lambda: [limiter.take("a") for _ in range(20)]) for _ in range(8)]
    waits = [wait for task in tasks for wait in task.result()]
    assert waits.count(0.0) == 50


def test_a_wait_in_whole_seconds() -> None:
    assert [whole_seconds(each) for each in (0.001, 1.0, 1.1, 999.5)] == [1, 1, 2, 1000]
    assert whole_seconds(0.5, 2.5) == 3
    assert whole_seconds(float("inf")) == 86400


class Notified:
    """A request's notifications at a rate, on a clock that the test moves."""

    def __init__(self, rate: float) -> None:
        self.clock = ScriptedClock()
        self.lock = threading.RLock()
        timer: Any = self.clock
        self.rate = NotificationRate(Rate(rate), self.lock, clock=self.clock, timer=timer)
        self.sent: List[Any] = []

    def progress(self, done: int) -> None:
        with self.lock:
            if self.rate.may_report(lambda: self.sent.append(done)):
                self.sent.append(done)

    def log(self, text: str) -> None:
        if self.rate.may_log():
            self.sent.append(text)


def test_the_newest_report_is_sent_as_soon_as_the_rate_allows() -> None:
    made = Notified(2)
    for done in range(100):
        made.progress(done)
    assert made.sent == [0, 1]
    made.clock.advance(0.5)
    assert made.sent == [0, 1, 99]
    made.clock.advance(10)
    assert made.sent == [0, 1, 99], "each report is sent once"
    assert made.clock.waiting == 0
    made.progress(200)
    assert made.sent[-1] == 200, "the bucket is full again"


def test_a_timer_that_is_too_early_is_set_again() -> None:
    made = Notified(1)
    made.progress(0)
    made.progress(1)
    made.clock.now += 1.0  # the timer is late
    made.progress(2)
    made.progress(3)
    made.clock.advance(0)  # the timer of report 1
    assert made.sent == [0, 2]
    made.clock.advance(1)
    assert made.sent == [0, 2, 3] and made.clock.waiting == 0


def test_a_report_that_the_timer_sends_while_flush_waits_is_sent_once() -> None:
    clock = ScriptedClock()
    sent: List[int] = []

    class SlowLock:
        """A lock that a flush gets after a second."""

        def acquire(self, blocking: bool = True) -> bool:
            if blocking:
                clock.advance(1)
            return True

        def release(self) -> None:
            pass

    rate = NotificationRate(Rate(1), SlowLock(), clock=clock, timer=clock)
    assert rate.may_report(lambda: sent.append(0))
    assert not rate.may_report(lambda: sent.append(1))
    rate.flush()
    assert sent == [1] and clock.waiting == 0


def test_a_report_that_may_be_sent_replaces_the_one_that_is_kept() -> None:
    made = Notified(1)
    made.progress(0)
    made.progress(1)
    made.clock.now += 1.0  # the timer is late
    made.progress(2)
    made.clock.advance(5)
    assert made.sent == [0, 2]


def test_the_kept_report_is_sent_before_the_answer_or_dropped() -> None:
    for drop in (False, True):
        made = Notified(1)
        made.progress(0)
        made.progress(1)
        made.rate.flush(drop=drop)
        made.rate.flush(drop=drop)
        made.clock.advance(5)
        assert made.sent == ([0] if drop else [0, 1])
        assert made.clock.waiting == 0


def test_log_messages_above_the_rate_are_counted() -> None:
    made = Notified(3)
    for _ in range(10):
        made.log("x")
    assert (made.sent, made.rate.dropped) == (["x"] * 3, 7)
    made.clock.advance(1)
    made.log("y")
    assert (made.sent[-1], made.rate.dropped) == ("y", 7)


def test_log_messages_do_not_delay_a_report() -> None:
    made = Notified(1)
    made.progress(0)
    made.progress(1)
    made.clock.now += 1.0  # a token is there, and the timer is late
    made.log("first")
    assert (made.sent, made.rate.dropped) == ([0], 1)
    made.clock.advance(0)
    assert made.sent == [0, 1]


def test_the_timer_does_not_wait_for_a_thread_that_is_sending() -> None:
    made = Notified(1)
    made.progress(0)
    made.progress(1)
    blocked, go = threading.Event(), threading.Event()

    def send() -> None:
        with made.lock:
            blocked.set()
            wait_for(go)

    task = Task(send)
    wait_for(blocked)
    made.clock.advance(1.0)  # returns, though the lock is taken
    assert made.sent == [0]
    made.rate.flush(wait=False)
    assert made.sent == [0]
    go.set()
    task.result()
    made.clock.advance(2 * LOOK_SECONDS)
    assert made.sent == [0, 1]
