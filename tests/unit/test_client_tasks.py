"""`Task` and a scripted server with unusual answers, order and intervals."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable, Dict, List

import pytest

from minimcp import (
    Cancelled,
    CapabilityNotSupported,
    Client,
    InvalidParams,
    ProtocolViolation,
    RpcError,
    Tasks,
    connect,
)
from minimcp.client import session
from minimcp.client.calls import MAX_QUESTIONS, MAX_ROUNDS
from minimcp.engine.timer import Deadline
from minimcp.extensions import client_tasks as tasks

from ..answering import R4, R5, Answering, discovered, error, initialized, result
from ..inside import session_of
from ..scripted import Task, dumps
from ..support import WAIT, eventually

ID = "io.modelcontextprotocol/tasks"
DONE = {"content": [{"type": "text", "text": "done"}]}
QUESTION = {"method": "elicitation/create", "params": {
    "mode": "form", "message": "who?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}}  # fmt: skip
CORE = initialized(
    R4, tools={}, tasks={"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
)


def state(status: str, kind: str = "complete", **more: Any) -> Callable[[Dict[str, Any]], Any]:
    stamp = "2030-01-01T00:00:00Z"
    return result(
        resultType=kind, taskId="t1", status=status, createdAt=stamp, lastUpdatedAt=stamp,
        **{"ttlMs": None, "pollIntervalMs": 1, **more},
    )  # fmt: skip


class Script(Answering):
    """A stateless server with one task.

    Args:
        answers: The answers to `tasks/get`, one after the other.
        more: The answers to other methods.
    """

    def __init__(self, *answers: Any, **more: Any) -> None:
        self.updates: List[Any] = []
        script = {
            "server/discover": lambda message: {"result": {
                **discovered()(message)["result"], "capabilities": {"tools": {}, "extensions": {ID: {}}},
            }},
            "tools/call": state("working", "task"), "tasks/get": list(answers), "tasks/cancel": result(),
            "tasks/update": lambda message: self.updates.append(message["params"]) or {"result": {}},
        }  # fmt: skip
        super().__init__({**script, **more}, modern=True)

    def polls(self) -> int:
        return int(self.pipe.methods().count("tasks/get"))


@pytest.fixture
def sleeps(monkeypatch: pytest.MonkeyPatch) -> List[float]:
    """How long a client wanted to sleep between two looks; it does not."""
    slept: List[float] = []

    def rest(task: Any, call: Any, deadline: Deadline) -> None:
        slept.append(deadline.seconds)

    monkeypatch.setattr(tasks.Task, "_rest", rest)
    return slept


def opened(script: Answering, revision: str = R5, **options: Any) -> Client:
    return connect(script, revision=revision, extensions=[Tasks()], **options)


@pytest.mark.requirement("M:TASK-12", "M:TASK-37")
def test_the_latest_interval_counts_within_bounds(sleeps: List[float]) -> None:
    odd = [2000, 5, 10**9, -1, "soon", None, True]
    script = Script(
        *[state("working", pollIntervalMs=each) for each in odd], state("completed", result=DONE)
    )
    with opened(script) as client:
        assert client.call_tool("work", timeout=None).text == "done"
    assert [round(each, 2) for each in sleeps] == [2, 0.02, 60, 60, 60, 60, 60]


@pytest.mark.requirement("M:TASK-14")
def test_a_key_is_asked_once(sleeps: List[float]) -> None:
    asks = state("input_required", inputRequests={"k1": QUESTION})
    both = state("input_required", inputRequests={"k1": QUESTION, "k2": QUESTION})
    script = Script(asks, asks, both, state("working"), state("completed", result=DONE))
    count: List[str] = []

    def elicit(question: Any) -> Dict[str, str]:
        count.append(question.message)
        return {"name": f"N{len(count)}"}

    with opened(script, elicit=elicit) as client:
        assert client.call_tool("work").text == "done"
    assert len(count) == 2
    names = [
        {key: one["content"]["name"] for key, one in each["inputResponses"].items()}
        for each in script.updates
    ]
    assert names == [{"k1": "N1"}, {"k1": "N1"}, {"k1": "N1", "k2": "N2"}]


@pytest.mark.parametrize("way", ["call", "wait", "result"])
def test_a_task_asks_as_often_as_a_call_may(sleeps: List[float], way: str) -> None:
    asks = [state("input_required", inputRequests={f"k{number}": QUESTION}) for number in range(20)]
    script, asked = Script(*asks, state("completed", result=DONE)), list[Any]()

    def elicit(question: Any) -> Dict[str, str]:
        asked.append(question)
        return {"name": "Ada"}

    with opened(script, elicit=elicit) as client:
        with pytest.raises(ProtocolViolation, match="may ask at most 10 times for input"):
            if way == "call":
                client.call_tool("work", timeout=None)
            else:
                getattr(client.start_task("work"), way)(WAIT)
        assert len(asked) == len(script.updates) == MAX_ROUNDS


def test_a_task_asks_as_many_questions_at_once_as_a_call_may(sleeps: List[float]) -> None:
    many = {f"k{number}": QUESTION for number in range(MAX_QUESTIONS + 1)}
    script = Script(state("input_required", inputRequests=many))
    with opened(script, elicit=lambda _: pytest.fail("no question is put to the user")) as client:
        with pytest.raises(ProtocolViolation, match=f"at most {MAX_QUESTIONS} questions"):
            client.call_tool("work", timeout=None)


@pytest.mark.requirement("M:TASK-18")
def test_no_cancelled_notification_names_a_task(sleeps: List[float]) -> None:
    script = Script(state("working"), state("cancelled"))
    with opened(script) as client:
        task = client.start_task("work")
        task.cancel()
        with pytest.raises(Cancelled):
            task.result(WAIT)
        assert "notifications/cancelled" not in script.pipe.methods()


@pytest.mark.requirement("TASK-35")
def test_a_task_that_was_cancelled_may_be_gone() -> None:
    gone = error(-32602, "there is no task with this taskId")
    script = Script(**{"initialize": CORE, "tasks/get": gone, "tasks/cancel": [result(), gone]})
    with opened(script, R4) as client:
        task = client.task("t1")
        task.cancel()
        with pytest.raises(InvalidParams):
            task.refresh()
        task.give_up()
        assert script.pipe.methods().count("tasks/cancel") == 2


def test_an_ended_task_stays_ended(sleeps: List[float]) -> None:
    script = Script(state("completed", result=DONE), state("working"))
    with opened(script) as client:
        task = client.start_task("work")
        assert task.wait(WAIT) == "completed"
        assert task.refresh() == "completed"
        assert task.result().text == "done"


def test_a_task_that_ended_before_it_was_announced(sleeps: List[float]) -> None:
    done = state("completed", "task")
    with opened(Script(state("completed", result=DONE), **{"tools/call": done})) as client:
        assert client.call_tool("work").text == "done"


def test_a_result_at_once_is_a_task_that_has_ended() -> None:
    with opened(Script(**{"tools/call": result(resultType="complete", **DONE)})) as client:
        task = client.start_task("work")
        assert (task.id, task.status, task.wait(), task.result().text) == (
            "",
            "completed",
            "completed",
            "done",
        )
        task.cancel()


@pytest.mark.parametrize("answer", [
    state("resting"), state("completed", result=5), state("completed"), state("failed", error={"code": "x"}),
    result(resultType="complete", taskId="another", status="completed", result=DONE), result(resultType="complete"),
])  # fmt: skip
def test_invalid_results_are_rejected(answer: Any, sleeps: List[float]) -> None:
    script = Script(answer)
    with opened(script) as client:
        with pytest.raises(ProtocolViolation):
            client.call_tool("work")


def test_the_error_of_a_task(sleeps: List[float]) -> None:
    with opened(
        Script(state("failed", error={"code": -32050, "message": "no", "data": 5}))
    ) as client:
        with pytest.raises(RpcError, match="no") as caught:
            client.call_tool("work")
        assert (caught.value.code, caught.value.data) == (-32050, 5)


@pytest.mark.requirement("M:TASK-30", "M:EXT-6")
def test_a_task_is_the_result_of_no_other_method() -> None:
    with opened(Script(**{"prompts/get": state("working", "task")})) as client:
        with pytest.raises(ProtocolViolation):
            client.request("prompts/get", {"name": "x"})
    with connect(Script(), revision=R5) as undeclared:
        with pytest.raises(ProtocolViolation):
            undeclared.call_tool("work")


@pytest.mark.requirement("TASK-20", "TASK-30", "TASK-47")
def test_with_a_handshake_it_polls_until_the_end(sleeps: List[float]) -> None:
    def told(status: str) -> Callable[[Dict[str, Any]], Any]:
        stamp = "2030-01-01T00:00:00Z"
        return result(
            taskId="t1",
            status=status,
            createdAt=stamp,
            lastUpdatedAt=stamp,
            ttl=None,
            pollInterval=700,
        )

    task = told("working")({})["result"]
    script = Answering({
        "initialize": CORE, "tools/call": result(task=task), "tasks/result": result(**DONE),
        "tasks/get": [told("working"), told("working"), told("completed")],
        "tasks/list": [result(tasks=[task], nextCursor="c"), result(tasks=[task])],
    })  # fmt: skip
    with opened(script, R4) as client:
        assert client.start_task("work").result(WAIT).text == "done"
        assert script.pipe.methods()[-4:] == ["tasks/get", "tasks/get", "tasks/get", "tasks/result"]
        assert [each.id for each in client.list_tasks()] == ["t1", "t1"]
    assert [round(each, 2) for each in sleeps] == [0.7, 0.7]


@pytest.mark.parametrize("revision", ["2025-06-18", R4, R5])
def test_a_task_from_a_server_without_tasks(revision: str) -> None:
    handshake = initialized(revision, tools={})
    script = Script(**{"initialize": handshake, "server/discover": discovered()})
    told = {
        "2025-06-18": "2025-06-18 does not support tasks",
        R4: "does not declare the capability tasks",
        R5: f"does not declare the extension {ID}$",
    }
    with opened(script, revision) as client:
        task = client.task("t1")
        for ask in task.refresh, task.wait, task.result, task.cancel:
            with pytest.raises(CapabilityNotSupported, match=told[revision]):
                ask()
        assert not [method for method in script.pipe.methods() if method.startswith("tasks/")]
        with pytest.raises(ValueError, match="not be empty"):
            client.task("")


# ------------------------------------------------------------ notices


def notice(method: str, id: str = "t1", **meta: str) -> str:
    more = {"_meta": meta} if meta else {}
    return dumps(
        {
            "jsonrpc": "2.0",
            "method": method,
            "params": {"taskId": id, "status": "completed", **more},
        }
    )


def waits(client: Client, script: Script, polls: int) -> bool:
    return script.polls() == polls and bool(session_of(client).listeners)


@pytest.mark.requirement("TASK-30", "TASK-29")
@pytest.mark.parametrize("revision", [R4, R5])
def test_a_notification_shortens_the_wait_for_the_next_poll_and_does_not_replace_it(
    revision: str,
) -> None:
    looks = [state("working", pollInterval=60000, pollIntervalMs=60000)] * 2 + [
        state("completed", result=DONE)
    ]
    meta = {"io.modelcontextprotocol/subscriptionId": "7"}  # of a stream, which may be open or not
    method = "notifications/tasks/status" if revision == R4 else "notifications/tasks"
    script = Script(*looks, **{"initialize": CORE, "tasks/result": result(**DONE)})
    done: List[str] = []
    with opened(script, revision) as client:
        task = client.task("t1")
        waiter = threading.Thread(target=lambda: done.append(task.wait()))
        waiter.start()
        for polls in (1, 2):
            assert eventually(partial(waits, client, script, polls))
            script.pipe.give(notice(method, "another"))
            script.pipe.give(notice(method, **({} if revision == R4 else meta)))
        waiter.join(WAIT)
        assert (done, script.polls()) == (["completed"], 3)
        assert not session_of(client).listeners


def test_notices_do_not_have_a_client_poll_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: List[Any] = []
    real = session.ClientSession.sleep

    def sleep(self: Any, deadline: Deadline, *more: Any) -> None:
        pauses.append(deadline.seconds)
        real(self, deadline, *more)

    def told_while_it_looks(message: Dict[str, Any]) -> Any:
        script.pipe.give(notice("notifications/tasks"))
        return state("working", pollIntervalMs=60000)(message)

    monkeypatch.setattr(session.ClientSession, "sleep", sleep)
    script = Script(told_while_it_looks, told_while_it_looks, state("completed", result=DONE))
    with opened(script) as client:
        assert client.task("t1").wait(WAIT) == "completed"
    assert (pauses, script.polls()) == ([tasks.NOTICE_SECONDS] * 2, 3)


def test_a_task_that_ends_while_an_earlier_answer_is_read_stays_ended() -> None:
    task = tasks.Task(None, "t1")  # type: ignore[arg-type]
    take, reading = task._take, task._changed

    ended: List[bool] = []

    def end() -> None:
        if not ended and reading.acquire(
            blocking=False
        ):  # otherwise this thread waits until the other has read
            ended.append(True)
            take({"taskId": "t1", "status": "completed"})
            reading.release()

    class Earlier(Dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            Task(end).result()
            return super().__getitem__(name)

    take(Earlier(taskId="t1", status="working"))
    end()
    assert task.status == "completed"
