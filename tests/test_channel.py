"""One connection: who reads, who answers, and every way in which it ends; what becomes of a frame: test_intake.py."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from typing import Any, List

import pytest
from minimcp.engine.lane import ALWAYS_SLOW
from minimcp.server.pump import Main
from minimcp.server.serial import Serial

from minimcp.engine import connection as module
from minimcp.engine.connection import Connection
from minimcp.engine.limits import Limits
from minimcp.engine.requests import IncomingRequest
from minimcp.engine.timer import Deadline
from minimcp.errors import ConnectionLost, RequestTimeout

from .scripted import (
    ScriptedPipe,
    ScriptedRole,
    Task,
    cancelled,
    no_threads,
    notice,
    open_channel,
    request,
    result,
    wait_for,
)
from .support import WAIT, eventually


def soon() -> Deadline:
    return Deadline(WAIT)


def ask(channel: Connection, **options: Any) -> Any:
    return channel.calls.call("work", lambda id: {}, **options)


def outcome(line: Any) -> Any:
    return line["id"], line.get("result", line.get("error", {}).get("code"))


class Held:
    """A handler that lasts until the test lets it go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.exchange: Any = None

    def __call__(self, exchange: IncomingRequest) -> Any:
        self.exchange = exchange
        self.begun.set()
        assert self.go.wait(WAIT)
        return {}


def test_limits_and_a_name_that_are_not_given_are_the_defaults() -> None:
    pipe = ScriptedPipe()
    channel = Connection(pipe, ScriptedRole())
    assert channel.name == "scripted"
    assert channel.limits.max_workers == Limits().max_workers
    channel.close()
    assert channel.ended


# ------------------------------------------------------------ requests


@pytest.mark.parametrize("hot", [True, False])
def test_a_request_is_answered(hot: bool) -> None:
    role = ScriptedRole(hot=hot)
    role.facts = "facts"
    role.serve("work", lambda exchange: {"n": exchange.request.params["n"], "facts": exchange.server})
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "work", n=5))
        assert outcome(pipe.lines(1)[0]) == (1, {"n": 5, "facts": "facts"})
        assert repr(channel) == "<Connection 'test' open, 0 outgoing, 0 incoming>"
    assert repr(channel) == "<Connection 'test' closed, 0 outgoing, 0 incoming>"


def test_where_a_route_wants_its_requests() -> None:
    role, taken = ScriptedRole(), []  # type: Any, List[IncomingRequest]
    role.serve("elsewhere", lambda exchange: {}, start=taken.append)
    role.serve("alone", lambda exchange: {"thread": threading.current_thread().name}, pace=ALWAYS_SLOW)
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "ping"), request(2, "elsewhere"), request(3, "alone"))
        assert {outcome(line)[0] for line in pipe.lines(2)} == {1, 3}
        channel.start(taken[0])
        assert outcome(pipe.lines(3)[2]) == (2, {})


def test_a_request_that_was_cancelled_is_not_answered() -> None:
    held = Held()
    role = ScriptedRole(hot=False)
    role.serve("work", held)
    with open_channel(role) as (_, pipe, _role):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        pipe.give(cancelled(1), cancelled(True), cancelled(7), cancelled(1, reason=5))  # type: ignore[arg-type]
        assert eventually(lambda: held.exchange.cancelled)
        held.go.set()
        pipe.give(request(2, "ping"))
        assert [outcome(line) for line in pipe.lines(1)] == [(2, {})]
    assert held.exchange.reason == "never mind"


def test_a_trace_sees_both_ways() -> None:
    seen: List[Any] = []
    with open_channel(trace=lambda arrow, line: seen.append((arrow, line))) as (channel, pipe, _):
        pipe.give(request(1, "ping"))
        pipe.lines(1)
        channel.write(b'{"a":1}\n{"b":2}\n', soon())
        channel.post(b'{"c":3}\n')
    assert [line for arrow, line in seen if arrow == "-->"] == [
        b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"a":1}', b'{"b":2}', b'{"c":3}',
    ]
    assert [line for arrow, line in seen if arrow == "<--"][0].startswith(b'{"jsonrpc": "2.0", "id": 1')


@pytest.mark.parametrize("hot", [True, False])
def test_an_answer_that_is_too_long_for_us_is_an_error(hot: bool) -> None:
    role = ScriptedRole(hot=hot)
    role.serve("work", lambda exchange: {"x": "x" * exchange.request.params["n"]})
    with open_channel(role, max_message_bytes=300) as (_, pipe, _role):
        pipe.give(request(1, "work", n=10), request(2, "work", n=300), request(3, "ping"))
        found = {line["id"]: line for line in pipe.lines(3)}
    assert "result" in found[1] and "result" in found[3]
    assert found[2]["error"]["code"] == -32603
    assert "max_message_bytes" in found[2]["error"]["message"] and "300" in found[2]["error"]["message"]


def test_an_array_is_answered_with_one() -> None:
    role = ScriptedRole()
    role.serve("work", lambda exchange: {})
    with open_channel(role) as (_, pipe, _role):
        items = [
            request(1, "work"), notice("n"), request(2, "unknown"), {"jsonrpc": "2.0", "id": 3}, request(4, "ping"),
            request(5, "initialize"), {"jsonrpc": "2.0", "method": "", "params": 1},
        ]
        pipe.give(items)
        [answers] = pipe.lines(1)
        found = dict(outcome(answer) for answer in answers)
    assert found == {1: {}, 2: -32601, 3: -32600, 4: {}, 5: -32600}
    assert len(role.notices) == 1


# ------------------------------------------------------------ calls


def test_a_call_its_progress_and_its_answer() -> None:
    with open_channel() as (channel, pipe, _):
        got: List[Any] = []
        call = ask(channel, on_item=got.append)
        assert pipe.lines(1)[0]["method"] == "work"
        pipe.give(
            notice("notifications/progress", progressToken=1, progress=1),
            notice("notifications/progress", progressToken="1", progress=2),
            notice("notifications/progress", progressToken=True, progress=3),
            result("1"), result(1, n=1), result(1, n=2),
        )
        assert channel.calls.wait(call, soon()) == {"n": 1}
        assert got == [{"progressToken": 1, "progress": 1}]


def test_giving_up_is_told_by_the_control_worker() -> None:
    with open_channel() as (channel, pipe, _):
        with pytest.raises(RequestTimeout):
            channel.calls.wait(ask(channel), Deadline(0))
        assert pipe.lines(2)[1]["method"] == "notifications/cancelled"


def test_what_the_peer_does_not_take_at_once_the_control_worker_writes() -> None:
    with open_channel(room=1) as (channel, pipe, _):
        ask(channel)
        channel.write(b"half\n", Deadline(0))
        wait_for(pipe.stuck)
        pipe.take(None)
        assert eventually(lambda: pipe.sent.endswith(b"half\n"))


# ------------------------------------------------------------ how it ends


def test_a_loss_quotes_the_last_line_that_was_no_message(caplog: pytest.LogCaptureFixture) -> None:
    role = ScriptedRole()
    role.answers_rubbish = False
    with open_channel(role) as (channel, pipe, _role):
        call = ask(channel)
        pipe.give(b"Listening on port 80")
        pipe.end()
        with pytest.raises(ConnectionLost, match="no message: Listening on port 80"):
            channel.calls.wait(call, soon())
    assert "a line that is no message" in caplog.text


def test_the_end_of_the_stream_ends_calls_and_lets_requests_finish() -> None:
    held = Held()
    role = ScriptedRole()
    role.serve("work", held)
    with open_channel(role, drain_grace=10 * WAIT) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        call = ask(channel)
        pipe.end()
        with pytest.raises(ConnectionLost, match="the peer closed"):
            channel.calls.wait(call, soon())
        assert not channel.ended
        assert not channel.wait_until_ended(0)
        held.go.set()
        assert outcome(pipe.lines(2)[1]) == (1, {})
        assert channel.wait_until_ended(WAIT)
        assert channel.ended
        assert pipe.closed
    assert len(role.losses) == 1


def test_what_runs_too_long_after_the_end_is_left(caplog: pytest.LogCaptureFixture) -> None:
    held = Held()
    role = ScriptedRole(hot=False)
    role.serve("work", held)
    with open_channel(role, drain_grace=0.001) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        pipe.end()
        assert channel.wait_until_ended(WAIT)
        assert held.exchange.cancelled
        assert "1 requests still run" in caplog.text
        held.go.set()
    assert pipe.sent == b""


def test_a_peer_that_hears_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ScriptedPipe, "is_heard", lambda pipe: False)
    held = Held()
    role = ScriptedRole(hot=False)
    role.serve("work", held)
    with open_channel(role, drain_grace=10 * WAIT) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        pipe.end()
        assert channel.wait_until_ended(WAIT)
        held.go.set()


def test_a_fault_at_the_end_does_not_keep_the_connection_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: List[bool] = []

    def fail(pipe: ScriptedPipe) -> bool:
        asked.append(True)
        if len(asked) == 1:
            raise RuntimeError("concurrent poll() invocation")
        return True

    monkeypatch.setattr(ScriptedPipe, "is_heard", fail)
    with open_channel(ScriptedRole()) as (channel, pipe, _):
        pipe.end()
        assert channel.wait_until_ended(WAIT)
    assert "concurrent poll() invocation" in caplog.text


def test_close_ends_everything_at_once() -> None:
    held = Held()
    role = ScriptedRole()
    role.serve("work", held)
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        waiting = Task(channel.calls.wait, ask(channel), Deadline(None))
        channel.close()
        with pytest.raises(ConnectionLost, match="test: closed"):
            waiting.result()
        assert held.exchange.cancelled
        assert channel.ended
        with pytest.raises(ConnectionLost, match="test: closed"):
            ask(channel)
        channel.close()
        held.go.set()


def test_close_gives_running_requests_the_grace() -> None:
    held = Held()
    role = ScriptedRole()
    role.serve("work", held)
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        closing = Task(channel.close, WAIT)
        held.go.set()
        assert outcome(pipe.lines(1)[0]) == (1, {})
        closing.result()
        channel.close(WAIT)


def test_close_with_a_reason_cancels_what_runs_and_takes_its_answers() -> None:
    held = Held()
    role = ScriptedRole(hot=False)
    role.serve("work", held)
    role.serve("sleep", lambda exchange: exchange.sleep(10 * WAIT))
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "sleep"), request(2, "work"))
        wait_for(held.begun)
        closing = Task(channel.close, WAIT, "the server ends")
        assert outcome(pipe.lines(1)[0]) == (1, -32603)
        assert held.exchange.cancelled
        assert held.exchange.reason == "the server ends"
        held.go.set()
        assert outcome(pipe.lines(2)[1]) == (2, {})
        closing.result()


def test_close_tells_the_peer_which_answers_nobody_waits_for() -> None:
    with open_channel() as (channel, pipe, _):
        for method in ("work", "initialize", "server/discover", "work"):
            channel.calls.call(method, lambda id: {})
        channel.close()
        lines = pipe.lines(6)
    told = [line["params"]["requestId"] for line in lines if line["method"] == "notifications/cancelled"]
    assert told == [1, 4]


def test_close_does_not_wait_for_a_peer_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAREWELL_SECONDS", 0.001)
    with open_channel(room=0) as (channel, pipe, _):
        call = ask(channel)
        Task(channel.close).result()
        with pytest.raises(ConnectionLost, match="closed"):
            channel.calls.wait(call, soon())
        assert pipe.sent == b""


def test_close_does_not_wait_for_what_the_end_of_the_stream_waits_for() -> None:
    held = Held()
    role = ScriptedRole()
    role.serve("work", held)
    with open_channel(role, drain_grace=10 * WAIT) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        pipe.end()
        with pytest.raises(ConnectionLost):
            channel.calls.wait(ask_until_lost(channel), soon())
        channel.close()
        assert channel.ended
        held.go.set()


def ask_until_lost(channel: Connection) -> Any:
    """A call that waits until the reader has seen the end of the stream."""
    return ask(channel)


def test_close_from_a_handler_and_from_many_threads_at_once() -> None:
    role = ScriptedRole()
    with open_channel(role) as (channel, pipe, _):
        closed = threading.Event()

        def close(exchange: IncomingRequest) -> Any:
            tasks = [Task(channel.close) for _ in range(4)]
            channel.close()
            for task in tasks:
                task.result()
            closed.set()
            return {}

        role.serve("work", close)
        pipe.give(request(1, "work"))
        wait_for(closed)
        assert channel.wait_until_ended(WAIT)


def test_close_from_a_callback_of_a_call() -> None:
    with open_channel() as (channel, pipe, _):
        call = ask(channel, on_item=lambda item: channel.close())
        pipe.give(notice("notifications/progress", progressToken=1, progress=1))
        with pytest.raises(ConnectionLost, match="closed"):
            channel.calls.wait(call, soon())


def test_close_from_the_reader_and_from_the_control_worker() -> None:
    for method in ("notified", "control"):
        role = ScriptedRole()
        with open_channel(role) as (channel, pipe, _):
            role.noticed = lambda notification: channel.close()  # noqa: B023, used before the next round
            role.serve("control", lambda exchange: channel.close() or {}, control=True)  # noqa: B023
            pipe.give(notice("n") if method == "notified" else request(1, "control"))
            assert channel.wait_until_ended(WAIT)


def test_a_thread_that_does_not_end_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.001)
    role, begun, go = ScriptedRole(), threading.Event(), threading.Event()
    role.noticed = lambda notification: (begun.set(), go.wait(WAIT))
    with open_channel(role) as (channel, pipe, _):
        pipe.give(notice("n"))
        wait_for(begun)
        channel.close()
        assert "minimcp-test-reader has not ended" in caplog.text
        go.set()


def test_an_owner_that_is_collected_waits_for_nothing() -> None:
    with open_channel() as (channel, pipe, _):
        channel.abandon()
        assert channel.wait_until_ended(WAIT)
        assert pipe.closed


def test_what_arrived_before_a_fault_is_not_lost_with_it() -> None:
    role = ScriptedRole()
    role.noticed = lambda notification: 1 / 0
    role.serve("work", lambda exchange: {})
    with open_channel(role) as (channel, pipe, _):
        waiting = Task(channel.calls.wait, ask(channel), Deadline(None))
        pipe.give(request(7, "work"), result(1, n=1), notice("n"))
        assert waiting.result() == {"n": 1}
        assert outcome(pipe.lines(2)[1]) == (7, {})


def test_a_long_piece_does_not_keep_its_first_messages_waiting() -> None:
    role = ScriptedRole()
    with open_channel(role) as (channel, pipe, _):
        waiting = Task(channel.calls.wait, ask(channel), Deadline(None))
        role.noticed = lambda notification: waiting.result()  # the reader cannot go on before
        pipe.give(result(1, n=1), *([request(1, "silent")] * 63), notice("n"))
        assert waiting.result() == {"n": 1}


@pytest.mark.parametrize("error", [KeyError("a fault"), SystemExit("a fault")])
def test_a_fault_on_the_readers_thread_ends_in_a_loss(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    role = ScriptedRole()

    def fail(notification: Any) -> None:
        raise error

    role.noticed = fail
    with open_channel(role) as (channel, pipe, _):
        call = ask(channel)
        pipe.give(notice("n"))
        with pytest.raises(ConnectionLost, match="the reader failed: .*a fault"):
            channel.calls.wait(call, soon())
        assert channel.wait_until_ended(WAIT)
    assert "the reader failed" in caplog.text


def test_in_a_fork_everything_raises_and_close_only_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_channel() as (channel, pipe, _):
        real = os.getpid()
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: real + 1)
            for use in (lambda: ask(channel), lambda: channel.write(b"a\n"), lambda: channel.post(b"a\n")):
                with pytest.raises(ConnectionLost, match="fork"):
                    use()
            closed: List[int] = []
            patch.setattr(ScriptedPipe, "close", lambda pipe: closed.append(1))
            channel.close()
            channel.abandon()
        assert len(closed) == 2
        assert pipe.sent == b""
        assert not channel.ended


# ------------------------------------------------------------ a peer that is gone, or does not read


@pytest.mark.parametrize("way", ["write", "post"])
def test_a_write_that_fails_ends_the_connection(way: str) -> None:
    with open_channel() as (channel, pipe, _):
        waiting = ask(channel)
        pipe.failing = ConnectionLost("broken pipe")
        with pytest.raises(ConnectionLost, match="broken pipe"):
            getattr(channel, way)(b"a\n")
        with pytest.raises(ConnectionLost, match="broken pipe"):
            channel.calls.wait(waiting, soon())
        assert channel.wait_until_ended(WAIT)


class Leaving(ScriptedPipe):
    """A peer that answers one call, writes a line and is gone; writes fail before the reader has seen any of it."""

    __slots__ = ()

    def send(self, data: bytes, seconds: float) -> int:
        if self.failing is None:
            return super().send(data, seconds)
        self.give(result(1, n=1), b"Bye.")
        self.end()
        raise self.failing from BrokenPipeError()


@pytest.mark.parametrize("way", ["write", "post"])
def test_what_the_peer_said_before_it_left_still_counts(way: str) -> None:
    pipe, role = Leaving(), ScriptedRole()
    role.answers_rubbish = False
    with closing(Connection(pipe, role, name="test").open()) as channel:
        answered, waiting = ask(channel), ask(channel)
        pipe.failing = ConnectionLost("broken pipe")
        with pytest.raises(ConnectionLost, match="no message: Bye"):
            getattr(channel, way)(b"a\n")
        assert channel.calls.wait(answered, soon()) == {"n": 1}
        with pytest.raises(ConnectionLost, match="no message: Bye"):
            channel.calls.wait(waiting, soon())


def test_an_answer_that_cannot_be_written_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "minimcp")
    with open_channel() as (channel, pipe, _):
        pipe.failing = ConnectionLost("broken pipe")
        pipe.give(request(1, "ping"))
        assert channel.wait_until_ended(WAIT)
    assert "an answer could not be written" in caplog.text


def test_a_peer_that_takes_no_byte_is_lost() -> None:
    with open_channel(room=0, write_timeout=0.001) as (channel, pipe, _):
        call = ask(channel)
        with pytest.raises(ConnectionLost, match="took no byte"):
            channel.calls.wait(call, soon())


def test_the_reader_stops_for_a_peer_that_does_not_take_its_answers_and_for_nothing_else() -> None:
    with open_channel(room=0, max_backlog_bytes=500) as (_, pipe, _role):
        for id in range(40):
            pipe.give(request(id, "unknown"))
        assert eventually(lambda: pipe.frames.qsize() > 0 and pipe.stuck.is_set())
        pipe.take(None)
        assert len(pipe.lines(40)) == 40
        assert pipe.frames.empty()


def test_close_frees_a_reader_that_is_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAREWELL_SECONDS", 0.001)
    with open_channel(room=0, max_backlog_bytes=10) as (channel, pipe, _):
        pipe.give(request(1, "unknown"), request(2, "unknown"))
        pipe.give(request(3, "unknown"))
        wait_for(pipe.stuck)
        channel.close()
        assert channel.ended


# ------------------------------------------------------------ a system without threads


@pytest.mark.parametrize("part", ["reader", "control", "watcher", "-1"])
def test_a_channel_that_finds_no_thread_lets_go_of_everything(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAREWELL_SECONDS", 0.001)
    pipe, role = ScriptedPipe(), ScriptedRole()
    channel = Connection(pipe, role, name="test")
    with no_threads(monkeypatch, part), pytest.raises(RuntimeError, match="thread"):
        channel.open()
    assert channel.wait_until_ended(WAIT)
    assert pipe.closed
    assert len(role.losses) == 1
    channel.close()


def test_no_thread_for_a_request_is_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    role = ScriptedRole(hot=False)
    role.serve("work", lambda exchange: {})
    with open_channel(role, max_queue_bytes=1000) as (_, pipe, _role):
        with no_threads(monkeypatch):
            for id in range(50):  # a request that was refused waits no longer
                pipe.give(request(id, "work"))
                assert outcome(pipe.lines(id + 1)[id]) == (id, -32603)
        pipe.give(request(51, "work"))
        assert outcome(pipe.lines(51)[50]) == (51, {})


def test_no_thread_for_a_request_in_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    role = ScriptedRole(hot=False)
    role.serve("work", lambda exchange: {})
    with open_channel(role) as (_, pipe, _role), no_threads(monkeypatch):
        pipe.give([request(1, "work"), request(2, "ping")])
        assert sorted(map(outcome, pipe.lines(1)[0]), key=lambda one: one[0]) == [(1, -32603), (2, {})]


def test_what_an_executor_refuses_is_answered_and_the_reader_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    role, serial = ScriptedRole(), Serial()
    role.serve("work", lambda exchange: {}, start=Main().start)
    role.serve("serial", lambda exchange: {"n": 1}, start=serial.start)
    with open_channel(role, max_requests=2) as (channel, pipe, _):
        with no_threads(monkeypatch):
            pipe.give(request(1, "serial"))
            assert pipe.lines(1)[0]["error"]["message"] == "no thread is free"
        pipe.give(request(2, "serial"))
        assert pipe.lines(2)[1]["result"] == {"n": 1}
        assert eventually(lambda: not channel.inbound._started)
        pipe.give(*[request(id, "work") for id in (3, 4, 5)])
        assert (pipe.lines(3)[2]["id"], pipe.lines(3)[2]["error"]["message"]) == (5, "more than 2 requests run already")
        pipe.give(cancelled(3), request(6, "ping"), request(7, "work"), request(8, "work"))
        assert [line["id"] for line in pipe.lines(5)[3:]] in ([6, 8], [8, 6]), "a cancelled one leaves its place"


def test_no_thread_for_what_is_done_aside_costs_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader and the writers go on: the control worker does it."""
    held, called = Held(), threading.Event()
    role = ScriptedRole()
    role.serve("work", held, control=False)
    with open_channel(role) as (channel, pipe, _):
        pipe.give(request(1, "work"))
        wait_for(held.begun)
        held.exchange.on_cancel(called.set)
        with no_threads(monkeypatch):
            monkeypatch.setattr(channel.workers, "start", refuse)
            pipe.give(cancelled(1))
            wait_for(called)
            pipe.give(request(2, "ping"))
            assert outcome(pipe.lines(1)[0]) == (2, {})
            with pytest.raises(RuntimeError):
                channel.run_aside(called.set)
            held.go.set()
            pipe.failing = ConnectionLost("broken pipe")
            with pytest.raises(ConnectionLost):
                channel.write(b"a\n")
            assert channel.wait_until_ended(WAIT)


def refuse(work: Any, *, beyond_cap: bool = False) -> None:
    raise RuntimeError("the system gives no more threads")
