"""Information for operators: the outcome of each request, the request of each log record, and the
propagated trace context."""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from typing import Any, Dict, Iterator, List, Tuple

import pytest

import minimcp
from minimcp import (
    CallToolResult,
    Client,
    Context,
    FinishedRequest,
    Limits,
    Server,
    Text,
    ToolError,
)

from ..answering import R4, R5
from ..support import WAIT, eventually

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=ada"}


def build(**options: Any) -> Server:
    server = Server("operated", **options)

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    def fail(how: str) -> CallToolResult:
        """Fail."""
        if how == "raise":
            raise ToolError("no")
        if how == "protocol":
            raise minimcp.InvalidParams("never")
        return CallToolResult([Text('"isError":true')], is_error=how == "result")

    @server.tool
    def hold(ctx: Context) -> None:
        """Wait for the cancellation."""
        ctx.progress(1)
        ctx.sleep(600)

    @server.tool(timeout=0.01)
    def late(ctx: Context) -> None:
        """Take too long."""
        ctx.sleep(600)

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask."""
        return str(ctx.elicit("Who?", {"name": str}).require()["name"])

    @server.prompt
    def review() -> str:
        """Review."""
        return "well"

    @server.resource("notes://all")
    def notes() -> str:
        """Read."""
        return "note"

    return server


@pytest.fixture
def told() -> List[FinishedRequest]:
    return []


@pytest.fixture(params=["memory", "http"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[R4, R5])
def client(
    request: pytest.FixtureRequest, way: str, told: List[FinishedRequest]
) -> Iterator[Client]:
    server = build(on_request=told.append)
    options: Dict[str, Any] = {
        "revision": request.param,
        "timeout": WAIT,
        "elicit": lambda _: {"name": "Ada"},
    }
    if way == "memory":
        with minimcp.connect(server, **options) as client:
            yield client
    else:
        with server.start_http() as running, minimcp.connect(running.url, **options) as client:
            yield client


def ends(told: List[FinishedRequest]) -> List[Tuple[Any, ...]]:
    return [(each.method, each.name, each.outcome, each.code) for each in told]


# ---------------------------------------------------------------- on_request


def test_each_request_is_reported_with_its_outcome(
    client: Client, told: List[FinishedRequest]
) -> None:
    def fails(name: str, **arguments: Any) -> None:
        with pytest.raises(ToolError):
            client.call_tool(name, arguments)

    client.list_tools()
    client.read_resource("notes://all")
    told.clear()
    client.ping()
    client.list_tools(cache="bypass")
    client.read_resource("notes://all", cache="bypass")
    client.get_prompt("review")
    client.call_tool("add", {"a": 1, "b": 2})
    client.call_tool("fail", {"how": "not"})
    fails("fail", how="raise")
    fails("fail", how="result")
    fails("late")
    ping = "ping" if client.revision == R4 else "server/discover"
    assert ends(told) == [
        (ping, None, "ok", None),
        ("tools/list", None, "ok", None),
        ("resources/read", None, "ok", None),
        ("prompts/get", "review", "ok", None),
        ("tools/call", "add", "ok", None),
        ("tools/call", "fail", "ok", None),
        ("tools/call", "fail", "tool_error", None),
        ("tools/call", "fail", "tool_error", None),
        ("tools/call", "late", "tool_error", None),
    ]
    assert {each.revision for each in told} == {client.revision}
    assert all(0 <= each.seconds < WAIT for each in told) and told[-1].seconds >= 0.01


def test_a_rejected_request_is_reported_without_the_text_of_its_client(
    client: Client, told: List[FinishedRequest]
) -> None:
    told.clear()
    for method, params in (
        ("made/up", {}),
        ("tools/call", {"name": "none"}),
        ("resources/read", {"uri": "notes://none"}),
    ):
        with pytest.raises(minimcp.RpcError):
            client.request(method, params)
    assert [each[:3] for each in ends(told)] == [
        ("unknown", None, "error"),
        ("tools/call", None, "error"),
        ("resources/read", None, "error"),
    ]
    assert [told[0].code, told[1].code] == [-32601, -32602]


def test_a_cancelled_call_is_reported_when_the_cancellation_arrives(
    client: Client, told: List[FinishedRequest]
) -> None:
    token = minimcp.CancelToken()
    with pytest.raises(minimcp.Cancelled):
        client.call_tool("hold", cancel=token, on_progress=lambda _: token.cancel("enough"))
    assert eventually(lambda: ("tools/call", "hold", "cancelled", None) in ends(told))


def test_a_call_that_asks_is_one_request_with_a_handshake_and_several_without(
    client: Client, told: List[FinishedRequest]
) -> None:
    told.clear()
    assert client.call_tool("ask").text == "Ada"
    outcomes = [each.outcome for each in told if each.method == "tools/call"]
    assert outcomes == (["ok"] if client.revision == R4 else ["input_required", "ok"])


def test_only_a_session_has_a_name_and_it_is_not_its_id(
    client: Client, way: str, told: List[FinishedRequest]
) -> None:
    told.clear()
    client.list_tools(cache="bypass")
    client.call_tool("add", {"a": 1, "b": 2})
    names = {each.session for each in told}
    assert len(names) == 1 and names == (
        {""} if (way, client.revision) == ("http", R5) else names - {""}
    )


def test_an_exception_of_on_request_is_logged_once_and_affects_no_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(request: FinishedRequest) -> None:
        raise KeyError(request.method)

    with minimcp.connect(build(on_request=broken)) as client:
        for _ in range(3):
            assert client.call_tool("add", {"a": 1, "b": 2}).value == 3
    assert [
        record.getMessage() for record in caplog.records if "on_request" in record.getMessage()
    ] == [f"on_request= failed: {KeyError('server/discover')!r}"]


def test_an_answer_that_is_too_long_is_an_error(told: List[FinishedRequest]) -> None:
    server = build(on_request=told.append, limits=Limits(message_bytes=2000))

    @server.tool
    def long() -> str:
        """Say much."""
        return "x" * 3000

    with minimcp.connect(server, timeout=WAIT) as client, pytest.raises(minimcp.InternalError):
        client.call_tool("long")
    assert ends(told)[-1] == ("tools/call", "long", "error", -32603)


def test_each_request_of_an_array_is_reported(told: List[FinishedRequest]) -> None:
    def post(url: str, *messages: Dict[str, Any], session: str = "") -> Any:
        body = json.dumps(messages[0] if len(messages) == 1 else messages).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        if session:
            headers["Mcp-Session-Id"] = session
        return urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=WAIT)

    def request(id: int, method: str, **params: Any) -> Dict[str, Any]:
        return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}

    hello = {
        "protocolVersion": "2025-03-26",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "0"},
    }
    with build(on_request=told.append).start_http() as running:
        with post(running.url, request(0, "initialize", **hello)) as answer:
            session = answer.headers["Mcp-Session-Id"]
        with post(running.url, request(1, "ping"), request(2, "made/up"), session=session):
            pass
    assert sorted(ends(told)[1:], key=str) == [
        ("ping", None, "ok", None),
        ("unknown", None, "error", -32601),
    ]
    assert session not in {each.session for each in told}


@pytest.mark.parametrize("wrong", [5, "print"])
def test_on_request_is_a_function(wrong: Any) -> None:
    with pytest.raises(
        TypeError, match="on_request must be a function that takes a FinishedRequest, or None, not"
    ):
        Server("x", on_request=wrong)


# ---------------------------------------------------------------- log records


def test_a_log_record_says_of_which_request_it_is(way: str) -> None:
    server, lines = build(), []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    @server.tool
    def speak() -> None:
        """Log something."""
        log.warning("spoken")

    handler, log = Kept(), logging.getLogger("tests.operating")
    handler.setFormatter(
        logging.Formatter("%(mcp_method)s %(mcp_tool)s %(mcp_id)s %(message)s [%(mcp)s]")
    )
    handler.addFilter(minimcp.LogFilter())
    log.addHandler(handler)
    try:
        with server.start_http() as running:
            target: Any = server if way == "memory" else running.url
            with minimcp.connect(target, revision=R4, timeout=WAIT) as client:
                client.call_tool("speak")
        log.warning("outside")
    finally:
        log.removeHandler(handler)
    shown, outside = lines
    assert shown.startswith("tools/call speak ") and " spoken [tools/call speak id=" in shown
    assert "session=-" not in shown
    assert outside == "- - - outside [-]"


def test_the_words_of_a_client_in_a_record_are_short_and_forge_nothing() -> None:
    record = logging.makeLogRecord({})
    with minimcp.testing.context(method="tools/call", params={"name": "a\nb" + "x" * 200}):
        minimcp.LogFilter().filter(record)
    assert vars(record)["mcp_tool"] == r"a\nb" + "x" * 77
    with minimcp.testing.context(method="tools/call", params={"name": 5}):
        minimcp.LogFilter().filter(record)
    assert vars(record)["mcp_tool"] == "-"


# ---------------------------------------------------------------- trace context


def carried(ctx: Context) -> Dict[str, Any]:
    return {key: value for key, value in ctx.meta.items() if key in TRACE}


@pytest.fixture
def inner() -> Iterator[Client]:
    """Yield a server that returns the trace context of its calls, and a client of it."""
    server = Server("inner")

    @server.tool
    def trace(ctx: Context) -> Dict[str, Any]:
        """Return the received trace context."""
        return carried(ctx)

    with minimcp.connect(server, timeout=WAIT) as client:
        yield client


def outer(inner: Client) -> Server:
    server = Server("outer")

    @server.tool
    def direct() -> Any:
        """Call from the handler's thread."""
        return inner.call_tool("trace").value

    @server.tool
    def submitted() -> Any:
        """Call from a thread of the client."""
        return inner.submit(inner.call_tool, "trace").result(WAIT).value

    @server.tool
    def many() -> Any:
        """Call several at once."""
        first, second = inner.call_tools([("trace", {}), ("trace", {})])
        assert first.value == second.value
        return first.value

    @server.tool
    def own() -> Any:
        """Give the call its own."""
        params = {"name": "trace", "arguments": {}, "_meta": {"baggage": "own=1"}}
        return inner.request("tools/call", params)["structuredContent"]

    @server.tool
    def changed(ctx: Context) -> Any:
        """Give all further calls another parent, as a library for traces does."""
        ctx.trace_context["traceparent"] = PARENT.replace("b7ad", "aaaa")
        return inner.call_tool("trace").value

    @server.tool
    def elsewhere() -> Any:
        """Call from a thread that the library knows nothing of."""
        found: List[Any] = []
        thread = threading.Thread(target=lambda: found.append(inner.call_tool("trace").value))
        thread.start()
        thread.join(WAIT)
        return found[0]

    return server


@pytest.mark.parametrize("revision", [R4, R5])
def test_calls_of_a_handler_propagate_its_trace_context(inner: Client, revision: str) -> None:
    wanted = {
        "direct": TRACE,
        "submitted": TRACE,
        "many": TRACE,
        "own": {**TRACE, "baggage": "own=1"},
        "changed": {**TRACE, "traceparent": PARENT.replace("b7ad", "aaaa")},
        "elsewhere": {},
    }
    with minimcp.connect(outer(inner), revision=revision, timeout=WAIT) as client:
        for name, expected in wanted.items():
            answer = client.request(
                "tools/call", {"name": name, "arguments": {}, "_meta": dict(TRACE)}
            )
            assert json.loads(answer["content"][0]["text"]) == expected, name
        assert client.call_tool("direct").value == {}
    assert inner.call_tool("trace").value == {}


def test_an_invalid_trace_context_is_not_propagated() -> None:
    for meta, expected in (
        ({"traceparent": "x", "tracestate": "a=1", "baggage": "b=1"}, {"baggage": "b=1"}),
        ({"traceparent": PARENT, "tracestate": 5, "baggage": "x" * 9000}, {"traceparent": PARENT}),
        ({"traceparent": PARENT + "\n"}, {}),
        ({"traceparent": ""}, {}),
    ):
        assert minimcp.testing.context(params={"_meta": meta}).trace_context == expected
