"""The demo: its output, its Python versions, and its names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest

from minimcp.cli.demo import CONVERSATIONS, demo_server, in_order, which_python
from minimcp.cli.demo_views import WIDTH, shortened
from minimcp.cli.terminal import styled, wants_color
from minimcp.errors import ConnectionFailed
from minimcp.testing import Entry

from ..support import ROOT, WAIT
from .conftest import Done, run_process

BARE = "import sys; sys.path.insert(0, {root!r}); from minimcp.cli import main; sys.exit(main(['demo', '--all']))"


def told(out: str) -> str:
    """Return the output up to the next steps, which name this Python and this folder."""
    return out.partition("What to do next")[0]


@pytest.fixture(scope="module")
def printed() -> str:
    """Return the demo's output with all chapters."""
    done = run_process("demo", "--all")
    assert (done.code, done.err) == (0, "")
    return told(done.out)


def test_the_chapters_and_messages_in_order(printed: str) -> None:
    titles = [
        (chapter.__doc__ or "").split("\n")[0]
        for _, chapters in CONVERSATIONS
        for chapter in chapters
    ]
    assert len(set(titles)) == len(titles)
    assert re.findall(r"^\d+\. (.*)$", printed, re.M) == titles

    def both(method: str) -> List[Tuple[str, str]]:
        return [("-->", method), ("<--", f"response to {method}")]

    call, discover = both("tools/call"), both("server/discover")
    progress = ("<--", "notifications/progress")
    seen = re.findall(r"^  client (-->|<--) server   (.*) \(.*\)$", printed, re.M)
    assert seen == [
        *discover,
        *both("tools/list"),
        *call,
        call[0],
        progress,
        progress,
        progress,
        call[1],
        *call,
        *call,
        *both("resources/list"),
        *both("resources/read"),
        *both("prompts/list"),
        *both("prompts/get"),
        *call,
        *call,
        ("-->", "subscriptions/listen"),
        ("<--", "notifications/subscriptions/acknowledged"),
        *call,
        ("<--", "notifications/resources/updated"),
        ("-->", "notifications/cancelled"),
        call[0],
        progress,
        ("-->", "notifications/cancelled"),
        *discover,
        ("-->", "initialize"),
        ("<--", "response to initialize"),
        ("-->", "notifications/initialized"),
        *both("tools/list"),
        *call,
        call[0],
        ("<--", "elicitation/create"),
        ("-->", "response to elicitation/create"),
        call[1],
        *both("ping"),
    ]
    for block in re.split(r"^  client ", printed, flags=re.M)[1:]:
        lines = block.split("\n\n")[0].splitlines()[1:]
        assert lines[0].startswith('      {"jsonrpc": "2.0"')
        assert lines[-1].rstrip().endswith((".", "?")), "every message is explained"


def test_a_question_is_asked_in_both_ways(printed: str) -> None:
    titles = ("A question to the user", "A question in a session")
    modern, session = (printed.split(f". {title}\n")[1] for title in titles)
    steps = [
        modern.index(each)
        for each in ('"input_required"', '"inputResponses"', "2 loaves of rye bread are")
    ]
    assert steps == sorted(steps)
    assert modern.count('"requestState": "..."') == 2, "another one each time, and nothing to read"
    assert session.index('"method": "elicitation/create"') < session.index(
        "2 loaves of rye bread are yours"
    )


def test_a_notification_is_shown_after_the_response_whenever_it_arrived() -> None:
    call, done = (
        Entry("-->", {"method": "tools/call", "id": 1}, "tools/call"),
        Entry("<--", {"id": 1}, "tools/call"),
    )
    over = Entry("-->", {"method": "notifications/cancelled"}, "notifications/cancelled")
    changed = Entry(
        "<--", {"method": "notifications/resources/updated"}, "notifications/resources/updated"
    )
    for came in (
        [call, changed, done, over],
        [call, done, changed, over],
        [call, done, over, changed],
    ):
        assert in_order(came) == [call, done, changed, over]
    assert in_order([changed]) == [changed]


def test_it_is_the_same_each_time_and_fits_any_terminal(
    printed: str, minimcp: Callable[..., Done]
) -> None:
    assert told(minimcp("demo", "--all").out) == printed
    assert max(map(len, printed.splitlines())) <= WIDTH
    assert printed.isascii() and "\x1b" not in printed and "Traceback" not in printed


def _pythons() -> List[str]:
    """Return the Python 3.9 and 3.13 of this machine that do not run the tests; if there is none,
    the Python that does."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = []
    for version in sorted({"3.9", "3.13"} - {f"{sys.version_info.major}.{sys.version_info.minor}"}):
        here = sorted(str(path) for path in versions.glob(f"{version}.*/bin/python"))
        found += here[-1:] or [path for path in (shutil.which(f"python{version}"),) if path]
    return found or [sys.executable]


@pytest.mark.parametrize("python", _pythons())
def test_it_needs_a_python_and_nothing_else(python: str, printed: str, tmp_path: Path) -> None:
    command = [python, "-I", "-S", "-c", BARE.format(root=str(ROOT))]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=3 * WAIT, cwd=tmp_path, env={}
    )
    assert (done.returncode, done.stderr, told(done.stdout)) == (0, "", printed)


def test_it_shows_the_first_chapters_and_names_the_others(
    printed: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("demo")
    titles = re.findall(r"^(\d+)\. (.*)\n", printed, re.M)
    begin, _, more = told(done.out).partition("Other chapters: ")
    assert (done.code, done.err) == (0, "") and len(done.out.splitlines()) < 100
    assert (
        printed.startswith(begin.rpartition("\n\n")[0])
        and "\n3. Calling a tool" in begin
        and "\n4. " not in begin
    )
    shown = " ".join(more.split())
    for number, title in titles[3:]:
        assert f"{number} {title}" in shown
    for word in ("host", "model", "JSON-RPC"):
        assert word in begin[:700]
    assert minimcp("demo", "16", "7").out.strip() in {
        "\n\n".join(
            each.strip()
            for each in re.split(r"\n(?=\d+\. )", printed)
            if re.match("(7|16). ", each)
        ).partition("\n\nAt the end, the client")[0]
    }


def test_the_suggested_next_steps_work(tmp_path: Path) -> None:
    done = run_process("demo", cwd=tmp_path)
    _, code, told_more = re.split(
        r"(?s)^1\. .*?\n\n(?=    from)|\n\n(?=2\. )", done.out, flags=re.M
    )
    (tmp_path / "server.py").write_text(textwrap.dedent(code), encoding="utf-8")
    (command,) = re.findall(r"2\. Call it: .* -m minimcp (.*)", told_more)
    assert run_process(*command.split(), cwd=tmp_path).out == "Hello, Ada!\n"
    (config,) = re.findall(r"(?s)3\. .*?:\n(.*?)\n4\. ", told_more)
    (tmp_path / "mcp.json").write_text(config, encoding="utf-8")
    assert run_process("call", "hello", "greet", "name=Ada", cwd=tmp_path).out == "Hello, Ada!\n"


def test_it_says_which_python_a_host_has_to_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "minimcp").mkdir()
    (tmp_path / "minimcp" / "__init__.py").touch()
    monkeypatch.setattr(sys, "meta_path", [PathFinder])
    for folder, path, installed in (
        (ROOT, [str(ROOT)], False),
        (ROOT, ["", str(tmp_path)], True),
        (ROOT, ["", str(ROOT)], True),
        (tmp_path, [], True),
    ):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", path)
        told = which_python()
        if installed:
            assert "the Python of the environment where minimcp is installed" in told
        else:
            assert (
                f"not installed in this Python: server.py must stay in {ROOT}; or install that folder"
                in told
            )


@pytest.mark.parametrize(
    ("chapters", "enters", "shown"),
    [
        ([], 3, ["server/discover", "response to server/discover", "tools/list"]),
        (["13"], 3, ["initialize", "response to initialize", "notifications/initialized"]),
        (
            ["3", "4"],
            4,
            ["tools/call", "response to tools/call", "tools/call", "notifications/progress"],
        ),
    ],
)
def test_a_step_waits_for_enter_before_each_message(
    chapters: List[str], enters: int, shown: List[str]
) -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"\n" * enters + b"\x04")
    try:
        done = run_process("demo", "--step", *chapters, stdin=theirs, input=None)
    finally:
        os.close(ours)
        os.close(theirs)
    is_over = chapters == ["13"]
    assert (done.code, done.err.count("(Enter shows the next")) == (0, enters + (not is_over))
    assert re.findall(r"^  client \S+ server   (.*) \(.*\)$", done.out, re.M) == shown
    assert "What to do next" not in done.out


def test_no_step_waits_without_a_terminal(printed: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("demo", "--step")
    assert (done.code, done.err, told(done.out)) == (0, "", printed)


@pytest.mark.parametrize(
    ("word", "numbers"),
    [
        ("ping", ["16"]),
        ("QUESTION", ["9", "15"]),
        ("elicitation", ["15"]),
        ("subscriptions/listen", ["10"]),
        ("initialize", ["13"]),
        ("7", ["7"]),
    ],
)
def test_a_word_finds_a_chapter(
    word: str, numbers: List[str], minimcp: Callable[..., Done]
) -> None:
    done = minimcp("demo", word)
    assert (done.code, re.findall(r"^(\d+)\. ", done.out, re.M)) == (0, numbers)


@pytest.mark.parametrize("word", ["0", "17", "banana"])
def test_a_word_without_a_chapter_gets_the_list_of_chapters(
    word: str, minimcp: Callable[..., Done]
) -> None:
    done = minimcp("demo", word)
    assert (done.code, done.out) == (2, "")
    assert f"there is no chapter {word!r}: the chapters are 1 Starting; 2 Which" in done.err


def _columns(out: str) -> Tuple[List[str], List[str]]:
    """The labels of the messages in the two columns."""
    heads = [line for line in out.splitlines() if re.search("client (-->|<--) server", line)]
    labels = [re.findall(r"client (?:-->|<--) server  ((?:\S+ )*\S+)", line) for line in heads]
    left = [line[0] for line in labels]
    return left, [line[-1] for line, head in zip(labels, heads) if head.count("server  ") == 2]


@pytest.mark.parametrize("columns", ["80", "200"])
def test_two_revisions_stand_side_by_side(
    columns: str, minimcp: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    done = minimcp("demo", "--compare", "2025-11-25", "2026-07-28", "question")
    assert done.code == 0 and re.findall(r"^(\d+)\. ", done.out, re.M) == ["9"]
    assert max(map(len, done.out.splitlines())) < int(columns)
    if columns == "80":  # there a long label has two lines
        return
    assert _columns(done.out) == (
        [
            "tools/call",
            "elicitation/create",
            "response to elicitation/create",
            "response to tools/call",
        ],
        ["tools/call", "response to tools/call", "tools/call", "response to tools/call"],
    )
    opening = minimcp("demo", "1", "--compare", "2025-11-25", "2026-07-28").out
    assert opening.index("initialize") < opening.index("server/discover")
    assert re.search(r"^2025-11-25 +2026-07-28$", opening, re.M)


def test_a_revision_without_a_feature_is_compared_too(minimcp: Callable[..., Done]) -> None:
    done = minimcp("demo", "--compare", "2024-11-05", "2025-11-25", "9")
    assert done.code == 0 and '"isError": true' in done.out
    done = minimcp("demo", "--compare", "2024-11-06", "2025-11-25", "9")
    assert (done.code, done.out) == (2, "") and "one of 2024-11-05, 2025-03-26" in done.err


def test_a_page_for_a_projector_has_the_messages(
    tmp_path: Path, minimcp: Callable[..., Done]
) -> None:
    path = tmp_path / "slides.html"
    done = minimcp("demo", "5", "3", "--html", str(path))
    assert done.out == f"{path}: 2 chapters; Space shows the next message\n"
    page = path.read_text("utf-8")
    assert re.findall("<h1>(.*)</h1>", page) == [
        "A client and a server of the Model Context Protocol (MCP) talk.",
        "3. Calling a tool",
        "5. A tool that fails",
    ]
    assert (
        re.findall(r'<article class="(\w+) (\w+)">', page)
        == [
            ("right", "request"),
            ("left", "result"),
        ]
        * 2
    )
    assert "&quot;bread&quot;: &quot;rye&quot;" in page and "//" not in page.partition("<script")[0]


def test_a_page_compares_two_revisions(tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    path = tmp_path / "both.html"
    done = minimcp("demo", "1", "9", "--compare", "2025-11-25", "2026-07-28", "--html", str(path))
    assert done.out == f"{path}: 7 and 6 messages\n"
    page = path.read_text("utf-8")
    assert re.findall("<h1>(.*?)</h1>", page) == ["2025-11-25", "2026-07-28"]
    left, right = re.findall('<iframe sandbox="allow-scripts" srcdoc="(.*?)"></iframe>', page, re.S)
    assert "elicitation/create" in left and "input_required" in right
    assert "<" not in left + right


def test_an_unsupported_python_prints_the_reason(
    monkeypatch: pytest.MonkeyPatch, minimcp: Callable[..., Done]
) -> None:
    done = run_process("demo", env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONOPTIMIZE": "2"})
    assert (done.code, done.out) == (2, "") and "python -OO removes docstrings" in done.err
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(ConnectionFailed, match="embeds Python"):
        demo_server()


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    variables: Any, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", variables)
    assert (wants_color(_Terminal()), wants_color(None)) == (wanted, False)
    assert (styled("a", "bold", True), styled("a", "bold", False)) == ("\x1b[1ma\x1b[0m", "a")


def test_only_long_messages_are_shortened() -> None:
    long = {
        "id": 1,
        "result": {"list": [{"text": "long " * 50, "deep": {"er": [1]}}] * 50, "empty": [{}, []]},
    }
    lines = shortened(long, in_full=True)
    assert len(lines) <= 5 and "..." in "".join(lines)
    short = {"a": [1, {"b": None}], "c": "\u00e9\n"}
    assert shortened(short, in_full=True) == ['{"a": [1, {"b": null}], "c": "\\u00e9\\n"}']
