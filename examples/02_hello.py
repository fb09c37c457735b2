"""A server offers tools, which are functions; a client lists them and calls one.

You will see the same conversation twice: the tool, the JSON Schema of its arguments, and its
result.

A server is an object, and a tool is a function with annotations and a docstring. They become the
schema and the description that a model sees. The same client connects to the object, which is how
servers are tested, and to a child process, which is how hosts run them. The server does not notice
the difference.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import json
import sys

import minimcp

server = minimcp.Server("hello", version="1.0", instructions="Says hello.")


@server.tool
def greet(name: str, times: int = 1) -> str:
    """Greet a person.

    Args:
        name: Name of the person.
        times: Number of greetings.
    """
    return " ".join([f"Hello, {name}!"] * times)


def talk(client: minimcp.Client) -> None:
    """List the tools and call one, as a host does."""
    assert client.server_info
    print(client.server_info.name, client.server_info.version, "speaks", client.revision)
    for tool in client.list_tools():
        print(f"{tool.name}: {tool.description}")
        print(json.dumps(tool.input_schema))
    print(client.call_tool("greet", {"name": "Ada", "times": 2}).text)


def main() -> None:
    print("In memory:")
    with minimcp.connect(server) as client:
        talk(client)

    print("As a child process:")
    with minimcp.connect([sys.executable, __file__, "serve"]) as client:
        talk(client)


if __name__ == "__main__":
    # A file that is only a server calls server.run() here.
    server.run() if sys.argv[1:] == ["serve"] else main()

# Exercise: add a tool `shout(text: str) -> str` that returns the text in capitals, with a docstring
# for the model. Check it with  python3 examples/check.py 2
# The command line converts each name=value as the schema says:
#     python3 -m minimcp call "python3 examples/02_hello.py serve" shout text=hello
