"""Arguments that are mirrored in headers: which, and how their values are written."""

from __future__ import annotations

from typing import Any, Optional

import pytest

from minimcp.schema.header_params import LARGEST, Mirrored, from_header, header_value, in_headers, mirrored


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def marked(name: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


def test_annotated_properties_are_found_however_deep() -> None:
    deep = schema(
        region=marked("Region"), plain={"type": "string"}, a=schema(b=schema(c=marked("Deep", "integer"))),
        flag=marked("Flag", "boolean"),
    )
    deep["required"] = ["region"]
    assert mirrored(deep) == [
        Mirrored("Region", ("region",), "string"), Mirrored("Deep", ("a", "b", "c"), "integer"),
        Mirrored("Flag", ("flag",), "boolean"),
    ]


def test_what_only_looks_like_an_annotation_is_none() -> None:
    harmless = schema(**{"x-mcp-header": {"type": "string"}, "a": {"default": marked("A"), "enum": [marked("B")]}})
    assert mirrored(harmless) == []


@pytest.mark.parametrize("name", ["", "two words", "a:b", "Ä", "a\tb", "a\n", 5, None])
def test_the_name_is_a_header_s(name: Any) -> None:
    with pytest.raises(ValueError, match="the name of a header"):
        mirrored(schema(a=marked(name)))


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"], None])
def test_only_simple_types_are_mirrored(kind: Any) -> None:
    with pytest.raises(ValueError, match="string, an integer or a boolean"):
        mirrored(schema(a=marked("A", kind)))


@pytest.mark.parametrize(
    "where",
    [
        {"items": marked("A")}, {"anyOf": [schema(a=marked("A"))]}, {"if": schema(a=marked("A"))},
        {"$defs": {"x": schema(a=marked("A"))}}, {"patternProperties": {"x": marked("A")}}, marked("A"),
        schema(a={"type": "array", "items": schema(b=marked("A"))}), {"additionalProperties": marked("A")},
    ],
)
def test_annotations_elsewhere_are_wrong(where: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="where no argument does"):
        mirrored({"type": "object", **where})


def test_no_header_is_there_twice() -> None:
    with pytest.raises(ValueError, match="twice"):
        mirrored(schema(a=marked("Region"), b=schema(c=marked("REGION"))))


def test_the_value_of_a_call_is_found_by_its_path() -> None:
    there = Mirrored("A", ("a", "b"), "string")
    assert there.value({"a": {"b": "x"}}) == "x"
    assert there.value({"a": {}}) is None and there.value({"a": 5}) is None and there.value(None) is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("us-west1", "us-west1"), ("us west 1", "us west 1"), ("file:///a%20b", "file:///a%20b"), (42, "42"),
        (-7, "-7"),
        (True, "true"), (False, "false"), ("", ""), ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="), (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="), ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="), ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="), ("=?base64?", "=?base64?"),
        ("=?BASE64?a?=", "=?BASE64?a?="),
    ],
)
def test_values_are_written_and_read(value: Any, written: str) -> None:
    assert header_value(value) == written
    text = from_header(written)
    assert text == value or text == written and not isinstance(value, str)


@pytest.mark.parametrize("value", [None, 1.5, [], {}])
def test_other_values_get_no_header(value: Any) -> None:
    assert header_value(value) is None


def test_large_integers_and_half_characters_are_refused() -> None:
    assert header_value(-LARGEST) == str(-LARGEST)
    with pytest.raises(ValueError, match="too large"):
        header_value(LARGEST + 1)
    with pytest.raises(ValueError):
        header_value("\ud800")


@pytest.mark.parametrize(
    "text",
    ["=?base64?SGVsbG8?=", "=?base64?SGVs!!!bG8=?=", "=?base64?/w==?=", "=?base64?QR==?=", "caf\xe9", "a\x01", "a\tb"],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        from_header(text)


@pytest.mark.parametrize(
    ("kind", "text", "value", "same"),
    [
        ("integer", "42.0", 42, True), ("integer", "42", 42, True), ("integer", "42.5", 42, False),
        ("integer", "42", 42.0, True), ("integer", "1", True, False), ("integer", "x", "x", True),
        ("string", "42.0", "42", False), ("boolean", "true", True, True), ("boolean", "True", True, False),
        ("string", "a", ["a"], False),
    ],
)
def test_a_header_agrees_with_a_value(kind: str, text: str, value: Any, same: Optional[bool]) -> None:
    assert Mirrored("A", ("a",), kind).agrees(text, value) is same


def test_parameters_are_annotated_by_name() -> None:
    plain = schema(a={"type": "string"}, b={"type": "integer"})
    assert in_headers(plain, {"a": "Region"}) == schema(a=marked("Region"), b={"type": "integer"})
    assert in_headers(plain, {}) == plain and in_headers({}, {}) == {"type": "object"}
    with pytest.raises(ValueError, match="no parameter"):
        in_headers(plain, {"c": "Region"})
