"""The shared checks by a client of the official Python SDK, 1.x or 2.x.

Usage: python_client.py REVISION COMMAND... where REVISION is a revision or "auto" (2.x only). Prints one JSON
object: the revision in use and, for each check, true or what went wrong.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from typing import Any

import anyio
from checking import UNICODE, Check, checks_of, expect, expect_parallel, expect_raised, run, told
from python_adapters import Adapter, PeerError, everything
from python_feature_checks import FEATURES

TOOLS = {
    "echo", "add", "weather", "count", "fail", "slow", "cancellations", "image", "note", "release", "mixed", "logs",
    "touch", "grow", "shrink", "ask_form", "ask_url", "ask_model", "ask_tools", "ask_roots", "ask_many", "ask_twice",
    "need_url", "ask_choices",
}

Peer = Any


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
    expect((await expect_raised(PeerError, peer.call("no-such-tool"))).error.code, -32602)


async def check_unknown_method(peer: Peer) -> None:
    expect((await expect_raised(PeerError, peer.unknown_method())).error.code, -32601)


async def check_parallel(peer: Peer) -> None:
    async def say(text: str) -> str:
        return (await peer.call("echo", {"text": text})).content[0].text

    await expect_parallel(say)


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
    await expect_raised((PeerError, TimeoutError), peer.call("slow", {"seconds": 60}, timeout=1.5))
    expect((await peer.call("cancellations", {"expected": 2})).content[0].text, "2")


async def check_alive_after(peer: Peer) -> None:
    expect((await peer.call("echo", {"text": "still"})).content[0].text, "still")


async def check_ping(peer: Peer) -> None:
    await peer.ping()


async def check_log(peer: Peer) -> None:
    await peer.all_logs()
    expect((await peer.call("note", {"text": "hør"})).content[0].text, "noted")
    await anyio.wait_all_tasks_blocked()
    expect([(message["level"], message["data"]) for message in peer.host.logged], [("info", "hør")])


async def held(peer: Peer, check: Check) -> Any:
    peer.host.forget()
    return await run(check, peer)


async def session(revision: str, command: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    report = {"revision": None, "checks": results}
    try:
        async with Adapter.open(revision, command) as peer:
            report["revision"] = peer.revision
            # Who goes straight to 2026-07-28 was never told a name.
            known = peer.server_name in ("interop", None if peer.modern and revision != "auto" else "interop")
            results["connect"] = known or f"name {peer.server_name!r}"
            checks = checks_of(globals())
            last = {"large": checks.pop("large")}  # a client that cannot take it loses its connection
            if peer.modern:
                del checks["ping"]
            for name, check in checks.items():
                results[name] = await held(peer, check)
            for name, (check, (since, until)) in FEATURES.items():
                if since <= peer.revision <= until:
                    results[name] = await held(peer, check)
            results["large"] = await held(peer, last["large"])
    except Exception as error:
        results["connect" if "connect" not in results else "close"] = told(error)
    return report


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(anyio.run(session, sys.argv[1], sys.argv[2:])), flush=True)
