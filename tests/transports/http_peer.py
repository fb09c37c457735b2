"""A raw client for tests of servers: the test chooses every byte, and every wait has a limit."""

from __future__ import annotations

import socket
import struct
from typing import Dict, NamedTuple, Tuple

from tests.support import WAIT


class Response(NamedTuple):
    """A response: its status, its headers with names in lower case, and its body."""

    status: int
    headers: Dict[str, str]
    body: bytes


class Peer:
    """One connection to a port of this machine."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), WAIT)
        self._rest = b""

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> "Peer":
        self.socket.sendall(data)
        return self

    def get(self, path: str = "/", more: str = "") -> "Peer":
        return self.send(f"GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n".encode())

    def post(self, body: bytes, path: str = "/", more: str = "") -> "Peer":
        head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        return self.send(head.encode() + body)

    def more(self) -> bytes:
        """The next bytes; empty when the server has closed, however it did that."""
        try:
            return self.socket.recv(65536)
        except ConnectionError:
            return b""

    def until(self, end: bytes) -> bytes:
        """All bytes up to and with these.

        Raises:
            EOFError: The server has closed before.
        """
        while end not in self._rest:
            data = self.more()
            if not data:
                raise EOFError(self._rest)
            self._rest += data
        found, _, self._rest = self._rest.partition(end)
        return found + end

    def exactly(self, size: int) -> bytes:
        while len(self._rest) < size:
            data = self.more()
            if not data:
                raise EOFError(self._rest)
            self._rest += data
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def rest(self) -> bytes:
        data = self.more()
        while data:
            self._rest += data
            data = self.more()
        found, self._rest = self._rest, b""
        return found

    def head(self) -> Tuple[int, Dict[str, str]]:
        """Status and headers of the next response."""
        first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
        assert first.startswith("HTTP/1.1 "), first
        return int(first.split(" ")[1]), {
            line.split(": ")[0].lower(): line.split(": ", 1)[1] for line in lines
        }

    def response(self) -> Response:
        """Read the next response, whose body has a length or is chunked."""
        status, headers = self.head()
        if headers.get("transfer-encoding") == "chunked":
            return Response(status, headers, b"".join(iter(self.chunk, b"")))
        return Response(status, headers, self.exactly(int(headers.get("content-length", "0"))))

    def chunk(self) -> bytes:
        data = self.exactly(int(self.until(b"\r\n"), 16))
        assert self.exactly(2) == b"\r\n"
        return data

    def finish(self) -> "Peer":
        """Send no more, and still read."""
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def finish_quietly(self) -> None:
        """Call `finish`, unless the server has already closed the connection."""
        try:
            self.finish()
        except OSError:
            pass

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self.socket.close()
