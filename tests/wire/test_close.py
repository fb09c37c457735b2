"""A client of ours and a server of ours that part: with calls under way, at a call's end, and before they agreed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, List

import pytest

import minimcp
from minimcp.stdio import child

from ..support import ROOT, eventually
from .clients import ERAS, InThread, wall_below

NEVER = 60.0
"""Seconds: a timeout that a test must not reach."""

SERVER = """
import os, signal, sys
sys.path.insert(0, {root!r})
import minimcp
server = minimcp.Server("parting", limits=minimcp.Limits(drain_grace=600, message_bytes=100_000))

def note(text):
    with open({journal!r}, "a") as journal:
        journal.write(text + "\\n")

@server.tool
def sleep(ctx: minimcp.Context) -> None:
    "Sleep as a tool should."
    note("asleep")
    try:
        ctx.sleep(600)
    except minimcp.Cancelled:
        note("cancelled")
        raise

@server.tool
def length(size: int) -> str:
    "Give a text of this length."
    return "x" * size

server.run()
note("done")
"""


class Parting:
    """A server's file and what it notes."""

    def __init__(self, folder: Path) -> None:
        self.journal = folder / "journal"
        self.journal.touch()
        self.file = folder / "parting.py"
        self.file.write_text(SERVER.format(root=str(ROOT), journal=str(self.journal)), encoding="utf-8")

    def connect(self, **options: Any) -> minimcp.Client:
        return minimcp.connect([sys.executable, "-S", str(self.file)], timeout=NEVER, **options)

    def notes(self) -> List[str]:
        return self.journal.read_text("utf-8").split()


@pytest.fixture
def parting(tmp_path: Path) -> Parting:
    return Parting(tmp_path)


@pytest.mark.parametrize("revision", ERAS)
def test_a_server_whose_handlers_heed_cancel_exits_when_its_client_closes(
    parting: Parting, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    monkeypatch.setattr(child, "CLOSE_SECONDS", NEVER)  # it has to go by itself
    client = parting.connect(revision=revision)
    calls = [InThread(client.call_tool, "sleep") for _ in range(3)]
    assert eventually(lambda: parting.notes() == ["asleep"] * 3)
    with wall_below(1):
        client.close()
    assert {type(call.ended()) for call in calls} == {minimcp.ConnectionLost}
    assert parting.notes() == ["asleep"] * 3 + ["cancelled"] * 3 + ["done"]


@pytest.mark.parametrize("revision", ERAS)
def test_an_answer_above_the_servers_own_limit_is_an_error_at_once(parting: Parting, revision: str) -> None:
    with parting.connect(revision=revision) as client:
        with pytest.raises(minimcp.InternalError, match="100000 bytes.*Limits.message_bytes"):
            client.call_tool("length", {"size": 100_001})
        assert client.call_tool("length", {"size": 1000}).text == "x" * 1000


def test_an_answer_above_the_clients_limit_ends_its_call_at_once(parting: Parting) -> None:
    with parting.connect(revision="handshake", limits=minimcp.Limits(message_bytes=10_000)) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="10000 bytes.*Limits.message_bytes"):
            client.call_tool("length", {"size": 50_000})
        assert client.call_tool("length", {"size": 1000}).text == "x" * 1000


def test_a_call_above_the_servers_limit_ends_at_once(parting: Parting) -> None:
    with parting.connect(revision="handshake") as client:
        with pytest.raises(minimcp.InvalidRequest, match="100000 bytes.*Limits.message_bytes"):
            client.call_tool("length", {"size": 1, "more": "x" * 100_000})
        assert client.call_tool("length", {"size": 1}).text == "x"
