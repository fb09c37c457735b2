"""What the features of one server share: its configuration, what serves one thing, and tables of
things."""

from __future__ import annotations

import logging
import threading
from copy import copy
from dataclasses import dataclass, field
from functools import partial
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
)

from ..engine.limits import Limits
from ..engine.requests import IncomingRequest, OnEnd, Route
from ..engine.store import Store
from ..engine.timer import Timeout
from ..errors import InvalidParams, ToolError, logger, one_line
from ..features.executors import Executor, Main, executor_of, route_to
from ..features.input_rounds import WaitingHandlers, end_round, resume, url_required
from ..protocol.lifecycle import SERVER_KEY, lacks
from ..protocol.messages import Json, to_json
from ..protocol.versions import Revision
from ..schema.mismatch import described, nearest, plain_json
from ..schema.signature import read_signature
from ..stores.processes import Processes
from .context import Context
from .options import check_options, name_of, required, where

if TYPE_CHECKING:
    from ..engine.shares import Shares
    from ..features.input_rounds import States

log = logger("minimcp.registered")

CallNext = Callable[[], Any]
Middleware = Callable[[Context, CallNext], Any]


@dataclass(eq=False, repr=False)
class ServerConfig:
    """Configuration that all features of one server share; requests carry it as ``server``.

    Args, of which those that are not named here are explained by `Server`:
        info: How the server describes itself, as it goes over the wire.
        owner: The `Server`, for ``ctx.server``.
        executor: Where handlers run that name no executor; None is the pool of workers.
        main: Where ``executor="main"`` runs.
        executors: Those in use, by this server's handlers or by those of servers that it mounts.
        states: Seals what clients carry between the rounds of a request; None where nothing asks.
        waiting: The handlers that wait for answers of their clients.
        capabilities: Kinds that count as registered from the start, each with what else is declared
            of it; and others.
        middleware: The outermost first.
        extensions: The `Extension` objects that it serves.
        store: Keeps what outlives a request; None for memory.
        processes: Those that share the store; None where none do.
        audience: What the server's tokens are for; empty if it asks for none.
        tasks: Runs calls of tools as tasks; None where nothing does.
        on_end: Told of each request that ends; None tells nobody. As for `RunningRequests`.
        auth: The `Bearer` of the server; None admits everybody.
        ping_interval: Seconds between two pings of an idle client; None sends none.
        trusted_proxies: As of `HttpOptions`.
        read_resource: Set by the registry.
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
    executor: Optional[Executor] = None
    main: Main = field(default_factory=Main)
    executors: set[Executor] = field(default_factory=set)
    states: Optional[States] = None
    waiting: WaitingHandlers = field(default_factory=WaitingHandlers)
    check_replay: bool = False
    limits: Limits = field(default_factory=Limits)
    capabilities: Mapping[str, Json] = field(default_factory=dict)
    extensions: list[Any] = field(default_factory=list)
    middleware: list[Middleware] = field(default_factory=list)
    store: Optional[Store] = None
    processes: Optional[Processes] = None
    audience: tuple[str, ...] = ()
    tasks: Any = None
    on_end: Optional[OnEnd] = None
    auth: Any = None
    ping_interval: Optional[float] = None
    trusted_proxies: Iterable[str] = ()
    read_resource: Callable[[IncomingRequest, str, Context], Any] = field(init=False)

    def __post_init__(self) -> None:
        self._shares: Optional[Shares] = None
        self.hints = {"ttlMs": int(self.list_ttl * 1000), "cacheScope": self.list_cache_scope}
        self.guide = {} if self.instructions is None else {"instructions": self.instructions}
        self._stamp = {SERVER_KEY: dict(self.info)}
        # What ends a result that is JSON text, by ``Revision.result_type``.
        self.closing = {
            True: f',"resultType":"complete","_meta":{to_json(self._stamp)}}}',
            False: "}",
        }

    @property
    def shares(self) -> Shares:
        """What each client occupies of the limits over HTTP."""
        if self._shares is None:
            from ..engine.shares import Shares

            self._shares = Shares(self.limits, self.auth, self.trusted_proxies)
        return self._shares

    def renew_shares(self) -> None:
        """Begin without clients in a forked process."""
        if self._shares is not None:
            self._shares.renew_in_fork()

    def closed(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """The same for a result that is an object; the handler's own members win."""
        if not revision.result_type:
            return result
        own = result.get("_meta")
        meta = {**self._stamp, **own} if isinstance(own, dict) else self._stamp
        return {"resultType": "complete", **result, "_meta": meta}


# Options of tools that an extension makes something of, with what has to be given for it.
OF_EXTENSIONS = {"task": "Tasks()", "ui": "Apps()", "visibility": "Apps()"}


# ------------------------------------------------------------ registered things


class Registered:
    """One tool, resource, template, prompt or method, as one server offers it; one that mounts that
    offers a copy.

    A subclass calls the function (`call`), and makes its value a result (`result`) or its exception
    one (`failed`).

    Args:
        config: Of the server.
        function: What the author wrote.
        key: What requests name it by.
        executor: Where it runs; None takes the server's.
        timeout: Seconds it may run; None sets no limit.

    Attributes:
        shown: How it is listed.
        scopes: What the token of a request needs for it over HTTP.
        origin: What this is a copy of.
        middleware: Of this server, and of those through which it is mounted; the outermost first.
    """

    # What it is, for messages and as the name of its table: "prompt".
    kind: str

    shown: Any = None
    scopes: tuple[str, ...] = ()

    def __init__(
        self, config: ServerConfig, function: Callable[..., Any], key: str,
        executor: Optional[Executor] = None, timeout: Optional[float] = None,
    ) -> None:  # fmt: skip
        self.config, self.function, self.key, self.timeout = config, function, key, timeout
        self.executor = executor or config.executor
        self.middleware: tuple[list[Middleware], ...] = (config.middleware,)
        self.origin = self
        self._find_route()

    @property
    def owner(self) -> str:
        """What messages call it."""
        return f"{self.kind} {self.key!r}"

    def _find_route(self) -> None:
        self.route = route_to(self.handle, self.executor)
        queue = self.route.start
        if queue is not None and self.timeout is not None:

            def start(incoming: IncomingRequest) -> None:
                # a queue that nobody takes the request out of does not keep the client waiting
                # either
                incoming.timeout = self._countdown("begin", incoming)
                queue(incoming)

            self.route = Route(self.handle, start=start)

    def offered_by(self: R, config: ServerConfig, prefix: str) -> R:
        """A copy for a server that mounts this one.

        Args:
            config: Of that server.
            prefix: What its name begins with there; empty where it keeps what it has.
        """
        twin = copy(self)
        twin.config, twin.middleware = config, (config.middleware, *self.middleware)
        if prefix:
            twin.shown = copy(self.shown)
            twin.key = twin.shown.name = prefix + self.key
        twin._find_route()
        return twin

    def handle(self, incoming: IncomingRequest) -> Any:
        """Serve one request: the function with the middleware round it, and the result for the
        wire.

        Raises:
            InvalidParams: What the client answers has a wrong form, or its state is none of this
                server's.
            BaseException: Whatever `failed` raises.
        """
        params = incoming.request.params
        if "requestState" in params or "inputResponses" in params:
            resume(incoming, self.function)
        if incoming.timeout is not None:
            incoming.timeout.stop()
        if self.timeout is not None:
            incoming.timeout = self._countdown("finish", incoming)
        result, left, returned = None, None, False
        try:
            if any(self.middleware):
                value = self.run(Context(incoming), partial(self.call, incoming))
            else:
                value = self.call(incoming)
            returned = True
            result = self.result(value, incoming)
        except BaseException as error:
            try:
                url_required(incoming, error)
                result = self.failed(error, incoming, returned)
            except BaseException as other:
                left = other
        finally:
            if incoming.timeout is not None:
                incoming.timeout.stop()
        if left is None and incoming.asker is None:
            return result
        return end_round(incoming, self.handle, result, left)

    def run(self, context: Context, call: CallNext) -> Any:
        """What the outermost middleware returns or raises; what is registered meanwhile counts for
        later requests."""
        for function in reversed([function for layer in self.middleware for function in layer]):
            call = partial(function, context, call)
        return call()

    def call(self, incoming: IncomingRequest) -> Any:
        """Call the function for a request; it may raise anything."""
        raise NotImplementedError

    def result(self, value: Any, incoming: IncomingRequest) -> Any:
        """The result for what the function or the middleware returned: an object, or JSON text."""
        raise NotImplementedError

    def listed(self, revision: Revision) -> dict[str, Json]:
        """As it stands in a list of a revision."""
        raise NotImplementedError

    def failed(self, error: BaseException, incoming: IncomingRequest, returned: bool) -> Any:
        """The result for an exception; raised where it is an error of the protocol.

        Args:
            error: What was raised.
            incoming: The request.
            returned: Whether the function had returned: then its value was wrong.
        """
        raise error

    # ------------------------------------------------------------ its time

    def _countdown(self, what: str, incoming: IncomingRequest) -> Timeout:
        """Answers when the time is over, unless it is stopped."""
        assert self.timeout is not None
        text = f"{self.key} did not {what} within {self.timeout:g} s"

        def expire() -> None:
            result = incoming.run_in_context(self.failed, ToolError(text), incoming, False)
            incoming.expire(result, text)

        return Timeout(self.timeout, expire)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key!r} = {where(self.function)}>"


R = TypeVar("R", bound=Registered)


class RegisteredFunction(Registered):
    """A tool, a prompt, a resource or a template of them: what the author's function and options
    say of each alike.

    Args:
        config: Of the server.
        function: What the author wrote.
        options: What he said of it.
        uri: What requests name it by; None takes its name.

    Raises:
        TypeError: It cannot be a handler as it is written; the message says what to write instead.
        ValueError: An option has a value that it cannot have, or ``requires`` names no capability.
    """

    # Classes whose instances are no values: what the function returns of them is sent as it is.
    returned_as_is: ClassVar[tuple[type, ...]]
    # Those of them that cannot stand in a list.
    returned_alone: ClassVar[tuple[type, ...]]

    def __init__(
        self,
        config: ServerConfig,
        function: Callable[..., Any],
        options: Mapping[str, Any],
        uri: Optional[str] = None,
    ) -> None:
        self.options, content = options, self.returned_as_is
        self.signature = read_signature(
            function,
            context_type=Context,
            owner=where(function),
            content_types=content,
            alone_types=self.returned_alone,
            strict=config.strict_schemas,
        )
        name = name_of(function, options.get("name"), self.kind)
        key = name if uri is None else uri
        check_options(options, f"{self.kind} {key!r}: ")
        for option, way in OF_EXTENSIONS.items():
            if options.get(option) is not None and not any(
                option in each.options for each in config.extensions
            ):
                raise ValueError(
                    f"{self.kind} {key!r}: {option}= needs Server(..., extensions=[{way}])"
                )
        executor = executor_of(options.get("executor"), config.executors)
        super().__init__(config, function, key, executor, options.get("timeout"))
        self.requires = required(options, self.owner)
        said = options.get("description")
        self._listing: dict[str, Any] = {
            each: options.get(each) for each in ("title", "icons", "meta")
        }
        for extension in config.extensions:
            added = extension.listing(self.kind, key, options)
            if added:
                self._listing["meta"] = {**(self._listing["meta"] or {}), **added}
        self._listing.update(
            name=name, description=self.signature.description or None if said is None else said
        )

    def show(self, cls: Callable[..., Any], **members: Any) -> None:
        """Set how it is listed.

        Raises:
            TypeError, ValueError: A member cannot be what the author said, or is not JSON: one
                such member would make the whole list unreadable.
        """
        try:
            self.shown = cls(**self._listing, **members)
            names = {member: name for name, member, *_ in self.shown._plan}
            wire = {
                member: plain_json(value, names.get(member, member))
                for member, value in self.shown.to_wire().items()
            }
            self.shown = type(self.shown).from_wire(wire)  # which the author cannot change any more
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.owner}: {error}") from error

    def check_required(self, incoming: IncomingRequest) -> None:
        """Refuse a request whose client lacks a capability that the function needs.

        Raises:
            CapabilityNotSupported: It does.
        """
        for name in self.requires:
            if not incoming.peer.supports(name):
                raise lacks(name, self.owner, incoming.peer.revision)


def only(wire: Mapping[str, Json], members: Any) -> dict[str, Json]:
    """An object with the members that a revision knows."""
    return {name: member for name, member in wire.items() if name in members}


# Held while any table changes: servers mount each other. A signal handler may change one in the
# midst of another.
changing = threading.RLock()


class Table(Generic[R]):
    """Things by what requests name them by, in order of registration; those of mounted servers come
    last. Thread-safe.

    A server's own thing comes before a mounted one of its name, and what was mounted first before
    what came later.

    Args:
        kind: What they are, for messages: "prompt".
        group: What a client is told to have changed with them: "prompts".
        member: The name of the list in the result of the method that lists them; empty where none
            does.
        normalize: Writes names that mean the same in one way.

    Attributes:
        items: All of them, by normalized name.
    """

    def __init__(
        self, kind: str, group: str, member: str = "", *, normalize: Callable[[str], str] = str
    ) -> None:
        self.kind, self.group, self._member = kind, group, member
        self._normalize = normalize
        self.items: dict[str, R] = {}
        self.mounts: list[tuple[Table[R], str, ServerConfig]] = []
        self._own = self.items
        self._told: set[tuple[str, str]] = set()
        self._pages: dict[tuple[str, Optional[str]], str] = {}

    def add(self, thing: R, *, replace: bool) -> None:
        """Register something.

        Raises:
            ValueError: The name is taken, and `replace` is false.
        """
        with changing:
            if not replace:
                self.refuse_taken(thing.key, thing, ". Give one another name, or say replace=True")
            self._own[self._normalize(thing.key)] = thing
            self.refresh()

    def remove(self, name: str) -> None:
        """Take something away that was registered here.

        Raises:
            KeyError: There is none of this name.
        """
        with changing:
            if self._own.pop(self._normalize(name), None) is None:
                raise KeyError(self.unknown(name))
            self.refresh()

    def get(self, name: str) -> Optional[R]:
        """Return what has this name or one that means the same, or None."""
        return self.items.get(self._normalize(name))

    def warn_once(self, name: str, problem: str, to: logging.Logger = log) -> None:
        """Log what could be better."""
        if (name, problem) not in self._told:
            self._told.add((name, problem))
            to.warning("%s %s %s", self.kind, name, problem)

    def unknown(self, name: Any) -> str:
        """The message about a name that is none of these, with the one that was probably meant. Its
        cost is bounded."""
        near = nearest(name, [thing.key for thing in list(self.items.values())])
        return f"Unknown {self.kind}: {one_line(name)}" + (
            f", did you mean {one_line(near)}?" if near else ""
        )

    def route(self, params: Mapping[str, Json]) -> Route:
        """Where a request goes that names one of these.

        Raises:
            InvalidParams: It names none, or its arguments are no object.
        """
        name, arguments = params.get("name"), params.get("arguments")
        thing = self.items.get(name) if type(name) is str else None
        if thing is None:
            raise InvalidParams(self.unknown(name) if isinstance(name, str) else "name is a string")
        if arguments is not None and type(arguments) is not dict:
            raise InvalidParams(f"arguments is an object, not {described(arguments)}")
        return thing.route

    def refuse_taken(self, name: str, thing: R, advice: str = "") -> None:
        """Refuse something under a name that something else has here.

        Raises:
            ValueError: It has; the message names both.
        """
        taken = self.get(name)
        if taken is not None and taken.origin is not thing.origin:
            first = "" if taken.key == name else f"as {taken.key!r}, "
            both = f"{first}{where(taken.function)}; now {where(thing.function)}"
            raise ValueError(f"the {self.kind} {name!r} exists: {both}{advice}")

    def refresh(self) -> None:
        """Something was registered or removed, here or in a table that is mounted (`changing` is
        held)."""
        if self.mounts:
            items = dict(self._own)
            for other, prefix, config in self.mounts:
                for thing in other.items.values():
                    key = self._normalize(prefix + thing.key)
                    first = items.setdefault(key, thing)
                    if first is thing:
                        items[key] = thing.offered_by(config, prefix)
                    elif first.origin is not thing.origin:
                        hidden, stays = where(thing.function), where(first.function)
                        self.warn_once(
                            prefix + thing.key, f"stands for two: {stays} stays, {hidden} is hidden"
                        )
            self.items = items
        self._pages = {}

    # ------------------------------------------------------------ the method that lists them

    def serve_page(self, incoming: IncomingRequest) -> str:
        """Serve it, by JSON text that is made once for each revision until something changes.

        Cursors are the same on every connection and in every process.

        https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination

        Raises:
            InvalidParams: The cursor is none of this server's.
        """
        config, revision, cursor = (
            incoming.server,
            incoming.peer.revision,
            incoming.request.params.get("cursor"),
        )
        pages = self._pages  # a change meanwhile begins new ones
        if (revision.name, None) not in pages:
            items = [each.listed(revision) for each in list(self.items.values())]
            size = config.page_size or len(items) or 1
            for start in reversed(
                range(0, len(items) or 1, size)
            ):  # who sees the first page sees all
                text = f'{{"{self._member}":{to_json(items[start : start + size])}'
                if start + size < len(items):
                    text += f',"nextCursor":"{self._member}:{start + size}"'
                pages[revision.name, f"{self._member}:{start}" if start else None] = text
        page = pages.get((revision.name, cursor)) if cursor is None or type(cursor) is str else None
        if page is None:
            raise InvalidParams("the cursor is none of this server's")
        hints = f",{to_json(config.hints)[1:-1]}" if revision.cache_hints else ""
        return f"{page}{hints}{config.closing[revision.result_type]}"
