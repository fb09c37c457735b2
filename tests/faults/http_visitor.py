"""One connection to an HTTP server under trial: raw bytes out, responses in, each wait bounded as a whole."""

from __future__ import annotations

import re
import socket
import time
from typing import Dict, Iterator, Optional, Tuple

from ..transports.http_peer import Peer, Response
from .raw import shown

_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: .*)?")


class Visitor(Peer):
    """One connection; each wait is bounded as a whole."""

    def __init__(self, port: int, patience: float, *, taking: Optional[int] = None) -> None:
        self.patience = patience
        self.socket = socket.socket()
        try:
            self.socket.settimeout(patience)
            if taking is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, taking)
            self.socket.connect(("127.0.0.1", port))
        except OSError as error:
            self.socket.close()
            raise AssertionError(f"no connection to the server: {error}") from None
        self._rest = b""
        self._due = 0.0

    def __enter__(self) -> "Visitor":
        return self

    def push(self, data: bytes) -> int:
        """Send as much of this as the server takes; how much that was. No error: it may have closed."""
        view, end = memoryview(data), time.monotonic() + self.patience
        taken = 0
        while taken < len(view) and time.monotonic() < end:
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                taken += self.socket.send(view[taken : taken + 65536])
            except OSError:
                break
        return taken

    def send(self, data: bytes) -> "Visitor":
        """Send all of this."""
        assert self.push(data) == len(data), "the server does not take a request"
        return self

    def more(self) -> bytes:
        """The next bytes; empty when the server has closed, however it did that."""
        left = self._due - time.monotonic()
        assert left > 0, f"nothing came within {self.patience:g} s"
        self.socket.settimeout(left)
        try:
            return self.socket.recv(1 << 18)
        except ConnectionError:
            return b""
        except socket.timeout:
            raise AssertionError(f"nothing came within {self.patience:g} s") from None

    def wait(self, seconds: Optional[float] = None) -> "Visitor":
        self._due = time.monotonic() + (self.patience if seconds is None else seconds)
        return self

    def head(self) -> Tuple[int, Dict[str, str]]:
        """Status and headers of the next response that is not 100 Continue."""
        self.wait()
        while True:
            try:
                first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
            except EOFError as error:
                raise AssertionError(f"closed without a response: {shown(error.args[0])}") from None
            status = _STATUS.fullmatch(first)
            assert status, f"no response: {shown(first.encode())}"
            if status[1] != "100":
                pairs = [line.partition(":") for line in lines]
                return int(status[1]), {name.lower(): value.strip() for name, _, value in pairs}

    def answer(self, method: str = "POST") -> Response:
        """The next response, to a request with this method: with a length, in chunks, or up to the end."""
        status, headers = self.head()
        self.wait()
        try:
            return Response(status, headers, self._body(method, status, headers))
        except EOFError as error:
            raise AssertionError(f"half a response, of status {status}: {shown(error.args[0])}") from None

    def _body(self, method: str, status: int, headers: Dict[str, str]) -> bytes:
        if method == "HEAD" or status in (204, 304):
            return b""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(self.chunks())
        if "content-length" in headers:
            return self.exactly(int(headers["content-length"]))
        return self.rest()

    def chunks(self) -> Iterator[bytes]:
        """The pieces of a body, up to its end; the wait begins anew with each."""
        while True:
            self.wait()
            piece = self.chunk()
            if not piece:
                return
            yield piece

    def closes(self, seconds: Optional[float] = None) -> bytes:
        """What comes until the server closes."""
        self.wait(seconds)
        return self.rest()

    def has_closed(self) -> bool:
        """Whether the server has closed, by now; what has come is kept."""
        self.socket.settimeout(0)
        try:
            while True:
                data = self.socket.recv(1 << 18)
                self._rest += data
                if not data:
                    return True
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    @property
    def came(self) -> bytes:
        """What has come and was not looked at."""
        return self._rest
