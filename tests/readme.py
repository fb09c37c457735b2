"""README.rst and the pages in examples/, as the tests read them: their blocks and tables."""

from __future__ import annotations

import re
from typing import Dict, List

from .support import ROOT

README = (ROOT / "README.rst").read_text(encoding="utf-8")

PAGES = {
    "README.rst": README,
    **{
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(ROOT.glob("examples/*.rst"))
        if path.name != "reference.rst"  # a program writes that one
    },
}
"""Every page that is written by hand, by its path."""

TEXT = "\n".join(PAGES.values())

BLOCK = re.compile(r"^\.\. (\w+): (.+)\n\n\.\. code-block:: (\w+)\n\n((?:(?:    .*)?\n)+)", re.M)


def blocks(mark: str) -> Dict[str, str]:
    """Return the blocks of all pages with this mark, by their names, without their indent."""
    return {
        name: re.sub("^    ", "", text, flags=re.M).strip("\n") + "\n"
        for kind, name, _, text in BLOCK.findall(TEXT)
        if kind == mark
    }


def section(heading: str) -> str:
    """Return the text below a heading of any page, up to the next heading."""
    below = TEXT.split(f"\n{heading}\n---", 1)[1].split("\n", 1)[1]
    return re.split(r"\n.+\n(?:-{3,}|={3,})\n(?=\n)", below, maxsplit=1)[0] + "\n"


def rows(below: str) -> List[List[str]]:
    """Return the cells of the first table below a heading, without its head."""
    return table(section(below))


def table(text: str) -> List[List[str]]:
    """Return the cells of the first table, without its head.

    A line whose first cell is empty continues the row above it.
    """
    lines = iter(text.splitlines())
    rule = next(line for line in lines if line.startswith("==="))
    starts = [match.start() for match in re.finditer("=+", rule)]
    cells, rules = [], 1
    for line in lines:
        if line.startswith("==="):
            rules += 1
            if rules == 3:
                break
        elif rules == 2:
            row = [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])]
            if row[0]:
                cells.append(row)
            else:
                cells[-1] = [f"{above} {more}".strip() for above, more in zip(cells[-1], row)]
    return cells


def prose(text: str) -> str:
    """The text without code, comments, tables and the rules of headings."""
    kept: List[str] = []
    table = skipping = False
    lines = text.splitlines()
    for line, following in zip(lines, [*lines[1:], ""]):
        rule = re.match("=+ [= ]*=$", line)
        if rule:
            table = bool(following)  # the last rule has a blank line below it
        elif line and not line.startswith(" "):
            skipping = False
        if line.startswith(".. ") or line == "::":
            skipping = True
        if not (rule or table or skipping or re.match("[-=]{3,}", line)):
            kept.append(line)
        skipping = skipping or (line.endswith("::") and not line.startswith(" "))
    return "\n".join(kept)
