"""HTTP errors as the client reads them: every status with every kind of body, with a session that
the server still knows, with one that it has forgotten, and without one.

The rule: a JSON-RPC response with the id of the request is the response, whatever the status. Any
other 404 ends the session, and so do 400, 401, 410 and 422 if the server rejects a ping, too.
"""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import pytest

import minimcp
from minimcp.http import client as http_client
from minimcp.http.client import retry_after

from ..inside import forget_servers
from ..support import WAIT
from ..web import DISCOVERED, DONE, INITIALIZED, Heard, Peer, Wire

STATUSES = [400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 500, 502, 504]

# Statuses that real servers send for a session that they do not know.
MAY_MEAN_UNKNOWN = [400, 401, 404, 410, 422]


class Body(NamedTuple):
    """The body of an HTTP error: its text, given the id of the request, and its content type."""

    text: Callable[[Any], str]
    kind: Optional[str] = "application/json"


def failure(id: Any, code: int) -> str:
    error = {"code": code, "message": "peer says no"}
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": error})


OWN: Dict[str, Body] = {
    "own id": Body(lambda id: failure(id, -32000)),
    "own id, unknown method": Body(lambda id: failure(id, -32601)),
    "own id as text/plain": Body(lambda id: failure(id, -32000), "text/plain"),
    "own id without a type": Body(lambda id: failure(id, -32000), None),
    "own id as an event": Body(
        lambda id: f"event: message\ndata: {failure(id, -32000)}\n\n", "text/event-stream"
    ),
}
OTHER: Dict[str, Body] = {
    "null id": Body(lambda id: failure(None, -32000)),
    "an id of the server": Body(lambda id: failure("server-error", -32600)),
    "a web page": Body(lambda id: "<html>Unauthorized</html>", "text/html"),
    "text": Body(lambda id: "Session not found", "text/plain"),
    "nothing": Body(lambda id: "", None),
    "broken JSON": Body(lambda id: '{"jsonrpc": "2.0", '),
    "another object": Body(lambda id: '{"detail": "Not Found"}'),
    "a list": Body(lambda id: "[]"),
}
BODIES = {**OWN, **OTHER}

# Each body with each status that may end a session, and the other statuses with some bodies each.
CASES = [
    (status, body)
    for number, status in enumerate(STATUSES)
    for other, body in enumerate(BODIES)
    if status in MAY_MEAN_UNKNOWN or (number + other) % 4 == 0
]


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give slow machines time, and forget servers that had the same port in an earlier test."""
    forget_servers()
    for name in ("GET_SECONDS", "REST_SECONDS", "CLOSE_SECONDS", "PROBE_SECONDS", "ERROR_PAUSE"):
        monkeypatch.setattr(http_client, name, WAIT)


def connect(peer: Peer, **options: Any) -> minimcp.Client:
    return minimcp.connect(peer.url, **{"timeout": WAIT, "connect_timeout": WAIT, **options})


class Sessions:
    """A server with sessions. `forget` makes it forget all of them, as a restart does.

    Args:
        status, body: Its response to an unknown session, or to a call of the tool "bad".
    """

    def __init__(self, status: int, body: Body) -> None:
        self._status, self._body = status, body
        self.opened: List[str] = []
        self.known: List[str] = []
        self.slow, self.go = threading.Event(), threading.Event()

    def forget(self) -> None:
        self.known.clear()

    @property
    def said(self) -> Dict[str, Any]:
        return {
            "initialize": self.initialize,
            **dict.fromkeys(("tools/call", "prompts/list", "ping"), self._request),
        }

    def reject(self, heard: Heard, wire: Wire) -> None:
        wire.whole(self._status, self._body.text(wire.id).encode(), self._body.kind)

    def initialize(self, heard: Heard, wire: Wire) -> None:
        self.opened.append(f"s{len(self.opened)}")
        self.known.append(self.opened[-1])
        wire.result(INITIALIZED, Mcp_Session_Id=self.opened[-1])

    def _request(self, heard: Heard, wire: Wire) -> None:
        name = heard.message.get("params", {}).get("name")
        if heard.headers.get("mcp-session-id") not in self.known or name == "bad":
            self.reject(heard, wire)
        elif heard.method == "ping":
            wire.result({})
        elif name == "slow":
            self.slow.set()
            assert self.go.wait(WAIT)
            wire.result(DONE)
        else:
            wire.result(DONE)


@pytest.mark.parametrize(("status", "body"), CASES)
def test_a_session_that_the_server_has_forgotten_is_replaced_once(status: int, body: str) -> None:
    server = Sessions(status, BODIES[body])
    with Peer(server.said, handshake=True) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"
        server.forget()
        replaced = status in MAY_MEAN_UNKNOWN and body in OTHER
        # With 404, only an unknown method is certain to be the response to the call.
        replaced = replaced or (status == 404 and body != "own id, unknown method")
        if replaced:
            assert client.call_tool("t").text == "done"
        else:
            with pytest.raises(minimcp.McpError, match="peer says no|HTTP"):
                client.call_tool("t")
        assert len(server.opened) == 1 + replaced
        calls = [heard.headers["mcp-session-id"] for heard in peer.all("tools/call")]
        assert calls == ["s0", "s0", *(["s1"] if replaced else [])]


@pytest.mark.parametrize(("status", "body"), CASES)
def test_an_error_of_one_call_does_not_affect_the_session_and_other_calls(
    status: int, body: str
) -> None:
    if status == 404 and body in OTHER:
        return  # the specification gives this meaning: see the test above
    server = Sessions(status, BODIES[body])
    with Peer(server.said, handshake=True) as peer, connect(peer) as client:
        slow = client.submit(client.call_tool, "slow")
        assert server.slow.wait(WAIT)
        with pytest.raises(minimcp.McpError, match="peer says no|HTTP"):
            client.call_tool("bad")
        assert client.call_tool("t").text == "done"
        server.go.set()
        assert slow.result(WAIT).text == "done"
        assert len(server.opened) == 1
        assert len([heard for heard in peer.all("tools/call") if b"bad" in heard.body]) == 1


@pytest.mark.parametrize(("status", "body"), CASES)
def test_without_a_session_an_error_is_the_callers(status: int, body: str) -> None:
    server = Sessions(status, BODIES[body])
    with Peer({"tools/call": server.reject}) as peer, connect(peer) as client:
        with pytest.raises(minimcp.McpError, match="peer says no|HTTP") as caught:
            client.call_tool("t")
        assert peer.methods.count("tools/call") == 1 and "ping" not in peer.methods
        if body in OWN:
            assert isinstance(caught.value, minimcp.RpcError)


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_result_is_a_result_whatever_the_status(status: int) -> None:
    def call(heard: Heard, wire: Wire) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": wire.id, "result": DONE})
        wire.whole(status, body.encode())

    for handshake in (True, False):
        with Peer({"tools/call": call}, handshake=handshake) as peer, connect(peer) as client:
            assert client.call_tool("t").text == "done"
            assert len(peer.all("initialize")) == handshake


def test_a_401_is_a_matter_of_the_token_if_there_is_one() -> None:
    server = Sessions(401, OTHER["text"])
    with Peer(server.said, handshake=True) as peer, connect(peer, auth="key") as client:
        server.forget()
        with pytest.raises(minimcp.AuthorizationError, match="HTTP 401: Session not found"):
            client.call_tool("t")
        assert len(server.opened) == 1 and "ping" not in peer.methods


def test_a_server_that_knows_no_session_is_not_retried_forever() -> None:
    server = Sessions(400, OTHER["null id"])
    with Peer(server.said, handshake=True) as peer, connect(peer) as client:
        server.known = []
        initialize = server.initialize

        def forgetful(heard: Heard, wire: Wire) -> None:
            initialize(heard, wire)
            server.forget()

        peer.said["initialize"] = forgetful
        with pytest.raises(minimcp.ConnectionLost, match="do several processes serve this URL"):
            client.call_tool("t")
        assert len(server.opened) == 2


def test_a_call_that_ends_ends_the_check_of_its_session() -> None:
    asked = threading.Event()

    def ping(heard: Heard, wire: Wire) -> None:
        asked.set()
        wire.sock.recv(1)

    server = Sessions(400, OTHER["text"])
    with Peer({**server.said, "ping": ping}, handshake=True) as peer, connect(peer) as client:
        token = minimcp.CancelToken()
        call = client.submit(client.call_tool, "bad", cancel=token)
        assert asked.wait(WAIT)
        token.cancel("enough")
        with pytest.raises(minimcp.Cancelled, match="enough"):
            call.result(WAIT)


def test_a_ping_that_is_not_answered_leaves_the_error_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "PROBE_SECONDS", 0.1)
    server = Sessions(422, OTHER["text"])
    hang = {"ping": lambda heard, wire: wire.sock.recv(1)}
    with Peer({**server.said, **hang}, handshake=True) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="HTTP 422: Session not found"):
            client.call_tool("bad")
        assert client.call_tool("t").text == "done" and len(server.opened) == 1


# ------------------------------------------------------------ bodies that do not end


def _endless(status: int, kind: str, body: bytes) -> Callable[[Heard, Wire], None]:
    """A response whose head and first bytes arrive at once, and whose body never ends."""

    def say(heard: Heard, wire: Wire) -> None:
        head = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\n\r\n"
        wire.raw(head.encode() + body)
        wire.sock.recv(1)

    return say


@pytest.mark.parametrize("status", [200, 202, 204])
@pytest.mark.parametrize("body", [b"", b"accepted", b"x" * 100_000])
def test_a_notification_is_accepted_by_the_head_of_the_response(
    monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    monkeypatch.setattr(http_client, "REST_SECONDS", 0.05)
    said = {"notifications/initialized": _endless(status, "text/plain", body)}
    with Peer(said, handshake=True) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"


@pytest.mark.parametrize("status", [400, 500])
def test_an_error_whose_body_does_not_end_is_reported(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(http_client, "ERROR_PAUSE", 0.05)
    said = {"tools/call": _endless(status, "text/plain", b"because")}
    with Peer(said) as peer, connect(peer) as client:
        with pytest.raises(minimcp.McpError, match=f"HTTP {status}: because"):
            client.call_tool("t")


# ------------------------------------------------------------ busy servers

BUSY_BODIES = {**BODIES, "a result": Body(lambda id: json.dumps(_result(id)))}


def _result(id: Any) -> Dict[str, Any]:
    text = {"type": "text", "text": "too many calls"}
    done = {"resultType": "complete", "content": [text], "isError": True}
    return {"jsonrpc": "2.0", "id": id, "result": done}


@pytest.mark.parametrize("body", BUSY_BODIES)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("method", "handshake"),
    [("tools/call", True), ("tools/call", False), ("initialize", True), ("server/discover", False)],
)
def test_a_request_is_sent_again_when_the_server_says(
    method: str, handshake: bool, status: int, body: str
) -> None:
    refusals = [1]

    def busy(heard: Heard, wire: Wire) -> None:
        if refusals:
            refusals.pop()
            text = BUSY_BODIES[body].text(wire.id).encode()
            wire.whole(status, text, BUSY_BODIES[body].kind, Retry_After="0")
        elif method == "initialize":
            wire.result(INITIALIZED, Mcp_Session_Id="s-1")
        else:
            wire.result(DISCOVERED if method == "server/discover" else DONE)

    with Peer({method: busy}, handshake=handshake) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"
        assert len(peer.all(method)) == 2


def test_the_response_of_a_server_that_stays_busy_is_not_lost() -> None:
    def busy(heard: Heard, wire: Wire) -> None:
        body = BUSY_BODIES[heard.message["params"]["name"]].text(wire.id)
        wire.whole(429, body.encode(), Retry_After="100")

    with Peer({"tools/call": busy}) as peer, connect(peer) as client:
        result = client.call_tool("a result", raise_on_error=False, timeout=10)
        assert result.is_error and result.text == "too many calls"
        with pytest.raises(minimcp.RpcError, match="peer says no"):
            client.call_tool("own id", timeout=10)
        with pytest.raises(minimcp.ConnectionLost, match="HTTP 429"):
            client.call_tool("text", timeout=10)
        assert len(peer.all("tools/call")) == 3


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("1" * 5000, 86_400),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sun, 06 Nov 9994 08:49:37 GMT", 86_400),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("1.5", None),
        ("\u0663", None),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: Optional[int]) -> None:
    assert retry_after(value) == seconds


# ------------------------------------------------------------ responses that are not labeled well


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "text/json", "application/vnd.api+json", "text/html", "no type"]
)
@pytest.mark.parametrize("status", [200, 201, 202])
def test_a_result_with_another_content_type_is_not_lost(
    status: int, kind: Optional[str], caplog: pytest.LogCaptureFixture
) -> None:
    def call(heard: Heard, wire: Wire) -> None:
        result = {"content": [{"type": "text", "text": "x" * 100_000}]}
        body = json.dumps({"jsonrpc": "2.0", "id": wire.id, "result": result})
        wire.whole(status, body.encode(), kind)

    with Peer({"tools/call": call}) as peer, connect(peer) as client:
        for _ in range(2):
            assert client.call_tool("t").text == "x" * 100_000
        assert caplog.text.count("instead of application/json") == 1


def test_the_result_of_another_call_with_a_wrong_content_type_is_dropped() -> None:
    def call(heard: Heard, wire: Wire) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": 999_999, "result": DONE})
        wire.whole(200, body.encode(), "text/plain")

    with Peer({"tools/call": call}) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="got an invalid response"):
            client.call_tool("t")


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("has_challenge", [True, False])
def test_a_challenge_wins_over_an_error_with_our_id(status: int, has_challenge: bool) -> None:
    def call(heard: Heard, wire: Wire) -> None:
        more = {"WWW_Authenticate": "Bearer"} if has_challenge else {}
        wire.whole(status, failure(wire.id, -32601).encode(), **more)

    expected = minimcp.AuthorizationError if has_challenge else minimcp.RpcError
    with Peer({"tools/call": call}, handshake=True) as peer, connect(peer) as client:
        with pytest.raises(expected, match="peer says no"):
            client.call_tool("t")
        assert client.loss is None


@pytest.mark.parametrize("body", [b"", b"null", b"x" * 5000])
@pytest.mark.parametrize("status", [200, 202, 204])
def test_the_body_of_a_notifications_response_ends_nothing(status: int, body: bytes) -> None:
    said = {"notifications/x": lambda heard, wire: wire.whole(status, body)}
    with Peer(said, handshake=True) as peer, connect(peer) as client:
        for _ in range(3):
            client.notify("notifications/x")
            assert client.call_tool("t").text == "done"


def test_an_error_with_an_endless_body_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "ERROR_PAUSE", 0.2)
    over = threading.Event()

    def call(heard: Heard, wire: Wire) -> None:
        wire.raw(b"HTTP/1.1 400 Said\r\nContent-Length: 1000000\r\n\r\n")
        while not over.wait(0.02):
            wire.raw(b"x")

    with Peer({"tools/call": call}) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ProtocolViolation, match="HTTP 400: x"):
            client.call_tool("t", timeout=WAIT)
        over.set()
