"""A server, and a client that uses all of its features, for every kind of place."""

from __future__ import annotations

import sys
import threading
from typing import Any, Dict, List

import minimcp
from minimcp import Client, Context, Limits, Server

from ..support import ROOT, WAIT

SERVER = minimcp.StdioServer([sys.executable, "-S", "-m", "tests.surroundings.scene"], cwd=ROOT)
"""The server as a process of its own."""


def make_server() -> Server:
    """A server with a tool of each kind: quick, talkative, endless, asking."""
    server = Server("scene", version="1", limits=Limits(drain_grace=0.5))

    @server.tool
    def echo(text: str) -> str:
        """Give the text back."""
        return text

    @server.tool
    def steps(n: int, ctx: Context) -> int:
        """Report progress."""
        for step in range(1, n + 1):
            ctx.progress(step, n)
            ctx.sleep(0.001)
        return n

    @server.tool
    def hold(ctx: Context) -> str:
        """Wait for the cancellation."""
        ctx.progress(0)
        ctx.sleep(600)
        return "slept"

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask for a name."""
        return str(ctx.elicit("Your name?", {"name": str}).require()["name"])

    return server


def connect(target: Any, revision: str = "auto") -> Client:
    return minimcp.connect(target, revision=revision, timeout=WAIT, elicit=answer)


def answer(request: Any) -> Dict[str, str]:
    return {"name": "Ada"}


def play(client: Client) -> None:
    """Use everything: a call that fills pipes, progress, a question, a timeout, a cancellation,
    many calls, threads."""
    long = "x" * 300_000
    assert client.call_tool("echo", {"text": long}).text == long
    seen: List[Any] = []
    assert client.call_tool("steps", {"n": 3}, on_progress=seen.append).text == "3"
    assert [report.progress for report in seen] == [1, 2, 3]
    assert client.call_tool("ask").text == "Ada"
    try:
        client.call_tool("hold", timeout=0.05)
        raise AssertionError("no timeout")
    except minimcp.RequestTimeout:
        pass
    begun = threading.Event()
    future = client.submit(client.call_tool, "hold", on_progress=lambda report: begun.set())
    assert begun.wait(WAIT) and future.cancel() and future.cancelled()
    texts = [str(number) for number in range(30)]
    assert [
        result.text for result in client.call_tools([("echo", {"text": text}) for text in texts])
    ] == texts
    found: List[str] = []
    threads = [
        threading.Thread(
            target=lambda text=text: found.append(client.call_tool("echo", {"text": text}).text)
        )
        for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert sorted(found) == sorted(texts)


if __name__ == "__main__":
    make_server().run()
