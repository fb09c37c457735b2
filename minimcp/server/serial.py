"""Executors with a thread of ours: `Serial`, and `Elsewhere`, which only hands over."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional
from weakref import WeakSet

from .executors import Executor, Ticket

log = logging.getLogger("minimcp.executors")

IDLE_SECONDS = 1.0
"""How long the thread that calls an author's callable stays without work."""



class _OneThread:
    """A thread that takes one ticket after the other; it is there from the first ticket on.

    It does not know the executor that it works for, so that it can end when nobody else does.

    Args:
        name: Of the thread.
        waiting: The queue.
        serve: Serves a ticket.
        idle: Seconds without work after which it ends; None keeps it until `end`.
    """

    def __init__(
        self,
        name: str,
        waiting: OrderedDict[Ticket, None],
        serve: Callable[[Ticket], object],
        idle: Optional[float] = None,
    ) -> None:
        self._name, self._waiting, self._serve, self._idle = name, waiting, serve, idle
        self.renew()

    def renew(self) -> None:
        self._thread_lock = threading.Lock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._there = self._ending = False

    def wake(self) -> None:
        """There is one more in the queue. Raises RuntimeError when the system gives no more threads."""
        with self._thread_lock:
            self._ending = False
            if not self._there:
                threading.Thread(target=self._live, name=self._name, daemon=True).start()
                self._there = True
        self._bell.put(None)

    def end(self) -> None:
        """End when the queue is empty. Never blocks, not even in a finalizer."""
        self._ending = True
        self._bell.put(None)

    def _live(self) -> None:
        while True:
            over = not self._rung()
            ticket = self._first()
            if ticket is not None:
                self._run(ticket)
                ticket = None  # a thread that waits keeps nothing of what it did
            elif (over or self._ending) and self._may_go():
                return

    def _rung(self) -> bool:
        try:
            self._bell.get(timeout=self._idle)
        except Empty:
            return False
        return True

    def _first(self) -> Optional[Ticket]:
        try:
            return self._waiting.popitem(last=False)[0]
        except KeyError:
            return None  # it was withdrawn

    def _run(self, ticket: Ticket) -> None:
        try:
            self._serve(ticket)
        except BaseException as error:  # a fault of ours: those behind it are still served
            log.error("%s: %s", self._name, error, exc_info=error)

    def _may_go(self) -> bool:
        with self._thread_lock:
            if self._waiting:
                return False  # its bell is about to ring
            self._there = False
            return True


class Serial(Executor):
    """``executor=Serial()``: one thread, always the same, for all handlers that name this object. Thread-safe.

    They run one after the other, in order of arrival, whatever server or connection they belong to; so they need no
    locks among themselves, and may keep what belongs to a thread, such as a connection to SQLite. A handler that waits
    (``ctx.sleep``, a question to the client) keeps the thread: the others wait with it.

    The thread begins with the first call. It ends when every server that names this object is closed, or when nothing
    refers to it any more; the next call would begin a new one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._users: WeakSet[Any] = WeakSet()
        self._thread = _OneThread("minimcp-serial", self._waiting, Ticket.run)

    def _arrived(self, ticket: Ticket) -> None:
        self._thread.wake()
        if not self._users:  # a server that is closing: nobody else will end the thread
            self._thread.end()

    def join(self, user: object) -> None:
        self._users.add(user)

    def leave(self, user: object) -> None:
        self._users.discard(user)
        if not self._users:
            self._thread.end()

    def renew(self) -> None:
        super().renew()
        self._thread.renew()

    def __del__(self) -> None:
        self._thread.end()


class Elsewhere(Executor):
    """Hands each request, as a function without arguments, to a callable of the author, which runs it somewhere.

    The callable is called on a thread of ours, one call at a time and in order; if it waits for the function to end,
    the others wait too. A function that was run, or whose request was cancelled, does nothing when it is run again.

    Args:
        function: The callable.
    """

    def __init__(self, function: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self.function = function
        self._thread = _OneThread("minimcp-executor", self._waiting, self._hand_over, IDLE_SECONDS)

    def _arrived(self, ticket: Ticket) -> None:
        self._thread.wake()

    def _hand_over(self, ticket: Ticket) -> None:
        try:
            self.function(ticket.job)
        except BaseException as error:
            ticket.fail(error)

    def leave(self, user: object) -> None:
        self._thread.end()

    def renew(self) -> None:
        super().renew()
        self._thread.renew()
