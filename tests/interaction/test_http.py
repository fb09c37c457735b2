"""Both ends of HTTP together: our client and our server, in every revision and over both
transports."""

from __future__ import annotations

import threading
from typing import Any, Iterator, List

import pytest

import minimcp
from minimcp import Context, Server
from minimcp.http import client as http_client
from minimcp.testing import Transcript

from ..inside import forget_servers
from ..scripted import Task
from ..support import WAIT

pytestmark = pytest.mark.usefixtures("every_stream_is_read")
REVISIONS = ["auto", "handshake", "2025-06-18", "2025-03-26", "2024-11-05"]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("both", version="1")

    @made.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    @made.tool
    def work(steps: int, ctx: Context) -> str:
        """Report each step."""
        for step in range(steps):
            ctx.progress(step, steps)
        return "done"

    @made.tool
    def ask(ctx: Context) -> str:
        """Ask who it is."""
        content = ctx.elicit("name?", {"name": str}).content
        return str(content["name"] if content else None)

    @made.tool
    def wait(ctx: Context) -> str:
        """Wait until it is cancelled."""
        ctx.on_cancel(cancelled.set)
        waits.set()
        ctx.sleep(WAIT)
        return "waited"

    @made.resource("notes://one")
    def one() -> str:
        """A note."""
        return "noted"

    cancelled.clear()
    waits.clear()
    yield made
    made.close()  # or its threads wait for more to do


waits, cancelled = threading.Event(), threading.Event()


@pytest.fixture
def url(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    forget_servers()
    monkeypatch.setattr(
        http_client, "GET_SECONDS", WAIT
    )  # the stream is open once a client is connected
    with server.start_http(port=0) as running:
        yield running.url
    server.close()


def connect(url: str, revision: str, **options: Any) -> minimcp.Client:
    return minimcp.connect(url, revision=revision, timeout=WAIT, connect_timeout=WAIT, **options)


@pytest.mark.parametrize("revision", REVISIONS)
def test_calls_progress_and_cancelling(url: str, revision: str) -> None:
    with connect(url, revision) as client:
        assert [tool.name for tool in client.list_tools()] == ["echo", "work", "ask", "wait"]
        seen: List[float] = []
        done = client.call_tool(
            "work", {"steps": 5}, on_progress=lambda item: seen.append(item.progress)
        )
        assert done.text == "done"
        assert seen == [0, 1, 2, 3, 4]
        texts = [str(number) for number in range(20)]
        results = client.call_tools([("echo", {"text": text}) for text in texts])
        assert [result.text for result in results] == texts
        token = minimcp.CancelToken()
        waiting = Task(lambda: client.call_tool("wait", cancel=token))
        assert waits.wait(WAIT)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            waiting.result()
        assert cancelled.wait(WAIT) and client.read_resource("notes://one").text == "noted"


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_cancellation_is_sent_in_the_form_of_its_era_and_the_token_stays_cancelled(
    url: str, revision: str
) -> None:
    transcript, token = Transcript(), minimcp.CancelToken()
    with connect(url, revision, trace=transcript) as client:
        waiting = Task(lambda: client.call_tool("wait", cancel=token))
        assert waits.wait(WAIT)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            waiting.result()
        # closing the response was enough, because this era sends no notification
        assert cancelled.wait(WAIT)
        assert ("notifications/cancelled" in transcript.methods()) is (revision != "auto")
        sent = len(transcript)
        with pytest.raises(minimcp.Cancelled):
            client.call_tool("echo", {"text": "again"}, cancel=token)
        assert len(transcript) == sent


@pytest.mark.parametrize("revision", ["auto", "handshake", "2025-06-18"])
def test_questions(url: str, revision: str) -> None:
    with connect(url, revision, elicit=lambda request: {"name": "Ann"}) as client:
        assert client.call_tool("ask").text == "Ann"


@pytest.mark.parametrize("revision", REVISIONS)
def test_changes(url: str, server: Server, revision: str) -> None:
    changed, updated = threading.Event(), threading.Event()
    with connect(
        url, revision, on_tools_changed=changed.set, on_resource_updated=lambda uri: updated.set()
    ) as client:
        client.subscribe("notes://one")
        server.resource_updated("notes://one")
        assert updated.wait(WAIT)
        server.add_tool(lambda: "x", name="more", description="More.")
        assert changed.wait(WAIT) and "more" in [tool.name for tool in client.list_tools()]
