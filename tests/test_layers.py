"""The walls of the house, read from its source: floors, cycles, late imports, names that stay where they belong."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
import sysconfig
from pathlib import Path
from typing import Dict, FrozenSet, Iterator, List, Set

import pytest

from .floors import FLOORS, PACKAGE, floor_of, sources
from .modules import FUNCTIONS, Import, Module, read_package
from .support import ROOT, run_python

LONGEST_FILE = 400

LATE_STDLIB = frozenset({
    "ast", "atexit", "base64", "binascii", "collections.abc", "concurrent.futures", "contextlib", "ctypes",
    "dataclasses", "datetime", "decimal", "difflib", "enum", "fractions", "functools", "hashlib", "hmac",
    "importlib", "importlib.util", "inspect", "ipaddress", "json", "logging", "math", "mimetypes", "pathlib",
    "pprint", "random", "runpy", "secrets", "shlex", "shutil", "signal", "socket", "ssl", "subprocess", "tempfile",
    "textwrap", "traceback", "types", "typing", "urllib.parse", "uuid", "warnings",
})
"""Standard library that costs time to load and is wanted by few: imported by the function that needs it."""

LATE_OURS = {
    "__init__.py": "*",
    "types/__init__.py": "types/*",
    "schema/__init__.py": "schema/*",
    "__main__.py": "cli/*",
    "cli/*": "*",
    "client.py": "futures.py",
    "connecting.py": "recognition.py remedies.py",
    "targets.py": "transports/* config.py marks.py",
    "config.py": "transports/*",
    "server.py": "transports/* run.py marks.py",
    "server_options.py": "features/state.py marks.py remedies.py",
    "features/facts.py": "features/state.py",
    "run.py": "transports/*",
    "web.py": "transports/* run.py",
    "transports/process.py": "transports/windows.py",
    "registration.py": "marks.py",
    "intake.py": "overlong.py",
    "calls.py": "remedies.py",
    "tool_calls.py": "remedies.py",
    "typed.py": "remedies.py",
    "features/registry.py": "features/completion.py features/prompts.py features/resources.py features/methods.py",
    "features/client_features.py": "features/asking.py features/questions.py",
    "features/carried.py": "features/rounds.py",
    "features/tools.py": "features/rounds.py schema/check.py",
    "schema/classes.py": "schema/check.py",
    "schema/limits.py": "schema/check.py",
    "schema/kinds.py": "schema/limits.py",
}
"""Who may import which of our own modules inside a function, on first use, because it costs time at the start:
transports, a command's own module, the one file for Windows, kinds of things that a server may not have, questions that
its handlers may not ask, and the checker of hand-written schemas."""

NEVER_AT_THE_TOP = frozenset({
    "dataclasses", "inspect", "asyncio", "ssl", "http", "subprocess", "concurrent", "logging", "jsonschema",
    "requests",
})
"""Packages too slow to load for everybody. Commands (floor 8) may: nobody imports them for a server."""

FORBIDDEN = {
    "features/*": "socket threading _thread select selectors ssl http transports/*",
    "session.py": "threading _thread time queue socket select",
    "eras.py": "threading _thread time queue socket select",
    "client.py": "server.py",
    "server.py": "client.py",
    "connecting.py": "server.py",
    "transports/*": "auth/*",
    "auth/*": "transports/*",
}
"""What these may import neither at the top nor inside a function."""

FOREIGN = frozenset({
    "annotated_types", "attr", "attrs", "jsonschema", "jwt", "pydantic", "referencing", "requests",
    "sseclient", "urllib3",
})

REVISION = re.compile(r"\b20\d\d-\d\d-\d\d\b")

FLOOR_WORDS = re.compile(r"\bFloor (\d(?:\.\d)?)\.")


@pytest.fixture(scope="module")
def package() -> Dict[str, Module]:
    """Every module of minimcp, by path."""
    return read_package()


def _matches(path: str, patterns: str) -> bool:
    return any(
        path == pattern or pattern == "*" or (pattern.endswith("/*") and path.startswith(pattern[:-1]))
        for pattern in patterns.split()
    )


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_stdlib(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.builtin_module_names or top in {"_winapi", "msvcrt", "winreg"}:
        return True
    found = importlib.util.find_spec(top)
    origin = "" if found is None else found.origin or ""
    if origin in {"frozen", "built-in"}:
        return True
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return "site-packages" not in origin and origin.startswith(tuple(folder for folder in folders if folder))


def _places(package: Dict[str, Module]) -> Iterator["tuple[Module, Import]"]:
    for module in package.values():
        for each in module.imports:
            yield module, each


def test_every_file_has_a_floor() -> None:
    assert [path for path in sources() if floor_of(path) is None] == [], "give them a floor in tests/floors.py"


def test_each_pattern_of_a_floor_is_on_one_floor_only() -> None:
    names = [name for _, patterns in FLOORS for name in patterns]
    assert len(names) == len(set(names))


def test_the_docstring_names_the_floor(package: Dict[str, Module]) -> None:
    wrong = {}
    for path, module in package.items():
        named = FLOOR_WORDS.findall(module.docstring)
        if [float(each) for each in named] != [floor_of(path)]:
            wrong[path] = f"says {named or 'nothing'}, stands on {floor_of(path)}"
    assert not wrong


def test_imports_go_down_or_sideways_in_one_folder(package: Dict[str, Module]) -> None:
    wrong = []
    for module, each in _places(package):
        if not each.ours:
            continue
        here, there = floor_of(module.path), floor_of(each.target)
        sideways = here == there and _folder(module.path) == _folder(each.target)
        sideways = sideways or (module.path, each.target) == ("__main__.py", "cli/__init__.py")
        if each.target not in package or not (sideways or (here or 0) > (there if there is not None else 9)):
            wrong.append(f"{module.path}:{each.line} (floor {here}) imports {each.target} (floor {there})")
    assert not wrong, "\n".join(wrong)


def _reachable(start: str, graph: Dict[str, Set[str]]) -> Set[str]:
    seen: Set[str] = set()
    todo = [start]
    while todo:
        for target in graph.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


def _graph(package: Dict[str, Module]) -> Dict[str, Set[str]]:
    return {
        path: {each.target for each in module.imports if each.ours and not each.typing_only}
        for path, module in package.items()
    }


def test_no_cycles_late_imports_included(package: Dict[str, Module]) -> None:
    graph = _graph(package)
    assert sorted(path for path in graph if path in _reachable(path, graph)) == []


def test_client_and_server_do_not_know_each_other(package: Dict[str, Module]) -> None:
    graph = _graph(package)
    assert "server.py" not in _reachable("client.py", graph) | _reachable("connecting.py", graph)
    assert not {"client.py", "connecting.py"} & _reachable("server.py", graph)


def test_late_imports_are_the_named_exceptions(package: Dict[str, Module]) -> None:
    wrong = []
    for module, each in _places(package):
        if not each.late:
            continue
        if each.ours:
            allowed = any(
                _matches(module.path, who) and _matches(each.target, what) for who, what in LATE_OURS.items()
            )
        else:
            allowed = each.target in LATE_STDLIB or each.target.partition(".")[0] in FOREIGN
        if not allowed:
            wrong.append(f"{module.path}:{each.line} imports {each.target} inside a function")
    assert not wrong, "\n".join(wrong)


def test_foreign_packages_are_imported_late_and_in_one_file_each(package: Dict[str, Module]) -> None:
    owners: Dict[str, Set[str]] = {}
    wrong = []
    for module, each in _places(package):
        top = each.target.partition(".")[0]
        if each.ours or each.typing_only or _is_stdlib(top):
            continue
        owners.setdefault(top, set()).add(module.path)
        if top not in FOREIGN or not each.late:
            wrong.append(f"{module.path}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)
    assert not {top: sorted(paths) for top, paths in owners.items() if len(paths) > 1}


def test_nothing_slow_is_imported_at_the_top(package: Dict[str, Module]) -> None:
    wrong = []
    for module, each in _places(package):
        at_the_top = not (each.late or each.ours or each.typing_only)
        if module.path in ("futures.py", "features/log_handler.py"):
            continue  # the late modules: imported when they are first needed
        if at_the_top and floor_of(module.path) != 8 and each.target.partition(".")[0] in NEVER_AT_THE_TOP:
            wrong.append(f"{module.path}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)


def test_forbidden_imports(package: Dict[str, Module]) -> None:
    wrong = []
    for module, each in _places(package):
        for who, what in FORBIDDEN.items():
            name = each.target if each.ours else each.target.partition(".")[0]
            if _matches(module.path, who) and _matches(name, what):
                wrong.append(f"{module.path}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)


def test_no_coroutines(package: Dict[str, Module]) -> None:
    coroutine = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    wrong = [
        f"{path}:{node.lineno}"
        for path, module in package.items()
        for node in ast.walk(module.tree)
        if isinstance(node, coroutine)
    ]
    wrong += [f"{module.path}:{each.line}" for module, each in _places(package) if each.target.startswith("asyncio")]
    assert not wrong


def test_revisions_are_named_in_one_file(package: Dict[str, Module]) -> None:
    wrong = [
        f"{path}:{line}"
        for path, module in package.items()
        if path != "revisions.py"
        for line, text in module.strings()
        if REVISION.search(text)
    ]
    assert not wrong, "ask for a fact of the revision, not for its name: " + ", ".join(wrong)


def test_files_are_short(package: Dict[str, Module]) -> None:
    lengths = {path: len(module.text.splitlines()) for path, module in package.items()}
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def _documented(package: Dict[str, Module]) -> Dict[str, Set[str]]:
    """Class name to the methods with a docstring, inherited ones included as far as the bases are ours."""
    own: Dict[str, Set[str]] = {}
    bases: Dict[str, Set[str]] = {}
    for module in package.values():
        for _, node, inside in module.definitions():
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set())
                words = (ast.dump(base) for base in node.bases)
                bases.setdefault(node.name, set()).update(*(re.findall(r"(?:id|attr)='(\w+)'", each) for each in words))
            elif inside and isinstance(node, FUNCTIONS) and ast.get_docstring(node):
                own.setdefault(inside[-1].name, set()).add(node.name)
    return {name: own[name].union(*(own.get(base, set()) for base in _reachable(name, bases))) for name in own}


def _is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("."))


def _needs_no_docstring(node: ast.AST) -> bool:
    decorators = {ast.dump(each) for each in getattr(node, "decorator_list", ())}
    return any("overload" in each or "attr='setter'" in each for each in decorators)


def test_everything_public_has_a_docstring(package: Dict[str, Module]) -> None:
    documented = _documented(package)
    wrong: List[str] = []
    for path, module in package.items():
        for name, node, inside in module.definitions():
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)) or not _is_public(name) or _needs_no_docstring(node):
                continue
            inherited: FrozenSet[str] = frozenset(documented[inside[-1].name]) if inside else frozenset()
            if not ast.get_docstring(node) and node.name not in inherited:
                wrong.append(f"{path}:{node.lineno} {name}")
    assert not wrong, "\n".join(wrong)


LOOK_AT_IMPORT = """
import json, os, signal, sys, threading, _thread
sys.path.insert(0, {root!r})
def look():
    here = "/proc/self/fd"
    files = len(os.listdir(here)) if os.path.isdir(here) else 0
    return {{"threads": threading.active_count() + _thread._count(), "files": files, "path": list(sys.path),
            "signals": [str(signal.getsignal(n)) for n in (signal.SIGINT, signal.SIGTERM)],
            "streams": [id(sys.stdin), id(sys.stdout), id(sys.stderr)], "hook": str(threading.excepthook)}}
known, before = set(sys.modules), look()
import minimcp
after = look()
new = {{name: str(getattr(sys.modules[name], "__file__", "") or "") for name in set(sys.modules) - known}}
print(json.dumps({{"before": before, "after": after, "new": new}}))
"""


def test_importing_does_nothing() -> None:
    done = run_python(["-I", "-X", "utf8", "-c", LOOK_AT_IMPORT.format(root=str(ROOT))])
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"\n") == 1, "printed at import"
    seen = json.loads(done.stdout)
    assert seen["after"] == seen["before"]
    new: Dict[str, str] = seen["new"]
    assert not NEVER_AT_THE_TOP & {name.partition(".")[0] for name in new}
    ours = {name for name, file in new.items() if Path(file).is_relative_to(PACKAGE)} if new else set()
    assert "minimcp" in ours
    assert [name for name in sorted(set(new) - ours) if not _is_stdlib(name)] == []
