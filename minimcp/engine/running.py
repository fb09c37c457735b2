"""`RunningRequests`: the table of the peer's requests, and the states of a request.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Protocol, Union

from ..errors import InternalError, InvalidRequest, RpcError
from ..log import logger
from ..protocol.lifecycle import STREAMS
from ..protocol.messages import Request, Result, encode, failure, is_id, size_of
from .cancel import CancelToken
from .limits import Limits
from .timer import Deadline

if TYPE_CHECKING:
    from .shares import Place

log = logger("minimcp.requests")

# Estimated memory of a queued request without its params.
REQUEST_BYTES = 2048

# The larger of these two bounds applies: a number of bytes, and a fraction of
# ``Limits.backlog_bytes``. While fewer bytes are queued, a request counts as the length of its
# message. Above the bound, the memory of the request is measured, which takes as long as decoding.
# The memory is at most 64 times the length of the message.
UNMEASURED_BYTES = 64 * 1024
UNMEASURED_FRACTION = 1 / 64

# Callback invoked when a request finishes. It receives the request, the `IncomingRequest` that ran
# it (None if it was rejected), and the encoded response, the exception that rejected it, or None if
# it was cancelled.
OnFinished = Callable[[Request, Any, Union[bytes, Exception, None]], None]

# ------------------------------------------------------------ the states of a request

# Not in the table yet.
NEW = "new"
# In the queue of a pool, or run by the reader thread.
QUEUED = "queued"
# The handler is running or is in the queue of an executor. The request occupies one of
# `Limits.requests`.
RUNNING = "running"
# No thread is running it: a stream of notifications, or a request that is answered later.
OPEN = "open"
# Answered or cancelled while it was queued. The thread that takes the request from the queue will
# skip it.
ENDED = "ended"
# Answered or cancelled, but its handler is still running or a thread is sending its response.
FINISHING = "finishing"
# Answered or cancelled, and no thread is running it.
DONE = "done"

# The request is added to the table.
ADD = "add"
# The handler of the request begins.
BEGIN = "begin"
# The request is answered or cancelled. Only one thread succeeds in this.
END = "end"
# The thread that ran the request has left its handler and has sent the response, if there is one.
LEAVE = "leave"

# The next state for a state and an event. An event that is not in the table has no effect.
TRANSITIONS: Mapping[str, Mapping[str, str]] = {
    NEW: {ADD: QUEUED},
    QUEUED: {BEGIN: RUNNING, END: ENDED, LEAVE: OPEN},
    RUNNING: {END: FINISHING, LEAVE: OPEN},
    OPEN: {END: DONE},
    ENDED: {LEAVE: DONE},
    FINISHING: {LEAVE: DONE},
    DONE: {},
}

# States in which a response is due.
DUE = frozenset({QUEUED, RUNNING, OPEN})
# States in which a request occupies one of `Limits.requests`.
OCCUPYING = frozenset({RUNNING, FINISHING})
# States in which the bytes of a request count towards `Limits.backlog_bytes`. A server counts only
# queued requests. A client also counts running ones, because a person may take a long time to
# answer them.
QUEUED_BYTES = frozenset({QUEUED, ENDED})
HELD_BYTES = QUEUED_BYTES | OCCUPYING


# The effects of a transition, as a tuple, which is faster than a `NamedTuple`:
# 1. the next state
# 2. the change of the free slots of `Limits.requests`: -1, 0 or 1
# 3. whether the bytes of the request no longer count
# 4. whether the response is no longer due, so that the request leaves the table
Step = tuple[str, int, bool, bool]


def steps(counted: frozenset[str]) -> Mapping[str, Mapping[str, Step]]:
    """Return the steps by state and event, given the states in which bytes count."""
    return {
        state: {
            event: (
                after,
                (state in OCCUPYING) - (after in OCCUPYING),
                state in counted and after not in counted,
                state in DUE and after not in DUE,
            )
            for event, after in events.items()
        }
        for state, events in TRANSITIONS.items()
    }


SERVER_STEPS = steps(QUEUED_BYTES)
CLIENT_STEPS = steps(HELD_BYTES)


class Tracked(Protocol):
    """The part of an `IncomingRequest` that the table uses; see its docstring."""

    request: Request
    route: Any
    token: CancelToken
    batch: Any
    size: int
    key: object
    state: str
    place: Optional[Place]
    arrived: float

    def run_in_context(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a copy of the handler's context."""


class RunningRequests:
    """A table of the peer's requests that are not answered, and the number of running handlers.

    A request is in the table from `add` until it is answered or cancelled. After that, the peer may
    use its id again, while its handler may still be running. Only `advance` changes the state of a
    request after `add`.

    Args:
        limits: The limits of the connection or session.
        cap: The free slots of ``Limits.requests``: a list with one item per slot. A running request
            removes an item and puts it back later. All connections of a server share one list. If
            None, the table creates its own list. (A `Semaphore` would double the cost of a request
            here.)
        until_answered: Whether the bytes of a request count towards ``Limits.backlog_bytes`` until
            its handler has returned, as in a client. If False, they count until the handler begins.
        on_finished: Called by the thread that ends a request; or None.

    Attributes:
        lock: Protects the table, the states and `IncomingRequest.answering`. It is held only for a
            few statements.
        max_bytes: Maximum size of a response, in bytes.
        running: Number of requests whose handlers are running or are in the queue of an executor.

    Thread-safe. May be used in signal handlers.
    """

    def __init__(
        self,
        limits: Limits,
        cap: Optional[list[None]] = None,
        *,
        until_answered: bool = False,
        on_finished: Optional[OnFinished] = None,
    ) -> None:
        self._limits = limits
        self._cap = cap
        self._steps = CLIENT_STEPS if until_answered else SERVER_STEPS
        self._on_finished = on_finished
        self.max_bytes = float("inf") if limits.message_bytes is None else limits.message_bytes
        self._max_queued = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self._unmeasured = max(UNMEASURED_BYTES, self._max_queued * UNMEASURED_FRACTION)
        if cap is None and limits.requests is not None:
            self._cap = [None] * limits.requests
        # Counts a request towards the share of its client (`CountedClient.reserve`). If None,
        # nothing is counted.
        self.reserve_place: Optional[Callable[[], Place]] = None
        self._table: dict[object, Tracked] = {}
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Drop all requests, because the parent process answers them."""
        for request in self._table.values():
            request.state = DONE
        # The key of a request is its id or the `key` of `add`.
        self._table = {}
        self.running = 0
        # The bytes that count towards `Limits.backlog_bytes`.
        self._bytes = 0
        self._abandoned = False
        self._refusal: Optional[str] = None
        self.lock = threading.RLock()
        # Notified when no request is due or running, if threads wait for that.
        self._changed = threading.Condition(self.lock)
        self._waiting = 0

    def add(self, request: Tracked, key: object = None) -> None:
        """Add a request to the table.

        Args:
            request: The request.
            key: Identifies the request in `cancel`; None means its id.

        Raises:
            InvalidRequest: Another request with this key is waiting for its response.
            InternalError: The queued requests are too large, the client has too many requests, or
                `refuse` was called.
        """
        request.key = request.request.id if key is None else key
        request.size += REQUEST_BYTES
        if self.reserve_place is not None and not request.route.immediate:
            request.place = self.reserve_place()
        if self._on_finished is not None:
            request.arrived = time.monotonic()
        if self._bytes + request.size > self._unmeasured:
            request.size = REQUEST_BYTES + size_of(request.request.params, self._max_queued)
        try:
            with self.lock:  # not `acquire` and `try`: see `Writer.send`
                if request.key in self._table:
                    raise InvalidRequest(f"the id {request.request.id!r} is already in use")
                if self._refusal is not None:
                    raise InternalError(self._refusal)
                if self._bytes and self._bytes + request.size > self._max_queued:
                    raise InternalError("too many requests are queued")
                self._bytes += request.size
                self._table[request.key] = request
                request.state = TRANSITIONS[request.state][ADD]
        except RpcError:
            if request.place is not None:
                request.place.leave()
            raise

    def advance(self, request: Tracked, event: str, line: Optional[bytes] = None) -> bool:
        """Move a request to its next state.

        Several threads may try to `END` one request: its handler, its timeout, a cancellation, or
        the thread that detects that the connection is lost. Only the first thread gets True and may
        send a response. The others get False and send nothing.

        Args:
            request: The request.
            event: `BEGIN`, `END` or `LEAVE`.
            line: The response, if the event is `END`; None if the request is cancelled.

        Returns:
            False if the event has no effect in this state.

        Raises:
            InternalError: The event is `BEGIN`, and ``Limits.requests`` requests are running.
        """
        if event == LEAVE and request.place is not None:
            request.place.leave()
        with self.lock:
            step = self._steps[request.state].get(event)
            if step is None:
                return False
            state, slots, returns_bytes, frees_id = step
            # 1. Take or return one of the slots of `Limits.requests`.
            if slots < 0:
                try:
                    if self._cap is not None:
                        self._cap.pop()
                except IndexError:
                    limit = self._limits.requests
                    raise InternalError(f"{limit} requests are already running") from None
                self.running += 1
            elif slots and self.running:  # none is running after a fork: the slot is the parent's
                if self._cap is not None:
                    self._cap.append(None)
                self.running -= 1
            # 2. Stop counting the request's bytes towards `Limits.backlog_bytes`.
            if returns_bytes:
                self._bytes -= request.size
            # 3. Change the state.
            request.state = state
            # 4. Free the id as soon as no response is due.
            if frees_id:
                del self._table[request.key]
            if self._waiting and not (self._table or self.running):
                self._changed.notify_all()
        if event == END and self._on_finished is not None:
            # Rule 5: without the lock, because this is user code.
            request.run_in_context(self._on_finished, request.request, request, line)
        return True

    def end(self, request: Tracked) -> bool:
        """End a request without a response. Return False if it has ended already."""
        return self.advance(request, END)

    def refused(self, request: Request, error: Exception) -> None:
        """Report a request that was rejected before `add`."""
        if self._on_finished is not None:
            self._on_finished(request, None, error)

    def too_long(self, request: Tracked, size: int) -> bytes:
        """Return the error that replaces a response that is too long, and log a warning.

        Args:
            request: The request.
            size: Length of the response, in bytes.
        """
        log.warning(
            "the response to %s has %d bytes: an error is sent instead",
            request.request.method,
            size,
        )
        limit = f"{self.max_bytes} bytes, the sender's Limits.message_bytes"
        return encode(
            failure(
                request.request.id,
                InternalError(f"the response is longer than {limit}: ask for less"),
            )
        )

    def cancel(self, params: Result) -> bool:
        """Handle `notifications/cancelled`, given its params. Return False if the id is unknown."""
        key = params.get("requestId")
        given = params.get("reason")
        reason = given if isinstance(given, str) else None
        request = self._table.get(key) if is_id(key) else None
        if request is None or request.request.method == "initialize" or not self.end(request):
            log.debug("cancelled: %s is unknown or finished", key)
            return False
        log.info("<-- cancelled %s %s: %s", request.request.method, key, reason)
        if request.batch is not None:
            # Respond now, because the handler may run for a long time.
            request.batch.add(request.request.id, b"")
        request.token.cancel(reason)
        return True

    def refuse(self, reason: str) -> None:
        """Reject every request from now on, with this message."""
        self._refusal = reason

    def _due(self) -> list[Tracked]:
        return list(self._table.values())

    def interrupt(self, reason: str) -> None:
        """Cancel every handler. If a handler still returns a result, the result is sent."""
        for request in self._due():
            request.token.cancel(reason)

    def abandon(self, reason: str) -> None:
        """Cancel every request without a response, because the peer cannot receive one."""
        for request in self._due():
            if self.end(request):
                request.token.cancel(reason)
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def wait_until_empty(self, deadline: Deadline) -> bool:
        """Wait until no request is due or running, or for `abandon`. Return False on a timeout."""
        with self._changed:
            self._waiting += 1
            try:
                return self._changed.wait_for(
                    lambda: self._abandoned or not (self._table or self.running),
                    deadline.to_wait(),
                )
            finally:
                self._waiting -= 1

    def are_idle(self) -> bool:
        """Return whether the table has no requests except streams of change notifications."""
        return not self.running and all(each.request.method in STREAMS for each in self._due())

    def __len__(self) -> int:
        return len(self._table)
