"""Tools where they are told to run, as clients and authors see them: in memory and in a process of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from queue import SimpleQueue
from typing import Any, Callable, Iterator, List

import pytest

import minimcp
from minimcp import Cancelled, CancelToken, Client, Limits, Serial, Server, StdioServer, ToolError

from ..scripted import Task, dumps, request, wait_for
from ..support import ROOT, WAIT, eventually
from .executors_server import build

COMMAND = [sys.executable, "-m", "tests.interaction.executors_server"]


class Loop:
    """A program's own loop, such as a window's: it pumps when it is told to, and else does what it does."""

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


def test_each_where_it_was_told(client: Client, request: pytest.FixtureRequest) -> None:
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


def test_a_cancelled_call_is_not_run_and_the_one_that_runs_hears_of_it(client: Client) -> None:
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


def test_nobody_pumps() -> None:
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
            (channel,) = server._connections.values()
            assert eventually(lambda: not channel.requests._begun)  # noqa: B023, the answer leaves before its place does
        assert client.call_tool("echo", {"number": 3}).text == "3"
    assert server.pump() == 0 and called == []
    server.close()


@pytest.mark.parametrize("executor", ["main", "serial", "callable"])
def test_the_servers_executor_is_that_of_every_handler(executor: str) -> None:
    """Tools, resources, templates, prompts and completers."""
    threads = set()

    def make(**options: Any) -> Server:
        given = {"main": "main", "serial": Serial(), "callable": lambda job: job()}[executor]
        server = Server("all", executor=given, **options)  # type: ignore[arg-type]

        def note(text: str = "") -> str:
            """Note the thread."""
            threads.add(threading.get_ident())
            return text

        def complete(value: str) -> List[str]:
            note()
            return [value]

        server.add_tool(note)
        server.add_resource(lambda: note("all"), "notes://all", name="all")
        server.add_resource(note, "notes://{text}")
        server.add_prompt(note, complete={"text": complete})
        return server

    loop = Loop(make)
    with minimcp.connect(loop.server, timeout=WAIT) as client:
        assert client.call_tool("note", {"text": "a"}).text == "a"
        assert client.read_resource("notes://all").text == "all"
        assert client.read_resource("notes://b").text == "b"
        assert client.get_prompt("note", {"text": "c"}).messages
        assert client.complete("text", "d", prompt="note").values == ["d"]
    loop.end()
    assert len(threads) == 1


# ---------------------------------------------------------------- a process, and signals


class Process:
    """The server as a process, spoken to by hand."""

    def __init__(self, **options: Any) -> None:
        self.popen = subprocess.Popen(
            [*COMMAND, json.dumps(options)], cwd=str(ROOT), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        self._meta = meta

    def call(self, id: int, name: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(dumps(request(id, "tools/call", name=name, arguments={}, _meta=self._meta)) + b"\n")
        self.popen.stdin.flush()

    def begun(self) -> None:
        self.says("begun")

    def says(self, word: str) -> None:
        assert self.popen.stderr is not None
        assert Task(self.popen.stderr.readline).result().decode() == f"{word}\n"

    def end(self) -> Any:
        """Its exit code, and what it wrote after what was read."""
        out, err = self.popen.communicate(timeout=2 * WAIT)
        return self.popen.returncode, [json.loads(line) for line in out.splitlines()], err.decode()


def test_a_signal_reaches_a_main_tool_that_minds_it() -> None:
    process = Process(drain_grace=6 * WAIT)  # longer than its end is waited for
    process.call(1, "patient")
    process.begun()
    process.popen.send_signal(signal.SIGINT)
    code, answers, err = process.end()
    assert (code, err) == (0, "back\n"), "no traceback, and no grace was used up"
    assert "cancelled" in answers[0]["error"]["message"]


def test_a_main_tool_closes_the_server() -> None:
    process = Process()
    process.call(1, "leave")
    process.says("back")
    code, answers, err = process.end()
    assert (code, err, answers[0]["result"]["content"][0]["text"]) == (0, "", "left")


@pytest.mark.parametrize("name", ["deaf", "wedged", "stuck"])
def test_a_signal_ends_the_process_whatever_a_handler_does(name: str) -> None:
    """On the main thread, in code that looks for no signals, or on a thread that the interpreter would wait for."""
    process = Process(drain_grace=60)
    process.call(1, name)
    process.begun()
    process.popen.send_signal(signal.SIGTERM)
    code, _, err = process.end()
    assert code == 1 and "does not return" in err and ("back" in err) == (name == "stuck")


def test_a_second_signal_waits_for_nothing() -> None:
    process = Process(drain_grace=60)
    process.call(1, "deaf")
    process.begun()
    process.popen.send_signal(signal.SIGINT)
    process.says("told")
    process.popen.send_signal(signal.SIGTERM)
    code, _, err = process.end()
    assert code == 1 and "does not return" in err


def test_the_end_of_the_input_ends_it_after_the_grace() -> None:
    process = Process(drain_grace=0.05, last=0.1)
    process.call(1, "deaf")
    process.begun()
    code, _, err = process.end()
    assert code == 1 and "does not return" in err


def test_a_main_tool_is_answered_after_the_end_of_the_input() -> None:
    process = Process(drain_grace=6 * WAIT)
    for id in (1, 2, 3):
        process.call(id, "where_main")
    code, answers, err = process.end()
    assert (code, err) == (0, "back\n")
    assert [answer["result"]["content"][0]["text"] for answer in answers] == ["main"] * 3
