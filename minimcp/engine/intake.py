"""What the reader makes of a frame: whose answer it is, who serves it, or what is wrong with it.

All of it runs on the reader's thread (rule 1): it decodes, changes the tables and hands over, and it writes nothing.
https://modelcontextprotocol.io/specification/2025-03-26/basic (arrays of messages)
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Callable, Optional, Sequence, Union

from ..errors import INVALID_REQUEST, ConnectionLost, InvalidRequest, ProtocolViolation, RpcError, one_line
from ..protocol.lifecycle import LISTEN
from ..protocol.messages import (
    Decoded,
    Failure,
    Id,
    InvalidMessage,
    Message,
    Notification,
    Request,
    Response,
    decode,
    diagnose_long,
    encode,
    failure,
)
from .exchange import Exchange
from .inbound import Batch, Inbound, why_no_batch
from .limits import Limits
from .role import Role
from .table import PendingCall, RequestTable
from .transport import Addressed, Ended, Frame, TooLong

log = logging.getLogger("minimcp.channel")

_ANSWERING = ("response", "unknown")

MOST_WARNINGS = 5
"""Lines of one connection that are shown when they are no messages: a program that is no server may write for ever."""


class Intake:
    """Takes frames in, one after the other; for the reader's thread.

    Args:
        role: Decides what requests and notifications mean.
        limits: Of the connection.
        inbound: The requests of the peer.
        calls: The calls of this side.
        dispatch: Has an admitted request run.
        owe: Has a line written by others.
        trace: Called with ("<--", line) for every line; None for no trace.

    ``odd_line`` is the last line that was no message, fit for a log; empty when there was none.
    """

    __slots__ = (
        "odd_line", "_odd_lines", "_lock", "_role", "_limits", "_inbound", "_calls", "_dispatch", "_owe", "_trace",
        "_to_wake",
    )

    def __init__(
        self,
        role: Role,
        limits: Limits,
        inbound: Inbound,
        calls: RequestTable,
        *,
        dispatch: Callable[[Exchange], None],
        owe: Callable[[bytes], None],
        trace: Optional[Callable[[str, bytes], None]],
    ) -> None:
        self._role, self._limits, self._inbound, self._calls = role, limits, inbound, calls
        self._dispatch, self._owe, self._trace = dispatch, owe, trace
        self._lock = threading.Lock()
        self._to_wake: list[PendingCall] = []
        self.odd_line = ""
        self._odd_lines = 0

    def wake(self) -> None:
        """Wake the callers that something came for."""
        if self._to_wake:
            for call in self._to_wake:
                call.wake()
            self._to_wake.clear()

    def take_all(self, frames: Sequence[Frame]) -> None:
        """Take frames in and wake their callers, on whichever thread has read them: one at a time has its turn."""
        with self._lock:
            for frame in frames:
                self.take(frame)
            self.wake()

    def take(self, frame: Frame) -> None:
        """Take one frame in; callers that it is for are woken by `wake`."""
        if isinstance(frame, bytes):
            if self._trace is not None:
                self._trace("<--", frame)
            self._decoded(decode(frame, max_depth=self._limits.max_depth), frame)
        elif isinstance(frame, Addressed):
            self._addressed(frame.line, frame.id)
        elif isinstance(frame, Ended):
            self._settle(frame.id, frame.ending)
        else:
            self._too_long(frame)

    def _decoded(self, decoded: Decoded, frame: bytes) -> None:
        if type(decoded) is Request:
            self._request(decoded, self._inbound, len(frame))
        elif isinstance(decoded, list):
            self._array(decoded, frame)
        else:
            self._single(decoded, frame)

    def _addressed(self, line: bytes, id: Id) -> None:
        """Take in what came in answer to one request: an answer to another one is none."""
        if self._trace is not None:
            self._trace("<--", line)
        decoded = decode(line, max_depth=self._limits.max_depth)
        if isinstance(decoded, (Response, Failure)) or (
            isinstance(decoded, InvalidMessage) and decoded.kind in _ANSWERING
        ):
            if isinstance(decoded, Failure) and decoded.id is None:
                decoded = Failure(id, decoded.code, decoded.message, decoded.data)
            elif isinstance(decoded, InvalidMessage) and decoded.id is None:
                decoded = decoded._replace(id=id) if decoded.kind == "response" else decoded
            elif not (type(decoded.id) is type(id) and decoded.id == id):
                log.debug("<-- an answer to %s where one to %s was due", one_line(decoded.id), id)
                return
        self._decoded(decoded, line)

    def _single(self, message: Union[Message, InvalidMessage], frame: bytes) -> None:
        """Deal with anything but a request."""
        if type(message) is Response:
            self._settle(message.id, message.result)
        elif type(message) is Notification:
            self._notification(message)
        elif type(message) is Failure:
            self._settle(message.id, message)
        else:
            self._rubbish(message, frame)  # type: ignore[arg-type]

    def _request(self, request: Request, outlet: Union[Inbound, Batch], size: int) -> None:
        """Hand a request to whoever serves it, or owe the peer a refusal."""
        try:
            admitted = self._role.admit(request)
            if admitted is None:
                return
            exchange = Exchange(request, *admitted, outlet, size)
            exchange.server, exchange.headers = self._role.facts, self._role.headers
            self._inbound.add(exchange)
        except RpcError as error:
            outlet.owe(request.id, encode(failure(request.id, error)))
            return
        self._dispatch(exchange)

    def _array(self, items: list[Union[Message, InvalidMessage]], frame: bytes) -> None:
        requests = [item for item in items if type(item) is Request]
        reason = why_no_batch(items, taken=self._role.takes_batches, limit=self._limits.max_batch)
        if reason is not None:
            self._rubbish(InvalidMessage(INVALID_REQUEST, reason), frame)
            return
        broken = [
            item for item in items if type(item) is InvalidMessage and item.kind not in ("notification", "response")
        ]
        lines = [self._refusal(item) for item in broken if self._role.answers_rubbish]
        batch = Batch(self._inbound, lines, [request.id for request in requests])
        for item in items:
            if type(item) is Request:
                self._request_in_array(item, batch, len(frame) // len(items))
            elif type(item) is not InvalidMessage:
                self._single(item, frame)
        whole = batch.complete()
        if whole is not None:
            self._owe(whole)

    def _request_in_array(self, request: Request, batch: Batch, size: int) -> None:
        if request.method == "initialize":
            refusal = InvalidRequest("initialize stands alone, not in an array")
            batch.owe(request.id, encode(failure(request.id, refusal)))
        else:
            self._request(request, batch, size)

    def _notification(self, notification: Notification) -> None:
        method, params = notification
        if method == "notifications/progress":
            token = params.get("progressToken")
            call = self._calls.find(token) if type(token) is int or type(token) is str else None
            if call is None:
                log.debug("<-- progress for %s, which nobody waits for", one_line(token))
            else:
                call.put(params)
                self._to_wake.append(call)
        elif method == "notifications/cancelled":
            id, reason = params.get("requestId"), params.get("reason")
            if type(id) is int or type(id) is str:
                self._cancelled(id, reason if isinstance(reason, str) else None)
        else:
            self._role.notified(notification)

    def _cancelled(self, id: Id, reason: Optional[str]) -> None:
        """The peer takes a request back, or ends the one of ours that it may end: a stream of change notices."""
        call = self._calls.find(id)
        if call is not None and call.method == LISTEN:
            self._settle(id, ConnectionLost(f"the server ended the stream: {one_line(reason)}"))
        else:
            self._inbound.cancel(id, reason)

    def _settle(self, id: Optional[Id], ending: Any) -> None:
        """End the call that an answer is for; `ending` is a result or a `Failure`."""
        call = None if id is None else self._calls.take(id, ending)
        if call is not None:
            self._to_wake.append(call)
        else:
            log.debug("<-- an answer to %s, which nobody waits for", one_line(id))

    def _too_long(self, frame: TooLong) -> None:
        """Tell whom a line that was too long belonged to; if it was an answer to nobody knows what, all that wait."""
        shown = frame.head + b" ... " + frame.tail
        reason = f"a message is longer than {frame.limit} bytes, the max_message_bytes of its receiver"
        broken = diagnose_long(frame.head, frame.tail, reason)
        if broken.kind != "response" or broken.id is not None:
            self._rubbish(broken, shown)
            return
        log.warning("<-- an answer is longer than %d bytes and does not say whose: all calls end", frame.limit)
        for id in self._calls.ids():
            self._calls.settle(id, ProtocolViolation(reason, shown.decode("utf-8", "replace")))

    def _rubbish(self, broken: InvalidMessage, frame: bytes) -> None:
        """Deal with what is no message: a server says so, a client must not."""
        log.debug("<-- no message (%s): %s", broken.reason, one_line(frame))
        if broken.id is not None and broken.kind in ("response", "unknown"):
            violation = ProtocolViolation(broken.reason, frame.decode("utf-8", "replace"))
            if self._calls.settle(broken.id, violation):
                return
        if broken.kind == "notification" or broken.kind == "response":
            return
        a_request = self._role.takes_requests and broken.kind == "request" and broken.id is not None
        if self._role.answers_rubbish or a_request:
            self._owe(self._refusal(broken))
        else:
            self.odd_line = one_line(frame.decode("utf-8", "replace"))
            self._odd_lines += 1
            if self._odd_lines <= MOST_WARNINGS:
                log.warning("<-- a line that is no message (%s): %s", broken.reason, self.odd_line)
            if self._odd_lines == MOST_WARNINGS:
                log.warning("further lines that are no messages are not shown")

    def _refusal(self, broken: InvalidMessage) -> bytes:
        return encode(Failure(broken.id, broken.code, broken.reason), error_without_id=self._role.error_without_id)
