"""The sessions of an HTTP server: what is kept of a client that has sent `initialize`.

Requests that stand alone have none.
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import logging
import secrets
import time
from functools import partial
from itertools import count
from typing import Callable, Optional, Union

from ..engine.connection import ConnectionHandler
from ..engine.requests import Calls, Line
from ..errors import ConnectionLost, one_line
from ..protocol.lifecycle import Peer
from ..protocol.messages import Failure, Notification, Response as Answer
from .streams import Response

log = logging.getLogger("minimcp.http")

MakeHandler = Callable[[Callable[[Line], None], Callable[[], None]], ConnectionHandler]
"""Makes what the messages of a session mean, given its way to send notifications, and how to end it."""


class Session:
    """What is kept of one client. Thread-safe.

    Args:
        make_handler: Makes what its messages mean.
        end: Called when the client wants the session to end.
    """

    peer: Optional[Peer] = None
    unsolicited: Optional[Response] = None
    """The stream for what belongs to no request."""
    ended = shut = False

    def __init__(self, make_handler: MakeHandler, end: Callable[[Session], None]) -> None:
        self.id, self.key = secrets.token_urlsafe(32), secrets.token_hex(6)
        self.handler = make_handler(self.post, partial(end, self))
        self.responses: list[Response] = []
        self.pending: list[Line] = []  # what `unsolicited` is to send, or the next one
        self.used_at = time.monotonic()
        self.calls = Calls("http", lambda *_: False, len)  # of all responses, each of which sends its own
        self.stream_numbers = count(1)

    def stream(self, name: str) -> Optional[Response]:
        """The stream of this name, as long as it goes on; None where there is none."""
        streams = [self.unsolicited, *self.responses]
        return next((each for each in streams if each is not None and each.name == name and not each.done), None)

    def post(self, line: Line) -> None:
        """Have a notification sent that belongs to no request, as soon as there is a stream for it. Never blocks."""
        self.pending.append(line)
        stream = self.unsolicited
        if stream is not None:
            stream.wake()

    # ------------------------------------------------------------ what is no request

    def take(self, message: Union[Notification, Answer, Failure]) -> None:
        """The client answers a question, cancels a request or notifies."""
        if not isinstance(message, Notification):
            ending = message.result if isinstance(message, Answer) else message
            if message.id is None or not self.calls.settle(message.id, ending):
                log.debug("<-- an answer to %s, which nobody waits for", one_line(message.id))
        elif message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"), message.params.get("reason"))
        else:
            self.handler.notified(message)

    def _cancel(self, id: object, reason: object) -> None:
        named = [
            (response, request)
            for response in list(self.responses)
            for request in response.incoming
            if type(request.request.id) is type(id) and request.request.id == id
            and request.request.method != "initialize" and not request.finished
        ]
        if len(named) != 1:  # clients may use an id for several requests at once: then it names none of them
            log.debug("cancelled: %s is unknown, finished or not the only one", one_line(id))
            return
        response, request = named[0]
        alone = request.batch is None and response.requests.claim(request)
        request.cancel(reason if isinstance(reason, str) else None)
        if alone:  # the answers of an array leave together
            response.spawn(response.finish)

    def end(self, reason: str) -> None:
        """Let go of everything. Idempotent."""
        if self.ended:
            return
        self.ended, cause = True, ConnectionLost(f"http: {reason}")
        self.calls.close(cause)
        for response in list(self.responses):
            response.cancel(reason)
            response.spawn(response.finish)
        if self.unsolicited is not None:
            self.unsolicited.finish()
        self.handler.lost(cause)

    def __repr__(self) -> str:
        return f"<Session {self.key} {len(self.responses)} running>"  # never the id: who knows it is let in
