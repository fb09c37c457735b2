"""What a client does to a server in a host, in one era."""

from __future__ import annotations

import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, NamedTuple

import minimcp

from . import raw
from .running import SECONDS

CLIENTS = 20
TOOLS = ["add", "choose", "fail", "grow", "later", "note", "silent", "steps", "where", "work"]


class Visit(NamedTuple):
    """One host in one era."""

    url: str  # of the server
    revision: str  # as for `minimcp.connect`
    folder: Path  # where the tools leave files
    sessions: bool  # whether clients that shake hands get one
    processes: int  # of the host
    page: str = ""  # the text of the host's own page at its root; empty when it has none
    calls: int = 5  # of each client in a crowd

    @property
    def modern(self) -> bool:
        return self.revision == "auto"

    def connect(self, **more: Any) -> minimcp.Client:
        elicit = {"which": "the red one"}
        return minimcp.connect(
            self.url, revision=self.revision, timeout=SECONDS, elicit=lambda request: elicit, **more
        )


def expect(got: Any, wanted: Any) -> None:
    """Compare."""
    if got != wanted:
        raise AssertionError(f"got {got!r} instead of {wanted!r}")


def fails_with(kind: type[Exception], call: Callable[[], Any]) -> None:
    try:
        got = call()
    except kind:
        return
    raise AssertionError(f"got {got!r} instead of {kind.__name__}")


def check_list(visit: Visit) -> None:
    with visit.connect() as client:
        expect(client.revision == "2026-07-28", visit.modern)
        expect(sorted(tool.name for tool in client.list_tools()), TOOLS)


def check_call(visit: Visit) -> None:
    with visit.connect() as client:
        for number in range(20):  # on any process, over connections kept or not
            expect(client.call_tool("add", {"a": number, "b": 1}).value, number + 1)
        done = client.call_tools([("add", {"a": number, "b": 0}) for number in range(8)])
        expect([each.value for each in done], list(range(8)))


def check_progress(visit: Visit) -> None:
    """A report is there before the answer is."""
    name, heard = uuid.uuid4().hex, []

    def report(progress: minimcp.Progress) -> None:
        heard.append(progress.message)
        (visit.folder / name).touch()

    with visit.connect() as client:
        expect(client.call_tool("steps", {"name": name}, on_progress=report).text, "seen")
    expect(heard, ["begun", "seen"])


def check_error(visit: Visit) -> None:
    with visit.connect() as client:
        fails_with(minimcp.ToolError, lambda: client.call_tool("fail"))
        fails_with(minimcp.InvalidParams, lambda: client.call_tool("none"))
        fails_with(minimcp.MethodNotFound, lambda: client.request("no/such"))


def check_question(visit: Visit) -> None:
    """Asked and answered; without a handshake, on another process than the one that asked, if there are several."""
    with visit.connect() as client:
        for _ in range(200):
            name = uuid.uuid4().hex
            expect(client.call_tool("choose", {"name": name}).text, "the red one")
            ran_in = set((visit.folder / name).read_text().split())
            if len(ran_in) == visit.processes or not visit.modern:
                return
    raise AssertionError("200 questions were all answered on the process that asked")


def check_coming_back(visit: Visit) -> None:
    with visit.connect() as client:
        expect(client.call_tool("later").value, visit.sessions)


def check_refused(visit: Visit) -> None:
    """Where a client has no session, nobody can say whose answer it is."""
    with visit.connect() as client:
        fails_with(minimcp.McpError, lambda: client.call_tool("choose", {"name": uuid.uuid4().hex}))


def check_gone(visit: Visit) -> None:
    """Who goes away in mid-call ends that call, and no other."""
    name, token = uuid.uuid4().hex, minimcp.CancelToken()
    with visit.connect() as client:
        fails_with(minimcp.Cancelled, lambda: client.call_tool(
            "work", {"name": name}, cancel=token, on_progress=lambda progress: token.cancel()
        ))
        expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)
        if visit.modern or visit.sessions:  # otherwise nothing says which call a client means
            expect(text_of(visit.folder / name), "cancelled")
    with visit.connect() as client:
        expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)


def check_silent(visit: Visit) -> None:
    """Who goes away while a handler says nothing is missed at a comment."""
    name, token = uuid.uuid4().hex, minimcp.CancelToken()
    with visit.connect() as client:
        fails_with(minimcp.Cancelled, lambda: client.call_tool(
            "silent", {"name": name}, cancel=token, on_progress=lambda progress: token.cancel()
        ))
        expect(text_of(visit.folder / name), "cancelled")


def check_crowd(visit: Visit) -> None:
    """Many clients at once: each gets its own answers, all of them, from every process."""

    def visit_once(number: int) -> set[Any]:
        with visit.connect() as client:
            for step in range(visit.calls):
                a = number * 1000 + step
                expect(client.call_tool("add", {"a": a, "b": 1}).value, a + 1)
            return {client.call_tool("where").value}

    until = time.monotonic() + SECONDS
    seen: set[Any] = set()
    while len(seen) < visit.processes and time.monotonic() < until:
        with ThreadPoolExecutor(CLIENTS) as pool:
            seen |= set().union(*pool.map(visit_once, range(CLIENTS)))
    expect(len(seen), visit.processes)


def check_raw(visit: Visit) -> None:
    """What is no ordinary request is refused, and the next one on the same connection is served."""
    body, headers = raw.call({"a": 1, "b": 2})
    for method in ("HEAD", "OPTIONS", "PUT"):
        answer = _then_served(visit, method, "/mcp", None, {})
        sent = b"" if method == "HEAD" else b"this is served with POST\n"
        expect((answer.status, "POST" in answer.headers["Allow"], answer.body), (405, True, sent))
    for path in ("/mcp/", "/mcp/x", "/mcq"):
        expect(_then_served(visit, "POST", path, body, headers).status, 404)


def check_bodies(visit: Visit) -> None:
    """One in chunks; one as long as it may be, and one of a byte more, with and without a length."""
    small, headers = raw.call({"a": 1, "b": 2})
    fits, over = (raw.padded(raw.BODY_BYTES + more)[0] for more in (0, 1))
    for body in (small, fits, over):
        for chunked in (False, True):
            given: Any = iter([body[:10], body[10:]]) if chunked else body
            more = {"Transfer-Encoding": "chunked"} if chunked else {}
            answer = _then_served(visit, "POST", "/mcp", given, {**headers, **more}, chunked=chunked)
            if body is over:
                expect((answer.status, b"HttpOptions.body_bytes" in answer.body), (413, True))
            else:
                expect((answer.status, raw.sums(answer)), (200, 3))
    with visit.connect() as client:
        try:
            client.call_tool("choose", {"name": "x" * 10 * raw.BODY_BYTES})
        except minimcp.McpError as error:
            expect("HttpOptions.body_bytes" in str(error), True)
        expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)


def _then_served(visit: Visit, method: str, path: str, body: Any, headers: dict[str, str], **more: Any) -> raw.Answer:
    with raw.connection(visit.url) as connection:
        answer = raw.ask(connection, method, path, body, headers, **more)
        good, named = raw.call({"a": 1, "b": 2})
        expect(raw.sums(raw.ask(connection, "POST", "/mcp", good, named)), 3)
    return answer


class OpenCall:
    """A call that is under way on a thread of its own; a context manager, whose end waits for that of the call."""

    def __init__(self, visit: Visit) -> None:
        self.name, self.begun, self.ending = uuid.uuid4().hex, threading.Event(), ""
        self._visit = visit
        self._thread = threading.Thread(target=self._call, daemon=True)

    def _call(self) -> None:
        try:
            with self._visit.connect() as client:
                self.ending = client.call_tool(
                    "silent", {"name": self.name}, on_progress=lambda progress: self.begun.set()
                ).text
        except Exception as error:
            self.ending = f"{type(error).__name__}: {error}"
        finally:
            self.begun.set()

    def __enter__(self) -> OpenCall:
        self._thread.start()
        expect(self.begun.wait(SECONDS) and self.ending, "")
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(SECONDS)
        expect(self._thread.is_alive(), False)


def check_page(visit: Visit) -> None:
    with urllib.request.urlopen(visit.url.replace("/mcp", "/"), timeout=SECONDS) as response:
        expect(response.read().decode(), visit.page)


def text_of(path: Path) -> str:
    """What a file says, when it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            break
        time.sleep(0.02)
    return path.read_text() if path.exists() else "nothing"


def checks(visit: Visit) -> dict[str, Callable[[Visit], None]]:
    """What is to be shown there, by the words that are printed."""
    found: dict[str, Callable[[Visit], None]] = {
        "list": check_list, "call": check_call, "progress": check_progress, "error": check_error,
    }
    if visit.modern or visit.sessions:
        found["question"] = check_question
    else:
        found["question refused"] = check_refused
    found["gone"] = check_gone
    if not visit.modern:
        found["coming back"] = check_coming_back
    if visit.modern:
        found["silent and gone"] = check_silent
    found[f"{CLIENTS} clients"] = check_crowd
    if visit.modern:
        found["odd requests"] = check_raw
        found["bodies"] = check_bodies
    if visit.page:
        found["page"] = check_page
    return found
