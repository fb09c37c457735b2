"""An HTTP server under trial, in raw bytes: its process, connections to it, and requests in both
eras.

A fault of the subject is an AssertionError here: a hang, an early end, or an invalid response.
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..support import eventually
from ..transports.http_peer import Peer, Response
from ..wire.messages import ABSENT, MODERN, decode, hello, modern, notification, request, same
from .raw import Server, shown

_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9][0-9])(?: .*)?")


class Visitor(Peer):
    """One connection; each wait is bounded as a whole."""

    def __init__(self, port: int, patience: float, *, taking: Optional[int] = None) -> None:
        self.patience = patience
        self.socket = socket.socket()
        try:
            self.socket.settimeout(patience)
            if taking is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, taking)
            self.socket.connect(("127.0.0.1", port))
        except OSError as error:
            self.socket.close()
            raise AssertionError(f"no connection to the server: {error}") from None
        self._rest = b""
        self._due = 0.0

    def __enter__(self) -> "Visitor":
        return self

    def push(self, data: bytes) -> int:
        """Send as much of this as the server reads, and return how much that was. The server may
        have closed."""
        view, end = memoryview(data), time.monotonic() + self.patience
        taken = 0
        while taken < len(view) and time.monotonic() < end:
            self.socket.settimeout(max(0.001, end - time.monotonic()))
            try:
                taken += self.socket.send(view[taken : taken + 65536])
            except OSError:
                break
        return taken

    def send(self, data: bytes) -> "Visitor":
        assert self.push(data) == len(data), "the server does not take a request"
        return self

    def more(self) -> bytes:
        """The next bytes; empty when the server has closed, however it did that."""
        left = self._due - time.monotonic()
        assert left > 0, f"nothing came within {self.patience:g} s"
        self.socket.settimeout(left)
        try:
            return self.socket.recv(1 << 18)
        except ConnectionError:
            return b""
        except socket.timeout:
            raise AssertionError(f"nothing came within {self.patience:g} s") from None

    def wait(self, seconds: Optional[float] = None) -> "Visitor":
        self._due = time.monotonic() + (self.patience if seconds is None else seconds)
        return self

    def head(self) -> Tuple[int, Dict[str, str]]:
        """Status and headers of the next response that is not 100 Continue."""
        self.wait()
        while True:
            try:
                first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")[:-2]
            except EOFError as error:
                raise AssertionError(f"closed without a response: {shown(error.args[0])}") from None
            status = _STATUS.fullmatch(first)
            assert status, f"no response: {shown(first.encode())}"
            if status[1] != "100":
                pairs = [line.partition(":") for line in lines]
                return int(status[1]), {name.lower(): value.strip() for name, _, value in pairs}

    def answer(self, method: str = "POST") -> Response:
        """The next response, to a request with this method: with a length, in chunks, or up to the
        end."""
        return self.body(method, *self.head())

    def body(self, method: str, status: int, headers: Dict[str, str]) -> Response:
        """A response with this head, whose body has not arrived yet."""
        self.wait()
        try:
            if method == "HEAD" or status in (204, 304):
                return Response(status, headers, b"")
            if headers.get("transfer-encoding", "").lower() == "chunked":
                return Response(status, headers, b"".join(self.chunks()))
            length = headers.get("content-length")
            return Response(
                status, headers, self.rest() if length is None else self.exactly(int(length))
            )
        except EOFError as error:
            raise AssertionError(
                f"half a response, of status {status}: {shown(error.args[0])}"
            ) from None

    def chunks(self) -> Iterator[bytes]:
        """Yield the pieces of a body, up to its end. The timeout starts again with each piece."""
        while True:
            self.wait()
            piece = self.chunk()
            if not piece:
                return
            yield piece

    def closes(self, seconds: Optional[float] = None) -> bytes:
        self.wait(seconds)
        return self.rest()

    def has_closed(self) -> bool:
        """Return whether the server has closed the connection. Received bytes are kept."""
        self.socket.settimeout(0)
        try:
            while True:
                data = self.socket.recv(1 << 18)
                self._rest += data
                if not data:
                    return True
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True


_URL = re.compile(r"http://(127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1\]):(\d+)(/[^\s'\"]*)?")


class Terms(NamedTuple):
    """The limits of an HTTP server: seconds, bytes and counts. The defaults are those of the
    catalogue."""

    head: float = 10.0  # for the head of a request
    body: float = 30.0  # for its body
    idle: float = 5.0  # between two requests
    write: float = 30.0  # to take a piece of a response
    keepalive: float = 15.0  # seconds of silence on a stream before a comment
    grace: float = 5.0  # for running requests when the server has to end
    session_ttl: float = 1800.0  # that a session lives without use
    connections: int = 1000  # at once
    sessions: int = 1000  # at once
    streams: int = 256  # of notices, at once
    body_bytes: int = 4 * 1024 * 1024  # of a body
    workers: int = 64  # handlers at once
    requests: int = 1000  # the number of started and unfinished ones at one time


class Site(Server):
    """An HTTP server command, started, and listening.

    "{port}" in the command becomes a free port. Without it, the command prints its URL on stdout or
    stderr, as http://127.0.0.1:PORT/PATH. `told` holds the terms that it receives in its
    environment.
    """

    def __init__(
        self, command: Sequence[str], patience: float, terms: Optional[Terms] = None, *,
        told: Optional[Mapping[str, float]] = None, port: int = 0,
    ) -> None:  # fmt: skip
        self.terms = terms or Terms()
        self.revisions: Tuple[str, ...] = ()
        self.port, self.path = port, "/mcp"
        if not port and any("{port}" in word for word in command):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                self.port = probe.getsockname()[1]
        env = {"FAULTS_TERMS": json.dumps(told or {}), "FAULTS_PORT": str(port)}
        words = [word.replace("{port}", str(self.port)) for word in command]
        with ExitStack() as failing:
            self._output = failing.enter_context(tempfile.TemporaryFile())
            outputs = {"stdin": subprocess.DEVNULL, "stdout": self._output, "stderr": self._output}
            super().__init__(words, None, patience, env=env, **outputs)
            failing.callback(super().dispose)
            assert eventually(self._listens, 3 * patience), (
                f"the server does not listen: {self.stderr()[-1000:]}"
            )
            failing.pop_all()

    def _listens(self) -> bool:
        assert not self.has_ended(), f"the server ended: {self.stderr()[-1000:]}"
        found = _URL.search(self.stderr())
        if found is not None:
            self.port = self.port or int(found[2])
            self.path = found[3] if (found[3] or "/") != "/" else self.path
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stderr(self) -> str:
        return os.pread(self._output.fileno(), 1 << 26, 0).decode("utf-8", "replace")

    def dispose(self) -> None:
        super().dispose()
        self._output.close()

    @property
    def threads(self) -> int:
        return self.status("Threads")

    def settled(self, look: Any, bound: float, wait: Optional[float] = None) -> float:
        """Wait until a figure is at most `bound`; the figure then, or the one after `wait` seconds
        if it never is."""
        found: List[float] = []
        eventually(
            lambda: found.append(look()) or found[-1] <= bound,
            self.patience if wait is None else wait,
        )
        return found[-1]

    def visitor(self, patience: Optional[float] = None, **others: Any) -> "Visitor":
        return Visitor(self.port, self.patience if patience is None else patience, **others)

    def wire(
        self, method: str, body: bytes = b"", path: Optional[str] = None, **instead: Optional[str]
    ) -> bytes:
        """Return the bytes of a request. `instead`: headers in addition to the usual ones or
        instead of them, "_" for "-", None to omit one."""
        headers: Dict[str, Optional[str]] = {"host": f"127.0.0.1:{self.port}"}
        if method == "POST":
            headers.update(
                content_type="application/json", accept="application/json, text/event-stream"
            )
        if body or method == "POST":
            headers["content_length"] = str(len(body))
        headers.update(instead)
        fields = [
            f"{name.replace('_', '-')}: {value}"
            for name, value in headers.items()
            if value is not None
        ]
        first = f"{method} {self.path if path is None else path} HTTP/1.1"
        return "\r\n".join([first, *fields, "", ""]).encode("latin-1") + body

    def exchange(self, data: bytes, method: str = "POST") -> Response:
        """The response to these bytes on a connection of their own, however it takes them."""
        with self.visitor() as visitor:
            visitor.push(data)
            return visitor.answer(method)

    def session(self, revision: Optional[str] = None) -> "Session":
        return Session(self, revision or max(self.revisions))

    def probe(self) -> float:
        """Seconds that a new connection takes to be answered."""
        begun = time.monotonic()
        with self.visitor() as visitor:
            status = visitor.send(self.wire("GET", path="/nothing-is-here")).answer("GET").status
        assert 400 <= status < 500, f"a probe got status {status}"
        return time.monotonic() - begun

    def probes(self, count: int = 5) -> Tuple[float, float]:
        """Return the median of this many probes, and the worst one."""
        found = [self.probe() for _ in range(count)]
        return statistics.median(found), max(found)

    def alive(self, bound: float = 1.0) -> float:
        """Show that it still works, by a call in each era; seconds that the slower took."""
        slowest = 0.0
        for revision in {max(self.revisions), min(self.revisions)}:
            session = self.session(revision)
            begun = time.monotonic()
            session.ping()
            if "echo" in self.tools:
                assert session.text("echo", {"text": "alive"}) == "alive", (
                    "echo said something else"
                )
            slowest = max(slowest, time.monotonic() - begun)
            session.end()
        assert slowest <= bound, f"a sign of life took {slowest:.1f} s"
        return slowest


class Session:
    """A raw HTTP client, with a handshake or stateless."""

    def __init__(self, site: Site, revision: str) -> None:
        self.site, self.revision = site, revision
        self.headers: Dict[str, str] = {}
        self._count = 0
        if revision == MODERN:
            return
        opened = site.exchange(self.post(request("i", "initialize", hello(revision))))
        [found] = [one for one in messages(opened) if same(one.get("id"), "i")] or [{}]
        assert "result" in found, f"initialize got status {opened.status}: {shown(opened.body)}"
        self.revision = found["result"]["protocolVersion"]
        if "mcp-session-id" in opened.headers:
            self.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        if revision >= "2025-06-18":
            self.headers["mcp-protocol-version"] = self.revision
        status = site.exchange(self.post(notification("notifications/initialized"))).status
        assert status == 202, f"notifications/initialized got status {status}"

    def post(self, message: Any, **instead: Optional[str]) -> bytes:
        """A message, or any bytes, as a POST; header names have "_" for "-", None leaves one out."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.site.wire("POST", body, **{**_headers(self.headers), **instead})

    def request(
        self, method: str, params: Any = None, id: Any = ABSENT, **instead: Optional[str]
    ) -> bytes:
        if id is ABSENT:
            self._count += 1
            id = f"h{self._count}"
        if self.revision != MODERN:
            return self.post(request(id, method, params), **instead)
        mirrored: Dict[str, Optional[str]] = {"mcp_protocol_version": MODERN, "mcp_method": method}
        named = (params or {}).get("uri" if method == "resources/read" else "name")
        if named is not None:
            mirrored["mcp_name"] = named
        return self.post(request(id, method, modern(params)), **{**mirrored, **instead})

    def call(self, tool: str, arguments: Any = None, *, id: Any = ABSENT, **params: Any) -> bytes:
        return self.request(
            "tools/call", {"name": tool, "arguments": arguments or {}, **params}, id
        )

    def listen(self, **instead: Optional[str]) -> bytes:
        return self.site.wire(
            "GET", accept="text/event-stream", **{**_headers(self.headers), **instead}
        )

    def stream(self) -> bytes:
        """Return the request that opens a stream of notices."""
        if self.revision == MODERN:
            return self.request(
                "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
        return self.listen()

    def ask(self, method: str, params: Any = None, **more: Any) -> Dict[str, Any]:
        return last(self.site.exchange(self.request(method, params, **more)))

    def text(self, tool: str, arguments: Any = None) -> str:
        return text_of(self.site.exchange(self.call(tool, arguments)))

    def ping(self) -> float:
        """A sign of life; seconds that it took."""
        begun = time.monotonic()
        found = self.ask("server/discover" if self.revision == MODERN else "ping")
        assert "result" in found, f"a ping was answered by {shown(found)}"
        return time.monotonic() - begun

    def end(self) -> None:
        if "mcp-session-id" in self.headers:
            self.site.exchange(self.delete(), "DELETE")

    def delete(self, **instead: Optional[str]) -> bytes:
        return self.site.wire("DELETE", **{**_headers(self.headers), **instead})


def _headers(given: Mapping[str, str]) -> Dict[str, Optional[str]]:
    return {name.replace("-", "_"): value for name, value in given.items()}


def messages(response: Response) -> List[Any]:
    """Return the messages of a body, one message or the events of a stream. Invalid JSON returns an
    empty list."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        return [decode(response.body)] if response.body else []
    return list(events(response.body)) if kind == "text/event-stream" else []


def events(body: bytes) -> Iterator[Any]:
    """Return the messages of an event stream, whose lines may end in three ways. An incomplete
    event is not a message."""
    for block in re.split(rb"\r\n\r\n|\n\n|\r\r", body)[:-1]:
        lines = re.split(rb"\r\n|\n|\r", block)
        data = [
            re.sub(rb"data: ?", b"", line, count=1) for line in lines if line.startswith(b"data:")
        ]
        if any(data):
            yield decode(b"\n".join(data))


def last(response: Response) -> Dict[str, Any]:
    """The answer in a response, which may have notifications before it."""
    found = [one for one in messages(response) if isinstance(one, dict) and "method" not in one]
    assert len(found) == 1, (
        f"{len(found)} answers in a response of status {response.status}: {shown(response.body)}"
    )
    answer: Dict[str, Any] = found[0]
    return answer


def text_of(response: Response) -> str:
    found = last(response)
    assert "result" in found and not found["result"].get("isError"), (
        f"a call was answered by {shown(found)}"
    )
    return str(found["result"]["content"][0]["text"])
