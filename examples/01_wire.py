"""A client and a server exchange JSON objects, one per line, over the two pipes of a child process.

You will see four requests and one notification (-->), and four responses (<--). minimcp is not
imported: this file does by hand what minimcp does for you.

The client starts the server as a child process, and writes messages to its stdin. A request has an
id. The server writes a response with the same id to its stdout. A notification has no id and gets
no response. All other output of the server must go to stderr. Every later chapter consists of such
lines.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports (stdio) and
.../basic/lifecycle
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

NAME = {"name": "by-hand", "version": "0"}
ADD = {
    "name": "add",
    "description": "Add two numbers.",
    "inputSchema": {
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    },
}


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    """Say who we are and what we offer: tools, and nothing else."""
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": NAME}


def call(params: dict[str, Any]) -> dict[str, Any]:
    """Run the only tool. A failure is a result too, because the model should read why it failed."""
    try:
        total = params["arguments"]["a"] + params["arguments"]["b"]
    except (KeyError, TypeError) as error:
        return {"content": [{"type": "text", "text": repr(error)}], "isError": True}
    return {"content": [{"type": "text", "text": str(total)}]}


METHODS = {
    "initialize": initialize,
    "tools/list": lambda params: {"tools": [ADD]},
    "tools/call": call,
}


def serve() -> None:
    """Be the server: read lines and respond to them, until stdin ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue  # a notification
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] in METHODS:
            answer["result"] = METHODS[message["method"]](message.get("params", {}))
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        print(json.dumps(answer), flush=True)  # flush, because the client is waiting for the line


def client() -> None:
    """Be the client: start the server, agree on a revision, and call its methods."""
    with subprocess.Popen(
        [sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin and child.stdout
        info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": NAME}
        for message in (
            {"id": 1, "method": "initialize", "params": info},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
            {
                "id": 3,
                "method": "tools/call",
                "params": {"name": "add", "arguments": {"a": 2, "b": 3}},
            },
            {"id": 4, "method": "tools/bake"},
        ):
            line = json.dumps({"jsonrpc": "2.0", **message})
            print("-->", line)
            child.stdin.write(line.encode() + b"\n")
            child.stdin.flush()
            if "id" in message:
                print("<--", child.stdout.readline().decode().rstrip())


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else client()

# Exercise: respond to the request "ping" with an empty object, to say that the server is alive.
# Check it with  python3 examples/check.py 1  which uses minimcp as the client of your server.
