"""Responses of an HTTP server that may be event streams, and the store that keeps events for clients that lose one.

What comes out first decides whether a response is one JSON body or an event stream. A stream with a name outlives its
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
from .headers import JSON_TYPE, ResponseWriter

log = logging.getLogger("minimcp.http")

RETRY_MS = 1000
"""What a client is told to wait before it comes back, unless a handler says otherwise."""

SHORT_BYTES = 1024
"""What is not longer is written at once where the peer takes anything at all."""

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
        self._streams: dict[str, deque[tuple[int, bytes]]] = {}
        self._order: deque[str] = deque()
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
            self._streams.setdefault(stream, deque()).append((number, data))
            self._order.append(stream)
            self._bytes += len(data)
            while len(self._order) > self._max_events or self._bytes > self._max_bytes:
                oldest = self._order.popleft()
                events = self._streams.get(oldest)
                if events:  # else its session has ended
                    self._bytes -= len(events.popleft()[1])
                    if not events:
                        del self._streams[oldest]

    def after(self, stream: str, number: int) -> Optional[list[tuple[int, bytes]]]:
        """The events of a stream behind this one; None when it is not known any more which they were."""
        with self._lock:
            events = self._streams.get(stream)
            if not events or not events[0][0] - 1 <= number <= events[-1][0]:
                return None
            return [event for event in events if event[0] > number]

    def forget(self, session: str) -> None:
        """Drop the streams of a session: those whose names begin with this and a point."""
        with self._lock:
            for name in [name for name in self._streams if name.startswith(session + ".")]:
                events = self._streams.pop(name)
                self._bytes -= sum(len(data) for _, data in events)
            self._order = deque(name for name in self._order if name in self._streams)

    def __repr__(self) -> str:
        return f"<EventStore {len(self._order)} events, {self._bytes} bytes>"


class EventStream:
    """One response: an event stream, or one JSON body if the answer is the first that it sends. Thread-safe.

    Args:
        writer: Where it goes; None for a stream that is done, for a client that comes back to see how it ended.
        headers: To send beside those of the body's kind.
        store: Keeps the events; None keeps none, and the response ends with its connection.
        name: Of the stream, no other has it; needed with a store.
        primed: Whether it begins with an event that has only an id.
        trace: Called with ("-->", line) for what is sent; None for no trace.

    Attributes:
        done: Turns true when nothing more will be sent.
        begun: Whether the head of an event stream was sent.
    """

    def __init__(
        self,
        writer: Optional[ResponseWriter],
        *,
        headers: tuple[tuple[str, str], ...] = (),
        store: Optional[EventStore] = None,
        name: str = "",
        primed: bool = False,
        trace: Optional[Trace] = None,
    ) -> None:
        self.name, self.done, self.begun = name, writer is None, False
        self.posted: deque[Line] = deque()
        """What `serve` is to write; the streams of one session that follow each other share it."""
        self._writer, self._headers, self._store, self._primed, self._trace = writer, headers, store, primed, trace
        self._frames: deque[tuple[int, bytes]] = deque()
        self._last = -1 if writer is None else 0
        self._sent = 0
        self._paused = False
        self._wrote_at = time.monotonic()
        self._write_lock = threading.RLock()  # orders what is written
        self._changed = threading.Condition()

    # ------------------------------------------------------------ sending

    def begin(self) -> None:
        """Be an event stream from now on, before there is anything to say. Raises ConnectionLost."""
        with self._write_lock:
            if self._writer is not None:
                self._begin(self._writer)

    def queue(self, line: bytes) -> None:
        """Add an event, to be sent with the next one. Never blocks."""
        if self.done:
            return
        if self._trace is not None:
            self._trace("-->", line.rstrip(b"\n"))
        with self._changed:
            self._last += 1
            if self._store is not None:
                self._store.add(self.name, self._last, line)
            self._frames.append((self._last, line))

    def event(self, line: bytes) -> None:
        """Send an event. When all is done nothing is sent.

        Raises:
            ConnectionLost: The peer is gone, and cannot come back for it.

        Blocks: until the peer takes it.
        """
        self.queue(line)
        with self._write_lock:
            self._flush()

    def post(self, line: Line) -> None:
        """Have lines sent by the thread that is in `serve`. Never blocks, never raises."""
        with self._changed:
            self.posted.append(line)
            self._changed.notify_all()

    def serve(self, writer: Optional[ResponseWriter] = None) -> None:
        """Write what is posted until all is done.

        Args:
            writer: Until then, or until the stream does not go there any more; None does not look.
        """
        def over() -> bool:
            return self.done or (writer is not None and self._writer is not writer)

        with waiting():
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: over() or self.posted)
                    if over():
                        return
                    line = self.posted.popleft()
                try:
                    lines = line if isinstance(line, bytes) else line()
                    for each in (lines or b"").splitlines(keepends=True):
                        self.event(each)
                except ConnectionLost as error:
                    log.debug("%s", error)

    def _flush(self, *, at_once: bool = False) -> None:
        while self._frames and not self._paused:
            if at_once and not self._goes_at_once(self._frames[0][1]):
                return
            number, line = self._frames.popleft()
            if number > self._sent and not self.done:
                self._sent = number
                self._write(format_event(line, id=f"{self.name}/{number}" if self.name else None))

    def _goes_at_once(self, data: bytes) -> bool:
        writer = self._writer
        return writer is None or (len(data) <= SHORT_BYTES and writer.has_room())

    def _write(self, data: bytes) -> None:
        writer = self._writer
        if writer is None:
            if self._store is None:
                raise ConnectionLost("the client has gone")
            return  # it may come back for what is kept
        try:
            self._begin(writer)
            writer.write(data)
        except ConnectionLost:
            self._writer = None
            if self._store is None:
                raise
        self._wrote_at = time.monotonic()

    def _begin(self, writer: ResponseWriter, retry: int = RETRY_MS) -> None:
        if not self.begun:
            self.begun = True
            writer.begin(200, [*STREAM_HEADERS, *self._headers])
            if self._primed:
                writer.write(format_event(b"", id=f"{self.name}/0", retry=retry))

    def keep_alive(self, seconds: float) -> None:
        """Send a comment if nothing was sent for so long; never waits for another writer or the peer, never raises."""
        if self._paused or not self._write_lock.acquire(blocking=False):
            return
        try:
            self._flush(at_once=True)
            silent = not (self.done or self._frames) and time.monotonic() - self._wrote_at >= seconds
            if silent and self._goes_at_once(KEEP_ALIVE):
                self._write(KEEP_ALIVE)
        except ConnectionLost as error:
            log.debug("%s", error)
        finally:
            self._write_lock.release()

    # ------------------------------------------------------------ ending

    def finish(self, line: bytes, status: int = 200) -> None:
        """Send the last message, as the whole body if it is the first. Never raises.

        Args:
            line: The message.
            status: Of the response, if this is all of it.
        """
        try:
            with self._write_lock:
                if not (self.done or self.begun or self._frames):
                    self.done = True
                    if self._trace is not None:
                        self._trace("-->", line.rstrip(b"\n"))
                    if self._writer is not None:
                        self._writer.send(status, [("Content-Type", JSON_TYPE), *self._headers], line)
                else:
                    self.queue(line)
                    self._end(flush=True)
        except ConnectionLost as error:
            log.debug("an answer could not be written: %s", error)
        self.wake()

    def close(self) -> None:
        """End the response without another message. Idempotent, never raises."""
        try:
            with self._write_lock:
                self._end(flush=False)
        except ConnectionLost as error:
            log.debug("%s", error)
        self.wake()

    def _end(self, *, flush: bool) -> None:
        try:
            if flush:
                self._flush()
        finally:
            ended, self.done = self.done, True
            if self._writer is not None and not ended:
                if not self.begun:
                    self._writer.begin(200, [*STREAM_HEADERS, *self._headers])
                self.begun = True
                self._writer.end()

    def abandon(self) -> None:
        """The peer is gone for good: nothing is sent any more. Never blocks."""
        self.done = True
        self.wake()

    def wake(self) -> None:
        """Have those that are in `serve` look whether it is over."""
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
            writer = self._writer
            if not self._primed or self._store is None or self.done:
                return False
            if writer is not None:
                try:
                    fresh = not self.begun
                    self._begin(writer, retry)
                    if not fresh:
                        writer.write(b"retry: %d\n\n" % retry)
                    writer.end()
                except ConnectionLost as error:
                    log.debug("%s", error)
                self._writer = None
        return True

    def resume(self, writer: ResponseWriter, number: int) -> bool:
        """Go on with another connection, behind the event of this number; False when that is not possible any more."""
        if self._store is None:
            return False
        with self._write_lock:
            self._paused = True  # what comes meanwhile waits
        missed = [] if number == self._last else self._store.after(self.name, number)
        with self._write_lock:
            self._paused = False
            if missed is None:
                self._flush()
                return False
            if self._writer is not None:
                self._writer.end()
            self._writer, self._sent, self.begun = writer, number, True
            self._frames.extendleft(reversed(missed))
            try:
                writer.begin(200, [*STREAM_HEADERS, *self._headers])
                while self._frames:
                    at, line = self._frames.popleft()
                    if at > self._sent:
                        self._sent = at
                        writer.write(format_event(line, id=f"{self.name}/{at}"))
                if self.done:
                    writer.end()
            except ConnectionLost:
                self._writer = None
        self.wake()
        return True

    @property
    def connected(self) -> bool:
        """Whether this goes anywhere now."""
        return self._writer is not None

    def leave(self, writer: ResponseWriter) -> None:
        """The connection of this writer is gone; where the client cannot come back that is the end. Never blocks."""
        if self._writer is writer:
            self._writer = None
        if self._store is None:
            self.done = True
        self.wake()
