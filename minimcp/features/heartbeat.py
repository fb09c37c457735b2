"""Progress of silent tools: ``@server.tool(heartbeat=20)``.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/progress
"""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Optional

from ..engine.incoming import IncomingRequest
from ..engine.limits import check_interval
from ..engine.timer import timer
from ..errors import Cancelled, ConnectionLost
from ..server.feature import Feature, OptionSpec, RegisteredEntry

if TYPE_CHECKING:
    from ..server.registry import Registry

# The difference between the numbers of two beats. Progress must increase.
STEP = 1e-6

MESSAGE = "still running"


class Heartbeats(Feature):
    """Sends progress for handlers that are silent, if their callers asked for progress.

    Args:
        registry: The server's registry.
    """

    options = {"heartbeat": OptionSpec(check=check_interval)}

    def __init__(self, registry: Registry) -> None:
        pass

    def around_call(
        self, entry: RegisteredEntry, request: IncomingRequest, call_next: Callable[[], Any]
    ) -> Any:
        """Run a call, and report progress for its handler until it returns."""
        if request.progress_token is None:
            return call_next()
        heartbeat = _Heartbeat(request, entry.options["heartbeat"])
        try:
            return call_next()
        finally:
            heartbeat.stop()


class _Heartbeat:
    """The heartbeat of one call.

    Args:
        request: The request, whose reports pass through this object from now on.
        seconds: Seconds of silence until a beat, and between two beats.
    """

    def __init__(self, request: IncomingRequest, seconds: float) -> None:
        self._request = request
        self._seconds = seconds
        self._send = request.progress
        # The last report of the handler, the beats since then, and the number that was sent last.
        self._done: Optional[float] = None
        self._total: Optional[float] = None
        self._beats = 0
        self._sent = -math.inf
        self._reported_at = time.monotonic()
        self._has_ended = False
        # Orders the reports of the handler and the beats.
        self._lock = threading.RLock()
        vars(request)["progress"] = self._report
        self._cancel = self._look_in(seconds)

    def _look_in(self, seconds: float) -> Callable[[], None]:
        # A beat may wait for the client, which the thread of the timer must not.
        return timer.after(seconds, partial(self._request.sink.spawn, self._look))

    def _report(self, done: float, total: Optional[float], message: Optional[str]) -> None:
        """Send a report of the handler. See `IncomingRequest.progress`."""
        with self._lock:
            self._send(done, total, message)
            self._reported_at = time.monotonic()
            if self._done is None or done > self._done:  # otherwise it was dropped
                self._done = self._sent = float(done)
                self._total = total
                self._beats = 0

    def _look(self) -> None:
        """Send a beat, unless the handler has sent a report."""
        with self._lock:
            left = self._reported_at + self._seconds - time.monotonic()
            if self._has_ended:
                return
            if left <= 0:
                self._beats += 1
                beat = (self._done or 0.0) + STEP * self._beats
                # The step is lost in a large number.
                self._sent = max(beat, math.nextafter(self._sent, math.inf))
                try:
                    self._send(self._sent, self._total, MESSAGE, is_beat=True)
                except (Cancelled, ConnectionLost):
                    return
                left = self._seconds
            self._cancel = self._look_in(left)

    def stop(self) -> None:
        """Send no more beats."""
        vars(self._request).pop("progress", None)
        self._has_ended = True
        self._cancel()
