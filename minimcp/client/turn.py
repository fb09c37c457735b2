"""`Turn`: one thread at a time has it, and the others wait for it as long as their calls may."""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import Any, Iterator, Optional

from ..engine.pool import waiting
from ..engine.requests import Calls, CancelToken, PendingCall
from ..engine.timer import Deadline
from ..errors import ProtocolViolation, RequestTimeout
from .input_rounds import until_cancelled
from .own_calls import own_call

_YOURS: dict[str, Any] = {}
"""How the wait of the next in line ends; no answer of a server is this very object."""


class Turn:
    """Who stands in front has it. Thread-safe, and there is no lock that a signal handler could leave behind.

    Args:
        calls: Of the connection whose loss ends every wait.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._line: dict[PendingCall, None] = {}

    @contextmanager
    def taken(self, deadline: Deadline, cancel: Optional[CancelToken] = None) -> Iterator[None]:
        """Wait for the turn, and have it for a block.

        Args:
            deadline: How long to wait for it.
            cancel: Ends the wait; None never does.

        Raises:
            RequestTimeout, Cancelled: It was not to be had before that.
            ProtocolViolation: The server answered what nobody asked.
            ConnectionLost: The connection has ended.
        """
        place = own_call(self._calls)
        try:
            self._line[place] = None
            self._call_first()
            self._wait(place, deadline, cancel)
            yield
        finally:
            self._calls.settle(place.id, _YOURS)
            self._line.pop(place, None)
            self._call_first()

    def _call_first(self) -> None:
        """Who comes and who goes does this, so that whoever is in front is told; being told twice is nothing."""
        for place in list(self._line)[:1]:
            self._calls.settle(place.id, _YOURS)

    def _wait(self, place: PendingCall, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        forget = until_cancelled(self._calls, place, cancel)
        try:
            with waiting():
                ending = place.wait(deadline)
        finally:
            forget()
        if ending is None:
            raise RequestTimeout(f"{self._calls.name}: an earlier call about subscriptions takes too long")
        if isinstance(ending, BaseException):
            raise copy(ending)
        if ending is not _YOURS:
            raise ProtocolViolation("an answer has the id of a request", ending)

    def __repr__(self) -> str:
        return f"<Turn {len(self._line)} in line>"
