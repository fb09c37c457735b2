"""A Context without a connection, for the unit tests of handlers."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

import pytest

from minimcp import (
    Answer,
    Cancelled,
    CapabilityNotSupported,
    Context,
    Declined,
    Elicit,
    ElicitRequest,
    ElicitUrl,
    InvalidParams,
    ListRoots,
    LogMessage,
    Progress,
    Refused,
    ResourceNotFound,
    Root,
    Sample,
    SampleRequest,
    SampleResult,
    Server,
    Tool,
    current_context,
)
from minimcp.protocol.versions import NEWEST_HANDSHAKE, REVISIONS
from minimcp.testing import Question, UnitContext, context

from .support import WAIT

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
    assert ctx.reports == [
        Progress(0, 2, "asking", progress_token=1), Progress(2, 2, progress_token=1),
    ]
    assert ctx.logs == [LogMessage("info", {"city": "Oslo"})]
    assert [message["method"] for message in ctx.sent] == ["notifications/progress"] * 2 + ["notifications/message"]
    (question,) = ctx.questions
    assert (question.key, question.kind, question.request.message) == ("trip", "elicit", "Where to?")
    assert isinstance(question.request, ElicitRequest)
    assert (ctx.round, len(ctx.call_id), ctx.call_id) == (1, 32, ctx.call_id)
    assert not set(threading.enumerate()) - threads


def ask_everything(ctx: Context) -> List[Any]:
    return [
        ctx.elicit("Name?", {"name": str}),
        ctx.elicit("Age?", {"age": int}),
        ctx.elicit_url("Pay", "https://example.com/pay"),
        ctx.sample("Hello").text,
        ctx.list_roots(),
        ctx.ask_all({
            "a": Elicit("A?", {"a": str}), "b": ElicitUrl("B", "https://b"), "c": Sample("C"), "d": ListRoots(),
        }),
    ]


@for_revisions
def test_answers_by_key_and_by_kind(revision: str, tmp_path: Path) -> None:
    root = Root.from_path(tmp_path)
    ctx = context(
        {
            "elicit": lambda question: dict.fromkeys(question.request.schema["properties"], "x"),
            "elicit-2": {"age": 7}, "url-3": None, "b": Answer("cancel"),
            "sample": "Hi", "c": SampleResult("C!", "model-1"), "list_roots": [tmp_path],
        },
        revision=revision,
    )
    *first, together = ask_everything(ctx)
    assert first == [Answer("accept", {"name": "x"}), Answer("accept", {"age": 7}), Answer("decline"), "Hi", [root]]
    assert (together["a"], together["b"], together["d"]) == (Answer("accept", {"a": "x"}), Answer("cancel"), [root])
    assert (together["c"].text, together["c"].model) == ("C!", "model-1")
    asked = [(each.key, each.kind) for each in ctx.questions]
    assert asked[:3] == [("elicit-1", "elicit"), ("elicit-2", "elicit"), ("url-3", "elicit")]
    assert asked[3:5] == [("sample-4", "sample"), ("roots-5", "list_roots")]
    assert asked[5:] == [("a", "elicit"), ("b", "elicit"), ("c", "sample"), ("d", "list_roots")]
    assert isinstance(ctx.questions[3].request, SampleRequest) and ctx.questions[4].request is None


def test_one_function_answers_everything() -> None:
    seen = []

    def answer(question: Question) -> Optional[Dict[str, str]]:
        seen.append(question.key)
        return {"city": "Rome"} if question.kind == "elicit" else None

    assert plan(context(answer)) == "Rome, 3 days"
    assert seen == ["trip"]


def test_refusals_and_errors_reach_the_handler() -> None:
    with pytest.raises(Declined):
        plan(context({"trip": None}))
    with pytest.raises(Refused, match="^not now$"):
        plan(context({"trip": Refused("not now")}))
    with pytest.raises(Refused):
        plan(context({"elicit": Refused}))
    with pytest.raises(InvalidParams, match="^no$"):
        plan(context(lambda question: (_ for _ in ()).throw(InvalidParams("no"))))


def test_what_the_test_forgot_is_said() -> None:
    ctx = context()
    with pytest.raises(AssertionError) as unanswered:
        plan(ctx)
    assert str(unanswered.value) == (
        "the handler asks 'trip' ('Where to?'), and the test has no answer: "
        "context(answers={'trip': ...}) or {'elicit': ...}"
    )
    assert [question.key for question in ctx.questions] == ["trip"]
    with pytest.raises(AssertionError, match="^the handler asks 'roots-1', and the test has no answer"):
        context({"elicit": None}).list_roots()
    with pytest.raises(AssertionError, match="^the test's answer to 'trip' does not fit: .*city"):
        plan(context({"trip": {"days": 3}}))
    with pytest.raises(AssertionError, match="^the test's answer to 'sample-1' does not fit: sample returns a str"):
        context({"sample": 5}).sample("Hello")
    with pytest.raises(AssertionError, match="^the handler reads a:b, and the test has no server"):
        ctx.read_resource("a:b")


def test_the_client_is_as_it_is_said_to_be() -> None:
    ctx = context({"sample": "Hi"}, capabilities={"sampling": {}}, client_info={"name": "me", "version": "1"})
    assert ctx.client.info is not None and ctx.client.info.name == "me"
    assert ctx.sample("Hello").text == "Hi"
    with pytest.raises(CapabilityNotSupported):
        ctx.sample("Hello", tools=[Tool("t", {"type": "object"})])
    with pytest.raises(CapabilityNotSupported):
        plan(ctx)
    everything = context()
    assert all(map(everything.client.supports, ("elicitation.url", "sampling.tools", "sampling.context", "roots")))
    with pytest.raises(CapabilityNotSupported):
        plan(context({"trip": {"city": "Oslo"}}, revision=OLDEST))


def test_the_request_is_as_it_is_said_to_be() -> None:
    ctx = context(method="prompts/get", params={"name": "p", "_meta": {"trace": "x"}}, request_id="r-1")
    assert (ctx.method, ctx.params["name"], ctx.request_id) == ("prompts/get", "p", "r-1")
    assert ctx.meta == {"progressToken": "r-1", "trace": "x"}
    with pytest.raises(RuntimeError, match="cannot ask"):
        context({"elicit": {}}, method="completion/complete").elicit("?", {"a": str})
    with pytest.raises(ValueError, match="unknown revision"):
        context(revision="1999-12-31")
    with pytest.raises(ValueError, match="^log_level is one of debug, .*, not 'loud'$"):
        context(log_level="loud")


def test_the_rules_of_a_real_context_hold() -> None:
    ctx = context({"elicit": {"a": "x"}}, log_level="warning")
    ctx.progress(2)
    ctx.progress(1)
    ctx.info("quiet")
    ctx.warning("loud")
    ctx.elicit("?", {"a": str}, key="k")
    ctx.complete_elicitation("e-1")
    with pytest.raises(RuntimeError, match="asked twice"):
        ctx.elicit("?", {"a": str}, key="k")
    assert [report.progress for report in ctx.reports] == [2]
    assert [message.data for message in ctx.logs] == ["loud"]
    assert ctx.sent[-1]["params"] == {"elicitationId": "e-1"}


def test_a_session_and_none() -> None:
    ctx = context()
    assert ctx.session == {} and ctx.revision == NEWEST_HANDSHAKE.name
    ctx.session["user"] = 1
    assert ctx.session == {"user": 1}
    assert context(revision=NEWEST).session is None


def test_a_server_can_be_there() -> None:
    server = Server("unit", logging=False)

    @server.resource("notes://{number}")
    def note(number: int, ctx: Context) -> str:
        """One note."""
        return f"{number}: {ctx.elicit('Text?', {'text': str}, key='text').require()['text']}"

    ctx = context({"elicit": {"text": "milk"}}, server=server)
    assert ctx.server is server
    assert ctx.read_resource("notes://3").text == "3: milk"
    assert ctx.questions[0].key == "notes://3#1/text"
    with pytest.raises(ResourceNotFound):
        ctx.read_resource("notes://x")
    ctx.info("nobody")
    assert ctx.logs == []
    with pytest.raises(AssertionError, match=r"has no server: context\(server=...\)$"):
        context().server.resource_updated("x:y")


def test_cancelling() -> None:
    ctx = context({"trip": {"city": "Oslo"}})
    told: List[str] = []
    ctx.on_cancel(lambda: told.append("called"))
    assert not ctx.cancelled
    ctx.cancel("never mind")
    assert ctx.cancelled and told == ["called"]
    ctx.on_cancel(lambda: told.append("at once"))
    assert told == ["called", "at once"]
    for call in (lambda: plan(ctx), lambda: ctx.sleep(WAIT), ctx.check):
        with pytest.raises(Cancelled, match="never mind"):
            call()
    assert ctx.sent == []

    def answer(question: Question) -> Dict[str, str]:
        asking.cancel()
        return {"city": "Oslo"}

    asking = context(answer)
    with pytest.raises(Cancelled):
        plan(asking)


def test_it_is_the_current_context_in_a_with_block() -> None:
    with context() as outer:
        assert isinstance(outer, UnitContext)
        current_context().progress(1)
        with context(request_id=2):
            assert current_context().request_id == 2
        with outer:
            current_context().progress(2)
        assert current_context().request_id == 1
    assert [report.progress for report in outer.reports] == [1, 2]
    with pytest.raises(LookupError):
        current_context()
