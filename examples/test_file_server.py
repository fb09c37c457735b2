"""How to test a server: ``pip install pytest``, then ``python3 -m pytest test_file_server.py``."""

from __future__ import annotations

from pathlib import Path

import file_server
import pytest

import minimcp
from minimcp import testing


def fill(folder: Path) -> None:
    """Create a directory with two files for the server, and a third file beside it."""
    file_server.root = folder / "pantry"
    (folder / "pantry" / "recipes").mkdir(parents=True)
    (folder / "pantry" / "shopping.txt").write_text("milk")
    (folder / "pantry" / "recipes" / "bread.txt").write_text("flour")
    (folder / "secret.txt").write_text("secret")


def test_one_handler(tmp_path: Path) -> None:
    """A handler is a function: call it with a Context that records its reports."""
    fill(tmp_path)
    ctx = testing.context()
    links = file_server.find(ctx, "*.txt")
    assert [link.name for link in links] == ["recipes/bread.txt", "shopping.txt"]
    assert [report.progress for report in ctx.reports] == [1, 2, 3]


def test_the_server(tmp_path: Path) -> None:
    """The server as clients see it: everything except the process is real."""
    fill(tmp_path)
    with minimcp.connect(file_server.server) as client:
        assert client.read_resource("files:///shopping.txt").text == "milk"
        assert client.call_tool("show", {"path": "recipes/bread.txt"}).text == "flour"


def test_what_lies_outside(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "pantry" / "link").symlink_to("../secret.txt")
    with minimcp.connect(file_server.server) as client:
        for path in (
            "../secret.txt",
            "recipes/../../secret.txt",
            "%2e%2e/secret.txt",
            "/etc/passwd",
            "link",
        ):
            with pytest.raises(minimcp.ToolError, match="^Access denied"):
                client.call_tool("show", {"path": path})
            with pytest.raises(minimcp.RpcError):
                client.read_resource("files:///" + path)


def test_the_conversation(tmp_path: Path) -> None:
    """The messages on the wire. If they differ, the failure shows all of them."""
    fill(tmp_path)
    transcript = testing.Transcript()
    with minimcp.connect(file_server.server, trace=transcript) as client:
        client.call_tool("find", {"name": "bread*"}, on_progress=lambda report: None)
    transcript.assert_flow(
        "--> tools/call", "<-- notifications/progress", ..., "<-- result of tools/call"
    )
    assert transcript.requests("tools/call")[0]["params"]["arguments"] == {"name": "bread*"}
