"""What is measured: the rows of the table, and how one round fills them.

In a round the subjects take turns slice by slice (A B C, B C A, ...), so that a slow minute of the machine
strikes all of them; a round's value is the median of its slices, and ratios are taken within a round.
"""

from __future__ import annotations

import subprocess
import time
from typing import Callable, NamedTuple, Optional

from . import http_load, load
from .load import Broken, Child, Measured
from .subjects import Subject, environment, limit


class Metric(NamedTuple):
    """One row.

    The target of ``linear`` is relative on purpose: ten times the bytes take the limit 12 to 19 times as long on
    one machine, because 1 MB fits its cache; a quadratic buffer would double that.
    """

    key: str  # its name for ``--only`` and in what the load functions return
    label: str  # its name for people
    unit: str = "us"  # of the printed value
    scale: float = 1e6  # factor from base units (seconds, bytes, 1/s) to that unit
    target: Optional[float] = None  # the ratio to hold; None is told without a verdict
    more: bool = False  # whether more is better (a rate): the ratio is then turned round
    own: bool = False  # the target is for minimcp's value itself, in the printed unit, not for its ratio to the limit
    versus: str = "limit"  # the column that the target compares with; its ratio is told where that column is


METRICS = (
    Metric("import", "import, whole process", "ms", 1e3, 2.5),
    Metric("start", "start to first tool result", "ms", 1e3, 2.0),
    Metric("memory", "memory after start", "MB", 1e-6, 1.5),
    Metric("sequential", "one call at a time, p50", target=1.3),
    Metric("sequential-cpu", "  server CPU per call"),
    Metric("inflight-cpu", "64 in flight, server CPU per call", target=2.5),
    Metric("inflight-rate", "  calls per second", "1/s", 1.0, more=True),
    Metric("modern-cpu", "2026-07-28, 64 in flight, CPU per call"),
    Metric("modern-rate", "  calls per second", "1/s", 1.0, more=True),
    Metric("progress", "10,000 progress reports, each", target=1.6),
    Metric("sleeps-of-one", "50 sleeping 0.1 s / one of them", "", 1.0, 1.2, own=True),
    Metric("sleeps", "  wall time of the 50", "ms", 1e3),
    Metric("records", "100 nested records in and out, p50", target=1.8),
    Metric("tally", "100 nested records in, a count out, p50", target=1.8),
    Metric("list", "tools/list of 1,000, p50", "ms", 1e3, 1.0),
    Metric("list-bytes", "  bytes of the reply", "kB", 1e-3),
    Metric("linear", "time of a 10 MB echo / a 1 MB echo", "", 1.0, 1.4),
    Metric("echo-1mb", "  1 MB", "ms", 1e3),
    Metric("echo-10mb", "  10 MB", "ms", 1e3),
    Metric("client-sequential", "client, one call at a time, p50", target=1.3),
    Metric("client-sequential-cpu", "  client CPU per call"),
    Metric("client-threads", "64 threads on one client, calls/s", "1/s", 1.0, 1.4, more=True),
    Metric("client-threads-cpu", "  client CPU per call"),
    Metric("http-one", "HTTP, one connection, one call at a time, p50", target=1.5),
    Metric("http-one-cpu", "  server CPU per call"),
    Metric("http-many", "HTTP, 32 connections, calls per second", "1/s", 1.0, 1.5, more=True),
    Metric("http-many-cpu", "  server CPU per call"),
    Metric("http-progress", "HTTP, 10,000 progress reports on one response, each", target=1.6),
    Metric("http-stream", "HTTP, memory of an open GET stream", "kB", 1e-3, 32, own=True),
    Metric("http-client", "HTTP client, one call at a time, p50; at most half the SDK's", target=0.5, versus="sdk"),
    Metric("http-client-cpu", "  client CPU per call"),
)

Probe = Callable[[Subject, Optional[Child], int], Measured]


class Measurement(NamedTuple):
    """One way of loading that fills some rows."""

    keys: tuple[str, ...]  # the rows
    mode: str  # the kind of process that it needs; "none" starts its own
    size: int  # calls per slice; a quick run makes a third of them
    slices: int  # per round
    run: Probe  # makes one slice
    whole: bool = False  # whether a quick run makes as many


def _start(subject: Subject, child: Optional[Child], size: int) -> Measured:
    begin = time.perf_counter()
    server = Child(subject.server("plain"), environment())
    try:
        server.shake_hands()
        reply = server.ask(server.call("echo", text=load.TEXT))
        took = time.perf_counter() - begin
        load.expect(server, reply, load.TEXT)
        resident = server.resident()
    finally:
        status = server.close()
    if status:
        raise Broken(f"exit status {status} after the end of its input")
    return {"start": took, "memory": resident}


def _import(subject: Subject, child: Optional[Child], size: int) -> Measured:
    begin = time.perf_counter()
    command = [subject.python, "-c", subject.imports]
    done = subprocess.run(command, env=environment(), capture_output=True, check=False)
    took = time.perf_counter() - begin
    if done.returncode:
        raise Broken(f"{subject.imports}: {done.stderr.decode()[-400:]}")
    return {"import": took}


def _on(function: Callable[[Child, int], Measured]) -> Probe:
    def run(subject: Subject, child: Optional[Child], size: int) -> Measured:
        assert child is not None
        return function(child, size)

    return run


MEASUREMENTS = (
    Measurement(("import",), "none", 1, 3, _import),
    Measurement(("start", "memory"), "none", 1, 3, _start),
    Measurement(("sleeps-of-one", "sleeps"), "plain", 50, 1, _on(load.sleeps), whole=True),
    Measurement(("sequential", "sequential-cpu"), "plain", 500, 8, _on(load.sequential)),
    Measurement(("inflight-cpu", "inflight-rate"), "plain", 10000, 6, _on(load.in_flight)),
    Measurement(("progress",), "plain", 10000, 1, _on(load.progress), whole=True),
    Measurement(("linear", "echo-1mb", "echo-10mb"), "plain", 2, 2, _on(load.big), whole=True),
    Measurement(("modern-cpu", "modern-rate"), "modern", 10000, 6, _on(load.in_flight)),
    Measurement(("records", "tally"), "records", 100, 6, _on(load.records)),
    Measurement(("list", "list-bytes"), "many", 10, 3, _on(load.listing)),
    Measurement(
        ("client-sequential", "client-sequential-cpu", "client-threads", "client-threads-cpu"), "client", 500, 6,
        _on(load.client),
    ),
    Measurement(("http-one", "http-one-cpu"), "http", 500, 6, _on(http_load.one)),
    Measurement(("http-many", "http-many-cpu"), "http", 4000, 6, _on(http_load.many)),
    Measurement(("http-stream",), "events", http_load.STREAMS, 1, _on(http_load.streams), whole=True),
    Measurement(("http-progress",), "events", 10000, 1, _on(http_load.progress), whole=True),
    Measurement(("http-client", "http-client-cpu"), "http-client", 500, 6, _on(http_load.client)),
)
MODES = ("none", "plain", "modern", "records", "many", "client", "http", "events", "http-client")


def _open(subject: Subject, mode: str) -> Child:
    """A process of this mode, connected and warm."""
    if mode == "client":
        child = Child(subject.client(), environment())
        load.client(child, 64)
        return child
    if mode in ("http", "events"):
        child = http_load.Child(subject.server(mode), environment())
        if mode == "http":
            http_load.many(child, 64)
        return child
    if mode == "http-client":
        child = http_load.Client(limit().server("http"), subject.client, environment())
        http_load.client(child, 64)
        return child
    modern = mode == "modern"
    child = Child(subject.server("plain" if modern else mode), environment(), modern)
    try:
        if not modern:
            child.shake_hands()
        if mode != "many":
            for _ in range(50):
                load.expect(child, child.ask(child.call("echo", text=load.TEXT)), load.TEXT)
    except Broken:
        child.close()
        raise
    return child


class Round:
    """One round over all subjects: `values` maps subject and key to the round's median, `faults` what broke."""

    def __init__(self, subjects: list[Subject], wanted: set[str], size: float) -> None:
        self.subjects, self.size = subjects, size
        self.values: dict[tuple[str, str], float] = {}
        self.faults: list[str] = []
        self._chosen = [item for item in MEASUREMENTS if wanted.intersection(item.keys)]

    def run(self) -> None:
        for mode in MODES:
            chosen = [item for item in self._chosen if item.mode == mode]
            if chosen:
                self._run_mode(mode, chosen)

    def _run_mode(self, mode: str, chosen: list[Measurement]) -> None:
        children: dict[str, Optional[Child]] = {}
        try:
            for subject in self.subjects:
                if not subject.imports and mode != "http-client":
                    continue
                try:
                    children[subject.name] = None if mode == "none" else _open(subject, mode)
                except Broken as error:
                    self.faults.append(f"{subject.name}, {mode}: {error}")
            for item in chosen:
                self._measure(item, children)
        finally:
            for child in children.values():
                if child is not None:
                    child.close()

    def _measure(self, item: Measurement, children: dict[str, Optional[Child]]) -> None:
        slices: dict[str, list[Measured]] = {name: [] for name in children}
        order = [subject for subject in self.subjects if subject.name in children]
        for _ in range(item.slices):
            for subject in order:
                if subject.name in children:
                    self._slice(item, subject, children, slices[subject.name])
            order.append(order.pop(0))
        for name, found in slices.items():
            for key in item.keys if found else ():
                self.values[name, key] = load.median([measured[key] for measured in found])

    def _slice(
        self, item: Measurement, subject: Subject, children: dict[str, Optional[Child]], found: list[Measured]
    ) -> None:
        size = max(1, round(item.size * (1 if item.whole else self.size)))
        try:
            found.append(item.run(subject, children[subject.name], size))
        except Broken as error:
            self.faults.append(f"{subject.name}, {item.keys[0]}: {error}")
            child = children[subject.name]
            if child is not None:
                del children[subject.name]
                child.process.kill()
                child.close()
