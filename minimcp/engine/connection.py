"""One connection: a thread that reads, a thread that writes, our calls that wait and the peer's requests that run.

The five rules of its threads:

1. One reader. One thread reads, decodes, changes the tables and hands over. It runs no handler and no callback, waits
   for no lock that is held during I/O and writes nothing; so nothing that a handler does can delay a read, and two
   sides that send each other 20 MB at once both finish.
2. Whole lines, in order, and nobody blocks in a write. If nothing is queued and no job waits for a thread, a line of at
   most `SMALL` bytes is written at once by the thread that has it, never the reader, as far as the peer takes it
   without waiting. Everything else goes into one queue, and the writer's thread joins what waits there into one write,
   which waits for the peer and can be called away. The queue is bounded in bytes: who sends more than the peer takes
   waits, with a deadline. A peer that takes nothing for ``write_timeout`` is lost, and so is one that leaves more than
   `MOST_OWED` bytes of what the reader owes it (errors, pings, lists) where they are.
3. A pool of workers. Requests go, in order of arrival, into one FIFO queue that up to ``Limits.workers`` threads take
   from. A handler that waits inside this library does not count meanwhile.
4. Register, then write; one ending. A call is in the table before its line is written. It leaves it by exactly one of
   answer, error, timeout, cancel and loss, and the loss of the connection ends all of them at once with the same cause.
   The thread that waits runs its own progress callbacks, in order, before it returns.
5. No lock is held during I/O, a wait or code of a user, but the one that orders writes. No wait without a deadline or
   somebody who ends it.

Not here: what a request means (see `ConnectionHandler`), and how bytes travel (see `Transport`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from copy import copy
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, Mapping, Optional, Union

from ..errors import (
    INVALID_REQUEST,
    ConnectionLost,
    InternalError,
    InvalidRequest,
    ProtocolViolation,
    RpcError,
    describe,
    one_line,
)
from ..protocol.lifecycle import LISTEN, Peer
from ..protocol.messages import (
    Decoded,
    Failure,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    decode,
    diagnose_long,
    encode,
    failure,
)
from .limits import Limits
from .pool import Pool, renewed_in_fork, waiting
from .requests import (
    NO_HEADERS,
    Batch,
    Calls,
    IncomingRequest,
    Line,
    RequestCap,
    Route,
    RunningRequests,
    Sink,
    why_no_batch,
)
from .timer import NEVER, Deadline
from .transport import Frame, TooLong, Transport

log = logging.getLogger("minimcp.connection")

SMALL = 4096
"""Bytes of a line that may be written by the thread that has it: so many a pipe takes whole or not at all."""

JOINED = 64 * 1024
"""Bytes of lines that are joined for one write."""

MOST_OWED = 1024 * 1024
"""Bytes that the reader may owe a peer that takes them."""

OWED_SECONDS = 5.0
"""After how many seconds of taking nothing a peer is lost to which the reader owes more."""

RESUMED = 4
"""How many requests that waited for room are begun at the same time: each of their answers may be large."""

CLOSE_SECONDS = 5.0
"""How long `Connection.close` waits for its own threads."""

FAREWELL_SECONDS = 0.5
"""How long `Connection.close` waits for what the peer is told last to be written."""

LAST_WORDS_SECONDS = 0.5
"""How long a write that failed waits for the reader: what the peer wrote before it left, and its end, tell more."""

MOST_WARNINGS = 5
"""Lines of one connection that are shown when they are no messages: a program that is no server may write for ever."""

_UNANSWERED = ("notification", "response")

Trace = Callable[[str, bytes], None]


class ConnectionHandler:
    """What a connection asks of the client or server above it; on the reader's thread, so it must be quick."""

    answers_invalid = False
    """Whether what cannot be read is answered. A server does; a client must not, or two could shout for ever."""

    takes_requests = True
    """Whether the peer may send requests at all; where it may not, even a broken one is dropped without a word."""

    takes_batches = False
    """Whether an array of messages may arrive now."""

    error_without_id = True
    """How an error is written now whose request's id could not be read: True leaves the id out, False writes null."""

    headers: Mapping[str, str] = NO_HEADERS
    """Of the HTTP request that opened the connection; empty where it was none."""

    facts: Any = None
    """What requests carry along for the features that serve them."""

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        """Who sends this request and where it goes; None drops it without an answer.

        Raises:
            RpcError: It is refused.
        """
        raise NotImplementedError

    def notified(self, notification: Notification) -> None:
        """A notification came that is neither progress nor a cancellation."""

    def ending(self, sink: Sink) -> None:
        """The connection is about to end, and what still runs gets some time: open streams on this sink end now."""

    def lost(self, cause: ConnectionLost) -> None:
        """The connection has ended."""


class Writer:
    """The way out of a connection: whole lines, in order. Thread-safe.

    Args:
        transport: Where to.
        limits: Of the connection.
        pool: Of the connection: while jobs wait there answers are worth joining.
        failed: Called by the writer's thread when nothing can be written any more.
        trace: Called with ("-->", line) for every line; None for no trace.
    """

    def __init__(
        self, transport: Transport, limits: Limits, pool: Pool, failed: Callable[[ConnectionLost], None],
        trace: Optional[Trace],
    ) -> None:
        self._transport, self._limits, self._pool, self._failed, self._trace = transport, limits, pool, failed, trace
        self._most = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Begin with an empty queue."""
        self._lock = threading.RLock()  # orders writes; a signal handler that cancels a call may come in the middle
        self._room = threading.Condition(self._lock)
        self._lines: SimpleQueue[Optional[tuple[Line, int, int]]] = SimpleQueue()
        self._pending = self.owed = self._taken = 0
        self.held: deque[Callable[[], None]] = deque()
        self._loss: Optional[ConnectionLost] = None
        self._closed = False

    def send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Write whole lines, now or by the writer's thread.

        Args:
            line: One or more lines.
            deadline: When to give up waiting for room; then it returns False, and nothing is written.

        Raises:
            ConnectionLost: The peer is gone, or takes nothing any more.

        Blocks: while more waits for the peer than may.
        """
        if self._pending > self._most and not self._wait_for_room(deadline):
            return False
        self._note(line)
        with self._lock:
            if self._loss is not None:
                raise copy(self._loss)
            if not self._pending and len(line) <= SMALL and not self._pool.is_busy():
                try:
                    line = line[self._transport.send(line, 0.0) :]
                except ConnectionLost as loss:
                    self._loss = loss
                    self._lines.put(None)
                    raise
            if line:
                self._put(line, len(line), 0)
        return True

    def post(self, line: Line, *, owed: bool = False) -> None:
        """Have a line written by the writer's thread. Never blocks, never raises.

        Args:
            line: One or more lines, or a function that makes them when they are about to be written.
            owed: Whether the reader owes it.
        """
        size = 1
        if isinstance(line, bytes):
            size = len(line)
            self._note(line)
        with self._lock:
            self._put(line, size, size if owed else 0)

    def holds(self, request: IncomingRequest, run: Callable[[IncomingRequest], None]) -> bool:
        """Whether so much waits for the peer that nothing more is begun for it; the request is submitted later then."""
        if self._pending <= self._most:
            return False
        with self._lock:
            held = self._pending > self._most and not self._is_over()
            if held:
                self.held.append(partial(run, request))
            return held

    def resume(self) -> None:
        """Submit some of the requests that are held, if there is room again, or never will be."""
        with self._lock:
            room = self._pending <= self._most or self._is_over()
            jobs = [self.held.popleft() for _ in range(min(len(self.held), RESUMED))] if room else []
        for job in jobs:
            self._pool.submit(job)

    def call(self, function: Callable[[], None]) -> None:
        """Have the writer's thread call a function; for finalizers, which may be called in the middle of anything."""
        self._lines.put((function, 0, 0))

    def _put(self, line: Line, size: int, owed: int) -> None:
        self._pending += size
        self.owed += owed
        self._lines.put((line, size, owed))

    def _note(self, line: bytes) -> None:
        for part in () if self._trace is None else line.splitlines():
            self._trace("-->", part)  # type: ignore[misc]

    # ------------------------------------------------------------ waiting

    def _wait_for_room(self, deadline: Deadline) -> bool:
        with waiting(), self._room:
            return self._room.wait_for(lambda: self._pending <= self._most or self._is_over(), deadline.wait())

    def _is_over(self) -> bool:
        return self._closed or self._loss is not None

    def is_relieved(self) -> bool:
        """For the reader: return True when the peer takes what it is owed, False when it takes nothing."""
        with self._room:
            while self.owed > MOST_OWED and not self._is_over():
                taken = self._taken
                relieved = self._room.wait_for(lambda: self.owed <= MOST_OWED or self._is_over(), OWED_SECONDS)
                if not relieved and taken == self._taken:
                    return False
            return True

    def flush(self, seconds: float) -> bool:
        """Wait until all is written, or cannot be; False when the time was over."""
        with self._room:
            return self._room.wait_for(lambda: not self._pending or self._loss is not None, seconds)

    def close(self) -> None:
        """Let the writer's thread end behind what is queued, and let those go who wait for room."""
        with self._room:
            self._closed = True
            self._lines.put(None)
            self._room.notify_all()
        self.resume()

    # ------------------------------------------------------------ the writer's thread

    def run(self) -> None:
        """Write what is queued until `close`, or until nothing can be written any more."""
        try:
            while self._write_some():
                pass
        except ConnectionLost as loss:
            self._loss = self._loss or loss
        with self._room:
            self._room.notify_all()
        self.resume()
        if self._loss is not None:
            self._failed(self._loss)

    def _write_some(self) -> bool:
        """Write what waits, up to `JOINED` bytes and a line; False at the end."""
        parts: list[bytes] = []
        size = owed = 0
        entry = self._lines.get()
        while entry is not None:
            line, counts, owes = entry
            made = line if isinstance(line, bytes) else self._made(line)
            if made is not None:
                parts.append(made)
            size, owed = size + counts, owed + owes
            if size >= JOINED or self._lines.empty():
                break
            entry = self._lines.get()
        if parts:
            self._write(parts[0] if len(parts) == 1 else b"".join(parts))
        with self._room:
            self._pending -= size
            self.owed -= owed
            self._room.notify_all()
        if self.held:
            self.resume()
        return entry is not None

    def _made(self, make: Callable[[], Optional[bytes]]) -> Optional[bytes]:
        try:
            line = make()
        except Exception as error:  # a fault of ours: the others are still written
            log.error("%s: %s", self._transport.name, error, exc_info=error)
            return None
        self._note(line or b"")
        return line

    def _write(self, data: bytes) -> None:
        view, seconds = memoryview(data), self._limits.write_timeout
        patience = Deadline(seconds)
        while view:
            taken = self._transport.send(view, patience.wait())  # type: ignore[arg-type]
            if taken:
                self._taken += taken
                view, patience = view[taken:], Deadline(seconds)
            elif patience.expired:
                raise self._transport.lost(f"the peer took no byte for {seconds:g} s")


class _ConnectionSink(Sink):
    """The sink of a connection that carries lines."""

    def __init__(self, connection: Connection) -> None:
        self.requests, self._connection = connection.requests, connection
        self.send, self.post, self.spawn = connection.send, connection.post, connection.pool.spawn  # type: ignore[assignment]

    def deliver(self, line: bytes, wait: bool) -> None:
        connection = self._connection
        if not wait:
            connection.writer.post(line, owed=True)
            return
        try:
            connection.writer.send(line)
        except ConnectionLost as error:  # nobody can be told: the reader finds out too
            log.debug("%s: an answer could not be written: %s", connection.name, error)

    def calls(self) -> Calls:
        return self._connection.calls

    def closing_message(self, id: Id) -> Optional[bytes]:
        return encode(Notification("notifications/cancelled", {"requestId": id}))


class Connection:
    """One connection to one peer. Thread-safe.

    Args:
        transport: How bytes travel; owned from now on.
        handler: Decides what requests and notifications mean.
        limits: What the connection may cost; None takes the defaults.
        pool: Runs the peer's requests; None makes one for this connection.
        cap: How many of them may be begun; None counts those of this connection.
        name: Shown in logs, and in the names of its threads; empty takes the transport's.
        trace: Called with ("-->" or "<--", line) for every message, on the thread that moves it; None for no trace.

    Attributes:
        calls: Our requests.
        requests: The peer's.
        sink: Where their answers go.
    """

    def __init__(
        self, transport: Transport, handler: ConnectionHandler, *, limits: Optional[Limits] = None,
        pool: Optional[Pool] = None, cap: Optional[RequestCap] = None, name: str = "", trace: Optional[Trace] = None,
    ) -> None:
        self.name = name or transport.name
        self.limits = limits or Limits()
        self.pool = pool or Pool(self.limits.workers, f"minimcp-{self.name}")
        self._owns_pool = pool is None
        self.transport, self._handler, self._trace = transport, handler, trace
        self.writer = Writer(transport, self.limits, self.pool, self._write_failed, trace)
        self.calls = Calls(self.name, self.send, self.post, remark=self._odd_line)
        self.requests = RunningRequests(self.limits, cap)
        self.sink = _ConnectionSink(self)
        self._threads: list[threading.Thread] = []
        self._read_out, self._ended = threading.Event(), threading.Event()
        self._closing = False
        self._odd, self._odd_lines = "", 0
        renewed_in_fork.add(self)

    def open(self) -> Connection:
        """Start the connection's threads."""
        for work, part in ((self._read, "reader"), (self.writer.run, "writer")):
            thread = threading.Thread(target=work, name=f"minimcp-{self.name}-{part}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    # ------------------------------------------------------------ reading

    def _read(self) -> None:
        reason, reads = "the peer closed the connection", True
        try:
            while True:
                frames = self.transport.receive()
                if not frames:
                    break
                for frame in frames:
                    self._take(frame)
                if self.writer.owed > MOST_OWED and not self.writer.is_relieved():
                    reason, reads = "the peer takes no answers", False
                    break
                del frames, frame  # a connection that waits keeps nothing of what came
        except BaseException as error:  # a fault of ours must end in a loss, not in silence
            log.error("%s: the reader failed: %s", self.name, error, exc_info=error)
            reason = f"the reader failed: {describe(error)}"
        self._end(reason, reads)

    def _take(self, frame: Frame) -> None:
        if isinstance(frame, TooLong):
            self._too_long(frame)
            return
        if self._trace is not None:
            self._trace("<--", frame)
        self._dispatch(decode(frame, max_depth=self.limits.depth), frame)

    def _dispatch(self, decoded: Decoded, frame: bytes) -> None:
        if type(decoded) is Request:
            self._request(decoded, self.sink, len(frame))
        elif type(decoded) is Response:
            self._settle(decoded.id, decoded.result)
        elif type(decoded) is Notification:
            self._notification(decoded)
        elif type(decoded) is Failure:
            self._settle(decoded.id, decoded)
        elif isinstance(decoded, list):
            self._array(decoded, frame)
        else:
            self._invalid(decoded, frame)  # type: ignore[arg-type]

    def _request(self, request: Request, sink: Union[_ConnectionSink, Batch], size: int) -> None:
        handler = self._handler
        try:
            admitted = handler.admit(request)
            if admitted is None:
                return
            peer, route = admitted
            incoming = IncomingRequest(request, peer, route, sink, size, handler.facts, handler.headers)
            self.requests.add(incoming)
        except RpcError as error:
            self._refuse(request.id, error, sink)
            return
        try:
            if route.immediate:
                incoming.run()
            elif route.start is None:
                self.pool.submit(partial(self._run, incoming))
            else:
                route.start(incoming)
        except (RpcError, RuntimeError) as error:
            refusal = error if isinstance(error, RpcError) else InternalError("no thread is free")
            sink.respond(incoming, encode(failure(request.id, refusal)), False)

    def _run(self, request: IncomingRequest) -> None:
        if self.writer.holds(request, self._run):
            return
        request.run()
        if self.writer.held:
            self.writer.resume()

    def _refuse(self, id: Id, error: RpcError, sink: Union[_ConnectionSink, Batch]) -> None:
        line = encode(failure(id, error))
        if isinstance(sink, Batch):
            sink.refuse(id, line)
        else:
            self.writer.post(line, owed=True)

    def _array(self, items: list[Union[Message, InvalidMessage]], frame: bytes) -> None:
        reason = why_no_batch(items, taken=self._handler.takes_batches, limit=self.limits.batch)
        if reason is not None:
            self._invalid(InvalidMessage(INVALID_REQUEST, reason), frame)
            return
        invalid = [item for item in items if type(item) is InvalidMessage and item.kind not in _UNANSWERED]
        refusals = [self._refusal(item) for item in invalid if self._handler.answers_invalid]
        batch = Batch(self.sink, refusals, [item.id for item in items if type(item) is Request])
        for item in items:
            if type(item) is Request and item.method == "initialize":
                self._refuse(item.id, InvalidRequest("initialize stands alone, not in an array"), batch)
            elif type(item) is Request:
                self._request(item, batch, len(frame) // len(items))
            elif type(item) is not InvalidMessage:
                self._dispatch(item, frame)
        batch.complete()

    def _notification(self, notification: Notification) -> None:
        method, params = notification
        if method == "notifications/progress":
            token = params.get("progressToken")
            call = self.calls.find(token) if type(token) is int or type(token) is str else None
            if call is None:
                log.debug("<-- progress for %s, which nobody waits for", one_line(token))
            else:
                call.put(params)
        elif method == "notifications/cancelled":
            id, reason = params.get("requestId"), params.get("reason")
            if type(id) is int or type(id) is str:
                self._cancelled(id, reason if isinstance(reason, str) else None)
        else:
            self._handler.notified(notification)

    def _cancelled(self, id: Id, reason: Optional[str]) -> None:
        """The peer takes a request back, or ends the one of ours that it may end: a stream of changes."""
        call = self.calls.find(id)
        if call is not None and call.method == LISTEN:
            self._settle(id, ConnectionLost(f"the server ended the stream: {one_line(reason)}"))
        else:
            self.requests.cancel(id, reason)

    def _settle(self, id: Optional[Id], ending: Any) -> None:
        if id is None or not self.calls.settle(id, ending):
            log.debug("<-- an answer to %s, which nobody waits for", one_line(id))

    def _too_long(self, frame: TooLong) -> None:
        """Tell whom a line that was too long belonged to; if it was an answer to nobody knows what, all that wait."""
        shown = frame.head + b" ... " + frame.tail
        reason = f"a message is longer than {frame.limit} bytes, the Limits.message_bytes of its receiver"
        broken = diagnose_long(frame.head, frame.tail, reason)
        if broken.kind != "response" or broken.id is not None:
            self._invalid(broken, shown)
            return
        log.warning("<-- an answer is longer than %d bytes and does not say whose: all calls end", frame.limit)
        for call in self.calls.waiting():
            self.calls.settle(call.id, ProtocolViolation(reason, shown.decode("utf-8", "replace")))

    def _invalid(self, broken: InvalidMessage, frame: bytes) -> None:
        """Deal with what is no message: a server says so, a client must not."""
        log.debug("<-- no message (%s): %s", broken.reason, one_line(frame))
        text = frame.decode("utf-8", "replace")
        violation = ProtocolViolation(broken.reason, text)
        if broken.kind in ("response", "unknown") and broken.id is not None and self.calls.settle(broken.id, violation):
            return
        if broken.kind in _UNANSWERED:
            return
        is_request = self._handler.takes_requests and broken.kind == "request" and broken.id is not None
        if self._handler.answers_invalid or is_request:
            self.writer.post(self._refusal(broken), owed=True)
            return
        self._odd, self._odd_lines = one_line(text), self._odd_lines + 1
        if self._odd_lines <= MOST_WARNINGS:
            log.warning("<-- a line that is no message (%s): %s", broken.reason, self._odd)
        if self._odd_lines == MOST_WARNINGS:
            log.warning("further lines that are no messages are not shown")

    def _refusal(self, broken: InvalidMessage) -> bytes:
        answer = Failure(broken.id, broken.code, broken.reason)
        return encode(answer, error_without_id=self._handler.error_without_id)

    def _odd_line(self) -> str:
        """What a peer that writes other things than messages has written, as the end of a message of ours."""
        return f"; it wrote a line that is no message: {self._odd}" if self._odd else ""

    # ------------------------------------------------------------ writing

    def send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Write whole lines. Arguments, result and errors as `Writer.send`."""
        try:
            return self.writer.send(line, deadline)
        except ConnectionLost as error:
            raise self._loss(error) from error.__cause__

    def post(self, line: Line) -> None:
        """Have whole lines written by the writer's thread. Never blocks, never raises."""
        self.writer.post(line)

    def _loss(self, found: ConnectionLost) -> BaseException:
        """End all calls after a failed write; what to raise: the reader's cause, where it comes soon."""
        if len(self.calls) and isinstance(found.__cause__, OSError):  # the peer has left: so it will be read
            self._read_out.wait(LAST_WORDS_SECONDS)
        self.calls.close(found)
        return copy(self.calls.cause or found)

    def _write_failed(self, found: ConnectionLost) -> None:
        self._loss(found)
        self.transport.close()

    # ------------------------------------------------------------ the end

    def _end(self, reason: str, reads: bool = True) -> None:
        """The stream has ended: end the calls, let running requests finish, let go of everything."""
        if self._closing:
            cause = ConnectionLost(f"{self.name}: closed")
        else:
            cause = self.transport.lost(reason + self._odd_line())
        self.calls.close(cause)
        self._read_out.set()
        try:
            if reads and not self._closing and self.transport.is_heard():
                deadline = Deadline(self.limits.drain_grace)
                if not self._drain(deadline):
                    log.warning(
                        "%s: %d requests still run after %g s", self.name, len(self.requests), deadline.seconds
                    )
                self.writer.flush(deadline.wait())
            self._let_go("the connection has ended")
            self._handler.lost(cause)
        finally:
            self._ended.set()

    def _drain(self, deadline: Deadline) -> bool:
        """End open streams and wait for the running requests; False when some still run after that time."""
        self._handler.ending(self.sink)
        return self.requests.wait_until_empty(deadline)

    def _let_go(self, reason: str) -> None:
        self.requests.abandon(reason)
        self.writer.close()
        self.transport.close()
        if self._owns_pool:
            self.pool.close()

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """End the connection. Idempotent, from any thread, in any order.

        The peer is told of the calls that still wait, if it takes that at once: it need not go on with them.

        Args:
            grace: Seconds that running requests get first.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
        """
        if reason is not None:
            self.requests.interrupt(reason)
        if grace and not self._ended.is_set():
            deadline = Deadline(grace)
            self._drain(deadline)
            self.writer.flush(deadline.wait())
        self._closing = True
        farewell = self.calls.close(ConnectionLost(f"{self.name}: closed"))
        inside = threading.current_thread() in self._threads
        if farewell:
            self.writer.post(farewell)
        if not self._threads:
            self._end("never opened")
        elif not inside:
            self.writer.flush(FAREWELL_SECONDS)
        self._let_go("the connection is closed")
        deadline = Deadline(CLOSE_SECONDS)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(deadline.wait())
                if thread.is_alive():
                    log.warning("%s: %s has not ended", self.name, thread.name)

    def abandon(self) -> None:
        """End the connection without waiting for anything (its owner was collected)."""
        self._closing = True
        self.writer.call(self.close)

    def renew_in_fork(self) -> None:
        """In a forked process: refuse everything, and close the descriptors."""
        parents = "this connection belongs to the process that made it, not to its fork"
        self.calls.close(ConnectionLost(f"{self.name}: {parents}"))
        self.writer.renew_in_fork()
        self.requests.renew_in_fork()
        self._read_out, self._ended = threading.Event(), threading.Event()
        self._ended.set()
        self._threads = []
        self.transport.close_in_fork()

    def wait_until_ended(self, seconds: Optional[float] = None) -> bool:
        """Wait until the connection has ended; False when it still lives after that time (None: for ever)."""
        return self._ended.wait(seconds)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended.is_set()

    def __repr__(self) -> str:
        state = "open" if self.calls.cause is None else "closed"
        return f"<Connection {self.name!r} {state}, {len(self.calls)} outgoing, {len(self.requests)} incoming>"
