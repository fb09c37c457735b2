# ruff: noqa: E501
"""Any JSON Schema as a compiled check: our words, the words and dialects of `jsonschema`, and the
bounds."""

from __future__ import annotations

import builtins
import itertools
import random
import re
import sys
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import jsonschema
import pytest
from hypothesis import given, strategies as st

from minimcp.schema import checker

from ..drawn import drawn
from ..rows import for_each

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NODE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"n": {"type": "integer"}, "kids": {"items": {"$ref": "#/$defs/node"}}},
        }
    },
    "$ref": "#/$defs/node",
}


def compile_check(schema: Any, *, where: str, peer: bool = False) -> Callable[[Any], Optional[str]]:
    """Return the check, with its error as text."""
    check = checker.compile_check(schema, where=where, peer=peer)
    return lambda value: None if (found := check(value)) is None else str(found)


compile_peer_check = partial(compile_check, peer=True)
WORDS: List[Tuple[Any, List[Any], List[Tuple[Any, str]]]] = [
    (True, [1, None], []),
    (False, [], [(1, "expected nothing here, got the number 1")]),
    ({}, [1], []),
    ({"type": "integer"}, [1, 1.0], [(True, "expected an integer, got true"), (1.5, "expected an integer, got the number 1.5")]),
    ({"type": ["string", "null"]}, ["a", None], [(1, "expected a string or null, got the number 1")]),
    ({"type": ["integer", "number"]}, [1.5], [("x", "expected an integer or a number, got the string 'x'")]),
    ({"enum": ["red", "green", 1]}, ["red", 1.0], [
        ("gren", "expected one of 'red', 'green' or 1 (did you mean 'green'?), got the string 'gren'"),
        (True, "expected one of 'red', 'green' or 1, got true")]),
    ({"enum": []}, [], [(1, "expected nothing, got the number 1")]),
    ({"const": {"a": [1, True]}}, [{"a": [1.0, True]}], [({"a": [1, 1]}, "expected an object with a, got an object with a")]),
    ({"minimum": 1, "maximum": 3}, [1, 3, "x"], [(0, "expected a number of at least 1, got the number 0"), (4, "expected a number of at most 3, got the number 4")]),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, [2], [(1, "expected a number above 1, got the number 1"), (3, "expected a number below 3, got the number 3")]),
    ({"multipleOf": 0.1}, [0.3, "x"], [(0.35, "expected a multiple of 0.1, got the number 0.35")]),
    ({"multipleOf": 5}, [10], [(11, "expected a multiple of 5, got the number 11")]),
    ({"minLength": 1, "maxLength": 2}, ["a", 5], [("", "expected at least 1 character, got 0"), ("abc", "expected at most 2 characters, got 3")]),
    ({"pattern": "^a"}, ["ab", 5], [("b", "expected a string that matches ^a, got the string 'b'")]),
    ({"minItems": 1, "maxItems": 2}, [[1], {}], [([], "expected at least 1 item, got 0"), ([1, 2, 3], "expected at most 2 items, got 3")]),
    ({"uniqueItems": True}, [[1, True, "a", [1], {"a": 1}], "aa"], [([1, 1.0], "expected a list without duplicates, got the same item twice")]),
    ({"uniqueItems": False}, [[1, 1]], []),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [({}, "expected at least 1 field, got 0")]),
    ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, [{"a": "x", "b": 1}, 5], [
        ({}, "a is missing: expected a string, got nothing"), ({"a": 1}, "a: expected a string, got the number 1")]),
    ({"properties": {"a": True, "b": {"type": ["null", "integer"]}, "c": {"required": ["d"]}}, "required": ["a", "b"]}, [{"a": 1, "b": 2}], [
        ({}, "a is missing: expected a value, got nothing"), ({"a": 1}, "b is missing: expected null or an integer, got nothing"),
        ({"a": 1, "b": 2, "c": {}}, "c.d is missing: expected a value, got nothing")]),
    ({"properties": {"city": {}}, "patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False}, [{"city": 1, "xy": None}, 1], [
        ({"citty": 1}, "unknown field 'citty', did you mean 'city'?"), ({"other": 1}, "unknown field 'other': the fields are city and ^x"), ({"x": 1}, "x: expected null, got the number 1")]),
    ({"properties": {"a": {"additionalProperties": False}}}, [{"a": {}}], [({"a": {"b": 1}}, "a: unknown field 'b': there are no fields")]),
    ({"additionalProperties": {"type": "integer"}}, [{"a": 1}], [({"a b": "x"}, "['a b']: expected an integer, got the string 'x'")]),
    ({"patternProperties": {"^x": {"type": "null"}}}, [5, {"y": 1}], []),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, 5], [({"ab": 1}, "the name 'ab': expected at most 1 character, got 2")]),
    ({"items": {"type": "integer"}}, [[1], 5], [([1, "x"], "[1]: expected an integer, got the string 'x'")]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [[1], [], 5], [(["x"], "[0]: expected an integer, got the string 'x'"), ([1, 2], "[1]: expected nothing here, got the number 2")]),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, [2], [(1, "expected a number of at least 2, got the number 1")]),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, [1, "a"], [(None, "expected an integer or a string, got null")]),
    ({"anyOf": [{"minLength": 2}, {"properties": {"a": False}}]}, ["ab"], []),
    ({"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]}, [{"a": 1}], [
        ({}, "fits none of 2 forms (expected an integer, got an empty object; a is missing: expected a value, got nothing)")]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, "x", 2.5], [(3, "fits 2 of 2 forms, but must fit exactly one"), (1.5, "expected an integer or a number of at least 2, got the number 1.5")]),
    ({"not": {"type": "integer"}}, ["x"], [(1, "expected something else, got the number 1")]),
    (NODE, [{"n": 1, "kids": [{"n": 2}]}], [({"kids": [{"n": 1}, {"n": "x"}]}, "kids[1].n: expected an integer, got the string 'x'")]),
    ({"$anchor": "me", "items": {"$ref": "#me"}, "type": "array", "default": {"$anchor": 3}}, [[[]]], [([[1]], "[0][0]: 1 is not of type 'array'")]),
    ({"x-parts": {"a/b c": [{"type": "null"}]}, "$ref": "#/x-parts/a~1b%20c/0"}, [None], [(1, "expected null, got the number 1")]),
    ({"$ref": "#"}, [], [(1, "the schema refers to itself endlessly")]),
    ({"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer"}, "unused": True}}, [1], [("x", "expected an integer, got the string 'x'")]),
    ({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "integer"}}}, [1], [("x", "expected an integer, got the string 'x'")]),
    ({"anyOf": [{"properties": {"a": {"items": {"$ref": "#/$defs/a"}}}}, {"additionalProperties": {"items": {"$ref": "#/$defs/a"}}}], "$defs": {"a": {"type": "integer"}}}, [{"a": [1]}], [
        ({"a": ["x"]}, "fits none of 2 forms (a[0]: expected an integer, got the string 'x')")]),
    ({"x-anything": 1, "format": "date", "title": "t", "type": "string"}, ["no date"], []),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/s", "type": "null"}, [None], [(1, "expected null, got the number 1")]),
    ({"$schema": DRAFT_7, "items": {"type": "null"}, "$ref": "#/definitions/x", "definitions": {"x": {}}}, [[1]], []),
    ({"$schema": DRAFT_7, "items": {"type": "null"}}, [[None]], [([1], "[0]: expected null, got the number 1")]),
    ({"$schema": DRAFT_7, "prefixItems": [False]}, [[1]], []),
]  # fmt: skip


@pytest.mark.requirement("M:SCH-1", "M:SCH-9", "M:SCH-10", "JSCH-01")
@for_each(("schema", "fits", "refused"), WORDS)
def test_each_word(schema: Any, fits: List[Any], refused: List[Tuple[Any, str]]) -> None:
    check = compile_check(schema, where="test")
    assert [check(value) for value in fits] == [None] * len(fits)
    assert [check(value) for value, _ in refused] == [message for _, message in refused]


@pytest.mark.requirement("JSCH-06", "M:SCH-11")
@for_each("schema", [
    3, {"type": "strin"}, {"type": []}, {"type": ["null", "null"]}, {"type": 3}, {"enum": "x"}, {"minimum": "1"},
    {"multipleOf": 0}, {"minLength": -1}, {"minLength": 1.5}, {"pattern": "("}, {"pattern": "a{99999999999}"}, {"pattern": 1}, {"uniqueItems": 1},
    {"properties": []}, {"properties": {"a": 3}}, {"required": "a"}, {"required": [1]}, {"items": [{}]},
    {"allOf": []}, {"anyOf": {}}, {"$defs": {"a": {"type": "x"}}}, {"$defs": []}, {"$ref": 1},
    {"$ref": "#/$defs/a"}, {"$ref": "#none"}, {"allOf": [{}], "$ref": "#/allOf/1"}, {"if": 3}, {"$ref": "#/title/x", "title": "t"},
])  # fmt: skip
def test_an_invalid_schema_is_refused_when_it_is_compiled(schema: Any) -> None:
    with pytest.raises(ValueError, match="^tool 't': "):
        compile_check(schema, where="tool 't'")


@pytest.mark.requirement("JSCH-01", "JSCH-03", "JSCH-04", "JSCH-02", "M:SCH-3")
def test_other_words_and_dialects_are_left_to_jsonschema() -> None:
    needs = compile_check({"dependentRequired": {"a": ["b"]}}, where="test")
    assert needs({"a": 1, "b": 1}) is None
    assert needs({"a": 1}) == "'b' is a dependency of 'a'"
    older = compile_check({"$schema": DRAFT_7, "items": [{"type": "integer"}]}, where="test")
    assert older(["x"]) == "[0]: 'x' is not of type 'integer'"
    for name in ("2019-09", "2020-12"):
        uri = f"https://json-schema.org/draft/{name}/schema"
        assert compile_check({"$schema": uri, "if": True, "then": False}, where="test")(1)
    assert (
        compile_check(
            {
                "$schema": DRAFT_7,
                "$ref": "#/definitions/a",
                "type": "null",
                "definitions": {"a": {}},
            },
            where="t",
        )(1)
        is None
    )
    inner = {"items": {"$id": "https://example.com/a", "type": "integer"}}
    assert compile_check(inner, where="test")(["x"])
    meta = compile_check({"$ref": "https://json-schema.org/draft/2020-12/schema"}, where="test")
    assert meta({"type": "string"}) is None
    assert meta({"type": 3})


@pytest.mark.requirement("JSCH-05", "M:SCH-2")
@for_each("dialect", ["x:y", "http://json-schema.org/draft-03/schema#", 3, ["x"]])
def test_an_unknown_dialect_is_refused_by_name(dialect: Any) -> None:
    with pytest.raises(ValueError, match="dialect .* is not supported: use one of https"):
        compile_check({"$schema": dialect}, where="test")


@pytest.mark.requirement("JSCH-08", "M:SCH-4", "M:SCH-6")
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/x.json"},
        {"items": {"$ref": "other.json#/a"}},
        {"$id": "https://example.com/a", "$ref": "b"},
        {"$dynamicRef": "https://example.com/b"},
        {"$schema": DRAFT_7, "if": True, "items": [{"$ref": "#/nowhere"}]},
    ],
)
def test_nothing_is_fetched_and_a_dangling_reference_is_refused(
    schema: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_socket(*arguments: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", no_socket)
    with pytest.raises(ValueError, match="has no target"):
        compile_check(schema, where="test")


def bomb(last: Any, **words: Any) -> Dict[str, Any]:
    definitions: Dict[str, Any] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**definitions, "a60": last}, **words}


@pytest.mark.requirement("M:SCH-7")
def test_schemas_that_repeat_their_work_without_end_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = compile_check(bomb({"type": "integer"}), where="test")
    assert check(1) is None
    assert check("x") == "expected an integer, got the string 'x'"
    ticking(monkeypatch)
    foreign = compile_check(
        bomb({"properties": {"x": True}}, unevaluatedProperties=False), where="test"
    )
    assert foreign({"x": 1}) == checker.TOO_MUCH
    assert compile_check(bomb({}, **{"if": True}), where="test")(1) == checker.TOO_MUCH


def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each reading of the clock take a hundredth of the time."""
    clock = itertools.count(1)
    monkeypatch.setattr(checker, "thread_time", lambda: next(clock) * checker.MAX_SECONDS / 100)


def test_a_check_of_a_peer_s_schema_is_given_up_when_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticking(monkeypatch)
    schema = {"items": {"anyOf": [{"const": number} for number in range(50)]}}
    check = compile_peer_check(schema, where="x")
    assert (
        check([49] * 3) == checker.TOO_MUCH
        and check([20]) is None
        and check([50]) not in (None, checker.TOO_MUCH)
    )
    assert compile_check(schema, where="x")([49] * 3) is None, "an author's own schema may"
    names = {f"a{n}": 1 for n in range(200)}
    for words, value in (
        ({"anyOf": [True]}, 1),
        ({"const": 1}, 1),
        ({"enum": [1]}, 1),
        ({"uniqueItems": True}, [1]),
        ({"pattern": "a"}, "a"),
        ({"patternProperties": {"a": True}}, {"a": 1}),
        ({"not": {"additionalProperties": False}}, {"a": 1}),
        ({"not": {"anyOf": [{"minLength": 2}] * 20}}, "a"),
        ({"propertyNames": True}, names),
    ):
        assert compile_peer_check({"allOf": [words] * 600}, where="x")(value) == checker.TOO_MUCH, (
            words
        )
    monkeypatch.setattr(checker, "SECONDS_PER_PART", checker.MAX_SECONDS / 50)
    small = compile_peer_check(
        {"items": {"anyOf": [{"type": "null"}, {"type": "string"}]}}, where="x"
    )
    assert small([None] * 5000) is None, "a large value may take more time"


# By the length of the longest text that it is run on.
PATTERNS = [
    (100_000, [
        "", "foo", "^[a-z0-9-]+$", r"^\d{4}-\d{2}-\d{2}$", "^[A-Z]{2,3}$", "^https?://", "^https?://.+$", "^(foo|bar)$", r"\S", "^x-", "^a+?b",
        "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "^#(?:[0-9a-fA-F]{3}){1,2}$", r"^(\d{1,3}\.){3}\d{1,3}$", r"^([01]\d|2[0-3]):[0-5]\d$", r"^\+?[1-9]\d{1,14}$", "^[A-Za-z_]\\w*$",
        "^(GET|POST|PUT|PATCH)$", r"^.*\.(png|jpe?g)$", "^[a-z]{2}(-[A-Z]{2})?$", "^[A-Za-z0-9+/]*={0,2}$", r"\A(?:ab)*\Z", "(?P<year>[0-9]{4})", r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$",
    ]),
    (1_000, [".+", "a+?", "(?:a|a)" * 5 + "$", "a{2,}", r"^-?\d+(\.\d+)?$", r"^[\w.-]+/[\w.-]+$"]),
    (100, [r"^[^@\s]+@[^@\s]+\.[^@\s]+$", r"^[\w.%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}$", r"^v?\d+\.\d+\.\d+$", "a+b+", ".*[^x]{99}y"]),
    (20, [r"^v?\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$", "a?" * 5 + ".*" + "[^x]{300}y"]),
    (-1, [
        "(a+)+$", "^(a|a?)+$", "(a*)*", "((a|b)+c){9}", "((a+)b)*", "(a?){50}", r"(a)\1", "(?(1)a|b)", "(?P=x)", "(?=a+)b", "(?!x)", "(?<=a)", "(?<!a)",
        "(?i)ab", "(?i:ab)", "(?-i:ab)", "(?x) a", "a?" * 30, "(?:a|a)" * 40, "(?:a|aa)" * 40, "a{1,2}" * 40, "a{0,99}" * 6, "(?:a{1,2}){30}", "(?:){9}",
        "(?:a?){0,9999}", "^(a{0,3}){4}$", "(?:a|b)?" * 40, "((((a{1,9}){9}){9}){9}){9}", "(b+c?){60}", "^[a-z0-9]+(?:-[a-z0-9]+)*$", "^/(?:[^/]+/)*[^/]*$",
        "a{99999999999}", "(", "(?<js>a)", "a" * 1001, "((((((a+)?)+)?)+)?)+", "(?=a){0}", "[[a]+", "[^[a]",
        "[a--b]", "[]||]", r"[\]&&]", "[a-z~~b]",
    ]),
]  # fmt: skip


@for_each(
    ("longest", "pattern"),
    [(longest, pattern) for longest, patterns in PATTERNS for pattern in patterns],
)
def test_patterns_of_a_peer_are_run_on_texts_that_are_not_longer_than(
    longest: int, pattern: str
) -> None:
    assert checker.longest_text(pattern) == longest
    check = compile_peer_check({"pattern": pattern}, where="x")
    if longest >= 0:
        assert (check("x" * longest) is None) == (re.search(pattern, "x" * longest) is not None)
    assert check("x" * (longest + 1)) is None
    for words in ({"not": {"pattern": pattern}}, {"oneOf": [{"pattern": pattern}, True]}):
        assert compile_peer_check(words, where="x")("x" * (longest + 1)) is None, (
            "nobody knows whether it matches"
        )


FRAGMENTS = st.sampled_from([
    "a", "a?", "(?:a|a)", "a{0,9}", "a{2}", "[^x]{300}", "a*", "a+?", ".", "(a|b|aa)", "(?:ab|a)", "(a{1,3}b?)", "(?:aa){0,5}", "$", "^", "b", "\\b",
    "(?:a|[ab]|.)", "(?:[^b]{50}c|[^d]{50}e)", "(aa|aaa)*", "((a|b)c?)?", "\\w", "(?:.{3})*", "(?P<n>a)", "(?i:a)", "\\1", "(?=a)", "(?<!b)", "é+",
    "[a-zé😀]*", "[\\0-\uffffa]", "[" + "".join(map(chr, range(70_000, 70_200))) + "]*", "(?:a+)+", "x{0}", "|", "(?:)*",
])  # fmt: skip
HOSTILE_PATTERNS = st.lists(
    st.tuples(FRAGMENTS, st.sampled_from([1, 1, 1, 2, 5, 20, 40])), max_size=6
).map(lambda parts: "".join(part * times for part, times in parts))


@drawn(300)
@given(
    HOSTILE_PATTERNS,
    st.sampled_from(["a", "ab", "é", "aaab", "abx"]),
    st.sampled_from(["", "$", "X$"]),
)
@pytest.mark.figures
def test_no_pattern_that_is_run_is_slow(pattern: str, text: str, end: str) -> None:
    for each in (pattern + end, f"^{pattern}{end}", f"^({pattern}){{0,3}}{end}"):
        longest = checker.longest_text(each)
        check = compile_peer_check({"pattern": each}, where="x")
        began = time.process_time()
        check((text * longest)[:longest])
        assert time.process_time() - began < 2, each


def test_a_set_that_may_be_read_in_two_ways_prints_nothing(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """`re` warns of such sets on stderr, in the words of the peer that sent them."""
    pieces = [
        "[",
        "[^",
        "]",
        "^",
        "-",
        "--",
        "&&",
        "~~",
        "||",
        "a",
        "z",
        "0-9",
        "\\]",
        "\\[",
        "(",
        ")",
    ]
    chosen = random.Random(5)
    for _ in range(5_000):
        checker.longest_text("".join(chosen.choices(pieces, k=8)))
    assert [str(each.message) for each in recwarn if each.category is FutureWarning] == []


def test_only_the_pattern_that_is_not_run_is_unchecked(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="minimcp.schema")
    slow = {"type": "string", "pattern": "(a+)+$"}
    check = compile_peer_check(slow, where="x")
    assert check("a" * 60 + "b") is None and check(1) == "expected a string, got the number 1"
    assert compile_peer_check({"items": slow}, where="x")(["b", "bb"]) is None
    assert [record.message for record in caplog.records] == [
        f"the pattern '(a+)+$' may be slow, so it was not run on {length} characters"
        for length in (61, 1)
    ], "once in a check"
    assert (
        compile_check(slow, where="x")("b")
        == "expected a string that matches (a+)+$, got the string 'b'"
    )
    members = {"patternProperties": {"^(x+)+$": {"type": "null"}}, "additionalProperties": False}
    named = compile_peer_check(members, where="x")
    assert named({"xx": 1}) is None and named({"y": 1}) is None, "nobody knows which names match"
    assert (
        compile_check(members, where="x")({"y": 1}) == "unknown field 'y': the fields are ^(x+)+$"
    )
    for pattern in ("(", "a{99999999999}"):
        assert compile_peer_check({"pattern": pattern}, where="x")("b") is None, (
            "it may be one of another language"
        )
    assert compile_peer_check({"pattern": "a{99999999999}", **FOREIGN}, where="x")("b") is None
    foreign = compile_peer_check({**slow, **FOREIGN}, where="x")
    assert foreign("a" * 60 + "b") is None and foreign(1) == "1 is not of type 'string'"


FOREIGN = {"if": True}
"""A keyword that is left to jsonschema."""


@for_each(
    ("schema", "words"),
    [
        (
            {"properties": {f"a{n}": {"type": "null"} for n in range(6000)}},
            "if it is large",
        ),
        (
            {"$defs": {f"a{n}": {"$anchor": f"a{n}"} for n in range(101)}},
            "if it is large",
        ),
        ({"patternProperties": {"a": {}}}, "patternProperties"),
        ({"$ref": "http://example.com/x"}, "has no target"),
    ],
)
def test_schemas_that_jsonschema_does_not_check(schema: Any, words: str) -> None:
    with pytest.raises(ValueError, match=f"^x: .*{words}"):
        compile_peer_check({**schema, **FOREIGN}, where="x")


def test_our_words_judge_inside_of_jsonschema() -> None:
    for compile_ in (compile_check, compile_peer_check):
        check = compile_(
            {"items": {"uniqueItems": True, "multipleOf": 0.1, "pattern": "^x"}, **FOREIGN},
            where="x",
        )
        assert check([[1, True, {"a": 1}], 0.3, "x", {}]) is None
        assert (
            check([[1, 1.0]]) == "[0]: expected a list without duplicates, got the same item twice"
        )
        assert check([0.35]) == "[0]: expected a multiple of 0.1, got the number 0.35"
        assert check(["y"]) == "[0]: expected a string that matches ^x, got the string 'y'"
        assert compile_({"uniqueItems": False, **FOREIGN}, where="x")([1, 1]) is None


@pytest.mark.requirement("M:SCH-7")
def test_deep_schemas_and_values_do_not_overflow_the_stack() -> None:
    deep: Any = {"type": "integer"}
    for _ in range(10_000):
        deep = {"allOf": [deep]}
    with pytest.raises(ValueError, match="is nested deeper than 256"):
        compile_check(deep, where="test")
    chain: Dict[str, Any] = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(10_000)}
    check = compile_check({"$ref": "#/$defs/a0", "$defs": {**chain, "a10000": {}}}, where="test")
    assert check(1) == checker.TOO_MUCH
    value: Any = []
    for _ in range(sys.getrecursionlimit()):
        value = [value]
    assert compile_check({"items": {"$ref": "#"}}, where="test")(value) == checker.TOO_MUCH
    monster = {"if": True, "items": {"$ref": "#"}}
    assert compile_check(monster, where="test")(value) == checker.TOO_MUCH


def test_without_jsonschema_our_own_words_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def blocked(name: str, *arguments: Any, **options: Any) -> Any:
        if name.partition(".")[0] in ("jsonschema", "referencing"):
            raise ImportError(f"No module named {name!r}")
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", blocked)
    assert compile_check({"type": "integer"}, where="test")("x")
    with pytest.raises(ImportError, match="tool 't': .* pip install jsonschema"):
        compile_check({"if": True}, where="tool 't'")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["a", "x", "y", "content", "child", "must", "value", "start", "name", "7"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
PARTS = st.sampled_from(
    [{"type": "integer"}, {"type": ["string", "null"]}, {"minimum": 0}, {"maxLength": 1}, {"const": 1}, {"enum": [True, "a", []]},
     {"required": ["a"]}, {"additionalProperties": False, "properties": {"a": {}}}, {"uniqueItems": True}, {"maxItems": 1}, True, False]
)  # fmt: skip
SCHEMAS = st.recursive(
    PARTS,
    lambda inner: st.fixed_dictionaries({}, optional={
        "items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2), "properties": st.dictionaries(st.sampled_from("axy"), inner),
        "additionalProperties": inner, "anyOf": st.lists(inner, min_size=1, max_size=2), "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2), "not": inner, "patternProperties": st.dictionaries(st.sampled_from(["^a", "y$"]), inner),
        "propertyNames": inner,
    }),
    max_leaves=5,
)  # fmt: skip


@drawn(60)
@given(schema=SCHEMAS, value=JSON)
def test_our_words_and_jsonschema_agree(schema: Any, value: Any) -> None:
    found = compile_check(schema, where="test")(value)
    assert (found is None) == jsonschema.Draft202012Validator(schema).is_valid(value)
    assert "\n" not in (found or "")
