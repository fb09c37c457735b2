"""C18 and C19 of the fault catalogue: cancellation never hurts, and decides once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .conftest import Serve
from .messages import EVERY, MODERN, encode, modern, notification, request

HARMLESS: list[Any] = [
    {"requestId": "never sent"},
    {"requestId": 987654},
    {"requestId": None},
    {"requestId": []},
    {"requestId": {}},
    {"requestId": True},
    {"requestId": 1.5},
    {},
    {"requestId": "x", "reason": 5},
    {"reason": "none"},
    [1],
    "x",
    None,
]


@pytest.mark.requirement("CANC-01", "CANC-05", "CANC-09", "BASE-10", "M:CAN-4", "M:BASE-8")
@pytest.mark.parametrize("params", HARMLESS)
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", MODERN])
def test_c18_a_cancellation_of_nothing_is_ignored(shared: Serve, revision: str, params: Any) -> None:
    server = shared(revision)
    server.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    server.write({"jsonrpc": "2.0", "method": "notifications/cancelled"})
    server.lives()


@pytest.mark.requirement("CANC-05", "M:CAN-2")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c18_a_finished_request_cannot_be_cancelled(shared: Serve, revision: str) -> None:
    server = shared(revision)
    for _ in range(50):
        server.call("echo", {"text": "x"}, id="done")
        server.notify("notifications/cancelled", {"requestId": "done"})
    server.lives()


@pytest.mark.requirement("CANC-04", "CANC-13", "M:STD-7", "M:STD-8", "M:STD-17", "M:CAN-1", "M:CAN-3", "M:CAN-10")
@pytest.mark.parametrize("revision", EVERY)
def test_c19_the_handler_sees_it_and_nothing_is_answered(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.begin_call("watch", {"name": revision}, id="cancelled")
    server.text("wait_for", {"name": revision, "what": "begin"})
    server.notify("notifications/cancelled", {"requestId": "cancelled", "reason": "changed my mind"})
    assert server.text("wait_for", {"name": revision, "what": "end"}) == "cancelled True"
    assert server.fence() == []


@pytest.mark.requirement("CANC-04", "PROG-11", "M:STD-8", "M:CAN-10", "M:CAN-11", "M:PROG-4")
@pytest.mark.parametrize("revision", EVERY)
def test_c19_a_handler_that_goes_on_is_not_heard(shared: Serve, revision: str) -> None:
    """Progress before the cancel is sent; after it, progress raises in the handler and no result is sent."""
    server = shared(revision)
    name = "late " + revision
    server.begin_call("report_when_released", {"name": name}, id="late", token="t")
    assert server.message()["params"]["progress"] == 1
    server.notify("notifications/cancelled", {"requestId": "late"})
    assert server.fence() == []  # the cancel has been read
    server.text("release", {"name": name})
    server.text("wait_for", {"name": name, "what": "begin"})
    assert server.text("wait_for", {"name": name, "what": "end"}) == "cancelled"
    assert server.fence() == []


@pytest.mark.requirement("CANC-04", "M:CAN-11")
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c19_a_deaf_handler_ends_unheard(shared: Serve, revision: str) -> None:
    server = shared(revision)
    server.begin_call("hold", {"name": "deaf"}, id="deaf")
    server.text("wait_for", {"name": "deaf", "what": "begin"})
    server.notify("notifications/cancelled", {"requestId": "deaf"})
    assert server.fence() == []
    server.text("release", {"name": "deaf"})
    server.lives()
    assert server.call("echo", {"text": "again"}, id="deaf")["content"][0]["text"] == "again"
    assert server.fence() == []


@pytest.mark.requirement("CANC-13")
@pytest.mark.parametrize("wrong", ["7", 7.0, True, None])
def test_c18_an_id_of_another_type_cancels_nothing(shared: Serve, wrong: Any) -> None:
    server = shared("2025-06-18")
    name = f"type {wrong!r}"
    server.begin_call("hold", {"name": name}, id=7)
    server.notify("notifications/cancelled", {"requestId": wrong})
    assert server.fence() == []
    server.text("release", {"name": name})
    assert server.answer(7)["result"]["content"][0]["text"] == "released"


@pytest.mark.requirement("CANC-03", "LIFE-17")
def test_initialize_cannot_be_cancelled(serve: Serve) -> None:
    server = serve()
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
    server.write(
        request("hello", "initialize", hello), notification("notifications/cancelled", {"requestId": "hello"})
    )
    assert server.answer("hello")["result"]["protocolVersion"] == "2025-06-18"
    server.notify("notifications/initialized")
    server.lives()


@pytest.mark.requirement("CANC-02", "CANC-07", "M:CAN-12")
@pytest.mark.parametrize("tool", ["echo", "count", "slow"])
@pytest.mark.parametrize("revision", ["2025-06-18", MODERN])
def test_c19_a_thousand_races(serve: Serve, revision: str, tool: str) -> None:
    server = serve(revision)
    arguments = {"echo": {"text": "x"}, "count": {"n": 3}, "slow": {"seconds": 0.001}}[tool]
    params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}}
    lines = []
    for n in range(1000):
        lines.append(encode(request(n, "tools/call", modern(params) if revision == MODERN else params)))
        lines.append(encode(notification("notifications/cancelled", {"requestId": n})))
    server.send(b"".join(lines))
    messages = server.fence()
    assert server.text("echo", {"text": "alive"}) == "alive"
    server.close_input()  # who won the race may still be about to write: at the end of the output all have
    found = [message["id"] for message in [*messages, *server.aside, *server.rest()] if "id" in message]
    assert len(found) == len(set(found))  # never two answers
    assert server.exit() == 0


def test_c19_a_cancelled_call_that_waits_for_a_worker_never_starts(serve: Serve, tmp_path: Path) -> None:
    server = serve("2025-06-18", limits={"workers": 2})
    gates = {name: tmp_path / name for name in ("a", "b")}
    for name, gate in gates.items():  # they keep their workers: what sleeps by its Context gives its place away
        os.mkfifo(gate)
        server.begin_call("hold_file", {"path": str(gate)}, id=name)
    server.begin_call("grow", {"name": "ghost"}, id="queued")
    server.begin_call("echo", {"text": "behind it"}, id="behind")
    server.notify("notifications/cancelled", {"requestId": "queued"})
    assert server.fence() == []
    for name, gate in gates.items():
        gate.write_bytes(b"")
        assert server.answer(name)["result"]["content"][0]["text"] == "released"
    assert server.answer("behind")["result"]["content"][0]["text"] == "behind it"
    assert "ghost" not in [tool["name"] for tool in server.result("tools/list")["tools"]]
    assert server.fence() == []
