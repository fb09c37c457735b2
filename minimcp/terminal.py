"""Functions for a host in a terminal: answer a server's questions, show progress and results.

`ask` is for ``connect(elicit=minimcp.terminal.ask)``, `ProgressBar` for ``on_progress=``. Questions
and progress go to stderr, because stdout is for results. A server can forge lines with control
sequences in its text. Print such text with `escape` or `one_line`.

https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
"""

from __future__ import annotations

import base64
import json
import mimetypes
import os
import re
import select
import shlex
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from datetime import date, datetime
from itertools import count
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence

from .text import json_printable, printable

if TYPE_CHECKING:
    from .types import Answer, ElicitRequest, Progress

__all__ = (
    "ProgressBar",
    "ask",
    "escape",
    "one_line",
    "print_stderr",
    "read_arguments",
    "read_line",
    "show",
)

# Words that stand for a value, if the schema does not allow a string.
WORDS = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
    "": None,
}

# The members of a number's schema that bound it, and the words for them.
BOUNDS = {
    "minimum": "from",
    "exclusiveMinimum": "above",
    "maximum": "up to",
    "exclusiveMaximum": "below",
}

# Names of "string" with a format.
FORMATS = {"date": "date", "time": "time", "date-time": "date and time"}

# Maximum number of consecutive ``$ref``; beyond it a schema counts as circular.
MAX_REFERENCES = 20

# Maximum number of alternatives of an ``anyOf`` or ``oneOf`` that are shown.
MAX_ALTERNATIVES = 8

# Characters inside the brackets of the progress bar.
BAR_WIDTH = 20

# Minimum interval between two progress lines if stderr is not a terminal.
PROGRESS_SECONDS = 1.0

STDIN = "-"

# Maximum characters of a progress line.
WIDTH = 79

# How often a form checks whether the terminal is free, and whether its question is still open.
POLL_SECONDS = 0.05

# Maximum size of an image that is drawn, in bytes. A larger one is saved.
MAX_DRAWN_BYTES = 4 * 1024 * 1024

# Maximum characters of one piece of an image in kitty's protocol.
KITTY_CHARACTERS = 4096

# Held while a form uses the terminal, because several questions may arrive at the same time.
_terminal = threading.Lock()

# Held while a line or a bar is written. Reentrant, because a signal handler may print.
_writing = threading.RLock()


def escape(text: str) -> str:
    """Escape the control characters in a server's text, except line feeds and tabs."""
    return printable(text, "\n\t")


def one_line(text: str) -> str:
    """Join the lines of a server's text with " | ", and escape control characters."""
    return escape(" | ".join(text.strip().splitlines())).replace("\t", " ")


def print_stderr(text: str) -> None:
    """Print text to stderr, if the process has one. An open `ProgressBar` stays below the text.

    Nothing is escaped, so pass text of a server through `one_line` or `escape`. Thread-safe.
    """
    if sys.stderr is None:
        return
    with _writing:
        bar = ProgressBar.newest._drawn if ProgressBar.newest is not None else ""
        above = "\r" + " " * len(bar) + "\r" if bar else ""
        sys.stderr.write(f"{above}{text}\n{bar}")
        sys.stderr.flush()


# ------------------------------------------------------------ progress


class ProgressBar:
    """A callback for ``on_progress`` that prints to stderr.

    On a terminal it redraws one line, but not while a form is open; elsewhere it prints at most
    one line per second. Not thread-safe.
    """

    # The bar that was drawn last. A form ends its line.
    newest: Optional[ProgressBar] = None

    def __init__(self) -> None:
        self._redraws = sys.stderr is not None and sys.stderr.isatty()
        # What the last line of the terminal has.
        self._drawn = ""
        self._line = ""
        self._shown = ""
        self._shown_at = float("-inf")

    def __call__(self, progress: Progress) -> None:
        ProgressBar.newest = self
        message = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            line = f"{progress.progress:g} {message}"
        else:
            fraction = min(1.0, max(0.0, progress.progress / progress.total))
            bar = ("#" * int(fraction * BAR_WIDTH)).ljust(BAR_WIDTH, ".")
            line = f"[{bar}] {fraction:4.0%} {message}"
        self._line = line.rstrip()[:WIDTH]
        if self._redraws:
            self._draw()
        elif time.monotonic() - self._shown_at >= PROGRESS_SECONDS:
            self._show()

    def _draw(self) -> None:
        with _writing:
            if not _terminal.locked():  # otherwise a form uses the terminal
                sys.stderr.write("\r" + self._line.ljust(len(self._drawn)))
                sys.stderr.flush()
                self._drawn = self._line

    def _show(self) -> None:
        if self._line != self._shown:
            print_stderr(self._line)
        self._shown = self._line
        self._shown_at = time.monotonic()

    def end(self) -> None:
        """End the redrawn line, or print the last line if it was held back. Idempotent."""
        if not self._redraws:
            self._show()
            return
        with _writing:
            is_drawn = bool(self._drawn)
            self._drawn = ""
            if is_drawn:
                print_stderr("")


# ------------------------------------------------------------ questions


def ask(request: ElicitRequest) -> Answer:
    """Ask the user a server's question: a function for ``elicit=`` of `connect`.

    The user fills in the form, field by field. Each value and its format are checked. The user is
    asked again for a wrong value. At the end the user reviews all values, and sends, edits or
    declines them. Ctrl-D cancels the question, and so does Ctrl-C. If the main thread is waiting
    for the call, Ctrl-C also cancels the call. After Ctrl-C, the next line that the user types goes
    to the program, not to the form. If stdin is not a terminal, the question is declined.

    Concurrent questions are asked one after the other. If the answer is no longer needed, because
    the call that asked has ended or its server was lost, the form ends before the call returns or
    raises. From then on, it neither prints nor reads.

    Args:
        request: The question.

    Thread-safe.
    """
    return fill(request, {})


def fill(request: ElicitRequest, given: Mapping[str, Any]) -> Answer:
    """Ask the user for the fields of a form that have no value yet; see `ask`.

    Args:
        request: The question.
        given: Values by field; the user is not asked for them.
    """
    from .types import Answer

    form = _Form(request)
    forget = request.on_cancel(form.withdraw)
    try:
        with form.uses_terminal():
            form.show(question_of(request))
            if sys.stdin is None or not sys.stdin.isatty():
                form.show("declined: stdin is not a terminal")
                return Answer("decline")
            return _fill(form, given)
    except (EOFError, _Withdrawn):
        pass  # the form has said so
    except KeyboardInterrupt:
        if threading.current_thread() is not threading.main_thread():
            os.kill(0, signal.SIGINT)  # to the process group, as the terminal would have done
    finally:
        forget()
    return Answer("cancel")


def question_of(request: ElicitRequest) -> str:
    """Return the text of a question, with the host's own name of the server if it has one."""
    name = request.connection or (request.server.name if request.server is not None else "")
    asked = f"{one_line(name or 'the server')} asks: {escape(request.message)}"
    return asked.replace("\n", "\n  ")


class _Withdrawn(Exception):
    """The answer to a question is no longer needed."""


class _Form:
    """A question in the terminal. Only one form uses the terminal at a time.

    `withdraw` takes the terminal from the form. It runs on the thread that ends the question, which
    is before the program continues. The form's own thread may be waiting for a key then. When it
    wakes, it neither prints nor reads, because the terminal belongs to the program again.

    While the form is open, Ctrl-C is a character of its input. As a signal it could reach the
    program after the form has read the next line, which the user typed for the program.

    Args:
        request: The question.
    """

    def __init__(self, request: ElicitRequest) -> None:
        self.request = request
        # Held while the form prints and reads. Reentrant, because a signal handler may withdraw it.
        self._lock = threading.RLock()
        self._is_shown = False
        self._is_withdrawn = False
        # The character of Ctrl-C; empty if Ctrl-C is a signal. And how the terminal was before.
        self._ctrl_c = b""
        self._settings: Any = None

    @contextmanager
    def uses_terminal(self) -> Iterator[None]:
        """Wait until no other form uses the terminal, and use it in the block.

        Raises:
            _Withdrawn: The question has ended before.
        """
        while not _terminal.acquire(timeout=POLL_SECONDS):
            self._check()
        try:
            self._check()
            if ProgressBar.newest is not None:
                ProgressBar.newest.end()
            with self._lock:
                self._check()
                self._take_ctrl_c()
            yield
        except (EOFError, KeyboardInterrupt):
            self._end("cancelled")
            raise
        finally:
            with self._lock:
                self._return_ctrl_c()
                self._is_shown = False
            _terminal.release()

    def _check(self) -> None:
        if self._is_withdrawn:
            raise _Withdrawn

    def show(self, text: str, end: str = "\n") -> None:
        """Print text to stderr. Raise _Withdrawn if the question has ended."""
        with self._lock:
            self._check()
            self._is_shown = True
            self._print(text, end)

    def _print(self, text: str, end: str = "\n") -> None:
        # Without the lock of `print_stderr`: a signal handler may withdraw the form inside it.
        if sys.stderr is not None:
            print(text, end=end, file=sys.stderr, flush=True)

    def read_line(self, prompt: str) -> str:
        """Print a prompt and return the line that the user types.

        Raises:
            EOFError: The user has closed the input with Ctrl-D.
            _Withdrawn: The question has ended. What the user was typing is dropped.
        """
        self.show(prompt, end="")
        return _read_line(self._read_byte)

    def _read_byte(self) -> bytes:
        if os.name == "nt":  # where nothing can wait for stdin except a thread that reads
            byte = os.read(sys.stdin.fileno(), 1)
            self._check()
            return byte
        while not _has_input(POLL_SECONDS):
            self._check()
        with self._lock:
            self._check()
            byte = os.read(sys.stdin.fileno(), 1)
        if byte and byte == self._ctrl_c:
            raise KeyboardInterrupt
        return byte

    def withdraw(self) -> None:
        """End the form. Say so if the user sees it, and drop half a line of input. Idempotent."""
        with self._lock:
            if self._is_shown:
                _drop_half_line()
            self._end("the question is no longer open")

    def _end(self, words: str) -> None:
        with self._lock:
            self._return_ctrl_c()
            if self._is_shown:
                self._print(f"\n{words}")
            self._is_shown = False
            self._is_withdrawn = True

    def _take_ctrl_c(self) -> None:
        """Let Ctrl-C end a line of input instead of sending a signal."""
        number = _own_terminal()
        if number is not None:
            import termios

            self._settings = termios.tcgetattr(number)
            changed = termios.tcgetattr(number)
            characters = changed[6]
            self._ctrl_c = characters[termios.VEOL] = characters[termios.VINTR]
            characters[termios.VINTR] = bytes([os.fpathconf(number, "PC_VDISABLE") & 0xFF])
            termios.tcsetattr(number, termios.TCSANOW, changed)

    def _return_ctrl_c(self) -> None:
        number = _own_terminal()
        settings = self._settings
        self._settings = None
        if number is not None and settings is not None:
            import termios

            with suppress(termios.error):  # the terminal may have been closed
                termios.tcsetattr(number, termios.TCSANOW, settings)


def _own_terminal() -> Optional[int]:
    """Return the descriptor of stdin if this process may change its terminal, or None.

    The system stops a background process that changes it.
    """
    with suppress(OSError, ValueError, AttributeError):  # such as no stdin, or Windows
        number = sys.stdin.fileno()
        if os.tcgetpgrp(number) == os.getpgrp():
            return number
    return None


def _has_input(seconds: float) -> bool:
    """Wait until a line, or the end of the input, can be read. Return False after this time."""
    return bool(select.select([sys.stdin.fileno()], [], [], seconds)[0])


def _drop_half_line() -> None:
    """Drop what the user has typed without Enter, which the terminal still holds.

    A whole line stays: after Ctrl-C, it is meant for the program.
    """
    number = _own_terminal()
    if number is not None and not _has_input(0):
        import termios

        termios.tcflush(number, termios.TCIFLUSH)


def _fill(form: _Form, given: Mapping[str, Any]) -> Answer:
    from .types import Answer

    request = form.request
    if request.mode == "url":
        host = one_line(request.host or "it")
        if request.host is not None and request.looks_odd:
            host += " (this name has non-ASCII letters and may imitate another)"
        form.show(f"Open this page if you trust {host}:\n{one_line(request.url or '')}")
    fields = properties(request.schema) if request.mode == "form" else {}
    if not fields:
        agreed = WORDS.get(form.read_line("Agree? [y/N] ").lower())
        return Answer("accept", {}) if agreed else Answer("decline")
    form.show("(press Enter for the value in brackets, Ctrl-D to cancel)")
    schema: Mapping[str, Any] = request.schema or {}
    values = {**request.defaults, **given}
    while True:
        for name in fields:
            if name not in given:
                values[name] = _ask_field(name, schema, values.get(name), form)
        filled = {name: values[name] for name in fields if values.get(name) is not None}
        action = _review(form, schema, filled)
        if action != "edit":
            return Answer(action, filled if action == "accept" else None)
        given = {}


def _review(form: _Form, schema: Mapping[str, Any], values: dict[str, Any]) -> str:
    """Show the values. Return what the user wants: "accept", "decline" or "edit"."""
    for name, value in values.items():
        shown = one_line(_shown(value, _choices(name, schema)))
        form.show(f"  {_label(name, schema)}: {shown}")
    try:
        if form.request.checker is not None:
            form.request.check(values)
    except (ValueError, TypeError) as error:
        form.show(f"  {one_line(str(error))}")
        return "edit"
    word = ""
    while word not in ("y", "yes", "n", "no", "e", "edit"):
        word = form.read_line("Send this? [Y/n/e] (n declines, e edits) ").lower() or "y"
    return {"y": "accept", "n": "decline", "e": "edit"}[word[0]]


def _label(name: str, schema: Mapping[str, Any]) -> str:
    title = _field(name, schema).get("title")
    return one_line(title if isinstance(title, str) else name)


def _field(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    field = properties(schema).get(name)
    return field if isinstance(field, Mapping) else {}


def _ask_field(name: str, schema: Mapping[str, Any], default: Any, form: _Form) -> Any:
    """Ask the user for one field of a form; return None if an optional field is left out."""
    field = _field(name, schema)
    choices = _choices(name, schema)
    is_list = field.get("type") == "array"
    is_required = name in required(schema)
    if isinstance(field.get("description"), str):
        form.show(f"  {one_line(field['description'])}")
    for number, (value, title) in enumerate(choices, 1):
        shown = _shown(value)
        form.show(f"    {number}. {one_line(shown if title == shown else f'{title} ({shown})')}")
    hint = one_line(kind(field) + _bounds(field))
    if field.get("type") == "boolean":
        hint = "yes or no"
    elif choices:
        hint = f"1 to {len(choices)}, several with commas" if is_list else f"1 to {len(choices)}"
    prompt = f"{_label(name, schema)} ({hint})"
    if default is not None:
        prompt += f" [{one_line(_shown(default, choices))}]"
    elif not is_required:
        prompt += " []"
    while True:
        text = form.read_line(f"  {prompt}: ")
        if not text and (default is not None or not is_required):
            return default
        texts = [text]
        if is_list and not text.startswith("["):
            texts = [item.strip() for item in text.split(",")]
        try:
            if choices and not (is_list and text.startswith("[")):
                chosen = [_chosen(each, choices) for each in texts]
                return chosen if is_list else chosen[0]
            return check_format(name, _value(name, texts, schema), field)
        except ValueError as error:
            problem = str(error)
            if problem.startswith(f"{name}:"):  # the user knows the field by its label
                problem = f"{_label(name, schema)}{problem[len(name) :]}"
            form.show(f"  {one_line(problem)}")


def _choices(name: str, form: Mapping[str, Any]) -> list[tuple[Any, str]]:
    """Return the values that a field allows, each with its title; empty if it is not a choice."""
    field = _field(name, form)
    items = field.get("items") if field.get("type") == "array" else field
    if not isinstance(items, Mapping):
        return []
    values = items.get("enum")
    if isinstance(values, list):
        titles = items.get("enumNames")
        if not isinstance(titles, list) or len(titles) != len(values):
            titles = values
        return [(value, _shown(title)) for value, title in zip(values, titles)]
    for word in ("oneOf", "anyOf"):
        each = items.get(word)
        if isinstance(each, list) and all(
            isinstance(one, Mapping) and "const" in one for one in each
        ):
            return [(one["const"], _shown(one.get("title", one["const"]))) for one in each]
    return []


def _chosen(text: str, choices: Sequence[tuple[Any, str]]) -> Any:
    """Return the choice that a text names by its value, title or number. Raise ValueError if there
    is none."""
    for value, _ in choices:
        if text == _shown(value):
            return value
    for number, (value, title) in enumerate(choices, 1):
        if text.casefold() == title.casefold() or text == str(number):
            return value
    raise ValueError(f"{text!r:.60} is not a choice: type a number from 1 to {len(choices)}")


def _shown(value: Any, choices: Sequence[tuple[Any, str]] = ()) -> str:
    for each, title in choices:
        if each == value:
            return title
    if isinstance(value, list):
        return ", ".join(_shown(each, choices) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# For each format that is checked: an example, and what a value looks like.
EXAMPLES = {
    "date": ("1999-12-31", r"\d{4}-\d\d-\d\d"),
    "date-time": (
        "1999-12-31T09:30:00Z",
        r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)",
    ),
    "email": ("ada@example.org", r"[^@\s]+@[^@\s]+"),
    "uri": ("https://example.org/", r"[A-Za-z][A-Za-z0-9+.-]*:\S+"),
}


def check_format(name: str, value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a value. Raise ValueError if it does not have the format that its schema names."""
    example, pattern = EXAMPLES.get(str(schema.get("format")), ("", ".*"))
    if not isinstance(value, str) or not example:
        return value
    fits = re.fullmatch(pattern, value) is not None
    if fits and schema["format"] in ("date", "date-time"):
        try:
            date.fromisoformat(value[:10])
            datetime.strptime(value[11:19] or "00:00:00", "%H:%M:%S")
        except ValueError:
            fits = False
    if not fits:
        raise ValueError(f"{name}: expected a value such as {example}, got {value!r:.60}")
    return value


def read_line(prompt: str) -> str:
    """Print a prompt to stderr, and return the line that the user types.

    It reads from the descriptor, because a thread that waits in ``sys.stdin`` would prevent the
    interpreter from exiting after Ctrl-C.

    Args:
        prompt: The prompt.

    Raises:
        EOFError: The user has closed the input with Ctrl-D.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return _read_line(lambda: os.read(sys.stdin.fileno(), 1))


def _read_line(read_byte: Callable[[], bytes]) -> str:
    """Return a line of stdin. `read_byte` returns the next byte, or nothing at the end."""
    line = b""
    while not line.endswith(b"\n"):
        # One byte at a time: the next line belongs to the next question.
        byte = read_byte()
        if not byte:
            raise EOFError
        line += byte
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()


# ------------------------------------------------------------ results


def show(result: Any, folder: Optional[str] = None) -> None:
    """Print a result on stdout: text, images, and what else it contains.

    On a terminal that can draw images (kitty, Ghostty, iTerm2, WezTerm, mintty), an image is drawn.
    Other images, audio and other bytes are saved, and the path is printed. If stdout is not a
    terminal, text is printed as the server has sent it, for another program.

    Args:
        result: A `CallToolResult`, `ReadResourceResult`, `GetPromptResult`, a content block, or a
            list of these.
        folder: The folder for files; None means a new temporary folder.

    Raises:
        OSError: The folder cannot be written to.
    """
    if isinstance(result, (list, tuple)):
        for each in result:
            show(each, folder)
    elif hasattr(result, "messages"):
        for message in result.messages:
            print(f"{escape(message.role)}:")
            show(message.content, folder)
    elif hasattr(result, "is_error") or hasattr(result, "contents"):
        if getattr(result, "is_error", False):
            print("The tool failed:")
        blocks = result.contents if hasattr(result, "contents") else result.content
        show(blocks, folder)
        if not blocks and result.has_structured_content:
            print(as_json(result.structured_content))
    elif isinstance(getattr(result, "data", None), bytes):
        drawn = _drawn(result) if sys.stdout.isatty() else ""
        if drawn:
            print(drawn)
        else:
            import tempfile

            path = save(result, folder or tempfile.mkdtemp(prefix="minimcp-"))
            print(f"{block_text(result)} {path}")
    else:
        print(block_text(result))


def block_text(block: Any) -> str:
    """Return the text of a content block, or its type, URI and size if it is not text."""
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return escape(text) if sys.stdout.isatty() else text
    details = [
        getattr(block, "type", "content"),
        getattr(block, "uri", None),
        getattr(block, "mime_type", None),
    ]
    data = getattr(block, "data", None)
    if isinstance(data, bytes):
        details.append(f"{len(data)} bytes")
    return escape(f"[{', '.join(str(detail) for detail in details if detail)}]")


def save(block: Any, folder: str) -> str:
    """Write the bytes of a content block to a new file in a folder. Return its path."""
    os.makedirs(folder, exist_ok=True)
    suffix = mimetypes.guess_extension(getattr(block, "mime_type", None) or "") or ".bin"
    for number in count(1):
        # The server must not choose the names of local files.
        kind_of = getattr(block, "type", "resource")
        path = os.path.join(folder, f"{kind_of}-{number}{suffix}")
        with suppress(FileExistsError), open(path, "xb") as file:
            file.write(block.data)
            break
    return path


def _drawn(block: Any) -> str:
    """Return the control sequence that draws an image; empty if this terminal cannot."""
    kind_of = getattr(block, "mime_type", None) or ""
    term = os.environ.get("TERM", "")
    program = os.environ.get("TERM_PROGRAM", "")
    is_multiplexed = term.startswith(("screen", "tmux"))
    if is_multiplexed or not kind_of.startswith("image/") or len(block.data) > MAX_DRAWN_BYTES:
        return ""
    data = base64.b64encode(block.data).decode()
    if program in ("iTerm.app", "WezTerm", "mintty"):
        return f"\x1b]1337;File=inline=1;size={len(block.data)}:{data}\a"
    is_kitty = "KITTY_WINDOW_ID" in os.environ or term in ("xterm-kitty", "xterm-ghostty")
    if not is_kitty or kind_of != "image/png":
        return ""
    starts = range(0, len(data), KITTY_CHARACTERS)
    pieces = []
    for start in starts:
        settings = "" if start else "a=T,f=100,"
        follows = int(start != starts[-1])
        piece = data[start : start + KITTY_CHARACTERS]
        pieces.append(f"\x1b_G{settings}m={follows};{piece}\x1b\\")
    return "".join(pieces)


def as_json(value: Any) -> str:
    """Return indented JSON for a terminal.

    Control characters are escaped, and so is what the encoding of stdout cannot represent.
    """
    has_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    text = json.dumps(value, indent=2, ensure_ascii=not has_unicode)
    return json_printable(text)


# ------------------------------------------------------------ arguments as words


def read_arguments(pairs: Sequence[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that ``key=value``, ``key:=JSON`` and ``key=@FILE`` stand for.

    Args:
        pairs: The arguments as typed. ``a=1 a=2`` makes a list. With ``:=`` or ``=@``, the last
            one replaces the others.
        schema: The tool's input schema. A value that it does not describe is parsed as JSON if
            possible, and otherwise is a string. A file's content is text, or base64 of its bytes
            if the schema says so; ``@-`` is stdin.

    Raises:
        ValueError: An argument has no "=", a value does not match the schema, or a file cannot
            be read.
    """
    texts: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for pair in pairs:
        if isinstance(_json_or_text(pair), dict):
            raise ValueError(f"{pair!r} is JSON, not key=value: write --json {shlex.quote(pair)}")
        name, text = split_pair(pair)
        if name.endswith(":"):
            name, text = split_pair(f"{name[:-1]}={text}")
            values[name] = _json(name, text)
        elif text.startswith("@"):
            values[name] = _from_file(name, text[1:], schema)
        else:
            texts.setdefault(name, []).append(text)
    return {**{name: _value(name, given, schema) for name, given in texts.items()}, **values}


def _json(name: str, text: str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}:={text} is not valid JSON: {error}") from None


def _from_file(name: str, path: str, schema: Mapping[str, Any]) -> Any:
    """Return the content of a file as the value of one argument."""
    try:
        source = 0 if path == STDIN else os.path.expanduser(path)
        with open(source, "rb", closefd=path != STDIN) as file:
            data = file.read()
    except OSError as error:
        literal = shlex.quote(f'{name}:="@{path}"')
        raise ValueError(
            f"{name}=@{path}: {error.strerror} (for the text itself write {literal})"
        ) from None
    field = _resolved(properties(schema).get(name), schema)
    if field.get("contentEncoding") == "base64" or field.get("format") in ("byte", "base64"):
        return base64.b64encode(data).decode()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(
            f"{name}=@{path}: the file is not UTF-8, and the schema of {name} does not ask for "
            "base64"
        ) from None
    return text if field.get("type") in ("string", None) else _value(name, [text], schema)


def split_pair(pair: str) -> tuple[str, str]:
    """Split ``key=value``.

    Raises:
        ValueError: There is no "=", or the key is empty.
    """
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise ValueError(f"{pair!r} is not key=value, as in name=Ada")
    return name, text


def _value(name: str, texts: Sequence[str], schema: Mapping[str, Any]) -> Any:
    """Return the first interpretation of the texts that the schema accepts for this argument.

    Raises:
        ValueError: The schema accepts none.
    """
    from .schema.checker import compile_peer_check

    decoded = [_json_or_text(text) for text in texts]
    words = [WORDS[text.lower()] for text in texts if text.lower() in WORDS]
    readings: list[Any] = [decoded, list(texts), words]
    if len(texts) == 1:
        readings = [decoded[0], texts[0], *words, *readings]
    root = {word: schema[word] for word in ("$schema", "$defs", "definitions") if word in schema}
    try:
        field = {name: properties(schema).get(name, True)}
        check = compile_peer_check({**root, "properties": field}, where="the schema")
    except (ValueError, ImportError):  # only the server can check the value
        return readings[0]
    for value in readings:
        if check({name: value}) is None:
            return value
    raise ValueError(str(check({name: readings[0]})))


def _json_or_text(text: str) -> Any:
    try:
        return loads(text)
    except (ValueError, RecursionError):
        return text


def loads(text: str) -> Any:
    """Return the value of a JSON text. Raise ValueError if it is not JSON."""
    value = json.loads(text)
    json.dumps(value, allow_nan=False)  # NaN and Infinity are not valid JSON
    return value


# ------------------------------------------------------------ summaries of a schema


def properties(schema: Any) -> Mapping[str, Any]:
    """Return the schemas of an object's fields, by name."""
    value = schema.get("properties") if isinstance(schema, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def required(schema: Any) -> list[str]:
    """Return the names of an object's required fields."""
    value = schema.get("required") if isinstance(schema, Mapping) else None
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def parameters(schema: Any, root: Mapping[str, Any], deep: bool = True, max_depth: int = 8) -> str:
    """Return the fields of an object in Python's syntax: ``bread: string, loaves: integer = 1,
    [note: string]``.

    Args:
        schema: The schema of the object.
        root: The schema that references point into.
        deep: Whether to show the fields of nested objects.
        max_depth: Maximum number of levels, because a schema may be circular.
    """
    fields = []
    for name, field in properties(schema).items():
        text = f"{name}: {kind(field, root, deep, max_depth)}{_bounds(_resolved(field, root))}"
        if isinstance(field, Mapping) and "default" in field:
            text += f" = {json.dumps(field['default'], ensure_ascii=False)}"
        elif name not in required(schema):
            text = f"[{text}]"
        fields.append(text)
    return ", ".join(fields)


def kind(schema: Any, root: Mapping[str, Any] = {}, deep: bool = True, max_depth: int = 8) -> str:
    """Summarize a schema: "string", "integer or null", "one of 1, 2", '"s" = Small or "l" = Large'.

    Return "any" if there is no short summary. See `parameters` for the arguments.
    """
    schema = _resolved(schema, root) if max_depth else {}
    if isinstance(schema.get("enum"), list):
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        return f"one of {values}"
    if "const" in schema:
        title = f" = {schema['title']}" if "title" in schema else ""
        return json.dumps(schema["const"], ensure_ascii=False) + title
    for word in ("anyOf", "oneOf"):
        alternatives = schema.get(word)
        if isinstance(alternatives, list):
            # Three levels less, because each alternative may be the whole schema again.
            names = [
                kind(each, root, deep, max(max_depth - 3, 0))
                for each in alternatives[:MAX_ALTERNATIVES]
            ]
            if len(alternatives) > MAX_ALTERNATIVES:
                names.append("...")
            return " or ".join(names) or "any"
    named = schema.get("type")
    if isinstance(named, list):
        return " or ".join(map(str, named))
    if named == "array" and isinstance(schema.get("items"), Mapping):
        return f"array of {kind(schema['items'], root, deep, max_depth - 1)}"
    if deep and properties(schema):
        return f"object ({parameters(schema, root, False, max_depth - 1)})"
    if named == "string":
        return FORMATS.get(str(schema.get("format")), "string")
    return named if isinstance(named, str) else "any"


def _bounds(schema: Mapping[str, Any]) -> str:
    """Return the bounds of a number: " 1 to 9", " from 1", " below 5"; "" if it has none."""
    found = {
        word: json.dumps(schema[member])
        for member, word in BOUNDS.items()
        if type(schema.get(member)) in (int, float)
    }
    if list(found) == ["from", "up to"]:
        return f" {found['from']} to {found['up to']}"
    return "".join(f" {word} {bound}" for word, bound in found.items())


def _resolved(schema: Any, root: Any) -> Mapping[str, Any]:
    """Follow a schema's local references; return {} if there is no schema at their end."""
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = root if reference.startswith("#/") else None
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, Mapping) else None
    return {}
