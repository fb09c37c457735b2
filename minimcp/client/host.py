"""The host's side of a client: the functions it gave to `connect`, how they answer questions, where
callbacks run.

https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import os
import threading
from contextvars import Context, copy_context
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Iterable,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from .. import errors, types
from ..engine.cancel import CancelToken
from ..engine.incoming import IncomingRequest
from ..engine.limits import BoundedQueue, Limits
from ..engine.pool import Pool, this_thread
from ..errors import USER_REJECTED, InternalError, InvalidParams, MethodNotFound, Refused, RpcError
from ..log import exit_gate, logger
from ..protocol.lifecycle import Handshake, Peer, PerRequest
from ..protocol.messages import Json, Notification, size_of
from ..protocol.versions import LISTS, Revision
from ..schema.mismatch import nearest, plain_json, refuse_async
from ..text import describe, one_line
from ..types import Change, LogMessage

if TYPE_CHECKING:
    from ..types import Root
    from .cache import Cache

log = logger("minimcp.client")

# Notifications that wait for their callback; when there are more, the oldest are dropped with one
# warning.
MOST_NOTIFICATIONS = 10_000

# Bytes of memory of one that waits, besides its params.
NOTIFICATION_BYTES = 1024

# What a host may name a root by: a path, a ``file://`` URI or a `Root`.
Rootlike = Union[str, "os.PathLike[str]", "Root"]

Era = Union[Handshake, PerRequest]
Result = dict[str, Json]


# Runs the host's handler for one question on the calling thread. Raises Refused: it refuses, or
# `HandlerFailed`.
Answerer = Callable[[], Result]


class Host:
    """The host's side of one client, for all its connections: what it gave to `connect`, and how
    that is called.

    Args:
        handlers: An object with any of `NAMES`; None has none.
        keywords: More of them by name, which None leaves out.
        roots: Stands for a `list_roots` that returns them; None gives none.
        sampling: Parts of sampling that `sample` can do: "tools", "context".
        elicitation: Parts of elicitation that `elicit` can do: "form", "url".
        extensions: `Extension` objects, or what is declared only, by identifier; None declares
            none.
        limits: What a server may cost this client; None takes the defaults.
        cache: Whether results are kept that a server says stay true.
        connection: The name of the server in the config; None when it has none.

    Raises:
        TypeError: A function is given both ways, is async or cannot be called; the object is a
            class or a mapping, has none of them, or has one under a misspelt name; a root is none;
            or parts are no sequence of names.
        ValueError: A root is none, there is no such part, or `elicit` can do nothing.

    Thread safety: all methods, from any thread.
    """

    def __init__(
        self,
        handlers: Any = None,
        keywords: Optional[Mapping[str, Any]] = None,
        *,
        roots: Optional[Iterable[Rootlike]] = None,
        sampling: Sequence[str] = (),
        elicitation: Sequence[str] = ("form", "url"),
        extensions: Union[Sequence[Any], Mapping[str, Json], None] = None,
        limits: Optional[Limits] = None,
        cache: bool = False,
        connection: Optional[str] = None,
    ) -> None:
        self.connection = connection
        limits = limits or Limits()
        # What is called here runs in copies of the context in which the client was made.
        self.context = copy_context()
        self.functions = _gathered(handlers, keywords or {})
        # What was given as ``roots``, which may be replaced.
        self.roots: Optional[list[Root]] = None
        if roots is not None:
            if "list_roots" in self.functions:
                raise TypeError(
                    "roots and list_roots are two ways to say the same: give one of them"
                )
            from .questions import as_roots

            self.roots = as_roots(roots)
            self.functions["list_roots"] = lambda: self.roots
        if sampling and "sample" not in self.functions:
            raise TypeError("sampling says what else sample can do, and there is no sample")
        self._parts: dict[str, tuple[str, ...]] = {
            "sampling": _parts("sampling", sampling, ("tools", "context"), "sample"),
            "elicitation": _parts("elicitation", elicitation, ("form", "url"), "elicit"),
            "roots": ("listChanged",),
        }
        if not elicitation:
            raise ValueError('elicitation names "form", "url" or both')
        objects = () if isinstance(extensions, Mapping) else extensions or ()
        for each in objects:
            if isinstance(each, type) or not hasattr(each, "notification_handlers"):
                raise TypeError(f"extensions holds objects such as Tasks(), not {each!r:.60}")
        by_name = {each.identifier: each.settings for each in objects}
        if len(by_name) < len(objects):
            raise ValueError("two of the extensions have one identifier")
        # What is declared of extensions; None declares nothing.
        self._extensions: Json = None
        if extensions is not None:
            from ..types.meta import check_extensions

            declared = extensions if isinstance(extensions, Mapping) else by_name
            self._extensions = plain_json(check_extensions(declared), "extensions")
        # Runs questions as tasks that a server asks so; None lets it ask none so.
        self.asked_tasks: Any = next(
            (each.for_host(limits) for each in objects if hasattr(each, "for_host")), None
        )
        # Of extensions: what makes results of each type complete, with the methods that may have
        # it; what hears each notification; and which members of params stand in a header too.
        self.result_types: dict[str, tuple[Sequence[str], Callable[..., Result]]] = {}
        self._notification_handlers: dict[str, Callable[..., Any]] = {}
        self.names: dict[str, str] = {}
        for each in objects:
            self.result_types.update(
                {kind: (methods, each.follow) for kind, methods in each.result_types.items()}
            )
            self._notification_handlers.update(each.notification_handlers())
            self.names.update(each.names)
        self._cache_bytes = limits.cache_bytes if cache else 0
        # Results that the server says stay true; None until the first of them may be kept.
        self.cache: Optional[Cache] = None
        # Whether a tool of this name is offered to the program; None offers all.
        self.offers: Optional[Callable[[str], bool]] = None
        # Malformed parts of results that were logged already; see `Call.report`.
        self.reported: set[str] = set()
        self.pool = Pool(limits.workers, name="minimcp-client")
        self._dispatcher = Dispatcher(
            float("inf") if limits.backlog_bytes is None else limits.backlog_bytes, self.context
        )

    def close(self) -> None:
        """Let the threads end that it has, each when it has run what waits for it. Idempotent."""
        self._dispatcher.close()
        self.pool.close()

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What this lets a client declare in a revision."""
        declared: dict[str, Json] = (
            {} if self._extensions is None else {"extensions": self._extensions}
        )
        for kind in QUESTIONS.values():
            known, able = (
                revision.client_capabilities.get(kind.capability),
                self._parts.get(kind.capability, ()),
            )
            forms_only = kind.capability == "elicitation" and not known  # in this revision
            if (
                kind.handler in self.functions
                and known is not None
                and not (forms_only and "form" not in able)
            ):
                parts = [part for part in known if part in able]
                declared[kind.capability] = {
                    part: True if part == "listChanged" else {} for part in parts
                }
        if self.asked_tasks is not None and revision.tasks == "core":
            declared.update(self.asked_tasks.capabilities_beside(declared))
        return declared

    def needed_cache(self) -> Cache:
        """Return the cache, which is made on first use."""
        if self.cache is None:
            from .cache import Cache

            # `setdefault` is atomic, so two threads that come first share one cache.
            self.cache = vars(self).setdefault("_made_cache", Cache(self._cache_bytes))
        return self.cache

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Drop the kept results that a change of the server makes stale; as `Cache.changed`."""
        if self.cache is not None:
            self.cache.changed(kind, uri)

    # ------------------------------------------------------------ questions

    def read(
        self, method: str, params: Mapping[str, Json], peer: Peer, asked: CancelToken
    ) -> Answerer:
        """Read a question, and check that it may be asked, before the host is.

        Args:
            method: Of the question.
            params: Of the question.
            peer: Who asks, and in which revision.
            asked: Says by ``cancelled`` and ``on_cancel`` whether somebody still waits for an
                answer.

        Raises:
            MethodNotFound: This client did not declare that it can be asked this.
            InvalidParams: The question makes no sense, or is of a kind that this client did not
                declare.
        """
        kind = QUESTIONS.get(method)
        parts = None if kind is None else self.capabilities(peer.revision).get(kind.capability)
        if kind is None or parts is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        from .questions import read_question

        try:
            request, write = read_question(method, params, parts, peer.revision)
        except ValueError as error:
            raise InvalidParams(f"{method}: {error}") from None
        if request is not None:
            request.server = types.Implementation.of_peer(peer.info)
            request.asked = asked
            request.connection = self.connection
        handler = self.functions[kind.handler]
        arguments = () if request is None else (request,)

        def answer() -> Result:
            try:
                return write(self.context.copy().run(handler, *arguments))
            except Refused:
                raise
            except BaseException as error:  # even SystemExit: the server waits for an answer
                log.error("the handler for %s failed: %s", method, describe(error), exc_info=error)
                raise errors.HandlerFailed(
                    f"the handler for {method} failed: {describe(error)}"
                ) from error

        return answer

    def serve(self, incoming: IncomingRequest) -> Result:
        """Answer a question that came as a request.

        Raises:
            RpcError: Whatever the server is told.
        """
        this_thread.request = None  # a host's handler is no server's handler: it has no context
        method = incoming.request.method
        try:
            return self.read(method, incoming.request.params, incoming.peer, incoming.token)()
        except errors.HandlerFailed as error:
            raise InternalError("the host's handler failed") from error
        except Refused as error:
            raise RpcError(USER_REJECTED, error.reason or f"the user rejected {method}") from None

    # ------------------------------------------------------------ notifications

    def call(self, name: str, *arguments: Any, size: int = 0) -> None:
        """Have a callback called by the dispatcher, if the host gave it; its arguments take so many
        bytes."""
        function = self.functions.get(name)
        if function is not None:
            self._dispatcher.put(partial(function, *arguments), NOTIFICATION_BYTES + size)

    def tell(self, notification: Notification) -> None:
        """Have the callback for a notification called."""
        method, params = notification
        name, read = CALLBACKS.get(method, ("", None))
        if self.tell_extension(notification):
            return
        if name not in self.functions:
            log.debug("<-- %s: nobody listens", method)
            return
        try:
            arguments = () if read is None else (read(params),)
        except ValueError as error:
            log.debug("<-- a %s that makes no sense: %s", method, error)
        else:
            self.call(name, *arguments, size=size_of(params, self._dispatcher.waiting.max_bytes))

    def tell_extension(self, notification: Notification) -> bool:
        """Have an extension hear a notification; False when none does."""
        method, params = notification
        function = self._notification_handlers.get(method)
        if function is not None:
            size = size_of(params, self._dispatcher.waiting.max_bytes)
            self._dispatcher.put(partial(function, params), NOTIFICATION_BYTES + size)
        return function is not None


# ------------------------------------------------------------ what a host gives


def _gathered(handlers: Any, keywords: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions of an object and keywords, by name. Raises TypeError, as `Host`."""
    if isinstance(handlers, type):
        raise TypeError(f"handlers={handlers.__name__} is a class: give an instance of it")
    if isinstance(handlers, Mapping):
        raise TypeError("handlers is an object with methods, and this is a mapping: say **handlers")
    functions: dict[str, Callable[..., Any]] = {}
    for name in NAMES:
        given = [
            each for each in (getattr(handlers, name, None), keywords.get(name)) if each is not None
        ]
        if len(given) > 1:
            raise TypeError(f"{name} is given twice: by handlers and as a keyword")
        for function in given:
            if not callable(function):
                raise TypeError(f"{name} is called, and {type(function).__name__} cannot be")
            refuse_async(function, name)
            functions[name] = function
    for name in dir(handlers):
        near = nearest(name, NAMES) if name.startswith("on_") and name not in NAMES else None
        if near is not None:
            raise TypeError(f"handlers has {name}, which nothing calls: did you mean {near}?")
    if handlers is not None and not any(hasattr(handlers, name) for name in NAMES):
        meant = [(name, nearest(name, NAMES)) for name in dir(handlers)]
        hints = [f"it has {name}, did you mean {near}?" for name, near in meant if near]
        raise TypeError(
            f"handlers has none of {', '.join(NAMES)}: {[*hints, f'it is {handlers!r:.60}'][0]}"
        )
    return functions


def _parts(name: str, given: Sequence[str], known: Sequence[str], handler: str) -> tuple[str, ...]:
    if callable(given):
        raise TypeError(f"{name} says what {handler} can do, by names: did you mean {handler}=?")
    if isinstance(given, str):
        raise TypeError(f"{name} is a sequence of names: did you mean ({given!r},)?")
    for part in given:
        if part not in known:
            raise ValueError(f"{name} has the parts {' and '.join(known)}, not {part!r}")
    return tuple(given)


# ------------------------------------------------------------ where callbacks run


class Dispatcher:
    """One thread that runs callbacks in order, from the first one to the end of the client.
    Thread-safe.

    Args:
        most_bytes: How many bytes of memory the callbacks may take that wait.
        context: Each callback runs in a copy of this context; None is an empty one.
    """

    def __init__(self, most_bytes: float = float("inf"), context: Optional[Context] = None) -> None:
        self._context = Context() if context is None else context
        self._lock = threading.RLock()  # a signal handler may come in the middle of `put`
        self.waiting = BoundedQueue("notifications", MOST_NOTIFICATIONS, most_bytes)
        self._has_thread = self._closed = False

    def put(self, callback: Callable[[], Any], size: int = NOTIFICATION_BYTES) -> None:
        """Queue a callback that takes so many bytes; the oldest are dropped when too many wait.
        What it raises is logged. Never blocks."""
        with self._lock:
            if self._closed:
                return
            self.waiting.offer(callback, size)
            if not self._has_thread:
                self._has_thread = True
                try:
                    threading.Thread(
                        target=self._run, name="minimcp-callbacks", daemon=True
                    ).start()
                except (
                    RuntimeError
                ) as error:  # the system gives none: the next callback tries again
                    self._has_thread = False
                    log.error("a callback has to wait: %s", error)

    def _run(self) -> None:
        for callback in iter(self.waiting.get, None):
            try:
                with exit_gate:
                    self._context.copy().run(callback)
            except BaseException as error:
                log.error("a callback failed: %s", describe(error), exc_info=error)

    def close(self) -> None:
        """Let the thread end when everything that waits has run, and take nothing more.
        Idempotent."""
        # without the lock, which another thread may have held when this process was forked
        self._closed = True
        self.waiting.put(None)


# ------------------------------------------------------------ what can be asked


class QuestionKind(NamedTuple):
    """One kind of question: the host's function that answers it, and the capability that it
    needs."""

    handler: str
    capability: str


QUESTIONS = {
    "sampling/createMessage": QuestionKind("sample", "sampling"),
    "elicitation/create": QuestionKind("elicit", "elicitation"),
    "roots/list": QuestionKind("list_roots", "roots"),
}
"""By method. `questions` reads them."""

UPDATED = "notifications/resources/updated"

# By notification: the callback, and what it is given of the params; None for nothing. Raises
# ValueError.
CALLBACKS: dict[str, tuple[str, Optional[Callable[[Result], Any]]]] = {
    "notifications/message": ("on_log", LogMessage.from_wire),
    **{f"notifications/{name}/list_changed": (f"on_{name}_changed", None) for name in LISTS},
    UPDATED: ("on_resource_updated", lambda params: Change.from_notice(UPDATED, params).uri),
}

# The functions that a host may give; `connect` has a keyword of each name.
NAMES = (*(kind.handler for kind in QUESTIONS.values()), *(name for name, _ in CALLBACKS.values()))

# Those that are called with notifications.
NOTIFIED = frozenset(name for name, _ in CALLBACKS.values())
