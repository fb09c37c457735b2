"""What the reader makes of each frame, frame by frame and without a thread: whose it is, or what is wrong with it."""

from __future__ import annotations

import json
from typing import Any, Callable, List, Optional

import pytest
from minimcp.engine.intake import MOST_WARNINGS, Intake

from minimcp.engine.limits import Limits
from minimcp.engine.requests import Inbound, IncomingRequest, Outgoing, PendingCall, RequestTable
from minimcp.engine.timer import Deadline
from minimcp.engine.transport import Addressed, Ended, TooLong
from minimcp.errors import ConnectionLost, ProtocolViolation
from minimcp.protocol.messages import Failure

from .rows import for_each
from .scripted import ScriptedRole, cancelled, dumps, notice, request, result


class Bench:
    """The reader's part of a connection: what it hands over, what it owes, and the calls that wait."""

    def __init__(
        self, role: Optional[ScriptedRole] = None, *, trace: Optional[Callable[..., None]] = None, **limits: Any
    ) -> None:
        self.role = role or ScriptedRole()
        self.role.serve("work", lambda exchange: {"n": exchange.request.params.get("n")})
        self.begun: List[IncomingRequest] = []
        self.lines: List[Any] = []
        """Decoded, in the order in which they would be written."""
        self.calls = RequestTable()
        bounds = Limits(**limits)
        self.inbound = Inbound(
            bounds, send=self.write, owe=self.write, deliver=self.write, later=lambda work: None,
            run_aside=lambda work: work(), calls=Outgoing("test", post=self.write, owe=self.write),
        )
        self.intake = Intake(
            self.role, bounds, self.inbound, self.calls, dispatch=self.begun.append, owe=self.write, trace=trace
        )

    def write(self, line: bytes) -> None:
        self.lines.append(json.loads(line))

    def take(self, *frames: Any) -> List[Any]:
        """Have frames arrive, objects or bytes; all that was written up to now, answered or refused."""
        for frame in frames:
            self.intake.take(dumps(frame) if isinstance(frame, (dict, list)) else frame)
        return self.lines

    def finish(self) -> List[Any]:
        """Run what was handed over; all that was written up to now."""
        while self.begun:
            line = self.begun.pop(0).run()
            if line is not None:
                self.write(line)
        return self.lines

    def call(self, **options: Any) -> PendingCall:
        return self.calls.register("work", **options)


def a_client() -> ScriptedRole:
    role = ScriptedRole()
    role.answers_rubbish = role.takes_batches = False
    return role


def outcome(line: Any) -> Any:
    return line["id"], line.get("result", line.get("error", {}).get("code"))


def outcomes(lines: List[Any]) -> List[Any]:
    return [outcome(line) for line in lines]


def ending(call: PendingCall) -> Any:
    assert call.ended
    return call.wait(Deadline(0))


# ------------------------------------------------------------ requests and notifications


def test_a_request_that_is_admitted_is_handed_over_with_what_its_role_knows() -> None:
    bench = Bench()
    bench.role.facts = "facts"
    frame = dumps(request(1, "work", n=5))
    assert bench.take(frame) == []
    (exchange,) = bench.begun
    assert (exchange.server, exchange.peer, exchange.size) == ("facts", bench.role.peer, len(frame))
    assert outcomes(bench.finish()) == [(1, {"n": 5})]


def test_one_that_is_refused_is_told_and_one_that_the_role_took_itself_is_not() -> None:
    bench = Bench()
    assert outcomes(bench.take(request(1, "unknown"), request(2, "silent"))) == [(1, -32601)]
    assert bench.begun == []


def test_an_id_in_use_is_refused() -> None:
    bench = Bench()
    assert outcomes(bench.take(request(1, "work"), request("1", "work"), request(1, "work"))) == [(1, -32600)]
    assert outcomes(bench.finish())[1:] == [(1, {"n": None}), ("1", {"n": None})]


def test_a_notification_is_handed_to_the_role() -> None:
    bench = Bench()
    assert bench.take(notice("notifications/anything", a=1)) == []
    assert [(told.method, told.params) for told in bench.role.notices] == [("notifications/anything", {"a": 1})]


def test_a_cancel_reaches_the_request_with_that_very_id() -> None:
    bench = Bench()
    bench.take(request(1, "work"), request("1", "work"))
    first, second = bench.begun
    odd: List[Any] = [True, 1.0, None, [1], 7]
    bench.take(*(notice("notifications/cancelled", requestId=id) for id in odd), notice("notifications/cancelled"))
    assert not first.cancelled
    bench.take(cancelled(1), cancelled(1, "twice"), notice("notifications/cancelled", requestId="1", reason=5))
    assert (first.cancelled, first.reason) == (True, "never mind")
    assert (second.cancelled, second.reason) == (True, None)
    assert bench.finish() == []
    assert bench.role.notices == []


@pytest.mark.requirement("M:SUB-10", "M:SUB-11")
def test_a_cancel_ends_a_stream_of_ours_and_no_other_call() -> None:
    bench = Bench(a_client())
    call, stream = bench.call(), bench.calls.register("subscriptions/listen")
    bench.take(cancelled(call.id), cancelled(str(stream.id)))
    assert not call.ended and not stream.ended
    bench.take(cancelled(stream.id, "full"), cancelled(stream.id))
    assert isinstance(ending(stream), ConnectionLost) and "ended the stream: full" in str(stream.ending)
    bench.intake.wake()
    assert not call.ended and bench.lines == []


def test_a_trace_sees_every_line_even_one_that_is_none() -> None:
    seen: List[Any] = []
    bench = Bench(trace=lambda arrow, line: seen.append((arrow, line)))
    bench.take(b"nonsense", b'{"jsonrpc":"2.0","method":"n"}', TooLong(5))
    assert seen == [("<--", b"nonsense"), ("<--", b'{"jsonrpc":"2.0","method":"n"}')]


# ------------------------------------------------------------ arrays


def test_an_array_is_answered_with_one() -> None:
    bench = Bench()
    items = [
        request(1, "work"), notice("n"), request(2, "unknown"), {"jsonrpc": "2.0", "id": 3}, request(4, "ping"),
        request(5, "initialize"), {"jsonrpc": "2.0", "method": "", "params": 1},
    ]
    assert bench.take(items) == []
    [answers] = bench.finish()
    assert dict(outcomes(answers)) == {1: {"n": None}, 2: -32601, 3: -32600, 4: {}, 5: -32600}
    assert len(bench.role.notices) == 1


def test_an_array_that_is_answered_when_it_has_been_read() -> None:
    [answers] = Bench().take([request(1, "unknown"), 7])
    assert [answer["error"]["code"] for answer in answers] == [-32600, -32601]


def test_an_array_of_notifications_has_no_answer() -> None:
    bench = Bench()
    assert bench.take([notice("n"), notice("n")]) == []
    assert len(bench.role.notices) == 2


def test_an_array_that_is_refused_whole_is_told_once() -> None:
    bench = Bench(max_batch=2)
    assert [line["error"]["code"] for line in bench.take([request(n, "ping") for n in range(3)])] == [-32600]
    assert bench.begun == []


def test_an_array_of_answers() -> None:
    bench = Bench()
    bench.role.answers_rubbish = False
    calls = [bench.call(), bench.call()]
    assert bench.take([result(1, n=1), {"jsonrpc": "2.0", "id": 2, "error": {"code": 5, "message": "no"}}, 7]) == []
    assert [ending(call) for call in calls] == [{"n": 1}, Failure(2, 5, "no")]


# ------------------------------------------------------------ rubbish


@for_each(
    ("frame", "id", "code"),
    [
        (b"nonsense", None, -32700),
        (b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}', 1, -32602),
        (b'{"jsonrpc":"1.0","id":"x","method":"a"}', "x", -32600),
        (b"7", None, -32600),
        (TooLong(100), None, -32600),
    ],
)
def test_a_server_answers_rubbish(frame: Any, id: Any, code: int) -> None:
    [line] = Bench().take(frame)
    assert (line.get("id"), line["error"]["code"]) == (id, code)


def test_an_error_without_an_id_as_older_revisions_write_it() -> None:
    role = ScriptedRole()
    role.error_without_id = False
    assert Bench(role).take(b"nonsense")[0]["id"] is None


@for_each(
    "frame",
    [
        b'{"jsonrpc":"2.0","method":"a","params":[]}',
        b'{"jsonrpc":"2.0","id":7,"result":5}',
        b'{"jsonrpc":"2.0","id":7,"result":{}}',
        b'{"jsonrpc":"2.0","error":{"code":1,"message":"x"}}',
    ],
)
def test_what_is_never_answered(frame: bytes) -> None:
    assert Bench().take(frame) == []


def test_a_client_is_silent_and_remembers_the_line(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_client())
    assert bench.intake.odd_line == ""
    assert bench.take(b"Listening on\x1b port 80") == []
    assert bench.intake.odd_line == "Listening on\\x1b port 80"
    assert "a line that is no message" in caplog.text
    assert outcomes(bench.take(b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}')) == [(1, -32602)]
    assert bench.intake.odd_line == "Listening on\\x1b port 80"


def test_a_program_that_is_no_server_is_not_quoted_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_client())
    bench.take(*[b"x"] * 20, b"y")
    assert bench.intake.odd_line == "y"
    assert caplog.text.count("a line that is no message") == MOST_WARNINGS
    assert caplog.text.count("are not shown") == 1


def test_a_client_that_takes_no_requests_is_silent_about_broken_ones() -> None:
    role = a_client()
    role.takes_requests = False
    assert Bench(role).take(b'{"jsonrpc":"2.0","id":1,"method":"a","params":[]}') == []


# ------------------------------------------------------------ answers and progress


def test_an_answer_ends_its_call_and_a_second_one_nothing() -> None:
    bench = Bench()
    call = bench.call()
    bench.take(result("1"), result(1.0), result(1, n=1), result(1, n=2))
    assert ending(call) == {"n": 1}


def test_progress_goes_to_the_call_with_that_very_token() -> None:
    bench, got = Bench(), []  # type: Any, List[Any]
    call = bench.call(on_item=got.append)
    for token in ("1", True, 1, 1.0, None, [1], 2):
        bench.take(notice("notifications/progress", progressToken=token, progress=0.5))
    bench.take(notice("notifications/progress", progress=0.5), result(1))
    assert ending(call) == {}
    assert json.dumps(got) == '[{"progressToken": 1, "progress": 0.5}]'
    assert bench.role.notices == []


def test_callers_are_woken_together() -> None:
    bench = Bench()
    calls = [bench.call(), bench.call(on_item=lambda item: None), bench.call()]
    bench.take(result(1), notice("notifications/progress", progressToken=2, progress=1))
    assert [call._gate.locked() for call in calls] == [True, True, True]
    bench.intake.wake()
    assert [call._gate.locked() for call in calls] == [False, False, True]
    bench.intake.wake()


def test_an_answer_of_the_wrong_shape_ends_its_call_at_once() -> None:
    bench = Bench()
    call = bench.call()
    assert bench.take(b'{"jsonrpc":"2.0","id":1,"result":[1]}') == []
    found = ending(call)
    assert type(found) is ProtocolViolation
    assert found.peer_message == '{"jsonrpc":"2.0","id":1,"result":[1]}'
    assert not call._gate.locked()


# ------------------------------------------------------------ lines that were too long


def long(text: str) -> TooLong:
    """A line that was too long, of which this was the beginning, and the end."""
    return TooLong(100, text.encode(), text.encode())


def test_a_request_that_is_too_long_is_answered() -> None:
    for role, frame, id in (
        (ScriptedRole(), long('{"jsonrpc":"2.0","id":5,"method":"a","params":{"'), 5),
        (a_client(), long('{"jsonrpc":"2.0","id":5,"method":"a","params":{"'), 5),
        (ScriptedRole(), long('{"jsonrpc":"2.0","method":"a","params":{"'), None),
    ):
        [line] = Bench(role).take(frame)
        assert (line.get("id"), line["error"]["code"]) == (id, -32600)
        assert "longer than 100 bytes" in line["error"]["message"]
        assert "max_message_bytes" in line["error"]["message"]


@for_each("text", ['{"jsonrpc":"2.0","id":2,"result":{"', '{"result":{},"jsonrpc":"2.0","id":2}'])
def test_an_answer_that_is_too_long_ends_its_call_and_no_other(text: str) -> None:
    for role in (ScriptedRole(), a_client()):
        bench = Bench(role)
        calls = [bench.call() for _ in range(3)]
        assert bench.take(long(text), long(text)) == []
        violation = ending(calls[1])
        assert isinstance(violation, ProtocolViolation)
        assert "longer than 100 bytes" in str(violation) and "max_message_bytes" in str(violation)
        assert violation.peer_message == f"{text} ... {text}"
        assert [call.ended for call in calls] == [False, True, False]


def test_an_answer_that_is_too_long_and_names_no_call_ends_all(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_client())
    calls = [bench.call(), bench.call()]
    assert bench.take(long('{"result":{"')) == []
    for call in calls:
        assert isinstance(ending(call), ProtocolViolation)
        assert "max_message_bytes" in str(ending(call))
    assert "does not say whose" in caplog.text
    later = bench.call()
    bench.take(result(3, n=3))
    assert ending(later) == {"n": 3}


def test_what_else_a_client_gets_that_is_too_long_ends_no_call(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(a_client())
    call = bench.call()
    assert bench.take(long("Listening on port 80"), long('{"jsonrpc":"2.0","method":"a","params":{"')) == []
    assert not call.ended
    assert "Listening" in caplog.text and "longer than 100 bytes" in caplog.text


def test_a_line_that_came_in_answer_to_one_request_answers_no_other() -> None:
    bench = Bench()
    ours, other = bench.calls.register("tools/call"), bench.calls.register("tools/call")
    error = {"jsonrpc": "2.0", "error": {"code": 5, "message": "no"}}
    bench.intake.take_all([
        Addressed(dumps(result(other.id)), ours.id), Addressed(dumps({**error, "id": str(ours.id)}), ours.id),
        Addressed(b"no json", ours.id), Addressed(dumps({"jsonrpc": "2.0", "id": other.id, "result": 5}), ours.id),
    ])
    assert not ours.ended and not other.ended
    bench.intake.take_all([Addressed(dumps(error), ours.id)])
    assert isinstance(ours.ending, Failure) and ours.ending.code == 5 and not other.ended
    bench.intake.take_all([Addressed(dumps({"jsonrpc": "2.0", "result": {}}), other.id)])
    assert isinstance(other.ending, ProtocolViolation)


def test_what_else_comes_in_answer_to_a_request_is_taken_as_ever() -> None:
    seen: List[Any] = []
    bench = Bench(trace=lambda arrow, line: seen.append(line))
    bench.intake.take_all([Addressed(dumps(notice("x")), 1), Addressed(dumps(request("a", "work")), 1)])
    assert bench.role.notices[0].method == "x" and len(bench.begun) == 1 and len(seen) == 2


def test_an_ending_that_the_pipe_knows() -> None:
    bench = Bench()
    call, lost = bench.calls.register("tools/call"), ConnectionLost("gone")
    bench.intake.take_all([Ended(call.id, lost), Ended(99, lost)])
    assert call.ending is lost
