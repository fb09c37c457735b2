"""Reports for an operator: the outcome of each request, and log records that name a request.

``Server(on_request=...)`` receives a `FinishedRequest`, for metrics, traces and access logs.
`LogHandler` sends log records to the client.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..engine.incoming import IncomingRequest, current_request
from ..engine.running import OnFinished
from ..errors import Cancelled, ConnectionLost
from ..log import logger
from ..protocol.messages import ERROR_CODE, Id, Json, Request, to_json
from ..schema.annotations import write_any
from ..schema.mismatch import refuse_async
from ..server.context import Context
from ..text import printable

log = logger("minimcp.server")

# The methods whose requests name an entry of the author. Other targets, such as URIs, can have any
# number of values.
_NAMED = frozenset({"tools/call", "prompts/get"})


class FinishedRequest(NamedTuple):
    """The outcome of one request, for ``Server(on_request=...)``.

    The function is called before the response is sent, by the thread that ends the request. It must
    not block: for pings, lists and rejected requests that is the reader thread, for a timeout the
    timer thread, and for a disconnected HTTP client the thread that accepts connections.

    Args:
        method: The method; "unknown" if the request was rejected and this server has no such
            method, because a metrics label must have a limited number of values.
        name: The name of the tool or prompt; None for other methods and rejected requests.
        id: The request's id, chosen by the client.
        session: A name for the session in logs, not a secret; empty in stateless revisions.
        revision: The name of the revision; None if the request was rejected.
        outcome: "ok"; "tool_error" (the result of a failed tool); "input_required" (the result asks
            a question, and the client sends another request); "error"; "cancelled" (by the client
            or by the end of the connection).
        code: The code of the error; None for other outcomes.
        seconds: Seconds from arrival to response; 0 if the request was rejected.
        meta: The ``_meta`` of the request. It is not verified.
    """

    method: str
    name: Optional[str]
    id: Id
    session: str
    revision: Optional[str]
    outcome: str
    code: Optional[int]
    seconds: float
    meta: Mapping[str, Json]


def observer(
    on_request: Callable[[FinishedRequest], object], knows: Callable[[str], bool]
) -> OnFinished:
    """Return the `OnFinished` callback for a value of ``on_request=``.

    Args:
        on_request: The user's function. Its exception is logged once and does not affect the
            request.
        knows: Returns whether a method is one of the server's.

    Raises:
        TypeError: The value is not callable, or is async.
    """
    if not callable(on_request):
        raise TypeError(
            "on_request must be a function that takes a FinishedRequest, or None, not"
            f" {on_request!r:.60}"
        )
    refuse_async(on_request, "on_request")
    failed: list[Exception] = []

    def report(
        request: Request, incoming: Optional[IncomingRequest], ending: Union[bytes, Exception, None]
    ) -> None:
        try:
            on_request(_finished(request, incoming, ending, knows))
        except Exception as error:
            if not failed:
                log.error("on_request= failed: %r", error, exc_info=error)
            failed[:] = [error]

    return report


def _finished(
    request: Request,
    incoming: Optional[IncomingRequest],
    ending: Union[bytes, Exception, None],
    knows: Callable[[str], bool],
) -> FinishedRequest:
    method = request.method
    params = request.params
    name = params.get("name") if method in _NAMED else None
    meta = params.get("_meta")
    outcome, code = _outcome(ending)
    meta = meta if isinstance(meta, dict) else {}
    if incoming is None:
        shown = method if knows(method) else "unknown"
        return FinishedRequest(shown, None, request.id, "", None, outcome, code, 0.0, meta)
    seconds = time.monotonic() - incoming.arrived
    session = incoming.sink.session_name
    revision = incoming.peer.revision.name
    return FinishedRequest(
        method, name, request.id, session, revision, outcome, code, seconds, meta
    )


def _outcome(ending: Union[bytes, Exception, None]) -> tuple[str, Optional[int]]:
    """Return the outcome and error code of a request."""
    if ending is None:
        return "cancelled", None
    if isinstance(ending, Exception):
        return "error", getattr(ending, "code", None)
    code = ERROR_CODE.match(ending)
    if code is not None:
        return "error", int(code[1])
    # Other results are not decoded.
    if b'"isError":true' in ending or b'"input_required"' in ending:
        result: Any = json.loads(ending)["result"]
        if result.get("resultType") == "input_required":
            return "input_required", None
        if result.get("isError") is True:
            return "tool_error", None
    return "ok", None


# ------------------------------------------------------------ the standard library's logging

LEVELS = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (25, "notice"),
    (logging.INFO, "info"),
)
"""The minimum number of each level of the protocol. Lower numbers are "debug"."""

OURS = "minimcp"

MAX_LOGGED_CHARACTERS = 80
"""Maximum length of a client's text in an attribute of a log record."""

# Attributes that every record has. Other attributes are values of ``extra=``.
_PLAIN = frozenset(
    {
        *vars(logging.makeLogRecord({})),
        "message",
        "asctime",
        "taskName",
        "mcp",
        "mcp_id",
        "mcp_method",
        "mcp_tool",
        "mcp_session",
    }
)

_here = threading.local()


class LogFilter(logging.Filter):
    """Adds the request that the current thread serves to every log record.

    Use ``handler.addFilter(minimcp.LogFilter())``. A format may then contain ``%(mcp)s``, a text
    with all values, or single attributes: ``mcp_id``, ``mcp_method``, ``mcp_tool`` (or the name of
    a prompt, or the URI of a resource) and ``mcp_session``, a name for the session that is not a
    secret. Unknown attributes, and all attributes outside handlers, are "-". A client's text is
    shortened, and control characters are escaped.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes."""
        incoming = current_request()
        id = method = tool = session = "-"
        if incoming is not None:
            request = incoming.request
            params = incoming.request.params
            named = params.get("name", params.get("uri"))
            id = str(request.id)
            method = request.method
            session = incoming.sink.session_name or "-"
            tool = named if isinstance(named, str) else "-"
        texts = [printable(each[:MAX_LOGGED_CHARACTERS]) for each in (id, method, tool, session)]
        for name, text in zip(("id", "method", "tool", "session"), texts):
            setattr(record, f"mcp_{name}", text)
        record.mcp = "-" if incoming is None else "{1} {2} id={0} session={3}".format(*texts)
        return True


class LogHandler(logging.Handler):
    """Sends the log records of a handler's thread to the client whose request it serves.

    Use ``logging.getLogger("weather").addHandler(minimcp.LogHandler())``. The client receives
    records of the level that it wants, with the logger's name. The data is the message, or with
    ``extra=`` an object of the message and the extra values. Tracebacks are sent only if a
    formatter writes them. Records outside handlers, after the client has cancelled or disconnected,
    and of this library's own loggers are ignored. Other errors are handled by
    `logging.Handler.handleError`; nothing is raised.

    Thread-safe without a lock: a slow client delays only the handler that logs to it.
    """

    def handle(  # type: ignore[override]
        self, record: logging.LogRecord
    ) -> Union[bool, logging.LogRecord]:
        """Emit a record that passes the filters, without the lock of `logging.Handler`."""
        passed: Any = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return passed  # type: ignore[no-any-return]

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, if the current thread serves a request."""
        incoming = current_request()
        if (
            incoming is None
            or record.name.partition(".")[0] == OURS
            or getattr(_here, "logs", False)
        ):
            return
        # Without this, a record that is logged while this one is formatted would recurse.
        _here.logs = True
        try:
            level = next((name for least, name in LEVELS if record.levelno >= least), "debug")
            Context(incoming).log(level, self._data(record), record.name)
        except (Cancelled, ConnectionLost):
            pass  # the handler itself notices this at its next check
        except Exception:
            self.handleError(record)
        finally:
            _here.logs = False

    def _data(self, record: logging.LogRecord) -> Json:
        text = record.getMessage() if self.formatter is None else self.format(record)
        extra = {name: _json(value) for name, value in vars(record).items() if name not in _PLAIN}
        return {"message": text, **extra} if extra else text


def _json(value: Any) -> Json:
    """Return the JSON form of a value, or its repr if it has none."""
    with suppress(Exception):
        written = write_any(value)
        to_json(written)
        return written
    return repr(value)
