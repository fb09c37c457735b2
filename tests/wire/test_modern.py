"""2026-07-28 as raw bytes: stateless requests, complete responses, and streams of changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import (
    ABSENT,
    CLIENT_KEY,
    HANDSHAKES,
    METHOD,
    MODERN,
    PARAMS,
    SERVER_KEY,
    envelope,
    modern,
    request,
)

UNSUPPORTED = -32022
CALL = {"name": "echo", "arguments": {"text": "x"}}


def ask(server: RawServer, method: str, params: Any) -> dict[str, Any]:
    """Send a request with exactly these params, and return the response."""
    id = server.number()
    server.write(request(id, method, params))
    return server.answer(id)


@pytest.mark.requirement("M:DISC-1", "M:DISC-3", "M:VER-S2", "M:VER-S3", "M:BASE-6", "M:META-7")
@pytest.mark.parametrize("instructions, revisions", [
    (None, [MODERN, *reversed(HANDSHAKES)]), ("Read me.", [MODERN, "2025-06-18"]), (None, [MODERN]),
])  # fmt: skip
def test_discover_may_be_the_first_request(serve: Serve, instructions: Any, revisions: Any) -> None:
    server = serve(
        MODERN, revisions=revisions, **({"instructions": instructions} if instructions else {})
    )
    found = server.result("server/discover")
    assert (found["resultType"], found["supportedVersions"]) == (
        "complete",
        revisions,
    )  # newest first
    assert "tools" in found["capabilities"] and "tasks" not in found["capabilities"]
    assert (
        type(found["ttlMs"]) is int
        and found["ttlMs"] >= 0
        and found["cacheScope"] in ("private", "public")
    )
    assert found.get("instructions", ABSENT) == (instructions or ABSENT)
    info = found["_meta"][SERVER_KEY]
    assert (info["name"], info["version"]) == ("plain", "1.2.3")
    assert not {"serverInfo", "protocolVersion"} & set(found)


@pytest.mark.requirement("M:DISC-2", "M:DISC-6", "M:DISC-7", "M:TOOL-1")
def test_declared_capabilities_are_served(serve: Serve) -> None:
    bare, server = serve(MODERN, tools=False), serve(MODERN)
    assert "tools" not in bare.result("server/discover")["capabilities"]
    for method in ("tools/list", "prompts/list", "resources/list", "completion/complete"):
        assert bare.ask(method)["error"]["code"] == METHOD
    declared = server.result("server/discover")["capabilities"]
    for kind in ("prompts", "resources", "tools"):
        assert (kind in declared) == ("result" in server.ask(f"{kind}/list"))
    assert declared["tools"]["listChanged"] is True


# ---------------------------------------------------------------- the envelope


@pytest.mark.requirement("M:META-14", "M:META-17", "M:BASE-19", "M:TOOL-19")
def test_unknown_members_are_accepted_everywhere(newer: RawServer) -> None:
    meta = envelope(
        capabilities={"sampling": True, "elicitation": [], "x": 1, "extensions": {"a/b": {}}},
        **{"io.modelcontextprotocol/future": [1], "dev.mcp/x": None, "traceparent": 5, "x": {}},
    )
    params = {**CALL, "_meta": meta, "future": {"a": 1}, "task": {"ttl": 1}}
    newer.write({**request("u", "tools/call", params), "extra": None, "trace": {"x": 1}})
    assert newer.answer("u")["result"]["content"][0]["text"] == "x"


@pytest.mark.requirement("M:BASE-11", "M:BASE-13", "M:BASE-14", "M:VER-S4", "M:VER-S16")
def test_an_earlier_request_decides_nothing(newer: RawServer) -> None:
    def about(**change: Any) -> Any:
        reply = ask(newer, "tools/call", modern({"name": "about", "arguments": {}}, **change))
        return json.loads(reply["result"]["content"][0]["text"])

    first = about(capabilities={"sampling": {}}, **{CLIENT_KEY: {"name": "first", "version": "1"}})
    second = about(**{CLIENT_KEY: ABSENT})
    assert (first["sampling"], second["sampling"]) == (True, False)
    assert "first" in first["info"] and "first" not in second["info"]
    assert (first["session"], first["revision"]) == (False, MODERN)


# ---------------------------------------------------------------- results in both eras


@pytest.mark.requirement("M:BASE-20", "M:VER-S14", "M:TOOL-7", "M:TOOL-8")
def test_older_sessions_see_nothing_of_it(
    older: RawServer, newer: RawServer, shared: Serve
) -> None:
    calls = (
        ("tools/list", {}),
        ("tools/call", CALL),
        ("tools/call", {"name": "fail", "arguments": {"message": "x"}}),
    )
    for method, params in calls:
        found = older.result(method, params)
        assert not {"resultType", "ttlMs", "cacheScope"} & set(
            found
        ) and SERVER_KEY not in found.get("_meta", {})
    for value in (
        [1, 2],
        5,
        True,
        False,
        0,
        "",
        {"a": None},
    ):  # `take` gives an object: it travels as it is in both
        for server in (older, newer):
            assert server.call("take", {"value": value})["structuredContent"] == {"value": value}
        assert "structuredContent" not in shared("2024-11-05").call("take", {"value": value})
    assert newer.call("add", {"a": 1, "b": 2})["structuredContent"] == 3
    assert older.call("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


@pytest.mark.requirement(
    "M:BASE-9", "M:STD-5", "M:VER-S15", "M:TOOL-2", "M:TOOL-3", "M:CACHE-1", "M:CACHE-3"
)
def test_the_server_never_asks_and_lists_its_tools_in_order(serve: Serve) -> None:
    """Nothing that a modern server writes has both a method and an id."""
    server = serve(MODERN)
    listed = server.result("tools/list")
    assert type(listed["ttlMs"]) is int and listed["cacheScope"] == "private"
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed["tools"])
    for tool, arguments in (
        ("count", {"n": 3}),
        ("log_all", {}),
        ("grow", {"name": "g"}),
        ("fail", {"message": "x"}),
    ):
        server.call(tool, arguments, token="t")
    told = server.fence()
    assert {message["method"] for message in told} == {"notifications/progress"}, (
        "no unsolicited notice in this era"
    )
    assert all("id" not in message for message in told)
    names = [*(tool["name"] for tool in listed["tools"]), "g"]
    assert all(
        [tool["name"] for tool in server.result("tools/list")["tools"]] == names for _ in range(5)
    )


@pytest.mark.requirement("M:META-8", "META-01")
def test_a_meta_of_the_handlers_own(newer: RawServer) -> None:
    """The handler's value wins over the server's, and the handler's object does not change."""
    first, second = newer.call("tagged"), newer.call("tagged")
    assert first == second and first["_meta"]["com.example/mine"] == [1]
    assert first["_meta"][SERVER_KEY] == {"name": "other", "version": "9"}
    assert json.loads(first["content"][0]["text"]) == first["_meta"]


# ---------------------------------------------------------------- streams

ID = "io.modelcontextprotocol/subscriptionId"


def listen(server: RawServer, id: Any, **wanted: Any) -> Any:
    """Open a stream, and return the server's first message."""
    server.write(request(id, "subscriptions/listen", modern({"notifications": wanted})))
    return server.message()


def notice(message: Any) -> Any:
    """Method and stream of a notification."""
    return message["method"].partition("/")[2], message["params"]["_meta"][ID]


@pytest.mark.requirement(
    "M:SUB-2", "M:SUB-4", "M:SUB-7", "M:SUB-8", "M:SUB-10", "M:SUB-6", "M:CAN-6", "M:TOOL-18"
)
def test_streams_are_distinguished_and_end_one_by_one(serve: Serve) -> None:
    server = serve(MODERN)
    first = listen(server, 7, toolsListChanged=True)
    assert notice(first) == ("subscriptions/acknowledged", 7)
    assert first["params"]["notifications"] == {"toolsListChanged": True}
    assert notice(listen(server, "seven", toolsListChanged=True)) == (
        "subscriptions/acknowledged",
        "seven",
    )
    server.call("grow", {"name": "a"})
    told = [notice(message) for message in server.fence()]
    assert sorted(told, key=str) == [("tools/list_changed", "seven"), ("tools/list_changed", 7)]
    server.notify("notifications/cancelled", {"requestId": 7})
    server.fence()
    server.call("grow", {"name": "b"})
    assert [notice(message) for message in server.fence()] == [("tools/list_changed", "seven")]
    server.close_input()
    ended = server.rest()
    assert [message.get("id", message.get("method")) for message in ended] == [
        "seven",
        "notifications/cancelled",
    ]
    assert ended[0]["result"]["_meta"][ID] == "seven" and ended[1]["params"]["requestId"] == "seven"
    assert server.exit() == 0


@pytest.mark.requirement("M:SUB-1", "M:SUB-25")
def test_streams_keep_no_worker_and_bad_ones_are_refused(serve: Serve) -> None:
    server = serve(MODERN, limits={"workers": 1})
    for number in range(100):
        assert notice(listen(server, f"s{number}"))[0] == "subscriptions/acknowledged"
    assert server.text("echo", {"text": "x"}) == "x"
    for wrong in ({}, {"notifications": []}):
        assert ask(server, "subscriptions/listen", modern(wrong))["error"]["code"] == PARAMS
    assert len(server.finish()) == 2 * 100, (
        "each stream ends with its answer, and a word that it was cancelled"
    )
