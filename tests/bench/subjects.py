"""The programs that the benchmark compares, and how each one is started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent
DROPPED = ("PYTHONDONTWRITEBYTECODE", "PYTHONDEVMODE", "PYTHONMALLOC", "COVERAGE_PROCESS_START")
PYTHON_SDK = "mcp==2.3.0"
TYPESCRIPT_SDK = ("@modelcontextprotocol/server@2.4.0", "zod@4.6.7")


class Subject(NamedTuple):
    """One program in the roles of server and client."""

    name: str
    server: tuple[str, ...]
    """The command of the server. The mode is added to it."""
    client: Optional[tuple[str, ...]]
    """The command of the client, to which the target is added; None if it is not measured."""
    imported: Optional[str]
    """The statement whose import time is measured; None if it is not measured."""
    path: Path = CHECKOUT
    """The folder on PYTHONPATH."""
    is_foreign: bool = False
    """Whether a row that it does not support is left empty instead of being a fault."""

    def environment(self) -> dict[str, str]:
        """Return the environment of its processes: bytecode is kept, and nothing is traced."""
        kept = {name: value for name, value in os.environ.items() if name not in DROPPED}
        return {**kept, "PYTHONPATH": str(self.path)}


def _of_tree(name: str, path: Path) -> Subject:
    return Subject(
        name,
        (sys.executable, str(HERE / "minimcp_server.py")),
        (sys.executable, str(HERE / "minimcp_client.py")),
        "from minimcp import Context, Server, ToolError",
        path,
    )


LIMIT = Subject(
    "limit",
    (sys.executable, str(HERE / "limit_server.py")),
    (sys.executable, str(HERE / "limit_client.py")),
    f"import sys; sys.path.insert(0, {str(HERE)!r}); import limit_server",
)
MINIMCP = _of_tree("minimcp", CHECKOUT)


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Subject]:
    """Yield the library of another commit, which is checked out into a temporary folder."""
    git = ["git", "-C", str(CHECKOUT)]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run([*git, "worktree", "add", "--detach", "-q", str(tree), commit], check=True)
        try:
            yield _of_tree(commit, tree)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def python_sdk() -> Subject:
    """Install the official Python SDK from the index, unless it is there, and return it."""
    from tests.interop.environments import PythonEnvironment

    environment = PythonEnvironment("python-sdk-2", [PYTHON_SDK])
    environment.ready()
    return Subject(
        "Python SDK",
        tuple(environment.command(str(HERE / "sdk_server.py"))),
        tuple(environment.command(str(HERE / "sdk_client.py"))),
        None,
        is_foreign=True,
    )


def typescript_sdk() -> Subject:
    """Install the official TypeScript SDK from the registry, unless it is there, and return it."""
    from tests.interop.environments import NodeEnvironment

    environment = NodeEnvironment("typescript-sdk-bench", TYPESCRIPT_SDK)
    environment.ready()
    command = tuple(environment.command(str(HERE / "sdk_server.mjs")))
    return Subject("TypeScript SDK", command, None, None, is_foreign=True)
