"""A client and a failing server: K01, K08 and K09 of the fault catalogue, and
`connect(restart=True)`.

All rows, with their figures of time and memory, are tried by tests.faults.
"""

from __future__ import annotations

import json
import os
import signal
import threading

import pytest

import minimcp
from minimcp.stdio import child

from ..inside import session_of
from ..scripted import Task
from ..support import WAIT, child_processes, eventually
from .clients import ERAS, NEVER, Script, lives
from .messages import MODERN

# ---------------------------------------------------------------- K01: no answer, or no server


@pytest.mark.requirement("LIFE-27", "M:STD-11")
@pytest.mark.parametrize("mode", ["auto", "handshake"])
def test_k01_a_server_that_dies_at_its_start_is_reported_with_code_and_stderr(
    scripted: Script, mode: str
) -> None:
    with pytest.raises(minimcp.ConnectionFailed) as caught:
        scripted(start="dies-at-start").connect(mode, connect_timeout=NEVER, probe_timeout=NEVER)
    error = caught.value
    assert error.exit_code == 3 and error.signal is None and isinstance(error, ConnectionError)
    assert error.stderr_tail == "first words\nno database: giving up\n"
    assert "peer.py" in str(error) and "3" in str(error) and "no database" in str(error)
    with pytest.raises(minimcp.ConnectionFailed, match="SIGKILL|signal 9") as caught:
        scripted(start="dies-by-signal").connect("handshake", connect_timeout=NEVER)
    assert caught.value.signal == signal.SIGKILL and caught.value.exit_code is None


# ---------------------------------------------------------------- K08, K09: floods


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("STDIO-06", "STDIO-07", "STDIO-08", "M:STD-4")
def test_k09_a_loud_stderr_is_drained_and_its_end_is_kept(scripted: Script) -> None:
    """A consumer that never returns blocks nothing."""
    release = threading.Event()
    try:
        with scripted(start="stderr-flood").connect(
            "handshake", stderr=lambda line: release.wait(WAIT)
        ) as client:
            lives(client)
            release.set()
            assert eventually(lambda: client.stderr_tail.endswith("the last words\n"))
            assert 1024 <= len(client.stderr_tail) <= 64 * 1024
    finally:
        release.set()


# ---------------------------------------------------------------- restart


def kill(client: minimcp.Client, pid: int) -> None:
    """Kill a server and wait until the client knows."""
    session = session_of(client)
    os.kill(pid, signal.SIGKILL)
    assert session.wait_until_ended(WAIT)


@pytest.mark.requirement("M:STD-12")
@pytest.mark.parametrize("revision", ERAS)
def test_a_server_killed_between_calls_is_restarted_by_the_next(
    scripted: Script, revision: str
) -> None:
    server = scripted()
    with server.connect(revision, restart=True, timeout=WAIT) as client:
        for number in (1, 2):
            lives(client)
            assert len(server.journal("start")) == number
            kill(client, server.journal("start")[-1]["pid"])
            assert len(server.journal("start")) == number and eventually(
                lambda: not child_processes()
            )
        lives(client)
        kill(client, server.journal("start")[-1]["pid"])
    with pytest.raises(minimcp.ConnectionLost):
        lives(client)  # close starts nothing, and after it nothing does
    assert len(server.journal("start")) == len(server.messages("tools/call")) == 3
    assert len(server.messages("server/discover" if revision == MODERN else "initialize")) == 3


@pytest.mark.requirement("M:STD-12")
@pytest.mark.parametrize("tool", ["exit-mid-call", "half-line-exit", "close-stdout"])
def test_a_server_that_dies_in_a_call(
    scripted: Script, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    called = [
        json.loads(record["text"])["params"]["name"]
        for record in server.journal("line")
        if record["pid"] == new and "tools/call" in record["text"]
    ]
    assert called == ["echo"], "what was lost is not sent again"


@pytest.mark.requirement("M:STD-12")
def test_many_callers_at_once_start_one_server(scripted: Script) -> None:
    server = scripted(discover=["modern", "slow"])
    with server.connect(MODERN, restart=True, timeout=WAIT) as client:
        lives(client)
        kill(client, server.journal("start")[-1]["pid"])
        assert [call.ended() for call in [Task(lives, client) for _ in range(20)]] == [None] * 20
    assert len(server.journal("start")) == 2 and len(server.messages("tools/call")) == 21
