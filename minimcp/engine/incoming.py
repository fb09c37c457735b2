"""`IncomingRequest`: one request of the peer, from its arrival to its one response.

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
from ..protocol.lifecycle import LISTEN, Peer
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
    from .shares import Name, Place

log = logger("minimcp.requests")

# How long a question to a client waits for `notifications/initialized`.
INITIALIZED_SECONDS = 5.0

# Bytes of memory of a request that waits, besides its params.
REQUEST_BYTES = 2048

# Bytes of messages that may wait, or so much of ``Limits.backlog_bytes``, before the memory is
# counted that each takes: that is no more than 64 times its bytes, and to count it takes as long as
# to decode it.
UNCOUNTED_BYTES, UNCOUNTED_PART = 64 * 1024, 1 / 64

# The notification that carries a log message.
LOG_MESSAGE = "notifications/message"

# A line to be written; or a function that makes it, called when it is about to be written.
Line = Union[bytes, Callable[[], Optional[bytes]]]

# What serves a method: from the request to the result, as an object or as JSON text that was made
# before.
Handler = Callable[["IncomingRequest"], Union[Result, str]]

# Of requests that came by other ways than HTTP.
NO_HEADERS: Mapping[str, str] = {}

# Told of each request that ends: the request as it came, what runs it (None where it was refused),
# and the line of its answer, the exception that refuses it, or None where it was cancelled.
OnFinished = Callable[[Request, Optional["IncomingRequest"], Union[bytes, Exception, None]], None]

# Returned by a handler whose answer comes later: somebody calls `Sink.respond` then.
DEFERRED: Any = object()


class Route(NamedTuple):
    """Where the requests of one method, or of one tool, go."""

    # Serves them.
    handle: Handler

    # Whether the thread that takes messages in serves them (pings, lists): ``handle`` must not
    # block then.
    immediate: bool = False

    # Takes the request and has it run elsewhere; None runs it in the pool. Called by the thread
    # that takes messages in, so it must not block. An RpcError that it raises is the answer.
    start: Optional[Callable[[IncomingRequest], None]] = None

    # Called before a request begins; returns the route that it takes instead of this one. None:
    # every request takes this one.
    gate: Optional[Callable[[IncomingRequest], Route]] = None


# ------------------------------------------------------------ the states of a request

# Made, and not yet in the table.
NEW = "new"
# Waits for a thread, or is being answered by the reader.
QUEUED = "queued"
# Its handler is running, or waits in the queue of an executor. It occupies one of
# `Limits.requests`.
RUNNING = "running"
# No thread serves it: a stream of notifications, or a request that is answered later.
OPEN = "open"
# Answered or cancelled in the queue. The thread that takes it out does not run it.
ENDED = "ended"
# Answered or cancelled. Its handler is still running, or a thread is sending its response.
FINISHING = "finishing"
DONE = "done"

# What happens to a request: it enters the table; its handler begins; it is answered or cancelled,
# which only one thread can do; the thread that served it turns to something else.
ADD, BEGIN, END, LEAVE = "add", "begin", "end", "leave"

# By state and event, the next state. An event that is missing has no effect.
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
# States in which the bytes of a request count towards `Limits.backlog_bytes`. A server counts those
# of queued requests. A client counts those of running requests, too, because a host may take long.
QUEUED_BYTES = frozenset({QUEUED, ENDED})
HELD_BYTES = QUEUED_BYTES | OCCUPYING


class RunningRequests:
    """The peer's requests that are not answered yet, or whose handlers are still running (rule 3).

    Each has one entry, from `add` until it is `DONE` (or `ENDED` in a queue). `advance` is the one
    place that changes the state of a request.

    Args:
        limits: The limits of the connection or session.
        cap: The free places of ``Limits.requests``: a list with one item for each, which a request
            takes out while it is running. All connections of a server share one list; None makes
            one for these requests only. (A `Semaphore` would cost as much as everything else here.)
        until_answered: Whether the bytes of a request count towards ``Limits.backlog_bytes`` until
            its handler has returned, as in a client. False: until the handler begins.
        on_finished: Called when a request has ended, by the thread that ends it; or None.

    Attributes:
        lock: Guards the table, the states and `IncomingRequest.latest`. Held for a few statements.
        most_bytes: Maximum size of a response, in bytes.

    Thread-safe, also in signal handlers.
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
        self.most_bytes = float("inf") if limits.message_bytes is None else limits.message_bytes
        self._backlog = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self._uncounted = max(UNCOUNTED_BYTES, self._backlog * UNCOUNTED_PART)
        if cap is None and limits.requests is not None:
            self._cap = [None] * limits.requests
        # Counts a request among those of its client, as `Shares.admit`; None does not.
        self.admit: Optional[Callable[[], Place]] = None
        self._table: dict[object, IncomingRequest] = {}
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Forget all requests: the parent process answers them."""
        for request in self._table.values():
            request.state = DONE
        # By its id or another key of `add`; by itself if it is `FINISHING`, because its id is free.
        self._table = {}
        self._bytes = 0
        self._abandoned = False
        self._refusal: Optional[str] = None
        self.lock = threading.RLock()
        # Notified when the table becomes empty.
        self._changed = threading.Condition(self.lock)

    def add(self, request: IncomingRequest, key: object = None) -> None:
        """Enter a request.

        Args:
            request: The request.
            key: Identifies the request in `cancel`; None means its id.

        Raises:
            InvalidRequest: A request with this key has no response yet.
            InternalError: Too many bytes of requests are queued, too many requests of its client
                are running, or `refuse` was called.
        """
        request.key = request.request.id if key is None else key
        request.size += REQUEST_BYTES
        if self.admit is not None and not request.route.immediate:
            request.place = self.admit()
        if self._on_finished is not None:
            request.arrived = time.monotonic()
        if self._bytes + request.size > self._uncounted:
            request.size = REQUEST_BYTES + size_of(request.request.params, self._backlog)
        try:
            with self.lock:
                if request.key in self._table:
                    raise InvalidRequest(f"the id {request.request.id!r} is in use")
                if self._refusal is not None:
                    raise InternalError(self._refusal)
                if self._bytes and self._bytes + request.size > self._backlog:
                    raise InternalError("too many requests wait already")
                self._bytes += request.size
                self._table[request.key] = request
                request.state = TRANSITIONS[request.state][ADD]
        except RpcError:
            if request.place is not None:
                request.place.leave()
            raise

    def advance(self, request: IncomingRequest, event: str, line: Optional[bytes] = None) -> bool:
        """Move a request to its next state.

        Several threads may try to `END` one request: its handler, its timeout, a cancellation, the
        loss of the peer. The first of them gets True and may send a response. The others get False
        and send nothing.

        Args:
            request: The request.
            event: One of the events at the top of this module.
            line: The response, if the event is `END`; None if the request is cancelled.

        Returns:
            False if the event has no effect.

        Raises:
            InternalError: The event is `BEGIN`, and ``Limits.requests`` requests are running.
        """
        if event == LEAVE and request.place is not None:
            request.place.leave()
        with self.lock:
            state = request.state
            following = TRANSITIONS[state].get(event)
            if following is None:
                return False
            if self._cap is not None and (state in OCCUPYING) != (following in OCCUPYING):
                if state in OCCUPYING:
                    self._cap.append(None)
                else:
                    try:
                        self._cap.pop()
                    except IndexError:
                        most = self._limits.requests
                        raise InternalError(f"more than {most} requests run already") from None
            if state in self._counted and following not in self._counted:
                self._bytes -= request.size
            request.state = following
            if state in DUE and following not in DUE:
                del self._table[request.key]
                if following == FINISHING:
                    request.key = request
                    self._table[request] = request
            elif following == DONE:
                self._table.pop(request.key, None)
                request.key = None  # which may be the request itself, a reference cycle
            if not self._table:
                self._changed.notify_all()
        if event == END and self._on_finished is not None:
            # Rule 5: without the lock, because this calls a function of the user.
            request.run_in_context(self._on_finished, request.request, request, line)
        return True

    def end(self, request: IncomingRequest) -> bool:
        """End a request without a response. Return False if it was answered or cancelled before."""
        return self.advance(request, END)

    def refused(self, request: Request, error: Exception) -> None:
        """Report a request that was rejected before it was added."""
        if self._on_finished is not None:
            self._on_finished(request, None, error)

    def too_long(self, request: IncomingRequest, size: int) -> bytes:
        """Return the error that replaces a response of so many bytes."""
        log.warning(
            "the answer to %s has %d bytes: an error is sent in its place",
            request.request.method,
            size,
        )
        limit = f"{self.most_bytes} bytes, the Limits.message_bytes of its sender"
        return encode(
            failure(
                request.request.id,
                InternalError(f"the answer is longer than {limit}: ask for less"),
            )
        )

    def cancel(self, params: Result) -> bool:
        """Handle `notifications/cancelled`. Return False if it names no request that is due."""
        key = params.get("requestId")
        given = params.get("reason")
        reason = given if isinstance(given, str) else None
        request = self._table.get(key) if is_id(key) else None
        if request is None or request.request.method == "initialize" or not self.end(request):
            log.debug("cancelled: %s is unknown or finished", key)
            return False
        log.info("<-- cancelled %s %s: %s", request.request.method, key, reason)
        if request.batch is not None:
            # Before the handler, which may wait for the peer, adds its response.
            request.batch.add(request.request.id, b"")
        request.token.cancel(reason)
        return True

    def refuse(self, reason: str) -> None:
        """Reject every request from now on, with this message."""
        self._refusal = reason

    def _due(self) -> list[IncomingRequest]:
        return [request for request in list(self._table.values()) if request.is_due]

    def interrupt(self, reason: str) -> None:
        """Cancel every handler. A handler that returns a result nevertheless is answered."""
        for request in self._due():
            request.token.cancel(reason)

    def abandon(self, reason: str) -> None:
        """Cancel every request: no response can reach the peer."""
        for request in self._due():
            if self.end(request):
                request.token.cancel(reason)
        with self._changed:
            self._abandoned = True
            self._changed.notify_all()

    def wait_until_empty(self, deadline: Deadline) -> bool:
        """Wait until no request is left, or `abandon` was called; False if the deadline passed."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._abandoned or not self._table, deadline.to_wait()
            )

    @property
    def running(self) -> int:
        """Number of requests whose handlers are running, or wait in the queue of an executor."""
        return sum(request.state in OCCUPYING for request in list(self._table.values()))

    def are_idle(self) -> bool:
        """Return whether there is no request but streams of change notifications."""
        return not self.running and all(each.request.method == LISTEN for each in self._due())

    def __len__(self) -> int:
        return len(self._due())


class Sink:
    """Where everything goes that belongs to an incoming request: over stdio the connection, over
    HTTP its response.

    Attributes:
        requests: Those that go here and are not answered yet.
        pool: What runs them.
        context: Each request runs in a copy of this context (`contextvars`). Nothing runs in it.
    """

    requests: RunningRequests
    pool: Pool
    context = Context()

    # Of the session, for logs: no secret. Empty where requests stand alone.
    session_name = ""

    # Identifies the connection or session that requests come from; None where each stands alone.
    origin: object = None

    # Whether no response can be sent any more: a request that arrives now is cancelled.
    answered = False

    def send(self, line: bytes) -> object:
        """Send a notification or a question. Raises ConnectionLost. Blocks: while more waits for
        the peer than may."""
        raise NotImplementedError

    def post(self, line: Line) -> None:
        """Have a line written by another thread, after those that wait there. Never blocks, never
        raises."""
        raise NotImplementedError

    def deliver(self, line: bytes, wait: bool) -> None:
        """Write an answer, or have it written (``wait`` is False: never blocks). Never raises."""
        raise NotImplementedError

    def respond(self, request: IncomingRequest, line: bytes, wait: bool = True) -> bool:
        """Give the one answer of a request; False when another was given, or it was cancelled.
        Never raises.

        Args:
            request: The request.
            line: The answer.
            wait: Whether this thread may wait for the peer.
        """
        if request.notification_rate is not None:
            request.notification_rate.end(
                request.request, cancelled=request.token.cancelled, wait=wait
            )
        size = len(line) - 1
        if request.batch is None and size > self.requests.most_bytes:
            line = self.requests.too_long(request, size)
        is_first = self.requests.advance(request, END, line)
        if request.batch is not None:
            request.batch.add(request.request.id, line if is_first else b"", wait, request)
        elif is_first:
            self.deliver(line, wait)
        return is_first

    def asking(self) -> Calls:
        """The calls by which the peer can be asked for a request.

        Raises:
            CapabilityNotSupported: Nothing can be asked on the way that this request came.
        """
        raise CapabilityNotSupported("the client cannot be asked on this connection")

    def spawn(self, job: Job) -> None:
        """Run something on a thread that nothing waits for."""
        self.pool.spawn(job)

    def close_for_polling(self, seconds: float) -> bool:
        """Close the response, for which the client comes back after so many seconds; False where it
        cannot do that."""
        return False

    def closing_message(self, id: Id) -> Optional[bytes]:
        """What follows the answer of a request that stayed open; None where the end of the response
        says it."""
        return None


class ResponseBatch(Protocol):
    """The responses to the requests of one array (`Batch`)."""

    def add(
        self,
        id: Optional[Id],
        line: bytes,
        wait: bool = False,
        request: Optional[IncomingRequest] = None,
    ) -> None:
        """Add the response to one request; send all of them with the last one."""


class IncomingRequest:
    """One request of the peer, and the border where exceptions become errors on the wire.

    Args:
        request: As it came.
        peer: Who sends it.
        route: Who serves it.
        sink: Where everything goes that belongs to it.
        size: Bytes of its message.
        server: Of the features that serve it.
        headers: Of the HTTP request that it came by.
        batch: Of the array that it came in; None where it stands alone.

    Attributes:
        token: Cancels the handler.
        state: One of the states at the top of this module; `RunningRequests.advance` changes it.
        timeout: The handler's time, if that is limited.
        asker: Answers what the handler asks the client, from the first question on.
        interrupted: Whether a KeyboardInterrupt ended its handler.
        latest: The request that the handler answers: this one, or a later one that `continue_with`
            has put in its place. It is not due while the handler waits for a later one. None if the
            handler has returned.
        context: What the handler runs in, a copy of the sink's context; None before it runs.
        notification_rate: Limits the handler's progress and log notifications; None does not.
        retry_after: Seconds after which the client may send it again, if it was rejected because
            the client exceeded its rate; None otherwise.
        place: Counts it among the requests of its client, until it has finished; None over stdio.
        arrived: When it came, as `time.monotonic` tells it, where somebody is told of requests that
            end.
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
        self.progress_token: Optional[Id] = (
            token if type(token) is int or type(token) is str else None
        )
        if self.progress_token is not None:
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
        """Who was authenticated; None where nobody is."""
        named: Optional[str] = getattr(self.headers, "principal", None)
        return self.peer.principal if named is None else named

    def trace_context(self) -> dict[str, str]:
        """Return the trace context of calls that the handler makes. The handler may change it."""
        if self._trace_context is None:
            self._trace_context = trace_context(self.request.params.get("_meta"))
        return self._trace_context

    def continue_with(self, other: IncomingRequest) -> None:
        """Have the handler of this request, which is answered, answer another one.

        What the peer said in the other request counts from now on, and its cancellation cancels
        the handler. If the handler has returned, the other request is answered with an error.
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
        """Count one unit of a resource among those of the client; arguments as `Shares.admit`.

        Over stdio nothing is counted, and None is returned.

        Raises:
            ShareExceeded: The client has too many. The response has status 429.
        """
        names = self.client_names()
        if names is None:
            return None
        try:
            place: Place = self.server.shares.admit(kind, most, names, close_idle)
            return place
        except InternalError as error:  # a ShareExceeded
            self.retry_after = getattr(error, "retry_after", None)
            raise

    def client_names(self) -> Optional[tuple[Name, ...]]:
        """Return the names by which a client is counted, as `Shares.names_of`; None over stdio."""
        names: Optional[tuple[Name, ...]] = getattr(self.headers, "names", None)
        session = self.sink.origin
        if names is not None and isinstance(session, str):
            names = (*names, *self.server.shares.names_of(None, session, None))
        return names

    # ------------------------------------------------------------ running

    def run(self) -> None:
        """Run the handler and send its response. Never raises."""
        requests, outer = self.sink.requests, getattr(this_thread, "request", None)
        result: Any = None
        try:
            if not self.route.immediate:
                requests.advance(self, BEGIN)
            if self.token.cancelled or self.state in (ENDED, DONE):
                raise Cancelled("cancelled before it began")
            this_thread.request = self
            context = self.context = self.sink.context.copy()
            result = context.run(self.route.handle, self)
        except BaseException as error:
            self.interrupted = self.interrupted or isinstance(error, KeyboardInterrupt)
            result = error
        this_thread.request = outer
        if result is not DEFERRED:
            with requests.lock:  # as `take_latest`
                latest = self.latest
                self.latest = None
            if self.place is not None:
                # Before the response, which may bring the client's next request.
                self.place.leave()
            if latest is None or not latest.answer(result, not self.route.immediate):
                # Stop threads that the handler has started and left behind.
                self.token.cancel("the handler has returned")
        requests.advance(self, LEAVE)

    def take_latest(self) -> Optional[IncomingRequest]:
        """Return the request that the handler, which has returned, is to answer; None if another
        thread has taken it. The handler cannot ask or send anything from now on."""
        with self.sink.requests.lock:
            latest = self.latest
            self.latest = None
        return latest

    def answer(self, result: Any, wait: bool = True) -> bool:
        """Answer this request, whoever runs its handler. Never raises.

        Args:
            result: An object, JSON text that is one, or an exception.
            wait: Whether this thread may wait for the peer.

        Returns:
            False if the request was answered or cancelled before.
        """
        try:
            if isinstance(result, BaseException):
                raise result
            id = self.request.id
            line = (
                encode_result(id, result) if type(result) is str else encode(Response(id, result))
            )
        except BaseException as error:
            line = self._failed(error)
        return self.sink.respond(self, line, wait)

    def start(self) -> None:
        """Hand the request to the `start` function of its route. An RpcError is the answer."""
        assert self.route.start is not None
        try:
            self.route.start(self)
        except RpcError as error:
            self.refuse(error)

    def run_in_context(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a copy of the handler's context, or of the sink's if the handler has
        not run.

        It is a copy because the handler may still run, and one context is never entered twice.
        """
        context = self.sink.context if self.context is None else self.context
        return context.copy().run(function, *arguments)

    def refuse(self, error: BaseException) -> None:
        """Answer with an error and do not run. Never blocks, never raises."""
        self.take_latest()
        self.sink.respond(self, self._failed(error), False)
        self.sink.requests.advance(self, LEAVE)

    def _failed(self, error: BaseException) -> bytes:
        found = wire_failure(self.request.id, error, self.peer.revision, self.request.method)
        try:
            return encode(found)
        except Exception as unfit:  # the error's data is no JSON
            log.error("the data of an error of %s is no JSON: %s", self.request.method, unfit)
            return encode(Failure(found.id, found.code, found.message))

    # ------------------------------------------------------------ what a handler sends and asks

    def send(self, method: str, params: Result) -> None:
        """Send a notification that belongs to this request. It is dropped while no request waits
        for the handler. So is a log message above ``Limits.notification_rate``.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The peer is gone.
        """
        self.check()
        latest = self.latest
        if latest is not None and latest.is_due and latest._may_send(method):
            latest.sink.send(encode(Notification(method, params)))

    def _may_send(self, method: str) -> bool:
        rate = self.notification_rate
        return rate is None or method != LOG_MESSAGE or rate.may_log()

    def progress(self, done: float, total: Optional[float], message: Optional[str]) -> None:
        """Report progress, if the caller asked for it; a report that does not increase is dropped.

        Raises:
            TypeError, ValueError: ``done`` or ``total`` is no finite number, or ``message`` no
                text.
            Cancelled, ConnectionLost: As `send`.
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
        # The lock orders the reports of one handler's threads, and guards nothing else.
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
        """Ask the peer: all questions are sent before the first answer is waited for.

        The handler's own timeout is paused meanwhile. When one question fails, the others are
        withdrawn.

        Args:
            questions: Method and params of each.
            seconds: How long all the answers together may take; None waits for ever.

        Returns:
            The result of each; or an error of the peer, as soon as there is one.

        Raises:
            RuntimeError: The request is answered already.
            CapabilityNotSupported: Nothing can be asked on the way that this request came.
            Cancelled: The request was cancelled; the peer is told that the questions are too.
            RequestTimeout: Not all answers came in time.
            ConnectionLost: The peer is gone.
            ProtocolViolation: An answer was no answer.
        """
        if self.latest is None:
            raise RuntimeError(
                f"{self.request.method} is answered already: nothing can be asked for it"
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
            self.sink.asking()  # raises if `end_questions` has just been called without these
            deadline, results = Deadline(seconds), []
            if self.token.cancelled:  # it may have come between the check and the sending
                withdraw()
            for call in pending:
                outcome = calls.wait(call, deadline, group=pending)
                if isinstance(outcome, Failure):
                    return outcome
                results.append(outcome)
            return results
        finally:
            forget()
            withdraw()  # what was asked together with a question that failed
            self._questions = [each for each in self._questions if each[1] not in pending]
            if self.timeout is not None:
                self.timeout.resume()

    def end_questions(self, error: Exception) -> None:
        """End the questions that wait for an answer. Never blocks, any thread."""
        for calls, call in list(self._questions):
            calls.end(call, error, tell=False)

    def wait_until_initialized(self) -> None:
        """Wait until the peer has sent `notifications/initialized`, or its request is cancelled.

        Some clients never send it. So this waits at most `INITIALIZED_SECONDS`, logs that once,
        and does not wait again for the same peer.

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
                "%s asks a client that has not sent notifications/initialized within %g s",
                self.request.method,
                INITIALIZED_SECONDS,
            )

    def sleep(self, seconds: float) -> None:
        """Wait; the thread does not count in its pool meanwhile.

        Raises:
            Cancelled: The request was cancelled before the time was over.
        """
        woken, deadline = threading.Event(), Deadline(seconds)
        forget = self.token.on_cancel(woken.set)
        with waiting():
            while not woken.is_set() and not deadline.expired:
                woken.wait(deadline.to_wait())
        forget()
        self.check()

    # ------------------------------------------------------------ cancelling

    def check(self) -> None:
        """Return if the request still runs. Raises Cancelled: it was cancelled, or its time is
        over."""
        if self.token.cancelled:
            raise Cancelled(self.token.reason or "the request was cancelled")

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Run `callback` on a thread of its own when the request is cancelled; now if it is.

        `token` calls its callbacks on the thread that cancels, which may be the reader.

        Returns:
            A function that takes this back.
        """
        return self.token.on_cancel(lambda: self.sink.spawn(partial(self.run_in_context, callback)))

    def expire(self, result: Any, reason: str) -> None:
        """The handler's time is over: give this answer, unless another was given, and cancel what
        still runs."""
        latest = self.latest
        if latest is not None and latest.answer(result, False):
            self.token.cancel(reason)

    def __repr__(self) -> str:
        return f"<IncomingRequest {self.request.method} {self.request.id!r} {self.state}>"


# Notified when a peer is `initialized`, or a request is cancelled that waits for that.
_initialized = threading.Condition()


def set_initialized(peer: Peer) -> None:
    """Note that a peer has sent `notifications/initialized`, and wake those that wait for it."""
    with _initialized:
        peer.initialized = True
        _initialized.notify_all()


def _wake_uninitialized() -> None:
    with _initialized:
        _initialized.notify_all()


def current_request() -> Optional[IncomingRequest]:
    """The request whose handler runs on this thread; None on any other thread."""
    return getattr(this_thread, "request", None)


def current_trace_context() -> dict[str, str]:
    """Return the trace context of calls that this thread makes.

    It is that of the request whose handler runs on this thread, or has had it make a call.
    """
    incoming = current_request()
    if incoming is None:
        return getattr(this_thread, "trace_context", {})
    return incoming.trace_context()
