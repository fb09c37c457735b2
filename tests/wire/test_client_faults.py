"""A client whose server fails it: rows K01, K05, K06, K08 to K10 and K24 of the fault catalogue.

Times are bounded by the row's figure: processor time where this process works, the clock (times the slack of
a shared machine) where it waits for something that has a bound.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any, List

import pytest

import minimcp
from minimcp.stdio import child

from ..support import WAIT, eventually
from .clients import (  # noqa: F401
    ERAS,
    PATIENCE,
    InThread,
    Script,
    cpu_below,
    lives,
    make_scripted,
    memory_below,
    wall_below,
)

NEVER = 60.0
"""Seconds: a timeout that a test must not reach. What is found out at once is found out long before it."""


# ---------------------------------------------------------------- K01: no answer, or no server


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("LIFE-18", "M:CAN-7")
def test_k01_a_server_that_never_answers_is_a_timeout(scripted: Script) -> None:
    server = scripted(start="silent")
    with wall_below(1), pytest.raises((minimcp.RequestTimeout, minimcp.ConnectionFailed), match="peer.py"):
        server.connect(connect_timeout=0.15, probe_timeout=0.05)


@pytest.mark.requirement("LIFE-27", "M:STD-11")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_k01_a_server_that_dies_at_its_start_is_told_with_code_and_last_words(
    scripted: Script, mode: str
) -> None:
    server = scripted(start="dies-at-start")
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        server.connect(mode, connect_timeout=NEVER, probe_timeout=NEVER)
    error = caught.value
    assert error.exit_code == 3 and error.signal is None
    assert error.stderr_tail == "first words\nno database: giving up\n"
    assert "peer.py" in str(error) and "3" in str(error) and "no database" in str(error)
    assert isinstance(error, ConnectionError)


def test_k01_a_server_that_dies_by_a_signal_is_told_with_its_number(scripted: Script) -> None:
    server = scripted(start="dies-by-signal")
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        server.connect("handshake", connect_timeout=NEVER)
    assert caught.value.signal == signal.SIGKILL and caught.value.exit_code is None
    assert "SIGKILL" in str(caught.value) or "signal 9" in str(caught.value)


@pytest.mark.requirement("LIFE-27", "M:STD-11")
@pytest.mark.parametrize("revision", ERAS)
def test_k01_a_server_that_dies_in_a_call_ends_it_at_once(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        with pytest.raises(minimcp.ConnectionLost) as caught:
            client.call_tool("exit-mid-call", timeout=NEVER)
        assert caught.value.exit_code == 7
        assert "out of luck" in caught.value.stderr_tail
        assert "out of luck" in client.stderr_tail
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("echo", timeout=NEVER)


@pytest.mark.requirement("LIFE-27")
def test_k01_all_that_wait_end_with_the_same_cause(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        waiting = [InThread(client.call_tool, "hold", timeout=NEVER) for _ in range(20)]
        server.heard("tools/call", 20)
        last = InThread(client.call_tool, "exit-mid-call", timeout=NEVER)
        ends = [call.ended() for call in (*waiting, last)]
        assert {type(end) for end in ends} == {minimcp.ConnectionLost}
        assert {end.exit_code for end in ends} == {7}


@pytest.mark.parametrize("revision", ERAS)
def test_k01_half_a_line_and_an_exit_ends_the_call_at_once(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        with pytest.raises(minimcp.ConnectionLost) as caught:
            client.call_tool("half-line-exit", timeout=NEVER)
        assert caught.value.exit_code == 0


@pytest.mark.parametrize("revision", ERAS)
def test_k01_half_a_line_and_silence_is_a_timeout(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client:
        with pytest.raises(minimcp.RequestTimeout):
            client.call_tool("half-line-hang", timeout=0.5)
        assert len(server.heard("notifications/cancelled")) == 1


def test_k01_a_last_answer_without_a_line_feed_is_an_answer(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        assert client.call_tool("unended", timeout=NEVER).text == "unended"


@pytest.mark.requirement("M:STD-11", "LIFE-27")
@pytest.mark.parametrize("revision", ERAS)
def test_k01_a_server_that_closes_its_output_has_left(
    scripted: Script, revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "SETTLE_SECONDS", 0.05)  # it lives on, until its input ends
    server = scripted()
    with server.connect(revision) as client:
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("close-stdout", timeout=NEVER)
    server.happened("eof")


def test_k01_a_killed_server_is_told_with_the_signal(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        call = InThread(client.call_tool, "hold", timeout=NEVER)
        server.heard("tools/call")
        os.kill(server.journal("start")[0]["pid"], signal.SIGKILL)
        error = call.ended()
        assert isinstance(error, minimcp.ConnectionLost) and error.signal == signal.SIGKILL


# ---------------------------------------------------------------- K05: a flood of notifications


@pytest.mark.parametrize("revision", ERAS)
def test_k05_a_flood_of_notifications_nobody_wants(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision) as client, cpu_below(1), wall_below(1), memory_below(10):
        assert client.call_tool("note-flood", timeout=NEVER).text == "after the flood"


@pytest.mark.requirement("LOG-10", "LOG-06")
def test_k05_a_flood_of_notifications_that_a_handler_takes(scripted: Script) -> None:
    server = scripted()
    taken: List[int] = []
    last = threading.Event()

    def on_log(message: Any) -> None:
        taken.append(message.data)
        if message.data == 19_999:
            last.set()

    with server.connect("handshake", on_log=on_log) as client:
        with cpu_below(1.5), wall_below(1), memory_below(32):
            assert client.call_tool("note-flood", timeout=NEVER).text == "after the flood"
            assert last.wait(WAIT)
    assert taken == sorted(taken)  # in wire order, whatever was dropped


@pytest.mark.requirement("LOG-10")
def test_k05_a_handler_that_never_returns_stops_nothing(scripted: Script) -> None:
    server = scripted()
    entered, release = threading.Event(), threading.Event()

    def on_log(message: Any) -> None:
        entered.set()
        release.wait(WAIT)

    try:
        with server.connect("handshake", on_log=on_log) as client:
            with memory_below(64):
                assert client.call_tool("note-flood", timeout=NEVER).text == "after the flood"
            assert entered.wait(WAIT)
            lives(client)
            release.set()
    finally:
        release.set()


@pytest.mark.requirement("BASE-10", "M:BASE-8", "CANC-09", "CANC-05", "M:CAN-4")
@pytest.mark.parametrize("revision", ERAS)
def test_k05_notifications_that_nobody_knows_are_passed_over(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision, on_log=lambda message: None) as client:
        assert client.call_tool("unknown-notes", {"text": "fine"}, timeout=NEVER).text == "fine"
        lives(client)
    assert server.messages("answer") == []


# ---------------------------------------------------------------- K06: a large answer


def test_k06_fifty_megabytes_in_one_answer(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake") as client:
        lives(client)
        with cpu_below(2), wall_below(2), memory_below(4 * 50):
            assert len(client.call_tool("big", {"bytes": 50_000_000}, timeout=NEVER).text) == 50_000_000
        lives(client)


# ---------------------------------------------------------------- K08: a line that never ends


def test_k08_a_line_above_the_limit_is_skipped_within_the_limits_memory(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake", limits=minimcp.Limits(message_bytes=1 << 20)) as client:
        lives(client)
        with memory_below(1 + 8):
            result = client.call_tool("no-newline-flood", {"bytes": 64 << 20, "text": "after"}, timeout=NEVER)
        assert result.text == "after"


def test_k08_an_answer_above_the_limit_is_lost_and_the_connection_is_not(scripted: Script) -> None:
    server = scripted()
    with server.connect("handshake", limits=minimcp.Limits(message_bytes=1 << 20)) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="Limits.message_bytes"):
            client.call_tool("big", {"bytes": 2 << 20}, timeout=NEVER)
        lives(client)
        limit = (1 << 20) - 300
        assert len(client.call_tool("big", {"bytes": limit}, timeout=NEVER).text) == limit


# ---------------------------------------------------------------- K09: a loud stderr


@pytest.mark.requirement("STDIO-06", "STDIO-07", "STDIO-08", "M:STD-4")
def test_k09_twenty_megabytes_of_stderr_are_drained_and_their_end_is_kept(scripted: Script) -> None:
    server = scripted(start="stderr-flood")
    with memory_below(8), server.connect("handshake") as client:
        lives(client)
        assert eventually(lambda: client.stderr_tail.endswith("the last words\n"))
        assert 1024 <= len(client.stderr_tail) <= 64 * 1024


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("STDIO-07", "STDIO-08")
def test_k09_a_consumer_that_takes_nothing_stops_nothing(scripted: Script) -> None:
    server = scripted(start="stderr-flood")
    release = threading.Event()
    try:
        with server.connect("handshake", stderr=lambda line: release.wait(WAIT)) as client:
            lives(client)
            release.set()
    finally:
        release.set()


@pytest.mark.requirement("STDIO-07")
def test_k09_stderr_goes_where_it_is_asked_to(scripted: Script, tmp_path: Path) -> None:
    server = scripted()
    heard: List[str] = []
    with server.connect("handshake", stderr=heard.append) as client:
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("exit-mid-call")
    assert heard == ["Traceback: out of luck"]
    with open(tmp_path / "err", "wb") as file, server.connect("handshake", stderr=file) as client:
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("exit-mid-call")
    assert (tmp_path / "err").read_bytes() == b"Traceback: out of luck\n"


# ---------------------------------------------------------------- K10: a server that does not read

MANY = "x" * 5_000_000


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("LIFE-18", "M:CAN-7")
@pytest.mark.parametrize("revision", ERAS)
def test_k10_five_megabytes_to_a_server_that_stopped_reading_end_at_the_calls_timeout(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with server.connect(revision) as client:
        client.call_tool("stop-reading")
        with wall_below(0.1), pytest.raises((minimcp.RequestTimeout, minimcp.ConnectionLost)):
            client.call_tool("echo", {"text": MANY}, timeout=0.1)
        with wall_below(0.1), pytest.raises((minimcp.RequestTimeout, minimcp.ConnectionLost)):
            client.call_tool("echo", timeout=0.1)


@pytest.mark.requirement("LIFE-19", "M:CAN-8", "STDIO-12", "M:STD-14", "CANC-02")
@pytest.mark.parametrize("revision", ERAS)
def test_k10_a_call_half_written_when_its_time_is_over_is_finished_and_cancelled(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with server.connect(revision) as client:
        for seconds in PATIENCE:
            client.call_tool("pause", {"seconds": 2 * seconds}, timeout=NEVER)
            with pytest.raises(minimcp.RequestTimeout):
                client.call_tool("hold", {"text": MANY}, timeout=seconds)
            lives(client)
            if any(record["length"] > len(MANY) for record in server.journal("line")):
                break
        cancelled = server.heard("notifications/cancelled")
    whole = [record for record in server.journal("line") if record["length"] > len(MANY)]
    assert len(whole) == 1 and len(cancelled) == 1
    assert f'"id":{cancelled[0]["params"]["requestId"]},' in whole[0]["text"].replace(" ", "")


@pytest.mark.usefixtures("hasty")
def test_k10_a_call_that_cannot_be_written_can_be_cancelled(scripted: Script) -> None:
    server = scripted()
    token = minimcp.CancelToken()
    with server.connect("handshake") as client:
        client.call_tool("stop-reading")
        call = InThread(client.call_tool, "echo", {"text": MANY}, timeout=NEVER, cancel=token)
        with wall_below(1):
            token.cancel()
            assert isinstance(call.ended(), minimcp.Cancelled)


@pytest.mark.usefixtures("hasty")
def test_k10_a_call_that_cannot_be_written_ends_when_the_client_is_closed(scripted: Script) -> None:
    server = scripted()
    client = server.connect("handshake")
    client.call_tool("stop-reading")
    call = InThread(client.call_tool, "echo", {"text": MANY}, timeout=NEVER)
    with wall_below(2):
        client.close()
    assert isinstance(call.ended(), minimcp.ConnectionLost)


@pytest.mark.requirement("STDIO-12", "M:STD-14", "M:STD-17")
@pytest.mark.parametrize("revision", ERAS)
def test_k10_both_sides_write_five_megabytes_at_once(scripted: Script, revision: str) -> None:
    server = scripted(start="duplex")
    with server.connect(revision) as client:
        assert client.call_tool("echo", {"text": MANY}, timeout=NEVER).text == MANY
        lives(client)


# ---------------------------------------------------------------- K24: lists without an end


@pytest.mark.requirement("PAGE-11", "M:PAG-5")
@pytest.mark.parametrize("mode, requests", [("same-cursor", 2), ("circle", 4), ("endless-pages", 1000)])
@pytest.mark.parametrize("revision", ERAS)
def test_k24_a_list_without_an_end_is_noticed(
    scripted: Script, mode: str, requests: int, revision: str
) -> None:
    server = scripted(list=mode)
    with server.connect(revision) as client:
        with pytest.raises(minimcp.ProtocolViolation):
            client.list_tools(timeout=NEVER)
        lives(client)
    assert len(server.messages("tools/list")) == requests
