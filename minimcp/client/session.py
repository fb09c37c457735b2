"""`ClientSession`: one connection of a client to its server, in both directions.

A `Client` sends requests and notifications and opens streams of changes through a session. It does
not know about lines, processes or POSTs. This class uses a `Connection`, which carries lines
(stdio, memory). The subclass for HTTP sends POSTs.
"""

from __future__ import annotations

import threading
from copy import copy
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from .. import types
from ..engine.calls import Calls, PendingCall
from ..engine.cancel import CancelToken
from ..engine.connection import Connection, ConnectionRole
from ..engine.incoming import IncomingRequest, Route, current_trace_context
from ..engine.limits import Limits
from ..engine.pool import waiting
from ..engine.timer import NEVER, Deadline
from ..engine.transport import Transport
from ..errors import (
    Busy,
    Cancelled,
    CapabilityNotSupported,
    ConnectionLost,
    HandlerFailed,
    InternalError,
    MethodNotFound,
    ProtocolViolation,
    ToolError,
    error_from_peer,
)
from ..log import logger
from ..protocol.lifecycle import INPUT_REQUIRED, SUBSCRIPTION_KEY, Peer
from ..protocol.messages import (
    Failure,
    Id,
    Json,
    Notification,
    Request,
    encode,
    exception_of,
    size_of,
)
from ..protocol.versions import CHANGES, NEWEST_HANDSHAKE
from ..schema.mismatch import explained, refuse_async
from ..text import one_line
from ..types import CallToolResult, Text
from .host import QUESTIONS, Era, Host
from .outputs import OutputSchemas

log = logger("minimcp.client")

# Maximum memory of a notification of a change, in bytes. Larger ones are dropped.
MAX_CHANGE_BYTES = 8 * 1024

# The member of a question's `_meta` that names the task of the server that asks.
RELATED_TASK = "io.modelcontextprotocol/related-task"

# How often a request is retried because the server was busy, and the minimum pause before that.
# The call's deadline limits all retries together.
MAX_BUSY_TRIES = 10
MIN_BUSY_SECONDS = 0.01

Params = Mapping[str, Json]
Result = dict[str, Json]
Outcome = Union[Result, Exception]
Cancel = Optional[CancelToken]
OnProgress = Callable[["types.Progress"], Any]
OnMessage = Callable[[Notification], None]


class ClientSession(ConnectionRole):
    """One connection of a client, which also handles the server's messages. Thread-safe.

    Args:
        name: The name in messages: the command, the URL or "memory".
        host: Answers questions and receives notifications.

    Attributes:
        calls: The client's pending requests.
        era: The negotiated revision and its parameters; None before the negotiation.
        schemas: The output schemas of listed tools.
        subscriptions: The object that `subscriptions.of` returned for this session; None before the
            first call.
        streams: The receiver of notifications of each open stream, by the id of its request.
        listeners: Functions that the reader thread calls with each notification. They must not
            block.
        ended: A token that is cancelled when the connection has ended and its cause is known.
        header_params: An object with ``usable_tools(tools, deadline)``, which notes the arguments
            of listed tools that are also sent in headers, and returns the tools that can be called.
            None for transports without headers.
        transport: The transport of lines, or None over HTTP.
        in_order: Whether messages of several streams arrive in the order in which they were sent.
    """

    _connection: Connection
    calls: Calls
    # Other methods use it only after `agree`, so its type does not include None.
    era: Era = None  # type: ignore[assignment]
    subscriptions: Any = None
    header_params: Any = None
    transport: Any = None
    in_order = True
    takes_batches = True

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.schemas = OutputSchemas()
        self.streams: dict[Id, OnMessage] = {}
        self.listeners: dict[object, OnMessage] = {}
        self.ended = CancelToken()
        self._ping = Route(lambda incoming: {}, immediate=True)

    @classmethod
    def over(
        cls,
        transport: Transport,
        host: Host,
        limits: Limits,
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> ClientSession:
        """Open a session over a transport of lines.

        Args:
            transport: The transport; the session closes it.
            host: Answers questions and receives notifications.
            limits: The limits of the connection.
            trace: The result of `tracer`; None means no trace.
        """
        session = cls(transport.name, host)
        session.transport = transport
        session._connection = Connection(
            transport,
            session,
            limits=limits,
            pool=host.pool,
            trace=trace,
            context=host.context,
        )
        session.calls = session._connection.calls
        session._connection.open()
        return session

    # ------------------------------------------------------------ beginning and end

    def agree(self, era: Era) -> None:
        """Set the negotiated era.

        Call this before the server is notified of the result, because it may then send requests.
        """
        self.era = era
        self.takes_batches = era.revision.batches
        self.takes_requests = era.revision.handshake

    def ready(self, deadline: Deadline) -> None:
        """Wait until everything sent so far has arrived, and messages from the server can be
        received.

        Raises:
            RequestTimeout: The deadline passed.
        """

    @property
    def cause(self) -> Optional[BaseException]:
        """The exception that ended the connection; None while it is open."""
        return self.calls.cause

    def check(self) -> None:
        """Raise ConnectionLost if the connection has ended, or if this is a forked process."""
        if self.cause is not None:
            raise copy(self.cause)

    def ping(self) -> Optional[tuple[str, Callable[[Id], Result]]]:
        """Return the method and params of a ping, for `ConnectionRole.ping`."""
        if self.era is None:
            return None
        method = "ping" if self.era.revision.handshake else "server/discover"
        return method, partial(self.add_envelope, {})

    def keep_alive(self, interval: Optional[float]) -> None:
        """Ping the server while the connection is idle.

        Args:
            interval: Seconds between two pings; None means no pings.
        """
        self._connection.keep_alive(interval)

    def identity(self) -> str:
        """Return a fingerprint of the access token of the next request, or "" if there is none.

        Cached results are used for one identity only.

        Raises:
            AuthorizationError: The function that returns the token failed.
        """
        return ""

    def need(self, capability: str) -> None:
        """Raise CapabilityNotSupported if the server does not declare this capability."""
        if not self.era.peer.supports(capability):
            self.check()
            kind = "the capability"
            if capability.startswith("ext:"):
                kind = "the extension"
                capability = capability[len("ext:") :]
            message = f"{self.name}: the server does not declare {kind} {capability}"
            raise CapabilityNotSupported(message)

    def stop(self, cause: Exception) -> None:
        """End every pending request with this exception and refuse new ones. `close` follows. Never
        blocks."""
        self.calls.close(cause)

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        """Block until the connection has ended, for at most this many seconds (None: no limit).

        Returns:
            Whether it has ended.
        """
        return self._connection.wait_until_ended(seconds)

    def close(self) -> None:
        """End the connection. Idempotent and thread-safe.

        Blocks until a server process has exited, for at most about 4 s.
        """
        self._connection.close()

    def abandon(self) -> None:
        """End the connection without waiting. For finalizers."""
        self._connection.abandon()

    # ------------------------------------------------------------ messages

    def request(
        self,
        method: str,
        params: Params,
        deadline: Deadline,
        cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result:
        """Send one request and return its result. It is not retried, and no question is answered.

        Args:
            method: The method of the request.
            params: The params without the request metadata of the era, which is added after
                `agree`.
            deadline: When to give up. It is paused while the host answers a question of this
                request.
            cancel: A token that another thread can cancel, or None.
            on_progress: Function that the waiting thread calls with each `Progress`, in order. None
                does not request progress.

        Raises:
            RpcError: The server returned an error.
            RequestTimeout, Cancelled: As named; the server was notified.
            ConnectionLost: The connection has ended. `SessionGone` and `Busy` mean that the server
                did not run the request.
            ProtocolViolation: The response is invalid.
            TypeError, ValueError: An argument is invalid.

        Blocks until the response arrives.
        """
        if cancel is not None:
            check_token(cancel)
        if deadline.on_progress is not None:
            deadline.progressed()
            on_progress = on_progress or deadline.on_progress
        on_item = None if on_progress is None else progress_reader(on_progress)
        make_params = partial(self.add_envelope, params, on_progress=on_progress)
        try:
            call = self.calls.send(method, make_params, on_item, deadline=deadline)
        except (TypeError, ValueError) as error:
            raise explained(method, params, error) from None
        return self._wait(call, params, deadline, cancel)

    def _wait(
        self, call: PendingCall, params: Params, deadline: Deadline, cancel: Cancel
    ) -> Result:
        """Wait for the response to a request that was sent."""
        forget: Callable[[], object] = int
        if cancel is not None:
            forget = cancel.on_cancel(
                lambda: self.calls.end(call, Cancelled(cancel.reason or "cancelled"))
            )
        try:
            answer = self.calls.wait(call, deadline, about=params.get("name", params.get("uri")))
        finally:
            forget()
            if call.ended is not None:
                call.ended.cancel()
        # The response may have arrived after the token was cancelled.
        if cancel is not None and cancel.cancelled:
            raise Cancelled(cancel.reason or "cancelled")
        return self.result_of(call.method, answer)

    def request_all(
        self, method: str, params: Sequence[Params], deadline: Deadline, cancel: Cancel = None
    ) -> list[Outcome]:
        """Send several requests at once. Return their results, or the exceptions that `request`
        would raise, in the same order.

        Arguments are those of `request`, for all requests together.

        Raises:
            Cancelled: The token was cancelled before anything was sent.
            ConnectionLost: Not all requests could be sent.
            TypeError, ValueError: Some params cannot be encoded as JSON; nothing was sent.
        """
        check_token(cancel)
        outcomes: list[Outcome] = []
        try:
            reports = deadline.on_progress
            requests = [
                (method, partial(self.add_envelope, one, on_progress=reports)) for one in params
            ]
            calls = self.calls.send_all(requests, deadline=deadline)
        except (TypeError, ValueError) as error:
            problems = (explained(method, one, error) for one in params)
            raise next((problem for problem in problems if problem is not error), error) from None

        def give_up(reason: str) -> None:
            # The last one first: requests that are still queued are then never sent.
            for call in reversed(calls):
                self.calls.end(call, Cancelled(reason))

        forget: Callable[[], object] = int
        if cancel is not None:
            forget = cancel.on_cancel(lambda: give_up(cancel.reason or "cancelled"))
        try:
            for call, one in zip(calls, params):
                try:
                    outcomes.append(self._wait(call, one, deadline, cancel))
                except Exception as error:
                    outcomes.append(error)
        except BaseException:  # such as KeyboardInterrupt
            give_up("the caller gave up")
            raise
        finally:
            forget()
        return outcomes

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        """Send a notification.

        Blocks until it is sent or the deadline passes. Raises ConnectionLost if the connection has
        ended.
        """
        self._connection.send(encode(Notification(method, dict(params))), deadline)

    def open_stream(
        self,
        method: str,
        params: Params,
        on_message: OnMessage,
        on_finished: Callable[[Outcome], None],
    ) -> Callable[[], None]:
        """Send a request that stays open, such as `subscriptions/listen`.

        Args:
            method: As for `request`.
            params: As for `request`.
            on_message: Function that a reader thread calls with each notification that names this
                request, in order. It must not block.
            on_finished: Function that is called once, on any thread, with the result or with the
                exception that `request` would raise.

        Returns:
            A function that cancels the request and notifies the server. `on_finished` then receives
            `Cancelled`. Idempotent.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError, TypeError: The params cannot be encoded as JSON.
            RuntimeError: The system cannot start a thread. As with the other exceptions, nothing
                stays open.
        """
        ids: list[Id] = []

        def make_params(id: Id) -> Result:
            ids.append(id)
            self.streams[id] = on_message
            return self.add_envelope(params, id)

        def forget() -> None:
            for id in ids:
                self.streams.pop(id, None)

        try:
            call = self.calls.send(method, make_params)
            call.stays_open = True
        except BaseException:
            forget()
            raise

        def wait() -> None:
            ending: Outcome
            try:
                ending = self.result_of(method, self.calls.wait(call, NEVER))
            except Exception as error:
                ending = error
            forget()
            on_finished(ending)

        def end() -> None:
            forget()
            self.calls.end(call, Cancelled("the stream was closed"))

        try:
            threading.Thread(target=wait, name=f"minimcp-{self.name}-stream", daemon=True).start()
        except BaseException:  # the thread could not be started, or KeyboardInterrupt
            end()
            raise
        return end

    # ------------------------------------------------------------ the server's messages

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        if not self.takes_requests:
            log.warning(
                "<-- %s ignored: the server must not send requests in this revision",
                request.method,
            )
            return None
        peer = Peer(NEWEST_HANDSHAKE) if self.era is None else self.era.peer
        if request.method == "ping":
            return peer, self._ping
        tasks = self.host.asked_tasks
        if tasks is not None and self.era is not None:
            route: Optional[Route] = tasks.route(request.method, peer)
            if route is not None:
                return peer, route
        if self.era is None or request.method not in QUESTIONS:
            raise MethodNotFound(f"Method not found: {one_line(request.method)}")
        serve = self._serve if tasks is None else self._serve_or_begin
        silent = peer.revision.requests_to_server - peer.revision.asking_methods
        # Here, because the server may respond to the call before another thread runs `_serve`.
        calls = [call for call in self.calls.pending() if call.method not in silent]
        return peer, Route(partial(serve, calls))

    def _serve_or_begin(self, calls: Sequence[PendingCall], request: IncomingRequest) -> Result:
        """Answer a question, or begin a task that answers it."""
        tasks = self.host.asked_tasks
        if not tasks.takes(request):
            return self._serve(calls, request)
        begun: Result = tasks.begin(self, request, Route(partial(self._serve, calls)))
        return begun

    def _serve(self, calls: Sequence[PendingCall], request: IncomingRequest) -> Result:
        """Answer a question, and pause the deadline of its call until then.

        If the call is unknown, as over stdio, the deadlines of all calls are paused. When the call
        has ended, or if it is unknown the last of `calls`, the answer is no longer needed. The
        question of a task outlives its call.

        Args:
            calls: The pending calls that may have asked it.
            request: The question.
        """
        known = getattr(request.sink, "asked_by", None)
        resume = self.calls.pause_all(*(known or ()))
        request.on_cancel(resume)
        meta = request.request.params.get("_meta")
        forget: Callable[[], object] = int
        if not (isinstance(meta, dict) and RELATED_TASK in meta):
            from .questions import cancel_with

            forget = cancel_with(calls if known is None else known, request.token)
        try:
            return self.host.serve(request)
        except InternalError as error:
            # If the call is known, it fails in the same way as in stateless revisions.
            asking = getattr(request.sink, "asked_by", ()) or self.calls.pending()
            if len(asking) == 1 and isinstance(error.__cause__, HandlerFailed):
                self.calls.end(asking[0], error.__cause__)
            raise
        finally:
            forget()
            resume()

    def notified(self, notification: Notification) -> None:
        params = notification.params
        kind = CHANGES.get(notification.method)
        if kind is not None:
            uri = params.get("uri")
            is_long = size_of(params, MAX_CHANGE_BYTES) > MAX_CHANGE_BYTES
            self.host.changed(kind, uri if isinstance(uri, str) and not is_long else None)
            if is_long:
                log.warning(
                    "<-- %s dropped: it uses more than %d bytes",
                    notification.method,
                    MAX_CHANGE_BYTES,
                )
                return
        for listener in list(self.listeners.values()):
            listener(notification)
        meta = params.get("_meta")
        id = meta.get(SUBSCRIPTION_KEY) if type(meta) is dict else None
        if id is None:
            self.host.queue_callback(notification)
            return
        stream = self.streams.get(id) if type(id) is int or type(id) is str else None
        if stream is None:
            log.debug("<-- %s dropped: the stream %s is not open", notification.method, id)
        else:
            stream(notification)

    def connection_lost(self, cause: ConnectionLost) -> None:
        self.ended.cancel()
        if self.host.asked_tasks is not None and self.era is not None:
            self.host.asked_tasks.peer_lost(self.era.peer)

    # ------------------------------------------------------------ shared by all transports

    def wait_while_busy(self, busy: Busy, deadline: Deadline, cancel: Cancel = None) -> bool:
        """Wait for as long as a busy server requests. Return False if the deadline is earlier.

        Raises what `wait_until` raises.
        """
        left = deadline.remaining()
        if left is not None and busy.seconds >= left:
            return False
        self.sleep(Deadline(max(busy.seconds, MIN_BUSY_SECONDS)), cancel)
        return True

    def sleep(self, deadline: Deadline, cancel: Cancel = None) -> None:
        """Wait until a deadline. Raises what `wait_until` raises."""
        wait_until(lambda: False, threading.Condition(), deadline, cancel, self)

    def add_envelope(
        self, params: Params, id: Id, on_progress: Optional[OnProgress] = None
    ) -> dict[str, Json]:
        """Return the params as they are sent, with the request metadata."""
        era = self.era
        trace = current_trace_context()
        if era is None or not (era.envelope or on_progress or trace):
            return dict(params)
        token = {} if on_progress is None else {"progressToken": id}
        return {**params, "_meta": {**trace, **params.get("_meta", {}), **token, **era.envelope}}

    def result_of(self, method: str, answer: Union[Result, Failure]) -> Result:
        """Return the result of a request, or raise its error, as `request` does."""
        era = self.era
        if isinstance(answer, Failure):
            if era is None:
                raise error_from_peer(answer.code, answer.message, answer.data)
            error = exception_of(answer, method, era.revision)
            if isinstance(error, ToolError):  # older servers report a failed tool by an error code
                error.result = CallToolResult([Text(answer.message)], is_error=True)
            raise error
        kind = answer.get("resultType")
        kind = "complete" if kind is None else kind  # null counts as absent
        if kind == "complete" or era is None or era.revision.handshake:
            return answer
        if isinstance(kind, str) and method in self.host.result_types.get(kind, ((),))[0]:
            return answer
        if kind != INPUT_REQUIRED or method not in era.revision.asking_methods:
            raise ProtocolViolation(
                f"the resultType of {method} must be complete, not {one_line(kind)}", answer
            )
        return answer

    def __repr__(self) -> str:
        state = "open" if self.cause is None else "closed"
        return f"<{type(self).__name__} {self.name!r} {state}, {len(self.calls)} outgoing>"


def wait_until(
    done: Callable[[], bool],
    changed: threading.Condition,
    deadline: Deadline,
    cancel: Cancel = None,
    session: Optional[ClientSession] = None,
) -> bool:
    """Block until a condition holds. Return False if the deadline passed first.

    Args:
        done: Returns whether the condition holds; called with the lock held.
        changed: Notified when the condition may have changed.
        deadline: When to give up.
        cancel: A token that ends the wait, or None.
        session: A session whose end ends the wait, or None.

    Raises:
        Cancelled: The token was cancelled.
        ConnectionLost: The connection ended before the condition held.
    """

    def wake() -> None:
        with changed:
            changed.notify_all()

    tokens = (cancel, None if session is None else session.ended)
    forget = [token.on_cancel(wake) for token in tokens if token is not None]
    try:
        with waiting(), changed:
            while not done():
                if cancel is not None and cancel.cancelled:
                    raise Cancelled(cancel.reason or "cancelled")
                if session is not None:
                    session.check()
                changed.wait(deadline.to_wait())
                if deadline.expired:
                    return done()
        return True
    finally:
        for each in forget:
            each()


def check_token(cancel: Cancel) -> None:
    """Check a ``cancel=`` argument before a call.

    Raises:
        TypeError: It is not a token.
        Cancelled: It was already cancelled.
    """
    if not isinstance(cancel, (CancelToken, type(None))):
        raise TypeError(
            f"cancel must be a CancelToken or None, not {repr_of(cancel)}: make a CancelToken() "
            "and call its cancel()"
        )
    if cancel is not None and cancel.cancelled:
        raise Cancelled(cancel.reason or "the token was cancelled before the call")


def deadline_of(name: str, seconds: Optional[float]) -> Deadline:
    """Return the deadline for a ``timeout=`` argument.

    Args:
        name: The argument's name, for messages.
        seconds: Its value; None means no limit.

    Raises:
        TypeError: It is not a number.
        ValueError: It is negative.
    """
    try:
        if seconds is not None and not seconds >= 0:
            raise ValueError(
                f"{name} must be at least 0 seconds, not {seconds}; None means no limit"
            )
        return Deadline(seconds)
    except TypeError:
        raise TypeError(
            f"{name} must be a number of seconds or None, not {repr_of(seconds)}"
        ) from None


def require_type(value: Any, kind: Union[type, tuple[type, ...]], rule: str) -> Any:
    """Return an argument if it is of this type. Otherwise raise TypeError; its message begins with
    `rule`, such as "name must be a str"."""
    if not isinstance(value, kind):
        raise TypeError(f"{rule}, not {repr_of(value)}")
    return value


def repr_of(value: object) -> str:
    """Return a description of a wrong argument for a message: "the str 'x'"."""
    return f"the {type(value).__name__} {repr(value):.60}"


def progress_reader(on_progress: OnProgress) -> Callable[[Any], None]:
    """Return a function that takes the params of progress notifications and calls the user's
    function.

    Raises:
        TypeError: The user's function is not callable, or is async.
    """
    if not callable(on_progress):
        raise TypeError(
            "on_progress must be a function that takes a Progress, or None, not "
            f"{repr_of(on_progress)}"
        )
    refuse_async(on_progress, "on_progress")

    def take(params: Any) -> None:
        try:
            item = types.Progress.from_wire(params)
        except ValueError as error:
            log.debug("<-- invalid progress notification: %s", error)
            return
        on_progress(item)

    return take
