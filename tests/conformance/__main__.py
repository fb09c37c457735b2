"""`python -m tests.conformance`: install the official conformance suite, run it both ways, print
the score.

Exit code 1 when a scenario failed, warned, checked nothing or gave no result, or when the suite
could not run. There is no list of failures that are expected.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator, Sequence

from . import suite
from .suite import Broken, Verdict

SETS = {"2025-11-25": 30, "2026-07-28": 37}
"""Revisions with a set of required scenarios, and how many there are for a server."""

BESIDE = {  # the suite runs these with a set and does not count them, but we do
    "2025-11-25": ["server-session-lifecycle", "json-schema-2020-12", "server-sse-polling"],
    "2026-07-28": [
        "json-schema-2020-12",
        "http-header-validation",
        "http-custom-header-server-validation",
    ],
}

OLDER = {
    "2025-06-18": 27,
    "2025-03-26": 1,
}  # revisions without a set, and how many scenarios there are for a server
NEVER_CHECKED = "tasks-status-notifications"  # which this build of the suite always skips
EXTENSIONS = {"tasks": ("tasks-", 9), "skills": ("sep-2640-", 3)}
"""The prefix of the names of an extension's scenarios, and their number for a server."""


class Score:
    def __init__(self) -> None:
        self.failed = 0

    def take(self, title: str, verdicts: Sequence[Verdict]) -> str:
        """Print the verdicts; return how many passed, as "x of y"."""
        for verdict in verdicts:
            tally = f"{verdict.succeeded}/{verdict.checked}"
            print(
                f"{title:<18} {verdict.scenario:<46}{tally:>6}  {verdict.problem or 'ok'}",
                flush=True,
            )
        failed = sum(bool(verdict.problem) for verdict in verdicts)
        self.failed += failed
        return f"{len(verdicts) - failed} of {len(verdicts)}"


def required(revision: str, count: int) -> list[str]:
    """Return the scenarios that a revision requires of a server."""
    names = list(suite.listed(suite.ask("list", "--requirements", revision), "Server"))
    if len(names) != count:
        raise Broken(f"{len(names)} scenarios are required by {revision}, not {count}")
    return names


def server_side(score: Score) -> Iterator[str]:
    """Run everything against our server; yield the lines of the score."""
    with suite.serving() as url:
        for revision, count in SETS.items():
            names = required(revision, count)
            found = suite.servers(url, "--requirements", revision)
            scored = score.take(
                f"server {revision}", [found.get(name, Verdict(name)) for name in names]
            )
            beside = score.take(
                f"server {revision}", [found.get(name, Verdict(name)) for name in BESIDE[revision]]
            )
            yield f"server {revision}: {scored} required, {beside} beside them"
        for revision, count in OLDER.items():
            found = suite.servers(url, "--suite", "all", "--spec-version", revision)
            missing = [Verdict(f"({number} more)") for number in range(1, count - len(found) + 1)]
            yield f"server {revision}: {score.take(f'server {revision}', [*found.values(), *missing])}"
        known = suite.listed(suite.ask("list"), "Server")
        for extension, (prefix, count) in EXTENSIONS.items():
            names = [name for name in known if name.startswith(prefix) and name != NEVER_CHECKED]
            if len(names) != count:
                raise Broken(f"{len(names)} scenarios of {extension} are listed, not {count}")
            each = [
                suite.servers(
                    url, "--scenario", name, "--spec-version", "2026-07-28", "--force"
                ).get(name)
                for name in names
            ]
            verdicts = [verdict or Verdict(name) for verdict, name in zip(each, names)]
            yield f"server {extension}: {score.take(f'server {extension}', verdicts)}"


def client_side(score: Score) -> Iterator[str]:
    """Run every scenario at every revision it has with our client; yield the lines of the score."""
    known = suite.listed(suite.ask("list"), "Client")
    at = [(name, revision) for name, revisions in known.items() for revision in revisions]
    if not at:
        raise Broken("no scenario for clients is listed")
    with ThreadPoolExecutor(3) as pool:  # each is a few processes that wait for one another
        judged = list(pool.map(lambda each: suite.client(*each), at))
    for revision in sorted({revision for _, revision in at}):
        verdicts = [verdict for verdict, (_, its) in zip(judged, at) if its == revision]
        yield f"client {revision}: {score.take(f'client {revision}', verdicts)}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--only", choices=["server", "client"], help="this side alone")
    only = parser.parse_args(arguments).only
    begun, score = time.monotonic(), Score()
    lines: list[str] = []
    try:
        suite.ENVIRONMENT.ready()
        for name, side in (("server", server_side), ("client", client_side)):
            lines += side(score) if only in (None, name) else []
    except (Broken, suite.InstallFailed) as error:
        print(f"the suite could not run: {error}")
        return 1
    print("\n".join(["", *lines]))
    print(f"{score.failed} failed ({time.monotonic() - begun:.0f} s)")
    return 1 if score.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
