"""The tools of the hostile HTTP server. Each tool misbehaves in one way, over raw sockets, with
only the standard library.

``arguments["way"]`` selects the form of an answer: "json" for a body, "event" for events.
``arguments["text"]`` is the text of a successful answer.
"""

from __future__ import annotations

import json
import socket
import struct
import zlib
from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

from ..web import Heard, Wire
from ..wire import peer

if TYPE_CHECKING:
    from .client_http import Hostile

Tool = Callable[["Hostile", Heard, Wire], Any]
MEGABYTE = 1 << 20
TICK = 0.02  # seconds between two bytes of what drips
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENT_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def arguments(heard: Heard) -> Dict[str, Any]:
    found: Dict[str, Any] = heard.message["params"].get("arguments") or {}
    return found


def answer(heard: Heard, text: str = "", id: Any = ..., **more: Any) -> bytes:
    content = [{"type": "text", "text": text or arguments(heard).get("text", "well")}]
    result = {"resultType": "complete", "content": content, **more}
    return json.dumps(
        {"jsonrpc": "2.0", "id": heard.message["id"] if id is ... else id, "result": result}
    ).encode()


def as_event(data: bytes, head: bytes = b"") -> bytes:
    return head + b"data: " + data + b"\n\n"


def say(heard: Heard, wire: Wire, *messages: bytes) -> None:
    """Messages in the way that was asked for; as a body it can be the last one only."""
    if arguments(heard).get("way") == "json":
        wire.whole(200, messages[-1])
    else:
        wire.stream()
        for message in messages:
            wire.chunk(as_event(message))
        wire.end()


def echo(web: Hostile, heard: Heard, wire: Wire) -> None:
    say(heard, wire, answer(heard))


def bare(data: bytes) -> Tool:
    """Answer with these bytes only; ID in them becomes the request's id."""
    return lambda web, heard, wire: say(
        heard, wire, data.replace(b"ID", json.dumps(heard.message["id"]).encode())
    )


def first(data: bytes) -> Tool:
    """Send an event with this, and then the answer."""
    return lambda web, heard, wire: say(
        heard, wire, data.replace(b"ID", json.dumps(heard.message["id"]).encode()), answer(heard)
    )


def strange(id: Any) -> Tuple[Any, ...]:
    return id + 1000, "nobody", f"{id}x" if isinstance(id, int) else 1, id + 1


def other_ids(web: Hostile, heard: Heard, wire: Wire) -> None:
    """Answers and errors to others, then the right one."""
    found = []
    for id in strange(heard.message["id"]):
        found.append(answer(heard, "not yours", id))
        found.append(
            json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": 1, "message": "no"}}).encode()
        )
    say(heard, wire, *found, answer(heard, "yours"))


def odd_id(web: Hostile, heard: Heard, wire: Wire) -> None:
    """Answer with a value that cannot be an id, then correctly. In this place the first one may
    count as no answer, or as a wrong answer to our call."""
    say(heard, wire, answer(heard, "not yours", arguments(heard)["id"]), answer(heard, "yours"))


def swapped(web: Hostile, heard: Heard, wire: Wire) -> None:
    """Wait for another call, answer that one here first, and then this one."""
    ids = web.meet(heard)
    other = next((id for id in ids if id != heard.message["id"]), None)
    say(heard, wire, answer(heard, "not yours", other), answer(heard, "yours"))


def flood(web: Hostile, heard: Heard, wire: Wire) -> None:
    """20,000 log messages, and then the answer."""
    wire.stream()
    params = {"level": "info", "logger": "flood", "data": 0}
    note = as_event(
        json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).encode()
    )
    for _ in range(200):
        wire.raw((b"%x\r\n%s\r\n" % (len(note), note)) * 100)
    wire.chunk(as_event(answer(heard, "after the flood")))
    wire.end()


def endless_flood(web: Hostile, heard: Heard, wire: Wire) -> None:
    """Progress and log messages as fast as they are taken."""
    token = heard.message["params"]["_meta"]["progressToken"]
    both = (
        ("progress", {"progressToken": token, "progress": 1, "message": "x" * 20_000}),
        ("message", {"level": "info", "data": "x" * 2_000}),
    )
    lines = [
        {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}
        for name, params in both
    ]
    block = b"".join(as_event(json.dumps(line).encode()) for line in lines) * 20
    wire.stream()
    while not web.over.is_set():
        wire.chunk(block)


def big(web: Hostile, heard: Heard, wire: Wire) -> None:
    """Send an answer of exactly this many ``bytes``, in pieces of ``piece``. The text is long or,
    if ``padded``, the rest."""
    given = arguments(heard)
    mark = "@@"
    frame = answer(heard, "whole", padding=mark) if given.get("padded") else answer(heard, mark)
    before, after = frame.split(mark.encode())
    body = before + b"x" * (given["bytes"] - len(before) - len(after)) + after
    if given.get("way") == "json":
        wire.raw(JSON_HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return
    body, size = as_event(body), given.get("piece", 65536)
    wire.stream()
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    waiting = bytearray()
    for piece in pieces:
        waiting += b"%x\r\n%s\r\n" % (len(piece), piece)
        if len(waiting) > MEGABYTE:
            wire.raw(bytes(waiting))
            waiting.clear()
    wire.raw(bytes(waiting))
    wire.end()


def endless(head: bytes, block: bytes, *, begin: bytes = b"") -> Tool:
    """Send a body that repeats the same bytes as long as a client reads it."""

    def tool(web: Hostile, heard: Heard, wire: Wire) -> None:
        wire.raw(head + CHUNKED)
        if begin:
            wire.chunk(begin)
        while not web.over.is_set():
            wire.chunk(block)

    return tool


def bomb(megabytes: int) -> bytes:
    """Return a gzip file of this many megabytes of zeros, about a thousandth of that length."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(MEGABYTE)
    block = squeeze.compress(zeros) + squeeze.flush(
        zlib.Z_FULL_FLUSH
    )  # it is stateless, so it may be repeated
    sum = 0
    for _ in range(megabytes):
        sum = zlib.crc32(zeros, sum)
    tail = squeeze.flush(zlib.Z_FINISH)
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    return (
        head + block * megabytes + tail + struct.pack("<II", sum, megabytes * MEGABYTE & 0xFFFFFFFF)
    )


def exploding(status: int, kind: str) -> Tool:
    return lambda web, heard, wire: wire.whole(status, web.bomb, kind, Content_Encoding="gzip")


def drip(head: bytes, byte: bytes = b" ") -> Tool:
    """A byte now and then, for ever."""

    def tool(web: Hostile, heard: Heard, wire: Wire) -> None:
        wire.raw(head)
        while not web.over.wait(TICK):
            wire.raw(byte)

    return tool


def hang(head: bytes = b"") -> Tool:
    return lambda web, heard, wire: (wire.raw(head), web.over.wait())


def broken(head: bytes, *, body: bool = False, reset: bool = False) -> Tool:
    """This, half of the answer if that is wanted, and then the end of the connection."""

    def tool(web: Hostile, heard: Heard, wire: Wire) -> None:
        whole = answer(heard, "half of it")
        wire.raw(head + (whole[: len(whole) // 2] if body else b""))
        end(wire, reset)

    return tool


def end(wire: Wire, reset: bool = False) -> None:
    """Close, as is usual or by a reset."""
    if reset:
        wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.sock.close()
        raise ConnectionResetError("on purpose")  # the rest of the way to the end of the socket
    wire.cut()


def cut_stream(how: str) -> Tool:
    """An event stream that ends too early: "middle" of the event, "boundary", "unterminated" at its
    regular end."""

    def tool(web: Hostile, heard: Heard, wire: Wire) -> None:
        whole = answer(heard, "half of it")
        wire.stream()
        wire.chunk(
            as_event(
                b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
            )
        )
        if how == "middle":
            wire.chunk(b"data: " + whole[:-9])
        elif how == "line":
            wire.chunk(
                b"data: " + whole + b"\n"
            )  # everything except the empty line that ends an event
        elif how == "unterminated":
            wire.chunk(b"data: " + whole)
            wire.end()
            return
        wire.cut()

    return tool


def status(number: int, body: bytes = b"", kind: Any = "text/html", **headers: str) -> Tool:
    return lambda web, heard, wire: wire.whole(number, body, kind, **headers)


PAGE = b"<html><h1>Sorry</h1>" + b"~" * 100_000  # far more than any message should show

SHAPES = {
    **peer.SHAPES,
    "content-garbage": b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":"garbage"}}',
    "content-number": b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[1]}}',
}

FIRST = {
    **peer.STRAY_LINES,
    "empty": b"",
    "parse-error": b'{"jsonrpc":"2.0","id":"x","error":{"code":-32700,"message":"what?"}}',
    "crlf": b'{"jsonrpc":"2.0",\ndata: "method":"notifications/x"}\nevent: strange\nid: \0\nretry: 1x',
}
for name in ("float-id", "nameless-error"):  # these mean the one request that a stream belongs to
    del FIRST[name]

REPLIES = {
    "invalid-utf8-reply": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xc3\x28"}]}}',
    "deep-reply": peer.SHAPES["deep-reply"],
    "nan-reply": peer.OPEN + b',"x":NaN}}',
    "surrogate-reply": peer.OPEN + b',"x":"\\ud800"}}',
    "bom-reply": b"\xef\xbb\xbf" + peer.OPEN + b"}}",
}

TOOLS: Dict[str, Tool] = {
    "echo": echo,
    "other-ids": other_ids,
    "odd-id": odd_id,
    "one-other-id": lambda web, heard, wire: say(
        heard, wire, answer(heard, "not yours", heard.message["id"] + 1000)
    ),
    "twice": lambda web, heard, wire: say(
        heard, wire, answer(heard, "first"), answer(heard, "second")
    ),
    "swapped": swapped,
    "note-flood": flood,
    "flood": endless_flood,
    "big": big,
    **{name: bare(text) for name, text in SHAPES.items()},
    **{name: first(data) for name, data in FIRST.items()},
    **{name: bare(data) for name, data in REPLIES.items()},
    "endless-event": endless(EVENT_HEAD, b"x" * 65536, begin=b"data: "),
    "endless-lines": endless(EVENT_HEAD, b"data: xy\n" * 6_000),
    "endless-comments": endless(EVENT_HEAD, b": " + b"x" * 65536),
    "endless-comment-lines": endless(EVENT_HEAD, b": x\n" * 16_000),
    "endless-field": endless(EVENT_HEAD, b"x" * 65536, begin=b"colour"),
    "endless-json": endless(JSON_HEAD, b" " * 65536),
    "bomb": exploding(200, "application/json"),  # 1 GB of zeros in 1 MB of gzip
    "bomb-stream": exploding(200, "text/event-stream"),
    "bomb-error": exploding(500, "text/html"),
    "drip-status": drip(b"HTTP/1.1 200 ", b"O"),
    "drip-headers": drip(b"HTTP/1.1 200 OK\r\nX: "),
    "drip-header-lines": drip(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "drip-continues": drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "drip-body": drip(JSON_HEAD + b"Content-Length: 999999\r\n\r\n"),
    "drip-chunks": drip(JSON_HEAD + CHUNKED, b"1\r\n \r\n"),
    "drip-comments": drip(EVENT_HEAD + CHUNKED, b"3\r\n:x\n\r\n"),
    "drip-error": drip(
        b"HTTP/1.1 500 No\r\nContent-Type: text/html\r\nContent-Length: 999999\r\n\r\n"
    ),
    "hang": hang(),
    "hang-in-head": hang(b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "hang-in-body": hang(JSON_HEAD + b"Content-Length: 1000\r\n\r\n{"),
    "hang-in-stream": hang(EVENT_HEAD + CHUNKED),
    "reset": broken(b"", reset=True),
    "reset-in-head": broken(b"HTTP/1.1 200 OK\r\nConte", reset=True),
    "reset-in-body": broken(JSON_HEAD + b"Content-Length: 1000\r\n\r\n", body=True, reset=True),
    "truncated": broken(JSON_HEAD + b"Content-Length: 1000\r\n\r\n", body=True),
    "truncated-head": broken(b"HTTP/1.1 200 OK\r\nConte"),
    "bad-chunk": broken(JSON_HEAD + CHUNKED + b"zz\r\n", body=True),
    "negative-chunk": broken(JSON_HEAD + CHUNKED + b"-5\r\n", body=True),
    "cut-chunk": broken(JSON_HEAD + CHUNKED + b"fff\r\n", body=True),
    "no-last-chunk": broken(JSON_HEAD + CHUNKED + b"2\r\n{}\r\n"),
    "no-http": broken(b"SSH-2.0 hello\r\n\r\n"),
    **{f"cut-{how}": cut_stream(how) for how in ("middle", "line", "boundary", "unterminated")},
    "html": status(200, PAGE),
    "no-content": status(204, kind=None),
    "accepted": status(202, kind=None),
    "html-500": status(500, PAGE),
    "html-404-ish": status(410, PAGE),
    "plain-type": status(200, b'{"jsonrpc":"2.0","id":1,"result":{}}' + PAGE, "text/plain"),
    "no-type": status(200, PAGE, None),
    "empty-json": status(200),
    "teapot": status(418, PAGE),
    "moved-nowhere": status(302, PAGE),
}
