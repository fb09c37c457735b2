"""C01 to C11 of the fault catalogue: whatever a line holds, it is answered once and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import EVERY, HANDSHAKES, MODERN, PARAMS, PARSE, REQUEST, encode, hello, modern, request

ANSWERS_WITH_NULL = (*HANDSHAKES[:3], None)
"""Revisions in which an error without a readable id says null; None is a server before any handshake."""

GARBAGE = [
    b"x",
    b"hello, world",
    b"{",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    b"{'jsonrpc':'2.0'}",
    b'"unfinished',
    b"\x00",
    b"\xef\xbb\xbf{}",
    b"\x1f\x8b\x08\x00",
    b"Content-Length: 2",
    b"nul",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":01,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"pi\x01ng"}',
    b'{"jsonrpc":"2.0","id":1,"method":"pi\\xng"}',
]

BAD_UTF8 = [
    b"\xff",
    b"\xc3",
    b"\xfe\xff\x00{",
    b'{"jsonrpc":"2.0","id":1,"method":"p\xffing"}',
    b'{"jsonrpc":"2.0","id":"\xc0\xaf","method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xed\xa0\x80"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xf4\x90\x80\x80"}}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"caf\xe9"}}',
]


def call(server: RawServer, value: str, *, id: str = '"c"') -> bytes:
    """A call of `take` with this JSON text as its value, in the server's revision."""
    params: dict[str, Any] = {"name": "take", "arguments": {"value": "@"}}
    line = json.dumps(request("#", "tools/call", modern(params) if server.revision == MODERN else params))
    return line.replace('"#"', id).replace('"@"', value).encode()


@pytest.mark.requirement("STDIO-10", "BASE-14", "BASE-20", "M:BASE-21")
@pytest.mark.parametrize("line", GARBAGE)
@pytest.mark.parametrize("revision", [*EVERY, None])
def test_c01_a_line_that_is_not_json(shared: Serve, revision: str, line: bytes) -> None:
    server = shared(revision)
    server.fence()
    assert server.error(line) == PARSE
    assert server.fence() == []


@pytest.mark.requirement("BASE-20", "M:BASE-21")
@pytest.mark.parametrize("revision", [*EVERY, None])
def test_c01_an_unreadable_id_is_null_or_left_out(shared: Serve, revision: str) -> None:
    server = shared(revision, **({"revisions": [MODERN]} if revision == MODERN else {}))
    server.fence()
    server.send(b"garbage\n")
    message = server.message()
    assert ("id" in message) == (revision in ANSWERS_WITH_NULL)
    assert message.get("id") is None


@pytest.mark.requirement("STDIO-10", "BASE-13", "M:STD-15")
@pytest.mark.parametrize("line", BAD_UTF8)
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c02_invalid_utf8_is_never_guessed(shared: Serve, revision: str, line: bytes) -> None:
    server = shared(revision)
    assert server.error(line) == PARSE
    server.lives()


@pytest.mark.requirement("BASE-13", "M:STD-15")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c02_invalid_utf8_inside_a_valid_call(shared: Serve, revision: str) -> None:
    server = shared(revision)
    assert server.error(call(server, '"@@"').replace(b"@@", b"caf\xe9")) == PARSE
    server.lives()


@pytest.mark.requirement("M:BASE-22", "SEC-07")
@pytest.mark.parametrize(
    "line", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000], ids=["lists", "objects", "closed"]
)
def test_c03_deep_nesting_without_an_id(shared: Serve, line: bytes) -> None:
    server = shared("2025-06-18")
    assert server.error(line) in (PARSE, REQUEST)
    server.lives()


@pytest.mark.requirement("M:BASE-22")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
@pytest.mark.parametrize("depth", [300, 900, 5000, 100_000])
def test_c03_deep_nesting_in_params(shared: Serve, revision: str, depth: int) -> None:
    server = shared(revision)
    server.send(call(server, "[" * depth + "]" * depth) + b"\n")
    message = server.message()
    found = (message["error"]["code"], message.get("id"))
    assert found == (REQUEST, "c") or (depth > 900 and found == (PARSE, None)), found
    server.lives()


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c03_two_hundred_levels_are_served(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.send(call(server, "[" * 200 + "1" + "]" * 200) + b"\n")
    assert "[[[[1]]]]" in json.dumps(server.answer("c")["result"]["content"]).replace(" ", "")


@pytest.mark.parametrize(("levels", "served"), [(255, True), (256, True), (257, False)])
def test_c03_the_limit_is_met_exactly(shared: Serve, levels: int, served: bool) -> None:
    """The message, its params and its arguments are levels too."""
    server = shared("2025-06-18")
    depth = levels - 3
    server.send(call(server, "[" * depth + "]" * depth) + b"\n")
    assert ("result" in server.answer("c")) == served


def test_c03_the_limit_can_be_set(shared: Serve) -> None:
    server = shared("2025-06-18", limits={"depth": 10})
    assert server.error(call(server, "[" * 8 + "]" * 8), "c") == REQUEST
    server.send(call(server, "[" * 7 + "]" * 7) + b"\n")
    assert "result" in server.answer("c")


@pytest.mark.requirement("STDIO-10", "M:BASE-21")
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "[1, NaN]", '{"x": Infinity}'])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c04_nan_and_infinity_are_not_json(shared: Serve, revision: str, value: str) -> None:
    server = shared(revision)
    assert server.error(call(server, value)) == PARSE
    server.lives()


@pytest.mark.parametrize("value", ["1e999", "-1e999", "[1, 1e400]"])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c04_a_number_beyond_floats(shared: Serve, revision: str, value: str) -> None:
    server = shared(revision)
    assert server.error(call(server, value), "c") == PARAMS
    server.lives()


@pytest.mark.requirement("M:BASE-22")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c05_five_thousand_digits(shared: Serve, revision: str) -> None:
    server = shared(revision)
    digits = "9" * 5000
    for line in (call(server, "1", id=digits), call(server, digits), call(server, "-" + digits)):
        server.send(line + b"\n")
        assert server.message()["error"]["code"] in (PARSE, REQUEST)
    server.lives()


REFUSED_TWICE = [
    ('{"jsonrpc":"2.0","jsonrpc":"2.0","id":"d","method":"ping"}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method":"ping","method":"ping"}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method":"ping","params":{},"params":{}}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method":"ping","params":{"a":1,"a":1}}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method":"ping","params":{"a":{"b":1,"b":2}}}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method":"ping","params":{"a":[{"b":1,"\\u0062":2}]}}', "d"),
    ('{"jsonrpc":"2.0","id":"d","Method":"ping"}', "d"),
    ('{"jsonrpc":"2.0","id":"d","METHOD":"ping"}', "d"),
    ('{"jsonrpc":"2.0","id":"d","method ":"ping"}', "d"),
]


@pytest.mark.parametrize(("line", "id"), REFUSED_TWICE)
def test_c08_duplicate_and_misspelt_members(shared: Serve, line: str, id: str) -> None:
    server = shared("2025-06-18")
    assert server.error(line.encode(), id) == REQUEST
    server.lives()


def test_c08_a_duplicate_id_names_none_or_one_of_the_two(shared: Serve) -> None:
    server = shared("2025-06-18")
    server.send(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}\n')
    message = server.message()
    assert message["error"]["code"] == REQUEST
    assert message.get("id") in (None, 1, 2)
    server.lives()


def test_c08_the_case_of_a_member_counts(shared: Serve) -> None:
    """A capital P makes it another member, which is ignored as any unknown one."""
    server = shared("2025-06-18")
    line = b'{"jsonrpc":"2.0","id":"d","method":"tools/call","Params":{"name":"echo","arguments":{"text":"x"}}}'
    assert server.error(line, "d") == PARAMS
    server.lives()


SURROGATES = [r'"\ud800"', r'"\udc00"', r'"a\ud800b"', r'"\udc00\ud800"', r'{"\ud800": 1}']


@pytest.mark.parametrize("value", SURROGATES)
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c09_lone_surrogates_in(shared: Serve, revision: str, value: str) -> None:
    server = shared(revision)
    server.send(call(server, value) + b"\n")
    message = server.message()  # valid UTF-8 and strict JSON, or this fails
    assert message.get("id") == "c" or message["error"]["code"] in (PARSE, REQUEST)
    server.lives()


def test_c09_a_lone_surrogate_as_id_or_method(shared: Serve) -> None:
    server = shared("2025-06-18")
    for line in (rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}', rb'{"jsonrpc":"2.0","id":1,"method":"\udfff"}'):
        server.send(line + b"\n")
        server.message()
    server.lives()


@pytest.mark.requirement("STDIO-03")
def test_c09_lone_surrogates_out(shared: Serve) -> None:
    server = shared("2025-06-18")
    for kind in ("surrogate", "surrogate inside"):
        server.ask("tools/call", {"name": "returns", "arguments": {"kind": kind}})
    server.lives()


SHAPES: list[tuple[Any, int]] = [
    ({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": [1]}, PARAMS),
    ({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": []}, PARAMS),
    ({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": "x"}, PARAMS),
    ({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": 0}, PARAMS),
    ({"jsonrpc": "2.0", "id": "s", "method": "ping", "params": None}, PARAMS),
    ({"id": "s", "method": "ping"}, REQUEST),
    ({"jsonrpc": "1.0", "id": "s", "method": "ping"}, REQUEST),
    ({"jsonrpc": 2.0, "id": "s", "method": "ping"}, REQUEST),
    ({"jsonrpc": None, "id": "s", "method": "ping"}, REQUEST),
    ({"jsonrpc": "2.0", "id": "s", "method": 1}, REQUEST),
    ({"jsonrpc": "2.0", "id": "s", "method": None}, REQUEST),
    ({"jsonrpc": "2.0", "id": "s", "method": ["ping"]}, REQUEST),
    ({"jsonrpc": "2.0", "id": "s"}, REQUEST),
]


@pytest.mark.requirement("BASE-01", "BASE-12", "BASE-14", "M:BASE-1", "M:BASE-21", "M:ERR-9")
@pytest.mark.parametrize(("message", "code"), SHAPES)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c10_a_wrong_shape_is_answered_with_its_id(
    shared: Serve, revision: str, message: dict[str, Any], code: int
) -> None:
    server = shared(revision)
    assert server.error(message, "s") == code
    assert server.fence() == []


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c10_an_empty_method(shared: Serve, revision: str) -> None:
    server = shared(revision)
    params = {"params": modern()} if revision == MODERN else {}
    assert server.error({"jsonrpc": "2.0", "id": "s", "method": "", **params}, "s") in (REQUEST, -32601)
    server.lives()


@pytest.mark.requirement("BASE-16")
@pytest.mark.parametrize("more", [{"result": {}}, {"error": {"code": 1, "message": ""}}])
def test_c10_a_request_that_is_a_response_too_is_answered_once(shared: Serve, more: dict[str, Any]) -> None:
    """Served, as an unknown member is no harm, or refused: never silence."""
    server = shared("2025-06-18")
    server.write({**request("s", "ping"), **more})
    server.answer("s")
    assert server.fence() == []


@pytest.mark.parametrize("text", [b"null", b"true", b"1", b'"ping"', b"{}", b'{"jsonrpc":"2.0"}', b"1.5"])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c10_json_that_is_no_message(shared: Serve, revision: str, text: bytes) -> None:
    server = shared(revision)
    assert server.error(text) == REQUEST
    server.lives()


@pytest.mark.requirement("STDIO-03", "M:STD-15")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c11_only_a_line_feed_ends_a_line(shared: Serve, revision: str) -> None:
    server = shared(revision)
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    line = call(server, json.dumps(text, ensure_ascii=False))
    server.send(line + b"\r\n")  # CRLF: the CR is white space of JSON
    assert server.answer("c")["result"]["structuredContent"]["value"] == text
    server.send(b"\r" + line.replace(b", ", b",\r") + b"\n")
    assert server.answer("c")["result"]["structuredContent"]["value"] == text
    server.lives()


@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c11_blank_lines_are_passed_over(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.send(b"\n\r\n\n")
    server.lives()


def test_c11_a_byte_order_mark_at_the_very_start_is_taken_off(serve: Serve) -> None:
    server = serve()
    server.send(b"\xef\xbb\xbf" + encode(request(1, "initialize", hello("2025-06-18"))))
    assert server.answer(1)["result"]["protocolVersion"] == "2025-06-18"
    server.notify("notifications/initialized")
    server.lives()
    assert server.error(b"\xef\xbb\xbf" + encode(request(2, "ping")).rstrip()) == PARSE


def test_c11_nul_bytes_are_not_json(shared: Serve) -> None:
    server = shared("2025-06-18")
    for line in (b"\x00" * 10, b'\x00{"jsonrpc":"2.0","id":1,"method":"ping"}', b'{"jsonrpc":"2.0"\x00}'):
        assert server.error(line) == PARSE
    server.lives()


@pytest.mark.requirement("STDIO-03", "BASE-13")
def test_c11_what_looks_like_a_line_end_stays_inside_one_line(shared: Serve) -> None:
    server = shared("2025-06-18")
    text = "one\ntwo\r\nthree\rfour\u2028five\u0085six"
    server.begin_call("echo", {"text": text}, id="lines")
    line = server.line()
    assert b"\r" not in line
    assert json.loads(line)["result"]["content"][0]["text"] == text
