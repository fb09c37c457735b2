"""The response of one POST: handlers that are late, that run elsewhere, and answers that others give."""

from __future__ import annotations

from typing import Any

import pytest
from minimcp.http.http_server_reply import status_of
from minimcp.http.http_server_stream import Stream

from minimcp import Cancelled, Context, InternalError, Serial, Server
from minimcp.engine.requests import IncomingRequest, Route

from ..support import WAIT
from .http_app import Recording, Served, Shaken, Stage, alone, call, core_of, serve, stage_server


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}\n', 404),
        (b'{"jsonrpc":"2.0","id":"a\\"b","error":{"code":-32602,"message":"x"}}\n', 400),
        (b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}\n', 400),
        (b'{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"x"}}\n', 200),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"x"}}\n', 200),
        (b'{"jsonrpc":"2.0","id":1,"result":{"error":{"code":-32601}}}\n', 200),
        (b'{"jsonrpc":"2.0","id":"\\"error\\":{\\"code\\":-32601","result":{}}\n', 200),
    ],
)
def test_the_code_of_an_error_decides_the_status(line: bytes, status: int) -> None:
    assert status_of(line) == status


def late_tool(server: Server, stage: Stage, **options: Any) -> None:
    @server.tool(timeout=0.05, **options)
    def late(ctx: Context) -> str:
        """Take too long."""
        stage.entered.set()
        assert stage.go.wait(WAIT)
        stage.left.set()
        return "late"


def test_a_handler_that_is_late_is_answered_for_while_it_runs(server: Server, stage: Stage) -> None:
    late_tool(server, stage)
    served = Served(core_of(server), call("late"))
    served.writer.wait_for(lambda: served.writer.ended)
    assert "within 0.05 s" in served.writer.json["result"]["content"][0]["text"]
    assert not stage.left.is_set()
    stage.go.set()
    served.finished()


def test_so_is_one_that_waits_for_its_executor(server: Server, stage: Stage) -> None:
    serial = Serial()

    @server.tool(executor=serial)
    def first() -> str:
        """Keep the executor."""
        stage.entered.set()
        assert stage.go.wait(WAIT)
        return "first"

    late_tool(server, Stage(), executor=serial)
    core = core_of(server)
    held = Served(core, call("first"))
    assert stage.entered.wait(WAIT)
    assert "begin within" in serve(core, call("late")).json["result"]["content"][0]["text"]
    stage.go.set()
    assert held.finished().json["result"]["content"][0]["text"] == "first"


@pytest.mark.parametrize(
    ("error", "words"), [(InternalError("full"), "full"), (RuntimeError("x"), "no thread is free")]
)
def test_what_cannot_be_started_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def fail(exchange: IncomingRequest) -> None:
        raise error

    monkeypatch.setattr(server._registry.tools.get("add"), "route", Route(lambda exchange: {}, start=fail))
    response = serve(core_of(server), call("add"))
    assert response.json["error"] == {"code": -32603, "message": words}


def test_a_client_that_goes_while_its_call_waits_takes_it_back(server: Server, stage: Stage) -> None:
    serial = Serial()

    @server.tool(executor=serial)
    def first() -> str:
        """Keep the executor."""
        stage.entered.set()
        assert stage.go.wait(WAIT)
        return "first"

    core = core_of(server)
    held = Served(core, call("first"))
    assert stage.entered.wait(WAIT)
    waiting = Served(core, call("first"))
    waiting.writer.lose()
    assert waiting.finished().status == 0
    stage.go.set()
    held.finished()


@pytest.mark.parametrize("told", [False, True], ids=["by the write", "before"])
def test_a_handler_that_reports_to_a_client_that_has_gone_is_cancelled(
    server: Server, told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []

    @server.tool
    def reports(ctx: Context) -> str:
        """Report twice, and the client goes between."""
        ctx.progress(1)
        if told:
            writer.lose()
        writer.gone = True
        with pytest.raises(Cancelled):
            ctx.progress(2)
        seen.append(ctx.cancelled)
        ctx.check()
        raise AssertionError("it is cancelled")

    writer = Recording()
    core_of(server).serve(call("reports", token="t"), writer)
    assert seen == [True] and not caplog.text


def test_a_call_back_over_a_lost_stream_fails_where_it_cannot_be_resumed(server: Server, stage: Stage) -> None:
    @server.tool
    def asks(ctx: Context) -> str:
        """Ask when nobody listens any more."""
        stage.entered.set()
        assert stage.go.wait(WAIT)
        return ctx.elicit("?", {"name": str}).action

    client = Shaken(core_of(server, event_store=None), elicitation={})
    held = client.begin("tools/call", {"name": "asks"})
    assert stage.entered.wait(WAIT)
    held.writer.lose()
    stage.go.set()
    assert held.finished().status == 0


def test_a_stream_that_nothing_is_written_to_says_so() -> None:
    seen = []
    writer = Recording()
    stream = Stream(writer, trace=lambda arrow, line: seen.append((arrow, line)))
    stream.keep_alive(0.0)
    assert writer.body == b": keep-alive\n\n"
    stream.event(b"1\n")
    stream.finish(b"2\n")
    stream.finish(b"3\n")
    stream.event(b"4\n")
    stream.keep_alive(0.0)
    stream.close()
    assert [event.data for event in writer.events] == ["1", "2"] and writer.ended
    assert seen == [("-->", b"1"), ("-->", b"2")]
    assert not stream.release(1) and not stream.resume(Recording(), 0)


def test_a_comment_does_not_wait_for_a_peer_that_takes_nothing() -> None:
    class Deaf(Recording):
        """Would wait in every write."""

        room = False

        def has_room(self) -> bool:
            return self.room

    writer = Deaf()
    stream = Stream(writer)
    stream.keep_alive(0.0)
    stream.queue(b"owed\n")
    stream.keep_alive(0.0)
    assert writer.status == 0
    writer.room = True
    stream.keep_alive(0.0)
    stream.keep_alive(0.0)
    stream.queue(b"x" * 2000 + b"\n")  # so much may have to wait
    stream.keep_alive(0.0)
    assert [event.data for event in writer.events] == ["owed"] and writer.body.endswith(b": keep-alive\n\n")
    stream.event(b"last\n")
    assert [len(event.data) for event in writer.events] == [4, 2000, 4]


def test_lost_writers_never_raise_at_the_end() -> None:
    for use in (lambda stream: stream.finish(b"1\n"), Stream.close, lambda stream: stream.keep_alive(0.0)):
        writer = Recording()
        writer.gone = True
        use(Stream(writer))
        assert writer.status == 0


def test_everything_is_traced(stage: Stage) -> None:
    seen: list[Any] = []
    server = stage_server(stage, trace=lambda arrow, text: seen.append((arrow, text)))
    serve(core_of(server), alone("ping"))
    serve(core_of(server), call("add", {"a": 1, "b": 2}))
    assert [arrow for arrow, _ in seen] == ["<--", "<--", "-->"] and '"structuredContent":3' in seen[2][1]
    server.close()
