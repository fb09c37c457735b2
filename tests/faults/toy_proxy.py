"""A proxy that does to HTTP what proxies in between do. Standard library alone; for tests, on this machine.

It looks at nothing but line ends and lengths: each connection is carried to the server, and the answers are changed.
"""

from __future__ import annotations

import gzip
import select
import socket
import threading
import time
from typing import Dict, Iterator, List, NamedTuple, Optional


class Habits(NamedTuple):
    """What a proxy does."""

    idle: Optional[float] = None  # seconds of silence of a response after which it cuts the connection; None never does
    pieces: Optional[int] = None
    buffers: bool = False  # keep a response back until its end, unless it has ``X-Accel-Buffering: no``
    gzips: bool = False  # compress what may be transformed, for those who take it
    cut_after: Optional[int] = None


class ToyProxy:
    """Listens from its construction to `close`; a context manager."""

    def __init__(self, port: int, habits: Habits) -> None:
        self._server, self.habits = port, habits
        self.cuts = 0
        self.idle_cuts = 0
        self.comments = 0
        self._sockets: List[socket.socket] = []
        self._threads: List[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._begin(self._accept)

    def __enter__(self) -> "ToyProxy":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all connections; returns when its threads have ended."""
        with self._lock:
            self._closed = True
            sockets, threads = [self._listener, *self._sockets], list(self._threads)
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in threads:
            thread.join(10)
        for each in sockets:
            each.close()

    def _begin(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _keep(self, end: socket.socket) -> bool:
        with self._lock:
            if not self._closed:
                self._sockets.append(end)
            return not self._closed

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server), 10)
            except OSError:
                client.close()
                continue
            if not (self._keep(client) and self._keep(server)):
                client.close()
                server.close()
                return
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(self._there, client, server)
            self._begin(self._back, client, server)

    def _there(self, client: socket.socket, server: socket.socket) -> None:
        try:
            data = client.recv(65536)
            while data:
                server.sendall(data)
                data = client.recv(65536)
            server.shutdown(socket.SHUT_RDWR)  # it has left
        except OSError:
            _shut(server)

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        """Carry the responses, one after the other."""
        try:
            reader = _Reader(server, self.habits.idle)
            while True:
                head = reader.until(b"\r\n\r\n", idle=None)
                self._response(client, reader, head)
        except (OSError, EOFError):
            pass
        _shut(client)
        _shut(server)

    def _response(self, client: socket.socket, reader: "_Reader", head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        if first.split(" ")[1] == "100":
            client.sendall(head)
            return
        headers: Dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        stream = headers.get("content-type", "").startswith("text/event-stream")
        held = self.habits.buffers and headers.get("x-accel-buffering", "").lower() != "no"
        zipped = self.habits.gzips and "no-transform" not in headers.get("cache-control", "")
        if first.split(" ")[1] in ("204", "304"):
            client.sendall(head)
        elif "content-length" in headers:
            self._whole(client, headers, first, reader.exactly(int(headers["content-length"])), zipped)
        elif held or zipped:
            self._whole(client, headers, first, b"".join(reader.chunks()), zipped)
        else:
            client.sendall(head)
            self._stream(client, reader, stream)

    def _whole(
        self, client: socket.socket, headers: Dict[str, str], first: str, body: bytes, zipped: bool
    ) -> None:
        headers = {**headers, "content-length": str(len(body))}
        if zipped and body:
            body = gzip.compress(body)
            headers.update({"content-encoding": "gzip", "content-length": str(len(body))})
        headers.pop("transfer-encoding", None)
        if self.habits.pieces is not None and body:
            headers.pop("content-length")
            headers["transfer-encoding"] = "chunked"
        lines = "\r\n".join([first, *(f"{name}: {value}" for name, value in headers.items()), "", ""])
        client.sendall(lines.encode("latin-1"))
        if "transfer-encoding" not in headers:
            client.sendall(body)
            return
        self._pieces(client, body)
        client.sendall(b"0\r\n\r\n")

    def _pieces(self, client: socket.socket, data: bytes) -> None:
        size = self.habits.pieces or len(data) or 1
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            client.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))

    def _stream(self, client: socket.socket, reader: "_Reader", stream: bool) -> None:
        passed = 0
        try:
            for chunk in reader.chunks():
                self.comments += chunk.startswith(b":")
                passed += len(chunk)
                after = self.habits.cut_after
                if stream and after is not None and passed > after and not self.cuts:
                    self.cuts += 1
                    self._pieces(client, chunk[: max(0, after - passed + len(chunk))])
                    raise EOFError
                self._pieces(client, chunk)
        except _Silent:
            self.idle_cuts += 1
            raise EOFError from None
        client.sendall(b"0\r\n\r\n")


class _Silent(Exception):
    """Nothing came for too long."""


class _Reader:
    def __init__(self, server: socket.socket, idle: Optional[float]) -> None:
        self._server, self._idle = server, idle
        self._rest = b""

    def _more(self, idle: Optional[float]) -> None:
        due = None if idle is None else time.monotonic() + idle
        left = None if due is None else max(0.0, due - time.monotonic())
        if not select.select([self._server], (), (), left)[0]:
            raise _Silent
        data = self._server.recv(65536)
        if not data:
            raise EOFError
        self._rest += data

    def until(self, end: bytes, *, idle: Optional[float]) -> bytes:
        """All up to and with these bytes."""
        while end not in self._rest:
            self._more(idle)
        found, _, self._rest = self._rest.partition(end)
        return found + end

    def exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more(self._idle)
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def chunks(self) -> Iterator[bytes]:
        while True:
            size = int(self.until(b"\r\n", idle=self._idle), 16)
            chunk = self.exactly(size)
            self.exactly(2)
            if not size:
                return
            yield chunk


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
