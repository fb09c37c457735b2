"""``python -m tests.soak --minutes 2``: work, sample, print a table; 1 when something has grown."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
import time
from typing import List

from minimcp.engine.pool import IDLE_SECONDS

from ..support import WAIT, Held, eventually, held, status_of, usual_signals
from .samples import HEADING, KEPT, Series, has_come_to_rest
from .work import Work

THREADS = 4
IDLE = IDLE_SECONDS + WAIT  # seconds in which workers without work have ended
ROUNDS = 60  # how many rounds a run has, and so how many samples


def main(arguments: List[str]) -> int:
    """Run it; 0 when nothing has grown, failed or is left."""
    usual_signals()
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0, help="how long (default: 2)")
    parser.add_argument("--seed", type=int, default=1, help="decides what is done (default: 1)")
    options = parser.parse_args(arguments)
    logging.getLogger("minimcp").addHandler(logging.NullHandler())  # tools fail on purpose
    before, begun = held(), time.monotonic()
    work = Work(options.seed)
    series = [Series(pid, name, 0 if name == "server" else KEPT) for name, pid in work.pids.items()]
    threads = {pid: float(status_of(pid, "Threads")) for pid in work.pids.values()}
    end = time.monotonic() + options.minutes * 60
    for number in range(ROUNDS):
        if not work.round(THREADS, max(0.0, (end - time.monotonic()) / (ROUNDS - number))):
            faulthandler.dump_traceback()
            print(f"round {number + 1} hangs")
            return 1
        held_now = work.settle()
        for each in series:
            each.sample(held_now[each.name])
    left = (
        []
        if eventually(lambda: has_come_to_rest(threads), IDLE)
        else ["LEFT: threads of idle connections"]
    )
    work.close()
    left += _left(before)
    minutes = (time.monotonic() - begun) / 60
    deeds, version = sum(work.done.values()), sys.version.split()[0]
    title = f"{minutes:.1f} minutes, {deeds} deeds, seed {options.seed}, Python {version}"
    verdicts = [verdict for each in series for verdict in each.verdicts()]
    print(title)
    print("\n".join(f"{count:>8} {name}" for name, count in sorted(work.done.items())))
    print("\n".join([HEADING, *(verdict.line() for verdict in verdicts)]))
    print("\n".join([*work.faults[:10], *left]))
    return 1 if work.faults or left or any(verdict.has_grown for verdict in verdicts) else 0


def _left(before: Held) -> List[str]:
    """Return the differences from the beginning."""
    eventually(lambda: held().named() == before.named() and held().threads == before.threads, WAIT)
    now = held()
    lines = [f"LEFT: thread {thread.name}" for thread in now.threads ^ before.threads]
    lines += [f"LEFT: {what}" for what in (now.named() - before.named()).elements()]
    return lines + [f"GONE: {what}" for what in (before.named() - now.named()).elements()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
