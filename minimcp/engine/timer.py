"""`Deadline`: a point in time shared by several steps. `timer`: calls functions later."""

from __future__ import annotations

import itertools
import math
import threading
import time
from heapq import heapify, heappop, heappush
from typing import Callable, Optional

from ..log import exit_gate, logger
from .pool import renewed_in_fork

log = logger("minimcp.timer")

# Maximum timeout of one wait, because a lock rejects values above ``threading.TIMEOUT_MAX``. A
# longer wait is split into waits of one day.
MAX_WAIT_SECONDS = 86400.0

# Minimum interval between two checks of a paused deadline.
LOOK_SECONDS = 0.02


# Minimum number of cancelled calls in the heap of a `Timer` before they are removed.
MIN_CANCELLED = 64


class Deadline:
    """A point in time on the monotonic clock, or never. It can be paused.

    Args:
        seconds: Seconds until the deadline; None means never.

    Attributes:
        seconds: The value that was passed to the constructor.
        on_progress: The progress callback of calls whose caller passed none, so that they still ask
            the peer for progress. If None, they do not ask.

    Thread-safe.
    """

    on_progress: Optional[Callable[..., object]] = None
    _lock = threading.RLock()

    def __init__(self, seconds: Optional[float]) -> None:
        self.seconds = seconds
        self._at = math.inf if seconds is None else time.monotonic() + seconds
        self._left = 0.0
        self.pauses = 0

    def progressed(self) -> None:
        """Called when the peer has responded or reported progress. It does nothing here;
        `IdleDeadline` overrides it."""

    @property
    def reason(self) -> str:
        """The text for an error after this deadline has passed."""
        return f"no answer within {self.seconds:g} s"

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
        return (self._left if self.pauses else self._at - time.monotonic()) <= 0.0

    def within(self, seconds: Optional[float]) -> Deadline:
        """Return a deadline at the same time as this one, or `seconds` from now if that is earlier.
        None means no limit."""
        left = self.remaining()
        if left is None or seconds is None:
            return Deadline(seconds if left is None else left)
        return Deadline(min(left, seconds))


NEVER = Deadline(None)


class _Entry(list):  # type: ignore[type-arg]
    """One call of a `Timer`: its time, a number, and the function; None after it was called or
    cancelled. A list, because lists are compared without Python code."""


class Timer:
    """Calls functions after a delay, on one thread, which the first call to `after` starts.

    The functions must not block. Thread-safe.
    """

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Drop all scheduled calls and forget the thread."""
        self._heap: list[_Entry] = []
        # How many entries of the heap are cancelled. They are removed when they are the majority.
        self._cancelled = 0
        # Reentrant: a signal handler may start or cancel a call while this thread holds the lock.
        self._lock = threading.RLock()
        self._changed = threading.Event()
        self._started = False

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function after `seconds`. Exceptions that it raises are logged.

        Returns:
            A function that cancels the call.
        """
        entry = _Entry((time.monotonic() + seconds, next(self._numbers), callback))
        with self._lock:
            heappush(self._heap, entry)
            if not self._started:
                threading.Thread(target=self._run, name="minimcp-timer", daemon=True).start()
                self._started = True
        self._changed.set()

        def cancel() -> None:
            with self._lock:
                if entry[2] is None:
                    return
                entry[2] = None
                self._cancelled += 1
                if self._cancelled > MIN_CANCELLED and self._cancelled > len(self._heap) / 2:
                    self._heap = [each for each in self._heap if each[2] is not None]
                    heapify(self._heap)
                    self._cancelled = 0

        return cancel

    def _run(self) -> None:
        while True:
            self._changed.clear()
            self._changed.wait(self._call_due())

    def _call_due(self) -> float:
        """Call the functions that are due. Return the seconds until the next one."""
        while True:
            with self._lock:
                while self._heap and self._heap[0][2] is None:
                    heappop(self._heap)
                    self._cancelled -= 1
                if not self._heap:
                    return MAX_WAIT_SECONDS
                left: float = self._heap[0][0] - time.monotonic()
                if left > 0:
                    return min(left, MAX_WAIT_SECONDS)
                entry = heappop(self._heap)
                callback = entry[2]
                entry[2] = None
            try:
                with exit_gate:  # a callback of the user may print
                    callback()
            except Exception as error:  # a bug; the other functions must still be called
                log.error("%s", error, exc_info=error)
            del callback, entry  # an idle timer must not keep the callback alive


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
