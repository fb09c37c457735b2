"""C01 to C11, C16, C18, C21 and C22: single lines, and what must become of each."""

from __future__ import annotations

import json
from typing import Any, Tuple

from ..wire.messages import MODERN, PARAMS, PARSE, REQUEST, encode, hello, modern, request, same
from .raw import Server, shown
from .trial import Trial, case, each_era

GARBAGE = (
    b"x", b"{", b'{"jsonrpc":"2.0","id":1,"method":"ping"', b'{"jsonrpc":"2.0","id":1,"method":"ping",}',
    b"{'jsonrpc':'2.0'}", b"\x00", b"\x1f\x8b\x08\x00", b"Content-Length: 2",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"pi\x01ng"}',
)  # fmt: skip

BAD_UTF8 = (b"\xff", b"caf\xe9", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80")


def line(server: Server, method: str = "ping", params: Any = None, id: Any = "q") -> bytes:
    """A request in the server's revision, without its line feed. `ping` becomes `server/discover`
    where it must."""
    modernly = server.revision == MODERN
    method = "server/discover" if modernly and method == "ping" else method
    return encode(request(id, method, modern(params) if modernly else params or {})).rstrip(b"\n")


def holding(server: Server, value: bytes) -> bytes:
    """Send a request that must be served, with this JSON text in a place where any value is
    allowed."""
    return line(server, params={"_meta": {"com.example/x": "@"}}).replace(b'"@"', value)


@each_era("C01")
def not_json(t: Trial, server: Server) -> None:
    for text in GARBAGE:
        t.refused(server, text, (PARSE,))


@each_era("C02")
def bad_utf8(t: Trial, server: Server) -> None:
    for text in BAD_UTF8:
        t.refused(server, text, (PARSE,))
        t.refused(server, holding(server, b'"@"').replace(b"@", text), (PARSE,))
        if "echo" in server.tools:
            call = line(server, "tools/call", {"name": "echo", "arguments": {"text": "@"}})
            t.refused(server, call.replace(b"@", text), (PARSE,))


@each_era("C03")
def depth(t: Trial, server: Server) -> None:
    for text in (b"[" * 100_000, b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000):
        t.refused(server, text, (PARSE, REQUEST))
    for levels in (1_000, 5_000, 100_000):
        got = server.replies(holding(server, b"[" * levels + b"]" * levels))
        errors = [one["error"]["code"] for one in got if isinstance(one, dict) and "error" in one]
        if not got:
            t.fail(f"no answer to {levels} levels inside a request")
        elif levels == 100_000 or errors:  # between them, either one is correct
            t.expect(
                len(got) == 1 and errors and errors[0] in (PARSE, REQUEST),
                f"{levels} levels: {shown(got)}",
            )
    t.served(server, holding(server, b"[" * 200 + b"]" * 200), "q", "200 levels")


@each_era("C04")
def no_numbers(t: Trial, server: Server) -> None:
    for word in (b"NaN", b"Infinity", b"-Infinity", b"[1,NaN]"):
        t.refused(server, holding(server, word), (PARSE,))
    if "add" in server.tools:
        call = line(server, "tools/call", {"name": "add", "arguments": {"a": "@", "b": 1}})
        for word in (b"1e999", b"-1e999"):
            got = server.replies(call.replace(b'"@"', word))
            right = len(got) == 1 and same(got[0].get("id"), "q")
            right = right and ("error" in got[0] or got[0]["result"].get("isError"))
            t.expect(right, f"{word.decode()} as an integer: {shown(got)}")


@each_era("C05")
def digits(t: Trial, server: Server) -> None:
    number = b"9" * 5000
    alone = line(server, id="@").replace(b'"@"', number)
    for text in (alone, holding(server, number), holding(server, b"-" + number)):
        got = server.replies(text)
        if got:
            code = got[0].get("error", {}).get("code")
            t.expect(len(got) == 1 and code in (PARSE, REQUEST), f"5,000 digits: {shown(got)}")
        else:
            t.fail("no answer to a number of 5,000 digits")


@case("C06")
def batches(t: Trial) -> None:
    for revision in t.eras():
        server = t.server(revision)
        t.refused(server, b"[]", (REQUEST,))
        t.refused(server, b"[" + line(server) + b"]", (REQUEST,), name="a batch")
        server.alive(t.options.slack)
    if "2025-03-26" in t.subject.revisions:
        server = t.server("2025-03-26")
        batch = (
            b"["
            + line(server, id=1)
            + b',{"jsonrpc":"2.0","method":"notifications/nope"},'
            + line(server, id="1")
        )
        got = server.replies(batch + b",7]")
        answers = got[0] if len(got) == 1 and isinstance(got[0], list) else got
        for id in (1, "1"):
            found = server.result_of(answers, id)
            t.expect(
                found and "result" in found, f"a batch in 2025-03-26 left the id {id!r} unanswered"
            )
        server.alive(t.options.slack)


KEPT: Tuple[Any, ...] = (
    1, "1", 0, "", -1, 2**53 + 1, -(2**63), "007", "1.0", "true", "null", " ", "\u00e9\u2028\U0001f600", "x" * 10_000,
    '"', "\\", "\n", "__proto__",
)  # fmt: skip


@each_era("C07")
def ids(t: Trial, server: Server) -> None:
    for id in KEPT:
        t.served(server, line(server, id=id), id, f"the id {shown(id, 20)}")
    for odd in (b"true", b"1.5", b"null", b"[]", b"{}", b"[1]"):
        text = line(server, id="@").replace(b'"@"', odd)
        t.refused(server, text, (REQUEST,), name=f"the id {odd.decode()}")
    whole = server.replies(line(server, id="@").replace(b'"@"', b"1.0"))
    t.expect(len(whole) == 1, f"the id 1.0: {shown(whole)}")


@case("C08")
def doubled(t: Trial) -> None:
    texts = (
        '{"jsonrpc":"2.0","jsonrpc":"2.0","id":"d","method":"ping"}',
        '{"jsonrpc":"2.0","id":"d","method":"ping","method":"tools/list"}',
        '{"jsonrpc":"2.0","id":"d","method":"ping","params":{},"params":{"a":1}}',
        '{"jsonrpc":"2.0","id":"d","method":"ping","params":{"_meta":{"b":1,"b":2}}}',
        '{"jsonrpc":"2.0","id":"d","Method":"ping"}',
        '{"jsonrpc":"2.0","id":"d","method ":"ping"}',
    )
    server = t.server()
    for text in texts:
        t.refused(server, text.encode(), (REQUEST,), "d")
    got = server.replies(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}')
    t.expect(
        len(got) == 1 and "error" in got[0] and got[0].get("id") in (None, 1, 2),
        f"two ids: {shown(got)}",
    )
    server.alive(t.options.slack)


@each_era("C09")
def surrogates(t: Trial, server: Server) -> None:
    for value in (rb'"\ud800"', rb'"\udc00"', rb'"a\ud800b"', rb'{"\ud800":1}'):
        t.expect(
            len(server.replies(holding(server, value))) == 1,
            f"{value.decode()} was not answered once",
        )
        if "echo" in server.tools:
            call = line(server, "tools/call", {"name": "echo", "arguments": {"text": "@"}}).replace(
                b'"@"', value
            )
            t.expect(
                len(server.replies(call)) == 1, f"echo of {value.decode()} was not answered once"
            )
    for members in (rb'"id":"\ud800","method":"ping"', rb'"id":1,"method":"\udfff"'):
        text = b'{"jsonrpc":"2.0",' + members + b"}"
        t.expect(len(server.replies(text)) == 1, f"{text.decode()} was not answered once")
    if "returns" in server.tools:
        server.ask("tools/call", {"name": "returns", "arguments": {"kind": "surrogate"}})


SHAPES: Tuple[Tuple[str, Tuple[int, ...]], ...] = (
    ('"jsonrpc":"2.0","method":"ping","params":[1]', (PARAMS, REQUEST)),
    ('"jsonrpc":"2.0","method":"ping","params":"x"', (PARAMS, REQUEST)),
    ('"method":"ping"', (REQUEST,)),
    ('"jsonrpc":"1.0","method":"ping"', (REQUEST,)),
    ('"jsonrpc":2.0,"method":"ping"', (REQUEST,)),
    ('"jsonrpc":"2.0","method":1', (REQUEST,)),
    ('"jsonrpc":"2.0","method":null', (REQUEST,)),
    ('"jsonrpc":"2.0"', (REQUEST,)),
    ('"jsonrpc":"2.0","method":""', (REQUEST, -32601, PARAMS)),
    ('"jsonrpc":"2.0","method":"tools/call","params":{"name":5}', (PARAMS, REQUEST)),
    (
        '"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":[]}',
        (PARAMS, REQUEST),
    ),
)


@each_era("C10")
def shapes(t: Trial, server: Server) -> None:
    for shape, codes in SHAPES:
        t.refused(server, b'{"id":"s",' + shape.encode() + b"}", codes, "s")
    for text in (b"null", b"true", b"1", b'"ping"', b"{}", b'{"jsonrpc":"2.0"}'):
        t.refused(server, text, (REQUEST,))


@case("C11")
def framing(t: Trial) -> None:
    for revision in t.eras():
        server = t.server(revision)
        text = "a\u2028b\u2029c\u0085d\rf\ng"
        t.served(server, line(server) + b"\r", "q", "CRLF")
        t.served(server, b"\r" + line(server).replace(b", ", b",\r"), "q", "CR inside a message")
        raw = line(server, params={"_meta": {"com.example/x": "@"}}).replace(
            b"@", "a\u2028b\u0085c".encode()
        )
        t.served(server, raw, "q", "U+2028 and U+0085 inside a message")
        t.expect(
            server.replies(b"") == [] and server.replies(b"\r") == [], "a blank line was answered"
        )
        for nul in (b"\x00" * 10, b"\x00" + line(server)):
            t.refused(server, nul, (PARSE,))
        if "echo" in server.tools:
            t.expect(
                server.text("echo", {"text": text}) == text, "line ends inside a text were changed"
            )
        server.alive(t.options.slack)
    server = t.server(None)
    server.send(b"\xef\xbb\xbf" + encode(request(1, "initialize", hello("2025-06-18"))))
    t.expect("result" in server.answer(1), "a BOM before the first line")


STRAYS: Tuple[Any, ...] = (
    {"id": 1, "result": {}}, {"id": "nobody", "result": {"x": 1}}, {"id": 1, "error": {"code": 1, "message": "no"}},
    {"id": None, "error": {"code": -32700, "message": "Parse error"}}, {"error": {"code": -32700, "message": "?"}},
    {"id": 10**20, "error": {"code": 1, "message": "no", "data": [1]}},
)  # fmt: skip


@each_era("C16")
def strays(t: Trial, server: Server) -> None:
    for stray in STRAYS:
        got = server.replies(encode({"jsonrpc": "2.0", **stray}).rstrip(), 0.02)
        t.expect(got == [], f"answered {shown(got)} to {shown(stray)}")


@each_era("C18")
def cancels(t: Trial, server: Server) -> None:
    finished = server.begin("tools/list")
    server.answer(finished)
    for id in ("nobody", 17, finished, None, [1], {"a": 1}, True):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        t.expect(
            server.replies(encode(note).rstrip(), 0.02) == [],
            f"a cancellation of {shown(id)} was answered",
        )
    for params in (None, {}, [1], "x"):
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        got = server.replies(encode(note).rstrip(), 0.02)
        t.expect(got == [], f"a cancellation with params {shown(params)} was answered {shown(got)}")


VALID = (
    "null", "true", "0", "-0", "12345678901234567890", "-0.5", "1e5", "1.25E-3", "[]", "{}", "[[],[[]]]", '{"":""}',
    '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\u0000"', '"\\uD83D\\uDE00"', '"\u00e9\u4e16\U0001f600"', '{"a":{"a":{}}}', " 1 ",
)  # fmt: skip
INVALID = (
    "nul", "True", "None", "undefined", "NaN", "-Infinity", "+1", "01", "1.", ".5", "1e", "0x10", "1_000", "[", "[1,]",
    "[,1]", "[1 2]", "[1}", "{", '{"a"}', '{"a":1,}', "{a:1}", "{'a':1}", "'a'", '"', '"\\x41"', '"\\u12G4"', '"\t"',
    "1 // x", '{"a":1}x', "\u20601",
)  # fmt: skip


@case("C21")
def json_texts(t: Trial) -> None:
    server = t.server()
    for text in INVALID:
        t.refused(server, text.encode(), (PARSE,))
    for text in VALID:  # JSON, but no message
        value = json.loads(text)
        id = value.get("id") if isinstance(value, dict) else None
        t.refused(server, text.encode(), (REQUEST,), id if isinstance(id, (str, int)) else None)
        t.served(server, holding(server, text.encode()), "q", f"{text} inside a request")
    t.note("texts", len(VALID) + len(INVALID), "")
    server.alive(t.options.slack)


NAUGHTY = (
    "", " ", "\t", "undefined", "NULL", "(null)", "True", "1e999", "-0", "0x0", "\u0661", "${jndi:ldap://x}", "%s%n%d",
    "{0.__class__}", "'; DROP TABLE x;--", "<script>alert(1)</script>", "../../etc/passwd", "C:\\nul", "$(id)", "`id`",
    "a\x00b", "".join(map(chr, range(1, 32))), "\x7f\x80\x9f", "\u202e\u202dabc", "\ufeff", "\ufffe\uffff",
    "\u2028\u2029",
    "Z\u0351\u036b\u0343a\u0329l\u0353g", "\U0001f468\u200d\U0001f469\u200d\U0001f466", "\U0010ffff",
    "\u1e9e\u0130\u0131",
    "\r\n\r\n", "data: x\n\n", '{"jsonrpc":"2.0"}', "\\ud800", "Content-Length: 5", "i\u0307", "\u5e38\u7528" * 50,
)  # fmt: skip


@each_era("C22", "echo")
def naughty(t: Trial, server: Server) -> None:
    for text in NAUGHTY:
        for escaped in (True, False):
            call = json.loads(
                line(server, "tools/call", {"name": "echo", "arguments": {"text": text}}, id=text)
            )
            found = t.served(
                server, json.dumps(call, ensure_ascii=escaped).encode(), text, shown(text, 30)
            )
            got = found and found["content"][0]["text"]
            t.expect(
                found is None or got == text, f"{shown(text, 30)} came back as {shown(got, 30)}"
            )
        for params in (
            {"name": text},
            {"name": "echo", "arguments": {"text": "x", text or "e": text}},
        ):
            got = server.replies(line(server, "tools/call", params))
            t.expect(len(got) == 1, f"{shown(params, 40)} was not answered once")
        name = f"the method {shown(text, 30)}"
        t.refused(server, line(server, text or " "), (-32601, REQUEST, PARAMS), "q", name)
