"""Rates of events: token buckets, for each client of a server and for the notifications of one
request."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Hashable, Optional

from ..log import logger
from ..text import one_line
from .timer import LOOK_SECONDS, Timer, timer

if TYPE_CHECKING:
    from ..protocol.messages import Request

log = logger("minimcp.rates")

# Maximum number of clients that a `RateLimiter` remembers. Beyond it the one that called least recently is
# forgotten, so that invented clients cannot fill the memory.
MAX_CLIENTS = 10_000

# Maximum number of seconds that a client is asked to wait.
MAX_WAIT_SECONDS = 86400

_NANOSECONDS = 1_000_000_000


class Rate:
    """At most so many events per second, and so many at once.

    A rate has no state. For each bucket its caller keeps one number: the time at which the bucket is full again, in
    nanoseconds. Whole nanoseconds keep sums exact.

    Args:
        per_second: Events per second, more than 0.
        burst: Events at once, at least 1; None means as many as in one second, at least one.
    """

    def __init__(self, per_second: float, burst: Optional[float] = None) -> None:
        self.per_second = per_second
        burst = max(per_second, 1.0) if burst is None else burst
        # Tiny rates have an interval that no clock reaches.
        self._interval = int(min(_NANOSECONDS / per_second, 1e30))
        self._tolerance = int(min(_NANOSECONDS * (burst - 1) / per_second, 1e30))

    def admit(self, full_at: int, now: int) -> tuple[int, float]:
        """Take a token out of a bucket if there is one.

        Args:
            full_at: When the bucket is full, in nanoseconds.
            now: The time, in nanoseconds.

        Returns:
            When the bucket is full now; and 0.0, or the seconds after which there is a token.
        """
        start = max(full_at, now)
        wait = start - now - self._tolerance
        if wait > 0:
            return full_at, wait / _NANOSECONDS
        return start + self._interval, 0.0


class RateLimiter:
    """A token bucket for each client. Thread-safe.

    A full bucket is as good as none, so the buckets of clients that have left are dropped.

    Args:
        rate: What each client may do.
        clock: Monotonic seconds.
        max_clients: How many buckets are kept.
    """

    def __init__(
        self,
        rate: Rate,
        *,
        clock: Callable[[], float] = time.monotonic,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._max_clients = max_clients
        self._lock = threading.Lock()
        # When the bucket of each client is full; the client that called least recently comes first.
        self._full_at: dict[Hashable, int] = {}

    def take(self, client: Hashable) -> float:
        """Return 0.0 if the client may go on, or the seconds after which it may."""
        with self._lock:
            now = round(self._clock() * _NANOSECONDS)
            full_at, wait = self._rate.admit(self._full_at.pop(client, now), now)
            self._full_at[client] = full_at
            self._forget(now)
        return wait

    def _forget(self, now: int) -> None:
        """Drop full buckets, and the oldest ones if there are too many (lock held)."""
        while self._full_at:
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._max_clients:
                return
            del self._full_at[oldest]

    def __len__(self) -> int:
        return len(self._full_at)


class NotificationRate:
    """The rate of the progress and log notifications of one request. Thread-safe.

    Above the rate, log notifications are dropped, and of the progress reports the newest one is
    kept. It is sent as soon as the rate allows, ahead of later log notifications, or by `flush`.

    Args:
        rate: The rate.
        progress_lock: An RLock that orders progress reports; `may_report` is called with it held.
        clock: Monotonic seconds.
        timer: Calls back when the kept report is due.

    Attributes:
        dropped: How many log notifications were dropped.
        per_second: Notifications per second.
    """

    def __init__(
        self,
        rate: Rate,
        progress_lock: Any,
        *,
        clock: Callable[[], float] = time.monotonic,
        timer: Timer = timer,
    ) -> None:
        self.dropped = 0
        self.per_second = rate.per_second
        self._rate = rate
        self._clock = clock
        self._timer = timer
        self._full_at = 0
        self._progress_lock = progress_lock
        # Guards what follows. Held for moments only.
        self._lock = threading.RLock()
        self._kept: Optional[Callable[[], object]] = None
        self._cancel_timer: Optional[Callable[[], None]] = None

    def may_log(self) -> bool:
        """Return whether a log notification may be sent now; otherwise count it as dropped."""
        with self._lock:
            if self._kept is None and not self._take():
                return True
            self.dropped += 1
            return False

    def may_report(self, post: Callable[[], object]) -> bool:
        """Return whether a progress report may be sent now; otherwise keep it instead of the one before.

        Args:
            post: Sends the report later. It must not block.
        """
        with self._lock:
            wait = self._take()
            self._kept = post if wait else None
            if wait and self._cancel_timer is None:
                self._cancel_timer = self._timer.after(wait, self._due)
        return not wait

    def end(self, request: Request, *, cancelled: bool, wait: bool) -> None:
        """Send the report that is kept, and log how many log notifications were dropped.

        Args:
            request: The request, which is about to be answered.
            cancelled: Whether it was cancelled; then the report is dropped.
            wait: Whether this thread may wait for the peer.
        """
        self.flush(drop=cancelled, wait=wait)
        dropped = self.dropped
        self.dropped = 0
        if dropped:
            log.warning(
                "%s %s: %d log notifications were dropped, because its handler sent more than %g "
                "notifications per second (Limits.notification_rate)",
                request.method,
                one_line(request.params.get("name", "")),
                dropped,
                self.per_second,
            )

    def flush(self, *, drop: bool = False, wait: bool = True) -> None:
        """Send the report that is kept, before the request is answered.

        Args:
            drop: Whether the report is dropped instead.
            wait: Whether this thread may wait for one that is sending a report.
        """
        if self._kept is None or not self._progress_lock.acquire(blocking=wait):
            return
        try:
            with self._lock:
                post = self._kept
                self._kept = None
                if self._cancel_timer is not None:
                    self._cancel_timer()
                    self._cancel_timer = None
            if post is not None and not drop:
                post()
        finally:
            self._progress_lock.release()

    def _take(self) -> float:
        """Take a token; return 0.0, or the seconds until there is one (lock held)."""
        now = round(self._clock() * _NANOSECONDS)
        self._full_at, wait = self._rate.admit(self._full_at, now)
        return wait

    def _due(self) -> None:
        """Send the report that is kept, if the rate allows it now. Never blocks."""
        # The thread that has the lock is about to replace the report, or to send a newer one.
        if not self._progress_lock.acquire(blocking=False):
            with self._lock:
                self._cancel_timer = self._timer.after(LOOK_SECONDS, self._due)
            return
        try:
            with self._lock:
                self._cancel_timer = None
                post = self._kept
                wait = 0.0 if post is None else self._take()
                if wait:
                    self._cancel_timer = self._timer.after(wait, self._due)
                    return
                self._kept = None
            if post is not None:
                post()
        finally:
            self._progress_lock.release()


def whole_seconds(*waits: float) -> int:
    """Return the longest wait in whole seconds, at least 1, for the header ``Retry-After``."""
    return math.ceil(min(max(1.0, *waits), MAX_WAIT_SECONDS))
