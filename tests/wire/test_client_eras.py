"""How a client finds out over stdio which revision its server speaks: each way through the probe
and the handshake.

The table in tests/unit/test_lifecycle.py says which answer leads to which way.
"""

from __future__ import annotations

from typing import Any, Dict

import pytest

import minimcp

from .clients import HANDSHAKE, PATIENCE, Script
from .messages import CAPABILITIES_KEY, CLIENT_KEY, HANDSHAKES, MODERN, VERSION_KEY

PROBE, SHAKE = ["server/discover"], ["initialize", "notifications/initialized"]
UNKNOWN = {"error": -32601}


def refused(*supported: Any) -> Dict[str, Any]:
    """An answer that refuses the version and names others."""
    return {"error": -32022, "data": {"supported": list(supported), "requested": MODERN}}


requirement = pytest.mark.requirement


def row(name: str, *expected: Any, connect: Any = None, **script: Any) -> Any:
    """Return a row: a server that follows a script, and the expected outcome. The last positional
    argument is the mark."""
    return pytest.param(
        *expected[:-1], connect or {}, script, marks=expected[-1], id=name.replace(" ", "-")
    )


SPOKEN = [
    row("the probe is answered", "auto", MODERN, PROBE, requirement("M:VER-C4", "M:STD-3")),
    row("unknown versions are passed over", "auto", MODERN, PROBE, requirement("M:DISC-4"), discover="future"),
    row("any other answer", "auto", HANDSHAKE, PROBE + SHAKE, requirement(
        "M:VER-C5", "M:VER-C9", "M:VER-C11", "LIFE-01", "LIFE-03", "LIFE-06", "LIFE-07", "SEED-18"), discover=UNKNOWN),
    *(row(f"{how} to the probe", "auto", HANDSHAKE, PROBE + SHAKE, requirement(
        "M:VER-C5", "M:VER-C10", "M:VER-C11", "M:VER-C24"), discover=how, connect={"probe_timeout": 0.1})
      # and it is not cancelled; a later response changes nothing
      for how in ("silent", "late")),
    *(row(f"refused, but {number} are supported", "auto", MODERN, PROBE * 2, requirement("M:VER-C1"),
             discover=[refused(*supported), "modern"])
      for number, supported in enumerate(([MODERN], [HANDSHAKE, MODERN]))),
    row("told to shake hands", "handshake", HANDSHAKE, SHAKE, requirement("M:VER-C23", "M:VER-C11")),
    row("pinned, and slow", MODERN, MODERN, PROBE, requirement("M:VER-C23", "M:VER-C24"), discover="slow",
           connect={"probe_timeout": 0.05}),
    *(row(f"pinned to {revision}", revision, revision, SHAKE, requirement("M:VER-C23", "LIFE-08", "LIFE-12"))
      for revision in HANDSHAKES),
    *(row(f"offered {revision}", "handshake", revision, SHAKE, requirement("LIFE-12"), initialize=revision)
      for revision in HANDSHAKES),
]  # fmt: skip


@requirement("M:META-1", "M:META-2", "M:META-3", "M:META-18", "M:VER-C19")
@pytest.mark.parametrize("mode, revision, methods, options, script", SPOKEN)
def test_negotiated_revisions_and_their_messages(
    scripted: Script, mode: str, revision: str, methods: Any, options: Any, script: Any
) -> None:
    server = scripted(**script)
    with server.connect(mode, **options) as client:
        assert client.revision == revision
        assert client.server_info and client.server_info.name == "scripted"
        assert (
            client.list_tools()[0].name == "echo"
            and client.call_tool("echo", {"text": "still"}).text == "still"
        )
        with pytest.raises(minimcp.MethodNotFound):
            client.call_tool("code", {"code": -32601})
        assert client.revision == revision, "as long as the connection"
    assert server.methods() == [*methods, "tools/list", "tools/call", "tools/call"]
    for message in server.messages("initialize"):
        assert set(message["params"]) >= {"protocolVersion", "capabilities", "clientInfo"}
        assert message["params"]["protocolVersion"] == (mode if mode in HANDSHAKES else HANDSHAKE)
    for message in server.messages()[-3:] if revision != MODERN else ():
        assert "_meta" not in message.get("params", {})
    for message in server.messages("server/discover") + (
        server.messages() if revision == MODERN else []
    ):
        meta = message["params"]["_meta"]
        assert (meta[VERSION_KEY], meta[CAPABILITIES_KEY]) == (MODERN, {}), (
            "nothing was given that answers a question"
        )
        assert set(meta[CLIENT_KEY]) >= {"name", "version"}


SILENT = {"probe_timeout": 0.05, "connect_timeout": 0.2}
NO_TIME = (minimcp.RequestTimeout, minimcp.ConnectionFailed)
NO_REVISION, FAILED = minimcp.UnsupportedRevision, minimcp.McpError

FAILED_ROWS = [
    row("refused for ever", "auto", NO_REVISION, "", None, requirement("M:VER-C2", "M:VER-C6", "LIFE-23"),
          discover=refused(MODERN)),
    row("locked and silent", "auto", FAILED, "", PROBE + SHAKE[:1] + PROBE, requirement("M:VER-C12", "M:VER-C2"),
          discover="silent", initialize="locked", connect={"probe_timeout": 0.1}),
    *(row(f"pinned to the new era {number}", MODERN, FAILED, MODERN, PROBE, requirement(
        "M:VER-C22", "M:VER-C23", "LIFE-23"), discover=answer)
      for number, answer in enumerate((UNKNOWN, "older", {"result": {}}, "exit"))),
    row("pinned to another", "2025-06-18", NO_REVISION, "2025-03-26", SHAKE[:1], requirement(
        "M:VER-C23", "LIFE-11", "LIFE-23", "SEED-17", "X-01"), initialize="2025-03-26"),
    *(row(f"{mode}, offered {offer}", mode, NO_REVISION, offer, PROBE * (mode == "auto") + SHAKE[:1], requirement(
        "LIFE-11", "LIFE-23", "M:VER-S13"), discover=UNKNOWN, initialize=offer)
      for mode in ("auto", "handshake") for offer in ("2099-01-01", MODERN)),
    row("a handshake refused", "auto", FAILED, "refused.*1999-01-01", PROBE + SHAKE[:1], requirement(
        "LIFE-24", "LIFE-23"), discover=UNKNOWN,
        initialize={"error": -32602, "data": {"supported": ["1999-01-01"], "requested": HANDSHAKE}}),
    *(row(f"garbage {number}", "handshake", FAILED, "", SHAKE[:1], requirement("LIFE-02", "LIFE-11"), initialize={
        "result": answer}) for number, answer in enumerate((
            {}, {"protocolVersion": 5, "capabilities": {}}, {"protocolVersion": HANDSHAKE}))),
    *(row(f"{mode}, never answered", mode, NO_TIME, "peer.py", None, requirement(
        "LIFE-17", "LIFE-18", "CANC-03", "M:VER-C11", "M:CAN-7"), discover="silent", initialize="silent",
        connect=SILENT) for mode in ("auto", "handshake")),
    row("exits again and again", "auto", minimcp.ConnectionFailed, "4", PROBE + SHAKE[:1], requirement("M:VER-C13"),
          discover="exit", initialize="exit"),
]  # fmt: skip


@pytest.mark.parametrize("mode, error, says, methods, options, script", FAILED_ROWS)
def test_negotiations_that_fail(
    scripted: Script, mode: str, error: Any, says: str, methods: Any, options: Any, script: Any
) -> None:
    """Refusals by version are tried again once or twice, nothing that opens a connection is
    cancelled."""
    server = scripted(**script)
    with pytest.raises(error, match=f"(?s){says}"):
        server.connect(mode, **options)
    if methods is not None:
        assert server.methods() == methods
    allowed = (
        {"server/discover"}
        if script.get("initialize") != "silent"
        else {"server/discover", "initialize"}
    )
    assert methods is not None or (set(server.methods()) <= allowed and len(server.methods()) <= 3)
    assert len(server.journal("eof")) <= 1


@requirement("M:META-10", "M:META-9", "BASE-16", "M:BASE-19")
@pytest.mark.parametrize("info", [5, None, {}, {"name": 1}])
def test_a_malformed_server_name_is_read_as_none(scripted: Script, info: Any) -> None:
    server = scripted(
        more={"_meta": {"io.modelcontextprotocol/serverInfo": info, "com.example/x": 1}}
    )
    with server.connect() as client:
        assert (client.revision, client.server_info) == (MODERN, None)


@requirement("M:VER-C12")
@pytest.mark.parametrize("discover", [["silent", "modern"], ["late", "modern"]])
def test_a_handshake_refused_by_a_locked_pipe_probes_once_more(
    scripted: Script, discover: Any
) -> None:
    for seconds in PATIENCE:  # the second probe has the same time limit
        server = scripted(discover=discover, initialize="locked")
        try:
            client = server.connect(probe_timeout=seconds)
            break
        except minimcp.UnsupportedRevision:
            assert seconds < PATIENCE[-1]
    with client:
        assert client.revision == MODERN
        client.list_tools()
    assert server.methods() == ["server/discover", "initialize", "server/discover", "tools/list"]


@requirement("M:VER-C13")
def test_a_server_that_exits_on_the_probe_is_started_again(scripted: Script) -> None:
    server = scripted(discover="exit")
    with server.connect() as client:
        assert client.revision == HANDSHAKE
        client.list_tools()
    first, second = (record["pid"] for record in server.journal("start"))
    assert server.methods() == [*PROBE, *SHAKE, "tools/list"]
    assert [record["pid"] for record in server.journal("line")] == [first] + [second] * 3


@requirement("LIFE-04", "PING-08", "PING-01", "BASE-17", "BASE-18", "BASE-04")
def test_pings_are_answered_before_the_handshake(scripted: Script) -> None:
    server = scripted(initialize="ping-first")
    with server.connect("handshake") as client:
        client.list_tools()
    refusal, pong = sorted(server.messages("answer"), key=lambda answer: "result" in answer)
    assert pong["result"] == {} and pong["id"] == server.messages("initialize")[0]["id"]
    assert refusal["id"] == "odd" and refusal["error"]["code"] in (-32601, -32600)
    assert [name for name in server.methods() if name != "answer"] == [*SHAKE, "tools/list"]


@requirement("LIFE-29", "LIFE-14", "LIFE-15", "LIFE-01", "M:META-3", "M:META-17")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_descriptions_of_client_and_server_arrive(scripted: Script, mode: str) -> None:
    for capabilities in (
        {"tools": {}, "experimental": {"x": {"deep": [1]}}, "vendor": {}, "logging": {}},
        {
            "tools": {"listChanged": "yes", "x": 1},
            "logging": None,
            "experimental": 5,
        },  # odd values do no harm
    ):
        server = scripted(capabilities=capabilities, instructions="Be kind.")
        with server.connect(mode, client_info={"name": "mine", "version": "9"}) as client:
            assert client.instructions == "Be kind." and client.list_tools()
            assert client.server_info and client.server_info.version == "0"
        first = server.messages()[0]["params"]
        sent = first["clientInfo"] if mode == "handshake" else first["_meta"][CLIENT_KEY]
        assert (sent["name"], sent["version"]) == ("mine", "9")


@requirement("M:VER-C23")
def test_unknown_revisions_are_rejected_before_anything_starts(scripted: Script) -> None:
    server = scripted()
    for revision in ("2099-01-01", "modern", "", "2025"):
        with pytest.raises(ValueError):
            server.connect(revision)
    for options in ({"verify": False}, {"headers": {}}, {"auth": "x"}, {"nonsense": 1}):
        with pytest.raises(TypeError):
            server.connect(**options)
    assert server.journal() == []
