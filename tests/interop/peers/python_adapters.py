"""The client of the official Python SDK, 1.x and 2.x, behind the same few methods, and its host.

Results are the SDK's own. Questions and notifications for the host have their form on the wire,
which is the same in both versions.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, AsyncIterator, Callable

import anyio
import mcp.client.session
from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

try:
    import mcp_types as types
except ImportError:
    from mcp import types

try:
    from mcp import Client, MCPError as PeerError
except ImportError:
    from mcp import ClientSession, McpError as PeerError, stdio_client

    Client = None

LEVEL_KEY = "io.modelcontextprotocol/logLevel"
MEMBERS = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "resource_templates": "resourceTemplates",
}

ROOTS = [{"uri": "file:///interop/one", "name": "one"}, {"uri": "file:///interop/tw%C3%B6"}]
USER_REJECTED = -1


def dump(model: Any) -> Any:
    """An object of the SDK in its form on the wire."""
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def answer_as_model(params: Any) -> Any:
    """Call the tool if there is one and it has not been called. Otherwise repeat the last message
    of the user."""
    content = params["messages"][-1]["content"]
    last = content[-1] if isinstance(content, list) else content
    result = {"role": "assistant", "model": "interop-model", "stopReason": "endTurn"}
    if params.get("tools") and last["type"] != "tool_result":
        use = {
            "type": "tool_use",
            "id": "use-1",
            "name": params["tools"][0]["name"],
            "input": {"a": 1},
        }
        return {**result, "content": use, "stopReason": "toolUse"}
    text = last["content"][0]["text"] if last["type"] == "tool_result" else last["text"]
    return {**result, "content": {"type": "text", "text": f"You said: {text}"}}


def answer_as_user(params: Any) -> Any:
    return (
        {"action": "accept"}
        if params.get("mode") == "url"
        else {"action": "accept", "content": {"name": "Ada"}}
    )


class Host:
    """The callbacks. They answer as a check configures them, and record questions and
    notifications."""

    def __init__(self) -> None:
        self.changed = anyio.Event()
        self.forget()

    def forget(self) -> None:
        """Reset the answers to friendly ones, and the records to empty."""
        self.asked: list[Any] = []
        self.logged: list[Any] = []
        self.heard: list[tuple[str, Any]] = []
        self.sampled: Callable[[Any], Any] = answer_as_model
        self.elicited: Callable[[Any], Any] = answer_as_user

    def callbacks(self) -> dict[str, Any]:
        """The keywords of the SDK's client."""
        return {
            "sampling_callback": self.on_sampling,
            "elicitation_callback": self.on_elicitation,
            "list_roots_callback": self.on_roots,
            "logging_callback": self.on_log,
            "message_handler": self.on_message,
            "sampling_capabilities": types.SamplingCapability(
                tools=types.SamplingToolsCapability()
            ),
        }

    async def on_sampling(self, context: Any, params: Any) -> Any:
        wire = dump(params)
        self.asked.append(wire)
        answer = self.sampled(wire)
        if isinstance(answer, types.ErrorData):
            return answer
        kind = (
            types.CreateMessageResultWithTools if wire.get("tools") else types.CreateMessageResult
        )
        return kind.model_validate(answer)

    async def on_elicitation(self, context: Any, params: Any) -> Any:
        wire = dump(params)
        self.asked.append(wire)
        return types.ElicitResult.model_validate(self.elicited(wire))

    async def on_roots(self, context: Any) -> Any:
        return types.ListRootsResult.model_validate({"roots": ROOTS})

    async def on_log(self, params: Any) -> None:
        self.logged.append(dump(params))
        self._wake()

    async def on_message(self, message: Any) -> None:
        """Remember notices; requests and faults of the connection come here too."""
        message = getattr(message, "root", message)
        if hasattr(message, "method"):
            params = getattr(message, "params", None)
            self.heard.append((message.method, {} if params is None else dump(params)))
            self._wake()

    def _wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def wait(self, enough: Callable[[], Any]) -> None:
        """Return when it is enough; the check's own time bounds this."""
        while not enough():
            await self.changed.wait()

    def methods(self) -> list[str]:
        return [method for method, _ in self.heard]


def refused(message: str) -> Any:
    return types.ErrorData(code=USER_REJECTED, message=message)


def web_client(url: str) -> Any:
    """The SDK's transport to a URL, by its path."""
    return sse_client(url) if url.endswith("/sse") else streamable_http_client(url)


def is_url(command: list[str]) -> bool:
    return command[0].startswith("http")


def parameters(command: list[str]) -> StdioServerParameters:
    return StdioServerParameters(command=command[0], args=command[1:])


class Peer:
    """The methods that the checks need, on a ClientSession of 1.x or a Client of 2.x. Most methods
    have the same names."""

    def __init__(self, api: Any, host: Host) -> None:
        self.api, self.host = api, host

    async def call(
        self, name: str, arguments: Any = None, *, progress: Any = None, timeout: Any = None
    ) -> Any:
        return await self.api.call_tool(name, arguments, timeout, progress)

    async def abandon(self, name: str, arguments: Any, started: anyio.Event, progress: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: self.call(name, arguments, progress=progress))
            await started.wait()
            await self.give_up()
            group.cancel_scope.cancel()

    async def give_up(self) -> None:
        """Say on the wire that the last call is given up, where the SDK does not."""

    async def page(self, kind: str, cursor: str | None = None, **options: Any) -> Any:
        return dump(await getattr(self.api, f"list_{kind}")(cursor=cursor, **options))

    async def ping(self) -> Any:
        return await self.api.send_ping()

    async def all_logs(self) -> None:
        await self.api.set_logging_level("debug")

    async def logs(self, level: str) -> None:
        """Have the tool `logs` called when messages of this level and above are wanted."""
        await self.api.set_logging_level(level)
        await self.call("logs")

    async def unknown_method(self) -> Any:
        request = types.Request[Any, str](method="vendor/nothing", params={})
        return await getattr(self.api, "session", self.api).send_request(request, types.EmptyResult)

    async def read(self, uri: str) -> Any:
        return dump(await self.api.read_resource(uri))

    async def prompt(self, name: str, arguments: Any = None) -> Any:
        return dump(await self.api.get_prompt(name, arguments))

    async def subscribe(self, uri: str) -> None:
        await self.api.subscribe_resource(uri)

    async def unsubscribe(self, uri: str) -> None:
        await self.api.unsubscribe_resource(uri)

    async def complete(self, ref: Any, argument: Any, chosen: Any) -> Any:
        return await self.api.complete(ref, argument, chosen)

    @staticmethod
    def is_error(result: Any) -> bool:
        return bool(dump(result).get("isError"))

    @staticmethod
    def structured(result: Any) -> Any:
        return dump(result).get("structuredContent")

    @staticmethod
    def media(block: Any) -> str:
        return str(dump(block)["mimeType"])


class Version1(Peer):
    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, revision: str, command: list[str]) -> AsyncIterator[Version1]:
        types.LATEST_PROTOCOL_VERSION = revision
        host = Host()
        transport = (
            stdio_client(parameters(command)) if not is_url(command) else web_client(command[0])
        )
        async with (
            transport as (reading, writing, *_),
            ClientSession(reading, writing, **host.callbacks()) as session,
        ):
            server, peer = await session.initialize(), cls(session, host)
            peer.server_name, peer.revision, peer.modern = (
                server.serverInfo.name,
                server.protocolVersion,
                False,
            )
            yield peer

    async def call(
        self, name: str, arguments: Any = None, *, progress: Any = None, timeout: Any = None
    ) -> Any:
        self.number = self.api._request_id
        try:
            limit = None if timeout is None else timedelta(seconds=timeout)
            return await self.api.call_tool(name, arguments, limit, progress)
        except PeerError:
            if timeout is not None:
                await self.give_up()
            raise

    async def give_up(self) -> None:
        params = types.CancelledNotificationParams(requestId=self.number, reason="enough")
        await self.api.send_notification(
            types.ClientNotification(types.CancelledNotification(params=params))
        )


class Version2(Peer):
    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, revision: str, command: list[str]) -> AsyncIterator[Version2]:
        mode = revision
        if revision in mcp.client.session.HANDSHAKE_PROTOCOL_VERSIONS:
            mode, mcp.client.session.LATEST_HANDSHAKE_VERSION = "legacy", revision
        host = Host()
        target = web_client(command[0]) if is_url(command) else parameters(command)
        async with Client(target, mode=mode, log_level="debug", **host.callbacks()) as client:
            peer = cls(client, host)
            peer.server_name = client.server_info.name if client.server_info else None
            peer.revision, peer.modern = (
                client.protocol_version,
                client.session.discover_result is not None,
            )
            yield peer

    async def page(self, kind: str, cursor: str | None = None, **options: Any) -> Any:
        return await super().page(kind, cursor, **{"cache_mode": "refresh", **options})

    async def all_logs(self) -> None:
        if not self.modern:
            await super().all_logs()

    async def logs(self, level: str) -> None:
        if self.modern:
            await self.api.call_tool("logs", meta={LEVEL_KEY: level})
        else:
            await super().logs(level)


Adapter: Any = Version1 if Client is None else Version2
