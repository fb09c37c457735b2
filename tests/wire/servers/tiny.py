"""The smallest line server there is, to test the harness with: standard library only, one thread.

It echoes tools, answers ping, and does on request what a harness must be able to notice.
"""

from __future__ import annotations

import json
import os
import sys


def answer(message: dict) -> bytes:
    """The line, or whatever else this message asks for."""
    method, id = message["method"], message["id"]
    if method == "garbage":
        return b"this is not JSON\n"
    if method == "nan":
        return b'{"jsonrpc":"2.0","id":1,"result":{"x":NaN}}\n'
    if method == "half":
        os.write(1, b'{"jsonrpc":')
        sys.exit(0)
    if method == "die":
        sys.exit(3)
    result = {"protocolVersion": "2025-06-18"} if method == "initialize" else {}
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
    reply = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"
    return reply * 2 if method == "twice" else reply


def main() -> None:
    """Answer line by line until the input ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" in message:
            reply = answer(message)
            while reply:
                reply = reply[os.write(1, reply) :]


main()
