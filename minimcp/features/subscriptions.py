"""Change notifications: who subscribed to what, and their delivery without blocking the sender.

A session with a handshake is notified of every list that changes and of the resources that it
subscribed to. In stateless revisions, a client opens a stream with `subscriptions/listen`, a
request whose response is sent when the stream ends.
https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions
"""

from __future__ import annotations

import math
import sys
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Optional, Sequence

from ..engine.incoming import DEFERRED, IncomingRequest, Line, Route, Sink
from ..errors import Cancelled, InternalError, InvalidParams, InvalidRequest
from ..protocol.lifecycle import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_KEY, Peer
from ..protocol.messages import Json, Notification, Response, encode
from ..protocol.urls import by_normalized, covering, normalize_uri
from ..protocol.versions import LISTS
from ..server.feature import Destination, Feature, load

if TYPE_CHECKING:
    from ..server.feature import OpenSession
    from ..server.registry import Registry

# Maximum number of resources that one session or stream may subscribe to, and of notifications that
# are queued for a slow client. Above it, a change within a collection is reported as a change of
# the collection, so that at most one more is queued for each subscription.
MAX_URIS = 10_000

# Maximum memory in bytes for the subscriptions of one session or stream, and of one server.
MAX_SUBSCRIBER_BYTES = 8 * 1024 * 1024
MAX_SERVER_BYTES = 32 * 1024 * 1024

# Maximum length of the id of a request that opens a stream, because each notification repeats it.
MAX_ID_CHARACTERS = 256


def _bytes_of(uri: str) -> int:
    """Return the memory of one subscription, in bytes.

    It counts the URI, its normalized form, its entry, and one notification for a slow client.
    """
    normalized = normalize_uri(uri)
    copies = 2 * sys.getsizeof(uri) + (0 if normalized is uri else sys.getsizeof(normalized))
    return copies + 400


class Subscriber:
    """The subscriptions of one client. Each change is queued once while the client does not read.
    Thread-safe.

    No method waits for the client.

    Args:
        post: Enqueues a function that creates a line when the client reads it.
        lists: The kinds of lists.
        uris: The resources. A resource below one of them counts, too.
        meta: The ``_meta`` of every notification; omitted if None.
        held: Whether notifications are held back until `release`.
    """

    def __init__(
        self,
        post: Callable[[Line], None],
        lists: Iterable[str],
        uris: Iterable[str] = (),
        meta: Optional[Mapping[str, Json]] = None,
        *,
        held: bool = False,
    ) -> None:
        self.post = post
        self._held = held
        self._lock = threading.RLock()
        self.lists = tuple(lists)
        self.uris = by_normalized(uris)
        # Subscriptions that extensions define: members of the filter, each with a key.
        self.extended: set[tuple[str, str]] = set()
        self.bytes = sum(map(_bytes_of, self.uris.values()))
        self._meta = {} if meta is None else {"_meta": dict(meta)}
        # The queued notifications, by subject.
        self.unsent: dict[object, bytes] = {}
        # The number of the newest message of the processes' log that this session was notified of;
        # `PAUSED` while it is not notified.
        self.reached: float = 0

    def list_changed(self, kind: str) -> None:
        """Notify the client that a list has changed, if it subscribed to that."""
        if kind in self.lists:
            self.notify(kind, f"notifications/{kind}/list_changed", {})

    def resource_updated(self, uri: str) -> None:
        """Notify the client that a resource has changed, if it subscribed to that."""
        subscribed = covering(self.uris, uri)
        if subscribed is not None:
            changed = uri
            if len(self.unsent) >= MAX_URIS or normalize_uri(subscribed) == normalize_uri(uri):
                # The client may compare the URI with the one that it subscribed to. If too many
                # notifications are queued, one notification covers a whole collection.
                changed = subscribed
            params: dict[str, Json] = {"uri": changed}
            self.notify(("resource", changed), "notifications/resources/updated", params)

    def notify(
        self, subject: object, method: str, params: dict[str, Json], *, newest: bool = False
    ) -> None:
        """Queue a notification, unless one about the same subject is queued.

        Args:
            subject: The subject of the notification.
            method: The method of the notification.
            params: The params of the notification.
            newest: Whether this notification replaces a queued one, because it has newer data.
        """
        with self._lock:
            is_queued = subject in self.unsent
            if is_queued and not newest:
                return
            is_first = not self.unsent and not self._held
            self.unsent[subject] = encode(Notification(method, {**params, **self._meta}))
        if is_first:
            self.post(self._take)

    def release(self) -> None:
        """Send the notifications that were held back, and send later ones at once."""
        with self._lock:
            is_first = self._held and bool(self.unsent)
            self._held = False
        if is_first:
            self.post(self._take)

    def _take(self) -> Optional[bytes]:
        with self._lock:
            unsent = self.unsent
            self.unsent = {}
        return b"".join(unsent.values()) or None


# A method of `Subscriber` and its argument.
Change = tuple[Callable[[Any, str], None], str]

# Returns whether a change is hidden from the caller of a request.
Hides = Callable[[IncomingRequest], bool]

# The value of `Subscriber.reached` while a session is paused.
PAUSED = math.inf

# The number of a change in this process, which is newer than the log.
NEWEST = math.inf


def _changes(messages: Iterable[Mapping[str, Json]]) -> list[Change]:
    """Return the changes that messages of other processes report."""
    methods = {"list": Subscriber.list_changed, "resource": Subscriber.resource_updated}
    return [
        (notify, message[name])
        for message in messages
        for name, notify in methods.items()
        if isinstance(message.get(name), str)
    ]


class Subscriptions(Feature):
    """All sessions and streams of one server that subscribe to changes. Thread-safe.

    Args:
        registry: The server's registry.
        offered: Returns whether a kind ("tools") is offered; None means the answer of the registry.
    """

    def __init__(self, registry: Registry, offered: Optional[Callable[[str], bool]] = None) -> None:
        self._config = registry.config
        self.is_offered = registry.offers if offered is None else offered
        if self._config.processes is not None:
            self._config.processes.receivers.add(self)
        self._sessions: dict[Peer, Subscriber] = {}
        self._streams: dict[IncomingRequest, Subscriber] = {}
        # Held while subscribers are notified of a change and while one is added, so that a new one
        # either receives the whole change or none of it. Reentrant, because a signal handler may
        # report a change while its thread holds the lock.
        self._order_lock = threading.RLock()

    def routes(self) -> Mapping[str, Destination]:
        """Return the route of `subscriptions/listen`."""
        return {LISTEN: Route(self.listen, immediate=True)}

    # ------------------------------------------------------------ changes

    def list_changed(self, kind: str, entry: Any = None) -> None:
        """Notify the subscribers of a list, here and in other processes, that it has changed.

        Args:
            kind: The kind of list.
            entry: The entry that was added or removed. Clients of this process from which it is
                hidden are not notified. If None, all are notified.
        """
        processes = self._config.processes
        hides = None if entry is None or not entry.hidden_by else entry.is_hidden
        seeing = self._seeing(hides)
        with self._order_lock:  # `resume` runs before both steps or after both
            # Entries that are registered before the processes start exist in all of them.
            if processes is not None and processes.started:
                processes.broadcast(list=kind)
            self._notify_all(Subscriber.list_changed, kind, seeing=seeing)

    def resource_updated(self, uri: str) -> None:
        """Notify the subscribers of a resource, here and in other processes, that it has
        changed."""
        seeing = self._seeing(self._hides(Subscriber.resource_updated, uri))
        with self._order_lock:  # as above
            if self._config.processes is not None:
                self._config.processes.broadcast(resource=uri)
            self._notify_all(Subscriber.resource_updated, uri, seeing=seeing)

    def _hides(self, notify: Callable[[Any, str], None], name: str) -> Optional[Hides]:
        """Return a function that determines whether a change is hidden from a request's caller.

        None means that it is hidden from nobody. If a list changed in another process, only the
        kind of list is known.
        """
        features = self._config.features
        has_resources = any(each.capability == "resources" for each in features)
        if notify is not Subscriber.resource_updated or not has_resources:
            return None
        found: Optional[Hides] = self._config.feature("resources").hiding(name)
        return found

    def _seeing(self, hides: Optional[Hides]) -> Optional[set[Subscriber]]:
        """Return the subscribers from which a change is not hidden; None if they all see it.

        It calls functions of the author, so no lock is held.
        """
        if hides is None:
            return None
        probe = load("features.access").probe
        callers = [(each, stream) for stream, each in list(self._streams.items())]
        for peer, session in list(self._sessions.items()):
            callers.append((session, probe(self._config, peer)))
        return {each for each, incoming in callers if not hides(incoming)}

    def receive(self, message: Mapping[str, Json]) -> None:
        """Handle a message of another process, if it reports a change."""
        changes = _changes([message])
        if not changes:
            return
        processes = self._config.processes
        assert processes is not None
        number = processes.delivered
        seeing = [self._seeing(self._hides(*change)) for change in changes]
        with self._order_lock:
            for (notify, name), each in zip(changes, seeing):
                self._notify_all(notify, name, number, seeing=each)
            for session in list(self._sessions.values()):
                session.reached = max(session.reached, number)

    def _notify_all(
        self,
        notify: Callable[[Any, str], None],
        name: str,
        number: float = NEWEST,
        *,
        seeing: Optional[set[Subscriber]] = None,
    ) -> None:
        with self._order_lock:
            for session in list(self._sessions.values()):
                if session.reached < number and (seeing is None or session in seeing):
                    notify(session, name)
            for stream in list(self._streams.values()):
                if seeing is None or stream in seeing:
                    notify(stream, name)

    # ------------------------------------------------------------ sessions that move

    # A session that several processes share is notified only by the process that has its stream,
    # and only between `resume` and `pause`. Other changes are read from the log.

    def reached(self, peer: Peer) -> Optional[int]:
        """Return the number of the newest message of the log that a session was notified of.

        Returns None if the session is paused. Blocks while a change is delivered.
        """
        with self._order_lock:  # `receive` queues the notification before it changes this number
            session = self._sessions.get(peer)
            reached = PAUSED if session is None else session.reached
            return None if reached == PAUSED else int(reached)

    def pause(self, peer: Peer) -> Optional[int]:
        """Stop notifying a session until `resume`. Return the last result of `reached`."""
        with self._order_lock:
            reached = self.reached(peer)
            if reached is not None:
                self._sessions[peer].reached = PAUSED
            return reached

    def resume(self, peer: Peer, newest: int) -> tuple[int, Sequence[bytes]]:
        """Notify a session of changes from now on. Return where it must catch up to, as
        `Processes.now`.

        Args:
            peer: The client.
            newest: The number of the newest message of the log, or of one shortly before.
        """
        processes = self._config.processes
        assert processes is not None
        with self._order_lock:
            until, unsent = processes.now(newest)
            session = self._sessions.get(peer)
            if session is not None:
                session.reached = until
            return until, unsent

    def catch_up(self, peer: Peer, messages: Iterable[Mapping[str, Json]]) -> None:
        """Notify one session of the changes that happened while it was paused."""
        session = self._sessions.get(peer)
        if session is not None:
            for notify, name in _changes(messages):
                seeing = self._seeing(self._hides(notify, name))
                if seeing is None or session in seeing:
                    notify(session, name)

    # ------------------------------------------------------------ extensions

    def session(self, peer: Peer) -> Optional[Subscriber]:
        """Return the subscriptions of a client's session; None if it has no session."""
        return self._sessions.get(peer)

    def has_listener(self, member: str, key: str) -> bool:
        """Return whether an open stream has this key in this member of its filter."""
        return any((member, key) in stream.extended for stream in list(self._streams.values()))

    def notify_extension(
        self,
        capability: str,
        method: str,
        params: dict[str, Json],
        member: str,
        key: str,
        *,
        sessions: bool = True,
    ) -> None:
        """Notify the streams that listen to a key and the sessions with a capability. See
        `Extension.tell`."""
        with self._order_lock:
            subscribers = [
                stream
                for stream in list(self._streams.values())
                if (member, key) in stream.extended
            ]
            if sessions:
                subscribers += [
                    session
                    for peer, session in list(self._sessions.items())
                    if peer.supports(capability)
                ]
            for subscriber in subscribers:
                subscriber.notify((method, key), method, params, newest=True)

    # ------------------------------------------------------------ handshake sessions

    def opened(self, peer: Peer, session: OpenSession) -> None:
        """Start to notify a client of the lists that were declared to it, and of its resources."""
        is_held = not peer.initialized
        made = Subscriber(session.post, session.lists, session.uris, held=is_held)
        made.reached = PAUSED if session.is_paused else 0
        self._sessions[peer] = made

    def notified(self, notification: Notification, peer: Optional[Peer]) -> bool:
        """Send the notifications that were held back until the client was initialized."""
        if notification.method != "notifications/initialized" or peer is None:
            return False
        session = self._sessions.get(peer)
        if session is not None:
            session.release()
        return True

    def closed(self, peer: Peer) -> None:
        """Forget a session."""
        self._sessions.pop(peer, None)

    def draining(self, sink: Sink) -> None:
        """End the streams of a connection or response."""
        self.end_streams(sink)

    def uris(self, peer: Peer) -> list[str]:
        """Return the resources that a session has subscribed to."""
        session = self._sessions.get(peer)
        return [] if session is None else list(session.uris.values())

    def merge(self, peer: Peer, before: list[str], after: list[str]) -> None:
        """Apply a change of subscriptions that another process made. Changes that were made here
        remain."""
        session = self._sessions.get(peer)
        if session is not None:
            with self._order_lock:
                for uri in set(before).difference(after):
                    session.uris.pop(normalize_uri(uri), None)
                session.uris.update(by_normalized(sorted(set(after).difference(before))))
                session.bytes = sum(map(_bytes_of, session.uris.values()))

    def subscribe(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Serve `resources/subscribe`."""
        uri, session = self._subscribed(incoming)
        with self._order_lock:
            if normalize_uri(uri) not in session.uris:
                if len(session.uris) >= MAX_URIS:
                    raise InternalError(f"a session cannot have more than {MAX_URIS} subscriptions")
                self._check_room(session.bytes, _bytes_of(uri))
                session.uris[normalize_uri(uri)] = uri
                session.bytes += _bytes_of(uri)
        return {}

    def _check_room(self, held: int, more: int) -> None:
        """Raise `InternalError` if a session or stream with `held` bytes must not have `more`
        bytes."""
        subscribers = (*self._sessions.values(), *self._streams.values())
        if (
            held + more > MAX_SUBSCRIBER_BYTES
            or more + sum(each.bytes for each in subscribers) > MAX_SERVER_BYTES
        ):
            raise InternalError(
                "the memory for subscriptions is full: subscribe to fewer or shorter URIs"
            )

    def unsubscribe(self, incoming: IncomingRequest) -> dict[str, Json]:
        """Serve `resources/unsubscribe`."""
        uri, session = self._subscribed(incoming)
        with self._order_lock:
            subscribed = session.uris.pop(normalize_uri(uri), None)
            if subscribed is not None:
                session.bytes -= _bytes_of(subscribed)
        return {}

    def _subscribed(self, incoming: IncomingRequest) -> tuple[str, Subscriber]:
        uri = incoming.request.params.get("uri")
        if not isinstance(uri, str) or not uri:
            raise InvalidParams("uri must be a string that is not empty")
        session = self._sessions.get(incoming.peer)
        if session is None:
            raise InternalError("the session has ended")
        return uri, session

    # ------------------------------------------------------------ streams

    def listen(self, incoming: IncomingRequest) -> Any:
        """Serve `subscriptions/listen`: acknowledge the filter, then send changes until the stream
        ends.

        Raises:
            InvalidParams: ``notifications`` is missing or invalid.
            InvalidRequest: The request's id is too long.
            InternalError: There are too many streams or subscriptions.
        """
        if len(str(incoming.request.id)) > MAX_ID_CHARACTERS:
            raise InvalidRequest(
                "the id of a request that opens a stream must have at most"
                f" {MAX_ID_CHARACTERS} characters"
            )
        accepted = self._accepted(incoming.request.params.get("notifications"))
        meta = {SUBSCRIPTION_KEY: incoming.request.id}
        lists = [kind for kind, member in LISTS.items() if member in accepted]
        uris = accepted.get("resourceSubscriptions", ())
        stream = Subscriber(incoming.sink.post, lists, uris, meta)
        wanted = incoming.request.params["notifications"]
        for feature in list(self._config.features):
            for member in feature.filters:
                if wanted.get(member) not in (None, False):
                    keys = feature.listened(member, wanted[member], incoming)
                    stream.extended.update((member, key) for key in keys)
                    stream.bytes += sum(map(_bytes_of, (*keys, *keys.values())))
                    accepted[member] = True if wanted[member] is True else list(keys.values())
        if self._config.processes is not None:
            self._config.processes.follow()  # before the client may rely on notifications
        most = self._config.limits.streams
        # Under the lock, so that every change after the acknowledgement is sent on this stream.
        with self._order_lock:
            if most is not None and len(self._streams) >= most:
                raise InternalError(f"at most {most} streams may be open (Limits.streams)")
            self._check_room(0, stream.bytes)
            stream.notify("acknowledged", ACKNOWLEDGED, {"notifications": accepted})
            self._streams[incoming] = stream
        # Release the memory of the params, because the stream may stay open for days.
        incoming.request.params.clear()
        incoming.progress_token = None
        incoming.token.on_cancel(lambda: self._streams.pop(incoming, None))
        if incoming.token.cancelled:  # the server ended its streams before this one was added
            raise Cancelled(incoming.token.reason or "")
        return DEFERRED

    def _accepted(self, wanted: Json) -> dict[str, Json]:
        """Return the part of a filter that this server serves."""
        if not isinstance(wanted, dict):
            raise InvalidParams("notifications must be an object with the subscriptions")
        for member in LISTS.values():
            if not isinstance(wanted.get(member), (bool, type(None))):
                raise InvalidParams(f"{member} must be true or false")
        accepted: dict[str, Json] = {
            member: True
            for kind, member in LISTS.items()
            if wanted.get(member) and self.is_offered(kind)
        }
        uris = wanted.get("resourceSubscriptions")
        if uris is None:
            uris = []
        if (
            not isinstance(uris, list)
            or not all(isinstance(uri, str) for uri in uris)
            or len(uris) > MAX_URIS
        ):
            raise InvalidParams(f"resourceSubscriptions must be a list of at most {MAX_URIS} URIs")
        if uris and self.is_offered("resources"):
            accepted["resourceSubscriptions"] = uris
        return accepted

    def end_streams(self, sink: Optional[Sink] = None) -> None:
        """End streams in order: send queued notifications, then the response of the request.

        Args:
            sink: The connection or response of the streams; None means all streams.
        """
        for incoming in list(self._streams):
            if sink is not None and incoming.sink is not sink:
                continue
            self._streams.pop(incoming, None)
            id = incoming.request.id
            result = self._config.finalize_result(
                {"_meta": {SUBSCRIPTION_KEY: id}}, incoming.peer.revision
            )
            closing = incoming.sink.closing_message(id)
            if (
                incoming.sink.respond(incoming, encode(Response(id, result)), False)
                and closing is not None
            ):
                incoming.sink.post(closing)
