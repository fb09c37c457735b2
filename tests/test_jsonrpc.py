"""Messages that cannot be built invalid, and a codec that takes any bytes."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any, Dict, List, Optional

import pytest
from hypothesis import given, strategies as st

from minimcp.errors import InvalidParams, RpcError
from minimcp.protocol.messages import (
    Broken,
    Failure,
    Notification,
    Request,
    Response,
    decode,
    encode,
    encode_batch,
    encode_result,
    failure,
    is_id,
    to_json,
)

from .drawn import drawn
from .rows import for_each

PARSE, INVALID, PARAMS = -32700, -32600, -32602

IDS: List[Any] = [0, 1, -1, 2**53 + 1, 10**30, "", "1", "007", "\u00e9\U0001f600\u2028\n"]
NO_IDS: List[Any] = [None, True, False, 1.0, 1.5, [], {}, [1]]


def line(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


# ---------------------------------------------------------------- building


@pytest.mark.requirement("BASE-02", "M:BASE-2")
def test_a_string_and_an_integer_are_ids() -> None:
    for id in IDS:
        assert is_id(id)
        assert Request(id, "m").id == Response(id, {}).id == Failure(id, 1, "x").id == id


@pytest.mark.requirement("BASE-05")
@pytest.mark.parametrize("half", ["\\ud800", "a\\udfffb", "\\udc00\\ud800"])
def test_a_string_that_cannot_be_said_again_is_no_id(half: str) -> None:
    for members in ('"method":"m"', '"result":{}', '"error":{"code":1,"message":"x"}'):
        found = decode(f'{{"jsonrpc":"2.0","id":"{half}",{members}}}'.encode())
        assert isinstance(found, Broken) and found.id is None and found.code == INVALID
    whole = decode(b'{"jsonrpc":"2.0","id":"\\ud83d\\ude00 \xc3\xa9","method":"m"}')
    assert isinstance(whole, Request) and whole.id == "\U0001f600 \u00e9"


@pytest.mark.requirement("BASE-02", "BASE-03", "M:BASE-2")
def test_nothing_else_is_an_id() -> None:
    assert Failure(None, 1, "x").id is None
    for id in (*NO_IDS, b"1", object()):
        assert not is_id(id)
        with pytest.raises(ValueError):
            Request(id, "m")
        with pytest.raises(ValueError):
            Response(id, {})
        if id is not None:
            with pytest.raises(ValueError):
                Failure(id, 1, "x")


@pytest.mark.requirement("BASE-12")
@pytest.mark.parametrize("make", [lambda *rest: Request(1, *rest), Notification])
def test_a_method_is_a_text_and_params_an_object(make: Any) -> None:
    assert make("m").params == make("m", None).params == {}
    assert make("m", {"a": 1}).params == {"a": 1}
    for method in ("", None, 1, b"m", ["m"]):
        with pytest.raises(ValueError, match="^a method is a text, not "):
            make(method)
    for params in ([], [1], "x", 0, False):
        with pytest.raises(ValueError, match=f"^params is an object, not {type(params).__name__}$"):
            make("m", params)


@pytest.mark.requirement("BASE-07", "BASE-11", "M:BASE-7")
def test_a_result_is_an_object_and_an_error_has_a_code_and_a_text() -> None:
    no_results: List[Any] = [None, [], "x", 1]
    for result in no_results:
        with pytest.raises(ValueError):
            Response(1, result)
    for code, message in ((1.0, "x"), (True, "x"), ("1", "x"), (None, "x"), (1, None), (1, b"x")):
        with pytest.raises(ValueError):
            Failure(1, code, message)  # type: ignore[arg-type]


MESSAGES = [
    Request(1, "m", {"a": [1]}),
    Request("1", "m"),
    Notification("n", {"b": None}),
    Notification("n"),
    Response("x", {"c": {}}),
    Failure(1, -32602, "no", {"d": 1}),
    Failure(None, -32700, "what", [None]),
    Failure("x", 1, "", 0),
]


def test_a_message_stays_as_it_was_made() -> None:
    for message in MESSAGES:
        for name in ("id", "method", "params", "other"):
            with pytest.raises(AttributeError):
                setattr(message, name, None)
        for twin in (copy.copy(message), pickle.loads(pickle.dumps(message))):
            assert twin == message
            assert type(twin) is type(message)


def test_params_that_are_not_given_are_not_shared() -> None:
    Request(1, "m").params["a"] = 1
    assert Request(2, "m").params == Notification("n").params == {}


# ---------------------------------------------------------------- there and back


@pytest.mark.requirement("BASE-01", "BASE-05", "M:BASE-1", "M:BASE-5")
def test_a_message_comes_back_as_it_was_sent() -> None:
    for message in MESSAGES:
        sent = encode(message)  # type: ignore[arg-type]
        assert sent.index(b"\n") == len(sent) - 1
        assert json.loads(sent)["jsonrpc"] == "2.0"
        back = decode(sent[:-1])
        assert (type(back), back) == (type(message), message)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(text, values, max_size=3)
ids = st.integers() | text
method = text.filter(bool)
messages = st.one_of(
    st.builds(Request, ids, method, objects),
    st.builds(Notification, method, objects),
    st.builds(Response, ids, objects),
    st.builds(Failure, st.none() | ids, st.integers(), text, values),
)


@drawn(40)
@given(messages, st.booleans())
def test_every_message_comes_back(message: Any, error_without_id: bool) -> None:
    sent = encode(message, error_without_id=error_without_id)
    assert sent.isascii()
    assert sent.count(b"\n") == 1
    assert sent.endswith(b"\n")
    back: Any = decode(sent[:-1])
    assert (type(back), back) == (type(message), message)
    assert to_json(list(back)) == to_json(list(message))  # 1 and 1.0 and true are equal, and are not the same


@drawn(40)
@given(st.lists(messages, min_size=1, max_size=3))
def test_every_batch_comes_back(batch: List[Any]) -> None:
    assert decode(encode_batch([encode(message) for message in batch])[:-1]) == batch


@drawn(40)
@given(st.binary(max_size=60) | text.map(str.encode) | values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_make_decode_raise(data: bytes) -> None:
    for found in (decode(data), decode(data, max_depth=None), decode(data, max_depth=1)):
        for message in found if isinstance(found, list) else [found]:
            assert type(message) in (Request, Notification, Response, Failure, Broken)


members: Any = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2.0, None]),
        "id": st.sampled_from([1, "1", None, True, 1.5, [], {}]),
        "method": st.sampled_from(["m", "", None, 1, []]),
        "params": st.sampled_from([{}, {"a": 1}, [], None, "x"]),
        "result": st.sampled_from([{}, {"a": 1}, [], None]),
        "error": st.sampled_from([{"code": 1, "message": "x"}, {"code": "1"}, {}, [], None]),
    },
)


@drawn(40)
@given(members)
def test_what_looks_like_a_message_is_one_or_says_what_it_is_not(members: Dict[str, Any]) -> None:
    found = decode(json.dumps(members).encode())
    if type(found) is Broken:
        assert found.code in (INVALID, PARAMS)
        assert found.id is None or (is_id(found.id) and found.id == members["id"])
        assert found.kind in ("request", "notification", "response", "unknown")
        assert (found.kind == "notification") <= ("id" not in members)
    else:
        assert members["jsonrpc"] == "2.0"
        again = decode(encode(found)[:-1])  # type: ignore[arg-type]
        assert (type(again), again) == (type(found), found)


# ---------------------------------------------------------------- decoding


@pytest.mark.requirement("BASE-16", "M:BASE-19")
def test_members_that_nobody_knows_are_passed_over() -> None:
    assert decode(line(id=1, method="m", extra=[1], result=None)) == Request(1, "m")
    assert decode(line(id=1, result={"a": 1}, extra=0)) == Response(1, {"a": 1})
    assert decode(line(id=1, error={"code": 1, "message": "x", "extra": 0}, more=1)) == Failure(1, 1, "x")


def test_an_error_may_leave_out_its_id() -> None:
    error = {"code": 1, "message": "x"}
    assert decode(line(error=error)) == decode(line(id=None, error=error)) == Failure(None, 1, "x")


REFUSED: List[Any] = [
    # line, code, id, kind
    (b"", PARSE, None, "unknown"),
    (b"{", PARSE, None, "unknown"),
    (b"nonsense", PARSE, None, "unknown"),
    (b"{} {}", PARSE, None, "unknown"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m",}', PARSE, None, "unknown"),
    (b"\xff\xfe{}", PARSE, None, "unknown"),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', PARSE, None, "unknown"),
    (b"\xef\xbb\xbf{}", PARSE, None, "unknown"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}', PARSE, None, "unknown"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":-Infinity}}', PARSE, None, "unknown"),
    (b"[" * 100_000, PARSE, None, "unknown"),
    (b"5", INVALID, None, "unknown"),
    (b'"text"', INVALID, None, "unknown"),
    (b"null", INVALID, None, "unknown"),
    (b"{}", INVALID, None, "unknown"),
    (b'{"id":1,"method":"m"}', INVALID, 1, "request"),
    (b'{"jsonrpc":"1.0","id":"a","method":"m"}', INVALID, "a", "request"),
    (b'{"jsonrpc":2.0,"id":1,"method":"m"}', INVALID, 1, "request"),
    (b'{"jsonrpc":"1.0","method":"m"}', INVALID, None, "notification"),
    (line(id=1), INVALID, 1, "unknown"),
    (line(id=1, method=""), INVALID, 1, "request"),
    (line(id=1, method=5), INVALID, 1, "unknown"),
    (line(id=1, method=None, result={}), INVALID, 1, "unknown"),
    (line(method=""), INVALID, None, "notification"),
    *((line(id=id, method="m"), INVALID, None, "request") for id in NO_IDS),
    *((line(id=2, method="m", params=params), PARAMS, 2, "request") for params in ([], [1], None, "x", 5, False)),
    (line(method="m", params=[]), PARAMS, None, "notification"),
    (line(id=1, result={}, error={"code": 1, "message": "x"}), INVALID, 1, "response"),
    (line(id=1, result=[]), INVALID, 1, "response"),
    (line(id=1, result=None), INVALID, 1, "response"),
    (line(result={}), INVALID, None, "response"),
    *((line(id=id, result={}), INVALID, None, "response") for id in NO_IDS),
    (line(id=1, error=[]), INVALID, 1, "response"),
    (line(id=1, error={"code": "1", "message": "x"}), INVALID, 1, "response"),
    (line(id=1, error={"code": True, "message": "x"}), INVALID, 1, "response"),
    (line(id=1, error={"code": 1}), INVALID, 1, "response"),
    (line(id=True, error={"code": 1, "message": "x"}), INVALID, None, "response"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,"a":2}}', INVALID, 1, "request"),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', INVALID, None, "request"),
    (b'{"jsonrpc":"2.0","id":3,"result":{"a":1,"a":1}}', INVALID, 3, "response"),
    (b'[{"a":1,"a":2}]', INVALID, None, "unknown"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1e999}}', PARAMS, 1, "request"),
    (b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":-1e999}}', PARAMS, 1, "request"),
    (b'{"jsonrpc":"2.0","id":1,"result":{"a":1e999}}', PARAMS, 1, "response"),
]


@pytest.mark.requirement("BASE-02", "BASE-03", "BASE-06", "BASE-07", "BASE-12", "BASE-13", "BASE-14", "SEED-30")
@pytest.mark.requirement("M:BASE-2", "M:BASE-21", "M:BASE-22")
@for_each(("sent", "code", "id", "kind"), REFUSED)
def test_what_is_no_message_says_why_and_whose_it_is(sent: bytes, code: int, id: Any, kind: str) -> None:
    found = decode(sent)
    assert type(found) is Broken
    assert (found.code, found.id, found.kind) == (code, id, kind)
    assert type(found.id) is type(id)
    assert "\n" not in found.reason
    assert 0 < len(found.reason) < 100


@pytest.mark.requirement("M:BASE-22")
def test_an_integer_of_too_many_digits_is_no_message_where_python_has_a_limit() -> None:
    found = decode(line(id=1, method="m", params={"a": 0}).replace(b" 0}", b" " + b"9" * 5000 + b"}"))
    assert type(found) is Broken
    assert found.code == PARSE


def test_an_array_is_read_element_by_element() -> None:
    sent = b"[" + b",".join([line(id=1, method="m"), b"5", line(method="n"), b"[]", line(id=2, result={})]) + b"]"
    no_message = Broken(INVALID, "a message is an object")
    assert decode(sent) == [Request(1, "m"), no_message, Notification("n"), no_message, Response(2, {})]
    assert decode(b"[]") == []


# ---------------------------------------------------------------- depth


def nested(depth: int, opener: str = "[", closer: str = "]", inside: str = "") -> bytes:
    """A request whose params reach `depth` levels below the message itself."""
    deep = opener * depth + inside + closer * depth
    return f'{{"jsonrpc":"2.0","id":7,"method":"m","params":{{"a":{deep}}}}}'.encode()


@for_each("limit", [3, 10, 256])
@for_each(("opener", "closer", "inside"), [("[", "]", ""), ('{"a":', "}", "1"), ('[{"a":', "}]", "[]")])
def test_the_limit_of_nesting_is_exact(limit: int, opener: str, closer: str, inside: str) -> None:
    per = 2 if opener.startswith("[{") else 1
    levels = (limit - 2 - (inside == "[]")) // per
    reached = 2 + levels * per + (inside == "[]")
    sent = nested(levels, opener, closer, inside)
    assert type(decode(sent, max_depth=reached)) is Request
    assert decode(sent, max_depth=reached - 1) == Broken(INVALID, f"nested deeper than {reached - 1}", 7, "request")


def test_by_default_256_levels_are_taken() -> None:
    assert type(decode(nested(254))) is Request
    assert decode(nested(255)) == Broken(INVALID, "nested deeper than 256", 7, "request")


def test_brackets_in_texts_and_side_by_side_are_not_depth() -> None:
    params = {"a": "[{" * 1000, "b": [[]] * 1000}
    assert decode(line(id=1, method="m", params=params), max_depth=4) == Request(1, "m", params)


@for_each("first", [True, False])
def test_the_deepest_place_counts_wherever_it_stands(first: bool) -> None:
    deep, flat = "[" * 300 + "]" * 300, "[" + ",".join(["[]"] * 500) + "]"
    inside = f'"a":{deep},"b":{flat}' if first else f'"b":{flat},"a":{deep}'
    sent = f'{{"jsonrpc":"2.0","id":7,"method":"m","params":{{{inside}}}}}'.encode()
    assert decode(sent) == Broken(INVALID, "nested deeper than 256", 7, "request")
    assert type(decode(sent, max_depth=302)) is Request


def test_a_broken_line_that_is_too_deep_says_so_first() -> None:
    sent = nested(10, '{"a":1,"a":', "}", "1")
    assert decode(sent, max_depth=5) == Broken(INVALID, "nested deeper than 5", 7, "request")
    assert decode(sent) == Broken(INVALID, "an object names a member twice", 7, "request")
    assert decode(b"[" * 10 + b"]" * 10, max_depth=5) == Broken(INVALID, "nested deeper than 5")


@pytest.mark.requirement("M:BASE-22")
@for_each("opener", ['{"a":', "[", '{"a":1,"a":', '{"a":1e999,"b":'])
def test_without_a_limit_pythons_own_is_met_without_an_exception(opener: str) -> None:
    closer = "]" if opener == "[" else "}"
    for depth in [100, *range(940, 1010), 200_000]:
        found = decode(nested(depth, opener, closer, "1"), max_depth=None)
        assert type(found) is Request or (type(found) is Broken and found.code in (PARSE, INVALID, PARAMS)), depth
    assert type(found) is Broken
    assert found.reason == "nested too deep"


# ---------------------------------------------------------------- encoding


@pytest.mark.requirement("BASE-09", "BASE-20", "M:BASE-8", "X-09")
def test_each_kind_has_its_members_and_no_others() -> None:
    assert encode(Request(1, "m", {"a": 1})) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}\n'
    assert encode(Request("1", "m")) == b'{"jsonrpc":"2.0","id":"1","method":"m"}\n'
    assert encode(Notification("n")) == b'{"jsonrpc":"2.0","method":"n"}\n'
    assert encode(Notification("n", {"a": 1})) == b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}\n'
    assert encode(Response(1, {})) == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    assert encode(Failure(1, 5, "x")) == b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"x"}}\n'
    assert b'"data":0}' in encode(Failure(1, 5, "x", 0))
    nameless = Failure(None, 5, "x")
    assert encode(nameless) == b'{"jsonrpc":"2.0","error":{"code":5,"message":"x"}}\n'
    assert encode(nameless, error_without_id=False) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":5,"message":"x"}}\n'
    )
    assert b'"id":1,' in encode(Failure(1, 5, "x"), error_without_id=False)


@pytest.mark.requirement("STDIO-03", "M:STD-1")
def test_nothing_in_a_value_can_end_a_line() -> None:
    odd = "\n\r\u0085\u2028\u2029\x00\U0001f600\\n\u00e9"
    sent = to_json({odd: odd})
    assert sent.isascii()
    assert sent.isprintable()
    assert json.loads(sent) == {odd: odd}


@for_each(
    ("given", "shown"),
    [
        ("\ud800", "\ufffd"),
        ("a\udc00b\ud83d", "a\ufffdb\ufffd"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud800\ud83d\ude00", "\ufffd\U0001f600"),
        ("\U0001f600\ud800", "\U0001f600\ufffd"),
        ("\U0010ffff", "\U0010ffff"),
        ("\\ud800", "\\ud800"),
        ("\\\\ud800", "\\\\ud800"),
        ("\\\ud800", "\\\ufffd"),
    ],
)
def test_half_a_character_becomes_the_sign_for_one_that_is_missing(given: str, shown: str) -> None:
    assert json.loads(to_json(given)) == shown
    assert json.loads(to_json({given: [given]})) == {shown: [shown]}


def circle() -> List[Any]:
    found: List[Any] = []
    found.append(found)
    return found


@for_each("value", [float("nan"), float("inf"), [-float("inf")], {"a": float("nan")}, circle()])
def test_what_json_has_no_number_or_no_end_for_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        to_json(value)
    with pytest.raises(ValueError):
        encode(Response(1, {"a": value}))


@for_each("value", [b"x", {1, 2}, object(), {"a": 1j}, {(1,): 1}])
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        to_json(value)


def test_values_are_compact() -> None:
    assert to_json({"a": [1, 2.5, None, True], "b": {}}) == '{"a":[1,2.5,null,true],"b":{}}'


def test_a_result_that_is_text_already_makes_the_same_line() -> None:
    for id in IDS:
        assert encode_result(id, '{"a":[1]}') == encode(Response(id, {"a": [1]}))


def test_a_batch_is_one_line() -> None:
    assert encode_batch([encode(Response(1, {})), encode(Response(2, {}))]) == (
        b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]\n'
    )


@pytest.mark.parametrize("id", [1, "a", None])
def test_an_error_becomes_the_message_that_tells_of_it(id: Optional[Any]) -> None:
    assert failure(id, InvalidParams("no", {"a": 1})) == Failure(id, -32602, "no", {"a": 1})
    assert failure(id, RpcError(7, "own")) == Failure(id, 7, "own", None)
