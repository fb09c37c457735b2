"""`connect(restart=True)` and real processes: killed between calls, in a call, dying at each start, many callers."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from itertools import count
from pathlib import Path
from typing import List

import pytest

import minimcp
from minimcp.stdio import child

from ..scripted import Task
from ..support import WAIT, child_processes, eventually
from .clients import ERAS, MODERN, Script, lives, make_scripted  # noqa: F401


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
    assert len(server.messages("tools/call")) == 3
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
        for task in held:
            with pytest.raises(minimcp.ConnectionLost):
                task.result()
        lives(client)
        old, new = (record["pid"] for record in server.journal("start"))
        assert not os.path.exists(f"/proc/{old}"), "the old one has ended before the new one starts"
    called = [json.loads(record["text"])["params"]["name"] for record in server.journal("line")
              if record["pid"] == new and "tools/call" in record["text"]]
    assert called == ["echo"], "what was lost is not sent again"


@pytest.mark.requirement("M:STD-12")
def test_a_server_that_dies_at_each_start(scripted: Script, tmp_path: Path) -> None:
    server = scripted()
    broken = tmp_path / "broken"
    begin = (
        "import os, sys\n"
        f"if os.path.exists({str(broken)!r}): sys.exit('no database')\n"
        "os.execv(sys.executable, [sys.executable] + sys.argv[1:])"
    )
    command = [sys.executable, "-S", "-c", begin, *server.command[1:]]
    with minimcp.connect(
        command, revision=MODERN, restart=True, timeout=WAIT, stderr=lambda line: None
    ) as client:
        lives(client)
        broken.touch()
        kill(client, server.journal("start")[-1]["pid"])
        for _ in range(2):
            with pytest.raises(minimcp.ConnectionFailed, match="no database") as caught:
                client.call_tool("echo")
            assert caught.value.exit_code == 1
        with pytest.raises(minimcp.ConnectionFailed, match="no database"):
            client.list_tools()
        broken.unlink()
        lives(client)
        assert len(server.journal("start")) == 2


@pytest.mark.requirement("M:STD-12")
def test_many_callers_at_once_start_one_server(scripted: Script) -> None:
    server = scripted(discover=["modern", "slow"])
    with server.connect(MODERN, restart=True, timeout=WAIT) as client:
        lives(client)
        kill(client, server.journal("start")[-1]["pid"])
        tasks = [Task(lives, client) for _ in range(20)]
        for task in tasks:
            task.result()
    assert len(server.journal("start")) == 2 and len(server.messages("tools/call")) == 21


def test_a_server_killed_while_many_call_answers_each_at_most_once(scripted: Script) -> None:
    """Each call ends with its answer or with the loss, and what came to no end was sent once."""
    server = scripted()
    over = threading.Event()
    with server.connect(MODERN, restart=True, timeout=WAIT) as client:

        def call(thread: int) -> List[str]:
            answered = []
            for number in count():
                if number >= 15 and over.is_set():
                    break
                text = f"{thread}-{number}"
                try:
                    assert client.call_tool("echo", {"text": text}).text == text
                    answered.append(text)
                except (minimcp.ConnectionLost, minimcp.ConnectionFailed):  # the second: killed while it started
                    pass
            return answered

        tasks = [Task(call, thread) for thread in range(6)]
        for number in (1, 2):
            assert eventually(lambda number=number: len(server.journal("start")) == number)  # type: ignore[misc]
            try:
                os.kill(server.journal("start")[-1]["pid"], signal.SIGKILL)
            except ProcessLookupError:
                pass
        over.set()
        answered = [text for task in tasks for text in task.result()]
        try:
            lives(client)
        except minimcp.ConnectionLost:  # nobody has called since the last kill
            lives(client)
    sent = [message["params"]["arguments"]["text"] for message in server.messages("tools/call")]
    sent = [text for text in sent if text != "alive"]
    assert len(sent) == len(set(sent)) and set(answered) <= set(sent)


def test_close_after_a_loss_starts_nothing(scripted: Script) -> None:
    server = scripted()
    client = server.connect(MODERN, restart=True, timeout=WAIT)
    kill(client, server.journal("start")[-1]["pid"])
    client.close()
    with pytest.raises(minimcp.ConnectionLost):
        lives(client)
    assert len(server.journal("start")) == 1
