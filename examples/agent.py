"""An agent: a model calls the tools of MCP servers in a loop until it answers; a person first
agrees to each call.

OPENAI_API_KEY=... python3 agent.py "What will the weather be in Oslo?" server.py

It uses OpenAI's chat completions, or an API of the same form that OPENAI_BASE_URL names.
`agent.rst` says what to show before a call, and why.
"""

import json
import os
import sys
import urllib.request
from typing import Any

import minimcp

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
ROUNDS = 10  # a model that never stops calling costs money


def think(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the model's next message: text, or tool calls."""
    body = {
        "model": os.environ.get("OPENAI_MODEL", "gpt-4o-mini"),
        "messages": messages,
        "tools": tools,
    }
    headers = {
        "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
        "Content-Type": "application/json",
    }
    request = urllib.request.Request(URL, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as response:
        return dict(json.load(response)["choices"][0]["message"])


def carry_out(
    client: minimcp.Client, tools: dict[str, minimcp.Tool], name: str, arguments: str
) -> str:
    """Make a call that the model chose, and return text for the model, even if the call fails."""
    try:
        tool, given = tools[name], json.loads(arguments)
        print(
            f"{client.server_info and client.server_info.name}: {ascii(name)} with {ascii(given)}",
            file=sys.stderr,
        )
        if not tool.hints.read_only and input("Call it? [y/N] ") != "y":
            return "the user rejected this call"
        return client.call_tool(name, given, timeout=60, raise_on_error=False).text
    except (KeyError, ValueError, TypeError, minimcp.McpError) as error:
        return f"failed: {error!r}"


def main(question: str, *server: str) -> str:
    """Run the loop until the model answers."""
    with minimcp.connect(server if len(server) > 1 else server[0]) as client:
        tools = {tool.name: tool for tool in client.list_tools()}
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        for _ in range(ROUNDS):
            messages.append(think(messages, [tool.as_openai() for tool in tools.values()]))
            if not messages[-1].get("tool_calls"):
                return str(messages[-1]["content"])
            for call in messages[-1]["tool_calls"]:
                text = carry_out(
                    client, tools, call["function"]["name"], call["function"]["arguments"]
                )
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return "no answer"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
