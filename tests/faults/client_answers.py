"""K02 to K10, K24 and K25: what a client makes of what a server says, and of what it does not."""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Dict, Iterator, Tuple

from .client import Client
from .trial import Trial, case

HANDSHAKE: Dict[str, Any] = {"discover": [{"error": -32601}]}  # a script of a server that knows handshakes only

ERAS: Tuple[Dict[str, Any], ...] = (HANDSHAKE, {})

MEGABYTE = 1 << 20


def clients(t: Trial, **script: Any) -> Iterator[Client]:
    """A client of a server of each era."""
    for era in ERAS:
        yield t.client().opened(**era, **script)


@case("K02")
def banner(t: Trial) -> None:
    for start in ("banner", "bom"):
        for client in clients(t, start=start):
            client.alive()
    for client in clients(t):
        for tool in ("not-json", "blank"):
            t.expect(client.call(tool, text="after").text == "after", f"{tool}: the call was lost")
        client.alive()


@case("K03")
def other_ids(t: Trial) -> None:
    for client in clients(t):
        for tool in ("unknown-ids", "id-types"):
            reply = client.call(tool)
            t.expect(reply.text == "yours", f"{tool}: {reply.text or reply.error}: {reply.message}"[:120])
        reply = client.call("float-id", text="yours")
        t.expect(reply.text == "yours", f"float-id: {reply.text or reply.error}")
        t.expect(client.call("dup-reply").text == "first", "dup-reply: not the first answer")
        client.alive()


AT_ONCE = (
    "error-not-object", "error-null", "error-code-text", "result-null", "result-list", "result-text", "both",
    "neither", "content-garbage", "content-number",
)  # fmt: skip


@case("K04")
def wrong_shapes(t: Trial) -> None:
    for client in clients(t):
        for tool in AT_ONCE:
            reply = client.call(tool)
            t.expect(not reply.ok, f"{tool}: taken as a success")
            t.below(f"{tool}", reply.seconds, 1)
            if reply.seconds > 0.5 * client.never:
                return  # so will the others
        client.alive()
    slowest = max((value for value, _ in t.metrics.values()), default=0.0)
    if not t.said:
        t.metrics = {"slowest": (slowest, "s")}


@case("K05")
def notes(t: Trial) -> None:
    for client in clients(t):
        client.alive()
        base, reply = client.memory(), client.call("note-flood", 30)
        t.expect(reply.text == "after the flood", f"the call was lost: {reply.error}")
        t.below("time of 20,000", reply.seconds, 1)
        t.below("growth", client.memory() - base, 32, "MB")
        client.alive()


@case("K06")
def large(t: Trial) -> None:
    client = t.client().opened(**HANDSHAKE)
    client.alive()
    base, reply = client.memory(), client.call("big", 60, bytes=50_000_000)
    size = len(reply.text or "")
    t.expect(size == 50_000_000, f"{size} of 50,000,000 bytes arrived: {reply.error}")
    t.below("time, the adapter's own hop included", reply.seconds, 2.5)
    t.below("growth, that hop included", client.memory("VmHWM") - base, 400, "MB")
    client.alive()


LINES = (
    "invalid-utf8", "deep", "deep-object", "nan", "infinity", "huge-int", "huge-id", "batch", "batch-empty",
    "parse-error", "nameless-error", "unknown-notes",
)  # fmt: skip


@case("K07")
def bad_lines(t: Trial) -> None:
    for client in clients(t):
        for tool in LINES:
            reply = client.call(tool, text="after")
            t.expect(reply.text == "after", f"{tool}: {reply.error or reply.text}: {reply.message}"[:120])
        for tool in ("surrogate", "deep-reply", "invalid-utf8-reply"):
            reply = client.call(tool, 3, text="after")
            t.expect(reply.ok or reply.error, tool)
        client.alive()
        answers = [one for one in client.journal() if one["event"] == "line" and '"error"' in one["text"]]
        t.expect(answers == [], f"the client answered a line that is no request: {answers[:1]}")


@case("K08")
def endless_line(t: Trial) -> None:
    client = t.client().opened(**HANDSHAKE)
    client.alive()
    base, reply = client.memory(), client.call("no-newline-flood", 30, bytes=96 * MEGABYTE, text="after")
    t.expect(reply.text == "after", f"the call was lost: {reply.error}")
    t.below("growth", client.memory("VmHWM") - base, 64 + 8, "MB")
    client.alive()


@case("K09")
def loud(t: Trial) -> None:
    for client in clients(t, start="stderr-flood"):
        client.alive()
        t.below("memory", client.memory("VmHWM"), 120, "MB")


@case("K10")
def deaf(t: Trial) -> None:
    many = "x" * 5_000_000
    for client in clients(t):
        client.call("stop-reading")
        for arguments in ({"text": many}, {}):
            reply = client.do("call", tool="echo", arguments=arguments, timeout=1.0)
            t.expect(not reply.ok, "a call to a deaf server was a success")
            t.below("a timeout of 1 s", reply.seconds, 1.5)
    for era in ERAS:
        client = t.client().opened(start="duplex", **era)
        t.expect(client.call("echo", 20, text=many).text == many, "both wrote 5 MB: the call was lost")
        client.alive()


@case("K24")
def endless_lists(t: Trial) -> None:
    t.at_once(*(partial(_listed, t, mode) for mode in ("same-cursor", "circle", "endless-pages")))


def _listed(t: Trial, mode: str) -> None:
    for client in clients(t, list=mode):
        reply = client.do("list", timeout=client.never)
        if reply.error == "RequestTimeout":
            t.warn(f"{mode}: ended by the timeout alone")
        t.below(mode, reply.seconds, 15)
        asked = sum('"tools/list"' in one.get("text", "") for one in client.journal())
        t.expect(asked <= 1001, f"{mode}: {asked} requests")
        client.alive()


HOSTILE: Tuple[Tuple[str, Any], ...] = (
    ("a remote $ref", {"$ref": "http://192.0.2.1/schema.json"}),
    ("a pattern that explodes", {"type": "string", "pattern": "^(a+)+$"}),
    ("allOf 60 deep", None),
    ("a $ref to itself", {"$ref": "#/properties/x"}),
    ("a schema that is no object", 7),
)


def _nested(levels: int) -> str:
    return '{"allOf":[' * levels + "{}" + "]}" * levels


@case("K25")
def hostile_tools(t: Trial) -> None:
    """The tool `structured` returns what it is called with, which a client may check against its output schema."""
    for client in clients(t, list="ten-thousand"):
        reply = client.do("list", timeout=20.0)
        t.expect(reply.more.get("count") == 10_000, f"10,000 tools: {reply.error or reply.more.get('count')}")
        t.below("10,000 tools", reply.seconds, 2)
    for era in ERAS:
        for name, schema in HOSTILE:
            _hostile(t, era, name, schema)


def _hostile(t: Trial, era: Dict[str, Any], name: str, schema: Any) -> None:
    """List a tool with this schema for a part of its result, and call it with what is worst for that schema."""
    inner = json.loads(_nested(60)) if schema is None else schema
    output = {"type": "object", "properties": {"x": inner}}
    tool = {"name": "structured", "inputSchema": {"type": "object"}, "outputSchema": output}
    good = {"name": "echo", "inputSchema": {"type": "object"}}
    client = t.client().opened(**era, list={"tools": [tool, good]})
    listed = client.do("list", timeout=5.0)
    t.below(f"{name}: the list", listed.seconds, 1)
    t.expect(listed.ok, f"{name}: the list was lost: {listed.error}: {listed.message}"[:150])
    reply = client.call("structured", 3, structuredContent={"x": "a" * 40 + "!"})
    t.below(f"{name}: the call", reply.seconds, 3.5)
    client.alive()
