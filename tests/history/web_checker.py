"""What should not have happened over HTTP. What is rightful there is told in this package's docstring."""

from __future__ import annotations

from typing import Callable, Dict, Iterator

from .checker import (
    ANSWERS,
    RULES,
    Rule,
    Story,
    by_answer,
    by_cancel,
    by_timeout,
)
from .record import Event

BREAKS = {"drop", "cut", "half", "restart"}
"""Faults that end a connection, and what is under way on it."""


def _by_refusal(story: Story, call: str, place: int, begun: Event) -> str:
    """A server that is about to end takes nothing more."""
    return "" if story.happened(place, "fault", {"restart"}, set()) else "no server had ended"


def _by_loss(story: Story, call: str, place: int, begun: Event) -> str:
    if story.happened(place, "close", {""}, set()) or story.happened(place, "fault", BREAKS, set()):
        return ""
    mine = any(n < place and event.what in BREAKS for n, event in story.all(call, "fault"))
    return "" if mine else "its connection was not lost"


def _by_answer(story: Story, call: str, place: int, begun: Event) -> str:
    """A question, or its answer, may be lost on the way, and nobody can tell whose it was."""
    asks = (begun.what, story.events[place].what) == ("ask", "tool error")
    return "" if asks and story.happened(place, "fault", BREAKS, set()) else by_answer(story, call, place, begun)


ENDINGS: Dict[str, Callable[[Story, str, int, Event], str]] = {
    **dict.fromkeys(("value", "tool error", "error"), _by_answer),
    "refused": _by_refusal,
    "timeout": by_timeout,
    "cancelled": by_cancel,
    **dict.fromkeys(("lost", "failed"), _by_loss),
}
"""What makes an ending rightful: each returns what is wrong with it, or nothing."""


def _ends_rightfully(story: Story, call: str) -> Iterator[str]:
    begun = story.all(call, "begin")[0][1]
    for place, event in story.all(call, "end"):
        judge = ENDINGS.get(event.what)
        reason = "nothing may end like this" if judge is None else judge(story, call, place, begun)
        if reason:
            yield f"it ended with {event.what} {event.payload!r}: {reason}"


def _is_sent_once(story: Story, call: str) -> Iterator[str]:
    sent = story.count(call, "sent", "request")
    rounds, gone = story.count(call, "delivered", "round"), story.count(call, "delivered", "gone")
    if sent > 1 + rounds + gone:
        yield f"it was sent {sent} times, with {rounds} questions between, and {gone} times to no session"


def _runs_once(story: Story, call: str) -> Iterator[str]:
    """Counted at the server: once, but for each question between and each time that the line doubled it."""
    runs, rounds = story.count(call, "run"), story.count(call, "delivered", "round")
    doubled = story.count(call, "fault", "duplicate")
    if runs > (1 + rounds) * (1 + doubled):
        yield f"its handler ran {runs} times, with {rounds} questions between, and the line doubled it {doubled} times"


def _the_last_is_answered(story: Story, call: str) -> Iterator[str]:
    closed = [n for n, event in story.of[""] if event.kind == "close"]
    for place, event in story.all(call, "end") if call == "last" else ():
        if event.what not in ANSWERS and not any(n < place for n in closed):
            yield f"nothing was wrong any more, and it ended with {event.what} {event.payload!r}"


SHARED = (
    "ends once", "ends after it began", "nothing after the end", "has its own payload", "ends soon",
    "runs once for each copy", "progress comes as it was delivered",
)
"""Rules that hold over any line."""

WEB_RULES: Dict[str, Rule] = {
    **{name: RULES[name] for name in SHARED},
    "ends rightfully": _ends_rightfully,
    "is sent once": _is_sent_once,
    "runs once": _runs_once,
    "the last is answered": _the_last_is_answered,
}
"""What holds for every call over HTTP."""
