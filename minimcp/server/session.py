"""`ServerRole`: what a server does with what one client sends, whatever the transport."""

from __future__ import annotations

import logging
from typing import Callable, Optional

from ..engine.connection import ConnectionHandler
from ..engine.requests import IncomingRequest, Line, Route, Sink
from ..errors import ConnectionLost, InvalidRequest
from ..protocol.lifecycle import Peer, ServerSession
from ..protocol.messages import Json, Notification, Request
from .registry import Registry

log = logging.getLogger("minimcp.server")

SHUTDOWN = "shutdown"
"""No method of the specification, whose sessions end with their connection; a widely read paraphrase of it has it."""


class ServerRole(ConnectionHandler):
    """One connection, or one session over HTTP, as its server sees it.

    Args:
        registry: What the server can do.
        on_end: Called when the connection has ended, on the reader's thread.
    """

    answers_invalid = True

    def __init__(self, registry: Registry, on_end: Callable[[ServerRole], None]) -> None:
        self._registry, self._on_end = registry, on_end
        self.session = ServerSession(registry.offer)
        self.server = registry.config
        self.later: Optional[Callable[[Line], None]] = None
        self.end: Callable[[], None] = lambda: None
        self._shut_down = False

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Whether an array of messages may arrive now."""
        return self.session.takes_batches

    @property
    def error_without_id(self) -> bool:  # type: ignore[override]
        """How an error is written now whose request's id could not be read."""
        return self.session.error_without_id

    def admit(self, request: Request) -> tuple[Peer, Route]:
        if self._shut_down:
            raise InvalidRequest("this session was shut down")
        before = self.session.era
        peer = self.session.admit(request)
        if request.method == SHUTDOWN and self.session.era is not None and peer is self.session.era.peer:
            self._shut_down = True
            return peer, Route(self._end, immediate=True)
        if request.method == "initialize" and before is not None:
            self._registry.subscriptions.close_session(before.peer)
        if request.method == "initialize" and self.later is not None:
            self._registry.subscriptions.open_session(peer, self.later)
        return peer, self._registry.route(request, peer)

    def _end(self, exchange: IncomingRequest) -> dict[str, Json]:
        """Have the connection closed once this is answered and what runs has finished."""
        exchange.sink.spawn(self.end)
        return {}

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.era is not None:
            self._registry.subscriptions.begin_session(self.session.era.peer)
        else:
            log.debug("<-- %s: ignored", notification.method)

    def ending(self, sink: Sink) -> None:
        self._registry.subscriptions.end_streams(sink)

    def lost(self, cause: ConnectionLost) -> None:
        if self.session.era is not None:
            self._registry.subscriptions.close_session(self.session.era.peer)
        self._on_end(self)
