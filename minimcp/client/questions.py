"""Questions that a server asks the host of a client: how they are read, and how answers are
written.

Imported when the first question comes, or when the host names roots.
https://modelcontextprotocol.io/specification/2026-07-28/client
"""

from __future__ import annotations

import os
from functools import partial
from time import thread_time
from typing import Any, Callable, Iterable, Mapping

from .. import schema, types
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

# Writes what the host's function returned.
Write = Callable[[Any], Result]


def read_question(
    method: str, params: Mapping[str, Json], parts: Mapping[str, Json], revision: Revision
) -> tuple[Any, Write]:
    """Read a question, and check that it is one that the client declared.

    Args:
        method: One of `host.QUESTIONS`.
        params: The params of the question.
        parts: What the client declared for this capability.
        revision: The revision that is spoken.

    Returns:
        The argument for the host's function (None if it takes none), and a function that writes
        what it returns.

    Raises:
        ValueError: The question makes no sense, or asks for a part that was not declared.
    """
    if method == "sampling/createMessage":
        return _read_sample(params, parts, revision)
    if method == "elicitation/create":
        return _read_elicit(params, parts)
    return None, _write_roots


def as_roots(roots: Any) -> list[Root]:
    """Roots from what a host names them by.

    Raises:
        TypeError: This is no sequence of paths, URIs and `Root` objects.
        ValueError: A URI is no ``file://`` URI, or goes up by "..".
    """
    if isinstance(roots, (str, os.PathLike, Root, Mapping)) or not isinstance(roots, Iterable):
        raise TypeError(
            f"roots are a list of paths, URIs or Root objects, not {type(roots).__name__}"
        )
    read: list[Root] = []
    for given in roots:
        if not isinstance(given, (str, os.PathLike, Root)):
            raise TypeError(f"a root is a path, a URI or a Root, not {type(given).__name__}")
        if not isinstance(given, Root):
            given = (
                Root(given) if isinstance(given, str) and "://" in given else Root.from_path(given)
            )
        if given.uri[:7].lower() != "file://" or (
            given.path is not None and ".." in given.path.parts
        ):
            raise ValueError(f"a root is a file:// URI that does not go up, unlike {given.uri!r}")
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
    result = (
        types.SampleResult(returned, stop_reason="endTurn")
        if isinstance(returned, str)
        else returned
    )
    if not isinstance(result, types.SampleResult):
        raise TypeError(f"sample returns a str or a SampleResult, not {type(result).__name__}")
    kinds = {block.type for block in result.content}
    if not kinds <= revision.sampling_kinds:
        raise ValueError(
            f"{revision.name} has no content "
            f"{', '.join(sorted(kinds - revision.sampling_kinds))} here"
        )
    written = result.to_wire()
    if len(result.content) != 1 and not revision.sampling_tools:
        if kinds != {"text"}:
            raise ValueError(f"in {revision.name} a model answers with one block")
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

        def consent(returned: Any) -> Result:
            answer = _as_answer(returned)
            _fields(answer.content)  # False and the like are neither a yes nor a no
            return {"action": answer.action}

        return request, consent
    if request.schema is None:
        raise ValueError("requestedSchema is missing")
    check, fits = _checks_of(request.schema)
    _drop_wrong_defaults(request, fits)
    defaults, needed = request.defaults, request.schema.get("required", ())
    fields: Any = (
        None if "additionalProperties" in request.schema else request.schema.get("properties")
    )

    def write(returned: Any) -> Result:
        answer = _as_answer(returned)
        if answer.action != "accept":
            return {"action": answer.action}
        given = {
            name: value
            for name, value in _fields(answer.content).items()
            if value is not None
            or fits({name: None}) is None
            or name in needed  # else it was not filled in
        }
        content = {**defaults, **given}
        odd = None if fields is None else next((name for name in given if name not in fields), None)
        missing = [name for name in needed if name not in content]
        fault = check(content) if odd is None else unknown_field(given, odd, fields, missing)
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
    part = {
        word: wanted[word]
        for word in ("$schema", "$defs", "definitions", "properties")
        if word in wanted
    }
    try:
        whole = schema.compile_peer_check(wanted, where="requestedSchema")
        return whole, schema.compile_peer_check(part, where="requestedSchema")
    except ImportError as error:
        log.warning("an answer is sent unchecked: %s", error)
        return (lambda content: None), (lambda content: None)


def _drop_wrong_defaults(request: types.ElicitRequest, fits: Check) -> None:
    """Leave the defaults out of a form that do not fit it."""
    until = thread_time() + MAX_SECONDS  # for all together
    found = {
        name: fits({name: value}) if thread_time() < until else TOO_MUCH
        for name, value in request.defaults.items()
    }
    faults = {name: fault for name, fault in found.items() if fault is not None}
    if faults:
        told = "; ".join(map(str, faults.values()))
        log.warning("a form with defaults that do not fit, which are left out: %s", told)
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
    """The members of a dict or an object; an object's member that is None has no value."""
    written = {} if content is None else schema.write_any(content)
    if not isinstance(written, dict):
        what = f"a dict, a dataclass, None or an Answer, not {type(content).__name__}"
        raise TypeError(f"elicit returns {what}: {{}} accepts a form without fields, None declines")
    if isinstance(content, dict):
        return written
    return {name: value for name, value in written.items() if value is not None}
