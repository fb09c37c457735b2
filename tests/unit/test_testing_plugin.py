"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import List

import pytest

from ..inside import modules_of
from ..support import ROOT, run_python

TESTS = """
import sys
import pytest
from minimcp import ConnectionLost, Server
from minimcp.testing import ScriptedServer, Transcript

server = Server("till")

@server.tool
def pay(amount: float) -> str:
    "Pay."
    return f"{amount} paid"

def crash(peer):
    peer.expect("tools/call")
    sys.exit(3)

CLOSED = []

@pytest.fixture
def another(mcp_connect):
    client = mcp_connect(server)
    yield client
    close = client.close
    client.close = lambda: CLOSED.append(True) or close()

def test_passes(mcp_connect, another):
    transcript = Transcript()
    client = mcp_connect(server, revision="2025-11-25", trace=transcript)
    assert client.call_tool("pay", {"amount": 1}).text == another.call_tool("pay", {"amount": 1}).text
    assert transcript.methods()[0] == "initialize"

def test_passes_with_a_server_that_ends(mcp_connect):
    client = mcp_connect(ScriptedServer(crash))
    with pytest.raises(ConnectionLost):
        client.call_tool("pay")

@pytest.fixture(scope="module")
def running():
    with server.start_http() as running:
        yield running

def test_passes_with_a_server_that_goes_on(mcp_connect, running):
    client = mcp_connect(running.url, revision="2025-11-25", on_tools_changed=print)
    client.call_tools([("pay", {"amount": amount}) for amount in range(5)])

def test_fails(mcp_connect):
    client = mcp_connect(server, trace=lambda arrow, text: None)
    client = mcp_connect(server)
    assert client.call_tool("pay", {"amount": 2}).text == "3.0 paid"

def test_fails_to_connect(mcp_connect):
    mcp_connect([sys.executable, "-c", "print('not a server')"])

def test_has_been_closed():
    assert CLOSED == [True]
"""

LOADED = """
import sys
import minimcp.testing.plugin
print(*sorted(name for name in sys.modules if name.startswith("minimcp")))
"""


def test_a_fixture_connects_and_closes(tmp_path: Path) -> None:
    (tmp_path / "test_till.py").write_text(TESTS)
    options = [
        "-q",
        "-p",
        "minimcp.testing.plugin",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "test_till.py",
    ]
    env = {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    shown = run_python(["-m", "pytest", *options], cwd=tmp_path, env=env).stdout.decode()
    sections = shown.split("\n____")
    failed: List[str] = [
        line for line in shown.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    assert [line.split()[1].partition("::")[2] for line in failed] == [
        "test_fails",
        "test_fails_to_connect",
    ], shown
    assert "2 failed, 4 passed" in shown
    (wrong,) = [each for each in sections if " test_fails " in each]
    assert wrong.count("- MCP messages of <Server 'till'") == 1
    assert (
        '\n--> tools/call #2  {"name": "pay", "arguments": {"amount": 2}}\n<-- result of tools/call #2  '
        in wrong
    )
    (wrong,) = [each for each in sections if " test_fails_to_connect " in each]
    assert "- MCP messages of [" in wrong and '\n<-- noise  "not a server"\n' in wrong


def test_the_unused_plugin_costs_almost_nothing() -> None:
    loaded = run_python(["-c", LOADED]).stdout.decode().split()
    assert loaded == [
        "minimcp",
        "minimcp.errors",
        "minimcp.log",
        "minimcp.testing",
        "minimcp.testing.plugin",
        "minimcp.text",
    ]


def test_pytest_finds_it() -> None:
    config = configparser.ConfigParser()  # a name of its own would clash with -p
    config.read(ROOT / "setup.cfg")
    assert (
        config["options.entry_points"]["pytest11"].strip()
        == "minimcp.testing.plugin = minimcp.testing.plugin"
    )


def test_a_copy_has_it_too(tmp_path: Path) -> None:
    done = run_python(["-m", "minimcp", "vendor", str(tmp_path / "copied")])
    assert done.returncode == 0, done.stderr
    (tmp_path / "test_copy.py").write_text(
        "from copied import Server\n"
        "def test(mcp_connect):\n    assert mcp_connect(Server('a')).server_info.name == 'a'\n"
    )
    program = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "copied.testing.plugin",
        "-p",
        "no:cacheprovider",
        "test_copy.py",
    ]
    env = {"PYTHONPATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run_python(program, cwd=tmp_path, env=env)
    assert b"1 passed" in done.stdout, done.stdout


def test_the_kit_rejects_unknown_names() -> None:
    from minimcp import testing

    with pytest.raises(AttributeError, match="has no attribute 'contexts'"):
        getattr(testing, "contexts")  # noqa: B009
    assert {*testing.__all__} == {
        name for names in modules_of(testing).values() for name in names.split()
    }
