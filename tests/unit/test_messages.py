"""JSON-RPC messages: building them, decoding any bytes, encoding as UTF-8, and the conversion of
errors."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, strategies as st

from minimcp import (
    CapabilityNotSupported,
    InternalError,
    InvalidParams,
    MethodNotFound,
    RpcError,
    ToolError,
)
from minimcp.errors import ResourceAccessDenied, ResourceNotFound, UrlElicitationRequired
from minimcp.protocol import messages as module
from minimcp.protocol.messages import (
    Failure,
    InvalidMessage,
    Notification,
    Request,
    Response,
    decode,
    encode,
    encode_batch,
    encode_result,
    exception_of,
    guess_from_ends,
    is_id,
    to_json,
    wire_failure,
)
from minimcp.protocol.versions import REVISIONS

from ..drawn import drawn
from ..rows import for_each

PARSE, INVALID, PARAMS = -32700, -32600, -32602
R1, R2, R3, R4, R5 = REVISIONS

IDS: list[Any] = [0, 1, -1, 2**53 + 1, 10**30, "", "1", "007", "\u00e9\U0001f600\u2028\n"]
NO_IDS: list[Any] = [None, True, False, 1.0, 1.5, [], {}, [1]]


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


# ---------------------------------------------------------------- building


@pytest.mark.requirement("BASE-02", "BASE-03", "M:BASE-2")
def test_an_id_is_a_string_or_an_integer() -> None:
    for id in IDS:
        assert is_id(id)
        assert Request(id, "m").id == Response(id, {}).id == Failure(id, 1, "x").id == id
    assert Failure(None, 1, "x").id is None
    for id in (*NO_IDS, b"1", object(), "a\ud800"):
        assert not is_id(id)
        with pytest.raises(
            ValueError, match="^a request's id must be a string or an integer, not "
        ):
            Request(id, "m")
        with pytest.raises(ValueError, match="^a response must have the request's id"):
            Response(id, {})
        if id is not None:
            with pytest.raises(ValueError, match="^an error's id must be"):
                Failure(id, 1, "x")


@pytest.mark.requirement("BASE-12")
@pytest.mark.parametrize("make", [lambda *rest: Request(1, *rest), Notification])
def test_a_method_is_a_string_and_params_are_an_object(make: Any) -> None:
    assert make("m").params == make("m", None).params == {}
    assert make("m", {"a": 1}).params == {"a": 1}
    for method in ("", None, 1, b"m", ["m"]):
        with pytest.raises(ValueError, match="^a method must be a non-empty str, not "):
            make(method)
    for params in ([], [1], "x", 0, False):
        with pytest.raises(
            ValueError, match=f"^params must be an object, not {type(params).__name__}$"
        ):
            make("m", params)


@pytest.mark.requirement("BASE-07", "BASE-11", "M:BASE-7")
def test_a_result_is_an_object_and_an_error_has_a_code_and_a_message() -> None:
    results: list[Any] = [None, [], "x", 1]
    errors: list[Any] = [(1.0, "x"), (True, "x"), ("1", "x"), (None, "x"), (1, None), (1, b"x")]
    for result in results:
        with pytest.raises(ValueError):
            Response(1, result)
    for code, message in errors:
        with pytest.raises(ValueError):
            Failure(1, code, message)


MESSAGES: list[Any] = [
    Request(1, "m", {"a": [1]}), Request("1", "m"), Notification("n", {"b": None}), Notification("n"),
    Response("x", {"c": {}}), Failure(1, -32602, "no", {"d": 1}), Failure(None, -32700, "what", [None]),
    Failure("x", 1, "", 0),
]  # fmt: skip


def test_messages_are_immutable_and_share_no_default() -> None:
    for message in MESSAGES:
        for name in ("id", "method", "params", "other"):
            with pytest.raises(AttributeError):
                setattr(message, name, None)
        for twin in (copy.copy(message), pickle.loads(pickle.dumps(message))):
            assert (type(twin), twin) == (type(message), message)
    Request(1, "m").params["a"] = 1
    assert Request(2, "m").params == Notification("n").params == {}


# ---------------------------------------------------------------- encode and decode


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, values, max_size=3)
ids = st.integers() | text
method = text.filter(bool)
messages = st.one_of(
    st.sampled_from(MESSAGES),
    st.builds(Request, ids, method, objects),
    st.builds(Notification, method, objects),
    st.builds(Response, ids, objects),
    st.builds(Failure, st.none() | ids, st.integers(), text, values),
)


@pytest.mark.requirement("BASE-01", "BASE-05", "M:BASE-1", "M:BASE-5")
@drawn(60)
@given(st.lists(messages, min_size=1, max_size=3), st.booleans())
def test_every_message_and_batch_round_trips(batch: list[Any], error_without_id: bool) -> None:
    lines = [encode(message, error_without_id=error_without_id) for message in batch]
    for message, sent in zip(batch, lines):
        assert len(sent.decode().splitlines()) == 1 and sent.endswith(b"\n")
        back: Any = decode(sent[:-1])
        assert (type(back), back) == (type(message), message)
        assert to_json(list(back)) == to_json(
            list(message)
        )  # 1 and 1.0 and true are equal, and are not the same
    assert decode(encode_batch(lines)[:-1]) == batch


@drawn(60)
@given(
    st.binary(max_size=60)
    | text.map(str.encode)
    | values.map(lambda value: json.dumps(value).encode())
)
def test_no_bytes_make_decode_raise(data: bytes) -> None:
    for found in (decode(data), decode(data, max_depth=None), decode(data, max_depth=1)):
        for message in found if isinstance(found, list) else [found]:
            assert type(message) in (Request, Notification, Response, Failure, InvalidMessage)
    assert type(guess_from_ends(data, data, "x")) is InvalidMessage


@pytest.mark.requirement("BASE-16", "M:BASE-19")
def test_unknown_members_and_whitespace_are_ignored() -> None:
    assert decode(b" \t\r" + line(id=1, method="m", extra=[1], result=None) + b" \n") == Request(
        1, "m"
    )
    assert decode(line(id=1, result={"a": 1}, extra=0)) == Response(1, {"a": 1})
    assert decode(line(id=1, error={"code": 1, "message": "x", "extra": 0}, more=1)) == Failure(
        1, 1, "x"
    )
    error = {"code": 1, "message": "x"}
    assert decode(line(error=error)) == decode(line(id=None, error=error)) == Failure(None, 1, "x")
    whole = decode(b'{"jsonrpc":"2.0","id":"\\ud83d\\ude00 \xc3\xa9","method":"m"}')
    assert whole == Request("\U0001f600 \u00e9", "m")


REFUSED: list[Any] = [
    # line, code, id, kind
    *(
        (bad, PARSE, None, "unknown")
        for bad in (
            b"",
            b"{",
            b"nonsense",
            b"{} {}",
            b"\xff\xfe{}",
            b"\xef\xbb\xbf{}",
            b"[" * 100_000,
            b'{"jsonrpc":"2.0","id":1,"method":"m",}',
            b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
            b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":-Infinity}}',
        )
    ),
    *(
        (bad, INVALID, None, "unknown")
        for bad in (b"5", b'"text"', b"null", b"{}", b'[{"a":1,"a":2}]')
    ),
    (b'{"id":1,"method":"m"}', INVALID, 1, "request"),
    (b'{"jsonrpc":"1.0","id":"a","method":"m"}', INVALID, "a", "request"),
    (b'{"jsonrpc":2.0,"id":1,"method":"m"}', INVALID, 1, "request"),
    (b'{"jsonrpc":"1.0","method":"m"}', INVALID, None, "notification"),
    (line(id=1), INVALID, 1, "unknown"),
    (line(id=1, method=""), INVALID, 1, "request"),
    (line(id=1, method=5), INVALID, 1, "unknown"),
    (line(id=1, method=None, result={}), INVALID, 1, "unknown"),
    (line(method=""), INVALID, None, "notification"),
    *(
        (line(id=id, method="m"), INVALID, None, "request")
        for id in (*NO_IDS, "\ud800", "a\udfffb", "\udc00\ud800")
    ),
    *(
        (line(id=2, method="m", params=params), PARAMS, 2, "request")
        for params in ([], [1], "x", 5, False)
    ),
    (line(method="m", params=[]), PARAMS, None, "notification"),
    (line(id=1, result={}, error={"code": 1, "message": "x"}), INVALID, 1, "response"),
    *((line(id=1, result=result), INVALID, 1, "response") for result in ([1], "x", 5, True)),
    (line(id=1, result=None, error=None), INVALID, 1, "response"),
    (line(result={}), INVALID, None, "response"),
    *(
        (line(id=id, result={}), INVALID, None, "response")
        for id in (*NO_IDS, "\ud800")
        if id != 1.0
    ),
    *(
        (line(id=1, error=error), INVALID, 1, "response")
        for error in (
            [],
            {"code": "1", "message": "x"},
            {"code": True, "message": "x"},
            {"code": 1},
        )
    ),
    *(
        (line(id=id, error={"code": 1, "message": "x"}), INVALID, None, "response")
        for id in (True, "\udc00")
    ),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}', INVALID, 1, "request"),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', INVALID, None, "request"),
    (b'{"jsonrpc":"2.0","id":3,"result":{"a":1,"a":1}}', INVALID, 3, "response"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e999}}', PARAMS, 1, "request"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":-1e999}}', PARAMS, 1, "response"),
    (b"[1e999]", INVALID, None, "unknown"),
    (b'{"jsonrpc":"2.0","m":1e999}', INVALID, None, "unknown"),
]


@pytest.mark.requirement(
    "BASE-02", "BASE-03", "BASE-05", "BASE-06", "BASE-07", "BASE-12", "BASE-13", "BASE-14"
)
@pytest.mark.requirement("SEED-30", "M:BASE-2", "M:BASE-21", "M:BASE-22", "M:ERR-9")
@for_each(("sent", "code", "id", "kind"), REFUSED)
def test_an_invalid_message_has_a_reason_a_kind_and_an_id(
    sent: bytes, code: int, id: Any, kind: str
) -> None:
    found = decode(sent)
    assert type(found) is InvalidMessage
    assert (found.code, found.id, found.kind) == (code, id, kind)
    assert type(found.id) is type(id)
    assert "\n" not in found.reason and 0 < len(found.reason) < 100


# ---------------------------------------------------------------- depth


def nested(depth: int, opener: str = "[", closer: str = "]", inside: str = "") -> bytes:
    """A request whose params reach `depth` levels below the message itself."""
    deep = opener * depth + inside + closer * depth
    return f'{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":{deep}}}}}'.encode()


@for_each("limit", [3, 10, 256])
@for_each(("opener", "closer", "inside"), [("[", "]", ""), ('{"a":', "}", "1")])
def test_the_limit_of_nesting_is_exact(limit: int, opener: str, closer: str, inside: str) -> None:
    sent = nested(limit - 2, opener, closer, inside)
    assert type(decode(sent, max_depth=limit)) is Request
    assert decode(sent, max_depth=limit - 1) == InvalidMessage(
        INVALID, f"nested deeper than {limit - 1} levels", 7, "request"
    )


def test_the_default_limit_is_256_and_counts_depth_only() -> None:
    assert type(decode(nested(254))) is Request
    assert decode(nested(255)) == InvalidMessage(
        INVALID, "nested deeper than 256 levels", 7, "request"
    )
    params = {"a": "[{" * 1000, "b": [[]] * 1000}
    assert decode(line(id=1, method="m", params=params), max_depth=4) == Request(1, "m", params)
    twice = nested(10, '{"a":1,"a":', "}", "1")
    for depth in (5, 256):
        assert decode(twice, max_depth=depth) == InvalidMessage(
            INVALID, "an object has a repeated member", 7, "request"
        )


@pytest.mark.requirement("M:BASE-22")
@for_each("opener", ['{"a":', "[", '{"a":1,"a":', '{"a":1e999,"b":'])
def test_the_limit_of_python_is_met_without_an_exception(opener: str) -> None:
    for depth in [100, *range(940, 1010), 20_000, 200_000]:
        found = decode(nested(depth, opener, "]" if opener == "[" else "}", "1"), max_depth=None)
        assert type(found) is Request or (
            type(found) is InvalidMessage and found.code in (PARSE, INVALID, PARAMS)
        )
    assert type(found) is InvalidMessage and found.reason in (
        "nested too deeply",
        "a number is too large",
    )


@for_each(
    ("begins", "ends", "code", "reason", "id"),
    [
        (
            '{"jsonrpc":"2.0","id":5,"method":"m","a":1,"a":2,"x":"',
            '"}',
            INVALID,
            "an object has a repeated member",
            5,
        ),
        (
            '{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":2,"x":"',
            '"},"id":6}',
            INVALID,
            "a repeated member",
            6,
        ),
        (
            '{"jsonrpc":"2.0","id":5,"id":6,"method":"m","x":"',
            '"}',
            INVALID,
            "a repeated member",
            None,
        ),
        (
            '{"jsonrpc":"2.0","id":5,"method":"m","x":"',
            '","y":1e999}',
            INVALID,
            "a number is too large",
            5,
        ),
        ('{"jsonrpc":"2.0","id":5,"method":"m","x":"', '",}', PARSE, "this is not JSON", None),
        (
            '{"jsonrpc":"2.0","id":5,"method":"m","x":"',
            '"} {}',
            PARSE,
            "more text follows the value",
            None,
        ),
        ("x", "", PARSE, "this is not JSON", None),
    ],
)
def test_the_error_for_a_long_line_does_not_read_it_again(
    begins: str, ends: str, code: int, reason: str, id: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "explain_decoding", None)
    found = decode((begins + "x" * 65536 + ends).encode())
    assert (
        isinstance(found, InvalidMessage)
        and (found.code, found.id) == (code, id)
        and reason in found.reason
    )


# ---------------------------------------------------------------- lines that are too long

LONG = "x" * 5000
RESULT = {"content": [{"type": "text", "text": LONG, "id": 7}], "id": 8}


def cut(text: str) -> Any:
    found = guess_from_ends(text.encode()[:1000], text.encode()[-200:], "too long")
    assert (found.code, found.reason) == (INVALID, "too long")
    return found.kind, found.id


@for_each(
    ("message", "kind", "id"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": RESULT}, "response", 1),
        ({"jsonrpc": "2.0", "id": "1", "error": {"data": LONG}}, "response", "1"),
        ({"result": RESULT, "jsonrpc": "2.0", "id": 1}, "response", 1),
        ({"result": RESULT, "id": 'a"b', "jsonrpc": "2.0"}, "response", 'a"b'),
        ({"id": 5, "result": RESULT, "jsonrpc": "2.0"}, "response", 5),
        *(
            ({"jsonrpc": "2.0", "id": id, "error": {"data": LONG}}, "response", None)
            for id in (None, 1.0, True, "\ud800")
        ),
        ({"jsonrpc": "2.0", "id": 5, "method": "m", "params": {"id": 6, "x": LONG}}, "request", 5),
        ({"method": "m", "params": {"x": LONG}, "jsonrpc": "2.0", "id": 5}, "request", 5),
        ({"jsonrpc": "2.0", "method": "m", "params": {"x": LONG, "id": 5}}, "unknown", None),
        ({"jsonrpc": "2.0", "id": LONG, "method": "m"}, "unknown", None),
        ({"jsonrpc": "2.0", "id": 5, "x": LONG}, "request", 5),
        ([{"jsonrpc": "2.0", "id": 1, "result": RESULT}], "response", None),
        ([{"jsonrpc": "2.0", "id": 1, "method": LONG}], "unknown", None),
        (LONG, "unknown", None),
    ],
)
def test_a_long_line_is_classified_by_its_two_ends(message: Any, kind: str, id: Any) -> None:
    for separators in (None, (",", ":"), (" , ", " : ")):
        sent = json.dumps(message, separators=separators)
        assert cut(sent) == cut(" " + sent + " \r") == (kind, id), sent[:100]


@for_each(
    ("sent", "kind", "id"),
    [
        ('{"id":1,"result":' + LONG + ',"id":2}', "response", None),
        ('{"id":1,"result":' + LONG + ',"id":1}', "response", 1),
        ('{"result":"' + LONG + '\\",\\"id\\":5}', "response", None),
        ('{"result":"' + LONG + ',"id":"\\x"}', "response", None),
        ('{"result":' + "[" * 5000, "response", None),
        ('{"id":' + "1" * 5000 + "}", "unknown", None),
        ("", "unknown", None),
        ("[", "unknown", None),
        ('Listening, "id":5}', "unknown", None),
        ("\ufeff" + '{"id":3,"result":"' + LONG, "response", 3),
    ],
)
def test_an_uncertain_id_is_none(sent: str, kind: str, id: Any) -> None:
    assert cut(sent) == (kind, id)
    assert guess_from_ends(b'{"result":"' + b"\xff" * 50, b'\xff","id":3}', "x").id == 3


# ---------------------------------------------------------------- encoding


@pytest.mark.requirement("BASE-09", "BASE-20", "M:BASE-8", "X-09")
def test_each_kind_has_its_members_and_no_others() -> None:
    assert (
        encode(Request(1, "m", {"a": 1}))
        == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}\n'
    )
    assert encode(Request("1", "m")) == b'{"jsonrpc":"2.0","id":"1","method":"m"}\n'
    assert encode(Notification("n")) == b'{"jsonrpc":"2.0","method":"n"}\n'
    assert (
        encode(Notification("n", {"a": 1})) == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}\n'
    )
    assert encode(Response(1, {})) == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert (
        encode(Failure(1, 5, "x")) == b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"x"}}\n'
    )
    assert b'"data":0}' in encode(Failure(1, 5, "x", 0))
    nameless = Failure(None, 5, "x")
    assert encode(nameless) == b'{"jsonrpc":"2.0","error":{"code":5,"message":"x"}}\n'
    assert encode(nameless, error_without_id=False) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"x"}}\n'
    )
    assert b'"id":1,' in encode(Failure(1, 5, "x"), error_without_id=False)
    assert encode_batch([encode(Notification("n")), encode(Response(2, {}))]) == (
        b'[{"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":2,"result":{}}]\n'
    )
    for id in IDS:
        assert encode_result(id, '{"a":[1]}') == encode(Response(id, {"a": [1]}))


def test_json_is_compact_and_text_is_utf_8() -> None:
    assert to_json({"a": [1, 2.5, None, True], "b": {}}) == '{"a":[1,2.5,null,true],"b":{}}'
    assert (
        to_json({"city": "\u5317\u4eac \u00e9\U0001f600"})
        == '{"city":"\u5317\u4eac \u00e9\U0001f600"}'
    )
    chinese = "\u5317\u4eac" * (1 << 19)
    assert len(encode(Response(1, {"text": chinese}))) - len(chinese.encode()) < 100


@pytest.mark.requirement("STDIO-03", "M:STD-1")
def test_nothing_in_a_value_ends_a_line() -> None:
    odd = "\\\u2028\n\r\u0085\u2028\u2029\x00\x0b\x0c\x1c\x1d\x1e\U0001f600\\n\u00e9"
    sent = to_json({odd: odd})
    assert sent.isprintable() and len(sent.splitlines()) == 1
    assert json.loads(sent) == {odd: odd}


@for_each(
    ("given", "sent"),
    [
        ("\ud800", "\ufffd"),
        ("a\udc00b\ud83d", "a\ufffdb\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud800\ud83d\ude00", "\ufffd\U0001f600"),
        ("\U0001f600\ud800", "\U0001f600\ufffd"),
        ("\u2028\ud800", "\u2028\ufffd"),
        ("\\ud800", "\\ud800"),
        ("\\\ud800", "\\\ufffd"),
    ],
)
def test_half_of_a_surrogate_pair_is_replaced(given: str, sent: str) -> None:
    assert json.loads(to_json(given)) == sent
    assert json.loads(encode(Response(1, {given: [given]})))["result"] == {sent: [sent]}


def circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@for_each(
    ("value", "error"),
    [
        *(
            (value, ValueError)
            for value in (float("nan"), [-float("inf")], {"a": float("nan")}, circle())
        ),
        *((value, TypeError) for value in (b"x", {1, 2}, object(), {"a": 1j}, {(1,): 1})),
    ],
)
def test_values_that_json_does_not_have_are_rejected(value: Any, error: Any) -> None:
    with pytest.raises(error):
        to_json(value)
    with pytest.raises(error):
        encode(Response(1, {"a": value}))


# ---------------------------------------------------------------- exceptions to the wire


@pytest.mark.requirement("M:ERR-2", "M:ERR-3", "M:ERR-4", "SEED-03")
@for_each(
    ("error", "handshake", "modern"),
    [
        (InvalidParams("x"), [-32602] * 4, -32602),
        (RpcError(7, "x"), [7] * 4, 7),
        (ResourceNotFound("x"), [-32002] * 4, -32602),
        (CapabilityNotSupported("x"), [-32601] * 4, -32021),
        (UrlElicitationRequired("x"), [-32603, -32603, -32603, -32042], -32603),
        (RpcError(-32020, "x"), [-32020] * 4, -32020),
        *(
            (RpcError(code, "x"), [code] * 4, -32603)
            for code in (-32000, -32003, -32004, -32050, -32099)
        ),
    ],
)
def test_a_code_is_sent_only_in_revisions_that_define_it(
    error: RpcError, handshake: list[int], modern: int
) -> None:
    error.data = [1]
    for revision, code in zip(REVISIONS, [*handshake, modern]):
        assert wire_failure("id", error, revision, "tools/call") == Failure("id", code, "x", [1])


# ---------------------------------------------------------------- and back

READ, CALL, GET = "resources/read", "tools/call", "prompts/get"
ABOUT = {"uri": "a:b"}

MEANINGS: list[Any] = [
    # code, method, message, data, kind in sessions, kind in 2026-07-28
    (-32001, READ, "denied", None, ResourceNotFound, RpcError),
    (-32001, CALL, "no", None, RpcError, RpcError),
    (-32002, "resources/subscribe", "no", None, ResourceNotFound, ResourceNotFound),
    (-32002, READ, "Access denied", None, ResourceAccessDenied, ResourceAccessDenied),
    (-32602, READ, "FORBIDDEN", ABOUT, ResourceAccessDenied, ResourceAccessDenied),
    (-32602, READ, "", ABOUT, ResourceNotFound, ResourceNotFound),
    (-32602, CALL, "denied", ABOUT, InvalidParams, InvalidParams),
    *((-32602, READ, "denied", data, InvalidParams, InvalidParams) for data in ("uri", {}, None)),
    (-32003, CALL, "no", None, ToolError, RpcError),
    (-32004, CALL, "no", None, InvalidParams, RpcError),
    (-32005, GET, "no", None, InvalidParams, RpcError),
    (-32006, "sampling/createMessage", "no", None, CapabilityNotSupported, RpcError),
    (-32007, CALL, "no", None, CapabilityNotSupported, RpcError),
    (-32008, CALL, "no", None, RpcError, RpcError),
    (-32601, READ, "no", {"other": 1}, MethodNotFound, MethodNotFound),
    (
        -32601,
        READ,
        "no",
        {"requiredCapabilities": {}},
        CapabilityNotSupported,
        CapabilityNotSupported,
    ),
    (-32603, CALL, "no", None, InternalError, InternalError),
    (7, CALL, "no", [1], RpcError, RpcError),
]


@pytest.mark.requirement(
    "SEED-02", "SEED-03", "SEED-04", "SEED-05", "SEED-32", "M:ERR-3", "M:ERR-5", "M:RES-3"
)
@for_each(("code", "method", "message", "data", "then", "now"), MEANINGS)
def test_the_kind_of_an_error_response(
    code: int, method: str, message: str, data: Any, then: Any, now: Any
) -> None:
    for revision in REVISIONS:
        error: Any = exception_of(Failure(1, code, message, data), method, revision)
        assert type(error) is (then if revision.handshake else now), revision.name
        if isinstance(error, ToolError):
            assert str(error) == message
            error = error.__cause__
        assert (error.code, error.message, error.data, error.from_peer) == (
            code,
            message,
            data,
            True,
        )


@pytest.mark.parametrize("ending", [{"result": {}}, {"error": {"code": 1, "message": "x"}}])
def test_an_integer_written_as_a_float_is_the_id_of_a_response(ending: Any) -> None:
    assert decode(line(id=3.0, **ending)).id == 3


@for_each(
    ("id", "found"),
    [("7", ("response", 7)), ("9" * 5000, ("unknown", None)), ("", ("response", None))],
)
def test_a_broken_response_with_an_id_of_many_digits_has_no_id(id: str, found: Any) -> None:
    member = f'"id":{id},' if id else ""
    broken = decode(f'{{"jsonrpc":"2.0",{member}"result":{{"a":NaN}}}}'.encode())
    assert isinstance(broken, InvalidMessage) and broken.code == PARSE
    assert (broken.kind, broken.id) == found


def test_an_invalid_response_has_its_id_although_it_is_a_float() -> None:
    found = decode(b'{"jsonrpc":"2.0","id":7.0,"result":5}')
    assert isinstance(found, InvalidMessage) and (found.id, found.kind) == (7, "response")
