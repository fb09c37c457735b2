"""The methods of one server: which there are in a revision, and where their requests go. Floor 4."""

from __future__ import annotations

from typing import Callable, Union

from ..alarm import Alarm
from ..eras import Peer, log_rank
from ..errors import MethodNotFound
from ..exchange import Exchange, Route
from ..jsonrpc import Json, Request
from ..lane import Pace
from ..log import one_line
from ..revisions import Revision
from ..session import Offer
from .facts import Facts
from .tools import Tools

Destination = Union[Route, Callable[[Request], Route]]
"""A route, or what finds one for a request."""


class Registry:
    """What one server can do.

    Args:
        facts: Of the server.
        offer: The revisions that it speaks.
        announced: Kinds ("tools") that count as registered before anything of them is.
    """

    def __init__(self, facts: Facts, offer: Offer, announced: frozenset[str] = frozenset()) -> None:
        self.facts, self.offer, self._announced = facts, offer, announced
        self.tools = Tools(facts, Alarm(f"minimcp-{facts.info['name']}"))
        self._fixed: dict[str, Destination] = {
            "initialize": Route(self._initialize, pace=Pace(known=True)),  # in order with the calls behind it
            "ping": Route(lambda exchange: {}, control=True),
            "server/discover": Route(self._discover, control=True),
            "logging/setLevel": Route(self._set_level, control=True),
            "tools/list": Route(self.tools.list, control=True),
            "tools/call": self.tools.route_of_call,
        }

    def _offers(self, kind: str) -> bool:
        """Whether a kind is declared: once it was, taking the last tool away does not change that."""
        if kind == "logging" and not self.facts.logging:
            return False
        return self.tools.offered or kind in self._announced

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What is declared to a client of this revision: nothing that is not served."""
        declared: dict[str, Json] = {}
        if self._offers("logging"):
            declared["logging"] = {}
        if self._offers("tools"):
            declared["tools"] = {"listChanged": True} if revision.handshake else {}
        return declared

    def route(self, request: Request, peer: Peer) -> Route:
        """Where a request goes.

        Raises:
            MethodNotFound: The revision does not have the method, or the server does not offer it.
            InvalidParams: It names nothing that there is.
        """
        method = request.method
        destination = self._fixed.get(method)
        if destination is None or method not in peer.revision.requests_to_server:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        kind = _KINDS.get(method)
        if kind is not None and not self._offers(kind):
            raise MethodNotFound(f"{method}: this server declares no {kind}")
        return destination if type(destination) is Route else destination(request)  # type: ignore[operator]

    # ------------------------------------------------------------ the protocol's own methods

    def _initialize(self, exchange: Exchange) -> dict[str, Json]:
        revision = exchange.peer.revision
        result = {
            "protocolVersion": revision.name,
            "capabilities": self.capabilities(revision),
            "serverInfo": self.facts.described(revision),
        }
        if self.facts.instructions is not None:
            result["instructions"] = self.facts.instructions
        return result

    def _discover(self, exchange: Exchange) -> dict[str, Json]:
        revision = exchange.peer.revision
        result = {
            "supportedVersions": list(self.offer.names),
            "capabilities": self.capabilities(revision),
            **self.facts.hints,
        }
        if self.facts.instructions is not None:
            result["instructions"] = self.facts.instructions
        return self.facts.closed(result, revision)

    def _set_level(self, exchange: Exchange) -> dict[str, Json]:
        exchange.peer.log_rank = log_rank(exchange.request.params.get("level"))
        return {}


_KINDS = {"tools/list": "tools", "tools/call": "tools", "logging/setLevel": "logging"}
"""What must be offered for a method to exist."""
