"""`IncomingRequest`: a request of the peer, from its arrival to its response. `Sink`: where the
response goes.

`running.py` has the states of a request, and the table of all of them.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import threading
from contextvars import Context
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Mapping,
    Optional,
    Protocol,
    Union,
)

from ..errors import Cancelled, CapabilityNotSupported, InternalError, RpcError
from ..log import logger
from ..protocol.lifecycle import Peer
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
    wire_failure,
)
from .cancel import CancelToken
from .pool import Job, Pool, this_thread, waiting
from .running import BEGIN, DONE, DUE, END, ENDED, LEAVE, NEW, RunningRequests
from .timer import Deadline, Timeout

if TYPE_CHECKING:
    from .calls import Calls, PendingCall
    from .rates import NotificationRate
    from .shares import CountedClient, Place

log = logger("minimcp.requests")

# The notification that carries a log message.
LOG_MESSAGE = "notifications/message"

# A line, or a function that returns a line and is called just before the line is written.
Line = Union[bytes, Callable[[], Optional[bytes]]]

# Handles a request. Returns the result as an object or as JSON text.
Handler = Callable[["IncomingRequest"], Union[Result, str, bytes]]

# The headers of requests that did not arrive over HTTP.
NO_HEADERS: Mapping[str, str] = {}

# Returned by a handler that does not respond itself. Another thread calls `Sink.respond` later.
DEFERRED: Any = object()


class Route:
    """How to run the requests of one method or of one tool. Immutable once it is in use.

    Args:
        handle: Handles the request.
        immediate: Whether the thread that received the request runs the handler, which must not
            block. Pings and lists are immediate.
        enqueue: Starts the request on a thread of its own choice; if None, the request runs in the
            pool. It is called by the thread that received the request, so it must not block. If it
            raises an RpcError, that error is the response.
        gate: Returns the route to use instead of this one. It is called before the request is run.
            None means that every request uses this route.
    """

    # Not a `NamedTuple`, whose attributes take several times as long to read.
    __slots__ = ("enqueue", "gate", "handle", "immediate")

    def __init__(
        self,
        handle: Handler,
        immediate: bool = False,
        enqueue: Optional[Callable[[IncomingRequest], None]] = None,
        gate: Optional[Callable[[IncomingRequest], Route]] = None,
    ) -> None:
        self.handle = handle
        self.immediate = immediate
        self.enqueue = enqueue
        self.gate = gate


class Sink:
    """Receives everything that belongs to an incoming request: its response and its notifications.

    Over stdio, the sink is the connection. Over HTTP, each response is a sink.

    A response takes three steps. `IncomingRequest.answer` encodes a result or an exception,
    `respond` ends the request, and `deliver` sends the line if no other thread has ended the
    request. Other lines take one step: `send` waits until there is room for them, `post` does not.

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

    # Whether no more responses can be sent, because the last one was sent or the peer has left. If
    # True, a new request is cancelled at once. A connection is never closed in this sense.
    is_closed = False

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
        if not self.requests.advance(request, END, line):
            return False
        if request.batch is None:
            self.deliver(line, wait)
        else:
            request.batch.add(request.request.id, line, wait, request)
        return True

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
        state: One of the states at the top of `running.py`. `RunningRequests.advance` changes it.
        key: The key of the request in the table; see `RunningRequests.add`.
        timeout: The timeout of the handler; None if it has none.
        asker: Sends the handler's questions to the client; None before the first question.
        questions: The pending questions of the handler, which `asking.ask_peer` has sent.
        interrupted: Whether a KeyboardInterrupt ended the handler.
        answering: The request that the handler answers and to which its notifications belong: this
            one, or a later one that `continue_with` has set (only in 2026-07-28 over stdio and in
            memory, and in `minimcp bridge`). None after the handler has returned. It changes only
            while the lock of the table is held.
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
        self.questions: list[tuple[Calls, PendingCall]] = []
        self.request = request
        self.peer = peer
        self.route = route
        self.sink = sink
        self.size = size
        self.server = server
        self.headers = headers
        self.batch = batch
        self.answering: Optional[IncomingRequest] = self
        meta = request.params.get("_meta")
        self.progress_token: Optional[Id] = None
        if type(meta) is dict:
            token = meta.get("progressToken")
            if type(token) is int or type(token) is str:
                self.progress_token = token
                self._progress_lock = threading.RLock()
        per_second = None if server is None else server.limits.notification_rate
        if per_second is not None:
            from .rates import NotificationRate, Rate  # loaded late: few servers have this limit

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
            from ..types.meta import trace_context

            self._trace_context = trace_context(self.request.params.get("_meta"))
        return self._trace_context

    def continue_with(self, other: IncomingRequest) -> None:
        """Let the handler of this request answer another request. This request has already ended.

        This is how a handler waits for an answer that arrives in a request:

        1. The handler of the first request asks. The first request is answered with the question.
        2. The second request brings the answer. `continue_with` sets `answering` to it.
        3. The handler returns. `run` of the first request answers the second request.

        From step 2 on, the handler sees the params, the peer and the headers of the other request.
        Cancelling that request cancels the handler. If the handler has returned, the other request
        gets an error response.
        """
        with self.sink.requests.lock:
            returned = self.answering is None
            if not returned:
                self.answering = other
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

    def reserve(
        self, kind: str, most: Optional[int], close_idle: Optional[Callable[[], bool]] = None
    ) -> Optional[Place]:
        """Count one unit of a resource in the client's share; see `CountedClient.reserve`.

        Return None over stdio, where nothing is counted.

        Raises:
            ShareExceeded: The client uses its whole share. The HTTP response has status 429.
        """
        client: Optional[CountedClient] = getattr(self.headers, "counted", None)
        if client is None:
            return None
        try:
            return client.reserve(kind, most, close_idle)
        except InternalError as error:  # a ShareExceeded
            self.retry_after = getattr(error, "retry_after", None)
            raise

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Run the handler and send its response. Never raises."""
        requests = self.sink.requests
        outer = this_thread.request
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
            with requests.lock:  # as in `take_answering`, but every request takes this path
                answering = self.answering
                self.answering = None
            if self.place is not None:
                # Before the response, because the client may send its next request at once.
                self.place.leave()
            if answering is None or not answering.answer(result, not self.route.immediate):
                # The request was ended elsewhere. Stop threads that the handler has started.
                self.token.cancel("the handler has returned")
        requests.advance(self, LEAVE)

    def take_answering(self) -> Optional[IncomingRequest]:
        """Return the request that the handler must answer, and set `answering` to None.

        Return None if another thread has taken it. From now on, the handler cannot send anything.
        """
        with self.sink.requests.lock:
            answering = self.answering
            self.answering = None
        return answering

    def answer(self, result: Any, wait: bool = True) -> bool:
        """Send the response to this request. Never raises.

        Args:
            result: A result object, the JSON text of one, or an exception.
            wait: Whether this thread may wait for the peer.

        Returns:
            False if the request has already been answered or cancelled.
        """
        try:
            id = self.request.id
            if type(result) is str or type(result) is bytes:
                line = encode_result(id, result)
            elif isinstance(result, BaseException):
                raise result
            else:
                line = encode(Response(id, result))
        except BaseException as error:
            line = self._failed(error)
        return self.sink.respond(self, line, wait)

    def enqueue(self) -> None:
        """Call the `enqueue` function of the route.

        If it raises an RpcError, respond with that error.
        """
        assert self.route.enqueue is not None
        try:
            self.route.enqueue(self)
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
        self.take_answering()
        self.sink.respond(self, self._failed(error), False)
        self.sink.requests.advance(self, LEAVE)

    def _failed(self, error: BaseException) -> bytes:
        found = wire_failure(self.request.id, error, self.peer.revision, self.request.method)
        try:
            return encode(found)
        except Exception as reason:  # the data of the error cannot be encoded
            log.error("the error data of %s cannot be encoded: %s", self.request.method, reason)
            return encode(Failure(found.id, found.code, found.message))

    # ------------------------------------------------------------ notifications

    def send(self, method: str, params: Result) -> None:
        """Send a notification that belongs to this request.

        The notification is dropped if the request in `answering` has ended. Log messages are also
        dropped above ``Limits.notification_rate``.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The peer closed the connection or stopped reading.
        """
        self.check()
        answering = self.answering
        if answering is not None and answering.is_due and answering._may_send(method):
            answering.sink.send(encode(Notification(method, params)))

    def _may_send(self, method: str) -> bool:
        rate = self.notification_rate
        return rate is None or method != LOG_MESSAGE or rate.may_log()

    def progress(
        self,
        done: float,
        total: Optional[float],
        message: Optional[str],
        *,
        is_beat: bool = False,
    ) -> None:
        """Send progress if the caller asked for it. Drop a report whose value does not increase.

        Args:
            done: The amount done so far.
            total: The total amount; None if it is not known.
            message: Text for people to read, or None.
            is_beat: Whether a heartbeat sends it. Then the next report need not exceed it.

        Raises:
            TypeError, ValueError: ``done`` or ``total`` is not a finite number, or ``message`` is
                not a str.
            Cancelled, ConnectionLost: See `send`.
        """
        self.check()
        answering = self.answering
        if answering is None or not answering.is_due or answering.progress_token is None:
            return
        line = encode_progress(
            answering.progress_token,
            done,
            total,
            message if self.peer.revision.progress_message else None,
        )
        # The lock only orders the reports of the handler's threads.
        with answering._progress_lock:
            if done <= answering._last_progress and not is_beat:
                log.debug("progress %r of %s does not increase: dropped", done, self.request.method)
                return
            if not is_beat:
                answering._last_progress = done
            rate = answering.notification_rate
            if rate is None or rate.may_report(partial(answering._report_later, line)):
                answering.sink.send(line)

    def _report_later(self, line: bytes) -> None:
        if not self.token.cancelled:
            self.sink.post(line)

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
        answering = self.answering
        if answering is not None and answering.answer(result, False):
            self.token.cancel(reason)

    def __repr__(self) -> str:
        return f"<IncomingRequest {self.request.method} {self.request.id!r} {self.state}>"


# Notified when a peer is initialized, and when a request that waits for this is cancelled.
initialized_changed = threading.Condition()


def set_initialized(peer: Peer) -> None:
    """Record that a peer has sent `notifications/initialized`, and wake the waiting handlers."""
    with initialized_changed:
        peer.initialized = True
        initialized_changed.notify_all()


def current_request() -> Optional[IncomingRequest]:
    """Return the request whose handler runs on this thread, or None."""
    request: Optional[IncomingRequest] = this_thread.request
    return request


def current_trace_context() -> dict[str, str]:
    """Return the trace context for calls that this thread makes.

    This is the context of the request whose handler runs on this thread, or for whose handler this
    thread works.
    """
    incoming: Optional[IncomingRequest] = this_thread.request
    if incoming is None:
        return this_thread.trace_context
    return incoming.trace_context()
