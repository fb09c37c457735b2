"""A client after a loss: which call opens the next connection, which calls wait for it, and what
state moves to it."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace
from typing import Any, Dict, Iterator, List, Tuple

import pytest

import minimcp
from minimcp.client import reconnect, subscriptions
from minimcp.engine.timer import Deadline

from ..answering import R4, R5, Answering, error, initialized, result
from ..inside import session_of, sessions_of, waits_on
from ..scripted import Task, no_threads, notice, wait_for
from ..support import WAIT, eventually

ID = "io.modelcontextprotocol/subscriptionId"


class Server(Answering):
    """Follows its script on one connection after the other; `pipes` has them all.

    ``stuck`` makes the next openings wait for the event, and ``failing`` makes them raise.
    """

    def __init__(self, answers: Any = None, **more: Any) -> None:
        begin: Dict[str, Any] = {
            "work": result(done=True),
            "subscriptions/listen": self.acknowledge,
        }
        super().__init__({**begin, **(answers or {})}, **more)
        self.pipes: List[Any] = []
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()
        self.failing: List[BaseException] = []

    def open_pipe(self) -> Any:
        self.reached.set()
        wait_for(self.gate)
        if self.failing:
            raise self.failing.pop(0)
        self.pipes.append(super().open_pipe())
        return self.pipes[-1]

    def acknowledge(self, message: Any) -> None:
        """Agree to a stream."""
        params = message["params"]
        self.pipe.give(
            notice(
                "notifications/subscriptions/acknowledged",
                notifications=params["notifications"],
                _meta={ID: message["id"]},
            )
        )

    def die(self) -> None:
        """End the newest connection."""
        self.pipe.end()

    def sent(self, method: str) -> List[List[Any]]:
        """The params of a method, on each connection."""
        return [
            [each.get("params") for each in pipe.messages if each.get("method") == method]
            for pipe in self.pipes
        ]


def discovered(*names: str) -> Any:
    everything: Dict[str, Any] = {"listChanged": True, "subscribe": True}
    capabilities = {"tools": everything, "resources": everything, "logging": {}}
    info = {"name": names[0] if names else "scripted", "version": "0"}
    meta = {"io.modelcontextprotocol/serverInfo": info}
    return result(supportedVersions=[R5], capabilities=capabilities, _meta=meta)


def modern(answers: Any = None) -> Server:
    return Server({"server/discover": discovered(), **(answers or {})})


def lost(client: minimcp.Client, server: Server) -> None:
    """End the connection and wait until the client knows."""
    channel = session_of(client)
    server.die()
    assert channel.wait_until_ended(WAIT)


def waited_for(client: minimcp.Client, calls: int = 1) -> None:
    """Wait until this many calls wait for the next session."""
    sessions: Any = sessions_of(client)
    assert eventually(lambda: waits_on(sessions) == calls)


@pytest.fixture(params=[R4, R5])
def both(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Tuple[minimcp.Client, Server]]:
    """Yield a client that reconnects, in either era, with a short pause even after many losses."""
    monkeypatch.setattr(reconnect, "PAUSE_SECONDS", 0.01)
    server = Server() if request.param == R4 else modern()
    with minimcp.connect(server, revision=request.param, restart=True, timeout=WAIT) as client:
        yield client, server


def test_attributes_of_the_client_describe_the_newest_session() -> None:
    server = Server({"server/discover": [discovered("new"), error(-32601)]})
    with minimcp.connect(server, restart=True, timeout=WAIT) as client:
        assert client.server_info is not None and (client.server_info.name, client.revision) == (
            "new",
            R5,
        )
        lost(client, server)
        assert client.revision == R5 and "resources" in client.capabilities
        client.request("work")
        assert (client.server_info.name, client.revision) == ("scripted", R4)
        assert "resources" not in client.capabilities


def test_a_beginning_that_fails(both: Tuple[minimcp.Client, Server]) -> None:
    client, server = both
    lost(client, server)
    server.gate.clear()
    server.failing = [OSError("no memory")]
    tasks = [Task(client.request, "work") for _ in range(3)]
    waited_for(client, 3)
    server.gate.set()
    for task in tasks:
        with pytest.raises(minimcp.ConnectionFailed, match="could not be restarted: no memory"):
            task.result()
    server.failing = [minimcp.ConnectionFailed("no such program", exit_code=5)]
    with pytest.raises(
        minimcp.ConnectionFailed, match="a server in this process .*no such program"
    ) as caught:
        client.request("work")
    assert caught.value.exit_code == 5
    begin = "initialize" if client.revision == R4 else "server/discover"
    before, server.answers[begin] = server.answers[begin], lambda message: server.die()
    with pytest.raises(minimcp.ConnectionFailed):
        client.request("work")
    server.answers[begin] = error(-32022, "no", {"supported": ["1999-01-01"]})
    with pytest.raises(minimcp.ConnectionFailed, match="could not be restarted: "):
        client.request("work")
    server.answers[begin] = before
    assert client.request("work")["done"]


def test_a_caller_gives_up_and_the_new_session_still_opens(
    both: Tuple[minimcp.Client, Server],
) -> None:
    client, server = both
    lost(client, server)
    server.gate.clear()
    with pytest.raises(
        minimcp.RequestTimeout, match="restarting the server: no response within 0.02 s"
    ):
        client.request("work", timeout=0.02)
    token = minimcp.CancelToken()
    task = Task(lambda: client.list_tools(cancel=token))
    waited_for(client)
    token.cancel("enough")
    with pytest.raises(minimcp.Cancelled, match="^enough$"):
        task.result()
    with pytest.raises(TypeError, match="cancel must be a CancelToken"):
        client.request("work", cancel=5)  # type: ignore[arg-type]
    server.gate.set()
    assert client.request("work")["done"] and len(server.pipes) == 2


@pytest.mark.parametrize("where", ["opening", "agreeing", "hearing"])
def test_close_ends_it_for_good(where: str) -> None:
    server = modern()
    client = minimcp.connect(
        server, revision=R5, restart=True, timeout=WAIT, on_tools_changed=lambda: None
    )
    reached = server.reached
    lost(client, server)
    reached.clear()
    if where == "opening":
        server.gate.clear()
    else:
        method = "server/discover" if where == "agreeing" else "subscriptions/listen"
        server.answers[method] = lambda message: reached.set()
        server.reached = threading.Event()
    task = Task(client.request, "work")
    wait_for(reached)
    closing = Task(client.close)
    if where == "opening":
        assert eventually(lambda: sessions_of(client).closed)
        server.gate.set()
    with pytest.raises(minimcp.ConnectionLost, match="closed"):
        task.result()
    closing.result()
    assert all(pipe.closed for pipe in server.pipes)
    opened = len(server.pipes)
    with pytest.raises(minimcp.ConnectionLost):
        client.request("work")
    client.close()
    assert len(server.pipes) == opened


def test_a_client_that_is_dropped_while_the_next_session_begins() -> None:
    server = Server()
    client = minimcp.connect(server, restart=True, timeout=WAIT)
    sessions = sessions_of(client)
    lost(client, server)
    server.gate.clear()
    with pytest.raises(minimcp.RequestTimeout):
        client.request("work", timeout=0.02)
    del client
    assert eventually(lambda: gc.collect() >= 0 and sessions.closed)
    server.gate.set()
    assert eventually(lambda: [pipe.closed for pipe in server.pipes] == [True, True])


def test_a_fork_begins_nothing(both: Tuple[minimcp.Client, Server]) -> None:
    client, server = both
    lost(client, server)
    sessions_of(client).renew_in_fork()
    for call in (lambda: client.request("work"), lambda: client.subscribe("x:a"), client.ping):
        with pytest.raises(minimcp.ConnectionLost):
            call()
    assert len(server.pipes) == 1


# ------------------------------------------------------------ state that moves to the next session


@pytest.mark.requirement("M:STD-13")
def test_listening_continues_with_new_streams() -> None:
    heard: List[Any] = []
    server = modern()
    with minimcp.connect(
        server,
        revision=R5,
        restart=True,
        timeout=WAIT,
        on_tools_changed=lambda: heard.append("tools"),
        on_resource_updated=heard.append,
    ) as client:
        client.subscribe("x:a")
        client.subscribe("x:b")
        client.unsubscribe("x:b")
        with client.listen(tools_list_changed=True) as changes:
            lost(client, server)
            with pytest.raises(minimcp.ConnectionLost):
                changes.next(WAIT)
            assert heard == []
            assert client.request("work")["done"]
            with pytest.raises(minimcp.ConnectionLost):
                changes.next(WAIT)
        assert eventually(lambda: heard == ["tools", "x:a"]), "something may have changed meanwhile"
        wanted = [each["notifications"] for each in server.sent("subscriptions/listen")[1]]
        assert wanted == [{"toolsListChanged": True, "resourceSubscriptions": ["x:a"]}]
        stream = next(
            each["id"] for each in server.pipe.messages if each["method"] == "subscriptions/listen"
        )
        server.pipe.give(notice("notifications/resources/updated", uri="x:a/1", _meta={ID: stream}))
        assert eventually(lambda: heard[2:] == ["x:a/1"])
        client.subscribe("x:c")
        lost(client, server)
        client.request("work")
        wanted = [
            each["notifications"]["resourceSubscriptions"]
            for each in server.sent("subscriptions/listen")[2]
        ]
        assert wanted == [["x:a", "x:c"]]


@pytest.mark.requirement("M:STD-13")
def test_a_new_session_gets_the_settings_of_the_previous_one() -> None:
    heard: List[Any] = []
    everything = {"listChanged": True, "subscribe": True}
    answers = {
        "initialize": initialized(tools=everything, resources=everything, logging={}),
        **dict.fromkeys(
            ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"), result()
        ),
    }
    server = Server(answers)
    with minimcp.connect(
        server, revision=R4, restart=True, timeout=WAIT, on_resource_updated=heard.append
    ) as client:
        client.set_log_level("error")
        client.set_log_level("debug")
        client.subscribe("x:a")
        client.subscribe("x:b")
        client.unsubscribe("x:a")
        for number in (1, 2):
            lost(client, server)
            client.request("work")
            assert server.sent("logging/setLevel")[number] == [{"level": "debug"}]
            assert server.sent("resources/subscribe")[number] == [{"uri": "x:b"}]
            assert eventually(lambda number=number: heard == ["x:b"] * number)  # type: ignore[misc]


def test_the_log_level_stays_where_each_request_says_it() -> None:
    server = modern({"subscriptions/listen": error(-32603, "not now")})
    with minimcp.connect(server, revision=R5, restart=True, timeout=WAIT, cache=False) as client:
        client.set_log_level("debug")
        for _ in range(2):
            lost(client, server)
            client.request("work")
        levels = [
            each["_meta"].get("io.modelcontextprotocol/logLevel")
            for [each] in server.sent("work")[1:]
        ]
        assert levels == ["debug", "debug"]


def test_cached_results_and_schemas_of_a_server_are_forgotten() -> None:
    def tools(name: str, kind: str) -> Any:
        schema = {"type": "object"}
        tool = {"name": name, "inputSchema": schema, "outputSchema": {"type": kind}}
        return result(tools=[tool], ttlMs=60_000)

    call = result(content=[], structuredContent="x")
    server = modern(
        {"tools/list": [tools("a", "string"), tools("b", "string")], "tools/call": call}
    )
    with minimcp.connect(server, revision=R5, restart=True, timeout=WAIT) as client:
        assert [tool.name for _ in range(2) for tool in client.list_tools()] == ["a", "a"]
        server.answers["tools/call"] = result(content=[], structuredContent=1)
        with pytest.raises(minimcp.ProtocolViolation):
            client.call_tool("a")
        lost(client, server)
        assert client.call_tool("a").value == 1
        assert [tool.name for _ in range(2) for tool in client.list_tools()] == ["b", "b"]


# ------------------------------------------------------------ events at the same moment


def test_without_a_thread_it_is_tried_again_later(
    both: Tuple[minimcp.Client, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = both
    lost(client, server)
    with (
        no_threads(monkeypatch, "minimcp-restart"),
        pytest.raises(minimcp.ConnectionFailed, match="new thread"),
    ):
        client.request("work")
    assert client.request("work")["done"]


@pytest.mark.parametrize(
    ("what", "revision"), [("subscription", R4), ("subscription", R5), ("log level", R4)]
)
def test_a_setting_that_a_lost_server_accepted_is_kept_or_the_caller_gets_an_error(
    what: str, revision: str
) -> None:
    """The server accepts the setting and dies, and another thread opens the next session before
    this thread has recorded the setting."""
    everything = {"subscribe": True}
    server = modern(
        {
            "initialize": initialized(resources=everything, logging={}),
            **dict.fromkeys(("resources/subscribe", "logging/setLevel"), result()),
        }
    )
    with minimcp.connect(
        server, revision=revision, restart=True, timeout=WAIT, cache=False
    ) as client:
        session: Any = session_of(client)
        told: Any = subscriptions.of(session)
        request, replace = session.request, told._replace

        def overtaken(asked: Any) -> Any:
            def run(*arguments: Any, **keywords: Any) -> Any:
                answer = asked(*arguments, **keywords)
                lost(client, server)
                Task(client.request, "work").result()
                return answer

            return run

        session.request, told._replace = overtaken(request), overtaken(replace)
        heard = False
        try:
            client.subscribe("x:a") if what == "subscription" else client.set_log_level("debug")
        except minimcp.ConnectionLost:
            heard = True
        kept = subscriptions.of(session_of(client))
        assert heard or kept.uris == {"x:a"} or kept.log_level == "debug"


# ------------------------------------------------------------ by themselves


class Session:
    """Records the calls of its methods."""

    name, cause = "fake", minimcp.ConnectionLost("gone")

    def __init__(self, steps: List[str]) -> None:
        self.steps, self.subscriptions = steps, self

    def report_gap(self) -> None:
        """The method of `ClientSubscriptions`."""

    def close(self) -> None:
        self.steps.append("close")

    abandon = close


def reconnector(steps: List[str], begun: Any = lambda: None) -> Any:
    def begin(stop: Any, lost: Any) -> Any:
        begun()
        steps.append("begin")
        return Session(steps)

    first: Any = Session(steps)
    host: Any = SimpleNamespace(call=print)
    return reconnect.Reconnector(first, begin, host, None)


def test_after_three_short_sessions_the_next_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: List[str] = []
    wait_until, ends = reconnect.wait_until, []

    def pause(over: Any, changed: Any, deadline: Deadline, cancel: Any) -> bool:
        if deadline.seconds != reconnect.PAUSE_SECONDS:
            return wait_until(over, changed, deadline, cancel)
        assert not over()
        steps.append("pause")
        return bool([end() for end in ends])

    def go_on() -> List[str]:
        steps.clear()
        sessions.after(sessions.newest, Deadline(WAIT), None)
        return steps

    monkeypatch.setattr(reconnect, "wait_until", pause)
    monkeypatch.setattr(reconnect, "STEADY_SECONDS", WAIT)
    sessions = reconnector(steps)
    first = sessions.newest
    for _ in range(3):
        assert go_on() == ["close", "begin"]
    assert sessions.after(first, Deadline(WAIT), None) is sessions.newest and steps == [
        "close",
        "begin",
    ]
    assert go_on() == ["close", "pause", "begin"]
    monkeypatch.setattr(reconnect, "STEADY_SECONDS", 0.0)
    assert go_on() == ["close", "pause", "begin"]
    assert go_on() == ["close", "begin"], "the one before has lasted"
    monkeypatch.setattr(reconnect, "STEADY_SECONDS", WAIT)
    for _ in range(4):
        assert go_on() == ["close", "begin"]
    ends.append(sessions.abandon)
    with pytest.raises(minimcp.ConnectionLost, match="closed"):
        go_on()
    assert steps == ["close", "pause", "close"], "none is begun"


def test_close_waits_for_the_session_that_is_opening_and_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: List[str] = []
    begun, gate, wait = threading.Event(), threading.Event(), reconnect.wait
    monkeypatch.setattr(reconnect, "wait", lambda *given: (gate.set(), wait(*given)))
    sessions = reconnector(steps, lambda: (begun.set(), gate.wait(WAIT)))
    task = Task(sessions.after, sessions.newest, Deadline(WAIT), None)
    wait_for(begun)
    sessions.close()
    assert steps == ["close", "close", "begin", "close"]
    with pytest.raises(minimcp.ConnectionLost, match="closed"):
        task.result()
