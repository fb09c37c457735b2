"""A scripted HTTP server on raw sockets: it records its requests, and the test chooses every byte
of its responses."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Tuple

from .proxying import Proxy
from .support import WAIT

DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "peer", "version": "1"},
}
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}


class Heard:
    """One request as it arrived, with names of headers in lower case."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.verb, self.path, _ = first.split(" ")
        self.headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        self.body = body
        self.message: Any = json.loads(body) if body else {}
        self.method: str = (
            self.message.get("method", "an answer") if self.verb == "POST" else self.verb
        )

    def __repr__(self) -> str:
        return f"<{self.verb} {self.path} {self.method}>"


class Wire:
    def __init__(self, sock: socket.socket, id: Any) -> None:
        self.sock, self.id = sock, id

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def whole(
        self,
        status: int,
        body: bytes = b"",
        kind: Optional[str] = "application/json",
        **headers: str,
    ) -> None:
        """A response with a length; `_` in a header's name stands for `-`."""
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.raw("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    def result(self, result: Any, **headers: str) -> None:
        self.whole(
            200, json.dumps({"jsonrpc": "2.0", "id": self.id, "result": result}).encode(), **headers
        )

    def error(self, code: int, message: str = "no", data: Any = None, status: int = 400) -> None:
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.whole(status, json.dumps({"jsonrpc": "2.0", "id": self.id, "error": error}).encode())

    def stream(self, **headers: str) -> None:
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = (
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
        )
        self.raw(f"{head}{more}\r\n".encode())

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, message: Any, id: str = "", retry: int = 0, event: str = "") -> None:
        """An event; a message that is a str goes as it is."""
        data = message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})
        fields = (("event", event), ("id", id), ("retry", retry))
        head = "".join(f"{name}: {value}\n" for name, value in fields if value)
        self.chunk(f"{head}data: {data}\n\n".encode())

    def answer(self, result: Any = None, id: str = "") -> None:
        self.event({"id": self.id, "result": DONE if result is None else result}, id)

    def end(self) -> None:
        self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)


Say = Callable[[Heard, Wire], Any]


class Peer(Proxy):
    """A server for one test. `said` maps a method to its answer, or an HTTP verb other than POST.

    Args:
        handshake: The era of the default answers.
        session: The id of the session that `initialize` opens; None opens none.
        tls: The context with its certificate; None serves without TLS.
    """

    def __init__(
        self,
        said: Optional[Dict[str, Say]] = None,
        *,
        handshake: bool = False,
        session: Any = "s-1",
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__()
        self.heard: List[Heard] = []
        self.came = threading.Condition()
        self.connections = 0
        self.said = {**(_handshake(session) if handshake else _alone()), **(said or {})}
        self._tls = tls
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}/mcp"

    def serve(self, client: socket.socket) -> None:
        with self.came:
            self.connections += 1
        sock = (
            client
            if self._tls is None
            else self.keep(self._tls.wrap_socket(client, server_side=True))
        )
        try:
            with sock.makefile("rb") as file:
                for head, body in iter(lambda: read_request(file), None):
                    heard = Heard(head[:-4], body)
                    with self.came:
                        self.heard.append(heard)
                        self.came.notify_all()
                    wire = Wire(
                        sock, heard.message.get("id") if isinstance(heard.message, dict) else None
                    )
                    self.said.get(heard.method, _unknown)(heard, wire)
        finally:
            self.drop(sock)

    def all(self, method: str) -> List[Heard]:
        """Return the received requests of one method or verb."""
        return [heard for heard in list(self.heard) if heard.method == method]

    def wait_for(self, method: str, count: int = 1) -> Heard:
        """Wait until this was received that many times, and return the last one."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.all(method)) >= count, WAIT), self.heard
        return self.all(method)[count - 1]

    @property
    def methods(self) -> List[str]:
        return [heard.method for heard in list(self.heard)]


def read_request(file: BinaryIO) -> Optional[Tuple[bytes, bytes]]:
    """Return head and body of the next request, or None if no complete one follows."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = file.readline()
        if not line:
            return None
        head += line
    found = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    size = int(found[0].split(b":")[1]) if found else 0
    body = file.read(size)
    return (head, body) if len(body) == size else None


def _unknown(heard: Heard, wire: Wire) -> None:
    if heard.verb != "POST":
        wire.whole(405)
    elif wire.id is None or heard.method == "an answer":
        wire.whole(202, kind=None)
    else:
        wire.error(-32601, "Method not found", status=404)


def _alone() -> Dict[str, Say]:
    return {
        "server/discover": lambda heard, wire: wire.result(DISCOVERED),
        "tools/call": lambda heard, wire: wire.result(DONE),
    }


def _handshake(session: Optional[str]) -> Dict[str, Say]:
    headers = {} if session is None else {"Mcp_Session_Id": session}
    return {
        "server/discover": lambda heard, wire: wire.error(-32600, "no session"),
        "initialize": lambda heard, wire: wire.result(INITIALIZED, **headers),
        "tools/call": lambda heard, wire: wire.result(DONE),
        "DELETE": lambda heard, wire: wire.whole(204, kind=None),
    }
