"""The load generator: raw pipes, standard library only. It knows no subject; every subject gets the
same bytes.

Each function makes one slice of one measurement and checks every answer after the clock has
stopped.
Linux only: pipe sizes, /proc and the CPU clock of another process.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import select
import subprocess
import tempfile
import threading
import time
from statistics import median
from typing import Any, Mapping, Optional, Sequence

PIPE_BYTES = 262144
PATIENCE = 120  # seconds that a subject may live; one that takes longer hangs, and is killed
SET_PIPE_SIZE = 1031
WINDOW = 64
TEXT = "x" * 100
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "load", "version": "0"},
}
Measured = dict[str, float]


class Broken(Exception):
    """A subject crashed, hung or gave a wrong answer: the one thing that makes the benchmark fail."""


class Child:
    """A subject's process with its pipes, its stderr in a file, and a timer that kills it when it
    hangs."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], modern: bool = False
    ) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, bufsize=0,
            env=dict(environment), cwd=tempfile.gettempdir(),
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        for descriptor in (self.into, self.out):
            fcntl.fcntl(descriptor, SET_PIPE_SIZE, PIPE_BYTES)
        self.ids = itertools.count(1)
        self.envelope = {"_meta": MODERN} if modern else {}
        self._timer = threading.Timer(PATIENCE, self.process.kill)
        self._timer.daemon = True
        self._timer.start()

    def broken(self, what: str) -> Broken:
        self.errors.seek(0)
        tail = self.errors.read().decode("utf-8", "replace").strip().splitlines()[-8:]
        return Broken("\n    ".join([f"{what}; exit status {self.process.poll()}", *tail]))

    def frame(self, method: str, params: Mapping[str, Any]) -> bytes:
        """One request as a line, with the next id."""
        message = {
            "jsonrpc": "2.0",
            "id": next(self.ids),
            "method": method,
            "params": {**params, **self.envelope},
        }
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    def call(self, tool: str, **arguments: Any) -> bytes:
        return self.frame("tools/call", {"name": tool, "arguments": arguments})

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.into, data) :]
        except BrokenPipeError:
            raise self.broken("closed its stdin") from None

    def read(self) -> bytes:
        chunk = os.read(self.out, PIPE_BYTES)
        if not chunk:
            self.process.wait()
            raise self.broken("closed its stdout (or hung and was killed)")
        return chunk

    def ask(self, line: bytes) -> bytes:
        """Write one line and wait for one: the measured step of everything that is sequential."""
        self.write(line)
        pieces = [self.read()]
        while not pieces[-1].endswith(b"\n"):
            pieces.append(self.read())
        return b"".join(pieces)

    def exchange(self, data: bytes, lines: int) -> bytes:
        """Write any amount and read `lines` lines at the same time, so that small pipes do not
        block."""
        view, pieces = memoryview(data), []
        poller = select.poll()
        poller.register(self.into, select.POLLOUT)
        poller.register(self.out, select.POLLIN | select.POLLHUP)
        os.set_blocking(self.into, False)
        try:
            while lines > 0:
                for descriptor, _ in poller.poll():
                    if descriptor == self.out:
                        pieces.append(self.read())
                        lines -= pieces[-1].count(b"\n")
                    else:
                        view = view[os.write(self.into, view) :]
                        if not view:
                            poller.unregister(self.into)
        except BrokenPipeError:
            raise self.broken("closed its stdin") from None
        finally:
            os.set_blocking(self.into, True)
        return b"".join(pieces)

    def shake_hands(self) -> None:
        reply = result(self, self.ask(self.frame("initialize", HELLO)))
        if reply.get("protocolVersion") != "2025-06-18":
            raise self.broken(f"initialize answered {reply}")
        self.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')

    def cpu(self) -> float:
        """Return the CPU seconds that the process has used, with all its threads, including
        finished ones."""
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def resident(self) -> float:
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(
                float(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS")
            )

    def close(self) -> Optional[int]:
        """End the input, wait for the end (killing what stays), and give the exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._timer.cancel()
        self.process.stdout.close()
        self.errors.close()
        return self.process.returncode


def result(child: Child, line: bytes) -> dict[str, Any]:
    """The result in a reply; anything else is a wrong answer."""
    reply = json.loads(line)
    found = reply.get("result")
    if not isinstance(found, dict) or found.get("isError"):
        raise child.broken(f"answered {line[:400]!r}")
    return found


def expect(child: Child, line: bytes, text: str) -> None:
    content = result(child, line)["content"]
    if content[0].get("text") != text:
        raise child.broken(f"wrong text: {str(content)[:400]}")


def in_turn(child: Child, lines: Sequence[bytes]) -> tuple[list[float], list[bytes]]:
    """Ask one after the other; the seconds and the reply of each."""
    times, replies = [], []
    for line in lines:
        begin = time.perf_counter()
        reply = child.ask(line)
        times.append(time.perf_counter() - begin)
        replies.append(reply)
    return times, replies


def sequential(child: Child, calls: int) -> Measured:
    lines = [child.call("echo", text=TEXT) for _ in range(calls)]
    cpu = child.cpu()
    times, replies = in_turn(child, lines)
    cpu = child.cpu() - cpu
    for reply in replies:
        expect(child, reply, TEXT)
    return {"sequential": median(times), "sequential-cpu": cpu / calls}


def in_flight(child: Child, calls: int) -> Measured:
    """Keep 64 calls in flight."""
    cpu, rate = keep_in_flight(child, calls, WINDOW)
    name = "modern" if child.envelope else "inflight"
    return {f"{name}-cpu": cpu, f"{name}-rate": rate}


def few_in_flight(child: Child, calls: int) -> Measured:
    """Keep two calls in flight, then eight."""
    return {
        "two-cpu": keep_in_flight(child, calls, 2)[0],
        "eight-cpu": keep_in_flight(child, calls, 8)[0],
    }


def keep_in_flight(child: Child, calls: int, window: int) -> tuple[float, float]:
    """Keep a number of calls in flight: each response is followed by a new call.

    Returns:
        The server's CPU seconds for each call, and the calls per second.
    """
    first = next(child.ids) + 1
    lines = [child.call("echo", text=f"{number} {TEXT}") for number in range(calls)]
    pieces = []
    done = 0
    sent = window
    cpu = child.cpu()
    begin = time.perf_counter()
    child.write(b"".join(lines[:window]))
    while done < calls:
        chunk = child.read()
        pieces.append(chunk)
        came = chunk.count(b"\n")
        done += came
        if came and sent < calls:
            child.write(b"".join(lines[sent : sent + came]))
            sent += came
    took, cpu = time.perf_counter() - begin, child.cpu() - cpu
    seen = set()
    for line in b"".join(pieces).splitlines():
        number = json.loads(line)["id"] - first
        expect(child, line, f"{number} {TEXT}")
        seen.add(number)
    if len(seen) != calls:
        raise child.broken(f"{len(seen)} of {calls} calls answered")
    return cpu / calls, calls / took


def progress(child: Child, reports: int) -> Measured:
    line = count_of(child, reports)
    begin = time.perf_counter()
    child.write(line)
    pieces, lines = [], 0
    while lines <= reports:
        pieces.append(child.read())
        lines += pieces[-1].count(b"\n")
    took = time.perf_counter() - begin
    expect_reports(child, b"".join(pieces).splitlines(), reports)
    return {"progress": took / reports}


def count_of(child: Child, reports: int) -> bytes:
    return child.frame(
        "tools/call",
        {"name": "count", "arguments": {"n": reports}, "_meta": {"progressToken": "p"}},
    )


def expect_reports(child: Child, lines: Sequence[bytes], reports: int) -> None:
    *notices, reply = lines
    expect(child, reply, "done")
    if [json.loads(notice)["params"]["progress"] for notice in notices] != list(
        range(1, reports + 1)
    ):
        raise child.broken("progress out of order or incomplete")


def sleeps(child: Child, calls: int) -> Measured:
    """All at once on a server that has never slept, then one alone."""
    together = sleep_together(child, calls, 0.1)
    return {"sleeps": together, "sleeps-of-one": together / sleep_together(child, 1, 0.1)}


def sleep_together(child: Child, calls: int, seconds: float) -> float:
    """Return the wall time of handlers that sleep at the same time."""
    lines = [child.call("sleep", seconds=seconds) for _ in range(calls)]
    begin = time.perf_counter()
    replies = child.exchange(b"".join(lines), calls)
    took = time.perf_counter() - begin
    for reply in replies.splitlines():
        expect(child, reply, "slept")
    return took


def rows(number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": i,
            "name": f"record {i}",
            "tags": ["red", "blue"],
            "at": {"lat": i + 0.5, "lon": i + 0.25},
        }
        for i in range(number)
    ]


def records(child: Child, calls: int) -> Measured:
    items = rows(100)
    times, replies = in_turn(child, [child.call("records", items=items) for _ in range(calls)])
    for reply in replies:
        found = result(child, reply)
        if found.get("structuredContent") != {"result": items} or not found["content"]:
            raise child.broken(f"records came back changed: {reply[:400]!r}")
    counted, tallies = in_turn(child, [child.call("tally", items=items) for _ in range(calls)])
    for reply in tallies:
        expect(child, reply, "100")
    return {"records": median(times), "tally": median(counted)}


def listing(child: Child, calls: int) -> Measured:
    """The whole list of 1,000 tools, page after page when there are pages."""
    times = []
    for _ in range(calls):
        found, size, took = 0, 0, 0.0
        params: dict[str, str] = {}
        while True:
            line = child.frame("tools/list", params)
            begin = time.perf_counter()
            reply = child.ask(line)
            took += time.perf_counter() - begin
            page, size = result(child, reply), size + len(reply)
            found += len(page["tools"])
            if not page.get("nextCursor"):
                break
            params = {"cursor": page["nextCursor"]}
        if found != 1000:
            raise child.broken(f"{found} tools listed, not 1,000")
        times.append(took)
    return {"list": median(times), "list-bytes": float(size)}


def big(child: Child, calls: int) -> Measured:
    """Echo 1 MB and 10 MB; the quotient shows whether large messages take linear time."""
    measured = {}
    for name, megabytes, repeat in (("echo-1mb", 1, 3 * calls), ("echo-10mb", 10, calls)):
        text = "The quick brown fox jumps over the lazy dog, 1 234 567 times. " * (
            megabytes * 1000000 // 62
        )
        times = []
        for _ in range(repeat):
            line = child.call("echo", text=text)
            begin = time.perf_counter()
            reply = child.exchange(line, 1)
            times.append(time.perf_counter() - begin)
            expect(child, reply, text)
        measured[name] = median(times)
    return {**measured, "linear": measured["echo-10mb"] / measured["echo-1mb"]}


def client(child: Child, calls: int) -> Measured:
    """Have a client make its calls against the hand-written server and report."""
    one = json.loads(child.ask(b"sequential %d\n" % calls))
    many = json.loads(child.ask(b"threads %d\n" % (calls * 4)))
    alone = {"client-sequential": one["p50"], "client-sequential-cpu": one["cpu"]}
    return {**alone, "client-threads": many["rate"], "client-threads-cpu": many["cpu"]}


def client_progress(child: Child, reports: int) -> Measured:
    """Have a client receive progress reports, and check that none is lost."""
    found = json.loads(child.ask(b"progress %d\n" % reports))
    return {"client-progress": found["each"], "client-progress-cpu": found["cpu"]}
