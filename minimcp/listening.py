"""What one client listens to: streams that a program opens, and the client's own one in the background. Floor 6.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from copy import copy
from typing import Callable, Optional, Sequence

from .calls import Calls
from .cancel import CancelToken
from .deadline import Deadline
from .eras import LISTEN
from .errors import Cancelled, ConnectionLost, McpError, ProtocolViolation, RequestTimeout, error_from_peer
from .jsonrpc import Failure, Id, Json, Notification
from .log import Log, one_line
from .streams import KINDS, Changes, Filter, Stream, Streams
from .table import PendingCall

log = Log("client")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a background stream that the server ended is opened again: at first, and at most."""

class Listening:
    """What one client listens to. Thread-safe.

    Args:
        calls: The client's.
        streams: Those that its role looks at.
        forward: What happens to a notice of the background stream.
        missed: Called after a gap of the background stream, with what it was about: changes may have gone unheard.
        kinds: What the background stream is about besides the resources that are subscribed to.
    """

    def __init__(
        self,
        calls: Calls,
        streams: Streams,
        *,
        forward: Callable[[Notification], None],
        missed: Callable[[Filter], None],
        kinds: Filter,
    ) -> None:
        self._calls, self._streams, self._kinds = calls, streams, kinds
        self._forward, self._missed = forward, missed
        self._uris: Counter[str] = Counter()
        self._subscribed: dict[str, bool] = {}
        self._turn_lock = threading.Lock()
        """Of those who change what the background is about: one at a time talks to the server; never the reader."""
        self._background: Optional[Stream] = None
        self._keeper: Optional[threading.Thread] = None
        self._closed = threading.Event()

    @property
    def _by_request(self) -> bool:
        return not self._calls.era.revision.handshake

    @property
    def subscribed(self) -> tuple[str, ...]:
        """The resources that `subscribe` has asked for."""
        return tuple(self._subscribed)

    # ------------------------------------------------------------ streams of the program

    def listen(self, wanted: Filter, timeout: Optional[float], cancel: Optional[CancelToken]) -> Changes:
        """Open a stream; arguments and errors as `Client.listen`."""
        deadline = self._calls.deadline(timeout)
        if not self._by_request:
            return self._filter(wanted, deadline, cancel)
        stream, honored = self._open(wanted, deadline, cancel)
        return Changes(stream, honored, lambda: self._close(stream))

    def _open(
        self,
        wanted: Filter,
        deadline: Deadline,
        cancel: Optional[CancelToken],
        forward: Optional[Callable[[Notification], None]] = None,
    ) -> tuple[Stream, Filter]:
        """Send the request and wait for the acknowledgement; the way is there before the request is written."""
        calls = self._calls.channel.calls

        def params(id: Id) -> dict[str, Json]:
            mailbox = calls.table.find(id)
            if mailbox is not None:
                self._streams.requests[id] = Stream(mailbox, forward)
            return self._calls.era.dress({"notifications": wanted.to_wire()}, {})

        call = calls.call(LISTEN, params, on_item=_keep)
        stream = self._streams.requests.get(call.id) or Stream(call)  # the connection was lost meanwhile
        token = cancel or CancelToken()

        def give_up() -> None:
            calls.retire(call, Cancelled(token.reason or "cancelled"))

        forget = token.on_cancel(give_up)
        try:
            return stream, self._acknowledged(stream, deadline)
        except BaseException:
            self._close(stream)
            raise
        finally:
            forget()

    def _acknowledged(self, stream: Stream, deadline: Deadline) -> Filter:
        first = stream.next(deadline)
        if isinstance(first, Filter):
            return first
        if first is not None:
            raise ProtocolViolation("a stream begins with notifications/subscriptions/acknowledged", first)
        ending = stream.call.ending
        if isinstance(ending, Failure):
            raise error_from_peer(ending.code, ending.message, ending.data)
        if isinstance(ending, BaseException):
            raise copy(ending)
        if ending is not None:
            raise ConnectionLost("the server ended the stream before it began")
        raise RequestTimeout(f"{self._calls.channel.name}: {LISTEN}: no acknowledgement in time")

    def _close(self, stream: Stream) -> None:
        self._streams.requests.pop(stream.call.id, None)
        self._calls.channel.calls.retire(stream.call, Cancelled("the stream was closed"))

    # ------------------------------------------------------------ filters, in a session

    def _filter(self, wanted: Filter, deadline: Deadline, cancel: Optional[CancelToken]) -> Changes:
        supports = self._calls.era.peer.supports
        uris = wanted.resource_subscriptions if supports("resources.subscribe") else ()
        honored = Filter.of(
            lambda name: bool(getattr(wanted, name)) and supports(f"{KINDS[name][0]}.listChanged"), uris
        )
        stream = Stream(PendingCall(0, "listen", _keep))
        self._streams.filter(stream, honored)
        subscribed: list[str] = []

        def end() -> None:
            self._streams.end_filter(stream)
            stream.call.end(Cancelled("the stream was closed"))
            for uri in subscribed:
                try:
                    self._unsubscribe_session(uri, self._calls.deadline(None).within(_FAREWELL), None)
                except McpError as error:
                    log.debug("resources/unsubscribe %s: %s", one_line(uri), error)

        try:
            for uri in uris:
                self._subscribe_session(uri, deadline, cancel)
                subscribed.append(uri)
        except BaseException:
            end()
            raise
        cause = self._calls.channel.calls.table.cause
        if cause is not None:
            end()
            raise copy(cause)
        return Changes(stream, honored, end)

    def _subscribe_session(self, uri: str, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        self._calls.request("resources/subscribe", {"uri": uri}, deadline, cancel)
        self._uris[uri] += 1

    def _unsubscribe_session(self, uri: str, deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        if self._uris[uri] > 1:
            self._uris[uri] -= 1
            return
        self._calls.request("resources/unsubscribe", {"uri": uri}, deadline, cancel)
        del self._uris[uri]

    # ------------------------------------------------------------ the client's own

    def subscribe(self, uri: str, timeout: Optional[float], cancel: Optional[CancelToken]) -> None:
        """Hear of a resource from now on; arguments and errors as `Client.subscribe`."""
        self._calls.need("resources.subscribe")
        deadline = self._calls.deadline(timeout)
        if not self._by_request:
            self._subscribe_session(uri, deadline, cancel)
        else:
            with self._turn_lock:
                if uri not in self._uris:
                    self._replace({*self._uris, uri}, deadline, cancel)
                self._uris[uri] = 1
        self._subscribed[uri] = True

    def unsubscribe(self, uri: str, timeout: Optional[float], cancel: Optional[CancelToken]) -> None:
        """Hear of it no more; arguments and errors as `Client.unsubscribe`."""
        self._calls.need("resources.subscribe")
        deadline = self._calls.deadline(timeout)
        self._subscribed.pop(uri, None)
        if not self._by_request:
            self._unsubscribe_session(uri, deadline, cancel)
            return
        with self._turn_lock:
            if uri in self._uris:
                self._replace({*self._uris} - {uri}, deadline, cancel)
                del self._uris[uri]

    def open_background(self, deadline: Deadline, uris: Sequence[str] = ()) -> None:
        """Open the client's own stream, if it wants to hear of anything and the server may say so.

        Args:
            deadline: For all of it.
            uris: Resources that were subscribed to on a connection before this one.

        Raises:
            McpError: It could not be opened.
        """
        if not self._by_request:
            for uri in uris:
                self.subscribe(uri, deadline.remaining(), None)
        elif uris or any(self._kinds):
            with self._turn_lock:
                self._replace({*self._uris, *uris}, deadline, None)
                self._uris.update(dict.fromkeys(uris, 1))
                self._subscribed.update(dict.fromkeys(uris, True))

    def _replace(self, uris: set[str], deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        """Put a stream with the new set into the place of the old one, which is closed when the new one is there."""
        wanted = self._kinds._replace(resource_subscriptions=tuple(sorted(uris)))
        old, new = self._background, None
        if any(wanted):
            new, _ = self._open(wanted, deadline, cancel, self._forward)
        self._background = new
        if old is not None:
            self._close(old)
        if new is not None and self._keeper is None:
            self._keeper = threading.Thread(target=self._keep_open, name="minimcp-listening", daemon=True)
            self._keeper.start()

    def _keep_open(self) -> None:
        """Open the background stream again when the server ends it, until the connection ends."""
        pause = FIRST_PAUSE
        while True:
            stream = self._background
            if stream is None or self._closed.is_set():
                with self._turn_lock:
                    if self._background is None or self._closed.is_set():
                        self._keeper = None
                        return
                continue
            while stream.next(Deadline(None)) is not None:
                pause = FIRST_PAUSE
            if stream is not self._background:
                continue
            if self._calls.channel.calls.table.cause is not None:
                self._closed.set()
                continue
            self._closed.wait(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)
            self._reopen(stream)

    def _reopen(self, stream: Stream) -> None:
        with self._turn_lock:
            if stream is not self._background or self._closed.is_set():
                return
            try:
                self._replace({*self._uris}, self._calls.deadline(None).within(LONGEST_PAUSE), None)
            except McpError as error:
                log.warning("%s: the stream of changes cannot be opened: %s", self._calls.channel.name, error)
                return
        self._missed(self._kinds._replace(resource_subscriptions=tuple(self._uris)))

    def stop(self) -> None:
        """The connection is about to end: nothing is opened again. Never blocks."""
        self._closed.set()

    def join(self) -> None:
        """Wait for the thread that kept the background stream open; the connection must have ended."""
        keeper = self._keeper
        if keeper is not None and keeper is not threading.current_thread():
            keeper.join(_FAREWELL)


def _keep(item: object) -> None:
    """Items of a stream are taken by `Stream.next`, not by a callback."""


_FAREWELL = 2.0
"""Seconds that a server gets to hear of a subscription that ends with its stream."""
