"""C31 to C36: every way for a server to end, and what it does when the system runs dry."""

from __future__ import annotations

import os
import pty
import resource
import signal
import socket
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Callable, List, Optional

from ..wire.messages import encode, hello, notification, request
from .raw import Server
from .server_load import call
from .trial import Trial, case

PARENT = Path(__file__).with_name("parent.py")

NOISE = ("Traceback", "Exception ignored")


def calm(t: Trial, server: Server, what: str) -> None:
    """Nothing on stderr says that the end was an accident."""
    for sign in NOISE:
        if sign in server.stderr():
            t.warn(f"{what}: {sign} on stderr")


def exits(t: Trial, server: Server, what: str, bound: float, codes: Optional[tuple] = (0,)) -> None:
    """It exits in time, with one of these codes, quietly. What it says until then is taken."""
    begun = time.monotonic()
    if server.process.stdout is not None and not server.process.stdout.closed:
        server.remaining(bound * t.options.slack + t.options.patience)
    code = server.exit(bound * t.options.slack + t.options.patience)
    t.below(what, time.monotonic() - begun, bound)
    if codes is not None and code not in codes:
        t.warn(f"{what}: exit code {code}")
    calm(t, server, what)


@case("C31")
def end_of_input(t: Trial) -> None:
    works: List[Callable[[], None]] = []
    for revision in t.eras():
        works.append(partial(_while_idle, t, revision))
        works += [partial(_after_calls, t, revision)] if "echo" in t.subject.tools else []
        for seconds, bound in ((2, 3.5), (30, 6)) if "deaf_slow" in t.subject.tools else ():
            works.append(partial(_in_flight, t, revision, seconds, bound))
    t.at_once(*works)


def _while_idle(t: Trial, revision: str) -> None:
    server = t.server(revision)
    server.close_input()
    exits(t, server, "EOF, idle", 1)


def _after_calls(t: Trial, revision: str) -> None:
    server = t.server(revision, "echo")
    server.send(b"".join(call(server, n, "echo", text=str(n)) for n in range(20)))
    server.close_input()
    answered = {one["id"] for one in server.remaining() if "result" in one}
    t.note("of 20 calls before EOF answered", len(answered), "")
    t.expect(answered == set(range(20)), f"{len(answered)} of 20 calls before EOF answered")
    exits(t, server, "EOF, 20 calls", 1)


def _in_flight(t: Trial, revision: str, seconds: int, bound: float) -> None:
    server = t.server(revision, "deaf_slow")
    server.send(call(server, 1, "deaf_slow", seconds=seconds))
    server.alive(t.options.slack)
    begun = time.monotonic()
    server.close_input()
    got = server.remaining(bound * t.options.slack + t.options.patience)
    t.expect(seconds > 2 or server.result_of(got, 1), f"a call of {seconds} s before EOF was not answered")
    exits(t, server, f"EOF, {seconds} s in flight", bound)
    t.below(f"EOF, {seconds} s in flight, in all", time.monotonic() - begun, bound)


CODES = (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, 130, 143, 129)


@case("C32")
def signals(t: Trial) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        server = t.server()
        server.alive(t.options.slack)
        server.signal(number)
        exits(t, server, f"{number.name}, idle", 1, CODES)
    if "deaf_slow" in t.subject.tools:
        told = [(number, times) for number in (signal.SIGTERM, signal.SIGINT) for times in (1, 2)]
        t.at_once(*(partial(_told_in_flight, t, *each) for each in told))
    server, master = on_terminal(t)
    try:
        server.signal(signal.SIGINT)
        exits(t, server, "SIGINT, terminal", 1, CODES)
    finally:
        os.close(master)


def _told_in_flight(t: Trial, number: signal.Signals, times: int) -> None:
    server = t.server(None if not t.subject.revisions else "2025-06-18", "deaf_slow")
    server.send(call(server, 1, "deaf_slow", seconds=30))
    server.alive(t.options.slack)
    server.signal(number)
    if times == 2:
        time.sleep(0.3)
        server.signal(number)
    exits(t, server, f"{number.name} x {times}, in flight", 6 if times == 1 else 1.5, None)


def on_terminal(t: Trial) -> "tuple[Server, int]":
    """A server whose stdin is a terminal, after an answer; and our end of that."""
    master, slave = pty.openpty()
    try:
        server = t.server(None, stdin=slave)
        os.write(master, encode(request(1, "initialize", hello("2025-06-18"))))
        server.answer(1)
        os.write(master, encode(notification("notifications/initialized")))
        return server, master
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)


@case("C33")
def nobody_reads(t: Trial) -> None:
    server = t.server()
    spent = server.cpu()
    server.close_output()
    server.send(encode(request(1, "tools/list", {})), reading=False)
    begun = time.monotonic()
    while not server.has_ended() and time.monotonic() - begun < t.options.slack + t.options.patience:
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
    for tool, arguments in (("prints", {"kind": "os.write"}), ("raiser", {"kind": "MemoryError"})):
        if tool in t.subject.tools:
            server.call(tool, arguments)
    server.alive(t.options.slack)
    server.close_input()
    exits(t, server, "stderr closed, EOF", 1)


@case("C34")
def orphaned(t: Trial) -> None:
    for _ in range(t.count(3, 10)):
        reader, writer = os.pipe()
        try:
            parent = t.server(None, command=[sys.executable, "-S", str(PARENT), *t.subject.server], stderr=writer)
        finally:
            os.close(writer)
        with open(reader, "rb") as words:
            child = int(words.readline())
        parent.initialize("2025-06-18")
        parent.signal(signal.SIGKILL)
        begun = time.monotonic()
        while running(child) and time.monotonic() - begun < 2 * t.options.slack + t.options.patience:
            time.sleep(0.02)
        t.below("gone after", time.monotonic() - begun, 2)
        if running(child):
            os.kill(child, signal.SIGKILL)


def running(pid: int) -> bool:
    """Whether a process that is no child of ours runs; what has ended and is not reaped does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(") ")[2][:1] not in ("Z", "X")
    except OSError:
        return False


@case("C35")
def other_inputs(t: Trial) -> None:
    opening = [request(1, "initialize", hello("2025-06-18")), notification("notifications/initialized")]
    script = b"".join(map(encode, [*opening, request(2, "tools/list", {})]))
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
        t.expect(_lines(ours, 2) >= 2, "over a socket not all was answered")
        ours.shutdown(socket.SHUT_WR)
        exits(t, server, "a socket, EOF", 1)
    server, master = on_terminal(t)
    try:
        os.write(master, encode(request(2, "tools/list", {})))
        server.answer(2)
        os.write(master, b"\x04")  # what Ctrl-D sends
        exits(t, server, "a terminal, Ctrl-D", 1)
    finally:
        os.close(master)


def _lines(stream: socket.socket, wanted: int) -> int:
    found = b""
    try:
        while found.count(b"\n") < wanted:
            got = stream.recv(65536)
            if not got:
                break
            found += got
    except OSError:
        pass
    return found.count(b"\n")


@case("C36")
def starved(t: Trial) -> None:
    server = t.server("2025-06-18", "deaf_slow", "echo")
    server.alive(t.options.slack)
    _limit(server, resource.RLIMIT_NOFILE, 16)
    _answered(t, server, "16 open files")
    server = t.server("2025-06-18", "deaf_slow", "echo")
    server.alive(t.options.slack)
    room = (server.status("VmSize") + 4096) * 1024  # a thread's stack is larger than that
    old = _limit(server, resource.RLIMIT_AS, room)
    _answered(t, server, "no new thread")
    _limit(server, resource.RLIMIT_AS, old)
    server.alive(t.options.slack)
    with open("/dev/full", "wb") as full:
        server = t.server(stderr=full)
        for tool, arguments in (("prints", {"kind": "os.write"}), ("raiser", {"kind": "MemoryError"})):
            if tool in t.subject.tools:
                server.ask("tools/call", {"name": tool, "arguments": arguments})
        server.replies(b"garbage")
        server.alive(t.options.slack)


def _limit(server: Server, what: int, soft: int) -> int:
    """Set one of a server's limits, the soft one, which may be raised again; what it was before."""
    before, hard = resource.prlimit(server.process.pid, what)
    resource.prlimit(server.process.pid, what, (soft, hard))
    return before


def _answered(t: Trial, server: Server, what: str) -> None:
    """Forty calls of which each has an end, one way or the other, and a sign of life."""
    server.send(b"".join(call(server, n, "deaf_slow", seconds=0.05) for n in range(40)))
    replies: List[dict] = [server.answer(n, 20) for n in range(40)]
    failed = [one for one in replies if "error" in one or one["result"].get("isError")]
    t.note(f"{what}: refused of 40", len(failed), "")
    server.alive(2 * t.options.slack)
