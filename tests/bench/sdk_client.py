"""The client of the benchmark on the official Python SDK: 64 tasks in place of 64 threads.

Arguments: the command of the server, or its URL.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import anyio
import anyio.to_thread
from client_loop import TEXT, THREADS
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def call(client: Any, text: str) -> str:
    result = await client.call_tool("echo", {"text": text})
    return str(result.content[0].text)


async def sequential(client: Any, calls: int) -> dict[str, float]:
    times = []
    cpu = time.process_time()
    for _ in range(calls):
        begin = time.perf_counter()
        text = await call(client, TEXT)
        times.append(time.perf_counter() - begin)
        assert text == TEXT, text
    return {"p50": sorted(times)[calls // 2], "cpu": (time.process_time() - cpu) / calls}


async def threads(client: Any, calls: int) -> dict[str, float]:
    each = calls // THREADS

    async def caller(task: int) -> None:
        for number in range(each):
            text = f"{task} {number} {TEXT}"
            assert await call(client, text) == text

    cpu, begin = time.process_time(), time.perf_counter()
    async with anyio.create_task_group() as group:
        for task in range(THREADS):
            group.start_soon(caller, task)
    took = time.perf_counter() - begin
    return {"rate": each * THREADS / took, "cpu": (time.process_time() - cpu) / (each * THREADS)}


async def progress(client: Any, reports: int) -> dict[str, float]:
    came: list[float] = []

    async def on_progress(done: float, total: Any, message: Any) -> None:
        came.append(done)

    cpu, begin = time.process_time(), time.perf_counter()
    await client.call_tool("count", {"n": reports}, progress_callback=on_progress)
    took = time.perf_counter() - begin
    assert came == list(range(1, reports + 1)), len(came)
    return {"each": took / reports, "cpu": (time.process_time() - cpu) / reports}


async def main() -> None:
    target: Any = sys.argv[1]
    if not target.startswith("http://"):
        target = stdio_client(StdioServerParameters(command=sys.argv[1], args=sys.argv[2:]))
    async with Client(target) as client:
        while True:
            line = await anyio.to_thread.run_sync(sys.stdin.readline)
            if not line:
                return
            order, calls = line.split()
            measured = await globals()[order](client, int(calls))
            print(json.dumps(measured), flush=True)


anyio.run(main)
