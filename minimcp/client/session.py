"""`ClientSession`: one connection of a client to its server, whatever the transport.

A `Client` sends requests and notifications and opens streams of changes through this interface and knows nothing of
lines, processes and POSTs. `ConnectionSession` implements it over a connection that carries lines (stdio, in memory,
HTTP+SSE).
"""

from __future__ import annotations

import logging
import threading
from copy import copy
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Union

from ..engine.cancel import CancelToken
from ..engine.connection import Channel
from ..engine.deadline import Deadline
from ..engine.exchange import Exchange
from ..engine.limits import Limits
from ..engine.outgoing import NEVER_CANCELLED
from ..engine.table import PendingCall
from ..engine.transport import Pipe, SessionGone
from ..engine.workers import waiting
from ..errors import Cancelled, CapabilityNotSupported, error_from_peer
from ..protocol.meanings import exception_of
from ..protocol.messages import Failure, Id, Json, Notification, encode
from ..schema.functions import refuse_async
from ..schema.remedies import explained
from ..types import Progress
from .host import ClientHandler, Era

if TYPE_CHECKING:
    from ..http.mirror import Mirror

log = logging.getLogger("minimcp.client")

Params = Mapping[str, Json]
Result = dict[str, Json]
Outcome = Union[Result, Exception]
Cancel = Optional[CancelToken]
OnProgress = Callable[[Progress], Any]
OnMessage = Callable[[Notification], None]

AT_ONCE = 64
"""Requests that are written together at most when many are sent at once."""


class ClientSession:
    """One connection of a client. Thread-safe; a transport implements what raises `NotImplementedError`.

    Args:
        name: Shown in messages: the command, the URL, "memory".
        handler: What is done with the server's own messages.

    Attributes:
        mirror: What is to know of the tools that are listed, because their arguments travel in headers too; or None.
    """

    mirror: Optional[Mirror] = None
    era: Era
    """What is spoken. Not before `agree`."""
    in_order = True
    """Whether what the server sends on several streams comes in the order in which it was sent."""

    def __init__(self, name: str, handler: ClientHandler) -> None:
        self.name, self.handler = name, handler

    # ------------------------------------------------------------ its beginning and end

    def agree(self, era: Era) -> None:
        """This is spoken from now on. Called before the server hears that all is well and may ask questions."""
        self.era = self.handler.era = era

    def ready(self, deadline: Deadline) -> None:
        """Wait until what was sent so far has arrived, and until all ways are open that messages come by.

        Raises:
            RequestTimeout: The deadline came first.
        """

    @property
    def stderr_tail(self) -> str:
        """The last lines of the server process's stderr; empty where there is no process."""
        return ""

    @property
    def cause(self) -> Optional[BaseException]:
        """Why the connection has ended; None while it lives."""
        raise NotImplementedError

    def check(self) -> None:
        """Return if the connection lives. Raises ConnectionLost: it has ended, or this process is a fork."""
        if self.cause is not None:
            raise copy(self.cause)

    def need(self, capability: str) -> None:
        """Return if the server declares this. Raises CapabilityNotSupported: it does not."""
        if not self.era.peer.supports(capability):
            self.check()
            raise CapabilityNotSupported(f"{self.name}: the server declares no {capability}")

    @property
    def pending(self) -> int:
        """How many requests of ours wait for their answer."""
        raise NotImplementedError

    def stop(self, cause: Exception) -> None:
        """End every request with this exception and refuse new ones, before `close`. Never blocks."""
        raise NotImplementedError

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        """Wait until the connection has ended. Blocks: for so many seconds at most; None for ever."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection. Idempotent, from any thread. Blocks: up to 4 s, until a server process has ended."""
        raise NotImplementedError

    def abandon(self) -> None:
        """End the connection without waiting for anything: for a finalizer."""
        raise NotImplementedError

    # ------------------------------------------------------------ messages

    def request(
        self, method: str, params: Params, deadline: Deadline, cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result:
        """Send one request and wait for its result. Nothing is sent again, no question is answered.

        Args:
            method: Of the request.
            params: Without the envelope of the era, which is added; before `agree` they are sent as they are.
            deadline: When to give up; stands while the host answers a question that belongs to this request.
            cancel: Ends the wait from another thread; None for a request that nobody cancels.
            on_progress: Called by the waiting thread with each `Progress`, in order; None asks for none.

        Raises:
            RpcError: The server answered an error.
            RequestTimeout, Cancelled: As named; the server was told.
            ConnectionLost: The connection has ended; `SessionGone` and `Busy` say that the server did not run it.
            ProtocolViolation: The answer was none.
            TypeError, ValueError: An argument cannot be what it is.

        Blocks: until then.
        """
        raise NotImplementedError

    def request_all(
        self, method: str, params: Sequence[Params], deadline: Deadline, cancel: Cancel = None
    ) -> list[Outcome]:
        """Send many requests at once; their results, or what `request` would raise, in the same order.

        Arguments as `request`, for all of them together.

        Raises:
            Cancelled: The token was cancelled before anything was sent.
            ConnectionLost: Not all of them could be sent.
            TypeError, ValueError: Some params are no JSON; nothing was sent.
        """
        raise NotImplementedError

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        """Send a notification. Raises ConnectionLost. Blocks: until the server has taken it, or the deadline."""
        raise NotImplementedError

    def open_stream(
        self, method: str, params: Params, on_message: OnMessage, on_end: Callable[[Outcome], None]
    ) -> Callable[[], None]:
        """Send a request that stays open, such as `subscriptions/listen`.

        Args:
            method: As `request`.
            params: As `request`.
            on_message: Called with each notification that names this request, in order, by a reading thread: be quick.
            on_end: Called once, on any thread, with the result or with what `request` would raise.

        Returns:
            A function that ends the request, telling the server; `on_end` gets `Cancelled` then. Idempotent.

        Raises:
            ConnectionLost: The connection has ended.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ shared by all transports

    def wait_for(
        self, done: Callable[[], bool], woken: threading.Event, deadline: Deadline, cancel: Cancel = None
    ) -> bool:
        """Wait for something of this process's own; False when the deadline came first.

        Args:
            done: Whether it has come; asked again each time that `woken` was set.
            woken: Set by whoever changes what `done` looks at.
            deadline: When to give up.
            cancel: Ends the wait; None never does.

        Raises:
            Cancelled: The token was cancelled.
            ConnectionLost: The connection has ended.
        """
        tokens = [self.handler.ended] if cancel is None else [self.handler.ended, cancel]
        forget = [token.on_cancel(woken.set) for token in tokens]
        try:
            with waiting():
                while not done():
                    if cancel is not None and cancel.cancelled:
                        raise Cancelled(cancel.reason or "cancelled")
                    self.check()
                    if not woken.wait(deadline.wait()) and deadline.expired:
                        return False
                    woken.clear()
            return True
        finally:
            for each in forget:
                each()

    def sleep(self, deadline: Deadline, cancel: Cancel = None) -> None:
        """Wait until a deadline. Raises as `wait_for`."""
        self.wait_for(lambda: False, threading.Event(), deadline, cancel)

    def add_envelope(self, params: Params, id: Id, on_progress: Optional[OnProgress] = None) -> dict[str, Json]:
        """The params as they are sent, for an implementation of `request`."""
        era = self.handler.era
        if era is None:
            return dict(params)
        return era.dress(params, {} if on_progress is None else {"progressToken": id})

    def result_of(self, method: str, answer: Union[Result, Failure]) -> Result:
        """What `request` returns for an answer, or raises, for an implementation of it."""
        era = self.handler.era
        if isinstance(answer, Failure):
            if era is None:
                raise error_from_peer(answer.code, answer.message, answer.data)
            raise exception_of(answer, method, era.revision)
        return answer if era is None else era.undress(method, answer)

    def __repr__(self) -> str:
        state = 'open' if self.cause is None else 'closed'
        return f"<{type(self).__name__} {self.name!r} {state}, {self.pending} outgoing>"


def check_token(cancel: Cancel) -> None:
    """Return if something with this ``cancel=`` may begin.

    Raises:
        TypeError: It is no token.
        Cancelled: It is cancelled.
    """
    if cancel is not None:
        if not isinstance(cancel, CancelToken):
            raise TypeError(f"cancel is a CancelToken or None, not {shown(cancel)}")
        if cancel.cancelled:
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
        raise TypeError(f"{name} is a number of seconds or None, not {shown(seconds)}") from None


def shown(value: object) -> str:
    """A wrong argument, for a message: "the str 'x'"."""
    return f"the {type(value).__name__} {repr(value):.60}"


def progress_reader(on_progress: OnProgress) -> Callable[[Any], None]:
    """What takes the params of progress notifications and calls a user's function.

    Raises:
        TypeError: It is no function, or async.
    """
    if not callable(on_progress):
        raise TypeError(f"on_progress is a function that takes a Progress, or None, not {shown(on_progress)}")
    refuse_async(on_progress, "on_progress")

    def take(params: Any) -> None:
        try:
            item = Progress.from_wire(params)
        except ValueError as error:
            log.debug("<-- a progress notification that is none: %s", error)
            return
        on_progress(item)

    return take


class ConnectionSession(ClientSession):
    """A client's connection that carries lines: stdio, in memory, HTTP+SSE. Open as soon as it is made.

    Args:
        pipe: How bytes travel; it is owned from now on.
        handler: As `ClientSession`.
        limits: What the connection may cost.
        trace: As `tracer` makes it; None for no trace.
    """

    def __init__(
        self, pipe: Pipe, handler: ClientHandler, limits: Limits, trace: Optional[Callable[[str, bytes], None]] = None
    ) -> None:
        super().__init__(pipe.name, handler)
        self.mirror, self.in_order = getattr(pipe, "mirror", None), getattr(pipe, "in_order", True)
        self._pipe = pipe
        self._deadlines: dict[Deadline, None] = {}
        handler.serve = self._serve
        self._channel = Channel(pipe, handler, limits=limits, trace=trace)
        self._calls = self._channel.calls
        self._channel.open()

    # ------------------------------------------------------------ its beginning and end

    def agree(self, era: Era) -> None:
        super().agree(era)
        self._pipe.agreed(era.revision)

    def ready(self, deadline: Deadline) -> None:
        self._pipe.ready(deadline)

    @property
    def cause(self) -> Optional[BaseException]:
        return self._calls.table.cause

    def check(self) -> None:
        self._calls.check()
        super().check()

    @property
    def pending(self) -> int:
        return len(self._calls.table)

    @property
    def stderr_tail(self) -> str:
        return getattr(self._pipe, "stderr_tail", "")

    def stop(self, cause: Exception) -> None:
        self._calls.close(cause)

    def wait_until_ended(self, seconds: Optional[float]) -> bool:
        return self._channel.wait_until_ended(seconds)

    def close(self) -> None:
        self._channel.close()

    def abandon(self) -> None:
        self._channel.abandon()

    # ------------------------------------------------------------ messages

    def request(
        self, method: str, params: Params, deadline: Deadline, cancel: Cancel = None,
        on_progress: Optional[OnProgress] = None,
    ) -> Result:
        if cancel is not None:
            check_token(cancel)
        on_item = None if on_progress is None else progress_reader(on_progress)
        try:
            call = self._calls.call(method, lambda id: self.add_envelope(params, id, on_progress), on_item=on_item)
        except (TypeError, ValueError) as error:
            raise explained(method, params, error) from None
        except SessionGone as gone:
            raise _not_sent(gone) from None
        return self._result(call, params, deadline, cancel)

    def _result(
        self, call: PendingCall, params: Params, deadline: Deadline, cancel: Cancel
    ) -> Result:
        """Wait for the answer of a request that was sent."""
        tell = call.method not in NEVER_CANCELLED
        forget = None
        if cancel is not None:
            token = cancel
            forget = token.on_cancel(lambda: self._end(call, Cancelled(token.reason or "cancelled"), tell))
        self._deadlines[deadline] = None
        try:
            answer = self._calls.wait(call, deadline, tell=tell, about=params.get("name", params.get("uri")))
        finally:
            self._deadlines.pop(deadline, None)
            if forget is not None:
                forget()
        if cancel is not None and cancel.cancelled:  # an answer may beat a token that was cancelled before it was sent
            raise Cancelled(cancel.reason or "cancelled")
        return self.result_of(call.method, answer)

    def _end(self, call: PendingCall, ending: Exception, tell: bool = True) -> None:
        self._calls.retire(call, ending, tell=tell)

    def request_all(
        self, method: str, params: Sequence[Params], deadline: Deadline, cancel: Cancel = None
    ) -> list[Outcome]:
        check_token(cancel)
        calls: list[PendingCall] = []
        outcomes: list[Outcome] = []
        reason = "not sent"
        try:
            self._send_all(method, params, calls)
            reason = "the caller gave up"
            for call, one in zip(calls, params):
                try:
                    outcomes.append(self._result(call, one, deadline, cancel))
                except Exception as error:
                    outcomes.append(error)
        except BaseException:  # such as Ctrl-C: the server need not go on with the rest
            for call in calls[len(outcomes):]:
                self._end(call, Cancelled(reason))
            raise
        return outcomes

    def _send_all(self, method: str, params: Sequence[Params], calls: list[PendingCall]) -> None:
        lines: list[bytes] = []
        for one in params:
            try:
                call, line = self._calls.prepare(method, lambda id, one=one: self.add_envelope(one, id))  # type: ignore[misc]
            except (TypeError, ValueError) as error:
                raise explained(method, one, error) from None
            except SessionGone as gone:
                raise _not_sent(gone) from None
            calls.append(call)
            lines.append(line)
        for start in range(0, len(lines), AT_ONCE):
            self._channel.post(b"".join(lines[start:start + AT_ONCE]))

    def notify(self, method: str, params: Params, deadline: Deadline) -> None:
        self._channel.write(encode(Notification(method, dict(params))), deadline)

    def open_stream(
        self, method: str, params: Params, on_message: OnMessage, on_end: Callable[[Outcome], None]
    ) -> Callable[[], None]:
        call, line = self._calls.prepare(method, lambda id: self.add_envelope(params, id))
        self.handler.streams[call.id] = on_message

        def wait() -> None:
            ending: Outcome
            try:
                ending = self.result_of(method, self._calls.wait(call, Deadline(None)))
            except Exception as error:
                ending = error
            self.handler.streams.pop(call.id, None)
            on_end(ending)

        def close() -> None:
            self.handler.streams.pop(call.id, None)
            self._end(call, Cancelled("the stream was closed"))

        threading.Thread(target=wait, name=f"minimcp-{self.name}-stream", daemon=True).start()
        self._channel.post(line)
        return close

    # ------------------------------------------------------------ the server's requests

    def _serve(self, exchange: Exchange) -> Result:
        """Answer a question of the server; the deadlines of all requests that wait stand meanwhile."""
        paused = list(self._deadlines)
        for deadline in paused:
            deadline.pause()
        state_lock = threading.Lock()

        def resume() -> None:
            with state_lock:
                for deadline in paused:
                    deadline.resume()
                paused.clear()
            self._calls.table.wake_all()

        exchange.on_cancel(resume)
        try:
            return self.handler.host.serve(exchange)
        finally:
            resume()


def _not_sent(gone: SessionGone) -> SessionGone:
    """The same loss for a request that was not even sent."""
    refused = copy(gone)
    refused.refused = True
    return refused
