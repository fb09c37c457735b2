"""The limit, HTTP side: a hand-written keep-alive server on the standard library's sockets, a
thread per connection.

It reads heads with find and split, knows Content-Length alone, checks nothing and sends each
response in one piece. A response that is not bytes is an event stream, and each event is a chunk of
its own. A GET request opens a stream without events.
"""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any, Callable

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
HEAD = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nMcp-Session-Id: limit\r\nContent-Length: %d\r\n\r\n"


def serve(connection: socket.socket, handle: Callable[[bytes], Any]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    with connection:
        while True:
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            method, _, _ = first.split(" ")
            pairs = (line.partition(":") for line in lines)
            headers = {name.lower(): value.strip() for name, _, value in pairs}
            length = int(headers.get("content-length", 0))
            while len(data) < length:
                data += connection.recv(65536)
            body, data = data[:length], data[length:]
            answer = handle(body) if method == "POST" else b""
            if method == "GET":
                connection.sendall(EVENTS)
            elif isinstance(answer, bytes):
                connection.sendall(
                    HEAD % (b"200 OK" if answer else b"202 Accepted", len(answer)) + answer
                )
            else:
                connection.sendall(EVENTS)
                for line in answer:
                    event = b"data: " + line + b"\n"
                    connection.sendall(b"%x\r\n%b\r\n" % (len(event), event))
                connection.sendall(b"0\r\n\r\n")


def listen(listener: socket.socket, handle: Callable[[bytes], Any]) -> None:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0], handle), daemon=True).start()


def main(handle: Callable[[bytes], Any]) -> None:
    """Print the URL, and serve until the input ends."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    threading.Thread(target=listen, args=(listener, handle), daemon=True).start()
    sys.stdin.read()
