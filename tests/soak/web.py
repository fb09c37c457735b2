"""The server of a soak over HTTP, in a process of its own, and clients of it that vanish."""

from __future__ import annotations

import random
import subprocess
from typing import Any, List

import minimcp
from minimcp.http.headers import HttpRequest

from ..support import ROOT, WAIT
from ..transports.http_app import HANDSHAKE, call, message, post
from ..transports.http_peer import Peer
from .server import COMMAND

WAYS = {"alone": "auto", "session": "handshake", "older": "handshake"}
"""The ways to speak over HTTP, and the revision that a client asks for."""

INFO = {"name": "soak", "version": "1"}

STEPS = 50  # of a call that somebody leaves in the middle: it takes about 0.1 s


class WebServer:
    """A server that listens as long as this. Thread-safe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "http"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=str(ROOT), text=True
        )
        assert self._process.stdout is not None
        self.url, self._older = self._process.stdout.readline().split()
        self.pid, self._port = self._process.pid, int(self.url.split(":")[2].split("/")[0])

    def connect(self, way: str, **options: Any) -> minimcp.Client:
        return minimcp.connect(self._older if way == "older" else self.url, revision=WAYS[way], **options)

    def close(self) -> None:
        self._process.communicate(timeout=WAIT)

    def vanish(self, dice: random.Random) -> None:
        """Begin something, by raw bytes, and leave in the middle of it."""
        peers: List[Peer] = []
        try:
            VANISHING[dice.choice(list(WAYS))](self, dice, peers)
        finally:
            for peer in peers:
                (peer.reset if dice.random() < 0.5 else peer.close)()

    def _send(self, peers: List[Peer], request: HttpRequest, part: float = 1.0, **more: str) -> Peer:
        peers.append(Peer(self._port))
        data = wire(request, self._port, **more)
        return peers[-1].send(data[: int(len(data) * part)])

    def _leave_alone(self, dice: random.Random, peers: List[Peer]) -> None:
        """A request that is cut, a call that says nothing, a stream."""
        tool, size = dice.choice([("hold", 0), ("work", STEPS)])
        part = dice.choice([0.5, 1.0, 1.0])
        peer = self._send(peers, call(tool, {"tag": "vanished", "size": size}, token="p"), part)
        if tool == "work" and part == 1.0:
            peer.until(b"data:")

    def _leave_session(self, dice: random.Random, peers: List[Peer]) -> None:
        """A session with a stream and a call in it; it ends when nobody has used it for a while."""
        hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": INFO}
        opened = self._send(peers, post(message("initialize", hello))).response().headers
        session = {"mcp-session-id": opened["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        begun = post(message("notifications/initialized", id=None))
        assert self._send(peers, begun, **session).head()[0] == 202
        if dice.random() < 0.5:
            get = HttpRequest("GET", "/mcp", {"Accept": "text/event-stream"})
            assert self._send(peers, get, **session).head()[0] == 200
        params = {
            "name": "work", "arguments": {"tag": "vanished", "size": STEPS}, "_meta": {"progressToken": "p"},
        }
        self._send(peers, post(message("tools/call", params)), **session).until(b"data:")

    def _leave_older(self, dice: random.Random, peers: List[Peer]) -> None:
        self._send(peers, HttpRequest("GET", "/sse", {"Accept": "text/event-stream"})).until(b"data:")


VANISHING = {
    "alone": WebServer._leave_alone, "session": WebServer._leave_session, "older": WebServer._leave_older,
}


def wire(request: HttpRequest, port: int, **more: str) -> bytes:
    """The bytes of a request to a port of this machine."""
    body: Any = request.body
    headers = {**dict(request.headers), "host": f"localhost:{port}", **more}
    if request.method == "POST":
        headers["content-length"] = str(len(body))
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(body)
