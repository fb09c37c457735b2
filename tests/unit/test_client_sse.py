"""How a client finds out what kind of server a URL has, and HTTP+SSE from the client's side."""

from __future__ import annotations

import threading
from typing import Any, Dict, List

import pytest

import minimcp
from minimcp.http import client_sse

from ..inside import forget_servers, known_servers
from ..scripted import Task
from ..support import WAIT, around
from ..web import DISCOVERED, INITIALIZED, Heard, Peer, Wire


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    """A port may already belong to another test's server."""
    forget_servers()


def connect(peer: Peer, **options: Any) -> minimcp.Client:
    return minimcp.connect(peer.url, **{"timeout": WAIT, "connect_timeout": WAIT, **options})


UNSUPPORTED = -32022

TO_THE_HANDSHAKE: Dict[str, Any] = {
    "400 empty": lambda heard, wire: wire.whole(400, kind=None),
    "400 html": lambda heard, wire: wire.whole(400, b"<html>", "text/html"),
    "400 with an old error": lambda heard, wire: wire.error(-32000, "no session"),
    "404": lambda heard, wire: wire.whole(404, b"not found", "text/plain"),
    "404 with method not found": lambda heard, wire: wire.error(-32601, status=404),
    "405": lambda heard, wire: wire.whole(405),
    "406": lambda heard, wire: wire.whole(406),
    "415": lambda heard, wire: wire.whole(415),
    "200 with nothing that is a result": lambda heard, wire: wire.whole(
        200, b"hello", "text/plain"
    ),
    "200 with an old error": lambda heard, wire: wire.error(-32601, status=200),
    "only older versions": lambda heard, wire: wire.error(
        UNSUPPORTED, data={"supported": ["2025-11-25"]}
    ),
    "a discovery of older ones": lambda heard, wire: wire.result(
        {**DISCOVERED, "supportedVersions": ["2025-11-25"]}
    ),
}


@pytest.mark.requirement("M:VER-C15", "M:VER-C16", "M:VER-C7", "M:VER-C8")
@pytest.mark.parametrize("probe", TO_THE_HANDSHAKE)
def test_responses_that_lead_to_the_handshake(probe: str) -> None:
    with (
        Peer({"server/discover": TO_THE_HANDSHAKE[probe]}, handshake=True) as peer,
        connect(peer) as client,
    ):
        assert client.revision == "2025-11-25"
        assert peer.methods[:2] == ["server/discover", "initialize"]


NO_VERDICT: Dict[str, Any] = {
    "HTTP 500": lambda heard, wire: wire.whole(500),
    "HTTP 503": lambda heard, wire: wire.whole(503),
    "HTTP 429": lambda heard, wire: wire.whole(429),
    "HTTP 408": lambda heard, wire: wire.whole(408),
    "HTTP 401": lambda heard, wire: wire.whole(401),
    "HTTP 403": lambda heard, wire: wire.whole(403),
    "the connection broke": lambda heard, wire: wire.cut(),
    "supports 1999-01-01": lambda heard, wire: wire.error(
        UNSUPPORTED, data={"supported": ["1999-01-01"]}
    ),
    "header": lambda heard, wire: wire.error(-32020, "header"),
    "capability": lambda heard, wire: wire.error(-32021, "capability"),
}


@pytest.mark.requirement("M:VER-C6", "M:VER-C16", "M:VER-C17")
@pytest.mark.parametrize("words", NO_VERDICT)
def test_responses_without_a_verdict_raise(words: str) -> None:
    with Peer({"server/discover": NO_VERDICT[words]}, handshake=True) as peer:
        with pytest.raises(minimcp.McpError, match=words):
            connect(peer)
        assert peer.methods == ["server/discover"]


@pytest.mark.requirement("M:VER-C17")
def test_silence_is_not_a_verdict_over_http() -> None:
    def hang(heard: Heard, wire: Wire) -> None:
        wire.sock.recv(1)

    with Peer({"server/discover": hang}, handshake=True) as peer:
        with pytest.raises(minimcp.RequestTimeout, match="server/discover"):
            connect(peer, connect_timeout=0.3, probe_timeout=0.1)
    assert {*peer.methods} <= {"server/discover"}, "on a busy machine not even that is sent in time"


@pytest.mark.requirement("M:VER-C19")
def test_a_server_that_wants_the_handshake_is_not_probed_again() -> None:
    with Peer(handshake=True) as peer:
        for _ in range(2):
            with connect(peer):
                pass
        assert peer.methods.count("server/discover") == 1 and peer.methods.count("initialize") == 2


def test_not_very_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_sse, "MAX_KNOWN", 1)
    with Peer(handshake=True) as first, Peer(handshake=True) as second:
        for peer in (first, second):
            with connect(peer):
                assert list(known_servers()) == [peer.url]


@pytest.mark.requirement("M:VER-C20")
def test_a_server_that_has_become_another_one_is_probed_again() -> None:
    with Peer() as peer:
        known_servers()[peer.url] = client_sse.HttpClientSession
        with connect(peer) as client:
            assert client.revision == "2026-07-28"
        assert (
            peer.methods[:2] == ["initialize", "server/discover"]
            and peer.url not in known_servers()
        )


class Old:
    """A server of HTTP+SSE: one stream that brings everything."""

    def __init__(
        self,
        endpoint: str = "/messages?session=1",
        *,
        refusal: int = 405,
        code: int = 0,
        version: str = "2024-11-05",
    ) -> None:
        self.endpoint, self.refusal, self.code, self.version = endpoint, refusal, code, version
        self.streams: List[Wire] = []

    def said(self) -> Dict[str, Any]:
        return {
            "GET": self.get,
            "server/discover": self.post,
            "initialize": self.post,
            "tools/call": self.post,
            "roots/list": self.post,
        }

    def get(self, heard: Heard, wire: Wire) -> None:
        wire.stream()
        # first, because the client posts as soon as it has read the endpoint
        self.streams.append(wire)
        wire.event(self.endpoint, event="endpoint")
        wire.sock.recv(1)

    def post(self, heard: Heard, wire: Wire) -> None:
        if heard.path == "/mcp" and self.code:
            wire.error(self.code, status=self.refusal)
            return
        if heard.path == "/mcp":
            wire.whole(self.refusal, b"Cannot POST", "text/plain")
            return
        wire.whole(202, b"Accepted", "text/plain", Mcp_Session_Id="of-a-proxy")
        result: Any = {"content": [{"type": "text", "text": heard.path}]}
        if heard.method == "initialize":
            result = {**INITIALIZED, "protocolVersion": self.version}
        self.streams[-1].event({"id": wire.id, "result": result}, event="message")


@pytest.mark.requirement("M:VER-C18", "HSSE-03", "HSSE-12", "HSSE-13")
@pytest.mark.parametrize(
    ("status", "code"), [(400, 0), (404, 0), (405, 0), (405, -32600), (400, -32000)]
)
def test_a_server_that_knows_only_the_oldest_transport(status: int, code: int) -> None:
    old = Old(refusal=status, code=code)
    with Peer(old.said()) as peer:
        with connect(peer) as client:
            assert (
                client.revision == "2024-11-05"
                and client.call_tool("t").text == "/messages?session=1"
            )
        assert peer.methods == [
            "server/discover",
            "initialize",
            "GET",
            "initialize",
            "notifications/initialized",
            "tools/call",
        ]
        assert all("mcp-session-id" not in heard.headers for heard in peer.heard)
        with connect(peer):
            assert peer.methods[6:8] == ["GET", "initialize"]  # it is known by now


def test_messages_go_where_the_first_endpoint_says() -> None:
    class Odd(Old):
        def get(self, heard: Heard, wire: Wire) -> None:
            wire.stream()
            early = {
                "method": "notifications/message",
                "params": {"level": "info", "data": "early"},
            }
            wire.event(early, event="message")
            self.streams.append(wire)
            wire.event(self.endpoint, event="endpoint")
            wire.event("/elsewhere", event="endpoint")
            wire.sock.recv(1)

    with Peer(Odd().said()) as peer, connect(peer) as client:
        assert [client.call_tool("t").text for _ in range(2)] == ["/messages?session=1"] * 2


def test_a_connection_is_reused_after_an_accepted_post(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read, old = threading.Semaphore(0), Old()

    def read_answer(answer: Any, *given: Any) -> None:
        answer(*given)
        read.release()

    around(monkeypatch, client_sse.SseSession, "_read_answer", read_answer)

    def post(heard: Heard, wire: Wire) -> None:
        wire.whole(202, b"Accepted", "text/plain")
        assert read.acquire(timeout=WAIT)  # a response that arrives before ends the request
        old.streams[-1].event({"id": wire.id, "result": {"content": []}}, event="message")

    with Peer({**old.said(), "tools/call": post}) as peer, connect(peer) as client:
        read.acquire()  # of `initialize`
        client.call_tool("t")
        before = peer.connections
        client.call_tool("t")
        assert peer.connections == before


@pytest.mark.requirement("HSSE-12")
@pytest.mark.parametrize("status", [401, 403, 406, 415, 500])
def test_other_refusals_do_not_lead_there(status: int) -> None:
    old = Old(refusal=status)
    discover: Any = {"server/discover": lambda heard, wire: wire.whole(404)}
    with Peer({**old.said(), **discover}) as peer:
        with pytest.raises(
            (minimcp.ConnectionFailed, minimcp.AuthorizationError), match=f"HTTP {status}"
        ):
            connect(peer)
        assert "GET" not in peer.methods


def test_a_url_where_nothing_speaks_the_protocol() -> None:
    def page(heard: Heard, wire: Wire) -> None:
        wire.whole(200 if heard.verb == "GET" else 404, b"<html>hello", "text/html")

    with Peer({"GET": page, "server/discover": page, "initialize": page}) as peer:
        with pytest.raises(minimcp.ConnectionFailed) as caught:
            connect(peer)
        text = str(caught.value)
        assert (
            "HTTP 404: <html>hello (a web page: is this " in text
            and " (the older HTTP+SSE was tried too: " in text
        )
        assert "expected an event stream, got HTTP 200 with text/html" in text


@pytest.mark.requirement("X-23")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_the_header_of_the_revision_goes_with_every_later_message(version: str) -> None:
    with Peer(Old(version=version).said()) as peer, connect(peer) as client:
        client.call_tool("t")
        posted = [heard for heard in peer.heard if heard.verb == "POST" and heard.path != "/mcp"]
        assert [(heard.method, heard.headers.get("mcp-protocol-version")) for heard in posted] == [
            ("initialize", None),
            ("notifications/initialized", version),
            ("tools/call", version),
        ]


@pytest.mark.requirement("HSSE-14", "SEC-09")
@pytest.mark.parametrize("endpoint", ["//evil.example/m", "http://127.0.0.1:1/m", "/m\x01"])
def test_an_endpoint_elsewhere_is_refused_at_once(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table of `same_origin` in test_fetch.py defines which endpoints are on another origin."""
    monkeypatch.setattr(client_sse, "ENDPOINT_SECONDS", 2 * WAIT)
    old = Old()
    with Peer(old.said()) as peer:
        old.endpoint = endpoint.format(port=peer.port)
        with pytest.raises(minimcp.ConnectionFailed, match="must have the same origin, not"):
            Task(connect, peer).result()
        assert peer.methods == ["server/discover", "initialize", "GET"]


def test_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_sse, "ENDPOINT_SECONDS", 0.1)

    def silent(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.sock.recv(1)

    with Peer({**Old().said(), "GET": silent}) as peer:
        with pytest.raises(
            minimcp.ConnectionFailed, match="the server did not name an endpoint within 0.1 s"
        ):
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
        with pytest.raises(
            minimcp.ConnectionLost, match=f"^{peer.url}: the server ended the event stream"
        ):
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


def test_an_endpoint_is_waited_for_no_longer_than_there_is_time() -> None:
    def stream(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.sock.recv(1)

    with Peer({"initialize": lambda heard, wire: wire.whole(404), "GET": stream}) as peer:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client_sse, "ENDPOINT_SECONDS", 2 * WAIT)
            connecting = Task(connect, peer, revision="handshake", connect_timeout=1)
            assert isinstance(connecting.ended(), minimcp.ConnectionFailed)
