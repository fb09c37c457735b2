"""The load generator for HTTP: raw sockets that stay open, a session of 2025-06-18 on each, the
same bytes for all.

A client under test calls the hand-written server.
"""

from __future__ import annotations

import json
import select
import socket
import time
from statistics import median
from typing import Any, Callable, Mapping, Sequence

from . import load
from .load import HELLO, Broken, Measured

CONNECTIONS = 32
STREAMS = 200
END = b"\r\n0\r\n\r\n"  # the bytes after the last event of a chunked stream
WAIT = 20.0


MODERN_HEADERS = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n"


class Connection:
    """One connection: with a session, or in 2026-07-28 without one."""

    def __init__(self, child: Child, url: str) -> None:
        host, _, port = url.partition("//")[2].partition("/")[0].rpartition(":")
        self.child = child
        self.host = f"{host}:{port}"
        self.address = (host, int(port))
        self.socket = self._connected()
        self.session = ""
        if not child.envelope:
            self._open_session()

    def _open_session(self) -> None:
        head, body = self.ask(self.request(self.child.frame("initialize", HELLO)))
        if json.loads(body)["result"]["protocolVersion"] != "2025-06-18":
            raise self.child.broken(f"initialize answered {body!r}")
        for name, _, value in (line.partition(": ") for line in head.split("\r\n")):
            if name.lower() == "mcp-session-id":
                self.session = f"{name}: {value}\r\nMCP-Protocol-Version: 2025-06-18\r\n"
        self.ask(self.request(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'))

    def renew(self) -> None:
        """Connect again. After a quiet period the server may be about to close the connection, and
        no client can see that.

        The session stays the same. One call is made, so that no measured call is the first one.
        """
        self.socket.close()
        self.socket = self._connected()
        self.ask(self.call(text=load.TEXT))

    def _connected(self) -> socket.socket:
        end = time.monotonic() + WAIT
        while True:
            try:
                found = socket.create_connection(self.address, WAIT)
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return found
            except ConnectionRefusedError:  # a server that printed its URL before it listens
                if time.monotonic() > end:
                    raise self.child.broken("does not listen") from None
                time.sleep(0.02)

    def request(self, line: bytes, headers: str = "") -> bytes:
        """Return one POST."""
        return (
            f"POST /mcp HTTP/1.1\r\nHost: {self.host}\r\nUser-Agent: load/0\r\nAccept-Encoding: identity\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"{self.session}{headers}Content-Length: {len(line) - 1}\r\n\r\n"
        ).encode() + line[:-1]

    def call(self, **arguments: Any) -> bytes:
        headers = ""
        if self.child.envelope:
            headers = f"{MODERN_HEADERS.format(method='tools/call')}Mcp-Name: echo\r\n"
        return self.request(self.child.call("echo", **arguments), headers)

    def open_stream(self) -> None:
        """Open a GET stream on a connection of its own. Returns when its head has arrived."""
        self.socket.close()
        self.socket = self._connected()
        self.socket.sendall(
            f"GET /mcp HTTP/1.1\r\nHost: {self.host}\r\nAccept: text/event-stream\r\n{self.session}\r\n".encode()
        )
        data = self.read(lambda data: b"\r\n\r\n" in data)
        if b"text/event-stream" not in data.lower():
            raise self.child.broken(f"a GET was answered with {data[-400:]!r}")

    def read(self, done: Callable[[bytes], bool] | None = None) -> bytes:
        """Read one whole response from its beginning, or as much of it as requested."""
        data, done = b"", done or _whole
        while not done(data):
            more = self.socket.recv(65536)
            if not more:
                raise self.child.broken(f"closed a connection after {data[-400:]!r}")
            data += more
        return data

    def ask(self, request: bytes) -> tuple[str, bytes]:
        self.socket.sendall(request)
        head, _, body = self.read().partition(b"\r\n\r\n")
        if b"text/event-stream" in head.lower():
            body = _events(body)[-1]
        return head.decode("latin-1"), body

    def expect(self, response: bytes) -> None:
        load.expect(self.child, response.partition(b"\r\n\r\n")[2], load.TEXT)


def _whole(data: bytes) -> bool:
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[:end].lower()
    if b"\r\ncontent-length: " not in head:
        return head.split(b" ", 2)[1] == b"202" or data.endswith(b"0\r\n\r\n")
    return len(data) >= end + 4 + int(
        head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0]
    )


class Child(load.Child):
    """A subject's process that listens, with `CONNECTIONS` connections to it."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        modern: bool = False,
        connections: int = CONNECTIONS,
    ) -> None:
        super().__init__(command, environment, modern)
        self.connections: list[Connection] = []
        try:
            self.url = self.read().decode().strip()
            self.connections += [Connection(self, self.url) for _ in range(connections)]
        except Exception as error:
            self.close()
            raise Broken(f"no sessions over HTTP: {error!r}") from error

    def close(self) -> Any:
        for connection in self.connections:
            connection.socket.close()
        return super().close()


def one(child: Child, calls: int) -> Measured:
    """One connection, one call at a time."""
    connection = child.connections[0]
    requests = [connection.call(text=load.TEXT) for _ in range(calls)]
    connection.renew()
    times, responses = [], []
    cpu = child.cpu()
    for request in requests:
        begin = time.perf_counter()
        connection.socket.sendall(request)
        responses.append(connection.read())
        times.append(time.perf_counter() - begin)
    cpu = child.cpu() - cpu
    for response in responses:
        connection.expect(response)
    name = "http-modern" if child.envelope else "http-one"
    return {name: median(times), f"{name}-cpu": cpu / calls}


def many(child: Child, calls: int) -> Measured:
    """All connections, one call at a time on each."""
    poller, by_number = select.epoll(), {}
    todo = {}
    for connection in child.connections:
        todo[connection] = [
            connection.call(text=load.TEXT) for _ in range(max(1, calls // len(child.connections)))
        ]
    for connection in child.connections:
        connection.renew()
        poller.register(connection.socket, select.EPOLLIN)
        by_number[connection.socket.fileno()] = connection
    total, responses = sum(map(len, todo.values())), []
    cpu, begin = child.cpu(), time.perf_counter()
    for connection in child.connections:
        connection.socket.sendall(todo[connection].pop())
    while len(responses) < total:
        for number, _ in poller.poll():
            connection = by_number[number]
            responses.append(connection.read())
            if todo[connection]:
                connection.socket.sendall(todo[connection].pop())
    took, cpu = time.perf_counter() - begin, child.cpu() - cpu
    poller.close()
    for response in responses:
        child.connections[0].expect(response)
    return {"http-many": total / took, "http-many-cpu": cpu / total}


def progress(child: Child, reports: int) -> Measured:
    """Many reports on one response."""
    connection = child.connections[0]
    request = connection.request(load.count_of(child, reports))
    connection.renew()
    pieces, last = [], b""
    begin = time.perf_counter()
    connection.socket.sendall(request)
    while not last.endswith(END):
        pieces.append(connection.socket.recv(65536))
        if not pieces[-1]:
            raise child.broken(f"closed a connection after {last!r}")
        last = (last + pieces[-1])[-len(END) :]
    took = time.perf_counter() - begin
    load.expect_reports(child, _events(b"".join(pieces).partition(b"\r\n\r\n")[2]), reports)
    return {"http-progress": took / reports}


def _events(chunks: bytes) -> list[bytes]:
    """Return the data of the events in a chunked body. Events without data are ignored."""
    whole, at = [], 0
    while not chunks.startswith(b"0\r\n", at):
        end = chunks.index(b"\r\n", at)
        size = int(chunks[at:end], 16)
        whole.append(chunks[end + 2 : end + 2 + size])
        at = end + 4 + size
    return [line[6:] for line in b"".join(whole).splitlines() if line.startswith(b"data: ")]


def streams(child: Child, count: int) -> Measured:
    """Measure the memory of an open GET stream, without that of its session and its connection."""
    opened = []
    try:
        opened += [Connection(child, child.url) for _ in range(count)]
        before = child.resident()
        for connection in opened:
            connection.open_stream()
        return {"http-stream": (child.resident() - before) / count}
    finally:
        for connection in opened:
            connection.socket.close()


class Client(load.Child):
    """A client under test, with a hand-written server of its own that it calls."""

    def __init__(
        self,
        server: Sequence[str],
        client: Sequence[str],
        environment: Mapping[str, str],
    ) -> None:
        self.server = load.Child(server, environment)
        super().__init__([*client, self.server.read().decode().strip()], environment)

    def close(self) -> Any:
        status = super().close()
        self.server.close()
        return status


def client(child: load.Child, calls: int) -> Measured:
    one = json.loads(child.ask(b"sequential %d\n" % calls))
    return {
        "http-requests-cpu": one["cpu"],
        "http-client": one["p50"],
        "http-client-cpu": one["cpu"],
    }
