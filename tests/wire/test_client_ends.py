"""Many calls of one client at once (futures, `call_tools`, threads), and every awkward moment to end it.

C65 to C69 of the fault catalogue; with calls under way, from callbacks, in a fork, at the end of the interpreter.
"""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from concurrent.futures import Future, wait
from typing import Any, Callable, Iterator, List

import pytest

import minimcp
from minimcp import ConnectionLost, Context, Limits, Server

from ..scripted import Task
from ..support import WAIT, eventually
from .clients import ERAS, NEVER, Both, Script
from .harness import PLAIN

STDIO = [sys.executable, "-S", str(PLAIN), '{"limits": {"drain_grace": 0.2}}']


# ---------------------------------------------------------------- submit and call_tools


def test_a_submitted_call_is_a_future(talking_both: Both) -> None:
    _, client = talking_both
    seen: List[Any] = []
    called = threading.Event()
    good = client.submit(
        client.call_tool, "count", {"total": 5}, on_progress=lambda p: seen.append(threading.current_thread())
    )
    assert isinstance(good, Future)
    good.add_done_callback(lambda future: called.set())
    bad, listed = client.submit(client.call_tool, "fails"), client.submit(client.list_tools)
    assert good.result(WAIT).text == "counted"
    assert isinstance(bad.exception(WAIT), minimcp.ToolError)
    assert [tool.name for tool in listed.result(WAIT)] == ["echo"]
    assert called.wait(WAIT) and wait([good, bad, listed], WAIT).not_done == set()
    assert not good.cancel() and good.done() and not good.cancelled()
    assert len(seen) == 6 and threading.current_thread() not in seen


@pytest.mark.requirement("BASE-05", "M:BASE-3", "M:BASE-15", "BATCH-02")
def test_call_tools_sends_all_at_once_and_returns_in_order(talking_both: Both) -> None:
    _, client = talking_both
    # The server answers only when all have come, the last one first.
    results = client.call_tools([("reverse", {"calls": 50, "number": n}) for n in range(50)], timeout=NEVER)
    assert [result.text for result in results] == [str(n) for n in range(50)] and client.call_tools([]) == []
    calls = [("reverse", {"calls": 4, "number": n}) for n in (0, -1, 2, -3)]
    found = client.call_tools(calls, return_exceptions=True, timeout=NEVER)
    assert [getattr(one, "data", None) for one in found] == [None, {"number": -1}, None, {"number": -3}]
    with pytest.raises(minimcp.RpcError) as caught:
        client.call_tools(calls, timeout=NEVER)
    assert caught.value.data == {"number": -1}
    failed = client.call_tools([("echo", {}), ("fails", {})], return_exceptions=True)
    assert failed[0].text == "well" and isinstance(failed[1], minimcp.ToolError)


# ---------------------------------------------------------------- threads


def make_server() -> Server:
    """A server for this process, with tools as those of plain.py."""
    server = Server("threads", version="1", limits=Limits(drain_grace=0.2))

    @server.tool
    def echo(text: str) -> str:
        """Give the text back."""
        return text

    @server.tool
    def slow(seconds: float, ctx: Context) -> str:
        """Say that it has begun, to whom wants progress, and sleep as a tool should."""
        ctx.progress(0)
        ctx.sleep(seconds)
        return "slept"

    @server.tool
    def count(n: int, ctx: Context) -> str:
        """Report n steps of progress."""
        for i in range(1, n + 1):
            ctx.progress(i, n)
        return str(n)

    @server.tool
    def log(level: str, data: Any, ctx: Context) -> str:
        """Send one log line."""
        ctx.log(level, data)
        return "logged"

    @server.tool
    def grow(name: str) -> str:
        """Register another tool."""
        server.add_tool(echo, name=name, description="Another one.")
        return "grown"

    return server


@pytest.fixture(params=["memory", "stdio"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """What to connect to."""
    server = make_server()
    yield server if request.param == "memory" else STDIO
    server.close()


def in_threads(number: int, work: Callable[[int], Any]) -> None:
    """Run `work(0)` to `work(number - 1)` at once and wait for all; the first exception is raised here."""
    for outcome in [each.ended() for each in [Task(work, index) for index in range(number)]]:
        if isinstance(outcome, BaseException):
            raise outcome


# ---------------------------------------------------------------- close


@pytest.mark.requirement("LIFE-25", "LIFE-27")
@pytest.mark.parametrize("revision", ERAS)
def test_close_ends_what_waits_and_refuses_what_comes_later(scripted: Script, revision: str) -> None:
    server = scripted(instructions="Be kind.")
    client = server.connect(revision)
    futures = [client.submit(client.call_tool, "hold", timeout=NEVER) for _ in range(10)]
    server.heard("tools/call", 10)
    client.close()
    assert {type(future.exception(WAIT)) for future in futures} == {ConnectionLost}
    client.close()
    for later in (
        lambda: client.call_tool("echo"), lambda: client.call_tools([("echo", {})]), client.list_tools, client.ping,
        lambda: client.request("x"), lambda: client.notify("notifications/x"), lambda: client.set_log_level("info"),
        lambda: client.submit(client.call_tool, "echo").result(WAIT),
    ):  # fmt: skip
        with pytest.raises(ConnectionLost, match="closed"):
            later()
    with pytest.raises(ConnectionLost), client:
        client.ping()
    notices = [notice["params"]["requestId"] for notice in server.messages("notifications/cancelled")]
    assert sorted(notices) == sorted(call["id"] for call in server.messages("tools/call"))
    assert "closed" in repr(client) and (client.revision, client.instructions) == (revision, "Be kind.")
    assert client.server_info and client.server_info.name == "scripted" and client.stderr_tail == ""


@pytest.mark.parametrize("begun", [True, False])
def test_c68_close_ends_every_waiter_and_races_calls_that_begin(target: Any, begun: bool) -> None:
    """However far a call has come, it ends with the loss, once."""
    client, started, running, ended = minimcp.connect(target), threading.Barrier(21), threading.Semaphore(0), []

    def work(index: int) -> None:
        started.wait(WAIT)
        if index == 20:
            for _ in range(20 * begun):
                assert running.acquire(timeout=WAIT)
            return client.close()
        try:
            client.call_tool("slow", {"seconds": 60}, timeout=None, on_progress=lambda progress: running.release())
        except ConnectionLost:
            ended.append(index)

    in_threads(21, work)
    assert sorted(ended) == list(range(20))


@pytest.mark.parametrize("closed", [False, True])
def test_a_client_that_is_collected_while_open_warns(scripted: Script, closed: bool) -> None:
    server = scripted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = server.connect()
        client.call_tool("echo")
        if closed:
            client.close()
        del client
        gc.collect()
        assert eventually(lambda: bool(server.journal("eof")))
    kinds = [one.category for one in caught if "close" in str(one.message) or "Client" in str(one.message)]
    assert kinds == [ResourceWarning] * (not closed)
