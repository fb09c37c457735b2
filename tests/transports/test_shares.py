"""Resources of an HTTP server that one client may use, and their release when it disconnects."""

from __future__ import annotations

import errno
import io
import json
import re
import socket
import threading
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

from minimcp import Bearer, Context, HttpOptions, Limits, Server, Tasks
from minimcp.engine import shares as counting
from minimcp.errors import ConnectionLost
from minimcp.http import endpoint as endpoints, responses, server as http_server
from minimcp.http.server import RunningHttp

from ..answering import R3, R4
from ..inside import (
    config_of,
    endpoint_of,
    kept_connections,
    left_connections,
    open_responses,
    token_checks,
    turns_of,
)
from ..support import WAIT, eventually
from .http_app import (
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
from .http_peer import Peer, Response

LISTEN = "subscriptions/listen"
TOKENS = {"ada-token": "ada", "bob-token": "bob"}


def verify(token: str) -> Optional[Dict[str, Any]]:
    """Each token is a principal of its own; any number of tokens may be the same one's."""
    name = token.partition("-")[0]
    return {"sub": name, "aud": "test"} if name in ("ada", "bob", "cyd") else None


def bearer(**options: Any) -> Bearer:
    return Bearer(verify, audience="test", **options)


def with_token(name: str) -> Dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


class Stage:
    """A server whose tools wait for the test."""

    def __init__(self, **options: Any) -> None:
        self.server = server = Server("stage", **options)
        self.go = threading.Event()
        self.began: List[str] = []
        self.ended: List[Any] = []

        @server.tool
        def hold() -> str:
            """Wait."""
            self.began.append("hold")
            assert self.go.wait(WAIT)
            self.ended.append("hold")
            return "held"

        @server.tool(executor=self.run)
        def elsewhere() -> str:
            """Wait on another thread."""
            return hold()

        @server.tool
        def ask(ctx: Context) -> str:
            """Ask."""
            self.began.append("ask")
            try:
                return str(ctx.elicit("Name?", {"name": str}).require()["name"])
            except Exception as error:
                self.ended.append(error)
                raise

        @server.tool
        def ask_late(ctx: Context) -> str:
            """Ask for a name when the test says so."""
            self.began.append("ask_late")
            assert self.go.wait(WAIT)
            return ask(ctx)

        @server.tool
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        @server.resource("notes://one")
        def one() -> str:
            """A note."""
            return "note"

    def run(self, job: Any) -> None:
        threading.Thread(target=job, daemon=True).start()


@pytest.fixture
def stages() -> Iterator[Any]:
    made: List[Stage] = []

    def make(**options: Any) -> Stage:
        made.append(Stage(**options))
        return made[-1]

    yield make
    for stage in made:
        stage.go.set()
        stage.server.close()


class Session:
    """A client with a session that opens a connection for every request."""

    def __init__(self, running: RunningHttp, revision: str = R4, token: str = "", **able: Any):
        self.port, self.headers = running.port, {**POST_HEADERS}
        if token:
            self.headers.update(with_token(token))
        params = {
            "protocolVersion": revision,
            "capabilities": able,
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = self.response(message("initialize", params, 0))
        assert opened.status == 200, opened
        self.headers["Mcp-Session-Id"] = opened.headers["mcp-session-id"]
        self.response(message("notifications/initialized", id=None))

    def begin(self, body: Any) -> Peer:
        return send(Peer(self.port), body, self.headers)

    def response(self, body: Any) -> Response:
        with self.begin(body) as peer:
            return peer.response()

    def call(self, name: str, arguments: Any = None, id: Any = 1) -> Peer:
        return self.begin(message("tools/call", {"name": name, "arguments": arguments or {}}, id))

    def adds(self) -> bool:
        try:
            with self.call("add", {"a": 1, "b": 2}) as peer:
                found = peer.response()
        except (EOFError, OSError):
            return False
        return found.status == 200 and b'"text":"3"' in found.body

    def stream(self) -> Peer:
        given = {**self.headers, "Accept": "text/event-stream"}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return Peer(self.port).send(f"GET /mcp HTTP/1.1\r\n{lines}\r\n".encode())


def send(peer: Peer, body: Any, headers: Dict[str, str]) -> Peer:
    raw = json.dumps(body).encode()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return peer.send(
        f"POST /mcp HTTP/1.1\r\n{lines}Content-Length: {len(raw)}\r\n\r\n".encode() + raw
    )


def is_rejected(status: int, headers: Any, text: bytes, what: str) -> bool:
    assert b"share of " + what.encode() in text, text
    return status == 429 and int(headers.get("Retry-After") or headers["retry-after"]) >= 1


# ------------------------------------------------------------ requests


@pytest.mark.parametrize("revision", [R3, R4])
def test_one_session_runs_its_share_of_requests_and_others_run_theirs(
    stages: Any, revision: str
) -> None:
    stage = stages(limits=Limits(requests=8))
    core = core_of(stage.server)
    first, second = Shaken(core, revision), Shaken(core, revision)
    running = [first.begin("tools/call", {"name": "hold"}, id) for id in (1, 2)]
    assert eventually(lambda: len(stage.began) == 2)
    refused = first.request("tools/call", {"name": "hold"}, 3)
    assert is_rejected(refused.status, refused.headers, refused.body, "running requests")
    assert refused.json["error"]["code"] == -32603 and refused.json["id"] == 3
    assert first.request("tools/list").status == 200, "it is answered at once"
    assert (
        second.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}).status == 200
    )
    stage.go.set()
    assert [each.finished().status for each in running] == [200, 200]
    assert first.request("tools/call", {"name": "hold"}, 4).status == 200


@pytest.mark.parametrize("era", ["session", "alone"])
def test_a_principal_gains_nothing_by_sessions_and_tokens(stages: Any, era: str) -> None:
    stage = stages(limits=Limits(requests=8), auth=bearer())
    core = core_of(stage.server)

    def run(token: str, name: str = "hold") -> Any:
        if era == "alone":
            return call(name, {"a": 1, "b": 2} if name == "add" else {}, headers=with_token(token))
        body = message("initialize", {
            "protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }, 0)  # fmt: skip
        opened = serve(core, post(body, with_token(token)))
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **with_token(token)}
        serve(core, post(message("notifications/initialized", id=None), session))
        arguments = {"a": 1, "b": 2} if name == "add" else {}
        return post(message("tools/call", {"name": name, "arguments": arguments}), session)

    running = [Served(core, run(f"ada-{number}")) for number in range(2)]
    assert eventually(lambda: len(stage.began) == 2)
    refused = serve(core, run("ada-3"))
    assert is_rejected(refused.status, refused.headers, refused.body, "running requests")
    assert serve(core, run("bob-1", "add")).status == 200
    stage.go.set()
    assert [each.finished().status for each in running] == [200, 200]


def test_the_principal_of_a_static_token_has_no_share(stages: Any) -> None:
    stage = stages(limits=Limits(requests=8), auth=Bearer.static("word"))
    core = core_of(stage.server)
    running = [Served(core, call("hold", headers=with_token("word"))) for _ in range(8)]
    assert eventually(lambda: len(stage.began) == 8)
    stage.go.set()
    assert {each.finished().status for each in running} == {200}


def test_none_switches_the_share_off(stages: Any) -> None:
    stage = stages(limits=Limits(requests=8, client_share=None))
    client = Shaken(core_of(stage.server))
    running = [client.begin("tools/call", {"name": "hold"}, id) for id in range(8)]
    assert eventually(lambda: len(stage.began) == 8)
    stage.go.set()
    assert {each.finished().status for each in running} == {200}


def test_in_an_array_only_the_requests_above_the_limit_are_rejected(stages: Any) -> None:
    stage = stages(limits=Limits(requests=8))
    core = core_of(stage.server)
    client = Shaken(core, "2025-03-26")
    calls = [message("tools/call", {"name": "hold"}, id) for id in range(4)]
    running = Served(core, post(calls, client.headers))
    assert eventually(lambda: len(stage.began) == 2)
    refused = client.send(calls)
    assert refused.status == 429 and len(refused.json) == 4
    stage.go.set()
    answers = running.finished().json
    assert sorted("error" in each for each in answers) == [False, False, True, True]


def test_a_client_of_http_and_sse_has_a_share_too(stages: Any) -> None:
    from .test_sse_server import Old, sse_of

    stage = stages(limits=Limits(requests=8, streams=8))
    old = Old(sse_of(stage.server))
    old.open()
    for id in (1, 2):
        old.post(message("tools/call", {"name": "hold"}, id))
    assert eventually(lambda: len(stage.began) == 2)
    refused = old.request("tools/call", {"name": "hold"}, 3)
    assert "share of running requests" in refused["error"]["message"]
    stage.go.set()
    assert eventually(lambda: {1, 2} <= {each["id"] for each in old.said() if "result" in each})
    old.writer.lose()


@pytest.mark.parametrize("how", ["requests", "array", "sse"])
def test_a_client_that_fills_its_threads_does_not_delay_others(stages: Any, how: str) -> None:
    from .test_sse_server import Old, sse_of

    stage = stages(limits=Limits(requests=80, workers=8))
    core = core_of(stage.server)
    client, other = Shaken(core, "2025-03-26"), Shaken(core)
    calls = [message("tools/call", {"name": "hold"}, id) for id in range(20)]
    if how == "requests":
        running = [Served(core, post(each, client.headers)) for each in calls]
    elif how == "array":
        running = [Served(core, post(calls, client.headers))]
    else:
        old = Old(sse_of(stage.server))
        old.open()
        for each in calls:
            old.post(each)
        running = []
    assert eventually(lambda: len(stage.began) == 6)
    add = {"name": "add", "arguments": {"a": 1, "b": 2}}
    assert other.request("tools/call", add).status == 200
    assert len(stage.began) == 6, "the others of the client are waiting"
    stage.go.set()
    assert [each.finished().status for each in running] == [200] * len(running)
    assert eventually(lambda: len(stage.ended) == 20)
    assert eventually(lambda: not turns_of(core.shares))
    if how == "sse":
        old.writer.lose()


def test_a_response_whose_client_left_is_closed_once(stages: Any) -> None:
    """The handler and the end of the session may both finish it."""
    core = core_of(stages().server)
    session = Shaken(core).headers["Mcp-Session-Id"]
    found = core.sessions[session]
    assert found.peer is not None
    response = responses.PostResponse(core, found, found.peer.revision, Recording())
    response.open()
    closed: List[None] = []
    response.when_done(lambda: closed.append(None))
    response.finish()
    response.finish()
    assert len(closed) == 1


# ------------------------------------------------------------ tasks


class Jobs:
    """A server with a task that waits for the test."""

    def __init__(self, **options: Any) -> None:
        self.go, self.began = threading.Event(), list[str]()
        self.server = server = Server("jobs", auth=bearer(), **options)
        self.core = core_of(server)

        @server.tool(task="required")
        def hold(name: str) -> str:
            """Wait."""
            self.began.append(name)
            assert self.go.wait(WAIT)
            return "held"

    def begin(self, token: str) -> Any:
        """Start a task as the client with this token."""
        able = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        params = {"name": "hold", "arguments": {"name": token.partition("-")[0]}}
        return serve(self.core, alone("tools/call", params, with_token(token), capabilities=able))

    def begins(self, *tokens: str) -> bool:
        """Return whether a task starts for each of these."""
        return [self.begin(token).status for token in tokens] == [200] * len(tokens)

    def refuses(self, token: str) -> bool:
        """Return whether one more task of this client is rejected."""
        refused = self.begin(token)
        return is_rejected(refused.status, refused.headers, refused.body, "running tasks")


@pytest.fixture
def jobs() -> Iterator[Callable[..., Jobs]]:
    made: List[Jobs] = []

    def make(**options: Any) -> Jobs:
        made.append(Jobs(**options))
        return made[-1]

    yield make
    for each in made:
        each.go.set()
        each.server.close()


def test_a_principal_that_fills_the_threads_of_tasks_does_not_delay_others(
    jobs: Callable[..., Jobs],
) -> None:
    made = jobs(limits=Limits(workers=4), extensions=[Tasks()])
    assert made.begins(*["ada-1"] * 6, "bob-1")
    assert eventually(lambda: len(made.began) == 4)
    assert sorted(made.began) == ["ada", "ada", "ada", "bob"]
    made.go.set()
    assert eventually(lambda: len(made.began) == 7)


def test_running_tasks_are_shared_by_the_smaller_limit(jobs: Callable[..., Jobs]) -> None:
    made = jobs(limits=Limits(requests=8), extensions=[Tasks()])
    assert made.begins("ada-1", "ada-1") and made.refuses("ada-1")


def test_one_principal_runs_its_share_of_tasks(jobs: Callable[..., Jobs]) -> None:
    made = jobs(extensions=[Tasks(max_tasks=8)])
    assert made.begins("ada-1", "ada-2", "bob-1") and made.refuses("ada-3")
    assert made.begins("bob-2")
    made.go.set()
    assert eventually(lambda: made.begins("ada-4")), "a task that ended counts no longer"


# ------------------------------------------------------------ sessions


def test_one_principal_opens_its_share_of_sessions(stages: Any) -> None:
    stage = stages(auth=bearer(), http=HttpOptions(max_sessions=8))
    core = core_of(stage.server)

    def opened(token: str, begins: bool = True) -> Any:
        body = message("initialize", {
            "protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }, 0)  # fmt: skip
        found = serve(core, post(body, with_token(token)))
        if begins and found.status == 200:
            given = {"Mcp-Session-Id": found.headers["Mcp-Session-Id"], **with_token(token)}
            assert (
                serve(core, post(message("notifications/initialized", id=None), given)).status
                == 202
            )
            return given
        return found

    first = opened("ada-1")
    for _ in range(4):
        assert opened("ada-2", begins=False).status == 200, "one that has not begun makes room"
    assert len(core.sessions) == 2
    second = opened("ada-2")
    refused = opened("ada-3")
    assert is_rejected(refused.status, refused.headers, refused.body, "sessions")
    assert refused.json["id"] == 0 and len(core.sessions) == 2
    assert opened("bob-1") and opened("bob-2")
    delete = post(message("ping"), second)
    delete.method = "DELETE"
    assert serve(core, delete).status == 200
    assert "Mcp-Session-Id" in opened("ada-3") and first


# ------------------------------------------------------------ streams


def listening(core: Any, **headers: str) -> Served:
    served = Served(core, alone(LISTEN, {"notifications": {"toolsListChanged": True}}, headers))
    served.writer.wait_for(lambda: b"acknowledged" in served.writer.body)
    return served


def test_a_new_stream_takes_the_place_of_the_oldest_of_the_same_client(stages: Any) -> None:
    stage = stages(limits=Limits(streams=8), auth=bearer())
    core = core_of(stage.server)
    bob = listening(core, **with_token("bob-1"))
    ada = [listening(core, **with_token(f"ada-{number}")) for number in range(4)]
    for old in ada[:2]:
        ended = old.finished()
        assert ended.messages[-1]["result"]["resultType"] == "complete", "it ends politely"
    assert all(each.is_alive() for each in (bob, *ada[2:]))
    for each in (bob, *ada[2:]):
        each.writer.lose()
        each.finished()
    assert eventually(lambda: "0 clients" in repr(core.shares))


def test_streams_of_sessions_count_for_their_principal(stages: Any) -> None:
    stage = stages(limits=Limits(streams=8), auth=bearer())
    with stage.server.start_http() as running:
        clients = [Session(running, token="ada-1") for _ in range(3)]
        other = Session(running, token="bob-1")
        with ExitStack() as stack:
            streams = []
            for each in (other, *clients):
                streams.append(stack.enter_context(each.stream()))
                assert streams[-1].head()[0] == 200  # before the next one: the order counts
            streams[1].until(b"0\r\n\r\n")  # the oldest one of ada ends
            again = stack.enter_context(clients[0].stream())
            assert again.head()[0] == 200
            streams[2].until(b"0\r\n\r\n")
            assert all(each.adds() for each in (other, *clients))


def test_a_stream_that_is_sending_is_not_closed(stages: Any, monkeypatch: Any) -> None:
    stage = stages(limits=Limits(streams=4), auth=bearer())
    core = core_of(stage.server)
    busy = listening(core, **with_token("ada-1"))
    monkeypatch.setattr(responses.PostResponse, "is_sending", lambda self: True)
    refused = serve(core, alone(LISTEN, {"notifications": {}}, with_token("ada-1")))
    assert is_rejected(refused.status, refused.headers, refused.body, "open streams")
    busy.writer.lose()
    busy.finished()


# ------------------------------------------------------------ connections


def patient(running: RunningHttp) -> RunningHttp:
    """Close no connection because a test on a busy machine is slow."""
    running.timeouts = running.timeouts._replace(head=WAIT, idle=WAIT)
    return running


def ask(peer: Peer, token: str = "ada-1") -> Response:
    request = alone("tools/list", headers=with_token(token))
    lines = {name: value for name, value in request.headers.items() if name != "host"}
    return send(peer, json.loads(request.body), {"Host": "localhost", **lines}).response()


def test_idle_connections_of_a_principal_make_room_for_its_new_ones(stages: Any) -> None:
    stage = stages(auth=bearer(), http=HttpOptions(max_connections=8))
    with stage.server.start_http() as running, ExitStack() as stack:
        patient(running)

        def asked(peer: Peer, token: str = "ada-1") -> int:
            """Ask, and wait until the connection is idle. A busy one does not make room."""
            status = ask(peer, token).status
            assert eventually(lambda: not running.lent)
            return status

        other = stack.enter_context(Peer(running.port))
        assert asked(other, "bob-1") == 200
        peers = [stack.enter_context(Peer(running.port)) for _ in range(4)]
        assert [asked(peer) for peer in peers] == [200] * 4
        assert peers[0].rest() == peers[1].rest() == b"", "the oldest ones are closed"
        assert [asked(peers[2]), asked(peers[3]), asked(other, "bob-1")] == [200] * 3


def test_busy_connections_are_not_closed(stages: Any) -> None:
    stage = stages(auth=bearer(), http=HttpOptions(max_connections=8))
    with stage.server.start_http() as running, ExitStack() as stack:
        patient(running)
        client = Session(running, token="ada-1")
        assert eventually(lambda: not running.lent and not kept_connections(running)), (
            "those of its begin"
        )
        held = [stack.enter_context(client.call("hold", id=id)) for id in (1, 2)]
        assert eventually(lambda: len(stage.began) == 2)
        refused = stack.enter_context(client.call("add", {"a": 1, "b": 2})).response()
        assert is_rejected(refused.status, refused.headers, refused.body, "connections")
        assert ask(stack.enter_context(Peer(running.port)), "bob-1").status == 200
        stage.go.set()
        assert [peer.response().status for peer in held] == [200, 200]
        assert eventually(client.adds)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine counts as another one."""
    monkeypatch.setattr(
        counting, "counted_address", lambda address, trusted: None if trusted else "192.0.2.1"
    )


def test_one_address_has_its_share_of_connections(stages: Any, elsewhere: None) -> None:
    stage = stages(http=HttpOptions(max_connections=8))
    with stage.server.start_http() as running, ExitStack() as stack:
        patient(running)
        silent = [stack.enter_context(Peer(running.port)) for _ in range(6)]
        assert silent[0].rest() == silent[1].rest() == b"", "the oldest ones are closed"
        client = Session(running)
        assert eventually(lambda: not running.lent), "a connection of the handshake is busy"
        held = [stack.enter_context(client.call("hold", id=id)) for id in (1, 2)]
        assert eventually(lambda: len(stage.began) == 2)
        more = [stack.enter_context(Peer(running.port)) for _ in range(2)]
        for peer in more:
            peer.send(b"POST /mcp HTTP/1.1\r\n")
        refused = stack.enter_context(Peer(running.port)).response()
        assert is_rejected(refused.status, refused.headers, refused.body, "connections")
        stage.go.set()
        assert [peer.response().status for peer in held] == [200, 200]


def test_a_trusted_proxy_has_no_share(stages: Any, elsewhere: None) -> None:
    http = HttpOptions(max_connections=8, trusted_proxies=["127.0.0.1"])
    with stages(http=http).server.start_http() as running, ExitStack() as stack:
        patient(running)
        peers = [stack.enter_context(Peer(running.port)) for _ in range(8)]
        assert [ask(peer).status for peer in peers] == [200] * 8


def test_under_wsgi_addresses_have_no_share(stages: Any) -> None:
    stage = stages(limits=Limits(requests=8))
    app = stage.server.wsgi()
    for _ in range(8):
        request = call("add", {"a": 1, "b": 2})
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "REMOTE_ADDR": "192.0.2.1",
            "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(request.body)),
            "wsgi.input": io.BytesIO(request.body),
            **{"HTTP_" + name.upper().replace("-", "_"): text for name, text in request.headers.items()},
        }  # fmt: skip
        assert b"".join(app(environ, lambda status, headers: None))
    assert "0 clients" in repr(config_of(stage.server).shares)


# ------------------------------------------------------------ a client that disconnects


def leave(peer: Peer, how: str) -> None:
    if how == "reset":
        peer.reset()
    else:
        peer.close()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("tool", ["hold", "elsewhere"])
@pytest.mark.parametrize("revision", [R3, R4])
def test_the_connection_of_a_running_handler_is_released(
    stages: Any, revision: str, tool: str, how: str
) -> None:
    stage = stages()
    with stage.server.start_http() as running:
        client = Session(running, revision)
        counted = running.shares
        peer = client.call(tool)
        assert eventually(lambda: stage.began)
        core = endpoint_of(running)
        leave(peer, how)
        assert eventually(lambda: not running.lent and not kept_connections(running)), running
        key = next(iter(core.sessions.values())).key
        assert eventually(lambda: counted.used("connections", ("session", key)) == 0)
        assert counted.used("requests", ("session", key)) == 1, "the handler is running"
        assert client.adds() and not stage.ended
        stage.go.set()
        assert eventually(lambda: stage.ended == ["hold"]), "the protocol lets it run on"
        assert eventually(lambda: not open_responses(core) and not left_connections(running))
        assert eventually(
            lambda: "0 clients" in repr(counted) or counted.used("requests", ("session", key)) == 0
        )


def test_a_worker_that_only_held_the_connection_is_released(stages: Any) -> None:
    stage = stages()
    with stage.server.start_http() as running:
        client = Session(running)
        for id in range(20):
            peer = client.call("elsewhere", id=id)
            assert eventually(lambda most=id: len(stage.began) > most)
            peer.close()
        assert eventually(lambda: not running.lent and not left_connections(running)), running
        stage.go.set()
        assert eventually(
            lambda: len(stage.ended) == 20 and not open_responses(endpoint_of(running))
        )


def test_a_call_whose_client_has_left_can_be_cancelled(stages: Any) -> None:
    stage = stages()
    with stage.server.start_http() as running:
        client = Session(running)
        peer = client.call("elsewhere", id="mine")
        assert eventually(lambda: stage.began)
        peer.close()
        core = endpoint_of(running)
        assert eventually(lambda: not running.lent and not left_connections(running))
        told = message("notifications/cancelled", {"requestId": "mine"}, None)
        assert client.response(told).status == 202
        assert eventually(lambda: not open_responses(core) and not len(core.requests))


def test_the_answer_can_be_fetched_by_a_client_that_has_seen_the_stream(stages: Any) -> None:
    stage = stages()
    with stage.server.start_http() as running:
        client = Session(running, elicitation={})
        peer = client.call("ask")
        assert peer.head()[0] == 200
        text = peer.until(b"elicitation/create")
        ids = re.findall(rb"id: (\S+)", text)
        peer.close()
        assert eventually(lambda: not running.lent and len(left_connections(running)) == 1)
        session = next(iter(endpoint_of(running).sessions.values()))
        answer = {"jsonrpc": "2.0", "id": session.calls.pending()[0].id,
                  "result": {"action": "accept", "content": {"name": "Ada"}}}  # fmt: skip
        assert client.response(answer).status == 202
        assert eventually(lambda: not left_connections(running))
        client.headers["Last-Event-ID"] = ids[0].decode()
        with client.stream() as again:
            assert b'"text":"Ada"' in again.response().body


@pytest.mark.parametrize("sees", ["nothing", "nothing that is kept"])
def test_a_question_that_no_client_can_see_ends(
    stages: Any, sees: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has left before anything was sent, or nothing that was sent is kept."""
    monkeypatch.setattr(responses, "UNSEEN_SECONDS", 0.2)
    stage = stages(http=HttpOptions(event_store=None if sees == "nothing" else False))
    with stage.server.start_http() as running:
        client = Session(running, R3, elicitation={})
        peer = client.call("ask_late" if sees == "nothing" else "ask")
        if sees == "nothing":
            assert eventually(lambda: stage.began)
        else:
            peer.until(b"elicitation/create")
        peer.close()
        assert eventually(lambda: left_connections(running))
        stage.go.set()
        assert eventually(lambda: stage.ended)
        assert isinstance(stage.ended[0], ConnectionLost) and "cannot see" in str(stage.ended[0])
        assert eventually(
            lambda: not left_connections(running) and not open_responses(endpoint_of(running))
        )


def test_a_question_that_a_client_can_fetch_waits(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked, after = threading.Event(), responses.timer.after
    monkeypatch.setattr(responses, "UNSEEN_SECONDS", 0.05)

    def checking(seconds: float, look: Any) -> Any:
        return after(seconds, lambda: (look(), checked.set()) if seconds == 0.05 else look())

    monkeypatch.setattr(responses.timer, "after", checking)
    stage = stages(limits=Limits(drain_grace=0.1))
    with stage.server.start_http() as running:
        client = Session(running, elicitation={})
        peer = client.call("ask")
        peer.until(b"elicitation/create")
        peer.close()
        assert checked.wait(WAIT) and not stage.ended
        session = next(iter(endpoint_of(running).sessions.values()))
        assert len(session.calls) == 1


def test_a_peer_that_has_only_stopped_sending_gets_its_response(stages: Any) -> None:
    stage = stages()
    with stage.server.start_http() as running:
        running.timeouts = running.timeouts._replace(leave=WAIT)
        with Session(running).call("hold") as peer:
            assert eventually(lambda: stage.began)
            peer.finish()
            assert eventually(
                lambda: any(each.writer and each.writer.gone for each in running.lent)
            )
            stage.go.set()
            assert peer.response().status == 200


def test_after_a_thousand_abandoned_calls_other_clients_are_served(stages: Any) -> None:
    """tests/bench measures the time."""
    stage = stages(limits=Limits(requests=400), http=HttpOptions(max_connections=400))
    with stage.server.start_http() as running:
        other, client = Session(running), Session(running, elicitation={})
        before = threading.active_count()
        for id in range(1000):
            client.call("ask" if id % 2 else "hold", id=id).close()
        assert eventually(other.adds)
        with Peer(running.port) as new:
            assert ask(new).status == 200
        assert eventually(lambda: not running.lent), running
        # A quarter of the requests, and a few threads of the server.
        assert eventually(lambda: threading.active_count() - before <= 100 + 10)
        assert (
            len(open_responses(endpoint_of(running))) <= 100
            and len(left_connections(running)) <= 100
        )
        assert other.adds()


# ------------------------------------------------------------ descriptors


class Scarce:
    """Accept connections in a process that may open this many files."""

    def __init__(self, running: RunningHttp, most: int) -> None:
        self._running, self._most, self._accept = running, most, socket.socket.accept
        self._waiting: Any = None

    def accept(self, listener: socket.socket) -> Any:
        accepted = self._waiting or self._accept(listener)
        if len(kept_connections(self._running)) + len(self._running.lent) >= self._most:
            self._waiting = accepted  # the system would leave it in its queue
            raise OSError(errno.EMFILE, "Too many open files")
        self._waiting = None
        return accepted


def test_without_descriptors_as_many_connections_are_closed_as_are_waiting(
    stages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PAUSE_SECONDS", 10 * WAIT)
    with stages().server.start_http() as running, ExitStack() as stack:
        scarce = Scarce(running, 8)
        monkeypatch.setattr(socket.socket, "accept", lambda sock: scarce.accept(sock))
        silent = [stack.enter_context(Peer(running.port)) for _ in range(40)]
        with Peer(running.port) as peer:
            assert ask(peer).status == 200, "it waits for no pause"
        assert sum(each.rest() == b"" for each in silent[:30]) == 30


@pytest.mark.parametrize(
    "files, wanted, most",
    [(1024, 1000, 832), (1024, 500, 500), (1024, None, 832), (64, 1000, 48), (4, 1000, 3)],
)
def test_connections_are_limited_by_the_files_that_a_process_may_open(
    files: int, wanted: Optional[int], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    resource = pytest.importorskip(
        "resource", reason="needs the limits of POSIX (the module resource)"
    )
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    found, spare = http_server.limited_connections(wanted)
    assert found == most and found + spare <= files


# ------------------------------------------------------------ tokens that end


class Tokens:
    """Issue tokens that end when the test ends them."""

    def __init__(self) -> None:
        self.expires: Optional[float] = None
        self.revoked = self.failing = False
        self.checks = 0

    def verify(self, token: str) -> Optional[Dict[str, Any]]:
        self.checks += 1
        if self.failing:
            raise OSError("the issuer is away")
        if self.revoked:
            return None
        claims: Dict[str, Any] = {"sub": "ada", "aud": "test"}
        return claims if self.expires is None else {**claims, "exp": self.expires}


@pytest.mark.parametrize("kind", ["listen", "stream", "sse"])
@pytest.mark.parametrize("end", ["expires", "revoked"])
def test_a_stream_ends_with_its_token(
    stages: Any, kind: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = Tokens()
    stage = stages(auth=Bearer(tokens.verify, audience="test"))
    if end == "revoked":
        monkeypatch.setattr(endpoints, "TOKEN_SECONDS", 0.05)
    with stage.server.start_http(legacy_sse=True) as running:
        client = Session(running, token="word")
        if end == "expires":
            tokens.expires = time.time() + 1.5
        if kind == "listen":
            request = alone(LISTEN, {"notifications": {}}, with_token("word"))
            lines = {name: value for name, value in request.headers.items() if name != "host"}
            peer = send(
                Peer(running.port), json.loads(request.body), {"Host": "localhost", **lines}
            )
        elif kind == "stream":
            peer = client.stream()
        else:
            more = "Accept: text/event-stream\r\nAuthorization: Bearer word\r\n"
            peer = Peer(running.port).send(
                f"GET /sse HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode()
            )
        with peer:
            assert peer.head()[0] == 200
            if end == "revoked":
                tokens.failing = True
                checks = tokens.checks
                assert eventually(lambda: tokens.checks > checks + 1), "it is checked again"
                tokens.failing = False
                tokens.revoked = True
            body = b"".join(iter(peer.chunk, b""))
        if kind == "listen":
            assert b'"resultType":"complete"' in body, "it ends politely"
        assert eventually(lambda: not token_checks(endpoint_of(running)))
        tokens.revoked, tokens.expires = False, None
        assert client.adds(), "the session goes on with another token"


def test_no_check_is_left_of_a_stream_that_has_ended(stages: Any) -> None:
    stage = stages(auth=bearer())
    core = core_of(stage.server)
    stream = listening(core, **with_token("ada-1"))
    assert len(token_checks(core)) == 1
    stream.writer.lose()
    stream.finished()
    assert not token_checks(core)
