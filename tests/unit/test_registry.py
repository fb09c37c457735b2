"""The methods of a server: the methods of each revision, the declared capabilities, tables, pages,
and the ends of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

import pytest

import minimcp
from minimcp import Context, InvalidParams, MethodNotFound, RpcError, Server
from minimcp.protocol.lifecycle import SupportedRevisions
from minimcp.protocol.versions import BY_NAME, REVISIONS as ALL
from minimcp.server.registry import Registry
from minimcp.server.tools import RegisteredTool

from ..answering import R1, R4, R5, REVISIONS
from ..inside import feature_of
from .requests import config, exchange, read


def echo(text: str = "") -> str:
    """Echo."""
    return text


def registry(*, tools: bool = True, **options: Any) -> Registry:
    made = Registry(config(**options), SupportedRevisions(ALL))
    if tools:
        made.add("tool", echo, {})
    return made


def routed(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    request = exchange(method, params, revision=revision, of=made.config)
    return made.route(request.request, request.peer), request


def served(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    route, request = routed(made, method, revision, **params)
    return read(route.handle(request))


@pytest.mark.requirement("TOOL-01", "M:TOOL-1", "SEED-06", "SEED-07")
def test_declared_capabilities() -> None:
    old, new = BY_NAME[R1], BY_NAME[R5]
    assert registry().capabilities(old) == {"logging": {}, "tools": {"listChanged": True}}
    assert registry().capabilities(new) == registry().capabilities(old)
    assert registry(logging=False).capabilities(old) == {"tools": {"listChanged": True}}
    bare = registry(tools=False)
    assert bare.capabilities(old) == {}
    for method in ("tools/list", "tools/call", "logging/setLevel"):
        with pytest.raises(MethodNotFound, match="does not declare"):
            routed(bare, method)
    announced = registry(tools=False, capabilities={"tools": {}})
    assert announced.capabilities(new) == {
        "logging": {},
        "tools": {"listChanged": True},
    }  # a later tool may log
    assert served(announced, "tools/list")["tools"] == []
    more = registry(
        capabilities={
            "tools": {"streaming": True, "listChanged": 5},
            "experimental": {"x": 1},
            "odd": 5,
        }
    )
    tools = {"streaming": True, "listChanged": True}
    assert more.capabilities(old) == {
        "experimental": {"x": 1},
        "odd": 5,
        "logging": {},
        "tools": tools,
    }
    silent = registry(logging=False, capabilities={"logging": {}})
    assert silent.capabilities(old) == {"tools": {"listChanged": True}}
    with pytest.raises(MethodNotFound):
        routed(silent, "logging/setLevel")


# ------------------------------------------------------------ methods of an author's own


@dataclass
class Point:
    x: int


def test_names_of_methods() -> None:
    server = Server("x")
    for name in (
        "",
        "tools/call",
        "initialize",
        "server/discover",
        "roots/list",
        "elicitation/create",
        "subscriptions/listen",
        "rpc.discover",
        "notifications/mine",
        "tasks/get",
        "ping",
    ):
        with pytest.raises(ValueError, match="belongs to the protocol"):
            server.method(name)(lambda params: {})
    with pytest.raises(TypeError, match="the name comes first"):
        server.method(lambda params: {})  # type: ignore[arg-type]

    @server.method("vendor/thing")
    def first(params: Dict[str, Any]) -> None: ...

    assert repr(feature_of(server, "methods").table.items["vendor/thing"]).startswith(
        "<RegisteredMethod 'vendor/thing' = "
    )
    with pytest.raises(
        ValueError,
        match=r"the method 'vendor/thing' already exists: .*first.*; defined again: .*lambda",
    ):
        server.method("vendor/thing")(lambda params: {})
    assert server.method("vendor/thing", replace=True)(first) is first

    def none() -> None: ...

    async def waits(params: Dict[str, Any]) -> None: ...

    for function, said in ((none, r"must take \(params\) or \(params, ctx\)"), (waits, "is async")):
        with pytest.raises(TypeError, match=f"method 'a'.*{said}"):
            server.method("a")(function)


@pytest.mark.parametrize("revision", REVISIONS)
def test_parameters_and_results_of_methods(revision: str) -> None:
    server = Server("x")
    values: Dict[str, Any] = {
        "dict": {"a": [1]},
        "none": None,
        "object": Point(1),
        "list": [1],
        "text": "x",
        "raw": {1: b""},
    }

    @server.method("vendor/thing")
    def thing(params: Dict[str, Any], ctx: Context) -> Any:
        if params.get("fail"):
            raise RpcError(7, "seven", [1])
        return {**params, "method": ctx.method, "session": ctx.session is not None}

    server.method("vendor/value")(lambda params: values[params["of"]])

    def asked(method: str, params: Optional[Dict[str, Any]] = None) -> Any:
        result = client.request(method, params)
        return {key: each for key, each in result.items() if key not in ("_meta", "resultType")}

    with minimcp.connect(server, revision=revision) as client:
        assert asked("vendor/thing", {"a": 1}) == {
            "a": 1,
            "method": "vendor/thing",
            "session": revision != R5,
        }
        found = [asked("vendor/value", {"of": name}) for name in ("dict", "none", "object")]
        assert found == [{"a": [1]}, {}, {"x": 1}]
        for wrong in ("list", "text", "raw", "unknown"):
            with pytest.raises(minimcp.InternalError, match="Internal error"):
                asked("vendor/value", {"of": wrong})
        with pytest.raises(RpcError) as seven:
            asked("vendor/thing", {"fail": True})
        assert (seven.value.code, seven.value.data) == (7, [1])
        with pytest.raises(MethodNotFound):
            asked("vendor/other")
        assert "logging" in client.capabilities and "methods" not in client.capabilities


# ------------------------------------------------------------ pages


def five(**options: Any) -> Registry:
    """Five tools, whose names are numbers."""
    made = registry(tools=False, page_size=2, **options)
    for number in range(5):
        made.add("tool", echo, {"name": str(number)})
    return made


def test_pages_are_made_once_for_each_revision_until_the_list_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, looks, to_wire = five(), [], RegisteredTool.to_wire

    def look(tool: RegisteredTool, revision: Any) -> Any:
        looks.append(revision.name)
        return to_wire(tool, revision)

    monkeypatch.setattr(RegisteredTool, "to_wire", look)
    first = served(made, "tools/list")
    assert served(made, "tools/list") == first and looks == [R4] * 5
    served(made, "tools/list", R1)
    assert looks[5:] == [R1] * 5
    assert served(made, "tools/list", cursor=first["nextCursor"])["tools"] and len(looks) == 10, (
        "all are made at once"
    )
    for number in "123":
        made.remove("tool", number)
    assert [tool["name"] for tool in served(made, "tools/list")["tools"]] == ["0", "4"]
    with pytest.raises(InvalidParams):
        served(made, "tools/list", cursor=first["nextCursor"])
