"""One session: a client process, the server that it starts, a deadline, and the checks that it printed.

Over HTTP the server is started first, at a free port, and ended when the client has gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from ..support import eventually
from .roster import Asked, Fault, Peer

HERE = Path(__file__).resolve().parent
SESSION_SECONDS = 90.0  # when a session that is not over is killed, with everything that it started

START_SECONDS = 30.0  # how long a server may take until it listens
END_SECONDS = 10.0  # how long a server may take to end
VARIABLES = {"MINIMCP_INTEROP": "ja, å", "PYTHONUNBUFFERED": "1"}

_ports = iter(range(20_000 + os.getpid() % 8_000, 32_000))
_ports_lock = threading.Lock()


class Session(NamedTuple):
    """Who talks to whom, and at which revision. `role` is the foreign side's."""

    peer: Peer
    role: str
    asked: Asked
    way: str = "stdio"

    @property
    def title(self) -> str:
        return f"{self.peer.name} as {self.role}, {self.way}, {self.asked.revision}"


class Outcome(NamedTuple):
    """What came of a session: the revision in use, and for each other check True or what went wrong."""

    session: Session
    revision: str
    checks: dict[str, Any]
    known: dict[str, tuple[Fault, Any]]  # checks that failed because the peer is wrong, and what they said
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


def _peer_script(peer: Peer, script: str) -> list[str]:
    own = HERE / "peers" / script
    return peer.environment.command(str(own) if own.is_file() else script)


def _commands(session: Session, life: Path) -> tuple[list[str], list[str]]:
    """Return the client's argument list, without its server's, and the server's."""
    peer, revision = session.peer, session.asked.revision
    if session.role == "server":
        client = [sys.executable, str(HERE / "our_client.py"), peer.tools, revision]
        arguments = peer.server_arguments if session.way == "stdio" else (peer.way_names.get(session.way, session.way),)
        return client, [*_peer_script(peer, peer.server), *arguments]
    server = [sys.executable, str(HERE / "our_server.py"), str(life)]
    if session.way != "stdio":
        server.append(session.way)
    return [*_peer_script(peer, peer.client), revision], server


def hold(session: Session) -> Outcome:
    """Run one session to its end or its deadline."""
    with tempfile.TemporaryDirectory() as folder:
        life = Path(folder) / "life"
        client, server = _commands(session, life)
        if session.way != "stdio":
            with _listening(session, server, Path(folder)) as served:
                printed, stderr, problem = _run([*client, served.url], Path(folder), session.peer)
            problem = problem or served.problem
            stderr += served.stderr
            return _judge(session, printed, stderr, problem, life)
        printed, stderr, problem = _run([*client, *server], Path(folder), session.peer)
        return _judge(session, printed, stderr, problem, life)


def _judge(session: Session, printed: bytes, stderr: str, problem: str, life: Path) -> Outcome:
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
    """A server that listens: its URL, and, when it has been ended, its stderr and what was wrong with its end."""

    def __init__(self, url: str) -> None:
        self.url, self.stderr, self.problem = url, "", ""


@contextlib.contextmanager
def _listening(session: Session, command: list[str], folder: Path) -> Iterator[Served]:
    """Start a server at a free port, wait until it listens, and end it by SIGTERM; it has to last until then."""
    port = _free_port()
    served = Served(f"http://127.0.0.1:{port}/{'sse' if session.way == 'sse' else 'mcp'}")
    variables = {**os.environ, **session.peer.environment.variables(), **VARIABLES, "PORT": str(port)}
    with open(folder / "served", "w+b") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder,
                                   start_new_session=True, env=variables)
        try:
            if not eventually(lambda: _listens(port) or process.poll() is not None, START_SECONDS):
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
                served.problem = served.problem or f"the server did not end {END_SECONDS:.0f} s after SIGTERM"
            said.seek(0)
            served.stderr = said.read().decode("utf-8", "replace")[-4000:]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def _free_port() -> int:
    """Return a port that nobody has, below those that a kernel gives to who asks for any: it stays free."""
    with _ports_lock:
        for port in _ports:
            with contextlib.suppress(OSError), socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
                return port
    raise OSError("no free port")


def _take_known(session: Session, agreed: str, checks: dict[str, Any]) -> dict[str, tuple[Fault, Any]]:
    """Take the failures out that are the peer's; a fault that is not there any more is a failure itself."""
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
    """Return whether every server of ours came to its own end, soon after the client's."""
    def counts() -> tuple[int, int]:
        lines = life.read_text("utf-8").split() if life.is_file() else []
        return lines.count("started"), lines.count("ended")

    if counts()[0] and eventually(lambda: len(set(counts())) == 1):
        return True
    started, ended = counts()
    return f"started {started} times, ended by itself {ended} times"


def _run(command: list[str], folder: Path, peer: Peer) -> tuple[bytes, str, str]:
    """Run a client and return what it printed, the end of its stderr, and what was wrong with its end."""
    with open(folder / "stdout", "w+b") as out, open(folder / "stderr", "w+b") as err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                   start_new_session=True, env={**os.environ, **peer.environment.variables()})
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
    below = _descendants(process.pid)
    os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(root: int) -> set[int]:
    command = ["ps", "-A", "-o", "pid=,ppid="]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=30).stdout.decode()
    parents = [tuple(map(int, line.split())) for line in listed.splitlines()]
    found, before = {root}, 0
    while len(found) > before:
        before = len(found)
        found |= {pid for pid, parent in parents if parent in found}
    return found - {root}
