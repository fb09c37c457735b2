"""`python -m tests.interop.preview [FOLDER]`: the host page of ``minimcp apps`` in Chromium.

The page of examples/16_apps.py is opened and clicked in. Then a hostile page tries to reach the
network, the host page and its server. Prints a line for each check; exit code 1 if one failed.
Screenshots at 1280 and 400 pixels stay in FOLDER, if one is named.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List, Tuple

from minimcp import Apps, Server, connect
from minimcp.cli.apps import Host

from .apps import chapter
from .browser import Chromium
from .environments import InstallFailed

SECONDS = 10.0

HOSTILE = """<!DOCTYPE html>
<title>Hostile</title>
<script src="minimcp-app.js"></script>
<script>
  const tried = (name, run) => Promise.resolve().then(run).then(() => [name, "reached"], () => [name, ""]);
  const host = new URL(location.href).origin;
  app.on("tool-result", async () => {
    const found = await Promise.all([
      tried("fetch", () => fetch(location.href)),
      tried("call", () => fetch(`${host}/call`, {method: "POST", body: "{}", mode: "no-cors"})),
      tried("parent", () => parent.document.title),
      tried("storage", () => localStorage.length),
      tried("popup", () => { if (!open("about:blank")) throw 1; }),
      tried("top", () => { top.location = "about:blank"; }),
      tried("hidden tool", () => app.callTool("for_model")),
      tried("method", () => app.request("logging/setLevel", {level: "debug"})),
      tried("script link", async () => { if ((await app.openLink("javascript:alert(1)")).isError) throw 1; }),
    ]);
    app.notify("notifications/message", {level: "info", data: Object.fromEntries(found)});
  });
</script>
"""


def hostile_server() -> Server:
    server = Server("hostile", extensions=[Apps()])
    server.app("ui://hostile/page", name="page")(lambda: HOSTILE)
    server.add_tool(lambda: "shown", name="show", ui="ui://hostile/page")
    server.add_tool(lambda: "secret", name="for_model", visibility="model")
    return server


class Preview:
    """The host page in a browser; for a ``with`` block."""

    def __init__(self, server: Server, browser: Chromium, width: int, height: int) -> None:
        self.client = connect(server, extensions=[Apps()])
        tools = [tool.to_wire() for tool in self.client.list_tools()]
        self.host = Host(self.client, tools)
        self.browser = browser
        browser.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def __enter__(self) -> Preview:
        self.serving = threading.Thread(target=self.host.serve_forever, args=(0.01,))
        self.serving.start()
        self.browser.load(self.host.url)
        self.browser.evaluate("document.getElementById('call').click()")
        return self

    def __exit__(self, *_: object) -> None:
        self.host.shutdown()
        self.serving.join()
        self.host.server_close()
        self.client.close()

    def messages(self) -> List[Any]:
        """The messages that the host page lists: the side that sent each, and its JSON."""
        script = (
            "JSON.stringify([...document.querySelectorAll('#messages details')]"
            ".map(e => [e.className, JSON.parse(e.querySelector('pre').textContent)]))"
        )
        found: List[Any] = json.loads(self.browser.evaluate(script))
        return found

    def wait(self, method: str, seconds: float = SECONDS) -> Any:
        """The first message of the page with this method; None if there is none in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for way, message in self.messages():
                if way == "from" and message.get("method") == method:
                    return message
            time.sleep(0.05)
        return None

    def click(self, x: int, y: int) -> None:
        """Click at a place in the frame."""
        box = json.loads(
            self.browser.evaluate(
                "JSON.stringify(document.querySelector('iframe').getBoundingClientRect())"
            )
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=box["x"] + x,
                y=box["y"] + y,
                button="left",
                clickCount=1,
            )

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.browser.ask("Page.captureScreenshot")["data"]))


def look(folder: Path, width: int, height: int) -> Iterator[Tuple[str, Any]]:
    """The page of the chapter."""
    with Chromium() as browser, Preview(chapter().server, browser, width, height) as preview:
        name = f"at {width}"
        yield (
            f"{name}: the page reports its size",
            preview.wait("ui/notifications/size-changed") is not None,
        )
        flow = [message.get("method") for _, message in preview.messages()][:5]
        expected = [
            "ui/initialize",
            None,
            "ui/notifications/initialized",
            "ui/notifications/tool-input",
            "ui/notifications/tool-result",
        ]
        yield f"{name}: the messages are those of the extension", flow == expected or flow
        # A click is lost while the browser has not yet drawn the frame with its new height.
        for _ in range(int(SECONDS)):
            preview.click(40, 70)
            called = preview.wait("tools/call", 1)
            if called is not None:
                break
        yield (
            f"{name}: a click on a bar calls the tool",
            called is not None
            and called["params"] == {"name": "details", "arguments": {"month": "May"}},
        )
        said = preview.wait("ui/update-model-context")
        yield (
            f"{name}: the page updates the model's context",
            said is not None and said["params"]["content"][0]["text"] == "The user looks at May.",
        )
        answers = [each["result"] for _, each in preview.messages() if "result" in each]
        texts = [each["content"][0]["text"] for each in answers if each.get("content")]
        yield f"{name}: the page gets the result", set(texts) == {"21 tea, 35 coffee"} or texts
        wide = browser.evaluate("document.documentElement.scrollWidth")
        yield f"{name}: no wider than the window", wide <= width or wide
        preview.picture(folder / f"apps-{width}.png")
        browser.evaluate("document.getElementById('call').click()")
        time.sleep(0.5)
        methods = [message.get("method") for _, message in preview.messages()]
        yield (
            f"{name}: the page is asked to end before the next call",
            "ui/resource-teardown" in methods and methods.count("ui/initialize") == 2 or methods,
        )


def attack() -> Iterator[Tuple[str, Any]]:
    """A page that tries what it must not do."""
    with Chromium() as browser, Preview(hostile_server(), browser, 1280, 800) as preview:
        said = preview.wait("notifications/message")
        yield "the hostile page reports", said is not None
        for name, result in (said or {"params": {"data": {}}})["params"]["data"].items():
            yield f"a hostile page does not get by: {name}", result == "" or result
        yield (
            "the host page is still there",
            browser.evaluate("document.title") == "Apps of hostile",
        )
        before = len(preview.messages())
        browser.evaluate(
            "postMessage({jsonrpc: '2.0', id: 9, method: 'tools/call', params: {name: 'show'}}, '*')"
        )
        time.sleep(0.3)
        yield "a message of another window is ignored", len(preview.messages()) == before


def main(arguments: List[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments[0] if arguments else made).resolve()
        os.makedirs(folder, exist_ok=True)
        try:
            for checks in (look(folder, 1280, 800), look(folder, 400, 850), attack()):
                for name, result in checks:
                    failed += result is not True
                    print(f"{'ok    ' if result is True else 'FAILED'} {name}", end="")
                    print("" if result is True else f": {result}")
        except (InstallFailed, subprocess.TimeoutExpired, OSError, ValueError) as error:
            print(f"FAILED {type(error).__name__}: {error}")
            return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
