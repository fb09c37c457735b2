"""`HttpOptions`: how a server is served over HTTP.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence

from ..engine.limits import check_number
from ..engine.shares import read_network
from ..schema.mismatch import options_checked


@options_checked
@dataclass(frozen=True)
class HttpOptions:
    """How a server is served over HTTP: ``Server("x", http=HttpOptions(...))``. None means no
    limit. Immutable.

    Args:
        allowed_hosts: Names by which clients may know the server, as ``"example.com"`` or
            ``"example.com:8000"``; ``"*"`` is any. None takes those that a machine has for itself.
        allowed_origins: Pages that may send requests beside those of the allowed hosts, as
            ``"https://example.com"``; ``"*"`` is any. Browsers show them the responses too (CORS),
            and answer nothing to others. None names none.
        sessions: Whether clients that send `initialize` get a session; without, each POST stands
            alone and no such client can be asked.
        session_ttl: Seconds after which a session ends that is not used.
        max_sessions: Sessions that are open at once, in all processes that share a store together;
            also the copies of them that one process keeps.
        max_connections: Connections of the bundled server that are open at once.
        body_bytes: Bytes of the longest body of a request.
        json_response: Answer every request with one JSON body; progress is dropped.
        keepalive: Seconds of silence before which an event stream gets a comment; None sends none.
        event_store: Keeps events for clients that lose a stream: an `EventStore`; None makes one
            with its defaults in ``Server(store=...)``, False keeps none.
        health: A path, such as ``"/healthz"``, where GET is answered 200, or 503 while the server
            closes, whatever the ``Host`` is: for load balancers. None has none.
        trusted_proxies: Addresses or networks of reverse proxies, such as ``"10.0.0.0/8"``. They
            are exempt from ``Limits.address_share``, because many clients have their address. No
            ``Forwarded`` header is read.

    Raises:
        TypeError: A value is of another type.
        ValueError: A number is too small, infinite, or none; a trusted proxy is neither an address
            nor a network.
    """

    allowed_hosts: Optional[Sequence[str]] = None
    allowed_origins: Optional[Sequence[str]] = None
    sessions: bool = True
    session_ttl: Optional[float] = 1800
    max_sessions: Optional[int] = 1000
    max_connections: Optional[int] = 1000
    body_bytes: Optional[int] = 4 * 1024 * 1024
    json_response: bool = False
    keepalive: Optional[float] = 15
    event_store: Any = None
    health: Optional[str] = None
    trusted_proxies: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name in ("max_sessions", "max_connections", "body_bytes"):
                check_number(name, value, least=1)
            elif name in ("session_ttl", "keepalive"):
                check_number(name, value, whole=False)
                if value == 0:
                    raise ValueError(f"{name} is more than 0 seconds")
            elif name == "health" and not (
                value is None or (isinstance(value, str) and value.startswith("/"))
            ):
                raise ValueError(
                    f"health is a path, which begins with /, or None, not {value!r:.60}"
                )
            elif name in ("sessions", "json_response") and not isinstance(value, bool):
                raise TypeError(f"{name} is True or False, not {value!r:.60}")
            elif name == "trusted_proxies":
                _check_proxies(value)
            elif name.startswith("allowed_") and not isinstance(
                value, (list, tuple, set, frozenset, type(None))
            ):
                raise TypeError(f"{name} is a list or None, not {value!r:.60}")


def _check_proxies(value: Any) -> None:
    """Check `HttpOptions.trusted_proxies`.

    Raises:
        TypeError: The value is not a sequence of text.
        ValueError: An entry is neither an address nor a network.
    """
    is_list = isinstance(value, (list, tuple, set, frozenset))
    if not is_list or not all(isinstance(each, str) for each in value):
        raise TypeError(
            "trusted_proxies must be a list of addresses or networks, such as"
            f' ["10.0.0.0/8"], not {value!r:.60}'
        )
    for each in value:
        read_network(each)
