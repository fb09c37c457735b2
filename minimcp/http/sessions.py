"""The sessions of an HTTP server, and the responses to POSTs with requests.

A session is what is kept of a client that has sent `initialize`. Requests that stand alone have none.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Callable, Optional, Union

from .. import errors
from ..engine.connection import ConnectionHandler
from ..engine.pool import Job, waiting
from ..engine.requests import Calls, IncomingRequest, Line, Sink
from ..engine.timer import NEVER, Deadline
from ..errors import Cancelled, CapabilityNotSupported, ConnectionLost, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import Failure, Notification, Response
from ..protocol.versions import Revision
from .headers import JSON_TYPE, ResponseWriter
from .streams import STREAM_HEADERS, EventStream, Pairs

if TYPE_CHECKING:
    from .endpoint import Endpoint

log = logging.getLogger("minimcp.http")

STATUS = {
    errors.PARSE_ERROR: 400, errors.INVALID_REQUEST: 400, errors.INVALID_PARAMS: 400, errors.METHOD_NOT_FOUND: 404,
    errors.HEADER_MISMATCH: 400, errors.MISSING_CAPABILITY: 400, errors.UNSUPPORTED_VERSION: 400,
}
"""Status of a response whose body is an error, where requests stand alone; of other errors it is 200."""

GONE = "the client has closed the connection"
"""Why a request that stands alone is cancelled."""

_CODE = re.compile(rb'\{"jsonrpc":"2\.0",(?:"id":(?:-?\d+|"(?:[^"\\]|\\.)*"),)?"error":\{"code":(-?\d+)')

MakeHandler = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionHandler]
"""Makes what the messages of a session mean, given its way to send notifications, and how to end it."""


class PostResponse(Sink):
    """The response to one POST with requests, and the sink of everything that belongs to them. Thread-safe.

    It is one body if the answer is the first that is sent, else an event stream.

    Args:
        endpoint: Whose response it is.
        session: Whose client can be asked; None where there is none.
        revision: That is spoken. After a handshake errors have status 200, and a client that has gone does not cancel
            its request.
        writer: Where it goes.
        streams: Whether it may be an event stream; where not, only the answer is sent.

    Attributes:
        stream: The event stream that this is, from its first event on.
        incoming: The requests.
        headers: To send beside those of the body's kind.
    """

    stream: Optional[EventStream] = None
    headers: Pairs = ()
    done = False
    """Turns true when nothing more will be sent, and the last byte is written."""
    _decided = False

    def __init__(
        self, endpoint: Endpoint, session: Optional[Session], revision: Revision, writer: ResponseWriter, streams: bool
    ) -> None:
        self._endpoint, self.requests, self.session, self._revision = endpoint, endpoint.requests, session, revision
        self._writer, self._streams = writer, streams
        self.incoming: list[IncomingRequest] = []
        self._begun_at, self._thread = time.monotonic(), threading.get_ident()
        self._changed = threading.Condition()

    def _open(self) -> Optional[EventStream]:
        """The event stream that this is from now on; None where it may not be one, or was answered."""
        with self._changed:
            if self.stream is None and self._streams and not self._decided:
                self.stream = self._endpoint.make_stream(self.session, self._revision, self._writer, self.headers)
                self._changed.notify_all()
            return self.stream

    def wait(self) -> None:
        """Write what is posted until all is done."""
        with waiting():
            with self._changed:
                self._changed.wait_for(lambda: self.done or self.stream is not None)
            if self.stream is not None:
                self.stream.serve()

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for so long; never waits, never raises."""
        stream = self.stream
        if stream is None and time.monotonic() - self._begun_at >= seconds:
            stream, seconds = self._open(), 0
        if stream is not None:
            stream.keep_alive(seconds)

    def finish(self, line: bytes = b"") -> None:
        """Send the last message, as the whole body if it is the first; or end without one. Never raises."""
        with self._changed:
            first, self._decided = not self._decided, True
        if self.stream is None and not first:
            return
        try:
            if self.stream is None:
                status, headers = 200, STREAM_HEADERS
                if line:
                    headers = [("Content-Type", JSON_TYPE)]
                    if self._endpoint.trace is not None:
                        self._endpoint.trace("-->", line.rstrip(b"\n"))
                    found = None if self._revision.handshake else _CODE.match(line)
                    status = STATUS.get(int(found[1]), 200) if found else 200
                self._writer.send(status, [*headers, *self.headers], line)
            else:
                self.stream.finish(line)
        except ConnectionLost as error:
            log.debug("an answer could not be written: %s", error)
        finally:
            with self._changed:
                self.done = True  # not before: who is in `wait` takes the response for complete then
                self._changed.notify_all()

    def cancel(self, reason: str) -> None:
        """The client has gone, or the session ends: nothing more is sent for what runs. Never blocks."""
        for request in list(self.incoming):
            if self.requests.claim(request):
                request.cancel(reason)

    def lost(self) -> None:
        """The client has gone, which cancels a request that stands alone. Never blocks."""
        self.cancel(GONE)
        with self._changed:
            self._decided = self.done = True
            self._changed.notify_all()
        if self.stream is not None:
            self.stream.abandon()

    # ------------------------------------------------------------ as a sink

    def send(self, line: bytes) -> None:
        stream = self._open()
        try:
            if stream is not None:
                stream.event(line)
        except ConnectionLost as error:
            if not self._revision.handshake:
                self.lost()  # most writers have said so already
                raise Cancelled(GONE) from error

    def post(self, line: Line) -> None:
        stream = self._open()
        if stream is not None:
            stream.post(line)

    def deliver(self, line: bytes, wait: bool) -> None:
        if wait or self._thread == threading.get_ident():  # which waits in any case
            self.finish(line)
        else:
            self.spawn(partial(self.finish, line))

    def spawn(self, job: Job) -> None:
        self._endpoint.pool.spawn(job)

    def release(self, seconds: float) -> bool:
        stream = self._open()
        return stream is not None and stream.release(seconds)

    def asking(self) -> Calls:
        if self.session is None or not self._streams:
            raise CapabilityNotSupported("the client cannot be asked on the way that this request came")
        return self.session.calls.through(self._ask, self.post)

    def _ask(self, lines: bytes, deadline: Deadline = NEVER) -> bool:
        stream = self._open()
        if stream is not None:
            stream.event(lines)
        return True


class Session:
    """What is kept of one client. Thread-safe.

    Args:
        make_handler: Makes what its messages mean.
        end: Called when the client wants the session to end.
    """

    peer: Optional[Peer] = None
    unsolicited: Optional[EventStream] = None
    """The stream for what belongs to no request."""
    ended = shut = False

    def __init__(self, make_handler: MakeHandler, end: Callable[[Session], None]) -> None:
        self.id, self.key = secrets.token_urlsafe(32), secrets.token_hex(6)
        self.handler = make_handler(self.post, partial(end, self))
        self.responses: list[PostResponse] = []
        self.pending: list[Line] = []  # what `unsolicited` is to send, or the next one
        self.used_at = time.monotonic()
        self.calls = Calls("http", lambda *_: False, len)  # of all responses, each of which sends its own
        self.stream_numbers = count(1)

    def stream(self, name: str) -> Optional[EventStream]:
        """The stream of this name, as long as it goes on; None where there is none."""
        streams = [self.unsolicited, *(response.stream for response in list(self.responses))]
        return next((each for each in streams if each is not None and each.name == name and not each.done), None)

    def post(self, line: Line) -> None:
        """Have a notification sent that belongs to no request, as soon as there is a stream for it. Never blocks."""
        self.pending.append(line)
        stream = self.unsolicited
        if stream is not None:
            stream.wake()

    # ------------------------------------------------------------ what is no request

    def take(self, message: Union[Notification, Response, Failure]) -> None:
        """The client answers a question, cancels a request or notifies."""
        if not isinstance(message, Notification):
            ending = message.result if isinstance(message, Response) else message
            if message.id is None or not self.calls.settle(message.id, ending):
                log.debug("<-- an answer to %s, which nobody waits for", one_line(message.id))
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"), message.params.get("reason"))
        else:
            self.handler.notified(message)

    def _cancel(self, id: object, reason: object) -> None:
        named = [
            (response, request)
            for response in list(self.responses)
            for request in response.incoming
            if type(request.request.id) is type(id) and request.request.id == id
            and request.request.method != "initialize" and not request.finished
        ]
        if len(named) != 1:  # clients may use an id for several requests at once: then it names none of them
            log.debug("cancelled: %s is unknown, finished or not the only one", one_line(id))
            return
        response, request = named[0]
        alone = request.batch is None and response.requests.claim(request)
        request.cancel(reason if isinstance(reason, str) else None)
        if alone:  # the answers of an array leave together
            response.spawn(response.finish)

    def end(self, reason: str) -> None:
        """Let go of everything. Idempotent."""
        if self.ended:
            return
        self.ended, cause = True, ConnectionLost(f"http: {reason}")
        self.calls.close(cause)
        for response in list(self.responses):
            response.cancel(reason)
            response.spawn(response.finish)
        if self.unsolicited is not None:
            self.unsolicited.finish()
        self.handler.lost(cause)

    def __repr__(self) -> str:
        return f"<Session {self.key} {len(self.responses)} running>"  # never the id: who knows it is let in
