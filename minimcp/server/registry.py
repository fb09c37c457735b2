"""The methods of one server: which there are in a revision, and where their requests go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence

from ..engine.requests import IncomingRequest, Route
from ..errors import MethodNotFound, one_line
from ..protocol.lifecycle import LISTEN, Offer, Peer
from ..protocol.messages import Json, Request
from ..protocol.versions import Revision
from .facts import Facts
from .feature import Destination, Feature
from .logs import Logs
from .mounting import Mounts
from .subscriptions import Subscriptions
from .tools import Tools

if TYPE_CHECKING:
    from .methods import Methods
    from .prompts import Prompts
    from .resources import Resources


def _texts(facts: Facts) -> tuple[Feature, ...]:
    from .completion import Completions
    from .prompts import Prompts
    from .resources import Resources

    prompts, resources = Prompts(facts), Resources(facts)
    return Completions(facts, prompts, resources), prompts, resources


def _own_methods(facts: Facts) -> tuple[Feature, ...]:
    from .methods import Methods

    return (Methods(facts),)


_LATE: Mapping[str, Callable[[Facts], tuple[Feature, ...]]] = {
    **dict.fromkeys(("completions", "prompts", "resources"), _texts),
    "methods": _own_methods,
}
"""Kinds whose modules are imported with the first thing of such a kind: a server of tools starts without them."""

_KINDS = ("logging", "completions", "prompts", "resources", "tools", "methods")
"""The order in which they are declared."""

_LATE_METHODS = {
    "completion/complete": "completions",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
}
"""The methods of these kinds: how they are refused as long as there is nothing of the kind."""


class Registry:
    """What one server can do.

    Args:
        facts: Of the server.
        offer: The revisions that it speaks.
        announced: Kinds ("tools") that count as registered before anything of them is, each with what else is declared
            of it; other capabilities are declared as they are. None announces none.
        max_streams: Streams of change notices that may be open at once; None means no limit.

    Thread-safe; what is imported late is made once, whoever comes first.
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
        self._announced = announced or {}
        self.tools = Tools(facts)
        self.subscriptions = Subscriptions(facts, self.offers, max_streams=max_streams)
        self.mounts = Mounts(self)
        facts.changed = self.mounts.changed
        facts.read_resource = lambda *asked: self.resources.read(*asked)
        self._destinations: dict[str, tuple[Destination, Optional[Feature]]] = {
            "initialize": (Route(self._initialize, immediate=True), None),
            "ping": (Route(lambda exchange: {}, immediate=True), None),
            "server/discover": (Route(self._discover, immediate=True), None),
            LISTEN: (Route(self.subscriptions.listen, immediate=True), None),
        }
        self._made: dict[object, tuple[Feature, ...]] = {}
        self._features: dict[str, Feature] = {}
        self._take((Logs(facts, handles=self._handles), self.tools))
        for kind in _KINDS:
            if kind in self._announced:
                self.feature(kind)

    def feature(self, kind: str) -> Any:
        """The feature of a kind; it is made, and its module imported, when it is first wanted."""
        if kind not in self._features:
            make = _LATE[kind]
            self._take(self._made.get(make) or self._made.setdefault(make, make(self.facts)))
        return self._features[kind]

    def _take(self, features: Iterable[Feature]) -> None:
        """Serve these; idempotent, because two threads may come here with the same ones."""
        for feature in features:
            if feature.kind in self._announced:
                feature.offered = True
            routes = {**feature.routes(), **self.subscriptions.routes(feature.kind)}
            self._destinations.update({method: (where, feature) for method, where in routes.items()})
            self._features[feature.kind] = feature

    @property
    def features(self) -> Sequence[Feature]:
        """All of them, whether anything of their kind is there or not."""
        return [self.feature(kind) for kind in _KINDS]

    @property
    def resources(self) -> Resources:
        """Those of this server; like the next two it is made when it is first wanted."""
        return self.feature("resources")  # type: ignore[no-any-return]

    @property
    def prompts(self) -> Prompts:
        """Those of this server."""
        return self.feature("prompts")  # type: ignore[no-any-return]

    @property
    def methods(self) -> Methods:
        """Those of this server that are its author's own."""
        return self.feature("methods")  # type: ignore[no-any-return]

    def offers(self, kind: str) -> bool:
        """Whether things of this kind ("tools") are offered."""
        return kind in self._features and self._features[kind].offered

    def _handles(self) -> bool:
        """Whether there is any handler, or will be."""
        return any(self.offers(kind) for kind in ("tools", "resources", "prompts", "methods"))

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What is declared to a client of this revision: nothing that is not served, but for what the author adds."""
        declared = {name: value for name, value in self._announced.items() if name not in _KINDS}
        for kind in filter(self.offers, _KINDS):
            members, more = self._features[kind].declared(revision), self._announced.get(kind)
            if members is not None:
                declared[kind] = {**(more if isinstance(more, Mapping) else {}), **members}
        if self.facts.extensions:
            declared["extensions"] = self.facts.extensions
        return declared

    def route(self, request: Request, peer: Peer) -> Route:
        """Where a request goes.

        Raises:
            MethodNotFound: The revision does not have the method, or the server does not offer it.
            InvalidParams: It names nothing that there is.
        """
        method = request.method
        destination, feature = self._destinations.get(method, _NOWHERE)
        if destination is None or method not in peer.revision.requests_to_server:
            return self._elsewhere(method, peer.revision)
        if feature is not None and not feature.offered:
            raise _undeclared(method, feature.kind)
        return destination if type(destination) is Route else destination(request)  # type: ignore[operator]

    def _elsewhere(self, method: str, revision: Revision) -> Route:
        """Where the requests of a method go that nothing of the protocol's serves: to the author's own, or nowhere."""
        if method in _LATE_METHODS and method in revision.requests_to_server:
            raise _undeclared(method, _LATE_METHODS[method])
        own: Optional[Route] = self.methods.route(method) if self.offers("methods") else None
        if own is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        return own

    # ------------------------------------------------------------ the protocol's own methods

    def _initialize(self, exchange: IncomingRequest) -> dict[str, Json]:
        revision = exchange.peer.revision
        result = {
            "protocolVersion": revision.name,
            "capabilities": self.capabilities(revision),
            "serverInfo": self.facts.described(revision),
        }
        if self.facts.instructions is not None:
            result["instructions"] = self.facts.instructions
        return result

    def _discover(self, exchange: IncomingRequest) -> dict[str, Json]:
        revision = exchange.peer.revision
        result = {
            "supportedVersions": list(self.offer.names),
            "capabilities": self.capabilities(revision),
            **self.facts.hints,
        }
        if self.facts.instructions is not None:
            result["instructions"] = self.facts.instructions
        return self.facts.closed(result, revision)


def _undeclared(method: str, kind: str) -> MethodNotFound:
    return MethodNotFound(f"{method}: this server declares no {kind}")


_NOWHERE = (None, None)
"""Where an unknown method goes."""
