"""What a client does to a server in a host, in one era."""

from __future__ import annotations

import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any, Callable, NamedTuple

import minimcp

SECONDS = 60.0
"""How long anything may take."""


class Visit(NamedTuple):
    """One host in one era.

    Args:
        url: Of the server.
        revision: As for `minimcp.connect`.
        folder: Where the tools leave files.
        sessions: Whether clients that shake hands get one.
        processes: Of the host.
        page: The text of the host's own page at its root; empty when it has none.
    """

    url: str
    revision: str
    folder: Path
    sessions: bool
    processes: int
    page: str

    @property
    def modern(self) -> bool:
        """Whether it is the era without a handshake."""
        return self.revision == "auto"

    def connect(self) -> minimcp.Client:
        """A client that answers questions."""
        return minimcp.connect(
            self.url, revision=self.revision, timeout=SECONDS, elicit=lambda request: {"which": "the red one"}
        )


def expect(got: Any, wanted: Any) -> None:
    """Compare.

    Raises:
        AssertionError: They differ.
    """
    if got != wanted:
        raise AssertionError(f"got {got!r} instead of {wanted!r}")


def fails_with(kind: type[Exception], call: Callable[[], Any]) -> None:
    """Call what has to fail so."""
    try:
        got = call()
    except kind:
        return
    raise AssertionError(f"got {got!r} instead of {kind.__name__}")


def check_list(visit: Visit) -> None:
    with visit.connect() as client:
        expect(client.revision == "2026-07-28", visit.modern)
        expect(sorted(tool.name for tool in client.list_tools()), ["add", "choose", "fail", "steps", "work"])


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
            expect(_text(visit.folder / name), "cancelled")
    with visit.connect() as client:
        expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)


def check_page(visit: Visit) -> None:
    """The host's own pages are served as before."""
    with urllib.request.urlopen(visit.url.replace("/mcp", "/"), timeout=SECONDS) as response:
        expect(response.read().decode(), visit.page)


def _text(path: Path) -> str:
    """What a file says, when it is there."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            break
        time.sleep(0.02)
    return path.read_text() if path.exists() else "nothing"


def checks(visit: Visit) -> dict[str, Callable[[Visit], None]]:
    """What is to be shown there, by the words that are printed."""
    found = {"list": check_list, "call": check_call, "progress": check_progress, "error": check_error}
    if visit.modern or visit.sessions:
        found["question"] = check_question
    else:
        found["question refused"] = check_refused
    found["gone"] = check_gone
    if visit.page:
        found["page"] = check_page
    return found
