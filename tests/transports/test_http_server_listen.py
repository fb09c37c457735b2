"""The HTTP server without sockets: GET, the events that are kept, and clients that come back for them."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from minimcp import Context, EventStore, Server
from minimcp.http.endpoint import Endpoint

from ..support import WAIT, eventually
from .http_app import Served, Shaken, Stage, core_of, serve, stage_server

requirement = pytest.mark.requirement

PROGRESS = {"_meta": {"progressToken": 1}}


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


def called(name: str) -> Any:
    return {"name": name, "arguments": {}, **PROGRESS}


def held_stream(client: Shaken, stage: Stage) -> Served:
    """A call with one report of progress out, and its handler waiting."""
    held = client.begin("tools/call", called("polled"))
    assert stage.entered.wait(WAIT)
    return held


def listening(client: Shaken, **headers: str) -> Served:
    found = client.listen(**headers)
    found.writer.wait_for(lambda: found.writer.status)
    return found


@requirement("SHTTP-32", "SHTTP-33", "M:VER-S15")
def test_what_belongs_to_no_request_comes_on_the_stream_of_the_session(server: Server, core: Endpoint) -> None:
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
        "notifications/tools/list_changed", "notifications/resources/updated",
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


@pytest.mark.parametrize(("accept", "status"), [("application/json", 406), ("text/*", 200)])
def test_a_get_wants_events(core: Endpoint, accept: str, status: int) -> None:
    client = Shaken(core)
    stream = client.listen(Accept=accept)
    stream.writer.wait_for(lambda: stream.writer.status)
    client.delete()
    assert stream.finished().status == status


@requirement("SHTTP-32")
def test_where_streams_are_off_get_is_not_served(server: Server) -> None:
    for core, options in ((core_of(server, max_streams=0), {}), (core_of(server), {"streams": False})):
        client = Shaken(core)
        response = serve(core, client.get(), **options)
        assert response.status == 405 and response.headers["Allow"] == "POST, DELETE"


def test_a_stream_that_ends_with_its_session_is_forgotten(server: Server) -> None:
    core = core_of(server)
    for leaves in (False, True):
        client = Shaken(core)
        stream = listening(client)
        assert eventually(lambda: list(core._open))  # it has begun before it is followed
        if leaves:
            stream.writer.lose()
        client.delete()
        stream.finished()
        assert not list(core._open)


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
    streams = [each.request("tools/call", called("count")).events for each in (client, client, other)]
    ids = [event.id for events in streams for event in events]
    assert len(set(ids)) == len(ids) == 15
    assert all(len({event.id.split("/")[0] for event in events}) == 1 for events in streams)
    assert streams[0][0].data == "" and streams[0][0].id.endswith("/0")


@requirement("SHTTP-54")
@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_older_clients_get_no_empty_event_and_are_never_let_go(core: Endpoint, stage: Stage, revision: str) -> None:
    client = Shaken(core, revision=revision)
    held = held_stream(client, stage)
    stage.go.set()
    events = held.finished().events
    assert all(event.data for event in events) and all(event.id for event in events)
    assert held.writer.messages[-1]["result"]["content"][0]["text"] == "released: False"


@requirement("SHTTP-21", "SHTTP-45")
def test_a_lost_stream_goes_on_where_it_was(core: Endpoint, stage: Stage) -> None:
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
def test_a_handler_lets_the_client_go_and_it_comes_back(core: Endpoint, stage: Stage) -> None:
    client = Shaken(core)
    held = held_stream(client, stage)
    assert held.writer.ended and b"retry: 500\n\n" in held.writer.body
    assert len(held.writer.messages) == 1
    resumed = listening(client, Last_Event_ID=held.writer.events[-1].id)
    stage.go.set()
    assert resumed.finished().messages[-1]["result"]["content"][0]["text"] == "released: True"
    held.finished()


@requirement("SHTTP-47", "SHTTP-51")
def test_a_stream_may_be_left_before_anything_was_said(server: Server, core: Endpoint, stage: Stage) -> None:
    @server.tool
    def gone(ctx: Context) -> str:
        return f"{ctx.close_stream(0.1)} {ctx.close_stream(0.1)}"

    client = Shaken(core)
    response = client.request("tools/call", {"name": "gone"})
    (event,) = response.events
    assert event.data == "" and b"retry: 100\n" in response.body and response.ended
    answer = serve(core, client.get(Last_Event_ID=event.id)).messages
    assert answer[0]["result"]["content"][0]["text"] == "True True"


def test_the_rest_of_a_call_is_to_be_had_where_there_are_no_other_streams(server: Server, stage: Stage) -> None:
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
def test_the_stream_of_the_session_goes_on_too(server: Server, core: Endpoint) -> None:
    client = Shaken(core)
    first = listening(client)
    server.remove_tool("add")
    first.writer.wait_for(lambda: first.writer.messages)
    last = first.writer.events[-1].id
    taken_over = listening(client, Last_Event_ID=last)  # though the server believes that the first is there
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
    last = client.request("tools/call", called("count")).events[0].id
    stream = last.split("/")[0]
    assert serve(core, other.get(Last_Event_ID=last)).status == 400
    for id in ("", "x", "0/0", stream, f"{stream}/99", f"{stream}9/0", "9" * 60_000, f"{stream}/-1"):
        response = serve(core, client.get(Last_Event_ID=id))
        assert response.status == 400, id
        assert "event_store" in response.json["error"]["message"]


@requirement("X-22")
def test_without_a_store_there_are_no_ids(server: Server, stage: Stage) -> None:
    core = core_of(server, event_store=False)
    client = Shaken(core)
    stage.go.set()
    response = client.request("tools/call", called("polled"))
    assert b"id:" not in response.body and response.messages[-1]["result"]["content"][0]["text"] == "released: False"
    assert serve(core, client.get(Last_Event_ID="0a.1/1")).status == 400
    stream = listening(client)
    assert stream.writer.body == b""
    client.delete()
    stream.finished()


def test_a_store_of_events_is_bounded_and_forgets_sessions_that_end(server: Server) -> None:
    store = EventStore(max_events=100, max_bytes=50)
    for number in range(1, 11):
        store.add("a.1", number, b"x" * 10)
    assert store.after("a.1", 5) == [(number, b"x" * 10) for number in range(6, 11)]
    assert store.after("a.1", 4) is None and store.after("b.1", 1) is None and store.after("a.1", 11) is None
    store.add("b.1", 1, b"x" * 100)
    assert store.after("a.1", 9) is None and store.after("b.1", 0) is None
    store.add("b.1", 2, b"y")
    store.forget("b")
    assert store.after("b.1", 1) is None and repr(store) == "<EventStore 0 events, 0 bytes>"
    core = core_of(server, event_store=EventStore(max_events=2))
    client = Shaken(core)
    events = client.request("tools/call", called("count")).events
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
