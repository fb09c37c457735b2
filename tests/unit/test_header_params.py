"""Arguments that are mirrored in headers: which, and how their values are written."""

from __future__ import annotations

import enum
import time
from typing import Any

import pytest

from minimcp.schema.header_params import MAX_INTEGER, from_header, header_params, header_value

from ..rows import for_each


class Level(enum.IntEnum):
    HIGH = 3


class Place(str, enum.Enum):
    HERE = "us-west1"


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(name: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


@pytest.mark.requirement("M:XH-2", "M:XH-3", "M:XH-4", "M:XH-5")
@for_each(
    ("words", "wrong"),
    [
        *[
            ("the name of a header", schema(a=marked(name)))
            for name in ("", "two words", "a:b", "Ä", "a\n", 5, None)
        ],
        *[
            ("string, an integer or a boolean", schema(a=marked("A", kind)))
            for kind in ("number", "object", "array", "null", ["string", "null"], None)
        ],
        *[
            ("must be in a property of the arguments", {"type": "object", **where})
            for where in (
                {"items": marked("A")},
                {"anyOf": [schema(a=marked("A"))]},
                {"if": schema(a=marked("A"))},
                {"$defs": {"x": schema(a=marked("A"))}},
                {"patternProperties": {"x": marked("A")}},
                marked("A"),
                schema(a={"type": "array", "items": schema(b=marked("A"))}),
                {"additionalProperties": marked("A")},
            )
        ],
        ("repeated", schema(a=marked("Region"), b=schema(c=marked("REGION")))),
    ],
)
def test_annotations_that_are_wrong(words: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=words):
        header_params(wrong)


def test_a_schema_that_is_too_large_is_not_searched() -> None:
    with pytest.raises(ValueError, match="more than 100,000 parts"):
        header_params(schema(**{f"a{n}": {"type": "string"} for n in range(50_001)}))


@pytest.mark.figures
def test_32_000_properties_are_searched_quickly() -> None:
    wide = schema(**{f"a{n}": marked(f"H{n}") for n in range(32_000)})
    began = time.process_time()
    assert len(header_params(wide)) == 32_000
    assert time.process_time() - began < 1


@pytest.mark.requirement("M:HDR-19", "M:XH-12")
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("us-west1", "us-west1"),
        ("us west 1", "us west 1"),
        ("file:///a%20b", "file:///a%20b"),
        (42, "42"),
        (-7, "-7"),
        (42.0, "42"),
        (-0.0, "0"),
        (4.2e3, "4200"),
        (Level.HIGH, "3"),
        (Place.HERE, "us-west1"),
        (True, "true"),
        (False, "false"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("=?base64?", "=?base64?"),
        ("=?BASE64?a?=", "=?BASE64?a?="),
    ],
)
def test_values_are_written_and_read(value: Any, written: str) -> None:
    assert header_value(value) == written
    text = from_header(written)
    assert text == value or text == written and not isinstance(value, str)


def test_values_that_are_not_written_or_read() -> None:
    assert [header_value(value) for value in (None, 1.5, float("inf"), [], {})] == [None] * 5, (
        "these get no header"
    )
    assert header_value(-MAX_INTEGER) == str(-MAX_INTEGER) == header_value(float(-MAX_INTEGER))
    for large in (MAX_INTEGER + 1, float(MAX_INTEGER + 1), -1e300):
        with pytest.raises(ValueError, match="too large"):
            header_value(large)
    with pytest.raises(ValueError):
        header_value("\ud800")
    for text in (
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?/w==?=",
        "=?base64?QR==?=",
    ):
        with pytest.raises(ValueError, match="not Base64"):
            from_header(text)
    assert from_header("a\tb") == "a\tb" and header_value("a\tb") != "a\tb"
    for text in ("caf\xe9", "a\x01", "a\x7f", "a\x0b", "a\n"):
        with pytest.raises(ValueError, match="outside ASCII"):
            from_header(text)
