"""Tools that run as tasks, in both designs: the view of a client, its questions and cancellations,
and the data in the store."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest

from minimcp import (
    Cancelled,
    CancelToken,
    CapabilityNotSupported,
    Client,
    Context,
    HandlerFailed,
    InternalError,
    InvalidParams,
    Limits,
    MemoryStore,
    MethodNotFound,
    RequestTimeout,
    RpcError,
    Serial,
    Server,
    SqliteStore,
    Tasks,
    ToolError,
    connect,
)
from minimcp.extensions import task_runner as module

from ..inside import incoming_of, running_tasks, session_of, tasks_of
from ..scripted import Task
from ..support import WAIT, MovedTime, around, eventually, run_python
from .raw_client import RawClient

CORE, EXTENSION = "2025-11-25", "2026-07-28"
DESIGNS = pytest.mark.parametrize("revision", [CORE, EXTENSION])
ID = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
ANSWER = {"action": "accept", "content": {"name": "Ada"}}


class Gates:
    """Releases the handlers of a server."""

    def __init__(self) -> None:
        self.go, self.begun, self.cancelled = (
            threading.Event(),
            threading.Event(),
            threading.Event(),
        )


def make(gates: Optional[Gates] = None, tasks: Optional[Tasks] = None, **options: Any) -> Server:
    server = Server("jobs", extensions=[tasks or Tasks(poll_interval=0.02)], **options)
    gates = gates or Gates()

    @server.tool(task="optional")
    def add(a: int, b: int, ctx: Context) -> List[int]:
        """Add."""
        ctx.progress(1, 2, message="half done")
        return [a + b]

    @server.tool(task="required")
    def greet(ctx: Context) -> str:
        """Ask for a name."""
        return f"Hello, {ctx.elicit('Who?', {'name': str}).require()['name']}"

    @server.tool(task="optional")
    def ask_two(ctx: Context) -> str:
        """Ask twice: two questions, and one more."""
        from minimcp import Elicit

        asked = {key: Elicit(key, {"name": str}) for key in ("one", "two")}
        names = [answer.require()["name"] for answer in ctx.ask_all(asked).values()]
        return " ".join([*names, ctx.elicit("three", {"name": str}).require()["name"]])

    @server.tool(task="optional")
    def fail() -> str:
        """Fail."""
        raise ToolError("out of paper")

    @server.tool(task="optional")
    def refuse() -> str:
        """End by an error of the protocol."""
        raise RpcError(7, "not today", {"why": "rain"})

    @server.tool(task="optional")
    def block(ctx: Context) -> str:
        """Wait."""
        ctx.on_cancel(gates.cancelled.set)
        gates.begun.set()
        while not gates.go.wait(0.01):
            ctx.check()
        return "done"

    @server.tool
    def plain() -> str:
        """Never a task."""
        return "plain"

    return server


@contextmanager
def client(
    server: Server, revision: str, declares: bool = True, **options: Any
) -> Iterator[Client]:
    with connect(
        server, revision=revision, extensions=[Tasks()] if declares else None, **options
    ) as connected:
        yield connected


def begin(connected: Client, name: str, **arguments: Any) -> Dict[str, Any]:
    """Make a call as a task, and return the server's description of the task."""
    params: Dict[str, Any] = {"name": name, "arguments": arguments}
    if connected.revision == CORE:
        result = connected.request("tools/call", {**params, "task": {}})
        assert list(result) == ["task"]
        task: Dict[str, Any] = result["task"]
        return task
    result = connected.request("tools/call", params)
    assert result["resultType"] == "task"
    return result


def get(connected: Client, task: Dict[str, Any]) -> Dict[str, Any]:
    return connected.request("tasks/get", {"taskId": task["taskId"]})


def until(connected: Client, task: Dict[str, Any], *states: str) -> Dict[str, Any]:
    seen: List[Dict[str, Any]] = []

    def reached() -> bool:
        seen.append(get(connected, task))
        return seen[-1]["status"] in states

    assert eventually(reached), seen[-1]
    return seen[-1]


# ------------------------------------------------------------ the declared capability


@pytest.mark.requirement("TASK-01", "X-17", "TASK-39", "M:TASK-1", "M:EXT-4", "M:EXT-1")
def test_the_declared_capability() -> None:
    server = make()
    with client(server, CORE) as core:
        assert core.capabilities["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}}
        assert ID not in core.capabilities.get("extensions", {})
        support = {tool.name: tool.task for tool in core.list_tools()}
        assert (support["add"], support["greet"], support["plain"]) == (
            "optional",
            "required",
            None,
        )
    with client(server, EXTENSION) as newer:
        assert newer.capabilities["extensions"] == {ID: {}}
        assert "tasks" not in newer.capabilities
        assert all(tool.execution is None for tool in newer.list_tools())
    with client(server, "2025-06-18", declares=False) as older:
        assert not {"tasks", "extensions"} & set(older.capabilities)
        assert older.call_tool("add", {"a": 1, "b": 2}).value == [3]
        with pytest.raises(MethodNotFound):
            older.request("tasks/get", {"taskId": "x"})
    with connect(Server("none")) as none:
        assert "extensions" not in none.capabilities


def _tool() -> None:
    """A tool."""


def test_options_that_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"needs Server\(..., extensions=\[Tasks\(\)\]\)"):
        Server("x").add_tool(_tool, task="optional")
    with pytest.raises(ValueError, match='"optional", "required", "later" or None'):
        make().add_tool(_tool, task="sometimes")
    with pytest.raises(TypeError, match="objects such as Tasks"):
        Server("x", extensions=["tasks"])
    with pytest.raises(ValueError, match="poll_interval"):
        Tasks(poll_interval=0)
    tasks = Tasks()
    Server("one", extensions=[tasks])
    with pytest.raises(ValueError, match="belongs to one server"):
        Server("two", extensions=[tasks])


# ------------------------------------------------------------ which calls are tasks


@pytest.mark.requirement("TASK-05", "TASK-06", "TASK-07", "TASK-08", "X-18")
def test_with_a_handshake_the_client_decides() -> None:
    with client(make(), CORE) as core:
        assert core.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})["content"]
        assert begin(core, "add", a=1, b=2)["status"] == "working"
        with pytest.raises(MethodNotFound, match="only runs as a task"):
            core.request("tools/call", {"name": "greet"})
        with pytest.raises(MethodNotFound, match="does not run as a task"):
            core.request("tools/call", {"name": "plain", "task": {}})
        for wrong in (5, {"ttl": "long"}, {"ttl": 0}, {"ttl": True}):
            with pytest.raises(InvalidParams, match="task"):
                core.request(
                    "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, "task": wrong}
                )


@pytest.mark.requirement("TASK-09", "TASK-02", "TASK-03", "TASK-04")
def test_a_server_without_tasks_runs_the_call() -> None:
    server = Server("x")

    @server.tool
    def plain() -> str:
        """Plain."""
        return "plain"

    with client(server, CORE) as core:
        assert (
            core.request("tools/call", {"name": "plain", "task": {}})["content"][0]["text"]
            == "plain"
        )
        with pytest.raises(CapabilityNotSupported):
            core.start_task("plain")


@pytest.mark.requirement("M:TASK-2", "M:TASK-3", "M:TASK-4", "M:TASK-20", "M:TASK-25", "M:EXT-3")
def test_in_a_stateless_revision_the_server_decides() -> None:
    server = make()
    with client(server, EXTENSION) as newer:
        assert begin(newer, "add", a=1, b=2)["status"] == "working"
        plain = newer.request("tools/call", {"name": "plain", "task": {"ttl": 5}})
        assert (plain["resultType"], "taskId" in plain) == ("complete", False)
    with client(server, EXTENSION, declares=False) as undeclared:
        assert undeclared.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})[
            "content"
        ]
        for method, params in (
            ("tools/call", {"name": "greet"}), ("tasks/get", {"taskId": "x"}),
            ("tasks/cancel", {"taskId": "x"}), ("tasks/update", {"taskId": "x", "inputResponses": {}}),
        ):  # fmt: skip
            with pytest.raises(CapabilityNotSupported) as caught:
                undeclared.request(method, params)
            assert caught.value.data == {"requiredCapabilities": {"extensions": {ID: {}}}}
    with client(server, CORE) as core:
        assert "content" in core.request(
            "tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}
        )


@pytest.mark.requirement("M:TASK-21", "TASK-45")
def test_methods_of_the_other_design_are_unknown() -> None:
    server = make()
    with client(server, EXTENSION) as newer:
        for method in ("tasks/result", "tasks/list"):
            with pytest.raises(MethodNotFound):
                newer.request(method, {"taskId": "x"})
    with client(server, CORE) as core:
        for method in ("tasks/update", "tasks/list"):
            with pytest.raises(MethodNotFound):
                core.request(method, {"taskId": "x", "inputResponses": {}})


# ------------------------------------------------------------ the life of a task


@pytest.mark.requirement("TASK-11", "TASK-13", "TASK-16", "TASK-19", "X-29")
@pytest.mark.requirement("M:TASK-5", "M:TASK-6", "M:TASK-7", "M:TASK-22")
@DESIGNS
def test_fields_of_a_task(revision: str) -> None:
    gates = Gates()
    unit = "Ms" if revision == EXTENSION else ""
    with client(make(gates), revision) as connected:
        task = begin(connected, "block")
        members = {
            "taskId",
            "status",
            "createdAt",
            "lastUpdatedAt",
            f"ttl{unit}",
            f"pollInterval{unit}",
        }
        assert set(task) - {"resultType", "_meta"} == members
        assert task["status"] == "working"
        assert (task[f"ttl{unit}"], task[f"pollInterval{unit}"]) == (3_600_000, 20)
        for member in ("createdAt", "lastUpdatedAt"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", task[member])
        now = get(connected, task)  # at once
        assert now["status"] == "working"
        assert not {"task", "result", "error", "requestState", "inputRequests"} & set(now)
        gates.go.set()
        until(connected, task, "completed")


@pytest.mark.requirement("TASK-21", "TASK-22", "TASK-23", "TASK-25", "TASK-26")
def test_the_result_is_waited_for_with_a_handshake() -> None:
    gates, results = Gates(), list[Dict[str, Any]]()
    with client(make(gates), CORE) as core:
        task = begin(core, "block")
        params = {"taskId": task["taskId"], "_meta": {RELATED: {"taskId": "another"}}}
        thread = threading.Thread(
            target=lambda: results.append(core.request("tasks/result", params))
        )
        thread.start()
        assert gates.begun.wait(WAIT)
        assert not results
        gates.go.set()
        thread.join(WAIT)
        related = {RELATED: {"taskId": task["taskId"]}}
        assert results == [{"content": [{"type": "text", "text": "done"}], "_meta": related}]
        assert core.request("tasks/result", params) == results[0]
        assert "_meta" not in get(core, task)


@pytest.mark.requirement(
    "TASK-37", "M:TASK-8", "M:TASK-9", "M:TASK-10", "M:TASK-31", "M:TASK-36", "TASK-48"
)
@DESIGNS
def test_endings_of_a_task(revision: str) -> None:
    is_core = revision == CORE
    with client(make(), revision) as connected:
        ended = {}
        for name, arguments in (("add", {"a": 1, "b": 2}), ("fail", {}), ("refuse", {})):
            ended[name] = until(
                connected, begin(connected, name, **arguments), "completed", "failed"
            )
        assert {name: task["status"] for name, task in ended.items()} == {
            "add": "completed", "fail": "failed" if is_core else "completed", "refuse": "failed",
        }  # fmt: skip
        assert [task["statusMessage"] for task in ended.values()] == [
            "half done",
            "out of paper",
            "not today",
        ]
        if is_core:
            failed = connected.request("tasks/result", {"taskId": ended["fail"]["taskId"]})
            assert (failed["isError"], failed["content"][0]["text"]) == (True, "out of paper")
            with pytest.raises(RpcError) as caught:
                connected.request("tasks/result", {"taskId": ended["refuse"]["taskId"]})
            assert (caught.value.code, caught.value.message, caught.value.data) == (
                7,
                "not today",
                {"why": "rain"},
            )
        else:
            assert {task["resultType"] for task in ended.values()} == {"complete"}
            assert ended["add"]["result"]["content"][0]["text"] == "[3]"
            assert ended["fail"]["result"]["isError"] is True
            assert RELATED not in ended["add"]["result"].get("_meta", {})
            assert ended["refuse"]["error"] == {
                "code": 7,
                "message": "not today",
                "data": {"why": "rain"},
            }
            assert "result" not in ended["refuse"]


@pytest.mark.requirement("TASK-33", "TASK-34", "TASK-46", "M:TASK-17", "M:TASK-11", "TASK-15")
@DESIGNS
def test_cancelling(revision: str) -> None:
    gates = Gates()
    with client(make(gates), revision) as connected:
        task = begin(connected, "block")
        assert gates.begun.wait(WAIT)
        said = connected.request("tasks/cancel", {"taskId": task["taskId"]})
        assert gates.cancelled.wait(WAIT)
        if revision == CORE:
            assert said["status"] == "cancelled"
            with pytest.raises(InvalidParams, match="already cancelled"):
                connected.request("tasks/cancel", {"taskId": task["taskId"]})
            with pytest.raises(InvalidParams, match="no result"):
                connected.request("tasks/result", {"taskId": task["taskId"]})
        else:
            assert set(said) == {"resultType", "_meta"}
            assert (
                connected.request("tasks/cancel", {"taskId": task["taskId"]})["resultType"]
                == "complete"
            )
        gates.go.set()
        assert get(connected, task)["status"] == "cancelled"
        done = begin(connected, "add", a=1, b=2)
        until(connected, done, "completed")
        if revision == EXTENSION:
            connected.request("tasks/cancel", {"taskId": done["taskId"]})
            assert get(connected, done)["status"] == "completed"


@pytest.mark.requirement("TASK-14", "TASK-15", "M:TASK-11")
def test_the_table_of_states() -> None:
    terminal = {"completed", "failed", "cancelled"}
    assert set(module.NEXT) == {"working", "input_required"} | terminal
    assert {state for state, following in module.NEXT.items() if not following} == terminal
    assert module.NEXT["working"] == module.NEXT["input_required"] == set(module.NEXT)
    for state in sorted(terminal):
        tasks, gates = Tasks(), Gates()
        with client(make(gates, tasks), EXTENSION) as newer:
            task = begin(newer, "block")
            key = tasks.store.list("/jobs/task/")[0].key
            tasks.change(key, partial(_set, state))
            gates.go.set()
            assert eventually(
                lambda tasks=tasks: not running_tasks(tasks)
            )  # the handler has ended, and is not heard
            later = tasks.change(key, partial(_set, "working"))
            assert later is not None
            assert (later["status"], "result" in later) == (state, False)
            assert get(newer, task)["status"] == state


def _set(state: str, record: Dict[str, Any]) -> None:
    record["status"] = state


@pytest.mark.requirement("TASK-36", "M:TASK-19", "M:TASK-27", "TASK-12")
@DESIGNS
def test_ids_are_unknown_and_cannot_be_guessed(revision: str) -> None:
    with client(make(), revision) as connected:
        ids = {begin(connected, "add", a=1, b=2)["taskId"] for _ in range(20)}
        assert len(ids) == 20
        assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)
        for wrong in ("nothing", "", "../-/" + ids.pop(), "\ud800", 5, None):
            for method in (
                "tasks/get",
                "tasks/cancel",
                "tasks/result" if revision == CORE else "tasks/update",
            ):
                with pytest.raises(InvalidParams):
                    connected.request(method, {"taskId": wrong, "inputResponses": {}})


# ------------------------------------------------------------ questions


@pytest.mark.requirement("M:TASK-15", "M:TASK-16", "M:TASK-8")
def test_questions_have_keys_in_a_stateless_revision() -> None:
    with client(make(), EXTENSION, elicit=lambda asked: None) as newer:
        task = begin(newer, "ask_two")
        first = until(newer, task, "input_required")["inputRequests"]
        assert [one["params"]["message"] for one in first.values()] == ["one", "two"]
        one, two = first
        update = {"taskId": task["taskId"], "inputResponses": {one: ANSWER, "unknown": ANSWER}}
        assert set(newer.request("tasks/update", update)) == {"resultType", "_meta"}
        now = get(newer, task)
        assert (now["status"], list(now["inputRequests"])) == ("input_required", [two])
        other = {"action": "accept", "content": {"name": "Bob"}}
        newer.request("tasks/update", {**update, "inputResponses": {one: other, two: other}})
        assert eventually(lambda: set(get(newer, task).get("inputRequests", ())) - {one, two})
        third = until(newer, task, "input_required")["inputRequests"]
        assert len(third) == 1 and not set(third) & set(first)  # keys are not used again
        newer.request("tasks/update", {**update, "inputResponses": dict.fromkeys(third, other)})
        assert until(newer, task, "completed")["result"]["content"][0]["text"] == "Ada Bob Bob"
        for wrong in (None, [], {"x": 5}):
            with pytest.raises(InvalidParams, match="inputResponses"):
                newer.request("tasks/update", {**update, "inputResponses": wrong})


@pytest.mark.requirement("TASK-24", "TASK-27")
def test_questions_on_the_way_of_the_result_with_a_handshake() -> None:
    metas: List[Any] = []
    transcript: List[str] = []

    def elicit(asked: Any) -> Dict[str, str]:
        metas.append(asked.message)
        return {"name": f"N{len(metas)}"}

    with client(
        make(trace=lambda arrow, text: transcript.append(text)), CORE, elicit=elicit
    ) as core:
        task = begin(core, "ask_two")
        until(core, task, "input_required")
        assert not metas
        result = core.request("tasks/result", {"taskId": task["taskId"]})
        assert sorted(metas) == ["one", "three", "two"]
        assert result["content"][0]["text"].endswith("N3")
    asked = [text for text in transcript if '"elicitation/create"' in text]
    assert len(asked) == 3
    assert all(f'"{RELATED}":{{"taskId":"{task["taskId"]}"}}' in text for text in asked)


def test_a_question_that_the_client_refuses_reaches_the_handler() -> None:
    def elicit(asked: Any) -> Any:
        raise RuntimeError("no user here")

    with client(make(), CORE, elicit=elicit) as core:
        task = core.start_task("greet")
        with pytest.raises(HandlerFailed, match="no user here"):
            task.result(WAIT)
        assert task.refresh() == "input_required"  # no answer has arrived
        task.cancel()


@DESIGNS
def test_a_waiting_handler_is_notified_of_its_end(revision: str) -> None:
    asked = threading.Event()
    server = make()
    with client(server, revision, elicit=lambda question: asked.set()) as connected:
        task = begin(connected, "greet")
        until(connected, task, "input_required")
        connected.request("tasks/cancel", {"taskId": task["taskId"]})
        assert get(connected, task)["status"] == "cancelled"
        tasks = tasks_of(server)
        assert eventually(lambda: not running_tasks(tasks))
        assert not asked.is_set()


@pytest.mark.requirement("M:TASK-23")
@pytest.mark.parametrize("replays", [False, True])
def test_rounds_end_before_a_call_becomes_a_task(replays: bool) -> None:
    server, steps = (
        Server("x", extensions=[Tasks(poll_interval=0.02)], check_replay=replays),
        list[str](),
    )

    @server.tool(task="later")
    def deploy(ctx: Context) -> str:
        """Ask, become a task, and ask again."""
        ctx.step("once", lambda: steps.append("step"))
        first = ctx.elicit("where?", {"name": str}).require()["name"]
        ctx.become_task()
        return f"{first} {ctx.elicit('when?', {'name': str}).require()['name']}"

    with client(server, EXTENSION, elicit=lambda asked: None) as newer:
        params: Dict[str, Any] = {"name": "deploy", "arguments": {}}
        asks = newer.request("tools/call", params, raw=True)
        assert (asks["resultType"], "taskId" in asks) == ("input_required", False)
        answers = dict.fromkeys(asks["inputRequests"], ANSWER)
        params.update(inputResponses=answers, requestState=asks["requestState"])
        task = newer.request("tools/call", params, raw=True)
        assert (task["resultType"], {"requestState", "inputRequests"} & set(task)) == (
            "task",
            set(),
        )
        asked = until(newer, task, "input_required")["inputRequests"]
        assert [one["params"]["message"] for one in asked.values()] == ["when?"]
        newer.request(
            "tasks/update",
            {"taskId": task["taskId"], "inputResponses": dict.fromkeys(asked, ANSWER)},
        )
        assert until(newer, task, "completed")["result"]["content"][0]["text"] == "Ada Ada"
        assert steps == ["step"]
    with client(
        server, EXTENSION, declares=False, elicit=lambda asked: {"name": "Bob"}
    ) as undeclared:
        assert undeclared.call_tool("deploy").text == "Bob Bob"
    with client(server, CORE, elicit=lambda asked: {"name": "Bob"}) as core:
        assert core.start_task("deploy").result(WAIT).text == "Bob Bob"


# ------------------------------------------------------------ notifications


@pytest.mark.requirement("TASK-29")
def test_status_notifications_with_a_handshake() -> None:
    told: List[Any] = []

    def trace(arrow: str, text: str) -> None:
        message = json.loads(text)
        if arrow == "-->" and "id" not in message:
            told.append((message["method"], message["params"]))

    with client(make(trace=trace), CORE) as core:
        task = begin(core, "add", a=1, b=2)
        assert eventually(lambda: [one for one in told if one[1].get("status") == "completed"])
    assert {method for method, _ in told} == {"notifications/tasks/status"}
    last = told[-1][1]
    assert (last["taskId"], "_meta" in last, "task" in last) == (task["taskId"], False, False)


@pytest.mark.requirement("M:TASK-24")
def test_a_stream_of_tasks_in_a_stateless_revision() -> None:
    gates = Gates()
    with client(make(gates), EXTENSION) as newer:
        task = begin(newer, "block")
        heard: List[Any] = []
        session = session_of(newer)
        wanted = {"notifications": {"taskIds": [task["taskId"], "unknown"]}}
        end = session.open_stream("subscriptions/listen", wanted, heard.append, lambda ending: None)
        assert eventually(lambda: heard)
        assert heard[0].params["notifications"] == {"taskIds": [task["taskId"]]}
        gates.go.set()
        assert eventually(lambda: len(heard) > 1)
        said = heard[-1]
        assert said.method == "notifications/tasks"
        assert (said.params["status"], said.params["result"]["content"][0]["text"]) == (
            "completed",
            "done",
        )
        end()


@pytest.mark.requirement("M:TASK-26")
def test_a_stream_of_tasks_has_no_progress_and_no_log() -> None:
    gates, heard = Gates(), list[Any]()
    server = make(gates)

    @server.tool(task="required")
    def talk(ctx: Context) -> str:
        """Say much."""
        assert gates.go.wait(WAIT)
        ctx.info("on the way")
        ctx.progress(1, 2, message="half")
        return "done"

    with client(server, EXTENSION) as newer:
        newer.set_log_level("debug")
        params = {"name": "talk", "_meta": {"progressToken": "mine"}}
        id = newer.request("tools/call", params)["taskId"]
        wanted = {"notifications": {"taskIds": [id]}}
        session = session_of(newer)
        end = session.open_stream("subscriptions/listen", wanted, heard.append, lambda ending: None)
        assert eventually(lambda: heard)
        gates.go.set()
        assert eventually(lambda: heard[-1].params.get("status") == "completed")
        assert {one.method for one in heard[1:]} == {"notifications/tasks"}
        end()


# ------------------------------------------------------------ limits and time


@pytest.mark.requirement("TASK-17", "TASK-18", "TASK-36")
def test_the_time_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = [0.0]
    monotonic = time.monotonic
    monkeypatch.setattr("minimcp.stores.base.time.monotonic", lambda: monotonic() + ahead[0])
    tasks = Tasks(ttl=100, max_ttl=200)
    with client(make(tasks=tasks), CORE) as core:
        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        given = [core.request("tools/call", {**params, "task": task})["task"]["ttl"]
                 for task in ({}, {"ttl": 50_000}, {"ttl": 10**12}, {"ttl": None})]  # fmt: skip
        assert given == [100_000, 50_000, 100_000, 100_000]
        task = begin(core, "add", a=1, b=2)
        until(core, task, "completed")
        ahead[0] = 101
        with pytest.raises(InvalidParams, match="has expired"):
            get(core, task)


@pytest.mark.requirement("M:TASK-13")
def test_a_waiting_client_is_notified_of_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, gates = [0.0], Gates()
    monotonic = time.monotonic
    monkeypatch.setattr("minimcp.stores.base.time.monotonic", lambda: monotonic() + ahead[0])
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    with client(make(gates, Tasks(ttl=100, poll_interval=0.02)), EXTENSION) as newer:
        task = newer.start_task("block")
        assert gates.begun.wait(WAIT) and task.ttl == 100
        ahead[0] = 101
        with pytest.raises(InvalidParams, match="has expired"):
            task.wait(WAIT)
        assert gates.cancelled.wait(WAIT), "nobody will ever hear of it: its handler is ended"


@pytest.mark.requirement("TASK-40")
def test_there_are_so_many_tasks_at_most() -> None:
    gates = Gates()
    with client(make(gates, tasks=Tasks(max_tasks=3)), EXTENSION) as newer:
        finished = [until(newer, begin(newer, "add", a=1, b=2), "completed") for _ in range(2)]
        begin(newer, "block")
        begin(newer, "block")
        with pytest.raises(InvalidParams, match="no task has this taskId"):
            get(newer, finished[0])  # the one that finished first has made room
        assert get(newer, finished[1])["status"] == "completed"
        running = begin(newer, "block")
        with pytest.raises(InternalError, match="there are 3 tasks"):
            begin(newer, "block")
        assert get(newer, running)["status"] == "working"
        newer.request("tasks/cancel", {"taskId": running["taskId"]})
        begin(newer, "add", a=1, b=2)
        gates.go.set()
    with client(make(limits=Limits(message_bytes=32 * 1024)), EXTENSION) as newer:
        task = until(newer, begin(newer, "add", a=10**4000, b=1), "completed", "failed")
        assert task["status"] == "completed"


@pytest.mark.parametrize("revision", [CORE, EXTENSION])
def test_results_of_tasks_have_a_bound_each_and_together(revision: str) -> None:
    server = make(tasks=Tasks(max_bytes=10_000), limits=Limits(message_bytes=32 * 1024))

    @server.tool(task="optional")
    def write(characters: int) -> str:
        """Return so many characters."""
        return "x" * characters

    with client(server, revision) as connected:
        failed = until(connected, begin(connected, "write", characters=20_000), "failed")
        assert failed["statusMessage"] == "the result is longer than 16384 bytes"
        written = [
            until(connected, begin(connected, "write", characters=6_000), "completed")
            for _ in range(2)
        ]
        begin(connected, "write", characters=1)
        for gone in (failed, written[0]):
            with pytest.raises(InvalidParams, match="no task has this taskId"):
                get(connected, gone)
        assert get(connected, written[1])["status"] == "completed"


def test_tasks_hold_no_thread_before_they_begin() -> None:
    gates, before = Gates(), threading.active_count()
    with client(make(gates, limits=Limits(workers=2)), EXTENSION) as newer:
        begun = [begin(newer, "block") for _ in range(50)]
        assert threading.active_count() - before < 20
        assert (
            get(newer, begun[-1])["status"] == "working"
        )  # what asks of tasks does not wait behind them
        gates.go.set()
        for task in begun:
            until(newer, task, "completed")


def test_no_more_run_than_may_and_they_begin_in_order() -> None:
    """The handlers wait for answers, which arrive in order: if a later task had a place, the first
    one would have none."""
    server = make(limits=Limits(requests=2))
    with client(server, EXTENSION, elicit=lambda asked: {"name": "Ada"}) as newer:
        begun = [newer.start_task("greet") for _ in range(20)]
        assert eventually(lambda: tasks_of(server).requests.running == 2)
        cancelled = begun.pop(7)
        cancelled.cancel()  # it has not started, and occupies no place
        assert {task.result(WAIT).text for task in begun} == {"Hello, Ada"}
        assert cancelled.refresh() == "cancelled" and eventually(
            lambda: not tasks_of(server).requests.running
        )


@pytest.mark.requirement("PROG-12")
def test_progress_continues_with_the_token_of_the_call() -> None:
    transcript: List[str] = []
    with client(make(trace=lambda arrow, text: transcript.append(text)), CORE) as core:
        params = {
            "name": "add",
            "arguments": {"a": 1, "b": 2},
            "task": {},
            "_meta": {"progressToken": "mine"},
        }
        task = core.request("tools/call", params)["task"]
        until(core, task, "completed")
    told = [json.loads(text)["params"] for text in transcript if '"notifications/progress"' in text]
    assert told == [{
        "progressToken": "mine", "progress": 1, "total": 2, "message": "half done",
        "_meta": {RELATED: {"taskId": task["taskId"]}},
    }]  # fmt: skip


def test_a_task_runs_where_its_tool_says() -> None:
    server, serial, names = (
        Server("x", extensions=[Tasks(poll_interval=0.02)]),
        Serial(),
        list[str](),
    )

    @server.tool(task="optional", executor=serial)
    def where() -> str:
        """Where."""
        names.append(threading.current_thread().name)
        return names[-1]

    with client(server, EXTENSION) as newer, client(server, CORE) as core:
        assert newer.start_task("where").result(WAIT).text == core.call_tool("where").text
        assert len(set(names)) == 1
    server.close()


# ------------------------------------------------------------ clients


@pytest.mark.requirement("M:TASK-29", "M:TASK-34", "M:TASK-35", "TASK-28")
@DESIGNS
def test_a_call_does_not_show_that_it_is_a_task(revision: str) -> None:
    asked: List[str] = []

    def elicit(question: Any) -> Dict[str, str]:
        asked.append(question.message)
        return {"name": "Ada"}

    with client(make(), revision, elicit=elicit) as connected:
        assert connected.call_tool("add", {"a": 1, "b": 2}).value == [3]
        assert connected.call_tool("greet").text == "Hello, Ada"
        assert connected.call_tool("plain").text == "plain"
        with pytest.raises(ToolError, match="out of paper"):
            connected.call_tool("fail")
        with pytest.raises(RpcError, match="not today"):
            connected.call_tool("refuse")
    assert asked == ["Who?"]


@DESIGNS
def test_a_task_is_started_and_found_again(revision: str) -> None:
    gates = Gates()
    server = make(gates)
    with client(server, revision) as one:
        task = one.start_task("block")
        assert (task.status, task.ttl) == ("working", 3600)
        with pytest.raises(RequestTimeout, match="did not end in time: no answer within"):
            task.wait(0.05)
    with client(server, revision) as two:
        again = two.task(task.id)
        assert again.refresh() == "working"
        gates.go.set()
        assert again.wait(WAIT) == "completed"
        assert again.result().text == "done"
        with pytest.raises(CapabilityNotSupported, match="tasks.list"):
            two.list_tasks()
        done = two.start_task("add", {"a": 1, "b": 2}, ttl=60)
        assert done.result(WAIT).value == [3]
        assert done.status_message == "half done"
        assert done.ttl == (60 if revision == CORE else 3600)


@pytest.mark.requirement("CANC-10")
@DESIGNS
def test_a_task_that_is_cancelled(revision: str) -> None:
    gates = Gates()
    with client(make(gates), revision) as connected:
        task = connected.start_task("block")
        assert gates.begun.wait(WAIT)
        task.cancel()
        assert gates.cancelled.wait(WAIT)
        assert task.wait(WAIT) == "cancelled"
        with pytest.raises(Cancelled):
            task.result(WAIT)
        task.cancel()


def test_a_call_that_is_given_up_cancels_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    gates, moved = Gates(), MovedTime()
    monkeypatch.setattr("minimcp.engine.timer.time", moved)
    with client(make(gates), EXTENSION) as newer:
        call = newer.submit(newer.call_tool, "block", timeout=WAIT)
        assert gates.begun.wait(WAIT)
        moved.ahead = 2 * WAIT
        with pytest.raises(RequestTimeout):
            call.result(WAIT)
        assert gates.cancelled.wait(WAIT)


def test_a_client_that_declares_nothing_starts_none() -> None:
    with client(make(), EXTENSION, declares=False) as newer:
        with pytest.raises(CapabilityNotSupported, match=r"extensions=\[Tasks\(\)\]"):
            newer.start_task("add", {"a": 1, "b": 2})
    with client(make(), "2025-03-26", declares=False) as older:
        with pytest.raises(CapabilityNotSupported, match="does not support tasks"):
            older.start_task("add", {"a": 1, "b": 2})


# ------------------------------------------------------------ a store that survives

DIES = """
import os, sys
sys.path.insert(0, {root!r})
from tests.interaction.test_tasks import begin, client, make, until
from minimcp import SqliteStore, Tasks
with client(make(tasks=Tasks(SqliteStore(sys.argv[1]))), "2026-07-28", elicit=lambda asked: None) as newer:
    done, works, asks = begin(newer, "add", a=1, b=2), begin(newer, "block"), begin(newer, "greet")
    until(newer, done, "completed")
    until(newer, asks, "input_required")
    print(done["taskId"], works["taskId"], asks["taskId"], flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL, which Windows does not have")
def test_a_killed_server_loses_no_task_silently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ..support import ROOT

    path = tmp_path / "tasks.db"
    ended = run_python(["-c", DIES.format(root=str(ROOT)), str(path)])
    ids = ended.stdout.decode().split()
    assert len(ids) == 3, ended.stderr
    store = SqliteStore(path)
    with client(make(tasks=Tasks(store)), EXTENSION) as newer:

        def state(id: str) -> Dict[str, Any]:
            return newer.request("tasks/get", {"taskId": id})

        assert state(ids[0])["result"]["content"][0]["text"] == "[3]"
        assert {state(id)["status"] for id in ids[1:]} <= {"working", "input_required", "failed"}
        wall = time.time
        monkeypatch.setattr(
            "minimcp.stores.sqlite.time.time", lambda: wall() + module.LEASE_SECONDS + 1
        )
        for id in ids[1:]:
            lost = state(id)
            assert (lost["status"], lost["statusMessage"]) == ("failed", module.LOST)
            assert lost["error"] == {"code": -32603, "message": module.LOST}
        assert state(ids[0])["status"] == "completed"
    store.close()


def test_two_servers_share_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.extensions.task_runner.RENEW_SECONDS", 0.05)
    gates = Gates()
    stores = [SqliteStore(tmp_path / "tasks.db") for _ in range(2)]
    one, two = (make(gates, Tasks(store, poll_interval=0.02)) for store in stores)
    with client(one, EXTENSION, elicit=lambda asked: {"name": "Ada"}) as here:
        with client(two, EXTENSION, elicit=lambda asked: {"name": "Bob"}) as there:
            assert there.task(here.start_task("greet").id).result(WAIT).text == "Hello, Bob"
            blocked = here.start_task("block")
            assert gates.begun.wait(WAIT)
            there.task(blocked.id).cancel()
            assert gates.cancelled.wait(WAIT)
            assert blocked.wait(WAIT) == "cancelled"
            assert eventually(lambda: tasks_of(one).cancel_renewal is None), "no task needs it"
    for store in stores:
        store.close()


@pytest.mark.requirement("M:TASK-33")
def test_the_designs_share_their_tasks() -> None:
    server = make()
    with client(server, CORE) as core, client(server, EXTENSION) as newer:
        task = core.start_task("add", {"a": 1, "b": 2})
        assert newer.task(task.id).result(WAIT).text == "[3]"


def test_a_memory_store_is_the_default() -> None:
    tasks = Tasks()
    assert isinstance(tasks.store, MemoryStore)
    assert repr(tasks) == "<Tasks in <MemoryStore of 0 keys>>"


class FailingStore(MemoryStore):
    """A store that fails at first, as on a full disk, if this text is in the key or value."""

    def __init__(self, what: bytes, failures: int) -> None:
        super().__init__()
        self.what, self.failures = what, failures

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        if self.what in key.encode() + value and self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        return super().put(key, value, ttl, expect)


def test_the_end_of_a_task_is_kept_when_the_store_works_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    with client(
        make(tasks=Tasks(FailingStore(b'"completed"', 2), poll_interval=0.02)), EXTENSION
    ) as newer:
        assert newer.start_task("add", {"a": 1, "b": 2}).result(WAIT).text == "[3]"
    assert [record.getMessage() for record in caplog.records] == [
        "the end of a task cannot be stored yet: the disk is full"
    ] * 2
    caplog.clear()


def test_a_lease_is_held_when_the_store_works_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.02)
    store, gates = FailingStore(b"/lease/", 1), Gates()
    with client(make(gates, tasks=Tasks(store, poll_interval=0.02)), EXTENSION) as newer:
        with pytest.raises(InternalError):
            newer.start_task("block")
        caplog.clear()  # with the reason
        assert not store.list("/jobs/task/")
        task = newer.start_task("block")
        assert eventually(lambda: store.list("/jobs/lease/"))
        gates.go.set()
        assert task.result(WAIT).text == "done"


class LateStore(MemoryStore):
    """Does something behind the first change to a value that has this."""

    def __init__(self, what: bytes) -> None:
        super().__init__()
        self.what, self.then = what, list[Any]()

    def put(
        self, key: str, value: bytes, ttl: Optional[float] = None, expect: Optional[int] = None
    ) -> Optional[int]:
        version = super().put(key, value, ttl, expect)
        if self.what in value and self.then:
            self.then.pop()()
        return version


def test_a_task_is_not_lost_whose_process_is_about_to_say_that_it_runs() -> None:
    gates, store, first, late = Gates(), MemoryStore(), threading.Event(), threading.Event()
    put = store.put

    def slow(key: str, *arguments: Any, **options: Any) -> Optional[int]:
        if key.startswith("/jobs/lease/") and not first.is_set():
            first.set()
            late.wait(WAIT)
        return put(key, *arguments, **options)

    store.put = slow  # type: ignore[method-assign]
    one, two = (make(gates, Tasks(store, poll_interval=0.02)) for _ in range(2))
    with client(one, EXTENSION) as here, client(two, EXTENSION) as there:
        begins = Task(begin, here, "block")
        assert first.wait(WAIT)
        second = begin(here, "block")
        assert get(there, second)["status"] == "working"
        late.set()
        gates.go.set()
        assert [until(here, each, "completed") for each in (begins.result(), second)]


def test_a_task_that_cannot_be_kept_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    store = FailingStore(b'"working"', 1)
    store.delete = lambda key: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    server = make(tasks=Tasks(store))
    with client(server, EXTENSION) as newer:
        with pytest.raises(InternalError):
            newer.start_task("add", {"a": 1, "b": 2})
    assert not running_tasks(tasks_of(server)) and not tasks_of(server).requests
    caplog.clear()


def test_the_later_of_two_states_of_a_task_is_reported_last() -> None:
    told: List[Any] = []

    def trace(arrow: str, text: str) -> None:
        message = json.loads(text)
        if arrow == "-->" and message.get("method") == "notifications/tasks/status":
            told.append(message["params"]["status"])

    store = LateStore(b"half done")
    server = make(tasks=Tasks(store), trace=trace)
    with client(server, CORE) as core:

        def cancel() -> None:
            (entry,) = store.list("/jobs/task/-:")
            core.request("tasks/cancel", {"taskId": entry.key.rpartition(":")[2]})

        store.then.append(cancel)
        begin(core, "add", a=1, b=2)
        assert eventually(lambda: not (store.then or running_tasks(tasks_of(server))))
        core.ping()
    assert told[-1] == "cancelled"


def test_a_question_of_a_task_is_asked_once_by_whoever_waits_for_its_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, answered, asked = threading.Event(), threading.Event(), list[Any]()

    def late(forward: Any, self: Tasks, incoming: Any, key: str, record: Any) -> None:
        if record["asked"] and not read.is_set():
            read.set()
            answered.wait(WAIT)
        forward(self, incoming, key, record)
        if record["asked"]:
            answered.set()

    def elicit(question: Any) -> Dict[str, Any]:
        asked.append(question)
        return {"name": "Ada"}

    around(monkeypatch, Tasks, "_forward", late)
    with client(make(), CORE, elicit=elicit) as core:
        task = begin(core, "greet")
        results = [Task(core.request, "tasks/result", {"taskId": task["taskId"]})]
        assert read.wait(WAIT)
        results.append(Task(core.request, "tasks/result", {"taskId": task["taskId"]}))
        assert {result.result()["content"][0]["text"] for result in results} == {"Hello, Ada"}
    assert len(asked) == 1


def test_progress_of_a_task_increases_whichever_of_its_threads_reports() -> None:
    told: List[Any] = []
    server = Server(
        "jobs", extensions=[Tasks()], trace=lambda arrow, text: told.append(json.loads(text))
    )
    tried = threading.Event()

    class First(float):
        def __gt__(self, other: float) -> bool:
            found = float(self) > other
            second.start()
            tried.wait(WAIT)
            return found

    class Tried:
        def __init__(self, lock: Any) -> None:
            self.acquire, self.release = lock.acquire, lock.release

        def __enter__(self) -> None:
            if threading.current_thread() is second:
                tried.set()
            self.acquire()

        def __exit__(self, *_: Any) -> None:
            self.release()

    second = threading.Thread()

    @server.tool(task="optional")
    def report(ctx: Context) -> None:
        """Report from two threads."""
        nonlocal second
        incoming_of(ctx)._progress_lock = Tried(incoming_of(ctx)._progress_lock)
        second = threading.Thread(target=lambda: (ctx.progress(2), tried.set()))
        ctx.progress(First(1))
        second.join(WAIT)

    with client(server, CORE) as core:
        params = {"name": "report", "arguments": {}, "task": {}, "_meta": {"progressToken": "mine"}}
        until(core, core.request("tools/call", params)["task"], "completed")
    progress = [
        each["params"]["progress"]
        for each in told
        if each.get("method") == "notifications/progress"
    ]
    assert progress == [1, 2]


def test_tasks_are_kept_in_the_store_of_the_server() -> None:
    kept, own = MemoryStore(), MemoryStore()
    for given, used in (Tasks(poll_interval=0.02), kept), (Tasks(own, poll_interval=0.02), own):
        with client(make(tasks=given, store=kept), EXTENSION) as newer:
            id = newer.start_task("add", {"a": 1, "b": 2}).id
            assert [entry.key for entry in used.list("/jobs/task/")] == [f"/jobs/task/-:{id}"]
            assert given.store is used
        used.delete(f"/jobs/task/-:{id}")
    with pytest.raises(TypeError, match="store must be a MemoryStore"):
        Server("x", store="tasks.db")  # type: ignore[arg-type]


@pytest.mark.requirement("M:TASK-28")
@DESIGNS
def test_over_http(revision: str, tmp_path: Path) -> None:
    """In a stateless revision, the server rejects a request whose Mcp-Name is not its taskId."""
    gates, store = Gates(), SqliteStore(tmp_path / "tasks.db")
    server = make(gates, Tasks(store, poll_interval=0.02))
    with server.start_http() as running:
        with client(running.url, revision, elicit=lambda asked: {"name": "Ada"}) as connected:  # type: ignore[arg-type]
            assert connected.call_tool("greet").text == "Hello, Ada"
            assert connected.start_task("ask_two").result(WAIT).text == "Ada Ada Ada"
            task = connected.start_task("block")
            assert gates.begun.wait(WAIT)
            task.cancel()
            assert gates.cancelled.wait(WAIT)
            assert task.wait(WAIT) == "cancelled"
            assert eventually(lambda: not running_tasks(tasks_of(server)))
    store.close()


@pytest.mark.requirement("M:TASK-32")
def test_the_capability_of_the_other_design_declares_nothing() -> None:
    declared = {"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}}
    with RawClient(make(), EXTENSION, {}, declared) as raw:
        result = raw.result("tools/call", name="add", arguments={"a": 1, "b": 2}, task={})
        assert (result["resultType"], result["structuredContent"]) == ("complete", [3])
        assert raw.call("greet") == -32021


@pytest.mark.requirement("X-24")
def test_a_caller_may_stop_waiting_and_the_task_continues() -> None:
    gates, token, sent = Gates(), CancelToken(), list[str]()
    server = make(gates)
    with client(server, CORE, trace=lambda arrow, text: sent.append(text)) as core:
        task = begin(core, "block")
        assert gates.begun.wait(WAIT)
        waits = core.submit(
            core.request, "tasks/result", {"taskId": task["taskId"]}, cancel=token, timeout=WAIT
        )
        assert eventually(lambda: any('"tasks/result"' in text for text in sent))
        token.cancel("enough")
        with pytest.raises(Cancelled):
            waits.result(WAIT)
        assert eventually(lambda: any('"notifications/cancelled"' in text for text in sent))
        assert get(core, task)["status"] == "working" and not gates.cancelled.is_set()
        gates.go.set()
        assert core.task(task["taskId"]).result(WAIT).text == "done"
