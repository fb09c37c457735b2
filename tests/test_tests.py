"""The private names of the library that tests use. A change of an internal name should break few
tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import AbstractSet, FrozenSet, Iterator, List, Set

import pytest

from .modules import read_package
from .support import ROOT

MAX_LINES = 99
"""Maximum number of lines in which tests name a private attribute of the library."""

OTHERS = frozenset({"os", "sys", "self", "cls"})
"""Names before the dot of attributes that are not the library's."""

DOCUMENTED = frozenset({"_", "_asdict", "_exit", "_fields", "_make", "_replace"})
"""Public names of the standard library that begin with an underscore."""

WORD = re.compile(r"\b_\w+")

FOREIGN = ROOT / "tests" / "interop" / "peers"
"""Programs that use other people's packages."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@lru_cache(maxsize=None)
def private_names() -> FrozenSet[str]:
    """The private names of the library, with those of its modules, classes and attributes."""
    found: Set[str] = set()
    for module in read_package().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, ast.Name):
                found.add(node.id)
    return frozenset(name for name in found if is_private(name)) - DOCUMENTED


def lines_inside(tree: ast.AST, names: AbstractSet[str]) -> Iterator[int]:
    """The lines of a file that name one: as an attribute, an import or an argument of a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in OTHERS:
                yield node.end_lineno or node.lineno
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minimcp"):
            if any(is_private(each.name) for each in node.names):
                yield node.lineno
        elif isinstance(node, ast.Call):
            for at, each in enumerate(node.args):  # setattr(owner, name), setattr("module.name")
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    package, _, name = each.value.rpartition(".")
                    if name in names and (package.startswith("minimcp.") if package else at):
                        yield each.lineno


def found_in(path: Path, names: AbstractSet[str]) -> Iterator[str]:
    text = path.read_text("utf-8")
    if names.isdisjoint(WORD.findall(text)):
        return  # nothing to parse
    for number in sorted(set(lines_inside(ast.parse(text), names))):
        line = text.splitlines()[number - 1].strip()
        yield f"{path.relative_to(ROOT)}:{number}: {line}"


def all_lines() -> List[str]:
    names = private_names()
    return [
        line
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if FOREIGN not in path.parents and path != Path(__file__).resolve()
        for line in found_in(path, names)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "client._sessions",
        "client.newest()._sessions = 1",
        'monkeypatch.setattr(client, "_sessions", 1)',
        'monkeypatch.setattr("minimcp.client.client._sessions", 1)',
        "from minimcp.client.client import Client, _sessions",
    ],
)
def test_each_way_to_look_inside_is_found(line: str) -> None:
    assert list(lines_inside(ast.parse(line), {"_sessions"})) == [1]


@pytest.mark.parametrize(
    "line", ["self._sessions", "os._exit(0)", "row._replace(a=1)", "client.sessions", "'_sessions'"]
)
def test_nothing_else_is(line: str) -> None:
    assert list(lines_inside(ast.parse(line), private_names() | {"_sessions"})) == []


def test_few_lines_of_the_tests_look_inside_the_library() -> None:
    """Let a test observe what a peer sees, or use a function of tests/inside.py."""
    found = all_lines()
    assert 0 < len(found) <= MAX_LINES, "\n".join(found)


if __name__ == "__main__":  # print them
    print("\n".join(all_lines()))


def test_the_foreign_peers_are_installed_without_any_package() -> None:
    """.ci/run starts `tests.interop --install` with a Python that has no packages."""
    program = "import runpy; runpy.run_module('tests.interop')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
