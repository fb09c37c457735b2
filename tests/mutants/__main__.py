"""``python -m tests.mutants``: try mutants of every kind, and exit with 1 when one was taken
wrongly."""

from __future__ import annotations

import argparse
import random
import sys
import time
from contextlib import closing
from typing import Sequence

from .running import GROWTH, Found, Options, judge_of, run

SHARES = {
    "lines": 20, "requests": 15, "answers": 5, "messages": 8, "events": 10, "heads": 8, "objects": 8, "schemas": 10,
    "forms": 4, "urls": 5, "templates": 4, "configs": 3,
}  # fmt: skip
"""The kinds, and of a hundred mutants how many are of each."""


def only(name: str, options: Options) -> int:
    """Print one mutant, and what is wrong with its handling."""
    kind, seed, _ = name.split(":")
    with closing(judge_of(kind, options._replace(seed=int(seed)))) as judge:
        print(judge.make(name))
        why = judge.judge([name])
    print(why or "taken as it should be")
    return int(bool(why))


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Throw changed inputs at the library."
    )
    parser.add_argument(
        "--count", type=int, default=20_000, help="mutants of all kinds together (20,000)"
    )
    parser.add_argument("--seed", type=int, help="decides all that is random; printed")
    parser.add_argument(
        "--kinds", default=",".join(SHARES), help="these alone; all have the shares of all"
    )
    parser.add_argument("--only", metavar="KIND:SEED:N", help="show one mutant and how it is taken")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of processor time that a mutant may take (1)"
    )
    parser.add_argument(
        "--patience", type=float, default=30.0, help="seconds after which a mutant hangs (30)"
    )
    chosen = parser.parse_args(given)
    seed = random.SystemRandom().randrange(10**6) if chosen.seed is None else chosen.seed
    options = Options(seed, chosen.seconds, chosen.patience)
    if chosen.only:
        return only(chosen.only, options)
    kinds, wrong, total = chosen.kinds.split(","), 0, 0
    print(f"seed {seed}", flush=True)
    for kind in kinds:
        count, begun, growth = max(1, chosen.count * SHARES[kind] // 100), time.monotonic(), 0.0
        for found in run(kind, options, count):
            if isinstance(found, Found):
                wrong += len(found.names)
                print(f"  {', '.join(found.names[:3])}: {found.why}", flush=True)
            else:
                growth = found
        took, total = time.monotonic() - begun, total + count
        flat = growth <= GROWTH
        wrong += not flat
        print(
            f"{kind:10} {count:9,} mutants {took:7.1f} s {growth:6.1f} MB{'' if flat else ' of growth'}",
            flush=True,
        )
    print(f"{total:,} mutants, seed {seed}: {wrong} taken wrongly")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
