"""Every exception that a program sees: one flat tree, nothing of the libraries below leaks through.

Not here: `Suspend` of `features.questions` and `HandOver` of `server.feature`, which unwind a handler and are not to be
caught.
Codes and their meaning: https://modelcontextprotocol.io/specification/2026-07-28/basic An error
that a peer sent has ``from_peer`` true; one made here and raised in a handler becomes the answer.
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
"""What a host answers when its user, or its own judgement, refuses a question."""

STATE_REJECTED = "invalid_request_state"
"""The ``reason`` in the data of an error that refuses a ``requestState``."""

RESERVED_CODES = range(-32768, -31999)
"""The range of JSON-RPC and of the protocol."""

SERVER_CODES = range(-32099, -31999)
"""The part of it that JSON-RPC leaves to servers. An application may raise those that the protocol
gives no meaning. They are sent in sessions with a handshake. The revisions after that keep them for
the protocol, so -32603 is sent."""


def _blank(kind: type[BaseException]) -> BaseException:
    return kind.__new__(kind)


class McpError(Exception):
    """The root of everything that this library raises about the protocol or a connection."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        return _blank, (type(self),), {**self.__dict__, "args": self.args}


class RpcError(McpError):
    """A JSON-RPC error: raised in a handler it becomes the answer, raised by a call it is the
    peer's answer.

    Args:
        code: The number. An application's own lies outside -32768 to -32000, or in -32099 to -32000
            where the protocol has no meaning for it; 2026-07-28 keeps those for the protocol, and
            -32603 is sent in its place there.
        message: One short sentence.
        data: Any JSON value; None sends none.

    Raises:
        ValueError: The code is one that JSON-RPC reserves (-32768 to -32100), and no class here
            stands for it.
        TypeError: The code is no integer or the message no string.
    """

    from_peer: bool = False

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
    """An RpcError whose code is its class's."""

    CODE = INTERNAL_ERROR

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(self.CODE, message, data)


class ParseError(_Kind):
    """What arrived was no JSON (-32700)."""

    CODE = PARSE_ERROR


class InvalidRequest(_Kind):
    """What arrived was JSON but no message that may be sent at this point (-32600)."""

    CODE = INVALID_REQUEST


class MethodNotFound(_Kind):
    """The receiver does not have this method, or did not advertise it (-32601)."""

    CODE = METHOD_NOT_FOUND


class InvalidParams(_Kind):
    """The params of a request do not fit (-32602): unknown tool or prompt, a bad cursor, a missing
    member."""

    CODE = INVALID_PARAMS


class RequestStateRejected(InvalidParams):
    """The server refused the ``requestState`` it was handed back: expired, altered or another
    request's."""


class InternalError(_Kind):
    """The receiver failed (-32603)."""

    CODE = INTERNAL_ERROR


class ResourceNotFound(_Kind):
    """No resource has this URI (-32002 up to 2025-11-25, -32602 since 2026-07-28)."""

    CODE = RESOURCE_NOT_FOUND


class ResourceAccessDenied(_Kind):
    """The resource exists and this caller may not read it."""

    CODE = RESOURCE_NOT_FOUND


class HeaderMismatch(_Kind):
    """An HTTP header and the body disagree (-32020)."""

    CODE = HEADER_MISMATCH


class UnsupportedRevision(_Kind):
    """The peers have no revision of the protocol in common (-32022 since 2026-07-28)."""

    CODE = UNSUPPORTED_VERSION


class CapabilityNotSupported(_Kind):
    """The peer did not declare what this needs, or the revision does not have it (-32021 since
    2026-07-28)."""

    CODE = MISSING_CAPABILITY


class UrlElicitationRequired(_Kind):
    """The request needs the user to open a URL first (-32042, 2025-11-25 only).

    Args:
        message: One short sentence.
        data: ``{"elicitations": [...]}``, each with ``mode`` "url", ``message``, ``url`` and an
            ``elicitationId`` of its own; None sends none.

    Raises:
        ValueError: The data is something else.
    """

    CODE = URL_ELICITATION_REQUIRED

    def __init__(self, message: str, data: Any = None) -> None:
        super().__init__(message, data)
        entries = data.get("elicitations") if isinstance(data, dict) else None
        if data is not None and not (
            isinstance(entries, list) and all(map(_asks_for_url, entries))
        ):
            raise ValueError(
                "elicitations is a list of objects with mode 'url', message, url and elicitationId"
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
"""The class for each code that the protocol gives a meaning."""


def error_from_peer(
    code: int, message: str, data: Any = None, *, kind: Optional[type[RpcError]] = None
) -> RpcError:
    """The exception for an error that a peer sent; an unknown code is kept as it came.

    Args:
        code: The peer's number, whatever it is.
        message: The peer's sentence.
        data: The peer's data, None when there was none.
        kind: The class to use instead of the code's own; None lets the code decide.
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
    """A tool failed in a way its caller should read: the answer is a result with ``isError``.

    Args:
        message: What the model is told.
        content: Content blocks to send instead of the message as text; None sends the message.

    On the client side ``result`` is the whole `CallToolResult`; it is None on the server side.
    """

    def __init__(self, message: str = "", *, content: Optional[Sequence[Any]] = None) -> None:
        super().__init__(message)
        self.content = None if content is None else list(content)
        self.result: Optional[CallToolResult] = None


class ProtocolViolation(McpError):
    """The peer broke the protocol.

    Args:
        rule: What it should have done.
        message: What it sent instead, as it was decoded; None when that is not known.

    Attributes:
        result: The `CallToolResult` whose structured content does not match the tool's output
            schema, or whose schema cannot be checked; None for any other violation.
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
    """No connection came about.

    Args:
        message: What was tried and how it ended.
        exit_code: Of the server's process; None when it did not exit or there was none.
        signal: Number of the signal that ended it; None when none did.
        stderr_tail: The last lines that it wrote to stderr.
    """


class ConnectionLost(_ConnectionTrouble):
    """The connection ended while it was needed, or is used after `close()`. Arguments as
    `ConnectionFailed`."""


class SessionGone(ConnectionLost):
    """The server has ended the session. ``refused`` says that it refused a request for it, which so
    was not run."""

    refused = False


class Busy(ConnectionLost):
    """The server did not run a request and says when to send it again (HTTP 429 and 503).

    Args:
        message: The server's status and words.
        seconds: How long the server asks to wait.
        answer: The JSON-RPC response in the body, as a result or a failure; None without one.
    """

    def __init__(self, message: str, seconds: int, answer: Any = None) -> None:
        super().__init__(message)
        self.seconds = seconds
        self.answer = answer


class RequestTimeout(McpError, TimeoutError):
    """No answer came in time; the peer was told that nobody waits any more."""


class Cancelled(McpError):
    """The call was cancelled: raised to the caller, and in a handler by the next thing it does with
    its Context."""


class Refused(McpError):
    """A host's handler refuses a question (raise it there), or a question was refused (raised to
    the asker).

    Args:
        reason: Why; empty says nothing.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class HandlerFailed(Refused):
    """A question is refused because the host's handler raised something else, or returned what is
    no answer."""


class Declined(Refused):
    """The user declined or dismissed a question (`Answer.require()`)."""


class AuthorizationError(McpError):
    """No token could be had, or the server refused the one that was sent."""
