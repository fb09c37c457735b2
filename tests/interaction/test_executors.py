"""Tools with executors, as clients and authors see them: in memory and in a process of their own."""

from __future__ import annotations

import json
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any, Callable, Iterator, List

import pytest

import minimcp
from minimcp import Cancelled, CancelToken, Client, Limits, Server, StdioServer, ToolError

from ..inside import connections_of
from ..scripted import Task, wait_for
from ..support import ROOT, WAIT, eventually
from ..wire.harness import RawServer
from ..wire.messages import MODERN
from .executors_server import build

COMMAND = [sys.executable, "-m", "tests.interaction.executors_server"]


class Loop:
    """A program's own event loop, such as that of a window. It pumps the server when it is woken."""

    def __init__(self, make: Callable[..., Server] = build, **options: Any) -> None:
        self._needed: "SimpleQueue[bool]" = SimpleQueue()
        self.server = make(on_pump_needed=lambda: self._needed.put(True), **options)
        self.pumped = 0
        self.task = Task(self._run)

    def _run(self) -> None:
        while self._needed.get(timeout=6 * WAIT):
            self.pumped += self.server.pump()

    def end(self) -> None:
        self._needed.put(False)
        self.task.result()
        self.server.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.end()


@pytest.fixture(params=["memory", "stdio"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    if request.param == "stdio":
        with minimcp.connect(StdioServer(COMMAND, cwd=str(ROOT)), timeout=WAIT) as opened:
            yield opened
        return
    made = Loop()
    with minimcp.connect(made.server, timeout=WAIT) as opened:
        yield opened
    made.end()


def text(client: Client, name: str, **arguments: Any) -> str:
    return client.call_tool(name, arguments).text


def test_each_tool_runs_on_its_executor(client: Client, request: pytest.FixtureRequest) -> None:
    serial = {text(client, "where_serial") for _ in range(5)}
    assert len(serial) == 1 and "main" not in serial
    main = {text(client, "where_main") for _ in range(5)}
    assert len(main) == 1 and main != serial
    if "stdio" in request.node.name:
        assert main == {"main"}
    assert text(client, "where_pool") not in {*main, *serial}
    with pytest.raises(ToolError, match="KeyboardInterrupt"):
        text(client, "interrupted")
    assert text(client, "where_main")


def test_a_queued_call_that_is_cancelled_does_not_run_and_a_running_one_is_notified(
    client: Client,
) -> None:
    first, second, begun = CancelToken(), CancelToken(), threading.Event()

    def run() -> None:
        client.call_tool("patient", cancel=first, on_progress=lambda _: begun.set())

    running = Task(run)
    wait_for(begun)
    queued = Task(lambda: client.call_tool("where_main", {"number": 7}, cancel=second))
    others = [Task(lambda: client.call_tool("where_main", {"number": 8})) for _ in range(2)]
    assert text(client, "where_pool")
    second.cancel()
    with pytest.raises(Cancelled):
        queued.result()
    first.cancel()
    with pytest.raises(Cancelled):
        running.result()
    assert len({task.result().text for task in others}) == 1
    assert 7 not in client.call_tool("numbers").structured_content


# ---------------------------------------------------------------- in memory


def echo(number: int = 0) -> int:
    """Give it back."""
    return number


def test_a_main_tool_without_a_pump_fails() -> None:
    server = Server("deserted", limits=Limits(workers=1, requests=3, drain_grace=0.01))
    called: List[int] = []

    @server.tool(executor="main", timeout=0.05)
    def late() -> None:
        """Never runs."""
        called.append(1)

    server.add_tool(echo)
    with minimcp.connect(server, timeout=WAIT) as client:
        for _ in range(5):  # each leaves its place again
            results = client.call_tools([("late", {})] * 3, return_exceptions=True)
            assert {str(result) for result in results} == {"late did not begin within 0.05 s"}
            (channel,) = connections_of(server)
            assert eventually(lambda: not channel.requests.running)  # noqa: B023, the answer leaves before its place does
        assert client.call_tool("echo", {"number": 3}).text == "3"
    assert server.pump() == 0 and called == []
    server.close()


# ---------------------------------------------------------------- a process, and signals


NEVER = dict.fromkeys(("drain_grace", "last", "signal"), 6 * WAIT)
"""Seconds that a process gives its handlers at its end: longer than its end is waited for."""


@pytest.fixture
def start() -> Iterator[Callable[..., RawServer]]:
    """Start the server as a process, and call these tools."""
    started: List[RawServer] = []

    def begin(*names: str, **options: Any) -> RawServer:
        server = RawServer(
            MODERN, command=[*COMMAND, json.dumps(options)], env={"PYTHONPATH": str(ROOT)}
        )
        started.append(server)
        for id, name in enumerate(names, 1):
            server.begin_call(name, id=id)
        return server

    yield begin
    for server in started:
        server.dispose()


def says(server: RawServer, *words: str) -> None:
    """Wait until stderr holds exactly this text."""
    assert eventually(lambda: server.stderr().split("\n") == [*words, ""]), server.stderr()


def end(server: RawServer) -> Any:
    """Close the input, and return the exit code, the remaining responses and the text on stderr."""
    server.close_input()
    answers = server.rest(2 * WAIT)
    return server.exit(2 * WAIT), answers, server.stderr()


def test_a_signal_reaches_a_main_tool_that_minds_it(start: Callable[..., RawServer]) -> None:
    server = start("patient", **NEVER)
    says(server, "begun")
    server.signal(signal.SIGINT)
    code, answers, err = end(server)
    assert (code, err) == (0, "begun\nback\n"), "no traceback, and no grace was used up"
    assert "cancelled" in answers[0]["error"]["message"]


def test_a_main_tool_closes_the_server(start: Callable[..., RawServer]) -> None:
    server = start("leave")
    says(server, "back")
    code, answers, err = end(server)
    assert (code, err, answers[0]["result"]["content"][0]["text"]) == (0, "back\n", "left")


@pytest.mark.parametrize("name", ["deaf", "wedged", "stuck"])
def test_a_signal_ends_the_process_whatever_a_handler_does(
    start: Callable[..., RawServer], name: str
) -> None:
    """On the main thread, in code that looks for no signals, or on a thread that the interpreter
    would wait for."""
    server = start(name, drain_grace=60)
    says(server, "begun")
    server.signal(signal.SIGTERM)
    code, _, err = end(server)
    assert code == 1 and "has not returned" in err
    assert name == "stuck" or "back" not in err, (
        "run() returns while another thread is stuck, if there is time for it"
    )


def test_a_second_signal_waits_for_nothing(start: Callable[..., RawServer]) -> None:
    server = start("deaf", **NEVER)
    says(server, "begun")
    server.signal(signal.SIGINT)
    says(server, "begun", "told")
    server.signal(signal.SIGTERM)
    code, _, err = end(server)
    assert code == 1 and "has not returned" in err


def test_the_end_of_the_input_ends_it_after_the_grace(start: Callable[..., RawServer]) -> None:
    server = start("deaf", drain_grace=0.05, last=0.1)
    says(server, "begun")
    code, _, err = end(server)
    assert code == 1 and "has not returned" in err


def test_a_main_tool_is_answered_after_the_end_of_the_input(
    start: Callable[..., RawServer],
) -> None:
    code, answers, err = end(start(*["where_main"] * 3, drain_grace=6 * WAIT))
    assert (code, err) == (0, "back\n")
    assert [answer["result"]["content"][0]["text"] for answer in answers] == ["main"] * 3
