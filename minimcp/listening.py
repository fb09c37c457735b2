"""Change notices at a client: streams that a program opens, and the client's own one in the background. Floor 6.

With a handshake a server sends notices unasked, and a listen is a filter over them; where requests stand alone each
listen is a request that stays open, and its notices name it.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from copy import copy
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from .calls import Calls
from .cancel import CancelToken
from .deadline import Deadline
from .eras import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_KEY
from .errors import Cancelled, ConnectionLost, McpError, ProtocolViolation, RequestTimeout, error_from_peer
from .jsonrpc import Failure, Id, Json, Notification
from .log import Log, one_line
from .table import PendingCall
from .types import CHANGES, Change
from .workers import waiting

log = Log("client")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a background stream that the server ended is opened again: at first, and at most."""

KINDS = {
    "tools_list_changed": ("tools", "toolsListChanged"),
    "prompts_list_changed": ("prompts", "promptsListChanged"),
    "resources_list_changed": ("resources", "resourcesListChanged"),
}
"""Member of a `Filter` to the capability that it needs and its name on the wire."""


class Filter(NamedTuple):
    """What a listen is about: what was asked for, or what the server agreed to."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Json]:
        """As the params of the request have it."""
        wire: dict[str, Json] = {member: True for name, (_, member) in KINDS.items() if getattr(self, name)}
        if self.resource_subscriptions:
            wire["resourceSubscriptions"] = list(self.resource_subscriptions)
        return wire

    @classmethod
    def from_wire(cls, params: Mapping[str, Json]) -> Filter:
        """What an acknowledgement names; what is not understood counts as not honoured."""
        honored = params.get("notifications")
        honored = honored if isinstance(honored, dict) else {}
        uris = honored.get("resourceSubscriptions")
        known = tuple(uri for uri in uris if isinstance(uri, str)) if isinstance(uris, list) else ()
        return cls.of(lambda name: honored.get(KINDS[name][1]) is True, known)

    @classmethod
    def of(cls, listed: Callable[[str], bool], uris: Iterable[str] = ()) -> Filter:
        """A filter for those lists that a function says yes to, by the member's name."""
        return cls(**{name: listed(name) for name in KINDS}, resource_subscriptions=tuple(uris))

    def wants(self, change: Change) -> bool:
        """Whether a change is one of these; a resource below one that was named counts."""
        if change.uri is None:
            return bool(getattr(self, change.kind, False))
        uri = change.uri
        return any(uri == each or uri.startswith(each.rstrip("/") + "/") for each in self.resource_subscriptions)


class Stream:
    """One open listen: a mailbox, and how notices get into it. What waits there already is not put in twice.

    Args:
        call: The mailbox, which is the pending request where there is one.
        forward: Gets the notices instead (the background stream); None keeps them for whoever iterates.
    """

    def __init__(self, call: PendingCall, forward: Optional[Callable[[Notification], None]] = None) -> None:
        self.call, self.forward = call, forward
        self._waiting: set[tuple[str, Optional[str]]] = set()

    def take(self, notification: Notification) -> None:
        """A notice has come (the reader's thread)."""
        if notification.method == ACKNOWLEDGED:
            self.put(Filter.from_wire(notification.params))
        elif self.forward is not None:
            self.forward(notification)
        else:
            try:
                change = Change.from_notice(notification.method, notification.params)
            except ValueError as error:
                log.debug("<-- on a stream: %s", error)
                return
            self.put_change(change)

    def put_change(self, change: Change) -> None:
        """Keep a change until somebody takes it."""
        if (change.kind, change.uri) not in self._waiting:
            self._waiting.add((change.kind, change.uri))
            self.put(change)

    def put(self, item: Union[Change, Filter]) -> None:
        """Keep anything until somebody takes it."""
        self.call.put(item)
        self.call.wake()

    def next(self, deadline: Deadline) -> Union[Change, Filter, None]:
        """The next item; None when the stream has ended, or the time is over."""
        with waiting():
            item: Any = self.call.next_item(deadline)
        if isinstance(item, Change):
            self._waiting.discard((item.kind, item.uri))
        return item  # type: ignore[no-any-return]


class Changes:
    """What `Client.listen` gives: iterate it, or take one change at a time. A context manager that ends the stream.

    One thread at a time takes changes; any thread may close. ``honored`` is the `Filter` that the server agreed to.

    Args:
        stream: Where they come from.
        honored: What the server agreed to.
        end: Ends the stream; called once.
    """

    def __init__(self, stream: Stream, honored: Filter, end: Callable[[], None]) -> None:
        self._stream, self.honored, self._end = stream, honored, end
        self._closed = False

    def next(self, timeout: Optional[float] = None) -> Change:
        """The next change.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            RequestTimeout: Nothing changed in this time.
            ConnectionLost: The stream has ended.
        """
        item = self._stream.next(Deadline(timeout))
        if isinstance(item, Change):
            return item
        if not self._stream.call.ended:
            raise RequestTimeout(f"nothing changed within {timeout} s")
        ending = self._stream.call.ending
        raise copy(ending) if isinstance(ending, ConnectionLost) else ConnectionLost("the stream has ended")

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.next()
        except ConnectionLost:
            if isinstance(self._stream.call.ending, ConnectionLost) and not self._closed:
                raise
            raise StopIteration from None

    def close(self) -> None:
        """End the stream: whoever iterates stops. Idempotent, any thread."""
        if not self._closed:
            self._closed = True
            self._end()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Changes {'ended' if self._stream.call.ended else 'open'} {self.honored}>"


class Streams:
    """The open listens of one client, as its role sees them. Thread-safe: single operations on dicts."""

    def __init__(self) -> None:
        self.requests: dict[Id, Stream] = {}
        self._filters: dict[Stream, Filter] = {}
        self._newest: Optional[Stream] = None

    def take(self, notification: Notification) -> bool:
        """Hand a notice to the stream that it names; False when it names none (the reader's thread)."""
        meta = notification.params.get("_meta")
        id = meta.get(SUBSCRIPTION_KEY) if type(meta) is dict else None
        if id is None:
            return False
        stream = self.requests.get(id) if type(id) is int or type(id) is str else None
        if stream is None or not self._is_for(stream, notification):
            log.debug("<-- %s for the stream %s, which is not open", one_line(notification.method), one_line(id))
        else:
            stream.take(notification)
        return True

    def _is_for(self, stream: Stream, notification: Notification) -> bool:
        """Whether a stream still counts: a background stream gives way when its successor is acknowledged."""
        if stream.forward is None:
            return True
        if notification.method == ACKNOWLEDGED:
            self._newest = stream
        return self._newest is stream

    def filter(self, stream: Stream, wanted: Filter) -> None:
        """From now on a stream gets those unasked notices that it wants."""
        self._filters[stream] = wanted

    def end_filter(self, stream: Stream) -> None:
        """No more of them."""
        self._filters.pop(stream, None)

    def unasked(self, notification: Notification) -> None:
        """A notice that names no stream: every filter looks at it (the reader's thread)."""
        if not self._filters or notification.method not in CHANGES:
            return
        try:
            change = Change.from_notice(notification.method, notification.params)
        except ValueError as error:
            log.debug("<-- a notice that is none: %s", error)
            return
        for stream, wanted in list(self._filters.items()):
            if wanted.wants(change):
                stream.put_change(change)

    def lost(self, cause: ConnectionLost) -> None:
        """The connection has ended; streams that are requests end with their calls."""
        for stream in list(self._filters):
            if self._filters.pop(stream, None) is not None:
                stream.call.end(cause)


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
        self._turn_lock = threading.Lock()
        """Of those who change what the background is about: one at a time talks to the server; never the reader."""
        self._background: Optional[Stream] = None
        self._keeper: Optional[threading.Thread] = None
        self._closed = threading.Event()

    @property
    def _by_request(self) -> bool:
        return not self._calls.era.revision.handshake

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
            return
        with self._turn_lock:
            if uri not in self._uris:
                self._replace({*self._uris, uri}, deadline, cancel)
            self._uris[uri] = 1

    def unsubscribe(self, uri: str, timeout: Optional[float], cancel: Optional[CancelToken]) -> None:
        """Hear of it no more; arguments and errors as `Client.unsubscribe`."""
        self._calls.need("resources.subscribe")
        deadline = self._calls.deadline(timeout)
        if not self._by_request:
            self._unsubscribe_session(uri, deadline, cancel)
            return
        with self._turn_lock:
            if uri in self._uris:
                self._replace({*self._uris} - {uri}, deadline, cancel)
                del self._uris[uri]

    def open_background(self, deadline: Deadline) -> None:
        """Open the client's own stream, if it wants to hear of anything and the server may say so.

        Raises:
            McpError: It could not be opened.
        """
        if self._by_request and any(self._kinds):
            with self._turn_lock:
                self._replace({*self._uris}, deadline, None)

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
