"""README.rst as the tests read it: its blocks and its tables."""

from __future__ import annotations

import re
from typing import Dict, List

from .support import ROOT

README = (ROOT / "README.rst").read_text(encoding="utf-8")

BLOCK = re.compile(r"^\.\. (\w+): (.+)\n\n\.\. code-block:: (\w+)\n\n((?:(?:    .*)?\n)+)", re.M)


def blocks(mark: str) -> Dict[str, str]:
    """The marked blocks, by what stands behind the mark, without their indent."""
    return {
        name: re.sub("^    ", "", text, flags=re.M).strip("\n") + "\n"
        for kind, name, _, text in BLOCK.findall(README)
        if kind == mark
    }


def rows(below: str) -> List[List[str]]:
    """The first table below a heading, without its head, cell by cell."""
    return table(README.split(f"\n{below}\n---", 1)[1])


def table(text: str) -> List[List[str]]:
    """The first table, without its head, cell by cell; a row that begins empty goes on with the one above."""
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
