"""The loop of a blocking client under test. It reads orders on stdin, calls, and prints the
measured times as JSON.

An order is ``sequential N`` or ``threads N``: N calls of ``echo`` by one caller, or shared by 64
threads.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Callable

THREADS = 64
TEXT = "x" * 100
Call = Callable[[str], str]


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


def obey(one: Call, many: Call) -> None:
    """Serve orders until stdin ends."""
    for line in sys.stdin:
        order, calls = line.split()
        measured = (
            sequential(one, int(calls)) if order == "sequential" else threads(many, int(calls))
        )
        print(json.dumps(measured), flush=True)
