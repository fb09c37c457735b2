"""What a client listens to: streams of changes that a program opens, its own one in the background,
log messages.

With a handshake a server sends notifications unasked, and a stream is a filter over them; where
requests stand alone each stream is a request that stays open, and its notifications name it.
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

MOST_WAITING = 10_000
"""Changes that wait for the program that iterates; beyond that one of a collection stands for all
that lies in it."""

WAITING_BYTES = 16 * 1024 * 1024
"""Bytes of memory of what a server may say that it agrees to."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a background stream that the server ended is opened again: at first, and at
most."""

STEADY = 30.0
"""Seconds after which the end of a background stream is no repetition of the one before."""

BACKGROUND_SECONDS = 5.0
"""What a server gets to agree to the background stream where no call of the program waits for
it."""

OVERLAP_SECONDS = 1.0
"""How long a stream stays open when another has taken its place, where each has a connection of its
own: what the server sent on it before may still be on its way."""

UNSUBSCRIBE_SECONDS = 2.0
"""What a server gets to hear of the subscriptions that end with a stream."""

ENDING_SECONDS = 2.0
"""How long, when the connection has ended, the thread of a stream gets to say how that ended
before."""

CLOSED = ConnectionLost("the stream is closed")
"""How a stream has ended that the program has closed."""

USUAL_LEVEL = "info"
"""The lowest level that a host hears until it names one: the same that servers send from where
nobody has to ask."""

MEMBERS = {f"{name}_list_changed": (name, member) for name, member in LISTS.items()}
"""Member of a `Filter` to the capability that it needs and its name on the wire."""


class Filter(NamedTuple):
    """What a listen is about: what was asked for, or what the server agreed to."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    # What extensions add, by the name on the wire.
    filters: Mapping[str, Json] = {}

    def to_wire(self) -> dict[str, Json]:
        """As the params of the request have it."""
        wire: dict[str, Json] = {
            member: True for name, (_, member) in MEMBERS.items() if getattr(self, name)
        }
        wire.update(self.filters)
        if self.resource_subscriptions:
            wire["resourceSubscriptions"] = list(self.resource_subscriptions)
        return wire

    @classmethod
    def from_wire(cls, params: Mapping[str, Json]) -> Filter:
        """What an acknowledgement names; what cannot be understood counts as not honoured."""
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
        """A filter for those lists that a function says yes to, by the member's name."""
        tools, prompts, resources = (listed(name) for name in MEMBERS)
        return cls(tools, prompts, resources, tuple(uris))


class Changes:
    """A stream of changes, as `Client.listen` gives it: iterate it, or take one change at a time.

    A context manager that ends the stream. One thread at a time takes changes; any thread may
    close. ``honored`` is the `Filter` that the server agreed to.

    Args:
        session: The connection.
        forward: Gets the notifications instead (of the background stream); None keeps changes until
            they are taken.
    """

    def __init__(self, session: ClientSession, forward: Optional[OnMessage] = None) -> None:
        self._session = session
        self._forward = forward
        self.honored: Optional[Filter] = None
        self._subscribed: dict[str, str] = {}
        # What ends the stream on the wire, once.
        self._cleanup = ExitStack()
        self._ending: Optional[Outcome] = None
        self._changed = threading.Condition()
        self._waiting: dict[tuple[str, Optional[str]], Change] = {}

    # ------------------------------------------------------------ for a program

    def next(self, timeout: Optional[float] = None) -> Change:
        """The next change.

        Args:
            timeout: Seconds to wait; None waits for ever.

        Raises:
            RequestTimeout: Nothing changed in this time.
            ConnectionLost: The stream has ended, or is closed.
        """

        def done() -> bool:
            return bool(self._waiting) or self._ending is not None

        deadline = deadline_of("timeout", timeout)
        try:
            if not wait_until(done, self._changed, deadline, session=self._session):
                raise RequestTimeout(f"nothing changed within {deadline.seconds:g} s")
        except (
            ConnectionLost
        ):  # what the server answered before is told by another thread, if the stream is a request
            patience = (
                0.0
                if self._session.era.revision.handshake
                else min(deadline.to_wait(), ENDING_SECONDS)
            )
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
        raise ConnectionLost(
            f"the stream has ended{f': {ending}' if isinstance(ending, Exception) else ''}"
        )

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
        """End the stream: a loop over it stops. Idempotent, any thread."""
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
        """A notification has come that names this stream, or none."""
        if self._ending is not None:
            return
        if self.honored is not None:
            (self._forward or self._put)(notification)
        elif (
            notification.method != ACKNOWLEDGED
            or size_of(notification.params, WAITING_BYTES) > WAITING_BYTES
        ):
            what = "a stream begins with notifications/subscriptions/acknowledged"
            self._end_with(ProtocolViolation(what, notification.params))
        else:
            with self._changed:
                self._begin(Filter.from_wire(notification.params))
                self._changed.notify_all()

    def _begin(self, honored: Filter) -> None:
        self._subscribed = by_normalized(honored.resource_subscriptions)
        self.honored = honored

    def _put(self, notification: Notification) -> None:
        """Keep a change until somebody takes it, once; when very many wait, as a change of the
        collection around it."""
        if self._session.host.tell_extension(notification):
            return
        try:
            change = Change.from_notice(notification.method, notification.params)
        except ValueError as error:
            log.debug("<-- a notification that tells of no change: %s", error)
            return
        assert self.honored is not None
        around = None if change.uri is None else covering(self._subscribed, change.uri)
        is_filter = self._session.era.revision.handshake  # it gets all that comes
        if is_filter and around is None and not getattr(self.honored, change.kind, False):
            return
        with self._changed:
            if change.uri is not None and len(self._waiting) >= MOST_WAITING:
                if around is None:
                    log.debug(
                        "<-- %.200r is not subscribed to, and too much waits already: dropped",
                        change.uri,
                    )
                    return
                change = change if around == change.uri else Change(change.kind, around)
            self._waiting.setdefault((change.kind, change.uri), change)
            self._changed.notify_all()

    def _end_with(self, ending: Outcome) -> None:
        """The stream has ended; only the first ending counts."""
        with self._changed:
            if self._ending is None:
                self._ending = ending
            self._changed.notify_all()


def with_uri(uris: Mapping[str, str], uri: str, wanted: bool) -> dict[str, str]:
    """Return these URIs, by normalized URI, with one more or without it."""
    key = normalize_uri(uri)
    others = {each: value for each, value in uris.items() if each != key}
    return {**others, key: uris.get(key, uri)} if wanted else others


def of(session: ClientSession) -> ClientSubscriptions:
    """Return what a client has the server tell on a connection. It is made on first use."""
    if session.subscriptions is None:
        # `setdefault` is atomic, so two threads that come first share one object.
        made = ClientSubscriptions(session)
        session.subscriptions = vars(session).setdefault("_first_subscriptions", made)
    found: ClientSubscriptions = session.subscriptions
    return found


class ClientSubscriptions:
    """What a client has the server tell on one connection. Thread-safe.

    Args:
        session: The connection, which was agreed on.
    """

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self._host = session.host
        self.log_level: Optional[str] = None
        self._lists = Filter.of(
            lambda name: f"on_{MEMBERS[name][0]}_changed" in session.host.functions
        )
        self._changed = threading.Condition()
        # While something changes that the server is to tell of, also during its requests.
        self._held = False
        # The resources that `subscribe` has asked for, by normalized URI.
        self.uris: dict[str, str] = {}
        # In a session: those that each stream of the program listens to.
        self._listened: dict[Changes, dict[str, str]] = {}
        # The client's own stream, which is one of the session's pending requests.
        self.background: Optional[Changes] = None
        self._pause = FIRST_PAUSE

    def begin(self, deadline: Deadline, before: Optional[ClientSubscriptions]) -> None:
        """Begin to hear of what the host has callbacks for, and of what it heard in the session
        before.

        Args:
            deadline: For all of it.
            before: Those of the session whose place this one takes; None for the first.

        Raises:
            ConnectionLost: The connection has ended.
        """
        session, uris = self.session, dict[str, str]()
        if before is not None:
            self.log_level = before.log_level
            uris = before.uris
            if self._host.cache is not None:
                self._host.cache.clear()
        level = self.log_level
        if (
            level is None
            and not session.era.revision.handshake
            and "on_log" in self._host.functions
        ):
            level = (
                USUAL_LEVEL if session.era.peer.supports("logging") else None
            )  # nothing comes unasked in this era
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
        """Have the server send log messages of this level and above: by a request, or by what each
        request says."""
        era = self.session.era
        if isinstance(era, Handshake):
            request("logging/setLevel", {"level": level})
        else:
            self.session.check()
            era.envelope[LOG_LEVEL_KEY] = level

    @contextmanager
    def _locked(self, deadline: Deadline, cancel: Cancel = None) -> Iterator[None]:
        """Let no other thread change what the server is to tell of. Raises RequestTimeout, and as
        `wait_until`."""

        def take() -> bool:
            free = not self._held
            self._held = True
            return free

        if not wait_until(take, self._changed, deadline, cancel, self.session):
            raise RequestTimeout(
                f"{self.session.name}: an earlier call about subscriptions takes too long"
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
        """Open a stream; arguments and errors as `Client.listen`, and ``forward`` as `Changes`."""
        stream = Changes(self.session, forward)
        try:
            begin = self._subscribe if self.session.era.revision.handshake else self._request
            begin(stream, wanted, deadline, cancel)
        except BaseException:
            stream.close()
            raise
        return stream

    def _request(self, stream: Changes, wanted: Filter, deadline: Deadline, cancel: Cancel) -> None:
        """Send the request of a stream and wait for the acknowledgement."""
        session, began = self.session, time.monotonic()

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
            early = ConnectionLost("the server ended the stream before it began")
            raise copy(stream._ending) if isinstance(stream._ending, Exception) else early

    def _subscribe(
        self, stream: Changes, wanted: Filter, deadline: Deadline, cancel: Cancel
    ) -> None:
        """In a session: subscribe to resources, and have a stream choose among all
        notifications."""
        session = self.session
        uris = (
            wanted.resource_subscriptions
            if session.era.peer.supports("resources.subscribe")
            else ()
        )
        stream._begin(self._declared(wanted)._replace(resource_subscriptions=uris))
        session.listeners[stream] = stream._take
        stream._cleanup.callback(self._unsubscribe, stream)
        stream._cleanup.callback(session.listeners.pop, stream)
        if uris:
            with self._locked(deadline, cancel):
                subscribed = self._listened.setdefault(stream, {})
                for normalized, uri in by_normalized(uris).items():
                    subscribed[normalized] = (
                        uri  # before: the server may take what is given up here
                    )
                    session.request("resources/subscribe", {"uri": uri}, deadline, cancel)
        session.check()

    def _unsubscribe(self, stream: Changes) -> None:
        """A stream has ended: unsubscribe from what nothing else wants; one that fails stops no
        other."""
        deadline = Deadline(UNSUBSCRIBE_SECONDS)
        try:
            with self._locked(deadline):
                uris = self._listened.pop(stream, {})
                left = uris.keys() - set().union(self.uris, *self._listened.values())
                unwanted = [{"uri": uris[each]} for each in sorted(left)]
                if unwanted:
                    self.session.request_all("resources/unsubscribe", unwanted, deadline)
        except McpError as error:
            self._listened.pop(
                stream, None
            )  # what it subscribed to may stay so, but nobody listens
            log.debug("resources/unsubscribe: %s", error)

    # ------------------------------------------------------------ the client's own

    def change(self, uri: str, wanted: bool, deadline: Deadline, cancel: Cancel = None) -> None:
        """Hear of a resource from now on, or no more; arguments and errors as
        `Client.subscribe`."""
        session, key = self.session, normalize_uri(uri)
        session.need("resources.subscribe")
        with self._locked(deadline, cancel):
            uris = with_uri(self.uris, uri, wanted)
            if not session.era.revision.handshake:
                if uris != self.uris:
                    needed = uris.keys() - self.uris.keys()
                    self._replace(uris, deadline, cancel, needed=needed)
            elif wanted or not any(key in listened for listened in list(self._listened.values())):
                method = "resources/subscribe" if wanted else "resources/unsubscribe"
                # As it was subscribed to: servers may compare texts.
                params: dict[str, Json] = {"uri": {key: uri, **self.uris}[key]}
                session.request(method, params, deadline, cancel)
            self.uris = uris
            # who begins the next session may have looked before: then it knows nothing of this
            session.check()

    def _open_background(self, deadline: Deadline, uris: dict[str, str]) -> None:
        """Open the client's own stream, if it wants to hear of anything and the server declares
        that it says so."""
        if self.session.era.revision.handshake:
            for uri in sorted(uris.values()):
                self.change(uri, True, deadline)
        elif uris or any(self._declared(self._lists)):
            deadline = deadline.within(BACKGROUND_SECONDS)
            with self._locked(deadline):
                self._replace(uris, deadline)
                self.uris = uris

    def _declared(self, wanted: Filter) -> Filter:
        """Those lists of a filter whose changes the server declares to tell."""
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
        """Open a background stream with this set of resources, and then close the one before. Under
        the lock.

        While both are open a change may be told twice; none goes unheard. From then on the one
        before tells only of resources that are still subscribed to.

        Raises:
            CapabilityNotSupported: The server does not honour one that is needed.
        """
        subscriptions = tuple(sorted(uris.values()))
        wanted = self._declared(self._lists)._replace(resource_subscriptions=subscriptions)
        old, new = self.background, None
        if any(wanted):
            new = self.listen(wanted, deadline, cancel, self._host.tell)
            assert new.honored is not None
            refused = needed - new._subscribed.keys()
            if refused:
                new.close()
                first = uris[min(refused)]
                what = f"{self.session.name}: the server does not tell of changes of {first!r:.200}"
                raise CapabilityNotSupported(what)
        self.background = new
        if old is None:
            return
        if new is not None and old._ending is not None and old.honored is not None:
            still = tuple(uris[each] for each in old._subscribed if each in uris)
            self._missed(old.honored._replace(resource_subscriptions=still))
        if new is None or self.session.in_order:
            old.close()
        else:
            old._forward = self._tell_subscribed
            timer.after(OVERLAP_SECONDS, old.close)

    def _tell_subscribed(self, notification: Notification) -> None:
        uri = notification.params.get("uri")
        if not isinstance(uri, str) or covering(self.uris, uri) is not None:
            self._host.tell(notification)

    def _reopen(self, stream: Changes, began: float) -> None:
        """A stream has ended. If it was in the background, open another, after a pause that grows
        with each attempt."""
        if time.monotonic() - began > STEADY:
            self._pause = FIRST_PAUSE
        while self.session.cause is None:
            try:
                with self._locked(
                    NEVER
                ):  # a thread that opens a stream holds it until that is in its place
                    if stream is not self.background:
                        return
                self.session.sleep(Deadline(self._pause * uniform(0.5, 1.0)))
                self._pause = min(2 * self._pause, LONGEST_PAUSE)
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

    def missed_all(self) -> None:
        """There was a gap before this connection: whatever the host listens to may have changed."""
        self._missed(self._lists._replace(resource_subscriptions=tuple(sorted(self.uris.values()))))

    def _missed(self, gap: Filter) -> None:
        """Notifications may have gone unheard: call the callbacks for whatever they were about."""
        for name in filter(partial(getattr, gap), MEMBERS):
            self._host.changed(name)
            self._host.call(f"on_{MEMBERS[name][0]}_changed")
        for uri in gap.resource_subscriptions:
            self._host.changed("resource_updated", uri)
            self._host.call("on_resource_updated", uri)
