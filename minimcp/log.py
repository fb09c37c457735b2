"""The loggers of this package, and a gate that stops its threads while the interpreter exits.

The functions import `logging` when they need it, because a small server starts faster without it.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Callable, cast

from .text import printable

if TYPE_CHECKING:
    import logging


class _ExitGate:
    """A gate around code that may write to a stream. It is closed when the interpreter exits.

    If the interpreter stops a thread during a write, that thread keeps the lock of the stream's
    buffer. Then the interpreter aborts when it flushes the stream. Background threads of this
    library therefore run handlers and callbacks inside ``with exit_gate``.
    """

    # How long the exit waits for threads inside the gate, in seconds. A write takes less time,
    # unless no process reads the other end of the stream.
    seconds = 0.5

    def __init__(self) -> None:
        # Whether threads that enter are stopped.
        self.closed = False
        # How often each thread has entered. Threads use different keys, so no lock is necessary.
        self._inside: dict[int, int] = {}
        # The other threads do not exist in a forked process.
        getattr(os, "register_at_fork", lambda **_: None)(after_in_child=self._inside.clear)

    def __enter__(self) -> None:
        me = threading.get_ident()
        depth = self._inside.get(me, 0)
        self._inside[me] = depth + 1
        if self.closed and not depth and threading.current_thread() is not threading.main_thread():
            del self._inside[me]
            threading.Event().wait()  # forever: the process is exiting

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        depth = self._inside.pop(me, 1)
        if depth > 1:
            self._inside[me] = depth - 1

    def stop_if_closed(self) -> None:
        """Stop the calling thread, which is inside, if the gate is closed."""
        if self.closed:
            self.__exit__()
            self.__enter__()

    def close(self) -> None:
        """Stop threads from entering, and wait until all threads have left."""
        self.closed = True
        self.wait(self.seconds)

    def wait(self, seconds: float) -> bool:
        """Wait until no thread is inside. Return False if that takes longer."""
        until = time.monotonic() + seconds
        while self._inside and time.monotonic() < until:
            time.sleep(0.001)
        return not self._inside


exit_gate = _ExitGate()
# Exit functions run in reverse order. This one runs after functions that the program registers
# later.
atexit.register(exit_gate.close)


class _OneLine:
    """A filter of `logging` that makes each message one line and indents its traceback.

    " | " separates the lines of a message, such as the last lines of a server's stderr.
    Both may contain text from a peer. A record with a clean message keeps its arguments.
    """

    MAX_MESSAGE = 2_000
    """Maximum length of a logged message, in characters."""

    MAX_TRACEBACK = 20_000
    """Maximum length of a logged traceback, in characters."""

    def filter(self, record: logging.LogRecord) -> bool:
        with exit_gate:  # the handlers, for which `logging` waits at exit, run after this filter
            pass
        try:
            text = record.getMessage()
        except Exception as error:  # an argument that cannot be formatted
            text = f"{record.msg} ({type(error).__name__} in its arguments)"
            record.msg = text
            record.args = ()
        if len(text) > self.MAX_MESSAGE or not text.isprintable():
            lines = [line.strip() for line in text[: self.MAX_MESSAGE].split("\n")]
            record.msg = printable(" | ".join(filter(None, lines)))
            record.args = ()
        if record.exc_info:
            import logging

            formatted = logging.Formatter().formatException(record.exc_info)
            lines = formatted[: self.MAX_TRACEBACK].split("\n")
            record.exc_text = "\n".join(["  | " + printable(line) for line in lines])
        return True


_one_line = _OneLine()


class _LazyLogger:
    """A `logging.Logger` that is made when it is first used.

    Debug and info records are dropped until the program has imported `logging`: only then can it
    have a handler for them.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute in ("debug", "info") and "logging" not in sys.modules:
            return _drop
        value = getattr(_made_logger(self._name), attribute)
        if callable(value):
            setattr(self, attribute, value)
        return value


def _drop(*_: object, **__: object) -> None:
    """Do nothing with a record."""


def logger(name: str) -> logging.Logger:
    """Return a logger that escapes text from peers, so that it cannot forge lines of the log.

    If a handler or filter of the program raises, the traceback is printed to stderr, as
    `logging.Handler.handleError` does. The thread that logs must continue, because it may be about
    to send a response or to end a connection.
    """
    return cast("logging.Logger", _loggers.setdefault(name, _LazyLogger(name)))


_loggers: dict[str, _LazyLogger] = {}


def _made_logger(name: str) -> logging.Logger:
    import logging

    found = logging.getLogger(name)
    found.addFilter(cast("logging.Filter", _one_line))
    if not isinstance(vars(found).get("handle"), _Handle):
        found.handle = _Handle(found.handle)  # type: ignore[method-assign]
    return found


class _Handle:
    """`logging.Logger.handle`, which prints the exception of a handler instead of raising it."""

    def __init__(self, handle: Callable[[logging.LogRecord], None]) -> None:
        self._handle = handle

    def __call__(self, record: logging.LogRecord) -> None:
        try:
            self._handle(record)
        except Exception:
            import logging
            import traceback

            if logging.raiseExceptions and sys.stderr is not None:
                with suppress(Exception):
                    traceback.print_exc()
