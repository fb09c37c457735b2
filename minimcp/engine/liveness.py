"""`Pinger`: pings the peer of an idle connection, so that a dead peer is noticed.

Imported when the first connection is pinged.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping
"""

from __future__ import annotations

import threading
from typing import Callable, Optional

from ..errors import Busy, Cancelled, ConnectionFailed, ConnectionLost, RequestTimeout, SessionGone
from ..log import logger
from .calls import PendingCall, Pinged
from .timer import Timer, timer as process_timer

log = logger("minimcp.liveness")

# Number of consecutive failed pings after which the connection is lost.
MAX_FAILURES = 3


def start_pings(target: Pinged, name: str, interval: float) -> None:
    """Ping a peer every `interval` seconds while its connection is idle. Idempotent.

    Args:
        target: The connection or session.
        name: Its name, for log records.
        interval: Seconds between two pings.
    """
    if target.pinger is None:
        target.pinger = Pinger(target, name, interval).start()
    if target.calls.cause is not None:
        target.stop_pings()


class Pinger:
    """Pings the peer of one connection or session while it is idle. Thread-safe.

    A ping fails if no response arrives before the next ping is due. An error is a response, too.
    All methods of the target are called on the timer thread, so they must not block.

    Args:
        target: The connection or session.
        name: Its name, for log records.
        interval: Seconds between two pings.
        timer: Runs the pings; None means the timer of the process.
    """

    def __init__(
        self, target: Pinged, name: str, interval: float, timer: Optional[Timer] = None
    ) -> None:
        self._target = target
        self._name = name
        self._interval = interval
        self._timer = process_timer if timer is None else timer
        self._ping: Optional[PendingCall] = None
        self._failures = 0
        # Protects `_stopped` and `_cancel`.
        self._lock = threading.RLock()
        self._stopped = False
        self._cancel: Callable[[], object] = int

    def start(self) -> Pinger:
        """Schedule the first ping."""
        self._is_idle()  # resets the record of earlier activity
        self._call_back()
        return self

    def _is_idle(self) -> bool:
        """Return whether no call is pending and only pings were exchanged since the last check."""
        target = self._target
        was_active = target.was_active
        target.was_active = False
        return target.calls.were_idle() and not was_active and target.is_idle()

    def _call_back(self) -> None:
        with self._lock:
            if not self._stopped:
                self._cancel = self._timer.after(self._interval, self._tick)

    def stop(self) -> None:
        """Stop sending pings. Idempotent."""
        with self._lock:
            self._stopped = True
            self._cancel()

    def _tick(self) -> None:
        if self._stopped:
            return
        failed = self._has_failed()
        if not self._is_idle():
            self._failures = 0
        elif failed:
            self._failures += 1
            is_last = self._failures == MAX_FAILURES
            log.warning(
                "%s: no response to a ping within %g s (failure %d of %d)%s",
                self._name,
                self._interval,
                self._failures,
                MAX_FAILURES,
                ": the connection is lost" if is_last else "",
            )
            if is_last:
                self.stop()
                pings = f"{MAX_FAILURES} pings in a row, {self._interval:g} s apart (ping_interval)"
                self._target.lose(
                    ConnectionLost(f"{self._name}: the peer did not respond to {pings}")
                )
                return
            self._ping_again()
        else:
            self._failures = 0
            self._ping_again()
        self._call_back()

    def _has_failed(self) -> bool:
        """Return whether the last ping failed. If it is still pending, end it."""
        ping = self._ping
        self._ping = None
        if ping is None:
            return False
        self._target.calls.settle(ping.id, Cancelled("the next ping is due"))
        if isinstance(ping.outcome, (SessionGone, Busy)):
            return False
        return isinstance(
            ping.outcome, (Cancelled, ConnectionLost, ConnectionFailed, RequestTimeout)
        )

    def _ping_again(self) -> None:
        try:
            self._ping = self._target.send_ping()
        except Exception as error:
            log.debug("%s: no more pings: %s", self._name, error)
            self.stop()
