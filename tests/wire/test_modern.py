"""2026-07-28 as raw bytes: every request stands alone, and every answer says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .conftest import Serve
from .harness import RawServer
from .messages import (
    ABSENT,
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HANDSHAKES,
    METHOD,
    MODERN,
    PARAMS,
    REQUEST,
    SERVER_KEY,
    VERSION_KEY,
    encode,
    envelope,
    modern,
    notification,
    request,
)

UNSUPPORTED = -32022
CALL = {"name": "echo", "arguments": {"text": "x"}}


def ask(server: RawServer, method: str, params: Any) -> dict[str, Any]:
    """A request whose params are sent as they are."""
    id = server.number()
    server.write(request(id, method, params))
    return server.answer(id)


@pytest.mark.requirement("M:DISC-1", "M:DISC-3", "M:VER-S3", "M:BASE-6", "M:META-7")
@pytest.mark.parametrize("instructions", [None, "Read me."])
def test_discover_is_served_first_thing(serve: Serve, instructions: Any) -> None:
    server = serve(MODERN, **({"instructions": instructions} if instructions else {}))
    found = server.result("server/discover")
    assert found["resultType"] == "complete"
    assert found["supportedVersions"] == [MODERN, *reversed(HANDSHAKES)]  # newest first
    assert "tools" in found["capabilities"]
    assert "tasks" not in found["capabilities"]
    assert type(found["ttlMs"]) is int
    assert found["ttlMs"] >= 0
    assert found["cacheScope"] in ("private", "public")
    assert found.get("instructions", ABSENT) == (instructions or ABSENT)
    assert found["_meta"][SERVER_KEY]["name"] == "plain"
    assert found["_meta"][SERVER_KEY]["version"] == "1.2.3"
    assert "serverInfo" not in found
    assert "protocolVersion" not in found


@pytest.mark.requirement("M:DISC-1", "M:VER-S2")
def test_discover_lists_what_is_served(serve: Serve) -> None:
    server = serve(MODERN, revisions=[MODERN, "2025-06-18"])
    assert server.result("server/discover")["supportedVersions"] == [MODERN, "2025-06-18"]
    only = serve(MODERN, revisions=[MODERN])
    assert only.result("server/discover")["supportedVersions"] == [MODERN]


@pytest.mark.requirement("M:DISC-2", "M:DISC-6", "M:DISC-7", "M:TOOL-1")
def test_what_is_declared_is_what_is_there(serve: Serve) -> None:
    bare = serve(MODERN, tools=False)
    assert "tools" not in bare.result("server/discover")["capabilities"]
    for method in ("tools/list", "prompts/list", "resources/list", "completion/complete"):
        assert bare.ask(method)["error"]["code"] == METHOD
    server = serve(MODERN)
    declared = server.result("server/discover")["capabilities"]
    for kind, method in (("prompts", "prompts/list"), ("resources", "resources/list"), ("tools", "tools/list")):
        assert (kind in declared) == ("result" in server.ask(method))
    assert declared["tools"]["listChanged"] is True
    server.write(request("stream", "subscriptions/listen", modern({"notifications": {}})))
    assert server.message()["method"] == "notifications/subscriptions/acknowledged"
    server.notify("notifications/cancelled", {"requestId": "stream"})
    server.lives()


REMOVED = [
    "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result",
    "tasks/list", "no/such/method", "sampling/createMessage", "roots/list", "elicitation/create",
    "notifications/initialized",
]  # fmt: skip


@pytest.mark.requirement("M:ERR-8", "M:ERR-9", "M:BASE-5")
@pytest.mark.parametrize("method", REMOVED)
def test_methods_that_are_gone(shared: Serve, method: str) -> None:
    assert shared(MODERN).ask(method, {"level": "info", "uri": "x:y"})["error"]["code"] == METHOD


@pytest.mark.requirement("M:BASE-6", "M:META-7", "M:META-5", "M:VER-S4")
def test_every_result_says_what_it_is(shared: Serve) -> None:
    server = shared(MODERN)
    for method, params in (("tools/list", {}), ("tools/call", CALL), ("server/discover", {})):
        for change in ({}, {CLIENT_KEY: ABSENT}):
            found = ask(server, method, modern(params, **change))["result"]
            assert found["resultType"] == "complete"
            assert found["_meta"][SERVER_KEY]["name"] == "plain"
    assert server.call("fail", {"message": "x"})["resultType"] == "complete"


@pytest.mark.requirement("M:META-4", "M:VER-S9")
@pytest.mark.parametrize("missing", [VERSION_KEY, CAPABILITIES_KEY])
def test_half_an_envelope_is_refused(shared: Serve, missing: str) -> None:
    server = shared(MODERN)
    reply = ask(server, "tools/call", {**CALL, "_meta": envelope(**{missing: ABSENT})})
    assert reply["error"]["code"] == PARAMS
    assert missing in reply["error"]["message"]


@pytest.mark.requirement("M:META-4", "M:VER-S9")
@pytest.mark.parametrize("params", [ABSENT, {}, {"_meta": {}}, {"_meta": {"progressToken": 1}}])
@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
@pytest.mark.parametrize("alone", [False, True])
def test_no_envelope_is_refused(shared: Serve, method: str, params: Any, alone: bool) -> None:
    server = shared(MODERN, **({"revisions": [MODERN]} if alone else {}))
    server.send(encode(request("e", method, None if params is ABSENT else params)))
    reply = server.answer("e")
    assert reply["error"]["code"] == PARAMS
    assert VERSION_KEY in reply["error"]["message"]
    assert CAPABILITIES_KEY in reply["error"]["message"]


WRONG_TYPES: list[dict[str, Any]] = [
    {VERSION_KEY: 5}, {VERSION_KEY: None}, {VERSION_KEY: [MODERN]}, {VERSION_KEY: True}, {VERSION_KEY: {}},
    {CAPABILITIES_KEY: []}, {CAPABILITIES_KEY: None}, {CAPABILITIES_KEY: "none"}, {CAPABILITIES_KEY: 1},
]  # fmt: skip


@pytest.mark.requirement("M:META-6")
@pytest.mark.parametrize("change", WRONG_TYPES)
def test_wrong_types_in_the_envelope(shared: Serve, change: dict[str, Any]) -> None:
    server = shared(MODERN)
    assert ask(server, "tools/call", {**CALL, "_meta": {**envelope(), **change}})["error"]["code"] == PARAMS
    server.lives()


@pytest.mark.requirement("M:BASE-21")
@pytest.mark.parametrize("meta", [1, [], "x", None, True])
def test_a_meta_that_is_no_object(shared: Serve, meta: Any) -> None:
    server = shared(MODERN)
    assert ask(server, "tools/list", {"_meta": meta})["error"]["code"] == PARAMS
    server.lives()


@pytest.mark.requirement("M:META-9", "M:META-10", "M:META-14")
@pytest.mark.parametrize("info", [5, None, [], {}, {"name": 1}, {"name": "x" * 10_000}, "me"])
def test_who_the_client_is_decides_nothing(shared: Serve, info: Any) -> None:
    server = shared(MODERN)
    found = ask(server, "tools/call", modern(CALL, **{CLIENT_KEY: info}))
    assert "result" in found or (found["error"]["code"] == PARAMS and not isinstance(info, dict)), found
    server.lives()


@pytest.mark.requirement("M:META-14", "M:META-17", "M:BASE-19", "M:TOOL-19")
def test_unknown_members_are_accepted_everywhere(shared: Serve) -> None:
    server = shared(MODERN)
    meta = envelope(
        capabilities={"sampling": True, "elicitation": [], "x": 1, "extensions": {"a/b": {}}},
        **{"io.modelcontextprotocol/future": [1], "dev.mcp/x": None, "traceparent": 5, "x": {}},
    )
    params = {**CALL, "_meta": meta, "future": {"a": 1}, "task": {"ttl": 1}}
    message = {**request("u", "tools/call", params), "extra": None, "trace": {"x": 1}}
    server.write(message)
    assert server.answer("u")["result"]["content"][0]["text"] == "x"


@pytest.mark.requirement("M:VER-S1", "M:ERR-1", "M:ERR-9")
@pytest.mark.parametrize("version", ["2099-01-01", "1999-01-01", "", "2026-07-28 ", "2026-7-28", "DRAFT"])
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "tools/call", "no/such/method"])
def test_an_unknown_version(shared: Serve, version: str, method: str) -> None:
    server = shared(MODERN)
    error = ask(server, method, modern(CALL, version=version))["error"]
    assert error["code"] == UNSUPPORTED
    assert error["data"]["requested"] == version
    assert error["data"]["supported"] == [MODERN, *reversed(HANDSHAKES)]


@pytest.mark.requirement("M:VER-S2", "M:VER-S1")
@pytest.mark.parametrize("session", [None, "2025-06-18"])
def test_a_known_version_that_is_switched_off(serve: Serve, session: str) -> None:
    server = serve(session, revisions=list(HANDSHAKES))
    for method in ("tools/list", "server/discover"):
        error = ask(server, method, modern()).get("error", {})
        assert error.get("code") == UNSUPPORTED, method
        assert error["data"] == {"requested": MODERN, "supported": list(reversed(HANDSHAKES))}
    assert server.fence() == []


@pytest.mark.requirement("M:VER-S1", "M:VER-S4")
@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_handshake_version_in_an_envelope(shared: Serve, version: str) -> None:
    """It was refused in that form: the list of what is supported leaves it out."""
    server = shared(MODERN)
    error = ask(server, "tools/list", modern(version=version))["error"]
    assert error["code"] == UNSUPPORTED
    assert MODERN in error["data"]["supported"]
    assert version not in error["data"]["supported"]


@pytest.mark.requirement("M:BASE-11", "M:BASE-14", "M:VER-S4", "M:VER-S16")
def test_an_earlier_request_decides_nothing(shared: Serve) -> None:
    server = shared(MODERN)

    def about(**change: Any) -> dict[str, Any]:
        reply = ask(server, "tools/call", modern({"name": "about", "arguments": {}}, **change))
        found: dict[str, Any] = json.loads(reply["result"]["content"][0]["text"])
        return found

    first = about(capabilities={"sampling": {}}, **{CLIENT_KEY: {"name": "first", "version": "1"}})
    second = about(**{CLIENT_KEY: ABSENT})
    assert (first["sampling"], second["sampling"]) == (True, False)
    assert "first" in first["info"]
    assert "first" not in second["info"]
    assert first["session"] is False
    assert first["revision"] == MODERN


@pytest.mark.requirement("M:BASE-8", "M:BASE-10")
@pytest.mark.parametrize(
    "message",
    [
        notification("notifications/nobody"),
        notification("notifications/nobody", modern()),
        notification("notifications/initialized"),
        notification("notifications/roots/list_changed"),
        notification("notifications/progress", {"progressToken": 1, "progress": 1}),
        notification("tools/call", modern(CALL)),
        {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}},
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_what_is_never_answered(shared: Serve, message: Any, alone: bool) -> None:
    server = shared(MODERN, **({"revisions": [MODERN]} if alone else {}))
    server.write(message)
    server.lives()


@pytest.mark.requirement("M:BASE-1", "M:BASE-21")
@pytest.mark.parametrize("version", ["1.0", 2.0, "2", None, ABSENT])
def test_the_version_of_json_rpc(shared: Serve, version: Any) -> None:
    server = shared(MODERN)
    message = {**request("v", "tools/list", modern()), "jsonrpc": version}
    if version is ABSENT:
        del message["jsonrpc"]
    assert server.error(message, "v") == REQUEST


@pytest.mark.requirement("M:BASE-20", "M:VER-S14")
def test_older_sessions_see_nothing_of_it(shared: Serve) -> None:
    server = shared("2025-06-18")
    calls = (("tools/list", {}), ("tools/call", CALL), ("tools/call", {"name": "fail", "arguments": {"message": "x"}}))
    for method, params in calls:
        found = server.result(method, params)
        assert not {"resultType", "ttlMs", "cacheScope"} & set(found), found
        assert SERVER_KEY not in found.get("_meta", {})


@pytest.mark.requirement("M:VER-S14", "M:TOOL-7", "M:TOOL-8", "M:BASE-20")
@pytest.mark.parametrize("value", [[1, 2], 5, True, False, 0, "", {"a": None}])
def test_structured_content_in_both_eras(shared: Serve, value: Any) -> None:
    """`take` gives an object: it travels as it is in both."""
    for server in (shared("2025-06-18"), shared(MODERN)):
        assert server.call("take", {"value": value})["structuredContent"] == {"value": value}
    assert "structuredContent" not in shared("2024-11-05").call("take", {"value": value})


@pytest.mark.requirement("M:VER-S14", "M:TOOL-7")
def test_a_number_is_wrapped_for_older_sessions(shared: Serve) -> None:
    assert shared(MODERN).call("add", {"a": 1, "b": 2})["structuredContent"] == 3
    assert shared("2025-06-18").call("add", {"a": 1, "b": 2})["structuredContent"] == {"result": 3}


@pytest.mark.requirement("M:BASE-9", "M:STD-5")
def test_the_server_never_asks(serve: Serve) -> None:
    """Nothing that a modern server writes has both a method and an id."""
    server = serve(MODERN)
    for tool, arguments in (("count", {"n": 3}), ("log_all", {}), ("grow", {"name": "g"}), ("fail", {"message": "x"})):
        server.call(tool, arguments, token="t")
    assert all("id" not in message for message in server.fence())


@pytest.mark.requirement("M:META-8", "META-01")
def test_a_meta_of_the_handlers_own(shared: Serve) -> None:
    """It wins over what the server would stamp, and the handler's object stays as it is."""
    server = shared(MODERN)
    first, second = server.call("tagged"), server.call("tagged")
    assert first == second
    assert first["_meta"]["com.example/mine"] == [1]
    assert first["_meta"][SERVER_KEY] == {"name": "other", "version": "9"}
    assert json.loads(first["content"][0]["text"]) == first["_meta"]


@pytest.mark.requirement("M:META-16", "M:META-17", "M:BASE-11")
def test_a_capability_that_is_needed_and_not_declared(shared: Serve) -> None:
    server = shared(MODERN)
    call = {"name": "needs_sampling", "arguments": {}}
    for declared in ({}, {"sampling": {}}, {"sampling": True, "elicitation": {"url": {}}}, {"elicitation": {}}):
        error = ask(server, "tools/call", modern(call, capabilities=declared))["error"]
        assert error["code"] == -32021, declared
        required = error["data"]["requiredCapabilities"]
        assert required
        assert set(required) <= {"sampling", "elicitation"}
        assert all(isinstance(value, dict) for value in required.values())
    both = {"sampling": {}, "elicitation": {"url": {}}}
    assert ask(server, "tools/call", modern(call, capabilities=both))["result"]["content"][0]["text"] == "ran"
    assert ask(server, "tools/call", modern(call))["error"]["code"] == -32021


@pytest.mark.requirement("M:META-16")
def test_a_capability_that_an_older_client_lacks(shared: Serve) -> None:
    """Older clients do not know the code: they read a result, or a code that they know."""
    reply = shared("2025-06-18").ask("tools/call", {"name": "needs_sampling", "arguments": {}})
    assert reply.get("result", {}).get("isError") or reply["error"]["code"] == METHOD, reply


@pytest.mark.requirement("M:ERR-4")
@pytest.mark.parametrize("kind", ["ResourceNotFound", "UrlElicitationRequired"])
def test_retired_codes_are_not_sent(shared: Serve, kind: str) -> None:
    server = shared(MODERN)
    reply = server.ask("tools/call", {"name": "raiser", "arguments": {"kind": kind}})
    assert reply.get("error", {}).get("code") not in (-32002, -32042), reply


@pytest.mark.requirement("M:VER-S15", "M:TOOL-2", "M:TOOL-3", "M:CACHE-1", "M:CACHE-3")
def test_the_list_of_tools(serve: Serve) -> None:
    server = serve(MODERN)
    listed = server.result("tools/list")
    assert type(listed["ttlMs"]) is int
    assert listed["cacheScope"] == "private"
    for _ in range(5):
        assert server.result("tools/list")["tools"] == listed["tools"]
    server.call("grow", {"name": "late"})
    assert server.fence() == []  # no unsolicited notice in this era
    assert [tool["name"] for tool in server.result("tools/list")["tools"]][-1] == "late"
    for tool in listed["tools"]:
        assert tool["inputSchema"]["type"] == "object"
