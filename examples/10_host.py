"""A host has one client for each of its servers, and one list of all their tools for its model.

You will see the tools of two servers, a third server that does not start, and calls as a model
would make them.

`connect_all` accepts the file in which hosts keep their servers (mcp.json), or a mapping as here,
and starts the servers at the same time. Each tool is called server__tool. A server that does not
start, or is lost, affects only its own calls. This is the part of a host below its model: list the
tools for the model, make the calls that it chooses, and return the text to it.

https://modelcontextprotocol.io/specification/2025-11-25/architecture
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import minimcp

HERE = Path(__file__).parent
CONFIG = {
    "mcpServers": {
        "hello": {"command": sys.executable, "args": [str(HERE / "02_hello.py"), "serve"]},
        "notes": {"command": sys.executable, "args": [str(HERE / "03_plain_class.py"), "serve"]},
        "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit('no licence')"]},
    }
}


def menu(group: minimcp.Group) -> list[dict[str, Any]]:
    """Return the tools in the form that most models accept."""
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        for tool in group.list_tools()
    ]


def run(group: minimcp.Group, name: str, arguments: dict[str, Any]) -> str:
    """Make a call that the model chose, and return text for the model, even if the call fails."""
    try:
        result = group.call_tool(name, arguments, timeout=30, raise_on_error=False)
        return ("failed: " if result.is_error else "") + result.text
    except minimcp.McpError as error:
        return f"failed: {error}"


def main() -> None:
    with minimcp.connect_all(CONFIG, stderr=lambda line: None) as group:
        for tool in menu(group):
            print(f"{tool['name']}: {tool['description']}")
        for name, error in group.errors.items():
            print(f"{name} is not available: {type(error).__name__}")

        # Calls as a model would make them.
        print(run(group, "hello__greet", {"name": "Ada"}))
        print(run(group, "notes__add", {"text": "greet Ada"}))
        print(run(group, "hello__greet", {"nam": "Ada"}))
        print(run(group, "notes__ad", {"text": "?"}))

        # Everything except tools is on the client of one server.
        print(group.clients["notes"].read_resource("notes://1").text)
        for result in group.call_tools(
            [("hello__greet", {"name": "Bob"}), ("notes__find", {"word": "Ada"})]
        ):
            print(result.text)


if __name__ == "__main__":
    main()

# Exercise: a host asks a person before a model may change something. Write
# `needs_consent(group, name) -> bool`: false for tools that are marked as read-only
# (`tool.hints.read_only`), true for all others.
# Check it with  python3 examples/check.py 10
