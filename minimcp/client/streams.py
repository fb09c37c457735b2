"""Streams of change notices, as a client's role and its program see them.

With a handshake a server sends notices unasked, and a stream is a filter over them; where requests stand alone each
stream is a request that stays open, and its notices name it. Not here: how one is opened and closed (see `listening`).
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from copy import copy
from typing import Callable, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from ..engine.pool import waiting
from ..engine.requests import PendingCall
from ..engine.timer import Deadline
from ..errors import ConnectionLost, RequestTimeout, one_line
from ..protocol.lifecycle import ACKNOWLEDGED, SUBSCRIPTION_KEY
from ..protocol.messages import Failure, Id, Json, Notification
from ..types import CHANGES, Change, covering
from .arguments import moment
from .own_calls import wait_for

log = logging.getLogger("minimcp.client")

MOST_WAITING = 10_000
"""Changes that wait for whoever iterates; beyond that one of a collection stands for all that lies in it."""

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


class Stream:
    """One open listen: how notices get into it, and where they wait. What waits there already is not put in twice.

    ``first`` is what came first: the `Filter` that the server agreed to, or a notice that should not have been the
    first; None as long as nothing has come. ``successor`` is the stream that shall take the place of this one, and
    ``given_up`` says that nobody wants this one any more. ``told`` is what was forwarded of this one, where the one
    before may still bring what came to pass before this one was there: it does not come in order; None elsewhere.

    Args:
        call: Ends with the stream.
        forward: Gets the notices (the background stream); None keeps them for whoever iterates.
    """

    def __init__(self, call: PendingCall, forward: Optional[Callable[[Notification], None]] = None) -> None:
        self.call, self.forward = call, forward
        self.first: Union[Filter, Notification, None] = None
        self.successor: Optional[Stream] = None
        self.given_up = False
        self.told: Optional[set[tuple[str, Optional[str]]]] = None
        self._uris: frozenset[str] = frozenset()
        self._waiting: OrderedDict[tuple[str, Optional[str]], Change] = OrderedDict()

    @property
    def honored(self) -> Filter:
        """What the server agreed to."""
        return self.first if isinstance(self.first, Filter) else Filter()

    def open(self, first: Union[Filter, Notification]) -> None:
        """The first has come."""
        if isinstance(first, Filter):
            self._uris = frozenset(first.resource_subscriptions)
        self.first = first
        self.call.wake()

    def begin(self, deadline: Deadline) -> Union[Filter, Notification, None]:
        """Wait for the first; None when the time is over, or the stream has ended without any."""
        with waiting():
            wait_for(self.call, lambda: self.first, deadline)
        return self.first

    def counts(self, notification: Notification) -> bool:
        """Whether a notice of it is wanted: not when its successor is there, which hears of the same.

        What does not come in order may be older than the successor. Then only what the successor has told of since, or
        does not listen to, is told already or not wanted.
        """
        later = self.successor
        if later is None or later.given_up or not isinstance(later.first, Filter):
            return True
        change = None if later.told is None else read_change(notification)
        if later.told is None or change is None or (change.kind, change.uri) in later.told:
            return False
        return later.wants(change) and later.counts(notification)

    def _tell(self, notification: Notification) -> None:
        change = None if self.told is None else read_change(notification)
        if self.told is not None and change is not None:
            self.told.add((change.kind, change.uri))
        if self.forward is not None:
            self.forward(notification)

    def take(self, notification: Notification) -> None:
        """A notice has come (the reader's thread)."""
        if self.first is None:
            acknowledged = notification.method == ACKNOWLEDGED
            self.open(Filter.from_wire(notification.params) if acknowledged else notification)
        elif self.forward is not None:
            if self.counts(notification):
                self._tell(notification)
        else:
            change = read_change(notification)
            if change is not None:
                self.put(change)

    def wants(self, change: Change) -> bool:
        """Whether a change is one of those that were agreed to; a resource below one that was named counts."""
        if change.uri is None:
            return bool(getattr(self.honored, change.kind, False))
        return covering(self._uris, change.uri) is not None

    def put(self, change: Change) -> None:
        """Keep a change until somebody takes it; when very many wait, as a change of the collection that it lies in."""
        kind, uri = change.kind, change.uri
        if uri is not None and len(self._waiting) >= MOST_WAITING:
            uri = covering(self._uris, uri)
            if uri is None:
                log.debug("<-- %s is not subscribed to, and too much waits already: dropped", one_line(change.uri))
                return
            change = change if uri == change.uri else Change(kind, uri)
        self._waiting.setdefault((kind, uri), change)
        self.call.wake()

    def next(self, deadline: Deadline) -> Optional[Change]:
        """The next change; None when the stream has ended and nothing waits, or the time is over."""
        with waiting():
            change: Optional[Change] = wait_for(self.call, self._oldest, deadline)
        return change

    def _oldest(self) -> Optional[Change]:
        try:
            return self._waiting.popitem(last=False)[1]
        except KeyError:
            return None


def read_change(notification: Notification) -> Optional[Change]:
    """The change that a notice tells of; None when it tells of none."""
    try:
        return Change.from_notice(notification.method, notification.params)
    except ValueError as error:
        log.debug("<-- a notice that tells of no change: %s", error)
        return None


class Changes:
    """What `Client.listen` gives: iterate it, or take one change at a time. A context manager that ends the stream.

    One thread at a time takes changes; any thread may close. ``honored`` is the `Filter` that the server agreed to.

    Args:
        stream: Where they come from.
        end: Ends the stream; called once.
        check: Raises ConnectionLost in a fork of the process that opened the stream.
    """

    def __init__(self, stream: Stream, end: Callable[[], None], check: Callable[[], None]) -> None:
        self._stream, self._ends, self._check = stream, [end], check
        self._closed = False
        self.honored = stream.honored

    def next(self, timeout: Optional[float] = None) -> Change:
        """The next change.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            RequestTimeout: Nothing changed in this time.
            ConnectionLost: The stream has ended, or is closed.
        """
        deadline = moment("timeout", timeout)
        self._check()
        if self._closed:
            raise ConnectionLost("the stream is closed")
        change = self._stream.next(deadline)
        if change is None and self._stream.call.ended:
            change = self._stream.next(Deadline(0))  # it may have ended, with a last word, just after the time was over
        if change is not None:
            return change
        if not self._stream.call.ended:
            raise RequestTimeout(f"nothing changed within {deadline.seconds:g} s")
        loss = self._loss()
        self._finish()
        raise loss

    def _loss(self) -> ConnectionLost:
        ending = self._stream.call.ending
        if isinstance(ending, ConnectionLost):
            return copy(ending)
        if isinstance(ending, Failure):
            return ConnectionLost(f"the server ended the stream: {ending.message} ({ending.code})")
        return ConnectionLost(f"the stream has ended{f': {ending}' if isinstance(ending, BaseException) else ''}")

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.next()
        except ConnectionLost:
            if self._closed or isinstance(self._stream.call.ending, dict):
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the stream: whoever iterates stops. Idempotent, any thread."""
        self._closed = True
        self._finish()

    def _finish(self) -> None:
        """Let go of what the stream holds, once."""
        try:
            end = self._ends.pop()
        except IndexError:
            return
        end()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Changes {'ended' if self._stream.call.ended else 'open'} {self.honored}>"


class Streams:
    """The open listens of one client, as its role sees them. Thread-safe: single operations on dicts.

    ``requests`` has those that are requests, by id, and ``filters`` those that look at notices that name no stream.
    """

    def __init__(self) -> None:
        self.requests: dict[Id, Stream] = {}
        self.filters: dict[Stream, None] = {}

    def take(self, notification: Notification) -> bool:
        """Hand a notice to the stream that it names; False when it names none (the reader's thread)."""
        meta = notification.params.get("_meta")
        id = meta.get(SUBSCRIPTION_KEY) if type(meta) is dict else None
        if id is None:
            return False
        stream = self.requests.get(id) if type(id) is int or type(id) is str else None
        if stream is None:
            log.debug("<-- %s for the stream %s, which is not open", one_line(notification.method), one_line(id))
        else:
            stream.take(notification)
        return True

    def unasked(self, notification: Notification) -> None:
        """A notice that names no stream: every filter looks at it (the reader's thread)."""
        change = read_change(notification) if self.filters and notification.method in CHANGES else None
        if change is None:
            return
        for stream in list(self.filters):
            if stream.wants(change):
                stream.put(change)

    def lost(self, cause: ConnectionLost) -> None:
        """The connection has ended; streams that are requests end with their calls."""
        for stream in list(self.filters):
            stream.call.end(cause)
