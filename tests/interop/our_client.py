"""The shared checks by a minimcp client, against a foreign server.

Usage: our_client.py KIND REVISION COMMAND... (or URL) where KIND is a key of CHECKS and REVISION a revision, "auto" or
"handshake". Prints one JSON object: the revision in use and, for each check, true or what went wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import minimcp  # noqa: E402
from tests.interop.checking import ROOTS, SECONDS, Check, Host, Peer  # noqa: E402
from tests.interop.everything_checks import EVERYTHING  # noqa: E402
from tests.interop.feature_checks import FEATURES  # noqa: E402
from tests.interop.plain_checks import FASTMCP, PLAIN  # noqa: E402
from tests.interop.reference_checks import FETCH, FILESYSTEM, GIT, MEMORY, SQLITE, TIME  # noqa: E402
from tests.interop.tool_checks import SHARED  # noqa: E402

CHECKS = {
    "shared": {**SHARED, **FEATURES}, "plain": PLAIN, "fastmcp": FASTMCP, "everything": EVERYTHING,
    "filesystem": FILESYSTEM, "memory": MEMORY,
    "time": TIME, "git": GIT, "fetch": FETCH, "sqlite": SQLITE,
}
SERVER_NAMES = {
    "shared": "interop", "plain": "interop", "fastmcp": "interop", "everything": "mcp-servers/everything",
    "filesystem": "secure-filesystem-server",
    "memory": "memory-server", "time": "mcp-time", "git": "mcp-git", "fetch": "mcp-fetch", "sqlite": "sqlite",
}
ENVIRONMENT = {"MINIMCP_INTEROP": "ja, å", "MEMORY_FILE_PATH": os.path.abspath("memory.jsonl")}


def run(check: Check, peer: Peer) -> Any:
    peer.host.forget()
    try:
        check.run(peer)
    except Exception as error:
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"[:600]
    return True


def children() -> list[str]:
    """Return the process ids of this process's children, where that can be told."""
    tasks = f"/proc/{os.getpid()}/task"
    if not os.path.isdir(tasks):
        return []
    found: list[str] = []
    for task in os.listdir(tasks):
        # A thread of ours may end while we look.
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/children") as file:
            found += file.read().split()
    return found


def session(kind: str, revision: str, command: list[str]) -> dict[str, Any]:
    """Connect, run the checks, close, and look whether the server's process has gone."""
    results: dict[str, Any] = {}
    report: dict[str, Any] = {"revision": None, "checks": results}
    host = Host()
    roots = [os.getcwd()] if kind == "filesystem" else ROOTS
    options: dict[str, Any] = {"handlers": host, "roots": roots, "sampling": ("tools",)}
    target: Any = command
    if command[0].startswith("http"):
        (target,) = command
    else:
        # "fetch" would install packages of Node and run them, where there is some node: it can do without
        options["env"] = {**ENVIRONMENT, "PATH": os.path.dirname(command[0])} if kind == "fetch" else ENVIRONMENT
    try:
        with minimcp.connect(target, revision=revision, timeout=SECONDS, **options) as client:
            report["revision"] = client.revision
            name = client.server_info.name if client.server_info else None
            results["connect"] = name == SERVER_NAMES[kind] or f"name {name!r}"
            peer = Peer(client, host)
            for title, check in CHECKS[kind].items():
                if check.since <= peer.revision <= check.until:
                    results[title] = run(check, peer)
        left = children()
        results["close"] = not left or f"left running: {left}"
    except Exception as error:
        traceback.print_exc()
        results["close" if "connect" in results else "connect"] = f"{type(error).__name__}: {error}"[:600]
    return report


if __name__ == "__main__":
    print(json.dumps(session(sys.argv[1], sys.argv[2], sys.argv[3:])), flush=True)
