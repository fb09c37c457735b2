"""An agent: a model calls the tools of MCP servers, in a loop, until it answers; a person agrees to
each call first.

    OPENAI_API_KEY=... python3 agent.py "What will the weather be in Oslo?" server.py

It speaks to OpenAI's chat completions, or to whatever OPENAI_BASE_URL names that has the same
shape. `agent.rst` says what to show before a call, and why.
"""

import json
import os
import sys
import urllib.request
from typing import Any

import minimcp

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
ROUNDS = 10  # a model that calls on and on costs money


def think(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The model's next message: words, or calls of tools."""
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
    """One call that the model asks for: what comes of it, in words for the model, whatever happens."""
    try:
        tool, given = tools[name], json.loads(arguments)
        print(
            f"{client.server_info and client.server_info.name}: {ascii(name)} with {ascii(given)}",
            file=sys.stderr,
        )
        if not tool.hints.read_only and input("Call it? [y/N] ") != "y":
            return "the user does not want this call"
        return client.call_tool(name, given, timeout=60, raise_on_error=False).text
    except (KeyError, ValueError, TypeError, minimcp.McpError) as error:
        return f"failed: {error!r}"


def main(question: str, *server: str) -> str:
    """Ask until there is an answer."""
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
