"""The rules of threads (the top of minimcp/engine/connection.py), each under stress."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, Iterator, List

import pytest

import minimcp
from minimcp import Cancelled, CancelToken
from minimcp.engine.connection import Connection
from minimcp.engine.pool import Pool
from minimcp.engine.timer import Deadline

from ..scripted import ScriptedPipe, ScriptedRole, Task, result, wait_for
from ..support import ROOT, WAIT, eventually
from .threads_server import make_server

SERVER = Path(__file__).with_name("threads_server.py")
SIZE = 20 * 1024 * 1024
LONG = 6 * WAIT
"""Seconds for what moves many megabytes or makes tens of thousands of calls on a busy machine."""


def started(**options: Any) -> Any:
    """Return the command of this folder's server."""
    command = [sys.executable, str(SERVER), json.dumps(options)]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return minimcp.StdioServer(command, env={"PYTHONPATH": path})


@pytest.fixture(params=["memory", "process"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a target for `connect`."""
    if request.param == "process":
        yield started()
        return
    server = make_server()
    yield server
    server.close()


def test_both_sides_send_20_mb_at_once(target: Any) -> None:
    """A reader that writes, or waits for a lock that a writer holds, stops here for ever."""
    text = "y" * SIZE
    with minimcp.connect(target, timeout=LONG) as client:
        there = Task(lambda: client.call_tool("echo", {"text": text}).text == text)
        back = [
            Task(lambda: client.call_tool("big", {"size": SIZE}).text == "x" * SIZE)
            for _ in range(2)
        ]
        assert there.result(LONG)
        assert all(task.result(LONG) for task in back)
        assert client.ping(timeout=WAIT) < WAIT


class Overtaking(ScriptedPipe):
    """A peer that answers a request before the write of it has returned."""

    read: threading.Event

    def receive(self) -> List[Any]:
        self.read.set()
        return super().receive()

    def send(self, data: bytes, seconds: float) -> int:
        for written in data.splitlines():
            id = json.loads(written)["id"]
            self.read.clear()
            self.give(result(id, n=id))
            wait_for(self.read)
        return super().send(data, seconds)


@pytest.mark.requirement("CANC-07")
def test_a_reply_that_beats_the_write() -> None:
    pipe = Overtaking()
    pipe.read = threading.Event()
    with closing(
        Connection(pipe, ScriptedRole(), pool=Pool(None, "test"), name="test").open()
    ) as channel:
        wait_for(pipe.read)
        for _ in range(1000):
            call = channel.calls.send("work", lambda id: {})
            assert call.outcome is not None
            assert channel.calls.wait(call, Deadline(WAIT)) == {"n": call.id}
        assert len(channel.calls) == 0


@pytest.mark.requirement("CANC-06", "CANC-07", "M:CAN-5")
def test_a_cancel_races_the_answer_2_000_times() -> None:
    """Each call ends once: with its own answer or as cancelled, and nothing is left in any table."""
    server = make_server()
    number, workers = 2_000, 4
    outcomes: List[str] = []
    with minimcp.connect(server, timeout=WAIT) as client:

        def race(index: int) -> None:
            for n in range(number // workers):
                token, text = CancelToken(), f"{index}/{n}"
                if n % 10:  # the others are answered, however late that is
                    tokens.append(token)
                try:
                    assert client.call_tool("echo", {"text": text}, cancel=token).text == text
                    outcomes.append("answered")
                except Cancelled:
                    outcomes.append("cancelled")

        def cancel() -> None:
            while not done.is_set():
                try:
                    tokens.pop().cancel("raced")
                except IndexError:
                    done.wait(0.0001)

        tokens: List[CancelToken] = []
        done = threading.Event()
        canceller = Task(cancel)
        racers = [Task(race, index) for index in range(workers)]
        for racer in racers:
            racer.result(LONG)
        done.set()
        canceller.result()
        assert len(outcomes) == number
        assert set(outcomes) == {"answered", "cancelled"}
        assert ", 0 outgoing" in repr(client)
        assert client.call_tool("echo", {"text": "still there"}).text == "still there"
    server.close()


@pytest.mark.parametrize("tool", ["sleep", "hold"])
def test_a_ping_within_0_2_s_behind_100_sleeping_tools(target: Any, tool: str) -> None:
    """The figure is the requirement; the best of the pings counts, for the machine may be busy."""
    running = (
        100 if tool == "sleep" else 64
    )  # the calls that hold their workers reach the limit, and the others wait behind them
    with minimcp.connect(target, timeout=LONG, revision="handshake") as client:
        token = CancelToken()
        sleepers = [
            Task(lambda: client.call_tool(tool, {"seconds": LONG}, cancel=token).text)
            for _ in range(100)
        ]
        assert client.call_tool("wait_for", {"number": running}).text == "all sleep"
        assert eventually(lambda: client.ping(timeout=WAIT) < 0.2)
        assert client.list_tools(timeout=WAIT)
        if tool == "hold":
            assert client.call_tool("let_go").text == "done"
            assert [sleeper.result() for sleeper in sleepers] == ["let go"] * 100
            return
        token.cancel()
        for sleeper in sleepers:
            with pytest.raises(Cancelled):
                sleeper.result()
