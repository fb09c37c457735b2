"""A host's own functions, and the role that a client plays on its connection. Floor 6.

Callbacks for notices run one at a time, in the order of the wire, on one dispatcher thread per client.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Callable, Optional

from .eras import Peer
from .errors import ConnectionLost, MethodNotFound
from .exchange import Route, describe
from .jsonrpc import Notification, Request
from .log import Log, one_line
from .negotiation import Era
from .revisions import NEWEST_HANDSHAKE
from .role import Role
from .types import LogMessage

log = Log("client")

MOST_NOTICES = 10_000
"""Notices that wait for their callback; when there are more, the oldest are dropped with one warning."""

NAMES = ("on_log", "on_tools_changed")


class Callbacks:
    """What a host wants to hear, by the name of the callback."""

    def __init__(self, functions: dict[str, Callable[..., Any]]) -> None:
        self.functions = functions

    @classmethod
    def gather(cls, handlers: Any, **keywords: Optional[Callable[..., Any]]) -> Callbacks:
        """Those of an object and those given as keywords.

        Raises:
            TypeError: One is given both ways, cannot be called, or the object is a class.
        """
        if isinstance(handlers, type):
            raise TypeError(f"handlers={handlers.__name__} is a class: give an instance of it")
        functions: dict[str, Callable[..., Any]] = {}
        for name in NAMES:
            own, given = getattr(handlers, name, None), keywords.get(name)
            if own is not None and given is not None:
                raise TypeError(f"{name} is given twice: by handlers and as a keyword")
            function = own if given is None else given
            if function is None:
                continue
            if not callable(function):
                raise TypeError(f"{name} is called, and {type(function).__name__} cannot be")
            functions[name] = function
        return cls(functions)


class Dispatcher:
    """One thread that runs callbacks in order; it exists only after the first one. `put` never blocks."""

    def __init__(self) -> None:
        self._lock = threading.Condition(threading.Lock())
        self._waiting: deque[Callable[[], Any]] = deque()
        self._thread: Optional[threading.Thread] = None
        self._closed = False
        self._dropped = False

    def put(self, work: Callable[[], Any]) -> None:
        """Queue a callback; the oldest is dropped when too many wait."""
        with self._lock:
            if self._closed:
                return
            if len(self._waiting) >= MOST_NOTICES:
                self._waiting.popleft()
                if not self._dropped:
                    self._dropped = True
                    log.warning("more than %d notices wait for a slow callback: the oldest are dropped", MOST_NOTICES)
            self._waiting.append(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="minimcp-callbacks", daemon=True)
                self._thread.start()
            self._lock.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._waiting or self._closed)
                if not self._waiting:
                    return
                work = self._waiting.popleft()
            try:
                work()
            except BaseException as error:
                log.error("a callback failed: %s", describe(error), exc_info=error)

    def close(self) -> None:
        """End the thread when everything that waits has run."""
        with self._lock:
            self._closed = True
            self._lock.notify()


class ClientRole(Role):
    """What a client does with what its server sends.

    Args:
        callbacks: The host's.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._functions = callbacks.functions
        self._dispatcher = Dispatcher()
        self.era: Optional[Era] = None
        self._ping = Route(lambda exchange: {}, control=True)

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
        if request.method != "ping":
            raise MethodNotFound(f"Method not found: {one_line(request.method)}")
        return (Peer(NEWEST_HANDSHAKE) if self.era is None else self.era.peer), self._ping

    def notified(self, notification: Notification) -> None:
        method, params = notification
        if method == "notifications/message" and "on_log" in self._functions:
            try:
                message = LogMessage.from_wire(params)
            except ValueError as error:
                log.debug("<-- a log message that is none: %s", error)
                return
            self._dispatcher.put(lambda: self._functions["on_log"](message))
        elif method == "notifications/tools/list_changed" and "on_tools_changed" in self._functions:
            self._dispatcher.put(self._functions["on_tools_changed"])
        else:
            log.debug("<-- %s: nobody listens", one_line(method))

    def lost(self, cause: ConnectionLost) -> None:
        self._dispatcher.close()
