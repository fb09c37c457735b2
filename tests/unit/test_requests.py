"""Our calls from sending to their one ending, and the peer's requests from arriving to their one
answer."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, Optional

import pytest

from minimcp.engine.asking import ask_peer, end_questions
from minimcp.engine.batch import Batch, why_no_batch
from minimcp.engine.calls import MAX_PAUSES, MAX_PROGRESS, PROGRESS_BYTES, Calls
from minimcp.engine.cancel import CancelToken
from minimcp.engine.dispatch import accept
from minimcp.engine.incoming import (
    DEFERRED,
    IncomingRequest,
    Route,
    Sink,
    current_trace_context,
)
from minimcp.engine.limits import Limits
from minimcp.engine.running import (
    BEGIN,
    DONE,
    END,
    LEAVE,
    REQUEST_BYTES,
    RunningRequests,
)
from minimcp.engine.shares import CountedClient, Shares
from minimcp.engine.timer import NEVER, Deadline, Timeout
from minimcp.errors import (
    Cancelled,
    CapabilityNotSupported,
    ConnectionLost,
    InternalError,
    InvalidRequest,
    MethodNotFound,
    RequestTimeout,
    RpcError,
)
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Failure, Notification, Request, Response, encode
from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE

from ..inside import pauses_of, waits_on
from ..rows import for_each
from ..scripted import RecordingOutlet, Task, wait_for
from ..support import WAIT, around, eventually


def test_a_token_calls_each_callback_once_and_continues_after_a_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    token, called = CancelToken(), []
    token.on_cancel(lambda: called.append(1))
    token.on_cancel(lambda: {}["missing"])
    token.on_cancel(lambda: forget())
    forget = token.on_cancel(lambda: called.append(2))
    token.on_cancel(lambda: called.append(3))
    assert repr(token) == "<CancelToken open>" and not token.cancelled
    token.cancel("enough")
    token.cancel("again")
    forget()
    assert token.cancelled and token.reason == "enough" and repr(token) == "<CancelToken cancelled>"
    token.on_cancel(lambda: called.append(4))
    assert called == [1, 3, 4] and "'missing'" in caplog.text


# ------------------------------------------------------------ our calls


class Wire:
    """Takes what calls write: ``sent`` by the caller, ``posted`` for another thread."""

    def __init__(self) -> None:
        self.sent: List[Any] = []
        self.posted: List[Any] = []
        self.failing: Any = None
        self.room = True
        self.calls = Calls("wire", self.send, self.post, timeout_note=lambda: "; it is odd")

    def send(self, lines: bytes, deadline: Deadline) -> bool:
        if self.failing is not None:
            raise self.failing
        if self.room:
            self.sent += map(json.loads, lines.splitlines())
        return self.room

    def post(self, line: bytes) -> None:
        self.posted.append(json.loads(line))


@pytest.fixture
def wire() -> Wire:
    return Wire()


def no_params(id: Any) -> Dict[str, Any]:
    return {}


def test_a_callback_that_raises_cancels_the_call(wire: Wire) -> None:
    call = wire.calls.send("work", no_params, lambda item: {}["missing"])
    wire.calls.progress({"progressToken": call.id}, 100)
    with pytest.raises(KeyError):
        wire.calls.wait(call, NEVER)
    assert [line["method"] for line in wire.posted] == ["notifications/cancelled"] and len(
        wire.calls
    ) == 0


@pytest.mark.parametrize("how", ["deadline", "cancel", "answer", "close"])
def test_a_call_ends_although_progress_arrives(wire: Wire, how: str) -> None:
    """Each callback causes more progress, or much progress has arrived before the end."""
    seen: List[int] = []

    def slow(item: Any) -> None:
        seen.append(item["progress"])
        for _ in range(2 if how == "deadline" else 0):
            wire.calls.progress({"progressToken": call.id, "progress": item["progress"] + 1}, 100)
        if how in ("cancel", "answer"):
            if how == "answer":
                wire.calls.settle(call.id, {"done": True})
            wire.calls.end(call, Cancelled("enough"))
        elif how == "close":
            call.on_item = None  # as `Connection.close` does
            wire.calls.close(ConnectionLost("closed"))

    call = wire.calls.send("work", no_params, slow)
    for number in range(900):
        wire.calls.progress({"progressToken": call.id, "progress": number}, 100)
    ends = {
        "deadline": RequestTimeout,
        "cancel": Cancelled,
        "answer": None,
        "close": ConnectionLost,
    }[how]
    ended = Task(wire.calls.wait, call, Deadline(0.1 if how == "deadline" else WAIT)).ended()
    assert ended == {"done": True} if ends is None else type(ended) is ends
    assert len(wire.calls) == 0 and (how == "deadline" or seen == [0])


def test_a_deadline_does_not_drop_a_response_that_arrived_before(wire: Wire) -> None:
    class Over(Deadline):
        expired = True

    seen: List[int] = []
    call = wire.calls.send("work", no_params, lambda item: seen.append(item["progress"]))
    for number in range(3):
        wire.calls.progress({"progressToken": call.id, "progress": number}, 100)
    wire.calls.settle(call.id, {"done": True})
    assert (wire.calls.wait(call, Over(0.0)), seen) == ({"done": True}, [0, 1, 2])


def test_a_slow_callback_receives_the_newest_progress(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    seen: List[Any] = []
    call = wire.calls.send("work", no_params, lambda item: seen.append(item["progress"]))
    for number in range(MAX_PROGRESS + 500):
        wire.calls.progress({"progressToken": call.id, "progress": number}, 100)
    assert len(call.queue.queued) == MAX_PROGRESS
    for size in (500_000, 400_000, 2 * PROGRESS_BYTES):
        wire.calls.progress({"progressToken": call.id, "progress": number + 1}, size)
    assert len(call.queue.queued) < MAX_PROGRESS and call.queue.bytes <= PROGRESS_BYTES
    wire.calls.settle(call.id, {})
    assert wire.calls.wait(call, NEVER) == {} and seen[-3:] == [number, number + 1, number + 1]
    assert call.queue.bytes == 0 and caplog.text.count("the oldest are dropped") == 1


@pytest.mark.requirement("CANC-01", "CANC-02", "CANC-11", "X-07")
@for_each("method", ["tools/call", "initialize", "server/discover"])
def test_a_timeout_names_the_call_and_is_sent_once(method: str) -> None:
    wire = Wire()
    call = wire.calls.send(method, lambda id: {"task": {"ttl": 1}})
    with pytest.raises(
        RequestTimeout, match=f"^wire: {method} 'deaf': no answer within 0.01 s; it is odd$"
    ):
        wire.calls.wait(call, Deadline(0.01), about="deaf")
    assert not wire.calls.end(call, Cancelled("late"))
    told = [line["params"]["requestId"] for line in wire.posted]
    assert told == ([call.id] if method == "tools/call" else [])


def test_a_wait_continues_until_the_deadline_has_passed(wire: Wire) -> None:
    class Early(Deadline):
        looks = 0

        def to_wait(self) -> float:
            self.looks += 1
            if self.looks == 3:
                wire.calls.settle(call.id, {})
            return 0.0

    call = wire.calls.send("work", no_params)
    assert wire.calls.wait(call, Early(None)) == {}


def test_calls_that_cannot_be_sent_leave_nothing_behind(wire: Wire) -> None:
    with pytest.raises(TypeError):
        wire.calls.send_all([("a", no_params), ("b", lambda id: {"x": object()})])
    wire.failing = ConnectionLost("gone")
    with pytest.raises(ConnectionLost):
        wire.calls.send("work", no_params)
    assert wire.sent == wire.posted == [] and len(wire.calls) == 0
    wire.failing = KeyboardInterrupt()  # it may have been sent by then
    with pytest.raises(KeyboardInterrupt):
        wire.calls.send("work", no_params)
    assert [line["method"] for line in wire.posted] == ["notifications/cancelled"] and len(
        wire.calls
    ) == 0


def test_a_loss_ends_all_calls_and_rejects_new_ones_with_one_cause(wire: Wire) -> None:
    calls = [wire.calls.send(method, no_params) for method in ("work", "initialize")]
    other_lines: List[bytes] = []
    other = wire.calls.through(
        lambda line, deadline: bool(other_lines.append(line)) or True, other_lines.append
    )
    calls.append(other.send("other", no_params))
    assert (
        wire.calls.cause is None
        and len(other) == len({call.id for call in calls}) == 3
        and len(other_lines) == 1
    )
    told = wire.calls.close(ConnectionLost("first"))
    assert [json.loads(line)["params"]["requestId"] for line in told.splitlines()] == [
        calls[0].id,
        calls[2].id,
    ]
    assert wire.calls.close(ConnectionLost("second")) == b""
    for act in (lambda: wire.calls.wait(calls[0], NEVER), lambda: wire.calls.send("work", no_params),
                lambda: other.wait(calls[2], NEVER)):  # fmt: skip
        with pytest.raises(ConnectionLost, match="first"):
            act()
    assert str(other.cause) == "first" and not wire.calls.end(calls[1], Cancelled("late"))
    assert wire.posted == []


@pytest.mark.parametrize("by_view", [False, True])
def test_a_call_counts_as_use_of_the_connection_whichever_response_sent_it(
    wire: Wire, by_view: bool
) -> None:
    sender = wire.calls.through(wire.send, wire.post) if by_view else wire.calls
    assert wire.calls.were_idle()
    call = sender.send("work", no_params)
    sender.settle(call.id, {})
    assert not wire.calls.were_idle() and wire.calls.were_idle()


def test_deadlines_are_paused_while_a_question_is_answered(wire: Wire) -> None:
    calls = [wire.calls.send("work", no_params) for _ in range(3)]
    shared, own = Deadline(WAIT), Deadline(WAIT)
    waits = [
        Task(wire.calls.wait, call, deadline)
        for call, deadline in zip(calls, (shared, shared, NEVER))
    ]
    assert eventually(lambda: [call.deadline for call in calls] == [shared, shared, NEVER])
    resume = wire.calls.pause_all()
    assert pauses_of(shared) == 1 and not pauses_of(own) and not pauses_of(NEVER)
    shared._left = 0.01
    resume()
    resume()
    assert not pauses_of(shared)
    for wait in waits[:2]:
        with pytest.raises(RequestTimeout):
            wait.result()
    wire.calls.settle(calls[2].id, {})
    assert waits[2].result() == {}


def test_a_deadline_is_paused_even_before_a_thread_waits_for_the_response(wire: Wire) -> None:
    deadline = Deadline(WAIT)
    wire.calls.send(
        "work", no_params, deadline=deadline
    )  # the question may arrive before the thread of the call continues
    resume = wire.calls.pause_all()
    assert pauses_of(deadline) == 1
    resume()
    assert not pauses_of(deadline)


def test_a_server_cannot_pause_a_deadline_forever_by_asking_questions(wire: Wire) -> None:
    call = wire.calls.send("work", no_params)
    call.deadline = Deadline(WAIT)
    for _ in range(MAX_PAUSES):
        wire.calls.pause_all()()
    resume = wire.calls.pause_all(call)
    assert not pauses_of(call.deadline) and call.queue.qsize() == 1
    resume()
    assert not pauses_of(call.deadline)


# ------------------------------------------------------------ the peer's requests


def incoming(
    sink: Sink,
    handle: Callable[[IncomingRequest], Any] = lambda request: {},
    *,
    id: Any = 1,
    method: str = "tools/call",
    revision: Any = NEWEST_HANDSHAKE,
    size: int = 10,
    immediate: bool = False,
    batch: Optional[Batch] = None,
    **params: Any,
) -> IncomingRequest:
    """A request that is taken in."""
    message, route = Request(id, method, params), Route(handle, immediate)
    request = IncomingRequest(message, Peer(revision), route, sink, size, batch=batch)
    sink.requests.add(request)
    return request


def answers(sink: RecordingOutlet) -> List[Any]:
    return [json.loads(line) for line, _ in sink.answers]


def test_an_exception_of_a_handler_is_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    sink = RecordingOutlet()
    for number, error in enumerate((RpcError(-5, "no", {"x": object()}), RpcError(-5, "no", [1]), KeyError("secret"),
                                    KeyboardInterrupt())):  # fmt: skip

        def fail(request: IncomingRequest, error: BaseException = error) -> None:
            raise error

        request = incoming(sink, fail, id=number)
        request.run()
    incoming(sink, fail, id=9).refuse(InternalError("full"))
    first, second, third, _, refused = [answer["error"] for answer in answers(sink)]
    assert (
        first == {"code": -5, "message": "no"}
        and second["data"] == [1]
        and refused["message"] == "full"
    )
    assert "secret" not in third["message"] and "'secret'" in caplog.text and request.interrupted
    assert [wait for _, wait in sink.answers] == [True] * 4 + [
        False
    ] and sink.requests.wait_until_empty(Deadline(0))


def test_a_response_that_is_too_long_becomes_an_error(caplog: pytest.LogCaptureFixture) -> None:
    sink = RecordingOutlet(message_bytes=100)
    empty = len(encode(Response(1, {"x": ""})).rstrip())
    for id, size in ((1, 100), (2, 101)):
        incoming(sink, lambda request, size=size: {"x": "y" * (size - empty)}, id=id).run()
    fits, refused = answers(sink)
    assert len(fits["result"]["x"]) == 100 - empty and "ask for less" in refused["error"]["message"]
    assert "has 101 bytes: an error is sent instead" in caplog.text


@pytest.mark.requirement("M:BASE-4")
def test_ids_are_compared_with_their_type_and_free_after_the_response() -> None:
    sink = RecordingOutlet(backlog_bytes=2 * REQUEST_BYTES + 35)
    first = incoming(sink)
    incoming(sink, id="1")
    with pytest.raises(InvalidRequest, match="the id 1 is already in use"):
        incoming(sink)
    with pytest.raises(InternalError, match="too many requests are queued"):
        incoming(sink, id=2, size=20)
    first.run()
    incoming(sink)
    with pytest.raises(InvalidRequest):
        sink.requests.add(first, "1")


# The events of a request from `ADD` to `DONE`, by what happens to it.
LIVES = {
    "ended in the queue": (END, LEAVE),
    "ended while it runs": (BEGIN, END, LEAVE),
    "ended while it is open": (LEAVE, END),
    "ended after it ran": (BEGIN, LEAVE, END),
}


@pytest.mark.requirement("M:BASE-4")
@pytest.mark.parametrize("later", LIVES)
@pytest.mark.parametrize("earlier", LIVES)
def test_a_request_does_not_affect_a_later_one_with_its_id(earlier: str, later: str) -> None:
    """The later request has taken any number of its steps when the earlier one takes its last."""
    after_end = LIVES[earlier][LIVES[earlier].index(END) + 1 :]
    for steps in range(len(LIVES[later]) + 1):
        sink, cap = RecordingOutlet(), [None] * 2
        table = sink.requests = RunningRequests(Limits(backlog_bytes=4 * REQUEST_BYTES), cap)
        first = incoming(sink)
        for event in LIVES[earlier]:
            if event == END:
                break
            table.advance(first, event)
        with pytest.raises(InvalidRequest, match="the id 1 is already in use"):
            incoming(sink)
        assert table.end(first) and not table.end(first)
        second = incoming(sink)
        for event in LIVES[later][:steps]:
            assert table.advance(second, event)
        for event in after_end:
            assert table.advance(first, event)
        assert first.state == DONE and len(table) == second.is_due
        if second.is_due:
            with pytest.raises(InvalidRequest, match="the id 1 is already in use"):
                incoming(sink)
        for event in LIVES[later][steps:]:
            assert table.advance(second, event)
        assert second.state == DONE and table.wait_until_empty(Deadline(0))
        assert len(cap) == 2
        incoming(sink, size=4 * REQUEST_BYTES)  # fits: no bytes of the others are counted


def test_a_later_request_with_the_id_of_a_cancelled_one_is_cancelled_itself() -> None:
    sink = RecordingOutlet()
    first, second = incoming(sink), None
    assert sink.requests.cancel({"requestId": 1, "reason": "first"})
    second = incoming(sink)
    first.run()
    assert sink.requests.cancel({"requestId": 1, "reason": "second"})
    second.run()
    assert (first.token.reason, second.token.reason) == ("first", "second")
    third = incoming(sink)
    third.run()
    assert answers(sink) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize("until_answered", [False, True])
def test_queued_requests_count_by_their_memory(until_answered: bool) -> None:
    sink = RecordingOutlet()
    sink.requests = RunningRequests(
        Limits(backlog_bytes=1024 * 1024), until_answered=until_answered
    )
    first = incoming(sink, lambda request: DEFERRED, size=64_000, more=[{} for _ in range(20_000)])
    with pytest.raises(InternalError, match="too many requests are queued"):
        incoming(sink, id=2)
    # A request that waits alone is accepted, whatever its size.
    first.run() if until_answered else sink.requests.advance(first, BEGIN)
    incoming(sink, id=3).run()
    count, second = 0, incoming(sink, id="second", size=50)
    with pytest.raises(InternalError):
        for count in range(2000):
            incoming(sink, id=f"r{count}", size=50)
    assert 300 < count < 600
    sink.requests.advance(second, BEGIN)
    if until_answered:
        with pytest.raises(InternalError):
            incoming(sink, id="more")
        sink.requests.advance(second, LEAVE)
    incoming(sink, id="more")


def test_the_limit_of_running_requests_covers_all_connections_of_a_server() -> None:
    cap, sinks = [None], [RecordingOutlet(), RecordingOutlet()]
    for sink in sinks:
        sink.requests = RunningRequests(Limits(requests=1, backlog_bytes=10), cap)
    first, second = incoming(sinks[0]), incoming(sinks[1])
    assert sinks[0].requests.advance(first, BEGIN)
    assert not sinks[0].requests.advance(first, BEGIN)
    assert sinks[0].requests.running == 1
    second.run()
    assert "1 requests are already running" in answers(sinks[1])[0]["error"]["message"]
    incoming(sinks[1], id=2, immediate=True).run()
    assert "result" in answers(sinks[1])[1]
    first.run()
    incoming(sinks[1]).run()
    assert "result" in answers(sinks[1])[2]
    own = RecordingOutlet(requests=None)
    incoming(own).run()
    assert "result" in answers(own)[0]


@pytest.mark.requirement("CANC-08", "M:CAN-9")
@for_each("reason, shown", [("never mind", "never mind"), (None, "None"), ("a\nb", "a | b")])
def test_a_cancelled_request_is_not_answered_and_the_reason_is_logged(
    reason: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    caplog.clear()
    sink = RecordingOutlet()
    request = incoming(sink, id=7)
    sink.requests.cancel({"requestId": 7, "reason": reason})
    request.run()
    assert (
        request.token.cancelled
        and request.token.reason == reason
        and sink.answers == []
        and "done" in repr(request)
    )
    assert [record.getMessage() for record in caplog.records] == [
        f"<-- cancelled tools/call 7: {shown}"
    ]


@pytest.mark.requirement("M:CAN-2")
def test_unknown_requests_and_initialize_are_not_cancelled() -> None:
    sink = RecordingOutlet()
    request = incoming(sink, method="initialize")
    for id in (1, 2, [1]):
        sink.requests.cancel({"requestId": id, "reason": 5})
    request.run()
    assert not request.token.cancelled and "result" in answers(sink)[0]


def test_a_rejected_request_releases_its_place() -> None:
    sink = RecordingOutlet()
    places = CountedClient(Shares(Limits()), [("principal", "ada")])
    sink.requests.reserve_place = lambda: places.reserve("requests", 8)
    first = incoming(sink)
    with pytest.raises(InvalidRequest):
        incoming(sink)
    second = incoming(sink, id=2)
    with pytest.raises(InternalError, match="its share of running requests"):
        incoming(sink, id=3)
    first.run()
    second.run()
    assert len(answers(sink)) == 2 and incoming(sink, id=3).place is not None


def test_a_request_above_the_share_of_its_client_has_a_time_to_retry() -> None:
    class Headers(Dict[str, str]):
        counted = CountedClient(Shares(Limits()), [("principal", "ada")])

    message, route = Request(1, "tools/call"), Route(lambda request: {})
    peer, sink = Peer(NEWEST_HANDSHAKE), RecordingOutlet()
    request = IncomingRequest(message, peer, route, sink, headers=Headers())
    assert request.reserve("tasks", 4) is not None and request.retry_after is None
    with pytest.raises(InternalError, match="its share of running tasks"):
        request.reserve("tasks", 4)
    assert request.retry_after == 1.0


def test_a_request_that_arrives_after_its_peer_has_left_is_cancelled() -> None:
    sink = RecordingOutlet()
    sink.is_closed = True
    message, route = Request(1, "tools/call"), Route(lambda request: {})
    request = IncomingRequest(message, Peer(NEWEST_HANDSHAKE), route, sink)
    jobs: List[Any] = []
    accept(request, jobs.append)
    assert request.token.reason == "the peer has disconnected" and len(sink.requests) == 0
    jobs.pop()()
    assert sink.answers == []


def test_a_forked_process_answers_no_request_of_its_parent() -> None:
    sink = RecordingOutlet()
    request = incoming(sink)
    sink.requests.renew_in_fork()
    assert len(sink.requests) == 0 and request.state == DONE
    request.run()
    assert sink.answers == []


def test_a_cancelled_handler_that_returns_in_a_forked_process_frees_no_slot() -> None:
    sink = RecordingOutlet(requests=1)
    request = incoming(sink)

    def handle(_: Any) -> Dict[str, Any]:
        sink.requests.end(request)
        sink.requests.renew_in_fork()
        return {}

    request.route = Route(handle)
    request.run()
    assert sink.requests.running == 0
    assert sink.requests.wait_until_empty(Deadline(WAIT))


def test_ended_questions_raise_the_error_without_a_notification() -> None:
    sink = Asking()
    request = incoming(sink)
    asking = Task(ask_peer, request, [("roots/list", {})], WAIT)
    assert eventually(lambda: len(sink.wire.sent) == 1)
    end_questions(request, ConnectionLost("the stream has ended"))
    with pytest.raises(ConnectionLost, match="the stream has ended"):
        asking.result()
    assert sink.wire.posted == []


def test_postponed_progress_is_not_sent_after_a_cancellation() -> None:
    sink = RecordingOutlet()
    server = SimpleNamespace(limits=Limits(notification_rate=0.1))
    message = Request(1, "tools/call", {"_meta": {"progressToken": 5}})
    route = Route(lambda request: {})
    request = IncomingRequest(message, Peer(NEWEST_HANDSHAKE), route, sink, server=server)
    sink.requests.add(request)
    request.progress(1, None, None)
    request.progress(2, None, None)
    assert len(sink.lines) == 1 and request.notification_rate is not None
    request.token.cancel()
    request.notification_rate.flush()
    assert sink.works == [] and len(sink.lines) == 1


def test_a_drain_waits_for_running_requests_unless_they_are_abandoned() -> None:
    sink, begun, release = RecordingOutlet(), threading.Event(), threading.Event()

    def hold(request: IncomingRequest) -> Dict[str, Any]:
        begun.set()
        wait_for(release)
        return {}

    request = incoming(sink, hold)
    running = Task(request.run)
    wait_for(begun)
    assert not sink.requests.wait_until_empty(Deadline(0.01))
    draining = Task(sink.requests.wait_until_empty, NEVER)
    sink.requests.interrupt("the server was told to end")
    assert request.token.cancelled and len(sink.requests) == 1
    release.set()
    assert draining.result() and len(answers(sink)) == 1
    running.result()
    left, other = incoming(sink), incoming(sink, id=2)
    left.token.on_cancel(lambda: sink.respond(other, b'{"other":1}\n'))
    draining = Task(sink.requests.wait_until_empty, NEVER)
    sink.requests.abandon("the connection has ended")
    assert draining.result() and left.token.cancelled and not other.token.cancelled
    left.run()
    assert len(sink.answers) == 2 and sink.answers[1] == (b'{"other":1}\n', True), (
        "who answers may wait for the peer"
    )
    sink.requests.renew_in_fork()
    assert len(sink.requests) == 0


def test_a_drain_ends_with_the_refusal_of_the_last_request() -> None:
    sink = RecordingOutlet()
    last = incoming(sink)
    draining = Task(sink.requests.wait_until_empty, NEVER)
    assert eventually(lambda: waits_on(sink.requests))
    last.refuse(InternalError("no thread"))
    assert draining.result()


# ------------------------------------------------------------ methods for a handler


def test_notifications_precede_the_response_and_never_follow_it() -> None:
    sink = RecordingOutlet()
    request = incoming(sink)
    request.send("notifications/message", {"level": "info"})
    request.run()
    request.send("notifications/message", {"level": "late"})
    assert [json.loads(line)["params"] for line in sink.lines] == [{"level": "info"}]
    request.token.cancel()
    with pytest.raises(Cancelled):
        request.send("notifications/message", {})


@pytest.mark.requirement("PROG-04", "M:PROG-3")
def test_progress_is_sent_only_if_requested_and_increasing() -> None:
    sink = RecordingOutlet()
    request = incoming(sink, _meta={"progressToken": "t"})
    for done, total, message in (
        (1, None, None),
        (1, 5, None),
        (0.5, None, None),
        (2, 5.5, "half"),
    ):
        request.progress(done, total, message)
    assert [json.loads(line)["params"] for line in sink.lines] == [
        {"progressToken": "t", "progress": 1},
        {"progressToken": "t", "progress": 2, "total": 5.5, "message": "half"},
    ]
    for wrong in (("1", None, None), (True, None, None), (9, "x", None), (9, None, 5)):
        with pytest.raises(TypeError):
            request.progress(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError):
        request.progress(float("nan"), None, None)
    request.run()
    request.progress(10, None, None)
    assert len(sink.lines) == 2
    incoming(sink, id=2, _meta={"progressToken": [1]}).progress(1, None, None)
    old = incoming(sink, id=3, revision=BY_NAME["2024-11-05"], _meta={"progressToken": 3})
    old.progress(1, None, "no words then")
    assert [json.loads(line)["params"] for line in sink.lines[2:]] == [
        {"progressToken": 3, "progress": 1}
    ]


class Asking(RecordingOutlet):
    """A sink by which the peer can be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.wire = Wire()

    def asking(self) -> Calls:
        return self.wire.calls


def test_questions_are_all_sent_before_the_first_answer_is_waited_for() -> None:
    sink = Asking()
    request = incoming(sink)
    asking = Task(ask_peer, request, [("roots/list", {}), ("elicitation/create", {"x": 1})], WAIT)
    assert eventually(lambda: len(sink.wire.sent) == 2)
    for line in sink.wire.sent:
        sink.wire.calls.settle(line["id"], {"of": line["method"]})
    assert (
        asking.result() == [{"of": "roots/list"}, {"of": "elicitation/create"}]
        and ask_peer(request, [], 1) == []
    )
    request.run()
    with pytest.raises(RuntimeError, match="tools/call has already been answered"):
        ask_peer(request, [("roots/list", {})], 1)


def test_a_request_that_was_cancelled_before_its_question_was_refused_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The peer does both before the question is entered among those of the request."""
    sink = Asking()
    request = incoming(sink)

    def sent(send: Any, line: Any, deadline: Any) -> Any:
        done = send(line, deadline)
        request.token.cancel("never mind")
        first = sink.wire.sent[0]["id"]
        sink.wire.calls.settle(first, Failure(first, -1, "no"))
        return done

    around(monkeypatch, sink.wire.calls, "_send", sent)
    with pytest.raises(Cancelled, match="never mind"):
        ask_peer(request, [("roots/list", {})], WAIT)


@pytest.mark.parametrize("how", ["refused", "late", "cancelled"])
def test_the_other_questions_of_a_request_are_withdrawn(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Asking()
    request = incoming(sink)
    request.timeout = Timeout(WAIT, lambda: None)
    calls = sink.wire.calls

    def sent(send: Any, line: Any, deadline: Any) -> Any:
        """Cancel the request between the check and the sending."""
        if how == "cancelled":
            request.token.cancel("never mind")
        return send(line, deadline)

    around(monkeypatch, calls, "_send", sent)
    questions = [("roots/list", {}), ("roots/list", {})]
    asking = Task(ask_peer, request, questions, 0.01 if how == "late" else None)
    assert eventually(lambda: len(sink.wire.sent) == 2)
    first, second = [line["id"] for line in sink.wire.sent]
    if how == "refused":
        calls.settle(first, Failure(first, -1, "no"))
        assert asking.result().message == "no"
    else:
        with pytest.raises(Cancelled if how == "cancelled" else RequestTimeout):
            asking.result()
    told = [line["params"]["requestId"] for line in sink.wire.posted]
    assert sorted(told) == ([second] if how == "refused" else [first, second])
    assert not pauses_of(request.timeout)
    request.timeout.stop()


def test_progress_that_waits_for_the_peer_blocks_no_other_call_of_the_handler() -> None:
    sink, stuck, release = RecordingOutlet(), threading.Event(), threading.Event()
    sink.send = lambda line: (stuck.set(), wait_for(release))  # type: ignore[method-assign]
    request = incoming(sink, _meta={"progressToken": 1})
    reporting = Task(request.progress, 1, None, None)
    wait_for(stuck)
    with pytest.raises(CapabilityNotSupported):
        Task(ask_peer, request, [("roots/list", {})], 1).result()
    request.token.cancel()
    release.set()
    reporting.result()


def test_a_request_that_times_out_is_answered_once_and_cancelled() -> None:
    sink = RecordingOutlet()
    late, done = incoming(sink), incoming(sink, id=2)
    late.expire({"late": 1}, "too slow")
    late.run()
    done.run()
    done.expire({"late": 2}, "too slow")
    assert late.token.cancelled and not done.token.cancelled
    first, _ = sink.answers[0]
    assert json.loads(first)["result"] == {"late": 1} and len(sink.answers) == 2


def test_a_handler_that_has_returned_cannot_continue_with_another_request() -> None:
    sink = RecordingOutlet()
    first, second = incoming(sink), incoming(sink, id=2)
    first.route = Route(lambda request: request.answer({"question": 1}))  # type: ignore[arg-type, return-value]
    first.run()
    sink.answers.clear()
    assert first.token.cancelled and sink.answers == []
    first.continue_with(second)
    ((line, _),) = sink.answers
    assert (
        json.loads(line)["id"] == 2
        and "the handler has returned" in json.loads(line)["error"]["message"]
    )


def test_on_finished_receives_each_request_with_its_outcome() -> None:
    told: List[Any] = []
    sink = RecordingOutlet()
    sink.requests = RunningRequests(
        Limits(), on_finished=lambda request, *ending: told.append((request.id, *ending))
    )
    done, cancelled = incoming(sink, lambda request: {"x": 1}), incoming(sink, id=2)
    done.run()
    sink.requests.cancel({"requestId": 2})
    cancelled.run()
    error = MethodNotFound("no work")
    sink.requests.refused(Request(3, "work"), error)
    assert done.arrived > 0
    assert told == [(1, done, sink.answers[0][0]), (2, cancelled, None), (3, None, error)]


def test_calls_propagate_the_trace_context_of_the_running_request() -> None:
    seen: List[Any] = []

    def handle(request: IncomingRequest) -> Dict[str, Any]:
        current_trace_context()["tracestate"] = "a=1"
        seen.append(current_trace_context())
        return {}

    incoming(RecordingOutlet(), handle).run()
    assert seen == [{"tracestate": "a=1"}] and current_trace_context() == {}


# ------------------------------------------------------------ arrays


@pytest.mark.requirement("BATCH-05")
def test_the_responses_of_an_array_are_sent_together_when_complete() -> None:
    sink = RecordingOutlet(message_bytes=450)
    batch = Batch(
        sink,
        [b'{"refused":1}\n'],
        [Request(id, "initialize" if id == 3 else "work") for id in range(1, 7)],
    )
    first, second = incoming(sink, batch=batch), incoming(sink, id=2, batch=batch)
    stream = incoming(sink, lambda request: DEFERRED, id=4, batch=batch)
    long = incoming(sink, lambda request: {"x": "y" * 300}, id=5, batch=batch)

    def accept(request: Request) -> None:
        if request.id == 6:
            raise MethodNotFound("no work")
        if request.id in (1, 4):
            {1: first, 4: stream}[request.id].run()

    batch.serve(accept)
    sink.requests.cancel({"requestId": 4})  # it is not waited for
    long.run()
    assert sink.answers == []
    second.run()
    (whole,) = answers(sink)
    assert [line.get("id", line.get("refused")) for line in whole] == [1, 1, 3, 6, 5, 2]
    assert [line["error"]["message"][:20] for line in whole if "error" in line] == [
        "initialize must not ",
        "no work",
        "the response is long",
    ]
    batch.add(3, b"late\n")
    Batch(sink, [], []).serve(accept)  # of nothing but notifications
    assert len(sink.answers) == 1


def test_the_thread_that_reads_a_cancellation_does_not_wait_for_the_peer() -> None:
    """Though it runs the request out of the queue that it waits in."""
    sink = RecordingOutlet()
    batch = Batch(sink, [b'{"refused":1}\n'], [Request(1, "work")])
    request = incoming(sink, batch=batch)
    batch.serve(lambda item: None)
    request.token.on_cancel(request.run)
    sink.requests.cancel({"requestId": 1})
    assert sink.answers == [(b'[{"refused":1}]\n', False)]


def test_reasons_to_reject_a_whole_array() -> None:
    request, note, answer = Request(1, "a", {}), Notification("b", {}), Response(1, {})
    for items, taken, limit, why in (
        ([request], False, 9, "not an array"), ([], True, 9, "must not be empty"), ([request] * 3, True, 2, "at most 2"),
        ([request, answer], True, None, "not both"), ([note, Failure(1, 1, "")], True, None, "not both"),
    ):  # fmt: skip
        assert why in str(why_no_batch(items, taken=taken, limit=limit))
    assert why_no_batch([request, note], taken=True, limit=2) is None
    assert why_no_batch([answer], taken=True, limit=None) is None


def test_defaults_of_a_sink() -> None:
    sink = Sink()
    for act in (lambda: sink.send(b""), lambda: sink.post(b""), lambda: sink.deliver(b"", True)):
        with pytest.raises(NotImplementedError):
            act()
    with pytest.raises(CapabilityNotSupported):
        sink.asking()
    assert not sink.close_for_polling(1) and sink.closing_message(1) is None
