"""Change notifications: who wants which, and how they get there without keeping whoever causes
them.

A handshake session hears of every list that changes and of the resources it subscribed to; where
requests stand alone a client opens a stream with `subscriptions/listen`, a request whose answer
comes when the stream ends.
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
from ..server.feature import Destination, Feature

if TYPE_CHECKING:
    from ..server.feature import OpenSession
    from ..server.registry import Registry

# Resources that one session or stream may subscribe to, and notifications that may wait for a slow
# client; when so many wait a change within a collection is told as a change of the collection, so
# that there is one more of each at most.
MAX_URIS = 10_000

# Bytes of memory for all subscriptions of one session or stream, and of one server.
SUBSCRIBED_BYTES = 8 * 1024 * 1024
ALL_BYTES = 32 * 1024 * 1024

# Characters or digits of the longest id of a request that opens a stream: each notification there
# repeats it.
ID_CHARACTERS = 256


def _bytes_of(uri: str) -> int:
    """Return the memory of one subscription.

    That is its URI, also normalized, its entry, and the notification that may wait for a slow
    client.
    """
    normalized = normalize_uri(uri)
    copies = 2 * sys.getsizeof(uri) + (0 if normalized is uri else sys.getsizeof(normalized))
    return copies + 400


class Subscriber:
    """What one client wants to hear of. While it does not read, each change waits for it once.
    Thread-safe.

    No method waits for the client.

    Args:
        post: Has a line made and written when the client takes it.
        lists: Kinds of lists.
        uris: Resources; one below them counts too.
        meta: The ``_meta`` of every notification; None sends none.
        held: Whether everything waits until `release`.
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
        # What of extensions it listens to: the members of the filter, each with a key.
        self.extended: set[tuple[str, str]] = set()
        self.bytes = sum(map(_bytes_of, self.uris.values()))
        self._meta = {} if meta is None else {"_meta": dict(meta)}
        # What is not sent yet, by what it tells of.
        self.unsent: dict[object, bytes] = {}
        # The number of the newest message of the processes' log that this one was notified of;
        # `PAUSED` if it is notified of nothing now.
        self.reached: float = 0

    def list_changed(self, kind: str) -> None:
        """A list has changed."""
        if kind in self.lists:
            self.tell(kind, f"notifications/{kind}/list_changed", {})

    def resource_updated(self, uri: str) -> None:
        """A resource has changed."""
        subscribed = covering(self.uris, uri)
        if subscribed is not None:
            told = uri
            if len(self.unsent) >= MAX_URIS or normalize_uri(subscribed) == normalize_uri(uri):
                # The client may compare it with what it subscribed to. With too much unsent, one
                # notification stands for a whole collection.
                told = subscribed
            self.tell(("resource", told), "notifications/resources/updated", {"uri": told})

    def tell(
        self, what: object, method: str, params: dict[str, Json], *, newest: bool = False
    ) -> None:
        """Have a notification sent, unless one about the same waits: who hears of that later looks
        later.

        Args:
            what: What it is about.
            method: Of the notification.
            params: Of the notification.
            newest: Whether it takes the place of one that waits, because it says more.
        """
        with self._lock:
            if what in self.unsent:
                if newest:
                    self.unsent[what] = encode(Notification(method, {**params, **self._meta}))
                return
            first = not self.unsent and not self._held
            self.unsent[what] = encode(Notification(method, {**params, **self._meta}))
        if first:
            self.post(self._take)

    def release(self) -> None:
        """From now on notifications are sent; those that were held are sent now."""
        with self._lock:
            first = self._held and bool(self.unsent)
            self._held = False
        if first:
            self.post(self._take)

    def _take(self) -> Optional[bytes]:
        with self._lock:
            unsent = self.unsent
            self.unsent = {}
        return b"".join(unsent.values()) or None


Tell = Callable[[Any, str], None]

# As `Subscriber.reached`, and as the number of a change of this process: it is newer than the log.
PAUSED = NEWEST = math.inf


def _changes(told: Iterable[Mapping[str, Json]]) -> list[tuple[Tell, str]]:
    """The changes that other processes have told of."""
    kinds: tuple[tuple[str, Tell], ...] = (
        ("list", Subscriber.list_changed),
        ("resource", Subscriber.resource_updated),
    )
    return [
        (tell, each[name])
        for each in told
        for name, tell in kinds
        if isinstance(each.get(name), str)
    ]


class Subscriptions(Feature):
    """All sessions and streams of one server that want to hear of changes. Thread-safe.

    Args:
        registry: The server's registry.
        offered: Returns whether a kind ("tools") is offered; None asks the registry.
    """

    def __init__(self, registry: Registry, offered: Optional[Callable[[str], bool]] = None) -> None:
        self._config = registry.config
        self._offered = registry.offers if offered is None else offered
        if self._config.processes is not None:
            self._config.processes.receivers.add(self)
        self._sessions: dict[Peer, Subscriber] = {}
        self._streams: dict[IncomingRequest, Subscriber] = {}
        # Held while several clients are told of one thing, and while one is added: it hears of
        # that, or begins behind it. A signal handler may tell something in the midst of another
        # thing.
        self._order_lock = threading.RLock()

    def routes(self) -> Mapping[str, Destination]:
        """Return the method that opens a stream."""
        return {LISTEN: Route(self.listen, immediate=True)}

    # ------------------------------------------------------------ what changed

    def list_changed(self, kind: str) -> None:
        """Tell everybody who wants to know that a list has changed, if lists of this kind are
        declared at all."""
        processes = self._config.processes
        with self._order_lock:  # `resume` falls before both steps or behind both
            # What is registered before the processes start is registered in all of them.
            if processes is not None and processes.started:
                processes.tell(list=kind)
            self._tell(Subscriber.list_changed, kind)

    def resource_updated(self, uri: str) -> None:
        """Tell those who subscribed to a resource that it has changed."""
        with self._order_lock:  # as above
            if self._config.processes is not None:
                self._config.processes.tell(resource=uri)
            self._tell(Subscriber.resource_updated, uri)

    def hear(self, told: Mapping[str, Json]) -> None:
        """Another process has told of a change, or of something else."""
        changes = _changes([told])
        if not changes:
            return
        processes = self._config.processes
        assert processes is not None
        number = processes.handed
        with self._order_lock:
            for tell, what in changes:
                self._tell(tell, what, number)
            for session in list(self._sessions.values()):
                session.reached = max(session.reached, number)

    def _tell(self, tell: Tell, what: str, number: float = NEWEST) -> None:
        with self._order_lock:
            for session in list(self._sessions.values()):
                if session.reached < number:
                    tell(session, what)
            for stream in list(self._streams.values()):
                tell(stream, what)

    # ------------------------------------------------------------ sessions that move

    # A session that several processes share is notified of changes only by the process that has its
    # stream, and there only between `resume` and `pause`. What changes meanwhile is in the log.

    def reached(self, peer: Peer) -> Optional[int]:
        """Return the number of the newest message of the log that a session was notified of, or
        None if it is paused. Blocks while a change is passed on."""
        with self._order_lock:  # `hear` adds the notification before it changes this number
            session = self._sessions.get(peer)
            reached = PAUSED if session is None else session.reached
            return None if reached == PAUSED else int(reached)

    def pause(self, peer: Peer) -> Optional[int]:
        """Notify a session of no change until `resume`. Return what `reached` returned before."""
        with self._order_lock:
            reached = self.reached(peer)
            if reached is not None:
                self._sessions[peer].reached = PAUSED
            return reached

    def resume(self, peer: Peer, newest: int) -> tuple[int, Sequence[bytes]]:
        """Notify a session of changes from now on. Return up to where it has to catch up, as
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

    def catch_up(self, peer: Peer, told: Iterable[Mapping[str, Json]]) -> None:
        """Notify one session of what has changed while it was paused."""
        session = self._sessions.get(peer)
        for tell, what in _changes(told) if session is not None else ():
            tell(session, what)

    # ------------------------------------------------------------ extensions

    def session(self, peer: Peer) -> Optional[Subscriber]:
        """The handshake session of a client; None when it has ended, or there is none."""
        return self._sessions.get(peer)

    def listens(self, member: str, key: str) -> bool:
        """Whether a stream is open that listens to this key by this member of its filter."""
        return any((member, key) in stream.extended for stream in list(self._streams.values()))

    def extension_tells(
        self,
        capability: str,
        method: str,
        params: dict[str, Json],
        member: str,
        key: str,
        *,
        sessions: bool = True,
    ) -> None:
        """Tell the streams that listen to a key, and the sessions that declared the capability, as
        `Extension.tell`."""
        with self._order_lock:
            told = [
                stream
                for stream in list(self._streams.values())
                if (member, key) in stream.extended
            ]
            if sessions:
                told += [
                    session
                    for peer, session in list(self._sessions.items())
                    if peer.supports(capability)
                ]
            for subscriber in told:
                subscriber.tell((method, key), method, params, newest=True)

    # ------------------------------------------------------------ handshake sessions

    def opened(self, peer: Peer, session: OpenSession) -> None:
        """Notify a client from now on: of the lists that were declared to it, and of the resources
        to which it has subscribed."""
        is_held = not peer.initialized
        made = Subscriber(session.post, session.lists, session.uris, held=is_held)
        made.reached = PAUSED if session.is_paused else 0
        self._sessions[peer] = made

    def notified(self, notification: Notification, peer: Optional[Peer]) -> bool:
        """Send a client the notifications that were held until it was initialized."""
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
        """What a session has subscribed to."""
        session = self._sessions.get(peer)
        return [] if session is None else list(session.uris.values())

    def merge(self, peer: Peer, before: list[str], after: list[str]) -> None:
        """Another process has changed that from the one to the other; what was changed here
        meanwhile stays."""
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
                    raise InternalError(f"there are {MAX_URIS} subscriptions already")
                self._check_room(session.bytes, _bytes_of(uri))
                session.uris[normalize_uri(uri)] = uri
                session.bytes += _bytes_of(uri)
        return {}

    def _check_room(self, held: int, more: int) -> None:
        """Return if a session or stream that holds so many bytes may hold more. Raises
        InternalError: it may not."""
        subscribers = (*self._sessions.values(), *self._streams.values())
        if (
            held + more > SUBSCRIBED_BYTES
            or more + sum(each.bytes for each in subscribers) > ALL_BYTES
        ):
            raise InternalError(
                "no more memory is given to subscriptions: subscribe to fewer or shorter URIs"
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
            raise InvalidParams("uri is a string")
        session = self._sessions.get(incoming.peer)
        if session is None:
            raise InternalError("the session has ended")
        return uri, session

    # ------------------------------------------------------------ streams

    def listen(self, incoming: IncomingRequest) -> Any:
        """Serve `subscriptions/listen`: say what is honoured, then every change, until either side
        ends it.

        Raises:
            InvalidParams: ``notifications`` is missing or of the wrong kind.
            InvalidRequest: The id is too long.
            InternalError: Too many streams are open, or they listen to too much.
        """
        if len(str(incoming.request.id)) > ID_CHARACTERS:
            raise InvalidRequest(
                f"the id of a request that opens a stream has at most {ID_CHARACTERS} characters"
            )
        honoured = self._honoured(incoming.request.params.get("notifications"))
        meta = {SUBSCRIPTION_KEY: incoming.request.id}
        lists = [kind for kind, member in LISTS.items() if member in honoured]
        uris = honoured.get("resourceSubscriptions", ())
        stream = Subscriber(incoming.sink.post, lists, uris, meta)
        wanted = incoming.request.params["notifications"]
        for feature in list(self._config.features):
            for member in feature.filters:
                if wanted.get(member) not in (None, False):
                    keys = feature.listened(member, wanted[member], incoming)
                    stream.extended.update((member, key) for key in keys)
                    stream.bytes += sum(map(_bytes_of, (*keys, *keys.values())))
                    honoured[member] = True if wanted[member] is True else list(keys.values())
        if self._config.processes is not None:
            self._config.processes.follow()  # before the client knows that it hears of changes
        most = self._config.limits.streams
        with (
            self._order_lock
        ):  # what a client hears on another stream before this word, it need not hear here
            if most is not None and len(self._streams) >= most:
                raise InternalError(
                    f"no more than {most} streams may be open here (Limits.streams)"
                )
            self._check_room(0, stream.bytes)
            stream.tell("acknowledged", ACKNOWLEDGED, {"notifications": honoured})
            self._streams[incoming] = stream
        incoming.request.params.clear()  # nothing else of it is kept, for it may stay open for ever
        incoming.progress_token = None
        incoming.token.on_cancel(
            lambda: self._streams.pop(incoming, None)
        )  # before the reader reads on
        if (
            incoming.token.cancelled
        ):  # the server ended its streams just before this one was among them
            raise Cancelled(incoming.token.reason or "")
        return DEFERRED

    def _honoured(self, wanted: Json) -> dict[str, Json]:
        """What of a filter this server serves."""
        if not isinstance(wanted, dict):
            raise InvalidParams("notifications is an object that says what to listen to")
        for member in LISTS.values():
            if not isinstance(wanted.get(member), (bool, type(None))):
                raise InvalidParams(f"{member} is true or false")
        honoured: dict[str, Json] = {
            member: True
            for kind, member in LISTS.items()
            if wanted.get(member) and self._offered(kind)
        }
        uris = (
            [] if wanted.get("resourceSubscriptions") is None else wanted["resourceSubscriptions"]
        )
        if (
            not isinstance(uris, list)
            or not all(isinstance(uri, str) for uri in uris)
            or len(uris) > MAX_URIS
        ):
            raise InvalidParams(f"resourceSubscriptions is a list of at most {MAX_URIS} URIs")
        if uris and self._offered("resources"):
            honoured["resourceSubscriptions"] = uris
        return honoured

    def end_streams(self, sink: Optional[Sink] = None) -> None:
        """End streams politely: what waits is sent, then the answer of the request that opened the
        stream.

        Args:
            sink: Whose streams; None ends all.
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
