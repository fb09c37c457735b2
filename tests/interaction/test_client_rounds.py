"""Calls with questions as results, from the client's side: the questions, the retries, and the end
of the call."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp import CancelToken, Refused
from minimcp.client import calls as module
from minimcp.engine import timer as deadlines

from ..answering import Answering, later, result, silence
from ..inside import callbacks_of
from ..rows import for_each
from ..scripted import Task, wait_for
from ..support import WAIT, MovedTime, eventually

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ELICIT = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": FORM}}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 5,
    },
}
ROOTS = {"method": "roots/list"}
DONE = result(resultType="complete", content=[{"type": "text", "text": "done"}])


def asks(state: Any = None, /, **questions: Any) -> Any:
    members: Dict[str, Any] = {"resultType": "input_required"}
    if questions:
        members["inputRequests"] = questions
    if state is not None:
        members["requestState"] = state
    return result(**members)


def connected(answers: Any, **host: Any) -> "tuple[minimcp.Client, Any]":
    """Return a client, and a server whose `tools/call` returns these results, one after the other."""
    answers = {"tools/call": answers} if isinstance(answers, list) or callable(answers) else answers
    server = Answering(answers, modern=True)
    host.setdefault("timeout", WAIT)
    return minimcp.connect(server, **host), server


def legs(server: Any, method: str = "tools/call") -> List[Dict[str, Any]]:
    """Return the params of the sent requests, without the envelope."""
    sent = [
        message["params"] for message in server.pipe.messages if message.get("method") == method
    ]
    return [{name: value for name, value in params.items() if name != "_meta"} for params in sent]


def person(request: Any) -> Dict[str, str]:
    return {"name": "Ada"}


ADA = {"action": "accept", "content": {"name": "Ada"}}

HOST: Dict[str, Any] = {"elicit": person, "sample": lambda request: "ho", "roots": ["file:///r"]}


@pytest.mark.requirement(
    "M:MRTR-C1",
    "M:MRTR-C2",
    "M:MRTR-C3",
    "M:MRTR-C4",
    "M:MRTR-C11",
    "M:ROOT-1",
    "M:SAM-1",
    "M:BASE-10",
)
def test_every_question_is_answered_and_the_call_is_sent_again() -> None:
    state = '{"looks": "like JSON", "\u2603": "' + "x" * 1_000_000 + '"}'
    client, server = connected([asks(state, a=ELICIT, b=SAMPLE, c=ROOTS), DONE], **HOST)
    with client:
        called = client.call_tool("t", {"x": [1]}, on_progress=lambda report: None)
    assert called.text == "done"
    first, second = legs(server)
    assert first == {"name": "t", "arguments": {"x": [1]}}
    assert second == {
        **first,
        "requestState": state,
        "inputResponses": {
            "a": ADA,
            "b": {
                "role": "assistant",
                "content": {"type": "text", "text": "ho"},
                "model": "unknown",
                "stopReason": "endTurn",
            },
            "c": {"roots": [{"uri": "file:///r"}]},
        },
    }
    sent = [message for message in server.pipe.messages if message["method"] == "tools/call"]
    ids = [message["id"] for message in sent]
    assert ids[0] != ids[1] and ids == [
        message["params"]["_meta"]["progressToken"] for message in sent
    ]
    assert all("method" in message for message in server.pipe.messages), (
        "a client sends no answers of its own"
    )


@pytest.mark.requirement("M:MRTR-C5", "M:MRTR-C9")
def test_only_the_latest_round_is_sent() -> None:
    client, server = connected(
        [asks("1", a=ELICIT), asks(b=ELICIT), asks("3"), asks(None, d=ROOTS), DONE], **HOST
    )
    with client:
        client.call_tool("t")
    assert [
        {name: value for name, value in leg.items() if name != "name"} for leg in legs(server)
    ] == [
        {},
        {"requestState": "1", "inputResponses": {"a": ADA}},
        {"inputResponses": {"b": ADA}},
        {"requestState": "3"},
        {"inputResponses": {"d": {"roots": [{"uri": "file:///r"}]}}},
    ]


@pytest.mark.requirement("M:MRTR-C7")
def test_a_call_without_questions_is_sent_again_soon() -> None:
    moments: List[float] = []
    answers = [asks(str(number)) for number in range(5)]

    def answer(message: Any) -> Any:
        moments.append(time.monotonic())
        return answers.pop(0)(message) if answers else DONE(message)

    client, server = connected(answer)
    with client:
        assert client.call_tool("t").text == "done"
    pauses = [later - sooner for sooner, later in zip(moments, moments[1:])]
    assert all(pause >= least - 0.01 for pause, least in zip(pauses, (0.05, 0.1, 0.2, 0.25, 0.25)))
    assert [leg.get("requestState") for leg in legs(server)] == [None, "0", "1", "2", "3", "4"]


@pytest.mark.requirement("M:MRTR-C8", "M:SAM-9")
def test_a_server_that_always_asks_is_a_violation() -> None:
    client, server = connected([asks("s", a=ELICIT)], **HOST)
    with client, pytest.raises(minimcp.ProtocolViolation, match="more than 10 times") as caught:
        client.call_tool("t")
    assert len(legs(server)) == 11 and caught.value.peer_message["requestState"] == "s"
    client, server = connected([asks("s", a=ELICIT)] * 10 + [DONE], **HOST)
    with client:
        assert client.call_tool("t").text == "done"


@pytest.mark.requirement("M:MRTR-C10", "M:SAM-11")
def test_a_refusal_reaches_the_caller_and_nothing_more_is_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, begun, seen = threading.Event(), threading.Event(), []  # type: ignore[var-annotated]

    def elicit(request: Any) -> Any:
        wait_for(begun)
        raise Refused("not today")

    def sample(request: Any) -> Any:
        seen.append(request)
        begun.set()
        wait_for(gate)

    client, server = connected([asks("s", a=ELICIT, b=SAMPLE)], elicit=elicit, sample=sample)
    with client:
        with pytest.raises(Refused, match="not today"):
            client.call_tool("t")
        assert not caplog.records
        assert eventually(lambda: seen and seen[0].cancelled), "nobody waits for the other one"
        gate.set()
    client, server = connected([asks(a=ELICIT)], elicit=lambda request: 5)
    with (
        client,
        pytest.raises(
            Refused, match="the handler for elicitation/create failed: elicit must return a dict"
        ),
    ):
        client.call_tool("t")
    assert len(legs(server)) == 1 and "elicit must return a dict" in caplog.text


@pytest.mark.requirement("M:MRTR-C12", "M:SAM-3", "M:ROOT-1")
def test_an_undeclared_question_is_a_violation_and_no_handler_runs() -> None:
    asked: List[Any] = []
    tools = {**SAMPLE["params"], "tools": []}  # type: ignore[dict-item]
    url = {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "?", "url": "https://x.y"},
    }
    for question, said in (
        (ROOTS, "asked roots/list, which this client does not declare"),
        ({"method": "tasks/get", "params": {}}, "asked tasks/get, which"),
        ({"method": "ping"}, "asked ping, which"),
        (url, "does not declare elicitation by url"),
        ({"method": "sampling/createMessage", "params": tools}, "does not declare sampling.tools"),
        ({"method": "sampling/createMessage", "params": {}}, "messages is missing"),
        ({"method": "elicitation/create"}, "message is missing"),
        (
            {
                "method": "elicitation/create",
                "params": {"message": "?", "requestedSchema": {"type": "string"}},
            },
            "the type 'object'",
        ),
    ):
        host: Dict[str, Any] = {
            "elicit": asked.append,
            "sample": asked.append,
            "elicitation": ("form",),
        }
        client, server = connected([asks("s", a=ELICIT, b=question)], **host)
        with client, pytest.raises(minimcp.ProtocolViolation, match=said):
            client.call_tool("t")
        assert asked == [] and len(legs(server)) == 1


@for_each(
    "members",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": None, "requestState": None},
        {"inputRequests": [ELICIT]},
        {"inputRequests": "a"},
        {"inputRequests": {"a": None}},
        {"inputRequests": {"a": [ELICIT]}},
        {"inputRequests": {"a": {"method": 5}}},
        {"inputRequests": {"a": {"method": "elicitation/create", "params": []}}},
        {"requestState": 5},
        {"requestState": {}},
        {"inputRequests": {"a": ELICIT}, "requestState": 5},
    ],
)
def test_malformed_questions_are_violations(members: Any) -> None:
    client, server = connected([result(resultType="input_required", **members), DONE], **HOST)
    with client, pytest.raises(minimcp.ProtocolViolation, match="tools/call"):
        client.call_tool("t")
    assert len(legs(server)) == 1


@pytest.mark.requirement("M:MRTR-C14")
def test_a_host_may_keep_the_questions_and_answer_later() -> None:
    client, server = connected([asks("1", a=ELICIT), asks(None, b=ELICIT), DONE], **HOST)
    with client:
        kept = client.request("tools/call", {"name": "t"}, raw=True)
        assert kept == {
            "resultType": "input_required",
            "inputRequests": {"a": ELICIT},
            "requestState": "1",
        }
        answers = {"a": {"action": "decline"}}
        params = {"name": "t", "inputResponses": answers, "requestState": kept["requestState"]}
        assert client.request("tools/call", params)["content"][0]["text"] == "done"
    assert legs(server)[1:] == [params, {"name": "t", "inputResponses": {"b": ADA}}]


@pytest.mark.requirement("M:MRTR-C6")
def test_concurrent_calls_have_their_own_rounds() -> None:
    def answer(message: Any) -> Any:
        params = message["params"]
        if params["name"] == "plain" or "inputResponses" in params:
            return DONE(message)
        return asks(params["name"], a=ROOTS if params["name"] == "roots" else ELICIT)(message)

    client, server = connected(answer, elicit=person)
    with client:
        names = ["ask", "plain", "roots", "ask"]
        outcomes = client.call_tools([(name, None) for name in names], return_exceptions=True)
        assert [getattr(each, "text", type(each)) for each in outcomes] == [
            "done",
            "done",
            minimcp.ProtocolViolation,
            "done",
        ]
    assert len(legs(server)) == 6


class Slow:
    """A handler that answers when the test allows it."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.requests: List[Any] = []

    def elicit(self, request: Any) -> Any:
        self.requests.append(request)
        self.begun.set()
        wait_for(self.gate)
        return person(request)


@pytest.mark.requirement("M:ELI-23")
@for_each("end", ["cancel", "cancel many", "close"])
def test_a_cancel_and_a_close_end_the_wait_at_once(end: str) -> None:
    slow, token = Slow(), CancelToken()
    client, server = connected([asks("s", a=ELICIT)], handlers=slow)
    with client:
        call: Any = client.call_tools if end == "cancel many" else client.call_tool
        task = Task(partial(call, [("a", None)] if end == "cancel many" else "a", cancel=token))
        wait_for(slow.begun)
        end_it = client.close if end == "close" else partial(token.cancel, "enough")
        end_it()
        with pytest.raises(
            minimcp.ConnectionLost if end == "close" else minimcp.Cancelled, match="closed|enough"
        ):
            task.result()
        assert eventually(lambda: slow.requests[0].cancelled) and "0 outgoing" in repr(client)
        slow.gate.set()
    assert len(legs(server)) == 1 and "notifications/cancelled" not in server.pipe.methods()
    assert not callbacks_of(token)


def test_no_more_handlers_run_at_once_than_the_host_allows() -> None:
    """A server that asks a thousand things in one result gets no thousand threads."""
    slow, many = Slow(), {f"q{number}": ELICIT for number in range(20)}
    two = minimcp.Limits(workers=2)
    client, server = connected(
        [asks("s", **many), asks("s", **many), DONE], handlers=slow, limits=two
    )
    with client:
        token = CancelToken()
        task = Task(lambda: client.call_tool("a", cancel=token))
        assert eventually(lambda: len(slow.requests) == 2)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            task.result()
        slow.gate.set()
        assert client.call_tool("b").text == "done"
        assert len(slow.requests) == 2 + 20, "nobody waits for the others of the first call"


def test_cancel_close_and_timeout_end_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", 6 * WAIT)
    token = CancelToken()
    client, server = connected([asks("s")])
    with client:
        first = Task(lambda: client.call_tool("a", cancel=token))
        second = Task(client.call_tool, "a")
        assert eventually(lambda: len(legs(server)) == 2)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            first.result()
        with pytest.raises(minimcp.RequestTimeout):
            server.answers["tools/call"] = [asks("s"), silence]
            client.call_tool("a", timeout=0.05)
        client.close()
        with pytest.raises(minimcp.ConnectionLost):
            second.result()


@pytest.mark.requirement("M:MRTR-C11", "M:CAN-7")
def test_the_timeout_is_paused_while_a_handler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, moved = Slow(), MovedTime()
    monkeypatch.setattr(deadlines, "time", moved)
    client, server = connected([asks("s", a=ELICIT), silence, DONE], handlers=slow)
    with client:
        task = Task(lambda: client.call_tool("a", timeout=WAIT))
        wait_for(slow.begun)
        later(client, moved)
        assert not threading.Event().wait(0.1) and task.thread.is_alive()
        slow.gate.set()
        assert eventually(lambda: len(legs(server)) == 2)
        assert not threading.Event().wait(0.1) and task.thread.is_alive(), "it has its time still"
        later(client, moved)
        with pytest.raises(minimcp.RequestTimeout):
            task.result()
        assert len(legs(server)) == 2
        server.answers["tools/call"] = [asks("s", a=ELICIT), DONE]
        assert client.call_tool("a", timeout=WAIT).text == "done"
