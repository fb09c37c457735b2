"""The shared checks by a client of the official Python SDK, 1.x or 2.x.

Usage: python_client.py REVISION COMMAND... where REVISION is a revision or "auto" (2.x only). Prints one JSON
object: the revision in use and, for each check, true or what went wrong.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from typing import Any, Awaitable, Callable

import anyio
from python_adapters import Adapter, PeerError, everything
from python_feature_checks import FEATURES

if sys.version_info < (3, 11):
    from exceptiongroup import BaseExceptionGroup

TOOLS = {
    "echo", "add", "weather", "count", "fail", "slow", "cancellations", "image", "note", "release", "mixed", "logs",
    "touch", "grow", "shrink", "ask_form", "ask_url", "ask_model", "ask_tools", "ask_roots", "ask_many", "ask_twice",
    "need_url", "ask_choices",
}
UNICODE = "Grüße, 世界 \U0001f600 \u2028 \x7f end"
PARALLEL = 20


Peer = Any
Check = Callable[[Peer], Awaitable[None]]


def expect(got: Any, wanted: Any) -> None:
    if got != wanted:
        raise AssertionError(f"got {got!r:.300}, expected {wanted!r:.300}")


async def check_list(peer: Peer) -> None:
    tools = {tool["name"]: tool["inputSchema"] for tool in await everything(peer, "tools")}
    expect(set(tools), TOOLS)
    expect(tools["echo"]["properties"]["text"]["type"], "string")
    expect(tools["echo"]["required"], ["text"])
    expect("ctx" in tools["count"]["properties"], False)


async def check_echo(peer: Peer) -> None:
    expect((await peer.call("echo", {"text": UNICODE})).content[0].text, UNICODE)


async def check_add(peer: Peer) -> None:
    result = await peer.call("add", {"a": 19, "b": 23})
    expect(result.content[0].text, "42")
    if peer.modern:
        expect(peer.structured(result), 42)
    elif has_structured(peer):
        expect(peer.structured(result), {"result": 42})
    else:
        expect(peer.structured(result), None)


async def check_record(peer: Peer) -> None:
    result = await peer.call("weather", {"city": "Tromsø"})
    record = {"place": {"city": "Tromsø", "tags": ["å", "b"]}, "degrees": 21.5}
    expect(json.loads(result.content[0].text), record)
    expect(peer.structured(result), record if has_structured(peer) else None)


def has_structured(peer: Peer) -> bool:
    return peer.revision not in ("2024-11-05", "2025-03-26")


async def check_progress(peer: Peer) -> None:
    seen: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total))

    expect((await peer.call("count", {"n": 25}, progress=on_progress)).content[0].text, "25")
    await anyio.wait_all_tasks_blocked()
    expect(seen, [(i, 25) for i in range(1, 26)])


async def check_held_progress(peer: Peer) -> None:
    seen: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, total, message))
        if done == 3:
            group.start_soon(peer.call, "release")

    async with anyio.create_task_group() as group:
        result = await peer.call("count", {"n": 3, "hold": True}, progress=on_progress)
    expect(result.content[0].text, "3")
    expect(seen, [(i, 3, with_message(peer, f"step {i}")) for i in (1, 2, 3)])


def with_message(peer: Peer, text: str) -> str | None:
    return None if peer.revision == "2024-11-05" else text


async def check_image(peer: Peer) -> None:
    block = (await peer.call("image")).content[0]
    expect((block.type, peer.media(block)), ("image", "image/png"))
    expect(base64.b64decode(block.data)[:4], b"\x89PNG")


async def check_tool_error(peer: Peer) -> None:
    result = await peer.call("fail")
    expect(peer.is_error(result), True)
    expect("this tool fails" in result.content[0].text, True)


async def check_bad_arguments(peer: Peer) -> None:
    result = await peer.call("add", {"a": "many", "b": 1})
    expect(peer.is_error(result), True)
    expect("a" in result.content[0].text, True)


async def check_unknown_tool(peer: Peer) -> None:
    try:
        await peer.call("no-such-tool")
    except PeerError as error:
        expect(error.error.code, -32602)
    else:
        raise AssertionError("no error")


async def check_unknown_method(peer: Peer) -> None:
    try:
        await peer.unknown_method()
    except PeerError as error:
        expect(error.error.code, -32601)
    else:
        raise AssertionError("no error")


async def check_parallel(peer: Peer) -> None:
    answers: dict[int, str] = {}

    async def one(i: int) -> None:
        answers[i] = (await peer.call("echo", {"text": f"text {i}"})).content[0].text

    async with anyio.create_task_group() as group:
        for i in range(PARALLEL):
            group.start_soon(one, i)
    expect(answers, {i: f"text {i}" for i in range(PARALLEL)})


async def check_large(peer: Peer) -> None:
    text = "påfugl " * 150_000
    expect((await peer.call("echo", {"text": text})).content[0].text == text, True)


async def check_cancel(peer: Peer) -> None:
    started = anyio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        started.set()

    await peer.abandon("slow", {"seconds": 60}, started, on_progress)
    expect((await peer.call("cancellations", {"expected": 1})).content[0].text, "1")


async def check_timeout(peer: Peer) -> None:
    try:
        await peer.call("slow", {"seconds": 60}, timeout=1.5)
    except (PeerError, TimeoutError):
        pass
    else:
        raise AssertionError("no timeout")
    expect((await peer.call("cancellations", {"expected": 2})).content[0].text, "2")


async def check_alive(peer: Peer) -> None:
    expect((await peer.call("echo", {"text": "still"})).content[0].text, "still")


async def check_ping(peer: Peer) -> None:
    await peer.ping()


async def check_log(peer: Peer) -> None:
    await peer.all_logs()
    expect((await peer.call("note", {"text": "hør"})).content[0].text, "noted")
    await anyio.wait_all_tasks_blocked()
    expect([(message["level"], message["data"]) for message in peer.host.logged], [("info", "hør")])


CHECKS: dict[str, Check] = {
    "list": check_list, "echo": check_echo, "add": check_add, "record": check_record,
    "progress": check_progress, "held progress": check_held_progress, "image": check_image,
    "tool error": check_tool_error, "bad arguments": check_bad_arguments, "unknown tool": check_unknown_tool,
    "unknown method": check_unknown_method, "parallel": check_parallel,
    "ping": check_ping, "log": check_log, "cancel": check_cancel, "timeout": check_timeout,
    "alive after": check_alive,
}
HANDSHAKE_ONLY = {"ping"}
SECONDS_PER_CHECK = 15


async def run(check: Check, peer: Peer) -> Any:
    peer.host.forget()
    try:
        with anyio.fail_after(SECONDS_PER_CHECK):
            await check(peer)
    except Exception as error:
        return told(error)
    return True


def told(error: BaseException) -> str:
    """Say what went wrong; a group is named by its first member."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:600]


async def session(revision: str, command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    report = {"revision": None, "checks": results}
    try:
        async with Adapter.open(revision, command) as peer:
            report["revision"] = peer.revision
            # Who goes straight to 2026-07-28 was never told a name.
            known = peer.server_name in ("interop", None if peer.modern and revision != "auto" else "interop")
            results["connect"] = known or f"name {peer.server_name!r}"
            for name, check in CHECKS.items():
                if not (peer.modern and name in HANDSHAKE_ONLY):
                    results[name] = await run(check, peer)
            for name, (check, (since, until)) in FEATURES.items():
                if since <= peer.revision <= until:
                    results[name] = await run(check, peer)
            # The last one: a client that cannot take it loses its connection.
            results["large"] = await run(check_large, peer)
    except Exception as error:
        results["connect" if "connect" not in results else "close"] = told(error)
    return report


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(anyio.run(session, sys.argv[1], sys.argv[2:])), flush=True)
