"""What should not have happened, told from the record alone. What is rightful is told in this package's docstring."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Set, Tuple

from .record import Event
from .server import GRACE

ANSWERS = frozenset({"value", "tool error", "error", "refused"})  # endings that came as an answer of the server

GIVES = {"echo": "value", "work": "value", "ask": "value", "fail": "tool error", "refuse": "error"}
"""How a call of each tool ends when nothing stands in its way; one of ``hold`` never ends by itself."""

BREAKS = frozenset({"cut", "half", "kill", "finish"})  # faults that end a connection

TWICE = -32600  # the code of the refusal of a request whose id is in use

EARLY = 0.002  # seconds by which a clock that is read twice may disagree about the end of a wait


LATE = 20.0
"""Seconds after the delivery of its answer in which a call ends on the busiest machine; the last call has more."""


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
        return [(n, event) for n, event in self.of[call] if event.kind == kind and what in ("", event.what)]

    def count(self, call: str, kind: str, what: str = "") -> int:
        return len(self.all(call, kind, what))

    def happened(self, before: int, kind: str, what: Set[str], on: Set[int]) -> bool:
        """Whether something that belongs to no call happened before a place, on one of these connections."""
        return any(
            n < before and event.kind == kind and event.what in what and (not event.on or not on or event.on in on)
            for n, event in self.of[""]
        )

    def connections(self, call: str) -> Set[int]:
        return {event.on for _, event in self.all(call, "sent", "request")}


Rule = Callable[[Story, str], Iterator[str]]


def _ends_once(story: Story, call: str) -> Iterator[str]:
    ends = story.all(call, "end")
    if len(ends) != 1:
        yield "it has no ending" if not ends else f"it has {len(ends)} endings"


def _ends_after_it_began(story: Story, call: str) -> Iterator[str]:
    begins = story.all(call, "begin")
    if len(begins) != 1:
        yield f"it began {len(begins)} times"
    for place, event in story.of[call]:
        if place < begins[0][0]:
            yield f"{event.kind} {event.what} comes before its beginning"


def _nothing_after_the_end(story: Story, call: str) -> Iterator[str]:
    ends = story.all(call, "end")
    for place, event in story.all(call, "item"):
        if ends and place > ends[0][0]:
            yield f"progress {event.value:g} came after the ending"


def _has_its_own_payload(story: Story, call: str) -> Iterator[str]:
    for _, event in story.all(call, "end"):
        about_the_question = event.what == "tool error" and story.all(call, "begin", "ask")
        if event.what in ANSWERS - {"refused"} and event.payload != call and not about_the_question:
            yield f"it ended with {event.payload!r}"


Judge = Callable[[Story, str, int, Event], str]  # says what is wrong with an ending; nothing when it is rightful


def _rightful(**judges: Judge) -> Rule:
    """A rule: each call ends in one of these ways, for a reason."""

    def rule(story: Story, call: str) -> Iterator[str]:
        begun = story.all(call, "begin")[0][1]
        for place, event in story.all(call, "end"):
            judge = endings.get(event.what)
            reason = "nothing may end like this" if judge is None else judge(story, call, place, begun)
            if reason:
                yield f"it ended with {event.what} {event.payload!r}: {reason}"

    answer, loss = judges["answer"], judges["loss"]
    endings = {
        "value": answer, "tool error": answer, "error": answer, "refused": judges["refusal"], "timeout": _by_timeout,
        "cancelled": _by_cancel, "lost": loss, "failed": loss,
    }
    return rule


def _by_answer(story: Story, call: str, place: int, begun: Event) -> str:
    what, tool = story.events[place].what, begun.what
    if what != GIVES.get(tool) and not (tool == "ask" and what == "tool error" and _troubled(story, call)):
        return f"{tool} does not answer so"
    if not any(n < place for n, _ in story.all(call, "run")):
        return "no handler had run"
    return "" if any(n < place for n, _ in story.all(call, "delivered", "answer")) else "no answer was delivered"


def _troubled(story: Story, call: str) -> bool:
    return bool(story.all(call, "fault")) or story.happened(len(story.events), "fault", {"replace", "finish"}, set())


def _by_refusal(story: Story, call: str, place: int, begun: Event) -> str:
    twice = sum(n < place for n, _ in story.all(call, "reached", "request")) > 1
    if twice and story.events[place].value == TWICE:
        return ""
    replaced = story.happened(place, "fault", {"replace"}, story.connections(call))
    return "" if replaced else "its request came once, to a server that knew of the handshake"


def _by_timeout(story: Story, call: str, place: int, begun: Event) -> str:
    took = story.events[place].at - begun.at
    return f"after {took:.4f} s of {begun.value:g}" if took < begun.value - EARLY else ""


def _by_cancel(story: Story, call: str, place: int, begun: Event) -> str:
    return "" if any(n < place for n, _ in story.all(call, "cancel")) else "nobody had cancelled it"


def _by_loss(story: Story, call: str, place: int, begun: Event) -> str:
    if story.happened(place, "close", {""}, set()):
        return ""
    lost = story.happened(place, "fault", set(BREAKS), story.connections(call))
    return "" if lost else "its connection was not lost"


def _is_sent_once(story: Story, call: str) -> Iterator[str]:
    sent, rounds = story.count(call, "sent", "request"), story.count(call, "delivered", "round")
    if sent > 1 + rounds:
        yield f"it was sent {sent} times, with {rounds} questions between"
    if len(story.connections(call)) > 1:
        yield "it was sent again on another connection"


def _runs_once_for_each_copy(story: Story, call: str) -> Iterator[str]:
    runs = reached = 0
    for _, event in story.of[call]:
        reached += event.kind == "reached" and event.what == "request"
        runs += event.kind == "run"
        if runs > reached:
            yield f"its handler ran {runs} times when {reached} copies had reached a server"
            return


def _copies_run_one_after_the_other(story: Story, call: str) -> Iterator[str]:
    if story.happened(len(story.events), "fault", {"replace"}, story.connections(call)):
        return  # the new server knows nothing of what the old one does
    running, ids = 0, 1
    for _, event in story.of[call]:
        if (event.kind, event.what) in (("delivered", "round"), ("reached", "cancel")):
            ids += 1  # the next request has one of its own, or an old one that is free: a late copy may run beside it
        elif event.kind == "done":
            running = max(0, running - 1)
        elif event.kind == "run" and running == ids:
            yield "its handler began while it ran already, for the same id"
            return
        else:
            running += event.kind == "run"


def _each_copy_is_answered_once(story: Story, call: str) -> Iterator[str]:
    reached, answers = 0, 0
    for _, event in story.of[call]:
        reached += event.kind == "reached" and event.what == "request"
        answers += event.kind == "answered" and event.what in ("answer", "round")
        if answers > reached:
            yield f"it was answered {answers} times when {reached} copies had reached a server"
            return


def _grace_was_over(story: Story, on: Set[int]) -> bool:
    at = {event.what or event.kind: event.at for _, event in story.of[""] if event.on in on}
    return at.get("over", 0.0) - at.get("finish", float("inf")) >= GRACE


def _what_was_done_is_answered(story: Story, call: str) -> Iterator[str]:
    on = story.connections(call)
    settled = next((n for n, event in story.of[""] if event.kind == "settled" and event.on in on), None)
    if settled is None:
        return  # the connection did not live to the end
    if story.happened(len(story.events), "fault", {"replace"}, on) or story.count(call, "reached", "cancel"):
        return
    if _grace_was_over(story, on):
        return
    done = sum(n < settled for n, _ in story.all(call, "done"))
    answers = story.count(call, "answered", "answer") + story.count(call, "answered", "round")
    if done > answers:
        yield f"its handler returned {done} times, and {answers} answers were written"


def _progress_comes_as_it_was_delivered(story: Story, call: str) -> Iterator[str]:
    items = [event.value for _, event in story.all(call, "item")]
    delivered = [event.value for _, event in story.all(call, "delivered", "progress")]
    rest = iter(delivered)
    if not all(item in rest for item in items):
        yield f"the caller was told {items}, and the line delivered {delivered}"
    answer = next((n for n, _ in story.all(call, "delivered", "answer")), None)
    if answer is not None and any(event.what in ANSWERS for _, event in story.all(call, "end")):
        due = [event.value for n, event in story.all(call, "delivered", "progress") if n < answer]
        if items != due:
            yield f"the caller was told {items}, and before the answer came {due}"


def _what_was_delivered_is_not_lost(story: Story, call: str) -> Iterator[str]:
    begun = story.all(call, "begin")[0][1]
    if [event.what for _, event in story.all(call, "end")] != ["timeout"]:
        return
    for place, answer in story.all(call, "delivered", "answer"):
        for other in story.calls:
            later = [n for n, event in story.all(other, "delivered", "answer") if event.on == answer.on]
            ended = [event.at for _, event in story.all(other, "end") if event.what in ANSWERS]
            if later and later[0] > place and ended and ended[0] < begun.at + begun.value:
                yield f"its answer was delivered before that of {other}, which had ended when this one's time was over"
                return


ALL_ANSWERED = "what was done is answered"


def _ends_soon(story: Story, call: str) -> Iterator[str]:
    answers = [event.at for _, event in story.all(call, "delivered", "answer")]
    for _, event in story.all(call, "end"):
        if event.what in ANSWERS and answers and event.at - answers[0] > LATE:
            yield f"it ended {event.at - answers[0]:.1f} s after its answer was delivered"


def _what_came_before_a_quiet_end_is_not_lost(story: Story, call: str) -> Iterator[str]:
    on = story.connections(call)
    for place, event in story.all(call, "end"):
        quiet = story.happened(place, "fault", {"finish"}, on) and not story.happened(place, "close", {""}, set())
        if event.what == "lost" and quiet and any(n < place for n, _ in story.all(call, "delivered", "answer")):
            yield "its answer was delivered, and the server had only ended"


RULES: Dict[str, Rule] = {  # what holds for every call
    "ends once": _ends_once,
    "ends after it began": _ends_after_it_began,
    "nothing after the end": _nothing_after_the_end,
    "has its own payload": _has_its_own_payload,
    "ends rightfully": _rightful(answer=_by_answer, refusal=_by_refusal, loss=_by_loss),
    "ends soon": _ends_soon,
    "is sent once": _is_sent_once,
    "runs once for each copy": _runs_once_for_each_copy,
    "copies run one after the other": _copies_run_one_after_the_other,
    "each copy is answered once": _each_copy_is_answered_once,
    ALL_ANSWERED: _what_was_done_is_answered,
    "progress comes as it was delivered": _progress_comes_as_it_was_delivered,
    "what was delivered is not lost": _what_was_delivered_is_not_lost,
    "what came before a quiet end is not lost": _what_came_before_a_quiet_end_is_not_lost,
}


WEB_BREAKS = {"drop", "cut", "half", "restart"}  # faults that end a connection, and what is under way on it


def _by_web_refusal(story: Story, call: str, place: int, begun: Event) -> str:
    """A server that is about to end takes nothing more."""
    return "" if story.happened(place, "fault", {"restart"}, set()) else "no server had ended"


def _by_web_loss(story: Story, call: str, place: int, begun: Event) -> str:
    if story.happened(place, "close", {""}, set()) or story.happened(place, "fault", WEB_BREAKS, set()):
        return ""
    mine = any(n < place and event.what in WEB_BREAKS for n, event in story.all(call, "fault"))
    return "" if mine else "its connection was not lost"


def _by_web_answer(story: Story, call: str, place: int, begun: Event) -> str:
    """A question, or its answer, may be lost on the way, and nobody can tell whose it was."""
    asks = (begun.what, story.events[place].what) == ("ask", "tool error")
    return "" if asks and story.happened(place, "fault", WEB_BREAKS, set()) else _by_answer(story, call, place, begun)


def _is_sent_again_to_no_session(story: Story, call: str) -> Iterator[str]:
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


SHARED = (  # rules that hold over any line
    "ends once", "ends after it began", "nothing after the end", "has its own payload", "ends soon",
    "runs once for each copy", "progress comes as it was delivered",
)

WEB_RULES: Dict[str, Rule] = {  # what holds for every call over HTTP
    **{name: RULES[name] for name in SHARED},
    "ends rightfully": _rightful(answer=_by_web_answer, refusal=_by_web_refusal, loss=_by_web_loss),
    "is sent once": _is_sent_again_to_no_session,
    "runs once": _runs_once,
    "the last is answered": _the_last_is_answered,
}


def check(events: Sequence[Event], rules: Mapping[str, Rule] = RULES) -> List[Wrong]:
    """What should not have happened; empty when all is well."""
    story = Story(events)
    found = [Wrong(rule, call, words) for rule, look in rules.items() for call in dict.fromkeys(story.calls)
             for words in look(story, call)]
    begun = set(story.calls)
    strange = Counter(event.call for event in events if event.call and event.call not in begun)
    return found + [Wrong("was made", call, f"{times} events of a call that nobody made")
                    for call, times in strange.items()]
