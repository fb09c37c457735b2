"""One switch that ends calls, and the notices that cancel a request on the wire."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Callable, List

import pytest

from minimcp.engine.limits import Limits
from minimcp.engine.requests import CancelToken, Inbound, IncomingRequest, Outgoing, Route
from minimcp.errors import Cancelled
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Request
from minimcp.protocol.versions import REVISIONS

from .modules import PACKAGE, sources


def test_a_token_is_open_until_it_is_cancelled() -> None:
    token = CancelToken()
    assert (token.cancelled, token.reason, repr(token)) == (False, None, "<CancelToken open>")
    token.cancel("enough")
    assert (token.cancelled, token.reason, repr(token)) == (True, "enough", "<CancelToken cancelled>")


def test_only_the_first_cancel_counts() -> None:
    token = CancelToken()
    calls: List[str] = []
    token.on_cancel(lambda: calls.append("called"))
    token.cancel()
    token.cancel("too late")
    assert (token.reason, calls) == (None, ["called"])


def test_callbacks_run_in_order_and_see_the_reason() -> None:
    token = CancelToken()
    calls: List[Any] = []
    for number in range(3):
        token.on_cancel(lambda number=number: calls.append((number, token.cancelled, token.reason)))  # type: ignore[misc]
    token.cancel("why")
    assert calls == [(0, True, "why"), (1, True, "why"), (2, True, "why")]


def test_after_the_cancel_a_callback_runs_at_once() -> None:
    token = CancelToken()
    calls: List[str] = []
    token.cancel()
    forget = token.on_cancel(lambda: calls.append("now"))
    assert calls == ["now"]
    forget()
    assert calls == ["now"]


def test_an_order_is_taken_back_once_and_alone() -> None:
    token = CancelToken()
    calls: List[int] = []
    append = calls.append

    def callback() -> None:
        append(1)

    forget = token.on_cancel(callback)
    token.on_cancel(callback)
    forget()
    forget()  # not the other order of the same function
    token.cancel()
    assert calls == [1]
    forget()


def test_a_callback_that_raises_leaves_the_others_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    token = CancelToken()
    calls: List[str] = []
    token.on_cancel(lambda: calls.append("first"))
    token.on_cancel(lambda: 1 // 0)  # type: ignore[arg-type]
    token.on_cancel(lambda: calls.append("last"))
    token.cancel()
    assert calls == ["first", "last"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_a_callback_may_use_the_token() -> None:
    token = CancelToken()
    calls: List[str] = []
    token.on_cancel(lambda: calls.append("outer") or token.on_cancel(lambda: calls.append("inner")))  # type: ignore
    token.on_cancel(token.cancel)
    token.cancel()
    assert calls == ["outer", "inner"]


# ---------------------------------------------------------------- on the wire


@pytest.mark.requirement("CANC-08", "M:CAN-9")
@pytest.mark.parametrize(
    ("reason", "shown"), [("user \nwent away", "user \\nwent away"), (None, "None"), ("x" * 300, "x" * 200 + "...")]
)
def test_the_reason_of_a_cancelled_request_is_logged(
    caplog: pytest.LogCaptureFixture, reason: Any, shown: str
) -> None:
    calls = Outgoing("test", post=lambda line: None, owe=lambda line: None)
    inbound = Inbound(
        Limits(), send=lambda line: None, owe=lambda line: None, deliver=lambda line: None,
        later=lambda work: None, run_aside=lambda work: None, calls=calls,
    )
    exchange = IncomingRequest(Request(7, "tools/call"), Peer(REVISIONS[0]), Route(lambda exchange: {}), inbound)
    inbound.add(exchange)
    with caplog.at_level(logging.INFO, "minimcp"):
        inbound.cancel(7, reason)
    assert exchange.cancelled
    assert [record.getMessage() for record in caplog.records] == [f"<-- cancelled tools/call 7: {shown}"]


@pytest.mark.requirement("CANC-01", "CANC-02", "CANC-11", "X-07")
def test_a_notice_names_a_request_that_is_open_and_nothing_else() -> None:
    lines: List[bytes] = []
    calls = Outgoing("test", post=lines.append, owe=lines.append)
    open_call = calls.call("tools/call", lambda id: {"task": {"ttl": 1}})
    answered = calls.call("tools/list", lambda id: {})
    calls.table.settle(answered.id, {})
    sent = len(lines)
    assert calls.retire(open_call, Cancelled("why\nnot"))
    assert not calls.retire(open_call, Cancelled("again"))
    assert not calls.retire(answered, Cancelled("late"))
    (notice,) = map(json.loads, lines[sent:])
    assert notice == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": open_call.id, "reason": "why\\nnot"},
    }


def test_an_opening_call_is_given_up_without_a_word() -> None:
    lines: List[bytes] = []
    calls = Outgoing("test", post=lines.append, owe=lines.append)
    call = calls.call("initialize", lambda id: {})
    assert calls.retire(call, Cancelled("slow"), tell=False)
    assert len(lines) == 1


@pytest.mark.requirement("M:CAN-6")
def test_what_may_be_cancelled_is_said_in_two_places() -> None:
    """A call of this side, when it is given up; and a stream that this side ends, which was the peer's request.

    Who asks where requests stand alone makes no call at all: see tests/features/test_asking.py.
    """
    sources = {path: (PACKAGE / path).read_text(encoding="utf-8") for path in sources()}
    senders = {path for path, text in sources.items() if re.search(r'Notification\(\s*"notifications/cancelled"', text)}
    assert senders == {"outgoing.py", "inbound.py"}
    assert sources["inbound.py"].count("notifications/cancelled") == 1
    askers = {path for path, text in sources.items() if re.search(r"\bexchange\.ask\(", text)}
    assert askers == {"features/asking.py"}


def test_an_order_that_is_taken_back_by_another_callback_does_not_run() -> None:
    token = CancelToken()
    ran: List[str] = []
    forget: List[Callable[[], None]] = []

    def first() -> None:
        ran.append("first")
        forget[0]()

    token.on_cancel(first)
    forget.append(token.on_cancel(lambda: ran.append("second")))
    token.cancel()
    assert ran == ["first"]


def test_a_cancel_in_the_middle_of_an_order_as_a_signal_handler_may_do_it() -> None:
    """Nothing is locked, and the callback runs once."""
    token = CancelToken()
    ran: List[str] = []

    class Interrupting(dict):  # type: ignore[type-arg]
        def __setitem__(self, order: object, callback: Callable[[], None]) -> None:
            super().__setitem__(order, callback)
            token.cancel()

    token._callbacks = Interrupting()
    token.on_cancel(lambda: ran.append("once"))
    assert ran == ["once"] and token.cancelled
