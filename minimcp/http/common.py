"""What the HTTP transports share: requests, responses, headers, media types, hosts and origins.

No socket is opened and no thread started in here.
https://modelcontextprotocol.io/specification/2026-07-28/basic/transports
"""

from __future__ import annotations

import re
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

_REMEMBERED = 64
"""Verdicts on headers that are kept: clients send the same ones with every request."""


class Headers(Mapping[str, str]):
    """The headers of one message: names without regard to case, values without the blanks round them.

    As a mapping it has the first value of each name; `all` gives the others too.

    Args:
        given: A mapping or pairs; a name may come several times.

    ``known`` is what their readers have found out, for when the same come again: never anything about Content-Length.
    """

    __slots__ = ("_values", "known")

    def __init__(self, given: Union[Mapping[str, str], HeaderPairs, None] = None) -> None:
        self._values: dict[str, list[str]] = {}
        self.known: dict[Any, Any] = {}
        pairs: Any = given.items() if isinstance(given, Mapping) else given or ()
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value.strip(" \t"))

    def with_length(self, digits: str) -> Headers:
        """The same with another Content-Length; what is known of the one is known of the other."""
        twin = Headers.__new__(Headers)
        twin._values, twin.known = {**self._values, "content-length": [digits]}, self.known
        return twin

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
    """One request, parsed, its body perhaps not read yet.

    Args:
        method: In capitals, as it came.
        path: With the query, if there is one.
        headers: A mapping or pairs.
        body: Bytes, or an object with ``read(n)`` that gives the body's bytes and then nothing.
        client: The peer's address, for logs; None where it is unknown.
    """

    __slots__ = ("method", "path", "headers", "body", "client")

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


class HttpResponse:
    """One response.

    Args:
        status: The code.
        headers: Pairs.
        body: Bytes; or, when it was asked for, an iterator of bytes with ``close()``.
    """

    __slots__ = ("status", "headers", "body")

    def __init__(self, status: int, headers: list[tuple[str, str]], body: Any = b"") -> None:
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self) -> str:
        return f"<HttpResponse {self.status}>"


class ResponseWriter:
    """Where the response to one request goes: `send` once, or `begin`, any number of `write` and `end`.

    `write`, `end` and `on_gone` may be called by any thread.
    """

    __slots__ = ()

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
        """Send one piece of the body, waiting for the peer if need be.

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


# ------------------------------------------------------------ media types


def media_type(value: Optional[str]) -> tuple[str, dict[str, str]]:
    """The type of a Content-Type header, in lower case, and its parameters; an empty type where there is none."""
    name, _, rest = (value or "").partition(";")
    parameters = {}
    for part in rest.split(";"):
        key, found, text = part.partition("=")
        if found:
            parameters[key.strip().lower()] = text.strip().strip('"')
    return name.strip().lower(), parameters


@lru_cache(_REMEMBERED)
def is_json(content_type: Optional[str]) -> bool:
    """Whether a body of this type is JSON in UTF-8: exactly that type, whatever its other parameters are."""
    name, parameters = media_type(content_type)
    return name == JSON_TYPE and parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8")


def accepts(headers: Headers, *wanted: str) -> bool:
    """Whether the Accept headers take all of these types, by name or by a range that it lies in."""
    accept = tuple(headers.all("Accept"))
    return all(_accepts(accept, kind) for kind in wanted)


@lru_cache(_REMEMBERED)
def _accepts(accept: tuple[str, ...], wanted: str) -> bool:
    ranges = (wanted, wanted.partition("/")[0] + "/*", "*/*")
    for value in accept:
        for part in value.split(","):
            name, parameters = media_type(part)
            if name in ranges and not re.fullmatch(r"0(\.0*)?", parameters.get("q", "1")):
                return True
    return False


# ------------------------------------------------------------ hosts and origins


class Authority(NamedTuple):
    """A host, in lower case and without brackets, and a port; None where it is not written."""

    host: str
    port: Optional[int]


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/?#@\\\s]+)")
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def parse_host(value: str) -> Optional[Authority]:
    """What a Host header says; None when it says nothing that is a host."""
    found = _HOST.fullmatch(value)
    if found is None or int(found[3] or 0) > 65535:
        return None
    return Authority((found[1] or found[2]).lower(), int(found[3]) if found[3] else None)


def parse_origin(value: str) -> Optional[tuple[str, Authority]]:
    """The scheme and the host of an Origin header; None when it is none of http or https ("null" is none)."""
    found = _ORIGIN.fullmatch(value)
    authority = parse_host(found[2]) if found else None
    return (found[1], authority) if found and authority else None


class Doorkeeper:
    """Decides by Host and Origin whether a request is meant for this server: no web page may reach it by a trick.

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

    __slots__ = ("_hosts", "_origins", "_any_host", "_any_origin", "_verdict")

    def __init__(
        self, allowed_hosts: Optional[Iterable[str]] = None, allowed_origins: Optional[Iterable[str]] = None
    ) -> None:
        hosts = _sequence("allowed_hosts", LOOPBACK if allowed_hosts is None else allowed_hosts)
        origins = _sequence("allowed_origins", () if allowed_origins is None else allowed_origins)
        self._any_host, self._any_origin = "*" in hosts, "*" in origins
        self._hosts = {_known_host(name) for name in hosts if name != "*"}
        self._origins = {_known_origin(name) for name in origins if name != "*"}
        self._verdict = lru_cache(_REMEMBERED)(self._judge)

    def refusal(self, headers: Headers) -> Optional[tuple[int, str]]:
        """The status and the words to refuse a request with; None lets it in."""
        return self._verdict(tuple(headers.all("Host")), tuple(headers.all("Origin")))

    def _judge(self, hosts: tuple[str, ...], origins: tuple[str, ...]) -> Optional[tuple[int, str]]:
        if not self._any_host:
            if len(hosts) != 1:
                return 400, "a request has one Host header"
            if not self._is_ours(parse_host(hosts[0])):
                return 421, f"this server is not known as {hosts[0]!r:.80}: name it in allowed_hosts"
        asked = parse_host(hosts[0]) if hosts else None
        for origin in origins:
            if not self._is_welcome(parse_origin(origin), asked):
                return 403, f"pages of {origin!r:.80} may not send requests: name the origin in allowed_origins"
        return None

    def _is_ours(self, authority: Optional[Authority]) -> bool:
        return authority is not None and (authority in self._hosts or Authority(authority.host, None) in self._hosts)

    def _is_welcome(self, origin: Optional[tuple[str, Authority]], asked: Optional[Authority]) -> bool:
        if self._any_origin or origin is None:
            return self._any_origin
        known = _with_port(origin)
        same = self._any_host and asked is not None and asked.host == known[1].host
        return same or known in self._origins or self._is_ours(known[1])


def _with_port(origin: tuple[str, Authority]) -> tuple[str, Authority]:
    scheme, (host, port) = origin
    return scheme, Authority(host, port if port is not None else 443 if scheme == "https" else 80)


def _sequence(name: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise TypeError(f"{name} is a sequence of names: did you mean [{given!r}]?")
    return list(given)


def _known_host(name: str) -> Authority:
    found = parse_host(name) or (parse_host(f"[{name}]") if name.count(":") > 1 else None)
    if found is None:
        raise ValueError(f"allowed_hosts has names of hosts, with a port or without, not {name!r}")
    return found


def _known_origin(name: str) -> tuple[str, Authority]:
    found = parse_origin(name)
    if found is None:
        raise ValueError(f"allowed_origins are like https://example.com or http://localhost:3000, not {name!r}")
    return _with_port(found)
