"""The front page: every block runs, every printed line is what is printed, every number is the code's own."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from minimcp import Server, connect
from minimcp.revisions import REVISIONS
from minimcp.schema.dialects import DIALECTS

from .floors import FLOORS, PACKAGE
from .support import ROOT, run_python

README = (ROOT / "README.rst").read_text(encoding="utf-8")

BLOCK = re.compile(r"^\.\. (\w+): (.+)\n\n\.\. code-block:: (\w+)\n\n((?:(?:    .*)?\n)+)", re.M)


def _blocks(mark: str) -> Dict[str, str]:
    """The marked blocks, by what stands behind the mark, without their indent."""
    return {
        name: re.sub("^    ", "", text, flags=re.M).strip("\n") + "\n"
        for kind, name, _, text in BLOCK.findall(README)
        if kind == mark
    }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the README's files."""
    for name, text in _blocks("file").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def _run(arguments: List[str], folder: Path) -> str:
    done = run_python(arguments, cwd=folder, seconds=30)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().replace("\r\n", "\n")


def test_every_python_block_is_a_file() -> None:
    assert README.count("code-block:: python") == len(_blocks("file")) == 6


@pytest.mark.parametrize("name", ["client.py", "visit.py"])
def test_the_clients_print_what_they_are_said_to(name: str, files: Path) -> None:
    assert _run([name], files) == _blocks("prints")[name]


def test_the_test_passes(files: Path) -> None:
    _run(["-c", "import test_server as t; t.test_forecast(); t.test_progress()"], files)


def test_the_plain_class_serves(files: Path) -> None:
    with connect(str(files / "notes.py")) as client:
        assert client.call_tool("add", {"text": "milk"}).value == 1
        assert client.read_resource("notes://1").text == "milk"


def test_the_server_and_the_client_fit_on_one_screen() -> None:
    lines = [line for name in ("server.py", "client.py") for line in _blocks("file")[name].splitlines()]
    assert len(lines) <= 60


def test_the_two_commands() -> None:
    marked = {name: text for kind, name, _, text in BLOCK.findall(README) if kind == "ci"}
    assert sorted(marked) == ["demo", "test"]
    assert marked["demo"].split() == ["$", "python3", "-m", "minimcp", "demo"]
    (line,) = marked["test"].strip().splitlines()
    for part in ("python3 -m venv .venv", 'pip install -e ".[test]"', "bin/pytest -n 2"):
        assert part in line


def test_the_demo_begins_as_shown() -> None:
    shown = _blocks("prints")["demo"]
    assert shown.count("client -->") == 1
    assert _run(["-m", "minimcp", "demo"], ROOT).startswith(shown)


def test_the_commands_run(files: Path) -> None:
    commands = [line[2:] for line in _blocks("runs")["commands"].splitlines()]
    assert len(commands) == 6
    for command in commands:
        words = shlex.split(command)
        assert words[0] == "python3"
        printed = _run(words[1:], files)
        assert printed or "run" in words


def _rows(below: str) -> List[List[str]]:
    """The first table below a heading, without its head, cell by cell."""
    section = README.split(f"\n{below}\n---", 1)[1]
    lines = iter(section.splitlines())
    rule = next(line for line in lines if line.startswith("==="))
    starts = [match.start() for match in re.finditer("=+", rule)]
    cells, rules = [], 1
    for line in lines:
        if line.startswith("==="):
            rules += 1
            if rules == 3:
                break
        elif rules == 2:
            cells.append([line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])])
    return cells


def _amount(text: str) -> Any:
    number, _, unit = text.partition(" ")
    return {"": int(number), "MiB": int(number) << 20, "s": float(number)}[unit]


def test_the_limits_are_the_defaults() -> None:
    seen = 0
    for name, *amounts, _ in _rows("Limits"):
        for function, amount in zip((Server, connect), amounts):
            parameters = inspect.signature(function).parameters
            if amount == "-":
                assert name.strip("`") not in parameters
            else:
                assert parameters[name.strip("`")].default == _amount(amount), name
                seen += 1
    assert seen > 10


def test_every_limit_is_in_the_table() -> None:
    shown = {name.strip("`") for name, *_ in _rows("Limits")}
    for function in (Server, connect):
        names = {name for name in inspect.signature(function).parameters if name.startswith("max_")}
        assert names <= shown


def test_the_revisions_are_the_facts() -> None:
    names = {"form": "forms", "url": "URLs"}
    structured = {"none": "no, text only", "object": "objects; other values are wrapped", "any": "any JSON value"}
    assert _rows("Revisions") == [
        [
            revision.name,
            "a handshake" if revision.handshake else "none",
            "taken" if revision.batches else "no",
            "yes" if revision.progress_message else "no",
            structured[revision.structured],
            ", ".join(["model", "roots", *(names[mode] for mode in names if mode in revision.elicitation_modes)])
            + ("" if revision.handshake else "; rounds"),
        ]
        for revision in REVISIONS
    ]


def test_the_reading_order_goes_up_and_stays_short() -> None:
    names = re.findall(r"^\d+\. ``(.+?)``: ", README, re.M)
    floors = [floor for name in names for floor, files in FLOORS if name in files or name.split("/")[0] + "/*" in files]
    assert len(floors) == len(names) == 10
    assert floors == sorted(floors)
    assert sum(len((PACKAGE / name).read_text(encoding="utf-8").splitlines()) for name in names) < 3000


def test_every_file_that_is_named_is_there() -> None:
    section = README.split("\nReading order\n---", 1)[1].split("\nThreads\n---", 1)[0]
    names = re.findall(r"``([\w/]+\.py)``", section)
    assert len(names) > 30 and [name for name in names if not (PACKAGE / name).is_file()] == []


def test_the_examples_are_those_that_are_there() -> None:
    there = sorted(path.name for path in ROOT.glob("examples/*.py"))
    assert [name.strip("`") for name, _ in _rows("Examples")] == there


@pytest.mark.requirement("JSCH-03", "M:SCH-3")
def test_the_dialects_of_schemas_are_named() -> None:
    named = README.split("(dialects ", 1)[1].split(")", 1)[0]
    for uri in DIALECTS:
        version = uri.split("/draft")[1].strip("/-").split("/")[0].lstrip("0")
        assert version in named, uri


def test_lines_are_short_and_plain() -> None:
    for name in ("README.rst", "CHANGES.rst"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 120
        assert text.isascii()


def test_it_names_the_running_python_nowhere() -> None:
    assert sys.prefix not in README
