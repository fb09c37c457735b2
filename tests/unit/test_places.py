"""What ``executor=`` says, and the route that comes of it."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest
from minimcp.engine.lane import ALWAYS_SLOW

from minimcp.engine.requests import IncomingRequest
from minimcp.server.executors import Elsewhere, Executors, Main, Serial, route_to

from .test_executors import exchange


def handle(exchange: IncomingRequest) -> Any:
    return {}


class Queue:
    """Somebody's queue: each look at its method makes a new object."""

    def post(self, job: Callable[[], None]) -> None:
        job()


def test_names_and_objects() -> None:
    executors, serial, queue = Executors(), Serial(), Queue()
    assert executors.place(None) is None
    assert executors.place(None, "pool") == "pool" == executors.place("pool", serial)
    assert executors.place("main") is executors.main
    assert executors.place(serial) is serial and executors.place(serial) is serial
    elsewhere = executors.place(queue.post)
    assert isinstance(elsewhere, Elsewhere) and elsewhere is executors.place(queue.post)
    assert elsewhere is not executors.place(Queue().post)


@pytest.mark.parametrize("wrong", ["Main", "", "thread"])
def test_there_is_no_such_executor(wrong: str) -> None:
    with pytest.raises(ValueError, match="executor is None, 'pool', 'main'"):
        Executors().place(wrong)


@pytest.mark.parametrize("wrong", [5, Serial, Main, object()])
def test_what_is_no_executor(wrong: Any) -> None:
    with pytest.raises(TypeError, match="executor is None, 'pool', 'main'"):
        Executors().place(wrong)
    with pytest.raises(TypeError, match="on_pump_needed"):
        Executors(5)  # type: ignore[arg-type]


def test_routes() -> None:
    for place, pace in (("pool", True), (None, False)):
        route = route_to(handle, place)
        assert (route.handle, route.start) == (handle, None)
        assert (route.pace is ALWAYS_SLOW) is pace
    main, notes = Main(), []  # type: ignore[var-annotated]

    def watch(exchange: IncomingRequest) -> Callable[[], None]:
        notes.append("waits")
        return lambda: notes.append("begins")

    for start in (route_to(handle, main).start, route_to(handle, main, watch=watch).start):
        assert start is not None
        start(exchange())
    assert main.pump() == 2 and notes == ["waits", "begins"]


class Noting(Serial):
    """Remembers who uses it."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: List[str] = []

    def join(self, user: object) -> None:
        self.notes.append("join")

    def leave(self, user: object) -> None:
        self.notes.append("leave")

    def renew(self) -> None:
        self.notes.append("renew")


def test_all_that_were_named_hear_of_the_servers_life() -> None:
    executors, serial = Executors(), Noting()
    executors.place(serial)
    executors.open()
    executors.renew()
    executors.close()
    assert serial.notes == ["join", "join", "renew", "leave"]
