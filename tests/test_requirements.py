"""The manifest, the tests and the gaps are consistent.

Tests are read, not imported, so the check has the same result for any part of the suite.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, List, Set

import pytest

from .conftest import MANIFEST_LINE
from .requirements import GAPS, REQUIREMENTS, ROWS
from .support import ROOT

TESTS = ROOT / "tests"

NOT_THE_SUITE = {"bench", "interop", "conformance", "faults", "history", "hosts", "soak"}
"""Folders that pytest does not collect: a mark in them shows nothing."""

MARK = re.compile(r'\brequirement\(((?:\s*"[^"\n]*",?)+)\s*\)')


def _tested() -> Dict[str, List[str]]:
    """Ids that tests name, each with the places."""
    places: Dict[str, List[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        name, text = path.relative_to(TESTS), path.read_text(encoding="utf-8")
        if NOT_THE_SUITE & set(name.parts) or path == Path(__file__):
            continue
        assert len(MARK.findall(text)) == text.count("requirement("), (
            f"a mark of {name} names no plain rows"
        )
        for mark in MARK.finditer(text):
            for row in re.findall('"(.*?)"', mark[1]):
                places.setdefault(row, []).append(
                    f"{name}:{text.count(chr(10), 0, mark.start()) + 1}"
                )
    return places


@pytest.fixture(scope="module")
def tested() -> Dict[str, List[str]]:
    return _tested()


def _listed(rows: Set[str]) -> str:
    return "\n".join(f"  {row}: {REQUIREMENTS[row].summary}" for row in REQUIREMENTS if row in rows)


def test_ids_are_unique_and_summaries_are_short() -> None:
    assert len(ROWS) == len(REQUIREMENTS)
    assert [row.id for row in ROWS if not 1 <= len(row.summary.split()) <= 12] == []


def test_every_mark_names_a_row(tested: Dict[str, List[str]]) -> None:
    unknown = {row: places for row, places in tested.items() if row not in REQUIREMENTS}
    assert not unknown, f"no such rows: {unknown}"


def test_every_row_is_tested_or_a_gap(
    tested: Dict[str, List[str]], request: pytest.FixtureRequest
) -> None:
    rows = set(REQUIREMENTS)
    shown, gaps = rows & set(tested), rows & set(GAPS)
    request.config.stash[MANIFEST_LINE] = (
        f"{len(rows)} requirements: {len(shown)} tested, {len(gaps)} gaps"
    )
    open_rows = rows - shown - gaps
    assert not open_rows, (
        f"{len(open_rows)} rows are neither tested nor a gap:\n{_listed(open_rows)}"
    )


def test_no_row_is_tested_and_a_gap(tested: Dict[str, List[str]]) -> None:
    both = set(tested) & set(GAPS)
    assert not both, "tested, so no gap: " + ", ".join(
        f"{row} ({tested[row][0]})" for row in sorted(both)
    )


def test_every_gap_is_a_row_and_has_a_reason() -> None:
    assert set(GAPS) <= set(REQUIREMENTS), (
        f"gaps that are no rows: {sorted(set(GAPS) - set(REQUIREMENTS))}"
    )
    assert [row for row, reason in GAPS.items() if len(reason.split()) < 4] == []
