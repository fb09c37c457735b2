"""``python bad_site.py FAULT``: a small HTTP server with one fault, for the tests of C53 to C64. Standard library only.

Without a fault ("none") it does right what the cases ask that it is tried with, so it is the fault that they find.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import signal
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from itertools import chain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

FAULT = sys.argv[1]
TERMS = json.loads(os.environ.get("FAULTS_TERMS", "{}"))
MODERN = "2026-07-28"
HEADERS = (("mcp-method", "method"), ("mcp-name", "name"))
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


class Kept:
    """A session, or the stream of an older client."""

    def __init__(self) -> None:
        self.id, self.key = secrets.token_urlsafe(16), secrets.token_hex(4)
        self.used, self.streams = time.monotonic(), {}  # type: ignore[var-annotated]
        self.ballast = os.urandom(50_000) if FAULT == "hoards" else b""
        self.said: List[bytes] = []
        self.news = threading.Condition()
        self.ended = False

    def say(self, event: bytes) -> None:
        with self.news:
            self.said.append(event)
            self.news.notify()


sessions: Dict[str, Kept] = {}
older: Dict[str, Kept] = {}
texts: Dict[str, str] = {}
gates: Dict[str, threading.Event] = {}
owners: Dict[str, Any] = {}
lock = threading.Lock()


def gate(name: str) -> threading.Event:
    with lock:
        return gates.setdefault(name, threading.Event())


def sweep() -> None:
    """End the sessions that nobody uses."""
    if FAULT != "immortal":
        for id, kept in list(sessions.items()):
            if time.monotonic() - kept.used > TERMS.get("session_ttl", 1800):
                sessions.pop(id, None)


def event(data: bytes, id: str = "", kind: str = "") -> bytes:
    head = (f"id: {id}\n" if id else "") + (f"event: {kind}\n" if kind else "")
    return head.encode() + b"data: " + data + b"\n\n"


def run(id: Any, name: str, arguments: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The messages that answer a call."""
    said = str(arguments.get("text", ""))
    if name == "count":
        for step in range(1, int(arguments["n"]) + 1):
            yield {"method": "notifications/progress", "params": {"progressToken": "p", "progress": step}}
    elif name == "log":
        said = str(arguments["data"])
        yield {"method": "notifications/message", "params": {"level": "error", "data": arguments["data"]}}
    elif name == "deaf_slow":
        time.sleep(float(arguments["seconds"]))
        said = "slept"
    elif name == "report_when_released":
        yield {"method": "notifications/progress", "params": {"progressToken": "q", "progress": 1}}
        gate(str(arguments["name"])).wait(20)
        yield {"method": "notifications/progress", "params": {"progressToken": "q", "progress": 2}}
    elif name == "release":
        gate(str(arguments["name"])).set()
    if FAULT == "swaps":  # answers by the id of the request
        texts[str(id)] = said
        time.sleep(0.02)
        said = texts[str(id)]
    if FAULT == "mangles":
        said = said.replace("\r\n", "\n")
    yield {"id": id, "result": {"content": [{"type": "text", "text": said}], "resultType": "complete"}}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *arguments: object) -> None:
        if FAULT == "talks":
            sys.stderr.write("a line\nanother line\n")

    def whole(self, status: int, message: Any = None, headers: "Optional[Dict[str, str]]" = None) -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), "Content-Type": "application/json"}.items():
            self.send_header(name, value)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status: int, code: int = -32600, id: Any = None) -> None:
        if FAULT == "traceback":
            sys.stderr.write("Traceback of a ValueError\n")
        self.whole(status, {"id": id, "error": {"code": code, "message": "no"}})

    def begin(self) -> None:
        self.send_response(200)
        for name, value in (
            ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"),
            ("Cache-Control", "no-cache" if FAULT == "zips" else "no-transform"), ("X-Accel-Buffering", "no"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def kept(self) -> Optional[Kept]:
        """The session of a request; None if it was refused."""
        sweep()
        ids = self.headers.get_all("mcp-session-id") or []
        if FAULT == "anybody" and ids and sessions:
            return list(sessions.values())[0]
        if len(ids) != 1 or not re.fullmatch(r"[\x21-\x7e]{1,256}", ids[0]):
            self.refuse(400)
        elif ids[0] not in sessions:
            self.refuse(404)
        else:
            sessions[ids[0]].used = time.monotonic()
            return sessions[ids[0]]
        return None

    def at(self) -> bool:
        """Whether this is for us."""
        path = self.requestline.split(" ")[1].partition("?")[0]  # self.path is not as it came
        own = f"http://{self.headers.get('host')}/mcp"
        if path in ("/mcp", own) or (FAULT == "anywhere" and path.rstrip("/").lower().endswith("mcp")):
            return True
        self.refuse(404)
        return False

    def do_DELETE(self) -> None:
        kept = self.kept() if self.at() else None
        if kept is not None:
            if FAULT != "immortal":
                sessions.pop(kept.id, None)
            self.whole(200)

    def do_GET(self) -> None:
        if self.path == "/sse":
            self.old()
            return
        kept = self.kept() if self.at() else None
        if kept is None:
            return
        last = self.headers.get("last-event-id")
        stream, _, number = (last or "").rpartition("/")
        if last is not None and (stream not in kept.streams or not number.isdigit()):
            if FAULT == "leaks":  # whatever there is
                stream, number = next(name for each in sessions.values() for name in each.streams), "0"
                kept = next(each for each in sessions.values() if stream in each.streams)
            else:
                self.refuse(400)
                return
        elif last is not None and int(number) > len(kept.streams[stream]):
            self.refuse(400)
            return
        self.begin()
        if last is not None:
            self.replay(kept.streams[stream], int(number) + (FAULT == "skips"), stream)
            return
        try:
            while FAULT != "silent":
                self.chunk(b": comment\n\n")
                time.sleep(float(TERMS.get("keepalive", 15)) / 2)
            time.sleep(30)
        except OSError:
            self.close_connection = True

    def replay(self, said: List[bytes], number: int, stream: str) -> None:
        owners[stream] = self
        while owners[stream] is self:
            for at, data in enumerate(said[number:], number + 1):
                if data:
                    self.chunk(event(data, f"{stream}/{at}"))
                number = at
            if said and said[-1] == b"":
                break
            time.sleep(0.01)
        self.chunk(b"")

    def old(self) -> None:
        """An older client's stream."""
        kept = Kept()
        older[kept.id] = kept
        self.begin()
        try:
            self.chunk(event(f"/messages?session_id={kept.id}".encode(), kind="endpoint"))
            while True:
                with kept.news:
                    kept.news.wait_for(lambda: bool(kept.said), 0.1)
                    said, kept.said[:] = list(kept.said), []
                for each in said or [b": comment\n\n"]:
                    self.chunk(each)
        except OSError:
            self.close_connection = True
        if FAULT != "immortal":
            older.pop(kept.id, None)

    def do_POST(self) -> None:
        size = self.headers.get("content-length", "0")
        if not size.isdigit() or int(size) > 1 << 22:
            self.close_connection = True
            self.refuse(413)
            return
        body = self.rfile.read(int(size))
        try:
            message = json.loads(body)
            assert isinstance(message, dict) and isinstance(message.get("params", {}), dict) and "method" in message
        except (ValueError, AssertionError):
            self.refuse(400, -32700)
            return
        if self.path.startswith("/messages"):
            self.posted(message)
        elif self.at():
            self.message(message)

    def posted(self, message: Dict[str, Any]) -> None:
        id = self.path.rpartition("=")[2]
        if FAULT == "anybody" and older and id not in older:
            id = list(older)[0]
        if id not in older:
            self.refuse(404)
            return
        self.whole(202)
        for one in self.answers(message) if "id" in message else ():
            older[id].say(event(json.dumps({"jsonrpc": "2.0", **one}).encode(), kind="message"))

    def message(self, message: Dict[str, Any]) -> None:
        id, method, params = message.get("id"), message["method"], message.get("params", {})
        if "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}):
            if FAULT != "careless" and not self.mirrors(method, params):
                self.refuse(400, -32020, id)
                return
            self.served(message, None)
        elif method == "initialize":
            sweep()
            if len(sessions) >= TERMS.get("sessions", 1000):
                self.refuse(503, -32603, id)
                return
            kept = Kept()
            sessions[kept.id] = kept
            [whole] = self.answers(message)
            self.whole(200, whole, {"Mcp-Session-Id": kept.id})
        else:
            found = self.kept()
            if found is not None:
                self.served(message, found) if "id" in message else self.whole(202)

    def mirrors(self, method: str, params: Dict[str, Any]) -> bool:
        wanted = {"method": method, "name": params.get("name")}
        if self.headers.get_all("mcp-protocol-version") != [MODERN]:
            return False
        for header, member in HEADERS:
            values = self.headers.get_all(header) or [None]
            found = values[0]
            try:
                if found is not None and found.startswith("=?base64?") and found.endswith("?="):
                    found = base64.b64decode(found[9:-2], validate=True).decode()
            except ValueError:
                return False
            if wanted[member] is not None and (len(values) > 1 or found is None or found.strip() != wanted[member]):
                return False
        return True

    def answers(self, message: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        id, method, params = message.get("id"), message["method"], message.get("params", {})
        if FAULT == "forges":
            sys.stderr.write(f"asked for {method}\n")
        if method == "initialize":
            version = params.get("protocolVersion", "2025-11-25")
            result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "bad", "version": "0"}}
            yield {"id": id, "result": result}
        elif method in ("ping", "tools/list", "server/discover", "logging/setLevel"):
            yield {"id": id, "result": {"tools": [ECHO]} if method == "tools/list" else {}}
        elif method == "tools/call" and isinstance(params.get("arguments"), dict):
            yield from run(id, str(params.get("name")), params["arguments"])
        else:
            yield {"id": id, "error": {"code": -32601, "message": "no"}}

    def served(self, message: Dict[str, Any], kept: Optional[Kept]) -> None:
        found = self.answers(message)
        first = next(found)
        if "method" not in first:
            self.whole(200, first)
            return
        said: List[bytes] = []
        name = "" if kept is None else f"{kept.key}.{len(kept.streams)}"
        if kept is not None:
            kept.streams[name] = said
        self.begin()
        gone = False
        if name:
            self.chunk(event(b"", f"{name}/0"))
        for at, one in enumerate(chain((first,), found), 1):
            said.append(json.dumps({"jsonrpc": "2.0", **one}).encode())
            try:
                if not gone:
                    self.chunk(event(said[-1], f"{name}/{at}" if name else ""))
            except OSError:
                gone = self.close_connection = True
        said.append(b"")
        if not gone:
            self.chunk(b"")


class Site(socketserver.ThreadingTCPServer):
    """The server."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 5 if FAULT == "narrow" else 256

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients leave, which is no fault."""


def main() -> None:
    """Serve until a signal comes."""
    if FAULT == "stays":
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    else:
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(0))
    with Site(("127.0.0.1", int(os.environ.get("FAULTS_PORT", "0"))), Handler) as site:
        print(f"at http://127.0.0.1:{site.server_address[1]}/mcp", flush=True)
        site.serve_forever()


if __name__ == "__main__":
    main()
