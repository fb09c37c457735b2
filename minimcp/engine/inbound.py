"""The requests of the peer that are not answered yet, and the outlets of a connection that is one pipe.

https://modelcontextprotocol.io/specification/2025-03-26/basic (arrays of messages)
"""

from __future__ import annotations

import logging
import threading
from typing import Callable, Optional, Union

from ..errors import InternalError, InvalidRequest, RpcError, one_line
from ..protocol.messages import (
    Failure,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    encode,
    encode_batch,
    failure,
)
from .exchange import Exchange, Outlet
from .limits import Limits
from .outgoing import Outgoing

log = logging.getLogger("minimcp.channel")


class Answers(Outlet):
    """An outlet that an array of requests may go through."""

    __slots__ = ()

    def leave(self, exchange: Exchange) -> bool:
        """The exchange has run; whether it may be answered."""
        raise NotImplementedError

    def fitting(self, exchange: Exchange, line: bytes, beside: int = 0) -> bytes:
        """The answer, or in its place an error if it is too long with so many bytes beside it."""
        raise NotImplementedError

    def written(self, count: int) -> None:
        """So many answers need not be waited for any more."""


class Inbound(Answers):
    """The requests that the peer waits for, keyed by id; their way out is the shared pipe.

    Args:
        limits: Of the connection.
        send: Writes a line, waiting for the peer if need be.
        owe: Has a line written by the control worker.
        deliver: The same for an answer, which counts as unwritten until then.
        later: Has the control worker call something and write the lines that it returns.
        run_aside: Runs something on a thread that nothing waits for.
        calls: The calls of this side, for what a handler asks the peer.
    """

    __slots__ = (
        "_limits", "_send", "_owe", "_deliver", "_later", "_run_aside", "_calls", "_exchanges", "_started",
        "_unwritten", "_awaited", "_abandoned", "_count_lock", "_queued", "_empty",
    )

    def __init__(
        self,
        limits: Limits,
        *,
        send: Callable[[bytes], object],
        owe: Callable[[bytes], None],
        deliver: Callable[[bytes], None],
        later: Callable[[Callable[[], Optional[bytes]]], None],
        run_aside: Callable[[Callable[[], None]], None],
        calls: Outgoing,
    ) -> None:
        self._limits, self._send, self._owe, self._later = limits, send, owe, later
        self._deliver, self._run_aside, self._calls = deliver, run_aside, calls
        self._exchanges: dict[Id, Exchange] = {}
        self._started: set[Exchange] = set()
        self._unwritten = 0
        self._awaited = self._abandoned = False
        self._count_lock = threading.Lock()
        self._queued = 0
        self._empty = threading.Condition(self._count_lock)

    def add(self, exchange: Exchange) -> None:
        """Take a request in (the reader's thread).

        Raises:
            InvalidRequest: Its id is in use.
            InternalError: Too many bytes wait already.
        """
        limit = self._limits.backlog_bytes
        if exchange.request.id in self._exchanges:
            raise InvalidRequest(f"the id {exchange.request.id!r} is in use")
        if limit is not None and self._queued + exchange.size > limit:
            raise InternalError("too many requests wait already")
        with self._count_lock:
            self._queued += exchange.size
        self._exchanges[exchange.request.id] = exchange

    def begin(self, exchange: Exchange) -> Optional[RpcError]:
        full = self._why_full(exchange)
        with self._count_lock:
            self._queued -= exchange.size
            self._started.add(exchange)
        return full

    def queue(self, exchange: Exchange) -> Optional[RpcError]:
        full = self._why_full(exchange)
        if full is None:
            with self._count_lock:
                self._started.add(exchange)
        return full

    def _why_full(self, exchange: Exchange) -> Optional[RpcError]:
        """Why it must not begin, or wait in an executor; None when it may, or has done so already."""
        limit = self._limits.requests
        if limit is None or len(self._started) < limit or exchange.route.control or exchange in self._started:
            return None
        return InternalError(f"more than {limit} requests run already")

    def answer(self, exchange: Exchange, line: bytes) -> Optional[bytes]:
        if self.leave(exchange):
            return self.fitting(exchange, line)
        self.written(1)
        return None

    def fitting(self, exchange: Exchange, line: bytes, beside: int = 0) -> bytes:
        """The answer, or in its place an error if it is longer than a message may be.

        Args:
            exchange: What it answers.
            line: The answer.
            beside: Bytes of the message that are taken already.
        """
        return fitting(exchange, line, self._limits.message_bytes, beside)

    def leave(self, exchange: Exchange) -> bool:
        """The exchange has run; whether it may be answered. Until `written` is called something counts as unwritten."""
        with self._count_lock:
            self._started.discard(exchange)
            self._unwritten += 1
            return self._take_out(exchange)

    def claim(self, exchange: Exchange) -> bool:
        with self._count_lock:
            return self._take_out(exchange)

    def _take_out(self, exchange: Exchange) -> bool:
        id = exchange.request.id
        if self._exchanges.get(id) is not exchange:
            return False  # cancelled or answered; its id may be another one's by now
        del self._exchanges[id]
        return True

    def written(self, count: int) -> None:
        """So many answers have been handed to the peer, or lost with it."""
        with self._count_lock:
            self._unwritten -= count
            if self._awaited and self._is_empty():
                self._empty.notify_all()

    def _is_empty(self) -> bool:
        return not (self._exchanges or self._started or self._unwritten)

    def cancel(self, id: Id, reason: Optional[str]) -> None:
        """The peer does not want an answer any more."""
        exchange = self._exchanges.get(id)
        if exchange is None or exchange.request.method == "initialize" or not self.claim(exchange):
            log.debug("cancelled: %s is unknown or finished", one_line(id))
            return
        log.info("<-- cancelled %s %s: %s", exchange.request.method, one_line(id), one_line(reason))
        exchange.cancel(reason)

    def send(self, line: bytes) -> None:
        self._send(line)

    def deliver(self, line: bytes) -> None:
        self._deliver(line)

    def owe(self, id: Id, line: bytes) -> None:
        self._owe(line)

    def park(self, exchange: Exchange) -> None:
        with self._count_lock:
            self._started.discard(exchange)

    def later(self, work: Callable[[], Optional[bytes]]) -> None:
        self._later(work)

    def farewell(self, id: Id) -> Optional[bytes]:
        return encode(Notification("notifications/cancelled", {"requestId": id}))

    def run_aside(self, work: Callable[[], None]) -> None:
        self._run_aside(work)

    def calls(self) -> Outgoing:
        return self._calls

    def abandon(self, reason: str) -> None:
        """Cancel everything that still runs: nobody will hear its answer."""
        for exchange in list(self._exchanges.values()):
            if self.claim(exchange):
                exchange.cancel(reason)
        with self._empty:
            self._abandoned = True
            self._empty.notify_all()

    def interrupt(self, reason: str) -> None:
        """Cancel everything that still runs, but for what the connection owes; who answers all the same is heard."""
        for exchange in list(self._exchanges.values()):
            if not exchange.route.control:
                exchange.cancel(reason)

    def wait_until_empty(self, seconds: float) -> bool:
        """Wait for the running requests, or until they are abandoned; False when some still run after that time."""
        with self._empty:
            self._awaited = True
            return self._empty.wait_for(lambda: self._abandoned or self._is_empty(), timeout=seconds)

    def __len__(self) -> int:
        return len(self._exchanges)


class Batch(Outlet):
    """The way out of the requests of one array: their answers leave together, when the last one is there.

    Args:
        inbound: The connection's requests, which these are among.
        lines: Answers that are there already.
        ids: Of the requests in the array.
    """

    __slots__ = ("_inbound", "_lock", "_lines", "_open")

    def __init__(self, inbound: Answers, lines: list[bytes], ids: list[Id]) -> None:
        self._inbound, self._lines = inbound, lines
        self._lock = threading.Lock()
        self._open: list[Optional[Id]] = [*ids, None]  # None: the array itself is still being read

    def begin(self, exchange: Exchange) -> Optional[RpcError]:
        return self._inbound.begin(exchange)

    def queue(self, exchange: Exchange) -> Optional[RpcError]:
        return self._inbound.queue(exchange)

    def deliver(self, line: bytes) -> None:
        self._inbound.deliver(line)

    def answer(self, exchange: Exchange, line: bytes) -> Optional[bytes]:
        claimed = self._inbound.leave(exchange)
        whole = self._collect(exchange.request.id, line if claimed else None, exchange)
        if whole is None:
            self._inbound.written(1)
        return whole

    def claim(self, exchange: Exchange) -> bool:
        return self._inbound.claim(exchange)

    def complete(self) -> Optional[bytes]:
        """The array is read to its end: its answers, if all are there already."""
        return self._collect(None, None)

    def _collect(
        self, id: Optional[Id], line: Optional[bytes], exchange: Optional[Exchange] = None
    ) -> Optional[bytes]:
        with self._lock:
            if id not in self._open:
                return None  # answered before, because its time was over
            self._open.remove(id)
            if line is not None:
                beside = sum(map(len, self._lines)) + 2
                self._lines.append(line if exchange is None else self._inbound.fitting(exchange, line, beside))
            return encode_batch(self._lines) if not self._open and self._lines else None

    def send(self, line: bytes) -> None:
        self._inbound.send(line)

    def owe(self, id: Id, line: bytes) -> None:
        whole = self._collect(id, line)
        if whole is not None:
            self._inbound.owe(id, whole)

    def park(self, exchange: Exchange) -> None:
        self._inbound.park(exchange)

    def later(self, work: Callable[[], Optional[bytes]]) -> None:
        self._inbound.later(work)

    def farewell(self, id: Id) -> Optional[bytes]:
        return self._inbound.farewell(id)

    def run_aside(self, work: Callable[[], None]) -> None:
        self._inbound.run_aside(work)

    def calls(self) -> Outgoing:
        return self._inbound.calls()


def fitting(exchange: Exchange, line: bytes, limit: Optional[int], beside: int = 0) -> bytes:
    """The answer to a request, or in its place an error if it is longer than so many bytes with those beside it."""
    size = len(line) - 1 + beside
    if limit is None or size <= limit:
        return line
    log.warning("the answer to %s has %d bytes: an error is sent in its place", exchange.request.method, size)
    reason = f"the answer is longer than {limit} bytes, the max_message_bytes of its sender: ask for less"
    return encode(failure(exchange.request.id, InternalError(reason)))


def why_no_batch(items: list[Union[Message, InvalidMessage]], *, taken: bool, limit: Optional[int]) -> Optional[str]:
    """Why an array of messages is refused whole; None when it is not.

    Args:
        items: Its elements, decoded.
        taken: Whether arrays may arrive now.
        limit: How many messages it may hold; None means no limit.
    """
    answers = any(type(item) is Response or type(item) is Failure for item in items)
    questions = any(type(item) is Request or type(item) is Notification for item in items)
    if not taken:
        return "a message is one object, not an array"
    if not items:
        return "an array of messages is not empty"
    if limit is not None and len(items) > limit:
        return f"an array holds at most {limit} messages"
    return "an array holds questions or answers, not both" if answers and questions else None
