"""The limit, server side: a hand-written stdio loop, standard library only, tools inline, nothing
checked.

Every ratio is measured against this loop, because it does nothing but its work. It checks no
message, answers both eras alike (it does not read the envelope in ``_meta``) and cannot cancel
anything. Started with ``records`` it has the tools with dataclasses, with ``many`` a list of 1,000
tools; with ``http`` or ``events`` it listens and prints its URL (`limit_http`).
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from typing import Any, Callable, Iterator

encode = json.JSONEncoder(separators=(",", ":")).encode
decode = json.JSONDecoder().decode
writing = threading.Lock()


def write(data: bytes) -> None:
    with writing:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


def text(value: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}]}


def both(value: Any) -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": encode(value)}],
        "structuredContent": {"result": value},
    }


def echo(params: dict[str, Any]) -> dict[str, Any]:
    return text(params["arguments"]["text"])


def add(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params["arguments"]
    return both(arguments["a"] + arguments["b"])


def counted(params: dict[str, Any]) -> Iterator[bytes]:
    total, token = params["arguments"]["n"], params["_meta"]["progressToken"]
    for done in range(1, total + 1):
        report = {"progressToken": token, "progress": done, "total": total}
        message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": report}
        yield encode(message).encode() + b"\n"


def count(params: dict[str, Any]) -> dict[str, Any]:
    for line in counted(params):
        write(line)
    return text("done")


def sleep(request: dict[str, Any]) -> None:
    time.sleep(request["params"]["arguments"]["seconds"])
    write(answer(request, text("slept")))


TOOLS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "echo": echo,
    "add": add,
    "count": count,
}


def add_records() -> None:
    """The tools that take dataclasses, built and taken apart by hand."""
    from dataclasses import dataclass

    @dataclass
    class Place:
        lat: float
        lon: float

    @dataclass
    class Record:
        id: int
        name: str
        tags: list[str]
        at: Place

    def build(items: list[dict[str, Any]]) -> list[Record]:
        return [
            Record(row["id"], row["name"], row["tags"], Place(row["at"]["lat"], row["at"]["lon"]))
            for row in items
        ]

    def records(params: dict[str, Any]) -> dict[str, Any]:
        found = build(params["arguments"]["items"])
        return both(
            [
                {
                    "id": row.id,
                    "name": row.name,
                    "tags": row.tags,
                    "at": {"lat": row.at.lat, "lon": row.at.lon},
                }
                for row in found
            ]
        )

    def tally(params: dict[str, Any]) -> dict[str, Any]:
        return both(len(build(params["arguments"]["items"])))

    TOOLS.update(records=records, tally=tally)


def listing(many: bool) -> dict[str, Any]:
    properties = {
        "city": {"type": "string"},
        "days": {"type": "integer", "default": 3},
        "units": {"type": "string", "default": "metric"},
    }
    schema = {"type": "object", "properties": properties, "required": ["city"]}
    names = [f"tool_{number}" for number in range(1000)] if many else [*TOOLS, "sleep"]
    plain: dict[str, Any] = {"type": "object"}
    tools = [
        {"name": n, "description": "Forecast it.", "inputSchema": schema if many else plain}
        for n in names
    ]
    return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}


def hello(revision: str) -> dict[str, Any]:
    return {
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "limit", "version": "0"},
    }


def answer(request: dict[str, Any], result: dict[str, Any]) -> bytes:
    if "_meta" in request["params"]:
        result["resultType"] = "complete"
    return encode({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n"


def handle(request: dict[str, Any], tools: dict[str, Any]) -> bytes:
    """Return the reply to one message; empty if there is none, or if a thread will write it."""
    method = request["method"]
    if method == "tools/call":
        params = request["params"]
        name = params["name"]
        if name == "sleep":
            threading.Thread(target=sleep, args=(request,), daemon=True).start()
            return b""
        return answer(request, TOOLS[name](params))
    if "id" not in request:
        return b""
    request.setdefault("params", {})
    if method == "tools/list":
        return answer(request, tools)
    if method == "initialize":
        return answer(request, hello(request["params"]["protocolVersion"]))
    if method == "ping":
        return answer(request, {})
    error = {"code": -32601, "message": "Method not found"}
    return encode({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode() + b"\n"


def handle_http(body: bytes) -> Any:
    """Return the reply to the body of a POST; for `count`, the lines of an event stream."""
    request = decode(body.decode())
    if request["method"] == "tools/call" and request["params"]["name"] == "count":
        return itertools.chain(counted(request["params"]), [answer(request, text("done"))])
    return handle(request, listing(False))


def main(mode: str) -> None:
    if mode in ("http", "events"):
        import limit_http

        limit_http.main(handle_http)
        return
    if mode == "records":
        add_records()
    tools = listing(mode == "many")
    pieces: list[bytes] = []
    while True:
        chunk = os.read(0, 262144)
        if not chunk:
            return
        pieces.append(chunk)
        if b"\n" not in chunk:
            continue
        lines = b"".join(pieces).split(b"\n")
        pieces = [lines.pop()]
        replies = b"".join([handle(decode(line.decode()), tools) for line in lines])
        if replies:
            write(replies)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "plain")
