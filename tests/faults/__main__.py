"""``python -m tests.faults``: try every row, print a line for each, and exit with 1 when one is
worse than expected."""

from __future__ import annotations

import argparse
import faulthandler
import os
import platform
import random
import re
import shlex
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import List, Sequence

from ..support import usual_signals
from ..wire.messages import EVERY
from . import (
    client_bounds,
    client_http,
    client_stdio,
    http_bounds,
    http_load,
    http_requests,
    http_sessions,
    mutants,
    server_lines,
    server_work,
)  # fmt: skip
from .catalogue import CLIENT, HTTP, ROWS
from .trial import (
    ABSENT,
    BADNESS,
    FAIL,
    PASS,
    WARN,
    Options,
    Outcome,
    Subject,
    find,
    find_http,
    run,
)

CASES_ARE_IN = (
    client_bounds, client_http, client_stdio, http_bounds, http_load, http_requests, http_sessions, mutants,
    server_lines, server_work,
)  # fmt: skip

MEASURES = frozenset({
    "C12", "C13", "C17", "C19", "C24", "C25", "C26", "C27", "C38", "C45", "C58", "C61", "C65", "C69", "C70", "C71",
    "C72", "C75", "K05",
    "K05H", "K06", "K06H", "K08", "K08H", "K12", "K25", "K26", "K27", "K29", "K31",
})  # fmt: skip
"""Rows with figures that the work of another row would spoil. With --jobs they run separately, at
the end."""

TESTS = Path(__file__).resolve().parent.parent
OUR_SERVER = (sys.executable, str(TESTS / "wire" / "servers" / "plain.py"))
OUR_HTTP = (sys.executable, str(TESTS / "faults" / "ours" / "http_server.py"))
OUR_ADAPTER = (sys.executable, str(TESTS / "faults" / "ours" / "adapter.py"))


def our_name() -> str:
    text = (TESTS.parent / "minimcp" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.+)"', text, re.M)
    return f"minimcp {found[1] if found else ''}".strip()


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Throw faults at servers and clients."
    )
    parser.add_argument(
        "--server", metavar="COMMAND", help="the server to try (ours); see the package's docstring"
    )
    parser.add_argument(
        "--http",
        metavar="COMMAND",
        help='the HTTP server to try (ours); "{port}" becomes a free port',
    )
    parser.add_argument("--client", metavar="COMMAND", help="the client adapter to try (ours)")
    parser.add_argument("--only", metavar="C05,K02", help="these rows alone")
    parser.add_argument("--list", action="store_true", help="print the rows and stop")
    parser.add_argument("--seed", type=int, help="decides all that is random; printed")
    parser.add_argument(
        "--mutations", type=int, default=10_000, metavar="N", help="mutated messages of C20"
    )
    parser.add_argument(
        "--full", action="store_true", help="the catalogue's numbers, where fewer are usual"
    )
    parser.add_argument(
        "--slack", type=float, default=1.0, help="multiplies every bound in seconds (1)"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=10.0,
        metavar="S",
        help="after so long a wait is a hang (10)",
    )
    parser.add_argument(
        "--table", action="store_true", help="print what examples/conformance.rst shows of this run"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="rows at a time; those that measure what a busy machine spoils come alone, at the end",
    )
    return parser.parse_args(given)


def rows(only: "str | None") -> List[str]:
    """Return the rows to try. An unknown row ends the program."""
    chosen = only.split(",") if only else list(ROWS)
    unknown = [id for id in chosen if id not in ROWS]
    if unknown:
        raise SystemExit(f"no row is called {', '.join(unknown)}; see --list")
    return chosen


def shown(outcome: Outcome) -> str:
    figures = ", ".join(
        f"{name} {value:.12g} {unit}".rstrip() for name, (value, unit) in outcome.metrics.items()
    )
    what = "; ".join(part for part in (outcome.observed, figures) if part)
    return f"{outcome.id:4} {outcome.verdict:<4} {outcome.seconds:6.1f} s  {what}"


# seconds after which a row hangs, whatever its own limits; and more for the mutants
LONGEST = 250.0


def hang(id: str) -> None:
    """Print the stacks of all threads, and exit."""
    faulthandler.dump_traceback()
    print(f"{id:4} hangs", flush=True)
    os._exit(1)


BEGINS, ENDS = ".. faults table begins", ".. faults table ends"


def section(name: str, outcomes: Sequence[Outcome], options: argparse.Namespace) -> str:
    how = f"seed {options.seed}, {options.mutations:,} mutants, bounds in seconds times {options.slack:g}"
    begin = f"* {name}, {time.strftime('%Y-%m-%d')}, Python {platform.python_version()}: {counted(outcomes)}"
    return f"{begin}\n  ({how}).\n\n{table(name, outcomes)}"


def counted(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(one.verdict for one in outcomes)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in BADNESS if counts[verdict])


def table(name: str, outcomes: Sequence[Outcome]) -> str:
    found = {one.id: one.verdict for one in outcomes if one.verdict != ABSENT}
    head = ["Row", "Fault", "Correct behavior", name]
    body = [[row.id, row.fault, row.expected, found.get(row.id, "\\-")] for row in ROWS.values()]
    widths = [max(map(len, column)) for column in zip(head, *body)]
    rule = " ".join("=" * width for width in widths)
    lines = [
        " ".join(one.ljust(width) for one, width in zip(line, widths)).rstrip()
        for line in (head, *body)
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def main(given: Sequence[str] = tuple(sys.argv[1:])) -> int:
    usual_signals()
    options = arguments(given)
    if options.list:
        print(
            "\n".join(
                f"{row.id:4} {row.role:7} {row.fault}: {row.expected}" for row in ROWS.values()
            )
        )
        return 0
    options.seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    foreign = bool(options.server or options.client or options.http)
    given = ((options.server, OUR_SERVER), (options.client, OUR_ADAPTER), (options.http, OUR_HTTP))
    server, adapter, http = (
        tuple(shlex.split(command)) if command else () if foreign else ours
        for command, ours in given
    )
    trying = Options(options.seed, options.patience, options.slack, options.full, options.mutations)
    chosen = rows(options.only)
    roles = {ROWS[id].role for id in chosen}
    subject = Subject(server, adapter, http=http, tunable=not foreign)
    if server:
        subject = find(subject, trying)
    if http and HTTP in roles:
        subject = find_http(subject, trying)
    for spoken in () if foreign else filter(None, (subject.revisions, subject.http_revisions)):
        if spoken != EVERY:
            raise SystemExit(f"our server speaks only {', '.join(spoken)}")
    spoken = dict.fromkeys((*subject.revisions, *subject.http_revisions))
    name = " ".join(server or http or adapter) if foreign else our_name()
    print(f"{name}: {', '.join(spoken) or 'no server'}; seed {options.seed}", flush=True)
    lacking = {CLIENT: adapter, HTTP: http}

    def tried(id: str) -> Outcome:
        one = Outcome(id, ABSENT, "no such subject was named", {}, 0.0)
        if lacking.get(ROWS[id].role, server):
            watch = threading.Timer(LONGEST + options.mutations / 1_000, hang, (id,))
            watch.daemon = True
            if not options.full:
                watch.start()
            one = run(id, subject, trying)
            watch.cancel()
        print(shown(one), flush=True)
        return one

    alone = [id for id in chosen if options.jobs == 1 or id in MEASURES]
    with ThreadPoolExecutor(options.jobs) as pool:
        beside = list(pool.map(tried, (id for id in chosen if id not in alone)))
    outcomes = sorted([*beside, *map(tried, alone)], key=lambda one: chosen.index(one.id))
    if options.table:
        print("\n" + section(name, outcomes, options))
    print(f"{counted(outcomes)}; seed {options.seed}")
    worse = (
        {WARN, FAIL} if foreign else {WARN, FAIL, ABSENT}
    )  # all pass, and nothing of ours goes untried
    verdicts = {one.verdict for one in outcomes}
    return int(bool(verdicts & worse) or PASS not in verdicts)


if __name__ == "__main__":
    sys.exit(main())
