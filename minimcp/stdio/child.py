"""A server as a child process: started without a shell, spoken to over its stdin and stdout, always reaped.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio) and, for how it is ended,
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle (shutdown). Windows: written for,
not run on.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Mapping, NoReturn, Optional, Sequence, Union

from ..engine.deadline import Deadline
from ..engine.descriptors import Bell, DescriptorPipe, Sink, Source, close_quietly, enlarge
from ..engine.lines import MAX_MESSAGE_BYTES
from ..errors import ConnectionFailed, ConnectionLost
from ..schema.remedies import refuse_options
from .process import Process
from .stderr import Stderr, consumer_of

try:
    import fcntl
    import termios
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from contextlib import ExitStack

SHOWN_LINES = 10
"""Lines of stderr that the message of an error shows."""

_WINDOWS = os.name == "nt"


class StdioServer:
    """How to start a server as a child process.

    Args:
        command: The program and its arguments; never given to a shell.
        env: Environment variables laid over this process's own. None adds none.
        cwd: Working directory of the server. None means this process's own.
        inherit_env: False starts the server with `env` alone.

    Raises:
        TypeError: The command is a str (split it: `shlex.split`) or holds something else than str and paths,
            or `env` holds something else than str.
        ValueError: The command is empty.
    """

    __slots__ = ("command", "env", "cwd", "inherit_env")

    def __init__(
        self,
        command: Sequence[Union[str, os.PathLike[str]]],
        *,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[Union[str, os.PathLike[str]]] = None,
        inherit_env: bool = True,
        **misplaced: NoReturn,
    ) -> None:
        if "stderr" in misplaced:
            raise TypeError("StdioServer has no option stderr=: say connect(..., stderr=...)")
        if misplaced:
            refuse_options("StdioServer(...)", misplaced, StdioServer.__init__)
        if not isinstance(command, (list, tuple)):
            raise TypeError(f"command must be a list such as ['python', 'server.py'], not {type(command).__name__}")
        if not command:
            raise ValueError("command is empty: it must name a program")
        self.command: tuple[str, ...] = tuple([_text("command", part) for part in command])
        self.env: dict[str, str] = {_text("env", k): _text("env", v) for k, v in dict(env or {}).items()}
        self.cwd: Optional[str] = None if cwd is None else _text("cwd", cwd)
        self.inherit_env = bool(inherit_env)

    def environment(self) -> dict[str, str]:
        """The environment that the server gets."""
        return {**os.environ, **self.env} if self.inherit_env else dict(self.env)

    def __repr__(self) -> str:
        # Values of environment variables are often secrets.
        return f"StdioServer({list(self.command)!r}, env={sorted(self.env)!r}, cwd={self.cwd!r})"


def _text(what: str, value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{what} must hold str, not {type(text).__name__}")
    return text


def _clean(line: str, limit: int) -> str:
    """Text from outside for one line of a message: what a terminal would obey is shown as an escape."""
    shown = "".join([c if c.isprintable() else repr(c)[1:-1] for c in line.rstrip().replace("\t", "    ")])
    return shown if len(shown) <= limit else shown[:limit] + "..."


def _shown(command: Sequence[str]) -> str:
    """A command as a person would type it, on one line."""
    return _clean(" ".join([part if part and " " not in part else repr(part) for part in command]), 200)


class ChildPipe(DescriptorPipe):
    """The client's end of a connection to a server that it started itself. Made by `start`.

    ``grace`` may be set: the seconds that `close` gives the server to exit, and again after SIGTERM.
    """

    __slots__ = ("grace", "_process", "_stderr", "_closing", "_closed", "_settling", "_was_read")

    CLOSE_SECONDS = 2.0
    """The ``grace`` that a new pipe has."""

    SETTLE_SECONDS = 0.5
    """How long `lost` waits for the exit status and the last of stderr."""

    STDERR_SECONDS = 0.1
    """How long `close` waits for the end of stderr when the server has gone: something else may hold it."""

    CONSUMER_SECONDS = 0.5
    """How long `close` waits for whoever gets stderr to take the last of it."""

    def __init__(
        self,
        name: str,
        source: Source,
        sink: Sink,
        max_message_bytes: Optional[int],
        process: Process,
        stderr: Stderr,
    ) -> None:
        super().__init__(name, source, sink, max_message_bytes)
        self.grace = self.CLOSE_SECONDS
        self._process = process
        self._stderr = stderr
        self._closing = threading.RLock()
        self._closed = False
        self._settling: Optional[Deadline] = None
        self._was_read: Optional[bool] = None

    @classmethod
    def start(
        cls,
        server: StdioServer,
        *,
        stderr: Any = None,
        max_message_bytes: Optional[int] = MAX_MESSAGE_BYTES,
        grace: Optional[float] = None,
        shown: str = "",
    ) -> ChildPipe:
        """Start the server.

        Args:
            server: What to start.
            stderr: Where its stderr goes besides the kept tail: None to this process's own, a text or binary
                file, a logger, or a callable that gets each line.
            max_message_bytes: Bytes of one line from the server; None sets no limit.
            grace: The pipe's ``grace``; None takes `CLOSE_SECONDS`.
            shown: What an earlier start has written to stderr: as long as this one says the same nobody gets it again.

        Raises:
            ConnectionFailed: It cannot be started; nothing is left behind.
            TypeError: `stderr` is none of these.
        """
        name = _shown(server.command)
        consume = consumer_of(stderr)
        if shown:
            consume = _beyond(shown.encode(), consume)
        try:
            pipe = cls._start(name, server, consume, max_message_bytes)
        except (OSError, ValueError, RuntimeError) as error:
            raise ConnectionFailed(f"cannot start {name}: {_why(error, server)}") from error
        if grace is not None:
            pipe.grace = grace
        return pipe

    @classmethod
    def _start(
        cls, name: str, server: StdioServer, consume: Callable[[bytes], None], max_message_bytes: Optional[int]
    ) -> ChildPipe:
        from contextlib import ExitStack  # Loaded by `subprocess` in any case, too slow for the first import.

        with ExitStack() as undo, ExitStack() as theirs:
            bell = Bell()
            undo.callback(bell.ring)
            stderr_bell = Bell()
            undo.callback(stderr_bell.ring)
            stdin, sink = _to_child(bell, undo, theirs)
            stdout, source = _from_child(bell, undo, theirs)
            stderr, stderr_source = _from_child(stderr_bell, undo, theirs)
            process = Process(server.command, server.environment(), server.cwd, (stdin, stdout, stderr), bell)
            undo.callback(process.end)
            process.tell_end_to(source)
            pipe = cls(name, source, sink, max_message_bytes, process, Stderr(name, stderr_source, consume))
            undo.pop_all()
            return pipe

    @property
    def pid(self) -> int:
        """Of the server's process, which leads a process group of its own."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the server wrote to stderr."""
        return self._stderr.tail

    def close(self) -> None:
        """As `Pipe.close`: end of input, the grace, SIGTERM to the group, the grace again, SIGKILL; always reaped.

        It waits for the server's process, not for its pipes, which a process started by it may hold for ever.
        """
        if os.getpid() != self._pid:
            self._abandon()
            return
        self._bell.ring()
        # Whoever holds this is in `close` as well, where every wait is bounded. When its wait is interrupted
        # the next call finishes the work.
        with self._closing:
            if not self._closed:
                self._end_process()
                self._stderr.wait(self.STDERR_SECONDS)
                self._stderr.close(self.CONSUMER_SECONDS)
                self._let_go()
                self._process.release()
                self._closed = True

    def _end_process(self) -> None:
        self._sink.retire()
        if self._process.wait(self.grace, self._source):
            return
        self._process.terminate()
        limit = Deadline(self.grace)
        if self._process.wait(limit.wait(), self._source):
            # A wrapper (npx, sh) may be gone while the server it started is still ending; its stderr tells.
            self._stderr.wait(limit.wait())
        self._process.end()

    def _abandon(self) -> None:
        super()._abandon()
        self._stderr.abandon()
        self._process.abandon()

    def was_read(self) -> bool:
        """As `Pipe.was_read`; `lost` finds it out, because when the pipe is closed nobody can."""
        return self._was_read is not False

    def lost(self, reason: str) -> ConnectionLost:
        """As `Pipe.lost`, with what was run, how it ended and the last lines of its stderr.

        Waits up to half a second, once, for these to arrive.
        """
        if os.getpid() != self._pid:
            return super().lost(reason)
        code = self._settle()
        if self._was_read is None:
            self._was_read = self._sink.taken > _unread(self._sink)
        tail = self._stderr.tail
        return ConnectionLost(
            f"{self.name}: {reason}; the server {_ending(code)}{_last_lines(tail)}",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stderr_tail=tail,
        )

    def _settle(self) -> Optional[int]:
        """The exit status, after a short wait for it and for the end of stderr."""
        if self._settling is None:
            self._settling = Deadline(self.SETTLE_SECONDS)
        if not self._closed and self._process.wait(self._settling.wait()):
            self._stderr.wait(self._settling.wait())
        return self._process.returncode

    def __repr__(self) -> str:
        return f"<ChildPipe {self.name!r} pid {self.pid} {_ending(self._process.returncode)}>"


def _to_child(bell: Bell, undo: ExitStack, theirs: ExitStack) -> tuple[int, Sink]:
    reading, writing = os.pipe()
    theirs.callback(close_quietly, reading)
    enlarge(writing)
    sink = Sink(writing, bell, nonblocking=not _WINDOWS)
    undo.callback(sink.retire)
    return reading, sink


def _from_child(bell: Bell, undo: ExitStack, theirs: ExitStack) -> tuple[int, Source]:
    reading, writing = os.pipe()
    theirs.callback(close_quietly, writing)
    enlarge(reading)
    source = Source(reading, bell, nonblocking=not _WINDOWS)
    undo.callback(source.retire)
    return writing, source


def _unread(sink: Sink) -> int:
    """Bytes in a pipe that nobody has taken out; 0 where the system does not tell (macOS, Windows)."""
    if fcntl is None or not sink.enter():
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(sink.number, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return 0
    finally:
        sink.leave()


def _beyond(shown: bytes, consume: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """A consumer of stderr that hands on what comes from the first line on that is not as in an earlier text."""
    held, same = b"", True

    def take(piece: bytes) -> None:
        nonlocal held, same
        held += piece
        if same and piece and shown.startswith(held):
            return
        if same and shown != held:
            common = len(os.path.commonprefix([held, shown]))
            held = held[held.rfind(b"\n", 0, common) + 1 :]
        elif same:
            held = b""
        same = False
        rest, held = held, b""
        if rest:
            consume(rest)
        if not piece:
            consume(b"")

    return take


def _why(error: Exception, server: StdioServer) -> str:
    """What went wrong at the start, in words."""
    if server.cwd is not None and isinstance(error, OSError) and not os.path.isdir(server.cwd):
        return f"its working directory {server.cwd!r} is no directory"
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    if isinstance(error, PermissionError):
        return "it is not executable"
    return getattr(error, "strerror", None) or str(error)


def _ending(code: Optional[int]) -> str:
    if code is None:
        return "is still running"
    return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"


def _last_lines(tail: str) -> str:
    lines = tail.split("\n")[-SHOWN_LINES - 1 :]
    shown = [_clean(line, 300) for line in lines if line.strip()][-SHOWN_LINES:]
    return "\nits stderr ended with:\n" + "\n".join(["    " + line for line in shown]) if shown else ""
