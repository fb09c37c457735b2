"""HTTP messages, without sockets and threads: headers, requests, responses and their errors.

Also media types, and the check of the ``Host`` and ``Origin`` headers (`HostPolicy`).
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, Optional, Union

from .. import errors
from ..engine.cancel import CancelToken
from ..engine.rates import whole_seconds
from ..engine.shares import RETRY_SECONDS, CountedClient, ShareExceeded
from ..errors import INTERNAL_ERROR, INVALID_REQUEST
from ..protocol.messages import Failure, Id, Json, encode
from ..protocol.urls import WebUrl, parse_web_url
from .sse import MEDIA_TYPE

HeaderPairs = Iterable[tuple[str, str]]

JSON_TYPE = "application/json"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
LAST_EVENT_HEADER = "Last-Event-ID"
# By method, the member of the params that `NAME_HEADER` repeats in a stateless request. Extensions
# may add methods.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# HTTP statuses by error code, in stateless revisions. Every other error, and every error in a
# session, has status 200.
STATUS = {
    errors.PARSE_ERROR: 400,
    errors.INVALID_REQUEST: 400,
    errors.INVALID_PARAMS: 400,
    errors.METHOD_NOT_FOUND: 404,
    errors.HEADER_MISMATCH: 400,
    errors.MISSING_CAPABILITY: 400,
    errors.UNSUPPORTED_VERSION: 400,
}


class Headers(Mapping[str, str]):
    """The headers of one message: a mapping of case-insensitive names to values. Immutable.

    The mapping has the first value of each name; `all` returns all values. Values have no
    whitespace around them.

    Args:
        given: A mapping or pairs. A name may occur several times.

    Attributes:
        lists: All values of each name in lower case.
        cache: Results of parsing these headers, reused when a client sends the same headers again.
            It must not depend on Content-Length.
        auth: The `AccessToken` of the verified token; None if tokens are not verified.
        principal: A str that identifies the user of the client; None if tokens are not verified.
        client: The peer's address and port; None if it is not known.
        counted: The client as `Shares` counts it; after the session is found, the client in that
            session.
    """

    auth: Any = None
    principal: Optional[str] = None
    client: Optional[str] = None
    counted: Optional[CountedClient] = None

    def __init__(self, given: Union[Mapping[str, str], HeaderPairs, None] = None) -> None:
        self.lists: dict[str, list[str]] = {}
        self.cache: dict[Any, Any] = {}
        pairs: Any = given.items() if isinstance(given, Mapping) else given or ()
        for name, value in pairs:
            self.lists.setdefault(name.lower(), []).append(value.strip(" \t"))

    @classmethod
    def of(cls, lists: dict[str, list[str]], cache: dict[Any, Any]) -> Headers:
        """Return headers with these lower-case names and stripped values, without checks."""
        headers = cls.__new__(cls)
        headers.lists = lists
        headers.cache = cache
        return headers

    def __getitem__(self, name: str) -> str:
        return self.lists[name.lower()][0]

    def get(self, name: str, default: Any = None) -> Any:
        """Return the first value of a name, or `default` without one."""
        values = self.lists.get(name.lower())
        return values[0] if values else default

    def without_token(self) -> Headers:
        """Return a copy for handlers, without the verified token, which they must not pass on."""
        shown = Headers.of(
            {name: each for name, each in self.lists.items() if name != "authorization"}, {}
        )
        shown.auth = self.auth
        shown.principal = self.principal
        shown.counted = self.counted
        shown.client = self.client
        return shown

    @property
    def address(self) -> Optional[str]:
        """The client's address without its port, or None if it is unknown."""
        return without_port(self.client)

    def all(self, name: str) -> list[str]:
        """Return all values of a name, in order."""
        return list(self.lists.get(name.lower(), ()))

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in lower case."""
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self.lists)}>"  # values may be secret


class HttpRequest:
    """One parsed request.

    Args:
        method: The method, in upper case.
        path: The path, with the query.
        headers: A mapping or pairs.
        body: Bytes, or an object whose ``read(n)`` returns bytes of the body, empty at its end.
        client: The peer's address and port; None if it is not known.
    """

    def __init__(
        self,
        method: str,
        path: str,
        headers: Union[Mapping[str, str], HeaderPairs, Headers],
        body: Any = b"",
        client: Optional[str] = None,
    ) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.client = client
        self.headers = headers if isinstance(headers, Headers) else Headers(headers)
        self.headers.client = client


def without_port(client: Optional[str]) -> Optional[str]:
    """Return the address in ``"192.0.2.1:8000"`` or ``"[2001:db8::1]:8000"``; other text as is."""
    found = re.fullmatch(r"\[(.*)\](?::\d+)?|([^:]*):\d+", client or "")
    if found is None:
        return client
    return found[1] or found[2]


@dataclass(eq=False)
class HttpResponse:
    """One response.

    Args:
        status: The status.
        headers: Names and values.
        body: Bytes; or, if the caller allowed it, an iterator of bytes with ``close()``.
    """

    status: int
    headers: list[tuple[str, str]] = field(repr=False)
    body: Any = field(default=b"", repr=False)


class HttpError(Exception):
    """A request is rejected with an error response.

    Args:
        status: The status of the response.
        message: One sentence. It names the setting to change, if there is one.
        headers: Additional headers. ``Retry-After`` is added to status 503 if it is missing.
        code: The code of the JSON-RPC error in the body; if None, the message is sent as plain
            text.
        id: The id of the request; None if it is not known.
        data: The data of the error.
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
        if status == 503 and "Retry-After" not in dict(headers):
            headers = (*headers, ("Retry-After", str(RETRY_SECONDS)))
        self.status = status
        self.message = message
        self.headers = headers
        self.code = code
        self.id = id
        self.data = data

    def response(self) -> HttpResponse:
        """Return the response to send."""
        if self.code is None:
            kind = "text/plain; charset=utf-8"
            body = f"{self.message}\n".encode()
        else:
            kind = JSON_TYPE
            body = encode(Failure(self.id, self.code, self.message, self.data))
        return HttpResponse(self.status, [("Content-Type", kind), *self.headers], body)


def require(
    holds: object, status: int, message: str, code: Optional[int] = INVALID_REQUEST
) -> None:
    """Raise `HttpError` unless a condition holds."""
    if not holds:
        raise HttpError(status, message, code=code)


def rejected(
    error: ShareExceeded, id: Optional[Id] = None, code: Optional[int] = INTERNAL_ERROR
) -> HttpError:
    """Return the error for a request whose client uses its whole share of a limit.

    Args:
        error: The exception that names the limit.
        id: The id of the request; None if it is not known.
        code: The code of the error; if None, the message is sent as plain text.
    """
    again = (("Retry-After", str(whole_seconds(error.retry_after))),)
    return HttpError(429, error.message, again, code=code, id=id)


class ResponseWriter:
    """Sends the response to one request.

    Call `send` once, or call `begin`, then `write` any number of times, then `end`.

    Attributes:
        token: A `CancelToken` that is cancelled, on any thread, when the peer closes the connection
            before the response ends.
        left: A `CancelToken` that is cancelled when the peer can no longer read the response. A
            peer that has only stopped sending can still read it.

    Thread safety: Any thread may call `write`, `has_room` and `end`.
    """

    # Whether the peer is known to have closed the connection.
    gone = False

    # Headers that every response gets in addition to its own.
    added: tuple[tuple[str, str], ...] = ()

    # The address of the peer of this connection; None if many clients share it, as under WSGI.
    address: Optional[str] = None

    # The client that the connection is counted for; None if connections are not counted.
    counted: Optional[CountedClient] = None

    def __init__(self) -> None:
        self.token = CancelToken()
        self.left = self.token

    def count_for(self, client: CountedClient) -> None:
        """Count the connection for a client.

        Raises:
            ShareExceeded: The client has too many connections.
        """

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a complete response.

        Raises:
            ConnectionLost: The peer is gone.
        """

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Send the head of a response whose body is sent in pieces.

        Raises:
            ConnectionLost: The peer is gone.
        """

    def write(self, data: bytes) -> None:
        """Send one piece of the body. Blocks until the peer has read it.

        Raises:
            ConnectionLost: The peer is gone or has stopped reading.
        """

    def has_room(self) -> bool:
        """Return whether writing a short piece would not block. Never raises."""
        return True

    def end(self) -> None:
        """End the body. Never raises."""

    def look(self) -> None:
        """Check now whether the peer has closed, if the host can detect that. Never raises."""


# ------------------------------------------------------------ media types


def media_type(value: Optional[str]) -> tuple[str, dict[str, str]]:
    """Return the type in a Content-Type header, in lower case, and its parameters.

    The type is empty without a header.
    """
    name, _, rest = (value or "").partition(";")
    parameters = {}
    for part in rest.split(";"):
        key, found, text = part.partition("=")
        if found:
            parameters[key.strip().lower()] = text.strip().strip('"')
    return name.strip().lower(), parameters


def is_json(content_type: Optional[str]) -> bool:
    """Return whether a Content-Type means JSON in UTF-8."""
    name, parameters = media_type(content_type)
    return name == JSON_TYPE and parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8")


_ZERO = re.compile(r"0(\.0*)?")


def accepted(headers: Headers) -> set[str]:
    """Return the types and the ranges of types that the Accept headers allow."""
    parts = [media_type(part) for value in headers.all("Accept") for part in value.split(",")]
    return {name for name, parameters in parts if not _ZERO.fullmatch(parameters.get("q", "1"))}


def accepts(headers: Headers, kind: str) -> bool:
    """Return whether the Accept headers allow a type, by name or by a range that contains it.

    Without an Accept header, or with an empty one, everything is allowed. A type with ``q=0`` is
    not, even if a range contains it.
    """
    values = [value for value in headers.all("Accept") if value]
    if not values:
        return True
    for name in (kind, kind.partition("/")[0] + "/*", "*/*"):
        for value in values:
            for part in value.split(","):
                found, parameters = media_type(part)
                if found == name:
                    return not _ZERO.fullmatch(parameters.get("q", "1"))
    return False


def accepted_forms(headers: Headers) -> tuple[bool, bool]:
    """Return whether the response to a POST may be JSON, and whether it may be an event stream."""
    return accepts(headers, JSON_TYPE), accepts(headers, MEDIA_TYPE)


# ------------------------------------------------------------ hosts and origins


# A host, in lower case and without brackets, and a port (None without one).
Authority = tuple[str, Optional[int]]

_HOST = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))(?::([0-9]{1,5}))?"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def parse_host(value: str) -> Optional[Authority]:
    """Parse a Host header. Return None if it is malformed."""
    found = _HOST.fullmatch(value)
    if found is None or int(found[3] or 0) > 65535:
        return None
    return (found[1] or found[2]).lower(), int(found[3]) if found[3] else None


def parse_origin(value: str) -> Optional[WebUrl]:
    """Parse an Origin header. Return None if it is not an origin of http or https, like "null"."""
    # An origin has two slashes, and no path, query or fragment.
    if len(re.findall("[/?#]", value)) != 2:
        return None
    with suppress(ValueError):
        return parse_web_url(value)
    return None


class HostPolicy:
    """Checks the Host and Origin headers, against DNS rebinding and requests of foreign web pages.

    Args:
        allowed_hosts: Hosts that are accepted, with or without a port. Without one, every port is
            accepted. ``"*"`` accepts all hosts. None means the names of this machine for itself.
        allowed_origins: Origins of pages that may send requests, such as ``https://example.com`` or
            ``https://example.com:8443``; ``"*"`` allows all. Pages on an allowed host are always
            allowed. If all hosts are allowed, so are pages on the host of the request.

    Raises:
        ValueError: An entry is not a host or not an origin.
    """

    def __init__(
        self,
        allowed_hosts: Optional[Iterable[str]] = None,
        allowed_origins: Optional[Iterable[str]] = None,
    ) -> None:
        hosts = set(LOOPBACK if allowed_hosts is None else allowed_hosts)
        origins = set(allowed_origins or ())
        self._any_host = "*" in hosts
        self._any_origin = "*" in origins
        self._hosts = set()
        self._origins = set()
        for name in hosts - {"*"}:
            found = parse_host(name)
            if found is None and name.count(":") > 1:
                found = parse_host(f"[{name}]")
            if found is None:
                raise ValueError(
                    f"allowed_hosts must contain host names, with or without a port, not {name!r}"
                )
            self._hosts.add(found)
        for name in origins - {"*"}:
            page = parse_origin(name)
            if page is None:
                raise ValueError(
                    "allowed_origins must contain origins like https://example.com or "
                    f"http://localhost:3000, not {name!r}"
                )
            self._origins.add(page)

    def check_host(self, headers: Headers) -> Optional[Authority]:
        """Check the host of a request, and return it. Raises HttpError if it may not be served."""
        hosts = headers.all("Host")
        host = parse_host(hosts[0]) if hosts else None
        if not self._any_host:
            require(len(hosts) == 1, 400, "a request must have one Host header")
            if not self._is_allowed(host):
                raise HttpError(
                    421, f"{hosts[0]!r:.80} is not a host of this server: name it in allowed_hosts"
                )
        return host

    def check(self, headers: Headers) -> None:
        """Check host and origin of a request. Raises HttpError if it may not be served."""
        host = self.check_host(headers)
        for value in () if self._any_origin else headers.all("Origin"):
            origin = parse_origin(value)
            same_host = self._any_host and origin and host and origin.host == host[0]
            if origin is None or not (
                same_host or origin in self._origins or self._is_allowed(origin[1:])
            ):
                reason = f"pages from {value!r:.80} may not send requests"
                raise HttpError(403, f"{reason}: name the origin in allowed_origins")

    def cors(self, headers: Headers) -> tuple[tuple[str, str], ...]:
        """Return the headers that let a page in `allowed_origins` read the response.

        https://fetch.spec.whatwg.org/#http-cors-protocol
        """
        found = headers.all("Origin")
        if len(found) != 1 or not (self._any_origin or parse_origin(found[0]) in self._origins):
            return ()
        exposed = f"{SESSION_HEADER}, {VERSION_HEADER}, WWW-Authenticate"
        shown = "*" if self._any_origin else found[0]
        return (
            ("Access-Control-Allow-Origin", shown),
            ("Access-Control-Expose-Headers", exposed),
            ("Vary", "Origin"),
        )

    def _is_allowed(self, host: Optional[Authority]) -> bool:
        return host is not None and (host in self._hosts or (host[0], None) in self._hosts)
