"""Messages of the protocol as a test writes and reads them: plain dicts and bytes, nothing of
minimcp."""

from __future__ import annotations

import json
import re
from typing import Any, Optional

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
EVERY = (*HANDSHAKES, MODERN)

PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"

ABSENT = object()
"""Stands for a member that is not there, where None would be JSON's null."""


def same(left: Any, right: Any) -> bool:
    """Whether two ids are one id: True, 1, 1.0 and "1" are four."""
    return type(left) is type(right) and bool(left == right)


def envelope(*, version: Any = MODERN, capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """A `_meta` as every request of 2026-07-28 carries it; `more` is laid over it, ABSENT takes a
    key away."""
    meta = {
        VERSION_KEY: version,
        CAPABILITIES_KEY: {} if capabilities is None else capabilities,
        CLIENT_KEY: {"name": "raw", "version": "0"},
        **more,
    }
    return {key: value for key, value in meta.items() if value is not ABSENT}


def modern(params: Optional[dict[str, Any]] = None, **more: Any) -> dict[str, Any]:
    """Params with the envelope of 2026-07-28; a `_meta` in them is laid over it."""
    params = dict(params or {})
    meta = envelope(**more)
    meta.update(params.pop("_meta", {}))
    return {**params, "_meta": meta}


def request(id: Any, method: str, params: Optional[dict[str, Any]] = None) -> dict[str, Any]:
    """A request as a dict, for `json.dumps`."""
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: Optional[dict[str, Any]] = None) -> dict[str, Any]:
    """A notification as a dict, for `json.dumps`."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def encode(message: Any) -> bytes:
    """One line of the wire."""
    return json.dumps(message).encode() + b"\n"


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def decode(line: bytes) -> Any:
    """Read a line of the server as strict JSON. Raises AssertionError if it is anything else."""
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except ValueError as error:
        raise AssertionError(f"stdout carried what is not JSON: {line[:300]!r} ({error})") from None


def check(message: Any) -> Any:
    """Insist that a message of the server, or every message of a batch, is well-formed JSON-RPC."""
    if isinstance(message, list):
        assert message, "an empty batch is no message"
        return [check(one) for one in message]
    assert isinstance(message, dict), message
    assert message.get("jsonrpc") == "2.0", message
    if "method" in message:
        assert isinstance(message["method"], str), message
        assert not {"result", "error"} & set(message), message
        assert isinstance(message.get("params", {}), dict), message
        return message
    assert ("result" in message) != ("error" in message), message
    if "result" in message:
        assert "id" in message, message
        assert isinstance(message["result"], dict), message
        return message
    error = message["error"]
    assert type(error["code"]) is int, message
    assert isinstance(error["message"], str), message
    assert not re.search("\n|Traceback", error["message"]), message
    return message


def hello(revision: Any, **capabilities: Any) -> dict[str, Any]:
    """The params of `initialize`."""
    return {
        "protocolVersion": revision,
        "capabilities": capabilities,
        "clientInfo": {"name": "raw", "version": "0"},
    }
