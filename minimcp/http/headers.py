"""HTTP messages as the transports exchange them: headers, requests, responses, media types, hosts and origins.

No socket is opened and no thread started in here.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

HeaderPairs = Iterable[tuple[str, str]]

JSON_TYPE = "application/json"
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
METHOD_HEADER = "Mcp-Method"
NAME_HEADER = "Mcp-Name"
PARAM_PREFIX = "Mcp-Param-"
LAST_EVENT_HEADER = "Last-Event-ID"

_CACHED = 64  # verdicts on headers: clients send the same ones with every request
_PIECE_BYTES = 64 * 1024


class Headers(Mapping[str, str]):
    """The headers of one message, immutable: case-insensitive names, values without the blanks around them.

    As a mapping it has the first value of each name; `all` gives the others too.

    Args:
        given: A mapping or pairs; a name may come several times.

    ``cache`` keeps what their readers have found out, for when a client sends the same again: never anything about
    Content-Length.
    """

    def __init__(self, given: Union[Mapping[str, str], HeaderPairs, None] = None) -> None:
        self._values: dict[str, list[str]] = {}
        self.cache: dict[Any, Any] = {}
        pairs: Any = given.items() if isinstance(given, Mapping) else given or ()
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value.strip(" \t"))

    @classmethod
    def of(cls, values: dict[str, list[str]], cache: dict[Any, Any]) -> Headers:
        """Those of names in lower case, with their stripped values."""
        headers = cls.__new__(cls)
        headers._values, headers.cache = values, cache
        return headers

    def with_length(self, digits: str) -> Headers:
        """The same with another Content-Length, and with the same cache."""
        return self.of({**self._values, "content-length": [digits]}, self.cache)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def get(self, name: str, default: Any = None) -> Any:
        """The first value; `default` where there is none."""
        values = self._values.get(name.lower())
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        """Every value of a name, in order."""
        return list(self._values.get(name.lower(), ()))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        """The names, in lower case."""
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self._values)}>"  # no values: there may be secrets in them


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
        self.method, self.path, self.body, self.client = method, path, body, client
        self.headers = headers if isinstance(headers, Headers) else Headers(headers)

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {self.path!r:.80}>"


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


class ResponseWriter:
    """Where the response to one request goes: `send` once, or `begin`, any number of `write` and `end`.

    Thread safety: `write`, `has_room`, `end` and `on_gone` may be called by any thread.
    """

    gone: bool
    """Whether the peer is known to have closed."""

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Send a whole response, in one piece.

        Raises:
            ConnectionLost: The peer is gone.
        """
        raise NotImplementedError

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Send the head of a response whose body comes in pieces.

        Raises:
            ConnectionLost: The peer is gone.
        """
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send one piece of the body. Blocks: until the peer takes it.

        Raises:
            ConnectionLost: The peer is gone, or takes nothing any more.
        """
        raise NotImplementedError

    def has_room(self) -> bool:
        """Whether a short piece can be written now without waiting, or would be refused at once. Never raises."""
        return True

    def end(self) -> None:
        """The body is complete. Never raises."""
        raise NotImplementedError

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Have a function called once, on any thread, when the peer has closed before the end; now if it has."""
        raise NotImplementedError


# ------------------------------------------------------------ bodies and media types


def read_body(request: HttpRequest, limit: Optional[int]) -> Optional[bytes]:
    """The body of a request; None when it is longer than `limit` bytes, of which one more at most is read."""
    body, length = request.body, request.headers.get("Content-Length", "")
    announced = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
    if limit is not None and announced > limit:
        return None
    if not isinstance(body, bytes):
        body = b"".join(_pieces(body, None if limit is None else limit + 1))
    return None if limit is not None and len(body) > limit else body


def _pieces(file: Any, most: Optional[int]) -> Iterator[bytes]:
    while most is None or most > 0:
        piece = file.read(_PIECE_BYTES if most is None else min(_PIECE_BYTES, most))
        if not piece:
            return
        most = None if most is None else most - len(piece)
        yield piece


def media_type(value: Optional[str]) -> tuple[str, dict[str, str]]:
    """The type of a Content-Type header, in lower case, and its parameters; an empty type where there is none."""
    name, _, rest = (value or "").partition(";")
    parameters = {}
    for part in rest.split(";"):
        key, found, text = part.partition("=")
        if found:
            parameters[key.strip().lower()] = text.strip().strip('"')
    return name.strip().lower(), parameters


def why_no_json(headers: Headers) -> Optional[str]:
    """Why a body with these headers is not taken as JSON in UTF-8, in words for the peer; None when it is."""
    if not _is_json(headers.get("Content-Type")):
        return f"the body is {JSON_TYPE}, and the header Content-Type says so"
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        return "the body is not compressed"
    return None


@lru_cache(_CACHED)
def _is_json(content_type: Optional[str]) -> bool:
    name, parameters = media_type(content_type)
    return name == JSON_TYPE and parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8")


def accepts(headers: Headers, *wanted: str) -> bool:
    """Whether the Accept headers take all of these types, by name or by a range that it lies in."""
    return _accepts(tuple(headers.all("Accept")), wanted)


@lru_cache(_CACHED)
def _accepts(accept: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    parts = [media_type(part) for value in accept for part in value.split(",")]
    taken = {name for name, parameters in parts if not re.fullmatch(r"0(\.0*)?", parameters.get("q", "1"))}
    return all(taken & {kind, kind.partition("/")[0] + "/*", "*/*"} for kind in wanted)


# ------------------------------------------------------------ hosts and origins


class Authority(NamedTuple):
    """A host, in lower case and without brackets, and a port; None where it is not written."""

    host: str
    port: Optional[int]


class Origin(NamedTuple):
    """Where a page comes from, its port always written."""

    scheme: str
    authority: Authority


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def parse_host(value: str) -> Optional[Authority]:
    """The value of a Host header; None when it is no host."""
    found = _HOST.fullmatch(value)
    if found is None or int(found[3] or 0) > 65535:
        return None
    return Authority((found[1] or found[2]).lower(), int(found[3]) if found[3] else None)


def parse_origin(value: str) -> Optional[Origin]:
    """The value of an Origin header; None when it is none of http or https ("null" is none)."""
    found = _ORIGIN.fullmatch(value)
    authority = parse_host(found[2]) if found else None
    if found is None or authority is None:
        return None
    port = authority.port if authority.port is not None else {"http": 80, "https": 443}[found[1]]
    return Origin(found[1], Authority(authority.host, port))


class HostPolicy:
    """Decides by Host and Origin whether a request may be served: the guard against DNS rebinding and foreign pages.

    Args:
        allowed_hosts: Hosts that this server is known by, each with a port or without (then with any); ``"*"`` among
            them takes all. None takes the names that a machine has for itself.
        allowed_origins: Pages that may send requests, as ``https://example.com`` or ``https://example.com:8443``;
            ``"*"`` takes all. Those on an allowed host, or on the very host they ask, may in any case. None names no
            others.

    Raises:
        TypeError: This is one name, not a sequence of them.
        ValueError: One of them is no host or no origin.
    """

    def __init__(
        self, allowed_hosts: Optional[Iterable[str]] = None, allowed_origins: Optional[Iterable[str]] = None
    ) -> None:
        hosts = _names("allowed_hosts", LOOPBACK if allowed_hosts is None else allowed_hosts)
        origins = _names("allowed_origins", () if allowed_origins is None else allowed_origins)
        self._any_host, self._any_origin = "*" in hosts, "*" in origins
        self._hosts = {_known_host(name) for name in hosts if name != "*"}
        self._origins = {_known_origin(name) for name in origins if name != "*"}
        self._judge = lru_cache(_CACHED)(self._refusal)

    def refusal(self, headers: Headers) -> Optional[tuple[int, str]]:
        """The status and the words to refuse a request with; None when it may be served."""
        return self._judge(tuple(headers.all("Host")), tuple(headers.all("Origin")))

    def _refusal(self, hosts: tuple[str, ...], origins: tuple[str, ...]) -> Optional[tuple[int, str]]:
        if not self._any_host:
            if len(hosts) != 1:
                return 400, "a request has one Host header"
            if not self._is_allowed(parse_host(hosts[0])):
                return 421, f"this server is not known as {hosts[0]!r:.80}: name it in allowed_hosts"
        host = parse_host(hosts[0]) if hosts else None
        for origin in origins:
            if not (self._any_origin or self._may_send(parse_origin(origin), host)):
                return 403, f"pages of {origin!r:.80} may not send requests: name the origin in allowed_origins"
        return None

    def _is_allowed(self, host: Optional[Authority]) -> bool:
        return host is not None and (host in self._hosts or Authority(host.host, None) in self._hosts)

    def _may_send(self, origin: Optional[Origin], host: Optional[Authority]) -> bool:
        if origin is None:
            return False
        same_host = self._any_host and host is not None and host.host == origin.authority.host
        return same_host or origin in self._origins or self._is_allowed(origin.authority)


def _names(option: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"{option} is a sequence of names: did you mean [{given!r}]?")
    return list(given)


def _known_host(name: str) -> Authority:
    found = parse_host(name) or (parse_host(f"[{name}]") if name.count(":") > 1 else None)
    if found is None:
        raise ValueError(f"allowed_hosts has names of hosts, with a port or without, not {name!r}")
    return found


def _known_origin(name: str) -> Origin:
    found = parse_origin(name)
    if found is None:
        raise ValueError(f"allowed_origins are like https://example.com or http://localhost:3000, not {name!r}")
    return found
