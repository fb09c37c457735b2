"""`ServerRole`: what a server does with what one client sends. Floor 6."""

from __future__ import annotations

from typing import Callable

from .eras import Peer
from .errors import ConnectionLost
from .exchange import Route
from .features.registry import Registry
from .jsonrpc import Notification, Request
from .log import Log
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
        return peer, self._registry.route(request, peer)

    def notified(self, notification: Notification) -> None:
        if notification.method == "notifications/initialized" and self.session.era is not None:
            self.session.era.initialized = True
        else:
            log.debug("<-- %s: ignored", notification.method)

    def lost(self, cause: ConnectionLost) -> None:
        self._on_end(self)
