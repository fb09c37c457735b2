"""An alarm clock: functions that are called at their time."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from typing import Callable, Optional

from .deadline import LONGEST_WAIT

log = logging.getLogger("minimcp.alarm")


class Alarm:
    """Calls functions at their time, on one thread that exists only while there is something to wait for. Thread-safe.

    The functions must be short: they set flags and hand work over.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._changed = threading.Condition(threading.Lock())
        self._times: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = 0
        self._running = False

    def renew(self) -> None:
        """Begin anew in a forked process, where the thread is not, and its orders are nobody's."""
        self.__init__(self._name)  # type: ignore[misc]

    def at(self, seconds: float, ring: Callable[[], None]) -> Callable[[], None]:
        """Call `ring` in this many seconds; returns a function that takes the order back.

        Raises:
            RuntimeError: The system gives no more threads; nothing was ordered.
        """
        with self._changed:
            if not self._running:  # the new thread looks only when this one has let go
                threading.Thread(target=self._run, name=f"{self._name}-alarm", daemon=True).start()
                self._running = True
            self._numbers += 1
            entry = (time.monotonic() + seconds, self._numbers, ring)
            heapq.heappush(self._times, entry)
            self._changed.notify()
        return lambda: self._forget(entry)

    def _forget(self, entry: tuple[float, int, Callable[[], None]]) -> None:
        with self._changed:
            if entry in self._times:
                self._times.remove(entry)
                heapq.heapify(self._times)
                self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._times and self._times[0][0] > time.monotonic():
                    self._changed.wait(min(self._times[0][0] - time.monotonic(), LONGEST_WAIT))
                if not self._times:
                    self._running = False
                    return
                ring = heapq.heappop(self._times)[2]
            try:
                ring()
            except Exception as error:  # a fault of ours: the other orders still count
                log.error("%s: %s", self._name, error, exc_info=error)


class Countdown:
    """So many seconds of running, then a ring; the clock stands while anything is paused. Thread-safe.

    Args:
        alarm: Rings.
        seconds: How long it may run.
        ring: Called when the time is over.

    Raises:
        RuntimeError: The system gives no more threads; nothing was begun.
    """

    __slots__ = ("_alarm", "_left", "_ring", "_began", "_forget", "_pauses", "_stopped", "_state_lock")

    def __init__(self, alarm: Alarm, seconds: float, ring: Callable[[], None]) -> None:
        self._alarm, self._left, self._ring = alarm, seconds, ring
        self._pauses, self._stopped = 0, False
        self._state_lock = threading.Lock()
        self._began = time.monotonic()
        self._forget: Optional[Callable[[], None]] = alarm.at(seconds, ring)

    def pause(self) -> None:
        """Have the clock stand until as many calls of `resume` came."""
        with self._state_lock:
            self._pauses += 1
            if self._pauses == 1:
                self._halt()

    def resume(self) -> None:
        """Take one pause back; the clock goes on when none is left."""
        with self._state_lock:
            self._pauses -= 1
            if self._pauses or self._stopped:
                return
            self._began = time.monotonic()
            try:
                self._forget = self._alarm.at(self._left, self._ring)
            except RuntimeError as error:  # better without a limit than not at all
                log.warning("a timeout is given up: %s", error)

    def stop(self) -> None:
        """The running has ended: there will be no ring, unless it rings already."""
        with self._state_lock:
            self._stopped = True
            self._halt()

    def _halt(self) -> None:
        if self._forget is not None:
            self._forget()
            self._forget = None
            self._left = max(0.0, self._left - (time.monotonic() - self._began))
