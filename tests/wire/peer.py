"""A server that misbehaves by script: a child process that the tests of the client talk to. Stdlib only.

It is started as ``python peer.py JOURNAL SCRIPT``. JOURNAL is a file to which it adds a JSON line for all
that happens to it: its start, each line it receives, the end of its input, each signal. SCRIPT is JSON:

- ``start``: what it does before it reads anything (a name in `STARTS`).
- ``discover``, ``initialize``: how it answers these, a list of steps of which the last one repeats. A step
  is a name in `DISCOVERS` or `HANDSHAKES`, or ``{"error": code, "data": ...}``, ``{"result": ...}``, or
  ``{"raw": text}`` in which ID stands for the request's id.
- ``list``: how it answers tools/list (a name in `LISTS`, or a result).
- ``tool_errors``: steps of the same kind for tools/call, null for what the tool's own name says.
- ``cacheable``: true puts into a list of tools how long it stays true, which 2026-07-28 asks for.
- ``capabilities``, ``instructions``, ``more``: what it says of itself; ``more`` is laid over the result.
- ``end``: what it does when its input ends (a name in `ENDS`).

Every tool is a misbehaviour: the name of the tool that is called chooses it (`TOOLS`).
"""

from __future__ import annotations

import json
import os
import sys

from peer_eras import DISCOVERS, HANDSHAKES, LISTS, SERVER_INFO
from peer_process import ENDS, STARTS
from peer_tools import TOOLS

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the start of this process
    from typing import Any, Callable, Dict, Iterator, List

    Json = Dict[str, Any]

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"

SHOWN = 1 << 16
"""Bytes of a received line that the journal keeps."""


class Peer:
    """One process of the scripted server, single-threaded on purpose: while it writes it does not read."""

    def __init__(self, journal: str, script: Json) -> None:
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.script = script
        self.held: List[Json] = []
        self.late: List[Json] = []
        self.steps: Dict[str, int] = {}
        self.stdout, self.stdin = 1, 0

    def note(self, event: str, **more: Any) -> None:
        """Add a line to the journal, in one write."""
        record = json.dumps({"pid": os.getpid(), "event": event, **more})
        os.write(self.journal, record.encode() + b"\n")

    # Bytes.

    def write(self, data: bytes) -> None:
        """Write bytes to the client as they are; a client that has gone ends the process."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self.stdout, view[: 1 << 20]) :]
            except BrokenPipeError:
                self.note("broken-pipe")
                os._exit(0)

    def send(self, message: Any) -> None:
        """Write a message as one line."""
        self.write(json.dumps(message).encode() + b"\n")

    def lines(self) -> Iterator[bytes]:
        """Lines of the client, until its end."""
        buffer = bytearray()
        looked = 0
        while True:
            chunk = os.read(self.stdin, 1 << 20)
            if not chunk:
                return
            buffer += chunk
            while True:
                end = buffer.find(b"\n", looked)
                if end < 0:
                    looked = len(buffer)
                    if looked > SHOWN and self.script.get("start") == "duplex":
                        self.talk_back()
                    break
                line, looked = bytes(buffer[:end]), 0
                del buffer[: end + 1]
                yield line

    def talk_back(self) -> None:
        """Once, in the middle of a long line of the client: write 5 MB before reading on."""
        if not self.steps.get("duplex"):
            self.steps["duplex"] = 1
            note = {"jsonrpc": "2.0", "method": "notifications/message"}
            self.send({**note, "params": {"level": "info", "data": "y" * 5_000_000}})

    # Messages.

    def result(self, request: Json, result: Any) -> None:
        """Answer a request, in the shape that its era asks for."""
        meta = request.get("params", {}).get("_meta", {})
        if VERSION_KEY in meta and isinstance(result, dict):
            more = {"ttlMs": 0, "cacheScope": "private"} if self.script.get("cacheable") and "tools" in result else {}
            result = {"resultType": "complete", "_meta": {SERVER_KEY: SERVER_INFO}, **more, **result}
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def error(self, request: Json, code: Any, data: Any = None, message: str = "refused") -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self.send({"jsonrpc": "2.0", "id": request["id"], "error": error})

    def text(self, request: Json, text: str) -> None:
        """Answer a tool call with one text."""
        self.result(request, {"content": [{"type": "text", "text": text}]})

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def progress(self, request: Json, progress: Any, **more: Any) -> None:
        """Report progress of a request, under its own token."""
        token = request["params"]["_meta"]["progressToken"]
        self.notify("notifications/progress", {"progressToken": token, "progress": progress, **more})

    # What the script says.

    def step(self, name: str, default: Any) -> Any:
        """The step of a scripted answer that has come."""
        steps = self.script.get(name, default)
        steps = steps if isinstance(steps, list) else [steps]
        count = self.steps[name] = self.steps.get(name, -1) + 1
        return steps[min(count, len(steps) - 1)]

    def follow(self, request: Json, step: Any, named: Dict[str, Callable[[Peer, Json], None]]) -> None:
        """Answer a request as a step says."""
        if isinstance(step, str):
            named[step](self, request)
        elif "error" in step:
            self.error(request, step["error"], step.get("data"))
        elif "raw" in step:
            self.write(step["raw"].replace("ID", json.dumps(request["id"])).encode() + b"\n")
        else:
            self.result(request, step["result"])

    def take(self, line: bytes) -> None:
        """Deal with one line of the client."""
        self.note("line", text=line[:SHOWN].decode("latin-1"), length=len(line))
        try:
            message = json.loads(line)
        except ValueError:
            return
        method = message.get("method") if isinstance(message, dict) else None
        if method == "server/discover":
            self.follow(message, self.step("discover", "modern"), DISCOVERS)
        elif method == "initialize":
            self.follow(message, self.step("initialize", "agree"), HANDSHAKES)
        elif method == "tools/list":
            listed = self.script.get("list", "one")
            self.result(message, listed) if isinstance(listed, dict) else LISTS[listed](self, message)
        elif method == "tools/call":
            step = self.step("tool_errors", None)
            if step is None:
                TOOLS[message["params"]["name"]](self, message)
            else:
                self.follow(message, step, TOOLS)
        elif method == "notifications/cancelled":
            self.cancelled(message)
        elif method is not None and "id" in message and not method.endswith("silent"):
            self.result(message, {})

    def cancelled(self, message: Json) -> None:
        """Answer the cancelled call all the same, as a server does that did not see it in time."""
        for request in [held for held in self.held if held["id"] == message["params"].get("requestId")]:
            self.held.remove(request)
            self.text(request, "too late")

    def run(self) -> None:
        """Serve until the input ends."""
        self.note("start")
        STARTS[self.script.get("start", "plain")](self)
        for line in self.lines():
            self.take(line)
        self.note("eof")
        ENDS[self.script.get("end", "exit")](self)


if __name__ == "__main__":
    Peer(sys.argv[1], json.loads(sys.argv[2])).run()
