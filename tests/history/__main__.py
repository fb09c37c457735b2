"""``python -m tests.history --seeds 200 --web 60``: run seeds and print the outcomes.

``--shared 200`` runs seeds over HTTP to several processes that share a store, of which some are
killed. ``--seed 17`` runs one and prints its record, ``--seed h17`` one over HTTP, ``--seed s17``
one with a store.
"""

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

from ..redis_server import program
from ..support import usual_signals
from .record import shown
from .run import Outcome, Plan, run

# endings and faults that must occur in many seeds; otherwise the runs show less than they claim
EXPECTED = {
    "lines": frozenset(
        {
            "value",
            "tool error",
            "error",
            "refused",
            "timeout",
            "cancelled",
            "lost",
            "failed",
            "drop",
            "duplicate",
            "hold",
            "delay",
            "cut",
            "half",
            "kill",
            "replace",
            "finish",
        }
    ),
    "http": frozenset(
        {
            "value",
            "tool error",
            "error",
            "timeout",
            "cancelled",
            "lost",
            "drop",
            "duplicate",
            "delay",
            "slow",
            "cut",
            "half",
            "restart",
            "resume",
        }
    ),
    "shared": frozenset(
        {
            "value",
            "tool error",
            "error",
            "timeout",
            "cancelled",
            "lost",
            "killed",
            "drop",
            "duplicate",
            "delay",
            "slow",
            "cut",
            "half",
            "kill",
            "resume",
        }
    ),
}

MANY = {"lines": 100, "http": 50, "shared": 100}
BEFORE = {"lines": "", "http": "h", "shared": "s"}  # the letter before the number of a seed
# seconds after which a run that does not end shows where its threads are; it has no outcome then
STUCK = 280.0


def main(arguments: List[str]) -> int:
    """Run it; 0 when nothing was wrong."""
    usual_signals()
    parser = argparse.ArgumentParser(prog="python -m tests.history", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many over lines (default: 200)")
    parser.add_argument(
        "--web", type=int, help="how many over HTTP (default: three for ten over lines)"
    )
    parser.add_argument(
        "--shared",
        type=int,
        default=0,
        help="how many over HTTP to several processes (default: none)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=6,
        help="processes at the same time; they mostly wait (default: 6)",
    )
    parser.add_argument(
        "--seed", help="run this one, and print its record; over HTTP with an h before its number"
    )
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    sys.setswitchinterval(float(os.environ.get("MINIMCP_SWITCH_INTERVAL", sys.getswitchinterval())))
    # a bad line causes many log messages
    logging.getLogger("minimcp").addHandler(logging.NullHandler())
    if options.seed is not None:
        outcome = run(Plan.of(options.seed))
        print(f"{outcome.plan}\n{shown(outcome.events)}")
        _complain(outcome)
        return 1 if outcome.wrong else 0
    if options.part is not None:
        return _part(options.part.split(","))
    web = options.seeds * 3 // 10 if options.web is None else options.web
    many = {"lines": options.seeds, "http": web, "shared": options.shared}
    seeds = {kind: [f"{BEFORE[kind]}{number + 1}" for number in range(many[kind])] for kind in many}
    if options.shared:
        program()  # once, before several processes would install it
    return _all(seeds, options.jobs)


def _part(seeds: List[str]) -> int:
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
        print(
            f"to see it again: python -m tests.history --seed {outcome.plan.name}", file=sys.stderr
        )
    for wrong in outcome.wrong:
        print(f"seed {outcome.plan.name}: {wrong}", file=sys.stderr, flush=True)


def _all(kinds: Dict[str, List[str]], jobs: int) -> int:
    begun, seeds = time.monotonic(), sum(kinds.values(), [])
    parts = [seeds[start::jobs] for start in range(min(jobs, len(seeds)))]
    command = [sys.executable, "-m", "tests.history", "--part"]
    children = [
        subprocess.Popen([*command, ",".join(part)], stdout=subprocess.PIPE, text=True)
        for part in parts
    ]
    lines = [json.loads(line) for child in children for line in child.communicate()[0].splitlines()]
    good = True
    for kind, mine in kinds.items():
        good &= not mine or _judge(kind, mine, [line for line in lines if line["seed"] in mine])
    print(f"all in {time.monotonic() - begun:.1f} s")
    return 0 if good else 1


def _judge(kind: str, seeds: List[str], lines: List[Dict[str, Any]]) -> bool:
    """Print the outcomes of the seeds of a kind, and return whether all were correct."""
    counts: "Counter[str]" = Counter()
    for line in lines:
        counts.update(line["counts"])
    bad = sorted(line["seed"] for line in lines if line["wrong"])
    missing = sorted(set(seeds) - {line["seed"] for line in lines})
    unseen = sorted(EXPECTED[kind] - set(counts)) if len(seeds) >= MANY[kind] else []
    for name, count in counts.most_common():
        print(f"{kind:<8}{name:<12}{count:>7}")
    for what, which in {"failed": bad, "without an outcome": missing, "never seen": unseen}.items():
        if which:
            print(f"{kind}: {what}: {', '.join(which)}")
    print(
        f"{kind}: seeds {seeds[0]} to {seeds[-1]}: {len(lines) - len(bad)} of {len(seeds)} as they should be"
    )
    return not (bad or missing or unseen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
