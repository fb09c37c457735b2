"""Log messages to the client: what is declared, and the session's level.

Not here: sending one (see `context`).
https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

from typing import Callable, Mapping

from ..engine.requests import IncomingRequest, Route
from ..protocol.lifecycle import log_rank
from ..protocol.messages import Json
from ..protocol.versions import Revision
from .facts import Facts
from .feature import Destination, Feature


class Logs(Feature):
    """The log messages of one server. They are offered as soon as any handler is registered, for it may log.

    Args:
        facts: Of the server.
        handles: Tells whether there is any handler.
    """

    kind = "logging"

    def __init__(self, facts: Facts, *, handles: Callable[[], bool]) -> None:
        self._facts, self._handles = facts, handles
        self._announced = False

    @property
    def offered(self) -> bool:
        """Whether any handler may log."""
        return self._facts.logging and (self._announced or self._handles())

    @offered.setter
    def offered(self, announced: bool) -> None:
        self._announced = announced

    def routes(self) -> Mapping[str, Destination]:
        return {"logging/setLevel": Route(self._set_level, immediate=True)}

    def declared(self, revision: Revision) -> Mapping[str, Json]:
        return {}

    def _set_level(self, exchange: IncomingRequest) -> dict[str, Json]:
        exchange.peer.log_rank = log_rank(exchange.request.params.get("level"))
        return {}
