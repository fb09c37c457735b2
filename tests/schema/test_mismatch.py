"""The wording: paths, values, suggestions."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest

from minimcp.schema import mismatch
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


def test_many_or_long_names_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: List[str] = []
    real = mismatch._edits

    def counted(one: str, other: str, limit: int) -> int:
        compared.append(other)
        return real(one, other, limit)

    monkeypatch.setattr(mismatch, "_edits", counted)
    assert nearest("a" * 30 + "b" * 30, ("b" * 30 + "a" * 30 for _ in range(100_000))) is None
    assert len(compared) == mismatch.MOST_COMPARED
    assert nearest("forecast", (f"tool_{number}" for number in range(100_000))) is None
    assert nearest("forecast", ["forecast" * 10**6, "x" * 8, "forcast"]) == "forcast"
    assert len(compared) == mismatch.MOST_COMPARED + 1, "the others are too long, or have too few letters in common"


def test_the_path_grows_from_the_inside_out() -> None:
    error = Mismatch("a string", 1).inside("b").inside(2).inside("a")
    assert str(error) == "a[2].b: expected a string, got the number 1"
    assert str(error.copy().inside("x y")) == "['x y'].a[2].b: expected a string, got the number 1"
    assert shown_path([]) == ""


def test_what_was_not_sent_is_missing() -> None:
    assert str(Mismatch("a string").inside("b").inside("a")) == "a.b is missing: expected a string, got nothing"
    assert str(Mismatch("a string")) == "expected a string, got nothing"


def test_a_message_is_one_line_whatever_came() -> None:
    error = Mismatch("", instead="a\nb\x1b[0m\ud800")
    assert str(error) == "a\\nb\\x1b[0m\\ud800"


def test_small_words() -> None:
    assert listed(["a", "b", "c"], "and") == "a, b and c"
    assert repr(NOTHING) == "nothing"
