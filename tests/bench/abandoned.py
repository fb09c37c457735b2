"""``python -m tests.bench.abandoned``: how long other clients wait after one has abandoned 1,000 calls.

One session begins 1,000 calls, and closes each connection at once. Half of the calls ask it a question,
and half run until the end of the program. Then other clients open a session and call a tool. No time is
asserted. The CPU time is that of this process: the server, the client that left and one other client.
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Optional

import minimcp
from minimcp import Context, Server
from minimcp.http.headers import SESSION_HEADER

CALLS, OTHERS = 1000, 10

HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Accept: application/json, text/event-stream\r\n"
)
INITIALIZE = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{"elicitation":{}},"clientInfo":{"name":"leaver","version":"1"}}}'
)
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
CALL = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{}}}'


def post(port: int, body: str, more: str = "") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(f"{HEAD}{more}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return sock


def main() -> None:
    server = Server("abandoned")
    done = threading.Event()

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask."""
        return str(ctx.elicit("Name?", {"name": str}).require()["name"])

    @server.tool
    def work() -> str:
        """Work."""
        done.wait()
        return "worked"

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    with server.start_http() as running:
        with post(running.port, INITIALIZE) as sock:
            lines = sock.recv(65536).decode().split("\r\n")
        id = next(each for each in lines if each.lower().startswith(SESSION_HEADER.lower()))
        with post(running.port, INITIALIZED, id + "\r\n") as sock:
            assert sock.recv(65536).startswith(b"HTTP/1.1 202 ")
        begun = time.perf_counter()
        used = time.process_time()
        for number in range(CALLS):
            post(
                running.port, CALL % (number, "ask" if number % 2 else "work"), id + "\r\n"
            ).close()
        print(f"{CALLS} calls abandoned in {time.perf_counter() - begun:.1f} s")
        slowest = 0.0
        served: Optional[float] = None
        for _ in range(OTHERS):
            begun = time.perf_counter()
            with minimcp.connect(running.url) as client:
                assert client.call_tool("add", {"a": 1, "b": 2}).value == 3
            slowest = max(slowest, time.perf_counter() - begun)
            if served is None:
                served = time.process_time() - used
        print(
            f"slowest of {OTHERS} other clients {slowest:.3f} s ({served:.3f} s of CPU time until the"
            f" first one was served), {threading.active_count()} threads"
        )
        done.set()
    server.close()


if __name__ == "__main__":
    main()
