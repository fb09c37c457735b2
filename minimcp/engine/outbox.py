"""The way out of a connection: whole frames in order, one writer at a time, and a count of what waits.

Everything that leaves stands in one queue, unless nothing is in its way: then it is sent at once. Whoever holds the
write lock sends from the front, for itself and for the others; a frame that was begun is finished before any other,
even if the one that began it ran out of time.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Optional

from .deadline import Deadline
from .transport import Pipe

_AT_ONCE = 64 * 1024
"""Bytes of frames that are joined for one write."""

_ROUNDS = 16
"""Writes that a caller does for others before it leaves the rest to the control worker."""


_NEVER = Deadline(None)


_Begun = tuple[list[bytes], list[int]]
"""The frames at the very front, out of the queue and not yet all with the peer, and the bytes of them that it took.

What leaves the queue is noted here in one step for signal handlers, and so is what the peer takes: whenever one raises,
this is right, and the next writer goes on where it stopped.
"""


def _rest(begun: _Begun) -> int:
    """Bytes that are still to be sent."""
    return sum(map(len, begun[0])) - sum(begun[1])


class Outbox:
    """Writes to a pipe. Thread-safe; an exception that a signal handler raises tears no frame and keeps no lock.

    Such an exception strikes the main thread between any two steps of Python code, but never within a call into C. So
    what must not come apart (to take the lock and to know it, to send bytes and to count them) is one such call here.

    Args:
        pipe: Where to.
        patience: Seconds after which a peer that takes no byte counts as lost; None waits for ever.
        max_backlog: Bytes that may wait for the peer before `wait_for_room` waits too; None means no limit.
    """

    __slots__ = (
        "_pipe", "_patience", "_max_backlog", "_write_lock", "_frames", "_begun", "_room", "_reader_waits", "_closed",
    )

    def __init__(self, pipe: Pipe, *, patience: Optional[float], max_backlog: Optional[int]) -> None:
        self._pipe, self._patience, self._max_backlog = pipe, patience, max_backlog
        self._write_lock = threading.Lock()
        self._frames: deque[bytes] = deque()
        self._begun: _Begun = ([], [])
        self._room = threading.Lock()  # a gate for the reader, which a signal handler may open at any point
        self._room.acquire()
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
            BaseException: What a signal handler raised; the frames stay in the queue, and somebody has to `flush`.
        """
        if not self._send_alone(data):
            self._frames.append(data)
        elif self._begun[0]:
            return False
        for _ in range(_ROUNDS):
            whole = self._take_turn(None) if self._frames else None
            if not whole:
                return whole is None
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
            BaseException: What a signal handler raised; the frames stay in the queue, to be sent by whoever is next.
        """
        if not self._send_alone(data):
            self._frames.append(data)
        elif not (self._frames or self._begun[0]):
            return True
        return self.flush(deadline)

    def flush(self, deadline: Optional[Deadline] = None) -> bool:
        """Send what waits, waiting for the peer. Arguments, result and errors as `write`."""
        until = deadline or _NEVER
        while self._take_turn(until):  # once at least: somebody else may be sending what stood here
            if not self._frames:
                return True
        return False

    def _send_alone(self, data: bytes) -> bool:
        """Send at once what the peer takes of this, if nothing waits and nobody sends; False where it was not begun."""
        if self._frames:
            return False
        held: list[Optional[bool]] = []
        alone = False
        try:
            held.extend(map(self._write_lock.acquire, (False,)))
            alone = held == [True] and not (self._frames or self._begun[0])
            if alone:
                counts: list[int] = []
                self._begun = ([data], counts)
                self._pipe.send_counted(data, 0.0, counts)
                if sum(counts) == len(data):
                    self._begun = ([], [])
            self._let_go(held)
        except BaseException:  # as in `_take_turn`
            self._let_go(held)
            raise
        return alone

    def _take_turn(self, deadline: Optional[Deadline]) -> Optional[bool]:
        """Send under the write lock.

        Args:
            deadline: Until when to send all that waits; None sends one piece of it and does not wait at all.

        Returns:
            Whether the peer took it; None when the lock was not to be had in time.
        """
        held: list[Optional[bool]] = []
        whole = None
        try:
            held.extend(map(self._write_lock.acquire, (True,), (0.0 if deadline is None else deadline.wait(),)))
            if held[0]:
                whole = self._send_front(deadline)
                while whole and self._frames and deadline is not None:
                    whole = self._send_front(deadline)
            self._let_go(held)
        except BaseException:  # no `finally`: the exception may have struck in the midst of letting go
            self._let_go(held)
            raise
        return whole

    def _let_go(self, held: list[Optional[bool]]) -> None:
        """Release the write lock if it is held; idempotent."""
        if held == [True]:
            held.extend(map(self._write_lock.__exit__, (None,), (None,), (None,)))

    def _send_front(self, deadline: Optional[Deadline]) -> bool:
        """Send frames from the front, under the write lock; what is not taken stays there. Arguments as `_send`."""
        begun, counts = self._begun
        size = _rest(self._begun) if begun else 0
        while self._frames and size < _AT_ONCE:
            begun.extend(map(deque.popleft, (self._frames,)))
            size += len(begun[-1])
        if size and not self._send(b"".join(begun)[sum(counts) :], counts, deadline):
            return False
        self._begun = ([], [])
        return True

    def _send(self, data: bytes, counts: list[int], deadline: Optional[Deadline]) -> bool:
        """Whether the peer takes all of this.

        Args:
            data: What to send.
            counts: Where the bytes are counted that it takes.
            deadline: How long to go on; None does not wait at all.
        """
        before, silence = sum(counts), None
        self._pipe.send_counted(data, 0.0, counts)
        done = sum(counts) - before
        while done < len(data) and deadline is not None and not deadline.expired:
            silence = silence or Deadline(self._patience)
            if self._reader_waits:
                self._tell_reader()
            self._pipe.send_counted(data[done:], silence.within(deadline.remaining()).wait(), counts)
            taken = sum(counts) - before - done
            done += taken
            if taken:
                silence = None
            elif silence.expired:
                raise self._pipe.lost(f"the peer took no byte for {self._patience:g} s")
        if self._reader_waits:
            self._tell_reader()
        return done == len(data)

    @property
    def waiting(self) -> int:
        """Bytes that wait for the peer."""
        return sum(map(len, list(self._frames))) + _rest(self._begun)

    def is_full(self) -> bool:
        """Whether more waits for the peer than may."""
        limit = self._max_backlog
        return bool(self._frames or self._begun[0]) and limit is not None and self.waiting > limit

    def wait_for_room(self) -> None:
        """Return at once unless too much waits for the peer; then wait until half of that is gone, or until `close`."""
        limit = self._max_backlog
        if limit is None or not self.is_full():
            return
        self._reader_waits = True
        while not self._closed and self.waiting > limit // 2:
            self._room.acquire()
        self._reader_waits = False

    def _tell_reader(self) -> None:
        try:
            self._room.release()
        except RuntimeError:
            pass  # it was told already and has not looked yet

    def close(self) -> None:
        """Let `wait_for_room` go. The pipe itself is closed by its owner."""
        self._closed = True
        self._tell_reader()
