"""A server as a child process: started without a shell, spoken to over its stdin and stdout, always
reaped.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio) and, for how it is
ended, https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle (shutdown). Windows:
written for, not run on.
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

from ..engine.output import open_outlet
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

# What a server gets to exit after the end of its input, and again after SIGTERM.
CLOSE_SECONDS = 2.0

# How long `ChildTransport.lost` waits for the exit status and the last of stderr.
SETTLE_SECONDS = 0.5

# How long closing waits for a killed process, which may hang in the kernel.
KILLED_SECONDS = 2.0

# How long closing waits for the end of stderr, which something else may hold, and for who gets the
# last of it.
STDERR_SECONDS, CONSUMER_SECONDS = 0.1, 0.5

# How long closing waits for what has come from stderr, and was not read yet because the machine is
# busy.
UNREAD_SECONDS = 2.0

# Lines of stderr that the message of an error shows.
SHOWN_LINES = 10

# Lines of stderr among which these are looked for, and how a frame of this library begins in a
# traceback.
MOST_LINES = 200
_INSIDE = re.compile(
    r'  File ".*[\\/](minimcp[\\/](client|engine|schema|server|types)[\\/]\w+|contextlib)\.py", line '
)

# Bytes of the end of stderr that are kept.
TAIL_BYTES = 64 * 1024

# Pieces of stderr, of 64 KiB at most, that may wait for their consumer.
QUEUED_PIECES = 16

# How long the child is held up by a consumer that takes nothing, before text is left out.
PATIENCE_SECONDS = 1.0

_LINE_BYTES = 64 * 1024
_WINDOWS = os.name == "nt"


class StdioServer:
    """How to start a server as a child process.

    Args:
        command: The program and its arguments; never given to a shell.
        env: Environment variables laid over this process's own. None adds none.
        cwd: Working directory of the server. None means this process's own.
        inherit_env: False starts the server with `env` alone.

    Raises:
        TypeError: The command is a str (split it: `shlex.split`) or holds something else than str
            and paths, or `env` holds something else than str.
        ValueError: The command is empty.
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
            raise TypeError("StdioServer has no option stderr=: say connect(..., stderr=...)")
        if misplaced:
            refuse_options("StdioServer(...)", misplaced, StdioServer.__init__)
        if not isinstance(command, (list, tuple)):
            raise TypeError(
                f"command must be a list such as ['python', 'server.py'], not {type(command).__name__}"
            )
        if not command:
            raise ValueError("command is empty: it must name a program")
        self.command: tuple[str, ...] = tuple([_text("command", part) for part in command])
        self.env: dict[str, str] = {
            _text("env", k): _text("env", v) for k, v in dict(env or {}).items()
        }
        self.cwd: Optional[str] = None if cwd is None else _text("cwd", cwd)
        self.inherit_env = bool(inherit_env)

    def environment(self) -> dict[str, str]:
        """The environment that the server gets."""
        return {**os.environ, **self.env} if self.inherit_env else dict(self.env)

    def __repr__(self) -> str:
        # Values of environment variables are often secrets.
        return f"StdioServer({list(self.command)!r}, env={sorted(self.env)!r}, cwd={self.cwd!r})"


def this_python(instead: str) -> str:
    """Return the path of this Python interpreter, to start a server with.

    In a frozen program (PyInstaller, cx_Freeze) ``sys.executable`` is the program itself, which
    would start itself again and again.

    Args:
        instead: What to write where the interpreter is not known.

    Raises:
        ConnectionFailed: This program is frozen, or embeds Python.
    """
    if not knows_python():
        is_frozen = bool(getattr(sys, "frozen", False))
        why = "is frozen: sys.executable is the program itself" if is_frozen else "embeds Python"
        raise ConnectionFailed(f"this program {why}, and no Python interpreter is known: {instead}")
    return sys.executable


def knows_python() -> bool:
    """Whether ``sys.executable`` is a Python interpreter."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def _text(what: str, value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{what} must hold str, not {type(text).__name__}")
    return text


def _clean(line: str, limit: int) -> str:
    """Text from outside for one line of a message: what a terminal would obey is shown as an
    escape."""
    shown = printable(line.rstrip().replace("\t", "    "))
    return shown if len(shown) <= limit else shown[:limit] + "..."


def _shown(command: Sequence[str]) -> str:
    """A command as a person would type it, on one line."""
    return _clean(
        " ".join([part if part and " " not in part else repr(part) for part in command]), 200
    )


def _poll_process(pid: int) -> None:
    """Wait for the end of a process where it can be polled: gevent replaces `select.poll`, but not
    `os.waitid`."""
    try:
        number = os.pidfd_open(pid)  # type: ignore[attr-defined,unused-ignore]
    except (AttributeError, OSError):  # not Linux, or none is left
        return
    try:
        poller = select.poll()
        poller.register(number, select.POLLIN)
        poller.poll()
    finally:
        os.close(number)


class ChildTransport(StreamTransport):
    """The client's end of a connection to a server that it started itself. Made by `start`.

    Args:
        server: What to start.
        stderr: Where its stderr goes besides the kept tail: None to this process's own, a text or
            binary file, a logger, or a callable that gets each line.
        limit: Bytes of one line from the server; None sets no limit.
        grace: Seconds that `close` gives it to exit, and again after SIGTERM; None takes
            `CLOSE_SECONDS`.

    Raises:
        ConnectionFailed: It cannot be started; nothing is left behind.
        TypeError: `stderr` is none of these.
    """

    advice = ""
    """What the message of a loss ends with; empty for nothing."""

    def __init__(
        self,
        server: StdioServer,
        *,
        stderr: Any = None,
        limit: Optional[int],
        grace: Optional[float] = None,
    ) -> None:
        name, consume = _shown(server.command), consumer_of(stderr)
        own: list[tuple[int, int]] = []
        try:
            own = pipes(
                5
            )  # before the start: a process that nobody can speak to would be left behind
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
        except RuntimeError as error:  # at the end of an interpreter no thread can be started
            self._process.kill()
            self._process.wait()
            if watching.ident is None:
                self._watch(ending)
            self.close()
            raise ConnectionFailed(f"cannot start {name}: {error}") from error

    def _watch(self, ending: int) -> None:
        """Wait for the end of the process, and tell who waits for it."""
        _poll_process(self.pid)
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):  # the program, or gevent, has reaped it
                os.waitid(
                    os.P_PID, self.pid, os.WEXITED | os.WNOWAIT
                )  # reaped later: its number names its group
        else:
            self._process.wait()
        close_quietly(ending)
        self._exited.set()

    @property
    def pid(self) -> int:
        """Of the server's process, which leads a process group of its own."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """The last 64 KiB that the server wrote to stderr."""
        return self._stderr.tail.decode("utf-8", "replace")

    @property
    def returncode(self) -> Optional[int]:
        """As `subprocess.Popen.returncode`: negative for a signal, None while it runs. Reaps it."""
        with (
            self._reaping
        ):  # of two that poll at once `subprocess` would tell one that it still runs
            return self._process.poll()

    def close(self) -> None:
        """As `Transport.close`: end of input, the grace, SIGTERM to the group, the grace again,
        SIGKILL; always reaped.

        What a server has started, and has left behind in its group when it exits in time, gets
        SIGTERM too; not when the exit code was asked for before: the number of the group may be
        another one's then.

        It waits for the server's process, not for its pipes, which a process started by it may hold
        for ever.
        """
        self.close_writing()
        with self._closing:
            if self._gone:
                return
            if not self._exited.wait(self.grace):
                self._end_group()
            self._stderr.ended.wait(STDERR_SECONDS)
            with self._reaping:  # before that the number is that of its group for certain
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
            self._stderr.ended.wait(
                limit.to_wait()
            )  # a wrapper (npx, sh) may be gone before the server it started
        self._signal("SIGKILL")
        if not self._exited.wait(KILLED_SECONDS):
            log.error("process %s does not end after SIGKILL, it is left behind", self.pid)

    def _signal(self, name: str) -> None:
        """Send a signal to the whole group; its number stays taken while anybody is in it."""
        try:
            if _WINDOWS:
                self._process.terminate()
            else:
                os.killpg(self.pid, getattr(signal, name))
        except OSError as error:
            log.debug("%s for process group %s: %s", name, self.pid, error)

    def close_in_fork(self) -> None:
        """As `Transport.close_in_fork`."""
        super().close_in_fork()
        self._stderr.close_in_fork()
        self._closing = threading.RLock()
        self._gone = True
        self._process.returncode = 0  # keeps the destructor from warning and waiting for a stranger

    def peer_has_read(self) -> bool:
        """As `Transport.peer_has_read`. `lost` finds it out, while the pipe is open."""
        return self._peer_has_read is not False

    def lost(self, reason: str) -> ConnectionLost:
        """As `Transport.lost`, with what was run, how it ended and the last lines of its stderr.

        Waits up to half a second, once, for these to arrive.
        """
        if self._settling is None:
            self._settling = Deadline(SETTLE_SECONDS)
        if self._exited.wait(self._settling.to_wait()):
            self._stderr.ended.wait(self._settling.to_wait())
        if self._peer_has_read is None:
            self._peer_has_read = self.sent > self._unread()
        code, tail = self.returncode, self.stderr_tail
        reason = reason.replace("the peer", "the server", 1)
        advice = f" ({self.advice})" if self.advice else ""
        return ConnectionLost(
            f"{self.name}: {reason}; the server {_ending(code)}{advice}{_last_lines(tail)}",
            exit_code=code if code is not None and code >= 0 else None,
            signal=-code if code is not None and code < 0 else None,
            stderr_tail=tail,
        )

    def _unread(self) -> int:
        """Bytes in the pipe that nobody has taken out; 0 where the system does not tell (macOS,
        Windows)."""
        try:
            return int.from_bytes(
                fcntl.ioctl(self._out.number, termios.FIONREAD, bytes(4)), sys.byteorder
            )
        except (AttributeError, OSError, ValueError):
            return 0

    def __repr__(self) -> str:
        return f"<ChildTransport {self.name!r} pid {self.pid} {_ending(self._process.returncode)}>"


def _started(server: StdioServer) -> tuple[subprocess.Popen[bytes], list[int]]:
    """The process, in a group of its own, and our ends of its stdout, stdin and stderr."""
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
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
    streams: Any = (process.stdout, process.stdin, process.stderr)
    numbers: list[int] = []
    try:
        for stream in streams:
            numbers.append(os.dup(stream.fileno()))
            stream.close()
    except OSError:  # other threads have opened what there was
        close_quietly(*numbers)
        process.kill()
        with process:
            raise
    return process, numbers


class _Stderr(StreamTransport):
    """A child's stderr: always taken, its end kept, handed on as asked.

    Two threads, because taking must not stop while who gets the text is slow, raises or never
    returns: one reads and keeps the tail, the other hands on. What it cannot hand on waits in a
    small queue; then the child waits too, for a second; then text is left out, and the log says so
    once.

    Args:
        name: Of the child.
        reading: The descriptor.
        consume: From `consumer_of`.
        wakers: As `StreamTransport`.
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
            target=self._hand_on, name=f"minimcp-{name}-stderr-consumer", daemon=True
        )

    def start(self) -> None:
        """Begin to read."""
        threading.Thread(target=self._take, name=f"minimcp-{self.name}-stderr", daemon=True).start()
        self._consumer.start()

    def _take(self) -> None:
        piece = self.read()
        while piece:
            self.tail = (self.tail + piece)[-TAIL_BYTES:]
            self._offer(piece)
            piece = self.read()
        self.ended.set()
        self._pieces.put(b"")

    def _offer(self, piece: bytes) -> None:
        try:
            self._pieces.put(piece, timeout=0.0 if self._dropping else PATIENCE_SECONDS)
            self._dropping = False
        except queue.Full:
            if not self._warned:
                log.warning("stderr of %s: its consumer takes nothing, text is left out", self.name)
            self._dropping = True
            self._warned = True

    def _hand_on(self) -> None:
        piece, complained = b".", False
        while piece:
            piece = self._pieces.get()
            try:
                with exit_gate:
                    self._consume(piece)
            except Exception as error:
                if not complained:
                    log.warning("stderr of %s: its consumer raised %s", self.name, error)
                complained = True

    def _has_come(self) -> bool:
        """Whether something, or the end, can be read now; False where the system does not tell
        (Windows)."""
        number = self._in.number
        if number < 0 or not hasattr(select, "poll"):
            return False
        poller = select.poll()
        poller.register(number, select.POLLIN)
        return bool(poller.poll(0))

    def finish(self, seconds: float) -> None:
        """Stop reading when what has come is read; then a consumer gets so many seconds to take
        what is queued.

        Blocks: for `UNREAD_SECONDS` and these at most. A consumer that does not return is left
        behind.
        """
        limit = Deadline(UNREAD_SECONDS)
        while (
            not self.ended.is_set() and self._has_come() and not limit.expired
        ):  # the reading thread is slow
            self.ended.wait(0.01)
        self.close()
        if self._consumer.is_alive() and self._consumer is not threading.current_thread():
            self._consumer.join(seconds)
            if self._consumer.is_alive():
                log.warning(
                    "stderr of %s: its consumer does not return, its thread is left behind",
                    self.name,
                )


def consumer_of(wanted: Any) -> Callable[[bytes], None]:
    """What hands a piece of stderr to `wanted`, and its last, empty piece at the end.

    Args:
        wanted: None for this process's own stderr, a text or binary file, a logger, or a callable
            that gets each line as str without its line end.

    Raises:
        TypeError: It is none of these.
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
    """Write to a descriptor, as a child that had inherited it would; if that is impossible, drop
    the rest."""
    while piece:
        try:
            piece = piece[os.write(number, piece) :]
        except BlockingIOError:
            # Somebody who shares it made it non-blocking.
            if not select.select([], [number], [], PATIENCE_SECONDS)[1]:
                return
        except OSError:
            return


def _to_file(file: Any) -> Callable[[bytes], None]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    is_text = hasattr(file, "encoding")
    outlet = open_outlet(file)

    def write(piece: bytes) -> None:
        text = decoder.decode(piece, final=not piece)
        if outlet is not None:  # past the file's buffer
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
            except Exception as error:  # it gets the other lines all the same
                failure = error
        if failure is not None:
            raise failure

    return take


def _why(error: Exception, server: StdioServer) -> str:
    """What went wrong at the start, in words."""
    if server.cwd is not None and isinstance(error, OSError) and not os.path.isdir(server.cwd):
        return f"its working directory {server.cwd!r} is no directory"
    first = server.command[0]
    if os.path.isdir(os.path.join(server.cwd or "", first)):
        return "it is a folder: name the server's file in it"
    if isinstance(error, FileNotFoundError) and os.path.isfile(
        os.path.join(server.cwd or "", first)
    ):
        python = "sys.executable" if knows_python() else "'python3'"
        return f"it is a file, and a list is a command line, which begins with a program: [{python}, {first!r}]"
    if isinstance(error, FileNotFoundError):
        program, *words = first.split() or [first]
        split = f'"command": "{program}", "args": {json.dumps([*words, *server.command[1:]])}'
        return "there is no such program" + (
            f': put arguments into "args", as in {split}' if words else ""
        )
    if isinstance(error, PermissionError):
        return "it is not executable: name what runs it first, as in ['bash', 'server.sh']"
    return getattr(error, "strerror", None) or str(error)


def _ending(code: Optional[int]) -> str:
    if code is None:
        return "is still running"
    return f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"


def _last_lines(tail: str) -> str:
    """The end of a server's stderr for a message; of tracebacks without what happened inside of
    this library."""
    lines, inside = [], False
    for line in tail.split("\n")[-MOST_LINES:]:
        inside = bool(_INSIDE.match(line)) or (inside and line.startswith("    "))
        if line.strip() and not inside:
            lines.append(line)
    shown = [_clean(line, 300) for line in lines[-SHOWN_LINES:]]
    return (
        "\nits stderr ended with:\n" + "\n".join(["    " + line for line in shown]) if shown else ""
    )
