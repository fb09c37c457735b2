"""Sessions that several processes share: here several servers of one process, each with a store of
its own that they share; tests/hosts/shared.py does the same with processes."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

from minimcp import (
    Bearer,
    Context,
    HttpOptions,
    MemoryStore,
    RedisStore,
    Server,
    SqliteStore,
    Store,
)
from minimcp.http import endpoint as endpoints
from minimcp.http.endpoint import Endpoint
from minimcp.http.headers import HttpRequest
from minimcp.http.sessions import SessionStore
from minimcp.protocol.lifecycle import Peer
from minimcp.stores import processes
from minimcp.stores.base import Entry, StoreUnavailable
from minimcp.stores.sessions import SharedSession, SharedSessions

from ..inside import config_of, incoming_of, stop_hearing, token_checks
from ..redis_server import RedisServer, redis_server
from ..scripted import Task
from ..support import WAIT, around, eventually
from .http_app import (
    NEWEST,
    POST_HEADERS,
    Recording,
    Served,
    Shaken,
    alone,
    call,
    core_of,
    message,
    post,
    serve,
)

requirement = pytest.mark.requirement

PROGRESS = {"_meta": {"progressToken": 1}}


class SharedMemory(MemoryStore):
    """A store in memory that claims to be shared."""

    shared = True


class Site:
    """Servers that share a store."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self.open_store = open_store
        self.go = threading.Event()
        self.begun = threading.Event()
        self.cancelled = threading.Event()
        self.servers: List[Server] = []
        self.cores: List[Endpoint] = []
        self.made: List[Endpoint] = []

    def add(self, **options: Any) -> Endpoint:
        """One more process."""
        store = self.open_store()
        server = Server(
            "site", store=store, http=HttpOptions(keepalive=1, health="/healthz"), **options
        )
        self.servers.append(server)
        self.cores.append(core_of(server))
        self.made.append(self.cores[-1])

        @server.tool
        def count(ctx: Context) -> int:
            """Count the calls of a session."""
            assert ctx.session is not None
            ctx.session["calls"] = ctx.session.get("calls", 0) + 1
            return int(ctx.session["calls"])

        @server.tool
        def keep(kind: str, ctx: Context) -> str:
            """Keep what cannot be kept."""
            assert ctx.session is not None
            ctx.session["it"] = object() if kind == "object" else "x" * 2_000_000
            return "kept"

        @server.tool
        def ask(ctx: Context) -> str:
            """Ask for a name."""
            return str(ctx.elicit("Who?", {"name": str}).require()["name"])

        @server.tool
        def hold(ctx: Context) -> str:
            """Report progress, and continue when the test allows it or the client has cancelled."""
            ctx.progress(1)
            ctx.on_cancel(self.cancelled.set)
            self.begun.set()
            while not self.go.wait(0.01):
                ctx.check()
            ctx.progress(2)
            return "held"

        @server.tool
        def name(ctx: Context) -> str:
            """The log level that the client wants, and what it is called."""
            info = ctx.client.info
            return f"{incoming_of(ctx).peer.log_rank} {info.name if info else None}"

        @server.resource("notes://one")
        def one() -> str:
            """A note."""
            return "1"

        return self.cores[-1]

    def kill(self, core: Endpoint) -> None:
        """Make a process look killed: it no longer reports that it runs, and other processes cannot
        reach it."""
        place = self.cores.index(core)
        shared = core.session_store
        assert shared is not None
        store = shared.processes.store
        stop_hearing(shared.processes)
        assert eventually(lambda: store.get(mailbox_of(shared.processes)) is None)
        self.cores.pop(place)


def mailbox_of(one: processes.Processes) -> str:
    """Return the key of the messages for this process."""
    return one.key("process", one.id)


def has_told_all(server: Server) -> bool:
    """Return whether the messages of a process have arrived where the others read them."""
    return not config_of(server).processes.now(0)[1]


def hears_late(
    monkeypatch: pytest.MonkeyPatch, until: threading.Event, *late: processes.Processes
) -> None:
    """Let the listening threads of processes (without any: of all) start when the test allows it."""
    hold = processes.Processes.hold

    def held(self: processes.Processes) -> None:
        in_thread = threading.current_thread().name == "minimcp-processes"
        if in_thread and (not late or self in late):
            until.wait(WAIT)
        hold(self)

    monkeypatch.setattr(processes.Processes, "hold", held)


def subscribed(core: Endpoint) -> List[str]:
    """The resources that the sessions of a process have subscribed to."""
    found = (
        core.session_store.subscriptions.uris(session.peer)
        for session in list(core.sessions.values())
    )
    return [uri for uris in found for uri in uris]


def open_stores(kind: str, folder: Path, redis: Callable[[], RedisServer]) -> Callable[[], Store]:
    if kind == "memory":
        store = SharedMemory()
        return lambda: store
    if kind == "sqlite":
        return lambda: SqliteStore(folder / "site.db")
    server = redis()
    return lambda: RedisStore(server.url)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    made = Site(open_stores(request.param, tmp_path, lambda: request.getfixturevalue("redis")))
    yield from closing(made)


@pytest.fixture
def far(redis: RedisServer) -> Iterator[Site]:
    """With Redis alone."""
    yield from closing(Site(lambda: RedisStore(redis.url)))


def closing(site: Site) -> Iterator[Site]:
    for _ in range(3):
        site.add()
    yield site
    site.go.set()
    for core, server in zip(site.made, site.servers):
        core.close()
        server.close()
        close = getattr(config_of(server).store, "close", None)
        if close is not None:
            close()


class Roaming(Shaken):
    """A client that sends each request to the next process."""

    def __init__(self, cores: List[Endpoint], **capabilities: Any) -> None:
        self._cores = itertools.cycle(cores)
        super().__init__(cores[0], **capabilities)

    @property
    def core(self) -> Endpoint:
        return next(self._cores)

    @core.setter
    def core(self, core: Endpoint) -> None:
        """Ignored, because each request chooses a process."""

    def at(self, core: Endpoint) -> Shaken:
        """The same client, at one process."""
        other = Shaken.__new__(Shaken)
        other.core, other.headers = core, self.headers
        return other


def text_of(response: Recording) -> str:
    answer = (
        response.messages[-1] if response.streamed else response.answer
    )  # a slow one is a stream
    return str(answer["result"]["content"][0]["text"])


@requirement("SHTTP-60")
def test_any_process_takes_any_request_of_a_session(site: Site) -> None:
    client = Roaming(site.cores)
    counted = [text_of(client.request("tools/call", {"name": "count"})) for _ in range(7)]
    assert counted == [str(number) for number in range(1, 8)]
    assert client.request("logging/setLevel", {"level": "error"}).answer["result"] == {}
    assert [text_of(client.request("tools/call", {"name": "name"})) for _ in range(3)] == [
        "4 test"
    ] * 3
    assert client.delete().status == 200
    assert [client.request("ping").status for _ in range(3)] == [404] * 3


def test_a_session_opened_before_a_process_began_is_served_by_that(site: Site) -> None:
    client = Roaming(site.cores)
    assert text_of(client.request("tools/call", {"name": "count"})) == "1"
    assert text_of(client.at(site.add()).request("tools/call", {"name": "count"})) == "2"


def test_an_answer_reaches_the_process_that_has_asked(site: Site) -> None:
    client = Roaming(site.cores, elicitation={})
    asked = client.at(site.cores[0]).begin("tools/call", {"name": "ask"})
    asked.writer.wait_for(lambda: asked.writer.messages)
    id = asked.writer.messages[-1]["id"]
    answer = {
        "jsonrpc": "2.0",
        "id": id,
        "result": {"action": "accept", "content": {"name": "Ada"}},
    }
    assert client.at(site.cores[1]).send(answer).status == 202
    assert asked.finished().messages[-1]["result"]["content"][0]["text"] == "Ada"
    assert client.at(site.cores[2]).send(answer).status == 202, "a second one is for nobody"


def test_a_response_of_another_session_or_for_no_process_is_ignored(site: Site) -> None:
    client, other = Roaming(site.cores, elicitation={}), Roaming(site.cores, elicitation={})
    asked = client.at(site.cores[0]).begin("tools/call", {"name": "ask"})
    asked.writer.wait_for(lambda: asked.writer.messages)
    id = asked.writer.messages[-1]["id"]
    wrong = {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"name": "Eve"}}}
    right = {"jsonrpc": "2.0", "id": id, "result": {"action": "accept", "content": {"name": "Ada"}}}
    assert other.at(site.cores[1]).send(wrong).status == 202
    store = config_of(site.servers[0]).store
    before = len(store.list("/site/process/"))
    for nobody in ("0123456789abcdef-1", "../session/x-1", "x", 7):
        assert (
            client.at(site.cores[1]).send({"jsonrpc": "2.0", "id": nobody, "result": {}}).status
            == 202
        )
    assert len(store.list("/site/process/")) == before, (
        "nothing is kept for a process that there is not"
    )
    assert client.at(site.cores[1]).send(right).status == 202
    assert asked.finished().messages[-1]["result"]["content"][0]["text"] == "Ada"


def test_a_cancellation_reaches_the_process_that_runs_the_request(site: Site) -> None:
    client = Roaming(site.cores)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold"}, id="h")
    assert site.begun.wait(WAIT)
    told = message("notifications/cancelled", {"requestId": "h"}, id=None)
    assert client.at(site.cores[1]).send(told).status == 202
    assert site.cancelled.wait(WAIT)
    assert not held.finished().messages


def test_a_cancellation_reaches_a_process_that_has_just_started_listening(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    hears_late(monkeypatch, told, config_of(site.servers[0]).processes)
    client = Roaming(site.cores)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold"}, id="h")
    assert site.begun.wait(WAIT)
    cancellation = message("notifications/cancelled", {"requestId": "h"}, id=None)
    assert client.at(site.cores[1]).send(cancellation).status == 202
    assert eventually(lambda: has_told_all(site.servers[1]))
    told.set()
    assert site.cancelled.wait(WAIT)
    assert not held.finished().messages


def test_the_end_of_a_session_reaches_the_process_that_serves_it(site: Site) -> None:
    client = Roaming(site.cores)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold"})
    assert site.begun.wait(WAIT)
    assert client.at(site.cores[1]).delete().status == 200
    assert site.cancelled.wait(WAIT)
    held.finished()
    assert eventually(lambda: not site.cores[0].sessions)


def test_changes_reach_the_streams_of_all_processes(site: Site) -> None:
    filter = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["notes://one"]}}
    listening = Served(site.cores[0], alone("subscriptions/listen", filter))
    listening.writer.wait_for(lambda: listening.writer.messages)
    client = Roaming(site.cores)
    stream = client.at(site.cores[1]).listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    assert (
        client.at(site.cores[2])
        .request("resources/subscribe", {"uri": "notes://one"})
        .answer["result"]
        == {}
    )
    assert eventually(lambda: subscribed(site.cores[1])), "the one that has the stream"
    site.servers[2].resource_updated("notes://one")
    site.servers[2].add_tool(lambda: 1, name="more", description="One more.")
    methods = {"notifications/resources/updated", "notifications/tools/list_changed"}
    for writer in (listening.writer, stream.writer):
        writer.wait_for(
            lambda writer=writer: methods <= {each["method"] for each in writer.messages}
        )
    assert (
        client.at(site.cores[0])
        .request("resources/unsubscribe", {"uri": "notes://one"})
        .answer["result"]
        == {}
    )
    assert eventually(lambda: not subscribed(site.cores[1]))
    heard = len(stream.writer.messages)
    site.servers[2].resource_updated("notes://one")
    site.servers[2].remove_tool("more")
    stream.writer.wait_for(lambda: len(stream.writer.messages) > heard)
    assert stream.writer.messages[heard]["method"] == "notifications/tools/list_changed"
    assert client.delete().status == 200
    stream.finished()
    listening.writer.lose()
    listening.finished()


def test_changes_reach_listeners_without_sessions(site: Site) -> None:
    assert serve(site.cores[2], alone("tools/list")).status == 200
    filter = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["notes://one"]}}
    listening = Served(site.cores[0], alone("subscriptions/listen", filter))
    listening.writer.wait_for(lambda: listening.writer.messages)
    site.servers[2].resource_updated("notes://one")
    site.servers[2].add_tool(lambda: 1, name="more", description="One more.")
    methods = {"notifications/resources/updated", "notifications/tools/list_changed"}
    listening.writer.wait_for(
        lambda: methods <= {each["method"] for each in listening.writer.messages}
    )
    listening.writer.lose()
    listening.finished()


@pytest.mark.redis
def test_a_listener_during_an_outage_of_redis_is_served(
    far: Site, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    redis.stop()
    filter = {"notifications": {"resourceSubscriptions": ["notes://one"]}}
    listening = Served(far.cores[0], alone("subscriptions/listen", filter))
    listening.writer.wait_for(lambda: listening.writer.messages)
    assert "messages of other processes may be missed" in caplog.text
    redis.start()
    processes = config_of(far.servers[0]).processes
    assert processes is not None
    assert eventually(lambda: processes.log_position), "it is back"
    far.servers[1].resource_updated("notes://one")
    listening.writer.wait_for(lambda: len(listening.writer.messages) > 1)
    listening.writer.lose()
    listening.finished()


def test_changes_without_a_stream_are_sent_on_the_next_one(site: Site) -> None:
    client = Roaming(site.cores)
    assert client.request("resources/subscribe", {"uri": "notes://one"}).answer["result"] == {}
    site.servers[2].resource_updated("notes://one")
    site.servers[2].resource_updated("notes://two")
    assert eventually(lambda: has_told_all(site.servers[2]))
    first = client.at(site.cores[0]).listen()
    first.writer.wait_for(lambda: first.writer.messages)
    assert [each["params"]["uri"] for each in first.writer.messages] == ["notes://one"]
    second = client.at(site.cores[1]).listen()
    first.finished()  # another process has it now
    second.writer.wait_for(lambda: second.writer.streamed)
    site.servers[2].resource_updated("notes://one")
    second.writer.wait_for(lambda: second.writer.messages)
    assert len(second.writer.messages) == 1 == len(first.writer.messages), "nothing is told twice"
    client.delete()
    second.finished()


def uris(stream: Any) -> List[str]:
    """Return the resources whose changes a stream has reported."""
    return [each["params"]["uri"] for each in stream.writer.messages]


def test_a_change_that_is_read_late_is_sent_on_one_stream_only(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that reads the log of changes has read nothing yet as the first stream opens."""
    may_read, slow = threading.Event(), config_of(site.servers[0]).processes
    read = slow.store.read

    def late(key: str, *arguments: Any, **options: Any) -> Any:
        if key == mailbox_of(slow):
            may_read.wait(WAIT)
        return read(key, *arguments, **options)

    roaming = Roaming(site.cores)
    client = roaming.at(site.cores[0])
    for uri in ("notes://one", "notes://two"):
        client.request("resources/subscribe", {"uri": uri})
    monkeypatch.setattr(slow.store, "read", late)
    site.servers[2].resource_updated("notes://one")
    assert eventually(lambda: has_told_all(site.servers[2]))
    first = client.listen()
    first.writer.wait_for(lambda: first.writer.messages)
    may_read.set()
    assert eventually(lambda: slow.log_position == slow.newest())
    second = roaming.at(site.cores[1]).listen()
    first.finished()
    second.writer.wait_for(lambda: second.writer.streamed)
    site.servers[2].resource_updated("notes://two")
    second.writer.wait_for(lambda: second.writer.messages)
    assert (uris(first), uris(second)) == (["notes://one"], ["notes://two"])
    client.delete()
    second.finished()


def test_a_sent_change_is_not_sent_again_by_the_process_that_takes_the_stream(
    site: Site,
) -> None:
    roaming = Roaming(site.cores)
    for uri in ("notes://one", "notes://two"):
        roaming.request("resources/subscribe", {"uri": uri})
    first = roaming.at(site.cores[0]).listen()
    first.writer.wait_for(lambda: first.writer.streamed)
    site.servers[2].resource_updated("notes://one")
    first.writer.wait_for(lambda: first.writer.messages)
    second = roaming.at(site.cores[1]).listen()  # without the id of an event
    first.finished()
    second.writer.wait_for(lambda: second.writer.streamed)
    site.servers[2].resource_updated("notes://two")
    second.writer.wait_for(lambda: "notes://two" in uris(second))
    assert (uris(first), uris(second)) == (["notes://one"], ["notes://two"])
    roaming.delete()
    second.finished()


def test_a_position_that_is_read_during_a_change_is_after_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of an event that is written at once shows that its change was sent."""
    positions: List[Any] = []
    post = SharedSession.post

    def posted(self: SharedSession, line: Any) -> None:
        post(self, line)
        if self.unsolicited is not None:
            positions.append(Task(self.position))
            # Wait until this change was sent. Otherwise this would return at once.
            positions[0].thread.join(0.5)

    monkeypatch.setattr(SharedSession, "post", posted)
    client = Roaming(site.cores).at(site.cores[0])
    client.request("resources/subscribe", {"uri": "notes://one"})
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    (session,) = site.cores[0].sessions.values()
    assert isinstance(session, SharedSession)
    before = session.position()
    site.servers[1].resource_updated("notes://one")
    assert eventually(lambda: positions)
    assert positions[0].result() == session.position() > before
    client.delete()
    stream.finished()


@pytest.mark.parametrize("when", ["before", "behind", "here"])
def test_a_change_at_the_moment_a_stream_opens_is_sent_on_it_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """A change of another process is forwarded while the stream is open, before or after it has
    caught up. A change of this process ("here") is sent at once."""
    changing = site.servers[0 if when == "here" else 1]
    heard, opened, hear = (
        threading.Event(),
        threading.Event(),
        site.cores[0].session_store.subscriptions.receive,
    )
    client = Roaming(site.cores).at(site.cores[0])
    for uri in ("notes://one", "notes://two"):
        client.request("resources/subscribe", {"uri": uri})
    take = SharedSessions.take_stream

    def taken(self: SharedSessions, *arguments: Any) -> None:
        if when != "behind":
            changing.resource_updated("notes://one")
            assert when == "here" or heard.wait(WAIT)
        take(self, *arguments)

    def held(told: processes.Message) -> None:
        if when != "behind":
            hear(told)
            heard.set()
        else:
            heard.set()
            opened.wait(WAIT)
            hear(told)

    monkeypatch.setattr(SharedSessions, "take_stream", taken)
    monkeypatch.setattr(site.cores[0].session_store.subscriptions, "receive", held)
    if when == "behind":
        changing.resource_updated("notes://one")
        assert heard.wait(WAIT)
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.messages)
    opened.set()
    changing.resource_updated("notes://two")
    stream.writer.wait_for(lambda: "notes://two" in uris(stream))
    assert uris(stream) == ["notes://one", "notes://two"]
    client.delete()
    stream.finished()


def test_a_change_that_a_process_reports_as_a_stream_opens_there_is_sent_on_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()
    hears_late(monkeypatch, told)
    client = Roaming(site.cores).at(site.cores[0])
    client.request("resources/subscribe", {"uri": "notes://one"})
    site.servers[0].resource_updated(
        "notes://one"
    )  # which waits for the thread that writes to the log
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.messages)
    told.set()
    client.delete()
    stream.finished()


def test_a_change_that_is_being_read_as_a_stream_opens_is_sent_on_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, opened, hear = (
        threading.Event(),
        threading.Event(),
        site.cores[0].session_store.subscriptions.receive,
    )
    client = Roaming(site.cores).at(site.cores[0])
    client.request("resources/subscribe", {"uri": "notes://one"})

    def held(told: processes.Message) -> None:
        hear(told)
        heard.set()
        opened.wait(WAIT)

    monkeypatch.setattr(site.cores[0].session_store.subscriptions, "receive", held)
    site.servers[1].resource_updated("notes://one")
    assert heard.wait(WAIT)
    stream = client.listen()  # there was none yet, and the log has not been told here so far
    stream.writer.wait_for(lambda: stream.writer.messages)
    opened.set()
    client.delete()
    stream.finished()


def test_a_stream_of_unsolicited_messages_resumes_at_another_process(site: Site) -> None:
    client = Roaming(site.cores)
    client.request("resources/subscribe", {"uri": "notes://one"})
    first = client.at(site.cores[0]).listen()
    first.writer.wait_for(lambda: first.writer.events)
    site.servers[1].resource_updated("notes://one")
    first.writer.wait_for(lambda: first.writer.messages)
    first.writer.lose()
    first.finished()
    site.kill(site.cores[0])
    site.servers[1].resource_updated("notes://one")
    assert eventually(lambda: has_told_all(site.servers[1]))
    again = client.at(site.cores[0]).listen(Last_Event_ID=first.writer.events[-1].id)
    again.writer.wait_for(lambda: again.writer.messages)
    assert [each["params"]["uri"] for each in again.writer.messages] == ["notes://one"], (
        "what came meanwhile"
    )
    assert [each.id.partition("/")[2] for each in again.writer.events if each.data] == ["2"]
    client.at(site.cores[1]).delete()
    again.finished()


def test_a_stream_resumed_on_another_connection_counts_as_open(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old connection leaves after the new one has arrived, and is the last one of its thread."""
    resumed, leave, writers = threading.Event(), SharedSessions.leave_stream, []

    def late(self: SharedSessions, session: SharedSession, *writer: Any) -> None:
        writers.append(writer)
        if len(writers) == 1:
            resumed.wait(WAIT)
        leave(self, session, *writer)

    monkeypatch.setattr(SharedSessions, "leave_stream", late)
    client = Roaming(site.cores)
    first = client.at(site.cores[0]).listen()
    first.writer.wait_for(lambda: first.writer.events)
    first.writer.lose()
    again = client.at(site.cores[0]).listen(Last_Event_ID=first.writer.events[-1].id)
    again.writer.wait_for(lambda: again.writer.streamed)
    resumed.set()
    first.finished()
    assert (
        client.at(site.cores[1])
        .request("resources/subscribe", {"uri": "notes://one"})
        .answer["result"]
        == {}
    )
    assert eventually(lambda: subscribed(site.cores[0]))
    client.delete()
    again.finished()


@requirement("SHTTP-43", "SHTTP-44")
def test_a_call_resumes_at_another_process_by_the_id_of_its_last_event(site: Site) -> None:
    client = Roaming(site.cores)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold", **PROGRESS})
    held.writer.wait_for(lambda: held.writer.messages)
    last = held.writer.events[-1].id
    held.writer.lose()
    again = client.at(site.cores[1]).listen(Last_Event_ID=last)
    again.writer.wait_for(lambda: again.writer.streamed)
    site.go.set()
    came = again.finished().messages
    assert [each.get("method", "answer") for each in came] == ["notifications/progress", "answer"]
    assert came[-1]["result"]["content"][0]["text"] == "held"
    held.finished()
    late = serve(site.cores[2], client.at(site.cores[2]).get(Last_Event_ID=last))
    assert late.messages == came, "also when it has ended"
    for wrong in (last[:-1] + "9999", "0" * 32 + ".1/1", "x"):
        assert serve(site.cores[2], client.at(site.cores[2]).get(Last_Event_ID=wrong)).status == 400
    other = Roaming(site.cores)
    assert serve(site.cores[2], other.at(site.cores[2]).get(Last_Event_ID=last)).status == 400, (
        "another session's"
    )


def test_a_call_resumed_at_another_process_ends_with_its_token(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream there ends. The call does not, and another token fetches the rest."""
    valid = {"first", "second"}

    def verify(token: str) -> Optional[Dict[str, Any]]:
        return {"sub": "ada", "aud": "test"} if token in valid else None

    monkeypatch.setattr(endpoints, "TOKEN_SECONDS", 0.05)
    cores = [site.add(auth=Bearer(verify, audience="test")) for _ in range(2)]
    monkeypatch.setitem(POST_HEADERS, "Authorization", "Bearer first")
    client = Shaken(cores[0])
    client.headers["Authorization"] = "Bearer first"
    held = client.begin("tools/call", {"name": "hold", **PROGRESS})
    held.writer.wait_for(lambda: held.writer.messages)
    last = held.writer.events[-1].id
    held.writer.lose()
    client.core = cores[1]
    again = client.listen(Last_Event_ID=last)
    again.writer.wait_for(lambda: again.writer.streamed)
    valid.remove("first")
    assert again.finished().messages == []
    assert not token_checks(cores[1])
    client.headers["Authorization"] = "Bearer second"
    site.go.set()
    answer = client.listen(Last_Event_ID=last).finished().messages[-1]
    assert answer["result"]["content"][0]["text"] == "held"
    held.finished()


def test_resuming_a_call_of_a_killed_process_is_an_error(site: Site) -> None:
    client = Roaming(site.cores)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold", **PROGRESS}, id="h")
    held.writer.wait_for(lambda: held.writer.messages)
    last = held.writer.events[-1].id
    held.writer.lose()
    site.kill(site.cores[0])
    again = client.at(site.cores[0]).listen(Last_Event_ID=last).finished()
    (error,) = again.messages
    assert error["id"] == "h" and "has ended" in error["error"]["message"]
    site.go.set()
    held.finished()


def test_a_session_is_only_for_its_principal(site: Site) -> None:
    client = Roaming(site.cores)
    core = site.cores[1]
    stolen = post(message("ping"), client.headers)
    stolen.headers.principal = "eve"
    assert core.session_store is not None
    found = core.session_store.find(client.headers["Mcp-Session-Id"])
    assert found is not None and found.principal is None
    with pytest.raises(Exception, match="the session is unknown or has ended"):
        core.admission.session_of(stolen.headers)
    for key in ("session", "stream", "process"):
        for entry in config_of(site.servers[0]).store.list(f"/site/{key}/"):
            assert client.headers["Mcp-Session-Id"] not in entry.key + entry.value.decode(), (
                "who reads it gets in"
            )


def test_an_invalid_session_in_the_store_is_rejected(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    client = Roaming(site.cores)
    store = config_of(site.servers[0]).store
    (entry,) = store.list("/site/session/")
    good = json.loads(entry.value)
    for wrong in (
        b"",
        b"\x80\x04",
        b"[]",
        b"{}",
        json.dumps({**good, "revision": "x"}).encode(),
        json.dumps({**good, "uris": 1}).encode(),
        json.dumps({**good, "more": 1}).encode(),
    ):
        store.put(entry.key, wrong)
        assert client.request("ping").status == 404
    assert "cannot be read, and is ignored" in caplog.text
    store.put(entry.key, entry.value)
    assert client.request("ping").status == 200


def test_a_replaced_session_record_is_not_overwritten(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A newer version of this library has written the record while this process serves a request."""
    client, look, looked = Shaken(site.cores[0]), SharedSessions.look, list[Any]()
    ((session, store),) = (
        (each, config_of(site.servers[0]).store) for each in site.cores[0].sessions.values()
    )

    def bounded(self: SharedSessions, session: SharedSession) -> bool:
        looked.append(session)
        return len(looked) < 9 and look(self, session)

    monkeypatch.setattr(SharedSessions, "look", bounded)
    session.peer.session_data["key"] = "value"  # type: ignore[union-attr,index]
    store.put(f"/site/session/-:{session.key}", b'{"newer": true}')
    session.before_answer()
    assert len(looked) == 1 and "cannot be read, and is ignored" in caplog.text
    assert client.request("ping").status == 404
    caplog.clear()


@pytest.mark.parametrize("kind", ["object", "long"])
def test_session_data_that_cannot_be_stored_is_logged(
    site: Site, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Roaming(site.cores)
    assert (
        text_of(client.request("tools/call", {"name": "keep", "arguments": {"kind": kind}}))
        == "kept"
    )
    assert "the record of a session was not written" in caplog.text


def test_members_that_two_processes_change_at_once_are_both_kept(site: Site) -> None:
    client = Roaming(site.cores)
    uris = [f"notes://{number}" for number in range(24)]
    threads = [
        threading.Thread(
            target=lambda uri=uri, core=core: client.at(core).request(
                "resources/subscribe", {"uri": uri}
            )
        )
        for uri, core in zip(uris, itertools.cycle(site.cores))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    (entry,) = config_of(site.servers[0]).store.list("/site/session/")
    assert sorted(json.loads(entry.value)["uris"]) == sorted(uris)


def test_changes_of_a_request_survive_a_concurrent_update_of_the_copy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has changed the session, and while this one takes that in, a request here
    changes it as well."""
    here, there = site.cores[:2]
    client = Roaming(site.cores)
    assert client.at(here).request("resources/subscribe", {"uri": "notes://one"}).status == 200
    assert client.at(there).request("resources/subscribe", {"uri": "notes://there"}).status == 200
    uris, meanwhile = (
        here.session_store.subscriptions.uris,
        ["resources/subscribe", "logging/setLevel"],
    )

    def uris_and_more(peer: Peer) -> List[str]:
        subscribed = uris(peer)
        if meanwhile:
            method = meanwhile.pop()
            params = {"level": "error"} if method == "logging/setLevel" else {"uri": "notes://here"}
            client.at(here).request(method, params)
        return subscribed

    monkeypatch.setattr(here.session_store.subscriptions, "uris", uris_and_more)
    assert client.at(here).request("ping").status == 200
    (entry,) = config_of(site.servers[0]).store.list("/site/session/")
    record = json.loads(entry.value)
    assert record["uris"] == ["notes://here", "notes://one", "notes://there"]
    assert record["rank"] == 4


def test_data_of_a_handler_survives_a_concurrent_update_of_the_copy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = site.cores[:2]
    client = Roaming(site.cores)
    assert client.at(here).request("ping").status == client.at(there).request("ping").status == 200
    (session,) = here.sessions.values()
    assert session.peer is not None and session.peer.session_data is not None
    client.at(there).request("tools/call", {"name": "count"})

    def copied(changed: Any) -> Any:
        session.peer.session_data["kept"] = "by a handler"  # type: ignore[union-attr,index]
        return dict(changed)

    monkeypatch.setattr("minimcp.stores.sessions.deepcopy", copied)
    assert client.at(here).request("ping").status == 200
    (entry,) = config_of(site.servers[0]).store.list("/site/session/")
    assert json.loads(entry.value)["session"] == {"calls": 1, "kept": "by a handler"}


def test_no_two_questions_of_a_session_have_one_id(site: Site) -> None:
    core, ids = site.cores[0], list[str]()
    client = Shaken(core, elicitation={})
    for _ in range(2):
        asked = client.begin("tools/call", {"name": "ask"})
        asked.writer.wait_for(lambda: asked.writer.messages)  # noqa: B023
        ids.append(asked.writer.messages[-1]["id"])
        answer = {
            "jsonrpc": "2.0",
            "id": ids[-1],
            "result": {"action": "accept", "content": {"name": "Ada"}},
        }
        assert client.send(answer).status == 202
        asked.finished()
        for session in list(core.sessions.values()):
            core.end_here(session, "others are used more")
    assert ids[0] != ids[1]


def test_a_process_keeps_a_bounded_number_of_copies(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.stores.sessions.UNUSED_SECONDS", -1.0)
    core = site.cores[0]
    core.session_store.max_copies = 4
    clients = [Shaken(core) for _ in range(10)]
    assert len(core.sessions) <= 4
    assert [client.request("ping").status for client in clients] == [200] * 10


def test_all_processes_together_open_max_sessions(site: Site) -> None:
    limited = site.add()
    limited.options = replace(limited.options, max_sessions=4)
    for core in site.cores[:4]:
        Shaken(core)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    refused = serve(limited, post(message("initialize", params)))
    assert is_refused(refused) and "max_sessions" in refused.json["error"]["message"]
    assert len(limited.sessions) == 1, "the rejected one is not kept"


def test_a_copy_that_is_dropped_as_a_request_finds_it_is_loaded_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.stores.sessions.UNUSED_SECONDS", -1.0)
    core, others, refresh = site.cores[0], [Shaken(site.cores[0])], SharedSession.refresh
    client = Shaken(core)
    core.session_store.max_copies = 1

    def refreshed(self: SharedSession, entry: Entry) -> None:
        if others:
            assert others.pop().request("ping").status == 200
        refresh(self, entry)

    monkeypatch.setattr(SharedSession, "refresh", refreshed)
    assert client.request("resources/subscribe", {"uri": "notes://one"}).answer["result"] == {}


def test_a_copy_that_a_request_has_found_is_not_dropped(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, end_here = site.cores[0], Endpoint.end_here
    client, held = Shaken(core), []
    core.session_store.max_copies = 1
    next(iter(core.sessions.values())).used_at -= 2

    def late(self: Endpoint, *arguments: Any) -> None:
        if not held:
            held.append(client.begin("tools/call", {"name": "hold"}))
            assert site.begun.wait(WAIT)
        end_here(self, *arguments)

    monkeypatch.setattr(Endpoint, "end_here", late)
    Shaken(core)
    site.go.set()
    assert text_of(held[0].finished()) == "held"


def test_a_dropped_copy_stays_dropped_when_its_stream_ends(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minimcp.stores.sessions.UNUSED_SECONDS", -1.0)
    core, dropped, leave = site.cores[0], threading.Event(), SharedSessions.leave_stream

    def late(self: SharedSessions, *arguments: Any) -> None:
        dropped.wait(WAIT)
        leave(self, *arguments)

    monkeypatch.setattr(SharedSessions, "leave_stream", late)
    client = Shaken(core)
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    stream.writer.lose()
    core.session_store.max_copies = 1
    Shaken(core)
    dropped.set()
    stream.finished()
    assert client.request("resources/subscribe", {"uri": "notes://one"}).answer["result"] == {}


def test_a_message_for_a_session_waits_until_its_copy_is_complete(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, client, shared = SharedSession.begin, Shaken(site.cores[0]), site.cores[1].session_store

    def told(self: SharedSession, *arguments: Any) -> None:
        assert shared is not None
        shared.receive({"session": self.key})
        begin(self, *arguments)

    monkeypatch.setattr(SharedSession, "begin", told)
    client.core = site.cores[1]
    assert client.request("ping").status == 200


def test_the_second_round_goes_to_another_process(site: Site) -> None:
    """All sign with one key, that they make together."""
    first = serve(site.cores[0], call("ask", capabilities={"elicitation": {}})).answer["result"]
    (key,) = first["inputRequests"]
    params = {
        "name": "ask",
        "arguments": {},
        "requestState": first["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"name": "Ada"}}},
    }
    second = serve(site.cores[1], alone("tools/call", params, capabilities={"elicitation": {}}))
    assert second.answer["result"]["content"][0]["text"] == "Ada"


def test_health_is_reported_for_any_host(site: Site) -> None:
    probe = HttpRequest("GET", "/healthz", {"Host": "10.0.0.7:81"})
    assert (serve(site.cores[0], probe).status, serve(site.cores[0], probe).body) == (200, b"ok\n")
    assert (
        serve(site.cores[0], HttpRequest("POST", "/healthz", {"Host": "localhost"})).status == 404
    )
    site.cores[0].closing = True
    assert (serve(site.cores[0], probe).status, serve(site.cores[0], probe).body) == (
        503,
        b"closing\n",
    )
    refused = serve(site.cores[0], alone("ping"))
    assert refused.status == 503 and refused.headers["Retry-After"] == "1"
    site.cores[0].closing = False


def test_health_is_a_path() -> None:
    for wrong in ("healthz", 7):
        with pytest.raises(ValueError, match="begins with /"):
            HttpOptions(health=wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------ Redis is away


def is_refused(response: Recording) -> bool:
    return response.status == 503 and response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("how", ["stopped", "paused"])
@pytest.mark.redis
def test_during_an_outage_of_redis_only_sessions_are_rejected(
    far: Site, redis: RedisServer, how: str
) -> None:
    client = Roaming(far.cores)
    held = client.at(far.cores[0]).begin("tools/call", {"name": "hold"})
    assert far.begun.wait(WAIT)
    if how == "stopped":
        redis.stop()
    else:
        redis.signal(19)  # SIGSTOP
    for core in far.cores:
        assert is_refused(client.at(core).request("ping"))
        assert is_refused(
            serve(
                core,
                post(
                    message(
                        "initialize",
                        {
                            "protocolVersion": "2025-11-25",
                            "capabilities": {},
                            "clientInfo": {"name": "x", "version": "1"},
                        },
                    )
                ),
            )
        )
        assert text_of(serve(core, call("name"))).startswith("None"), (
            "a request that needs no session"
        )
    far.go.set()
    assert text_of(held.finished()) == "held", "what runs goes on"
    far.servers[0].resource_updated("notes://one")  # never blocks, and is sent later
    if how == "stopped":
        redis.start()
        assert eventually(lambda: client.request("ping").status == 404), "it has forgotten all"
        client = Roaming(far.cores)
    else:
        redis.signal(18)  # SIGCONT
        assert eventually(lambda: client.request("ping").status == 200)
    assert eventually(
        lambda: all(client.at(core).request("ping").status == 200 for core in far.cores)
    )
    asked = Roaming(far.cores, elicitation={})
    question = asked.at(far.cores[0]).begin("tools/call", {"name": "ask"})
    question.writer.wait_for(lambda: question.writer.messages)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    id = question.writer.messages[-1]["id"]
    assert asked.at(far.cores[1]).send({"jsonrpc": "2.0", "id": id, "result": answer}).status == 202
    assert question.finished().messages[-1]["result"]["content"][0]["text"] == "Ada"


@pytest.mark.redis
def test_after_a_flush_of_redis_clients_open_new_sessions(far: Site, redis: RedisServer) -> None:
    client = Roaming(far.cores)
    stream = client.at(far.cores[0]).listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    redis.say("FLUSHALL")
    assert client.request("ping").status == 404
    again = Roaming(far.cores)
    assert text_of(again.request("tools/call", {"name": "count"})) == "1"
    held = again.at(far.cores[0]).begin("tools/call", {"name": "hold"}, id="h")
    assert far.begun.wait(WAIT)
    first, second = (config_of(server).processes for server in far.servers[:2])
    assert eventually(lambda: first.is_alive(second.id))
    again.at(far.cores[1]).send(message("notifications/cancelled", {"requestId": "h"}, id=None))
    assert far.cancelled.wait(WAIT)
    held.finished()
    stream.writer.lose()
    stream.finished()


def test_an_invalid_reply_counts_as_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """With any server at that address, only `StoreUnavailable` is raised."""
    monkeypatch.setattr("minimcp.stores.redis.ANSWER_SECONDS", 0.1)
    listener = socket.create_server(("127.0.0.1", 0))
    rubbish: Dict[str, bytes] = {"now": b""}

    def talk(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):  # it has been given up while this is written
            while connection.recv(65536):
                connection.sendall(rubbish["now"])

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    for said in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\xff\r\n", b"*1\r\n:7\r\n", b"$5\r\nabc", b"+OK\r\n" * 9,
                 b":x\r\n", b"-ERR no\r\n"):  # fmt: skip
        rubbish["now"] = said
        for name, *values in (
            ("get",),
            ("put", b""),
            ("read",),
            ("list",),
            ("append", b""),
            ("delete",),
        ):
            store = RedisStore(f"redis://127.0.0.1:{listener.getsockname()[1]}/0")
            with pytest.raises(StoreUnavailable):
                getattr(store, name)("a/", *values)
            store.close()  # the probes end
            store.close()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(WAIT)


@pytest.mark.redis
def test_a_slow_redis_costs_a_request_one_round_trip(
    far: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Roaming(far.cores)
    for core in far.cores:
        client.at(core).request("ping")
    core = far.cores[0]
    assert core.session_store is not None
    store = core.session_store.processes.store
    asked: List[str] = []
    here = threading.get_ident()

    def counted(run: Any, script: str, key: str, *values: Any, **read: Any) -> Any:
        if threading.get_ident() == here:
            asked.append(script)
        return run(script, key, *values, **read)

    around(monkeypatch, store, "_run", counted)
    assert client.at(core).request("ping").status == 200
    assert asked == ["get"]
    asked.clear()
    assert serve(core, call("name")).status == 200
    assert asked == [], "it needs no session"
    client.at(core).request("tools/call", {"name": "count"})
    assert asked == ["get", "put"], "what has changed is written before the answer leaves"


def test_invalid_messages_are_rejected(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    client = Roaming(site.cores)
    client.request("ping")
    shared = site.cores[0].session_store
    assert shared is not None
    told, store = shared.processes, shared.processes.store
    for wrong in (
        b"\x80\x04",
        b"[]",
        json.dumps({"session": 7}).encode(),
        b'{"session": "%b", "message": "x"}'
        % next(iter(site.cores[0].sessions.values())).key.encode(),
        b'{"list": 7, "resource": []}',
    ):
        store.append(mailbox_of(told), wrong)
        number = store.append(told.key("log"), wrong)
    assert eventually(lambda: told.log_position == number), "which is read after the mailbox"
    assert caplog.text.count("cannot be read, and is ignored") >= 2
    assert client.request("ping").status == 200


def test_one_receiver_that_fails_keeps_no_other_from_hearing(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def receive(self, told: Any) -> None:
            raise OSError("no")

    client = Roaming(site.cores)
    broken = Broken()
    config_of(site.servers[0]).processes.receivers.add(broken)
    held = client.at(site.cores[0]).begin("tools/call", {"name": "hold"}, id="h")
    assert site.begun.wait(WAIT)
    client.at(site.cores[1]).send(message("notifications/cancelled", {"requestId": "h"}, id=None))
    assert site.cancelled.wait(WAIT)
    held.finished()
    assert eventually(lambda: "a message of another process failed" in caplog.text)


def test_a_process_without_messages_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    store, waited = SharedMemory(), threading.Event()
    first, second = (processes.Processes(store, "site") for _ in range(2))
    first.hold()
    wait, changed = store.wait, []

    def looked(keys: List[str], after: int, timeout: float, cancel: Any) -> bool:
        changed.append(wait(keys, after, 0))
        waited.set()
        return wait(keys, after, timeout, cancel)

    monkeypatch.setattr(store, "wait", looked)
    second.follow()
    assert waited.wait(WAIT)
    second.stop()
    assert changed[0] is False


def test_queued_messages_are_sent_before_a_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    store, waits, ends = SharedMemory(), threading.Event(), threading.Event()
    told = processes.Processes(store, "site")

    def wait(*_: Any) -> bool:
        waits.set()
        return not ends.wait(WAIT)

    monkeypatch.setattr(store, "wait", wait)
    told.follow()
    assert waits.wait(WAIT)
    told.stopped.on_cancel(ends.set)
    told.broadcast(resource="notes://one")
    told.stop()
    assert [json.loads(data).get("resource") for _, data in store.read(told.key("log"))] == [
        None,
        "notes://one",
    ]


def test_a_thread_that_ends_late_does_not_disturb_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "STOP_SECONDS", 0.01)
    store, goes, deleted, send = (
        SharedMemory(),
        threading.Barrier(2),
        list[str](),
        SharedMemory.append,
    )
    told, waits = processes.Processes(store, "site"), threading.Event()
    before = threading.enumerate()

    def slow(self: SharedMemory, key: str, data: bytes, *more: Any) -> int:
        if json.loads(data).get("list") == 1:
            waits.set()
            goes.wait(WAIT)
        return send(self, key, data, *more)

    monkeypatch.setattr(SharedMemory, "append", slow)
    monkeypatch.setattr(store, "delete", deleted.append)
    told.broadcast(list=1)
    assert waits.wait(WAIT)
    threads = [each for each in threading.enumerate() if each.name == "minimcp-processes"]
    (first,) = (each for each in threads if each not in before)
    told.stop()
    told.broadcast(list=2)  # starts another
    first.join(WAIT)
    assert eventually(lambda: not told.now(0)[1])
    said = [json.loads(data).get("list") for _, data in store.read(told.key("log"))]
    assert 2 in said and not deleted
    told.stop()


def test_without_a_shared_store_there_are_no_processes() -> None:
    server = Server("alone", store=MemoryStore())
    assert (
        config_of(server).processes is None and type(core_of(server).session_store) is SessionStore
    )
    assert processes.LEASE_SECONDS > 2 * processes.RENEW_SECONDS
    assert NEWEST
