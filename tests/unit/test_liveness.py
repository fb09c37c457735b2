"""``ping_interval``: which idle peers are pinged, and what happens when they do not respond. The test
moves the clock."""

from __future__ import annotations

import json
import logging
import sys
import threading
from typing import Any, Callable, Dict, Iterator, List

import pytest

import minimcp
from minimcp import Server, StdioServer
from minimcp.engine import liveness
from minimcp.engine.calls import Calls, PendingCall
from minimcp.engine.connection import Connection
from minimcp.errors import Busy, SessionGone

from ..answering import R2, R4, R5, REVISIONS, Answering, error, initialized, result, silence
from ..inside import connection_of, forget_servers, session_of
from ..scripted import ScriptedClock, ScriptedPipe, notice, request, wait_for
from ..support import ROOT, WAIT, eventually
from ..transports.http_app import Shaken, alone, core_of, serve
from ..transports.test_shared_sessions import SharedMemory
from ..transports.test_sse_server import Old, sse_of
from ..web import Heard, Peer, Wire

INTERVAL = 30.0
HANDSHAKES = [each for each in REVISIONS if each != R5]

requirement = pytest.mark.requirement


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ScriptedClock:
    made = ScriptedClock()
    monkeypatch.setattr(liveness, "process_timer", made)
    return made


@pytest.fixture
def failures(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], List[str]]]:
    with caplog.at_level(logging.WARNING, "minimcp.liveness"):
        yield lambda: [
            each.getMessage() for each in caplog.records if each.name == "minimcp.liveness"
        ]


def open_client(server: Any, revision: str = R4, **options: Any) -> minimcp.Client:
    given = {"timeout": WAIT, "connect_timeout": WAIT, "ping_interval": INTERVAL, **options}
    return minimcp.connect(server, revision=revision, **given)


def settled(client: minimcp.Client) -> bool:
    """Wait until the client has got the response to its last ping."""
    calls = session_of(client).calls
    return eventually(lambda: all(each.stays_open for each in calls.pending()))


# ------------------------------------------------------------ a client over lines


@requirement("PING-04", "PING-05")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_pings_an_idle_server(revision: str, clock: ScriptedClock, failures: Any) -> None:
    method = "server/discover" if revision == R5 else "ping"
    server = Answering({"initialize": initialized(revision), "ping": result()}, modern=True)
    with open_client(server, revision) as client:
        before = server.pipe.methods().count(method)
        clock.advance(INTERVAL - 1)
        assert server.pipe.methods().count(method) == before
        clock.advance(1)
        for number in range(1, 6):
            assert eventually(
                lambda number=number: server.pipe.methods().count(method) == before + number
            )
            assert settled(client)
            clock.advance(INTERVAL)
        sent = [each for each in server.pipe.messages if each.get("method") == method]
        assert ("params" in sent[-1]) is (revision == R5), "each request stands alone"
        assert client.loss is None
    assert failures() == []
    assert clock.waiting == 0, "a closed client pings no more"


@requirement("PING-03", "PING-06", "PING-07")
@pytest.mark.parametrize("revision", REVISIONS)
def test_three_failures_in_a_row_end_the_connection(
    revision: str, clock: ScriptedClock, failures: Any
) -> None:
    server = Answering({"initialize": initialized(revision), "ping": silence}, modern=True)
    with open_client(server, revision) as client:
        server.answers["server/discover"] = silence
        for number in range(3):
            clock.advance(INTERVAL)
            assert len(failures()) == number and client.loss is None
        clock.advance(INTERVAL)
        assert len(failures()) == 3 and "failure 3 of 3" in failures()[-1]
        assert isinstance(client.loss, minimcp.ConnectionLost)
        with pytest.raises(minimcp.ConnectionLost, match="3 pings in a row, 30 s apart"):
            client.call_tool("work")
        pipe = server.pipe
        assert eventually(lambda: pipe.closed)
    assert clock.waiting == 0


def test_the_next_call_begins_another_connection(clock: ScriptedClock, failures: Any) -> None:
    server = Answering({"ping": silence, "tools/call": result(content=[])})
    with open_client(server, restart=True) as client:
        first = server.pipe
        for _ in range(4):
            clock.advance(INTERVAL)
        assert client.call_tool("work").content == []
        assert server.pipe is not first
        server.answers["ping"] = result()
        clock.advance(INTERVAL)  # the call was a sign of life
        clock.advance(INTERVAL)
        assert eventually(lambda: "ping" in server.pipe.methods()), "the new one is pinged, too"
    assert len(failures()) == 3


@pytest.mark.parametrize(
    "answer", [error(-32601), error(-32603), result(odd=1), lambda _: {"result": 5}]
)
def test_any_response_is_a_sign_of_life(answer: Any, clock: ScriptedClock, failures: Any) -> None:
    server = Answering({"ping": answer})
    with open_client(server) as client:
        for _ in range(6):
            clock.advance(INTERVAL)
            assert settled(client)
        assert client.loss is None
    assert failures() == []


def test_a_response_that_is_late(clock: ScriptedClock, failures: Any) -> None:
    server = Answering({"ping": silence})

    def ids() -> List[Any]:
        return [each["id"] for each in server.pipe.messages if each.get("method") == "ping"]

    with open_client(server) as client:
        for number in range(1, 3):
            clock.advance(INTERVAL)
            assert eventually(lambda number=number: len(ids()) == number)
        assert len(failures()) == 1
        server.pipe.give({"jsonrpc": "2.0", "id": ids()[0], "result": {}})  # of the first ping
        server.answers["ping"] = result()
        clock.advance(INTERVAL)
        assert len(failures()) == 2, "the second one has none"
        assert settled(client)
        for _ in range(5):
            clock.advance(INTERVAL)
            assert settled(client)
        assert len(failures()) == 2 and client.loss is None, "one response ends the row"
        server.answers["ping"] = silence
        for _ in range(4):
            clock.advance(INTERVAL)
        assert len(failures()) == 5 and client.loss is not None


@requirement("PING-05")
def test_no_ping_is_sent_while_a_call_runs(clock: ScriptedClock, failures: Any) -> None:
    server = Answering({"ping": silence, "tools/call": silence})
    with open_client(server) as client:
        for _ in range(3):
            clock.advance(INTERVAL)
        assert len(failures()) == 2
        call = client.submit(client.call_tool, "slow")
        assert eventually(lambda: "tools/call" in server.pipe.methods())
        count = server.pipe.methods().count("ping")
        for _ in range(10):
            clock.advance(INTERVAL)
        assert server.pipe.methods().count("ping") == count
        call.cancel()
        assert eventually(lambda: not session_of(client).calls.pending())
        clock.advance(INTERVAL)
        assert len(failures()) == 2
        clock.advance(INTERVAL)
        assert "failure 1 of 3" in failures()[-1] and client.loss is None


def test_whatever_the_server_sends_is_a_sign_of_life(clock: ScriptedClock, failures: Any) -> None:
    server = Answering({"ping": silence})
    with open_client(server) as client:
        for sent in (notice("notifications/message", level="info", data=1), request("s1", "ping")):
            connection = connection_of(client)
            server.pipe.give(sent)
            assert eventually(lambda connection=connection: connection.was_active)
            clock.advance(INTERVAL)
        assert "ping" not in server.pipe.methods()
        clock.advance(INTERVAL)
        assert eventually(lambda: "ping" in server.pipe.methods())
    assert failures() == []


def test_a_stream_that_stays_open_is_not_a_call(clock: ScriptedClock, failures: Any) -> None:
    def acknowledge(message: Dict[str, Any]) -> None:
        server.pipe.give(
            notice(
                "notifications/subscriptions/acknowledged",
                notifications=message["params"]["notifications"],
                _meta={"io.modelcontextprotocol/subscriptionId": message["id"]},
            )
        )

    declared = result(supportedVersions=[R5], capabilities={"tools": {"listChanged": True}})
    server = Answering({"subscriptions/listen": acknowledge, "server/discover": declared})
    with open_client(server, R5, on_tools_changed=lambda: None) as client:
        calls = session_of(client).calls
        assert eventually(lambda: [each.stays_open for each in calls.pending()] == [True])
        clock.advance(INTERVAL)  # its first notification may come at this moment
        count = server.pipe.methods().count("server/discover")
        for number in range(1, 4):
            assert settled(client)
            clock.advance(INTERVAL)
            assert eventually(
                lambda number=number: (
                    server.pipe.methods().count("server/discover") >= count + number - 1
                )
            )
    assert failures() == []


def test_a_server_in_memory_is_not_pinged(clock: ScriptedClock) -> None:
    server = Server("near", ping_interval=INTERVAL)
    with open_client(server):
        assert clock.waiting == 0


# ------------------------------------------------------------ a client over HTTP


def over_http(peer: Peer, revision: str = R5, **options: Any) -> minimcp.Client:
    forget_servers()
    return open_client(peer.url, revision, **options)


@requirement("PING-04")
@pytest.mark.parametrize("handshake", [False, True])
def test_a_client_over_http(handshake: bool, clock: ScriptedClock, failures: Any) -> None:
    method = "ping" if handshake else "server/discover"
    ping: Any = {"ping": lambda heard, wire: wire.result({})} if handshake else {}
    with Peer(ping, handshake=handshake) as peer:
        with over_http(peer, R4 if handshake else R5) as client:
            count = len(peer.all(method))
            for number in range(1, 4):
                clock.advance(INTERVAL)
                peer.wait_for(method, count + number)
                assert settled(client)
            assert client.loss is None
            assert client.call_tool("work").text == "done"
    assert failures() == [] and clock.waiting == 0


@requirement("PING-03", "PING-06", "PING-07")
@pytest.mark.parametrize("restart", [False, True])
def test_a_server_over_http_that_does_not_respond(
    restart: bool, clock: ScriptedClock, failures: Any
) -> None:
    over, dead = threading.Event(), threading.Event()

    def ping(heard: Heard, wire: Wire) -> None:
        if dead.is_set():
            over.wait(WAIT)
        else:
            wire.result({})

    with Peer({"ping": ping}, handshake=True) as peer:
        with over_http(peer, R4, restart=restart) as client:
            dead.set()
            for number in range(3):
                clock.advance(INTERVAL)
                peer.wait_for("ping", number + 1)
            assert client.loss is None
            clock.advance(INTERVAL)
            assert len(failures()) == 3
            dead.clear()
            over.set()
            if restart:
                assert client.call_tool("work").text == "done"
                assert len(peer.all("initialize")) == 2
            else:
                with pytest.raises(minimcp.ConnectionLost, match="3 pings in a row"):
                    client.call_tool("work")


@pytest.mark.parametrize(("status", "is_alive"), [
    (400, True), (401, True), (403, True), (429, False), (500, False), (502, False), (503, False),
])  # fmt: skip
def test_errors_over_http(status: int, is_alive: bool, clock: ScriptedClock, failures: Any) -> None:
    def ping(heard: Heard, wire: Wire) -> None:
        wire.whole(status, b"no", "text/plain")

    with Peer({"ping": ping}, handshake=True, session=None) as peer:
        with over_http(peer, R4) as client:
            for number in range(1, 3):
                clock.advance(INTERVAL)
                peer.wait_for("ping", number)
                assert settled(client)
            clock.advance(INTERVAL)
            assert len(failures()) == (0 if is_alive else 2)


def test_a_client_over_http_and_sse(clock: ScriptedClock, failures: Any) -> None:
    server = Server("old")
    with server.start_http(legacy_sse=True) as running:
        forget_servers()
        url = running.url.replace("/mcp", "/sse")
        with open_client(url, "handshake") as client:
            for _ in range(4):
                clock.advance(INTERVAL)
                assert settled(client)
            assert client.loss is None
    assert failures() == []


# ------------------------------------------------------------ a server


class Serving:
    """A server at the other end of a scripted pipe."""

    def __init__(self) -> None:
        self.go, self.entered, self.ended = (threading.Event() for _ in range(3))
        self.server = Server("pinging", ping_interval=INTERVAL)
        self.pipe = ScriptedPipe()

        @self.server.tool
        def hold() -> str:
            """Wait for the test."""
            self.entered.set()
            wait_for(self.go)
            return "done"

        self.connection: Connection = self.server.connect(self.pipe, on_lost=self.ended.set)

    def handshake(self, revision: str = R4) -> None:
        info = {"name": "test", "version": "1"}
        self.pipe.give(
            request(0, "initialize", protocolVersion=revision, capabilities={}, clientInfo=info),
            notice("notifications/initialized"),
            request("fence", "ping"),
        )
        self.pipe.lines(2)  # the reader has taken all three
        assert eventually(lambda: not self.connection.requests)

    def pings(self) -> List[Any]:
        lines = [json.loads(line) for line in self.pipe.sent.splitlines()]
        return [each["id"] for each in lines if each.get("method") == "ping"]

    def ping(self, number: int) -> Any:
        assert eventually(lambda number=number: len(self.pings()) == number), self.pipe.sent
        return self.pings()[-1]


@pytest.fixture
def serving(clock: ScriptedClock) -> Iterator[Serving]:
    made = Serving()
    yield made
    made.go.set()
    made.server.close()


@requirement("PING-04", "PING-05")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_server_pings_an_idle_client(
    revision: str, serving: Serving, clock: ScriptedClock, failures: Any
) -> None:
    clock.advance(10 * INTERVAL)
    assert serving.pings() == [], "before the handshake it does not know whom"
    serving.handshake(revision)
    clock.advance(INTERVAL)  # the handshake was a sign of life
    assert serving.pings() == []
    for number in range(1, 5):
        clock.advance(INTERVAL)
        id = serving.ping(number)
        serving.pipe.give({"jsonrpc": "2.0", "id": id, "result": {}})
        assert eventually(lambda: not serving.connection.calls.pending())
    assert failures() == [] and not serving.ended.is_set()


@requirement("PING-03", "PING-06", "PING-07")
def test_a_server_loses_a_client_that_does_not_respond(
    serving: Serving, clock: ScriptedClock, failures: Any
) -> None:
    serving.handshake()
    for _ in range(4):
        clock.advance(INTERVAL)
    serving.ping(3)
    assert len(failures()) == 2 and not serving.ended.is_set()
    clock.advance(INTERVAL)
    wait_for(serving.ended)
    assert len(failures()) == 3 and clock.waiting == 0


def test_a_server_does_not_ping_while_a_call_runs(
    serving: Serving, clock: ScriptedClock, failures: Any
) -> None:
    serving.handshake()
    serving.pipe.give(request(1, "tools/call", name="hold"))
    wait_for(serving.entered)
    clock.advance(10 * INTERVAL)
    assert serving.pings() == []
    serving.go.set()
    assert eventually(serving.connection.requests.are_idle)
    clock.advance(INTERVAL)
    serving.ping(1)
    assert failures() == []


def test_a_server_does_not_ping_stateless_clients(serving: Serving, clock: ScriptedClock) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": R5,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    serving.pipe.give(request(1, "server/discover", _meta=meta))
    serving.pipe.lines(1)
    clock.advance(10 * INTERVAL)
    assert serving.pings() == []


# ------------------------------------------------------------ a server's HTTP sessions


def pings_in(stream: Any) -> List[Any]:
    return [each["id"] for each in stream.writer.messages if each.get("method") == "ping"]


@requirement("PING-04", "PING-05")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_a_session_with_an_open_stream_is_pinged(
    revision: str, clock: ScriptedClock, failures: Any
) -> None:
    server = Server("web", ping_interval=INTERVAL)
    core = core_of(server)
    silent, client = Shaken(core, revision), Shaken(core, revision)
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    session = core.sessions[client.headers["Mcp-Session-Id"]]
    assert eventually(lambda: session.pinger is not None)
    for number in range(1, 5):
        clock.advance(INTERVAL)
        stream.writer.wait_for(lambda number=number: len(pings_in(stream)) == number)
        pong = {"jsonrpc": "2.0", "id": pings_in(stream)[-1], "result": {}}
        assert client.send(pong).status == 202
    assert core.sessions[silent.headers["Mcp-Session-Id"]].pinger is None
    assert client.request("ping").status == 200
    clock.advance(INTERVAL)
    assert len(pings_in(stream)) == 4, "a request is a sign of life"
    core.close()
    stream.finished()
    server.close()
    assert failures() == [] and clock.waiting == 0


@requirement("PING-03", "PING-06", "PING-07")
def test_a_session_whose_client_does_not_respond_ends(clock: ScriptedClock, failures: Any) -> None:
    server = Server("web", ping_interval=INTERVAL)
    core = core_of(server)
    client = Shaken(core)
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    session = core.sessions[client.headers["Mcp-Session-Id"]]
    assert eventually(lambda: session.pinger is not None)
    for _ in range(5):
        clock.advance(INTERVAL)
    assert len(failures()) == 3
    stream.finished()
    assert eventually(lambda: not core.sessions)
    assert client.request("ping").status == 404
    core.close()
    server.close()


def test_a_stream_that_was_left_is_not_pinged(clock: ScriptedClock, failures: Any) -> None:
    server = Server("web", ping_interval=INTERVAL)
    core = core_of(server)
    client = Shaken(core)
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    session = core.sessions[client.headers["Mcp-Session-Id"]]
    assert eventually(lambda: session.pinger is not None)
    stream.writer.lose()
    stream.finished()
    for _ in range(6):
        clock.advance(INTERVAL)
    assert failures() == [] and client.request("ping").status == 200
    again = client.listen()
    again.writer.wait_for(lambda: again.writer.streamed)
    clock.advance(INTERVAL)
    clock.advance(INTERVAL)
    again.writer.wait_for(lambda: pings_in(again))
    core.close()
    again.finished()
    server.close()


def test_stateless_requests_have_no_session(clock: ScriptedClock) -> None:
    server = Server("web", ping_interval=INTERVAL)
    core = core_of(server)
    assert serve(core, alone("server/discover")).status == 200
    assert clock.waiting == 0
    core.close()


def test_the_response_may_arrive_at_another_process(clock: ScriptedClock, failures: Any) -> None:
    store = SharedMemory()
    servers = [Server("web", ping_interval=INTERVAL, store=store) for _ in range(2)]
    cores = [core_of(each) for each in servers]
    client = Shaken(cores[0])
    stream = client.listen()
    stream.writer.wait_for(lambda: stream.writer.streamed)
    session = cores[0].sessions[client.headers["Mcp-Session-Id"]]
    assert eventually(lambda: session.pinger is not None)
    client.core = cores[1]
    for number in range(1, 5):
        clock.advance(INTERVAL)
        stream.writer.wait_for(lambda number=number: len(pings_in(stream)) == number)
        pong = {"jsonrpc": "2.0", "id": pings_in(stream)[-1], "result": {}}
        assert client.send(pong).status == 202
        assert eventually(lambda: not session.calls.pending())
    assert failures() == []
    for core, server in zip(cores, servers):
        core.close()
        server.close()
    stream.finished()


def test_a_client_over_http_and_sse_is_pinged(clock: ScriptedClock, failures: Any) -> None:
    server = Server("old", ping_interval=INTERVAL)
    sse = sse_of(server)
    old = Old(sse)
    old.open()
    assert eventually(lambda: clock.waiting), "the thread of its stream orders the first ping"
    clock.advance(INTERVAL)
    clock.advance(INTERVAL)
    old.writer.wait_for(lambda: any(each.get("method") == "ping" for each in old.said()))
    sse.close()
    old.stream.finished()
    server.close()
    assert len(failures()) <= 1, "its handshake may come before or after the first look"


# ------------------------------------------------------------ both ends, with processes


@pytest.mark.parametrize("revision", [R2, R4, R5])
def test_two_idle_ends_keep_their_connection(revision: str, failures: Any) -> None:
    program = "from minimcp import Server\nServer('live', ping_interval=1).run()\n"
    target = StdioServer([sys.executable, "-c", program], cwd=str(ROOT))
    seen: List[str] = []
    with open_client(
        target,
        revision,
        ping_interval=1 if revision == R5 else 9,
        trace=lambda arrow, text: seen.append(arrow + text),
    ) as client:
        method = '"server/discover"' if revision == R5 else '"ping"'
        arrow = "-->" if revision == R5 else "<--"
        assert eventually(
            lambda: sum(method in each and each.startswith(arrow) for each in list(seen)) > 1
        )
        assert client.loss is None


# ------------------------------------------------------------ the pinger by itself


class Target(liveness.Pinged):
    """An idle peer. Pings that are sent are in ``pings``; ``failing`` is raised instead."""

    def __init__(self) -> None:
        self.calls = Calls("unit", lambda line, deadline: True, lambda line: None)
        self.pings: List[PendingCall] = []
        self.failing: Any = None

    def is_idle(self) -> bool:
        return True

    def send_ping(self) -> Any:
        if self.failing is not None:
            raise self.failing
        self.pings.append(self.calls.ping("ping", lambda id: {}))
        return self.pings[-1]


def test_a_connection_that_has_ended_is_not_pinged(clock: ScriptedClock) -> None:
    target = Target()
    target.calls.close(minimcp.ConnectionLost("gone"))
    liveness.start_pings(target, "unit", INTERVAL)
    assert clock.waiting == 0 and target.pinger is not None


def test_a_ping_that_cannot_be_sent_is_the_last(clock: ScriptedClock, failures: Any) -> None:
    target = Target()
    target.failing = minimcp.ConnectionLost("gone")
    liveness.start_pings(target, "unit", INTERVAL)
    clock.advance(INTERVAL)
    assert clock.waiting == 0 and failures() == []


def test_a_pinger_that_is_stopped_while_its_timer_fires_sends_nothing() -> None:
    fired: List[Any] = []

    class Firing:
        """A timer that cannot be cancelled in time."""

        def after(self, seconds: float, callback: Any) -> Any:
            fired.append(callback)
            return int

    timer: Any = Firing()
    target = Target()
    pinger = liveness.Pinger(target, "unit", INTERVAL, timer).start()
    pinger.stop()
    fired.pop()()
    assert target.pings == [] and fired == []


@pytest.mark.parametrize("outcome", [SessionGone("gone"), Busy("later", 1)])
def test_a_server_that_rejects_a_ping_has_responded(
    outcome: Any, clock: ScriptedClock, failures: Any
) -> None:
    target = Target()
    liveness.start_pings(target, "unit", INTERVAL)
    for number in range(1, 6):
        clock.advance(INTERVAL)
        assert len(target.pings) == number
        target.calls.settle(target.pings[-1].id, outcome)
    assert failures() == []
    target.stop_pings()


# ------------------------------------------------------------ the option


@pytest.mark.parametrize(("value", "kind", "words"), [
    ("5", TypeError, "ping_interval must be a number of seconds or None, not '5'"),
    (True, TypeError, "ping_interval must be a number of seconds or None, not True"),
    ([], TypeError, "ping_interval must be a number of seconds or None"),
    (0, ValueError, "ping_interval must be more than 0 seconds, not 0: write None to disable it"),
    (-1, ValueError, "ping_interval must be at least 0, not -1"),
    (float("inf"), ValueError, "ping_interval must be a number of seconds or None, not inf"),
    (float("nan"), ValueError, "ping_interval must be a number of seconds or None, not nan"),
])  # fmt: skip
def test_values_that_are_rejected(value: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        Server("x", ping_interval=value)
    with pytest.raises(kind, match=words):
        minimcp.connect(Server("x"), ping_interval=value)
    with pytest.raises(kind, match=words):
        minimcp.connect_all({"x": Server("x")}, ping_interval=value)


def test_a_group_passes_it_on(clock: ScriptedClock) -> None:
    servers = {name: Answering({"ping": result()}) for name in ("one", "two")}
    with minimcp.connect_all(
        servers, revision=R4, ping_interval=INTERVAL, timeout=WAIT, connect_timeout=WAIT
    ):
        clock.advance(INTERVAL)
        for server in servers.values():
            assert eventually(lambda server=server: "ping" in server.pipe.methods())
    assert clock.waiting == 0
