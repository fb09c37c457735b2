"""What went over the wire, to look at and to check."""

from __future__ import annotations

from typing import Any, List

import pytest

from minimcp import Context, InvalidParams, Server, Text, connect
from minimcp.protocol.versions import REVISIONS
from minimcp.testing import Transcript

from .support import WAIT

NEWEST = REVISIONS[-1].name


def forecaster(**options: Any) -> Server:
    server = Server("weather", **options)

    @server.tool
    def forecast(city: str, ctx: Context) -> Text:
        """Forecast."""
        ctx.progress(1, 1)
        return Text(f"rain in {city}")

    @server.prompt
    def ask() -> str:
        """Ask."""
        return "?"

    return server


def record(revision: str = "handshake") -> Transcript:
    """The transcript of one call and of one failed request."""
    transcript = Transcript()
    with connect(forecaster(), trace=transcript, revision=revision) as client:
        client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda report: None)
        with pytest.raises(InvalidParams):
            client.get_prompt("none")
    return transcript


@pytest.fixture(scope="module")
def transcript() -> Transcript:
    """One for all that only look at it."""
    return record()


def test_a_transcript_is_in_order(transcript: Transcript) -> None:
    assert [(entry.direction, entry.kind, entry.names[0]) for entry in transcript] == [
        ("-->", "request", "initialize"),
        ("<--", "result", "result of initialize"),
        ("-->", "notification", "notifications/initialized"),
        ("-->", "request", "tools/call"),
        ("<--", "notification", "notifications/progress"),
        ("<--", "result", "result of tools/call"),
        ("-->", "request", "prompts/get"),
        ("<--", "error", "error -32602 of prompts/get"),
    ]
    assert (len(transcript), repr(transcript)) == (8, "<Transcript 8 messages>")


def test_a_transcript_finds_messages(transcript: Transcript) -> None:
    assert transcript.methods() == [
        "initialize", "notifications/initialized", "tools/call", "notifications/progress", "prompts/get",
    ]
    assert [request["method"] for request in transcript.requests()] == ["initialize", "tools/call", "prompts/get"]
    (call,) = transcript.requests("tools/call")
    assert call["params"]["arguments"] == {"city": "Oslo"}
    assert transcript.answer_to(call)["result"]["content"] == [{"type": "text", "text": "rain in Oslo"}]
    assert transcript.answer_to(transcript.requests("prompts/get")[0])["error"]["code"] == -32602
    assert transcript.requests("ping") == []
    with pytest.raises(AssertionError, match="^{'id': 9} is no request of this exchange:\n  --> initialize #"):
        transcript.answer_to({"id": 9})


def test_a_flow_that_passed(transcript: Transcript) -> None:
    flows: List[List[Any]] = [
        ["--> tools/call", "<-- notifications/progress", "<-- result"],
        ["<-- result of tools/call", "--> prompts/get", "<-- error"],
        ["<-- error -32602"],
        ["<-- error of prompts/get"],
        ["<-- error -32602 of prompts/get"],
        ["--> initialize", ..., "--> tools/call", ..., "<-- result of tools/call", ...],
        [..., "<-- error"],
        [],
    ]
    for flow in flows:
        transcript.assert_flow(*flow)


def shown(transcript: Transcript, *flow: Any) -> List[str]:
    with pytest.raises(AssertionError) as failed:
        transcript.assert_flow(*flow)
    lines = str(failed.value).splitlines()
    return [lines[0], *(line.partition("  ")[0].partition(" #")[0] for line in lines[1:] if line[0] != " ")]


def test_a_flow_that_did_not(transcript: Transcript) -> None:
    call, progress, result = "--> tools/call", "<-- notifications/progress", "<-- result of tools/call"
    assert shown(transcript, call, result) == [f"'{result}' is missing:", f"= {call}", f"- {result}", f"+ {progress}"]
    assert shown(transcript, call, ..., result, "--> ping") == [
        "'--> ping' is missing:", f"= {call}", f"= {result}", "- --> ping", "+ --> prompts/get",
    ]
    assert shown(transcript, result, ..., call) == [f"'{call}' is missing:", f"= {result}", f"- {call}"]
    assert shown(transcript, "<-- error", call) == [
        f"'{call}' is missing:", "= <-- error -32602 of prompts/get", f"- {call}",
    ]
    assert shown(Transcript(), call) == [f"'{call}' is missing:", f"- {call}"]
    for look in (lambda: Transcript().assert_flow(call), lambda: Transcript().wait_for(call, timeout=0.01)):
        with pytest.raises(AssertionError, match=r"\n  \(nothing passed: did connect, or the Server, get .* trace="):
            look()
    wrong: Any
    for wrong in ("tools/call", "-> tools/call", 5):
        with pytest.raises(ValueError, match="^a message is named like"):
            transcript.assert_flow(wrong)


def test_a_failure_shows_the_test_and_not_the_library(transcript: Transcript) -> None:
    """As pytest prints it: every frame of ours asks to be left out."""
    for look in (
        lambda: transcript.assert_flow("--> ping"), lambda: transcript.answer_to({"id": 99}),
        lambda: transcript.wait_for("--> ping", timeout=0.01),
    ):
        with pytest.raises(AssertionError) as failed:
            look()
        shown = [str(entry.path) for entry in failed.traceback.filter(failed)]
        assert shown and set(shown) == {__file__}


def test_a_transcript_reads_well(transcript: Transcript) -> None:
    lines = str(transcript).splitlines()
    first = transcript.requests()[0]["id"]
    assert lines[0].startswith(f'--> initialize #{first}  {{"protocolVersion": ')
    assert lines[1].startswith(f"<-- result of initialize #{first}  ")
    assert lines[2] == "--> notifications/initialized"
    assert lines[3].endswith('  {"name": "forecast", "arguments": {"city": "Oslo"}}')
    assert lines[4].startswith('<-- notifications/progress  {"progressToken": ')
    assert max(map(len, lines)) < 170 and any(line.endswith("...") for line in lines)


def test_all_that_may_come_over_a_wire() -> None:
    transcript = Transcript()
    for arrow, text in (
        ("-->", '{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        ("<--", '{"jsonrpc":"2.0","id":1,"method":"roots/list"}'),
        ("-->", '{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}'),
        ("<--", "Traceback: oh"),
        ("<--", '[{"jsonrpc":"2.0","id":"1","result":{}},5]'),
        ("<--", '{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}'),
    ):
        transcript(arrow, text)
    ping, roots = transcript.requests()
    assert transcript.answer_to(roots)["result"] == {"roots": []}
    with pytest.raises(AssertionError, match="^--> ping #1 has no answer in this exchange:\n"):
        transcript.answer_to(ping)
    transcript.assert_flow("--> result of roots/list", "<-- noise", "<-- result", "<-- noise", "<-- error -32700")
    assert str(transcript).splitlines()[3:5] == ['<-- noise  "Traceback: oh"', "<-- result #1"]
    transcript.clear()
    assert list(transcript) == []
    transcript("<--", '{"jsonrpc":"2.0","id":1,"result":{}}')
    assert [str(entry) for entry in transcript] == ["<-- result of ping #1"]


def test_what_nobody_waits_for_is_waited_for() -> None:
    transcript = Transcript()
    server = forecaster()
    with connect(server, trace=transcript, revision="handshake") as client:
        client.ping()
        server.remove_tool("forecast")
        assert transcript.wait_for("<-- notifications/tools/list_changed", WAIT).message["jsonrpc"] == "2.0"
    with pytest.raises(AssertionError, match="^no '--> nothing' came within 0 s: this exchange:\n  --> initialize"):
        transcript.wait_for("--> nothing", 0)
    with pytest.raises(ValueError):
        transcript.wait_for("ping")


def test_a_servers_own_transcript_shows_the_other_side() -> None:
    theirs, ours = Transcript(), Transcript()
    with connect(forecaster(trace=theirs), trace=ours, revision=NEWEST) as client:
        client.call_tool("forecast", {"city": "Oslo"})
    ours.assert_flow("--> tools/call", "<-- result")
    theirs.assert_flow("<-- tools/call", "--> result")
