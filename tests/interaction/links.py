"""Ways to the servers of this folder: in all revisions in memory, and in one of each era as a process."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from minimcp import StdioServer

from ..answering import R4, R5, REVISIONS
from ..support import ROOT

LINKS = [*(("memory", revision) for revision in REVISIONS), ("stdio", R4), ("stdio", R5)]


def served(way: str, module: str, **options: Any) -> Any:
    """The server that a module of this folder builds: the object, or how to start it as a process."""
    if way == "stdio":
        command = [sys.executable, "-m", f"tests.interaction.{module}", json.dumps(options)]
        return StdioServer(command, cwd=str(ROOT))
    return import_module(f"tests.interaction.{module}").build(**options)
