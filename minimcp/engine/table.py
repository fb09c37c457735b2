"""The calls that wait for the peer's answer, keyed by id, and the one place where a call ends.

A call ends exactly once: whoever takes its entry out of the table decides how (answer, error, timeout, cancel or
loss), and whoever comes second finds nothing and does nothing. https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import threading
from collections import deque
from copy import copy
from itertools import count
from typing import Any, Callable, Optional, Sequence, Union

from ..protocol.messages import Failure, Id, Json
from .deadline import Deadline

Ending = Union[dict[str, Json], Failure, BaseException]
"""How a call ended: the result object, the peer's error, or the exception that its caller gets."""


class PendingCall:
    """A mailbox that one caller waits at: progress items and, at last, exactly one ending.

    The thread that waits runs the callbacks (rule 4): items come in order, before the return, on its own thread.

    Args:
        id: The request's id.
        method: The request's method, for messages.
        on_item: Called with each item by the waiting thread; None drops items.
        gate: From `closed_gate`, when one thread waits for several calls at once; None makes one.
    """

    __slots__ = ("id", "method", "on_item", "_items", "_ending", "_gate")

    def __init__(
        self,
        id: Id,
        method: str,
        on_item: Optional[Callable[[Any], None]] = None,
        gate: Optional[threading.Lock] = None,
    ) -> None:
        self.id, self.method, self.on_item = id, method, on_item
        self._items: deque[Any] = deque()
        self._ending: Optional[Ending] = None
        self._gate = closed_gate() if gate is None else gate

    @property
    def ended(self) -> bool:
        """Whether the ending has arrived."""
        return self._ending is not None

    @property
    def ending(self) -> Optional[Ending]:
        """How it ended; None as long as it has not."""
        return self._ending

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not by a result."""
        return isinstance(self._ending, (Failure, BaseException))

    def put(self, item: Any) -> None:
        """Add an item (the reader's thread, which will `wake` the caller when it has read all there is)."""
        if self.on_item is not None:
            self._items.append(item)

    def end(self, ending: Ending, *, wake: bool = True) -> None:
        """Put the ending in; only who took this call out of its table may do so, and so only once."""
        self._ending = ending
        if wake:
            self.wake()

    def wake(self) -> None:
        """Have the caller look into its mailbox."""
        try:
            self._gate.release()
        except RuntimeError:
            pass  # the caller was woken already and has not looked yet: it will see this too

    def wait(self, deadline: Deadline) -> Optional[Ending]:
        """Wait for the ending and run the callback of every item before it; None when time is up.

        Raises whatever the callback raises; the call is then still in its table.
        """
        while True:
            ended = self._ending is not None
            while self._items and self.on_item is not None:
                self.on_item(self._items.popleft())
            if ended:
                return self._ending
            if not self._gate.acquire(timeout=deadline.wait()) and deadline.expired and not self.ended:
                return None

    def wait_for(self, take: Callable[[], Any], deadline: Deadline) -> Any:
        """Wait until a function gives something; None when the time is over, or when this has ended and it gives none.

        Args:
            take: Called after each `wake` until it gives anything but None.
            deadline: How long to wait.

        One thread at a time.
        """
        while True:
            ended = self._ending is not None
            found = take()
            if found is not None:
                return found
            if ended or (not self._gate.acquire(timeout=deadline.wait()) and deadline.expired and not self.ended):
                return None

    def __repr__(self) -> str:
        return f"<PendingCall {self.id!r} {self.method} {'ended' if self.ended else 'waiting'}>"


def closed_gate() -> threading.Lock:
    """What a waiting thread is held by until something comes; calls that one thread waits for may share it."""
    gate = threading.Lock()
    gate.acquire()
    return gate


def wait_for_all(calls: Sequence[PendingCall], deadline: Deadline) -> None:
    """Wait until all of these have ended, or one has failed, or the time is over.

    Args:
        calls: At least one; they share a gate, and nobody else waits for them.
        deadline: When to give up.
    """
    gate, left = calls[0]._gate, list(calls)
    while True:
        left = [call for call in left if not call.ended or call.failed]
        if not left or any(call.failed for call in left):
            return
        if not gate.acquire(timeout=deadline.wait()) and deadline.expired:
            return


class RequestTable:
    """All calls of one direction of one connection that are waiting. Thread-safe, also for a signal handler.

    Once closed it refuses new calls with the cause, and every call that waited has ended with it (rule 5).

    There is no lock, because a signal handler may close a connection in the middle of anything that its thread does
    here. Each step is one operation that the interpreter does whole: ``next`` of a counter, and setting, popping or
    copying in a dict with ids as keys (builds without the interpreter's lock lock each object for them). Whoever pops
    an entry ends that call. `close` sets the cause and then pops what there is; `register` puts the call in and then
    looks for the cause. So of a call that comes together with the loss either `close` sees the entry, or `register`
    the cause, or both, and then one of them pops it.
    """

    __slots__ = ("_calls", "_ids", "_own_ids", "_cause")

    def __init__(self) -> None:
        self._calls: dict[Id, PendingCall] = {}
        self._ids, self._own_ids = count(1), count(1)
        self._cause: dict[str, BaseException] = {}  # one at most: whoever comes first sets it, in one step

    def register(
        self,
        method: str,
        on_item: Optional[Callable[[Any], None]] = None,
        gate: Optional[threading.Lock] = None,
    ) -> PendingCall:
        """A new call with an id that was never used on this connection. Arguments as for `PendingCall`.

        Without a method it is a wait of this side's own, which is never sent: its id is negative, so that on the wire
        none is left out.

        Raises:
            BaseException: The cause of the loss, when the table is closed.
        """
        call = PendingCall(next(self._ids) if method else -next(self._own_ids), method, on_item, gate)
        self._calls[call.id] = call
        cause = self.cause
        if cause is not None:
            self._calls.pop(call.id, None)
            raise copy(cause)
        return call

    def find(self, id: Id) -> Optional[PendingCall]:
        """The waiting call with this id (of this very type), or None."""
        return self._calls.get(id)

    def settle(self, id: Id, ending: Ending) -> bool:
        """End the call with this id; False when it has ended before or never was."""
        call = self.take(id, ending)
        if call is None:
            return False
        call.wake()
        return True

    def take(self, id: Id, ending: Ending) -> Optional[PendingCall]:
        """As `settle`, but the caller of this has to `wake` the call that is returned; None where there was none."""
        call = self._calls.pop(id, None)
        if call is not None:
            call.end(ending, wake=False)
        return call

    def wake_all(self) -> None:
        """Have every caller look at its deadline again."""
        for call in list(self._calls.values()):
            call.wake()

    def close(self, cause: BaseException) -> list[PendingCall]:
        """Refuse new calls and end the waiting ones with this cause, or with an earlier one; returns those it ended."""
        cause = self._cause.setdefault("cause", cause)
        ended = []
        for id in list(self._calls):
            call = self._calls.pop(id, None)
            if call is not None:
                call.end(cause)
                ended.append(call)
        return ended

    @property
    def cause(self) -> Optional[BaseException]:
        """Why the table is closed; None while it is open."""
        return self._cause.get("cause")

    def ids(self) -> list[Id]:
        """Of the calls that wait now, oldest first."""
        return list(self._calls)

    def __len__(self) -> int:
        return len(self._calls)
