"""The official Python SDK's client, 1.x or 2.x, as an adapter for the fault runner."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
from datetime import timedelta
from typing import Any

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

try:
    from mcp import Client
except ImportError:
    Client = None


def process(command: dict[str, Any]) -> Any:
    """What starts a server."""
    words = command["command"]
    return StdioServerParameters(command=words[0], args=list(words[1:]), cwd=command.get("cwd"), env=command.get("env"))


def web(command: dict[str, Any]) -> Any:
    """The way to a server with a URL."""
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    client = create_mcp_http_client(headers=command.get("headers"))
    return streamable_http_client(command["url"], http_client=client)


class Adapter:
    """One client, which a task of its own opens and closes."""

    def __init__(self) -> None:
        self.client: Any = None
        self.stop: Any = None
        self.task: Any = None

    async def hold(self, command: dict[str, Any], opened: asyncio.Future[None]) -> None:
        """Be connected until told to stop."""
        target = web(command) if "url" in command else process(command)
        on_log = self.callback(command["on_log"]) if "on_log" in command else None
        try:
            async with contextlib.AsyncExitStack() as stack:
                if Client is not None:
                    self.client = await stack.enter_async_context(Client(target, logging_callback=on_log))
                else:
                    streams = await stack.enter_async_context(stdio_client(target))
                    session = ClientSession(*streams, logging_callback=on_log)
                    self.client = await stack.enter_async_context(session)
                    await self.client.initialize()
                opened.set_result(None)
                await self.stop.wait()
        except BaseException as error:
            if not opened.done():
                opened.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    def callback(self, what: str) -> Any:
        """What is done at each log message."""

        async def on_log(params: Any) -> None:
            if what == "call":
                await self.client.call_tool("echo", {"text": "from a callback"})
            elif what == "raise":
                raise ValueError
            elif what == "block":
                await asyncio.sleep(10)
            else:
                self.stop.set()

        return on_log

    async def open(self, command: dict[str, Any]) -> dict[str, Any]:
        """Connect."""
        if "url" in command and Client is None:
            return {"ok": False, "error": "unsupported"}
        self.stop, opened = asyncio.Event(), asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self.hold(command, opened))
        try:
            await asyncio.wait_for(asyncio.shield(opened), command["timeout"])
        except asyncio.TimeoutError:
            self.task.cancel()
            await asyncio.wait([self.task], timeout=10)
            raise
        return {}

    async def call(self, command: dict[str, Any]) -> dict[str, Any]:
        """Call a tool."""
        limit: Any = command["timeout"] if Client is not None else timedelta(seconds=command["timeout"])
        result = await self.client.call_tool(command["tool"], command["arguments"], read_timeout_seconds=limit)
        return {"text": result.content[0].text if result.content else None}

    async def list(self, command: dict[str, Any]) -> dict[str, Any]:
        """List all tools. The loop over pages is the caller's own in this library."""
        count, cursor, seen = 0, None, 0
        while True:
            more = {} if cursor is None else {"cursor": cursor}
            found = await asyncio.wait_for(self.client.list_tools(**more), command["timeout"])
            count, seen = count + len(found.tools), seen + 1
            cursor = getattr(found, "next_cursor", None) or getattr(found, "nextCursor", None)
            if cursor is None or seen >= 1000:
                return {"count": count}

    async def close(self, command: dict[str, Any]) -> dict[str, Any]:
        """Close, again if it must be."""
        if self.stop is not None:
            self.stop.set()
            await asyncio.wait([self.task], timeout=15)
        return {}


async def run(adapter: Adapter, command: dict[str, Any]) -> None:
    """Do what a command says, and answer it."""
    try:
        found = await getattr(adapter, command["do"])(command)
    except BaseException as error:
        found = {"ok": False, "error": type(error).__name__, "message": str(error)}
    sys.stdout.write(json.dumps({"n": command["n"], "ok": True, **found}) + "\n")
    sys.stdout.flush()


async def main() -> None:
    """Take commands until there are no more."""
    adapter, loop, running = Adapter(), asyncio.get_running_loop(), set()
    ended = asyncio.Event()

    def begin(command: dict[str, Any]) -> None:
        task = asyncio.create_task(run(adapter, command))
        running.add(task)
        task.add_done_callback(running.discard)

    def read() -> None:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] == "leave":
                break
            loop.call_soon_threadsafe(begin, command)
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=read, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(main())
