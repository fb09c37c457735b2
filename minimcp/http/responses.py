"""Responses of an HTTP server: one JSON body, or an event stream.

The response to a POST, a `PostResponse`, is a JSON body if the answer is the first message that is
sent. Otherwise it becomes an `EventStream` at the first event. The response to a GET is an
`EventStream` from the beginning. A stream with a name can outlive its connection: its events have
ids, an `EventStore` keeps them, and a client resumes it with the id of the last event that it
received.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from typing import Callable, Iterator, Optional, Protocol, Sequence

from ..engine.asking import end_questions
from ..engine.calls import Calls
from ..engine.incoming import IncomingRequest, Line, Sink
from ..engine.pool import Job, Pool, waiting
from ..engine.rates import whole_seconds
from ..engine.running import RunningRequests
from ..engine.shares import Place
from ..engine.timer import NEVER, Deadline, timer
from ..errors import Cancelled, CapabilityNotSupported, ConnectionLost
from ..log import logger
from ..protocol.messages import ERROR_CODE, Id
from ..protocol.versions import Revision
from .events import LAST, EventStore
from .headers import JSON_TYPE, STATUS, ResponseWriter
from .sse import KEEP_ALIVE, MEDIA_TYPE, format_event

log = logger("minimcp.http")

# Why a stateless request is cancelled.
GONE = "the client has closed the connection"

# Seconds after which a question that no client can see fails: the client has closed the connection,
# and cannot resume the stream that carries the question.
UNSEEN_SECONDS = 60.0

# Milliseconds after which a client should reconnect, unless a handler sets a different time.
RETRY_MS = 1000

# Messages up to this size are sent by any thread, if the peer has room for them.
SHORT_BYTES = 1024

STREAM_HEADERS = [
    ("Content-Type", MEDIA_TYPE),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
]

Trace = Callable[[str, bytes], None]

HeaderLines = Sequence[tuple[str, str]]

# Status and headers that replace those of a response.
Rejection = tuple[int, HeaderLines]


class ResponseSession(Protocol):
    """The part of a `Session` that its responses use."""

    key: str
    calls: Calls
    stream_numbers: Iterator[int]

    def before_answer(self) -> None:
        """Prepare for the answer to a request."""

    def before_question(self) -> None:
        """Prepare for questions."""

    def position(self) -> int:
        """Return the position of this process in the log of all processes."""


class ResponseEndpoint(Protocol):
    """The part of an `Endpoint` that its responses use."""

    pool: Pool
    requests: RunningRequests
    store: Optional[EventStore]
    trace: Optional[Trace]
    lock: threading.RLock
    cannot_ask: str

    def name_stream(self, session: Optional[ResponseSession]) -> str:
        """Return a name for a new stream; empty if the client cannot resume it."""


class Signal:
    """Wakes the threads that wait for a change of a response. Thread-safe, never blocks others.

    It does the job of a `threading.Condition`, which takes 1 kB of memory for each response.
    """

    def __init__(self) -> None:
        self._waiting: list[SimpleQueue[None]] = []

    def wait_for(self, predicate: Callable[[], object], deadline: Deadline = NEVER) -> None:
        """Wait until the predicate is true, or the deadline has passed."""
        woken: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(woken)
        try:
            while not predicate() and not deadline.expired:
                with suppress(Empty):
                    woken.get(timeout=deadline.to_wait())
        finally:
            self._waiting.remove(woken)

    def notify(self) -> None:
        """Make waiting threads check their predicates again. Call it after the change."""
        for woken in list(self._waiting):
            woken.put(None)


class EventStream:
    """A response that is an event stream: to a POST, to a GET, or resumed. Thread-safe.

    Args:
        endpoint: The endpoint that sends it.
        session: The session; None in stateless revisions.
        revision: The revision of the session.
        writer: The connection; None if the client is not connected.
        name: The unique name of the stream; empty if the client cannot resume it.
        last: The number of the last event of the stream.
        ids: The ids of the requests that the stream answers; None for the stream of a session that
            carries everything that belongs to no request.
        pending: The queue of lines to send. Successive streams of a session share it. If None, a
            new one is created.
        headers: Headers of the response, besides those of every stream.
        changed: Notified when the state of the stream changes; if None, a new one is created.

    Two flags describe the state of the stream. Independently of them, the client may disconnect and
    reconnect (`writer`).

    ============= ===== ===================================================================
    _is_finishing done  the next step
    ============= ===== ===================================================================
    False         False `finish` writes the last event; `abort` and `leave` end it at once
    True          False the thread in `finish` writes the last byte
    any           True  none: nothing more is sent
    ============= ===== ===================================================================

    Attributes:
        writer: The connection; None while the client is not connected.
        done: Whether nothing more will be sent, and the last byte is written.
        wrote_at: When something was last written, as `time.monotonic` returns it; at first, when
            the request arrived.
        is_resumable: Whether the client was sent the id of an event, with which it can resume.
        listens: Whether it counts among the streams of change notifications.
        takes_comments: Whether comments of SSE may keep it alive.
    """

    # Requests that end with it, as in `PostResponse`.
    incoming: Sequence[IncomingRequest] = ()
    done = False
    listens = False
    takes_comments = True
    is_resumable = False
    # Whether the head was sent.
    _begun = False
    # Whether `finish` has begun to send the last event.
    _is_finishing = False
    _rejection: Optional[Rejection] = None

    def __init__(
        self,
        endpoint: ResponseEndpoint,
        session: Optional[ResponseSession],
        revision: Revision,
        writer: Optional[ResponseWriter],
        *,
        name: str = "",
        last: int = 0,
        ids: Optional[Sequence[Id]] = None,
        pending: Optional[list[Line]] = None,
        headers: HeaderLines = (),
        changed: Optional[Signal] = None,
    ) -> None:
        self._endpoint = endpoint
        self._session = session
        self._store = None if session is None else endpoint.store
        self.writer = writer
        self.name = name
        self._last = last
        self._ids = ids
        self._pending: list[Line] = [] if pending is None else pending
        self._headers = headers
        self._changed = Signal() if changed is None else changed
        # Whether the stream begins with an event that has nothing but an id.
        self._is_primed = bool(name) and revision.polling
        self.wrote_at = time.monotonic()
        # Orders what is written.
        self._write_lock = threading.RLock()

    # ------------------------------------------------------------ writing

    def serve(self, writer: ResponseWriter) -> None:
        """Write the lines in the queue until the stream ends or leaves this connection."""
        with waiting():
            while not self._is_over(writer):
                try:
                    with self._write_lock:
                        self._write(b"")  # the client gets the head before there is any event
                        self._flush(writer)
                except ConnectionLost as error:
                    log.debug("%s", error)
                self._changed.wait_for(lambda: self._is_over(writer) or self._pending)

    def flush(self) -> None:
        """Write the lines in the queue. Raises ConnectionLost as `event` does."""
        with self._write_lock:
            self._flush()

    def event(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send an event, after the lines in the queue. Nothing is sent if the stream has ended.

        Raises:
            ConnectionLost: The peer has closed the connection, and cannot resume the stream.

        Blocks until the peer can accept it.
        """
        self._pending.append(line)
        with self._write_lock:
            self._flush()
        return True

    def send(self, line: bytes) -> None:
        """Send an event. Nothing is sent if the connection is lost."""
        try:
            self.event(line)
        except ConnectionLost as error:
            log.debug("%s", error)

    def post(self, line: Line) -> None:
        """Enqueue a line, which another thread writes. Never blocks, never raises."""
        self._pending.append(line)
        self.wake()

    def wake(self) -> None:
        """Make `serve` check the queue again. Never blocks, never raises."""
        self._changed.notify()

    def spawn(self, job: Job) -> None:
        """Run a job on a thread of the endpoint's pool."""
        self._endpoint.pool.spawn(job)

    def is_sending(self) -> bool:
        """Return whether lines are waiting to be sent."""
        return bool(self._pending)

    def _is_over(self, writer: Optional[ResponseWriter]) -> bool:
        return self.done or (writer is not None and self.writer is not writer)

    def _flush(self, writer: Optional[ResponseWriter] = None) -> None:
        """Write the queue, until the stream leaves this connection. The caller holds the write
        lock."""
        while self._pending and not self._is_over(writer):
            try:
                line = self._pending.pop(0)
            except IndexError:
                return  # another stream of the session, which shares the queue, was faster
            mark = 0
            if self._session is not None and self._ids is None:
                # Read before the line is made, because the line may report a change after this
                # position.
                mark = self._session.position()
            if self._is_finishing and self._ids is not None and not self._pending:
                mark = LAST
            made = line() if callable(line) else line
            for each in (made or b"").splitlines(keepends=True):
                self._add(each, mark)

    def _add(self, line: bytes, mark: int) -> None:
        """Keep one event, and write it."""
        if self._endpoint.trace is not None:
            self._endpoint.trace("-->", line.rstrip(b"\n"))
        self._last += 1
        if self._store is not None:
            self._store.add(self.name, self._last, line, mark)
        elif self.writer is None:
            raise ConnectionLost("the client has disconnected")
        id = f"{self.name}/{self._last}" if self.name else None
        self._write(format_event(line, id=id))

    def _write(self, data: bytes, retry: int = RETRY_MS) -> None:
        """Send the head, if it was not sent, and these bytes, if the client is connected.

        The caller holds the write lock. If the connection is lost, an event store has the events.
        """
        writer = self.writer  # `disconnect` may set it to None at any moment
        if writer is None:
            return
        try:
            if not self._begun:
                self._begun = True
                status, more = self._rejection or (200, ())
                writer.begin(status, [*STREAM_HEADERS, *more, *self._headers])
                if self._is_primed:
                    writer.write(format_event(b"", id=f"{self.name}/0", retry=retry))
                    self.is_resumable = True
            if data:
                writer.write(data)
                self.wrote_at = time.monotonic()
                self.is_resumable = bool(self.name)
        except ConnectionLost:
            self.writer = None
            if self._store is None:
                raise

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for this many seconds.

        It does not wait for another thread that writes or for the peer, and never raises.
        """
        if not self._write_lock.acquire(blocking=False):
            return
        try:
            writer = self.writer
            if self.done or writer is None or not writer.has_room():
                return
            if self._pending and self._store is not None and self._store.may_block:
                return
            size = sum(SHORT_BYTES if callable(line) else len(line) for line in self._pending)
            if size < SHORT_BYTES:
                self._flush()
                if time.monotonic() - self.wrote_at >= seconds:
                    self._write(KEEP_ALIVE)
        except ConnectionLost as error:
            log.debug("%s", error)
        finally:
            self._write_lock.release()

    # ------------------------------------------------------------ connections

    def announce(self) -> None:
        """Register the stream in the event store. Blocks while the store writes."""
        if self._store is not None:
            self._store.begin(self.name, self._ids)

    def resume(self, writer: ResponseWriter, number: int) -> bool:
        """Continue on another connection, after the event with this number. Return False if that
        is not possible, because events were dropped."""
        with self._write_lock:
            missed: Optional[list[tuple[int, bytes]]] = []
            if number != self._last and self._store is not None:
                missed = self._store.after(self.name, number)
            if missed is None:
                return False
            before = self.writer
            self.writer = writer
            self._begun = True
            if before is not None and before is not writer:
                before.end()
            try:
                writer.begin(200, [*STREAM_HEADERS, *self._headers])
                for at, line in missed:
                    writer.write(format_event(line, id=f"{self.name}/{at}"))
                if self.done:
                    writer.end()
            except ConnectionLost:
                self.writer = None
        self._changed.notify()
        return True

    def is_connected(self) -> bool:
        """Return whether a client is connected to the stream now, and it is not about to end."""
        writer = self.writer
        if writer is not None:
            writer.look()
        return self.writer is not None and not self.done and not self._is_finishing

    def disconnect(self, writer: ResponseWriter) -> None:
        """Release a connection that the client has closed. Never blocks."""
        if self.writer is writer:
            self.writer = None

    def leave(self, writer: ResponseWriter) -> None:
        """Release a connection that the client has closed, and end the stream if the client cannot
        resume it. Never blocks."""
        self.disconnect(writer)
        self._end_if_not_kept()

    def end_connection(self, writer: ResponseWriter) -> None:
        """Complete the response on a connection. The client may resume the stream, for example with
        another token."""
        with self._write_lock:
            if self.writer is writer:
                self.writer = None
                writer.end()
        self._end_if_not_kept()

    def _end_if_not_kept(self) -> None:
        if self._store is None:
            self.done = True
        self._changed.notify()

    def close_for_polling(self, seconds: float) -> bool:
        """Complete the response, and make the client reconnect after this number of seconds.

        Return False if the client cannot resume the stream.
        """
        retry = max(0, int(seconds * 1000))
        with self._write_lock:
            if not self._is_primed or self.done:
                return False
            self._write(b"retry: %d\n\n" % retry if self._begun else b"", retry)
            writer = self.writer
            self.writer = None
            if writer is not None:
                writer.end()
        return True

    # ------------------------------------------------------------ the end

    def finish(self, line: bytes = b"", rejection: Optional[Rejection] = None) -> None:
        """Send the last event, if there is one, and complete the response. Never raises.

        Args:
            line: The last event; empty for none.
            rejection: The status and headers of a rejected request, or None.
        """
        try:
            with self._write_lock:
                try:
                    self._rejection = rejection
                    # Before the last byte: a client that has read it may open the next stream.
                    self._is_finishing = True
                    if line:
                        self.event(line)
                    elif self._ids is not None and self._store is not None:
                        self._store.end(self.name, self._last + 1)
                    if not self.done:
                        self._write(b"")
                    writer = self.writer  # as in `_write`
                    if writer is not None and not self.done:
                        writer.end()
                finally:
                    self.done = True
        except ConnectionLost as error:
            log.debug("an answer could not be written: %s", error)
        self._changed.notify()

    def abort(self) -> None:
        """End the stream at once, unless `finish` is ending it. Never blocks."""
        if not self._is_finishing:
            self.done = True
            self._changed.notify()

    def cancel(self, reason: str) -> None:
        """Do nothing: this class has no requests. `PostResponse` cancels its own."""

    def wait(self, deadline: Deadline) -> None:
        """Wait until the stream has ended, or the deadline has passed."""
        self._changed.wait_for(lambda: self.done, deadline)


class PostResponse(Sink):
    """The response to one POST with requests, and the sink of everything that belongs to them.

    It is a JSON body, unless there is an event before the answer. Then it becomes an `EventStream`,
    if it may be one. Thread-safe.

    ========= ===== ==========================================================================
    is_closed done  the next step
    ========= ===== ==========================================================================
    False     False the first thread in `finish` takes the last message; `lost` ends it at once
    True      False that thread writes the last byte; new requests are cancelled
    True      True  none: nothing more is sent
    ========= ===== ==========================================================================

    Args:
        endpoint: The endpoint that sends it.
        session: The session, whose client can be asked and can resume a stream; None without one.
        revision: The revision that the client uses. In a session, a client that closes the
            connection does not cancel its request.
        writer: The connection.
        may_stream: Whether it may become an event stream. If not, only the answer is sent.

    Attributes:
        writer: The connection, as long as the response is not a stream; None after the client has
            closed it.
        stream: The response since the first event; None before.
        incoming: The requests.
        headers: Headers of the response, besides those of its form.
        is_closed, done: The state of the response; see the table.
        listens: Whether it counts among the streams of change notifications.
        takes_comments: Whether comments of SSE may keep it alive.
        place: Counts it among the streams of its client.
        left_at: When the client closed the connection, which was then released while handlers were
            still running, as `time.monotonic` returns it; None before, and in stateless revisions.
        retry_after: Seconds after which the client may try again, if the whole request was
            rejected.
    """

    headers: HeaderLines = ()
    stream: Optional[EventStream] = None
    place: Optional[Place] = None
    listens = False
    takes_comments = True
    left_at: Optional[float] = None
    done = False
    retry_after: Optional[float] = None
    # Whether the request accepts nothing but JSON.
    _is_json_required = False
    # Whether a handler wanted to ask the client although the response had to be JSON. Then an error
    # has status 406.
    _asked_in_vain = False
    # Cancels the call of `_end_unseen`, which would keep this object in memory for a minute.
    _cancel_look: Callable[[], object] = int
    _on_done: Optional[Callable[[], None]] = None

    def __init__(
        self,
        endpoint: ResponseEndpoint,
        session: Optional[ResponseSession],
        revision: Revision,
        writer: ResponseWriter,
        may_stream: bool = True,
    ) -> None:
        self._endpoint = endpoint
        self.requests = endpoint.requests
        self.pool = endpoint.pool
        self.context = copy_context()
        self.session = session
        if session is not None:
            self.session_name = session.key
            self.origin = session.key
        self._revision = revision
        self._may_stream = may_stream
        self.writer: Optional[ResponseWriter] = writer
        self.incoming: list[IncomingRequest] = []
        self._arrived_at = time.monotonic()
        self._thread = threading.get_ident()
        self._changed = Signal()

    # ------------------------------------------------------------ the form

    def choose_form(self, forms: tuple[bool, bool]) -> None:
        """Choose a JSON body or an event stream now, if the request accepts only one of them.

        Args:
            forms: The result of `accepted_forms`.
        """
        may_be_json, may_be_stream = forms
        if not may_be_stream and self._may_stream:
            self._may_stream = False
            self._is_json_required = True
        elif not may_be_json:
            self.open()

    def open(self) -> Optional[EventStream]:
        """Become an event stream, if this is possible. Return the stream, or None."""
        if self.stream is None and self._may_stream:
            opened: Optional[EventStream] = None
            with self._endpoint.lock:
                if self.stream is None and not self.is_closed:
                    opened = EventStream(
                        self._endpoint,
                        self.session,
                        self._revision,
                        self.writer,
                        name=self._endpoint.name_stream(self.session),
                        ids=[each.request.id for each in self.incoming],
                        headers=self.headers,
                        changed=self._changed,
                    )
                    opened.wrote_at = self._arrived_at
                    # Last: from now on other threads write to it.
                    self.stream = opened
            if opened is not None:
                opened.announce()
        return self.stream

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for this long, like `EventStream.keep_alive`."""
        stream = self.stream
        if stream is None and self._may_stream:
            if time.monotonic() - self._arrived_at < seconds:
                return
            store = self._endpoint.store
            if self.session is not None and store is not None and store.may_block:
                self.spawn(self.open)
                return
            stream = self.open()
        if stream is not None:
            stream.keep_alive(seconds)

    # ------------------------------------------------------------ as a sink

    def event(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send an event, as `EventStream.event`. Nothing is sent if this is not a stream."""
        stream = self.stream or self.open()
        if stream is not None:
            stream.event(line, deadline)
        return True

    def send(self, line: bytes) -> None:
        try:
            self.event(line)
        except ConnectionLost as error:
            if not self._revision.handshake:
                self.lost()  # most writers have called it before
                raise Cancelled(GONE) from error

    def post(self, line: Line) -> None:
        stream = self.open()
        if stream is not None:
            stream.post(line)

    def deliver(self, line: bytes, wait: bool) -> None:
        # The thread that serves the POST waits for the peer in any case.
        if wait or self._thread == threading.get_ident():
            self.finish(line)
        else:
            self.spawn(partial(self.finish, line))

    def close_for_polling(self, seconds: float) -> bool:
        stream = self.open()
        return stream is not None and stream.close_for_polling(seconds)

    def is_sending(self) -> bool:
        """Return whether events are waiting to be sent."""
        return self.stream is not None and self.stream.is_sending()

    # ------------------------------------------------------------ questions

    def asking(self) -> Calls:
        if self._is_json_required and self.session is not None:
            self._asked_in_vain = True
            raise CapabilityNotSupported(
                "the client cannot be asked: the Accept header of its request allows JSON only, "
                f"and a question needs {MEDIA_TYPE}"
            )
        if self.session is None or not self._may_stream:
            raise CapabilityNotSupported(
                "the client cannot be asked: the transport of this request does not support it"
            )
        if self._is_unseen():
            raise _unseen()
        if self._endpoint.cannot_ask:
            raise CapabilityNotSupported(self._endpoint.cannot_ask)
        return self.session.calls.through(self._ask, self.post)

    def _ask(self, line: bytes, deadline: Deadline) -> bool:
        """Send questions. Raises ConnectionLost as `event` does."""
        assert self.session is not None
        self.session.before_question()
        return self.event(line, deadline)

    def _is_unseen(self) -> bool:
        """Return whether the client closed the connection long ago and cannot resume the stream."""
        if self.left_at is None:
            return False
        stream = self.stream
        if stream is not None and (stream.writer is not None or stream.is_resumable):
            return False
        return time.monotonic() - self.left_at >= UNSEEN_SECONDS

    def _end_unseen(self) -> None:
        if self._is_unseen():
            for incoming in list(self.incoming):
                end_questions(incoming, _unseen())

    # ------------------------------------------------------------ the end

    def serve(self) -> None:
        """Write events that other threads post, until the response is done or the client has
        left."""
        with waiting():
            while not self._is_served():
                if self.stream is not None:
                    try:
                        self.stream.flush()
                    except ConnectionLost as error:
                        log.debug("%s", error)
                self._changed.wait_for(lambda: self._is_served() or self.is_sending())

    def _is_served(self) -> bool:
        return self.done or self.left_at is not None

    def finish(self, line: bytes = b"") -> None:
        """Send the answer, as the whole body or as the last event; or end without one. Never
        raises."""
        with self._endpoint.lock:
            is_first = not self.is_closed
            self.is_closed = True
            stream = self.stream
        if stream is None and not is_first:
            return
        if self.session is not None:
            self.session.before_answer()
        try:
            if stream is not None:
                stream.finish(line, self._rejection())
            else:
                self._send_body(line)
        except ConnectionLost as error:
            log.debug("an answer could not be written: %s", error)
        finally:
            # At the end: `serve` returns then, and the response must be complete.
            with self._endpoint.lock:
                self.done = True
                on_done = self._on_done
                self._on_done = None
            self._changed.notify()
            if on_done is not None:
                on_done()

    def _send_body(self, line: bytes) -> None:
        """Send the answer as a JSON body, if the client is still connected.

        Args:
            line: The answer; empty if there is none, because the request was cancelled.

        Raises:
            ConnectionLost: The peer has closed the connection.
        """
        # Read once: another thread sets it to None when the client closes the connection.
        writer = self.writer
        if writer is None:
            return
        if not line:
            writer.send(200, [*STREAM_HEADERS, *self.headers], line)
            return
        trace = self._endpoint.trace
        if trace is not None:
            trace("-->", line.rstrip(b"\n"))
        status = 200
        more: HeaderLines = ()
        found = None if self._revision.handshake else ERROR_CODE.match(line)
        if found is not None:
            status = STATUS.get(int(found[1]), 200)
        if self._asked_in_vain and _is_error(line):
            status = 406
        rejection = self._rejection()
        if rejection is not None:
            status, more = rejection
        writer.send(status, [("Content-Type", JSON_TYPE), *more, *self.headers], line)

    def _rejection(self) -> Optional[Rejection]:
        """Return status and headers if each request exceeded the client's rate; otherwise None."""
        if self.retry_after is not None:
            return 429, (("Retry-After", str(whole_seconds(self.retry_after))),)
        waits = [each.retry_after or 0.0 for each in self.incoming]
        if not waits or not all(waits):
            return None
        return 429, (("Retry-After", str(whole_seconds(*waits))),)

    def cancel(self, reason: str) -> None:
        """Cancel the requests, because no answer can be sent. Never blocks."""
        for request in list(self.incoming):
            if self.requests.end(request):
                request.token.cancel(reason)

    def lost(self) -> None:
        """Cancel stateless requests, because the client has closed the connection. Never blocks."""
        self.is_closed = True  # first: a thread that adds a request reads it after that
        self.cancel(GONE)
        with self._endpoint.lock:
            self.done = True
        if self.stream is not None:
            self.stream.abort()
        self._changed.notify()

    def detach(self, writer: ResponseWriter) -> None:
        """Release the connection. The requests keep running. Never blocks."""
        with self._endpoint.lock:
            self.writer = None
            stream = self.stream
        if stream is not None:
            stream.disconnect(writer)
        self.left_at = time.monotonic()
        self._changed.notify()
        if self.session is not None:
            self._cancel_look = timer.after(UNSEEN_SECONDS, self._end_unseen)
            if self.done:
                self._cancel_look()

    def forget_client(self) -> None:
        """Stop checking whether the client can see a question. No handler asks one any longer."""
        self._cancel_look()
        self._cancel_look = int

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call a function when nothing more will be sent, or now if that is already so."""
        with self._endpoint.lock:
            if not self.done:
                self._on_done = callback
                return
        callback()

    def wait(self, deadline: Deadline) -> None:
        """Wait until the response is done, or the deadline has passed."""
        self._changed.wait_for(lambda: self.done, deadline)


def _unseen() -> ConnectionLost:
    return ConnectionLost(
        "http: the client has closed the connection of this call, and cannot see the question"
    )


def _is_error(line: bytes) -> bool:
    """Return whether a response is an error, or the result of a tool that failed."""
    response = json.loads(line)
    return "error" in response or response["result"].get("isError") is True
