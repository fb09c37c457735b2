"""Find errors from the record alone. The docstring of this package says which events are allowed."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple, Type

from .record import Event
from .server import GRACE

ANSWERS = frozenset(
    {"value", "tool error", "error", "refused"}
)  # endings that are a response of the server

GIVES = {"echo": "value", "work": "value", "ask": "value", "fail": "tool error", "refuse": "error"}
"""The normal ending of a call of each tool. A call of ``hold`` never ends by itself."""

ENDINGS = {  # the rule that judges each ending
    **dict.fromkeys(("value", "tool error", "error"), "answer"),
    "refused": "refusal",
    "timeout": "timeout",
    "cancelled": "cancel",
    "lost": "loss",
    "failed": "loss",
    "killed": "kill",
    "torn": "tear",
}
ALL_ANSWERED = "what was done is answered"
BREAKS = frozenset({"cut", "half", "kill", "finish"})  # faults that end a connection
TWICE = -32600  # the error code for a request with an id in use
USED = -32602  # and for one with a state that an earlier request has used
EARLY = 0.002  # seconds by which a clock that is read twice may disagree about the end of a wait

PATIENT = 10.0  # seconds until a call learns that its process has ended

LATE = 20.0
"""Seconds after the delivery of its answer in which a call ends on the busiest machine; the last
call has more."""

WEB_BREAKS = {
    "drop",
    "cut",
    "half",
    "restart",
    "kill",
}  # faults that end a connection with its running calls


class Wrong(NamedTuple):
    """One thing that should not have happened."""

    rule: str
    call: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.call or 'all'}: {self.words}"


class Story:
    """A record, sorted by call."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
        self.of: Dict[str, List[Tuple[int, Event]]] = defaultdict(list)
        for place, event in enumerate(events):
            self.of[event.call].append((place, event))
        self.calls = [event.call for event in events if event.kind == "begin"]

    def all(self, call: str, kind: str, what: str = "") -> List[Tuple[int, Event]]:
        return [
            (n, event)
            for n, event in self.of[call]
            if event.kind == kind and what in ("", event.what)
        ]

    def count(self, call: str, kind: str, what: str = "") -> int:
        return len(self.all(call, kind, what))

    def happened(self, before: int, kind: str, what: Set[str], on: Set[int]) -> bool:
        """Return whether an event of no call happened before a place, on one of these connections."""
        return any(
            n < before
            and event.kind == kind
            and event.what in what
            and (not event.on or not on or event.on in on)
            for n, event in self.of[""]
        )

    def connections(self, call: str) -> Set[int]:
        return {event.on for _, event in self.all(call, "sent", "request")}

    def wrong(self) -> List[Wrong]:
        """Finds errors in a record. Each public generator of a subclass is a rule, and is called
        for each call."""
        calls = list(dict.fromkeys(self.calls))
        return [
            Wrong(name.replace("_", " "), call, words)
            for name in rules(type(self))
            for call in calls
            for words in getattr(self, name)(call)
        ]


def rules(kind: Type[Story]) -> List[str]:
    """The names of what holds for every call."""
    classes = [
        each for each in reversed(kind.__mro__) if issubclass(each, Story) and each is not Story
    ]
    return list(
        dict.fromkeys(name for each in classes for name in vars(each) if not name.startswith("_"))
    )


class AnyLine(Story):
    """Rules for any line."""

    def ends_once(self, call: str) -> Iterator[str]:
        ends = self.all(call, "end")
        if len(ends) != 1:
            yield "it has no ending" if not ends else f"it has {len(ends)} endings"

    def ends_after_it_began(self, call: str) -> Iterator[str]:
        begins = self.all(call, "begin")
        if len(begins) != 1:
            yield f"it began {len(begins)} times"
        for place, event in self.of[call]:
            if place < begins[0][0]:
                yield f"{event.kind} {event.what} comes before its beginning"

    def nothing_after_the_end(self, call: str) -> Iterator[str]:
        ends = self.all(call, "end")
        for place, event in self.all(call, "item"):
            if ends and place > ends[0][0]:
                yield f"progress {event.value:g} came after the ending"

    def has_its_own_payload(self, call: str) -> Iterator[str]:
        for _, event in self.all(call, "end"):
            about_the_question = event.what == "tool error" and self.all(call, "begin", "ask")
            if (
                event.what in ANSWERS - {"refused"}
                and event.payload != call
                and not about_the_question
            ):
                yield f"it ended with {event.payload!r}"

    def ends_rightfully(self, call: str) -> Iterator[str]:
        """Each call has exactly one of these endings, for a reason."""
        begun = self.all(call, "begin")[0][1]
        for place, event in self.all(call, "end"):
            judge = getattr(self, "_by_" + ENDINGS.get(event.what, "nothing"))
            reason = judge(call, place, begun)
            if reason:
                yield f"it ended with {event.what} {event.payload!r}: {reason}"

    def _by_nothing(self, call: str, place: int, begun: Event) -> str:
        return "nothing may end like this"

    def _by_answer(self, call: str, place: int, begun: Event) -> str:
        what, tool = self.events[place].what, begun.what
        if what != GIVES.get(tool) and not (
            tool == "ask" and what == "tool error" and self._troubled(call)
        ):
            return f"{tool} does not answer so"
        if not any(n < place for n, _ in self.all(call, "run")):
            return "no handler had run"
        return (
            ""
            if any(n < place for n, _ in self.all(call, "delivered", "answer"))
            else "no answer was delivered"
        )

    def _troubled(self, call: str) -> bool:
        return bool(self.all(call, "fault")) or self.happened(
            len(self.events), "fault", {"replace", "finish"}, set()
        )

    def _by_tear(self, call: str, place: int, begun: Event) -> str:
        """Half a line with a readable id ends the call that it answers at once."""
        torn = self.happened(place, "fault", {"half"}, self.connections(call))
        return "" if torn else "no line of its connection was cut in half"

    def _by_timeout(self, call: str, place: int, begun: Event) -> str:
        took = self.events[place].at - begun.at
        return f"after {took:.4f} s of {begun.value:g}" if took < begun.value - EARLY else ""

    def _by_cancel(self, call: str, place: int, begun: Event) -> str:
        return (
            "" if any(n < place for n, _ in self.all(call, "cancel")) else "nobody had cancelled it"
        )

    def ends_soon(self, call: str) -> Iterator[str]:
        answers = [event.at for _, event in self.all(call, "delivered", "answer")]
        for _, event in self.all(call, "end"):
            if event.what in ANSWERS and answers and event.at - answers[0] > LATE:
                yield f"it ended {event.at - answers[0]:.1f} s after its answer was delivered"

    def runs_once_for_each_copy(self, call: str) -> Iterator[str]:
        runs = reached = 0
        for _, event in self.of[call]:
            reached += event.kind == "reached" and event.what == "request"
            runs += event.kind == "run"
            if runs > reached:
                yield f"its handler ran {runs} times when {reached} copies had reached a server"
                return

    def progress_comes_as_it_was_delivered(self, call: str) -> Iterator[str]:
        items = [event.value for _, event in self.all(call, "item")]
        delivered = [event.value for _, event in self.all(call, "delivered", "progress")]
        rest = iter(delivered)
        if not all(item in rest for item in items):
            yield f"the caller was told {items}, and the line delivered {delivered}"
        answer = next((n for n, _ in self.all(call, "delivered", "answer")), None)
        if answer is not None and any(event.what in ANSWERS for _, event in self.all(call, "end")):
            due = [
                event.value for n, event in self.all(call, "delivered", "progress") if n < answer
            ]
            if items != due:
                yield f"the caller was told {items}, and before the answer came {due}"


class OverLines(AnyLine):
    def _by_refusal(self, call: str, place: int, begun: Event) -> str:
        sent, reached = (
            sum(n < place for n, _ in self.all(call, kind, "request"))
            for kind in ("sent", "reached")
        )
        codes = (TWICE, USED) if begun.what == "ask" and sent > 1 else (TWICE,)
        if reached > sent and self.events[place].value in codes:
            return ""
        replaced = self.happened(place, "fault", {"replace"}, self.connections(call))
        return "" if replaced else "its request came once, to a server that knew of the handshake"

    def _by_loss(self, call: str, place: int, begun: Event) -> str:
        if self.happened(place, "close", {""}, set()):
            return ""
        lost = self.happened(place, "fault", set(BREAKS), self.connections(call))
        return "" if lost else "its connection was not lost"

    def is_sent_once(self, call: str) -> Iterator[str]:
        sent, rounds = self.count(call, "sent", "request"), self.count(call, "delivered", "round")
        if sent > 1 + rounds:
            yield f"it was sent {sent} times, with {rounds} questions between"
        if len(self.connections(call)) > 1:
            yield "it was sent again on another connection"

    def copies_run_one_after_the_other(self, call: str) -> Iterator[str]:
        if self.happened(len(self.events), "fault", {"replace"}, self.connections(call)):
            return  # the new server has no data of the old one
        running, ids = 0, 1
        for _, event in self.of[call]:
            if (event.kind, event.what) in (("answered", "round"), ("reached", "cancel")):
                # the next request has its own id, or an old one that is free: a late copy may run
                # next to it
                ids += 1
            elif event.kind == "done":
                running = max(0, running - 1)
            elif event.kind == "run" and running == ids:
                yield "its handler began while it ran already, for the same id"
                return
            else:
                running += event.kind == "run"

    def each_copy_is_answered_once(self, call: str) -> Iterator[str]:
        reached, answers = 0, 0
        for _, event in self.of[call]:
            reached += event.kind == "reached" and event.what == "request"
            answers += event.kind == "answered" and event.what in ("answer", "round")
            if answers > reached:
                yield f"it was answered {answers} times when {reached} copies had reached a server"
                return

    def _grace_was_over(self, on: Set[int]) -> bool:
        at = {event.what or event.kind: event.at for _, event in self.of[""] if event.on in on}
        return at.get("over", 0.0) - at.get("finish", float("inf")) >= GRACE

    def what_was_done_is_answered(self, call: str) -> Iterator[str]:
        on = self.connections(call)
        settled = next(
            (n for n, event in self.of[""] if event.kind == "settled" and event.on in on), None
        )
        if settled is None:
            return  # the connection did not live to the end
        if self.happened(len(self.events), "fault", {"replace"}, on) or self.count(
            call, "reached", "cancel"
        ):
            return
        if self._grace_was_over(on):
            return
        done = sum(n < settled for n, _ in self.all(call, "done"))
        answers = self.count(call, "answered", "answer") + self.count(call, "answered", "round")
        if done > answers:
            yield f"its handler returned {done} times, and {answers} answers were written"

    def what_was_delivered_is_not_lost(self, call: str) -> Iterator[str]:
        begun = self.all(call, "begin")[0][1]
        if [event.what for _, event in self.all(call, "end")] != ["timeout"]:
            return
        for place, answer in self.all(call, "delivered", "answer"):
            for other in self.calls:
                later = [
                    n
                    for n, event in self.all(other, "delivered", "answer")
                    if event.on == answer.on
                ]
                ended = [event.at for _, event in self.all(other, "end") if event.what in ANSWERS]
                if later and later[0] > place and ended and ended[0] < begun.at + begun.value:
                    yield f"its answer was delivered before that of {other}, which ended while this one had time"
                    return

    def what_came_before_a_quiet_end_is_not_lost(self, call: str) -> Iterator[str]:
        on = self.connections(call)
        for place, event in self.all(call, "end"):
            quiet = self.happened(place, "fault", {"finish"}, on) and not self.happened(
                place, "close", {""}, set()
            )
            if (
                event.what == "lost"
                and quiet
                and any(n < place for n, _ in self.all(call, "delivered", "answer"))
            ):
                yield "its answer was delivered, and the server had only ended"


class OverHttp(AnyLine):
    def _by_refusal(self, call: str, place: int, begun: Event) -> str:
        """A server that is about to exit accepts no more requests."""
        return "" if self.happened(place, "fault", {"restart"}, set()) else "no server had ended"

    def _by_loss(self, call: str, place: int, begun: Event) -> str:
        if self.happened(place, "close", {""}, set()) or self.happened(
            place, "fault", WEB_BREAKS, set()
        ):
            return ""
        mine = any(n < place and event.what in WEB_BREAKS for n, event in self.all(call, "fault"))
        return "" if mine else "its connection was not lost"

    def _by_answer(self, call: str, place: int, begun: Event) -> str:
        """A question or its answer may be lost, and no record shows whose it was."""
        asks = (begun.what, self.events[place].what) == ("ask", "tool error")
        lost = asks and self.happened(place, "fault", WEB_BREAKS, set())
        return "" if lost else super()._by_answer(call, place, begun)

    def is_sent_once(self, call: str) -> Iterator[str]:
        sent = self.count(call, "sent", "request")
        rounds, gone = self.count(call, "delivered", "round"), self.count(call, "delivered", "gone")
        if sent > 1 + rounds + gone:
            yield f"it was sent {sent} times, with {rounds} questions between, and {gone} times to no session"

    def runs_once(self, call: str) -> Iterator[str]:
        """Counted at the server: once, but for each question between and each time that the line
        doubled it."""
        runs, rounds = self.count(call, "run"), self.count(call, "delivered", "round")
        doubled = self.count(call, "fault", "duplicate")
        if runs > (1 + rounds) * (1 + doubled):
            yield f"its handler ran {runs} times, with {rounds} questions between, and {doubled} doubled requests"

    def the_last_is_answered(self, call: str) -> Iterator[str]:
        closed = [n for n, event in self.of[""] if event.kind == "close"]
        for place, event in self.all(call, "end") if call == "last" else ():
            if event.what not in ANSWERS and not any(n < place for n in closed):
                yield f"nothing was wrong any more, and it ended with {event.what} {event.payload!r}"


class OverShared(OverHttp):
    """Rules for several processes that share sessions: a killed process takes along only the calls
    that ran in it."""

    def _by_refusal(self, call: str, place: int, begun: Event) -> str:
        return "its session lives on"

    def _by_kill(self, call: str, place: int, begun: Event) -> str:
        return "" if self.happened(place, "fault", {"kill"}, set()) else "no process was killed"

    def _by_timeout(self, call: str, place: int, begun: Event) -> str:
        patient = begun.value >= PATIENT and begun.what != "hold"
        return (
            "nobody said what became of it" if patient else super()._by_timeout(call, place, begun)
        )

    def the_session_lives_on(self, call: str) -> Iterator[str]:
        if self.count(call, "delivered", "gone"):
            yield "its session was unknown to a process"

    def progress_is_whole(self, call: str) -> Iterator[str]:
        items = [event.value for _, event in self.all(call, "item")]
        if items != [*range(1, len(items) + 1)]:
            yield f"the caller was told {items}"


def check(events: Sequence[Event], kind: Type[Story] = OverLines) -> List[Wrong]:
    """Return the errors in the events; empty if there are none."""
    story = kind(events)
    begun = set(story.calls)
    strange = Counter(event.call for event in events if event.call and event.call not in begun)
    return story.wrong() + [
        Wrong("was made", call, f"{times} events of a call that nobody made")
        for call, times in strange.items()
    ]
