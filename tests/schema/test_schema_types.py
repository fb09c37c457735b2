# ruff: noqa: E501
"""Every type of the table, read and written, on this Python, annotations as values and as strings."""

from __future__ import annotations

import json
from typing import Any, Dict

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from minimcp.schema import Kind, Mismatch, compile_check, kind_of
from minimcp.schema.annotations import Scope

from .table import ROWS, Row, load

SPACES = {"values": load(as_strings=False), "strings": load(as_strings=True)}

each_row = pytest.mark.parametrize("row", ROWS, ids=[row.text for row in ROWS])
each_space = pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))


def made(row: Row, space: Dict[str, Any], *, writing: bool = False) -> Kind:
    return kind_of(row.text, scope=Scope(space), writing=writing)


def fits(schema: Dict[str, Any], value: Any) -> bool:
    validator = jsonschema.Draft202012Validator(schema)
    return bool(validator.is_valid(value))


@each_space
@each_row
def test_what_fits_is_converted(row: Row, space: Dict[str, Any]) -> None:
    kind = made(row, space)
    jsonschema.Draft202012Validator.check_schema(kind.schema)
    for value, source in row.fits:
        expected = eval(source, space)
        got = kind.read(json.loads(json.dumps(value)))
        assert (got, type(got)) == (expected, type(expected))
        assert fits(kind.schema, value)
        assert compile_check(kind.schema, where="test")(value) is None


@each_space
@each_row
def test_what_does_not_fit_is_refused_in_one_line(row: Row, space: Dict[str, Any]) -> None:
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
def test_a_result_leaves_as_its_schema_says_and_comes_back_the_same(row: Row, space: Dict[str, Any]) -> None:
    inward, outward = made(row, space), made(row, space, writing=True)
    for _, source in row.fits:
        value = eval(source, space)
        written = json.loads(json.dumps(outward.write(value), allow_nan=False))
        assert fits(outward.schema, written)
        if row.text != "Attrs":  # it writes a field that it does not take
            assert inward.read(written) == value


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "x", "y", "content", "child", "must", "value", "start", "name", "7"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@st.composite
def near_misses(draw: Any, row: Row) -> Any:
    """A value of the row in which one part is replaced, taken away or added."""
    samples = [value for value, _ in row.fits] + row.refused
    value = json.loads(json.dumps(draw(st.sampled_from(samples))))
    holder = [value]
    part: Any = holder
    key: Any = 0
    while isinstance(part[key], (list, dict)) and part[key] and draw(st.booleans()):
        part = part[key]
        key = draw(st.sampled_from(list(part) if isinstance(part, dict) else range(len(part))))
    if draw(st.booleans()):
        part[key] = draw(JSON)
    elif part is not holder:
        del part[key]
    return holder[0]


@each_row
@settings(max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_schema_and_the_reader_agree(row: Row, data: st.DataObject) -> None:
    kind = made(row, SPACES["values"])
    value = data.draw(st.one_of(JSON, near_misses(row)))
    agreed = fits(kind.schema, value)
    assert (compile_check(kind.schema, where="test")(value) is None) == agreed
    try:
        kind.read(value)
    except Mismatch:
        assert not agreed or "format" in json.dumps(kind.schema)
    else:
        assert agreed
