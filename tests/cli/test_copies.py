"""What a copy holds, decided by imports, and how copies are told apart."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import Dict, List, Set

import pytest

import minimcp as package
from minimcp.cli import copies
from minimcp.cli.copies import NOT_CORE, differences, own_files, read_manifest, write_copy
from minimcp.cli.ending import UsageError

from ..modules import PACKAGE, sources
from ..modules import Module, read_package
from ..support import ROOT


def _left_out(path: str) -> bool:
    return any(fnmatch(path, pattern) for pattern in NOT_CORE)


def _imported_from(start: List[str], modules: Dict[str, Module]) -> Set[str]:
    """All that is imported by these, at the top or inside a function, and the packages that they lie in.

    What is left out ends the search.
    """
    seen: Set[str] = set()
    todo = list(start)
    while todo:
        path = todo.pop()
        if path in modules and path not in seen and not _left_out(path):
            seen.add(path)
            todo += [each.target for each in modules[path].imports if each.ours and not each.typing_only]
            parts = path.split("/")[:-1]
            todo += ["/".join([*parts[:depth], "__init__.py"]) for depth in range(len(parts) + 1)]
    return seen


def test_the_core_is_what_the_names_of_the_package_need_and_nothing_else() -> None:
    modules = read_package()
    files = {name.replace(".", "/") for name in package._LATE}
    start = ["__init__.py", *(f"{name}.py" for name in files), *(f"{name}/__init__.py" for name in files)]
    assert {path for path in sources() if not _left_out(path)} == _imported_from(start, modules)


def test_the_core_imports_what_it_does_without_only_when_it_is_asked_for() -> None:
    wrong = [
        f"{path}:{each.line} imports {each.target}"
        for path, module in read_package().items() if not _left_out(path)
        for each in module.imports if each.ours and _left_out(each.target) and not (each.late or each.typing_only)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_copy_holds_the_whole_package_its_marker_for_types_and_its_licence() -> None:
    whole, core = own_files(core=False), own_files(core=True)
    assert set(whole) == {*sources(), "py.typed", "LICENSE"}
    assert set(core) == {path for path in whole if not _left_out(path)}
    assert whole["LICENSE"] == (ROOT / "LICENSE").read_bytes()
    assert all(data == (PACKAGE / path).read_bytes() for path, data in whole.items() if path != "LICENSE")


@pytest.fixture
def made(tmp_path: Path) -> str:
    """The folder of a fresh copy."""
    folder = str(tmp_path / "copy")
    write_copy(folder, core=True)
    return folder


def _differences(folder: str) -> List[str]:
    return differences(folder, read_manifest(folder))


def test_a_fresh_copy_differs_in_nothing(made: str) -> None:
    assert _differences(made) == []
    assert str(read_manifest(made)) == f"minimcp {package.__version__} (core)"
    assert not list(Path(made).rglob("__pycache__")) and os.listdir(os.path.dirname(made)) == ["copy"]


def test_what_python_compiles_and_other_line_ends_are_no_difference(made: str) -> None:
    compiled = Path(made, "types", "__pycache__")
    compiled.mkdir()
    (compiled / "x.pyc").write_bytes(b"x")
    log = Path(made, "log.py")
    log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    assert _differences(made) == []


def test_what_is_changed_missing_and_added_is_told_by_file(made: str) -> None:
    Path(made, "log.py").write_text("# mine\n")
    Path(made, "types", "tool.py").unlink()
    Path(made, "own").mkdir()
    Path(made, "own", "notes.txt").write_text("")
    assert _differences(made) == ["changed: log.py", "added: own/notes.txt", "missing: types/tool.py"]


def test_links_are_differences_and_are_not_followed(made: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.rename(os.path.join(made, "log.py"), elsewhere / "log.py")
    os.symlink(elsewhere / "log.py", os.path.join(made, "log.py"))
    os.rename(os.path.join(made, "transports"), elsewhere / "transports")
    os.symlink(elsewhere / "transports", os.path.join(made, "transports"))
    found = _differences(made)
    assert {"changed: log.py", "added: transports", "missing: transports/lines.py"} <= set(found)
    assert not any("added" in line and "/" in line for line in found)


def test_a_pipe_in_a_copy_is_not_waited_for(made: str) -> None:
    os.unlink(os.path.join(made, "log.py"))
    os.mkfifo(os.path.join(made, "log.py"))
    assert _differences(made) == ["changed: log.py"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1, "core": true, "files": {}}', '{"version": "1", "core": true, "files": []}',
             '{"version": "1", "core": 0, "files": {}}', "[" * 100_000, "\xff"]
)
def test_a_manifest_that_makes_no_sense_vouches_for_nothing(made: str, text: str) -> None:
    Path(made, "vendored.json").write_bytes(text.encode("latin-1"))
    assert len(_differences(made)) == len(own_files(core=True))


def test_a_manifest_alone_is_no_copy(tmp_path: Path) -> None:
    (tmp_path / "vendored.json").write_text('{"version": "1", "core": true, "files": {}}')
    assert _differences(str(tmp_path)) == ["changed: vendored.json"]


def test_a_folder_without_a_manifest_is_no_copy(made: str, tmp_path: Path) -> None:
    for folder in (str(tmp_path), str(tmp_path / "nothing"), os.path.join(made, "log.py")):
        with pytest.raises(UsageError):
            read_manifest(folder)
    os.symlink(made, tmp_path / "link")
    with pytest.raises(UsageError):
        read_manifest(str(tmp_path / "link"))
    os.rename(os.path.join(made, "vendored.json"), tmp_path / "real")
    os.symlink(tmp_path / "real", os.path.join(made, "vendored.json"))
    with pytest.raises(UsageError, match="no copy"):
        read_manifest(made)


def test_a_new_copy_takes_the_place_of_the_old_one_whole(made: str) -> None:
    write_copy(made, core=False)
    assert _differences(made) == [] and os.path.exists(os.path.join(made, "cli", "copies.py"))
    write_copy(made, core=True)
    assert _differences(made) == [] and not os.path.exists(os.path.join(made, "cli"))
    assert os.listdir(os.path.dirname(made)) == ["copy"]


@pytest.mark.parametrize("failing", ["rename", "second rename", "_write"])
def test_what_was_there_is_still_there_when_copying_fails(
    made: str, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, calls = os.rename, []

    def broken(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == (2 if failing == "second rename" else 1):
            raise OSError("the disk is full")
        rename(*arguments)  # type: ignore[arg-type]

    if failing == "_write":
        monkeypatch.setattr(copies, "_write", broken)
    else:
        monkeypatch.setattr(os, "rename", broken)
    with pytest.raises(OSError, match="full"):
        write_copy(made, core=False)
    assert _differences(made) == [] and read_manifest(made).core
    assert os.listdir(os.path.dirname(made)) == ["copy"]


def test_a_changed_copy_is_not_copied_on(made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "package_folder", lambda: made)
    write_copy(str(tmp_path / "second"), core=True)
    assert _differences(str(tmp_path / "second")) == []
    Path(made, "log.py").write_text("# mine\n")
    with pytest.raises(UsageError, match="changed"):
        write_copy(str(tmp_path / "third"), core=True)
    assert not (tmp_path / "third").exists()


def test_a_package_in_no_folder_cannot_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (None, "/no/such/archive.zip/minimcp/cli/copies.py"):
        monkeypatch.setattr(copies, "__file__", place)
        with pytest.raises(UsageError, match="lies in no folder"):
            own_files(core=False)
