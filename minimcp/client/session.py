"""`ClientSession`: one connection of a client to its server, both ways.

A `Client` sends requests and notifications and opens streams of changes through it and knows
nothing of lines, processes and POSTs. Here it is over a `Connection`, which carries lines (stdio,
in memory); over HTTP a subclass sends by POSTs.
"""

from __future__ import annotations

import threading
from copy import copy
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

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
from ..protocol.versions import NEWEST_HANDSHAKE
from ..schema.mismatch import explained, refuse_async
from ..text import one_line
from ..types import CHANGES, CallToolResult, Progress, Text
from .host import QUESTIONS, Era, Host
from .outputs import OutputSchemas

log = logger("minimcp.client")

# Bytes of memory of a notification that something has changed; one that takes more is not told.
CHANGE_BYTES = 8 * 1024

# How often a request is sent again because the server was busy, and the shortest pause before that
# in seconds. The call's deadline bounds all of them together.
MOST_BUSY = 10
BUSY_SECONDS = 0.01

Params = Mapping[str, Json]
Result = dict[str, Json]
Outcome = Union[Result, Exception]
Cancel = Optional[CancelToken]
OnProgress = Callable[[Progress], Any]
OnMessage = Callable[[Notification], None]


class ClientSession(ConnectionRole):
    """One connection of a client, and what it does with the messages of its server. Thread-safe.

    Args:
        name: Shown in messages: the command, the URL, "memory".
        host: Answers questions and gets notifications.

    Attributes:
        calls: Our requests on it.
        era: What is spoken; None before the two sides have agreed.
        schemas: What was learned of the server's tools.
        subscriptions: What `subscriptions.of` returned for this session; None before the first
            call.
        streams: By the id of a request that stays open: what gets the notifications that name it.
        listeners: What gets each notification, on the reading thread: be quick.
        ended: Cancelled when the connection has ended, and its cause is known.
        header_params: An object with ``usable_tools(tools, deadline)``, which notes the arguments of
            listed tools that are sent in headers too, and returns the tools that can be called.
            None over transports without headers.
        transport: What carries lines; None where nothing does.
        in_order: Whether what the server sends on several streams comes in the order in which it
            was sent.
    """

    _connection: Connection
    calls: Calls
    # Methods of the protocol are called after `agree` only.
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
        """A session over what carries lines, open at once.

        Args:
            transport: How bytes travel; it is owned from now on.
            host: Answers questions and gets notifications.
            limits: What the connection may cost.
            trace: As `tracer` makes it; None for no trace.
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

    # ------------------------------------------------------------ its beginning and end

    def agree(self, era: Era) -> None:
        """This is spoken from now on. Called before the server hears that all is well and may ask
        questions."""
        self.era = era
        self.takes_batches = era.revision.batches
        self.takes_requests = era.revision.handshake

    def ready(self, deadline: Deadline) -> None:
        """Wait until what was sent so far has arrived, and until all ways are open that messages
        come by.

        Raises:
            RequestTimeout: The deadline came first.
        """

    @property
    def cause(self) -> Optional[BaseException]:
        """Why the connection has ended; None while it lives."""
        return self.calls.cause

    def check(self) -> None:
        """Return if the connection lives. Raises ConnectionLost: it has ended, or this process is a
        fork."""
        if self.cause is not None:
            raise copy(self.cause)

    def ping(self) -> Optional[tuple[str, Callable[[Id], Result]]]:
        """As `ConnectionRole.ping`."""
        if self.era is None:
            return None
        method = "ping" if self.era.revision.handshake else "server/discover"
        return method, partial(self.add_envelope, {})

    def keep_alive(self, interval: Optional[float]) -> None:
        """Ping the server while the connection is idle.

        Args:
            interval: Seconds between two pings; None sends none.
        """
        self._connection.keep_alive(interval)

    def identity(self) -> str:
        """Return what stands for the access token that the next request is sent with; empty without
        one. Results are cached for one identity only.

        Raises:
            AuthorizationError: The function that returns the token failed.
        """
        return ""

    def need(self, capability: str) -> None:
        """Return if the server declares this. Raises CapabilityNotSupported: it does not."""
        if not self.era.peer.supports(capability):
            self.check()
            what = f"extension {capability[4:]}" if capability.startswith("ext:") else capability
            raise CapabilityNotSupported(f"{self.name}: the server declares no {what}")

    def stop(self, cause: Exception) -> None:
        """End every request with this exception and refuse new ones, before `close`. Never
        blocks."""
        self.calls.close(cause)

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        """Wait until the connection has ended. Blocks: for so many seconds at most; None for
        ever."""
        return self._connection.wait_until_ended(seconds)

    def close(self) -> None:
        """End the connection. Idempotent, from any thread. Blocks: up to 4 s, until a server
        process has ended."""
        self._connection.close()

    def abandon(self) -> None:
        """End the connection without waiting for anything: for a finalizer."""
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
        """Send one request and wait for its result. Nothing is sent again, no question is answered.

        Args:
            method: Of the request.
            params: Without the envelope of the era, which is added; before `agree` they are sent as
                they are.
            deadline: When to give up; stands while the host answers a question that belongs to this
                request.
            cancel: Ends the wait from another thread; None for a request that nobody cancels.
            on_progress: Called by the waiting thread with each `Progress`, in order; None asks for
                none.

        Raises:
            RpcError: The server answered an error.
            RequestTimeout, Cancelled: As named; the server was told.
            ConnectionLost: The connection has ended; `SessionGone` and `Busy` say that the server
                did not run it.
            ProtocolViolation: The answer was none.
            TypeError, ValueError: An argument cannot be what it is.

        Blocks: until then.
        """
        if cancel is not None:
            check_token(cancel)
        on_item = None if on_progress is None else progress_reader(on_progress)
        make_params = partial(self.add_envelope, params, on_progress=on_progress)
        try:
            call = self.calls.start(method, make_params, on_item, deadline=deadline)
        except (TypeError, ValueError) as error:
            raise explained(method, params, error) from None
        return self._wait(call, params, deadline, cancel)

    def _wait(
        self, call: PendingCall, params: Params, deadline: Deadline, cancel: Cancel
    ) -> Result:
        """Wait for the answer of a request that was sent."""
        forget: Callable[[], object] = int
        if cancel is not None:
            forget = cancel.on_cancel(
                lambda: self.calls.end(call, Cancelled(cancel.reason or "cancelled"))
            )
        try:
            answer = self.calls.wait(call, deadline, about=params.get("name", params.get("uri")))
        finally:
            forget()
        if (
            cancel is not None and cancel.cancelled
        ):  # an answer may beat a token that was cancelled before it was sent
            raise Cancelled(cancel.reason or "cancelled")
        return self.result_of(call.method, answer)

    def request_all(
        self, method: str, params: Sequence[Params], deadline: Deadline, cancel: Cancel = None
    ) -> list[Outcome]:
        """Send many requests at once; their results, or what `request` would raise, in the same
        order.

        Arguments as `request`, for all of them together.

        Raises:
            Cancelled: The token was cancelled before anything was sent.
            ConnectionLost: Not all of them could be sent.
            TypeError, ValueError: Some params are no JSON; nothing was sent.
        """
        check_token(cancel)
        outcomes: list[Outcome] = []
        try:
            requests = [(method, partial(self.add_envelope, one)) for one in params]
            calls = self.calls.start_all(requests, deadline=deadline)
        except (TypeError, ValueError) as error:
            problems = (explained(method, one, error) for one in params)
            raise next((problem for problem in problems if problem is not error), error) from None

        def give_up(reason: str) -> None:
            for call in reversed(
                calls
            ):  # the last first: what is not sent yet is not sent any more
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
        except BaseException:  # such as Ctrl-C: the server need not go on with the rest
            give_up("the caller gave up")
            raise
        finally:
            forget()
        return outcomes

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        """Send a notification. Raises ConnectionLost. Blocks: until the server has taken it, or the
        deadline."""
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
            method: As `request`.
            params: As `request`.
            on_message: Called with each notification that names this request, in order, by a
                reading thread: be quick.
            on_finished: Called once, on any thread, with the result or with what `request` would raise.

        Returns:
            A function that ends the request, telling the server; `on_finished` gets `Cancelled` then.
            Idempotent.

        Raises:
            ConnectionLost: The connection has ended.
            ValueError, TypeError: The params are no JSON.
            RuntimeError: The system gives no thread. As after the others nothing is left behind.
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
            call = self.calls.start(method, make_params)
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
        except BaseException:  # the system gives none, or Ctrl-C
            end()
            raise
        return end

    # ------------------------------------------------------------ the server's messages

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        if not self.takes_requests:
            log.warning(
                "<-- %s: the server must not send requests in this revision: ignored",
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
        return peer, Route(self._serve if tasks is None else self._serve_or_begin)

    def _serve_or_begin(self, request: IncomingRequest) -> Result:
        """Answer a question, or begin a task that will."""
        tasks = self.host.asked_tasks
        begun: Result = (
            tasks.begin(self, request, Route(self._serve))
            if tasks.takes(request)
            else self._serve(request)
        )
        return begun

    def _serve(self, request: IncomingRequest) -> Result:
        """Answer a question; meanwhile the deadline of the call stands that it belongs to, or those
        of all calls."""
        resume = self.calls.pause_all(*getattr(request.sink, "asked_by", ()))
        request.on_cancel(resume)
        try:
            return self.host.serve(request)
        except (
            InternalError
        ) as error:  # the call ends as where requests stand alone, if it is clear which one it is
            asking = getattr(request.sink, "asked_by", ()) or self.calls.pending()
            if len(asking) == 1 and isinstance(error.__cause__, HandlerFailed):
                self.calls.end(asking[0], error.__cause__)
            raise
        finally:
            resume()

    def notified(self, notification: Notification) -> None:
        params = notification.params
        kind = CHANGES.get(notification.method)
        if kind is not None:
            uri = params.get("uri")
            is_long = size_of(params, CHANGE_BYTES) > CHANGE_BYTES
            self.host.changed(kind, uri if isinstance(uri, str) and not is_long else None)
            if is_long:
                log.warning(
                    "<-- %s with more than %d bytes: not told", notification.method, CHANGE_BYTES
                )
                return
        for listener in list(self.listeners.values()):
            listener(notification)
        meta = params.get("_meta")
        id = meta.get(SUBSCRIPTION_KEY) if type(meta) is dict else None
        if id is None:
            self.host.tell(notification)
            return
        stream = self.streams.get(id) if type(id) is int or type(id) is str else None
        if stream is None:
            log.debug("<-- %s for the stream %s, which is not open", notification.method, id)
        else:
            stream(notification)

    def lost(self, cause: ConnectionLost) -> None:
        self.ended.cancel()
        if self.host.asked_tasks is not None and self.era is not None:
            self.host.asked_tasks.lost(self.era.peer)

    # ------------------------------------------------------------ shared by all transports

    def wait_while_busy(self, busy: Busy, deadline: Deadline, cancel: Cancel = None) -> bool:
        """Wait as long as a busy server asks. False if that is longer than the deadline allows.

        Raises as `wait_until`.
        """
        left = deadline.remaining()
        if left is not None and busy.seconds >= left:
            return False
        self.sleep(Deadline(max(busy.seconds, BUSY_SECONDS)), cancel)
        return True

    def sleep(self, deadline: Deadline, cancel: Cancel = None) -> None:
        """Wait until a deadline. Raises as `wait_until`."""
        wait_until(lambda: False, threading.Condition(), deadline, cancel, self)

    def add_envelope(
        self, params: Params, id: Id, on_progress: Optional[OnProgress] = None
    ) -> dict[str, Json]:
        """The params as they are sent, for an implementation of `request`."""
        era, trace = self.era, current_trace_context()
        if era is None or not (era.envelope or on_progress or trace):
            return dict(params)
        token = {} if on_progress is None else {"progressToken": id}
        return {**params, "_meta": {**trace, **params.get("_meta", {}), **token, **era.envelope}}

    def result_of(self, method: str, answer: Union[Result, Failure]) -> Result:
        """What `request` returns for an answer, or raises, for an implementation of it."""
        era = self.era
        if isinstance(answer, Failure):
            if era is None:
                raise error_from_peer(answer.code, answer.message, answer.data)
            error = exception_of(answer, method, era.revision)
            if isinstance(error, ToolError):  # an old server's own code for a tool that failed
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
                f"a result of {method} is complete, not {one_line(kind)}", answer
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
    """Wait for something of this process's own; False when the deadline came first.

    Args:
        done: Whether it has come; called with the condition held.
        changed: Notified when it is to be asked again.
        deadline: When to give up.
        cancel: Ends the wait; None never does.
        session: Whose end ends the wait; None waits all the same.

    Raises:
        Cancelled: The token was cancelled.
        ConnectionLost: The connection has ended, and what is waited for has not come.
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
    """Return if something with this ``cancel=`` may begin.

    Raises:
        TypeError: It is no token.
        Cancelled: It is cancelled.
    """
    if not isinstance(cancel, (CancelToken, type(None))):
        way = "make a CancelToken(), and call its cancel()"
        raise TypeError(f"cancel is a CancelToken or None, not {repr_of(cancel)}: {way}")
    if cancel is not None and cancel.cancelled:
        raise Cancelled(cancel.reason or "the token was cancelled before the call")


def deadline_of(name: str, seconds: Optional[float]) -> Deadline:
    """The deadline that an argument names.

    Args:
        name: Of the argument, for the message.
        seconds: Its value; None never comes.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative.
    """
    try:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"{name} is at least 0 seconds, not {seconds}; None waits for ever")
        return Deadline(seconds)
    except TypeError:
        raise TypeError(f"{name} is a number of seconds or None, not {repr_of(seconds)}") from None


def require_type(value: Any, kind: Union[type, tuple[type, ...]], says: str) -> Any:
    """An argument, if it is of this kind. Raises TypeError: it is not; the message begins with what
    it has to be."""
    if not isinstance(value, kind):
        raise TypeError(f"{says}, not {repr_of(value)}")
    return value


def repr_of(value: object) -> str:
    """A wrong argument, for a message: "the str 'x'"."""
    return f"the {type(value).__name__} {repr(value):.60}"


def progress_reader(on_progress: OnProgress) -> Callable[[Any], None]:
    """What takes the params of progress notifications and calls a user's function.

    Raises:
        TypeError: It is no function, or async.
    """
    if not callable(on_progress):
        raise TypeError(
            f"on_progress is a function that takes a Progress, or None, not {repr_of(on_progress)}"
        )
    refuse_async(on_progress, "on_progress")

    def take(params: Any) -> None:
        try:
            item = Progress.from_wire(params)
        except ValueError as error:
            log.debug("<-- a progress notification that is none: %s", error)
            return
        on_progress(item)

    return take
