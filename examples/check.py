"""Check an exercise of the course: ``python3 examples/check.py 2`` checks your version of
02_hello.py.

Write your solution into a copy of the chapter in this folder, my_copy2.py, or into the chapter
itself, which git can restore. If your file has a different name, give it as the second argument.
The command prints that the exercise is solved, or what is missing, and exits with 0 or 1. Without a
number it checks every exercise. ``python3 -m tests.solutions 2`` prints a solution.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any, Callable
from unittest.mock import patch

HERE = Path(__file__).resolve().parent
# in a checkout, nothing has to be installed, neither here nor in child processes
if (HERE.parent / "minimcp").is_dir():
    sys.path.insert(0, str(HERE.parent))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(HERE.parent), os.environ.get("PYTHONPATH")])
    )

import minimcp  # noqa: E402
from minimcp import testing  # noqa: E402

SECONDS = 20  # timeout of any call


class Missing(Exception):
    """Something that an exercise requires and that does not exist yet."""


def want(found: object, missing: str) -> None:
    if not found:
        raise Missing(missing)


def load(path: Path) -> Any:
    """Import the chapter. Code below ``if __name__ == "__main__":`` does not run."""
    spec = importlib.util.spec_from_file_location("chapter", path)
    assert spec and spec.loader
    chapter = importlib.util.module_from_spec(spec)
    sys.modules["chapter"] = chapter  # dataclasses look for their module here
    spec.loader.exec_module(chapter)
    return chapter


def connect(target: Any, **options: Any) -> minimcp.Client:
    return minimcp.connect(target, timeout=SECONDS, **options)


def tool_of(client: minimcp.Client, name: str, where: str = "") -> minimcp.Tool:
    tools = {tool.name: tool for tool in client.list_tools()}
    want(name in tools, f"{where}there is no tool {name}; there is {', '.join(tools)}")
    return tools[name]


# ------------------------------------------------------------ the exercises


def check_1(path: Path) -> None:
    # Look at the line as it was sent: a client also accepts a result that is not empty.
    lines: list[str] = []
    with connect(
        [sys.executable, str(path), "serve"],
        revision="2025-11-25",
        trace=lambda arrow, line: lines.append(line),
    ) as client:
        try:
            client.request("ping")
        except minimcp.MethodNotFound:
            raise Missing('the response to "ping" is "Method not found"') from None
        except minimcp.ProtocolViolation:
            pass  # shown below
        result = json.dumps(json.loads(lines[-1]).get("result"))
        want(result == "{}", f'the result of "ping" is {result}, not an empty object: {{}}')
        want(client.call_tool("add", {"a": 2, "b": 3}).text == "5", "add no longer adds")


def check_2(path: Path) -> None:
    with connect([sys.executable, str(path), "serve"]) as client:
        shout = tool_of(client, "shout")
        want(shout.description, "shout has no docstring, so a model does not know what it is for")
        said = client.call_tool("shout", {"text": "hello"}).text
        want(said == "HELLO", f"shout turns 'hello' into {said!r}")


def check_3(path: Path) -> None:
    chapter = load(path)
    notes = chapter.DatedNotes()
    with connect(minimcp.Server.of(notes)) as client:
        count = tool_of(client, "count")
        want(
            count.hints.read_only,
            "count is not marked as read-only: annotations={...}, like find",
        )
        for number in (1, 2):
            client.call_tool("add", {"text": "a note"})
            want(client.call_tool("count").value == number, f"count does not return {number}")
        notes.lock = watched = Watched()
        client.call_tool("count")
        want(watched.was_held, "count does not hold the lock: with self.lock")


class Watched:
    """A lock that remembers whether it was held."""

    was_held = False

    def __enter__(self) -> None:
        self.was_held = True

    def __exit__(self, *_: object) -> None:
        pass


def check_4(path: Path) -> None:
    chapter = load(path)
    with connect(chapter.server) as client:
        where = {"street": "High Street", "door": "back"}
        try:
            client.call_tool("order", {"size": "small", "where": where})
        except minimcp.ToolError as error:
            raise Missing(f"an address with a door is rejected: {error}") from None
        client.call_tool("order", {"size": "small", "where": {"street": "High Street"}})
        failed = client.call_tool(
            "order", {"size": "small", "where": {**where, "door": "side"}}, raise_on_error=False
        )
        want(
            failed.is_error and "where.door" in failed.text,
            'the door "side" is accepted; only "front" and "back" should be',
        )
    want(
        chapter.Address("High Street").door == "front",
        'the default of door is not "front"',
    )


def check_5(path: Path) -> None:
    with connect(load(path).server) as client:
        tool_of(client, "sow")
        with client.listen(resource_subscriptions=["plants://all"]) as changes:
            client.call_tool("sow", {"name": "rose", "warmth": 18})
            try:
                changed = changes.next(timeout=2)
            except minimcp.RequestTimeout:
                raise Missing(
                    "clients that listen to plants://all are not notified: server.resource_updated(...)"
                ) from None
        want(changed.uri == "plants://all", f"the notification is about {changed.uri}")
        want(
            client.read_resource("plants://rose").text == "rose: 18 degrees",
            "there is no plant rose",
        )


def check_6(path: Path) -> None:
    with connect(load(path).server) as client:
        want(
            "translate" in [prompt.name for prompt in client.list_prompts()],
            "there is no prompt translate",
        )
        values = client.complete("language", "F", prompt="translate").values
        want(values == ["Finnish"], f"the language F is completed to {values}, not to ['Finnish']")
        (message,) = client.get_prompt(
            "translate", {"text": "good day", "language": "Finnish"}
        ).messages
        text = getattr(message.content, "text", "")
        want(
            "good day" in text and "Finnish" in text,
            f"the message does not contain the text and the language: {text!r}",
        )


def check_7(path: Path) -> None:
    ended = threading.Event()
    server: minimcp.Server = load(path).server

    @server.middleware
    def look(ctx: Any, call_next: Callable[[], Any]) -> Any:
        try:
            return call_next()
        finally:
            ended.set()

    with connect(server) as client:
        tool_of(client, "bake")
        reports: list[float] = []
        client.call_tool(
            "bake", {"loaves": 3}, on_progress=lambda report: reports.append(report.progress)
        )
        want(len(reports) == 3, f"3 loaves made {len(reports)} reports")
        ended.clear()
        token = minimcp.CancelToken()
        try:
            client.call_tool(
                "bake", {"loaves": 10_000}, cancel=token, on_progress=lambda report: token.cancel()
            )
        except minimcp.Cancelled:
            want(ended.wait(5), "the call was cancelled, but the tool continues to bake")
        else:
            raise Missing("the tool did not report while it baked")


def check_8(path: Path) -> None:
    chapter = load(path)

    def user(request: minimcp.ElicitRequest) -> dict[str, Any]:
        return {
            name: 3 if name == "people" else True for name in (request.schema or {})["properties"]
        }

    for server, revision in (
        (chapter.server, "2025-11-25"),
        (chapter.server, "2026-07-28"),
        (chapter.as_over_http, "2026-07-28"),
    ):
        over = "as over HTTP" if server is chapter.as_over_http else "in memory"
        with connect(server, revision=revision, elicit=user) as client:
            tool_of(client, "taxi", f"{revision} {over}: ")
            chapter.taxis.clear()
            client.call_tool("taxi")
            want(chapter.taxis == [3], f"{revision} {over}: the taxis are {chapter.taxis}, not [3]")


def check_9(path: Path) -> None:
    chapter, transcript = load(path), testing.Transcript()
    want(hasattr(chapter, "first_report"), "there is no function first_report")
    kitchen = [sys.executable, str(HERE / "07_progress_and_cancel.py"), "serve"]
    with connect(kitchen, trace=transcript) as client:
        said = chapter.first_report(client)
        want(said == "dish 1", f"first_report returns {said!r}, not 'dish 1'")
        want(transcript.requests("tools/call"), "first_report calls no tool")
        try:
            transcript.wait_for("--> notifications/cancelled", timeout=5)
        except AssertionError:
            raise Missing("the server was not notified of the cancellation") from None


def check_10(path: Path) -> None:
    chapter = load(path)
    want(hasattr(chapter, "needs_consent"), "there is no function needs_consent")
    servers = {"hello": "02_hello.py", "notes": "03_plain_class.py"}
    config = {
        name: {"command": sys.executable, "args": [str(HERE / file), "serve"]}
        for name, file in servers.items()
    }
    with minimcp.connect_all({"mcpServers": config}, strict=True) as group:
        for name, expected in {
            "hello__greet": True,
            "notes__add": True,
            "notes__find": False,
        }.items():
            want(
                chapter.needs_consent(group, name) is expected,
                f"for {name} it must be {expected}",
            )


def check_11(path: Path) -> None:
    chapter = load(path)
    chapter.drawn[:] = ["circle", "square"]
    with connect(chapter.server) as client:
        tool_of(client, "clear")
        cleared = client.submit(client.call_tool, "clear")
        cleared.add_done_callback(lambda future: chapter.events.put(lambda: None))
        event = chapter.events.get(timeout=SECONDS)
        want(not cleared.done(), "clear does not wait for the main thread")
        event()
        want(
            cleared.result(timeout=SECONDS).value == 2,
            "clear does not return the number of shapes",
        )
        want(not chapter.drawn, "drawn is not empty")


def check_12(path: Path) -> None:
    chapter = load(path)
    want(hasattr(chapter, "test_nothing_to_pay"), "there is no test_nothing_to_pay")
    chapter.test_nothing_to_pay()
    right = chapter.pay

    def takes_nothing(amount: float, ctx: minimcp.Context) -> str:
        return "0.00 paid"

    def asks_first(amount: float, ctx: minimcp.Context) -> str:
        ctx.elicit("A tip?", {"tip": float}, key="tip")
        return str(right(amount, ctx))

    for broken in (takes_nothing, asks_first):
        chapter.pay = broken
        try:
            chapter.test_nothing_to_pay()
        except Exception:
            continue
        raise Missing(f"your test passes with a `pay` that {broken.__name__.replace('_', ' ')}")


def check_13(path: Path) -> None:
    with load(path).server.start_http(port=0) as running:
        for headers, expected in ({"X-Team": "red"}, "red"), ({}, "nobody"):
            with connect(running.url, headers=headers) as client:
                tool_of(client, "team")
                said = client.call_tool("team").text
                want(
                    said == expected,
                    f"with the headers {headers} it returns {said!r}, not {expected!r}",
                )


def check_13b(path: Path) -> None:
    chapter = load(path)
    want(hasattr(chapter, "names"), "there is no function names")
    answers, decode = [""], chapter.requests.Response.json

    def json(response: Any, **options: Any) -> Any:
        answers.append(f"; the server answered {response.status_code}: {response.text.strip()}")
        return decode(response, **options)

    other = minimcp.Server("other")
    for name in ("hammer", "tongs"):
        other.add_tool(lambda: "", name=name, description="A tool.")
    with other.start_http(port=0) as running, patch.object(chapter.requests.Response, "json", json):
        try:
            found = chapter.names(running.url)
        except Exception as error:
            raise Missing(f"{type(error).__name__}: {error}{answers[-1]}") from None
    other.close()
    want(found == ["hammer", "tongs"], f"a server with hammer and tongs has {found}")


def check_14(path: Path) -> None:
    chapter = load(path)
    with chapter.Host(("127.0.0.1", 0), chapter.Quiet) as host:
        host.set_app(chapter.application)
        threading.Thread(target=host.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{host.server_port}/mcp"
        try:
            for revision in ("2026-07-28", "2025-11-25"):
                with connect(url, revision=revision, elicit=lambda request: {}) as client:
                    said = client.call_tool("forget_visits", raise_on_error=False).text
                    want(said == "forgotten", f"{revision}: {said}")
        finally:
            host.shutdown()
            chapter.server.close()


def check_15(path: Path) -> None:
    chapter = load(path)
    chapter.lent.clear()
    chapter.lent.update({"Emma": "ben", "Persuasion": "ada", "Sanditon": "ben"})
    with chapter.server.start_http() as running:
        for token, expected in (chapter.BEN, ["Emma", "Sanditon"]), (chapter.ADA, ["Persuasion"]):
            with connect(running.url, auth=token) as client:
                tool_of(client, "mine")
                found = client.call_tool("mine").value
                want(
                    found and sorted(found) == expected,
                    f"the caller with the titles {expected} gets {found}",
                )
    chapter.server.close()


def check_15b(path: Path) -> None:
    chapter = load(path)
    pages: list[str] = []
    auth = minimcp.SignIn(
        client_id="check",
        store=minimcp.TokenMemory(),
        on_redirect=pages.append,
        on_callback=lambda state, timeout: chapter.requests.get(
            pages[-1], allow_redirects=False
        ).headers["Location"],
    )
    try:
        with (
            chapter.server.start_http(port=chapter.PORT) as running,
            connect(running.url, auth=auth),
        ):
            want(hasattr(chapter, "until"), "there is no function until")
            ends = chapter.until(auth, running.url)
    finally:
        chapter.server.close()
        chapter.issuer.close()
    left = ends - time.time() if isinstance(ends, (int, float)) else 0
    want(
        3000 < left <= 3600,
        f"the token expires in an hour, but until returns {ends!r}: it is {time.time():.0f} now",
    )


def check_16(path: Path) -> None:
    with connect(load(path).server, extensions=[minimcp.Apps()]) as host:
        tool = tool_of(host, "details")
        want("drink" in tool.input_schema["properties"], "details has no parameter drink")
        said = host.call_tool("details", {"month": "May", "drink": "tea"}).text
        want("21" in said and "35" not in said, f"for tea in May it returns {said!r}, not 21")
        said = host.call_tool("details", {"month": "June"}).text
        want(
            "44" in said and "40" in said,
            f"without a drink it returns {said!r} for June: the page still needs all",
        )
        want(
            (tool.meta or {}).get("ui", {}).get("visibility") == ["app"],
            "details is no longer only for the page",
        )


def check_17(path: Path) -> None:
    chapter = load(path)
    for revision in ("2025-11-25", "2026-07-28"):
        with connect(chapter.server, revision=revision, extensions=[minimcp.Tasks()]) as client:
            tool_of(client, "knead")
            try:
                plain = client.request("tools/call", {"name": "knead", "arguments": {"minutes": 3}})
            except minimcp.MethodNotFound:
                plain = {"resultType": "task"}
            want(
                plain.get("resultType") == "task", 'knead also runs without a task: task="required"'
            )
            task = client.start_task("knead", {"minutes": 3})
            said = task.result(SECONDS).text
            want(said == "kneaded", f"knead returns {said!r}")
            message = task.status_message
            want(
                message == "minute 3",
                f"the last report of three minutes is {message!r}: ctx.progress(...)",
            )


def check_18(path: Path) -> None:
    chapter = load(path)
    server, mine = chapter.serve(), chapter.Votes()
    with connect(server, extensions=[mine]) as client, client.listen(filters={"votes": True}):
        client.request("votes/cast", {"option": "tea"})
        want(
            mine.heard.get(timeout=SECONDS) == {"tea": 1, "coffee": 0},
            "clients are no longer notified of a vote",
        )
        zero = {"tea": 0, "coffee": 0}
        want(
            client.request("votes/open").get("counts") == zero,
            f"votes/open does not return counts: {zero}",
        )
        try:
            received = mine.heard.get(timeout=2)
        except Empty:
            raise Missing("listening clients are not notified that the vote starts again") from None
        want(received == zero, f"listening clients receive {received}")
    server.close()


# ------------------------------------------------------------ the command


def file_of(number: str) -> Path:
    """Return the file with a student's version of a chapter."""
    copy = HERE / f"my_copy{number}.py"
    if copy.is_file():
        return copy
    (chapter,) = HERE.glob(
        f"{int(re.sub('[a-z]', '', number)):02}{re.sub('[0-9]', '', number)}_*.py"
    )
    return chapter


def check_all(numbers: list[str]) -> int:
    """Check each exercise in a process of its own, and count the solved ones."""

    def result_of(number: str) -> str:
        command = [sys.executable, str(Path(__file__).resolve()), number]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        lines = done.stdout.decode(errors="replace").splitlines()
        return lines[-1] if lines else f"Exercise {number}: not yet: the check ended early"

    with ThreadPoolExecutor(4) as pool:
        results = pool.map(result_of, numbers)
        solved = 0
        for result in results:
            print(result, flush=True)
            solved += result.endswith(": solved")
    print(f"{solved} of {len(numbers)} exercises are solved.")
    return 0 if solved == len(numbers) else 1


def main(arguments: list[str]) -> int:
    checks = {name[6:]: check for name, check in globals().items() if name[6:7].isdigit()}
    if not arguments:
        return check_all(list(checks))
    number = arguments[0].lstrip("0")
    if number not in checks:
        print(
            f"usage: python3 check.py [CHAPTER [FILE]]; the chapters are {', '.join(checks)}",
            file=sys.stderr,
        )
        return 2
    path = Path(arguments[1]).resolve() if arguments[1:] else file_of(number)
    if not path.is_file():
        print(f"there is no file {path}", file=sys.stderr)
        return 2
    logging.getLogger("minimcp").setLevel(logging.CRITICAL)
    try:
        checks[number](path)
    except Missing as missing:
        print(f"Exercise {number}: not yet: {missing}")
    except Exception as error:
        print(f"Exercise {number}: not yet: {type(error).__name__}: {error}")
    else:
        print(f"Exercise {number}: solved")
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
