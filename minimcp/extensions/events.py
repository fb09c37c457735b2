"""`Events`: a server's event types, which clients poll, stream or receive by webhook.

The extension is a draft (SEP-3415). `event_log` has the types and their log, and
`webhook_delivery` the deliveries by HTTP.

At most one step of notifications waits for the client of a stream. The next step is read from the
log when the client has taken it, so a slow client costs no memory.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from ..engine.incoming import DEFERRED, IncomingRequest, Route
from ..engine.limits import check_number
from ..engine.pool import renewed_in_fork
from ..errors import InvalidParams, InvalidRequest, MethodNotFound, Refused
from ..features.subscriptions import MAX_ID_CHARACTERS
from ..log import logger
from ..protocol.lifecycle import SUBSCRIPTION_KEY, Peer
from ..protocol.messages import Json, Notification, Response, encode, to_json
from ..protocol.versions import Revision
from ..schema.mismatch import plain_json
from ..server.context import Context
from ..server.feature import Destination
from ..stores.base import MemoryStore, store_key
from ..stores.watcher import Watcher
from ..text import describe
from .event_log import (
    PAGE_EVENTS,
    Caller,
    EventKind,
    EventLog,
    EventReader,
    LoggedKind,
    Reading,
    SourceKind,
    canonical,
)
from .event_types import (
    ACTIVE,
    CODES,
    ERROR,
    EVENT,
    HEARTBEAT,
    IDENTIFIER,
    LIST,
    LIST_CHANGED,
    LIST_FILTER,
    MODES,
    POLL,
    STREAM,
    SUBSCRIBE,
    TERMINATED,
    TOP_LEVEL,
    UNSUBSCRIBE,
    EventError,
    Occurrence,
)
from .extension import Extension, cursor_at, position_of

if TYPE_CHECKING:
    from ..engine.incoming import Sink
    from .webhooks import Webhooks

log = logger("minimcp.events")

F = TypeVar("F", bound=Callable[..., Any])

# Maximum length of a subscription's arguments in JSON, because the server keeps them, and of a
# cursor.
MAX_ARGUMENTS = 16 * 1024
MAX_CURSOR = 4096

# Bytes of the cursor that a delivery adds to an occurrence.
CURSOR_BYTES = 64

# Maximum seconds between two scans of the streams.
LOOK_SECONDS = 1.0

# The options that are numbers, and whether each must be an integer.
_NUMBERS = {
    "keep": True,
    "keep_seconds": False,
    "poll_seconds": False,
    "heartbeat": False,
    "streams": True,
    "per_client": True,
    "subscriptions": True,
    "payload_bytes": True,
    "queue_bytes": True,
    "recheck": False,
}


class Events(Extension):
    """Events that clients watch: ``Server("x", extensions=[Events()])``.

    Register types with `type` or `source`, and report occurrences with `emit`. Clients poll, or
    keep a stream open, or receive webhooks. Occurrences are logged in the store of the server, so
    that clients can continue after a pause. (`EventStore` is something else: it resumes the broken
    HTTP stream of a session.) One object serves one server. Thread-safe.

    Args:
        webhooks: How to deliver by HTTP; None means no webhooks. They need ``Server(auth=)``.
        keep: Maximum number of occurrences of a type in the log.
        keep_seconds: Maximum age of an occurrence in the log.
        poll_seconds: Seconds that clients should wait between two polls.
        heartbeat: Seconds of silence after which a stream gets a heartbeat, at most 30.
        streams: Maximum number of open streams.
        per_client: Maximum number of streams, and of webhook subscriptions, of one client.
        subscriptions: Maximum number of webhook subscriptions of all clients.
        payload_bytes: Maximum size of an occurrence in JSON.
        queue_bytes: Maximum size of the occurrences that wait for webhooks. One client may use at
            most the fraction `Limits.client_share` of it.
        allow: Called with a `Context`, the name of a type and the arguments, before a subscription
            begins and every `recheck` seconds. It raises `Refused` to reject the client. For a
            webhook, the context has only ``auth``. If None, all are allowed.
        recheck: Seconds between two calls of `allow` for one subscription.
        on_begin: Called with a name and arguments when their first stream or webhook begins. Polls
            do not count, because the server stores nothing for them.
        on_end: The same when the last one ends.
        codes: The error codes: "sketch", as hosts expect today, or "sep".
        top_level: Whether to declare the capability at the top level, too.
        handshake: Whether to serve lists, polls and webhooks in revisions with a handshake.

    Raises:
        TypeError, ValueError: An argument has a wrong type or value.

    A page of the documentation explains events: examples/events.rst.
    """

    identifier = IDENTIFIER
    settings = {"listChanged": True}
    filters = (LIST_FILTER,)

    def __init__(
        self,
        *,
        webhooks: Optional[Webhooks] = None,
        keep: int = 1000,
        keep_seconds: float = 86400,
        poll_seconds: float = 5,
        heartbeat: float = 10,
        streams: int = 1000,
        per_client: int = 100,
        subscriptions: int = 10_000,
        payload_bytes: int = 256 * 1024,
        queue_bytes: int = 16 * 1024 * 1024,
        allow: Optional[Callable[[Any, str, Mapping[str, Json]], object]] = None,
        recheck: float = 300,
        on_begin: Optional[Callable[[str, Mapping[str, Json]], object]] = None,
        on_end: Optional[Callable[[str, Mapping[str, Json]], object]] = None,
        codes: str = "sketch",
        top_level: bool = True,
        handshake: bool = False,
    ) -> None:
        given = locals()
        for name, whole in _NUMBERS.items():
            least = 1 if whole else 0.001
            check_number(name, given[name], least=least, whole=whole, optional=False)
        if heartbeat > 30:
            raise ValueError("heartbeat must be at most 30 seconds")
        if codes not in CODES:
            raise ValueError(f"codes must be one of {', '.join(CODES)}, not {codes!r:.60}")
        for name in ("allow", "on_begin", "on_end"):
            if given[name] is not None and not callable(given[name]):
                raise TypeError(f"{name} must be a function or None")
        self.limits: Mapping[str, Any] = {name: given[name] for name in _NUMBERS}
        self.codes = codes
        self._webhooks = webhooks
        self._allow = allow
        self._hooks = (on_begin, on_end)
        self._top_level = top_level
        self._handshake = handshake
        self._kinds: dict[str, EventKind] = {}
        self.deliverer: Any = None
        self.is_closed = False
        # Returns the seconds since 1970.
        self.clock = time.time
        self.renew_in_fork()

    def renew_in_fork(self) -> None:
        """Forget the streams, which belong to the parent process."""
        self._lock = threading.RLock()
        self.open_streams: list[PushStream] = []
        # How many streams and webhooks each name with arguments has.
        self._begun: dict[tuple[str, str], int] = {}
        for kind in self._kinds.values() if self.server is not None else ():
            self._attach(kind)  # another thread may have held the lock of a log

    def install(self, server: Any) -> None:
        """Join a server; see `Extension.install`."""
        super().install(server)
        self.store = MemoryStore() if self._config.store is None else self._config.store
        renewed_in_fork.add(self)
        self.watcher = Watcher(
            self.store,
            "minimcp-events",
            lambda: not self.open_streams,
            self._positions,
            self._look,
            min(LOOK_SECONDS, self.limits["heartbeat"] / 4),
        )
        for kind in self._kinds.values():
            self._attach(kind)
        if self._webhooks is not None:
            from .webhook_delivery import Deliverer

            self.deliverer = Deliverer(self, self._webhooks)

    def _key(self, kind: str, *parts: str) -> str:
        """Return a key of the store, see `store_key`."""
        config = self._config
        return store_key(config.audience, str(config.info["name"]), kind, *parts)

    # ------------------------------------------------------------ types

    def type(
        self,
        name: str,
        *,
        description: Optional[str] = None,
        delivery: Optional[Sequence[str]] = None,
        meta: Optional[Mapping[str, Json]] = None,
    ) -> Callable[[F], F]:
        """Register an event type. The decorated function is its filter.

        The first parameter of the filter is the payload, the others are the arguments of a
        subscription. It returns True to send the payload, False or None to skip it, or a smaller
        payload to send instead. It runs for each subscription, on several threads.

        Args:
            name: The name of the type. Later, only extend its schemas: a breaking change needs
                another name.
            description: Its description; None means the docstring.
            delivery: The modes: "poll", "push", "webhook"; None means every possible mode.
            meta: Its ``_meta``; None for none.

        Raises:
            TypeError: The payload is not an object, or the function cannot be a filter.
            ValueError: The name is taken, or a mode is unknown.
        """
        return partial(self._register, partial(LoggedKind, name), description, delivery, meta)

    def source(
        self,
        name: str,
        *,
        every: float = 30,
        description: Optional[str] = None,
        delivery: Optional[Sequence[str]] = None,
        meta: Optional[Mapping[str, Json]] = None,
    ) -> Callable[[F], F]:
        """Register an event type that has its own log, such as a mailbox.

        The decorated function takes a cursor, and the arguments of a subscription. It returns an
        `EventBatch` of the events after the cursor; for None, the current position and no events.

        Args:
            name, description, delivery, meta: As for `type`.
            every: Seconds between two calls with the same cursor and arguments.

        Raises:
            TypeError, ValueError: As for `type`.
        """
        check_number("every", every, least=0.001, whole=False, optional=False)
        return partial(
            self._register, partial(SourceKind, every, name), description, delivery, meta
        )

    def _register(
        self,
        make: Callable[..., EventKind],
        description: Optional[str],
        delivery: Optional[Sequence[str]],
        meta: Optional[Mapping[str, Json]],
        function: F,
    ) -> F:
        if delivery is not None and (not delivery or not set(delivery) <= set(MODES)):
            raise ValueError(f"delivery must contain only {', '.join(MODES)}")
        given = None if meta is None else plain_json(meta, "meta")
        kind = make(function, description, delivery, given)
        with self._lock:
            if kind.name in self._kinds:
                raise ValueError(f"{kind.owner} already exists")
            if self.server is not None:
                self._attach(kind)
            self._kinds[kind.name] = kind
        self._list_changed()
        return function

    def _attach(self, kind: EventKind) -> None:
        kind.log = EventLog(
            self.store,
            self._key("events", kind.name),
            self.limits["keep"],
            self.limits["keep_seconds"],
        )

    def remove(self, name: str) -> None:
        """Withdraw a type, and end its subscriptions. Raises KeyError if it is unknown."""
        kind = self._kinds.pop(name)
        self.terminate(name, self._error("NotFound", f"{kind.owner} was removed", kind="event"))
        self._list_changed()

    def _list_changed(self) -> None:
        if self.server is not None:
            name = f"ext:{IDENTIFIER}"
            self.subscriptions.notify_extension(
                name, LIST_CHANGED, {}, LIST_FILTER, "", sessions=self._handshake
            )

    def _modes_of(self, kind: EventKind) -> list[str]:
        """Return the modes of a type."""
        possible = ["poll", "push"]
        if self._webhooks is not None and self._config.auth is not None:
            possible.append("webhook")
        return [mode for mode in kind.delivery or possible if mode in possible]

    def _kind_of(self, name: Any) -> EventKind:
        """Return a type. Raises `EventError` if it is unknown."""
        found = self._kinds.get(name) if isinstance(name, str) else None
        if found is None:
            raise self._error("NotFound", "there is no such event type", kind="event")
        return found

    def _all_kinds(self) -> list[EventKind]:
        """Return all types."""
        return list(self._kinds.values())

    def _error(self, kind: str, message: str, /, **data: Json) -> EventError:
        """Return an error with the code that `codes` chooses."""
        return EventError(kind, message, data or None, self.codes)

    # ------------------------------------------------------------ occurrences

    def emit(
        self,
        name: str,
        data: Any,
        *,
        id: Optional[str] = None,
        timestamp: Optional[datetime] = None,
        to: Union[str, Iterable[str], None] = None,
    ) -> str:
        """Log an occurrence, and wake the deliverers. Never waits for a client.

        Any thread may call it, in any process whose server has the same name and store.

        Args:
            name: The type.
            data: The payload.
            id: The stable id of the occurrence at its origin; if None, one is created.
            timestamp: When it occurred, an aware datetime; None means now.
            to: The subject of the clients that may receive it (``ctx.auth.subject``), or several;
                None means every client whose filter accepts it.

        Returns:
            The id.

        Raises:
            TypeError: The id is not a str.
            StoreUnavailable: The store of the server cannot be reached.
            ValueError: The type is unknown, the data does not match its schema, the timestamp has
                no time zone, or the occurrence is too long. Nothing is logged then.
            RuntimeError: The object does not belong to a server yet.
        """
        kind = self._kinds.get(name)
        if not isinstance(kind, LoggedKind):
            raise ValueError(f"there is no event type {name!r:.60} to emit")
        if self.server is None:
            raise RuntimeError("this object has no server: write Server(extensions=[events])")
        if not isinstance(id, (str, type(None))):
            raise TypeError(f"the id of an event must be a str, not {id!r:.60}")
        made = Occurrence(kind.check(data), id=id or f"evt_{token_hex(12)}", timestamp=timestamp)
        made.name = name
        wire = made.to_wire()
        size = len(to_json(wire).encode()) + CURSOR_BYTES
        if size > self.limits["payload_bytes"]:
            raise ValueError(
                f"the event has {size} bytes, more than {self.limits['payload_bytes']}"
            )
        subjects = [to] if isinstance(to, str) else to
        kind.log.append(wire, None if subjects is None else list(subjects), self.clock())
        if self.deliverer is not None:
            self.deliverer.watcher.start()
        return str(made.id)

    def terminate(self, id_or_name: str, error: Optional[EventError] = None) -> None:
        """End subscriptions, and notify their clients.

        Args:
            id_or_name: The id of a webhook subscription, or the name of a type.
            error: The reason; None means that the client is no longer allowed.
        """
        reason = error or self._error("Forbidden", "the server ended the subscription")
        for stream in list(self.open_streams):
            if stream.kind.name == id_or_name:
                stream.end(reason)
        if self.deliverer is not None:
            self.deliverer.terminate(id_or_name, reason)

    def close(self) -> None:
        """Stop delivering webhooks in this process. Idempotent."""
        self.is_closed = True
        if self.deliverer is not None:
            self.deliverer.close()

    def deliver_now(self) -> None:
        """Run everything that is due, and wait for it. For tests."""
        self._advance_streams(wait=True)
        if self.deliverer is not None:
            self.deliverer.run_now()

    # ------------------------------------------------------------ requests

    def declare(self, revision: Revision, principal: Optional[str]) -> Mapping[str, Json]:
        """Return the capabilities, see `Feature.declare`."""
        if revision.handshake and not self._handshake:
            return {}
        declared: dict[str, Json] = {"extensions": {IDENTIFIER: dict(self.settings)}}
        return {**declared, TOP_LEVEL: dict(self.settings)} if self._top_level else declared

    def routes(self) -> Mapping[str, Destination]:
        """Return the routes. Clients need not declare the extension."""
        handlers = {
            LIST: self._list,
            POLL: self._poll,
            STREAM: self._stream,
            SUBSCRIBE: self._subscribe,
            UNSUBSCRIBE: self._subscribe,
        }
        return {name: partial(self._find_route, name, each) for name, each in handlers.items()}

    def _find_route(
        self, method: str, handle: Any, params: Mapping[str, Json], peer: Peer
    ) -> Route:
        if peer.revision.handshake and (method == STREAM or not self._handshake):
            raise MethodNotFound(f"Method not found: {method}")
        return Route(handle)

    def listened(self, member: str, wanted: Json, incoming: IncomingRequest) -> Mapping[str, str]:
        """See `Feature.listened`. Clients need not declare the extension."""
        if wanted is not True:
            raise InvalidParams(f"{member} must be true or false")
        return {"": ""}

    def _list(self, incoming: IncomingRequest) -> dict[str, Json]:
        before = position_of(LIST, incoming.request.params)
        names = sorted(name for name in list(self._kinds) if name > before)
        size = self._config.page_size or len(names) or 1
        result: dict[str, Json] = {"events": [self._definition(name) for name in names[:size]]}
        if len(names) > size:
            result["nextCursor"] = cursor_at(LIST, names[size - 1])
        return self._finalized(result, incoming)

    def _definition(self, name: str) -> dict[str, Json]:
        kind = self._kinds[name]
        definition: dict[str, Json] = {
            "name": name,
            "description": kind.description or name,
            "delivery": self._modes_of(kind),
            "inputSchema": kind.input_schema,
            "payloadSchema": kind.payload_schema,
        }
        return definition if kind.meta is None else {**definition, "_meta": kind.meta}

    def _finalized(self, result: dict[str, Json], incoming: IncomingRequest) -> dict[str, Json]:
        """Return a result with the members that the revision requires."""
        finalized: dict[str, Json] = self._config.finalize_result(result, incoming.peer.revision)
        return finalized

    def _subscription(
        self, incoming: IncomingRequest, mode: str
    ) -> tuple[EventKind, dict[str, Json], dict[str, Any]]:
        """Return the type, the arguments and the values of a request.

        Raises:
            InvalidParams: A parameter is missing or invalid.
            EventError: The type is unknown, lacks the mode, or the client is not allowed.
        """
        params = incoming.request.params
        if not isinstance(params.get("name"), str):
            raise InvalidParams("name must be a string")
        kind = self._kind_of(params["name"])
        if mode not in self._modes_of(kind):
            message = f"{kind.owner} is not delivered by {mode}"
            raise self._error("Unsupported", message, feature="deliveryMode", value=mode)
        arguments = params.get("arguments")
        arguments = {} if arguments is None else arguments
        if len(to_json(arguments)) > MAX_ARGUMENTS:
            raise InvalidParams(f"arguments must have at most {MAX_ARGUMENTS} characters in JSON")
        values = kind.values(arguments)
        self._check_allowed(Context(incoming), kind.name, arguments)
        return kind, arguments, values

    def _check_allowed(self, context: Any, name: str, arguments: Mapping[str, Json]) -> None:
        """Raise `EventError` if the client may not receive these events."""
        if self._allow is not None:
            try:
                self._allow(context, name, arguments)
            except Refused as error:
                raise self._error("Forbidden", error.reason or "not allowed") from None

    def _begin_at(
        self, kind: EventKind, values: Mapping[str, Any], params: Mapping[str, Json]
    ) -> tuple[Any, bool]:
        """Return the position where a subscription begins, and whether there is a gap before it.

        Raises:
            InvalidParams: ``cursor`` or ``maxAgeMs`` is invalid.
        """
        cursor = params.get("cursor")
        if not isinstance(cursor, (str, type(None))):
            raise InvalidParams("cursor must be a string or null")
        if cursor is not None and len(cursor) > MAX_CURSOR:
            raise InvalidParams(f"cursor must have at most {MAX_CURSOR} characters")
        age = number_of(params, "maxAgeMs")
        since = None
        if age is not None and cursor is not None:
            with suppress(OverflowError, ValueError, OSError):  # older than every event
                since = datetime.fromtimestamp(self.clock() - age / 1000, timezone.utc)
        kind.refresh(self.clock())
        return kind.resume(values, cursor, since)

    def _caller_of(self, incoming: IncomingRequest) -> Caller:
        """Return the sender of a request."""
        auth = getattr(incoming.headers, "auth", None)
        return Caller(incoming.principal, None if auth is None else auth.subject)

    def _poll(self, incoming: IncomingRequest) -> dict[str, Json]:
        kind, _, values = self._subscription(incoming, "poll")
        params = incoming.request.params
        most = number_of(params, "maxEvents", least=1)
        position, gap = self._begin_at(kind, values, params)
        found = Reading([], position)  # without a cursor, a subscription begins after this moment
        if params.get("cursor") is not None:
            page = int(min(most or PAGE_EVENTS, PAGE_EVENTS))
            found = kind.read(position, self._caller_of(incoming), values, page)
        pause = kind.every or self.limits["poll_seconds"]
        result: dict[str, Json] = {
            "events": [event for _, event in found.events],
            "cursor": kind.cursor(found.position),
            "truncated": gap or found.gap is not None,
            "hasMore": found.more,
            "nextPollMs": round(pause * 1000),
        }
        return self._finalized(result, incoming)

    def _stream(self, incoming: IncomingRequest) -> Any:
        return PushStream.open(self, incoming)

    def _subscribe(self, incoming: IncomingRequest) -> dict[str, Json]:
        if self.deliverer is None:
            self._subscription(incoming, "webhook")  # raises
        answer = self.deliverer.subscribe
        if incoming.request.method == UNSUBSCRIBE:
            answer = self.deliverer.unsubscribe
        return self._finalized(answer(incoming), incoming)

    # ------------------------------------------------------------ hooks of subscriptions

    def _count(self, name: str, arguments: Mapping[str, Json], change: int) -> None:
        """Count a subscription that begins or ends, and call the author's function."""
        key = (name, canonical(arguments))
        with self._lock:
            before = self._begun.get(key, 0)
            self._begun[key] = before + change
            if not self._begun[key]:
                del self._begun[key]
        hook = self._hooks[change < 0]
        if hook is not None and 0 in (before, before + change):
            try:
                hook(name, arguments)
            except Exception as error:
                log.error("on_begin or on_end of %r failed", name, exc_info=error)

    # ------------------------------------------------------------ the thread of the streams

    def _look(self) -> None:
        try:
            self._advance_streams()
        except Exception:
            for stream in list(self.open_streams):
                stream.report(self._error("ResourceExhausted", "events are delayed"))
            raise

    def _positions(self) -> dict[str, int]:
        """Return the positions of the logs that streams read, by key."""
        logs = [stream.kind.log for stream in list(self.open_streams)]
        return {each.key: each.position for each in logs if each.position}

    def _advance_streams(self, *, wait: bool = False) -> None:
        streams = list(self.open_streams)
        now = self.clock()
        for kind in {stream.kind for stream in streams}:
            kind.refresh(now)
        for stream in streams:
            if wait:
                stream.advance()
            elif stream.is_due():
                self.server._pool.submit(stream.advance)

    def draining(self, sink: Sink) -> None:
        """End the streams of a connection or response."""
        for stream in list(self.open_streams):
            if stream.incoming.sink is sink:
                stream.end(None)


class PushStream:
    """One open stream. Thread-safe.

    Args:
        events: The extension.
        incoming: The request.
        arguments: The arguments as they were sent.
        reader: Reads its events.
    """

    def __init__(
        self,
        events: Events,
        incoming: IncomingRequest,
        arguments: Mapping[str, Json],
        reader: EventReader,
    ) -> None:
        self._events = events
        self.incoming = incoming
        self.kind = reader.kind
        self._arguments = arguments
        self._reader = reader
        self._context = Context(incoming)
        self._meta: dict[str, Json] = {"_meta": {SUBSCRIPTION_KEY: incoming.request.id}}
        self._sent_at = time.monotonic()
        self._checked_at = time.monotonic()
        self._lines: list[bytes] = []
        # Held while a step is read. `_lines` belongs to the thread that takes it.
        self._lock = threading.Lock()
        self._is_counted = False

    @classmethod
    def open(cls, events: Events, incoming: IncomingRequest) -> Any:
        """Open the stream of a request, and send its confirmation.

        Raises:
            InvalidParams, EventError: The subscription is invalid, or there are too many.
        """
        if len(str(incoming.request.id)) > MAX_ID_CHARACTERS:
            raise InvalidRequest(f"the id must have at most {MAX_ID_CHARACTERS} characters")
        kind, arguments, values = events._subscription(incoming, "push")
        position, gap = events._begin_at(kind, values, incoming.request.params)
        reader = EventReader(kind, values, events._caller_of(incoming), position)
        stream = cls(events, incoming, arguments, reader)
        with events._lock:
            others = [each for each in events.open_streams if each.client == stream.client]
            for name, count, most in (
                ("streams", len(events.open_streams), events.limits["streams"]),
                ("subscriptions", len(others), events.limits["per_client"]),
            ):
                if count >= most:
                    message = f"no more than {most} streams may be open"
                    raise events._error("ResourceExhausted", message, limit=name, max=most)
            events.open_streams.append(stream)
        incoming.token.on_cancel(stream._forget)
        incoming.request.params.clear()
        incoming.progress_token = None
        events._count(kind.name, arguments, 1)
        stream._is_counted = True
        if incoming.token.cancelled:
            stream._forget()
        stream._post(stream._line(ACTIVE, cursor=reader.cursor, truncated=gap))
        events.watcher.start()
        events.watcher.wake()
        return DEFERRED

    @property
    def client(self) -> object:
        """The client that the stream counts for: a principal, or a connection."""
        return self.incoming.principal or self.incoming.sink

    def _line(self, method: str, **params: Json) -> bytes:
        return encode(Notification(method, {**params, **self._meta}))

    def _post(self, *lines: bytes) -> None:
        """Queue lines, which the thread that writes to the client takes together."""
        is_first = not self._lines
        self._lines += lines
        if is_first:
            self.incoming.sink.post(self._take)

    def _take(self) -> Optional[bytes]:
        lines = self._lines
        self._lines = []
        self._sent_at = time.monotonic()
        if self.is_due():
            self._events.watcher.wake()
        return b"".join(lines)

    def is_due(self) -> bool:
        """Return whether `advance` may have something to do."""
        now = time.monotonic()
        log = getattr(self.kind, "log", None)
        is_read = log is not None and self._reader.position == log.position
        return not self._lines and (
            self._reader.has_more
            or not is_read
            or now - self._sent_at >= self._events.limits["heartbeat"]
            or now - self._checked_at >= self._events.limits["recheck"]
        )

    def advance(self) -> None:
        """Send the next events, or a heartbeat, unless the client has not taken the last ones."""
        if self._lines or not self._lock.acquire(blocking=False):
            return
        try:
            self._recheck()
            lines = self._next_lines()
            if not lines and time.monotonic() - self._sent_at >= self._events.limits["heartbeat"]:
                lines = [self._line(HEARTBEAT, cursor=self._reader.cursor)]
            if lines:
                self._post(*lines)
        except EventError as error:
            self.end(error)
        except Exception as error:
            log.error("%s failed: %s", self.kind.owner, describe(error), exc_info=error)
            self._reader.read_at = time.monotonic() + self._events.limits["heartbeat"]
            self.report(self._events._error("ResourceExhausted", "the events cannot be read now"))
        finally:
            self._lock.release()

    def _recheck(self) -> None:
        if time.monotonic() - self._checked_at >= self._events.limits["recheck"]:
            self._checked_at = time.monotonic()
            self._events._check_allowed(self._context, self.kind.name, self._arguments)

    def _next_lines(self) -> list[bytes]:
        found = self._reader.read(time.monotonic())
        lines = []
        if found.gap is not None:
            cursor = self.kind.cursor(found.gap)
            lines.append(self._line(ACTIVE, cursor=cursor, truncated=True))
        lines += [
            self._line(EVENT, **event, cursor=self.kind.cursor(position))
            for position, event in found.events
        ]
        if found.error:
            lines.append(self._error_line(self._events._error("ResourceExhausted", found.error)))
        return lines

    def _error_line(self, error: EventError, method: str = ERROR) -> bytes:
        return self._line(method, error=error.to_wire())

    def report(self, error: EventError) -> None:
        """Send an error, after which the stream continues. At most one waits for the client."""
        if not self._lines:
            self._post(self._error_line(error))

    def end(self, error: Optional[EventError]) -> None:
        """End the stream.

        Args:
            error: Why the subscription has ended; None if only the stream ends, and the client may
                open another one.
        """
        if not self._forget():
            return
        incoming = self.incoming
        if error is not None:
            incoming.sink.post(self._error_line(error, TERMINATED))
        result = self._events._finalized(dict(self._meta), incoming)
        incoming.sink.respond(incoming, encode(Response(incoming.request.id, result)), False)

    def _forget(self) -> bool:
        """Stop sending events. Return False if that was done before."""
        with self._events._lock:
            if self not in self._events.open_streams:
                return False
            self._events.open_streams.remove(self)
        if self._is_counted:
            self._events._count(self.kind.name, self._arguments, -1)
        return True


def number_of(params: Mapping[str, Json], name: str, least: float = 0) -> Optional[float]:
    """Return a number of a request; None without one.

    Raises:
        InvalidParams: It is not a number, or too small.
    """
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < least:
        raise InvalidParams(f"{name} must be a number of at least {least:g}")
    return float(min(value, sys.float_info.max))
