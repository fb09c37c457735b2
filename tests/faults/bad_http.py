"""``python bad_http.py FAULT``: a small HTTP server with one fault, for tests of the runner: standard library alone.

Without a fault ("none") it does right what the cases ask that it is tried with, so it is the fault that they find. It
has a thread for each connection, which is no fault as long as there are few.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

FAULT = sys.argv[1]
TERMS = {"head": 10, "body": 30, "idle": 5, "write": 30, "connections": 1000, "body_bytes": 4 << 20}
TERMS.update(json.loads(os.environ.get("FAULTS_TERMS", "{}")))
PATH, METHODS = "/mcp", ("POST", "GET", "DELETE")
KNOWN = (*METHODS, "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT")
TOOLS = ("echo", "pour", "raiser", "spoil")
LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/(1\.[01])")
FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*")
HOST = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]+)?")
ORIGIN = re.compile(r"https?://(127\.0\.0\.1|localhost)(:[0-9]+)?")
UTF8 = re.compile(r'application/json(;\s*charset="?utf-8"?)?', re.I)

lock = threading.Lock()
connections: List[Connection] = []
streaming: List[str] = []
hoard: List[Any] = []


class Refused(Exception):
    """A response that is no success."""

    def __init__(self, status: int, close: bool = False, **headers: str) -> None:
        super().__init__(status)
        self.status, self.close, self.headers = status, close, headers


class Gone(Exception):
    """The peer has left, or is too slow to be told."""


class Connection:
    """One peer, on a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket, self.rest, self.idle = sock, bytearray(), False

    # Reading.

    def more(self, due: float) -> None:
        """Read something."""
        left = None if FAULT == "patient" else due - time.monotonic()
        if left is not None and left <= 0:
            raise Refused(408, close=True)
        self.socket.settimeout(left)
        try:
            data = self.socket.recv(65536)
        except socket.timeout:
            raise Refused(408, close=True) from None
        except OSError:
            raise Gone from None
        if not data:
            raise Refused(400, close=True) if self.rest else Gone
        self.rest += data

    def head(self) -> bytes:
        """The head of the next request."""
        if not self.rest:
            try:
                self.more(time.monotonic() + (TERMS["idle"] if self.idle else TERMS["head"]))
            except Refused:
                raise Gone from None
        self.idle, due = False, time.monotonic() + TERMS["head"]
        while b"\r\n\r\n" not in self.rest:
            if re.search(rb"(?<!\r)\n", self.rest) or self.rest[:1] <= b" ":
                raise Refused(400, close=True)
            self.limit(self.rest)
            self.more(due)
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        self.limit(head)
        return bytes(head)

    def limit(self, head: bytearray) -> None:
        """Refuse a head that is too long."""
        if FAULT != "long":
            first = head.find(b"\r\n")
            if first > 8192 or (first < 0 and len(head) > 8192):
                raise Refused(414, close=True)
            if len(head) > 32768 or head.count(b"\r\n") > 100:
                raise Refused(431, close=True)

    def exactly(self, size: int, due: float) -> bytes:
        """So many bytes."""
        while len(self.rest) < size:
            self.more(due)
        found = bytes(self.rest[:size])
        del self.rest[:size]
        return found

    def body(self, fields: Dict[str, str], newer: bool) -> bytes:
        """The body of this request."""
        due, coding = time.monotonic() + TERMS["body"], fields.get("transfer-encoding")
        if coding is None:
            return self.exactly(length(fields), due)
        if "content-length" in fields or coding.lower() != "chunked" or not newer:
            raise Refused(400, close=True)
        whole, small = bytearray(), 0
        while True:
            while b"\r\n" not in self.rest:
                self.more(due)
            line, _, self.rest = self.rest.partition(b"\r\n")
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}(;[\t -~]*)?", line):
                raise Refused(400, close=True)
            size = int(line.partition(b";")[0], 16)
            small += size < 16
            if (len(whole) + size > TERMS["body_bytes"] or small > 10_000) and FAULT != "greedy":
                raise Refused(413, close=True)
            whole += self.exactly(size, due)
            if self.exactly(2, due) != b"\r\n":
                raise Refused(400, close=True)
            if not size:
                return bytes(whole)

    # Writing.

    def send(self, data: bytes) -> None:
        """Send all of it, or give up."""
        self.socket.settimeout(None if FAULT == "patient" else TERMS["write"])
        try:
            self.socket.sendall(data)
        except OSError:
            raise Gone from None

    def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole response."""
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode() + (b"" if headers.pop("head", "") else body))

    # Serving.

    def run(self) -> None:
        """Serve until it ends."""
        try:
            with contextlib.suppress(Gone):
                while self.one():
                    self.idle = True
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
                self.socket.settimeout(0.5)
                while self.socket.recv(65536):
                    pass
        finally:
            with lock:
                connections.remove(self)
            if FAULT == "leaks":
                hoard.append(self.socket)
            else:
                self.socket.close()

    def one(self) -> bool:
        """Serve one request; whether there may be another."""
        method, keep = "", False
        try:
            method, target, version, fields = parse(self.head())
            newer, connection = version == "1.1", fields.get("connection", "").lower()
            keep = connection != "close" if newer else connection == "keep-alive"
            judge(fields, target)
            if fields.get("expect") == "100-continue":
                self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
            elif "expect" in fields:
                raise Refused(417, close=True)
            body = b"" if FAULT == "desyncs" and target != PATH else self.body(fields, newer)
            self.serve(method, target, fields, body, keep and not newer)
        except Refused as refused:
            close = refused.close or not keep
            more = {"Connection": "close"} if close else {}
            text = b"" if method == "HEAD" else b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}'
            kind = {"Content_Type": "application/json"}
            self.respond(refused.status, text, **kind, **refused.headers, **more)
            return not close
        return keep

    def serve(self, method: str, target: str, fields: Dict[str, str], body: bytes, told: bool) -> None:
        """Answer what is well framed."""
        if target != PATH:
            raise Refused(405, Allow=", ".join(METHODS)) if method == "CONNECT" else Refused(404)
        if FAULT == "obliging" and method not in METHODS:
            self.respond(200, body)
            return
        if method not in METHODS:
            raise Refused(405 if method in KNOWN else 501, Allow=", ".join(METHODS))
        if method == "GET":
            self.listen(fields)
        elif method == "DELETE":
            self.respond(200 if fields.get("mcp-session-id") == "s" else 400)
        else:
            self.post(fields, body, {"Connection": "keep-alive"} if told else {})

    def listen(self, fields: Dict[str, str]) -> None:
        """The stream of a session."""
        session = fields.get("mcp-session-id", "")
        if session != "s":
            raise Refused(400)
        with lock:
            if session in streaming and FAULT != "double":
                raise Refused(409)
            streaming.append(session)
        try:
            self.send(b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            self.socket.settimeout(None)
            with contextlib.suppress(OSError):
                self.socket.recv(1)
        finally:
            with lock:
                streaming.remove(session)
        raise Gone

    def post(self, fields: Dict[str, str], body: bytes, more: Dict[str, str]) -> None:
        """A message."""
        if not UTF8.fullmatch(fields.get("content-type", "")) and FAULT != "typeless":
            raise Refused(415)
        if "content-encoding" in fields:
            raise Refused(415)
        if "text/event-stream" not in fields.get("accept", ""):
            raise Refused(406)
        try:
            message = json.loads(body)
            method, params = message["method"], message.get("params", {})
        except Exception:
            raise Refused(500 if FAULT == "fails" else 400) from None
        if method != "initialize" and fields.get("mcp-session-id") != "s":
            raise Refused(404)
        if "id" not in message:
            self.respond(202)
        elif method == "tools/call" and params["name"] in ("pour", "spoil"):
            self.stream(message["id"], params["name"], params["arguments"])
        else:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(method, params)}
            more = {**more, "Mcp_Session_Id": "s"} if method == "initialize" else more
            self.respond(200, json.dumps(answer).encode(), Content_Type="application/json", **more)

    def stream(self, id: Any, tool: str, arguments: Any) -> None:
        """A response of events."""
        self.send(b"HTTP/1.1 200 x\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(arguments.get("events", 1)):
            self.event({"method": "notifications/message", "params": {"level": "error", "data":
                        "x" * arguments.get("size", 1)}})  # fmt: skip
        if not (tool == "spoil" and FAULT == "halves"):
            self.event({"id": id, "result": {"content": [], "isError": tool == "spoil"}})
        self.send(b"0\r\n\r\n")

    def event(self, message: Dict[str, Any]) -> None:
        """One event."""
        data = b"data: %s\n\n" % json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send(b"%x\r\n%s\r\n" % (len(data), data))


def length(fields: Dict[str, str]) -> int:
    """Of a body."""
    text = fields.get("content-length", "0")
    with contextlib.suppress(ValueError):
        if (text.isascii() and text.isdigit() and len(text) < 20) or FAULT == "lax":
            size = int(text)
            if size > TERMS["body_bytes"] and FAULT != "greedy":
                raise Refused(413, close=True)
            return size
    raise Refused(400, close=True)


def parse(head: bytes) -> Tuple[str, str, str, Dict[str, str]]:
    """Method, target, version and headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    found = LINE.fullmatch(first)
    fields: Dict[str, str] = {}
    for line in lines:
        field = FIELD.fullmatch(line)
        name = field[1].lower() if field else ""
        if field is None or (name in fields and FAULT != "lax") or name.replace("_", "-") == "content-length" != name:
            raise Refused(400, close=True)
        fields[name] = field[2]
    if found is None or "host" not in fields:
        raise Refused(400, close=True)
    return found[1], found[2], found[3], fields


def judge(fields: Dict[str, str], target: str) -> None:
    """Refuse strangers."""
    if FAULT != "open":
        if not HOST.fullmatch(fields["host"]):
            raise Refused(421, close=True)
        if "origin" in fields and not ORIGIN.fullmatch(fields["origin"]):
            raise Refused(403, close=True)
    if "://" in target:
        raise Refused(400, close=True)


def result_of(method: str, params: Any) -> Dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "bad", "version": "0"}}
    if method == "tools/list":
        return {"tools": [{"name": name} for name in TOOLS]}
    if method != "tools/call":
        return {}
    if params["name"] == "echo":
        return {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    try:
        raise ValueError("it failed")
    except ValueError:
        text = traceback.format_exc() if FAULT == "traces" else "it failed"
        return {"content": [{"type": "text", "text": text}], "isError": True}


def welcome(sock: socket.socket) -> None:
    """Serve a new peer, if there is room; an idle one makes some."""
    connection = Connection(sock)
    with lock:
        crowded = len(connections) >= TERMS["connections"] and FAULT != "uncapped"
        idle = [one for one in connections if one.idle] if crowded else []
        for one in idle[:1]:
            with contextlib.suppress(OSError):
                one.socket.shutdown(socket.SHUT_RDWR)
        if not crowded or idle:
            connections.append(connection)
            threading.Thread(target=connection.run, daemon=True).start()
            return
    with contextlib.suppress(Gone):
        connection.respond(503, Connection="close")
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)
        sock.settimeout(0.5)
        sock.recv(65536)
    sock.close()


def main() -> None:
    """Serve for ever."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}", flush=True)
    while True:
        welcome(listener.accept()[0])


if __name__ == "__main__":
    main()
