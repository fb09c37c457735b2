"""The server's end of stdio: this process's own stdin and stdout, taken aside so that nothing else
uses them.

While they are taken, descriptor 1 and `sys.stdout` are stderr and descriptor 0 is empty, so that
neither `print()` nor a C library nor a child process can write between the messages or read one.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio)
"""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import suppress
from typing import Any, Optional, Sequence

from ..engine.transport import StreamTransport, close_quietly, enlarge

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]


class StandardStreams(StreamTransport):
    """This process's stdin and stdout as a transport to the client that started it. Made by `take`,
    once at a time."""

    def __init__(
        self, reading: int, writing: int, limit: Optional[int], found: Sequence[bool]
    ) -> None:
        super().__init__("stdio", reading, writing, limit, shared=is_shared(writing))
        self._found = found
        self._stdout: Any = sys.stdout if _number_of(sys.stdout) == 1 else None
        self._stderr: Any = sys.stderr
        self._restoring = threading.RLock()
        self._restored = False
        _point_at_nothing(0)
        os.dup2(2, 1)
        _flush(self._stdout)  # what was printed before and not written yet goes to stderr as well
        if self._stdout is not None and self._stderr is not None:
            sys.stdout = self._stderr

    @classmethod
    def take(cls, limit: Optional[int]) -> StandardStreams:
        """Take stdin and stdout aside, whatever they are: pipes, sockets, files, terminals,
        nothing.

        Call it before anything was read from `sys.stdin`: what that has read ahead is not seen
        here. A `sys.stdout` that does not write to descriptor 1 (None, a notebook's, a test's) is
        left alone.

        Args:
            limit: Bytes of one line from the client; None sets no limit.

        Raises:
            OSError: No descriptor is left.
        """
        found = tuple([_is_open(number) for number in (0, 1, 2)])
        own: list[int] = []
        try:
            for number in (
                0,
                1,
                2,
            ):  # filled first: the next descriptor that is opened would be one of them
                if not found[number]:
                    _point_at_nothing(number)
            own += [_private(0)]
            own += [_private(1)]
            for number in own:
                enlarge(number)
            return cls(own[0], own[1], limit, found)
        except BaseException:
            for number in own + [number for number in (0, 1, 2) if not found[number]]:
                close_quietly(number)
            raise

    def restore(self, *, stdout: bool = True) -> None:
        """Make descriptors 0, 1 and 2 what they were. Part of `close`. Idempotent.

        Args:
            stdout: Whether `sys.stdout` becomes what it was, too.
        """
        with self._restoring:
            if stdout and self._stdout is not None and sys.stdout is self._stderr:
                sys.stdout = self._stdout
            if self._restored:
                return
            self._restored = True
            for stream in (
                self._stdout,
                sys.__stdout__,
            ):  # what is still buffered belongs on stderr like the rest
                _flush(stream)
            _flush_c()
            for number, own in ((0, self._in.number), (1, self._out.number)):
                if not self._found[number]:
                    close_quietly(number)
                elif own >= 0:
                    os.dup2(own, number)
            if not self._found[2]:
                close_quietly(2)

    def close(self) -> None:
        """As `Transport.close`. Restores all but `sys.stdout`: a handler may still print."""
        self.restore(stdout=False)
        super().close()

    def close_in_fork(self) -> None:
        """As `Transport.close_in_fork`: nothing is put back, or what is printed there would go to
        the client."""
        self._restoring = threading.RLock()
        self._restored = True
        super().close_in_fork()


def _is_open(number: int) -> bool:
    with suppress(OSError):
        os.fstat(number)
        return True
    return False


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


def is_shared(number: int) -> bool:
    """Whether it must not be made non-blocking, because others may share that flag: stderr, for
    one."""
    status = os.fstat(number)
    blocks_long = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
    return not blocks_long or (_is_open(2) and os.path.samestat(status, os.fstat(2)))


def _number_of(stream: Any) -> int:
    """The descriptor that a text stream writes to, -1 for none."""
    with suppress(AttributeError, OSError, ValueError, TypeError):
        return int(stream.fileno())
    return -1


def _flush(stream: Any) -> None:
    with suppress(AttributeError, OSError, ValueError):  # there may be none
        stream.flush()


def _flush_c() -> None:
    """Write out what C code has printed: its buffer is not Python's, and would reach the client at
    the exit."""
    with suppress(
        ImportError, OSError, AttributeError, TypeError, ValueError
    ):  # no ctypes, or another C library
        import ctypes

        library = ctypes.CDLL(None)
        library.fflush(
            ctypes.c_void_p.in_dll(library, "__stdoutp" if sys.platform == "darwin" else "stdout")
        )
