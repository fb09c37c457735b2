"""C21 of the fault catalogue: valid and invalid JSON texts, alone on a line and as an argument of a call.

The table is ours. MINIMCP_JSON_TEST_SUITE may name a folder of y_*.json, n_*.json and i_*.json files (the layout
of a well-known public suite); they are then run too.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import PARSE, REQUEST, check, decode

VALID = [
    rb"null", rb"true", rb"false", rb"0", rb"-0", rb"1", rb"-1", rb"12345678901234567890", rb"0.5",
    rb"-0.5", rb"1e5", rb"1E5", rb"1e+5", rb"1e-5", rb"1.25E-3", rb"0e0", rb"-0e-0",
    rb"0.0000000000000000000000000000001", rb"[]", rb"[ ]", rb"{}", rb"{ }", b"[\t]", b"{\t\r}", rb"[1]",
    rb"[1,2]", b"[ 1\t,\r2 ]", rb"[[]]", rb"[[],[[]]]", rb"[null]", rb"[{}]", rb'{"a":1}',
    rb'{"a":1,"b":2}', rb'{"a":{"a":{"a":{}}}}', rb'{"":""}', rb'{"a":[]}', rb'""', rb'" "', rb'"a"',
    rb'"\""', rb'"\\"', rb'"\/"', rb'"\b\f\n\r\t"', rb'"\u0000"', rb'"\u00e9"', rb'"\uD83D\uDE00"',
    rb'"\ud83d\ude00"', rb'"\uFFFF"', b'"\x7f"', "\"\u00e9\"".encode(), "\"\u4e16\u754c\"".encode(),
    "\"\U0001f600\"".encode(), "\"\u2028\u2029\"".encode(), "\"\ufeff\"".encode(), "\"\ufffe\"".encode(),
    "\"\U0010ffff\"".encode(), rb'{"\u0061":1}', rb'{"a b":1}', rb'{"\"":1}', rb" 1 ", b"\t[1]\r",
    rb'["a","b"]', rb'{"a":null,"b":[true,false,{"c":1.5e3}]}', rb"[1.0,1.00,100e-2]",
]  # fmt: skip

INVALID = [
    rb"nul", rb"nulll", rb"Null", rb"NULL", rb"True", rb"tru", rb"None", rb"undefined", rb"NaN", rb"-NaN",
    rb"nan", rb"Infinity", rb"-Infinity", rb"inf", rb"+1", rb"01", rb"-01", rb"00", rb"1.", rb".5",
    rb"-.5", rb"1.e5", rb"1e", rb"1e+", rb"1E-", rb"1.5.5", rb"--1", rb"- 1", rb"-", rb"0x10", rb"1_000",
    rb"1 000", rb"1a", rb"0b1", "\uff11".encode(), rb"[", rb"]", rb"[1", rb"[1,", rb"[,1]", rb"[1,]",
    rb"[1,,2]", rb"[1 2]", rb"[1}", rb"[1:2]", rb'["a"', rb"{", rb"}", rb'{"a"}', rb'{"a":}', rb'{"a":1,}',
    rb'{,"a":1}', rb'{"a" 1}', rb'{"a"::1}', rb"{a:1}", rb"{'a':1}", rb"{1:1}", rb'{"a":1 "b":2}',
    rb'{"a":1]', rb'{"a":1,"b"', rb"{null:1}", rb"'a'", rb"a", rb'"', rb'"a', rb'"\"', rb'"\a"',
    rb'"\x41"', rb'"\0"', rb'"\u"', rb'"\u12"', rb'"\u12G4"', rb'"\U00000041"', b'"\t"', b'"\x00"',
    b'"\x1f"', b'"a\rb"', b'"\xff"', b'"\xc3"', b'"\xc3\x28"', b'"\xc0\x80"', b'"\xed\xa0\x80"',
    b'"\xf8\x88\x80\x80\x80"', b'"\xf4\x90\x80\x80"', b"\xe2\x81\xa0", b"\x0c1", b"\x0b1", b"\xc2\xa01",
    b"\xe2\x80\xa81", rb"1 // x", rb"/* x */ 1", rb"# x", rb"1;", rb'"a" "b"', rb"[] []", rb'{"a":1}x',
    b"\x001", rb"[NaN]", rb'{"a":-Infinity}', rb"@", rb"\u0031", rb"<null>", rb"`1`", rb"1,2", rb'"a":1',
]  # fmt: skip

BALANCED = (rb"]", rb"}", rb"1,2", rb'"a":1')
"""Alone they are no JSON; put inside a call some would only change its shape, so they stand alone."""


def wrapped(text: bytes) -> bytes:
    """A call of `take` with this text as its value."""
    head = b'{"jsonrpc":"2.0","id":"w","method":"tools/call","params":{"name":"take","arguments":{"value":'
    return head + text + b"}}}"


def outcome(server: RawServer, line: bytes) -> object:
    """The error code of the one message that answers this line, or "result"."""
    server.send(line + b"\n")
    message = check(decode(server.line()))
    return message["error"]["code"] if "error" in message else "result"


@pytest.mark.requirement("BASE-14", "STDIO-10")
def test_c21_valid_texts_are_accepted(shared: Serve) -> None:
    server = shared("2025-06-18")
    assert {text: outcome(server, wrapped(text)) for text in VALID} == dict.fromkeys(VALID, "result")
    alone = {text: outcome(server, text) for text in VALID}
    assert alone == dict.fromkeys(VALID, REQUEST)  # JSON, but no message
    server.lives()


@pytest.mark.requirement("BASE-14", "STDIO-10", "M:BASE-21")
def test_c21_invalid_texts_are_refused(shared: Serve) -> None:
    server = shared("2025-06-18")
    assert {text: outcome(server, text) for text in INVALID} == dict.fromkeys(INVALID, PARSE)
    inside = [text for text in INVALID if text not in BALANCED]
    assert {text: outcome(server, wrapped(text)) for text in inside} == dict.fromkeys(inside, PARSE)
    server.lives()


def suite() -> list[Path]:
    """The files of the folder that the environment names, if it names one."""
    folder = os.environ.get("MINIMCP_JSON_TEST_SUITE")
    return sorted(Path(folder).glob("[yni]_*.json")) if folder else []


def verdict(server: RawServer, path: Path) -> bool:
    """Whether one file of a suite is dealt with as its name asks."""
    text = path.read_bytes().replace(b"\n", b"\r")  # a line feed would end the line; a CR is the same to JSON
    if not text.strip():
        return True
    alone, inside = outcome(server, text), outcome(server, wrapped(text))
    if path.name.startswith("y_"):
        twice = "duplicated_key" in path.name  # valid JSON, refused by us
        return alone == REQUEST and inside == (REQUEST if twice else "result")
    if path.name.startswith("n_"):
        deep = "open_array_object" in path.name or "opening_arrays" in path.name
        return alone == PARSE and (inside == PARSE or (deep and inside == REQUEST))
    return isinstance(alone, int)


def test_c21_a_public_suite(shared: Serve) -> None:
    server = shared("2025-06-18")
    assert [path.name for path in suite() if not verdict(server, path)] == []
    server.lives()
