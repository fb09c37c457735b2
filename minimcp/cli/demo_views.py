"""The output of ``minimcp demo``: messages in a column, two revisions side by side, and a page
for a projector."""

from __future__ import annotations

import html
import json
import pkgutil
import shutil
import textwrap
from itertools import zip_longest
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from ..testing import Entry
from .terminal import styled

# Columns of the output. It does not depend on the terminal, because the README shows these lines.
WIDTH = 79

INDENT = " " * 6

# Maximum number of lines for the JSON of one message.
MAX_LINES = 5

# Maximum nesting, list items and characters of a string that are shown of a message. The first
# entry with which the message fits into `MAX_LINES` is used.
DETAIL = ((7, 9, 70), (7, 2, 50), (6, 2, 40), (5, 1, 40), (4, 1, 40), (3, 1, 30), (2, 1, 30))

# Columns of the output of two revisions side by side, if the terminal has as many.
MIN_COLUMNS = 79
MAX_COLUMNS = 159
GAP = "   "


class Message(NamedTuple):
    """A message of a chapter."""

    entry: Entry
    explanation: str
    in_full: bool
    """Whether the message's ``_meta`` is shown."""

    @property
    def label(self) -> str:
        """The method, or the method that this responds to."""
        return (
            self.entry.method
            if "method" in self.entry.message
            else f"response to {self.entry.method}"
        )


class Chapter(NamedTuple):
    """A chapter as it is shown."""

    number: int
    title: str
    introduction: str
    messages: list[Message]


def print_wrapped(*texts: str, indent: str = "") -> None:
    """Print paragraphs, wrapped to `WIDTH` columns."""
    for text in texts:
        print(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent))


def print_message(message: Message, color: bool) -> None:
    """Print a message and its explanation."""
    entry = message.entry
    number = f"no. {entry.message['id']}" if "id" in entry.message else "notification"
    style = "cyan" if entry.direction == "-->" else "green"
    arrow = styled(f"client {entry.direction} server", style, color)
    print(f"\n  {arrow}   {message.label} ({number})")
    for line in shortened(entry.message, in_full=message.in_full):
        print(INDENT + styled(line, "dim", color))
    print_wrapped(message.explanation, indent=INDENT)


def shortened(
    message: Mapping[str, Any],
    *,
    in_full: bool,
    width: int = WIDTH - len(INDENT),
    max_lines: int = MAX_LINES,
) -> list[str]:
    """Return a message as at most ``max_lines`` lines of JSON, with ... for omitted parts.

    Args:
        message: The message.
        in_full: Whether to show its ``_meta``.
        width: The columns of a line. A longer word has a line of its own.
        max_lines: The number of lines above which parts are omitted.
    """
    lines: list[str] = []
    for nesting, items, characters in DETAIL:
        text = _shorten(message, nesting, items, characters, in_full)
        lines = textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        if len(lines) <= max_lines:
            break
    return lines


def _shorten(value: Any, nesting: int, items: int, characters: int, in_full: bool) -> str:
    if isinstance(value, str) and len(value) > characters:
        return json.dumps(value[:characters] + "...")
    if not value or not isinstance(value, (dict, list)):
        return json.dumps(value)
    if not nesting:
        return "{...}" if isinstance(value, dict) else "[...]"
    if isinstance(value, list):
        parts = [_shorten(each, nesting - 1, items, characters, in_full) for each in value[:items]]
        return "[" + ", ".join(parts + ["..."] * (len(value) > items)) + "]"
    parts = []
    for name, member in value.items():
        if name == "requestState":
            text = '"..."'  # its signature differs each time
        elif name == "_meta" and not in_full:
            token = ""
            if "progressToken" in member:
                token = f'"progressToken": {member["progressToken"]}, '
            text = f"{{{token}...}}"
        else:
            text = _shorten(member, nesting - 1, items, characters, in_full)
        parts.append(f'"{name}": {text}')
    return "{" + ", ".join(parts) + "}"


# ------------------------------------------------------------ two revisions


def print_columns(
    revisions: Sequence[str], columns: Sequence[Sequence[Entry]], color: bool
) -> None:
    """Print the messages of two revisions side by side, in as many columns as the terminal has."""
    available = shutil.get_terminal_size((MAX_COLUMNS, 24)).columns - 1
    width = (max(MIN_COLUMNS, min(available, MAX_COLUMNS)) - len(GAP)) // 2
    _print_row([[revision] for revision in revisions], ["bold", "bold"], width, color)
    for entries in zip_longest(*columns):
        print()
        cells = [_cell(entry, width) if entry is not None else [] for entry in entries]
        styles = ["cyan" if entry and entry.direction == "-->" else "green" for entry in entries]
        _print_row(cells, styles, width, color)


def _cell(entry: Entry, width: int) -> list[str]:
    label = Message(entry, "", True).label
    arrow = f"client {entry.direction} server  {label}"
    head = textwrap.wrap(arrow, width)
    return head + shortened(entry.message, in_full=False, width=width, max_lines=9)


def _print_row(
    cells: Sequence[Sequence[str]], styles: Sequence[str], width: int, color: bool
) -> None:
    """Print cells beside each other. Only the first line of a cell has a style."""
    for number, lines in enumerate(zip_longest(*cells, fillvalue="")):
        parts = [
            styled(line[:width].ljust(width), style if number == 0 else "dim", color)
            for line, style in zip(lines, styles)
        ]
        print(GAP.join(parts).rstrip())


# ------------------------------------------------------------ a page for a projector


def write_slides(
    path: str, title: str, introduction: Sequence[str], chapters: Iterable[Chapter]
) -> None:
    """Write a page that shows one chapter at a time and one message after the other.

    Raises:
        OSError: The file cannot be written.
    """
    sections = [_section(title, introduction, ())]
    for chapter in chapters:
        heading = f"{chapter.number}. {chapter.title}"
        sections.append(_section(heading, [chapter.introduction], chapter.messages))
    template = (pkgutil.get_data(__package__, "demo_views.html") or b"").decode()
    with open(path, "w", encoding="utf-8") as file:
        file.write(template.replace("<!-- chapters -->", "\n".join(sections)))


def _section(heading: str, texts: Sequence[str], messages: Sequence[Message]) -> str:
    lines = ["<section>", f"<h1>{html.escape(heading)}</h1>"]
    lines += [f"<p>{html.escape(text)}</p>" for text in texts]
    lines += [_article(message) for message in messages]
    return "\n".join([*lines, "</section>"])


def _article(message: Message) -> str:
    entry = message.entry
    way = "right" if entry.direction == "-->" else "left"
    number = f"no. {entry.message['id']}" if "id" in entry.message else "notification"
    text = " ".join(shortened(entry.message, in_full=message.in_full, width=100, max_lines=7))
    return (
        f'<article class="{way} {entry.kind}">'
        f"<h2><i></i><b>{html.escape(message.label)}</b> <small>{number}</small></h2>"
        f"<pre>{html.escape(text)}</pre><p>{html.escape(message.explanation)}</p></article>"
    )
