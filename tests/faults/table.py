"""The table of the README out of the summaries that the runner writes: rows of the catalogue, a column per subject."""

from __future__ import annotations

from typing import Any, Dict, List

from .catalogue import ROWS
from .trial import ABSENT

BEGINS, ENDS = ".. faults table begins", ".. faults table ends"


def cell(row: Dict[str, Any]) -> str:
    found: str = row["verdict"]
    return "\\-" if found == ABSENT else found


def told(summary: Dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in summary["verdicts"].items() if count)
    how = f"seed {summary['seed']}, {summary['mutations']:,} mutants, bounds in seconds times {summary['slack']:g}"
    return f"* {summary['name']}, {summary['date']}, Python {summary['python']}: {counts}\n  ({how})."


def section(summaries: List[Dict[str, Any]]) -> str:
    """All that stands between the marks of the README."""
    return "\n".join([*map(told, summaries), "", table(summaries)])


def table(summaries: List[Dict[str, Any]]) -> str:
    columns = [{row["id"]: cell(row) for row in summary["rows"]} for summary in summaries]
    head = ["Row", "What is done", "What is right", *(summary["name"] for summary in summaries)]
    body = [
        [row.id, row.fault, row.expected, *(column.get(row.id, "\\-") for column in columns)] for row in ROWS.values()
    ]
    widths = [max(len(line[index]) for line in (head, *body)) for index in range(len(head))]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(one.ljust(width) for one, width in zip(line, widths)).rstrip() for line in (head, *body)]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
