"""The server of the benchmark on the official Python SDK, written as its documentation shows.

Modes are those of `limit_server`.
"""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import dataclass

import anyio
import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("bench", version="0")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
async def count(n: int, ctx: Context) -> str:
    """Report progress n times."""
    for done in range(1, n + 1):
        await ctx.report_progress(done, n)
    return "done"


@server.tool(structured_output=False)
async def sleep(seconds: float) -> str:
    """Sleep, like a tool that waits for something else."""
    await anyio.to_thread.run_sync(time.sleep, seconds)
    return "slept"


@dataclass
class Place:
    lat: float
    lon: float


@dataclass
class Record:
    id: int
    name: str
    tags: list[str]
    at: Place


def records(items: list[Record]) -> list[Record]:
    """Return the records."""
    return items


def tally(items: list[Record]) -> int:
    """Count the records."""
    return len(items)


def forecast(city: str, days: int = 3, units: str = "metric") -> str:
    """Forecast it."""
    return city


def serve_http(mode: str) -> None:
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app(json_response=mode == "http")
    config = uvicorn.Config(app, log_level="error", access_log=False)
    running = uvicorn.Server(config)

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: running.serve([listener]))
            await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            running.should_exit = True
            running.force_exit = True

    anyio.run(serve)


if __name__ == "__main__":
    mode = sys.argv[1] if len(sys.argv) > 1 else "plain"
    if mode == "records":
        server.tool()(records)
        server.tool()(tally)
    elif mode == "many":
        for tool in ("echo", "add", "count", "sleep"):
            server.remove_tool(tool)
        for number in range(1000):
            server.add_tool(forecast, name=f"tool_{number}", structured_output=False)
    if mode in ("http", "events"):
        serve_http(mode)
    else:
        server.run()
