"""C65 to C70: many threads, bad lines, callbacks, and ends at awkward moments; our client against our server."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional

from .client import Client, Command, Reply
from .client_answers import HANDSHAKE
from .client_ends import gone
from .trial import Missing, Trial, case

HERE = Path(__file__).resolve().parent


def pair(t: Trial, env: Optional[Dict[str, str]] = None) -> Client:
    """The client adapter, connected to the server under trial."""
    if "echo" not in t.subject.tools:
        raise Missing("no tool echo")
    return t.client(env=env).opened(command=t.subject.server)


def burst(client: Client, texts: List[str], timeout: float) -> List[Command]:
    return [client.begin("call", tool="echo", arguments={"text": text}, timeout=timeout) for text in texts]


def ends(t: Trial, commands: List[Command], texts: List[str], wait: float) -> "Counter[str]":
    """Wait for all, and count how they ended; each that went well must have its own text."""
    counts: "Counter[str]" = Counter()
    for command, text in zip(commands, texts):
        reply = command.wait(wait)
        if reply.ok and reply.text != text:
            t.fail(f"a call got the answer of another: {str(reply.text)[:40]!r}, not {text[:40]!r}")
        counts["answers" if reply.ok else str(reply.error)] += 1
    return counts


def crowd(t: Trial, client: Client, calls: int, name: str = "") -> None:
    """32 callers at once, texts of random length, each of which must come back; then a close in the middle."""
    begun = time.monotonic()
    for start in range(0, calls, 32 * 8):
        texts = [f"{name}{start + n} " + "x" * t.dice.randrange(2_000) for n in range(32 * 8)]
        counts = ends(t, burst(client, texts, 30.0), texts, 30 + t.options.patience)
        t.expect(counts["answers"] == len(texts), f"calls ended as {dict(counts)}")
    t.note("calls a second, the adapter's hop included", calls / (time.monotonic() - begun), "/s")
    texts = [f"late {n}" for n in range(200)]
    commands = burst(client, texts, 30.0)
    begun = time.monotonic()
    closed = client.begin("close")
    counts = ends(t, commands, texts, t.options.patience)
    t.expect(closed.wait(t.options.patience).ok, "close failed")
    t.below("all ended after the close", time.monotonic() - begun, 3)
    t.note("lost by the close", len(texts) - counts["answers"], "")


@case("C65")
def shared(t: Trial) -> None:
    crowd(t, pair(t), t.count(4_096, 320_000))


@case("C66")
def bad_line(t: Trial) -> None:
    """A call may be lost; it may not end twice, not at all, or with another's answer."""
    totals: "Counter[str]" = Counter()
    with ThreadPoolExecutor(4) as pool:  # it is all waiting
        for found in pool.map(partial(_talk, t), range(t.count(8, 1_000))):
            totals += found
    for name, value in totals.items():
        t.note(name, value, "")
    t.expect(totals["answers"] > 0, "no call was answered: the line was never good")


def _talk(t: Trial, number: int) -> "Counter[str]":
    seed = t.options.seed * 1_000 + number
    client = t.client()
    client.opened(command=[sys.executable, "-E", "-S", str(HERE / "line_noise.py"), str(seed), *t.subject.server])
    client.call("echo", 0.3, text="rage")
    texts = [f"{seed} {n}" for n in range(100)]
    try:
        found = ends(t, burst(client, texts, 0.5), texts, 0.5 + t.options.patience)
        t.expect(client.do("close", timeout=6.0).ok, "close failed")
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    client.process.stdin.close()  # type: ignore[union-attr]
    client.process.wait(t.options.patience)
    return found


@case("C67")
def callbacks(t: Trial) -> None:
    for what in ("call", "raise", "block"):
        client = t.client()
        reply = client.open(on_log=what, **HANDSHAKE)
        if reply.error == "unsupported":
            raise Missing("the adapter has no on_log")
        t.expect(reply.ok, f"open: {reply.error}")
        for number in range(3):
            reply = client.call("logs", 5, text=f"round {number}")
            t.expect(reply.text == f"round {number}", f"a callback that does {what!r}: {reply.error or reply.text}")
            t.below(f"a call while a callback does {what!r}", reply.seconds, 1)
        client.alive()
        t.below(f"close while a callback does {what!r}", client.do("close", timeout=6.0).seconds, 5)


@case("C68")
def closes(t: Trial) -> None:
    client = t.client()
    t.expect(client.do("close").ok, "close before open")
    client.opened(**HANDSHAKE)
    calls = [client.begin("call", tool="silent", arguments={}, timeout=20.0) for _ in range(5)]
    client.alive()
    both = [client.begin("close") for _ in range(4)]
    for one in both:
        reply = one.wait(5 + t.options.patience)
        t.expect(reply.ok, f"close: {reply.error}: {reply.message}")
        t.below("four closes at once", reply.seconds, 5)
    for one in calls:
        reply = one.wait(t.options.patience)
        t.expect(not reply.ok, "a call that nobody answered was a success")
        t.below("calls ended by the close", reply.seconds, 5)
    t.expect(client.do("close").ok, "a close after the close")
    t.expect(not client.call("echo", 2).ok, "a call after the close was a success")
    gone(t, client, "closed")
    client = t.client()
    opened = client.open(on_log="close", **HANDSHAKE)
    if opened.error != "unsupported":
        client.begin("call", tool="logs", arguments={"text": "x"}, timeout=3.0).wait(3 + t.options.patience)
        gone(t, client, "closed in a callback", 5)
        t.expect(client.do("close").ok, "a close after a callback's")
    leave(t)


def leave(t: Trial) -> None:
    """The process ends with a client open, by itself or by a signal: neither it nor its server stays."""
    for how in ("leave", "end of stdin"):
        client = t.client().opened(**HANDSHAKE)
        client.begin("call", tool="silent", arguments={}, timeout=20.0)
        client.alive()
        begun = time.monotonic()
        if how == "leave":
            client.begin("leave")
        else:
            client.process.stdin.close()  # type: ignore[union-attr]
        client.process.wait(5 * t.options.slack + t.options.patience)
        t.below(f"exit with a client open, {how}", time.monotonic() - begun, 5)
        gone(t, client, f"exit, {how}", 3)


@case("C69")
def at_the_timeout(t: Trial) -> None:
    """Each call's answer comes when its time is over, give or take a millisecond."""
    if "slow" not in t.subject.tools:
        raise Missing("no tool slow")
    client, counts = pair(t), Counter[str]()
    for _ in range(0, t.count(1_000, 10_000), 20):
        commands = [
            client.begin("call", tool="slow", arguments={"seconds": 0.05}, timeout=0.05 + t.dice.uniform(0, 0.02))
            for _ in range(20)
        ]
        replies: List[Reply] = [one.wait(t.options.patience) for one in commands]
        counts.update("answers" if one.ok else str(one.error) for one in replies)
    for name, value in counts.items():
        t.note(name, value, "")
    time.sleep(0.2)  # the last answers come late: none may be taken for the answer to the next call
    reply = client.call("echo", text="after")
    t.expect(reply.text == "after", f"a call afterwards: {reply.text or reply.error}")


@case("C70")
def hostile_scheduling(t: Trial) -> None:
    """For Python subjects; others run as ever."""
    path = os.pathsep.join(filter(None, (str(HERE / "hostile"), os.environ.get("PYTHONPATH"))))
    hostile: Dict[str, Any] = {"FAULTS_SWITCH_INTERVAL": "1e-6", "PYTHONPATH": path}
    crowd(t, pair(t, hostile), t.count(1_024, 32_000))
