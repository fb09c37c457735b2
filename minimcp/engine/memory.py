"""Two connected pipes inside one process, for a server in the same program and for tests.

Bounded like a real pipe: a peer that does not read makes `send` wait. Not a way round the codec: bytes go
in, lines come out.
"""

from __future__ import annotations

import os
import threading
import time
from itertools import count
from typing import Callable, Optional

from ..errors import ConnectionLost
from .deadline import LONGEST_WAIT
from .lines import MAX_MESSAGE_BYTES, LineSplitter
from .transport import Frame, Pipe, nothing

CAPACITY_BYTES = 256 * 1024
"""Bytes that may be on their way in one direction before the sender waits."""


class _Gate:
    """Where one thread waits until another opens. An opening that comes early is not lost."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        try:
            self._lock.release()
        except RuntimeError:
            pass  # It is open already.

    def wait(self, seconds: float) -> None:
        self._lock.acquire(timeout=min(seconds, LONGEST_WAIT))


class _Stream:
    """The bytes that are on their way in one direction, from one thread at a time to one thread.

    There is no lock, because the collector or a signal handler may run `close` in the middle of anything: every change
    is one operation on a dict of numbered pieces, which the interpreter does whole.
    """

    __slots__ = ("_capacity", "_pieces", "_numbers", "_arrived", "_taken", "_finished", "closed")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pieces: dict[int, bytes] = {}
        self._numbers = count()
        self._arrived = _Gate()
        self._taken = _Gate()
        self._finished = False
        self.closed = False

    def put(self, data: bytes, seconds: float, counts: list[int]) -> bool:
        """As `Pipe.send_counted`; False when nobody will read it."""
        done = 0
        until = time.monotonic() + seconds
        while done < len(data):
            if self.closed or self._finished:
                return False
            room = self._capacity - sum(map(len, list(self._pieces.values())))
            if room > 0:
                self._add(data[done : done + room], counts)
                done += room
                continue
            left = until - time.monotonic()
            if left <= 0:
                break
            self._taken.wait(left)
        return True

    def _add(self, piece: bytes, counts: list[int]) -> None:
        try:
            # One step for signal handlers, which wait while C code runs: the bytes are in and counted, or neither.
            counts.extend(map(len, map(self._pieces.setdefault, (next(self._numbers),), (piece,))))
            self._arrived.open()
        except BaseException:
            self._arrived.open()  # a handler raised: whoever waits for the bytes may not have been told of them
            raise

    def take(self, before_wait: Callable[[], None]) -> Optional[bytes]:
        """Wait for bytes and return them; empty at the sender's end, None when the receiver closed."""
        while not self.closed:
            finished = self._finished  # looked at first: what was sent before is here
            chunk = b"".join(map(self._pieces.pop, list(self._pieces)))
            if chunk or finished:
                self._taken.open()
                return chunk
            before_wait()
            self._arrived.wait(LONGEST_WAIT)
        return None

    def finish(self) -> None:
        """The sender sends no more."""
        self._finished = True
        self._wake()

    def close(self) -> None:
        """The receiver reads no more."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        self._arrived.open()
        self._taken.open()


class MemoryPipe(Pipe):
    """One end of a connection inside this process. Made by `pair`."""

    __slots__ = ("_pid", "_incoming", "_outgoing", "_splitter")

    def __init__(self, incoming: _Stream, outgoing: _Stream, max_message_bytes: Optional[int]) -> None:
        self.name = "memory"
        self._pid = os.getpid()
        self._incoming = incoming
        self._outgoing = outgoing
        self._splitter = LineSplitter(max_message_bytes)

    @classmethod
    def pair(
        cls, max_message_bytes: Optional[int] = MAX_MESSAGE_BYTES, *, capacity: int = CAPACITY_BYTES
    ) -> tuple[MemoryPipe, MemoryPipe]:
        """Two ends: what is sent into one is received from the other.

        Args:
            max_message_bytes: Bytes of one line, for both ends; None sets no limit.
            capacity: Bytes that each direction holds before `send` waits.
        """
        there, back = _Stream(capacity), _Stream(capacity)
        return cls(back, there, max_message_bytes), cls(there, back, max_message_bytes)

    def receive(self, before_wait: Callable[[], None] = nothing) -> list[Frame]:
        """As `Pipe.receive`."""
        before_wait()
        while os.getpid() == self._pid:
            chunk = self._incoming.take(before_wait)
            if chunk is None:
                break
            frames = self._splitter.feed(chunk) if chunk else self._splitter.rest()
            if frames or not chunk:
                return frames
        return []

    def send(self, data: bytes, seconds: float) -> int:
        """As `Pipe.send`."""
        counts: list[int] = []
        self.send_counted(data, seconds, counts)
        return sum(counts)

    def send_counted(self, data: bytes, seconds: float, counts: list[int]) -> None:
        """As `Pipe.send_counted`."""
        if os.getpid() != self._pid:
            raise ConnectionLost("memory: the connection belongs to the process that made it, not to its fork")
        if not self._outgoing.put(data, seconds, counts):
            has_left = self._outgoing.closed and not self._incoming.closed
            raise self.lost("nothing can be sent: it is closed") from (BrokenPipeError() if has_left else None)

    def is_heard(self) -> bool:
        """As `Pipe.is_heard`."""
        return not self._outgoing.closed

    def finish(self) -> None:
        """As `Pipe.finish`."""
        if os.getpid() == self._pid:
            self._outgoing.finish()

    def close(self) -> None:
        """As `Pipe.close`; what the peer has not read yet it can still read."""
        if os.getpid() == self._pid:
            self._outgoing.finish()
            self._incoming.close()

    def __repr__(self) -> str:
        return f"<MemoryPipe {'closed' if self._incoming.closed else 'open'}>"
