"""The official Python SDK, server side: the same tools. Runs in the environment that `subjects` makes."""

from __future__ import annotations

import sys
import time

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("bench", version="0", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Give the text back."""
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
def sleep(seconds: float) -> str:
    """Sleep, as a tool does that waits for something else."""
    time.sleep(seconds)
    return "slept"


def add_many() -> None:
    def forecast(city: str, days: int = 3, units: str = "metric") -> str:
        """Forecast it."""
        return city

    for number in range(1000):
        server.add_tool(forecast, name=f"tool_{number}", structured_output=False)


def serve_http(events: bool) -> None:
    """Listen until the input ends: it has no port 0, so one is looked for that is free.

    Args:
        events: Whether requests are answered with event streams; without, reports of progress are dropped.
    """
    import os
    import socket
    import threading

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    print(f"http://127.0.0.1:{port}/mcp", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.run("streamable-http", host="127.0.0.1", port=port, json_response=not events)


if __name__ == "__main__":
    mode = sys.argv[1] if len(sys.argv) > 1 else "plain"
    if mode == "records":
        import record_tools

        server.tool()(record_tools.records)
        server.tool()(record_tools.tally)
    elif mode == "many":
        for tool in ("echo", "add", "count", "sleep"):
            server.remove_tool(tool)
        add_many()
    elif mode in ("http", "events"):
        serve_http(mode == "events")
    server.run()
