"""The command ``check``: asks somebody's server what the specification says that it must answer,
and tells what it did.

The checks stand in `checks`. Each names the requirement that it is about, of the revisions with a
handshake or of the one without: the same ids as in this project's list of requirements. No tool is
called but the one that ``--call`` names; everything else that is sent only reads. A server that
dies of a check is started again for the next one.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Callable, NamedTuple, Optional, Sequence

from ..client.connect import read_target, with_stored_token
from ..engine.timer import Deadline
from ..errors import ConnectionFailed, McpError, RequestTimeout
from ..protocol.versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision
from ..stdio.child import StdioServer
from . import Parser, UsageError, clean, exit_code, one_line, tell
from .checks import CHECKS
from .commands import add_target, config_of, find_tool, web_of
from .probe import (
    TOTAL_SECONDS,
    Failed,
    Flooded,
    Intake,
    NotApplicable,
    Pipe,
    Probe,
    ServerCheck,
    Web,
)
from .terminal import as_json, read_pairs, styled, wants_colour

ENDINGS = (
    "Exit codes: 0 nothing failed, 1 something did, 2 wrong usage, 3 no connection, "
    "4 no answer in time."
)


class CheckResult(NamedTuple):
    """What became of a check: ``outcome`` is "pass", "fail", "warn", "n/a" or "timeout"."""

    row: str
    outcome: str
    about: str
    evidence: str
    revision: str
    seconds: float


def judge(probe: Probe, check: ServerCheck, row: str) -> CheckResult:
    """Run one check; a server that is gone is opened anew first.

    Raises:
        ConnectionFailed, ConnectionLost, RequestTimeout, Failed: It does not open any more.
        Flooded: It sends without end.
    """
    if probe.way is None:
        probe.open()
    probe.log.clear()
    probe.came.clear()
    begun = time.monotonic()
    try:
        outcome, evidence = "pass", check.run(probe) or ""
    except NotApplicable as error:
        outcome, evidence = "n/a", str(error)
    except RequestTimeout as error:  # who is slow is not wrong
        outcome, evidence = "timeout", "\n".join([str(error), *probe.log[-6:]])
        probe.close()
    except (Failed, McpError) as error:
        outcome, evidence = (
            check.failed_in(probe.revision),
            "\n".join([str(error), *probe.log[-6:]]),
        )
        if not isinstance(error, Failed):  # it may be gone
            probe.close()
    return CheckResult(
        row, outcome, check.about, clean(evidence), probe.revision.name, time.monotonic() - begun
    )


def revisions_of(
    connect: Callable[[Callable[[bytes], Any]], Any], wanted: Optional[str]
) -> list[Revision]:
    """The revisions in which a server is checked: the newest that it speaks of each era, or the one
    that is wanted.

    Raises:
        Flooded: It sends without end.
        ConnectionFailed, ConnectionLost, RequestTimeout: It does not begin, or not in the one that
            is wanted.
    """
    found: list[Revision] = []
    problem: Optional[Exception] = None
    for revision in (NEWEST_HANDSHAKE, REVISIONS[-1]) if wanted is None else (BY_NAME[wanted],):
        probe = Probe(connect, revision)
        try:
            probe.open()
            told = probe.opening.get("supportedVersions" if probe.alone else "protocolVersion")
            names = told if isinstance(told, list) else [revision.name if probe.alone else told]
            spoken = [
                each
                for each in REVISIONS
                if each.name in names and each.handshake == revision.handshake
            ]
            found += [each for each in spoken[-1:] if wanted in (None, each.name)]
            problem = problem or ConnectionFailed(
                f"the server speaks {one_line(str(told))}, not {revision.name}"
            )
        except ConnectionFailed:
            raise
        except (McpError, Failed) as error:
            problem = problem or error
        finally:
            probe.close()
    if not found:
        raise (
            problem
            if isinstance(problem, McpError)
            else ConnectionFailed(f"the server does not begin: {problem}")
        )
    return found


def check_command(arguments: Sequence[str], prog: str) -> int:
    """The command of this name."""
    about = "Check a server against the specification. It calls no tool, unless --call names one."
    parser = Parser(prog, about, ENDINGS)
    add_target(parser)
    parser.add_argument(
        "--revision",
        choices=[each.name for each in REVISIONS],
        metavar="NAME",
        help="check in this revision (default: in the newest with a handshake, and without one)",
    )
    parser.add_argument(
        "--only", action="append", metavar="ROW", help="run this check; may be given several times"
    )
    parser.add_argument(
        "--call",
        nargs="+",
        metavar="TOOL key=value",
        help="this tool may be called, so; stands last",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="for each answer (default: 10)",
    )
    parser.add_argument(
        "--total",
        type=float,
        default=TOTAL_SECONDS,
        metavar="SECONDS",
        help=f"for the whole run (default: {TOTAL_SECONDS:g})",
    )
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="what to print (default: text)"
    )
    parser.add_argument("--junit", metavar="FILE", help="write the verdicts as JUnit XML, too")
    parser.add_argument(
        "--verbose", action="store_true", help="print what passed and what does not apply, too"
    )
    options = parser.parse_args(arguments)
    rows = {row for check in CHECKS for row in (check.row, check.row_alone) if row}
    unknown = [row for row in options.only or () if row not in rows]
    if unknown:
        raise UsageError(
            f"there is no check of {', '.join(unknown)}: there are {', '.join(sorted(rows))}"
        )
    try:
        found = read_target(
            options.target, config=config_of(options), web=web_of(options, options.target)
        )
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if not found.is_web and not isinstance(found.object, StdioServer):
        raise UsageError(f"{options.target} is no server that could be checked")
    if found.is_web and not found.object.has_auth:
        found = found._replace(object=with_stored_token(found.object))

    total = Deadline(options.total)

    def connect(take: Callable[[bytes], Any]) -> Any:
        return (Web if found.is_web else Pipe)(found.object, options.timeout, take, intake)

    verdicts: list[CheckResult] = []
    lost: Optional[Exception] = None
    probe: Optional[Probe] = None
    intake = Intake(total)
    begun = time.monotonic()
    try:
        for revision in revisions_of(connect, options.revision):
            probe = Probe(connect, revision)
            intake = Intake(total)
            try:
                if options.call:
                    probe.open()
                    probe.call = _call_of(probe, *options.call)
                for check in CHECKS:
                    row = check.row_in(revision)
                    wanted = options.only is None or row in options.only
                    if row is None or not wanted or check.web not in (None, found.is_web):
                        continue
                    if total.expired:
                        verdicts.append(_unchecked(row, check, revision, options.total))
                    else:
                        verdicts.append(judge(probe, check, row))
            except (McpError, Failed) as error:
                tell(
                    f"{prog}: {revision.name}: the server does not begin any more: "
                    f"{one_line(str(error))}"
                )
                lost = error
            finally:
                probe.close()
    except Flooded as flood:
        name = options.revision or NEWEST_HANDSHAKE.name  # it may flood before it is known
        if probe is not None:
            name = probe.revision.name
        verdicts.append(
            CheckResult("flood", "fail", FLOODS, str(flood), name, time.monotonic() - begun)
        )
    counts = {word: sum(each.outcome == word for each in verdicts) for word in STYLE}
    if options.output == "json":
        print(as_json([verdict._asdict() for verdict in verdicts]))
    else:
        for verdict in sorted(verdicts, key=lambda each: [*STYLE].index(each.outcome)):
            _print(verdict, options.verbose)
        names = ", ".join(dict.fromkeys(each.revision for each in verdicts))
        late = f"{counts['timeout']} not answered in time, " if counts["timeout"] else ""
        print(
            f"{counts['pass']} passed, {counts['fail']} failed, {late}{counts['warn']} warnings, "
            f"{counts['n/a']} do not apply; revisions {names}"
        )
    if options.junit is not None:
        _write_junit(options.junit, options.target, verdicts)
    if lost is not None:
        return exit_code(lost) if isinstance(lost, McpError) else 3
    return 1 if counts["fail"] else 4 if counts["timeout"] else 0


FLOODS = "the server floods"


def _unchecked(row: str, check: ServerCheck, revision: Revision, seconds: float) -> CheckResult:
    """Return the verdict on a check for which no time was left."""
    told = f"not run: {seconds:g} s have passed (--total)"
    return CheckResult(row, "timeout", check.about, told, revision.name, 0.0)


def _call_of(probe: Probe, name: str, *pairs: str) -> tuple[str, dict[str, Any]]:
    """The tool of ``--call`` and its arguments, read as its schema asks. Raises UsageError: there
    is no such tool."""
    entries = probe.listed("tools/list") if "tools" in probe.capabilities else []
    probe.tool = find_tool({str(each.get("name")): each for each in entries}, name)
    return name, read_pairs(pairs, probe.tool.get("inputSchema") or {})


# The outcomes as they are shown, those first that ask for something to be done.
STYLE = {"fail": "bold", "timeout": "bold", "warn": "cyan", "n/a": "dim", "pass": "green"}


def _print(verdict: CheckResult, verbose: bool) -> None:
    if verdict.outcome in ("pass", "n/a") and not verbose:
        return
    word = styled(
        verdict.outcome.upper().ljust(5), STYLE[verdict.outcome], wants_colour(sys.stdout)
    )
    print(f"{word} {verdict.revision} {verdict.row}: {verdict.about}")
    for line in verdict.evidence.splitlines():
        print(f"      {line}")


def _write_junit(path: str, target: str, verdicts: Sequence[CheckResult]) -> None:
    from xml.etree import ElementTree as xml

    failed, late, skipped = (
        sum(each.outcome == word for each in verdicts) for word in ("fail", "timeout", "n/a")
    )
    suite = xml.Element(
        "testsuite",
        name=f"minimcp check {target}",
        tests=str(len(verdicts)),
        failures=str(failed),
        skipped=str(skipped),
        errors=str(late),
    )
    for verdict in verdicts:
        case = xml.SubElement(
            suite,
            "testcase",
            classname=verdict.revision,
            name=f"{verdict.row} {verdict.about}",
            time=f"{verdict.seconds:.3f}",
        )
        kind = {"fail": "failure", "timeout": "error", "n/a": "skipped"}.get(verdict.outcome)
        if kind is not None:
            xml.SubElement(
                case, kind, message=verdict.evidence.partition("\n")[0]
            ).text = verdict.evidence
        elif verdict.evidence:
            xml.SubElement(case, "system-out").text = f"{verdict.outcome}: {verdict.evidence}"
    xml.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
