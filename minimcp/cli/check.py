"""``minimcp check``: check a server against the specification and report the results.

The checks are in `checks`. Each has the id of a requirement, from this project's list for the
revisions with a handshake or for the stateless one. Only the tool that ``--call`` names is called;
all other requests only read. If a check crashes the server, the server is restarted for the next
check.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any, Callable, NamedTuple, Optional, Sequence

from ..client.connect import read_target, with_stored_token
from ..engine.timer import Deadline
from ..errors import ConnectionFailed, McpError, RequestTimeout
from ..protocol.versions import BY_NAME, NEWEST_HANDSHAKE, REVISIONS, Revision
from ..stdio.child import StdioServer
from ..terminal import as_json
from . import Parser, UsageError, clean, exit_code, one_line, print_stderr
from .checks import CHECKS
from .commands import add_target, config_of, find_tool, web_of
from .probe import (
    BUDGET_TOKENS,
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
from .terminal import read_pairs, styled, wants_color

EXIT_CODES = (
    "Exit codes: 0 no check failed, 1 a check failed, 2 wrong usage, 3 no connection, "
    "4 a response timed out."
)


class CheckResult(NamedTuple):
    """The result of a check: ``outcome`` is "pass", "fail", "warn", "n/a" or "timeout"."""

    row: str
    outcome: str
    about: str
    evidence: str
    revision: str
    seconds: float


def judge(probe: Probe, check: ServerCheck, row: str) -> CheckResult:
    """Run one check. If the connection is closed, open a new one first.

    Raises:
        ConnectionFailed, ConnectionLost, RequestTimeout, Failed: No new connection can be opened.
        Flooded: The server sends too much.
    """
    if probe.connection is None:
        probe.open()
    probe.log.clear()
    probe.received.clear()
    started_at = time.monotonic()
    try:
        evidence = check.run(probe) or ""
        outcome = "pass"
    except NotApplicable as error:
        evidence = str(error)
        outcome = "n/a"
    except RequestTimeout as error:
        # Not a failure: a slow server may still be correct.
        evidence = "\n".join([str(error), *probe.log[-6:]])
        outcome = "timeout"
        probe.close()
    except (Failed, McpError) as error:
        evidence = "\n".join([str(error), *probe.log[-6:]])
        outcome = check.failed_in(probe.revision)
        if not isinstance(error, Failed):  # the connection may be lost
            probe.close()
    seconds = time.monotonic() - started_at
    return CheckResult(row, outcome, check.about, clean(evidence), probe.revision.name, seconds)


def revisions_of(
    connect: Callable[[Callable[[bytes], Any]], Any], wanted: Optional[str]
) -> list[Revision]:
    """Return the revisions in which to check a server.

    They are the newest one that the server supports with a handshake, and the newest without; or
    only the wanted one.

    Raises:
        Flooded: The server sends too much.
        ConnectionFailed, ConnectionLost, RequestTimeout: The server cannot be reached, or does not
            support the wanted revision.
    """
    found: list[Revision] = []
    problem: Optional[Exception] = None
    for revision in (NEWEST_HANDSHAKE, REVISIONS[-1]) if wanted is None else (BY_NAME[wanted],):
        probe = Probe(connect, revision)
        try:
            probe.open()
            answer = probe.opening.get(
                "supportedVersions" if probe.is_stateless else "protocolVersion"
            )
            if isinstance(answer, list):
                names = answer
            else:
                names = [revision.name if probe.is_stateless else answer]
            supported = [
                each
                for each in REVISIONS
                if each.name in names and each.handshake == revision.handshake
            ]
            found += [each for each in supported[-1:] if wanted in (None, each.name)]
            problem = problem or ConnectionFailed(
                f"the server supports {one_line(str(answer))}, not {revision.name}"
            )
        except ConnectionFailed:
            raise
        except (McpError, Failed) as error:
            problem = problem or error
        finally:
            probe.close()
    if not found:
        if isinstance(problem, McpError):
            raise problem
        raise ConnectionFailed(f"the connection could not be opened: {problem}")
    return found


def check_command(arguments: Sequence[str], prog: str) -> int:
    """Check a server against the specification."""
    about = "Check a server against the specification. No tool is called unless --call names one."
    parser = Parser(prog, about, EXIT_CODES)
    add_target(
        parser,
        token="send this bearer token with every request to a URL; with a second --token, the "
        "check cache compares what the two callers get",
        action="append",
    )
    parser.add_argument(
        "--revision",
        choices=[each.name for each in REVISIONS],
        metavar="NAME",
        help="check this revision (default: the newest one with a handshake, and the newest one "
        "without)",
    )
    parser.add_argument(
        "--only", action="append", metavar="ROW", help="run only this check; may be repeated"
    )
    parser.add_argument(
        "--call",
        nargs="+",
        metavar="TOOL key=value",
        help="a tool that may be called, with its arguments; must be the last option",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="limit for each response (default: 10)",
    )
    parser.add_argument(
        "--budget",
        type=int,
        default=BUDGET_TOKENS,
        metavar="TOKENS",
        help=f"warn if the tools together have more estimated tokens (default: {BUDGET_TOKENS})",
    )
    parser.add_argument(
        "--total",
        type=float,
        default=TOTAL_SECONDS,
        metavar="SECONDS",
        help=f"limit for the whole run (default: {TOTAL_SECONDS:g})",
    )
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="output format (default: text)"
    )
    parser.add_argument("--junit", metavar="FILE", help="also write the results as JUnit XML")
    parser.add_argument(
        "--verbose", action="store_true", help="also print checks that passed or do not apply"
    )
    options = parser.parse_args(arguments)
    options.token, *tokens = options.token or [None]
    rows = {row for check in CHECKS for row in (check.row, check.row_stateless) if row}
    unknown = [row for row in options.only or () if row not in rows]
    if unknown:
        raise UsageError(
            f"unknown check {', '.join(unknown)}; the checks are {', '.join(sorted(rows))}"
        )
    web = web_of(options, options.target)
    try:
        found = read_target(options.target, config=config_of(options), web=web)
        others = [read_target(options.target, web={**web, "auth": each}) for each in tokens]
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    if not found.is_web and not isinstance(found.object, StdioServer):
        raise UsageError(f"{options.target} is not a server that can be checked")
    if found.is_web and not found.object.has_auth:
        found = found._replace(object=with_stored_token(found.object))

    total = Deadline(options.total)

    def connect(note: Callable[[bytes], Any], server: Any = found.object) -> Any:
        return (Web if found.is_web else Pipe)(server, options.timeout, note, intake)

    results: list[CheckResult] = []
    failure: Optional[Exception] = None
    probe: Optional[Probe] = None
    intake = Intake(total)
    started_at = time.monotonic()
    try:
        for revision in revisions_of(connect, options.revision):
            probe = Probe(connect, revision)
            probe.budget = options.budget
            probe.others = [
                Probe(partial(connect, server=each.object), revision) for each in others
            ]
            intake = Intake(total)
            try:
                for other in probe.others:
                    other.open()
                if options.call:
                    probe.open()
                    probe.call = _call_of(probe, *options.call)
                for check in CHECKS:
                    row = check.row_in(revision)
                    wanted = options.only is None or row in options.only
                    if row is None or not wanted or check.web not in (None, found.is_web):
                        continue
                    if total.expired:
                        results.append(_not_run(row, check, revision, options.total))
                    else:
                        results.append(judge(probe, check, row))
            except (McpError, Failed) as error:
                print_stderr(
                    f"{prog}: {revision.name}: the server could not be reached: "
                    f"{one_line(str(error))}"
                )
                failure = error
            finally:
                probe.close()
    except Flooded as flood:
        # Before the revision is known, name the one that was asked for.
        name = options.revision or NEWEST_HANDSHAKE.name
        if probe is not None:
            name = probe.revision.name
        seconds = time.monotonic() - started_at
        results.append(CheckResult("flood", "fail", FLOODS, str(flood), name, seconds))
    counts = {outcome: sum(each.outcome == outcome for each in results) for outcome in STYLE}
    if options.output == "json":
        print(as_json([result._asdict() for result in results]))
    else:
        for result in sorted(results, key=lambda each: [*STYLE].index(each.outcome)):
            _print(result, options.verbose)
        names = ", ".join(dict.fromkeys(each.revision for each in results))
        timeouts = f"{counts['timeout']} timed out, " if counts["timeout"] else ""
        print(
            f"{counts['pass']} passed, {counts['fail']} failed, {timeouts}"
            f"{counts['warn']} warnings, {counts['n/a']} do not apply; revisions {names}"
        )
    if options.junit is not None:
        _write_junit(options.junit, options.target, results)
    if failure is not None:
        return exit_code(failure) if isinstance(failure, McpError) else 3
    if counts["fail"]:
        return 1
    return 4 if counts["timeout"] else 0


FLOODS = "the server sent too much"


def _not_run(row: str, check: ServerCheck, revision: Revision, seconds: float) -> CheckResult:
    """Return the result of a check that was not run because the time was up."""
    evidence = f"not run: the limit of {seconds:g} s has passed (--total)"
    return CheckResult(row, "timeout", check.about, evidence, revision.name, 0.0)


def _call_of(probe: Probe, name: str, *pairs: str) -> tuple[str, dict[str, Any]]:
    """Return the tool of ``--call`` and its arguments, converted as its schema says.

    Raises:
        UsageError: The server has no such tool.
    """
    entries = probe.entries("tools/list") if "tools" in probe.capabilities else []
    probe.tool = find_tool({str(each.get("name")): each for each in entries}, name)
    return name, read_pairs(pairs, probe.tool.get("inputSchema") or {})


# The style of each outcome. The report has this order: results that need attention come first.
STYLE = {"fail": "bold", "timeout": "bold", "warn": "cyan", "n/a": "dim", "pass": "green"}


def _print(result: CheckResult, verbose: bool) -> None:
    if result.outcome in ("pass", "n/a") and not verbose:
        return
    word = styled(result.outcome.upper().ljust(5), STYLE[result.outcome], wants_color(sys.stdout))
    print(f"{word} {result.revision} {result.row}: {result.about}")
    for line in result.evidence.splitlines():
        print(f"      {line}")


def _write_junit(path: str, target: str, results: Sequence[CheckResult]) -> None:
    from xml.etree import ElementTree as xml

    failures, errors, skipped = (
        sum(each.outcome == outcome for each in results) for outcome in ("fail", "timeout", "n/a")
    )
    suite = xml.Element(
        "testsuite",
        name=f"minimcp check {target}",
        tests=str(len(results)),
        failures=str(failures),
        skipped=str(skipped),
        errors=str(errors),
    )
    for result in results:
        case = xml.SubElement(
            suite,
            "testcase",
            classname=result.revision,
            name=f"{result.row} {result.about}",
            time=f"{result.seconds:.3f}",
        )
        tag = {"fail": "failure", "timeout": "error", "n/a": "skipped"}.get(result.outcome)
        if tag is not None:
            first_line = result.evidence.partition("\n")[0]
            xml.SubElement(case, tag, message=first_line).text = result.evidence
        elif result.evidence:
            xml.SubElement(case, "system-out").text = f"{result.outcome}: {result.evidence}"
    xml.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
