"""K01 to K10 and K20 to K25: a client and its server. C65 to C70: many calls at once between client
and server."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .client import Client, Command
from .trial import Missing, Trial, case

HANDSHAKE: Dict[str, Any] = {
    "discover": [{"error": -32601}]
}  # a script of a server that knows handshakes only
ERAS: Tuple[Dict[str, Any], ...] = (HANDSHAKE, {})
MEGABYTE = 1 << 20
HERE = Path(__file__).resolve().parent


def clients(t: Trial, **script: Any) -> Iterator[Client]:
    """A client of a server of each era."""
    for era in ERAS:
        yield t.client().opened(**era, **script)


@case("K02")
def banner(t: Trial) -> None:
    for start in ("banner", "bom"):
        for client in clients(t, start=start):
            client.alive()
    for client in clients(t):
        for tool in ("not-json", "blank"):
            t.expect(client.call(tool, text="after").text == "after", f"{tool}: the call was lost")
        client.alive()


@case("K03")
def other_ids(t: Trial) -> None:
    for client in clients(t):
        for tool in ("unknown-ids", "id-types"):
            reply = client.call(tool, text="yours")
            t.expect(
                reply.text == "yours", f"{tool}: {reply.text or reply.error}: {reply.message}"[:120]
            )
        t.expect(client.call("dup-reply").text == "first", "dup-reply: not the first answer")
        client.alive()


@case("K06")
def large(t: Trial) -> None:
    client = t.client().opened(**HANDSHAKE)
    client.alive()
    base, reply = client.memory(), client.call("big", 60, bytes=50_000_000)
    size = len(reply.text or "")
    t.expect(size == 50_000_000, f"{size} of 50,000,000 bytes arrived: {reply.error}")
    t.below("time, the adapter's own hop included", reply.seconds, 2.5)
    t.below("growth, that hop included", client.memory("VmHWM") - base, 400, "MB")
    client.alive()


LINES = (
    "invalid-utf8", "deep", "deep-object", "nan", "infinity", "huge-int", "huge-id", "batch", "batch-empty",
    "parse-error", "nameless-error", "unknown-notes",
)  # fmt: skip


@case("K07")
def bad_lines(t: Trial) -> None:
    for client in clients(t):
        for tool in LINES:
            reply = client.call(tool, text="after")
            t.expect(
                reply.text == "after", f"{tool}: {reply.error or reply.text}: {reply.message}"[:120]
            )
        for tool in ("surrogate", "deep-reply", "invalid-utf8-reply"):
            reply = client.call(tool, 3, text="after")
            t.expect(reply.ok or reply.error, tool)
        client.alive()
        answers = [
            one for one in client.journal() if one["event"] == "line" and '"error"' in one["text"]
        ]
        t.expect(answers == [], f"the client answered a line that is no request: {answers[:1]}")


@case("K08")
def endless_line(t: Trial) -> None:
    client = t.client().opened(**HANDSHAKE)
    client.alive()
    base, reply = (
        client.memory(),
        client.call("no-newline-flood", 30, bytes=96 * MEGABYTE, text="after"),
    )
    t.expect(reply.text == "after", f"the call was lost: {reply.error}")
    t.below("growth", client.memory("VmHWM") - base, 64 + 8, "MB")
    client.alive()


@case("K09")
def loud(t: Trial) -> None:
    for client in clients(t, start="stderr-flood"):
        client.alive()
        t.below("memory", client.memory("VmHWM"), 120, "MB")


@case("K10")
def deaf(t: Trial) -> None:
    many = "x" * 5_000_000
    for client in clients(t):
        client.call("stop-reading")
        for arguments in ({"text": many}, {}):
            reply = client.call("echo", 1.0, **arguments)
            t.expect(not reply.ok, "a call to a deaf server was a success")
            t.below("a timeout of 1 s", reply.seconds, 1.5)
    for client in clients(t, start="duplex"):
        t.expect(
            client.call("echo", 20, text=many).text == many, "both wrote 5 MB: the call was lost"
        )
        client.alive()


@case("K24")
def endless_lists(t: Trial) -> None:
    def listed(mode: str) -> None:
        for client in clients(t, list=mode):
            reply = client.do("list", timeout=client.never)
            if reply.error == "RequestTimeout":
                t.warn(f"{mode}: ended by the timeout alone")
            t.below(mode, reply.seconds, 15)
            asked = sum('"tools/list"' in one.get("text", "") for one in client.journal())
            t.expect(asked <= 1001, f"{mode}: {asked} requests")
            client.alive()

    t.at_once(*(partial(listed, mode) for mode in ("same-cursor", "circle", "endless-pages")))


HOSTILE: Tuple[Tuple[str, Any], ...] = (
    ("a remote $ref", {"$ref": "http://192.0.2.1/schema.json"}),
    ("a pattern that explodes", {"type": "string", "pattern": "^(a+)+$"}),
    ("allOf 60 deep", json.loads('{"allOf":[' * 60 + "{}" + "]}" * 60)),
    ("a $ref to itself", {"$ref": "#/properties/x"}),
    ("a schema that is no object", 7),
)


@case("K25")
def hostile_tools(t: Trial) -> None:
    """The tool `structured` returns its arguments, which a client may check against its output
    schema."""
    for client in clients(t, list="ten-thousand"):
        reply = client.do("list", timeout=20.0)
        t.expect(
            reply.more.get("count") == 10_000,
            f"10,000 tools: {reply.error or reply.more.get('count')}",
        )
        t.below("10,000 tools", reply.seconds, 2)
    good = {"name": "echo", "inputSchema": {"type": "object"}}
    for name, schema in HOSTILE:  # each is a part of a result, called with its worst value
        tool = {
            **good,
            "name": "structured",
            "outputSchema": {"type": "object", "properties": {"x": schema}},
        }
        for client in clients(t, list={"tools": [tool, good]}):
            listed = client.do("list", timeout=5.0)
            t.below(f"{name}: the list", listed.seconds, 1)
            t.expect(
                listed.ok, f"{name}: the list was lost: {listed.error}: {listed.message}"[:150]
            )
            reply = client.call("structured", 3, structuredContent={"x": "a" * 40 + "!"})
            t.below(f"{name}: the call", reply.seconds, 3.5)
            client.alive()


def gone(t: Trial, client: Client, what: str, seconds: float = 1.0) -> None:
    """No server that was started is left, as a zombie either."""
    left = client.gone(seconds * t.options.slack)
    t.expect(left == [], f"{what}: {len(left)} processes are left")


@case("K01")
def dying(t: Trial) -> None:
    def silent() -> None:
        reply = t.client().open(1.0, start="silent")
        t.expect(not reply.ok, "a silent server was opened")
        t.below("a silent server, timeout 1 s", reply.seconds, 5.5)  # its end may take 4 s

    def dies_at_start(start: str) -> None:
        client = t.client()
        reply = client.open(client.never, start=start)
        t.expect(not reply.ok, f"{start}: opened")
        t.below(f"{start}", reply.seconds, 3)
        if start == "dies-at-start" and "no database" not in reply.message:
            t.warn("the last words of a server that died are not in the error")
        gone(t, client, start)

    def dies_in_call(era: Dict[str, Any], tool: str) -> None:
        client = t.client().opened(**era)
        for call, what in ((tool, tool), ("echo", f"a call after {tool}")):
            reply = client.call(call)
            t.expect(not reply.ok, f"{what}: a success")
            t.below(what, reply.seconds, 3)

    def half_a_line(era: Dict[str, Any]) -> None:
        reply = t.client().opened(**era).call("half-line-hang", 0.5)
        t.expect(not reply.ok, "half-line-hang: a success")
        t.below("half a line, timeout 0.5 s", reply.seconds, 1)

    def killed() -> None:
        client = t.client().opened(**HANDSHAKE)
        waiting = [client.begin_call("hold") for _ in range(20)]
        client.alive()
        os.kill(client.servers()[0], signal.SIGKILL)
        replies = [one.wait(2 * t.options.patience) for one in waiting]
        t.expect(not any(one.ok for one in replies), "a call outlived its server")
        t.below("20 calls of a killed server", max(one.seconds for one in replies), 3)

    t.at_once(
        silent,
        *(
            partial(dies_at_start, one)
            for one in ("dies-at-start", "dies-by-signal", "only-banner")
        ),
    )
    ends = ("exit-mid-call", "half-line-exit", "close-stdout")
    t.at_once(*(partial(dies_in_call, era, tool) for era in ERAS for tool in ends))
    t.at_once(*(partial(half_a_line, era) for era in ERAS), killed)


@case("K20")
def stubborn(t: Trial) -> None:
    for start, bound in (("plain", 1.0), ("note-signals", 3.0), ("ignore-signals", 5.0)):
        client = t.client().opened(
            start=start, end="exit" if start == "plain" else "hang", **HANDSHAKE
        )
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
        t.below(f"close, {start}", client.do("close", timeout=5.0).seconds, 1)
        reply = t.client().opened(start=start, **HANDSHAKE).call("exit-mid-call")
        t.expect(not reply.ok, "a call of a server that died was a success")
        t.below(f"its server's death, {start}", reply.seconds, 4)


def nothing_more(t: Trial, client: Client, before: Dict[str, int]) -> None:
    t.below("more descriptors", client.settled("fd", before["fd"], 4) - before["fd"], 0, "")
    t.below("more threads", client.settled("task", before["task"] + 1, 15) - before["task"], 1, "")


def held(client: Client) -> Dict[str, int]:
    return {what: client.count(what) for what in ("fd", "task")}


@case("K22")
def many(t: Trial) -> None:
    client, rounds = t.client(), t.count(30, 1_000)
    for number in range(rounds):
        client.opened(**HANDSHAKE)
        client.alive()
        t.expect(client.do("close").ok, "close failed")
        if number == 4:
            before, base = held(client), client.memory()
    nothing_more(t, client, before)
    t.below("children left", client.children(), 0, "")
    t.below("growth", client.memory() - base, 5 if rounds < 100 else 10, "MB")
    gone(t, client, "closed")


@case("K23")
def unstartable(t: Trial) -> None:
    client = t.client()
    plain, script = client.folder / "plain", client.folder / "script"
    plain.write_text("#!/bin/sh\n", "utf-8")
    script.write_text("#!/no/such/interpreter\n", "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    good: List[str] = [sys.executable, "-c", ""]
    targets: Dict[str, Dict[str, Any]] = {
        "not found": {"command": ["no-such-command-anywhere"]},
        "not executable": {"command": [str(plain)]},
        "a directory": {"command": [str(client.folder)]},
        "no interpreter": {"command": [str(script)]},
        "no working directory": {"command": good, "cwd": str(client.folder / "nowhere")},
        "NUL in the environment": {"command": good, "env": {"A": "b\0c"}},
        "= in a name of the environment": {"command": good, "env": {"A=B": "c"}},
        "NUL in the command": {"command": [sys.executable, "a\0b"]},
    }
    before = held(client)
    for name, target in targets.items():
        reply = client.open(client.never, **target)
        t.expect(not reply.ok, f"{name}: opened")
        t.below(name, reply.seconds, 2)
        if (reply.error or "").startswith("untyped"):
            t.warn(f"{name}: {reply.error}")
        t.expect(client.children() == 0, f"{name}: a child is left")
    nothing_more(t, client, before)


def pair(t: Trial, env: Optional[Dict[str, str]] = None) -> Client:
    """The client adapter, connected to the server under trial."""
    if "echo" not in t.subject.tools:
        raise Missing("no tool echo")
    return t.client(env=env).opened(command=t.subject.server)


def burst(client: Client, texts: List[str], timeout: float) -> List[Command]:
    return [client.begin_call("echo", timeout, text=text) for text in texts]


def ends(t: Trial, commands: List[Command], texts: List[str], wait: float) -> "Counter[str]":
    """Wait for all, and count how they ended; each that went well must have its own text."""
    counts: "Counter[str]" = Counter()
    for command, text in zip(commands, texts):
        reply = command.wait(wait)
        if reply.ok and reply.text != text:
            t.fail(f"a call got the answer of another: {str(reply.text)[:40]!r}, not {text[:40]!r}")
        counts["answers" if reply.ok else str(reply.error)] += 1
    return counts


def crowd(t: Trial, client: Client, calls: int) -> None:
    """32 callers at once send texts of random length, each of which must be returned. Then the
    client closes in the middle."""
    begun = time.monotonic()
    for start in range(0, calls, 32 * 8):
        texts = [f"{start + n} " + "x" * t.dice.randrange(2_000) for n in range(32 * 8)]
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

    def talk(seed: int) -> None:
        noise = [
            sys.executable,
            "-E",
            "-S",
            str(HERE / "line_noise.py"),
            str(seed),
            *t.subject.server,
        ]
        client = t.client().opened(command=noise)
        client.call("echo", 0.3, text="rage")
        texts = [f"{seed} {n}" for n in range(100)]
        try:
            found = ends(t, burst(client, texts, 0.5), texts, 0.5 + t.options.patience)
            t.expect(client.do("close", timeout=6.0).ok, "close failed")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        client.process.stdin.close()  # type: ignore[union-attr]
        client.process.wait(t.options.patience)
        totals.update(found)

    seeds = [t.options.seed * 1_000 + number for number in range(t.count(8, 1_000))]
    for start in range(0, len(seeds), 4):
        t.at_once(*(partial(talk, seed) for seed in seeds[start : start + 4]))
    for name, value in totals.items():
        t.note(name, value, "")
    t.expect(totals["answers"] > 0, "no call was answered: the line was never good")


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
            t.expect(
                reply.text == f"round {number}",
                f"a callback that does {what!r}: {reply.error or reply.text}",
            )
            t.below(f"a call while a callback does {what!r}", reply.seconds, 1)
        client.alive()
        t.below(f"close while a callback does {what!r}", client.do("close", timeout=6.0).seconds, 5)


@case("C68")
def closes(t: Trial) -> None:
    client = t.client()
    t.expect(client.do("close").ok, "close before open")
    client.opened(**HANDSHAKE)
    calls = [client.begin_call("silent", 20.0) for _ in range(5)]
    client.alive()
    for one in [client.begin("close") for _ in range(4)]:
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
    if client.open(on_log="close", **HANDSHAKE).error != "unsupported":
        client.call("logs", 3.0, text="x")
        gone(t, client, "closed in a callback", 5)
        t.expect(client.do("close").ok, "a close after a callback's")
    for how in (
        "leave",
        "end of stdin",
    ):  # with an open client: neither the process nor its server stays
        client = t.client().opened(**HANDSHAKE)
        client.begin_call("silent", 20.0)
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
    """The response to each call arrives at its deadline, give or take a millisecond."""
    if "slow" not in t.subject.tools:
        raise Missing("no tool slow")
    client, counts = pair(t), Counter[str]()
    for _ in range(0, t.count(1_000, 10_000), 20):
        commands = [
            client.begin_call("slow", 0.05 + t.dice.uniform(0, 0.02), seconds=0.05)
            for _ in range(20)
        ]
        replies = [one.wait(t.options.patience) for one in commands]
        counts.update("answers" if one.ok else str(one.error) for one in replies)
    for name, value in counts.items():
        t.note(name, value, "")
    time.sleep(0.2)  # the last responses are late, and must not be used for the next call
    reply = client.call("echo", text="after")
    t.expect(reply.text == "after", f"a call afterwards: {reply.text or reply.error}")


@case("C70")
def hostile_scheduling(t: Trial) -> None:
    """For Python subjects; others run as ever."""
    path = os.pathsep.join(filter(None, (str(HERE / "hostile"), os.environ.get("PYTHONPATH"))))
    crowd(
        t, pair(t, {"FAULTS_SWITCH_INTERVAL": "1e-6", "PYTHONPATH": path}), t.count(1_024, 32_000)
    )
