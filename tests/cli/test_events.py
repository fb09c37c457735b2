"""events list, events poll and events follow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List

import pytest

from ..support import ROOT, WAIT, eventually
from .conftest import Done

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
import threading, time
from minimcp import SqliteStore
from tests.events.tickets import *
events = tickets(store=SqliteStore("events.db"))
if len(sys.argv) > 1:
    for id in sys.argv[1:]:
        events.emit(NAME, Ticket(id, "high"), id=id)
else:
    events.server.run()
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The file "desk.py" in the working directory; the function emits events with these ids."""
    (tmp_path / "desk.py").write_text(PROGRAM.format(root=str(ROOT)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    def emit(*ids: str) -> None:
        subprocess.run([sys.executable, "desk.py", *ids], check=True, timeout=WAIT)

    return emit


def test_list(desk: Any, minimcp: Callable[..., Done]) -> None:
    done = minimcp("events", "list", "desk.py")
    assert (done.code, done.err) == (0, "")
    assert done.out == (
        "ticket.updated(priority: string or null = null): poll, push\n    A ticket was changed.\n"
    )
    done = minimcp("events", "list", "desk.py", "--output", "json")
    assert json.loads(done.out)["events"][0]["name"] == "ticket.updated"


def test_poll_with_a_file_for_the_cursor(desk: Any, minimcp: Callable[..., Done]) -> None:
    poll = ("events", "poll", "desk.py", "ticket.updated", "--cursor", "cursor")
    desk("before")
    assert minimcp(*poll) == Done(0, "", "")
    desk("one", "two")
    done = minimcp(*poll)
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.endswith(' one {"id": "one", "priority": "high"}')
    assert second.split()[1] == "two"
    assert minimcp(*poll).out == ""
    desk("three")
    done = minimcp(*poll, "priority=low")
    assert done.out == ""
    desk("four")
    done = minimcp(*poll, "--json", "priority=high")
    assert json.loads(done.out)["eventId"] == "four"
    with open("cursor", "w", encoding="utf-8") as file:
        file.write("gone.1")
    done = minimcp(*poll)
    assert [line.split()[1] for line in done.out.splitlines()] == [
        "before",
        "one",
        "two",
        "three",
        "four",
    ]
    assert "may be missing" in done.err
    assert not os.path.exists("cursor.new")


def test_follow_until_ctrl_c(desk: Any) -> None:
    command = [sys.executable, "-m", "minimcp", "events", "follow", "desk.py", "ticket.updated"]
    process = subprocess.Popen(
        [*command, "--json", "--cursor", "cursor"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert eventually(lambda: os.path.exists("cursor"))
        desk("one", "two")
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [each["eventId"] for each in lines] == ["one", "two"]
        assert all("_meta" not in each for each in lines)
        # The cursor is written after the line is printed, so that no event is lost in between.
        assert eventually(lambda: Path("cursor").read_text("utf-8") == lines[-1]["cursor"])
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 130
    finally:
        process.kill()
        process.communicate()
    assert Path("cursor").read_text("utf-8") == lines[-1]["cursor"]


ODD = """
import json, sys
CURSOR = {cursor}
EVENT = {{"name": "t", "timestamp": "2026-11-28T12:00:00Z"}}
for line in sys.stdin:
    asked = json.loads(line)
    sent = asked["params"].get("cursor")
    found = {{
        "server/discover": {{
            "supportedVersions": ["2026-07-28"],
            "capabilities": {{"extensions": {{"io.modelcontextprotocol/events": {{}}}}}},
        }},
        "events/list": {{"events": [{{"name": "t"}}]}},
        "events/poll": {{
            "events": [{{**EVENT, "eventId": "1", "data": {{"sent": sent}}}}],
            "cursor": CURSOR,
        }},
    }}[asked["method"]]
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": found}}), flush=True)
"""


@pytest.mark.parametrize("cursor", ["\ud800", "a\r\nb", "\u202e\x1b[2J", "\u00e9"])
def test_any_cursor_is_saved_and_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minimcp: Callable[..., Done], cursor: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("odd.py").write_text(ODD.format(cursor=ascii(cursor)), "utf-8")
    poll = ("events", "poll", "odd.py", "t", "--cursor", "cursor", "--json")
    for before in (None, cursor.replace("\ud800", "\ufffd")):
        done = minimcp(*poll)
        assert done.code == 0
        assert json.loads(done.out)["data"] == {"sent": before}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "after events write one of list, poll, follow"),
        (["push"], "after events write one of list, poll, follow"),
        (["poll", "desk.py", "no.such"], "has no event type 'no.such'"),
        (["poll", "desk.py", "ticket.updated", "priority"], "key=value"),
        (["poll", "desk.py"], "NAME"),
    ],
)
def test_wrong_usage(
    desk: Any, minimcp: Callable[..., Done], arguments: List[str], said: str
) -> None:
    done = minimcp("events", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_help(minimcp: Callable[..., Done]) -> None:
    done = minimcp("events", "--help")
    assert done.code == 0
    assert "follow TARGET NAME" in done.out
