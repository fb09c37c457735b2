"""The calls of this side: registered, then written; ended once; the peer told when this side gives up."""

from __future__ import annotations

import json
from typing import Any, Callable, List

import pytest

from minimcp.engine.pool import here
from minimcp.engine.requests import Outgoing
from minimcp.engine.timer import Deadline
from minimcp.errors import Cancelled, ConnectionLost, ProtocolViolation, RequestTimeout
from minimcp.protocol.messages import Failure

from .scripted import Task
from .support import WAIT


class Bench:
    """Calls, and what they write and owe."""

    def __init__(self) -> None:
        self.posted: List[Any] = []
        self.owed: List[Any] = []
        self.when_posted: Callable[[Any], Any] = lambda message: None
        self.remark = ""
        self.calls = Outgoing(
            "test", post=self.post, owe=lambda line: self.owed.append(json.loads(line)), remark=lambda: self.remark
        )

    def post(self, lines: bytes) -> None:
        for message in map(json.loads, lines.splitlines()):
            self.posted.append(message)
            self.when_posted(message)

    def call(self, **options: Any) -> Any:
        return self.calls.call("work", lambda id: {"token": id}, **options)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def soon() -> Deadline:
    return Deadline(WAIT)


def test_an_answer(bench: Bench) -> None:
    call = bench.call()
    assert bench.posted == [{"jsonrpc": "2.0", "id": 1, "method": "work", "params": {"token": 1}}]
    bench.calls.table.settle(1, {"n": 1})
    assert bench.calls.wait(call, soon()) == {"n": 1}
    assert bench.owed == []


def test_an_answer_that_beats_the_write(bench: Bench) -> None:
    """Rule 2: it is registered before anything of it is written."""
    bench.when_posted = lambda message: bench.calls.table.settle(message["id"], {"n": 1})
    assert bench.calls.wait(bench.call(), soon()) == {"n": 1}


@pytest.mark.parametrize("answer", [{"n": 1}, Failure(1, 7, "no", None)])
def test_an_answer_that_beats_the_loss_of_what_others_wrote_behind_it(bench: Bench, answer: Any) -> None:
    def lose(message: Any) -> None:
        bench.calls.table.settle(message["id"], answer)
        raise ConnectionLost("gone")

    bench.when_posted = lose
    assert bench.calls.wait(bench.call(), soon()) == answer
    assert bench.owed == []


def test_an_error_of_the_peer_is_handed_over(bench: Bench) -> None:
    call = bench.call()
    failure = Failure(1, -32601, "no")
    bench.calls.table.settle(1, failure)
    assert bench.calls.wait(call, soon()) is failure


def test_what_is_no_answer(bench: Bench) -> None:
    call = bench.call()
    bench.calls.table.settle(1, ProtocolViolation("an object", [1]))
    with pytest.raises(ProtocolViolation) as caught:
        bench.calls.wait(call, soon())
    assert caught.value.peer_message == [1]


def test_a_failed_write_retires_the_entry(bench: Bench) -> None:
    def fail(message: Any) -> None:
        raise ConnectionLost("gone")

    bench.when_posted = fail
    with pytest.raises(ConnectionLost, match="gone"):
        bench.call()
    assert len(bench.calls.table) == 0
    assert bench.owed == []


@pytest.mark.parametrize("params", [lambda id: {"x": object()}, lambda id: {"x": float("nan")}, lambda id: 1 / 0])
def test_params_that_are_none_retire_the_entry(bench: Bench, params: Any) -> None:
    with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
        bench.calls.call("work", params)
    assert len(bench.calls.table) == 0
    assert bench.posted == []


@pytest.mark.requirement("CANC-01")
def test_no_answer_in_time_is_told(bench: Bench) -> None:
    call = bench.call()
    with pytest.raises(RequestTimeout, match="^test: work: no answer within 0 s$"):
        bench.calls.wait(call, Deadline(0))
    assert bench.owed[0]["method"] == "notifications/cancelled"
    assert bench.owed[0]["params"] == {"requestId": 1, "reason": "test: work: no answer within 0 s"}
    assert not bench.calls.table.settle(1, {})  # too late


@pytest.mark.parametrize(
    ("about", "remark", "text"),
    [
        ("slow", "", "test: work 'slow': no answer within 0.0001 s"),
        ("a\nb", "; it says x", "test: work 'a\\nb': no answer within 0.0001 s; it says x"),
        (5, "", "test: work: no answer within 0.0001 s"),
    ],
)
def test_a_timeout_says_what_was_called_and_what_came_instead(about: Any, remark: str, text: str, bench: Bench) -> None:
    bench.remark = remark
    with pytest.raises(RequestTimeout) as caught:
        bench.calls.wait(bench.call(), Deadline(0.0001), about=about)
    assert str(caught.value) == text


def test_no_answer_in_time_is_not_told_when_it_must_not_be(bench: Bench) -> None:
    with pytest.raises(RequestTimeout):
        bench.calls.wait(bench.call(), Deadline(0), tell=False)
    assert bench.owed == []


def test_an_answer_that_comes_with_the_timeout_counts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    call = bench.call()
    table, settle = bench.calls.table, bench.calls.table.settle

    class Crossing:
        cause = None

        def settle(self, id: Any, ending: Any) -> bool:
            settle(id, {"n": 1})
            return settle(id, ending)

    monkeypatch.setattr(bench.calls, "table", Crossing())
    assert bench.calls.wait(call, Deadline(0)) == {"n": 1}
    assert bench.owed == []
    assert len(table) == 0


def test_a_cancel_from_another_thread_ends_the_wait_and_is_told(bench: Bench) -> None:
    call = bench.call()
    waiting = Task(bench.calls.wait, call, Deadline(None))
    assert bench.calls.retire(call, Cancelled("never\nmind"))
    assert not bench.calls.retire(call, Cancelled("twice"))
    with pytest.raises(Cancelled, match="never"):
        waiting.result()
    assert [message["params"]["reason"] for message in bench.owed] == ["never\\nmind"]


def test_an_exception_of_a_callback_reaches_the_caller_and_the_peer_is_told(bench: Bench) -> None:
    def fail(item: Any) -> None:
        raise KeyboardInterrupt

    call = bench.call(on_item=fail)
    call.put({"progress": 1})
    with pytest.raises(KeyboardInterrupt):
        bench.calls.wait(call, soon())
    assert bench.owed[0]["params"]["requestId"] == 1
    assert len(bench.calls.table) == 0


def test_a_loss_is_told_to_each_caller_in_an_exception_of_its_own(bench: Bench) -> None:
    calls = [bench.call(), bench.call()]
    cause = ConnectionLost("gone", exit_code=3, stderr_tail="tail")
    bench.calls.table.close(cause)
    caught = []
    for call in calls:
        with pytest.raises(ConnectionLost, match="gone") as info:
            bench.calls.wait(call, soon())
        caught.append(info.value)
    assert caught[0] is not caught[1]
    assert cause not in caught
    assert {(error.exit_code, error.stderr_tail) for error in caught} == {(3, "tail")}
    with pytest.raises(ConnectionLost, match="gone"):
        bench.call()


def test_nothing_is_told_after_a_loss(bench: Bench) -> None:
    call = bench.calls.table.register("work")
    bench.calls.table._cause["cause"] = ConnectionLost("gone")
    assert bench.calls.retire(call, Cancelled("late"))
    assert bench.owed == []


def test_who_waits_gives_its_place_back(bench: Bench) -> None:
    steps = []

    class Seat:
        def __enter__(self) -> None:
            steps.append("given back")
            bench.calls.table.settle(1, {})

        def __exit__(self, *_: object) -> None:
            steps.append("taken again")

    call = bench.call()

    def handler() -> Any:
        here.seat = Seat()
        return bench.calls.wait(call, Deadline(None))

    assert Task(handler).result() == {}
    assert steps == ["given back", "taken again"]


def test_the_end_of_all_calls_and_what_the_peer_is_told(bench: Bench) -> None:
    calls = [bench.call(), bench.calls.call("initialize", lambda id: {}), bench.call()]
    told = [json.loads(line) for line in bench.calls.close(ConnectionLost("test: closed")).splitlines()]
    assert [message["params"] for message in told] == [
        {"requestId": 1, "reason": "test: closed"}, {"requestId": 3, "reason": "test: closed"},
    ]
    assert {message["method"] for message in told} == {"notifications/cancelled"}
    for call in calls:
        with pytest.raises(ConnectionLost):
            bench.calls.wait(call, soon())
    assert bench.calls.close(ConnectionLost("again")) == b""
    assert bench.owed == []


# ------------------------------------------------------------ several at once


def test_several_calls_are_registered_and_then_written_in_one_piece() -> None:
    posted: List[bytes] = []
    registered: List[int] = []

    def post(lines: bytes) -> None:
        posted.append(lines)
        registered.append(len(calls.table))

    calls = Outgoing("test", post=post, owe=lambda line: None)
    pending: List[Any] = []
    calls.call_all([("a", {"n": 1}), ("b", {})], pending)
    assert registered == [2] and [call.method for call in pending] == ["a", "b"]
    assert [json.loads(line)["method"] for line in posted[0].splitlines()] == ["a", "b"]


def test_several_calls_of_which_one_is_no_json_are_not_sent(bench: Bench) -> None:
    pending: List[Any] = []
    with pytest.raises((TypeError, ValueError)):
        bench.calls.call_all([("a", {}), ("b", {"n": object()})], pending)
    assert bench.posted == [] and bench.owed == [] and len(bench.calls.table) == 0
    assert [call.ended for call in pending] == [True]


def test_several_calls_that_cannot_be_written_have_ended(bench: Bench) -> None:
    def fail(message: Any) -> None:
        raise ConnectionLost("gone")

    bench.when_posted = fail
    with pytest.raises(ConnectionLost):
        bench.calls.call_all([("a", {})], [])
    assert len(bench.calls.table) == 0 and bench.owed == []


def test_several_calls_whose_caller_is_interrupted_are_withdrawn(bench: Bench) -> None:
    def interrupt(message: Any) -> None:
        raise KeyboardInterrupt

    bench.when_posted = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.calls.call_all([("a", {})], [])
    assert len(bench.calls.table) == 0 and [each["params"]["requestId"] for each in bench.owed] == [1]


def three(bench: Bench) -> List[Any]:
    """Three calls that wait."""
    pending: List[Any] = []
    bench.calls.call_all([("a", {}), ("b", {}), ("c", {})], pending)
    return pending


def test_all_results_come_in_the_order_of_the_calls(bench: Bench) -> None:
    pending = three(bench)
    waiting = Task(bench.calls.wait_all, pending, soon())
    for id in (3, 1, 2):
        bench.calls.table.settle(id, {"n": id})
    assert waiting.result() == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert bench.calls.wait_all(pending, soon()) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert bench.calls.wait_all([], soon()) == []


def test_an_error_is_not_kept_back_by_calls_that_nobody_answers(bench: Bench) -> None:
    refusal = Failure(2, -1, "no")
    for ending in (refusal, ProtocolViolation("rule")):
        bench.calls.table._ids = iter(range(1, 4))  # type: ignore[assignment]
        waiting = Task(bench.calls.wait_all, three(bench), soon())
        bench.calls.table.settle(1, {})
        bench.calls.table.settle(2, ending)
        if ending is refusal:
            assert waiting.result() is refusal
        else:
            with pytest.raises(ProtocolViolation, match="rule"):
                waiting.result()
        assert bench.calls.table.ids() == [3]  # who asked withdraws it
        bench.calls.table.settle(3, {})


def test_time_is_over_before_all_have_answered(bench: Bench) -> None:
    pending = three(bench)
    bench.calls.table.settle(1, {})
    with pytest.raises(RequestTimeout, match="b: no answer within 0.001 s"):
        bench.calls.wait_all(pending, Deadline(0.001))
