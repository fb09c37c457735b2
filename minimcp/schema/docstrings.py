"""What a docstring says about a function and its parameters: Google, NumPy and Sphinx style. Floor 1.

It reads; it judges nothing. Text in none of the three styles is all description.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

_PARAMETERS = {
    "args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments",
    "attributes",  # of a class
}  # fmt: skip
_SECTIONS = _PARAMETERS | {
    "example", "examples", "note", "notes", "raises", "references", "return", "returns",
    "see also", "todo", "warning", "warnings", "warns", "yield", "yields",
}  # fmt: skip

_SPHINX = r"^:(\w+)(?:\s+([^:]*))?:\s*(.*)$"
_GOOGLE = r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$"
_NUMPY = r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"


def read_docstring(text: Optional[str]) -> Tuple[str, Dict[str, str]]:
    """The description and the text of each parameter.

    Args:
        text: The docstring as it stands in the source; None or empty gives nothing.
    """
    lines = _dedented(text or "")
    description: List[str] = []
    parameters: Dict[str, str] = {}
    at = 0
    while at < len(lines):
        end, section = _section(lines, at)
        if section is None:
            description.append(lines[at])
        elif section in _PARAMETERS:
            parameters.update(_entries(lines[at:end]))
        at = end
    return "\n".join(description).strip(), parameters


def _dedented(text: str) -> List[str]:
    lines = text.expandtabs().rstrip().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return [line.strip() if index == 0 else line[margin:].rstrip() for index, line in enumerate(lines)]


def _section(lines: List[str], at: int) -> Tuple[int, Optional[str]]:
    """Where what begins at line `at` ends, and the name of the section that it is (None: a line of text)."""
    line = lines[at]
    if line.startswith(":") and re.match(_SPHINX, line):
        return _indented_end(lines, at + 1), "params"
    name = line.rstrip(":").lower()
    if name not in _SECTIONS:
        return at + 1, None
    if at + 1 < len(lines) and re.match(r"^-{3,}$", lines[at + 1]):
        end = at + 2
        while end < len(lines) and not _underlined(lines, end):
            end += 1
        return end, name
    return (_indented_end(lines, at + 1), name) if line.endswith(":") else (at + 1, None)


def _underlined(lines: List[str], at: int) -> bool:
    return lines[at].lower() in _SECTIONS and at + 1 < len(lines) and lines[at + 1].startswith("---")


def _indented_end(lines: List[str], at: int) -> int:
    while at < len(lines) and (not lines[at] or lines[at].startswith(" ")):
        at += 1
    return at


def _entries(lines: List[str]) -> Dict[str, str]:
    """Name to text of the parameters in one section, header included."""
    sphinx = re.match(_SPHINX, lines[0])
    if sphinx:
        kind, name, rest = sphinx.groups()
        wanted = kind in ("param", "parameter", "arg", "argument", "keyword", "key") and name
        return {name.split()[-1].lstrip("*"): _joined([rest, *lines[1:]])} if wanted else {}
    if len(lines) > 1 and lines[1].startswith("---"):
        return _grouped(lines[2:], _NUMPY)
    return _grouped(lines[1:], _GOOGLE)


def _grouped(lines: List[str], pattern: str) -> Dict[str, str]:
    """Each line at the smallest indent opens an entry, deeper ones go on with it."""
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    found: Dict[str, List[str]] = {}
    names: List[str] = []
    for line in lines:
        head = re.match(pattern, line[margin:]) if line[margin : margin + 1].strip() else None
        if head:
            names = [name.strip().lstrip("*") for name in head.group(1).split(",")]
            first = head.group(2) if pattern is _GOOGLE else ""
            found.update({name: [first] for name in names})
        else:
            for name in names:
                found[name].append(line)
    return {name: _joined(texts) for name, texts in found.items() if _joined(texts)}


def _joined(lines: List[str]) -> str:
    return " ".join(" ".join(lines).split())
