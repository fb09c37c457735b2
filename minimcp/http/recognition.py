"""How a client finds out what a server with a URL speaks, and remembers it.

First what stands alone is tried, then the handshake at the same URL, then the older HTTP+SSE; the probe itself is
judged as over any transport (see `negotiation`). An outage is never a verdict.
https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from ..client.negotiation import Plan
from ..client.reconnect import OpenSession
from ..engine.transport import Pipe
from ..errors import ConnectionFailed, ConnectionLost, McpError, ProtocolViolation, UnsupportedRevision
from .client import HttpPipe
from .posting import HttpServer
from .sse_client import SsePipe

Agree = Callable[[Pipe, Plan], OpenSession]

OLDER = frozenset({400, 404, 405})
"""Statuses with which a server refuses `initialize` that may know the oldest transport only."""

MOST_KNOWN = 1000

_known: dict[str, Any] = {}
"""By URL: servers that want the handshake, and over what. What stands alone is asked for all the same."""


def agree_over_http(server: HttpServer, agree: Agree, plan: Plan, max_message_bytes: Optional[int]) -> OpenSession:
    """Connect in the newest way that the server knows.

    Args:
        server: Where.
        agree: Agrees over a pipe, and closes it when that fails.
        plan: What this client may speak.
        max_message_bytes: The longest message that comes in; None means no limit.

    Raises:
        ConnectionFailed: It cannot be reached, or refuses; or there is nothing that speaks the protocol.
        AuthorizationError: It wants to know who asks.
        McpError: As `negotiate`.
    """
    plan = plan._replace(probe_timeout=None)
    known = _known.get(server.url) if plan.per_request and plan.handshake else None
    if known is not None:
        try:
            return _agreed(server, agree, plan.without_probe(), known(server, max_message_bytes))
        except (ConnectionFailed, ProtocolViolation, UnsupportedRevision):
            _known.pop(server.url, None)  # it may have become another server since
    pipe = HttpPipe(server, max_message_bytes)
    try:
        return _agreed(server, agree, plan, pipe)
    except (ProtocolViolation, ConnectionFailed) as error:
        if pipe.refused is None:
            raise
        if pipe.refused not in OLDER:
            raise ConnectionFailed(str(error)) from error
        first = error
    try:
        return _agreed(server, agree, plan.without_probe(), SsePipe(server, max_message_bytes))
    except McpError as error:
        raise ConnectionFailed(f"{first}; and over HTTP+SSE: {error}") from error


def _agreed(server: HttpServer, agree: Agree, plan: Plan, pipe: Pipe) -> OpenSession:
    """Agree over this pipe, and remember it where it is to be remembered."""
    try:
        opened = agree(pipe, plan)
    except ConnectionLost as lost:
        raise ConnectionFailed(str(lost)) from lost
    with_handshake = opened.session.era.revision.handshake
    if with_handshake and (plan.per_request or isinstance(pipe, SsePipe)):  # else it was not asked
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[server.url] = type(pipe)
    return opened
