"""What one server can do: its methods, what it declares, and the servers that it mounts."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Iterator, Mapping, Optional, Union

from ..engine.requests import IncomingRequest, Route
from ..errors import MethodNotFound, one_line
from ..protocol.lifecycle import LISTEN, Offer, Peer
from ..protocol.messages import Json, Request
from ..protocol.versions import REVISIONS, Revision
from ..schema.annotations import write_any
from .completion import Completions
from .context import Context
from .logging import set_level
from .prompts import Prompts
from .registered import Registered, ServerConfig, Table, changing, positions
from .resources import Resources
from .subscriptions import Subscriptions
from .tools import Tools

SEPARATOR = "__"
"""Between the prefix of a mounted server and a name."""

TAKEN = frozenset().union(*(each.requests_to_server | each.requests_to_client for each in REVISIONS))
"""The methods of the specification, in either direction and any revision."""

KEPT_FREE = ("rpc.", "notifications/", "tasks/")
"""What names of an author's methods must not begin with: JSON-RPC's own, no requests, or an extension's."""

_DECLARED: Mapping[str, Mapping[str, Json]] = {
    "logging": {},
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}
"""What stands in the capabilities for each kind that is offered."""

Destination = Union[Route, Callable[[Request], Route]]
"""Where the requests of a method go: a route, or what finds one for a request (it may raise an RpcError)."""


@dataclass(eq=False, repr=False)
class RegisteredMethod(Registered):
    """A method of an author's own, which the specification does not know; ``shown`` is its name."""

    def __post_init__(self) -> None:
        self._takes_context = positions(self.function, f"method {self.shown!r}", ("params", "ctx"), least=1) == 2
        super().__post_init__()

    def handle(self, exchange: IncomingRequest) -> Any:
        context = Context(exchange)
        arguments = [context] if self._takes_context else []
        value = self.run(context, partial(self.function, exchange.request.params, *arguments))
        written = {} if value is None else write_any(value)
        if not isinstance(written, dict):
            raise TypeError(f"the method {self.shown!r} returned {type(value).__name__}: return a dict, or None")
        return exchange.server.closed(written, exchange.peer.revision)


class Registry:
    """The methods of one server. Thread-safe.

    Args:
        config: Of the server.
        offer: The revisions that it speaks.
    """

    def __init__(self, config: ServerConfig, offer: Offer) -> None:
        self.config, self.offer = config, offer
        self._offered: set[str] = set(config.capabilities)
        """Kinds of which something was registered, or announced; taking the last one away changes nothing."""
        self._mounted: list[Registry] = []
        self._mounted_by: list[weakref.ref[Registry]] = []
        self.subscriptions = Subscriptions(config, self.offers)
        self.tools = Tools(config, lambda: self.changed("tools"))
        self.prompts = Prompts(config, lambda completes: self.changed("prompts", completes))
        self.resources = Resources(config, lambda completes: self.changed("resources", completes))
        self.methods: Table[RegisteredMethod] = Table("method")
        config.read_resource = self.resources.read
        prompts, resources, subscriptions = self.prompts, self.resources, self.subscriptions
        completions = Completions(config, prompts.table, resources.templates, resources.template)
        self._tables: dict[str, list[Table[Any]]] = {
            "tools": [self.tools.table],
            "prompts": [prompts.table],
            "resources": [resources.table, resources.templates],
            "methods": [self.methods],
        }
        self._destinations: dict[str, tuple[Optional[str], Destination]] = {
            "initialize": (None, _immediate(self._initialize)),
            "ping": (None, _immediate(lambda exchange: {})),
            "server/discover": (None, _immediate(self._discover)),
            LISTEN: (None, _immediate(subscriptions.listen)),
            "logging/setLevel": ("logging", _immediate(set_level)),
            "completion/complete": ("completions", completions.route),
            "prompts/list": ("prompts", _immediate(prompts.pages.serve)),
            "prompts/get": ("prompts", prompts.route_of_get),
            "resources/list": ("resources", _immediate(resources.pages.serve)),
            "resources/templates/list": ("resources", _immediate(resources.template_pages.serve)),
            "resources/read": ("resources", resources.route_of_read),
            "resources/subscribe": ("resources", _immediate(subscriptions.subscribe)),
            "resources/unsubscribe": ("resources", _immediate(subscriptions.unsubscribe)),
            "tools/list": ("tools", _immediate(self.tools.pages.serve)),
            "tools/call": ("tools", self.tools.route_of_call),
        }

    # ------------------------------------------------------------ requests

    def route(self, request: Request, peer: Peer) -> Route:
        """Where a request goes.

        Raises:
            MethodNotFound: The revision does not have the method, or the server does not offer it.
            InvalidParams: It names nothing that there is.
        """
        method = request.method
        if method in self._destinations and method in peer.revision.requests_to_server:
            kind, destination = self._destinations[method]
            if kind is not None and not self.offers(kind):
                raise MethodNotFound(f"{method}: this server declares no {kind}")
            return destination if isinstance(destination, Route) else destination(request)
        own = self.methods.get(method)
        if own is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        return own.route

    def _initialize(self, exchange: IncomingRequest) -> dict[str, Json]:
        config, revision = self.config, exchange.peer.revision
        info = {name: value for name, value in config.info.items() if name in revision.implementation_members}
        result = {"protocolVersion": revision.name, "capabilities": self.capabilities(revision), "serverInfo": info}
        return result if config.instructions is None else {**result, "instructions": config.instructions}

    def _discover(self, exchange: IncomingRequest) -> dict[str, Json]:
        config, revision = self.config, exchange.peer.revision
        capabilities = self.capabilities(revision)
        result = {"supportedVersions": list(self.offer.names), "capabilities": capabilities, **config.hints}
        if config.instructions is not None:
            result["instructions"] = config.instructions
        return config.closed(result, revision)

    # ------------------------------------------------------------ what is offered

    def offers(self, kind: str) -> bool:
        """Whether things of this kind ("tools") are offered; any handler may log, so logging is with the first."""
        if kind == "logging":
            return self.config.logging and not self._offered.isdisjoint(("logging", *self._tables))
        return kind in self._offered

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What is declared to a client of this revision: nothing that is not served, but for what the author adds."""
        announced = self.config.capabilities
        declared = {name: value for name, value in announced.items() if name not in _DECLARED}
        for kind, members in _DECLARED.items():
            if self.offers(kind) and (kind != "completions" or revision.completions_capability):
                more = announced.get(kind)
                declared[kind] = {**(more if isinstance(more, Mapping) else {}), **members}
        if self.config.extensions:
            declared["extensions"] = self.config.extensions
        return declared

    def changed(self, kind: str, completes: bool = False) -> None:
        """Something of a kind was registered or removed: tell the clients of this server, and of those that mount it.

        Args:
            kind: "tools".
            completes: Whether something of it completes arguments.
        """
        self._offered.update({kind, "completions"} if completes else {kind})
        self.subscriptions.list_changed(kind)
        for registry in self._above():
            with changing:
                for table in registry._tables[kind]:
                    table.refresh()
            registry._offered.update(self._offered.intersection((kind, "completions")))
            registry.subscriptions.list_changed(kind)

    def resource_updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource, here or at a server that mounts this one, that it has changed."""
        for registry in (self, *self._above()):
            registry.subscriptions.resource_updated(uri)

    def add_method(self, function: Callable[..., Any], name: str, *, replace: bool = False) -> None:
        """Register a method of an author's own.

        Raises:
            TypeError: The function cannot serve a method; the message says what to write instead.
            ValueError: The name is taken, or none that an author can take.
        """
        if not name or name in TAKEN or name.startswith(KEPT_FREE):
            raise ValueError(f"{name!r} belongs to the protocol: write a name like 'vendor/thing'")
        self.methods.add(name, RegisteredMethod(self.config, function, name, None), replace=replace)
        self.changed("methods")

    # ------------------------------------------------------------ mounting

    def mount(self, other: Registry, prefix: str) -> None:
        """Offer what another server has, and follow its changes. It does not keep this server alive.

        Args:
            other: Of that server.
            prefix: What the names of its tools and prompts begin with here; resources keep their URIs.

        Raises:
            ValueError: A name is taken; or the other server mounts this one, or is this one.
        """
        with changing:
            if other is self or self in other._below():
                raise ValueError("a server cannot be mounted into itself")
            pairs = [
                (mine, theirs, f"{prefix}{SEPARATOR}" if kind in ("tools", "prompts") else "")
                for kind, tables in self._tables.items()
                for mine, theirs in zip(tables, other._tables[kind])
            ]
            for mine, theirs, start in pairs:
                mine.check_mount(theirs, start)
            for mine, theirs, start in pairs:
                mine.mounts.append((theirs, start, self.config.middleware))
            self._mounted.append(other)
            other._mounted_by = [each for each in other._mounted_by if each() is not None] + [weakref.ref(self)]
        for kind in other._offered.intersection(self._tables):
            other.changed(kind, "completions" in other._offered)

    def _below(self) -> Iterator[Registry]:
        """The servers that this one mounts, and those that they mount."""
        for each in self._mounted:
            yield each
            yield from each._below()

    def _above(self) -> list[Registry]:
        """The servers that mount this one, and those that mount them; each once, the nearest first."""
        found = [self]
        for each in found:
            for reference in each._mounted_by:
                registry = reference()
                if registry is not None and registry not in found:
                    found.append(registry)
        return found[1:]


def _immediate(handle: Callable[[IncomingRequest], Any]) -> Route:
    """The route of what the connection answers by itself, without a worker."""
    return Route(handle, immediate=True)
