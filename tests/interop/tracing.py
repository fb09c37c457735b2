"""`python -m tests.interop.tracing [FOLDER]`: `minimcp trace` between other programs, and its page
in Chromium.

A client of the official Python SDK calls server-everything through it. Each byte must pass
unchanged, and the transcript must be complete. Then the cost is measured, with our client at our
server and at that one. Last, pages with 5 and 5,000 messages are opened, clicked and filtered, at
1280 and 400 pixels. Prints a line for each check; exit code 1 when one failed or nothing can be
installed. Screenshots stay in FOLDER, if one is named.
"""

from __future__ import annotations

import base64
import html
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

from minimcp import connect
from minimcp.testing import Transcript

from ..support import ROOT
from .browser import Chromium
from .environments import InstallFailed
from .roster import PEERS

SECONDS = 120.0
MAX_MILLISECONDS, MIN_SHARE = 0.3, 0.5
ROUNDS, CALLS, LONG_CALLS = 5, 200, 20
PEER = {peer.name: peer for peer in PEERS}
HERE = Path(__file__).resolve().parent
DEMO = [sys.executable, "-m", "minimcp", "demo"]
TRACE = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "minimcp", "trace"]

# Records the bytes of both directions, next to the program that it starts.
TEE = """
import os, subprocess, sys, threading
server = subprocess.Popen(sys.argv[2:], stdin=-1, stdout=-1, bufsize=0)
def copy(reading, writing, name):
    with open(sys.argv[1] + name, "wb", 0) as kept:
        while True:
            data = os.read(reading, 65536)
            if not data:
                return os.close(writing)
            kept.write(data)
            while data:
                data = data[os.write(writing, data):]
threading.Thread(target=copy, args=(0, os.dup(server.stdin.fileno()), ".in"), daemon=True).start()
server.stdin.close()
copy(os.dup(server.stdout.fileno()), os.dup(1), ".out")
sys.exit(server.wait())
"""

OURS = """
from minimcp import Server
server = Server("ours")
@server.tool
def echo(message: str) -> str:
    "Echo."
    return message
server.run()
"""

# An image of one pixel.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

BREAKS = "document.title='broken'"
HOSTILE = f'</script><script>{BREAKS}</script><!-- \u2028\u2029 <img src=x onerror="{BREAKS}">'


def everything() -> List[str]:
    peer = PEER["server-everything"]
    return [*peer.environment.command(peer.server), *peer.server_arguments]


def between(folder: Path) -> Iterator[Tuple[str, Any]]:
    """The messages between a foreign client and a foreign server through it, recorded on both
    sides."""
    rows, page = folder / "rows.jsonl", folder / "between.html"
    tee = [sys.executable, "-c", TEE]
    server = [*tee, str(folder / "right"), *everything()]
    traced = [
        *tee,
        str(folder / "left"),
        *TRACE,
        "--json",
        "--output",
        str(rows),
        "--html",
        str(page),
        "--",
        *server,
    ]
    client = PEER["python-sdk-1"].environment.command(str(HERE / "peers" / "tracing_client.py"))
    done = subprocess.run(
        [*client, *traced], check=False, capture_output=True, text=True, timeout=SECONDS
    )
    yield "the client is content", done.returncode == 0 or done.stderr[-2000:]
    yield "it says", done.stdout.endswith(" tools, 5 reports of progress\n") or done.stdout
    lines: List[bytes] = []
    for way in (".in", ".out"):
        left, right = ((folder / f"{side}{way}").read_bytes() for side in ("left", "right"))
        yield f"{len(left):,} bytes {way[1:]} are unchanged", left == right
        lines += left.split(b"\n")
    transcript = Transcript.load(rows)
    recorded = sorted(
        entry.message.get("id", -1)
        for entry in transcript
        if entry.kind not in ("note", "noise") and not isinstance(entry.message.get("id"), str)
    )
    passed = sorted(json.loads(line).get("id", -1) for line in lines if line.strip())
    yield (
        f"all {len(passed)} messages are in the transcript",
        recorded == passed or (recorded, passed),
    )
    told = [f"{breach.row}: {breach.sentence}" for _, breach in transcript.breaches()]
    yield "no breach is invented", told == [] or told


def costs(name: str, server: List[str], folder: Path) -> Iterator[Tuple[str, Any]]:
    """The cost of a call and of a message of 1 MB: the minimum of several rounds, each call next to
    one without it."""
    traced = [*TRACE, "--output", str(folder / "log.txt"), "--", *server]
    quiet: Dict[str, Any] = {"revision": "handshake", "stderr": lambda line: None}
    with connect(server, **quiet) as direct, connect(traced, **quiet) as through:

        def medians(text: str, calls: int) -> Tuple[float, float]:
            taken: Tuple[List[float], List[float]] = ([], [])
            for _ in range(calls):
                for client, seconds in zip((direct, through), taken):
                    begun = time.perf_counter()
                    client.call_tool("echo", {"message": text})
                    seconds.append(time.perf_counter() - begun)
            return statistics.median(taken[0]), statistics.median(taken[1])

        medians("warm", CALLS)
        short = [medians("hello", CALLS) for _ in range(ROUNDS)]
        more = min(through - direct for direct, through in short) * 1000
        yield (
            f"{name}: {more:.3f} ms more per call at the median",
            more <= MAX_MILLISECONDS or more,
        )
        long = [medians("x" * 1_000_000, LONG_CALLS) for _ in range(ROUNDS)]
        share = max(direct / through for direct, through in long)
        yield f"{name}: 1 MB messages at {share:.2f} of the rate", share >= MIN_SHARE or share


def exchange(count: int) -> Transcript:
    """One message that looks like many; the first five messages are always the same."""
    dice, transcript, at = random.Random(5), Transcript(judge=True), 1_790_000_000.0

    def say(arrow: str, **message: Any) -> None:
        nonlocal at
        at += dice.random() / 50
        transcript.record(arrow, json.dumps({"jsonrpc": "2.0", **message}).encode(), at)

    about = {"name": HOSTILE, "version": "1"}
    say(
        "-->",
        id=0,
        method="initialize",
        params={
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": about,
        },
    )
    say(
        "<--",
        id=0,
        result={
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": about,
        },
    )
    say("-->", method="notifications/initialized")
    say(
        "-->",
        id=1,
        method="tools/call",
        params={"name": "forecast", "arguments": {"city": HOSTILE}},
    )
    say("<--", id=1, result={"content": [{"type": "text", "text": HOSTILE}]})
    if count > 5:
        transcript.record("<--", HOSTILE.encode(), at)
        say("<--", id="1", result={})
    waiting: List[int] = []
    for id in range(2, 10 * count):
        if len(transcript) >= count:
            break
        if len(waiting) < 4 and dice.random() < 0.6:
            method = dice.choice(["tools/call", "tools/call", "ping"])
            say(
                "-->",
                id=id,
                method=method,
                params={"name": "forecast", "_meta": {"progressToken": id}},
            )
            waiting.append(id)
        elif waiting and dice.random() < 0.3:
            say(
                "<--",
                method="notifications/progress",
                params={"progressToken": waiting[0], "progress": id},
            )
        elif waiting:
            asked = waiting.pop(dice.randrange(len(waiting)))
            say(
                "<--",
                id=asked,
                **(
                    {"error": {"code": -32602, "message": "?"}}
                    if dice.random() < 0.1
                    else {"result": {"content": []}}
                ),
            )
    return transcript


def colorful() -> Transcript:
    """One with a failed result, an image and a run of progress reports."""
    transcript, at = Transcript(), 1_790_000_000.0
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    fake = {"type": "image", "data": "x" * 300 + '"', "mimeType": 'image/png" onerror="alert(1)'}

    def call(id: int, name: str, reports: int, **result: Any) -> None:
        messages: List[Tuple[str, Dict[str, Any]]] = [
            ("-->", {"id": id, "method": "tools/call", "params": {"name": name}}),
            *(
                (
                    "<--",
                    {
                        "method": "notifications/progress",
                        "params": {"progressToken": id, "progress": number},
                    },
                )
                for number in range(reports)
            ),
            ("<--", {"id": id, "result": {"content": [], **result}}),
        ]
        for arrow, message in messages:
            transcript.record(arrow, json.dumps({"jsonrpc": "2.0", **message}).encode(), at)

    call(1, "price", 0, isError=True)
    call(2, "bake", 48)
    call(3, "picture", 4, content=[image, fake])
    return transcript


def _visit_colors(browser: Chromium, page: Path, folder: Path) -> Iterator[Tuple[str, Any]]:
    browser.load(page.as_uri())
    summary = str(browser.evaluate("document.querySelector('#summary').innerText"))
    yield (
        "the date is an ISO date",
        bool(re.search(r"\b2026-09-2\d \d\d:13:20\b", summary)) or summary,
    )
    results = "[...document.querySelectorAll('.row.result')]"
    names = browser.evaluate(f"{results}.map(e => e.querySelector('.what').innerText).join()")
    yield (
        "a result names its tool, and a failed one says so",
        names == "failed: price,result: bake,result: picture" or names,
    )
    colors = browser.evaluate(
        f"{results}.map(e => getComputedStyle(e.querySelector('.what')).color).join(' ')"
    )
    red, green, other = re.findall(r"rgb\((\d+), (\d+), \d+\)", str(colors))
    yield (
        "a failed result is red, and others are green",
        int(red[0]) > 2 * int(red[1]) and int(green[1]) > 2 * int(green[0]) and other == green,
    )
    shown = "[...document.querySelectorAll('.row.notification:not([hidden])')].length"
    yield "of 48 reports 2 are shown, of 4 all", browser.evaluate(shown) == 6
    fold = "document.querySelector('.fold:not([hidden]) button')"
    yield "a fold counts them", browser.evaluate(f"{fold}.innerText") == "46 more reports"
    browser.evaluate(f"{fold}.click()")
    yield (
        "a click unfolds them",
        browser.evaluate(shown) == 52 and browser.evaluate(f"{fold}") is None,
    )
    browser.evaluate(f"{results}[2].click()")
    widths = browser.evaluate(
        "[...document.images].map(e => e.naturalWidth + e.parentElement.className).join()"
    )
    yield "an image is drawn beside its row and its JSON", widths == "1pictures,1result" or widths
    picture = base64.b64decode(browser.ask("Page.captureScreenshot")["data"])
    (folder / "colors.png").write_bytes(picture)


def _visit_slides(browser: Chromium, folder: Path) -> Iterator[Tuple[str, Any]]:
    slides = folder / "slides.html"
    subprocess.run([*DEMO, "--html", str(slides)], check=True, stdout=subprocess.DEVNULL)
    browser.load(slides.as_uri())
    shown = (
        "[...document.querySelectorAll('section:not(.later)')].map("
        "e => e.querySelectorAll('article:not(.later)').length).join()"
    )
    seen = []
    for _ in range(4):
        seen.append(browser.evaluate(shown))
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key=" ", code="Space")
    yield "Space shows one message after the other", seen == ["0", "0", "1", "2"] or seen


def _visit_both(browser: Chromium, folder: Path) -> Iterator[Tuple[str, Any]]:
    both = folder / "both.html"
    command = [*DEMO, "--compare", "2025-11-25", "2026-07-28", "question", "--html", str(both)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    page = both.read_text("utf-8")
    # The frames are sandboxed, so their content is reached only from inside: they report it here.
    report = "<script>onload = () => parent.postMessage(document.querySelectorAll('.row').length, '*')</script>"
    listen = "<script>seen = []; onmessage = event => seen.push(event.data)</script>"
    page = page.replace("<style>", f"{listen}<style>", 1)
    page = page.replace('"></iframe>', f'{html.escape(report)}"></iframe>')
    both.write_text(page, "utf-8")
    browser.load(both.as_uri())
    seen = browser.evaluate("seen.join()")
    yield "two frames draw four messages each", seen == "4,4" or seen


def look(folder: Path) -> Iterator[Tuple[str, Any]]:
    """Open the pages, click, filter, and read their texts."""
    colors = folder / "colors.html"
    colorful().save_html(colors)
    with Chromium() as browser:
        yield from _visit_colors(browser, colors, folder)
        yield from _visit_slides(browser, folder)
        yield from _visit_both(browser, folder)
    pages = {"between": folder / "between.html"}
    for count in (5, 5000):
        pages[str(count)] = folder / f"{count}.html"
        exchange(count).save_html(pages[str(count)])
    for name, page in pages.items():
        for width, height, scheme in ((1280, 900, "light"), (400, 850, "dark")):
            with Chromium() as browser:
                yield from _visit(
                    browser, f"{name} at {width}", page, width, height, scheme, folder
                )


def _visit(
    browser: Chromium, name: str, page: Path, width: int, height: int, scheme: str, folder: Path
) -> Iterator[Tuple[str, Any]]:
    def look(script: str) -> Any:
        return browser.evaluate(script)

    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.ask(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}]
    )
    begun = time.monotonic()
    browser.load(page.as_uri())
    seconds = time.monotonic() - begun
    rows = look("document.querySelectorAll('.row:not(.note):not(.fold)').length")
    summary = str(look("document.querySelector('#summary').innerText"))
    yield (
        f"{name}: opened in {seconds:.1f} s, {summary}",
        summary.startswith(f"{rows:,} messages") and seconds < 10,
    )
    yield f"{name}: no wider than the window", look("document.documentElement.scrollWidth") <= width
    yield (
        f"{name}: nothing of a peer was run",
        look("document.title") == "What host and server said",
    )
    lanes = look(
        "[...document.querySelectorAll('.head')].map(e => e.innerText.split('\\n')[0]).join()"
    )
    yield f"{name}: two lanes", lanes == "Host,Server"
    request = "document.querySelector('.row.request .what')"
    yield (
        f"{name}: the first arrow is initialize, to the right",
        look(f"{request}.innerText + {request}.closest('.row').classList.contains('right')")
        == "initializetrue",
    )
    look(f"{request}.closest('.row').click()")
    detail = str(look("document.querySelector('#detail').innerText"))
    yield (
        f"{name}: a click shows its JSON",
        '"protocolVersion"' in detail and "host to server" in detail or detail,
    )
    yield (
        f"{name}: and marks its answer",
        look("document.querySelectorAll('.row.other.result').length") == 1,
    )
    look("document.querySelector('#detail .chip').click()")
    yield (
        f"{name}: a button leads there",
        "result of initialize" in look("document.querySelector('#detail').innerText"),
    )
    picture = base64.b64decode(browser.ask("Page.captureScreenshot")["data"])
    (folder / f"{name.replace(' ', '-')}.png").write_bytes(picture)
    look("document.querySelector('[data-value=\"tools/call\"]').click()")
    shown = look(
        "[...new Set([...document.querySelectorAll('.row:not([hidden]) .label')]"
        ".map(e => /tools\\/call/.test(e.textContent)))].join()"
    )  # innerText is empty out of sight
    yield f"{name}: a method filters", shown == "true" or shown
    look("document.querySelector('[data-value=\"tools/call\"]').click()")
    if name.startswith("5000"):
        look("document.querySelector('[data-value=\"breach\"]').click()")
        marks = look(
            "[...document.querySelectorAll('.row:not([hidden]) .breaches b')].map(e => e.innerText).join()"
        )
        yield f"{name}: breaches are found", marks == "STDIO-04,BASE-05" or marks


def main(arguments: List[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(arguments[0] if arguments else made).resolve()
        os.makedirs(folder, exist_ok=True)
        (folder / "ours.py").write_text(OURS, "utf-8")
        try:
            for name in ("server-everything", "python-sdk-1"):
                PEER[name].environment.ready()
            for checks in (
                between(folder),
                costs("our server", [sys.executable, str(folder / "ours.py")], folder),
                costs("server-everything", everything(), folder),
                look(folder),
            ):
                for name, result in checks:
                    failed += result is not True
                    print(
                        f"{'ok    ' if result is True else 'FAILED'} {name}{'' if result is True else f': {result}'}"
                    )
        except (InstallFailed, subprocess.TimeoutExpired, OSError, ValueError) as error:
            print(f"FAILED {type(error).__name__}: {error}")
            return 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
