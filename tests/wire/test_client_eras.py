"""How a client finds out over stdio which era its server speaks: every outcome of the probe, and the wire."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

import minimcp

from .clients import HANDSHAKE, PATIENCE, Script, make_scripted, spoken, wall_below  # noqa: F401
from .messages import CAPABILITIES_KEY, CLIENT_KEY, HANDSHAKES, MODERN, VERSION_KEY


def refused(*supported: str) -> Dict[str, Any]:
    """An answer that refuses the version and names others."""
    return {"error": -32022, "data": {"supported": list(supported), "requested": MODERN}}


def envelopes(messages: List[Dict[str, Any]]) -> List[str]:
    """The version that each of these requests names."""
    return [message["params"]["_meta"][VERSION_KEY] for message in messages]


@pytest.mark.requirement("M:VER-C4", "M:META-1", "M:META-2", "M:META-3", "M:META-18", "M:STD-3")
def test_the_probe_is_the_first_line_and_the_era_goes_on_without_a_handshake(scripted: Script) -> None:
    server = scripted()
    with server.connect() as client:
        assert spoken(client) == MODERN
        assert client.server_info and client.server_info.name == "scripted"
        client.list_tools()
        client.call_tool("echo")
    assert server.methods() == ["server/discover", "tools/list", "tools/call"]
    for message in server.messages():
        meta = message["params"]["_meta"]
        assert meta[VERSION_KEY] == MODERN
        assert meta[CAPABILITIES_KEY] == {}  # nothing was given that could answer a question
        assert set(meta[CLIENT_KEY]) >= {"name", "version"}


@pytest.mark.requirement("M:DISC-4", "M:VER-C4")
def test_a_listed_version_is_chosen_and_unknown_ones_are_passed_over(scripted: Script) -> None:
    server = scripted(discover="future")
    with server.connect() as client:
        assert spoken(client) == MODERN
        client.list_tools()
    assert server.methods() == ["server/discover", "tools/list"]


OLD_ANSWERS: Dict[str, Any] = {
    "method-not-found": {"error": -32601},
    "invalid-params": {"error": -32602},
    "invalid-request": {"error": -32600},
    "internal": {"error": -32603},
    "server-error": {"error": -32000},
    "code-zero": {"error": 0},
    "own-code": {"error": 12345, "data": {"supported": [MODERN]}},
    "garbage-text": {"raw": '{"jsonrpc":"2.0","id":ID,"result":"what?"}'},
    "garbage-null": {"raw": '{"jsonrpc":"2.0","id":ID,"result":null}'},
    "garbage-list": {"raw": '{"jsonrpc":"2.0","id":ID,"result":[]}'},
    "garbage-error": {"raw": '{"jsonrpc":"2.0","id":ID,"error":"no"}'},
    "garbage-code": {"raw": '{"jsonrpc":"2.0","id":ID,"error":{"code":"-32022","message":"m"}}'},
    "both": {"raw": '{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":-32022,"message":"m"}}'},
    "empty-result": {"result": {}},
    "versions-text": {
        "result": {"supportedVersions": MODERN, "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
    },
    "versions-numbers": {
        "result": {"supportedVersions": [1], "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}
    },
    "no-capabilities": {"result": {"supportedVersions": [MODERN], "ttlMs": 0, "cacheScope": "private"}},
    "other-result": {"result": {"tools": []}},
}


@pytest.mark.requirement("M:VER-C5", "M:VER-C9", "M:VER-C11", "LIFE-01", "LIFE-03", "LIFE-06", "LIFE-07", "SEED-18")
@pytest.mark.parametrize("name", OLD_ANSWERS)
def test_any_other_answer_leads_to_the_handshake(scripted: Script, name: str) -> None:
    server = scripted(discover=OLD_ANSWERS[name])
    with server.connect() as client:
        assert spoken(client) == HANDSHAKE
        assert client.list_tools()[0].name == "echo"
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    hello = server.messages("initialize")[0]["params"]
    assert set(hello) >= {"protocolVersion", "capabilities", "clientInfo"}
    assert hello["protocolVersion"] == HANDSHAKE
    assert "_meta" not in server.messages("tools/list")[0].get("params", {})


@pytest.mark.requirement("M:VER-C5", "M:VER-C11", "M:VER-C24")
def test_silence_leads_to_the_handshake_and_the_probe_is_not_cancelled(scripted: Script) -> None:
    server = scripted(discover="silent")
    with wall_below(1), server.connect(probe_timeout=0.1) as client:
        assert spoken(client) == HANDSHAKE
        client.call_tool("echo")
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/call"]


@pytest.mark.requirement("M:VER-C10")
def test_a_late_answer_to_the_probe_changes_nothing(scripted: Script) -> None:
    server = scripted(discover="late")
    with server.connect(probe_timeout=0.1) as client:
        assert spoken(client) == HANDSHAKE
        assert client.call_tool("echo", {"text": "still"}).text == "still"
        assert spoken(client) == HANDSHAKE
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/call"]
    assert "_meta" not in server.messages("tools/call")[0]["params"]


@pytest.mark.requirement("M:VER-C6")
@pytest.mark.parametrize("code", [-32020, -32021])
def test_an_error_of_the_new_era_never_leads_to_the_handshake(scripted: Script, code: int) -> None:
    server = scripted(discover={"error": code, "data": {"requiredCapabilities": {"sampling": {}}}})
    with pytest.raises(minimcp.McpError, match="refused"):
        server.connect()
    assert set(server.methods()) == {"server/discover"}
    assert len(server.methods()) <= 2


@pytest.mark.requirement("M:VER-C1")
@pytest.mark.parametrize("supported", [[MODERN], ["2099-01-01", MODERN], [HANDSHAKE, MODERN]])
def test_refused_by_version_it_retries_even_with_the_same_version(
    scripted: Script, supported: List[str]
) -> None:
    server = scripted(discover=[refused(*supported), "modern"])
    with server.connect() as client:
        assert spoken(client) == MODERN
    assert server.methods() == ["server/discover"] * 2
    assert envelopes(server.messages()) == [MODERN] * 2


@pytest.mark.requirement("M:VER-C2", "M:VER-C6", "LIFE-23")
def test_retries_are_bounded(scripted: Script) -> None:
    server = scripted(discover=refused(MODERN))
    with pytest.raises(minimcp.UnsupportedRevision):
        server.connect()
    assert set(server.methods()) == {"server/discover"}
    assert 2 <= len(server.methods()) <= 3


@pytest.mark.requirement("M:VER-C7")
def test_refused_by_version_with_only_older_ones_in_common_it_shakes_hands(scripted: Script) -> None:
    server = scripted(discover=refused(HANDSHAKE, "2025-06-18"))
    with server.connect() as client:
        assert spoken(client) == HANDSHAKE
        client.list_tools()
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]


@pytest.mark.requirement("M:VER-C6", "M:VER-C7", "LIFE-23")
@pytest.mark.parametrize("supported", [["2099-01-01"], []])
def test_refused_by_version_with_nothing_in_common_it_says_so(scripted: Script, supported: List[str]) -> None:
    server = scripted(discover=refused(*supported))
    with pytest.raises(minimcp.UnsupportedRevision) as caught:
        server.connect()
    assert all(version in str(caught.value) for version in supported)
    assert server.methods() == ["server/discover"]


@pytest.mark.requirement("M:VER-C6")
@pytest.mark.parametrize("data", [None, {"supported": MODERN}, {"supported": [1]}, [MODERN], "no"])
def test_refused_by_version_without_a_list_it_says_so(scripted: Script, data: Any) -> None:
    server = scripted(discover={"error": -32022, "data": data})
    with pytest.raises(minimcp.UnsupportedRevision):
        server.connect()
    assert set(server.methods()) == {"server/discover"}


@pytest.mark.requirement("M:VER-C8", "LIFE-06")
def test_a_discovery_of_older_versions_only_shakes_hands(scripted: Script) -> None:
    server = scripted(discover="older")
    with server.connect() as client:
        assert spoken(client) in HANDSHAKES
        client.list_tools()
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    assert server.messages("initialize")[0]["params"]["protocolVersion"] in HANDSHAKES


@pytest.mark.requirement("M:VER-C8", "LIFE-23")
def test_a_discovery_with_nothing_in_common_says_so(scripted: Script) -> None:
    server = scripted(discover="stranger")
    with pytest.raises(minimcp.UnsupportedRevision, match="2099-01-01"):
        server.connect()
    assert server.methods() == ["server/discover"]


@pytest.mark.requirement("M:VER-C9")
@pytest.mark.parametrize("more", [{"ttlMs": -1}, {"ttlMs": 0.5}, {"ttlMs": 10**12}, {"x-extra": [None]}])
def test_an_odd_time_to_live_is_mended(scripted: Script, more: Dict[str, Any]) -> None:
    server = scripted(more=more)
    with server.connect() as client:
        assert spoken(client) == MODERN
        client.list_tools()
    assert "initialize" not in server.methods()


@pytest.mark.requirement("M:META-10", "M:META-9", "BASE-16", "M:BASE-19")
@pytest.mark.parametrize("info", [5, None, {}, {"name": 1}])
def test_a_malformed_server_name_reads_as_none(scripted: Script, info: Any) -> None:
    server = scripted(more={"_meta": {"io.modelcontextprotocol/serverInfo": info, "com.example/x": 1}})
    with server.connect() as client:
        assert spoken(client) == MODERN
        assert client.server_info is None


@pytest.mark.requirement("M:VER-C12")
@pytest.mark.parametrize("discover", [["silent", "modern"], ["late", "modern"]])
def test_a_handshake_refused_by_a_locked_pipe_probes_once_more(scripted: Script, discover: List[str]) -> None:
    for seconds in PATIENCE:  # the second probe has no more time than that either
        server = scripted(discover=discover, initialize="locked")
        try:
            client = server.connect(probe_timeout=seconds)
            break
        except minimcp.UnsupportedRevision:
            assert seconds < PATIENCE[-1]
    with client:
        assert spoken(client) == MODERN
        client.list_tools()
    assert server.methods() == ["server/discover", "initialize", "server/discover", "tools/list"]


@pytest.mark.requirement("M:VER-C12", "M:VER-C2")
def test_a_locked_pipe_that_never_answers_the_probe_ends_in_an_error(scripted: Script) -> None:
    server = scripted(discover="silent", initialize="locked")
    with pytest.raises(minimcp.McpError):
        server.connect(probe_timeout=0.1)
    assert server.methods().count("initialize") == 1
    assert server.methods().count("server/discover") == 2


@pytest.mark.requirement("M:VER-C13")
def test_a_server_that_exits_on_the_probe_is_started_again(scripted: Script) -> None:
    server = scripted(discover="exit")
    with server.connect() as client:
        assert spoken(client) == HANDSHAKE
        client.list_tools()
    assert len(server.journal("start")) == 2
    first, second = (record["pid"] for record in server.journal("start"))
    assert first != second
    assert server.methods() == ["server/discover", "initialize", "notifications/initialized", "tools/list"]
    assert [record["pid"] for record in server.journal("line")] == [first] + [second] * 3


@pytest.mark.requirement("M:VER-C13")
def test_it_is_started_again_only_once(scripted: Script) -> None:
    server = scripted(discover="exit", initialize="exit")
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        server.connect()
    assert caught.value.exit_code == 4
    assert server.methods() == ["server/discover", "initialize"]
