"""The shared checks by a minimcp client, against a foreign server.

Usage: our_client.py KIND REVISION COMMAND... (or URL) where KIND is a key of CHECKS and REVISION a
revision, "auto" or
"handshake". Prints one JSON object: the revision in use and, for each check, true or what went
wrong.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import minimcp  # noqa: E402
from tests.interop.checking import ROOTS, SECONDS, Checks, Host  # noqa: E402
from tests.interop.everything_checks import Everything  # noqa: E402
from tests.interop.reference_checks import Fetch, Filesystem, Git, Memory, Sqlite, Time  # noqa: E402
from tests.interop.shared_checks import FastMcp, Plain, Shared  # noqa: E402
from tests.support import child_processes  # noqa: E402

CHECKS: dict[
    str, tuple[str, type[Checks]]
] = {  # the server's name in initialize, and its set of checks
    "shared": ("interop", Shared),
    "plain": ("interop", Plain),
    "fastmcp": ("interop", FastMcp),
    "everything": ("mcp-servers/everything", Everything),
    "filesystem": ("secure-filesystem-server", Filesystem),
    "memory": ("memory-server", Memory),
    "time": ("mcp-time", Time),
    "git": ("mcp-git", Git),
    "fetch": ("mcp-fetch", Fetch),
    "sqlite": ("sqlite", Sqlite),
}
ENVIRONMENT = {"MINIMCP_INTEROP": "ja, å", "MEMORY_FILE_PATH": os.path.abspath("memory.jsonl")}


def run(check: Callable[[], None], host: Host) -> Any:
    host.forget()
    try:
        check()
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:600]
    return True


def session(kind: str, revision: str, command: list[str]) -> dict[str, Any]:
    """Connect, run the checks, close, and check that the server's process has ended."""
    results: dict[str, Any] = {}
    report: dict[str, Any] = {"revision": None, "checks": results}
    host = Host()
    roots = [os.getcwd()] if kind == "filesystem" else ROOTS
    options: dict[str, Any] = {"handlers": host, "roots": roots, "sampling": ("tools",)}
    target: Any = command
    if command[0].startswith("http"):
        (target,) = command
    else:
        # "fetch" would install packages of Node and run them, where there is some node: it can do
        # without
        options["env"] = (
            {**ENVIRONMENT, "PATH": os.path.dirname(command[0])} if kind == "fetch" else ENVIRONMENT
        )
    try:
        with minimcp.connect(target, revision=revision, timeout=SECONDS, **options) as client:
            report["revision"] = client.revision
            name = client.server_info.name if client.server_info else None
            known, checks = CHECKS[kind]
            results["connect"] = name == known or f"name {name!r}"
            for title, check in checks(client, host).all().items():
                results[title] = run(check, host)
        left = child_processes()
        results["close"] = not left or f"left running: {left}"
    except Exception as error:
        traceback.print_exc()
        results["close" if "connect" in results else "connect"] = (
            f"{type(error).__name__}: {error}"[:600]
        )
    return report


if __name__ == "__main__":
    print(json.dumps(session(sys.argv[1], sys.argv[2], sys.argv[3:])), flush=True)
