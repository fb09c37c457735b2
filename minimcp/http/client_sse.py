"""HTTP+SSE, the client's side, and `open_over_http`, which finds out what a server with a URL
speaks.

HTTP+SSE came before Streamable HTTP, and many servers still speak it.

One stream, which the client asks for first, brings everything that the server says; its first event
names the URL that messages are posted to. The end of the stream is the end of the connection.
https://modelcontextprotocol.io/specification/2024-11-05/basic/transports
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

import threading
from typing import Any

from ..client.connect import BeginSession, ConnectOptions
from ..client.session import ClientSession
from ..engine.timer import Deadline
from ..errors import (
    ConnectionFailed,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    UnsupportedRevision,
)
from ..text import one_line
from .client import ERROR_BYTES, HttpClientSession
from .fetch import AbortableRequest, FetchResponse, same_origin
from .sse import SseEvent

# What the server gets to name the URL for messages.
ENDPOINT_SECONDS = 10.0

# Statuses with which a server refuses `initialize` that may know HTTP+SSE only.
OLDER = frozenset({400, 404, 405})

MOST_KNOWN = 1000

# By URL: servers that want the handshake, and over what. A server without a handshake is probed all
# the same.
_known: dict[str, type[HttpClientSession]] = {}


class SseSession(HttpClientSession):
    """A connection over HTTP+SSE; arguments and errors as `HttpClientSession`."""

    in_order = True
    _reopens = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # The endpoint is known, or will never be.
        self._named = threading.Event()
        threading.Thread(target=self._read, name=f"minimcp-{self.name}-reader", daemon=True).start()

    def ready(self, deadline: Deadline) -> None:
        """The stream is open already."""

    def _read(self) -> None:
        """Read the stream until it ends, and hand over what it brings."""
        try:
            self._follow(self._request_aside(), None, None)
        except Exception as error:
            if not isinstance(error, ConnectionLost):
                error = ConnectionLost(f"{self.name}: {error}")
            self._fail(error)
        finally:
            self._named.set()

    def _take_event(self, event: SseEvent, call: Any) -> None:
        if event.event != "endpoint" or self._endpoint:
            super()._take_event(event, call)
            return
        url = same_origin(self._url, event.data.strip())
        if url is None:
            # messages, and what proves who we are, go nowhere else
            where = one_line(event.data)
            raise ProtocolViolation(
                f"messages are posted to the same origin, not to {where}", event.data
            )
        self._endpoint = url
        self._named.set()

    def _post(self, http: AbortableRequest, line: bytes, message: Any = None) -> FetchResponse:
        """As `HttpClientSession`; waits for the endpoint first."""
        limit = http.deadline.within(ENDPOINT_SECONDS)
        self._named.wait(limit.to_wait())
        if not self._endpoint:
            unnamed = (
                f"{self.name}: no endpoint for messages was named within {limit.seconds:.3g} s"
            )
            raise self.cause or ConnectionLost(unnamed)
        return super()._post(http, line)

    def _read_answer(self, response: FetchResponse, call: Any) -> None:
        """The answer comes in the stream."""
        response.start(ERROR_BYTES)


def open_over_http(options: ConnectOptions, begin: BeginSession) -> ClientSession:
    """Connect in the newest way that the server knows: without a handshake, with one, over
    HTTP+SSE.

    The probe itself is judged as over any transport. An outage is never a verdict.

    Args:
        options: The server, and what this client may speak.
        begin: Negotiates over a new session; closes it if that fails.

    Raises:
        ConnectionFailed: It cannot be reached, or refuses; or there is nothing that speaks the
            protocol.
        AuthorizationError: It wants to know who asks.
        McpError: As `negotiate`.
    """
    options = options._replace(probe_timeout=None)
    server = options.target.object
    common = (options.target.object, options.host, options.limits, options.trace)
    known = _known.get(server.url) if options.per_request and options.handshake else None
    if known is not None:
        try:
            return _open(options.without_probe(), begin, known(*common))
        except (ConnectionFailed, ProtocolViolation, UnsupportedRevision):
            _known.pop(server.url, None)  # it may have become another server since
    session = HttpClientSession(*common)
    try:
        return _open(options, begin, session)
    except (ProtocolViolation, ConnectionFailed) as error:
        if session.refused is None:
            raise
        if session.refused not in OLDER:
            raise ConnectionFailed(str(error)) from error
        first = error
    try:
        return _open(options.without_probe(), begin, SseSession(*common))
    except McpError as error:
        older = "the same answer" if f"HTTP {session.refused} " in str(error) else error
        raise ConnectionFailed(f"{first} (the older HTTP+SSE was tried too: {older})") from error


def _open(
    options: ConnectOptions, begin: BeginSession, session: HttpClientSession
) -> ClientSession:
    """Begin this session, and remember its kind for the next connection to the URL."""
    url = options.target.object.url
    try:
        found = begin(session, options)
    except ConnectionLost as lost:
        is_plain = url.startswith("http:") and "the connection broke" in str(lost)
        hint = ": does the server speak https?" if is_plain else ""
        raise ConnectionFailed(f"{lost}{hint}") from lost
    # Otherwise the server is not asked next time, either.
    if session.era.revision.handshake and (options.per_request or isinstance(session, SseSession)):
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[url] = type(session)
    return found
