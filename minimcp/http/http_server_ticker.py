"""One clock for a server: comments on silent event streams, and the end of sessions that nobody uses."""

from __future__ import annotations

import logging
import threading
from typing import Callable, Optional

from ..engine.timer import timer
from .http_server_stream import Stream
from .sessions import Sessions

log = logging.getLogger("minimcp.http")

SWEEPS = 20
"""How often in the life of an idle session it is looked at."""


class Ticker:
    """Looks at all open streams, and at all sessions, now and then; only while there are any. Thread-safe.

    Args:
        sessions: Those of the server.
        keepalive: Seconds within which a silent stream gets a comment; None sends none.
        ttl: Seconds that an unused session lives; None means for ever.
    """

    def __init__(self, sessions: Sessions, *, keepalive: Optional[float], ttl: Optional[float]) -> None:
        self._sessions, self._keepalive = sessions, keepalive
        periods = [seconds for seconds in (keepalive and keepalive / 2, ttl and ttl / SWEEPS) if seconds]
        self._period = min(periods) if periods else None
        self._streams: dict[Stream, None] = {}
        self._state_lock = threading.Lock()
        self._forget: Optional[Callable[[], None]] = None
        self._closed = False

    def add(self, stream: Stream) -> None:
        """A stream is open."""
        self._streams[stream] = None
        self.wake()

    def discard(self, stream: Stream) -> None:
        """It is open no more."""
        self._streams.pop(stream, None)

    def wake(self) -> None:
        """There is something to look at."""
        if self._forget is None and self._period is not None:
            with self._state_lock:
                self._order()

    def _order(self) -> None:
        if self._forget is not None or self._closed or self._period is None:
            return
        try:
            self._forget = timer.after(self._period, self._tick)
        except RuntimeError as error:
            log.warning("silent streams get no comments: %s", error)

    def _tick(self) -> None:
        self._sessions.sweep()
        if self._keepalive is not None:
            for stream in list(self._streams):
                stream.keep_alive(self._keepalive / 2)
        with self._state_lock:
            self._forget = None
            if self._streams or len(self._sessions):
                self._order()

    def close(self) -> None:
        """Stop looking. Idempotent."""
        with self._state_lock:
            self._closed = True
            forget, self._forget = self._forget, None
        if forget is not None:
            forget()
