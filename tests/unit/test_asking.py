"""Who answers a handler's questions, and what each of them remembers."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest

from minimcp import (
    Answer,
    Cancelled,
    InvalidParams,
    MethodNotFound,
    ProtocolViolation,
    Refused,
    RpcError,
)
from minimcp.features.input_rounds import RerunChannel, channel_of
from minimcp.features.questions import Elicit, ListRoots, QuestionChannel, Suspend

from ..answering import R1, R4, R5
from .requests import AnsweringSink, config, exchange

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
YES, NO = {"action": "accept", "content": {"n": 1}}, {"action": "decline"}
NAME = Elicit("How many?", {"n": int})


def answers(request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    return {"elicitation/create": YES, "roots/list": {"roots": []}}.get(request["method"])


def channel(
    revision: str = R4, method: str = "tools/call", answer: Any = answers, **options: Any
) -> Any:
    outlet = AnsweringSink(answer)
    made = exchange(
        method, {"name": "t"}, revision=revision, capabilities=ALL, sink=outlet, **options
    )
    return channel_of(made), made


def replay(state: Any = None, responses: Any = None, **options: Any) -> RerunChannel:
    made = exchange(
        "tools/call", {"name": "t"}, revision=R5, capabilities=ALL, of=config(**options)
    )
    return RerunChannel(made, state, responses)


def suspended(one: RerunChannel, **questions: Any) -> Dict[str, Any]:
    """The claims after questions that were not answered."""
    with pytest.raises(Suspend):
        one.ask_all(questions)
    return one.claims()


@pytest.mark.requirement("M:MRTR-S1", "M:VER-S16", "M:CMP-6")
def test_who_answers() -> None:
    for revision, method, kind in (
        (R4, "tools/call", QuestionChannel),
        (R1, "prompts/get", QuestionChannel),
        (R5, "resources/read", RerunChannel),
        (R4, "completion/complete", QuestionChannel),
        (R5, "tools/list", QuestionChannel),
        (R5, "completion/complete", QuestionChannel),
    ):
        one, made = channel(revision, method)
        assert type(one) is kind and channel_of(made) is one
        assert one.round == 1 and len(one.call_id) == 32
        if method.endswith(("list", "complete")):
            with pytest.raises(RuntimeError, match="cannot ask"):
                one.ask_all({"a": NAME})
            assert one.step("s", lambda: 1) == 1


def test_a_step_that_failed_was_not_done_and_may_be_tried_again() -> None:
    def fail() -> None:
        raise OSError("flaky")

    for revision in (R4, R5):
        one, _ = channel(revision)
        for function, error in ((fail, OSError), (object, ValueError)):
            with pytest.raises(error):
                one.step("pay", function)
        assert one.step("pay", int) == 0
        with pytest.raises(RuntimeError, match="'pay' is the key of two steps"):
            one.step("pay", int)


def test_what_is_no_question() -> None:
    one, made = channel()
    for wrong in ({5: NAME}, {"a": "What?"}, {None: NAME}):
        with pytest.raises(TypeError, match="with keys that are str"):
            one.ask_all(wrong)
    with pytest.raises(TypeError, match="the key of a step"):
        one.step(5, int)
    made.token.cancel("enough")
    for ask in (lambda: one.ask_all({"a": NAME}), lambda: one.step("s", int)):
        with pytest.raises(Cancelled, match="enough"):
            ask()
    assert made.sink.asked == []


@pytest.mark.requirement("SAMP-13", "ELIC-19", "M:ELI-18")
@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            {"error": {"code": -1, "message": "User rejected sampling request"}},
            Refused,
            "User rejected",
        ),
        ({"error": {"code": -1, "message": ""}}, Refused, "^$"),
        ({"error": {"code": -32603, "message": "the user declined"}}, Refused, "declined"),
        ({"error": {"code": 4, "message": "Request denied"}}, Refused, "denied"),
        ({"error": {"code": -32603, "message": "it broke"}}, RpcError, "it broke"),
        (
            {"error": {"code": -32602, "message": "the value was rejected"}},
            InvalidParams,
            "rejected",
        ),
        ({"error": {"code": -32601, "message": "no"}}, MethodNotFound, "no"),
        ({"action": "perhaps"}, ProtocolViolation, "elicitation/create: action"),
        ({"action": "accept", "content": {"n": "x"}}, ProtocolViolation, "n: expected an integer"),
    ],
)
def test_answers_that_are_none(answer: Any, error: Any, words: str) -> None:
    one, made = channel(answer=lambda request: answer)
    with pytest.raises(error, match=words) as caught:
        one.ask_all({"a": NAME})
    assert getattr(caught.value, "from_peer", True)
    assert made.asker is one


@pytest.mark.requirement("M:MRTR-S8", "M:MRTR-S9", "M:MRTR-S12")
def test_the_rounds_of_a_request() -> None:
    claims = suspended(replay(), a=NAME, b=ListRoots())
    assert (claims["r"], set(claims["asked"]), claims["ans"]) == (1, {"a", "b"}, {})
    second = replay(claims, {"a": YES, "stranger": YES})
    assert second.round == 2 and second.call_id == claims["cid"]
    claims = suspended(second, a=NAME, b=ListRoots())
    assert (
        set(claims["asked"]) == {"b"}
        and claims["ans"]["a"][1] == YES
        and "stranger" not in claims["ans"]
    )
    third = replay(claims, {"b": {"roots": []}})
    assert third.ask_all({"a": NAME, "b": ListRoots()}) == {
        "a": Answer("accept", {"n": 1}),
        "b": [],
    }
    assert not third.pending and third.round == 3


@pytest.mark.requirement("M:MRTR-S20", "M:ELI-6")
def test_an_answer_that_does_not_fit_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "minimcp")
    claims = suspended(replay(), a=NAME, b=NAME)
    again = replay(claims, {"a": {"action": "accept", "content": {"n": "x"}}, "b": YES})
    claims = suspended(again, a=NAME, b=NAME)
    assert set(claims["asked"]) == {"a"} and set(claims["ans"]) == {"b"}
    assert "a is asked again" in caplog.text


def test_steps_run_once() -> None:
    ran: List[str] = []

    def step(one: RerunChannel, key: str) -> Any:
        return one.step(key, lambda: ran.append(key) or {"made": [len(ran)]})  # type: ignore[func-returns-value]

    first = replay()
    mine = step(first, "one")
    mine["made"].append("changed by the handler")
    claims = suspended(first, a=NAME)
    second = replay(claims, {"a": YES})
    assert step(second, "one") == {"made": [1]} and step(second, "two") == {"made": [2]}
    assert ran == ["one", "two"]
    with pytest.raises(ZeroDivisionError):
        second.step("fails", lambda: 1 // 0)
    assert set(second.claims()["steps"]) == {"one", "two"}
