"""Waits of this side's own, as entries of a connection's table of calls: the loss of the connection ends them too."""

from __future__ import annotations

from copy import copy
from itertools import count
from queue import Empty
from typing import Any, Callable

from ..engine.requests import Calls, PendingCall, Result
from ..engine.timer import Deadline
from ..protocol.messages import Request, encode

_numbers = count(1)


def nothing() -> None:
    """Do nothing."""


def own_call(calls: Calls, method: str = "initialize") -> PendingCall:
    """An entry for which nothing is sent. Raises the cause when the connection has ended."""
    call = PendingCall(-next(_numbers), method)
    calls.add(call)
    return call


def prepare(calls: Calls, method: str, make_params: Callable[[Any], Result]) -> tuple[PendingCall, bytes]:
    """Register a call; returns it and the line that is to be sent next. Errors as `Calls.start`."""
    call = PendingCall(next(calls._table.ids), method)
    calls.add(call)
    try:
        return call, encode(Request(call.id, method, make_params(call.id)))
    except BaseException as error:
        calls.settle(call.id, error)
        raise


def check_open(calls: Calls) -> None:
    """Return if the connection lives; raises its cause otherwise."""
    if calls.cause is not None:
        raise copy(calls.cause)


def wait_for(call: PendingCall, take: Callable[[], Any], deadline: Deadline) -> Any:
    """Wait until a function gives something; None when the time is over, or the call has ended and it gives none."""
    while True:
        ended = call.ended
        found = take()
        if found is not None:
            return found
        if ended:
            return None
        try:
            call.box.get(timeout=deadline.wait())
        except Empty:
            if deadline.expired and not call.ended:
                return None
