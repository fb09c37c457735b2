"""`Registry`: the features, methods and capabilities of one server. `ServerRole`: one
connection."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional

from ..engine.calls import MakeParams
from ..engine.connection import ConnectionRole
from ..engine.incoming import DEFERRED, IncomingRequest, Line, Route, Sink, set_initialized
from ..errors import ConnectionLost, InvalidRequest, MethodNotFound
from ..log import logger
from ..protocol.lifecycle import Handshake, Negotiation, Peer, SupportedRevisions, log_rank
from ..protocol.messages import PARAPHRASE_SHUTDOWN, Json, Notification, Request, Response, encode
from ..protocol.versions import LISTS, REVISIONS, Revision
from ..schema.mismatch import nearest
from ..text import one_line
from .feature import (
    FEATURES,
    MAKERS,
    METHOD_FEATURES,
    Destination,
    Feature,
    OpenSession,
    OptionSpec,
    extension_with,
    load,
)
from .options import OPTIONS, check_names, source_location
from .registered import RegisteredFunction, ServerConfig, Table, changing
from .tools import Tools

log = logger("minimcp.server")

# The methods of the specification, in either direction and any revision.
SPECIFIED_METHODS = frozenset().union(
    *(each.requests_to_server | each.requests_to_client for each in REVISIONS)
)

# The capabilities that a server may have, in the order in which it declares them. They must be
# known before the features that serve them are loaded. To add one, see "Adding a method" in
# examples/design.rst.
CAPABILITIES = ("logging", "completions", "prompts", "resources", "tools")

# The groups of entries that an author registers.
ENTRY_GROUPS = ("tools", *MAKERS.values())

# The minimum similarity of a method to suggest. Names of methods are similar to each other.
METHOD_CUTOFF = 0.8

INITIALIZED = Notification("notifications/initialized", {})


def unknown_method(method: str, known: Iterable[str]) -> str:
    """Return the message for a method that is not found, with the method that is probably meant.

    A method of the specification is not misspelled, so there is no suggestion for it.
    """
    near = None if method in SPECIFIED_METHODS else nearest(method, known, METHOD_CUTOFF)
    hint = f", did you mean {near}?" if near else ""
    return f"Method not found: {one_line(method)}{hint}"


class Registry:
    """The features and methods of one server. Thread-safe.

    Args:
        config: The server's configuration.
        supported: The revisions that the server supports.

    Attributes:
        tools: The table of tools.
        sessions: The open sessions that can receive notifications at any time.
        role: Creates the `ServerRole` of another connection or session.
        loaded: Returns one of `FEATURES` if it is loaded, else None.
    """

    def __init__(self, config: ServerConfig, supported: SupportedRevisions) -> None:
        self.config = config
        self.supported = supported
        self.role: Callable[..., ServerRole] = partial(ServerRole, self)
        self.sessions: dict[Peer, OpenSession] = {}
        # Groups that have had an entry, or that were declared. Removing the last entry of a group
        # does not remove the group.
        self._offered: set[str] = set()
        self._late: dict[str, Feature] = {}
        self.loaded: Callable[[str], Any] = self._late.get
        self._tables: dict[str, Table[Any]] = {}
        self._routes: dict[str, Destination] = {}
        # Methods that are served in every revision: custom methods, and those of extensions.
        self._unspecified: frozenset[str] = frozenset()
        config.features = []
        config.option_specs = {}
        config.feature = self.feature
        if config.executor is not None or config.on_pump_needed is not None:
            executors = self.feature("executors")
            config.executor = executors.find(config.executor)
        self.add_feature(Logging(self.offers))
        tools = Tools(self.offers)
        self.tools = tools.table
        self.add_feature(tools)
        if config.processes is not None:
            self.feature("subscriptions")  # it receives the messages of other processes
        if config.limits.call_rate is not None:
            self.feature("rates")
        if config.limits.notification_rate is not None:
            load("engine.rates")  # an ImportError must not wait for the first request
        if config.visible is not None or config.lists != "all":
            self.feature("visibility")
        self.note_offered(each for each in config.capabilities if each in CAPABILITIES)

    # ------------------------------------------------------------ features

    def feature(self, name: str) -> Any:
        """Return one of `FEATURES`; load it first if necessary."""
        found = self._late.get(name)
        if found is not None:
            return found
        with changing:
            if name not in self._late:
                place = FEATURES[name]
                made: Feature = getattr(load(place.module), place.name)(self)
                self._late[name] = made
                self.add_feature(made)
            return self._late[name]

    def add_feature(self, feature: Feature) -> None:
        """Add a feature, whose methods are then served."""
        with changing:
            self.config.features.append(feature)
            for table in feature.tables:
                self._tables[table.kind] = table
            specs = feature.options
            if not isinstance(specs, Mapping):
                specs = dict.fromkeys(specs, OptionSpec())
            self.config.option_specs.update(specs)
            for peer, session in list(self.sessions.items()):
                feature.opened(peer, session)
            self.refresh_routes()

    def refresh_routes(self) -> None:
        """Find the routes again, after a change of what is offered."""
        with changing:
            self._find_routes()

    def _find_routes(self) -> None:
        routes: dict[str, Destination] = {
            "initialize": Route(self._initialize, immediate=True),
            "ping": Route(_ping, immediate=True),
            "server/discover": Route(self._discover, immediate=True),
        }
        unspecified: set[str] = set()
        features = list(self.config.features)
        for feature in features:
            if feature.capability is not None and not self.offers(feature.capability):
                continue
            served = feature.routes()
            routes.update(served)
            if feature.identifier:
                unspecified.update(served)
        unspecified.update(set(routes).difference(SPECIFIED_METHODS))
        for feature in features:
            for method in feature.refreshed_by:
                route = routes.get(method)
                if isinstance(route, Route):
                    routes[method] = Route(partial(_around_list, feature, route))
        self._unspecified = frozenset(unspecified)
        self._routes = routes

    # ------------------------------------------------------------ requests

    def route(self, request: Request, peer: Peer) -> Route:
        """Return the route of a request.

        Raises:
            MethodNotFound: The revision does not have the method, or the server does not offer it.
            InvalidParams: The request names an unknown entry.
        """
        method = request.method
        destination = self._routes.get(method)
        if destination is None or not (
            method in peer.revision.requests_to_server or method in self._unspecified
        ):
            destination = self._late_destination(method, peer)
        if isinstance(destination, Route):
            return destination
        return destination(request.params, peer)

    def _late_destination(self, method: str, peer: Peer) -> Destination:
        """Return the destination of a method whose feature is not loaded yet.

        Raises:
            MethodNotFound: The method is unknown or not offered.
        """
        if method not in peer.revision.requests_to_server:
            known = [*peer.revision.requests_to_server, *self._unspecified]
            raise MethodNotFound(unknown_method(method, known))
        if method in METHOD_FEATURES:
            self.feature(METHOD_FEATURES[method])
            return self._routes[method]
        kind = method.partition("/")[0]
        for capability in CAPABILITIES:
            if capability.startswith(kind):
                raise MethodNotFound(f"{method}: this server does not declare {capability}")
        raise MethodNotFound(f"Method not found: {one_line(method)}")

    def has_method(self, method: str) -> bool:
        """Return whether a method is one of the specification or of this server."""
        return method in SPECIFIED_METHODS or method in self._routes

    def _initialize(self, incoming: IncomingRequest) -> dict[str, Json]:
        config = self.config
        revision = incoming.peer.revision
        info = {
            name: value
            for name, value in config.info.items()
            if name in revision.implementation_members
        }
        capabilities = self.capabilities(revision, incoming.principal)
        return {
            "protocolVersion": revision.name,
            "capabilities": capabilities,
            "serverInfo": info,
            **config.guide,
        }

    def _discover(self, incoming: IncomingRequest) -> dict[str, Json]:
        config = self.config
        revision = incoming.peer.revision
        capabilities = self.capabilities(revision, incoming.principal)
        result = {"supportedVersions": list(self.supported.names), "capabilities": capabilities}
        return config.finalize_result({**result, **config.hints, **config.guide}, revision)

    # ------------------------------------------------------------ what is offered

    def offers(self, kind: str) -> bool:
        """Return whether entries of this kind ("tools") are offered.

        Any handler may log, so logging is offered with the first entry.
        """
        if kind == "logging":
            return self.config.logging and not self._offered.isdisjoint(("logging", *ENTRY_GROUPS))
        return kind in self._offered

    def note_offered(self, kinds: Iterable[str]) -> None:
        """Offer entries of these kinds from now on, and load their features."""
        found = set(kinds)
        if found <= self._offered.intersection(LISTS):
            return  # neither features nor routes change
        self._offered.update(found)
        for capability in CAPABILITIES:
            if capability in FEATURES and self.offers(capability):
                self.feature(capability)
        self.refresh_routes()

    def capabilities(self, revision: Revision, principal: Optional[str] = None) -> dict[str, Json]:
        """Return the capabilities to declare.

        Args:
            revision: The client's revision.
            principal: The authenticated principal, or None.
        """
        announced = self.config.capabilities
        declared = {name: value for name, value in announced.items() if name not in CAPABILITIES}
        for feature in list(self.config.features):
            added = dict(feature.declare(revision, principal))
            if added and feature.identifier:
                added.setdefault("extensions", {feature.identifier: dict(feature.settings)})
            for name, members in added.items():
                more = declared.get(name, announced.get(name))
                if members is not None:
                    declared[name] = {**(more if isinstance(more, Mapping) else {}), **members}
        # Sorted, so that the order does not depend on when features were loaded.
        return {name: declared[name] for name in sorted(declared, key=_place_of)}

    def add(
        self, kind: str, function: Callable[..., Any], options: Mapping[str, Any], *key: str
    ) -> tuple[str, str]:
        """Register a function; return the arguments for `remove`.

        Args:
            kind: The name of the decorator: "tool", "resource", "prompt", "method", ...
            function: The author's function.
            options: The options of the decorator.
            key: The URI or URI template of a resource, or the name of a method; omitted for other
                kinds.

        Raises:
            TypeError, ValueError, ImportError: See the decorators of `Server`.
        """
        feature = self._maker(kind, function)
        if kind in OPTIONS and not options.keys() <= OPTIONS[kind].__annotations__.keys():
            article = "an" if kind[0] in "aeiou" else "a"
            problem = f"{source_location(function)}: {article} {kind} has no option"
            check_names(options, OPTIONS[kind].__annotations__, problem, "{}=")
        made = feature.makers[kind](self.config, function, options, *key)
        table = self._tables[made.kind]
        table.add(made, replace=options.get("replace", False))
        if made.definition is not None and not made.definition.description:
            table.warn_once(made.key, "has no description: a model sees only its name")
        if isinstance(made, RegisteredFunction):
            for doubt in made.signature.doubts:
                table.warn_once(made.key, f"{doubt}: {source_location(function)}")
        feature.added(made)
        self._changed(table.group, made)
        return table.kind, made.key

    def _maker(self, kind: str, function: Callable[..., Any]) -> Feature:
        """Return the feature that creates the entries of a decorator.

        Raises:
            TypeError: The server has no such feature.
        """
        if kind in MAKERS:
            self.feature(MAKERS[kind])
        for feature in self.config.features:
            if kind in feature.makers:
                return feature
        extension = extension_with(kind)
        advice = "belongs in an Extension"
        if extension is not None:
            advice = f"needs Server(..., extensions=[{extension}()])"
        raise TypeError(f"{source_location(function)} is marked as {kind}, which {advice}")

    def warn_if_empty(self) -> None:
        """Log a warning if there is nothing to serve, with the likely cause."""
        has_extensions = any(each.identifier for each in self.config.features)
        if has_extensions or not self._offered.isdisjoint(ENTRY_GROUPS):
            return
        log.warning(
            "the server %r has no tools, resources or prompts. If they are registered in a file"
            " that imports this one, there are two servers: a script that is run and also imported"
            " exists twice. Create the server in its own file, and import it in both",
            self.config.info["name"],
        )

    def remove(self, kind: str, name: str) -> None:
        """Remove a tool, a resource, a template or a prompt. Running calls continue.

        Raises:
            KeyError: No entry has this name.
        """
        if kind in MAKERS:
            self.feature(MAKERS[kind])
        templates = self._tables.get("resource template")
        if kind == "resource" and templates is not None and templates.get(name) is not None:
            kind = templates.kind
        table = self._tables[kind]
        removed = table.get(name)
        table.remove(name)
        self._changed(table.group, removed)

    def _changed(self, group: str, entry: Any) -> None:
        """Record that an entry was added or removed, and notify clients."""
        self.note_offered((group, "completions") if entry.completes else (group,))
        self.announce_change(group, entry)

    def announce_change(self, group: str, entry: Any = None) -> None:
        """Notify the clients of this server, and of servers that mount it, that a list has changed.

        Args:
            group: The kind of list.
            entry: The entry that was added or removed. Clients from which it is hidden are not
                notified. If None, all are notified.
        """
        self.list_changed(group, entry)
        mounting = self.loaded("mounting")
        if mounting is not None:
            mounting.changed(group)

    def list_changed(self, group: str, entry: Any = None) -> None:
        """Notify the clients of this server that a list has changed, see `announce_change`."""
        if self.sessions or "subscriptions" in self._late:
            self.feature("subscriptions").list_changed(group, entry)

    def tables(self) -> list[Table[Any]]:
        """Return the tables of all entries."""
        return list(self._tables.values())

    def refresh_tables(self, group: str) -> None:
        """Update the tables of a group after a change in a mounted server. The caller holds
        `changing`."""
        for table in self._tables.values():
            if table.group == group:
                table.refresh()

    def resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource, here and in the servers that mount this one."""
        registries = [self]
        if "mounting" in self._late:
            registries += self.feature("mounting").above()
        for registry in registries:
            subscriptions = registry.loaded("subscriptions")  # None: nobody has subscribed
            if subscriptions is not None:
                subscriptions.resource_updated(uri)

    # ------------------------------------------------------------ sessions

    def open_session(
        self,
        peer: Peer,
        post: Callable[[Line], None],
        uris: Iterable[str] = (),
        *,
        is_paused: bool = False,
    ) -> None:
        """Register a session that begins. Its client is notified of the lists that are declared
        now.

        Args:
            peer: The client.
            post: Enqueues a line for the client.
            uris: The resources to which the client has subscribed, at another process.
            is_paused: Whether notifications are held back until `Subscriptions.resume`.
        """
        with changing:
            lists = tuple(kind for kind in LISTS if self.offers(kind))
            session = OpenSession(post, lists, tuple(uris), is_paused)
            self.sessions[peer] = session
            for feature in list(self.config.features):
                feature.opened(peer, session)

    def begin_session(self, peer: Peer) -> None:
        """Record that a client has sent `notifications/initialized`."""
        with changing:
            set_initialized(peer)
            for feature in list(self.config.features):
                feature.notified(INITIALIZED, peer)

    def close_session(self, peer: Peer) -> None:
        """Unregister a session that has ended. Idempotent."""
        self.sessions.pop(peer, None)
        for feature in list(self.config.features):
            feature.closed(peer)

    def drain(self, sink: Sink) -> None:
        """End everything that would stay open on a connection or response that is about to end."""
        for feature in list(self.config.features):
            feature.draining(sink)


class Logging(Feature):
    """Log messages to clients: the minimum level that a client wants. `Context.log` sends them.

    https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging

    Args:
        offers: `Registry.offers`.
    """

    capability = "logging"

    def __init__(self, offers: Callable[[str], bool]) -> None:
        self._offers = offers

    def routes(self) -> Mapping[str, Destination]:
        """Return the route of `logging/setLevel`."""
        return {"logging/setLevel": Route(_set_level, immediate=True)}

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Declare logging, if handlers may log."""
        return {"logging": {}} if self._offers("logging") else {}


def _set_level(incoming: IncomingRequest) -> dict[str, Json]:
    incoming.peer.log_rank = log_rank(incoming.request.params.get("level"))
    return {}


def _place_of(capability: str) -> int:
    return CAPABILITIES.index(capability) if capability in CAPABILITIES else len(CAPABILITIES)


def _ping(incoming: IncomingRequest) -> dict[str, Json]:
    return {}


def _around_list(feature: Feature, route: Route, incoming: IncomingRequest) -> Any:
    return feature.around_list(incoming, partial(route.handle, incoming))


class ServerRole(ConnectionRole):
    """The server's side of one connection, or of one HTTP session.

    Args:
        registry: The server's registry.
        later: Enqueues a line for the client; None if notifications of changes cannot be sent.
        end: Closes the connection when its running requests have finished.
        on_lost: Called when the connection has ended, on the thread that noticed it. It must not
            block.
    """

    answers_invalid = True

    # Whether change notifications are held back until `Subscriptions.resume`, because other
    # processes serve the session, too.
    is_shared = False

    def __init__(
        self,
        registry: Registry,
        later: Optional[Callable[[Line], None]] = None,
        end: Callable[[], None] = lambda: None,
        on_lost: Callable[[ServerRole], None] = lambda role: None,
    ) -> None:
        self._registry = registry
        self.later = later
        self.end = end
        self._on_lost = on_lost
        self.negotiation = Negotiation(registry.supported)
        self.server = registry.config
        self._shut_down = False

    def ping(self) -> Optional[tuple[str, MakeParams]]:
        """Return the request for a ping, or None before a handshake. See `ConnectionRole.ping`."""
        return None if self.negotiation.era is None else ("ping", lambda id: {})

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Whether arrays of messages are accepted in the current state of the session."""
        return self.negotiation.takes_batches

    @property
    def error_without_id(self) -> bool:  # type: ignore[override]
        """The form of an error response to a request whose id could not be read."""
        return self.negotiation.error_without_id

    def admit(self, request: Request) -> tuple[Peer, Route]:
        if self._shut_down:
            raise InvalidRequest("this session was shut down")
        before = self.negotiation.era
        peer = self.negotiation.admit(request)
        if request.method == "initialize":
            if before is not None:
                self._registry.close_session(before.peer)
            if self.later is not None:
                self._registry.open_session(peer, self.later, is_paused=self.is_shared)
        elif request.method == PARAPHRASE_SHUTDOWN and before is not None and peer is before.peer:
            self._shut_down = True
            return peer, Route(self._end, immediate=True)
        if "requestState" in request.params:
            find_route = partial(self._registry.route, request, peer)
            return peer, load("features.input_rounds").retry_route(find_route, request, peer)
        return peer, self._registry.route(request, peer)

    def restore(self, peer: Peer, uris: Iterable[str]) -> None:
        """Continue a session that another process has opened.

        Args:
            peer: The client.
            uris: The resources to which the client has subscribed.
        """
        self.negotiation.era = Handshake(peer.revision, peer)
        if self.later is not None:
            self._registry.open_session(peer, self.later, uris, is_paused=self.is_shared)

    def begin(self, peer: Peer) -> None:
        """Handle `notifications/initialized`, which the client has sent here or to another
        process."""
        self._registry.begin_session(peer)

    def _end(self, incoming: IncomingRequest) -> Any:
        """Respond to a shutdown request, and then close the connection when running requests
        finish."""

        def end() -> None:
            incoming.sink.respond(incoming, encode(Response(incoming.request.id, {})))
            self.end()

        incoming.sink.spawn(end)
        return DEFERRED

    def notified(self, notification: Notification) -> None:
        era = self.negotiation.era
        if notification.method == INITIALIZED.method and era is not None:
            self.begin(era.peer)
            return
        peer = None if era is None else era.peer
        for feature in list(self.server.features):
            if feature.notified(notification, peer):
                return
        log.debug("<-- %s: ignored", notification.method)

    def on_draining(self, sink: Sink) -> None:
        self._registry.drain(sink)

    def connection_lost(self, cause: ConnectionLost) -> None:
        if self.negotiation.era is not None:
            self._registry.close_session(self.negotiation.era.peer)
        self._on_lost(self)
