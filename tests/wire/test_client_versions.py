"""Which revision a client offers, takes and insists on, and what it tells when nothing comes of it."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import minimcp

from .clients import HANDSHAKE, Script, make_scripted, spoken, wall_below  # noqa: F401
from .messages import HANDSHAKES, MODERN, VERSION_KEY


def envelopes(messages: List[Dict[str, Any]]) -> List[str]:
    """The version that each of these requests names."""
    return [message["params"]["_meta"][VERSION_KEY] for message in messages]


@pytest.mark.requirement("M:VER-C23", "M:VER-C11")
def test_told_to_shake_hands_it_never_probes(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        assert spoken(client) == HANDSHAKE
        client.list_tools()
    assert server.methods() == ["initialize", "notifications/initialized", "tools/list"]


@pytest.mark.requirement("M:VER-C23", "M:VER-C24")
def test_pinned_to_the_new_era_a_slow_server_gets_the_time_to_connect(scripted: Script) -> None:
    server = scripted(discover="slow")
    with server.connect(MODERN, probe_timeout=0.05) as client:  # there is no older handshake to try
        assert spoken(client) == MODERN
        assert client.call_tool("echo").text == "well"
    assert server.methods() == ["server/discover", "tools/call"]
    assert envelopes(server.messages()) == [MODERN] * 2


@pytest.mark.requirement("M:VER-C22", "M:VER-C23", "LIFE-23")
@pytest.mark.parametrize("discover", [{"error": -32601}, "older", {"result": {}}, "exit"])
def test_pinned_to_the_new_era_an_older_server_fails_loudly(scripted: Script, discover: Any) -> None:
    server = scripted(discover=discover)
    with pytest.raises(minimcp.McpError) as caught:
        server.connect(MODERN)
    assert MODERN in str(caught.value)
    assert server.methods() == ["server/discover"]


@pytest.mark.requirement("M:VER-C23", "LIFE-06", "LIFE-08", "LIFE-12")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_pinned_to_a_handshake_revision_it_offers_exactly_that(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        assert spoken(client) == revision
    assert server.methods() == ["initialize", "notifications/initialized"]
    assert server.messages("initialize")[0]["params"]["protocolVersion"] == revision


@pytest.mark.requirement("M:VER-C23", "LIFE-11", "LIFE-23", "SEED-17", "X-01")
def test_pinned_to_a_revision_another_answer_is_refused(scripted: Script) -> None:
    server = scripted(initialize="2025-03-26")
    with pytest.raises(minimcp.UnsupportedRevision, match="2025-03-26"):
        server.connect("2025-06-18")
    assert server.methods() == ["initialize"]


@pytest.mark.requirement("LIFE-12")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_counter_offer_that_it_speaks_is_taken(scripted: Script, revision: str) -> None:
    server = scripted(initialize=revision)
    with server.connect("handshake") as client:
        assert spoken(client) == revision
    assert server.methods() == ["initialize", "notifications/initialized"]


@pytest.mark.requirement("LIFE-11", "LIFE-23", "M:VER-S13")
@pytest.mark.parametrize("revision", ["2099-01-01", MODERN])
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_a_counter_offer_that_it_does_not_speak_ends_the_connection(
    scripted: Script, mode: str, revision: str
) -> None:
    server = scripted(discover={"error": -32601}, initialize=revision)
    with pytest.raises(minimcp.UnsupportedRevision, match=revision):
        server.connect(mode)
    assert "notifications/initialized" not in server.methods()
    assert len(server.journal("eof")) == 1


@pytest.mark.requirement("LIFE-24", "LIFE-23")
def test_a_refused_handshake_is_told_with_what_the_server_said(scripted: Script) -> None:
    refusal = {"error": -32602, "data": {"supported": ["1999-01-01"], "requested": HANDSHAKE}}
    server = scripted(discover={"error": -32601}, initialize=refusal)
    with pytest.raises(minimcp.McpError) as caught:
        server.connect()
    assert "refused" in str(caught.value) and "1999-01-01" in str(caught.value)
    assert server.methods() == ["server/discover", "initialize"]


@pytest.mark.requirement("LIFE-02", "LIFE-11")
@pytest.mark.parametrize(
    "answer", [{}, {"protocolVersion": 5, "capabilities": {}}, {"protocolVersion": HANDSHAKE}]
)
def test_a_handshake_answered_by_garbage_is_a_violation(scripted: Script, answer: Dict[str, Any]) -> None:
    server = scripted(initialize={"result": answer})
    with pytest.raises(minimcp.McpError):
        server.connect("handshake")
    assert server.methods() == ["initialize"]


@pytest.mark.requirement("LIFE-17", "LIFE-18", "CANC-03", "M:VER-C11", "M:CAN-7")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_a_handshake_that_is_never_answered_times_out_and_is_not_cancelled(
    scripted: Script, mode: str
) -> None:
    server = scripted(discover="silent", initialize="silent")
    with wall_below(1), pytest.raises((minimcp.RequestTimeout, minimcp.ConnectionFailed)) as caught:
        server.connect(mode, probe_timeout=0.05, connect_timeout=0.2)
    assert "peer.py" in str(caught.value)
    assert set(server.methods()) <= {"server/discover", "initialize"}


@pytest.mark.requirement("LIFE-04", "PING-08", "PING-01", "BASE-17", "BASE-18", "BASE-04")
def test_before_the_handshake_is_answered_pings_are(scripted: Script) -> None:
    server = scripted(initialize="ping-first")
    with server.connect("handshake") as client:
        client.list_tools()
    refusal, pong = sorted(server.messages("answer"), key=lambda answer: "result" in answer)
    assert pong["result"] == {} and pong["id"] == server.messages("initialize")[0]["id"]
    assert refusal["id"] == "odd" and refusal["error"]["code"] in (-32601, -32600)
    assert [name for name in server.methods() if name != "answer"] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
    ]


@pytest.mark.requirement("LIFE-29", "LIFE-14", "LIFE-15")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_what_the_server_says_of_itself_reaches_the_host(scripted: Script, mode: str) -> None:
    capabilities = {"tools": {}, "experimental": {"x": {"deep": [1]}}, "vendor": {}, "logging": {}}
    server = scripted(capabilities=capabilities, instructions="Be kind.")
    with server.connect(mode) as client:
        assert client.instructions == "Be kind."
        assert client.server_info and client.server_info.version == "0"
        assert client.list_tools()


@pytest.mark.requirement("M:VER-C19")
@pytest.mark.parametrize("discover", ["modern", {"error": -32601}], ids=["modern", "older"])
def test_the_era_holds_as_long_as_the_connection(scripted: Script, discover: Any) -> None:
    server = scripted(discover=discover)
    with server.connect() as client:
        revision = spoken(client)
        for _ in range(3):
            client.call_tool("echo")
        with pytest.raises(minimcp.McpError):
            client.call_tool("code", {"code": -32601})
        client.list_tools()
        assert spoken(client) == revision
    assert server.methods().count("server/discover") == 1
    assert server.methods().count("initialize") == (0 if discover == "modern" else 1)


@pytest.mark.requirement("M:VER-C23")
@pytest.mark.parametrize("revision", ["2099-01-01", "modern", "", "2025"])
def test_a_revision_that_nobody_knows_is_refused_before_anything_is_started(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with pytest.raises(ValueError):
        server.connect(revision)
    assert server.journal() == []
