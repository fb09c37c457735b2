"""Requests that a server sends before its client has sent `notifications/initialized`."""

from __future__ import annotations

import http.client
import json
import logging
import threading
from typing import Any, Callable, Dict, List

import pytest

from minimcp import Cancelled, Context, Limits, Server, Tasks
from minimcp.engine import asking as engine

from ..answering import R1, R2, R3, R4, REVISIONS
from ..inside import waits_on
from ..scripted import Task
from ..support import WAIT, eventually
from ..wire.messages import hello
from .raw_client import ALL, RawClient

BEGUN = "notifications/initialized"
HANDSHAKES = [each for each in REVISIONS if each != "2026-07-28"]


def asking(**options: Any) -> Server:
    """A server whose tool, prompt and resource ask for the roots of the client."""
    server = Server("asks", **options)

    @server.tool(timeout=WAIT, task="optional" if options else None)
    def ask(ctx: Context) -> str:
        """Ask."""
        ctx.info("a log message may come before")
        return str(len(ctx.list_roots()))

    @server.prompt
    def prompt(ctx: Context) -> str:
        """Ask."""
        return str(len(ctx.list_roots()))

    @server.resource("x://y")
    def resource(ctx: Context) -> str:
        """Ask."""
        return str(len(ctx.list_roots()))

    return server


class Unready(RawClient):
    """A client that has not sent `notifications/initialized`."""

    def __init__(self, server: Server, revision: str) -> None:
        super().__init__(server, "2026-07-28", {"roots/list": {"roots": []}}, ALL)
        self.revision = revision
        self.result("initialize", **hello(revision, **ALL))


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long a question waits."""
    return lambda seconds: monkeypatch.setattr(engine, "INITIALIZED_SECONDS", seconds)


def waits(channel: Any, count: int) -> bool:
    """Return whether this many handlers of a connection wait before they ask."""
    return eventually(lambda: waits_on(engine, "initialized_changed") == count)


REQUESTS = [
    ("tools/call", {"name": "ask", "arguments": {}}),
    ("prompts/get", {"name": "prompt"}),
    ("resources/read", {"uri": "x://y"}),
]


@pytest.mark.requirement("LIFE-05")
@pytest.mark.parametrize(("method", "params"), REQUESTS)
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_question_waits_for_initialized(
    patience: Callable[[float], None], revision: str, method: str, params: Dict[str, Any]
) -> None:
    patience(10 * WAIT)
    server = asking()
    with Unready(server, revision) as client:
        ids = [client.begin(method, **params) for _ in range(2)]
        assert waits(client, 2)
        client.result("ping")
        assert client.asked == []
        client.peer.notify(BEGUN)
        for _ in range(4):  # both questions, and both answers
            message = client.peer.expect()
            while message.get("method") == "notifications/message":
                message = client.peer.expect()
            if "method" in message:
                client.reply(message)
            else:
                ids.remove(message["id"])
        assert len(client.asked) == 2 and ids == []
        assert client.once(method, **params)["result"] and len(client.asked) == 3
    server.close()


@pytest.mark.requirement("LIFE-05")
def test_a_question_is_sent_in_the_end_and_that_is_logged_once(
    patience: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    patience(0.05)
    server = asking()
    with Unready(server, R3) as client:
        ids = [client.begin("tools/call", name="ask", arguments={}) for _ in range(5)]
        while ids:
            message = client.peer.expect()
            if "id" in message and "method" in message:
                client.reply(message)
            elif "method" not in message:
                assert message["result"]["content"][0]["text"] == "0"
                ids.remove(message["id"])
        patience(10 * WAIT)  # the second request does not wait
        client.call("ask")
    logged = [each for each in caplog.records if BEGUN in each.getMessage()]
    assert [each.levelno for each in logged] == [logging.WARNING]
    server.close()
    assert engine.INITIALIZED_SECONDS == 10 * WAIT


def test_it_waits_five_seconds_at_most() -> None:
    assert engine.INITIALIZED_SECONDS == 5.0


@pytest.mark.parametrize("end", ["cancelled", "loss", "close"])
def test_the_end_of_the_request_ends_its_wait(patience: Callable[[float], None], end: str) -> None:
    patience(10 * WAIT)
    server, ended = Server("asks", limits=Limits(drain_grace=0.0)), []

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask."""
        try:
            return str(ctx.list_roots())
        except BaseException as error:
            ended.append(type(error))
            raise

    with Unready(server, R4) as client:
        id = client.begin("tools/call", name="ask", arguments={})
        assert waits(client, 1)
        if end == "cancelled":
            client.peer.notify("notifications/cancelled", {"requestId": id})
        elif end == "loss":
            client.close()
        else:
            Task(server.close).result()
        assert eventually(lambda: ended == [Cancelled]) and waits(client, 0)
    server.close()


def test_the_timeout_of_the_tool_is_paused_during_the_wait(
    patience: Callable[[float], None],
) -> None:
    patience(0.2)
    server = Server("asks")

    @server.tool(timeout=0.1)
    def ask(ctx: Context) -> str:
        """Ask."""
        return str(len(ctx.list_roots()))

    with Unready(server, R2) as client:
        assert client.call("ask") == "0"
    server.close()


def test_the_question_of_a_task_waits_too(patience: Callable[[float], None]) -> None:
    patience(10 * WAIT)
    server = asking(extensions=[Tasks(poll_interval=0.01)])
    with Unready(server, R4) as client:
        params = {"name": "ask", "arguments": {}, "task": {}}
        task = client.result("tools/call", **params)["task"]["taskId"]
        id = client.begin("tasks/result", taskId=task)
        assert waits(client, 1) and client.asked == []
        client.peer.notify(BEGUN)
        assert client.answer(id)["result"]["content"][0]["text"] == "0"
    server.close()


@pytest.mark.parametrize("revision", [R2, R3, R4])
def test_in_a_session_over_http(patience: Callable[[float], None], revision: str) -> None:
    patience(10 * WAIT)
    server = asking()
    with server.start_http() as running:

        def post(message: Dict[str, Any], session: str = "") -> Any:
            connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=WAIT)
            headers = {
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                **({"Mcp-Session-Id": session} if session else {}),
            }
            connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
            response = connection.getresponse()
            return connection, response

        connection, response = post(
            {"id": 0, "method": "initialize", "params": hello(revision, **ALL)}
        )
        session = response.getheader("Mcp-Session-Id")
        response.read()
        connection.close()
        calling: List[Any] = []
        asked = threading.Event()

        def call() -> None:
            params = {"name": "ask", "arguments": {}}
            connection, response = post(
                {"id": 1, "method": "tools/call", "params": params}, session
            )
            for line in response:
                message = json.loads(line[5:]) if line.startswith(b"data:{") else None
                message = json.loads(line[6:]) if line.startswith(b"data: {") else message
                if message is not None and message.get("method") == "roots/list":
                    asked.set()
                    answer = {"id": message["id"], "result": {"roots": []}}
                    post(answer, session)[0].close()
                elif message is not None and "result" in message:
                    calling.append(message["result"]["content"][0]["text"])
            connection.close()

        task = Task(call)
        assert waits(running, 1) and not asked.is_set()
        post({"method": BEGUN}, session)[0].close()
        task.result()
        assert calling == ["0"] and asked.is_set()
    server.close()


def test_without_a_client_to_ask_nothing_waits(patience: Callable[[float], None]) -> None:
    """An error is raised at once."""
    patience(10 * WAIT)
    server = asking()
    with Unready(server, R1) as client:
        client.result("initialize", **hello(R1))  # it declares nothing
        assert "roots" in client.call("ask")[0]
    server.close()
