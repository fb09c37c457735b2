"""What one HTTP server is told, and how it says no."""

from __future__ import annotations

from typing import Callable, Iterable, Optional

from ..errors import INVALID_REQUEST, RpcError
from ..protocol.messages import Failure, Id, Json, encode
from .headers import JSON_TYPE, Headers, HttpRequest, HttpResponse, ResponseWriter, read_body, why_no_json
from .http_server_stream import EventStore


class Refusal(Exception):
    """A request gets an error instead of being served.

    Args:
        status: Of the response.
        message: One sentence, which names the setting to change where there is one.
        headers: To send along.
        code: Of the error in the body; None sends the words alone: nothing of the protocol is there.
        id: Of the request; None where it is not known.
        data: Of the error.
    """

    def __init__(
        self,
        status: int,
        message: str,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        code: Optional[int] = INVALID_REQUEST,
        id: Optional[Id] = None,
        data: Json = None,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.failure = Failure(id, INVALID_REQUEST if code is None else code, message, data)
        self._plain = code is None

    @classmethod
    def of(cls, error: RpcError, status: int, id: Optional[Id]) -> Refusal:
        """The same for an error of the protocol."""
        return cls(status, error.message, code=error.code, id=id, data=error.data)

    def response(self) -> HttpResponse:
        """What is sent."""
        kind = "text/plain; charset=utf-8" if self._plain else JSON_TYPE
        body = f"{self.failure.message}\n".encode() if self._plain else encode(self.failure)
        return HttpResponse(self.status, [("Content-Type", kind), *self.headers], body)

    def send(self, writer: ResponseWriter) -> None:
        """Send it.

        Raises:
            ConnectionLost: The peer is gone.
        """
        response = self.response()
        writer.send(response.status, response.headers, response.body)


def check_type(headers: Headers) -> None:
    """Look at what the headers say about a body.

    Raises:
        Refusal: It is of another type, or is encoded.
    """
    reason = why_no_json(headers)
    if reason is not None:
        raise Refusal(415, reason)


def body_of(request: HttpRequest, limit: Optional[int]) -> bytes:
    """The body of a request.

    Raises:
        Refusal: It is longer than `limit` bytes.
    """
    body = read_body(request, limit)
    if body is None:
        raise Refusal(413, f"the body is longer than {limit} bytes, the max_body_bytes of this server")
    return body


class HttpSettings:
    """What one HTTP server is told beside what the server itself knows. None means no limit.

    Args:
        path: Where it is, exactly.
        allowed_hosts: As of `HostPolicy`.
        allowed_origins: As of `HostPolicy`.
        sessions: Whether clients that shake hands get a session.
        json_response: Whether every response is one JSON body.
        event_store: Keeps events for clients that lose a stream; None keeps none.
        authenticate: Told each request; it returns who sends it, or raises `Refusal`. None lets everybody in.
        max_body_bytes: The longest body of a request.
        max_sessions: How many there may be.
        session_ttl: Seconds after which a session ends that is not used.
        max_streams: Event streams that are open at once and belong to no call; with 0 there are none.
        keepalive: Seconds of silence before which a stream gets a comment; None sends none.
    """

    __slots__ = (
        "path", "allowed_hosts", "allowed_origins", "sessions", "json_response", "event_store", "authenticate",
        "max_body_bytes", "max_sessions", "session_ttl", "max_streams", "keepalive",
    )

    def __init__(
        self,
        path: str = "/mcp",
        *,
        allowed_hosts: Optional[Iterable[str]] = None,
        allowed_origins: Optional[Iterable[str]] = None,
        sessions: bool = True,
        json_response: bool = False,
        event_store: Optional[EventStore] = None,
        authenticate: Optional[Callable[[HttpRequest], Optional[str]]] = None,
        max_body_bytes: Optional[int] = 4 * 1024 * 1024,
        max_sessions: Optional[int] = 1000,
        session_ttl: Optional[float] = 1800,
        max_streams: Optional[int] = 256,
        keepalive: Optional[float] = 15,
    ) -> None:
        self.path, self.allowed_hosts, self.allowed_origins = path, allowed_hosts, allowed_origins
        self.sessions, self.json_response, self.event_store = sessions, json_response, event_store
        self.authenticate, self.max_body_bytes = authenticate, max_body_bytes
        self.max_sessions, self.session_ttl = max_sessions, session_ttl
        self.max_streams, self.keepalive = max_streams, keepalive
