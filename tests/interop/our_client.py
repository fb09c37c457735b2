"""The shared checks by a minimcp client, against a foreign server.

Usage: our_client.py TOOLS REVISION COMMAND... where TOOLS is the set of tools that the server has
("shared" or "everything") and REVISION a revision, "auto" or "handshake". Prints one JSON object: the
revision in use and, for each check, true or what went wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import minimcp  # noqa: E402

TOOLS = {"echo", "add", "weather", "count", "fail", "slow", "cancellations", "image", "note", "release"}
UNICODE = "Grüße, 世界 \U0001f600 \u2028 \x7f end"
PARALLEL = 20
SECONDS = 15.0
"""How long one call may take."""


class Peer:
    """A connected client, what it was told by log messages, and whether its revision is stateless."""

    def __init__(self, client: Any, logged: Logged) -> None:
        self.client, self.logged = client, logged
        self.modern = client.revision not in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
        self.structured = client.revision not in ("2024-11-05", "2025-03-26")

    def call(self, name: str, arguments: Any = None, **options: Any) -> Any:
        options.setdefault("timeout", SECONDS)
        return self.client.call_tool(name, arguments, **options)


class Logged:
    """The log messages that came, and somebody who waits for the first."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.came = threading.Event()

    def on_log(self, message: Any) -> None:
        self.messages.append(message)
        self.came.set()


Check = Callable[[Peer], None]


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise AssertionError(f"got {got!r:.300}, expected {wanted!r:.300}")


def expect_raised(kinds: Any, call: Callable[[], Any]) -> Exception:
    """Return the exception of one of the kinds that the call raises."""
    try:
        result = call()
    except kinds as error:
        return error  # type: ignore[no-any-return]
    raise AssertionError(f"nothing raised, got {result!r:.200}")


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
    expect(error.result.is_error, True)  # type: ignore[attr-defined]
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
    expect(error.from_peer, True)  # type: ignore[attr-defined]


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
    error = expect_raised(minimcp.RequestTimeout, lambda: peer.call("slow", {"seconds": 60}, timeout=0.3))
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
    """Servers of the Python SDK send log messages without the capability: no level can be asked for then."""
    declared = "logging" in peer.client.capabilities
    if declared:
        peer.client.set_log_level("debug")
    expect(peer.call("note", {"text": "hør"}).text, "noted")
    if peer.modern and not declared:
        # Messages come to those alone who ask for a level.
        expect(peer.logged.messages, [])
        return
    expect(peer.logged.came.wait(SECONDS), True)
    expect([(message.level, message.data) for message in peer.logged.messages], [("info", "hør")])


SHARED: dict[str, Check] = {
    "list": check_list, "echo": check_echo, "add": check_add, "record": check_record,
    "progress": check_progress, "held progress": check_held_progress, "image": check_image,
    "tool error": check_tool_error, "bad arguments": check_bad_arguments, "unknown tool": check_unknown_tool,
    "unknown method": check_unknown_method, "parallel": check_parallel,
    "parallel errors": check_parallel_errors, "large": check_large, "ping": check_ping, "log": check_log,
    "cancel": check_cancel, "timeout": check_timeout, "future": check_future, "alive after": check_alive,
}


LONG = "trigger-long-running-operation"


def every_list(peer: Peer) -> None:
    names = {tool.name for tool in peer.client.list_tools()}
    expect({"echo", "get-sum", "get-structured-content", LONG} <= names, True)


def every_echo(peer: Peer) -> None:
    expect(peer.call("echo", {"message": UNICODE}).text, f"Echo: {UNICODE}")


def every_sum(peer: Peer) -> None:
    expect(peer.call("get-sum", {"a": 19, "b": 23}).text, "The sum of 19 and 23 is 42.")


def every_record(peer: Peer) -> None:
    result = peer.call("get-structured-content", {"location": "Chicago"})
    record = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    expect((json.loads(result.text), result.structured_content, result.value), (record, record, record))


def every_image(peer: Peer) -> None:
    kinds = [block.type for block in peer.call("get-tiny-image").content]
    expect("image" in kinds, True)


def every_links(peer: Peer) -> None:
    kinds = [block.type for block in peer.call("get-resource-links", {"count": 2}).content]
    expect(kinds, ["text", "resource_link", "resource_link"])


def every_embedded(peer: Peer) -> None:
    kinds = [block.type for block in peer.call("get-resource-reference").content]
    expect(kinds, ["text", "resource", "text"])


def every_annotated(peer: Peer) -> None:
    result = peer.call("get-annotated-message", {"messageType": "error", "includeImage": True})
    expect([block.type for block in result.content], ["text", "image"])


def every_progress(peer: Peer) -> None:
    check_count(peer, LONG, {"duration": 0.2, "steps": 5}, 5)


def every_bad_arguments(peer: Peer) -> None:
    check_refused(peer, "get-sum", {"a": "many", "b": 1})


def every_parallel(peer: Peer) -> None:
    texts = [f"text {i}" for i in range(PARALLEL)]
    results = peer.client.call_tools([("echo", {"message": text}) for text in texts], timeout=SECONDS)
    expect([result.text for result in results], [f"Echo: {text}" for text in texts])


def every_cancel(peer: Peer) -> None:
    token = minimcp.CancelToken()
    options = {"on_progress": lambda report: token.cancel("enough"), "cancel": token}
    arguments = {"duration": 2, "steps": 20}
    expect_raised(minimcp.Cancelled, lambda: peer.call(LONG, arguments, **options))
    every_echo(peer)


def every_timeout(peer: Peer) -> None:
    arguments = {"duration": 2, "steps": 2}
    expect_raised(minimcp.RequestTimeout, lambda: peer.call(LONG, arguments, timeout=0.3))
    every_echo(peer)


def every_log(peer: Peer) -> None:
    peer.client.set_log_level("debug")
    peer.call("toggle-simulated-logging")
    expect(peer.logged.came.wait(SECONDS), True)
    peer.call("toggle-simulated-logging")


EVERYTHING: dict[str, Check] = {
    "list": every_list, "echo": every_echo, "add": every_sum, "record": every_record, "image": every_image,
    "links": every_links, "embedded": every_embedded, "annotated": every_annotated,
    "progress": every_progress, "bad arguments": every_bad_arguments, "unknown tool": check_unknown_tool,
    "unknown method": check_unknown_method, "parallel": every_parallel, "ping": check_ping, "log": every_log,
    "cancel": every_cancel, "timeout": every_timeout, "alive after": every_echo,
}
CHECKS = {"shared": SHARED, "everything": EVERYTHING}
SERVER_NAMES = {"shared": "interop", "everything": "mcp-servers/everything"}


def run(check: Check, peer: Peer) -> Any:
    try:
        check(peer)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:600]
    return True


def children() -> list[str]:
    """Return the process ids of this process's children, where that can be told."""
    tasks = f"/proc/{os.getpid()}/task"
    if not os.path.isdir(tasks):
        return []
    found: list[str] = []
    for task in os.listdir(tasks):
        # A thread of ours may end while we look.
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/children") as file:
            found += file.read().split()
    return found


def session(tools: str, revision: str, command: list[str]) -> dict[str, Any]:
    """Connect, run the checks, close, and look whether the server's process has gone."""
    results: dict[str, Any] = {}
    report: dict[str, Any] = {"revision": None, "checks": results}
    logged = Logged()
    try:
        with minimcp.connect(command, revision=revision, timeout=SECONDS, on_log=logged.on_log) as client:
            report["revision"] = client.revision
            name = client.server_info.name if client.server_info else None
            results["connect"] = name == SERVER_NAMES[tools] or f"name {name!r}"
            peer = Peer(client, logged)
            for title, check in CHECKS[tools].items():
                results[title] = run(check, peer)
        left = children()
        results["close"] = not left or f"left running: {left}"
    except Exception as error:
        traceback.print_exc()
        results["close" if "connect" in results else "connect"] = f"{type(error).__name__}: {error}"[:600]
    return report


if __name__ == "__main__":
    print(json.dumps(session(sys.argv[1], sys.argv[2], sys.argv[3:])), flush=True)
