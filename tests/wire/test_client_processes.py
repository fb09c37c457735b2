"""The processes that a client starts, ends and outlives: rows K20 to K23 of the fault catalogue."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

import minimcp
from minimcp.stdio import child
from minimcp.stdio.child import ChildTransport

from ..support import child_processes, eventually, open_descriptors
from .clients import ERAS, HANDSHAKE, NEVER, Script, ScriptedServer, make_scripted  # noqa: F401

# ---------------------------------------------------------------- K20, K21: the end of a server


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
    """However slow the server is, it has noted the end of its input before SIGTERM comes, and that before SIGKILL."""
    real = ChildTransport._signal

    def act(transport: ChildTransport, name: str) -> None:
        server.happened("eof" if name == "SIGTERM" else "signal")
        real(transport, name)

    monkeypatch.setattr(ChildTransport, "_signal", act)


@pytest.mark.usefixtures("hasty")
@pytest.mark.requirement("LIFE-26", "M:STD-9")
@pytest.mark.parametrize("start", ["note-signals", "ignore-signals"])
def test_k20_a_server_that_ignores_the_end_of_its_input_is_told_by_a_signal_then_killed_and_reaped(
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


def test_k20_how_long_a_server_gets() -> None:
    """What the catalogue asks for; the two before this wait for less."""
    assert child.CLOSE_SECONDS == 2


@pytest.mark.parametrize("start", ["grandchild", "escaped"])
def test_k21_a_grandchild_that_holds_the_pipes_does_not_hold_up_close(
    scripted: Script, start: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STDERR_SECONDS", 0.1)  # its end would not come in a longer time either
    server = scripted(start=start)
    client = server.connect("handshake")
    client.close()
    assert [record["event"] for record in server.journal()][-1] in ("eof", "escaped")
    server.end()


def test_k21_a_grandchild_does_not_hide_that_the_server_died(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SETTLE", "STDERR"):  # the end of stderr would not come in a longer time either
        monkeypatch.setattr(child, f"{name}_SECONDS", 0.1)
    server = scripted(start="grandchild")
    with server.connect("handshake") as client:
        with pytest.raises(minimcp.ConnectionLost) as caught:
            client.call_tool("exit-mid-call", timeout=NEVER)
        assert caught.value.exit_code == 7
    server.end()


# ---------------------------------------------------------------- K22: many clients, one after another

ROUNDS = int(os.environ.get("MINIMCP_ROUNDS", "30"))
"""How many clients are opened and closed over stdio, and as many in memory; the catalogue asks for 1,000."""

SHELL_SERVER = (
    'read -r line; id=${line#*\\"id\\":}; id=${id%%,*}; '
    'printf \'{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"serverInfo":{"name":"sh","version":"0"}}}\\n\' "$id"; while read -r line; do :; done'
)


@pytest.mark.requirement("TRANS-01")
@pytest.mark.parametrize("where", ["stdio", "memory"])
def test_k22_clients_opened_and_closed_leave_nothing(where: str) -> None:
    target: Any = ["/bin/sh", "-c", SHELL_SERVER] if where == "stdio" else minimcp.Server("plain")
    before = threading.active_count(), len(open_descriptors()), child_processes()
    for _ in range(ROUNDS):
        with minimcp.connect(target, revision="handshake") as client:
            assert client.revision == HANDSHAKE
        assert eventually(
            lambda: (threading.active_count(), len(open_descriptors()), child_processes()) == before
        )


# ---------------------------------------------------------------- K23: a server that cannot be started


def unstartable(tmp_path: Path) -> Dict[str, Dict[str, Any]]:
    """What cannot be started, and with which options."""
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n", "utf-8")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n", "utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    good = [sys.executable, "-c", ""]
    return {
        "not found": {"target": ["no-such-command-anywhere"]},
        "path not found": {"target": [str(tmp_path / "nothing")]},
        "not executable": {"target": [str(plain)]},
        "a directory": {"target": [str(tmp_path)]},
        "no interpreter": {"target": [str(script)]},
        "no working directory": {"target": good, "cwd": str(tmp_path / "nowhere")},
        "working directory is a file": {"target": good, "cwd": str(plain)},
        "NUL in env": {"target": good, "env": {"A": "b\0c"}},
        "= in env": {"target": good, "env": {"A=B": "c"}},
        "NUL in command": {"target": [sys.executable, "a\0b"]},
        "NUL in program": {"target": ["a\0b"]},
    }


@pytest.mark.requirement("STDIO-01", "STDIO-02")
def test_k23_what_cannot_be_started_is_one_typed_error(tmp_path: Path) -> None:
    for kind, options in unstartable(tmp_path).items():
        target = options.pop("target")
        before = threading.active_count(), open_descriptors(), child_processes()
        with pytest.raises(minimcp.ConnectionFailed) as caught:
            minimcp.connect(target, **options)
        assert "\0" not in str(caught.value), kind
        assert Path(target[0]).name.partition("\0")[0] in str(caught.value), kind
        assert (threading.active_count(), open_descriptors(), child_processes()) == before, kind


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


@pytest.mark.requirement("STDIO-01", "STDIO-09")
def test_k23_a_server_may_be_started_without_our_environment(scripted: Script) -> None:
    server = scripted()
    target = minimcp.StdioServer(server.command, env={"ONLY": "this"}, inherit_env=False)
    with minimcp.connect(target, revision="handshake", stderr=lambda line: None) as client:
        found = json.loads(client.call_tool("environment").text)
    assert {name for name in found["env"] if not name.startswith(("LC_", "__"))} == {"ONLY"}


@pytest.mark.requirement("STDIO-01", "STDIO-02")
@pytest.mark.parametrize("form", [list, tuple, shlex.join, minimcp.StdioServer])
def test_k23_a_command_is_a_sequence_a_line_or_a_description(
    scripted: Script, form: Callable[[List[str]], Any]
) -> None:
    server = scripted()
    with minimcp.connect(form(server.command), revision="handshake", stderr=lambda line: None) as client:
        assert client.call_tool("echo").text == "well"


@pytest.mark.requirement("STDIO-01")
def test_k23_a_shells_words_are_no_words_to_us(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    with pytest.raises(minimcp.ConnectionFailed):
        minimcp.connect(
            f"no-such-command-anywhere; touch {mark}", revision="handshake", stderr=lambda line: None
        )
    with pytest.raises(minimcp.ConnectionFailed):
        minimcp.connect(f"{sys.executable} -c pass $(touch {mark}) && touch {mark}", stderr=lambda line: None)
    assert not mark.exists()
