"""The alarm clock: in order, taken back, and never silent because of one bad order."""

from __future__ import annotations

import threading
from typing import List

import pytest
from minimcp.engine.alarm import Alarm, Countdown

from .scripted import no_threads, wait_for
from .support import eventually

LATER = 3600.0


def alarm_threads() -> List[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "test-alarm"]


@pytest.fixture
def alarm() -> Alarm:
    return Alarm("test")


def test_it_rings_in_the_order_of_time(alarm: Alarm) -> None:
    rung: List[int] = []
    done = threading.Event()
    holding, go = threading.Event(), threading.Event()
    alarm.at(0, lambda: holding.set() or wait_for(go))  # type: ignore[func-returns-value]
    wait_for(holding)  # so that nothing rings before all is ordered
    forget = alarm.at(LATER, lambda: rung.append(9))
    alarm.at(-LATER, lambda: rung.append(2) or done.set())  # type: ignore[func-returns-value]
    alarm.at(-2 * LATER, lambda: rung.append(1))
    go.set()
    wait_for(done)
    assert rung == [1, 2]
    forget()
    forget()
    assert eventually(lambda: not alarm_threads())


def test_its_thread_lives_while_there_is_something_to_wait_for(alarm: Alarm) -> None:
    rung = threading.Event()
    forget = [alarm.at(LATER, rung.set), alarm.at(LATER, rung.set)]
    assert len(alarm_threads()) == 1
    forget[0]()
    assert len(alarm_threads()) == 1
    forget[1]()
    assert eventually(lambda: not alarm_threads())
    alarm.at(0, rung.set)
    wait_for(rung)
    assert eventually(lambda: not alarm_threads())


@pytest.mark.parametrize("seconds", [1e12, float("inf")])
def test_a_time_that_never_comes_does_not_hurt_the_others(alarm: Alarm, seconds: float) -> None:
    """A condition refuses to wait that long."""
    rung = threading.Event()
    forget = alarm.at(seconds, rung.set)
    alarm.at(0.01, rung.set)
    wait_for(rung)
    forget()
    assert eventually(lambda: not alarm_threads())


def test_one_that_raises_does_not_silence_the_others(alarm: Alarm, caplog: pytest.LogCaptureFixture) -> None:
    rung = threading.Event()

    def fail() -> None:
        raise RuntimeError("can't start new thread")

    alarm.at(0, fail)
    alarm.at(0.01, rung.set)
    wait_for(rung)
    assert "can't start new thread" in caplog.text


def test_no_thread_orders_nothing_and_hurts_nothing_later(alarm: Alarm, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, rung = threading.Event(), threading.Event()
    with no_threads(monkeypatch), pytest.raises(RuntimeError):
        alarm.at(0, wrong.set)
    alarm.at(0, rung.set)
    wait_for(rung)
    assert not wrong.is_set()


def test_it_begins_anew_in_a_fork(alarm: Alarm) -> None:
    rung, of_the_parent = threading.Event(), alarm._changed
    forget = alarm.at(LATER, rung.set)
    assert eventually(lambda: of_the_parent._waiters)  # type: ignore[attr-defined]
    alarm.renew()  # as if its thread were not there
    alarm.at(0, rung.set)
    wait_for(rung)
    forget()
    with of_the_parent:  # here it is, and would wait for an hour
        of_the_parent.notify_all()
    assert eventually(lambda: not alarm_threads())


# ------------------------------------------------------------ time of running


def test_a_countdown_rings_once_its_time_is_used_up(alarm: Alarm) -> None:
    rung = threading.Event()
    countdown = Countdown(alarm, 0.01, rung.set)
    wait_for(rung)
    countdown.stop()
    assert eventually(lambda: not alarm_threads())


def test_a_countdown_stands_while_anything_is_paused(alarm: Alarm) -> None:
    rung = threading.Event()
    countdown = Countdown(alarm, LATER, rung.set)
    countdown.pause()
    countdown.pause()
    countdown._left = 0.05
    assert eventually(lambda: not alarm_threads())
    countdown.resume()
    assert not rung.wait(0.1) and alarm_threads() == []
    countdown.resume()
    wait_for(rung)


def test_a_countdown_that_is_stopped_never_rings(alarm: Alarm) -> None:
    rung = threading.Event()
    for left in (LATER, 0.0):
        countdown = Countdown(alarm, LATER, rung.set)
        countdown.pause()
        countdown._left = left
        countdown.stop()
        countdown.resume()
        assert eventually(lambda: not alarm_threads())
        countdown.stop()
    other = Countdown(alarm, LATER, rung.set)
    other.stop()
    assert eventually(lambda: not alarm_threads()) and not rung.is_set()


def test_a_countdown_goes_on_with_what_is_left(alarm: Alarm) -> None:
    countdown = Countdown(alarm, LATER, lambda: None)
    for _ in range(3):
        countdown.pause()
        countdown.resume()
    assert 0 < countdown._left < LATER
    countdown.stop()
    assert eventually(lambda: not alarm_threads())


def test_without_a_thread_a_countdown_gives_up(
    alarm: Alarm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    countdown = Countdown(alarm, LATER, lambda: None)
    countdown.pause()
    assert eventually(lambda: not alarm_threads())
    with no_threads(monkeypatch, "alarm"):
        countdown.resume()
        assert "a timeout is given up" in caplog.text
        with pytest.raises(RuntimeError):
            Countdown(alarm, LATER, lambda: None)
    countdown.stop()
