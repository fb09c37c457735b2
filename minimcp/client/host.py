"""The host's side of a client: the functions it gave to `connect`, how they answer questions, where callbacks run.

https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from functools import partial
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence, Union

from .. import schema, types
from ..engine.pool import Pool, here
from ..engine.requests import CancelToken, IncomingRequest
from ..errors import (
    USER_REJECTED,
    InternalError,
    InvalidParams,
    MethodNotFound,
    Refused,
    RpcError,
    describe,
    one_line,
)
from ..protocol.lifecycle import Handshake, Peer, PerRequest
from ..protocol.messages import Json, Notification
from ..protocol.versions import Revision
from ..schema.mismatch import Mismatch, nearest
from ..schema.signature import refuse_async
from ..types import Change, LogMessage, Root
from ..types.meta import check_extensions
from .cache import Cache

log = logging.getLogger("minimcp.client")

MOST_NOTIFICATIONS = 10_000
"""Notifications that wait for their callback; when there are more, the oldest are dropped with one warning."""

Rootlike = Union[str, "os.PathLike[str]", Root]
"""What a host may name a root by: a path, a ``file://`` URI or a `Root`."""

Era = Union[Handshake, PerRequest]
Result = dict[str, Json]
Check = Callable[[Any], Optional[Mismatch]]
Asked = Union[IncomingRequest, CancelToken]


class HandlerFailed(Refused):
    """A question is refused because the host's handler raised something else, or returned what is no answer."""


Answer = Callable[[], Result]
"""Runs the host's handler for one question on the calling thread. Raises Refused: it refuses, or `HandlerFailed`."""


class Host:
    """The host's side of one client, for all its connections: what it gave to `connect`, and how that is called.

    Args:
        handlers: An object with any of `NAMES`; None has none.
        keywords: More of them by name, which None leaves out.
        roots: Stands for a `list_roots` that returns them; None gives none.
        sampling: Parts of sampling that `sample` can do: "tools", "context".
        elicitation: Parts of elicitation that `elicit` can do: "form", "url".
        extensions: That are declared, by identifier; None declares none.
        workers: Questions that are answered at the same time; None means no limit.
        cache: What a change makes stale, before anybody hears of it; None keeps nothing.

    Raises:
        TypeError: A function is given both ways, is async or cannot be called; the object is a class or a mapping, has
            none of them, or has one under a misspelt name; a root is none; or parts are no sequence of names.
        ValueError: A root is none, there is no such part, or `elicit` can do nothing.

    Thread safety: all methods, from any thread.
    """

    def __init__(
        self, handlers: Any = None, keywords: Optional[Mapping[str, Any]] = None, *,
        roots: Optional[Iterable[Rootlike]] = None, sampling: Sequence[str] = (),
        elicitation: Sequence[str] = ("form", "url"), extensions: Optional[Mapping[str, Json]] = None,
        workers: Optional[int] = None, cache: Optional[Cache] = None,
    ) -> None:
        self.functions = _gathered(handlers, keywords or {})
        self.roots: Optional[list[Root]] = None
        """What was given as ``roots``, which may be replaced."""
        if roots is not None:
            if "list_roots" in self.functions:
                raise TypeError("roots and list_roots are two ways to say the same: give one of them")
            self.roots, self.functions["list_roots"] = as_roots(roots), lambda: self.roots
        if sampling and "sample" not in self.functions:
            raise TypeError("sampling says what else sample can do, and there is no sample")
        self._parts: dict[str, tuple[str, ...]] = {
            "sampling": _parts("sampling", sampling, ("tools", "context"), "sample"),
            "elicitation": _parts("elicitation", elicitation, ("form", "url"), "elicit"),
            "roots": ("listChanged",),
        }
        if not elicitation:
            raise ValueError('elicitation names "form", "url" or both')
        self._extensions = None if extensions is None else check_extensions(extensions)
        self.cache = Cache(0) if cache is None else cache
        self.pool = Pool(workers, name="minimcp-client")
        self.dispatcher = Dispatcher()

    def capabilities(self, revision: Revision) -> dict[str, Json]:
        """What this lets a client declare in a revision."""
        declared: dict[str, Json] = {} if self._extensions is None else {"extensions": self._extensions}
        for kind in KINDS.values():
            known, able = revision.client_capabilities.get(kind.capability), self._parts[kind.capability]
            forms_only = kind.capability == "elicitation" and not known  # in this revision
            if kind.handler in self.functions and known is not None and not (forms_only and "form" not in able):
                parts = [part for part in known if part in able]
                declared[kind.capability] = {part: True if part == "listChanged" else {} for part in parts}
        return declared

    # ------------------------------------------------------------ questions

    def read(self, method: str, params: Mapping[str, Json], peer: Peer, asked: Asked) -> Answer:
        """Read a question, and check that it may be asked, before the host is.

        Args:
            method: Of the question.
            params: Of the question.
            peer: Who asks, and in which revision.
            asked: Says by ``cancelled`` and ``on_cancel`` whether somebody still waits for an answer.

        Raises:
            MethodNotFound: This client did not declare that it can be asked this.
            InvalidParams: The question makes no sense, or is of a kind that this client did not declare.
        """
        kind = KINDS.get(method)
        parts = None if kind is None else self.capabilities(peer.revision).get(kind.capability)
        if kind is None or parts is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        try:
            request, write = kind.read(params, parts, peer.revision)
        except ValueError as error:
            raise InvalidParams(f"{method}: {error}") from None
        if request is not None:
            request.server, request.asked = types.Implementation.of_peer(peer.info), asked
        handler = self.functions[kind.handler]
        arguments = () if request is None else (request,)

        def answer() -> Result:
            try:
                return write(handler(*arguments))
            except Refused:
                raise
            except BaseException as error:  # even SystemExit: the server waits for an answer
                log.error("the handler for %s failed: %s", method, describe(error), exc_info=error)
                raise HandlerFailed(f"the handler for {method} failed: {describe(error)}") from error

        return answer

    def serve(self, incoming: IncomingRequest) -> Result:
        """Answer a question that came as a request.

        Raises:
            RpcError: Whatever the server is told.
        """
        here.request = None  # a host's handler is no server's handler: it has no context
        method = incoming.request.method
        try:
            return self.read(method, incoming.request.params, incoming.peer, incoming)()
        except HandlerFailed:
            raise InternalError("the host's handler failed") from None
        except Refused as error:
            raise RpcError(USER_REJECTED, error.reason or f"the user rejected {method}") from None

    # ------------------------------------------------------------ notifications

    def call(self, name: str, *arguments: Any) -> None:
        """Have a callback called by the dispatcher, if the host gave it."""
        function = self.functions.get(name)
        if function is not None:
            self.dispatcher.put(partial(function, *arguments))

    def tell(self, notification: Notification) -> None:
        """Have the callback for a notification called."""
        method, params = notification
        name = CALLBACKS.get(method, "")
        if name not in self.functions:
            log.debug("<-- %s: nobody listens", one_line(method))
            return
        try:
            told: list[Any] = []
            if name == "on_log":
                told = [LogMessage.from_wire(params)]
            elif name == "on_resource_updated":
                told = [Change.from_notice(method, params).uri]
        except ValueError as error:
            log.debug("<-- a %s that makes no sense: %s", method, error)
        else:
            self.call(name, *told)


# ------------------------------------------------------------ what a host gives

def _gathered(handlers: Any, keywords: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """The functions of an object and keywords, by name. Raises TypeError, as `Host`."""
    if isinstance(handlers, type):
        raise TypeError(f"handlers={handlers.__name__} is a class: give an instance of it")
    if isinstance(handlers, Mapping):
        raise TypeError("handlers is an object with methods, and this is a mapping: say **handlers")
    functions: dict[str, Callable[..., Any]] = {}
    for name in NAMES:
        own, given = getattr(handlers, name, None), keywords.get(name)
        if own is not None and given is not None:
            raise TypeError(f"{name} is given twice: by handlers and as a keyword")
        function = own if given is None else given
        if function is not None:
            if not callable(function):
                raise TypeError(f"{name} is called, and {type(function).__name__} cannot be")
            refuse_async(function, name)
            functions[name] = function
    for name in dir(handlers):
        if name.startswith("on_") and name not in NAMES:
            near = nearest(name, NAMES)
            if near is not None:
                raise TypeError(f"handlers has {name}, which nothing calls: did you mean {near}?")
            log.info("handlers has %s, which nothing calls: there is %s", one_line(name), ", ".join(NAMES))
    if handlers is not None and not any(hasattr(handlers, name) for name in NAMES):
        raise TypeError(f"handlers has none of {', '.join(NAMES)}: it is {handlers!r:.60}")
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


def as_roots(roots: Any) -> list[Root]:
    """Roots from what a host names them by.

    Raises:
        TypeError: This is no sequence of paths, URIs and `Root` objects.
        ValueError: A URI is no ``file://`` URI, or goes up by "..".
    """
    if isinstance(roots, (str, os.PathLike, Root, Mapping)) or not isinstance(roots, Iterable):
        raise TypeError(f"roots are a list of paths, URIs or Root objects, not {type(roots).__name__}")
    read: list[Root] = []
    for given in roots:
        if not isinstance(given, (str, os.PathLike, Root)):
            raise TypeError(f"a root is a path, a URI or a Root, not {type(given).__name__}")
        if not isinstance(given, Root):
            given = Root(given) if isinstance(given, str) and "://" in given else Root.from_path(given)
        if not given.uri.startswith("file://") or (given.path is not None and ".." in given.path.parts):
            raise ValueError(f"a root is a file:// URI that does not go up, unlike {given.uri!r}")
        read.append(given)
    return read


# ------------------------------------------------------------ where callbacks run


class Dispatcher:
    """One thread that runs callbacks in order, as long as somebody has it open. Thread-safe; `put` never blocks.

    The thread starts with the first callback. It ends when everybody has closed this and nothing waits; if this is
    opened again later, another one starts.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], Any]] = deque(maxlen=MOST_NOTIFICATIONS)
        self._thread: Optional[threading.Thread] = None
        self._users = 0
        self._dropped = False

    def open(self) -> None:
        """Take callbacks until the `close` that belongs to this."""
        with self._changed:
            self._users += 1

    def put(self, callback: Callable[[], Any]) -> None:
        """Queue a callback; the oldest is dropped when too many wait. What it raises is logged."""
        with self._changed:
            if self._users <= 0:
                return
            if len(self._waiting) == MOST_NOTIFICATIONS and not self._dropped:
                self._dropped = True
                log.warning("more than %d notifications wait for a slow callback: the oldest are dropped",
                            MOST_NOTIFICATIONS)
            self._waiting.append(callback)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="minimcp-callbacks", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._users <= 0)
                if not self._waiting:
                    self._thread = None
                    return
                callback = self._waiting.popleft()
            try:
                callback()
            except BaseException as error:
                log.error("a callback failed: %s", describe(error), exc_info=error)

    def close(self) -> None:
        """Let the thread end when everything that waits has run, unless somebody else has this open."""
        with self._changed:
            self._users -= 1
            self._changed.notify()


# ------------------------------------------------------------ what can be asked


class Kind(NamedTuple):
    """One kind of question."""

    handler: str
    capability: str
    read: Callable[[Mapping[str, Json], Mapping[str, Json], Revision], tuple[Any, Callable[[Any], Result]]]
    """From the params, the declared parts and the revision to the request and the way to write what is returned.
    Raises ValueError."""


def _read_sample(
    params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[types.SampleRequest, Callable[[Any], Result]]:
    request = types.SampleRequest.from_wire(params)
    if "tools" not in parts and (request.tools is not None or request.tool_choice is not None):
        raise ValueError("this client does not declare sampling.tools")
    fault = types.conversation_fault(request.messages)
    if fault is not None:
        raise ValueError(fault)
    return request, partial(_write_sample, revision)


def _write_sample(revision: Revision, returned: Any) -> Result:
    result = types.SampleResult(returned, stop_reason="endTurn") if isinstance(returned, str) else returned
    if not isinstance(result, types.SampleResult):
        raise TypeError(f"sample returns a str or a SampleResult, not {type(result).__name__}")
    kinds = {block.type for block in result.content}
    if not kinds <= revision.sampling_kinds:
        raise ValueError(f"{revision.name} has no content {', '.join(sorted(kinds - revision.sampling_kinds))} here")
    written = result.to_wire()
    if len(result.content) != 1 and not revision.sampling_tools:
        if kinds != {"text"}:
            raise ValueError(f"in {revision.name} a model answers with one block")
        written["content"] = types.Text(result.text).to_wire()
    return written


def _read_elicit(
    params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[types.ElicitRequest, Callable[[Any], Result]]:
    request = types.ElicitRequest.from_wire(params)
    if request.mode not in (parts or ("form",)):
        raise ValueError(f"this client does not declare elicitation by {one_line(request.mode)}")
    if request.mode == "url":
        if request.url is None or request.host is None:
            raise ValueError("url must be a URL")

        def consent(returned: Any) -> Result:
            answer = _as_answer(returned)
            _fields(answer.content)  # False and the like are neither a yes nor a no
            return {"action": answer.action}

        return request, consent
    if request.schema is None:
        raise ValueError("requestedSchema is missing")
    check, fits = _checks_of(request.schema)
    defaults = _fitting_defaults(request, fits)
    needed = request.schema.get("required", ())

    def write(returned: Any) -> Result:
        answer = _as_answer(returned)
        if answer.action != "accept":
            return {"action": answer.action}
        content = {**defaults, **_without_null(_fields(answer.content), needed, fits)}
        fault = check(content)
        if fault is not None:
            raise ValueError(f"what elicit returned does not fit the schema: {fault}")
        return {"action": "accept", "content": content}

    return request, write


def _checks_of(wanted: Json) -> tuple[Check, Check]:
    """The check of an answer, and that of some of its members.

    Raises:
        ValueError: This is no schema of an object.
    """
    says = wanted.get("type", "object")
    if says != "object":
        raise ValueError(f"requestedSchema is of the type {says!r:.60}, not 'object'")
    part = {word: wanted[word] for word in ("$schema", "$defs", "definitions", "properties") if word in wanted}
    try:
        whole = schema.compile_peer_check(wanted, where="requestedSchema")
        return whole, schema.compile_peer_check(part, where="requestedSchema")
    except ImportError as error:
        log.warning("an answer is sent unchecked: %s", error)
        return (lambda content: None), (lambda content: None)


def _fitting_defaults(request: types.ElicitRequest, fits: Check) -> Result:
    """The defaults that fit. The others go to the log, and the host sees a schema without them."""
    given = _without_null(request.defaults, (), fits)
    faults = {name: fault for name, value in given.items() for fault in [fits({name: value})] if fault is not None}
    if faults:
        told = one_line("; ".join(map(str, faults.values())))
        log.warning("a form with defaults that do not fit, which are left out: %s", told)
        schema: Json = request.schema
        properties = {
            name: {word: rule for word, rule in field.items() if word != "default"} if name in faults else field
            for name, field in schema["properties"].items()
        }
        request.schema = {**schema, "properties": properties}
    return {name: value for name, value in given.items() if name not in faults}


def _without_null(members: Result, needed: Sequence[str], fits: Check) -> Result:
    """An object without members that are null where that is no value: they were not filled in."""
    return {
        name: value
        for name, value in members.items()
        if value is not None or fits({name: None}) is None or name in needed
    }


def _as_answer(returned: Any) -> types.Answer:
    if isinstance(returned, types.Answer):
        return returned
    return types.Answer("decline") if returned is None else types.Answer("accept", returned)


def _fields(content: Any) -> Result:
    """The members of a dict or an object; an object's member that is None has no value."""
    written = {} if content is None else schema.write_any(content)
    if not isinstance(written, dict):
        raise TypeError(f"elicit returns a dict, a dataclass, None or an Answer, not {type(content).__name__}")
    if isinstance(content, dict):
        return written
    return {name: value for name, value in written.items() if value is not None}


KINDS = {
    "sampling/createMessage": Kind("sample", "sampling", _read_sample),
    "elicitation/create": Kind("elicit", "elicitation", _read_elicit),
    "roots/list": Kind("list_roots", "roots", lambda params, parts, revision: (
        None, lambda returned: {"roots": [root.to_wire() for root in as_roots(returned)]}
    )),
}
"""By method."""

CALLBACKS = {
    "notifications/message": "on_log",
    **{f"notifications/{name}/list_changed": f"on_{name}_changed" for name in ("tools", "resources", "prompts")},
    "notifications/resources/updated": "on_resource_updated",
}
"""By notification: the callback."""

NAMES = (*(kind.handler for kind in KINDS.values()), *CALLBACKS.values())
"""The functions that a host may give."""
