"""Tasks over HTTP: their owners, their headers, which responses are streams, and lost streams."""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Bearer, Context, HttpRequest, InvalidParams, Server, Tasks
from minimcp.extensions import task_runner as tasks
from minimcp.http import client as http_client

from ..inside import tasks_of, waiters_of
from ..support import WAIT, eventually
from ..web import INITIALIZED, Heard, Peer, Wire
from .http_app import Shaken, Stage, alone, core_of, serve

ID, RELATED = "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/related-task"
EXTENSIONS: Dict[str, Any] = {"extensions": {ID: {}}}
TOKENS = {"ada-1": {"sub": "ada"}, "ada-2": {"sub": "ada"}, "bob-1": {"sub": "bob"}}


def make(stage: Stage, **options: Any) -> Server:
    server = Server("jobs", extensions=[Tasks(poll_interval=0.02)], **options)

    @server.tool(task="required")
    def hold() -> str:
        """Wait for the test."""
        stage.entered.set()
        assert stage.go.wait(WAIT)
        return "held"

    @server.tool(task="required")
    def greet(ctx: Context) -> str:
        """Ask for a name."""
        return f"Hello, {ctx.elicit('Who?', {'name': str}).require()['name']}"

    return server


@pytest.fixture
def server(stage: Stage) -> Iterator[Server]:
    made = make(stage)
    yield made
    stage.go.set()
    made.close()


@pytest.fixture
def guarded(stage: Stage) -> Iterator[Server]:
    made = make(stage, auth=Bearer.static(TOKENS))
    yield made
    stage.go.set()
    made.close()


@pytest.mark.requirement("TASK-38", "TASK-31", "TASK-32", "PAGE-09", "M:TASK-27")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_task_belongs_to_the_principal_of_its_token(
    guarded: Server, stage: Stage, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "PAGE_SIZE", 2)
    with guarded.start_http() as running:

        def connect(token: str) -> minimcp.Client:
            return minimcp.connect(
                running.url, revision=revision, auth=token, extensions=[Tasks()], timeout=WAIT
            )

        with connect("ada-1") as ada, connect("ada-2") as again, connect("bob-1") as bob:
            task = ada.start_task("hold")
            for method in (
                "tasks/get",
                "tasks/cancel",
                "tasks/result" if revision == "2025-11-25" else "tasks/update",
            ):
                with pytest.raises(InvalidParams, match="no task has this taskId"):
                    bob.request(method, {"taskId": task.id, "inputResponses": {}})
            assert again.task(task.id).refresh() == "working", "a newer token of the same person"
            if revision == "2025-11-25":
                begun = [task.id, *(ada.start_task("hold").id for _ in range(4))]
                assert "list" in again.capabilities["tasks"] and bob.list_tasks() == []
                assert sorted(each.id for each in again.list_tasks()) == sorted(begun)
                with pytest.raises(InvalidParams, match="cursor"):
                    again.request("tasks/list", {"cursor": 5})
            stage.go.set()
            assert again.task(task.id).result(WAIT).text == "held"


def begun(core: Any, capabilities: Any = EXTENSIONS) -> str:
    request = alone("tools/call", {"name": "hold", "arguments": {}}, capabilities=capabilities)
    return str(serve(core, request).json["result"]["taskId"])


def about(method: str, id: str, name: Any) -> HttpRequest:
    return alone(method, {"taskId": id}, {"Mcp-Name": name}, capabilities=EXTENSIONS)


@pytest.mark.requirement("M:HDR-16", "M:TASK-28", "M:EXT-5")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_the_header_of_the_name_is_the_id_of_the_task(server: Server, method: str) -> None:
    core = core_of(server)
    id = begun(core)
    for wrong in ("another", None):
        refused = serve(core, about(method, id, wrong))
        assert (refused.status, refused.json["error"]["code"]) == (400, -32020)
    params = {"taskId": id, "inputResponses": {}}
    assert (
        serve(core, alone(method, params, {"Mcp-Name": id}, capabilities=EXTENSIONS)).status == 200
    )


@pytest.mark.requirement("TASK-43")
def test_a_look_at_a_task_is_answered_by_json(server: Server) -> None:
    core = core_of(server)
    shaken = Shaken(core)
    task = shaken.request("tools/call", {"name": "hold", "arguments": {}, "task": {}}).json[
        "result"
    ]["task"]
    id = begun(core)
    for answered in (
        shaken.request("tasks/get", {"taskId": task["taskId"]}),
        serve(core, about("tasks/get", id, id)),
        shaken.request("tasks/cancel", {"taskId": task["taskId"]}),
    ):
        assert "result" in answered.json and answered.headers["Content-Type"] == "application/json"


@pytest.mark.requirement("TASK-42")
def test_a_client_that_drops_the_stream_of_a_result_loses_nothing(
    server: Server, stage: Stage
) -> None:
    shaken = Shaken(core_of(server))
    task = shaken.request("tools/call", {"name": "hold", "arguments": {}, "task": {}}).json[
        "result"
    ]["task"]
    about_it = {"taskId": task["taskId"]}
    assert stage.entered.wait(WAIT)
    waits = shaken.begin("tasks/result", about_it, id=2)
    requests = tasks_of(server)
    assert eventually(lambda: waiters_of(requests.store)), "it waits for the end of the task"
    waits.writer.lose()
    assert shaken.request("tasks/get", about_it, id=3).json["result"]["status"] == "working"
    stage.go.set()
    result = shaken.begin("tasks/result", about_it, id=4).finished()
    assert "held" in result.body.decode()
    assert shaken.request("tasks/get", about_it, id=5).json["result"]["status"] == "completed"


@pytest.mark.requirement("TASK-44", "TASK-24")
def test_questions_of_a_task_may_come_on_any_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "GET_SECONDS", WAIT)
    answers: List[Any] = []
    answered, listening = threading.Event(), threading.Event()
    stamp = "2030-01-01T00:00:00Z"

    def task() -> Dict[str, Any]:
        status = "completed" if answered.is_set() else "working"
        return {"taskId": "t", "status": status, "createdAt": stamp, "lastUpdatedAt": stamp, "ttl": None,
                "pollInterval": 20}  # fmt: skip

    def get(heard: Heard, wire: Wire) -> None:
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        wire.stream()
        assert listening.wait(WAIT)
        wire.event({"id": 7, "method": "elicitation/create", "params": {
            "mode": "form", "message": "who?", "requestedSchema": form, "_meta": {RELATED: {"taskId": "t"}},
        }})  # fmt: skip
        answered.wait(WAIT)
        wire.end()

    def answer(heard: Heard, wire: Wire) -> None:
        answers.append(heard.message["result"])
        answered.set()
        wire.whole(202, kind=None)

    capabilities = {"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}
    said = {
        "initialize": lambda heard, wire: wire.result({**INITIALIZED, "capabilities": capabilities}),
        "tools/call": lambda heard, wire: (listening.set(), wire.result({"task": task()})),
        "tasks/get": lambda heard, wire: wire.result(task()),
        "tasks/result": lambda heard, wire: wire.result({"content": [{"type": "text", "text": "done"}]}),
        "GET": get, "an answer": answer,
    }  # fmt: skip
    with Peer(said, handshake=True, session=None) as peer:
        with minimcp.connect(
            peer.url, revision="2025-11-25", elicit=lambda asked: {"name": "Ada"}
        ) as client:
            assert client.start_task("work").result(WAIT).text == "done"
    assert answers == [{"action": "accept", "content": {"name": "Ada"}}]
