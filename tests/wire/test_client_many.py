"""Many calls of one client at once (futures, `call_tools`, threads), and its end with calls under way."""

from __future__ import annotations

import gc
import os
import signal
import threading
import warnings
from concurrent.futures import CancelledError, Future, wait
from typing import Any, List

import pytest

import minimcp

from ..support import WAIT, eventually
from .clients import ERAS, InThread, Script, make_scripted, spoken, wall_below  # noqa: F401
from .conftest import Talking

NEVER = 60.0
"""Seconds: a timeout that a test must not reach."""


# ---------------------------------------------------------------- submit


@pytest.mark.parametrize("revision", ERAS)
def test_a_submitted_call_is_a_future(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    seen: List[Any] = []
    called = threading.Event()
    good = client.submit(
        client.call_tool,
        "count",
        {"total": 5},
        on_progress=lambda p: seen.append(threading.current_thread()),
    )
    assert isinstance(good, Future)
    good.add_done_callback(lambda future: called.set())
    bad = client.submit(client.call_tool, "fails")
    listed = client.submit(client.list_tools)
    assert good.result(WAIT).text == "counted"
    assert isinstance(bad.exception(WAIT), minimcp.ToolError)
    assert [tool.name for tool in listed.result(WAIT)] == ["echo"]
    assert called.wait(WAIT)
    done, pending = wait([good, bad, listed], WAIT)
    assert len(done) == 3 and not pending
    assert not good.cancel() and good.done() and not good.cancelled()
    assert len(seen) == 6 and threading.current_thread() not in seen


@pytest.mark.requirement("CANC-01", "CANC-02", "M:CAN-1", "M:STD-7")
@pytest.mark.parametrize("revision", ERAS)
def test_cancelling_the_future_of_a_running_call_tells_the_server(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    future = client.submit(client.call_tool, "hold", timeout=NEVER)
    (call,) = server.heard("tools/call")
    assert future.cancel()
    assert future.cancelled()
    with pytest.raises(CancelledError):
        future.result(WAIT)
    (notice,) = server.heard("notifications/cancelled")
    assert notice["params"]["requestId"] == call["id"]
    assert client.call_tool("echo").text == "well"
    assert len(server.messages("notifications/cancelled")) == 1


def test_a_hundred_submitted_calls_wait_at_the_same_time(talking: Talking) -> None:
    _, client = talking("handshake")
    futures = [
        client.submit(client.call_tool, "reverse", {"calls": 100, "number": n}) for n in range(100)
    ]
    assert [future.result(WAIT).text for future in futures] == [str(n) for n in range(100)]


@pytest.mark.requirement("LIFE-27")
def test_submitted_calls_end_when_the_client_is_closed(scripted: Script) -> None:
    server = scripted()
    client = server.connect("handshake")
    futures = [client.submit(client.call_tool, "hold", timeout=NEVER) for _ in range(10)]
    server.heard("tools/call", 10)
    client.close()
    assert {type(future.exception(WAIT)) for future in futures} == {minimcp.ConnectionLost}
    with pytest.raises(minimcp.ConnectionLost):
        future = client.submit(client.call_tool, "echo")
        future.result(WAIT)


# ---------------------------------------------------------------- call_tools


@pytest.mark.requirement("BASE-05", "M:BASE-3", "M:BASE-15", "BATCH-02")
@pytest.mark.parametrize("revision", ERAS)
def test_call_tools_sends_all_at_once_and_returns_in_order(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    # The server answers only when all have come, the last one first.
    results = client.call_tools(
        [("reverse", {"calls": 50, "number": n}) for n in range(50)], timeout=NEVER
    )
    assert [result.text for result in results] == [str(n) for n in range(50)]
    assert client.call_tools([]) == []


@pytest.mark.parametrize("revision", ERAS)
def test_call_tools_returns_exceptions_where_they_are_asked_for(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    calls = [("reverse", {"calls": 4, "number": n}) for n in (0, -1, 2, -3)]
    found = client.call_tools(calls, return_exceptions=True, timeout=NEVER)
    assert [type(one).__name__ for one in found] == [
        "CallToolResult",
        "RpcError",
        "CallToolResult",
        "RpcError",
    ]
    assert [one.data["number"] for one in found if isinstance(one, minimcp.RpcError)] == [-1, -3]
    with pytest.raises(minimcp.RpcError) as caught:
        client.call_tools(calls, timeout=NEVER)
    assert caught.value.data == {"number": -1}
    failed = client.call_tools([("echo", {}), ("fails", {})], return_exceptions=True)
    assert failed[0].text == "well" and isinstance(failed[1], minimcp.ToolError)


@pytest.mark.requirement("M:CAN-8", "LIFE-19")
def test_call_tools_has_one_timeout(talking: Talking) -> None:
    server, client = talking("handshake")
    with wall_below(1), pytest.raises(minimcp.RequestTimeout):
        client.call_tools([("hold", {})] * 5, timeout=1)
    server.heard("notifications/cancelled", 5)
    assert client.call_tool("echo").text == "well"
    cancelled = [message["params"]["requestId"] for message in server.messages("notifications/cancelled")]
    assert sorted(cancelled) == sorted({message["id"] for message in server.messages("tools/call")[:5]})


# ---------------------------------------------------------------- threads


@pytest.mark.requirement("BASE-04", "M:BASE-4", "M:BASE-13", "STDIO-12", "M:STD-14", "STDIO-03")
@pytest.mark.parametrize("revision", ERAS)
def test_many_threads_share_a_client(scripted: Script, revision: str) -> None:
    server = scripted()
    wrong: List[Any] = []

    def work(number: int) -> None:
        for turn in range(20):
            text = f"{number}-{turn}\n" * (1 + turn * 37)
            if client.call_tool("echo", {"text": text}, timeout=NEVER).text != text:
                wrong.append((number, turn))

    with server.connect(revision) as client:
        threads = [InThread(work, number) for number in range(32)]
        assert [thread.ended() for thread in threads] == [None] * 32
    assert wrong == []
    assert (
        len(server.journal("line")) >= 32 * 20
    )  # `check` of the fixture looks at each: whole, and no id twice


@pytest.mark.requirement("LIFE-27")
def test_every_call_ends_when_another_thread_closes_the_client(scripted: Script) -> None:
    server = scripted()
    client = server.connect("handshake")
    ends: List[str] = []

    def work() -> None:
        while True:
            try:
                client.call_tool("echo", {"text": "x" * 1000}, timeout=NEVER)
            except minimcp.ConnectionLost:
                ends.append("lost")
                return

    threads = [InThread(work) for _ in range(16)]
    server.heard("tools/call", 50)
    client.close()
    assert [thread.ended() for thread in threads] == [None] * 16
    assert ends == ["lost"] * 16


# ---------------------------------------------------------------- close


@pytest.mark.requirement("LIFE-25", "LIFE-27")
@pytest.mark.parametrize("revision", ERAS)
def test_close_ends_what_waits_and_refuses_what_comes_later(scripted: Script, revision: str) -> None:
    server = scripted()
    client = server.connect(revision)
    call = InThread(client.call_tool, "hold", timeout=NEVER)
    server.heard("tools/call")
    client.close()
    assert isinstance(call.ended(), minimcp.ConnectionLost)
    client.close()
    for later in (
        lambda: client.call_tool("echo"),
        lambda: client.call_tools([("echo", {})]),
        client.list_tools,
        client.ping,
        lambda: client.request("x"),
        lambda: client.notify("notifications/x"),
        lambda: client.set_log_level("info"),
    ):
        with pytest.raises(minimcp.ConnectionLost, match="closed"):
            later()
    with pytest.raises(minimcp.ConnectionLost):
        with client:
            client.ping()
    (left,) = server.messages("tools/call")
    assert [notice["params"]["requestId"] for notice in server.messages("notifications/cancelled")] == [left["id"]]
    assert "closed" in repr(client)


def test_what_is_known_stays_known_after_close(scripted: Script) -> None:
    server = scripted(instructions="Be kind.")
    with server.connect() as client:
        revision = spoken(client)
        assert "open" in repr(client) or "scripted" in repr(client)
    assert spoken(client) == revision and client.instructions == "Be kind."
    assert client.server_info and client.server_info.name == "scripted" and client.stderr_tail == ""


@pytest.mark.requirement("LIFE-26")
def test_close_from_several_threads_at_once(scripted: Script) -> None:
    server = scripted()
    client = server.connect()
    closers = [InThread(client.close) for _ in range(8)]
    assert [closer.ended() for closer in closers] == [None] * 8
    assert len(server.journal("eof")) == 1


def test_close_from_a_progress_callback(scripted: Script) -> None:
    server = scripted()
    client = server.connect("handshake")
    with pytest.raises(minimcp.ConnectionLost):
        client.call_tool("one-step", timeout=NEVER, on_progress=lambda p: client.close())
    client.close()


def test_close_from_a_log_callback(scripted: Script) -> None:
    server = scripted()
    closed = threading.Event()

    def on_log(message: Any) -> None:
        client.close()
        closed.set()

    client = server.connect("handshake", on_log=on_log)
    try:
        client.call_tool("logs", timeout=NEVER)
    except minimcp.ConnectionLost:
        pass
    assert closed.wait(WAIT)
    client.close()


def test_an_exception_in_the_block_closes_and_passes(scripted: Script) -> None:
    server = scripted()
    with pytest.raises(ZeroDivisionError):
        with server.connect() as client:
            raise ZeroDivisionError
    with pytest.raises(minimcp.ConnectionLost):
        client.ping()
    server.happened("eof")


def test_a_client_that_is_collected_while_open_warns(scripted: Script) -> None:
    server = scripted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = server.connect()
        client.call_tool("echo")
        del client
        gc.collect()
        assert eventually(lambda: bool(server.journal("eof")))
    (warning,) = [one for one in caught if one.category is ResourceWarning]
    assert "close" in str(warning.message) or "Client" in str(warning.message)


def test_a_client_that_was_closed_is_collected_without_a_word(scripted: Script) -> None:
    server = scripted()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client = server.connect()
        client.close()
        del client
        gc.collect()
    assert [str(one.message) for one in caught] == []


# ---------------------------------------------------------------- fork


def in_fork(check: Any) -> str:
    """Run `check` in a forked process and hand over the text that it returns; no clean-up there."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons dislike a fork beside threads
        pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(int(WAIT))
            os.close(reading)
            try:
                text = str(check())
            except BaseException as error:
                text = f"{type(error).__name__}: {error}"
            os.write(writing, text.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(pid, 0)
    return text


@pytest.mark.parametrize("revision", ERAS)
def test_after_a_fork_the_child_has_no_connection_and_the_parents_goes_on(
    scripted: Script, revision: str
) -> None:
    server = scripted()

    def check() -> str:
        kinds = []
        for call in (lambda: client.call_tool("echo", timeout=1), client.list_tools, client.ping):
            try:
                call()
            except Exception as error:
                kinds.append(type(error).__name__)
        client.close()
        client.__exit__(None, None, None)
        return " ".join(kinds)

    with server.connect(revision) as client:
        client.call_tool("echo")
        before = server.methods()
        assert in_fork(check) == "ConnectionLost ConnectionLost ConnectionLost"
        assert server.methods() == before and server.journal("eof") == []
        assert client.call_tool("echo", {"text": "still"}).text == "still"


def test_after_a_fork_during_a_call_the_parents_call_goes_on(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        call = InThread(client.call_tool, "reverse", {"calls": 2, "number": 1}, timeout=NEVER)
        server.heard("tools/call")
        assert in_fork(lambda: client.close() or "closed") == "closed"
        client.call_tool("reverse", {"calls": 2, "number": 2}, timeout=NEVER)
        assert call.ended().text == "1"


def test_a_child_of_a_fork_may_connect_anew(scripted: Script) -> None:
    server = scripted()
    again = scripted()

    def check() -> str:
        with again.connect("handshake") as own:
            return own.call_tool("echo", {"text": "mine"}, timeout=WAIT).text

    with server.connect("handshake") as client:
        assert in_fork(check) == "mine"
        assert client.call_tool("echo").text == "well"
