"""Resources as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import logging
from typing import Any, Dict

import pytest

import minimcp
from minimcp import (
    CapabilityNotSupported,
    InternalError,
    InvalidParams,
    ResourceAccessDenied,
    ResourceNotFound,
)

from ..answering import R3, R4
from .links import Link, Open, link_to
from .resources_server import ODD, PICTURE

link = link_to("resources_server")


def text(uri: str, said: str, mime_type: str = "text/plain") -> Dict[str, Any]:
    return {"uri": uri, "mimeType": mime_type, "text": said}


READ = [
    ("notes://all", "# notes", "text/markdown"),
    ("json://day", '{"name":"Monday","degrees":1.5}', "application/json"),
    (ODD, ODD, "text/plain"),
    ("weather://oslo/1", "exactly", "text/plain"),
    ("weather://oslo/2", '{"city":"oslo","days":2,"method":"resources/read"}', "application/json"),
    (
        "weather://S%C3%A3o/3",
        '{"city":"S\u00e3o","days":3,"method":"resources/read"}',
        "application/json",
    ),
    ("weather://oslo/soon", "oslo: soon", "text/plain"),
    ("file:///a/b%20c//d", "a/b c//d", "text/plain"),
    ("db://rows", "10 None False", "text/plain"),
    ("db://rows?deep=true&limit=-5&colour=green", "-5 Colour.GREEN True", "text/plain"),
    ("item://5", "item 5", "text/plain"),
]


@pytest.mark.requirement(
    "RES-05", "RES-06", "RES-18", "RES-23", "SEED-23", "SEED-25", "M:RES-9", "M:RES-15", "RES-11"
)
def test_reading(link: Link) -> None:
    for uri, said, mime_type in READ:
        assert link.result("resources/read", uri=uri)["contents"] == [text(uri, said, mime_type)], (
            uri
        )
        result = link.client.read_resource(uri)
        assert (result.text, result.data, result.contents[0].uri) == (said, None, uri)


@pytest.mark.requirement("RES-06", "RES-07", "RES-21", "M:RES-5", "SEED-23")
def test_reading_bytes_and_several_things(link: Link) -> None:
    data = {"uri": "bin://data", "mimeType": "application/octet-stream", "blob": "iVBORwD/"}
    assert link.result("resources/read", uri="bin://data")["contents"] == [data]
    assert link.client.read_resource("bin://data").data == PICTURE
    meta = {"_meta": {"example.com/c": 1}} if link.since(R3) else {}
    assert link.result("resources/read", uri="dir://both")["contents"] == [
        {**text("dir://both/a", "a"), **meta},
        {"uri": "dir://both/b", "mimeType": "image/png", "blob": "Yg=="},
    ]
    both = link.client.read_resource("dir://both")
    assert [item.data or item.text for item in both.contents] == ["a", b"b"]
    assert link.client.read_resource("dir://empty").contents == []


@pytest.mark.requirement("M:RES-8", "M:CACHE-1", "M:CACHE-3", "M:CACHE-15")
def test_cache_lifetime(link: Link) -> None:
    for uri, ttl, scope in (
        ("notes://all", 1500, "public"),
        ("bin://data", 0, "private"),
        ("own://hints", 7, "public"),
        ("weather://a/1", 2000, "private"),
    ):
        result = link.result("resources/read", uri=uri)
        hints = (result.get("ttlMs"), result.get("cacheScope"))
        assert hints == ((None, None) if link.handshake else (ttl, scope)), uri
        typed = link.client.read_resource(uri)
        assert (typed.ttl_ms, typed.cache_scope) == hints and typed.extra == {}
    assert link.result("resources/read", uri="own://hints")["_meta"] == {"example.com/r": 2}
    for method in ("resources/list", "resources/templates/list"):
        assert ("ttlMs" in link.result(method)) is not link.handshake


ERRORS = [
    ("none://here", ResourceNotFound, "Resource not found: none://here", {"uri": "none://here"}),
    ("", ResourceNotFound, "", {"uri": ""}),
    ("notes://all/ALL", ResourceNotFound, "", {"uri": "notes://all/ALL"}),
    ("file:///a/../../etc/passwd", ResourceNotFound, "", {"uri": "file:///a/../../etc/passwd"}),
    ("file:///%2e%2e/etc/passwd", ResourceNotFound, "", {"uri": "file:///%2e%2e/etc/passwd"}),
    ("file:///a%00b", ResourceNotFound, "", {"uri": "file:///a%00b"}),
    ("weather://a%2Fb/1", ResourceNotFound, "", {"uri": "weather://a%2Fb/1"}),
    ("item://five", ResourceNotFound, "", {"uri": "item://five"}),
    ("item://" + "9" * 5000, ResourceNotFound, "", None),
    ("db://rows?other=1", ResourceNotFound, "", {"uri": "db://rows?other=1"}),
    ("db://rows?deep=maybe", ResourceNotFound, "", {"uri": "db://rows?deep=maybe"}),
    ("fail://gone", ResourceNotFound, "no such day", {"uri": "fail://gone"}),
    (
        "fail://secret",
        ResourceAccessDenied,
        "Access denied: only for Ada",
        {"uri": "fail://secret", "who": "Ada"},
    ),
]


@pytest.mark.requirement(
    "RES-08", "RES-20", "RES-22", "M:RES-3", "M:RES-4", "M:RES-6", "M:RES-14", "SEED-02"
)
def test_missing_resources(link: Link) -> None:
    for uri, kind, said, data in ERRORS:
        with pytest.raises(kind) as caught:
            link.client.read_resource(uri)
        error = caught.value
        assert type(error) is kind and error.code == (-32002 if link.handshake else -32602), uri
        assert error.message.startswith(said or "Resource not found: ") and (
            data is None or error.data == data
        ), uri


@pytest.mark.requirement("RES-09", "M:RES-7")
def test_errors(link: Link, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minimcp")
    for uri in ("fail://broken", "fail://value"):
        with pytest.raises(
            InternalError, match=r"^Internal error \(reference [0-9a-f]{8}\)"
        ) as caught:
            link.client.read_resource(uri)
        assert "secret" not in str(caught.value) and caught.value.data is None
    with pytest.raises(minimcp.RpcError) as own:
        link.client.read_resource("fail://own")
    assert (own.value.code, own.value.message, own.value.data) == (7, "seven", [1])
    with pytest.raises(CapabilityNotSupported) as needed:
        link.client.read_resource("needs://sampling")
    assert needed.value.code == (-32601 if link.handshake else -32021)
    assert needed.value.data == {"requiredCapabilities": {"sampling": {}}}
    for params in ({}, {"uri": 5}, {"uri": None}, {"uri": ["notes://all"]}):
        with pytest.raises(InvalidParams, match="uri must be a string"):
            link.client.request("resources/read", params)


@pytest.mark.requirement(
    "RES-01", "RES-02", "M:RES-1", "SEED-06", "RES-03", "RES-04", "RES-16", "M:RES-13"
)
def test_the_listed_resources(link: Link) -> None:
    declared = link.client.capabilities["resources"]
    assert declared == {"subscribe": True, "listChanged": True}
    listed = link.result("resources/list")["resources"]
    annotations = {"audience": ["user"], "priority": 0.5}
    wanted: Dict[str, Any] = {
        "uri": "notes://all",
        "name": "notes",
        "description": "All notes.",
        "mimeType": "text/markdown",
        "size": 7,
        "annotations": annotations,
    }
    if link.since(R3):
        annotations["lastModified"] = "2026-01-02T03:04:05Z"
        wanted.update({"title": "All notes", "_meta": {"example.com/m": 1}})
    if link.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert listed[0] == wanted
    assert listed[1] == {"uri": "bin://data", "name": "data", "description": "Bytes."}
    typed = link.client.list_resources()
    assert [each.uri for each in typed] == [each["uri"] for each in listed] and typed[0].size == 7
    assert ODD in [each.uri for each in typed] and not any("{" in each.uri for each in typed)


@pytest.mark.requirement("RES-10", "RES-04", "M:RES-9", "SEED-06", "SEED-12", "SEED-28", "X-25")
def test_the_listed_templates(link: Link) -> None:
    first, *others = link.result("resources/templates/list")["resourceTemplates"]
    wanted: Dict[str, Any] = {
        "uriTemplate": "weather://{city}/{days}",
        "name": "weather",
        "description": "The weather of some days.",
        "mimeType": "application/json",
        "annotations": {"priority": 1},
    }
    if link.since(R3):
        wanted.update({"title": "Weather", "_meta": {"a.example/t": 1}})
    if link.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert first == wanted and "mimeType" not in others[0]
    assert [each.uri_template for each in link.client.list_resource_templates()] == [
        "weather://{city}/{days}",
        "weather://{place}/{word}",
        "file:///{+path}",
        "db://rows{?limit,colour,deep}",
        "item://{id}",
    ]


@pytest.mark.requirement("M:RES-2", "M:RES-12")
def test_actions_that_do_not_change_a_list(link: Link, opened: Open) -> None:
    before = link.result("resources/list"), link.result("resources/templates/list")
    link.client.read_resource("notes://all")
    other = opened()
    assert other.list_resources() == link.client.list_resources()
    assert (link.result("resources/list"), link.result("resources/templates/list")) == before
    if not link.handshake:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            with pytest.raises(minimcp.MethodNotFound):
                link.client.request(method, {"uri": "notes://all"})


@pytest.mark.requirement("M:PAG-1", "X-19")
def test_pages(link: Link, opened: Open) -> None:
    client = opened({"page_size": 2})
    assert client.list_resources() == link.client.list_resources()
    assert client.list_resource_templates() == link.client.list_resource_templates()
    first = client.request("resources/list")
    assert len(first["resources"]) == 2
    with pytest.raises(InvalidParams, match="cursor"):  # a cursor is of its own list
        client.request("resources/templates/list", {"cursor": first["nextCursor"]})
