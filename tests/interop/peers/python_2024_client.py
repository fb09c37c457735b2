"""Checks of our server by the client of the official Python SDK of December 2024, which knows
2024-11-05 alone.

Usage: python_2024_client.py REVISION COMMAND... Prints one JSON object: the revision and, for each
check, true or what went wrong.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
from checking import UNICODE, Checks, expect, expect_parallel, expect_raised
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types

NOTICES: list[Any] = []


async def expect_error(code: int, call: Any) -> None:
    expect((await expect_raised(McpError, call)).args[0].code, code)


class Shared(Checks):
    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def list(self) -> None:
        """The first page: this version cannot ask for others."""
        tools = (await self.session.list_tools()).tools
        expect({tool.inputSchema["type"] for tool in tools}, {"object"})

    async def echo(self) -> None:
        expect((await self.session.call_tool("echo", {"text": UNICODE})).content[0].text, UNICODE)

    async def record(self) -> None:
        result = await self.session.call_tool("weather", {"city": "Tromsø"})
        expect(json.loads(result.content[0].text)["place"], {"city": "Tromsø", "tags": ["å", "b"]})

    async def image(self) -> None:
        (block,) = (await self.session.call_tool("image")).content
        expect((type(block), block.mimeType), (types.ImageContent, "image/png"))

    async def failures(self) -> None:
        result = await self.session.call_tool("fail")
        expect((result.isError, "this tool fails" in result.content[0].text), (True, True))
        expect((await self.session.call_tool("add", {"a": "many", "b": 1})).isError, True)
        await expect_error(-32602, self.session.call_tool("no-such-tool"))

    async def parallel(self) -> None:
        async def say(text: str) -> str:
            return (await self.session.call_tool("echo", {"text": text})).content[0].text

        await expect_parallel(say)

    async def resources(self) -> None:
        resources = {
            str(each.uri): each.mimeType for each in (await self.session.list_resources()).resources
        }
        expect(resources["note://all"], "text/plain")
        (item,) = (await self.session.read_resource("note://all")).contents
        expect((item.mimeType, item.text), ("text/plain", "alle: å"))
        (item,) = (await self.session.read_resource("note://pixel")).contents
        expect((item.mimeType, item.blob[:8]), ("image/png", "iVBORw0K"))
        await expect_error(-32002, self.session.read_resource("note://nowhere"))

    async def subscription(self) -> None:
        await self.session.subscribe_resource("note://all")
        await self.session.call_tool("touch", {"uri": "note://all"})
        with anyio.fail_after(10):
            while not any(isinstance(each, types.ResourceUpdatedNotification) for each in NOTICES):
                await anyio.sleep(0.01)
        await self.session.unsubscribe_resource("note://all")

    async def prompts(self) -> None:
        prompts = {prompt.name for prompt in (await self.session.list_prompts()).prompts}
        expect("greet" in prompts, True)
        (message,) = (await self.session.get_prompt("greet", {"name": "Åse"})).messages
        expect(message.content.text, "Greet Åse in a plain tone")
        await expect_error(-32602, self.session.get_prompt("no-such-prompt"))

    async def completion(self) -> None:
        reference = types.PromptReference(type="ref/prompt", name="greet")
        result = await self.session.complete(reference, {"name": "tone", "value": "f"})
        expect(result.completion.values, ["formal", "friendly"])

    async def log(self) -> None:
        await self.session.set_logging_level("debug")
        NOTICES.clear()
        await self.session.call_tool("note", {"text": "hør"})
        with anyio.fail_after(10):
            while not NOTICES:
                await anyio.sleep(0.01)
        expect((NOTICES[0].params.level, NOTICES[0].params.data), ("info", "hør"))

    async def ping(self) -> None:
        await self.session.send_ping()


async def listen(session: ClientSession) -> None:
    async for message in session.incoming_messages:
        if isinstance(message, types.ServerNotification):
            NOTICES.append(message.root)


async def hold(command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with (
        stdio_client(parameters) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        begun = await session.initialize()
        async with anyio.create_task_group() as group:
            group.start_soon(listen, session)
            await Shared(session).run(results, NOTICES.clear)
            group.cancel_scope.cancel()
    return {"revision": begun.protocolVersion, "checks": results}


if __name__ == "__main__":
    print(json.dumps(anyio.run(hold, sys.argv[2:])), flush=True)
