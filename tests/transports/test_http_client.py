"""Streamable HTTP from the client's side, against a peer whose bytes the test chooses."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import socket
import ssl
import threading
import time
import zlib
from concurrent.futures import as_completed
from itertools import count
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
import requests
from requests.auth import AuthBase, HTTPBasicAuth, HTTPDigestAuth

import minimcp
from minimcp.engine import timer as deadlines
from minimcp.http import client as http_client
from minimcp.http.client import RequestHeaders
from minimcp.protocol.lifecycle import VERSION_KEY
from minimcp.protocol.messages import Json

from ..answering import Answering, result
from ..inside import forget_servers, session_of, sweep
from ..scripted import Task
from ..support import WAIT, MovedTime, eventually, refused_port
from ..web import DISCOVERED, DONE, INITIALIZED, Heard, Peer, Wire


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port may already belong to another test's server. Peers on a slow machine get time to
    answer GET and DELETE."""
    forget_servers()
    for name in ("GET_SECONDS", "REST_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(http_client, name, WAIT)


def connect(peer: Peer, **options: Any) -> minimcp.Client:
    return minimcp.connect(peer.url, **{"timeout": WAIT, "connect_timeout": WAIT, **options})


@pytest.mark.requirement("M:VER-C14", "M:HDR-1", "M:HDR-2", "M:HDR-3", "M:HTTP-2", "M:HTTP-3")
def test_a_stateless_call() -> None:
    with Peer() as peer, connect(peer) as client:
        assert client.revision == "2026-07-28" and client.call_tool("echo", {"a": 1}).text == "done"
        called = peer.all("tools/call")[0]
        assert peer.methods == ["server/discover", "tools/call"]
    sent = called.headers
    assert sent["mcp-method"] == "tools/call" and sent["mcp-name"] == "echo"
    assert (
        sent["mcp-protocol-version"] == "2026-07-28" and sent["content-type"] == "application/json"
    )
    assert (
        sent["accept"] == "application/json, text/event-stream"
        and sent["accept-encoding"] == "identity"
    )
    assert (
        called.message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    )
    assert "mcp-session-id" not in sent


def _progress(heard: Heard, wire: Wire) -> None:
    wire.stream()
    wire.chunk(b": a comment\n\n")
    token = heard.message["params"]["_meta"]["progressToken"]
    for number in range(3):
        wire.event(
            {
                "method": "notifications/progress",
                "params": {"progressToken": token, "progress": number},
            }
        )
    wire.answer()
    wire.end()


@pytest.mark.requirement("M:HTTP-4", "M:HTTP-22", "M:PROG-9")
def test_an_answer_as_events_with_progress_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minimcp.http.fetch.KEPT_SECONDS", WAIT)
    with Peer({"tools/call": _progress}) as peer, connect(peer) as client:
        for _ in range(3):
            seen: List[float] = []
            assert (
                client.call_tool(
                    "t", on_progress=lambda item, seen=seen: seen.append(item.progress)
                ).text
                == "done"
            )
            assert seen == [0, 1, 2]
    assert peer.connections == 1  # the connection was kept, for streams too


@pytest.mark.requirement("M:HTTP-8", "M:CAN-1", "M:CAN-8")
@pytest.mark.parametrize("begins", [False, True])
def test_giving_up_closes_the_response(begins: bool) -> None:
    gone = threading.Event()

    def hang(heard: Heard, wire: Wire) -> None:
        if begins:
            wire.stream()
        if wire.sock.recv(1) == b"":
            gone.set()

    with Peer({"tools/call": hang}) as peer, connect(peer) as client:
        with pytest.raises(
            minimcp.RequestTimeout, match="/mcp: tools/call 'slow': no answer within 1 s"
        ):
            client.call_tool("slow", timeout=1)
        assert gone.wait(WAIT)
        token = minimcp.CancelToken()
        future = client.submit(client.call_tool, "slow", cancel=token)
        peer.wait_for("tools/call", 2)
        token.cancel()
        with pytest.raises(minimcp.Cancelled):
            future.result(WAIT)
        assert "notifications/cancelled" not in peer.methods


WRONG: Dict[str, Any] = {
    "with text/html: .*<html>": lambda heard, wire: wire.whole(200, b"<html>hi", "text/html"),
    "HTTP 204 with no content type": lambda heard, wire: wire.whole(204, kind=None),
    "HTTP 202 with no": lambda heard, wire: wire.whole(202, kind=None),
    r"HTTP 500: <html>": lambda heard, wire: wire.whole(500, b"<html>", "text/html"),
    r"HTTP 429, with an empty body \(Retry-After: 30\)": lambda heard, wire: wire.whole(
        429, Retry_After="30"
    ),
    "HTTP 404: gone": lambda heard, wire: wire.whole(404, b"gone", "text/plain"),
    r"\(Location: http://x/\): only redirects to the same origin are followed": lambda heard, wire: (
        wire.whole(302, Location="http://x/")
    ),
    r"got an invalid response: .* with application/json: .*a.: 1": lambda heard, wire: wire.whole(
        200, b'{"a": 1}'
    ),
    "got an invalid response: .*not json": lambda heard, wire: wire.whole(200, b"not json"),
    "have its request's id": lambda heard, wire: wire.whole(
        200, b'{"jsonrpc": "2.0", "id": null, "result": []}'
    ),
    "an error must have an integer code": lambda heard, wire: wire.whole(
        200, b'{"jsonrpc":"2.0","id":%d,"error":"x"}' % wire.id
    ),
    "the request did not allow": lambda heard, wire: wire.whole(
        200, zlib.compress(b"{}"), Content_Encoding="gzip"
    ),
    "ends too early": lambda heard, wire: (
        wire.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        or wire.cut()
    ),
    "broke in the middle": lambda heard, wire: (
        wire.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCon") or wire.cut()
    ),
    "broke in the middle of": lambda heard, wire: (
        wire.raw(b"HTTP/1.1 200 OK\r\nConte") or wire.cut()
    ),
    "broke in the middle of the response": lambda heard, wire: (
        wire.raw(b"HTTP/1.1 200") or wire.cut()
    ),
    "ends too early: Incomp": lambda heard, wire: (
        wire.raw(
            b'HTTP/1.1 400 No\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"jsonrpc":'
        )
        or wire.cut()
    ),
    "HTTP 204 with": lambda heard, wire: (
        wire.raw(b"HTTP/1.1 204 No\r\nConnection: close\r\n\r\n") or wire.cut()
    ),
    "the connection broke": lambda heard, wire: wire.cut(),
    "the connection broke.*BadStatusLine": lambda heard, wire: (
        wire.raw(b"SSH-2.0 hello\r\n\r\n") or wire.cut()
    ),
    "ends too early: IncompleteRead": lambda heard, wire: (
        wire.raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}"
        )
        or wire.cut()
    ),
    "the connection broke.*headers": lambda heard, wire: (
        wire.raw(
            b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n"
        )
        or wire.cut()
    ),
    "the connection broke.*header line": lambda heard, wire: (
        wire.raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n") or wire.cut()
    ),
    "before the response": lambda heard, wire: wire.stream() or wire.end(),
    "stream before": lambda heard, wire: (
        wire.stream() or wire.event({"method": "n"}, id="7") or wire.cut()
    ),
    "before the response.*too early: IncompleteRead": lambda heard, wire: (
        wire.stream() or wire.cut()
    ),
}


@pytest.mark.requirement("M:HTTP-25", "M:HTTP-26", "M:HTTP-32", "M:HTTP-33", "M:HTTP-34")
@pytest.mark.parametrize("words", WRONG)
def test_an_invalid_response_fails_at_once_and_nothing_is_sent_again(words: str) -> None:
    with Peer({"tools/call": WRONG[words]}) as peer, connect(peer) as client:
        with pytest.raises(
            (minimcp.ConnectionLost, minimcp.ProtocolViolation), match=words
        ) as caught:
            client.call_tool("t")
        assert "\n" not in str(caught.value) and "requests" not in type(caught.value).__module__
        assert peer.methods == ["server/discover", "tools/call"]
        peer.said["tools/call"] = lambda heard, wire: wire.result(DONE)
        assert client.call_tool("t").text == "done" and client.loss is None


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, minimcp.AuthorizationError, r"HTTP 401.*\(WWW-Authenticate: Bearer x\)"),
        (400, minimcp.InvalidParams, "^no"),
        (403, minimcp.AuthorizationError, r"HTTP 403.*\(WWW-Authenticate: Bearer x\)"),
    ],
)
def test_a_protocol_error_reaches_the_caller_unless_authorization_failed(
    status: int, kind: Any, words: str
) -> None:
    def refuse(heard: Heard, wire: Wire) -> None:
        wire.whole(
            status,
            b'{"jsonrpc":"2.0","error":{"code":-32602,"message":"no"}}',
            WWW_Authenticate="Bearer x",
        )

    with Peer({"tools/call": refuse}) as peer, connect(peer) as client:
        with pytest.raises(kind, match=words):
            client.call_tool("t")
        assert len(peer.all("tools/call")) == 1


@pytest.mark.requirement("M:VER-C25")
@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_to_the_same_origin_is_followed_once_and_remembered(status: int) -> None:
    def moved(answer: Any) -> Callable[[Heard, Wire], None]:
        return lambda heard, wire: (
            wire.whole(status, Location="/mcp/") if heard.path == "/mcp" else answer(heard, wire)
        )

    said = {
        "server/discover": moved(lambda heard, wire: wire.result(DISCOVERED)),
        "tools/call": moved(lambda heard, wire: wire.result(DONE)),
    }
    with Peer(said) as peer, connect(peer) as client:
        assert client.call_tool("t").text == client.call_tool("t").text == "done"
        assert [(heard.verb, heard.path) for heard in peer.heard] == [
            ("POST", "/mcp"),
            *3 * [("POST", "/mcp/")],
        ]


@pytest.mark.requirement("M:VER-C25")
@pytest.mark.parametrize(
    ("status", "location"),
    [
        (301, "/mcp/"),
        (302, "/mcp/"),
        (303, "/mcp/"),
        (307, "http://localhost:1/mcp"),
        (308, "//x/mcp"),
    ],
)
def test_other_redirects_are_refused(status: int, location: str) -> None:
    with Peer({"tools/call": lambda heard, wire: wire.whole(status, Location=location)}) as peer:
        with connect(peer) as client:
            with pytest.raises(
                minimcp.ProtocolViolation, match="only redirects to the same origin are followed"
            ):
                client.call_tool("t")
        assert peer.methods == ["server/discover", "tools/call"]


@pytest.mark.requirement("M:CAN-5")
def test_responses_to_other_requests_are_dropped() -> None:
    def confuse(heard: Heard, wire: Wire) -> None:
        wire.stream()
        for id in (wire.id + 1, "x"):
            wire.event({"id": id, "result": {"content": []}})
        wire.event("no json")
        wire.answer()
        wire.end()

    with Peer({"tools/call": confuse}) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"


@pytest.mark.parametrize("streamed", [False, True])
def test_an_id_returned_as_text_over_http(streamed: bool) -> None:
    def answer(heard: Heard, wire: Wire) -> None:
        body = {"jsonrpc": "2.0", "id": str(wire.id), "result": DONE}
        if streamed:
            wire.stream()
            wire.event(body)
            wire.end()
        else:
            wire.whole(200, json.dumps(body).encode())

    with Peer({"tools/call": answer}) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"


BROKEN_EVENTS = [
    '{"jsonrpc":"2.0","id":%d,"result":{"a":NaN}}',
    '{"jsonrpc":"2.0","id":%d,"result":{"a":"x\ty"}}',
    '{"jsonrpc":"2.0","id":%d,"result":{"a":',
    '{"result":{"a":undefined},"id":%d}',
    '{"jsonrpc":"2.0","id":"%d","result":{"a":NaN}}',
    '{"jsonrpc":"2.0","id":%d,"result":"text"}',
]


@pytest.mark.parametrize("event", BROKEN_EVENTS)
@pytest.mark.parametrize("legacy", [False, True])
def test_an_event_that_cannot_be_read_ends_its_call_at_once(event: str, legacy: bool) -> None:
    """The stream stays open, because otherwise the call would wait until its timeout."""
    stay = threading.Event()

    def answer(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.event(event % wire.id)
        stay.wait(WAIT)

    with Peer({"tools/call": answer}, handshake=legacy) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ProtocolViolation) as caught:
            client.call_tool("t", timeout=2 * WAIT)
        assert caught.value.peer_message and not stay.is_set()
        stay.set()


def _tools(*schemas: Any) -> Json:
    tools = [{"name": f"t{number}", "inputSchema": schema} for number, schema in enumerate(schemas)]
    return {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private"}


@pytest.mark.requirement(
    "M:XH-1", "M:XH-6", "M:XH-7", "M:XH-9", "M:XH-10", "M:XH-11", "M:XH-13", "M:XH-14", "M:HDR-5"
)
def test_arguments_are_mirrored_and_wrong_tools_left_out(caplog: pytest.LogCaptureFixture) -> None:
    good = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "b": {"type": "boolean", "x-mcp-header": "B"},
            "plain": {"type": "string"},
        },
    }
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    with (
        Peer({"tools/list": lambda heard, wire: wire.result(_tools(good, bad))}) as peer,
        connect(peer) as client,
    ):
        client.call_tool("t0", {"region": "x"})
        assert "mcp-param-region" not in peer.all("tools/call")[0].headers
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert [tool.name for tool in client.list_tools()] == ["t0"]
        assert (
            len([record for record in caplog.records if "t1 is left out" in record.getMessage()])
            == 1
        )
        client.call_tool("t0", {"region": "Hello, 世界", "n": 42, "b": False, "plain": "x"})
        sent = peer.all("tools/call")[1].headers
        assert sent["mcp-param-region"] == "=?base64?SGVsbG8sIOS4lueVjA==?="
        assert (sent["mcp-param-n"], sent["mcp-param-b"]) == (
            "42",
            "false",
        ) and "mcp-param-plain" not in sent
        client.call_tool("t0", {"region": "", "n": None})
        sent = peer.all("tools/call")[2].headers
        assert sent["mcp-param-region"] == "" and "mcp-param-n" not in sent
        client.call_tool("t0", {"region": "a\tb", "n": 42.0})
        sent = peer.all("tools/call")[3].headers
        assert (sent["mcp-param-region"], sent["mcp-param-n"]) == ("=?base64?YQli?=", "42")
        client.call_tool("ツール\r\nX: y")
        assert peer.all("tools/call")[4].headers["mcp-name"].startswith("=?base64?")


def test_the_deadline_ends_a_look_at_many_listed_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, moved = list[Any](), MovedTime()

    def look(schema: Any) -> List[Any]:
        looks.append(schema)
        moved.ahead += WAIT / 2
        return []

    monkeypatch.setattr(deadlines, "time", moved)
    monkeypatch.setattr(http_client, "header_params", look)
    schemas = [{"type": "object"}] * 100
    with (
        Peer({"tools/list": lambda heard, wire: wire.result(_tools(*schemas))}) as peer,
        connect(peer) as client,
    ):
        with pytest.raises(minimcp.RequestTimeout, match=f"tools/list took longer than {WAIT:g} s"):
            client.list_tools(timeout=WAIT)
    assert len(looks) <= 2


@pytest.mark.requirement("M:HDR-3", "M:HDR-4")
def test_names_that_are_sent_in_a_header() -> None:
    def headers(method: str, **params: Any) -> Dict[str, str]:
        return RequestHeaders("peer", minimcp.Tasks.names).of(
            method, {"_meta": {VERSION_KEY: "2026-07-28"}, **params}
        )

    members = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    members.update(dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"))
    for method, member in members.items():
        assert headers(method, **{member: "x y"}) == {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": method,
            "Mcp-Name": "x y",
        }
    assert "Mcp-Name" not in headers("tools/list", name="x") and "Mcp-Name" not in headers(
        "tools/call", name=5
    )
    assert RequestHeaders("peer", {}).of("tools/list", {}) == {}


@pytest.mark.requirement("M:XH-8")
def test_header_annotations_are_ignored_without_http() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "a b"}}}
    server = Answering(
        {"tools/list": result(tools=[{"name": "bad", "inputSchema": schema}])}, modern=True
    )
    with minimcp.connect(server, timeout=WAIT) as client:
        assert [tool.name for tool in client.list_tools()] == ["bad"]


@pytest.mark.requirement("M:MRTR-C15")
def test_each_round_has_all_headers() -> None:
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "R"}}}
    question = {
        "mode": "form",
        "message": "?",
        "requestedSchema": {"type": "object", "properties": {}},
    }
    asking = {
        "resultType": "input_required",
        "requestState": "s",
        "inputRequests": {"who": {"method": "elicitation/create", "params": question}},
    }

    def call(heard: Heard, wire: Wire) -> None:
        wire.result(DONE if "inputResponses" in heard.message["params"] else asking)

    said: Any = {"tools/list": lambda heard, wire: wire.result(_tools(schema)), "tools/call": call}
    with Peer(said) as peer, connect(peer, elicit=lambda request: {}) as client:
        client.list_tools()
        assert client.call_tool("t0", {"r": "x"}).text == "done"
        first, second = (
            dict(heard.headers, **{"content-length": ""}) for heard in peer.all("tools/call")
        )
    assert first == second and (second["mcp-param-r"], second["mcp-name"]) == ("x", "t0")
    assert second["mcp-method"] == "tools/call" and "mcp-protocol-version" in second


@pytest.mark.requirement("M:XH-15", "M:XH-16")
def test_a_header_that_is_missing_is_found_in_a_new_list_and_one_that_cannot_be_is_not_sent() -> (
    None
):
    schema = {
        "type": "object",
        "properties": {
            "r": {"type": "string", "x-mcp-header": "R"},
            "n": {"type": "integer", "x-mcp-header": "N"},
        },
    }

    def call(heard: Heard, wire: Wire) -> None:
        wire.result(DONE) if heard.headers.get("mcp-param-r") == "x" else wire.error(
            -32020, "Header mismatch"
        )

    said: Any = {"tools/list": lambda heard, wire: wire.result(_tools(schema)), "tools/call": call}
    with Peer(said) as peer, connect(peer) as client:
        assert client.call_tool("t0", {"r": "x"}).text == "done"
        assert peer.methods[1:] == ["tools/call", "tools/list", "tools/call"]
        with pytest.raises(minimcp.HeaderMismatch):
            client.call_tool("t0", {"r": "y"})
        assert peer.methods[4:] == ["tools/call", "tools/list", "tools/call"]
        with pytest.raises(ValueError, match="too large"):
            client.call_tool("t0", {"n": 2**60})
        assert len(peer.methods) == 7
    with Peer(said) as peer, connect(peer) as client:
        assert [result.text for result in client.call_tools([("t0", {"r": "x"})] * 3)] == [
            "done"
        ] * 3
        assert peer.methods[1:] == ["tools/call"] * 3 + ["tools/list"] + ["tools/call"] * 3


@pytest.mark.requirement(
    "SHTTP-07", "SHTTP-08", "SHTTP-09", "SHTTP-31", "SHTTP-64", "SHTTP-69", "M:VER-C16"
)
@pytest.mark.requirement("SHTTP-80", "SHTTP-81", "SHTTP-86")
@pytest.mark.parametrize(
    ("revision", "session"), [("2025-11-25", {"mcp-session-id": "s-1"}), ("2025-03-26", {})]
)
def test_a_session(revision: str, session: Any) -> None:
    opened = {**INITIALIZED, "protocolVersion": revision}
    said: Any = {"initialize": lambda heard, wire: wire.result(opened, **session)}
    with Peer(said, handshake=True) as peer:
        with connect(peer) as client:
            assert client.revision == revision and client.call_tool("t").text == "done"
        wanted = [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "GET",
            "tools/call",
            "DELETE",
        ]
        assert peer.methods == (wanted if session else wanted[:-1])
        assert all(isinstance(heard.message, dict) for heard in peer.heard)
        for heard in peer.heard[2:]:
            assert session.items() <= heard.headers.items()
            assert heard.headers["mcp-protocol-version"] == revision
        assert "mcp-protocol-version" not in peer.heard[1].headers
        assert peer.all("GET")[0].headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    "say",
    [
        lambda heard, wire: wire.whole(405),
        lambda heard, wire: wire.whole(404, b"<html>", "text/html"),
        lambda heard, wire: wire.whole(400),
        lambda heard, wire: wire.whole(200, b"<html>", "text/html"),
        lambda heard, wire: wire.whole(500),
        lambda heard, wire: wire.cut(),
        lambda heard, wire: wire.sock.recv(1),
    ],
)
def test_every_odd_answer_to_get_and_delete_is_borne_and_silence_too(
    say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GET_SECONDS", "CLOSE_SECONDS"):
        monkeypatch.setattr(http_client, name, 0.5)
    with Peer({"GET": say, "DELETE": say}, handshake=True) as peer:
        with connect(peer) as client:
            assert client.call_tool("t").text == "done"
        peer.wait_for("DELETE")


@pytest.mark.requirement("SHTTP-30", "SHTTP-37")
def test_unsolicited_messages_also_arrive_on_a_reopened_stream() -> None:
    changed = threading.Event()

    def get(heard: Heard, wire: Wire) -> None:
        wire.stream()
        if "last-event-id" in heard.headers:
            assert heard.headers["last-event-id"] == "n-1"
            wire.event({"method": "notifications/tools/list_changed"})
            wire.sock.recv(1)
        peer.wait_for("tools/call")
        wire.event({"id": "ask", "method": "roots/list"}, id="n-1", retry=1)
        wire.cut()

    with Peer({"GET": get}, handshake=True) as peer:
        with connect(peer, on_tools_changed=changed.set, roots=["/tmp"]) as client:
            client.call_tool("t")
            answer = peer.wait_for("an answer")
            assert answer.message["id"] == "ask" and answer.message["result"]["roots"]
            assert answer.headers["mcp-session-id"] == "s-1"
            assert changed.wait(WAIT)


@pytest.mark.requirement("SHTTP-43", "SHTTP-44", "SHTTP-48", "SHTTP-50", "SHTTP-52")
def test_a_stream_that_is_cut_is_resumed() -> None:
    at: List[float] = []

    def call(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.event("", id="e-1", retry=300)
        peer.call_id = wire.id  # type: ignore[attr-defined]
        at.append(time.monotonic())
        wire.end() if heard.message["params"]["name"] == "polled" else wire.cut()

    def get(heard: Heard, wire: Wire) -> None:
        if "last-event-id" not in heard.headers:
            wire.whole(405)
            return
        at.append(time.monotonic())
        wire.stream()
        wire.event({"id": peer.call_id, "result": DONE}, id="e-2")  # type: ignore[attr-defined]
        wire.end()

    with Peer({"tools/call": call, "GET": get}, handshake=True) as peer, connect(peer) as client:
        for number, name in enumerate(("polled", "cut")):
            assert client.call_tool(name).text == "done"
            assert peer.all("GET")[number + 1].headers["last-event-id"] == "e-1"
        assert at[1] - at[0] >= 0.3 and at[3] - at[2] >= 0.3
        assert len(peer.all("tools/call")) == 2


@pytest.mark.requirement("SHTTP-48")
@pytest.mark.parametrize("auth", [None, HTTPBasicAuth("me", "x")])
@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("\u65e5\u672c".encode(), "\u65e5\u672c".encode()),
        (b"\xc3\xa9", b"\xc3\xa9"),
        (b"a\xff\xfe", b"a\xff\xfe"),
        (b"x" * 4096, b"x" * 4096),
        (b"x" * 4097, b"e-1"),
    ],
)
def test_an_event_id_is_returned_as_the_same_bytes(said: bytes, sent: bytes, auth: Any) -> None:
    ids: List[Any] = []

    def call(heard: Heard, wire: Wire) -> None:
        ids.append(wire.id)
        wire.stream()
        wire.chunk(b"id: e-1\nretry: 1\ndata:\n\nid: " + said + b"\ndata:\n\n")
        wire.cut()

    def get(heard: Heard, wire: Wire) -> None:
        if "last-event-id" not in heard.headers:
            wire.whole(405)
            return
        wire.stream()
        wire.event({"id": ids[0], "result": DONE})
        wire.end()

    with (
        Peer({"tools/call": call, "GET": get}, handshake=True) as peer,
        connect(peer, auth=auth) as client,
    ):
        assert client.call_tool("t").text == "done"
        assert peer.all("GET")[-1].headers["last-event-id"].encode("latin-1") == sent


@pytest.mark.parametrize("how", ["deadline", "cancel", "close"])
def test_a_call_ends_though_its_stream_is_full_of_events(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Send progress to a slow callback, and other messages, as fast as the client accepts them."""

    def call(heard: Heard, wire: Wire) -> None:
        wire.stream()
        params = {"progressToken": heard.message["params"]["_meta"]["progressToken"], "progress": 1}
        told = [
            {"method": "notifications/progress", "params": params},
            {"id": "q", "method": "ping"},
        ]
        told += [{"method": "notifications/message", "params": {"level": "info", "data": "x"}}]
        lines = b"".join(
            b'data: {"jsonrpc": "2.0", %s\n\n' % json.dumps(each)[1:].encode() for each in told
        )
        while True:  # until the client leaves
            wire.chunk(lines * 1000)

    def slow(item: Any) -> None:
        begun.set()
        threading.Event().wait(0.01)

    begun, token, moved = threading.Event(), minimcp.CancelToken(), MovedTime()
    monkeypatch.setattr(deadlines, "time", moved)
    raised = {
        "deadline": minimcp.RequestTimeout,
        "cancel": minimcp.Cancelled,
        "close": minimcp.ConnectionLost,
    }[how]
    with Peer({"tools/call": call}, handshake=True) as peer, connect(peer, on_log=slow) as client:
        calling = Task(client.call_tool, "t", cancel=token, on_progress=slow)
        assert begun.wait(WAIT)
        if how == "deadline":
            moved.ahead = 2 * WAIT
            sweep(session_of(client).calls)  # as the timer does
        elif how == "cancel":
            token.cancel()
        elif how == "close":
            client.close()
        assert type(calling.ended()) is raised


def _gaps(at: List[float]) -> List[float]:
    return [after - before for before, after in zip(at, at[1:])]


@pytest.mark.parametrize("calls", [False, True])
def test_a_server_that_is_asked_again_and_again_for_nothing_is_asked_less_and_less(
    calls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream of a call and the stream for notifications send new ids, ``retry: 0``, and nothing
    else."""
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.1)
    monkeypatch.setattr(http_client, "MIN_PAUSE", 0.01)
    monkeypatch.setattr(
        http_client, "Deadline", lambda seconds: deadlines.NEVER
    )  # no stream lives for long
    at: List[float] = []

    def primed(wire: Wire) -> None:
        at.append(time.monotonic())
        wire.stream()
        wire.chunk(b"retry: 0\nid: e-%d\ndata:\n\n" % len(at))
        wire.end()

    def get(heard: Heard, wire: Wire) -> None:
        if calls and "last-event-id" not in heard.headers:
            wire.whole(405)
        elif len(at) < 5:
            primed(wire)
        else:
            at.append(time.monotonic())
            wire.stream()
            told = (
                {"id": peer.call_id, "result": DONE}
                if calls
                else {"method": "notifications/tools/list_changed"}
            )
            wire.event(told)
            wire.end() if calls else wire.sock.recv(1)

    def call(heard: Heard, wire: Wire) -> None:
        peer.call_id = wire.id  # type: ignore[attr-defined]
        primed(wire)

    changed = threading.Event()
    with Peer({"GET": get, "tools/call": call}, handshake=True) as peer:
        with connect(peer, on_tools_changed=changed.set) as client:
            if calls:
                assert client.call_tool("t").text == "done"
            assert calls or changed.wait(WAIT)
    gaps = _gaps(at)
    assert len(gaps) == 5 and min(gaps) >= 0.01 and gaps[3] >= 0.1 and gaps[4] >= 0.2, gaps


def test_the_retry_time_of_a_server_is_respected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server polls: each stream ends at once with a new id, and names the seconds until more is
    available."""
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.05)
    at: List[float] = []

    def poll(heard: Heard, wire: Wire) -> None:
        if heard.verb == "POST":
            peer.call_id = wire.id  # type: ignore[attr-defined]
        elif "last-event-id" not in heard.headers:
            wire.whole(405)
            return
        at.append(time.monotonic())
        wire.stream()
        wire.chunk(b"retry: 60\nid: e-%d\ndata:\n\n" % len(at))
        if len(at) == 10:
            wire.event({"id": peer.call_id, "result": DONE})  # type: ignore[attr-defined]
        wire.end()

    monkeypatch.setattr(http_client, "MIN_PAUSE", 0.01)
    with Peer({"GET": poll, "tools/call": poll}, handshake=True) as peer, connect(peer) as client:
        assert client.call_tool("t").text == "done"
    assert len(at) == 10


def test_messages_without_a_caller_are_dropped_when_the_queue_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "MAX_QUEUED", 3)
    stuck, gate = threading.Event(), threading.Event()

    def answered(heard: Heard, wire: Wire) -> None:
        stuck.set()
        assert gate.wait(WAIT)
        wire.whole(202, kind=None)

    def call(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.event({"id": "long" * 2000, "method": "ping"})
        wire.event({"id": 0, "method": "ping"})
        assert stuck.wait(WAIT)
        for number in range(1, 10):
            wire.event({"id": number, "method": "ping"})
        wire.answer()
        wire.end()

    with (
        Peer({"tools/call": call, "an answer": answered}, handshake=True) as peer,
        connect(peer) as client,
    ):
        assert client.call_tool("t").text == "done"
        gate.set()
        peer.wait_for("an answer", 4)
    assert [heard.message["id"] for heard in peer.all("an answer")] == [0, 1, 2, 3]


def test_cookies_do_not_pile_up() -> None:
    def call(heard: Heard, wire: Wire) -> None:
        names = [f"c{len(peer.heard)}-{number}={'x' * 8000}" for number in range(20)]
        wire.result(DONE, Set_Cookie="\r\nSet-Cookie: ".join(["sticky=1", *names]))

    class Signed(AuthBase):  # type: ignore[misc]
        def __call__(self, request: Any) -> Any:
            return request

    for auth in (None, Signed()):
        with Peer({"tools/call": call}) as peer, connect(peer, auth=auth) as client:
            for _ in range(15):
                client.call_tool("t")
            sent = [heard.headers.get("cookie", "") for heard in peer.all("tools/call")]
            assert max(map(len, sent)) < 64 * 1024
            assert max(text.count("=") for text in sent) < 25


@pytest.mark.parametrize(
    ("name", "says", "words", "gets"),
    [
        ("primed", lambda wire: wire.whole(405), "expected an event stream, got HTTP 405", 2),
        (
            "primed",
            lambda wire: wire.cut(),
            "GET http.*the connection broke",
            1 + http_client.RESUME_TRIES,
        ),
        ("bare", lambda wire: wire.cut(), "before the response", 1),
    ],
)
def test_a_stream_that_cannot_be_resumed_after_some_tries_is_lost(
    name: str, says: Any, words: str, gets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "FIRST_PAUSE", 0.01)

    def call(heard: Heard, wire: Wire) -> None:
        wire.stream()
        if name == "primed":
            wire.event("", id="e-1", retry=1)
        wire.cut()

    def get(heard: Heard, wire: Wire) -> None:
        says(wire) if "last-event-id" in heard.headers else wire.whole(405)

    with Peer({"tools/call": call, "GET": get}, handshake=True) as peer, connect(peer) as client:
        with pytest.raises(minimcp.ConnectionLost, match=words):
            client.call_tool("t")
        assert len(peer.all("GET")) == gets


def test_an_event_on_the_stream_for_notices_that_is_too_long_ends_only_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def get(heard: Heard, wire: Wire) -> None:
        wire.stream()
        wire.chunk(b"data: " + b"x" * 200_000)
        wire.sock.recv(1)

    limits = minimcp.Limits(message_bytes=100_000)
    with Peer({"GET": get}, handshake=True) as peer, connect(peer, limits=limits) as client:
        assert eventually(lambda: "the stream for notifications has ended" in caplog.text)
        assert client.call_tool("t").text == "done"


@pytest.mark.requirement("SHTTP-13")
def test_a_handshake_in_a_stream() -> None:
    def initialize(heard: Heard, wire: Wire) -> None:
        wire.stream(MCP_SESSION_ID="in-caps")
        wire.answer(INITIALIZED)
        wire.end()

    with Peer({"initialize": initialize}, handshake=True) as peer, connect(peer) as client:
        client.call_tool("t")
        assert peer.all("tools/call")[0].headers["mcp-session-id"] == "in-caps"


@pytest.mark.requirement("SHTTP-71")
@pytest.mark.parametrize("id", ["a b", "ä", "x" * 60_000, ""])
def test_an_invalid_session_id_is_not_repeated(id: str) -> None:
    with Peer(handshake=True, session=id) as peer:
        with pytest.raises(minimcp.ProtocolViolation, match="a session id must have"):
            connect(peer)
        assert all("mcp-session-id" not in heard.headers for heard in peer.heard)


def _sessions() -> "tuple[Dict[str, Any], List[str]]":
    """A server that knows only its newest session, and forgets it on demand."""
    alive: List[str] = []

    def initialize(heard: Heard, wire: Wire) -> None:
        assert "mcp-session-id" not in heard.headers
        alive.append(f"s{len(alive)}")
        wire.result(INITIALIZED, Mcp_Session_Id=alive[-1])

    def call(heard: Heard, wire: Wire) -> None:
        name = heard.message["params"]["name"]
        if heard.headers["mcp-session-id"] != alive[-1]:
            wire.whole(
                404,
                b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}',
            )
        elif name == "hang":
            wire.sock.recv(1)
        else:
            wire.result(DONE)

    return {"initialize": initialize, "tools/call": call}, alive


@pytest.mark.requirement("SHTTP-68")
def test_an_ended_session_is_reopened_and_only_rejected_requests_are_sent_again() -> None:
    said, alive = _sessions()
    with Peer(said, handshake=True) as peer, connect(peer) as client:
        running = client.submit(client.call_tool, "hang")
        peer.wait_for("tools/call")
        alive.append("another")
        assert client.call_tool("t").text == "done"
        with pytest.raises(minimcp.ConnectionLost, match="ended the session"):
            running.result(WAIT)
        assert [heard.message["params"]["name"] for heard in peer.all("tools/call")] == [
            "hang",
            "t",
            "t",
        ]
        assert len(peer.all("initialize")) == 2 and len(peer.all("server/discover")) == 1
        assert client.call_tool("t").text == "done"


@pytest.mark.parametrize("by", ["token", "close", "timeout", "Ctrl-C"])
def test_calls_cancelled_before_they_are_sent_are_neither_sent_nor_reported(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(http_client, "AT_ONCE", 4)
    token = minimcp.CancelToken()

    def end() -> None:
        if by == "timeout":
            return  # on a busy machine before any was sent
        peer.wait_for("tools/call", 4)
        if by == "Ctrl-C":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            client.close() if by == "close" else token.cancel()

    with Peer({"tools/call": lambda heard, wire: peer.over.wait(WAIT)}, handshake=True) as peer:
        with connect(peer) as client:
            ending = threading.Thread(target=end)
            ending.start()
            with pytest.raises((minimcp.McpError, KeyboardInterrupt)):
                client.call_tools(
                    [("t", {})] * 50, cancel=token, timeout=0.5 if by == "timeout" else WAIT
                )
            ending.join(WAIT)
        sent, told = peer.all("tools/call"), peer.all("notifications/cancelled")
    most = 4 + (by == "Ctrl-C")  # then the thread of the call that is waited for may take another
    assert len(sent) <= most and len(told) <= most


def test_a_call_of_a_session_that_was_replaced_begins_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(heard: Heard, wire: Wire) -> None:
        peer.wait_for("tools/call", 2)  # both are sent in the first session
        wire.whole(404)

    with Peer({"tools/call": refuse}, handshake=True) as peer, connect(peer) as client:
        first, gave_up, waits = session_of(client), threading.Event(), count(1)
        ended = first.wait_until_ended

        def wait_until_ended(seconds: Any) -> bool:
            if next(waits) == 2:
                assert gave_up.wait(WAIT)
            return ended(seconds)

        monkeypatch.setattr(first, "wait_until_ended", wait_until_ended)
        for call in as_completed([client.submit(client.call_tool, "t") for _ in range(2)], WAIT):
            assert isinstance(call.exception(), minimcp.ConnectionLost)
            assert session_of(client) is not first
            assert session_of(client).wait_until_ended(WAIT)  # and so is the one after it
            gave_up.set()
        assert len(peer.all("initialize")) == 2


def _busy(*waits: str, status: int = 429) -> "Dict[str, Any]":
    """A server that rejects calls as long as it has retry times left."""
    left = list(waits)

    def call(heard: Heard, wire: Wire) -> None:
        if left:
            wire.whole(status, Retry_After=left.pop(0))
        else:
            wire.result(DONE)

    return {"tools/call": call}


def test_a_busy_server_is_waited_for_and_the_call_that_was_not_run_is_sent_again() -> None:
    past = "Sun, 06 Nov 1994 08:49:37 GMT"
    for waits, calls, status in ((["0", "1", past], 1, 429), (["0", "0", "0"], 5, 503)):
        with Peer(_busy(*waits, status=status)) as peer, connect(peer) as client:
            assert [result.text for result in client.call_tools([("t", {})] * calls)] == [
                "done"
            ] * calls
            assert len(peer.all("tools/call")) == calls + 3


@pytest.mark.parametrize(
    ("status", "waits", "calls"),
    [
        (429, ["61"], 1),
        (429, ["1" * 5000], 1),
        (429, ["-1"], 1),
        (429, ["soon"], 1),
        (429, ["30"], 1),
        (503, ["30"], 1),
        (429, ["0"] * 99, 11),
    ],
)
def test_a_pause_that_is_too_long_fails_at_once(status: int, waits: List[str], calls: int) -> None:
    """The call has 10 s, so a pause of 30 s cannot be made; and ten pauses are enough."""
    with Peer(_busy(*waits, status=status)) as peer, connect(peer) as client:
        with pytest.raises(
            minimcp.ConnectionLost, match=rf"HTTP {status}, with an empty body \(Retry-After: "
        ):
            client.call_tool("t", timeout=10)
        assert len(peer.all("tools/call")) == calls


@pytest.mark.parametrize("closes", [False, True])
def test_waiting_for_a_busy_server_is_ended_by_a_token_and_by_closing(closes: bool) -> None:
    with Peer(_busy("9")) as peer, connect(peer) as client:
        token = minimcp.CancelToken()
        waits = client.submit(client.call_tool, "t", cancel=token)
        peer.wait_for("tools/call")
        client.close() if closes else token.cancel("enough")
        with pytest.raises(minimcp.McpError, match="closed" if closes else "enough"):
            waits.result(WAIT)


@pytest.mark.requirement("SHTTP-20")
def test_cancelling_in_a_session_is_said() -> None:
    def hang(heard: Heard, wire: Wire) -> None:
        wire.sock.recv(1)

    with Peer({"tools/call": hang}, handshake=True) as peer, connect(peer) as client:
        with pytest.raises(minimcp.RequestTimeout):
            client.call_tool("slow", timeout=1)
        told = peer.wait_for("notifications/cancelled")
        assert told.message["params"]["requestId"] == peer.all("tools/call")[0].message["id"]


class _Signed(AuthBase):
    def __call__(self, request: Any) -> Any:
        request.headers["Authorization"] = f"signed {len(request.body)}"
        return request


def test_headers_and_tokens() -> None:
    tokens = iter(["one", "two", "three"])
    for auth, sent in (
        (lambda: next(tokens), "Bearer two"),
        ("secret", "Bearer secret"),
        (_Signed(), "signed "),
    ):
        with (
            Peer() as peer,
            connect(peer, headers={"X-Mine": "1", "Accept": "x"}, auth=auth) as client,
        ):
            assert client.call_tool("t").text == "done" and "secret" not in repr(client)
            called = peer.heard[1]
            assert called.headers["authorization"] == sent + (
                str(len(called.body)) if sent == "signed " else ""
            )
            assert called.headers["x-mine"] == "1" and called.headers["accept"].startswith(
                "application/json"
            )

    def digest(heard: Heard, wire: Wire) -> None:
        if "authorization" in heard.headers:
            wire.result(DISCOVERED)
        else:
            wire.whole(401, WWW_Authenticate='Digest realm="r", nonce="n", qop="auth"')

    with Peer({"server/discover": digest}) as peer, connect(peer, auth=HTTPDigestAuth("u", "p")):
        assert 'username="u"' in peer.heard[1].headers["authorization"]
    with (
        Peer() as peer,
        minimcp.connect(peer.url.replace("//", "//user:pw@"), timeout=WAIT) as client,
    ):
        assert peer.heard[0].headers["authorization"].startswith("Basic ") and "pw" not in repr(
            client
        )


def test_an_auth_that_fails() -> None:
    def broken() -> str:
        raise KeyError("no token")

    with Peer() as peer:
        for auth, words in (
            (broken, "auth failed: KeyError"),
            (lambda: 5, "bearer token must be a str, not int"),
        ):
            with pytest.raises(minimcp.AuthorizationError, match=words):
                connect(peer, auth=auth)
        with pytest.raises(minimcp.ConnectionFailed, match="cannot be sent"):
            connect(peer, auth="a\r\nX: y")
        assert not peer.heard


def test_a_proxy_is_asked() -> None:
    with Peer() as peer:
        with minimcp.connect(
            "http://example.invalid/mcp", proxies={"http": peer.url}, timeout=WAIT
        ):
            assert peer.heard[0].path == "http://example.invalid/mcp"
    with pytest.raises(minimcp.ConnectionFailed, match="no connection.*refused"):
        minimcp.connect("http://example.invalid/mcp", proxies={"http": peer.url}, timeout=WAIT)


PROXY_SETTINGS: Any = [
    # Names of environment variables, proxies=, and the text of the message.
    (["http_proxy"], False, "the environment variable http_proxy"),
    (["HTTP_PROXY"], False, "the environment variable HTTP_PROXY"),
    (["all_proxy"], False, "the environment variable all_proxy"),
    (["ALL_PROXY"], False, "the environment variable ALL_PROXY"),
    ([], True, "proxies="),
    (["http_proxy"], True, "proxies="),
]


@pytest.fixture
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def refused() -> Iterator[int]:
    with refused_port() as port:
        yield port


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize(
    "proxy",
    [
        "htp//user:s3cret@127.0.0.1:9",
        "user:s3cret@127.0.0.1:9",
        "http:/user:s3cret@127.0.0.1:9",
        "http:///user:s3cret@127.0.0.1:9",
        "http://user:s3cret/@127.0.0.1:9",
    ],
)
def test_a_malformed_proxy_does_not_show_its_password(proxy: str) -> None:
    with pytest.raises((minimcp.McpError, ValueError)) as caught:
        minimcp.connect("http://127.0.0.2:9/mcp", proxies={"http": proxy}, connect_timeout=WAIT)
    assert "s3cret" not in str(caught.value)


@pytest.mark.usefixtures("no_proxies")
@pytest.mark.parametrize("names, given, source", PROXY_SETTINGS)
def test_a_failure_behind_a_proxy_names_the_proxy_and_its_setting(
    names: List[str], given: bool, source: str, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = f"http://user:secret@127.0.0.1:{refused}"
    said: Any = {
        "refuses": lambda heard, wire: wire.whole(403, b"<html>Denied", "text/html"),
        "is broken": lambda heard, wire: wire.whole(502, b"Bad gateway", "text/plain"),
        "answers itself": lambda heard, wire: wire.whole(200, b"<html>Sign in", "text/html"),
        "hangs up": lambda heard, wire: wire.cut(),
        "is dead": None,
    }
    for case, answer in said.items():
        script = dict.fromkeys(("server/discover", "initialize", "GET"), answer)
        with Peer({} if answer is None else script) as peer:
            proxy = dead if answer is None else peer.url.rpartition("/")[0]
            for name in names:
                monkeypatch.setenv(name, "http://127.0.0.1:9" if given else proxy)
            options = {"proxies": {"http": proxy}} if given else {}
            with pytest.raises(minimcp.McpError) as caught:
                minimcp.connect("http://mcp.invalid/mcp", connect_timeout=WAIT, **options)
            shown = proxy.replace("user:secret@", "")
            words = str(caught.value)
            assert f"through the proxy {shown} ({source})" in words, (case, words)
            assert "secret" not in words and "http://mcp.invalid/mcp" in words


@pytest.mark.usefixtures("no_proxies")
def test_a_failure_without_a_proxy_does_not_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Peer({"server/discover": lambda heard, wire: wire.whole(403)}) as peer:
        with pytest.raises(minimcp.AuthorizationError) as caught:
            connect(peer)
        assert "proxy" not in str(caught.value)


@pytest.mark.usefixtures("no_proxies")
def test_a_proxy_that_refuses_a_tunnel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Peer({"CONNECT": lambda heard, wire: wire.whole(403, b"no")}) as peer:
        monkeypatch.setenv("HTTPS_PROXY", peer.url.rpartition("/")[0])
        with pytest.raises(minimcp.ConnectionFailed, match="through the proxy .*HTTPS_PROXY.*403"):
            minimcp.connect("https://mcp.invalid/mcp", connect_timeout=WAIT)


def test_a_bundle_of_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = str(Path(__file__).with_name("localhost.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    other = requests.certs.where()
    with Peer(tls=context) as peer:
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
            monkeypatch.setenv(name, other)
            with pytest.raises(minimcp.ConnectionFailed, match=f"environment variable {name}"):
                connect(peer)
            with pytest.raises(minimcp.ConnectionFailed) as caught:
                connect(peer, verify=other)
            assert name not in str(caught.value), "it was given"
            monkeypatch.setenv(name, str(tmp_path / "gone.pem"))
            with pytest.raises(ValueError, match=f"gone.pem.*environment variable {name}"):
                connect(peer)


def test_no_server_is_listening(refused: int) -> None:
    words = (
        rf"^connect interpreted the target as a URL: POST http://127.0.0.1:{refused}/: "
        r"no connection: .*refused"
    )
    with pytest.raises(minimcp.ConnectionFailed, match=words):
        minimcp.connect(f"http://127.0.0.1:{refused}/?token=secret")
    with pytest.raises(minimcp.ConnectionFailed, match="no connection: .*gaierror|Name or service"):
        minimcp.connect("http://no-such-host.invalid/")

    def no_tls(listener: socket.socket) -> None:
        with listener.accept()[0] as sock:
            sock.recv(65536)  # read everything, because unread bytes would cause a reset
            sock.sendall(b"HTTP/1.1 400 No\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=no_tls, args=(listener,), daemon=True)
        server.start()
        with pytest.raises(minimcp.ConnectionFailed, match="no connection: SSLError"):
            minimcp.connect(f"https://127.0.0.1:{listener.getsockname()[1]}/mcp")
        server.join(WAIT)


def test_tls_and_its_verification() -> None:
    pem = str(Path(__file__).with_name("localhost.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def hang(heard: Heard, wire: Wire) -> None:
        wire.sock.recv(1)

    with Peer({"tools/call": hang}, tls=context) as peer:
        with pytest.raises(
            minimcp.ConnectionFailed, match="no connection: SSL.*certificate verify failed"
        ):
            connect(peer)
        with pytest.raises(ValueError, match="gone.pem"):
            connect(peer, verify="/no/such/gone.pem")
        with connect(peer, verify=pem, cert=pem) as client:
            with pytest.raises(minimcp.RequestTimeout):
                client.call_tool("t", timeout=1)
            future = client.submit(client.call_tool, "t")
            peer.wait_for("tools/call", 2)
            client.close()  # wakes a thread that reads through TLS
            with pytest.raises(minimcp.ConnectionLost):
                future.result(WAIT)


# ------------------------------------------------------------ events at the same moment


def test_a_log_level_that_only_a_new_session_accepted_is_kept_for_the_next() -> None:
    alive: List[str] = []
    levels: List[str] = []

    def initialize(heard: Heard, wire: Wire) -> None:
        alive.append(f"s{len(alive)}")
        wire.result(
            {**INITIALIZED, "capabilities": {"tools": {}, "logging": {}}}, Mcp_Session_Id=alive[-1]
        )

    def if_alive(heard: Heard, wire: Wire) -> None:
        if heard.headers["mcp-session-id"] != alive[-1]:
            wire.whole(404)
            return
        if heard.method == "logging/setLevel":
            levels.append(alive[-1])
        wire.result(DONE)

    said = {"initialize": initialize, "logging/setLevel": if_alive, "tools/call": if_alive}
    with Peer(said, handshake=True) as peer, connect(peer) as client:
        alive.append("another")
        client.set_log_level("debug")
        alive.append("another")
        assert client.call_tool("t").text == "done"
    assert levels == ["s2", "s4"]


def test_a_check_of_deadlines_during_its_scheduling_is_not_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that schedules it was delayed until the time had passed."""

    class Lock:
        """Signals that a thread waits for the lock."""

        def __init__(self, lock: Any) -> None:
            self.lock, self.waits = lock, threading.Event()

        def __enter__(self) -> None:
            if not self.lock.acquire(blocking=False):
                self.waits.set()
                self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()

    with (
        Peer({"tools/call": lambda heard, wire: wire.sock.recv(1)}) as peer,
        connect(peer) as client,
    ):
        calls: Any = session_of(client).calls
        lock = calls._lock = Lock(calls._lock)
        after, looks = http_client.timer.after, [calls.look]

        def at_once(seconds: float, callback: Any) -> Any:
            if not looks or callback != looks[0]:
                return after(seconds, callback)
            Task(lambda: (looks.pop()(), lock.waits.set()))
            assert lock.waits.wait(WAIT)
            return int

        monkeypatch.setattr(http_client.timer, "after", at_once)
        for timeout in (0, 0.1):
            with pytest.raises(minimcp.RequestTimeout):
                Task(client.call_tool, "t", timeout=timeout).result()


def no_sender() -> bool:
    """Return whether no client has a sender thread."""
    return not any("-sender" in thread.name for thread in threading.enumerate())


def test_closing_leaves_no_thread_waiting_for_a_silent_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_client, "CLOSE_SECONDS", 0.05)
    silent = dict.fromkeys(
        ("tools/call", "notifications/cancelled", "DELETE"), lambda heard, wire: wire.sock.recv(1)
    )
    with Peer(silent, handshake=True) as peer, connect(peer) as client:
        tasks = [Task(client.call_tool, "t") for _ in range(3)]
        peer.wait_for("tools/call", 3)
        client.close()
        assert all(isinstance(task.ended(), minimcp.ConnectionLost) for task in tasks)
        assert eventually(no_sender)


def test_a_connection_waits_again_as_long_as_it_takes_before_another_call_may_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: List[Any] = []
    put = queue.LifoQueue.put

    def seen(pool: Any, connection: Any, *more: Any, **options: Any) -> None:
        if getattr(connection, "sock", None) is not None:  # urllib3 keeps it for another call
            kept.append(connection.sock.gettimeout())
        put(pool, connection, *more, **options)

    monkeypatch.setattr(queue.LifoQueue, "put", seen)
    with Peer({"tools/call": _progress}) as peer, connect(peer) as client:
        client.call_tool("t", on_progress=lambda item: None)
    assert kept and not any(kept)


def test_a_fork_waits_for_no_thread_of_its_parent() -> None:
    with Peer() as peer, connect(peer) as client:
        session: Any = session_of(client)
        with session._ended._cond:  # a thread of the parent is in the middle of this
            Task(session.renew_in_fork).result()
        assert session.wait_until_ended(0)


def test_a_dropped_session_leaves_no_thread_waiting_for_a_silent_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        Peer({"DELETE": lambda heard, wire: wire.sock.recv(1)}, handshake=True) as peer,
        connect(peer) as client,
    ):
        monkeypatch.setattr(http_client, "CLOSE_SECONDS", 0.05)
        session: Any = session_of(client)
        session.abandon()  # as the finalizer of a client does
        peer.wait_for("DELETE")
        assert eventually(no_sender)


def test_a_question_during_close_does_not_reach_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: List[Any] = []
    opened, done = threading.Event(), threading.Event()

    def listen(heard: Heard, wire: Wire) -> None:
        wire.stream()
        assert opened.wait(WAIT)
        params = {"messages": [], "maxTokens": 1}
        wire.event({"id": "q", "method": "sampling/createMessage", "params": params})
        wire.sock.recv(1)

    with (
        Peer({"GET": listen}, handshake=True) as peer,
        connect(peer, sample=asked.append) as client,
    ):
        session: Any = session_of(client)
        admit = session.admit

        def closed_meanwhile(request: Any) -> Any:
            admitted = admit(request)
            Task(client.close).result()
            return admitted

        monkeypatch.setattr(session, "admit", closed_meanwhile)
        monkeypatch.setattr(session.host.pool, "submit", lambda job: (job(), done.set()))
        opened.set()
        assert done.wait(WAIT)
    assert asked == []


def test_ctrl_c_while_calls_start_ends_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Peer({"tools/call": lambda heard, wire: wire.sock.recv(1)}) as peer,
        connect(peer) as client,
    ):
        session: Any = session_of(client)
        spawn, turns = session.host.pool.spawn, count(1)

        def interrupted(job: Any) -> None:
            if next(turns) == 2:
                peer.wait_for("tools/call")
                raise KeyboardInterrupt
            spawn(job)

        monkeypatch.setattr(session.host.pool, "spawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            client.call_tools([("t", {})] * 3)
        assert not session.calls.pending() and len(peer.all("tools/call")) == 1
