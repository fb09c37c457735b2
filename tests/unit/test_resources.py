"""Resources beyond the interaction tests: rejections at registration, large numbers, changes during
a request."""

from __future__ import annotations

import datetime
import enum
from pathlib import PurePosixPath
from typing import Any, Optional

import pytest

from minimcp import ResourceAccessDenied, ResourceNotFound
from minimcp.errors import error_from_peer
from minimcp.features.resources import MAX_MATCHED_CHARACTERS
from minimcp.server.context import Context
from minimcp.server.registry import Registry
from minimcp.types import BlobResourceContents, Text, TextResourceContents

from ..answering import R4
from .requests import answered, exchange, registry


def text() -> str:
    """A short text."""
    return "text"


def of_city(city: str) -> str:
    """A city."""
    return city


def resources(*registered: Any) -> Registry:
    made = registry()
    for function, uri in registered:
        made.add("resource", function, {}, uri)
    return made


def got(made: Registry, uri: Any, revision: str = R4) -> Any:
    return answered(made, "resources/read", {"uri": uri}, revision=revision)


def said(made: Registry, uri: str) -> Any:
    return got(made, uri)["contents"][0]["text"]


def count(made: Registry) -> int:
    resources = made.feature("resources")
    return len(resources.table.items) + len(resources.templates.items)


@pytest.mark.requirement("RES-19", "RES-20", "M:RES-6", "M:RES-10")
def test_registrations_that_are_rejected() -> None:
    for function, uri, options, kind, words in (
        (text, "no uri", {}, ValueError, "percent-encoded"),
        (text, "file:///a/../../etc", {}, ValueError, "segment"),
        (text, "file:///%2e%2E/etc", {}, ValueError, "segment"),
        (of_city, "file:///{city}/../x", {}, ValueError, "segment"),
        (of_city, "noscheme/{city}", {}, ValueError, "scheme"),
        (of_city, "a://{city:0}", {}, ValueError, "city"),
        (text, 5, {}, TypeError, "must be a str, not int"),
        (
            of_city,
            "a://all",
            {},
            TypeError,
            "no variable for the parameter 'city': add {city} to it",
        ),
        (
            of_city,
            "a://{city}/{days}",
            {},
            TypeError,
            "the variable 'days', but its function has no parameter",
        ),
        (text, "a://{city}", {}, TypeError, "the variable 'city'"),
        (of_city, "a://{city}", {"size": 5}, TypeError, "cannot have a size"),
        (text, "a:b", {"ttl": float("nan")}, ValueError, "ttl"),
        (text, "a:b", {"cache_scope": "secret"}, ValueError, "cache_scope"),
        (text, "a:b", {"annotations": {"priority": 2}}, ValueError, "priority"),
        (text, "a:b", {"icons": ["x"]}, TypeError, "icons"),
        (text, "a:b", {"mime_type": 5}, TypeError, "mime"),
        (text, "a:b", {"complete": {"city": []}}, ValueError, "is called 'city': there are none"),
        (of_city, "a://{city}", {"complete": {"city": "Oslo"}}, TypeError, "list of strings"),
    ):
        made = resources()
        with pytest.raises(kind, match=words):
            made.add("resource", function, options, uri)
        assert count(made) == 0


@pytest.mark.requirement("RES-22", "M:RES-3")
def test_errors_of_the_author() -> None:
    def fails() -> str:
        raise failures[0]

    made = resources((fails, "a:b"))
    for error, message, data in (
        (ResourceNotFound("gone", {"uri": "a:c"}), "gone", {"uri": "a:c"}),
        (ResourceNotFound("gone", [1]), "gone", [1]),
        (ResourceAccessDenied("Forbidden to you"), "Forbidden to you", {"uri": "a:b"}),
    ):
        failures = [error]
        with pytest.raises(type(error)) as caught:
            got(made, "a:b")
        assert (caught.value.message, caught.value.data, caught.value.__cause__) == (
            message,
            data,
            error,
        )
    failures = [error_from_peer(-32002, "another server's")]  # type: ignore[list-item]
    with pytest.raises(ResourceNotFound) as passed:
        got(made, "a:b")
    assert passed.value is failures[0], "no answer of ours"


def test_a_uri_without_end_is_matched_by_nothing() -> None:
    made = resources((of_city, "a:{city}"), (text, "b:" + "x" * MAX_MATCHED_CHARACTERS))
    longest = "x" * (MAX_MATCHED_CHARACTERS - 2)
    assert (
        said(made, "a:" + longest) == longest
        and said(made, "b:" + "x" * MAX_MATCHED_CHARACTERS) == "text"
    )
    with pytest.raises(ResourceNotFound) as caught:
        got(made, "a:x" + longest)
    assert len(str(caught.value)) < 300
    assert (
        made.feature("resources").template("a:" + longest)
        and made.feature("resources").template("a:x" + longest) is None
    )


# ------------------------------------------------------------ contents


class Colour(str, enum.Enum):
    RED = "red"


def contents(value: Any, mime_type: Optional[str] = None, annotation: Any = None) -> Any:
    """Return the contents of a resource whose function returns this value, with this annotation."""

    def function() -> Any:
        return value

    function.__annotations__ = {} if annotation is None else {"return": annotation}
    made = resources()
    made.add("resource", function, {"mime_type": mime_type}, "a:b")
    asked = exchange("resources/read", {"uri": "a:b"})
    result = made.feature("resources").read(asked, "a:b", Context(asked))
    return [
        (item.uri, item.mime_type, item.text if item.data is None else item.data)
        for item in result.contents
    ]


def test_contents_of_values() -> None:
    for value, annotation, said, mime_type in (
        ("text", None, "text", "text/plain"),
        ("", None, "", "text/plain"),
        ("é\U0001f600", str, "é\U0001f600", "text/plain"),
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
        assert contents(value, None, annotation) == [("a:b", mime_type, said)], value
        assert contents(value, "x/y", annotation) == [("a:b", "x/y", said)], value


def test_contents_stay_as_they_are() -> None:
    text, blob = TextResourceContents("a:t", "t"), BlobResourceContents("a:x", b"x", "image/png")
    assert contents(text) == [("a:t", "text/plain", "t")] and text.mime_type is None, (
        "the author's own stays as it is"
    )
    assert contents([text, blob]) == [("a:t", "text/plain", "t"), ("a:x", "image/png", b"x")]
    assert contents((blob,), "x/y") == [("a:x", "image/png", b"x")] and contents(text, "x/y") == [
        ("a:t", "x/y", "t")
    ]


def test_values_that_cannot_be_sent() -> None:
    text = TextResourceContents("a:t", "t")
    for value, annotation in (
        ([text, "t"], None),
        ({text.uri: text}, None),
        (object(), None),
        ({"a"}, int),
        (float("nan"), None),
        ([Text("x")], None),
        ({"x": b"bytes"}, None),
    ):
        with pytest.raises((TypeError, ValueError)):
            contents(value, None, annotation)
