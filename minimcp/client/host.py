"""The host's side of a client: the functions that were passed to `connect`, and their dispatcher.

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

if TYPE_CHECKING:
    from ..types import Root
    from .cache import Cache

log = logger("minimcp.client")

# Maximum number of queued notifications. Above it, the oldest are dropped with one warning.
MAX_NOTIFICATIONS = 10_000

# Memory of a queued notification without its params, in bytes.
NOTIFICATION_BYTES = 1024

# A root as a host may write it: a path, a ``file://`` URI or a `Root`.
Rootlike = Union[str, "os.PathLike[str]", "Root"]

Era = Union[Handshake, PerRequest]
Result = dict[str, Json]


# Runs the host's handler for one question on the calling thread. Raises Refused if the handler
# refuses, and HandlerFailed if it fails.
AnswerFunction = Callable[[], Result]


class Host:
    """The host's side of one client: the functions that `connect` received. Thread-safe.

    All sessions of the client share one `Host`.

    Args:
        handlers: An object that has any of `NAMES` as methods, or None.
        keywords: Functions by name. Values that are None are ignored.
        roots: The roots that `list_roots` returns; None means no roots.
        sampling: Parts of sampling that `sample` supports: "tools", "context".
        elicitation: Parts of elicitation that `elicit` supports: "form", "url".
        extensions: `Extension` objects, or settings to declare by identifier; None means none.
        limits: Limits on the resources that the server may use; None means the defaults.
        cache: Whether to cache results that the server permits to be cached.
        connection: The server's name in the config, or None.

    Raises:
        TypeError: A function is given twice, is async or is not callable; `handlers` is a class or
            a mapping, has none of the methods, or has one under a misspelled name; `roots` is
            invalid; or the parts are not a sequence of names.
        ValueError: A root is invalid, a part is unknown, or `elicitation` is empty.
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
        # The `ClientMiddleware` of `connect`; None without any.
        self.middleware: Any = None
        limits = limits or Limits()
        # All functions run in copies of the context in which the client was made.
        self.context = copy_context()
        self.functions = _collect_functions(handlers, keywords or {})
        # The value of ``roots``, which `Client.set_roots` replaces.
        self.roots: Optional[list[Root]] = None
        if roots is not None:
            if "list_roots" in self.functions:
                raise TypeError("roots= and list_roots= cannot be combined: pass one of them")
            from .questions import as_roots

            self.roots = as_roots(roots)
            self.functions["list_roots"] = lambda: self.roots
        if sampling and "sample" not in self.functions:
            raise TypeError("sampling= applies only together with sample=, which is missing")
        self._parts: dict[str, tuple[str, ...]] = {
            "sampling": _parts("sampling", sampling, ("tools", "context"), "sample"),
            "elicitation": _parts("elicitation", elicitation, ("form", "url"), "elicit"),
            "roots": ("listChanged",),
        }
        if not elicitation:
            raise ValueError('elicitation must name "form", "url" or both')
        objects = () if isinstance(extensions, Mapping) else extensions or ()
        for each in objects:
            if isinstance(each, type) or not hasattr(each, "notification_handlers"):
                raise TypeError(f"extensions must be objects such as Tasks(), not {each!r:.60}")
        by_name = {each.identifier: each.settings for each in objects}
        if len(by_name) < len(objects):
            raise ValueError("two of the extensions have the same identifier")
        # The declared settings of extensions; None means none.
        self._extensions: Json = None
        if extensions is not None:
            from ..types.meta import check_extensions

            declared = extensions if isinstance(extensions, Mapping) else by_name
            self._extensions = plain_json(check_extensions(declared), "extensions")
        # Runs questions that the server sends as tasks. None if the client does not support them.
        self.asked_tasks: Any = next(
            (each.for_host(limits) for each in objects if hasattr(each, "for_host")), None
        )
        # For each `resultType` of an extension: the methods that may return it, and the function
        # that completes such a result.
        self.result_types: dict[str, tuple[Sequence[str], Callable[..., Result]]] = {}
        # The extensions' handlers of notifications, by method.
        self._notification_handlers: dict[str, Callable[..., Any]] = {}
        # For each method of an extension: the member of its params that is also sent in a header.
        self.names: dict[str, str] = {}
        for each in objects:
            self.result_types.update(
                {kind: (methods, each.follow) for kind, methods in each.result_types.items()}
            )
            self._notification_handlers.update(each.notification_handlers())
            self.names.update(each.names)
        self._cache_bytes = limits.cache_bytes if cache else 0
        # Cached results; None until the first cacheable result.
        self.cache: Optional[Cache] = None
        # Whether the config offers the tool of this name; None means all tools.
        self.offers: Optional[Callable[[str], bool]] = None
        # Malformed parts of results that were already logged; see `Call.report`.
        self.reported: set[str] = set()
        self.pool = Pool(limits.workers, name="minimcp-client")
        backlog_bytes = float("inf") if limits.backlog_bytes is None else limits.backlog_bytes
        self._callbacks = CallbackThread(backlog_bytes, self.context)

    def close(self) -> None:
        """End the threads after their queued work. Idempotent."""
        self._callbacks.close()
        self.pool.close()

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """Return the capabilities that the client can declare in a revision."""
        declared: dict[str, Json] = {}
        if self._extensions is not None:
            declared["extensions"] = self._extensions
        for kind in QUESTIONS.values():
            known = revision.client_capabilities.get(kind.capability)
            supported = self._parts.get(kind.capability, ())
            if kind.handler not in self.functions or known is None:
                continue
            # In a revision without parts of elicitation, every question is a form.
            if kind.capability == "elicitation" and not known and "form" not in supported:
                continue
            declared[kind.capability] = {
                part: True if part == "listChanged" else {} for part in known if part in supported
            }
        if self.asked_tasks is not None and revision.tasks == "core":
            declared.update(self.asked_tasks.capabilities_beside(declared))
        return declared

    def needed_cache(self) -> Cache:
        """Return the cache. It is created on first use."""
        if self.cache is None:
            from .cache import Cache

            # `setdefault` is atomic, so two threads that arrive first share one cache.
            self.cache = vars(self).setdefault("_made_cache", Cache(self._cache_bytes))
        return self.cache

    def changed(self, kind: str, uri: Optional[str] = None) -> None:
        """Drop the cached results that a change makes stale. The arguments are those of
        `Cache.changed`."""
        if self.cache is not None:
            self.cache.changed(kind, uri)

    # ------------------------------------------------------------ questions

    def read(
        self, method: str, params: Mapping[str, Json], peer: Peer, asked: CancelToken
    ) -> AnswerFunction:
        """Read and check a question. Return the function that asks the host.

        Args:
            method: The method of the question.
            params: The params of the question.
            peer: The server, with the revision in use.
            asked: A token that is cancelled when the answer is no longer needed.

        Raises:
            MethodNotFound: The client did not declare this kind of question.
            InvalidParams: The question is invalid or needs a part that the client did not declare.
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
            except BaseException as error:  # even SystemExit, because the server needs a response
                log.error("the handler for %s failed: %s", method, describe(error), exc_info=error)
                raise errors.HandlerFailed(
                    f"the handler for {method} failed: {describe(error)}"
                ) from error

        return answer

    def serve(self, incoming: IncomingRequest) -> Result:
        """Answer a question that arrived as a request.

        Raises:
            RpcError: The error to send to the server.
        """
        this_thread.request = None  # a host's handler must not find the Context of a server
        method = incoming.request.method
        try:
            return self.read(method, incoming.request.params, incoming.peer, incoming.token)()
        except errors.HandlerFailed as error:
            raise InternalError("the host's handler failed") from error
        except Refused as error:
            raise RpcError(USER_REJECTED, error.reason or f"the user rejected {method}") from None

    # ------------------------------------------------------------ notifications

    def call(self, name: str, *arguments: Any, size: int = 0) -> None:
        """Queue a callback of the host, if it has one. `size` is the memory of the arguments in
        bytes."""
        function = self.functions.get(name)
        if function is not None:
            self._callbacks.put(partial(function, *arguments), NOTIFICATION_BYTES + size)

    def queue_callback(self, notification: Notification) -> None:
        """Queue the callback for a notification."""
        method, params = notification
        name, read = CALLBACKS.get(method, ("", None))
        if self.queue_for_extension(notification):
            return
        if name not in self.functions:
            log.debug("<-- %s ignored: there is no callback", method)
            return
        try:
            arguments = () if read is None else (read(params),)
        except ValueError as error:
            log.debug("<-- invalid %s: %s", method, error)
        else:
            for argument in arguments:
                if isinstance(argument, types.LogMessage):
                    argument.connection = self.connection
            self.call(name, *arguments, size=size_of(params, self._callbacks.waiting.max_bytes))

    def queue_for_extension(self, notification: Notification) -> bool:
        """Queue the handler of an extension for a notification. Return False if there is none."""
        method, params = notification
        function = self._notification_handlers.get(method)
        if function is not None:
            size = size_of(params, self._callbacks.waiting.max_bytes)
            self._callbacks.put(partial(function, params), NOTIFICATION_BYTES + size)
        return function is not None


# ------------------------------------------------------------ the host's functions


def _collect_functions(handlers: Any, keywords: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions of an object and of keywords, by name. Raise TypeError as `Host`
    does."""
    if isinstance(handlers, type):
        raise TypeError(f"handlers={handlers.__name__} is a class: pass an instance of it")
    if isinstance(handlers, Mapping):
        raise TypeError("handlers must be an object with methods, not a mapping: write **handlers")
    functions: dict[str, Callable[..., Any]] = {}
    for name in NAMES:
        given = [
            each for each in (getattr(handlers, name, None), keywords.get(name)) if each is not None
        ]
        if len(given) > 1:
            raise TypeError(f"{name} is passed twice: in handlers and as a keyword")
        for function in given:
            if not callable(function):
                raise TypeError(f"{name} must be callable, not {type(function).__name__}")
            refuse_async(function, name)
            functions[name] = function
    for name in dir(handlers):
        near = nearest(name, NAMES) if name.startswith("on_") and name not in NAMES else None
        if near is not None:
            raise TypeError(f"handlers has {name}, which is never called: did you mean {near}?")
    if handlers is not None and not any(hasattr(handlers, name) for name in NAMES):
        meant = [(name, nearest(name, NAMES)) for name in dir(handlers)]
        hints = [f"it has {name}, did you mean {near}?" for name, near in meant if near]
        hint = hints[0] if hints else f"it is {handlers!r:.60}"
        raise TypeError(f"handlers has none of {', '.join(NAMES)}: {hint}")
    return functions


def _parts(name: str, given: Sequence[str], known: Sequence[str], handler: str) -> tuple[str, ...]:
    if callable(given):
        raise TypeError(
            f"{name} must list the features that {handler} supports: did you mean {handler}=?"
        )
    if isinstance(given, str):
        raise TypeError(f"{name} must be a sequence of names: did you mean ({given!r},)?")
    for part in given:
        if part not in known:
            raise ValueError(f"{name} can contain {' and '.join(known)}, not {part!r}")
    return tuple(given)


# ------------------------------------------------------------ the dispatcher


class CallbackThread:
    """One thread that runs callbacks in order. It starts with the first callback. Thread-safe.

    Args:
        most_bytes: Maximum memory of the queued callbacks, in bytes.
        context: Each callback runs in a copy of this context; None means an empty one.
    """

    def __init__(self, most_bytes: float = float("inf"), context: Optional[Context] = None) -> None:
        self._context = Context() if context is None else context
        self._lock = threading.RLock()  # reentrant: a signal handler may interrupt `put`
        self.waiting = BoundedQueue("notifications", MAX_NOTIFICATIONS, most_bytes)
        self._has_thread = False
        self._closed = False

    def put(self, callback: Callable[[], Any], size: int = NOTIFICATION_BYTES) -> None:
        """Queue a callback that takes `size` bytes of memory. Never blocks.

        If the queue is full, the oldest callbacks are dropped. Exceptions of callbacks are logged.
        """
        with self._lock:
            if self._closed:
                return
            self.waiting.add(callback, size)
            if not self._has_thread:
                self._has_thread = True
                try:
                    threading.Thread(
                        target=self._run, name="minimcp-callbacks", daemon=True
                    ).start()
                except RuntimeError as error:  # no thread: the next callback tries again
                    self._has_thread = False
                    log.error("a callback is delayed: %s", error)

    def _run(self) -> None:
        for _ in iter(self.waiting.get, None):
            for callback in iter(self.waiting.take, None):
                try:
                    with exit_gate:
                        self._context.copy().run(callback)
                except BaseException as error:
                    log.error("a callback failed: %s", describe(error), exc_info=error)

    def close(self) -> None:
        """End the thread after the queued callbacks, and accept no new ones. Idempotent."""
        # Without the lock, which another thread may have held when this process was forked.
        self._closed = True
        self.waiting.put(None)


# ------------------------------------------------------------ kinds of questions


class QuestionKind(NamedTuple):
    """A kind of question: the host's function that answers it, and the capability that it
    requires."""

    handler: str
    capability: str


QUESTIONS = {
    "sampling/createMessage": QuestionKind("sample", "sampling"),
    "elicitation/create": QuestionKind("elicit", "elicitation"),
    "roots/list": QuestionKind("list_roots", "roots"),
}
"""The kinds of questions by method. `questions` reads them."""

UPDATED = "notifications/resources/updated"

# For each notification: the callback, and the function that reads its argument from the params
# (None: no argument). The function may raise ValueError.
CALLBACKS: dict[str, tuple[str, Optional[Callable[[Result], Any]]]] = {
    "notifications/message": ("on_log", lambda params: types.LogMessage.from_wire(params)),
    **{f"notifications/{name}/list_changed": (f"on_{name}_changed", None) for name in LISTS},
    UPDATED: ("on_resource_updated", lambda params: types.Change.from_notice(UPDATED, params).uri),
}

# The functions that a host may pass; `connect` has a keyword of each name.
NAMES = (
    *(kind.handler for kind in QUESTIONS.values()),
    *(name for name, _ in CALLBACKS.values()),
    "on_restart",
)

# The functions that are called for notifications.
NOTIFIED = frozenset(name for name, _ in CALLBACKS.values())
