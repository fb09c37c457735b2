"""The parts that the features of a server share: its configuration, the entries that an author
registers, and tables of entries.
"""

from __future__ import annotations

import threading
from copy import copy
from functools import cached_property, partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    ClassVar,
    Generic,
    Iterable,
    Mapping,
    Optional,
    TypeVar,
    Union,
)

from ..engine.incoming import DEFERRED, IncomingRequest, Route
from ..engine.limits import Limits
from ..engine.running import OnFinished
from ..engine.timer import Timeout
from ..errors import InvalidParams, RpcError, ToolError, UrlElicitationRequired
from ..log import logger
from ..protocol.lifecycle import SERVER_KEY, Peer, lacks
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from ..record import Record, declare
from ..schema.mismatch import described, nearest, plain_json
from ..schema.signature import read_signature
from ..text import one_line
from .feature import PACKAGE, READERS, Feature, OptionSpec, extension_with, load, overrides
from .options import COMMON_OPTIONS, check_options, handler_name, required, source_location

if TYPE_CHECKING:
    import logging

    from ..engine.shares import Shares
    from ..features.executors import Executor
    from ..stores.base import Store
    from ..stores.processes import Processes
    from .context import Context

log = logger("minimcp.registered")

CallNext = Callable[[], Any]
Middleware = Callable[["Context", CallNext], Any]

# The class of the parameter that receives the context. It is loaded for the first handler or
# middleware that takes one; see `Registered.make_context`.
CONTEXT = f"{PACKAGE}.server.context.Context"


class ServerConfig(Record):
    """The configuration that all features of one server share. Requests carry it as ``server``.

    The arguments that are not listed here are those of `Server`.

    Args:
        info: The server's description of itself, as on the wire.
        owner: The `Server`, for ``ctx.server``.
        executor: The default executor of handlers; None is the pool of workers. The registry
            replaces the author's object by an `Executor`.
        capabilities: Capabilities to declare from the start, each with its members. A kind of
            entry, such as "tools", then counts as registered.
        middleware: The middleware functions, the outermost first.
        processes: The processes that share the store; None if no other process shares it.
        audience: The audience of the server's tokens; empty if it does not use tokens.
        on_finished: Called for each request that finishes, see `RunningRequests`; None means no
            callback.
        wake_main: Called when a request waits for `Server.pump`.
        trusted_proxies: The proxies of `HttpOptions`.

    Attributes:
        features: The features that are loaded, set by the registry.
        feature: Returns a feature by its name; loads it if necessary. Set by the registry.
        option_specs: The options of decorators that these features read.
    """

    info: Mapping[str, Json]
    owner: Any = None
    instructions: Optional[str] = None
    logging: bool = True
    mask_errors: bool = False
    strict_arguments: bool = False
    strict_schemas: bool = False
    page_size: Optional[int] = None
    list_ttl: float = 0
    list_cache_scope: str = "private"
    executor: Any = None
    on_pump_needed: Optional[Callable[[], object]] = None
    wake_main: Callable[[], object] = bool
    state_keys: Any = None
    check_replay: bool = False
    limits: Limits = declare(factory=Limits)
    capabilities: Mapping[str, Json] = declare(factory=dict)
    middleware: list[Middleware] = declare(factory=list)
    store: Optional[Store] = None
    processes: Optional[Processes] = None
    audience: tuple[str, ...] = ()
    on_finished: Optional[OnFinished] = None
    auth: Any = None
    ping_interval: Optional[float] = None
    card: Any = None
    visible: Optional[Callable[..., Any]] = None
    lists: str = "all"
    trusted_proxies: Iterable[str] = ()
    features: list[Feature] = declare(factory=list, init=False)
    feature: Callable[[str], Any] = declare(init=False)
    option_specs: dict[str, OptionSpec] = declare(factory=dict, init=False)

    def __post_init__(self) -> None:
        self._shares: Optional[Shares] = None
        self.hints = {"ttlMs": int(self.list_ttl * 1000), "cacheScope": self.list_cache_scope}
        self.guide = {} if self.instructions is None else {"instructions": self.instructions}
        self._stamp = {SERVER_KEY: dict(self.info)}
        # The end of a result that is JSON text, by ``Revision.result_type``.
        self.result_suffix = {
            True: f',"resultType":"complete","_meta":{to_json(self._stamp)}}}',
            False: "}",
        }

    @property
    def shares(self) -> Shares:
        """The share of the limits that each HTTP client uses."""
        if self._shares is None:
            from ..engine.shares import Shares

            self._shares = Shares(self.limits, self.auth, self.trusted_proxies)
        return self._shares

    def renew_shares(self) -> None:
        """Forget all clients, in a forked child process."""
        if self._shares is not None:
            self._shares.renew_in_fork()

    def finalize_result(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """Add the members that the revision requires to a result that is an object.

        Members that the handler has set are kept. Results that are JSON text end in
        `result_suffix`.
        """
        if not revision.result_type:
            return result
        own = result.get("_meta")
        meta = {**self._stamp, **own} if isinstance(own, dict) else self._stamp
        return {"resultType": "complete", **result, "_meta": meta}


# ------------------------------------------------------------ entries


class Registered:
    """One entry: a tool, resource, template, prompt or custom method, as one server offers it.

    A server that mounts that server offers a copy. A subclass calls the function (`call`), and
    converts its value (`result`) or its exception (`failed`) to a result.

    Args:
        config: The server's configuration.
        function: The author's function.
        key: The name or URI that requests use.
        executor: The executor that runs the function; None means the server's executor.
        timeout: Maximum running time in seconds; None means no limit.

    Attributes:
        definition: The wire object that describes the entry in lists.
        options: The options that the author gave.
        completes: Whether the entry has arguments that can be completed.
        hidden_by: The features that may hide it.
        origin: The entry that this one is a copy of, or itself.
        mounted: The entry of the mounted server that this one is a copy of; None if there is none.
        middleware: The middleware of this server, and of those through which the entry is mounted;
            the outermost first.
    """

    # The kind of entry, for messages and as the name of its table: "prompt".
    kind: str

    definition: Any = None
    options: Mapping[str, Any] = {}
    completes = False
    hidden_by: tuple[Feature, ...] = ()
    mounted: Optional[Registered] = None

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        key: str,
        executor: Optional[Executor] = None,
        timeout: Optional[float] = None,
    ) -> None:
        self.config = config
        self.function = function
        self.key = key
        self.timeout = timeout
        self.executor = executor or config.executor
        self.middleware: tuple[list[Middleware], ...] = (config.middleware,)
        self.origin = self
        self._find_route()

    @property
    def owner(self) -> str:
        """The entry's name in messages: "tool 'add'"."""
        return f"{self.kind} {self.key!r}"

    def _find_route(self) -> None:
        """Set the route, including the hooks of the features that this entry uses."""
        users = [each for each in self.config.features if each.uses(self)]
        self.hidden_by = tuple(each for each in users if overrides(each, "is_listed"))
        handle = self.handle
        for feature in reversed(users):
            if overrides(feature, "around_call"):
                handle = partial(self._around, feature, handle)
        route = route_to(handle, self.executor)
        enqueue = route.enqueue
        if enqueue is not None and self.timeout is not None:

            def enqueue_with_timeout(incoming: IncomingRequest) -> None:
                # The timeout includes the time in the queue, which might never be emptied.
                incoming.timeout = self._countdown("begin", incoming)
                enqueue(incoming)

            route.enqueue = enqueue_with_timeout
        guards = [each for each in users if overrides(each, "before_call")]
        if guards or self.hidden_by:
            gate = partial(self._gate, guards)
            if any(each.blocks(self) for each in users):
                gate = partial(_gate_later, gate)
            route.gate = gate
        self.route = route
        for feature in self.config.features:
            feature.adapt(self)

    def _around(
        self, feature: Feature, call: Callable[[IncomingRequest], Any], incoming: IncomingRequest
    ) -> Any:
        return feature.around_call(self, incoming, partial(call, incoming))

    def _gate(self, guards: list[Feature], incoming: IncomingRequest) -> Route:
        """Return the route of a call after all features have decided about it."""
        chosen: Optional[Route] = None
        try:
            if self.is_hidden(incoming):
                raise self.unknown(incoming)
            for feature in guards:
                route = feature.before_call(self, incoming)
                chosen = chosen or route
        except RpcError as error:
            return Route(partial(_reject, error), immediate=True)
        return chosen or self.route

    def is_hidden(self, incoming: IncomingRequest) -> bool:
        """Return whether a feature hides this entry from the client of a request."""
        return any(not each.is_listed(self, incoming) for each in self.hidden_by)

    def serve(self, incoming: IncomingRequest) -> Any:
        """Serve a request on this thread. Used if its entry was found only when its handler ran.

        For most requests, the reader thread finds the entry and calls the gate, and a worker calls
        `handle`.
        """
        route = incoming.route = self.route
        if route.gate is not None:
            route = route.gate(incoming)
        return route.handle(incoming)

    def unknown(self, incoming: IncomingRequest) -> RpcError:
        """Return the error for a client from which the entry is hidden. It is the same error as for
        an unknown name."""
        tables = [table for each in incoming.server.features for table in each.tables]
        table = next(each for each in tables if each.kind == self.kind)
        return InvalidParams(table.unknown(incoming.request.params.get("name")))

    def copy_for(self: R, config: ServerConfig, prefix: str) -> R:
        """Return a copy for a server that mounts this one.

        Args:
            config: The configuration of that server.
            prefix: The beginning of the entry's name there; empty if the entry keeps its name.
        """
        twin = copy(self)
        twin.mounted = self
        twin.config = config
        twin.middleware = (config.middleware, *self.middleware)
        if prefix:
            twin.definition = copy(self.definition)
            twin.key = twin.definition.name = prefix + self.key
        twin._find_route()
        return twin

    def handle(self, incoming: IncomingRequest) -> Any:
        """Serve one request: run the middleware and the function, and return the result for the
        wire.

        Raises:
            InvalidParams: The client's answers have a wrong form, or the state is not from this
                server.
            BaseException: Any exception that `failed` raises.
        """
        # 1. A retry brings the answers and the state of an earlier run.
        params = incoming.request.params
        if "requestState" in params or "inputResponses" in params:
            load("features.input_rounds").resume(incoming, self.function)
        # 2. Replace the timeout for the time in the queue by the one for the run.
        if incoming.timeout is not None:
            incoming.timeout.stop()
        if self.timeout is not None:
            incoming.timeout = self._countdown("finish", incoming)
        # 3. Run the middleware and the function, and make a result from the value or exception.
        result: Any = None
        raised: Optional[BaseException] = None
        returned = False
        try:
            if any(self.middleware):
                value = self.run_middleware(
                    self.make_context(incoming), partial(self.call, incoming)
                )
            else:
                value = self.call(incoming)
            returned = True
            result = self.result(value, incoming)
        except BaseException as error:
            result, raised = self._convert(error, incoming, returned)
        finally:
            if incoming.timeout is not None:
                incoming.timeout.stop()
        # 4. If the function has asked the client, this may not be its last run.
        if incoming.asker is not None:
            return load("features.input_rounds").end_round(incoming, self.handle, result, raised)
        if raised is not None:
            raise raised
        return result

    def _convert(
        self, error: BaseException, incoming: IncomingRequest, returned: bool
    ) -> tuple[Any, Optional[BaseException]]:
        """Return the result for an exception and None, or None and the exception to raise."""
        try:
            if isinstance(error, UrlElicitationRequired):
                load("features.input_rounds").url_required(incoming, error)
            return self.failed(error, incoming, returned), None
        except BaseException as other:
            return None, other

    @cached_property
    def make_context(self) -> Callable[[IncomingRequest], Context]:
        """The class `Context`."""
        from .context import Context

        return Context

    def run_middleware(self, context: Context, call: CallNext) -> Any:
        """Run the middleware around a call. Middleware that is registered later does not affect
        it."""
        for function in reversed([function for layer in self.middleware for function in layer]):
            call = partial(function, context, call)
        return call()

    def call(self, incoming: IncomingRequest) -> Any:
        """Call the function for a request. Any exception may be raised."""
        raise NotImplementedError

    def arguments_of(self, params: Mapping[str, Json]) -> dict[str, Any]:
        """Return the function's arguments for the params of a request, without the context.

        Raises:
            Mismatch: The arguments do not match the parameters.
        """
        raise NotImplementedError

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        """Return the result for the value of the function or middleware: an object, or JSON
        text."""
        raise NotImplementedError

    def to_wire(self, revision: Revision) -> dict[str, Json]:
        """Return the entry in a list, in the form of a revision."""
        raise NotImplementedError

    def failed(self, error: BaseException, incoming: IncomingRequest, returned: bool) -> Any:
        """Return the result for an exception, or raise an exception that belongs to the protocol.

        Args:
            error: The exception.
            incoming: The request.
            returned: Whether the function had returned; then its value was wrong.
        """
        raise error

    # ------------------------------------------------------------ timeout

    def _countdown(self, what: str, incoming: IncomingRequest) -> Timeout:
        """Start a timer that answers the request when it expires."""
        assert self.timeout is not None
        text = f"{self.key} did not {what} within {self.timeout:g} s"

        def expire() -> None:
            result = incoming.run_in_context(self.failed, ToolError(text), incoming, False)
            incoming.expire(result, text)

        return Timeout(self.timeout, expire)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} = {source_location(self.function)}>"


R = TypeVar("R", bound=Registered)


class RegisteredFunction(Registered):
    """A tool, a prompt, a resource or a template: the parts that all four have in common.

    Args:
        config: The server's configuration.
        function: The author's function.
        options: The options of the decorator.
        uri: The URI that requests use; None means the entry's name.

    Raises:
        TypeError: The function cannot be a handler; the message says what to write instead.
        ValueError: An option has a value that is not accepted, or ``requires`` names an unknown
            capability.
    """

    # Classes of return values that are sent unchanged.
    returned_as_is: ClassVar[tuple[type, ...]]
    # The classes of these that cannot be in a list.
    returned_alone: ClassVar[tuple[type, ...]]

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: Optional[str] = None,
    ) -> None:
        self.options = options
        self.signature = read_signature(
            function,
            context_type=CONTEXT,
            owner=source_location(function),
            content_types=self.returned_as_is,
            alone_types=self.returned_alone,
            strict=config.strict_schemas,
        )
        name = handler_name(function, options.get("name"), self.kind)
        key = name if uri is None else uri
        self.config = config
        owner = f"{self.kind} {key!r}: "
        check_options(options, self._option_specs(owner), owner)
        executor = options.get("executor")
        if executor is not None:
            executor = config.feature("executors").find(executor)
        super().__init__(config, function, key, executor, options.get("timeout"))
        self.requires = required(options, self.owner)
        description = options.get("description")
        if description is None:
            description = self.signature.description or None
        self._definition_members: dict[str, Any] = {
            "name": name,
            "description": description,
            "title": options.get("title"),
            "icons": options.get("icons"),
            "meta": options.get("meta"),
        }
        for feature in config.features:
            added = feature.entry_meta(self.kind, key, options)
            if added:
                self._definition_members["meta"] = {
                    **(self._definition_members["meta"] or {}),
                    **added,
                }

    def _option_specs(self, owner: str) -> dict[str, OptionSpec]:
        """Return the options that the loaded features read. Load features for the given options.

        Raises:
            ValueError: An option belongs to an extension that the server does not have.
        """
        known = self.config.option_specs
        for name, value in self.options.items():
            if value is None or name in known or name in COMMON_OPTIONS:
                continue
            if name in READERS:
                self.config.feature(READERS[name])
            else:
                extension = extension_with(name)
                raise ValueError(f"{owner}{name}= needs Server(..., extensions=[{extension}()])")
        return {**COMMON_OPTIONS, **known}

    def set_definition(self, cls: Callable[..., Any], **members: Any) -> None:
        """Set the wire object that describes the entry in lists.

        Raises:
            TypeError, ValueError: A member has a wrong value or is not JSON. One such member would
                make the whole list unreadable.
        """
        try:
            self.definition = cls(**self._definition_members, **members)
            names = {member: name for name, member, *_ in self.definition._plan}
            wire = {
                member: plain_json(value, names.get(member, member))
                for member, value in self.definition.to_wire().items()
            }
            # A copy, which the author's objects can no longer change.
            self.definition = type(self.definition).from_wire(wire)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.owner}: {error}") from error

    def check_required(self, incoming: IncomingRequest) -> None:
        """Reject a request whose client lacks a capability that the function needs.

        Raises:
            CapabilityNotSupported: The client lacks a capability.
        """
        for name in self.requires:
            if not incoming.peer.supports(name):
                raise lacks(name, self.owner, incoming.peer.revision)


def route_to(handle: Callable[[IncomingRequest], Any], executor: Optional[Executor]) -> Route:
    """Return the route of a handler that runs on an executor; None is the pool of workers."""
    if executor is None:
        return Route(handle)
    return executor.route_to(handle)


def _reject(error: RpcError, incoming: IncomingRequest) -> Any:
    raise error


def _gate_later(gate: Callable[[IncomingRequest], Route], incoming: IncomingRequest) -> Route:
    """Return a route that calls a gate, which may block, on a worker and not on this thread."""

    def decide(incoming: IncomingRequest) -> Any:
        route = incoming.route = gate(incoming)
        if route.enqueue is None:
            return route.handle(incoming)
        route.enqueue(incoming)
        return DEFERRED

    return Route(decide)


def keep_members(wire: Mapping[str, Json], members: Any) -> dict[str, Json]:
    """Return the members of a wire object that a revision has."""
    return {name: member for name, member in wire.items() if name in members}


# Held while any table changes, because servers mount each other. Reentrant, because a signal
# handler may change a table in the middle of a change on the same thread.
changing = threading.RLock()


class Table(Generic[R]):
    """Entries by name or URI, in order of registration; entries of mounted servers come last.
    Thread-safe.

    If names are equal, the server's own entry comes first, then the entry that was mounted first.

    Args:
        kind: The kind of the entries, for messages: "prompt".
        group: The kind of list in change notifications: "prompts".
        member: The member of the list in results; empty if no method lists these entries.
        normalize: Maps equivalent names to the same string.
        has_prefix: Whether the names of mounted entries begin with a prefix.

    Attributes:
        items: All entries, by normalized name.
        own: The entries that were registered here.
        mounts: The tables of mounted servers, each with the prefix of its names here and the
            configuration of this server.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        member: str = "",
        *,
        normalize: Callable[[str], str] = str,
        has_prefix: bool = False,
    ) -> None:
        self.kind = kind
        self.group = group
        self.member = member
        self.normalize = normalize
        self.has_prefix = has_prefix
        self.items: dict[str, R] = {}
        self.own = self.items
        self.mounts: list[tuple[Table[R], str, ServerConfig]] = []
        self._warnings: set[tuple[str, str]] = set()
        self._pages: dict[tuple[str, Optional[str]], bytes] = {}
        self.pages_by_caller: dict[Any, str] = {}
        # Whether any entry may be hidden from some clients.
        self.is_filtered = False

    def add(self, entry: R, *, replace: bool) -> None:
        """Add an entry.

        Raises:
            ValueError: The name is taken, and `replace` is false.
        """
        with changing:
            if not replace:
                self.refuse_taken(entry.key, entry, ". Rename one of them, or write replace=True")
            key = self.normalize(entry.key)
            is_new = key not in self.own
            if entry.hidden_by:
                self.is_filtered = True  # before a list can contain it
            self.own[key] = entry
            if is_new and not self.mounts:
                self._forget_pages()  # `refresh` would look at all entries
            else:
                self.refresh()

    def remove(self, name: str) -> None:
        """Remove an entry that was registered here.

        Raises:
            KeyError: No entry has this name.
        """
        with changing:
            if self.own.pop(self.normalize(name), None) is None:
                raise KeyError(self.unknown(name))
            self.refresh()

    def get(self, name: str) -> Optional[R]:
        """Return the entry with this name or an equivalent one, or None."""
        return self.items.get(self.normalize(name))

    def warn_once(self, name: str, problem: str, to: logging.Logger = log) -> None:
        """Log a problem of an entry, once."""
        if (name, problem) not in self._warnings:
            self._warnings.add((name, problem))
            to.warning("%s %s %s", self.kind, name, problem)

    def unknown(self, name: Any) -> str:
        """Return the message for an unknown name, with the most similar name. Its cost is
        bounded."""
        text = f"Unknown {self.kind}: {one_line(name)}"
        near = nearest(name, self.public_names())
        if near:
            text += f", did you mean {one_line(near)}?"
        return text

    def public_names(self) -> list[str]:
        """Return the names that a message may suggest: those of entries that are never hidden."""
        return [each.key for each in list(self.items.values()) if not each.hidden_by]

    def route(self, params: Mapping[str, Json], peer: Peer) -> Route:
        """Return the route of a request that names an entry.

        Raises:
            InvalidParams: The name is unknown, or the arguments are not an object.
        """
        name = params.get("name")
        arguments = params.get("arguments")
        entry = self.items.get(name) if type(name) is str else None
        if entry is None:
            if not isinstance(name, str):
                raise InvalidParams("name must be a string")
            raise InvalidParams(self.unknown(name))
        if arguments is not None and type(arguments) is not dict and not entry.hidden_by:
            raise InvalidParams(f"arguments must be an object, not {described(arguments)}")
        return entry.route

    def refuse_taken(self, name: str, entry: R, advice: str = "") -> None:
        """Reject an entry whose name another entry has here.

        Raises:
            ValueError: The name is taken; the message names both functions.
        """
        taken = self.get(name)
        if taken is not None and taken.origin is not entry.origin:
            first = source_location(taken.function)
            if taken.key != name:
                first = f"as {taken.key!r}, {first}"
            second = source_location(entry.function)
            raise ValueError(
                f"the {self.kind} {name!r} already exists: {first}; defined again: {second}{advice}"
            )

    def refresh(self) -> None:
        """Update the table after a change here or in a mounted table. The caller holds
        `changing`."""
        if self.mounts:
            self.items = load("features.mounting").merged(self)
        self.is_filtered = any(each.hidden_by for each in list(self.items.values()))
        self._forget_pages()

    def _forget_pages(self) -> None:
        self._pages = {}
        self.pages_by_caller = {}

    # ------------------------------------------------------------ lists

    def serve_page(self, incoming: IncomingRequest) -> Union[bytes, str]:
        """Return one page of the list as JSON text. It is cached as bytes for each revision until a
        change, because copying a long list takes longer than everything else.

        Cursors are the same on every connection and in every process.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination

        Raises:
            InvalidParams: The cursor is not from this server.
        """
        config = incoming.server
        revision = incoming.peer.revision
        if self.is_filtered:
            page = load("features.access").page_for(self, incoming)
            return _complete(page, config, revision, {**config.hints, "cacheScope": "private"})
        cursor = incoming.request.params.get("cursor")
        pages = self._pages  # a concurrent change replaces the dict
        if (revision.name, None) not in pages:
            pages.update(self._made_pages(config, revision))
        found = None
        if cursor is None or type(cursor) is str:
            found = pages.get((revision.name, cursor))
        if found is None:
            raise InvalidParams("the cursor is not from this server")
        return found

    def _made_pages(
        self, config: ServerConfig, revision: Revision
    ) -> dict[tuple[str, Optional[str]], bytes]:
        """Return the pages of the list by revision and cursor.

        The first page is the last in the dict. A thread that finds it there finds all pages.
        """
        items = [each.to_wire(revision) for each in list(self.items.values())]
        size = config.page_size or len(items) or 1
        pages: dict[tuple[str, Optional[str]], bytes] = {}
        for start in reversed(range(0, len(items) or 1, size)):
            text = f'{{"{self.member}":{to_json(items[start : start + size])}'
            if start + size < len(items):
                text += f',"nextCursor":"{self.member}:{start + size}"'
            cursor = f"{self.member}:{start}" if start else None
            page = _complete(text, config, revision, config.hints)
            pages[revision.name, cursor] = page.encode()
        return pages


def _complete(
    page: str, config: ServerConfig, revision: Revision, hints: Mapping[str, Json]
) -> str:
    """Return a page of a list with the members of every result, given its text without the last
    brace."""
    if revision.cache_hints:
        page = f"{page},{to_json(hints)[1:-1]}"
    return f"{page}{config.result_suffix[revision.result_type]}"
