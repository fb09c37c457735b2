"""The processes that a client starts, what they inherit, and how it ends them."""

from __future__ import annotations

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any, Callable, List

import pytest

import minimcp
from minimcp.stdio import child
from minimcp.stdio.child import ChildTransport

from ..support import around
from .clients import ERAS, Script, ScriptedServer

# ---------------------------------------------------------------- K20: the end of a server


@pytest.mark.requirement("LIFE-25", "LIFE-26", "M:STD-9", "M:STD-10")
@pytest.mark.parametrize("revision", ERAS)
def test_k20_a_polite_server_ends_at_the_end_of_its_input(scripted: Script, revision: str) -> None:
    server = scripted(start="note-signals")
    client = server.connect(revision)
    client.call_tool("echo")
    client.close()
    assert [record["event"] for record in server.journal()][-1] == "eof"
    assert server.journal("signal") == []
    assert server.methods()[-1] == "tools/call"  # there is no word of goodbye


def never_too_early(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    """However slow the server is, it has recorded the end of its input before SIGTERM arrives, and
    SIGTERM before SIGKILL."""

    def act(really: Any, transport: ChildTransport, name: str) -> None:
        server.happened("eof" if name == "SIGTERM" else "signal")
        really(transport, name)

    around(monkeypatch, ChildTransport, "_signal", act)


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("LIFE-26", "M:STD-9")
@pytest.mark.parametrize("start", ["note-signals", "ignore-signals"])
def test_k20_a_server_that_ignores_the_end_of_its_input_is_signalled_killed_and_reaped(
    scripted: Script, monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    server = scripted(start=start, end="hang")
    never_too_early(monkeypatch, server)
    client = server.connect("handshake")
    pid = server.journal("start")[0]["pid"]
    client.close()
    assert [record["event"] for record in server.journal()][-2:] == ["eof", "signal"]
    assert server.journal("signal")[0]["number"] == signal.SIGTERM
    assert not os.path.exists(f"/proc/{pid}")  # no zombie either


def test_children_that_a_server_leaves_behind_are_signalled(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STDERR_SECONDS", 0.01)  # the process that remains holds stderr
    server = scripted(start="helper")
    client = server.connect("handshake")
    client.close()
    [told] = server.happened("signal")
    assert (told["pid"], told["number"]) == (
        server.journal("grandchild")[0]["child"],
        signal.SIGTERM,
    )


# ---------------------------------------------------------------- K23: how a server is started


@pytest.mark.requirement("STDIO-01", "STDIO-09", "M:STD-18")
def test_k23_a_server_gets_its_environment_and_no_descriptor_of_ours(
    scripted: Script, tmp_path: Path
) -> None:
    server = scripted()
    held = os.open(os.devnull, os.O_RDONLY)
    try:
        with server.connect("handshake", env={"SECRET": "$(id)"}, cwd=str(tmp_path)) as first:
            with server.connect("handshake") as second:
                found = json.loads(first.call_tool("environment").text)
                other = json.loads(second.call_tool("environment").text)
    finally:
        os.close(held)
    assert found["env"]["SECRET"] == "$(id)" and found["env"]["PATH"] == os.environ["PATH"]
    assert os.path.samefile(found["cwd"], tmp_path)
    assert found["group"] == found["pid"] != os.getpgrp()
    assert "SECRET" not in other["env"]
    # 0 to 2, the journal, and the listing itself
    assert found["descriptors"] == other["descriptors"] == [0, 1, 2, 3, 4]


@pytest.mark.requirement("STDIO-01", "STDIO-02")
@pytest.mark.parametrize("form", [list, tuple, shlex.join, minimcp.StdioServer])
def test_k23_a_command_is_a_sequence_a_line_or_a_description(
    scripted: Script, form: Callable[[List[str]], Any]
) -> None:
    server = scripted()
    with minimcp.connect(
        form(server.command), revision="handshake", stderr=lambda line: None
    ) as client:
        assert client.call_tool("echo").text == "well"
