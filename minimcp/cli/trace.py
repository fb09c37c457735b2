"""``minimcp trace``: forward every byte between a host and a stdio server, and record the messages.

Two threads forward bytes, one for each direction, without decoding them. A third thread splits
copies of the bytes into lines, decodes them and writes the transcript. If it cannot keep up, bytes
are left out of the transcript; forwarding never waits for it.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from argparse import REMAINDER
from contextlib import suppress
from typing import Any, Callable, Optional, Sequence

from ..engine.transport import LineSplitter, StreamTransport, TooLong, close_quietly, enlarge
from ..errors import ConnectionLost
from ..schema.mismatch import cut
from ..stdio.child import this_python
from ..stdio.streams import is_shared
from ..testing import Entry, Transcript
from ..testing.transcript import page_head, page_row, save_side_by_side
from ..text import printable
from . import Parser, UsageError, add_network, is_url, network_words, split_command
from .terminal import styled, wants_color

# Maximum memory for bytes that wait to be recorded, and maximum length of a line.
MAX_BYTES = 64 * 1024 * 1024

# Size of the transcript's write buffer.
BUFFER_BYTES = 64 * 1024

# Pause before bytes are recorded, so that recording does not slow down the forwarding of a burst.
PAUSE_SECONDS = 0.03

# Time limit at the end for the last bytes of the server's stdout, and again for the recording.
FLUSH_SECONDS = 1.5

# Signals that are forwarded to the server.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

# Timeout of one attempt to forward bytes. After it, the rest is tried again.
SEND_SECONDS = 60.0

INDENT = " " * 13

EXIT_CODES = "The exit code is the server's exit code, or 2 if the server cannot be started."

USAGE_HINT = "to trace a server, write its command, as in: {} python server.py"


def trace_command(arguments: Sequence[str], prog: str) -> int:
    """Record the messages between a host and a server, or draw a recording."""
    parser = Parser(
        prog,
        "Forward every byte between a host and the server that it starts, and record each "
        "message: its purpose, the time until its response, and its violations of the "
        "specification. In a host's config, write this command before the server's command.",
        EXIT_CODES,
    )
    parser.usage = (
        f"{prog} [--html FILE] [--json] [--output FILE] [--] COMMAND ...\n       {prog} [...] URL\n"
        f"       {prog} --html FILE JSONL ..."
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also draw the messages, as a page to open in a browser"
    )
    parser.add_argument(
        "--json", action="store_true", help="write JSON Lines, which --html FILE JSONL can draw"
    )
    parser.add_argument("--output", metavar="FILE", help="write to this file (default: stderr)")
    add_network(parser)
    parser.add_argument(
        "words",
        metavar="COMMAND",
        nargs=REMAINDER,
        help="the server's command, its file (server.py) or its URL. Or, after --html FILE, "
        "recordings made with --json; the page shows them side by side",
    )
    own, command = split_command(arguments)
    options = parser.parse_args(own)
    if options.words and is_url(options.words[0]):
        url, *after = options.words
        parser.parse_args([*after, url], options)  # options may follow a URL
    if options.words and len(own) < len(arguments):
        command.insert(0, "--")  # it belongs to the server's command
    command = [*options.words, *command]
    if not command:
        raise UsageError(USAGE_HINT.format(prog))
    if options.html and options.words == command and all(map(_is_recording, command)):
        return _draw(command, options.html, prog)
    program = _program(command, network_words(options))
    return _trace(program, Recorder(options.output, options.html, options.json))


def _is_recording(word: str) -> bool:
    """Return whether a word is the name of a recording, and not of a program."""
    return word.endswith(".jsonl") or (
        os.path.isfile(word) and not word.endswith(".py") and not os.access(word, os.X_OK)
    )


def _program(command: list[str], network: list[str]) -> list[str]:
    """Return what to start for a command, a Python file, or a URL, which a bridge connects to.

    Args:
        command: The words of the command, or one URL.
        network: The options of the bridge.
    """
    if len(command) == 1 and is_url(command[0]):
        python = this_python("a URL is traced through another Python process")
        return [python, "-m", __name__.partition(".cli.")[0], "bridge", *network, *command]
    if network:
        raise UsageError("--cacert and --proxy are only for a URL")
    if command[0].endswith(".py") and not os.access(command[0], os.X_OK):
        return [this_python("a Python file needs an interpreter"), *command]
    return command


def _draw(paths: list[str], html: str, prog: str) -> int:
    transcripts = []
    for path in paths:
        try:
            transcripts.append(Transcript.load(path))
        except ValueError as error:
            hint = USAGE_HINT.format(prog)
            raise UsageError(f"{error}: make a recording with {prog} --json; {hint}") from None
    if len(transcripts) == 1:
        transcripts[0].save_html(html)
    else:
        save_side_by_side(html, list(zip(paths, transcripts)))
    entries = sum(map(len, transcripts))
    breaches = sum(len(transcript.breaches()) for transcript in transcripts)
    print(f"{html}: {entries} entries, {breaches} violations")
    return 0


def _trace(command: list[str], recorder: Recorder) -> int:
    """Start the server and forward until it exits. Return its exit code.

    This takes over stdin, stdout and the signals of this process. The server gets its own process
    group, so that it receives a signal to this process, or to its group, only once.
    """
    import subprocess

    host_stdin = os.dup(0)
    host_stdout = os.dup(1)
    pipe: Any = subprocess.PIPE
    try:
        server = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, bufsize=0, start_new_session=os.name != "nt"
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot start {command[0]}: {reason}: write the program and its arguments, as in "
            "python server.py"
        ) from None
    assert server.stdin is not None and server.stdout is not None
    for name in SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _send(number, server))
    recorder.start()
    recorder.note(f"the server was started: {cut(' '.join(command), 200)}")
    server_stdin = os.dup(server.stdin.fileno())
    server_stdout = os.dup(server.stdout.fileno())
    server.stdin.close()
    server.stdout.close()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)  # output of this process must not get between the server's messages
    close_quietly(null)
    _forward("-->", host_stdin, server_stdin, recorder)
    from_server = _forward("<--", server_stdout, host_stdout, recorder)
    code = None
    while code is None:
        # A timeout, because a signal that arrives just before the wait is handled only after it.
        with suppress(subprocess.TimeoutExpired):
            code = server.wait(1.0)
    # A timeout, because a process that the server has started may keep its stdout open.
    from_server.join(FLUSH_SECONDS)
    if code >= 0:
        recorder.note(f"the server exited with code {code}")
    else:
        recorder.note(f"signal {-code} ended the server")
    recorder.end()
    if code < 0:  # end by the same signal, as the server's parent would see it
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _send(number: int, server: Any) -> None:
    """Forward a signal to the server and the processes that it has started."""
    try:
        if os.name == "nt":
            server.send_signal(number)
        else:
            os.killpg(server.pid, number)
    except OSError:
        pass  # the server has exited


def _forward(arrow: str, reading: int, writing: int, recorder: Recorder) -> threading.Thread:
    """Start a thread that forwards bytes from one descriptor to another.

    It closes both descriptors as soon as one of them is at its end.
    """
    for descriptor in (reading, writing):
        enlarge(descriptor)
    transport = StreamTransport(arrow, reading, writing, None, shared=is_shared(writing))

    def run() -> None:
        chunk = transport.read()
        while chunk:
            recorder.record(arrow, chunk)
            try:
                while chunk:
                    chunk = chunk[transport.send(chunk, SEND_SECONDS) :]
            except ConnectionLost:
                break
            chunk = transport.read()
        transport.close()

    thread = threading.Thread(target=run, name=f"minimcp-trace {arrow}", daemon=True)
    thread.start()
    return thread


class Recorder(threading.Thread):
    """The thread that writes the transcript from copies of the forwarded bytes.

    Args:
        output: The file to write to; None means stderr.
        html: The file for the HTML page; None means no page.
        as_json: Whether to write JSON Lines instead of text.

    Raises:
        OSError: A file cannot be opened for writing.
    """

    def __init__(self, output: Optional[str], html: Optional[str], as_json: bool) -> None:
        super().__init__(name="minimcp-trace", daemon=True)
        color = output is None and wants_color(sys.stderr)
        self._outputs = [
            _Output(
                os.dup(2) if output is None else _open(output),
                lambda entry: f"{entry.as_json()}\n" if as_json else as_text(entry, color),
            )
        ]
        if html is not None:
            self._outputs.append(_Output(_open(html), page_row))
            self._outputs[-1].buffer += page_head().encode()
        self._transcript = Transcript(judge=True)
        # Time, direction ("" for a note), bytes, and the number of bytes left out before them.
        self._queue: queue.SimpleQueue[Optional[tuple[float, str, bytes, int]]] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._is_ending = threading.Event()
        self._queued_bytes = 0
        self._left_out = {"-->": 0, "<--": 0, "": 0}
        self._lines = {arrow: LineSplitter(MAX_BYTES) for arrow in ("-->", "<--")}
        # Directions whose next line lacks its beginning.
        self._torn: set[str] = set()

    def record(self, arrow: str, chunk: bytes) -> None:
        """Queue a copy of bytes that are about to be forwarded. Never blocks."""
        with self._lock:
            if self._queued_bytes + len(chunk) > MAX_BYTES:
                self._left_out[arrow] += len(chunk)
                return
            self._queued_bytes += len(chunk)
            self._queue.put((time.time(), arrow, chunk, self._left_out[arrow]))
            self._left_out[arrow] = 0

    def note(self, text: str) -> None:
        """Queue a sentence about the recording."""
        self.record("", text.encode("utf-8", "backslashreplace"))

    def end(self) -> None:
        """Write the queued bytes, for at most `FLUSH_SECONDS`."""
        self._queue.put(None)
        self._is_ending.set()
        self.join(FLUSH_SECONDS)

    def close(self) -> None:
        """Close the files."""
        self._each(_Output.close)

    def run(self) -> None:
        """Write the transcript until `end`. Called by the thread."""
        item = self._queue.get()
        while item is not None:
            if self._queue.empty():
                self._is_ending.wait(PAUSE_SECONDS)
            self._write_lines(*item)
            if self._queue.empty():
                self._each(_Output.flush)
            item = self._queue.get()
        self._each(_Output.flush)

    def _write_lines(self, at: float, arrow: str, chunk: bytes, left_out: int) -> None:
        with self._lock:
            self._queued_bytes -= len(chunk)
        if not arrow:
            self._write(self._transcript.note(chunk.decode("utf-8", "replace"), at))
            return
        if left_out:
            text = f"{left_out} bytes host {arrow} server are left out here"
            self._write(self._transcript.note(text, at, lost=True))
            self._lines[arrow] = LineSplitter(MAX_BYTES)
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
            except OSError:  # a full disk or a closed stderr must not stop the server
                self._outputs.remove(output)


class _Output:
    """A descriptor that the transcript is written to.

    It is not a Python stream: a thread that blocks in a stream's `write` holds its lock, and the
    interpreter could then not exit.

    Args:
        descriptor: The descriptor, which this object closes.
        as_text: Returns the text of an entry.
    """

    def __init__(self, descriptor: int, as_text: Callable[[Entry], str]) -> None:
        self._descriptor = descriptor
        self._as_text = as_text
        self.buffer = bytearray()

    def add(self, entry: Entry) -> None:
        """Add an entry to the buffer, and flush the buffer if it is full."""
        self.buffer += self._as_text(entry).encode("utf-8", "backslashreplace")
        if len(self.buffer) > BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffer. Blocks while the reader of a pipe does not read.

        Raises:
            OSError: The disk is full, or the reader has closed the pipe.
        """
        while self.buffer:
            del self.buffer[: os.write(self._descriptor, self.buffer)]

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)


def as_text(entry: Entry, color: bool) -> str:
    """Return an entry as one or two lines of text, and a line for each breach."""
    seconds, milliseconds = divmod(round(entry.time * 1000), 1000)
    clock = time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{milliseconds:03}"
    if entry.kind == "note":
        return styled(f"{clock} {printable(entry.message)}\n", "dim", color)
    details = f"{INDENT}{entry.size} B"
    if entry.seconds is not None:
        details += f" after {entry.seconds * 1000:.1f} ms"
    if entry.purpose:
        details += f": {printable(entry.purpose)}"
    style = "cyan" if entry.direction == "-->" else "green"
    lines = [styled(printable(f"{clock} host {entry}"), style, color), details]
    for row, sentence in entry.breaches:
        lines.append(styled(f"{INDENT}! {row}: {printable(sentence)}", "bold", color))
    return "\n".join(lines) + "\n"
