"""A table of what faults cost, beside other libraries: our column comes out of a summary that the runner wrote.

The figures of the others were taken once for this project, on one Linux machine with Python 3.11, by the same faults.
A cell of ours names the rows that it stands on; it says "no" when one of them did not pass.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple

from .trial import PASS

BEGINS, ENDS = ".. anchors begin", ".. anchors end"
OTHERS = ("mcp 2.3.0", "FastMCP 4.1.2", "mcp 1.30.0")


class Anchor(NamedTuple):
    """One fault.

    Args:
        fault: In words.
        rows: Of the catalogue; all have to pass.
        ours: What is said of ours then; ``{C12 time}`` stands for a figure.
        others: The same of each of `OTHERS`.
    """

    fault: str
    rows: str
    ours: str
    others: "tuple[str, str, str]"


SAME, NOT = "the same", "not tried"

ANCHORS = (
    Anchor("a broken, deep or mangled line", "C01 C02 C03 C06", "an error, lives",
           ("no reply, lives", "no reply, lives", "a log message, lives")),
    Anchor("mutated messages", "C20", "0 wrong of {C20 mutants}", ("0 of 10,000", "0 of 10,000", "0 of 2,000")),
    Anchor("a message of 50 MB", "C12", "{C12 time of 50 MB}, {C12 growth} more",
           ("2.2 s, peak 495 MB", "2.9 s, peak 517 MB", NOT)),
    Anchor("96 MB without a line feed", "C13", "refused, {C13 growth} more", ("no reply", "no reply", NOT)),
    Anchor("a fast call behind slow ones", "C27", "{C27 a fast call behind a slow one}",
           ("1.55 s", "2.33 s", "> 15 s")),
    Anchor("20 calls, then the end of input", "C31", "{C31 of 20 calls before EOF answered} answered",
           ("10 or 11 answered", "11 answered", "11 answered")),
    Anchor("end of input while idle: exits after", "C31", "{C31 EOF, idle}", ("0.3 s", "0.5 s", "0.3 s")),
    Anchor("end of input during a call of 30 s", "C31", "{C31 EOF, 30 s in flight, in all}",
           ("> 15 s", "> 15 s", "> 15 s")),
    Anchor("SIGINT while idle", "C32", "{C32 SIGINT, idle}", ("> 15 s", "> 15 s", "> 15 s")),
    Anchor("SIGTERM while idle", "C32", "{C32 SIGTERM, idle}", ("0.008 s", "0.007 s", "0.027 s")),
    Anchor("SIGTERM during a call", "C32", "its grace, {C32 SIGTERM x 1, in flight}",
           ("0.016 s", "0.012 s", "0.016 s")),
    Anchor("a tool that writes to stdout", "C23", "0 stray lines",
           ("0 stray lines", "0 stray lines", "22 stray lines")),
    Anchor("1,000 calls cancelled at once", "C19", "{C19 answered} answered, lives",
           ("0 answered, lives", "2 answered, lives", "dies")),
    Anchor("20,000 requests, nothing read", "C24", "{C24 time}, {C24 growth} more",
           ("25 s, peak 268 MB", "42 s, peak 278 MB", NOT)),
    Anchor("HTTP: a broken, deep or mangled body", "C39", "status 400",
           ("status 400", "status 400", "status 500 for some")),
    Anchor("HTTP: 50 MB", "C40", "413, {C40 growth} more", ("413, peak 72 MB", "413", "413")),
    Anchor("HTTP: Host and Origin of others", "C42", "all refused", ("2 taken", "7 taken", "2 taken")),
    Anchor("HTTP: 64 KB of header; 1,000 headers", "C44", "refused", ("served", "served", NOT)),
    Anchor("HTTP: 200 slow peers of each kind", "C45", "all shed in time",
           ("none in 35 s", "none in 35 s", "none in 8 s")),
    Anchor("HTTP: a request beside these", "C45", "{C45 a probe meanwhile, slowest}", ("0.12 s", NOT, NOT)),
    Anchor("HTTP: clients that leave in a call", "C47", "{C47 growth, 2026-07-28} more",
           ("3 MB more", "15 MB more", "one at a time")),
    Anchor("client: an answer of 50 MB", "K06", "{K06 time, the adapter's own hop included}", ("17.4 s", "> 3 s", NOT)),
    Anchor("client: 20,000 notifications", "K05", "{K05 time of 20,000}", ("1.1 s", "> 10 s, call lost", NOT)),
    Anchor("client: invalid UTF-8 comes", "K07", "the line is skipped", ("waits to its timeout", SAME, NOT)),
    Anchor('client: an answer to "1", not 1', "K03", "passed over", ("taken for its own", SAME, NOT)),
    Anchor("client: a result of a wrong shape", "K04", "an error after {K04 slowest}",
           ("waits to its timeout", SAME, NOT)),
    Anchor("client: 5 MB that nobody reads", "K10", "{K10 a timeout of 1 s} of 1 s", ("8 s of 3 s", NOT, NOT)),
    Anchor("client: an event above 1 MiB", "K06H", "taken, up to 64 MiB", ("an error", SAME, NOT)),
    Anchor("client: 1 MB of gzip that are 1 GB", "K12", "refused, {K12 memory at most}",
           ("3.1 GB, for 20 s", "3.2 GB, for 18 s", NOT)),
)


def figure(value: float, unit: str) -> str:
    """A figure as people read it."""
    if unit == "s":
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value:,.0f} {unit}".rstrip()


def cell(anchor: Anchor, rows: Dict[str, Any]) -> str:
    """What a summary says of ours."""
    if any(rows[name]["verdict"] != PASS for name in anchor.rows.split()):
        return "no"
    return re.sub(r"\{(\w\d\dH?) (.+?)\}", lambda found: figure(*rows[found[1]]["metrics"][found[2]]), anchor.ours)


def table(summary: Dict[str, Any]) -> str:
    """The table in reStructuredText."""
    rows = {row["id"]: row for row in summary["rows"]}
    head = ["Fault", summary["name"], *OTHERS]
    body: List[List[str]] = [[anchor.fault, cell(anchor, rows), *anchor.others] for anchor in ANCHORS]
    widths = [max(len(line[index]) for line in (head, *body)) for index in range(len(head))]
    rule = " ".join("=" * width for width in widths)
    lines = [" ".join(one.ljust(width) for one, width in zip(line, widths)).rstrip() for line in (head, *body)]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
