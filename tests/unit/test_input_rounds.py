"""Requests that carry questions: what a round takes up, and what it leaves."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import pytest

from minimcp import InternalError, Refused, UrlElicitationRequired
from minimcp.features import input_rounds
from minimcp.features.questions import Suspend
from minimcp.server.context import Context
from minimcp.server.registered import Registered

from ..answering import R4, R5
from .requests import AnsweringSink, config, exchange

ALL = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
YES, NO = {"action": "accept", "content": {"n": 1}}, {"action": "decline"}
STAMP = {"io.modelcontextprotocol/serverInfo": {"name": "unit", "version": "1", "title": "Unit"}}


class Runs(Registered):
    """What serves a `Call`, whatever its method is."""

    def __init__(self, call: Call, handler: Callable[[Context], Any]) -> None:
        self.noted = call.runs
        super().__init__(call.config, handler, "t")

    def call(self, incoming: Any) -> Any:
        self.noted.append(Context(incoming))
        return self.function(self.noted[-1])

    def result(self, value: Any, incoming: Any) -> Any:
        return {"value": value}


class Call:
    """One call of a client, round after round.

    Args:
        handler: What serves it; its return value becomes the result's ``value``.
        answer: Answers a question, by its method; None answers all with `YES`.
        options: Of the server.
    """

    def __init__(
        self,
        handler: Callable[[Context], Any],
        answer: Optional[Callable[[Dict[str, Any]], Any]] = None,
        *,
        revision: str = R5,
        method: str = "tools/call",
        capabilities: Any = ALL,
        **options: Any,
    ) -> None:
        self.config = config(**options)
        self.runs: List[Context] = []
        self.handle = Runs(self, handler).route.handle
        self.answer = answer or (
            lambda request: {"roots": []} if request["method"] == "roots/list" else YES
        )
        self.peer: Dict[str, Any] = {
            "revision": revision,
            "method": method,
            "capabilities": capabilities,
        }
        self.asked: List[Dict[str, Any]] = []

    def once(self, **params: Any) -> Any:
        """One round."""
        outlet = AnsweringSink(self.answer)
        made = exchange(params={"name": "t", **params}, of=self.config, sink=outlet, **self.peer)
        try:
            return self.handle(made)
        finally:
            self.asked += outlet.asked

    def whole(self) -> Any:
        """All rounds; the result's value."""
        result = self.once()
        for _ in range(20):
            if result.get("resultType") != "input_required":
                return result["value"]
            asked = result.get("inputRequests", {})
            self.asked += asked.values()
            answers = {key: self.answer(request) for key, request in asked.items()}
            result = self.once(requestState=result["requestState"], inputResponses=answers)
        raise AssertionError("it never ends")


def ask(ctx: Context, key: str = "k", message: str = "How many?") -> Any:
    return ctx.elicit(message, {"n": int}, key=key).content["n"]


@pytest.mark.requirement("M:MRTR-S2", "M:MRTR-S14", "M:MRTR-S16", "M:META-7", "M:BASE-6")
def test_what_a_question_looks_like() -> None:
    result = Call(lambda ctx: [ask(ctx), ctx.list_roots()]).once()
    token = result.pop("requestState")
    params = {
        "mode": "form",
        "message": "How many?",
        "requestedSchema": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    }
    assert result == {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "elicitation/create", "params": params}},
        "_meta": STAMP,
    }
    assert isinstance(token, str)
    assert Call(lambda ctx: ctx.list_roots()).once()["inputRequests"] == {
        "roots-1": {"method": "roots/list"}
    }


@pytest.mark.parametrize(("revision", "method"), [(R4, "tools/call"), (R5, "completion/complete")])
def test_where_no_round_is_resumed_its_members_are_nothing(revision: str, method: str) -> None:
    call = Call(lambda ctx: 1, revision=revision, method=method)
    assert call.once(requestState="x", inputResponses=5)["value"] == 1


def test_that_a_tool_runs_again_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_rounds, "replayed", set())
    caplog.set_level("INFO", "minimcp.rounds")
    for method, said in (("prompts/get", 0), ("tools/call", 1), ("tools/call", 1)):
        assert Call(ask, method=method).whole() == 1
        assert caplog.text.count("runs again from the top") == said


@pytest.mark.requirement("M:MRTR-S3")
def test_questions_win_over_whatever_else_the_handler_did(caplog: pytest.LogCaptureFixture) -> None:
    def swallows(ctx: Context) -> Any:
        try:
            return ask(ctx)
        except:  # noqa: E722
            return "guessed"

    def fails(ctx: Context) -> Any:
        try:
            return ask(ctx)
        finally:
            raise ValueError("in the finally")

    def goes_on(ctx: Context) -> Any:
        for key in ("a", "b"):
            try:
                ask(ctx, key)
            except Suspend:
                pass
        return "guessed"

    for handler, keys, did in (
        (swallows, {"k"}, "continued"), (fails, {"k"}, "raised ValueError('in the finally')"),
        (goes_on, {"a", "b"}, "continued"),
    ):  # fmt: skip
        caplog.clear()
        assert set(Call(handler).once()["inputRequests"]) == keys
        assert (
            f"tools/call t {did} although a question is pending: let Suspend propagate, and catch Exception"
            in caplog.text
        )
    caplog.clear()
    Call(ask).once()
    assert caplog.text == ""
    assert Call(swallows).whole() == 1


# ------------------------------------------------------------ handlers that are checked


def test_a_handler_that_asks_something_else_the_second_time_is_found_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rewords(ctx: Context) -> Any:
        return ask(ctx, "a", f"message {len(runs.append(1) or runs)}") + ask(ctx, "b")  # type: ignore[func-returns-value]

    def renames(ctx: Context) -> Any:
        return ask(ctx, f"k{len(runs.append(1) or runs)}")  # type: ignore[func-returns-value]

    def forgets(ctx: Context) -> Any:
        runs.append(1)
        return ask(ctx) if len(runs) == 1 else "enough"

    def swallows(ctx: Context) -> Any:
        try:
            return rewords(ctx)
        except Exception:
            return "nothing happened"

    for handler, words in (
        (
            rewords,
            "a different question in an earlier run: store the values that it depends on with ctx.step",
        ),
        (renames, "but not in this run"),
        (forgets, "but not in this run"),
        (swallows, "different question"),
    ):
        for revision in (R4, R5):
            runs: List[int] = []
            with pytest.raises(InternalError, match=f"check_replay: .*{words}"):
                Call(handler, revision=revision, check_replay=True).whole()
    assert caplog.text == "", "it is told once, and not of something else"


def test_a_checked_handler_gets_what_an_unchecked_one_gets() -> None:
    def catches(ctx: Context) -> Any:
        try:
            return ask(ctx)
        except Exception as error:
            return [type(error).__name__, str(error), ask(ctx, "after")]

    broken = iter([{"error": {"code": -1, "message": "no"}}, YES, {"action": "?"}, YES] * 2)
    for options in ({}, {"check_replay": True}):
        for expected in (["Refused", "no", 1], ["ProtocolViolation", None, 1]):
            found = Call(catches, lambda request: next(broken), revision=R4, **options).whole()
            assert found == [expected[0], expected[1] or found[1], expected[2]]
    with pytest.raises(Refused):
        Call(
            ask,
            lambda request: {"error": {"code": -1, "message": "no"}},
            revision=R4,
            check_replay=True,
        ).whole()


# ------------------------------------------------------------ an error of another revision

ENTRY = {"mode": "url", "message": "Pay", "url": "https://pay.example/1", "elicitationId": "e1"}


@pytest.mark.requirement("M:ERR-4")
def test_the_same_error_raised_by_any_handler(caplog: pytest.LogCaptureFixture) -> None:
    def handler(ctx: Context) -> Any:
        if ctx.round < 2 or stubborn:
            raise UrlElicitationRequired("pay first", {"elicitations": [{**ENTRY, "url": url}]})
        return "paid"

    url, stubborn = ENTRY["url"], False
    for method in ("prompts/get", "resources/read"):
        assert Call(handler, lambda request: {"action": "accept"}, method=method).whole() == "paid"
        with pytest.raises(UrlElicitationRequired):
            Call(handler, method=method, revision=R4).whole()
    stubborn = True
    with pytest.raises(UrlElicitationRequired):
        Call(handler, lambda request: {"action": "accept"}).whole()
    assert "asked 8 times" in caplog.text
    url = "javascript:alert(1)"
    with pytest.raises(UrlElicitationRequired):
        Call(handler).once()
    assert "must begin with http:// or https://" in caplog.text

    def names_none(ctx: Context) -> Any:
        raise UrlElicitationRequired("pay first")

    with pytest.raises(UrlElicitationRequired):
        Call(names_none).once()
