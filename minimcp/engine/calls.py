"""`Calls`: the requests that this side has sent on one connection, and their outcomes.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import re
from copy import copy
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from ..errors import Cancelled, ConnectionLost, RequestTimeout
from ..log import logger
from ..protocol.messages import (
    Failure,
    Id,
    Json,
    Notification,
    Request,
    Result,
    encode,
    is_id,
    readable_ids,
)
from ..text import one_line
from .cancel import CancelToken
from .limits import BoundedQueue
from .pool import waiting
from .timer import NEVER, Deadline

log = logger("minimcp.requests")

_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")

# Methods of calls that cannot be cancelled. If one times out, the peer is not notified.
NEVER_CANCELLED = frozenset({"initialize", "server/discover"})

# Minimum timeout of one `queue.get`. In some Python versions a shorter timeout may wait forever.
MIN_WAIT_SECONDS = 0.001

# Maximum number of progress notifications that are queued for a slow callback. Above this, the
# oldest ones are dropped, because the newest report says the most. A fast callback can also be
# late, if another thread keeps the interpreter busy.
MAX_PROGRESS = 10_000

# Maximum size of these notifications as they were received, in bytes. In memory, they are at most
# 64 times as large. Their memory is not measured, because measuring takes as long as decoding.
PROGRESS_BYTES = 1024 * 1024

# Maximum number of pauses per call. Without this limit, a server could extend a deadline forever by
# asking questions.
MAX_PAUSES = 1000

# The item of a call's queue that makes the waiting thread look at the deadline again.
WAKE = None

# The outcome of a call: its result, the peer's error, or the exception that the caller gets.
Outcome = Union[Result, Failure, BaseException]

# Makes the params of a request, given its id.
MakeParams = Callable[[Id], Result]

# Receives the params of progress notifications. If None, they are dropped.
OnItem = Optional[Callable[[Any], None]]


class PendingCall:
    """A request that this side has sent and whose response has not arrived.

    Args:
        id: The id of the request.
        method: The method of the request.
        on_item: Called with the params of each progress notification, in order, by the thread that
            waits for the call; if None, they are dropped.
        queue: The queue of the waiting thread; if None, the call creates one. Its items are this
            object when the call has ended, `WAKE` when the deadline has changed, and
            `BoundedQueue.SIGNAL` when `report` has a report to pass on. Calls that the same thread
            waits for share one queue.
        outcome: The outcome; None while the call is pending.
        deadline: When the call times out.
    """

    # Whether the request may have reached the peer.
    sent = True
    # Whether the call stays open for notifications, as `subscriptions/listen` does.
    stays_open = False
    # How often the deadline was paused.
    pauses = 0
    # Cancelled before the caller gets the outcome, to end the peer's questions that depend on this
    # call. None if there are none.
    ended: Optional[CancelToken] = None

    def __init__(
        self,
        id: Id,
        method: str,
        on_item: OnItem = None,
        queue: Any = None,
        deadline: Deadline = NEVER,
    ) -> None:
        self.id = id
        self.method = method
        self.on_item = on_item
        if queue is None:
            queue = SimpleQueue()
            if on_item is not None:
                queue = BoundedQueue("progress notifications", MAX_PROGRESS, PROGRESS_BYTES)
        self.queue = queue
        self.outcome: Optional[Outcome] = None
        self.deadline = deadline

    def report(self) -> bool:
        """Call `on_item` with the oldest queued report. Return False if there is none."""
        on_item = self.on_item  # another thread may set it to None
        report = None if on_item is None else self.queue.take()
        if report is None:
            return False
        on_item(report)  # type: ignore[misc]
        return True

    def settle(self, outcome: Outcome) -> None:
        """Set the outcome. Only the thread that removed the call from the table may call this."""
        self.outcome = outcome
        self.queue.put(self)

    def end_questions(self) -> None:
        """End the peer's questions that depend on the call, before its caller gets the outcome."""
        if self.ended is not None:
            self.ended.cancel()


class Calls:
    """The requests that this side has sent on one connection. Thread-safe.

    Rule 4 of `connection.py`: a call is in the table before its line is written, and the thread
    that pops it settles it. There is no lock. Each step is one atomic operation on a dict, so a
    signal handler may cancel calls or close a connection at any moment.

    Args:
        name: The name of the connection, for error messages.
        send: Writes a line and returns True, or returns False if the deadline passed. Raises
            ConnectionLost.
        post: Enqueues a line for another thread. Never blocks.
        timeout_note: Returns text that is appended to the message of a timeout, or an empty string.
        ids: The ids of the requests; None means 1, 2, 3 and so on.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[bytes, Deadline], bool],
        post: Callable[[bytes], object],
        timeout_note: Callable[[], str] = str,
        ids: Optional[Iterator[Id]] = None,
    ) -> None:
        self.name = name
        self._send = send
        self._post = post
        self._timeout_note = timeout_note
        self._table: dict[Id, PendingCall] = {}
        self._ids: Iterator[Id] = count(1) if ids is None else ids
        self._causes: list[BaseException] = []
        # Whether a call was started since the last `were_idle`. A list, which `through` shares.
        self._was_used = [False]

    def through(
        self, send: Callable[[bytes, Deadline], bool], post: Callable[[bytes], object]
    ) -> Calls:
        """Return a view of this table that sends with these functions, for one HTTP response."""
        other = copy(self)
        other._send = send
        other._post = post
        return other

    @property
    def cause(self) -> Optional[BaseException]:
        """The exception that ended the connection; None while calls are possible."""
        return self._causes[0] if self._causes else None

    def __len__(self) -> int:
        return len(self._table)

    def find(self, id: Any) -> Optional[PendingCall]:
        """Return the pending call with this id, or None. ``"1"`` and 1 are different ids."""
        return self._table.get(id) if is_id(id) else None

    def answered_by(self, id: Any) -> Optional[PendingCall]:
        """Return the pending call that a response with this id belongs to, or None.

        Clients send integer ids. Some peers send them back as strings, so ``"1"`` matches 1.
        """
        call = self.find(id)
        if call is None and type(id) is str and _DECIMAL.fullmatch(id):
            call = self._table.get(int(id))
        return call

    def meant_by(self, line: bytes) -> Optional[PendingCall]:
        """Return the pending call that a line of invalid JSON answers, or None.

        The line must look like a response and contain the id of exactly one pending call.
        """
        found: Optional[PendingCall] = None
        for id in readable_ids(line):
            call = self.answered_by(id)
            if call is not None and found is not None and call is not found:
                return None
            found = call or found
        return found

    def progress(self, params: Result, size: int) -> Optional[PendingCall]:
        """Enqueue the params of a progress notification for their call, and return the call.

        ``size`` is the size of the notification in bytes.
        """
        token = params.get("progressToken")
        call = self.find(token)
        if call is None:
            log.debug("<-- progress for %s, which is not a pending call", token)
            return None
        call.deadline.progressed()
        if call.on_item is not None:
            call.queue.add(params, size)
        return call

    def pending(self) -> list[PendingCall]:
        """Return the pending calls, oldest first."""
        return list(self._table.values())

    def were_idle(self) -> bool:
        """Return whether no call is pending and none was started since the last check.

        Pings and calls that stay open do not count.
        """
        was_used = self._was_used[0]
        self._was_used[0] = False
        return not was_used and all(call.stays_open for call in self.pending())

    def ping(self, method: str, make_params: MakeParams) -> PendingCall:
        """Send a request for which no thread waits. Never blocks.

        Raises:
            BaseException: The connection has ended. The exception is its `cause`.
        """
        id = next(self._ids)
        call = PendingCall(id, method)
        self.add(call)
        self._post(encode(Request(id, method, make_params(id))))
        return call

    # ------------------------------------------------------------ one call

    def send(
        self,
        method: str,
        make_params: MakeParams,
        on_item: OnItem = None,
        *,
        deadline: Deadline = NEVER,
    ) -> PendingCall:
        """Send a request; `wait` returns its response.

        Over HTTP, the thread in `wait` sends it and reads the response; see `http/client.py`.

        Args:
            method: The method of the request.
            make_params: Makes the params, given the id of the request.
            on_item: Called with the params of each progress notification by the thread that waits;
                if None, they are dropped.
            deadline: When the call times out.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError, TypeError: The params cannot be encoded as JSON.

        Blocks while the send queue is full. If the deadline passes first, the call times out.
        """
        return self.send_all([(method, make_params)], on_item, deadline=deadline)[0]

    def send_all(
        self,
        requests: Sequence[tuple[str, MakeParams]],
        on_item: OnItem = None,
        *,
        deadline: Deadline = NEVER,
    ) -> list[PendingCall]:
        """Send several requests in one write; see `send`.

        If one of them cannot be encoded as JSON, nothing is sent.
        """
        calls: list[PendingCall] = []
        lines: list[bytes] = []
        queue: Any = None
        sent = False
        self._was_used[0] = True
        try:
            for method, make_params in requests:  # Rule 4: register before writing.
                call = PendingCall(next(self._ids), method, on_item, queue, deadline)
                queue = call.queue
                self.add(call)
                calls.append(call)
                lines.append(encode(Request(call.id, method, make_params(call.id))))
            sent = True
            if not self._send(b"".join(lines), deadline):
                for call in calls:
                    self.time_out(call, notify=False)
        except BaseException as error:
            notify = sent and not isinstance(error, ConnectionLost)
            for call in calls:
                self.end(call, Cancelled("the caller gave up"), notify=notify)
            raise
        return calls

    def add(self, call: PendingCall) -> None:
        """Register a call that is about to be sent.

        Raises:
            BaseException: The connection has ended. The exception is its `cause`.
        """
        self._table[call.id] = call
        if self._causes:
            self._table.pop(call.id, None)
            raise copy(self._causes[0])

    def wait(
        self,
        call: PendingCall,
        deadline: Deadline,
        *,
        about: Json = None,
        group: Sequence[PendingCall] = (),
    ) -> Union[Result, Failure]:
        """Wait for the response to a request that was started.

        Args:
            call: The request.
            deadline: When to time out. The peer is notified.
            about: The name of the tool, or another detail for the message of a timeout.
            group: Requests from the same call of `send_all`. If one of them fails, the wait ends
                with the outcome of that request.

        Returns:
            The result, or the peer's error.

        Raises:
            RequestTimeout: The deadline passed.
            Cancelled: The call was cancelled.
            ConnectionLost: The connection has ended.
            ProtocolViolation: The response was invalid.
        """
        call.deadline = deadline
        # The call whose outcome ends the wait: `call`, or the first one of the group that fails.
        awaited = call
        # The deadline, or `NEVER` after it has passed: the call times out only once.
        left = deadline
        try:
            with waiting():
                while awaited.outcome is None or not awaited.queue.empty():
                    seconds = left.to_wait()
                    try:
                        item = awaited.queue.get(seconds > 0, max(seconds, MIN_WAIT_SECONDS))
                    except Empty:
                        item = WAKE
                    if isinstance(item, PendingCall):  # this call has ended
                        failed = isinstance(item.outcome, (Failure, BaseException))
                        if failed and item in group:
                            awaited = item
                        continue
                    more = True
                    while more:
                        more = awaited.report()
                        # Check after each report, because a report must not extend the deadline.
                        if left.expired and awaited.outcome is None:
                            self.time_out(awaited, about)
                            left = NEVER  # another thread may be about to settle the call
        except BaseException:
            self.end(awaited, Cancelled("the caller gave up"))
            raise
        if isinstance(awaited.outcome, BaseException):
            # One lost connection ends many calls, and each caller needs its own exception.
            raise copy(awaited.outcome)
        return awaited.outcome

    # ------------------------------------------------------------ outcomes

    def settle(self, id: Id, outcome: Outcome) -> bool:
        """End the call with this id. Return False if there is none. Never blocks."""
        call = self._table.pop(id, None)
        if call is None:
            match = self.answered_by(id)  # the peer may have sent the id as a string
            if match is not None:
                call = self._table.pop(match.id, None)
        if call is None:
            return False
        if call.deadline.on_progress is not None:
            call.deadline.progressed()
        call.settle(outcome)
        return True

    def end(self, call: PendingCall, outcome: Exception, *, notify: bool = True) -> bool:
        """End a call from this side. Return False if it has already ended. Never blocks.

        Progress that the callback has not received yet is dropped, even if the call has ended.

        Args:
            call: The call.
            outcome: The exception that the caller gets.
            notify: Whether to send a cancellation to the peer.
        """
        call.on_item = None
        call.end_questions()
        if not self.settle(call.id, outcome):
            return False
        if notify and call.sent and not self._causes and call.method not in NEVER_CANCELLED:
            self._post(_cancellation(call, outcome))
        return True

    def time_out(self, call: PendingCall, about: Json = None, *, notify: bool = True) -> None:
        """End a call whose deadline has passed; see `wait` and `end`. Never blocks."""
        called = f"{call.method} {about[:100]!r}" if isinstance(about, str) else call.method
        reason = call.deadline.reason
        error = RequestTimeout(f"{self.name}: {called}: {reason}{self._timeout_note()}")
        self.end(call, error, notify=notify)

    def close(self, cause: BaseException) -> bytes:
        """End every call, and reject new calls. All get the cause of the first `close`.

        Return the lines that cancel the calls.
        """
        self._causes.append(cause)
        for call in self.pending():
            call.end_questions()
        ended = [call for call in self.pending() if self.settle(call.id, self._causes[0])]
        return b"".join(
            [_cancellation(call, cause) for call in ended if call.method not in NEVER_CANCELLED]
        )

    def pause_all(self, *calls: PendingCall) -> Callable[[], None]:
        """Pause the deadlines of these calls, or of all calls, while the host answers a question.

        The deadline of one call is paused at most `MAX_PAUSES` times. Return a function that
        resumes the deadlines.
        """
        deadlines = {}
        for call in calls or self.pending():
            call.pauses += 1
            if call.deadline is not NEVER and call.pauses <= MAX_PAUSES:
                deadlines[id(call.deadline)] = call.deadline
        for deadline in deadlines.values():
            deadline.pause()

        def resume() -> None:
            while deadlines:
                deadlines.popitem()[1].resume()
            for call in self.pending():
                if call.queue.empty():  # otherwise the waiting thread wakes for the next item
                    call.queue.put(WAKE)

        return resume


class Pinged:
    """A connection or session whose peer can be pinged.

    Attributes:
        calls: The requests that this side has sent.
        was_active: Set when the peer has sent a message other than a response.
        pinger: The `Pinger` of `liveness`; None before `liveness.start_pings`.
    """

    calls: Calls
    was_active = False
    pinger: Any = None

    def stop_pings(self) -> None:
        """Stop sending pings. Idempotent."""
        if self.pinger is not None:
            self.pinger.stop()

    def is_idle(self) -> bool:
        """Return whether no request of the peer is running."""
        raise NotImplementedError

    def send_ping(self) -> Optional[PendingCall]:
        """Send a ping and return it, or return None if the peer cannot be pinged now. Never blocks.

        Raises:
            BaseException: The connection has ended. The exception is its cause.
        """
        raise NotImplementedError

    def lose(self, cause: ConnectionLost) -> None:
        """End the connection with this cause. Never blocks."""
        raise NotImplementedError


def _cancellation(call: PendingCall, reason: BaseException) -> bytes:
    params = {"requestId": call.id, "reason": one_line(str(reason))}
    return encode(Notification("notifications/cancelled", params))
