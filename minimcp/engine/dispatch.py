"""`Dispatcher`: decides what to do with each incoming message, for all transports.

It runs on the thread that received the message: the reader thread of a connection, a worker of an
HTTP server, or the thread of an HTTP client that reads a response. Rule 1 of `connection.py`
applies: the dispatcher runs only immediate handlers, and never blocks.

https://modelcontextprotocol.io/specification/2026-07-28/basic
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Union

from ..errors import ConnectionLost, RpcError
from ..log import logger
from ..protocol.lifecycle import STREAMS
from ..protocol.messages import (
    Failure,
    Notification,
    Request,
    Response,
    Result,
    encode,
    failure,
)
from ..text import one_line
from .calls import Pinged
from .incoming import NO_HEADERS, IncomingRequest, Sink
from .pool import Job

if TYPE_CHECKING:
    from .batch import Batch

log = logger("minimcp.connection")

# Runs a job, which is the `run` method of a request, on another thread.
Run = Callable[[Job], object]


class Dispatcher:
    """Routes the messages of one peer to pending calls, running requests or the role.

    Args:
        owner: The connection or session. Its ``calls`` are the requests that this side has sent.
        role: A `ConnectionRole`, which handles requests and notifications.
        cancel: Called with the params of `notifications/cancelled`. Returns False if no running
            request has that id.

    Thread-safe.
    """

    def __init__(self, owner: Pinged, role: Any, cancel: Callable[[Result], bool]) -> None:
        self._owner = owner
        self._role = role
        self._cancel = cancel

    def dispatch(
        self,
        message: Union[Request, Response, Failure, Notification],
        sink: Sink,
        size: int,
        run: Run,
        headers: Mapping[str, str] = NO_HEADERS,
        batch: Optional[Batch] = None,
    ) -> None:
        """Dispatch a message.

        Args:
            message: The message.
            sink: Receives the response to a request.
            size: Number of bytes of the message.
            run: Runs a request on another thread, given its `run` method. Must not block.
            headers: The HTTP headers of a request.
            batch: The array that contains the message; None for a single message.

        Raises:
            RpcError: The message is a request inside an array, and is rejected.
        """
        if not isinstance(message, Request):
            self.receive(message, size)
            return
        self._owner.was_active = True
        try:
            admitted = self._role.admit(message)
            if admitted is None:
                return
            peer, route = admitted
            if headers:
                peer.principal = getattr(headers, "principal", None)
                peer.headers = headers
            server = self._role.server
            accept(IncomingRequest(message, peer, route, sink, size, server, headers, batch), run)
        except RpcError as error:
            if batch is not None:
                raise
            sink.requests.refused(message, error)
            sink.deliver(encode(failure(message.id, error)), False)

    def receive(self, message: Union[Response, Failure, Notification], size: int = 0) -> bool:
        """Handle a message that is not a request.

        ``size`` is the length of the message in bytes. It is used only for progress notifications.
        A server may omit it, because its questions have no progress callback.

        Returns:
            False if the message is a response to an unknown call, or cancels an unknown request.
        """
        if not isinstance(message, Notification):
            outcome = message.result if isinstance(message, Response) else message
            if message.id is not None and self._owner.calls.settle(message.id, outcome):
                return True
            log.debug("<-- a response to %s, which is not a pending call", message.id)
            return False
        method, params = message
        if method == "notifications/cancelled":
            return self._end_stream(params) or self._cancel(params)
        self._owner.was_active = True
        if method == "notifications/progress":
            self._owner.calls.progress(params, size)
        else:
            self._role.notified(message)
        return True

    def _end_stream(self, params: Result) -> bool:
        """End a stream of change notifications, the only call that a server may cancel."""
        call = self._owner.calls.find(params.get("requestId"))
        if call is None or call.method not in STREAMS:
            return False
        reason = one_line(params.get("reason"))
        return self._owner.calls.settle(
            call.id, ConnectionLost(f"the server ended the stream: {reason}")
        )


def accept(incoming: IncomingRequest, run: Run, key: object = None) -> None:
    """Add a request to the table of its sink, and run it as its route says.

    Args:
        incoming: The request.
        run: Runs the request on another thread or on this one, given its `run` method.
        key: Identifies the request; see `RunningRequests.add`.

    Raises:
        RpcError: The request is rejected.
    """
    sink = incoming.sink
    sink.requests.add(incoming, key)
    # If the peer had already left, the requests in the table were cancelled before this one was
    # added.
    if sink.is_closed and sink.requests.end(incoming):
        incoming.token.cancel("the peer has disconnected")
    route = incoming.route
    if route.gate is not None:
        route = route.gate(incoming)
        incoming.route = route
    if route.immediate:
        incoming.run()
    elif route.enqueue is not None:
        incoming.enqueue()
    else:
        run(incoming.run)
