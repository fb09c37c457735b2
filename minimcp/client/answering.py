"""From a server's question to the host's answer, in either era.

https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from .. import schema, types
from ..engine.pool import here
from ..engine.requests import CancelToken, IncomingRequest
from ..errors import USER_REJECTED, InternalError, InvalidParams, MethodNotFound, Refused, RpcError, one_line
from ..errors import describe
from ..protocol.messages import Json
from ..protocol.versions import Revision
from .clock import Clock
from .handlers import Handlers, as_roots

log = logging.getLogger("minimcp.client")


class HandlerFailed(Refused):
    """A question is refused because the host's handler raised something else, or returned what is no answer."""


Asked = Union[IncomingRequest, CancelToken]
"""Says by ``cancelled`` and ``on_cancel`` whether somebody still waits for an answer."""


class Question(NamedTuple):
    """A question that may be asked, read and checked."""

    method: str
    handler: Callable[..., Any]
    request: Any
    """What the handler gets; None for one without arguments."""
    write: Callable[[Any], dict[str, Json]]
    """From what the handler returns to the answer. Raises TypeError and ValueError."""
    asked: Asked


class Answerer:
    """The host's side of one client. Thread-safe.

    Args:
        handlers: The host's.

    ``clock`` stands while one of them answers.
    """

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers
        self.clock = Clock()

    def takes(self, method: str, revision: Revision) -> bool:
        """Whether this client declares in a revision that it can be asked this."""
        kind = KINDS.get(method)
        return kind is not None and kind.capability in self.handlers.capabilities(revision)

    def read(
        self,
        method: str,
        params: Mapping[str, Json],
        revision: Revision,
        server: Optional[types.Implementation],
        asked: Asked,
    ) -> Question:
        """Read a question and check that it may be asked.

        Args:
            method: Of the question.
            params: Of the question.
            revision: That is spoken.
            server: Who asks.
            asked: Whether somebody still waits.

        Raises:
            MethodNotFound: This client did not declare that it can be asked this.
            InvalidParams: The question is none, or one of a kind that this client did not declare.
        """
        kind = KINDS.get(method)
        parts = None if kind is None else self.handlers.capabilities(revision).get(kind.capability)
        if kind is None or parts is None:
            raise MethodNotFound(f"Method not found: {one_line(method)}")
        try:
            request, write = kind.read(params, parts, revision)
        except ValueError as error:
            raise InvalidParams(f"{method}: {error}") from None
        if request is not None:
            request.server, request.asked = server, asked
        return Question(method, self.handlers.functions[kind.handler], request, write, asked)

    def answer(self, question: Question) -> dict[str, Json]:
        """Run the host's handler on this thread; the clock stands until it returns or nobody waits any more.

        Args:
            question: From `read`.

        Raises:
            Refused: The handler refuses.
            HandlerFailed: It failed; that is logged.
        """
        hold = self.clock.hold()
        question.asked.on_cancel(hold.release)
        try:
            with hold:
                request = question.request
                return question.write(question.handler() if request is None else question.handler(request))
        except Refused:
            raise
        except BaseException as error:  # even SystemExit: the server waits for an answer
            log.error("the handler for %s failed: %s", question.method, describe(error), exc_info=error)
            raise HandlerFailed(f"the handler for {question.method} failed: {describe(error)}") from error

    def serve(self, exchange: IncomingRequest) -> dict[str, Json]:
        """Answer a question that came as a request: handles its route.

        Raises:
            RpcError: Whatever the server is told.
        """
        here.request = None  # a host's handler is no server's handler: it has no context
        request, peer = exchange.request, exchange.peer
        server = types.Implementation.of_peer(peer.info)
        question = self.read(request.method, request.params, peer.revision, server, exchange)
        try:
            return self.answer(question)
        except HandlerFailed:
            raise InternalError("the host's handler failed") from None
        except Refused as error:
            raise RpcError(USER_REJECTED, error.reason or f"the user rejected {request.method}") from None


# ------------------------------------------------------------ what can be asked


class Kind(NamedTuple):
    """One kind of question."""

    handler: str
    capability: str
    read: Callable[[Mapping[str, Json], Mapping[str, Json], Revision], tuple[Any, Callable[[Any], dict[str, Json]]]]
    """From the params, the declared parts and the revision to the request and the way to write what is returned.
    Raises ValueError."""


def _read_sample(
    params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[types.SampleRequest, Callable[[Any], dict[str, Json]]]:
    request = types.SampleRequest.from_wire(params)
    if "tools" not in parts and (request.tools is not None or request.tool_choice is not None):
        raise ValueError("this client does not declare sampling.tools")
    fault = types.conversation_fault(request.messages)
    if fault is not None:
        raise ValueError(fault)
    return request, lambda returned: _sample(returned, revision)


def _sample(returned: Any, revision: Revision) -> dict[str, Json]:
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
) -> tuple[types.ElicitRequest, Callable[[Any], dict[str, Json]]]:
    request = types.ElicitRequest.from_wire(params)
    if request.mode not in (parts or ("form",)):
        raise ValueError(f"this client does not declare elicitation by {one_line(request.mode)}")
    if request.mode == "url":
        if request.url is None or request.host is None:
            raise ValueError("url must be a URL")
        return request, _consent
    if request.schema is None:
        raise ValueError("requestedSchema is missing")
    check, fits = _checks_of(request.schema)
    defaults = _fitting(request, fits)
    needed = request.schema.get("required", ())

    def content(fields: dict[str, Json]) -> dict[str, Json]:
        found = {**defaults, **_without_null(fields, needed, fits)}
        fault = check(found)
        if fault is not None:
            raise ValueError(f"what elicit returned does not fit the schema: {fault}")
        return found

    return request, lambda returned: _content(returned, content)


Check = Callable[[Any], Optional[str]]


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
    except (ImportError, schema.EndlessPattern) as error:
        log.warning("an answer is sent unchecked: %s", error)
        return _unchecked, _unchecked


def _unchecked(content: Any) -> None:
    return None


def _fitting(request: types.ElicitRequest, fits: Check) -> dict[str, Json]:
    """The defaults that fit. The others go to the log, and the host sees a schema without them."""
    given = _without_null(request.defaults, (), fits)
    faults = {name: fault for name, value in given.items() for fault in [fits({name: value})] if fault is not None}
    if faults:
        told = one_line("; ".join(faults.values()))
        log.warning("a form with defaults that do not fit, which are left out: %s", told)
        schema: Json = request.schema
        properties = {
            name: {word: rule for word, rule in field.items() if word != "default"} if name in faults else field
            for name, field in schema["properties"].items()
        }
        request.requested_schema = {**schema, "properties": properties}
    return {name: value for name, value in given.items() if name not in faults}


def _without_null(members: dict[str, Json], needed: Sequence[str], fits: Check) -> dict[str, Json]:
    """An object without members that are null where that is no value: they were not filled in."""
    return {
        name: value
        for name, value in members.items()
        if value is not None or fits({name: None}) is None or name in needed
    }


def _consent(returned: Any) -> dict[str, Json]:
    """An answer without content: to open a URL, or not."""
    answer = _as_answer(returned)
    _fields(answer.content)  # False and the like are neither a yes nor a no
    return {"action": answer.action}


def _content(returned: Any, content: Callable[[dict[str, Json]], dict[str, Json]]) -> dict[str, Json]:
    answer = _as_answer(returned)
    if answer.action != "accept":
        return {"action": answer.action}
    return {"action": "accept", "content": content(_fields(answer.content))}


def _as_answer(returned: Any) -> types.Answer:
    if isinstance(returned, types.Answer):
        return returned
    return types.Answer("decline") if returned is None else types.Answer("accept", returned)


def _fields(content: Any) -> dict[str, Json]:
    """The members of a dict or an object; an object's member that is None has no value."""
    written = {} if content is None else schema.write_any(content)
    if not isinstance(written, dict):
        raise TypeError(f"elicit returns a dict, a dataclass, None or an Answer, not {type(content).__name__}")
    if isinstance(content, dict):
        return written
    return {name: value for name, value in written.items() if value is not None}


def _read_roots(
    params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[None, Callable[[Any], dict[str, Json]]]:
    return None, lambda returned: {"roots": [root.to_wire() for root in as_roots(returned)]}


KINDS = {
    "sampling/createMessage": Kind("sample", "sampling", _read_sample),
    "elicitation/create": Kind("elicit", "elicitation", _read_elicit),
    "roots/list": Kind("list_roots", "roots", _read_roots),
}
"""By method."""
