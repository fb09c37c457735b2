"""`python -m tests.interop [--only PEER]`: install the peers, hold every session, print the grid.

With `--install` it makes these environments, and those of the other programs, and stops.

The exit code is 1 if a peer cannot be installed or a check failed. A session is a client process,
the server that it starts, a deadline, and the checks that it printed; over HTTP the server is
started first, at a free port, and ended when the client has gone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Sequence

from ..conformance import suite
from ..hosts import running
from ..hosts.running import free_port, listens
from ..support import ROOT, descendants_of, eventually
from . import agents, apps, authorization, bundles, embedding
from .environments import InstallFailed
from .roster import PEERS, WAYS, Asked, Fault, Peer

HERE = Path(__file__).resolve().parent
SESSION_SECONDS = (
    240.0  # when a session that is not over is killed, with everything that it started
)
START_SECONDS = 30.0  # how long a server may take until it listens
END_SECONDS = 10.0  # how long a server may take to end
VARIABLES = {"MINIMCP_INTEROP": "ja, å", "PYTHONUNBUFFERED": "1"}


class Session(NamedTuple):
    """A pair of client and server, with the revision. `role` is the foreign side's."""

    peer: Peer
    role: str
    asked: Asked
    way: str = "stdio"

    @property
    def title(self) -> str:
        return f"{self.peer.name} as {self.role}, {self.way}, {self.asked.revision}"


class Outcome(NamedTuple):
    """The outcome of a session: the revision in use, and for each other check True or the fault."""

    session: Session
    revision: str
    checks: dict[str, Any]
    known: dict[
        str, tuple[Fault, Any]
    ]  # checks that failed because the peer is wrong, and their messages
    stderr: str

    @property
    def passed(self) -> int:
        return sum(result is True for result in self.checks.values())

    @property
    def failed(self) -> bool:
        return self.passed < len(self.checks)


def sessions_of(peer: Peer) -> Iterator[Session]:
    """Yield every session to hold with a peer."""
    for asked in peer.serves:
        yield Session(peer, "server", asked)
    for asked in peer.speaks:
        yield Session(peer, "client", asked)
    for role, ways in (("server", peer.serves_at), ("client", peer.speaks_at)):
        for way, several in ways.items():
            for asked in several:
                yield Session(peer, role, asked, way)


def peer_script(peer: Peer, script: str) -> list[str]:
    own = HERE / "peers" / script
    return peer.environment.command(str(own) if own.is_file() else script)


def _commands(session: Session, life: Path) -> tuple[list[str], list[str]]:
    """Return the client's argument list, without its server's, and the server's."""
    peer, revision = session.peer, session.asked.revision
    if session.role == "server":
        client = [sys.executable, str(HERE / "our_client.py"), peer.tools, revision]
        arguments = (
            peer.server_arguments
            if session.way == "stdio"
            else (peer.way_names.get(session.way, session.way),)
        )
        return client, [*peer_script(peer, peer.server), *arguments]
    server = [sys.executable, str(HERE / "our_server.py"), str(life)]
    if (
        session.way == "bridge"
    ):  # our server over stdio, behind the command that serves it over HTTP
        server = _bridge(f"--http $PORT -- {shlex.join(server)}")
    elif session.way != "stdio":
        server.append("http" if session.way == "to URL" else session.way)
    return [*peer_script(peer, peer.client), revision], server


def _bridge(arguments: str) -> list[str]:
    """Return the argument list of `minimcp bridge`, by way of a shell: a client may start it
    without our variables."""
    return [
        "sh",
        "-c",
        f'cd {shlex.quote(str(ROOT))}; exec "$0" -m minimcp bridge {arguments}',
        sys.executable,
    ]


def hold(session: Session) -> Outcome:
    """Run one session to its end or its deadline."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        client, server = _commands(session, folder / "life")
        if session.way == "stdio":
            return judge(session, *run([*client, *server], folder), folder / "life")
        with _listening(session, server, folder) as served:
            place = _bridge(served.url) if session.way == "to URL" else [served.url]
            printed, stderr, problem = run([*client, *place], folder)
        return judge(
            session, printed, stderr + served.stderr, problem or served.problem, folder / "life"
        )


def judge(session: Session, printed: bytes, stderr: str, problem: str, life: Path) -> Outcome:
    report = _parsed(printed)
    checks = dict(report["checks"])
    if problem:
        checks["session"] = problem
    agreed = str(report["revision"])
    checks["revision"] = agreed == session.asked.agreed or f"{agreed}, not {session.asked.agreed}"
    if session.role == "client":
        checks["server ended"] = _ended(life)
    known = _take_known(session, agreed, checks)
    return Outcome(session, agreed, checks, known, stderr)


class Served:
    """Run a server that listens. Yields its URL, and after its end its stderr and what was wrong
    with its exit."""

    def __init__(self, url: str) -> None:
        self.url, self.stderr, self.problem = url, "", ""


@contextlib.contextmanager
def _listening(session: Session, command: list[str], folder: Path) -> Iterator[Served]:
    """Start a server at a free port, wait until it listens, and end it by SIGTERM; it has to last
    until then."""
    port = free_port()
    served = Served(f"http://127.0.0.1:{port}/{'sse' if session.way == 'sse' else 'mcp'}")
    variables = {**os.environ, **VARIABLES, "PORT": str(port)}
    with open(folder / "served", "w+b") as said:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=folder,
            start_new_session=True,
            env=variables,
        )
        try:
            if not eventually(lambda: listens(port) or process.poll() is not None, START_SECONDS):
                served.problem = "the server does not listen"
            yield served
            if process.poll() is not None:
                served.problem = f"the server ended too soon, with {process.returncode}"
            else:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
        finally:
            if process.poll() is None:
                _kill_tree(process)
                served.problem = (
                    served.problem or f"the server did not end {END_SECONDS:.0f} s after SIGTERM"
                )
            said.seek(0)
            served.stderr = said.read().decode("utf-8", "replace")[-4000:]


def _take_known(
    session: Session, agreed: str, checks: dict[str, Any]
) -> dict[str, tuple[Fault, Any]]:
    """Remove the failures that are known faults of the peer. A known fault that no longer appears
    is a failure."""
    known = {}
    for fault in session.peer.faults:
        if fault.role != session.role or session.way not in fault.ways:
            continue
        if not fault.since <= agreed <= fault.until:
            continue
        result = checks.pop(fault.check, "not held")
        if result is True and not fault.always:
            checks[fault.check] = True
        elif result is True or result == "not held":
            found = "passes" if result is True else result
            checks[fault.check] = f"stands in the roster as the peer's fault, but {found}"
        else:
            known[fault.check] = fault, result
    return known


def _parsed(printed: bytes) -> dict[str, Any]:
    try:
        report: dict[str, Any] = json.loads(printed.decode("utf-8"))
        return report
    except ValueError:
        return {"revision": None, "checks": {"report": f"no JSON but {printed[-300:]!r}"}}


def _ended(life: Path) -> bool | str:
    """Return whether every server of ours exited normally, soon after the client."""

    def counts() -> tuple[int, int]:
        lines = life.read_text("utf-8").split() if life.is_file() else []
        return lines.count("started"), lines.count("ended")

    if counts()[0] and eventually(lambda: len(set(counts())) == 1):
        return True
    started, ended = counts()
    return f"started {started} times, ended by itself {ended} times"


def run(command: list[str], folder: Path) -> tuple[bytes, str, str]:
    """Run a client, and return its output, the end of its stderr, and what was wrong with its exit."""
    with open(folder / "stdout", "w+b") as out, open(folder / "stderr", "w+b") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            start_new_session=True,
            env=dict(os.environ),
        )
        problem = ""
        try:
            code = process.wait(SESSION_SECONDS)
            if code:
                problem = f"the client ended with {code}"
        except subprocess.TimeoutExpired:
            problem = f"killed after {SESSION_SECONDS:.0f} s"
        finally:
            if process.poll() is None:
                _kill_tree(process)
        out.seek(0)
        err.seek(0)
        return out.read(), err.read().decode("utf-8", "replace")[-4000:], problem


def _kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a running client and all below it: it may have put its server into a group of its own."""
    below = descendants_of(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


INSTALLERS = 4


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="PEER",
        action="append",
        choices=[peer.name for peer in PEERS],
        help="this peer alone; may be given several times",
    )
    parser.add_argument("--role", choices=["server", "client"], help="the role of the foreign side")
    parser.add_argument("--way", choices=WAYS, help="over this alone")
    parser.add_argument("--revision", help="these sessions alone: a revision, auto or handshake")
    parser.add_argument("--install", action="store_true", help="install, and no more")
    at_a_time = 2 * (os.cpu_count() or 2)  # most of them only wait
    parser.add_argument("--jobs", type=int, default=at_a_time, help="sessions at a time")
    return parser.parse_args(arguments)


def install(peer: Peer) -> bool:
    """Make the peer's environment, and return whether that failed."""
    begun = time.monotonic()
    try:
        peer.environment.ready()
    except InstallFailed as error:
        print(f"{peer.name} {peer.version} CANNOT BE INSTALLED:\n{error}\n", flush=True)
        return False
    print(f"{peer.name} {peer.version} ready ({time.monotonic() - begun:.1f} s)", flush=True)
    return True


def show_grid(outcomes: Sequence[Outcome]) -> None:
    row = "{:<20}{:<12}{:<8}{:<7}{:<11}{:<12}{:>7}{:>13}  {}"
    print(
        "\n"
        + row.format(
            "peer",
            "version",
            "role",
            "way",
            "asked",
            "revision",
            "checks",
            "peer's fault",
            "failed",
        )
    )
    for outcome in outcomes:
        peer, role, asked, way = outcome.session
        failed = ", ".join(name for name, result in outcome.checks.items() if result is not True)
        tally = f"{outcome.passed}/{len(outcome.checks)}"
        print(
            row.format(
                peer.name,
                peer.version,
                role,
                way,
                asked.revision,
                outcome.revision,
                tally,
                len(outcome.known) or "",
                failed,
            )
        )


def show_failures(outcomes: Sequence[Outcome]) -> None:
    """Print each known fault of a peer once, with the finding of its first session, and every
    failure."""
    shown = set()
    for outcome in outcomes:
        for fault, result in outcome.known.values():
            if (outcome.session.peer.name, fault) not in shown:
                shown.add((outcome.session.peer.name, fault))
                print(
                    f"\n{outcome.session.title}: {fault.check}: the peer's fault: {fault.reason}\n  seen: {result}"
                )
    for outcome in outcomes:
        for name, result in outcome.checks.items():
            if result is not True:
                print(f"\n{outcome.session.title}: {name}: {result}")
        if outcome.failed and outcome.stderr:
            print(f"--- stderr of {outcome.session.title}\n{outcome.stderr}")


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    begun = time.monotonic()
    peers = [peer for peer in PEERS if not options.only or peer.name in options.only]
    with ThreadPoolExecutor(INSTALLERS) as pool:  # they wait for the network, mostly
        if not all(list(pool.map(install, peers))):
            return 1
    if options.install:
        for others in (running, suite, embedding, authorization, apps, bundles):
            others.ENVIRONMENT.ready()
        for environment in agents.ENVIRONMENTS.values():
            environment.ready()
        return 0
    wanted = [
        session
        for peer in peers
        for session in sessions_of(peer)
        if options.role in (None, session.role)
        and options.way in (None, session.way)
        and options.revision in (None, session.asked.revision)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [
            pool.submit(hold, session) for session in reversed(wanted)
        ]  # the last peer takes the longest
        for future in as_completed(futures):
            print("F" if future.result().failed else ".", end="", flush=True)
    outcomes = [future.result() for future in reversed(futures)]
    show_grid(outcomes)
    show_failures(outcomes)
    failed = sum(outcome.failed for outcome in outcomes)
    checks = sum(len(outcome.checks) for outcome in outcomes)
    passed = sum(outcome.passed for outcome in outcomes)
    known = sum(len(outcome.known) for outcome in outcomes)
    print(
        f"\n{len(outcomes)} sessions, {passed} of {checks} checks passed, {known} more fail by the peers' faults, "
        f"{failed} sessions failed, "
        f"{time.monotonic() - begun:.0f} s"
    )
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
