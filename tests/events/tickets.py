"""A server with events about tickets, which most tests of this folder use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, List, Optional

import minimcp
from minimcp import EventBatch, Events, Occurrence, Server

from ..inside import session_of

NAME = "ticket.updated"
KEY = "io.modelcontextprotocol/subscriptionId"


@dataclass
class Ticket:
    id: str
    priority: str = "low"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self) -> float:
        return self.seconds


def tickets(
    name: str = "tickets", events: Optional[Events] = None, wants: Any = None, **options: Any
) -> Events:
    """The events of a new server, ``events.server``; `wants` is another filter."""
    limits = {
        each: options.pop(each) for each in [*options] if each not in ("store", "auth", "http")
    }
    events = Events(**limits) if events is None else events
    Server(name, extensions=[events], **options)

    if wants is not None:
        events.type(NAME)(wants)
        return events

    @events.type(NAME)
    def by_priority(ticket: Ticket, priority: Optional[str] = None) -> bool:
        """A ticket was changed."""
        return priority in (None, ticket.priority)

    return events


def mailbox(events: Events, mails: List[str], **options: Any) -> List[Optional[str]]:
    """Add a source of mails; return the cursors of its calls."""
    calls: List[Optional[str]] = []

    @events.source("mail.received", **options)
    def source(cursor: Optional[str], size: int = 2) -> EventBatch[Ticket]:
        calls.append(cursor)
        if cursor is None:
            return EventBatch([], str(len(mails)))
        first = int(cursor)
        found = [Occurrence(Ticket(each), id=each) for each in mails[first : first + size]]
        last = first + len(found)
        return EventBatch(found, str(last), more=last < len(mails))

    return calls


class Listening:
    """An `events/stream` of a raw session, and what has arrived on it."""

    def __init__(self, client: minimcp.Client, name: str = NAME, **params: Any) -> None:
        self.received: List[Any] = []
        self.outcome: List[Any] = []
        self.close = session_of(client).open_stream(
            "events/stream",
            {"name": name, **params},
            self.received.append,
            self.outcome.append,
        )

    @classmethod
    def to_changes(cls, client: minimcp.Client, events: bool) -> Listening:
        """A `subscriptions/listen`, which asks for changes of the list of event types or not."""
        made = cls.__new__(cls)
        made.received = []
        made.outcome = []
        filters = {"toolsListChanged": True, **({"eventsListChanged": True} if events else {})}
        made.close = session_of(client).open_stream(
            "subscriptions/listen",
            {"notifications": filters},
            made.received.append,
            made.outcome.append,
        )
        return made

    def methods(self) -> List[str]:
        return [each.method.rpartition("/")[2] for each in list(self.received)]

    def ids(self) -> List[str]:
        return [
            each.params["eventId"]
            for each in list(self.received)
            if each.method == "notifications/events/event"
        ]
