"""The handshake as raw bytes: who may say what when, and which revision comes out of it."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import Serve
from .messages import ABSENT, HANDSHAKES, METHOD, MODERN, PARAMS, REQUEST, encode, envelope, hello, modern, request

NEWEST = HANDSHAKES[-1]


@pytest.mark.requirement("LIFE-02", "LIFE-08", "BASE-01", "SEED-16")
@pytest.mark.parametrize(
    ("revision", "instructions"), [*((revision, "Read me.") for revision in HANDSHAKES), (NEWEST, None)]
)
def test_a_supported_revision_is_answered_with_itself(serve: Serve, revision: str, instructions: Any) -> None:
    server = serve(**({"instructions": instructions} if instructions else {}))
    found = server.initialize(revision)
    assert found["protocolVersion"] == revision
    assert found["serverInfo"]["name"] == "plain"
    assert found["serverInfo"]["version"] == "1.2.3"
    assert "tools" in found["capabilities"]
    assert found.get("instructions", ABSENT) == (instructions or ABSENT)
    assert set(found) <= {"protocolVersion", "serverInfo", "capabilities", "instructions", "_meta"}
    server.lives()


@pytest.mark.requirement("LIFE-09", "LIFE-10", "M:VER-S13", "SEED-17")
@pytest.mark.parametrize("offer", ["1999-01-01", "2099-12-31", "", "2025-06-18 ", MODERN])
def test_an_unknown_revision_is_answered_with_the_newest(serve: Serve, offer: str) -> None:
    server = serve()
    assert server.initialize(offer)["protocolVersion"] == NEWEST
    server.lives()


@pytest.mark.requirement("LIFE-09", "LIFE-10", "LIFE-12")
def test_the_newest_is_the_newest_that_is_served(serve: Serve) -> None:
    server = serve(revisions=["2024-11-05", "2025-03-26"])
    assert server.initialize("2025-11-25")["protocolVersion"] == "2025-03-26"
    server.lives()


@pytest.mark.requirement("LIFE-24", "SEED-17")
@pytest.mark.parametrize("offer", ["1999-01-01", MODERN])
def test_a_strict_server_refuses_instead(serve: Serve, offer: str) -> None:
    server = serve(strict_version=True)
    reply = server.ask("initialize", hello(offer))
    assert reply["error"]["code"] == PARAMS
    assert reply["error"]["data"]["requested"] == offer
    assert set(reply["error"]["data"]["supported"]) >= set(HANDSHAKES)
    assert server.initialize("2025-06-18")["protocolVersion"] == "2025-06-18"  # it may try again
    server.lives()


@pytest.mark.requirement("LIFE-32")
@pytest.mark.parametrize("version", [1, None, True, [], {}, 2025.5, ABSENT])
def test_a_protocol_version_is_a_string(shared: Serve, version: Any) -> None:
    server = shared()
    params = hello(version)
    if version is ABSENT:
        del params["protocolVersion"]
    assert server.ask("initialize", params)["error"]["code"] == PARAMS
    assert server.fence() == []


@pytest.mark.requirement("LIFE-32")
@pytest.mark.parametrize("change", [{"capabilities": 1}, {"capabilities": []}, {"clientInfo": "me"}])
def test_a_malformed_handshake_is_refused(shared: Serve, change: dict[str, Any]) -> None:
    server = shared()
    assert server.ask("initialize", {**hello("2025-06-18"), **change})["error"]["code"] == PARAMS
    assert server.fence() == []


@pytest.mark.requirement("LIFE-14", "BASE-16", "META-01", "META-03")
def test_unknown_members_of_the_handshake_are_ignored(serve: Serve) -> None:
    server = serve()
    params = hello("2025-06-18", experimental={"x": {"y": 1}, "feature": True}, unheardOf=[1], sampling={"z": 1})
    params["clientInfo"].update({"title": "T", "icons": "none", "x": 1})
    params.update({"_meta": {"x/y": 1}, "extra": None})
    assert "result" in server.ask("initialize", params)
    server.notify("notifications/initialized", {"_meta": {"a": 1}, "extra": 1})
    server.lives()


@pytest.mark.requirement("LIFE-30", "PING-08", "M:VER-S9", "M:META-4")
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "logging/setLevel", "no/such/method"])
def test_before_the_handshake_a_dual_server_asks_for_the_envelope(shared: Serve, method: str) -> None:
    server = shared()
    reply = server.ask(method, {"name": "echo", "level": "info"})
    assert reply["error"]["code"] == PARAMS
    assert "io.modelcontextprotocol/protocolVersion" in reply["error"]["message"]
    assert server.result("ping") == {}


@pytest.mark.requirement("LIFE-30", "PING-08")
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "logging/setLevel", "server/discover"])
def test_before_the_handshake_an_older_server_refuses(shared: Serve, method: str) -> None:
    server = shared(revisions=list(HANDSHAKES))
    assert server.ask(method, {})["error"]["code"] == REQUEST
    assert server.result("ping") == {}


@pytest.mark.requirement("PING-01", "PING-02")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_ping(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for params in (None, {}, {"_meta": {"progressToken": 1}}, {"extra": 1}):
        assert server.result("ping", params) == {}


@pytest.mark.requirement("PING-08", "LIFE-05", "SEED-18")
def test_between_the_reply_and_initialized(serve: Serve) -> None:
    """The server says nothing of its own accord, and answers ping."""
    server = serve()
    server.write(request(1, "ping"), request(2, "initialize", hello("2025-06-18")), request(3, "ping"))
    assert sorted(server.message()["id"] for _ in range(3)) == [1, 2, 3]
    assert not server.poll(0.05)
    server.notify("notifications/initialized")
    server.revision = "2025-06-18"
    server.lives()


def test_requests_that_hurry_past_initialized_are_served(serve: Serve) -> None:
    """Some clients send no notification at all; strictness here would help nobody."""
    server = serve()
    server.write(request(1, "initialize", hello("2025-06-18")), request(2, "tools/list"))
    assert server.answer(1)["result"]
    assert server.answer(2)["result"]["tools"]


@pytest.mark.requirement("LIFE-31")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_second_initialize_opens_the_session_anew(serve: Serve, revision: str) -> None:
    """Bridges pass on the handshakes of several clients."""
    server = serve(revision)
    assert server.ask("initialize", hello("5"))["result"]["protocolVersion"] == NEWEST
    assert server.ask("initialize", {})["error"]["code"] == PARAMS  # and changes nothing
    assert NEWEST in server.text("about")
    for offer in (*HANDSHAKES, revision):
        assert server.result("initialize", hello(offer))["protocolVersion"] == offer
        server.notify("notifications/initialized")
        assert offer in server.text("about")
    server.revision = revision
    server.call("grow", {"name": "late"})
    assert [message["method"] for message in server.fence()] == ["notifications/tools/list_changed"]
    server.lives()


@pytest.mark.requirement("LIFE-31")
def test_a_second_initialize_before_initialized(serve: Serve) -> None:
    server = serve()
    server.write(request(1, "initialize", hello("2025-06-18")), request(2, "initialize", hello("2025-11-25")))
    assert server.answer(1)["result"]["protocolVersion"] == "2025-06-18"
    assert server.answer(2)["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.requirement("LIFE-12")
def test_two_processes_two_revisions(serve: Serve) -> None:
    servers = [serve("2024-11-05"), serve("2025-11-25")]
    assert ["2024-11-05" in servers[0].text("about"), "2025-11-25" in servers[1].text("about")] == [True, True]


@pytest.mark.requirement("BASE-15", "LIFE-15", "LIFE-16", "TOOL-01")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_server_without_any_feature(serve: Serve, revision: str) -> None:
    server = serve(tools=False)
    assert "tools" not in server.initialize(revision)["capabilities"]
    assert server.result("ping") == {}
    assert server.ask("tools/list")["error"]["code"] == METHOD
    assert server.fence() == []


@pytest.mark.requirement("LIFE-16", "BASE-17", "BASE-18")
@pytest.mark.parametrize(
    "method",
    [
        "foo/bar", "prompts/list", "prompts/get", "resources/list", "resources/read",
        "resources/templates/list", "resources/subscribe", "completion/complete", "sampling/createMessage",
        "roots/list", "elicitation/create", "tasks/list", "subscriptions/listen", "initialized",
        "notifications/initialized", "notifications/cancelled", "rpc.discover", "tools", "tools/",
        "/tools/list", "TOOLS/LIST",
    ],
)  # fmt: skip
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_methods_that_are_not_there(shared: Serve, revision: str, method: str) -> None:
    server = shared(revision)
    assert server.ask(method, {})["error"]["code"] == METHOD
    assert server.fence() == []


@pytest.mark.requirement("BASE-10")
@pytest.mark.parametrize("method", ["notifications/nope", "tools/list", "ping", "initialize", "notifications/message"])
@pytest.mark.parametrize("params", [None, {}, {"x": 1}, [1], "x"])
def test_no_notification_is_answered(shared: Serve, method: str, params: Any) -> None:
    server = shared("2025-06-18")
    server.write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})
    server.lives()


@pytest.mark.requirement("BASE-10")
def test_no_notification_is_answered_before_the_handshake(shared: Serve) -> None:
    server = shared()
    for method in ("notifications/initialized", "notifications/cancelled", "tools/list", "nope"):
        server.notify(method)
        server.notify(method, {"_meta": {"a": 1}})
    assert server.fence() == []


@pytest.mark.requirement("LIFE-13", "LIFE-15")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_list_changed_is_sent_to_a_session(serve: Serve, revision: str) -> None:
    server = serve()
    declared = server.initialize(revision)["capabilities"]["tools"]
    server.call("grow", {"name": "late"})
    methods = [message["method"] for message in server.fence()]
    expected = ["notifications/tools/list_changed"] if declared.get("listChanged") else []
    assert methods == expected
    assert "late" in [tool["name"] for tool in server.result("tools/list")["tools"]]


@pytest.mark.requirement("M:VER-S5", "M:VER-S6", "M:VER-S7")
def test_the_eras_meet_on_one_pipe(serve: Serve) -> None:
    """Modern requests before, during and after a handshake: each message is judged by itself."""
    server = serve()
    call = {"name": "about", "arguments": {}}
    server.send(encode(request("m1", "tools/call", modern(call))))
    assert MODERN in server.answer("m1")["result"]["content"][0]["text"]
    server.initialize("2025-06-18")
    server.send(encode(request("m2", "tools/call", modern(call))))
    assert MODERN in server.answer("m2")["result"]["content"][0]["text"]
    assert "2025-06-18" in server.text("about")
    server.write(request("m3", "server/discover", modern()))
    assert MODERN in server.answer("m3")["result"]["supportedVersions"]
    server.lives()


@pytest.mark.requirement("M:VER-S5")
def test_an_initialize_with_an_envelope_is_a_handshake(serve: Serve) -> None:
    server = serve()
    reply = server.ask("initialize", {**hello("2025-06-18"), "_meta": envelope()})
    assert reply["result"]["protocolVersion"] == "2025-06-18"
    server.notify("notifications/initialized")
    server.lives()


@pytest.mark.requirement("M:VER-S8")
def test_a_bare_meta_is_not_modern(shared: Serve) -> None:
    server = shared("2025-06-18")
    found = server.call("report", {"values": [1]}, token=5)
    assert "resultType" not in found
    assert [message["params"]["progressToken"] for message in server.fence()] == [5]


@pytest.mark.requirement("M:VER-S12", "M:ERR-8")
def test_a_modern_only_server_names_its_revision(serve: Serve) -> None:
    server = serve(revisions=[MODERN])
    error = server.ask("initialize", hello("2025-06-18"))["error"]
    assert MODERN in str(error)
    server.revision = MODERN
    server.lives()
