"""`HttpOptions`: the options of a server over HTTP.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ..engine.limits import check_number
from ..engine.shares import read_network
from ..record import FrozenRecord
from ..schema.mismatch import options_checked


@options_checked
class HttpOptions(FrozenRecord):
    """Options of a server over HTTP: ``Server("x", http=HttpOptions(...))``. Immutable.

    A limit of None means no limit.

    Args:
        allowed_hosts: Values of the ``Host`` header that are accepted, such as ``"example.com"`` or
            ``"example.com:8000"``; ``"*"`` accepts all. None means the names of this machine for
            itself: localhost, 127.0.0.1 and ::1.
        allowed_origins: Origins of web pages that may send requests, such as
            ``"https://example.com"``; ``"*"`` allows all. Pages on the allowed hosts may always
            send requests. Only pages listed here can read responses from another origin (CORS).
            None means no page.
        sessions: Whether clients that send `initialize` get a session. Without sessions each POST
            is independent, and the server cannot send requests to these clients.
        session_ttl: Seconds after which an unused session ends.
        max_sessions: Maximum number of open sessions, in all processes that share a store. One
            process caches at most this number of them.
        max_connections: Maximum number of open connections of the bundled server.
        body_bytes: Maximum number of bytes of a request's body.
        json_response: Whether every response is one JSON body. Progress is then dropped.
        keepalive: Seconds of silence after which an event stream gets a comment; None means no
            comments.
        event_store: An `EventStore` that keeps events for clients that lose a stream. If None, one
            is created with the defaults, in ``Server(store=...)`` if given. False keeps no events.
        health: A path for load balancers, such as ``"/healthz"``. GET returns 200, or 503 while the
            server closes, for every ``Host``. None has no such path.
        trusted_proxies: Addresses or networks of reverse proxies, such as ``"10.0.0.0/8"``. They
            are exempt from ``Limits.address_share``, because many clients have their address.
            ``Forwarded`` headers are not read.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A number is too small or not finite, or a trusted proxy is neither an address
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
                    raise ValueError(f"{name} must be more than 0 seconds")
            elif name == "health" and not (
                value is None or (isinstance(value, str) and value.startswith("/"))
            ):
                raise ValueError(
                    f"health must be a path that begins with /, or None, not {value!r:.60}"
                )
            elif name in ("sessions", "json_response") and not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, not {value!r:.60}")
            elif name == "trusted_proxies":
                _check_proxies(value)
            elif name.startswith("allowed_") and not isinstance(
                value, (list, tuple, set, frozenset, type(None))
            ):
                raise TypeError(f"{name} must be a list or None, not {value!r:.60}")


def _check_proxies(value: Any) -> None:
    """Check `HttpOptions.trusted_proxies`.

    Raises:
        TypeError: The value is not a list of str.
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
