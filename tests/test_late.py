"""Packages whose names are imported when somebody asks for them."""

from __future__ import annotations

import ast
import importlib
from typing import Any, Dict

import pytest

import minimcp
import minimcp.schema
import minimcp.types
from minimcp.protocol.late import late_names

from .floors import PACKAGE

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
