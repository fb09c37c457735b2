"""`EventStore`: keeps the events of streams, so that a client can resume a stream.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import Optional, Sequence

from ..protocol.messages import Id

# The mark of the last event of a call, for other processes.
LAST = -1


class EventStore:
    """The events of the streams of one process, for clients that lost a connection. Thread-safe.

    If the store is full, it drops the oldest event of the session that uses the most room. An event
    with more than an eighth of all bytes is not kept, so that one client cannot displace many
    events of the others.

    Processes that share a ``Server(store=...)`` keep events in that store instead.

    Args:
        max_events: Maximum number of events in this process.
        max_bytes: Maximum number of bytes of all events in this process.

    Raises:
        ValueError: A number is less than 1.
    """

    # Whether `add` may block. Then no event is added by the thread of the timer.
    may_block = False

    def __init__(self, max_events: int = 1000, max_bytes: int = 8 * 1024 * 1024) -> None:
        if max_events < 1 or max_bytes < 1:
            raise ValueError(
                "an event store must have room for at least 1 event of at least 1 byte"
            )
        self._max_events = max_events
        self._max_bytes = max_bytes
        # By session, its events, the oldest first: stream, number and data.
        self._sessions: dict[str, deque[tuple[str, int, bytes]]] = defaultdict(deque)
        self._sizes: dict[str, int] = {}
        self._events = 0
        self._bytes = 0
        self._lock = threading.Lock()

    def begin(self, stream: str, ids: Optional[Sequence[Id]]) -> None:
        """Record that a stream begins.

        Args:
            stream: The name of the stream.
            ids: The ids of the requests that it answers; None for the stream without a request.
        """

    def end(self, stream: str, number: int) -> None:
        """Record that the stream of a call ended without an answer.

        Args:
            stream: The name of the stream.
            number: The number that the next event would have.
        """

    def add(self, stream: str, number: int, data: bytes, mark: int = 0) -> None:
        """Keep an event.

        Args:
            stream: The name of its stream.
            number: Its number in the stream. Numbers rise by 1.
            data: Its data.
            mark: For other processes: `LAST` in the last event of a call; otherwise what
                `Session.position` returned before the event was made, or 0.
        """
        session = stream.partition(".")[0]
        size = len(data)
        with self._lock:
            events = self._sessions[session]
            events.append((stream, number, data))
            # As `_count` does: every progress report takes this path.
            self._events += 1
            self._bytes += size
            self._sizes[session] = self._sizes.get(session, 0) + size
            if size > self._max_bytes / 8:
                # Without this event the stream cannot be resumed at an earlier one, either.
                self._keep(session, [event for event in events if event[0] != stream])
            while self._events > self._max_events or self._bytes > self._max_bytes:
                # Comparing all sessions is slow. It is not necessary if this session uses its share
                # of the room, or more.
                largest = session
                sessions = len(self._sessions)
                is_kept = session in self._sessions
                if not is_kept or (sessions > 1 and self._share(session) * sessions < 1):
                    largest = max(self._sessions, key=self._share)
                _, _, oldest = self._sessions[largest].popleft()
                self._count(largest, -1, -len(oldest))
                if not self._sessions[largest]:
                    self._keep(largest, ())

    def _count(self, session: str, events: int, size: int) -> None:
        self._events += events
        self._bytes += size
        self._sizes[session] = self._sizes.get(session, 0) + size

    def _keep(self, session: str, events: Sequence[tuple[str, int, bytes]]) -> None:
        """Drop all events of a session except these."""
        before = self._sessions.pop(session, ())
        self._events += len(events) - len(before)
        self._bytes -= self._sizes.pop(session, 0)
        if events:
            self._sessions[session] = deque(events)
            self._count(session, 0, sum(len(data) for _, _, data in events))

    def _share(self, session: str) -> float:
        """Return the part of the room that a session uses."""
        return max(
            len(self._sessions[session]) / self._max_events, self._sizes[session] / self._max_bytes
        )

    def after(self, stream: str, number: int) -> Optional[list[tuple[int, bytes]]]:
        """Return the events of a stream that follow this number; None if some were dropped."""
        with self._lock:
            kept = self._sessions.get(stream.partition(".")[0], ())
            events = [(number, data) for name, number, data in kept if name == stream]
        if not events or not events[0][0] - 1 <= number <= events[-1][0]:
            return None
        return events[number + 1 - events[0][0] :]

    def forget(self, session: str) -> None:
        """Drop the streams of a session: those whose names begin with this text and a dot."""
        with self._lock:
            self._keep(session, ())

    def __repr__(self) -> str:
        return f"<EventStore {self._events} events, {self._bytes} bytes>"
