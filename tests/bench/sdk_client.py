"""The official Python SDK, client side: one client, one task or 64. Orders as in `client_loop`.

Arguments: the command of the server, or its URL alone.
"""

from __future__ import annotations

import json
import sys
import time

import anyio
from client_loop import TEXT, THREADS
from mcp import Client, StdioServerParameters


async def call(client: Client, text: str) -> None:
    result = await client.call_tool("echo", {"text": text})
    if result.content[0].text != text:
        raise SystemExit(f"wrong answer: {result}")


async def sequential(client: Client, calls: int) -> dict[str, float]:
    times = []
    cpu = time.process_time()
    for _ in range(calls):
        begin = time.perf_counter()
        await call(client, TEXT)
        times.append(time.perf_counter() - begin)
    return {"p50": sorted(times)[calls // 2], "cpu": (time.process_time() - cpu) / calls}


async def tasks(client: Client, calls: int) -> dict[str, float]:
    each = calls // THREADS

    async def caller(task: int) -> None:
        for number in range(each):
            await call(client, f"{task} {number} {TEXT}")

    cpu, begin = time.process_time(), time.perf_counter()
    async with anyio.create_task_group() as group:
        for task in range(THREADS):
            group.start_soon(caller, task)
    took = time.perf_counter() - begin
    return {"rate": each * THREADS / took, "cpu": (time.process_time() - cpu) / (each * THREADS)}


async def main() -> None:
    over_http = sys.argv[1].startswith("http://")
    target = sys.argv[1] if over_http else StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    async with Client(target, mode="legacy") as client:
        for line in sys.stdin:
            order, calls = line.split()
            run = sequential if order == "sequential" else tasks
            print(json.dumps(await run(client, int(calls))), flush=True)


if __name__ == "__main__":
    anyio.run(main)
