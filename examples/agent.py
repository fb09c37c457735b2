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


def carry_out(client: minimcp.Client, name: str, arguments: str, read_only: bool) -> Any:
    """Make a call that the model chose, and return content for the model, even if it fails."""
    try:
        given = json.loads(arguments)
        server = client.server_info and client.server_info.name
        print(f"{server}: {ascii(name)} with {ascii(given)}", file=sys.stderr)
        if not read_only and input("Call it? [y/N] ") != "y":
            return "the user rejected this call"
        return client.call_tool(name, given, timeout=60, raise_on_error=False).as_openai()
    except (ValueError, TypeError, minimcp.McpError) as error:
        return f"failed: {error}"  # for a misspelled name: "did you mean ...?"


def main(question: str, *server: str) -> str:
    """Run the loop until the model answers."""
    with minimcp.connect(server if len(server) > 1 else server[0]) as client:
        tools = client.list_tools()
        read_only = {tool.name for tool in tools if tool.hints.read_only}
        messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
        for _ in range(ROUNDS):
            messages.append(think(messages, [tool.as_openai() for tool in tools]))
            if not messages[-1].get("tool_calls"):
                return str(messages[-1]["content"])
            for call in messages[-1]["tool_calls"]:
                name, arguments = call["function"]["name"], call["function"]["arguments"]
                content = carry_out(client, name, arguments, name in read_only)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return "no answer"


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
