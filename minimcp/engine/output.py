"""`Outlet`: a stream that does not wait for its reader. `tracer`: writes each message to a stream.

A thread that writes to a buffered stream holds the lock of its buffer. If no process reads the
other end of the pipe, the thread never releases the lock, and other threads that print wait, too.
If the interpreter exits then, it waits forever or aborts. `Outlet` writes directly to a descriptor,
so it has no such lock. User code that may write to a stream runs inside `log.exit_gate`.
"""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import Any, Callable, Iterator, Optional

from ..log import exit_gate, logger
from ..text import printable
from .pool import renewed_in_fork

# Maximum number of queued bytes. Above this, new output is dropped.
MAX_WAITING_BYTES = 1024 * 1024

# How long a server that is shutting down waits for its queued output to be read, and for its
# handlers.
DRAIN_SECONDS = 0.1

# Number of bytes that a writable pipe accepts without blocking.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)

_DROPPED = "minimcp: {} lines were dropped here, because the lines before them were not read\n"


class Outlet(io.RawIOBase):
    """A binary stream that writes to a descriptor and does not wait for its reader. Thread-safe.

    Bytes that the descriptor does not accept at once are queued for a thread. If more than
    `MAX_WAITING_BYTES` are queued, new output is dropped, and a line in the output says how much.

    Args:
        number: The descriptor. The stream writes to a duplicate of it.

    Attributes:
        own: The duplicate. If it is a pipe, it is non-blocking.

    Raises:
        OSError: The descriptor is closed, or the process has too many open descriptors.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.own = _duplicate(number)
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Reset to an empty queue without a thread."""
        # Reentrant, because a signal handler may print.
        self._changed = threading.Condition(threading.RLock())
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._dropped = 0
        self._has_thread = False

    def write(self, data: Any) -> int:
        """Write bytes, enqueue or drop them. Never blocks. Ignores errors of the descriptor."""
        data = bytes(data)
        with self._changed:
            left = data if self._queue else self._put(data)
            if left and self._waiting + len(left) > MAX_WAITING_BYTES:
                self._dropped += max(left.count(b"\n"), 1)
            elif left:
                self._append(left)
        return len(data)

    def _append(self, data: bytes) -> None:
        """Enqueue bytes, and start the thread if necessary. The caller holds the lock."""
        if self._dropped:
            data = _DROPPED.format(self._dropped).encode() + data
            self._dropped = 0
        self._queue.append(data)
        self._waiting += len(data)
        if not self._has_thread:
            with suppress(RuntimeError):  # no thread can be started now; the next write tries again
                threading.Thread(target=self._run, name="minimcp-output", daemon=True).start()
                self._has_thread = True

    def _put(self, data: bytes) -> bytes:
        """Write what the descriptor accepts now, and return the rest. The caller holds the lock."""
        try:
            while data and _can_write(self.own, 0):
                data = data[os.write(self.own, data[:_PIECE_BYTES]) :]
        except BlockingIOError:
            pass
        except OSError:  # the reader has closed the pipe, or the disk is full
            return b""
        return data

    def _run(self) -> None:
        """Write queued bytes until the queue is empty."""
        while True:
            _can_write(self.own, None)
            with self._changed:
                while self._queue:
                    data = self._queue.popleft()
                    left = self._put(data)
                    self._waiting -= len(data) - len(left)
                    if left:
                        self._queue.appendleft(left)
                        break
                if not self._queue:
                    self._has_thread = False
                    self._changed.notify_all()
                    return

    def drain(self, seconds: float) -> None:
        """Wait until the queue is empty, at most `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue, seconds)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the original descriptor, which a child process should inherit."""
        return self._number

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._number)

    def __del__(self) -> None:
        # Not in `close`: a `TextIOWrapper` closes this stream when it is garbage-collected, but the
        # thread may still have bytes to write. The thread keeps this object alive.
        with suppress(AttributeError, OSError):  # `__init__` has failed
            os.close(self.own)


def _duplicate(number: int) -> int:
    """Return a duplicate of a descriptor. For a pipe, the duplicate is non-blocking.

    It is never 0, 1 or 2. If descriptor 0 is closed, the duplicate must not become stdin.
    """
    made = [_open_again(number)]
    while made[-1] <= 2:
        made.append(os.dup(made[-1]))
    for each in made[:-1]:
        os.close(each)
    return made[-1]


def _open_again(number: int) -> int:
    """Open the pipe of a descriptor again, or duplicate another kind of descriptor.

    A plain duplicate shares O_NONBLOCK with the original, and other processes use the original.
    """
    if stat.S_ISFIFO(os.fstat(number).st_mode):
        with suppress(OSError):  # not Linux, or the pipe has no reader
            return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
    return os.dup(number)


def _can_write(number: int, seconds: Optional[float]) -> bool:
    """Wait until a descriptor is writable or its reader has closed it."""
    if not hasattr(select, "poll"):  # pragma: no cover - Windows, where the write itself waits
        return True
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    return bool(poller.poll(seconds))


def descriptor_of(stream: Any) -> int:
    """Return the descriptor of a plain file object, or -1.

    For other objects, return -1, because they may transform what they write, as a compressed file
    does.
    """
    if type(stream) is io.TextIOWrapper:
        stream = getattr(stream, "buffer", None)
    if type(stream) in (io.BufferedWriter, io.BufferedRandom):
        stream = stream.raw
    if type(stream) in (io.FileIO, Outlet):
        with suppress(OSError, ValueError):
            return int(stream.fileno())
    return -1


def open_outlet(stream: Any) -> Optional[Outlet]:
    """Return an outlet to the descriptor of a file, or None if it is closed or not a plain file.

    The file is flushed first.
    """
    number = descriptor_of(stream)
    if number < 0:
        return None
    with suppress(OSError):
        stream.flush()
        return Outlet(number)
    return None


def tracer(trace: Any) -> Optional[Callable[[str, bytes], None]]:
    """Return the function that a connection calls for each line, made from ``trace=``.

    Args:
        trace: A text file, or a function that receives "-->" for a sent line or "<--" for a
            received line, and the line. None for no trace. The first exception that it raises is
            logged, and the connection continues.

    Raises:
        TypeError: `trace` is neither a text file nor a function.
    """
    if trace is None:
        return None
    if not callable(trace) and not callable(getattr(trace, "write", None)):
        raise TypeError(f"trace must be a text file or a callable, not {type(trace).__name__}")
    call = trace if callable(trace) else _file_tracer(trace)
    failed: list[Exception] = []

    def record(arrow: str, line: bytes) -> None:
        try:
            with exit_gate:
                call(arrow, line.decode("utf-8", "replace"))
        except Exception as error:
            if not failed:
                logger("minimcp.trace").error("trace= failed: %r", error, exc_info=error)
            failed[:] = [error]

    return record


def _file_tracer(file: Any) -> Callable[[str, str], object]:
    """Return a function that writes to a text file.

    If the file has a descriptor, the function bypasses its buffer.
    """
    outlet = open_outlet(file) if isinstance(file, io.TextIOWrapper) else None
    if outlet is None:
        return lambda arrow, text: file.write(f"{arrow} {printable(text)}\n")
    encoding = file.encoding
    errors = file.errors or "strict"

    def write(arrow: str, text: str) -> None:
        outlet.write(f"{arrow} {printable(text)}\n".encode(encoding, errors))

    return write


@contextmanager
def never_blocking(*names: str) -> Iterator[None]:
    """Replace standard streams with an `Outlet`, in `sys` and in `logging` handlers.

    When the block ends, the streams are restored. They are not restored if user code is still
    running, because it may hold the lock of a stream while the interpreter exits.

    Args:
        names: "stdout" or "stderr". A stream is not replaced if it does not write to descriptor 1
            or 2, as in a notebook or in a test.
    """
    moved: list[tuple[str, Any, Any]] = []
    for name in names:
        found = getattr(sys, name)
        has_own = descriptor_of(found) == ("stdin", "stdout", "stderr").index(name)
        outlet: Any = open_outlet(found) if has_own else None
        if outlet is not None:
            ours = io.TextIOWrapper(outlet, found.encoding, found.errors, line_buffering=True)
            moved.append((name, found, ours))
            setattr(sys, name, ours)
            _move_handlers(found, ours)
    try:
        yield
    finally:
        for name, found, ours in moved:
            ours.buffer.drain(DRAIN_SECONDS)
            if not exit_gate.wait(DRAIN_SECONDS):
                exit_gate.seconds = 0.0  # no need to wait: an outlet has no lock
            else:
                _move_handlers(ours, found)
                if getattr(sys, name) is ours:
                    setattr(sys, name, found)


def _move_handlers(old: Any, new: Any) -> None:
    """Move `logging` handlers from one stream to another.

    Some handlers do not belong to a logger, because a `MemoryHandler` or a `QueueListener` passes
    records to them. So this uses the list of all handlers that `logging` flushes at exit.
    """
    logging: Any = sys.modules.get("logging")
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        # The stream of `logging.lastResort` is a property that returns `sys.stderr`.
        if isinstance(handler, logging.StreamHandler) and vars(handler).get("stream") is old:
            handler.setStream(new)
