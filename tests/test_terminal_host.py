"""examples/terminal_host.py in a terminal, with two servers of which one is not there at first."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from minimcp.client.group import RETRY_SECONDS

from .interaction.test_terminal import Screen
from .support import ROOT

SERVER = """
import os, sys
import minimcp

server = minimcp.Server("hotel-desk")

@server.tool
def book(ctx: minimcp.Context, nights: int) -> str:
    "Book a\\x1b[2J room."
    ctx.log("info", "looking for a room")
    ctx.progress(1, 2, "looking")
    beds = ctx.elicit("How many beds?", {"beds": int}).require()["beds"]
    return f"{nights} nights, {beds} beds\\x1b[2J"

@server.tool
def wait(ctx: minimcp.Context) -> None:
    "Wait."
    ctx.progress(1, 2, "busy")
    print("waiting", file=sys.stderr, flush=True)
    ctx.sleep(600)

@server.tool
def die() -> None:
    "Die."
    os._exit(3)

server.run()
"""


@pytest.fixture
def screen(tmp_path: Path) -> Any:
    (tmp_path / "server.py").write_text(SERVER)
    late = tmp_path / "late.py"
    servers = {
        "desk": {"command": sys.executable, "args": [str(tmp_path / "server.py")]},
        "late": {"command": sys.executable, "args": [str(late)]},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    host = str(ROOT / "examples" / "terminal_host.py")
    opened = Screen([sys.executable, host, str(config)])
    opened.late = late  # type: ignore[attr-defined]
    yield opened
    if opened.process.poll() is None:
        opened.process.kill()
        opened.end()


def test_the_host_in_a_terminal(screen: Any) -> None:
    screen.until("late is not available: the server 'late' in ")
    screen.until("\r\n> ")
    screen.types("\n")
    screen.until("desk__book: Book a\\x1b[2J room.\r\ndesk__wait: Wait.\r\ndesk__die: Die.\r\n> ")
    screen.types("desk__book nights=2\n")
    screen.until("[desk] info: looking for a room")
    screen.until("desk asks: How many beds?")
    screen.until("beds (integer): ")
    screen.types("2\n")
    screen.until("Send this?")
    screen.types("y\n")
    screen.until("2 nights, 2 beds\\x1b[2J\r\n> ")
    screen.types("desk__book nights=two\n")
    screen.until("failed: nights: expected an integer, got the string 'two'\r\n> ")
    screen.types("desk__bok\n")
    screen.until("did you mean book? (in this group: desk__book) (-32602)\r\n> ")
    screen.types("x 'y\n")
    screen.until("No closing quotation\r\n> ")


def test_ctrl_c_in_a_call_in_a_question_and_at_the_prompt(screen: Any) -> None:
    screen.until("\r\n> ")
    screen.waits()
    screen.types("\x03")
    screen.until("^C\r\n> ")
    screen.types("desk__wait\n")
    screen.until("[desk] waiting\r\n")
    assert screen.seen.endswith(("\r", "\n")), "it is not below a bar"
    screen.until("[##########..........]  50% busy")  # drawn again, or only now
    screen.types("\x03")
    screen.until("cancelled\r\n> ")
    screen.types("desk__book nights=1\n")
    screen.until("beds (integer): ")
    screen.types("\x03")
    screen.until("cancelled")
    screen.types("desk__book nights=1\n")
    screen.until("beds (integer): ")
    screen.types("1\n\n")
    screen.until("1 nights, 1 beds")
    screen.types("\x04")
    screen.end()
    assert screen.process.returncode == 0


def test_servers_that_return(screen: Any) -> None:
    screen.until("\r\n> ")
    screen.types("desk__die\n")
    screen.until("failed: desk: ")
    screen.until("\r\n> ")
    screen.types("desk__book nights=3\n")
    screen.until("beds (integer): ")
    screen.types("3\n\n")
    screen.until("3 nights, 3 beds")
    screen.late.write_text(SERVER)
    time.sleep(RETRY_SECONDS)  # the last list has just failed to start it
    screen.types("\n")
    screen.until("late__die: Die.")
