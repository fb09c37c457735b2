"""The event types of a server, and the log from which their occurrences are replayed.

A cursor of a log is ``EPOCH.NUMBER``. The store numbers the occurrences of all processes, and the
epoch changes if the log is lost, for example with the memory of a process. The store keeps one
occurrence more than clients can read, so that every process can compute the `floor`: the number up
to which occurrences are lost.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from secrets import token_hex
from typing import Any, NamedTuple, Optional, get_args

from ..errors import InvalidParams
from ..log import logger
from ..protocol.messages import Json, to_json
from ..schema.annotations import kind_of, write_any
from ..schema.mismatch import Mismatch
from ..schema.signature import read_signature
from ..server.registered import CONTEXT
from ..stores.base import Store, StoreUnavailable, has_members, is_number, read_record
from ..text import describe
from .event_types import EventBatch, Occurrence, read_time

log = logger("minimcp.events")

# Maximum number of events in one response or step of a delivery, and of bytes in it.
PAGE_EVENTS = 100
PAGE_BYTES = 1024 * 1024

# Maximum number of results of a source that are shared by subscriptions.
MAX_SHARED = 100

_RECORD: Mapping[str, tuple[type, ...]] = {
    "at": (int, float),
    "to": (list, type(None)),
    "event": (dict,),
}


class Caller(NamedTuple):
    """The receiver of a subscription's events."""

    principal: Optional[str]
    subject: Optional[str]


class Reading(NamedTuple):
    """Events of one subscription, each with the position after it."""

    events: list[tuple[Any, dict[str, Json]]]

    # The position after everything that was checked.
    position: Any

    # Whether more can be read at once.
    more: bool = False

    # The position before them, if events before that are lost; otherwise None.
    gap: Any = None

    # Why an event could not be sent; empty if all could.
    error: str = ""


class _Logged(NamedTuple):
    number: int
    at: float
    to: Optional[list[str]]
    event: dict[str, Json]
    size: int


class EventLog:
    """The occurrences of one type, from the store. Thread-safe.

    Args:
        store: The store, which processes may share.
        key: The key of the log.
        keep: Maximum number of occurrences.
        seconds: Maximum age of an occurrence.

    Attributes:
        events: The occurrences that clients can read, in order.
        position: The number of the newest change that this process has read.
        floor: The number up to which occurrences are lost.
    """

    def __init__(self, store: Store, key: str, keep: int, seconds: float) -> None:
        self._store = store
        self.key = key
        self._keep = keep
        self._seconds = seconds
        self._epoch = ""
        self.events: list[_Logged] = []
        self.position = 0
        self.floor = 0
        self._lock = threading.Lock()

    def append(self, event: Mapping[str, Json], to: Optional[Sequence[str]], now: float) -> None:
        """Store an occurrence, and wake the processes that wait for it."""
        self.refresh(now)  # creates the log, with its epoch
        record = {"at": now, "to": None if to is None else list(to), "event": dict(event)}
        self._store.append(self.key, to_json(record).encode(), None, self._keep + 1)

    def refresh(self, now: float) -> None:
        """Read what has changed in the store.

        Raises:
            StoreUnavailable: The store cannot be reached.
        """
        entry = self._store.get(self.key)
        if entry is None:
            self._store.put(self.key, token_hex(6).encode(), None, expect=0)
            entry = self._store.get(self.key)
        if entry is None:
            raise StoreUnavailable("the log of events was deleted while it was read")
        epoch = entry.value.decode("ascii", "replace")
        known = self.position if epoch == self._epoch else 0
        found = () if known >= entry.version else self._store.read(self.key, known)
        with self._lock:
            if epoch != self._epoch:
                self._epoch = epoch
                self.events = []
                self.position = 0
                self.floor = 0
            for number, data in found:
                if number > self.position:
                    self._add(number, data)
            self.position = max(self.position, entry.version)
            forgotten = self._trim(now)
        if forgotten:
            # The newest of them stays, so that every process can compute the floor.
            self._store.read(self.key, forgotten - 1, forget=True)

    def _add(self, number: int, data: bytes) -> None:
        record = read_record(self.key, data, lambda each: has_members(each, _RECORD))
        if record is not None:
            event = record["event"]
            self.events.append(_Logged(number, record["at"], record["to"], event, len(data)))
        self.position = number

    def _trim(self, now: float) -> int:
        """Drop occurrences above the limits. Return the number of the newest occurrence that is too
        old."""
        surplus = max(0, len(self.events) - self._keep)
        dropped = surplus
        while dropped < len(self.events) and self.events[dropped].at < now - self._seconds:
            dropped += 1
        if not dropped:
            return 0
        self.floor = self.events[dropped - 1].number
        del self.events[:dropped]
        return self.floor if dropped > surplus else 0

    def after(self, number: int) -> tuple[int, list[_Logged], int]:
        """Return the occurrences after a number, with the floor and the position at this moment."""
        with self._lock:
            first = len(self.events)
            while first and self.events[first - 1].number > number:
                first -= 1
            return self.floor, self.events[first:], self.position

    def cursor(self, number: int) -> str:
        """Return the cursor of a position."""
        return f"{self._epoch}.{number}"

    def number(self, cursor: str) -> Optional[int]:
        """Return the position of a cursor; None if the log does not know it."""
        epoch, _, text = cursor.rpartition(".")
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if epoch != self._epoch or not is_number(number) or number > self.position:
            return None
        return number


class EventKind:
    """An event type of a server.

    Args:
        name: Its name.
        function: The author's function.
        description: Its description; None means that of the function.
        delivery: The modes that the author chose; None for all.
        meta: Its ``_meta``; None for none.

    Raises:
        TypeError: The function or its payload type is not supported.
    """

    log: EventLog

    # Seconds between two calls of the function of a source for the same subscription.
    every = 0.0

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        description: Optional[str],
        delivery: Optional[Sequence[str]],
        meta: Optional[Mapping[str, Json]],
    ) -> None:
        self.name = name
        self.owner = f"event type {name!r}"
        self.function = function
        self.delivery = delivery
        self.meta = meta
        read = partial(
            read_signature, context_type=CONTEXT, owner=self.owner, content_types=(EventBatch,)
        )
        self._signature = read(function)
        if self._signature.context_parameter is not None:
            raise TypeError(
                f"{self.owner} cannot have a Context parameter, because it runs outside of requests"
            )
        self.description = description or self._signature.description
        self.payload_schema, self.payload = self._payload()
        if self.payload_schema.get("type") != "object":
            raise TypeError(
                f"{self.owner}: the payload must be an object, such as a dataclass or a dict"
            )
        # The first parameter is the payload or the cursor.
        self._arguments = read(partial(function, None))

    @property
    def input_schema(self) -> dict[str, Any]:
        """The schema of the arguments of a subscription."""
        return self._arguments.input_schema

    def _payload(self) -> tuple[dict[str, Any], Any]:
        """Return the schema of the payload and its kind."""
        raise NotImplementedError

    def values(self, arguments: Any) -> dict[str, Any]:
        """Return the keyword arguments of the function for the arguments of a subscription.

        Raises:
            InvalidParams: They do not match the schema.
        """
        try:
            return self._arguments.completed(self._arguments.read_arguments(arguments))
        except Mismatch as error:
            raise InvalidParams(f"arguments: {error}") from None

    def check(self, data: Any) -> dict[str, Json]:
        """Return a payload in its JSON form. Raises ValueError if it does not match the schema."""
        try:
            written = dict(data) if isinstance(data, Mapping) else self.payload.write(data)
            written = write_any(written)
            self.payload.read(written)
        except (Mismatch, TypeError) as error:
            raise ValueError(f"{self.owner}: data: {error}") from None
        return written  # type: ignore[no-any-return]

    def refresh(self, now: float) -> None:
        """Read what has changed since the last call."""

    def cursor(self, position: Any) -> Optional[str]:
        """Return the cursor of a position; None if events cannot be replayed."""
        raise NotImplementedError

    def resume(
        self, values: Mapping[str, Any], cursor: Optional[str], since: Optional[datetime]
    ) -> tuple[Any, bool]:
        """Return the position where a subscription begins, and whether events before it are lost.

        Args:
            values: The result of `values`.
            cursor: The client's cursor; None means now.
            since: The time of the oldest event to return; None means no limit.
        """
        raise NotImplementedError

    def read(
        self, position: Any, caller: Caller, values: Mapping[str, Any], most: int = PAGE_EVENTS
    ) -> Reading:
        """Return events after a position. The author's function runs on this thread."""
        raise NotImplementedError


def canonical(value: Json) -> str:
    """Return the canonical JSON of a value, which does not depend on the order of members."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


class EventReader:
    """Reads the events of one subscription, step by step. Not thread-safe.

    Args:
        kind: The type.
        values: The arguments for the author's function.
        caller: The receiver.
        position: The position after which to begin.

    Attributes:
        has_more: Whether more events can be read at once.
    """

    def __init__(
        self, kind: EventKind, values: Mapping[str, Any], caller: Caller, position: Any
    ) -> None:
        self.kind = kind
        self._values = values
        self._caller = caller
        self.position = position
        self.has_more = False
        self.read_at = 0.0

    @property
    def cursor(self) -> Optional[str]:
        """The cursor of the position."""
        return self.kind.cursor(self.position)

    def read(self, now: float, most: int = PAGE_EVENTS) -> Reading:
        """Return the next events. A source is not called again before its `every`."""
        if now < self.read_at:
            return Reading([], self.position)
        found = self.kind.read(self.position, self._caller, self._values, most)
        self.position = found.position
        self.has_more = found.more
        if not found.more:
            self.read_at = now + self.kind.every
        return found


class LoggedKind(EventKind):
    """A type whose occurrences are emitted and logged. The function is its filter."""

    def _payload(self) -> tuple[dict[str, Any], Any]:
        if not self._signature.parameters:
            raise TypeError(f"{self.owner}: the first parameter of the filter must be the payload")
        first = self._signature.parameters[0]
        whole = self._signature.input_schema
        schema = {**whole["properties"][first.name], "$defs": whole.get("$defs", {})}
        schema.pop("default", None)
        if '"$ref"' not in to_json(schema):
            del schema["$defs"]
        top = schema.get("$defs", {}).get(str(schema.get("$ref")).rpartition("/")[2], {})
        return {**top, **schema}, first.kind

    def refresh(self, now: float) -> None:
        """Read the log."""
        self.log.refresh(now)

    def cursor(self, position: Any) -> Optional[str]:
        """See `EventKind.cursor`."""
        return self.log.cursor(position)

    def resume(
        self, values: Mapping[str, Any], cursor: Optional[str], since: Optional[datetime]
    ) -> tuple[Any, bool]:
        """See `EventKind.resume`."""
        if cursor is None:
            return self.log.position, False
        number = self.log.number(cursor)
        gap = number is None or number < self.log.floor
        position = self.log.floor if number is None or gap else number
        if since is not None:
            for each in self.log.after(position)[1]:
                if read_time(str(each.event["timestamp"])) < since:
                    position = each.number
                    gap = True
        return position, gap

    def read(
        self, position: Any, caller: Caller, values: Mapping[str, Any], most: int = PAGE_EVENTS
    ) -> Reading:
        """See `EventKind.read`."""
        floor, events, checked = self.log.after(position)
        gap = floor if position < floor else None
        position = max(position, floor)
        found: list[tuple[Any, dict[str, Json]]] = []
        size = 0
        error = ""
        for each in events:
            if len(found) >= most or size > PAGE_BYTES:
                return Reading(found, position, True, gap, error)
            position = each.number
            if each.to is not None and caller.subject not in each.to:
                continue
            try:
                data = self._filtered(each.event["data"], values)
            except Exception as reason:
                if not error:  # a client's arguments may make it fail for each event
                    log.error("the filter of %s failed: %s", self.owner, describe(reason))
                    log.debug("the filter of %s failed", self.owner, exc_info=reason)
                error = "an event could not be checked"
                continue
            if data is not None:
                found.append((position, {**each.event, "data": data}))
                size += each.size
        # The position advances, even if nothing was sent.
        return Reading(found, max(position, checked), False, gap, error)

    def _filtered(self, data: Any, values: Mapping[str, Any]) -> Optional[dict[str, Json]]:
        result = self.function(self.payload.read(data), **values)
        if result is None or result is False:
            return None
        return data if result is True else self.check(result)


class SourceKind(EventKind):
    """A type whose function returns batches of events after a cursor.

    Args:
        every: Seconds between two calls for the same subscription.
        others: Those of `EventKind`.
    """

    def __init__(self, every: float, *others: Any) -> None:
        super().__init__(*others)
        self.every = every
        # Batches that equal subscriptions share, with the time of the call.
        self._shared: dict[tuple[str, Optional[str]], tuple[float, EventBatch[Any]]] = {}

    def _payload(self) -> tuple[dict[str, Any], Any]:
        item = get_args(self._signature.returns)
        if not self._signature.parameters or len(item) != 1:
            raise TypeError(
                f"{self.owner} must take a cursor and return a batch: "
                "def mails(cursor: Optional[str]) -> EventBatch[Mail]"
            )
        return kind_of(item[0], writing=True).schema, kind_of(item[0])

    def cursor(self, position: Any) -> Optional[str]:
        """See `EventKind.cursor`."""
        return position  # type: ignore[no-any-return]

    def resume(
        self, values: Mapping[str, Any], cursor: Optional[str], since: Optional[datetime]
    ) -> tuple[Any, bool]:
        """See `EventKind.resume`. A source cannot seek by time, so it continues from now."""
        if cursor is None:
            return self._call(None, values).cursor, False
        if since is not None:
            for each in self._call(cursor, values):
                if each.timestamp < since:
                    return self._call(None, values).cursor, True
        return cursor, False

    def read(
        self, position: Any, caller: Caller, values: Mapping[str, Any], most: int = PAGE_EVENTS
    ) -> Reading:
        """See `EventKind.read`. A batch is never divided, because it has one cursor."""
        batch = self._call(position, values)
        found: list[tuple[Any, dict[str, Json]]] = []
        for each in batch:
            if each.id is None:
                raise ValueError(f"{self.owner}: an Occurrence of a source needs its id=")
            wire = Occurrence(self.check(each.data), id=each.id, timestamp=each.timestamp)
            wire.name = self.name
            found.append((position, wire.to_wire()))
        if found:
            found[-1] = (batch.cursor, found[-1][1])
        return Reading(found, batch.cursor, batch.more, position if batch.truncated else None)

    def _call(self, cursor: Optional[str], values: Mapping[str, Any]) -> EventBatch[Any]:
        key = (to_json(write_any(dict(values))), cursor)
        known = self._shared.get(key)
        if known is not None and time.monotonic() - known[0] < self.every:
            return known[1]
        batch = self.function(cursor, **values)
        if not isinstance(batch, EventBatch):
            raise TypeError(f"{self.owner} must return an EventBatch, not {batch!r:.60}")
        if cursor is not None:
            if len(self._shared) >= MAX_SHARED:
                self._shared.clear()
            self._shared[key] = (time.monotonic(), batch)
        return batch
