"""Resources where the interaction tests do not reach: what registration refuses, many of them, changes meanwhile."""

from __future__ import annotations

import logging
from typing import Any, List

import pytest

from minimcp import InvalidParams, ResourceAccessDenied, ResourceNotFound
from minimcp.errors import error_from_peer
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import BY_NAME
from minimcp.server.context import Context
from minimcp.server.resources import LONGEST_MATCHED, Resources
from minimcp.types import Icon

from ..answering import R1, R4, R5
from .support import exchange, facts, read


def text() -> str:
    """Some text."""
    return "text"


def of_city(city: str) -> str:
    """A city."""
    return city


def resources(*registered: Any, **options: Any) -> Resources:
    made = Resources(facts(**options))
    for function, uri in registered:
        made.add(function, uri)
    return made


def got(made: Resources, uri: Any, revision: str = R4) -> Any:
    asked = exchange("resources/read", {"uri": uri}, revision=revision)
    return read(made.route_of_read(asked.request).handle(asked))


def said(made: Resources, uri: str) -> Any:
    return got(made, uri)["contents"][0]["text"]


def uris(made: Resources, *, page: Any = None) -> List[str]:
    route: Any = made.routes()["resources/list"]
    params = {} if page is None else {"cursor": page}
    return [each["uri"] for each in read(route.handle(exchange("resources/list", params)))["resources"]]


@pytest.mark.requirement("RES-19", "RES-20", "M:RES-6", "M:RES-10")
def test_what_registration_refuses() -> None:
    def two(city: str, days: int) -> str:
        return ""

    async def waits() -> str:
        return ""

    for function, uri, options, kind, words in (
        (text, "no uri", {}, ValueError, "percent-encoded"),
        (text, "/path", {}, ValueError, "scheme"),
        (text, "a:b c", {}, ValueError, "percent-encoded"),
        (text, "a:é", {}, ValueError, "percent-encoded"),
        (text, "", {}, ValueError, "scheme"),
        (text, "a://b:port/", {}, ValueError, "host or port"),
        (text, "file:///a/../../etc", {}, ValueError, "segment"),
        (text, "file:///%2e%2E/etc", {}, ValueError, "segment"),
        (of_city, "file:///{city}/../x", {}, ValueError, "segment"),
        (of_city, "noscheme/{city}", {}, ValueError, "scheme"),
        (of_city, "a://{city", {}, ValueError, "city"),
        (of_city, "a://{city:0}", {}, ValueError, "city"),
        (text, 5, {}, TypeError, "is a str, not int"),
        (text, text, {}, TypeError, "is a str, not function"),
        (of_city, "a://all", {}, TypeError, "no variable for the parameter 'city': write {city} into it"),
        (two, "a://{city}", {}, TypeError, "no variable for the parameter 'days'"),
        (of_city, "a://{city}/{days}", {}, TypeError, "the variable 'days', and its function no parameter"),
        (text, "a://{city}", {}, TypeError, "the variable 'city'"),
        (waits, "a:b", {}, TypeError, "is async"),
        (of_city, "a://{city}", {"size": 5}, TypeError, "no size"),
        (text, "a:b", {"ttl": -1}, ValueError, "ttl"),
        (text, "a:b", {"ttl": float("inf")}, ValueError, "ttl"),
        (text, "a:b", {"ttl": float("nan")}, ValueError, "ttl"),
        (text, "a:b", {"cache_scope": "secret"}, ValueError, "cache_scope"),
        (text, "a:b", {"annotations": {"priority": 2}}, ValueError, "priority"),
        (text, "a:b", {"icons": ["x"]}, TypeError, "icons"),
        (text, "a:b", {"mime_type": 5}, TypeError, "mime"),
        (text, "a:b", {"complete": {"city": []}}, ValueError, "'city', which is no argument"),
        (of_city, "a://{city}", {"complete": {"city": "Oslo"}}, TypeError, "list of strings"),
    ):
        made = resources()
        with pytest.raises(kind, match=words):
            made.add(function, uri, **options)  # type: ignore[arg-type]
        assert len(made) == 0 and not made.offered


def test_a_uri_is_taken_once() -> None:
    made = resources((text, "a:b"), (of_city, "a:{city}"))
    for function, uri, words in (
        (text, "a:b", "the resource 'a:b' exists: text"),
        (of_city, "a:{city}", "the resource template 'a:{city}' exists"),
    ):
        with pytest.raises(ValueError, match=words):
            made.add(function, uri)
        made.add(function, uri, replace=True)
    made.add(text, "a:B")
    assert len(made) == 3 and uris(made) == ["a:b", "a:B"]
    assert repr(made._find("a:b")[0]).startswith("<Readable resource 'a:b' = text (")


def of_number(number: int) -> str:
    """Tell of a number."""
    return str(number)


def of_other(other: int) -> str:
    """Tell of another."""
    return str(other)


def of_place(place: str) -> str:
    """Tell of a place."""
    return place


@pytest.mark.parametrize(
    ("first", "second"),
    [((of_city, "a:{city}"), (of_place, "a:{place}")), ((of_city, "a:{city}"), (of_number, "a:{number}")),
     ((of_number, "a:{number}"), (of_other, "a:{other}")), ((of_city, "a:{+city}x"), (of_place, "a:{+place}x"))],
)
def test_a_template_that_would_never_be_read_is_refused_and_both_places_are_named(first: Any, second: Any) -> None:
    made = resources(first)
    places = [f"{function.__name__} .*{function.__code__.co_firstlineno}" for function, _ in (first, second)]
    with pytest.raises(ValueError, match=f"matches nothing that .* does not match before: {'.*; now '.join(places)}"):
        made.add(*second)
    assert len(made) == 1
    made.add(*second, replace=True)
    made.add(*first, replace=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [((of_number, "a:{number}"), (of_city, "a:{city}")), ((of_city, "a:{city}"), (of_place, "a:{+place}")),
     ((of_city, "a:{?city}"), (of_place, "a:{?place}")), ((of_city, "a:{city}"), (of_place, "a:{place}/x"))],
)
def test_a_template_that_takes_what_the_first_leaves_is_taken(first: Any, second: Any) -> None:
    assert len(resources(first, second)) == 2


@pytest.mark.requirement("RES-12", "RES-02")
def test_changes_are_told_and_lists_made_anew() -> None:
    told: List[str] = []
    made = resources()
    made._facts.changed = told.append
    assert not made.offered
    made.add(text, "a:b")
    made.add(of_city, "a:{city}")
    assert told == ["resources"] * 2 and uris(made) == ["a:b"] and made.offered
    made.remove("a:b")
    made.remove("a:{city}")
    assert told == ["resources"] * 4 and uris(made) == [] and made.offered
    for gone in ("a:b", "a:{city}", "a:Oslo"):
        with pytest.raises(KeyError):
            made.remove(gone)
    assert made.declared(BY_NAME[R4]) == {"subscribe": True, "listChanged": True} == made.declared(BY_NAME[R5])


def test_what_is_said_about_one_without_a_description(caplog: pytest.LogCaptureFixture) -> None:
    def silent() -> str:
        return ""

    caplog.set_level(logging.WARNING, "minimcp")
    made = resources((silent, "a:b"))
    assert "resource a:b has no description" in caplog.text and uris(made) == ["a:b"]
    made.add(silent, "a:c", description="Said.")
    assert len(caplog.records) == 1


@pytest.mark.requirement("RES-22", "M:RES-3")
def test_errors_of_the_author() -> None:
    def fails() -> str:
        """Fail."""
        raise failures[0]

    made = resources((fails, "a:b"))
    for error, message, data in (
        (ResourceNotFound("gone"), "gone", {"uri": "a:b"}),
        (ResourceNotFound("gone", {"uri": "a:c"}), "gone", {"uri": "a:c"}),
        (ResourceNotFound("gone", [1]), "gone", [1]),
        (ResourceAccessDenied("not you", {"who": 1}), "Access denied: not you", {"uri": "a:b", "who": 1}),
        (ResourceAccessDenied("Forbidden to you"), "Forbidden to you", {"uri": "a:b"}),
    ):
        failures = [error]
        with pytest.raises(type(error)) as caught:
            got(made, "a:b")
        assert (caught.value.message, caught.value.data, caught.value.__cause__) == (message, data, error)
    failures = [error_from_peer(-32002, "another server's")]  # type: ignore[list-item]
    with pytest.raises(ResourceNotFound) as passed:
        got(made, "a:b")
    assert passed.value is failures[0], "no answer of ours"


def test_the_first_template_that_fits_answers() -> None:
    def number(x: int) -> str:
        """A number."""
        return f"number {x}"

    def word(x: str) -> str:
        """A word."""
        return f"word {x}"

    def path(x: str) -> str:
        """Anything."""
        return f"path {x}"

    made = resources((number, "a://{x}"), (word, "a://w{x}"), (path, "a://{+x}"), (text, "a://7"))
    for uri, answer in (
        ("a://5", "number 5"), ("a://w5", "word 5"), ("a://5/6", "path 5/6"), ("a://7", "text"), ("a://x", "path x"),
        ("a://07", "path 07"), ("a://%37", "number 7"),
    ):
        assert said(made, uri) == answer
    made.remove("a://7")
    assert said(made, "a://7") == "number 7"


def test_one_for_everything() -> None:
    def anything(uri: str) -> str:
        """Anything."""
        return uri

    made = resources((anything, "{+uri}"))
    assert said(made, "http://example.com/a/b") == "http://example.com/a/b"
    for odd in ("a:/../b", "a b", "\ud800", "a:%ff", "a:%00"):
        with pytest.raises(ResourceNotFound):
            got(made, odd)


def test_a_uri_without_end_is_matched_by_nothing() -> None:
    made = resources((of_city, "a:{city}"), (text, "b:" + "x" * LONGEST_MATCHED))
    longest = "x" * (LONGEST_MATCHED - 2)
    assert said(made, "a:" + longest) == longest and said(made, "b:" + "x" * LONGEST_MATCHED) == "text"
    with pytest.raises(ResourceNotFound) as caught:
        got(made, "a:x" + longest)
    assert len(str(caught.value)) < 300
    assert made.template("a:" + longest) and made.template("a:x" + longest) is None


def test_what_is_removed_while_it_is_read() -> None:
    def leaves(ctx: Context) -> str:
        """Takes itself away."""
        made.remove("a:b")
        return "left"

    made = resources((leaves, "a:b"))
    assert said(made, "a:b") == "left" and uris(made) == []
    with pytest.raises(ResourceNotFound):
        got(made, "a:b")
    made.add(leaves, "a:b")
    route = made.route_of_read(Request(1, "resources/read", {"uri": "a:b"}))
    made.remove("a:b")
    made.add(text, "a:b")
    made.remove("a:b")
    asked = exchange("resources/read", {"uri": "a:b"})
    with pytest.raises(KeyError):
        route.handle(asked)  # the read that had begun goes on with what it found


def test_ten_thousand_resources_in_pages() -> None:
    made = resources(page_size=100)
    for number in range(10_000):
        made.add(text, f"a:{number}")
    route: Any = made.routes()["resources/list"]
    seen, cursor = [], None
    while True:
        page = read(route.handle(exchange("resources/list", {} if cursor is None else {"cursor": cursor})))
        seen += [each["uri"] for each in page["resources"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert seen == [f"a:{number}" for number in range(10_000)]
    assert said(made, "a:9999") == "text"


def test_what_older_revisions_are_not_told() -> None:
    made = resources()
    made.add(of_city, "a:{city}", title="T", icons=[Icon("https://example.com")], annotations={"last_modified": "2026"})
    asked = exchange("resources/templates/list", revision=R1)
    route: Any = made.routes()["resources/templates/list"]
    wanted = {"uriTemplate": "a:{city}", "name": "of_city", "description": "A city.", "annotations": {}}
    assert read(route.handle(asked))["resourceTemplates"] == [wanted]


def test_what_names_no_uri() -> None:
    for params in ({}, {"uri": None}, {"uri": 5}, {"uri": ["a:b"]}):
        with pytest.raises(InvalidParams, match="uri is a string"):
            resources().route_of_read(Request(1, "resources/read", params))


def test_completers_by_template_and_by_uri() -> None:
    made = resources((text, "a:b"), (of_city, "a:{city}"))
    by_name = made.template("a:{city}")
    assert by_name is not None and by_name.completers == {"city": None} and made.template("a:Oslo") is by_name
    assert made.template("b:Oslo") is None and not made.completes
    made.add(of_city, "b:{city}", complete={"city": ["Oslo"]})
    assert made.completes
