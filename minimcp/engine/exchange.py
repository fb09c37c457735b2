"""One inbound request on its way to an answer, and the border where exceptions become wire errors.

An `Exchange` knows its request, who sent it and whether it was cancelled. Where its messages go is its `Outlet`'s
business: over stdio and in memory the shared pipe, over HTTP the response to its own POST.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..errors import (
    Cancelled,
    CapabilityNotSupported,
    RpcError,
)
from ..protocol.lifecycle import Peer
from ..protocol.messages import (
    Failure,
    Id,
    Json,
    Notification,
    Request,
    Response,
    encode,
    encode_result,
    to_json,
    wire_failure,
)
from .alarm import Countdown
from .deadline import Deadline
from .lane import Pace
from .outgoing import Outgoing
from .table import PendingCall
from .workers import here, waiting

log = logging.getLogger("minimcp.exchange")

Handler = Callable[["Exchange"], Union[dict[str, Json], str]]
"""What serves a method: from the exchange to the result, as an object or as JSON text that was made before."""

NO_HEADERS: Mapping[str, str] = {}
"""Of requests that came by other ways than HTTP."""

LATER: Any = object()
"""Returned by a handler whose answer comes later: it `Outlet.claim`s the exchange then and has the answer written."""


class Route:
    """Where the requests of one method, or of one tool, go.

    Args:
        handle: Serves them.
        control: True for what the connection itself owes (pings, lists): it never waits behind handlers.
        pace: What is known about its speed; None begins with nothing known.
        start: Takes the exchange and has it run elsewhere; None uses the connection's hot lane. The reader's thread
            calls it: it must not block. An RpcError that it raises is the answer.
    """

    __slots__ = ("handle", "control", "pace", "start")

    def __init__(
        self,
        handle: Handler,
        *,
        control: bool = False,
        pace: Optional[Pace] = None,
        start: Optional[Callable[[Exchange], None]] = None,
    ) -> None:
        self.handle, self.control, self.start = handle, control, start
        self.pace = Pace() if pace is None else pace


class Outlet:
    """Where everything that belongs to an exchange goes."""

    __slots__ = ()

    def begin(self, exchange: Exchange) -> Optional[RpcError]:
        """The exchange is about to run; an error refuses it."""
        raise NotImplementedError

    def queue(self, exchange: Exchange) -> Optional[RpcError]:
        """The exchange is about to wait in an executor's queue, where it counts as begun; an error refuses it."""
        raise NotImplementedError

    def deliver(self, line: bytes) -> None:
        """Have the bytes written that `answer` returned, by somebody else: never blocks."""
        raise NotImplementedError

    def answer(self, exchange: Exchange, line: bytes) -> Optional[bytes]:
        """Give the answer in: the bytes that are now to be written by the caller, None if nobody waits any more."""
        raise NotImplementedError

    def claim(self, exchange: Exchange) -> bool:
        """Whether the caller may answer this exchange: true once (rule 5)."""
        raise NotImplementedError

    def send(self, line: bytes) -> None:
        """Write a line that belongs to the exchange, before its answer.

        Raises:
            ConnectionLost: The peer is gone.
        """
        raise NotImplementedError

    def owe(self, id: Id, line: bytes) -> None:
        """Have the answer to a request written by somebody else: never blocks."""
        raise NotImplementedError

    def park(self, exchange: Exchange) -> None:
        """The handler has returned `LATER`: the exchange stays open without a thread."""
        raise NotImplementedError

    def later(self, work: Callable[[], Optional[bytes]]) -> None:
        """Have something called soon by whoever writes, in the order of these calls, and the lines it returns written.

        Never blocks. While the peer takes nothing, nothing is called: what is said meanwhile can be put together.
        """
        raise NotImplementedError

    def farewell(self, id: Id) -> Optional[bytes]:
        """What follows the last answer of a request that was parked; None where the end of the stream says it."""
        return None

    def run_aside(self, work: Callable[[], None]) -> None:
        """Run something on a thread that nothing waits for."""
        raise NotImplementedError

    def release(self, seconds: float) -> bool:
        """Let the peer go, which comes back for the rest after so many seconds; False where it cannot do that."""
        return False

    def calls(self) -> Outgoing:
        """The calls to the peer that belong to the exchange.

        Raises:
            CapabilityNotSupported: Nothing can be asked on the way that this request came.
        """
        raise CapabilityNotSupported("the client cannot be asked on this connection")


class Exchange:
    """One inbound request.

    ``cancelled`` may be read by any thread; it turns true once. Attributes are set when the request arrives; handlers
    see them through a `Context`. ``asker`` answers what the handler asks the client, from the first question on, and
    ``countdown`` is the handler's time, if that is limited. ``withdraw`` takes it out of the executor's queue that it
    waits in; None when it waits in none. ``interrupted`` turns true when a KeyboardInterrupt ended its handler.
    ``headers`` are those of the HTTP request that it came by.
    """

    __slots__ = (
        "request", "peer", "route", "outlet", "size", "cancelled", "reason", "finished", "server", "progress_token",
        "asker", "countdown", "_last_progress", "_progress_lock", "_wakers", "_callbacks",
        "withdraw", "interrupted", "headers",
    )

    def __init__(self, request: Request, peer: Peer, route: Route, outlet: Outlet, size: int = 0) -> None:
        self.request, self.peer, self.route, self.outlet, self.size = request, peer, route, outlet, size
        self.cancelled = False
        self.reason: Optional[str] = None
        self.finished = False
        self.server: Any = None
        self.headers: Mapping[str, str] = NO_HEADERS
        meta = request.params.get("_meta")
        token = meta.get("progressToken") if type(meta) is dict else None
        self.progress_token: Optional[Id] = token if type(token) is int or type(token) is str else None
        self.asker: Any = None
        self.countdown: Optional[Countdown] = None
        self._last_progress: Optional[float] = None
        self._progress_lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []
        self._callbacks: list[Callable[[], None]] = []
        self.withdraw: Optional[Callable[[], None]] = None
        self.interrupted = False

    @property
    def pace(self) -> Pace:
        """How quick its handler is (the lane asks)."""
        return self.route.pace

    # ------------------------------------------------------------ running

    def run(self) -> Optional[bytes]:
        """Run the handler; returns the answer's bytes, None when nobody waits for one. Never raises."""
        try:
            refusal = self.outlet.begin(self)
            if refusal is not None:
                raise refusal
            if self.cancelled:
                raise Cancelled("cancelled before it began")
            here.exchange = self
            result = self.route.handle(self)
            if result is LATER:
                here.exchange = None
                self.outlet.park(self)
                return None
            id = self.request.id
            line = encode_result(id, result) if type(result) is str else encode(Response(id, result))  # type: ignore[arg-type]
        except BaseException as error:
            self.interrupted = self.interrupted or isinstance(error, KeyboardInterrupt)
            line = self._failed(error)
        here.exchange = None
        self.finished = True
        return self.outlet.answer(self, line)

    def _failed(self, error: BaseException) -> bytes:
        found = wire_failure(self.request.id, error, self.peer.revision, self.request.method)
        try:
            return encode(found)
        except Exception as unfit:  # the error's data is no JSON
            log.error("the data of an error of %s is no JSON: %s", self.request.method, unfit)
            return encode(Failure(found.id, found.code, found.message))

    # ------------------------------------------------------------ what a handler sends

    def send(self, method: str, params: dict[str, Json]) -> None:
        """Send a notification that belongs to this request; after the answer it is dropped.

        Raises:
            Cancelled: The request was cancelled.
            ConnectionLost: The peer is gone.
        """
        self.check()
        if not self.finished:
            self.outlet.send(encode(Notification(method, params)))

    def progress(self, done: float, total: Optional[float], message: Optional[str]) -> None:
        """Report progress, if the caller asked for it; a report that does not increase is dropped.

        Raises:
            TypeError, ValueError: ``done`` or ``total`` is no finite number, or ``message`` no text.
            Cancelled, ConnectionLost: As `send`.
        """
        self.check()
        token = self.progress_token
        if token is None or self.finished:
            return
        line = f'{_PROGRESS}{to_json(token)},"progress":{_number(done)}'
        if total is not None:
            line = f'{line},"total":{_number(total)}'
        if message is not None and self.peer.revision.progress_message:
            line = f'{line},"message":{_text(message)}'
        with self._progress_lock:  # two threads of one handler: what is sent increases all the same
            if self._last_progress is not None and done <= self._last_progress:
                log.debug("progress %r of %s does not increase: dropped", done, self.request.method)
                return
            self._last_progress = done
            self.outlet.send(f"{line}}}}}\n".encode())

    # ------------------------------------------------------------ what a handler asks

    def asker_made_by(self, make: Callable[[Exchange, threading.Lock], Any]) -> Any:
        """The asker; the first who wants it makes it, and gives it the lock that guards what it remembers."""
        with self._progress_lock:
            if self.asker is None:
                self.asker = make(self, threading.Lock())
            return self.asker

    def ask(
        self, questions: Sequence[tuple[str, dict[str, Json]]], seconds: Optional[float]
    ) -> Union[list[dict[str, Json]], Failure]:
        """Ask the peer: all questions are sent before the first answer is waited for.

        The handler's own time stands meanwhile, and its worker's place is another's. When one question fails, the
        others are withdrawn.

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
        if self.finished:
            raise RuntimeError(f"{self.request.method} is answered already: nothing can be asked for it")
        calls = self.outlet.calls()
        pending: list[PendingCall] = []

        def retire() -> None:
            for call in list(pending):
                calls.retire(call, Cancelled(self.reason or "the request was cancelled"))

        self._wakers.append(retire)
        if self.countdown is not None:
            self.countdown.pause()
        try:
            self.check()
            calls.call_all(questions, pending)
            deadline = Deadline(seconds)
            if self.cancelled:  # it may have come between the check and the sending
                retire()
            return calls.wait_all(pending, deadline)
        finally:
            self._wakers.remove(retire)
            retire()  # what was asked together with a question that failed
            if self.countdown is not None:
                self.countdown.resume()

    # ------------------------------------------------------------ cancelling

    def check(self) -> None:
        """Return if the request still runs.

        Raises:
            Cancelled: It was cancelled, or its time is over.
        """
        if self.cancelled:
            raise Cancelled(self.reason or "the request was cancelled")

    def cancel(self, reason: Optional[str] = None) -> None:
        """Set the flag and wake what waits for it; who takes the answer away is the outlet's business. Never blocks."""
        if self.cancelled:
            return
        self.reason = reason
        self.cancelled = True
        for wake in list(self._wakers):
            wake()
        withdraw = self.withdraw
        if withdraw is not None:
            withdraw()
        self._call_back()

    def _call_back(self) -> None:
        """Run what waits for the cancellation; taking one out is atomic, so each runs once, whoever comes."""
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            self.outlet.run_aside(callback)

    def expire(self, line: bytes, reason: str) -> None:
        """The handler's time is over: give this answer, unless another was given, and cancel what still runs."""
        if self.outlet.claim(self):
            self.outlet.owe(self.request.id, line)
            self.cancel(reason)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have `callback` run on a thread of its own when the request is cancelled; at once if it is already."""
        self._callbacks.append(callback)
        if self.cancelled:
            self._call_back()

    def sleep(self, seconds: float) -> None:
        """Wait, and give the worker's place to others meanwhile.

        Raises:
            Cancelled: The request was cancelled before the time was over.
        """
        waker = threading.Lock()
        waker.acquire()
        wake = partial(_release, waker)
        self._wakers.append(wake)
        deadline = Deadline(seconds)
        try:
            with waiting():
                while not self.cancelled and not deadline.expired:
                    waker.acquire(timeout=deadline.wait())
        finally:
            self._wakers.remove(wake)
        self.check()

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled else "finished" if self.finished else "open"
        return f"<Exchange {self.request.method} {self.request.id!r} {state}>"


_PROGRESS = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'
"""Written by hand, because a tool may report very often: encoding an object takes three times as long."""


def _number(value: float) -> str:
    """A finite number as JSON."""
    if type(value) is int:
        return str(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"progress is a number, not {type(value).__name__}")
    return to_json(float(value) if isinstance(value, float) else int(value))


def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a progress message is a str, not {type(value).__name__}")
    return to_json(value)


def current_exchange() -> Optional[Exchange]:
    """The exchange whose handler runs on this thread; None on any other thread."""
    return getattr(here, "exchange", None)


def _release(lock: threading.Lock) -> None:
    try:
        lock.release()
    except RuntimeError:
        pass  # it was woken before
