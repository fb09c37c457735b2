"""Who is measured: the hand-written limit, minimcp of this checkout, and the client of the newest official SDK.

The SDK lives in an environment of its own under the user's cache folder, made with pip on first use. Neither the
checkout nor the environment of this run ever sees it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


class Subject(NamedTuple):
    """One column of the table."""

    name: str  # the column
    python: str  # the interpreter that runs its scripts
    version: str  # shown above the table
    imports: str = ""

    def server(self, mode: str) -> list[str]:
        """The command of its server in one of the modes of `limit_server`."""
        return [self.python, str(HERE / f"{self.name}_server.py"), mode]

    def client(self, *target: str) -> list[str]:
        """The command of its client of a server, which is the limit's own when none is named."""
        return [self.python, str(HERE / f"{self.name}_client.py"), *(target or limit().server("plain"))]


def environment() -> dict[str, str]:
    """What every subject runs in: the checkout importable, bytecode kept, nothing buffered or traced for tests."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONMALLOC", "COVERAGE_PROCESS_START")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PYTHONPATH": str(CHECKOUT)}


def limit() -> Subject:
    imports = f"import sys; sys.path.insert(0, {str(HERE)!r}); import limit_server"
    return Subject("limit", sys.executable, "hand-written", imports)


def minimcp() -> Subject:
    text = (CHECKOUT / "minimcp" / "__init__.py").read_text(encoding="utf-8")
    version = text.split('__version__ = "')[1].split('"')[0]
    return Subject("minimcp", sys.executable, version, "from minimcp import Context, Server, ToolError")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise LookupError(f"{' '.join(command[1:4])} ... failed: {last}")
    return done.stdout.strip()


def sdk() -> Subject:
    """The official SDK, version 2 or later, installed on first use."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "minimcp-bench" / "sdk-{}.{}".format(*sys.version_info)
    python = str(folder / "bin" / "python")
    version = (python, "-c", "import importlib.metadata as m; print(m.version('mcp'))")
    try:
        return Subject("sdk", python, _run(*version))
    except (LookupError, OSError):
        print(f"making an environment for the SDK in {folder}", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
        _run(python, "-m", "pip", "install", "--quiet", "mcp>=2")
    return Subject("sdk", python, _run(*version))
