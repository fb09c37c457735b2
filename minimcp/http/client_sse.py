"""The client's side of HTTP+SSE, and `open_over_http`, which detects the protocol of a URL.

HTTP+SSE is the predecessor of Streamable HTTP, and many servers still use it. The client first
opens one event stream, which carries all messages of the server. Its first event names the URL to
post messages to. The connection ends with the stream.
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

# Seconds within which the server must name the URL for messages.
ENDPOINT_SECONDS = 10.0

# Statuses for `initialize` from a server that may support only HTTP+SSE.
OLDER = frozenset({400, 404, 405})

MAX_KNOWN = 1000

# By URL, the kind of session for servers that need a handshake. Other servers are not stored, and
# are probed each time.
_known: dict[str, type[HttpClientSession]] = {}


class SseSession(HttpClientSession):
    """A connection over HTTP+SSE. Arguments and exceptions are those of `HttpClientSession`."""

    in_order = True
    _reopens = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # Set when the endpoint is known, or the stream has ended.
        self._named = threading.Event()
        threading.Thread(target=self._read, name=f"minimcp-{self.name}-reader", daemon=True).start()

    def ready(self, deadline: Deadline) -> None:
        """Do nothing: the stream is already open."""

    def _read(self) -> None:
        """Read the stream until it ends, and handle its messages."""
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
            # Messages and credentials must not be sent to another origin.
            where = one_line(event.data)
            raise ProtocolViolation(
                f"the endpoint for messages must have the same origin, not {where}", event.data
            )
        self._endpoint = url
        self._named.set()

    def _post(self, http: AbortableRequest, line: bytes, message: Any = None) -> FetchResponse:
        """Wait for the endpoint, then post a message."""
        limit = http.deadline.within(ENDPOINT_SECONDS)
        self._named.wait(limit.to_wait())
        if not self._endpoint:
            unnamed = (
                f"{self.name}: the server did not name an endpoint within {limit.seconds:.3g} s"
            )
            raise self.cause or ConnectionLost(unnamed)
        return super()._post(http, line)

    def _read_answer(self, response: FetchResponse, call: Any) -> None:
        """Ignore the body: the response to the call arrives on the stream."""
        response.start(ERROR_BYTES)


def open_over_http(options: ConnectOptions, begin: BeginSession) -> ClientSession:
    """Connect with the newest protocol that the server supports.

    These are tried in order: without a handshake, with a handshake, HTTP+SSE. A server that cannot
    be reached does not count as one that does not support a protocol.

    Args:
        options: The server and the revisions to try.
        begin: A function that negotiates over a new session, and closes it if that fails.

    Raises:
        ConnectionFailed: The server cannot be reached, rejects the client, or does not support MCP.
        AuthorizationError: The server requires credentials.
        McpError: See `negotiate`.
    """
    options = options._replace(probe_timeout=None)
    server = options.target.object
    common = (options.target.object, options.host, options.limits, options.trace)
    known = _known.get(server.url) if options.per_request and options.handshake else None
    if known is not None:
        try:
            return _open(options.without_probe(), begin, known(*common))
        except (ConnectionFailed, ProtocolViolation, UnsupportedRevision):
            _known.pop(server.url, None)  # another server may run there now
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
        older = "the same response" if f"HTTP {session.refused} " in str(error) else error
        raise ConnectionFailed(f"{first} (the older HTTP+SSE was tried too: {older})") from error


def _open(
    options: ConnectOptions, begin: BeginSession, session: HttpClientSession
) -> ClientSession:
    """Negotiate over a session, and store its kind for the next connection to the URL."""
    url = options.target.object.url
    try:
        found = begin(session, options)
    except ConnectionLost as lost:
        is_plain = url.startswith("http:") and "the connection broke" in str(lost)
        hint = ": does the server use https?" if is_plain else ""
        raise ConnectionFailed(f"{lost}{hint}") from lost
    # If the caller did not allow the probe, the next connection must not skip it either.
    if session.era.revision.handshake and (options.per_request or isinstance(session, SseSession)):
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[url] = type(session)
    return found
