"""A proxy that changes HTTP like proxies on the internet, for tests on this machine.

It reads only line ends and lengths. It forwards each connection to the server, and changes the
responses. ``python -m tests.faults.toy_proxy COMMAND...`` runs an HTTP server whose error responses
become status 200 in the proxy.
"""

from __future__ import annotations

import gzip
import re
import select
import socket
import subprocess
import sys
from typing import NamedTuple, Optional

from ..proxying import Proxy
from ..transports.http_peer import Peer


class Habits(NamedTuple):
    """The behavior of a proxy."""

    idle: Optional[float] = (
        None  # seconds of silence of a response after which it cuts the connection; None never does
    )
    pieces: Optional[int] = (
        None  # bytes that it sends at a time, each as a chunk of its own: characters are torn
    )
    buffers: bool = (
        False  # keep a response back until its end, unless it has ``X-Accel-Buffering: no``
    )
    gzips: bool = False  # compress transformable responses, for clients that accept it
    cut_after: Optional[int] = (
        None  # bytes of an event stream after which it cuts the connection, once
    )


class ToyProxy(Proxy):
    """Listens in front of the server at a port; a context manager."""

    def __init__(self, port: int, habits: Habits) -> None:
        super().__init__()
        self._server, self.habits = port, habits
        self.cuts = self.idle_cuts = self.comments = 0

    def serve(self, client: socket.socket) -> None:
        server = _Server(self.connect(self._server))
        self.begin(self.pump, client, server.socket)
        try:
            while True:
                server.patience = None
                head = server.until(b"\r\n\r\n")
                server.patience = self.habits.idle
                self._response(client, server, head)
        finally:
            self.drop(server.socket)

    def _response(self, client: socket.socket, server: "_Server", head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        status = first.split(" ")[1]
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        held = self.habits.buffers and headers.get("x-accel-buffering", "").lower() != "no"
        zipped = self.habits.gzips and "no-transform" not in headers.get("cache-control", "")
        if status in ("100", "204", "304"):
            client.sendall(head)
        elif "content-length" in headers or held or zipped:
            length = headers.pop("content-length", None)
            body = (
                b"".join(iter(server.chunk, b"")) if length is None else server.exactly(int(length))
            )
            if zipped and body:
                body, headers["content-encoding"] = gzip.compress(body), "gzip"
            headers.pop("transfer-encoding", None)
            torn = self.habits.pieces is not None and body
            headers.update(
                {"transfer-encoding": "chunked"} if torn else {"content-length": str(len(body))}
            )
            named = (f"{name}: {value}" for name, value in headers.items())
            client.sendall("\r\n".join([first, *named, "", ""]).encode("latin-1"))
            if torn:
                self._pieces(client, body)
            client.sendall(b"0\r\n\r\n" if torn else body)
        else:
            client.sendall(head)
            self._stream(
                client, server, headers.get("content-type", "").startswith("text/event-stream")
            )

    def _pieces(self, client: socket.socket, data: bytes) -> None:
        size = self.habits.pieces or len(data) or 1
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _stream(self, client: socket.socket, server: "_Server", of_events: bool) -> None:
        passed, after = 0, self.habits.cut_after
        try:
            for chunk in iter(server.chunk, b""):
                self.comments += chunk.startswith(b":")
                passed += len(chunk)
                if of_events and after is not None and passed > after and not self.cuts:
                    self.cuts += 1
                    self._pieces(client, chunk[: max(0, after - passed + len(chunk))])
                    raise EOFError
                self._pieces(client, chunk)
        except TimeoutError:
            self.idle_cuts += 1
            raise EOFError from None
        client.sendall(b"0\r\n\r\n")


class _Server(Peer):
    """The connection to the server, which may be silent for `patience` seconds."""

    patience: Optional[float] = None

    def __init__(self, sock: socket.socket) -> None:
        self.socket, self._rest = sock, b""

    def more(self) -> bytes:
        if not select.select([self.socket], (), (), self.patience)[0]:
            raise TimeoutError
        return super().more()


class Agreeing(Proxy):
    """Run the proxy in front of a server, and turn the server's error responses into successes."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._server = port

    def serve(self, client: socket.socket) -> None:
        server = self.connect(self._server)
        self.begin(self.pump, client, server)
        self.pump(
            server,
            client,
            lambda data: re.sub(rb"^HTTP/1.1 [45]\d\d [^\r]*", b"HTTP/1.1 200 OK", data),
        )
        self.drop(server)


def main() -> None:
    server = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE)
    assert server.stderr is not None
    found = None
    while found is None:
        found = re.search(rb"http://127\.0\.0\.1:(\d+)", server.stderr.readline())
    with Agreeing(int(found[1])) as proxy:
        print(f"http://127.0.0.1:{proxy.port}/mcp", flush=True)
        server.wait()


if __name__ == "__main__":
    main()
