"""Single lines as raw bytes: lines that are not JSON, and lines that are too long.

Other lines are tested in tests/unit/test_messages.py, and against a server in tests.faults (C01 to
C22).
"""

from __future__ import annotations

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import EVERY, HANDSHAKES, MODERN, PARSE, REQUEST, encode, request

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"'


NO_JSON = [
    b"hello, world", PING, PING + b"}}", PING + b",}", b"{'jsonrpc':'2.0'}", b'"unfinished', b"\x00" * 10,
    b"\x00" + PING + b"}", b'{"jsonrpc":"2.0"\x00}', b"\xef\xbb\xbf{}", b"\x1f\x8b\x08\x00", b"Content-Length: 2",
    PING + b"} " + PING + b"}", PING.replace(b"1,", b"01,") + b"}", PING.replace(b"ping", b"pi\x01ng") + b"}",
    PING.replace(b"ping", b"pi\\xng") + b"}", PING.replace(b"ping", b"p\xffing") + b"}", b"\xff", b"\xc3",
    b'{"jsonrpc": "2.0", "id": "m26", "result": {Uroots": []}}', b'{"jsonrpc":"2.0","id":1,"error":"error":{}}',
    b"\xfe\xff\x00{", PING.replace(b"1,", b'"\xc0\xaf",') + b"}", b"[" * 100_000, b'{"a":' * 100_000,
]  # fmt: skip


# ---------------------------------------------------------------- C01, C02, C04: lines that are not JSON


@pytest.mark.requirement(
    "STDIO-10", "BASE-13", "BASE-14", "BASE-20", "M:BASE-21", "M:STD-15", "SEC-07"
)
@pytest.mark.parametrize("server", [*EVERY, None], indirect=True)
def test_c01_a_line_that_is_not_json(server: RawServer) -> None:
    assert {line: server.error(line) for line in NO_JSON} == dict.fromkeys(NO_JSON, PARSE)


@pytest.mark.requirement("BASE-20", "M:BASE-21")
@pytest.mark.parametrize("revision", [*EVERY, None])
def test_c01_an_unreadable_id_is_null_or_left_out(shared: Serve, revision: str) -> None:
    server = shared(revision, **({"revisions": [MODERN]} if revision == MODERN else {}))
    server.fence()
    server.send(b"garbage\n")
    message = server.message()
    assert ("id" in message) == (revision in (*HANDSHAKES[:3], None)) and message.get("id") is None


# ---------------------------------------------------------------- C13: sizes


def sized(id: object, size: int, tool: str = "echo") -> bytes:
    """A call with a text of this many characters."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": {"text": "x" * size}}))


def test_c13_the_limit_is_met_exactly(serve: Serve) -> None:
    limit = 10_000
    server = serve("2025-06-18", limits={"message_bytes": limit})
    empty = len(sized(1, 0)) - 1  # the line feed is not part of the message
    for size, found in (
        (limit - 1, "result"),
        (limit, "result"),
        (limit + 1, REQUEST),
        (2 * limit, REQUEST),
    ):
        server.send(sized(1, size - empty))
        message = server.answer(1)
        assert message.get("error", {}).get("code", "result") == found, (size, message)
    server.send(b"x" * 50_000)  # a line that is too long and never ends
    server.close_input()
    assert [message["error"]["code"] for message in server.rest()] == [REQUEST]
    assert server.exit() == 0
