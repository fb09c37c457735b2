"""Runs over lines and over HTTP find a planted fault; `python -m tests.history` runs the seeds."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest

from minimcp import Client
from minimcp.errors import ConnectionLost
from minimcp.http.client import HttpClientSession

from ..support import WAIT, around
from . import relay, web_relay
from .__main__ import main
from .checker import check
from .record import shown
from .run import Outcome, Plan, run
from .server import make_server

pytestmark = pytest.mark.limit(280, "it plays whole histories")


def echoes(name: str, revision: str = "handshake") -> Plan:
    """Return a plan with two callers and a line without faults; the test adds faults."""
    return Plan(name, False, revision, {}, [[("echo", 1, False)] * 3] * 2, False)


def rules(outcome: Outcome) -> "set[str]":
    return {wrong.rule for wrong in outcome.wrong}


@pytest.mark.parametrize(
    "plan", [Plan.of("12"), Plan.of("h18"), Plan.of("s4")], ids=["12", "h18", "s4"]
)
def test_c66_every_call_ends_once_and_rightfully(plan: Plan) -> None:
    outcome = run(plan)
    assert not outcome.wrong, "\n".join(
        [str(outcome.plan), *map(str, outcome.wrong), shown(outcome.events)]
    )
    ends = [place for place, event in enumerate(outcome.events) if event.kind == "end"]
    assert len(ends) > 4
    for place in ends:  # and the checker would have seen it
        event = outcome.events[place]
        for changed in ([], [event] * 2, [event._replace(what="value", payload="somebody's")]):
            assert (
                check([*outcome.events[:place], *changed, *outcome.events[place + 1 :]], plan.rules)
                != []
            )


def test_seeds_over_http_are_plans_of_every_kind() -> None:
    plans = [Plan.of(f"h{seed}") for seed in range(100)]
    assert plans == [Plan.of(f"h{seed}") for seed in range(100)]
    assert len({(plan.process, plan.revision) for plan in plans}) == 4
    assert {(bool(plan.breaks), plan.closes, plan.patient) for plan in plans} == {
        (False, False, False),
        (False, False, True),
        (False, True, False),
        (True, False, False),
        (True, True, False),
    }


def test_seeds_with_several_processes_are_plans_of_every_kind() -> None:
    plans = [Plan.of(f"s{seed}") for seed in range(100)]
    assert {(plan.revision, plan.patient, plan.store) for plan in plans} == {
        (revision, patient, store)
        for store in ("redis", "sqlite")
        for revision, patient in (("handshake", False), ("handshake", True), ("2026-07-28", False))
    }


def _swapped(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(
        wire, way, data.replace(b'"1-1 ', b'"2-1 ') if way == relay.TO_CLIENT else data
    )


def _lost(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(
        wire, way, b"" if way == relay.TO_CLIENT and b'"1-1 ' in data else data
    )


def _doubled(send: Callable[..., bool]) -> Callable[..., bool]:
    return lambda wire, way, data: send(wire, way, data * 2 if b"tools/call" in data else data)


PLANTED = {  # faults of the line without a record, and the rule that finds each
    "has its own payload": _swapped,
    "what was delivered is not lost": _lost,
    "each copy is answered once": _doubled,
}


@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_fault_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "ONE_BY_ONE", ())
    monkeypatch.setattr(relay._Wire, "send", PLANTED[rule](relay._Wire.send))
    assert rule in rules(run(echoes("9")))


def test_a_leak_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.history.run.SETTLE", 0.1)
    over = threading.Event()
    kept: Any = threading.Thread(target=over.wait, name="kept", daemon=True)
    monkeypatch.setattr("tests.history.run._talk", lambda *_: kept.start())
    outcome = run(echoes("9"))
    over.set()
    kept.join()
    assert [str(wrong) for wrong in outcome.wrong] == [
        "leaves nothing behind: all: ['kept'] Counter()"
    ]


@pytest.fixture(params=["handshake", "2026-07-28"])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(web_relay, "CHANCES", ())
    monkeypatch.setattr(web_relay, "OTHERS", ())
    monkeypatch.setattr(
        "tests.history.run.TIMEOUT", WAIT
    )  # the swapped or repeated call must occur
    return echoes("h9", request.param)


def resend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what many HTTP libraries do when a connection was cut."""

    def send(post: Callable[..., Any], pipe: HttpClientSession, *arguments: Any) -> Any:
        try:
            return post(pipe, *arguments)
        except ConnectionLost:
            return post(pipe, *arguments)

    around(monkeypatch, HttpClientSession, "_post", send)


@pytest.mark.parametrize(
    ("fault", "broken"),
    [("drop", {"is sent once"}), ("cut", {"is sent once", "runs once"})],
    ids=["before it came", "when it had come"],
)
def test_a_client_that_sends_again_is_found(
    plan: Plan, fault: str, broken: "set[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_relay, "CHANCES", ((fault, 0.5),))
    assert run(plan).wrong == []
    resend(monkeypatch)
    found = run(plan)
    assert "is sent once" in rules(found) <= broken, shown(found.events)


def test_a_client_that_swaps_answers_is_found(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    call_tool, before = Client.call_tool, []  # type: ignore[var-annotated]

    def swapped(*arguments: Any, **keywords: Any) -> Any:
        before.append(call_tool(*arguments, **keywords))
        return before[max(0, len(before) - 2)]

    monkeypatch.setattr(Client, "call_tool", swapped)
    assert "has its own payload" in rules(run(plan))


def test_a_server_that_runs_a_call_twice_is_found(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(note: Callable[..., None]) -> Any:
        return make_server(lambda kind, tag: [note(kind, tag)] * 2 and note(kind, tag))

    monkeypatch.setattr("tests.history.run.make_server", twice)
    assert "runs once" in rules(run(plan))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("9", "seed 9: has its own payload: 1-1: it ended with '2-1"),
        ("h9", "seed h9: is sent once: "),
    ],
)
def test_the_command_prints_seed_and_record_of_a_failure(
    name: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Plan, "of", echoes)
    monkeypatch.setattr(relay, "ONE_BY_ONE", ())
    monkeypatch.setattr(relay._Wire, "send", _swapped(relay._Wire.send))
    monkeypatch.setattr(web_relay, "CHANCES", (("cut", 0.5),))
    resend(monkeypatch)
    assert main(["--seed", name]) == 1
    out, err = capsys.readouterr()
    assert out.startswith(f"seed {name}: ") and "begin     1-1" in out
    assert said in err and f"--seed {name}" in err
