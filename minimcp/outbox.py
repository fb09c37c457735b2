"""The way out of a connection: whole frames in order, one writer at a time, and a count of what waits. Floor 3.

Everything that leaves stands in one queue. Whoever holds the write lock sends from its front, for itself and for the
others; a frame that was begun is finished before any other, even if the one that began it ran out of time.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Optional

from .deadline import Deadline
from .pipe import Pipe

_AT_ONCE = 64 * 1024
"""Bytes of frames that are joined for one write."""

_ROUNDS = 16
"""Writes that a caller does for others before it leaves the rest to the control worker."""


_NEVER = Deadline(None)


class Outbox:
    """Writes to a pipe. Thread-safe.

    Args:
        pipe: Where to.
        patience: Seconds after which a peer that takes no byte counts as lost; None waits for ever.
        max_backlog: Bytes that may wait for the peer before `wait_for_room` waits too; None means no limit.
    """

    __slots__ = ("_pipe", "_patience", "_max_backlog", "_write_lock", "_frames", "_room", "_reader_waits", "_closed")

    def __init__(self, pipe: Pipe, *, patience: Optional[float], max_backlog: Optional[int]) -> None:
        self._pipe, self._patience, self._max_backlog = pipe, patience, max_backlog
        self._write_lock = threading.Lock()
        self._frames: deque[bytes] = deque()
        self._room = threading.Condition(threading.Lock())
        self._reader_waits = False
        self._closed = False

    def enqueue(self, data: bytes) -> None:
        """Add whole frames and leave the sending to others: never blocks, writes nothing."""
        self._frames.append(data)

    def post(self, data: bytes) -> bool:
        """Add whole frames and send what the peer takes at once. Never waits.

        Who posts looks for the lock after adding, and who holds the lock looks for frames after releasing it: so one of
        the two sends them.

        Returns:
            True when they are on their way; False when somebody has to `flush` first.

        Raises:
            ConnectionLost: The peer is gone.
        """
        self._frames.append(data)
        for _ in range(_ROUNDS):
            if not self._frames or not self._write_lock.acquire(False):
                return True
            try:
                whole = self._send_front(None)
            finally:
                self._write_lock.release()
            if not whole:
                return False
        return not self._frames

    def write(self, data: bytes, deadline: Optional[Deadline] = None) -> bool:
        """Add whole frames and wait until the peer has taken them.

        Args:
            data: One or more lines.
            deadline: Until when; None leaves it to the patience of this outbox.

        Returns:
            False when the deadline came first; then they stay in the queue, to be sent by whoever is next.

        Raises:
            ConnectionLost: The peer is gone or takes nothing any more.
        """
        self._frames.append(data)
        return self.flush(deadline)

    def flush(self, deadline: Optional[Deadline] = None) -> bool:
        """Send what waits, waiting for the peer. Arguments, result and errors as `write`."""
        until = deadline or _NEVER
        while True:  # once at least: somebody else may be sending what stood here, and has not done so yet
            if not self._write_lock.acquire(False) and not self._write_lock.acquire(timeout=until.wait()):
                return False
            try:
                whole = self._send_front(until)
            finally:
                self._write_lock.release()
            if not self._frames:
                return True
            if not whole and until.expired:
                return False

    def _send_front(self, deadline: Optional[Deadline]) -> bool:
        """Send frames from the front, under the write lock; what is not taken goes back to the front.

        Args:
            deadline: How long to go on; None does not wait at all.
        """
        frames, parts = self._frames, []
        size = done = 0
        try:
            while frames and size < _AT_ONCE:
                parts.append(frames.popleft())
                size += len(parts[-1])
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            done = self._pipe.send(data, 0.0) if parts else 0
            silence = None
            while done < size and deadline is not None and not deadline.expired:
                silence = silence or Deadline(self._patience)
                taken = self._pipe.send(data[done:], silence.within(deadline.remaining()).wait())
                done += taken
                if taken:
                    silence = None
                elif silence.expired:
                    raise self._pipe.lost(f"the peer took no byte for {self._patience:g} s")
        finally:
            if done < size:
                frames.appendleft(b"".join(parts)[done:])
            if self._reader_waits:
                self._tell_reader()
        return done == size

    @property
    def waiting(self) -> int:
        """Bytes that wait for the peer."""
        return sum(map(len, list(self._frames)))

    def is_full(self) -> bool:
        """Whether more waits for the peer than may."""
        limit = self._max_backlog
        return bool(self._frames) and limit is not None and self.waiting > limit

    def wait_for_room(self) -> None:
        """Return at once unless too much waits for the peer; then wait until half of that is gone, or until `close`."""
        limit = self._max_backlog
        if limit is None or not self.is_full():
            return
        with self._room:
            self._reader_waits = True
            self._room.wait_for(lambda: self._closed or self.waiting <= limit // 2)
            self._reader_waits = False

    def _tell_reader(self) -> None:
        with self._room:
            self._room.notify_all()

    def close(self) -> None:
        """Let `wait_for_room` go. The pipe itself is closed by its owner."""
        self._closed = True
        self._tell_reader()
