"""Checks of our server by the client of the package FastMCP.

Usage: fastmcp_client.py MODE COMMAND... (or URL) where MODE is "auto" or "legacy". Prints one JSON object: the
revision and, for each check, true or what went wrong.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import Any

import anyio
from checking import UNICODE, checks_of, expect, expect_parallel, expect_raised, run
from fastmcp import Client
from fastmcp.client.transports import ClientTransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError

ROOTS = ["file:///interop/one"]


@dataclass
class Host:
    """What the server asked and told."""

    logs: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def log(self, message: Any) -> None:
        self.logs.append(message)

    async def elicit(self, message: str, kind: Any, params: Any, context: Any) -> Any:
        self.asked.append(message)
        return {"name": "Ada", "age": 36}

    async def sample(self, messages: Any, params: Any, context: Any) -> str:
        self.asked.append(messages[-1].content.text)
        return f"You said: {messages[-1].content.text}"


def before_2026(client: Client) -> bool:
    return bool(client.protocol_version < "2026")


async def check_list(client: Client, host: Host) -> None:
    tools = {tool.name: tool for tool in await client.list_tools()}
    expect(tools["echo"].input_schema["required"], ["text"])
    expect("ctx" in tools["count"].input_schema["properties"], False)


async def check_echo(client: Client, host: Host) -> None:
    expect((await client.call_tool("echo", {"text": UNICODE})).content[0].text, UNICODE)


async def check_add(client: Client, host: Host) -> None:
    result = await client.call_tool("add", {"a": 19, "b": 23})
    expect(result.structured_content, {"result": 42} if before_2026(client) else 42)


async def check_record(client: Client, host: Host) -> None:
    result = await client.call_tool("weather", {"city": "Tromsø"})
    expect(result.structured_content, {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5})
    expect(result.data.place.tags, ["å", "b"])


async def check_progress(client: Client, host: Host) -> None:
    seen: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total))

    expect((await client.call_tool("count", {"n": 25}, progress_handler=on_progress)).content[0].text, "25")
    expect(seen, [(i, 25) for i in range(1, 26)])


async def check_failures(client: Client, host: Host) -> None:
    expect("this tool fails" in str(await expect_raised(ToolError, client.call_tool("fail"))), True)
    await expect_raised(ToolError, client.call_tool("add", {"a": "many", "b": 1}))
    await expect_raised((ToolError, MCPError), client.call_tool("no-such-tool"))


async def check_image(client: Client, host: Host) -> None:
    expect((await client.call_tool("image")).content[0].mime_type, "image/png")


async def check_parallel(client: Client, host: Host) -> None:
    async def say(text: str) -> str:
        return (await client.call_tool("echo", {"text": text})).content[0].text

    await expect_parallel(say)


async def check_resources(client: Client, host: Host) -> None:
    expect("note://all" in {str(each.uri) for each in await client.list_resources()}, True)
    (item,) = await client.read_resource("note://all")
    expect(item.text, "alle: å")
    (item,) = await client.read_resource("note://by-id/7")
    expect(item.text, "note 7")
    await expect_raised(MCPError, client.read_resource("note://nowhere"))


async def check_prompts(client: Client, host: Host) -> None:
    expect("greet" in {prompt.name for prompt in await client.list_prompts()}, True)
    (message,) = (await client.get_prompt("greet", {"name": "Åse"})).messages
    expect(message.content.text, "Greet Åse in a plain tone")


async def check_completion(client: Client, host: Host) -> None:
    from mcp_types import PromptReference

    reference = PromptReference(type="ref/prompt", name="greet")
    expect((await client.complete(reference, {"name": "tone", "value": "f"})).values, ["formal", "friendly"])


async def check_form(client: Client, host: Host) -> None:
    expect((await client.call_tool("ask_form")).content[0].text, "accept Ada 36")
    expect(host.asked, ["Who are you?"])


async def check_sampling(client: Client, host: Host) -> None:
    result = await client.call_tool("ask_model", {"text": "Hej"})
    expect("You said: Hej" in result.content[0].text, True)


async def check_roots(client: Client, host: Host) -> None:
    expect((await client.call_tool("ask_roots")).content[0].text, ROOTS[0])


async def check_log(client: Client, host: Host) -> None:
    if before_2026(client):
        await client.set_logging_level("debug")
        await client.call_tool("note", {"text": "hør"})
        with anyio.fail_after(10):
            while not host.logs:
                await anyio.sleep(0.01)
        expect((host.logs[0].level, host.logs[0].data), ("info", "hør"))


async def check_ping(client: Client, host: Host) -> None:
    """There is no ping in 2026-07-28."""
    if before_2026(client):
        expect(await client.ping(), True)


async def hold(mode: str, command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    host = Host()
    if command[0].startswith("http"):
        transport: ClientTransport = StreamableHttpTransport(command[0])
    else:
        transport = StdioTransport(command[0], command[1:], keep_alive=False)
    async with Client(
        transport, mode=mode, roots=ROOTS, log_handler=host.log, elicitation_handler=host.elicit,
        sampling_handler=host.sample,
    ) as client:
        for name, check in checks_of(globals()).items():
            host.asked.clear()
            host.logs.clear()
            results[name] = await run(check, client, host)
        return {"revision": client.protocol_version, "checks": results}


if __name__ == "__main__":
    print(json.dumps(anyio.run(hold, sys.argv[1], sys.argv[2:])), flush=True)
