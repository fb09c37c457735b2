"""`Deadline`: a point in time shared by several steps. `timer`: calls functions later."""

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

# Maximum timeout of one wait, because a lock rejects values above ``threading.TIMEOUT_MAX``. A
# longer wait is split into waits of one day.
MAX_WAIT_SECONDS = 86400.0

# Minimum interval between two checks of a paused deadline.
LOOK_SECONDS = 0.02


class Deadline:
    """A point in time on the monotonic clock, or never. It can be paused.

    Args:
        seconds: Seconds until the deadline; None means never.

    Attributes:
        seconds: The value that was passed to the constructor.

    Thread-safe.
    """

    _lock = threading.RLock()

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds
        self._left = 0.0
        self.pauses = 0

    def pause(self) -> None:
        """Stop the clock until `resume` has been called as often as `pause`."""
        with self._lock:
            if not self.pauses:
                self._left = self._at - time.monotonic()
            self.pauses += 1

    def resume(self) -> None:
        """Undo one `pause`. The caller must wake threads that wait, because `to_wait` changes."""
        with self._lock:
            if self.pauses == 1:
                self._at = time.monotonic() + self._left
            self.pauses -= 1

    def remaining(self) -> Optional[float]:
        """Return the seconds that are left, never negative; None means forever."""
        left = self._left if self.pauses else self._at - time.monotonic()
        return None if left == math.inf else max(0.0, left)

    def to_wait(self) -> float:
        """Return the timeout for one wait: the seconds that are left, at most one day.

        While the deadline is paused, the timeout is one day.
        """
        if self.pauses:
            return MAX_WAIT_SECONDS if self._left > 0 else 0.0
        return min(max(0.0, self._at - time.monotonic()), MAX_WAIT_SECONDS)

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed."""
        return self.remaining() == 0.0

    def within(self, seconds: Optional[float]) -> Deadline:
        """Return this deadline, or one in `seconds` if that is earlier; None means no limit."""
        left = self.remaining()
        if left is None or seconds is None:
            return Deadline(seconds if left is None else left)
        return Deadline(min(left, seconds))


NEVER = Deadline(None)


class Timer:
    """Calls functions after a delay, on one thread, which the first call to `after` starts.

    The functions must not block. Thread-safe.
    """

    def __init__(self) -> None:
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Drop all scheduled calls and forget the thread."""
        self._scheduler = sched.scheduler(time.monotonic)
        self._lock = threading.RLock()
        self._changed = threading.Event()
        self._started = False

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function after `seconds`. Exceptions that it raises are logged.

        Returns:
            A function that cancels the call.
        """
        entry = self._scheduler.enter(seconds, 0, callback)
        with self._lock:
            if not self._started:
                threading.Thread(target=self._run, name="minimcp-timer", daemon=True).start()
                self._started = True
        self._changed.set()

        def cancel() -> None:
            with suppress(ValueError):  # the function was called already
                self._scheduler.cancel(entry)

        return cancel

    def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                with exit_gate:  # a callback of the user may print
                    left = self._scheduler.run(blocking=False)
            except Exception as error:  # a bug; the other functions must still be called
                log.error("%s", error, exc_info=error)
                continue
            self._changed.wait(MAX_WAIT_SECONDS if left is None else min(left, MAX_WAIT_SECONDS))


# The timer of the process.
timer = Timer()


class Timeout(Deadline):
    """A deadline that calls a function when it passes.

    Args:
        seconds: Seconds until the deadline.
        expire: The function. It must not block. It may be called just after the work has ended.

    Attributes:
        stop: Cancels the call. Idempotent.
    """

    def __init__(self, seconds: float, expire: Callable[[], object]) -> None:
        super().__init__(seconds)
        self.expire = expire
        self.stop = timer.after(seconds, self._look)

    def _look(self) -> None:
        if self.expired:
            self.expire()
        else:  # the deadline is or was paused
            self.stop = timer.after(max(self.remaining() or 0.0, LOOK_SECONDS), self._look)
