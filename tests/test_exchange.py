"""One inbound request on its way to an answer, and the border where exceptions become wire errors."""

from __future__ import annotations

import json
import math
import threading
from functools import partial
from typing import Any, Callable, Dict, List, Optional

import pytest
from minimcp.engine.lane import Pace

from minimcp.engine.requests import IncomingRequest, Outgoing, Route, Sink, _release, current_exchange
from minimcp.errors import (
    Cancelled,
    CapabilityNotSupported,
    ConnectionLost,
    InternalError,
    InvalidParams,
    RequestTimeout,
    ResourceNotFound,
    RpcError,
    UrlElicitationRequired,
    describe,
    error_from_peer,
)
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Failure, Request
from minimcp.protocol.versions import BY_NAME, NEWEST_HANDSHAKE

from .rows import for_each
from .scripted import RecordingOutlet, Task
from .support import WAIT, eventually

OLDEST, MODERN = BY_NAME["2024-11-05"], BY_NAME["2026-07-28"]


def make(
    handle: Callable[[IncomingRequest], Any] = lambda exchange: {},
    *,
    revision: Any = NEWEST_HANDSHAKE,
    token: Any = None,
    outlet: Optional[RecordingOutlet] = None,
    params: Optional[Dict[str, Any]] = None,
) -> IncomingRequest:
    given = params if params is not None else {} if token is None else {"_meta": {"progressToken": token}}
    return IncomingRequest(Request(7, "work", given), Peer(revision), Route(handle), outlet or RecordingOutlet())


def sent(exchange: IncomingRequest) -> List[Any]:
    return [json.loads(line)["params"] for line in exchange.outlet.lines]  # type: ignore[attr-defined]


def error_of(exchange: IncomingRequest) -> Any:
    line = exchange.run()
    assert line is not None
    return json.loads(line)["error"]


def raises(error: BaseException) -> Callable[[IncomingRequest], Any]:
    def handle(exchange: IncomingRequest) -> Any:
        raise error

    return handle


# ------------------------------------------------------------ running


def test_a_result_as_an_object() -> None:
    exchange = make(lambda exchange: {"n": 1})
    assert repr(exchange) == "<IncomingRequest work 7 open>"
    assert exchange.run() == b'{"jsonrpc":"2.0","id":7,"result":{"n":1}}\n'
    assert exchange.finished
    assert repr(exchange) == "<IncomingRequest work 7 finished>"


def test_a_result_as_text_that_was_made_before() -> None:
    assert make(lambda exchange: '{"n":1}').run() == b'{"jsonrpc":"2.0","id":7,"result":{"n":1}}\n'


def test_nobody_waits_for_the_answer_any_more() -> None:
    outlet = RecordingOutlet()
    outlet.open = False
    assert make(outlet=outlet).run() is None


def test_a_handler_sees_its_exchange_and_only_while_it_runs() -> None:
    seen = []
    exchange = make(lambda exchange: seen.append(current_exchange()) or {})  # type: ignore[func-returns-value]
    exchange.run()
    assert seen == [exchange]
    assert current_exchange() is None
    assert Task(current_exchange).result() is None


def test_what_refuses_it_is_its_answer() -> None:
    outlet = RecordingOutlet()
    outlet.refusal = InternalError("too many")
    called: List[Any] = []
    exchange = make(called.append, outlet=outlet)
    assert error_of(exchange) == {"code": -32603, "message": "too many"}
    assert called == []


def test_a_request_that_was_cancelled_before_it_began_does_not_run() -> None:
    called: List[Any] = []
    exchange = make(called.append)
    exchange.cancel()
    assert "cancelled" in error_of(exchange)["message"]
    assert called == []


def test_a_route_with_its_own_pace() -> None:
    pace = Pace()
    exchange = IncomingRequest(Request(1, "a"), Peer(OLDEST), Route(lambda exchange: {}, pace=pace), RecordingOutlet())
    assert exchange.pace is pace
    assert make().pace is not pace


# ------------------------------------------------------------ errors


@for_each(
    ("error", "revision", "code", "message"),
    [
        (InvalidParams("no"), NEWEST_HANDSHAKE, -32602, "no"),
        (RpcError(5, "own"), NEWEST_HANDSHAKE, 5, "own"),
        (ResourceNotFound("gone"), NEWEST_HANDSHAKE, -32002, "gone"),
        (ResourceNotFound("gone"), MODERN, -32602, "gone"),
        (CapabilityNotSupported("needs"), NEWEST_HANDSHAKE, -32601, "needs"),
        (CapabilityNotSupported("needs"), MODERN, -32021, "needs"),
        (UrlElicitationRequired("open it"), NEWEST_HANDSHAKE, -32042, "open it"),
        (UrlElicitationRequired("open it"), OLDEST, -32603, "open it"),
        (UrlElicitationRequired("open it"), MODERN, -32603, "open it"),
        (Cancelled("stop"), NEWEST_HANDSHAKE, -32603, "the request was cancelled"),
    ],
)
def test_an_error_of_ours_is_the_answer(error: Exception, revision: Any, code: int, message: str) -> None:
    assert error_of(make(raises(error), revision=revision)) == {"code": code, "message": message}


@pytest.mark.parametrize(
    "error",
    [
        KeyError("secret"),
        ConnectionLost("secret"),
        error_from_peer(-32602, "secret"),
        SystemExit("secret"),
        KeyboardInterrupt("secret"),
    ],
)
def test_anything_else_is_told_without_its_words(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    answer = error_of(make(raises(error)))
    assert answer["code"] == -32603
    assert answer["message"].startswith("Internal error (reference ")
    reference = answer["message"].split()[-1].rstrip(")")
    assert reference in caplog.text
    assert "secret" in caplog.text


@for_each("result", [{"n": math.nan}, {"n": object()}, None, 5])
def test_a_result_that_is_none(result: Any) -> None:
    assert error_of(make(lambda exchange: result))["code"] == -32603


class _Hostile(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise LookupError("no items")


@pytest.mark.parametrize("data", [object(), math.inf, _Hostile(a=1)])
def test_data_that_is_no_json_is_left_out(data: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert error_of(make(raises(RpcError(5, "own", data)))) == {"code": 5, "message": "own"}
    assert "is no JSON" in caplog.text


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("not even that")


def test_describe() -> None:
    assert describe(ValueError("words")) == "words"
    assert describe(ValueError()) == "ValueError"
    assert describe(_Wordless()) == "_Wordless"


class _Unshown:
    """Has words, and a form for programmers that fails."""

    def __str__(self) -> str:
        return "in words"

    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (KeyError("no such city"), "KeyError: 'no such city'"),
        (KeyError(("a", 1)), "KeyError: ('a', 1)"),
        (ValueError("a", 1), "ValueError: ('a', 1)"),
        (IndexError(5), "IndexError: 5"),
        (SystemExit(2), "SystemExit: 2"),
        (SystemExit("bye"), "SystemExit: bye"),
        (SystemExit(), "SystemExit"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (ValueError(" \n"), "ValueError"),
        (ValueError("'x'"), "'x'"),
        (RuntimeError(ValueError("inner words")), "inner words"),
        (OSError(2, "No such file"), "[Errno 2] No such file"),
        (ValueError(_Unshown()), "in words"),
    ],
)
def test_an_exception_whose_words_do_not_tell_is_named(error: BaseException, words: str) -> None:
    assert describe(error) == words


# ------------------------------------------------------------ progress


@pytest.mark.requirement("PROG-01", "PROG-03", "PROG-05", "PROG-06")
def test_progress_as_it_is_told() -> None:
    exchange = make(token="t")
    exchange.progress(1, 3, "one")
    exchange.progress(2.5, None, None)
    exchange.progress(3.0, 3.0, None)
    assert sent(exchange) == [
        {"progressToken": "t", "progress": 1, "total": 3, "message": "one"},
        {"progressToken": "t", "progress": 2.5},
        {"progressToken": "t", "progress": 3.0, "total": 3.0},
    ]


def test_a_revision_without_messages() -> None:
    exchange = make(token=1, revision=OLDEST)
    exchange.progress(1, None, "dropped")
    assert sent(exchange) == [{"progressToken": 1, "progress": 1}]


class _Count(int):
    pass


class _Share(float):
    pass


def test_numbers_of_other_kinds() -> None:
    exchange = make(token=1)
    exchange.progress(_Count(1), _Share(2.5), None)
    assert sent(exchange) == [{"progressToken": 1, "progress": 1, "total": 2.5}]


@for_each("token", [None, True, 1.5, ["t"], {}])
def test_nobody_asked_for_progress(token: Any) -> None:
    exchange = make(params={"_meta": {"progressToken": token}})
    exchange.progress(1, None, None)
    assert exchange.outlet.lines == []  # type: ignore[attr-defined]
    assert make(params={"_meta": "no object"}).progress_token is None


@pytest.mark.requirement("PROG-04")
def test_progress_only_grows(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "minimcp")
    exchange = make(token=1)
    for done in (2, 2, 1, 3):
        exchange.progress(done, None, None)
    assert [params["progress"] for params in sent(exchange)] == [2, 3]
    assert caplog.text.count("does not increase") == 2


@for_each(
    ("arguments", "error"),
    [
        ((True, None, None), TypeError),
        (("1", None, None), TypeError),
        ((1, "2", None), TypeError),
        ((1, None, 5), TypeError),
        ((math.nan, None, None), ValueError),
        ((1, math.inf, None), ValueError),
    ],
)
def test_progress_that_is_none(arguments: Any, error: Any) -> None:
    exchange = make(token=1)
    with pytest.raises(error):
        exchange.progress(*arguments)
    assert exchange.outlet.lines == []  # type: ignore[attr-defined]


def test_after_the_answer_nothing_is_sent() -> None:
    exchange = make(token=1)
    exchange.run()
    exchange.progress(1, None, None)
    exchange.send("notifications/message", {})
    assert exchange.outlet.lines == []  # type: ignore[attr-defined]


def test_a_notification_that_belongs_to_the_request() -> None:
    exchange = make()
    exchange.send("notifications/message", {"level": "info"})
    assert sent(exchange) == [{"level": "info"}]


# ------------------------------------------------------------ cancelling


def test_after_a_cancel_everything_raises() -> None:
    exchange = make(token=1)
    exchange.check()
    exchange.cancel("never mind")
    exchange.cancel("a second time")
    assert repr(exchange) == "<IncomingRequest work 7 cancelled>"
    assert exchange.reason == "never mind"
    for action in (
        exchange.check,
        lambda: exchange.progress(1, None, None),
        lambda: exchange.send("n", {}),
        lambda: exchange.sleep(WAIT),
    ):
        with pytest.raises(Cancelled, match="never mind"):
            action()


def test_a_cancel_without_a_reason() -> None:
    exchange = make()
    exchange.cancel()
    with pytest.raises(Cancelled, match="was cancelled"):
        exchange.check()


def test_callbacks_run_aside_once() -> None:
    exchange = make()
    aside = exchange.outlet.aside  # type: ignore[attr-defined]
    called: List[str] = []
    exchange.on_cancel(lambda: called.append("before"))
    assert aside == []
    exchange.cancel()
    exchange.on_cancel(lambda: called.append("after"))
    assert called == []
    assert len(aside) == 2
    for work in aside:
        work()
    assert called == ["before", "after"]


def test_a_callback_that_comes_with_the_cancel_runs_once() -> None:
    """Two threads look at the same time, and one of them finds nothing."""
    exchange = make()

    class Emptied(List[Any]):
        def __bool__(self) -> bool:
            return True

    exchange._callbacks = Emptied()
    exchange.cancel()
    assert exchange.outlet.aside == []  # type: ignore[attr-defined]


def test_no_callback_is_lost_or_run_twice_in_a_race() -> None:
    for _ in range(300):
        exchange = make()
        start = threading.Barrier(2)

        def cancel(exchange: IncomingRequest = exchange, start: threading.Barrier = start) -> None:
            start.wait(WAIT)
            exchange.cancel()

        canceller = Task(cancel)
        called: List[int] = []
        start.wait(WAIT)
        for n in range(5):
            exchange.on_cancel(lambda n=n, called=called: called.append(n))  # type: ignore[misc]
        canceller.result()
        for work in exchange.outlet.aside:  # type: ignore[attr-defined]
            work()
        assert sorted(called) == list(range(5))


def test_sleep() -> None:
    make().sleep(0)
    make().sleep(0.001)


def test_a_cancel_wakes_who_sleeps() -> None:
    exchange = make()
    sleeping = [Task(exchange.sleep, 3600.0) for _ in range(3)]
    assert eventually(lambda: len(exchange._wakers) == 3)
    exchange.cancel("enough")
    for task in sleeping:
        with pytest.raises(Cancelled, match="enough"):
            task.result()
    assert exchange._wakers == []


def test_a_sleeper_that_was_woken_already(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = make()
    waker = threading.Lock()
    exchange._wakers.append(partial(_release, waker))
    exchange.cancel()
    assert not waker.locked()


def test_time_is_over() -> None:
    exchange = make()
    exchange.expire(b"late\n", "too slow")
    assert exchange.outlet.owed == [(7, b"late\n")]  # type: ignore[attr-defined]
    assert exchange.cancelled
    assert exchange.reason == "too slow"
    assert exchange.run() is None


def test_time_is_over_too_late() -> None:
    exchange = make()
    assert exchange.run() is not None
    exchange.expire(b"late\n", "too slow")
    assert exchange.outlet.owed == []
    assert not exchange.cancelled


def test_an_outlet_says_what_it_must_implement() -> None:
    outlet, exchange = Sink(), make()
    for use in (
        lambda: outlet.begin(exchange),
        lambda: outlet.queue(exchange),
        lambda: outlet.deliver(b""),
        lambda: outlet.answer(exchange, b""),
        lambda: outlet.claim(exchange),
        lambda: outlet.send(b""),
        lambda: outlet.owe(1, b""),
        lambda: outlet.run_aside(lambda: None),
    ):
        with pytest.raises(NotImplementedError):
            use()
    assert not outlet.release(1.0)


# ------------------------------------------------------------ asking


class AskingOutlet(RecordingOutlet):
    """An outlet whose peer is asked by what a test does."""

    __slots__ = ("posted", "owed_lines", "_calls", "_when_posted")

    def __init__(self, when_posted: Any = None) -> None:
        super().__init__()
        self.posted: List[Any] = []
        self.owed_lines: List[Any] = []
        self._when_posted = when_posted
        self._calls = Outgoing("test", post=self._post, owe=lambda line: self.owed_lines.append(json.loads(line)))

    def calls(self) -> Outgoing:
        return self._calls

    def _post(self, lines: bytes) -> None:
        self.posted += [json.loads(line) for line in lines.splitlines()]
        if self._when_posted is not None:
            self._when_posted(self)

    def settle(self) -> None:
        for message in self.posted:
            self._calls.table.settle(message["id"], {"echo": message["method"]})


QUESTIONS: List[Any] = [("a", {"n": 1}), ("b", {})]


def test_questions_are_sent_together_and_answered_in_order() -> None:
    exchange = make(outlet=AskingOutlet(lambda outlet: outlet.settle()))
    assert exchange.ask(QUESTIONS, WAIT) == [{"echo": "a"}, {"echo": "b"}]
    assert exchange.ask([], None) == []
    assert exchange._wakers == []


def test_what_cannot_be_asked() -> None:
    with pytest.raises(CapabilityNotSupported, match="cannot be asked"):
        make().ask(QUESTIONS, WAIT)
    exchange = make(outlet=AskingOutlet())
    exchange.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        exchange.ask(QUESTIONS, WAIT)
    exchange = make(outlet=AskingOutlet())
    exchange.run()
    with pytest.raises(RuntimeError, match="answered already"):
        exchange.ask(QUESTIONS, WAIT)


def withdrawn(outlet: AskingOutlet) -> List[Any]:
    assert {message["method"] for message in outlet.owed_lines} <= {"notifications/cancelled"}
    return [message["params"]["requestId"] for message in outlet.owed_lines]


def test_a_cancelled_request_withdraws_its_questions() -> None:
    outlet = AskingOutlet()
    exchange = make(outlet=outlet)
    asked = threading.Event()
    outlet._when_posted = lambda outlet: asked.set()
    task = Task(exchange.ask, QUESTIONS, WAIT)
    assert asked.wait(WAIT)
    exchange.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        task.result()
    assert sorted(withdrawn(outlet)) == [1, 2] and len(outlet.calls().table) == 0


def test_a_cancellation_while_the_questions_are_sent() -> None:
    outlet = AskingOutlet()
    exchange = make(outlet=outlet)
    calls = outlet.calls()
    prepare = calls.prepare

    class Racing(Outgoing):
        __slots__ = ()

        def prepare(self, *arguments: Any, **options: Any) -> Any:
            exchange.cancel()
            return prepare(*arguments, **options)

    outlet._calls = racing = Racing("test", post=outlet._post, owe=calls._owe)
    racing.table = calls.table
    with pytest.raises(Cancelled, match="the request was cancelled"):
        exchange.ask(QUESTIONS, WAIT)
    assert withdrawn(outlet) == [1, 2]


def test_when_one_question_fails_the_others_are_withdrawn() -> None:
    outlet = AskingOutlet()
    exchange = make(outlet=outlet)
    with pytest.raises(RequestTimeout):
        exchange.ask(QUESTIONS, 0.001)
    assert withdrawn(outlet) == [1, 2]
    outlet.calls().table.close(ConnectionLost("gone"))
    with pytest.raises(ConnectionLost):
        exchange.ask(QUESTIONS, WAIT)
    assert exchange._wakers == []

    no = Failure(2, -1, "no")
    outlet = AskingOutlet(lambda outlet: outlet.calls().table.settle(2, no))
    assert make(outlet=outlet).ask(QUESTIONS, WAIT) is no and withdrawn(outlet) == [1]


def test_the_handlers_own_time_stands_while_it_asks() -> None:
    class Clock:
        paused = 0

        def pause(self) -> None:
            self.paused += 1

        def resume(self) -> None:
            self.paused -= 1

    clock: Any = Clock()
    seen: List[int] = []
    exchange = make(outlet=AskingOutlet(lambda outlet: seen.append(clock.paused) or outlet.settle()))
    exchange.countdown = clock
    exchange.ask(QUESTIONS, WAIT)
    assert seen == [1] and clock.paused == 0


def test_one_asker_is_made() -> None:
    exchange = make()
    assert exchange.asker is None
    made = exchange.asker_made_by(lambda exchange, lock: (exchange, lock))
    assert made[0] is exchange and not made[1].locked()
    assert exchange.asker_made_by(lambda exchange, lock: pytest.fail("again")) is exchange.asker is made
