"""GET: the stream of a session for what belongs to no request, and coming back to a stream that was lost.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import re
import threading
from functools import partial
from queue import SimpleQueue
from typing import Callable, Iterable, Optional

from ..errors import ConnectionLost
from ..protocol.sse import MEDIA_TYPE
from .headers import LAST_EVENT_HEADER, Headers, ResponseWriter, accepts
from .http_server_reply import Mail, serve_mail
from .http_server_settings import Refusal
from .http_server_stream import EventStore, Stream
from .http_server_ticker import Ticker
from .sessions import Session

_EVENT_ID = re.compile(r"([0-9a-f]{1,32}\.[0-9]{1,15})/([0-9]{1,15})")


class Listening:
    """Serves GET, on the thread that brings it. Thread-safe.

    Args:
        new_stream: Makes a stream of a session.
        store: What was sent on streams before; None keeps nothing.
        ticker: Sends comments on open streams.
        max_streams: Streams that may be open; None means no limit.
    """

    def __init__(
        self,
        new_stream: Callable[[ResponseWriter, Session], Stream],
        store: Optional[EventStore],
        ticker: Ticker,
        *,
        max_streams: Optional[int],
    ) -> None:
        self._new_stream, self._store, self._ticker, self._most = new_stream, store, ticker, max_streams
        self._open: dict[object, None] = {}
        self._state_lock = threading.Lock()

    def reserve(self, holder: object) -> str:
        """Something is about to hold a stream open that belongs to no call; returns why it may not, else empty."""
        with self._state_lock:
            if self._most is None or len(self._open) < self._most:
                self._open[holder] = None
                return ""
        return f"no more than {self._most} streams may be open here (max_streams)"

    def release(self, holder: object) -> None:
        """It does so no more. Idempotent."""
        self._open.pop(holder, None)

    def among(self, holders: Iterable[object]) -> bool:
        """Whether one of these holds a stream open."""
        return any(holder in self._open for holder in list(holders))

    def serve(self, session: Session, headers: Headers, writer: ResponseWriter) -> None:
        """Serve a GET; returns when its response is complete.

        Raises:
            Refusal: It is not served.
        """
        if not accepts(headers, MEDIA_TYPE):
            raise Refusal(406, f"the header Accept names {MEDIA_TYPE}")
        last = headers.get(LAST_EVENT_HEADER)
        if last is not None:
            self._resume(session, last, writer)
            return
        full = self.reserve(writer)
        if full:
            raise Refusal(503, full)
        try:
            self._listen(session, self._begun(session, writer), writer)
        finally:
            self.release(writer)

    def _begun(self, session: Session, writer: ResponseWriter) -> Stream:
        with self._state_lock:
            before = session.unsolicited
            if before is not None and before.connected:
                raise Refusal(409, "this session has such a stream already")
            stream = session.unsolicited = self._new_stream(writer, session)
        if before is not None:
            before.abandon()
        try:
            stream.begin()
        except ConnectionLost:
            stream.leave(writer)  # or the next GET would find it connected, for ever
            raise
        return stream

    def _listen(self, session: Session, stream: Stream, writer: ResponseWriter) -> None:
        """Send what belongs to no request, until the session or the connection ends."""
        self._follow(stream, writer, session.take_mail())

    def _follow(self, stream: Stream, writer: ResponseWriter, mail: Mail) -> None:
        waker = partial(mail.put, None)
        stream.watch(waker)
        writer.on_gone(partial(stream.leave, writer))
        self._ticker.add(stream)
        try:
            serve_mail(stream, mail, stream.finish, until=lambda: not stream.is_at(writer))
        finally:
            stream.unwatch(waker)
            if stream.done or not stream.connected:
                self._ticker.discard(stream)

    def _resume(self, session: Session, last: str, writer: ResponseWriter) -> None:
        found = _EVENT_ID.fullmatch(last)
        refusal = Refusal(400, "no event of this session has this id, or it is not kept any more (event_store)")
        if self._store is None or found is None or not found[1].startswith(session.key + "."):
            raise refusal
        stream = session.stream(found[1]) or Stream.ended(self._store, found[1])
        if not stream.resume(writer, int(found[2])):
            raise refusal
        if stream is session.unsolicited:
            self._listen(session, stream, writer)
        else:
            self._follow(stream, writer, SimpleQueue())
