"""Progress reports while other threads keep the interpreter busy."""

from __future__ import annotations

import sys
import threading
from typing import Iterator, List

import pytest

import minimcp

from ..support import ROOT

REPORTS = 5_000
SERVER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from minimcp import Context, Server

server = Server("counter")


@server.tool
def count(n: int, ctx: Context) -> str:
    for done in range(1, n + 1):
        ctx.progress(done, n)
    return "done"


server.run()
"""


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Two threads that compute all the time."""
    stopped = threading.Event()

    def compute() -> None:
        while not stopped.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield
    stopped.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_fast_callback_receives_every_report_on_a_busy_machine(
    busy_threads: None, revision: str
) -> None:
    seen: List[float] = []
    with minimcp.connect([sys.executable, "-c", SERVER], revision=revision) as client:
        for _ in range(2):
            seen.clear()
            result = client.call_tool(
                "count", {"n": REPORTS}, on_progress=lambda report: seen.append(report.progress)
            )
            assert result.text == "done" and seen == list(range(1, REPORTS + 1))
