"""The terminal: JSON to read, colour, a progress bar, and a server's questions put to the user."""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, Callable, Mapping, Optional

from .. import Answer, ElicitRequest, Progress
from ..schema.checker import compile_check
from . import UsageError, clean, one_line, tell
from .values import kind, properties, read_texts, required

STYLES = {"bold": "1", "dim": "2", "green": "32", "cyan": "36"}

CELLS = 20
"""Length of the progress bar."""

WIDTH = 79


def as_json(value: Any, indent: Optional[int] = 2) -> str:
    """JSON for a person: only what the terminal would obey or cannot show is escaped.

    Args:
        value: What `json.dumps` takes.
        indent: As of `json.dumps`.
    """
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    text = "".join([c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text])
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(value, indent=indent)
    return text


def wants_colour(stream: Any) -> bool:
    """Whether to print in colour: on a terminal that has it, unless NO_COLOR says otherwise."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or os.name == "nt":
        return False
    return bool(stream is not None and stream.isatty())


def styled(text: str, style: str, colour: bool) -> str:
    """The text in a style of `STYLES`, or as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if colour else text


class ProgressBar:
    """Given to a call as ``on_progress``: redrawn on a terminal, a line per step elsewhere. For one thread.

    Args:
        quiet: True draws nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet or sys.stderr is None
        self._redraws = not self._quiet and sys.stderr.isatty()
        self._drawn = ""

    def __call__(self, progress: Progress) -> None:
        drawn = one_line(progress.message or "")
        if progress.total is None or progress.total <= 0:
            drawn = f"{progress.progress:g} {drawn}"
        else:
            share = min(1.0, max(0.0, progress.progress / progress.total))
            drawn = f"[{('#' * int(share * CELLS)).ljust(CELLS, '.')}] {share:4.0%} {drawn}"
        drawn = drawn.rstrip()[:WIDTH]
        if self._quiet or drawn == self._drawn:
            return
        if self._redraws:
            sys.stderr.write("\r" + drawn.ljust(len(self._drawn)))
            sys.stderr.flush()
        else:
            tell(drawn)
        self._drawn = drawn

    def end(self) -> None:
        """Leave the line that was redrawn. Idempotent."""
        if self._redraws and self._drawn:
            tell("")
            self._drawn = ""


class Asker:
    """Given to `connect` as ``elicit=``: asks for the fields of a form one by one, and one question at a time.

    What it says goes to stderr, because stdout is for the result. Where stdin is no terminal, it declines.

    Thread safety: any thread may call it.

    Args:
        before: Called first: leaves a line that is being redrawn.
    """

    def __init__(self, before: Callable[[], object] = int) -> None:
        self._before = before
        self._terminal_lock = threading.Lock()

    def __call__(self, request: ElicitRequest) -> Answer:
        with self._terminal_lock:
            self._before()
            name = request.server.name if request.server is not None else "the server"
            tell(f"{one_line(name)} asks: {clean(request.message)}")
            if sys.stdin is None or not sys.stdin.isatty():
                tell("declined: stdin is no terminal at which to ask")
                return Answer("decline")
            try:
                return _ask(request)
            except EOFError:
                tell("\ncancelled")
                return Answer("cancel")


def _ask(request: ElicitRequest) -> Answer:
    if request.mode == "url":
        tell(f"Open this yourself, if you trust {one_line(request.host or 'it')}:\n{one_line(request.url or '')}")
    fields = properties(request.schema) if request.mode == "form" else {}
    if not fields:
        agreed = _read_line("Agree? [y/N] ").lower() in ("y", "yes")
        return Answer("accept", {}) if agreed else Answer("decline")
    tell("(Enter takes what stands in brackets, Ctrl-D cancels)")
    needed = required(request.schema)
    given = {name: _ask_field(name, field, name in needed) for name, field in fields.items()}
    return Answer("accept", {name: value for name, value in given.items() if value is not None})


def _ask_field(name: str, given: Any, needed: bool) -> Any:
    """What the user gives for one field; None for an optional one that is left out."""
    schema: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    if isinstance(schema.get("description"), str):
        tell(f"  {one_line(schema['description'])}")
    title = schema.get("title")
    default = schema.get("default")
    shown = one_line(f"{title if isinstance(title, str) else name} ({_choices(schema) or kind(schema)})")
    in_brackets = f" [{one_line(_shown(default))}]" if default is not None else "" if needed else " []"
    while True:
        text = _read_line(f"  {shown}{in_brackets}: ")
        if not text and (default is not None or not needed):
            return default
        texts = [text]
        if schema.get("type") == "boolean":
            texts = [{"y": "yes", "n": "no"}.get(text.lower(), text)]
        elif schema.get("type") == "array" and not text.startswith("["):
            texts = [part.strip() for part in text.split(",")]
        try:
            value = read_texts(name, texts, schema, {})
            problem = compile_check(dict(schema), where="the form")(value)
        except UsageError as error:
            problem = str(error)
        except (ValueError, ImportError):  # of the schema: only the server can tell whether the value fits
            return value
        if problem is None:
            return value
        tell(f"  {one_line(problem)}")


def _choices(schema: Mapping[str, Any]) -> str:
    """Titled choices in words; empty when there are none."""
    listed = [each for word in ("anyOf", "oneOf") for each in schema.get(word) or () if isinstance(each, Mapping)]
    named = [f"{_shown(each['const'])} = {each.get('title', '?')}" for each in listed if "const" in each]
    within = _choices(schema["items"]) if isinstance(schema.get("items"), Mapping) else ""
    return ", ".join(named) or (f"some of {within}" if within else "")


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_line(prompt: str) -> str:
    """One line that the user types.

    It is read from the descriptor: a thread that waits in ``sys.stdin`` would keep the interpreter from ending after
    Ctrl-C.

    Raises:
        EOFError: The user has closed the input: Ctrl-D.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(sys.stdin.fileno(), 1)  # one at a time: what follows belongs to the next question
        if not more:
            raise EOFError
        line += more
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()
