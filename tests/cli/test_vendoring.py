"""`minimcp vendor`: what it says, what it refuses, its exit codes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import pytest

from minimcp import __version__ as VERSION

from ..modules import PACKAGE
from ..support import ROOT
from .conftest import Done, run_process


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("option", "kind"), [([], ""), (["--core"], " (core)")])
def test_it_copies_and_checks(option: "list[str]", kind: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("vendor", "mcp_copy", *option)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"mcp_copy is now minimcp {VERSION}{kind}, ")
    assert minimcp("vendor", "--check", "mcp_copy") == Done(
        0, f"mcp_copy is minimcp {VERSION}{kind}, whole and unchanged\n", ""
    )
    assert minimcp("vendor", "mcp_copy").code == 0, "an earlier copy may be replaced"
    assert not list(Path().rglob("__pycache__"))


def test_check_names_what_differs(minimcp: Callable[..., Done]) -> None:
    minimcp("vendor", "mcp_copy", "--core")
    Path("mcp_copy", "log.py").write_text("# mine\n")
    Path("mcp_copy", "odd\x1b[31m").write_text("")
    done = minimcp("vendor", "mcp_copy", "--check")
    assert (done.code, done.err) == (1, "")
    assert done.out == (
        "changed: log.py\nadded: odd\\x1b[31m\n"
        f"mcp_copy is minimcp {VERSION} (core), but not as it was copied\n"
    )
    done = minimcp("vendor", "mcp_copy")
    assert (done.code, done.out) == (2, "") and "changed: log.py" in done.err
    assert Path("mcp_copy", "log.py").read_text() == "# mine\n"


def test_an_empty_folder_is_filled(minimcp: Callable[..., Done]) -> None:
    Path("mcp_copy").mkdir()
    assert minimcp("vendor", "mcp_copy/").code == 0
    assert minimcp("vendor", "mcp_copy", "--check").code == 0


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("full", "full is no copy made by this command"),
        ("file", "file is there already, and is no folder"),
        ("link", "link is there already, and is no folder"),
        ("dangling", "dangling is there already, and is no folder"),
        ("no/copy", "there is no folder"),
        ("mcp-copy", "no statement can import a package called 'mcp-copy'"),
        ("class", "no statement can import"),
        (str(PACKAGE), "is this package itself"),
        (str(PACKAGE / "inside"), "is this package itself, or lies in it"),
        ("by_link/inside", "is this package itself, or lies in it"),
    ],
)
def test_what_it_does_not_write_to(folder: str, said: str, minimcp: Callable[..., Done]) -> None:
    Path("full").mkdir()
    Path("full", "mine.txt").write_text("mine")
    Path("file").write_text("mine")
    Path("empty").mkdir()
    os.symlink("empty", "link")
    os.symlink("nowhere", "dangling")
    os.symlink(PACKAGE, "by_link")
    before = sorted(map(str, Path().rglob("*")))
    done = minimcp("vendor", folder)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err
    assert sorted(map(str, Path().rglob("*"))) == before and not (PACKAGE / "inside").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gone", "--check"], "gone is no folder"),
        ([".", "--check"], "no copy made by this command"),
        (["mcp_copy", "--check", "--core"], "not allowed with"),
        ([], "required: DIR"),
    ],
)
def test_wrong_usage(arguments: "list[str]", said: str, minimcp: Callable[..., Done]) -> None:
    done = minimcp("vendor", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert said in done.err


def test_a_folder_that_cannot_be_written() -> None:
    done = run_process("vendor", "/proc/mcp_copy")
    assert (done.code, done.out) == (3, "")
    assert done.err.count("\n") == 1 and "/proc/mcp_copy" in done.err


def test_a_copy_makes_copies_under_its_own_name(tmp_path: Path, minimcp: Callable[..., Done]) -> None:
    minimcp("vendor", "first_copy")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_process("vendor", "second_copy", package="first_copy", env=environment)
    assert (done.code, done.err) == (0, "")
    assert minimcp("vendor", "--check", "second_copy").code == 0
    done = run_process("vendor", "--check", "first_copy", package="second_copy", env=environment)
    assert (done.code, done.err) == (0, "")
    help_text = run_process("vendor", "--help", package="second_copy", env=environment).out
    assert help_text.startswith("usage: python -m second_copy vendor")
    assert str(ROOT) not in help_text


def test_readme_shows_what_the_command_says(minimcp: Callable[..., Done]) -> None:
    Path("yourtree").mkdir()
    assert minimcp("vendor", "yourtree/mcp").code == 0
    shown = "    $ python3 -m minimcp vendor yourtree/mcp --check\n    "
    assert shown + minimcp("vendor", "yourtree/mcp", "--check").out in (ROOT / "README.rst").read_text("utf-8")
