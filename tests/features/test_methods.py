"""Methods of an author's own: which names they take, what they get and what they may return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional

import pytest

import minimcp
from minimcp import Context, MethodNotFound, RpcError, Server

from ..answering import REVISIONS


@dataclass
class Point:
    x: int


def test_names() -> None:
    server = Server("x")
    for name in (
        "", "tools/call", "initialize", "server/discover", "roots/list", "elicitation/create", "subscriptions/listen",
        "rpc.discover", "notifications/mine", "tasks/get", "ping",
    ):
        with pytest.raises(ValueError, match="belongs to the protocol"):
            server.method(name)(lambda params: {})
    with pytest.raises(TypeError, match="the name comes first"):
        server.method(lambda params: {})  # type: ignore[arg-type]

    @server.method("vendor/thing")
    def first(params: Dict[str, Any]) -> None: ...

    (made,) = server._registry.methods.tables()[0].all()
    assert repr(made).startswith("<RegisteredMethod 'vendor/thing' = ")
    with pytest.raises(ValueError, match=r"the method 'vendor/thing' exists: .*first.*; now .*lambda"):
        server.method("vendor/thing")(lambda params: {})
    assert server.method("vendor/thing", replace=True)(first) is first

    def none() -> None: ...

    async def waits(params: Dict[str, Any]) -> None: ...

    for function, said in ((none, r"takes \(params\) or \(params, ctx\)"), (waits, "is async")):
        with pytest.raises(TypeError, match=f"method 'a'.*{said}"):
            server.method("a")(function)


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_they_get_and_return(revision: str) -> None:
    server = Server("x")
    values: Dict[str, Any] = {
        "dict": {"a": [1]}, "none": None, "object": Point(1), "list": [1], "text": "x", "raw": {1: b""},
    }

    @server.method("vendor/thing")
    def thing(params: Dict[str, Any], ctx: Context) -> Any:
        if params.get("fail"):
            raise RpcError(7, "seven", [1])
        return {**params, "method": ctx.method, "session": ctx.session is not None}

    @server.method("vendor/value")
    def value(params: Dict[str, Any], more: int = 5) -> Any:
        return values[params["of"]]

    def asked(method: str, params: Optional[Dict[str, Any]] = None) -> Any:
        result = client.request(method, params)
        return {key: each for key, each in result.items() if key not in ("_meta", "resultType")}

    with minimcp.connect(server, revision=revision) as client:
        assert asked("vendor/thing", {"a": 1}) == {
            "a": 1, "method": "vendor/thing", "session": client.revision != "2026-07-28"
        }
        assert asked("vendor/value", {"of": "dict"}) == {"a": [1]} and asked("vendor/value", {"of": "none"}) == {}
        assert asked("vendor/value", {"of": "object"}) == {"x": 1}
        for wrong in ("list", "text", "raw", "unknown"):
            with pytest.raises(RpcError) as caught:
                asked("vendor/value", {"of": wrong})
            assert caught.value.code == -32603 and "Internal error" in str(caught.value)
        with pytest.raises(RpcError) as seven:
            asked("vendor/thing", {"fail": True})
        assert (seven.value.code, seven.value.data) == (7, [1])
        with pytest.raises(MethodNotFound):
            asked("vendor/other")
        assert "logging" in client.capabilities and "methods" not in client.capabilities
