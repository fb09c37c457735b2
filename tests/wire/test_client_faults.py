"""A client whose server fails it: K01, K05, K06 and K08 to K10 of the fault catalogue, and `connect(restart=True)`.

Whether the row's figures of time and memory hold is judged apart from the other tests.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any, List

import pytest

import minimcp
from minimcp.stdio import child

from ..scripted import Task
from ..support import WAIT, child_processes, eventually
from .clients import ERAS, NEVER, Script, lives
from .messages import MODERN

LIMITED = minimcp.Limits(message_bytes=1 << 20)


# ---------------------------------------------------------------- K01: no answer, or no server


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("LIFE-18", "M:CAN-7")
def test_k01_a_server_that_never_answers_is_a_timeout(scripted: Script) -> None:
    server = scripted(start="silent")
    with pytest.raises((minimcp.RequestTimeout, minimcp.ConnectionFailed), match="peer.py"):
        server.connect(connect_timeout=0.15, probe_timeout=0.05)


@pytest.mark.requirement("LIFE-27", "M:STD-11")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_k01_a_server_that_dies_at_its_start_is_told_with_code_and_last_words(scripted: Script, mode: str) -> None:
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        scripted(start="dies-at-start").connect(mode, connect_timeout=NEVER, probe_timeout=NEVER)
    error = caught.value
    assert error.exit_code == 3 and error.signal is None and isinstance(error, ConnectionError)
    assert error.stderr_tail == "first words\nno database: giving up\n"
    assert "peer.py" in str(error) and "3" in str(error) and "no database" in str(error)
    with pytest.raises(minimcp.ConnectionFailed, match="SIGKILL|signal 9") as caught:
        scripted(start="dies-by-signal").connect("handshake", connect_timeout=NEVER)
    assert caught.value.signal == signal.SIGKILL and caught.value.exit_code is None


@pytest.mark.requirement("LIFE-27", "M:STD-11")
@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize("tool, exit_code", [("exit-mid-call", 7), ("half-line-exit", 0), ("close-stdout", None)])
def test_k01_a_server_that_dies_in_a_call_ends_all_at_once_with_the_same_cause(
    scripted: Script, revision: str, tool: str, exit_code: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tool == "close-stdout":
        monkeypatch.setattr(child, "SETTLE_SECONDS", 0.05)  # it lives on, until its input ends
    server = scripted()
    with server.connect(revision) as client:
        waiting = [Task(client.call_tool, "hold", timeout=NEVER) for _ in range(20)]
        server.heard("tools/call", 20)
        ends = [call.ended() for call in (*waiting, Task(client.call_tool, tool, timeout=NEVER))]
        assert {type(end) for end in ends} == {minimcp.ConnectionLost}
        if exit_code is not None:
            assert {end.exit_code for end in ends} == {exit_code}
        if exit_code:
            assert all("out of luck" in each for each in (client.stderr_tail, *(end.stderr_tail for end in ends)))
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("echo", timeout=NEVER)
    assert exit_code is not None or server.happened("eof")


@pytest.mark.parametrize("revision", ERAS)
def test_k01_half_a_line_and_silence_is_a_timeout_and_no_line_feed_is_needed_at_the_end(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with server.connect(revision) as client:
        with pytest.raises(minimcp.RequestTimeout):
            client.call_tool("half-line-hang", timeout=0.5)
        assert len(server.heard("notifications/cancelled")) == 1
    with scripted().connect(revision) as client:
        assert client.call_tool("unended", timeout=NEVER).text == "unended"


# ---------------------------------------------------------------- K05, K06, K08, K09: floods


def test_k08_a_line_above_the_limit_is_skipped_and_an_answer_above_it_is_lost(scripted: Script) -> None:
    with scripted().connect("handshake", limits=LIMITED) as client:
        result = client.call_tool("no-newline-flood", {"bytes": 8 << 20, "text": "after"}, timeout=NEVER)
        assert result.text == "after"
        with pytest.raises(minimcp.ProtocolViolation, match="Limits.message_bytes"):
            client.call_tool("big", {"bytes": 2 << 20}, timeout=NEVER)
        limit = (1 << 20) - 300
        assert len(client.call_tool("big", {"bytes": limit}, timeout=NEVER).text) == limit


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("STDIO-06", "STDIO-07", "STDIO-08", "M:STD-4")
def test_k09_a_loud_stderr_is_drained_and_its_end_is_kept(scripted: Script) -> None:
    """And a consumer that takes nothing stops nothing."""
    release = threading.Event()
    try:
        with scripted(start="stderr-flood").connect("handshake", stderr=lambda line: release.wait(WAIT)) as client:
            lives(client)
            release.set()
            assert eventually(lambda: client.stderr_tail.endswith("the last words\n"))
            assert 1024 <= len(client.stderr_tail) <= 64 * 1024
    finally:
        release.set()


@pytest.mark.requirement("STDIO-07")
def test_k09_stderr_goes_where_it_is_asked_to(scripted: Script, tmp_path: Path) -> None:
    heard: List[str] = []
    with open(tmp_path / "err", "wb") as file:
        for stderr in (heard.append, file):
            with scripted().connect("handshake", stderr=stderr) as client, pytest.raises(minimcp.ConnectionLost):
                client.call_tool("exit-mid-call")
    assert heard == ["Traceback: out of luck"]
    assert (tmp_path / "err").read_bytes() == b"Traceback: out of luck\n"


# ---------------------------------------------------------------- restart


def kill(client: minimcp.Client, pid: int) -> None:
    """Kill a server and wait until the client knows."""
    session = client._sessions.newest.session
    os.kill(pid, signal.SIGKILL)
    assert session.wait_until_ended(WAIT)


@pytest.mark.requirement("M:STD-12")
@pytest.mark.parametrize("revision", ERAS)
def test_a_server_killed_between_calls_is_started_anew_by_the_next(scripted: Script, revision: str) -> None:
    server = scripted()
    with server.connect(revision, restart=True, timeout=WAIT) as client:
        for number in (1, 2):
            lives(client)
            assert len(server.journal("start")) == number
            kill(client, server.journal("start")[-1]["pid"])
            assert len(server.journal("start")) == number and eventually(lambda: not child_processes())
        lives(client)
        kill(client, server.journal("start")[-1]["pid"])
    with pytest.raises(minimcp.ConnectionLost):
        lives(client)  # close starts nothing, and after it nothing does
    assert len(server.journal("start")) == len(server.messages("tools/call")) == 3
    assert len(server.messages("server/discover" if revision == MODERN else "initialize")) == 3


@pytest.mark.requirement("M:STD-12")
@pytest.mark.parametrize("tool", ["exit-mid-call", "half-line-exit", "close-stdout"])
def test_a_server_that_dies_in_a_call(scripted: Script, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if tool == "close-stdout":
        monkeypatch.setattr(child, "SETTLE_SECONDS", 0.05)  # it lives on, until its input ends
    server = scripted()
    with server.connect(MODERN, restart=True, timeout=WAIT) as client:
        held = [Task(client.call_tool, "hold") for _ in range(3)]
        server.heard("tools/call", 3)
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool(tool)
        assert {type(call.ended()) for call in held} == {minimcp.ConnectionLost}
        lives(client)
        old, new = (record["pid"] for record in server.journal("start"))
        assert not os.path.exists(f"/proc/{old}"), "the old one has ended before the new one starts"
    called = [json.loads(record["text"])["params"]["name"] for record in server.journal("line")
              if record["pid"] == new and "tools/call" in record["text"]]
    assert called == ["echo"], "what was lost is not sent again"


@pytest.mark.requirement("M:STD-12")
def test_many_callers_at_once_start_one_server(scripted: Script) -> None:
    server = scripted(discover=["modern", "slow"])
    with server.connect(MODERN, restart=True, timeout=WAIT) as client:
        lives(client)
        kill(client, server.journal("start")[-1]["pid"])
        assert [call.ended() for call in [Task(lives, client) for _ in range(20)]] == [None] * 20
    assert len(server.journal("start")) == 2 and len(server.messages("tools/call")) == 21
