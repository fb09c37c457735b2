"""The client of the official Python SDK, 1.x and 2.x, behind the same few methods. Results are the SDK's own."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, AsyncIterator

import anyio
import mcp.client.session
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from python_host import Host, dump, types

try:
    from mcp import Client, MCPError as PeerError
except ImportError:
    from mcp import ClientSession, McpError as PeerError, stdio_client

    Client = None

__all__ = ["Adapter", "PeerError"]

LEVEL_KEY = "io.modelcontextprotocol/logLevel"
MEMBERS = {
    "tools": "tools", "prompts": "prompts", "resources": "resources", "resource_templates": "resourceTemplates",
}


def web_client(url: str) -> Any:
    """The SDK's transport to a URL, by its path."""
    return sse_client(url) if url.endswith("/sse") else streamable_http_client(url)


class Version1:
    """What the checks need, on a ClientSession of 1.x."""

    def __init__(self, session: Any, server: Any, host: Host) -> None:
        self.session, self.server_name, self.host = session, server.serverInfo.name, host
        self.revision, self.modern = server.protocolVersion, False

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, revision: str, command: list[str]) -> AsyncIterator[Version1]:
        types.LATEST_PROTOCOL_VERSION = revision
        host = Host()
        if command[0].startswith("http"):
            transport = web_client(command[0])
        else:
            transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
        async with (transport as (reading, writing, *_),
                    ClientSession(reading, writing, **host.callbacks()) as session):
            yield cls(session, await session.initialize(), host)

    async def call(self, name: str, arguments: Any = None, *, progress: Any = None,
                   timeout: float | None = None) -> Any:
        number = self.session._request_id
        try:
            limit = None if timeout is None else timedelta(seconds=timeout)
            return await self.session.call_tool(name, arguments, limit, progress)
        except PeerError:
            if timeout is not None:
                await self.tell_cancelled(number)
            raise

    async def tell_cancelled(self, number: int) -> None:
        """Say on the wire that a call is given up; this version leaves that to its user."""
        note = types.CancelledNotification(
            params=types.CancelledNotificationParams(requestId=number, reason="enough"))
        await self.session.send_notification(types.ClientNotification(note))

    async def abandon(self, name: str, arguments: Any, started: anyio.Event, progress: Any) -> None:
        number = self.session._request_id
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.call(name, arguments, progress=progress))
            await started.wait()
            await self.tell_cancelled(number)
            group.cancel_scope.cancel()

    async def page(self, kind: str, cursor: str | None = None) -> Any:
        return dump(await getattr(self.session, f"list_{kind}")(cursor))

    async def ping(self) -> Any:
        return await self.session.send_ping()

    async def all_logs(self) -> None:
        await self.session.set_logging_level("debug")

    async def logs(self, level: str) -> None:
        """Have the tool `logs` called when messages of this level and above are wanted."""
        await self.session.set_logging_level(level)
        await self.call("logs")

    async def unknown_method(self) -> Any:
        request = types.Request[Any, str](method="vendor/nothing", params={})
        return await self.session.send_request(request, types.EmptyResult)

    async def read(self, uri: str) -> Any:
        return dump(await self.session.read_resource(uri))

    async def prompt(self, name: str, arguments: Any = None) -> Any:
        return dump(await self.session.get_prompt(name, arguments))

    async def subscribe(self, uri: str) -> None:
        await self.session.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self.session.unsubscribe_resource(uri)

    async def complete(self, ref: Any, argument: Any, chosen: Any) -> Any:
        return await self.session.complete(ref, argument, chosen)

    @staticmethod
    def is_error(result: Any) -> bool:
        return bool(result.isError)

    @staticmethod
    def structured(result: Any) -> Any:
        return result.structuredContent

    @staticmethod
    def media(block: Any) -> str:
        return str(block.mimeType)


class Version2:
    """What the checks need, on a Client of 2.x."""

    def __init__(self, client: Any, host: Host) -> None:
        self.client, self.host, self.revision = client, host, client.protocol_version
        self.server_name = client.server_info.name if client.server_info else None
        self.modern = client.session.discover_result is not None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, revision: str, command: list[str]) -> AsyncIterator[Version2]:
        mode = revision
        if revision in mcp.client.session.HANDSHAKE_PROTOCOL_VERSIONS:
            mode, mcp.client.session.LATEST_HANDSHAKE_VERSION = "legacy", revision
        host = Host()
        if command[0].startswith("http"):
            target = web_client(command[0])
        else:
            target = StdioServerParameters(command=command[0], args=command[1:])
        async with Client(target, mode=mode, log_level="debug", **host.callbacks()) as client:
            yield cls(client, host)

    async def call(self, name: str, arguments: Any = None, *, progress: Any = None,
                   timeout: float | None = None) -> Any:
        return await self.client.call_tool(name, arguments, timeout, progress)

    async def abandon(self, name: str, arguments: Any, started: anyio.Event, progress: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.call(name, arguments, progress=progress))
            await started.wait()
            group.cancel_scope.cancel()

    async def page(self, kind: str, cursor: str | None = None, cache_mode: str = "refresh") -> Any:
        return dump(await getattr(self.client, f"list_{kind}")(cursor=cursor, cache_mode=cache_mode))

    async def ping(self) -> Any:
        return await self.client.send_ping()

    async def all_logs(self) -> None:
        if not self.modern:
            await self.client.set_logging_level("debug")

    async def logs(self, level: str) -> None:
        """Have the tool `logs` called when messages of this level and above are wanted."""
        if not self.modern:
            await self.client.set_logging_level(level)
        await self.client.call_tool("logs", meta={LEVEL_KEY: level} if self.modern else None)

    async def unknown_method(self) -> Any:
        request = types.Request[Any, str](method="vendor/nothing", params={})
        return await self.client.session.send_request(request, types.EmptyResult)

    async def read(self, uri: str) -> Any:
        return dump(await self.client.read_resource(uri))

    async def prompt(self, name: str, arguments: Any = None) -> Any:
        return dump(await self.client.get_prompt(name, arguments))

    async def subscribe(self, uri: str) -> None:
        await self.client.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self.client.unsubscribe_resource(uri)

    async def complete(self, ref: Any, argument: Any, chosen: Any) -> Any:
        return await self.client.complete(ref, argument, chosen)

    @staticmethod
    def is_error(result: Any) -> bool:
        return bool(result.is_error)

    @staticmethod
    def structured(result: Any) -> Any:
        return result.structured_content

    @staticmethod
    def media(block: Any) -> str:
        return str(block.mime_type)


Adapter: Any = Version1 if Client is None else Version2


async def everything(peer: Any, kind: str) -> list[Any]:
    """All items of a list, page after page."""
    found: list[Any] = []
    page = await peer.page(kind)
    while True:
        found += page[MEMBERS[kind]]
        if "nextCursor" not in page:
            return found
        page = await peer.page(kind, page["nextCursor"])
