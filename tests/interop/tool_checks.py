"""The tools that every server of the grid has: called, cancelled and broken by a minimcp client."""

from __future__ import annotations

import json
import threading
from typing import Any

import minimcp

from .checking import PARALLEL, SECONDS, UNICODE, Peer, checks, expect, expect_raised

TOOLS = {
    "echo", "add", "weather", "count", "fail", "slow", "cancellations", "image", "note", "release", "mixed", "logs",
    "touch", "grow", "shrink", "ask_form", "ask_url", "ask_model", "ask_tools", "ask_roots", "ask_many", "ask_twice",
    "need_url",
}


def check_list(peer: Peer) -> None:
    tools = {tool.name: tool for tool in peer.client.list_tools()}
    expect(set(tools), TOOLS)
    expect(tools["echo"].input_schema["required"], ["text"])
    expect(bool(tools["echo"].description), True)


def check_echo(peer: Peer) -> None:
    expect(peer.call("echo", {"text": UNICODE}).text, UNICODE)


def check_add(peer: Peer) -> None:
    result = peer.call("add", {"a": 19, "b": 23})
    expect(result.text, "42")
    expect(result.structured_content in (42, {"result": 42}, None), True)
    expect(result.is_error, False)


def check_record(peer: Peer) -> None:
    result = peer.call("weather", {"city": "Tromsø"})
    record = {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5}
    expect(json.loads(result.text), record)
    if peer.structured:
        expect(result.structured_content, record)
        expect(result.value, record)


def check_progress(peer: Peer) -> None:
    check_count(peer, "count", {"n": 25}, 25)


def check_count(peer: Peer, tool: str, arguments: Any, n: int) -> None:
    seen: list[Any] = []
    threads: set[Any] = set()

    def on_progress(report: Any) -> None:
        seen.append((report.progress, report.total))
        threads.add(threading.current_thread())

    peer.call(tool, arguments, on_progress=on_progress)
    expect(seen, [(i, n) for i in range(1, n + 1)])
    expect(threads, {threading.current_thread()})


def check_held_progress(peer: Peer) -> None:
    messages: list[Any] = []

    def on_progress(report: Any) -> None:
        messages.append(report.message)
        if report.progress == 3:
            expect(peer.call("release").text, "released")

    expect(peer.call("count", {"n": 3, "hold": True}, on_progress=on_progress).text, "3")
    expect(messages, ["step 1", "step 2", "step 3"])


def check_image(peer: Peer) -> None:
    block = peer.call("image").content[0]
    expect((block.type, block.mime_type, block.data[:4]), ("image", "image/png", b"\x89PNG"))


def check_tool_error(peer: Peer) -> None:
    error = expect_raised(minimcp.ToolError, lambda: peer.call("fail"))
    expect("this tool fails" in str(error), True)
    expect(error.result.is_error, True)
    expect(peer.call("fail", raise_on_error=False).is_error, True)


def check_bad_arguments(peer: Peer) -> None:
    check_refused(peer, "add", {"a": "many", "b": 1})


def check_unknown_tool(peer: Peer) -> None:
    check_refused(peer, "no-such-tool", {})


def check_refused(peer: Peer, name: str, arguments: Any) -> None:
    """Servers differ in whether this is the tool's error or the protocol's: we take both."""
    error = expect_raised((minimcp.ToolError, minimcp.InvalidParams), lambda: peer.call(name, arguments))
    expect(bool(str(error)), True)


def check_unknown_method(peer: Peer) -> None:
    error = expect_raised(minimcp.RpcError, lambda: peer.client.request("vendor/nothing", timeout=SECONDS))
    expect(error.from_peer, True)


def check_parallel(peer: Peer) -> None:
    texts = [f"text {i}" for i in range(PARALLEL)]
    results = peer.client.call_tools([("echo", {"text": text}) for text in texts], timeout=SECONDS)
    expect([result.text for result in results], texts)


def check_parallel_errors(peer: Peer) -> None:
    calls = [("echo", {"text": "a"}), ("fail", {}), ("echo", {"text": "b"})]
    first, second, third = peer.client.call_tools(calls, return_exceptions=True, timeout=SECONDS)
    expect((first.text, type(second), third.text), ("a", minimcp.ToolError, "b"))


def check_large(peer: Peer) -> None:
    text = "påfugl " * 150_000
    expect(peer.call("echo", {"text": text}).text == text, True)


def check_cancel(peer: Peer) -> None:
    token = minimcp.CancelToken()

    def on_progress(report: Any) -> None:
        token.cancel("enough")

    options = {"on_progress": on_progress, "cancel": token}
    expect_raised(minimcp.Cancelled, lambda: peer.call("slow", {"seconds": 60}, **options))
    expect(peer.call("cancellations", {"expected": 1}).text, "1")


def check_timeout(peer: Peer) -> None:
    error = expect_raised(minimcp.RequestTimeout, lambda: peer.call("slow", {"seconds": 60}, timeout=1.5))
    expect(isinstance(error, TimeoutError), True)
    expect(peer.call("cancellations", {"expected": 2}).text, "2")


def check_future(peer: Peer) -> None:
    started = threading.Event()
    future = peer.client.submit(peer.client.call_tool, "slow", {"seconds": 60}, timeout=SECONDS,
                                on_progress=lambda report: started.set())
    expect(started.wait(SECONDS), True)
    expect((future.cancel(), future.cancelled()), (True, True))
    expect(peer.call("cancellations", {"expected": 3}).text, "3")
    quick = peer.client.submit(peer.client.call_tool, "echo", {"text": "later"}, timeout=SECONDS)
    expect(quick.result(SECONDS).text, "later")


def check_alive(peer: Peer) -> None:
    expect(peer.call("echo", {"text": "still"}).text, "still")


def check_ping(peer: Peer) -> None:
    expect(peer.client.ping(timeout=SECONDS) >= 0, True)


def check_log(peer: Peer) -> None:
    """Servers of the Python SDK may send log messages without the capability: no level can be asked for then."""
    declared = "logging" in peer.client.capabilities
    if declared:
        peer.client.set_log_level("debug")
    expect(peer.call("note", {"text": "hør"}).text, "noted")
    if peer.modern and not declared:
        # Messages come to those alone who ask for a level.
        expect(peer.host.heard, [])
        return
    (message,) = peer.host.wait_heard(len)
    expect((message.level, message.data), ("info", "hør"))


SHARED = checks(
    list=check_list, echo=check_echo, add=check_add, record=check_record, progress=check_progress,
    held_progress=check_held_progress, image=check_image, tool_error=check_tool_error,
    bad_arguments=check_bad_arguments, unknown_tool=check_unknown_tool, unknown_method=check_unknown_method,
    parallel=check_parallel, parallel_errors=check_parallel_errors, large=check_large, ping=check_ping,
    log=check_log, cancel=check_cancel, timeout=check_timeout, future=check_future, alive_after=check_alive,
)
