"""The layout, read from the source: folders, the direction of imports, and imports inside
functions."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import sys
import sysconfig
from pathlib import Path
from typing import Dict, FrozenSet, Iterable, Iterator, List, Mapping, Set

import pytest

from minimcp.client import connect
from minimcp.server import feature
from minimcp.server.feature import EXTENSIONS, FEATURES

from .modules import FUNCTIONS, PACKAGE, Import, Module, read_package
from .support import ROOT, run_python

BASE = "errors text log record"

BELOW = {
    "errors": BASE,
    "text": "",
    "log": "text",
    "record": "",
    "protocol": BASE,
    "types": f"{BASE} protocol",
    "schema": f"{BASE} protocol types",
    "engine": f"{BASE} protocol types schema",
    "stdio": f"{BASE} protocol types schema engine",
    "server": f"{BASE} protocol types schema engine stores",
    "features": f"{BASE} protocol types schema engine server stores",
    "client": f"{BASE} protocol types schema engine stdio",
    "http": f"{BASE} protocol types schema engine server client features stores",
    "auth": f"{BASE} protocol types schema engine server client http",
    "stores": f"{BASE} protocol types schema engine http",
    "extensions": f"{BASE} protocol types schema engine server client http auth features stores",
    "terminal": "text types schema",
    "testing": f"{BASE} protocol types schema engine stdio server client http auth features __init__",
    "cli": f"{BASE} protocol types schema engine stdio server client http auth stores extensions testing terminal features __init__",
    "__main__": "cli",
    "__init__": BASE,
}
"""The folders that each folder may import."""

TABLES: Mapping[str, Iterable[str]] = {"client": connect.LATE, "server": feature.LATE}
"""By folder, the modules of other folders that it may import inside a function."""

UPWARD = {
    "errors.py": "types",
    "server/server.py": "stdio",
    "server/run.py": "stdio",
    "http/fetch.py": "auth",
}
"""Imports inside a function that are allowed in addition to the tables: the transports that a
server is asked for by name, tokens, and what notebooks show."""

MAX_FILES, MAX_ENTRIES = 190, 22

FOREIGN = frozenset(
    {
        "annotated_types",
        "attr",
        "cryptography",
        "jsonschema",
        "jsonschema_specifications",
        "jwt",
        "keyring",
        "pydantic",
        "redis",
        "referencing",
        "requests",
        "truststore",
        "urllib3",
    }
)
"""Packages that are imported on first use, inside a function, each by one file."""

PLUGIN = ("testing/plugin.py", "pytest")
"""Modules that only pytest imports, with the package that they need."""

REVISION = re.compile(r"\b20\d\d-\d\d-\d\d\b")


@pytest.fixture(scope="module")
def package() -> Dict[str, Module]:
    return read_package()


def _part(path: str) -> str:
    """The folder of a module, or its own name at the top."""
    return path.partition("/")[0].replace(".py", "")


def _is_stdlib(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.builtin_module_names or top in {
        "_winapi",
        "annotationlib",
        "msvcrt",
        "tomllib",
        "winreg",
    }:
        return True
    found = importlib.util.find_spec(top)
    origin = "" if found is None else found.origin or ""
    if origin in {"frozen", "built-in"}:
        return True
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return "site-packages" not in origin and origin.startswith(
        tuple(folder for folder in folders if folder)
    )


def _imports(package: Dict[str, Module]) -> Iterator["tuple[Module, Import]"]:
    for module in package.values():
        for each in module.imports:
            yield module, each


def test_the_layout_is_small(package: Dict[str, Module]) -> None:
    assert len(package) <= MAX_FILES
    assert len({path.partition("/")[0] for path in package} | {"py.typed"}) <= MAX_ENTRIES


def late_modules(folder: str) -> Set[str]:
    """The paths of the modules in the table LATE of a folder."""
    return _named(TABLES.get(folder, ()))


def _loads(module: Module) -> Iterator["tuple[int, str]"]:
    """The calls of `minimcp.server.feature.load` with a name, each with its line."""
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "load"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def _named(modules: Iterable[str]) -> Set[str]:
    return {f"{name.replace('.', '/')}.py" for name in modules}


def test_the_tables_of_late_imports_match_the_imports(package: Dict[str, Module]) -> None:
    for folder in TABLES:
        used: Set[str] = set()
        if folder == "server":
            used |= _named(each.module for each in FEATURES.values()) | _named(EXTENSIONS)
        for module in package.values():
            if _part(module.path) != folder:
                continue
            used |= _named(name for _, name in _loads(module))
            allowed = {folder, *BELOW[folder].split(), *UPWARD.get(module.path, "").split()}
            used |= {
                each.target
                for each in module.imports
                if each.ours and each.late and _part(each.target) not in allowed
            }
        assert used == late_modules(folder), folder
        assert used <= set(package), folder


def test_imports_point_downwards(package: Dict[str, Module]) -> None:
    wrong = []
    for module, each in _imports(package):
        here, there = _part(module.path), _part(each.target)
        if (
            not each.ours
            or here == there
            or each.typing_only
            or (there == "__init__" and here != "errors")
        ):
            continue
        if each.late and (here == "__init__" or there in UPWARD.get(module.path, "").split()):
            continue
        if each.late and each.target in late_modules(here):
            continue
        if there not in BELOW[here].split():
            wrong.append(f"{module.path}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)


def _reachable(start: str, graph: Dict[str, Set[str]]) -> Set[str]:
    seen: Set[str] = set()
    todo = [start]
    while todo:
        for target in graph.get(todo.pop(), set()) - seen:
            seen.add(target)
            todo.append(target)
    return seen


def _cycles(graph: Dict[str, Set[str]]) -> Set[FrozenSet[str]]:
    """The sets of modules that lead to each other."""
    reached = {path: _reachable(path, graph) for path in graph}
    return {
        frozenset(other for other in reached[path] if path in reached[other])
        for path in graph
        if path in reached[path]
    }


EXTENSION_WORDS = {"task", "tasks", "app", "apps"}

PUBLIC_OF_EXTENSIONS = {
    "server/context.py": {"become_task"},
    "server/options.py": {"app", "AppOptions"},
    "server/server.py": {"app", "add_app", "WsgiApp"},
}
"""Names that an author writes, known to type checkers and `help`. They do nothing by themselves. A
`WsgiApp` is an application of PEP 3333."""


def _names_extension(name: str) -> bool:
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return not EXTENSION_WORDS.isdisjoint(word.lower() for word in words)


def test_the_core_of_a_server_names_no_extension(package: Dict[str, Module]) -> None:
    wrong = []
    for path, module in package.items():
        if not path.startswith("server/"):
            continue
        for line, name in module.identifiers():
            allowed = name in PUBLIC_OF_EXTENSIONS.get(path, set())
            if _names_extension(name) and not allowed:
                wrong.append(f"{path}:{line} {name}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "name", ["task", "Tasks", "tasks_of", "become_task", "App", "apps", "AppOptions", "may_app"]
)
def test_names_of_extensions_are_found(name: str) -> None:
    assert _names_extension(name)
    assert not any(map(_names_extension, ("append", "Mapping", "apply", "wrapped", "happens")))


def test_no_cycles(package: Dict[str, Module]) -> None:
    graph = {
        path: {
            each.target
            for each in module.imports
            if each.ours and not each.typing_only and not each.late and each.target != "__init__.py"
        }
        for path, module in package.items()
    }
    assert _cycles(graph) == set()


def test_no_cycles_inside_a_folder_even_for_type_checkers_and_late_imports(
    package: Dict[str, Module],
) -> None:
    graph = {
        path: {
            each.target
            for each in module.imports
            if each.ours and _part(each.target) == _part(path) and each.target in package
        }
        for path, module in package.items()
        if "/" in path
    }
    assert _cycles(graph) == set()


HELLO_SERVER = """
import sys
from minimcp import Server

server = Server("hello")

@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool
def modules() -> str:
    "List the modules that are loaded."
    return " ".join(sorted(sys.modules))

server.run()
"""

HELLO_CLIENT = """
import json, sys
sys.path.insert(0, {root!r})
import minimcp
start = "import sys; sys.path.insert(0, {root!r})\\n"
command = [sys.executable, "-I", "-S", "-c", start + {server!r}]
with minimcp.connect(command, revision={revision!r}) as client:
    assert client.list_tools()[0].name == "add"
    assert client.call_tool("add", {{"a": 1, "b": 2}}).text == "3"
    there = client.call_tool("modules").text.split()
here = sorted(name for name in sys.modules if name.split(".")[0] == "minimcp")
ours = [name for name in there if name.split(".")[0] == "minimcp"]
print(json.dumps({{"server": ours, "client": here, "standard": sorted({{*there}} - {{*ours}})}}))
"""

STANDARD = frozenset(
    [
        "atexit",
        "collections",
        "contextlib",
        "contextvars",
        "copy",
        "copyreg",
        "enum",
        "fcntl",
        "functools",
        "heapq",
        "importlib",
        "genericpath",
        "itertools",
        "json",
        "keyword",
        "math",
        "operator",
        "os",
        "posixpath",
        "queue",
        "re",
        "reprlib",
        "select",
        "signal",
        "sre_compile",
        "sre_constants",
        "sre_parse",
        "stat",
        "struct",
        "sys",
        "threading",
        "time",
        "types",
        "typing",
        "warnings",
        "weakref",
    ]
)
"""The modules of the standard library that a hello server may load. `dataclasses`, `inspect`,
`logging` and four others took 30 of 110 ms of CPU at its start."""

CORE = Path(__file__).with_name("core_modules.txt")


def core_modules() -> Dict[str, List[str]]:
    """The modules of the core, as they are listed, by role."""
    found: Dict[str, List[str]] = {}
    for line in CORE.read_text("utf-8").splitlines():
        if line.startswith("["):
            names = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            names.append(line)
    return found


@pytest.mark.parametrize("revision", ["auto", "handshake"])
def test_a_hello_server_and_a_hello_client_load_the_core_and_nothing_else(revision: str) -> None:
    """Add a module to the list only if a server with one tool, or its client, cannot do without."""
    code = HELLO_CLIENT.format(root=str(ROOT), server=HELLO_SERVER, revision=revision)
    done = run_python(["-I", "-S", "-c", code], seconds=30)
    assert (done.returncode, done.stderr) == (0, b"")
    listed = core_modules()
    found = json.loads(done.stdout)
    standard = {name.partition(".")[0] for name in found.pop("standard")}
    bare = run_python(["-I", "-S", "-c", "import sys; print(*sys.modules)"]).stdout.decode().split()
    extra = {name for name in standard - set(bare) if not name.startswith("_")}
    assert extra <= STANDARD, "standard modules that a hello server did not load before"
    for role, loaded in found.items():
        names = [name.partition(".")[2] for name in loaded if name != "minimcp"]
        assert set(names) <= set(listed[role]), f"loaded beside the core of a {role}"
        if revision == "auto":
            assert set(names) == set(listed[role]), f"no longer loaded by a {role}"


def test_third_party_packages_are_imported_late_and_in_one_file_each(
    package: Dict[str, Module],
) -> None:
    owners: Dict[str, Set[str]] = {}
    wrong = []
    for module, each in _imports(package):
        top = each.target.partition(".")[0]
        if each.ours or each.typing_only or _is_stdlib(top) or (module.path, top) == PLUGIN:
            continue
        owners.setdefault(top, set()).add(module.path)
        if top not in FOREIGN or not each.late:
            wrong.append(f"{module.path}:{each.line} imports {each.target}")
    assert not wrong, "\n".join(wrong)
    assert not {top: sorted(paths) for top, paths in owners.items() if len(paths) > 1}


def test_no_coroutines(package: Dict[str, Module]) -> None:
    coroutine = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    wrong = [
        f"{path}:{node.lineno}"
        for path, module in package.items()
        for node in ast.walk(module.tree)
        if isinstance(node, coroutine)
    ]
    wrong += [
        f"{module.path}:{each.line}"
        for module, each in _imports(package)
        if each.target.startswith("asyncio")
    ]
    assert not wrong


def test_revisions_are_named_in_one_file(package: Dict[str, Module]) -> None:
    wrong = [
        f"{path}:{line}"
        for path, module in package.items()
        if path != "protocol/versions.py"
        for line, text in module.strings()
        if REVISION.search(text)
    ]
    assert not wrong, "ask for a fact of the revision, not for its name: " + ", ".join(wrong)


def _documented(package: Dict[str, Module]) -> Dict[str, Set[str]]:
    """Class name to the methods with a docstring, inherited ones included as far as the bases are
    ours."""
    own: Dict[str, Set[str]] = {}
    bases: Dict[str, Set[str]] = {}
    for module in package.values():
        for _, node, inside in module.definitions():
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set())
                words = (ast.dump(base) for base in node.bases)
                bases.setdefault(node.name, set()).update(
                    *(re.findall(r"(?:id|attr)='(\w+)'", each) for each in words)
                )
            elif inside and isinstance(node, FUNCTIONS) and ast.get_docstring(node):
                own.setdefault(inside[-1].name, set()).add(node.name)
    return {
        name: own[name].union(*(own.get(base, set()) for base in _reachable(name, bases)))
        for name in own
    }


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
            if (
                not isinstance(node, (*FUNCTIONS, ast.ClassDef))
                or not _is_public(name)
                or _needs_no_docstring(node)
            ):
                continue
            inherited: FrozenSet[str] = (
                frozenset(documented[inside[-1].name]) if inside else frozenset()
            )
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
    assert not {"asyncio", "ssl", "http", "subprocess", *FOREIGN} & {
        name.partition(".")[0] for name in new
    }
    ours = (
        {name for name, file in new.items() if Path(file).is_relative_to(PACKAGE)} if new else set()
    )
    # Other modules are imported when a program first uses one of their names.
    assert ours == {"minimcp", "minimcp.errors", "minimcp.log", "minimcp.text"}
    assert [name for name in sorted(set(new) - ours) if not _is_stdlib(name)] == []


if __name__ == "__main__":  # print the list that this tree needs, for core_modules.txt
    code = HELLO_CLIENT.format(root=str(ROOT), server=HELLO_SERVER, revision="auto")
    found = json.loads(run_python(["-I", "-S", "-c", code], seconds=30).stdout)
    del found["standard"]
    for role, loaded in found.items():
        print(f"[{role}]")
        print("\n".join(name.partition(".")[2] for name in loaded if name != "minimcp"))
