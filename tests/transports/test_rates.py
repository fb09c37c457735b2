"""``Limits(call_rate=, notification_rate=)`` of a server, over every transport.

The rates are so low that no token returns while a test runs; tests/unit/test_rates.py moves the
clock.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import Any, Callable, Dict, Iterator, List, Optional

import pytest

import minimcp
from minimcp import Bearer, Context, HttpOptions, Limits, Server, StdioServer, Tasks
from minimcp.engine.rates import MAX_CLIENTS
from minimcp.errors import Busy
from minimcp.http.headers import HttpRequest
from minimcp.stores.base import StoreUnavailable

from ..answering import R2, R4, R5, REVISIONS
from ..inside import feature_of, incoming_of
from ..support import ROOT, WAIT
from .http_app import Recording, Shaken, alone, call, core_of, message, post, serve
from .test_shared_sessions import SharedMemory
from .test_sse_server import Old, sse_of

requirement = pytest.mark.requirement

SLOW = 0.001
HANDSHAKES = [each for each in REVISIONS if each != R5]
COMPLETE = {
    "ref": {"type": "ref/prompt", "name": "city"},
    "argument": {"name": "name", "value": ""},
}


class Counted:
    """A server, and how often its handlers have started."""

    def __init__(self, rate: Optional[float] = SLOW, **options: Any) -> None:
        self.runs: List[str] = []
        limits = options.pop("limits", Limits(call_rate=rate))
        self.server = server = Server("counted", limits=limits, **options)
        runs = self.runs

        @server.tool
        def work() -> str:
            """Work."""
            runs.append("work")
            return "done"

        @server.tool
        def ask(ctx: Context) -> str:
            """Ask twice."""
            runs.append("ask")
            first = ctx.elicit("First?", {"name": str}, key="first").require()["name"]
            second = ctx.elicit("Second?", {"name": str}, key="second").require()["name"]
            return f"{first} {second}"

        @server.prompt(complete={"name": self.complete})
        def city(name: str) -> str:
            """A city."""
            return name

    def complete(self, value: str) -> List[str]:
        self.runs.append("complete")
        return ["Oslo"]


@pytest.fixture
def counted() -> Iterator[Counted]:
    made = Counted()
    yield made
    made.server.close()


def code_of(answer: Dict[str, Any]) -> Any:
    """Whether a call was served, or how it was rejected."""
    if "error" in answer:
        return answer["error"]["code"]
    return answer["result"].get("isError", False)


def from_address(request: HttpRequest, address: Optional[str]) -> HttpRequest:
    request.headers.client = address
    return request


# ------------------------------------------------------------ tool calls


@requirement("TOOL-35", "M:TOOL-17", "M:SEC-2")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_call_above_the_rate_fails_and_its_handler_does_not_start(
    counted: Counted, revision: str
) -> None:
    with minimcp.connect(counted.server, revision=revision) as client:
        assert client.call_tool("work").text == "done"
        with pytest.raises(minimcp.ToolError, match="0.001 .* per second .* Try again in 1000 s"):
            client.call_tool("work")
        assert client.list_tools() and client.ping() >= 0, "only calls are limited"
    assert counted.runs == ["work"]
    with minimcp.connect(counted.server, revision=revision) as other:
        assert other.call_tool("work").text == "done", "another connection is another client"


@pytest.mark.parametrize("revision", [R4, R5])
def test_over_stdio(revision: str) -> None:
    program = (
        "from minimcp import Limits, Server\n"
        "server = Server('slow', limits=Limits(call_rate=0.001))\n"
        "@server.tool\n"
        "def work() -> str:\n"
        "    'Work.'\n"
        "    return 'done'\n"
        "server.run()\n"
    )
    target = StdioServer([sys.executable, "-c", program], cwd=str(ROOT))
    with minimcp.connect(target, revision=revision, timeout=WAIT, connect_timeout=WAIT) as client:
        results = client.call_tools([("work", None)] * 3, return_exceptions=True)
    assert [isinstance(each, minimcp.ToolError) for each in results] == [False, True, True]


@requirement("TOOL-35", "M:TOOL-17", "M:SEC-2")
@pytest.mark.parametrize("json_response", [False, True])
@pytest.mark.parametrize("revision", REVISIONS)
def test_over_http_the_status_says_so(revision: str, json_response: bool) -> None:
    made = Counted(http=HttpOptions(json_response=json_response))
    core = core_of(made.server)

    def send(params: Dict[str, Any]) -> Recording:
        if revision == R5:
            return serve(core, alone("tools/call", params))
        return shaken.request("tools/call", params)

    if revision != R5:
        shaken = Shaken(core, revision)
    params = {"name": "work", "arguments": {}, "_meta": {"progressToken": 1}}
    responses = [send(params), send(params)]
    assert [each.status for each in responses] == [200, 429]
    assert responses[1].headers["Retry-After"] == "1000"
    assert responses[1].headers["Content-Type"] == "application/json"
    result = responses[1].json["result"]
    assert result["isError"] is True and "too many requests" in result["content"][0]["text"]
    assert ("resultType" in result) is (revision == R5)
    assert made.runs == ["work"]
    made.server.close()


@pytest.mark.parametrize("revision", [R4, R5])
def test_a_client_that_takes_only_event_streams(counted: Counted, revision: str) -> None:
    core = core_of(counted.server)
    accept = {"Accept": "text/event-stream"}
    if revision == R5:
        responses = [serve(core, call("work", headers=accept)) for _ in range(2)]
    else:
        shaken = Shaken(core, revision)
        body = message("tools/call", {"name": "work"})
        responses = [shaken.send(body, **accept) for _ in range(2)]
    assert [each.status for each in responses] == [200, 429]
    assert responses[1].headers["Retry-After"] == "1000"
    assert responses[1].messages[-1]["result"]["isError"] is True


def test_over_wsgi_and_as_a_function(counted: Counted) -> None:
    def wsgi(address: str) -> str:
        request = call("work")
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "REMOTE_ADDR": address,
            "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(request.body)),
            "wsgi.input": io.BytesIO(request.body),
            **{f"HTTP_{name.upper().replace('-', '_')}": text for name, text in request.headers.items()
               if name not in ("content-type", "content-length")},
        }  # fmt: skip
        heads: List[Any] = []
        body = app(environ, lambda status, headers: heads.append((status, dict(headers))))
        assert b"".join(body)
        status, headers = heads[0]
        assert ("Retry-After" in headers) is (status == "429 Too Many Requests")
        return str(status)

    app = counted.server.wsgi("/mcp")
    assert [wsgi("10.0.0.1"), wsgi("10.0.0.1"), wsgi("10.0.0.2")] == [
        "200 OK", "429 Too Many Requests", "200 OK"
    ]  # fmt: skip

    def handled(client: Optional[str]) -> int:
        request = call("work")
        request = HttpRequest("POST", "/mcp", request.headers, request.body, client)
        return counted.server.handle_http(request).status

    clients = ["10.0.0.1:5", "10.0.0.1:6", "[::1]:5", "::1", "[::2]:5", None, None]
    # the same limiter as above: the addresses of WSGI and of this function are the same clients
    assert [handled(each) for each in clients] == [429, 429, 200, 429, 200, 200, 429]


def test_over_http_with_sockets_each_port_of_an_address_is_one_client(counted: Counted) -> None:
    options: Any = {"revision": R5, "timeout": WAIT, "connect_timeout": WAIT}
    with counted.server.start_http() as running:
        with minimcp.connect(running.url, **options) as first:
            assert first.call_tool("work").text == "done"
        with minimcp.connect(running.url, **options) as second:
            with pytest.raises((Busy, minimcp.ToolError), match="too many requests"):
                second.call_tool("work")
    assert counted.runs == ["work"]


def test_over_http_and_sse(counted: Counted) -> None:
    sse = sse_of(counted.server)
    for _ in range(2):  # each stream is a session
        old = Old(sse)
        old.open()
        answers = [old.request("tools/call", {"name": "work"}, id) for id in (2, 3)]
        assert [code_of(each) for each in answers] == [False, True]
    sse.close()


# ------------------------------------------------------------ completions


@requirement("COMP-09", "M:SEC-2")
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_completion_above_the_rate_is_an_error(counted: Counted, revision: str) -> None:
    with minimcp.connect(counted.server, revision=revision) as client:
        assert list(client.complete("name", "", prompt="city").values) == ["Oslo"]
        with pytest.raises(minimcp.RpcError, match="too many requests") as caught:
            client.complete("name", "", prompt="city")
        assert caught.value.code == -32603
        with pytest.raises(minimcp.ToolError, match="too many requests"):
            client.call_tool("work")  # both count together
    core = core_of(counted.server)
    if revision == R5:
        responses = [serve(core, alone("completion/complete", COMPLETE)) for _ in range(2)]
    else:
        shaken = Shaken(core, revision)
        responses = [shaken.request("completion/complete", COMPLETE) for _ in range(2)]
    assert [each.status for each in responses] == [200, 429]
    assert responses[1].headers["Retry-After"] == "1000"
    assert responses[1].json["error"]["code"] == -32603
    assert counted.runs == ["complete", "complete"]


# ------------------------------------------------------------ who a client is


def test_a_principal_is_one_client_in_all_its_sessions() -> None:
    subjects = {"a": "ada", "b": "bob"}

    def verify(token: str) -> Any:
        return {"sub": subjects[token[:1]], "aud": "x", "client_id": "c"}

    made = Counted(auth=Bearer(verify, audience="x"))
    core = core_of(made.server)

    def send(token: str, address: str) -> int:
        request = call("work", headers={"Authorization": f"Bearer {token}"})
        return serve(core, from_address(request, address)).status

    sent = [("a1", "10.0.0.1"), ("a2", "10.0.0.2"), ("b1", "10.0.0.1"), ("b1", "10.0.0.3")]
    assert [send(*each) for each in sent] == [200, 429, 200, 429]
    made.server.close()


@pytest.mark.parametrize("tokens", ["secret", {"secret": {"sub": "ada"}}], ids=["one", "claims"])
def test_with_fixed_tokens_a_session_or_an_address_is_a_client(tokens: Any) -> None:
    made = Counted(auth=Bearer.static(tokens))
    core = core_of(made.server)
    token = {"Authorization": "Bearer secret"}

    def send(address: str) -> int:
        return serve(core, from_address(call("work", headers=token), address)).status

    assert [send(each) for each in ("10.0.0.1", "10.0.0.1", "10.0.0.2")] == [200, 429, 200]
    initialize = {
        "protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}
    }  # fmt: skip
    for _ in range(2):
        opened = serve(core, post(message("initialize", initialize), token))
        session = {"Mcp-Session-Id": opened.headers["Mcp-Session-Id"], **token}
        calls = [
            serve(core, post(message("tools/call", {"name": "work"}), session)) for _ in range(2)
        ]
        assert [each.status for each in calls] == [200, 429]
    made.server.close()


def test_without_sessions_an_address_is_a_client() -> None:
    made = Counted(http=HttpOptions(sessions=False))
    core = core_of(made.server)

    def send(address: str) -> int:
        version = {"MCP-Protocol-Version": R4}
        request = post(message("tools/call", {"name": "work"}), version)
        return serve(core, from_address(request, address)).status

    assert [send(each) for each in ("10.0.0.1", "10.0.0.1", "10.0.0.2")] == [200, 429, 200]
    made.server.close()


def test_invented_clients_do_not_fill_the_memory(counted: Counted) -> None:
    core = core_of(counted.server)
    limiter = feature_of(counted.server, "rates").limiter
    for number in range(MAX_CLIENTS):
        limiter.take(("address", str(number)))
    assert serve(core, from_address(call("work"), "10.0.0.1")).status == 200
    assert len(limiter) == MAX_CLIENTS


# ------------------------------------------------------------ every form of a call


@requirement("TOOL-35")
def test_each_call_of_an_array_counts(counted: Counted) -> None:
    shaken = Shaken(core_of(counted.server), R2)
    calls = [message("tools/call", {"name": "work"}, id) for id in range(3)]
    mixed = shaken.send(calls)
    assert mixed.status == 200, "one of the calls has run"
    assert sorted(code_of(each) for each in mixed.json) == [False, True, True]
    assert counted.runs == ["work"]


@requirement("TOOL-35")
def test_an_array_of_which_nothing_ran_has_the_status(counted: Counted) -> None:
    shaken = Shaken(core_of(counted.server), R2)
    assert shaken.request("tools/call", {"name": "work"}).status == 200
    array = [
        message("tools/call", {"name": "work"}, 2),
        message("completion/complete", COMPLETE, 3),
    ]
    rejected = shaken.send(array)
    assert (rejected.status, rejected.headers["Retry-After"]) == (429, "1000")
    assert sorted(map(code_of, rejected.json)) == [-32603, True]
    partly = shaken.send([*array, message("ping", None, 4)])
    assert partly.status == 200 and len(partly.json) == 3
    with minimcp.connect(counted.server, revision=R2) as client:
        results = client.call_tools([("work", None)] * 3, return_exceptions=True)
    assert [isinstance(each, minimcp.ToolError) for each in results] == [False, True, True]


@pytest.mark.parametrize("revision", [R4, R5])
def test_calls_that_run_as_tasks(revision: str) -> None:
    runs: List[str] = []
    server = Server("jobs", extensions=[Tasks(poll_interval=0.02)], limits=Limits(call_rate=SLOW))

    @server.tool(task="optional")
    def work() -> str:
        """Work."""
        runs.append("work")
        return "done"

    with minimcp.connect(server, revision=revision, extensions=[Tasks()], timeout=WAIT) as client:
        task = client.start_task("work")
        assert task.result().text == "done", "looking at a task is not a call"
        with pytest.raises(minimcp.ToolError, match="too many requests"):
            client.call_tool("work")
    assert runs == ["work"]
    server.close()


def test_calls_of_a_mounted_server_count_at_the_server_that_serves() -> None:
    made, outer = Counted(rate=None), Server("outer", limits=Limits(call_rate=SLOW))
    outer.mount(made.server, prefix="in")
    with minimcp.connect(outer) as client:
        assert client.call_tool("in__work").text == "done"
        with pytest.raises(minimcp.ToolError, match="too many requests"):
            client.call_tool("in__work")
    assert made.runs == ["work"]


@pytest.mark.parametrize("executor", ["main", "serial", "submit"])
def test_whatever_runs_the_handler(executor: str) -> None:
    made: Any = {"main": "main", "serial": minimcp.Serial(), "submit": lambda run: run()}[executor]
    server, runs = Server("own", executor=made, limits=Limits(call_rate=SLOW)), []

    @server.tool
    def work() -> str:
        """Work."""
        runs.append("work")
        return "done"

    with minimcp.connect(server, timeout=WAIT) as client:
        futures = [client.submit(client.call_tool, "work") for _ in range(2)]
        while executor == "main" and not all(each.done() for each in futures):
            server.pump(0.05)
        outcomes = [each.exception(WAIT) for each in futures]
    assert sorted(map(bool, outcomes)) == [False, True] and runs == ["work"]
    server.close()


# ------------------------------------------------------------ retries with answers


@pytest.mark.parametrize("over_http", [False, True])
def test_a_retry_with_answers_counts_as_the_same_call(over_http: bool) -> None:
    made = Counted()
    running = made.server.start_http() if over_http else None
    target: Any = made.server if running is None else running.url
    options: Any = {"revision": R5, "timeout": WAIT, "connect_timeout": WAIT}
    with minimcp.connect(target, elicit=lambda request: {"name": "Ada"}, **options) as client:
        assert client.call_tool("ask").text == "Ada Ada"
        with pytest.raises((Busy, minimcp.ToolError), match="too many requests"):
            client.call_tool("ask")
    made.server.close()


def test_one_state_cannot_be_used_without_end() -> None:
    made = Counted(limits=Limits(call_rate=SLOW, rounds=3))
    core = core_of(made.server)
    capabilities = {"elicitation": {"form": {}}}
    asked = serve(core, call("ask", capabilities=capabilities)).json["result"]
    retry = {
        "name": "ask",
        "arguments": {},
        "requestState": asked["requestState"],
        "inputResponses": {"first": {"action": "accept", "content": {"name": "Ada"}}},
    }
    statuses = [
        serve(core, alone("tools/call", retry, capabilities=capabilities)).status for _ in range(5)
    ]
    assert statuses == [200, 200, 200, 429, 429], "a call comes back 3 times at most"
    assert len(made.runs) == 4
    made.server.close()


def test_answers_without_a_state_are_a_new_call(counted: Counted) -> None:
    core = core_of(counted.server)
    for key in ("inputResponses", "requestState"):
        for revision in (R4, R5):
            params = {"name": "work", "arguments": {}, key: {"x": {}}}
            if revision == R5:
                statuses = [serve(core, alone("tools/call", params)).status for _ in range(2)]
            else:
                shaken = Shaken(core, revision)
                statuses = [shaken.request("tools/call", params).status for _ in range(2)]
            assert statuses[1] == 429


# ------------------------------------------------------------ processes that share a store


def test_processes_that_share_a_store_count_together() -> None:
    store = SharedMemory()
    made = [Counted(store=store) for _ in range(3)]
    cores = [core_of(each.server) for each in made]
    shaken = Shaken(cores[0])
    statuses = []
    for number in range(6):
        shaken.core = cores[number % 3]
        statuses.append(shaken.request("tools/call", {"name": "work"}, number).status)
    assert statuses == [200] + [429] * 5
    assert [serve(core, call("work")).status for core in cores] == [200, 429, 429]
    for core, each in zip(cores, made):
        core.close()
        each.server.close()


def test_the_rate_holds_in_each_process_while_the_store_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(SharedMemory):
        def get(self, key: str, renew: bool = False) -> Any:
            if "rate/" in key:
                raise StoreUnavailable("away")
            return super().get(key, renew)

    made = Counted(store=Away())
    core = core_of(made.server)
    with caplog.at_level(logging.WARNING, "minimcp.rates"):
        assert [serve(core, call("work")).status for _ in range(2)] == [200, 429]
    assert "rates are counted in this process only" in caplog.text
    core.close()
    made.server.close()


# ------------------------------------------------------------ notifications


@pytest.fixture
def noisy() -> Iterator[Server]:
    server = Server("noisy", limits=Limits(notification_rate=SLOW), extensions=[Tasks()])

    @server.tool(task="optional")
    def report(ctx: Context, count: int = 1000) -> str:
        """Report."""
        for number in range(count):
            ctx.progress(number, count)
        return "done"

    @server.tool
    def talk(ctx: Context) -> str:
        """Log."""
        for number in range(50):
            ctx.info(number)
        return "done"

    @server.tool
    def late(ctx: Context) -> str:
        """Report, and run out of time."""
        for number in range(10):
            ctx.progress(number)
        ctx.sleep(WAIT)
        return "done"

    yield server
    server.close()


@requirement("PROG-10", "M:PROG-6")
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_newest_progress_precedes_the_result(noisy: Server, revision: str) -> None:
    told: List[float] = []
    with minimcp.connect(noisy, revision=revision, timeout=WAIT) as client:
        on_progress: Callable[[Any], Any] = lambda report: told.append(report.progress)  # noqa: E731
        client.call_tool("report", on_progress=on_progress)
        assert told == [0, 999]
        told.clear()
        client.call_tool("report", on_progress=on_progress)
        assert told == [0, 999], "each request has its own rate"


@requirement("PROG-10", "M:PROG-6")
@pytest.mark.parametrize("revision", [R4, R5])
def test_over_http_the_report_is_an_event_before_the_answer(noisy: Server, revision: str) -> None:
    core = core_of(noisy)
    params = {"name": "report", "arguments": {}, "_meta": {"progressToken": 7}}
    if revision == R5:
        response = serve(core, alone("tools/call", params))
    else:
        response = Shaken(core, revision).request("tools/call", params)
    reports = [each["params"]["progress"] for each in response.messages if "method" in each]
    assert reports == [0, 999] and "result" in response.messages[-1]


@requirement("LOG-08", "M:LOG-5")
@pytest.mark.parametrize("revision", REVISIONS)
def test_log_messages_above_the_rate_are_dropped_and_counted_once(
    noisy: Server, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: List[Any] = []
    with caplog.at_level(logging.WARNING, "minimcp.rates"):
        with minimcp.connect(
            noisy, revision=revision, timeout=WAIT, on_log=lambda entry: told.append(entry.data)
        ) as client:
            client.set_log_level("info")
            client.call_tool("talk")
            records = [each.getMessage() for each in caplog.records]
    assert len(records) == 1 and "tools/call talk: 49 log notifications were dropped" in records[0]
    assert "Limits.notification_rate" in records[0]
    assert told in ([0], [])  # a client that closes need not run its callbacks


def test_a_timeout_and_a_cancellation(noisy: Server) -> None:
    noisy.remove_tool("late")

    @noisy.tool(timeout=0.1)
    def late(ctx: Context) -> str:
        """Report, and run out of time."""
        for number in range(10):
            ctx.progress(number)
        ctx.sleep(WAIT)
        return "done"

    told: List[float] = []
    with minimcp.connect(noisy, timeout=WAIT) as client:
        with pytest.raises(minimcp.ToolError, match="did not finish"):
            client.call_tool("late", on_progress=lambda report: told.append(report.progress))
    assert told == [0, 9]


def test_progress_of_a_task(noisy: Server) -> None:
    told: List[Any] = []

    def trace(arrow: str, text: str) -> None:
        message = json.loads(text)
        if arrow == "<--" and message.get("method") == "notifications/progress":
            told.append(message["params"]["progress"])

    with minimcp.connect(
        noisy, revision=R4, extensions=[Tasks()], timeout=WAIT, trace=trace
    ) as client:
        done = client.call_tool("report", {"count": 20}, on_progress=lambda report: None)
        assert done.text == "done"
    assert told == [0, 19]


def test_only_progress_and_log_messages_are_limited() -> None:
    server = Server("other", limits=Limits(notification_rate=SLOW))

    @server.tool
    def other(ctx: Context) -> str:
        """Send other notifications."""
        for _ in range(5):
            incoming_of(ctx).send("notifications/vendor/thing", {})
        return "done"

    seen: List[str] = []
    with minimcp.connect(server, trace=lambda arrow, text: seen.append(text)) as client:
        client.call_tool("other")
    assert sum("notifications/vendor/thing" in text for text in seen) == 5
    server.close()
