"""`PushStream`: one `events/stream` request, which stays open and is sent events.

At most one step of notifications waits for the client. The next step is read from the log when the
client has taken it, so a slow client costs no memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from ..engine.incoming import DEFERRED, IncomingRequest
from ..errors import InvalidRequest
from ..features.subscriptions import MAX_ID_CHARACTERS
from ..log import logger
from ..protocol.lifecycle import SUBSCRIPTION_KEY
from ..protocol.messages import Json, Notification, Response, encode
from ..server.context import Context
from ..text import describe
from .event_log import EventKind
from .event_types import ACTIVE, ERROR, EVENT, HEARTBEAT, TERMINATED, EventError

if TYPE_CHECKING:
    from .events import Events

log = logger("minimcp.events")


class PushStream:
    """One open stream. Thread-safe.

    Args:
        events: The extension.
        incoming: The request.
        kind: The type.
        arguments: The arguments as they were sent.
        values: The arguments for the author's function.
    """

    def __init__(
        self,
        events: Events,
        incoming: IncomingRequest,
        kind: EventKind,
        arguments: Mapping[str, Json],
        values: Mapping[str, Any],
    ) -> None:
        self._events = events
        self.incoming = incoming
        self.kind = kind
        self._arguments = arguments
        self._values = values
        self._caller = events.caller(incoming)
        self._context = Context(incoming)
        self._meta: dict[str, Json] = {"_meta": {SUBSCRIPTION_KEY: incoming.request.id}}
        self._position: Any = None
        self._sent_at = time.monotonic()
        self._checked_at = time.monotonic()
        self._read_at = 0.0
        self._lines: list[bytes] = []
        # Held while a step is read. `_lines` belongs to the thread that takes it.
        self._lock = threading.Lock()
        self._has_more = False
        self._is_counted = False

    @classmethod
    def open(cls, events: Events, incoming: IncomingRequest) -> Any:
        """Open the stream of a request, and send its confirmation.

        Raises:
            InvalidParams, EventError: The subscription is invalid, or there are too many.
        """
        if len(str(incoming.request.id)) > MAX_ID_CHARACTERS:
            raise InvalidRequest(f"the id must have at most {MAX_ID_CHARACTERS} characters")
        kind, arguments, values = events.subscription(incoming, "push")
        stream = cls(events, incoming, kind, arguments, values)
        stream._position, gap = events.begin(kind, values, incoming.request.params)
        with events._lock:
            others = [each for each in events.open_streams if each.client == stream.client]
            for name, count, most in (
                ("streams", len(events.open_streams), events.limits["streams"]),
                ("subscriptions", len(others), events.limits["per_client"]),
            ):
                if count >= most:
                    message = f"no more than {most} streams may be open"
                    raise events.error("ResourceExhausted", message, limit=name, max=most)
            events.open_streams.append(stream)
        incoming.token.on_cancel(stream._forget)
        incoming.request.params.clear()
        incoming.progress_token = None
        events.count(kind.name, arguments, 1)
        stream._is_counted = True
        if incoming.token.cancelled:
            stream._forget()
        stream._post(stream._line(ACTIVE, cursor=stream._cursor(), truncated=gap))
        events.start()
        events.nudge()
        return DEFERRED

    @property
    def client(self) -> object:
        """The client that the stream counts for: a principal, or a connection."""
        return self._caller.principal or self.incoming.sink

    def _cursor(self) -> Optional[str]:
        return self.kind.cursor(self._position)

    def _line(self, method: str, **params: Json) -> bytes:
        return encode(Notification(method, {**params, **self._meta}))

    def _post(self, *lines: bytes) -> None:
        """Queue lines, which the thread that writes to the client takes together."""
        is_first = not self._lines
        self._lines += lines
        if is_first:
            self.incoming.sink.post(self._take)

    def _take(self) -> Optional[bytes]:
        lines = self._lines
        self._lines = []
        self._sent_at = time.monotonic()
        if self.is_due():
            self._events.nudge()
        return b"".join(lines)

    def is_due(self) -> bool:
        """Return whether `advance` may have something to do."""
        now = time.monotonic()
        is_read = getattr(self.kind, "log", None) and self._position == self.kind.log.position
        return not self._lines and (
            self._has_more
            or not is_read
            or now - self._sent_at >= self._events.limits["heartbeat"]
            or now - self._checked_at >= self._events.limits["recheck"]
        )

    def advance(self) -> None:
        """Send the next events, or a heartbeat, unless the client has not taken the last ones."""
        if self._lines or not self._lock.acquire(blocking=False):
            return
        try:
            self._recheck()
            lines = self._next_lines()
            if not lines and time.monotonic() - self._sent_at >= self._events.limits["heartbeat"]:
                lines = [self._line(HEARTBEAT, cursor=self._cursor())]
            if lines:
                self._post(*lines)
        except EventError as error:
            self.end(error)
        except Exception as error:
            log.error("%s failed: %s", self.kind.owner, describe(error), exc_info=error)
            self._read_at = time.monotonic() + self._events.limits["heartbeat"]
            self.report(self._events.error("ResourceExhausted", "the events cannot be read now"))
        finally:
            self._lock.release()

    def _recheck(self) -> None:
        if time.monotonic() - self._checked_at >= self._events.limits["recheck"]:
            self._checked_at = time.monotonic()
            self._events.check_allowed(self._context, self.kind.name, self._arguments)

    def _next_lines(self) -> list[bytes]:
        if time.monotonic() < self._read_at:
            return []
        found = self.kind.read(self._position, self._caller, self._values)
        every = getattr(self.kind, "every", 0.0)
        if every and not found.more:
            self._read_at = time.monotonic() + every
        self._has_more = found.more
        lines = []
        if found.gap:
            self._position = max(self._position, self.kind.log.floor) if not every else None
            lines.append(self._line(ACTIVE, cursor=self._cursor(), truncated=True))
        lines += [
            self._line(EVENT, **event, cursor=self.kind.cursor(position))
            for position, event in found.events
        ]
        self._position = found.position
        if found.error:
            lines.append(self._error_line(self._events.error("ResourceExhausted", found.error)))
        return lines

    def _error_line(self, error: EventError, method: str = ERROR) -> bytes:
        return self._line(method, error=error.to_wire())

    def report(self, error: EventError) -> None:
        """Send an error, after which the stream continues. At most one waits for the client."""
        if not self._lines:
            self._post(self._error_line(error))

    def end(self, error: Optional[EventError]) -> None:
        """End the stream.

        Args:
            error: Why the subscription has ended; None if only the stream ends, and the client may
                open another one.
        """
        if not self._forget():
            return
        incoming = self.incoming
        if error is not None:
            incoming.sink.post(self._error_line(error, TERMINATED))
        result = self._events.finalized(dict(self._meta), incoming)
        incoming.sink.respond(incoming, encode(Response(incoming.request.id, result)), False)

    def _forget(self) -> bool:
        """Stop sending events. Return False if that was done before."""
        with self._events._lock:
            if self not in self._events.open_streams:
                return False
            self._events.open_streams.remove(self)
        if self._is_counted:
            self._events.count(self.kind.name, self._arguments, -1)
        return True
