"""Rows C39 to C62 of the fault catalogue, at a whole server over real sockets, where the kernel of HTTP is not enough.

What the HTTP server does with raw bytes alone is in tests/wire/test_http_server.py; who leaves, and many at once, are
rows of tests.faults.
"""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, Dict, Iterator

import pytest

from minimcp import Limits, Server
from minimcp.http.headers import HttpRequest
from minimcp.http.server import RunningHttp
from minimcp.protocol.sse import EventReader
from tests.rows import for_each
from tests.scripted import Task
from tests.transports.http_app import HANDSHAKE, alone, call, message, post
from tests.transports.http_peer import Peer, Response

GET = HttpRequest("GET", "/mcp", {"Accept": "text/event-stream"})


def make_server(**options: Any) -> Server:
    server = Server("faults", **options)

    @server.tool
    def echo(text: str) -> str:
        """Give the text back."""
        return text

    return server


@pytest.fixture
def server() -> Iterator[Server]:
    server = make_server()
    yield server
    server.close()


@pytest.fixture
def running(server: Server) -> Iterator[RunningHttp]:
    with server.start_http() as running:
        yield running
        running.close(0)


@pytest.fixture
def legacy(server: Server) -> Iterator[RunningHttp]:
    """Which serves the oldest transport too."""
    with server.start_http(legacy_sse=True) as running:
        yield running


def wire(running: RunningHttp, request: HttpRequest, **more: str) -> bytes:
    """The bytes of a request."""
    body: Any = request.body
    headers = {**dict(request.headers), "host": f"localhost:{running.port}", **more}
    if body or request.method == "POST":
        headers["content-length"] = str(len(body))
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + bytes(body)


def ask(running: RunningHttp, request: HttpRequest, **more: str) -> Response:
    """The response to a request on a connection of its own."""
    with Peer(running.port) as peer:
        return peer.send(wire(running, request, **more)).response()


def text_of(response: Response) -> Any:
    """What a tool said, in a body of JSON or as the last event."""
    body = response.body
    if response.headers["content-type"].startswith("text/event-stream"):
        body = list(EventReader().feed(body))[-1].data.encode()
    return json.loads(body)["result"]["content"][0]["text"]


def shake(running: RunningHttp) -> Dict[str, str]:
    """The headers of a new session."""
    hello = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}}
    with Peer(running.port) as peer:
        headers = peer.send(wire(running, post(message("initialize", hello, 0)))).response().headers
        session = {"mcp-session-id": headers["mcp-session-id"], "mcp-protocol-version": HANDSHAKE}
        assert peer.send(wire(running, post(message("notifications/initialized", id=None)), **session)).head()[0] == 202
    return session


def works(running: RunningHttp) -> None:
    """A new connection is served."""
    assert text_of(ask(running, call("echo", {"text": "alive"}))) == "alive"


# ------------------------------------------------------------ what is sent (C39 to C44, C51 to C54)


MALFORMED = [
    b"", b"{", b"nul", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":NaN}', b"[" * 100_000, b"[]", b"1",
    b'{"id":1}', b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}', b'{"jsonrpc":"2.0","id":[],"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
]  # fmt: skip


@for_each("body", MALFORMED)
@for_each("shaken", [False, True])
def test_c39_malformed_bodies_are_answered(running: RunningHttp, body: bytes, shaken: bool) -> None:
    with Peer(running.port) as peer:
        session = shake(running) if shaken else {}
        found = peer.send(wire(running, post(body), **session)).response()
        assert found.status == 400
        assert json.loads(found.body)["error"]["code"] in (-32700, -32600, -32602, -32022, -32020)
        assert text_of(peer.send(wire(running, call("echo", {"text": "on"}))).response()) == "on"


FOREIGN = [
    ("host", "evil.example"), ("host", "localhost:80:evil.example"), ("host", "localhost.evil.example"),
    ("host", "127.0.0.1.nip.io"), ("host", "localhost@evil.example"), ("origin", "http://evil.example"),
    ("origin", "http://127.0.0.1:1@evil.example"), ("origin", "http://localhost.evil.example"), ("origin", "null"),
    ("origin", "https://localhost:x"),
]  # fmt: skip


@for_each("name, value", FOREIGN)
@for_each("method", ["POST", "GET", "DELETE", "OPTIONS"])
@for_each("path", ["/mcp", "/sse", "/messages"])
def test_c42_who_comes_by_a_foreign_name_is_refused_before_the_body(
    legacy: RunningHttp, name: str, value: str, method: str, path: str
) -> None:
    with Peer(legacy.port) as peer:
        headers = {"host": f"localhost:{legacy.port}", "content-length": "1000", name: value}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        found = peer.send(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode()).response()
        assert found.status in ((400, 421) if name == "host" else (403,)), found


TYPES = ["text/plain", "application/jsonevil", "application/json; charset=utf-16", "multipart/form-data", ""]


@for_each("content_type", TYPES)
def test_c43_other_media_types(running: RunningHttp, content_type: str) -> None:
    assert ask(running, alone("ping"), **{"content-type": content_type}).status == 415
    assert ask(running, alone("ping"), **{"content-encoding": "gzip"}).status == 415


def test_c52_a_connection_goes_on_after_an_error_or_ends(running: RunningHttp) -> None:
    wrong = [post(b"{"), post(b"x", Origin="http://evil.example"), HttpRequest("GET", "/no", {}), post(b"{}")]
    wrong += [HttpRequest("PUT", "/mcp", {}, b"xyz"), post(b"x" * 5_000_000)]
    for request in wrong:
        with Peer(running.port) as peer:
            first = peer.send(wire(running, request)).response()
            assert 400 <= first.status < 500
            if first.headers.get("connection") == "close":
                assert peer.rest() == b""
            else:
                assert text_of(peer.send(wire(running, call("echo", {"text": "on"}))).response()) == "on"


@for_each("session", ["unknown", "a b", "x" * 5000, "\x7f", "\xe4", "a, b", ""])
def test_c54_sessions_that_are_none(running: RunningHttp, session: str) -> None:
    found = ask(running, post(message("ping")), **{"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE})
    assert found.status in (400, 404) and b"Traceback" not in found.body


# ------------------------------------------------------------ many (C55, C58, C61)


def test_c55_equal_ids_at_once_get_their_own_answers(running: RunningHttp) -> None:
    same, other = shake(running), shake(running)

    def one(number: int) -> bool:
        session = (same, other, {})[number % 3]
        params = {"name": "echo", "arguments": {"text": f"text {number}"}}
        request = post(message("tools/call", params, 7)) if session else call("echo", params["arguments"], id=7)
        return bool(text_of(ask(running, request, **session)) == f"text {number}")

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(300)))


# ------------------------------------------------------------ the end (C60), and the log (C62)


def test_c60_the_end_with_open_streams_is_quick_and_the_port_is_free() -> None:
    server = make_server(limits=Limits(drain_grace=600))
    running = server.start_http()
    session = shake(running)
    with ExitStack() as stack:
        stack.callback(server.close)
        peers = [stack.enter_context(Peer(running.port)) for _ in range(3)]
        assert peers[0].send(wire(running, GET, **session)).head()[0] == 200
        assert ask(running, call("echo", {"text": "x"})).status == 200
        Task(running.close).result()
        assert peers[0].rest().endswith((b"0\r\n\r\n", b""))
        with server.start_http(port=running.port) as again:
            works(again)
            assert ask(again, post(message("ping")), **session).status == 404


def test_c62_a_hostile_run_says_little(running: RunningHttp, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for data in (b"\x00", b"GET / HTTP/1.1\n\n", b"x" * 50_000, wire(running, post(b"{")), wire(running, GET)):
        for leave in (Peer.close, Peer.reset, Peer.rest):
            with Peer(running.port) as peer:
                try:
                    peer.send(data).finish()
                except OSError:
                    pass
                leave(peer)
    with Peer(running.port) as peer:
        peer.send(b"GET /mcp\r\nforged: line HTTP/1.1\r\nHost: localhost\r\n\r\n").rest()
    works(running)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Traceback" not in caplog.text and "forged" not in caplog.text
