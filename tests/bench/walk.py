"""Prints the way of one warm ``tools/call`` through the library: every distinct function that it
crosses.

``python -m tests.bench.walk`` counts with `sys.setprofile` and prints three walks in both eras: a
server over stdio, a client over stdio, a server over HTTP. ``--check`` fails where one is longer
than its bound. Generated functions count. Functions of the timer do not, nor do comprehensions,
which are functions before Python 3.12 only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any, Dict, List, Set, Tuple

from minimcp import Server, connect
from minimcp.engine.timer import Timer

from ..support import ROOT

PACKAGE = str(ROOT / "minimcp")
# Over HTTP, 12 of the functions count the share of a session; without a session, there are 64. In a
# client, 6 check the structured result of an older revision.
BOUNDS = {"stdio server": 40, "stdio client": 51, "HTTP server": 80}
ERAS = ("2025-11-25", "2026-07-28")
COMPREHENSIONS = ("<listcomp>", "<dictcomp>", "<setcomp>")
TIMER = {each.__code__ for each in vars(Timer).values() if isinstance(each, FunctionType)}
TIMES = 5
"""The number of runs of each walk. The shortest one counts, because a run on a busy machine may
include waits for a late thread."""


class Recorder:
    """Records each function of the library that is entered, on every thread that starts after the
    installation."""

    def __init__(self) -> None:
        self.found: Dict[Tuple[str, str], None] = {}

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code in TIMER or code.co_name in COMPREHENSIONS:
            return
        name = getattr(code, "co_qualname", code.co_name)
        if code.co_filename.startswith(PACKAGE):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            self.found[file, f"{name}:{code.co_firstlineno}"] = None
        elif code.co_filename.startswith("<minimcp"):
            self.found["generated", name] = None

    def walk(self) -> List[str]:
        return [f"{file}:{name.rpartition(':')[0] or name}" for file, name in list(self.found)]


def measured_server(recorder: Recorder) -> Server:
    """A server whose tools mark the beginning and the end of a walk: the calls before and after
    cross the same functions."""
    server = Server("walk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    def begin(a: int, b: int) -> int:
        """Mark the beginning of a walk."""
        recorder.found.clear()
        return a + b

    @server.tool
    def end(a: int, b: int) -> str:
        """Mark the end of a walk, and print it."""
        return json.dumps(recorder.walk())

    return server


def serving(way: str) -> List[str]:
    """The command of a measured server: over stdio, or over HTTP, where it prints its URL."""
    return [sys.executable, "-m", "tests.bench.walk", "--serve", way]


def walk_of_server(target: Any, era: str) -> List[str]:
    """Ask a measured server for its walk."""
    with connect(target, revision=era, cwd=None if isinstance(target, str) else ROOT) as client:
        for name in ("add", "end", "begin", "add", "end"):
            told = client.call_tool(name, {"a": 1, "b": 2})
    return json.loads(told.text)  # type: ignore[no-any-return]


def stdio_server(era: str) -> List[str]:
    return walk_of_server(serving("stdio"), era)


def http_server(era: str) -> List[str]:
    """The walk of the bundled HTTP server in a child process, which ends with its input."""
    with subprocess.Popen(
        serving("http"), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        walk = walk_of_server(child.stdout.readline().strip(), era)
        child.stdin.close()
        return walk


def stdio_client(era: str) -> List[str]:
    """The walk of `Client.call_tool` to a child process."""
    recorder = Recorder()
    recorder.install()
    try:
        with connect(serving("stdio"), cwd=ROOT, revision=era) as client:
            for _ in range(3):
                client.call_tool("add", {"a": 1, "b": 2})
            recorder.found.clear()
            client.call_tool("add", {"a": 1, "b": 2})
            return recorder.walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def serve(way: str) -> None:
    """Be a measured server until the input ends."""
    recorder = Recorder()
    recorder.install()
    server = measured_server(recorder)
    if way == "stdio":
        server.run()
        return
    with server.start_http() as running:
        print(running.url, flush=True)
        sys.stdin.read()


WALKS = {"stdio server": stdio_server, "stdio client": stdio_client, "HTTP server": http_server}


def main() -> int:
    """Print the walks."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.walk", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="fail where a walk is longer than its bound"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    longer: Set[str] = set()
    for name, walk in WALKS.items():
        for era in ERAS:
            functions = min([walk(era) for _ in range(TIMES)], key=len)
            print(f"{name}, {era}: {len(functions)} functions (at most {BOUNDS[name]})")
            print("".join(f"    {each}\n" for each in functions))
            if len(functions) > BOUNDS[name]:
                longer.add(name)
    return 1 if options.check and longer else 0


if __name__ == "__main__":
    sys.exit(main())
