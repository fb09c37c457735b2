"""What the features of one server share: its configuration, tables of registered things, names, options and pages."""

from __future__ import annotations

import inspect
import logging
import threading
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Generic,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from ..engine.limits import Limits, check_number
from ..engine.requests import IncomingRequest, Route
from ..errors import InvalidParams, one_line
from ..protocol.lifecycle import SERVER_KEY, Peer, lacks
from ..protocol.messages import Json, to_json
from ..protocol.versions import REVISIONS, Revision
from ..schema.mismatch import nearest
from ..schema.signature import refuse_async_and_stars
from ..types import Annotations, ToolAnnotations
from ..types.meta import check_identifier
from .context import Context
from .executors import Executor, Main, route_to

if TYPE_CHECKING:
    from .input_rounds import States

log = logging.getLogger("minimcp.registered")

CallNext = Callable[[], Any]
Middleware = Callable[[Context, CallNext], Any]


@dataclass(eq=False, repr=False)
class ServerConfig:
    """Configuration that all features of one server share; requests carry it as ``server``."""

    info: Mapping[str, Json]
    """How the server describes itself, as it goes over the wire."""
    owner: Any = None
    """The `Server`, for ``ctx.server``."""
    instructions: Optional[str] = None
    logging: bool = True
    """Whether handlers may send log messages."""
    mask_errors: bool = False
    strict_arguments: bool = False
    page_size: Optional[int] = None
    list_ttl: float = 0
    list_cache_scope: str = "private"
    executor: Optional[Executor] = None
    """Where handlers run that name no executor; None is the pool of workers."""
    main: Main = field(default_factory=Main)
    """Where ``executor="main"`` runs."""
    executors: set[Executor] = field(default_factory=set)
    """Those in use, by this server's handlers or by those of servers that it mounts."""
    states: Optional[States] = None
    """Seals what clients carry between the rounds of a request; None where nothing asks."""
    check_replay: bool = False
    limits: Limits = field(default_factory=Limits)
    capabilities: Mapping[str, Json] = field(default_factory=dict)
    """Kinds that count as registered from the start, each with what else is declared of it; and other capabilities."""
    extensions: Mapping[str, Json] = field(default_factory=dict)
    middleware: list[Middleware] = field(default_factory=list)
    """The outermost first."""
    read_resource: Callable[[Context, Peer, str], Any] = field(init=False)
    """Set by the registry."""

    def __post_init__(self) -> None:
        self.hints = {"ttlMs": int(self.list_ttl * 1000), "cacheScope": self.list_cache_scope}
        self._stamp = {SERVER_KEY: dict(self.info)}
        self._closing = f',"resultType":"complete","_meta":{to_json(self._stamp)}'

    def closing(self, revision: Revision, *, listed: bool = False) -> str:
        """What ends the JSON text of every result in a revision, beginning with a comma; often empty.

        Args:
            revision: Of the request.
            listed: Whether the result is a list, which clients may cache.
        """
        text = self._closing if revision.result_type else ""
        return f",{to_json(self.hints)[1:-1]}{text}" if listed and revision.cache_hints else text

    def closed(self, result: dict[str, Json], revision: Revision) -> dict[str, Json]:
        """The same for a result that is an object; the handler's own members win."""
        if not revision.result_type:
            return result
        own = result.get("_meta")
        meta = {**self._stamp, **own} if isinstance(own, dict) else self._stamp
        return {"resultType": "complete", **result, "_meta": meta}


# ------------------------------------------------------------ registered things


def where(function: Any) -> str:
    """Where a function stands, for messages: its name (a method's with the class of its object), file and line."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    owner = getattr(function, "__self__", None)
    if code is not None and owner is not None and not isinstance(owner, type):
        name = f"{type(owner).__qualname__}.{function.__name__}"
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else str(name)


@dataclass(eq=False, repr=False)
class Registered:
    """One tool, resource, template, prompt or method, as one server offers it; one that mounts that offers a copy."""

    config: ServerConfig
    function: Callable[..., Any]
    """What the author wrote."""
    shown: Any
    """How it is listed: has a ``name``."""
    executor: Optional[Executor]
    """Where it runs; None takes the server's."""

    def __post_init__(self) -> None:
        self.executor = self.executor or self.config.executor
        self.middleware: tuple[list[Middleware], ...] = (self.config.middleware,)
        self.origin = self
        self.route = self.make_route()

    def make_route(self) -> Route:
        """Where its requests go."""
        return route_to(self.handle, self.executor)

    def handle(self, exchange: IncomingRequest) -> Any:
        """Serve one request; it may raise anything."""
        raise NotImplementedError

    def offered_as(self: R, name: Optional[str], middleware: list[Middleware]) -> R:
        """A copy for a server that mounts this one.

        Args:
            name: Its name there; None keeps what it has.
            middleware: Of that server.
        """
        twin = copy(self)
        twin.middleware = (middleware, *self.middleware)
        if name is not None:
            twin.shown = copy(self.shown)
            twin.shown.name = name
        twin.route = twin.make_route()
        return twin

    def run(self, context: Context, call: CallNext) -> Any:
        """What the outermost middleware returns or raises; what is registered meanwhile counts for later requests."""
        for function in reversed([function for layer in self.middleware for function in layer]):
            call = partial(function, context, call)
        return call()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self.shown, 'name', self.shown)!r} = {where(self.function)}>"


R = TypeVar("R", bound=Registered)

changing = threading.RLock()
"""Held while any table changes: servers mount each other. A signal handler may change one in the midst of another."""


class Table(Generic[R]):
    """Things by name, in order of registration; those of mounted servers come last. Thread-safe.

    A server's own thing comes before a mounted one of its name, and what was mounted first before what came later.

    Args:
        kind: What they are, for messages: "prompt".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.version = 0
        """Changes with every change."""
        self.items: dict[str, R] = {}
        self.mounts: list[tuple[Table[R], str, list[Middleware]]] = []
        self._own = self.items
        self._copies: dict[tuple[int, str], tuple[R, R]] = {}
        self._hidden: set[str] = set()
        self._advised: set[tuple[str, str]] = set()

    def add(self, name: str, thing: R, *, replace: bool) -> None:
        """Register something.

        Raises:
            ValueError: The name is taken, and `replace` is false.
        """
        with changing:
            taken = None if replace else self.items.get(name)
            if taken is not None:
                raise ValueError(
                    f"the {self.kind} {name!r} exists: {where(taken.function)}; now {where(thing.function)}. "
                    "Give one another name, or say replace=True"
                )
            self._own[name] = thing
            self.refresh()

    def remove(self, name: str) -> None:
        """Take something away that was registered here.

        Raises:
            KeyError: There is none of this name.
        """
        with changing:
            if self._own.pop(name, None) is None:
                raise KeyError(self.unknown(name))
            self.refresh()

    def advise(self, name: str, description: Optional[str], advice: Optional[str] = None) -> None:
        """Log what could be better, once for each name: a missing description, or what `advice` says."""
        for each in (None if description else "has no description: a model has only its name to go by", advice):
            if each is not None and (name, each) not in self._advised:
                self._advised.add((name, each))
                log.warning("%s %s %s", self.kind, one_line(name), each)

    def unknown(self, name: Any) -> str:
        """The message about a name that is none of these, with the one that was probably meant. Its cost is bounded."""
        near = nearest(name, list(self.items))
        return f"Unknown {self.kind}: {one_line(name)}" + (f", did you mean {one_line(near)}?" if near else "")

    def get(self, name: Any) -> Optional[R]:
        """The one of this name; None when there is none, or this is no name."""
        return self.items.get(name) if type(name) is str else None

    def all(self) -> list[R]:
        """All of them."""
        return list(self.items.values())

    def check_mount(self, other: Table[R], prefix: str) -> None:
        """Refuse a table of another server that has a name of this one.

        Raises:
            ValueError: It has; the message names both places.
        """
        for name, thing in other.items.items():
            taken = self.items.get(prefix + name)
            if taken is not None and taken.origin is not thing.origin:
                raise ValueError(
                    f"the {self.kind} {prefix + name!r} exists: {where(taken.function)}; "
                    f"mounted would be {where(thing.function)}"
                )

    def refresh(self) -> None:
        """Something was registered or removed, here or in a table that is mounted (`changing` is held)."""
        if self.mounts:
            items, copies, hidden = dict(self._own), {}, set()
            for number, (other, prefix, middleware) in enumerate(self.mounts):
                for inner, thing in other.items.items():
                    name, key = prefix + inner, (number, inner)
                    kept = self._copies.get(key)
                    if kept is None or kept[0] is not thing:
                        kept = (thing, thing.offered_as(name if prefix else None, middleware))
                    twin = kept[1]
                    copies[key] = kept
                    first = items.setdefault(name, twin)
                    if first.origin is not twin.origin:
                        hidden.add(name)
                        self._report_hidden(name, first, twin)
            self.items, self._copies, self._hidden = items, copies, hidden
        self.version += 1

    def _report_hidden(self, name: str, first: R, second: R) -> None:
        if name not in self._hidden:
            places = where(first.function), where(second.function)
            log.warning("two %ss %s: %s stays, %s is hidden", self.kind, one_line(name), *places)


class Pages:
    """The answers to one list method as JSON text, made once for each revision until the list changes. Thread-safe.

    https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination

    Args:
        member: The name of the list in the result: "tools".
        table: What is listed: each has ``listed(revision)``.
    """

    def __init__(self, member: str, table: Table[Any]) -> None:
        self._member, self._table = member, table
        self._kept: tuple[int, dict[tuple[str, Optional[str]], str]] = (-1, {})

    def serve(self, exchange: IncomingRequest) -> str:
        """Serve the list method.

        Raises:
            InvalidParams: The cursor is none of this server's.
        """
        config, revision, cursor = exchange.server, exchange.peer.revision, exchange.request.params.get("cursor")
        version, kept = self._kept
        if version != self._table.version:
            version, kept = self._table.version, {}
        if (revision.name, None) not in kept:
            kept.update(self._make(revision, config.page_size))
            self._kept = version, kept
        text = kept.get((revision.name, cursor)) if cursor is None or type(cursor) is str else None
        if text is None:
            raise InvalidParams("the cursor is none of this server's")
        return f"{text}{config.closing(revision, listed=True)}}}"

    def _make(self, revision: Revision, page_size: Optional[int]) -> Iterator[tuple[tuple[str, Optional[str]], str]]:
        """All pages by their cursors, which are the same on every connection and in every process."""
        items = [each.listed(revision) for each in self._table.all()]
        size = page_size or len(items) or 1
        for start in range(0, len(items) or 1, size):
            text = f'{{"{self._member}":{to_json(items[start : start + size])}'
            if start + size < len(items):
                text += f',"nextCursor":"{self._member}:{start + size}"'
            yield (revision.name, f"{self._member}:{start}" if start else None), text


# ------------------------------------------------------------ names and options


def name_of(function: Any, name: Any, kind: str) -> str:
    """The name that was given, or the function's own.

    Raises:
        TypeError: There is none, or it is no text.
        ValueError: It is empty.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{where(function)}: the name of a {kind} is text, not {name!r:.60}")
    if name == "":
        raise ValueError(f"the name of a {kind} is not empty")
    found: str = getattr(function, "__name__", "") if name is None else name
    if found == "<lambda>":
        raise TypeError(f"a lambda has no name: say name=... of the {kind}")
    if not found:
        raise TypeError(f"a {kind} needs a name: say name=...")
    return found


def meant(name: Any, known: Iterable[str], shape: str = "{}") -> str:
    """The end of a message about an unknown name: the one that was probably meant, or all that there are."""
    known = list(known)
    near = nearest(str(name), known)
    return f"did you mean {shape.format(near)}?" if near else f"there is {', '.join(known)}"


def check_names(options: Mapping[str, Any], add: Callable[..., Any], owner: str, kind: str) -> None:
    """Refuse an option that there is not.

    Args:
        options: What was given by keyword.
        add: The function that takes them all.
        owner: What messages call that which they are about.
        kind: What it becomes: "tool".

    Raises:
        TypeError: One of them is none; the message says which was probably meant.
    """
    known: Mapping[str, Any] = add.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            raise TypeError(f"{owner}: a {kind} has no option {name}=: {meant(name, known, '{}=')}")


_NONE = type(None)
_TEXT, _FLAG = ((str, _NONE), "text or None"), ((bool,), "True or False")
_MAPPING = ((Mapping, _NONE), "a mapping or None")
_SCHEMA = ((Mapping, _NONE), "a JSON Schema, which is a dict, or None")
_ICONS = ((Iterable, _NONE), "a list of Icon objects or None")
_TYPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("title", "description", "mime_type", "website_url", "instructions"), _TEXT),
    **dict.fromkeys(("version", "list_cache_scope"), ((str,), "text")),
    **dict.fromkeys(("replace", "strict_version", "strict_arguments", "accept_batches", "mask_errors"), _FLAG),
    **dict.fromkeys(("logging", "check_replay"), _FLAG),
    **dict.fromkeys(("meta", "extensions"), _MAPPING),
    **dict.fromkeys(("input_schema", "output_schema"), _SCHEMA),
    "icons": _ICONS,
    "structured": ((bool, _NONE), "True, False or None"),
    "complete": ((Mapping, _NONE), 'a mapping such as {"city": ["Oslo"]} or None'),
    "capabilities": ((Iterable, _NONE), "a list of kinds, a mapping or None"),
    "revisions": ((list, tuple, set, frozenset, str, _NONE), "a list of names or None"),
    "state_keys": ((list, tuple, str, bytes, _NONE), "a list of keys or None"),
}  # fmt: skip
_SECONDS = {"timeout": True, "ttl": False, "list_ttl": False}
"""Options that are seconds, and whether None may stand for them."""


def check_options(options: Mapping[str, Any], owner: str = "") -> None:
    """Refuse the first option that cannot be what was given; values under other names are not looked at.

    Args:
        options: Values by name.
        owner: What messages begin with: "tool 'forecast': ".

    Raises:
        TypeError: A value is of another type.
        ValueError: A number is too small, or none.
    """
    for name, value in options.items():
        if name in _SECONDS:
            check_number(f"{owner}{name}", value, whole=False, optional=_SECONDS[name])
            if name == "timeout" and value == 0:
                raise ValueError(f"{owner}{name} is more than 0, not {value}")
        elif name == "page_size":
            check_number(f"{owner}{name}", value, least=1)
        elif name in _TYPES:
            types, what = _TYPES[name]
            if not isinstance(value, types) or (name == "icons" and isinstance(value, (str, bytes, Mapping))):
                raise TypeError(f"{owner}{name} is {what}, not {repr(value):.60}")


CAPABILITIES = sorted(
    {
        name
        for revision in REVISIONS
        for whole, parts in revision.client_capabilities.items()
        for name in (whole, *(f"{whole}.{part}" for part in parts))
    }
)
"""What a client may declare, in whatever revision, by dotted names."""

OPEN = ("tasks", "experimental")
"""Capabilities whose parts anybody may name, as in ``experimental.x``."""


def required(given: Union[str, Sequence[str]], owner: str) -> tuple[str, ...]:
    """The client capabilities that ``requires=`` names; one may stand alone.

    Raises:
        TypeError: A name is no text.
        ValueError: No client can declare such a thing, or what stands behind ``ext:`` is no identifier of an extension.
    """
    if not isinstance(given, Iterable):
        raise TypeError(f"{owner}: requires is the name of a capability, or a list of names, not {given!r:.60}")
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{owner}: requires names capabilities by text, not {name!r:.60}")
        if name.startswith("ext:"):
            check_identifier(name[4:], owner)
        elif name not in CAPABILITIES and (name.partition(".")[0] not in OPEN or "" in name.split(".")):
            near = nearest(name, (*CAPABILITIES, *OPEN))
            rest = ", ".join(f"{each}, {each}.<name>" for each in OPEN)
            known = f"there is {', '.join(CAPABILITIES)}, {rest} and ext:<identifier>"
            hint = f"did you mean {near!r}?" if near else known
            raise ValueError(f"{owner}: no client declares {name!r}: {hint}")
    return names


def check_required(peer: Peer, names: Sequence[str], owner: str) -> None:
    """Refuse a request whose client lacks a capability.

    Raises:
        CapabilityNotSupported: It does.
    """
    for name in names:
        if not peer.supports(name):
            raise lacks(name, owner)


def positions(function: Any, owner: str, names: Sequence[str], *, least: int) -> int:
    """How many arguments a function takes by position, where some may be left out.

    Args:
        function: What an author gave.
        owner: What messages call it.
        names: What it may be given, in order.
        least: How many of them it must take.

    Raises:
        TypeError: It is async, a generator, no Python function, or takes other arguments.
    """
    called = function if hasattr(function, "__code__") or hasattr(function, "__func__") else type(function).__call__
    refuse_async_and_stars(called, owner)
    if not inspect.isfunction(inspect.unwrap(getattr(called, "__func__", called))):
        raise TypeError(f"{owner} is {function!r}, which is no Python function: write a def that calls it")
    parameters = inspect.signature(function).parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in positional if each.default is each.empty]
    keywords = [each for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if len(needed) > len(names) or len(positional) < least or keywords:
        ways = " or ".join(f"({', '.join(names[:count])})" for count in range(least, len(names) + 1))
        raise TypeError(f"{owner}, {where(function)}, takes {ways}")
    return min(len(positional), len(names))


A = TypeVar("A", Annotations, ToolAnnotations)


def annotated(given: Union[A, Mapping[str, Json], None], cls: type[A], example: str, owner: str) -> Optional[A]:
    """Annotations as an author gives them: our own object, or its arguments in a mapping.

    Args:
        given: What stands behind ``annotations=``.
        cls: Of the object.
        example: A mapping that would do.
        owner: What messages call that which is annotated.

    Raises:
        TypeError: It is neither, a name is none, or a value is of another type.
    """
    if given is None or isinstance(given, cls):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"{owner}: annotations is a mapping such as {example}, not {given!r:.60}")
    known = [name for name in inspect.signature(cls).parameters if name != "self"]
    for name in given:
        if name not in known:
            raise TypeError(f"{owner}: no annotation is called {name!r}: {meant(name, known, '{!r}')}")
    return cls(**given)


def only(wire: Mapping[str, Json], members: Iterable[str]) -> dict[str, Json]:
    """An object with the members that a revision knows."""
    return {name: member for name, member in wire.items() if name in members}
