"""One request to a feature, without a connection: the exchange is there, and what it sends is remembered."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional

from minimcp.eras import Peer
from minimcp.exchange import Exchange, Route
from minimcp.features.facts import Facts
from minimcp.jsonrpc import Request
from minimcp.revisions import BY_NAME

from ..answering import R4
from ..scripted import RecordingOutlet


def facts(**options: Any) -> Facts:
    return Facts({"name": "unit", "version": "1", "title": "Unit"}, **options)


def exchange(
    method: str = "tools/call",
    params: Optional[Mapping[str, Any]] = None,
    *,
    revision: str = R4,
    of: Optional[Facts] = None,
    **peer: Any,
) -> Exchange:
    """An exchange whose outlet is a `RecordingOutlet`."""
    request = Request(1, method, dict(params or {}))
    made = Exchange(request, Peer(BY_NAME[revision], **peer), Route(lambda exchange: {}), RecordingOutlet())
    made.server = of or facts()
    return made


def sent(made: Exchange) -> Any:
    """What the exchange has sent."""
    outlet: Any = made.outlet
    return [json.loads(line) for line in outlet.lines]


def read(result: Any) -> Dict[str, Any]:
    """A result, object or JSON text, as an object."""
    found: Dict[str, Any] = json.loads(result) if isinstance(result, str) else result
    return found
