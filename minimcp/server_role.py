"""`ServerRole`: what a server does with what one client sends. Floor 6."""

from __future__ import annotations

from typing import Callable, Optional

from .eras import Peer
from .errors import ConnectionLost
from .exchange import Outlet, Route
from .features.registry import Registry
from .jsonrpc import Notification, Request
from .log import Log
from .notices import Later
from .role import Role
from .session import ServerSession

log = Log("server")


class ServerRole(Role):
    """One connection, as its server sees it.

    Args:
        registry: What the server can do.
        on_end: Called when the connection has ended, on the reader's thread.
    """

    hot = True
    answers_rubbish = True

    def __init__(self, registry: Registry, on_end: Callable[[ServerRole], None]) -> None:
        self._registry, self._on_end = registry, on_end
        self.session = ServerSession(registry.offer)
        self.facts = registry.facts
        self.later: Optional[Later] = None

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Whether an array of messages may arrive now."""
        return self.session.takes_batches

    @property
    def error_without_id(self) -> bool:  # type: ignore[override]
        """How an error is written now whose request's id could not be read."""
        return self.session.error_without_id

    def admit(self, request: Request) -> tuple[Peer, Route]:
        peer = self.session.admit(request)
        if request.method == "initialize" and self.later is not None:
            self._registry.subscriptions.open_session(peer, self.later)
        return peer, self._registry.route(request, peer)

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.era is not None:
            self.session.era.initialized = True
            self._registry.subscriptions.begin_session(self.session.era.peer)
        else:
            log.debug("<-- %s: ignored", notification.method)

    def ending(self, outlet: Outlet) -> None:
        self._registry.subscriptions.end_streams(outlet)

    def lost(self, cause: ConnectionLost) -> None:
        if self.session.era is not None:
            self._registry.subscriptions.close_session(self.session.era.peer)
        self._on_end(self)
