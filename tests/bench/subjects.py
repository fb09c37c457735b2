"""Who is measured: the hand-written limit, minimcp of this checkout, and the newest official Python SDK.

The SDK lives in an environment of its own under the user's cache folder, made with pip on first use and looked
over once a day. Neither the checkout nor the environment of this run ever sees it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Optional

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
DAY = 86400
VERSION_OF_SDK = "import importlib.metadata as m; print(m.version('mcp'))"


class Subject(NamedTuple):
    """One column of the table.

    Args:
        name: The column.
        python: The interpreter that runs its scripts.
        version: Shown above the table.
        imports: The statement whose import time is measured.
        pace: The share of the calls that it gets, so that a slow one does not take all the time.
    """

    name: str
    python: str
    version: str
    imports: str
    pace: float = 1.0

    def server(self, mode: str) -> list[str]:
        """The command of its server in one of the modes of `limit_server`."""
        return [self.python, str(HERE / f"{self.name}_server.py"), mode]

    def client(self) -> list[str]:
        """The command of its client, which starts the limit's server."""
        return [self.python, str(HERE / f"{self.name}_client.py"), sys.executable, str(HERE / "limit_server.py")]

    def http_client(self) -> list[str]:
        """The command of its client over HTTP, but for the URL; the SDK has one client for both."""
        return [self.python, str(HERE / f"{self.name}_{'client' if self.name == 'sdk' else 'http_client'}.py")]


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


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "minimcp-bench" / "sdk-{}.{}".format(*sys.version_info)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise LookupError(f"{' '.join(command[1:4])} ... failed: {last}")
    return done.stdout.strip()


def _version(python: Path) -> Optional[str]:
    try:
        return _run(str(python), "-c", VERSION_OF_SDK) if python.exists() else None
    except LookupError:
        return None


def sdk() -> Subject:
    """The official SDK, version 2 or later, installed or brought up to date when that is a day ago.

    Raises:
        LookupError: There is none and none could be installed; the message says why.
    """
    folder = cache()
    python, stamp = folder / "bin" / "python", folder / "looked-over"
    if not stamp.exists() or time.time() - stamp.stat().st_mtime > DAY:
        try:
            if not python.exists():
                print(f"making an environment for the SDK in {folder}", file=sys.stderr)
                _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", "--upgrade", "mcp>=2")
            stamp.touch()
        except LookupError as error:
            if _version(python) is None:
                raise
            print(f"the SDK is used as it is: {error}", file=sys.stderr)
    version = _version(python)
    if version is None:
        raise LookupError(f"no package mcp in {folder}; delete the folder to make it anew")
    return Subject("sdk", str(python), version, "from mcp.server import MCPServer", pace=0.05)
