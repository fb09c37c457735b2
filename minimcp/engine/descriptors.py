"""Descriptors that a thread can wait on and be called away from, and the pipe made of two of them.

Closing a descriptor wakes nobody who waits on it, and its number may be another file's a moment later. So a
thread here waits on two things at once, its descriptor and a `Bell`, and a descriptor is closed by whoever
leaves it last. Where `select.poll` does not exist (Windows) a read or a write ends when the peer does.

This file starts no process and touches no standard stream: child.py and stdio.py do.
"""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from typing import Any, Callable, Optional, Union

from ..errors import ConnectionLost
from .deadline import LONGEST_WAIT
from .lines import LineSplitter
from .transport import Frame, Pipe, nothing

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

PIPE_BYTES = 256 * 1024
"""What a pipe is asked to hold where the system can be asked; the usual 64 KiB cost a switch per 64 KiB."""

LEAVING_SECONDS = 1.0 if hasattr(select, "poll") else 0.0
"""How long `close` waits for a woken thread to leave a descriptor; nobody can be woken without `poll`."""

_READ_BYTES = 64 * 1024
_MOST_READ_BYTES = 1024 * 1024
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)


class Bell:
    """What a thread waits on besides its descriptor, so that it can be called away. Rung once, for good.

    Thread-safe.
    """

    __slots__ = ("rung", "_hearing", "_ringing", "_lock", "_holders")

    def __init__(self) -> None:
        self.rung = False
        self._hearing, self._ringing = os.pipe()
        self._lock = threading.RLock()
        self._holders = 1

    def ring(self) -> None:
        """Wake everybody who waits with this bell, now and later. Idempotent."""
        with self._lock:
            if not self.rung:
                self.rung = True
                os.write(self._ringing, b"!")
                self.release()

    def poller(self, number: int, events: int) -> Any:
        """A `select.poll` object for one thread that wakes for `number` and for the bell; None without poll."""
        with self._lock:
            self._holders += 1
        if not hasattr(select, "poll"):
            return None
        poller = select.poll()
        poller.register(number, events)
        poller.register(self._hearing, select.POLLIN)
        return poller

    def release(self) -> None:
        """One holder less. The last one closes the bell."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                self.abandon()

    def abandon(self) -> None:
        """Close the bell without ringing: in a forked process, where the other side of it is the parent's."""
        for number in (self._hearing, self._ringing):
            close_quietly(number)
        self._hearing = self._ringing = -1


class Descriptor:
    """A descriptor that is closed when it is retired and the last thread that uses it has left.

    Args:
        number: The descriptor, owned from now on.
        bell: Calls away whoever waits.
        events: What a waiting thread waits for (`select.POLLIN` or `select.POLLOUT`).
        nonblocking: Whether to switch it to non-blocking; it is switched back before it is closed, because
            whoever shares its open file shares that flag.

    Thread-safe; but only one thread may read, or write, at a time.
    """

    __slots__ = ("number", "bell", "gone", "_users", "_retired", "_open", "_poller", "_switched")

    def __init__(self, number: int, bell: Bell, events: int, *, nonblocking: bool) -> None:
        self.number = number
        self.bell = bell
        self.gone = threading.Event()
        # No lock, because the collector or a signal handler may run `close` in the middle of anything. Every change is
        # one operation on a list, which the interpreter does whole. Who enters looks at `_retired` afterwards, who
        # retires looks at `_users` afterwards: so one of the two sees the other.
        self._users: list[object] = []
        self._retired = False
        self._open = [number]  # who pops it closes it
        self._switched = nonblocking and os.get_blocking(number)
        if self._switched:
            os.set_blocking(number, False)
        self._poller = bell.poller(number, events)

    def enter(self, user: object = None) -> bool:
        """Keep the descriptor open until `leave`; False when it is retired.

        Args:
            user: Who enters. One of its own may leave again and again, so also after an exception that struck at any
                point; None is anybody, who leaves once.
        """
        self._users.append(user)
        if self._retired:
            self.leave(user)
            return False
        return True

    def leave(self, user: object = None) -> None:
        """The end of what `enter` began."""
        try:
            self._users.remove(user)
        except ValueError:
            pass  # it has left before
        self._close_if_unused()

    def retire(self) -> None:
        """Close it, now or when the last user leaves. Idempotent."""
        self._retired = True
        self._close_if_unused()

    def abandon(self) -> None:
        """Close it in a forked process: its users do not exist here, and its flag is shared with the parent."""
        number, self.number = self.number, -1
        self._open.clear()
        close_quietly(number)

    def _close_if_unused(self) -> None:
        if not self._retired or self._users:
            return
        try:
            number = self._open.pop()
        except IndexError:
            return  # closed before, or by another thread now
        self.number = -1
        if self._switched:
            os.set_blocking(number, True)
        close_quietly(number)
        self.bell.release()
        self.gone.set()

    def wait(self, milliseconds: Optional[float] = None) -> bool:
        """Wait until something can be done with it or the bell rings; False when the time is over.

        Args:
            milliseconds: How long; None waits for ever.
        """
        return self._poller is None or bool(self._poller.poll(milliseconds))


class Source(Descriptor):
    """A descriptor to read from."""

    __slots__ = ("_size", "_ends_with_process")

    def __init__(self, number: int, bell: Bell, *, nonblocking: bool = False) -> None:
        super().__init__(number, bell, getattr(select, "POLLIN", 0), nonblocking=nonblocking)
        self._size = _READ_BYTES
        self._ends_with_process = False

    def end_with(self, exit_number: int) -> None:
        """Take the end of a process for the end of the stream, when nothing is left to read; for non-blocking ones.

        Args:
            exit_number: A descriptor that becomes readable when the process has ended.
        """
        if self._poller is not None:
            self._poller.register(exit_number, select.POLLIN)
            self._ends_with_process = True

    def read(self, before_wait: Callable[[], None] = nothing) -> Optional[bytes]:
        """Wait for bytes and return them; empty at the end of the stream, None when it broke or the bell rang.

        Args:
            before_wait: Called each time before waiting, as the last thing.
        """
        if not self.enter():
            return None
        try:
            while True:
                before_wait()
                self.wait()
                if self.bell.rung:
                    return None
                try:
                    chunk = os.read(self.number, self._size)
                except BlockingIOError:
                    if self._ends_with_process:
                        return b""  # nothing to read: what woke us was the end of the process
                    continue
                # A buffer of the full size is made for every read, so it is large only while that is of use.
                self._size = _READ_BYTES if len(chunk) < self._size else min(self._size * 4, _MOST_READ_BYTES)
                return chunk
        except OSError:
            return None
        finally:
            self.leave()


class Sink(Descriptor):
    """A descriptor to write to. ``taken`` is how many bytes the system has taken so far."""

    __slots__ = ("taken", "_blocks", "_piece")

    def __init__(self, number: int, bell: Bell, *, nonblocking: bool) -> None:
        super().__init__(number, bell, getattr(select, "POLLOUT", 0), nonblocking=nonblocking)
        self.taken = 0
        self._blocks = not nonblocking
        # So much a blocking pipe takes at once when it has room.
        self._piece = sys.maxsize if nonblocking else getattr(select, "PIPE_BUF", _READ_BYTES)

    def write(self, data: bytes, seconds: float, counts: list[int]) -> None:
        """Write, waiting for `seconds` at most while there is no room; arguments as `Pipe.send_counted`.

        Raises:
            OSError: The peer is gone, the bell rang or the descriptor is retired.
        """
        user = object()
        try:
            if not self.enter(user):
                raise BrokenPipeError("it is closed")
            self._write(data, seconds, counts)
            self.leave(user)
        except BaseException:
            self.leave(user)
            raise

    def _write(self, data: bytes, seconds: float, counts: list[int]) -> None:
        done = 0
        if not self._blocks and not self.bell.rung:
            done = self._take(data, counts)  # nearly always all of it is taken at once
            if done == len(data) or not seconds:
                return
        self._write_on(memoryview(data)[done:], time.monotonic() + min(seconds, LONGEST_WAIT), counts)

    def _write_on(self, data: memoryview, until: float, counts: list[int]) -> None:
        done = 0
        while done < len(data):
            if self._blocks and not self._has_room(until):
                return
            if self.bell.rung:
                raise BrokenPipeError("it is closed")
            taken = self._take(data[done : done + self._piece], counts)
            if not taken and not self._has_room(until):
                return
            done += taken

    def _take(self, data: Union[bytes, memoryview], counts: list[int]) -> int:
        """Write what goes at once, 0 bytes or more; also into `counts`."""
        try:
            # One step for signal handlers, which wait while C code runs: the bytes are written and counted, or neither.
            counts.extend(map(os.write, (self.number,), (data,)))
        except BlockingIOError:
            return 0
        self.taken += counts[-1]
        return counts[-1]

    def is_heard(self) -> bool:
        """Whether anybody could still read what is written; True where the system cannot tell."""
        if self._poller is None or not self.enter():
            return self._poller is None
        try:
            poller = select.poll()  # of its own: another thread may be waiting with the other one at this moment
            poller.register(self.number, 0)  # what says that nobody is there comes unasked
            return not poller.poll(0)
        finally:
            self.leave()

    def _has_room(self, until: float) -> bool:
        """Wait for room, or for the bell; False when the time is over."""
        left = until - time.monotonic()
        return self.wait(left * 1000 + 1 if left > 0 else 0)


class DescriptorPipe(Pipe):
    """A pipe made of two descriptors. Who opened them, and what else there is to close, is a subclass's business.

    Args:
        name: Shown in logs and errors.
        source: Where the peer's lines come from.
        sink: Where ours go to. Both have the same bell.
        max_message_bytes: Bytes of one line; None sets no limit.
    """

    __slots__ = ("_pid", "_source", "_sink", "_bell", "_splitter", "_ended")

    def __init__(self, name: str, source: Source, sink: Sink, max_message_bytes: Optional[int]) -> None:
        self.name = name
        self._pid = os.getpid()
        self._source = source
        self._sink = sink
        self._bell = source.bell
        self._splitter = LineSplitter(max_message_bytes)
        self._ended = False

    def is_heard(self) -> bool:
        """As `Pipe.is_heard`."""
        return os.getpid() == self._pid and self._sink.is_heard()

    def receive(self, before_wait: Callable[[], None] = nothing) -> list[Frame]:
        """As `Pipe.receive`; empty at once in a forked process."""
        if os.getpid() != self._pid:
            return []
        while not self._ended:
            chunk = self._source.read(before_wait)
            if chunk:
                frames = self._splitter.feed(chunk)
            else:
                # A terminal's end of input does not last, ours does.
                self._ended = True
                frames = [] if chunk is None else self._splitter.rest()
            if frames:
                return frames
        return []

    def send(self, data: bytes, seconds: float) -> int:
        """As `Pipe.send`."""
        counts: list[int] = []
        self.send_counted(data, seconds, counts)
        return sum(counts)

    def send_counted(self, data: bytes, seconds: float, counts: list[int]) -> None:
        """As `Pipe.send_counted`."""
        if os.getpid() != self._pid:
            raise ConnectionLost(f"{self.name}: the connection belongs to the process that made it, not to its fork")
        try:
            self._sink.write(data, seconds, counts)
        except OSError as error:
            raise self.lost(f"nothing can be sent: {error.strerror or error}") from error

    def finish(self) -> None:
        """As `Pipe.finish`; bytes that another thread is handing over at this moment are still handed over."""
        if os.getpid() == self._pid:
            self._sink.retire()

    def close(self) -> None:
        """As `Pipe.close`."""
        if os.getpid() != self._pid:
            self._abandon()
            return
        self._bell.ring()
        self._let_go()

    def _let_go(self) -> None:
        """Close both descriptors, after whoever is using them has left."""
        for end in (self._sink, self._source):
            end.retire()
            end.gone.wait(LEAVING_SECONDS)

    def _abandon(self) -> None:
        """Close the descriptors in a forked process."""
        for end in (self._sink, self._source, self._bell):
            end.abandon()


def close_quietly(number: int) -> None:
    """Close a descriptor that may be closed already; -1 stands for none."""
    if number >= 0:
        try:
            os.close(number)
        except OSError:
            pass


def enlarge(number: int) -> None:
    """Ask for a pipe that holds `PIPE_BYTES`; what is no pipe, or may not grow, stays as it is."""
    if fcntl is not None and sys.platform == "linux":
        try:
            fcntl.fcntl(number, _SET_PIPE_SIZE, PIPE_BYTES)
        except OSError:
            pass
