"""The sessions of an HTTP server, its responses, which may be event streams, and the store that
keeps their events.

A session is what is kept of a client that has sent `initialize`. Requests that stand alone have
none. The response to a POST is one JSON body, unless something comes before its answer; that to a
GET is an event stream. A stream with a name outlives its connection: its events have ids, a store
keeps them, and it goes on where a client that comes back has left it.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, Union

from .. import errors
from ..engine.calls import Calls, PendingCall
from ..engine.connection import ConnectionRole
from ..engine.dispatch import Dispatcher
from ..engine.incoming import IncomingRequest, Line, Sink
from ..engine.liveness import Pinged
from ..engine.pool import waiting
from ..engine.rates import whole_seconds
from ..engine.shares import Place
from ..engine.timer import NEVER, Deadline, timer
from ..errors import Cancelled, CapabilityNotSupported, ConnectionLost
from ..log import logger
from ..protocol.lifecycle import Peer
from ..protocol.messages import ERROR_CODE, Failure, Id, Notification, Response, Result
from ..protocol.versions import Revision
from .headers import JSON_TYPE, ResponseWriter
from .sse import KEEP_ALIVE, MEDIA_TYPE, format_event

if TYPE_CHECKING:
    from .endpoint import Endpoint

log = logger("minimcp.http")

# Status of a response whose body is an error, where requests stand alone; of other errors it is
# 200.
STATUS = {
    errors.PARSE_ERROR: 400,
    errors.INVALID_REQUEST: 400,
    errors.INVALID_PARAMS: 400,
    errors.METHOD_NOT_FOUND: 404,
    errors.HEADER_MISMATCH: 400,
    errors.MISSING_CAPABILITY: 400,
    errors.UNSUPPORTED_VERSION: 400,
}

# Why a request that stands alone is cancelled.
GONE = "the client has closed the connection"

# Seconds that a session may be unused whose client has not said `notifications/initialized`.
BEGIN_SECONDS = 60.0

# Seconds after which a client is told to come back when the store of sessions is away.
RETRY_SECONDS = 1

# The mark of the last event of a call, for other processes.
LAST = -1

# Seconds after which a question ends that no client can see: its client has left, and cannot fetch
# the stream with the question.
UNSEEN_SECONDS = 60.0

# What a client is told to wait before it comes back, unless a handler says otherwise.
RETRY_MS = 1000

# What is not longer is written at once where the peer takes anything at all.
SHORT_BYTES = 1024

STREAM_HEADERS = [
    ("Content-Type", MEDIA_TYPE),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
]

Trace = Callable[[str, bytes], None]
# Makes what the messages of a session mean, given its way to send notifications, and how to end it.
MakeRole = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionRole]


class EventStore:
    """Keeps what was sent on event streams, for clients that lost one. Thread-safe.

    When there is no room, the oldest goes first of the session that takes most of it; one event
    above an eighth of the bytes is not kept, so that no client loses much by what another one is
    sent.

    It is in the memory of one process. Those that share a ``Server(store=...)`` keep events there,
    for all of them.

    Args:
        max_events: Events in all, of this process.
        max_bytes: Bytes in all, of this process.

    Raises:
        ValueError: A number is less than 1.
    """

    def __init__(self, max_events: int = 1000, max_bytes: int = 8 * 1024 * 1024) -> None:
        if max_events < 1 or max_bytes < 1:
            raise ValueError("an event store has room for at least 1 event of at least 1 byte")
        self._max_events, self._max_bytes = max_events, max_bytes
        self._sessions: dict[
            str, deque[tuple[str, int, bytes]]
        ] = {}  # streams, numbers and what the events say
        self._sizes: dict[str, int] = {}
        self._events = self._bytes = 0
        self._lock = threading.Lock()

    def begin(self, stream: str, ids: Optional[Sequence[Id]]) -> None:
        """A stream begins.

        Args:
            stream: Its name.
            ids: Of the requests that it answers; None for that of what belongs to no request.
        """

    def add(self, stream: str, number: int, data: bytes, mark: int = 0) -> None:
        """Keep an event.

        Args:
            stream: The name of its stream.
            number: Its place there; they rise by 1.
            data: What it says.
            mark: For other processes: `LAST` in the last of a call, or what `Session.position` was
                when it was made.
        """
        session = stream.partition(".")[0]
        with self._lock:
            events = self._sessions.setdefault(session, deque())
            events.append((stream, number, data))
            self._count(session, 1, len(data))
            if (
                len(data) > self._max_bytes / 8
            ):  # nor what came before it there, behind which nobody can go on
                self._keep(session, [event for event in events if event[0] != stream])
            while self._events > self._max_events or self._bytes > self._max_bytes:
                most = session  # where it has its share or more: to look at all of them takes long
                if session not in self._sessions or self._share(session) * len(self._sessions) < 1:
                    most = max(self._sessions, key=self._share)
                _, _, oldest = self._sessions[most].popleft()
                self._count(most, -1, -len(oldest))
                if not self._sessions[most]:
                    self._keep(most, ())

    def _count(self, session: str, events: int, size: int) -> None:
        self._events += events
        self._bytes += size
        self._sizes[session] = self._sizes.get(session, 0) + size

    def _keep(self, session: str, events: Sequence[tuple[str, int, bytes]]) -> None:
        """Have a session no other events than these."""
        before = self._sessions.pop(session, ())
        self._events += len(events) - len(before)
        self._bytes -= self._sizes.pop(session, 0)
        if events:
            self._sessions[session] = deque(events)
            self._count(session, 0, sum(len(data) for _, _, data in events))

    def _share(self, session: str) -> float:
        """The part of the room that a session takes."""
        return max(
            len(self._sessions[session]) / self._max_events, self._sizes[session] / self._max_bytes
        )

    def after(self, stream: str, number: int) -> Optional[list[tuple[int, bytes]]]:
        """The events of a stream behind this one; None when it is not known any more which they
        were."""
        with self._lock:
            kept = self._sessions.get(stream.partition(".")[0], ())
            events = [(number, data) for name, number, data in kept if name == stream]
        if not events or not events[0][0] - 1 <= number <= events[-1][0]:
            return None
        return events[number + 1 - events[0][0] :]

    def forget(self, session: str) -> None:
        """Drop the streams of a session: those whose names begin with this and a point."""
        with self._lock:
            self._keep(session, ())

    def __repr__(self) -> str:
        return f"<EventStore {self._events} events, {self._bytes} bytes>"


class ResponseSink(Sink):
    """The response to one POST with requests, and the sink of everything that belongs to them; or
    that to a GET.

    It is one body if the answer is the first that is sent, else an event stream, which may outlive
    its connection. Thread-safe.

    Args:
        endpoint: Whose response it is.
        session: Whose client can be asked and may come back; None where there is none.
        revision: That is spoken. After a handshake errors have status 200, and a client that has
            gone does not cancel its request.
        writer: Where it goes; None for a stream that is done, for a client that comes back to see
            how it ended.
        streams: Whether it may be an event stream; where not, only the answer is sent.
        pending: Lines to be sent, which the streams of one session that follow each other share;
            None makes an own one.

    Attributes:
        name: Of the stream, no other has it; empty where the client cannot come back.
        streaming: Whether it is an event stream; None as long as nothing was sent.
        incoming: The requests.
        headers: To send beside those of the body's kind.
        answered: Turns true when the last message is sent, or nobody is there for it.
        listens: Whether it counts among the streams of change notifications.
        place: Counts it among the streams of its client.
        detached: Whether its connection was released while its handlers run.
        retry_after: Seconds after which the client may try again, if it was rejected whole.
        done: Turns true when nothing more will be sent, and the last byte is written.
    """

    headers: tuple[tuple[str, str], ...] = ()
    # Whether the request accepts nothing but JSON, and whether a handler wanted to ask the client
    # although it does: then an error has status 406.
    _only_json = False
    _asked_in_vain = False
    place: Optional[Place] = None
    detached = False
    retry_after: Optional[float] = None
    # Whether the client was sent the id of an event, by which it can fetch the rest.
    _is_resumable = False
    # When the client left; None while it is here.
    _left_at: Optional[float] = None
    # Cancels the call of `_end_unseen`, which would keep this object for a minute.
    _cancel_look: Callable[[], object] = int
    _on_done: Optional[Callable[[], None]] = None

    def __init__(
        self,
        endpoint: Endpoint,
        session: Optional[Session],
        revision: Revision,
        writer: Optional[ResponseWriter],
        streams: bool = True,
        pending: Optional[list[Line]] = None,
    ) -> None:
        self._endpoint, self.requests, self.pool = endpoint, endpoint.requests, endpoint.pool
        self.context = copy_context()
        self.session, self._revision = session, revision
        self.session_name = "" if session is None else session.key
        self.origin = self.session_name or None
        self._store = None if session is None else endpoint.store  # where a client may come back
        self.writer, self.done, self._last = writer, writer is None, -1 if writer is None else 0
        self.name, self.streaming = "", None if streams else False
        self.listens = self.answered = self._begun = self._primed = self._ending = False
        self._of_call = pending is None
        self.incoming: list[IncomingRequest] = []
        self._pending: list[Line] = [] if pending is None else pending
        self._wrote_at, self._thread = time.monotonic(), threading.get_ident()
        self._write_lock = threading.RLock()  # orders what is written
        self._waiting: list[
            SimpleQueue[None]
        ] = []  # one of each thread that waits; a Condition takes 1 kB a stream

    def choose_form(self, forms: tuple[bool, bool]) -> None:
        """Be a JSON body or an event stream, if the request accepts only one of them.

        Args:
            forms: As `accepted_forms` returns them.
        """
        may_be_json, may_be_stream = forms
        if not may_be_stream and self.streaming is None:
            self.streaming = False
            self._only_json = True
        elif not may_be_json:
            self.open()

    def open(self) -> bool:
        """Whether this is an event stream; from now on, if it may be one and nothing was sent."""
        if self.streaming is None:
            named = False
            with self._endpoint.lock:
                if self.streaming is None and not self.answered:
                    if self.session is not None and self._store is not None:
                        self.continue_stream(
                            f"{self.session.key}.{next(self.session.stream_numbers)}"
                        )
                        named = True
                    self.streaming = True
            if named and self._store is not None:
                self._store.begin(
                    self.name,
                    [each.request.id for each in self.incoming] if self._of_call else None,
                )
        return bool(self.streaming)

    def continue_stream(self, name: str, last: int = 0) -> None:
        """Be the stream of this name, behind so many events."""
        self.name, self._last = name, last
        self._primed = self._revision.polling  # it begins with an event that has only an id
        self.streaming = True  # last: other threads write from now on

    # ------------------------------------------------------------ writing

    def serve(self, writer: Optional[ResponseWriter] = None) -> None:
        """Write what is posted until all is done.

        Args:
            writer: Until then, or until the stream does not go there any more; None does not look.
        """
        with waiting():
            while not self._has_served(writer):
                try:
                    with self._write_lock:
                        if writer is not None:
                            self._write(b"")  # it begins before there is anything to say
                        self._flush(writer)
                except ConnectionLost as error:
                    log.debug("%s", error)
                self._wait_for(lambda: self._has_served(writer) or self._pending)

    def _has_served(self, writer: Optional[ResponseWriter]) -> bool:
        return self._is_over(writer) or (writer is None and self.detached)

    def _is_over(self, writer: Optional[ResponseWriter]) -> bool:
        return self.done or (writer is not None and self.writer is not writer)

    def _flush(self, writer: Optional[ResponseWriter] = None) -> None:
        """Send what is pending, as long as it goes there (write lock held)."""
        while self._pending and not self._is_over(writer):
            try:
                line, session = self._pending.pop(0), self.session
            except IndexError:  # a stream of this session that ends, or one that begins, was faster
                return
            mark = (
                0 if session is None or self._of_call else session.position()
            )  # before it is made
            if self._ending and not self._pending:
                mark = LAST
            for each in ((line() if callable(line) else line) or b"").splitlines(keepends=True):
                if self._endpoint.trace is not None:
                    self._endpoint.trace("-->", each.rstrip(b"\n"))
                self._last += 1
                if self._store is not None:
                    self._store.add(self.name, self._last, each, mark)
                elif self.writer is None:
                    raise ConnectionLost("the client has gone")
                self._write(
                    format_event(each, id=f"{self.name}/{self._last}" if self.name else None)
                )

    def _write(self, data: bytes, retry: int = RETRY_MS) -> None:
        """Begin and write, if the client is there; with a store it may come back for what is kept
        (write lock held)."""
        writer = self.writer  # `leave` may take it away at any moment
        try:
            if writer is not None and not self._begun:
                self._begun = True
                status, more = self._rejection() or (200, ())
                writer.begin(status, [*STREAM_HEADERS, *more, *self.headers])
                if self._primed:
                    writer.write(format_event(b"", id=f"{self.name}/0", retry=retry))
                    self._is_resumable = True
            if writer is not None and data:
                writer.write(data)
                self._wrote_at = time.monotonic()
                self._is_resumable = bool(self.name)
        except ConnectionLost:
            self.writer = None
            if self._store is None:
                raise

    def _rejection(self) -> Optional[tuple[int, tuple[tuple[str, str], ...]]]:
        """Return the status and a header if the client exceeded its rate with every request;
        otherwise None."""
        if self.retry_after is not None:
            return 429, (("Retry-After", str(whole_seconds(self.retry_after))),)
        waits = [each.retry_after or 0.0 for each in self.incoming]
        if not waits or min(waits) == 0.0:
            return None
        return 429, (("Retry-After", str(whole_seconds(*waits))),)

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for so long; never waits for another writer or the
        peer, never raises."""
        shared = (
            self.session is not None and self.session.shared is not None
        )  # what is written goes to a store first
        if self.streaming is None and time.monotonic() - self._wrote_at >= seconds:
            if shared:
                self.spawn(self.open)
                return
            self.open()
        if not self.streaming or not self._write_lock.acquire(blocking=False):
            return
        try:
            writer = self.writer
            if self.done or writer is None or not writer.has_room() or (shared and self._pending):
                return
            if (
                sum(SHORT_BYTES if callable(line) else len(line) for line in self._pending)
                < SHORT_BYTES
            ):
                self._flush()
                if time.monotonic() - self._wrote_at >= seconds:
                    self._write(KEEP_ALIVE)
        except ConnectionLost as error:
            log.debug("%s", error)
        finally:
            self._write_lock.release()

    # ------------------------------------------------------------ ending

    def finish(self, line: bytes = b"") -> None:
        """Send the last message, as the whole body if it is the first; or end without one. Never
        raises."""
        with self._endpoint.lock:
            first, self.answered = not self.answered, True
        if not (first or self.streaming):
            return
        if self.session is not None and self._of_call:
            self.session.before_answer()
        try:
            if self.streaming:
                self._end_stream(line)
            elif self.writer is not None:
                status, headers = 200, STREAM_HEADERS
                if line:
                    headers = [("Content-Type", JSON_TYPE)]
                    if self._endpoint.trace is not None:
                        self._endpoint.trace("-->", line.rstrip(b"\n"))
                    found = None if self._revision.handshake else re.match(ERROR_CODE, line)
                    status = STATUS.get(int(found[1]), 200) if found else 200
                    if self._asked_in_vain and _is_error(line):
                        status = 406
                    status, more = self._rejection() or (status, ())
                    headers.extend(more)
                self.writer.send(status, [*headers, *self.headers], line)
        except ConnectionLost as error:
            log.debug("an answer could not be written: %s", error)
        finally:
            # Not before: who is in `serve` takes the response for complete then.
            with self._endpoint.lock:
                self.done = True
                on_done, self._on_done = self._on_done, None
            self.wake()
            if on_done is not None:
                on_done()

    def _end_stream(self, line: bytes) -> None:
        with self._write_lock:
            try:
                self._ending = self._of_call
                if line:
                    self.event(line)
                elif self._of_call and self.session is not None and self.session.shared is not None:
                    self.session.shared.events.add(self.name, self._last + 1, b"", LAST)
                if not self.done:
                    self._write(b"")
                writer = self.writer  # as in `_write`
                if writer is not None and not self.done:
                    writer.end()
            finally:
                self.done = True

    def cancel(self, reason: str) -> None:
        """The client has gone, or the session ends: nothing more is sent for what runs. Never
        blocks."""
        for request in list(self.incoming):
            if self.requests.end(request):
                request.token.cancel(reason)

    def lost(self) -> None:
        """The client has gone for good, which cancels a request that stands alone. Never blocks."""
        self.answered = True  # first: who adds a request looks at it then
        self.cancel(GONE)
        self.done = True
        self.wake()

    def wait(self, deadline: Deadline) -> None:
        """Wait until it is done, or the deadline comes."""
        self._wait_for(lambda: self.done, deadline)

    def _wait_for(self, over: Callable[[], object], deadline: Deadline = NEVER) -> None:
        woken: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(woken)
        try:
            while not over() and not deadline.expired:
                with suppress(Empty):
                    woken.get(timeout=deadline.to_wait())
        finally:
            self._waiting.remove(woken)

    def wake(self) -> None:
        """Have those that wait look whether there is something to do: what they wait for has
        happened before this."""
        for woken in list(self._waiting):
            woken.put(None)

    # ------------------------------------------------------------ leaving and coming back

    def close_for_polling(self, seconds: float) -> bool:
        retry = max(0, int(seconds * 1000))
        with self._write_lock:
            if not self.open() or not self._primed or self.done:
                return False
            self._write(b"retry: %d\n\n" % retry if self._begun else b"", retry)
            writer, self.writer = self.writer, None
            if writer is not None:
                writer.end()
        return True

    def resume(self, writer: ResponseWriter, number: int) -> bool:
        """Go on with another connection, behind the event of this number; False when that is not
        possible any more."""
        with self._write_lock:
            missed = (
                []
                if number == self._last or self._store is None
                else self._store.after(self.name, number)
            )
            if missed is None:
                return False
            before, self.writer, self._begun = self.writer, writer, True
            if before is not None and before is not writer:
                before.end()
            try:
                writer.begin(200, [*STREAM_HEADERS, *self.headers])
                for at, line in missed:
                    writer.write(format_event(line, id=f"{self.name}/{at}"))
                if self.done:
                    writer.end()
            except ConnectionLost:
                self.writer = None
        self.wake()
        return True

    def is_connected(self) -> bool:
        """Whether this goes anywhere now."""
        writer = self.writer
        if writer is not None:
            writer.look()
        return self.writer is not None and not self.done

    def leave(self, writer: ResponseWriter) -> None:
        """The connection of this writer is gone; where the client cannot come back that is the end.
        Never blocks."""
        if self.writer is writer:
            self.writer = None
        if self._store is None:
            self.done = True
        self.wake()

    def is_sending(self) -> bool:
        """Return whether anything waits to be sent."""
        return bool(self._pending)

    def detach(self, writer: ResponseWriter) -> None:
        """Release the connection of requests that run on without it. Never blocks."""
        if self.writer is writer:
            self.writer = None
        self._left_at = time.monotonic()
        self.detached = True
        self.wake()
        if self.session is not None:
            self._cancel_look = timer.after(UNSEEN_SECONDS, self._end_unseen)
            if self.done:
                self._cancel_look()

    def forget_client(self) -> None:
        """Look no more whether a client that left can see a question, because none is asked."""
        self._cancel_look()
        self._cancel_look = int

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call a function when nothing more will be sent; now if that is so."""
        with self._endpoint.lock:
            if not self.done:
                self._on_done = callback
                return
        callback()

    def _is_unseen(self) -> bool:
        """Return whether the client left long ago, and cannot fetch what is sent."""
        if self._left_at is None or self.writer is not None:
            return False
        can_fetch = self._store is not None and self._is_resumable
        return not can_fetch and time.monotonic() - self._left_at >= UNSEEN_SECONDS

    def _end_unseen(self) -> None:
        if self._is_unseen():
            for incoming in list(self.incoming):
                incoming.end_questions(_unseen())

    def let_go(self, writer: ResponseWriter) -> None:
        """End a response to a GET politely; the client may come back with another token."""
        with self._write_lock:
            if self.writer is writer:
                self.writer = None
                writer.end()
        if self._store is None:
            self.done = True
        self.wake()

    # ------------------------------------------------------------ as a sink

    def event(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send an event, behind what was posted; nothing where this is no event stream, or all is
        done.

        Raises:
            ConnectionLost: The peer is gone, and cannot come back for it.

        Blocks: until the peer takes it.
        """
        if self.streaming or self.open():
            self._pending.append(line)
            with self._write_lock:
                self._flush()
        return True

    def send(self, line: bytes) -> None:
        try:
            self.event(line)
        except ConnectionLost as error:
            if not self._revision.handshake:
                self.lost()  # most writers have said so already
                raise Cancelled(GONE) from error

    def post(self, line: Line) -> None:
        if self.open():
            self._pending.append(line)
            self.wake()

    def deliver(self, line: bytes, wait: bool) -> None:
        if wait or self._thread == threading.get_ident():  # which waits in any case
            self.finish(line)
        else:
            self.spawn(partial(self.finish, line))

    def asking(self) -> Calls:
        if self._only_json and self.session is not None:
            self._asked_in_vain = True
            raise CapabilityNotSupported(
                "the client cannot be asked: the Accept header of its request allows JSON only, and "
                f"a question needs {MEDIA_TYPE}"
            )
        if self.session is None or self.streaming is False:
            raise CapabilityNotSupported(
                "the client cannot be asked on the way that this request came"
            )
        if self._is_unseen():
            raise _unseen()
        if self._endpoint.cannot_ask:
            raise CapabilityNotSupported(self._endpoint.cannot_ask)
        return self.session.calls.through(self._ask, self.post)

    def _ask(self, line: bytes, deadline: Deadline) -> bool:
        """Send questions. Errors as `event`."""
        assert self.session is not None
        self.session.before_question()
        return self.event(line, deadline)


def _unseen() -> ConnectionLost:
    return ConnectionLost(
        "http: the client has closed the connection of this call, and cannot see the question"
    )


def _is_error(line: bytes) -> bool:
    """Return whether a response is an error, or the result of a tool that failed."""
    response = json.loads(line)
    return "error" in response or response["result"].get("isError") is True


class Session(Pinged):
    """What is kept of one client. Thread-safe.

    Args:
        make_role: Makes what its messages mean.
        end: Called when the client wants the session to end.
        principal: Who has opened it, and nobody else may use it; None where nobody asks who it is.
    """

    peer: Optional[Peer] = None
    # The stream for what belongs to no request.
    unsolicited: Optional[ResponseSink] = None
    shut = False
    # Where several processes share it: those that this one knows.
    shared: Any = None
    # Counts it among the sessions of its client.
    place: Optional[Place] = None
    # Ends it, if its client does not respond to pings. Must not block.
    end_silent: Callable[[], object]
    stream_numbers: Iterator[int]

    def __init__(
        self, make_role: MakeRole, end: Callable[[Session], None], principal: Optional[str] = None
    ) -> None:
        self.principal = principal
        self.id, self.key = secrets.token_urlsafe(32), secrets.token_hex(6)
        self.role = make_role(self.post, partial(end, self))
        self.responses: list[ResponseSink] = []
        self.pending: list[Line] = []  # what `unsolicited` is to send, or the next one
        self.used_at = time.monotonic()
        self.calls = Calls(
            "http", lambda *_: False, len
        )  # sends nothing: each response does, by a view `through` it
        self.dispatcher = Dispatcher(self, self.role, self.cancel)
        self.stream_numbers = count(1)

    @property
    def initialized(self) -> bool:
        """Whether its client has sent `notifications/initialized`."""
        return self.peer is not None and self.peer.initialized

    def stream(self, name: str) -> Optional[ResponseSink]:
        """The stream of this name, as long as it goes on; None where there is none."""
        streams = [self.unsolicited, *self.responses]
        return next(
            (each for each in streams if each is not None and each.name == name and not each.done),
            None,
        )

    def post(self, line: Line) -> None:
        """Have a notification sent that belongs to no request, as soon as there is a stream for it.
        Never blocks."""
        self.pending.append(line)
        stream = self.unsolicited
        if stream is not None:
            stream.wake()

    def before_answer(self) -> None:
        """The answer to a request is about to leave. Never raises."""

    def before_question(self) -> None:
        """Questions that are in the table of `calls` are about to be sent. Never raises."""

    def position(self) -> int:
        """Up to where changes were told here, in the log of all processes; 0 where there is one
        process."""
        return 0

    # ------------------------------------------------------------ pings

    def is_idle(self) -> bool:
        return not self.responses

    def send_ping(self) -> Optional[PendingCall]:
        ping = self.role.ping()
        stream = self.unsolicited
        if ping is None or stream is None or not stream.is_connected():
            return None
        return self.calls.through(stream.event, partial(self.post_ping, stream)).ping(*ping)

    def post_ping(self, stream: ResponseSink, line: bytes) -> None:
        """Send a ping on a stream. Never blocks."""
        stream.post(line)

    def lose(self, cause: ConnectionLost) -> None:
        self.end_silent()

    # ------------------------------------------------------------ what is no request

    def take(self, message: Union[Notification, Response, Failure]) -> None:
        """Handle a message of the client that is not a request."""
        self.dispatcher.receive(message)

    def cancel(self, params: Result) -> bool:
        """Handle `notifications/cancelled`. Return False if it names no request here."""
        id, reason = params.get("requestId"), params.get("reason")
        named = [
            (response, request)
            for response in list(self.responses)
            for request in response.incoming
            if type(request.request.id) is type(id)
            and request.request.id == id
            and request.request.method != "initialize"
            and request.is_due
        ]
        if (
            len(named) != 1
        ):  # clients may use an id for several requests at once: then it names none of them
            log.debug("cancelled: %s is unknown, finished or not the only one", id)
            return bool(named)
        response, request = named[0]
        alone = request.batch is None and response.requests.end(request)
        request.token.cancel(reason if isinstance(reason, str) else None)
        if alone:  # the answers of an array leave together
            response.spawn(response.finish)
        return True

    def end(self, reason: str) -> None:
        """Let go of everything."""
        self.stop_pings()
        if self.place is not None:
            self.place.leave()
        cause = ConnectionLost(f"http: {reason}")
        self.calls.close(cause)
        for response in list(self.responses):
            response.cancel(reason)
            response.spawn(response.finish)
        if self.unsolicited is not None:
            self.unsolicited.spawn(self.unsolicited.finish)
        self.role.lost(cause)

    def __repr__(self) -> str:
        # never the id: who knows it is let in
        return f"<Session {self.key} {len(self.responses)} running>"
