"""The harness itself, against a server of a few lines: what it must notice, it notices."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ..rows import for_each
from .harness import Gone, RawServer
from .messages import ABSENT, check, modern, same

TINY = """
import json, os, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    method, id = message["method"], message["id"]
    reply = json.dumps({"jsonrpc": "2.0", "id": id, "result": {}}) + "\\n"
    odd = {"garbage": "this is not JSON\\n", "nan": reply.replace("{}", '{"x":NaN}'), "half": '{"jsonrpc":', "die": ""}
    os.write(1, (reply * 2 if method == "twice" else odd.get(method, reply)).encode())
    if method in ("half", "die"):
        sys.exit(3 if method == "die" else 0)
"""


@pytest.mark.parametrize("method, raises, says", [
    ("fine", None, ""), ("twice", None, ""), ("garbage", AssertionError, "not JSON"),
    ("nan", AssertionError, "not JSON"), ("half", AssertionError, "unfinished line"),
    ("die", Gone, "closed its output"), ("silence", AssertionError, "nothing"),
])  # fmt: skip
def test_what_a_server_does_is_noticed(method: str, raises: Any, says: str) -> None:
    server = RawServer(command=[sys.executable, "-S", "-c", TINY])
    try:
        if raises is None:
            assert server.ask(method)["result"] == {}
            assert len(server.fence()) == (method == "twice") and server.finish() == []
        else:
            with pytest.raises(raises, match=says):
                if method == "half":
                    server.begin(method)
                    server.finish()
                server.line(0.05) if method == "silence" else server.ask(method)
    finally:
        server.dispose()


@for_each("message", [
    1, [], {}, {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "result": []},
    {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1.0, "message": ""}}, {"id": 1, "result": {}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": ""}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "a\nb"}},
    {"jsonrpc": "2.0", "method": "x", "params": []},
])  # fmt: skip
def test_refuses_malformed_messages(message: object) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(message)


def test_ids_have_types_and_envelopes_can_be_broken() -> None:
    ids = [True, 1, 1.0, "1", None]
    assert [[same(a, b) for b in ids] for a in ids] == [[a is b for b in ids] for a in ids]
    assert (len(modern()["_meta"]), len(modern(version=ABSENT)["_meta"])) == (3, 2)
    assert modern({"_meta": {"progressToken": 0}})["_meta"]["progressToken"] == 0
