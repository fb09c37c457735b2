"""``python -m tests.bench`` compares minimcp with a hand-written loop and prints a table.

``--against COMMIT`` adds the library of another commit to the same run, ``--sdks`` adds the
official SDKs of Python and TypeScript, and ``--growth`` adds the costs that could grow with the
number of calls, connections or tools.

No time is asserted: the exit status is 0 unless a subject crashed, hung or gave a wrong answer. In
a round, the subjects take turns slice by slice, so that a slow minute of the machine affects all of
them. A round's value is the median of its slices, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import sys
import time
from statistics import median
from typing import Iterator, Optional, Sequence

from . import http_load, load
from .load import Broken, Child, Measured
from .rows import MEASUREMENTS, METRICS, Measurement, Metric
from .subjects import HERE, LIMIT, MINIMCP, Subject, checked_out, python_sdk, typescript_sdk

NOTE = """\
Each ratio says how many times worse a subject is than the hand-written loop (1: as good; below 1: better). It is
taken within each round; the table shows the median of the rounds, their minimum and their maximum. "itself" marks a
figure that is not a ratio. Ratios are accurate to about 20 %; "close" is over the target by less than that. The time
of one call at a time mostly consists of wake-ups by the system; CPU per call is more accurate."""

NOISE = 1.2  # accuracy of a ratio: a target that is missed by less is "close"


def opened(subject: Subject, mode: str) -> Child:
    """Start a process of this mode, connect to it and warm it up."""
    environment = subject.environment()
    if mode == "client":
        if subject.client is None:
            raise Broken("its client is not measured")
        child = Child([*subject.client, *LIMIT.server, "plain"], environment)
        load.client(child, 64)
    elif mode in ("http", "http-modern", "events"):
        command = [*subject.server, mode.partition("-")[0]]
        child = http_load.Child(command, environment, mode == "http-modern")
        if mode != "events":
            http_load.many(child, 64)
    elif mode in ("http-client", "http-requests"):
        client = subject.client
        if mode == "http-requests" and subject is LIMIT:
            client = [sys.executable, str(HERE / "requests_client.py")]
        if client is None:
            raise Broken("its client is not measured")
        child = http_load.Client([*LIMIT.server, "http"], client, environment)
        http_load.client(child, 64)
    else:
        is_modern = mode == "modern"
        child = Child([*subject.server, "plain" if is_modern else mode], environment, is_modern)
        try:
            if not is_modern:
                child.shake_hands()
            if mode != "many":
                for _ in range(50):
                    load.expect(child, child.ask(child.call("echo", text=load.TEXT)), load.TEXT)
        except Broken:
            child.close()
            raise
    return child


class Round:
    """One round over all subjects.

    Attributes:
        values: From the name of a subject and the key of a row to the median of the round.
        faults: What broke.
        gaps: What a foreign subject does not support.
    """

    def __init__(self, subjects: Sequence[Subject], wanted: set[str], size: float) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.faults: list[str] = []
        self.gaps: list[str] = []
        self._subjects = subjects
        chosen = [
            item for item in MEASUREMENTS if wanted.intersection(row.key for row in item.rows)
        ]
        for mode in dict.fromkeys(item.mode for item in chosen):
            self._run(mode, [item for item in chosen if item.mode == mode], size)

    def _broke(self, subject: Subject, what: str, error: Broken) -> None:
        found = self.gaps if subject.is_foreign else self.faults
        found.append(f"{subject.name}, {what}: {error}")

    def _run(self, mode: str, chosen: list[Measurement], size: float) -> None:
        children: dict[Subject, Optional[Child]] = {}
        try:
            for subject in self._subjects:
                try:
                    children[subject] = None if mode == "none" else opened(subject, mode)
                except Broken as error:
                    self._broke(subject, mode, error)
            for item in chosen:
                calls = item.size if item.whole else max(1, round(item.size * size))
                self._measure(item, children, calls)
        finally:
            for child in filter(None, children.values()):
                child.close()

    def _measure(
        self, item: Measurement, children: dict[Subject, Optional[Child]], size: int
    ) -> None:
        slices: dict[Subject, list[Measured]] = {subject: [] for subject in children}
        order = list(children)
        for _ in range(item.slices):
            for subject in order:
                if subject not in children or (item.is_growth and subject is LIMIT):
                    continue
                child = children[subject]
                try:
                    slices[subject].append(item.run(child or subject, size))
                except Broken as error:
                    self._broke(subject, item.rows[0].key, error)
                    if child is None:
                        order = [other for other in order if other is not subject]
                        continue
                    del children[subject]
                    child.process.kill()
                    child.close()
            order = order[::-1]
        for subject, found in slices.items():
            for row in item.rows if found else ():
                figures = [measured[row.key] for measured in found if row.key in measured]
                if figures:
                    self.values[subject.name, row.key] = median(figures)


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def judged(rounds: Sequence[Round], metric: Metric, name: str) -> list[float]:
    """Return a subject's figure of each round: a ratio to the limit, or its own value."""
    found = []
    for one in rounds:
        mine = one.values.get((name, metric.key))
        limit = one.values.get(("limit", metric.key))
        if mine is not None and metric.own:
            found.append(mine * metric.scale)
        elif mine and limit:
            found.append(limit / mine if metric.more else mine / limit)
    return found


def verdict(metric: Metric, found: Sequence[float]) -> str:
    if metric.target is None or not found:
        return ""
    if median(found) <= metric.target:
        return "met"
    return "close" if median(found) <= metric.target * NOISE else "missed"


def cells(rounds: Sequence[Round], metric: Metric, subjects: Sequence[Subject]) -> list[str]:
    """Return the cells of a row."""
    line = [f"..{metric.label[1:]}" if metric.label.startswith(" ") else metric.label, metric.unit]
    for subject in (LIMIT, MINIMCP):
        values = [
            one.values[subject.name, metric.key]
            for one in rounds
            if (subject.name, metric.key) in one.values
        ]
        line.append(number(median(values) * metric.scale) if values else "-")
    for subject in subjects[1:]:
        found = judged(rounds, metric, subject.name)
        text = "-"
        if found:
            text = "{} ({}-{})".format(*map(number, (median(found), min(found), max(found))))
        line.append("itself " * (metric.own and subject is MINIMCP) + text)
    line.append("" if metric.target is None else f"{metric.target:g}")
    line.append(verdict(metric, judged(rounds, metric, MINIMCP.name)))
    return line


def table(columns: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return the table as reStructuredText."""
    lines = [columns, *body]
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = "  ".join("=" * width for width in widths)
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    ]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


@contextlib.contextmanager
def prepared(options: argparse.Namespace) -> Iterator[list[Subject]]:
    """Yield the subjects, the limit first."""
    with contextlib.ExitStack() as stack:
        subjects = [LIMIT, MINIMCP]
        if options.against:
            subjects.append(stack.enter_context(checked_out(options.against)))
        if options.sdks:
            subjects += [python_sdk(), typescript_sdk()]
        yield subjects


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Compare minimcp with a hand-written loop."
    )
    parser.add_argument("--rounds", type=int, help="number of rounds (3; with --quick: 1)")
    parser.add_argument("--quick", action="store_true", help="a third of the calls")
    parser.add_argument("--against", metavar="COMMIT", help="also measure another commit")
    parser.add_argument("--sdks", action="store_true", help="also measure the official SDKs")
    parser.add_argument("--growth", action="store_true", help="also measure costs that could grow")
    parser.add_argument(
        "--only",
        action="append",
        metavar="METRIC",
        choices=[metric.key for metric in METRICS],
        help="measure only this row; can be repeated",
    )
    return parser.parse_args()


def main() -> int:
    options = parsed()
    wanted = set(options.only or ())
    if not wanted:
        for item in MEASUREMENTS:
            if options.growth or not item.is_growth:
                wanted.update(row.key for row in item.rows)
    count = options.rounds or (1 if options.quick else 3)
    begin = time.monotonic()
    busy = os.getloadavg()[0]
    with prepared(options) as subjects:
        rounds = run(subjects, wanted, count, options.quick, begin)
    rows = [cells(rounds, metric, subjects) for metric in METRICS if metric.key in wanted]
    names = [f"{subject.name} / limit (min-max)" for subject in subjects[1:]]
    columns = ["metric", "unit", "limit", "minimcp", *names, "target", "verdict"]
    load_average = " to ".join(f"{one:.1f}" for one in (busy, os.getloadavg()[0]))
    where = (
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load_average}"
    )
    print(f"{where}, {len(rounds)} rounds, {time.strftime('%Y-%m-%d')}.\n")
    print(f"{table(columns, rows)}\n\n{NOTE}")
    over = [line[0].strip(". ") for line in rows if line[-1] in ("close", "missed")]
    if over:
        print(f"\nOver their target: {'; '.join(over)}.")
    for gap in dict.fromkeys(gap for one in rounds for gap in one.gaps):
        print(f"not measured: {gap}", file=sys.stderr)
    faults = dict.fromkeys(fault for one in rounds for fault in one.faults)
    for fault in faults:
        print(f"BROKEN {fault}", file=sys.stderr)
    return 1 if faults else 0


def run(
    subjects: Sequence[Subject], wanted: set[str], count: int, is_quick: bool, begin: float
) -> list[Round]:
    Round(subjects, {"import", "start"}, 1)  # compiles the bytecode
    rounds: list[Round] = []
    for number in range(count):
        passed = time.monotonic() - begin
        print(f"round {number + 1} of {count}, {passed:.0f} s", file=sys.stderr)
        rounds.append(Round(subjects, wanted, 1 / 3 if is_quick else 1.0))
    return rounds


if __name__ == "__main__":
    sys.exit(main())
