"""The server's end of stdio: this process's own stdin and stdout, taken aside so that nothing else uses them.

While they are taken, descriptor 1 and `sys.stdout` are stderr and descriptor 0 is empty, so that neither
`print()` nor a C library nor a child process can write between the messages or read one.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio)
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from typing import Any, Optional, Sequence

from ..engine.descriptors import LEAVING_SECONDS, Bell, DescriptorPipe, Sink, Source, close_quietly, enlarge
from ..engine.lines import MAX_MESSAGE_BYTES

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


class StandardStreams(DescriptorPipe):
    """This process's stdin and stdout as a pipe to the client that started it. Made by `take`, once at a time.

    In a forked process `close` puts nothing back: what is printed there would go to the client.
    """

    __slots__ = ("_found", "_stdout", "_stderr", "_restoring", "_restored")

    def __init__(self, source: Source, sink: Sink, max_message_bytes: Optional[int], found: Sequence[bool]) -> None:
        super().__init__("stdio", source, sink, max_message_bytes)
        self._found = found
        self._stdout: Any = sys.stdout if _number_of(sys.stdout) == 1 else None
        self._stderr: Any = sys.stderr
        self._restoring = threading.RLock()
        self._restored = False
        self._redirect()

    @classmethod
    def take(cls, max_message_bytes: Optional[int] = MAX_MESSAGE_BYTES) -> StandardStreams:
        """Take stdin and stdout aside, whatever they are: pipes, sockets, files, terminals, nothing.

        Call it before anything was read from `sys.stdin`: what that has read ahead is not seen here. A
        `sys.stdout` that does not write to descriptor 1 (None, a notebook's, a test's) is left alone.

        Args:
            max_message_bytes: Bytes of one line from the client; None sets no limit.

        Raises:
            OSError: No descriptor is left.
        """
        found = tuple([_is_open(number) for number in (0, 1, 2)])
        own: list[int] = []
        try:
            # Filled first: the next descriptor that is opened would be one of them.
            for number in (0, 1, 2):
                if not found[number]:
                    _point_at_nothing(number)
            own += [_private(0)]
            own += [_private(1)]
            bell = Bell()
        except BaseException:
            for number in own + [number for number in (0, 1, 2) if not found[number]]:
                close_quietly(number)
            raise
        for number in own:
            enlarge(number)
        return cls(Source(own[0], bell), Sink(own[1], bell, nonblocking=_may_switch(own[1])), max_message_bytes, found)

    def _redirect(self) -> None:
        _point_at_nothing(0)
        os.dup2(2, 1)
        # What was printed before and not written yet goes to stderr as well.
        _flush(self._stdout)
        if self._stdout is not None and self._stderr is not None:
            sys.stdout = self._stderr

    def restore(self) -> None:
        """Make descriptors 0, 1, 2 and `sys.stdout` what they were. Part of `close`. Idempotent.

        A stdout that `finish` has closed stays closed to the client: descriptor 1 remains stderr.
        """
        with self._restoring:
            if self._restored or os.getpid() != self._pid:
                return
            self._restored = True
            # What is still buffered belongs on stderr like the rest.
            for stream in (self._stdout, sys.__stdout__):
                _flush(stream)
            _flush_c()
            if self._stdout is not None and sys.stdout is self._stderr:
                sys.stdout = self._stdout
            for number, end in ((0, self._source), (1, self._sink)):
                if not self._found[number]:
                    close_quietly(number)
                elif end.enter():
                    os.dup2(end.number, number)
                    end.leave()
            if not self._found[2]:
                close_quietly(2)

    def finish(self) -> None:
        """As `Pipe.finish`."""
        twin = self._twin_of_socket()
        super().finish()
        if twin is not None:
            # Closing it tells the client nothing while stdin is the same socket.
            self._sink.gone.wait(LEAVING_SECONDS)
            _shut(twin)

    def _twin_of_socket(self) -> Optional[int]:
        if os.getpid() != self._pid or not self._sink.enter():
            return None
        try:
            number = self._sink.number
            return os.dup(number) if stat.S_ISSOCK(os.fstat(number).st_mode) else None
        finally:
            self._sink.leave()

    def close(self) -> None:
        """As `Pipe.close`, and `restore`."""
        if os.getpid() != self._pid:
            self._abandon()
            return
        self._bell.ring()
        self.restore()
        self._let_go()

    def __repr__(self) -> str:
        return f"<StandardStreams {'closed' if self._bell.rung else 'open'}>"


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _private(number: int) -> int:
    """A duplicate that is no standard stream and that no child process inherits."""
    if fcntl is None:  # pragma: no cover - Windows
        return os.dup(number)
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)


def _point_at_nothing(number: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    if nothing == number:
        os.set_inheritable(number, True)
    else:
        os.dup2(nothing, number)
        os.close(nothing)


def _may_switch(number: int) -> bool:
    """Whether it can block for long and may be made non-blocking: others share that flag, stderr for one."""
    status = os.fstat(number)
    kind_fits = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
    return hasattr(select, "poll") and kind_fits and not (_is_open(2) and os.path.samestat(status, os.fstat(2)))


def _number_of(stream: Any) -> int:
    """The descriptor that a text stream writes to, -1 for none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError, TypeError):
        return -1


def _flush(stream: Any) -> None:
    if stream is not None:
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def _flush_c() -> None:
    """Write out what C code has printed: its buffer is not Python's, and would reach the client at the exit."""
    try:
        import ctypes

        library = ctypes.CDLL(None)
        stdout = ctypes.c_void_p.in_dll(library, "__stdoutp" if sys.platform == "darwin" else "stdout")
        library.fflush(stdout)
    except (ImportError, OSError, AttributeError, TypeError, ValueError):
        pass  # No ctypes, or another C library.


def _shut(number: int) -> None:
    """Send the end of the stream on a socket, and close this descriptor of it."""
    import socket

    with socket.socket(fileno=number) as twin:
        try:
            twin.shutdown(socket.SHUT_WR)
        except OSError:
            pass
