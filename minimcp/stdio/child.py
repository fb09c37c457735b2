"""A server as a child process, which communicates over its stdin and stdout.

The process is started without a shell and is always reaped. The code for Windows was never run.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio)
https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle (shutdown)
"""

from __future__ import annotations

import codecs
import json
import os
import queue
import re
import select
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Mapping, NoReturn, Optional, Sequence, Union

from ..engine.timer import Deadline
from ..engine.transport import StreamTransport, close_quietly, enlarge, pipes
from ..errors import ConnectionFailed, ConnectionLost
from ..log import exit_gate, logger
from ..schema.mismatch import keywords_shown, refuse_options
from ..text import printable

try:
    import fcntl
    import termios
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import subprocess

log = logger("minimcp.stdio")

# How long a server may take to exit after the end of its input, and again after SIGTERM.
CLOSE_SECONDS = 2.0

# How long `ChildTransport.loss` waits for the exit code and the end of stderr.
SETTLE_SECONDS = 0.5

# How long `close` waits for a killed process, which may hang in the kernel.
KILLED_SECONDS = 2.0

# How long `close` waits for the end of stderr, which another process may hold open.
STDERR_SECONDS = 0.1

# How long `close` waits for the consumer of stderr.
CONSUMER_SECONDS = 0.5

# How long `close` waits until stderr is read to its end. On a busy machine, that may take a while.
UNREAD_SECONDS = 2.0

# Maximum number of stderr lines in an error message.
SHOWN_LINES = 10

# Number of lines at the end of stderr from which these are chosen.
MAX_LINES = 200

# Matches a traceback line of this library, which an error message omits.
_INSIDE = re.compile(
    r'  File ".*[\\/](minimcp[\\/](client|engine|schema|server|types)[\\/]\w+|contextlib)\.py",'
    " line "
)

# The heading of the last lines of stderr in a message.
TAIL = "\nits stderr ended with:\n"

# Size of the end of stderr that is kept.
TAIL_BYTES = 64 * 1024

# Maximum number of queued pieces of stderr, of at most 64 KiB each.
QUEUED_PIECES = 16

# How long the child waits for a slow consumer of its stderr. After that, text is dropped.
PATIENCE_SECONDS = 1.0

# Flags of a process on Windows: Ctrl-C in the console does not reach it, and it gets no window. On
# other systems, `subprocess` does not define them.
WINDOWS_FLAGS = ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")

_LINE_BYTES = 64 * 1024
_WINDOWS = os.name == "nt"


class StdioServer:
    """A server that `connect` starts as a child process.

    Args:
        command: The program and its arguments. They are not passed to a shell.
        env: Environment variables that are added to those of this process; None means none.
        cwd: The working directory of the server; None means that of this process.
        inherit_env: Whether the server gets the environment variables of this process. If False, it
            gets only `env`.

    Raises:
        TypeError: The command is a str (use `shlex.split`), or an item of the command or of `env`
            is not a str.
        ValueError: The command is empty.

    https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
    """

    @keywords_shown
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
            raise TypeError("StdioServer has no option stderr=: write connect(..., stderr=...)")
        if misplaced:
            refuse_options("StdioServer(...)", misplaced, StdioServer.__init__)
        if not isinstance(command, (list, tuple)):
            given = type(command).__name__
            raise TypeError(f"command must be a list such as ['python', 'server.py'], not {given}")
        if not command:
            raise ValueError("command is empty: it must name a program")
        self.command: tuple[str, ...] = tuple([_text("command", part) for part in command])
        self.env: dict[str, str] = {
            _text("env", k): _text("env", v) for k, v in dict(env or {}).items()
        }
        self.cwd: Optional[str] = None if cwd is None else _text("cwd", cwd)
        self.inherit_env = bool(inherit_env)

    def environment(self) -> dict[str, str]:
        """Return the environment variables of the server."""
        return {**os.environ, **self.env} if self.inherit_env else dict(self.env)

    def __repr__(self) -> str:
        # Values of environment variables are often secrets.
        return f"StdioServer({list(self.command)!r}, env={sorted(self.env)!r}, cwd={self.cwd!r})"


def this_python(instead: str) -> str:
    """Return the path of this Python interpreter, which can run a server.

    In a frozen program (PyInstaller, cx_Freeze), ``sys.executable`` is the program itself, which
    would start itself again and again.

    Args:
        instead: What to write instead, for the message of the error.

    Raises:
        ConnectionFailed: The program is frozen or embeds Python.
    """
    if not knows_python():
        is_frozen = bool(getattr(sys, "frozen", False))
        why = "is frozen: sys.executable is the program itself" if is_frozen else "embeds Python"
        raise ConnectionFailed(f"this program {why}, and no Python interpreter is known: {instead}")
    return sys.executable


def knows_python() -> bool:
    """Return whether ``sys.executable`` is a Python interpreter."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _text(what: str, value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{what} must contain only str, not {type(text).__name__}")
    return text


def _clean(line: str, limit: int) -> str:
    """Return text from a server as one printable line of at most `limit` characters."""
    shown = printable(line.rstrip().replace("\t", "    "))
    return shown if len(shown) <= limit else shown[:limit] + "..."


def _shown(command: Sequence[str]) -> str:
    """Return a command as a person would type it, on one line."""
    return _clean(
        " ".join([part if part and " " not in part else repr(part) for part in command]), 200
    )


def _poll_process(pid: int) -> None:
    """Wait for the end of a process with `select.poll`, if the system supports that.

    gevent replaces `select.poll`, but `os.waitid` would block all its greenlets.
    """
    try:
        number = os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):  # not Linux, or the process has too many open descriptors
        return
    try:
        poller = select.poll()
        poller.register(number, select.POLLIN)
        poller.poll()
    finally:
        os.close(number)


class ChildTransport(StreamTransport):
    """The client's end of a connection to a server that it starts as a child process.

    Args:
        server: The server to start.
        stderr: The destination of the server's stderr: None (this process's stderr), a text or
            binary file, a logger, or a function that receives each line.
        limit: Maximum length of a line from the server, in bytes; None means no limit.
        grace: How long `close` waits for the server to exit, and again after SIGTERM, in seconds.
            None means `CLOSE_SECONDS`.

    Attributes:
        advice: The end of the message when the connection is lost; empty for none.

    Raises:
        ConnectionFailed: The server cannot be started.
        TypeError: `stderr` has the wrong type.
    """

    advice = ""

    def __init__(
        self,
        server: StdioServer,
        *,
        stderr: Any = None,
        limit: Optional[int],
        grace: Optional[float] = None,
    ) -> None:
        name = _shown(server.command)
        consume = consumer_of(stderr)
        own: list[tuple[int, int]] = []
        try:
            # Before the start, because a process without pipes could not be used.
            own = pipes(5)
            self._process, (reading, writing, errors) = _started(server)
        except (OSError, ValueError) as error:
            close_quietly(*(number for pair in own for number in pair))
            raise ConnectionFailed(f"cannot start {name}: {_why(error, server)}") from error
        self.grace = CLOSE_SECONDS if grace is None else grace
        self._exited = threading.Event()
        self._reaping = threading.RLock()
        self._closing = threading.RLock()
        self._gone = False
        self._settling: Optional[Deadline] = None
        self._peer_has_read: Optional[bool] = None
        for number in (reading, writing, errors):
            enlarge(number)
        (ended, ending), *wakers = own
        super().__init__(name, reading, writing, limit, ended=ended, wakers=wakers[:2])
        self._stderr = _Stderr(name, errors, consume, wakers[2:])
        watching = threading.Thread(
            target=self._watch, args=(ending,), name=f"minimcp-{name}-exit", daemon=True
        )
        try:
            watching.start()
            self._stderr.start()
        except RuntimeError as error:  # no thread can be started, as while the interpreter exits
            self._process.kill()
            self._process.wait()
            if watching.ident is None:
                self._watch(ending)
            self.close()
            raise ConnectionFailed(f"cannot start {name}: {error}") from error

    def _watch(self, ending: int) -> None:
        """Wait for the end of the process, and wake the threads that wait for it."""
        _poll_process(self.pid)
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # the program, or gevent, has reaped it
                # Do not reap it yet, because `close` needs its number for the process group.
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:
            self._process.wait()
        close_quietly(ending)
        self._exited.set()

    @property
    def pid(self) -> int:
        """The id of the server's process and of its process group."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the server wrote to stderr."""
        return self._stderr.tail.decode("utf-8", "replace")

    @property
    def returncode(self) -> Optional[int]:
        """The exit code of the process, negative for a signal, or None while it runs. Reaps it."""
        # If two threads poll at the same time, `subprocess` returns None to one of them.
        with self._reaping:
            return self._process.poll()

    def close(self) -> None:
        """End the server's process and release all resources; see `Transport.close`.

        The server gets the end of its input. If it does not exit within the grace period, its
        process group gets SIGTERM, and after another grace period SIGKILL. If it exits in time, the
        processes that it has left in its group get SIGTERM, unless `returncode` has reaped the
        server before: then another group may have its number.

        This does not wait for the end of the server's pipes, because a process that the server
        started may hold them open forever.
        """
        self.close_writing()
        with self._closing:
            if self._gone:
                return
            if not self._exited.wait(self.grace):
                self._end_group()
            self._stderr.ended.wait(STDERR_SECONDS)
            with self._reaping:
                # The number belongs to its group until the process is reaped.
                if self._process.returncode is None:
                    self._signal("SIGTERM")
            self._stderr.finish(CONSUMER_SECONDS)
            super().close()
            self._gone = True
            log.debug("%s %s", self.name, _ending(self.returncode))

    def _end_group(self) -> None:
        self._signal("SIGTERM")
        limit = Deadline(self.grace)
        if self._exited.wait(limit.to_wait()):
            # A wrapper (npx, sh) may exit before the server that it started.
            self._stderr.ended.wait(limit.to_wait())
        self._signal("SIGKILL")
        if not self._exited.wait(KILLED_SECONDS):
            log.error("process %s has not ended after SIGKILL", self.pid)

    def _signal(self, name: str) -> None:
        """Send a signal to the process group."""
        try:
            if _WINDOWS:
                self._process.terminate()
            else:
                os.killpg(self.pid, getattr(signal, name))
        except OSError as error:
            log.debug("%s for process group %s: %s", name, self.pid, error)

    def close_in_fork(self) -> None:
        """Close the descriptors; see `Transport.close_in_fork`."""
        super().close_in_fork()
        self._stderr.close_in_fork()
        self._closing = threading.RLock()
        self._gone = True
        # The destructor must not wait for a process that is not a child of the fork.
        self._process.returncode = 0

    def peer_has_read(self) -> bool:
        """Return whether the server has read anything. It is known after `lost` was called."""
        return self._peer_has_read is not False

    def loss(self, reason: str) -> ConnectionLost:
        """Return the exception, with the command, the exit code and the end of stderr.

        The first call waits up to half a second for the exit code and the end of stderr.
        """
        if self._settling is None:
            self._settling = Deadline(SETTLE_SECONDS)
        if self._exited.wait(self._settling.to_wait()):
            self._stderr.ended.wait(self._settling.to_wait())
        if self._peer_has_read is None:
            self._peer_has_read = self.sent > self._unread()
        code = self.returncode
        tail = self.stderr_tail
        reason = reason.replace("the peer", "the server", 1)
        advice = f" ({self.advice})" if self.advice else ""
        return ConnectionLost(
            f"{self.name}: {reason}; the server {_ending(code)}{advice}{_last_lines(tail)}",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stderr_tail=tail,
        )

    def _unread(self) -> int:
        """Return how many bytes in the pipe are unread, or 0 if the system does not know it."""
        try:
            return int.from_bytes(
                fcntl.ioctl(self._out.number, termios.FIONREAD, bytes(4)), sys.byteorder
            )
        except (AttributeError, OSError, ValueError):
            return 0

    def __repr__(self) -> str:
        return f"<ChildTransport {self.name!r} pid {self.pid} {_ending(self._process.returncode)}>"


def _started(server: StdioServer) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start the process in a group of its own. Return it with its stdout, stdin and stderr."""
    import subprocess

    process = subprocess.Popen(
        server.command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        cwd=server.cwd,
        env=server.environment(),
        start_new_session=not _WINDOWS,
        creationflags=sum(getattr(subprocess, name, 0) for name in WINDOWS_FLAGS),
    )
    streams: Any = (process.stdout, process.stdin, process.stderr)
    numbers: list[int] = []
    try:
        for stream in streams:
            numbers.append(os.dup(stream.fileno()))
            stream.close()
    except OSError:  # the process has too many open descriptors
        close_quietly(*numbers)
        process.kill()
        with process:
            raise
    return process, numbers


class _Stderr(StreamTransport):
    """Reads a child's stderr, keeps its end and passes it to a consumer.

    One thread reads and keeps the end. A second thread calls the consumer, because the consumer may
    be slow, raise or never return. If a small queue between them is full, the child waits up to
    `PATIENCE_SECONDS`. Then text is dropped, which is logged once.

    Args:
        name: The name of the child, for log records.
        reading: The descriptor to read from.
        consume: The consumer, from `consumer_of`.
        wakers: See `StreamTransport`.
    """

    def __init__(
        self,
        name: str,
        reading: int,
        consume: Callable[[bytes], None],
        wakers: Sequence[tuple[int, int]],
    ) -> None:
        super().__init__(name, reading, -1, None, wakers=wakers)
        self.tail = b""
        self.ended = threading.Event()
        self._consume = consume
        self._dropping = False
        self._warned = False
        self._pieces: queue.Queue[bytes] = queue.Queue(QUEUED_PIECES)
        self._consumer = threading.Thread(
            target=self._pass_on, name=f"minimcp-{name}-stderr-consumer", daemon=True
        )

    def start(self) -> None:
        """Start the threads."""
        reader = threading.Thread(
            target=self._read_all, name=f"minimcp-{self.name}-stderr", daemon=True
        )
        reader.start()
        self._consumer.start()

    def _read_all(self) -> None:
        piece = self.read()
        while piece:
            self.tail = (self.tail + piece)[-TAIL_BYTES:]
            self._enqueue(piece)
            piece = self.read()
        self.ended.set()
        self._pieces.put(b"")

    def _enqueue(self, piece: bytes) -> None:
        try:
            self._pieces.put(piece, timeout=0.0 if self._dropping else PATIENCE_SECONDS)
            self._dropping = False
        except queue.Full:
            if not self._warned:
                log.warning("stderr of %s: its consumer is too slow, so text is dropped", self.name)
            self._dropping = True
            self._warned = True

    def _pass_on(self) -> None:
        piece = b"."
        has_failed = False
        while piece:
            piece = self._pieces.get()
            try:
                with exit_gate:
                    self._consume(piece)
            except Exception as error:
                if not has_failed:
                    log.warning("stderr of %s: its consumer raised %s", self.name, error)
                has_failed = True

    def _is_readable(self) -> bool:
        """Return whether text or the end can be read now; False on Windows, where it is unknown."""
        number = self._in.number
        if number < 0 or not hasattr(select, "poll"):
            return False
        poller = select.poll()
        poller.register(number, select.POLLIN)
        return bool(poller.poll(0))

    def finish(self, seconds: float) -> None:
        """Read the text that is available, stop reading, and wait for the consumer.

        Args:
            seconds: How long to wait for the consumer, in seconds. Its thread is daemonic, so a
                consumer that does not return cannot keep the program alive.
        """
        limit = Deadline(UNREAD_SECONDS)
        while not self.ended.is_set() and self._is_readable() and not limit.expired:
            self.ended.wait(0.01)
        self.close()
        if self._consumer.is_alive() and self._consumer is not threading.current_thread():
            self._consumer.join(seconds)
            if self._consumer.is_alive():
                log.warning(
                    "stderr of %s: its consumer does not return, so its thread is still running",
                    self.name,
                )


def consumer_of(wanted: Any) -> Callable[[bytes], None]:
    """Return a function that passes pieces of stderr to `wanted`. An empty piece is the last.

    Args:
        wanted: None for this process's stderr, a text or binary file, a logger, or a function that
            receives each line as a str without its line end.

    Raises:
        TypeError: `wanted` has the wrong type.
    """
    if wanted is None:
        return partial(_write, 2)
    write = getattr(wanted, "write", None)
    if callable(write):
        return _to_file(wanted)
    log = getattr(wanted, "info", None)
    if callable(log):
        return _by_line(lambda line: log("%s", printable(line)))
    if callable(wanted):
        return _by_line(wanted)
    raise TypeError(
        f"stderr must be None, a file, a logger or a callable, not {type(wanted).__name__}"
    )


def _write(number: int, piece: bytes) -> None:
    """Write to a descriptor. On an error, or if the reader is too slow, drop the rest."""
    while piece:
        try:
            piece = piece[os.write(number, piece) :]
        except BlockingIOError:
            # Another process that shares the open file made it non-blocking.
            if not select.select([], [number], [], PATIENCE_SECONDS)[1]:
                return
        except OSError:
            return


def _to_file(file: Any) -> Callable[[bytes], None]:
    from ..engine.output import open_outlet

    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    is_text = hasattr(file, "encoding")
    outlet = open_outlet(file)

    def write(piece: bytes) -> None:
        text = decoder.decode(piece, final=not piece)
        if outlet is not None:  # without the file's buffer
            _write(outlet.own, text.encode(file.encoding, file.errors) if is_text else piece)
            return
        file.write(text if is_text else piece)
        flush = getattr(file, "flush", None)
        if flush is not None:
            flush()

    return write


def _by_line(consume: Callable[[str], Any]) -> Callable[[bytes], None]:
    pending = b""

    def take(piece: bytes) -> None:
        nonlocal pending
        lines = (pending + piece).split(b"\n")
        pending = lines.pop()
        if pending and (not piece or len(pending) > _LINE_BYTES):
            lines.append(pending)
            pending = b""
        failure: Optional[Exception] = None
        for line in lines:
            try:
                consume(line.decode("utf-8", "replace").rstrip("\r"))
            except Exception as error:  # the consumer must still get the other lines
                failure = error
        if failure is not None:
            raise failure

    return take


def _why(error: Exception, server: StdioServer) -> str:
    """Return the reason for which a server cannot be started, and what to write instead."""
    if server.cwd is not None and isinstance(error, OSError) and not os.path.isdir(server.cwd):
        return f"its working directory {server.cwd!r} is not a directory"
    first = server.command[0]
    path = os.path.join(server.cwd or "", first)
    if os.path.isdir(path):
        return "it is a directory: name the server's file in it"
    if isinstance(error, FileNotFoundError) and os.path.isfile(path):
        python = "sys.executable" if knows_python() else "'python3'"
        return f"it is not a program: begin the list with a program, as in [{python}, {first!r}]"
    if isinstance(error, FileNotFoundError):
        program, *words = first.split() or [first]
        if not words:
            return "there is no such program"
        split = f'"command": "{program}", "args": {json.dumps([*words, *server.command[1:]])}'
        return f'there is no such program: put arguments into "args", as in {split}'
    if isinstance(error, PermissionError):
        return "it is not executable: begin with a program, as in ['bash', 'server.sh']"
    return getattr(error, "strerror", None) or str(error)


def _ending(code: Optional[int]) -> str:
    if code is None:
        return "is still running"
    return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"


def _last_lines(tail: str) -> str:
    """Return the end of stderr for a message, without traceback lines of this library."""
    lines = []
    is_inside = False
    for line in tail.split("\n")[-MAX_LINES:]:
        is_inside = bool(_INSIDE.match(line)) or (is_inside and line.startswith("    "))
        if line.strip() and not is_inside:
            lines.append(line)
    if not lines:
        return ""
    shown = ["    " + _clean(line, 300) for line in lines[-SHOWN_LINES:]]
    return TAIL + "\n".join(shown)
