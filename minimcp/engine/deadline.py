"""One point in time that several steps share, so that a sum of waits never exceeds its limit."""

from __future__ import annotations

import threading
import time
from typing import Optional

LONGEST_WAIT = 86400.0
"""Seconds. A lock refuses waits above ``threading.TIMEOUT_MAX``; whoever waits "for ever" waits in days."""

_pause_lock = threading.Lock()


class Deadline:
    """A moment on the monotonic clock, or never.

    Args:
        seconds: How far away the moment is, in seconds. None means that it never comes.

    Thread-safe. ``seconds`` keeps the argument.
    """

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds
        self._pauses = 0
        self._since = 0.0

    def remaining(self) -> Optional[float]:
        """Seconds that are left, never negative; None when there is no limit."""
        if self._at is None:
            return None
        return max(0.0, self._at - (self._since if self._pauses else time.monotonic()))

    def wait(self) -> float:
        """Seconds that a lock may wait for in one go: what is left, at most a day. A day while this is paused."""
        left = self.remaining()
        return LONGEST_WAIT if left is None or (left and self._pauses) else min(left, LONGEST_WAIT)

    def pause(self) -> None:
        """Stand still until `resume`, which wakes nobody: whoever calls it has to. Pauses are counted."""
        with _pause_lock:
            if not self._pauses:
                self._since = time.monotonic()
            self._pauses += 1

    def resume(self) -> None:
        """Take one `pause` back."""
        with _pause_lock:
            if self._pauses == 1 and self._at is not None:
                self._at += time.monotonic() - self._since
            self._pauses -= 1

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
