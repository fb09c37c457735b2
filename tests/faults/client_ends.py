"""K01 and K20 to K23: servers that die, do not die, or never lived."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from functools import partial
from typing import Any, Dict, List

from .client import Client, running
from .client_answers import ERAS, HANDSHAKE
from .trial import Trial, case


def gone(t: Trial, client: Client, what: str, seconds: float = 1.0) -> None:
    """No server that was started is left, as a zombie either."""
    until = time.monotonic() + seconds * t.options.slack
    while any(map(running, client.servers())) and time.monotonic() < until:
        time.sleep(0.02)
    left = [pid for pid in client.servers() if running(pid)]
    t.expect(left == [], f"{what}: {len(left)} processes are left")


@case("K01")
def dying(t: Trial) -> None:
    starts = [partial(_dies_at_start, t, start) for start in ("dies-at-start", "dies-by-signal", "only-banner")]
    ends = ("exit-mid-call", "half-line-exit", "close-stdout")
    t.at_once(partial(_silent, t), *starts)
    t.at_once(*(partial(_dies_in_call, t, era, tool) for era in ERAS for tool in ends))
    t.at_once(*(partial(_half_a_line, t, era) for era in ERAS), partial(_killed, t))


def _silent(t: Trial) -> None:
    reply = t.client().open(1.0, start="silent")
    t.expect(not reply.ok, "a silent server was opened")
    t.below("a silent server, timeout 1 s", reply.seconds, 5.5)  # its end may take 4 s


def _dies_at_start(t: Trial, start: str) -> None:
    client = t.client()
    reply = client.open(client.never, start=start)
    t.expect(not reply.ok, f"{start}: opened")
    t.below(f"{start}", reply.seconds, 3)
    if start == "dies-at-start" and "no database" not in reply.message:
        t.warn("the last words of a server that died are not in the error")
    gone(t, client, start)


def _dies_in_call(t: Trial, era: Dict[str, Any], tool: str) -> None:
    client = t.client().opened(**era)
    reply = client.call(tool)
    t.expect(not reply.ok, f"{tool}: a success")
    t.below(tool, reply.seconds, 3)
    after = client.call("echo")
    t.expect(not after.ok, f"{tool}: a call afterwards was a success")
    t.below(f"a call after {tool}", after.seconds, 3)


def _half_a_line(t: Trial, era: Dict[str, Any]) -> None:
    reply = t.client().opened(**era).call("half-line-hang", 0.5)
    t.expect(not reply.ok, "half-line-hang: a success")
    t.below("half a line, timeout 0.5 s", reply.seconds, 1)


def _killed(t: Trial) -> None:
    client = t.client().opened(**HANDSHAKE)
    waiting = [client.begin("call", tool="hold", arguments={}, timeout=client.never) for _ in range(20)]
    client.alive()
    os.kill(client.servers()[0], signal.SIGKILL)
    replies = [one.wait(2 * t.options.patience) for one in waiting]
    t.expect(not any(one.ok for one in replies), "a call outlived its server")
    t.below("20 calls of a killed server", max(one.seconds for one in replies), 3)


@case("K20")
def stubborn(t: Trial) -> None:
    for start, bound in (("plain", 1.0), ("note-signals", 3.0), ("ignore-signals", 5.0)):
        client = t.client().opened(start=start, end="exit" if start == "plain" else "hang", **HANDSHAKE)
        client.alive()
        reply = client.do("close", timeout=bound)
        t.expect(reply.ok, f"close: {reply.error}")
        t.below(f"close, {start}", reply.seconds, bound)
        gone(t, client, start, 0.5)


@case("K21")
def grandchild(t: Trial) -> None:
    for start in ("grandchild", "escaped"):
        client = t.client().opened(start=start, **HANDSHAKE)
        client.alive()
        reply = client.do("close", timeout=5.0)
        t.below(f"close, {start}", reply.seconds, 1)
        client = t.client().opened(start=start, **HANDSHAKE)
        reply = client.call("exit-mid-call")
        t.expect(not reply.ok, "a call of a server that died was a success")
        t.below(f"its server's death, {start}", reply.seconds, 4)


@case("K22")
def many(t: Trial) -> None:
    client, rounds = t.client(), t.count(30, 1_000)
    before: Dict[str, int] = {}
    for number in range(rounds):
        client.opened(**HANDSHAKE)
        client.alive()
        t.expect(client.do("close").ok, "close failed")
        if number == 4:
            before = {what: client.count(what) for what in ("fd", "task")}
            base = client.memory()
    t.below("more descriptors", client.settled("fd", before["fd"], 4) - before["fd"], 0, "")
    t.below("more threads", client.settled("task", before["task"] + 1, 15) - before["task"], 1, "")
    t.below("children left", client.children(), 0, "")
    t.below("growth", client.memory() - base, 5 if rounds < 100 else 10, "MB")
    gone(t, client, "closed")


def _unstartable(client: Client) -> Dict[str, Dict[str, Any]]:
    plain, script = client.folder / "plain", client.folder / "script"
    plain.write_text("#!/bin/sh\n", "utf-8")
    script.write_text("#!/no/such/interpreter\n", "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    good: List[str] = [sys.executable, "-c", ""]
    return {
        "not found": {"command": ["no-such-command-anywhere"]},
        "not executable": {"command": [str(plain)]},
        "a directory": {"command": [str(client.folder)]},
        "no interpreter": {"command": [str(script)]},
        "no working directory": {"command": good, "cwd": str(client.folder / "nowhere")},
        "NUL in the environment": {"command": good, "env": {"A": "b\0c"}},
        "= in a name of the environment": {"command": good, "env": {"A=B": "c"}},
        "NUL in the command": {"command": [sys.executable, "a\0b"]},
    }


@case("K23")
def unstartable(t: Trial) -> None:
    client = t.client()
    before = {what: client.count(what) for what in ("fd", "task")}
    for name, target in _unstartable(client).items():
        reply = client.open(client.never, **target)
        t.expect(not reply.ok, f"{name}: opened")
        t.below(name, reply.seconds, 2)
        if (reply.error or "").startswith("untyped"):
            t.warn(f"{name}: {reply.error}")
        t.expect(client.children() == 0, f"{name}: a child is left")
    t.below("more descriptors", client.settled("fd", before["fd"], 4) - before["fd"], 0, "")
    t.below("more threads", client.settled("task", before["task"] + 1, 15) - before["task"], 1, "")
