"""The only door to `logging`, which costs 18 ms to import and is often not wanted. Floor 0.

A record below WARNING is not even made while nobody has imported `logging`: no handler could see it.
A WARNING or worse imports it, so that the standard library's last resort prints it on stderr.
No handler is ever installed here and the root logger is never touched.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40


class Log:
    """A named logger that costs nothing until it is needed.

    Args:
        name: The last part of the logger's name: ``Log("channel")`` writes to ``minimcp.channel``.

    Thread-safe.
    """

    __slots__ = ("_name", "_logger")

    def __init__(self, name: str) -> None:
        self._name = f"minimcp.{name}"
        self._logger: Any = None

    def wants(self, level: int) -> bool:
        """Whether a record of this level would reach anybody."""
        if self._logger is None:
            if level < WARNING and "logging" not in sys.modules:
                return False
            import logging

            self._logger = logging.getLogger(self._name)
        return bool(self._logger.isEnabledFor(level))

    def _write(self, level: int, text: str, arguments: tuple[Any, ...], exc_info: Any = None) -> None:
        if self.wants(level):
            self._logger.log(level, text, *arguments, exc_info=exc_info, stacklevel=3)

    def debug(self, text: str, *arguments: Any) -> None:
        """What helps to follow a connection: late answers, ignored notifications."""
        self._write(DEBUG, text, arguments)

    def info(self, text: str, *arguments: Any) -> None:
        """What an operator may want to see."""
        self._write(INFO, text, arguments)

    def warning(self, text: str, *arguments: Any, exc_info: Any = None) -> None:
        """What is odd, and survived."""
        self._write(WARNING, text, arguments, exc_info)

    def error(self, text: str, *arguments: Any, exc_info: Any = None) -> None:
        """What went wrong on our side; `exc_info` adds the traceback, as in `logging`."""
        self._write(ERROR, text, arguments, exc_info)


def tracer(trace: Any) -> Optional[Callable[[str, bytes], None]]:
    """What a connection calls for every line on the wire, made of what a user gave as ``trace=``.

    Args:
        trace: A text file, or a callable that gets ("-->" for sent or "<--" for received, text); None for no trace.
            What it raises is logged once and does not hurt the connection.

    Raises:
        TypeError: It is neither.
    """
    if trace is None:
        return None
    write = getattr(trace, "write", None)
    if not callable(trace) and not callable(write):
        raise TypeError(f"trace is a text file or a callable, not {type(trace).__name__}")
    log = Log("trace")
    failed: list[Exception] = []

    def record(arrow: str, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        try:
            if callable(trace):
                trace(arrow, text)
            else:
                trace.write(f"{arrow} {text}\n")
        except Exception as error:
            if not failed:
                failed.append(error)
                log.error("trace= failed: %r", error, exc_info=error)

    return record


def one_line(value: Any, limit: int = 200) -> str:
    """Text from a peer made fit for a log line or a message: escaped, cut at `limit` characters.

    A peer must not be able to forge a second log line, so control characters are shown as escapes.
    """
    if isinstance(value, (str, bytes)):
        value = value[:limit + 1]  # the beginning of 64 MiB is shown without escaping all of them
    text = value if isinstance(value, str) else repr(value)
    escaped = text.encode("unicode_escape", "backslashreplace").decode("ascii")
    return escaped if len(escaped) <= limit else escaped[:limit] + "..."
