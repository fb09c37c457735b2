"""What one server can do: its methods, what it declares, the servers that it mounts, and each
connection's part."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, Callable, Iterable, Mapping, Optional, Union
from weakref import WeakSet

from ..engine.connection import ConnectionRole
from ..engine.requests import (
    LATER,
    IncomingRequest,
    Line,
    MakeParams,
    Route,
    Sink,
    set_initialized,
)
from ..errors import ConnectionLost, InvalidRequest, MethodNotFound, logger, one_line
from ..features.input_rounds import go_on_or_run, is_retry
from ..features.prompts import Completions, RegisteredPrompt, TextHandler
from ..features.rates import CallRate
from ..features.resources import Readable, Resources
from ..features.subscriptions import Subscriptions
from ..protocol.lifecycle import LISTEN, Handshake, Offer, Peer, ServerSession, log_rank
from ..protocol.messages import Json, Notification, Request, Response, encode
from ..protocol.versions import REVISIONS, Revision
from ..schema.annotations import write_any
from .context import Context
from .options import OPTIONS, check_names, positions, where
from .registered import Registered, RegisteredFunction, ServerConfig, Table, changing
from .tools import (
    GOOD_NAME,
    GOOD_PARAMETER,
    ODD_NAME,
    ODD_PARAMETER,
    REPLACED,
    RegisteredTool,
)

log = logger("minimcp.server")
hosts_log = logger("minimcp.hosts")

# Between the prefix of a mounted server and a name.
SEPARATOR = "__"

# The methods of the specification, in either direction and any revision.
TAKEN = frozenset().union(
    *(each.requests_to_server | each.requests_to_client for each in REVISIONS)
)

# What names of an author's methods must not begin with: JSON-RPC's own, no requests, or an
# extension's.
KEPT_FREE = ("rpc.", "notifications/", "tasks/")

# What stands in the capabilities for each kind that is offered.
DECLARED: Mapping[str, Mapping[str, Json]] = {
    "logging": {},
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}

# What an author registers.
CHANGING = ("tools", "prompts", "resources", "methods")

# No method of the specification, whose sessions end with their connection; a widely read paraphrase
# of it has it.
SHUTDOWN = "shutdown"

# Where the requests of a method go: a route, or what finds one for the params (it may raise an
# RpcError).
Destination = Union[Route, Callable[[Mapping[str, Json]], Route]]


class RegisteredMethod(Registered):
    """A method of an author's own, which the specification does not know."""

    kind = "method"

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Any,
        name: str,
        *,
        extension: bool = False,
    ) -> None:
        if not name or name in TAKEN or (name.startswith(KEPT_FREE) and not extension):
            raise ValueError(f"{name!r} belongs to the protocol: write a name like 'vendor/thing'")
        super().__init__(config, function, name)
        self._takes_context = positions(function, self.owner, ("params", "ctx"), least=1) == 2

    def call(self, incoming: IncomingRequest) -> Any:
        context = [Context(incoming)] if self._takes_context else []
        return self.function(incoming.request.params, *context)

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        written = {} if value is None else write_any(value)
        if not isinstance(written, dict):
            raise TypeError(
                f"the method {self.key!r} returned {type(value).__name__}: return a dict, or None"
            )
        return incoming.server.closed(written, incoming.peer.revision)


_CLASSES: Mapping[str, Callable[..., Registered]] = {
    "tool": RegisteredTool, "prompt": RegisteredPrompt, "resource": Readable, "method": RegisteredMethod
}  # fmt: skip


class Registry:
    """The methods of one server. Thread-safe.

    Args:
        config: Of the server.
        offer: The revisions that it speaks.
    """

    def __init__(self, config: ServerConfig, offer: Offer) -> None:
        self.config, self.offer = config, offer
        self.role: Callable[..., ServerRole] = partial(
            ServerRole, self
        )  # of one more connection or session
        # Kinds of which something was registered, or announced; taking the last one away changes
        # nothing.
        self._offered = {
            kind for kind in config.capabilities if kind != "logging" or config.logging
        }
        self._plain_names: dict[str, str] = {}  # to hosts: the tool that was first called so
        self._mounted: list[Registry] = []
        self._mounted_by: WeakSet[Registry] = WeakSet()
        self.subscriptions = subscriptions = Subscriptions(config, self.offers)
        # What is made of a function, by the decorator; an extension may add one.
        self.classes = dict(_CLASSES)
        self.tools: Table[RegisteredTool] = Table("tool", "tools", "tools")
        self.prompts: Table[RegisteredPrompt] = Table("prompt", "prompts", "prompts")
        self.methods: Table[RegisteredMethod] = Table("method", "methods")
        self.resources = resources = Resources(config)
        config.read_resource = resources.read
        tables: list[Table[Any]] = [
            self.tools,
            self.prompts,
            resources.table,
            resources.templates,
            self.methods,
        ]
        self._tables = {table.kind: table for table in tables}
        completions = Completions(config, self.prompts, resources.templates, resources.template)
        at_once = partial(
            Route, immediate=True
        )  # answered by the connection itself, without a worker
        # By method, also what has to be offered. Served in the revisions whose `requests_to_server`
        # has the method.
        self._destinations: dict[str, tuple[Optional[str], Destination]] = {
            "initialize": (None, at_once(self._initialize)),
            "ping": (None, at_once(lambda incoming: {})),
            "server/discover": (None, at_once(self._discover)),
            LISTEN: (None, at_once(subscriptions.listen)),
            "logging/setLevel": ("logging", at_once(_set_level)),
            "completion/complete": ("completions", completions.route),
            "prompts/list": ("prompts", at_once(self.prompts.serve_page)),
            "prompts/get": ("prompts", self.prompts.route),
            "resources/list": ("resources", at_once(resources.table.serve_page)),
            "resources/templates/list": ("resources", at_once(resources.templates.serve_page)),
            "resources/read": ("resources", resources.route),
            "resources/subscribe": ("resources", at_once(subscriptions.subscribe)),
            "resources/unsubscribe": ("resources", at_once(subscriptions.unsubscribe)),
            "tools/list": ("tools", at_once(self.tools.serve_page)),
            "tools/call": ("tools", self.tools.route),
        }
        per_second = config.limits.call_rate
        self.call_rate = rate = None if per_second is None else CallRate(config, per_second)
        if rate is not None:
            for method, find in (
                ("tools/call", self.tools.route),
                ("completion/complete", completions.route),
            ):
                self._destinations[method] = (self._destinations[method][0], rate.guarding(find))

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
            if kind is not None and kind not in self._offered and not self.offers(kind):
                raise MethodNotFound(f"{method}: this server declares no {kind}")
            return destination if isinstance(destination, Route) else destination(request.params)
        own = self.methods.items.get(method)
        for extension in self.config.extensions:
            found: Optional[Route] = extension.route(method, peer)
            if found is not None:
                return found
        if own is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        return own.route

    def has_method(self, method: str) -> bool:
        """Whether a method is one of the specification's, or the author's own."""
        return method in TAKEN or method in self.methods.items

    def _initialize(self, incoming: IncomingRequest) -> dict[str, Json]:
        config, revision = self.config, incoming.peer.revision
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
        config, revision = self.config, incoming.peer.revision
        capabilities = self.capabilities(revision, incoming.principal)
        result = {"supportedVersions": list(self.offer.names), "capabilities": capabilities}
        return config.closed({**result, **config.hints, **config.guide}, revision)

    # ------------------------------------------------------------ what is offered

    def offers(self, kind: str) -> bool:
        """Whether things of this kind ("tools") are offered; any handler may log, so logging is
        with the first."""
        if kind == "logging":
            return self.config.logging and not self._offered.isdisjoint(("logging", *CHANGING))
        return kind in self._offered

    def capabilities(self, revision: Revision, principal: Optional[str] = None) -> dict[str, Json]:
        """What is declared to a client of this revision: nothing that is not served, but for what
        the author adds.

        Args:
            revision: That it speaks.
            principal: Who was authenticated; None where nobody is.
        """
        announced = self.config.capabilities
        declared = {name: value for name, value in announced.items() if name not in DECLARED}
        for kind, members in DECLARED.items():
            if self.offers(kind) and (kind != "completions" or revision.completions_capability):
                more = announced.get(kind)
                declared[kind] = {**(more if isinstance(more, Mapping) else {}), **members}
        for extension in self.config.extensions:
            extension.declare(declared, revision, principal)
        return declared

    def static_scopes(self) -> list[str]:
        """Return each scope that something offered here needs, in the order of registration."""
        return list(
            dict.fromkeys(
                scope
                for table in self._tables.values()
                for each in list(table.items.values())
                for scope in each.scopes
            )
        )

    def add(
        self, kind: str, function: Callable[..., Any], options: Mapping[str, Any], *key: str
    ) -> tuple[str, str]:
        """Register a function; returns what `remove` takes.

        Args:
            kind: "tool", "resource", "prompt", "method" or "app".
            function: What the author wrote.
            options: What he said of it.
            key: Of a resource the URI, or the template of URIs, of a method the name; others have
                none.

        Raises:
            TypeError, ValueError, ImportError: As the decorators of a `Server` of the same names.
        """
        if kind not in self.classes:
            way = (
                "needs Server(..., extensions=[Apps()])"
                if kind == "app"
                else "belongs into an Extension"
            )
            raise TypeError(f"{where(function)} is marked as {kind}: that {way}")
        if kind in OPTIONS:
            problem = f"{where(function)}: {'an' if kind == 'app' else 'a'} {kind} has no option"
            check_names(options, OPTIONS[kind].__annotations__, problem, "{}=")
        made: Registered = self.classes[kind](self.config, function, options, *key)
        table = self._tables[made.kind]
        table.add(made, replace=options.get("replace", False))
        if made.shown is not None and not made.shown.description:
            table.warn_once(made.key, "has no description: a model has only its name to go by")
        for doubt in made.signature.doubts if isinstance(made, RegisteredFunction) else ():
            table.warn_once(made.key, f"{doubt}: {where(function)}")
        if isinstance(made, RegisteredTool):
            self._warn_of_hosts(made)
        self._changed(table.group, isinstance(made, TextHandler) and any(made.completers.values()))
        return table.kind, made.key

    def _warn_of_hosts(self, tool: RegisteredTool) -> None:
        """Log what hosts do not take of a tool: they drop it without a word."""
        if not GOOD_NAME.fullmatch(tool.key):
            self.tools.warn_once(tool.key, ODD_NAME, hosts_log)
        for name in tool.shown.input_schema.get("properties", ()):
            if not GOOD_PARAMETER.fullmatch(name):
                self.tools.warn_once(tool.key, ODD_PARAMETER.format(name), hosts_log)
        plain = re.sub(REPLACED, "_", tool.key)
        first = self._plain_names.setdefault(plain, tool.key)
        if first != tool.key and first in self.tools.items:
            problem = f"is {plain!r:.80} to some hosts, and so is {first!r:.80}: rename one"
            self.tools.warn_once(tool.key, problem, hosts_log)

    def warn_if_empty(self) -> None:
        """Log that there is nothing to serve, with the likely cause."""
        if self.config.extensions or not self._offered.isdisjoint(CHANGING):
            return
        log.warning(
            "the server %r has no tools, resources or prompts. If they are registered in a file"
            " that imports this one, there are two servers: a script that is run and also imported"
            " exists twice. Make the server in a file of its own, and import it in both",
            self.config.info["name"],
        )

    def remove(self, kind: str, name: str) -> None:
        """Take a tool, a resource, a template or a prompt away; what runs goes on.

        Raises:
            KeyError: There is none of this name.
        """
        if kind == "resource" and self.resources.templates.get(name) is not None:
            kind = "resource template"
        table = self._tables[kind]
        table.remove(name)
        self._changed(table.group)

    def _changed(self, group: str, completes: bool = False) -> None:
        """Something was registered or removed: tell the clients of this server, and of those that
        mount it."""
        self._offered.update({group, "completions"} if completes else {group})
        self.subscriptions.list_changed(group)
        for registry in self._above():
            with changing:
                for table in registry._tables.values():
                    if table.group == group:
                        table.refresh()
            registry._offered.update(self._offered.intersection((group, "completions")))
            registry.subscriptions.list_changed(group)

    def resource_updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource, here or at a server that mounts this one, that
        it has changed."""
        for registry in (self, *self._above()):
            registry.subscriptions.resource_updated(uri)

    # ------------------------------------------------------------ mounting

    def mount(self, other: Registry, prefix: str) -> None:
        """Offer what another server has, and follow its changes. It does not keep this server
        alive.

        Args:
            other: Of that server.
            prefix: What the names of its tools and prompts begin with here; resources keep their
                URIs.

        Raises:
            ValueError: A name is taken; or the other server mounts this one, or is this one.
        """
        with changing:
            if other is self or other in self._above():
                raise ValueError("a server cannot be mounted into itself")
            pairs = [
                (
                    mine,
                    other._tables[kind],
                    prefix + SEPARATOR if kind in ("tool", "prompt") else "",
                )
                for kind, mine in self._tables.items()
            ]
            for mine, theirs, start in pairs:
                for thing in theirs.items.values():
                    mine.refuse_taken(start + thing.key, thing)
            for mine, theirs, start in pairs:
                mine.mounts.append((theirs, start, self.config))
            self._mounted.append(other)
            other._mounted_by.add(self)
        for group in other._offered.intersection(CHANGING):
            other._changed(group, "completions" in other._offered)

    def _above(self) -> list[Registry]:
        """The servers that mount this one, and those that mount them; each once, the nearest first."""
        found = [self]
        for each in found:
            found += [registry for registry in list(each._mounted_by) if registry not in found]
        return found[1:]


def _set_level(incoming: IncomingRequest) -> dict[str, Json]:
    incoming.peer.log_rank = log_rank(incoming.request.params.get("level"))
    return {}


class ServerRole(ConnectionRole):
    """One connection, or one session over HTTP, as its server sees it.

    Args:
        registry: What the server can do.
        later: Has a line written some time; None where notifications of changes cannot be sent.
        end: Closes the connection when what runs has finished.
        on_end: Called when the connection has ended, on the thread that has noticed it: be quick.
    """

    answers_invalid = True

    # Whether the session is notified of changes only after `Subscriptions.resume`, because other
    # processes serve it, too.
    is_shared = False

    def __init__(
        self,
        registry: Registry,
        later: Optional[Callable[[Line], None]] = None,
        end: Callable[[], None] = lambda: None,
        on_end: Callable[[ServerRole], None] = lambda role: None,
    ) -> None:
        self._registry, self.later, self.end, self._on_end = registry, later, end, on_end
        self.session = ServerSession(registry.offer)
        self.server = registry.config
        self._shut_down = False

    def ping(self) -> Optional[tuple[str, MakeParams]]:
        """As `ConnectionRole.ping`: a client is pinged only after a handshake."""
        return None if self.session.era is None else ("ping", lambda id: {})

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Whether an array of messages may arrive now."""
        return self.session.takes_batches

    @property
    def error_without_id(self) -> bool:  # type: ignore[override]
        """How an error is written now whose request's id could not be read."""
        return self.session.error_without_id

    def admit(self, request: Request) -> tuple[Peer, Route]:
        if self._shut_down:
            raise InvalidRequest("this session was shut down")
        before = self.session.era
        peer = self.session.admit(request)
        if request.method == "initialize":
            if before is not None:
                self._registry.subscriptions.close_session(before.peer)
            if self.later is not None:
                self._registry.subscriptions.open_session(peer, self.later, paused=self.is_shared)
        elif request.method == SHUTDOWN and before is not None and peer is before.peer:
            self._shut_down = True
            return peer, Route(self._end, immediate=True)
        if "requestState" in request.params and is_retry(request, peer):
            find_route = partial(self._registry.route, request, peer)
            start: Any = partial(go_on_or_run, find_route)  # which gives it another route
            return peer, Route(start, start=start)
        return peer, self._registry.route(request, peer)

    def restore(self, peer: Peer, uris: Iterable[str]) -> None:
        """Go on with a session that another process has opened, and whose client has subscribed to
        these resources."""
        self.session.era = Handshake(peer.revision, peer)
        if self.later is not None:
            self._registry.subscriptions.open_session(peer, self.later, uris, paused=self.is_shared)

    def begin(self, peer: Peer) -> None:
        """The client has sent `notifications/initialized`, here or to another process."""
        set_initialized(peer)
        self._registry.subscriptions.begin_session(peer)

    def _end(self, incoming: IncomingRequest) -> Any:
        """Have this answered, and then the connection closed when what runs has finished."""

        def end() -> None:
            incoming.sink.respond(incoming, encode(Response(incoming.request.id, {})))
            self.end()

        incoming.sink.spawn(end)
        return LATER

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.era is not None:
            self.begin(self.session.era.peer)
        else:
            peer = None if self.session.era is None else self.session.era.peer
            if not any(
                each.notified(notification, peer) for each in self._registry.config.extensions
            ):
                log.debug("<-- %s: ignored", notification.method)

    def ending(self, sink: Sink) -> None:
        self._registry.subscriptions.end_streams(sink)
        self.server.waiting.end(sink)

    def lost(self, cause: ConnectionLost) -> None:
        if self.session.era is not None:
            self._registry.subscriptions.close_session(self.session.era.peer)
        self._on_end(self)
