# ruff: noqa: E501
"""Every type of the table, read and written, on this Python, annotations as values and as strings."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List

import jsonschema
import pytest

from minimcp.schema import Kind, Mismatch, compile_check, kind_of
from minimcp.schema.annotations import Scope

from ..rows import for_each
from .table import ROWS, Row, load

SPACES = {"values": load(as_strings=False), "strings": load(as_strings=True)}

each_row = for_each("row", ROWS)
each_space = for_each("space", SPACES)


def made(row: Row, space: str, *, writing: bool = False) -> Kind:
    return kind_of(row.text, scope=Scope(SPACES[space]), writing=writing)


def fits(schema: Dict[str, Any], value: Any) -> bool:
    validator = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(value))


@each_space
@each_row
def test_what_fits_is_converted(row: Row, space: str) -> None:
    kind = made(row, space)
    assert kind.schema == made(row, "values").schema
    for value, source in row.fits:
        expected = eval(source, SPACES[space])
        got = kind.read(json.loads(json.dumps(value)))
        assert (got, type(got)) == (expected, type(expected))
        assert fits(kind.schema, value)
        assert compile_check(kind.schema, where="test")(value) is None


@each_space
@each_row
def test_what_does_not_fit_is_refused_in_one_line(row: Row, space: str) -> None:
    kind = made(row, space)
    check = compile_check(kind.schema, where="test")
    for value in row.refused:
        with pytest.raises(Mismatch) as caught:
            kind.read(value)
        assert str(caught.value)
        assert "\n" not in str(caught.value)
        if not (row.words_only and isinstance(value, str)):
            assert not fits(kind.schema, value), value
            assert check(value)


@each_space
@each_row
def test_a_result_leaves_as_its_schema_says_and_comes_back_the_same(row: Row, space: str) -> None:
    inward, outward = made(row, space), made(row, space, writing=True)
    for _, source in row.fits:
        value = eval(source, SPACES[space])
        written = json.loads(json.dumps(outward.write(value), allow_nan=False))
        assert fits(outward.schema, written)
        if row.text != "Attrs":  # it writes a field that it does not take
            assert inward.read(written) == value


ODD: List[Any] = [None, True, 1, -2, 0.5, 1e15, "", "x", "7", [], [1, 1.0], {}, {"a": 1}, {"x": {"y": None}}]


def near_misses(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced by each odd one, taken away, or followed by one more."""
    yield from ODD
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {other: value[other] for other in value if other != key}
            yield from ({**value, key: odd} for odd in near_misses(inner))
        yield {**value, "extra": 1}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield value[:place] + value[place + 1 :]
            yield from ([*value[:place], odd, *value[place + 1 :]] for odd in near_misses(inner))
        yield [*value, *value[:1]]


@each_row
def test_the_schema_and_the_reader_agree(row: Row) -> None:
    kind = made(row, "values")
    jsonschema.Draft202012Validator.check_schema(kind.schema)
    valid = jsonschema.Draft202012Validator(kind.schema).is_valid
    check = compile_check(kind.schema, where="test")
    described = "format" in json.dumps(kind.schema)  # a word that only the reader judges by
    samples = [value for value, _ in row.fits] + row.refused
    for text in {json.dumps(odd): None for value in samples for odd in (value, *near_misses(value))}:
        value = json.loads(text)
        agreed = valid(value)
        assert (check(value) is None) == agreed, text
        try:
            kind.read(value)
        except Mismatch:
            assert not agreed or described, text
        else:
            assert agreed, text
