"""What an error that a server answered means: the exception for it, by its code, the method and the revision.

A widely read paraphrase of the specification gives codes to failures that have others, and servers were written after
it. Sessions with a handshake understand both; later, the codes that it took mean nothing, except -32002.
https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

import re
from typing import Mapping, Optional

from ..errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    RESOURCE_NOT_FOUND,
    CapabilityNotSupported,
    InvalidParams,
    McpError,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    ToolError,
    error_from_peer,
)
from ..types import CallToolResult, Text
from .messages import Failure
from .versions import Revision

Kind = type[RpcError]

READ = "resources/read"
COMPLETE = "completion/complete"
TOOL_FAILED = -32003

PARAPHRASED: Mapping[int, Kind] = {
    -32004: InvalidParams,  # the arguments of a tool
    -32005: InvalidParams,  # no such prompt
    -32006: CapabilityNotSupported,  # sampling
    -32007: CapabilityNotSupported,
}
"""In sessions with a handshake."""

PARAPHRASED_READING: Mapping[int, Kind] = {-32001: ResourceNotFound}
"""In the same, in answers to `resources/read` alone: elsewhere the code stands for timeouts and lost sessions."""

DENIED = re.compile("denied|forbidden", re.IGNORECASE)
"""What the message says when a resource exists and may not be read: there is no code for it."""


def exception_of(failure: Failure, method: str, revision: Revision) -> McpError:
    """The exception for an error that a server answered; code, message and data stay as they came.

    Args:
        failure: The answer.
        method: Of the request.
        revision: That the request was sent in.
    """
    kind = _kind(failure, method, revision)
    error = error_from_peer(failure.code, failure.message, failure.data, kind=kind)
    if failure.code == TOOL_FAILED and revision.handshake:
        failed = ToolError(failure.message)
        failed.result = CallToolResult([Text(failure.message)], is_error=True)
        failed.__cause__ = error
        return failed
    return error


def _kind(failure: Failure, method: str, revision: Revision) -> Optional[Kind]:
    """The class of the exception; None leaves it to the code."""
    code, kind = failure.code, None
    if revision.handshake:
        kind = PARAPHRASED.get(code) or (PARAPHRASED_READING.get(code) if method == READ else None)
    if code == RESOURCE_NOT_FOUND or (method == READ and _is_about_a_uri(failure)):
        return ResourceAccessDenied if DENIED.search(failure.message) else ResourceNotFound
    if code == METHOD_NOT_FOUND and _lacks_something(failure, method, revision):
        return CapabilityNotSupported
    return kind


def _lacks_something(failure: Failure, method: str, revision: Revision) -> bool:
    """Whether the method is there, and a capability is not: ours, or one that the server could not declare."""
    ours = isinstance(failure.data, dict) and "requiredCapabilities" in failure.data
    return ours or (method == COMPLETE and not revision.completions_capability)


def _is_about_a_uri(failure: Failure) -> bool:
    """Whether wrong params are a resource that there is not: the newest revision has one code for both.

    Servers that speak it, the official ones among them, answer so in the revisions before it too.
    """
    return failure.code == INVALID_PARAMS and isinstance(failure.data, dict) and "uri" in failure.data
