"""Questions that a server asks the host: how they are read, and how answers are written.

Imported with the first question, or when the host passes roots.
https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import os
from functools import partial
from time import thread_time
from typing import Any, Callable, Iterable, Mapping, Sequence

from .. import schema, types
from ..engine.calls import PendingCall
from ..engine.cancel import CancelToken
from ..log import logger
from ..protocol.messages import Json
from ..protocol.urls import parse_web_url
from ..protocol.versions import Revision
from ..schema.checker import MAX_SECONDS, TOO_MUCH, Check
from ..schema.mismatch import unknown_field
from ..text import one_line
from ..types import Root

log = logger("minimcp.client")

Result = dict[str, Json]

# Converts the return value of the host's function to a result.
Write = Callable[[Any], Result]


def read_question(
    method: str, params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[Any, Write]:
    """Read a question and check that the client declared it.

    Args:
        method: A method in `host.QUESTIONS`.
        params: The params of the question.
        parts: The parts of this capability that the client declared.
        revision: The revision in use.

    Returns:
        The argument for the host's function (None if it takes none), and a function that converts
        its return value.

    Raises:
        ValueError: The question is invalid or needs a part that was not declared.
    """
    if method == "sampling/createMessage":
        return _read_sample(params, parts, revision)
    if method == "elicitation/create":
        return _read_elicit(params, parts)
    return None, _write_roots


def cancel_with(calls: Sequence[PendingCall], token: CancelToken) -> Callable[[], None]:
    """Cancel a token when the last of these calls has ended. Without calls, never cancel it.

    Return a function that stops this.
    """

    # `setdefault` is atomic, so two threads share one token.
    tokens = [vars(call).setdefault("ended", CancelToken()) for call in calls]

    def look() -> None:
        if all(call.outcome is not None or ended.cancelled for call, ended in zip(calls, tokens)):
            token.cancel("the call has ended")

    undo = [ended.on_cancel(look) for ended in tokens]
    if calls:
        look()  # the last call may have ended before it had a token

    def forget() -> None:
        for each in undo:
            each()

    return forget


def as_roots(roots: Any) -> list[Root]:
    """Return roots as `Root` objects.

    Raises:
        TypeError: The roots are not a sequence of paths, URIs and `Root` objects.
        ValueError: A URI is not a ``file://`` URI, or contains "..".
    """
    if isinstance(roots, (str, os.PathLike, Root, Mapping)) or not isinstance(roots, Iterable):
        raise TypeError(
            f"roots must be a list of paths, URIs or Root objects, not {type(roots).__name__}"
        )
    read: list[Root] = []
    for given in roots:
        if not isinstance(given, (str, os.PathLike, Root)):
            raise TypeError(f"a root must be a path, a URI or a Root, not {type(given).__name__}")
        if isinstance(given, str) and "://" in given:
            given = Root(given)
        elif not isinstance(given, Root):
            given = Root.from_path(given)
        if given.uri[:7].lower() != "file://" or (
            given.path is not None and ".." in given.path.parts
        ):
            raise ValueError(f"a root must be a file:// URI without '..', not {given.uri!r}")
        read.append(given)
    return read


def _write_roots(returned: Any) -> Result:
    return {"roots": [root.to_wire() for root in as_roots(returned)]}


def _read_sample(
    params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[types.SampleRequest, Write]:
    request = types.SampleRequest.from_wire(params)
    if "tools" not in parts and (request.tools is not None or request.tool_choice is not None):
        raise ValueError("this client does not declare sampling.tools")
    fault = types.conversation_fault(request.messages)
    if fault is not None:
        raise ValueError(fault)
    return request, partial(_write_sample, revision)


def _write_sample(revision: Revision, returned: Any) -> Result:
    result = returned
    if isinstance(returned, str):
        result = types.SampleResult(returned, stop_reason="endTurn")
    if not isinstance(result, types.SampleResult):
        raise TypeError(f"sample must return a str or a SampleResult, not {type(result).__name__}")
    kinds = {block.type for block in result.content}
    if not kinds <= revision.sampling_kinds:
        unknown = ", ".join(sorted(kinds - revision.sampling_kinds))
        raise ValueError(f"in {revision.name} a model's answer cannot contain {unknown}")
    written = result.to_wire()
    if len(result.content) != 1 and not revision.sampling_tools:
        if kinds != {"text"}:
            raise ValueError(f"in {revision.name} a model's answer must be one block")
        written["content"] = types.Text(result.text).to_wire()
    return written


def _read_elicit(
    params: Mapping[str, Json], parts: Mapping[str, Json]
) -> tuple[types.ElicitRequest, Write]:
    request = types.ElicitRequest.from_wire(params)
    if request.mode not in (parts or ("form",)):
        raise ValueError(f"this client does not declare elicitation by {one_line(request.mode)}")
    if request.mode == "url":
        parse_web_url(request.url or "")

        request.checker = _fields

        def consent(returned: Any) -> Result:
            answer = _as_answer(returned)
            _fields(answer.content)  # rejects False and the like, which are ambiguous
            return {"action": answer.action}

        return request, consent
    if request.schema is None:
        raise ValueError("requestedSchema is missing")
    check, fits = _checks_of(request.schema)
    drop_wrong_defaults(request, fits)
    defaults = request.defaults
    needed = request.schema.get("required", ())
    fields: Any = None
    if "additionalProperties" not in request.schema:
        fields = request.schema.get("properties")

    def complete(filled: Any) -> Result:
        # A field that is None was not filled in, unless the schema allows null or requires it.
        given = {
            name: value
            for name, value in _fields(filled).items()
            if value is not None or fits({name: None}) is None or name in needed
        }
        content = {**defaults, **given}
        odd = None if fields is None else next((name for name in given if name not in fields), None)
        missing = [name for name in needed if name not in content]
        fault = check(content) if odd is None else unknown_field(given, odd, fields, missing)
        if fault is not None:
            raise ValueError(str(fault))
        return content

    def write(returned: Any) -> Result:
        answer = _as_answer(returned)
        if answer.action != "accept":
            return {"action": answer.action}
        try:
            return {"action": "accept", "content": complete(answer.content)}
        except ValueError as error:
            raise ValueError(
                f"the return value of elicit does not match the schema: {error}"
            ) from None

    request.checker = complete

    return request, write


def _checks_of(wanted: Json) -> tuple[Check, Check]:
    """Return the check of an answer and the check of single fields.

    Raises:
        ValueError: `wanted` is not the schema of an object.
    """
    kind = wanted.get("type", "object")
    if kind != "object":
        raise ValueError(f"requestedSchema must have the type 'object', not {kind!r:.60}")
    part = {
        word: wanted[word]
        for word in ("$schema", "$defs", "definitions", "properties")
        if word in wanted
    }
    try:
        whole = schema.compile_peer_check(wanted, where="requestedSchema")
        return whole, schema.compile_peer_check(part, where="requestedSchema")
    except ImportError as error:
        log.warning("an answer to elicitation is not checked: %s", error)
        return (lambda content: None), (lambda content: None)


def drop_wrong_defaults(request: types.ElicitRequest, fits: Check) -> None:
    """Remove the defaults that do not match the schema from a form."""
    until = thread_time() + MAX_SECONDS  # for all defaults together
    found = {
        name: fits({name: value}) if thread_time() < until else TOO_MUCH
        for name, value in request.defaults.items()
    }
    faults = {name: fault for name, fault in found.items() if fault is not None}
    if faults:
        log.warning("ignored invalid defaults of a form: %s", "; ".join(map(str, faults.values())))
        shape: Json = request.schema
        fields = {
            name: {**field} if name in faults else field
            for name, field in shape["properties"].items()
        }
        for name in faults:
            del fields[name]["default"]
        request.schema = {**shape, "properties": fields}


def _as_answer(returned: Any) -> types.Answer:
    if isinstance(returned, types.Answer):
        return returned
    return types.Answer("decline") if returned is None else types.Answer("accept", returned)


def _fields(content: Any) -> Result:
    """Return the members of a dict or an object. A member of an object that is None counts as
    absent."""
    written = {} if content is None else schema.write_any(content)
    if not isinstance(written, dict):
        raise TypeError(
            "elicit must return a dict, a dataclass, None or an Answer, not "
            f"{type(content).__name__}: {{}} accepts a form without fields, None declines"
        )
    if isinstance(content, dict):
        return written
    return {name: value for name, value in written.items() if value is not None}
