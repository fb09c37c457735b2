"""What a transport of one connection implements: receive, send, close; lines; and the transport
over descriptors.

A transport carries lines: one JSON-RPC message (or array) each, UTF-8, ended by a line feed. It
knows nothing of what is inside them. The `Connection` above it has one thread in `receive`, and
never more than one at a time in `send`.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from contextlib import suppress
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import ConnectionLost
from ..log import exit_gate, logger
from ..text import printable
from .output import open_outlet

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

# What is kept of the beginning and of the end of a line that is too long.
HEAD_BYTES, TAIL_BYTES = 4096, 512

# What a pipe is asked to hold where the system can be asked; the usual 64 KiB cost a switch of
# threads per 64 KiB.
PIPE_BYTES = 256 * 1024

# How long closing waits for a thread to leave a descriptor; on Windows one cannot be called away.
LEAVING_SECONDS = 1.0

_READ_BYTES = 64 * 1024
_HAS_POLL = hasattr(select, "poll")
_READABLE, _WRITABLE = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)
# Bytes that a blocking pipe takes at once when it has room; None for all of them.
_AT_ONCE = getattr(select, "PIPE_BUF", None)


class TooLong(NamedTuple):
    """Stands in the place of a line that was longer than the limit and was skipped up to its line
    feed.

    Args:
        limit: The limit, in bytes.
        head: The beginning of the line.
        tail: The end of it; the two may overlap.
    """

    limit: int
    head: bytes = b""
    tail: bytes = b""


# One received line without its line feed, or what stands in its place.
Frame = Union[bytes, TooLong]


class Transport:
    """One connection to one peer, as bytes.

    `receive` and `send` run at the same time on different threads; `close` may run on any third
    one, at any moment, several times, and makes the other two return.

    Attributes:
        name: Shown in logs and errors: the command, "stdio", "memory".
        headers: Of the HTTP request that opened the connection, with ``principal``, who sent it;
            empty where none did.
        in_memory: Whether the peer is in this process.
    """

    name: str = ""
    in_memory = False
    headers: Mapping[str, str] = {}

    def receive(self) -> list[Frame]:
        """Wait for lines and return all that are complete, in order, at least one; an empty list at
        the end.

        The end is the peer's end of stream, a broken connection or `close`. What stands after the
        last line feed then is a last line. Never raises.
        """
        raise NotImplementedError

    def send(self, data: bytes, seconds: float) -> int:
        """Hand bytes to the peer as far as it takes them; returns how many it took, 0 when the time
        was over.

        Args:
            data: Whole lines, or the rest of what an earlier call could not hand over.
            seconds: How long to wait until it takes any; 0 never waits.

        Raises:
            ConnectionLost: The peer is gone, or the transport is closed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything the transport holds, within a few seconds at most. Idempotent, from
        any thread."""
        raise NotImplementedError

    def close_in_fork(self) -> None:
        """Close descriptors and do nothing else: this process is a fork of the one that made the
        transport."""

    def peer_may_read(self) -> bool:
        """Whether the peer may still read what is sent, though it sends no more; True when that
        cannot be told."""
        return True

    def peer_has_read(self) -> bool:
        """Whether the peer has taken any of what was sent, asked when it is lost; True when that
        cannot be told."""
        return True

    def lost(self, reason: str) -> ConnectionLost:
        """The exception that says how this connection ended.

        Args:
            reason: What was noticed first ("the peer closed the connection").
        """
        return ConnectionLost(f"{self.name}: {reason}")


class LineSplitter:
    """Cuts a stream of bytes into lines, in time linear in its length however it arrives. For one
    thread.

    Only LF ends a line. One CR before it is dropped, empty lines are skipped, a byte order mark is
    dropped at the very start; every other byte is left alone.

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
                line = bytes(self._begun)
                self._begun = bytearray()
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
        if len(self._begun) > max(
            self._limit + 1, HEAD_BYTES + TAIL_BYTES
        ):  # one byte more may be a CR
            self._skipped = True
            del self._begun[HEAD_BYTES:-TAIL_BYTES]
        return frames

    def rest(self) -> list[Frame]:
        """What stands after the last line feed: at most one line. To be called at the end of the
        stream."""
        return self.feed(b"\n")


class _NoPoll:
    """Stands where `select.poll` does not exist (Windows): reads and writes themselves wait, until
    the peer ends."""

    def register(self, number: int, event: int) -> None:
        """Nothing is known of a descriptor before it is read or written."""

    def poll(self, milliseconds: float = 0.0) -> list[tuple[int, int]]:
        """A write may wait where there is time for it."""
        return [(-1, 0)] if milliseconds else []


class _End:
    """A descriptor that one thread at a time waits for and any other may close.

    Closing a descriptor wakes nobody who waits for it, and its number may be another file's a
    moment later. So the thread waits for a pipe of our own too, which `close` writes to, and what
    is here is closed when nobody uses it.

    Args:
        number: The descriptor; owned from now on. -1 for none.
        event: What is waited for.
        waker: Both ends of the pipe that `close` writes to; owned from now on.
        others: Descriptors that are waited for too, until they can be read; owned from now on.

    Attributes:
        lock: Of the thread that uses the descriptor.
        unblocked: Whether it was made non-blocking here, which all who share the open file share.
    """

    unblocked = closed = False

    def __init__(self, number: int, event: int, waker: tuple[int, int], *others: int) -> None:
        waking, self._waker = waker
        self.number = number
        self._numbers = (number, *others, waking, self._waker)
        self.lock = threading.RLock()
        self._closing = threading.RLock()
        self.poller: Any = select.poll() if _HAS_POLL else _NoPoll()
        for each in (number, *others, waking):
            if each >= 0:
                self.poller.register(each, event if each == number else _READABLE)

    def close(self, seconds: float) -> None:
        """Call away the thread that uses it, and close it if that leaves it within so many seconds.
        Idempotent."""
        with self._closing:
            if not self.closed:
                self.closed = True
                os.write(self._waker, b"!")
        if self.lock.acquire(timeout=seconds):
            self.close_descriptors()
            self.lock.release()

    def close_descriptors(self) -> None:
        """Close what is here (lock held)."""
        if self.unblocked and self.number >= 0:
            os.set_blocking(self.number, True)
        with self._closing:  # `close` has written, if it is about to
            numbers = self._numbers
            self.number = -1
            self._numbers = ()
        close_quietly(*numbers)

    def close_in_fork(self) -> None:
        """Close it in a forked process, whose parent goes on with the open file."""
        self.lock = threading.RLock()
        self._closing = threading.RLock()
        self.closed = True
        self.unblocked = False
        self.close_descriptors()


class StreamTransport(Transport):
    """Lines over two descriptors: of pipes, sockets, terminals or files.

    Args:
        name: Shown in logs and errors.
        reading: Where the peer's lines come from; owned from now on.
        writing: Where ours go to; owned from now on. -1 sends nothing.
        limit: Bytes of one line; None sets no limit.
        shared: Whether others use the file that ``writing`` refers to, so that it must not be made
            non-blocking.
        ended: A descriptor that becomes readable when the peer's process has ended, which is the
            end of its stream as soon as nothing is left to read; owned from now on. -1 for none.
        wakers: Two pipes, for its own use; empty makes them.

    Raises:
        OSError: No descriptor is left; what was given is not owned then.
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
        self.sent = 0  # bytes that the system has taken
        waker, other = wakers or pipes(2)
        self._in = _End(reading, _READABLE, waker, ended)
        self._out = _End(writing, _WRITABLE, other)
        self._splitter = LineSplitter(limit)
        self._ended = False
        self._blocks = shared or not _HAS_POLL or writing < 0
        if not self._blocks and os.get_blocking(writing):
            self._out.unblocked = True
            os.set_blocking(writing, False)

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
        """Wait for bytes and return them; empty at the end of the stream, None when it broke or is
        closed."""
        chunk: Optional[bytes] = None
        end = self._in
        with end.lock:
            try:
                ready = {} if end.closed else dict(end.poller.poll())
                if not end.closed:
                    chunk = (
                        b""
                        if ready and end.number not in ready
                        else os.read(end.number, _READ_BYTES)
                    )
            except OSError:
                pass
            if end.closed:  # also by `close`, if this thread was not slow to leave
                end.close_descriptors()
        return chunk

    def send(self, data: bytes, seconds: float) -> int:
        """As `Transport.send`."""
        end, taken = self._out, 0
        with end.lock:
            try:
                # Rule 2: a write that must not wait is tried without `poll`.
                ready = (
                    end.closed or not (seconds or self._blocks) or end.poller.poll(seconds * 1000)
                )
                if end.closed:
                    raise BrokenPipeError("it is closed")
                if ready:
                    taken = os.write(end.number, data[:_AT_ONCE] if self._blocks else data)
            except BlockingIOError:
                pass
            except OSError as error:
                raise self.lost(f"nothing can be sent: {error.strerror or error}") from error
        self.sent += taken
        return taken

    def peer_may_read(self) -> bool:
        """As `Transport.peer_may_read`."""
        number = self._out.number  # another thread may close it
        if not _HAS_POLL or number < 0:
            return not _HAS_POLL
        poller = select.poll()
        poller.register(number, 0)  # what says that nobody is there comes unasked
        return not poller.poll(0)

    def close_writing(self) -> None:
        """Send nothing more, which the peer sees as the end of its input; go on receiving.
        Idempotent."""
        self._out.close(LEAVING_SECONDS)

    def close(self) -> None:
        """As `Transport.close`."""
        self._out.close(LEAVING_SECONDS)
        self._in.close(LEAVING_SECONDS if _HAS_POLL else 0.0)

    def close_in_fork(self) -> None:
        """As `Transport.close_in_fork`."""
        self._out.close_in_fork()
        self._in.close_in_fork()


def memory_pair(limit: Optional[int]) -> tuple[Transport, Transport]:
    """Two connected transports inside this process, for a server in the same program and for tests.

    Args:
        limit: Bytes of one line, for both; None sets no limit.

    Raises:
        OSError: No descriptor is left.
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
    """So many pipes, or none of them. Raises OSError: no descriptor is left."""
    made: list[tuple[int, int]] = []
    try:
        for _ in range(count):
            made.append(os.pipe())
    except OSError:
        close_quietly(*(number for pair in made for number in pair))
        raise
    return made


def close_quietly(*numbers: int) -> None:
    """Close descriptors that may be closed already; -1 stands for none."""
    for number in numbers:
        if number >= 0:
            with suppress(OSError):
                os.close(number)


def enlarge(number: int) -> None:
    """Ask for a pipe that holds `PIPE_BYTES`; what is no pipe, or may not grow, stays as it is."""
    try:
        fcntl.fcntl(
            number, getattr(fcntl, "F_SETPIPE_SZ", 1031), PIPE_BYTES
        )  # the name is new in Python 3.10
    except (AttributeError, OSError):
        pass


def tracer(trace: Any) -> Optional[Callable[[str, bytes], None]]:
    """What a connection calls for every line on the wire, made of what a user gave as ``trace=``.

    Args:
        trace: A text file, or a callable that gets ("-->" for sent or "<--" for received, text);
            None for no trace. What it raises is logged once and does not hurt the connection.

    Raises:
        TypeError: It is neither.
    """
    if trace is None:
        return None
    if not callable(trace) and not callable(getattr(trace, "write", None)):
        raise TypeError(f"trace is a text file or a callable, not {type(trace).__name__}")
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
    """Write lines to a text file; past its buffer, if it is one with a descriptor."""
    outlet = open_outlet(file) if isinstance(file, io.TextIOWrapper) else None
    if outlet is None:
        return lambda arrow, text: file.write(f"{arrow} {printable(text)}\n")
    encoding, errors = file.encoding, file.errors or "strict"

    def write(arrow: str, text: str) -> None:
        outlet.write(f"{arrow} {printable(text)}\n".encode(encoding, errors))

    return write
