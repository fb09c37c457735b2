"""``python bad_adapter.py FAULT``: a small client with one fault, as an adapter, for tests of the runner.

Without a fault ("none") it does right what the cases ask that it is tried with. Standard library alone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

FAULT = sys.argv[1]
kept: List[Any] = []


class Lost(Exception):
    """The server is gone."""


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
                    self.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}})
                continue
            for one in message if isinstance(message, list) else [message]:
                self.take(one)
        with self.news:
            self.gone = True
            self.news.notify_all()

    def take(self, message: Any) -> None:
        """Give an answer to whom it belongs."""
        if not isinstance(message, dict) or "method" in message:
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


class Adapter:
    client: Any = None

    def open(self, command: Dict[str, Any]) -> Dict[str, Any]:
        if "on_log" in command:
            return {"ok": False, "error": "unsupported"}
        self.client = Client(command["command"])
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}}
        self.client.ask("initialize", hello, command["timeout"])
        return {}

    def call(self, command: Dict[str, Any]) -> Dict[str, Any]:
        while FAULT == "hangs":
            time.sleep(60)
        params = {"name": command["tool"], "arguments": command["arguments"]}
        content = self.client.ask("tools/call", params, command["timeout"]).get("content")
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
    """Do what a command says, and answer it."""
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
