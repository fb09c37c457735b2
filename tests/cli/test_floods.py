"""Commands that inspect an untrusted server end, and need little memory, when it floods them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ..support import WAIT
from ..web import Heard, Peer, Wire
from . import flooding
from .conftest import quoted

PROGRAM = str(Path(flooding.__file__))
MAX_MEGABYTES = 256

# Prints the most memory that the command had, after it.
MEASURED = """
import sys
from minimcp.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as ended:
    code = ended.code
sys.stdout.flush()
try:
    with open("/proc/self/status") as file:  # what a fork of a large process had before is not in it
        [kib] = [line.split()[1] for line in file if line.startswith("VmHWM")]
except OSError:
    import resource
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kib //= 1024 if sys.platform == "darwin" else 1
print(f"\\nMEMORY {kib}", file=sys.stderr)
sys.exit(code)
"""


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command, and check how much memory it had."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=10 * WAIT,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    assert "MEMORY" in done.stderr, done.stderr[-2000:]
    assert int(done.stderr.rpartition("MEMORY ")[2]) < MAX_MEGABYTES * 1024
    return done


def floods(done: "subprocess.CompletedProcess[str]") -> Dict[str, Any]:
    """Return the finding of a run that printed JSON."""
    assert done.returncode == 1, done.stderr
    found: List[Dict[str, Any]] = json.loads(done.stdout)
    [finding] = [each for each in found if each["row"] == "flood"]
    assert finding["outcome"] == "fail"
    assert finding["about"] == "the server sent too much"
    assert found[-1] is finding or found[-1] == finding  # nothing is run after it
    return finding


def server(*words: str) -> str:
    """Return the command line of the server, as one word."""
    return quoted(sys.executable, PROGRAM, *words)


@pytest.mark.parametrize("kind", [*flooding.LINES, "pages"])
def test_check_ends_with_the_finding(kind: str) -> None:
    done = run("check", "--output", "json", server(kind))
    floods(done)


@pytest.mark.parametrize("kind", ["pings", "noise", "large"])
def test_check_ends_if_the_server_floods_at_once(kind: str) -> None:
    done = run("check", server(kind, "at once"))
    assert done.returncode == 1
    assert "flood: the server sent too much" in done.stdout


@pytest.mark.parametrize(("command", "kind"), [
    (["list"], "pings"), (["list"], "pages"), (["call", "t"], "notifications"), (["call", "t"], "pages"),
    (["ping"], "noise"), (["ping"], "notifications"), (["read", "x:y"], "pings"), (["read", "x:y"], "noise"),
])  # fmt: skip
def test_other_commands_end(command: List[str], kind: str) -> None:
    done = run(command[0], server(kind), *command[1:], "--timeout", "2")
    assert done.returncode in (0, 1, 3, 4), done.stderr


@pytest.mark.parametrize("piece", [
    'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n', ": a comment\n\n", "x" * 1000 + "\n", "data: x\n\n",
])  # fmt: skip
def test_check_ends_if_a_stream_floods(piece: str) -> None:
    def flood(heard: Heard, wire: Wire) -> None:
        wire.stream()
        while True:
            wire.chunk(piece.encode() * 100)

    with Peer({"initialize": flood}) as peer:
        floods(run("check", "--output", "json", "--revision", "2025-11-25", peer.url))


def test_the_run_is_bounded() -> None:
    """The rest is named, and not run."""
    done = run("check", "--output", "json", "--total", "0", server("well-behaved"))
    assert done.returncode == 4, done.stderr
    silent = quoted(sys.executable, "-c", "import sys; sys.stdin.read()")
    done = run("check", "--total", "0.5", silent)
    assert done.returncode == 4, done.stderr
