"""The sink of the requests that one POST brings: everything that belongs to them goes to its own response.

The handler runs on the thread that serves the POST, and writes from there. When it leaves the answer to somebody else
(it runs in an executor, or the request stays open), this thread waits at a mailbox and writes what is put there.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import logging
import re
import threading
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, Optional, Union

from ..engine.limits import Limits
from ..engine.pool import Job, Pool, waiting
from ..engine.requests import Calls, IncomingRequest, Line, RunningRequests, Sink
from ..engine.timer import Deadline
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
    RpcError,
)
from ..protocol.messages import encode, failure
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


class Reply(Sink):
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

    def __init__(
        self,
        stream: Stream,
        workers: Pool,
        *,
        handshake: bool,
        streams: bool,
        table: Optional[Calls],
        max_message_bytes: Optional[int],
    ) -> None:
        self.stream, self._workers = stream, workers
        self._handshake, self._streams, self._table = handshake, streams, table
        limits = Limits(requests=None, backlog_bytes=None, message_bytes=max_message_bytes)
        self.requests = RunningRequests(limits)
        self._thread = threading.get_ident()
        self._mail: Mail = SimpleQueue()
        self._waiting = False

    # ------------------------------------------------------------ the thread that serves the POST

    def add(self, exchange: IncomingRequest) -> None:
        """One more request that this is the response to."""
        self.requests.add(exchange, exchange)

    def run(self, exchange: IncomingRequest) -> None:
        """Have a request served, on this thread or where it wants to be served."""
        start = exchange.route.start
        if exchange.route.immediate:
            exchange.run()
        elif start is None:
            self._workers.run(exchange.run)
        else:
            self._waiting = True
            try:
                start(exchange)
            except RpcError as error:
                self.respond(exchange, encode(failure(exchange.request.id, error)))

    def run_beside(self, exchange: IncomingRequest) -> None:
        """Have a request served beside others, on a thread of its own; `wait` writes the answer."""
        self._waiting = True
        self._workers.submit(exchange.run)

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
        for exchange in self.running():
            if self.requests.claim(exchange):
                exchange.cancel(reason)

    def lost(self) -> None:
        """The client has gone, which takes its request back. Never blocks."""
        self.cancel(GONE)
        self.stream.abandon()

    def running(self) -> list[IncomingRequest]:
        """Those that are not answered yet."""
        return list(self.requests._requests.values())

    # ------------------------------------------------------------ as a sink

    def deliver(self, line: bytes, wait: bool) -> None:
        if threading.get_ident() == self._thread:
            self.finish(line)
        elif self._waiting:
            self._mail.put(line)
        else:  # the thread of this response is busy with the handler
            self.spawn(partial(self.finish, line))

    def send(self, line: bytes) -> None:
        if not self._streams:
            return
        try:
            self.stream.event(line)
        except ConnectionLost as error:
            if not self._handshake:
                self.lost()  # most writers have said so already
                raise Cancelled(GONE) from error

    def post(self, line: Line) -> None:
        self._mail.put((lambda: line) if isinstance(line, bytes) else line)

    def release(self, seconds: float) -> bool:
        return self._streams and self.stream.release(max(0, int(seconds * 1000)))

    def spawn(self, job: Job) -> None:
        self._workers.spawn(job)

    def calls(self) -> Calls:
        if self._table is None or not self._streams:
            raise CapabilityNotSupported("the client cannot be asked on the way that this request came")
        return Calls("http", self._post, self.stream.queue, beside=self._table)

    def _post(self, lines: bytes, deadline: Deadline) -> bool:
        for line in lines.splitlines(keepends=True):
            self.stream.event(line)
        return True


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
