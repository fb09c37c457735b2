"""HTTP+SSE from the client's end: the endpoint, the one stream, and its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import minimcp
from minimcp.http import client_sse

from ..support import WAIT
from ..unit.test_client_sse import Old
from ..web import Heard, Peer, Wire


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """A port may be another test's server by now."""
    client_sse._known.clear()


def connect(peer: Peer, **options: Any) -> minimcp.Client:
    return minimcp.connect(peer.url, **{"timeout": WAIT, "connect_timeout": WAIT, **options})


@pytest.mark.requirement("HSSE-03")
@pytest.mark.parametrize("endpoint", ["/m", "m", "?m", "http://127.0.0.1:{port}/m"])
def test_relative_and_absolute_endpoints(endpoint: str) -> None:
    old = Old()
    with Peer(old.said()) as peer:
        old.endpoint = endpoint.format(port=peer.port)
        if old.endpoint == "?m":
            old.endpoint = "/x?m"
        with connect(peer) as client:
            assert client.call_tool("t").text in ("/m", "/x?m")


@pytest.mark.requirement("X-23")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_the_header_of_the_revision_goes_with_every_later_message(version: str) -> None:
    with Peer(Old(version=version).said()) as peer, connect(peer) as client:
        client.call_tool("t")
        posted = [heard for heard in peer.heard if heard.verb == "POST" and heard.path != "/mcp"]
        assert [(heard.method, heard.headers.get("mcp-protocol-version")) for heard in posted] == [
            ("initialize", None), ("notifications/initialized", version), ("tools/call", version),
        ]


@pytest.mark.requirement("HSSE-14", "SEC-09")
@pytest.mark.parametrize("endpoint", [
    "http://evil.example/m", "//evil.example/m", "javascript:alert(1)", "https://127.0.0.1/m", "http://127.0.0.1:1/m",
    "http://127.0.0.1:99999999/m", "/m\x01",
])
def test_an_endpoint_elsewhere_is_refused(endpoint: str) -> None:
    with Peer(Old(endpoint).said()) as peer:
        with pytest.raises(minimcp.ConnectionFailed, match="posted to the same origin, not to"):
            connect(peer)
        assert peer.methods == ["server/discover", "initialize", "GET"]


def test_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_sse, "ENDPOINT_SECONDS", 0.1)

    def silent(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.sock.recv(1)

    with Peer({**Old().said(), "GET": silent}) as peer:
        with pytest.raises(minimcp.ConnectionFailed, match="no endpoint for messages was named within 0.1 s"):
            connect(peer)


def test_the_end_of_the_stream_is_the_end() -> None:
    old, hanging = Old(), threading.Event()

    def hang(heard: Heard, wire: Wire) -> None:
        wire.whole(202, kind=None)
        hanging.set()

    with Peer({**old.said(), "tools/call": hang}) as peer, connect(peer) as client:
        future = client.submit(client.call_tool, "t")
        assert hanging.wait(WAIT)
        old.streams[-1].end()
        with pytest.raises(minimcp.ConnectionLost, match="the server ended the event stream"):
            future.result(WAIT)
        with pytest.raises(minimcp.ConnectionLost):
            client.call_tool("t")


def test_a_message_that_is_refused_fails_its_call_only() -> None:
    old = Old()

    def refuse(heard: Heard, wire: Wire) -> None:
        if heard.message["params"]["name"] == "bad":
            wire.whole(500, b"oh", "text/plain")
        else:
            old.post(heard, wire)

    with Peer({**old.said(), "tools/call": refuse}) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ConnectionLost, match="HTTP 500: oh"):
            client.call_tool("bad")
        assert client.call_tool("good").text == "/messages?session=1"


def test_restart_opens_another_stream() -> None:
    old = Old()
    with Peer(old.said()) as peer, connect(peer, restart=True) as client:
        assert client.call_tool("t").text
        old.streams[-1].cut()
        assert client._sessions.newest.session.wait_until_ended(WAIT)
        assert client.call_tool("t").text and len(old.streams) == 2
