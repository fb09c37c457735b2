"""The official conformance suite: it is installed, listed and run, and its results are judged more
strictly than the suite does.

A scenario counts as passed when nothing failed, nothing warned, and at least one check of its own
succeeded. Every scenario also checks the shape of sent messages, so that check alone does not
count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from ..hosts.running import free_port, listens
from ..interop.environments import NodeEnvironment
from ..support import eventually

HERE = Path(__file__).resolve().parent
PACKAGE = "@modelcontextprotocol/conformance"
ENVIRONMENT = NodeEnvironment("conformance", [f"{PACKAGE}@0.2.0-alpha.12"])
SCENARIO_SECONDS = 60.0
SET_SECONDS = 150.0
START_SECONDS = 20.0
EXTENSION = "extension"  # the suite's list has this instead of a revision
GENERIC = "wire-schema-valid"  # the check that is made in every scenario
_STAMP = re.compile(r"-\d{4}-\d{2}-\d{2}T[\d-]+Z$")
_LISTED = re.compile(r"\s+- (\S+)(?: \[(\S+)\])?$")


class Broken(Exception):
    """The suite or the server under test did not run. The message names the program and its output."""


class Verdict(NamedTuple):
    """The outcome of one scenario. `problem` is empty if it passed."""

    scenario: str
    succeeded: int = 0
    checked: int = 0
    problem: str = "no result"

    @classmethod
    def of(cls, scenario: str, checks: Sequence[dict[str, Any]], code: int = 0) -> Verdict:
        """Judge the checks of a scenario."""
        counts = Counter(check["status"] for check in checks)
        bad = [
            f"{check['status'].lower()} {check['id']}: {check.get('errorMessage') or check.get('description')}"
            for check in checks
            if check["status"] in ("FAILURE", "WARNING")
        ]
        if not any(check["status"] == "SUCCESS" and check["id"] != GENERIC for check in checks):
            bad.append("nothing checked")
        if code and not bad:
            bad.append(f"the suite ended with {code}: the client did not end well")
        return cls(
            scenario, counts["SUCCESS"], counts["SUCCESS"] + counts["FAILURE"], "; ".join(bad)
        )


def listed(printed: str, leg: str) -> dict[str, list[str]]:
    """Return the scenarios of a leg, "Server" or "Client", from the suite's list, with the words in
    brackets.

    Scenarios below "Run and reported" have their leg in brackets, and are left out.
    """
    found: dict[str, list[str]] = {}
    inside = False
    for line in printed.splitlines():
        entry = _LISTED.match(line)
        if entry is None:
            inside = line.startswith(f"{leg} scenarios") or (inside and not line.strip())
        elif inside:
            found[entry[1]] = (entry[2] or "").split(",")
    return found


def run(arguments: Sequence[str], folder: Path, seconds: float) -> tuple[int, str]:
    """Run the suite to its end; return its exit code and its output."""
    command = [*ENVIRONMENT.command(f"{PACKAGE}/dist/index.js"), *arguments]
    with open(folder / "suite.log", "w+b") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            log.seek(0)
            shown = log.read().decode("utf-8", "replace")[-2000:]
            raise Broken(
                f"{' '.join(arguments)}: not over after {seconds:.0f} s:\n{shown}"
            ) from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        log.seek(0)
        return code, log.read().decode("utf-8", "replace")


def ask(*arguments: str) -> str:
    """Return the output of the suite."""
    with tempfile.TemporaryDirectory() as folder:
        code, printed = run(arguments, Path(folder), SCENARIO_SECONDS)
    if code:
        raise Broken(f"{' '.join(arguments)}: ended with {code}:\n{printed[-2000:]}")
    return printed


def results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the checks of each scenario that a run has written below a folder."""
    found = {}
    for path in folder.rglob("checks.json"):
        name = _STAMP.sub("", path.parent.relative_to(folder).as_posix())
        found[name] = json.loads(path.read_text("utf-8"))
    return found


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run the fixture server, and yield its URL."""
    port = free_port()
    command = [sys.executable, "-m", "tests.conformance.server", "--port", str(port)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=HERE.parents[1],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            up = eventually(lambda: process.poll() is not None or listens(port), START_SECONDS)
            if up and process.poll() is None:
                yield f"http://localhost:{port}/mcp"
            if process.poll() is not None or not up:
                log.seek(0)
                raise Broken(
                    f"the server, {process.poll()}:\n{log.read().decode('utf-8', 'replace')[-4000:]}"
                )
        finally:
            process.kill()
            process.wait()


def servers(url: str, *arguments: str) -> dict[str, Verdict]:
    """Run scenarios against a server, and judge each that has a result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        run(["server", "--url", url, *_limits(out), *arguments], Path(folder), SET_SECONDS)
        named = {name[len("server-") :]: checks for name, checks in results(out).items()}
    return {name: Verdict.of(name, checks) for name, checks in named.items()}


def client(scenario: str, revision: str) -> Verdict:
    """Run one scenario with our client at a revision, or one of an extension, which has none, and
    judge it."""
    at = [] if revision == EXTENSION else ["--spec-version", revision]
    command = f"{sys.executable} {HERE / 'client.py'}"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        try:
            code, _ = run(
                ["client", "--command", command, "--scenario", scenario, *at, *_limits(out)],
                Path(folder),
                SCENARIO_SECONDS + 15,
            )
        except Broken as error:
            return Verdict(scenario, problem=str(error))
        checks = results(out).get(scenario)
        return Verdict(scenario) if checks is None else Verdict.of(scenario, checks, code)


def _limits(out: Path) -> list[str]:
    return ["--timeout", str(int(SCENARIO_SECONDS * 1000)), "--output-dir", str(out)]
