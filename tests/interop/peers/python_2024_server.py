"""The plain tools, resources and prompts on the low-level server of the official Python SDK of
December 2024."""

from __future__ import annotations

import base64
import json
from typing import Any

import anyio
from mcp import types
from mcp.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server

ENCODED = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TEXT = "alle: å"
TONES = ["plain", "formal", "friendly"]
RESOURCES: dict[str, Any] = {
    "note://all": ("text/plain", TEXT),
    "note://pixel": ("image/png", ENCODED),
}
server: Any = Server("interop")


def tool(name: str, description: str, **properties: str) -> types.Tool:
    members = {each: {"type": kind} for each, kind in properties.items()}
    schema = {"type": "object", "properties": members, "required": list(members)}
    return types.Tool(name=name, description=description, inputSchema=schema)


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [
        tool("echo", "Give the text back.", text="string"),
        tool("add", "Add two numbers.", a="integer", b="integer"),
        tool("weather", "Tell a nested record.", city="string"),
        tool("count", "Count.", n="integer"),
        tool("fail", "Fail always."),
        tool("image", "Give a picture of one pixel."),
        tool("note", "Send one log message.", text="string"),
    ]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
    if name == "image":
        return [types.ImageContent(type="image", data=ENCODED, mimeType="image/png")]
    if name == "note":
        await server.request_context.session.send_log_message("info", arguments["text"])
        return text("noted")
    if name == "weather":
        return text(
            json.dumps({"place": {"city": arguments["city"], "tags": ["å", "b"]}, "degrees": 21.5})
        )
    if name == "fail":
        raise ValueError("this tool fails")
    if name == "echo":
        return text(arguments["text"])
    if name == "count":
        return text(str(arguments["n"]))
    if name == "add":
        return text(str(arguments["a"] + arguments["b"]))
    raise ValueError(f"no tool {name}")


def text(words: str) -> list[Any]:
    return [types.TextContent(type="text", text=words)]


@server.set_logging_level()
async def set_level(level: str) -> None:
    """Every message is sent, whatever the level."""


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    return [
        types.Resource(uri=uri, name=uri.split("//")[1], mimeType=kind)
        for uri, (kind, _) in RESOURCES.items()
    ]


@server.list_resource_templates()
async def list_templates() -> list[types.ResourceTemplate]:
    return [
        types.ResourceTemplate(
            uriTemplate="note://by-id/{number}", name="by_id", mimeType="text/plain"
        )
    ]


@server.read_resource()
async def read_resource(uri: Any) -> Any:
    name = str(uri).rstrip("/")
    if name.startswith("note://by-id/"):
        return f"note {name.rsplit('/')[-1]}"
    if name == "note://pixel":
        return base64.b64decode(ENCODED)
    return RESOURCES[name][1]


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    arguments = [
        types.PromptArgument(name="name", required=True),
        types.PromptArgument(name="tone", required=False),
    ]
    return [types.Prompt(name="greet", arguments=arguments), types.Prompt(name="picture")]


@server.get_prompt()
async def get_prompt(name: str, arguments: Any) -> types.GetPromptResult:
    if name == "greet":
        words = f"Greet {arguments['name']} in a {arguments.get('tone', 'plain')} tone"
        return types.GetPromptResult(messages=[message("user", text(words)[0])])
    if name != "picture":
        raise ValueError(f"no prompt {name}")
    picture = types.ImageContent(type="image", data=ENCODED, mimeType="image/png")
    resource = types.TextResourceContents(uri="note://all", mimeType="text/plain", text=TEXT)
    embedded = types.EmbeddedResource(type="resource", resource=resource)
    parts = [("user", text("Look:")[0]), ("user", picture), ("assistant", embedded)]
    return types.GetPromptResult(messages=[message(role, part) for role, part in parts])


def message(role: Any, content: Any) -> types.PromptMessage:
    return types.PromptMessage(role=role, content=content)


@server.completion()
async def complete(ref: Any, argument: Any) -> types.Completion:
    return types.Completion(values=[tone for tone in TONES if tone.startswith(argument.value)])


async def serve() -> None:
    async with stdio_server() as (reading, writing):
        options = server.create_initialization_options(NotificationOptions())
        await server.run(reading, writing, options)


if __name__ == "__main__":
    anyio.run(serve)
