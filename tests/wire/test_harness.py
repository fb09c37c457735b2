"""The harness itself, against a hand-written server: what it must notice, it notices."""

from __future__ import annotations

import pytest

from .conftest import Serve
from .harness import HERE, Gone, RawServer
from .messages import ABSENT, check, encode, modern, request, same

TINY = HERE / "servers" / "tiny.py"


def test_talks_and_ends(serve: Serve) -> None:
    server = serve("2025-06-18", script=TINY)
    assert server.text("echo", {"text": "one\ntwo \u2028 \U0001f600"}) == "one\ntwo \u2028 \U0001f600"
    server.lives()
    assert server.descriptors() >= 3
    assert server.status("Threads") == 1
    assert server.status("VmRSS") > 0
    assert server.cpu() >= 0
    assert server.finish() == []


def test_large_messages_go_both_ways(serve: Serve) -> None:
    server = serve("2025-06-18", script=TINY)
    text = "x" * 3_000_000
    assert server.text("echo", {"text": text}) == text


def test_output_stays_in_the_pipe(serve: Serve) -> None:
    server = serve("2025-06-18", script=TINY)
    line = encode(request("big", "tools/call", {"name": "echo", "arguments": {"text": "x" * 100_000}}))
    taken = server.send(line * 20, reading=False, wait=0.2)
    assert taken < len(line) * 20  # the server is stuck in its write, so it stopped reading
    server.send((line * 20)[taken:])
    for _ in range(20):
        assert len(server.answer("big")["result"]["content"][0]["text"]) == 100_000


@pytest.mark.parametrize("method", ["garbage", "nan"])
def test_notices_what_is_not_json(method: str) -> None:
    server = RawServer(script=TINY)
    try:
        with pytest.raises(AssertionError, match="not JSON"):
            server.ask(method)
    finally:
        server.dispose()


def test_notices_a_half_line() -> None:
    server = RawServer(script=TINY)
    try:
        server.begin("half")
        with pytest.raises(AssertionError, match="unfinished line"):
            server.finish()
    finally:
        server.dispose()


def test_notices_an_exit() -> None:
    server = RawServer(script=TINY)
    try:
        with pytest.raises(Gone):
            server.ask("die")
        with pytest.raises(AssertionError, match="3"):
            server.finish()
    finally:
        server.dispose()


def test_notices_a_second_answer() -> None:
    server = RawServer(script=TINY)
    try:
        server.ask("twice")
        assert len(server.fence()) == 1
    finally:
        server.dispose()


def test_notices_silence() -> None:
    server = RawServer(script=TINY)
    try:
        with pytest.raises(AssertionError, match="nothing came"):
            server.line(0.05)
        assert not server.poll(0.01)
    finally:
        server.dispose()


@pytest.mark.parametrize(
    "message",
    [
        1,
        [],
        {},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "result": []},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1.0, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": True, "message": ""}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "a\nb"}},
        {"jsonrpc": "2.0", "method": "x", "params": []},
        {"id": 1, "result": {}},
    ],
)
def test_refuses_malformed_messages(message: object) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check(message)


def test_ids_have_types() -> None:
    ids = [True, 1, 1.0, "1", None]
    assert [[same(a, b) for b in ids] for a in ids] == [[a is b for b in ids] for a in ids]


def test_envelopes_can_be_broken() -> None:
    assert len(modern()["_meta"]) == 3
    assert len(modern(version=ABSENT)["_meta"]) == 2
    assert modern({"_meta": {"progressToken": 0}})["_meta"]["progressToken"] == 0
