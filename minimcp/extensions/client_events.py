"""Events in a client: the list of types, one poll, and `Occurrences`, which is an endless iterator.

A stream is reopened from the last cursor when it ends, breaks or falls silent, so the program only
notices a gap if the server reports one.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from copy import copy
from functools import partial
from random import uniform
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional

from ..client.calls import DEFAULT, MAX_PAGES, Call
from ..client.session import Cancel, Outcome, deadline_of, require_type, wait_until
from ..engine.timer import Deadline
from ..errors import (
    ConnectionLost,
    McpError,
    ProtocolViolation,
    RequestTimeout,
    RpcError,
)
from ..log import logger
from ..protocol.lifecycle import SUBSCRIPTION_KEY
from ..protocol.messages import Json, Notification, size_of
from .event_types import (
    ACTIVE,
    ERROR,
    EVENT,
    HEARTBEAT,
    IDENTIFIER,
    LIST,
    LIST_CHANGED,
    POLL,
    STREAM,
    TERMINATED,
    TOP_LEVEL,
    EventBatch,
    EventError,
    EventsEnded,
    EventType,
    Occurrence,
    text_or_none,
)

if TYPE_CHECKING:
    from ..client.client import Client

log = logger("minimcp.client")

# Seconds between two polls if the server does not choose, the minimum and the maximum.
POLL_SECONDS = 5.0
MIN_POLL_SECONDS = 1.0
MAX_POLL_SECONDS = 86400.0

# A stream may be silent for a little more than twice the longest pause before a heartbeat, but at
# least for `MIN_SILENT_SECONDS` and at most for `SILENT_SECONDS`. Before the first heartbeat, it is
# `SILENT_SECONDS`.
SILENT_SECONDS = 60.0
MIN_SILENT_SECONDS = 2.0

# First and longest pause before a stream is reopened. After a stream that was open for longer than
# `STEADY_SECONDS`, the pause is short again.
FIRST_PAUSE_SECONDS = 0.5
MAX_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 30.0

# Maximum number of messages that wait for the program, and of bytes in them. Above it, the stream
# is closed, and reopened when the program has taken them. A poll ends at as many bytes.
MAX_WAITING = 1000
MAX_WAITING_BYTES = 16 * 1024 * 1024

# The entries of the queue that only advance the cursor.
POSITIONS = ("cursor", "gap")

# How many ids of events are remembered in order to drop duplicates.
MAX_REMEMBERED = 1000


def need_events(call: Call) -> None:
    """Raise CapabilityNotSupported if the server does not declare events."""
    if not call.session.era.peer.supports(TOP_LEVEL):
        call.session.need("ext:" + IDENTIFIER)


def ask(call: Call, method: str, params: Mapping[str, Json]) -> dict[str, Json]:
    """Return the result of a request. An error of the extension raises `EventError`."""
    need_events(call)
    try:
        return call.request(method, params)
    except RpcError as error:
        raise EventError.of_peer(vars(error)) or error from None


def list_types(call: Call, cache: str = "use") -> list[EventType]:
    """Return the types that the server lists."""
    need_events(call)
    return call.pages(LIST, "events", EventType.from_wire, cache)


def params_of(
    name: str,
    arguments: Optional[Mapping[str, Json]],
    cursor: Optional[str],
    max_age: Optional[float],
) -> dict[str, Json]:
    """Return the params of a subscription. Raises TypeError for an argument of a wrong type."""
    params: dict[str, Json] = {
        "name": require_type(name, str, "the name of an event type must be a str"),
        "arguments": dict(require_type(arguments or {}, Mapping, "arguments must be a mapping")),
        "cursor": require_type(cursor, (str, type(None)), "cursor must be a str or None"),
    }
    if max_age is not None:
        params["maxAgeMs"] = round(max_age * 1000)
    return params


def poll(call: Call, params: Mapping[str, Json], max_events: Optional[int]) -> EventBatch[Any]:
    """Send polls until no events are left, or until `max_events` or many bytes have arrived.

    Raises:
        ProtocolViolation: The server says that events are left, but does not advance the cursor.
    """
    batch: EventBatch[Any] = EventBatch([], text_or_none(params.get("cursor")))
    size = 0
    for _ in range(MAX_PAGES):
        sent = {**params, "cursor": batch.cursor}
        if max_events is not None:
            sent["maxEvents"] = max_events - len(batch)
        try:
            result = ask(call, POLL, sent)
        except RequestTimeout:
            if not batch.events:
                raise
            return batch
        _add_page(call, batch, result)
        size += size_of(result)
        is_full = size > MAX_WAITING_BYTES or (max_events is not None and len(batch) >= max_events)
        if is_full or not batch.more:
            return batch
        if batch.cursor in (None, sent["cursor"]):
            raise ProtocolViolation("a poll with hasMore must advance the cursor", result)
        params = {name: each for name, each in params.items() if name != "maxAgeMs"}
    return batch


def _add_page(call: Call, batch: EventBatch[Any], result: Mapping[str, Json]) -> None:
    page = result.get("events")
    if not isinstance(page, list):
        raise ProtocolViolation("a result of events/poll must have a list of events", result)
    for each in page:
        try:
            batch.events.append(Occurrence.from_wire(each))
        except ValueError as error:
            call.report(POLL, f"an event is left out: {error}")
    batch.cursor = text_or_none(result.get("cursor"))
    if page and batch.events:
        batch.events[-1].cursor = batch.cursor
    batch.more = result.get("hasMore") is True
    batch.truncated = batch.truncated or result.get("truncated") is True
    pause = result.get("nextPollMs")
    batch.next_poll = POLL_SECONDS
    if isinstance(pause, (int, float)) and not isinstance(pause, bool):
        batch.next_poll = min(pause, MAX_POLL_SECONDS * 1000) / 1000


class Occurrences:
    """The events of a subscription, from `Client.events`. Iterate over it, or call `next`.

    It is a context manager that ends the subscription. One thread at a time may take events; any
    thread may close it.

    Attributes:
        cursor: The position after the last event that was taken, for ``Client.events(cursor=)``;
            None before the first, and if the server cannot replay events.
        mode: "push" or "poll".
    """

    def __init__(
        self,
        client: Client,
        call: Call,
        params: Mapping[str, Json],
        mode: Optional[str] = None,
        on_gap: Optional[Callable[[Optional[str]], Any]] = None,
    ) -> None:
        if mode not in (None, "push", "poll"):
            raise ValueError(f'mode must be "push", "poll" or None, not {mode!r:.60}')
        self._client = client
        self._params = dict(params)
        self.name = str(params["name"])
        self.cursor = text_or_none(params["cursor"])
        self._on_gap = on_gap
        self._changed = threading.Condition()
        # Received items: an event, a cursor (with a gap before it), or the end.
        self._waiting: deque[tuple[str, Any]] = deque()
        self._bytes = 0
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._missed = False
        self._closed = False
        self._session = call.session
        self._end: Optional[Callable[[], None]] = None
        # How the last stream ended, and the number of the current one.
        self._outcome: Optional[Outcome] = None
        self._number = 0
        self._opened_at = time.monotonic()
        self._heard_at = self._opened_at
        self._longest_pause: Optional[float] = None
        self._pause = FIRST_PAUSE_SECONDS
        self._next_at = 0.0
        self._must_list = False
        if mode is None:
            listed = [each for each in list_types(call) if each.name == self.name]
            has_push = all("push" in each.delivery for each in listed)
            mode = "push" if has_push and not call.session.era.revision.handshake else "poll"
        self.mode = mode
        self._step(call.deadline, call.cancel)
        self._take_waiting(events=False)  # `cursor` is known from the beginning

    # ------------------------------------------------------------ for a program

    def next(self, timeout: Optional[float] = None) -> Occurrence:
        """Return the next event.

        Args:
            timeout: Seconds to wait; None means no limit.

        Raises:
            RequestTimeout: No event arrived in time.
            EventsEnded: The server has ended the subscription.
            ConnectionLost: The connection has ended, or this object is closed.
            RpcError: The server rejected the subscription.
        """
        deadline = deadline_of("timeout", timeout)
        while True:
            found = self._take_waiting()
            if found is not None:
                return found
            if deadline.expired:
                raise RequestTimeout(f"no event within {deadline.seconds:g} s")
            self._step(deadline)

    def __iter__(self) -> Iterator[Occurrence]:
        return self

    def __next__(self) -> Occurrence:
        try:
            return self.next()
        except ConnectionLost:
            if self._closed:
                raise StopIteration from None
            raise

    def close(self) -> None:
        """End the subscription; a loop over it stops. Idempotent and thread-safe."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._end_stream()
        self._session.listeners.pop(self, None)

    def __enter__(self) -> Occurrences:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Occurrences of {self.name} by {self.mode}{', closed' if self._closed else ''}>"

    # ------------------------------------------------------------ taking

    def _take_waiting(self, *, events: bool = True) -> Optional[Occurrence]:
        """Return the next event in the queue; None if it is empty. If `events` is False, take only
        positions, up to the next event."""
        while self._waiting and not self._closed and (events or self._waiting[0][0] in POSITIONS):
            with self._changed:
                kind, item = self._waiting.popleft()
                self._bytes -= _size_of(kind, item)
            if kind == "ended":
                self._end_or_resume(item)
            elif kind != "event":
                self.cursor = item or self.cursor
                if kind == "gap":
                    self._gap()
            else:
                self.cursor = item.cursor or self.cursor
                if item.id in self._seen:
                    continue
                self._seen[item.id] = None
                if len(self._seen) > MAX_REMEMBERED:
                    self._seen.popitem(last=False)
                item.missed = self._missed
                self._missed = False
                return item  # type: ignore[no-any-return]
        return None

    def _gap(self) -> None:
        self._missed = True
        if self._on_gap is not None:
            self._on_gap(self.cursor)

    def _end_or_resume(self, wire: Any) -> None:
        """Raise `EventsEnded`, unless the type has changed and still exists."""
        error = EventError.of_peer(wire)
        self._end_stream()
        if error is None or error.kind not in ("NotFound", "Unsupported"):
            message = wire.get("message") if isinstance(wire, dict) else wire
            raise EventsEnded(self.name, error.kind if error else str(message))
        self._check_listed(error.kind)
        self._rest()

    def _check_listed(self, reason: str) -> None:
        self._must_list = False
        if not any(each.name == self.name for each in list_types(self._call(), "refresh")):
            raise EventsEnded(self.name, reason)

    # ------------------------------------------------------------ receiving

    def _call(self) -> Call:
        """Return a call on the newest session, and listen to that session's notifications from now
        on."""
        call = Call(self._client._sessions, DEFAULT)
        if call.session is not self._session:
            self._session.listeners.pop(self, None)
        self._session = call.session
        self._session.listeners[self] = self._notice
        return call

    def _notice(self, notification: Notification) -> None:
        if notification.method == LIST_CHANGED:
            with self._changed:
                self._must_list = True
                self._changed.notify_all()

    def _step(self, deadline: Deadline, cancel: Cancel = None) -> None:
        """Wait until something is received, or until the next attempt."""
        if self._closed:
            raise ConnectionLost("this subscription is closed")
        if self._must_list:
            self._check_listed("NotFound")

        def is_ready() -> bool:
            return bool(self._waiting or self._closed or self._must_list)

        if self._end is None:
            pause = Deadline(max(0.0, self._next_at - time.monotonic()))
            wait_until(is_ready, self._changed, deadline.within(pause.remaining()), cancel)
            if is_ready() or deadline.expired or not pause.expired:
                return
            try:
                (self._poll if self.mode == "poll" else self._open)()
            except (ConnectionLost, RequestTimeout) as error:
                self._lost(error)
        if self._end is None:
            return
        left = self._heard_at + self._silence() - time.monotonic()
        if wait_until(
            lambda: is_ready() or self._outcome is not None,
            self._changed,
            deadline.within(max(0.0, left)),
            cancel,
        ):
            if not self._waiting and self._outcome is not None:
                self._end_stream()
                self._lost(self._outcome)
        elif time.monotonic() - self._heard_at >= self._silence():
            log.info("%s: the stream of %s will be reopened", self._session.name, self.name)
            self._end_stream()

    def _rest(self) -> None:
        if time.monotonic() - self._opened_at > STEADY_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        self._next_at = time.monotonic() + self._pause * uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)

    def _lost(self, outcome: Outcome) -> None:
        """Prepare another attempt after a stream or poll has failed, or raise its exception."""
        sessions = self._client._sessions
        is_over = sessions.closed or (self._session.cause is not None and not sessions.restarts)
        if isinstance(outcome, RpcError):
            raise EventError.of_peer(vars(outcome)) or copy(outcome)
        if isinstance(outcome, Exception):
            if is_over or not isinstance(outcome, (ConnectionLost, RequestTimeout)):
                raise copy(outcome)
            log.info("%s: events of %s: %s", self._session.name, self.name, outcome)
        self._rest()

    def _poll(self) -> None:
        batch = poll(self._call(), {**self._params, "cursor": self.cursor}, None)
        if batch.truncated:
            self._append("gap", None)
        for each in batch:
            self._append("event", each)
        self._append("cursor", batch.cursor)
        self._params.pop("maxAgeMs", None)
        self._pause = FIRST_PAUSE_SECONDS
        pause = 0.0 if batch.more else max(MIN_POLL_SECONDS, batch.next_poll or 0.0)
        self._next_at = time.monotonic() + pause

    def _open(self) -> None:
        call = self._call()
        need_events(call)
        if self._number and self.cursor is None:
            self._gap()
        self._number += 1
        self._outcome = None
        self._longest_pause = None
        self._opened_at = time.monotonic()
        self._heard_at = self._opened_at
        params = {**self._params, "cursor": self.cursor}
        take = partial(self._take, self._number)
        self._end = call.session.open_stream(
            STREAM, params, take, partial(self._finished, self._number)
        )

        def has_begun() -> bool:
            return bool(self._waiting or self._closed or self._outcome is not None)

        wait_until(has_begun, self._changed, call.deadline, None, call.session)
        self._params.pop("maxAgeMs", None)

    def _silence(self) -> float:
        if self._longest_pause is None:
            return SILENT_SECONDS
        return min(max(2.5 * self._longest_pause, MIN_SILENT_SECONDS), SILENT_SECONDS)

    def _end_stream(self) -> None:
        with self._changed:
            end = self._end
            self._end = None
            self._number += 1
        if end is not None:
            end()

    # ------------------------------------------------------------ for a reading thread

    def _take(self, number: int, notification: Notification) -> None:
        method, params = notification
        with self._changed:
            if number != self._number:
                return
            now = time.monotonic()
            if method == HEARTBEAT:
                self._longest_pause = max(self._longest_pause or 0.0, now - self._heard_at)
            self._heard_at = now
            cursor = text_or_none(params.get("cursor"))
            if method == EVENT:
                self._put(params)
            elif method in (ACTIVE, HEARTBEAT):
                kind = "gap" if params.get("truncated") is True else "cursor"
                if kind == "cursor" and self._waiting and self._waiting[-1][0] == "cursor":
                    self._bytes -= _size_of(*self._waiting.pop())
                self._append(kind, cursor)
            elif method == TERMINATED:
                self._append("ended", params.get("error"))
            elif method == ERROR:
                log.warning("<-- %s of %s: %.300r", method, self.name, params.get("error"))
            if len(self._waiting) > MAX_WAITING or self._bytes > MAX_WAITING_BYTES:
                # Drops later messages, until the stream is opened again, as after a silence.
                self._number += 1
                self._heard_at = -SILENT_SECONDS
            self._changed.notify_all()

    def _append(self, kind: str, item: Any) -> None:
        self._waiting.append((kind, item))
        self._bytes += _size_of(kind, item)

    def _put(self, params: Mapping[str, Json]) -> None:
        try:
            event = Occurrence.from_wire(params)
        except ValueError as error:
            log.warning("<-- an event of %s was dropped: %s", self.name, error)
            return
        event.meta.pop(SUBSCRIPTION_KEY, None)
        self._append("event", event)

    def _finished(self, number: int, outcome: Outcome) -> None:
        with self._changed:
            if number == self._number:
                self._outcome = outcome
                self._changed.notify_all()


def _size_of(kind: str, item: Any) -> int:
    """Return the memory of an entry of the queue, in bytes."""
    return size_of(item.data if kind == "event" else item)


def call_for_each(
    occurrences: Occurrences, function: Callable[[Occurrence], Any], client: Client
) -> None:
    """Call a function with each event on the client's callback thread, until they end."""

    def run() -> None:
        try:
            for event in occurrences:
                done = threading.Event()
                client._host._callbacks.put(partial(_call, function, event, done))
                while not done.wait(1.0) and not client._sessions.closed:
                    pass
        except McpError as error:
            if not client._sessions.closed:
                log.warning("events of %s: %s", occurrences.name, error)

    threading.Thread(target=run, name="minimcp-events", daemon=True).start()


def _call(function: Callable[[Occurrence], Any], event: Occurrence, done: threading.Event) -> None:
    try:
        function(event)
    finally:
        done.set()
