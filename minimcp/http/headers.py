"""HTTP messages as the transports exchange them: headers, requests, responses, media types, hosts
and origins.

No socket is opened and no thread started in here.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

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
# have more of them.
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

# By the code of an error, the status of a response in stateless revisions. The status of any other
# error, and of all errors in a session, is 200.
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
    """The headers of one message, immutable: case-insensitive names, values without the blanks
    around them.

    As a mapping it has the first value of each name; `all` gives the others too.

    Args:
        given: A mapping or pairs; a name may come several times.

    ``lists`` has every value of each name in lower case. ``cache`` keeps what readers have found
    out, for when a client sends the same again: never anything about Content-Length. ``auth`` is
    what is known by the token in them (an `AccessToken`), once that was verified; ``principal`` is
    who sends them, one text for each user of each client. Both are None where nobody asks.
    ``client`` is the peer's address and port, and ``address`` the address alone; None if it is not
    known. ``counted`` is the client as `Shares` counts it: in its session as soon as that is found.
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
        """Those of names in lower case, with their stripped values."""
        headers = cls.__new__(cls)
        headers.lists = lists
        headers.cache = cache
        return headers

    def __getitem__(self, name: str) -> str:
        return self.lists[name.lower()][0]

    def get(self, name: str, default: Any = None) -> Any:
        """The first value; `default` where there is none."""
        values = self.lists.get(name.lower())
        return values[0] if values else default

    def without_token(self) -> Headers:
        """As handlers see them where tokens are verified: a token must go nowhere else."""
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
        """Every value of a name, in order."""
        return list(self.lists.get(name.lower(), ()))

    def __iter__(self) -> Iterator[str]:
        """The names, in lower case."""
        return iter(self.lists)

    def __len__(self) -> int:
        return len(self.lists)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self.lists)}>"  # no values: there may be secrets in them


class HttpRequest:
    """One parsed request.

    Args:
        method: In capitals, as it came.
        path: With the query, if there is one.
        headers: A mapping or pairs.
        body: Bytes, or an object with ``read(n)`` that gives the body's bytes and then nothing.
        client: The peer's address, for logs; None where it is unknown.
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
        status: The code.
        headers: Pairs.
        body: Bytes; or, when it was asked for, an iterator of bytes with ``close()``.
    """

    status: int
    headers: list[tuple[str, str]] = field(repr=False)
    body: Any = field(default=b"", repr=False)


class HttpError(Exception):
    """A request gets an error instead of being served.

    Args:
        status: Of the response.
        message: One sentence, which names the setting to change where there is one.
        headers: To send along. With status 503 ``Retry-After`` is added, if it is not among them.
        code: Of the error in the body; None sends the words alone: nothing of the protocol is
            there.
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
        if status == 503 and "Retry-After" not in dict(headers):
            headers = (*headers, ("Retry-After", str(RETRY_SECONDS)))
        self.status = status
        self.message = message
        self.headers = headers
        self.code = code
        self.id = id
        self.data = data

    def response(self) -> HttpResponse:
        """The response that says so."""
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
    """Raise `HttpError` unless something holds."""
    if not holds:
        raise HttpError(status, message, code=code)


def rejected(
    error: ShareExceeded, id: Optional[Id] = None, code: Optional[int] = INTERNAL_ERROR
) -> HttpError:
    """Return the response to a request whose client uses its whole share of a limit.

    Args:
        error: Names the limit.
        id: The id of the request; None if it is not known.
        code: The code of the error; None sends the text alone.
    """
    again = (("Retry-After", str(whole_seconds(error.retry_after))),)
    return HttpError(429, error.message, again, code=code, id=id)


class ResponseWriter:
    """Where the response to one request goes: `send` once, or `begin`, any number of `write` and
    `end`.

    Attributes:
        token: Cancelled when the peer has closed before the end.

    Thread safety: `write`, `has_room`, `end` and `on_gone` may be called by any thread.
    """

    # Whether the peer is known to have closed.
    gone = False

    # Headers that the response has beside those it is given.
    added: tuple[tuple[str, str], ...] = ()

    # The address of the peer of this connection; None if many clients share it, as under WSGI.
    address: Optional[str] = None

    # The client that the connection is counted for; None if connections are not counted.
    counted: Optional[CountedClient] = None

    def __init__(self) -> None:
        self.token = CancelToken()

    def on_gone(self, callback: Callable[[], object]) -> None:
        """Call a function once, on any thread, when the peer has closed before the end; now if it
        has."""
        self.token.on_cancel(callback)

    def on_left(self, callback: Callable[[], object]) -> None:
        """Call a function once, on any thread, when the peer cannot read any more.

        A peer that has only stopped sending can still read.
        """
        self.on_gone(callback)

    def count_for(self, client: CountedClient) -> None:
        """Count the connection among those of a client.

        Raises:
            ShareExceeded: It has too many.
        """

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a whole response, in one piece.

        Raises:
            ConnectionLost: The peer is gone.
        """

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Send the head of a response whose body comes in pieces.

        Raises:
            ConnectionLost: The peer is gone.
        """

    def write(self, data: bytes) -> None:
        """Send one piece of the body. Blocks: until the peer takes it.

        Raises:
            ConnectionLost: The peer is gone, or takes nothing any more.
        """

    def has_room(self) -> bool:
        """Whether a short piece can be written now without waiting, or would be refused at once.
        Never raises."""
        return True

    def end(self) -> None:
        """The body is complete. Never raises."""

    def look(self) -> None:
        """Find out now whether the peer has closed, if that can be seen. Never raises."""


# ------------------------------------------------------------ media types


def media_type(value: Optional[str]) -> tuple[str, dict[str, str]]:
    """The type of a Content-Type header, in lower case, and its parameters; an empty type where
    there is none."""
    name, _, rest = (value or "").partition(";")
    parameters = {}
    for part in rest.split(";"):
        key, found, text = part.partition("=")
        if found:
            parameters[key.strip().lower()] = text.strip().strip('"')
    return name.strip().lower(), parameters


def is_json(content_type: Optional[str]) -> bool:
    """Whether a body of this Content-Type is taken as JSON in UTF-8."""
    name, parameters = media_type(content_type)
    return name == JSON_TYPE and parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8")


_ZERO = re.compile(r"0(\.0*)?")


def accepted(headers: Headers) -> set[str]:
    """The types, and ranges of types, that the Accept headers take."""
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


# A host, in lower case and without brackets, and a port; None where it is not written.
Authority = tuple[str, Optional[int]]

_HOST = re.compile(
    r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))(?::([0-9]{1,5}))?"
)
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def parse_host(value: str) -> Optional[Authority]:
    """The value of a Host header; None when it is no host."""
    found = _HOST.fullmatch(value)
    if found is None or int(found[3] or 0) > 65535:
        return None
    return (found[1] or found[2]).lower(), int(found[3]) if found[3] else None


def parse_origin(value: str) -> Optional[WebUrl]:
    """An Origin header; None when it is none of http or https ("null" is none)."""
    # An origin has two slashes, and no path, query or fragment.
    if len(re.findall("[/?#]", value)) != 2:
        return None
    with suppress(ValueError):
        return parse_web_url(value)
    return None


class HostPolicy:
    """Decides by Host and Origin whether a request may be served: the guard against DNS rebinding
    and foreign pages.

    Args:
        allowed_hosts: Hosts that this server is known by, each with a port or without (then with
            any); ``"*"`` among them takes all. None takes the names that a machine has for itself.
        allowed_origins: Pages that may send requests, as ``https://example.com`` or
            ``https://example.com:8443``; ``"*"`` takes all. Those on an allowed host, or on the
            very host they ask, may in any case. None names no others.

    Raises:
        ValueError: One of them is no host or no origin.
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
                    f"allowed_hosts has names of hosts, with a port or without, not {name!r}"
                )
            self._hosts.add(found)
        for name in origins - {"*"}:
            page = parse_origin(name)
            if page is None:
                raise ValueError(
                    "allowed_origins are like https://example.com or http://localhost:3000, "
                    f"not {name!r}"
                )
            self._origins.add(page)

    def check(self, headers: Headers) -> None:
        """Return if a request with these headers may be served. Raises HttpError: it may not."""
        hosts = headers.all("Host")
        host = parse_host(hosts[0]) if hosts else None
        if not self._any_host:
            require(len(hosts) == 1, 400, "a request has one Host header")
            if not self._is_allowed(host):
                raise HttpError(
                    421, f"this server is not known as {hosts[0]!r:.80}: name it in allowed_hosts"
                )
        for value in () if self._any_origin else headers.all("Origin"):
            origin = parse_origin(value)
            same_host = self._any_host and origin and host and origin.host == host[0]
            if origin is None or not (
                same_host or origin in self._origins or self._is_allowed(origin[1:])
            ):
                reason = f"pages of {value!r:.80} may not send requests"
                raise HttpError(403, f"{reason}: name the origin in allowed_origins")

    def cors(self, headers: Headers) -> tuple[tuple[str, str], ...]:
        """What a response says so that a browser shows it to the page that asks: only to those in
        `allowed_origins`.

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
