"""Streams of change notices, as a client's role and its program see them. Floor 6.

With a handshake a server sends notices unasked, and a stream is a filter over them; where requests stand alone each
stream is a request that stays open, and its notices name it. Not here: how one is opened and closed (see `listening`).
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

from copy import copy
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from .deadline import Deadline
from .eras import ACKNOWLEDGED, SUBSCRIPTION_KEY
from .errors import ConnectionLost, RequestTimeout
from .jsonrpc import Id, Json, Notification
from .log import Log, one_line
from .table import PendingCall
from .types import CHANGES, Change
from .workers import waiting

log = Log("client")

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
