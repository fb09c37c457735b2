"""The data that a server keeps in a store: its keys, their size, the reads for counting, and the
effect of damaged values."""

from __future__ import annotations

import json
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple
from urllib.parse import quote

import pytest

from minimcp import (
    Bearer,
    Context,
    HttpOptions,
    HttpRequest,
    InvalidParams,
    Limits,
    MemoryStore,
    RedisStore,
    Server,
    SqliteStore,
    Store,
    Tasks,
    connect,
)
from minimcp.extensions.task_runner import Usage
from minimcp.http.endpoint import Endpoint
from minimcp.protocol.messages import Notification
from minimcp.stores import processes, sessions as shared
from minimcp.stores.base import owner_of, store_key

from ..inside import config_of, running_tasks, tasks_of, written_streams
from ..redis_server import RedisServer, redis_server
from ..support import WAIT, around, eventually
from .http_app import HANDSHAKE, Recording, Shaken, alone, core_of, message, post, serve
from .test_shared_sessions import SharedMemory, mailbox_of, open_stores, text_of

ID = "io.modelcontextprotocol/tasks"
EXTENSIONS: Dict[str, Any] = {"extensions": {ID: {}}}
STORES = ["memory", "sqlite", pytest.param("redis", marks=pytest.mark.redis)]
PROGRESS = {"_meta": {"progressToken": 1}}
METHODS = ("put", "get", "list", "sizes", "delete", "append", "read")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture(params=STORES)
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Opens one store, as often as there are processes."""
    opened: List[Any] = []
    make = open_stores(request.param, tmp_path, lambda: request.getfixturevalue("redis"))

    def open_one() -> Store:
        opened.append(make())
        return opened[-1]

    yield open_one
    for store in opened:
        if hasattr(store, "close"):
            store.close()


class Watched(Store):
    """Another store, as one process sees it; records what the process does with it.

    Attributes:
        calls: Methods and their keys or prefixes.
    """

    shared = True

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self.calls: List[Tuple[str, str]] = []
        for method in METHODS:
            setattr(self, method, self._watched(method, getattr(store, method)))
        self.wait, self.wake = store.wait, store.wake  # type: ignore[method-assign]

    def _watched(self, method: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(key: str, *more: Any, **named: Any) -> Any:
            self.calls.append((method, key))
            return call(key, *more, **named)

        return watched

    @property
    def keys(self) -> Set[str]:
        return {key for _, key in self.calls}


def kept_bytes(store: Store, keys: Set[str]) -> int:
    """Bytes of values and events under these keys."""
    entries = [entry for entry in map(store.get, keys) if entry is not None]
    values = sum(len(entry.value) for entry in entries)
    return values + sum(len(data) for entry in entries for _, data in store.read(entry.key))


class Site:
    """A server with a tool for each kind of stored data.

    Attributes:
        core: Its endpoint.
    """

    def __init__(self, store: Store, name: str, bearer: Optional[Bearer] = None) -> None:
        self.store = Watched(store)
        self.go, self.begun = threading.Event(), threading.Event()
        server = self.server = Server(
            name, store=self.store, auth=bearer, extensions=[Tasks(poll_interval=0.02)],
            http=HttpOptions(keepalive=1), limits=Limits(call_rate=1e6),
        )  # fmt: skip

        @server.tool
        def count(ctx: Context) -> int:
            """Count the calls of a session."""
            assert ctx.session is not None
            ctx.session["calls"] = ctx.session.get("calls", 0) + 1
            return int(ctx.session["calls"])

        @server.tool(task="optional")
        def ask(ctx: Context) -> str:
            """Ask for a name."""
            return str(ctx.elicit("Who?", {"name": str}, key="name").require()["name"])

        @server.tool
        def large(size: int, ctx: Context) -> str:
            """Report progress, and return this many characters."""
            ctx.progress(1)
            return "x" * size

        @server.tool(task="optional")
        def hold(ctx: Context) -> str:
            """Wait for the test."""
            self.begun.set()
            while not self.go.wait(0.01):
                ctx.check()
            return "held"

        @server.resource("notes://one")
        def one() -> str:
            """A note."""
            return "1"

        self.core = core_of(server)
        self.core.bearer = None  # no token is asked for, although the server has an audience

    def close(self) -> None:
        self.go.set()
        self.core.close()
        tasks = tasks_of(self.server)
        for request in list(running_tasks(tasks).values()):
            request.token.cancel("the test is over")
        assert eventually(lambda: not running_tasks(tasks)), "they write to the store at their end"
        self.server.close()


@contextmanager
def sites(*made: Site) -> Iterator[None]:
    try:
        yield
    finally:
        for site in made:
            site.close()


def at(client: Shaken, core: Endpoint) -> Shaken:
    """The same client, at another process."""
    other = Shaken.__new__(Shaken)
    other.core, other.headers = core, client.headers
    return other


def answer(id: str, name: str = "Ada") -> Dict[str, Any]:
    result = {"action": "accept", "content": {"name": name}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def task_of(core: Endpoint, name: str, principal: Optional[str] = None) -> str:
    """Start a task of 2026-07-28, and return its id."""
    request = alone("tools/call", {"name": name, "arguments": {}}, capabilities=EXTENSIONS)
    request.headers.principal = principal
    return str(serve(core, request).answer["result"]["taskId"])


def look(core: Endpoint, id: str, principal: Optional[str] = None) -> Dict[str, Any]:
    request = alone("tasks/get", {"taskId": id}, {"Mcp-Name": id}, capabilities=EXTENSIONS)
    request.headers.principal = principal
    answered: Dict[str, Any] = serve(core, request).answer
    return answered


def use(one: Site, two: Site) -> Tuple[Shaken, str]:
    """Perform every action that writes to a store, at two processes of a server. Return a session
    and a task of it."""
    client = Shaken(one.core, elicitation={})
    there = at(client, two.core)
    client.request("resources/subscribe", {"uri": "notes://one"})
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    assert text_of(there.request("tools/call", {"name": "count"})) == "1"
    asked = client.begin("tools/call", {"name": "ask"})
    asked.writer.wait_for(lambda: asked.writer.messages)
    assert there.send(answer(asked.writer.messages[-1]["id"])).status == 202
    assert asked.finished().messages[-1]["result"]["content"][0]["text"] == "Ada"
    held = client.begin("tools/call", {"name": "hold"}, id="h")
    assert one.begun.wait(WAIT)
    there.send(message("notifications/cancelled", {"requestId": "h"}, id=None))
    held.finished()
    two.server.resource_updated("notes://one")
    stream.writer.wait_for(lambda: stream.writer.messages)
    stream.writer.lose()
    stream.finished()
    params = {"name": "ask", "arguments": {}}
    rounds = serve(one.core, alone("tools/call", params, capabilities={"elicitation": {}})).answer[
        "result"
    ]
    assert rounds["requestState"]
    task = task_of(one.core, "hold")
    other = task_of(one.core, "hold")
    request = alone("tasks/cancel", {"taskId": other}, {"Mcp-Name": other}, capabilities=EXTENSIONS)
    assert "error" not in serve(one.core, request).answer
    one.go.set()
    assert eventually(lambda: look(two.core, task)["result"]["status"] == "completed")
    return client, task


# The difference between two servers. A careless key would mix up their data.
PAIRS = {
    "slash": (("a/b", None), ("a_b", None)),
    "escape": (("a/b", None), ("a%2Fb", None)),
    "session": (("a", None), ("a/session", None)),
    "audience": (("shop", "https://pay.example"), ("shop", "https://blog.example")),
    "path": (("shop", "https://example.com/pay"), ("shop", "https://example.com/pay/shop")),
    "none": (("shop", "https://pay.example"), ("shop", None)),
    "joined": (("shop", "https://a.example,https://b.example"), ("shop", "https://a.example")),
}


# The keys that a server writes.
KINDS = {"session", "stream", "process", "log", "secret", "task", "ended", "lease", "rate"}


def bearer_of(audience: Optional[str]) -> Optional[Bearer]:
    return None if audience is None else Bearer(lambda _: None, audience=audience)


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_two_servers_with_one_store_share_nothing(
    opens: Callable[[], Store], pair: Sequence[Tuple[str, Optional[str]]]
) -> None:
    made = [[Site(opens(), name, bearer_of(audience)) for _ in range(2)] for name, audience in pair]
    with sites(*(site for each in made for site in each)):
        used = [use(*each) for each in made]
        keys = [one.store.keys | two.store.keys for one, two in made]
        for (name, audience), own in zip(pair, keys):
            prefix = f"{quote(audience or '', safe='')}/{quote(name, safe='')}/"
            assert all(key.startswith(prefix) for key in own), "each key names its server"
            assert {key[len(prefix) :].partition("/")[0] for key in own} >= KINDS
        assert not keys[0] & keys[1]
        for (client, task), (other, _) in zip(used, reversed(made)):
            assert at(client, other.core).request("ping").status == 404
            assert "no task has this taskId" in look(other.core, task)["error"]["message"]
        (one, _), (two, _) = made
        first, second = config_of(one.server).processes, config_of(two.server).processes
        assert first is not None and second is not None and first.secret() != second.secret()


def test_two_servers_keep_their_tasks_apart_in_memory() -> None:
    """A store that no processes share has no sessions."""
    store = MemoryStore()
    servers = [
        Server(name, store=store, extensions=[Tasks(max_tasks=1)]) for name in ("a/b", "a_b")
    ]
    ids = []
    for server in servers:
        server.add_tool(lambda: "done", name="work", description="Work.", task="required")
        with connect(server, extensions=[Tasks()]) as client:
            task = client.start_task("work")
            task.result(WAIT)
            ids.append(task.id)
    for server, id, other in zip(servers, ids, reversed(ids)):
        with connect(server, extensions=[Tasks()]) as client:
            assert client.task(id).refresh() == "completed", "the other server took no room"
            with pytest.raises(InvalidParams, match="no task has this taskId"):
                client.task(other).refresh()


@contextmanager
def one_site(opens: Callable[[], Store], processes: int = 2) -> Iterator[List[Site]]:
    made = [Site(opens(), "site") for _ in range(processes)]
    with sites(*made):
        yield made


def test_principals_find_only_their_own_data(opens: Callable[[], Store]) -> None:
    with one_site(opens) as (one, two):
        one.go.set()
        ids = {name: task_of(one.core, "hold", name) for name in ("ada", "a/b", "a_b", None)}
        for name, id in ids.items():
            for other in (*ids, "a?", "a\ud800"):
                found = look(two.core, id, other)
                assert ("result" in found) is (other == name), (name, other)
        assert len({key for _, key in one.store.calls if "/task/" in key and ":" in key}) >= 4


# ------------------------------------------------------------ counting


def fill(site: Site, owners: Sequence[Optional[str]], each: int) -> Set[str]:
    """Store this many finished tasks of each owner, and return their keys."""
    id = task_of(site.core, "hold")
    site.go.set()
    assert eventually(lambda: look(site.core, id)["result"]["status"] == "completed")
    site.go.clear()
    key = store_key((), "site", "task", "-", id)
    entry = site.store.get(key)
    assert entry is not None
    keys = set()
    for owner in owners:
        for number in range(each):
            other = f"{number:032x}"
            value = entry.value.replace(id.encode(), other.encode())
            keys.add(store_key((), "site", "task", owner_of(owner), other))
            site.store.store.put(store_key((), "site", "task", owner_of(owner), other), value, 3600)
    return keys


def test_a_creation_reads_no_task_and_calls_the_store_as_often_however_many_there_are(
    opens: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_site(opens, 1) as (site,):
        underlying, scripts = site.store.store, list[str]()
        if isinstance(underlying, RedisStore):

            def counted(run: Any, name: str, *more: Any) -> Any:
                scripts.append(name)
                return run(name, *more)

            around(monkeypatch, underlying, "_script", counted)

        def creation() -> Tuple[Any, ...]:
            site.store.calls.clear()
            scripts.clear()
            task_of(site.core, "hold", "ada")
            kinds = ("/task/", "/ended/")  # without the thread that listens to other processes
            calls = [call for call in site.store.calls if any(kind in call[1] for kind in kinds)]
            return Counter(method for method, _ in calls), Counter(scripts)["sizes"], calls

        first = creation()
        keys = fill(site, [f"user {number}" for number in range(7)] + ["ada"], 500)
        assert len(keys) == 4000
        second = creation()
        assert first[:2] == second[:2] and first[0] == {"sizes": 1, "put": 1}
        assert not keys & {key for _, key in second[2]}
        prefix = store_key((), "site", "task", owner_of("ada"), "")
        assert len(underlying.sizes(prefix)) == 502


def test_admission_is_one_function_of_counts(
    opens: Callable[[], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_site(opens, 1) as (site,):
        asked = list[Usage]()

        def used(tasks: int, size: int) -> Usage:
            asked.append(Usage(tasks, size))
            return asked[-1] if len(asked) < 3 else Usage(10**9, 0)

        monkeypatch.setattr("minimcp.extensions.task_runner.Usage", used)
        for _ in range(2):
            task_of(site.core, "hold")
        with pytest.raises(KeyError):
            task_of(site.core, "hold")
        assert [used.tasks for used in asked[:3]] == [0, 1, 2]
        assert 0 == asked[0].bytes < asked[1].bytes < asked[2].bytes


@pytest.mark.parametrize("principal", [None, "ada"])
def test_without_a_token_no_client_gets_a_longer_ttl_than_the_servers(
    principal: Optional[str],
) -> None:
    site = Site(SharedMemory(), "site")
    with sites(site):
        client = Shaken(site.core)
        for wanted in (1000, 3_600_000, 3_600_001, 80_000_000, 10**400, 1e300):
            params = {"name": "hold", "arguments": {}, "task": {"ttl": wanted}}
            request = post(message("tools/call", params), client.headers)
            if principal is not None:
                opened = Shaken(site.core)
                session = site.core.sessions[opened.headers["Mcp-Session-Id"]]
                request = post(message("tools/call", params), opened.headers)
                request.headers.principal = principal
                site.core.session_store.end(session)  # type: ignore[union-attr]
                request = begun_by(site.core, principal, params)
            ttl = serve(site.core, request).answer["result"]["task"]["ttl"]
            assert ttl == min(wanted, 3_600_000 if principal is None else 86_400_000)


def begun_by(core: Endpoint, principal: str, params: Any) -> HttpRequest:
    """A call in a session of a principal."""
    hello = {
        "protocolVersion": HANDSHAKE, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }  # fmt: skip
    first = post(message("initialize", hello, 0))
    first.headers.principal = principal
    headers = {"Mcp-Session-Id": serve(core, first).headers["Mcp-Session-Id"]}
    request = post(message("tools/call", params), headers)
    request.headers.principal = principal
    return request


@pytest.mark.parametrize("cursor", ["\ud800", "a\udfff", "é", "/", "%", "\0", "zz", ":"])
def test_a_cursor_is_only_a_place_in_the_own_list(
    opens: Callable[[], Store], cursor: str, caplog: pytest.LogCaptureFixture
) -> None:
    with one_site(opens, 1) as (site,):
        task_of(site.core, "hold", "eve")
        mine = task_of(site.core, "hold", "ada")
        request = begun_by(site.core, "ada", {})
        for given in ({}, {"cursor": cursor}):
            listing = post(
                message("tasks/list", given), {"Mcp-Session-Id": request.headers["Mcp-Session-Id"]}
            )
            listing.headers.principal = "ada"
            answered = serve(site.core, listing).answer
            assert answered.get("error", {"code": -32602})["code"] == -32602
            found = [task["taskId"] for task in answered.get("result", {"tasks": []})["tasks"]]
            assert found == [mine] if not given else set(found) <= {mine}
        assert all(key.isascii() for key in site.store.keys)
        assert not [record for record in caplog.records if record.exc_info]


# ------------------------------------------------------------ what processes write for each other


def test_cancellations_take_little_room(opens: Callable[[], Store], tmp_path: Path) -> None:
    with one_site(opens) as (one, two):
        client = Shaken(one.core)
        at(client, two.core).request("ping")
        session = next(iter(one.core.sessions.values()))
        text = "\x01" * 4_000_000  # six bytes of JSON each
        for place in range(1000):
            named = text if place % 3 == 1 else place
            params = {"requestId": named, "reason": text, "more": text, "_meta": {"more": text}}
            session.take(Notification("notifications/cancelled", params))
        body = message(
            "notifications/cancelled", {"requestId": 5, "reason": "y" * 3_900_000}, id=None
        )
        assert client.send(body).status == 202
        first, second = (config_of(site.server).processes for site in (one, two))
        assert first is not None and second is not None
        assert eventually(lambda: not first.now(0)[1])
        underlying = one.store.store
        assert kept_bytes(underlying, one.store.keys | two.store.keys) < 1_000_000
        if isinstance(underlying, SqliteStore):
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 10e6
        held = client.begin("tools/call", {"name": "hold"}, id="h")
        assert one.begun.wait(WAIT)
        told = {"requestId": "h", "reason": "x" * 10_000}
        assert (
            at(client, two.core).send(message("notifications/cancelled", told, id=None)).status
            == 202
        )
        assert not held.finished().messages, "one that is meant reaches the other process"


@pytest.mark.parametrize("size", [100, 1_000, 16_000])
def test_messages_to_all_processes_are_bounded_in_bytes(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = SharedMemory()
    told = processes.Processes(store, "site")
    for number in range(1500):
        told.broadcast(resource=f"notes://{number}/" + "x" * size)
        told.broadcast(resource="x" * (number % 100))
        if number % 100 == 99:
            assert eventually(lambda: not told.now(0)[1])
    told.broadcast(resource="x" * processes.MAX_MESSAGE_BYTES)
    told.stop()
    assert "a message to other processes (resource) is dropped" in caplog.text
    events = store.read(told.key("log"))
    assert 15 < len(events) <= processes.MAX_LOG_MESSAGES
    assert sum(len(data) for _, data in events) < 4 * processes.MAX_LOG_BYTES


def test_writes_that_wait_for_an_unavailable_store_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = processes.Processes(SharedMemory(), "site")
    monkeypatch.setattr(told, "start", lambda: None)
    for number in range(2 * processes.MAX_LOG_MESSAGES):
        told.broadcast(list=str(number))
    _, unsent = told.now(0)
    assert len(unsent) == processes.MAX_LOG_MESSAGES
    assert json.loads(unsent[-1])["list"] == str(2 * processes.MAX_LOG_MESSAGES - 1)


def test_answers_in_a_mailbox_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_MAILBOX_BYTES", 10_000)
    store = SharedMemory()
    one, two = (processes.Processes(store, "site") for _ in range(2))
    two.hold()
    for _ in range(100):
        assert one.send(two.id, message="x" * 1000)
    assert sum(len(data) for _, data in store.read(mailbox_of(two))) < 10_000
    assert one.send(two.id, message="x" * 20_000), "one is always delivered"
    assert len(store.read(mailbox_of(two))) == 1


def test_an_answer_is_passed_on_once_and_only_to_an_open_question(
    opens: Callable[[], Store],
) -> None:
    with one_site(opens, 3) as (one, two, three):

        def mail() -> int:
            return sum(
                method == "append" and "/process/" in key
                for site in (two, three)
                for method, key in site.store.calls
            )

        client, other = Shaken(one.core, elicitation={}), Shaken(one.core, elicitation={})
        asked = client.begin("tools/call", {"name": "ask"})
        asked.writer.wait_for(lambda: asked.writer.messages)
        id = asked.writer.messages[-1]["id"]
        process, _, number = id.partition("-")
        for wrong in (f"{process}-{int(number) + 1}", f"{process}-0", "0" * 16 + "-1", "x", 7):
            assert at(client, two.core).send(answer(wrong)).status == 202  # type: ignore[arg-type]
        assert at(other, two.core).send(answer(id, "Eve")).status == 202
        assert mail() == 0
        for core in (two.core, three.core, two.core):
            assert at(client, core).send(answer(id)).status == 202
        assert mail() == 1
        assert asked.finished().messages[-1]["result"]["content"][0]["text"] == "Ada"
        assert at(client, three.core).send(answer(id)).status == 202
        assert mail() == 1
        (key,) = {
            key for _, key in one.store.calls if "/session/" in key and client_key(client) in key
        }
        entry = one.store.get(key)
        assert entry is not None and json.loads(entry.value)["asked"] == []


def client_key(client: Shaken) -> str:
    id = client.headers["Mcp-Session-Id"]
    return next(each.key for each in client.core.sessions.values() if each.id == id)


def test_questions_of_a_process_that_has_ended_are_forgotten(opens: Callable[[], Store]) -> None:
    with one_site(opens) as (one, two):
        client = Shaken(one.core, elicitation={})
        asked = client.begin("tools/call", {"name": "ask"})
        asked.writer.wait_for(lambda: asked.writer.messages)
        id = asked.writer.messages[-1]["id"]
        first = config_of(one.server).processes
        assert first is not None
        first.stop(one.core)
        first.stop()
        assert eventually(lambda: one.store.store.get(mailbox_of(first)) is None)
        assert at(client, two.core).send(answer(id)).status == 202
        (entry,) = one.store.store.list(store_key((), "site", "session", ""))[:1] or [None]
        found = one.store.store.get(store_key((), "site", "session", "-", client_key(client)))
        assert found is not None and json.loads(found.value)["asked"] == []
        one.core.end_here(next(iter(one.core.sessions.values())), "the test is over")
        asked.finished()


# ------------------------------------------------------------ streams


def test_resumable_events_of_a_session_are_bounded_in_bytes(opens: Callable[[], Store]) -> None:
    with one_site(opens) as (one, two):
        client = Shaken(one.core)
        other = Shaken(one.core)
        ids = []
        small = other.request("tools/call", {"name": "large", "arguments": {"size": 5}, **PROGRESS})
        for size in [900_000] * 20 + [5]:
            arguments = {"size": size}
            called = client.request(
                "tools/call", {"name": "large", "arguments": arguments, **PROGRESS}
            )
            ids.append(called.events[0].id)
        streams = {key for key in one.store.keys if "/stream/" in key}
        assert kept_bytes(one.store.store, streams) < shared.MAX_SESSION_BYTES + 100_000

        def resumed(client: Shaken, id: str) -> Recording:
            return serve(two.core, at(client, two.core).get(Last_Event_ID=id))

        assert resumed(client, ids[0]).status == 400
        assert len(text_of(resumed(client, ids[-2]))) == 900_000
        assert text_of(resumed(client, ids[-1])) == "x" * 5
        assert text_of(resumed(other, small.events[0].id)) == "x" * 5, "another session has its own"


def test_many_small_streams_are_counted_and_forgotten_when_their_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = shared.SharedEvents(processes.Processes(SharedMemory(), "site"), 100.0)
    now = [0.0]
    monkeypatch.setattr("minimcp.stores.sessions.time.monotonic", lambda: now[0])
    for number in range(100):
        events.add(f"s.{number}", 1, b"x", shared.LAST)
    assert len(written_streams(events)["s"]) == 100
    now[0] = shared.ENDED_SECONDS + 1
    events.add("s.more", 1, b"x")
    assert [*written_streams(events)["s"]] == ["more" and "s.more"]
    events.forget("s")
    assert not written_streams(events)


def test_a_client_of_a_dropped_stream_gets_an_error(opens: Callable[[], Store]) -> None:
    with one_site(opens) as (one, two):
        client = Shaken(one.core)
        held = client.begin("tools/call", {"name": "hold"}, id="h")
        assert one.begun.wait(WAIT)
        session = next(iter(one.core.sessions.values()))
        stream = session.responses[0].open()
        assert stream is not None
        held.writer.wait_for(lambda: held.writer.streamed)
        again = at(client, two.core).listen(Last_Event_ID=f"{stream.name}/0")
        again.writer.wait_for(lambda: again.writer.streamed)
        one.store.store.delete(one.core.session_store.events.key(stream.name))  # type: ignore[union-attr]
        (error,) = again.finished().messages
        assert error["id"] == "h" and "no longer stored" in error["error"]["message"]
        one.go.set()
        held.finished()


# ------------------------------------------------------------ damaged values


def memory() -> Callable[[], Store]:
    """Opens one store in memory."""
    store = SharedMemory()
    return lambda: store


DAMAGED: List[Any] = [
    b"", b"\xff", b"[]", b"7", b"null", b"{}", b"{", b'{"a": NaN}',
    b"[" * 100_000, b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
]  # fmt: skip
WRONG: List[Any] = [
    None, True, 7, -1, 10**400, 2**63, 0.5, "", "x", "\ud800", [], [7], ["\ud800"], {}, {"a": 7}, {"name": 7},
]  # fmt: skip


def damaged(value: bytes) -> Iterator[bytes]:
    """Values that are damaged: in all, and in each member."""
    yield from DAMAGED
    record = json.loads(value) if value else {}
    for name in record:
        yield json.dumps({each: record[each] for each in record if each != name}).encode()
        for wrong in WRONG:
            yield json.dumps({**record, name: wrong}).encode()
            if isinstance(record[name], dict):
                for inner in record[name]:
                    yield json.dumps({**record, name: {**record[name], inner: wrong}}).encode()
    yield json.dumps({**record, "more": 1}).encode()


def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Fail if a traceback was logged."""
    traces = [record.getMessage() for record in caplog.records if record.exc_info]
    assert not traces
    caplog.clear()


def test_a_damaged_session_is_a_missing_one(caplog: pytest.LogCaptureFixture) -> None:
    with one_site(memory()) as (one, two):
        client = Shaken(one.core)
        client.request("tools/call", {"name": "count"})
        key = store_key((), "site", "session", "-", client_key(client))
        entry = one.store.store.get(key)
        assert entry is not None
        for value in damaged(entry.value):
            for core in (one.core, two.core):
                one.store.store.put(key, value)
                for request in (
                    message("ping"),
                    message("resources/subscribe", {"uri": "notes://one"}),
                    message("logging/setLevel", {"level": "info"}),
                ):
                    assert at(client, core).send(request).status in (200, 404), value
                quiet(caplog)
                for session in list(core.sessions.values()):
                    core.end_here(session, "the next one is damaged, too")


def test_a_damaged_task_is_a_missing_one(caplog: pytest.LogCaptureFixture) -> None:
    with one_site(memory(), 1) as (site,):
        store = site.store.store
        asking = task_of(site.core, "ask")
        done = task_of(site.core, "hold")
        site.go.set()
        assert eventually(lambda: look(site.core, done)["result"]["status"] == "completed")
        client = Shaken(site.core)
        begun = begun_by(site.core, "ada", {"name": "hold", "arguments": {}, "task": {}})
        assert "task" in serve(site.core, begun).answer["result"]
        for id in (asking, done):
            key = store_key((), "site", "task", "-", id)
            entry = store.get(key)
            assert entry is not None
            for value in damaged(entry.value):
                store.put(key, value)
                requests = [
                    alone(
                        method,
                        {"taskId": id, "inputResponses": {"name": {}}},
                        {"Mcp-Name": id},
                        capabilities=EXTENSIONS,
                    )
                    for method in ("tasks/get", "tasks/update", "tasks/cancel")
                ]
                requests += [
                    post(message(method, {"taskId": id}), client.headers)
                    for method in ("tasks/get", "tasks/cancel")
                ]
                for request in requests:
                    answered = serve(site.core, request)
                    assert answered.status < 500
                    assert answered.answer.get("error", {}).get("code") in (None, -32602), value
                quiet(caplog)


def test_a_damaged_stream_is_a_missing_one(caplog: pytest.LogCaptureFixture) -> None:
    with one_site(memory()) as (one, two):
        client, store = Shaken(one.core), one.store.store
        called = client.request(
            "tools/call", {"name": "large", "arguments": {"size": 5}, **PROGRESS}
        )
        last = called.events[0].id
        key = one.core.session_store.events.key(last.partition("/")[0])  # type: ignore[union-attr]
        entry = store.get(key)
        assert entry is not None
        events = store.read(key)

        def resumed() -> Recording:
            return serve(two.core, at(client, two.core).get(Last_Event_ID=last))

        for value in damaged(entry.value):
            if b'"ids": null' in value:
                continue  # it is sound: a stream without an end
            store.put(key, value, 60)
            assert resumed().status in (200, 400), value
            quiet(caplog)
        store.put(key, entry.value, 60)
        for place in range(len(events)):
            for wrong in (
                b"",
                b"x",
                b"1",
                b"1 2",
                b"x y z",
                b"9" * 5000 + b" 0 {}",
                b"1 %b {}" % (b"9" * 30),
                b"-1 0 {}",
            ):
                store.delete(key)
                store.put(key, entry.value, 60)
                for number, (_, data) in enumerate(events):
                    store.append(key, wrong if number == place else data, 60)
                if place < len(events) - 1:
                    assert resumed().status == 400
                    quiet(caplog)


def test_damaged_messages_of_processes_are_ignored(caplog: pytest.LogCaptureFixture) -> None:
    with one_site(memory()) as (one, two):
        client = Shaken(one.core)
        at(client, two.core).request("ping")
        told, store = config_of(two.server).processes, two.store.store
        assert told is not None
        number = 0
        key = client_key(client)
        for data in (
            *DAMAGED,
            *(
                json.dumps({"session": key, name: wrong}).encode()
                for name in ("message", "ended", "list", "resource", "from")
                for wrong in (*WRONG[:-3], "[" * 100_000, {})
                if not (name == "ended" and wrong)
            ),
        ):
            store.append(mailbox_of(told), data)
            number = store.append(told.key("log"), data)
        assert eventually(lambda: told.log_position >= number), "which is read after the mailbox"
        quiet(caplog)
        assert at(client, two.core).request("ping").status == 200


@pytest.mark.parametrize("value", [b"", b"soon", b"\xff", b"-1", b"1" * 5000, b"1.5", b"{}"])
def test_a_damaged_count_of_a_rate_is_a_missing_one(
    value: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with one_site(memory(), 1) as (site,):
        client = Shaken(site.core)
        assert text_of(client.request("tools/call", {"name": "count"})) == "1"
        (key,) = {key for key in site.store.keys if "/rate/" in key}
        site.store.store.put(key, value)
        assert text_of(client.request("tools/call", {"name": "count"})) == "2"
        quiet(caplog)


def test_a_damaged_key_of_states_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    store = SharedMemory()
    one, two = (processes.Processes(store, "site") for _ in range(2))
    first = one.secret()
    assert two.secret() == first
    store.put(one.key("secret"), b"short")
    second = one.secret()
    assert len(second) == processes.SECRET_BYTES and two.secret() == second != first
    assert "cannot be read, and is ignored" in caplog.text and "short" not in caplog.text


def test_a_session_that_could_not_be_read_back_is_not_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with one_site(memory(), 1) as (site,):
        client = Shaken(site.core)
        session = next(iter(site.core.sessions.values()))
        deep: Any = []
        for _ in range(400):
            deep = [deep]
        assert session.peer is not None and session.peer.session_data is not None
        session.peer.session_data["deep"] = deep
        session.before_answer()
        assert "the record of a session was not written" in caplog.text
        del session.peer.session_data["deep"]
        assert client.request("ping").status == 200
