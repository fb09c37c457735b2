"""Log messages to the client: the session's level, and `LogHandler` for the standard library's `logging`.

Not here: sending one (see `Context.log`).
https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Union

from ..engine.requests import IncomingRequest, current_request
from ..errors import Cancelled, ConnectionLost
from ..protocol.lifecycle import log_rank
from ..protocol.messages import Json, to_json
from ..schema.annotations import write_any
from .context import Context

LEVELS = (
    (logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"), (25, "notice"),
    (logging.INFO, "info"),
)  # fmt: skip
"""The least number of each level of the protocol; what is below all of them is "debug"."""

OURS = "minimcp"

_PLAIN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
"""Attributes that every record has; others were given as ``extra=``."""

_here = threading.local()


def set_level(exchange: IncomingRequest) -> dict[str, Json]:
    """Serve `logging/setLevel`.

    Raises:
        InvalidParams: There is no such level.
    """
    exchange.peer.log_rank = log_rank(exchange.request.params.get("level"))
    return {}


class LogHandler(logging.Handler):
    """Sends what is logged while a handler runs, on its thread, to the client whose request it serves.

    ``logging.getLogger("weather").addHandler(minimcp.LogHandler())``. The client gets those of the level that it wants,
    with the logger's name, and as data the message, or with ``extra=`` an object of the message and that. A traceback
    is sent only if a formatter that was set writes one. Outside handlers, after the client has cancelled or gone, and
    for this library's own loggers it does nothing. It never raises: what goes wrong is `logging.Handler.handleError`'s.

    Thread-safe without a lock: a client that reads slowly delays only the handler that logs to it.
    """

    def handle(self, record: logging.LogRecord) -> Union[bool, logging.LogRecord]:  # type: ignore[override]
        """Emit a record that passes the filters, without the handler's lock."""
        passed: Any = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return passed  # type: ignore[no-any-return]

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record, if a handler runs on this thread."""
        exchange = current_request()
        if exchange is None or record.name.partition(".")[0] == OURS or getattr(_here, "logs", False):
            return
        _here.logs = True  # what is logged while this record is made into text would come back here without end
        try:
            level = next((name for least, name in LEVELS if record.levelno >= least), "debug")
            Context(exchange).log(level, self._data(record), record.name)
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
    try:
        written = write_any(value)
        to_json(written)
    except Exception:
        return repr(value)
    return written
