"""One connection over a scripted transport: reading, writing, both kinds of requests, and its end."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Tuple

import pytest

from minimcp.engine import connection as connection_module
from minimcp.engine.connection import SMALL_BYTES, Connection, ConnectionRole
from minimcp.engine.incoming import DEFERRED
from minimcp.engine.pool import Pool
from minimcp.engine.timer import NEVER, Deadline
from minimcp.engine.transport import TooLong, memory_pair
from minimcp.errors import (
    Cancelled,
    ConnectionLost,
    InternalError,
    ProtocolViolation,
    RequestTimeout,
)
from minimcp.protocol.messages import Request

from ..rows import for_each
from ..scripted import (
    ScriptedPipe,
    ScriptedRole,
    Task,
    cancelled,
    dumps,
    notice,
    open_channel,
    request,
    result,
    wait_for,
)
from ..support import WAIT, eventually

# Seconds of a grace that no test may need.
LONG = 600.0


def no_params(id: Any) -> Dict[str, Any]:
    return {}


def by_id(lines: List[Any]) -> Dict[Any, Any]:
    return {line["id"]: line for line in lines}


# ------------------------------------------------------------ what arrives


@pytest.mark.requirement("BATCH-01", "BATCH-04")
def test_an_array_is_answered_by_an_array() -> None:
    with open_channel() as (connection, pipe, role):
        role.serve("work", lambda request: {"n": 1})

        def full(request: Any) -> None:
            raise InternalError("full")

        role.serve("full", lambda request: {}, enqueue=full)
        role.serve("wait", lambda request: request.sleep(WAIT))
        items = [
            request(1, "work"), request(2, "initialize"), request(3, "nobody"), 5, notice("notifications/x"),
            request(4, "ping"), request(5, "full"), {"jsonrpc": "2.0", "method": 5},
            notice("notifications/progress", progressToken="nobody", progress=1),
        ]  # fmt: skip
        pipe.give(dumps(items))
        (answers,) = pipe.lines(1)
        found = {answer.get("id"): answer for answer in answers}
        assert (
            found[1]["result"] == {"n": 1}
            and found[4]["result"] == {}
            and "alone" in found[2]["error"]["message"]
        )
        assert found[3]["error"]["code"] == -32601 and found[5]["error"]["message"] == "full"
        assert found[None]["error"]["code"] == -32600 and len(role.notices) == 1
        call = connection.calls.send("work", no_params)
        pipe.give(dumps([result(call.id, n=1)]), dumps([]))
        assert connection.calls.wait(call, Deadline(WAIT)) == {"n": 1}
        assert "must not be empty" in pipe.lines(3)[2]["error"]["message"]
        pipe.give(dumps([request(6, "wait"), cancelled(6), request(7, "ping")]))
        assert pipe.lines(4)[3] == [result(7)], "its messages are taken in order of arrival"
        again = [request(8, "wait"), cancelled(8), request(8, "work"), request(9, "ping")]
        pipe.give(dumps(again))
        assert sorted(pipe.lines(5)[4], key=str) == [result(8, n=1), result(9)]


def test_a_peer_that_uses_the_id_of_a_cancelled_request_again_gets_each_answer() -> None:
    """Over and over, while one worker is busy: no slot of ``Limits.requests`` is lost."""
    with open_channel(workers=1, requests=1) as (_, pipe, role):
        release = threading.Event()
        role.serve("hold", lambda request: wait_for(release) or {})
        role.serve("work", lambda request: {"n": request.request.params["n"]})
        for number in range(3):
            release.clear()
            pipe.give(request(f"hold {number}", "hold"), request(1, "work", n="cancelled"))
            pipe.give(cancelled(1), request(1, "work", n=number), request(2, "ping"))
            assert pipe.lines(3 * number + 1)[-1] == result(2)
            release.set()
            answers = pipe.lines(3 * number + 3)[3 * number + 1 :]
            assert answers == [result(f"hold {number}"), result(1, n=number)]


class Client(ConnectionRole):
    """The role of a client, which does not answer unreadable messages."""

    def admit(self, request: Request) -> Any:
        return None


def client_channel() -> Tuple[Connection, ScriptedPipe]:
    """Return an open connection of a client, and its pipe. The test closes it."""
    pipe = ScriptedPipe()
    return Connection(pipe, Client(), pool=Pool(None, "test")).open(), pipe


def test_a_server_responds_to_an_invalid_message_and_a_client_logs_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with open_channel() as (connection, pipe, _):
        call = connection.calls.send("work", no_params)
        pipe.give(b"{", {"jsonrpc": "2.0", "id": call.id, "result": 5}, {"jsonrpc": "2.0", "method": "notifications/x",
                                                                          "params": 5})  # fmt: skip
        with pytest.raises(ProtocolViolation):
            connection.calls.wait(call, Deadline(WAIT))
        assert pipe.lines(2)[1]["error"]["code"] == -32700
    connection, pipe = client_channel()
    pipe.give(*[b"I am no server %d" % number for number in range(8)])
    pipe.give(request(0, "dropped"), {**request(1, "x"), "params": 5})
    assert pipe.lines(1)[0]["id"] == 1
    late = connection.calls.send("work", no_params)
    with pytest.raises(
        RequestTimeout, match="it wrote a line that is not a message: I am no server 7"
    ):
        connection.calls.wait(late, Deadline(0.01))
    connection.close()
    shown = [
        record for record in caplog.records if "a line that is not a message" in record.getMessage()
    ]
    assert len(shown) == 5


def test_an_oversized_line_ends_the_call_that_it_answers_or_all() -> None:
    with open_channel() as (connection, pipe, _):
        first, second = (connection.calls.send("work", no_params) for _ in range(2))
        pipe.give(TooLong(10, b'{"jsonrpc":"2.0","id":%d,"result":{' % first.id, b"}"))
        with pytest.raises(ProtocolViolation, match="longer than 10 bytes"):
            connection.calls.wait(first, Deadline(WAIT))
        pipe.give(TooLong(10, b'{"jsonrpc":"2.0","method":"x",', b"}"))
        pipe.give(TooLong(10, b'{"jsonrpc":"2.0","id":8,"method":"x",', b"}"))
        assert (
            "longer than 10 bytes" in pipe.lines(3)[2]["error"]["message"]
            and second.outcome is None
        )
        pipe.give(TooLong(10, b'{"jsonrpc":"2.0","result":{"x":"', b"}"))
        with pytest.raises(ProtocolViolation, match="longer than 10 bytes"):
            connection.calls.wait(second, Deadline(WAIT))


# ------------------------------------------------------------ what is written


def give_pool(connection: Connection, pool: Pool) -> None:
    """Have a writer see the jobs of another pool."""
    connection.writer._pool = pool


def test_a_small_line_is_written_by_its_own_thread_and_others_by_the_writer() -> None:
    with open_channel() as (connection, pipe, _):
        threads: List[str] = []
        send = pipe.send
        pipe.send = lambda data, seconds: (
            threads.append(threading.current_thread().name) or send(data, seconds)
        )  # type: ignore[method-assign]
        mine = threading.current_thread().name
        connection.send(b"{}\n")
        assert threads == [mine]
        connection.send(b'"%s"\n' % (b"x" * SMALL_BYTES))
        pipe.lines(2)
        assert threads[1:] == ["minimcp-test-writer"] and eventually(
            lambda: not connection.writer.pending
        )
        release, begun = threading.Event(), threading.Event()
        for _ in range(2):
            connection.pool.submit(lambda: (begun.set(), release.wait(WAIT)))
        pool = Pool(1, "full")
        give_pool(connection, pool)
        pool.submit(lambda: (begun.set(), release.wait(WAIT)))
        wait_for(begun)
        pool.submit(release.is_set)
        connection.send(b"{}\n")  # more answers come soon: this one is worth joining with them
        pipe.lines(3)
        assert threads[2:] == ["minimcp-test-writer"]
        release.set()
        pool.close()


def test_lines_sent_while_another_thread_writes_follow_it_whole() -> None:
    with open_channel() as (connection, pipe, _):
        begun, release = threading.Event(), threading.Event()
        send = pipe.send

        def slow(data: bytes, seconds: float) -> int:
            begun.set()
            release.wait(WAIT)
            return send(data[:3], seconds)  # a part only: the writer thread sends the rest

        pipe.send = slow  # type: ignore[method-assign]
        first = Task(connection.send, b'"first"\n')
        wait_for(begun)
        others = [
            Task(lambda name=name: [connection.send(b'"%s%d"\n' % (name, n)) for n in range(9)])
            for name in (b"a", b"b", b"c")
        ]
        release.set()
        assert first.result() and all(all(each.result()) for each in others)
        assert connection.writer.flush(WAIT)
        lines = pipe.lines(28)
    assert lines[0] == "first" and len(lines) == 28
    for name in "abc":
        numbers = [int(line[1:]) for line in lines if line[0] == name]
        assert numbers == list(range(9))


def test_a_call_on_the_writer_thread_follows_the_queued_lines() -> None:
    with open_channel(room=0) as (connection, pipe, _):
        connection.post(b'"stuck"\n')
        wait_for(pipe.stuck)
        sent: List[int] = []
        connection.post(b'"queued"\n')
        connection.writer.call(lambda: sent.append(len(pipe.sent)))
        pipe.take(None)
        assert pipe.lines(2) == ["stuck", "queued"]
        assert eventually(lambda: sent) and sent == [len(b'"stuck"\n"queued"\n')]


def test_a_cancellation_follows_its_queued_request() -> None:
    with open_channel(room=0) as (connection, pipe, _):
        connection.post(b'{"method":"stuck"}\n')
        wait_for(pipe.stuck)
        call = connection.calls.send("work", no_params)
        connection.calls.end(call, Cancelled("never mind"))
        pipe.take(None)
        methods = [each["method"] for each in pipe.lines(3)]
        assert methods == ["stuck", "work", "notifications/cancelled"]


def test_every_line_is_traced_by_whichever_thread_writes_it() -> None:
    seen: List[Any] = []
    with open_channel(trace=lambda *told: seen.append(told)) as (connection, pipe, _):
        connection.send(b"[1]\n[2]\n")
        connection.post(b"[3]\n")
        connection.post(lambda: b"[4]\n")
        pipe.lines(4)
    assert seen == [("-->", line) for line in (b"[1]", b"[2]", b"[3]", b"[4]")]


def test_lines_posted_by_other_threads_do_not_block_the_reader() -> None:
    with open_channel(room=0) as (connection, pipe, role):
        connection.post(b'"%s"\n' % (b"x" * connection_module.READER_BYTES))
        for number in (1, 2):
            pipe.give(notice("x", n=number))
            assert eventually(lambda: len(role.notices) == number)  # noqa: B023
        pipe.take(None)


def test_responses_of_the_reader_are_written_by_the_writer() -> None:
    with open_channel() as (_, pipe, role):
        threads: List[str] = []
        send = pipe.send
        pipe.send = lambda data, seconds: (
            threads.append(threading.current_thread().name) or send(data, seconds)
        )  # type: ignore[method-assign]
        role.serve(
            "full",
            lambda request: {},
            enqueue=lambda request: request.refuse(InternalError("full")),
        )
        wrong = [b"{", dumps([]), TooLong(10, b'{"jsonrpc":"2.0","id":9,"method":"x",', b"}")]
        given = [
            *wrong,
            request(1, "ping"),
            request(2, "nobody"),
            request(3, "full"),
            dumps([request(4, "ping")]),
        ]
        for number, each in enumerate(given, 1):
            pipe.give(each)
            pipe.lines(number)
        assert set(threads) == {"minimcp-test-writer"}


def test_the_rest_of_a_line_follows_before_any_other() -> None:
    with open_channel(room=3) as (connection, pipe, _):
        send = pipe.send
        nothing = [0, 0]  # taken by the writer's first two writes, which wait

        def scripted(data: bytes, seconds: float) -> int:
            return nothing.pop() if seconds and nothing else send(data, seconds)

        pipe.send = scripted  # type: ignore[method-assign]
        connection.send(b'{"first":1}\n')
        connection.send(b'{"second":2}\n')
        connection.post(lambda: b'{"third":3}\n')
        connection.post(lambda: None)
        connection.post(lambda: {}["fault"])
        pipe.take(None)
        assert pipe.lines(3) == [{"first": 1}, {"second": 2}, {"third": 3}] and not nothing
        connection.post(b'{"last":4}\n')
        assert pipe.lines(4)[3] == {"last": 4}


def test_many_lines_are_joined_into_one_write() -> None:
    with open_channel(room=0) as (connection, pipe, _):
        sizes: List[int] = []
        send = pipe.send
        connection.post(b'{"stuck":1}\n')
        wait_for(pipe.stuck)
        pipe.send = lambda data, seconds: sizes.append(len(data)) or send(data, seconds)  # type: ignore[method-assign]
        for _ in range(100):
            connection.post(b'"%s"\n' % (b"x" * 1000))
        pipe.take(None)
        assert len(pipe.lines(101)) == 101
        assert len(sizes) <= 4 and max(sizes) <= connection_module.JOINED_BYTES + 1003


def test_a_sender_waits_with_a_deadline_for_a_slow_peer() -> None:
    with open_channel(room=0, backlog_bytes=10) as (connection, pipe, _):
        assert connection.send(b'{"first":1}\n')
        assert not connection.send(b'{"second":2}\n', Deadline(0.01))
        sending = Task(connection.send, b'{"third":3}\n')
        calling = connection.calls.send("work", no_params, deadline=Deadline(0.01))
        with pytest.raises(RequestTimeout):
            connection.calls.wait(calling, NEVER)
        pipe.take(None)
        assert sending.result() and pipe.lines(2) == [{"first": 1}, {"third": 3}]


def test_no_request_starts_while_the_peer_does_not_read_and_all_start_when_it_does() -> None:
    with open_channel(room=0, backlog_bytes=2000, requests=None) as (connection, pipe, role):
        ran: List[Any] = []
        role.serve("work", lambda request: ran.append(request.request.id) or {})
        connection.post(b'{"stuck":"%s"}\n' % (b"x" * 3000))
        wait_for(pipe.stuck)
        pipe.give(*[request(number, "work") for number in range(20)])
        assert eventually(
            lambda: connection.requests.running == 0 and connection.writer._lines.qsize() == 20
        )
        assert ran == []
        pipe.take(None)
        assert sorted(line["id"] for line in pipe.lines(21)[1:]) == list(range(20))
        assert connection.writer.flush(WAIT), "what it was asked to call is not counted"


def test_a_peer_that_reads_nothing_is_lost_in_time() -> None:
    with open_channel(room=0, write_timeout=0.02) as (connection, pipe, role):
        waiting = Task(connection.calls.wait, connection.calls.send("work", no_params), NEVER)
        with pytest.raises(ConnectionLost, match="the peer accepted no bytes for 0.02 s"):
            waiting.result()
        assert connection.wait_until_ended(WAIT) and len(role.losses) == 1
        with pytest.raises(ConnectionLost, match="accepted no bytes"):
            connection.send(b"{}\n")


def test_a_reader_with_too_many_queued_bytes_continues_when_the_peer_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "READER_BYTES", 1000)
    monkeypatch.setattr(connection_module, "READER_SECONDS", WAIT)
    with open_channel(room=0) as (connection, pipe, _):
        waiting, changed = threading.Event(), connection.writer._changed
        wait = changed.wait

        def waits(timeout: Optional[float] = None) -> bool:
            waiting.set()
            return wait(timeout)

        monkeypatch.setattr(changed, "wait", waits)
        pipe.give(*[request(number, "ping") for number in range(100)])
        assert waiting.wait(WAIT)
        pipe.take(None)
        assert len(pipe.lines(100)) == 100
        pipe.give(request(100, "ping"))
        assert len(pipe.lines(101)) == 101


def test_a_peer_that_does_not_read_the_readers_responses_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "READER_BYTES", 1000)
    monkeypatch.setattr(connection_module, "READER_SECONDS", 0.05)
    with open_channel(room=0, drain_grace=0.01) as (connection, pipe, _):
        pipe.give(*[request(number, "ping") for number in range(100)])
        assert connection.wait_until_ended(WAIT)
        assert "the peer does not read its responses" in str(connection.calls.cause)


def test_a_fork_refuses_everything_on_its_parents_connection() -> None:
    pipe = ScriptedPipe()
    connection = Connection(pipe, ScriptedRole(), pool=Pool(None, "test"), name="test")
    connection.renew_in_fork()
    assert connection.ended and connection.wait_until_ended(0)
    with pytest.raises(ConnectionLost, match="belongs to the parent process, not to its fork"):
        connection.calls.send("work", no_params)


def test_a_failed_write_reports_the_cause_that_the_reader_knows() -> None:
    class Leaving(ScriptedPipe):
        def loss(self, reason: str) -> ConnectionLost:
            return ConnectionLost(f"exit code 3: {reason}")

    pipe = Leaving()
    connection = Connection(pipe, ScriptedRole(), pool=Pool(None, "test"), name="test").open()
    call = connection.calls.send("work", no_params)
    pipe.failing = ConnectionLost("broken")
    pipe.failing.__cause__ = BrokenPipeError()
    sending = Task(connection.send, b"{}\n")
    pipe.end()
    for act in (sending.result, lambda: connection.calls.wait(call, NEVER)):
        with pytest.raises(ConnectionLost, match="exit code 3: the peer closed the connection"):
            act()
    connection.close()


def test_a_response_that_cannot_be_written_ends_only_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    with open_channel() as (connection, pipe, role):
        role.serve("work", lambda request: {"x": "y"})
        pipe.failing = ConnectionLost("broken")
        pipe.give(request(1, "work"))
        assert connection.wait_until_ended(WAIT) and eventually(
            lambda: "could not be written: broken" in caplog.text
        )


# ------------------------------------------------------------ the end


def test_a_request_that_does_not_finish_in_time_is_abandoned_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with open_channel(drain_grace=0.01) as (connection, pipe, role):
        begun, over = threading.Event(), threading.Event()
        role.serve(
            "work", lambda request: (request.on_cancel(over.set), begun.set(), wait_for(over))
        )
        pipe.give(request(1, "work"))
        wait_for(begun)
        pipe.end()
        assert connection.wait_until_ended(WAIT)
        wait_for(over)
        assert "requests that are still running after 0.01 s: 1" in caplog.text and pipe.sent == b""


def test_close_cancels_calls_and_running_requests() -> None:
    with open_channel() as (connection, pipe, role):
        reasons: List[Any] = []
        begun = threading.Event()
        role.serve("work", lambda request: (
            request.on_cancel(lambda: reasons.append(request.token.reason)), begun.set(), request.sleep(WAIT)))  # fmt: skip
        pipe.give(request(1, "work"))
        wait_for(begun)
        call = connection.calls.send("work", no_params)
        for each in [Task(connection.close) for _ in range(3)]:
            each.result()
        with pytest.raises(ConnectionLost, match="test: closed"):
            connection.calls.wait(call, NEVER)
        told = [line for line in pipe.lines(2) if line.get("method") == "notifications/cancelled"]
        assert [line["params"]["requestId"] for line in told] == [call.id]
        assert eventually(lambda: reasons == ["the connection is closed"]) and len(role.losses) == 1


def test_close_from_its_own_threads_and_of_one_that_was_never_opened() -> None:
    role = ScriptedRole()
    connection = Connection(ScriptedPipe(), role, pool=Pool(None, "test"))
    connection.close()
    assert connection.ended and len(role.losses) == 1
    with open_channel() as (connection, pipe, role):
        role.noticed = lambda notification: connection.close()
        pipe.give(notice("notifications/x"))
        assert connection.wait_until_ended(WAIT)
    with open_channel() as (connection, pipe, _):
        connection.abandon()
        assert connection.wait_until_ended(WAIT) and str(connection.calls.cause) == "test: closed"


@pytest.mark.parametrize("part", ["reader", "writer"])
def test_close_may_happen_while_its_threads_start(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, connection = (
        threading.Thread.start,
        Connection(ScriptedPipe(), ScriptedRole(), pool=Pool(1, "x")),
    )

    def late(thread: threading.Thread) -> None:
        if thread.name.endswith(part):
            connection.close()
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", late)
        connection.open()
    connection.close()
    assert connection.ended and not any(
        thread.name.endswith(("-reader", "-writer")) for thread in threading.enumerate()
    )


def test_threads_that_do_not_end_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection_module, "CLOSE_SECONDS", 0.01)
    with open_channel() as (connection, pipe, role):
        release, stuck = threading.Event(), threading.Event()
        role.noticed = lambda notification: (stuck.set(), release.wait(WAIT))
        pipe.give(notice("notifications/x"))
        wait_for(stuck)
        connection.close()
        assert "thread minimcp-test-reader has not ended" in caplog.text
        release.set()


@pytest.mark.parametrize("thread", ["reader", "writer"])
def test_a_fault_of_a_thread_ends_in_a_loss(thread: str) -> None:
    with open_channel() as (connection, pipe, role):
        call = connection.calls.send("work", no_params)
        if thread == "reader":
            role.noticed = lambda notification: {}["missing"]
            pipe.give(notice("notifications/x"))
        else:
            pipe.failing = KeyError("missing")
            connection.post(b"{}\n")
        with pytest.raises(ConnectionLost, match=f"the {thread} failed: KeyError"):
            connection.calls.wait(call, Deadline(WAIT))
        assert connection.wait_until_ended(WAIT)


def test_requests_that_arrive_while_a_signal_ends_it_are_rejected() -> None:
    """Else a stream that is opened now would be waited for."""

    class Late(ScriptedRole):
        def on_draining(self, sink: Any) -> None:
            if not came:
                came.append(True)
                pipe.give(request(1, "listen"))
                assert pipe.lines(1)[0]["error"]["message"] == "the server was told to end"

    came: List[bool] = []
    with open_channel(Late()) as (connection, pipe, role):
        role.serve("listen", lambda request: DEFERRED)
        Task(connection.close, LONG, "the server was told to end").result()
    assert came


def test_an_open_connection_needs_two_threads_and_no_more() -> None:
    before = set(threading.enumerate())
    ours, theirs = memory_pair(None)
    connection = Connection(ours, ScriptedRole(), pool=Pool(None, "test"), name="test").open()
    assert sorted(thread.name for thread in set(threading.enumerate()) - before) == [
        "minimcp-test-reader",
        "minimcp-test-writer",
    ]
    connection.close()
    theirs.close()


# Lines that are not JSON and answer call 1; %d is its id.
UNREADABLE = [
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":NaN}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":"x\ty"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":"caf\xe9"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":"\\x"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":1,}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{}} {}',
    b'{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"message":NaN}}',
    b'{"jsonrpc":"2.0","result":{"a":Infinity},"id":%d}',
    b'{"result":{"a":undefined},"id":%d,"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0", "id" : "%d", "result":{"a":NaN}}',
    b'INFO sent {"jsonrpc":"2.0","id":%d,"result":{}}',
    b'\x1b[0m{"jsonrpc":"2.0","id":%d,"result":{}}',
    b"{'jsonrpc':'2.0',\"id\":%d,\"result\":{}}",
    b'{"jsonrpc":"2.0","meta":{"x":1},"id":%d,"result":{"a":NaN}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"id":77,"a":NaN}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"id":2,"a":NaN}}',
    b'{"jsonrpc":"2.0","id":%d,"result":{"a":"' + b"x" * 100_000 + b'\t"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":[1]}',
    b'{"id":%d,"result":{}}',
    b"{'id': %d, 'error': {'id': 4}}",
]


@for_each("line", UNREADABLE)
def test_a_response_that_cannot_be_read_ends_the_one_call_whose_id_it_has(line: bytes) -> None:
    connection, pipe = client_channel()
    first, second = (connection.calls.send("work", no_params) for _ in range(2))
    pipe.give(line % first.id)
    with pytest.raises(ProtocolViolation) as caught:
        connection.calls.wait(first, Deadline(WAIT))
    assert caught.value.peer_message and second.outcome is None
    pipe.give({"jsonrpc": "2.0", "id": second.id, "result": {"a": 1}})
    assert connection.calls.wait(second, Deadline(WAIT)) == {"a": 1}
    connection.close()


# Lines that must not end any call, because they belong to no certain call or are not responses.
UNCLEAR = [
    b'{"jsonrpc":"2.0","id":99,"result":{"id":1,"a":NaN}}',
    b'{"jsonrpc":"2.0","result":{"x":{"id":1},"y":{"id":2},"a":NaN}}',
    b'x {"id":1,"result":{}} {"id":2,"result":{}}',
    b'--> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"result":1}}',
    b'{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"a":NaN}}',
    b'working on "id": 1 now',
    b'"id": 1.5, "result": x',
    b'{"result":NaN}',
    b"{'id': 1, 'method': 'm', 'result': {}}",
    b"{'id': 1}",
    b"{'id': 01, 'result': 1}",
    b'{"id": "\\ud800", "result": x}',
]


@for_each("line", UNCLEAR)
def test_a_line_that_belongs_to_no_certain_call_ends_none(line: bytes) -> None:
    connection, pipe = client_channel()
    calls = [connection.calls.send("work", no_params) for _ in range(2)]
    assert [call.id for call in calls] == [1, 2]
    pipe.give(line, {"jsonrpc": "2.0", "id": 2, "result": {"a": 1}})
    assert connection.calls.wait(calls[1], Deadline(WAIT)) == {"a": 1}
    assert calls[0].outcome is None
    connection.close()


@for_each("ending", [{"result": {"a": 1}}, {"error": {"code": 1, "message": "x"}}])
def test_an_id_returned_as_text_means_the_number(ending: Any) -> None:
    connection, pipe = client_channel()
    call = connection.calls.send("work", no_params)
    for other in ("01", " 1", "+1", "1.0", "one", ""):
        pipe.give({"jsonrpc": "2.0", "id": other, **ending})
    pipe.give({"jsonrpc": "2.0", "id": str(call.id), **ending})
    found = connection.calls.wait(call, Deadline(WAIT))
    assert found == ending.get("result", found)
    connection.close()


def test_null_next_to_a_result_or_an_error_counts_as_absent() -> None:
    connection, pipe = client_channel()
    first, second, third = (connection.calls.send("work", no_params) for _ in range(3))
    failed = {"code": 1, "message": "x"}
    pipe.give(
        {"jsonrpc": "2.0", "id": first.id, "result": {"a": 1}, "error": None},
        {"jsonrpc": "2.0", "id": second.id, "result": None, "error": failed},
        {"jsonrpc": "2.0", "id": third.id, "result": None, "error": None},
    )
    assert connection.calls.wait(first, Deadline(WAIT)) == {"a": 1}
    assert connection.calls.wait(second, Deadline(WAIT)).message == "x"  # type: ignore[union-attr]
    with pytest.raises(ProtocolViolation):
        connection.calls.wait(third, Deadline(WAIT))
    connection.close()


def test_a_role_has_no_ping_by_default() -> None:
    assert ConnectionRole().ping() is None
