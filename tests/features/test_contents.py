"""From what a function returned to contents."""

from __future__ import annotations

import datetime
import enum
from pathlib import PurePosixPath
from typing import Any, Optional

import pytest
from minimcp.server.contents import ContentsMaker, with_type

from minimcp.schema.annotations import kind_of
from minimcp.types import BlobResourceContents, ReadResourceResult, Text, TextResourceContents


class Colour(str, enum.Enum):
    RED = "red"


def made(value: Any, mime_type: Optional[str] = None, annotation: Any = None, *, promised: bool = False) -> Any:
    kind = None if annotation is None else kind_of(annotation, writing=True)
    result = ContentsMaker(mime_type, kind, promised=promised).make(value, "a:b")
    return [(item.uri, item.mime_type, item.text if item.data is None else item.data) for item in result.contents]


def test_values() -> None:
    for value, annotation, said, mime_type in (
        ("text", None, "text", "text/plain"),
        ("", None, "", "text/plain"),
        ("é\U0001f600", str, "é\U0001f600", "text/plain"),
        ("text", dict, "text", "text/plain"),
        (b"\xff", None, b"\xff", "application/octet-stream"),
        (bytearray(b"a"), None, b"a", "application/octet-stream"),
        (memoryview(b"b"), None, b"b", "application/octet-stream"),
        ({"a": 1}, None, '{"a":1}', "application/json"),
        ([1, "x"], None, '[1,"x"]', "application/json"),
        ([], None, "[]", "application/json"),
        (("a", "b"), None, '["a","b"]', "application/json"),
        (None, None, "null", "application/json"),
        (2.5, float, "2.5", "application/json"),
        (True, bool, "true", "application/json"),
        (datetime.date(2026, 7, 28), datetime.date, "2026-07-28", "text/plain"),
        (PurePosixPath("/a"), None, "/a", "text/plain"),
        (Colour.RED, None, "red", "text/plain"),
        (Colour.RED, Colour, "red", "text/plain"),
    ):
        assert made(value, None, annotation) == [("a:b", mime_type, said)], value
        assert made(value, "x/y", annotation) == [("a:b", "x/y", said)], value


def test_contents_stay_as_they_are() -> None:
    text, blob = TextResourceContents("a:t", "t"), BlobResourceContents("a:x", b"x", "image/png")
    assert made(text) == [("a:t", "text/plain", "t")] and text.mime_type is None, "the author's own stays as it is"
    assert made([text, blob]) == [("a:t", "text/plain", "t"), ("a:x", "image/png", b"x")]
    assert made((blob,), "x/y") == [("a:x", "image/png", b"x")] and made(text, "x/y") == [("a:t", "x/y", "t")]
    assert made([], promised=True) == []
    result = ReadResourceResult([text], ttl_ms=5, cache_scope="public", meta={"m": 1})
    result.extra = {"other": 1}
    sent = ContentsMaker(None, None, promised=True).make(result, "a:b")
    assert sent.to_wire() == {
        "contents": [{"uri": "a:t", "mimeType": "text/plain", "text": "t"}], "ttlMs": 5, "cacheScope": "public",
        "_meta": {"m": 1}, "other": 1,
    }


def test_a_type_for_what_has_none() -> None:
    text = TextResourceContents("a:t", "t", meta={"m": 1})
    text.extra = {"other": 1}
    assert with_type(text).to_wire() == {
        "uri": "a:t", "mimeType": "text/plain", "text": "t", "_meta": {"m": 1}, "other": 1,
    }
    assert with_type(BlobResourceContents("a:b", b"")).mime_type == "application/octet-stream"


def test_what_cannot_be_sent() -> None:
    text = TextResourceContents("a:t", "t")
    for value, annotation in (
        ([text, "t"], None), ({text.uri: text}, None), (object(), None), ({"a"}, int), (float("nan"), None),
        ([Text("x")], None), ({"x": b"bytes"}, None),
    ):
        with pytest.raises((TypeError, ValueError)):
            made(value, None, annotation)
