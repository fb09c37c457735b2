"""Which methods there are in a revision, and what is declared."""

from __future__ import annotations

from typing import Any

import pytest

from minimcp import InvalidParams, MethodNotFound
from minimcp.protocol.lifecycle import LOG_LEVELS, Offer
from minimcp.protocol.versions import BY_NAME, REVISIONS as ALL
from minimcp.server.registry import Registry

from ..answering import R1, R4, R5, REVISIONS
from .support import exchange, facts, read


def echo() -> str:
    """Echo."""
    return "echo"


def registry(*, tools: bool = True, announced: Any = None, **options: Any) -> Registry:
    made = Registry(facts(**options), Offer(ALL), announced)
    if tools:
        made.tools.add(echo)
    return made


def routed(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    request = exchange(method, params, revision=revision, of=made.facts)
    return made.route(request.request, request.peer), request


def served(made: Registry, method: str, revision: str = R4, **params: Any) -> Any:
    route, request = routed(made, method, revision, **params)
    return read(route.handle(request))


@pytest.mark.requirement("BASE-17")
def test_which_methods_there_are() -> None:
    both = {"tools/list", "tools/call"}
    handshake = both | {"initialize", "ping", "logging/setLevel"}
    params = {"tools/call": {"name": "echo"}}
    for revision in REVISIONS:
        wanted = handshake if revision != R5 else both | {"server/discover"}
        for method in handshake | {"server/discover", "resources/list", "prompts/get", "nothing", "Tools/list"}:
            if method in wanted:
                assert routed(registry(), method, revision, **params.get(method, {}))
            else:
                with pytest.raises(MethodNotFound):
                    routed(registry(), method, revision)


def test_what_waits_behind_no_handler() -> None:
    control = {method: routed(registry(), method, *rest, name="echo")[0].control for method, *rest in (
        ("ping",), ("tools/list",), ("logging/setLevel",), ("server/discover", R5), ("initialize",), ("tools/call",),
    )}
    assert [method for method, at_once in control.items() if not at_once] == ["initialize", "tools/call"]


@pytest.mark.requirement("TOOL-01", "M:TOOL-1", "SEED-06", "SEED-07")
def test_what_is_declared() -> None:
    old, new = BY_NAME[R1], BY_NAME[R5]
    assert registry().capabilities(old) == {"logging": {}, "tools": {"listChanged": True}}
    assert registry().capabilities(new) == registry().capabilities(old)
    assert registry(logging=False).capabilities(old) == {"tools": {"listChanged": True}}
    bare = registry(tools=False)
    assert bare.capabilities(old) == {}
    for method in ("tools/list", "tools/call", "logging/setLevel"):
        with pytest.raises(MethodNotFound, match="declares no"):
            routed(bare, method)
    announced = registry(tools=False, announced={"tools": {}})
    assert announced.capabilities(new) == {"logging": {}, "tools": {"listChanged": True}}  # a later tool may log
    assert served(announced, "tools/list")["tools"] == []
    more = registry(announced={"tools": {"streaming": True, "listChanged": 5}, "experimental": {"x": True}, "odd": 5})
    tools = {"streaming": True, "listChanged": True}
    assert more.capabilities(old) == {"experimental": {"x": True}, "odd": 5, "logging": {}, "tools": tools}
    silent = registry(logging=False, announced={"logging": {}})
    assert silent.capabilities(old) == {"tools": {"listChanged": True}}
    with pytest.raises(MethodNotFound):
        routed(silent, "logging/setLevel")


def test_the_openings() -> None:
    made = registry(instructions="Read me.", list_ttl=1)
    assert served(made, "initialize", R1) == {
        "protocolVersion": R1, "capabilities": made.capabilities(BY_NAME[R1]),
        "serverInfo": {"name": "unit", "version": "1"}, "instructions": "Read me.",
    }
    discovered = served(made, "server/discover", R5)
    assert discovered["supportedVersions"] == list(reversed(REVISIONS)) and discovered["instructions"] == "Read me."
    assert discovered["ttlMs"] == 1000 and discovered["resultType"] == "complete"
    assert "instructions" not in served(registry(), "initialize")
    assert "instructions" not in served(registry(), "server/discover", R5)
    assert served(made, "ping") == {}


def test_a_log_level_is_the_sessions() -> None:
    made = registry()
    route, request = routed(made, "logging/setLevel", level="error")
    assert route.handle(request) == {} and request.peer.log_rank == LOG_LEVELS["error"]
    route, request = routed(made, "logging/setLevel", level="loud")
    with pytest.raises(InvalidParams):
        route.handle(request)
    assert request.peer.log_rank is None
