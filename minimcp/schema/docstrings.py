"""What a docstring says about a function and its parameters: Google, NumPy and Sphinx style.

It reads; it judges nothing. Text in none of the three styles is all description.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

_PARAMETERS = {
    "args", "arguments", "parameters", "params", "arg", "argument", "parameter", "inputs", "input parameters",
    "attributes", "fields",  # of a class
    *(f"{which} {what}" for which in ("other", "keyword", "required", "optional")
      for what in ("args", "arguments", "parameters")),
}  # fmt: skip
_SECTIONS = _PARAMETERS | {
    "example", "examples", "note", "notes", "raises", "references", "return", "returns",
    "see also", "todo", "warning", "warnings", "warns", "yield", "yields",
}  # fmt: skip

_FIELDS = {
    **dict.fromkeys(("param", "parameter", "arg", "argument", "keyword", "key", "kwarg"), True),
    **dict.fromkeys(("type", "raise", "raises", "except", "exception", "return", "returns", "rtype", "yield", "yields",
                     "ytype", "var", "ivar", "cvar", "vartype", "meta"), False),
}  # fmt: skip
"""The fields of Sphinx, and whether they describe a parameter. Anything else between colons is text."""

_SPHINX = r"^[:@](\w+)(?:\s+([^:]*))?:\s*(.*)$"
_NAME = r"[`*]{0,2}\*{0,2}(\w+)[`*]{0,2}"
_TYPE = r"(?:\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?"
_GOOGLE = rf"^(?:[-*+]\s+)?{_NAME}{_TYPE}(?:\s*:|\s+(?:-{{1,2}}|\u2013|\u2014)(?=\s))\s*(.*)$"
_NUMPY = r"^(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$"
_DECORATION = r"^(?:#+\s+|\*\*)(.*?):?(?:\*\*)?:?$"


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
            description.extend(lines[at:end])
        elif section in _PARAMETERS:
            parameters.update(_entries(lines[at:end]))
        at = end
    return "\n".join(description).strip(), parameters


def _dedented(text: str) -> List[str]:
    lines = re.split(r"\r\n|\r|\n", text.expandtabs().rstrip())
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
    return [line.strip() if index == 0 else line[margin:].rstrip() for index, line in enumerate(lines)]


def _section(lines: List[str], at: int) -> Tuple[int, Optional[str]]:
    """Where what begins at line `at` ends, and the name of the section that it is (None: text)."""
    line = lines[at]
    if line.lstrip().startswith(("```", "~~~")):
        return _fence_end(lines, at), None
    field = re.match(_SPHINX, line) if line.startswith((":", "@")) else None
    if field and field.group(1) in _FIELDS:
        return _indented_end(lines, at + 1), "params"
    decorated = re.match(_DECORATION, line) if line.startswith(("#", "**")) else None
    name = (decorated.group(1) if decorated else line.rstrip(":")).strip().lower()
    if name not in _SECTIONS or line.startswith(" "):
        return at + 1, None
    if _underlined(lines, at):
        end = at + 2
        while end < len(lines) and not _underlined(lines, end):
            end += 1
        return end, name
    if not decorated and not line.endswith(":"):
        return at + 1, None
    end = _indented_end(lines, at + 1)
    flush = name in _PARAMETERS and not any(lines[at + 1 : end])
    return (_flush_end(lines, end) if flush else end), name


def _underlined(lines: List[str], at: int) -> bool:
    """Whether a heading of a section in NumPy's style stands here, of whatever section."""
    return bool(lines[at][:1].strip()) and at + 1 < len(lines) and _is_underline(lines[at + 1])


def _is_underline(line: str) -> bool:
    return len(line) > 1 and set(line) in ({"-"}, {"="})


def _fence_end(lines: List[str], at: int) -> int:
    """Behind a block of code between fences; behind its first line when it is never closed."""
    fence = lines[at].strip()[:3]
    ends = (end + 1 for end in range(at + 1, len(lines)) if lines[end].strip().startswith(fence))
    return next(ends, at + 1)


def _indented_end(lines: List[str], at: int) -> int:
    while at < len(lines) and (not lines[at] or lines[at].startswith(" ")):
        at += 1
    return at


def _flush_end(lines: List[str], at: int) -> int:
    """Behind the entries that are not indented under their heading."""
    while at < len(lines) and re.match(_GOOGLE, lines[at]) and _section(lines, at)[1] is None:
        at = _indented_end(lines, at + 1)
    return at


def _entries(lines: List[str]) -> Dict[str, str]:
    """Name to text of the parameters in one section, header included."""
    sphinx = re.match(_SPHINX, lines[0])
    if sphinx:
        kind, name, rest = sphinx.groups()
        return {name.split()[-1].lstrip("*"): _joined([rest, *lines[1:]])} if _FIELDS[kind] and name else {}
    if len(lines) > 1 and _is_underline(lines[1]):
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
