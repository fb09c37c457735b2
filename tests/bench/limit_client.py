"""The limit, client side: hand-written, standard library only, nothing checked.

A single caller reads its own reply. For 64 threads, there is a reader thread and a bare lock per
call. Over HTTP, one connection stays open. Arguments: the command of the server, or its URL.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from typing import Any, Callable

from client_loop import obey

encode = json.JSONEncoder(separators=(",", ":")).encode
decode = json.JSONDecoder().decode
SET_PIPE_SIZE = 1031
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "limit", "version": "0"},
}
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n"
    "Content-Type: application/json\r\nMCP-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\n\r\n"
)


def request(ident: int, text: str) -> dict[str, Any]:
    params = {"name": "echo", "arguments": {"text": text}}
    return {"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params}


class Connection:
    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.into, self.out = self.process.stdin.fileno(), self.process.stdout.fileno()
        for descriptor in (self.into, self.out):
            fcntl.fcntl(descriptor, SET_PIPE_SIZE, 262144)
        self.ids = itertools.count(1)
        self.send(INITIALIZE)
        self.receive()
        self.send(INITIALIZED)

    def send(self, message: dict[str, Any]) -> None:
        data = encode(message).encode() + b"\n"
        while data:
            data = data[os.write(self.into, data) :]

    def receive(self) -> bytes:
        pieces = []
        while True:
            chunk = os.read(self.out, 262144)
            if not chunk:
                raise SystemExit("the server closed its stdout")
            pieces.append(chunk)
            if chunk.endswith(b"\n"):
                return b"".join(pieces)

    def call(self, text: str) -> str:
        self.send(request(next(self.ids), text))
        reply = decode(self.receive().decode())
        return str(reply["result"]["content"][0]["text"])

    def count(self, reports: int, on_progress: Callable[[float], None]) -> None:
        params = {"name": "count", "arguments": {"n": reports}, "_meta": {"progressToken": 1}}
        ident = next(self.ids)
        self.send({"jsonrpc": "2.0", "id": ident, "method": "tools/call", "params": params})
        while True:
            for line in self.receive().splitlines():
                message = decode(line.decode())
                if message.get("id") == ident:
                    return
                on_progress(message["params"]["progress"])


class Shared(Connection):
    def __init__(self, command: list[str]) -> None:
        super().__init__(command)
        self.waiting: dict[int, threading.Lock] = {}
        self.replies: dict[int, Any] = {}
        self.writing = threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        rest = b""
        while True:
            chunk = os.read(self.out, 262144)
            if not chunk:
                return
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in lines:
                reply = decode(line.decode())
                self.replies[reply["id"]] = reply["result"]
                self.waiting.pop(reply["id"]).release()

    def call(self, text: str) -> str:
        ident, gate = next(self.ids), threading.Lock()
        gate.acquire()
        self.waiting[ident] = gate
        data = encode(request(ident, text)).encode() + b"\n"
        with self.writing:
            os.write(self.into, data)
        gate.acquire()
        return str(self.replies.pop(ident)["content"][0]["text"])


class Web:
    def __init__(self, url: str) -> None:
        self.host = url.partition("//")[2].partition("/")[0]
        name, _, port = self.host.rpartition(":")
        self.socket = socket.create_connection((name, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ids = itertools.count(1)
        self.post(INITIALIZE)
        self.post(INITIALIZED)

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
        reply = decode(self.post(request(next(self.ids), text)).decode())
        return str(reply["result"]["content"][0]["text"])


if __name__ == "__main__":
    if sys.argv[1].startswith("http://"):
        web = Web(sys.argv[1])
        obey(web.call, web.call)
        sys.exit()
    lone, shared = Connection(sys.argv[1:]), Shared(sys.argv[1:])
    obey(lone.call, shared.call, lone.count)
    for connection in (lone, shared):
        os.close(connection.into)
        connection.process.wait(5)
