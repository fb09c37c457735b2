# ruff: noqa: E501
"""Schemas of a peer: no pattern of theirs keeps us."""

from __future__ import annotations

import re
from typing import Any, Optional

import pytest
from hypothesis import given, strategies as st

from minimcp.schema import compile_check
from minimcp.schema.budget import TOO_MUCH
from minimcp.schema.peers import STEPS, degree
from minimcp.schema.checker import compile_peer_check

from ..drawn import drawn
from ..rows import for_each

DEGREES = [
    ("", 0), ("abc", 0), (r"^\d{4}-\d\d$", 0), ("[a-z]+", 1), ("^[a-z]+-[0-9]*$", 2), ("a{2,}", 1), ("a{2,5}b", 0),
    ("a{0,1000}", 1), ("(ab)+", 1), ("(?:ab){2,3}c?", 0), ("a+?b*?", 2), ("(a|b)", 0), ("(a|b)?", 0), (r"\(\*\+", 0),
    ("[(+*]+", 1), ("[]a]+", 1), (r"[\]]*", 1), ("(?P<year>[0-9]+)-x", 1), ("(?=a+)b", 1), ("a{x", 0), ("{x}", 0),
    ("(?i:ab)+", 1), ("a{,3}", 0), (r"\\+", 1), ("(a?b)?", 0), ("x{3}", 0), ("[^\\]]+,", 1),
]
NEVER = [
    "(a+)+$", "^(a|a?)+$", "(a*)*", "(a|b)+", "((a+)b)*", "(a?){50}", r"(a)\1", "(?(1)a|b)", "(?#x)", "(", ")", "*a",
    "(?P=x)", "[a", "a\\", "(a", "|*", "(?:a{1,2}){3,}", "a**",
]


@for_each("pattern, wanted", DEGREES)
def test_how_often_a_pattern_repeats(pattern: str, wanted: int) -> None:
    re.compile(pattern)
    assert degree(pattern) == wanted


@for_each("pattern", NEVER)
def test_what_may_take_for_ever_or_cannot_be_read(pattern: str) -> None:
    assert degree(pattern) is None


@for_each("schema", [
    {"type": "string", "pattern": "(a+)+$"}, {"properties": {"a": {"allOf": [{"pattern": "(a*)*"}]}}},
    {"patternProperties": {"^(x+x+)+y": {}}}, {"$defs": {"a": {"pattern": "(a|a)*b"}}, "$ref": "#/$defs/a"},
])
def test_a_schema_with_such_a_pattern_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="tool x: the pattern .* may take for ever"):
        compile_peer_check(schema, where="tool x")


def test_the_others_are_run_on_strings_that_they_are_quick_for() -> None:
    check = compile_peer_check({"items": {"pattern": "^a+b+c+$"}}, where="x")
    assert check(["aabbcc"]) is None and check(["abd"]) is not None
    long = "a" * int(STEPS ** 0.25 + 2)
    assert check(["aaaaaaaaaabd"] * 20_000) is None, "unchecked: all together are long"
    assert check([long]) is None and check([{"x": long}]) is None and check({long: 1}) is None, "unchecked"
    assert compile_peer_check({"type": "string"}, where="x")(long * 1000) is None
    assert compile_peer_check({"type": "integer"}, where="x")(long) is not None
    with pytest.raises(ValueError, match="leads nowhere"):
        compile_peer_check({"$ref": "http://example.com/x"}, where="x")


@drawn(60)
@given(st.text("ab()|*+?{}[]^$\\.12,", max_size=12), st.text("ab1", max_size=14))
def test_no_pattern_that_is_let_through_is_slow(pattern: str, value: str) -> None:
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError):
        return
    found: Optional[int] = degree(pattern)
    if found is not None:
        compiled.search(value * 20)


FOREIGN = {"if": True}
"""A word that our closures leave to jsonschema."""

def test_a_schema_that_asks_for_too_much_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.schema.check.MAX_STEPS", 500)
    schema = {"items": {"anyOf": [{"const": number} for number in range(200)]}}
    check = compile_peer_check(schema, where="x")
    assert check([199] * 5) == TOO_MUCH and check([199] * 2) is None and check([200]) not in (None, TOO_MUCH)
    assert compile_check(schema, where="x")([199] * 5) is None, "an author's own schema may"
    small = compile_peer_check({"items": {"anyOf": [{"type": "null"}, {"type": "string"}]}}, where="x")
    assert small([None] * 5000) is None, "and a large value needs many steps of its own"


def test_a_foreign_schema_judges_as_before() -> None:
    check = compile_peer_check({"items": {"uniqueItems": True, "multipleOf": 0.1}, **FOREIGN}, where="x")
    assert check([[1, True, {"a": 1}], 0.3, "x", {}]) is None
    assert check([[1, 1.0]]) == "[0]: expected a list without duplicates, got the same item twice"
    assert check([0.35]) == "[0]: expected a multiple of 0.1, got the number 0.35"
    assert compile_peer_check({"uniqueItems": False, **FOREIGN}, where="x")([1, 1]) is None
