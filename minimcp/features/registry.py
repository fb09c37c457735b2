"""The methods of one server: which there are in a revision, and where their requests go. Floor 4."""

from __future__ import annotations

from typing import Mapping, Optional

from ..alarm import Alarm
from ..eras import LISTEN, Peer
from ..errors import MethodNotFound
from ..exchange import Exchange, Route
from ..jsonrpc import Json, Request
from ..lane import Pace
from ..log import one_line
from ..revisions import Revision
from ..session import Offer
from .completion import Completions
from .facts import Facts
from .feature import Destination, Feature
from .logs import Logs
from .methods import Methods
from .mounting import Mounts
from .prompts import Prompts
from .resources import Resources
from .subscriptions import Subscriptions
from .tools import Tools


class Registry:
    """What one server can do.

    Args:
        facts: Of the server.
        offer: The revisions that it speaks.
        announced: Kinds ("tools") that count as registered before anything of them is, each with what else is declared
            of it; other capabilities are declared as they are. None announces none.
        max_streams: Streams of change notices that may be open at once; None means no limit.
    """

    def __init__(
        self,
        facts: Facts,
        offer: Offer,
        announced: Optional[Mapping[str, Json]] = None,
        *,
        max_streams: Optional[int] = 256,
    ) -> None:
        self.facts, self.offer = facts, offer
        announced = announced or {}
        self.tools = Tools(facts, Alarm(f"minimcp-{facts.info['name']}"))
        self.resources, self.prompts = Resources(facts), Prompts(facts)
        self.completions = Completions(facts, self.prompts, self.resources)
        self.methods = Methods(facts)
        self.logs = Logs(facts, beside=(self.tools, self.resources, self.prompts, self.methods))
        self.features: tuple[Feature, ...] = (
            self.logs, self.completions, self.prompts, self.resources, self.tools, self.methods
        )
        self.subscriptions = Subscriptions(facts, self.offers, max_streams=max_streams)
        self.mounts = Mounts(self)
        facts.changed = self.mounts.changed
        self._destinations: dict[str, tuple[Destination, Optional[Feature]]] = {
            "initialize": (Route(self._initialize, pace=Pace(known=True)), None),  # in order with the calls behind it
            "ping": (Route(lambda exchange: {}, control=True), None),
            "server/discover": (Route(self._discover, control=True), None),
            LISTEN: (Route(self.subscriptions.listen, control=True), None),
            "resources/subscribe": (Route(self.subscriptions.subscribe, control=True), self.resources),
            "resources/unsubscribe": (Route(self.subscriptions.unsubscribe, control=True), self.resources),
        }
        for feature in self.features:
            if feature.kind in announced:
                feature.offered = True
            self._destinations.update({method: (where, feature) for method, where in feature.routes().items()})
        kinds = {feature.kind for feature in self.features}
        self._other_capabilities = {name: value for name, value in announced.items() if name not in kinds}
        self._members: dict[str, dict[str, Json]] = {
            name: dict(value) for name, value in announced.items() if name in kinds and isinstance(value, Mapping)
        }

    def offers(self, kind: str) -> bool:
        """Whether things of this kind ("tools") are offered."""
        return any(feature.offered for feature in self.features if feature.kind == kind)

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What is declared to a client of this revision: nothing that is not served, but for what the author adds."""
        declared = {feature.kind: feature.declared(revision) for feature in self.features if feature.offered}
        served = {
            kind: {**self._members.get(kind, {}), **members}
            for kind, members in declared.items()
            if members is not None
        }
        extensions = {"extensions": self.facts.extensions} if self.facts.extensions else {}
        return {**self._other_capabilities, **served, **extensions}

    def route(self, request: Request, peer: Peer) -> Route:
        """Where a request goes.

        Raises:
            MethodNotFound: The revision does not have the method, or the server does not offer it.
            InvalidParams: It names nothing that there is.
        """
        method = request.method
        destination, feature = self._destinations.get(method, _NOWHERE)
        if destination is None or method not in peer.revision.requests_to_server:
            own = self.methods.route(method)
            if own is None:
                raise MethodNotFound(f"Method not found: {one_line(method)}")
            return own
        if feature is not None and not feature.offered:
            raise MethodNotFound(f"{method}: this server declares no {feature.kind}")
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


_NOWHERE = (None, None)
"""Where an unknown method goes."""
