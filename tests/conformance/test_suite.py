"""How the results of the official conformance suite are read; `python -m tests.conformance` runs
the suite itself."""

from __future__ import annotations

from typing import Any, Sequence

import pytest

from .__main__ import Score
from .suite import GENERIC, Verdict


def check(status: str, id: str = "own") -> "dict[str, Any]":
    return {"status": status, "id": id, "errorMessage": "why"}


@pytest.mark.parametrize(
    ("checks", "code", "problem"),
    [
        ([check("SUCCESS"), check("INFO")], 0, ""),
        ([check("SUCCESS"), check("FAILURE")], 0, "failure own: why"),
        ([check("SUCCESS"), check("WARNING")], 0, "warning own: why"),
        ([check("SUCCESS", GENERIC), check("SKIPPED")], 0, "nothing checked"),
        ([], 0, "nothing checked"),
        ([check("SUCCESS")], 1, "the suite ended with 1: the client did not end well"),
    ],
)
def test_passing_scenarios(checks: "Sequence[dict[str, Any]]", code: int, problem: str) -> None:
    assert Verdict.of("ping", checks, code).problem == problem


def test_a_scenario_without_a_result_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    score = Score()
    assert (
        score.take("server", [Verdict("ping"), Verdict.of("tools-list", [check("SUCCESS")])])
        == "1 of 2"
    )
    assert score.failed == 1 and "no result" in capsys.readouterr().out
