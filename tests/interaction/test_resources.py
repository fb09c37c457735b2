"""Resources as their users see them, the same over memory and stdio and in all five revisions."""

from __future__ import annotations

import json
import logging
from queue import SimpleQueue
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import (
    CapabilityNotSupported,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ResourceAccessDenied,
    ResourceNotFound,
    RpcError,
    Server,
)

from ..answering import R3, R4, R5
from ..support import WAIT
from .resources_server import ODD, PICTURE
from .shelf import Link, Open


def text(uri: str, said: str, mime_type: str = "text/plain") -> Dict[str, Any]:
    return {"uri": uri, "mimeType": mime_type, "text": said}


READ = [
    ("notes://all", "# notes", "text/markdown"),
    ("json://day", '{"name":"Monday","degrees":1.5}', "application/json"),
    ("json://loose", '{"a":[1,null]}', "application/json"),
    (ODD, ODD, "text/plain"),
    ("slow://progress", "slow", "text/plain"),
    ("weather://oslo/1", "exactly", "text/plain"),
    ("weather://oslo/2", '{"city":"oslo","days":2,"method":"resources/read"}', "application/json"),
    ("weather://S%C3%A3o/3", '{"city":"S\u00e3o","days":3,"method":"resources/read"}', "application/json"),
    ("weather://oslo/soon", "oslo: soon", "text/plain"),
    ("weather://oslo/02", "oslo: 02", "text/plain"),
    ("file:///a/b%20c//d", "a/b c//d", "text/plain"),
    ("file:////etc/passwd", "/etc/passwd", "text/plain"),
    ("db://rows", "10 None False", "text/plain"),
    ("db://rows?deep=true&limit=-5&colour=green", "-5 Colour.GREEN True", "text/plain"),
    ("item://5", "item 5", "text/plain"),
]


@pytest.mark.requirement(
    "RES-05", "RES-06", "RES-18", "RES-23", "SEED-23", "SEED-25", "M:RES-9", "M:RES-15", "RES-11"
)
def test_reading(shelf: Link) -> None:
    for uri, said, mime_type in READ:
        assert shelf.result("resources/read", uri=uri)["contents"] == [text(uri, said, mime_type)], uri
        result = shelf.client.read_resource(uri)
        assert (result.text, result.data, result.contents[0].uri) == (said, None, uri)


@pytest.mark.requirement("RES-06", "RES-07", "RES-21", "M:RES-5", "SEED-23")
def test_reading_bytes_and_several_things(shelf: Link) -> None:
    data = {"uri": "bin://data", "mimeType": "application/octet-stream", "blob": "iVBORwD/"}
    assert shelf.result("resources/read", uri="bin://data")["contents"] == [data]
    assert shelf.client.read_resource("bin://data").data == PICTURE
    meta = {"_meta": {"example.com/c": 1}} if shelf.since(R3) else {}
    assert shelf.result("resources/read", uri="dir://both")["contents"] == [
        {**text("dir://both/a", "a"), **meta}, {"uri": "dir://both/b", "mimeType": "image/png", "blob": "Yg=="},
    ]
    both = shelf.client.read_resource("dir://both")
    assert [item.data or item.text for item in both.contents] == ["a", b"b"]
    assert shelf.client.read_resource("dir://empty").contents == []


@pytest.mark.requirement("M:RES-8", "M:CACHE-1", "M:CACHE-3", "M:CACHE-15")
def test_how_long_it_stays_true(shelf: Link) -> None:
    for uri, ttl, scope in (
        ("notes://all", 1500, "public"), ("bin://data", 0, "private"), ("own://hints", 7, "public"),
        ("weather://a/1", 2000, "private"),
    ):
        result = shelf.result("resources/read", uri=uri)
        hints = (result.get("ttlMs"), result.get("cacheScope"))
        assert hints == ((None, None) if shelf.handshake else (ttl, scope)), uri
        typed = shelf.client.read_resource(uri)
        assert (typed.ttl_ms, typed.cache_scope) == hints and typed.extra == {}
    assert shelf.result("resources/read", uri="own://hints")["_meta"] == {"example.com/r": 2}
    for method in ("resources/list", "resources/templates/list"):
        assert ("ttlMs" in shelf.result(method)) is not shelf.handshake


ERRORS = [
    ("none://here", ResourceNotFound, "Resource not found: none://here", {"uri": "none://here"}),
    ("", ResourceNotFound, "", {"uri": ""}),
    ("notes://ALL", ResourceNotFound, "", {"uri": "notes://ALL"}),
    ("notes://all#x", ResourceNotFound, "", {"uri": "notes://all#x"}),
    ("notes://%61ll", ResourceNotFound, "", {"uri": "notes://%61ll"}),
    ("file:///a/../../etc/passwd", ResourceNotFound, "", {"uri": "file:///a/../../etc/passwd"}),
    ("file:///%2e%2e/etc/passwd", ResourceNotFound, "", {"uri": "file:///%2e%2e/etc/passwd"}),
    ("file:///a%00b", ResourceNotFound, "", {"uri": "file:///a%00b"}),
    ("weather://a%2Fb/1", ResourceNotFound, "", {"uri": "weather://a%2Fb/1"}),
    ("weather://a/b/c", ResourceNotFound, "", {"uri": "weather://a/b/c"}),
    ("weather://%FF/1", ResourceNotFound, "", {"uri": "weather://%FF/1"}),
    ("weather://\n/1", ResourceNotFound, "", {"uri": "weather://\n/1"}),
    ("item://five", ResourceNotFound, "", {"uri": "item://five"}),
    ("item://05", ResourceNotFound, "", {"uri": "item://05"}),
    ("item://" + "9" * 5000, ResourceNotFound, "", None),
    ("db://rows?other=1", ResourceNotFound, "", {"uri": "db://rows?other=1"}),
    ("db://rows?deep=maybe", ResourceNotFound, "", {"uri": "db://rows?deep=maybe"}),
    ("fail://gone", ResourceNotFound, "no such day", {"uri": "fail://gone"}),
    ("fail://secret", ResourceAccessDenied, "Access denied: only for Ada", {"uri": "fail://secret", "who": "Ada"}),
]


@pytest.mark.requirement("RES-08", "RES-20", "RES-22", "M:RES-3", "M:RES-4", "M:RES-6", "M:RES-14", "SEED-02")
def test_what_is_not_there(shelf: Link) -> None:
    for uri, kind, said, data in ERRORS:
        with pytest.raises(kind) as caught:
            shelf.client.read_resource(uri)
        error = caught.value
        assert type(error) is kind and error.code == (-32002 if shelf.handshake else -32602), uri
        assert error.message.startswith(said or "Resource not found: ") and (data is None or error.data == data), uri


@pytest.mark.requirement("RES-09", "M:RES-7")
def test_what_goes_wrong(shelf: Link, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "minimcp")
    for uri in ("fail://broken", "fail://value"):
        with pytest.raises(InternalError, match=r"^Internal error \(reference [0-9a-f]{8}\)") as caught:
            shelf.client.read_resource(uri)
        assert "secret" not in str(caught.value) and caught.value.data is None
    with pytest.raises(RpcError) as own:
        shelf.client.read_resource("fail://own")
    assert (own.value.code, own.value.message, own.value.data) == (7, "seven", [1])
    with pytest.raises(CapabilityNotSupported) as needed:
        shelf.client.read_resource("needs://sampling")
    assert needed.value.code == (-32601 if shelf.handshake else -32021)
    assert needed.value.data == {"requiredCapabilities": {"sampling": {}}}
    for params in ({}, {"uri": 5}, {"uri": None}, {"uri": ["notes://all"]}):
        with pytest.raises(InvalidParams, match="uri is a string"):
            shelf.client.request("resources/read", params)


@pytest.mark.requirement("RES-01", "RES-02", "M:RES-1", "SEED-06", "RES-03", "RES-04", "RES-16", "M:RES-13")
def test_what_is_listed(shelf: Link) -> None:
    declared = shelf.client.capabilities["resources"]
    assert declared == {"subscribe": True, "listChanged": True}
    listed = shelf.result("resources/list")["resources"]
    annotations = {"audience": ["user"], "priority": 0.5}
    wanted: Dict[str, Any] = {
        "uri": "notes://all", "name": "notes", "description": "All that was noted.", "mimeType": "text/markdown",
        "size": 7, "annotations": annotations,
    }
    if shelf.since(R3):
        annotations["lastModified"] = "2026-01-02T03:04:05Z"
        wanted.update({"title": "All notes", "_meta": {"example.com/m": 1}})
    if shelf.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert listed[0] == wanted
    assert listed[1] == {"uri": "bin://data", "name": "data", "description": "Bytes."}
    typed = shelf.client.list_resources()
    assert [each.uri for each in typed] == [each["uri"] for each in listed] and typed[0].size == 7
    assert ODD in [each.uri for each in typed] and not any("{" in each.uri for each in typed)


@pytest.mark.requirement("RES-10", "RES-04", "M:RES-9", "SEED-06", "SEED-12", "SEED-28", "X-25")
def test_which_templates_are_listed(shelf: Link) -> None:
    first, *others = shelf.result("resources/templates/list")["resourceTemplates"]
    wanted: Dict[str, Any] = {
        "uriTemplate": "weather://{city}/{days}", "name": "weather", "description": "The weather of some days.",
        "mimeType": "application/json", "annotations": {"priority": 1},
    }
    if shelf.since(R3):
        wanted.update({"title": "Weather", "_meta": {"a.example/t": 1}})
    if shelf.since(R4):
        wanted["icons"] = [{"src": "https://example.com/i.png", "sizes": ["48x48", "96x96"]}]
    assert first == wanted and "mimeType" not in others[0]
    assert [each.uri_template for each in shelf.client.list_resource_templates()] == [
        "weather://{city}/{days}", "weather://{place}/{word}", "file:///{+path}", "db://rows{?limit,colour,deep}",
        "item://{id}",
    ]


@pytest.mark.requirement("M:RES-2", "M:RES-12")
def test_what_changes_no_list(shelf: Link, opened_shelf: Open) -> None:
    before = shelf.result("resources/list"), shelf.result("resources/templates/list")
    shelf.client.read_resource("notes://all")
    other = opened_shelf()
    assert other.list_resources() == shelf.client.list_resources()
    assert (shelf.result("resources/list"), shelf.result("resources/templates/list")) == before
    if not shelf.handshake:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            with pytest.raises(MethodNotFound):
                shelf.client.request(method, {"uri": "notes://all"})


@pytest.mark.requirement("M:PAG-1", "X-19")
def test_pages(shelf: Link, opened_shelf: Open) -> None:
    client = opened_shelf({"page_size": 2})
    assert client.list_resources() == shelf.client.list_resources()
    assert client.list_resource_templates() == shelf.client.list_resource_templates()
    first = client.request("resources/list")
    assert len(first["resources"]) == 2
    with pytest.raises(InvalidParams, match="cursor"):  # a cursor is of its own list
        client.request("resources/templates/list", {"cursor": first["nextCursor"]})


@pytest.mark.requirement("RES-12")
def test_a_change_is_told(shelf: Link, opened_shelf: Open) -> None:
    told: "SimpleQueue[None]" = SimpleQueue()
    client = opened_shelf(on_resources_changed=lambda: told.put(None))
    for kind, read in (("resource", "new://added"), ("template", "new://other")):
        with pytest.raises(ResourceNotFound):
            client.read_resource(read)
        client.call_tool("grow", {"kind": kind})
        told.get(timeout=WAIT)
        assert client.read_resource(read).text in ("added", "other")
        client.call_tool("shrink", {"kind": kind})
        with pytest.raises(ResourceNotFound):
            client.read_resource(read)
        told.get(timeout=WAIT)


def test_a_handler_reads_what_its_server_has(shelf: Link) -> None:
    def read(uri: str) -> Any:
        return json.loads(shelf.client.call_tool("read", {"uri": uri}).text)

    assert read("notes://all") == [["notes://all", "text/markdown", "# notes", None]]
    assert read("bin://data") == [["bin://data", "application/octet-stream", None, len(PICTURE)]]
    assert read("weather://oslo/2")[0][2] == '{"city":"oslo","days":2,"method":"tools/call"}'
    assert read("item://7") == [["item://7", "text/plain", "item 7", None]]
    for uri, kind in (("none://here", ResourceNotFound), ("fail://secret", ResourceAccessDenied)):
        with pytest.raises(RpcError) as caught:
            shelf.client.call_tool("read", {"uri": uri})
        assert caught.value.code == (-32002 if shelf.handshake else -32602)
        assert caught.value.data["uri"] == uri
        assert not shelf.handshake or type(caught.value) is kind
    with pytest.raises(minimcp.ToolError, match="secret words"):
        shelf.client.call_tool("read", {"uri": "fail://broken"})


def test_progress_of_a_read(shelf: Link) -> None:
    seen: List[float] = []
    assert shelf.client.read_resource("slow://progress", on_progress=lambda each: seen.append(each.progress)).text
    assert seen == [1]


@pytest.mark.requirement("RES-01", "M:RES-1", "SEED-21")
def test_a_server_without_resources() -> None:
    for revision in (R4, R5):
        with minimcp.connect(Server("bare"), revision=revision) as client:
            assert "resources" not in client.capabilities
            for ask in (client.list_resources, client.list_resource_templates, lambda: client.read_resource("a:b")):
                with pytest.raises(CapabilityNotSupported):
                    ask()
            with pytest.raises(MethodNotFound):
                client.request("resources/list")
        with minimcp.connect(Server("soon", capabilities=["resources"]), revision=revision) as client:
            assert client.list_resources() == [] == client.list_resource_templates()
