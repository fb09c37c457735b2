"""The calls of this side, from registering to the one ending.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

import threading
from copy import copy
from typing import Any, Callable, Optional, Sequence, Union

from ..errors import Cancelled, ConnectionLost, RequestTimeout, one_line
from ..protocol.messages import Failure, Id, Json, Notification, Request, encode
from .deadline import Deadline
from .table import PendingCall, RequestTable, closed_gate, wait_for_all
from .transport import nothing
from .workers import waiting

OURS = ""
"""The method of an entry for which nothing was sent: a thread of ours waits for other threads of ours."""

NEVER_CANCELLED = frozenset({"initialize", "server/discover", OURS})
"""What is given up without a word to the peer."""


class Outgoing:
    """Calls over one connection. Thread-safe.

    Args:
        name: Of the connection, for messages.
        post: Writes a line without ever waiting for the peer. Raises ConnectionLost.
        owe: Has a line written by the control worker.
        check: Raises ConnectionLost in a fork of the process that owns the connection: its locks may be held for ever.
        remark: What else is known when no answer comes, as the end of a message; empty when nothing is.
        drop: Called with the id of each call that this side gives up. Never blocks.
        table: Of the calls that wait, when several ways out share one; None makes one.
    """

    __slots__ = ("name", "table", "check", "_post", "_owe", "_remark", "_drop")

    def __init__(
        self,
        name: str,
        *,
        post: Callable[[bytes], None],
        owe: Callable[[bytes], None],
        check: Callable[[], None] = nothing,
        remark: Callable[[], str] = str,
        drop: Callable[[Id], None] = lambda id: None,
        table: Optional[RequestTable] = None,
    ) -> None:
        self.name = name
        self.table = RequestTable() if table is None else table
        self.check, self._post, self._owe, self._remark, self._drop = check, post, owe, remark, drop

    def call(
        self,
        method: str,
        params: Callable[[Id], dict[str, Json]],
        *,
        on_item: Optional[Callable[[Any], None]] = None,
    ) -> PendingCall:
        """Register a call and write its request; never waits for the peer to take it.

        Args:
            method: What to call.
            params: Makes the params, given the request's id.
            on_item: Called with the params of each progress notification by the thread that waits; None drops them.

        Raises:
            ConnectionLost: The connection has ended or ends now.
            ValueError, TypeError: The params are no JSON.
        """
        call, line = self.prepare(method, params, on_item=on_item)
        try:
            self._post(line)
        except BaseException as error:  # one of a signal handler's does not stop the request: it is sent by others
            if isinstance(error, ConnectionLost) and call.ended and not isinstance(call.ending, BaseException):
                return call  # it was sent and answered: what could not be written is what others had added behind it
            sent = not isinstance(error, ConnectionLost) and method not in NEVER_CANCELLED
            self.retire(call, Cancelled("the caller gave up"), tell=sent)
            raise
        return call

    def prepare(
        self,
        method: str,
        params: Callable[[Id], dict[str, Json]],
        *,
        on_item: Optional[Callable[[Any], None]] = None,
        gate: Optional[threading.Lock] = None,
    ) -> tuple[PendingCall, bytes]:
        """Register a call; returns it and the line that is to be posted next. Arguments and errors as `call`, and:

        Args:
            gate: As for `PendingCall`.
        """
        self.check()
        call = self.table.register(method, on_item, gate)
        try:
            return call, encode(Request(call.id, method, params(call.id)))
        except BaseException as error:
            self.table.settle(call.id, error)
            raise

    def call_all(self, questions: Sequence[tuple[str, dict[str, Json]]], calls: list[PendingCall]) -> None:
        """Register several calls, then write all their requests in one piece.

        Args:
            questions: Method and params of each.
            calls: Takes the calls, in order, each as soon as it is registered.

        Raises:
            ConnectionLost, ValueError, TypeError: As `call`; nothing was sent then, and all have ended.
        """
        lines: list[bytes] = []
        sent, gate = False, closed_gate()
        try:
            for method, params in questions:
                call, line = self.prepare(method, lambda id, params=params: params, gate=gate)  # type: ignore[misc]
                calls.append(call)
                lines.append(line)
            sent = True
            self._post(b"".join(lines))
        except BaseException as error:  # as `call`
            for call in calls:
                self.retire(call, Cancelled("not sent"), tell=sent and not isinstance(error, ConnectionLost))
            raise

    def wait(
        self, call: PendingCall, deadline: Deadline, *, tell: bool = True, about: Json = None
    ) -> Union[dict[str, Json], Failure]:
        """Wait for a call's ending; its callbacks run on this thread.

        Args:
            call: From `call` or `prepare`.
            deadline: When to give up.
            tell: Whether the peer hears of it when this side gives up.
            about: The name of the tool, or whatever else the call is about, for the message of a timeout.

        Returns:
            The result, or the peer's error.

        Raises:
            RequestTimeout: The deadline came first.
            Cancelled: `cancel` was called.
            ConnectionLost: The connection ended.
            ProtocolViolation: The answer was no answer.
            BaseException: Whatever a callback raises; the call is cancelled then.
        """
        try:
            with waiting():
                ending = call.wait(deadline)
        except BaseException:
            self.retire(call, Cancelled("the caller gave up"), tell=tell)
            raise
        if ending is None:
            self.retire(call, self._late(call, deadline, about), tell=tell)
            ending = call.wait(Deadline(None))
        if isinstance(ending, BaseException):
            raise copy(ending)  # a loss ends many calls: each caller gets an exception, and a traceback, of its own
        assert ending is not None
        return ending

    def wait_all(
        self, calls: Sequence[PendingCall], deadline: Deadline
    ) -> Union[list[dict[str, Json]], Failure]:
        """Wait for all calls of one `call_all`, on one thread.

        Returns:
            The results; or an error of the peer, as soon as there is one.

        Raises: as `wait`, as soon as one of the calls gives reason to.
        """
        if not calls:
            return []
        with waiting():
            wait_for_all(calls, deadline)
        results = []
        for call in [call for call in calls if call.failed] or calls:
            outcome = self.wait(call, deadline)
            if isinstance(outcome, Failure):
                return outcome
            results.append(outcome)
        return results

    def _late(self, call: PendingCall, deadline: Deadline, about: Json) -> RequestTimeout:
        called = f"{call.method} {about[:100]!r}" if isinstance(about, str) else call.method
        return RequestTimeout(f"{self.name}: {called}: no answer within {deadline.seconds:g} s{self._remark()}")

    def retire(self, call: PendingCall, ending: Exception, *, tell: bool = True) -> bool:
        """End a call from this side and tell the peer; False when it has ended already. Never blocks, any thread."""
        if not self.table.settle(call.id, ending):
            return False
        if tell and self.table.cause is None:
            self._owe(_cancellation(call, ending))
        self._drop(call.id)
        return True

    def close(self, cause: Exception) -> bytes:
        """End every call and refuse new ones with this cause; returns the lines that tell the peer, often none."""
        calls = self.table.close(cause)
        return b"".join([_cancellation(call, cause) for call in calls if call.method not in NEVER_CANCELLED])


def _cancellation(call: PendingCall, reason: Exception) -> bytes:
    params = {"requestId": call.id, "reason": one_line(str(reason))}
    return encode(Notification("notifications/cancelled", params))
