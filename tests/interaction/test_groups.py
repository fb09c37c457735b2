"""A group of server processes from a config file, from the view of a host: working, dead and silent
servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

import minimcp
from minimcp.stdio import child

from ..support import ROOT, WAIT

NOTES = """
import os, sys
import minimcp

server = minimcp.Server(sys.argv[1])

@server.tool
def where() -> list[str]:
    "Where it runs, and what it was told."
    return [os.getcwd(), os.environ["TOLD"]]

@server.tool
def die() -> None:
    "Die."
    print("bad luck", file=sys.stderr, flush=True)
    os._exit(3)

server.run()
"""

DEAD = "import sys; sys.exit('no licence')"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow more time for the exit of a process and its last output, because a machine may be busy."""
    for name in ("SETTLE_SECONDS", "STDERR_SECONDS", "CONSUMER_SECONDS"):
        monkeypatch.setattr(child, name, WAIT)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GROUP_PYTHON", sys.executable)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "notes.py").write_text(NOTES, encoding="utf-8")
    entry: Dict[str, Any] = {"type": "stdio", "command": "${GROUP_PYTHON}", "cwd": "."}
    servers = {
        name: {**entry, "args": ["notes.py", name], "env": {"TOLD": "${GROUP_UNSET:-" + name + "}"}}
        for name in ("notes", "notes__2")
    }
    servers["dead"] = {**entry, "args": ["-S", "-c", DEAD]}
    servers["web"] = {"type": "http", "url": "http://127.0.0.1:1/mcp"}
    servers["off"] = {"command": "no-such-program", "disabled": True}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


def test_a_host_with_a_config_file(config: Path) -> None:
    lines: "list[str]" = []
    with minimcp.connect_all(config, timeout=WAIT, stderr=lines.append) as group:
        assert {name: type(error) for name, error in group.errors.items()} == {
            "dead": minimcp.ConnectionFailed,
            "web": minimcp.ConnectionFailed,
        }
        assert (
            f"the server 'dead' in {config}: " in str(group.errors["dead"])
            and "no licence" in lines
        )
        taken = (
            f"interpreted the target as the server 'web' in {config}: POST http://127.0.0.1:1/mcp: "
        )
        assert taken in str(group.errors["web"])
        tools = [tool.name for tool in group.list_tools()]
        assert tools == ["notes__where", "notes__die", "notes__2__where", "notes__2__die"]
        for name in ("notes", "notes__2"):
            assert group.call_tool(f"{name}__where").value == [str(config.parent.resolve()), name]
        calls = [("notes__2__where", None), ("notes__die", None), ("dead__x", None)]
        told, lost, absent = group.call_tools(calls, return_exceptions=True)
        assert told.value[1] == "notes__2"
        assert (
            isinstance(lost, minimcp.ConnectionLost)
            and lost.exit_code == 3
            and "bad luck" in lost.stderr_tail
        )
        assert isinstance(absent, minimcp.ConnectionFailed) and "no licence" in str(absent)
        assert [tool.name for tool in group.list_tools()] == ["notes__2__where", "notes__2__die"]
        assert sorted(group.errors) == ["dead", "notes", "web"]
        assert group.call_tool("notes__2__where").value[1] == "notes__2"
    with pytest.raises(minimcp.ConnectionLost):
        group.call_tool("notes__2__where")
