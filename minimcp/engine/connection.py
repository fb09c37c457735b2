"""`Connection`: a reader thread, a writer thread, pending calls and running requests of one peer.

Five rules govern the threads. A comment names the rule at each place where it applies.

1. One reader thread per connection reads, decodes and dispatches messages. A slow handler cannot
   delay a read, because the reader thread does not run handlers or callbacks. It only runs
   immediate handlers such as pings and lists (`Route.immediate`), `trace`, `on_request`, and the
   methods `route`, `declare`, `listened` and `notified` of an `Extension`. The reader thread does
   not wait for room in the send queue. It drops a peer that does not read.
2. Lines are sent whole and in order. The sending thread writes a line of at most `SMALL_BYTES`
   directly if the queue is empty and no job is waiting for a worker. All other lines, and all lines
   of the reader thread, go through one bounded queue to one writer thread, which joins them into
   fewer writes. Descriptors are non-blocking, so no thread blocks in the system call. `send` blocks
   only while the queue is full, with a deadline. The connection is lost if the peer accepts no
   bytes for ``write_timeout`` seconds. It is also lost if more than `READER_BYTES` of the reader's
   lines are pending and the peer accepts no bytes for `READER_SECONDS`. The writer has one lock.
3. Requests go to a pool of worker threads in order of arrival. A handler that waits inside the
   library does not occupy a worker slot (`pool.waiting`).
4. A call is registered before its line is written. It ends exactly once: with a result, an error, a
   timeout, a cancellation or the loss of the connection. The thread that waits for the call runs
   its progress callbacks, in order, before it returns.
5. No thread holds a lock during I/O, a wait or user code. The exceptions are the locks that order
   the output of one connection, of one HTTP response, or of one handler's progress. Every wait has
   a deadline, or the docstring of the function says what ends the wait. No background thread holds
   the lock of a buffered stream while the interpreter exits (`log.exit_gate`).

`dispatch.py` decides where a message goes. The `ConnectionRole` decides how a request is handled.
The `Transport` moves bytes.

A connection ends in one of these ways. In each case, the reader thread runs `Connection._end` once.
If the threads were not started, `close` runs it:

====================================== ================ =======================================
Cause                                  Thread           What it does first
====================================== ================ =======================================
end of the input, or a reader failure  reader           nothing
a failed write, or `write_timeout`     sender or writer `_write_failed` ends the calls; then the
                                                        writer thread closes the transport
no response to several pings           timer            `lose` ends the calls; then a worker
                                                        calls `close`
`close`                                any              lets requests finish during `grace`;
                                                        cancels the calls; then `_release`
`abandon` by the garbage collector     writer           calls `close`
====================================== ================ =======================================

`_end` ends the calls, unless they have already ended (rule 4). If the peer may still read, `_end`
lets running requests finish (`_drain`). Then it cancels the other requests, closes the writer and
the transport (`_release`), and notifies the role (`connection_lost`).
"""

from __future__ import annotations

import threading
from contextvars import Context, copy_context
from copy import copy
from functools import partial
from queue import SimpleQueue
from typing import Any, Callable, Optional, Union

from ..errors import INVALID_REQUEST, PARSE_ERROR, ConnectionLost, ProtocolViolation
from ..log import exit_gate, logger
from ..protocol.lifecycle import Peer
from ..protocol.messages import (
    Failure,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    decode,
    encode,
    guess_from_ends,
)
from ..text import describe, one_line
from .calls import Calls, MakeParams, PendingCall, Pinged
from .dispatch import Dispatcher
from .incoming import Line, Route, Sink
from .limits import Limits
from .pool import Job, Pool, renewed_in_fork, waiting
from .running import RunningRequests
from .timer import NEVER, Deadline
from .transport import TooLong, Transport

log = logger("minimcp.connection")

# Maximum size of a line that the sending thread writes directly. A pipe accepts a write of this
# size as a whole or not at all.
SMALL_BYTES = 4096

# Size at which the writer thread stops joining queued lines into one write.
JOINED_BYTES = 64 * 1024

# Maximum number of pending bytes of the reader's own lines: errors, pings, lists.
READER_BYTES = 1024 * 1024

# How long a peer may accept no bytes while more than `READER_BYTES` are pending. After that, the
# connection is lost.
READER_SECONDS = 5.0

# How long `Connection.close` waits for the two threads to end.
CLOSE_SECONDS = 5.0

# How long `Connection.close` waits until the last lines, which cancel calls, are written.
FLUSH_ON_CLOSE_SECONDS = 0.5

# How long a failed write waits for the reader thread. The reader's error is more informative: it
# includes the peer's last lines and its exit code.
READER_CAUSE_SECONDS = 0.5

# The likely reason for a line that does not begin like a message.
PRINTED = (
    "your server printed to stdout, which is for messages: use stderr, print(..., file=sys.stderr)"
)

# Maximum number of invalid lines per connection that are logged as warnings. A program that is not
# a server may write any number of them.
MAX_WARNINGS = 5

# Kinds of messages that never get a response, not even an error.
_UNANSWERED = ("notification", "response")

Trace = Callable[[str, bytes], None]


class ConnectionRole:
    """The interface between a connection and the client or server that uses it.

    The thread that receives messages calls these methods, so they must not block. Over HTTP,
    several threads may call them at the same time for one session.
    """

    # Whether an invalid message gets an error response. Only a server sends one: if both sides did,
    # they could answer each other's errors forever.
    answers_invalid = False

    # Whether the peer may send requests. If not, an invalid request is dropped without an error.
    takes_requests = True

    # Whether the peer may send an array of messages now.
    takes_batches = False

    # Whether an error response omits the id if the id of the request is unreadable. If False, the
    # id is null.
    error_without_id = True

    # The server whose features handle requests; None for a client.
    server: Any = None

    def ping(self) -> Optional[tuple[str, MakeParams]]:
        """Return the method of a ping and a function that makes its params.

        Return None if the peer cannot be pinged now.
        """
        return None

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        """Return the sender of a request and its route, or None to drop it without a response.

        Raises:
            RpcError: The request is rejected.
        """
        raise NotImplementedError

    def notified(self, notification: Notification) -> None:
        """Handle a notification that is neither progress nor a cancellation."""

    def on_draining(self, sink: Sink) -> None:
        """End the open streams of this sink, because the connection is about to end."""

    def connection_lost(self, cause: ConnectionLost) -> None:
        """Clean up after the connection has ended."""


class Writer:
    """Sends the lines of one connection, whole and in order. Thread-safe.

    Args:
        transport: Sends the bytes.
        limits: The limits of the connection.
        pool: The connection's pool. While jobs are queued there, lines are joined.
        failed: Called when the connection is lost. Returns the exception that `send` raises. It may
            block, so no lock is held.
        trace: Called with ("-->", line) for each line; None for no trace.

    Attributes:
        pending: Number of bytes in the queue.
        max_pending: The number of pending bytes above which `send` blocks.
        reader_bytes: How many of the pending bytes the reader thread has queued: errors, pings,
            lists. The reader thread never blocks in `send`. It stops reading while more than
            `READER_BYTES` of these are pending (`wait_for_reader_bytes`).
    """

    def __init__(
        self,
        transport: Transport,
        limits: Limits,
        pool: Pool,
        failed: Callable[[ConnectionLost], BaseException],
        trace: Optional[Trace],
    ) -> None:
        self._transport = transport
        self._limits = limits
        self._pool = pool
        self._failed = failed
        self._trace = trace
        self.max_pending = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Reset to an empty queue."""
        # Orders writes. Reentrant, because a signal handler may cancel a call inside `send`.
        self._lock = threading.RLock()
        # Notified when lines have been written, and when the connection is lost.
        self._changed = threading.Condition(self._lock)
        # Lines with their bytes in `pending` and in `reader_bytes`. The writer thread ends at the
        # item None.
        self._lines: SimpleQueue[Optional[tuple[Line, int, int]]] = SimpleQueue()
        self.pending = 0
        self.reader_bytes = 0
        # Number of bytes that the writer thread has written.
        self._written = 0
        # The exception that ended the connection, or None.
        self._loss: Any = None

    def send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send one or more encoded lines in order.

        Args:
            line: UTF-8 JSON, ending in a newline.
            deadline: When to stop waiting for room in the queue.

        Returns:
            False if the deadline passed; nothing was sent.

        Raises:
            ConnectionLost: The peer closed the connection or stopped reading.

        Blocks while the queue is full.
        """
        if self.pending > self.max_pending and not self._wait_for_room(deadline):
            return False
        if self._trace is not None:
            self._trace_lines(line)
        # Unlike `acquire` and `try`, a `with` block also releases the lock if Ctrl-C arrives when
        # the lock has just been taken.
        with self._lock:
            # Rule 2: write a small line directly if the queue is empty. While jobs wait for a
            # worker, more responses follow soon, and the writer thread joins them into one write.
            is_small = len(line) <= SMALL_BYTES
            if is_small and not self.pending and not self._pool.queue and self._loss is None:
                try:
                    # Rule 5: this does not wait for room.
                    written = self._transport.send(line, 0.0)
                    line = line[written:]
                except ConnectionLost as error:
                    self._loss = error
                    self._lines.put(None)
            if self._loss is None:
                if line:
                    self._enqueue(line, len(line))
                return True
        # Rule 5: without the lock, because `failed` may wait for the reader thread.
        raise self._failed(self._loss) from self._loss.__cause__

    def post(self, line: Line, *, by_reader: bool = False) -> None:
        """Enqueue lines for the writer thread. Never blocks, never raises.

        Args:
            line: One or more lines, or a function that returns them, which the writer thread calls.
            by_reader: Whether the lines count towards `reader_bytes`.
        """
        size = 1
        if isinstance(line, bytes):
            size = len(line)
            self._trace_lines(line)
        with self._lock:
            if by_reader:
                self.reader_bytes += size
            self._enqueue(line, size, size if by_reader else 0)

    def _enqueue(self, line: Line, size: int, of_reader: int = 0) -> None:
        """Enqueue a line for the writer thread. The caller holds the lock."""
        self.pending += size
        self._lines.put((line, size, of_reader))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function on the writer thread, after the queued lines. Safe in a finalizer."""
        self._lines.put((function, 0, 0))

    def _trace_lines(self, data: bytes) -> None:
        for line in () if self._trace is None else data.splitlines():
            self._trace("-->", line)  # type: ignore[misc]

    def _wait_for_room(self, deadline: Deadline) -> bool:
        """Wait while the queue is full. Return False if the deadline passed."""
        with waiting(), self._changed:
            return self._changed.wait_for(
                lambda: self.pending <= self.max_pending or self._loss is not None,
                deadline.to_wait(),
            )

    def wait_for_reader_bytes(self) -> bool:
        """Wait while more than `READER_BYTES` of the reader's bytes are pending.

        Return False if the peer accepts no bytes for `READER_SECONDS`.
        """
        with self._changed:
            while self.reader_bytes > READER_BYTES and self._loss is None:
                written = self._written
                if not self._changed.wait(READER_SECONDS) and written == self._written:
                    return False
            return True

    def flush(self, seconds: float) -> bool:
        """Wait until the queue is empty or the connection is lost. Return False on a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self.pending or self._loss is not None, seconds
            )

    def close(self) -> None:
        """Reject further lines, and end the writer thread when the queue is empty."""
        with self._changed:
            self._loss = self._loss or ConnectionLost("closed")
            self._lines.put(None)
            self._changed.notify_all()

    # ------------------------------------------------------------ the writer thread

    def run(self) -> None:
        """Write queued lines until `close`, or until the connection is lost."""
        loss: Optional[ConnectionLost] = None
        try:
            while self._write_some():
                pass
        except ConnectionLost as error:
            loss = error
        except Exception as error:  # a bug must end the connection, not only this thread
            log.error("%s: the writer failed: %s", self._transport.name, error, exc_info=error)
            loss = ConnectionLost(f"the writer failed: {describe(error)}")
        with self._changed:
            self._loss = self._loss or loss
            self._changed.notify_all()
        self._failed(self._loss)
        self._transport.close()

    def _write_some(self) -> bool:
        """Join queued lines up to `JOINED_BYTES` and write them. Return False after `close`."""
        parts: list[bytes] = []
        size = 0
        by_reader = 0
        entry = self._lines.get()
        while entry is not None:
            line, line_size, of_reader = entry
            if not line_size:  # an entry of `call`: write the lines before it first
                self._write(b"".join(parts))
                parts = []
            parts.append(line if isinstance(line, bytes) else self._make(line))
            size += line_size
            by_reader += of_reader
            if not line_size or size >= JOINED_BYTES or self._lines.empty():
                break
            entry = self._lines.get()
        self._write(b"".join(parts))
        with self._changed:
            self.pending -= size
            self.reader_bytes -= by_reader
            self._changed.notify_all()
        return entry is not None

    def _make(self, make: Callable[[], Optional[bytes]]) -> bytes:
        try:
            line = make() or b""
            self._trace_lines(line)
            return line
        except Exception as error:  # a bug in one function must not hold up the other lines
            log.error("%s: %s", self._transport.name, error, exc_info=error)
            return b""

    def _write(self, data: bytes) -> None:
        # Rule 5: this thread does not hold the lock while it waits for the peer.
        view = memoryview(data)
        seconds = self._limits.write_timeout
        deadline = Deadline(seconds)
        while view:
            written = self._transport.send(view, deadline.to_wait())  # type: ignore[arg-type]
            if written:
                self._written += written
                view = view[written:]
                deadline = Deadline(seconds)
            elif deadline.expired:
                raise self._transport.loss(f"the peer accepted no bytes for {seconds:g} s")


class Connection(Sink, Pinged):
    """A connection to one peer, and the sink of the requests that arrive on it. Thread-safe.

    Args:
        transport: Moves the bytes. The connection closes it.
        role: Handles requests and notifications.
        pool: Runs the peer's requests.
        limits: The limits of the connection; None means the defaults.
        cap: The free slots of ``Limits.requests``; see `RunningRequests`.
        name: The name in log records and in the names of the threads. Empty means the name of the
            transport.
        trace: Called with ("-->" or "<--", line) for every message, on the thread that sends or
            receives it; None for no trace.
        context: The peer's requests run in copies of this context. None means a copy of the calling
            thread's context.

    Attributes:
        calls: The requests that this side has sent.
        requests: The peer's requests.
    """

    def __init__(
        self,
        transport: Transport,
        role: ConnectionRole,
        *,
        pool: Pool,
        limits: Optional[Limits] = None,
        cap: Optional[list[None]] = None,
        name: str = "",
        trace: Optional[Trace] = None,
        context: Optional[Context] = None,
    ) -> None:
        self.name = name or transport.name
        self.session_name = self.name
        self.origin = object()
        self.context = copy_context() if context is None else context
        self.limits = limits or Limits()
        self.pool = pool
        self.transport = transport
        self._role = role
        self._trace = trace
        self.writer = Writer(transport, self.limits, self.pool, self._write_failed, trace)
        self.calls = Calls(self.name, self.writer.send, self.post, lambda: self.invalid_line_note)
        on_finished = getattr(role.server, "on_finished", None)
        self.requests = RunningRequests(
            self.limits, cap, until_answered=role.server is None, on_finished=on_finished
        )
        self._threads: list[threading.Thread] = []
        # Set when the reader thread has read everything and has ended the calls.
        self._has_read_all = threading.Event()
        self._ended = threading.Event()
        self._dispatcher = Dispatcher(self, role, self.requests.cancel)
        # Requests that the reader thread submits to the pool after the current chunk.
        self._admitted: list[Job] = []
        self._closing = False
        # Makes a second thread in `close` wait until the first one has enqueued the cancellations.
        self._farewell_lock = threading.Lock()
        self.invalid_line_note = ""
        self._invalid_lines = 0
        renewed_in_fork.add(self)

    def open(self) -> Connection:
        """Start the connection's threads."""
        read = partial(self.context.copy().run, self._read)
        for work, part in ((read, "reader"), (self.writer.run, "writer")):
            thread = threading.Thread(target=work, name=f"minimcp-{self.name}-{part}", daemon=True)
            try:
                thread.start()
            except BaseException:  # the system cannot start a thread
                self.close()
                raise
            # Add the thread only after it has started: `close` on another thread joins the threads
            # in this list.
            self._threads.append(thread)
        return self

    # ------------------------------------------------------------ reading

    def _read(self) -> None:
        reason = "the peer closed the connection"
        dispatch = self._dispatcher.dispatch
        headers = self.transport.headers
        try:
            while True:
                frames = self.transport.receive()
                if not frames:
                    break
                with exit_gate:  # user callbacks may print
                    message: Any = None
                    for frame in frames:
                        if isinstance(frame, TooLong):
                            self._too_long(frame)
                            continue
                        if self._trace is not None:
                            self._trace("<--", frame)
                        message = decode(frame, max_depth=self.limits.depth)
                        if type(message) is Request:
                            dispatch(message, self, len(frame), self._admitted.append, headers)
                        elif isinstance(message, list):
                            self._array(message, frame)
                        elif isinstance(message, InvalidMessage):
                            self._invalid(message, frame)
                        else:
                            self._dispatcher.receive(message, len(frame))
                if self._admitted:
                    # Rule 3. Submit all together, because a woken worker competes with this thread
                    # for the interpreter lock.
                    self.pool.submit(*[partial(self._run, each) for each in self._admitted])
                    self._admitted.clear()
                # Rule 1: drop a peer that does not read the responses that this thread enqueued.
                if (
                    self.writer.reader_bytes > READER_BYTES
                    and not self.writer.wait_for_reader_bytes()
                ):
                    reason = "the peer does not read its responses"
                    break
                del frames, frame, message  # an idle connection keeps no message in memory
        except BaseException as error:  # a bug must end the connection, not only this thread
            log.error("%s: the reader failed: %s", self.name, error, exc_info=error)
            reason = f"the reader failed: {describe(error)}"
        self._end(reason)

    def _run(self, job: Job) -> None:
        """Run a request on a worker, or submit it again when the queued lines are written."""
        # Rule 2: do not start a handler while the queue is full, because its `send` would block.
        if self.writer.pending > self.writer.max_pending:
            self.writer.call(partial(self.pool.submit, partial(self._run, job)))
        else:
            job()

    def _array(self, items: list[Union[Message, InvalidMessage]], frame: bytes) -> None:
        from .batch import Batch, why_no_batch  # loaded late: only one revision has arrays

        reason = why_no_batch(items, taken=self._role.takes_batches, limit=self.limits.batch)
        if reason is not None:
            self._invalid(InvalidMessage(INVALID_REQUEST, reason), frame)
            return
        invalid = [
            item for item in items if type(item) is InvalidMessage and item.kind not in _UNANSWERED
        ]
        refusals = [self._refusal(item) for item in invalid if self._role.answers_invalid]
        messages = [item for item in items if not isinstance(item, InvalidMessage)]
        batch = Batch(self, refusals, messages)
        size = len(frame) // len(items)
        headers = self.transport.headers
        run = self._admitted.append
        batch.serve(lambda item: self._dispatcher.dispatch(item, self, size, run, headers, batch))

    def _too_long(self, frame: TooLong) -> None:
        """Fail the call that an oversized line responds to, or reject the oversized request.

        If the line is a response whose id is unreadable, fail every pending call.
        """
        shown = frame.head + b" ... " + frame.tail
        limit = f"{frame.limit} bytes, the receiver's Limits.message_bytes"
        reason = f"a message is longer than {limit}"
        broken = guess_from_ends(frame.head, frame.tail, reason)
        if broken.kind == "response" and broken.id is None:
            log.warning(
                "<-- a response is longer than %d bytes and its id is unreadable: all calls fail",
                frame.limit,
            )
            for call in self.calls.pending():
                self.calls.settle(
                    call.id, ProtocolViolation(reason, shown.decode("utf-8", "replace"))
                )
        self._invalid(broken, shown)

    def _invalid(self, broken: InvalidMessage, frame: bytes) -> None:
        """Handle an invalid message.

        If it responds to a pending call, the call fails. Otherwise a server sends an error, and a
        client logs the line.
        """
        text = frame.decode("utf-8", "replace")
        violation = ProtocolViolation(broken.reason, text)
        if (
            broken.kind in ("response", "unknown")
            and broken.id is not None
            and self.calls.settle(broken.id, violation)
        ):
            return
        meant = None
        if broken.id is None and broken.code == PARSE_ERROR:
            meant = self.calls.meant_by(frame)
        if meant is not None and self.calls.settle(meant.id, violation):
            return
        if broken.code == PARSE_ERROR:
            # A line that is not JSON and matches no pending call is not treated as a response, even
            # if it looks like one. The error omits the id, because a running request may have the
            # same id.
            broken = InvalidMessage(PARSE_ERROR, broken.reason)
        if broken.kind in _UNANSWERED:
            return
        is_request = (
            self._role.takes_requests and broken.kind == "request" and broken.id is not None
        )
        if self._role.answers_invalid or is_request:
            self.deliver(self._refusal(broken), False)
            return
        shown = one_line(text)
        self._invalid_lines += 1
        self.invalid_line_note = f"; it wrote a line that is not a message: {shown}"
        report = log.warning if self._invalid_lines <= MAX_WARNINGS else log.debug
        advice = "" if frame[:1] in b"[{" else f"; {PRINTED}"
        report("<-- a line that is not a message (%s%s): %s", broken.reason, advice, shown)

    def _refusal(self, broken: InvalidMessage) -> bytes:
        answer = Failure(broken.id, broken.code, broken.reason)
        return encode(answer, error_without_id=self._role.error_without_id)

    # ------------------------------------------------------------ as a sink

    def send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Send lines; see `Writer.send`."""
        return self.writer.send(line, deadline)

    def post(self, line: Line) -> None:
        """Enqueue lines; see `Writer.post`."""
        self.writer.post(line)

    def deliver(self, line: bytes, wait: bool) -> None:
        """Send a response; see `Sink.deliver`."""
        if not wait:
            self.writer.post(line, by_reader=True)
            return
        try:
            self.writer.send(line)
        except ConnectionLost as error:  # the reader thread reports the loss
            log.debug("%s: a response could not be written: %s", self.name, error)

    def asking(self) -> Calls:
        """Return the calls of this connection."""
        return self.calls

    def closing_message(self, id: Id) -> Optional[bytes]:
        """Return the cancellation that ends a stream."""
        return encode(Notification("notifications/cancelled", {"requestId": id}))

    # ------------------------------------------------------------ pings

    def keep_alive(self, interval: Optional[float]) -> None:
        """Ping the peer every `interval` seconds while the connection is idle.

        None, or a peer in the same process, means never.
        """
        if interval is not None and not self.transport.in_memory:
            from .liveness import start_pings

            start_pings(self, self.name, interval)

    def is_idle(self) -> bool:
        return self.requests.are_idle()

    def send_ping(self) -> Optional[PendingCall]:
        ping = self._role.ping()
        return None if ping is None else self.calls.ping(*ping)

    def lose(self, cause: ConnectionLost) -> None:
        self.calls.close(cause)
        self.pool.spawn(self.close)

    # ------------------------------------------------------------ the end

    def _write_failed(self, found: ConnectionLost) -> BaseException:
        """End all calls after a failed write. Return the exception to raise."""
        if len(self.calls) and isinstance(found.__cause__, OSError):
            # The peer has disconnected. The reader thread detects that, too, and its error is more
            # informative.
            self._has_read_all.wait(READER_CAUSE_SECONDS)
        self.calls.close(found)
        return copy(self.calls.cause or found)

    def _end(self, reason: str) -> None:
        """End the calls, let running requests finish, and release everything.

        The reader thread calls this last. If the threads were not started, `close` calls it.
        """
        if self._closing:
            cause = ConnectionLost(f"{self.name}: closed")
        else:
            cause = self.transport.loss(reason + self.invalid_line_note)
        self.calls.close(cause)  # Rule 4: all calls end with this cause.
        self._has_read_all.set()
        try:
            if not self._closing and self.transport.peer_may_read():
                self._drain(Deadline(self.limits.drain_grace))
            self._release("the connection has ended")
            self._role.connection_lost(cause)
        finally:
            self._ended.set()
            self.stop_pings()

    def _drain(self, deadline: Deadline) -> None:
        """End open streams, wait for running requests to finish, and flush the queue."""
        self._role.on_draining(self)
        if not self.requests.wait_until_empty(deadline):
            log.warning(
                "%s: requests that are still running after %g s: %d",
                self.name,
                deadline.seconds,
                self.requests.running,
            )
        self.writer.flush(deadline.to_wait())

    def _release(self, reason: str) -> None:
        self.requests.abandon(reason)
        self.writer.close()
        self.transport.close()

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """End the connection. Idempotent and thread-safe.

        Pending calls are cancelled. The peer is notified if it reads the cancellations at once.

        Args:
            grace: How long running requests may take to finish, in seconds.
            reason: Cancel running requests with this reason first. If None, they are not cancelled.
        """
        if reason is not None:
            self.requests.refuse(reason)
            # Before `interrupt`, so that streams end with a result and are not cancelled.
            self._role.on_draining(self)
            self.requests.interrupt(reason)
        if grace and not self._ended.is_set():
            self._drain(Deadline(grace))
        self._closing = True
        for call in self.calls.pending():
            # When a connection is lost, progress that arrived earlier is still reported. Here it is
            # dropped, because the user has closed the connection.
            call.on_item = None
        with self._farewell_lock:
            farewell = self.calls.close(ConnectionLost(f"{self.name}: closed"))
            if farewell:
                self.writer.post(farewell)
        if not self._threads:
            self._end("never opened")
        elif threading.current_thread() not in self._threads:
            self.writer.flush(FLUSH_ON_CLOSE_SECONDS)
        self._release("the connection is closed")
        deadline = Deadline(CLOSE_SECONDS)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(deadline.to_wait())
                if thread.is_alive():
                    log.warning("%s: the thread %s has not ended", self.name, thread.name)

    def abandon(self) -> None:
        """End the connection without waiting. Called when its owner is garbage-collected."""
        self._closing = True
        self.writer.call(self.close)

    def renew_in_fork(self) -> None:
        """End all calls and requests in a forked child process, and close the descriptors."""
        reason = "this connection belongs to the parent process, not to its fork"
        self.calls.close(ConnectionLost(f"{self.name}: {reason}"))
        self.writer.renew_in_fork()
        self.requests.renew_in_fork()
        self._has_read_all = threading.Event()
        self._ended = threading.Event()
        self._farewell_lock = threading.Lock()
        self._ended.set()
        self._threads = []
        self.transport.close_in_fork()

    def wait_until_ended(self, seconds: Optional[float] = None) -> bool:
        """Wait until the connection has ended. Return False on a timeout; None means no limit."""
        return self._ended.wait(seconds)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended.is_set()
