"""A clock that stands while somebody other than the peer has the word, and deadlines on it."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

from ..engine.timer import LONGEST_WAIT, Deadline

_here = threading.local()
"""Of each thread: ``held``, the clock that this thread holds, and the how-manieth hold it is."""


def _nothing() -> None:
    pass


class Clock:
    """Monotonic time that stands as long as there is a hold on it. Thread-safe.

    A thread that holds the clock still lives by it: for its own waits only holds that came later count, or a host's
    handler that calls a silent server would wait for ever.

    ``resumed`` is called, by the thread that lets the clock go on, after each hold; it must be quick.
    """

    __slots__ = ("resumed", "_since", "_stood", "_lock")

    def __init__(self) -> None:
        self.resumed: Callable[[], None] = _nothing
        self._since: list[float] = []  # level n stands while there are more than n holds: when it began
        self._stood: list[float] = []  # of each level: seconds that it has stood before
        self._lock = threading.Lock()

    def hold(self) -> Hold:
        """Stop the clock, until the hold is released."""
        return Hold(self, self._add())

    def deadline(self, seconds: Optional[float]) -> Deadline:
        """A moment on this clock, as the calling thread lives by it.

        Args:
            seconds: How far away it is; None means that it never comes.

        Whoever waits for it in the way of `Deadline.wait` has to be woken when the clock goes on (``resumed``).
        """
        held, level = getattr(_here, "held", None) or (None, 0)
        return _ClockDeadline(seconds, self, level if held is self else 0)

    def now(self, level: int = 0) -> float:
        """Seconds of this clock, for who counts the holds from this one on."""
        if not self._stood:
            return time.monotonic()
        with self._lock:
            moment = self._since[level] if level < len(self._since) else time.monotonic()
            return moment - (self._stood[level] if level < len(self._stood) else 0.0)

    def stands(self, level: int = 0) -> bool:
        """Whether it stands, for who counts the holds from this one on."""
        return level < len(self._since)

    def _add(self) -> int:
        with self._lock:
            if len(self._since) == len(self._stood):
                self._stood.append(0.0)
            self._since.append(time.monotonic())
            return len(self._since)

    def _take_away(self) -> None:
        with self._lock:
            began = self._since.pop()
            self._stood[len(self._since)] += time.monotonic() - began


class Hold:
    """One reason for a clock to stand; as a context manager, for the thread that is the reason.

    Args:
        clock: Which is held.
        level: How many holds there are, this one included.
    """

    __slots__ = ("_clock", "_level", "_before", "_once")

    def __init__(self, clock: Clock, level: int) -> None:
        self._clock, self._level = clock, level
        self._before: Any = None
        self._once = threading.Lock()

    def release(self) -> None:
        """Let the clock go on, as far as this hold is concerned. Idempotent, from any thread."""
        if self._once.acquire(False):
            self._clock._take_away()
            self._clock.resumed()

    def __enter__(self) -> Hold:
        self._before = getattr(_here, "held", None)
        _here.held = (self._clock, self._level)
        return self

    def __exit__(self, *_: object) -> None:
        _here.held = self._before
        self.release()


class _ClockDeadline(Deadline):
    """A moment on a clock that may stand; arguments as `Deadline`, and how many holds do not count."""

    __slots__ = ("_clock", "_level")

    def __init__(self, seconds: Optional[float], clock: Clock, level: int) -> None:
        self._clock, self._level, self.seconds = clock, level, seconds
        self._at = None if seconds is None else clock.now(level) + seconds

    def remaining(self) -> Optional[float]:
        return None if self._at is None else max(0.0, self._at - self._clock.now(self._level))

    def wait(self) -> float:
        left = self.remaining()
        if left is None or (left and self._clock.stands(self._level)):
            return LONGEST_WAIT
        return min(left, LONGEST_WAIT)


def inherited(work: Callable[[], Any]) -> Callable[[], Any]:
    """The same function for another thread, which then lives by the clock as the calling thread does."""
    held = getattr(_here, "held", None)
    if held is None:
        return work

    def run() -> Any:
        _here.held = held
        try:
            return work()
        finally:
            _here.held = None

    return run
