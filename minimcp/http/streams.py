"""Responses of an HTTP server that may be event streams, and the store that keeps events for clients that lose one.

The response to a POST is one JSON body, unless something comes before its answer. A stream with a name outlives its
connection: its events have ids, a store keeps them, and it goes on where a client that comes back has left it.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Callable, Optional

from ..engine.pool import waiting
from ..engine.requests import Line
from ..errors import ConnectionLost
from ..protocol.sse import KEEP_ALIVE, MEDIA_TYPE, format_event
from .headers import ResponseWriter

log = logging.getLogger("minimcp.http")

RETRY_MS = 1000
"""What a client is told to wait before it comes back, unless a handler says otherwise."""

SHORT_BYTES = 1024
"""What is not longer is written at once where the peer takes anything at all."""

Pairs = tuple[tuple[str, str], ...]

STREAM_HEADERS = [
    ("Content-Type", MEDIA_TYPE), ("Cache-Control", "no-cache, no-transform"), ("X-Accel-Buffering", "no"),
]

Trace = Callable[[str, bytes], None]


class EventStore:
    """Keeps what was sent on event streams, for clients that lost one; the oldest goes first. Thread-safe.

    Args:
        max_events: Events in all.
        max_bytes: Bytes in all.

    Raises:
        ValueError: One of them is less than 1.
    """

    def __init__(self, max_events: int = 1000, max_bytes: int = 8 * 1024 * 1024) -> None:
        if max_events < 1 or max_bytes < 1:
            raise ValueError("an event store has room for at least 1 event of at least 1 byte")
        self._max_events, self._max_bytes = max_events, max_bytes
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Begin empty in a forked process: the streams are its parent's."""
        self._events: deque[tuple[str, int, bytes]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, stream: str, number: int, data: bytes) -> None:
        """Keep an event.

        Args:
            stream: The name of its stream.
            number: Its place there; they rise by 1.
            data: What it says.
        """
        with self._lock:
            self._events.append((stream, number, data))
            self._bytes += len(data)
            while len(self._events) > self._max_events or self._bytes > self._max_bytes:
                self._bytes -= len(self._events.popleft()[2])

    def after(self, stream: str, number: int) -> Optional[list[tuple[int, bytes]]]:
        """The events of a stream behind this one; None when it is not known any more which they were."""
        with self._lock:
            events = [(place, data) for name, place, data in self._events if name == stream]
        if not events or not events[0][0] - 1 <= number <= events[-1][0]:
            return None
        return events[number + 1 - events[0][0] :]

    def forget(self, session: str) -> None:
        """Drop the streams of a session: those whose names begin with this and a point."""
        with self._lock:
            self._events = deque(event for event in self._events if not event[0].startswith(session + "."))
            self._bytes = sum(len(data) for _, _, data in self._events)

    def __repr__(self) -> str:
        return f"<EventStore {len(self._events)} events, {self._bytes} bytes>"


class EventStream:
    """An event stream, which may outlive its connection. Thread-safe.

    Args:
        writer: Where it goes; None for a stream that is done, for a client that comes back to see how it ended.
        headers: To send beside those of the stream.
        store: Keeps the events; None keeps none, and the stream ends with its connection.
        name: Of the stream, no other has it; needed with a store.
        primed: Whether it begins with an event that has only an id.
        trace: Called with ("-->", line) for what is sent; None for no trace.
        pending: Lines to be sent, which the streams of one session that follow each other share; None makes an own one.

    Attributes:
        done: Turns true when nothing more will be sent, and the last byte is written.
    """

    def __init__(
        self, writer: Optional[ResponseWriter], *, headers: Pairs = (), store: Optional[EventStore] = None,
        name: str = "", primed: bool = False, trace: Optional[Trace] = None, pending: Optional[list[Line]] = None,
    ) -> None:
        self.name, self.done, self.writer = name, writer is None, writer
        self._pending: list[Line] = [] if pending is None else pending
        self._headers, self._store, self._primed, self._trace = headers, store, primed, trace
        self._begun = False
        self._last = -1 if writer is None else 0
        self._wrote_at = time.monotonic()
        self._write_lock = threading.RLock()  # orders what is written
        self._changed = threading.Condition()

    # ------------------------------------------------------------ sending

    def event(self, line: bytes) -> None:
        """Send an event, behind what was posted. When all is done nothing is sent.

        Raises:
            ConnectionLost: The peer is gone, and cannot come back for it.

        Blocks: until the peer takes it.
        """
        self._pending.append(line)
        with self._write_lock:
            self._flush()

    def post(self, line: Line) -> None:
        """Have lines sent by the thread that is in `serve`, or with the next event. Never blocks, never raises."""
        self._pending.append(line)
        self.wake()

    def serve(self, writer: Optional[ResponseWriter] = None) -> None:
        """Write what is posted until all is done.

        Args:
            writer: Until then, or until the stream does not go there any more; None does not look.
        """
        def over() -> bool:
            return self.done or (writer is not None and self.writer is not writer)

        with waiting():
            while not over():
                try:
                    with self._write_lock:
                        if writer is not None:
                            self._write(b"")  # it begins before there is anything to say
                        self._flush(over)
                except ConnectionLost as error:
                    log.debug("%s", error)
                with self._changed:
                    self._changed.wait_for(lambda: over() or self._pending)

    def _flush(self, over: Callable[[], bool] = lambda: False) -> None:
        """Send what is pending (write lock held)."""
        while self._pending and not (self.done or over()):
            line = self._pending.pop(0)
            for each in ((line() if callable(line) else line) or b"").splitlines(keepends=True):
                if self._trace is not None:
                    self._trace("-->", each.rstrip(b"\n"))
                self._last += 1
                if self._store is not None:
                    self._store.add(self.name, self._last, each)
                elif self.writer is None:
                    raise ConnectionLost("the client has gone")
                self._write(format_event(each, id=f"{self.name}/{self._last}" if self.name else None))

    def _write(self, data: bytes, retry: int = RETRY_MS) -> None:
        """Begin and write, if the client is there; with a store it may come back for what is kept (write lock held)."""
        writer = self.writer  # `leave` may take it away at any moment
        try:
            if writer is not None and not self._begun:
                self._begun = True
                writer.begin(200, [*STREAM_HEADERS, *self._headers])
                if self._primed:
                    writer.write(format_event(b"", id=f"{self.name}/0", retry=retry))
            if writer is not None and data:
                writer.write(data)
                self._wrote_at = time.monotonic()
        except ConnectionLost:
            self.writer = None
            if self._store is None:
                raise

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for so long; never waits for another writer or the peer, never raises."""
        if not self._write_lock.acquire(blocking=False):
            return
        try:
            writer = self.writer
            if self.done or writer is None or not writer.has_room():
                return
            if sum(SHORT_BYTES if callable(line) else len(line) for line in self._pending) < SHORT_BYTES:
                self._flush()
                if time.monotonic() - self._wrote_at >= seconds:
                    self._write(KEEP_ALIVE)
        except ConnectionLost as error:
            log.debug("%s", error)
        finally:
            self._write_lock.release()

    # ------------------------------------------------------------ ending

    def finish(self, line: bytes = b"") -> None:
        """Send what is pending and the last message, and end; without a message end at once. Never raises."""
        try:
            with self._write_lock:
                try:
                    if line:
                        self.event(line)
                    if not self.done:
                        self._write(b"")
                    writer = self.writer
                    if writer is not None and not self.done:
                        writer.end()
                finally:
                    self.done = True  # not before: who is in `serve` takes the response for complete then
        except ConnectionLost as error:
            log.debug("the end of a stream could not be written: %s", error)
        self.wake()

    def abandon(self) -> None:
        """The peer is gone for good: nothing is sent any more. Never blocks."""
        self.done = True
        self.wake()

    def wake(self) -> None:
        """Have those that are in `serve` look whether there is something to do."""
        with self._changed:
            self._changed.notify_all()

    # ------------------------------------------------------------ leaving and coming back

    def release(self, seconds: float) -> bool:
        """Close the connection while the stream goes on; the client comes back for the rest.

        Args:
            seconds: What it is told to wait.

        Returns:
            False, and nothing was done, where the client could not do that.
        """
        retry = max(0, int(seconds * 1000))
        with self._write_lock:
            if not self._primed or self.done:
                return False
            self._write(b"retry: %d\n\n" % retry if self._begun else b"", retry)
            writer, self.writer = self.writer, None
            if writer is not None:
                writer.end()
        return True

    def resume(self, writer: ResponseWriter, number: int) -> bool:
        """Go on with another connection, behind the event of this number; False when that is not possible any more."""
        with self._write_lock:
            missed = [] if number == self._last or self._store is None else self._store.after(self.name, number)
            if missed is None:
                return False
            before, self.writer, self._begun = self.writer, writer, True
            if before is not None:
                before.end()
            try:
                writer.begin(200, [*STREAM_HEADERS, *self._headers])
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
        """The connection of this writer is gone; where the client cannot come back that is the end. Never blocks."""
        if self.writer is writer:
            self.writer = None
        if self._store is None:
            self.done = True
        self.wake()
