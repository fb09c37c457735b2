"""A moment in time, looked at with a clock that the test moves."""

from __future__ import annotations

import threading
from typing import Optional

import pytest

from minimcp.engine import timer
from minimcp.engine.timer import LONGEST_WAIT, Deadline


class Clock:
    """Stands in the place of the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(timer, "time", found)
    return found


def test_it_knows_how_long_it_was(clock: Clock) -> None:
    moment = Deadline(2.5)
    clock.now += 1
    assert (moment.seconds, moment.within(0.5).seconds, Deadline(None).seconds) == (2.5, 0.5, None)


def test_it_counts_down_and_stops_at_nothing(clock: Clock) -> None:
    moment = Deadline(2.5)
    assert (moment.remaining(), moment.wait(), moment.expired) == (2.5, 2.5, False)
    clock.now += 2
    assert (moment.remaining(), moment.wait(), moment.expired) == (0.5, 0.5, False)
    clock.now += 0.5
    assert (moment.remaining(), moment.wait(), moment.expired) == (0.0, 0.0, True)
    clock.now += 100
    assert (moment.remaining(), moment.wait(), moment.expired) == (0.0, 0.0, True)


@pytest.mark.parametrize("seconds", [0, -1, -1e9])
def test_a_moment_that_is_past_has_come(clock: Clock, seconds: float) -> None:
    assert Deadline(seconds).expired
    assert Deadline(seconds).remaining() == 0.0


def test_never_does_not_come(clock: Clock) -> None:
    never = Deadline(None)
    clock.now += 1e12
    assert (never.remaining(), never.expired) == (None, False)


def test_a_lock_can_wait_for_it_however_far_away_it_is(clock: Clock) -> None:
    assert Deadline(None).wait() == Deadline(1e12).wait() == LONGEST_WAIT
    assert LONGEST_WAIT <= threading.TIMEOUT_MAX
    assert threading.Lock().acquire(timeout=LONGEST_WAIT)


@pytest.mark.parametrize(
    ("seconds", "within", "left"),
    [(None, None, None), (None, 3, 3), (5, None, 5), (5, 3, 3), (3, 5, 3), (3, 0, 0), (-1, 5, 0)],
)
def test_within_is_the_earlier_of_two(
    clock: Clock, seconds: Optional[float], within: Optional[float], left: Optional[float]
) -> None:
    outer = Deadline(seconds)
    inner = outer.within(within)
    assert inner.remaining() == left
    assert outer.remaining() == (None if seconds is None else max(0, seconds))


def test_within_counts_from_now_and_not_from_the_start(clock: Clock) -> None:
    outer = Deadline(10)
    clock.now += 4
    assert outer.within(8).remaining() == 6
    assert outer.within(5).remaining() == 5
    clock.now += 1
    assert outer.remaining() == 5


def test_it_says_what_is_left(clock: Clock) -> None:
    assert repr(Deadline(None)) == "<Deadline never>"
    assert repr(Deadline(1.23456)) == "<Deadline in 1.235 s>"


def test_the_real_clock_runs() -> None:
    moment = Deadline(1000)
    before, after = moment.remaining(), moment.remaining()
    assert before is not None
    assert after is not None
    assert 999 < after <= before <= 1000
