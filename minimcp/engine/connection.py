"""One connection: its reader thread, its writer thread, our pending calls and the peer's requests.

Five rules govern the threads. A comment names the rule at each place where it applies.

1. One reader thread per connection reads, decodes and dispatches. It never runs handlers or
   callbacks, and never waits for room in a queue (it drops the connection instead), so a slow
   handler cannot delay a read. Exceptions: `trace`, `on_request`, the methods `route`, `declare`,
   `listened` and `notified` of an `Extension`, and pings, lists and the like (`Route.immediate`),
   whose responses it leaves to the writer thread.
2. Lines are sent whole and in order. A line of at most `SMALL_BYTES` is written directly by the
   thread that sends it if the queue is empty and no job is waiting for a worker. Everything else,
   and all lines of the reader, go through one bounded queue to one writer thread, which joins them
   into fewer writes. Descriptors are non-blocking, so no thread blocks in the system call. `send`
   blocks only while the queue is full, with a deadline. If a peer accepts no bytes for
   ``write_timeout`` seconds, or leaves more than `READER_BYTES` of the reader's lines for
   `READER_SECONDS`, the connection is lost. One lock orders all of this.
3. Requests go to a pool of worker threads in order of arrival. A handler that waits inside the
   library does not occupy a worker slot (`pool.waiting`).
4. A call is registered before its line is written. It ends exactly once: with a result, an error, a
   timeout, a cancellation or the loss of the connection. The thread that waits for it runs its
   progress callbacks, in order, before it returns.
5. No lock is held during I/O, a wait or user code, except those that order what one connection, one
   HTTP response or one handler's progress sends. Every wait has a deadline or a documented waker.
   No background thread holds the lock of a buffered stream while the interpreter exits
   (`errors.exit_gate`).

What a message means is decided in `dispatch.py`, and what a request means by the `ConnectionRole`.
How bytes travel is the concern of the `Transport`.
"""

from __future__ import annotations

import logging
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
    diagnose_long,
    encode,
)
from ..text import describe, one_line
from .calls import Calls, MakeParams, PendingCall
from .dispatch import Dispatcher
from .incoming import Line, Route, RunningRequests, Sink
from .limits import Limits
from .liveness import Pinged
from .pool import Job, Pool, renewed_in_fork, waiting
from .timer import NEVER, Deadline
from .transport import TooLong, Transport

log = logger("minimcp.connection")

# Maximum size of lines that the sending thread writes itself. A pipe accepts so many bytes as a
# whole, or none.
SMALL_BYTES = 4096

# Bytes of queued lines that are joined into one write.
JOINED_BYTES = 64 * 1024

# Maximum number of pending bytes of the reader's own lines: errors, pings, lists.
READER_BYTES = 1024 * 1024

# How long a peer may read nothing while more than `READER_BYTES` are pending. Then the connection
# is lost.
READER_SECONDS = 5.0

# How long `Connection.close` waits for the two threads.
CLOSE_SECONDS = 5.0

# How long `Connection.close` waits until the last lines are written: cancellations.
FLUSH_ON_CLOSE_SECONDS = 0.5

# How long a failed write waits for the reader, whose cause says more: the peer's last lines, its
# exit code.
READER_CAUSE_SECONDS = 0.5

# What a line means, as a rule, that does not even begin like a message.
PRINTED = (
    "your server printed to stdout, which is for messages: use stderr, print(..., file=sys.stderr)"
)

# Lines of one connection that are shown when they are no messages: a program that is no server may
# write for ever.
MOST_WARNINGS = 5

_UNANSWERED = ("notification", "response")

Trace = Callable[[str, bytes], None]


class ConnectionRole:
    """What a connection asks of the client or server above it, on the thread that takes messages
    in: be quick.

    That is the reader; over HTTP a worker or the thread that calls, several at once for one
    session.
    """

    # Whether what cannot be read is answered. A server does; a client must not, or two could shout
    # for ever.
    answers_invalid = False

    # Whether the peer may send requests at all; where it may not, even a broken one is dropped
    # without a word.
    takes_requests = True

    # Whether an array of messages may arrive now.
    takes_batches = False

    # How an error is written now whose request's id could not be read: True leaves the id out,
    # False writes null.
    error_without_id = True

    # Of the features that serve requests; None for a client.
    server: Any = None

    def ping(self) -> Optional[tuple[str, MakeParams]]:
        """Return the method of a ping and what makes its params; None if the peer is not pinged
        now."""
        return None

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        """Who sends this request and where it goes; None drops it without an answer.

        Raises:
            RpcError: It is refused.
        """
        raise NotImplementedError

    def notified(self, notification: Notification) -> None:
        """A notification came that is neither progress nor a cancellation."""

    def on_draining(self, sink: Sink) -> None:
        """The connection is about to end, and what still runs gets some time: open streams on this
        sink end now."""

    def lost(self, cause: ConnectionLost) -> None:
        """The connection has ended."""


class Writer:
    """Sends the lines of one connection, whole and in order. Thread-safe.

    Args:
        transport: Where the lines go.
        limits: The limits of the connection.
        pool: The connection's pool. While jobs are queued there, lines are joined.
        failed: Called when nothing can be written any more. Returns the exception to raise. It may
            block, so no lock is held.
        trace: Called with ("-->", line) for each line; None for no trace.

    Attributes:
        pending: Number of bytes in the queue.
        most: The number of pending bytes above which `send` blocks.
        reader_bytes: How many of the pending bytes the reader has queued: errors, pings, lists. The
            reader never blocks in `send`. It stops reading while more than `READER_BYTES` of these
            are pending (`wait_for_room`).
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
        self.most = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Begin with an empty queue."""
        # Orders writes. Reentrant, because a signal handler may cancel a call inside of `send`.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._lines: SimpleQueue[Optional[tuple[Line, int, int]]] = SimpleQueue()
        self.pending = 0
        self.reader_bytes = 0
        self._taken = 0
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
        if self.pending > self.most:
            with waiting(), self._changed:
                has_room = self._changed.wait_for(
                    lambda: self.pending <= self.most or self._loss, deadline.to_wait()
                )
            if not has_room:
                return False
        if self._trace is not None:
            self._note(line)
        with self._lock:
            try:
                # Rule 2: a small line is written directly if nothing is queued before it. While
                # jobs are queued, more lines come soon, and one write takes them all. Rule 5: this
                # write does not wait for the peer.
                is_small = len(line) <= SMALL_BYTES
                if is_small and not (self.pending or self._pool.queue) and self._loss is None:
                    line = line[self._transport.send(line, 0.0) :]
            except ConnectionLost as error:
                self._loss = error
                self._lines.put(None)
            if self._loss is None:
                if line:
                    self._queue(line, len(line))
                return True
        raise self._failed(self._loss) from self._loss.__cause__

    def post(self, line: Line, *, by_reader: bool = False) -> None:
        """Queue lines for the writer thread. Never blocks, never raises.

        Args:
            line: One or more lines, or a function that returns them, which the writer thread calls.
            by_reader: Whether the lines count among `reader_bytes`.
        """
        size = 1
        if isinstance(line, bytes):
            size = len(line)
            self._note(line)
        with self._lock:
            if by_reader:
                self.reader_bytes += size
            self._queue(line, size, size if by_reader else 0)

    def _queue(self, line: Line, size: int, of_reader: int = 0) -> None:
        """Queue a line for the writer thread. The caller holds the lock."""
        self.pending += size
        self._lines.put((line, size, of_reader))

    def call(self, function: Callable[[], None]) -> None:
        """Call a function on the writer thread, behind the queued lines. Safe in a finalizer."""
        self._lines.put((function, 0, 0))

    def _note(self, line: bytes) -> None:
        for part in () if self._trace is None else line.splitlines():
            self._trace("-->", part)  # type: ignore[misc]

    def wait_for_room(self) -> bool:
        """Wait while more than `READER_BYTES` of the reader's bytes are pending.

        Return False if the peer accepts no bytes for `READER_SECONDS`.
        """
        with self._changed:
            while self.reader_bytes > READER_BYTES and self._loss is None:
                taken = self._taken
                if not self._changed.wait(READER_SECONDS) and taken == self._taken:
                    return False
            return True

    def flush(self, seconds: float) -> bool:
        """Wait until the queue is empty, or the connection is lost; False if the time is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self.pending or self._loss is not None, seconds
            )

    def close(self) -> None:
        """End the writer thread when the queue is empty. Nothing more can be sent."""
        with self._changed:
            self._loss = self._loss or ConnectionLost("closed")
            self._lines.put(None)
            self._changed.notify_all()

    # ------------------------------------------------------------ the writer thread

    def run(self) -> None:
        """Write queued lines until `close`, or until the connection is lost."""
        try:
            while self._write_some():
                pass
        except ConnectionLost as loss:
            self._loss = self._loss or loss
        except Exception as error:  # a bug here must end the connection, and not stop it silently
            log.error("%s: the writer failed: %s", self._transport.name, error, exc_info=error)
            self._loss = self._loss or ConnectionLost(f"the writer failed: {describe(error)}")
        with self._changed:
            self._changed.notify_all()
        self._failed(self._loss)
        self._transport.close()

    def _write_some(self) -> bool:
        """Write what is queued, up to `JOINED_BYTES` and one line more; False after `close`."""
        parts: list[bytes] = []
        size = 0
        by_reader = 0
        entry = self._lines.get()
        while entry is not None:
            line, counts, of_reader = entry
            parts.append(line if isinstance(line, bytes) else self._made(line))
            size += counts
            by_reader += of_reader
            if not counts or size >= JOINED_BYTES or self._lines.empty():
                break
            entry = self._lines.get()
        self._write(b"".join(parts))
        with self._changed:
            self.pending -= size
            self.reader_bytes -= by_reader
            self._changed.notify_all()
        return entry is not None

    def _made(self, make: Callable[[], Optional[bytes]]) -> bytes:
        try:
            line = make() or b""
            self._note(line)
            return line
        except Exception as error:  # a bug in one function does not keep the other lines back
            log.error("%s: %s", self._transport.name, error, exc_info=error)
            return b""

    def _write(self, data: bytes) -> None:
        # Rule 5: the lock is not held while this thread waits for the peer.
        view = memoryview(data)
        seconds = self._limits.write_timeout
        patience = Deadline(seconds)
        while view:
            taken = self._transport.send(view, patience.to_wait())  # type: ignore[arg-type]
            if taken:
                self._taken += taken
                view = view[taken:]
                patience = Deadline(seconds)
            elif patience.expired:
                raise self._transport.lost(f"the peer took no byte for {seconds:g} s")


class Connection(Sink, Pinged):
    """One connection to one peer, and the sink of the requests that come by it. Thread-safe.

    Args:
        transport: How bytes travel; owned from now on.
        role: Decides what requests and notifications mean.
        pool: Runs the peer's requests.
        limits: What the connection may cost; None takes the defaults.
        cap: The free places of ``Limits.requests``, as `RunningRequests` takes them.
        name: Shown in logs, and in the names of its threads; empty takes the transport's.
        trace: Called with ("-->" or "<--", line) for every message, on the thread that moves it;
            None for no trace.
        context: The peer's requests run in copies of this context; None takes a copy of that of the
            calling thread.

    Attributes:
        calls: Our requests.
        requests: The peer's.
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
        self.name = self.session_name = name or transport.name
        self.origin = object()
        self.context = copy_context() if context is None else context
        self.limits = limits or Limits()
        self.pool = pool
        self.transport = transport
        self._role = role
        self._trace = trace
        self.writer = Writer(transport, self.limits, self.pool, self._loss, trace)
        self.calls = Calls(self.name, self.writer.send, self.post, lambda: self._remark)
        on_finished = getattr(role.server, "on_finished", None)
        self.requests = RunningRequests(
            self.limits, cap, until_answered=role.server is None, on_finished=on_finished
        )
        self._threads: list[threading.Thread] = []
        self._read_out = threading.Event()
        self._ended = threading.Event()
        self._dispatcher = Dispatcher(self, role, self.requests.cancel)
        # Requests that the reader has for the pool.
        self._admitted: list[Job] = []
        self._closing = False
        self._farewell_lock = (
            threading.Lock()
        )  # who closes it too must not overtake who tells the peer
        self._remark = ""
        self._odd_lines = 0
        renewed_in_fork.add(self)

    def open(self) -> Connection:
        """Start the connection's threads."""
        read = partial(self.context.copy().run, self._read)
        for work, part in ((read, "reader"), (self.writer.run, "writer")):
            thread = threading.Thread(target=work, name=f"minimcp-{self.name}-{part}", daemon=True)
            try:
                thread.start()
            except BaseException:  # the system gives none
                self.close()
                raise
            self._threads.append(
                thread
            )  # not before: `close`, which may come meanwhile, joins what is here
        return self

    # ------------------------------------------------------------ reading

    def _read(self) -> None:
        reason = "the peer closed the connection"
        dispatch, headers = self._dispatcher.dispatch, self.transport.headers
        try:
            while True:
                frames = self.transport.receive()
                if not frames:
                    break
                with exit_gate:  # callbacks of a user may print
                    message: Any = None
                    for frame in frames:
                        if isinstance(frame, TooLong):
                            self._too_long(frame)
                            continue
                        if self._trace is not None:
                            self._trace("<--", frame)
                        message = decode(frame, max_depth=self.limits.depth)
                        if isinstance(message, list):
                            self._array(message, frame)
                        elif isinstance(message, InvalidMessage):
                            self._invalid(message, frame)
                        elif isinstance(message, Request):
                            dispatch(message, self, len(frame), self._admitted.append, headers)
                        else:
                            self._dispatcher.receive(message)
                if self._admitted:
                    # Rule 3. All at once, because a worker that wakes wants the interpreter's lock.
                    self.pool.submit(*[partial(self._run, each) for each in self._admitted])
                    self._admitted.clear()
                # Rule 1: the reader has queued its responses, and drops a peer that reads none.
                if self.writer.reader_bytes > READER_BYTES and not self.writer.wait_for_room():
                    reason = "the peer takes no answers"
                    break
                del frames, frame, message  # a connection that waits keeps nothing of what came
        except BaseException as error:  # a fault of ours must end in a loss, not in silence
            log.error("%s: the reader failed: %s", self.name, error, exc_info=error)
            reason = f"the reader failed: {describe(error)}"
        self._end(reason)

    def _run(self, job: Job) -> None:
        # Rule 2: no handler begins while the peer does not read, because its `send` would block.
        if self.writer.pending > self.writer.most:
            self.writer.call(partial(self.pool.submit, partial(self._run, job)))
        else:
            job()

    def _array(self, items: list[Union[Message, InvalidMessage]], frame: bytes) -> None:
        from .batch import Batch, why_no_batch  # one revision has arrays

        reason = why_no_batch(items, taken=self._role.takes_batches, limit=self.limits.batch)
        if reason is not None:
            self._invalid(InvalidMessage(INVALID_REQUEST, reason), frame)
            return
        invalid = [
            item for item in items if type(item) is InvalidMessage and item.kind not in _UNANSWERED
        ]
        refusals = [self._refusal(item) for item in invalid if self._role.answers_invalid]
        batch = Batch(
            self, refusals, [item for item in items if not isinstance(item, InvalidMessage)]
        )
        size, headers = len(frame) // len(items), self.transport.headers
        run = self._admitted.append
        batch.serve(lambda item: self._dispatcher.dispatch(item, self, size, run, headers, batch))

    def _too_long(self, frame: TooLong) -> None:
        """Fail the call, or answer the request, that an oversized line belongs to.

        If it is a response with no readable id, fail every pending call.
        """
        shown = frame.head + b" ... " + frame.tail
        limit = f"{frame.limit} bytes, the Limits.message_bytes of its receiver"
        reason = f"a message is longer than {limit}"
        broken = diagnose_long(frame.head, frame.tail, reason)
        if broken.kind == "response" and broken.id is None:
            log.warning(
                "<-- an answer is longer than %d bytes and does not say whose: all calls end",
                frame.limit,
            )
            for call in self.calls.pending():
                self.calls.settle(
                    call.id, ProtocolViolation(reason, shown.decode("utf-8", "replace"))
                )
        self._invalid(broken, shown)

    def _invalid(self, broken: InvalidMessage, frame: bytes) -> None:
        """Deal with what is no message: a server says so, a client must not."""
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
            # A line that is not JSON and ends no call is not a response, even if it looks like one.
            # An id in it may be the id of a request that runs, so the error does not repeat it.
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
        self._odd_lines = self._odd_lines + 1
        self._remark = f"; it wrote a line that is no message: {shown}"
        level = logging.WARNING if self._odd_lines <= MOST_WARNINGS else logging.DEBUG
        advice = "" if frame[:1] in b"[{" else f"; {PRINTED}"
        log.log(level, "<-- a line that is no message (%s%s): %s", broken.reason, advice, shown)

    def _refusal(self, broken: InvalidMessage) -> bytes:
        answer = Failure(broken.id, broken.code, broken.reason)
        return encode(answer, error_without_id=self._role.error_without_id)

    # ------------------------------------------------------------ as a sink

    def send(self, line: bytes, deadline: Deadline = NEVER) -> bool:
        """Write whole lines. Arguments, result and errors as `Writer.send`."""
        return self.writer.send(line, deadline)

    def post(self, line: Line) -> None:
        """Have whole lines written by the writer's thread. Never blocks, never raises."""
        self.writer.post(line)

    def deliver(self, line: bytes, wait: bool) -> None:
        """As `Sink.deliver`."""
        if not wait:
            self.writer.post(line, by_reader=True)
            return
        try:
            self.writer.send(line)
        except ConnectionLost as error:  # nobody can be told: the reader finds out too
            log.debug("%s: an answer could not be written: %s", self.name, error)

    def asking(self) -> Calls:
        """As `Sink.asking`."""
        return self.calls

    def closing_message(self, id: Id) -> Optional[bytes]:
        """As `Sink.closing_message`."""
        return encode(Notification("notifications/cancelled", {"requestId": id}))

    # ------------------------------------------------------------ pings

    def keep_alive(self, interval: Optional[float]) -> None:
        """Ping the peer every `interval` seconds; None, or a peer in memory: never."""
        if interval is not None and not self.transport.in_memory:
            self.start_pings(self.name, interval)

    def is_idle(self) -> bool:
        return self.requests.are_idle()

    def send_ping(self) -> Optional[PendingCall]:
        ping = self._role.ping()
        return None if ping is None else self.calls.ping(*ping)

    def lose(self, cause: ConnectionLost) -> None:
        self.calls.close(cause)
        self.pool.spawn(self.close)

    # ------------------------------------------------------------ the end

    def _loss(self, found: ConnectionLost) -> BaseException:
        """End all calls after a failed write; what to raise: the reader's cause, where it comes
        soon."""
        if len(self.calls) and isinstance(
            found.__cause__, OSError
        ):  # the peer has left: so it will be read
            self._read_out.wait(READER_CAUSE_SECONDS)
        self.calls.close(found)
        return copy(self.calls.cause or found)

    def _end(self, reason: str) -> None:
        """End the calls, let running requests finish, and release everything (reader thread)."""
        if self._closing:
            cause = ConnectionLost(f"{self.name}: closed")
        else:
            cause = self.transport.lost(reason + self._remark)
        self.calls.close(cause)  # rule 4: all calls end with this cause
        self._read_out.set()
        try:
            if not self._closing and self.transport.peer_may_read():
                self._drain(Deadline(self.limits.drain_grace))
            self._release("the connection has ended")
            self._role.lost(cause)
        finally:
            self._ended.set()
            self.stop_pings()

    def _drain(self, deadline: Deadline) -> None:
        """End open streams, and wait until the running requests have finished and everything is
        written."""
        self._role.on_draining(self)
        if not self.requests.wait_until_empty(deadline):
            log.warning(
                "%s: %d requests still run after %g s",
                self.name,
                self.requests.running,
                deadline.seconds,
            )
        self.writer.flush(deadline.to_wait())

    def _release(self, reason: str) -> None:
        self.requests.abandon(reason)
        self.writer.close()
        self.transport.close()

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """End the connection. Idempotent, from any thread, in any order.

        The peer is told of the calls that still wait, if it takes that at once: it need not go on
        with them.

        Args:
            grace: Seconds that running requests get first.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
        """
        if reason is not None:
            self.requests.refuse(reason)
            self._role.on_draining(self)  # streams end with their result, and are not cancelled
            self.requests.interrupt(reason)
        if grace and not self._ended.is_set():
            self._drain(Deadline(grace))
        self._closing = True
        for call in self.calls.pending():
            call.on_item = (
                None  # at a loss the progress is still told that came before it, here it is not
            )
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
        self._read_out = threading.Event()
        self._ended = threading.Event()
        self._farewell_lock = threading.Lock()
        self._ended.set()
        self._threads = []
        self.transport.close_in_fork()

    def wait_until_ended(self, seconds: Optional[float] = None) -> bool:
        """Wait until the connection has ended; False when it still lives after that time (None: for
        ever)."""
        return self._ended.wait(seconds)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended.is_set()
