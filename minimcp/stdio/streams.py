"""`StandardStreams`: this process's stdin and stdout as a transport, for a server.

While the transport is open, descriptor 1 and `sys.stdout` are stderr, and descriptor 0 is empty. So
`print()`, a C library or a child process cannot write between the messages or read one.

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
    """This process's stdin and stdout as a transport to the client. Use `take` to create it.

    A process may have only one of these at a time.
    """

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
        _flush(self._stdout)  # text that was printed before also goes to stderr
        if self._stdout is not None and self._stderr is not None:
            sys.stdout = self._stderr

    @classmethod
    def take(cls, limit: Optional[int]) -> StandardStreams:
        """Return a transport over stdin and stdout, and replace both for other code.

        They may be pipes, sockets, files, terminals or closed. Call this before anything was read
        from `sys.stdin`, because its buffer is lost. `sys.stdout` is not replaced if it does not
        write to descriptor 1, as in a notebook or in a test.

        Args:
            limit: Maximum length of a line from the client, in bytes; None means no limit.

        Raises:
            OSError: The process has too many open descriptors.
        """
        found = tuple([_is_open(number) for number in (0, 1, 2)])
        own: list[int] = []
        try:
            # Open the closed ones first. Otherwise the system would reuse their numbers below.
            for number in (0, 1, 2):
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
        """Restore descriptors 0, 1 and 2. Part of `close`. Idempotent.

        Args:
            stdout: Whether to restore `sys.stdout`, too.
        """
        with self._restoring:
            if stdout and self._stdout is not None and sys.stdout is self._stderr:
                sys.stdout = self._stdout
            if self._restored:
                return
            self._restored = True
            # Buffered text must go to stderr, like all other text that was printed.
            _flush(self._stdout)
            _flush(sys.__stdout__)
            _flush_c()
            for number, own in ((0, self._in.number), (1, self._out.number)):
                if not self._found[number]:
                    close_quietly(number)
                elif own >= 0:
                    os.dup2(own, number)
            if not self._found[2]:
                close_quietly(2)

    def close(self) -> None:
        """Restore all except `sys.stdout`, because a handler may still print. Then close."""
        self.restore(stdout=False)
        super().close()

    def close_in_fork(self) -> None:
        """Close without restoring anything, because a fork must not print to the client."""
        self._restoring = threading.RLock()
        self._restored = True
        super().close_in_fork()


def _is_open(number: int) -> bool:
    with suppress(OSError):
        os.fstat(number)
        return True
    return False


def _private(number: int) -> int:
    """Return a duplicate that is not 0, 1 or 2, and that child processes do not inherit."""
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
    """Return whether a descriptor must not be made non-blocking, because others share the file.

    A terminal is shared with other processes. A pipe may be stderr, too.
    """
    status = os.fstat(number)
    blocks_long = stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)
    return not blocks_long or (_is_open(2) and os.path.samestat(status, os.fstat(2)))


def _number_of(stream: Any) -> int:
    """Return the descriptor of a text stream, or -1."""
    with suppress(AttributeError, OSError, ValueError, TypeError):
        return int(stream.fileno())
    return -1


def _flush(stream: Any) -> None:
    with suppress(AttributeError, OSError, ValueError):  # the stream may be None or closed
        stream.flush()


def _flush_c() -> None:
    """Flush the buffer of C code, which otherwise would reach the client when the process exits."""
    # Not all systems have ctypes, or a C library with this name.
    with suppress(ImportError, OSError, AttributeError, TypeError, ValueError):
        import ctypes

        library = ctypes.CDLL(None)
        name = "__stdoutp" if sys.platform == "darwin" else "stdout"
        library.fflush(ctypes.c_void_p.in_dll(library, name))
