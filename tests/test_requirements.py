"""The manifest, the tests and the gaps hold together.

Tests are read, not imported: the check says the same whichever part of the suite is run.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

import pytest

from .conftest import MANIFEST_LINE
from .requirements import GAPS, REQUIREMENTS, ROWS
from .support import ROOT

TESTS = ROOT / "tests"

NOT_THE_SUITE = {"bench", "interop", "conformance", "faults", "history", "hosts", "soak"}
"""Folders that pytest does not collect: a mark in them shows nothing."""

Mark = Tuple[str, str]
"""Id, and the place of the mark."""


def _suite() -> List[Path]:
    files = TESTS.rglob("test_*.py")
    return sorted(path for path in files if not NOT_THE_SUITE & set(path.relative_to(TESTS).parts))


def _is_mark(called: ast.expr) -> bool:
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    return name == "requirement"


def _marks(tree: ast.AST, name: str) -> Iterator[Mark]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_mark(node.func):
            place = f"{name}:{node.lineno}"
            for argument in node.args:
                yield (argument.value if isinstance(argument, ast.Constant) else ast.dump(argument), place)


def _tested() -> Dict[str, List[str]]:
    places: Dict[str, List[str]] = {}
    for path in _suite():
        for row, place in _marks(ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT))):
            places.setdefault(row, []).append(place)
    return places


@pytest.fixture(scope="module")
def tested() -> Dict[str, List[str]]:
    """Ids that tests name, each with the places."""
    return _tested()


def _listed(rows: Set[str]) -> str:
    return "\n".join(f"  {row}: {REQUIREMENTS[row].summary}" for row in REQUIREMENTS if row in rows)


def test_ids_are_unique_and_summaries_are_short() -> None:
    assert len(ROWS) == len(REQUIREMENTS)
    assert [row.id for row in ROWS if not 1 <= len(row.summary.split()) <= 12] == []


def test_every_mark_names_a_row(tested: Dict[str, List[str]]) -> None:
    unknown = {row: places for row, places in tested.items() if row not in REQUIREMENTS}
    assert not unknown, f"no such rows: {unknown}"


def test_every_row_is_tested_or_a_gap(tested: Dict[str, List[str]], request: pytest.FixtureRequest) -> None:
    rows = set(REQUIREMENTS)
    shown, gaps = rows & set(tested), rows & set(GAPS)
    request.config.stash[MANIFEST_LINE] = f"{len(rows)} requirements: {len(shown)} tested, {len(gaps)} gaps"
    open_rows = rows - shown - gaps
    assert not open_rows, f"{len(open_rows)} rows are neither tested nor a gap:\n{_listed(open_rows)}"


def test_no_row_is_tested_and_a_gap(tested: Dict[str, List[str]]) -> None:
    both = set(tested) & set(GAPS)
    assert not both, "tested, so no gap: " + ", ".join(f"{row} ({tested[row][0]})" for row in sorted(both))


def test_every_gap_is_a_row_and_has_a_reason() -> None:
    assert set(GAPS) <= set(REQUIREMENTS), f"gaps that are no rows: {sorted(set(GAPS) - set(REQUIREMENTS))}"
    assert [row for row, reason in GAPS.items() if len(reason.split()) < 4] == []
