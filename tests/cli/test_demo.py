"""The demo: what it prints, on which Pythons, under which names."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest

from minimcp.cli.chapters import CONVERSATIONS
from minimcp.cli.demo import _in_order, demo_server
from minimcp.cli.screen import styled, wants_colour
from minimcp.cli.transcript import WIDTH, Recorder, Transcript
from minimcp.errors import ConnectionFailed

from ..support import ROOT, WAIT
from .conftest import Done, run_process

BARE = "import sys; sys.path.insert(0, {root!r}); from minimcp.cli import main; sys.exit(main(['demo']))"


@pytest.fixture(scope="module")
def printed() -> str:
    """What the demo prints."""
    done = run_process("demo")
    assert (done.code, done.err) == (0, "")
    return done.out


def test_every_chapter_is_there_in_order(printed: str) -> None:
    titles = [chapter.title for conversation in CONVERSATIONS for chapter in conversation.chapters]
    assert re.findall(r"^\d+\. (.*)$", printed, re.M) == titles


def test_the_messages_in_order(printed: str) -> None:
    seen = re.findall(r"^  client (-->|<--) server   (.*) \((.*)\)$", printed, re.M)

    def both(method: str) -> List[Tuple[str, str]]:
        return [("-->", method), ("<--", f"answer to {method}")]

    call, discover = both("tools/call"), both("server/discover")
    progress = ("<--", "notifications/progress")
    assert [each[:2] for each in seen] == [
        *discover,
        *both("tools/list"),
        *call,
        call[0], progress, progress, progress, call[1],
        *call,
        *call,
        *both("resources/list"), *both("resources/read"), *both("prompts/list"), *both("prompts/get"),
        *call, *call,
        ("-->", "subscriptions/listen"), ("<--", "notifications/subscriptions/acknowledged"),
        *call, ("<--", "notifications/resources/updated"), ("-->", "notifications/cancelled"),
        call[0], progress, ("-->", "notifications/cancelled"),
        *discover,
        ("-->", "initialize"), ("<--", "answer to initialize"), ("-->", "notifications/initialized"),
        *call, *both("tools/list"),
        call[0], ("<--", "elicitation/create"), ("-->", "answer to elicitation/create"), call[1],
        *both("ping"),
    ]  # fmt: skip


def test_every_message_is_explained(printed: str) -> None:
    for block in re.split(r"^  client ", printed, flags=re.M)[1:]:
        lines = block.split("\n\n")[0].splitlines()[1:]
        assert lines[0].startswith('      {"jsonrpc": "2.0"')
        assert lines[-1].rstrip().endswith((".", "?"))


def test_a_question_is_asked_in_both_ways(printed: str) -> None:
    titles = ("A question to the user", "A question in a session")
    modern, session = (printed.split(f". {title}\n")[1] for title in titles)
    steps = [modern.index(each) for each in ('"input_required"', '"inputResponses"', "2 loaves of rye bread are")]
    assert steps == sorted(steps)
    assert modern.count('"requestState": "..."') == 2, "another one each time, and nothing to read"
    assert session.index('"method": "elicitation/create"') < session.index("2 loaves of rye bread are yours")


def test_a_notice_is_shown_behind_the_answer_wherever_it_came() -> None:
    call: Any = ("-->", {"id": 1, "method": "tools/call"})
    done, over = ("<--", {"id": 1, "result": {}}), ("-->", {"method": "notifications/cancelled"})
    changed: Any = ("<--", {"method": "notifications/resources/updated"})
    for came in ([call, changed, done, over], [call, done, changed, over], [call, done, over, changed]):
        assert _in_order(came, "notifications/resources/updated") == [call, done, changed, over]
        assert _in_order(came, "") == came
    assert _in_order([changed], "notifications/resources/updated") == [changed]


def test_it_fits_a_terminal_and_any_encoding(printed: str) -> None:
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert printed.isascii()
    assert "\x1b" not in printed
    assert "Traceback" not in printed


def test_it_is_the_same_each_time_and_in_this_process(printed: str, minimcp: Callable[..., Done]) -> None:
    assert minimcp("demo") == Done(0, printed, "")


def _pythons() -> List[str]:
    """Pythons 3.9 and 3.13 of this machine, and the running one."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [sys.executable]
    for version in ("3.9", "3.13"):
        here = sorted(str(path) for path in versions.glob(f"{version}.*/bin/python"))
        found += here[-1:] or [path for path in (shutil.which(f"python{version}"),) if path]
    return found


@pytest.mark.parametrize("python", _pythons())
def test_it_needs_a_python_and_nothing_else(python: str, printed: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [python, "-I", "-S", "-c", BARE.format(root=str(ROOT))],
        capture_output=True, text=True, timeout=3 * WAIT, cwd=tmp_path, env={},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed


def test_it_runs_as_a_copy_deep_in_another_tree(printed: str, tmp_path: Path) -> None:
    vendored = tmp_path / "tool" / "vendored"
    shutil.copytree(ROOT / "minimcp", vendored / "mcp_copy", ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (vendored, vendored.parent):
        (folder / "__init__.py").touch()
    done = subprocess.run(
        [sys.executable, "-S", "-m", "tool.vendored.mcp_copy", "demo"],
        capture_output=True, text=True, timeout=3 * WAIT, cwd=tmp_path, env={},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == printed


def test_an_embedded_python_is_told_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ConnectionFailed, match="embedded"):
        demo_server()


class _Terminal:
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(_Terminal())
    assert not wants_colour(None)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(_Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(_Terminal())
    assert (styled("a", "bold", True), styled("a", "bold", False)) == ("\x1b[1ma\x1b[0m", "a")


def _written(message: Any) -> List[str]:
    lines: List[str] = []
    Transcript(lines.append, False).messages([("<--", message)], {})
    return lines


def test_long_messages_are_shortened() -> None:
    long = {"id": 1, "result": {"list": [{"text": "long " * 50, "deep": {"er": [1]}}] * 50, "empty": [{}, []]}}
    lines = _written(long)
    assert len(lines) <= 7
    assert "..." in "".join(lines)


def test_short_messages_are_shown_whole() -> None:
    message = {"jsonrpc": "2.0", "id": 1, "result": {"a": [1, {"b": None}], "c": "\u00e9\n"}}
    lines = _written(message)
    assert lines[1] == "  client <-- server   answer to what nobody asked (no. 1)"
    assert json.loads("".join(lines[2:])) == message


def test_a_recorder_waits_for_a_message() -> None:
    recorder = Recorder()
    recorder("-->", '{"method": "ping", "id": 1}')
    assert recorder.wait_for("ping", 0)
    assert not recorder.wait_for("pong", 0)
    assert recorder.take() == [("-->", {"method": "ping", "id": 1})]
    assert recorder.take() == []
