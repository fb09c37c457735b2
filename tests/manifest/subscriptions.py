"""Rows about `subscriptions/listen`."""

from __future__ import annotations

from typing import Tuple

from .revisions import Section

LISTEN: Section = (
    "basic/patterns/subscriptions",
    (
        ("M:SUB-1", "5+", "A listen says what it wants."),
        ("M:SUB-2", "5+", "The acknowledgement comes first."),
        ("M:SUB-3", "5+", "It names what is honoured."),
        ("M:SUB-4", "5+", "Every frame names its stream, type included."),
        ("M:SUB-5", "5+", "Nothing comes that was not asked for."),
        ("M:SUB-6", "5+", "No progress and no log messages on a stream."),
        ("M:SUB-7", "5+", "Streams are told apart by their id."),
        ("M:SUB-8", "5+", "The client ends a stream by cancelling it."),
        ("M:SUB-9", "5+", "A server ends a stream with a result."),
        ("M:SUB-10", "5+", "Over stdio a word of cancellation follows."),
        ("M:SUB-11", "5+", "An end without a result is a loss."),
        ("M:SUB-12", "5+", "A client sees what was not honoured."),
        ("M:SUB-13", "5+", "What happens during the acknowledgement follows it."),
        ("M:SUB-14", "5+", "What waits for a slow client is bounded."),
        ("M:SUB-15", "5+", "Streams are limited."),
        ("M:SUB-16", "5+", "A stream may be silent for ever."),
        ("M:SUB-17", "5+", "The way is registered before the request is written."),
        ("M:SUB-18", "5+", "A notice may name a resource below a subscribed one."),
        ("M:SUB-19", "5+", "Changes reach the streams that asked for them."),
        ("M:SUB-20", "5+", "What is false, empty or not offered is not honoured."),
        ("M:SUB-21", "5+", "Unknown members of a filter mean nothing."),
        ("M:SUB-22", "5+", "No subscription outlives its stream."),
        ("M:SUB-23", "5+", "News evict what is kept before anybody sees them."),
        ("M:SUB-24", "5+", "In a handshake session the same call works by other means."),
        ("M:SUB-25", "5+", "Streams keep no worker."),
        ("M:SUB-26", "5+", "With nothing to hear of, nothing is honoured."),
    ),
)

SECTIONS: Tuple[Section, ...] = (LISTEN,)
