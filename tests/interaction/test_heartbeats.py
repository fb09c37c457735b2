"""Long and silent tools: heartbeats of a server, and the limit on silence of a client."""

from __future__ import annotations

import threading
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Callable, Iterator, List, Optional, Tuple

import pytest

import minimcp
from minimcp import Context, RequestTimeout, Server
from minimcp.features import heartbeat

from ..support import WAIT, eventually

REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
WAYS = pytest.mark.parametrize("way", ["memory", "http"])

Report = Tuple[float, Optional[float], Optional[str]]


class Clock:
    """The clock of the heartbeats, which advances only by the test.

    Attributes:
        now: The time in seconds.
        reads: How often it was read.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0

    def monotonic(self) -> float:
        self.reads += 1
        return self.now


@contextmanager
def client_of(server: Server, way: str, revision: str, **options: Any) -> Iterator[minimcp.Client]:
    with closing(server):
        if way == "memory":
            with minimcp.connect(server, revision=revision, **options) as client:
                yield client
            return
        with server.start_http() as running:
            with minimcp.connect(running.url, revision=revision, **options) as client:
                yield client


@WAYS
@REVISIONS
def test_a_silent_tool_has_a_heartbeat(way: str, revision: str) -> None:
    server = Server("s")
    steps: List[Callable[[Context], None]] = []

    @server.tool(heartbeat=0.05)
    def slow(ctx: Context) -> str:
        for step in steps:
            step(ctx)
        return "done"

    reports: List[Report] = []

    def call(*given: Callable[[Context], None], listens: bool = True) -> List[Report]:
        steps[:] = given
        reports.clear()
        take = lambda each: reports.append((each.progress, each.total, each.message))  # noqa: E731
        assert client.call_tool("slow", on_progress=take if listens else None).text == "done"
        return list(reports)

    def beats(count: int) -> Callable[[Context], None]:
        def wait(ctx: Context) -> None:
            running = lambda: [each[2] for each in reports].count("still running")  # noqa: E731
            before = running()
            assert eventually(lambda: running() >= before + count)

        return wait

    with client_of(server, way, revision, timeout=WAIT) as client:
        found = call(beats(2))
        assert found[:2] == [(1e-6, None, "still running"), (2e-6, None, "still running")]
        found = call(
            lambda ctx: ctx.progress(3, 10, "begun"), beats(3), lambda ctx: ctx.progress(4, 10)
        )
        assert found[0] == (3, 10, "begun")
        assert found[1:3] == [(3 + 1e-6, 10, "still running"), (3 + 2e-6, 10, "still running")]
        assert found[-1] == (4, 10, None)
        found = call(beats(1), lambda ctx: ctx.progress(0), beats(1))
        assert (0, None, None) in found  # the first report is sent, whatever the beats were
        found = call(lambda ctx: ctx.progress(1e15, 1e16), beats(3))
        assert all(one[0] < two[0] for one, two in zip(found, found[1:]))
        found = call(lambda ctx: ctx.progress(5), lambda ctx: ctx.progress(4), beats(1))
        assert [each[0] for each in found[:2]] == [5, 5 + 1e-6]  # 4 was dropped
        assert call(lambda ctx: ctx.sleep(0.1), listens=False) == []


def test_reports_of_the_handler_delay_the_next_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(heartbeat, "time", clock)
    server = Server("s")
    reports: List[Report] = []

    @server.tool(heartbeat=0.01)
    def busy(ctx: Context) -> str:
        for number in range(5):
            ctx.progress(number)
            clock.now += 0.009
            assert eventually(lambda enough=clock.reads + 2: clock.reads > enough)
        clock.now += 0.009
        assert eventually(lambda: len(reports) > 5)
        return "done"

    take = lambda each: reports.append((each.progress, each.total, each.message))  # noqa: E731
    with client_of(server, "memory", "2026-07-28", timeout=WAIT) as client:
        assert client.call_tool("busy", on_progress=take).text == "done"
    assert reports[:5] == [(number, None, None) for number in range(5)]
    assert {each[2] for each in reports[5:]} == {"still running"}


def test_heartbeats_end_with_the_call() -> None:
    server = Server("s")
    left = threading.Event()
    reports: List[float] = []

    @server.tool(heartbeat=0.02)
    def fails(ctx: Context) -> str:
        assert eventually(lambda: len(reports) > 1)
        raise ValueError("no")

    @server.tool(heartbeat=0.02)
    def forever(ctx: Context) -> str:
        try:
            while True:
                ctx.sleep(0.01)
        finally:
            left.set()

    with client_of(server, "memory", "2026-07-28", timeout=WAIT) as client:
        take = lambda each: reports.append(each.progress)  # noqa: E731
        with pytest.raises(minimcp.ToolError, match="no"):
            client.call_tool("fails", on_progress=take)
        count = len(reports)
        time.sleep(0.1)
        assert len(reports) == count
        with pytest.raises(RequestTimeout):
            client.call_tool("forever", on_progress=take, timeout=0.2)
        assert left.wait(WAIT)


@pytest.mark.parametrize("wrong", [0, -1, "20", True, float("inf")])
def test_heartbeats_that_are_wrong(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="heartbeat"):
        Server("s").add_tool(lambda: "", name="t", heartbeat=wrong)


def test_a_mounted_tool_keeps_its_heartbeat() -> None:
    outer, inner = Server("outer"), Server("inner")

    @inner.tool(heartbeat=0.03)
    def slow(ctx: Context) -> str:
        assert eventually(lambda: len(reports) >= 2)
        return "done"

    outer.mount(inner, prefix="in")
    reports: List[float] = []
    with client_of(outer, "memory", "2026-07-28", timeout=WAIT) as client:
        take = lambda each: reports.append(each.progress)  # noqa: E731
        assert client.call_tool("in__slow", on_progress=take).text == "done"


# ------------------------------------------------------------ idle_timeout=


def long_server() -> Server:
    server = Server("long", extensions=[minimcp.Tasks()])

    @server.tool
    def quick() -> str:
        """Return at once."""
        return "done"

    @server.tool
    def silent(ctx: Context) -> str:
        """Take a second."""
        ctx.sleep(1.0)
        return "done"

    @server.tool
    def busy(ctx: Context) -> str:
        """Report progress for a second."""
        for number in range(20):
            ctx.progress(number)
            ctx.sleep(0.05)
        return "done"

    @server.tool(heartbeat=0.1)
    def beating(ctx: Context) -> str:
        """Take a second, with a heartbeat."""
        ctx.sleep(1.0)
        return "done"

    @server.tool
    def asks(ctx: Context) -> str:
        """Ask a question."""
        return str(ctx.elicit("Name?", {"name": str}).require()["name"])

    @server.tool(task="required")
    def task(ctx: Context) -> str:
        """Run as a task."""
        ctx.sleep(0.6)
        return "done"

    @server.resource("slow://one")
    def slow(ctx: Context) -> str:
        """Read slowly."""
        ctx.sleep(1.0)
        return "done"

    return server


@WAYS
@REVISIONS
def test_a_silent_call_times_out_and_progress_extends_it(way: str, revision: str) -> None:
    def elicit(request: Any) -> Any:
        time.sleep(0.6)
        return {"name": "Ada"}

    reports: List[float] = []
    take = lambda each: reports.append(each.progress)  # noqa: E731
    options = {"idle_timeout": 0.4, "elicit": elicit, "timeout": None}
    with client_of(long_server(), way, revision, **options) as client:
        begun = partial(client.submit, client.call_tool)  # they wait at the same time
        silent = begun("silent")
        reading = client.submit(client.read_resource, "slow://one")
        short = begun("busy", timeout=0.2)
        several = client.submit(
            client.call_tools,
            [("busy", None), ("silent", None), ("beating", None)],
            return_exceptions=True,
        )
        done = [
            begun("busy"),
            begun("beating"),
            begun("silent", idle_timeout=None),
            begun("busy", on_progress=take),
        ]
        with pytest.raises(RequestTimeout, match="'silent': silent for 0.4 s"):
            silent.result(WAIT)
        with pytest.raises(RequestTimeout, match="silent for 0.4 s"):
            reading.result(WAIT)
        with pytest.raises(RequestTimeout, match="no answer within 0.2 s"):
            short.result(WAIT)
        assert [each.result(WAIT).text for each in done] == ["done"] * 4
        assert len(reports) == 20
        busy, _, beating = several.result(WAIT)
        assert (busy.text, beating.text) == ("done", "done")
        # Alone, because a question may stop the clocks of all calls.
        assert client.call_tool("asks").text == "Ada"


def test_a_task_is_not_silent_between_two_polls() -> None:
    options = {"idle_timeout": 0.3, "extensions": [minimcp.Tasks()]}
    with client_of(long_server(), "memory", "2026-07-28", **options) as client:
        assert client.call_tool("task").text == "done"
        with pytest.raises(RequestTimeout, match="did not end in time: no answer within 0.2 s"):
            client.start_task("task").wait(0.2)


def test_every_call_takes_an_idle_timeout() -> None:
    import inspect

    from minimcp.client.group import Group

    for cls in (minimcp.Client, Group):
        for name, function in inspect.getmembers(cls, inspect.isfunction):
            # The timeout of `events` ends when the subscription begins, which is silent by nature.
            if not name.startswith("_") and name not in ("events", "on_event"):
                parameters = inspect.signature(function).parameters
                assert ("timeout" in parameters) == ("idle_timeout" in parameters), name
    for wrong in (-1, "1"):
        with pytest.raises((TypeError, ValueError), match="idle_timeout"):
            minimcp.connect(long_server(), idle_timeout=wrong)
        with minimcp.connect(long_server()) as client:
            with pytest.raises((TypeError, ValueError), match="idle_timeout"):
                client.ping(idle_timeout=wrong)  # type: ignore[arg-type]


def test_progress_is_asked_for_only_with_an_idle_timeout() -> None:
    sent: List[str] = []
    for options, asks in ({"idle_timeout": 9}, True), ({}, False):
        sent.clear()
        trace = lambda arrow, text: sent.append(text) if arrow == "-->" else None  # noqa: E731
        with minimcp.connect(long_server(), trace=trace, **options) as client:
            client.call_tools([("quick", None), ("quick", None)])
            client.list_tools()
        calls = [each for each in sent if "tools/" in each]
        assert ["progressToken" in each for each in calls] == [asks] * len(calls)


# ------------------------------------------------------------ callers that disconnect


def waiting_server(**options: Any) -> Tuple[Server, threading.Event, List[bool]]:
    server = Server("waiting", **options)
    begun = threading.Event()
    seen: List[bool] = []

    @server.tool
    def wait(ctx: Context) -> str:
        """Wait until the caller is gone."""
        begun.set()
        seen.append(eventually(lambda: ctx.cancelled))
        return "gone"

    return server, begun, seen


def post_and_leave(url: str, revision: str, begun: threading.Event) -> None:
    """Call the tool through a socket, and close it."""
    import http.client
    import json
    from urllib.parse import urlsplit

    envelope = {
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "wait", "arguments": {}, "_meta": envelope}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "wait",
    }
    wire = http.client.HTTPConnection(urlsplit(url).netloc, timeout=WAIT)
    wire.request("POST", urlsplit(url).path, body, headers)
    assert begun.wait(WAIT)
    wire.close()


@pytest.mark.parametrize("json_response", [False, True])
def test_a_handler_notices_that_its_caller_over_http_is_gone(json_response: bool) -> None:
    options = minimcp.HttpOptions(json_response=json_response)
    server, begun, seen = waiting_server(http=options)
    with closing(server), server.start_http() as running:
        post_and_leave(running.url, "2026-07-28", begun)
        assert eventually(lambda: seen == [True])


@REVISIONS
def test_a_handler_notices_that_its_connection_is_lost(revision: str) -> None:
    server, begun, seen = waiting_server()
    with closing(server):
        client = minimcp.connect(server, revision=revision)
        future = client.submit(client.call_tool, "wait")
        assert begun.wait(WAIT)
        client.close()
        with pytest.raises(minimcp.ConnectionLost):
            future.result(WAIT)
        assert eventually(lambda: seen == [True])


def test_a_handler_notices_that_its_session_has_ended() -> None:
    """A session may come back for its response, so only its end cancels the handler."""
    server, begun, seen = waiting_server()
    with closing(server), server.start_http() as running:
        client = minimcp.connect(running.url, revision="2025-11-25")
        client.submit(client.call_tool, "wait")
        assert begun.wait(WAIT)
        client.close()
        assert eventually(lambda: seen == [True])


def test_a_handler_notices_that_a_wsgi_host_closed_its_response() -> None:
    server, begun, seen = waiting_server()

    @server.tool
    def report(ctx: Context) -> str:
        """Report progress until the caller is gone."""
        begun.set()
        try:
            while not ctx.cancelled:
                ctx.progress(time.monotonic())
                ctx.sleep(0.01)
        finally:
            seen.append(ctx.cancelled)
        return "gone"

    from ..transports.http_app import call
    from ..unit.test_wsgi import Host

    with closing(server):
        body = Host(server.wsgi())(call("report", token=1))[2]
        iterator = iter(body)
        next(iterator)
        body.close()
        assert eventually(lambda: seen == [True])
