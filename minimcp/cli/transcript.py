"""Messages as a person reads them: who says it, what it is, the shortened JSON, what it means."""

from __future__ import annotations

import json
import textwrap
import threading
from typing import Any, Callable, Mapping, Sequence, Union

from .screen import styled

WIDTH = 79
"""Columns of everything printed, whatever the terminal has: the README shows the same lines."""

INDENT = " " * 6

MOST_LINES = 5
"""Lines that one message may take."""

DETAIL = ((7, 9, 70), (7, 2, 50), (6, 2, 40), (5, 1, 40), (4, 1, 40), (3, 1, 30), (2, 1, 30))
"""How much to show, most first: nesting, items of a list, characters of a text. The first that fits is taken."""

Sentence = Union[str, Sequence[str]]
"""What a message means. Of several, each next message of the kind gets the next, and the last one repeats."""


class Recorder:
    """Collects what a connection sends and receives: given to `connect` as ``trace=``. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._messages: list[tuple[str, Any]] = []

    def __call__(self, arrow: str, text: str) -> None:
        with self._changed:
            self._messages.append((arrow, json.loads(text)))
            self._changed.notify_all()

    def take(self) -> list[tuple[str, Any]]:
        """What was collected since the last time."""
        with self._changed:
            taken, self._messages = self._messages, []
        return taken

    def wait_for(self, method: str, seconds: float) -> bool:
        """Wait until a message of this method was collected; False when none was in time."""
        with self._changed:
            return self._changed.wait_for(lambda: any(m.get("method") == method for _, m in self._messages), seconds)


class Transcript:
    """Writes messages out. For one thread.

    Args:
        write: Called with each line.
        colour: Whether lines may be in colour.
    """

    def __init__(self, write: Callable[[str], None], colour: bool) -> None:
        self._write, self._colour, self._begun = write, colour, False
        self._methods: dict[tuple[str, Any], str] = {}
        """What was asked, by the answer's arrow and the number, which both sides choose by themselves."""
        self._met: set[str] = set()
        """Kinds of messages of this connection whose ``_meta`` was shown in full."""

    def heading(self, title: str) -> None:
        """A line that stands out, below an empty one unless it is the first."""
        if self._begun:
            self._write("")
        self._begun = True
        self._write(styled(title, "bold", self._colour))

    def text(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(text, WIDTH):
            self._write(line)

    def new_connection(self) -> None:
        """Ids begin anew, and what was long the first time is shown once more."""
        self._methods.clear()
        self._met.clear()

    def messages(self, messages: Sequence[tuple[str, Any]], meanings: Mapping[str, Sentence]) -> None:
        """Write messages, each with what it means.

        Args:
            messages: Pairs of an arrow and a message.
            meanings: Sentences by label: a method, or "answer to" and a method.
        """
        seen: dict[str, int] = {}
        for arrow, message in messages:
            label = self._label(arrow, message)
            seen[label] = seen.get(label, 0) + 1
            self._message(arrow, label, message, _sentence(meanings.get(label, ""), seen[label]))

    def _label(self, arrow: str, message: Mapping[str, Any]) -> str:
        method, id = message.get("method"), message.get("id")
        if method is None:
            return f"answer to {self._methods.get((arrow, id), 'what nobody asked')}"
        if id is not None:
            self._methods["<--" if arrow == "-->" else "-->", id] = method
        return str(method)

    def _message(self, arrow: str, label: str, message: Mapping[str, Any], meaning: str) -> None:
        what = f"no. {message['id']}" if "id" in message else "notification"
        kind = "message" if "method" in message else "answer"
        style = "cyan" if arrow == "-->" else "green"
        self._write("")
        self._write("  " + styled(f"client {arrow} server", style, self._colour) + f"   {label} ({what})")
        for line in _shortened(message, in_full=kind not in self._met):
            self._write(INDENT + styled(line, "dim", self._colour))
        self._met.add(kind)
        for line in textwrap.wrap(meaning, WIDTH - len(INDENT)):
            self._write(INDENT + line)


def _sentence(meaning: Sentence, number: int) -> str:
    return meaning if isinstance(meaning, str) else meaning[min(number, len(meaning)) - 1]


def _shortened(message: Mapping[str, Any], *, in_full: bool) -> list[str]:
    """A message as a few lines of JSON, with ... for what was left out."""
    lines: list[str] = []
    for nesting, items, characters in DETAIL:
        lines = textwrap.wrap(
            _shorten(message, nesting, items, characters, in_full), WIDTH - len(INDENT),
            break_long_words=False, break_on_hyphens=False,
        )
        if len(lines) <= MOST_LINES:
            break
    return lines


def _shorten(value: Any, nesting: int, items: int, characters: int, in_full: bool) -> str:
    if isinstance(value, dict):
        if not nesting:
            return "{...}" if value else "{}"
        return _object(value, nesting - 1, items, characters, in_full)
    if isinstance(value, list):
        if not nesting:
            return "[...]" if value else "[]"
        parts = [_shorten(each, nesting - 1, items, characters, in_full) for each in value[:items]]
        return "[" + ", ".join(parts + ["..."] * (len(value) > items)) + "]"
    if isinstance(value, str) and len(value) > characters:
        value = value[:characters] + "..."
    return json.dumps(value)


def _object(value: Mapping[str, Any], nesting: int, items: int, characters: int, in_full: bool) -> str:
    parts = []
    for name, member in value.items():
        if name == "_meta" and not in_full:
            token = [f'"progressToken": {member["progressToken"]}'] if "progressToken" in member else []
            shown = "{" + ", ".join([*token, "..."]) + "}"
        elif name == "requestState":
            shown = '"..."'  # signed: another one each time
        else:
            shown = _shorten(member, nesting, items, characters, in_full)
        parts.append(f'"{name}": {shown}')
    return "{" + ", ".join(parts) + "}"
