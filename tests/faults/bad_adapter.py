"""``python bad_adapter.py FAULT``: a small client with one fault, as an adapter, for tests of the
runner.

Without a fault ("none") it passes the cases that the tests run. "trusts" keeps, follows, sends back
and prints everything that a server sends. It needs only the standard library.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time
from urllib.parse import urljoin, urlsplit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

FAULT = sys.argv[1]
kept: List[Any] = []


class Lost(Exception):
    """The server has ended."""


class Client:
    def __init__(self, command: List[str]) -> None:
        pipe = subprocess.PIPE
        self.server = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.waiting: Dict[int, List[Any]] = {}
        self.lock, self.last, self.news = threading.Lock(), 0, threading.Condition()
        self.gone = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        assert self.server.stdout is not None
        for line in self.server.stdout:
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                if FAULT == "dies":
                    return
                if FAULT == "talks":
                    self.send(
                        {
                            "jsonrpc": "2.0",
                            "id": None,
                            "error": {"code": -32700, "message": "what?"},
                        }
                    )
                continue
            for one in message if isinstance(message, list) else [message]:
                self.take(one)
        with self.news:
            self.gone = True
            self.news.notify_all()

    def take(self, message: Any) -> None:
        """Give an answer to whom it belongs."""
        if not isinstance(message, dict) or "method" in message:
            if FAULT in ("patient", "trusts"):
                kept.append(message)
            return
        with self.news:
            id = message.get("id")
            if FAULT == "credulous" and id not in self.waiting and self.waiting:
                id = min(self.waiting)
            if FAULT == "credulous" or type(id) is int:
                self.waiting.get(id, []).append(message)
                self.news.notify_all()

    def send(self, message: Any) -> None:
        assert self.server.stdin is not None
        with self.lock:
            os.write(self.server.stdin.fileno(), json.dumps(message).encode() + b"\n")

    def ask(self, method: str, params: Any, timeout: float) -> Any:
        with self.news:
            self.last += 1
            id, box = self.last, []  # type: ignore[var-annotated]
            self.waiting[id] = box
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        until = time.monotonic() + timeout
        while FAULT == "patient" and not box and (kept or time.monotonic() < until):
            time.sleep(0.01)  # for each step of progress, whatever the time is
            del kept[-1:]
        with self.news:
            self.news.wait_for(lambda: box or self.gone, timeout)
            del self.waiting[id]
        if not box:
            raise Lost("no answer") if self.gone else TimeoutError("no answer in time")
        found = box[0].get("result")
        if "error" in box[0] or not isinstance(found, dict):
            if FAULT == "waits":
                time.sleep(timeout)
            raise ValueError("a bad answer")
        return found

    def close(self) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        if FAULT == "abandons":
            return
        self.server.stdin.close()
        self.server.wait(2)
        if FAULT == "hoards":
            kept.append([os.open(os.devnull, os.O_RDONLY), self])


class Web:
    """A client over HTTP, which trusts its server."""

    line: Any = None

    def __init__(self, command: Dict[str, Any]) -> None:
        self.url, self.headers, self.cookies = command["url"], command.get("headers") or {}, []  # type: ignore[var-annotated]
        if self.send("POST", {"id": 0, "method": "initialize", "params": HELLO}).status == 405:
            events = self.send("GET")
            while not events.readline().startswith(b"event: endpoint"):
                pass
            self.url, self.line = self.followed(events.readline()[5:].strip().decode()), None
            self.send("POST", {"id": 0, "method": "initialize", "params": HELLO})
        self.send("POST", {"method": "notifications/initialized"})

    def followed(self, to: str) -> str:
        """Return the name if it is on the same host according to one parser, though another parser
        ends it elsewhere."""
        found = urljoin(self.url, to)
        if urlsplit(found).netloc.rpartition("@")[2] != urlsplit(self.url).netloc:
            raise ValueError("elsewhere")
        return found.partition("\\")[0]

    def send(
        self, verb: str, message: Any = None, url: str = "", **more: str
    ) -> http.client.HTTPResponse:
        if self.line is not None:
            self.line.close()
        parts = urlsplit(url or self.url)
        self.line = http.client.HTTPConnection(parts.netloc, timeout=5)
        headers = {"Cookie": "; ".join(self.cookies), **self.headers, **more}
        self.line.request(
            verb, parts.path, message and json.dumps({"jsonrpc": "2.0", **message}), headers
        )
        response = self.line.getresponse()
        self.cookies += response.headers.get_all("set-cookie") or []
        if response.status == 307 and not url:
            return self.send(verb, message, self.followed(response.headers["location"]))
        if response.status == 400:
            print(json.loads(response.read())["error"]["message"], file=sys.stderr, flush=True)
        return response

    def ask(self, method: str, params: Any, timeout: float) -> Any:
        until, last = time.monotonic() + timeout, ""
        response = self.send("POST", {"id": 1, "method": method, "params": params})
        while time.monotonic() < until and response.status == 200:
            for line in response:
                if line.startswith(b"id: "):
                    last = line[4:].strip().decode("utf-8", "replace")
                elif b'"result"' in line:
                    return json.loads(line.replace(b"data: ", b""))["result"]
            time.sleep(0.05)
            response = self.send("GET", **{"Last-Event-ID": last})
        raise ValueError(f"no answer, and status {response.status}")

    def close(self) -> None:
        """It holds nothing that has to be closed."""


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}


class Adapter:
    client: Any = None
    schemas: Any = {}

    def open(self, command: Dict[str, Any]) -> Dict[str, Any]:
        if "on_log" in command and FAULT not in ("patient", "trusts"):
            return {"ok": False, "error": "unsupported"}
        if "url" in command:
            self.client = Web(command)
            return {}
        self.client = Client(command["command"])
        self.client.ask("initialize", HELLO, command["timeout"])
        return {}

    def call(self, command: Dict[str, Any]) -> Dict[str, Any]:
        while FAULT == "hangs":
            time.sleep(60)
        params = {
            "name": command["tool"],
            "arguments": command["arguments"],
            "_meta": {"progressToken": 1},
        }
        found = self.client.ask("tools/call", params, command["timeout"])
        content = found.get("content")
        for words in self.schemas.get(command["tool"], ()) if FAULT == "patient" else ():
            re.search(words.get("pattern", ""), str(found["structuredContent"]["x"]))
        if not isinstance(content, list) or not all(isinstance(one, dict) for one in content):
            raise ValueError("no content")
        text = content[0].get("text")
        if FAULT == "swaps":
            kept.append(text)
            text = kept[-2] if len(kept) > 1 else text
        return {"text": text}

    def list(self, command: Dict[str, Any]) -> Dict[str, Any]:
        count, seen, params = 0, [], {}  # type: ignore[var-annotated]
        while True:
            found = self.client.ask("tools/list", params, command["timeout"])
            count += len(found["tools"])
            tools = (tool for tool in found["tools"] if "outputSchema" in tool)
            self.schemas = {
                tool["name"]: tool["outputSchema"]["properties"].values() for tool in tools
            }
            cursor = found.get("nextCursor")
            if cursor is None or (FAULT != "endless" and (cursor in seen or len(seen) >= 900)):
                return {"count": count}
            seen.append(cursor)
            params = {"cursor": cursor}

    def close(self, command: Dict[str, Any]) -> Dict[str, Any]:
        if self.client is not None:
            self.client.close()
        return {}


def run(adapter: Adapter, command: Dict[str, Any]) -> None:
    """Execute a command, and answer it."""
    try:
        found = {"text": "well"} if FAULT == "agrees" else getattr(adapter, command["do"])(command)
    except Exception as error:
        found = {"ok": False, "error": type(error).__name__, "message": str(error)}
    os.write(1, json.dumps({"n": command["n"], "ok": True, **found}).encode() + b"\n")


def main() -> None:
    """Take commands until there are no more."""
    adapter = Adapter()
    for line in sys.stdin:
        command = json.loads(line)
        threading.Thread(target=run, args=(adapter, command), daemon=True).start()
    if adapter.client is not None and FAULT != "abandons":
        adapter.client.server.kill()


if __name__ == "__main__":
    main()
