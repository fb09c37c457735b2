"""The wire of events: its names and error codes, and the objects that both sides exchange.

Every name of the wire is in one of the tables below, because the extension is a draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Generic, Optional, TypeVar

from ..errors import McpError, RpcError
from ..protocol.lifecycle import EVENT_STREAM
from ..protocol.messages import Json
from ..schema.annotations import kind_of
from ..text import one_line

# ------------------------------------------------------------ names of the wire

IDENTIFIER = "io.modelcontextprotocol/events"

# The capability that hosts written for an earlier sketch look for, at the top level.
TOP_LEVEL = "events"

LIST = "events/list"
POLL = "events/poll"
STREAM = EVENT_STREAM
SUBSCRIBE = "events/subscribe"
UNSUBSCRIBE = "events/unsubscribe"

ACTIVE = "notifications/events/active"
EVENT = "notifications/events/event"
HEARTBEAT = "notifications/events/heartbeat"
ERROR = "notifications/events/error"
TERMINATED = "notifications/events/terminated"
LIST_CHANGED = "notifications/events/list_changed"

# The member of the filter of `subscriptions/listen`.
LIST_FILTER = "eventsListChanged"

# The modes of delivery.
MODES = ("poll", "push", "webhook")

# The header of a webhook request that names its subscription.
SUBSCRIPTION_HEADER = "X-MCP-Subscription-Id"

# The types of webhook requests that carry no occurrence.
VERIFICATION = "verification"
GAP = "gap"
ENDED = "terminated"

# The codes of errors, in each reading of the drafts. `Events(codes=)` chooses one.
CODES: Mapping[str, Mapping[str, int]] = {
    "sketch": {
        "NotFound": -32011,
        "Forbidden": -32012,
        "ResourceExhausted": -32013,
        "Unsupported": -32014,
        "CallbackEndpointError": -32015,
    },
    "sep": {
        "NotFound": -32023,
        "Forbidden": -32024,
        "ResourceExhausted": -32025,
        "Unsupported": -32026,
        "CallbackEndpointError": -32027,
    },
}

# The kind of an error by its code, whichever reading the peer uses.
KIND_OF_CODE = {code: kind for codes in CODES.values() for kind, code in codes.items()}

T = TypeVar("T")


class EventError(RpcError):
    """An error of the events extension.

    Attributes:
        kind: "NotFound", "Forbidden", "ResourceExhausted", "Unsupported" or
            "CallbackEndpointError".
    """

    of_extension = True
    kind: str

    def __init__(self, kind: str, message: str, data: Json = None, codes: str = "sketch") -> None:
        super().__init__(CODES[codes][kind], message, data)
        self.kind = kind

    @classmethod
    def of_peer(cls, error: Any) -> Optional[EventError]:
        """Return the exception for an error of a peer; None if it has another code.

        Args:
            error: A mapping with ``code``, ``message`` and ``data``, as in a notification.
        """
        code = error.get("code") if isinstance(error, Mapping) else None
        if type(code) is not int or code not in KIND_OF_CODE:
            return None
        kind = KIND_OF_CODE[code]
        found = cls(kind, str(error.get("message")), error.get("data"))
        found.code = code
        found.from_peer = True
        return found

    def to_wire(self) -> dict[str, Json]:
        """Return the error as in a notification."""
        wire: dict[str, Json] = {"code": self.code, "message": self.message}
        return wire if self.data is None else {**wire, "data": self.data}


class EventsEnded(McpError):
    """The server has ended a subscription to events.

    Attributes:
        name: The name of the event type.
        reason: The server's reason: "NotFound", "Forbidden", "Unsupported", or its message.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"the server ended the subscription to {name!r}: {reason}")
        self.name = name
        self.reason = reason


# ------------------------------------------------------------ times


def write_time(moment: datetime) -> str:
    """Return an aware datetime as on the wire: UTC, with milliseconds."""
    utc = moment.astimezone(timezone.utc).replace(tzinfo=None)
    return utc.isoformat(timespec="milliseconds") + "Z"


def read_time(text: str) -> datetime:
    """Return an aware datetime from ISO 8601; without an offset, it is in UTC.

    Raises:
        ValueError: The text is not a date with a time, or UTC has no such year.
    """
    found: datetime = kind_of(datetime).read(text)
    moment = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    try:
        moment.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"not a time in the years 1 to 9999: {text!r:.60}") from None
    return moment


# ------------------------------------------------------------ objects of both sides


class Occurrence:
    """One event.

    An author creates it for a batch of `Events.source`. A client receives it.

    Args:
        data: The payload. A received one is a dict, which is as untrusted as a tool's result.
        id: The stable id of the event at its origin; if None, one is created.
        timestamp: When the event occurred, an aware datetime; None means now.

    Attributes:
        name: The name of the event type.
        cursor: The position after this event; None if the server sends it for whole batches, or
            cannot replay events.
        missed: Whether events before this one may be lost.
        meta: Its ``_meta``.

    Raises:
        ValueError: The timestamp has no time zone.
    """

    def __init__(
        self, data: Any, *, id: Optional[str] = None, timestamp: Optional[datetime] = None
    ) -> None:
        if timestamp is None:
            timestamp = datetime.now(timezone.utc)
        if timestamp.tzinfo is None:
            raise ValueError("the timestamp needs a time zone: write datetime.now(timezone.utc)")
        self.data = data
        self.id = id
        self.timestamp = timestamp
        self.name = ""
        self.cursor: Optional[str] = None
        self.missed = False
        self.meta: dict[str, Json] = {}

    @classmethod
    def from_wire(cls, wire: Any) -> Occurrence:
        """Return a received event.

        Raises:
            ValueError: A required member is missing or invalid.
        """
        members = {"eventId": str, "name": str, "timestamp": str, "data": dict}
        for member, kind in members.items():
            if not isinstance(wire, dict) or not isinstance(wire.get(member), kind):
                raise ValueError(f"an event must have {member}")
        made = cls(wire["data"], id=wire["eventId"], timestamp=read_time(wire["timestamp"]))
        made.name = wire["name"]
        made.cursor = text_or_none(wire.get("cursor"))
        meta = wire.get("_meta")
        made.meta = meta if isinstance(meta, dict) else {}
        return made

    def to_wire(self) -> dict[str, Json]:
        """Return the event as on the wire."""
        wire = {
            "eventId": self.id,
            "name": self.name,
            "timestamp": write_time(self.timestamp),
            "data": self.data,
        }
        if self.cursor is not None:
            wire["cursor"] = self.cursor
        return {**wire, "_meta": self.meta} if self.meta else wire

    def __repr__(self) -> str:
        return f"<Occurrence {one_line(self.name)} {one_line(self.id)}>"


class EventBatch(Generic[T]):
    """Several events in order, and the position after them. Iterate over it.

    Args:
        events: The events.
        cursor: The position after them; None if events cannot be replayed.
        more: Whether more events are available at once.

    Attributes:
        truncated: Whether events before these may be lost.
        next_poll: Seconds to wait before the next poll; None in a batch that an author creates.
    """

    truncated = False
    next_poll: Optional[float] = None

    def __init__(
        self, events: Iterable[Occurrence], cursor: Optional[str] = None, *, more: bool = False
    ) -> None:
        self.events = list(events)
        self.cursor = cursor
        self.more = more

    def __iter__(self) -> Iterator[Occurrence]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return f"<EventBatch of {len(self)}{', more' if self.more else ''}>"


class EventType:
    """One type of events that a server lists.

    Attributes:
        name: Its name.
        description: Its description; empty if the server sends none.
        delivery: The modes that the server offers and this library knows.
        input_schema: The schema of the arguments of a subscription.
        payload_schema: The schema of the data; None if the server sends none.
        meta: Its ``_meta``.
    """

    def __init__(self, wire: Mapping[str, Any]) -> None:
        self.name = str(wire["name"])
        self.description = str(wire.get("description") or "")
        modes = wire.get("delivery")
        modes = modes if isinstance(modes, list) else []
        self.delivery = tuple(mode for mode in MODES if mode in modes)
        self.input_schema = _object(wire.get("inputSchema")) or {"type": "object"}
        self.payload_schema = _object(wire.get("payloadSchema"))
        self.meta = _object(wire.get("_meta")) or {}

    @classmethod
    def from_wire(cls, wire: Any) -> EventType:
        """Return a listed type. Raises ValueError if it has no name."""
        if not isinstance(wire, dict) or not isinstance(wire.get("name"), str):
            raise ValueError("an event type must have a name")
        return cls(wire)

    def __repr__(self) -> str:
        return f"<EventType {one_line(self.name)} by {', '.join(self.delivery)}>"


def _object(value: Any) -> Optional[dict[str, Json]]:
    return value if isinstance(value, dict) else None


def text_or_none(value: Any) -> Optional[str]:
    """Return a str, and None for everything else."""
    return value if isinstance(value, str) else None
