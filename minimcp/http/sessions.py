"""The sessions of an HTTP server, the responses to their POSTs, and the timer that looks after both.

A session is what is kept of a client that has sent `initialize`. Requests that stand alone have none.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import deque
from functools import partial
from itertools import count
from typing import Any, Callable, Optional, Union

from ..engine.connection import ConnectionHandler
from ..engine.pool import Job, Pool
from ..engine.requests import Calls, IncomingRequest, Line, RunningRequests, Sink
from ..engine.timer import NEVER, Deadline, timer
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
    one_line,
)
from ..protocol.lifecycle import Peer
from ..protocol.messages import Failure, Notification, Response
from ..protocol.versions import Revision
from .headers import ResponseWriter
from .streams import EventStore, EventStream

log = logging.getLogger("minimcp.http")

STATUS = {
    PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, METHOD_NOT_FOUND: 404, HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400, UNSUPPORTED_VERSION: 400,
}
"""Status of a response whose body is an error, where requests stand alone; of other errors it is 200."""

GONE = "the client has closed the connection"
"""Why a request that stands alone is cancelled."""

LOOKS = 20
"""How often in the life of an idle session the timer looks at it."""

_CODE = re.compile(rb'\{"jsonrpc":"2\.0",(?:"id":(?:-?\d+|"(?:[^"\\]|\\.)*"),)?"error":\{"code":(-?\d+)')

MakeHandler = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionHandler]
"""Makes what the messages of a session mean, given its way to send notifications, and how to end it."""


def status_of(line: bytes) -> int:
    """The status of a response with this answer, where requests stand alone."""
    found = _CODE.match(line)
    return STATUS.get(int(found[1]), 200) if found else 200


class PostResponse(EventStream, Sink):
    """The response to one POST with requests, and the sink of everything that belongs to them.

    Args:
        requests: Those of the server over HTTP that are not answered yet.
        pool: For what nothing may wait for.
        session: Whose client can be asked; None where there is none.
        handshake: Whether the client has sent `initialize`: errors have status 200 then, and a client that has gone
            does not cancel its request.
        streams: Whether it may be an event stream; where not, only the answer is sent.
        writer: As `EventStream`, like all further options.
    """

    def __init__(
        self,
        requests: RunningRequests,
        pool: Pool,
        session: Optional[Session],
        writer: ResponseWriter,
        *,
        handshake: bool,
        streams: bool,
        **options: Any,
    ) -> None:
        super().__init__(writer, **options)
        self.requests, self._pool, self._session = requests, pool, session
        self._handshake, self._streams = handshake, streams
        self.incoming: list[IncomingRequest] = []

    def cancel(self, reason: str) -> None:
        """The client has gone, or the session ends: nothing more is sent for what runs. Never blocks."""
        for request in list(self.incoming):
            if self.requests.claim(request):
                request.cancel(reason)

    def lost(self) -> None:
        """The client has gone, which cancels a request that stands alone. Never blocks."""
        self.cancel(GONE)
        self.abandon()

    # ------------------------------------------------------------ as a sink

    def send(self, line: bytes) -> None:
        if not self._streams:
            return
        try:
            self.event(line)
        except ConnectionLost as error:
            if not self._handshake:
                self.lost()  # most writers have said so already
                raise Cancelled(GONE) from error

    def deliver(self, line: bytes, wait: bool) -> None:
        if not line:
            return
        answer = partial(self.finish, line, 200 if self._handshake else status_of(line))
        if wait:
            answer()
        else:
            self.spawn(answer)

    def spawn(self, job: Job) -> None:
        self._pool.spawn(job)

    def release(self, seconds: float) -> bool:
        return self._streams and super().release(seconds)

    def asking(self) -> Calls:
        if self._session is None or not self._streams:
            raise CapabilityNotSupported("the client cannot be asked on the way that this request came")
        return self._session.calls.through(self._ask, self.queue)

    def _ask(self, lines: bytes, deadline: Deadline = NEVER) -> bool:
        for line in lines.splitlines(keepends=True):
            self.event(line)
        return True


class Session:
    """What is kept of one client. Thread-safe.

    Args:
        make_handler: Makes what its messages mean.
        end: Called when the client wants the session to end.
    """

    def __init__(self, make_handler: MakeHandler, end: Callable[[Session], None]) -> None:
        self.id, self.key = secrets.token_urlsafe(32), secrets.token_hex(6)
        self.handler = make_handler(self.post, partial(end, self))
        self.peer: Optional[Peer] = None
        self.revision: Revision  # of the peer
        self.calls = Calls("http", _nowhere, _nowhere)
        self.unsolicited: Optional[EventStream] = None
        self.responses: list[PostResponse] = []
        self.used_at = time.monotonic()
        self.ended = self.shut = False
        self._posted: Optional[deque[Line]] = None
        self._lock = threading.Lock()
        self._numbers = count(1)

    def new_stream_name(self) -> str:
        """A name that no other stream of any session has."""
        return f"{self.key}.{next(self._numbers)}"

    def stream(self, name: str) -> Optional[EventStream]:
        """The stream of this name, as long as it goes on; None where there is none."""
        open_ones: list[EventStream] = list(self.responses)
        if self.unsolicited is not None and not self.unsolicited.done:
            open_ones.append(self.unsolicited)
        return next((stream for stream in open_ones if stream.name == name), None)

    @property
    def busy(self) -> bool:
        """Whether something runs or is open."""
        stream = self.unsolicited
        return bool(self.responses) or (stream is not None and stream.connected and not stream.done)

    def post(self, line: Line) -> None:
        """Have a notification sent that belongs to no request, as soon as there is a stream for it. Never blocks."""
        with self._lock:
            if self._posted is None:
                self._posted = deque() if self.unsolicited is None else self.unsolicited.posted
            self._posted.append(line)
            stream = self.unsolicited
        if stream is not None:
            stream.wake()

    def listen(self, stream: EventStream) -> bool:
        """Send what belongs to no request on this stream from now on; False when another one is connected."""
        with self._lock:
            before = self.unsolicited
            if before is not None and before.connected:
                return False
            if self._posted is not None:
                stream.posted = self._posted
            else:
                self._posted = stream.posted
            self.unsolicited = stream
        if before is not None:
            before.abandon()
        return True

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
            response.spawn(response.close)

    def end(self, reason: str) -> None:
        """Let go of everything. Idempotent."""
        if self.ended:
            return
        self.ended = True
        cause = ConnectionLost(f"http: {reason}")
        self.calls.close(cause)
        for response in list(self.responses):
            response.cancel(reason)
            response.spawn(response.close)
        if self.unsolicited is not None:
            self.unsolicited.close()
        self.handler.lost(cause)

    def __repr__(self) -> str:
        return f"<Session {self.key} {len(self.responses)} running>"  # never the id: who knows it is let in


def _nowhere(*_: object) -> bool:
    """The way of questions that belong to no request: there is none."""
    raise CapabilityNotSupported("the client can be asked only while one of its requests runs")


class Sessions:
    """All sessions of one server, and its open streams. One timer ends unused sessions and sends comments.

    Thread safety: all methods, from any thread.

    Args:
        store: Forgets what it keeps of a session that has ended; None keeps nothing.
        most: How many there may be; None means no limit.
        ttl: Seconds after which one that is not used ends; None means never.
        keepalive: Seconds within which a silent stream gets a comment; None sends none.
    """

    def __init__(
        self, store: Optional[EventStore], *, most: Optional[int], ttl: Optional[float], keepalive: Optional[float]
    ) -> None:
        self._store, self._most, self._ttl, self._keepalive = store, most, ttl, keepalive
        periods = [seconds for seconds in (keepalive and keepalive / 2, ttl and ttl / LOOKS) if seconds]
        self._period = min(periods) if periods else None
        self._sessions: dict[str, Session] = {}
        self._streams: dict[EventStream, None] = {}
        self._lock = threading.Lock()
        self._forget_look: Optional[Callable[[], None]] = None
        self._closed = False

    def add(self, session: Session) -> None:
        """Take a new session in. Raises InternalError: there are too many."""
        if self._most is not None and len(self._sessions) >= self._most:
            self._end_unused()
        with self._lock:
            if self._most is not None and len(self._sessions) >= self._most:
                raise InternalError(f"there are {self._most} sessions already (max_sessions): try again later")
            self._sessions[session.id] = session
        self._order_look()

    def find(self, id: str) -> Optional[Session]:
        """The session of this id, which is used now; None where there is none."""
        session = self._sessions.get(id)
        if session is None:
            return None
        now = time.monotonic()
        if self._is_unused(session, now):
            self.end(session, "it was not used")
            return None
        session.used_at = now
        return session

    def end(self, session: Session, reason: str) -> None:
        """End a session. Idempotent."""
        with self._lock:
            self._sessions.pop(session.id, None)
        session.end(reason)
        if self._store is not None:
            self._store.forget(session.key)

    def _is_unused(self, session: Session, now: float) -> bool:
        return self._ttl is not None and now - session.used_at > self._ttl and not session.busy

    def _end_unused(self) -> None:
        now = time.monotonic()
        for session in list(self._sessions.values()):
            if self._is_unused(session, now):
                self.end(session, "it was not used")

    def end_streams(self) -> None:
        """End the streams for what belongs to no request."""
        for session in list(self._sessions.values()):
            if session.unsolicited is not None:
                session.unsolicited.close()

    def close(self, reason: str) -> None:
        """End them all, and the timer's looks."""
        with self._lock:
            self._closed = True
            if self._forget_look is not None:
                self._forget_look()
        for session in list(self._sessions.values()):
            self.end(session, reason)

    # ------------------------------------------------------------ the timer

    def open_stream(self, stream: EventStream) -> None:
        """A stream is open, which may be silent for long."""
        self._streams[stream] = None
        self._order_look()

    def close_stream(self, stream: EventStream) -> None:
        """It is open no more. Idempotent."""
        self._streams.pop(stream, None)

    def _order_look(self) -> None:
        if self._forget_look is None and self._period is not None:
            with self._lock:
                if self._forget_look is None and not self._closed:
                    self._forget_look = timer.after(self._period, self._look)

    def _look(self) -> None:
        self._end_unused()
        if self._keepalive is not None:
            for stream in list(self._streams):
                stream.keep_alive(self._keepalive / 2)
        with self._lock:
            self._forget_look = None
        if self._streams or self._sessions:
            self._order_look()

    def __len__(self) -> int:
        return len(self._sessions)
