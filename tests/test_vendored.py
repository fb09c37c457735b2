"""The copied folder works under another name, on a Python without site-packages (`-I -S`), both roles."""

from __future__ import annotations

import json
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Callable, Dict

import pytest

import minimcp
from minimcp.cli.copies import NOT_CORE, write_copy

from .modules import PACKAGE
from .support import run_python

NAME = "vendored_mcp"

SERVER = """
import os, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from vendored_mcp import Context, Server, ToolError

server = Server("copied", version="1")

@server.tool
def add(a: int, b: int, ctx: Context) -> int:
    "Add two numbers."
    ctx.progress(1, 2, "half")
    ctx.progress(2, 2)
    return a + b

@server.tool
def fail() -> str:
    "Always fail."
    raise ToolError("as asked")

@server.tool
def loaded() -> list[str]:
    "Name the modules of this process."
    return sorted(sys.modules)

if __name__ == "__main__":
    server.run()
"""

CLIENT = """
import json, sys
folder = sys.argv[1]
sys.path.insert(0, folder)
import vendored_mcp

reports = []
with vendored_mcp.connect([sys.executable, "-I", "-S", folder + "/server.py"], timeout=10) as client:
    tools = [tool.name for tool in client.list_tools()]
    result = client.call_tool("add", {"a": 2, "b": 3}, on_progress=lambda report: reports.append(report.progress))
    try:
        client.call_tool("fail")
    except vendored_mcp.ToolError as error:
        failure = str(error)
    there = client.call_tool("loaded").value
print(json.dumps({"tools": tools, "value": result.value, "reports": reports, "failure": failure,
                  "here": sorted(sys.modules), "there": there}))
"""

NOT_LOADED = {"minimcp", "asyncio", "jsonschema", "requests", "pydantic", "attr", "attrs"}


def _by_hand(folder: Path) -> None:
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("__pycache__"))


WAYS: Dict[str, Callable[[Path], object]] = {
    "by hand": _by_hand,
    "vendor": lambda folder: write_copy(str(folder), core=False),
    "vendor --core": lambda folder: write_copy(str(folder), core=True),
}
"""How a copy is made."""


@pytest.fixture
def copied(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder that holds the package under another name, with a server beside it."""
    WAYS[getattr(request, "param", "by hand")](tmp_path / NAME)
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("copied", WAYS, indirect=True)
def test_a_copy_serves_and_calls_without_site_packages(copied: Path) -> None:
    done = run_python(["-I", "-S", "-c", CLIENT, str(copied)], cwd=copied, seconds=30)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    seen = json.loads(done.stdout)
    assert seen["tools"] == ["add", "fail", "loaded"]
    assert (seen["value"], seen["reports"], seen["failure"]) == (5, [1, 2], "as asked")
    for loaded in (seen["here"], seen["there"]):
        assert not NOT_LOADED & {name.partition(".")[0] for name in loaded}


ALL_NAMES = """
import sys
sys.path.insert(0, sys.argv[1])
import vendored_mcp
from vendored_mcp import Server, connect
server = Server("whole")
@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
with connect(server) as client:
    print(client.call_tool("add", {"a": 2, "b": 3}).text)
print(*[name for name in vendored_mcp.__all__ if not hasattr(vendored_mcp, name)])
"""


@pytest.mark.parametrize("copied", ["vendor --core"], indirect=True)
def test_the_core_has_every_name_but_those_of_http_and_serves_in_memory(copied: Path) -> None:
    done = run_python(["-I", "-S", "-c", ALL_NAMES, str(copied)], cwd=copied)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    result, missing = done.stdout.decode().splitlines()
    files = {name: f"{home.replace('.', '/')}.py" for home, names in minimcp._LATE.items() for name in names.split()}
    left_out = [name for name in minimcp.__all__ if any(fnmatch(files.get(name, ""), each) for each in NOT_CORE)]
    assert (result, missing.split()) == ("5", left_out)
    assert not (copied / NAME / "cli").exists()


@pytest.mark.parametrize("copied", ["by hand", "vendor"], indirect=True)
def test_the_demo_of_a_copy_runs(copied: Path) -> None:
    done = run_python(["-S", "-m", NAME, "demo"], cwd=copied, env={"PYTHONPATH": ""}, seconds=30)
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert b"tools/call" in done.stdout
