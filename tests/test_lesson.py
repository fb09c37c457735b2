"""examples/lesson.rst and handout.rst: every command runs in a copy of the examples, as a class runs
it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

import pytest

from .readme import BLOCK, PAGES
from .solutions import solution
from .support import ROOT, WAIT

HELLO = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
BOOK = ["--answer", "city=Oslo", "--answer", "agree=yes"]


class Done(NamedTuple):
    """How a command ended; both streams together, as a terminal shows them."""

    code: int
    shown: str


def commands(page: str, kind: str) -> List[str]:
    """Return the commands of a page, in order."""
    found = [text for mark, _, _, text in BLOCK.findall(PAGES[page]) if mark == kind]
    lines = [line.strip() for text in found for line in text.splitlines()]
    return [line[2:] for line in lines if line.startswith("$ ")]


def typed(page: str, kind: str) -> List[str]:
    """Return the messages of a page that students type."""
    found = [text for mark, _, _, text in BLOCK.findall(PAGES[page]) if mark == kind]
    return [line.strip() for text in found for line in text.splitlines() if "{" in line]


LESSON = commands("examples/lesson.rst", "lesson")


@pytest.fixture
def classroom(tmp_path: Path) -> Path:
    """A folder with the examples. The copy of chapter 2 has the exercise's solution."""
    (tmp_path / "examples").mkdir()
    for example in (ROOT / "examples").glob("*.py"):
        shutil.copy(str(example), str(tmp_path / "examples"))
    copy = tmp_path / "examples" / "my_copy2.py"
    copy.write_text(solution("2"), encoding="utf-8")
    return tmp_path


def run(command: str, folder: Path, *more: str, **options: Any) -> Done:
    """Run a command of the page, with more arguments at its end."""
    words = shlex.split(command)
    assert words[0] == "python3"
    # The servers that a command starts are called python3, too.
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    done = subprocess.run(
        [sys.executable, *words[1:], *more],
        cwd=str(folder),
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=3 * WAIT,
        **{"stdin": subprocess.DEVNULL, **options},
    )
    return Done(done.returncode, done.stdout.decode())


def at_a_terminal(command: str, folder: Path, keys: bytes) -> Done:
    ours, theirs = os.openpty()
    try:
        os.write(ours, keys)
        return run(command, folder, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)


EXPECTED: Dict[str, List[str]] = {
    "demo": ["3. Calling a tool"],
    "demo 13 14": ["initialize (no. 1)", "notifications/initialized", "tools/call"],
    "02_hello.py": ["Hello, Ada! Hello, Ada!"],
    "check.py 2 ": ["Exercise 2: solved"],
    "list ": ["shout(text: string)"],
    "call shout": ["HI"],
    "call --output json": ['"text": "HI"'],
    "trace": ["HI"],
    "check.py 7 ": ["Exercise 7: not yet: there is no tool bake"],
    "check.py": ["Exercise 2: solved", "Exercise 7: not yet", "1 of 20 exercises"],
    "tests.solutions": ["def bake("],
}
"""What a command prints, by its words: the first entry whose words are all in the command counts."""


def expected(command: str) -> List[str]:
    fits = [words for words in EXPECTED if all(each in command for each in words.split(" "))]
    return EXPECTED[max(fits, key=len)]


@pytest.mark.parametrize("command", LESSON)
def test_a_command_of_the_lesson_does_what_the_page_says(command: str, classroom: Path) -> None:
    words = command.split()
    if words[0] == "cp":
        assert (classroom / words[1]).is_file() and words[2].startswith("examples/my_copy")
        return
    if command.endswith("check.py"):  # tests/test_examples.py checks the other chapters
        for chapter in (classroom / "examples").glob("[0-9]*.py"):
            if chapter.name[:2] not in ("02", "07"):
                chapter.write_text("")
    if "my_copy7" in command:
        shutil.copy(
            str(classroom / "examples" / "07_progress_and_cancel.py"),
            str(classroom / "examples" / "my_copy7.py"),
        )
    if "08_asking" in command:
        over_http = "as_over_http" in command
        done = run(command, classroom, *BOOK)
        assert done.shown.count("the handler begins") == (3 if over_http else 1)
        assert done.shown.count("a room in Oslo is held") == 1
        assert (done.code, "Room 12 in Oslo is yours" in done.shown) == (0, True)
        done = run(command, classroom)
        assert done.code == 1 and "the user declined" in done.shown
        done = at_a_terminal(command, classroom, b"\x04")
        assert done.code == 1 and "the user made no choice" in done.shown
    elif "minimcp run" in command or words[-1] == "server":
        done = run(command, classroom, stdin=None, input=HELLO + b"hello\n" + HELLO)
        assert '"result": {}' in done.shown or '"result":{}' in done.shown
        # The model of the library ends at the line that is not JSON.
        assert done.shown.count('"jsonrpc"') == (1 if "00_mini" in command else 3)
        assert ("JSONDecodeError" in done.shown) is ("00_mini" in command)
    else:
        done = run(command, classroom)
        missing = [part for part in expected(command) if part not in done.shown]
        assert missing == [], done.shown
        assert done.code == ("not yet" in done.shown)
    if "--html page.html" in command:
        page = (classroom / "page.html").read_text("utf-8")
        assert '"tools/call"' in page and "HI" in page


def test_a_student_sees_where_the_failure_of_a_tool_goes(classroom: Path) -> None:
    """`isError` is in the JSON, and the traceback on the server's stderr."""
    copy = classroom / "examples" / "my_copy2.py"
    text = copy.read_text("utf-8")
    assert text.count("return text.upper()") == 1
    copy.write_text(text.replace("return text.upper()", 'raise ValueError("no")'), "utf-8")
    call = 'python3 -m minimcp call {} "python3 examples/my_copy2.py serve" shout text=hi'
    assert [call.format("--output json")] == [each for each in LESSON if "--output json" in each]
    done = run(call.format("--output json"), classroom)
    assert json.loads(done.shown)["isError"] is True
    assert "Traceback" not in run(call.format("--timeout 60"), classroom).shown
    assert "Traceback" in run(call.format("--verbose"), classroom).shown
    handshake = run(LESSON_TRACE.replace("call ", "call --revision 2025-11-25 ", 1), classroom)
    assert handshake.code == 1
    page = (classroom / "page.html").read_text("utf-8")
    assert '"method":"initialize"' in page and '"method":"server/discover"' not in page


LESSON_TRACE = next(each for each in LESSON if "trace --html" in each)


def test_a_request_before_the_handshake_gets_the_error_that_the_page_quotes(
    classroom: Path,
) -> None:
    line = next(line for line in typed("examples/lesson.rst", "typed") if "tools/list" in line)
    done = run(LESSON[0], classroom, stdin=None, input=line.encode() + b"\n")
    start, end = "every request must have io.modelcontextprotocol/protocolVersion", "or come after"
    assert start in done.shown and end in done.shown
    assert start in " ".join(PAGES["examples/lesson.rst"].split())


def test_the_handout_has_the_commands_of_the_lesson() -> None:
    handed = commands("examples/handout.rst", "handout")
    assert len(handed) > 8 and [each for each in handed if each not in LESSON] == []
    lines = typed("examples/handout.rst", "handout")
    assert len(lines) == 5
    assert set(lines) <= set(typed("examples/lesson.rst", "typed"))
    assert len(PAGES["examples/handout.rst"].split()) < 700, "one sheet of paper, both sides"
