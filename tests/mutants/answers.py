"""The kind `answers`: HTTP responses to a tool call of a client: heads, event streams, JSON,
errors."""

from __future__ import annotations

import gc
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, List, Optional, Sequence

import minimcp
from minimcp import McpError

from ..support import status_of
from ..web import DONE, Heard, Peer, Wire
from .drawing import draw, measured
from .inside import FIELDS, Reading

CALLERS = 64  # threads that call at the same time
TIMEOUT = 0.4  # seconds of a call
LATE = 3.0  # seconds after which it must have ended, on a busy machine too


def _event(message: Any, more: str = "") -> bytes:
    return f"{more}data: {json.dumps({'jsonrpc': '2.0', **message})}\n\n".encode()


def _said(status: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}"
    return f"{head}Content-Length: LENGTH\r\n\r\n".encode() + body


def _corpus() -> List[bytes]:
    result, error = (
        {"id": "ID", "result": DONE},
        {"id": "ID", "error": {"code": -32602, "message": "no", "data": [1]}},
    )
    form = {"message": "?", "requestedSchema": {"type": "object", "properties": FIELDS}}
    asked = {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": form}},
    }
    image = {"type": "image", "data": "AAEC", "mimeType": "a/b"}
    shaped = {"content": [image], "structuredContent": {"a": 1}, "isError": True}
    progress = {"progressToken": "ID", "progress": 1, "total": 2.5, "message": "half"}
    notes = [
        _event({"method": "notifications/progress", "params": progress}, "id: 1-1\nretry: 10\n"),
        _event({"method": "notifications/message", "params": {"level": "error", "logger": "l", "data": "d"}}),
        _event({"id": 7, "method": "elicitation/create", "params": form}), _event({"id": 8, "method": "roots/list"}),
        _event({"method": "notifications/resources/updated", "params": {"uri": "a:b"}}), b": keep-alive\n\n",
    ]  # fmt: skip
    streams = [
        b"".join(notes[:3]) + _event(result, "id: 1-2\n"),
        b"".join(notes),
        b"".join(notes[3:]) + _event(error),
    ]
    streams += [
        _event({"id": "ID", "result": {**DONE, **asked}}),
        _event({"id": "ID", "result": shaped}),
    ]
    chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    whole = [json.dumps({"jsonrpc": "2.0", **each}).encode() for each in (result, error)]
    return [
        *(_said("200 OK", stream, "text/event-stream", "Mcp-Session-Id: s-2\r\n") for stream in streams),
        *(b"%s%x\r\n%s\r\n0\r\n\r\n" % (chunked, len(stream), stream) for stream in streams),
        *(_said("200 OK", body, "application/json; charset=utf-8", "Set-Cookie: a=b; Path=/\r\n") for body in whole),
        *(_said(status, whole[1]) for status in ("400 Bad Request", "404 Not Found", "500 Broken")),
        _said("401 No", b"", more='WWW-Authenticate: Bearer resource_metadata="http://127.0.0.1:1/", scope="a"\r\n'),
        _said("307 Moved", b"", more="Location: /mcp?a=b\r\n"), _said("429 Slow", b"", more="Retry-After: 1\r\n"),
        _said("202 Accepted", b""), b"HTTP/1.1 100 Continue\r\n\r\n" + measured(_said("200 OK", whole[0])),
        _said("200 OK", b"\x1f\x8b\x08", more="Content-Encoding: gzip\r\n"), _said("200 OK", b"<html>", "text/html"),
    ]  # fmt: skip


CORPUS = _corpus()


class Answers:
    """Calls tools of a server that answers with mutants. As `tests.mutants.running.Judge`."""

    batch = 256

    def __init__(self) -> None:
        self.reading = Reading()
        said = {"tools/call": self.answer}
        self.peers: List[Peer] = [Peer(said, handshake=each).start() for each in (False, True)]
        self.clients = [
            minimcp.connect(
                peer.url, restart=True, timeout=TIMEOUT, cache=False, handlers=self, roots=["/"]
            )
            for peer in self.peers
        ]
        self.pool = ThreadPoolExecutor(CALLERS)
        all_started = threading.Barrier(CALLERS)
        list(self.pool.map(lambda _: all_started.wait(), range(CALLERS)))

    def make(self, name: str) -> bytes:
        return measured(draw(name, CORPUS))

    def answer(self, heard: Heard, wire: Wire) -> None:
        name = heard.message["params"].get("arguments", {}).get("name", "")
        wire.raw(measured(draw(name, CORPUS).replace(b'"ID"', json.dumps(wire.id).encode())))
        wire.cut()

    def elicit(self, request: minimcp.ElicitRequest) -> Any:
        """Fill in what there is."""
        return request.defaults

    def on_log(self, message: minimcp.LogMessage) -> None:
        """Nobody reads it."""

    def judge(self, names: Sequence[str]) -> Optional[str]:
        """Return what is wrong with the ends of the calls: too late, another exception, or threads
        that remain."""
        faults = [fault for fault in self.pool.map(self.called, names) if fault]
        for peer in self.peers:
            peer.heard.clear()
        faults += self.reading.taken()
        return faults[0] if faults else None

    def called(self, name: str) -> Optional[str]:
        client, begun = self.clients[int(name.rpartition(":")[2]) % 2], time.monotonic()
        try:
            client.call_tool("t", {"name": name}, on_progress=lambda *_: None)
        except McpError as error:
            str(error)
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:300]
        took = time.monotonic() - begun
        return f"it took {took:.1f} s" if took > TIMEOUT + LATE else None

    def memory(self) -> float:
        """Return the memory in MB. Each running thread counts as one more."""
        gc.collect()
        return status_of(os.getpid(), "VmRSS") / 1024 + threading.active_count()

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.pool.shutdown()
        for peer in self.peers:
            peer.close()
