"""Front matter: the YAML at the beginning of a ``SKILL.md``, read without a YAML package, and its
checks.

The reader supports what people write there, in the core schema of YAML 1.2: mappings and lists, in
lines or in brackets; plain, quoted, literal (``|``) and folded (``>``) text; numbers, true, false
and null. Everything else, such as anchors, aliases, tags and directives, is rejected: readers
disagree about it, and a few aliases can expand to gigabytes.

https://yaml.org/spec/1.2.2  https://agentskills.io/specification
"""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Mapping, NoReturn

from ..protocol.messages import Json
from ..text import one_line

# Maximum length of front matter.
MAX_CHARACTERS = 64 * 1024

# Maximum depth of its values.
MAX_DEPTH = 16

# Maximum length of the name of a skill.
MAX_NAME_CHARACTERS = 64

# Readers of JSON do not agree about numbers of this size.
INEXACT = 2**53

# Maximum length of a number. Longer ones are treated as inexact without a conversion.
MAX_NUMBER_CHARACTERS = 32

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
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBERS: tuple[tuple[str, Callable[[str], float]], ...] = (
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+|0x[0-9a-fA-F]+", lambda text: int(text, 0)),
    (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", lambda text: float("inf")),
)


def read_front_matter(text: str) -> dict[str, Json]:
    """Return the front matter of a ``SKILL.md``.

    Args:
        text: The beginning of the file. Text after the front matter is ignored.

    Raises:
        ValueError: Front matter is missing, or is not YAML that this module supports. The
            message names the line.
    """
    lines = text[:MAX_CHARACTERS].removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip(" \t") != "---":
        raise ValueError("line 1: front matter must begin with a line '---'")
    ends = [number for number, line in enumerate(lines) if line.rstrip(" \t") == "---"]
    if len(ends) < 2:
        raise ValueError(
            f"line 1: front matter must end with a line '---', within {MAX_CHARACTERS} characters"
        )
    return _Reader(lines[1 : ends[1]]).read()


def check_front_matter(found: Mapping[str, Json], name: str) -> None:
    """Reject front matter that does not belong to a skill in a folder of this name.

    Raises:
        ValueError: It does not; the message says why.
    """
    if found.get("name") != name:
        raise ValueError(
            f"the name must be the name of the folder, {one_line(name)!r}, not"
            f" {one_line(found.get('name'))!r}"
        )
    if len(name) > MAX_NAME_CHARACTERS or not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(
            f"a name must have at most {MAX_NAME_CHARACTERS} of a-z, 0-9 and single hyphens, unlike"
            f" {one_line(name)!r}"
        )
    description = found.get("description")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("the description must be text that is not empty")


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _folded(text: str) -> str:
    """Join lines as YAML does: one line break becomes a space, and each further one a line
    break."""
    return re.sub("\n+", lambda ends: "\n" * (len(ends[0]) - 1) or " ", text)


class _Reader:
    """Reads lines in order. Each method starts at the current line and moves past its value.

    Args:
        lines: The lines between the two delimiters.
    """

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._at = 0

    def _refuse(self, problem: str) -> NoReturn:
        raise ValueError(f"line {self._at + 2}: {problem}")

    def read(self) -> dict[str, Json]:
        """Return the whole front matter."""
        self._at = next(
            (number for number, line in enumerate(self._lines) if _CONTROL.search(line)), -1
        )
        if self._at >= 0:
            self._refuse("it has a control character")
        self._at = 0
        found = self._block(self._indent(), 1)
        if self._indent() >= 0 or not isinstance(found, dict):
            self._refuse("front matter must have lines 'key: value' with equal indentation")
        return found

    # ------------------------------------------------------------ lines

    def _indent(self) -> int:
        """Go to the next line with a value. Return its indentation, or -1 at the end."""
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.strip(" \t")
            if text and text[0] != "#":
                if line.lstrip(" ")[0] == "\t":
                    self._refuse("the line is indented with a tab: write spaces")
                return _indent_of(line)
            self._at += 1
        return -1

    def _below(self, indent: int) -> list[str]:
        """Return the next lines that are blank or indented more than `indent`."""
        begin = self._at
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip(" \t") and _indent_of(line) <= indent:
                break
            self._at += 1
        return self._lines[begin : self._at]

    def _block(self, indent: int, depth: int) -> Json:
        """Return the mapping or list whose lines have this indentation."""
        if depth > MAX_DEPTH:
            self._refuse(f"values may be nested at most {MAX_DEPTH} levels deep")
        items: list[Json] = []
        members: dict[str, Json] = {}
        while 0 <= self._indent() == indent:
            line = self._lines[self._at]
            item = _ITEM.match(line)
            member = _KEY.match(line)
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
                    self._refuse(f"a key must be text and unique, unlike {one_line(name)!r}")
                members[name] = None
                members[name] = self._value(member[2], indent, indent, depth)
            elif items:
                break  # a list may have the indentation of its key
            else:
                self._refuse("write 'key: value'")
        return items or members

    def _value(self, text: str, indent: int, list_indent: int, depth: int) -> Json:
        """Return a value that begins in this line.

        Args:
            text: The part of the line that belongs to the value.
            indent: The indentation of the line with the key.
            list_indent: The minimum indentation of a list in the lines below.
            depth: The depth of the enclosing value.
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
        end = self._at
        self._at = begin  # for messages
        value, stop = self._flow(text, 0, depth, _PLAIN_ENDS)
        if self._skip(text, stop) < len(text):
            self._refuse(
                "put text in quotes if it contains ': ' or ' #', or if a bracket follows it"
            )
        self._at = end
        return value

    def _block_text(self, style: str, chomp: str, indent: int) -> str:
        self._at += 1
        lines = self._below(indent)
        filled = [line for line in lines if line.strip(" ")]
        inner = _indent_of(filled[0]) if filled else MAX_CHARACTERS
        for number, line in enumerate(lines):
            rest = line[inner:]
            is_blank_first = number == 0 and filled and not rest.strip(" ")
            if (
                is_blank_first
                or line[:inner].strip(" ")
                or (style == ">" and rest[:1] in (" ", "\t"))
            ):
                self._at += number - len(lines)
                self._refuse(
                    f"the lines below '{style}' must have equal indentation, and the first must not"
                    " be blank"
                )
        text = "\n".join(line[inner:] for line in lines).rstrip("\n")
        ends = {"": min(1, len(filled)), "-": 0, "+": len(lines) - text.count("\n")}[chomp]
        return (_folded(text) if style == ">" else text) + "\n" * ends

    # ------------------------------------------------------------ within a value

    def _skip(self, text: str, at: int) -> int:
        found = _SPACE.match(text, at)
        return at if found is None else found.end()

    def _flow(
        self, text: str, at: int, depth: int, plain_ends: re.Pattern[str]
    ) -> tuple[Json, int]:
        """Return the value at a position of the text, and the position after it."""
        if text[at : at + 1] in ("[", "{"):
            return self._brackets(text, at, depth + 1)
        quoted = _QUOTED.match(text, at)
        if quoted is not None:
            return self._unquoted(quoted[0]), quoted.end()
        if _NO_PLAIN.match(text, at):
            self._refuse(
                f"put text that begins with {text[at]!r} in quotes; anchors and tags are not "
                "supported"
            )
        found = plain_ends.search(text, at)
        end = len(text) if found is None else found.start()
        return self._plain(_folded(text[at:end].rstrip(" \t\n"))), end

    def _brackets(self, text: str, at: int, depth: int) -> tuple[Json, int]:
        if depth > MAX_DEPTH:
            self._refuse(f"values may be nested at most {MAX_DEPTH} levels deep")
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
                        "braces must contain pairs 'key: value', and each key must be text and "
                        "unique"
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
        except ValueError:  # encode() raises a subclass
            self._refuse("text in double quotes must use JSON escapes")
        return found

    def _plain(self, text: str) -> Json:
        if text in _WORDS:
            return _WORDS[text]
        read: Any = next((read for pattern, read in _NUMBERS if re.fullmatch(pattern, text)), None)
        if read is None:
            return text
        number = read(text) if len(text) <= MAX_NUMBER_CHARACTERS else INEXACT
        if abs(number) >= INEXACT:
            self._refuse("a number of this size is not portable: write it in quotes")
        return number
