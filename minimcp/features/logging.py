"""Log messages to clients: the minimum level that a client wants.

`Context.log` sends the messages.
https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional

from ..engine.incoming import IncomingRequest, Route
from ..protocol.lifecycle import log_rank
from ..protocol.messages import Json
from ..protocol.versions import Revision
from ..server.feature import Destination, Feature

if TYPE_CHECKING:
    from ..server.registry import Registry


class Logging(Feature):
    """Serves `logging/setLevel`.

    Args:
        registry: The server's registry.
    """

    capability = "logging"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def routes(self) -> Mapping[str, Destination]:
        """Return the route of `logging/setLevel`."""
        return {"logging/setLevel": Route(_set_level, immediate=True)}

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare logging, if handlers may log."""
        return {"logging": {}} if self._registry.offers("logging") else {}


def _set_level(incoming: IncomingRequest) -> dict[str, Json]:
    incoming.peer.log_rank = log_rank(incoming.request.params.get("level"))
    return {}
