"""Front matter: the YAML that a ``SKILL.md`` begins with, read without a YAML package; and what it
has to say.

Read is what people write there, by the core schema of YAML 1.2: mappings and lists in lines or in
brackets, texts that are plain, quoted, literal (``|``) or folded (``>``), numbers, true, false and
null. Anything else, such as anchors, aliases, tags and directives, is refused: readers disagree
about it, and a few aliases can stand for gigabytes.

https://yaml.org/spec/1.2.2  https://agentskills.io/specification
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Mapping, NoReturn

from ..protocol.messages import Json
from ..text import one_line

# Characters up to the line that ends it, and how deep its values may nest.
LONGEST, DEEPEST = 64 * 1024, 16

# Characters of the name of a skill.
LONGEST_NAME = 64

# Not every reader of JSON has the same number for one of this size, and none for one of so many
# characters.
INEXACT, LONGEST_NUMBER = 2**53, 32

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|' + "'(?:[^']|'')*'", re.DOTALL)
_KEY = re.compile(rf" *({_QUOTED.pattern}|[A-Za-z0-9_$][^:#]*):(?=[ \t]|$)(.*)")
_ITEM = re.compile(r" *-(?: +|$)")
_BLOCK_TEXT = re.compile(r"([|>])([+-]?)(?:[ \t]+#.*)?")
_SPACE = re.compile(r"[ \t\n]*(?:(?<=[ \t\n])#[^\n]*[ \t\n]*)*")
_NO_PLAIN = re.compile(r"[\[\]{},#&*!|>'\"%@`]|[-?:](?:[ \t\n]|$)")
_PLAIN_ENDS = re.compile(r"[ \t\n]#|:(?=[ \t\n]|$)")
_PLAIN_ENDS_INSIDE = re.compile(r"[ \t\n]#|[,\[\]{}]|:(?=[ \t\n,\[\]{}]|$)")

_WORDS = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None, "true": True, "True": True, "TRUE": True,
    "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NUMBERS: tuple[tuple[str, Callable[[str], float]], ...] = (
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+|0x[0-9a-fA-F]+", lambda text: int(text, 0)),
    (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", lambda text: float("inf")),
)


def read_front_matter(text: str) -> dict[str, Json]:
    """The front matter of a ``SKILL.md``.

    Args:
        text: Of the file, from its beginning; no more than the front matter is looked at.

    Raises:
        ValueError: There is none, or it is no YAML, or YAML of a kind that is not read; the message
            names the line.
    """
    lines = text[:LONGEST].removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip(" \t") != "---":
        raise ValueError("line 1: front matter begins with a line '---'")
    ends = [number for number, line in enumerate(lines) if line.rstrip(" \t") == "---"]
    if len(ends) < 2:
        raise ValueError(
            f"line 1: front matter ends with a line '---', within {LONGEST} characters"
        )
    return _Reader(lines[1 : ends[1]]).read()


def check_front_matter(found: Mapping[str, Json], name: str) -> None:
    """Refuse front matter that is not that of a skill in a folder of this name.

    Raises:
        ValueError: It is not; the message says why.
    """
    if found.get("name") != name:
        raise ValueError(
            f"the name is that of the folder, {one_line(name)!r}, not {one_line(found.get('name'))!r}"
        )
    if len(name) > LONGEST_NAME or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"a name has at most {LONGEST_NAME} of a-z, 0-9 and single hyphens, unlike {one_line(name)!r}"
        )
    description = found.get("description")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("the description is a text that is not empty")


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _folded(text: str) -> str:
    """Lines as YAML joins them: one end of a line is a blank, each more is an end of a line."""
    return re.sub("\n+", lambda ends: "\n" * (len(ends[0]) - 1) or " ", text)


class _Reader:
    """Reads lines from the first to the last; each method begins at the current line, and leaves it
    behind.

    Args:
        lines: Those between the two that delimit the front matter.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines, self._at = lines, 0

    def _refuse(self, what: str) -> NoReturn:
        raise ValueError(f"line {self._at + 2}: {what}")

    def read(self) -> dict[str, Json]:
        """All of it."""
        self._at = next(
            (number for number, line in enumerate(self._lines) if _CONTROL.search(line)), -1
        )
        if self._at >= 0:
            self._refuse("it has a control character")
        self._at = 0
        found = self._block(self._indent(), 1)
        if self._indent() >= 0 or not isinstance(found, dict):
            self._refuse("front matter has lines 'key: value', which are indented alike")
        return found

    # ------------------------------------------------------------ lines

    def _indent(self) -> int:
        """Go to the next line that says something; how far it is indented, -1 when there is none."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip(" \t")
            if text and text[0] != "#":
                if line.lstrip(" ")[0] == "\t":
                    self._refuse("it is indented by a tab: write blanks")
                return _indent_of(line)
            self._at += 1
        return -1

    def _below(self, indent: int) -> list[str]:
        """The lines from here on that are indented further, or blank."""
        begin = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip(" \t") and _indent_of(line) <= indent:
                break
            self._at += 1
        return self._lines[begin : self._at]

    def _block(self, indent: int, depth: int) -> Json:
        """The mapping or the list whose lines are indented so far."""
        if depth > DEEPEST:
            self._refuse(f"values nest at most {DEEPEST} deep")
        items: list[Json] = []
        members: dict[str, Json] = {}
        while 0 <= self._indent() == indent:
            line = self._lines[self._at]
            item, member = _ITEM.match(line), _KEY.match(line)
            if item is not None and not members:
                start = item.end()
                if _ITEM.match(line, start) or _KEY.match(line, start):
                    self._lines[self._at] = " " * start + line[start:]
                    items.append(self._block(start, depth + 1))
                else:
                    items.append(self._value(line[start:], indent, indent + 1, depth))
            elif member is not None and not items:
                name = self._flow(member[1], 0, depth, _PLAIN_ENDS)[0]
                if not isinstance(name, str) or name in members:
                    self._refuse(f"a key is a text that stands once, unlike {one_line(name)!r}")
                members[name] = None
                members[name] = self._value(member[2], indent, indent, depth)
            elif items:
                break  # a list may be indented as its key is
            else:
                self._refuse("write 'key: value'")
        return items or members

    def _value(self, text: str, indent: int, list_indent: int, depth: int) -> Json:
        """A value that begins in this line.

        Args:
            text: What the line says of it.
            indent: Of the line with its key.
            list_indent: The least that a list in lines below is indented.
            depth: Of what it belongs to.
        """
        text = text.strip(" \t")
        if not text or text[0] == "#":
            self._at += 1
            below = self._indent()
            line = self._lines[self._at] if below >= 0 else ""
            if _ITEM.match(line) and below >= list_indent or _KEY.match(line) and below > indent:
                return self._block(below, depth + 1)
            if below <= indent:
                return None
            text = line.strip(" \t")
        header = _BLOCK_TEXT.fullmatch(text)
        if header is not None:
            return self._block_text(header[1], header[2], indent)
        begin = self._at
        self._at += 1
        text = "\n".join([text, *(line.strip(" \t") for line in self._below(indent))])
        self._at, end = begin, self._at
        value, stop = self._flow(text, 0, depth, _PLAIN_ENDS)
        if self._skip(text, stop) < len(text):
            self._refuse("a text with ': ' or ' #' in it, or a bracket after it, stands in quotes")
        self._at = end
        return value

    def _block_text(self, style: str, chomp: str, indent: int) -> str:
        self._at += 1
        lines = self._below(indent)
        filled = [line for line in lines if line.strip(" ")]
        inner = _indent_of(filled[0]) if filled else LONGEST
        for number, line in enumerate(lines):
            shown = line[inner:]
            blank_first = number == 0 and filled and not shown.strip(" ")
            if (
                blank_first
                or line[:inner].strip(" ")
                or (style == ">" and shown[:1] in (" ", "\t"))
            ):
                self._at += number - len(lines)
                self._refuse(
                    f"the lines below '{style}' are indented alike, and the first is not blank"
                )
        text = "\n".join(line[inner:] for line in lines).rstrip("\n")
        ends = {"": min(1, len(filled)), "-": 0, "+": len(lines) - text.count("\n")}[chomp]
        return (_folded(text) if style == ">" else text) + "\n" * ends

    # ------------------------------------------------------------ within a line, and those that go on with it

    def _skip(self, text: str, at: int) -> int:
        found = _SPACE.match(text, at)
        return at if found is None else found.end()

    def _flow(
        self, text: str, at: int, depth: int, plain_ends: re.Pattern[str]
    ) -> tuple[Json, int]:
        """The value at a place of a text, and where it ends."""
        if text[at : at + 1] in ("[", "{"):
            return self._brackets(text, at, depth + 1)
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            return self._unquoted(quoted[0]), quoted.end()
        if _NO_PLAIN.match(text, at):
            self._refuse(
                f"a text that begins with {text[at]!r} stands in quotes; anchors and tags are not read"
            )
        found = plain_ends.search(text, at)
        end = len(text) if found is None else found.start()
        return self._plain(_folded(text[at:end].rstrip(" \t\n"))), end

    def _brackets(self, text: str, at: int, depth: int) -> tuple[Json, int]:
        if depth > DEEPEST:
            self._refuse(f"values nest at most {DEEPEST} deep")
        items: list[Json] = []
        members: dict[str, Json] = {}
        is_list = text[at] == "["
        at = self._skip(text, at + 1)
        while text[at : at + 1] != ("]" if is_list else "}"):
            value, at = self._flow(text, at, depth, _PLAIN_ENDS_INSIDE)
            at = self._skip(text, at)
            if is_list:
                items.append(value)
            else:
                if not isinstance(value, str) or value in members or text[at : at + 1] != ":":
                    self._refuse(
                        "in braces stand pairs 'key: value', and each key is a text that stands once"
                    )
                members[value], at = self._flow(
                    text, self._skip(text, at + 1), depth, _PLAIN_ENDS_INSIDE
                )
                at = self._skip(text, at)
            if text[at : at + 1] == ",":
                at = self._skip(text, at + 1)
            elif text[at : at + 1] not in ("]", "}"):
                self._refuse("a bracket is not closed, or a comma is missing")
        return items if is_list else members, at + 1

    def _unquoted(self, quoted: str) -> str:
        text = _folded(quoted[1:-1])
        if quoted[0] == "'":
            return text.replace("''", "'")
        try:
            found: str = json.loads(f'"{text}"', strict=False)
            found.encode()
        except ValueError:  # also what encode() raises
            self._refuse("a text in double quotes has the escapes of JSON")
        return found

    def _plain(self, text: str) -> Json:
        if text in _WORDS:
            return _WORDS[text]
        read: Any = next((read for pattern, read in _NUMBERS if re.fullmatch(pattern, text)), None)
        if read is None:
            return text
        number = read(text) if len(text) <= LONGEST_NUMBER else INEXACT
        if abs(number) >= INEXACT:
            self._refuse("a number of this size is not the same everywhere: write it in quotes")
        return number
