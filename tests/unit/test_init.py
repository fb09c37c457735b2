"""The public names: their list, their types for type checkers, and the imports that each one
causes."""

from __future__ import annotations

import ast
import json

import pytest

import minimcp

from ..inside import modules_of
from ..support import ROOT, run_python


def test_public_names() -> None:
    assert sorted(minimcp.__all__) == minimcp.__all__ == sorted(set(minimcp.__all__))
    for name in minimcp.__all__:
        assert getattr(minimcp, name) is vars(minimcp)[name] and name in dir(minimcp)
    assert {name for names in modules_of(minimcp).values() for name in names.split()} <= set(
        minimcp.__all__
    )
    misspelt = "Sever"
    with pytest.raises(AttributeError, match="module 'minimcp' has no attribute 'Sever'"):
        getattr(minimcp, misspelt)


def test_type_checkers_read_the_modules_that_names_are_imported_from() -> None:
    tree = ast.parse((ROOT / "minimcp" / "__init__.py").read_text(encoding="utf-8"))
    guarded = next(
        node
        for node in tree.body
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )
    read = {
        name.name: node.module
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    for module in ("terminal", "testing"):
        assert read.pop(module) is None
    imported = {
        name: module for module, names in modules_of(minimcp).items() for name in names.split()
    }
    assert read == {**dict.fromkeys(read, "types"), **imported}
    assert set(read) == set(minimcp.__all__) - set(vars(minimcp.errors)) - {"__version__"}


@pytest.mark.parametrize(
    ("start", "other"),
    [
        ("from minimcp import Context, Server, tool", "client"),
        ("from minimcp import connect, Client", "server"),
    ],
)
def test_a_server_does_not_import_the_client_nor_a_client_the_server(
    start: str, other: str
) -> None:
    told = f"import json, sys\nsys.path.insert(0, {str(ROOT)!r})\n{start}\nprint(json.dumps(list(sys.modules)))"
    done = run_python(["-I", "-S", "-c", told])
    assert (done.returncode, done.stderr) == (0, b"")
    loaded = set(json.loads(done.stdout))
    assert (
        not {
            f"minimcp.{other}",
            "minimcp.testing",
            "minimcp.cli",
            "asyncio",
            "requests",
            "jsonschema",
        }
        & loaded
    )


def test_one_import_provides_the_forms_of_a_terminal() -> None:
    code = "import minimcp; print(minimcp.terminal.ask.__name__, 'terminal' in dir(minimcp))"
    done = run_python(["-c", code])
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"ask True", b"")


def test_one_import_provides_everything_for_tests_of_a_server() -> None:
    done = run_python(
        [
            "-c",
            "import minimcp; minimcp.testing.context().progress(1); minimcp.testing.Transcript()",
        ]
    )
    assert (done.returncode, done.stderr) == (0, b"")
