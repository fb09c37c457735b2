"""Packages whose names are imported when somebody asks for them."""

from __future__ import annotations

import ast
import importlib
import json
from typing import Any, Dict

import pytest

import minimcp
import minimcp.schema
import minimcp.types
from minimcp.protocol.late import late_names

from .modules import PACKAGE
from .support import ROOT, run_python

PACKAGES: Dict[str, Any] = {"": minimcp, "schema/": minimcp.schema, "types/": minimcp.types}


@pytest.mark.parametrize("path", PACKAGES)
def test_the_table_is_what_type_checkers_read(path: str) -> None:
    source = (PACKAGE / path / "__init__.py").read_text(encoding="utf-8")
    guarded = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    told = {
        alias.asname or alias.name: node.module or alias.name
        for node in guarded.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    table = {name: module for module, names in PACKAGES[path]._LATE.items() for name in names.split()}
    assert table == told


@pytest.mark.parametrize("package", PACKAGES.values())
def test_late_names(package: Any) -> None:
    for module, names in package._LATE.items():
        home = importlib.import_module(f"{package.__name__}.{module}")
        for name in names.split():
            assert getattr(package, name) is (home if name == module else getattr(home, name)) is vars(package)[name]
            assert name in dir(package) and (name == module or name in package.__all__)
    misspelt = "Misspelt"
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Misspelt'"):
        getattr(package, misspelt)


def test_what_a_copy_of_the_core_does_without_is_no_attribute() -> None:
    get, known = late_names("minimcp", {"left_out": "Left", "cli.nothing.at_all": "Missing"})
    with pytest.raises(AttributeError, match="Left is not in this copy of minimcp, which holds the core alone"):
        get("Left")
    with pytest.raises(ModuleNotFoundError, match="minimcp.cli.nothing"):
        get("Missing")
    assert "Left" in known()


SERVER = """
from minimcp import Context, Server

server = Server("quick")

@server.tool
def echo(text: str, ctx: Context) -> str:
    "Echo."
    return text
"""

NOT_FOR_TOOLS = """
    base64 dataclasses hmac inspect logging subprocess
    minimcp.client minimcp.connecting minimcp.marks minimcp.uri_template minimcp.uri_expansion
    minimcp.features.asking minimcp.features.completers minimcp.features.completion minimcp.features.contents
    minimcp.features.methods minimcp.features.prompts minimcp.features.questions minimcp.features.resources
    minimcp.features.rounds minimcp.features.state minimcp.features.log_handler
    minimcp.schema.check minimcp.schema.words minimcp.schema.peers minimcp.schema.forms
    minimcp.types.sampling minimcp.types.questions minimcp.types.prompt minimcp.types.elicitation
"""

CLIENT = """
from minimcp import connect
"""

NOT_FOR_A_CLIENT = """
    dataclasses inspect ipaddress logging pathlib random shlex subprocess urllib.parse
    minimcp.config minimcp.features minimcp.group minimcp.server
    minimcp.schema.check minimcp.schema.kinds minimcp.schema.peers
    minimcp.types.sampling minimcp.types.questions minimcp.types.prompt minimcp.types.elicitation
"""


@pytest.mark.parametrize(("start", "not_needed"), [(SERVER, NOT_FOR_TOOLS), (CLIENT, NOT_FOR_A_CLIENT)])
def test_who_starts_imports_what_it_needs(start: str, not_needed: str) -> None:
    told = f"import json, sys\nsys.path.insert(0, {str(ROOT)!r})\n{start}\nprint(json.dumps(list(sys.modules)))"
    done = run_python(["-I", "-S", "-c", told])
    assert (done.returncode, done.stderr) == (0, b"")
    assert not set(not_needed.split()) & set(json.loads(done.stdout))
