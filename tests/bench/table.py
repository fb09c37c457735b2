"""From the rounds to the printed table: ratios within a round, their median and spread, the verdict."""

from __future__ import annotations

from typing import Optional, Sequence

from .load import median
from .metrics import METRICS, Metric, Round
from .subjects import Subject

NOISE = 1.2
"""Ratios are trusted to about 20 % (performance.md), so a target missed by less is told apart."""
COLUMNS = ("metric", "unit", "limit", "minimcp", "times limit (least-most)", "target", "verdict", "sdk", "times limit")


def values(rounds: Sequence[Round], name: str, metric: Metric) -> list[float]:
    return [one.values[name, metric.key] for one in rounds if (name, metric.key) in one.values]


def ratios(rounds: Sequence[Round], name: str, metric: Metric, versus: str = "limit") -> list[float]:
    """How many times worse than the limit, or another column, one number per round in which both have a value."""
    found = []
    for one in rounds:
        ours, limit = one.values.get((name, metric.key)), one.values.get((versus, metric.key))
        if ours and limit:
            found.append(limit / ours if metric.more else ours / limit)
    return found


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def shown(rounds: Sequence[Round], name: str, metric: Metric) -> str:
    found = values(rounds, name, metric)
    return number(median(found) * metric.scale) if found else "-"


def spread(rounds: Sequence[Round], name: str, metric: Metric) -> str:
    found = values(rounds, name, metric) if metric.own else ratios(rounds, name, metric)
    if not found:
        return "-"
    middle, least, most = (
        number(value * (metric.scale if metric.own else 1)) for value in (median(found), min(found), max(found))
    )
    middle = f"{middle} ({least}-{most})"
    return f"itself {middle}" if metric.own else middle


def verdict(rounds: Sequence[Round], metric: Metric) -> str:
    """Whether minimcp holds the target, by the median of the rounds."""
    found = values(rounds, "minimcp", metric) if metric.own else ratios(rounds, "minimcp", metric, metric.versus)
    if metric.target is None or not found:
        return ""
    middle = median(found) * (metric.scale if metric.own else 1)
    return "met" if middle <= metric.target else "close" if middle <= metric.target * NOISE else "missed"


def row(rounds: Sequence[Round], metric: Metric) -> list[str]:
    target = "" if metric.target is None else f"{metric.target:g}"
    return [
        metric.label.strip() if not metric.label.startswith(" ") else ".. " + metric.label.strip(),
        metric.unit,
        shown(rounds, "limit", metric),
        shown(rounds, "minimcp", metric),
        spread(rounds, "minimcp", metric),
        target,
        verdict(rounds, metric),
        shown(rounds, "sdk", metric),
        spread(rounds, "sdk", metric),
    ]


def columns(subjects: Sequence[Subject]) -> list[int]:
    """The columns that this run can fill."""
    names = {subject.name for subject in subjects}
    return [
        index
        for index in range(len(COLUMNS))
        if index < 3 or ("minimcp" in names and index < 7) or ("sdk" in names and index >= 7)
    ]


def table(rounds: Sequence[Round], wanted: set[str], subjects: Sequence[Subject]) -> str:
    """The table as reStructuredText."""
    kept = columns(subjects)
    body = [row(rounds, metric) for metric in METRICS if metric.key in wanted]
    lines = [[line[index] for index in kept] for line in [list(COLUMNS), *body]]
    widths = [max(len(line[index]) for line in lines) for index in range(len(kept))]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


def missed(rounds: Sequence[Round], wanted: set[str]) -> Optional[str]:
    """One sentence on the targets that are not met; None when all are."""
    found = [m.label.strip() for m in METRICS if m.key in wanted and verdict(rounds, m) in ("close", "missed")]
    return f"Over their target: {'; '.join(found)}." if found else None
