"""One request to a feature, without a connection. The sent messages are recorded."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional

from minimcp.engine.incoming import IncomingRequest, Route
from minimcp.engine.limits import Limits
from minimcp.protocol.lifecycle import Peer, SupportedRevisions
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME, REVISIONS
from minimcp.server.registered import ServerConfig
from minimcp.server.registry import Registry

from ..answering import R4
from ..scripted import RecordingOutlet


def config(**options: Any) -> ServerConfig:
    """A server's configuration, with options of it and of its `Limits`."""
    limits = {
        name: options.pop(name) for name in ("rounds", "ask_timeout", "streams") if name in options
    }
    made = ServerConfig(
        {"name": "unit", "version": "1", "title": "Unit"}, limits=Limits(**limits), **options
    )
    Registry(made, SupportedRevisions(REVISIONS))  # which adds the features
    return made


def exchange(
    method: str = "tools/call",
    params: Optional[Mapping[str, Any]] = None,
    *,
    revision: str = R4,
    of: Optional[ServerConfig] = None,
    sink: Optional[RecordingOutlet] = None,
    **peer: Any,
) -> IncomingRequest:
    """A request that goes to a `RecordingOutlet`, if no other sink is given."""
    request = Request(1, method, dict(params or {}))
    route = Route(lambda exchange: {})
    sender = Peer(BY_NAME[revision], **peer)
    made = IncomingRequest(request, sender, route, sink or RecordingOutlet(), server=of or config())
    made.sink.requests.add(made, made)
    return made


def sent(made: IncomingRequest) -> Any:
    """Return the lines that the request has sent."""
    sink: Any = made.sink
    return [json.loads(line) for line in sink.lines]


def answers(made: Any) -> Any:
    """Return the responses to the request."""
    return [json.loads(line) for line, _ in made.sink.answers]


def read(result: Any) -> Dict[str, Any]:
    """A result, object or JSON text, as an object."""
    found: Dict[str, Any] = json.loads(result) if isinstance(result, (str, bytes)) else result
    return found


def answered(made: Any, method: str, params: Any = None, **options: Any) -> Dict[str, Any]:
    """Return the result of a request to a registry.

    Args:
        made: The registry.
        method: The method of the request.
        params: The params of the request.
        options: The options of `exchange`.
    """
    asked = exchange(method, params, of=made.config, **options)
    return read(made.route(asked.request, asked.peer).handle(asked))


def registry(**options: Any) -> Registry:
    """A registry of nothing yet, with options as for `config`."""
    return Registry(config(**options), SupportedRevisions(REVISIONS))
