"""`minimcp.testing`: a Context without a connection, and a record of what went over the wire."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from minimcp import Context, Server, connect
from minimcp.errors import Cancelled, Declined, InvalidParams, Refused, ResourceNotFound
from minimcp.features.questions import Elicit, ElicitUrl, ListRoots, Sample
from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS
from minimcp.testing import Question, Transcript, context
from minimcp.types import Answer, Root, SampleResult, Text

from ..support import WAIT, texts_kept_by

OLDEST, NEWEST = REVISIONS[0].name, REVISIONS[-1].name
for_revisions = pytest.mark.parametrize("revision", [NEWEST_HANDSHAKE.name, NEWEST])


@dataclass
class Trip:
    city: str
    days: int = 3


def plan(ctx: Context) -> str:
    """A handler with one of everything."""
    ctx.progress(0, 2, "asking")
    trip = ctx.elicit("Where to?", Trip, key="trip").require()
    booked = ctx.step("book", lambda: {"city": trip.city})
    ctx.progress(2, 2)
    ctx.info(booked)
    return f"{trip.city}, {trip.days} days"


@for_revisions
def test_a_handler_runs_without_a_server(revision: str) -> None:
    threads = set(threading.enumerate())
    ctx = context(answers={"trip": {"city": "Oslo"}}, revision=revision)
    assert plan(ctx) == "Oslo, 3 days"
    assert [(each.progress, each.total, each.message) for each in ctx.reports] == [
        (0, 2, "asking"),
        (2, 2, None),
    ]
    assert [(each.level, each.data) for each in ctx.logs] == [("info", {"city": "Oslo"})]
    assert [message["method"] for message in ctx.sent] == ["notifications/progress"] * 2 + [
        "notifications/message"
    ]
    (question,) = ctx.questions
    assert (question.key, question.kind, question.request.message) == (
        "trip",
        "elicit",
        "Where to?",
    )
    assert (ctx.round, len(ctx.call_id), ctx.call_id) == (1, 32, ctx.call_id)
    assert not set(threading.enumerate()) - threads


@for_revisions
def test_answers_by_key_and_by_kind(revision: str, tmp_path: Path) -> None:
    root = Root.from_path(tmp_path)
    ctx = context(
        {
            "elicit": lambda question: dict.fromkeys(question.request.schema["properties"], "x"),
            "elicit-2": {"age": 7},
            "url-3": None,
            "b": Answer("cancel"),
            "sample": "Hi",
            "c": SampleResult("C!", "model-1"),
            "list_roots": [tmp_path],
        },
        revision=revision,
    )
    assert ctx.elicit("Name?", {"name": str}) == Answer("accept", {"name": "x"})
    assert ctx.elicit("Age?", {"age": int}) == Answer("accept", {"age": 7})
    assert ctx.elicit_url("Pay", "https://example.com/pay") == Answer("decline")
    assert (ctx.sample("Hello").text, ctx.list_roots()) == ("Hi", [root])
    together = ctx.ask_all(
        {
            "a": Elicit("A?", {"a": str}),
            "b": ElicitUrl("B", "https://b"),
            "c": Sample("C"),
            "d": ListRoots(),
        }
    )
    assert (together["a"], together["b"], together["d"]) == (
        Answer("accept", {"a": "x"}),
        Answer("cancel"),
        [root],
    )
    assert (together["c"].text, together["c"].model) == ("C!", "model-1")
    asked = [(each.key, each.kind, type(each.request).__name__) for each in ctx.questions]
    elicit, sample, roots = (
        ("elicit", "ElicitRequest"),
        ("sample", "SampleRequest"),
        ("list_roots", "NoneType"),
    )
    assert asked[:5] == [
        ("elicit-1", *elicit),
        ("elicit-2", *elicit),
        ("url-3", *elicit),
        ("sample-4", *sample),
        ("roots-5", *roots),
    ]
    assert asked[5:] == [("a", *elicit), ("b", *elicit), ("c", *sample), ("d", *roots)]


def test_a_context_may_have_a_token() -> None:
    assert context().auth is None
    ctx = context(auth={"sub": "ada", "scope": "read write", "team": "x"})
    assert ctx.auth is not None
    assert (ctx.auth.subject, ctx.auth.scopes, ctx.auth.claims["team"]) == (
        "ada",
        {"read", "write"},
        "x",
    )


def test_functions_and_errors_as_answers() -> None:
    def answer(question: Question) -> Optional[Dict[str, str]]:
        return {"city": question.key} if question.kind == "elicit" else None

    assert plan(context(answer)) == "trip, 3 days"
    refused: Any
    for refused, kind, words in (
        ({"trip": None}, Declined, None),
        ({"trip": Refused("not now")}, Refused, "^not now$"),
        ({"elicit": Refused}, Refused, None),
        ({"trip": lambda question: 1 / 0}, ZeroDivisionError, None),
        (lambda question: InvalidParams("no"), InvalidParams, "^no$"),
    ):
        with pytest.raises(kind, match=words):
            plan(context(refused))


def test_the_error_names_the_answer_that_the_test_forgot() -> None:
    ctx = context()
    with pytest.raises(AssertionError) as unanswered:
        plan(ctx)
    assert str(unanswered.value) == (
        "the handler asks 'trip' ('Where to?'), but the test has no answer: write "
        "context(answers={'trip': ...}) or {'elicit': ...}"
    )
    assert [question.key for question in ctx.questions] == ["trip"]
    with pytest.raises(
        AssertionError, match="^the handler asks 'roots-1', but the test has no answer"
    ):
        context({"elicit": None}).list_roots()
    with pytest.raises(AssertionError, match="^the test's answer to 'trip' is invalid: .*city"):
        plan(context({"trip": {"days": 3}}))
    with pytest.raises(
        AssertionError,
        match="^the test's answer to 'sample-1' is invalid: sample must return a str",
    ):
        context({"sample": 5}).sample("Hello")
    with pytest.raises(ResourceNotFound, match="a:b"):
        ctx.read_resource("a:b")
    ctx.server.resource_updated("x:y")


def test_the_rules_of_a_real_context_hold() -> None:
    ctx = context({"elicit": {"a": "x"}}, log_level="warning")
    for value in (2, 1):
        ctx.progress(value)
    ctx.info("quiet")
    ctx.warning("loud")
    ctx.log("error", "x", "me")
    with pytest.raises(ValueError, match="louder"):
        ctx.log("louder", "x")
    ctx.elicit("?", {"a": str}, key="k")
    ctx.complete_elicitation("e-1")
    with pytest.raises(RuntimeError, match="asked twice"):
        ctx.elicit("?", {"a": str}, key="k")
    assert [report.progress for report in ctx.reports] == [2]
    assert [(message.data, message.logger) for message in ctx.logs] == [("loud", None), ("x", "me")]
    assert ctx.sent[-1]["params"] == {"elicitationId": "e-1"}
    assert (ctx.session, ctx.revision, context(revision=NEWEST).session) == (
        {},
        NEWEST_HANDSHAKE.name,
        None,
    )


def test_a_server_can_be_there() -> None:
    server = Server("unit", logging=False)

    @server.resource("notes://{number}")
    def note(number: int, ctx: Context) -> str:
        return f"{number}: {ctx.elicit('Text?', {'text': str}, key='text').require()['text']}"

    ctx = context({"elicit": {"text": "milk"}}, server=server)
    assert ctx.server is server
    assert ctx.read_resource("notes://3").text == "3: milk"
    assert ctx.questions[0].key == "notes://3#1/text"
    with pytest.raises(ResourceNotFound):
        ctx.read_resource("notes://x")
    ctx.info("the server declares no logging")
    assert ctx.logs == []


def test_a_transcript_keeps_the_newest() -> None:
    transcript = Transcript(entries=3)
    assert transcript.dropped == 0 and "not kept" not in str(transcript)
    for number in range(10):
        transcript("-->", json.dumps({"jsonrpc": "2.0", "method": f"m{number}"}))
    assert transcript.methods() == ["m7", "m8", "m9"]
    assert transcript.dropped == 7
    assert str(transcript).startswith("  (7 earlier messages were dropped)\n")
    assert repr(transcript) == "<Transcript 3 messages, 7 dropped>"
    transcript.clear()
    assert (len(transcript), transcript.dropped) == (0, 0)


def test_a_transcript_is_bounded_in_bytes() -> None:
    transcript = Transcript(size=1000)
    for _ in range(50):
        transcript("<--", "x" * 300)
    assert (len(transcript), transcript.dropped) == (3, 47)
    transcript("<--", "x" * 5000)  # the newest one is kept
    assert len(transcript) == 1
    transcript.clear()
    for _ in range(3):
        transcript("<--", "x" * 300)
    assert (len(transcript), transcript.dropped) == (3, 0)


def test_a_flood_of_requests_without_answers_is_not_kept() -> None:
    transcript = Transcript(entries=100)
    for number in range(1000):
        ping = {"jsonrpc": "2.0", "id": f"flood-{number}", "method": "ping"}
        transcript("<--", json.dumps(ping))
    assert 0 < len(texts_kept_by(transcript, "flood-")) <= 201, "of entries, and of open requests"
    transcript("-->", json.dumps({"jsonrpc": "2.0", "id": "flood-999", "result": {}}))
    *_, last = transcript
    assert last.method == "ping"


def test_cancelling() -> None:
    ctx = context({"trip": {"city": "Oslo"}})
    told: List[str] = []
    ctx.on_cancel(lambda: told.append("called"))
    assert not ctx.cancelled
    ctx.cancel("never mind")
    ctx.on_cancel(lambda: told.append("at once"))
    assert ctx.cancelled and told == ["called", "at once"]
    for call in (lambda: plan(ctx), lambda: ctx.sleep(WAIT), ctx.check):
        with pytest.raises(Cancelled, match="never mind"):
            call()
    assert ctx.sent == []
    asking = context(lambda question: [asking.cancel(), {"city": "Oslo"}][1])  # type: ignore[func-returns-value]
    with pytest.raises(Cancelled):
        plan(asking)


# ------------------------------------------------------------ Transcript


def forecaster(**options: Any) -> Server:
    server = Server("weather", **options)

    @server.tool
    def forecast(city: str, ctx: Context) -> Text:
        ctx.progress(1, 1)
        return Text(f"rain in {city}")

    @server.prompt
    def ask() -> str:
        return "?"

    return server


@pytest.fixture
def transcript() -> Transcript:
    """Record one call and one failed request."""
    transcript = Transcript()
    with connect(forecaster(), trace=transcript, revision="handshake") as client:
        client.call_tool("forecast", {"city": "京"}, on_progress=lambda report: None)
        with pytest.raises(InvalidParams):
            client.get_prompt("none")
    return transcript


def test_a_transcript_is_in_order_and_finds_messages(transcript: Transcript) -> None:
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
    assert transcript.methods()[2:] == ["tools/call", "notifications/progress", "prompts/get"]
    assert [request["method"] for request in transcript.requests()] == [
        "initialize",
        "tools/call",
        "prompts/get",
    ]
    (call,) = transcript.requests("tools/call")
    assert call["params"]["arguments"] == {"city": "京"}
    assert transcript.answer_to(call)["result"]["content"] == [
        {"type": "text", "text": "rain in 京"}
    ]
    assert transcript.answer_to(transcript.requests("prompts/get")[0])["error"]["code"] == -32602
    lines = str(transcript).splitlines()
    assert lines[0].startswith(
        f'--> initialize #{transcript.requests()[0]["id"]}  {{"protocolVersion": '
    )
    assert lines[2] == "--> notifications/initialized"
    assert lines[3].endswith('  {"name": "forecast", "arguments": {"city": "京"}}')
    assert max(map(len, lines)) < 170 and any(line.endswith("...") for line in lines)


def shown(transcript: Transcript, *flow: Any) -> List[str]:
    with pytest.raises(AssertionError) as failed:
        transcript.assert_flow(*flow)
    lines = str(failed.value).splitlines()
    return [
        lines[0],
        *(line.partition("  ")[0].partition(" #")[0] for line in lines[1:] if line[0] != " "),
    ]


def test_a_flow_that_did_not(transcript: Transcript) -> None:
    call, progress, result = (
        "--> tools/call",
        "<-- notifications/progress",
        "<-- result of tools/call",
    )
    assert shown(transcript, call, result) == [
        f"'{result}' is missing:",
        f"= {call}",
        f"- {result}",
        f"+ {progress}",
    ]
    assert shown(transcript, call, ..., result, "--> ping") == [
        "'--> ping' is missing:",
        f"= {call}",
        f"= {result}",
        "- --> ping",
        "+ --> prompts/get",
    ]
    assert shown(transcript, result, ..., call) == [
        f"'{call}' is missing:",
        f"= {result}",
        f"- {call}",
    ]
    assert shown(transcript, "<-- error", call) == [
        f"'{call}' is missing:",
        "= <-- error -32602 of prompts/get",
        f"- {call}",
    ]
    assert shown(Transcript(), call) == [f"'{call}' is missing:", f"- {call}"]
    for wrong in ("tools/call", "-> tools/call", 5):
        with pytest.raises(ValueError, match="^a message must be written like"):
            transcript.assert_flow(wrong)
    for look, words in (
        (
            lambda: transcript.wait_for("--> ping", timeout=0),
            "^no '--> ping' within 0 s: this exchange:\n  --> ",
        ),
        (
            lambda: transcript.answer_to({"id": 9}),
            "^{'id': 9} is not a request of this exchange:\n  --> initialize #",
        ),
        (
            lambda: Transcript().assert_flow(call),
            r"\n  \(no messages: was this transcript passed to connect.* trace=",
        ),
        (lambda: Transcript().wait_for(call, timeout=0), r"\n  \(no messages: "),
    ):
        with pytest.raises(AssertionError, match=words) as failed:
            look()
        frames = {str(entry.path) for entry in failed.traceback.filter(failed)}
        assert frames == {__file__}, "pytest shows the test and not the library"


def test_a_transcript_of_every_kind_of_line() -> None:
    transcript = Transcript()
    for arrow, text in (
        ("-->", '{"jsonrpc":"2.0","id":1,"method":"ping"}'),
        ("<--", '{"jsonrpc":"2.0","id":1,"method":"roots/list"}'),
        ("-->", '{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}'),
        ("<--", "Traceback: oh"),
        ("<--", '[{"jsonrpc":"2.0","id":"1","result":{}},5,{"id":[],"result":{}}]'),
        ("<--", '{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}'),
    ):
        transcript(arrow, text)
    ping, roots = transcript.requests()
    assert transcript.answer_to(roots)["result"] == {"roots": []}
    with pytest.raises(AssertionError, match="^--> ping #1 has no response in this exchange:\n"):
        transcript.answer_to(ping)
    transcript.assert_flow(
        "--> result of roots/list", "<-- noise", "<-- result", "<-- noise", ..., "<-- error -32700"
    )
    assert str(transcript).splitlines()[3:5] == ['<-- noise  "Traceback: oh"', "<-- result #1"]
    transcript.clear()
    assert list(transcript) == []
    transcript("<--", '{"jsonrpc":"2.0","id":1,"result":{}}')
    assert [str(entry) for entry in transcript] == ["<-- result of ping #1"]


def test_both_sides_record_and_notifications_are_waited_for() -> None:
    theirs, ours = Transcript(), Transcript()
    server = forecaster(trace=theirs)
    with connect(server, trace=ours, revision="handshake") as client:
        client.call_tool("forecast", {"city": "Oslo"})
        server.remove_tool("forecast")
        assert (
            ours.wait_for("<-- notifications/tools/list_changed", WAIT).message["jsonrpc"] == "2.0"
        )
    ours.assert_flow("--> tools/call", "<-- result")
    theirs.assert_flow("<-- tools/call", "--> result")
