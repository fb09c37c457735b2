"""The server's side of HTTP+SSE: an event stream and POSTs. Deprecated since 2025-03-26.

A stream and its POSTs form one connection, so each client gets a transport, which lasts as long as
the stream. https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
"""

from __future__ import annotations

import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Optional
from urllib.parse import parse_qs

from ..engine.pool import waiting
from ..engine.timer import MAX_WAIT_SECONDS, Deadline
from ..engine.transport import Frame, Transport
from .endpoint import HttpService
from .headers import Headers, HttpError, HttpRequest, ResponseWriter, accepted, require
from .options import HttpOptions
from .responses import SHORT_BYTES, STREAM_HEADERS
from .sse import KEEP_ALIVE, MEDIA_TYPE, format_event

if TYPE_CHECKING:
    from ..auth.bearer import Bearer

STREAM_PATH = "/sse"
MESSAGES_PATH = "/messages"
_VERBS = {STREAM_PATH: "GET", MESSAGES_PATH: "POST"}
_ID = "session_id"
# Maximum number of queued messages, and of their bytes together. A single message may be longer.
MAX_WAITING = 1000
MAX_WAITING_BYTES = 16 * 1024 * 1024


class SseTransport(Transport):
    """The connection to one client: it receives POSTs and sends events.

    Args:
        writer: The writer of the event stream, which has begun.
        headers: The headers of the request that opened the stream.
    """

    headers: Headers
    # Returns whether no request of the connection is running.
    is_idle: Callable[[], bool] = bool

    def __init__(self, writer: ResponseWriter, headers: Headers) -> None:
        self.name = "sse"
        self.headers = headers
        self._writer = writer
        self._frames: list[Frame] = []
        self._bytes = 0
        self._arrived = threading.Condition()
        self._write_lock = threading.Lock()
        self._ended = threading.Event()

    def put(self, body: bytes) -> bool:
        """Enqueue a posted message. Return False if the queue is full."""
        with self._arrived:
            if len(self._frames) >= MAX_WAITING or (
                self._frames and self._bytes + len(body) > MAX_WAITING_BYTES
            ):
                return False
            self._frames.append(body)
            self._bytes += len(body)
            self._arrived.notify()
        return True

    def receive(self) -> list[Frame]:
        with self._arrived:
            self._arrived.wait_for(lambda: self._frames or self._ended.is_set())
            frames = self._frames
            self._frames = []
            self._bytes = 0
        return [] if self._ended.is_set() else frames

    def send(self, data: bytes, seconds: float) -> int:
        """Send all of the data, or none of it if `seconds` is 0 and that would block."""
        data = bytes(data)
        events = b"".join(format_event(line, event="message") for line in data.splitlines())
        if not seconds and (len(events) > SHORT_BYTES or not self._writer.has_room()):
            return 0
        self._write(events)
        return len(data)

    def _write(self, data: bytes) -> None:
        with self._write_lock:
            if self._ended.is_set():
                raise self.loss("the event stream has ended")
            self._writer.write(data)

    def end_idle(self) -> bool:
        """End the stream if no request of its connection is running. Return whether none is
        running."""
        if not self.is_idle():
            return False
        self.close()
        return True

    def peer_may_read(self) -> bool:
        return not self._ended.is_set()

    def close(self) -> None:
        with self._arrived:
            self._ended.set()
            self._arrived.notify_all()

    def hold(self, keepalive: Optional[float], next_check: Callable[[], float]) -> None:
        """Keep the stream open until the connection ends or its token expires.

        Args:
            keepalive: Seconds between two comments; None means no comments.
            next_check: Verifies the token. Returns the seconds until the next call, or 0 if the
                token is no longer valid.
        """
        comment = Deadline(keepalive)
        check = Deadline(next_check())
        with waiting():
            while not self._ended.wait(min(comment.to_wait(), check.to_wait())):
                if check.expired:
                    seconds = next_check()
                    if not seconds:
                        return
                    check = Deadline(seconds)
                if comment.expired:
                    self._write(KEEP_ALIVE)
                    comment = Deadline(keepalive)


class SseServer(HttpService):
    """An endpoint for clients that support only HTTP+SSE. Thread-safe.

    Args:
        connect: A function that starts serving a transport, on threads of its own.
        registry: The features of the server.
        options: The HTTP options, shared with Streamable HTTP.
        max_streams: Maximum number of clients at the same time; None means no limit.
        bearer: Verifies tokens; if None, every client is accepted.
    """

    def __init__(
        self,
        connect: Callable[[Transport], Any],
        registry: Any,
        options: HttpOptions,
        max_streams: Optional[int],
        bearer: Optional[Bearer] = None,
    ) -> None:
        super().__init__(registry, options, bearer)
        self._connect = connect
        self._most = max_streams
        self.transports: dict[str, SseTransport] = {}
        self._lock = threading.Lock()

    def check_path(self, path: str) -> None:
        require(
            path in _VERBS,
            404,
            f"nothing is served at this path: the stream is at {STREAM_PATH}",
            None,
        )

    def check_head(self, request: HttpRequest, streams: bool) -> None:
        verb = _VERBS[request.path.partition("?")[0]]
        if request.method != verb:
            raise HttpError(405, f"use {verb} for this path", (("Allow", verb),), code=None)
        if verb == "POST":
            self._transport_of(request)
            self.check_body(request.headers)
        # A page of another site may load this URL, for example as an image, without an Origin and
        # with any Accept.
        else:
            require(
                MEDIA_TYPE in accepted(request.headers),
                406,
                f"the header Accept must name {MEDIA_TYPE}",
            )
            site = "Origin" in request.headers or request.headers.get("Sec-Fetch-Site")
            require(
                site not in ("cross-site", "same-site"),
                403,
                "pages from other sites may not open a stream",
            )

    def respond(self, request: HttpRequest, writer: ResponseWriter, streams: bool) -> None:
        if request.method == "GET":
            self._stream(request, writer)
            return
        transport = self._transport_of(request)
        if transport.headers.principal != request.headers.principal:
            raise _no_session()
        body = self.body_of(request)
        transport.headers.auth = request.headers.auth  # the newest token of this user
        if transport.put(body):
            writer.send(202, [], b"")
        else:
            raise HttpError(503, "too many messages of this session are queued: try again later")

    def _stream(self, request: HttpRequest, writer: ResponseWriter) -> None:
        shown = request.headers if self.bearer is None else request.headers.without_token()
        client = request.headers.counted
        assert client is not None
        writer.count_for(client)
        id = secrets.token_urlsafe(32)
        transport = SseTransport(writer, shown)
        place = client.reserve("streams", self._most, transport.end_idle)
        with self._lock:
            if self._most is not None and len(self.transports) >= self._most:
                place.leave()
                raise HttpError(
                    503, f"at most {self._most} streams may be open here (Limits.streams)"
                )
            self.transports[id] = transport
        has_begun = False
        try:
            connection = self._connect(transport)
            transport.is_idle = connection.is_idle
            limits = self._registry.config.limits
            in_session = client.in_session(id)
            connection.requests.reserve_place = partial(
                in_session.reserve, "requests", limits.requests
            )
            connection.pool = in_session.pool_of(connection.pool, limits.workers)
            # Last: the client may send requests from now on.
            writer.begin(200, list(STREAM_HEADERS))
            has_begun = True
            writer.write(format_event(f"{MESSAGES_PATH}?{_ID}={id}", event="endpoint"))
            writer.token.on_cancel(transport.close)
            transport.hold(self.options.keepalive, partial(self._next_check, request.headers))
        finally:
            self.transports.pop(id, None)
            place.leave()
            transport.close()
            # If nothing has begun, the caller responds with an error.
            if has_begun:
                writer.end()

    def _next_check(self, headers: Headers) -> float:
        if self.bearer is None:
            return MAX_WAIT_SECONDS
        return self.token_seconds(headers) if self.is_token_valid(headers) else 0.0

    def _transport_of(self, request: HttpRequest) -> SseTransport:
        id = parse_qs(request.path.partition("?")[2]).get(_ID, [""])[0]
        transport = self.transports.get(id)
        if transport is None:
            raise _no_session()
        return transport

    def close(self, grace: float = 0.0, reason: Optional[str] = None) -> None:
        """Reject new requests, and end all streams. Both arguments are ignored."""
        self.closing = True
        for transport in list(self.transports.values()):
            transport.close()


def _no_session() -> HttpError:
    return HttpError(
        404, f"the session is unknown or has ended: open a new one with GET {STREAM_PATH}"
    )
