"""What the tools of the scripted server do: each is a misbehaviour. Part of peer.py. Stdlib only."""

from __future__ import annotations

import json
import os
import select

from peer_process import nothing, stop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict

    from .peer import Peer

    Json = Dict[str, Any]


def echo(peer: Peer, request: Json) -> None:
    """Say the text again; without one, say how many arguments came."""
    arguments = request["params"].get("arguments") or {}
    peer.text(request, arguments.get("text", "well"))


def hold(peer: Peer, request: Json) -> None:
    """Answer when it is cancelled, which is too late."""
    peer.held.append(request)


def reverse(peer: Peer, request: Json) -> None:
    """Wait until as many calls wait as each says, then answer the last one first."""
    peer.held.append(request)
    if len(peer.held) == request["params"]["arguments"]["calls"]:
        for held in reversed(peer.held):
            number = held["params"]["arguments"]["number"]
            if number < 0:
                peer.error(held, 7, {"number": number})
            else:
                peer.text(held, str(number))
        peer.held.clear()


def count(peer: Peer, request: Json) -> None:
    """Report progress of every shape, then answer."""
    total = request["params"]["arguments"]["total"]
    for number in range(total):
        peer.progress(request, number + 0.5, total=total, message=f"step {number}")
    peer.progress(request, total + 1)
    peer.text(request, "counted")


def stray_progress(peer: Peer, request: Json) -> None:
    """Report progress for nobody, in odd shapes, then properly, and again after the answer."""
    token = request["params"]["_meta"]["progressToken"]
    odd = str(token) if isinstance(token, int) else 1
    for strange in ("nobody", 10**6, odd, float(7), None, [token], True):
        peer.notify("notifications/progress", {"progressToken": strange, "progress": 99})
    peer.notify("notifications/progress", {"progress": 98})
    peer.notify("notifications/progress", {"progressToken": token, "progress": "97"})
    peer.send({"jsonrpc": "2.0", "method": "notifications/progress"})
    peer.progress(request, 1)
    peer.text(request, "done")
    peer.progress(request, 2)


def one_step_then_hold(peer: Peer, request: Json) -> None:
    """Report progress once, then never answer in time."""
    peer.progress(request, 1)
    peer.held.append(request)


def endless_progress(peer: Peer, request: Json) -> None:
    """Report progress until something comes from the client."""
    number = 0
    while not select.select([peer.stdin], [], [], 0.01)[0]:
        number += 1
        peer.progress(request, number)


def exit_mid_call(peer: Peer, request: Json) -> None:
    """Die instead of answering."""
    os.write(2, b"Traceback: out of luck\n")
    os._exit(7)


def half_line_exit(peer: Peer, request: Json) -> None:
    """Die within the answer."""
    peer.write(b'{"jsonrpc":"2.0","id":%s,"resu' % json.dumps(request["id"]).encode())
    os._exit(0)


def half_line_hang(peer: Peer, request: Json) -> None:
    """Stop within the answer, and read on."""
    peer.write(b'{"jsonrpc":"2.0","id":%s,"resu' % json.dumps(request["id"]).encode())


def whole_line_without_end(peer: Peer, request: Json) -> None:
    """End the stream right after the last answer, without a line feed."""
    answer = {"content": [{"type": "text", "text": "unended"}], "resultType": "complete"}
    peer.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer}).encode())
    os._exit(0)


def close_stdout(peer: Peer, request: Json) -> None:
    """Close the output and live on."""
    os.close(1)


def wrong_ids(*ids: Any) -> Callable[[Peer, Json], None]:
    """Answer under other ids first; a function makes them from the right one."""

    def answer(peer: Peer, request: Json) -> None:
        for other in ids:
            strange = other(request["id"]) if callable(other) else other
            peer.result({**request, "id": strange}, {"content": [{"type": "text", "text": "not yours"}]})
            peer.send({"jsonrpc": "2.0", "id": strange, "error": {"code": 1, "message": "not yours"}})
        peer.text(request, "yours")

    return answer


def dup_reply(peer: Peer, request: Json) -> None:
    """Answer several times."""
    for text in ("first", "second"):
        peer.text(request, text)
    peer.error(request, -32603)


def line_first(line: bytes) -> Callable[[Peer, Json], None]:
    """Write a line that is no message, then answer; ID in it becomes the request's id."""

    def answer(peer: Peer, request: Json) -> None:
        peer.write(line.replace(b"ID", json.dumps(request["id"]).encode()) + b"\n")
        echo(peer, request)

    return answer


def raw(line: bytes) -> Callable[[Peer, Json], None]:
    """Answer by this line alone; ID in it becomes the request's id."""

    def answer(peer: Peer, request: Json) -> None:
        peer.write(line.replace(b"ID", json.dumps(request["id"]).encode()) + b"\n")

    return answer


def result(**members: Any) -> Callable[[Peer, Json], None]:
    """Answer with this result."""
    return lambda peer, request: peer.result(request, dict(members))


def note_flood(peer: Peer, request: Json) -> None:
    """Send 20,000 log messages, then answer."""
    block = []
    for number in range(20_000):
        params = {"level": "info", "logger": "flood", "data": number}
        block.append(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
    peer.write("\n".join(block).encode() + b"\n")
    peer.text(request, "after the flood")


def unknown_notes(peer: Peer, request: Json) -> None:
    """Send notifications that nobody knows or that are malformed, then answer."""
    for method in ("notifications/nope", "nope", "notifications/cancelled", "notifications/message"):
        peer.send({"jsonrpc": "2.0", "method": method})
        peer.send({"jsonrpc": "2.0", "method": method, "params": [1]})
        peer.send({"jsonrpc": "2.0", "method": method, "params": {"requestId": request["id"], "level": 3}})
    echo(peer, request)


def big(peer: Peer, request: Json) -> None:
    """Answer with as many bytes of text as asked for."""
    count = request["params"]["arguments"]["bytes"]
    frame = {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": "@"}]}}
    frame["result"]["resultType"] = "complete"
    before, after = json.dumps(frame).encode().split(b"@")
    peer.write(before)
    for _ in range(count // 1_000_000):
        peer.write(b"x" * 1_000_000)
    peer.write(b"x" * (count % 1_000_000) + after + b"\n")


def no_newline_flood(peer: Peer, request: Json) -> None:
    """Write as many bytes as asked for without a line feed, then one, then the answer."""
    count = request["params"]["arguments"]["bytes"]
    for _ in range(count // 65536):
        peer.write(b"z" * 65536)
    peer.write(b"\n")
    echo(peer, request)


def asks(peer: Peer, request: Json) -> None:
    """Ask the client for things, under the very id of its own request, then answer."""
    peer.send({"jsonrpc": "2.0", "id": request["id"], "method": "ping"})
    peer.send({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": {"_meta": {}}})
    peer.send({"jsonrpc": "2.0", "id": 2**53, "method": "tools/list"})
    peer.send({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {"messages": []}})
    peer.send({"jsonrpc": "2.0", "id": "b", "method": "ping", "params": [1]})
    echo(peer, request)


def logs(peer: Peer, request: Json) -> None:
    """Send a log message of each level, then answer."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        peer.notify("notifications/message", {"level": level, "data": {"of": level}, "logger": "peer"})
    echo(peer, request)


def code(peer: Peer, request: Json) -> None:
    """Answer with the error that is asked for."""
    arguments = request["params"]["arguments"]
    peer.error(request, arguments["code"], arguments.get("data"), "as you wished")


def stop_reading(peer: Peer, request: Json) -> None:
    """Answer this one call, and read nothing any more."""
    peer.text(request, "deaf from now on")
    stop(peer)


def pause(peer: Peer, request: Json) -> None:
    """Answer, then read nothing for as many seconds as asked for."""
    peer.text(request, "a moment")
    select.select([], [], [], request["params"]["arguments"]["seconds"])


def environment(peer: Peer, request: Json) -> None:
    """Tell what was inherited: environment, working directory, descriptors, session."""
    found = {
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd")),
        "group": os.getpgrp(),
        "pid": os.getpid(),
    }
    peer.text(request, json.dumps(found))


def structured(peer: Peer, request: Json) -> None:
    """Answer with the structured content that is asked for; none if none is."""
    found: Json = {"content": [{"type": "text", "text": "{}"}], **request["params"]["arguments"]}
    peer.result(request, found)


TEXT = b'{"type":"text","text":"never"}'
OPEN = b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[' + TEXT + b"]"

TOOLS: Dict[str, Callable[[Peer, Json], None]] = {
    "echo": echo,
    "hold": hold,
    "reverse": reverse,
    "count": count,
    "stray-progress": stray_progress,
    "one-step": one_step_then_hold,
    "endless-progress": endless_progress,
    "silent": nothing,
    "exit-mid-call": exit_mid_call,
    "half-line-exit": half_line_exit,
    "half-line-hang": half_line_hang,
    "unended": whole_line_without_end,
    "close-stdout": close_stdout,
    "unknown-ids": wrong_ids(10**6, "nobody", lambda id: id + 1000 if isinstance(id, int) else id + "x"),
    "id-types": wrong_ids(
        lambda id: str(id) if isinstance(id, int) else 1,
        lambda id: [id],
        True,
        1.0,
        None,
        {},
        lambda id: [[id]],
    ),
    "float-id": line_first(
        b'{"jsonrpc":"2.0","id":ID.0,"result":{"content":[{"type":"text","text":"not yours"}]}}'
    ),
    "dup-reply": dup_reply,
    "error-not-object": raw(b'{"jsonrpc":"2.0","id":ID,"error":"boom"}'),
    "error-null": raw(b'{"jsonrpc":"2.0","id":ID,"error":null}'),
    "error-without-code": raw(b'{"jsonrpc":"2.0","id":ID,"error":{"message":"m"}}'),
    "error-code-text": raw(b'{"jsonrpc":"2.0","id":ID,"error":{"code":"-32603","message":"m"}}'),
    "error-without-message": raw(b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32603}}'),
    "result-null": raw(b'{"jsonrpc":"2.0","id":ID,"result":null}'),
    "result-list": raw(b'{"jsonrpc":"2.0","id":ID,"result":[]}'),
    "result-text": raw(b'{"jsonrpc":"2.0","id":ID,"result":"fine"}'),
    "both": raw(OPEN + b'},"error":{"code":1,"message":"m"}}'),
    "neither": raw(b'{"jsonrpc":"2.0","id":ID}'),
    "no-jsonrpc": raw(b'{"id":ID,"result":{"content":[]}}'),
    "jsonrpc-1": raw(b'{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}'),
    "duplicate-member": raw(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"content":[]}}'),
    "content-garbage": result(content="garbage"),
    "content-null": result(content=None),
    "content-number": result(content=[1]),
    "content-untyped": result(content=[{"text": "no type"}]),
    "content-textless": result(content=[{"type": "text"}]),
    "content-base64": result(content=[{"type": "image", "data": "not base64!", "mimeType": "image/png"}]),
    "is-error-text": result(content=[], isError="yes"),
    "deep-reply": raw(OPEN + b',"x":' + b"[" * 300 + b"]" * 300 + b"}}"),
    "nothing-in-it": result(),
    "banana": result(content=[], resultType="banana"),
    "task": result(content=[], resultType="task", task={"taskId": "1"}),
    "number-type": result(content=[], resultType=5),
    "untyped": raw(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"complete"}]}}'),
    "unknown-content": result(content=[{"type": "hologram", "x": 1}, {"type": "text", "text": "flat"}]),
    "extra": result(content=[{"type": "text", "text": "t", "x-block": 1}], **{"x-extra": {"a": [None]}}),
    "fails": result(
        content=[{"type": "text", "text": "it "}, {"type": "text", "text": "broke"}], isError=True
    ),
    "fails-empty": result(content=[], isError=True),
    "invalid-utf8": line_first(
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"\xff\xfe"}}'
    ),
    "invalid-utf8-reply": line_first(b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xc3\x28"}}'),
    "deep": line_first(b"[" * 100_000),
    "deep-object": line_first(b'{"a":' * 100_000),
    "nan": line_first(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":NaN}}'),
    "infinity": line_first(b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":-Infinity}}'),
    "huge-int": line_first(
        b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":' + b"9" * 5000 + b"}}"
    ),
    "huge-id": line_first(b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"result":{}}'),
    "surrogate": raw(OPEN.replace(b"never", b"half a pair: \\ud800") + b"}}"),
    "batch": line_first(
        b'[{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}]'
    ),
    "batch-empty": line_first(b"[]"),
    "batch-reply": raw(
        b'[{"jsonrpc":"2.0","id":"nobody","result":{}},' + OPEN.replace(b"never", b"in a batch") + b"}},7]"
    ),
    "not-json": line_first(b"Traceback (most recent call last):"),
    "blank": line_first(b"\r\n\n   \n\x00"),
    "crlf": raw(OPEN.replace(b"never", b"crlf") + b"}}\r"),
    "lines": raw(
        OPEN.replace(b"never", "a\\nb\\r\\nc\u2028d\u0085e\rf".encode().replace(b"\r", b"\\r")) + b"}}"
    ),
    "parse-error": line_first(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}'),
    "nameless-error": line_first(b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}'),
    "note-flood": note_flood,
    "unknown-notes": unknown_notes,
    "big": big,
    "no-newline-flood": no_newline_flood,
    "asks": asks,
    "logs": logs,
    "code": code,
    "stop-reading": stop_reading,
    "pause": pause,
    "environment": environment,
    "structured": structured,
}
