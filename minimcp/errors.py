"""The exceptions of this package and the error codes of the protocol.

The package raises no exceptions of other libraries. Two exceptions are not here, because programs
must not catch them: `features.questions.Suspend` and `server.feature.HandOver` unwind a handler.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

from .log import exit_gate as exit_gate, logger as logger
from .text import (
    describe as describe,
    json_printable as json_printable,
    one_line as one_line,
    printable as printable,
)

if TYPE_CHECKING:
    from .types import CallToolResult

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

USER_REJECTED = -1
"""The error code of a host when it, or its user, rejects a question."""

STATE_REJECTED = "invalid_request_state"
"""The ``reason`` in the data of an error that rejects a ``requestState``."""

RESERVED_CODES = range(-32768, -31999)
"""The codes that JSON-RPC reserves."""

SERVER_CODES = range(-32099, -31999)
"""The reserved codes that JSON-RPC leaves to servers. An application may raise the codes that are
not in `KINDS`. In revisions with a handshake, such a code is sent unchanged. In 2026-07-28, -32603
is sent instead, because that revision reserves all of these codes for the protocol."""


def _blank(kind: type[BaseException]) -> BaseException:
    return kind.__new__(kind)


class McpError(Exception):
    """The base class of all exceptions of this package."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _blank, (type(self),), {**self.__dict__, "args": self.args}

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows: without the frames of this package."""
        from .types.display import notebook_traceback

        return notebook_traceback(self)


class RpcError(McpError):
    """A JSON-RPC error response.

    If a handler raises an RpcError, it is sent as the response to the request. If the peer responds
    with an error, the call raises an RpcError.

    Args:
        code: The error code. An application should use codes outside -32768 to -32000. It can also
            use a code from -32099 to -32000 that the protocol does not define. In 2026-07-28, such
            a code is sent as -32603.
        message: One short sentence.
        data: Any JSON value; omitted if None.

    Attributes:
        from_peer: Whether the peer sent the error.

    Raises:
        ValueError: JSON-RPC reserves the code (-32768 to -32100) and does not define it.
        TypeError: The code is not an int, or the message is not a str.
    """

    from_peer: bool = False
    # Whether an extension of the protocol defines the code, which is then sent in every revision.
    of_extension = False

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if isinstance(code, bool) or not isinstance(code, int):
            raise TypeError(f"code must be an int, not {type(code).__name__}")
        if not isinstance(message, str):
            raise TypeError(f"message must be a str, not {type(message).__name__}")
        if code in RESERVED_CODES and code not in SERVER_CODES and code not in KINDS:
            raise ValueError(f"{code} is reserved by JSON-RPC: use a code outside -32768 to -32100")
        super().__init__(message)
        self.code = int(code)  # a member of an IntEnum is an int on the wire
        self.message = message
        self.data = data

    def __str__(self) -> str:
        if self.from_peer:
            return f"{self.message} ({self.code})"
        return self.message


class _Kind(RpcError):
    """An RpcError whose class defines its code."""

    CODE = INTERNAL_ERROR

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(self.CODE, message, data)


class ParseError(_Kind):
    """The message is not JSON (-32700)."""

    CODE = PARSE_ERROR


class InvalidRequest(_Kind):
    """The message is JSON, but not a valid request at this point (-32600)."""

    CODE = INVALID_REQUEST


class MethodNotFound(_Kind):
    """The receiver does not have the method, or did not declare it (-32601)."""

    CODE = METHOD_NOT_FOUND


class InvalidParams(_Kind):
    """The params of a request are invalid (-32602).

    For example, the tool is unknown, the cursor is invalid, or a member is missing.
    """

    CODE = INVALID_PARAMS


class RequestStateRejected(InvalidParams):
    """The server rejected a ``requestState`` that is expired, altered or from another request."""


class InternalError(_Kind):
    """The receiver has failed (-32603)."""

    CODE = INTERNAL_ERROR


class ResourceNotFound(_Kind):
    """No resource has this URI (-32002 up to 2025-11-25, -32602 since 2026-07-28).

    If a tool raises it, the response is a result with ``isError``, as for a `ToolError`.
    """

    CODE = RESOURCE_NOT_FOUND


class ResourceAccessDenied(_Kind):
    """The resource exists, but the caller may not read it.

    If a tool raises it, the response is a result with ``isError``, as for a `ToolError`.
    """

    CODE = RESOURCE_NOT_FOUND


class HeaderMismatch(_Kind):
    """An HTTP header and the body contradict each other (-32020)."""

    CODE = HEADER_MISMATCH


class UnsupportedRevision(_Kind):
    """The peers have no revision of the protocol in common (-32022 since 2026-07-28)."""

    CODE = UNSUPPORTED_VERSION


class CapabilityNotSupported(_Kind):
    """The peer did not declare a required capability (-32021 since 2026-07-28).

    Also raised if the revision does not have the capability.
    """

    CODE = MISSING_CAPABILITY


class UrlElicitationRequired(_Kind):
    """The user must open a URL before the request is sent again (-32042, only in 2025-11-25).

    Args:
        message: One short sentence.
        data: ``{"elicitations": [...]}``. Each element is an object with ``mode`` "url",
            ``message``, ``url`` and a unique ``elicitationId``. Omitted if None.

    Raises:
        ValueError: The data does not have this form.
    """

    CODE = URL_ELICITATION_REQUIRED

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        entries = data.get("elicitations") if isinstance(data, dict) else None
        if data is not None and not (
            isinstance(entries, list) and all(map(_asks_for_url, entries))
        ):
            raise ValueError(
                "elicitations must be a list of objects with mode 'url', message, url and "
                "elicitationId"
            )


def _asks_for_url(entry: Any) -> bool:
    if not isinstance(entry, dict) or entry.get("mode") != "url":
        return False
    return all(isinstance(entry.get(name), str) for name in ("message", "url", "elicitationId"))


KINDS: dict[int, type[RpcError]] = {
    kind.CODE: kind
    for kind in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        ResourceNotFound,
        HeaderMismatch,
        CapabilityNotSupported,
        UnsupportedRevision,
        UrlElicitationRequired,
    )
}
"""The exception class for each code that the protocol defines."""


def error_from_peer(
    code: int, message: str, data: Any = None, *, kind: Optional[type[RpcError]] = None
) -> RpcError:
    """Return the exception for an error that a peer sent.

    Args:
        code: The code of the error. It may be any integer.
        message: The message of the error.
        data: The data of the error, or None.
        kind: The exception class; None means the class in `KINDS` for the code.
    """
    chosen = kind or KINDS.get(code, RpcError)
    reason = data.get("reason") if isinstance(data, dict) else None
    if kind is None and code == INVALID_PARAMS and reason == STATE_REJECTED:
        chosen = RequestStateRejected
    error = chosen.__new__(chosen)
    error.args = (message,)
    error.code = code
    error.message = message
    error.data = data
    error.from_peer = True
    return error


class ToolError(McpError):
    """A tool failed, and the model should read why. The response is a result with ``isError``.

    Args:
        message: The message for the model.
        content: Content blocks to send instead of the message; if None, the message is sent.

    Attributes:
        result: The complete `CallToolResult` in a client; None in a server.
    """

    def __init__(self, message: str = "", *, content: Optional[Sequence[Any]] = None) -> None:
        super().__init__(message)
        self.content = None if content is None else list(content)
        self.result: Optional[CallToolResult] = None


class ProtocolViolation(McpError):
    """The peer violated the protocol.

    Args:
        rule: The rule that the peer violated.
        message: The decoded message, which becomes ``peer_message``; None if it is unknown.

    Attributes:
        result: The `CallToolResult`, if its structured content does not match the tool's output
            schema, or if the schema itself is invalid. None for other violations.
    """

    def __init__(self, rule: str, message: Any = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.peer_message = message
        self.result: Optional[CallToolResult] = None


class _ConnectionTrouble(McpError, ConnectionError):
    def __init__(
        self,
        message: str,
        *,
        exit_code: Optional[int] = None,
        signal: Optional[int] = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.signal = signal
        self.stderr_tail = stderr_tail


class ConnectionFailed(_ConnectionTrouble):
    """The connection could not be established.

    Args:
        message: What was tried, and how it ended.
        exit_code: The exit code of the server's process; None if it did not exit, or if there is no
            process.
        signal: The number of the signal that killed the process, or None.
        stderr_tail: The last lines that the process wrote to stderr.
    """


class ConnectionLost(_ConnectionTrouble):
    """The connection has ended, or was closed before the call. See `ConnectionFailed`."""


class SessionGone(ConnectionLost):
    """The server has ended the session.

    Attributes:
        refused: Whether the server rejected a request for this reason. Such a request was not run.
    """

    refused = False


class Busy(ConnectionLost):
    """The server rejected a request and asks to send it again later (HTTP 429 and 503).

    Args:
        message: The status and the message of the server.
        seconds: How long the client should wait, in seconds.
        answer: The JSON-RPC response in the body, as a result or a failure; None without one.
    """

    def __init__(self, message: str, seconds: int, answer: Any = None) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.answer = answer


class RequestTimeout(McpError, TimeoutError):
    """No response arrived in time. The peer was notified that the call is cancelled."""


class Cancelled(McpError):
    """The call was cancelled.

    A cancelled call raises this exception. In a handler of a cancelled request, the next call of a
    `Context` method that sends or waits raises it.
    """


class Refused(McpError):
    """A question was refused.

    A host's handler raises this exception to refuse the question. The server's handler that asked
    the question gets the same exception.

    Args:
        reason: The reason, or an empty string.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class HandlerFailed(Refused):
    """The host's handler failed: it raised another exception or returned an invalid answer."""


class Declined(Refused):
    """The user declined or dismissed a question. `Answer.require` raises it."""


class AuthorizationError(McpError):
    """The client could not obtain a token, or the server rejected the token."""
