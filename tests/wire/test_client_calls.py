"""Calls of a client as its caller sees them and as the server does: pages, progress, log levels."""

from __future__ import annotations

import signal
import threading
from typing import Any, List

import pytest

import minimcp

from ..support import WAIT
from .clients import ERAS, HANDSHAKE, InThread, Script, make_scripted, wall_below  # noqa: F401
from .conftest import Talking
from .messages import HANDSHAKES, MODERN

NEVER = 60.0
"""Seconds: a timeout that a test must not reach."""


# ---------------------------------------------------------------- pages


@pytest.mark.requirement("SEED-27")
@pytest.mark.requirement(
    "PAGE-01", "PAGE-02", "PAGE-04", "PAGE-05", "PAGE-06", "PAGE-10", "M:PAG-1", "M:PAG-2", "M:PAG-6"
)
@pytest.mark.parametrize("revision", ERAS)
def test_all_pages_of_any_size_are_fetched_and_cursors_go_back_as_they_came(
    scripted: Script, revision: str
) -> None:
    server = scripted(list="pages")
    with server.connect(revision) as client:
        names = [tool.name for tool in client.list_tools()]
    assert names == ["t0-0", "t0-1", *(f"t2-{n}" for n in range(5)), "t3-0"]
    cursors = [message.get("params", {}).get("cursor", "none") for message in server.messages("tools/list")]
    assert cursors == ["none", "next ", "", "\u00fc=&/?\u2028"]


@pytest.mark.requirement("M:PAG-2", "PAGE-04", "PAGE-05")
@pytest.mark.parametrize("mode, count", [("null-cursor", 2), ("one", 1)])
@pytest.mark.parametrize("revision", ERAS)
def test_a_list_ends_without_a_cursor(scripted: Script, mode: str, count: int, revision: str) -> None:
    server = scripted(list=mode)
    with server.connect(revision) as client:
        assert len(client.list_tools()) == count
    assert len(server.messages("tools/list")) == count


@pytest.mark.requirement("LIFE-20", "M:CAN-7")
@pytest.mark.parametrize("revision", ERAS)
def test_a_lists_timeout_covers_all_its_pages(scripted: Script, revision: str) -> None:
    server = scripted(list="slow-pages")
    with server.connect(revision) as client:
        with wall_below(0.12), pytest.raises(minimcp.RequestTimeout):
            client.list_tools(timeout=0.12)


@pytest.mark.requirement("BASE-16", "BASE-11", "M:BASE-19")
@pytest.mark.parametrize("revision", ERAS)
def test_unknown_members_are_kept(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    (tool,) = client.list_tools()
    result = client.call_tool("extra")
    assert tool.description == "says it again" and tool.extra == {"x-extra": [1]}
    assert result.extra["x-extra"] == {"a": [None]}
    assert result.content[0].extra == {"x-block": 1}


# ---------------------------------------------------------------- progress


@pytest.mark.requirement(
    "PROG-01", "PROG-03", "PROG-05", "PROG-06", "PROG-08", "PROG-09", "M:PROG-1", "M:PROG-2"
)
@pytest.mark.parametrize("revision", ERAS)
def test_progress_comes_in_order_on_the_callers_thread_before_the_return(
    talking: Talking, revision: str
) -> None:
    server, client = talking(revision)
    seen: List[Any] = []
    result = client.call_tool(
        "count",
        {"total": 1000},
        timeout=NEVER,
        on_progress=lambda p: seen.append((p, threading.current_thread())),
    )
    count = len(seen)
    assert client.call_tool("echo").text == "well"
    assert result.text == "counted" and count == len(seen) == 1001
    assert {thread for _, thread in seen} == {threading.current_thread()}
    reports = [report for report, _ in seen]
    assert [report.progress for report in reports] == [*(n + 0.5 for n in range(1000)), 1001]
    assert (reports[3].total, reports[3].message) == (1000, "step 3")
    assert (reports[-1].total, reports[-1].message) == (None, None)
    with_token, without = server.messages("tools/call")
    assert type(with_token["params"]["_meta"]["progressToken"]) in (int, str)
    assert "progressToken" not in without["params"].get("_meta", {})


@pytest.mark.requirement("PROG-07", "PROG-09", "PROG-11", "M:PROG-2", "M:PROG-4")
@pytest.mark.parametrize("revision", ERAS)
def test_progress_for_nobody_and_in_odd_shapes_is_dropped(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    seen: List[Any] = []
    assert (
        client.call_tool("stray-progress", on_progress=lambda p: seen.append(p.progress)).text == "done"
    )
    assert client.call_tool("echo").text == "well"
    assert seen == [1]


@pytest.mark.requirement("PROG-02", "M:PROG-1")
@pytest.mark.parametrize("revision", ERAS)
def test_each_running_call_has_a_token_of_its_own(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    calls = [
        InThread(client.call_tool, "reverse", {"calls": 8, "number": n}, on_progress=lambda p: None)
        for n in range(8)
    ]
    assert [call.ended().text for call in calls] == [str(n) for n in range(8)]
    tokens = [message["params"]["_meta"]["progressToken"] for message in server.messages("tools/call")]
    assert len({(type(token), token) for token in tokens}) == 8


@pytest.mark.requirement("CANC-01", "CANC-02", "CANC-06", "STDIO-05", "M:CAN-1", "M:CAN-2", "M:STD-7")
@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("revision", ERAS)
def test_what_a_progress_callback_raises_reaches_the_caller_and_cancels_the_call(
    talking: Talking, revision: str, kind: type
) -> None:
    server, client = talking(revision)

    def on_progress(report: Any) -> None:
        raise kind("enough")

    with pytest.raises(kind, match="enough"):
        client.call_tool("one-step", timeout=NEVER, on_progress=on_progress)
    (notice,) = server.heard("notifications/cancelled")
    assert client.call_tool("echo", {"text": "usable"}).text == "usable"
    call = server.messages("tools/call")[0]
    assert notice["params"]["requestId"] == call["id"]
    assert type(notice["params"]["requestId"]) is type(call["id"])
    assert len(server.messages("notifications/cancelled")) == 1


@pytest.mark.requirement("CANC-01", "CANC-02", "M:CAN-1")
@pytest.mark.parametrize("revision", ERAS)
def test_an_interrupt_cancels_the_call_that_waits_and_no_more(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    main = threading.main_thread().ident
    assert main is not None and threading.current_thread() is threading.main_thread()

    def interrupt() -> None:
        server.heard("tools/call")
        signal.pthread_kill(main, signal.SIGINT)

    interrupter = InThread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.call_tool("hold", timeout=NEVER)
    interrupter.ended()
    (notice,) = server.heard("notifications/cancelled")
    assert notice["params"]["requestId"] == server.messages("tools/call")[0]["id"]
    assert client.call_tool("echo", {"text": "usable"}).text == "usable"


@pytest.mark.parametrize("revision", ERAS)
def test_a_progress_callback_may_call_the_client(talking: Talking, revision: str) -> None:
    _, client = talking(revision)
    seen: List[str] = []
    client.call_tool(
        "count",
        {"total": 20},
        timeout=NEVER,
        on_progress=lambda p: seen.append(client.call_tool("echo", {"text": str(p.progress)}).text),
    )
    assert seen == [*(str(n + 0.5) for n in range(20)), "21"]


# ---------------------------------------------------------------- ping, log level, anything else


@pytest.mark.requirement("PING-01", "PING-02", "PING-08")
@pytest.mark.parametrize("revision, method", [(HANDSHAKE, "ping"), (MODERN, "server/discover")])
def test_ping_takes_the_time(scripted: Script, revision: str, method: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        seconds = client.ping()
        assert isinstance(seconds, float) and 0 < seconds < WAIT
    assert server.methods()[-1] == method


@pytest.mark.requirement("LOG-03", "LOG-02", "LOG-10")
@pytest.mark.parametrize("revision", HANDSHAKES)
def test_in_the_older_era_the_log_level_is_set_once(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    assert client.set_log_level("warning") is None
    client.call_tool("echo")
    (message,) = server.messages("logging/setLevel")
    assert message["params"] == {"level": "warning"}
    assert "_meta" not in server.messages("tools/call")[0]["params"]


@pytest.mark.requirement("M:LOG-6", "M:LOG-1")
def test_in_the_new_era_every_later_request_carries_the_log_level(talking: Talking) -> None:
    key = "io.modelcontextprotocol/logLevel"
    server, client = talking("auto")
    client.call_tool("echo")
    client.set_log_level("warning")
    client.call_tool("echo")
    client.list_tools()
    client.set_log_level("debug")
    client.call_tool("echo")
    sent = [message for message in server.messages() if message["method"] != "server/discover"]
    assert [message["params"]["_meta"].get(key) for message in sent] == [None, "warning", "warning", "debug"]


@pytest.mark.requirement("LOG-07", "M:LOG-3")
@pytest.mark.parametrize("revision", ERAS)
def test_a_level_that_does_not_exist_is_refused_before_anything_is_sent(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with server.connect(revision) as client:
        client.ping()
        before = server.methods()
        for level in ("loud", "", "WARNING"):
            with pytest.raises(ValueError):
                client.set_log_level(level)
    assert server.methods() == before


@pytest.mark.requirement("LOG-02", "LOG-06", "LOG-10", "M:LOG-8")
@pytest.mark.parametrize("revision", ERAS)
def test_log_messages_come_in_order_on_one_thread_that_is_not_ours(scripted: Script, revision: str) -> None:
    server = scripted()
    seen: List[Any] = []
    done = threading.Event()

    def on_log(message: Any) -> None:
        seen.append((message.level, message.data, message.logger, threading.current_thread()))
        if message.level == "info":
            answers.append(client.call_tool("echo", {"text": "from a callback"}).text)
        if message.level == "notice":
            raise ZeroDivisionError("a callback that fails")
        if message.level == "emergency":
            done.set()

    answers: List[str] = []
    with server.connect(revision, on_log=on_log) as client:
        client.call_tool("logs", timeout=NEVER)
        assert done.wait(WAIT)
    levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
    assert [entry[:3] for entry in seen] == [(level, {"of": level}, "peer") for level in levels]
    assert len({thread for *_, thread in seen}) == 1 and seen[0][-1] is not threading.current_thread()
    assert answers == ["from a callback"]


@pytest.mark.requirement("BASE-09", "M:META-1", "BASE-16")
@pytest.mark.parametrize("revision", ERAS)
def test_any_method_can_be_called_and_any_notification_sent(talking: Talking, revision: str) -> None:
    server, client = talking(revision)
    assert isinstance(client.request("vendor/thing", {"a": 1}), dict)
    client.notify("notifications/vendor", {"b": 2})
    client.ping()
    (request,) = server.messages("vendor/thing")
    (notice,) = server.messages("notifications/vendor")
    assert request["params"]["a"] == 1 and ("_meta" in request["params"]) == (revision == MODERN)
    assert notice["params"]["b"] == 2 and "id" not in notice
