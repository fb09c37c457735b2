"""HTTP+SSE of 2024-11-05, the server's side, without sockets."""

from __future__ import annotations

import json
from typing import Any, Iterator, List

import pytest

from minimcp import ConnectionLost, Context, Server
from minimcp.engine.transport import Transport
from minimcp.http.headers import HttpRequest
from minimcp.http.legacy_sse import MAX_WAITING, MAX_WAITING_BYTES, SseServer, SseTransport
from minimcp.http.options import HttpOptions
from minimcp.http.responses import SHORT_BYTES

from ..inside import registry_of
from ..support import WAIT, eventually
from .http_app import Recording, Served, message

requirement = pytest.mark.requirement


def open_sse(sse: SseServer) -> Any:
    """The connections of an `SseServer` that are open."""
    return sse.transports


def sse_of(server: Server, **changes: Any) -> SseServer:
    streams = changes.pop("max_streams", 256)
    return SseServer(server.connect, registry_of(server), HttpOptions(**changes), streams)


@pytest.fixture
def sse(server: Server) -> Iterator[SseServer]:
    sse = sse_of(server)
    yield sse
    sse.close()


class Old:
    """A client that knows nothing newer."""

    def __init__(self, sse: SseServer, **headers: str) -> None:
        self.sse, self.headers = sse, {"Host": "localhost", **headers}
        self.stream = Served(
            sse, HttpRequest("GET", "/sse", {**self.headers, "Accept": "text/event-stream"})
        )  # type: ignore[arg-type]
        self.writer = self.stream.writer
        self.writer.wait_for(lambda: self.writer.events)
        self.endpoint = self.writer.events[0]
        assert self.endpoint.event == "endpoint"

    def post(self, body: Any, path: str = "", **headers: Any) -> Recording:
        given = {**self.headers, "Content-Type": "application/json", **headers}
        writer = Recording()
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.sse.serve(HttpRequest("POST", path or self.endpoint.data, given, raw), writer)
        return writer

    def said(self) -> List[Any]:
        events = self.writer.events[1:]
        assert all(event.event == "message" for event in events)
        return [json.loads(event.data) for event in events]

    def request(self, method: str, params: Any = None, id: Any = 1) -> Any:
        assert self.post(message(method, params, id)).status == 202
        self.writer.wait_for(lambda: any(each.get("id") == id for each in self.said()))
        return next(each for each in self.said() if each.get("id") == id)

    def open(self) -> None:
        self.request(
            "initialize",
            {
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "clientInfo": {"name": "old", "version": "1"},
            },
            "open",
        )
        self.post(message("notifications/initialized", id=None))


@requirement("HSSE-01", "HSSE-02", "HSSE-04")
def test_messages_go_up_by_post_and_down_by_events(sse: SseServer) -> None:
    client = Old(sse)
    assert client.endpoint.data.startswith("/messages?session_id=")
    client.open()
    accepted = client.post(message("ping", id="p"))
    assert accepted.status == 202 and accepted.body == b""
    answer = client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
    assert answer["result"]["content"][0]["text"] == "3"
    client.writer.lose()
    client.stream.finished()


def test_a_handler_sees_the_headers_of_the_stream(server: Server, sse: SseServer) -> None:
    @server.tool
    def team(ctx: Context) -> str:
        return ctx.headers["x-team"]

    client = Old(sse, **{"X-Team": "red"})
    client.open()
    answer = client.request("tools/call", {"name": "team", "arguments": {}})
    assert answer["result"]["content"][0]["text"] == "red"
    client.writer.lose()
    client.stream.finished()


@requirement("HSSE-05")
def test_clients_do_not_receive_messages_of_each_other(server: Server, sse: SseServer) -> None:
    one, two = Old(sse), Old(sse)
    for client in (one, two):
        client.open()
    assert one.request("ping", id="one") and two.request("ping", id="two")
    server.remove_tool("add")
    for client in (one, two):
        client.writer.wait_for(
            lambda client=client: "notifications/tools/list_changed" in str(client.said())
        )
    assert "two" not in str(one.said()) and "one" not in str(two.said())
    sse.close()
    for client in (one, two):
        assert client.stream.finished().ended


@requirement("HSSE-09")
def test_the_session_ends_with_its_stream(sse: SseServer) -> None:
    client = Old(sse)
    client.writer.lose()
    client.stream.finished()
    assert client.post(message("ping")).status == 404


@requirement("HSSE-06", "SEC-01")
@pytest.mark.parametrize(
    ("header", "value", "status"), [("Origin", "http://evil.example", 403), ("Host", "x.y", 421)]
)
def test_strangers_are_turned_away_on_both_paths(
    sse: SseServer, header: str, value: str, status: int
) -> None:
    for verb, path in (("GET", "/sse"), ("POST", "/messages")):
        writer = Recording()
        sse.serve(HttpRequest(verb, path, {"Host": "localhost", header: value}), writer)
        assert writer.status == status


@pytest.mark.parametrize(
    ("verb", "path", "headers", "status"),
    [
        ("POST", "/sse", {}, 405),
        ("GET", "/messages", {}, 405),
        ("GET", "/", {}, 404),
        ("GET", "/sse/", {}, 404),
        ("GET", "/sse", {"Accept": "application/json"}, 406),
        ("POST", "/messages", {}, 404),
        *(
            ("GET", "/sse", {"Accept": accept}, 406)
            for accept in ("*/*", "text/*", "image/*, */*;q=0.8")
        ),
        ("GET", "/sse", {"Accept": "text/event-stream;q=0, */*"}, 406),
        ("GET", "/sse", {"Accept": "text/event-stream", "Sec-Fetch-Site": "cross-site"}, 403),
        ("GET", "/sse", {"Accept": "text/event-stream", "Sec-Fetch-Site": "same-site"}, 403),
        ("POST", "/messages?session_id=x", {}, 404),
    ],
)
def test_requests_that_are_not_served(
    sse: SseServer, verb: str, path: str, headers: Any, status: int
) -> None:
    writer = Recording()
    sse.serve(HttpRequest(verb, path, {"Host": "localhost", **headers}, b"{}"), writer)
    assert writer.status == status


def test_bodies_are_checked(server: Server) -> None:
    sse = sse_of(server, body_bytes=100)
    client = Old(sse)
    assert client.post(b"x", **{"Content-Type": "text/plain"}).status == 415
    assert client.post(b" " * 101).status == 413
    assert client.post(b"{").status == 202  # the session checks its contents
    client.writer.wait_for(lambda: "-32700" in str(client.said()))
    sse.close()
    client.stream.finished()


def test_streams_are_limited_and_get_comments(server: Server) -> None:
    sse = sse_of(server, max_streams=1, keepalive=0.01)
    client = Old(sse)
    writer = Recording()
    sse.serve(
        HttpRequest("GET", "/sse", {"Host": "localhost", "Accept": "text/event-stream"}), writer
    )
    assert writer.status == 503 and "Limits.streams" in writer.json["error"]["message"]
    client.writer.wait_for(lambda: b": keep-alive" in client.writer.body)
    client.writer.gone = True  # only the next comment has noticed it
    client.stream.finished()
    assert eventually(lambda: not open_sse(sse))


def test_no_client_is_admitted_while_it_closes(sse: SseServer) -> None:
    client = Old(sse)
    sse.close()
    client.stream.finished()
    late = Served(
        sse, HttpRequest("GET", "/sse", {"Host": "localhost", "Accept": "text/event-stream"})
    )  # type: ignore[arg-type]
    writer = late.writer
    writer.wait_for(lambda: writer.status)
    assert (
        writer.status == 503 and "closing" in writer.json["error"]["message"] and not open_sse(sse)
    )


def test_a_client_that_gets_no_connection_gets_an_error(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """The response has not started, so it can be an error. No data of the client is kept."""

    def connect(transport: Transport) -> Any:
        transports.append(transport)
        raise RuntimeError("can't start new thread")

    transports: List[Transport] = []
    sse = SseServer(connect, registry_of(server), HttpOptions(), 1)
    for number in (1, 2):
        writer = Recording()
        request = HttpRequest("GET", "/sse", {"Host": "localhost", "Accept": "text/event-stream"})
        sse.serve(request, writer)
        assert writer.status == 500 and not writer.streamed
        assert writer.json["error"]["message"] == "the server failed"
        assert len(transports) == number, "the only place for a stream is free again"
        assert transports[-1].receive() == [], "it is closed"
    failures = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert failures == ["a request failed: can't start new thread"] * 2


def test_a_pipe_ends_once_and_takes_only_so_much() -> None:
    writer = Recording()
    writer.begin(200, [])
    pipe = SseTransport(writer, {})
    assert all(pipe.put(b"{}") for _ in range(MAX_WAITING)) and not pipe.put(b"{}")
    assert len(pipe.receive()) == MAX_WAITING and pipe.peer_may_read()
    long = b"x" * MAX_WAITING_BYTES
    assert pipe.put(long + b"x") and not pipe.put(b"{}") and len(pipe.receive()) == 1
    assert (
        pipe.put(long[4:]) and pipe.put(b"{}") and not pipe.put(b"123") and len(pipe.receive()) == 2
    )
    assert pipe.send(b"1\n2\n", WAIT) == 4
    assert [event.data for event in writer.events] == ["1", "2"]
    assert pipe.send(b"x" * SHORT_BYTES, 0) == 0, "it would be written by who may not wait"
    writer.has_room = lambda: False  # type: ignore[method-assign]
    assert pipe.send(b"3\n", 0) == 0 and len(writer.events) == 2 and pipe.send(b"3\n", WAIT) == 2
    pipe.close()
    pipe.close()
    assert pipe.receive() == [] and not pipe.peer_may_read()
    with pytest.raises(ConnectionLost):
        pipe.send(b"3\n", WAIT)
