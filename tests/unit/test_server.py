"""`Server`: registering, its options, serving in every way, closing from everywhere, and forks."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import contextmanager
from typing import Any, Iterator, List

import pytest

import minimcp
from minimcp import Limits, Server
from minimcp.engine.connection import Connection
from minimcp.engine.transport import memory_pair

from ..answering import R4, R5
from ..inside import connections_of, feature_of, runs_of, waits_on
from ..interaction.raw_client import RawClient
from ..scripted import Task, notice, request
from ..support import WAIT, eventually, run_python
from ..wire.messages import hello


def echo(text: str = "echo") -> str:
    """Echo."""
    return text


def made(**options: Any) -> Server:
    server = Server("made", **options)
    server.add_tool(echo)
    return server


@pytest.mark.requirement("LIFE-05")
def test_only_initialized_sessions_are_notified_of_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "minimcp.server")
    server = made()

    def ask(client: RawClient, message: Any) -> Any:
        client.peer.send(message)
        return client.peer.expect()

    with (
        RawClient(server, R5, {}) as client,
        RawClient(server, R5, {}) as stranger,
    ):  # neither is initialized yet
        ask(client, request(1, "initialize", **hello(R4)))
        server.add_tool(echo, name="early")
        assert ask(client, request(1, "ping"))["id"] == 1, "nothing came before"
        told = ask(client, notice("notifications/initialized"))
        assert told["method"] == "notifications/tools/list_changed", (
            "what changed meanwhile is told now"
        )
        client.peer.send(notice("notifications/vendor"))
        assert ask(client, request(1, "ping"))["id"] == 1
        server.add_tool(echo, name="late")
        assert client.peer.expect()["method"] == "notifications/tools/list_changed"
        stranger.peer.send(notice("notifications/initialized"))
        assert ask(stranger, request(1, "ping"))["id"] == 1
    assert caplog.text.count("notifications/vendor: ignored") == 1
    assert caplog.text.count("notifications/initialized: ignored") == 1


# ---------------------------------------------------------------- closing


def test_close_wakes_threads_that_wait_for_the_main_thread_or_pump() -> None:
    server = made(limits=Limits(drain_grace=6 * WAIT))
    server.add_tool(echo, name="main", executor="main")
    with minimcp.connect(server, timeout=WAIT) as client:
        call = client.submit(client.call_tool, "main")
        assert eventually(lambda: "1 waiting" in repr(feature_of(server, "executors").main))
        Task(server.close).result()
        assert call.exception(WAIT) and server.pump() == 0, "it is not run any more"
    pumping = Task(server.pump, None)
    assert eventually(lambda: waits_on(feature_of(server, "executors").main))
    server.close()
    assert pumping.result() == 0


def test_shutdown_is_answered_before_the_connection_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed, deliver, close = threading.Event(), Connection.deliver, Connection.close

    def deliver_seldom(connection: Connection, line: bytes, wait: bool) -> None:
        closed.wait(0.2)
        deliver(connection, line, wait)

    def close_and_say(connection: Connection, *args: Any) -> None:
        close(connection, *args)
        closed.set()

    monkeypatch.setattr(Connection, "deliver", deliver_seldom)
    monkeypatch.setattr(Connection, "close", close_and_say)
    with RawClient(made(), R4, {}) as client:
        assert client.result("shutdown") == {}


def test_all_connections_are_closed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("closing")
    clients = [minimcp.connect(server) for _ in range(3)]
    served, barrier, really_close = (
        set(connections_of(server)),
        threading.Barrier(3),
        Connection.close,
    )

    def close(self: Connection, *given: Any) -> None:
        if self in served:
            barrier.wait(WAIT)  # one after the other, the first would wait in vain
        really_close(self, *given)

    monkeypatch.setattr(Connection, "close", close)
    Task(server.close).result()
    monkeypatch.undo()
    for client in clients:
        client.close()


# ---------------------------------------------------------------- running


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Any:
    ours, theirs = memory_pair(None)
    ours.restore = lambda stdout: ours.close()  # type: ignore[attr-defined]

    class Taken:
        take = staticmethod(lambda limit: ours)

    class Target:
        open_pipe = staticmethod(lambda: theirs)

    monkeypatch.setattr("minimcp.stdio.streams.StandardStreams", Taken)
    return Target()


@contextmanager
def ending(streams: Any) -> Iterator[None]:
    """The input ends whatever happens inside, because `run` must not wait forever."""
    try:
        yield
    finally:
        streams.open_pipe().close()


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_run_until_the_input_ends(streams: Any, in_main_thread: bool) -> None:
    server = made()

    def talk() -> str:
        with ending(streams), minimcp.connect(streams, timeout=WAIT) as client:
            return client.call_tool("echo").text

    task = Task(talk if in_main_thread else server.run)
    assert (server.run if in_main_thread else talk)() == (None if in_main_thread else "echo")
    assert task.result() == ("echo" if in_main_thread else None)
    assert runs_of(server) == []


# ---------------------------------------------------------------- forks

FORKED = """
import os, queue, sys, threading, time, minimcp
from minimcp import Context

server = minimcp.Server("forked")

@server.tool(timeout=60)
def pid() -> int:
    "The process."
    return os.getpid()

@server.tool(timeout=0.01)
def slow(ctx: Context) -> str:
    "Too slow."
    ctx.sleep(60)
    return "never"

serial, jobs = minimcp.Serial(), queue.SimpleQueue()
for name, executor in (("serial", serial), ("main", "main"), ("posted", jobs.put)):
    server.add_tool(pid, name=name, executor=executor)

def everywhere(client):
    answers = [client.submit(client.call_tool, name) for name in ("serial", "main", "posted")]
    assert server.pump(8) == 1
    jobs.get(timeout=8)()
    assert {answer.result(8).text for answer in answers} == {str(os.getpid())}

client = minimcp.connect(server)
everywhere(client)
waiting = client.submit(client.call_tool, "main")
while "1 waiting" not in repr(server._config.feature('executors').main):
    threading.Event().wait(0.01)
assert client.call_tool("pid").text == str(os.getpid())
child = os.fork()
if not child:
    code = 1
    try:
        with minimcp.connect(server, timeout=8) as mine:
            assert mine.call_tool("pid").text == str(os.getpid())
            assert "did not finish" in mine.call_tool("slow", raise_on_error=False).text
            server.add_tool(pid, name="more")
            assert server.pump() == 0
            everywhere(mine)
        try:
            client.call_tool("pid")
        except minimcp.ConnectionLost:
            code = 0
        server.close()
    finally:
        os._exit(code)
assert server.pump() == 1 and waiting.result(8).text == str(os.getpid())
everywhere(client)
assert os.waitpid(child, 0)[1] == 0, "the child"
assert client.call_tool("pid").text == str(os.getpid())
client.close()
print("both")
"""


def test_servers_leave_no_hook_behind_for_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: List[Any] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.append(given), raising=False)
    for _ in range(3):
        made()
    assert hooks == []


def test_a_server_works_on_both_sides_of_a_fork(tmp_path: Any) -> None:
    script = tmp_path / "forked.py"
    script.write_text(FORKED, encoding="utf-8")
    done = run_python([str(script)], env={"PYTHONPATH": os.getcwd()})
    assert (done.returncode, done.stdout) == (0, b"both\n"), done.stderr.decode()
