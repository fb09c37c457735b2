"""Serving over HTTP for real: the bundled server in front, sockets and signals."""

from __future__ import annotations

import gc
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import weakref
from typing import Any, Deque, Dict, List, Optional, Tuple

import pytest

from minimcp import Context, HttpOptions, Limits, Server
from minimcp.engine.incoming import current_request
from minimcp.http.endpoint import Endpoint
from minimcp.http.server import RunningHttp
from minimcp.http.sse import SseEvent

from ..inside import endpoint_of, runs_of
from ..scripted import Task
from ..streams import read_events
from ..support import ROOT, WAIT, eventually
from ..transports.http_app import (
    Shaken,
    Stage,
    alone,
    call,
    message,
    post,
    stage_server,
)

requirement = pytest.mark.requirement
pytestmark = pytest.mark.usefixtures("every_stream_is_read")


class Wire:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def send(self, request: Any) -> http.client.HTTPResponse:
        headers = {**dict(request.headers), "host": f"localhost:{self.connection.port}"}
        self.connection.request(request.method, request.path, request.body, headers)
        return self.connection.getresponse()

    def get(self, path: str, headers: Optional[Dict[str, str]] = None) -> http.client.HTTPResponse:
        self.connection.request(
            "GET", path, headers={"Accept": "text/event-stream", **(headers or {})}
        )
        return self.connection.getresponse()


def await_events(response: http.client.HTTPResponse, count: int) -> List[SseEvent]:
    data = b""
    while len(read_events(data)) < count:
        piece = response.read1(65536)
        assert piece, data
        data += piece
    return read_events(data)


@requirement("SHTTP-05", "M:HTTP-12", "SEC-08", "HSSE-07", "LIFE-28")
def test_it_runs_in_the_background_on_this_machine_only(server: Server) -> None:
    with server.start_http() as running:
        assert running.url == f"http://127.0.0.1:{running.port}/mcp" and "open" in repr(running)
        with Wire(running.port) as wire:
            for _ in range(3):  # on one connection
                response = wire.send(call("add", {"a": 1, "b": 2}))
                assert response.status == 200
                assert json.loads(response.read())["result"]["structuredContent"] == 3
            assert len(read_events(wire.send(call("count", token=1)).read())) == 4
    assert running.ended and "closed" in repr(running)
    running.close()


@pytest.mark.parametrize("shaken", [True, False])
def test_a_request_leaves_nothing_to_the_garbage_collector(shaken: bool) -> None:
    server, seen = Server("x"), []

    @server.tool
    def note() -> str:
        seen.append(weakref.ref(current_request()))
        return ""

    gc.disable()
    try:
        with server.start_http() as running, Wire(running.port) as wire:
            request = call("note")
            if shaken:
                request = post(
                    message("tools/call", {"name": "note"}), Shaken(endpoint_of(running)).headers
                )
            for _ in range(3):
                assert wire.send(request).read()
            assert eventually(lambda: [each() for each in seen] == [None, None, None])
    finally:
        gc.enable()


def test_with_names_it_listens_for_others_too(stage: Stage) -> None:
    server = stage_server(stage, http=HttpOptions(allowed_hosts=["localhost"]))
    with server.start_http(host="0.0.0.0") as running, Wire(running.port) as wire:
        assert wire.send(alone("server/discover")).status == 200
    server.close()


@requirement("HSSE-10", "M:DEP-3")
def test_both_protocols_on_one_port(server: Server, every_stream_is_read: Any) -> None:
    with (
        server.start_http(legacy_sse=True) as running,
        Wire(running.port) as wire,
        Wire(running.port) as other,
    ):
        stream = wire.get("/sse")
        assert stream.status == 200
        (endpoint,) = await_events(stream, 1)
        headers = {"Content-Type": "application/json"}
        other.connection.request(
            "POST", endpoint.data, json.dumps(message("ping", id="x")), headers
        )
        assert other.connection.getresponse().read() == b""
        (answer,) = await_events(stream, 1)
        assert json.loads(answer.data) == {"jsonrpc": "2.0", "id": "x", "result": {}}
        (pieces,) = every_stream_is_read.values()
        assert eventually(
            lambda: len(pieces) == 2
        )  # the client may see one before the fixture does
        assert [event.event for event in read_events(b"".join(pieces))] == ["endpoint", "message"]
        assert other.send(alone("server/discover")).status == 200


def test_only_the_older_protocol(server: Server) -> None:
    running = server._start_http("127.0.0.1", 0, "/mcp", newer=False, older=True)
    assert running.url.endswith("/sse")
    with Wire(running.port) as wire:
        assert wire.send(alone("server/discover")).status == 404
    running.close()


def test_close_ends_all_that_was_started_at_the_same_moment(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, has_ended = [server.start_http()], RunningHttp.ended.fget

    def ended(first: RunningHttp) -> bool:  # looked at as the next is started
        if len(running) == 1:
            running.append(first)
            running[1] = server.start_http()
        return has_ended(first)  # type: ignore[misc]

    with monkeypatch.context() as patch:
        patch.setattr(RunningHttp, "ended", property(ended))
        running.append(server.start_http())
    server.close()
    assert [each.ended for each in running] == [True] * 3


def test_when_it_has_ended_another_thread_may_take_back_the_last_connection(server: Server) -> None:
    class Taken(Deque[Any]):
        def __bool__(self) -> bool:
            return True  # as it was a moment ago

    with server.start_http() as running:
        pass
    running._back = Taken()
    running._wake()


def test_a_handler_may_close_its_server() -> None:
    server = Server("ending")

    @server.tool
    def end(ctx: Context) -> str:
        server.close()
        return "ended"

    running = server.start_http()
    with Wire(running.port) as wire:
        assert json.loads(wire.send(call("end")).read())["result"]["content"][0]["text"] == "ended"
    assert eventually(lambda: running.ended)
    server.close()


def test_run_says_every_way_in(capfd: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        ({}, r"^served serves at http://127.0.0.1:\d+/mcp$"),
        (
            {"legacy_sse": True},
            r"^served serves at (http://127.0.0.1:\d+)/mcp and \1/sse$",
        ),
    ):
        server = Server("served")
        running = Task(lambda: server.run("http", port=0, **options))  # type: ignore[arg-type]  # noqa: B023
        assert eventually(lambda: server.listening)  # noqa: B023
        server.close()
        running.result()
        assert runs_of(server) == []
        assert re.search(words, capfd.readouterr().err, re.M)


SERVED = """
import sys, time
from minimcp import Context, Server
from minimcp.server import run
run.SIGNAL_SECONDS = run.EXIT_SECONDS = 60.0  # no handler keeps the main thread, but a busy machine may
server = Server("child")

@server.tool
def wait(ctx: Context) -> str:
    "Wait."
    ctx.progress(1)
    ctx.sleep(60)
    return "x"

@server.tool(executor="main")
def main() -> str:
    "Run on the main thread."
    import threading
    return threading.current_thread().name

server.run("http", port=0)
print("over", flush=True)
"""


def start_child() -> Tuple[Any, int]:
    child = subprocess.Popen(
        [sys.executable, "-c", SERVED],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert child.stderr is not None
    told = re.fullmatch(r"(\S+) serves at http://127\.0\.0\.1:(\d+)/mcp\n", child.stderr.readline())
    assert told is not None
    return child, int(told[2])


@pytest.mark.skipif(
    os.name == "nt", reason="needs the signals of POSIX, which Windows does not have"
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_streams_open_and_calls_running(number: int) -> None:
    child, port = start_child()
    with Wire(port) as listening, Wire(port) as calling, Wire(port) as main:
        assert (
            json.loads(main.send(call("main")).read())["result"]["content"][0]["text"]
            == "MainThread"
        )
        stream = listening.send(
            alone("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        await_events(stream, 1)
        running = calling.send(call("wait", token=1))
        await_events(running, 1)
        child.send_signal(number)
        out, _ = child.communicate(timeout=WAIT)
        assert child.returncode == 0 and out == "over\n"
        assert '"resultType":"complete"' in read_events(stream.read())[-1].data
        assert "cancelled" in read_events(running.read())[-1].data


def test_several_paths_share_one_grace_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graces = []
    monkeypatch.setattr(Endpoint, "close", lambda endpoint, grace: graces.append(grace))
    server = Server("paths", limits=Limits(drain_grace=1000.0))
    apps = [server.wsgi(f"/{number}") for number in range(3)]
    server.close()
    assert len(apps) == len(graces) and 1000 > graces[0] > graces[1] > graces[2] > 0
