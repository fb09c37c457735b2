"""The rounds of a call in 2026-07-28: handlers that wait for an answer, give way, and run again."""

from __future__ import annotations

import sys
import threading
from queue import SimpleQueue
from random import Random
from threading import Semaphore
from typing import Any, Dict, List, Optional, Set

import pytest

from minimcp import (
    Cancelled,
    Context,
    Elicit,
    Limits,
    ListRoots,
    Serial,
    Server,
    UrlElicitationRequired,
)
from minimcp.engine.incoming import current_request
from minimcp.features import input_rounds
from minimcp.features.input_rounds import WaitingChannel, WaitingHandlers

from ..answering import R4, R5
from ..inside import connections_of, feature_of, incoming_of
from ..scripted import Task
from ..support import WAIT, eventually
from .raw_client import RawClient
from .test_asking import user


class Effects:
    """A server whose tool acts before it asks, and records the outcome."""

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


def test_a_handler_continues_as_the_request_with_the_answer() -> None:
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


@pytest.mark.requirement("M:MRTR-S20", "M:ELI-6")
@pytest.mark.parametrize("most", [0, 16])
def test_an_answer_that_is_missing_or_invalid_is_asked_for_again(
    most: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "minimcp")
    effects = Effects(limits=Limits(waiting_handlers=most))
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        invalid = {"action": "accept", "content": {"n": "x"}}
        for answers in ({}, {"elicit-1": invalid}, {"other": {"action": "decline"}}):
            retry = {"requestState": state, "inputResponses": answers}
            result = client.once("tools/call", name="act", arguments={}, **retry)["result"]
            assert [*result["inputRequests"]] == ["elicit-1"]
            state = result["requestState"]
        assert effects.runs == (1 if most else 4)
        assert caplog.text.count("elicit-1 is asked again") == 1
    if most:
        assert effects.ended.get(timeout=WAIT).startswith("Cancelled"), "its client has gone"
    effects.server.close()


@pytest.mark.requirement("M:MRTR-S8", "M:MRTR-S9", "M:MRTR-S12")
@pytest.mark.parametrize("most", [0, 16])
def test_questions_may_be_answered_in_several_rounds(most: int) -> None:
    server, runs = Server("asks", limits=Limits(waiting_handlers=most)), []

    @server.tool
    def act(ctx: Context) -> str:
        """Ask two questions at once."""
        runs.append(ctx.round)
        found = ctx.ask_all({"a": Elicit("?", {"n": int}), "b": ListRoots()})
        return f"{found['a'].content} {found['b']}"

    def answer(result: Dict[str, Any], **answers: Any) -> Dict[str, Any]:
        retry = {"requestState": result["requestState"], "inputResponses": answers}
        found: Dict[str, Any] = client.once("tools/call", name="act", arguments={}, **retry)
        return found["result"]  # type: ignore[no-any-return]

    with RawClient(server, R5, {}) as client:
        result = client.once("tools/call", name="act", arguments={})["result"]
        assert [*result["inputRequests"]] == ["a", "b"]
        yes = {"action": "accept", "content": {"n": 1}}
        result = answer(result, a=yes, stranger=yes)
        assert [*result["inputRequests"]] == ["b"]
        result = answer(result, b={"roots": []}, a={"action": "decline"})
        assert result["content"][0]["text"] == "{'n': 1} []", "the first answer counts"
    assert runs == ([1] if most else [1, 2, 3])
    server.close()


def test_a_question_without_an_answer_in_time_ends_the_handler() -> None:
    effects = Effects(limits=Limits(ask_timeout=0.05))
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        assert (
            effects.ended.get(timeout=WAIT)
            == "RequestTimeout: tools/call act: no answer to elicit-1 within 0.05 s"
        )
        late = client.once("tools/call", name="act", arguments={}, requestState=state)["error"]
        assert late["data"] == {"reason": "invalid_request_state"} and effects.runs == 1
        channel = connections_of(effects.server)[0]
        assert eventually(lambda: channel.requests.running == 0 and len(channel.requests) == 0)
    effects.server.close()


def test_a_timeout_at_the_moment_of_a_question_sends_no_second_response() -> None:
    server = Server("asks")

    @server.tool(timeout=WAIT)
    def act(ctx: Context) -> str:
        """Ask."""
        return ctx.elicit("?", {"n": int}).action

    with RawClient(server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        (channel,) = waiting(server)
        incoming_of(
            channel
        ).timeout.expire()  # by a timer that has looked before the question paused it
        again = {"requestState": state, "inputResponses": {"elicit-1": {"action": "cancel"}}}
        answer = client.once("tools/call", name="act", arguments={}, **again)
        assert answer["result"]["content"][0]["text"] == "cancel"
    server.close()


def test_a_thread_that_asks_after_its_handler_returned_is_cancelled() -> None:
    server, asking = Server("asks"), []

    @server.tool
    def act(ctx: Context) -> str:
        """Ask on another thread."""
        if asking:
            return "again"
        incoming: Any = current_request()
        asking.append(Task(ctx.elicit, "?", {"n": int}))
        assert eventually(lambda: not incoming.answering.is_due)
        return "left"

    with RawClient(server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        assert eventually(lambda: asking)  # the question may be there before its thread is noted
        with pytest.raises(Cancelled, match="the handler has returned"):
            asking[0].result()
        again = {"requestState": state, "inputResponses": {"elicit-1": {"action": "cancel"}}}
        late = client.once("tools/call", name="act", arguments={}, **again)["result"]
        assert late["content"][0]["text"] == "again"
    server.close()


@pytest.mark.parametrize("end", ["input", "close"])
def test_waiting_handlers_are_cancelled_at_the_end(end: str) -> None:
    effects = Effects(limits=Limits(drain_grace=10 * WAIT))
    with RawClient(effects.server, R5, {}) as client:
        client.once("tools/call", name="act", arguments={})
        if end == "close":
            effects.server.close()
            assert effects.ended.get(timeout=WAIT).startswith("Cancelled")
    assert end == "close" or effects.ended.get(timeout=WAIT).startswith("Cancelled")
    effects.server.close()


def test_a_handler_that_runs_again_after_a_url_keeps_its_answers_and_steps() -> None:
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


@pytest.mark.requirement("M:BASE-12")
def test_of_many_retries_with_one_state_one_continues_the_handler_and_the_others_run_again() -> (
    None
):
    effects = Effects()
    with RawClient(effects.server, R5, {}) as client:
        state = client.once("tools/call", name="act", arguments={})["result"]["requestState"]
        answers = {"elicit-1": {"action": "decline"}}
        for _ in range(10):
            client.begin(
                "tools/call", name="act", arguments={}, requestState=state, inputResponses=answers
            )
        texts = [client.peer.expect()["result"]["content"][0]["text"] for _ in range(10)]
        assert texts == ["x decline"] * 10
    assert effects.runs == 10
    effects.server.close()


# ------------------------------------------------------------ handlers that give way


def again(first: Dict[str, Any], answer: Any = None) -> Dict[str, Any]:
    """The params of a retry that answers every question of a result alike."""
    reply = {"action": "accept", "content": {"n": 1}} if answer is None else answer
    return {
        "requestState": first["requestState"],
        "inputResponses": dict.fromkeys(first["inputRequests"], reply),
    }


def waiting(server: Server) -> List[Any]:
    """Return the channels of the waiting handlers, the longest wait first."""
    by_sink = feature_of(server, "rounds").waiting._waiting
    return [channel for waits in by_sink.values() for channel in waits.values()]


def act(client: RawClient, name: str = "x", **params: Any) -> Dict[str, Any]:
    arguments = {"name": name, "questions": params.pop("questions", 1)}
    message = client.once("tools/call", name="act", arguments=arguments, **params)
    result: Dict[str, Any] = message["result"]
    return result


@pytest.mark.requirement("M:MRTR-S11")
@pytest.mark.parametrize(("most", "calls"), [(0, 300), (2, 300), (None, 40)])
def test_questions_without_an_answer_keep_few_threads(most: Optional[int], calls: int) -> None:
    effects = Effects(limits=Limits(waiting_handlers=most, requests=50))
    with RawClient(effects.server, R5, {}) as client:
        before = set(threading.enumerate())
        firsts = [act(client, str(number)) for number in range(calls)]
        kept = calls if most is None else most
        assert len(waiting(effects.server)) == kept
        (channel,) = connections_of(effects.server)
        assert eventually(lambda: channel.requests.running == kept)
        assert len(channel.requests) == len(channel.calls) == 0
        # On a busy machine some threads have not unwound their handlers yet.
        assert len(set(threading.enumerate()) - before) <= kept + 100
        # The next call is served, and so are the retries of the newest and of the oldest.
        assert act(client, "next")["resultType"] == "input_required"
        for number in (0, calls - 1):
            last = act(client, str(number), **again(firsts[number]))
            assert last["content"][0]["text"] == f"{number} accept{{'n': 1}}"
        assert most is not None or effects.runs == calls + 1, "no handler ran again"
    effects.server.close()


def test_the_handler_that_has_waited_longest_gives_way() -> None:
    effects = Effects(limits=Limits(waiting_handlers=2))
    with RawClient(effects.server, R5, {}) as client:
        one, two = act(client, "one"), act(client, "two", questions=2)
        two = act(client, "two", questions=2, **again(two))  # so it waits since then
        three, four = act(client, "three"), act(client, "four")
        assert [
            incoming_of(channel).request.params["arguments"]["name"]
            for channel in waiting(effects.server)
        ] == [
            "three",
            "four",
        ]
        assert sorted(effects.ended.get(timeout=WAIT) for _ in range(2)) == [
            "Suspend: ",
            "Suspend: ",
        ]
        assert effects.runs == 4
        for name, first, runs in (("three", three, 4), ("four", four, 4), ("one", one, 5)):
            text = act(client, name, **again(first))["content"][0]["text"]
            assert (text, effects.runs) == (f"{name} accept{{'n': 1}}", runs)
        text = act(client, "two", questions=2, **again(two))["content"][0]["text"]
        assert text == "two accept{'n': 1} accept{'n': 1}" and effects.runs == 6
    effects.server.close()


def test_handlers_give_way_only_to_handlers_of_their_connection() -> None:
    effects = Effects(limits=Limits(waiting_handlers=1))
    with RawClient(effects.server, R5, {}) as one, RawClient(effects.server, R5, {}) as two:
        firsts = [act(one), act(two)]
        assert len(waiting(effects.server)) == 2
        # A retry on another connection runs the handler again.
        assert act(two, **again(firsts[0]))["content"][0]["text"] == "x accept{'n': 1}"
        assert effects.runs == 3 and len(waiting(effects.server)) == 2
        assert act(two, **again(firsts[1]))["content"][0]["text"] == "x accept{'n': 1}"
        assert effects.runs == 3
    effects.server.close()


class Once:
    """A server whose tool has a step, progress, a log, a middleware and three questions."""

    def __init__(self, **options: Any) -> None:
        self.server = Server("once", **options)
        self.seen: List[Any] = []
        self.steps: List[str] = []

        @self.server.middleware
        def note(ctx: Context, call_next: Any) -> Any:
            try:
                return call_next()
            finally:
                self.seen.append((ctx.call_id, ctx.round, ctx.request_id))

        @self.server.tool(timeout=WAIT)
        def book(ctx: Context) -> str:
            """Book."""
            ctx.progress(ctx.round)
            said = []
            for key in ("a", "b", "c"):
                said.append(ctx.elicit(key, {"n": int}, key=key).require()["n"])
                ctx.step(key, lambda key=key: self.steps.append(key))
            ctx.progress(10)
            return f"{said} {ctx.call_id} {ctx.round}"


def test_the_next_run_has_the_answers_the_steps_and_the_id_of_the_call() -> None:
    once = Once(limits=Limits(waiting_handlers=1))

    def round_of(params: Dict[str, Any], number: int) -> Dict[str, Any]:
        call = client.once(
            "tools/call", name="book", arguments={}, _meta={"progressToken": f"t{number}"}, **params
        )
        result: Dict[str, Any] = call["result"]
        return result

    def disturb() -> None:
        client.once("tools/call", name="book", arguments={}, _meta={"progressToken": "other"})

    with RawClient(once.server, R5, {}) as client:
        result = round_of({}, 1)
        result = round_of(again(result, {"action": "accept", "content": {"n": 1}}), 2)
        disturb()  # the handler that waited gives way
        result = round_of(again(result, {"action": "accept", "content": {"n": 2}}), 3)
        assert [*result["inputRequests"]] == ["c"]
        disturb()
        result = round_of(again(result, {"action": "accept", "content": {"n": 3}}), 4)
        said, call_id, runs = result["content"][0]["text"].rsplit(maxsplit=2)
        assert said == "[1, 2, 3]" and runs == "3" and once.steps == ["a", "b", "c"]
        # A run that gave way ends on its own thread.
        assert eventually(lambda: [one[0] for one in once.seen].count(call_id) == 3)
        own = sorted(one[1:] for one in once.seen if one[0] == call_id)
        assert own == [(1, 2), (2, 4), (3, 6)], "each run knows the request that it answers"
        told = [
            (notice["params"]["progressToken"], notice["params"]["progress"])
            for notice in client.notices
            if notice["params"]["progressToken"] != "other"
        ]
        assert told == [("t1", 1), ("t3", 2), ("t4", 3), ("t4", 10)]
    once.server.close()


@pytest.mark.parametrize("most", [0, 1, 16])
def test_a_client_is_asked_at_most_rounds_times_even_if_handlers_give_way(most: int) -> None:
    effects = Effects(limits=Limits(waiting_handlers=most, rounds=3))
    with RawClient(effects.server, R5, {}) as client:
        result = act(client, questions=5)
        for _ in range(2):
            act(client, "other")
            result = act(client, questions=5, **again(result))
            assert result["resultType"] == "input_required"
        act(client, "other")
        result = act(client, questions=5, **again(result))
        assert result["isError"] and "asked 3 times" in result["content"][0]["text"]
    effects.server.close()


def test_a_handler_that_swallows_suspend_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, ended = Server("asks", limits=Limits(waiting_handlers=1)), threading.Semaphore(0)
    steps: List[int] = []

    @server.tool
    def stubborn(ctx: Context, name: str) -> str:
        """Catch everything."""
        for _ in range(3):
            try:
                return str(ctx.elicit("?", {"n": int}, key="k").require())
            except BaseException:
                try:
                    ctx.step("s", lambda: steps.append(1))
                except BaseException:
                    pass
        ended.release()
        return "guessed"

    with RawClient(server, R5, {}) as client:
        calls = [
            client.once("tools/call", name="stubborn", arguments={"name": name})["result"]
            for name in ("one", "two")
        ]
        assert ended.acquire(timeout=WAIT)
        assert eventually(lambda: "continued although a question is pending" in caplog.text)
        assert steps == [], "the client has the state already"
        for name, first in zip(("one", "two"), calls):
            params = {"name": "stubborn", "arguments": {"name": name}, **again(first)}
            assert client.once("tools/call", **params)["result"]["content"][0]["text"] == "{'n': 1}"
    server.close()


@pytest.mark.parametrize("executor", ["main", "serial", "callable"])
def test_a_handler_that_gives_way_frees_the_thread_of_its_executor(executor: str) -> None:
    pump = executor == "main"
    kinds: Dict[str, Any] = {"main": "main", "serial": Serial(), "callable": lambda run: run()}
    server = Server("asks", limits=Limits(waiting_handlers=1))

    @server.tool(executor=kinds[executor])
    def there(ctx: Context) -> str:
        """Ask on the one thread."""
        return str(ctx.elicit("?", {"n": int}).require()["n"])

    @server.tool
    def other(ctx: Context) -> str:
        """Ask elsewhere."""
        return str(ctx.elicit("?", {"n": int}).require()["n"])

    stop = threading.Event()

    def pumping() -> None:
        while not stop.is_set():
            server.pump(0.01)

    task = Task(pumping) if pump else None
    with RawClient(server, R5, {}) as client:
        for _ in range(3):
            first = client.once("tools/call", name="there", arguments={})["result"]
            client.once("tools/call", name="other", arguments={})
            last = client.once("tools/call", name="there", arguments={}, **again(first))["result"]
            assert last["content"][0]["text"] == "1"
    stop.set()
    if task is not None:
        task.result()
    server.close()


def test_the_timeout_of_a_tool_applies_to_each_run() -> None:
    server, late = Server("asks", limits=Limits(waiting_handlers=1)), threading.Event()

    @server.tool(timeout=0.05)
    def slow(ctx: Context) -> str:
        """Wait for ever, once the question is answered."""
        ctx.on_cancel(late.set)
        ctx.elicit("?", {"n": int})
        ctx.sleep(10 * WAIT)
        return "never"

    @server.tool
    def other(ctx: Context) -> str:
        """Ask."""
        return ctx.elicit("?", {"n": int}).action

    with RawClient(server, R5, {}) as client:
        first = client.once("tools/call", name="slow", arguments={})["result"]
        client.once("tools/call", name="other", arguments={})
        last = client.once("tools/call", name="slow", arguments={}, **again(first))["result"]
        assert last["content"][0]["text"] == "slow did not finish within 0.05 s"
        assert late.wait(WAIT)
    server.close()


def test_a_retry_is_cancelled_like_any_request() -> None:
    server, running, ended = Server("asks"), threading.Event(), SimpleQueue()  # type: ignore[var-annotated]

    @server.tool
    def book(ctx: Context) -> str:
        """Ask, then wait."""
        ctx.elicit("?", {"n": int})
        ctx.on_cancel(lambda: ended.put("callback"))
        running.set()
        try:
            ctx.sleep(10 * WAIT)
        finally:
            ended.put(f"cancelled {ctx.cancelled}")
        return "never"

    with RawClient(server, R5, {}) as client:
        first = client.once("tools/call", name="book", arguments={})["result"]
        id = client.begin("tools/call", name="book", arguments={}, **again(first))
        assert running.wait(WAIT)
        params = {"requestId": id, "reason": "enough"}
        client.peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        assert {ended.get(timeout=WAIT), ended.get(timeout=WAIT)} == {"callback", "cancelled True"}
        (channel,) = connections_of(server)
        assert eventually(lambda: channel.requests.running == 0 and len(channel.requests) == 0)
    server.close()


def test_a_removed_tool_continues_where_it_waits() -> None:
    effects = Effects()
    with RawClient(effects.server, R5, {}) as client:
        first = act(client)
        effects.server.remove_tool("act")
        assert act(client, **again(first))["content"][0]["text"] == "x accept{'n': 1}"
        gone = client.once("tools/call", name="act", arguments={}, **again(first))["error"]
        assert "Unknown tool" in gone["message"]
    effects.server.close()


# ------------------------------------------------------------ one outcome


class Held:
    """A server with one handler that waits, whose wake-up the test holds back.

    The handler's wait returns only when `release` is set, even if it has ended before.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **limits: Any) -> None:
        self.effects = Effects(limits=Limits(**limits))
        self.release, self.reached = threading.Event(), threading.Event()
        held, queue = self, input_rounds.SimpleQueue

        class Slow:
            """A queue whose `get` returns late."""

            def __init__(self) -> None:
                self._queue: Any = queue()
                self.put = self._queue.put

            def get(self, *arguments: Any, **keywords: Any) -> Any:
                try:
                    return self._queue.get(*arguments, **keywords)
                finally:
                    held.reached.set()
                    held.release.wait(WAIT)

        monkeypatch.setattr(input_rounds, "SimpleQueue", Slow)


ENDINGS = ("answer", "give way", "loss")


@pytest.mark.parametrize("second", ENDINGS)
@pytest.mark.parametrize("first", ENDINGS)
def test_the_first_of_two_endings_ends_a_wait(
    monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """The second ending happens before the waiting thread has run after the first."""
    held = Held(monkeypatch, waiting_handlers=1, drain_grace=0.0)
    effects = held.effects
    client = RawClient(effects.server, R5, {})
    question = act(client, "held")
    (channel,) = waiting(effects.server)
    waits = feature_of(effects.server, "rounds").waiting
    sink, other = incoming_of(channel).sink, WaitingChannel(incoming_of(channel))
    answers: List[Any] = []

    def expect(id: Any) -> None:
        """Keep the answers up to this one."""
        answers.append(client.peer.expect())
        while answers[-1]["id"] != id:
            answers.append(client.peer.expect())

    def end(what: str) -> None:
        if what == "answer":
            params = {"name": "act", "arguments": {"name": "held", "questions": 1}}
            client.begin("tools/call", **params, **again(question))
            expect(client.begin("server/discover"))  # the reader has taken the retry
            answers.pop()
        elif what == "give way":
            waits.add(sink, "another", other, 1)
        else:
            waits.end(sink)

    end(first)
    assert held.reached.wait(WAIT)
    end(second)
    held.release.set()
    expected = {
        "answer": "",
        "give way": "Suspend: ",
        "loss": "Cancelled: the connection is ending",
    }
    retries = (first, second).count("answer")
    ends = [effects.ended.get(timeout=WAIT) for _ in range(2 if second == "answer" else 1)]
    assert sorted(ends) == sorted([expected[first], *[""] * (second == "answer")])
    while len(answers) < retries:
        answers.append(client.peer.expect())
    texts = [each["result"]["content"][0]["text"] for each in answers]
    assert texts == ["held accept{'n': 1}"] * retries
    assert effects.runs == (2 if second == "answer" else 1)
    client.close()
    effects.server.close()


def test_an_answer_at_the_moment_of_the_timeout_is_the_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread has found no answer in time, and another one has just taken the handler out."""
    effects, came = Effects(limits=Limits(ask_timeout=0.05)), threading.Event()
    remove = WaitingHandlers.remove

    def slow(self: Any, sink: Any, state: str, channel: Any) -> bool:
        if threading.current_thread().name.endswith("-reader"):
            removed = remove(self, sink, state, channel)
            came.set()
            return removed
        if waiting(effects.server):  # the time is over
            assert came.wait(WAIT)
        return remove(self, sink, state, channel)

    monkeypatch.setattr(WaitingHandlers, "remove", slow)
    with RawClient(effects.server, R5, {}) as client:
        first = act(client)
        assert act(client, **again(first))["content"][0]["text"] == "x accept{'n': 1}"
        assert effects.runs == 1
    effects.server.close()


@pytest.mark.parametrize(("revision", "most"), [(R4, 16), (R5, 16), (R5, 0)])
def test_a_cancelled_call_asks_no_question_and_begins_no_step(revision: str, most: int) -> None:
    server = Server("asks", limits=Limits(waiting_handlers=most))
    entered, go = threading.Event(), threading.Event()
    ended: "SimpleQueue[Any]" = SimpleQueue()

    @server.tool
    def book(ctx: Context) -> str:
        """Ask when the test allows it."""
        entered.set()
        assert go.wait(WAIT)
        for act in (
            lambda: ctx.step("s", lambda: ended.put("step")),
            lambda: ctx.elicit("?", {"n": int}),
        ):
            try:
                act()
            except BaseException as error:
                ended.put(type(error))
        return "never"

    with RawClient(server, revision, {}) as client:
        id = client.begin("tools/call", name="book", arguments={})
        assert entered.wait(WAIT)
        client.peer.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
        )
        assert "result" in client.once("tools/list")
        go.set()
        assert [ended.get(timeout=WAIT) for _ in range(2)] == [Cancelled, Cancelled]
        assert "result" in client.once("tools/list") and client.asked == []
        assert waiting(server) == []
    server.close()


@pytest.mark.parametrize("ask_timeout", [0.02, 600.0])
def test_under_stress_each_request_has_one_response(ask_timeout: float) -> None:
    """Retries, copies of retries, other calls, cancellations and timeouts at random."""
    effects = Effects(limits=Limits(waiting_handlers=3, ask_timeout=ask_timeout, workers=8))
    random, interval = Random(27), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with RawClient(effects.server, R5, {}) as client:
            open_ids: Dict[int, Any] = {}
            cancelled: Set[Any] = set()
            late: List[Any] = []
            known: List[Any] = []
            finished = 0

            def begin(name: str, **params: Any) -> None:
                arguments = {"name": name, "questions": 3}
                id = client.begin("tools/call", name="act", arguments=arguments, **params)
                open_ids[id] = name

            def take() -> Dict[str, Any]:
                """Return the next response to an open request."""
                while True:
                    message: Dict[str, Any] = client.peer.expect()
                    if "method" in message:
                        continue
                    if message["id"] in cancelled:
                        # Its handler had been removed from the table before the cancellation
                        # arrived, and sent the response after that.
                        late.append(message["id"])
                        continue
                    return message

            for number in range(120):
                begin(str(number))
                while len(open_ids) > 12:
                    message = take()
                    name = open_ids.pop(message["id"])  # KeyError: a second answer
                    result = message.get("result", {})
                    if result.get("resultType") == "input_required":
                        known.append((name, again(result)))
                    else:
                        finished += 1
                        if ask_timeout == 600:
                            assert result["content"][0]["text"].startswith(f"{name} accept")
                    if known and random.random() < 0.9:
                        known_name, retry = known.pop(random.randrange(len(known)))
                        begin(known_name, **retry)
                        if random.random() < 0.2:
                            begin(known_name, **retry)
                if open_ids and random.random() < 0.1:
                    id = random.choice([*open_ids])
                    open_ids.pop(id)
                    cancelled.add(id)
                    params = {"requestId": id}
                    client.peer.send(
                        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
                    )
            while open_ids:
                del open_ids[take()["id"]]
            assert len(late) == len(set(late)), "a second answer"
            assert finished > 25 and cancelled
            (channel,) = connections_of(effects.server)
            assert eventually(lambda: channel.requests.running <= 3 and len(channel.requests) == 0)
    finally:
        sys.setswitchinterval(interval)
    effects.server.close()
    assert eventually(lambda: waiting(effects.server) == [])
