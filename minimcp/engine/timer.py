"""`Deadline`: one point in time that several steps share; `timer`: functions that are called at
their time."""

from __future__ import annotations

import math
import sched
import threading
import time
from contextlib import suppress
from typing import Callable, Optional

from ..log import exit_gate, logger
from .pool import renewed_in_fork

log = logger("minimcp.timer")

# Seconds. A lock refuses waits above ``threading.TIMEOUT_MAX``; a wait without a limit is repeated
# day by day.
LONGEST_WAIT = 86400.0

# How often a deadline that is paused is looked at, at most.
LOOK_SECONDS = 0.02


class Deadline:
    """A moment on the monotonic clock, or never; it can be paused.

    Args:
        seconds: How far away the moment is, in seconds. None means that it never comes.

    Thread safety: all methods, from any thread. ``seconds`` keeps the argument.
    """

    _lock = threading.RLock()

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds
        self._left = 0.0
        self._pauses = 0

    def pause(self) -> None:
        """Stop its clock until `resume` has been called as often as this."""
        with self._lock:
            if not self._pauses:
                self._left = self._at - time.monotonic()
            self._pauses += 1

    def resume(self) -> None:
        """Take one `pause` back. Who waits for the deadline has to be woken, to look at `to_wait`
        again."""
        with self._lock:
            if self._pauses == 1:
                self._at = time.monotonic() + self._left
            self._pauses -= 1

    def remaining(self) -> Optional[float]:
        """Seconds that are left, never negative; None when there is no limit."""
        left = self._left if self._pauses else self._at - time.monotonic()
        return None if left == math.inf else max(0.0, left)

    def to_wait(self) -> float:
        """Seconds that a lock may wait for in one go: what is left, at most a day; a day while it
        is paused."""
        if self._pauses:
            return LONGEST_WAIT if self._left > 0 else 0.0
        return min(max(0.0, self._at - time.monotonic()), LONGEST_WAIT)

    @property
    def expired(self) -> bool:
        """Whether the moment has come."""
        return self.remaining() == 0.0

    def within(self, seconds: Optional[float]) -> Deadline:
        """The earlier of this deadline and one `seconds` from now; None adds no limit."""
        left = self.remaining()
        return Deadline(
            left if seconds is None else seconds if left is None else min(left, seconds)
        )


NEVER = Deadline(None)


class Timer:
    """Calls functions at their time, on one thread that begins when the first is ordered.

    The functions must be short: they set flags and hand work over. Thread safety: all methods, from
    any thread.
    """

    def __init__(self) -> None:
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin without a thread, and forget what was to be called."""
        self._scheduler = sched.scheduler(time.monotonic)
        self._lock = threading.RLock()
        self._changed = threading.Event()
        self._started = False

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function in so many seconds; returns a function that cancels this. What it raises
        is logged."""
        entry = self._scheduler.enter(seconds, 0, callback)
        with self._lock:
            if not self._started:
                threading.Thread(target=self._run, name="minimcp-timer", daemon=True).start()
                self._started = True
        self._changed.set()

        def cancel() -> None:
            with suppress(ValueError):  # it was called already
                self._scheduler.cancel(entry)

        return cancel

    def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                with exit_gate:  # a callback of a user may print
                    left = self._scheduler.run(blocking=False)
            except Exception as error:  # a fault of ours: the others are still called
                log.error("%s", error, exc_info=error)
                continue
            self._changed.wait(LONGEST_WAIT if left is None else min(left, LONGEST_WAIT))


# The one timer of the process.
timer = Timer()


class Timeout(Deadline):
    """A deadline that calls a function when it comes, unless it is stopped before.

    Args:
        seconds: How far away it is.
        expire: The function; it must be short, and do nothing where what it limits has just ended.
    """

    def __init__(self, seconds: float, expire: Callable[[], object]) -> None:
        super().__init__(seconds)
        self._expire = expire
        # Do not call the function any more. Idempotent.
        self.stop = timer.after(seconds, self._look)

    def _look(self) -> None:
        if self.expired:
            self._expire()
        else:  # it was paused, or is
            self.stop = timer.after(max(self.remaining() or 0.0, LOOK_SECONDS), self._look)
