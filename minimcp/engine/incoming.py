"""`IncomingRequest`: a request of the peer, from its arrival to its response.

https://modelcontextprotocol.io/specification/2026-07-28/basic
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import threading
import time
from contextvars import Context
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Union,
)

from ..errors import Cancelled, CapabilityNotSupported, InternalError, InvalidRequest, RpcError
from ..log import logger
from ..protocol.lifecycle import STREAMS, Peer
from ..protocol.messages import (
    Failure,
    Id,
    Notification,
    Request,
    Response,
    Result,
    encode,
    encode_progress,
    encode_result,
    failure,
    is_id,
    size_of,
    wire_failure,
)
from ..types.meta import trace_context
from .cancel import CancelToken
from .limits import Limits
from .pool import Job, Pool, this_thread, waiting
from .rates import NotificationRate, Rate
from .timer import Deadline, Timeout

if TYPE_CHECKING:
    from .calls import Calls, PendingCall
    from .shares import CountedClient, Place

log = logger("minimcp.requests")

# How long a question to a client waits for `notifications/initialized`.
INITIALIZED_SECONDS = 5.0

# Estimated memory of a queued request without its params.
REQUEST_BYTES = 2048

# While the queued requests have fewer bytes than this, or than this fraction of
# ``Limits.backlog_bytes``, each counts with the length of its message. Above that, its memory is
# measured, which takes as long as decoding it. It is at most 64 times the length of the message.
UNMEASURED_BYTES = 64 * 1024
UNMEASURED_FRACTION = 1 / 64

# The notification that carries a log message.
LOG_MESSAGE = "notifications/message"

# A line, or a function that returns a line and is called just before the line is written.
Line = Union[bytes, Callable[[], Optional[bytes]]]

# Handles a request. Returns the result as an object or as JSON text.
Handler = Callable[["IncomingRequest"], Union[Result, str]]

# The headers of requests that did not arrive over HTTP.
NO_HEADERS: Mapping[str, str] = {}

# Callback invoked when a request finishes. It receives the request, the `IncomingRequest` that ran
# it (None if it was rejected), and the encoded response, the exception that rejected it, or None if
# it was cancelled.
OnFinished = Callable[[Request, Optional["IncomingRequest"], Union[bytes, Exception, None]], None]

# Returned by a handler that does not respond itself. Another thread calls `Sink.respond` later.
DEFERRED: Any = object()


class Route(NamedTuple):
    """How to run the requests of one method or of one tool."""

    # Handles the request.
    handle: Handler

    # Whether the thread that received the request runs the handler, which must not block. Pings and
    # lists are immediate.
    immediate: bool = False

    # Starts the request on a thread of its own choice; None runs it in the pool. It is called by
    # the thread that received the request, so it must not block. If it raises an RpcError, that
    # error is the response.
    start: Optional[Callable[[IncomingRequest], None]] = None

    # Returns the route to use instead of this one. It is called before the request is run. None
    # means that every request uses this route.
    gate: Optional[Callable[[IncomingRequest], Route]] = None


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
# Answered or cancelled while it was queued. The thread that takes it from the queue skips it.
ENDED = "ended"
# Answered or cancelled, but its handler is still running or a thread is sending its response.
FINISHING = "finishing"
# Removed from the table.
DONE = "done"

# The request is added to the table.
ADD = "add"
# Its handler begins.
BEGIN = "begin"
# It is answered or cancelled. Only one thread succeeds in this.
END = "end"
# The thread that ran it has left its handler and has sent the response, if there is one.
LEAVE = "leave"

# The next state, by state and event. An event that is missing has no effect.
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


class RunningRequests:
    """A table of the peer's requests that are not answered or whose handlers are still running.

    A request is in the table from `add` until its state is `DONE` (or `ENDED`, if it was queued).
    Only `advance` changes the state of a request in the table.

    Args:
        limits: The limits of the connection or session.
        cap: The free slots of ``Limits.requests``: a list with one item per slot. A running request
            removes an item and puts it back later. All connections of a server share one list. None
            makes a list for this table. (A `Semaphore` would double the cost of a request here.)
        until_answered: Whether the bytes of a request count towards ``Limits.backlog_bytes`` until
            its handler has returned, as in a client. If False, they count until the handler begins.
        on_finished: Called by the thread that ends a request; or None.

    Attributes:
        lock: Protects the table, the states and `IncomingRequest.latest`. It is held only for a few
            statements.
        max_bytes: Maximum size of a response, in bytes.

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
        self._counted = HELD_BYTES if until_answered else QUEUED_BYTES
        self._on_finished = on_finished
        self.max_bytes = float("inf") if limits.message_bytes is None else limits.message_bytes
        self._max_queued = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self._unmeasured = max(UNMEASURED_BYTES, self._max_queued * UNMEASURED_FRACTION)
        if cap is None and limits.requests is not None:
            self._cap = [None] * limits.requests
        # Counts a request towards the share of its client (`CountedClient.admit`). None counts
        # nothing.
        self.admit: Optional[Callable[[], Place]] = None
        self._table: dict[object, IncomingRequest] = {}
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Drop all requests, because the parent process answers them."""
        for request in self._table.values():
            request.state = DONE
        # The key of a request is its id or the `key` of `add`. While a request is `FINISHING`, the
        # key is the request itself, because the peer may use the id again.
        self._table = {}
        # The bytes that count towards `Limits.backlog_bytes`.
        self._bytes = 0
        self._abandoned = False
        self._refusal: Optional[str] = None
        self.lock = threading.RLock()
        # Notified when the table becomes empty.
        self._changed = threading.Condition(self.lock)

    def add(self, request: IncomingRequest, key: object = None) -> None:
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
        if self.admit is not None and not request.route.immediate:
            request.place = self.admit()
        if self._on_finished is not None:
            request.arrived = time.monotonic()
        if self._bytes + request.size > self._unmeasured:
            request.size = REQUEST_BYTES + size_of(request.request.params, self._max_queued)
        try:
            with self.lock:
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

    def advance(self, request: IncomingRequest, event: str, line: Optional[bytes] = None) -> bool:
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
            state = request.state
            next_state = TRANSITIONS[state].get(event)
            if next_state is None:
                return False
            # 1. Take or return one of the slots of `Limits.requests`.
            if self._cap is not None and (state in OCCUPYING) != (next_state in OCCUPYING):
                if state in OCCUPYING:
                    self._cap.append(None)
                else:
                    try:
                        self._cap.pop()
                    except IndexError:
                        limit = self._limits.requests
                        raise InternalError(f"{limit} requests are already running") from None
            # 2. Return the bytes of `Limits.backlog_bytes`.
            if state in self._counted and next_state not in self._counted:
                self._bytes -= request.size
            # 3. Change the state.
            request.state = next_state
            # 4. Free the id as soon as no response is due. Remove the request when it is done.
            if state in DUE and next_state not in DUE:
                del self._table[request.key]
                if next_state == FINISHING:
                    request.key = request
                    self._table[request] = request
            elif next_state == DONE:
                self._table.pop(request.key, None)
                request.key = None  # if the key is the request, this ends a reference cycle
            if not self._table:
                self._changed.notify_all()
        if event == END and self._on_finished is not None:
            # Rule 5: without the lock, because this is user code.
            request.run_in_context(self._on_finished, request.request, request, line)
        return True

    def end(self, request: IncomingRequest) -> bool:
        """End a request without a response. Return False if it has ended already."""
        return self.advance(request, END)

    def refused(self, request: Request, error: Exception) -> None:
        """Report a request that was rejected before `add`."""
        if self._on_finished is not None:
            self._on_finished(request, None, error)

    def too_long(self, request: IncomingRequest, size: int) -> bytes:
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
                InternalError(f"the answer is longer than {limit}: ask for less"),
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
            # Now, because the handler may run for a long time before it responds.
            request.batch.add(request.request.id, b"")
        request.token.cancel(reason)
        return True

    def refuse(self, reason: str) -> None:
        """Reject every request from now on, with this message."""
        self._refusal = reason

    def _due(self) -> list[IncomingRequest]:
        return [request for request in list(self._table.values()) if request.is_due]

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
        """Wait until the table is empty or `abandon` is called. Return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._abandoned or not self._table, deadline.to_wait()
            )

    @property
    def running(self) -> int:
        """Number of requests whose handlers are running or are in the queue of an executor."""
        return sum(request.state in OCCUPYING for request in list(self._table.values()))

    def are_idle(self) -> bool:
        """Return whether the table has no requests except streams of change notifications."""
        return not self.running and all(each.request.method in STREAMS for each in self._due())

    def __len__(self) -> int:
        return len(self._due())


class Sink:
    """Receives everything that belongs to an incoming request: its response and its notifications.

    Over stdio, the sink is the connection. Over HTTP, each response is a sink.

    Attributes:
        requests: The requests whose responses go to this sink.
        pool: Runs the requests.
        context: Each request runs in a copy of this `contextvars` context. No code runs in the
            context itself.
    """

    requests: RunningRequests
    pool: Pool
    context = Context()

    # The name of the session for log records. It is not secret. Empty without a session.
    session_name = ""

    # Identifies the connection or session of the requests; None if requests are stateless.
    origin: object = None

    # Whether no more responses can be sent. If True, a new request is cancelled at once.
    answered = False

    def send(self, line: bytes) -> object:
        """Send a notification or a question.

        Raises:
            ConnectionLost: The peer closed the connection or stopped reading.

        Blocks while the send queue is full.
        """
        raise NotImplementedError

    def post(self, line: Line) -> None:
        """Enqueue a line for another thread. Never blocks, never raises."""
        raise NotImplementedError

    def deliver(self, line: bytes, wait: bool) -> None:
        """Send a response, or enqueue it if ``wait`` is False. Never raises."""
        raise NotImplementedError

    def respond(self, request: IncomingRequest, line: bytes, wait: bool = True) -> bool:
        """Send the response to a request, unless it was answered or cancelled. Never raises.

        Args:
            request: The request.
            line: The response.
            wait: Whether this thread may wait for the peer. If False, this never blocks.

        Returns:
            False if the request has already been answered or cancelled.
        """
        if request.notification_rate is not None:
            request.notification_rate.end(
                request.request, cancelled=request.token.cancelled, wait=wait
            )
        size = len(line) - 1
        if request.batch is None and size > self.requests.max_bytes:
            line = self.requests.too_long(request, size)
        is_first = self.requests.advance(request, END, line)
        if request.batch is not None:
            request.batch.add(request.request.id, line if is_first else b"", wait, request)
        elif is_first:
            self.deliver(line, wait)
        return is_first

    def asking(self) -> Calls:
        """Return the `Calls` that send questions to the peer.

        Raises:
            CapabilityNotSupported: This sink cannot send requests.
        """
        raise CapabilityNotSupported("this connection cannot send questions to the client")

    def spawn(self, job: Job) -> None:
        """Run a job on a thread of its own."""
        self.pool.spawn(job)

    def close_for_polling(self, seconds: float) -> bool:
        """Close the HTTP response, and ask the client to reconnect after `seconds`.

        Return False if the transport or the client does not support that.
        """
        return False

    def closing_message(self, id: Id) -> Optional[bytes]:
        """Return the message that ends a stream, given the id of its request.

        None means that the end of the HTTP response ends the stream.
        """
        return None


class ResponseBatch(Protocol):
    """The responses to the requests of one array; see `Batch`."""

    def add(
        self,
        id: Optional[Id],
        line: bytes,
        wait: bool = False,
        request: Optional[IncomingRequest] = None,
    ) -> None:
        """Add the response to one request. Send all responses when the last one is added."""


class IncomingRequest:
    """A request of the peer. It runs the handler and turns exceptions into error responses.

    Args:
        request: The decoded request.
        peer: The client or server that sent it.
        route: How to run it.
        sink: Receives its response and its notifications.
        size: Length of its message, in bytes.
        server: The server whose features handle it; None in a client.
        headers: The HTTP headers that it arrived with.
        batch: The responses of the array that contains it; None if it is not in an array.

    Attributes:
        token: Cancels the handler.
        state: One of the states at the top of this module. `RunningRequests.advance` changes it.
        timeout: The timeout of the handler; None if it has none.
        asker: Sends the handler's questions to the client; None before the first question.
        interrupted: Whether a KeyboardInterrupt ended the handler.
        latest: The request that the handler will answer: this one, or a later request that
            `continue_with` has set. None after the handler has returned.
        context: The context of the handler, a copy of the sink's context; None before it runs.
        notification_rate: Limits the handler's progress and log notifications; None means no limit.
        retry_after: How long the client should wait before it sends the request again, in seconds.
            None if the request was not rejected for its rate or its share.
        place: The unit of the client's share that the request occupies until it has finished; None
            over stdio.
        arrived: The value of `time.monotonic` when the request arrived. It is set only if the
            server has an `on_finished` callback.
    """

    key: object = None
    state = NEW
    interrupted = False
    context: Optional[Context] = None
    timeout: Optional[Timeout] = None
    asker: Any = None
    retry_after: Optional[float] = None
    place: Optional[Place] = None
    arrived = 0.0
    _trace_context: Optional[dict[str, str]] = None
    _last_progress = float("-inf")
    notification_rate: Optional[NotificationRate] = None

    def __init__(
        self,
        request: Request,
        peer: Peer,
        route: Route,
        sink: Sink,
        size: int = 0,
        server: Any = None,
        headers: Mapping[str, str] = NO_HEADERS,
        batch: Optional[ResponseBatch] = None,
    ) -> None:
        self.token = CancelToken()
        self._questions: list[tuple[Calls, PendingCall]] = []
        self.request = request
        self.peer = peer
        self.route = route
        self.sink = sink
        self.size = size
        self.server = server
        self.headers = headers
        self.batch = batch
        self.latest: Optional[IncomingRequest] = self
        meta = request.params.get("_meta")
        token = meta.get("progressToken") if type(meta) is dict else None
        self.progress_token: Optional[Id] = None
        if type(token) is int or type(token) is str:
            self.progress_token = token
            self._progress_lock = threading.RLock()
        per_second = None if server is None else server.limits.notification_rate
        if per_second is not None:
            lock = threading.RLock() if self.progress_token is None else self._progress_lock
            self.notification_rate = NotificationRate(Rate(per_second), lock)

    @property
    def is_due(self) -> bool:
        """Whether the request was neither answered nor cancelled."""
        return self.state in DUE

    @property
    def principal(self) -> Optional[str]:
        """The authenticated principal; None without authentication."""
        named: Optional[str] = getattr(self.headers, "principal", None)
        return self.peer.principal if named is None else named

    def trace_context(self) -> dict[str, str]:
        """Return the trace context for calls that the handler makes. The handler may change it."""
        if self._trace_context is None:
            self._trace_context = trace_context(self.request.params.get("_meta"))
        return self._trace_context

    def continue_with(self, other: IncomingRequest) -> None:
        """Let the handler of this request answer another request. This request has already ended.

        From now on, the handler sees the params, the peer and the headers of the other request.
        Cancelling that request cancels the handler. If the handler has returned, the other request
        gets an error response.
        """
        with self.sink.requests.lock:
            returned = self.latest is None
            if not returned:
                self.latest = other
        if returned:
            other.answer(InternalError("the handler has returned"))
            return
        self.request = other.request
        self.peer = other.peer
        self.headers = other.headers
        self.sink = other.sink
        self._trace_context = None
        other.context = self.context
        other.token.on_cancel(lambda: self.token.cancel(other.token.reason))

    def admit(
        self, kind: str, most: Optional[int], close_idle: Optional[Callable[[], bool]] = None
    ) -> Optional[Place]:
        """Count one unit of a resource in the client's share; see `CountedClient.admit`.

        Return None over stdio, where nothing is counted.

        Raises:
            ShareExceeded: The client uses its whole share. The HTTP response has status 429.
        """
        client: Optional[CountedClient] = getattr(self.headers, "counted", None)
        if client is None:
            return None
        try:
            return client.admit(kind, most, close_idle)
        except InternalError as error:  # a ShareExceeded
            self.retry_after = getattr(error, "retry_after", None)
            raise

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Run the handler and send its response. Never raises."""
        requests = self.sink.requests
        outer = getattr(this_thread, "request", None)
        result: Any = None
        try:
            if not self.route.immediate:
                requests.advance(self, BEGIN)
            if self.token.cancelled or self.state in (ENDED, DONE):
                raise Cancelled("cancelled before it began")
            this_thread.request = self
            self.context = self.sink.context.copy()
            result = self.context.run(self.route.handle, self)
        except BaseException as error:
            self.interrupted = self.interrupted or isinstance(error, KeyboardInterrupt)
            result = error
        this_thread.request = outer
        if result is not DEFERRED:
            # The same as `take_latest`, without the cost of a function call.
            with requests.lock:
                latest = self.latest
                self.latest = None
            if self.place is not None:
                # Before the response, because the client may send its next request at once.
                self.place.leave()
            if latest is None or not latest.answer(result, not self.route.immediate):
                # The request was ended elsewhere. Stop threads that the handler has started.
                self.token.cancel("the handler has returned")
        requests.advance(self, LEAVE)

    def take_latest(self) -> Optional[IncomingRequest]:
        """Return the request that the handler must answer, and set `latest` to None.

        Return None if another thread has taken it. From now on, the handler cannot send anything.
        """
        with self.sink.requests.lock:
            latest = self.latest
            self.latest = None
        return latest

    def answer(self, result: Any, wait: bool = True) -> bool:
        """Send the response to this request. Never raises.

        Args:
            result: A result object, the JSON text of one, or an exception.
            wait: Whether this thread may wait for the peer.

        Returns:
            False if the request has already been answered or cancelled.
        """
        try:
            if isinstance(result, BaseException):
                raise result
            id = self.request.id
            if type(result) is str:
                line = encode_result(id, result)
            else:
                line = encode(Response(id, result))
        except BaseException as error:
            line = self._failed(error)
        return self.sink.respond(self, line, wait)

    def start(self) -> None:
        """Call the `start` function of the route.

        If it raises an RpcError, respond with that error.
        """
        assert self.route.start is not None
        try:
            self.route.start(self)
        except RpcError as error:
            self.refuse(error)

    def run_in_context(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a copy of the handler's context.

        A copy is necessary because the handler may be running, and a context cannot be entered
        twice. If the handler has not run, the sink's context is copied.
        """
        context = self.sink.context if self.context is None else self.context
        return context.copy().run(function, *arguments)

    def refuse(self, error: BaseException) -> None:
        """Respond with an error instead of running the handler. Never blocks, never raises."""
        self.take_latest()
        self.sink.respond(self, self._failed(error), False)
        self.sink.requests.advance(self, LEAVE)

    def _failed(self, error: BaseException) -> bytes:
        found = wire_failure(self.request.id, error, self.peer.revision, self.request.method)
        try:
            return encode(found)
        except Exception as reason:  # the data of the error cannot be encoded
            log.error("the error data of %s cannot be encoded: %s", self.request.method, reason)
            return encode(Failure(found.id, found.code, found.message))

    # ------------------------------------------------------------ notifications and questions

    def send(self, method: str, params: Result) -> None:
        """Send a notification that belongs to this request.

        The notification is dropped if `latest` has ended. Log messages are also dropped above
        ``Limits.notification_rate``.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The peer closed the connection or stopped reading.
        """
        self.check()
        latest = self.latest
        if latest is not None and latest.is_due and latest._may_send(method):
            latest.sink.send(encode(Notification(method, params)))

    def _may_send(self, method: str) -> bool:
        rate = self.notification_rate
        return rate is None or method != LOG_MESSAGE or rate.may_log()

    def progress(self, done: float, total: Optional[float], message: Optional[str]) -> None:
        """Send progress if the caller asked for it. Drop a report whose value does not increase.

        Raises:
            TypeError, ValueError: ``done`` or ``total`` is not a finite number, or ``message`` is
                not a str.
            Cancelled, ConnectionLost: See `send`.
        """
        self.check()
        latest = self.latest
        if latest is None or not latest.is_due or latest.progress_token is None:
            return
        line = encode_progress(
            latest.progress_token,
            done,
            total,
            message if self.peer.revision.progress_message else None,
        )
        # The lock only orders the reports of the handler's threads.
        with latest._progress_lock:
            if done <= latest._last_progress:
                log.debug("progress %r of %s does not increase: dropped", done, self.request.method)
                return
            latest._last_progress = done
            rate = latest.notification_rate
            if rate is None or rate.may_report(partial(latest._report_later, line)):
                latest.sink.send(line)

    def _report_later(self, line: bytes) -> None:
        if not self.token.cancelled:
            self.sink.post(line)

    def ask(
        self, questions: Sequence[tuple[str, Result]], seconds: Optional[float]
    ) -> Union[list[Result], Failure]:
        """Send questions to the peer and wait for all answers.

        The handler's own timeout is paused while it waits. If one question fails, the others are
        cancelled.

        Args:
            questions: The method and the params of each question.
            seconds: How long to wait for all answers together; None means no limit.

        Returns:
            The results in the order of the questions, or the first error of the peer.

        Raises:
            RuntimeError: The handler has returned.
            CapabilityNotSupported: The transport cannot send requests for this request.
            Cancelled: The request was cancelled. The questions are cancelled, too.
            RequestTimeout: The answers did not arrive in time.
            ConnectionLost: The peer closed the connection or stopped reading.
            ProtocolViolation: An answer was invalid.
        """
        if self.latest is None:
            raise RuntimeError(
                f"{self.request.method} has already been answered, so its handler cannot ask the "
                "client"
            )
        calls = self.sink.asking()
        pending: list[PendingCall] = []

        def withdraw() -> None:
            for call in pending:
                calls.end(call, Cancelled(self.token.reason or "the request was cancelled"))

        forget = self.token.on_cancel(withdraw)
        if self.timeout is not None:
            self.timeout.pause()
        try:
            self.wait_until_initialized()
            self.check()
            requests = [(method, lambda id, params=params: params) for method, params in questions]
            pending = calls.start_all(requests)
            self._questions += [(calls, call) for call in pending]
            self.sink.asking()  # raises if `end_questions` was called before `_questions` was set
            deadline = Deadline(seconds)
            results = []
            if self.token.cancelled:  # it may have been cancelled since `check`
                withdraw()
            for call in pending:
                outcome = calls.wait(call, deadline, group=pending)
                if isinstance(outcome, Failure):
                    # The peer may have sent the cancellation before this error.
                    self.check()
                    return outcome
                results.append(outcome)
            return results
        finally:
            forget()
            withdraw()  # if a question failed, others may be pending
            self._questions = [each for each in self._questions if each[1] not in pending]
            if self.timeout is not None:
                self.timeout.resume()

    def end_questions(self, error: Exception) -> None:
        """End the pending questions with an error. Never blocks."""
        for calls, call in list(self._questions):
            calls.end(call, error, notify=False)

    def wait_until_initialized(self) -> None:
        """Wait until the peer has sent `notifications/initialized` or the request is cancelled.

        Some clients never send it. After `INITIALIZED_SECONDS`, this logs a warning and does not
        wait for the same peer again.

        https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle
        """
        peer = self.peer
        if peer.initialized:
            return
        forget = self.token.on_cancel(_wake_uninitialized)
        try:
            with waiting(), _initialized:
                _initialized.wait_for(
                    lambda: peer.initialized or self.token.cancelled, INITIALIZED_SECONDS
                )
                is_late = not (peer.initialized or self.token.cancelled)
                if is_late:
                    set_initialized(peer)
        finally:
            forget()
        if is_late:
            log.warning(
                "%s asks a question, but the client did not send notifications/initialized "
                "within %g s",
                self.request.method,
                INITIALIZED_SECONDS,
            )

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`. The thread does not occupy a worker slot while it waits.

        Raises:
            Cancelled: The request was cancelled.
        """
        woken = threading.Event()
        deadline = Deadline(seconds)
        forget = self.token.on_cancel(woken.set)
        with waiting():
            while not woken.is_set() and not deadline.expired:
                woken.wait(deadline.to_wait())
        forget()
        self.check()

    # ------------------------------------------------------------ cancelling

    def check(self) -> None:
        """Raise Cancelled if the request was cancelled or has timed out."""
        if self.token.cancelled:
            raise Cancelled(self.token.reason or "the request was cancelled")

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` on a thread of its own when the request is cancelled.

        If the request was cancelled already, run it now. The callbacks of `token`, on the other
        hand, run on the thread that cancels, which may be the reader thread.

        Returns:
            A function that removes the callback.
        """
        return self.token.on_cancel(lambda: self.sink.spawn(partial(self.run_in_context, callback)))

    def expire(self, result: Any, reason: str) -> None:
        """Send this response because the handler timed out, and cancel the handler.

        Do nothing if the request has already been answered or cancelled.
        """
        latest = self.latest
        if latest is not None and latest.answer(result, False):
            self.token.cancel(reason)

    def __repr__(self) -> str:
        return f"<IncomingRequest {self.request.method} {self.request.id!r} {self.state}>"


# Notified when a peer is initialized, and when a request that waits for this is cancelled.
_initialized = threading.Condition()


def set_initialized(peer: Peer) -> None:
    """Record that a peer has sent `notifications/initialized`, and wake the waiting handlers."""
    with _initialized:
        peer.initialized = True
        _initialized.notify_all()


def _wake_uninitialized() -> None:
    with _initialized:
        _initialized.notify_all()


def current_request() -> Optional[IncomingRequest]:
    """Return the request whose handler runs on this thread, or None."""
    return getattr(this_thread, "request", None)


def current_trace_context() -> dict[str, str]:
    """Return the trace context for calls that this thread makes.

    It belongs to the request whose handler runs on this thread, or on whose behalf this thread
    runs.
    """
    incoming = current_request()
    if incoming is None:
        return getattr(this_thread, "trace_context", {})
    return incoming.trace_context()
