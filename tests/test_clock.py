"""A clock that stands: looked at with a time that the test moves."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest
from minimcp.engine.clock import Clock, inherited

from minimcp.engine import clock as module
from minimcp.engine.timer import LONGEST_WAIT

from .scripted import Task


class Time:
    """Stands in the place of the module `time`."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    found = Time()
    monkeypatch.setattr(module, "time", found)
    return found


def looked_at(moment: Any) -> List[Any]:
    return [moment.remaining(), moment.wait(), moment.expired]


def test_a_clock_that_nobody_holds_goes(time: Time) -> None:
    moment = Clock().deadline(2.5)
    assert looked_at(moment) == [2.5, 2.5, False]
    time.now += 2.5
    assert looked_at(moment) == [0.0, 0.0, True]


def test_while_it_is_held_no_time_passes(time: Time) -> None:
    clock = Clock()
    moment, never = clock.deadline(5), clock.deadline(None)
    time.now += 1
    first, second = clock.hold(), clock.hold()
    time.now += 100
    assert looked_at(moment) == [4, LONGEST_WAIT, False] and looked_at(never) == [None, LONGEST_WAIT, False]
    first.release()
    time.now += 100
    assert clock.stands() and looked_at(moment) == [4, LONGEST_WAIT, False]
    second.release()
    assert not clock.stands() and looked_at(moment) == [4, 4, False]
    time.now += 3
    assert looked_at(moment) == [1, 1, False]
    with clock.hold():
        time.now += 100
    later = clock.deadline(1)
    time.now += 1
    assert looked_at(moment) == looked_at(later) == [0.0, 0.0, True]


def test_what_is_over_stays_over(time: Time) -> None:
    clock = Clock()
    moment = clock.deadline(0)
    clock.hold()
    assert looked_at(moment) == looked_at(clock.deadline(0)) == [0.0, 0.0, True]
    assert looked_at(clock.deadline(1e9))[1] == LONGEST_WAIT


def test_who_waits_is_told_when_it_goes_on_and_a_hold_is_released_once(time: Time) -> None:
    clock, told = Clock(), []  # type: ignore[var-annotated]
    first, second = clock.hold(), clock.hold()
    first.release()
    clock.resumed = lambda: told.append(clock.stands())
    first.release()
    assert told == [] and clock.stands()
    with second:
        second.release()
    assert told == [False]


def test_a_thread_that_holds_it_lives_by_it_still(time: Time) -> None:
    clock, other = Clock(), Clock()
    with clock.hold():
        mine, others = clock.deadline(5), other.deadline(5)
        with other.hold():
            assert other.deadline(5).remaining() == 5
            time.now += 1
        assert [mine.remaining(), others.remaining()] == [4, 5]
        theirs: Any = Task(clock.deadline, 5).result()
        time.now += 1
        assert [mine.remaining(), theirs.remaining()] == [3, 5]
        later = clock.hold()
        time.now += 50
        assert looked_at(mine) == [3, LONGEST_WAIT, False]
        later.release()
        time.now += 3
        assert mine.expired and theirs.remaining() == 5
    assert clock.deadline(5).remaining() == 5


def test_another_thread_may_live_by_it_likewise(time: Time) -> None:
    clock = Clock()
    left: List[Optional[float]] = []

    def look() -> None:
        moment = clock.deadline(5)
        time.now += 1
        left.append(moment.remaining())

    def look_twice(first: Any, second: Any) -> None:
        first()
        second()

    with clock.hold():
        Task(look_twice, inherited(look), look).result()
    assert left == [4, 5] and inherited(look) is look
