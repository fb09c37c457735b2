"""`Outlet`: bytes for a descriptor whose reader is never waited for; `never_blocking`.

A thread that writes to a buffered stream holds the lock of its buffer. If nobody reads the other
end of the pipe, the thread never lets go of it, and every other thread that prints waits, too. If
the interpreter exits meanwhile, it waits for ever or aborts. `Outlet` writes to a descriptor and
has no such lock. Code of a user that may write to a stream runs behind `errors.exit_gate`.
"""

from __future__ import annotations

import io
import logging
import os
import select
import stat
import sys
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import Any, Iterator, Optional

from ..log import exit_gate
from .pool import renewed_in_fork

# Bytes that may wait for a reader. Above this, what is written is dropped.
MAX_WAITING_BYTES = 1024 * 1024

# How long a server that ends waits for a reader to take what is left, and for its handlers.
DRAIN_SECONDS = 0.1

# Bytes that a pipe takes without blocking when `poll` says that it can be written to.
_PIECE_BYTES = getattr(select, "PIPE_BUF", 512)

_DROPPED = "minimcp: {} lines were dropped here, because nobody had read what was before them\n"


class Outlet(io.RawIOBase):
    """A binary stream to a descriptor whose reader is never waited for.

    A write goes to the descriptor at once if that takes it. Otherwise it waits in a queue of at most
    `MAX_WAITING_BYTES` for a thread; if that is full, it is dropped, and a line later says how much.
    Thread-safe.

    Args:
        number: The descriptor. This stream has a duplicate of its own.

    Attributes:
        own: The duplicate, which does not block if it is a pipe.

    Raises:
        OSError: It is closed, or no descriptor is left.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.own = _duplicate(number)
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin with an empty queue and without a thread."""
        self._changed = threading.Condition(threading.RLock())  # a signal handler may print
        self._queue: deque[bytes] = deque()
        self._waiting = 0
        self._dropped = 0
        self._has_thread = False

    def write(self, data: Any) -> int:
        """Pass bytes on, queue or drop them. Never blocks, and ignores that nobody reads."""
        data = bytes(data)
        with self._changed:
            left = data if self._queue else self._put(data)
            if left and self._waiting + len(left) > MAX_WAITING_BYTES:
                self._dropped += max(left.count(b"\n"), 1)
            elif left:
                self._append(left)
        return len(data)

    def _append(self, data: bytes) -> None:
        """Queue bytes, and see to a thread that writes them (lock held)."""
        if self._dropped:
            data = _DROPPED.format(self._dropped).encode() + data
            self._dropped = 0
        self._queue.append(data)
        self._waiting += len(data)
        if not self._has_thread:
            with suppress(RuntimeError):  # the system gives none now: the next write tries again
                threading.Thread(target=self._run, name="minimcp-output", daemon=True).start()
                self._has_thread = True

    def _put(self, data: bytes) -> bytes:
        """Write as much as the descriptor takes now, and return the rest (lock held)."""
        try:
            while data and _can_write(self.own, 0):
                data = data[os.write(self.own, data[:_PIECE_BYTES]) :]
        except BlockingIOError:
            pass
        except OSError:  # the reader has gone, or the disk is full
            return b""
        return data

    def _run(self) -> None:
        """Write what is queued; the thread ends when nothing is left."""
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
        """Wait until nothing is queued, or until the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queue, seconds)

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor that was given, which is what a child process should get."""
        return self._number

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._number)

    def __del__(self) -> None:
        # Not in `close`: a `TextIOWrapper` that is collected closes this stream, and the thread,
        # which keeps this object alive, may still have to write.
        with suppress(AttributeError, OSError):  # `__init__` has failed
            os.close(self.own)


def _duplicate(number: int) -> int:
    """A duplicate of a descriptor; of a pipe one that does not block.

    It is never 0, 1 or 2: if one of these is closed, a server must not take this for its stdin.
    """
    made = [_open_again(number)]
    while made[-1] <= 2:
        made.append(os.dup(made[-1]))
    for each in made[:-1]:
        os.close(each)
    return made[-1]


def _open_again(number: int) -> int:
    """Open the pipe of a descriptor once more, or duplicate the descriptor.

    O_NONBLOCK cannot be set on a plain duplicate: whoever shares the open file would have it, too.
    """
    if stat.S_ISFIFO(os.fstat(number).st_mode):
        with suppress(OSError):  # not Linux, or nobody reads
            return os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK)
    return os.dup(number)


def _can_write(number: int, seconds: Optional[float]) -> bool:
    """Wait until a descriptor can be written to, or its reader has gone."""
    if not hasattr(select, "poll"):  # pragma: no cover - Windows, where the write itself waits
        return True
    poller = select.poll()
    poller.register(number, select.POLLOUT)
    return bool(poller.poll(seconds))


def descriptor_of(stream: Any) -> int:
    """Return the descriptor of a file that the standard library opened, -1 for any other object.

    The bytes of a compressed file, for instance, are not those that its descriptor gets.
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
    """Open an outlet to the descriptor of a file; None if the file has none, or is closed.

    What the program has written to the file before is flushed.
    """
    number = descriptor_of(stream)
    if number < 0:
        return None
    with suppress(OSError):
        stream.flush()
        return Outlet(number)
    return None


@contextmanager
def never_blocking(*names: str) -> Iterator[None]:
    """Put an `Outlet` in the place of standard streams, also in the handlers of `logging` that write
    to one.

    If a handler still runs at the end, it may be in the middle of a write: then nothing is put back,
    so that the interpreter need not wait for the lock of a stream.

    Args:
        names: "stdout" or "stderr". One that does not write to descriptor 1 or 2 (None, a
            notebook's, a test's) is left alone.
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
                exit_gate.seconds = 0.0  # no stream here has a lock
            else:
                _move_handlers(ours, found)
                if getattr(sys, name) is ours:
                    setattr(sys, name, found)


def _move_handlers(old: Any, new: Any) -> None:
    """Have handlers of `logging` that write to one stream write to another one.

    A handler need not belong to a logger: a `MemoryHandler` or a `QueueListener` may pass records
    to it. `logging` keeps a list of all handlers, which it flushes when the interpreter exits.
    """
    for reference in list(getattr(logging, "_handlerList", ())):
        handler = reference()
        # The stream of `logging.lastResort` is a property, which is `sys.stderr`.
        if isinstance(handler, logging.StreamHandler) and vars(handler).get("stream") is old:
            handler.setStream(new)
