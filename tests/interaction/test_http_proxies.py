"""Our client and our server with a proxy in between that tears, holds back, compresses and cuts."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Iterator, List

import pytest

import minimcp
from minimcp import Context, HttpOptions, Server
from minimcp.http import client as http_client, client_sse
from minimcp.http.server import RunningHttp

from ..faults.toy_proxy import Habits, ToyProxy
from ..scripted import Task, wait_for
from ..support import WAIT, eventually

TEXT = "\u00e4\u20ac\U0001f600" * 100
go = threading.Event()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningHttp]:
    server = Server("behind", http=HttpOptions(keepalive=0.1))
    go.clear()

    @server.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @server.tool
    def work(steps: int, ctx: Context) -> str:
        """Report each step."""
        for step in range(1, steps + 1):
            ctx.progress(step, steps)
        return "done"

    @server.tool
    def hold(ctx: Context) -> str:
        """Report once, and wait for the test."""
        ctx.progress(1)
        return str(go.wait(WAIT))

    client_sse._known.clear()
    monkeypatch.setattr(http_client, "GET_SECONDS", WAIT)
    with server.start_http(port=0) as found:
        yield found
        go.set()
    server.close()


def connect(proxy: ToyProxy, revision: str) -> minimcp.Client:
    url = f"http://127.0.0.1:{proxy.port}/mcp"
    return minimcp.connect(url, revision=revision, timeout=WAIT, connect_timeout=WAIT)


@pytest.mark.parametrize("revision", ["auto", "handshake"])
@pytest.mark.parametrize("habits", [Habits(pieces=1), Habits(pieces=7, buffers=True)])
def test_calls_come_through_and_at_once(running: RunningHttp, habits: Habits, revision: str) -> None:
    with ToyProxy(running.port, habits) as proxy, connect(proxy, revision) as client:
        assert client.call_tool("echo", {"text": TEXT}).text == TEXT
        seen: List[float] = []
        assert client.call_tool("work", {"steps": 20}, on_progress=lambda one: seen.append(one.progress)).text == "done"
        assert seen == [*range(1, 21)]
        first = threading.Event()
        held = Task(partial(client.call_tool, "hold", on_progress=lambda one: first.set()))
        wait_for(first)  # before the call has ended: it was not kept back
        go.set()
        assert held.result().text == "True"


@pytest.mark.parametrize("revision", ["auto", "handshake"])
def test_what_is_compressed_although_nobody_takes_that_is_an_error_at_once(running: RunningHttp, revision: str) -> None:
    with ToyProxy(running.port, Habits(gzips=True)) as proxy:
        with pytest.raises(minimcp.McpError, match="compressed"), connect(proxy, revision) as client:
            client.call_tool("echo", {"text": TEXT})


def test_a_stream_on_which_nothing_happens_is_not_cut(running: RunningHttp) -> None:
    with ToyProxy(running.port, Habits(idle=WAIT)) as proxy, connect(proxy, "handshake") as client:
        held = Task(partial(client.call_tool, "hold", on_progress=lambda one: None))
        assert eventually(lambda: proxy.comments > 5), "no comments come"
        go.set()
        assert held.result().text == "True" and not proxy.idle_cuts


@pytest.mark.parametrize("after", [150, 700, 1500])
def test_a_stream_that_is_cut_goes_on_or_fails_at_once(running: RunningHttp, after: int) -> None:
    """With sessions nothing is lost and nothing comes twice; without, a call is not sent again."""
    steps: List[float] = []

    def work(client: minimcp.Client) -> Any:
        steps.clear()
        return client.call_tool("work", {"steps": 50}, on_progress=lambda one: steps.append(one.progress))

    with ToyProxy(running.port, Habits(cut_after=after)) as proxy, connect(proxy, "handshake") as client:
        assert work(client).text == "done" and proxy.cuts == 1
        assert steps == [*range(1, 51)]
    with ToyProxy(running.port, Habits(cut_after=after)) as proxy, connect(proxy, "auto") as client:
        with pytest.raises(minimcp.ConnectionLost):
            work(client)
        assert proxy.cuts == 1 and steps == [*range(1, len(steps) + 1)]
        assert client.call_tool("echo", {"text": "on"}).text == "on"
