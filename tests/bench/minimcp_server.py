"""The subject, server side: the code that a user of minimcp writes. Modes as in `limit_server`."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from minimcp import Context, Server

mode = sys.argv[1] if len(sys.argv) > 1 else "plain"
if mode in ("http", "events"):
    from minimcp import HttpOptions

    # `growth.connections` opens more connections than the defaults allow.
    server = Server("bench", version="0", http=HttpOptions(max_sessions=None, max_connections=None))
else:
    server = Server("bench", version="0")


@server.tool
def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool
def count(n: int, ctx: Context) -> str:
    """Report progress n times."""
    for done in range(1, n + 1):
        ctx.progress(done, n)
    return "done"


@server.tool
def sleep(seconds: float) -> str:
    """Sleep, like a tool that waits for another program."""
    time.sleep(seconds)
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
    """Give the records back."""
    return items


def tally(items: list[Record]) -> int:
    """Count the records."""
    return len(items)


def add_many() -> None:
    def forecast(city: str, days: int = 3, units: str = "metric") -> str:
        """Forecast it."""
        return city

    for number in range(1000):
        server.add_tool(forecast, name=f"tool_{number}")


if __name__ == "__main__":
    if mode == "records":
        server.tool(records)
        server.tool(tally)
    elif mode == "many":
        for tool in ("echo", "add", "count", "sleep"):
            server.remove_tool(tool)
        add_many()
    elif mode in ("http", "events"):
        with server.start_http(port=0) as running:
            print(running.url, flush=True)
            sys.stdin.read()
        sys.exit()
    server.run()
