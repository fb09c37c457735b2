"""The examples: each runs and prints as documented, and is short."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Callable, Iterator, Tuple
from urllib.parse import quote

import pytest

from minimcp import InvalidParams, MethodNotFound, RpcError, connect

from .readme import rows
from .solutions import WRONG, changed, solution
from .support import ROOT, run_python
from .unit.test_paths import HOSTILE

EXAMPLES = ROOT / "examples"
MINI = EXAMPLES / "00_mini.py"
COURSE = sorted(path for path in EXAMPLES.glob("[0-9]*.py") if path != MINI)
"""The chapters. The output of each is next to it, in a file of the same name."""
NUMBERS = [path.name.partition("_")[0].lstrip("0") for path in COURSE]
"""Their names as readers write them: "1", "13b"."""

each_chapter = pytest.mark.parametrize(
    ("number", "chapter"), list(zip(NUMBERS, COURSE)), ids=NUMBERS
)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import an example as its neighbours do; what that changes in this process, and loads, goes
    with the test."""
    before = set(sys.modules)
    level = logging.getLogger("minimcp").level
    monkeypatch.setattr("sys.path", [str(EXAMPLES), *sys.path])
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield importlib.import_module
    logging.getLogger("minimcp").setLevel(level)
    for name in set(sys.modules) - before:
        if (
            str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES))
            or name == "chapter"
        ):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a directory with the examples and the files that they mention."""
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).write_bytes(example.read_bytes())
    (tmp_path / "pantry" / "recipes").mkdir(parents=True)
    (tmp_path / "pantry" / "recipes" / "bread.txt").write_text("Flour, water, salt, time.\n")
    (tmp_path / "pantry" / "shopping.txt").write_text("milk\n")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_examples_are_short() -> None:
    examples = [path for path in EXAMPLES.glob("*.py") if path.name not in ("check.py", MINI.name)]
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in examples}
    assert lengths
    assert {name: length for name, length in lengths.items() if length >= 100} == {}


def test_the_chapters_are_numbered() -> None:
    assert ",".join(NUMBERS) == "1,2,3,4,5,6,7,8,9,10,11,12,13,13b,14,15,15b,16,17,18"


@each_chapter
def test_a_chapter_begins_with_what_is_seen_and_ends_with_a_task(
    number: str, chapter: Path
) -> None:
    text = chapter.read_text(encoding="utf-8")
    title, seen, *idea, page = text.split('"""')[1].split("\n\n")
    assert title.endswith(".") and seen.startswith("You will see ") and idea
    assert re.match("https://modelcontextprotocol.io/(specification|seps)/", page)
    last = text.rstrip().split("\n\n")[-1].splitlines()
    assert last[0].startswith("# Exercise: ") and all(line.startswith("# ") for line in last)
    task = " ".join(line[2:] for line in last)
    assert re.search(rf"Check it with  python3 examples/check.py {number}( |$)", task)


def test_the_titles_are_those_of_the_table() -> None:
    titles = {
        path.name: " ".join(
            path.read_text(encoding="utf-8").split('"""')[1].split("\n\n")[0].split()
        )
        for path in COURSE
    }
    listed = {name.strip("`"): title for name, title in rows("Chapters")}
    assert {name: f"{listed[name]}." for name in titles} == titles


@pytest.fixture
def checked(
    example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> Callable[..., Tuple[int, str]]:
    """Return the exit code of a check, and its output."""
    check = example("check")

    def run(*arguments: str) -> Tuple[int, str]:
        code = check.main(list(arguments))
        said, complained = capsys.readouterr()
        assert complained == ""
        return code, said.rstrip()

    return run


@each_chapter
def test_an_exercise_is_checked(
    number: str, chapter: Path, checked: Callable[..., Tuple[int, str]], tmp_path: Path
) -> None:
    code, said = checked(number)
    assert code == 1 and said.startswith(f"Exercise {number}: not yet: ") and "Error" not in said
    solved = tmp_path / "solved.py"
    solved.write_text(solution(number), encoding="utf-8")
    assert checked(number, str(solved)) == (0, f"Exercise {number}: solved")


@pytest.mark.parametrize("number", list(WRONG))
def test_the_message_for_a_wrong_solution_says_what_is_wrong(
    number: str, checked: Callable[..., Tuple[int, str]], tmp_path: Path
) -> None:
    changes, problem = WRONG[number]
    wrong = tmp_path / "wrong.py"
    wrong.write_text(changed(number, changes), encoding="utf-8")
    code, said = checked(number, str(wrong))
    assert code == 1 and problem in said


def test_the_check_needs_no_environment_in_a_checkout_and_names_its_chapters() -> None:
    done = run_python(["examples/check.py", "2"], env={"PYTHONPATH": ""})
    assert (done.returncode, done.stdout.decode().partition(": there")[0]) == (
        1,
        "Exercise 2: not yet",
    )
    done = run_python(["examples/check.py", "2", "examples/my_copi.py"])
    assert (done.returncode, done.stderr.decode()) == (
        2,
        f"there is no file {EXAMPLES / 'my_copi.py'}\n",
    )
    done = run_python(["examples/check.py", "99"])
    assert (
        done.returncode == 2 and f"the chapters are {', '.join(NUMBERS)}\n" in done.stderr.decode()
    )


@pytest.mark.parametrize("chapter", COURSE, ids=lambda path: path.stem)
def test_a_chapter_prints_the_output_in_its_comments(chapter: Path) -> None:
    done = run_python([f"examples/{chapter.name}"], env={"PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stderr.decode()) == (0, "")
    printed = done.stdout.decode().replace(sys.executable, "python3").replace(f"{ROOT}{os.sep}", "")
    assert (
        printed.splitlines() == chapter.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    )


def test_the_server_by_hand_is_a_server() -> None:
    """The library understands the server that the first chapter writes without it."""
    with connect([sys.executable, str(EXAMPLES / "01_wire.py"), "serve"]) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).text == "5"
        with pytest.raises(MethodNotFound):
            client.request("tools/bake")


def test_the_model_of_the_library_is_short_and_prints_its_conversation() -> None:
    """The responses of the last two calls can arrive in either order."""
    text = MINI.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300 and "import minimcp" not in text
    done = run_python([f"examples/{MINI.name}"])
    assert (done.returncode, done.stderr.decode()) == (0, "")
    printed = done.stdout.decode().splitlines()
    shown = MINI.with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    assert sorted(printed) == sorted(shown) and printed[:-2] == shown[:-2]
    arrows = [(line[:3], json.loads(line[4:])) for line in printed]
    ended = [message["id"] for arrow, message in arrows if arrow == "<--"]
    assert ended.index(4) < ended.index(3), "a slow call does not delay the calls behind it"


def test_the_model_of_the_library_has_a_real_server() -> None:
    with connect([sys.executable, str(MINI), "server"]) as client:
        assert [tool.name for tool in client.list_tools()] == ["add", "wait", "ring"]
        assert client.call_tool("add", {"a": 2, "b": 3}).text == "5"
        assert client.call_tool("add", {"a": 2}, raise_on_error=False).is_error
        with pytest.raises(InvalidParams, match="Unknown tool: bake"):
            client.call_tool("bake")
        with pytest.raises(MethodNotFound):
            client.request("tools/bake")
        client.ping()


def test_the_table_of_the_model_names_each_of_its_parts() -> None:
    text = MINI.read_text(encoding="utf-8")
    parts = re.findall(r"^ *# (\d)\. ", text, re.M)
    assert parts == list("12345678")
    assert re.findall(r"^(\d)\. ", text.partition("WHAT_THE_LIBRARY_ADDS")[2], re.M) == parts[:-1]


def test_the_file_server_prints_its_documented_output(folder: Path) -> None:
    shown = (EXAMPLES / "file_server.py").read_text(encoding="utf-8").split('"""')[1]
    commands = re.findall(r"^\$ python3 (.+)\n((?:(?!\$).+\n)+)", shown, re.M)
    assert len(commands) == 2
    for command, printed in commands:
        done = run_python(shlex.split(command), cwd=folder)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().rstrip().splitlines() == printed.splitlines()


def test_the_example_tests_pass(folder: Path) -> None:
    tests = ["test_file_server.py", "12_testing.py"]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = run_python(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=folder, env=alone
    )
    assert done.returncode == 0, done.stdout.decode()
    assert b"8 passed" in done.stdout


def test_the_file_server_reveals_no_other_files(
    example: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_server = example("file_server")
    inside = tmp_path / "root"
    (inside / "inner").mkdir(parents=True)
    (tmp_path / "root-evil").mkdir()
    for secret in ("secret.txt", "root-evil/secret.txt"):
        (tmp_path / secret).write_text("secret")
    (inside / "link-to-file").symlink_to("../secret.txt")
    (inside / "link-to-folder").symlink_to("../root-evil")
    (inside / "inner" / "chain").symlink_to("../link-to-file")
    (inside / "big.txt").write_bytes(b"x" * (file_server.MAX_BYTES + 1))
    (inside / "bytes").write_bytes(b"\xff\x00")
    monkeypatch.setattr(file_server, "root", inside)
    with connect(file_server.server) as client:
        assert client.read_resource("files:///bytes").data == b"\xff\x00"
        for path in (*HOSTILE, "big.txt", "none.txt", "inner"):
            encoded = quote(path, errors="replace")
            for written in (encoded, quote(encoded), quote(path, "", errors="replace")):
                with pytest.raises(RpcError):
                    client.read_resource("files:///" + written)
            if path != "\udcff":  # half a pair cannot be sent
                failed = client.call_tool("show", {"path": path}, raise_on_error=False)
                assert failed.is_error and "secret" not in failed.text, path
