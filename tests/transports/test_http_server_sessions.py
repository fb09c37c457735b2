"""The HTTP server without sockets: sessions, and those without; GET, and the events that are kept."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any, Iterator

import pytest

from minimcp import Context, EventStore, Limits, Server, SqliteStore
from minimcp.http import endpoint
from minimcp.http.endpoint import Endpoint
from minimcp.http.headers import HttpRequest
from minimcp.http.options import HttpOptions
from minimcp.http.responses import EventStream

from ..inside import config_of, feature_of, sessions_with_changes, sweep
from ..rows import for_each
from ..support import WAIT, eventually
from ..wire.messages import hello
from .http_app import (
    NEWEST,
    Recording,
    Served,
    Shaken,
    Stage,
    alone,
    core_of,
    message,
    post,
    serve,
    stage_server,
)

requirement = pytest.mark.requirement

PROGRESS = {"_meta": {"progressToken": 1}}


def called(name: str, arguments: Any = None, **more: Any) -> Any:
    return {"name": name, "arguments": arguments or {}, **more}


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


@pytest.mark.parametrize("method", ["ping", "tools/list", "notifications/initialized"])
def test_an_idle_session_does_not_keep_the_headers_of_its_requests(
    core: Endpoint, method: str
) -> None:
    """A client may send many kilobytes of headers, and open thousands of sessions."""
    client = Shaken(core)
    request = post(message(method, id=None if "/init" in method else 1), client.headers)
    headers = weakref.ref(request.headers)
    assert serve(core, request).status in (200, 202)
    del request
    gc.collect()
    assert headers() is None


@requirement("LIFE-31")
def test_a_second_initialize_opens_another_session(server: Server, core: Endpoint) -> None:
    """Bridges send it that open one session for several clients."""

    @server.tool
    def about(ctx: Context) -> str:
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
def test_invalid_session_ids(core: Endpoint, id: str, status: int) -> None:
    request = post(message("ping"), {"Mcp-Session-Id": id})
    assert serve(core, request).status == status
    two = [*request.headers.items(), *Shaken(core).headers.items()]
    assert serve(core, HttpRequest("POST", "/mcp", two, request.body)).status == 400


@requirement("SHTTP-83", "SHTTP-84", "SHTTP-85")
@pytest.mark.parametrize(
    ("version", "status"),
    [("2025-11-25", 200), ("2025-03-26", 200), (None, 200), ("banana", 400), ("2024-01-01", 400)],
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
    response = serve(
        core,
        post(message("initialize", hello("2025-06-18")), {"MCP-Protocol-Version": "2024-11-05"}),
    )
    assert response.status == 200 and response.json["result"]["protocolVersion"] == "2025-06-18"


def test_a_failed_initialize_opens_nothing(core: Endpoint) -> None:
    response = serve(core, post(message("initialize", {})))
    assert response.status == 200 and response.json["error"]["code"] == -32602
    assert len(core.sessions) == 0 and "Mcp-Session-Id" not in response.headers


@requirement("M:VER-S6", "M:VER-S10", "M:VER-S13")
def test_both_eras_at_once(core: Endpoint) -> None:
    client = Shaken(core, revision=NEWEST)
    assert client.opened.json["result"]["protocolVersion"] == "2025-11-25"
    assert (
        serve(core, alone("tools/list", headers=client.headers)).json["result"]["resultType"]
        == "complete"
    )
    assert "resultType" not in client.request("tools/list").json["result"]


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


def test_a_response_from_another_session_is_ignored(core: Endpoint) -> None:
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
def test_a_dropped_connection_cancels_nothing(server: Server, stage: Stage) -> None:
    core = core_of(server, event_store=False)
    client = Shaken(core)
    held = client.begin("tools/call", called("hold", **PROGRESS))
    assert stage.entered.wait(WAIT)
    held.writer.lose()
    stage.go.set()
    assert stage.left.wait(WAIT)
    assert held.finished().status == 0 and not stage.cancelled.is_set()


@requirement("CANC-12")
def test_a_notification_cancels_a_request(core: Endpoint, stage: Stage) -> None:
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


def test_shutdown_ends_the_session_after_its_running_requests(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core)
    held = client.begin("tools/call", called("hold"), id=7)
    assert stage.entered.wait(WAIT)
    assert client.request("shutdown").json["result"] == {}
    assert client.request("tools/list").json["error"]["code"] == -32600
    stage.go.set()
    assert held.finished().json["id"] == 7
    assert eventually(lambda: client.request("tools/list").status == 404)


@requirement("BATCH-10", "BATCH-11", "X-11")
def test_an_array_is_answered_by_an_array(core: Endpoint) -> None:
    client = Shaken(core, revision="2025-03-26")
    items = [
        message("ping", id="a"),
        message("nope", id="b"),
        message("initialize", {}, id="c"),
        {"id": "d"},
        message("tools/call", called("pooled"), id="e"),
        message("notifications/x", id=None),
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


def test_an_array_with_progress_is_a_stream_and_can_be_cancelled(
    core: Endpoint, stage: Stage
) -> None:
    client = Shaken(core, revision="2025-03-26")
    items = [
        message("tools/call", called("count", **PROGRESS), 1),
        message("tools/call", called("hold"), 2),
    ]
    served = Served(core, post(items, client.headers))
    assert stage.entered.wait(WAIT)
    client.send(message("notifications/cancelled", {"requestId": 2}, None))
    assert stage.cancelled.wait(WAIT)
    stage.go.set()
    answers = {each["id"]: each for each in served.finished().messages[-1]}
    assert sorted(answers) == [1, 2] and "error" in answers[2]


def test_requests_of_an_array_that_wait_count_with_their_bytes(stage: Stage) -> None:
    server = stage_server(stage, limits=Limits(workers=1, backlog_bytes=1000))
    client = Shaken(core_of(server), revision="2025-03-26")
    held = Served(client.core, post(message("tools/call", called("hold"), 1), client.headers))
    assert stage.entered.wait(WAIT)
    items = [
        message("tools/call", called("pooled", _meta={"example.com/a": "x" * 600}), id)
        for id in (2, 3)
    ]
    served = Served(client.core, post(items, client.headers))
    assert eventually(lambda: client.core.pool.queue)
    stage.go.set()
    answers = {each["id"]: each for each in served.finished().json}
    assert (
        "result" in answers[2] and answers[3]["error"]["message"] == "too many requests are queued"
    )
    held.finished()
    server.close()


@pytest.mark.parametrize(
    ("revision", "items"),
    [
        ("2025-06-18", [message("ping")]),
        ("2025-03-26", []),
        ("2025-03-26", [message("ping", id=n) for n in range(101)]),
    ],
)
def test_arrays_that_are_refused(core: Endpoint, revision: str, items: Any) -> None:
    response = Shaken(core, revision=revision).send(items)
    assert response.status == 400 and response.json["error"]["code"] == -32600


@requirement("BATCH-13")
def test_accept_batches_takes_them_always(stage: Stage) -> None:
    server = stage_server(stage, accept_batches=True)
    client = Shaken(core_of(server))
    assert client.send([message("ping")]).json == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    server.close()


def test_sessions_are_limited(server: Server) -> None:
    core = core_of(server, max_sessions=2)
    clients = [Shaken(core) for _ in range(2)]
    refused = serve(core, post(message("initialize", hello("2025-06-18"))))
    assert refused.status == 503 and "max_sessions" in refused.json["error"]["message"]
    assert len(sessions_with_changes(feature_of(server, "subscriptions"))) == 2
    clients[0].delete()
    Shaken(core)


def test_sessions_whose_client_does_not_begin_make_room_and_end(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "BEGIN_SECONDS", WAIT)
    core = core_of(server, max_sessions=2)
    begun = Shaken(core)
    opened = [serve(core, post(message("initialize", hello("2025-06-18")))) for _ in range(5)]
    assert [each.status for each in opened] == [200] * 5 and len(core.sessions) == 2
    statuses = [
        serve(
            core, post(message("ping"), {"Mcp-Session-Id": each.headers["Mcp-Session-Id"]})
        ).status
        for each in opened
    ]
    assert statuses == [404] * 4 + [200] and begun.request("ping").status == 200
    monkeypatch.setattr(endpoint, "BEGIN_SECONDS", 0)
    sweep(core)
    assert len(core.sessions) == 1 and begun.request("ping").status == 200


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


def test_a_client_that_has_read_the_end_of_its_stream_may_open_the_next_one(
    core: Endpoint,
) -> None:
    client = Shaken(core)
    (session,) = core.sessions.values()
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    end, again = stream.writer.end, []

    def ended() -> None:
        end()
        again.append(client.listen())
        again[0].writer.wait_for(lambda: again[0].writer.status)

    stream.writer.end = ended  # type: ignore[method-assign]
    assert session.unsolicited is not None
    session.unsolicited.finish()
    stream.finished()
    assert again[0].writer.status == 200
    assert client.delete().status == 200
    again[0].finished()


class SlowPeer:
    """A client that reads nothing until `taken` is set."""

    def __init__(self, response: Served) -> None:
        self.writing, self.taken = threading.Event(), threading.Event()
        self._write, response.writer.write = response.writer.write, self.write  # type: ignore[method-assign]

    def write(self, data: bytes) -> None:
        self.writing.set()
        assert self.taken.wait(WAIT)
        self._write(data)


@pytest.mark.parametrize(
    ("begins", "how"), [("GET", "close"), ("GET", "delete"), ("POST", "close")]
)
def test_no_end_waits_for_a_slow_peer(core: Endpoint, stage: Stage, begins: str, how: str) -> None:
    client = Shaken(core)
    response = (
        client.listen()
        if begins == "GET"
        else client.begin("tools/call", called("hold", **PROGRESS))
    )
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


def test_a_stream_is_rejected_if_its_session_ends_at_the_same_time(
    core: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, reserve = Shaken(core), core.reserve
    monkeypatch.setattr(core, "reserve", lambda *given: (client.delete(), reserve(*given))[1])
    assert client.listen().finished().status == 404


def test_a_session_whose_end_fails_does_not_keep_the_others(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(cause: Exception) -> None:
        raise OSError("no room on the disk")

    core = core_of(server, session_ttl=0.05, keepalive=None)
    core.options = replace(core.options, session_ttl=2 * WAIT)  # until they are there
    Shaken(core)
    monkeypatch.setattr(next(iter(core.sessions.values())).role, "connection_lost", fail)
    Shaken(core)
    core.options = replace(core.options, session_ttl=0.05)
    assert eventually(lambda: not core.sessions)


# ------------------------------------------------------------ without sessions


@pytest.fixture
def loose(server: Server) -> Endpoint:
    return core_of(server, sessions=False)


@requirement("SHTTP-82", "M:VER-S11")
def test_without_sessions_each_post_is_independent(loose: Endpoint) -> None:
    client = Shaken(loose)
    assert client.headers == {}
    assert client.request("tools/list").json["result"]["tools"]
    assert serve(loose, post([message("ping")])).json[0]["result"] == {}
    assert client.send([message("ping")], **{"MCP-Protocol-Version": "2025-11-25"}).status == 400
    assert client.send({"jsonrpc": "2.0", "id": 1, "result": {}}).status == 400
    progress = client.request("tools/call", called("count", **PROGRESS))
    assert progress.streamed and b"id:" not in progress.body


def test_without_sessions_a_client_cannot_be_asked(loose: Endpoint, server: Server) -> None:

    @server.tool
    def state(ctx: Context) -> str:
        return f"{ctx.session}"

    client = Shaken(loose)
    assert client.request("tools/call", called("name")).json["result"]["isError"]
    assert (
        client.request("tools/call", called("state")).json["result"]["content"][0]["text"] == "None"
    )


def test_without_sessions_a_revision_may_not_be_served(stage: Stage) -> None:
    server = stage_server(
        stage, revisions=["2025-06-18", "2025-11-25"], http=HttpOptions(sessions=False)
    )
    core = core_of(server)
    assert serve(core, post(message("tools/list"))).status == 200
    assert (
        serve(core, post(message("tools/list"), {"MCP-Protocol-Version": "2025-03-26"})).status
        == 400
    )
    server.close()


@pytest.fixture
def server(stage: Stage) -> Iterator[Server]:
    server = stage_server(stage)

    @server.tool
    def polled(ctx: Context) -> str:
        ctx.progress(1)
        released = ctx.close_stream(retry=0.5)
        stage.entered.set()
        assert stage.go.wait(WAIT)
        ctx.progress(2)
        return f"released: {released}"

    yield server
    stage.go.set()
    server.close()


def held_stream(client: Shaken, stage: Stage) -> Served:
    """A call with one report of progress out, and its handler waiting."""
    held = client.begin("tools/call", called("polled", **PROGRESS))
    assert stage.entered.wait(WAIT)
    return held


def listening(client: Shaken, **headers: str) -> Served:
    found = client.listen(**headers)
    found.writer.wait_for(lambda: found.writer.status)
    return found


@requirement("SHTTP-32", "SHTTP-33", "M:VER-S15")
def test_messages_of_no_request_are_sent_on_the_stream_of_the_session(
    server: Server, core: Endpoint
) -> None:
    client = Shaken(core)
    server.remove_tool("add")  # before there is a stream: it waits
    stream = listening(client)
    stream.writer.wait_for(lambda: stream.writer.messages)
    assert stream.writer.headers["Content-Type"] == "text/event-stream"
    client.request("resources/subscribe", {"uri": "notes://one"})
    server.resource_updated("notes://one")
    stream.writer.wait_for(lambda: len(stream.writer.messages) == 2)
    client.delete()
    assert [each["method"] for each in stream.finished().messages] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
    ]


@requirement("SHTTP-36", "SHTTP-38")
def test_there_is_one_such_stream_at_a_time(server: Server, core: Endpoint) -> None:
    client = Shaken(core)
    first = listening(client)
    second = serve(core, client.get())
    assert second.status == 409
    server.remove_tool("add")
    first.writer.wait_for(lambda: first.writer.messages)
    first.writer.lose()
    first.finished()
    third = listening(client)
    server.remove_tool("count")
    third.writer.wait_for(lambda: third.writer.messages)
    assert len(third.writer.messages) == 1
    client.delete()
    third.finished()


@requirement("SEC-06")
def test_streams_are_limited(server: Server) -> None:
    core = core_of(server, max_streams=1)
    one, two = Shaken(core), Shaken(core)
    stream = listening(one)
    refused = serve(core, two.get())
    assert refused.status == 503 and "Limits.streams" in refused.json["error"]["message"]
    one.delete()
    stream.finished()
    stream = listening(two)
    two.delete()
    stream.finished()


def test_a_silent_stream_gets_comments(server: Server) -> None:
    core = core_of(server, keepalive=0.02)
    client = Shaken(core)
    stream = listening(client)
    stream.writer.wait_for(lambda: stream.writer.body.count(b": keep-alive\n\n") >= 2)
    client.delete()
    stream.finished()
    core.close()


@requirement("SHTTP-40", "SHTTP-41", "SHTTP-42", "SHTTP-47", "X-12")
def test_events_have_ids_that_name_their_stream(core: Endpoint) -> None:
    client, other = Shaken(core), Shaken(core)
    streams = [
        each.request("tools/call", called("count", **PROGRESS)).events
        for each in (client, client, other)
    ]
    ids = [event.id for events in streams for event in events]
    assert len(set(ids)) == len(ids) == 15
    assert all(len({event.id.split("/")[0] for event in events}) == 1 for events in streams)
    assert streams[0][0].data == "" and streams[0][0].id.endswith("/0")


@requirement("SHTTP-54")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_older_clients_get_no_empty_event_and_their_streams_stay_open(
    core: Endpoint, stage: Stage, revision: str
) -> None:
    client = Shaken(core, revision=revision)
    held = held_stream(client, stage)
    stage.go.set()
    events = held.finished().events
    assert all(event.data for event in events) and all(event.id for event in events)
    assert held.writer.messages[-1]["result"]["content"][0]["text"] == "released: False"


@requirement("SHTTP-21", "SHTTP-45")
def test_a_lost_stream_resumes_where_it_stopped(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core, revision="2025-06-18")
    held = held_stream(client, stage)
    last = held.writer.events[-1].id
    held.writer.lose()
    resumed = listening(client, Last_Event_ID=last)
    stage.go.set()
    found = resumed.finished()
    held.finished()
    assert [each.get("id") for each in found.messages] == [None, 1] and found.ended
    again = serve(core, client.get(Last_Event_ID=last))
    assert again.body == found.body
    whole = serve(core, client.get(Last_Event_ID=last.split("/")[0] + "/0"))
    assert len(whole.messages) == 3
    nothing = serve(core, client.get(Last_Event_ID=found.events[-1].id))
    assert nothing.status == 200 and nothing.messages == [] and nothing.ended


@requirement("SHTTP-49", "SHTTP-51")
def test_a_handler_closes_the_stream_and_the_client_resumes_it(
    core: Endpoint, stage: Stage
) -> None:
    client = Shaken(core)
    held = held_stream(client, stage)
    assert held.writer.ended and b"retry: 500\n\n" in held.writer.body
    assert len(held.writer.messages) == 1
    resumed = listening(client, Last_Event_ID=held.writer.events[-1].id)
    stage.go.set()
    assert resumed.finished().messages[-1]["result"]["content"][0]["text"] == "released: True"
    held.finished()


@requirement("SHTTP-47", "SHTTP-51")
def test_a_stream_may_be_left_before_anything_was_said(
    server: Server, core: Endpoint, stage: Stage
) -> None:
    @server.tool
    def gone(ctx: Context) -> str:
        return f"{ctx.close_stream(0.1)} {ctx.close_stream(0.1)}"

    client = Shaken(core)
    response = client.request("tools/call", {"name": "gone"})
    (event,) = response.events
    assert event.data == "" and b"retry: 100\n" in response.body and response.ended
    answer = serve(core, client.get(Last_Event_ID=event.id)).messages
    assert answer[0]["result"]["content"][0]["text"] == "True True"


def test_the_rest_of_a_call_can_be_resumed_without_other_streams(
    server: Server, stage: Stage
) -> None:
    core = core_of(server, max_streams=0)
    client = Shaken(core)
    held = held_stream(client, stage)
    rest = listening(client, Last_Event_ID=held.writer.events[-1].id)
    assert rest.writer.status == 200, rest.writer.body
    stage.go.set()
    answer = rest.finished().messages[-1]
    assert answer["result"]["content"][0]["text"] == "released: True"
    assert serve(core, client.get()).status == 405


@requirement("SHTTP-53")
def test_the_stream_of_the_session_resumes_too(server: Server, core: Endpoint) -> None:
    client = Shaken(core)
    first = listening(client)
    server.remove_tool("add")
    first.writer.wait_for(lambda: first.writer.messages)
    last = first.writer.events[-1].id
    taken_over = listening(
        client, Last_Event_ID=last
    )  # though the server believes that the first is there
    assert first.finished().ended
    server.remove_tool("count")
    taken_over.writer.wait_for(lambda: taken_over.writer.messages)
    taken_over.writer.lose()
    taken_over.finished()
    third = listening(client, Last_Event_ID=last)
    third.writer.wait_for(lambda: third.writer.messages)
    assert third.writer.messages == taken_over.writer.messages
    client.delete()
    third.finished()


@requirement("SHTTP-46", "SHTTP-55")
def test_ids_of_others_and_unknown_ids_are_refused(core: Endpoint) -> None:
    client, other = Shaken(core), Shaken(core)
    last = client.request("tools/call", called("count", **PROGRESS)).events[0].id
    stream = last.split("/")[0]
    assert serve(core, other.get(Last_Event_ID=last)).status == 400
    for id in (
        "",
        "x",
        "0/0",
        stream,
        f"{stream}/99",
        f"{stream}9/0",
        "9" * 60_000,
        f"{stream}/-1",
    ):
        response = serve(core, client.get(Last_Event_ID=id))
        assert response.status == 400, id
        assert "event_store" in response.json["error"]["message"]


@requirement("X-22")
def test_without_a_store_events_have_no_ids(server: Server, stage: Stage) -> None:
    core = core_of(server, event_store=False)
    client = Shaken(core)
    stage.go.set()
    response = client.request("tools/call", called("polled", **PROGRESS))
    assert (
        b"id:" not in response.body
        and response.messages[-1]["result"]["content"][0]["text"] == "released: False"
    )
    assert serve(core, client.get(Last_Event_ID="0a.1/1")).status == 400
    stream = listening(client)
    assert stream.writer.body == b""
    client.delete()
    stream.finished()


@for_each(("size", "count"), [(10, 1000), (1, 1000), (100, 5)])
def test_events_for_other_clients_do_not_evict_those_of_a_client(size: int, count: int) -> None:
    store = EventStore(max_events=100, max_bytes=800)
    for number in range(1, 4):
        store.add("victim.1", number, b"answer")
    for number in range(count):
        store.add(f"other.{number}", 1, b"x" * size)
    assert store.after("victim.1", 0) == [(number, b"answer") for number in range(1, 4)]
    others = [store.after(f"other.{number}", 0) or [] for number in range(count)]
    kept = [data for events in others for _, data in events]
    assert 0 < len(kept) <= 97
    assert sum(map(len, kept)) <= 800 - 3 * len(b"answer")


def test_a_full_store_evicts_events_of_the_client_with_the_most() -> None:
    store = EventStore(max_events=100)
    store.add("early.1", 1, b"answer")
    for number in range(1, 100):
        store.add("greedy.1", number, b"x")
    for number in range(1, 4):
        store.add("late.1", number, b"answer")
    assert store.after("early.1", 0) == [(1, b"answer")]
    assert store.after("late.1", 0) == [(number, b"answer") for number in range(1, 4)]
    assert store.after("greedy.1", 2) is None and store.after("greedy.1", 3) is not None


def test_a_store_of_events_is_bounded_and_forgets_sessions_that_end(server: Server) -> None:
    store = EventStore(max_events=100, max_bytes=80)
    store.add("c.1", 1, b"x" * 11)  # above an eighth
    assert store.after("c.1", 0) is None
    for number in range(1, 11):
        store.add("a.1", number, b"x" * 10)
    assert store.after("a.1", 3) == [(number, b"x" * 10) for number in range(4, 11)][-8 + 1 :]
    assert (
        store.after("a.1", 1) is None
        and store.after("b.1", 1) is None
        and store.after("a.1", 11) is None
    )
    store.add("a.2", 1, b"y")
    store.add("a.1", 11, b"x" * 100)  # no stream can resume after an event that is not kept
    assert (
        store.after("a.1", 9) is None
        and store.after("a.1", 10) is None
        and store.after("a.2", 0) is not None
    )
    store.add("a.1", 12, b"z")
    assert store.after("a.1", 11) == [(12, b"z")]
    store.forget("a")
    assert store.after("a.1", 11) is None and repr(store) == "<EventStore 0 events, 0 bytes>"
    core = core_of(server, event_store=EventStore(max_events=2))
    client = Shaken(core)
    events = client.request("tools/call", called("count", **PROGRESS)).events
    assert serve(core, client.get(Last_Event_ID=events[0].id)).status == 400
    assert len(serve(core, client.get(Last_Event_ID=events[2].id)).messages) == 2
    client.delete()
    assert "EventStore 0 events" in repr(core.store)
    core.close()
    core.renew_in_fork()  # as in a forked process
    assert client.request("ping").status == 404 and "0 sessions" in repr(core)
    for limits in ({"max_events": 0}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match="at least"):
            EventStore(**limits)


def test_events_are_kept_in_the_store_of_the_server(tmp_path: Path) -> None:
    kept = SqliteStore(tmp_path / "events.db")
    server = stage_server(Stage(), store=kept)
    core = core_of(server)
    client = Shaken(core)
    events = client.request("tools/call", called("count", **PROGRESS)).events
    (stream,) = kept.list(f"/{server.name}/stream/")
    assert len(kept.read(stream.key)) == len(events) - 1, "all but the one that has only an id"
    resumed = serve(core, client.get(Last_Event_ID=events[1].id))
    assert [each.id for each in resumed.events] == [each.id for each in events[2:]]
    client.delete()
    assert serve(core, client.get(Last_Event_ID=events[1].id)).status == 404
    core.close()
    server.close()
    assert eventually(lambda: not config_of(server).processes.is_alive("x"))
    kept.close()


def test_streams_of_one_session_may_take_pending_messages_at_the_same_time(
    server: Server, core: Endpoint
) -> None:
    class Raced(list):  # type: ignore[type-arg]
        """A list of streams. The previous stream takes the first message just before the next
        stream does."""

        taken = False

        def pop(self, place: Any = -1) -> Any:
            if not self.taken:
                self.taken = True
                super().pop(place)()
            return super().pop(place)

    client = Shaken(core)
    (session,) = core.sessions.values()
    session.pending = Raced()
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    server.add_tool(lambda: 1, name="one", description="One more.")
    assert eventually(lambda: session.pending.taken and not session.pending)
    server.add_tool(lambda: 2, name="two", description="One more.")
    stream.writer.wait_for(lambda: stream.writer.messages)
    client.delete()
    stream.finished()


def test_a_stream_may_end_as_its_connection_leaves(core: Endpoint) -> None:
    client, connection = Shaken(core), Recording()
    (session,) = core.sessions.values()
    assert session.peer is not None
    looks = [connection, connection]  # one to write what is pending, one to end the response

    class Leaving(EventStream):
        @property
        def writer(self) -> Any:
            return looks.pop() if looks else None

        @writer.setter
        def writer(self, writer: Any) -> None:
            """A clock that the test sets."""

    stream = Leaving(core, session, session.peer.revision, connection, pending=session.pending)
    stream.finish()
    assert stream.done and connection.ended
    assert client.delete().status == 200
