"""Prints the way of one warm ``tools/call`` through the library: every distinct function that it crosses.

``python -m tests.bench.walk`` counts with `sys.setprofile` and prints three walks in both eras: a server over stdio, a
client over stdio, a server over HTTP. ``--check`` fails where one is longer than its bound. Generated functions count,
those of the timer thread do not. Before Python 3.12 a comprehension is a function of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Dict, List, Set, Tuple

from minimcp import Server, connect

from ..support import ROOT

PACKAGE = str(ROOT / "minimcp")
BOUNDS = {"stdio server": 35, "stdio client": 50, "HTTP server": 60}
ERAS = ("2025-11-25", "2026-07-28")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "walk", "version": "0"},
}


class Recorder:
    """Notes each function of the library that begins, on every thread that starts after it is installed."""

    def __init__(self) -> None:
        self.found: Dict[Tuple[str, str], None] = {}

    def install(self) -> None:
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        if code.co_filename.startswith(PACKAGE):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            if not name.startswith("Timer."):
                self.found[file, f"{name}:{code.co_firstlineno}"] = None
        elif code.co_filename.startswith("<minimcp"):
            self.found["generated", name] = None

    def walk(self) -> List[str]:
        return [f"{file}:{name.rpartition(':')[0] or name}" for file, name in list(self.found)]


def measured_server(recorder: Recorder) -> Server:
    """A server whose tools say where a walk begins and ends: the calls before and after cross the same functions."""
    server = Server("walk")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    def begin(a: int, b: int) -> int:
        """Begin a walk."""
        recorder.found.clear()
        return a + b

    @server.tool
    def end(a: int, b: int) -> str:
        """End a walk and tell it."""
        return json.dumps(recorder.walk())

    return server


def request(number: int, method: str, params: Dict[str, Any], era: str) -> Dict[str, Any]:
    if era == "2026-07-28":
        params = {**params, "_meta": META}
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def walk_of_server(exchange: Callable[[Dict[str, Any]], Any], era: str) -> List[str]:
    """Ask a measured server for its walk."""
    if era != "2026-07-28":
        params = {"protocolVersion": era, "capabilities": {}, "clientInfo": {"name": "walk", "version": "0"}}
        exchange(request(0, "initialize", params, era))
        exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
    answer: Any = None
    for number, name in enumerate(("add", "end", "begin", "add", "end"), 1):
        answer = exchange(request(number, "tools/call", {"name": name, "arguments": {"a": 1, "b": 2}}, era))
    return json.loads(answer["result"]["content"][0]["text"])  # type: ignore[no-any-return]


def stdio_server(era: str) -> List[str]:
    """The walk of a server in a child process."""
    command = [sys.executable, "-m", "tests.bench.walk", "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None and child.stdout is not None

        def exchange(message: Dict[str, Any]) -> Any:
            assert child.stdin is not None and child.stdout is not None
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
            return json.loads(child.stdout.readline()) if "id" in message else None

        walk = walk_of_server(exchange, era)
        child.stdin.close()
        return walk


def http_server(era: str) -> List[str]:
    """The walk of the bundled HTTP server in this process."""
    recorder = Recorder()
    recorder.install()
    with measured_server(recorder).start_http() as running:
        sys.setprofile(None)
        connection = HTTPConnection("127.0.0.1", running.port)
        session: Dict[str, str] = {}

        def exchange(message: Dict[str, Any]) -> Any:
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **session}
            if era == "2026-07-28":
                headers.update({"MCP-Protocol-Version": era, "Mcp-Method": message["method"]})
                headers["Mcp-Name"] = message["params"]["name"]
            connection.request("POST", "/mcp", json.dumps(message).encode(), headers)
            response = connection.getresponse()
            if "Mcp-Session-Id" in response.headers:
                session.update({"Mcp-Session-Id": response.headers["Mcp-Session-Id"], "MCP-Protocol-Version": era})
            text = response.read().decode()
            if text.startswith(("event:", "id:", "data:")):
                text = next(line[5:] for line in text.splitlines() if line.startswith("data:") and len(line) > 6)
            return json.loads(text) if "id" in message else None

        walk = walk_of_server(exchange, era)
        connection.close()
    threading.setprofile(None)  # type: ignore[arg-type]
    return walk


def stdio_client(era: str) -> List[str]:
    """The walk of `Client.call_tool` to a child process."""
    recorder = Recorder()
    recorder.install()
    try:
        with connect([sys.executable, "-m", "tests.bench.walk", "--serve"], cwd=ROOT, revision=era) as client:
            for _ in range(3):
                client.call_tool("add", {"a": 1, "b": 2})
            recorder.found.clear()
            client.call_tool("add", {"a": 1, "b": 2})
            return recorder.walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


WALKS = {"stdio server": stdio_server, "stdio client": stdio_client, "HTTP server": http_server}


def main() -> int:
    """Print the walks."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.walk", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where a walk is longer than its bound")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        recorder = Recorder()
        recorder.install()
        measured_server(recorder).run()
        return 0
    longer: Set[str] = set()
    for name, walk in WALKS.items():
        for era in ERAS:
            functions = walk(era)
            print(f"{name}, {era}: {len(functions)} functions (at most {BOUNDS[name]})")
            print("".join(f"    {each}\n" for each in functions))
            if len(functions) > BOUNDS[name]:
                longer.add(name)
    return 1 if options.check and longer else 0


if __name__ == "__main__":
    sys.exit(main())
