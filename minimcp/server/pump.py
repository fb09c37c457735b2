"""`Main`: the executor whose requests wait until a thread of the author pumps."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Callable, Optional

from ..engine.timer import Deadline
from .executors import Executor, Ticket

log = logging.getLogger("minimcp.executors")



class Main(Executor):
    """``executor="main"``: requests wait until somebody pumps.

    Args:
        on_needed: Called on another thread when there is something to pump and nobody was told since the last `pump`;
            None calls nothing.
    """

    def __init__(self, on_needed: Optional[Callable[[], object]] = None) -> None:
        super().__init__()
        self._on_needed = on_needed
        self.bells: list[Callable[[], None]] = []
        """Called by a reader's thread for each request that comes, and when `pump` is to wait no longer."""
        self._told = False
        self._stops = 0
        self._inside: set[int] = set()

    def _arrived(self, ticket: Ticket) -> None:
        self._ring()
        self._tell(ticket)

    def _ring(self) -> None:
        for bell in list(self.bells):
            bell()

    def _tell(self, ticket: Ticket) -> None:
        """Have the author told, once between two pumps.

        Who pumps takes the mark away before looking into the queue; who brings something looks at the mark after
        putting it there. So either it is seen, or it is told.
        """
        if self._on_needed is not None and not self._told:
            self._told = True
            ticket.sink.spawn(self._call_author)

    def _call_author(self) -> None:
        try:
            self._on_needed()  # type: ignore[misc]
        except Exception as error:
            log.error("on_pump_needed failed: %s", error, exc_info=error)

    @property
    def runs_here(self) -> bool:
        """Whether this thread is inside `pump`, running something."""
        return threading.get_ident() in self._inside

    def pump(self, timeout: Optional[float] = 0) -> int:
        """Run what waits now, on this thread; returns how many requests that were.

        Args:
            timeout: Seconds to wait for the first; None waits until there is one, or until `clear`.

        Raises:
            RuntimeError: This thread is pumping already.
            KeyboardInterrupt: Ctrl-C struck in a handler, which was answered; what is left is for the next time.
        """
        if self.runs_here:
            raise RuntimeError("pump is running on this thread already: what it runs cannot call it")
        self._await_first(Deadline(timeout))
        done = 0
        me, waiting = threading.get_ident(), list(self._waiting)  # what comes now is for the next time
        for ticket in waiting:
            self._inside.add(me)
            try:
                done += ticket.run()
            except BaseException:
                for left in list(self._waiting)[:1]:
                    self._tell(left)
                raise
            finally:
                self._inside.discard(me)
        return done

    def _await_first(self, deadline: Deadline) -> None:
        gate, stops = threading.Lock(), self._stops
        gate.acquire()
        bell = partial(_open, gate)
        self.bells.append(bell)
        try:
            self._told = False
            while not self._waiting and not deadline.expired and self._stops == stops:
                gate.acquire(timeout=deadline.wait())
                self._told = False
        finally:
            self.bells.remove(bell)

    def clear(self, reason: str) -> None:
        """Cancel what waits, and let those go who wait for it."""
        for ticket in list(self._waiting):
            ticket.cancel(reason)
        self._stops += 1
        self._ring()

    def renew(self) -> None:
        super().renew()
        self.bells, self._inside = [], set()
        self._told = False


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        pass  # it is open already
