"""The tables of the tests are themselves tested: no row hides another, and a table without rows proves nothing."""

from __future__ import annotations

from typing import Any, List

import pytest
from hypothesis import given, settings, strategies as st

from .rows import for_each

met: List[Any] = []


@for_each("number", [1, 2])
@for_each(("word", "length"), [("a", 1), ("", 0)])
def test_each_row_meets_each_row_of_the_table_below(number: int, word: str, length: int, tmp_path: Any) -> None:
    assert len(word) == length
    assert tmp_path.is_dir()
    met.append((number, word))


def test_the_one_above_met_them_all() -> None:
    assert met == [(1, "a"), (1, ""), (2, "a"), (2, "")]


def test_every_row_that_fails_is_told_of() -> None:
    seen = []

    @for_each("number, word", [(1, "one"), (2, "two"), (3, "three"), (4, "four")])
    def table(number: int, word: str) -> None:
        seen.append(number)
        if number == 2:
            raise KeyError("odd")
        if number == 3:
            with pytest.raises(ValueError):
                pass
        assert number != 4, "not four"

    with pytest.raises(pytest.fail.Exception) as caught:
        table()
    told = str(caught.value)
    assert seen == [1, 2, 3, 4]
    assert told.startswith("3 of 4 rows failed\n")
    for words in ("number=2, word='two'\n", "KeyError: 'odd'", "number=3, word='three'\n", "DID NOT RAISE", "not four"):
        assert words in told
    assert "word='one'" not in told
    assert "in all_rows" not in told


def test_a_row_of_stacked_tables_has_both_names() -> None:
    @for_each("outer", "ab")
    @for_each("inner", "cd")
    def table(outer: str, inner: str) -> None:
        assert (outer, inner) != ("b", "c")

    with pytest.raises(pytest.fail.Exception, match="(?s)1 of 2 rows.*outer='b'.*1 of 2 rows.*inner='c'") as caught:
        table()
    assert "outer='a'" not in str(caught.value)


def test_a_row_that_cannot_be_shown_fails_all_the_same() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise ZeroDivisionError

    @for_each("row", [Odd()])
    def table(row: Odd) -> None:
        raise AssertionError("seen")

    with pytest.raises(pytest.fail.Exception, match="(?s)cannot be shown: ZeroDivisionError.*AssertionError: seen"):
        table()


def test_ctrl_c_is_no_row() -> None:
    @for_each("row", [1, 2])
    def table(row: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        table()


def test_marks_stay() -> None:
    @pytest.mark.filterwarnings("error")
    @for_each("a", [1])
    @pytest.mark.usefixtures("tmp_path")
    @for_each("b", [1])
    def table(a: int, b: int) -> None: ...

    assert [mark.args for mark in table.pytestmark] == [("tmp_path",), ("error",)]


def test_a_table_without_rows_and_a_row_without_a_value_are_mistakes() -> None:
    for names, rows in (("a", []), ("a, b", [(1, 2), (1,)]), ("a, b", [(1, 2, 3)])):
        with pytest.raises(ValueError):
            for_each(names, rows)


drawn = []


@for_each("row", ["x", "y"])
@settings(max_examples=3, database=None)
@given(number=st.integers())
def test_rows_with_drawn_values(row: str, number: int) -> None:
    drawn.append(row)


def test_the_one_above_drew_for_each() -> None:
    assert set(drawn) == {"x", "y"}
