"""The HTTP server without sockets: sessions of clients that have shaken hands, and those without."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from minimcp import Context, Server
from minimcp.http.endpoint import Endpoint
from minimcp.http.headers import HttpRequest
from minimcp.http.options import HttpOptions

from ..support import WAIT, eventually
from ..wire.messages import hello
from .http_app import NEWEST, Served, Shaken, Stage, alone, core_of, message, post, serve, stage_server

requirement = pytest.mark.requirement

PROGRESS = {"_meta": {"progressToken": 1}}


def called(name: str, arguments: Any = None, **more: Any) -> Any:
    return {"name": name, "arguments": arguments or {}, **more}


# ------------------------------------------------------------ from the first to the last


@requirement("SHTTP-60", "SHTTP-61", "SHTTP-62", "SHTTP-63", "SEC-02", "M:VER-S5")
def test_initialize_opens_a_session(core: Endpoint) -> None:
    ids = {Shaken(core).headers["Mcp-Session-Id"] for _ in range(20)}
    assert len(ids) == 20 == len(core.sessions)
    assert all(len(id) >= 32 and all("\x21" <= char <= "\x7e" for char in id) for id in ids)


@requirement("SHTTP-10", "SHTTP-25")
def test_a_session_is_served(core: Endpoint) -> None:
    client = Shaken(core)
    listed = client.request("tools/list")
    assert listed.status == 200 and listed.headers["Content-Type"] == "application/json"
    assert "Mcp-Session-Id" not in listed.headers
    unknown = client.request("nope")
    assert unknown.status == 200 and unknown.json["error"]["code"] == -32601
    assert client.request("ping").json["result"] == {}
    late = client.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    assert late.status == 202 and late.body == b""


@requirement("LIFE-31")
def test_a_second_initialize_opens_the_session_anew(server: Server, core: Endpoint) -> None:
    """Bridges send it that open one session for several clients."""

    @server.tool
    def about(ctx: Context) -> str:
        """Say what is known of the session."""
        assert ctx.session is not None
        ctx.session["calls"] = ctx.session.get("calls", 0) + 1
        return f"{ctx.revision} {ctx.client.supports('sampling')} {ctx.session['calls']}"

    def said() -> Any:
        return client.request("tools/call", called("about")).json["result"]["content"][0]["text"]

    client = Shaken(core)
    assert [said(), said()] == ["2025-11-25 False 1", "2025-11-25 False 2"]
    again = client.request("initialize", hello("2025-06-18", sampling={}))
    assert again.json["result"]["protocolVersion"] == "2025-06-18" and len(core.sessions) == 1
    assert said() == "2025-06-18 True 1"


@requirement("SHTTP-65")
def test_without_its_id_nothing_is_served(core: Endpoint) -> None:
    Shaken(core)
    for body in (message("tools/list"), message("notifications/initialized", id=None)):
        response = serve(core, post(body))
        assert response.status == 400 and "Mcp-Session-Id" in response.json["error"]["message"]


@requirement("SHTTP-66", "SHTTP-70")
def test_a_session_that_has_ended_is_unknown(core: Endpoint) -> None:
    client = Shaken(core)
    assert client.delete().status == 200
    assert client.request("tools/list").status == 404
    assert client.delete().status == 404
    assert len(core.sessions) == 0


@pytest.mark.parametrize(
    ("id", "status"), [("bogus", 404), ("a b", 400), ("\x01", 400), ("x" * 300, 400), ("\xe9", 400)]
)
def test_ids_that_are_none(core: Endpoint, id: str, status: int) -> None:
    request = post(message("ping"), {"Mcp-Session-Id": id})
    assert serve(core, request).status == status
    two = [*request.headers.items(), *Shaken(core).headers.items()]
    assert serve(core, HttpRequest("POST", "/mcp", two, request.body)).status == 400


@requirement("SHTTP-83", "SHTTP-84", "SHTTP-85")
@pytest.mark.parametrize(
    ("version", "status"), [("2025-11-25", 200), ("2025-03-26", 200), (None, 200), ("banana", 400), ("2024-01-01", 400)]
)
def test_the_header_of_the_version(core: Endpoint, version: Any, status: int) -> None:
    client = Shaken(core)
    assert client.send(message("ping"), **{"MCP-Protocol-Version": version}).status == status
    if version != "banana":
        return
    listening = client.get(MCP_Protocol_Version="banana")
    assert serve(core, listening).status == 400


@requirement("SHTTP-85")
def test_initialize_does_not_mind_its_header(core: Endpoint) -> None:
    response = serve(core, post(message("initialize", hello("2025-06-18")), {"MCP-Protocol-Version": "2024-11-05"}))
    assert response.status == 200 and response.json["result"]["protocolVersion"] == "2025-06-18"


def test_a_failed_initialize_opens_nothing(core: Endpoint) -> None:
    response = serve(core, post(message("initialize", {})))
    assert response.status == 200 and response.json["error"]["code"] == -32602
    assert len(core.sessions) == 0 and "Mcp-Session-Id" not in response.headers


@requirement("M:VER-S6", "M:VER-S10", "M:VER-S13")
def test_both_eras_at_once(core: Endpoint) -> None:
    client = Shaken(core, revision=NEWEST)
    assert client.opened.json["result"]["protocolVersion"] == "2025-11-25"
    assert serve(core, alone("tools/list", headers=client.headers)).json["result"]["resultType"] == "complete"
    assert "resultType" not in client.request("tools/list").json["result"]


# ------------------------------------------------------------ streams of requests


@requirement("SHTTP-14", "SHTTP-15", "SHTTP-16", "SHTTP-17", "SHTTP-18", "SHTTP-34", "SHTTP-35")
def test_progress_is_on_the_stream_of_its_request(core: Endpoint) -> None:
    client = Shaken(core)
    listening = client.listen()
    listening.writer.wait_for(lambda: listening.writer.streamed)
    response = client.request("tools/call", called("count", **PROGRESS))
    assert response.streamed and response.ended
    assert [each.get("id") for each in response.messages] == [None, None, None, 1]
    assert client.delete().status == 200
    assert listening.finished().messages == []


@requirement("SHTTP-33")
def test_a_question_is_on_the_stream_and_its_answer_a_post(core: Endpoint) -> None:
    client = Shaken(core, elicitation={})
    asked = client.begin("tools/call", called("name"))
    asked.writer.wait_for(lambda: asked.writer.messages)
    question = asked.writer.messages[0]
    assert question["method"] == "elicitation/create"
    answer = {"action": "accept", "content": {"name": "Bob"}}
    assert client.send({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status == 202
    assert asked.finished().messages[-1]["result"]["content"][0]["text"] == "Bob"


def test_an_answer_of_another_session_is_not_taken(core: Endpoint) -> None:
    client, other = Shaken(core, elicitation={}), Shaken(core)
    asked = client.begin("tools/call", called("name"))
    asked.writer.wait_for(lambda: asked.writer.messages)
    id = asked.writer.messages[0]["id"]
    forged = {"action": "accept", "content": {"name": "Eve"}}
    assert other.send({"jsonrpc": "2.0", "id": id, "result": forged}).status == 202
    refusal = {"code": -1, "message": "no"}
    assert client.send({"jsonrpc": "2.0", "id": id, "error": refusal}).status == 202
    assert asked.finished().messages[-1]["result"]["isError"]


@requirement("SHTTP-19")
def test_who_drops_the_connection_takes_nothing_back(server: Server, stage: Stage) -> None:
    core = core_of(server, event_store=False)
    client = Shaken(core)
    held = client.begin("tools/call", called("hold", **PROGRESS))
    assert stage.entered.wait(WAIT)
    held.writer.lose()
    stage.go.set()
    assert stage.left.wait(WAIT)
    assert held.finished().status == 0 and not stage.cancelled.is_set()


@requirement("CANC-12")
def test_a_request_is_taken_back_by_a_notification(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core)
    held = client.begin("tools/call", called("hold"), id=5)
    assert stage.entered.wait(WAIT)
    cancelled = message("notifications/cancelled", {"requestId": "5"}, None)
    client.send(cancelled)
    assert not stage.cancelled.is_set()
    client.send(message("notifications/cancelled", {"requestId": 5, "reason": "x"}, None))
    assert stage.cancelled.wait(WAIT)
    held.writer.wait_for(lambda: held.writer.ended)
    assert held.writer.status == 200 and held.writer.body == b""
    stage.go.set()
    held.finished()


def test_shutdown_ends_the_session_behind_what_runs(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core)
    held = client.begin("tools/call", called("hold"), id=7)
    assert stage.entered.wait(WAIT)
    assert client.request("shutdown").json["result"] == {}
    assert client.request("tools/list").json["error"]["code"] == -32600
    stage.go.set()
    assert held.finished().json["id"] == 7
    assert eventually(lambda: client.request("tools/list").status == 404)


# ------------------------------------------------------------ arrays


@requirement("BATCH-10", "BATCH-11", "X-11")
def test_an_array_is_answered_by_an_array(core: Endpoint) -> None:
    client = Shaken(core, revision="2025-03-26")
    items = [
        message("ping", id="a"), message("nope", id="b"), message("initialize", {}, id="c"), {"id": "d"},
        message("tools/call", called("pooled"), id="e"), message("notifications/x", id=None),
    ]
    response = client.send(items)
    assert response.status == 200 and response.headers["Content-Type"] == "application/json"
    answers = {each.get("id"): each for each in response.json}
    assert answers["a"]["result"] == {} and answers["b"]["error"]["code"] == -32601
    assert answers["c"]["error"]["code"] == -32600 and answers["e"]["result"]["content"]


@requirement("BATCH-12")
def test_an_array_without_requests_is_accepted(core: Endpoint) -> None:
    client = Shaken(core, revision="2025-03-26")
    assert client.send([message("notifications/x", id=None)]).status == 202


def test_an_array_with_progress_is_a_stream_and_may_be_taken_back(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core, revision="2025-03-26")
    items = [message("tools/call", called("count", **PROGRESS), 1), message("tools/call", called("hold"), 2)]
    served = Served(core, post(items, client.headers))
    assert stage.entered.wait(WAIT)
    client.send(message("notifications/cancelled", {"requestId": 2}, None))
    assert stage.cancelled.wait(WAIT)
    stage.go.set()
    answers = {each["id"]: each for each in served.finished().messages[-1]}
    assert sorted(answers) == [1, 2] and "error" in answers[2]


@pytest.mark.parametrize(("revision", "items"), [
    ("2025-06-18", [message("ping")]), ("2025-03-26", []),
    ("2025-03-26", [message("ping", id=n) for n in range(101)]),
])
def test_arrays_that_are_refused(core: Endpoint, revision: str, items: Any) -> None:
    response = Shaken(core, revision=revision).send(items)
    assert response.status == 400 and response.json["error"]["code"] == -32600


@requirement("BATCH-13")
def test_accept_batches_takes_them_always(stage: Stage) -> None:
    server = stage_server(stage, accept_batches=True)
    client = Shaken(core_of(server))
    assert client.send([message("ping")]).json == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    server.close()


# ------------------------------------------------------------ how many, and how long


def test_sessions_are_limited(server: Server) -> None:
    core = core_of(server, max_sessions=2)
    clients = [Shaken(core) for _ in range(2)]
    refused = serve(core, post(message("initialize", hello("2025-06-18"))))
    assert refused.status == 503 and "max_sessions" in refused.json["error"]["message"]
    assert len(server._registry.subscriptions._sessions) == 2
    clients[0].delete()
    Shaken(core)


@requirement("SHTTP-67", "SHTTP-22")
def test_sessions_that_are_not_used_end(server: Server, stage: Stage) -> None:
    core = core_of(server, session_ttl=0.05, keepalive=None)
    core.options = replace(core.options, session_ttl=2 * WAIT)  # until they are there
    idle, busy = Shaken(core), Shaken(core)
    held = busy.begin("tools/call", called("hold"))
    assert stage.entered.wait(WAIT)
    core.options = replace(core.options, session_ttl=0.05)
    assert eventually(lambda: len(core.sessions) == 1)
    assert idle.request("ping").status == 404 and busy.request("ping").status == 200
    stage.go.set()
    held.finished()
    assert eventually(lambda: len(core.sessions) == 0)


def test_closing_ends_the_sessions(core: Endpoint) -> None:
    client = Shaken(core)
    listening = client.listen()
    listening.writer.wait_for(lambda: listening.writer.streamed)
    core.close()
    assert listening.finished().ended and len(core.sessions) == 0
    assert client.request("ping").status == 503


class SlowPeer:
    """Takes nothing of what is written to it until `taken` is set."""

    def __init__(self, response: Served) -> None:
        self.writing, self.taken = threading.Event(), threading.Event()
        self._write, response.writer.write = response.writer.write, self.write  # type: ignore[method-assign]

    def write(self, data: bytes) -> None:
        self.writing.set()
        assert self.taken.wait(WAIT)
        self._write(data)


@pytest.mark.parametrize(("begins", "how"), [("GET", "close"), ("GET", "delete"), ("POST", "close")])
def test_no_end_waits_for_a_slow_peer(core: Endpoint, stage: Stage, begins: str, how: str) -> None:
    client = Shaken(core)
    response = client.listen() if begins == "GET" else client.begin("tools/call", called("hold", **PROGRESS))
    if begins == "GET":
        response.writer.wait_for(lambda: response.writer.streamed)
    else:
        assert stage.entered.wait(WAIT)
    peer = SlowPeer(response)
    stage.go.set()
    core.sessions[client.headers["Mcp-Session-Id"]].post(b"{}\n")
    assert peer.writing.wait(WAIT)
    ending = threading.Thread(target=core.close if how == "close" else client.delete)
    ending.start()
    ending.join(WAIT)
    waits = ending.is_alive()
    peer.taken.set()
    assert response.finished().ended and not waits


def test_a_stream_is_refused_whose_session_ends_meanwhile(core: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    client, reserve = Shaken(core), core._reserve
    monkeypatch.setattr(core, "_reserve", lambda stream: (client.delete(), reserve(stream)))
    assert client.listen().finished().status == 404


def test_a_session_whose_end_fails_does_not_keep_the_others(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cause: Exception) -> None:
        raise OSError("no room on the disk")

    core = core_of(server, session_ttl=0.05, keepalive=None)
    core.options = replace(core.options, session_ttl=2 * WAIT)  # until they are there
    Shaken(core)
    monkeypatch.setattr(next(iter(core.sessions.values())).handler, "lost", fail)
    Shaken(core)
    core.options = replace(core.options, session_ttl=0.05)
    assert eventually(lambda: not core.sessions)


# ------------------------------------------------------------ without sessions


@pytest.fixture
def loose(server: Server) -> Endpoint:
    return core_of(server, sessions=False)


@requirement("SHTTP-82", "M:VER-S11")
def test_without_sessions_each_post_stands_alone(loose: Endpoint) -> None:
    client = Shaken(loose)
    assert client.headers == {}
    assert client.request("tools/list").json["result"]["tools"]
    assert serve(loose, post([message("ping")])).json[0]["result"] == {}
    assert client.send([message("ping")], **{"MCP-Protocol-Version": "2025-11-25"}).status == 400
    assert client.send({"jsonrpc": "2.0", "id": 1, "result": {}}).status == 400
    progress = client.request("tools/call", called("count", **PROGRESS))
    assert progress.streamed and b"id:" not in progress.body


@requirement("SHTTP-32")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
def test_without_sessions_there_is_only_post(loose: Endpoint, verb: str) -> None:
    response = serve(loose, HttpRequest(verb, "/mcp", {"Host": "localhost"}))
    assert response.status == 405 and response.headers["Allow"] == "POST"


def test_without_sessions_nobody_can_be_asked(loose: Endpoint, server: Server) -> None:


    @server.tool
    def state(ctx: Context) -> str:
        """Ask."""
        return f"{ctx.session}"

    client = Shaken(loose)
    assert client.request("tools/call", called("name")).json["result"]["isError"]
    assert client.request("tools/call", called("state")).json["result"]["content"][0]["text"] == "None"


def test_without_sessions_a_revision_may_not_be_served(stage: Stage) -> None:
    server = stage_server(stage, revisions=["2025-06-18", "2025-11-25"], http=HttpOptions(sessions=False))
    core = core_of(server)
    assert serve(core, post(message("tools/list"))).status == 200
    assert serve(core, post(message("tools/list"), {"MCP-Protocol-Version": "2025-03-26"})).status == 400
    server.close()
