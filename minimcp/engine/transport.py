"""What a transport of one connection implements: receive, send, close; lines; and the transport over descriptors.

A transport carries lines: one JSON-RPC message (or array) each, UTF-8, ended by a line feed. It knows nothing of what
is inside them. The `Connection` above it has one thread in `receive`, and never more than one at a time in `send`.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Union

from ..errors import ConnectionLost
from ..protocol.versions import Revision

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

HEAD_BYTES, TAIL_BYTES = 4096, 512
"""What is kept of the beginning and of the end of a line that is too long."""

PIPE_BYTES = 256 * 1024
"""What a pipe is asked to hold where the system can be asked; the usual 64 KiB cost a switch of threads per 64 KiB."""

LEAVING_SECONDS = 1.0
"""How long closing waits for a thread to leave a descriptor; on Windows one cannot be called away."""

_READ_BYTES, _MOST_READ_BYTES = 64 * 1024, 1024 * 1024
_HAS_POLL = hasattr(select, "poll")


@dataclass
class TooLong:
    """Stands in the place of a line that was longer than the limit and was skipped up to its line feed.

    Args:
        limit: The limit, in bytes.
        head: The beginning of the line.
        tail: The end of it; the two may overlap.
    """

    limit: int
    head: bytes = b""
    tail: bytes = b""


Frame = Union[bytes, TooLong]
"""One received line without its line feed, or what stands in its place."""


class SessionGone(ConnectionLost):
    """The server has ended the session. ``refused`` says that it refused a request for it, which so was not run."""

    refused = False


class Transport:
    """One connection to one peer, as bytes.

    `receive` and `send` run at the same time on different threads; `close` may run on any third one, at any moment,
    several times, and makes the other two return.

    Attributes:
        name: Shown in logs and errors: the command, "stdio", "memory".
        headers: Of the HTTP request that opened the connection; empty where none did.
    """

    name: str = ""
    headers: Mapping[str, str] = {}

    def receive(self) -> list[Frame]:
        """Wait for lines and return all that are complete, in order, at least one; an empty list at the end.

        The end is the peer's end of stream, a broken connection or `close`. What stands after the last line feed then
        is a last line. Never raises.
        """
        raise NotImplementedError

    def send(self, data: bytes, seconds: float) -> int:
        """Hand bytes to the peer as far as it takes them; returns how many it took, 0 when the time was over.

        Args:
            data: Whole lines, or the rest of what an earlier call could not hand over.
            seconds: How long to wait until it takes any; 0 never waits.

        Raises:
            ConnectionLost: The peer is gone, or the transport is closed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything the transport holds, within a few seconds at most. Idempotent, from any thread."""
        raise NotImplementedError

    def close_in_fork(self) -> None:
        """Close descriptors and do nothing else: this process is a fork of the one that made the transport."""

    def agreed(self, revision: Revision) -> None:
        """This revision is spoken from now on. Called before the peer hears that all is well."""

    def is_heard(self) -> bool:
        """Whether the peer may still read what is sent, though it sends no more; True when that cannot be told."""
        return True

    def was_read(self) -> bool:
        """Whether the peer has taken any of what was sent, asked when it is lost; True when that cannot be told."""
        return True

    def lost(self, reason: str) -> ConnectionLost:
        """The exception that says how this connection ended.

        Args:
            reason: What was noticed first ("the peer closed the connection").
        """
        return ConnectionLost(f"{self.name}: {reason}")


class LineSplitter:
    """Cuts a stream of bytes into lines, in time linear in its length however it arrives. For one thread.

    Only LF ends a line. One CR before it is dropped, empty lines are skipped, a byte order mark is dropped at the very
    start; every other byte is left alone.

    Args:
        limit: Bytes that a line may have, without its line end; None sets no limit.
    """

    def __init__(self, limit: Optional[int]) -> None:
        self._limit = sys.maxsize if limit is None else limit
        self._begun = bytearray()
        self._skipped = False  # whether the middle of a line that is too long is gone
        self._first = True

    def feed(self, chunk: bytes) -> list[Frame]:
        """The lines that `chunk` completes, in order; often none."""
        lines = chunk.split(b"\n")
        begun = lines.pop()
        frames: list[Frame] = []
        for line in lines:
            if self._begun:
                self._begun += line
                line, self._begun = bytes(self._begun), bytearray()
            if self._first:
                self._first = False
                line = line[3:] if line.startswith(b"\xef\xbb\xbf") else line
            if line.endswith(b"\r"):
                line = line[:-1]
            if self._skipped or len(line) > self._limit:
                frames.append(TooLong(self._limit, line[:HEAD_BYTES], line[-TAIL_BYTES:]))
                self._skipped = False
            elif line:
                frames.append(line)
        self._begun += begun
        if len(self._begun) > max(self._limit + 1, HEAD_BYTES + TAIL_BYTES):  # one byte more may be a CR
            self._skipped = True
            del self._begun[HEAD_BYTES:-TAIL_BYTES]
        return frames

    def rest(self) -> list[Frame]:
        """What stands after the last line feed: at most one line. To be called at the end of the stream."""
        return self.feed(b"\n")


class StreamTransport(Transport):
    """Lines over two descriptors: of pipes, sockets, terminals or files.

    Closing a descriptor wakes nobody who waits for it, and its number may be another file's a moment later. So a thread
    here waits for its descriptor and for a pipe of our own that `close` writes to, and a descriptor is closed when
    nobody uses it. Where `select.poll` does not exist (Windows) reads and writes end when the peer does.

    Args:
        name: Shown in logs and errors.
        reading: Where the peer's lines come from; owned from now on.
        writing: Where ours go to; owned from now on. -1 sends nothing.
        limit: Bytes of one line; None sets no limit.
        shared: Whether others use the file that ``writing`` refers to, so that it must not be made non-blocking.
        ended: A descriptor that becomes readable when the peer's process has ended, which is the end of its stream as
            soon as nothing is left to read; -1 for none.
    """

    def __init__(
        self, name: str, reading: int, writing: int, limit: Optional[int], *, shared: bool = False, ended: int = -1
    ) -> None:
        self.name = name
        self.sent = 0  # bytes that the system has taken
        self._reading, self._writing, self._waking = reading, writing, os.pipe()
        self._receiving, self._sending, self._state = threading.RLock(), threading.RLock(), threading.RLock()
        self._splitter = LineSplitter(limit)
        self._size = _READ_BYTES
        self._ended = self._closed = self._sends_no_more = False
        self._blocks = shared or not _HAS_POLL or writing < 0
        self._switched = not self._blocks and os.get_blocking(writing)
        if self._switched:
            os.set_blocking(writing, False)
        self._readable = self._writable = None
        if _HAS_POLL:
            self._readable, self._writable = select.poll(), select.poll()
            for number in (reading, ended, self._waking[0]):
                if number >= 0:
                    self._readable.register(number, select.POLLIN)
            if writing >= 0:
                self._writable.register(writing, select.POLLOUT)
            self._writable.register(self._waking[0], select.POLLIN)

    def receive(self) -> list[Frame]:
        """As `Transport.receive`."""
        frames: list[Frame] = []
        while not self._ended and not frames:
            chunk = self.read()
            if chunk:
                frames = self._splitter.feed(chunk)
            else:
                self._ended = True  # a terminal's end of input does not last, ours does
                frames = [] if chunk is None else self._splitter.rest()
        return frames

    def read(self) -> Optional[bytes]:
        """Wait for bytes and return them; empty at the end of the stream, None when it broke or is closed."""
        chunk: Optional[bytes] = None
        with self._receiving:
            try:
                ready = [] if self._readable is None else [number for number, _ in self._readable.poll()]
                if self._waking[0] in ready and not self._closed:  # only the writing end was closed
                    self._readable.unregister(self._waking[0])  # type: ignore[union-attr]
                    ready = [number for number, _ in self._readable.poll()]  # type: ignore[union-attr]
                if not self._closed:
                    chunk = b"" if ready and self._reading not in ready else os.read(self._reading, self._size)
                    # A buffer of the full size is made for every read, so it is large only while that is of use.
                    full = len(chunk) == self._size
                    self._size = min(self._size * 4, _MOST_READ_BYTES) if full else _READ_BYTES
            except OSError:
                pass
            if self._closed:
                self._close_reading()
        return chunk

    def send(self, data: bytes, seconds: float) -> int:
        """As `Transport.send`."""
        with self._sending:
            try:
                if self._sends_no_more:
                    raise BrokenPipeError("it is closed")
                try:
                    taken = 0 if self._blocks else os.write(self._writing, data)
                except BlockingIOError:
                    taken = 0
                if not taken:
                    taken = self._write_later(data, seconds)
            except OSError as error:
                raise self.lost(f"nothing can be sent: {error.strerror or error}") from error
        self.sent += taken
        return taken

    def _write_later(self, data: bytes, seconds: float) -> int:
        """Write as soon as there is room."""
        if self._writable is None:
            return os.write(self._writing, data) if seconds else 0
        if not self._writable.poll(seconds * 1000):
            return 0
        if self._sends_no_more:
            raise BrokenPipeError("it is closed")
        try:  # so much a blocking pipe takes at once when it has room
            return os.write(self._writing, data[: select.PIPE_BUF] if self._blocks else data)
        except BlockingIOError:
            return 0

    def is_heard(self) -> bool:
        """As `Transport.is_heard`."""
        number = self._writing
        if self._writable is None or number < 0:
            return self._writable is None
        poller = select.poll()
        poller.register(number, 0)  # what says that nobody is there comes unasked
        return not poller.poll(0)

    def close_writing(self) -> None:
        """Send nothing more, which the peer sees as the end of its input; go on receiving. Idempotent."""
        self._call_away(self._closed)
        if self._sending.acquire(timeout=LEAVING_SECONDS):
            number, self._writing = self._writing, -1
            if self._switched and number >= 0:  # whoever shares the open file shares this flag
                os.set_blocking(number, True)
            close_quietly(number)
            self._sending.release()

    def close(self) -> None:
        """As `Transport.close`."""
        self._call_away(True)
        self.close_writing()
        if self._receiving.acquire(timeout=LEAVING_SECONDS if self._readable is not None else 0.0):
            self._close_reading()
            self._receiving.release()

    def _call_away(self, closed: bool) -> None:
        """Make `send` return, and if it is closed `receive` too, now and later."""
        with self._state:
            if not self._sends_no_more or closed > self._closed:
                self._sends_no_more, self._closed = True, closed
                os.write(self._waking[1], b"!")

    def _close_reading(self) -> None:
        with self._state:
            numbers, self._reading, self._waking = (self._reading, *self._waking), -1, (-1, -1)
        for number in numbers:
            close_quietly(number)

    def close_in_fork(self) -> None:
        """As `Transport.close_in_fork`."""
        self._receiving, self._sending, self._state = threading.RLock(), threading.RLock(), threading.RLock()
        self._closed = self._ended = self._sends_no_more = True
        close_quietly(self._writing)
        self._writing = -1
        self._close_reading()


def memory_pair(limit: Optional[int]) -> tuple[Transport, Transport]:
    """Two connected transports inside this process, for a server in the same program and for tests.

    Args:
        limit: Bytes of one line, for both; None sets no limit.

    Raises:
        OSError: No descriptor is left.
    """
    there, back = os.pipe(), os.pipe()
    for _, number in (there, back):
        enlarge(number)
    return StreamTransport("memory", back[0], there[1], limit), StreamTransport("memory", there[0], back[1], limit)


def close_quietly(number: int) -> None:
    """Close a descriptor that may be closed already; -1 stands for none."""
    if number >= 0:
        try:
            os.close(number)
        except OSError:
            pass


def enlarge(number: int) -> None:
    """Ask for a pipe that holds `PIPE_BYTES`; what is no pipe, or may not grow, stays as it is."""
    try:
        fcntl.fcntl(number, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES)  # the name is new in Python 3.10
    except (AttributeError, OSError):
        pass


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
    if not callable(trace) and not callable(getattr(trace, "write", None)):
        raise TypeError(f"trace is a text file or a callable, not {type(trace).__name__}")
    call = trace if callable(trace) else lambda arrow, text: trace.write(f"{arrow} {text}\n")
    failed: list[Exception] = []

    def record(arrow: str, line: bytes) -> None:
        try:
            call(arrow, line.decode("utf-8", "replace"))
        except Exception as error:
            if not failed:
                logging.getLogger("minimcp.trace").error("trace= failed: %r", error, exc_info=error)
            failed[:] = [error]

    return record
