"""A few seeds, and that a run sees a fault when somebody plants one."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest

from . import relay
from .__main__ import main
from .checker import check
from .record import shown
from .run import Plan, run

SEEDS = (11, 12, 17, 29)
"""Quick ones: in memory and with processes, with and without what ends a connection."""


@pytest.mark.parametrize("seed", SEEDS)
def test_c66_every_call_ends_once_and_rightfully(seed: int) -> None:
    outcome = run(Plan.of(seed))
    assert not outcome.wrong, "\n".join([str(outcome.plan), *map(str, outcome.wrong), shown(outcome.events)])
    ends = [place for place, event in enumerate(outcome.events) if event.kind == "end"]
    assert len(ends) > 4
    for place in ends:  # and the checker would have seen it
        event = outcome.events[place]
        for changed in ([], [event] * 2, [event._replace(what="value", payload="somebody's")]):
            assert check([*outcome.events[:place], *changed, *outcome.events[place + 1 :]]) != []


ECHOES = Plan(9, False, "handshake", False, {}, [[("echo", 1, False)] * 3] * 2, False)
"""Two callers and a line without faults, but for those that are planted."""


def _swapped(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(wire, way, data.replace(b'"1-1 ', b'"2-1 ') if way == relay.TO_CLIENT else data)


def _lost(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(wire, way, b"" if way == relay.TO_CLIENT and b'"1-1 ' in data else data)


def _doubled(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(wire, way, data * 2 if b"tools/call" in data else data)


PLANTED = {
    "has its own payload": _swapped,
    "what was delivered is not lost": _lost,
    "each copy is answered once": _doubled,
}
"""What the line does without a word in the record, and the rule that sees it."""


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_fault_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "ONE_BY_ONE", ())
    monkeypatch.setattr(relay._Wire, "send", PLANTED[rule](relay._Wire.send))
    assert rule in {wrong.rule for wrong in run(ECHOES).wrong}


def test_what_is_left_behind_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.history.run.WAIT", 0.1)
    monkeypatch.setattr("tests.history.run.SETTLE", 0.1)
    over = threading.Event()
    kept: Any = threading.Thread(target=over.wait, name="kept", daemon=True)
    monkeypatch.setattr("tests.history.run._talk", lambda *_: kept.start())
    outcome = run(ECHOES)
    over.set()
    kept.join()
    assert [str(wrong) for wrong in outcome.wrong] == ["leaves nothing behind: all: ['kept'] Counter()"]


def test_the_command_prints_seed_and_record_of_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Plan, "of", lambda seed: ECHOES)
    monkeypatch.setattr(relay, "ONE_BY_ONE", ())
    monkeypatch.setattr(relay._Wire, "send", _swapped(relay._Wire.send))
    assert main(["--seed", "9"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("seed 9: ") and "begin     1-1" in out
    assert "seed 9: has its own payload: 1-1: it ended with '2-1" in err
