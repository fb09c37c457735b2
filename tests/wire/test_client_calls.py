"""Calls of a client as its caller sees them and as the server does: pages, progress, log levels,
how they end."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any, List

import pytest

import minimcp

from ..scripted import Task
from ..support import WAIT, eventually
from .clients import ERAS, HANDSHAKE, NEVER, PATIENCE, Both, Script
from .conftest import Talking
from .messages import HANDSHAKES, MODERN

CANCELLED = "notifications/cancelled"


# ---------------------------------------------------------------- pages


@pytest.mark.requirement(
    "SEED-27", "PAGE-01", "PAGE-02", "PAGE-04", "PAGE-05", "PAGE-06", "PAGE-10"
)
@pytest.mark.requirement("M:PAG-1", "M:PAG-2", "M:PAG-6")
@pytest.mark.parametrize("revision", ERAS)
def test_all_pages_of_any_size_are_fetched_with_unchanged_cursors(
    scripted: Script, revision: str
) -> None:
    for mode, cursors, names in (
        ("pages", ["none", "next ", "", "\u00fc=&/?\u2028"], ["t0-0", "t0-1", *(f"t2-{n}" for n in range(5)), "t3-0"]),
        ("null-cursor", ["none", "a"], ["t0-0", "t1-0"]), ("one", ["none"], ["echo"]),
    ):  # fmt: skip
        server = scripted(list=mode)
        with server.connect(revision) as client:
            assert [tool.name for tool in client.list_tools()] == names
        sent = [
            message.get("params", {}).get("cursor", "none")
            for message in server.messages("tools/list")
        ]
        assert sent == cursors


@pytest.mark.requirement("PAGE-11", "M:PAG-5")
@pytest.mark.parametrize(
    "mode, requests", [("same-cursor", 2), ("circle", 4), ("endless-pages", 1000)]
)
def test_k24_an_endless_list_is_detected(scripted: Script, mode: str, requests: int) -> None:
    for revision in ERAS if requests < 1000 else ERAS[:1]:
        server = scripted(list=mode)
        with server.connect(revision) as client:
            with pytest.raises(minimcp.ProtocolViolation):
                client.list_tools(timeout=NEVER)
            assert client.call_tool("echo").text == "well"
        assert len(server.messages("tools/list")) == requests


# ---------------------------------------------------------------- progress


@pytest.mark.requirement(
    "PROG-01", "PROG-03", "PROG-05", "PROG-06", "PROG-08", "PROG-09", "M:PROG-1", "M:PROG-2"
)
@pytest.mark.requirement("PROG-07", "PROG-11", "M:PROG-4")
def test_progress_arrives_in_order_on_the_callers_thread_before_the_return(
    talking_both: Both,
) -> None:
    server, client = talking_both  # fewer reports than wait at most (MAX_PROGRESS): none is dropped
    seen: List[Any] = []
    result = client.call_tool(
        "count",
        {"total": 900},
        timeout=NEVER,
        on_progress=lambda p: seen.append((p, threading.current_thread())),
    )
    count = len(seen)
    assert client.call_tool("echo").text == "well"
    assert result.text == "counted" and count == len(seen) == 901
    assert {thread for _, thread in seen} == {threading.current_thread()}
    reports = [report for report, _ in seen]
    assert [report.progress for report in reports] == [*(n + 0.5 for n in range(900)), 901]
    assert (reports[3].total, reports[3].message) == (900, "step 3")
    assert (reports[-1].total, reports[-1].message) == (None, None)
    with_token, without = server.messages("tools/call")
    assert type(with_token["params"]["_meta"]["progressToken"]) in (int, str)
    assert "progressToken" not in without["params"].get("_meta", {})
    odd: List[Any] = []
    assert (
        client.call_tool("stray-progress", on_progress=lambda p: odd.append(p.progress)).text
        == "done"
    )
    assert client.call_tool("echo").text == "well" and odd == [1], "for nobody, and in odd shapes"


@pytest.mark.requirement("PROG-02", "M:PROG-1", "BASE-05", "M:BASE-3", "M:BASE-15")
def test_each_running_call_has_a_token_of_its_own(talking_both: Both) -> None:
    server, client = talking_both
    arguments = [{"calls": 8, "number": n} for n in range(8)]
    calls = [
        Task(client.call_tool, "reverse", each, on_progress=lambda p: None) for each in arguments
    ]
    assert [call.ended().text for call in calls] == [str(n) for n in range(8)]
    tokens = [
        message["params"]["_meta"]["progressToken"] for message in server.messages("tools/call")
    ]
    assert len({(type(token), token) for token in tokens}) == 8


# ---------------------------------------------------------------- ping, log level, anything else


@pytest.mark.requirement(
    "PING-01", "PING-02", "PING-08", "LIFE-17", "CANC-03", "M:VER-C11", "LOG-07", "M:LOG-3"
)
@pytest.mark.parametrize("revision, method", [(HANDSHAKE, "ping"), (MODERN, "server/discover")])
def test_ping_takes_the_time_and_in_the_new_era_is_not_cancelled(
    scripted: Script, revision: str, method: str
) -> None:
    server = scripted(discover=["modern", "modern", "silent"])
    with server.connect(revision) as client:
        assert 0 < client.ping() < WAIT
        assert server.methods()[-1] == method
        before = server.methods()
        for level in ("loud", "", "WARNING"):  # no such level: nothing is sent
            with pytest.raises(ValueError):
                client.set_log_level(level)
        assert server.methods() == before
        if revision == MODERN:
            with pytest.raises(minimcp.RequestTimeout):
                client.ping(timeout=0.5)
        assert client.call_tool("echo").text == "well"
    assert CANCELLED not in server.methods()


@pytest.mark.requirement("LOG-03", "LOG-02", "LOG-10")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_in_the_older_era_the_log_level_is_set_once(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    assert client.set_log_level("warning") is None
    client.call_tool("echo")
    (message,) = server.messages("logging/setLevel")
    assert message["params"] == {"level": "warning"}
    assert "_meta" not in server.messages("tools/call")[0]["params"]


# ---------------------------------------------------------------- timeouts


@pytest.mark.requirement(
    "LIFE-18", "LIFE-19", "LIFE-20", "LIFE-23", "CANC-06", "M:CAN-5", "M:CAN-7", "M:CAN-8"
)
@pytest.mark.requirement("M:ERR-7", "M:STD-7", "CANC-01")
def test_a_timeout_is_sent_once_and_the_late_response_is_dropped(talking_both: Both) -> None:
    server, client = talking_both
    with pytest.raises(minimcp.RequestTimeout, match="tools/call|hold") as caught:
        client.call_tool("hold", timeout=0.2)
    (notice,) = server.heard(CANCELLED)  # which it answers by its late result
    assert client.call_tool("echo", {"text": "next"}).text == "next"
    assert isinstance(caught.value, TimeoutError) and not isinstance(caught.value, minimcp.RpcError)
    assert notice["params"]["requestId"] == server.messages("tools/call")[0]["id"]
    assert isinstance(notice["params"].get("reason", ""), str) and "id" not in notice
    for timeout in (0, 0.0):
        with pytest.raises(minimcp.RequestTimeout):
            client.call_tool("hold", timeout=timeout)
    assert client.call_tool("echo").text == "well"


@pytest.mark.requirement("LIFE-22", "M:PROG-7")
def test_progress_does_not_extend_a_timeout(talking_both: Both) -> None:
    _, client = talking_both
    seen: List[Any] = []
    for seconds in PATIENCE:
        with pytest.raises(minimcp.RequestTimeout):
            client.call_tool("endless-progress", timeout=seconds, on_progress=seen.append)
        if seen:
            break
    assert seen


@pytest.mark.requirement("LIFE-20", "LIFE-18", "M:CAN-7")
@pytest.mark.parametrize("revision", ERAS)
def test_the_connections_timeout_is_the_default_and_covers_all_pages(
    scripted: Script, revision: str
) -> None:
    for listed in ("silent", "slow-pages"):
        with scripted(list=listed).connect(revision, timeout=0.12) as client:
            for call in (
                lambda: client.call_tool("silent"), client.list_tools, lambda: client.request("x/y-silent")
            ):  # fmt: skip
                with pytest.raises(minimcp.RequestTimeout):
                    call()
            assert client.call_tool("echo", timeout=None).text == "well"


# ---------------------------------------------------------------- call_tools, and the end


@pytest.mark.requirement("BASE-05", "M:BASE-3", "M:BASE-15", "BATCH-02")
def test_call_tools_sends_all_at_once_and_returns_in_order(talking_both: Both) -> None:
    _, client = talking_both
    # The server answers only when all calls have arrived, the last one first.
    results = client.call_tools(
        [("reverse", {"calls": 50, "number": n}) for n in range(50)], timeout=NEVER
    )
    assert [result.text for result in results] == [str(n) for n in range(50)] and client.call_tools(
        []
    ) == []
    calls = [("reverse", {"calls": 4, "number": n}) for n in (0, -1, 2, -3)]
    found = client.call_tools(calls, return_exceptions=True, timeout=NEVER)
    assert [getattr(one, "data", None) for one in found] == [
        None,
        {"number": -1},
        None,
        {"number": -3},
    ]
    with pytest.raises(minimcp.RpcError) as caught:
        client.call_tools(calls, timeout=NEVER)
    assert caught.value.data == {"number": -1}
    failed = client.call_tools([("echo", {}), ("fails", {})], return_exceptions=True)
    assert failed[0].text == "well" and isinstance(failed[1], minimcp.ToolError)


@pytest.mark.requirement("LIFE-25", "LIFE-27")
@pytest.mark.parametrize("revision", ERAS)
def test_close_ends_waiting_calls_and_rejects_later_ones(scripted: Script, revision: str) -> None:
    server = scripted(instructions="Be kind.")
    client = server.connect(revision)
    futures = [client.submit(client.call_tool, "hold", timeout=NEVER) for _ in range(10)]
    server.heard("tools/call", 10)
    client.close()
    assert {type(future.exception(WAIT)) for future in futures} == {minimcp.ConnectionLost}
    client.close()
    for later in (
        lambda: client.call_tool("echo"), lambda: client.call_tools([("echo", {})]), client.list_tools, client.ping,
        lambda: client.request("x"), lambda: client.notify("notifications/x"), lambda: client.set_log_level("info"),
        lambda: client.submit(client.call_tool, "echo").result(WAIT),
    ):  # fmt: skip
        with pytest.raises(minimcp.ConnectionLost, match="closed"):
            later()
    with pytest.raises(minimcp.ConnectionLost), client:
        client.ping()
    notices = [
        notice["params"]["requestId"] for notice in server.messages("notifications/cancelled")
    ]
    assert sorted(notices) == sorted(call["id"] for call in server.messages("tools/call"))
    assert "closed" in repr(client) and (client.revision, client.instructions) == (
        revision,
        "Be kind.",
    )
    assert client.server_info and client.server_info.name == "scripted" and client.stderr_tail == ""


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
    kinds = [
        one.category
        for one in caught
        if "close" in str(one.message) or "Client" in str(one.message)
    ]
    assert kinds == [ResourceWarning] * (not closed)
