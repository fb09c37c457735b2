"""C20 of the fault catalogue: messages with seeded damage. Nothing crashes, hangs, or prints what is not JSON.

A failure names its seed: MINIMCP_FUZZ_SEEDS="17,18" runs others, MINIMCP_FUZZ_COUNT another number of messages.
"""

from __future__ import annotations

import json
import os
import random
from typing import Callable

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import check, decode, hello, modern, notification, request

SEEDS = [int(seed) for seed in os.environ.get("MINIMCP_FUZZ_SEEDS", "1,2,3").split(",")]
COUNT = int(os.environ.get("MINIMCP_FUZZ_COUNT", "10000"))
CHUNK = 500

TOOL = {"name": "echo", "arguments": {"text": "h\u00e9llo \U0001f600"}, "_meta": {"progressToken": 1}}
CORPUS = [
    json.dumps(message).encode()
    for message in (
        request(1, "ping"),
        request("two", "tools/list", {"cursor": "abc"}),
        request(3, "tools/call", TOOL),
        request(4, "tools/call", modern(TOOL)),
        request(5, "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}),
        request(6, "tools/call", modern({"name": "take", "arguments": {"value": [1, None, {"x": 1.5}]}})),
        request(7, "tools/call", {"name": "fail", "arguments": {"message": "on purpose"}}),
        request(8, "initialize", hello("2025-03-26", sampling={}, roots={"listChanged": True})),
        request(9, "logging/setLevel", {"level": "error"}),
        request(10, "server/discover", modern()),
        request(11, "completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}}),
        notification("notifications/initialized"),
        notification("notifications/cancelled", {"requestId": 3, "reason": "x"}),
        notification("notifications/progress", {"progressToken": 1, "progress": 0.5}),
        {"jsonrpc": "2.0", "id": 12, "result": {"roots": []}},
        {"jsonrpc": "2.0", "id": 13, "error": {"code": -32601, "message": "no", "data": None}},
        [request(14, "ping"), notification("notifications/initialized"), 1],
    )
]
WORDS = [
    b"null", b"true", b"-1", b"1e999", b"NaN", b"[]", b"{}", b'""', b"\\ud800", b"\\u0000", b"\x00", b"\xff",
    b"\xf0\x9f", b"\n", b"\r", b'"', b"\\", b",", b":", b"[[[[", b"}}}}", b'"id":', b'"method":', b"9" * 5000,
    b"\xe2\x80\xa8", b"\xef\xbb\xbf", b'"jsonrpc":"2.0"', b"1.0", b"io.modelcontextprotocol/",
]  # fmt: skip


def flip(data: bytearray, dice: random.Random) -> None:
    """Change one bit."""
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def drop(data: bytearray, dice: random.Random) -> None:
    """Take some bytes out."""
    start = dice.randrange(len(data))
    del data[start : start + dice.randrange(1, 12)]


def double(data: bytearray, dice: random.Random) -> None:
    """Say some bytes twice."""
    start = dice.randrange(len(data))
    data[start:start] = data[start : start + dice.randrange(1, 40)]


def insert(data: bytearray, dice: random.Random) -> None:
    """Put in a word that has a meaning somewhere."""
    start = dice.randrange(len(data) + 1)
    data[start:start] = dice.choice(WORDS)


def cut(data: bytearray, dice: random.Random) -> None:
    """End too early."""
    del data[dice.randrange(len(data)) :]


def swap(data: bytearray, dice: random.Random) -> None:
    """Put a part of another message in."""
    other = dice.choice(CORPUS)
    start, end = sorted((dice.randrange(len(other)), dice.randrange(len(other))))
    place = dice.randrange(len(data) + 1)
    data[place : place + end - start] = other[start:end]


CHANGES: list[Callable[[bytearray, random.Random], None]] = [flip, drop, double, insert, cut, swap]


def mutant(dice: random.Random) -> bytes:
    """One message of the corpus with one to four changes."""
    data = bytearray(dice.choice(CORPUS))
    for _ in range(dice.randrange(1, 5)):
        if data:
            dice.choice(CHANGES)(data, dice)
    return bytes(data) + b"\n"


def drain(server: RawServer, fence: str) -> None:
    """Read up to the answer of a ping, with every line strict JSON and well-formed."""
    server.write(request(fence, "ping"))
    while True:
        message = check(decode(server.line()))
        if isinstance(message, dict) and message.get("id") == fence:
            assert message.get("result") is not None, message
            return


@pytest.mark.parametrize("seed", SEEDS)
def test_c20_ten_thousand_mutants(serve: Serve, seed: int) -> None:
    dice = random.Random(seed)
    server = serve("2025-06-18" if seed % 2 else None)
    base, threads = server.status("VmRSS"), server.status("Threads")
    for start in range(0, COUNT, CHUNK):
        chunk = [mutant(dice) for _ in range(CHUNK)]
        try:
            server.send(b"".join(chunk))
            drain(server, f"fence {start}")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, messages {start} to {start + CHUNK}: {error}") from error
    server.send(b"\n")
    server.aside.clear()
    server.ask("tools/call", modern({"name": "echo", "arguments": {"text": "alive"}}), id="end")
    assert server.status("VmRSS") - base < 30_000, "memory grew by more than 30 MB"
    assert server.status("Threads") <= threads + 8
    server.close_input()
    server.rest()
    assert server.exit() == 0
    for sign in ("Exception in thread", "Fatal Python error"):
        assert sign not in server.stderr(), (seed, server.stderr()[-3000:])
