"""The examples: each runs as it says, prints what it says, and is short."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path
from types import ModuleType
from typing import Iterator
from urllib.parse import quote

import pytest

from minimcp import RpcError, connect

from .support import ROOT, run_python
from .test_paths import HOSTILE

EXAMPLES = ROOT / "examples"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the examples and what they talk of."""
    for example in EXAMPLES.glob("*.py"):
        (tmp_path / example.name).write_bytes(example.read_bytes())
    (tmp_path / "pantry" / "recipes").mkdir(parents=True)
    (tmp_path / "pantry" / "recipes" / "bread.txt").write_text("Flour, water, salt, time.\n")
    (tmp_path / "pantry" / "shopping.txt").write_text("milk\n")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def file_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The example as a module, as its test imports it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    yield importlib.import_module("file_server")
    monkeypatch.delitem(importlib.sys.modules, "file_server")


def test_examples_are_short() -> None:
    lengths = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in EXAMPLES.glob("*.py")}
    assert lengths
    assert {name: length for name, length in lengths.items() if length >= 80} == {}


def test_the_file_server_prints_what_it_says(folder: Path) -> None:
    shown = (EXAMPLES / "file_server.py").read_text(encoding="utf-8").split('"""')[1]
    commands = re.findall(r"^    \$ python3 (.+)\n((?:    (?!\$).+\n)+)", shown, re.M)
    assert len(commands) == 2
    for command, printed in commands:
        done = run_python(shlex.split(command), cwd=folder, seconds=30)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().rstrip().splitlines() == [line[4:] for line in printed.splitlines()]


def test_the_example_test_passes(folder: Path) -> None:
    done = run_python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "test_file_server.py"], cwd=folder, seconds=60)
    assert done.returncode == 0, done.stdout.decode()
    assert b"4 passed" in done.stdout


def test_the_file_server_gives_nothing_away(
    file_server: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "root"
    (inside / "inner").mkdir(parents=True)
    (tmp_path / "root-evil").mkdir()
    for secret in ("secret.txt", "root-evil/secret.txt"):
        (tmp_path / secret).write_text("secret")
    (inside / "link-to-file").symlink_to("../secret.txt")
    (inside / "link-to-folder").symlink_to("../root-evil")
    (inside / "inner" / "chain").symlink_to("../link-to-file")
    (inside / "big.txt").write_bytes(b"x" * (file_server.MOST_BYTES + 1))
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
