"""``python -m tests.bench``: run the rounds and print the table.

No time is ever asserted: the exit status is 0 unless a subject crashed, hung or answered wrong.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from typing import Sequence

from . import subjects
from .load import median
from .metrics import METRICS, Metric, Round

NOTE = """\
A ratio says how many times worse than the hand-written loop (1: as good; below 1: better), taken within each
round; then the median, and the least and the most of the rounds. "itself": the figure is no ratio to the limit.
Ratios are good to about 20 %; "close" is over the target by less than that. One call at a time is mostly the
machine's own wake-up, so the CPU per call with 64 in flight is the undistorted figure."""

NOISE = 1.2  # ratios are trusted to about 20 %, so a target missed by less is told apart
COLUMNS = ("metric", "unit", "limit", "minimcp", "times limit (least-most)", "target", "verdict", "sdk")


def values(rounds: Sequence[Round], name: str, metric: Metric) -> list[float]:
    return [one.values[name, metric.key] for one in rounds if (name, metric.key) in one.values]


def compared(rounds: Sequence[Round], metric: Metric, versus: str) -> list[float]:
    """What a target is for, one number per round: minimcp's own figure, or how many times worse it is than another."""
    if metric.own:
        return [value * metric.scale for value in values(rounds, "minimcp", metric)]
    pairs = [(one.values.get(("minimcp", metric.key)), one.values.get((versus, metric.key))) for one in rounds]
    return [other / ours if metric.more else ours / other for ours, other in pairs if ours and other]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def row(rounds: Sequence[Round], metric: Metric) -> list[str]:
    """The cells of a row; its verdict is by the median of the rounds."""
    figures = {name: values(rounds, name, metric) for name in ("limit", "minimcp", "sdk")}
    limit, ours, sdk = (number(median(found) * metric.scale) if found else "-" for found in figures.values())
    ratios, judged = compared(rounds, metric, "limit"), compared(rounds, metric, metric.versus)
    times = "{} ({}-{})".format(*map(number, (median(ratios), min(ratios), max(ratios)))) if ratios else "-"
    verdict = ""
    if metric.target is not None and judged:
        middle = median(judged)
        verdict = "met" if middle <= metric.target else "close" if middle <= metric.target * NOISE else "missed"
    label = f"..{metric.label[1:]}" if metric.label.startswith(" ") else metric.label
    target = "" if metric.target is None else f"{metric.target:g}"
    return [label, metric.unit, limit, ours, "itself " * metric.own + times, target, verdict, sdk]


def table(body: "list[list[str]]") -> str:
    """The table as reStructuredText."""
    lines = [list(COLUMNS), *body]
    widths = [max(len(line[index]) for line in lines) for index in range(len(COLUMNS))]
    rule = "  ".join("=" * width for width in widths)
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Compare with a hand-written loop.")
    parser.add_argument("--rounds", type=int, help="how many rounds (5, with --quick 3; fewer on a busy machine)")
    parser.add_argument("--quick", action="store_true", help="a third of the calls, three rounds")
    parser.add_argument("--only", action="append", metavar="METRIC", help="this row alone; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--without-sdk", action="store_true", help="leave the official SDK out")
    found = parser.parse_args()
    unknown = set(found.only or ()) - {metric.key for metric in METRICS}
    if unknown:
        parser.error(f"no row is called {', '.join(sorted(unknown))}; see --list")
    return found


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{metric.key:22} {metric.label.strip()}" for metric in METRICS))
        return 0
    wanted = set(options.only or (metric.key for metric in METRICS))
    chosen = [subjects.limit(), subjects.minimcp()]
    if not options.without_sdk:
        try:
            chosen.append(subjects.sdk())
        except LookupError as error:
            print(f"no column for the SDK: {error}", file=sys.stderr)
    total = options.rounds or (3 if options.quick else 5)
    rounds: list[Round] = []
    begin, busy = time.monotonic(), os.getloadavg()[0]
    warm = Round(chosen, {"import", "start"}, 1)
    warm.run()  # for the bytecode; what it breaks is told below
    faults = list(warm.faults)
    enough = (2, 25.0) if options.quick else (3, 180.0)
    for number in range(total):
        if options.rounds is None and number >= enough[0] and time.monotonic() - begin > enough[1]:
            break  # a busy machine: fewer rounds, and the table says how many
        print(f"round {number + 1} of {total}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
        rounds.append(Round(chosen, wanted, 1 / 3 if options.quick else 1.0))
        rounds[-1].run()
        faults += rounds[-1].faults
    rows = [row(rounds, metric) for metric in METRICS if metric.key in wanted]
    load = " to ".join(f"{one:.1f}" for one in (busy, os.getloadavg()[0]))
    where = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load}"
    print(f"{where}, {len(rounds)} rounds, {time.strftime('%Y-%m-%d')}.")
    print(f"{', '.join(f'{one.name} {one.version}' for one in chosen)}.\n\n{table(rows)}\n\n{NOTE}")
    over = [line[0].strip(". ") for line in rows if line[6] in ("close", "missed")]
    if over:
        print(f"\nOver their target: {'; '.join(over)}.")
    for fault in dict.fromkeys(faults):
        print(f"BROKEN {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
