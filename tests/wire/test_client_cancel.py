"""How a client gives up: timeouts and cancel tokens, as the caller and the server see them."""

from __future__ import annotations

from typing import Any, List

import pytest

import minimcp

from .clients import ERAS, PATIENCE, InThread, Script, make_scripted, wall_below  # noqa: F401
from .conftest import Talking

NEVER = 60.0
"""Seconds: a timeout that a test must not reach."""


# ---------------------------------------------------------------- timeouts


@pytest.mark.requirement(
    "LIFE-18", "LIFE-19", "LIFE-20", "LIFE-23", "CANC-06", "M:CAN-5", "M:CAN-7", "M:CAN-8"
)
@pytest.mark.requirement("M:ERR-7", "M:STD-7", "CANC-01")
@pytest.mark.parametrize("revision", ERAS)
def test_a_timeout_is_told_once_and_the_late_answer_is_dropped(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        with wall_below(0.5), pytest.raises(minimcp.RequestTimeout) as caught:
            client.call_tool("hold", timeout=0.5)
        server.heard("notifications/cancelled")  # which it answers by its late result
        assert client.call_tool("echo", {"text": "next"}).text == "next"
    assert isinstance(caught.value, TimeoutError) and not isinstance(caught.value, minimcp.RpcError)
    assert "tools/call" in str(caught.value) or "hold" in str(caught.value)
    assert [name for name in server.methods() if name == "notifications/cancelled"] == [
        "notifications/cancelled"
    ]
    (notice,) = server.messages("notifications/cancelled")
    assert notice["params"]["requestId"] == server.messages("tools/call")[0]["id"]
    assert isinstance(notice["params"].get("reason", ""), str) and "id" not in notice


@pytest.mark.requirement("LIFE-22", "M:PROG-7")
@pytest.mark.parametrize("revision", ERAS)
def test_progress_does_not_extend_a_timeout(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    seen: List[Any] = []
    for seconds in PATIENCE:
        with wall_below(seconds), pytest.raises(minimcp.RequestTimeout):
            client.call_tool("endless-progress", timeout=seconds, on_progress=seen.append)
        if seen:
            break
    assert seen
    assert client.call_tool("echo").text == "well"


@pytest.mark.requirement("LIFE-20", "LIFE-18")
@pytest.mark.parametrize("revision", ERAS)
def test_the_connections_timeout_is_the_default_of_each_call(scripted: Script, revision: str) -> None:
    server = scripted(list="silent")
    with server.connect(revision, timeout=0.05) as client:
        for call in (
            lambda: client.call_tool("silent"),
            client.list_tools,
            lambda: client.request("x/y-silent"),
        ):
            with wall_below(0.05), pytest.raises(minimcp.RequestTimeout):
                call()
        assert client.call_tool("echo", timeout=None).text == "well"


@pytest.mark.requirement("LIFE-17", "CANC-03", "M:VER-C11")
def test_a_ping_of_the_new_era_is_not_cancelled(scripted: Script) -> None:
    server = scripted(discover=["modern", "silent"])
    with server.connect() as client:
        with pytest.raises(minimcp.RequestTimeout):
            client.ping(timeout=0.5)
        assert client.call_tool("echo").text == "well"
    assert server.methods() == ["server/discover", "server/discover", "tools/call"]


@pytest.mark.parametrize("timeout", [0, 0.0])
def test_no_time_at_all_is_a_timeout(talking: Talking, timeout: float) -> None:
    _, client = talking("handshake")
    with pytest.raises(minimcp.RequestTimeout):
        client.call_tool("hold", timeout=timeout)
    assert client.call_tool("echo").text == "well"


# ---------------------------------------------------------------- cancel tokens


@pytest.mark.requirement(
    "CANC-01", "CANC-02", "CANC-06", "CANC-07", "M:CAN-1", "M:CAN-5", "M:STD-7", "M:CAN-9"
)
@pytest.mark.parametrize("revision", ERAS)
def test_a_token_ends_a_call_at_once_and_tells_the_server(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    token = minimcp.CancelToken()
    call = InThread(client.call_tool, "hold", timeout=NEVER, cancel=token)
    server.heard("tools/call")
    assert not token.cancelled
    token.cancel("changed my mind")
    assert isinstance(call.ended(), minimcp.Cancelled)
    assert token.cancelled
    (notice,) = server.heard("notifications/cancelled")
    assert client.call_tool("echo").text == "well"
    assert notice["params"] == {
        **notice["params"],
        "requestId": server.messages("tools/call")[0]["id"],
        "reason": "changed my mind",
    }


@pytest.mark.requirement("CANC-02", "M:CAN-2")
@pytest.mark.parametrize("revision", ERAS)
def test_a_token_that_was_cancelled_before_sends_nothing(scripted: Script, revision: str) -> None:
    server = scripted()
    token = minimcp.CancelToken()
    token.cancel()
    with server.connect(revision) as client:
        client.ping()
        before = server.methods()
        for call in (
            lambda: client.call_tool("echo", cancel=token),
            lambda: client.list_tools(cancel=token),
            lambda: client.ping(cancel=token),
        ):
            with pytest.raises(minimcp.Cancelled):
                call()
    assert server.methods() == before


@pytest.mark.requirement("CANC-02", "M:CAN-2", "CANC-07")
@pytest.mark.parametrize("revision", ERAS)
def test_a_token_cancelled_after_the_answer_says_nothing(scripted: Script, revision: str) -> None:
    server = scripted()
    token = minimcp.CancelToken()
    with server.connect(revision) as client:
        client.call_tool("echo", cancel=token)
        token.cancel()
        client.call_tool("echo")
    assert "notifications/cancelled" not in server.methods()


@pytest.mark.requirement("CANC-02", "M:CAN-2")
def test_one_token_serves_many_calls(talking: Talking) -> None:
    server, client = talking("handshake")
    token = minimcp.CancelToken()
    told: List[str] = []
    token.on_cancel(lambda: told.append("told"))
    calls = [InThread(client.call_tool, "hold", timeout=NEVER, cancel=token) for _ in range(5)]
    server.heard("tools/call", 5)
    other = InThread(client.call_tool, "reverse", {"calls": 7, "number": 1}, timeout=NEVER)
    server.heard("tools/call", 6)
    token.cancel()
    token.cancel()
    assert [type(call.ended()) for call in calls] == [minimcp.Cancelled] * 5
    server.heard("notifications/cancelled", 5)
    assert client.call_tool("reverse", {"calls": 2, "number": 2}, timeout=NEVER).text == "2"
    assert other.ended().text == "1"
    assert told == ["told"]
    cancelled = {message["params"]["requestId"] for message in server.messages("notifications/cancelled")}
    assert cancelled == {message["id"] for message in server.messages("tools/call")[:5]}


@pytest.mark.parametrize("revision", ERAS)
def test_a_token_cancelled_by_a_progress_callback(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    token = minimcp.CancelToken()
    with pytest.raises(minimcp.Cancelled):
        client.call_tool("one-step", timeout=NEVER, cancel=token, on_progress=lambda p: token.cancel())
    server.heard("notifications/cancelled")
    assert client.call_tool("echo").text == "well"


@pytest.mark.requirement("CANC-07", "M:CAN-12")
def test_a_cancel_and_an_answer_may_cross(talking: Talking) -> None:
    _, client = talking("handshake")
    ends: List[str] = []
    for _ in range(200):
        token = minimcp.CancelToken()
        canceller = InThread(token.cancel)
        try:
            ends.append(client.call_tool("echo", timeout=NEVER, cancel=token).text)
        except minimcp.Cancelled:
            ends.append("cancelled")
        canceller.ended()
    assert client.call_tool("echo", {"text": "usable"}).text == "usable"
    assert set(ends) <= {"well", "cancelled"}
