"""``python -m tests.bench``: run the rounds and print the table of minimcp and a hand-written loop.

No time is ever asserted: the exit status is 0 unless a subject crashed, hung or answered wrong. In
a round the subjects take turns slice by slice, so that a slow minute of the machine affects both; a
round's value is the median of its slices, and ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Callable, NamedTuple, Optional, Sequence

from . import http_load, load
from .load import Broken, Child, Measured

NOTE = """\
A ratio says how many times worse than the hand-written loop (1: as good; below 1: better), taken within each
round; then the median, and the least and the most of the rounds. "itself": the figure is no ratio to the limit.
Ratios are good to about 20 %; "close" is over the target by less than that. One call at a time is mostly the
machine's own wake-up, so the CPU per call with 64 in flight is the undistorted figure."""

NOISE = 1.2  # ratios are reliable to about 20 %, so a target missed by less gets another verdict
COLUMNS = ("metric", "unit", "limit", "minimcp", "times limit (least-most)", "target", "verdict")
HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
IMPORTS = {
    "limit": f"import sys; sys.path.insert(0, {str(HERE)!r}); import limit_server",
    "minimcp": "from minimcp import Context, Server, ToolError",
}
"""The subjects, with the import statement to measure."""


def server(subject: str, mode: str) -> list[str]:
    return [sys.executable, str(HERE / f"{subject}_server.py"), mode]


def client(subject: str, *target: str) -> list[str]:
    return [
        sys.executable,
        str(HERE / f"{subject}_client.py"),
        *(target or server("limit", "plain")),
    ]


def environment() -> dict[str, str]:
    """Return the environment of every subject: it can import the checkout, keeps bytecode, and has
    no buffering or tracing for tests."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONMALLOC", "COVERAGE_PROCESS_START")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PYTHONPATH": str(CHECKOUT)}


class Metric(NamedTuple):
    """One row.

    The target of ``linear`` is relative on purpose: ten times the bytes take the limit 12 to 19
    times as long on one machine, because 1 MB fits its cache; a quadratic buffer would double that.
    """

    key: str  # its name for ``--only`` and in the results of the load functions
    label: str  # its name for people
    unit: str = "us"  # of the printed value
    scale: float = 1e6  # factor from base units (seconds, bytes, 1/s) to that unit
    target: Optional[float] = None  # the ratio to hold; None prints no verdict
    more: bool = False  # whether more is better (a rate): the ratio is then turned round
    # the target is for minimcp's value itself, in the printed unit, not for its ratio to the limit
    own: bool = False


class Measurement(NamedTuple):
    """One way of loading that fills some rows."""

    mode: str  # the kind of process that it needs; "none" starts its own
    size: int  # calls per slice; a quick run makes a third of them
    slices: int  # per round
    run: Callable[
        ..., Measured
    ]  # makes one slice: takes the subject's process, or its name; and the size
    rows: tuple[Metric, ...]
    whole: bool = False  # whether a quick run makes as many


def start(subject: str, size: int) -> Measured:
    begin = time.perf_counter()
    child = Child(server(subject, "plain"), environment())
    try:
        child.shake_hands()
        reply = child.ask(child.call("echo", text=load.TEXT))
        took = time.perf_counter() - begin
        load.expect(child, reply, load.TEXT)
        resident = child.resident()
    finally:
        status = child.close()
    if status:
        raise Broken(f"exit status {status} after the end of its input")
    return {"start": took, "memory": resident}


def imported(subject: str, size: int) -> Measured:
    begin = time.perf_counter()
    command = [sys.executable, "-c", IMPORTS[subject]]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    took = time.perf_counter() - begin
    if done.returncode:
        raise Broken(f"{command[-1]}: {done.stderr.decode()[-400:]}")
    return {"import": took}


def unions(subject: str, size: int) -> Measured:
    command = [sys.executable, "-m", "tests.bench.unions", subject]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    if done.returncode:
        raise Broken(f"unions: {done.stderr.decode()[-400:]}")
    return {"union": float(done.stdout)}


MEASUREMENTS = (
    Measurement("none", 1, 3, imported, (Metric("import", "import, whole process", "ms", 1e3, 2.5),)),
    Measurement("none", 1, 3, start, (
        Metric("start", "start to first tool result", "ms", 1e3, 2.0),
        Metric("memory", "memory after start", "MB", 1e-6, 1.5),
    )),
    Measurement("none", 1, 3, unions, (
        Metric("union", "a 9 kB request, wrong in a recursive union, CPU", "ms", 1e3, 100.0, own=True),
    )),
    Measurement("plain", 50, 1, load.sleeps, (
        Metric("sleeps-of-one", "50 sleeping 0.1 s / one of them", "", 1.0, 1.2, own=True),
        Metric("sleeps", "  wall time of the 50", "ms", 1e3),
    ), whole=True),
    Measurement("plain", 500, 8, load.sequential, (
        Metric("sequential", "one call at a time, p50", target=1.3),
        Metric("sequential-cpu", "  server CPU per call"),
    )),
    Measurement("plain", 10000, 6, load.in_flight, (
        Metric("inflight-cpu", "64 in flight, server CPU per call", target=2.5),
        Metric("inflight-rate", "  calls per second", "1/s", 1.0, more=True),
    )),
    Measurement("plain", 10000, 1, load.progress, (
        Metric("progress", "10,000 progress reports, each", target=1.6),
    ), whole=True),
    Measurement("plain", 2, 2, load.big, (
        Metric("linear", "time of a 10 MB echo / a 1 MB echo", "", 1.0, 1.4),
        Metric("echo-1mb", "  1 MB", "ms", 1e3),
        Metric("echo-10mb", "  10 MB", "ms", 1e3),
    ), whole=True),
    Measurement("modern", 10000, 6, load.in_flight, (
        Metric("modern-cpu", "2026-07-28, 64 in flight, CPU per call"),
        Metric("modern-rate", "  calls per second", "1/s", 1.0, more=True),
    )),
    Measurement("records", 100, 6, load.records, (
        Metric("records", "100 nested records in and out, p50", target=1.8),
        Metric("tally", "100 nested records in, a count out, p50", target=1.8),
    )),
    Measurement("many", 10, 3, load.listing, (
        Metric("list", "tools/list of 1,000, p50", "ms", 1e3, 1.0),
        Metric("list-bytes", "  bytes of the reply", "kB", 1e-3),
    )),
    Measurement("client", 500, 6, load.client, (
        Metric("client-sequential", "client, one call at a time, p50", target=1.3),
        Metric("client-sequential-cpu", "  client CPU per call"),
        Metric("client-threads", "64 threads on one client, calls/s", "1/s", 1.0, 1.4, more=True),
        Metric("client-threads-cpu", "  client CPU per call"),
    )),
    Measurement("http", 500, 6, http_load.one, (
        Metric("http-one", "HTTP, one connection, one call at a time, p50", target=1.5),
        Metric("http-one-cpu", "  server CPU per call"),
    )),
    Measurement("http", 4000, 6, http_load.many, (
        Metric("http-many", "HTTP, 32 connections, calls per second", "1/s", 1.0, 1.5, more=True),
        Metric("http-many-cpu", "  server CPU per call"),
    )),
    Measurement("events", http_load.STREAMS, 1, http_load.streams, (
        Metric("http-stream", "HTTP, memory of an open GET stream", "kB", 1e-3, 32, own=True),
    ), whole=True),
    Measurement("events", 10000, 1, http_load.progress, (
        Metric("http-progress", "HTTP, 10,000 progress reports on one response, each", target=1.6),
    ), whole=True),
    Measurement("http-client", 500, 6, http_load.client, (
        Metric("http-client", "HTTP client, one call at a time, p50"),
        Metric("http-client-cpu", "  client CPU per call"),
    )),
)  # fmt: skip
METRICS = tuple(metric for each in MEASUREMENTS for metric in each.rows)


def opened(subject: str, mode: str) -> Child:
    """Start a process of this mode, connect and warm it up."""
    if mode == "client":
        child = Child(client(subject), environment())
        load.client(child, 64)
    elif mode in ("http", "events"):
        child = http_load.Child(server(subject, mode), environment())
        if mode == "http":
            http_load.many(child, 64)
    elif mode == "http-client":
        child = http_load.Client(
            server("limit", "http"), lambda url: client(subject, url), environment()
        )
        http_load.client(child, 64)
    else:
        modern = mode == "modern"
        child = Child(server(subject, "plain" if modern else mode), environment(), modern)
        try:
            if not modern:
                child.shake_hands()
            if mode != "many":
                for _ in range(50):
                    load.expect(child, child.ask(child.call("echo", text=load.TEXT)), load.TEXT)
        except Broken:
            child.close()
            raise
    return child


class Round:
    """One round over both subjects: `values` maps subject and key to the round's median, `faults`
    what broke."""

    def __init__(self, wanted: set[str], size: float) -> None:
        self.values: dict[tuple[str, str], float] = {}
        self.faults: list[str] = []
        chosen = [
            item for item in MEASUREMENTS if wanted.intersection(row.key for row in item.rows)
        ]
        for mode in dict.fromkeys(item.mode for item in chosen):
            self._run(mode, [item for item in chosen if item.mode == mode], size)

    def _run(self, mode: str, chosen: list[Measurement], size: float) -> None:
        children: dict[str, Optional[Child]] = {}
        try:
            for subject in IMPORTS:
                try:
                    children[subject] = None if mode == "none" else opened(subject, mode)
                except Broken as error:
                    self.faults.append(f"{subject}, {mode}: {error}")
            for item in chosen:
                self._measure(
                    item, children, max(1, round(item.size * (1 if item.whole else size)))
                )
        finally:
            for child in filter(None, children.values()):
                child.close()

    def _measure(self, item: Measurement, children: dict[str, Optional[Child]], size: int) -> None:
        slices: dict[str, list[Measured]] = {name: [] for name in children}
        order = list(children)
        for _ in range(item.slices):
            for subject in [name for name in order if name in children]:
                child = children[subject]
                try:
                    slices[subject].append(item.run(child or subject, size))
                except Broken as error:
                    self.faults.append(f"{subject}, {item.rows[0].key}: {error}")
                    del children[subject]
                    if child is not None:
                        child.process.kill()
                        child.close()
            order.reverse()
        for name, found in slices.items():
            for row in item.rows if found else ():
                self.values[name, row.key] = median(measured[row.key] for measured in found)


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cells(rounds: Sequence[Round], metric: Metric) -> list[str]:
    """The cells of a row; its verdict is by the median of the rounds."""
    figures = {
        name: [one.values[name, metric.key] for one in rounds if (name, metric.key) in one.values]
        for name in IMPORTS
    }
    limit, ours = (
        number(median(found) * metric.scale) if found else "-" for found in figures.values()
    )
    pairs = [
        (one.values.get(("minimcp", metric.key)), one.values.get(("limit", metric.key)))
        for one in rounds
    ]
    judged = [
        other / mine if metric.more else mine / other for mine, other in pairs if mine and other
    ]
    if metric.own:
        judged = [value * metric.scale for value in figures["minimcp"]]
    times = (
        "{} ({}-{})".format(*map(number, (median(judged), min(judged), max(judged))))
        if judged
        else "-"
    )
    verdict = ""
    if metric.target is not None and judged:
        middle = median(judged)
        verdict = (
            "met"
            if middle <= metric.target
            else "close"
            if middle <= metric.target * NOISE
            else "missed"
        )
    label = f"..{metric.label[1:]}" if metric.label.startswith(" ") else metric.label
    target = "" if metric.target is None else f"{metric.target:g}"
    return [label, metric.unit, limit, ours, "itself " * metric.own + times, target, verdict]


def table(body: "list[list[str]]") -> str:
    """The table as reStructuredText."""
    lines = [list(COLUMNS), *body]
    widths = [max(map(len, column)) for column in zip(*lines)]
    rule = "  ".join("=" * width for width in widths)
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines
    ]
    return "\n".join([rule, text[0], rule, *text[1:], rule])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Compare with a hand-written loop."
    )
    parser.add_argument("--rounds", type=int, default=3, help="how many rounds (3)")
    parser.add_argument("--quick", action="store_true", help="a third of the calls")
    parser.add_argument(
        "--only",
        action="append",
        metavar="METRIC",
        choices=[metric.key for metric in METRICS],
        help="this row alone; may be repeated",
    )
    options = parser.parse_args()
    wanted = set(options.only or (metric.key for metric in METRICS))
    begin, busy = time.monotonic(), os.getloadavg()[0]
    faults = list(Round({"import", "start"}, 1).faults)  # for the bytecode
    rounds: list[Round] = []
    for count in range(options.rounds):
        print(
            f"round {count + 1} of {options.rounds}, {time.monotonic() - begin:.0f} s",
            file=sys.stderr,
        )
        rounds.append(Round(wanted, 1 / 3 if options.quick else 1.0))
        faults += rounds[-1].faults
    rows = [cells(rounds, metric) for metric in METRICS if metric.key in wanted]
    load_average = " to ".join(f"{one:.1f}" for one in (busy, os.getloadavg()[0]))
    where = (
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load_average}"
    )
    print(f"{where}, {len(rounds)} rounds, {time.strftime('%Y-%m-%d')}.\n\n{table(rows)}\n\n{NOTE}")
    over = [line[0].strip(". ") for line in rows if line[6] in ("close", "missed")]
    if over:
        print(f"\nOver their target: {'; '.join(over)}.")
    for fault in dict.fromkeys(faults):
        print(f"BROKEN {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
