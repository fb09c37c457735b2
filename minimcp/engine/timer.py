"""`Deadline`: one point in time that several steps share; `timer`: functions that are called at their time."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from typing import Callable, Optional

from .pool import renewed_in_fork

log = logging.getLogger("minimcp.timer")

LONGEST_WAIT = 86400.0
"""Seconds. A lock refuses waits above ``threading.TIMEOUT_MAX``; a wait without a limit is repeated day by day."""

IDLE_SECONDS = 1.0
"""How long the timer's thread stays when there is nothing to wait for."""


class Deadline:
    """A moment on the monotonic clock, or never; it can be paused.

    Args:
        seconds: How far away the moment is, in seconds. None means that it never comes.

    Thread safety: all methods, from any thread. ``seconds`` keeps the argument.
    """

    _lock = threading.RLock()

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds
        self._left = 0.0
        self._pauses = 0

    @property
    def paused(self) -> bool:
        """Whether it stands still."""
        return self._pauses > 0

    def pause(self) -> None:
        """Let it stand still until `resume` has been called as often as this."""
        with self._lock:
            if not self._pauses and self._at is not None:
                self._left = self._at - time.monotonic()
            self._pauses += 1

    def resume(self) -> None:
        """Take one `pause` back. Who waits for the deadline has to be woken, to look at `wait` again."""
        with self._lock:
            if self._pauses == 1 and self._at is not None:
                self._at = time.monotonic() + self._left
            self._pauses -= 1

    def remaining(self) -> Optional[float]:
        """Seconds that are left, never negative; None when there is no limit."""
        if self._at is None:
            return None
        return max(0.0, self._left if self._pauses else self._at - time.monotonic())

    def wait(self) -> float:
        """Seconds that a lock may wait for in one go: what is left, at most a day; a day while it is paused."""
        left = self.remaining()
        return LONGEST_WAIT if left is None or (left and self._pauses) else min(left, LONGEST_WAIT)

    @property
    def expired(self) -> bool:
        """Whether the moment has come."""
        return self.remaining() == 0.0

    def within(self, seconds: Optional[float]) -> Deadline:
        """The earlier of this deadline and one `seconds` from now; None adds no limit."""
        left = self.remaining()
        return Deadline(left if seconds is None else seconds if left is None else min(left, seconds))

    def __repr__(self) -> str:
        left = self.remaining()
        return "<Deadline never>" if left is None else f"<Deadline in {left:.3f} s>"


NEVER = Deadline(None)


class Timer:
    """Calls functions at their time, on one thread that is there while it is needed.

    The functions must be short: they set flags and hand work over. Thread safety: all methods, from any thread.
    """

    def __init__(self) -> None:
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin without a thread, and forget what was to be called."""
        self._changed = threading.Condition()
        self._entries: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = 0
        self._running = False

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function in so many seconds; returns a function that cancels this. What it raises is logged."""
        with self._changed:
            self._numbers += 1
            entry = (time.monotonic() + seconds, self._numbers, callback)
            heapq.heappush(self._entries, entry)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="minimcp-timer", daemon=True).start()
            elif self._entries[0] is entry:
                self._changed.notify()

        def cancel() -> None:
            with self._changed:
                if entry in self._entries:
                    self._entries.remove(entry)
                    heapq.heapify(self._entries)
                    if not self._entries:
                        self._changed.notify()

        return cancel

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._entries and not self._changed.wait_for(lambda: self._entries, IDLE_SECONDS):
                    self._running = False
                    return
                left = self._entries[0][0] - time.monotonic()
                if left > 0:
                    self._changed.wait(min(left, LONGEST_WAIT))
                    continue
                callback = heapq.heappop(self._entries)[2]
            try:
                callback()
            except Exception as error:  # a fault of ours: the others are still called
                log.error("%s", error, exc_info=error)
            del callback


timer = Timer()
"""The one timer of the process."""


class Timeout(Deadline):
    """A deadline that calls a function when it comes, unless it is stopped before.

    Args:
        seconds: How far away it is.
        expire: The function; it must be short.
    """

    def __init__(self, seconds: float, expire: Callable[[], object]) -> None:
        super().__init__(seconds)
        self._expire, self._stopped = expire, False
        self._cancel = timer.after(seconds, self._look)

    def _look(self) -> None:
        if not self.paused and not self._stopped:
            self._stopped = True
            self._expire()

    def pause(self) -> None:
        super().pause()
        self._cancel()

    def resume(self) -> None:
        super().resume()
        self._cancel()
        if not self.paused and not self._stopped:
            self._cancel = timer.after(self.remaining() or 0.0, self._look)

    def stop(self) -> None:
        """Do not call the function any more. Idempotent."""
        self._stopped = True
        self._cancel()
