"""Requests of a server to its client as tasks (2025-11-25): the client creates the tasks, and the
server polls them."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest

from minimcp import ConnectionLost, Context, Refused, SampleRequest, Server, Tasks, connect
from minimcp.engine.asking import ask_peer
from minimcp.extensions.host_tasks import HostTasks
from minimcp.protocol.messages import Failure

from ..inside import incoming_of
from ..scripted import Task
from ..support import WAIT, eventually

CORE = "2025-11-25"
RELATED = "io.modelcontextprotocol/related-task"
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
FORM = {"mode": "form", "message": "who?", "requestedSchema": {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
}}  # fmt: skip

# Sends a request to the client: its result, or the code of its error.
Ask = Callable[..., Any]


def states(sent: List[Tuple[str, Dict[str, Any]]]) -> List[str]:
    """Return the states that the client reported."""
    return [params["status"] for method, params in sent if method == "notifications/tasks/status"]


def run(
    script: Callable[[Ask], Any],
    extensions: Any = None,
    revision: str = CORE,
    http: bool = False,
    tells: int = 0,
    **handlers: Any,
) -> List[Tuple[str, Dict[str, Any]]]:
    """Let a tool of a server ask by a script. Return the client's messages, as pairs of a method
    and params.

    The tool returns after the client has sent this many notifications of states, for which no
    response is awaited.
    """
    server, failed = Server("asks"), []

    @server.tool
    def go(ctx: Context) -> str:
        """Ask."""

        def ask(method: str, **params: Any) -> Any:
            outcome = ask_peer(incoming_of(ctx), [(method, params)], WAIT)
            return outcome.code if isinstance(outcome, Failure) else outcome[0]

        try:
            script(ask)
        except BaseException as error:
            failed.append(error)
        return "done"

    sent: List[Tuple[str, Dict[str, Any]]] = []

    def trace(arrow: str, line: str) -> None:
        message = json.loads(line)
        if arrow == "-->" and "method" in message:
            sent.append((message["method"], message.get("params", {})))

    def call(target: Any) -> None:
        given = [Tasks()] if extensions is None else extensions
        with connect(
            target, revision=revision, extensions=given, trace=trace, **handlers
        ) as client:
            client.call_tool("go", timeout=WAIT)
            assert failed or eventually(lambda: len(states(sent)) >= tells)

    if http:
        with server.start_http() as running:
            call(running.url)
    else:
        call(server)
    if failed:
        raise failed[0]
    return sent


def until_ended(ask: Ask, id: str) -> Dict[str, Any]:
    seen: List[Dict[str, Any]] = []

    def ended() -> bool:
        seen.append(ask("tasks/get", taskId=id))
        return seen[-1]["status"] != "working"

    assert eventually(ended)
    return seen[-1]


@pytest.mark.requirement(
    "SAMP-28", "TASK-01", "TASK-11", "TASK-13", "TASK-23", "TASK-29", "TASK-32", "X-08"
)
@pytest.mark.parametrize("http", [False, True])
def test_a_sample_and_a_form_as_tasks(http: bool) -> None:
    def script(ask: Ask) -> None:
        for method, params, said in (
            ("sampling/createMessage", SAMPLE, {"type": "text", "text": "hello"}),
            ("elicitation/create", FORM, {"name": "Ada"}),
        ):
            created = ask(method, **params, task={"ttl": 60000})
            assert list(created) == ["task"] and created["task"]["status"] == "working"
            assert created["task"]["ttl"] == 60000
            id = created["task"]["taskId"]
            result = ask("tasks/result", taskId=id)
            assert result["content"] == said and result["_meta"] == {RELATED: {"taskId": id}}
            assert until_ended(ask, id)["status"] == "completed"
            assert id in [task["taskId"] for task in ask("tasks/list")["tasks"]]
            assert ask("tasks/cancel", taskId=id) == -32602
        assert ask("tasks/get", taskId="x") == ask("tasks/result", taskId="x") == -32602

    sent = run(
        script,
        http=http,
        tells=2,
        sample=lambda request: "hello",
        elicit=lambda request: {"name": "Ada"},
    )
    declared = sent[0][1]["capabilities"]["tasks"]
    requests = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
    assert declared == {"list": {}, "cancel": {}, "requests": requests}
    assert states(sent) == ["completed", "completed"]


@pytest.mark.requirement("CANC-10", "CANC-11", "TASK-33", "TASK-34", "TASK-46")
@pytest.mark.parametrize("takes_back", [True, False])
def test_a_question_that_the_server_takes_back_or_does_not_wait_for(takes_back: bool) -> None:
    begun, ended = threading.Event(), threading.Event()

    def sample(request: SampleRequest) -> str:
        assert request.asked is not None
        request.asked.on_cancel(ended.set)
        begun.set()
        assert ended.wait(WAIT)
        return "too late"

    def script(ask: Ask) -> None:
        id = ask("sampling/createMessage", **SAMPLE, task={})["task"]["taskId"]
        assert begun.wait(WAIT)
        if takes_back:
            assert ask("tasks/cancel", taskId=id)["status"] == "cancelled"
            assert ended.wait(WAIT)
            assert until_ended(ask, id)["status"] == "cancelled"
            assert ask("tasks/result", taskId=id) == -32602

    sent = run(script, sample=sample)  # the end of the connection ends the questions
    assert ended.wait(WAIT) and "notifications/cancelled" not in [method for method, _ in sent]


@pytest.mark.requirement("TASK-37", "TASK-21")
def test_a_user_who_refuses_fails_the_task() -> None:
    def refuse(request: Any) -> str:
        raise Refused("not today")

    def script(ask: Ask) -> None:
        id = ask("sampling/createMessage", **SAMPLE, task={})["task"]["taskId"]
        assert ask("tasks/result", taskId=id) == -1
        ended = until_ended(ask, id)
        assert (ended["status"], ended["statusMessage"]) == ("failed", "not today")

    run(script, sample=refuse)


@pytest.mark.requirement("TASK-09", "TASK-48")
def test_requests_that_do_not_create_a_task() -> None:
    def script(ask: Ask) -> None:
        assert ask("sampling/createMessage", messages=5, task={}) == -32602
        assert ask("sampling/createMessage", **SAMPLE, task=5) == -32602
        assert ask("sampling/createMessage", **SAMPLE, task={"ttl": "long"}) == -32602
        assert ask("elicitation/create", **FORM, task={}) == -32601, (
            "this client cannot be asked that"
        )
        assert ask("sampling/createMessage", **SAMPLE)["content"]["text"] == "hello"
        assert ask("tasks/list")["tasks"] == []
        assert ask("tasks/update", taskId="x") == -32601

    sent = run(script, sample=lambda request: "hello")
    assert sent[0][1]["capabilities"]["tasks"]["requests"] == {"sampling": {"createMessage": {}}}


@pytest.mark.parametrize(("revision", "extensions"), [(CORE, []), ("2025-06-18", None)])
def test_a_client_without_tasks_answers_at_once(
    revision: str, extensions: Optional[List[Any]]
) -> None:
    def script(ask: Ask) -> None:
        assert "task" not in ask("sampling/createMessage", **SAMPLE, task={})
        assert ask("tasks/list") == -32601

    sent = run(script, extensions, revision, sample=lambda request: "hello")
    assert "tasks" not in sent[0][1]["capabilities"]


def test_a_question_whose_connection_ends_as_it_becomes_a_task_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, lost, created, made = (
        threading.Event(),
        threading.Event(),
        threading.Event(),
        list[Any](),
    )
    create, tell = HostTasks.create, HostTasks.peer_lost

    def late(self: HostTasks, *arguments: Any) -> Any:
        asked.set()
        lost.wait(WAIT)
        result = create(self, *arguments)
        made.extend([self, *self._running.values()])
        created.set()
        return result

    def told(self: HostTasks, peer: Any) -> None:
        tell(self, peer)
        lost.set()

    monkeypatch.setattr(HostTasks, "create", late)
    monkeypatch.setattr(HostTasks, "peer_lost", told)
    server, go = Server("asks"), threading.Event()

    @server.tool
    def ask(ctx: Context) -> None:
        """Ask by a task."""
        ask_peer(incoming_of(ctx), [("sampling/createMessage", {**SAMPLE, "task": {}})], WAIT)

    def sample(request: SampleRequest) -> str:
        go.wait(WAIT)
        return "late"

    with connect(server, revision=CORE, extensions=[Tasks()], sample=sample) as client:
        call = Task(client.call_tool, "ask")
        assert asked.wait(WAIT)
    assert created.wait(WAIT)
    tasks, running = made
    assert eventually(lambda: running.token.cancelled and not tasks._sessions)
    go.set()
    with pytest.raises(ConnectionLost):
        call.result()
