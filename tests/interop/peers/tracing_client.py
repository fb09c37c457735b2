"""A client of the official Python SDK, 1.x, at a server: tracing_client.py COMMAND... prints how
much it called."""

from __future__ import annotations

import sys
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

LONG = "å京\u2028</script>" * 80_000


async def main() -> None:
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:])
    reports = []

    async def report(*progress: Any) -> None:
        reports.append(progress)

    async def roots(_: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[])

    async with (
        stdio_client(server) as streams,
        ClientSession(*streams, list_roots_callback=roots) as session,
    ):
        await session.initialize()
        tools = await session.list_tools()
        for text in ("hello", LONG):
            result = await session.call_tool("echo", {"message": text})
            assert text in result.content[0].text
        slow = {"duration": 0.5, "steps": 5}
        await session.call_tool("trigger-long-running-operation", slow, progress_callback=report)
        await session.list_resources()
        await session.list_prompts()
        await session.send_ping()
    print(f"{len(tools.tools)} tools, {len(reports)} reports of progress")


anyio.run(main)
