"""One connection: a reader, a way out, the calls that wait and the requests that run.

The six rules of threads:

1. Somebody is always reading, and whoever reads does nothing else. The reader's thread reads, decodes, changes the
   tables and hands over; it runs no handler and no callback, takes no write lock and writes nothing. Requests go in
   order of arrival to a hot worker (`lane`), or to a worker of their own. Where each answer has a way of its own, as
   over HTTP, so has each a reader (see `Pipe.attach`).
2. Register, then write. A failed write retires the entry.
3. The state lock is never held during I/O, a wait or user code; state lock and write lock are never held together.
4. The thread that waits runs its own callbacks: a pending call is a mailbox that its caller drains.
5. Losing the connection ends every pending call with the same cause, at once, then refuses new ones with it. An entry
   leaves its table by exactly one of answer, error, timeout, cancel and loss.
6. Workers grow to a cap; what waits gives its place back. What the connection itself owes (refusals, pings, lists) is
   written by a control worker and never waits behind handlers. Only a peer that does not take its answers stops the
   reader.

Not here: what a request means (see `role`), and how bytes travel (see `pipe`).
"""

from __future__ import annotations

import logging
import os
import threading
from copy import copy
from functools import partial
from typing import Any, Callable, Optional

from ..errors import ConnectionLost, InternalError, RpcError, describe
from .control import ControlWorker
from .deadline import Deadline
from .exchange import Exchange, Route
from .inbound import Inbound
from .intake import Intake
from .lane import HotLane
from .limits import Limits
from .outbox import Outbox
from .outgoing import Outgoing
from .role import Role
from .transport import Pipe
from .workers import Workers

log = logging.getLogger("minimcp.channel")

CLOSE_SECONDS = 5.0
"""How long `Channel.close` waits for its own threads."""

_WAKE_EVERY = 64
"""Frames after which those that something came for are woken, though there is more to read."""

FAREWELL_SECONDS = 0.5
"""How long `Channel.close` waits for what is owed to the peer to be written."""

LAST_WORDS_SECONDS = 0.5
"""How long a write that failed waits for the reader: what the peer wrote before it left, and its end, tell more."""


def _refuse(error: RpcError, exchange: Exchange) -> dict[str, Any]:
    raise error


NO_THREAD = Route(partial(_refuse, InternalError("no thread is free")), control=True)
"""Where requests go when the system gives no more threads."""


class Channel:
    """One connection to one peer. Thread-safe.

    Args:
        pipe: How bytes travel; the channel owns it from now on.
        role: Decides what requests and notifications mean.
        limits: What the connection may cost; None takes the defaults.
        name: Shown in logs, and the beginning of the names of its threads.
        trace: Called with ("-->" or "<--", line) for every message, on the thread that moves it; None for no trace.
    """

    def __init__(
        self,
        pipe: Pipe,
        role: Role,
        *,
        limits: Optional[Limits] = None,
        name: str = "",
        trace: Optional[Callable[[str, bytes], None]] = None,
    ) -> None:
        self.name = name or pipe.name
        self.limits = limits or Limits()
        self._pipe, self._role, self._trace = pipe, role, trace
        self._process = os.getpid()
        self._outbox = Outbox(
            pipe, patience=self.limits.write_timeout, max_backlog=self.limits.backlog_bytes
        )
        self.workers = Workers(self.limits.workers, name=f"minimcp-{self.name}")
        self._lane = HotLane(self.workers, self._write_answer) if role.hot else None
        self._control = ControlWorker(self._enqueue, self._flush)
        self.calls = Outgoing(
            self.name, post=self.post, owe=self.owe, check=self._check_process, remark=self._odd_line,
            drop=pipe.drop,
        )
        self.inbound = Inbound(
            self.limits, send=self.write, owe=self.owe, deliver=self._control.deliver, later=self.later,
            run_aside=self._aside, calls=self.calls,
        )
        self._threads: list[threading.Thread] = []
        self._read_out, self._ended = threading.Event(), threading.Event()
        self._intake = Intake(
            role, self.limits, self.inbound, self.calls.table, dispatch=self._dispatch, owe=self.owe, trace=trace
        )
        pipe.attach(self._intake.take_all, lambda id: self.calls.table.find(id) is not None)
        self._closing = False

    def open(self) -> Channel:
        """Start the connection's threads.

        Raises:
            RuntimeError: The system gives no more threads; the pipe is closed then.
        """
        try:
            if self._lane is not None:
                self._lane.open()
            for work, part in ((self._read, "reader"), (self._control.live, "control")):  # the reader ends all others
                thread = threading.Thread(target=work, name=f"minimcp-{self.name}-{part}", daemon=True)
                thread.start()
                self._threads.append(thread)
        except RuntimeError:
            self.close()
            raise
        return self

    # ------------------------------------------------------------ the reader

    def _read(self) -> None:
        reason = "the peer closed the connection"
        try:
            while True:
                frames = self._pipe.receive(self._wake)
                if not frames:
                    break
                for number, frame in enumerate(frames, 1):
                    self._intake.take(frame)
                    if number % _WAKE_EVERY == 0:
                        self._wake()
                if self._outbox.is_full():
                    self._wake()
                    self._outbox.wait_for_room()
                del frames, frame  # a connection that waits keeps nothing of what came
        except BaseException as error:  # a fault of ours must end in a loss, not in silence
            log.error("%s: the reader failed: %s", self.name, error, exc_info=error)
            reason = f"the reader failed: {describe(error)}"
        self._end(reason)

    def _wake(self) -> None:
        """Wake those that something came for; before a wait, because who is woken wants the interpreter's lock."""
        if self._lane is not None:
            self._lane.wake()
        self._intake.wake()

    def _dispatch(self, exchange: Exchange) -> None:
        route = exchange.route
        if route.control:
            self._control.run(exchange)
        elif route.start is not None:
            self._start_elsewhere(exchange, route.start)
        elif self._lane is not None:
            self._lane.put(exchange)
        else:
            self.start(exchange)

    def _end(self, reason: str) -> None:
        """The stream has ended: end the calls, let running requests finish, let go of everything."""
        self._wake()  # a reader that failed has not
        closed = ConnectionLost(f"{self.name}: closed")
        cause = closed if self._closing else self._pipe.lost(reason + self._odd_line())
        self.calls.table.close(cause)
        self._read_out.set()
        try:
            self._drain_if_heard()
        except Exception as error:  # a fault of ours: the connection ends all the same
            log.error("%s: %s", self.name, error, exc_info=error)
        try:
            self._let_go()
            self._role.lost(cause)
        finally:
            self._ended.set()

    def _drain_if_heard(self) -> None:
        """Let running requests finish, if anybody could still hear their answers."""
        if not self._closing and self._pipe.is_heard() and not self._drain(self.limits.drain_grace):
            log.warning("%s: %d requests still run after %g s", self.name, len(self.inbound), self.limits.drain_grace)

    def _odd_line(self) -> str:
        """What a peer that writes other things than messages has written, as the end of a message of ours."""
        line = self._intake.odd_line
        return f"; it wrote a line that is no message: {line}" if line else ""

    def _drain(self, seconds: float) -> bool:
        """End open streams and wait for the running requests; False when some still run after that time."""
        self._role.ending(self.inbound)
        return self.inbound.wait_until_empty(seconds)

    def _let_go(self) -> None:
        self.inbound.abandon("the connection has ended")
        if self._lane is not None:
            self._lane.close()
        self._control.close()
        if not self._closing and self._pipe.is_heard():
            self._control.ended.wait(self.limits.drain_grace)  # refusals that are owed still go out
        self._outbox.close()
        self._pipe.close()
        self.workers.close()

    # ------------------------------------------------------------ running and writing

    def start(self, exchange: Exchange) -> None:
        """Run an exchange on a worker of its own."""

        def work() -> None:
            line = exchange.run()
            if line is not None:
                self._write_answer(line, 1)

        try:
            self.workers.start(work)
        except RuntimeError:
            exchange.route = NO_THREAD
            self._control.run(exchange)

    def _start_elsewhere(self, exchange: Exchange, start: Callable[[Exchange], None]) -> None:
        try:
            start(exchange)
        except RpcError as error:
            exchange.route = Route(partial(_refuse, error), control=True)
            self._control.run(exchange)
        except RuntimeError:
            exchange.route = NO_THREAD
            self._control.run(exchange)

    def owe(self, line: bytes) -> None:
        """Have a line written by the control worker; never blocks."""
        self._control.owe(line)

    def later(self, work: Callable[[], Optional[bytes]]) -> None:
        """Have the control worker call something and write the lines that it returns; never blocks."""
        self._control.run(work)

    def _enqueue(self, line: bytes) -> None:
        self._note_sent(line)
        self._outbox.enqueue(line)

    def run_aside(self, work: Callable[[], None]) -> None:
        """Run something on a worker, whatever the cap is.

        Raises:
            RuntimeError: The system gives no more threads.
            ConnectionLost: This process is a fork, and the workers are its parent's.
        """
        self._check_process()
        self.workers.start(work, beyond_cap=True)

    def _aside(self, work: Callable[[], None]) -> None:
        """The same for what must not fail."""
        try:
            self.run_aside(work)
        except RuntimeError:
            self._control.run(work)

    def write(self, line: bytes, deadline: Optional[Deadline] = None) -> None:
        """Write whole lines and wait until the peer has taken them, or until the deadline; then others send the rest.

        Raises:
            ConnectionLost: The peer is gone, or this process is a fork of the one that owns the connection.
        """
        self._check_process()
        self._note_sent(line)
        try:
            if not self._outbox.write(line, deadline):
                self._control.flush()  # it goes on where a caller without time had to stop
        except ConnectionLost as error:
            raise self._broken_pipe(error)
        except BaseException:  # a signal handler's, at whatever point: what it left is still written
            self._control.flush()
            raise

    def post(self, line: bytes) -> None:
        """Write whole lines without ever waiting for the peer: what it does not take now the control worker writes.

        Raises:
            ConnectionLost: As `write`.
        """
        self._check_process()
        self._note_sent(line)
        try:
            if not self._outbox.post(line):
                self._control.flush()
        except ConnectionLost as error:
            raise self._broken_pipe(error)
        except BaseException:  # a signal handler's, at whatever point: what it left is still written
            self._control.flush()
            raise

    def _note_sent(self, line: bytes) -> None:
        if self._trace is not None:
            for part in line.splitlines():
                self._trace("-->", part)

    def _write_answer(self, line: bytes, answers: int) -> None:
        """Write for a worker, which nobody can tell about a loss: the reader will find out too."""
        self._note_sent(line)
        self._flush(answers, line)

    def _flush(self, answers: int, line: bytes = b"") -> None:
        """Send what waits, and this line behind it."""
        try:
            if line:
                self._outbox.write(line)
            else:
                self._outbox.flush()
        except ConnectionLost as error:
            self._broken_pipe(error)
            log.debug("%s: an answer could not be written: %s", self.name, error)
        finally:
            if answers:
                self.inbound.written(answers)

    def _broken_pipe(self, found: ConnectionLost) -> BaseException:
        """End the connection after a failed write; what to raise: the reader's cause, where it comes soon."""
        self._outbox.close()
        if len(self.calls.table) and isinstance(found.__cause__, OSError):  # the peer has left: so it will be read out
            self._read_out.wait(LAST_WORDS_SECONDS)
        self.calls.table.close(found)
        self._aside(self._pipe.close)
        return copy(self.calls.table.cause or found)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise ConnectionLost(f"{self.name}: this connection belongs to the process that made it, not to its fork")

    # ------------------------------------------------------------ the end

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """End the connection. Idempotent, from any thread, in any order; in a fork it only closes descriptors.

        The peer is told of the calls that still wait, if it takes that at once: it need not go on with them.

        Args:
            grace: Seconds that running requests get first.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
        """
        if os.getpid() != self._process:
            self._pipe.close()
            return
        if grace and not self._ended.is_set():
            if reason is not None:
                self.inbound.interrupt(reason)
            self._drain(grace)
        self._closing = True
        farewell = self.calls.close(ConnectionLost(f"{self.name}: closed"))
        if farewell:
            self._enqueue(farewell)
        self._control.close()  # the last that it does is to write what waits
        if not self._threads:
            self._end("never opened")
        elif threading.current_thread() not in self._threads:
            self._control.ended.wait(FAREWELL_SECONDS)  # cancellations that are owed still go out
        self.inbound.abandon("the connection is closed")  # the reader may be waiting for what still runs
        self._outbox.close()
        self._pipe.close()
        self._join()

    def abandon(self) -> None:
        """End the connection without waiting for anything (its owner was collected)."""
        self._closing = True
        if os.getpid() != self._process:
            self._pipe.close()
        else:
            self._control.run(self.close)  # a finalizer may hold any lock: only this queue is safe for it

    def _join(self) -> None:
        deadline = Deadline(CLOSE_SECONDS)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(deadline.wait())
                if thread.is_alive():
                    log.warning("%s: %s has not ended", self.name, thread.name)

    def wait_until_ended(self, seconds: Optional[float] = None) -> bool:
        """Wait until the connection has ended; False when it still lives after that time (None: for ever)."""
        return self._ended.wait(seconds)

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return self._ended.is_set()

    def __repr__(self) -> str:
        state = "open" if self.calls.table.cause is None else "closed"
        return f"<Channel {self.name!r} {state}, {len(self.calls.table)} outgoing, {len(self.inbound)} incoming>"
