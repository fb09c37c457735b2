"""Handlers that wait where they ask, as they do over stdio and in memory (2026-07-28): what was
done is done once."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Semaphore
from typing import Any, Dict

import pytest

from minimcp import Cancelled, Context, Limits, Server, UrlElicitationRequired
from minimcp.engine.requests import current_request

from ..answering import R5
from ..interaction.raw_client import RawClient
from ..interaction.test_asking import user
from ..scripted import Task
from ..support import WAIT, eventually


class Effects:
    """A server whose tool does something before it asks, and keeps what happened to it."""

    def __init__(self, **options: Any) -> None:
        self.server, self.began, self.ended = (
            Server("effects", **options),
            Semaphore(0),
            SimpleQueue(),
        )
        self.runs = 0

        @self.server.tool
        def act(ctx: Context, questions: int = 1, name: str = "x") -> str:
            """Act, then ask."""
            self.runs += 1
            self.began.release()
            try:
                said = [ctx.elicit(f"{number}?", {"n": int}) for number in range(questions)]
                ctx.progress(1)
                self.ended.put("")
                return " ".join(
                    [name, *(f"{answer.action}{answer.content or ''}" for answer in said)]
                )
            except BaseException as error:
                self.ended.put(f"{type(error).__name__}: {error}")
                raise


def test_a_handler_goes_on_as_the_request_that_brings_the_answer() -> None:
    effects = Effects()
    with RawClient(effects.server, R5, {}) as client:
        first = client.once("tools/call", name="act", arguments={}, _meta={"progressToken": "one"})[
            "result"
        ]
        params = {
            "requestState": first["requestState"],
            "inputResponses": {"elicit-1": {"action": "cancel"}},
        }
        last = client.once(
            "tools/call", name="act", arguments={}, **params, _meta={"progressToken": "two"}
        )
        assert last["result"]["content"][0]["text"] == "x cancel"
        assert [notice["params"]["progressToken"] for notice in client.notices] == ["two"]
    effects.server.close()


def test_an_answer_that_does_not_fit_or_is_missing_is_asked_for_again() -> None:
    effects = Effects()
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        unfit = {"action": "accept", "content": {"n": "x"}}
        for answers in ({}, {"elicit-1": unfit}, {"other": {"action": "decline"}}):
            again = {"requestState": state, "inputResponses": answers}
            result = client.once("tools/call", name="act", arguments={}, **again)["result"]
            assert [*result["inputRequests"]] == ["elicit-1"]
            state = result["requestState"]
    assert effects.runs == 1
    assert effects.ended.get(timeout=WAIT).startswith("Cancelled"), "its client has gone"
    effects.server.close()


def test_a_question_that_is_not_answered_in_time_ends_the_handler() -> None:
    effects = Effects(limits=Limits(ask_timeout=0.05))
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        assert (
            effects.ended.get(timeout=WAIT)
            == "RequestTimeout: tools/call act: no answer to elicit-1 within 0.05 s"
        )
        late = client.once("tools/call", name="act", arguments={}, requestState=state)["error"]
        assert late["data"] == {"reason": "invalid_request_state"} and effects.runs == 1
        channel = next(iter(effects.server._connections.values()))
        assert eventually(lambda: channel.requests.running == 0 and len(channel.requests) == 0)
    effects.server.close()


def test_a_timeout_that_comes_just_as_a_handler_asks_is_no_second_answer() -> None:
    server = Server("asks")

    @server.tool(timeout=WAIT)
    def act(ctx: Context) -> str:
        """Ask."""
        return ctx.elicit("?", {"n": int}).action

    with RawClient(server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        (channel,) = server._connections.values()
        (waits,) = channel.requests._requests.values()
        waits.timeout._expire()  # by a timer that has looked before the question paused it
        again = {"requestState": state, "inputResponses": {"elicit-1": {"action": "cancel"}}}
        answer = client.once("tools/call", name="act", arguments={}, **again)
        assert answer["result"]["content"][0]["text"] == "cancel"
    server.close()


def test_nobody_waits_for_a_handler_that_has_left_a_thread_which_asks() -> None:
    server, asking = Server("asks"), []

    @server.tool
    def act(ctx: Context) -> str:
        """Ask on another thread."""
        incoming: Any = current_request()
        asking.append(Task(ctx.elicit, "?", {"n": int}))
        assert eventually(lambda: incoming.waits)
        return "left"

    with RawClient(server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        assert eventually(lambda: asking)  # the question may be there before its thread is noted
        with pytest.raises(Cancelled, match="the handler has returned"):
            asking[0].result()
        again = {"requestState": state, "inputResponses": {"elicit-1": {"action": "cancel"}}}
        late = client.once("tools/call", name="act", arguments={}, **again)["error"]
        assert late["data"] == {"reason": "invalid_request_state"}
    server.close()


@pytest.mark.parametrize("end", ["input", "close"])
def test_handlers_that_wait_are_cancelled_at_the_end(end: str) -> None:
    effects = Effects(limits=Limits(drain_grace=10 * WAIT))
    with RawClient(effects.server, R5, {}) as client:
        client.once("tools/call", name="act", arguments={})
        if end == "close":
            effects.server.close()
            assert effects.ended.get(timeout=WAIT).startswith("Cancelled")
    assert end == "close" or effects.ended.get(timeout=WAIT).startswith("Cancelled")
    effects.server.close()


def test_a_handler_that_runs_again_because_a_url_was_needed_keeps_its_answers_and_steps() -> None:
    server, steps, messages = Server("payments"), [], []
    wanted = {
        "mode": "url",
        "message": "Pay",
        "url": "https://example.com/pay",
        "elicitationId": "e1",
    }

    @server.tool
    def buy(ctx: Context) -> str:
        """Ask, do something, and refuse until a URL was opened."""
        number = ctx.elicit("how many?", {"n": int}).require()["n"]
        ctx.step("order", lambda: steps.append(number))
        if ctx.round == 1:
            raise UrlElicitationRequired("pay first", {"elicitations": [wanted]})
        return f"{number} in round {ctx.round}"

    def reply(question: Dict[str, Any]) -> Dict[str, Any]:
        messages.append(question["params"]["message"])
        return user(question)

    with RawClient(
        server, R5, {"elicitation/create": reply}, {"elicitation": {"form": {}, "url": {}}}
    ) as client:
        assert client.call("buy") == "3 in round 2"
    assert messages == ["how many?", "Pay"] and steps == [3]
    server.close()


def test_one_of_many_that_come_with_one_state_goes_on() -> None:
    effects = Effects()
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        answers = {"elicit-1": {"action": "decline"}}
        for _ in range(10):
            client.begin(
                "tools/call", name="act", arguments={}, requestState=state, inputResponses=answers
            )
        assert sorted("result" in client.peer.expect() for _ in range(10)) == [False] * 9 + [True]
    assert effects.runs == 1
    effects.server.close()
