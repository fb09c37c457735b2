"""Checks of our server by the client of the package FastMCP.

Usage: fastmcp_client.py MODE COMMAND... (or URL) where MODE is "auto" or "legacy". Prints one JSON
object: the revision and, for each check, true or what went wrong.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import anyio
from checking import UNICODE, Checks, expect, expect_parallel, expect_raised
from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

ROOTS = ["file:///interop/one"]


@dataclass
class Host:
    """A host that records the questions and notifications of the server."""

    logs: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def forget(self) -> None:
        self.asked.clear()
        self.logs.clear()

    async def log(self, message: Any) -> None:
        self.logs.append(message)

    async def elicit(self, message: str, kind: Any, params: Any, context: Any) -> Any:
        self.asked.append(message)
        return {"name": "Ada", "age": 36}

    async def sample(self, messages: Any, params: Any, context: Any) -> str:
        self.asked.append(messages[-1].content.text)
        return f"You said: {messages[-1].content.text}"


class Shared(Checks):
    def __init__(self, client: Client, host: Host) -> None:
        self.client, self.host, self.revision = client, host, client.protocol_version

    async def list(self) -> None:
        tools = {tool.name: tool for tool in await self.client.list_tools()}
        expect(tools["echo"].input_schema["required"], ["text"])
        expect("ctx" in tools["count"].input_schema["properties"], False)

    async def echo(self) -> None:
        expect((await self.client.call_tool("echo", {"text": UNICODE})).content[0].text, UNICODE)

    async def add(self) -> None:
        result = await self.client.call_tool("add", {"a": 19, "b": 23})
        expect(result.structured_content, {"result": 42} if self.revision < "2026" else 42)

    async def record(self) -> None:
        result = await self.client.call_tool("weather", {"city": "Tromsø"})
        expect(
            result.structured_content,
            {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5},
        )
        expect(result.data.place.tags, ["å", "b"])

    async def progress(self) -> None:
        seen: list[Any] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            seen.append((done, total))

        expect(
            (await self.client.call_tool("count", {"n": 25}, progress_handler=on_progress))
            .content[0]
            .text,
            "25",
        )
        expect(seen, [(i, 25) for i in range(1, 26)])

    async def failures(self) -> None:
        expect(
            "this tool fails" in str(await expect_raised(ToolError, self.client.call_tool("fail"))),
            True,
        )
        await expect_raised(ToolError, self.client.call_tool("add", {"a": "many", "b": 1}))
        await expect_raised((ToolError, MCPError), self.client.call_tool("no-such-tool"))

    async def image(self) -> None:
        expect((await self.client.call_tool("image")).content[0].mime_type, "image/png")

    async def parallel(self) -> None:
        async def say(text: str) -> str:
            return (await self.client.call_tool("echo", {"text": text})).content[0].text

        await expect_parallel(say)

    async def resources(self) -> None:
        expect("note://all" in {str(each.uri) for each in await self.client.list_resources()}, True)
        (item,) = await self.client.read_resource("note://all")
        expect(item.text, "alle: å")
        (item,) = await self.client.read_resource("note://by-id/7")
        expect(item.text, "note 7")
        await expect_raised(MCPError, self.client.read_resource("note://nowhere"))

    async def prompts(self) -> None:
        expect("greet" in {prompt.name for prompt in await self.client.list_prompts()}, True)
        (message,) = (await self.client.get_prompt("greet", {"name": "Åse"})).messages
        expect(message.content.text, "Greet Åse in a plain tone")

    async def completion(self) -> None:
        from mcp_types import PromptReference

        reference = PromptReference(type="ref/prompt", name="greet")
        expect(
            (await self.client.complete(reference, {"name": "tone", "value": "f"})).values,
            ["formal", "friendly"],
        )

    async def form(self) -> None:
        expect((await self.client.call_tool("ask_form")).content[0].text, "accept Ada 36")
        expect(self.host.asked, ["Who are you?"])

    async def sampling(self) -> None:
        result = await self.client.call_tool("ask_model", {"text": "Hej"})
        expect("You said: Hej" in result.content[0].text, True)

    async def roots(self) -> None:
        expect((await self.client.call_tool("ask_roots")).content[0].text, ROOTS[0])

    async def log(self) -> None:
        if self.revision < "2026":
            await self.client.set_logging_level("debug")
            await self.client.call_tool("note", {"text": "hør"})
            with anyio.fail_after(10):
                while not self.host.logs:
                    await anyio.sleep(0.01)
            expect((self.host.logs[0].level, self.host.logs[0].data), ("info", "hør"))

    async def ping(self) -> None:
        """There is no ping in 2026-07-28."""
        if self.revision < "2026":
            expect(await self.client.ping(), True)


async def hold(mode: str, command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    host = Host()
    if command[0].startswith("http"):
        transport: ClientTransport = StreamableHttpTransport(command[0])
    else:
        transport = StdioTransport(command[0], command[1:], keep_alive=False)
    async with Client(
        transport,
        mode=mode,
        roots=ROOTS,
        log_handler=host.log,
        elicitation_handler=host.elicit,
        sampling_handler=host.sample,
    ) as client:
        await Shared(client, host).run(results, host.forget)
        return {"revision": client.protocol_version, "checks": results}


if __name__ == "__main__":
    print(json.dumps(anyio.run(hold, sys.argv[1], sys.argv[2:])), flush=True)
