"""The visit of a client to a server in a host, in one era."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Callable, NamedTuple
from urllib.parse import urlsplit

import minimcp

from ..interop.checking import expect, expect_raised
from ..support import eventually
from .running import SECONDS

CLIENTS = 20
TOOLS = ["add", "choose", "fail", "grow", "later", "note", "silent", "steps", "where", "work"]
BODY_BYTES = 100_000  # the longest body that the site takes

PARAMS = {
    "name": "add",
    "arguments": {"a": 1, "b": 2},
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    },
}
BODY = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": PARAMS}).encode()
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
    "Mcp-Name": "add",
}


def total(body: bytes) -> Any:
    return json.loads(body)["result"]["structuredContent"]


def text_of(path: Path) -> str:
    """Wait for a file, and return its text."""
    return (
        path.read_text()
        if eventually(lambda: path.exists() and path.read_text(), SECONDS)
        else "nothing"
    )


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

    def checks(self) -> dict[str, Callable[[], None]]:
        """Return the checks of this host, by the labels that are printed."""
        asks = self.modern or self.sessions
        wanted: dict[str, tuple[bool, Callable[[], None]]] = {
            "list": (True, self.list),
            "call": (True, self.call),
            "progress": (True, self.progress),
            "error": (True, self.error),
            "question": (asks, self.question),
            "question refused": (not asks, self.refused),
            "gone": (True, self.gone),
            "coming back": (not self.modern, self.coming_back),
            "silent and gone": (self.modern, self.silent),
            f"{CLIENTS} clients": (True, self.crowd),
            "odd requests": (self.modern, self.raw),
            "bodies": (self.modern, self.bodies),
            "page": (bool(self.page), self.host_page),
        }
        return {word: check for word, (there, check) in wanted.items() if there}

    def list(self) -> None:
        with self.connect() as client:
            expect(client.revision == "2026-07-28", self.modern)
            expect(sorted(tool.name for tool in client.list_tools()), TOOLS)

    def call(self) -> None:
        with self.connect() as client:
            for number in range(20):  # on any process, over connections kept or not
                expect(client.call_tool("add", {"a": number, "b": 1}).value, number + 1)
            done = client.call_tools([("add", {"a": number, "b": 0}) for number in range(8)])
            expect([each.value for each in done], list(range(8)))

    def progress(self) -> None:
        """Progress arrives before the response."""
        name, heard = uuid.uuid4().hex, []

        def report(progress: minimcp.Progress) -> None:
            heard.append(progress.message)
            (self.folder / name).touch()

        with self.connect() as client:
            expect(client.call_tool("steps", {"name": name}, on_progress=report).text, "seen")
        expect(heard, ["begun", "seen"])

    def error(self) -> None:
        with self.connect() as client:
            expect_raised(minimcp.ToolError, lambda: client.call_tool("fail"))
            expect_raised(minimcp.InvalidParams, lambda: client.call_tool("none"))
            expect_raised(minimcp.MethodNotFound, lambda: client.request("no/such"))

    def question(self) -> None:
        """Asked and answered; without a handshake, on another process than the one that asked, if
        there are several."""
        with self.connect() as client:
            for _ in range(200):
                name = uuid.uuid4().hex
                expect(client.call_tool("choose", {"name": name}).text, "the red one")
                ran_in = set((self.folder / name).read_text().split())
                if len(ran_in) == self.processes or not self.modern:
                    return
        raise AssertionError("200 questions were all answered on the process that asked")

    def coming_back(self) -> None:
        with self.connect() as client:
            expect(client.call_tool("later").value, self.sessions)

    def refused(self) -> None:
        """If a client has no session, no server can assign its responses."""
        with self.connect() as client:
            expect_raised(
                minimcp.McpError, lambda: client.call_tool("choose", {"name": uuid.uuid4().hex})
            )

    def gone(self) -> None:
        """A client that disconnects during a call ends that call, and no other."""
        name, token = uuid.uuid4().hex, minimcp.CancelToken()
        with self.connect() as client:
            expect_raised(
                minimcp.Cancelled,
                lambda: client.call_tool(
                    "work",
                    {"name": name},
                    cancel=token,
                    on_progress=lambda progress: token.cancel(),
                ),
            )
            expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)
            if self.modern or self.sessions:  # otherwise no message identifies the call of a client
                expect(text_of(self.folder / name), "cancelled")
        with self.connect() as client:
            expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)

    def silent(self) -> None:
        """If a client disconnects while a handler reports nothing, the next comment shows that."""
        name, token = uuid.uuid4().hex, minimcp.CancelToken()
        with self.connect() as client:
            expect_raised(
                minimcp.Cancelled,
                lambda: client.call_tool(
                    "silent",
                    {"name": name},
                    cancel=token,
                    on_progress=lambda progress: token.cancel(),
                ),
            )
            expect(text_of(self.folder / name), "cancelled")

    def crowd(self) -> None:
        """Many clients at once each get all of their own responses, from every process."""

        def visit_once(number: int) -> set[Any]:
            with self.connect() as client:
                for step in range(self.calls):
                    a = number * 1000 + step
                    expect(client.call_tool("add", {"a": a, "b": 1}).value, a + 1)
                return {client.call_tool("where").value}

        until = time.monotonic() + SECONDS
        seen: set[Any] = set()
        while len(seen) < self.processes and time.monotonic() < until:
            with ThreadPoolExecutor(CLIENTS) as pool:
                seen |= set().union(*pool.map(visit_once, range(CLIENTS)))
        expect(len(seen), self.processes)

    def raw(self) -> None:
        """A malformed request is rejected, and the next one on the same connection is served."""
        for method in ("HEAD", "OPTIONS", "PUT"):
            status, headers, said = self._then_served(method, "/mcp", None, {})
            sent = b"" if method == "HEAD" else b"use POST for this path\n"
            expect((status, "POST" in headers["Allow"], said), (405, True, sent))
        for path in ("/mcp/x", "/mcq"):
            expect(self._then_served("POST", path, BODY, HEADERS)[0], 404)

    def bodies(self) -> None:
        """One in chunks; one as long as it may be, and one of a byte more, with and without a
        length."""
        fits, over = (BODY.ljust(BODY_BYTES + more) for more in (0, 1))
        for body in (BODY, fits, over):
            for chunked in (False, True):
                given: Any = iter([body[:10], body[10:]]) if chunked else body
                more = {"Transfer-Encoding": "chunked"} if chunked else {}
                status, _, said = self._then_served(
                    "POST", "/mcp", given, {**HEADERS, **more}, chunked=chunked
                )
                if body is over:
                    expect((status, b"HttpOptions.body_bytes" in said), (413, True))
                else:
                    expect((status, total(said)), (200, 3))
        with self.connect() as client:
            try:
                client.call_tool("choose", {"name": "x" * 10 * BODY_BYTES})
            except minimcp.McpError as error:
                expect("HttpOptions.body_bytes" in str(error), True)
            expect(client.call_tool("add", {"a": 1, "b": 1}).value, 2)

    def _then_served(
        self, method: str, path: str, body: Any, headers: dict[str, str], *, chunked: bool = False
    ) -> tuple[int, Any, bytes]:
        """The response to a request by hand, after which the connection has served a right one."""
        parts = urlsplit(self.url)
        answers = []
        with contextlib.closing(
            HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        ) as made:
            for given in ((method, path, body, headers), ("POST", "/mcp", BODY, HEADERS)):
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # answered before all was sent
                    made.request(*given, encode_chunked=chunked and not answers)
                response = made.getresponse()
                answers.append((response.status, response.headers, response.read()))
        expect(total(answers[1][2]), 3)
        return answers[0]

    def host_page(self) -> None:
        with urllib.request.urlopen(self.url.replace("/mcp", "/"), timeout=SECONDS) as response:
            expect(response.read().decode(), self.page)


class OpenCall:
    """Start a call on a thread of its own. A context manager, whose end waits for the end of the
    call."""

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
