"""``minimcp trace``: stand between a host and a stdio server, pass every byte on, and record what
goes by.

Two threads copy, one for each direction. They read and write bytes as they come and never look into
them. A third one cuts copies of these bytes into lines, reads them and writes the transcript; what
it cannot keep up with is left out of the transcript, and never holds up the two.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Callable, Optional, Sequence

from ..engine.transport import LineSplitter, StreamTransport, TooLong, close_quietly, enlarge
from ..errors import ConnectionLost
from ..schema.mismatch import cut
from ..stdio.streams import is_shared
from ..testing import Entry, Transcript
from ..testing.transcript import page_head, page_row
from ..text import printable
from . import Parser, UsageError, split_command
from .terminal import styled, wants_colour

# Bytes that may wait for being recorded, and those of one line.
MOST_BYTES = 64 * 1024 * 1024

# Bytes of a transcript that are written at once.
WRITTEN_BYTES = 64 * 1024

# Between two looks at what has passed: whatever passes meanwhile is not held up by the recording.
PAUSE_SECONDS = 0.03

# What the recording gets at the end, and the last bytes of a server that has exited.
LAST_SECONDS = 1.5

# Sent on to the server.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

LOOK_SECONDS = 60.0  # at whether the receiver is there

INDENT = " " * 13

ENDINGS = "The exit code is that of the server; 2 when it cannot be started."

HOW = "to trace a server, write -- before its command, as in: {} -- {}"


def trace_command(arguments: Sequence[str], prog: str) -> int:
    """Record what goes between a host and a server, or draw what was recorded."""
    parser = Parser(
        prog,
        "Stand between a host and a server that it starts, pass every byte on, and write down each "
        "message: what it is for, how long its answer took, and what in it breaks the "
        "specification. "
        "In a host's config, put this before the server's command.",
        ENDINGS,
    )
    parser.usage = (
        f"{prog} [--html FILE] [--json] [--output FILE] -- COMMAND ...\n       {prog} "
        "--html FILE JSONL"
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also draw it, as one page to open in a browser"
    )
    parser.add_argument(
        "--json", action="store_true", help="write JSON Lines, which --html FILE JSONL draws later"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file (default: stderr)")
    parser.add_argument("transcript", metavar="JSONL", nargs="*", help="what --json wrote before")
    own, command = split_command(arguments)
    options = parser.parse_args(own)
    if options.transcript and (command or not options.html or len(options.transcript) > 1):
        words = ["python"] * options.transcript[0].endswith(".py") + options.transcript + command
        raise UsageError(HOW.format(prog, " ".join(words)))
    if options.transcript:
        return _draw(options.transcript[0], options.html, prog)
    if not command:
        raise UsageError(HOW.format(prog, "python server.py"))
    return _trace(command, _Recorder(options.output, options.html, options.json))


def _draw(path: str, html: str, prog: str) -> int:
    try:
        transcript = Transcript.load(path)
    except ValueError as error:
        raise UsageError(f"{error}: {prog} --json writes one; {HOW.format(prog, path)}") from None
    transcript.save_html(html)
    print(f"{html}: {len(transcript)} entries, {len(transcript.breaches())} breaches")
    return 0


def _trace(command: list[str], recorder: _Recorder) -> int:
    """Start the server and stand between, until it has exited. Takes stdin, stdout and signals of
    this process.

    The server leads a process group of its own, so that a signal to this process, or to its group,
    reaches it once.
    """
    import subprocess

    host = os.dup(0), os.dup(1)
    pipe: Any = subprocess.PIPE
    try:
        server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=os.name != "nt"
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot start {command[0]}: {why}: after -- stands the program and its arguments, "
            "as in "
            "-- python server.py"
        ) from None
    assert server.stdin is not None and server.stdout is not None
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _send(number, server))
    recorder.start()
    recorder.note(f"the server is started: {cut(' '.join(command), 200)}")
    child = os.dup(server.stdin.fileno()), os.dup(server.stdout.fileno())
    server.stdin.close()
    server.stdout.close()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what is printed here by mistake is no message
    close_quietly(nothing)
    _copy("-->", host[0], child[0], recorder)
    back = _copy("<--", child[1], host[1], recorder)
    code = None
    while code is None:
        with suppress(
            subprocess.TimeoutExpired
        ):  # a signal that comes just before a wait is not seen until it is over
            code = server.wait(1.0)
    back.join(LAST_SECONDS)  # something that it has started may hold its stdout
    recorder.note(
        f"the server has exited with code {code}"
        if code >= 0
        else f"signal {-code} has ended the server"
    )
    recorder.end()
    if code < 0:  # as the host would see it of the server
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _send(number: int, server: Any) -> None:
    """Send a signal on to the server and what it has started."""
    try:
        if os.name == "nt":
            server.send_signal(number)
        else:
            os.killpg(server.pid, number)
    except OSError:
        pass  # it has exited


def _copy(arrow: str, reading: int, writing: int, recorder: _Recorder) -> threading.Thread:
    """Begin to pass bytes on from one descriptor to another; at the end of either, both are
    closed."""
    for number in (reading, writing):
        enlarge(number)
    way = StreamTransport(arrow, reading, writing, None, shared=is_shared(writing))

    def run() -> None:
        chunk = way.read()
        while chunk:
            recorder.take(arrow, chunk)
            try:
                while chunk:
                    chunk = chunk[way.send(chunk, LOOK_SECONDS) :]
            except ConnectionLost:
                break
            chunk = way.read()
        way.close()

    thread = threading.Thread(target=run, name=f"minimcp-trace {arrow}", daemon=True)
    thread.start()
    return thread


class _Recorder(threading.Thread):
    """Takes copies of the bytes that pass, and writes the transcript on a thread of its own.

    Args:
        output: The file to write to; None is stderr.
        html: The file of the page; None for none.
        as_json: Write JSON Lines.

    Raises:
        OSError: A file cannot be written.
    """

    def __init__(self, output: Optional[str], html: Optional[str], as_json: bool) -> None:
        super().__init__(name="minimcp-trace", daemon=True)
        colour = output is None and wants_colour(sys.stderr)
        self._outputs = [
            _Output(
                os.dup(2) if output is None else _open(output),
                lambda entry: f"{entry.as_json()}\n" if as_json else told(entry, colour),
            )
        ]
        if html is not None:
            self._outputs.append(_Output(_open(html), page_row))
            self._outputs[-1].waiting += page_head().encode()
        self._transcript = Transcript(judge=True)
        self._queue: queue.SimpleQueue[Optional[tuple[float, str, bytes, int]]] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._waiting = 0  # bytes in the queue
        self._left_out = {"-->": 0, "<--": 0, "": 0}
        self._lines = {arrow: LineSplitter(MOST_BYTES) for arrow in ("-->", "<--")}
        self._torn: set[str] = set()  # where the next line lacks its beginning

    def take(self, arrow: str, chunk: bytes) -> None:
        """Take bytes that are about to be passed on. Never blocks."""
        with self._lock:
            if self._waiting + len(chunk) > MOST_BYTES:
                self._left_out[arrow] += len(chunk)
                return
            self._waiting += len(chunk)
            self._queue.put((time.time(), arrow, chunk, self._left_out[arrow]))
            self._left_out[arrow] = 0

    def note(self, text: str) -> None:
        """Take a sentence about the recording."""
        self.take("", text.encode("utf-8", "backslashreplace"))

    def end(self) -> None:
        """Write what has been taken, if that does not take long."""
        self._queue.put(None)
        self._over.set()
        self.join(LAST_SECONDS)

    def close(self) -> None:
        """Close the files."""
        self._each(_Output.close)

    def run(self) -> None:
        """As `threading.Thread.run`: records until the end."""
        item = self._queue.get()
        while item is not None:
            if self._queue.empty():
                self._over.wait(PAUSE_SECONDS)
            self._record(*item)
            if self._queue.empty():
                self._each(_Output.flush)
            item = self._queue.get()
        self._each(_Output.flush)

    def _record(self, at: float, arrow: str, chunk: bytes, left_out: int) -> None:
        with self._lock:
            self._waiting -= len(chunk)
        if not arrow:
            self._write(self._transcript.note(chunk.decode("utf-8", "replace"), at))
            return
        if left_out:
            text = f"{left_out} bytes host {arrow} server are left out here"
            self._write(self._transcript.note(text, at, lost=True))
            self._lines[arrow] = LineSplitter(MOST_BYTES)
            self._torn.add(arrow)
        for frame in self._lines[arrow].feed(chunk):
            if arrow in self._torn:
                self._torn.remove(arrow)
            elif isinstance(frame, TooLong):
                text = f"a line host {arrow} server has more than {frame.limit} bytes"
                self._write(self._transcript.note(text, at, lost=True))
            else:
                for entry in self._transcript.record(arrow, frame, at):
                    self._write(entry)
        self._transcript.clear()

    def _write(self, entry: Entry) -> None:
        self._each(lambda output: output.add(entry))

    def _each(self, act: Callable[[_Output], object]) -> None:
        for output in [*self._outputs]:
            try:
                act(output)
            except OSError:  # a full disk, a stderr that is closed: the server goes on
                self._outputs.remove(output)


class _Output:
    """A descriptor that gets the transcript. It has no stream: a thread that waits for the reader
    of a stream keeps its lock, and then the interpreter cannot exit.

    Args:
        number: The descriptor; owned from now on.
        shown: Makes the text of an entry.
    """

    def __init__(self, number: int, shown: Callable[[Entry], str]) -> None:
        self._number = number
        self._shown = shown
        self.waiting = bytearray()

    def add(self, entry: Entry) -> None:
        """Write an entry, now or with those that follow it."""
        self.waiting += self._shown(entry).encode("utf-8", "backslashreplace")
        if len(self.waiting) > WRITTEN_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what is left. Blocks while nobody reads.

        Raises:
            OSError: The disk is full, or the reader has gone.
        """
        while self.waiting:
            del self.waiting[: os.write(self._number, self.waiting)]

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._number)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)


def told(entry: Entry, colour: bool) -> str:
    """An entry for people: a line or two, and one for each breach."""
    clock = time.strftime("%H:%M:%S", time.localtime(entry.time)) + f"{entry.time % 1:.3f}"[1:]
    if entry.kind == "note":
        return styled(f"{clock} {printable(entry.message)}\n", "dim", colour)
    took = "" if entry.seconds is None else f" after {entry.seconds * 1000:.1f} ms"
    line = printable(f"{clock} host {entry}")
    lines = [styled(line, "cyan" if entry.direction == "-->" else "green", colour)]
    lines.append(
        f"{INDENT}{entry.size} B{took}{': ' * bool(entry.purpose)}{printable(entry.purpose)}"
    )
    for row, sentence in entry.breaches:
        lines.append(styled(f"{INDENT}! {row}: {printable(sentence)}", "bold", colour))
    return "\n".join(lines) + "\n"
