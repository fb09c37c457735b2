"""The version is a literal that a build tool can read without running anything."""

from __future__ import annotations

import ast
import re

import minimcp
from minimcp.version import VERSION

from .floors import PACKAGE


def test_it_is_a_literal_that_setup_and_the_package_share() -> None:
    tree = ast.parse((PACKAGE / "version.py").read_text(encoding="utf-8"))
    literals = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert [ast.literal_eval(value) for value in literals] == [VERSION]
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)
    assert minimcp.__version__ == VERSION
