"""Where a host's callbacks run, and the role that a client plays on its connection.

Callbacks for notices run one at a time, in the order of the wire, on one dispatcher thread per client.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from typing import Any, Callable, Optional

from ..engine.connection import ConnectionHandler
from ..engine.requests import Route
from ..errors import ConnectionLost, MethodNotFound, one_line
from ..protocol.lifecycle import Peer
from ..errors import describe
from ..protocol.messages import Json, Notification, Request
from ..protocol.versions import NEWEST_HANDSHAKE
from ..types import CHANGES, Change, LogMessage
from .answering import Answerer
from .cache import Cache
from .negotiation import Era
from .streams import KINDS, Filter, Streams

log = logging.getLogger("minimcp.client")

MOST_NOTICES = 10_000
"""Notices that wait for their callback; when there are more, the oldest are dropped with one warning."""

class Dispatcher:
    """One thread that runs callbacks in order, as long as somebody has it open. `put` never blocks.

    The thread exists only after the first callback. When the last one closes, it ends; who opens later finds another.
    """

    def __init__(self) -> None:
        self._lock = threading.Condition(threading.Lock())
        self._waiting: deque[Callable[[], Any]] = deque()
        self._thread: Optional[threading.Thread] = None
        self._users = 0
        self._dropped = False

    def open(self) -> Dispatcher:
        """Take callbacks until the `close` that belongs to this."""
        with self._lock:
            self._users += 1
        return self

    def put(self, work: Callable[[], Any]) -> None:
        """Queue a callback; the oldest is dropped when too many wait."""
        with self._lock:
            if self._users <= 0:
                return
            if len(self._waiting) >= MOST_NOTICES:
                self._waiting.popleft()
                if not self._dropped:
                    self._dropped = True
                    log.warning("more than %d notices wait for a slow callback: the oldest are dropped", MOST_NOTICES)
            self._waiting.append(work)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="minimcp-callbacks", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the next notice tries again; the reader must not die of it
                    log.warning("a callback waits for a thread: %s", error)
                    return
                self._thread = thread
            self._lock.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._users <= 0)
                if not self._waiting:
                    self._thread = None
                    return
                work = self._waiting.popleft()
            try:
                work()
            except BaseException as error:
                log.error("a callback failed: %s", describe(error), exc_info=error)

    def close(self) -> None:
        """End the thread when everything that waits has run, unless somebody else has it open."""
        with self._lock:
            self._users -= 1
            self._lock.notify()


def _uri(params: Json) -> Optional[str]:
    return Change.from_notice("notifications/resources/updated", params).uri


NOTICES: dict[str, tuple[str, Optional[Callable[[Json], Any]]]] = {
    "notifications/message": ("on_log", LogMessage.from_wire),
    "notifications/tools/list_changed": ("on_tools_changed", None),
    "notifications/resources/list_changed": ("on_resources_changed", None),
    "notifications/prompts/list_changed": ("on_prompts_changed", None),
    "notifications/resources/updated": ("on_resource_updated", _uri),
}
"""By method: the callback, and how its argument is read from the params (ValueError: the notice is none); None calls
it without one."""


_CALLBACK = {name: f"on_{kind}_changed" for name, (kind, _) in KINDS.items()}
"""By member of a `Filter`: the callback."""


class ClientRole(ConnectionHandler):
    """What a client does with what its server sends.

    Args:
        answerer: The host's side.
        dispatcher: Runs its callbacks; None makes one. Open until the connection is lost.
        cache: What a change makes stale, before anybody hears of it; None for none.
    """

    def __init__(
        self, answerer: Answerer, dispatcher: Optional[Dispatcher] = None, cache: Optional[Cache] = None
    ) -> None:
        self._functions = answerer.handlers.functions
        self.hears_logs = "on_log" in self._functions
        self._answerer = answerer
        self._dispatcher = (dispatcher or Dispatcher()).open()
        self._cache = cache
        self.streams = Streams()
        self.era: Optional[Era] = None
        self._ping = Route(lambda exchange: {}, immediate=True)

    def agree(self, era: Era) -> None:
        """From now on this is spoken."""
        self.era = era

    @property
    def takes_batches(self) -> bool:  # type: ignore[override]
        """Whether an array may arrive now."""
        return self.era is None or self.era.revision.batches

    @property
    def takes_requests(self) -> bool:  # type: ignore[override]
        """Whether the server may send requests."""
        return self.era is None or self.era.revision.handshake

    def admit(self, request: Request) -> Optional[tuple[Peer, Route]]:
        if not self.takes_requests:
            log.warning("<-- %s: the server must not send requests in this revision: ignored", one_line(request.method))
            return None
        peer = Peer(NEWEST_HANDSHAKE) if self.era is None else self.era.peer
        if request.method == "ping":
            return peer, self._ping
        if self.era is None or not self._answerer.takes(request.method, peer.revision):
            raise MethodNotFound(f"Method not found: {one_line(request.method)}")
        return peer, Route(self._answerer.serve)

    def notified(self, notification: Notification) -> None:
        kind = CHANGES.get(notification.method)
        if kind is not None:
            uri = notification.params.get("uri")
            self._evict(kind, uri if isinstance(uri, str) else None)
        if not self.streams.take(notification):
            self.streams.unasked(notification)
            self.tell(notification)

    def _evict(self, kind: str, uri: Optional[str] = None) -> None:
        if self._cache is not None:
            self._cache.changed(kind, uri)

    def tell(self, notification: Notification) -> None:
        """Have the host's callback for a notice called."""
        method, params = notification
        name, read = NOTICES.get(method, ("", None))
        function = self._functions.get(name)
        if function is None:
            log.debug("<-- %s: nobody listens", one_line(method))
            return
        try:
            arguments = () if read is None else (read(params),)
        except ValueError as error:
            log.debug("<-- a %s that is none: %s", method, error)
            return
        self._dispatcher.put(partial(function, *arguments))

    @property
    def kinds(self) -> Filter:
        """The lists that the host wants to hear of."""
        return Filter.of(lambda name: _CALLBACK[name] in self._functions)

    def missed(self, gap: Filter) -> None:
        """Notices may have gone unheard: whatever they were about may have changed."""
        for name in filter(partial(getattr, gap), KINDS):
            self._evict(name)
            if _CALLBACK[name] in self._functions:
                self._dispatcher.put(self._functions[_CALLBACK[name]])
        updated = self._functions.get("on_resource_updated")
        for uri in gap.resource_subscriptions:
            self._evict("resource_updated", uri)
            if updated is not None:
                self._dispatcher.put(partial(updated, uri))

    def lost(self, cause: ConnectionLost) -> None:
        self.streams.lost(cause)
        self._dispatcher.close()
