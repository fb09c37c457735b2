"""The shared tools and features on a server of the official Python SDK, 1.x or 2.x.

Usage: python_server.py [WAY] where WAY is "http" or "sse", at the port in the variable PORT;
without WAY, over stdio. Features of the SDK's low-level server (pages, subscriptions, log levels)
use that.
"""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from python_tools import ENCODED, TEXT, TONES, Server, add_notes, add_tools, way_and_port

try:
    from python_questions_2 import add_questions
except ImportError:
    from python_questions_1 import add_questions

try:
    import mcp_types as types
    from mcp import MCPError
    from mcp.server.caching import CacheHint
    from mcp.server.lowlevel.server import NotificationOptions
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.prompts import Prompt
    from mcp.server.mcpserver.resources import FunctionResource

    VERSION_2 = True
    OPTIONS: dict[str, Any] = {
        "cache_hints": {
            **{
                f"{kind}/list": CacheHint(30_000, "public")
                for kind in ("tools", "prompts", "resources")
            },
            "resources/read": CacheHint(5_000, "private"),
        },
    }
except ImportError:
    from mcp import McpError as MCPError, types
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp.prompts import Prompt
    from mcp.server.fastmcp.resources import FunctionResource
    from mcp.server.lowlevel import NotificationOptions

    VERSION_2 = False
    OPTIONS = {}

NUMBERS = ["1", "10", "100", "2"]
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
PROMPTS_ON_PAGE = 2


def block(**members: Any) -> Any:
    """A content block of the SDK's own class from its form on the wire."""
    kinds = {
        "text": types.TextContent,
        "image": types.ImageContent,
        "audio": types.AudioContent,
        "resource": types.EmbeddedResource,
        "resource_link": types.ResourceLink,
    }
    return kinds[members["type"]].model_validate(members)


def embedded() -> Any:
    return block(
        type="resource", resource={"uri": "note://all", "mimeType": "text/plain", "text": TEXT}
    )


class Features:
    """The registered features, and the subscriptions of the only client of this process."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.low = server._lowlevel_server if VERSION_2 else server._mcp_server
        self.subscribed: set[str] = set()
        self.level = "debug"
        add_notes(server)
        self.add_prompts()
        self.add_tools()
        self.add_completion()
        (self.add_low_2 if VERSION_2 else self.add_low_1)()

    def add_prompts(self) -> None:
        @self.server.prompt()
        def picture() -> list[Any]:
            """Look at a picture."""
            image = block(type="image", data=ENCODED, mimeType="image/png")
            return [
                {"role": "user", "content": block(type="text", text="Look:")},
                {"role": "user", "content": image},
                {"role": "assistant", "content": embedded()},
            ]

    def add_tools(self) -> None:
        @self.server.tool(structured_output=False)
        def mixed(kinds: list[str]) -> list[Any]:
            """Give blocks of these kinds."""
            blocks = {
                "text": block(type="text", text="text"),
                "resource": embedded(),
                "image": block(type="image", data=ENCODED, mimeType="image/png"),
                "audio": block(type="audio", data="UklGRg==", mimeType="audio/wav"),
                "resource_link": block(
                    type="resource_link", uri="note://all", name="all", mimeType="text/plain"
                ),
            }
            return [blocks[kind] for kind in kinds]

        @self.server.tool()
        async def logs(ctx: Context) -> str:
            """Send one message of each level."""
            for level in LEVELS:
                if LEVELS.index(level) >= LEVELS.index(self.level):
                    await ctx.session.send_log_message(
                        level, {"level": level}, "interop", ctx.request_id
                    )
            return "logged"

        hints = types.ToolAnnotations.model_validate(
            {"idempotentHint": True, "readOnlyHint": False}
        )

        @self.server.tool(
            title="Touch it",
            annotations=hints,
            icons=[types.Icon(src="https://example.com/i.png")],
            meta={"example.com/colour": "blue"},
        )
        async def touch(uri: str, ctx: Context) -> str:
            """Say that a resource has changed."""
            if modern(ctx):
                await ctx.notify_resource_updated(uri)
            elif uri in self.subscribed:
                await ctx.session.send_resource_updated(uri)
            return "touched"

        @self.server.tool()
        async def grow(ctx: Context) -> str:
            """Add a tool, a prompt and a resource."""
            self.server.add_tool(grown)
            self.server.add_prompt(Prompt.from_function(grown))
            self.server.add_resource(FunctionResource.from_function(grown, uri="note://grown"))
            await tell_changed(ctx)
            return "grown"

        @self.server.tool()
        async def shrink(ctx: Context) -> str:
            """Take them away again."""
            self.server.remove_tool("grown")
            self.server._prompt_manager._prompts.pop("grown")
            self.server._resource_manager._resources.pop("note://grown")
            await tell_changed(ctx)
            return "shrunk"

    def add_completion(self) -> None:
        @self.server.completion()
        async def complete(ref: Any, argument: Any, context: Any) -> Any:
            chosen = (context.arguments or {}) if context else {}
            names = ["Sir Å", "Dame B"] if chosen.get("tone") == "formal" else ["Alice", "Bob"]
            known = {"tone": TONES, "name": names, "number": NUMBERS}[argument.name]
            return types.Completion(
                values=[each for each in known if each.startswith(argument.value)]
            )

    def add_low_1(self) -> None:
        @self.low.subscribe_resource()
        async def subscribe(uri: Any) -> None:
            self.subscribed.add(str(uri))

        @self.low.unsubscribe_resource()
        async def unsubscribe(uri: Any) -> None:
            self.subscribed.discard(str(uri))

        @self.low.set_logging_level()
        async def set_level(level: str) -> None:
            self.level = level

        @self.low.list_prompts()
        async def list_prompts(request: types.ListPromptsRequest) -> types.ListPromptsResult:
            return await self.page_of_prompts(request.params)

    def add_low_2(self) -> None:
        async def subscribe(ctx: Any, params: Any) -> Any:
            self.subscribed.add(str(params.uri))
            return types.EmptyResult()

        async def unsubscribe(ctx: Any, params: Any) -> Any:
            self.subscribed.discard(str(params.uri))
            return types.EmptyResult()

        async def set_level(ctx: Any, params: Any) -> Any:
            self.level = params.level
            return types.EmptyResult()

        async def list_prompts(ctx: Any, params: Any) -> Any:
            return await self.page_of_prompts(params)

        self.low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
        self.low.add_request_handler(
            "resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe
        )
        self.low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
        self.low.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)

    async def page_of_prompts(self, params: Any) -> Any:
        cursor = (params.cursor if params else None) or "0"
        if not cursor.isdigit():
            raise error(-32602, f"no page {cursor}")
        begin, prompts = int(cursor), await self.server.list_prompts()
        end = begin + PROMPTS_ON_PAGE
        following = str(end) if end < len(prompts) else None
        return types.ListPromptsResult.model_validate(
            {"prompts": prompts[begin:end], "nextCursor": following}
        )

    def initialization(self) -> Any:
        """Declare the changes, and in 1.x the subscriptions, because 1.x never declares them."""
        options = self.low.create_initialization_options(NotificationOptions(True, True, True))
        options.capabilities.resources.subscribe = True
        return options


def error(code: int, message: str) -> Exception:
    return (
        MCPError(code, message)
        if VERSION_2
        else MCPError(types.ErrorData(code=code, message=message))
    )


def modern(ctx: Any) -> bool:
    return VERSION_2 and ctx.protocol_version == "2026-07-28"


def grown() -> str:
    """Came later."""
    return "grown"


async def tell_changed(ctx: Any) -> None:
    if modern(ctx):
        await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()
    else:
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()


server = Server("interop", instructions="Tools of the interop grid.", **OPTIONS)
features = Features(server)
add_questions(server)
add_tools(server)


async def serve() -> None:
    async with stdio_server() as (reading, writing):
        await features.low.run(reading, writing, features.initialization())


def serve_web(way: str, port: int) -> None:
    import uvicorn

    # Its transports over HTTP ask the low-level server what to declare.
    declared = features.initialization()
    features.low.create_initialization_options = lambda *args, **options: declared
    app = server.sse_app() if way == "sse" else server.streamable_http_app()
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    way, port = way_and_port()
    anyio.run(serve) if way == "stdio" else serve_web(way, port)
