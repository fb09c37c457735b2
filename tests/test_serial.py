"""Executors with a thread of ours: always the same one, in order, and gone when nobody needs it."""

from __future__ import annotations

import gc
import threading
from typing import Any, Callable, List

import pytest
from minimcp.server.serial import Elsewhere, Serial

from minimcp.engine.requests import IncomingRequest
from minimcp.server import serial as module
from minimcp.server.executors import Ticket

from .scripted import no_threads, wait_for
from .support import WAIT, eventually
from .test_executors import delivered, exchange


class User:
    """Somebody who names a Serial."""


def threads(name: str = "minimcp-serial") -> List[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def run(executor: Any, work: Callable[[], object] = lambda: None) -> Any:
    """Run something there, and wait for it."""
    done = threading.Event()

    def handle(exchange: IncomingRequest) -> Any:
        try:
            work()
        finally:
            done.set()
        return {}

    made = exchange(handle)
    executor.start(made)
    wait_for(done)
    return made


def test_one_thread_for_all_and_in_order() -> None:
    serial, user = Serial(), User()
    serial.join(user)
    seen: List[Any] = []
    for number in range(50):
        serial.start(exchange(lambda _, number=number: seen.append((number, threading.get_ident()))))
    run(serial)
    assert [number for number, _ in seen] == list(range(50))
    assert len({ident for _, ident in seen}) == 1
    serial.leave(user)
    assert eventually(lambda: not threads())


def test_its_thread_ends_with_the_last_who_uses_it_and_begins_again() -> None:
    serial, users = Serial(), [User(), User()]
    for user in users:
        serial.join(user)
    run(serial)
    (first,) = threads()
    serial.leave(users[0])
    idents: List[int] = []
    run(serial, lambda: idents.append(threading.get_ident()))
    assert idents == [first.ident]
    serial.leave(users[1])
    first.join(WAIT)
    assert not first.is_alive() and not threads()
    serial.join(users[0])
    run(serial)
    assert len(threads()) == 1
    serial.leave(users[0])
    serial.leave(users[0])


def test_its_thread_ends_when_nothing_refers_to_it() -> None:
    serial, user = Serial(), User()
    serial.join(user)
    run(serial)
    (thread,) = threads()
    del serial
    gc.collect()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_without_a_user_it_ends_when_all_is_done() -> None:
    run(Serial())
    assert eventually(lambda: not threads())


def test_what_was_queued_is_done_before_it_ends() -> None:
    serial, user, go, begun = Serial(), User(), threading.Event(), threading.Event()
    serial.join(user)
    seen: List[int] = []
    serial.start(exchange(lambda _: begun.set() or wait_for(go)))  # type: ignore[func-returns-value]
    wait_for(begun)
    for number in range(3):
        serial.start(exchange(lambda _, number=number: seen.append(number)))
    gone = exchange()
    serial.start(gone)
    gone.cancel()
    go.set()
    run(serial)
    serial.leave(user)
    assert eventually(lambda: not threads()) and seen == [0, 1, 2]


def test_a_fault_of_ours_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    served: List[Any] = []

    def serve(ticket: Ticket) -> None:
        served.append(ticket)
        raise ZeroDivisionError("a fault")

    serial = Serial()
    serial._thread._serve = serve
    for _ in range(2):
        serial.start(exchange())
    assert eventually(lambda: len(served) == 2 and not threads())
    assert caplog.messages == ["minimcp-serial: a fault"] * 2


def test_work_that_comes_just_before_the_thread_goes_is_done() -> None:
    serial = Serial()
    serial._waiting[Ticket(exchange(), serial._waiting)] = None
    assert serial._thread._may_go() is False
    serial._waiting.clear()
    assert serial._thread._may_go() is True


def test_without_threads_the_request_is_not_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    serial = Serial()
    with no_threads(monkeypatch), pytest.raises(RuntimeError):
        serial.start(exchange())
    assert repr(serial) == "<Serial 0 waiting>"
    run(serial)


@pytest.mark.parametrize("kind", ["serial", "elsewhere"])
def test_in_a_fork_it_begins_anew(kind: str) -> None:
    executor: Any = Serial() if kind == "serial" else Elsewhere(lambda job: job())
    executor._thread._thread_lock.acquire()
    executor._thread._there = True  # in the parent
    executor._waiting[Ticket(exchange(), executor._waiting)] = None
    executor.renew()
    run(executor)
    executor.leave(User())


# ---------------------------------------------------------------- a callable


def test_a_callable_gets_functions_and_runs_them_where_it_likes() -> None:
    jobs: List[Any] = []
    given = threading.Semaphore(0)

    def later(job: Callable[[], None]) -> None:
        jobs.append(job)
        given.release()

    executor = Elsewhere(later)
    made = [exchange() for _ in range(3)]
    for each in made:
        executor.start(each)
        assert given.acquire(timeout=WAIT)
    made[1].cancel()
    assert [job() for job in [*jobs, *jobs]] == [None] * 6, "a second time does nothing"
    assert ["result" in delivered(each)[0] for each in made] == [True, False, True]
    assert [len(delivered(each)) for each in made] == [1, 1, 1]
    executor.leave(None)
    assert eventually(lambda: not threads("minimcp-executor"))


def test_a_callable_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    def broken(job: Callable[[], None]) -> None:
        if runs_it:
            job()
        raise SystemExit("closed")

    executor = Elsewhere(broken)
    for runs_it in (False, True):
        made = exchange()
        executor.start(made)
        assert eventually(lambda: delivered(made))  # noqa: B023
        assert ("result" in delivered(made)[0]) is runs_it
        assert eventually(lambda: "SystemExit" in caplog.text)
    executor.leave(None)
    assert eventually(lambda: "after its job had been run" in caplog.text)


def test_the_thread_of_a_callable_ends_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    executor = Elsewhere(lambda job: job())
    for _ in range(2):
        run(executor)
        assert eventually(lambda: not threads("minimcp-executor"))
