"""A server offers tools, which are functions; a client lists them and calls one.

You will see the same conversation twice: the tool, the JSON Schema of its arguments, and what it
returned.

A server is an object; a tool is a function with annotations and a docstring. They become the schema
and the description that a model is shown. The same client talks to the object, which is how servers
are tested, and to a child process, which is how hosts run them. Neither notices the difference.

https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import json
import sys

import minimcp

server = minimcp.Server("hello", version="1.0", instructions="Says hello.")


@server.tool
def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
        times: How often.
    """
    return " ".join([f"Hello, {name}!"] * times)


def talk(client: minimcp.Client) -> None:
    """What a host does: look at what there is, and call it."""
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
    # A file that is nothing but a server just says server.run() here.
    server.run() if sys.argv[1:] == ["serve"] else main()

# Exercise: add a tool `shout(text: str) -> str` that returns the text in capitals, with a docstring
# for the model. Check it with  python3 examples/check.py 2
# From a shell, where each name=value is read as the schema says, it is called like this:
#     python3 -m minimcp call "python3 examples/02_hello.py serve" shout text=hello
