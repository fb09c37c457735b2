"""A server that misbehaves by script: a child process that the tests of the client talk to. Stdlib
only.

It is started as ``python peer.py JOURNAL SCRIPT``. JOURNAL is a file to which it adds a JSON line
for each event: its start, each line it receives, the end of its input, each signal. SCRIPT is JSON:

- ``start``: what it does before it reads anything (a name in `STARTS`).
- ``discover``, ``initialize``: how it answers these, a list of steps of which the last one repeats.
  A step is a name in `DISCOVERS` or `HANDSHAKES`, or ``{"error": code, "data": ...}``, ``{"result":
  ...}``, or ``{"raw": text}`` in which ID stands for the request's id.
- ``list``: how it answers tools/list (a name in `LISTS`, or a result).
- ``tool_errors``: steps of the same kind for tools/call, null for what the tool's own name says.
- ``cacheable``: true adds a cache lifetime to lists of tools, which 2026-07-28 requires.
- ``capabilities``, ``instructions``, ``more``: its description of itself; ``more`` overrides
  members of the result.
- ``end``: what it does when its input ends (a name in `ENDS`).

Every tool is a misbehaviour: the name of the tool that is called chooses it (`TOOLS`).
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` costs a third of the start of this process
    from typing import Any, Callable, Dict, Iterator, List

    Json = Dict[str, Any]
    Answers = Dict[str, Callable[["Peer", Json], Any]]
    Acts = Dict[str, Callable[["Peer"], Any]]

MODERN = "2026-07-28"
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SERVER_INFO = {"name": "scripted", "version": "0"}

SHOWN = 1 << 16
"""Bytes of a received line that the journal keeps."""

HANG = 60
"""Seconds after which a hanging peer exits, if no test ends it."""


class Peer:
    """One process of the scripted server, single-threaded on purpose: while it writes it does not
    read."""

    def __init__(self, journal: str, script: Json) -> None:
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.script = script
        self.held: List[Json] = []
        self.late: List[Json] = []
        self.steps: Dict[str, int] = {}

    def note(self, event: str, **more: Any) -> None:
        """Add a line to the journal, in one write."""
        record = json.dumps({"pid": os.getpid(), "event": event, **more})
        os.write(self.journal, record.encode() + b"\n")

    # Bytes.

    def write(self, data: bytes) -> None:
        """Write bytes to the client unchanged. If the client has closed its end, exit."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(1, view[: 1 << 20]) :]
            except BrokenPipeError:
                self.note("broken-pipe")
                os._exit(0)

    def send(self, **message: Any) -> None:
        """Write a message as one line."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def lines(self) -> Iterator[bytes]:
        """Lines of the client, until its end."""
        buffer = bytearray()
        looked = 0
        while True:
            chunk = os.read(0, 1 << 20)
            if not chunk:
                return
            buffer += chunk
            end = buffer.find(b"\n", looked)
            while end >= 0:
                line, looked = bytes(buffer[:end]), 0
                del buffer[: end + 1]
                yield line
                end = buffer.find(b"\n")
            looked = len(buffer)
            if (
                looked > SHOWN
                and self.script.get("start") == "duplex"
                and not self.steps.get("duplex")
            ):
                self.steps["duplex"] = (
                    1  # once, in the middle of a long line: write 5 MB before reading on
                )
                self.notify("notifications/message", {"level": "info", "data": "y" * 5_000_000})

    # Messages.

    def result(self, request: Json, result: Any) -> None:
        """Answer a request, in the shape that its era asks for."""
        meta = request.get("params", {}).get("_meta", {})
        if VERSION_KEY in meta and isinstance(result, dict):
            more = (
                {"ttlMs": 0, "cacheScope": "private"}
                if self.script.get("cacheable") and "tools" in result
                else {}
            )
            result = {
                "resultType": "complete",
                "_meta": {SERVER_KEY: SERVER_INFO},
                **more,
                **result,
            }
        self.send(id=request["id"], result=result)

    def error(self, request: Json, code: Any, data: Any = None, message: str = "refused") -> None:
        """Answer a request with an error."""
        error = {"code": code, "message": message, **({} if data is None else {"data": data})}
        self.send(id=request["id"], error=error)

    def text(self, request: Json, text: str) -> None:
        """Answer a tool call with one text."""
        self.result(request, {"content": [{"type": "text", "text": text}]})

    def raw(self, request: Json, line: bytes) -> None:
        """Write a line in which ID stands for the request's id."""
        self.write(line.replace(b"ID", json.dumps(request["id"]).encode()) + b"\n")

    def notify(self, method: str, params: Json) -> None:
        """Send a notification."""
        self.send(method=method, params=params)

    def progress(self, request: Json, progress: Any, **more: Any) -> None:
        """Report progress of a request, under its own token."""
        token = request["params"]["_meta"]["progressToken"]
        self.notify(
            "notifications/progress", {"progressToken": token, "progress": progress, **more}
        )

    def about(self) -> Json:
        """Return its description of itself, in either era."""
        told = (
            {"instructions": self.script["instructions"]} if "instructions" in self.script else {}
        )
        return {
            "capabilities": self.script.get("capabilities", {"tools": {}, "logging": {}}),
            **told,
        }

    # the contents of the script

    def step(self, name: str, default: Any) -> Any:
        """The current step of a scripted answer."""
        steps = self.script.get(name, default)
        steps = steps if isinstance(steps, list) else [steps]
        count = self.steps[name] = self.steps.get(name, -1) + 1
        return steps[min(count, len(steps) - 1)]

    def follow(self, request: Json, step: Any, named: Answers) -> None:
        """Answer a request as a step describes."""
        if isinstance(step, str):
            named[step](self, request)
        elif "error" in step:
            self.error(request, step["error"], step.get("data"))
        elif "raw" in step:
            self.raw(request, step["raw"].encode())
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
            self.result(message, listed) if isinstance(listed, dict) else LISTS[listed](
                self, message
            )
        elif method == "tools/call":
            step = self.step("tool_errors", None)
            self.follow(message, message["params"]["name"] if step is None else step, TOOLS)
        elif method == "notifications/cancelled":
            for request in [
                held for held in self.held if held["id"] == message["params"].get("requestId")
            ]:
                self.held.remove(
                    request
                )  # still answered, as by a server that has not seen it in time
                self.text(request, "too late")
        elif method is not None and "id" in message and not method.endswith("silent"):
            self.result(message, {})

    def run(self) -> None:
        """Serve until the input ends."""
        self.note("start")
        STARTS[self.script.get("start", "plain")](self)
        for line in self.lines():
            self.take(line)
        self.note("eof")
        ENDS[self.script.get("end", "exit")](self)


# ---------------------------------------------------------------- its beginning and its end


def hang(peer: Peer) -> None:
    """Do nothing and see nothing, until a signal that is not ignored."""
    signal.setitimer(signal.ITIMER_REAL, HANG)
    while True:
        signal.pause()


def stop(peer: Peer) -> None:
    """Stop reading, and exit when the client closes the input."""
    watch = select.poll()
    watch.register(0, 0)  # hanging up is always reported
    watch.poll(HANG * 1000)
    peer.note("eof")
    os._exit(0)


def leave(code: int, *, says: bytes = b"", on: int = 2) -> Callable[..., None]:
    """Exit with a code, after some words."""
    return lambda peer, *_: (os.write(on, says), os._exit(code))


def nothing(peer: Peer, *_: Any) -> None:
    """Leave it unanswered."""


def ignore_signals(peer: Peer) -> None:
    """Record SIGTERM, SIGINT and SIGHUP, and continue."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, frame: peer.note("signal", number=got))


def note_signals(peer: Peer) -> None:
    """Take note of SIGTERM and end by it."""
    signal.signal(signal.SIGTERM, lambda got, frame: (peer.note("signal", number=got), os._exit(0)))


def grandchild(peer: Peer, *, escapes: bool = False) -> None:
    """Start a process that holds all pipes and ignores the signals of its parent. As a daemon it
    leaves the process group."""
    pid = os.fork()
    if pid == 0:
        if escapes:
            os.setsid()
            peer.note("escaped")
        hang(peer)
    peer.note("grandchild", child=pid)


def helper(peer: Peer) -> None:
    """Start a process that stays when this one ends, records SIGTERM, and ends on it."""
    note_signals(peer)
    pid = os.fork()
    if pid == 0:
        hang(peer)
    peer.note("grandchild", child=pid)


def stderr_flood(peer: Peer) -> None:
    """Write 20 MB to stderr before reading anything."""
    block = b"".join(
        b"line %07d of a very talkative server, up to 64 bytes in all..\n" % n for n in range(16384)
    )
    for _ in range(20):
        view = memoryview(block)
        while view:
            view = view[os.write(2, view) :]
    os.write(2, b"the last words\n")


STARTS: Acts = {
    "plain": nothing,
    "silent": stop,
    "dies-at-start": leave(3, says=b"first words\nno database: giving up\n"),
    "dies-by-signal": lambda peer: os.kill(os.getpid(), signal.SIGKILL),
    "banner": lambda peer: peer.write(
        b'Welcome to the server!\n\n   \r\nListening on stdio {not json}\n"text"\n17\n'
    ),
    "bom": lambda peer: peer.write(b"\xef\xbb\xbfhello\n"),
    "only-banner": leave(2, says=b"usage: peer [options]\n", on=1),
    "ignore-signals": ignore_signals,
    "note-signals": note_signals,
    "grandchild": grandchild,
    "helper": helper,
    "escaped": lambda peer: grandchild(peer, escapes=True),
    "stderr-flood": stderr_flood,
    "duplex": nothing,
}
ENDS: Acts = {"exit": leave(0), "hang": hang}


# ---------------------------------------------------------------- the answers to the first requests


def discovered(*versions: str) -> Callable[[Peer, Json], None]:
    """A server of these revisions."""
    hints = {"supportedVersions": list(versions), "ttlMs": 0, "cacheScope": "private"}
    return lambda peer, request: peer.result(
        request, {**hints, **peer.about(), **peer.script.get("more", {})}
    )


discover_modern = discovered(MODERN, *reversed(HANDSHAKE_VERSIONS))


def discover_slow(peer: Peer, request: Json) -> None:
    """Take a fifth of a second for it."""
    select.select([], [], [], 0.2)
    discover_modern(peer, request)


def tell_late(peer: Peer) -> None:
    """Give the answers that are overdue."""
    for request in peer.late:
        discover_modern(peer, request)
    peer.late.clear()


DISCOVERS: Answers = {
    "modern": discover_modern,
    "older": discovered("2025-06-18", "2025-03-26"),
    "future": discovered("2099-01-01", MODERN),
    "late": lambda peer, request: peer.late.append(request),
    "slow": discover_slow,
    "silent": nothing,
    "exit": leave(1),
}


def shake(peer: Peer, request: Json, version: str = "") -> None:
    """Agree to this revision, or to the offered one, or counter with the newest."""
    tell_late(peer)
    asked = request["params"]["protocolVersion"]
    agreed = version or (asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1])
    found = {
        "protocolVersion": agreed,
        "serverInfo": SERVER_INFO,
        **peer.about(),
        **peer.script.get("more", {}),
    }
    peer.result(request, found)


def ping_first(peer: Peer, request: Json) -> None:
    """Send a ping and an unknown request before the response to the handshake."""
    peer.send(id=request["id"], method="ping")
    peer.send(id="odd", method="sampling/createMessage", params={})
    shake(peer, request)


def locked(peer: Peer, request: Json) -> None:
    """Refuse the handshake: the pipe was locked to the new era by the probe."""
    tell_late(peer)
    peer.error(
        request, -32022, {"supported": [MODERN], "requested": request["params"]["protocolVersion"]}
    )


HANDSHAKES: Answers = {
    "agree": shake,
    "ping-first": ping_first,
    "locked": locked,
    "silent": nothing,
    "exit": leave(4),
    **{
        name: (lambda peer, request, name=name: shake(peer, request, name))
        for name in (*HANDSHAKE_VERSIONS, "2099-01-01", MODERN)
    },
}


# ---------------------------------------------------------------- tools/list


def tool(name: str, **more: Any) -> Json:
    """A tool as it is listed."""
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def result(**members: Any) -> Callable[[Peer, Json], None]:
    """Answer with this result."""
    return lambda peer, request: peer.result(request, dict(members))


def pages(cursors: List[str], sizes: List[int], last: Any = None) -> Callable[[Peer, Json], None]:
    """A list in pages; `cursors[i]` asks for page i + 1."""

    def page(peer: Peer, request: Json) -> None:
        params = request.get("params", {})
        number = cursors.index(params["cursor"]) + 1 if "cursor" in params else 0
        found: Json = {"tools": [tool(f"t{number}-{index}") for index in range(sizes[number])]}
        found.update({"nextCursor": cursors[number]} if number < len(cursors) else last or {})
        peer.result(request, found)

    return page


def endless(peer: Peer, request: Json, *, seconds: float = 0.0) -> None:
    """Another page after every page."""
    select.select([], [], [], seconds)
    number = int(request.get("params", {}).get("cursor", "0"))
    peer.result(request, {"tools": [tool(f"t{number}")], "nextCursor": str(number + 1)})


def circle(peer: Peer, request: Json) -> None:
    """Pages that lead back to the first of them."""
    asked = request.get("params", {}).get("cursor")
    peer.result(request, {"tools": [], "nextCursor": {"a": "b", "b": "c"}.get(asked, "a")})


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

LISTS: Answers = {
    "one": result(
        tools=[tool("echo", description="says it again", **{"x-extra": [1]})], **{"x-more": 2}
    ),
    "pages": pages(["next ", "", "\u00fc=&/?\u2028"], [2, 0, 5, 1]),
    "null-cursor": pages(["a"], [1, 1], {"nextCursor": None}),
    "same-cursor": result(tools=[], nextCursor="again"),
    "circle": circle,
    "endless-pages": endless,
    "slow-pages": lambda peer, request: endless(peer, request, seconds=0.05),
    "silent": nothing,
    "schemas": result(
        tools=[tool(name, outputSchema=SCHEMA) for name in ("structured", "echo", "fails")]
    ),
    "ten-thousand": lambda peer, request: peer.result(
        request, {"tools": [tool(f"t{n}") for n in range(10_000)]}
    ),
}


# ---------------------------------------------------------------- tools/call


def given(request: Json) -> Json:
    """The arguments of a call."""
    found: Json = request["params"].get("arguments") or {}
    return found


def echo(peer: Peer, request: Json) -> None:
    """Return the text."""
    peer.text(request, given(request).get("text", "well"))


def reverse(peer: Peer, request: Json) -> None:
    """Wait until as many calls wait as each names, then answer the last one first."""
    peer.held.append(request)
    if len(peer.held) == given(request)["calls"]:
        for held in reversed(peer.held):
            number = given(held)["number"]
            if number < 0:
                peer.error(held, 7, {"number": number})
            else:
                peer.text(held, str(number))
        peer.held.clear()


def count(peer: Peer, request: Json) -> None:
    """Report progress of every shape, then answer."""
    total = given(request)["total"]
    for number in range(total):
        peer.progress(request, number + 0.5, total=total, message=f"step {number}")
    peer.progress(request, total + 1)
    peer.text(request, "counted")


def stray_progress(peer: Peer, request: Json) -> None:
    """Report progress with unknown and malformed tokens, then correctly, and again after the
    response."""
    token = request["params"]["_meta"]["progressToken"]
    odd = str(token) if isinstance(token, int) else 1
    for strange in ("nobody", 10**6, odd, float(7), None, [token], True):
        peer.notify("notifications/progress", {"progressToken": strange, "progress": 99})
    peer.notify("notifications/progress", {"progress": 98})
    peer.notify("notifications/progress", {"progressToken": token, "progress": "97"})
    peer.send(method="notifications/progress")
    peer.progress(request, 1)
    peer.text(request, "done")
    peer.progress(request, 2)


def endless_progress(peer: Peer, request: Json) -> None:
    """Report progress until the client sends something."""
    number = 0
    while not select.select([0], [], [], 0.01)[0]:
        number += 1
        peer.progress(request, number)


def half_line(peer: Peer, request: Json) -> None:
    """Stop within the answer, and read on."""
    peer.write(b'{"jsonrpc":"2.0","id":%s,"resu' % json.dumps(request["id"]).encode())


def wrong_ids(*ids: Any) -> Callable[[Peer, Json], None]:
    """Answer under other ids first; a function makes them from the right one."""

    def answer(peer: Peer, request: Json) -> None:
        for other in ids:
            strange = other(request["id"]) if callable(other) else other
            peer.text({**request, "id": strange}, "not yours")
            peer.send(id=strange, error={"code": 1, "message": "not yours"})
        peer.text(request, "yours")

    return answer


def dup_reply(peer: Peer, request: Json) -> None:
    """Answer several times."""
    for text in ("first", "second"):
        peer.text(request, text)
    peer.error(request, -32603)


def raw(line: bytes) -> Callable[[Peer, Json], None]:
    """Answer with this line only."""
    return lambda peer, request: peer.raw(request, line)


def line_first(line: bytes) -> Callable[[Peer, Json], None]:
    """Write a line that is not a message, then answer."""
    return lambda peer, request: (peer.raw(request, line), echo(peer, request))


def note_flood(peer: Peer, request: Json) -> None:
    """Send 20,000 log messages, or as many as requested, or another line that often; then answer."""
    asked = given(request)
    line = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"flood","data":%s}}'
    line = asked.get("line", line % ('"%s"' % ("x" * asked["size"]) if "size" in asked else "ID"))
    for number in range(asked.get("count", 20_000)):
        peer.write(line.replace('"q"' if "line" in asked else "ID", str(number)).encode() + b"\n")
    peer.text(request, "after the flood")


def flood(peer: Peer, request: Json) -> None:
    """Report progress and log as fast as possible, until the client sends something."""
    token = request["params"]["_meta"]["progressToken"]
    progress = {"progressToken": token, "progress": 1, "message": "x" * 20_000}
    both = (
        ("notifications/progress", progress),
        ("notifications/message", {"level": "info", "data": "x" * 2_000}),
    )
    lines = [
        json.dumps({"jsonrpc": "2.0", "method": method, "params": params}) + "\n"
        for method, params in both
    ]
    block = "".join(lines).encode() * 20
    while not select.select([0], [], [], 0)[0]:
        peer.write(block)


def unknown_notes(peer: Peer, request: Json) -> None:
    """Send unknown and malformed notifications, then answer."""
    for method in (
        "notifications/nope",
        "nope",
        "notifications/cancelled",
        "notifications/message",
    ):
        peer.send(method=method)
        peer.send(method=method, params=[1])
        peer.send(method=method, params={"requestId": request["id"], "level": 3})
    echo(peer, request)


def big(peer: Peer, request: Json) -> None:
    """Answer with as many bytes of text as asked for."""
    size = given(request)["bytes"]
    answer = {"content": [{"type": "text", "text": "@"}], "resultType": "complete"}
    frame = {"jsonrpc": "2.0", "id": request["id"], "result": answer}
    before, after = json.dumps(frame).encode().split(b"@")
    peer.write(before)
    for _ in range(size // 1_000_000):
        peer.write(b"x" * 1_000_000)
    peer.write(b"x" * (size % 1_000_000) + after + b"\n")


def no_newline_flood(peer: Peer, request: Json) -> None:
    """Write as many bytes as asked for without a line feed, then one, then the answer."""
    for _ in range(given(request)["bytes"] // 65536):
        peer.write(b"z" * 65536)
    peer.write(b"\n")
    echo(peer, request)


def asks(peer: Peer, request: Json) -> None:
    """Ask the client for things, under the very id of its own request, then answer."""
    peer.send(id=request["id"], method="ping")
    peer.send(id="s", method="ping", params={"_meta": {}})
    peer.send(id=2**53, method="tools/list")
    peer.send(id="q", method="sampling/createMessage", params={"messages": []})
    peer.send(id="b", method="ping", params=[1])
    echo(peer, request)


def logs(peer: Peer, request: Json) -> None:
    """Send a log message of each level, then answer."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        peer.notify(
            "notifications/message", {"level": level, "data": {"of": level}, "logger": "peer"}
        )
    echo(peer, request)


def code(peer: Peer, request: Json) -> None:
    """Answer with the error that is asked for."""
    peer.error(request, given(request)["code"], given(request).get("data"), "as you wished")


def stop_reading(peer: Peer, request: Json) -> None:
    """Answer this one call, and stop reading."""
    peer.text(request, "deaf from now on")
    stop(peer)


def environment(peer: Peer, request: Json) -> None:
    """Return what was inherited: environment, working directory, descriptors, session."""
    descriptors = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    found = {"env": dict(os.environ), "cwd": os.getcwd(), "descriptors": descriptors}
    peer.text(request, json.dumps({**found, "group": os.getpgrp(), "pid": os.getpid()}))


def structured(peer: Peer, request: Json) -> None:
    """Answer with the structured content that is asked for; none if none is."""
    peer.result(request, {"content": [{"type": "text", "text": "{}"}], **given(request)})


OPEN = b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"never"}]'
"""The beginning of an answer; ID becomes the request's."""

SHAPES = {  # answers of the wrong shape
    **{name: b'{"jsonrpc":"2.0","id":ID%s}' % members for name, members in {
        "error-not-object": b',"error":"boom"', "error-null": b',"error":null',
        "error-without-code": b',"error":{"message":"m"}', "error-without-message": b',"error":{"code":-32603}',
        "error-code-text": b',"error":{"code":"-32603","message":"m"}', "result-null": b',"result":null',
        "result-list": b',"result":[]', "result-text": b',"result":"fine"', "neither": b"",
        "duplicate-member": b',"result":{"content":[],"content":[]}',
    }.items()},
    "both": OPEN + b'},"error":{"code":1,"message":"m"}}',
    "no-jsonrpc": b'{"id":ID,"result":{"content":[]}}',
    "jsonrpc-1": b'{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}',
    "deep-reply": OPEN + b',"x":' + b"[" * 300 + b"]" * 300 + b"}}",
}  # fmt: skip
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%s}}'
STRAY_LINES = {  # not answers to our calls, or not messages at all
    "float-id": b'{"jsonrpc":"2.0","id":ID.0,"result":{"content":[{"type":"text","text":"not yours"}]}}',
    "invalid-utf8": NOTE % b'"\xff\xfe"', "deep": b"[" * 100_000, "deep-object": b'{"a":' * 100_000,
    "nan": NOTE % b"NaN", "infinity": NOTE % b"-Infinity", "huge-int": NOTE % (b"9" * 5000),
    "huge-id": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"result":{}}', "batch": b"[%s]" % (NOTE % b"1"),
    "batch-empty": b"[]", "not-json": b"Traceback (most recent call last):",
    "parse-error": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}',
    "nameless-error": b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"what?"}}',
}  # fmt: skip


def said(text: bytes, more: bytes = b"}}") -> bytes:
    """A whole answer with this text."""
    return OPEN.replace(b"never", text) + more


TOOLS: Answers = {
    "echo": echo,
    "hold": lambda peer, request: peer.held.append(
        request
    ),  # until it is cancelled, which is too late
    "reverse": reverse,
    "count": count,
    "stray-progress": stray_progress,
    "endless-progress": endless_progress,
    "silent": nothing,
    "exit-mid-call": leave(7, says=b"Traceback: out of luck\n"),
    "half-line-exit": lambda peer, request: (half_line(peer, request), os._exit(0)),
    "half-line-hang": half_line,
    "close-stdout": lambda peer, request: os.close(1),
    "unknown-ids": wrong_ids(
        10**6, "nobody", lambda id: id + 1000 if isinstance(id, int) else id + "x"
    ),
    "id-types": wrong_ids(
        lambda id: [id],
        True,
        None,
        {},
        lambda id: [[id]],
    ),
    "dup-reply": dup_reply,
    **{name: raw(line) for name, line in SHAPES.items()},
    **{name: line_first(line) for name, line in STRAY_LINES.items()},
    "content-garbage": result(content="garbage"),
    "content-null": result(content=None),
    "content-number": result(content=[1]),
    "content-untyped": result(content=[{"text": "no type"}]),
    "content-textless": result(content=[{"type": "text"}]),
    "content-base64": result(
        content=[{"type": "image", "data": "not base64!", "mimeType": "image/png"}]
    ),
    "is-error-text": result(content=[], isError="yes"),
    "banana": result(content=[], resultType="banana"),
    "task": result(content=[], resultType="task", task={"taskId": "1"}),
    "number-type": result(content=[], resultType=5),
    "untyped": raw(
        b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"complete"}]}}'
    ),
    "fails": result(
        content=[{"type": "text", "text": "it "}, {"type": "text", "text": "broke"}], isError=True
    ),
    "fails-empty": result(content=[], isError=True),
    "invalid-utf8-reply": line_first(b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xc3\x28"}}'),
    "surrogate": raw(said(b"half a pair: \\ud800")),
    "batch-reply": raw(
        b'[{"jsonrpc":"2.0","id":"nobody","result":{}},' + said(b"in a batch") + b",7]"
    ),
    "blank": line_first(b"\r\n\n   \n\x00"),
    "crlf": raw(said(b"crlf") + b"\r"),
    "lines": raw(said("a\\nb\\r\\nc\u2028d\u0085e\\rf".encode())),
    "note-flood": note_flood,
    "flood": flood,
    "unknown-notes": unknown_notes,
    "big": big,
    "no-newline-flood": no_newline_flood,
    "asks": asks,
    "logs": logs,
    "code": code,
    "stop-reading": stop_reading,
    "environment": environment,
    "structured": structured,
}


if __name__ == "__main__":
    Peer(sys.argv[1], json.loads(sys.argv[2])).run()
