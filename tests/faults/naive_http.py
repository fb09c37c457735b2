"""``python naive_http.py``: an HTTP server without limits, for the tests of the runner. It needs
only the standard library."""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
import traceback
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Deque, Dict, List, Tuple

MOST = json.loads(os.environ["FAULTS_TERMS"]).get("sessions", 1000)
sessions: List[Any] = []  # of each its whole params
read: Deque[Any] = deque(maxlen=4)  # the last messages, of any kind
events: Deque[Tuple[str, bytes]] = deque(maxlen=1000)  # of all sessions
ended: Dict[str, str] = {}
numbers = itertools.count()


def tool(name: str, given: Any) -> str:
    if name == "slow":
        time.sleep(given["seconds"])
    if name == "raiser":
        raise ValueError(given["kind"])
    if name == "watch":
        ended[given["name"]] = "open"
        time.sleep(2)
        ended[given["name"]] = "slept"
    while name == "wait_for" and ended.get(given["name"]) in (
        None,
        "open" if given["what"] == "end" else None,
    ):
        time.sleep(0.01)
    return (
        ended[given["name"]]
        if name == "wait_for"
        else given.get("text", "x" * given.get("size", 1))
    )


def answered(message: Any) -> Any:
    """The answer to a request."""
    result: Dict[str, Any] = {"resultType": "complete"}
    try:
        if message["method"] == "tools/call":
            text = tool(message["params"]["name"], message["params"]["arguments"])
            result["content"] = [{"type": "text", "text": text}]
    except (ValueError, KeyError):
        traceback.print_exc()
        result.update(content=[], isError=True)
    if message["method"] == "initialize":
        result.update(
            protocolVersion=message["params"]["protocolVersion"], capabilities={}, serverInfo={}
        )
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        pass

    def say(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        last = self.headers.get("last-event-id", "")
        rest = [
            data
            for id, data in events
            if id.split("-")[0] == last.split("-")[0] and int(id.split("-")[1]) > 0
        ]
        if self.path != "/mcp" or not any(id == last for id, _ in events):
            self.say(404 if self.path != "/mcp" else 400)
        else:
            self.say(200, b"".join(rest), Content_Type="text/event-stream")

    def do_DELETE(self) -> None:
        self.say(204)

    def do_POST(self) -> None:
        try:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        except ValueError:
            return self.say(400)
        read.append(message)
        many = isinstance(message, list) and isinstance(message[0], dict)
        if not many and not (isinstance(message, dict) and "method" in message):
            return self.say(400)
        if not many and "n" in (message.get("params") or {}).get("arguments", {}):
            return self.stream(message)
        if many:
            with ThreadPoolExecutor(len(message)) as pool:
                message = list(pool.map(answered, message))
        elif message["method"] == "initialize":
            if len(sessions) >= MOST:
                return self.say(503)
            sessions.append(message)
        whole = message if many else answered(message) if "id" in message else {}
        return self.say(
            200 if whole else 202, json.dumps(whole).encode(), Mcp_Session_Id=f"s-{len(sessions)}"
        )

    def stream(self, message: Any) -> None:
        """The steps of `count`, each with an id."""
        self.send_response(200)
        for header in ("Content-Type: text/event-stream", "Transfer-Encoding: chunked"):
            self.send_header(*header.split(": "))
        self.end_headers()
        stream, steps = next(numbers), message["params"]["arguments"]["n"]
        step = {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "p", "progress": 1},
        }
        for number, each in enumerate([*[step] * steps, answered(message)]):
            events.append(
                (
                    f"{stream}-{number}",
                    f"id: {stream}-{number}\ndata: {json.dumps(each)}\n\n".encode(),
                )
            )
            self.wfile.write(b"%x\r\n%s\r\n" % (len(events[-1][1]), events[-1][1]))
        self.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    print(f"http://127.0.0.1:{server.server_port}/mcp", file=sys.stderr, flush=True)
    server.serve_forever()
