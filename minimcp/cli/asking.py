"""A server's questions, put to the user at the terminal: form fields one by one."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Mapping, Optional

from .. import Answer, ElicitRequest
from ..client.own_calls import nothing
from ..schema.check import compile_check
from .ending import UsageError
from .listing import kind
from .screen import clean, one_line, say
from .values import CHOICES, read_texts

YES = ("y", "yes")

_TRUTH = {"y": "yes", "n": "no"}
"""What a command line does not take for a boolean, and a user at a terminal types."""


class _EndOfInput(Exception):
    """The user has closed the input: Ctrl-D."""


class Asker:
    """Given to `connect` as ``elicit=``. Thread-safe: it asks one question at a time.

    What it says goes to stderr, because stdout is for the result. Where stdin is no terminal, it declines.

    Args:
        before: Called first: leaves a line that is being redrawn.
    """

    def __init__(self, before: Callable[[], None] = nothing) -> None:
        self._before = before
        self._terminal_lock = threading.Lock()

    def __call__(self, request: ElicitRequest) -> Answer:
        with self._terminal_lock:
            self._before()
            name = request.server.name if request.server is not None else "the server"
            _tell(f"{one_line(name)} asks: {clean(request.message)}")
            if sys.stdin is None or not sys.stdin.isatty():
                _tell("declined: stdin is no terminal at which to ask")
                return Answer("decline")
            try:
                return _ask(request)
            except _EndOfInput:
                _tell("\ncancelled")
                return Answer("cancel")


def _ask(request: ElicitRequest) -> Answer:
    if request.mode == "url":
        _tell(f"Open this yourself, if you trust {one_line(request.host or 'it')}:\n{one_line(request.url or '')}")
    schema = request.schema or {}
    fields = schema.get("properties") if request.mode == "form" else None
    if not isinstance(fields, Mapping) or not fields:
        agreed = _line("Agree? [y/N] ").lower() in YES
        return Answer("accept", {}) if agreed else Answer("decline")
    _tell("(Enter takes what stands in brackets, Ctrl-D cancels)")
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    content: dict[str, Any] = {}
    for field, described in fields.items():
        known = described if isinstance(described, Mapping) else {}
        value = _field(field, known, field in needed)
        if value is not None:
            content[field] = value
    return Answer("accept", content)


def _field(name: str, schema: Mapping[str, Any], needed: bool) -> Any:
    """What the user gives for one field; None for what may be left out, and is."""
    if isinstance(schema.get("description"), str):
        _tell(f"  {one_line(schema['description'])}")
    title = schema.get("title")
    shown = one_line(title if isinstance(title, str) else name)
    default = schema.get("default")
    in_brackets = f" [{_shown(default)}]" if default is not None else "" if needed else " []"
    while True:
        text = _line(f"  {shown} ({one_line(_choices(schema) or kind(schema))}){in_brackets}: ")
        if not text and (default is not None or not needed):
            return default
        if schema.get("type") == "boolean":
            text = _TRUTH.get(text.lower(), text)
        try:
            value = read_texts(name, _texts(text, schema), schema, {})
        except UsageError as error:
            _tell(f"  {one_line(str(error))}")
            continue
        problem = _problem(value, schema)
        if problem is None:
            return value
        _tell(f"  {one_line(problem)}")


def _texts(text: str, schema: Mapping[str, Any]) -> list[str]:
    """A list may be given as JSON, or as words with commas between them."""
    is_list = schema.get("type") == "array" and not text.startswith("[")
    return [part.strip() for part in text.split(",")] if is_list else [text]


def _choices(schema: Mapping[str, Any]) -> str:
    """Titled choices in words; empty when there are none."""
    listed = [each for word in CHOICES for each in schema.get(word) or () if isinstance(each, Mapping)]
    named = [f"{_shown(each['const'])} = {each.get('title', '?')}" for each in listed if "const" in each]
    items = schema.get("items")
    within = _choices(items) if isinstance(items, Mapping) else ""
    return ", ".join(named) or (f"some of {within}" if within else "")


def _problem(value: Any, schema: Mapping[str, Any]) -> Optional[str]:
    """Why the value does not fit; None when it does, or when only the server can tell."""
    try:
        return compile_check(dict(schema), where="the form")(value)
    except (ValueError, ImportError):
        return None


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return one_line(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _tell(text: str) -> None:
    if sys.stderr is not None:
        say(text, file=sys.stderr)
        sys.stderr.flush()


def _line(prompt: str) -> str:
    """One line that the user types.

    It is read from the descriptor: a thread that is left waiting in ``sys.stdin`` would keep the interpreter from
    ending after Ctrl-C.

    Raises:
        _EndOfInput: There is no more.
    """
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(sys.stdin.fileno(), 1)  # one at a time: what follows belongs to the next question
        if not more:
            raise _EndOfInput
        line += more
    return line.decode(sys.stdin.encoding or "utf-8", "replace").strip()
