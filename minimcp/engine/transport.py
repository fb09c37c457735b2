"""`Transport`: the interface of a transport, with an implementation for descriptors.

A transport carries lines. Each line is one JSON-RPC message or array in UTF-8 and ends in a line
feed. The transport does not decode them. A `Connection` has one thread in `receive`, and at most
one thread at a time in `send`.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import os
import select
import sys
import threading
from contextlib import suppress
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import ConnectionLost

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# Maximum size of the beginning and of the end of an oversized line that `TooLong` keeps.
HEAD_BYTES = 4096
TAIL_BYTES = 512

# Size of a pipe, if the system allows changing it. With the usual 64 KiB, each 64 KiB of a message
# would cost a thread switch.
PIPE_BYTES = 256 * 1024

# How long `close` waits for a thread to leave a descriptor. On Windows, such a thread cannot be
# interrupted.
LEAVING_SECONDS = 1.0

_READ_BYTES = 64 * 1024
HAS_POLL = hasattr(select, "poll")
_READABLE = getattr(select, "POLLIN", 1)
_WRITABLE = getattr(select, "POLLOUT", 4)
# Number of bytes that a writable blocking pipe accepts without blocking; None means any number.
_AT_ONCE = getattr(select, "PIPE_BUF", None)


class TooLong(NamedTuple):
    """The rest of a line that was longer than the limit and was dropped.

    Args:
        limit: The limit, in bytes.
        head: The beginning of the line.
        tail: The end of the line, which may overlap with the beginning.
    """

    limit: int
    head: bytes = b""
    tail: bytes = b""


# A received line without its line feed, or a `TooLong` instead of an oversized line.
Frame = Union[bytes, TooLong]


class Transport:
    """A byte stream to and from one peer.

    `receive` and `send` run at the same time on different threads. `close` may run on any thread at
    any time, and more than once. It makes `receive` and `send` return.

    Attributes:
        name: The name in log records and errors: the command, "stdio" or "memory".
        headers: The headers of the HTTP request that opened the connection, with the attribute
            ``principal`` for its sender. Empty without an HTTP request.
        in_memory: Whether the peer is in this process.
    """

    name: str = ""
    in_memory = False
    headers: Mapping[str, str] = {}

    def receive(self) -> list[Frame]:
        """Wait for at least one line, and return all complete lines in order. Never raises.

        At the end, return an empty list. The end is the peer's end of stream, a broken connection
        or `close`. Bytes after the last line feed are a line, too.
        """
        raise NotImplementedError

    def send(self, data: bytes, seconds: float) -> int:
        """Send bytes to the peer. Return the number of bytes that it accepted; 0 on a timeout.

        Args:
            data: Whole lines, or the bytes that an earlier call could not send.
            seconds: How long to wait until the peer accepts bytes; 0 means no wait.

        Raises:
            ConnectionLost: The peer closed the connection, or the transport is closed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Release all resources, within a few seconds at most. Idempotent and thread-safe."""
        raise NotImplementedError

    def close_in_fork(self) -> None:
        """Close the descriptors in a forked process, without affecting the parent process."""

    def peer_may_read(self) -> bool:
        """Return whether the peer may still read although it sends nothing more.

        Return True if that is unknown.
        """
        return True

    def peer_has_read(self) -> bool:
        """Return whether a lost peer has read any of the bytes that were sent.

        Return True if that is unknown.
        """
        return True

    def loss(self, reason: str) -> ConnectionLost:
        """Return the exception that describes how the connection ended.

        Args:
            reason: The first symptom, such as "the peer closed the connection".
        """
        return ConnectionLost(f"{self.name}: {reason}")


class LineSplitter:
    """Splits a byte stream into lines, in linear time however the bytes arrive. Not thread-safe.

    Only LF ends a line. A CR before it, empty lines and a byte order mark at the start of the
    stream are dropped. Other bytes are unchanged.

    Args:
        limit: Maximum length of a line without its line end, in bytes; None means no limit.
    """

    def __init__(self, limit: Optional[int]) -> None:
        self._limit = sys.maxsize if limit is None else limit
        # The beginning of a line whose line feed has not arrived.
        self.incomplete = bytearray()
        # Whether the middle of that line was dropped because it is too long.
        self._is_cut = False
        self._is_first = True

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the lines that `chunk` completes, in order. The list may be empty."""
        lines = chunk.split(b"\n")
        last = lines.pop()
        is_special = last or self.incomplete or self._is_first or self._is_cut or b"\r" in chunk
        if not is_special and len(chunk) <= self._limit:
            return [line for line in lines if line]  # whole lines, which is usual
        frames: list[Frame] = []
        for line in lines:
            if self.incomplete:
                self.incomplete += line
                line = bytes(self.incomplete)
                self.incomplete = bytearray()
            if self._is_first:
                self._is_first = False
                if line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
            if line.endswith(b"\r"):
                line = line[:-1]
            if self._is_cut or len(line) > self._limit:
                frames.append(TooLong(self._limit, line[:HEAD_BYTES], line[-TAIL_BYTES:]))
                self._is_cut = False
            elif line:
                frames.append(line)
        self.incomplete += last
        # One byte above the limit may be a CR.
        if len(self.incomplete) > max(self._limit + 1, HEAD_BYTES + TAIL_BYTES):
            self._is_cut = True
            del self.incomplete[HEAD_BYTES:-TAIL_BYTES]
        return frames

    def rest(self) -> list[Frame]:
        """Return the bytes after the last line feed as a line, at the end of the stream."""
        return self.feed(b"\n")


class _NoPoll:
    """A replacement for `select.poll` on Windows, where the reads and writes themselves block."""

    def register(self, number: int, event: int) -> None:
        """Do nothing."""

    def poll(self, milliseconds: float = 0.0) -> list[tuple[int, int]]:
        """Return an event if the caller may block, so that the caller tries to write."""
        return [(-1, 0)] if milliseconds else []


class _End:
    """A descriptor that one thread uses and that any other thread may close.

    Closing a descriptor does not wake a thread that polls it, and the system may reuse its number.
    So the thread also polls a pipe, to which `close` writes. The descriptors are closed when no
    thread uses them.

    Args:
        number: The descriptor, or -1 for none. This object closes it.
        event: The event that the thread waits for.
        waker: Both ends of the pipe to which `close` writes. This object closes them.
        others: More descriptors, which wake the thread when they become readable. This object
            closes them.

    Attributes:
        lock: The lock that a thread holds while it uses the descriptor.
        unblocked: Whether the descriptor was made non-blocking. The open file may be shared with
            other processes, so its mode must be restored.
        closed: Whether `close` was called. The descriptors stay open until no thread uses them.
            After that, `number` is -1.
    """

    unblocked = False
    closed = False

    def __init__(self, number: int, event: int, waker: tuple[int, int], *others: int) -> None:
        waking, self._waker = waker
        self.number = number
        self._numbers = (number, *others, waking, self._waker)
        self.lock = threading.RLock()
        self._closing = threading.RLock()
        self.poller: Any = select.poll() if HAS_POLL else _NoPoll()
        for each in (number, *others, waking):
            if each >= 0:
                self.poller.register(each, event if each == number else _READABLE)

    def close(self, seconds: float) -> None:
        """Wake the thread that uses the descriptor, and close it. Idempotent.

        If the thread still uses it after `seconds`, the thread itself closes it when it has
        finished.
        """
        with self._closing:
            if not self.closed:
                self.closed = True
                os.write(self._waker, b"!")
        if self.lock.acquire(timeout=seconds):
            self.close_descriptors()
            self.lock.release()

    def close_descriptors(self) -> None:
        """Close all descriptors. The caller holds the lock."""
        if self.unblocked and self.number >= 0:
            os.set_blocking(self.number, True)
        with self._closing:  # `close` must not write to the waker at the same time
            numbers = self._numbers
            self.number = -1
            self._numbers = ()
        close_quietly(*numbers)

    def close_in_fork(self) -> None:
        """Close the descriptors in a forked process. The parent process still uses the files."""
        self.lock = threading.RLock()
        self._closing = threading.RLock()
        self.closed = True
        self.unblocked = False
        self.close_descriptors()


class StreamTransport(Transport):
    """A transport over two descriptors: pipes, sockets, terminals or files.

    Args:
        name: The name in log records and errors.
        reading: The descriptor to read from. The transport closes it.
        writing: The descriptor to write to, or -1 to send nothing. The transport closes it.
        limit: Maximum length of a line, in bytes; None means no limit.
        shared: Whether other processes use the file of ``writing``. If so, it is not made
            non-blocking.
        ended: A descriptor that becomes readable when the peer's process has ended, or -1. After
            that, the stream ends when no more bytes can be read. The transport closes it.
        wakers: Two pipes for `close`; if empty, the transport creates them.

    Raises:
        OSError: The process has too many open descriptors. The given descriptors are not closed.
    """

    def __init__(
        self,
        name: str,
        reading: int,
        writing: int,
        limit: Optional[int],
        *,
        shared: bool = False,
        ended: int = -1,
        wakers: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.name = name
        # Number of bytes that the system has accepted.
        self.sent = 0
        waker, other = wakers or pipes(2)
        self._in = _End(reading, _READABLE, waker, ended)
        self._out = _End(writing, _WRITABLE, other)
        self._splitter = LineSplitter(limit)
        self._ended = False
        self._blocks = shared or not HAS_POLL or writing < 0
        if not self._blocks and os.get_blocking(writing):
            self._out.unblocked = True
            os.set_blocking(writing, False)

    def receive(self) -> list[Frame]:
        """Wait for lines; see `Transport.receive`."""
        frames: list[Frame] = []
        while not self._ended and not frames:
            chunk = self.read()
            if chunk:
                frames = self._splitter.feed(chunk)
            else:
                self._ended = True  # a terminal could be read again after its end of file
                frames = [] if chunk is None else self._splitter.rest()
        return frames

    def read(self) -> Optional[bytes]:
        """Wait for bytes and return them.

        Return empty bytes at the end of the stream, and None if it is broken or closed.
        """
        chunk: Optional[bytes] = None
        end = self._in
        with end.lock:
            try:
                ready = {} if end.closed else dict(end.poller.poll())
                if not end.closed:
                    # Without `poll` on Windows, `ready` is empty and the read waits.
                    if ready and end.number not in ready:
                        chunk = b""  # the peer's process has ended
                    else:
                        chunk = os.read(end.number, _READ_BYTES)
            except OSError:
                pass
            if end.closed:  # `close` may not have waited long enough for this thread
                end.close_descriptors()
        return chunk

    def send(self, data: bytes, seconds: float) -> int:
        """Send bytes; see `Transport.send`."""
        end = self._out
        written = 0
        with end.lock:
            try:
                is_ready = True
                # Rule 2: no `poll` if the write does not block and there is no time to wait.
                if (seconds or self._blocks) and not end.closed:
                    is_ready = bool(end.poller.poll(seconds * 1000))
                if end.closed:
                    raise BrokenPipeError("the transport is closed")
                if is_ready:
                    written = os.write(end.number, data[:_AT_ONCE] if self._blocks else data)
            except BlockingIOError:
                pass
            except OSError as error:
                raise self.loss(f"cannot send: {error.strerror or error}") from error
        self.sent += written
        return written

    def peer_may_read(self) -> bool:
        """Return whether the peer may read; see `Transport.peer_may_read`."""
        number = self._out.number  # another thread may close it
        if not HAS_POLL or number < 0:
            return not HAS_POLL
        poller = select.poll()
        poller.register(number, 0)  # `poll` always reports errors and hang-ups
        return not poller.poll(0)

    def close_writing(self) -> None:
        """Close the writing descriptor, so that the peer reads the end of its input. Idempotent."""
        self._out.close(LEAVING_SECONDS)

    def close(self) -> None:
        """Release all resources; see `Transport.close`."""
        self._out.close(LEAVING_SECONDS)
        self._in.close(LEAVING_SECONDS if HAS_POLL else 0.0)

    def close_in_fork(self) -> None:
        """Close the descriptors; see `Transport.close_in_fork`."""
        self._out.close_in_fork()
        self._in.close_in_fork()


def memory_pair(limit: Optional[int]) -> tuple[Transport, Transport]:
    """Return two connected transports in this process.

    Args:
        limit: Maximum length of a line in either direction, in bytes; None means no limit.

    Raises:
        OSError: The process has too many open descriptors.
    """
    there, back, *wakers = pipes(6)
    for _, number in (there, back):
        enlarge(number)
    one = StreamTransport("memory", back[0], there[1], limit, wakers=wakers[:2])
    other = StreamTransport("memory", there[0], back[1], limit, wakers=wakers[2:])
    one.in_memory = True
    other.in_memory = True
    return one, other


def pipes(count: int) -> list[tuple[int, int]]:
    """Create `count` pipes, or none if one of them cannot be created.

    Raises:
        OSError: The process has too many open descriptors.
    """
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        close_quietly(*(number for pair in made for number in pair))
        raise
    return made


def close_quietly(*numbers: int) -> None:
    """Close descriptors, and ignore errors. -1 is ignored."""
    for number in numbers:
        if number >= 0:
            with suppress(OSError):
                os.close(number)


def enlarge(number: int) -> None:
    """Set the size of a pipe to `PIPE_BYTES`. Ignore other descriptors and errors."""
    operation = getattr(fcntl, "F_SETPIPE_SZ", 1031)  # the name is new in Python 3.10
    try:
        fcntl.fcntl(number, operation, PIPE_BYTES)
    except (AttributeError, OSError):
        pass
