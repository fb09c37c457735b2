"""Every exception that a program sees: one flat tree, nothing of the libraries below leaks through.

Not here: `Suspend` of `features.questions` and `HandOver` of `server.feature`, which unwind a handler and are not to be
caught.
Codes and their meaning: https://modelcontextprotocol.io/specification/2026-07-28/basic An error
that a peer sent has ``from_peer`` true; one made here and raised in a handler becomes the answer.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence

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

OLD_TOOL_CODES = frozenset({-32003, -32004})
"""A tool failed, its arguments do not fit: codes of an older description of the protocol."""


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
        self.code, self.message, self.data = (
            int(code),
            message,
            data,
        )  # an IntEnum's member is an int on the wire

    def __str__(self) -> str:
        return self.message if not self.from_peer else f"{self.message} ({self.code})"


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

OLD_KINDS: dict[int, type[RpcError]] = {
    -32004: InvalidParams,  # the arguments of a tool
    -32005: InvalidParams,  # no such prompt
    -32006: CapabilityNotSupported,  # sampling
    -32007: CapabilityNotSupported,
}
"""Codes of a widely read paraphrase of the specification, which servers were written after: read in
sessions with a handshake. So are -32001 for a resource that does not exist, and -32003 for a tool
that failed."""


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
    rejected = (
        code == INVALID_PARAMS and isinstance(data, dict) and data.get("reason") == STATE_REJECTED
    )
    chosen: type[RpcError] = kind or (
        RequestStateRejected if rejected else KINDS.get(code, RpcError)
    )
    error = chosen.__new__(chosen)
    error.args = (message,)
    error.code, error.message, error.data, error.from_peer = code, message, data, True
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
        self.rule, self.peer_message = rule, message
        self.result: Optional[CallToolResult] = None


class SkillError(McpError):
    """What a server sent of a skill is not what it listed, or cannot be read; ``uri`` is that of
    the file."""

    def __init__(self, message: str, uri: str = "") -> None:
        super().__init__(message)
        self.uri = uri


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
        self.exit_code, self.signal, self.stderr_tail = exit_code, signal, stderr_tail


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


def one_line(value: Any, limit: int = 200) -> str:
    """Text from a peer made fit for a log line or a message: escaped, cut at `limit` characters.

    A peer must not be able to forge a second log line, so control characters are shown as escapes.
    """
    if isinstance(value, (str, bytes)):
        value = value[: limit + 1]  # the beginning of 64 MiB is shown without escaping all of them
    text = value if isinstance(value, str) else repr(value)
    escaped = text.encode("unicode_escape", "backslashreplace").decode("ascii")
    return escaped if len(escaped) <= limit else escaped[:limit] + "..."


def printable(text: str, keep: str = "") -> str:
    """Text with all that a terminal or a log would obey or hide as escapes: controls, line ends,
    what turns the order.

    Args:
        text: The text, in any alphabet.
        keep: Characters that stay, such as line feeds.
    """
    return (
        text
        if text.isprintable()
        else "".join([c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text])
    )


def json_printable(text: str) -> str:
    """Return JSON of the same meaning, in which everything that `printable` replaces is escaped.

    Args:
        text: Valid JSON. Its line feeds stay.
    """
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() or c == "\n" else _json_escape(c) for c in text])


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2])])


class _ExitGate:
    """Stops background threads before they write to a stream, when the interpreter exits.

    A thread that the exit stops inside of a write keeps the lock of the stream's buffer, and the
    interpreter aborts when it flushes that stream. So threads of this library run code that may write
    to one (handlers, callbacks of a user) inside of ``with exit_gate``.
    """

    # How long the exit waits for those that are inside. The lock of a stream is held for less, if
    # somebody reads the other end.
    seconds = 0.5

    def __init__(self) -> None:
        self._closed = False
        # How often each thread is inside. No two threads have the same key, so that no lock is needed.
        self._inside: dict[int, int] = {}
        # In a forked process the other threads are not there.
        getattr(os, "register_at_fork", lambda **_: None)(after_in_child=self._inside.clear)

    def __enter__(self) -> None:
        me = threading.get_ident()
        depth = self._inside.get(me, 0)
        self._inside[me] = depth + 1
        if self._closed and not depth and threading.current_thread() is not threading.main_thread():
            del self._inside[me]
            threading.Event().wait()  # for ever

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        depth = self._inside.pop(me, 1)
        if depth > 1:
            self._inside[me] = depth - 1

    def close(self) -> None:
        """Let no thread enter any more, and wait for those that are inside."""
        self._closed = True
        self.wait(self.seconds)

    def wait(self, seconds: float) -> bool:
        """Wait until no thread is inside; return False if that takes longer."""
        until = time.monotonic() + seconds
        while self._inside and time.monotonic() < until:
            time.sleep(0.001)
        return not self._inside


exit_gate = _ExitGate()
# Later than what a program registers, because that is called in reverse order; earlier than
# `logging.shutdown`.
atexit.register(exit_gate.close)


class _OneLine(logging.Filter):
    """Makes the message of each record one line, and sets its traceback off, because a peer's words
    stand in both.

    A record whose message is clean keeps its arguments.
    """

    # Characters of a message, and of a traceback, that are logged.
    longest, longest_traceback = 2_000, 20_000

    def filter(self, record: logging.LogRecord) -> bool:
        with exit_gate:  # for the handlers, which come next, the exit of `logging` waits
            pass
        try:
            text = record.getMessage()
        except Exception as error:  # of an argument that cannot be shown
            text = f"{record.msg} ({type(error).__name__} in its arguments)"
            record.msg, record.args = text, ()
        if len(text) > self.longest or not text.isprintable():
            record.msg, record.args = printable(text[: self.longest]), ()
        if record.exc_info:
            told = logging.Formatter().formatException(record.exc_info)[: self.longest_traceback]
            record.exc_text = "\n".join(["  | " + printable(line) for line in told.split("\n")])
        return True


_one_line = _OneLine()


def logger(name: str) -> logging.Logger:
    """A logger of this package: no word of a peer can forge a line, or reach a terminal, through
    what it logs.

    A handler or filter of the program that raises does not stop the thread that logs: the failure
    is printed to stderr, as `logging.Handler.handleError` does. The response to a request, and the
    end of a connection, come after such records.
    """
    found = logging.getLogger(name)
    found.addFilter(_one_line)
    if not isinstance(vars(found).get("handle"), _Handle):
        found.handle = _Handle(found.handle)  # type: ignore[method-assign]
    return found


class _Handle:
    """`logging.Logger.handle` that prints the exception of a handler instead of raising it."""

    def __init__(self, handle: Callable[[logging.LogRecord], None]) -> None:
        self._handle = handle

    def __call__(self, record: logging.LogRecord) -> None:
        try:
            self._handle(record)
        except Exception:
            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(Exception):
                    traceback.print_exc()


def describe(error: BaseException) -> str:
    """An exception's own words, or its class's name when it has none (or fails to say them).

    Words that only show a value, as those of ``KeyError("x")``, and those of what is no
    `Exception`, as `SystemExit`, do not say what happened: they stand behind the name.
    """
    name = type(error).__name__
    try:
        words = str(error)
        bare = not isinstance(error, Exception) or words in (
            *map(repr, error.args[:1]),
            repr(error.args),
        )
    except BaseException:
        return name
    return name if not words.strip() else f"{name}: {words}" if bare else words
