"""`python -m tests.interop.apps [PICTURE]`: the page of examples/16_apps.py in Chromium, inside a
third-party host.

The host is a web page made of the extension's own npm package, its host side, and of the official
client, which talks to our server. Prints a line for each check; exit code 1 when something cannot
be installed, or a check failed. The screenshot is left in the file PICTURE, if one is named.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Dict, List, Mapping
from wsgiref.simple_server import WSGIRequestHandler, make_server

from ..hosts.running import free_port
from ..support import ROOT
from .environments import InstallFailed, NodeEnvironment, debian_program

SECONDS = 120.0
ENVIRONMENT = NodeEnvironment(
    "apps-host",
    [
        "@modelcontextprotocol/ext-apps@2.0.4",
        "@modelcontextprotocol/client@2.4.0",
        "@modelcontextprotocol/core@2.4.0",
        "zod@4.6.7",
        "esbuild@0.28.2",
        "playwright-core@1.65.1",
    ],
)
SCRIPT = Path(__file__).parent / "peers" / "apps_host.mjs"
PNG = b"\x89PNG\r\n\x1a\n"

APRIL_MAY_JUNE = ["April: 42", "May: 56", "June: 84"]
EXPECTED: Mapping[str, Any] = {
    "mimeType": "text/html;profile=mcp-app",
    "meta": {"ui": {"prefersBorder": True}},
    "appOnly": ["details"],
    "app": {"name": "Sales", "version": "1"},
    "bars": APRIL_MAY_JUNE,
    "first": [
        "ui/notifications/sandbox-proxy-ready",
        "ui/initialize",
        "ui/notifications/initialized",
    ],
    "early": "21 tea, 35 coffee",
    "details": "May: 21 tea, 35 coffee",
    "contexts": [{"content": [{"type": "text", "text": "The user looks at May."}]}],
    "afterStranger": APRIL_MAY_JUNE,
    "afterHost": ["July: 7"],
    "theme": ["dark", "dark", "dark", "serif"],
    "failed": ["Error", True],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
    "links": [{"url": "https://example.com/"}],
    "logged": [["info", "drawn"]],
    "torn": {},
    "reached": ["", ""],
    "asked": [],
    "control": 200,
    "complaints": [],
}
"""The records of the host and the browser. `reached` and `asked` are the outcomes of the app's own
requests."""


class Quiet(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def chapter() -> Any:
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("apps_chapter", ROOT / "examples" / "16_apps.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def visit(picture: Path) -> Dict[str, Any]:
    """Open the host page and click in the app.

    Args:
        picture: The file of the screenshot.
    """
    ENVIRONMENT.ready()
    browser = debian_program("chromium", "chromium")
    port, server = free_port(), chapter().server
    application = server.wsgi(allowed_origins=[f"http://127.0.0.1:{port}"])
    with make_server("127.0.0.1", 0, application, handler_class=Quiet) as listening:
        serving = threading.Thread(target=listening.serve_forever, daemon=True)
        serving.start()
        url = f"http://127.0.0.1:{listening.server_port}/mcp"
        try:
            command = [*ENVIRONMENT.command(str(SCRIPT)), browser, url, str(port), str(picture)]
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=SECONDS
            )
        finally:
            listening.shutdown()
            serving.join()
            server.close()
    if done.returncode:
        return {"ends": f"exit code {done.returncode}: {done.stderr[-2000:]}"}
    seen: Dict[str, Any] = json.loads(done.stdout)
    return seen


def judge(seen: Mapping[str, Any], picture: bytes) -> Dict[str, Any]:
    """The checks by name: True, or the finding."""
    if "ends" in seen:
        return dict(seen)
    checks: Dict[str, Any] = {
        name: seen.get(name) == said or seen.get(name) for name, said in EXPECTED.items()
    }
    heights = [size["height"] for size in seen["sizes"]]
    checks["sizes"] = len(heights) > 1 and max(heights) > 100 or heights
    checks["picture"] = picture.startswith(PNG) or f"{len(picture)} bytes"
    return checks


def main(arguments: List[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        picture = Path(arguments[0] if arguments else f"{folder}/app.png").resolve()
        try:
            seen = visit(picture)
            checks = judge(seen, picture.read_bytes() if picture.exists() else b"")
        except (InstallFailed, subprocess.TimeoutExpired, ValueError) as error:
            checks = {"runs": f"{type(error).__name__}: {error}"}
    wrong = {name: what for name, what in checks.items() if what is not True}
    print(
        f"an app in Chromium, in the host of {ENVIRONMENT.packages[0]}: {len(checks) - len(wrong)} of {len(checks)}"
    )
    for name, what in wrong.items():
        print(f"  {name}: {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
