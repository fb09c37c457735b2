"""The loop of a blocking client under test. It reads orders from stdin and prints measurements as
JSON.

The orders are ``sequential N`` (N calls of ``echo`` by one caller), ``threads N`` (N calls that 64
threads share) and ``progress N`` (one call with N progress reports).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Callable, Optional

THREADS = 64
TEXT = "x" * 100
Call = Callable[[str], str]
Count = Callable[[int, Callable[[float], None]], None]
"""Makes a call with a number of reports. The function is called with each report's progress."""


def sequential(call: Call, calls: int) -> dict[str, float]:
    times = []
    cpu = time.process_time()
    for _ in range(calls):
        begin = time.perf_counter()
        text = call(TEXT)
        times.append(time.perf_counter() - begin)
        if text != TEXT:
            raise SystemExit(f"wrong answer: {text[:200]!r}")
    return {"p50": sorted(times)[calls // 2], "cpu": (time.process_time() - cpu) / calls}


def threads(call: Call, calls: int) -> dict[str, float]:
    each = calls // THREADS
    gate = threading.Barrier(THREADS + 1)
    wrong: list[str] = []

    def caller() -> None:
        gate.wait()
        for number in range(each):
            text = f"{threading.get_ident()} {number} {TEXT}"
            if call(text) != text:
                wrong.append(text)

    running = [threading.Thread(target=caller) for _ in range(THREADS)]
    for thread in running:
        thread.start()
    cpu = time.process_time()
    gate.wait()
    begin = time.perf_counter()
    for thread in running:
        thread.join()
    took = time.perf_counter() - begin
    if wrong:
        raise SystemExit(f"{len(wrong)} wrong answers")
    return {"rate": each * THREADS / took, "cpu": (time.process_time() - cpu) / (each * THREADS)}


def progress(count: Count, reports: int) -> dict[str, float]:
    came: list[float] = []
    cpu = time.process_time()
    begin = time.perf_counter()
    count(reports, came.append)
    took = time.perf_counter() - begin
    cpu = time.process_time() - cpu
    if came != list(range(1, reports + 1)):
        raise SystemExit(f"{len(came)} of {reports} reports arrived, or in the wrong order")
    return {"each": took / reports, "cpu": cpu / reports}


def obey(one: Call, many: Call, count: Optional[Count] = None) -> None:
    """Follow orders until stdin ends. Without `count`, no order is ``progress``."""
    for line in sys.stdin:
        order, number = line.split()
        if order == "sequential":
            measured = sequential(one, int(number))
        elif order == "threads":
            measured = threads(many, int(number))
        else:
            assert count is not None
            measured = progress(count, int(number))
        print(json.dumps(measured), flush=True)
