"""Pumping: what waits is run by the thread that pumps, and whoever should pump hears of it."""

from __future__ import annotations

import threading
import time
from typing import Any, List

import pytest
from minimcp.server.pump import Main

from minimcp.engine.requests import IncomingRequest

from .scripted import Task, wait_for
from .support import WAIT, eventually
from .test_executors import delivered, exchange, interrupt


def test_what_waits_is_run_here_and_counted() -> None:
    main, seen = Main(), []  # type: ignore[var-annotated]
    for number in range(3):
        main.start(exchange(lambda _, number=number: seen.append((number, threading.get_ident()))))
    assert (main.pump(), main.pump()) == (3, 0)
    assert seen == [(number, threading.get_ident()) for number in range(3)]
    main.start(exchange())
    assert Task(main.pump).result() == 1, "any thread may pump"


def test_what_comes_meanwhile_is_for_the_next_time() -> None:
    main = Main()

    def more(_: IncomingRequest) -> Any:
        main.start(exchange(more))
        return {}

    main.start(exchange(more))
    assert [main.pump() for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("timeout", [WAIT, None])
def test_it_waits_for_the_first(timeout: Any) -> None:
    main = Main()
    task = Task(main.pump, timeout)
    assert eventually(lambda: main.bells)
    main.start(exchange())
    assert task.result() == 1 and main.bells == []


def test_it_waits_no_longer_than_it_is_told() -> None:
    main, began = Main(), time.monotonic()
    assert main.pump(0.02) == 0
    assert time.monotonic() - began >= 0.02


def test_a_bell_that_rings_twice_for_nothing() -> None:
    main = Main()
    task = Task(main.pump, WAIT)
    assert eventually(lambda: main.bells)
    main.bells[0]()
    main.bells[0]()
    main.start(exchange())
    assert task.result() == 1


def test_it_cannot_run_inside_itself() -> None:
    main, other = Main(), Main()
    errors: List[Any] = []

    def inside(_: IncomingRequest) -> Any:
        other.start(exchange())
        assert main.runs_here and other.pump() == 1, "another server's"
        try:
            main.pump()
        except RuntimeError as error:
            errors.append(str(error))
        return {}

    main.start(exchange(inside))
    assert main.pump() == 1 and not main.runs_here
    assert errors == ["pump is running on this thread already: what it runs cannot call it"]


def test_two_threads_may_pump_at_once() -> None:
    main, both = Main(), threading.Barrier(2)
    for _ in range(2):
        main.start(exchange(lambda _: both.wait(WAIT) and None))
    tasks = [Task(main.pump) for _ in range(2)]
    assert sum(task.result() for task in tasks) == 2


# ---------------------------------------------------------------- being told


def told(made: IncomingRequest) -> int:
    """Have what runs aside for this request run; how much it was."""
    outlet: Any = made.outlet
    work, outlet.aside[:] = list(outlet.aside), []
    for each in work:
        each()
    return len(work)


def test_the_author_is_told_once_between_two_pumps() -> None:
    rung: List[int] = []
    main = Main(lambda: rung.append(1))
    made = [exchange() for _ in range(3)]
    main.start(made[0])
    main.start(made[1])
    assert [told(each) for each in made] == [1, 0, 0] and rung == [1]
    assert main.pump() == 2
    main.start(made[2])
    assert told(made[2]) == 1 and rung == [1, 1]


def test_what_comes_while_it_pumps_is_told_again() -> None:
    main = Main(lambda: None)
    late = exchange()
    main.start(exchange(lambda _: main.start(late)))
    main.pump()
    assert told(late) == 1 and main.pump() == 1


def test_what_an_author_does_wrong_when_told_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ValueError("no window")

    main, made = Main(broken), exchange()
    main.start(made)
    assert told(made) == 1
    assert caplog.messages == ["on_pump_needed failed: no window"]
    assert main.pump() == 1


def test_after_ctrl_c_the_author_is_told_of_what_is_left() -> None:
    main = Main(lambda: None)
    struck, left = exchange(interrupt), exchange()
    main.start(struck)
    main.start(left)
    told(struck)
    with pytest.raises(KeyboardInterrupt):
        main.pump()
    assert "error" in delivered(struck)[0] and told(left) == 1
    assert not main.runs_here and main.pump() == 1
    main.start(exchange(interrupt))
    with pytest.raises(KeyboardInterrupt):
        main.pump()


# ---------------------------------------------------------------- the end


def test_clear_cancels_what_waits_and_lets_those_go_who_wait() -> None:
    main, made = Main(), exchange()
    main.start(made)
    main.clear("closing")
    assert made.reason == "closing" and main.pump() == 0 and "error" in delivered(made)[0]
    task = Task(main.pump, None)
    assert eventually(lambda: main.bells)
    main.clear("closing")
    assert task.result() == 0


def test_in_a_fork_it_begins_anew() -> None:
    main, begun, go = Main(lambda: None), threading.Event(), threading.Event()
    main.start(exchange(lambda _: begun.set() or wait_for(go)))  # type: ignore[func-returns-value]
    task = Task(main.pump)
    wait_for(begun)
    main.start(exchange())
    main.bells.append(lambda: None)
    main.renew()
    assert repr(main) == "<Main 0 waiting>" and main.bells == []
    made = exchange()
    main.start(made)
    assert told(made) == 1 and main.pump() == 1
    go.set()
    task.result()
