"""The manifest: the requirements of the specification, row by row, and the known gaps, read from
manifest.txt.

A test names the rows that it shows with ``@pytest.mark.requirement("BASE-01")``;
tests/test_requirements.py checks rows, tests and gaps against each other.
"""

from __future__ import annotations

import re
from typing import Dict, List, NamedTuple, Optional

from .support import ROOT

SITE = "https://modelcontextprotocol.io/specification"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")


class Requirement(NamedTuple):
    """One row: its id, its page, its first and last revision, and our summary."""

    id: str
    page: str
    since: str
    until: Optional[str]
    summary: str

    @property
    def url(self) -> str:
        """The page in the row's first revision."""
        return f"{SITE}/{self.since}/{self.page}"


ROWS: List[Requirement] = []
GAPS: Dict[str, str] = {}
"""Rows without a test, each with its reason."""


def _read() -> None:
    page, text = "", (ROOT / "tests" / "manifest.txt").read_text("utf-8")
    for line in re.sub(r"\n  +", " ", text).splitlines():
        if line.startswith("["):
            page = line.strip("[]")
        elif line.startswith("#") or not line:
            continue
        elif page == "gaps":
            ids, _, reason = line.partition(": ")
            GAPS.update(dict.fromkeys(ids.split(), reason))
        else:
            id, span, summary = line.split(None, 2)
            first, last = span[0], span[-1]
            until = None if last == "+" else REVISIONS[int(last) - 1]
            ROWS.append(Requirement(id, page, REVISIONS[int(first) - 1], until, summary))


_read()
REQUIREMENTS: Dict[str, Requirement] = {row.id: row for row in ROWS}
