"""What of a message stands in headers too."""

from __future__ import annotations

from typing import Any

import pytest

import minimcp
from minimcp.http.client import RequestHeaders
from minimcp.protocol.lifecycle import VERSION_KEY
from minimcp.types import Tool

from ..answering import AnsweringPipe, discovered, result
from ..support import WAIT

META = {VERSION_KEY: "2026-07-28"}


def headers(method: str, **params: Any) -> "dict[str, str]":
    return RequestHeaders("peer").of(method, {"_meta": META, **params})


@pytest.mark.requirement("M:HDR-3", "M:HDR-4")
@pytest.mark.parametrize(("method", "member"), [
    ("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri"), ("tasks/get", "taskId"),
    ("tasks/update", "taskId"), ("tasks/cancel", "taskId"),
])
def test_the_name_of_each_method(method: str, member: str) -> None:
    assert headers(method, **{member: "x y"}) == {
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": "x y"
    }


def test_what_has_no_name_has_no_name_header() -> None:
    assert "Mcp-Name" not in headers("tools/list", name="x") and "Mcp-Name" not in headers("tools/call", name=5)
    assert RequestHeaders("peer").of("tools/list", {}) == {}


@pytest.mark.requirement("M:HDR-19", "M:HDR-5", "M:XH-12")
@pytest.mark.parametrize("name", ["a\r\nX: y", "a\tb", " edge", "edge ", "ä", "=?base64?literal?=", "\x00"])
def test_no_value_breaks_out(name: str) -> None:
    value = headers("tools/call", name=name)["Mcp-Name"]
    assert value.startswith("=?base64?") and value.endswith("?=") and value.isascii() and value.isprintable()


def _schema(*annotated: Any) -> Any:
    return {"type": "object", "properties": {f"p{n}": each for n, each in enumerate(annotated)}}


def _one(name: Any, kind: Any = "string") -> Any:
    return {"type": kind, "x-mcp-header": name}


@pytest.mark.requirement("M:XH-2", "M:XH-3", "M:XH-4", "M:XH-5", "M:XH-6")
@pytest.mark.parametrize("schema", [
    _schema(_one("")), _schema(_one("a b")), _schema(_one("a:b")), _schema(_one("ä")), _schema(_one("a\tb")),
    _schema(_one(5)), _schema(_one("A"), _one("a")), _schema(_one("A", "number")), _schema(_one("A", "object")),
    _schema(_one("A", ["string", "null"])), _schema({"type": "array", "items": _one("A")}),
    _schema({"anyOf": [_one("A")]}), {"type": "object", "$defs": {"x": _one("A")}},
])
def test_annotations_that_leave_a_tool_out(schema: Any) -> None:
    tools = [Tool.from_wire({"name": name, "inputSchema": each}) for name, each in (("bad", schema), ("good", {}))]
    assert [tool.name for tool in RequestHeaders("peer").admitted(tools)] == ["good"]


@pytest.mark.requirement("M:XH-5")
def test_nested_properties_are_reached() -> None:
    mirror = RequestHeaders("peer")
    nested = _schema({"type": "object", "properties": {"q": _one("Deep")}})
    assert mirror.admitted([Tool.from_wire({"name": "t", "inputSchema": nested})])
    params = {"_meta": META, "name": "t", "arguments": {"p0": {"q": "v"}}}
    assert mirror.of("tools/call", params)["Mcp-Param-Deep"] == "v"


@pytest.mark.requirement("M:XH-8")
def test_where_there_are_no_headers_annotations_mean_nothing() -> None:
    tools = [{"name": "bad", "inputSchema": _schema(_one("a b"))}]

    class Target:
        def open_pipe(self) -> AnsweringPipe:
            return AnsweringPipe({"server/discover": discovered(), "tools/list": result(tools=tools)})

    with minimcp.connect(Target(), timeout=WAIT) as client:
        assert [tool.name for tool in client.list_tools()] == ["bad"]
