"""The manifest: what the specification asks for, row by row, and what we knowingly do not do.

A row's id is that of the checklist it was taken from; ids of 2026-07-28 carry the prefix "M:". Summaries are
our own short words: the page has the authority. A test names the rows that it shows with
``@pytest.mark.requirement("BASE-01")``; tests/test_requirements.py holds rows, tests and gaps together.

A later issue adds a section to a module of tests/manifest/ and takes its rows out of `GAPS` as it tests them.
"""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Tuple

from .manifest import (
    ahead,
    asking,
    extending,
    gaps,
    handshake,
    host,
    http_client,
    http_server,
    modern,
    subscriptions,
    tools,
)
from .manifest.revisions import R1, R2, R3, R4, R5, Section

SITE = "https://modelcontextprotocol.io/specification"

SPANS: Dict[str, Tuple[str, Optional[str]]] = {
    "1+": (R1, None),
    "1-4": (R1, R4),
    "1": (R1, R1),
    "1-2": (R1, R2),
    "1-3": (R1, R3),
    "2": (R2, R2),
    "3": (R3, R3),
    "2-3": (R2, R3),
    "2-4": (R2, R4),
    "3-4": (R3, R4),
    "4": (R4, R4),
    "5+": (R5, None),
}


class Requirement(NamedTuple):
    """One row: its id, the page that says it, the first and the last revision it holds in, and our summary."""

    id: str
    page: str
    since: str
    until: Optional[str]
    summary: str

    @property
    def url(self) -> str:
        """The page in the row's first revision."""
        return f"{SITE}/{self.since}/{self.page}"


def _rows(section: Section) -> Tuple[Requirement, ...]:
    page, rows = section
    return tuple(Requirement(id, page, *SPANS[span], summary) for id, span, summary in rows)


ROWS: Tuple[Requirement, ...] = tuple(
    row
    for module in (handshake, modern, tools, asking, host, subscriptions, extending, ahead, http_client, http_server)
    for section in module.SECTIONS
    for row in _rows(section)
)

REQUIREMENTS: Dict[str, Requirement] = {row.id: row for row in ROWS}

GAPS: Dict[str, str] = gaps.GAPS
