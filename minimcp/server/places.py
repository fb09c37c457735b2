"""Where handlers run: what ``executor=`` says, as the route of a handler."""

from __future__ import annotations

from functools import partial
from typing import Callable, Optional, Union

from ..engine.requests import Handler, Route
from .executors import Executor, Watch
from .pump import Main
from .serial import Elsewhere, Serial

ExecutorOption = Union[None, str, Serial, Callable[[Callable[[], None]], object]]
"""What ``executor=`` may be: None, "pool", "main", a `Serial`, or a callable that is given a function to run."""

Place = Union[None, str, Executor]
"""Where handlers run: None and "pool" are the pool, else an executor."""


class Executors:
    """The executors that one server uses. Thread-safe.

    Args:
        on_pump_needed: As of `Main`.
    """

    def __init__(self, on_pump_needed: Optional[Callable[[], object]] = None) -> None:
        if on_pump_needed is not None and not callable(on_pump_needed):
            raise TypeError(f"on_pump_needed is a callable, not {on_pump_needed!r}")
        self.main = Main(on_pump_needed)
        self._used: list[Executor] = [self.main]

    def place(self, given: ExecutorOption, default: Place = None) -> Place:
        """Where ``executor=`` says that handlers run; None takes the default.

        Raises:
            ValueError: There is no executor of this name.
            TypeError: It is no executor at all.
        """
        if given is None:
            return default
        if isinstance(given, str):
            if given not in ("pool", "main"):
                raise ValueError(f"executor is None, 'pool', 'main', a Serial() or a callable, not {given!r}")
            return self.main if given == "main" else given
        if isinstance(given, type) or not (isinstance(given, Serial) or callable(given)):
            raise TypeError(f"executor is None, 'pool', 'main', a Serial() or a callable, not {given!r}")
        for used in self._used:
            if used is given or (isinstance(used, Elsewhere) and used.function == given):
                return used
        executor = given if isinstance(given, Serial) else Elsewhere(given)
        executor.join(self)
        self._used.append(executor)
        return executor

    def adopt(self, place: Place) -> Place:
        """Where a handler of another server runs when this one serves it: an executor stays, "main" is ours."""
        if isinstance(place, Main):
            return self.main
        if isinstance(place, Executor) and place not in self._used:
            place.join(self)
            self._used.append(place)
        return place

    def open(self) -> None:
        """A connection begins."""
        for executor in self._used:
            executor.join(self)

    def close(self) -> None:
        """The server is closed: threads that nobody else needs end."""
        for executor in self._used:
            executor.leave(self)

    def renew(self) -> None:
        """Begin anew in a forked process."""
        for executor in self._used:
            executor.renew()


def route_to(handle: Handler, place: Place, *, watch: Optional[Watch] = None) -> Route:
    """The route of a handler that runs at this place.

    Args:
        handle: The handler.
        place: Where it runs.
        watch: Told how long a request waits in an executor's queue, for timeouts; None tells nobody.
    """
    if isinstance(place, Executor):
        return Route(handle, start=place.start if watch is None else partial(place.start, watch=watch))
    return Route(handle)
