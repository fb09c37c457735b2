"""``python bad_web_adapter.py FAULT``: a small HTTP client with one fault, as an adapter, for tests of the runner.

Without a fault ("none") it does right what the cases ask that it is tried with. Standard library alone.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import threading
import time
import zlib
from urllib.parse import urljoin, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

FAULT = sys.argv[1]
KEPT: List[Any] = []
LIMIT = 1 << 20
MOVED = (301, 302, 303, 307, 308)


def cut(sock: Any) -> None:
    """The time is over."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Client:
    """One connection to one URL."""

    def __init__(self, url: str, headers: Dict[str, str]) -> None:
        self.url, self.headers = url, headers
        self.last, self.session = 0, ""
        self.stream: Any = None

    def send(self, verb: str, url: str, message: Any, timeout: float, **more: str) -> Tuple[Any, Any]:
        """A request; its response, and the timer that ends it."""
        parts = urlsplit(url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port or 80, timeout=timeout)
        connection.connect()
        timer = threading.Timer(timeout, cut, (connection.sock,))
        if FAULT != "patient":  # which knows only the time between two bytes
            timer.daemon = True
            timer.start()
        session = {"Mcp-Session-Id": self.session} if self.session else {}
        body = None if message is None else json.dumps(message)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        connection.request(verb, parts.path or "/", body, {**headers, **self.headers, **session, **more})
        return connection.getresponse(), timer

    def ask(self, method: str, params: Any, timeout: float, url: str = "", hops: int = 0) -> Any:
        """A request and its result; not for the first time after so many hops."""
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}
        response, timer = self.send("POST", url or self.url, message, timeout)
        try:
            return self.result(response, message, timeout, hops)
        finally:
            timer.cancel()
            response.close()

    def result(self, response: Any, message: Dict[str, Any], timeout: float, hops: int) -> Any:
        """What a response says."""
        status, kind = response.status, response.headers.get("Content-Type", "")
        to = response.headers.get("Location", "")
        if status in MOVED and FAULT == "follows" and to.startswith("http:") and hops < 3:
            return self.ask(message["method"], message["params"], timeout, to, hops + 1)
        if status == 401 and FAULT == "fetches":
            wanted = response.headers["WWW-Authenticate"].split('"')[1]
            if wanted.startswith("http://127"):
                self.send("GET", wanted, None, timeout)[0].read()
        if status == 404 and self.session and message["method"] == "tools/call" and hops == 0:
            self.session = ""
            self.shake(timeout)
            return self.ask(message["method"], message["params"], timeout, hops=1)
        if message["method"] == "initialize" and status == 200:
            session = response.headers.get("Mcp-Session-Id", "")
            if FAULT != "echoes" and (len(session) > 999 or not all("\x21" <= each <= "\x7e" for each in session)):
                raise ValueError("no session id")
            self.session = session
        if status >= 300 or "json" not in kind and "event-stream" not in kind:
            size, vague = -1 if FAULT == "wordy" else 200, FAULT == "vague" and message["method"] == "tools/call"
            raise ValueError(f"HTTP {'error' if vague else status}: {response.read()[:size]!r}")
        if response.headers.get("Content-Encoding"):
            if FAULT == "inflates":
                KEPT.append(zlib.decompressobj(31).decompress(response.read(), 95 << 20))
            raise ValueError("compressed")
        return self.event(response, message) if "event-stream" in kind else self.body(response, message["id"])

    def body(self, response: Any, id: Any) -> Any:
        """The result in a body."""
        data = bytearray()
        while True:
            piece = response.read1(1 << 16)
            if not piece:
                return self.mine(bytes(data), id)[1]
            data += piece
            if len(data) > LIMIT:
                raise ValueError("too long")

    def event(self, response: Any, message: Any) -> Any:
        """The result in a stream."""
        data = bytearray()
        while True:
            piece = response.readline(1 << 16)
            if FAULT == "patient" and piece.startswith(b":"):
                continue
            data += piece
            if len(data) > LIMIT:
                raise ValueError("too long")
            whole = data.endswith(b"\n\n")
            if not piece and not (FAULT == "half" and b"half of it" in data):
                raise ConnectionError("the stream ended")
            if not (whole or not piece):
                continue
            lines = [line[6:] for line in bytes(data).split(b"\n") if line.startswith(b"data: ")]
            data.clear()
            if not piece:
                return {"content": [{"type": "text", "text": "half of it"}]}
            found = self.mine(b"\n".join(lines), message["id"]) if lines else (False, None)
            if found[0]:
                return found[1]

    def mine(self, data: bytes, id: Any) -> Tuple[bool, Any]:
        """Whether a message is the answer to this, and its result."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            if FAULT == "dies":
                raise
            return (True, {"content": [{"text": "whatever"}]}) if FAULT == "takes" else (False, None)
        if not isinstance(message, dict) or "method" in message:
            if FAULT == "deaf":
                raise ValueError("no answer")
            return False, None
        same = message.get("id") == id and type(message.get("id")) is type(id)
        if not same and FAULT != "credulous":
            return False, None
        found = message.get("result")
        if "error" in message or not isinstance(found, dict):
            if FAULT == "waits":
                time.sleep(2)
            raise ValueError("a bad answer")
        return True, found

    def shake(self, timeout: float) -> None:
        """The handshake, in the way that the server knows."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
        try:
            self.ask("server/discover", {}, timeout)
        except ValueError as error:
            if not str(error).startswith(("HTTP 4", "a bad")) or "401" in str(error):
                raise
            try:
                self.ask("initialize", hello, timeout)
            except ValueError as refused:
                if "405" not in str(refused):
                    raise
                self.older(hello, timeout)

    def older(self, hello: Any, timeout: float) -> None:
        """HTTP+SSE."""
        self.stream, timer = self.send("GET", self.url, None, timeout)
        lines = [self.stream.readline() for _ in range(3)]
        url = urljoin(self.url, lines[1][6:].decode().strip())
        here, there = urlsplit(self.url), urlsplit(url)
        same = (here.scheme, here.netloc) == (there.scheme, there.netloc) and " " not in url
        if not same and not (FAULT == "posts" and there.scheme == "http" and there.netloc.startswith("127")):
            raise ValueError("elsewhere")
        self.url = url
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
        if self.send("POST", url, message, timeout)[0].status != 202 or here.netloc != there.netloc:
            raise ValueError("not taken")
        self.heard()
        timer.cancel()

    def heard(self) -> Any:
        """The next message of the older stream."""
        while True:
            line = self.stream.readline()
            if not line:
                raise ConnectionError("the stream ended")
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def call(self, params: Any, timeout: float) -> Any:
        """Call a tool."""
        if self.stream is not None:
            self.send("POST", self.url, {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}, timeout)
            return self.heard()["result"]
        try:
            return self.ask("tools/call", params, timeout)
        except OSError:
            if FAULT == "resends":
                return self.ask("tools/call", params, timeout)
            raise


class Adapter:
    """What a command does."""

    client: Any = None

    def open(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """Connect."""
        if "url" not in command or FAULT == "absent":
            return {"ok": False, "error": "unsupported"}
        self.client = Client(command["url"], command.get("headers") or {})
        self.client.shake(command["timeout"])
        return {}

    def call(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """Call a tool."""
        params = {"name": command["tool"], "arguments": command["arguments"]}
        content = self.client.call(params, command["timeout"]).get("content")
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            raise ValueError("no content")
        return {"text": content[0].get("text")}

    def close(self, command: Dict[str, Any]) -> Dict[str, Any]:
        """Close: there is nothing that is kept."""
        return {}


def run(adapter: Adapter, command: Dict[str, Any]) -> None:
    """Do what a command says, and answer it."""
    try:
        found = getattr(adapter, command["do"])(command)
    except Exception as error:
        found = {"ok": False, "error": type(error).__name__, "message": str(error)}
    os.write(1, json.dumps({"n": command["n"], "ok": True, **found}).encode() + b"\n")


def main() -> None:
    """Take commands until there are no more."""
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        threading.Thread(target=run, args=(adapter, command), daemon=True).start()


if __name__ == "__main__":
    main()
