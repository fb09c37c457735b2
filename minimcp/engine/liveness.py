"""`Pinger`: pings the peer of an idle connection, so that a dead peer is noticed.

https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/ping
"""

from __future__ import annotations

import threading
from typing import Callable, Optional

from ..errors import (
    Busy,
    Cancelled,
    ConnectionFailed,
    ConnectionLost,
    RequestTimeout,
    SessionGone,
    logger,
)
from .requests import Calls, PendingCall
from .timer import Timer, timer as process_timer

log = logger("minimcp.liveness")

# After so many failed pings in a row the connection is lost.
MAX_FAILURES = 3


class Pinger:
    """Pings the peer of one connection or session while nothing else happens there. Thread-safe.

    A ping fails if no response arrives before the next ping is due. An error is a response, too.
    Everything here runs on the thread of the timer, so none of the functions may block.

    Args:
        name: The connection's, for messages.
        interval: Seconds between two pings.
        calls: The calls of the connection.
        is_idle: Returns whether nothing was sent or received since it was last called, and no call
            is running. A ping does not count.
        send: Sends a ping, which it adds to `calls`, and returns it; None if there is nobody to
            ping now. Raises the cause if the connection has ended.
        lose: Called with the cause after `MAX_FAILURES` failures in a row.
        timer: Calls back when the next ping is due; None means the timer of the process.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        calls: Calls,
        *,
        is_idle: Callable[[], bool],
        send: Callable[[], Optional[PendingCall]],
        lose: Callable[[ConnectionLost], object],
        timer: Optional[Timer] = None,
    ) -> None:
        self._name = name
        self._interval = interval
        self._calls = calls
        self._is_idle = is_idle
        self._send = send
        self._lose = lose
        self._timer = process_timer if timer is None else timer
        self._ping: Optional[PendingCall] = None
        self._failures = 0
        # Guards the two that follow.
        self._lock = threading.RLock()
        self._stopped = False
        self._cancel: Callable[[], object] = int

    def start(self) -> Pinger:
        """Send the first ping after one interval, whatever happened before."""
        self._is_idle()
        self._call_back()
        return self

    def _call_back(self) -> None:
        with self._lock:
            if not self._stopped:
                self._cancel = self._timer.after(self._interval, self._tick)

    def stop(self) -> None:
        """Send no more pings. Idempotent."""
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
                self._lose(ConnectionLost(f"{self._name}: the peer did not respond to {pings}"))
                return
            self._ping_again()
        else:
            self._failures = 0
            self._ping_again()
        self._call_back()

    def _has_failed(self) -> bool:
        """Return whether the last ping has no response, and stop waiting for one."""
        ping, self._ping = self._ping, None
        if ping is None:
            return False
        self._calls.settle(ping.id, Cancelled("the next ping is due"))
        if isinstance(ping.ending, (SessionGone, Busy)):
            return False
        return isinstance(
            ping.ending, (Cancelled, ConnectionLost, ConnectionFailed, RequestTimeout)
        )

    def _ping_again(self) -> None:
        try:
            self._ping = self._send()
        except Exception as error:
            log.debug("%s: no more pings: %s", self._name, error)
            self.stop()
