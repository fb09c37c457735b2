"""The outlet of the requests that one POST brings: everything that belongs to them goes to its own response.

The handler runs on the thread that serves the POST, and writes from there. When it leaves the answer to somebody else
(it runs in an executor, or the request stays open), this thread waits at a mailbox and writes what is put there.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
import re
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, Optional, Union

from ..engine.exchange import Exchange
from ..engine.inbound import Answers, fitting
from ..engine.outgoing import Outgoing
from ..engine.table import RequestTable
from ..engine.transport import nothing
from ..engine.workers import Workers, waiting
from ..errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    Cancelled,
    CapabilityNotSupported,
    ConnectionLost,
    InternalError,
    RpcError,
)
from ..protocol.messages import Id, encode, failure
from .http_server_stream import Stream

log = logging.getLogger("minimcp.http")

STATUS = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, METHOD_NOT_FOUND: 404, HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400, UNSUPPORTED_VERSION: 400,
}
"""Status of a response whose body is an error, where requests stand alone; of other errors it is 200."""

GONE = "the client has closed the connection"
"""Why a request that stands alone is cancelled."""

_CODE = re.compile(rb'\{"jsonrpc":"2\.0",(?:"id":(?:-?\d+|"(?:[^"\\]|\\.)*"),)?"error":\{"code":(-?\d+)')

Mail = SimpleQueue[Any]
"""What a thread that serves a response waits at: bytes are an answer, a function is called for lines, None wakes."""


def status_of(line: bytes) -> int:
    """The status of a response with this answer, where requests stand alone."""
    found = _CODE.match(line)
    return STATUS.get(int(found[1]), 200) if found else 200


class Reply(Answers):
    """The response to one POST with requests.

    Args:
        stream: Where it goes.
        workers: For what nothing may wait for.
        handshake: Whether the client has shaken hands: errors are results of HTTP then, and one that has gone does not
            take its request back.
        streams: Whether the response may be an event stream; where not, only the answer is sent.
        table: Of the questions that wait for the client; None where it cannot be asked.
        max_message_bytes: The longest answer; None means no limit.
    """

    __slots__ = (
        "stream", "_workers", "_handshake", "_streams", "_table", "_max_bytes", "_mail", "_waiting",
        "_exchanges",
    )

    def __init__(
        self,
        stream: Stream,
        workers: Workers,
        *,
        handshake: bool,
        streams: bool,
        table: Optional[RequestTable],
        max_message_bytes: Optional[int],
    ) -> None:
        self.stream, self._workers = stream, workers
        self._handshake, self._streams, self._table = handshake, streams, table
        self._max_bytes = max_message_bytes
        self._mail: Mail = SimpleQueue()
        self._waiting = False
        self._exchanges: dict[Exchange, Exchange] = {}

    # ------------------------------------------------------------ the thread that serves the POST

    def add(self, exchange: Exchange) -> None:
        """One more request that this is the response to."""
        self._exchanges[exchange] = exchange

    def run(self, exchange: Exchange) -> None:
        """Have a request served, on this thread or where it wants to be served."""
        start = exchange.route.start
        if start is None:
            line = exchange.run()
        else:
            self._waiting = True
            line = self._started(exchange, start)
        if line is not None:
            self.finish(line)

    def run_beside(self, exchange: Exchange) -> None:
        """Have a request served beside others, on a thread of its own if there is one; `wait` writes the answer."""
        self._waiting = True
        try:
            self._workers.start(partial(self._run_beside, exchange))
        except RuntimeError:
            self._run_beside(exchange)

    def _run_beside(self, exchange: Exchange) -> None:
        line = exchange.run()
        if line is not None:
            self._mail.put(line)

    def _started(self, exchange: Exchange, start: Callable[[Exchange], None]) -> Optional[bytes]:
        try:
            start(exchange)
            return None
        except RpcError as error:
            refusal = error
        except RuntimeError:
            refusal = InternalError("no thread is free")
        return exchange.outlet.answer(exchange, encode(failure(exchange.request.id, refusal)))

    def finish(self, line: bytes) -> None:
        """Send the answer."""
        self.stream.finish(line, 200 if self._handshake else status_of(line))

    def wait(self) -> None:
        """Return when the response is complete; write what others put into the mailbox meanwhile."""
        if self.stream.done:
            return
        self._waiting = True
        self.stream.watch(partial(self._mail.put, None))
        serve_mail(self.stream, self._mail, self.finish)

    def cancel(self, reason: str) -> None:
        """The client has gone, or takes a request back: nothing more is sent for those that run. Never blocks."""
        for exchange in list(self._exchanges):
            if self.claim(exchange):
                exchange.cancel(reason)

    def lost(self) -> None:
        """The client has gone, which takes its request back. Never blocks."""
        self.cancel(GONE)
        self.stream.abandon()

    def requests(self) -> list[Exchange]:
        """Those that are not answered yet."""
        return list(self._exchanges)

    # ------------------------------------------------------------ as an outlet

    def begin(self, exchange: Exchange) -> Optional[RpcError]:
        return None

    def queue(self, exchange: Exchange) -> Optional[RpcError]:
        return None

    def deliver(self, line: bytes) -> None:
        self._mail.put(line)

    def answer(self, exchange: Exchange, line: bytes) -> Optional[bytes]:
        if self._exchanges.pop(exchange, None) is None:
            return None  # it is answered already, or nobody waits any more
        return fitting(exchange, line, self._max_bytes)

    def fitting(self, exchange: Exchange, line: bytes, beside: int = 0) -> bytes:
        return fitting(exchange, line, self._max_bytes, beside)

    def leave(self, exchange: Exchange) -> bool:
        return self.claim(exchange)

    def claim(self, exchange: Exchange) -> bool:
        return self._exchanges.pop(exchange, None) is not None

    def send(self, line: bytes) -> None:
        if not self._streams:
            return
        try:
            self.stream.event(line)
        except ConnectionLost as error:
            if not self._handshake:
                self.lost()  # most writers have said so already
                raise Cancelled(GONE) from error

    def owe(self, id: Id, line: bytes) -> None:
        if self._waiting:
            self._mail.put(line)
        else:  # the thread of this response is busy with the handler
            self.run_aside(partial(self.finish, line))

    def park(self, exchange: Exchange) -> None:
        self._waiting = True

    def later(self, work: Callable[[], Optional[bytes]]) -> None:
        self._mail.put(work)

    def release(self, seconds: float) -> bool:
        return self._streams and self.stream.release(max(0, int(seconds * 1000)))

    def run_aside(self, work: Callable[[], None]) -> None:
        self._workers.start(work, beyond_cap=True)

    def calls(self) -> Outgoing:
        if self._table is None or not self._streams:
            raise CapabilityNotSupported("the client cannot be asked on the way that this request came")
        return Outgoing("http", post=self._post, owe=self.stream.queue, check=nothing, table=self._table)

    def _post(self, lines: bytes) -> None:
        for line in lines.splitlines(keepends=True):
            self.stream.event(line)


def serve_mail(
    stream: Stream, mail: Mail, finish: Callable[[bytes], None], until: Callable[[], bool] = lambda: False
) -> None:
    """Write what is put into a mailbox until the stream is done.

    Args:
        stream: Where to. Whoever ends it puts None into the mailbox.
        mail: The mailbox.
        finish: Sends an answer.
        until: Whether to stop for another reason; asked after each item.
    """
    with waiting():
        while not stream.done and not until():
            item: Union[bytes, Callable[[], Optional[bytes]], None] = mail.get()
            if isinstance(item, bytes):
                finish(item)
            elif item is not None:
                _say(stream, item)


def _say(stream: Stream, work: Callable[[], Optional[bytes]]) -> None:
    lines = work()
    try:
        for line in (lines or b"").splitlines(keepends=True):
            stream.event(line)
    except ConnectionLost as error:
        log.debug("%s", error)
