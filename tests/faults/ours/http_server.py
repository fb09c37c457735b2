"""The HTTP server of minimcp for the fault runner: the tools of tests/wire, and a few that need a
stream.

It chooses a port and logs its URL. ``FAULTS_TERMS`` in the environment is a JSON object of
`tests.faults.http_raw.Terms` that replace the usual ones, ``FAULTS_PORT`` a port to use.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
TERMS = json.loads(os.environ.get("FAULTS_TERMS", "{}"))
HTTP = {
    "body_bytes": "body_bytes", "connections": "max_connections", "sessions": "max_sessions",
    "session_ttl": "session_ttl", "keepalive": "keepalive",
}  # fmt: skip
LIMITS = {
    "streams": "streams",
    "write": "write_timeout",
    "grace": "drain_grace",
    "requests": "requests",
}
TIMES = ("head", "body", "idle", "write")
GIVEN = {
    group: {option: TERMS[term] for term, option in options.items() if term in TERMS}
    for group, options in (("http", HTTP), ("limits", LIMITS))
}
sys.argv[1:] = [json.dumps(GIVEN)]


from minimcp import Context  # noqa: E402
from minimcp.http.server import RunningHttp, Timeouts  # noqa: E402
from tests.wire.servers.plain import server  # noqa: E402


@server.tool
def pour(events: int, size: int, ctx: Context) -> str:
    """Send this many log messages of this many characters."""
    for _ in range(events):
        ctx.error("x" * min(size, 10**8))
    return "poured"


@server.tool
def spoil(ctx: Context) -> str:
    """Start a stream, and raise."""
    ctx.error("soon")
    raise ValueError("secret words of a traceback")


@server.resource("faults://{name}")
def thing(name: str) -> str:
    """Any text."""
    return name


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    times = {name: TERMS[name] for name in TIMES if name in TERMS}
    RunningHttp.__init__.__kwdefaults__["timeouts"] = Timeouts(
        **times
    )  # the library has no option for this
    server.run("http", port=int(os.environ.get("FAULTS_PORT", "0")), legacy_sse=True)
