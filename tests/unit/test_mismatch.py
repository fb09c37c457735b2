"""The wording: paths, values, suggestions."""

from __future__ import annotations

import itertools
from copy import copy
from typing import Any, List, Optional

from minimcp.schema.mismatch import NOTHING, Mismatch, described, listed, nearest, shown_path

from ..rows import for_each


@for_each(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ("x" * 70, f"the string '{'x' * 60}...'"),
        ("a\nb", "the string 'a\\nb'"),
        (1.5, "the number 1.5"),
        (10**5000, "the number (over 300 digits)"),
        ([], "an empty list"),
        ((1, 2), "a list of 2"),
        ({}, "an empty object"),
        ({"a": 1, "b": 2}, "an object with a, b"),
        (NOTHING, "nothing"),
        (b"", "a value of type bytes"),
    ],
)
def test_values_in_words(value: Any, text: str) -> None:
    assert described(value) == text


@for_each(
    ("name", "known", "found"),
    [
        ("Days", ["days"], "days"),
        ("max-days", ["maxDays"], "maxDays"),
        ("ctiy", ["country", "city"], "city"),
        ("daysy", ["days", "daisy"], "days"),
        ("a", ["b"], None),
        ("temperature", ["city"], None),
        ("x" * 100, ["x" * 100], None),
    ],
)
def test_near_misses(name: str, known: List[str], found: Optional[str]) -> None:
    assert nearest(name, known) == found


def test_many_or_long_names_cost_little() -> None:
    endless = itertools.chain(["forcast"], map(str, itertools.count()))
    assert nearest("forecast", endless) == "forcast", "not all are read"
    assert nearest("forecast", ["forecast" * 10**6, "x" * 8, "forcast"]) == "forcast"


def test_the_path_grows_from_the_inside_out() -> None:
    error = Mismatch("a string", 1).inside("b").inside(2).inside("a")
    assert str(error) == "a[2].b: expected a string, got the number 1"
    assert str(copy(error).inside("x y")) == "['x y'].a[2].b: expected a string, got the number 1"
    assert shown_path(error.path) == "a[2].b" and shown_path([]) == ""


def test_what_was_not_sent_is_missing() -> None:
    assert str(Mismatch("a string").inside("b").inside("a")) == "a.b is missing: expected a string, got nothing"
    assert str(Mismatch("a string")) == "expected a string, got nothing"


def test_a_message_is_one_line_whatever_came() -> None:
    error = Mismatch("", instead="a\nb\x1b[0m\ud800")
    assert str(error) == "a\\nb\\x1b[0m\\ud800"


def test_small_words() -> None:
    assert listed(["a", "b", "c"], "and") == "a, b and c"
    assert repr(NOTHING) == "nothing"
