"""What an operator is told: how each request ended, and log records that name a request or go to
its client.

`FinishedRequest` is what ``Server(on_request=...)`` gets, for metrics, traces and access logs.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

from ..engine.incoming import IncomingRequest, OnFinished, current_request
from ..errors import Cancelled, ConnectionLost
from ..log import logger
from ..protocol.messages import ERROR_CODE, Id, Json, Request, to_json
from ..schema.annotations import write_any
from ..schema.mismatch import refuse_async
from ..server.context import Context
from ..text import printable

log = logger("minimcp.server")

# Whose ``name`` is the author's: what else a request names, such as a URI, may have any number of
# values.
_NAMED = frozenset({"tools/call", "prompts/get"})


class FinishedRequest(NamedTuple):
    """A request that has ended, however that was.

    Args:
        method: Of the request; "unknown" when it was refused and no method of this server: clients
            can make up as many names as they like, and a label of metrics must not have them all.
        name: Of the tool or prompt; None for other methods, and where the request was refused.
        id: Of the request, as its client chose it.
        session: Names the session in logs, and is no secret; empty where requests stand alone.
        revision: That is spoken; None where the request was refused.
        outcome: "ok"; "tool_error" (a result that says that the tool failed); "input_required" (a
            result that asks, after which the client comes back with another request); "error";
            "cancelled" (by the client, by its leaving, or by the end of the connection).
        code: Of the error; None for other outcomes.
        seconds: From its arrival to its answer; 0 where it was refused.
        meta: The ``_meta`` that it came with, in the client's words.
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
    """What is told of each request that ends, made of what a user gave as ``on_request=``.

    Args:
        on_request: What it raises is logged once and does not hurt the request.
        knows: Whether a method is one of the server's.

    Raises:
        TypeError: It cannot be called, or is async.
    """
    if not callable(on_request):
        raise TypeError(
            "on_request is a function that takes a FinishedRequest, or None, not "
            f"{on_request!r:.60}"
        )
    refuse_async(on_request, "on_request")
    failed: list[Exception] = []

    def tell(
        request: Request, incoming: Optional[IncomingRequest], ending: Union[bytes, Exception, None]
    ) -> None:
        try:
            on_request(_finished(request, incoming, ending, knows))
        except Exception as error:
            if not failed:
                log.error("on_request= failed: %r", error, exc_info=error)
            failed[:] = [error]

    return tell


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
    """What became of a request, by what its client gets."""
    if ending is None:
        return "cancelled", None
    if isinstance(ending, Exception):
        return "error", getattr(ending, "code", None)
    code = re.match(ERROR_CODE, ending)
    if code is not None:
        return "error", int(code[1])
    if (
        b'"isError":true' in ending or b'"input_required"' in ending
    ):  # rarely, so that other results are not read
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
"""The least number of each level of the protocol; what is below all of them is "debug"."""

OURS = "minimcp"

MAX_LOGGED_CHARACTERS = 80
"""Characters of a client's words in an attribute of a log record."""

# Attributes that every record has; others were given as ``extra=``.
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
    """Lets every record pass, and says in it which request its thread serves.

    ``handler.addFilter(minimcp.LogFilter())``; a format then may have ``%(mcp)s``, all of it in one
    text, or the attributes one by one: ``mcp_id``, ``mcp_method``, ``mcp_tool`` (or the name of a
    prompt, or the URI of a resource) and ``mcp_session``, which names the session and is no secret.
    Of what is not known, and outside handlers, an attribute is "-". A client's words are shortened,
    and characters that a terminal would obey are escaped.
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
    """Sends what is logged while a handler runs, on its thread, to the client whose request it
    serves.

    ``logging.getLogger("weather").addHandler(minimcp.LogHandler())``. The client gets those of the
    level that it wants, with the logger's name, and as data the message, or with ``extra=`` an
    object of the message and that. A traceback is sent only if a formatter that was set writes one.
    Outside handlers, after the client has cancelled or gone, and for this library's own loggers it
    does nothing. It never raises: what goes wrong is `logging.Handler.handleError`'s.

    Thread-safe without a lock: a client that reads slowly delays only the handler that logs to it.
    """

    def handle(  # type: ignore[override]
        self, record: logging.LogRecord
    ) -> Union[bool, logging.LogRecord]:
        """Emit a record that passes the filters, without the handler's lock."""
        passed: Any = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return passed  # type: ignore[no-any-return]

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, if a handler runs on this thread."""
        incoming = current_request()
        if (
            incoming is None
            or record.name.partition(".")[0] == OURS
            or getattr(_here, "logs", False)
        ):
            return
        # what is logged while this record is made into text would come back here without end
        _here.logs = True
        try:
            level = next((name for least, name in LEVELS if record.levelno >= least), "debug")
            Context(incoming).log(level, self._data(record), record.name)
        except (Cancelled, ConnectionLost):
            pass  # nobody reads it; the handler itself finds out where it looks
        except Exception:
            self.handleError(record)
        finally:
            _here.logs = False

    def _data(self, record: logging.LogRecord) -> Json:
        text = record.getMessage() if self.formatter is None else self.format(record)
        extra = {name: _json(value) for name, value in vars(record).items() if name not in _PLAIN}
        return {"message": text, **extra} if extra else text


def _json(value: Any) -> Json:
    """A value that JSON can write; its repr stands for any other."""
    with suppress(Exception):
        written = write_any(value)
        to_json(written)
        return written
    return repr(value)
