"""The rows of the benchmark's table, and how each one is measured."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Callable, NamedTuple, Optional

from . import growth, http_load, load
from .load import Broken, Child, Measured
from .subjects import HERE, Subject


class Metric(NamedTuple):
    """One row.

    The target of ``linear`` is relative on purpose: ten times the bytes take the limit 12 to 19
    times as long on one machine, because 1 MB fits its cache; a quadratic buffer would double that.
    """

    key: str  # its name for ``--only`` and in the results of the load functions
    label: str  # its name in the table
    unit: str = "us"  # of the printed value
    scale: float = 1e6  # factor from base units (seconds, bytes, 1/s) to that unit
    target: Optional[float] = None  # the ratio to reach; None: the row has no verdict
    more: bool = False  # whether a higher value is better (a rate): the ratio is inverted
    # whether the target applies to minimcp's own value, in the printed unit, instead of the ratio
    own: bool = False


class Measurement(NamedTuple):
    """One way of loading that fills some rows."""

    mode: str  # the kind of process that it needs; "none" starts its own
    size: int  # calls per slice; a quick run makes a third of them
    slices: int  # per round
    run: Callable[..., Measured]
    """Makes one slice. Takes the subject's process, or the subject itself, and the size."""
    rows: tuple[Metric, ...]
    whole: bool = False  # whether a quick run makes as many calls
    is_growth: bool = False  # whether it runs only with ``--growth``


def start(subject: Subject, size: int) -> Measured:
    begin = time.perf_counter()
    child = Child([*subject.server, "plain"], subject.environment())
    try:
        child.shake_hands()
        reply = child.ask(child.call("echo", text=load.TEXT))
        took = time.perf_counter() - begin
        load.expect(child, reply, load.TEXT)
        resident = child.resident()
    finally:
        status = child.close()
    if status:
        raise Broken(f"exit status {status} after the end of its input")
    return {"start": took, "memory": resident}


def imported(subject: Subject, size: int) -> Measured:
    if subject.imported is None:
        raise Broken("its import time is not measured")
    begin = time.perf_counter()
    command = [sys.executable, "-c", subject.imported]
    done = subprocess.run(command, env=subject.environment(), capture_output=True, check=False)
    took = time.perf_counter() - begin
    if done.returncode:
        raise Broken(f"{command[-1]}: {done.stderr.decode()[-400:]}")
    return {"import": took}


def unions(subject: Subject, size: int) -> Measured:
    if subject.is_foreign:
        raise Broken("its unions are not measured")
    command = [sys.executable, str(HERE / "unions.py"), subject.name]
    done = subprocess.run(command, env=subject.environment(), capture_output=True, check=False)
    if done.returncode:
        raise Broken(f"unions: {done.stderr.decode()[-400:]}")
    return {"union": float(done.stdout)}


MEASUREMENTS = (
    Measurement("none", 1, 3, imported, (Metric("import", "import, whole process", "ms", 1e3, 2.5),)),
    Measurement("none", 1, 3, start, (
        Metric("start", "start to first tool result", "ms", 1e3, target=2.2),
        Metric("memory", "memory after start", "MB", 1e-6, 1.5),
    )),
    Measurement("none", 1, 3, unions, (
        Metric("union", "a 9 kB request, wrong in a recursive union, CPU", "ms", 1e3, 100.0, own=True),
    )),
    Measurement("plain", 50, 1, load.sleeps, (
        Metric("sleeps-of-one", "50 sleeping 0.1 s / one of them", "", 1.0, 1.2, own=True),
        Metric("sleeps", "  wall time of the 50", "ms", 1e3),
    ), whole=True),
    Measurement("plain", 500, 8, load.sequential, (
        Metric("sequential", "one call at a time, p50"),
        Metric("sequential-cpu", "  server CPU per call", target=1.6),
    )),
    Measurement("plain", 3000, 6, load.few_in_flight, (
        Metric("two-cpu", "2 in flight, server CPU per call", target=2.5),
        Metric("eight-cpu", "8 in flight, server CPU per call", target=2.3),
    )),
    Measurement("plain", 10000, 6, load.in_flight, (
        Metric("inflight-cpu", "64 in flight, server CPU per call", target=1.8),
        Metric("inflight-rate", "  calls per second", "1/s", 1.0, more=True),
    )),
    Measurement("plain", 10000, 1, load.progress, (
        Metric("progress", "10,000 progress reports, each", target=0.9),
    ), whole=True),
    Measurement("plain", 2, 2, load.big, (
        Metric("linear", "time of a 10 MB echo / a 1 MB echo", "", 1.0, 1.4),
        Metric("echo-1mb", "  1 MB", "ms", 1e3),
        Metric("echo-10mb", "  10 MB", "ms", 1e3),
    ), whole=True),
    Measurement("modern", 10000, 6, load.in_flight, (
        Metric("modern-cpu", "2026-07-28, 64 in flight, CPU per call", target=2.0),
        Metric("modern-rate", "  calls per second", "1/s", 1.0, more=True),
    )),
    Measurement("records", 100, 6, load.records, (
        Metric("records", "100 nested records in and out, p50", target=1.1),
        Metric("tally", "100 nested records in, a count out, p50", target=2.1),
    )),
    Measurement("many", 10, 3, load.listing, (
        Metric("list", "tools/list of 1,000, p50", "ms", 1e3, target=0.1),
        Metric("list-bytes", "  bytes of the reply", "kB", 1e-3),
    )),
    Measurement("client", 500, 6, load.client, (
        Metric("client-sequential", "client, one call at a time, p50", target=2.2),
        Metric("client-sequential-cpu", "  client CPU per call"),
        Metric("client-threads", "64 threads on one client, calls/s", "1/s", 1.0, more=True),
        Metric("client-threads-cpu", "  client CPU per call", target=1.5),
    )),
    Measurement("client", 5000, 3, load.client_progress, (
        Metric("client-progress", "client, progress received, each", target=1.8),
        Metric("client-progress-cpu", "  client CPU of each"),
    )),
    Measurement("http-modern", 500, 6, http_load.one, (
        Metric("http-modern", "HTTP 2026-07-28, one call at a time, p50", target=1.35),
        Metric("http-modern-cpu", "  server CPU per call"),
    )),
    Measurement("http", 500, 6, http_load.one, (
        Metric("http-one", "HTTP, one connection, one call at a time, p50", target=1.25),
        Metric("http-one-cpu", "  server CPU per call"),
    )),
    Measurement("http", 4000, 6, http_load.many, (
        Metric("http-many", "HTTP, 32 connections, calls per second", "1/s", 1.0, more=True),
        Metric("http-many-cpu", "  server CPU per call", target=1.8),
    )),
    Measurement("events", http_load.STREAMS, 1, http_load.streams, (
        Metric("http-stream", "HTTP, memory of an open GET stream", "kB", 1e-3, 32, own=True),
    ), whole=True),
    Measurement("events", 10000, 1, http_load.progress, (
        Metric("http-progress", "HTTP, 10,000 progress reports on one response, each", target=1.5),
    ), whole=True),
    Measurement("http-client", 500, 6, http_load.client, (
        Metric("http-client", "HTTP client, one call at a time, p50"),
        Metric("http-client-cpu", "  client CPU per call"),
    )),
    Measurement("http-requests", 300, 6, http_load.client, (
        Metric("http-requests-cpu", "HTTP client CPU per call / requests.Session", target=0.45),
    )),
    Measurement("none", 6000, 1, growth.calls, (
        Metric("calls-1", "1 call in flight, server CPU per call", own=True),
        Metric("calls-8", "  8", own=True),
        Metric("calls-64", "  64", own=True),
        Metric("calls-512", "  512", own=True),
    ), is_growth=True),
    Measurement("none", 1, 1, growth.sleeps, (
        Metric("sleeps-1", "1 handler that sleeps 50 ms, wall time", "ms", 1e3, own=True),
        Metric("sleeps-8", "  8", "ms", 1e3, own=True),
        Metric("sleeps-64", "  64", "ms", 1e3, own=True),
        Metric("sleeps-512", "  512", "ms", 1e3, own=True),
    ), whole=True, is_growth=True),
    Measurement("none", 12000, 1, growth.connections, (
        Metric("connections-1", "1 HTTP connection, server CPU per call", own=True),
        Metric("connections-8", "  8", own=True),
        Metric("connections-64", "  64", own=True),
        Metric("connections-512", "  512", own=True),
        Metric("connections-1024", "  1,024", own=True),
        Metric("crowd", "  1,024 / 64", "", 1.0, target=1.2, own=True),
    ), is_growth=True),
    Measurement("none", 1, 1, growth.tools, (
        Metric("register-10", "register 10 tools, each", own=True),
        Metric("register-1000", "  1,000", own=True),
        Metric("register-10000", "  10,000", target=120, own=True),
        Metric("listed-10", "list 10 tools, for each tool", own=True),
        Metric("listed-1000", "  1,000", own=True),
        Metric("listed-10000", "  10,000", own=True),
    ), whole=True, is_growth=True),
    Measurement("none", 1, 1, growth.results, (
        Metric("result-1kb", "result of 1 kB, server CPU per MB", "ms", 1e3, own=True),
        Metric("result-1mb", "  1 MB", "ms", 1e3, own=True),
        Metric("result-16mb", "  16 MB", "ms", 1e3, own=True),
    ), whole=True, is_growth=True),
)  # fmt: skip
METRICS = tuple(metric for each in MEASUREMENTS for metric in each.rows)
