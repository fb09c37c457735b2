"""Access by caller: ``scopes=`` and ``visible=`` of tools, resources and prompts, and middleware
around lists.

`Access` rejects calls whose token lacks a scope. `Visibility` hides entries from some callers. Both
decide again on each request. Their functions are the author's, so they never run on a reader
thread, and they may run more than once for a request.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import json
import re
import threading
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Mapping, Optional, Sequence

from ..engine.incoming import IncomingRequest, Route, Sink
from ..errors import InvalidParams, InvalidRequest, RpcError
from ..log import logger
from ..protocol.lifecycle import LISTEN, Peer
from ..protocol.messages import Json, Request, to_json
from ..schema.mismatch import Mismatch
from ..schema.signature import refuse_async_and_stars
from ..server.context import Context
from ..server.feature import Feature, OptionSpec, RegisteredEntry, load
from ..server.options import check_names, count_positional

if TYPE_CHECKING:
    from ..server.registered import ServerConfig, Table
    from ..server.registry import Registry

log = logger("minimcp.access")

SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")

# The methods whose results list entries.
LIST_METHODS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")

# Maximum number of different lists of one kind whose pages are cached.
MAX_LISTS = 100


class ScopesMissing(InvalidRequest):
    """A request needs scopes that its token does not have.

    Args:
        owner: The name of the entry.
        scopes: All scopes that the request needs.
    """

    def __init__(self, owner: str, scopes: Sequence[str]) -> None:
        super().__init__(f"{owner} needs a token with the scopes {' '.join(scopes)}")
        self.scopes = scopes


class QuietContext(Context):
    """The context of a function that decides about access. It cannot ask the client."""

    def _channel(self) -> Any:
        raise RuntimeError(
            "a function that decides about access or lists cannot ask the client: ask in the "
            "handler"
        )


# ------------------------------------------------------------ scopes


def _check_scopes(label: str, value: Any) -> None:
    if callable(value):
        refuse_async_and_stars(value, label)
    elif not isinstance(value, (list, tuple, set, frozenset)):
        raise TypeError(
            f"{label} must be a list of scopes or a function that returns one, not "
            f"{repr(value):.60}"
        )
    else:
        _checked(label, value)


def _checked(label: str, scopes: Any) -> tuple[str, ...]:
    """Return scopes as a tuple. Raise TypeError or ValueError if one is invalid."""
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        raise TypeError(f"{label} must be a list of scopes, not {repr(scopes):.60}")
    found = tuple(scopes)
    for scope in found:
        if not isinstance(scope, str) or not SCOPE.fullmatch(scope):
            raise ValueError(
                f"{label}: a scope must be a str without spaces or quotes, not {scope!r:.60}"
            )
    return found


class Access(Feature):
    """Rejects requests whose token lacks a scope. Requests over stdio have no token and are not
    rejected. Thread-safe.

    Args:
        registry: The server's registry.
    """

    options = {"scopes": OptionSpec(check=_check_scopes)}

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether an entry needs scopes."""
        return bool(entry.options.get("scopes"))

    def blocks(self, entry: RegisteredEntry) -> bool:
        """Return whether a function computes the scopes of an entry."""
        return callable(entry.options["scopes"])

    def entry_meta(self, kind: str, name: str, options: Mapping[str, Any]) -> Mapping[str, Json]:
        """Reject content that needs scopes and may be shared with other users."""
        _refuse_public(kind, name, options, "scopes")
        return {}

    def adapt(self, entry: Any) -> None:
        """Check the parameters of a function that computes scopes."""
        scopes = entry.options.get("scopes")
        if callable(scopes):
            known = [each.name for each in entry.signature.parameters]
            names = [
                name
                for name, each in signature(scopes).parameters.items()
                if not _is_context(each, entry)
            ]
            check_names(names, known, f"{entry.owner}: scopes: the handler has no parameter")

    def static_scopes(self) -> list[str]:
        """Return every scope that an entry which all callers may see needs. Computed scopes are
        left out."""
        scopes = [
            scope
            for table in self._registry.tables()
            for entry in list(table.items.values())
            if not any(_visible_functions(entry))
            for scope in static_scopes(entry)
        ]
        return list(dict.fromkeys(scopes))

    def before_call(self, entry: RegisteredEntry, request: IncomingRequest) -> Optional[Route]:
        """Reject a call whose token lacks a scope.

        Over Streamable HTTP, `check` has already reported that by the status of the response.

        Raises:
            ScopesMissing: A scope is missing.
        """
        self.require(entry, request, request.request.params)
        return None

    def require(
        self, entry: RegisteredEntry, request: IncomingRequest, params: Mapping[str, Json]
    ) -> None:
        """Reject the use of an entry, in the same way as `before_call`.

        Args:
            entry: The entry.
            request: The request on whose behalf the entry is used.
            params: The params that name the entry and its arguments.
        """
        if hasattr(request.headers, "auth"):  # only requests over HTTP have it
            needed = self._needed(entry, request, params)
            if not _has_scopes(request, needed):
                raise ScopesMissing(entry.key, needed)

    def _needed(
        self, entry: Any, request: IncomingRequest, params: Mapping[str, Json]
    ) -> tuple[str, ...]:
        """Return the scopes that a request needs for an entry. Any exception may be raised."""
        scopes = entry.options.get("scopes", ())
        if not callable(scopes):
            return tuple(scopes)
        if not isinstance(params.get("arguments"), (dict, type(None))):
            return ()  # the request is rejected later
        try:
            arguments = entry.arguments_of(params)
        except Mismatch:
            return ()  # the handler's own error follows
        handler = signature(entry.function).parameters
        given: dict[str, Any] = {}
        for name, parameter in signature(scopes).parameters.items():
            if _is_context(parameter, entry):
                given[name] = QuietContext(request)
            elif name in arguments:
                given[name] = arguments[name]
            elif parameter.default is parameter.empty:
                default = handler[name].default
                if default is not parameter.empty:
                    given[name] = default
        label = f"{entry.owner}: scopes"
        try:
            return _checked(label, scopes(**given))
        except RpcError as error:  # a failure of the server, not of the request
            raise RuntimeError(f"{label}: {error}") from error

    def check(self, request: Request, peer: Peer, headers: Any) -> None:
        """Decide about a request over HTTP before its response begins.

        Args:
            request: The request.
            peer: The client.
            headers: The headers, with the verified token.

        Raises:
            ScopesMissing: The token lacks a scope. The exception names all scopes of the request.
            RpcError: The entry is hidden from the caller.
        """
        incoming = probe(self._registry.config, peer, request, headers)
        needed: dict[str, None] = {}
        owner = ""
        for entry, params in self._named(incoming):
            if entry.is_hidden(incoming):
                if request.method in ("resources/subscribe", LISTEN):
                    continue  # the subscription is accepted, as for an unknown URI
                raise entry.unknown(incoming)
            scopes = self._needed(entry, incoming, params)
            if scopes:
                owner = entry.key
                needed.update(dict.fromkeys(scopes))
        if not _has_scopes(incoming, needed):
            raise ScopesMissing(owner, tuple(needed))

    def _named(self, incoming: IncomingRequest) -> Iterator[tuple[Any, Mapping[str, Json]]]:
        """Yield the entries that a request names, each with the params that name it."""
        method, params = incoming.request.method, incoming.request.params
        registry = self._registry
        prompts, resources = registry.loaded("prompts"), registry.loaded("resources")
        name = params.get("name")
        uris: list[Any] = []
        found: Any = None
        if method == "tools/call" and type(name) is str:
            found = registry.tools.items.get(name)
        elif method == "prompts/get" and type(name) is str and prompts is not None:
            found = prompts.table.items.get(name)
        elif method in ("resources/read", "resources/subscribe"):
            uris = [params.get("uri")]
        elif method == LISTEN and isinstance(params.get("notifications"), dict):
            wanted = params["notifications"].get("resourceSubscriptions")
            uris = wanted if isinstance(wanted, list) else []
        elif method == "completion/complete" and registry.loaded("completions") is not None:
            found = registry.feature("completions").referred(params, incoming)
            params = {"arguments": load("features.completion").chosen_arguments(params)}
        if found is not None:
            yield found, params
        for uri in uris if resources is not None else ():
            if isinstance(uri, str):
                found = resources.find(uri, incoming)
                if found is not None:
                    yield found, {"uri": uri}


def probe(
    config: ServerConfig, peer: Peer, request: Optional[Request] = None, headers: Any = None
) -> IncomingRequest:
    """Return a request for the context of an author's function. It cannot send anything.

    Args:
        config: The configuration of the server.
        peer: The client.
        request: The client's request; None if the server decides about a notification.
        headers: The headers of the request; None means those of the client's newest request.
    """
    route = Route(lambda incoming: {}, immediate=True)
    request = request or Request(0, "ping")
    headers = peer.headers if headers is None else headers
    return IncomingRequest(request, peer, route, Sink(), 0, config, headers)


def _is_context(parameter: Parameter, entry: Any) -> bool:
    """Return whether a parameter of a function that computes scopes receives the context."""
    annotation = parameter.annotation
    if annotation is Context or str(annotation).rpartition(".")[2] == "Context":
        return True
    known = [each.name for each in entry.signature.parameters]
    named = ("ctx", entry.signature.context_parameter)
    return parameter.name not in known and parameter.name in named


def _has_scopes(request: IncomingRequest, needed: Iterable[str]) -> bool:
    """Return whether the token of a request has these scopes. Requests that did not arrive over
    HTTP have all of them."""
    headers: Any = request.headers
    if not hasattr(headers, "auth"):
        return True
    return set(needed) <= (frozenset() if headers.auth is None else headers.auth.scopes)


def static_scopes(entry: RegisteredEntry) -> tuple[str, ...]:
    """Return the scopes of an entry that do not depend on the request."""
    scopes = entry.options.get("scopes", ())
    return () if callable(scopes) else tuple(scopes)


# ------------------------------------------------------------ visibility


def _check_visible(label: str, value: Any) -> None:
    if value is not None:
        count_positional(value, label, ("ctx",), least=1)


class Visibility(Feature):
    """Hides entries from some callers: ``visible=``, and ``Server(lists="usable")``. Thread-safe.

    A caller cannot distinguish a hidden entry from one that does not exist.

    Args:
        registry: The server's registry.

    Raises:
        TypeError: ``Server(visible=)`` does not take three arguments.
        ValueError: ``Server(list_cache_scope=)`` is "public".
    """

    options = {"visible": OptionSpec(check=_check_visible)}
    # Lists are served on a worker thread, because they run functions of the author.
    refreshed_by = LIST_METHODS

    def __init__(self, registry: Registry) -> None:
        config = registry.config
        if config.visible is not None:
            count_positional(config.visible, "visible", ("ctx", "kind", "name"), least=3)
        self._lists_usable = config.lists == "usable"
        self._config = config
        registry.feature("access")  # over HTTP, it decides before the response begins
        if config.visible is not None or self._lists_usable:
            self.entry_meta("", "", {})

    def uses(self, entry: RegisteredEntry) -> bool:
        """Return whether an entry may be hidden from some callers."""
        if entry.kind == "method":
            return False
        return any(_visible_functions(entry)) or (self._lists_usable and bool(static_scopes(entry)))

    def blocks(self, entry: RegisteredEntry) -> bool:
        """Return whether a function decides about the visibility of an entry."""
        return any(_visible_functions(entry))

    def entry_meta(self, kind: str, name: str, options: Mapping[str, Any]) -> Mapping[str, Json]:
        """Reject lists and content that depend on the caller and may be shared with others."""
        visible = options.get("visible") or self._config.visible
        if (visible or self._lists_usable) and self._config.list_cache_scope == "public":
            raise ValueError(
                'list_cache_scope="public" contradicts visible= and lists="usable": remove one of '
                "them"
            )
        _refuse_public(kind, name, {**options, "visible": visible}, "visible")
        return {}

    def is_listed(self, entry: RegisteredEntry, request: IncomingRequest) -> bool:
        """Return whether the caller may see an entry. An exception of a function counts as
        False."""
        is_list = request.request.method in LIST_METHODS
        if is_list and self._lists_usable and not _has_scopes(request, static_scopes(entry)):
            return False
        for function in _visible_functions(entry):
            try:
                if not function(QuietContext(request)):
                    return False
            except Exception as error:
                log.error("visible of %s failed: %s", entry.owner, error, exc_info=error)
                return False
        return True


def _visible_functions(entry: Any) -> Iterator[Callable[[Context], Any]]:
    """Yield the functions that decide about the visibility of an entry: its own, that of its
    server, and those of the servers through which it is mounted."""
    own = entry.options.get("visible")
    if own is not None:
        yield own
    while entry is not None:
        if entry.config.visible is not None:
            kind = entry.kind.partition(" ")[0]  # a template is a resource
            yield partial(_call_with_name, entry.config.visible, kind, entry.key)
        entry = entry.mounted


def _call_with_name(function: Callable[..., Any], kind: str, name: str, ctx: Context) -> Any:
    return function(ctx, kind, name)


def page_for(table: Table[Any], incoming: IncomingRequest) -> str:
    """Return one page of a list that depends on the caller, as JSON text without the last brace.

    The cursor holds the last name and its position. A caller that cannot see this name continues at
    the position, as for an unknown name, so that a cursor does not show whether a name exists.

    Raises:
        InvalidParams: The cursor is not from this server.
    """
    shown = [each for each in list(table.items.values()) if not each.is_hidden(incoming)]
    names = tuple(each.key for each in shown)
    config, revision = incoming.server, incoming.peer.revision
    start = _position(table.member, incoming.request.params.get("cursor"), names)
    size = config.page_size or len(shown) or 1
    key = (revision.name, start, names)
    pages = table.pages_by_caller  # a concurrent change replaces the dict
    with _paging:
        text = pages.pop(key, None)
        if text is None:
            end = start + size
            items = [each.to_wire(revision) for each in shown[start:end]]
            text = f'{{"{table.member}":{to_json(items)}'
            if end < len(shown):
                cursor = f"{table.member}:{end}:{names[end - 1]}"
                text += f',"nextCursor":{to_json(cursor)}'
        pages[key] = text
        while len(pages) > MAX_LISTS:
            del pages[next(iter(pages))]
    return text


# Held while the cached pages of any table change.
_paging = threading.Lock()


def _position(member: str, cursor: Json, names: Sequence[str]) -> int:
    """Return the number of entries before the page of a cursor."""
    if cursor is None:
        return 0
    found = (
        re.fullmatch(f"{member}:([0-9]{{1,9}}):(.*)", cursor, re.S) if type(cursor) is str else None
    )
    if found is None or int(found[1]) > len(names):
        raise InvalidParams("the cursor is not from this server")
    return names.index(found[2]) + 1 if found[2] in names else int(found[1])


# ------------------------------------------------------------ middleware of lists


class ListMiddleware(Feature):
    """Runs middleware around lists: ``@server.middleware(lists=True)``.

    Args:
        registry: The server's registry.

    Attributes:
        middleware: The functions, the outermost first.
    """

    refreshed_by = LIST_METHODS

    def __init__(self, registry: Registry) -> None:
        self.middleware: list[Callable[[Context, Callable[[], Any]], Any]] = []

    def around_list(self, request: IncomingRequest, call_next: Callable[[], Any]) -> Any:
        """Run the middleware around one page of a list. A changed page is private."""
        text = ""

        def read() -> Any:
            nonlocal text
            found = call_next()
            text = found
            if isinstance(found, bytes):
                text = found.decode()
            elif not isinstance(found, str):
                text = to_json(found)
            return json.loads(text)

        call: Callable[[], Any] = read
        for function in reversed(self.middleware):
            call = partial(function, QuietContext(request), call)
        result = call()
        if not isinstance(result, dict):
            raise TypeError(
                f"middleware returned {type(result).__name__} for {request.request.method}: return "
                "the dict of call_next()"
            )
        if text and result == json.loads(text):
            return text
        if request.peer.revision.cache_hints:
            result = {**result, "cacheScope": "private"}
        return result


def _refuse_public(kind: str, name: str, options: Mapping[str, Any], option: str) -> None:
    if options.get(option) and options.get("cache_scope") == "public":
        raise ValueError(
            f'{kind} {name!r}: cache_scope="public" contradicts {option}=: remove one of them'
        )
