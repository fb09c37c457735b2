"""C12 to C15, C17, C19 and C23 to C38: misbehaving tools, much work at once, every kind of exit,
and exhausted resources."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import socket
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Optional, Set

from ..support import eventually
from ..wire.messages import MODERN, REQUEST, encode, hello, modern, notification, request, same
from .raw import Server, shown
from .server_lines import line
from .trial import Trial, case, each_era, say

RAISED = (
    "SystemExit",
    "KeyboardInterrupt",
    "MemoryError",
    "RecursionError",
    "GeneratorExit",
    "Wordless",
)
RETURNED = ("nan", "infinity", "bytes", "cycle", "unprintable", "surrogate", "deep", "large")
PRINTED = ("print", "os.write", "child", "system")


@each_era("C23", "prints")
def prints(t: Trial, server: Server) -> None:
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
    wire = {os.readlink(f"/proc/{server.process.pid}/fd/{number}") for number in (0, 1)} - {
        os.devnull
    }
    rows = [one.split(" ", 1) for one in server.text("child_descriptors").splitlines()]
    t.note("descriptors of the child", len(rows), "")
    pipes = [
        row
        for row in rows
        if len(row) == 2 and int(row[0]) > 2 and row[1].startswith(("pipe:", "socket:"))
    ]
    t.expect(pipes == [], f"a child of a tool has {pipes}")
    for number, target in (row for row in rows if len(row) == 2):
        t.expect(number != "0" or target not in wire, "a child of a tool has the wire as its stdin")
    server.alive(t.options.slack)


MB = 1 << 20
# MB of a message: the longest line tried is longer than any limit that a library is known for
LIMIT = 64


def call(server: Server, id: Any, tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return encode(
        request(id, "tools/call", modern(params) if server.revision == MODERN else params)
    )


@each_era("C12")
def large(t: Trial, server: Server) -> None:
    took: Dict[int, float] = {}
    base = server.memory()
    for megabytes in (5, 50):
        text = line(server, params={"_meta": {"com.example/x": "@"}}).replace(
            b"@", b"x" * megabytes * 1_000_000
        )
        begun = time.monotonic()
        server.send(text + b"\n")
        found = server.answer("q") if megabytes == 5 else server.message()
        took[megabytes] = time.monotonic() - begun
        t.expect(
            "result" in found or same(found.get("id"), None) or same(found.get("id"), "q"),
            shown(found),
        )
    t.below("time of 50 MB", took[50], 5)
    t.expect(
        took[50] < 40 * max(took[5], 0.02),
        f"not linear: {took[5]:.2f} s for 5 MB, {took[50]:.2f} s for 50",
    )
    t.below("growth", server.memory("VmHWM") - base, 200, "MB")


@case("C13")
def endless(t: Trial) -> None:
    server = t.server()
    server.alive(t.options.slack)
    base, begun = server.memory(), time.monotonic()
    for _ in range(96):
        server.send(b"z" * MB)
    server.send(b"\n")
    server.ping()
    got = [one for one in server.aside if "method" not in one]
    server.aside.clear()
    if not got:
        t.warn("no answer to a line of 96 MB")
    else:
        t.expect(
            len(got) == 1 and got[0]["error"]["code"] in (REQUEST, -32700), f"96 MB: {shown(got)}"
        )
    t.below("time", time.monotonic() - begun, 5)
    t.below("growth", server.memory("VmHWM") - base, LIMIT + 8, "MB")
    server.alive(t.options.slack)


@each_era("C14", "echo")
def sizes(t: Trial, server: Server) -> None:
    for kilobytes in range(201):
        text = "s" * (kilobytes * 1024)
        t.expect(server.text("echo", {"text": text}) == text, f"{kilobytes} KB did not come back")
    for byte in line(server, id="slowly") + b"\n":
        server.send(bytes([byte]))
    server.answer("slowly")
    server.send(b"".join(call(server, n, "echo", text=str(n)) for n in range(2_000)))
    for n in range(2_000):
        got = server.answer(n)["result"]["content"][0]["text"]
        t.expect(got == str(n), f"call {n} got the answer of {got}")


@each_era("C15", "deaf_slow", "echo")
def twice(t: Trial, server: Server) -> None:
    server.send(
        call(server, "twice", "deaf_slow", seconds=1) + call(server, "twice", "echo", text="second")
    )
    begun = time.monotonic()
    first, second = server.answer("twice"), server.answer("twice")
    codes = [one.get("error", {}).get("code") for one in (first, second)]
    if codes == [None, None]:
        t.warn("an id in flight was taken a second time")
    else:
        t.expect(codes == [REQUEST, None], f"an id in flight: {codes}")
    t.below("both answers", time.monotonic() - begun, 2.5)
    for n in range(20):
        t.expect(
            server.call("echo", {"text": str(n)}, id="again")["content"][0]["text"] == str(n),
            "an id again",
        )


@each_era("C17")
def flood(t: Trial, server: Server) -> None:
    server.alive(t.options.slack)
    base, spent, begun = server.memory(), server.cpu(), time.monotonic()
    notes = say("notifications/nobody/knows", {"x": [1, 2, 3]}) * 5_000
    for _ in range(10):
        server.send(notes)
    server.ping(60)
    t.expect(server.aside == [], f"answered: {shown(server.aside)}")
    t.note("notifications a second", 50_000 / (time.monotonic() - begun), "/s")
    t.below("CPU", server.cpu() - spent, 5)
    t.below("growth", server.memory() - base, 10, "MB")
    server.aside.clear()


@case("C19")
def cancel_storm(t: Trial) -> None:
    answered = 0
    for revision in t.eras():
        server = t.server(revision, "slow")
        for number in range(1_000):
            seconds = t.dice.choice((0, 0, 0.001, 5))
            cancel = say("notifications/cancelled", {"requestId": number})
            server.send(
                call(server, number, "slow", seconds=seconds)
                + (b"" if t.dice.random() < 0.1 else cancel)
            )
            if t.dice.random() < 0.1:
                server.send(cancel)
        seen: Set[Any] = set()
        came = server.fence()
        while server.poll(0.3):  # until nothing has arrived for this long
            came.append(server.message())
        for one in came:
            if "method" not in one:
                t.expect(one["id"] not in seen, f"the request {one['id']} was answered twice")
                seen.add(one["id"])
        answered += len(seen)
        server.alive(t.options.slack)
    t.note("answered", answered, "")


@case("C24")
def unread(t: Trial) -> None:
    server = t.server("2025-06-18", "echo")
    base, begun = server.memory(), time.monotonic()
    calls = b"".join(call(server, n, "echo", text="x" * 100) for n in range(20_000))
    taken = server.send(calls, reading=False, wait=0.5)
    t.note("requests taken before one answer was read", taken / len(calls) * 20_000, "")
    server.send(calls[taken:])
    seen = set()
    for _ in range(20_000):
        message = server.message()
        t.expect("result" in message, shown(message))
        seen.add(message["id"])
    t.expect(seen == set(range(20_000)), f"{20_000 - len(seen)} calls were not answered")
    t.below("time", time.monotonic() - begun, 30)
    t.below("growth", server.memory("VmHWM") - base, 120, "MB")
    server.alive(t.options.slack)


@case("C25")
def slow_reader(t: Trial) -> None:
    # glibc would keep freed memory, several times the memory in use. With this setting it returns
    # large pieces at once.
    server = t.server("2025-06-18", "big", env={"MALLOC_MMAP_THRESHOLD_": str(MB)})
    server.alive(t.options.slack)
    base, calls = server.memory(), t.count(120, 400)
    for n in range(calls):
        server.send(call(server, n, "big", size=5 * MB), reading=False, wait=0.5)
        server.poll(0.001)  # one read of a pipe's worth, then a pause
        time.sleep(0.03)
    t.below("growth", server.memory("VmHWM") - base, 3 * LIMIT, "MB")
    for n in range(calls):
        t.expect(
            len(server.answer(n, 60)["result"]["content"][0]["text"]) == 5 * MB,
            f"answer {n} is short",
        )
    server.alive(t.options.slack)


@case("C26")
def crowd(t: Trial) -> None:
    server = t.server("2025-06-18", "deaf_slow")
    threads, begun = [server.status("Threads")], time.monotonic()
    server.send(b"".join(call(server, n, "deaf_slow", seconds=0.1) for n in range(200)))
    for n in range(200):
        t.expect("result" in server.answer(n, 60), f"call {n} failed")
        if n % 20 == 0:
            threads.append(server.status("Threads"))
    t.below("time", time.monotonic() - begun, 3)
    t.below("threads", max(threads), 100, "")
    server.alive(t.options.slack)


@each_era("C27", "deaf_slow", "echo")
def behind(t: Trial, server: Server) -> None:
    server.send(call(server, "slow", "deaf_slow", seconds=3))
    begun = time.monotonic()
    server.answer(server.begin_call("echo", {"text": "x"}), 60)
    t.below("a fast call behind a slow one", time.monotonic() - begun, 1)
    server.send(b"".join(call(server, n, "deaf_slow", seconds=3) for n in range(100)))
    t.below("a ping behind 100", server.ping(60), 1)
    begun = time.monotonic()
    server.answer(server.begin("tools/list", {}), 60)
    t.below("a list behind 100", time.monotonic() - begun, 1)
    server.notify("notifications/cancelled", {"requestId": 99})
    t.below("a ping after a cancellation", server.ping(60), 1)
    for n in range(99):  # the calls occupy all workers
        server.answer(n, 60)


@case("C38")
def soak(t: Trial) -> None:
    server = t.server("2025-06-18", "echo", "add")
    for n in range(500):
        server.text("add", {"a": n, "b": 1})
    before = server.status("Threads"), server.descriptors()
    base, begun, calls = server.memory(), time.monotonic(), t.count(5_000, 100_000)
    for n in range(calls):
        if n % 2:
            t.expect(
                server.text("add", {"a": n, "b": 1}) == str(n + 1), f"call {n} got another answer"
            )
        else:
            t.expect(
                server.text("echo", {"text": f"{n}"}) == str(n), f"call {n} got another answer"
            )
    t.note("calls a second", calls / (time.monotonic() - begun), "/s")
    t.below("growth", server.memory() - base, 5, "MB")
    eventually(
        lambda: server.status("Threads") <= before[0] + 2, 15 + t.options.patience
    )  # idle workers end
    t.below("more threads", server.status("Threads") - before[0], 2, "")
    t.below("more descriptors", server.descriptors() - before[1], 0, "")
    server.alive(t.options.slack)


NOISE = ("Traceback", "Exception ignored")


def calm(t: Trial, server: Server, what: str) -> None:
    """Check that stderr shows no accident at the exit."""
    for sign in NOISE:
        if sign in server.stderr():
            t.warn(f"{what}: {sign} on stderr")


def exits(t: Trial, server: Server, what: str, bound: float, codes: Optional[tuple] = (0,)) -> None:
    """Check that the server exits in time, with one of these codes, quietly. Its output until then
    is read."""
    begun = time.monotonic()
    wait = bound * t.options.slack + t.options.patience
    if server.process.stdout is not None and not server.process.stdout.closed:
        server.remaining(wait)
    code = server.exit(wait)
    t.below(what, time.monotonic() - begun, bound)
    if codes is not None and code not in codes:
        t.warn(f"{what}: exit code {code}")
    calm(t, server, what)


@case("C31")
def end_of_input(t: Trial) -> None:
    def idle(revision: str) -> None:
        server = t.server(revision)
        server.close_input()
        exits(t, server, "EOF, idle", 1)

    def after_calls(revision: str) -> None:
        server = t.server(revision, "echo")
        server.send(b"".join(call(server, n, "echo", text=str(n)) for n in range(20)))
        server.close_input()
        answered = {one["id"] for one in server.remaining() if "result" in one}
        t.note("of 20 calls before EOF answered", len(answered), "")
        t.expect(answered == set(range(20)), f"{len(answered)} of 20 calls before EOF answered")
        exits(t, server, "EOF, 20 calls", 1)

    def in_flight(seconds: int, bound: float, revision: str) -> None:
        server = t.server(revision, "deaf_slow")
        server.send(call(server, 1, "deaf_slow", seconds=seconds))
        server.alive(t.options.slack)
        begun = time.monotonic()
        server.close_input()
        got = server.remaining(bound * t.options.slack + t.options.patience)
        t.expect(
            seconds > 2 or server.result_of(got, 1),
            f"a call of {seconds} s before EOF was not answered",
        )
        exits(t, server, f"EOF, {seconds} s in flight", bound)
        t.below(f"EOF, {seconds} s in flight, in all", time.monotonic() - begun, bound)

    works: List[Callable[[str], None]] = [idle]
    works += [after_calls] if "echo" in t.subject.tools else []
    works += (
        [partial(in_flight, 2, 3.5), partial(in_flight, 30, 6)]
        if "deaf_slow" in t.subject.tools
        else []
    )
    t.at_once(*(partial(work, revision) for work in works for revision in t.eras()))


CODES = (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 130, 143, 129)


@case("C32")
def signals(t: Trial) -> None:
    def in_flight(number: signal.Signals, times: int) -> None:
        server = t.server(None if not t.subject.revisions else "2025-06-18", "deaf_slow")
        server.send(call(server, 1, "deaf_slow", seconds=30))
        server.alive(t.options.slack)
        server.signal(number)
        if times == 2:
            time.sleep(0.3)
            server.signal(number)
        exits(t, server, f"{number.name} x {times}, in flight", 1.5, None)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        server = t.server()
        server.alive(t.options.slack)
        server.signal(number)
        exits(t, server, f"{number.name}, idle", 1, CODES)
    if "deaf_slow" in t.subject.tools:
        t.at_once(
            *(
                partial(in_flight, number, n)
                for number in (signal.SIGTERM, signal.SIGINT)
                for n in (1, 2)
            )
        )
    with on_terminal(t) as (server, _):
        server.signal(signal.SIGINT)
        exits(t, server, "SIGINT, terminal", 1, CODES)


@contextmanager
def on_terminal(t: Trial) -> "Iterator[tuple[Server, int]]":
    """Start a server whose stdin is a terminal, and wait for a response. Return it with our end of
    the terminal."""
    master, slave = pty.openpty()
    try:
        try:
            server = t.server(None, stdin=slave)
        finally:
            os.close(slave)
        os.write(master, encode(OPENING[0]))
        server.answer(1)
        os.write(master, encode(OPENING[1]))
        yield server, master
    finally:
        os.close(master)


OPENING = (request(1, "initialize", hello("2025-06-18")), notification("notifications/initialized"))
LOUD = (
    ("prints", {"kind": "os.write"}),
    ("raiser", {"kind": "MemoryError"}),
)  # tools that have something logged


@case("C33")
def nobody_reads(t: Trial) -> None:
    server = t.server()
    spent = server.cpu()
    server.close_output()
    server.send(encode(request(1, "tools/list", {})), reading=False)
    begun = time.monotonic()
    while (
        not server.has_ended() and time.monotonic() - begun < t.options.slack + t.options.patience
    ):
        last = server.cpu()
        time.sleep(0.02)
    t.below("stdout closed", time.monotonic() - begun, 1)
    t.below("CPU", last - spent, 0.5)
    calm(t, server, "stdout closed")
    reader, writer = os.pipe()
    try:
        server = t.server(stderr=writer)
    finally:
        os.close(writer)
        os.close(reader)
    for tool, arguments in LOUD:
        if tool in t.subject.tools:
            server.call(tool, arguments)
    server.alive(t.options.slack)
    server.close_input()
    exits(t, server, "stderr closed, EOF", 1)


PARENT = """import subprocess, sys
child = subprocess.Popen(sys.argv[1:])
print(child.pid, file=sys.stderr, flush=True)
child.wait()"""


@case("C34")
def orphaned(t: Trial) -> None:
    for _ in range(t.count(3, 10)):
        reader, writer = os.pipe()
        try:
            parent = t.server(
                None, command=[sys.executable, "-S", "-c", PARENT, *t.subject.server], stderr=writer
            )
        finally:
            os.close(writer)
        with open(reader, "rb") as words:
            child = int(words.readline())
        parent.initialize("2025-06-18")
        parent.signal(signal.SIGKILL)
        begun = time.monotonic()
        ended = eventually(
            lambda child=child: not running(child), 2 * t.options.slack + t.options.patience
        )
        t.below("gone after", time.monotonic() - begun, 2)
        if not ended:
            os.kill(child, signal.SIGKILL)


def running(pid: int) -> bool:
    """Return whether a process runs that this process did not start. A process that has ended but
    is not reaped does not run."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][:1] not in ("Z", "X")
    except OSError:
        return False


@case("C35")
def other_inputs(t: Trial) -> None:
    script = b"".join(map(encode, [*OPENING, request(2, "tools/list", {})]))
    with tempfile.TemporaryFile() as file:
        file.write(script)
        file.seek(0)
        server = t.server(None, stdin=file)
        answered = {one.get("id") for one in server.remaining() if "result" in one}
        t.expect({1, 2} <= answered, f"from a file only {sorted(answered)} were answered")
        exits(t, server, "a file", 1)
    with open(os.devnull, "rb") as nothing:
        exits(t, t.server(None, stdin=nothing), "/dev/null", 5)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        server = t.server(None, stdin=theirs, stdout=theirs)
        theirs.close()
        ours.settimeout(t.options.patience)
        ours.sendall(script)
        both = b""
        with ours.makefile("rb") as lines, suppress(OSError):
            both = lines.readline() and lines.readline()
        t.expect(both, "over a socket not all was answered")
        ours.shutdown(socket.SHUT_WR)
        exits(t, server, "a socket, EOF", 1)
    with on_terminal(t) as (server, master):
        os.write(master, encode(request(2, "tools/list", {})))
        server.answer(2)
        os.write(master, b"\x04")  # what Ctrl-D sends
        exits(t, server, "a terminal, Ctrl-D", 1)


@case("C36")
def starved(t: Trial) -> None:
    def limit(what: int, soft: int) -> int:
        """Set one of the server's soft limits, which may be raised again. Return the previous
        value."""
        before, hard = resource.prlimit(server.process.pid, what)
        resource.prlimit(server.process.pid, what, (soft, hard))
        return before

    def answered(what: str) -> None:
        """Forty calls of which each has an end, one way or the other, and a sign of life."""
        server.send(b"".join(call(server, n, "deaf_slow", seconds=0.05) for n in range(40)))
        replies = [server.answer(n, 20) for n in range(40)]
        failed = [one for one in replies if "error" in one or one["result"].get("isError")]
        t.note(f"{what}: refused of 40", len(failed), "")
        server.alive(2 * t.options.slack)

    server = t.server("2025-06-18", "deaf_slow", "echo")
    server.alive(t.options.slack)
    limit(resource.RLIMIT_NOFILE, 16)
    answered("16 open files")
    server = t.server("2025-06-18", "deaf_slow", "echo")
    server.alive(t.options.slack)
    room = (server.status("VmSize") + 4096) * 1024  # a thread's stack is larger than that
    old = limit(resource.RLIMIT_AS, room)
    answered("no new thread")
    limit(resource.RLIMIT_AS, old)
    server.alive(t.options.slack)
    with open("/dev/full", "wb") as full:
        server = t.server(stderr=full)
        for tool, arguments in LOUD:
            if tool in t.subject.tools:
                server.ask("tools/call", {"name": tool, "arguments": arguments})
        server.replies(b"garbage")
        server.alive(t.options.slack)
