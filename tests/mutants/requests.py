"""The kind `requests`: HTTP requests to a server process, each on a connection of its own, followed
by a good one."""

from __future__ import annotations

import json
import re
import selectors
import socket
import time
from typing import Any, Dict, List, Optional, Sequence

from ..faults.__main__ import OUR_HTTP
from ..faults.http_raw import Site, Terms
from ..wire.messages import EVERY, MODERN, check, encode, hello, modern, notification, request
from .drawing import draw, measured

TERMS = {"sessions": 20_000, "session_ttl": 5.0, "body": 5.0, "head": 5.0, "idle": 5.0}
# seconds in which no connection receives anything, because each waits for the rest of a body or for
# an event
QUIET = 0.15


def _post(body: bytes, **headers: str) -> bytes:
    given = {
        "content_type": "application/json",
        "accept": "application/json, text/event-stream",
        **headers,
    }
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return (
        f"POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Length: LENGTH\r\n{fields}\r\n".encode()
        + body
    )


def _corpus() -> List[bytes]:
    old = {"mcp_session_id": "SESSION", "mcp_protocol_version": "2025-11-25"}
    calls: List[Any] = [
        ("tools/call", {"name": "echo", "arguments": {"text": "h\u00e9llo"}}), ("resources/list", {}), ("ping", None),
        ("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}), ("prompts/get", {"name": "x"}), ("no/such", {}),
        ("tools/call", {"name": "pour", "arguments": {"events": 3, "size": 9}, "_meta": {"progressToken": "p"}}),
        ("tools/list", {}),
    ]  # fmt: skip
    found = [_post(encode(request("i", method, params)), **old) for method, params in calls]
    for method, params in calls:
        new = {
            "mcp_protocol_version": MODERN,
            "mcp_method": method,
            "mcp_name": (params or {}).get("name", "x"),
        }
        found.append(_post(encode(request("i", method, modern(params))), **new))
    found.append(_post(encode(request(1, "initialize", hello("2025-06-18")))))
    found.append(_post(encode(notification("notifications/initialized")), **old))
    found.append(
        _post(encode([request(1, "ping"), request("b", "tools/list")]), mcp_session_id="SESSION")
    )
    listening = modern({"notifications": {"toolsListChanged": True}})
    new = {"mcp_protocol_version": MODERN, "mcp_method": "subscriptions/listen"}
    found.append(_post(encode(request("l", "subscriptions/listen", listening)), **new))
    head, _, body = found[0].partition(b"\r\n\r\n")
    head = head.replace(b"Content-Length: LENGTH", b"Transfer-Encoding: chunked")
    found.append(b"%s\r\n\r\n%x;a=b\r\n%s\r\n0\r\nX-Sum: 1\r\n\r\n" % (head, len(body), body))
    stream = b"Accept: text/event-stream\r\nMcp-Session-Id: SESSION\r\nLast-Event-ID: 1-1\r\nOrigin: http://HOST\r\n"
    rest = [
        b"GET /mcp",
        b"DELETE /mcp",
        b"OPTIONS *",
        b"GET /sse",
        b"HEAD /mcp",
        b"PUT /messages?session=1",
    ]
    found += [first + b" HTTP/1.1\r\nHost: HOST\r\n" + stream + b"\r\n" for first in rest]
    return found + [b"".join(map(measured, (found[0], found[8], found[6])))]


CORPUS = _corpus()
FENCE = b"GET /nothing-is-here HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"
_RESPONSE = re.compile(
    rb"HTTP/1\.[01] ([1-5][0-9][0-9]) ?[ -~]*\r\n((?:[!-9;-~]+: ?[ -~\x80-\xff]*\r\n)*)\r\n"
)


class Requests:
    """Sends them to a server. As `tests.mutants.running.Judge`."""

    batch = 256

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.site = Site(OUR_HTTP, patience, Terms(**TERMS), told=TERMS)  # type: ignore[arg-type]
        self.site.revisions = EVERY
        self.host, self.seen = b"127.0.0.1:%d" % self.site.port, 0

    def make(self, name: str) -> bytes:
        return measured(draw(name, CORPUS))

    def judge(self, names: Sequence[str]) -> Optional[str]:
        """Return what is wrong with the responses: none, an invalid one, a traceback, or a server
        that has ended."""
        try:
            session = self.site.session("2025-11-25")
            id = session.headers["mcp-session-id"].encode()
            heard = self.exchange([self.make(name).replace(b"SESSION", id) for name in names])
            faults = [
                f"{fault}: {data[-300:]!r}" for data in heard for fault in [fault_of(data)] if fault
            ]
            session.end()
            self.site.probe()
            log = self.site.stderr()[self.seen :]
            self.seen += len(log)
            faults += [log[log.index("Traceback") :][-500:]] if "Traceback" in log else []
        except AssertionError as error:
            return f"{error}"[:300]
        return faults[0] if faults else None

    def exchange(self, mutants: Sequence[bytes]) -> List[bytes]:
        """Return the bytes from each connection. When all are silent, no more is sent, and the
        server must close them."""
        heard: Dict[socket.socket, bytearray] = {}
        until, over = time.monotonic() + self.patience, False
        with selectors.DefaultSelector() as waiting:
            for data in mutants:
                peer = socket.create_connection(("127.0.0.1", self.site.port), self.patience)
                peer.settimeout(self.patience)
                try:
                    peer.sendall((data + FENCE).replace(b"HOST", self.host))
                except ConnectionError:
                    pass  # it was refused before its end
                heard[peer] = bytearray()
                waiting.register(peer, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(QUIET)
                assert time.monotonic() < until, f"{len(waiting.get_map())} connections do not end"
                for key, _ in ready:
                    peer = key.fileobj
                    try:
                        data = peer.recv(1 << 18)
                    except ConnectionError:
                        data = b""
                    heard[peer] += data
                    if not data:
                        assert heard[peer] or over, "an end without a response"
                        waiting.unregister(peer)
                        peer.close()
                for key in () if ready or over else list(waiting.get_map().values()):
                    key.fileobj.shutdown(socket.SHUT_WR)
                over = over or not ready
        return [bytes(data) for data in heard.values()]

    def memory(self) -> float:
        return self.site.memory()

    def close(self) -> None:
        self.site.dispose()


def fault_of(data: bytes) -> Optional[str]:
    """Return what is wrong with the data of one connection: only whole responses are allowed,
    except for a stream at the end."""
    while data:
        head = _RESPONSE.match(data)
        if head is None:
            return "no response"
        status, fields = int(head[1]), head[2].decode("latin-1").lower()
        data = data[head.end() :]
        if status >= 500 and status not in (501, 505):
            return f"status {status}"
        length = re.search(r"^content-length: ?(\d+)\r$", fields, re.M)
        if "transfer-encoding: chunked" in fields:
            data, whole = _chunks(data)
            if not whole:
                return None if not data else "no chunk"
        elif length and status != 204:
            body, data = data[: int(length[1])], data[int(length[1]) :]
            if _RESPONSE.match(body + data):  # after that to a HEAD
                data = body + data
            elif body and "application/json" in fields:
                check(json.loads(body))
    return None


def _chunks(data: bytes) -> Any:
    """Return the bytes after a chunked body, and whether the body is complete."""
    while True:
        size, _, rest = data.partition(b"\r\n")
        if not re.fullmatch(rb"[0-9a-f]+", size):
            return data, False
        data = rest[int(size, 16) + 2 :]
        if size == b"0":
            return data, True
