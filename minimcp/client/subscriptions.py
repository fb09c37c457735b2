"""The subscriptions of a client: streams of a program, a background stream, and log messages.

In revisions with a handshake a server sends notifications on its own, and a stream is a filter over
them. In stateless revisions each stream is a request that stays open, and its notifications name
it.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from random import uniform
from typing import AbstractSet, Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Optional

from ..engine.timer import NEVER, Deadline, timer
from ..errors import (
    CapabilityNotSupported,
    ConnectionLost,
    McpError,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
)
from ..log import logger
from ..protocol.lifecycle import ACKNOWLEDGED, LISTEN, LOG_LEVEL_KEY, Handshake
from ..protocol.messages import Json, Notification, size_of
from ..protocol.urls import by_normalized, covering, normalize_uri
from ..protocol.versions import LISTS
from ..types import Change
from .session import Cancel, ClientSession, OnMessage, Outcome, check_token, deadline_of, wait_until

log = logger("minimcp.client")

MAX_WAITING_CHANGES = 10_000
"""Maximum number of queued changes. Above it, one change of a subscribed collection stands for all
changes below it."""

MAX_ACKNOWLEDGED_BYTES = 16 * 1024 * 1024
"""Maximum memory of the params with which a server acknowledges a stream, in bytes."""

FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
"""First and longest pause before a background stream that the server ended is opened again."""

STEADY_SECONDS = 30.0
"""If a background stream lived for longer than this, the pause before the next one is short
again."""

BACKGROUND_SECONDS = 5.0
"""How long a server may take to acknowledge the background stream if no call of the program waits
for it."""

OVERLAP_SECONDS = 1.0
"""How long a replaced stream stays open if each stream has its own connection. Notifications that
the server sent before may still be on their way."""

UNSUBSCRIBE_SECONDS = 2.0
"""How long a server may take to accept that the subscriptions of a stream end."""

ENDING_SECONDS = 2.0
"""How long to wait, after the connection has ended, for the thread of a stream to report how the
stream ended."""

CLOSED = ConnectionLost("the stream is closed")
"""The ending of a stream that the program closed."""

USUAL_LEVEL = "info"
"""The lowest level of log messages until the host names one. Servers that need no request send from
the same level on."""

MEMBERS = {f"{name}_list_changed": (name, member) for name, member in LISTS.items()}
"""For each list in a `Filter`: the capability that it requires, and its wire name."""


class Filter(NamedTuple):
    """The requested changes of a stream, or the changes that the server agreed to."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    # Members that extensions add, by wire name.
    filters: Mapping[str, Json] = {}

    def to_wire(self) -> dict[str, Json]:
        """Return the filter as in the params of the request."""
        wire: dict[str, Json] = {
            member: True for name, (_, member) in MEMBERS.items() if getattr(self, name)
        }
        wire.update(self.filters)
        if self.resource_subscriptions:
            wire["resourceSubscriptions"] = list(self.resource_subscriptions)
        return wire

    @classmethod
    def from_wire(cls, params: Mapping[str, Json]) -> Filter:
        """Return the filter of an acknowledgement. Malformed members count as not honored."""
        honored = params.get("notifications")
        honored = honored if isinstance(honored, dict) else {}
        uris = honored.get("resourceSubscriptions")
        known = tuple(uri for uri in uris if isinstance(uri, str)) if isinstance(uris, list) else ()
        core = ("resourceSubscriptions", *LISTS.values())
        filters = {member: each for member, each in honored.items() if member not in core}
        return cls.of(lambda name: honored.get(MEMBERS[name][1]) is True, known)._replace(
            filters=filters
        )

    @classmethod
    def of(cls, listed: Callable[[str], bool], uris: Iterable[str] = ()) -> Filter:
        """Return a filter with the lists for whose name `listed` returns True."""
        tools, prompts, resources = (listed(name) for name in MEMBERS)
        return cls(tools, prompts, resources, tuple(uris))


class Changes:
    """A stream of changes, opened by `Client.listen`. Iterate over it, or call `next`.

    It is a context manager that ends the stream. One thread at a time may take changes; any thread
    may close it. ``honored`` is the `Filter` that the server agreed to.

    Args:
        session: The session.
        forward: Receives the notifications of the background stream. If None, they are queued as
            changes.
    """

    def __init__(self, session: ClientSession, forward: Optional[OnMessage] = None) -> None:
        self._session = session
        self._forward = forward
        self.honored: Optional[Filter] = None
        self._subscribed: dict[str, str] = {}
        # Ends the stream on the server, once.
        self._cleanup = ExitStack()
        self._ending: Optional[Outcome] = None
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, Optional[str]], Change] = {}

    # ------------------------------------------------------------ for a program

    def next(self, timeout: Optional[float] = None) -> Change:
        """Return the next change.

        Args:
            timeout: Seconds to wait; None means no limit.

        Raises:
            RequestTimeout: Nothing changed in this time.
            ConnectionLost: The stream has ended or is closed.
        """

        def done() -> bool:
            return bool(self._waiting) or self._ending is not None

        deadline = deadline_of("timeout", timeout)
        try:
            if not wait_until(done, self._changed, deadline, session=self._session):
                raise RequestTimeout(f"nothing changed within {deadline.seconds:g} s")
        except ConnectionLost:
            # If the stream is a request, another thread may be about to report its response.
            patience = 0.0
            if not self._session.era.revision.handshake:
                patience = min(deadline.to_wait(), ENDING_SECONDS)
            with self._changed:
                if not self._changed.wait_for(done, patience):
                    raise
        with self._changed:
            if self._waiting and self._ending is not CLOSED:
                return self._waiting.pop(next(iter(self._waiting)))
            ending = self._ending
        if isinstance(ending, ConnectionLost):
            raise copy(ending)
        if isinstance(ending, RpcError):
            raise ConnectionLost(f"the server ended the stream: {ending.message} ({ending.code})")
        reason = f": {ending}" if isinstance(ending, Exception) else ""
        raise ConnectionLost(f"the stream has ended{reason}")

    def __iter__(self) -> Iterator[Change]:
        return self

    def __next__(self) -> Change:
        try:
            return self.next()
        except ConnectionLost:
            if self._ending is CLOSED or isinstance(self._ending, dict):
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the stream; a loop over it stops. Idempotent and thread-safe."""
        with self._changed:
            self._waiting.clear()
            self._ending = CLOSED
            self._changed.notify_all()
            cleanup = self._cleanup.pop_all()
        cleanup.close()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Changes {'open' if self._ending is None else 'ended'} {self.honored}>"

    # ------------------------------------------------------------ for a reading thread

    def _take(self, notification: Notification) -> None:
        """Handle a notification that may belong to this stream."""
        if self._ending is not None:
            return
        if self.honored is not None:
            (self._forward or self._put)(notification)
        elif (
            notification.method != ACKNOWLEDGED
            or size_of(notification.params, MAX_ACKNOWLEDGED_BYTES) > MAX_ACKNOWLEDGED_BYTES
        ):
            rule = "a stream must begin with notifications/subscriptions/acknowledged"
            self._end_with(ProtocolViolation(rule, notification.params))
        else:
            with self._changed:
                self._begin(Filter.from_wire(notification.params))
                self._changed.notify_all()

    def _begin(self, honored: Filter) -> None:
        self._subscribed = by_normalized(honored.resource_subscriptions)
        self.honored = honored

    def _put(self, notification: Notification) -> None:
        """Queue a change. If very many are queued, queue a change of the collection that contains
        it."""
        if self._session.host.queue_for_extension(notification):
            return
        try:
            change = Change.from_notice(notification.method, notification.params)
        except ValueError as error:
            log.debug("<-- not a notification of a change: %s", error)
            return
        assert self.honored is not None
        around = None if change.uri is None else covering(self._subscribed, change.uri)
        is_filter = self._session.era.revision.handshake  # it receives all notifications
        if is_filter and around is None and not getattr(self.honored, change.kind, False):
            return
        with self._changed:
            if change.uri is not None and len(self._waiting) >= MAX_WAITING_CHANGES:
                if around is None:
                    log.debug(
                        "<-- dropped a change of %.200r: it is not subscribed to, and the queue "
                        "is full",
                        change.uri,
                    )
                    return
                if around != change.uri:
                    change = Change(change.kind, around)
            self._waiting.setdefault((change.kind, change.uri), change)
            self._changed.notify_all()

    def _end_with(self, ending: Outcome) -> None:
        """End the stream with an outcome; only the first outcome counts."""
        with self._changed:
            if self._ending is None:
                self._ending = ending
            self._changed.notify_all()


def with_uri(uris: Mapping[str, str], uri: str, wanted: bool) -> dict[str, str]:
    """Return these URIs, by normalized URI, with one added or removed."""
    key = normalize_uri(uri)
    others = {each: value for each, value in uris.items() if each != key}
    return {**others, key: uris.get(key, uri)} if wanted else others


def of(session: ClientSession) -> ClientSubscriptions:
    """Return the subscriptions of a session. They are created on first use."""
    if session.subscriptions is None:
        # `setdefault` is atomic, so two threads that arrive first share one object.
        made = ClientSubscriptions(session)
        session.subscriptions = vars(session).setdefault("_first_subscriptions", made)
    found: ClientSubscriptions = session.subscriptions
    return found


class ClientSubscriptions:
    """The subscriptions of a client on one session. Thread-safe.

    Args:
        session: The session, after the negotiation.
    """

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self._host = session.host
        self.log_level: Optional[str] = None
        self._lists = Filter.of(
            lambda name: f"on_{MEMBERS[name][0]}_changed" in session.host.functions
        )
        self._changed = threading.Condition()
        # True while a thread changes the subscriptions, including its requests.
        self._held = False
        # The resources that `Client.subscribe` subscribed to, by normalized URI.
        self.uris: dict[str, str] = {}
        # With a handshake: the resources that each stream of the program subscribed to.
        self.listened: dict[Changes, dict[str, str]] = {}
        # The client's background stream, which is a pending request of the session.
        self.background: Optional[Changes] = None
        self.pause_seconds = FIRST_PAUSE_SECONDS

    def begin(self, deadline: Deadline, before: Optional[ClientSubscriptions]) -> None:
        """Subscribe to what the host has callbacks for and the previous session was subscribed to.

        Args:
            deadline: When to give up.
            before: The subscriptions of the session that this one replaces; None for the first one.

        Raises:
            ConnectionLost: The connection has ended.
        """
        session = self.session
        uris: dict[str, str] = {}
        if before is not None:
            self.log_level = before.log_level
            uris = before.uris
            if self._host.cache is not None:
                self._host.cache.clear()
        level = self.log_level
        is_stateless = not session.era.revision.handshake
        # In stateless revisions the server sends no log messages unless requested.
        if level is None and is_stateless and "on_log" in self._host.functions:
            level = USUAL_LEVEL if session.era.peer.supports("logging") else None
        steps = {"stream of changes": partial(self._open_background, deadline, uris)}
        if level is not None:
            request = partial(session.request, deadline=deadline)
            steps = {"log messages": partial(self.set_log_level, level, request), **steps}
        for what, step in steps.items():
            try:
                step()
            except McpError as error:
                if session.cause is not None:
                    raise
                log.warning("%s: no %s: %s", session.name, what, error)

    def set_log_level(self, level: str, request: Callable[[str, dict[str, Json]], Any]) -> None:
        """Request log messages of this level and above: with a request, or in the metadata of each
        request."""
        era = self.session.era
        if isinstance(era, Handshake):
            request("logging/setLevel", {"level": level})
        else:
            self.session.check()
            era.envelope[LOG_LEVEL_KEY] = level

    @contextmanager
    def _locked(self, deadline: Deadline, cancel: Cancel = None) -> Iterator[None]:
        """Keep other threads from changing the subscriptions. Raises RequestTimeout, and as
        `wait_until`."""

        def take() -> bool:
            free = not self._held
            self._held = True
            return free

        if not wait_until(take, self._changed, deadline, cancel, self.session):
            raise RequestTimeout(
                f"{self.session.name}: an earlier change to the subscriptions is taking too long"
            )
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    # ------------------------------------------------------------ streams of the program

    def listen(
        self,
        wanted: Filter,
        deadline: Deadline,
        cancel: Cancel,
        forward: Optional[OnMessage] = None,
    ) -> Changes:
        """Open a stream. Arguments and exceptions are those of `Client.listen`; ``forward`` as
        `Changes`."""
        stream = Changes(self.session, forward)
        try:
            begin = self._subscribe if self.session.era.revision.handshake else self._request
            begin(stream, wanted, deadline, cancel)
        except BaseException:
            stream.close()
            raise
        return stream

    def _request(self, stream: Changes, wanted: Filter, deadline: Deadline, cancel: Cancel) -> None:
        """Send the request of a stream and wait for its acknowledgement."""
        session = self.session
        began = time.monotonic()

        def end(ending: Outcome) -> None:
            stream._end_with(ending)
            self._reopen(stream, began)

        def begun() -> bool:
            return stream.honored is not None or stream._ending is not None

        stream._cleanup.callback(
            session.open_stream(LISTEN, {"notifications": wanted.to_wire()}, stream._take, end)
        )
        if not wait_until(begun, stream._changed, deadline, cancel):
            raise RequestTimeout(
                f"{session.name}: {LISTEN}: no acknowledgement within {deadline.seconds:g} s"
            )
        check_token(cancel)
        if stream.honored is None:
            if isinstance(stream._ending, Exception):
                raise copy(stream._ending)
            raise ConnectionLost("the server ended the stream before it began")

    def _subscribe(
        self, stream: Changes, wanted: Filter, deadline: Deadline, cancel: Cancel
    ) -> None:
        """With a handshake: subscribe to resources, and filter all notifications for a stream."""
        session = self.session
        uris: tuple[str, ...] = ()
        if session.era.peer.supports("resources.subscribe"):
            uris = wanted.resource_subscriptions
        stream._begin(self._declared(wanted)._replace(resource_subscriptions=uris))
        session.listeners[stream] = stream._take
        stream._cleanup.callback(self._unsubscribe, stream)
        stream._cleanup.callback(session.listeners.pop, stream)
        if uris:
            with self._locked(deadline, cancel):
                subscribed = self.listened.setdefault(stream, {})
                for normalized, uri in by_normalized(uris).items():
                    # Noted first: if the request times out, the server may still accept it.
                    subscribed[normalized] = uri
                    session.request("resources/subscribe", {"uri": uri}, deadline, cancel)
        session.check()

    def _unsubscribe(self, stream: Changes) -> None:
        """Unsubscribe from the resources of a stream that ended, unless they are still needed."""
        deadline = Deadline(UNSUBSCRIBE_SECONDS)
        try:
            with self._locked(deadline):
                uris = self.listened.pop(stream, {})
                left = uris.keys() - set().union(self.uris, *self.listened.values())
                unwanted = [{"uri": uris[each]} for each in sorted(left)]
                if unwanted:
                    self.session.request_all("resources/unsubscribe", unwanted, deadline)
        except McpError as error:
            # The server may still send notifications for them, which are ignored.
            self.listened.pop(stream, None)
            log.debug("resources/unsubscribe: %s", error)

    # ------------------------------------------------------------ the background stream

    def change(self, uri: str, wanted: bool, deadline: Deadline, cancel: Cancel = None) -> None:
        """Subscribe to a resource, or unsubscribe from it. Arguments and exceptions are those of
        `Client.subscribe`."""
        session = self.session
        key = normalize_uri(uri)
        session.need("resources.subscribe")
        with self._locked(deadline, cancel):
            uris = with_uri(self.uris, uri, wanted)
            if not session.era.revision.handshake:
                if uris != self.uris:
                    needed = uris.keys() - self.uris.keys()
                    self._replace(uris, deadline, cancel, needed=needed)
            elif wanted or not any(key in listened for listened in list(self.listened.values())):
                method = "resources/subscribe" if wanted else "resources/unsubscribe"
                # The URI as it was subscribed to: servers may compare strings.
                params: dict[str, Json] = {"uri": {key: uri, **self.uris}[key]}
                session.request(method, params, deadline, cancel)
            self.uris = uris
            # The next session may have copied `uris` before this change. Then this one has ended.
            session.check()

    def _open_background(self, deadline: Deadline, uris: dict[str, str]) -> None:
        """Open the background stream, if the host needs notifications that the server declares."""
        if self.session.era.revision.handshake:
            for uri in sorted(uris.values()):
                self.change(uri, True, deadline)
        elif uris or any(self._declared(self._lists)):
            deadline = deadline.within(BACKGROUND_SECONDS)
            with self._locked(deadline):
                self._replace(uris, deadline)
                self.uris = uris

    def _declared(self, wanted: Filter) -> Filter:
        """Return the lists of a filter for which the server declares notifications."""
        supports = self.session.era.peer.supports
        return Filter.of(
            lambda name: getattr(wanted, name) and supports(f"{MEMBERS[name][0]}.listChanged")
        )

    def _replace(
        self,
        uris: dict[str, str],
        deadline: Deadline,
        cancel: Cancel = None,
        needed: AbstractSet[str] = frozenset(),
    ) -> None:
        """Open a background stream for these resources, and then close the previous one. Under the
        lock.

        While both streams are open, a change may be reported twice, but none is missed. The
        previous stream reports only resources that are still subscribed to.

        Raises:
            CapabilityNotSupported: The server does not honor a resource in `needed`.
        """
        subscriptions = tuple(sorted(uris.values()))
        wanted = self._declared(self._lists)._replace(resource_subscriptions=subscriptions)
        old = self.background
        new = None
        if any(wanted):
            new = self.listen(wanted, deadline, cancel, self._host.queue_callback)
            assert new.honored is not None
            refused = needed - new._subscribed.keys()
            if refused:
                new.close()
                first = uris[min(refused)]
                raise CapabilityNotSupported(
                    f"{self.session.name}: the server does not report changes of {first!r:.200}"
                )
        self.background = new
        if old is None:
            return
        if new is not None and old._ending is not None and old.honored is not None:
            still = tuple(uris[each] for each in old._subscribed if each in uris)
            self._call_callbacks_of(old.honored._replace(resource_subscriptions=still))
        if new is None or self.session.in_order:
            old.close()
        else:
            old._forward = self._queue_if_subscribed
            timer.after(OVERLAP_SECONDS, old.close)

    def _queue_if_subscribed(self, notification: Notification) -> None:
        uri = notification.params.get("uri")
        if not isinstance(uri, str) or covering(self.uris, uri) is not None:
            self._host.queue_callback(notification)

    def _reopen(self, stream: Changes, began: float) -> None:
        """Open another background stream after one has ended. The pause grows with each attempt."""
        if time.monotonic() - began > STEADY_SECONDS:
            self.pause_seconds = FIRST_PAUSE_SECONDS
        while self.session.cause is None:
            try:
                # A thread that replaces the stream holds the lock until the new one is set.
                with self._locked(NEVER):
                    if stream is not self.background:
                        return
                self.session.sleep(Deadline(self.pause_seconds * uniform(0.5, 1.0)))
                self.pause_seconds = min(2 * self.pause_seconds, MAX_PAUSE_SECONDS)
                deadline = Deadline(BACKGROUND_SECONDS)
                with self._locked(deadline):
                    if stream is self.background:
                        self._replace(self.uris, deadline)
            except McpError as error:
                if self.session.cause is None:
                    log.warning(
                        "%s: the stream of changes cannot be opened: %s", self.session.name, error
                    )

    # ------------------------------------------------------------ gaps

    def report_gap(self) -> None:
        """Call the callbacks of all subscriptions, because notifications were lost between two
        sessions."""
        self._call_callbacks_of(
            self._lists._replace(resource_subscriptions=tuple(sorted(self.uris.values())))
        )

    def _call_callbacks_of(self, gap: Filter) -> None:
        """Call the callbacks for everything about which notifications may have been lost."""
        for name in filter(partial(getattr, gap), MEMBERS):
            self._host.changed(name)
            self._host.call(f"on_{MEMBERS[name][0]}_changed")
        for uri in gap.resource_subscriptions:
            self._host.changed("resource_updated", uri)
            self._host.call("on_resource_updated", uri)
