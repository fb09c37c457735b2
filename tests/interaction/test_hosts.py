"""Warnings about tools that hosts drop: when a tool is registered, and from check."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from minimcp import Server

from ..cli.conftest import quoted
from ..support import WAIT, run_python


def echo(text: str) -> str:
    """Echo."""
    return text


def bake(größe: int, ünit: str = "cm") -> str:
    """Bake."""
    return ""


ARRAY = {"type": "array"}
NAME = "has a name that some hosts truncate or drop"
PARAMETER = "has the parameter 'größe', and some hosts drop a tool with such a name"
ROOT = "has an output schema whose root is not an object"


@pytest.mark.parametrize(
    "tools, warnings",
    [
        ([{"name": "a" * 45}, {"name": "a-B_1"}, {"name": "a.b"}], []),
        ([{"name": "a" * 46}], [["a" * 46, NAME]]),
        ([{"name": "a b"}], [["a b", NAME]]),
        (
            [{"name": "a.b"}, {"name": "a_b"}],
            [["a_b", "is called 'a_b' by some hosts, as is 'a.b'"]],
        ),
        (
            [{"name": "a_b"}, {"name": "a.b"}],
            [["a.b", "is called 'a_b' by some hosts, as is 'a_b'"]],
        ),
        ([{"function": bake}], [["bake", PARAMETER]]),
        ([{"function": bake, "name": "ä"}], [["ä", NAME, PARAMETER]]),
        ([{"output_schema": ARRAY, "structured": True}], [["echo", ROOT]]),
        ([{"output_schema": {"properties": {}}, "structured": True}], []),
    ],
)
def test_one_record_is_logged_for_each_tool(
    tools: List[Dict[str, Any]], warnings: List[List[str]], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "minimcp")
    server = Server("names")
    for options in tools:
        options = dict(options)
        server.add_tool(options.pop("function", echo), **options)
    assert [(each.name, each.levelname) for each in caplog.records] == [
        ("minimcp.hosts", "WARNING")
    ] * len(warnings)
    for message, (name, *problems) in zip(caplog.messages, warnings):
        assert message.startswith(f"tool {name} ")
        assert all(problem in message for problem in problems)


def test_plain_names_load_no_table() -> None:
    code = (
        "import sys, minimcp\n"
        "s = minimcp.Server('x')\n"
        "def echo(text: str) -> list[int]: 'Echo.'\n"
        "s.add_tool(echo)\n"
        "print('minimcp.schema.hosts' in sys.modules)\n"
        "s.add_tool(echo, name='a.b')\n"
        "print('minimcp.schema.hosts' in sys.modules)\n"
    )
    assert run_python(["-c", code]).stdout.split() == [b"False", b"True"]


# A server that lists the tools in the file that its argument names.
LISTING = """
import json, sys
TOOLS = json.load(open(sys.argv[1], encoding="utf-8"))
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or isinstance(message.get("params", {}), list):
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "listing", "version": "1"},
        }
    elif message["method"] == "tools/list":
        answer["result"] = {"tools": TOOLS}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
"""
OBJECT = {"type": "object"}


def test_check_reports_all_tools_and_output_schemas(tmp_path: Path) -> None:
    tools = [
        {"name": "good", "inputSchema": OBJECT},
        {"name": "a.b", "inputSchema": OBJECT},
        {"name": "a_b", "inputSchema": {"properties": {}}},
        {"name": "sizes", "inputSchema": {**OBJECT, "properties": {"größe": {}}}},
        {"name": "anything", "inputSchema": OBJECT, "outputSchema": True},
    ]
    (tmp_path / "listing.py").write_text(LISTING, encoding="utf-8")
    (tmp_path / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    command = quoted(sys.executable, str(tmp_path / "listing.py"), str(tmp_path / "tools.json"))
    arguments = ["-m", "minimcp", "check", command, "--only", "hosts", "--output", "json"]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, timeout=WAIT)
    assert done.returncode == 0, done.stderr
    (verdict,) = json.loads(done.stdout)
    assert (verdict["row"], verdict["outcome"]) == ("hosts", "warn")
    assert verdict["evidence"].splitlines()[:4] == [
        "a.b is called 'a_b' by some hosts, as is 'a_b': rename one",
        "a_b is called 'a_b' by some hosts, as is 'a.b': rename one; it has an input schema whose "
        'root is not an object, and hosts drop all tools of its server: write "type": "object"',
        "sizes has the parameter 'größe', and some hosts drop a tool with such a name: use A-Z a-z "
        "0-9 _ -",
        "anything has an output schema whose root is not an object, and some hosts drop all tools "
        "of its server: return an object",
    ]
