"""The HTTP server without sockets: which requests it accepts, stateless requests, and its end."""

from __future__ import annotations

import json
import threading
import tracemalloc
from typing import Any, List

import pytest

from minimcp import Context, FinishedRequest, Limits, Serial, Server
from minimcp.http import endpoint
from minimcp.http.endpoint import Endpoint
from minimcp.http.framing import RequestParser
from minimcp.http.headers import HttpError, HttpRequest

from ..inside import open_responses
from ..rows import for_each
from ..support import WAIT, eventually
from .http_app import (
    NEWEST,
    Recording,
    Served,
    Shaken,
    Stage,
    alone,
    call,
    core_of,
    message,
    post,
    serve,
    stage_server,
)

requirement = pytest.mark.requirement


def code(response: Recording) -> Any:
    return response.json["error"]["code"]


@requirement("SHTTP-02", "SHTTP-03", "M:HTTP-10", "M:HTTP-11")
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
@pytest.mark.parametrize(
    ("header", "value", "status", "setting"),
    [
        ("Host", "evil.example", 421, "allowed_hosts"),
        ("Host", "localhost:80:evil.example", 421, "allowed_hosts"),
        ("Origin", "http://evil.example", 403, "allowed_origins"),
        ("Origin", "null", 403, "allowed_origins"),
    ],
)
def test_strangers_are_turned_away_before_their_body_is_read(
    core: Endpoint, verb: str, header: str, value: str, status: int, setting: str
) -> None:
    request = HttpRequest(verb, "/mcp", {"Host": "localhost", header: value}, Unreadable())
    response = serve(core, request)
    assert response.status == status and "id" not in response.json
    assert setting in response.json["error"]["message"]


class OneConnection:
    """Serves requests that arrive on one connection, so that the admission of one head is reused
    for the next."""

    def __init__(self, core: Endpoint) -> None:
        self.core, self.parser = core, RequestParser(body_bytes=None)

    def send(self, request: HttpRequest, **changed: str) -> int:
        """The status of the response to a request with some of its headers changed."""
        headers = {
            **request.headers,
            **{name.replace("_", "-"): value for name, value in changed.items()},
        }
        lines = [
            f"{request.method} {request.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        lines.append(f"Content-Length: {len(request.body)}\r\n\r\n")
        self.parser.feed("\r\n".join(lines).encode() + request.body)
        head, body = self.parser.take()
        assert body == request.body
        return serve(self.core, HttpRequest(head.method, head.path, head.headers, body)).status


CHANGES = [
    ("host", "evil.example", 421), ("origin", "http://evil.example", 403), ("accept", "text/html", 406),
    ("content_type", "text/plain", 415), ("content_encoding", "gzip", 415), ("mcp_name", "count", 400),
    ("mcp_method", "tools/list", 400), ("mcp_protocol_version", "1999-01-01", 400),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "refused"), CHANGES)
def test_the_admission_of_one_request_does_not_admit_another(
    core: Endpoint, name: str, value: str, refused: int
) -> None:
    connection = OneConnection(core)
    for length in (1, 22, 333):
        request = call("add", {"a": 1, "b": 2, "c": "x" * length})
        assert connection.send(request) == 200
        assert connection.send(request, **{name: value}) == refused


def test_admitted_headers_hold_for_one_method_and_path(core: Endpoint) -> None:
    request = alone("server/discover")
    assert serve(core, request).status == 200
    for method, path, status in (
        ("POST", "/other", 404),
        ("PUT", "/mcp", 405),
        ("POST", "/mcp", 200),
    ):
        assert (
            serve(core, HttpRequest(method, path, request.headers, request.body)).status == status
        )


def test_a_head_that_is_known_names_a_session_only_while_there_is_one(core: Endpoint) -> None:
    connection, first, second = OneConnection(core), Shaken(core), Shaken(core)
    ping = {who: post(message("ping"), who.headers) for who in (first, second)}
    for _ in range(3):
        assert [connection.send(ping[who]) for who in (first, second)] == [200, 200]
    assert connection.send(ping[first], mcp_session_id="none") == 404
    assert first.delete().status == 200
    for _ in range(2):
        assert [connection.send(ping[who]) for who in (first, second)] == [404, 200]


class Unreadable:
    def read(self, size: int) -> bytes:
        raise AssertionError("the body is not read")


@requirement("SHTTP-04")
def test_pages_of_an_allowed_host_and_programs_without_origin_are_admitted(core: Endpoint) -> None:
    assert serve(core, alone("server/discover")).status == 200
    assert (
        serve(core, alone("server/discover", headers={"Origin": "http://localhost:3000"})).status
        == 200
    )


MODERN, VERSION = {"MCP-Protocol-Version": NEWEST}, "io.modelcontextprotocol/protocolVersion"
ADD = call("add", {"a": 1, "b": 2})


@requirement("SHTTP-01", "M:HTTP-1", "M:HTTP-14", "M:HTTP-15")
@for_each(
    ("verb", "headers", "allowed"),
    [
        *((verb, {}, "POST, GET, DELETE") for verb in ("PUT", "HEAD", "OPTIONS", "BREW")),
        *((verb, MODERN, "POST") for verb in ("GET", "DELETE")),
    ],
)
def test_other_verbs_are_refused(core: Endpoint, verb: str, headers: Any, allowed: str) -> None:
    response = serve(core, HttpRequest(verb, "/mcp", {"Host": "localhost", **headers}))
    assert response.status == 405 and response.headers["Allow"] == allowed


@requirement("SHTTP-23", "SHTTP-24", "M:HTTP-16", "M:HTTP-30", "M:HDR-10", "M:HDR-11", "M:HDR-12")
@for_each(
    ("headers", "status"),
    [
        *(
            ({"Content-Type": kind}, 415)
            for kind in (
                None,
                "",
                "text/plain",
                "text/plain; application/json",
                "application/jsonevil",
                "application/json; charset=utf-16",
            )
        ),
        *(
            ({"Content-Type": kind}, 200)
            for kind in (
                "Application/JSON ; charset=UTF-8",
                'application/json;charset="utf-8"',
                "application/json; profile=x",
            )
        ),
        *(({"Content-Length": length}, 413) for length in ("9" * 19, "9" * 5000)),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Encoding": "identity"}, 200),
        ({"Accept": None}, 200),
        ({"Accept": "application/json"}, 200),
        ({"Accept": "text/html"}, 406),
        ({"Accept": "*/*"}, 200),
        ({"Accept": "text/event-stream, application/json; q=0.5"}, 200),
        ({"Content-Length": str(5 * 1024 * 1024)}, 413),
        ({"Mcp-Session-Id": "bogus"}, 200),
        (
            {
                "Mcp-Name": None,
                "MCP-NAME": "=?base64?YWRk?=",
                "Mcp-Method": None,
                "mcp-method": "  tools/call \t",
            },
            200,
        ),
    ],
)
def test_headers_of_a_request(core: Endpoint, headers: Any, status: int) -> None:
    response = serve(core, call("add", {"a": 1, "b": 2}, headers=headers))
    assert response.status == status and "Mcp-Session-Id" not in response.headers


@requirement(
    "SHTTP-11",
    "M:HTTP-27",
    "M:HTTP-29",
    "M:HDR-6",
    "M:HDR-7",
    "M:HDR-8",
    "M:HDR-9",
    "M:HDR-13",
    "M:HDR-14",
)
@requirement("M:HDR-15", "M:HDR-17", "M:HDR-18")
@for_each(
    ("request_", "status", "number"),
    [
        *(
            (post(body), 400, number)
            for body, number in (
                (b"{", -32700),
                (b"\xff", -32700),
                (b"5", -32600),
                (b"{}", -32600),
                (b'{"jsonrpc":"2.0","id":1}', -32600),
                (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
                (b"", -32700),
                (b"[" * 300, -32700),
                (b'{"jsonrpc":"2.0","method":5}', -32600),
            )
        ),
        (post([message("tools/list")], MODERN), 400, -32600),
        (post({"jsonrpc": "2.0", "id": 1, "result": {}}, MODERN), 400, -32600),
        *(
            (call("add", {"a": 1, "b": 2}, headers=headers), 400, -32020)
            for headers in (
                {"MCP-Protocol-Version": None},
                {"MCP-Protocol-Version": "2025-11-25"},
                {"MCP-Protocol-Version": "v9"},
                {"Mcp-Method": None},
                {"Mcp-Method": "TOOLS/CALL"},
                {"Mcp-Method": "tools/list"},
                {"Mcp-Name": None},
                {"Mcp-Name": "Add"},
                {"Mcp-Name": "=?base64?YWRk"},
                {"Mcp-Name": "add\x80"},
                {"Mcp-Name": "=?base64?YWR?="},
            )
        ),
        *(
            (
                HttpRequest(
                    "POST", "/mcp", [*ADD.headers.items(), (name, ADD.headers[name])], ADD.body
                ),
                400,
                -32020,
            )
            for name in ("Mcp-Name", "Mcp-Method", "MCP-Protocol-Version")
        ),
        # The first error is reported.
        (alone("nope", version="v9", headers={"Mcp-Method": "other"}), 400, -32020),
        (
            post(message("nope", {"_meta": {VERSION: NEWEST}}), {"MCP-Protocol-Version": "v9"}),
            400,
            -32602,
        ),
        (alone("nope", version="v9"), 400, -32022),
        (alone("tools/call", {"arguments": {}}), 400, -32602),
        (post(message("tools/list"), MODERN), 400, -32602),
        (call("nix"), 400, -32602),
        (call("needy"), 400, -32021),
        (alone("prompts/get", {"name": "x"}), 400, -32602),
        (alone("resources/read", {"uri": "notes://two"}), 400, -32602),
        (alone("tools/list", version="v9"), 400, -32022),
        *(
            (alone(method, params), 404, -32601)
            for method, params in (
                ("nope", {}),
                ("initialize", {}),
                ("ping", {}),
                ("logging/setLevel", {"level": "info"}),
                ("resources/subscribe", {"uri": "notes://one"}),
            )
        ),
        (alone("tools/list", {"_meta": {"a": 1}}, id="x"), 200, None),
    ],
)
def test_errors_have_the_status_that_they_deserve(
    core: Endpoint, request_: HttpRequest, status: int, number: Any
) -> None:
    response = serve(core, request_)
    assert response.status == status and not response.streamed
    assert response.json.get("error", {}).get("code") == number
    if "Mcp-Method" in request_.headers:
        assert response.json["id"] == json.loads(request_.body)["id"]


@requirement("M:HTTP-5", "M:HTTP-17", "M:HTTP-18", "M:HTTP-19", "M:HTTP-20")
def test_progress_makes_a_stream(core: Endpoint) -> None:
    response = serve(core, call("count", token=7, headers={"Last-Event-ID": "1"}))
    assert response.status == 200 and response.streamed and response.ended
    assert (
        response.headers["Content-Type"] == "text/event-stream"
        and response.headers["X-Accel-Buffering"] == "no"
    )
    assert "no-cache" in response.headers["Cache-Control"] and b"id:" not in response.body
    *progress, last = response.messages
    assert [each["params"]["progress"] for each in progress] == [0, 1, 2]
    assert last["result"]["content"][0]["text"] == "counted"


@requirement("M:HTTP-27", "M:HTTP-28")
def test_a_failure_behind_progress_is_the_last_event(server: Server, core: Endpoint) -> None:
    @server.prompt
    def failing() -> str:
        raise KeyError("secret")

    alone_ = serve(core, alone("prompts/get", {"name": "failing"}))
    assert alone_.status == 200 and code(alone_) == -32603 and b"secret" not in alone_.body
    response = serve(core, call("broken", {"report": True}, token=1))
    assert response.status == 200 and response.messages[-1]["result"]["isError"]


@requirement("M:HTTP-6", "M:HTTP-9")
def test_notifications_are_accepted_and_mean_nothing(core: Endpoint, stage: Stage) -> None:
    held = Served(core, call("hold", id=5))
    assert stage.entered.wait(WAIT)
    cancelled = post(
        message("notifications/cancelled", {"requestId": 5}, None), {"MCP-Protocol-Version": NEWEST}
    )
    response = serve(core, cancelled)
    assert response.status == 202 and response.body == b""
    stage.go.set()
    assert held.finished().json["result"]["content"][0]["text"] == "held"


@requirement("M:HTTP-7")
def test_a_notification_of_an_unknown_revision_is_refused(core: Endpoint) -> None:
    response = serve(
        core, post(message("notifications/x", None, None), {"MCP-Protocol-Version": "v9"})
    )
    assert response.status == 400 and code(response) == -32022 and "id" not in response.json
    assert NEWEST in response.json["error"]["data"]["supported"]


@requirement("M:HTTP-23", "M:HTTP-24")
def test_a_client_that_leaves_takes_its_request_back(core: Endpoint, stage: Stage) -> None:
    held = Served(core, call("hold", token=1))
    assert stage.entered.wait(WAIT)
    held.writer.lose()
    assert stage.cancelled.wait(WAIT)
    stage.go.set()
    assert stage.left.wait(WAIT)
    assert held.finished().status == 0


@requirement("M:HTTP-21")
def test_a_silent_call_becomes_a_stream_with_comments(server: Server, stage: Stage) -> None:
    core = core_of(server, keepalive=0.02)
    held = Served(core, call("hold"))
    held.writer.wait_for(lambda: held.writer.body.count(b": keep-alive\n\n") >= 2)
    stage.go.set()
    response = held.finished()
    assert (
        response.status == 200 and response.messages[-1]["result"]["content"][0]["text"] == "held"
    )
    core.close()


@requirement("M:MRTR-S17")
def test_on_a_stream_questions_are_the_last_message(server: Server, core: Endpoint) -> None:
    @server.tool
    def slow(ctx: Context) -> str:
        ctx.progress(1)
        return ctx.elicit("Your name?", {"name": str}).action

    progress, result = serve(core, call("slow", token=1, capabilities={"elicitation": {}})).messages
    assert (
        progress["params"]["progress"] == 1 and result["result"]["resultType"] == "input_required"
    )


def test_with_json_responses_nothing_is_streamed(server: Server) -> None:
    core = core_of(server, json_response=True)
    response = serve(core, call("count", token=1, headers={"Accept": "application/json"}))
    assert response.status == 200 and not response.streamed


@requirement("M:XH-17", "M:XH-18", "M:XH-19", "M:XH-20", "M:XH-21", "M:XH-22", "M:XH-23")
@pytest.mark.parametrize(
    ("arguments", "headers", "fits"),
    [
        ({"place": "Hello"}, {"Mcp-Param-Place": "=?base64?SGVsbG8=?="}, True),
        ({"place": "Hello"}, {"Mcp-Param-Place": "Hello"}, True),
        ({"place": "Hello"}, {}, False),
        ({"place": "Hello"}, {"Mcp-Param-Place": "hello"}, False),
        ({}, {"Mcp-Param-Place": "Hello"}, False),
        ({"place": "Hello"}, {"Mcp-Param-Place": "=?base64?SGVsbG8?="}, False),
        ({}, {}, True),
        ({"place": "Hello"}, {"Mcp-Param-Place": "=?base64?SGVs!!!bG8=?="}, False),
        ({"place": "SGVsbG8="}, {"Mcp-Param-Place": "SGVsbG8="}, True),
        ({}, {"Mcp-Param-Other": "x"}, True),
        ({"place": "=?BASE64?SGVsbG8=?="}, {"Mcp-Param-Place": "=?BASE64?SGVsbG8=?="}, True),
        ({"number": 42}, {"Mcp-Param-Number": "42.0"}, True),
        ({"number": 42}, {"mcp-param-number": "42"}, True),
        ({"number": 42}, {"Mcp-Param-Number": "43"}, False),
        ({"number": 42.0}, {}, False),
        ({"number": 4.2e1}, {"Mcp-Param-Number": "43"}, False),
        ({"number": 42.0}, {"Mcp-Param-Number": "42"}, True),
        ({"number": 42.0}, {"Mcp-Param-Number": "42.0"}, True),
        ({"number": -0.0}, {"Mcp-Param-Number": "0"}, True),
        ({"number": 1e300}, {}, False),
        ({"place": "a\tb"}, {"Mcp-Param-Place": "a\tb"}, True),
        ({"place": "a\tb"}, {"Mcp-Param-Place": "a b"}, False),
        ({"place": "a"}, {"Mcp-Param-Place": "\t a \t"}, True),
        ({"place": "\ta"}, {"Mcp-Param-Place": "\ta"}, False),
        ({"place": "\ta"}, {"Mcp-Param-Place": "=?base64?CWE=?="}, True),
        ({"place": "a\x0bb"}, {"Mcp-Param-Place": "a\x0bb"}, False),
        ({"place": ""}, {"Mcp-Param-Place": ""}, True),
        ({"place": ["x"]}, {}, True),
    ],
)
def test_mirrored_arguments_are_compared(
    core: Endpoint, arguments: Any, headers: Any, fits: bool
) -> None:
    response = serve(core, call("mirrored", arguments, headers=headers))
    assert (response.status == 200) is fits
    assert fits or code(response) == -32020


@requirement("M:XH-26")
def test_compared_headers_equal_the_listed_annotations(server: Server, core: Endpoint) -> None:
    def listed() -> Any:
        tools = serve(core, alone("tools/list")).json["result"]["tools"]
        properties = next(tool for tool in tools if tool["name"] == "mirrored")["inputSchema"][
            "properties"
        ]
        return {
            name: schema["x-mcp-header"]
            for name, schema in properties.items()
            if "x-mcp-header" in schema
        }

    def fits(**headers: str) -> bool:
        return serve(core, call("mirrored", {"place": "x"}, headers=headers)).status == 200

    assert listed() == {"place": "Place", "number": "Number"}
    assert fits(**{"Mcp-Param-Place": "x"}) and not fits(**{"Mcp-Param-Spot": "x"})

    @server.tool(name="mirrored", headers={"place": "Spot"}, replace=True)
    def renamed(place: str = "") -> str:
        return place

    assert listed() == {"place": "Spot"}
    assert fits(**{"Mcp-Param-Spot": "x"}) and not fits(**{"Mcp-Param-Place": "x"})


@requirement("M:XH-24")
def test_a_bad_annotation_is_refused_when_it_is_registered() -> None:
    server = Server("x")

    def tool(a: str) -> str:
        return a

    with pytest.raises(ValueError, match="name of a header"):
        server.add_tool(tool, headers={"a": "no header"})
    with pytest.raises(ValueError, match="not a parameter"):
        server.add_tool(tool, headers={"b": "B"})


def listen(id: Any = "s", **wanted: Any) -> HttpRequest:
    return alone("subscriptions/listen", {"notifications": wanted}, id=id)


@requirement("M:SUB-2", "M:SUB-9", "M:HTTP-31")
def test_a_listen_is_a_stream_until_the_server_ends_it(server: Server) -> None:
    core = core_of(server, json_response=True)
    stream = Served(core, listen(toolsListChanged=True))
    stream.writer.wait_for(lambda: len(stream.writer.messages) == 1)
    server.remove_tool("add")
    stream.writer.wait_for(lambda: len(stream.writer.messages) == 2)
    core.close()
    acknowledged, changed, result = stream.finished().messages
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert changed["method"] == "notifications/tools/list_changed"
    assert result["id"] == "s" and result["result"]["resultType"] == "complete"


@requirement("M:SUB-15")
def test_listens_are_limited(server: Server) -> None:
    core = core_of(server, max_streams=1)
    stream = Served(core, listen())
    stream.writer.wait_for(lambda: stream.writer.messages)
    refused = serve(core, listen())
    assert (
        refused.status == 200
        and code(refused) == -32603
        and "Limits.streams" in refused.json["error"]["message"]
    )
    core.close()
    stream.finished()
    none = serve(core_of(server, max_streams=0), listen())
    assert code(none) == -32603
    assert code(serve(core_of(server), listen(), streams=False)) == -32603


@requirement("M:VER-S12", "M:HDR-7")
def test_without_a_handshake_initialize_fails_with_the_supported_revisions(stage: Stage) -> None:
    server = stage_server(stage, revisions=[NEWEST])
    core = core_of(server)
    opening = serve(core, post(message("initialize", {"protocolVersion": "2025-06-18"})))
    assert opening.status == 400 and opening.json["error"]["data"]["supported"] == [NEWEST]
    assert code(serve(core, post(message("tools/list")))) == -32020
    assert (
        code(serve(core, post(message("tools/list"), {"MCP-Protocol-Version": "2025-06-18"})))
        == -32022
    )
    assert serve(core, post([message("tools/list")])).status == 400
    assert serve(core, HttpRequest("GET", "/mcp", {"Host": "localhost"})).status == 405
    server.close()


def test_a_request_is_served_until_its_answer_is_sent(server: Server, core: Endpoint) -> None:
    """Also when another thread sends it."""
    sending, go = threading.Event(), threading.Event()

    class Slow(Recording):
        def send(self, *response: Any) -> None:
            sending.set()
            assert go.wait(WAIT)
            super().send(*response)

    @server.tool(executor=Serial())
    def elsewhere() -> str:
        return "done"

    writer = Slow()
    thread = threading.Thread(target=core.serve, args=(call("elsewhere"), writer))
    thread.start()
    assert sending.wait(WAIT)
    for response in open_responses(core):
        response._changed.notify()  # the serving thread checks again whether it is done
    thread.join(0.05)
    assert thread.is_alive()
    go.set()
    thread.join(WAIT)
    assert writer.ended and not open_responses(core)


BODY = '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%s}}'


@for_each(("values", "status"), [
    ("[" + "[]," * 200_000 + "1]", 413), ("[" + "{}," * 1_300_000 + "1]", 413),
    ("[" + '{"a":[]},' * 90_000 + "1]", 413),
    ("[" + '"","",' * 650_000 + "1]", 413), ("[" * 4_000_000, 413), ("{" + '"\\\\":1,' * 200_000 + '"a":1}', 413),
    ("[" + "1.23456789," * 350_000 + "1]", 200), ('"' + "x" * 4_000_000 + '"', 200),
    (json.dumps(json.dumps([{"a": '"', "b": "\\"}] * 80_000)), 200), ("[" + '{"a":[]},' * 50_000 + "1]", 200),
])  # fmt: skip
def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(
    core: Endpoint, values: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = Shaken(core).headers
    with monkeypatch.context() as patched:
        if status == 413:
            patched.setattr(endpoint, "decode", None)
        assert serve(core, post((BODY % values).encode(), headers)).status == status


def test_long_bodies_are_decoded_two_at_a_time(
    core: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go = threading.Semaphore(0), threading.Event()
    decoding: List[bytes] = []
    most: List[int] = []

    def decode(body: bytes, **options: Any) -> Any:
        decoding.append(body)
        most.append(len(decoding))
        inside.release()
        assert go.wait(WAIT)
        decoding.pop()
        raise HttpError(400, "no")

    monkeypatch.setattr(endpoint, "decode", decode)
    running = [Served(core, post(b" " * 300_000)) for _ in range(5)]
    for _ in range(2):
        assert inside.acquire(timeout=WAIT)
    assert not inside.acquire(timeout=0.05)
    go.set()
    assert (
        [each.finished().status for each in running] == [400] * 5
        and len(most) == 5
        and max(most) == 2
    )


def test_requests_in_arrays_count_as_running_requests(stage: Stage) -> None:
    finished: List[FinishedRequest] = []
    limits = Limits(requests=10, workers=30, client_share=None)
    server = stage_server(stage, limits=limits, on_request=finished.append)
    core = core_of(server)
    bodies = [
        [message("tools/call", {"name": "hold"}, number) for number in range(10)] for _ in range(3)
    ]
    headers = Shaken(core, "2025-03-26").headers
    running = [Served(core, post(body, headers)) for body in bodies]
    assert eventually(lambda: [each.method for each in finished].count("tools/call") == 20)
    assert core.requests.running == 10
    stage.go.set()
    answers = [answer for each in running for answer in each.finished().json]
    assert sum("error" in answer for answer in answers) == 20
    server.close()


def test_as_many_handlers_run_over_http_as_there_are_workers() -> None:
    server, running, most = Server("few", limits=Limits(workers=2)), [], []
    lock, pair = threading.Lock(), threading.Barrier(2)

    @server.tool
    def work() -> str:
        """Count the calls that run at the same time."""
        with lock:
            running.append(1)
            most.append(len(running))
        pair.wait(WAIT)
        with lock:
            running.pop()
        return "done"

    core = core_of(server)
    calls = [Served(core, call("work")) for _ in range(8)]
    assert [each.finished().status for each in calls] == [200] * 8 and max(most) == 2
    server.close()


def test_closing_waits_for_running_requests_and_rejects_new_ones(
    server: Server, core: Endpoint, stage: Stage
) -> None:
    held = Served(core, call("hold"))
    assert stage.entered.wait(WAIT)
    ending = threading.Thread(target=core.close, args=(WAIT,))
    ending.start()
    assert eventually(lambda: core.closing)
    assert serve(core, alone("server/discover")).status == 503
    stage.go.set()
    assert held.finished().status == 200
    ending.join(WAIT)
    core.close()


def test_a_response_that_does_not_end_in_time_is_cut(core: Endpoint, stage: Stage) -> None:
    held = Served(core, call("hold"))
    assert stage.entered.wait(WAIT)
    core.close(0.01, "the server was told to end")
    assert stage.cancelled.wait(WAIT)
    held.writer.wait_for(lambda: held.writer.ended)
    stage.go.set()
    assert held.finished().body == b""


def test_a_request_whose_client_has_gone_before_it_begins_is_not_run(
    server: Server, core: Endpoint
) -> None:
    ran, writer = [], Recording()
    server.add_tool(lambda: ran.append(1), name="effect", description="Has an effect.")
    writer.lose()
    core.serve(call("effect"), writer)
    assert not ran and not writer.status and not core.requests


MEGABYTE = 1024 * 1024


@for_each(
    ("unit", "rejected"),
    [
        (b'"",', True),
        (b'"a",', True),
        (b'"\\\\",', True),
        (b'"\\"",', True),
        (b"{},", True),
        (b"0,", True),
        (b'"' + b"x" * 60 + b'",', False),
        (b'"' + b"[{:,}]" * 100 + b'",', False),
        (b'"' + b'\\"' * 1000 + b'",', False),
        (b'"' + b"\\\\" * 1000 + b'",', False),
    ],
)
def test_the_guard_of_bodies_takes_less_memory_than_the_body(unit: bytes, rejected: bool) -> None:
    """The memory that decoding would take is estimated without taking it."""
    core = core_of(Server("guarded"))
    body = b"[" + unit * (4 * MEGABYTE // len(unit) - 1) + b"0]"
    request = post(body)
    tracemalloc.start()
    try:
        try:
            core.body_of(request)
            status = 200
        except HttpError as error:
            status = error.status
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status == (413 if rejected else 200)
    assert peak < 3 * len(body)
