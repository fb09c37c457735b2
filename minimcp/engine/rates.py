"""Token buckets, which limit the calls of each client and the notifications of each request."""

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

# Maximum number of buckets in a `RateLimiter`. Above this, the bucket that was used least recently
# is dropped. Otherwise a peer that invents client names could exhaust the memory.
MAX_CLIENTS = 10_000

# Maximum value of the header ``Retry-After``.
MAX_RETRY_SECONDS = 86400

_NANOSECONDS = 1_000_000_000


class Rate:
    """The rate and the size of token buckets.

    A rate has no state. For each bucket, its caller keeps one number: the time at which the bucket
    will be full, in nanoseconds. Whole numbers of nanoseconds keep sums exact.

    Args:
        per_second: Tokens per second, more than 0.
        burst: Maximum number of tokens in a bucket, at least 1. None means the tokens of one
            second, but at least one.
    """

    def __init__(self, per_second: float, burst: Optional[float] = None) -> None:
        self.per_second = per_second
        burst = max(per_second, 1.0) if burst is None else burst
        # An upper bound, because the interval of a tiny rate is infinite.
        self._interval = int(min(_NANOSECONDS / per_second, 1e30))
        self._tolerance = int(min(_NANOSECONDS * (burst - 1) / per_second, 1e30))

    def take(self, full_at: int, now: int) -> tuple[int, float]:
        """Take a token from a bucket if it has one.

        Args:
            full_at: The time at which the bucket will be full, in nanoseconds.
            now: The current time, in nanoseconds.

        Returns:
            The new `full_at`, and the seconds until the bucket has a token. The seconds are 0.0 if
            a token was taken.
        """
        start = max(full_at, now)
        wait = start - now - self._tolerance
        if wait > 0:
            return full_at, wait / _NANOSECONDS
        return start + self._interval, 0.0


class RateLimiter:
    """A token bucket for each client. Full buckets are dropped. Thread-safe.

    Args:
        rate: The rate of each client.
        clock: Returns monotonic seconds.
        max_clients: Maximum number of buckets.
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
        # The time at which each client's bucket will be full. The least recently used one is first.
        self._full_at: dict[Hashable, int] = {}

    def take(self, client: Hashable) -> float:
        """Take a token from a client's bucket.

        Return 0.0, or the seconds until one is available.
        """
        with self._lock:
            now = round(self._clock() * _NANOSECONDS)
            full_at, wait = self._rate.take(self._full_at.pop(client, now), now)
            self._full_at[client] = full_at
            self._forget(now)
        return wait

    def _forget(self, now: int) -> None:
        """Drop full buckets, and the oldest ones above `max_clients`. The caller holds the lock."""
        while self._full_at:
            oldest = next(iter(self._full_at))
            if self._full_at[oldest] > now and len(self._full_at) <= self._max_clients:
                return
            del self._full_at[oldest]

    def __len__(self) -> int:
        return len(self._full_at)


class NotificationRate:
    """A limit on the progress and log notifications of one request. Thread-safe.

    Above the rate, log notifications are dropped, and the newest progress report is kept. The kept
    report is sent when the rate allows it, before later log notifications, or by `flush`.

    Args:
        rate: The rate.
        progress_lock: The RLock that orders progress reports. `may_report` is called with it held.
        clock: Returns monotonic seconds.
        timer: Calls back when the kept report is due.

    Attributes:
        dropped: Number of dropped log notifications.
        per_second: Number of notifications per second.
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
        # Protects the attributes of this object. It is held only for a few statements.
        self._lock = threading.RLock()
        self._kept: Optional[Callable[[], object]] = None
        self._cancel_timer: Optional[Callable[[], None]] = None

    def may_log(self) -> bool:
        """Return whether a log notification may be sent now. If not, count it as dropped."""
        with self._lock:
            if self._kept is None and not self._take():
                return True
            self.dropped += 1
            return False

    def may_report(self, post: Callable[[], object]) -> bool:
        """Return whether a progress report may be sent now.

        If not, keep it and drop the previous one.

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
        """Send the kept report, and log how many log notifications were dropped.

        Args:
            request: The request, which will be answered next.
            cancelled: Whether the request was cancelled. If so, the report is dropped.
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
        """Send the kept report before the request is answered.

        Args:
            drop: Whether to drop the report instead.
            wait: Whether this thread may wait for another thread that is sending a report.
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
        """Take a token. Return 0.0, or the seconds until one is available.

        The caller holds the lock.
        """
        now = round(self._clock() * _NANOSECONDS)
        self._full_at, wait = self._rate.take(self._full_at, now)
        return wait

    def _due(self) -> None:
        """Send the kept report if the rate allows it now. Never blocks."""
        # A thread that holds the lock will replace the report or send a newer one.
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
    return math.ceil(min(max(1.0, *waits), MAX_RETRY_SECONDS))
