"""``python -m tests.bench``: run the rounds and print the table.

No time is ever asserted: the exit status is 0 unless a subject crashed, hung or answered wrong.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time

from . import subjects
from .metrics import METRICS, Round
from .table import missed, table

NOTE = """\
A ratio says how many times worse than the hand-written loop (1: as good; below 1: better), taken within each
round; then the median, and the least and the most of the rounds. "itself": the figure is no ratio to the limit.
Ratios are good to about 20 %; "close" is over the target by less than that. One call at a time is mostly the
machine's own wake-up, so the CPU per call with 64 in flight is the undistorted figure."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Compare with a hand-written loop.")
    parser.add_argument("--rounds", type=int, help="how many rounds (5, with --quick 3; fewer on a busy machine)")
    parser.add_argument("--quick", action="store_true", help="a third of the calls, three rounds")
    parser.add_argument("--only", action="append", metavar="METRIC", help="this row alone; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the names of the rows and stop")
    parser.add_argument("--without-sdk", action="store_true", help="leave the official SDK out")
    parser.add_argument("--without-minimcp", action="store_true", help="measure the yardsticks alone")
    found = parser.parse_args()
    unknown = set(found.only or ()) - {metric.key for metric in METRICS}
    if unknown:
        parser.error(f"no row is called {', '.join(sorted(unknown))}; see --list")
    return found


def chosen(options: argparse.Namespace) -> list[subjects.Subject]:
    found = [subjects.limit()]
    if not options.without_minimcp:
        found.append(subjects.minimcp())
    if not options.without_sdk:
        try:
            found.append(subjects.sdk())
        except LookupError as error:
            print(f"no column for the SDK: {error}", file=sys.stderr)
    return found


def main() -> int:
    options = arguments()
    if options.list:
        print("\n".join(f"{metric.key:22} {metric.label.strip()}" for metric in METRICS))
        return 0
    wanted = set(options.only or (metric.key for metric in METRICS))
    compared = chosen(options)
    total = options.rounds or (3 if options.quick else 5)
    rounds: list[Round] = []
    begin, busy = time.monotonic(), os.getloadavg()[0]
    warm = Round(compared, {"import", "start"}, 1)
    warm.run()  # for the bytecode; what it breaks is told below
    faults = list(warm.faults)
    enough = (2, 25.0) if options.quick else (3, 180.0)
    for number in range(total):
        if options.rounds is None and number >= enough[0] and time.monotonic() - begin > enough[1]:
            break  # a busy machine: fewer rounds, and the table says how many
        print(f"round {number + 1} of {total}, {time.monotonic() - begin:.0f} s", file=sys.stderr)
        rounds.append(Round(compared, wanted, 1 / 3 if options.quick else 1.0))
        rounds[-1].run()
        faults += rounds[-1].faults
    names = ", ".join(f"{subject.name} {subject.version}" for subject in compared)
    load = " to ".join(f"{one:.1f}" for one in (busy, os.getloadavg()[0]))
    where = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load average {load}"
    print(f"{where}, {len(rounds)} rounds, {time.strftime('%Y-%m-%d')}.")
    print(f"{names}.\n\n{table(rounds, wanted, compared)}\n\n{NOTE}")
    over = missed(rounds, wanted)
    if over:
        print(f"\n{over}")
    for fault in dict.fromkeys(faults):
        print(f"BROKEN {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
