"""`Role`: what a connection asks of the client or server above it."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from ..errors import ConnectionLost
from ..protocol.lifecycle import Peer
from ..protocol.messages import Notification, Request
from .exchange import NO_HEADERS, Outlet, Route


class Role:
    """What a channel asks of the client or server above it; all of it runs on the reader's thread and must be quick."""

    __slots__ = ()

    hot = False
    """Whether quick handlers run one after the other on a hot lane; False gives each request its own worker."""

    answers_rubbish = False
    """Whether what cannot be read is answered. A server does; a client must not, or two could shout for ever."""

    takes_requests = True
    """Whether the peer may send requests at all; where it may not, even a broken one is dropped without a word."""

    takes_batches = False
    """Whether an array of messages may arrive now."""

    error_without_id = True
    """How an error is written now whose request's id could not be read: True leaves the id out, False writes null."""

    headers: Mapping[str, str] = NO_HEADERS
    """Of the HTTP request that opened the connection; empty where it was none."""

    facts: Any = None
    """What exchanges carry along for the features that serve them."""

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        """Who sends this request and where it goes; None drops it without an answer.

        Raises:
            RpcError: It is refused.
        """
        raise NotImplementedError

    def notified(self, notification: Notification) -> None:
        """A notification came that is neither progress nor a cancellation."""

    def ending(self, outlet: Outlet) -> None:
        """The connection is about to end, and what still runs gets some time: open streams on this outlet end now."""

    def lost(self, cause: ConnectionLost) -> None:
        """The connection has ended."""
