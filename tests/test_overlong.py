"""What is told of a message that was too long, by its two ends."""

from __future__ import annotations

import json
from typing import Any

from minimcp.protocol.overlong import judge

from .rows import for_each

LONG = "x" * 5000


def told(text: str) -> Any:
    line = text.encode()
    found = judge(line[:1000], line[-200:], "too long")
    assert (found.code, found.reason) == (-32600, "too long")
    return found.kind, found.id


RESULT = {"content": [{"type": "text", "text": LONG, "id": 7}], "id": 8}


@for_each(
    "message, kind, id",
    [
        ({"jsonrpc": "2.0", "id": 1, "result": RESULT}, "response", 1),
        ({"jsonrpc": "2.0", "id": "1", "error": {"data": LONG}}, "response", "1"),
        ({"result": RESULT, "jsonrpc": "2.0", "id": 1}, "response", 1),
        ({"result": RESULT, "id": "a\"b", "jsonrpc": "2.0"}, "response", "a\"b"),
        ({"id": 5, "result": RESULT, "jsonrpc": "2.0"}, "response", 5),
        ({"jsonrpc": "2.0", "id": None, "error": {"data": LONG}}, "response", None),
        ({"jsonrpc": "2.0", "id": 1.0, "error": {"data": LONG}}, "response", None),
        ({"jsonrpc": "2.0", "id": True, "error": {"data": LONG}}, "response", None),
        ({"jsonrpc": "2.0", "id": 5, "method": "m", "params": {"id": 6, "x": LONG}}, "request", 5),
        ({"method": "m", "params": {"x": LONG}, "jsonrpc": "2.0", "id": 5}, "request", 5),
        ({"params": {"x": LONG}, "method": "m", "jsonrpc": "2.0", "id": 5}, "request", 5),
        ({"jsonrpc": "2.0", "method": "m", "params": {"x": LONG}}, "unknown", None),
        ({"jsonrpc": "2.0", "method": "m", "params": {"x": LONG, "id": 5}}, "unknown", None),
        ({"jsonrpc": "2.0", "id": LONG, "method": "m"}, "unknown", None),
        ({"jsonrpc": "2.0", "id": 5, "x": LONG}, "unknown", None),
        ([{"jsonrpc": "2.0", "id": 1, "result": RESULT}], "response", None),
        ([{"jsonrpc": "2.0", "id": 1, "method": LONG}], "unknown", None),
        ({"id": 1, "result": RESULT, "x": [LONG], "jsonrpc": "2.0", "id ": 1}, "response", 1),
        (LONG, "unknown", None),
        ([LONG], "unknown", None),
    ],
)
def test_by_its_two_ends(message: Any, kind: str, id: Any) -> None:
    for separators in (None, (",", ":"), (" , ", " : ")):
        text = json.dumps(message, separators=separators)
        assert told(text) == (kind, id), text[:100]
        assert told(text + " \r") == (kind, id)


@for_each(
    "text, kind, id",
    [
        ('{"id":1,"result":' + LONG + ',"id":2}', "response", None),
        ('{"id":1,"result":' + LONG + ',"id":1}', "response", 1),
        ('{"result":"' + LONG + '\\",\\"id\\":5}', "response", None),
        ('{"result":"' + LONG + ',"id":"\\x"}', "response", None),
        ('{"result":' + "[" * 5000, "response", None),
        ('{"id":' + "1" * 5000 + "}", "unknown", None),
        ('{"result":1}', "response", None),
        ('{"result":' + "1" * 5000, "response", None),
        ('{"error":' + LONG + ',"id":' + "9" * 150 + "}", "response", None),
        ("", "unknown", None),
        ("[", "unknown", None),
        ('Listening, "id":5}', "unknown", None),
        ("\ufffd" + LONG, "unknown", None),
    ],
)
def test_what_is_ambiguous_or_no_json_has_no_id(text: str, kind: str, id: Any) -> None:
    assert told(text) == (kind, id)


def test_bytes_that_are_no_text() -> None:
    assert judge(b'{"result":"' + b"\xff" * 50, b'\xff","id":3}', "x").id == 3
    assert judge(b'\xef\xbb\xbf{"id":3,"result":"', b"", "x").id == 3
