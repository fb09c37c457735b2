"""``python -m tests.history --seeds 200``: run seeds, print what came of them. ``--seed 17``: one, with its record."""

from __future__ import annotations

import argparse
import faulthandler
import json
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any, Dict, List

from .record import shown
from .run import Outcome, Plan, run

EXPECTED = frozenset({
    "value", "tool error", "error", "refused", "timeout", "cancelled", "lost", "failed",
    "drop", "duplicate", "hold", "delay", "cut", "half", "kill", "replace", "finish",
})
"""Endings and faults of which there has to be one in many seeds: else the runs show less than they say."""

MANY = 100

STUCK = 300.0
"""Seconds after which a run that does not end shows where its threads are; it has no outcome then."""


def main(arguments: List[str]) -> int:
    """Run it; 0 when nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (default: 1)")
    parser.add_argument("--jobs", type=int, default=6, help="processes at the same time; they mostly wait (default: 6)")
    parser.add_argument("--seed", type=int, help="run this one, and print its record")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sys.setswitchinterval(float(os.environ.get("MINIMCP_SWITCH_INTERVAL", sys.getswitchinterval())))
    logging.getLogger("minimcp").addHandler(logging.NullHandler())  # a bad line makes it say much
    if options.seed is not None:
        outcome = run(Plan.of(options.seed))
        print(f"{outcome.plan}\n{shown(outcome.events)}")
        _complain(outcome)
        return 1 if outcome.wrong else 0
    if options.part is not None:
        return _part([int(seed) for seed in options.part.split(",")])
    return _all(list(range(options.first, options.first + options.seeds)), options.jobs)


def _part(seeds: List[int]) -> int:
    """Run these in this process and print a line of JSON for each."""
    for seed in seeds:
        faulthandler.dump_traceback_later(STUCK, exit=True)
        outcome = run(Plan.of(seed))
        faulthandler.cancel_dump_traceback_later()
        _complain(outcome)
        if outcome.wrong:
            print(f"{outcome.plan}\n{shown(outcome.events)}", file=sys.stderr, flush=True)
        counts = Counter(event.what for event in outcome.events if event.kind in ("end", "fault"))
        print(json.dumps({"seed": seed, "wrong": len(outcome.wrong), "counts": counts}), flush=True)
    return 0


def _complain(outcome: Outcome) -> None:
    if outcome.wrong:
        print(f"to see it again: python -m tests.history --seed {outcome.plan.seed}", file=sys.stderr)
    for wrong in outcome.wrong:
        print(f"seed {outcome.plan.seed}: {wrong}", file=sys.stderr, flush=True)


def _all(seeds: List[int], jobs: int) -> int:
    begun = time.monotonic()
    parts = [seeds[start::jobs] for start in range(min(jobs, len(seeds)))]
    command = [sys.executable, "-m", "tests.history", "--part"]
    children = [
        subprocess.Popen([*command, ",".join(map(str, part))], stdout=subprocess.PIPE, text=True) for part in parts
    ]
    lines = [json.loads(line) for child in children for line in child.communicate()[0].splitlines()]
    counts: "Counter[str]" = Counter()
    for line in lines:
        counts.update(line["counts"])
    bad = sorted(line["seed"] for line in lines if line["wrong"])
    missing = sorted(set(seeds) - {line["seed"] for line in lines})
    unseen = sorted(EXPECTED - set(counts)) if len(seeds) >= MANY else []
    _print(counts, {"failed": bad, "without an outcome": missing, "never seen": unseen})
    print(f"seeds {seeds[0]} to {seeds[-1]}: {len(lines) - len(bad)} of {len(seeds)} as they should be, "
          f"{time.monotonic() - begun:.1f} s")
    return 1 if bad or missing or unseen else 0


def _print(counts: "Counter[str]", troubles: Dict[str, List[Any]]) -> None:
    for name, count in counts.most_common():
        print(f"{name:<12}{count:>7}")
    for what, which in troubles.items():
        if which:
            print(f"{what}: {', '.join(map(str, which))}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
