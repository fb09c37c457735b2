"""One line after the other, as raw bytes: what is no message, ids, hostile text, sizes.

C01 to C05, C07 to C16, C21 and C22 of the fault catalogue: whatever a line holds, it is answered once and the server
goes on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..rows import for_each
from .conftest import Serve, every, speaking
from .harness import RawServer
from .messages import EVERY, HANDSHAKES, METHOD, MODERN, PARAMS, PARSE, REQUEST, encode, hello, modern, request

MEGABYTE = 1 << 20
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"'


NO_JSON = [
    b"hello, world", PING, PING + b"}}", PING + b",}", b"{'jsonrpc':'2.0'}", b'"unfinished', b"\x00" * 10,
    b"\x00" + PING + b"}", b'{"jsonrpc":"2.0"\x00}', b"\xef\xbb\xbf{}", b"\x1f\x8b\x08\x00", b"Content-Length: 2",
    PING + b"} " + PING + b"}", PING.replace(b"1,", b"01,") + b"}", PING.replace(b"ping", b"pi\x01ng") + b"}",
    PING.replace(b"ping", b"pi\\xng") + b"}", PING.replace(b"ping", b"p\xffing") + b"}", b"\xff", b"\xc3",
    b"\xfe\xff\x00{", PING.replace(b"1,", b'"\xc0\xaf",') + b"}",
]  # fmt: skip


def call(server: RawServer, value: str, *, id: str = '"c"') -> bytes:
    """A call of `take` with this JSON text as its value, in the server's revision."""
    params: dict[str, Any] = {"name": "take", "arguments": {"value": "@"}}
    line = json.dumps(request("#", "tools/call", modern(params) if server.revision == MODERN else params))
    return line.replace('"#"', id).replace('"@"', value).encode()


def outcome(server: RawServer, line: bytes) -> Any:
    """The error code of the one message that answers this line, or "result"."""
    server.send(line + b"\n")
    message = server.message()
    return message["error"]["code"] if "error" in message else "result"


# ---------------------------------------------------------------- C01, C02, C04, C21: what is no JSON


@pytest.mark.requirement("STDIO-10", "BASE-13", "BASE-14", "BASE-20", "M:BASE-21", "M:STD-15")
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


# ---------------------------------------------------------------- C03, C05: too deep, too long


@pytest.mark.requirement("M:BASE-22", "SEC-07")
@for_each("line", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000])
def test_c03_deep_nesting_without_an_id(server: RawServer, line: bytes) -> None:
    assert server.error(line) in (PARSE, REQUEST)


@pytest.mark.requirement("M:BASE-22")
@for_each("depth", [300, 900, 5000, 100_000])
def test_c03_deep_nesting_in_params(server: RawServer, depth: int) -> None:
    server.send(call(server, "[" * depth + "]" * depth) + b"\n")
    message = server.message()
    found = (message["error"]["code"], message.get("id"))
    assert found == (REQUEST, "c") or (depth > 900 and found == (PARSE, None)), found


# ---------------------------------------------------------------- C08 to C10: members and shapes


def ping(**members: Any) -> dict[str, Any]:
    return {key: value for key, value in {**request("s", "ping"), **members}.items() if value != "-"}


SHAPES: list[tuple[Any, int]] = [
    *((ping(params=params), PARAMS) for params in ([1], [], "x", 0, None)),
    *((ping(jsonrpc=version), REQUEST) for version in ("-", "1.0", 2.0, "2", None)),
    *((ping(method=method), REQUEST) for method in ("-", 1, None, ["ping"])),
]


@pytest.mark.requirement("BASE-01", "BASE-12", "BASE-14", "M:BASE-1", "M:BASE-21", "M:ERR-9", "SEED-15")
@speaking("2024-11-05", "2025-11-25", MODERN)
@for_each("message, code", SHAPES)
def test_c10_a_wrong_shape_is_answered_with_its_id(server: RawServer, message: Any, code: int) -> None:
    assert server.error(message, "s") == code


# ---------------------------------------------------------------- C11: where a line ends


@pytest.mark.requirement("STDIO-03", "M:STD-15")
def test_c11_only_a_line_feed_ends_a_line(server: RawServer) -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    line = call(server, json.dumps(text, ensure_ascii=False))
    server.send(b"\n\r\n\n")  # blank lines are passed over
    for sent in (line + b"\r\n", b"\r" + line.replace(b", ", b",\r") + b"\n"):  # CR is white space of JSON
        server.send(sent)
        assert server.answer("c")["result"]["structuredContent"]["value"] == text


def test_c11_a_byte_order_mark_at_the_very_start_is_taken_off(serve: Serve) -> None:
    server = serve()
    server.send(b"\xef\xbb\xbf" + encode(request(1, "initialize", hello("2025-06-18"))))
    assert server.answer(1)["result"]["protocolVersion"] == "2025-06-18"
    assert server.error(b"\xef\xbb\xbf" + encode(request(2, "ping")).rstrip()) == PARSE
    server.lives()


# ---------------------------------------------------------------- C07, C15, C16: ids

IDS: list[Any] = [
    1, "1", 0, "", -1, 2**31, 2**53 + 1, -(2**63), 10**30, "007", "1.0", "true", "null", " ", "a b",
    "\u00e9\u2028\U0001f600", "x" * 10_000, '"', "\\", "\n", "__proto__",
]  # fmt: skip
NO_IDS: list[Any] = [True, False, 1.5, 1.0, 0.0, -0.0, 1e3, None, [], [1], {}, {"id": 1}]


@pytest.mark.requirement("BASE-02", "BASE-05", "M:BASE-2", "M:BASE-3", "M:BASE-5")
@speaking("2024-11-05", "2025-11-25", MODERN)
@for_each("id", IDS)
def test_c07_an_id_comes_back_as_it_went(server: RawServer, id: Any) -> None:
    assert "result" in server.ask("tools/list", id=id) and "error" in server.ask("no/such/method", id=id)
    assert server.call("echo", {"text": "x"}, id=id)["content"]


@pytest.mark.requirement("BASE-02", "BASE-03", "M:BASE-2")
@speaking("2024-11-05", "2025-11-25", MODERN)
@for_each("id", NO_IDS)
def test_c07_what_is_no_id_is_refused(server: RawServer, id: Any) -> None:
    assert server.error(request(id, "tools/list", modern() if server.revision == MODERN else {})) == REQUEST


@pytest.mark.requirement("BASE-05", "BASE-04", "M:BASE-3")
@every
def test_c07_one_and_the_string_one_are_in_flight_together(server: RawServer) -> None:
    names = {1: f"two {server.revision} 1", "1": f"two {server.revision} one"}
    for id, name in names.items():
        server.begin_call("hold", {"name": name}, id=id)
    for id in ("1", 1):
        server.text("release", {"name": names[id]})
        assert server.answer(id)["result"]["content"][0]["text"] == "released"


@pytest.mark.requirement("M:BASE-4")
def test_c15_an_id_in_flight_is_refused_and_may_be_used_again_when_it_was_answered(server: RawServer) -> None:
    server.begin_call("hold", {"name": "twice"}, id="twice")
    server.begin_call("echo", {"text": "second"}, id="twice")
    assert server.answer("twice")["error"]["code"] == REQUEST  # while the first still runs
    server.text("release", {"name": "twice"})
    assert server.answer("twice")["result"]["content"][0]["text"] == "released"
    for n in range(50):  # some clients always send 1
        assert server.call("echo", {"text": str(n)}, id="twice")["content"][0]["text"] == str(n)
    assert server.ask("no/such/method", id="twice")["error"]["code"] == METHOD


STRAYS: list[Any] = [
    {"id": 1, "result": {}}, {"id": "nobody", "result": {"x": 1}},
    {"id": 1, "error": {"code": -32601, "message": "no"}},
    {"id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"error": {"code": -32700, "message": "Parse error"}},
    {"id": 10**20, "error": {"code": 1, "message": "no", "data": [1]}},
]  # fmt: skip


@pytest.mark.requirement("BASE-19")
@speaking("2024-11-05", "2025-11-25", MODERN)
@for_each("stray", STRAYS)
def test_c16_an_answer_nobody_asked_for_is_dropped(server: RawServer, stray: Any) -> None:
    server.write(*[{"jsonrpc": "2.0", **stray}] * 20)


@pytest.mark.requirement("BASE-06", "BASE-11")
@for_each("stray", [
    {"id": 1, "result": {}, "error": {"code": 1, "message": "both"}}, {"id": 1, "result": []}, {"id": [], "result": {}},
    {"id": 1, "error": "no object"}, {"id": 1, "error": {"code": "1", "message": 1}},
])  # fmt: skip
def test_c16_a_malformed_answer_is_dropped_or_refused_and_never_served(older: RawServer, stray: Any) -> None:
    older.write({"jsonrpc": "2.0", **stray})
    assert {message["error"]["code"] for message in older.fence()} <= {REQUEST}


# ---------------------------------------------------------------- C12 to C14: sizes


def sized(id: object, size: int, tool: str = "echo") -> bytes:
    """A call with a text of this many characters."""
    return encode(request(id, "tools/call", {"name": tool, "arguments": {"text": "x" * size}}))


def test_c13_the_limit_is_met_exactly(serve: Serve) -> None:
    limit = 10_000
    server = serve("2025-06-18", limits={"message_bytes": limit})
    empty = len(sized(1, 0)) - 1  # the line feed is not part of the message
    for size, found in ((limit - 1, "result"), (limit, "result"), (limit + 1, REQUEST), (2 * limit, REQUEST)):
        server.send(sized(1, size - empty))
        message = server.answer(1)
        assert message.get("error", {}).get("code", "result") == found, (size, message)
    server.send(b"x" * 50_000)  # a line that is too long and never ends
    server.close_input()
    assert [message["error"]["code"] for message in server.rest()] == [REQUEST]
    assert server.exit() == 0
