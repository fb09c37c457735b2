"""The checker accepts a good record, and finds the fault after one change of it."""

from __future__ import annotations

from typing import Callable, Dict, List, Set, Tuple

import pytest

from .checker import OverLines, OverShared, check, rules
from .record import Event
from .run import Plan


def _calls() -> List[Event]:
    """Return a good record: two calls side by side, one of them with progress, a failure, a loss
    and a timeout."""
    words = """
        begin a work 0.3; sent a request; reached a request; run a; answered a progress 1; delivered a progress 1
        begin b echo 0.3; sent b request; reached b request; item a - 1; answered a progress 2; delivered a progress 2
        item a - 2; run b; done b; answered b answer; delivered b answer; end b value
        done a; answered a answer; delivered a answer; end a value
        begin c fail 0.3; sent c request; reached c request; run c; done c; answered c answer; delivered c answer
        end c tool-error; begin r refuse 0.3; sent r request; reached r request; run r; done r; answered r answer
        delivered r answer; end r error; begin t hold 0.3; sent t request; reached t request; run t; wait; end t timeout
        sent t cancel; reached t cancel; begin d echo 0.3; sent d request; fault d duplicate; reached d request; run d
        done d; reached d request; answered d answer; answered d answer; delivered d answer; end d value
        begin n hold 0.3; sent n request; cancel n; end n cancelled; begin q ask 0.3; sent q request; reached q request
        run q; done q; answered q round; delivered q round; sent q request; reached q request; run q; done q
        answered q answer; delivered q answer; end q value; settled -; begin l hold 0.3; sent l request
        reached l request; run l; fault - cut; end l lost; close -
    """
    events, at = [], 100.0
    for sentence in words.replace("\n", ";").split(";"):
        parts = [part.replace("-error", " error").strip("-") for part in sentence.split()] + [
            "",
            "",
            "",
            "",
        ]
        kind, call, what, value = parts[:4]
        at += 1.0 if kind == "wait" else 0.001
        if kind not in ("wait", ""):
            payload = call if kind == "end" and what in ("value", "tool error", "error") else ""
            on = 0 if kind in ("begin", "end", "item", "cancel", "run", "done", "close") else 1
            events.append(Event(at, kind, call, what, float(value or 0), payload, on))
    return events


def _place(events: List[Event], kind: str, call: str, what: str = "", which: int = 0) -> int:
    found = [
        n
        for n, event in enumerate(events)
        if event[1:3] == (kind, call) and what in ("", event.what)
    ]
    return found[which]


Change = Callable[[List[Event]], None]


def _without(kind: str, call: str, what: str = "", which: int = 0) -> Change:
    return lambda events: events.__delitem__(_place(events, kind, call, what, which))


def _twice(kind: str, call: str, what: str = "") -> Change:
    def change(events: List[Event]) -> None:
        place = _place(events, kind, call, what)
        events.insert(place + 1, events[place])

    return change


def _moved(kind: str, call: str, what: str, before: Tuple[str, str]) -> Change:
    """An event as another one's moment, just before it."""

    def change(events: List[Event]) -> None:
        event = events.pop(_place(events, kind, call, what))
        place = _place(events, *before)
        events.insert(place, event._replace(at=events[place].at))

    return change


def _with(kind: str, of: str, which: int = 0, **other: object) -> Change:
    def change(events: List[Event]) -> None:
        place = _place(events, kind, of, "", which)
        events[place] = events[place]._replace(**other)  # type: ignore[arg-type]

    return change


def _all(*changes: Change) -> Change:
    def change(events: List[Event]) -> None:
        for one in changes:
            one(events)

    return change


def _grace(begins: float, ends: float) -> Change:
    """The server reaches the end of its input, and then exits."""

    def change(events: List[Event]) -> None:
        events[:0] = [Event(begins, "fault", "", "finish", on=1)]
        events.append(Event(ends, "over", on=1))

    return change


MUTATIONS: Dict[
    str, Tuple[str, Change]
] = {  # a change of the good record, and the rule that must find it
    "a lost ending": ("ends once", _without("end", "a")),
    "two endings": ("ends once", _twice("end", "b")),
    "an ending before its beginning": (
        "ends after it began",
        _moved("end", "b", "", ("begin", "b")),
    ),
    "two beginnings": ("ends after it began", _twice("begin", "c")),
    "a call that nobody made": ("was made", _without("begin", "c")),
    "the payload of another call": ("has its own payload", _with("end", "b", payload="a")),
    "an ending that there is not": ("ends rightfully", _with("end", "b", what="KeyError()")),
    "an answer of another kind": ("ends rightfully", _with("end", "c", what="value")),
    "an answer without a handler": ("ends rightfully", _without("run", "b")),
    "an answer that was not delivered": ("ends rightfully", _without("delivered", "b")),
    "a timeout too early": ("ends rightfully", _with("begin", "t", value=2.0)),
    "a cancellation by nobody": ("ends rightfully", _without("cancel", "n")),
    "a loss without a cause": ("ends rightfully", _without("fault", "", "cut")),
    "a loss of another connection": ("ends rightfully", _with("fault", "", on=2)),
    "a refusal of what came once": (
        "ends rightfully",
        _with("end", "b", what="refused", value=-32600),
    ),
    "a request sent again": ("is sent once", _twice("sent", "b")),
    "a request sent again elsewhere": (
        "is sent once",
        _all(_twice("sent", "q"), _without("sent", "q", "", 2), _with("sent", "q", 1, on=2)),
    ),
    "a handler that runs twice": ("runs once for each copy", _twice("run", "b")),
    "a copy that is run beside the other": (
        "copies run one after the other",
        _all(_twice("run", "d"), _moved("reached", "d", "", ("fault", "d"))),
    ),
    "an answer that wakes nobody": ("ends soon", _with("end", "b", at=130.0)),
    "an answer that is written twice": ("each copy is answered once", _twice("answered", "b")),
    "an answer that is never written": ("what was done is answered", _without("answered", "b")),
    "progress out of order": (
        "progress comes as it was delivered",
        _with("item", "a", 0, value=2.0),
    ),
    "progress that is lost": ("progress comes as it was delivered", _without("item", "a")),
    "progress after the end": ("nothing after the end", _moved("end", "a", "", ("item", "a"))),
    "an answer that came before a quiet end and is lost": (
        "what came before a quiet end is not lost",
        _all(
            _with("fault", "", what="finish"),
            _moved("delivered", "r", "answer", ("end", "l")),
            _with("delivered", "r", call="l"),
        ),
    ),
    "an answer that came and is lost": (
        "what was delivered is not lost",
        _all(
            _with("end", "a", what="timeout", payload=""),
            _moved("delivered", "a", "answer", ("delivered", "b")),
            _with("begin", "a", value=0.05),
        ),
    ),
}


def test_the_good_record_is_good() -> None:
    assert check(_calls()) == []


@pytest.mark.parametrize("name", MUTATIONS)
def test_one_change_is_seen(name: str) -> None:
    rule, change = MUTATIONS[name]
    events = _calls()
    change(events)
    found = check(events)
    assert rule in {wrong.rule for wrong in found}, "\n".join(map(str, found))


def test_every_rule_is_broken_by_some_change() -> None:
    known = {name.replace("_", " ") for name in rules(OverLines)}
    assert {rule for rule, _ in MUTATIONS.values()} == {*known, "was made"}


SHARED: Dict[str, Tuple[str, Change]] = {  # the same where several processes share the sessions
    "a refusal": ("ends rightfully", _with("end", "b", what="refused", value=-32600)),
    "the end of a process that nobody killed": (
        "ends rightfully",
        _with("end", "l", what="killed"),
    ),
    "an answer that is waited for in vain": (
        "ends rightfully",
        _all(
            _with("begin", "t", value=10.0, what="work"),
            lambda events: events.__setitem__(
                slice(_place(events, "end", "t"), None),
                [
                    event._replace(at=event.at + 20.0)
                    for event in events[_place(events, "end", "t") :]
                ],
            ),
        ),
    ),
    "a session that a process does not know": (
        "the session lives on",
        _with("delivered", "b", what="gone"),
    ),
    "progress that never came": (
        "progress is whole",
        _all(_without("item", "a"), _without("delivered", "a")),
    ),
    "progress that came twice": (
        "progress is whole",
        _all(_twice("item", "a"), _twice("delivered", "a")),
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_one_change_is_seen_where_processes_share_sessions(name: str) -> None:
    rule, change = SHARED[name]
    events = _calls()
    assert check(events, OverShared) == []
    change(events)
    found = check(events, OverShared)
    assert rule in {wrong.rule for wrong in found}, "\n".join(map(str, found))


def test_the_end_of_a_process_ends_its_calls() -> None:
    events = _calls()
    _all(_with("end", "l", what="killed"), _with("fault", "", what="kill"))(events)
    assert check(events, OverShared) == []


def test_correct_outcomes_are_not_reported() -> None:
    for change in (
        _all(_with("end", "d", what="refused", value=-32600, payload="")),
        _all(_twice("reached", "q"), _with("end", "q", what="refused", value=-32602, payload="")),
        _with("end", "l", what="failed", payload="no server"),
        _all(
            _without("end", "b"),
            _without("delivered", "b"),
            _moved("close", "", "", ("end", "a")),
            lambda events: events.insert(
                _place(events, "end", "a"), Event(0.0, "end", "b", "lost")
            ),
        ),
        _all(
            _grace(0.0, 0.25),
            _with("end", "b", what="lost", payload=""),
            _without("answered", "b"),
            _without("delivered", "b"),
        ),
        _all(
            *(
                lambda events, late=late: events.insert(_place(events, "done", "q", "", 1), late)  # type: ignore[misc]
                for late in (Event(0.0, "reached", "q", "request"), Event(0.0, "run", "q"))
            )
        ),
    ):
        events = _calls()
        change(events)
        assert check(events) == []


def test_a_seed_is_one_plan() -> None:
    plans = [Plan.of(str(seed)) for seed in range(200)]
    assert plans == [Plan.of(str(seed)) for seed in range(200)]
    kinds: Set[Tuple[bool, str, bool]] = {
        (plan.process, plan.revision, plan.restart) for plan in plans
    }
    assert len(kinds) == 8 and len({str(plan.breaks) for plan in plans}) == 6
