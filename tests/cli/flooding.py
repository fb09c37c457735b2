"""A server that sends without end; its argument chooses the messages."""

import json
import sys
from itertools import count
from typing import Any

KIND = sys.argv[1] if len(sys.argv) > 1 else ""

LINES = {
    "pings": '{"jsonrpc":"2.0","id":"p%d","method":"ping"}\n',
    "notifications": '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%d"}}\n',
    "answers": '{"jsonrpc":"2.0","id":"a%d","result":{}}\n',
    "noise": "%d not a message, and so on\n",
    "empty lines": "\n",
    "batches": '[{"jsonrpc":"2.0","id":"p%d","method":"ping"}]\n',
    "large": '{"jsonrpc":"2.0","method":"notifications/x","params":{"a%d":["' + "x" * 1_000_000 + '"]}}\n',
    "many small values": '{"jsonrpc":"2.0","method":"notifications/x","params":{"a%d":[' + "[]," * 300_000 + "0]}}\n",
    "one line": "x" * 65536,
}  # fmt: skip


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def flood() -> None:
    line = LINES[KIND]
    for number in count():
        write((line % number if "%d" in line else line) * (1 if len(line) > 1000 else 100))


def answer(message: Any) -> Any:
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "flooding", "version": "1"},
        }
    if method == "tools/list" and KIND == "pages":
        number = int(params.get("cursor", 0)) + 1
        tool = {"name": f"t{number}", "inputSchema": {"type": "object"}}
        return {"tools": [tool], "nextCursor": str(number)}
    return {"tools": []}


if __name__ == "__main__":
    if KIND in LINES and sys.argv[2:] == ["at once"]:
        flood()
    for line in sys.stdin:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        if "id" not in message and KIND in LINES:  # notifications/initialized
            flood()
        if "id" in message and "method" in message:
            if message["method"] in ("initialize", "tools/list", "ping"):
                told = {"result": answer(message)}
            else:
                told = {"error": {"code": -32601, "message": "no"}}
            write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}) + "\n")
