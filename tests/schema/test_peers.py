"""Schemas of a peer: no pattern of theirs keeps us."""

from __future__ import annotations

import re
from typing import Any, Optional

import pytest
from hypothesis import given, strategies as st

from minimcp.schema.peers import STEPS, compile_peer_check, degree

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
