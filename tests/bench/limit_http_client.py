"""The limit, HTTP client side: hand-written, one connection that stays open. Arguments: the URL of the server."""

from __future__ import annotations

import itertools
import json
import socket
import sys
from typing import Any

from client_loop import obey

encode = json.JSONEncoder(separators=(",", ":")).encode
decode = json.JSONDecoder().decode
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n"
    "Content-Type: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\n\r\n"
)


class Connection:
    def __init__(self, url: str) -> None:
        self.host = url.partition("//")[2].partition("/")[0]
        name, _, port = self.host.rpartition(":")
        self.socket = socket.create_connection((name, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ids = itertools.count(1)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "limit", "version": "0"}}
        self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: dict[str, Any]) -> bytes:
        body = encode(message).encode()
        self.socket.sendall((HEAD % (self.host, len(body))).encode() + body)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self.socket.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        lines = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
        length = int({name.lower(): value.strip() for name, _, value in lines}["content-length"])
        while len(body) < length:
            body += self.socket.recv(65536)
        return body

    def call(self, text: str) -> str:
        params = {"name": "echo", "arguments": {"text": text}}
        reply = self.post({"jsonrpc": "2.0", "id": next(self.ids), "method": "tools/call", "params": params})
        return str(decode(reply.decode())["result"]["content"][0]["text"])


if __name__ == "__main__":
    connection = Connection(sys.argv[1])
    obey(connection.call, connection.call)
