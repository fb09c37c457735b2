"""The tables of the tests are themselves tested: no row hides another, and a table without rows
proves nothing."""

from __future__ import annotations

from typing import Any, List, Type

import pytest

from .rows import for_each


class Odd:
    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_every_failing_row_is_reported() -> None:
    seen: List[Any] = []

    @for_each("number, word", [(1, "one"), (2, "two"), (3, "three"), (4, "four"), (5, Odd())])
    def table(number: int, word: str) -> None:
        seen.append(number)
        if number == 2:
            raise KeyError("odd")
        if number == 3:
            with pytest.raises(ValueError):
                pass
        assert number < 4, "not four"

    with pytest.raises(pytest.fail.Exception) as caught:
        table()
    told = str(caught.value)
    assert seen == [1, 2, 3, 4, 5] and told.startswith("4 of 5 rows failed\n")
    for words in ("number=2, word='two'\n", "KeyError: 'odd'", "number=3, word='three'\n", "DID NOT RAISE", "not four",
                  "cannot be shown: ZeroDivisionError"):  # fmt: skip
        assert words in told
    assert "word='one'" not in told and "in all_rows" not in told


@pytest.mark.parametrize(
    ("names", "rows", "error"),
    [
        ("a", [], ValueError),
        ("a, b", [(1, 2), (1,)], ValueError),
        ("a, b", [(1, 2, 3)], ValueError),
        ("a", [KeyboardInterrupt()], KeyboardInterrupt),
    ],
)
def test_invalid_tables_and_rows(names: str, rows: List[Any], error: Type[BaseException]) -> None:
    def table(a: BaseException) -> None:
        raise a

    with pytest.raises(error):
        for_each(names, rows)(table)()
