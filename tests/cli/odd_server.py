"""A stdio server of both eras, built on the standard library. It passes every check, except for the
fault that its argument names."""

from __future__ import annotations

import json
import sys
from typing import Any, Dict

ODD = sys.argv[1]
PREFIX = "io.modelcontextprotocol/"
TOOL: Dict[str, Any] = {"name": "add", "inputSchema": {"type": "object"}}
LISTS: Dict[str, Any] = {
    "tools/list": ("tools", [TOOL]),
    "resources/list": ("resources", [{"uri": "a://b", "name": "b"}]),
    "resources/templates/list": ("resourceTemplates", []),
    "prompts/list": ("prompts", [{"name": "p"}]),
}
SCHEMAS = {
    "large schema": {
        "type": "object",
        "patternProperties": {"^x": {}},
        "dependentRequired": {"a": ["b"]},
    },
    "foreign reference": {
        "type": "object",
        "properties": {"a": {"$ref": "https://example.com/schema"}},
    },
    "old dialect": {"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"},
    "wrong schema": {"type": "object", "properties": []},
}
CURSORS: Dict[str, Any] = {"same cursor": "again", "null cursor": None, "number as cursor": 7}
VERSIONS: Dict[str, Any] = {"null versions": None}
DATA: Dict[str, Any] = {"text as data": "x"}
EMPTY = {("ping", None), *(("logging/setLevel", level) for level in ("debug", "info", "emergency"))}
NOISE = {
    "deep line": b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "binary line": b"\xff\xfe\x00\x1b[31m\n",
}

TOOL["inputSchema"] = SCHEMAS.get(ODD, TOOL["inputSchema"])
if ODD == "no templates":
    del LISTS["resources/templates/list"]
elif ODD == "texts as tools":
    LISTS["tools/list"] = ("tools", ["add", 5, None])
elif ODD == "no ping":
    EMPTY.remove(("ping", None))
elif ODD == "array as name":
    TOOL["name"] = ["add"]


def write(id: Any, **members: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, **members}), flush=True)


def refuse(id: Any, code: int, **members: Any) -> None:
    write(id, error={"code": code, "message": "no", **members})


def answer(method: str, id: Any, params: Dict[str, Any]) -> None:
    """Answer one request."""
    meta = params.get("_meta", {})
    alone = PREFIX + "protocolVersion" in meta
    capabilities: Dict[str, Any] = {
        "tools": {},
        "resources": {},
        "prompts": {},
        "logging": {},
        "completions": {},
    }
    stamp: Any = {}
    if alone:
        told: Any = {PREFIX + "serverInfo": {"name": "odd", "version": "1"}}
        stamp = {"resultType": "complete", "_meta": ["x"] if ODD == "array as _meta" else told}
    listed = {**stamp, "ttlMs": 0, "cacheScope": "private"} if alone else {}
    if ODD == "chatty":
        said = {"jsonrpc": "2.0", "params": {"data": "x" * 400}, "method": "notifications/message"}
        print(json.dumps(said), flush=True)
    if method == "tools/list" and ODD in NOISE:
        sys.stdout.buffer.write(NOISE[ODD])
        sys.stdout.flush()
    if alone and PREFIX + "clientCapabilities" not in meta:
        refuse(id, -32602)
    elif alone and meta[PREFIX + "protocolVersion"] != "2026-07-28":
        refuse(id, -32022, data=DATA.get(ODD, {"supported": ["2026-07-28"], "requested": "?"}))
    elif alone and method == "server/discover":
        versions = VERSIONS.get(ODD, ["2026-07-28"])
        write(id, result={"supportedVersions": versions, "capabilities": capabilities, **listed})
    elif not alone and method == "initialize":
        info = {"name": "odd", "version": "1"}
        write(
            id,
            result={
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "serverInfo": info,
            },
        )
    elif not alone and (method, params.get("level")) in EMPTY:
        write(id, result={})
    elif method in LISTS and ("cursor" not in params or ODD == "same cursor"):
        member, entries = LISTS[method]
        write(
            id,
            result={
                member: entries,
                **listed,
                **({"nextCursor": CURSORS[ODD]} if ODD in CURSORS else {}),
            },
        )
    elif method == "completion/complete" and ODD == "completes anything":
        write(id, result={"completion": {"values": []}, **stamp})
    elif method == "resources/read" and params["uri"] == "a://b":
        contents = {"uri": "a://b"} if ODD == "empty contents" else {"uri": "a://b", "text": ""}
        write(id, result={"contents": [contents], **listed})
    elif method == "resources/read" and not alone:
        refuse(id, -32002)
    elif method == "minimcp-check/nothing" and ODD == "death":
        sys.exit(3)
    elif method in (*LISTS, "resources/read", "tools/call", "prompts/get", "completion/complete"):
        refuse(id, -32602)
    else:
        refuse(id, -32602 if method == "logging/setLevel" and not alone else -32601)


for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if isinstance(message, dict) and "method" in message and "id" in message:
        if isinstance(message.get("params"), list):
            refuse(message["id"], -32602)
        else:
            answer(message["method"], message["id"], message.get("params", {}))
