"""C23, C28 to C30 and C37: tools that do what no tool should."""

from __future__ import annotations

import json
import os
import time
from functools import partial

from .raw import Server, shown
from .trial import Trial, case, each_era

RAISED = ("SystemExit", "KeyboardInterrupt", "MemoryError", "RecursionError", "GeneratorExit", "Wordless")
RETURNED = ("nan", "infinity", "bytes", "cycle", "unprintable", "surrogate", "deep", "large")
PRINTED = ("print", "os.write", "child", "system")


@each_era("C23", "prints")
def prints(t: Trial, server: Server) -> None:
    """A line that is no message fails by itself, wherever it is read."""
    for kind in PRINTED:
        reply = server.ask("tools/call", {"name": "prints", "arguments": {"kind": kind}})
        t.expect("result" in reply, f"a tool that writes by {kind}: {shown(reply)}")


@each_era("C28", "raiser")
def raises(t: Trial, server: Server) -> None:
    for kind in RAISED * 3:
        reply = server.ask("tools/call", {"name": "raiser", "arguments": {"kind": kind}})
        if "error" in reply:
            t.warn(f"{kind} became a protocol error")
        else:
            t.expect(reply["result"].get("isError"), f"{kind} became a success")
        t.expect("Traceback" not in json.dumps(reply), f"{kind}: a traceback went to the client")


@each_era("C29", "returns")
def returns(t: Trial, server: Server) -> None:
    for kind in RETURNED:
        reply = server.ask("tools/call", {"name": "returns", "arguments": {"kind": kind}})
        text = json.dumps(reply)
        if kind == "large":
            t.expect(len(text) > 10_000_000, "10 MB did not arrive")
        elif kind in ("nan", "infinity", "cycle", "unprintable"):
            told = "error" in reply or reply["result"].get("isError")
            t.expect(told or "null" in text, f"{kind} became {shown(reply)}")


@case("C30")
def never(t: Trial) -> None:
    def ends(revision: str) -> None:
        server = t.server(revision, "never", "echo")
        for number in range(5):
            server.begin_call("never", id=number)
        server.alive(t.options.slack)
        for number in range(3):
            server.notify("notifications/cancelled", {"requestId": number})
        server.alive(t.options.slack)
        begun = time.monotonic()
        server.close_input()
        server.remaining(10 * t.options.slack)
        t.expect(server.exit(10 * t.options.slack) == 0, f"exit code {server.process.returncode}")
        t.below("exit", time.monotonic() - begun, 6)

    t.at_once(*(partial(ends, revision) for revision in t.eras()))


@case("C37")
def inherited(t: Trial) -> None:
    server = t.server("2025-06-18", "child_descriptors")
    wire = {_target(server.process.pid, number) for number in (0, 1)} - {""}
    listed = server.text("child_descriptors")
    rows = [one.split(" ", 1) for one in listed.splitlines()]
    t.note("descriptors of the child", len(rows), "")
    pipes = [row for row in rows if len(row) == 2 and int(row[0]) > 2 and row[1].startswith(("pipe:", "socket:"))]
    t.expect(pipes == [], f"a child of a tool has {pipes}")
    for number, target in (row for row in rows if len(row) == 2):
        t.expect(number != "0" or target not in wire, "a child of a tool has the wire as its stdin")
    server.alive(t.options.slack)


def _target(pid: int, number: int) -> str:
    """What a descriptor of a process points to; nothing if that is /dev/null or cannot be told."""
    try:
        found = os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return ""
    return "" if found == os.devnull else found
