"""Runs over HTTP: a few seeds are as they should be, and a client that is not is found."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest

from minimcp import Client
from minimcp.errors import ConnectionLost
from minimcp.http.client import HttpSession

from ..support import WAIT
from . import web_relay
from .__main__ import main
from .checker import check
from .record import shown
from .web_checker import WEB_RULES
from .web_relay import Response
from .web_run import WebPlan, run

SEEDS = (3, 4, 7, 18)
"""Quick ones: both eras, with and without restarts, and one whose streams are resumed."""


@pytest.mark.parametrize("seed", SEEDS)
def test_c66_every_call_ends_once_and_rightfully(seed: int) -> None:
    outcome = run(WebPlan.of(seed))
    assert not outcome.wrong, "\n".join([str(outcome.plan), *map(str, outcome.wrong), shown(outcome.events)])
    ends = [place for place, event in enumerate(outcome.events) if event.kind == "end"]
    assert len(ends) > 4
    for place in ends:  # and the checker would have seen it
        event = outcome.events[place]
        for changed in ([], [event] * 2, [event._replace(what="value", payload="somebody's")]):
            assert check([*outcome.events[:place], *changed, *outcome.events[place + 1 :]], WEB_RULES) != []


def test_seeds_are_plans_of_every_kind() -> None:
    plans = [WebPlan.of(seed) for seed in range(100)]
    assert plans == [WebPlan.of(seed) for seed in range(100)]
    assert {(plan.process, plan.revision) for plan in plans} == {
        (process, revision) for process in (False, True) for revision in ("handshake", "2026-07-28")
    }
    assert {(bool(plan.restarts), plan.closes, plan.patient) for plan in plans} == {
        (False, False, False), (False, False, True), (False, True, False), (True, False, False), (True, True, False),
    }


# ------------------------------------------------------------ clients that are not as they should be


def echoes(revision: str) -> WebPlan:
    """Two callers, and nothing that happens to what they say but what is planted."""
    return WebPlan(9, False, revision, 0.0, [[("echo", 1, False)] * 3] * 2, False, False)


@pytest.fixture(params=["handshake", "2026-07-28"])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> WebPlan:
    monkeypatch.setattr(web_relay, "CHANCES", ())
    monkeypatch.setattr(web_relay, "OTHERS", ())
    monkeypatch.setattr("tests.history.web_run.TIMEOUT", WAIT)  # what is swapped or run twice has to come
    return echoes(request.param)


def resending(post: Callable[..., Any]) -> Callable[..., Any]:
    """What many HTTP libraries do when a connection was cut."""

    def send(pipe: HttpSession, *arguments: Any) -> Any:
        try:
            return post(pipe, *arguments)
        except ConnectionLost:
            return post(pipe, *arguments)

    return send


@pytest.mark.parametrize(
    ("fault", "rules"),
    [("drop", {"is sent once"}), ("cut", {"is sent once", "runs once"})],
    ids=["before it came", "when it had come"],
)
def test_a_client_that_sends_again_is_found(
    plan: WebPlan, fault: str, rules: "set[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_relay, "CHANCES", ((fault, 0.5),))
    assert run(plan).wrong == []
    monkeypatch.setattr(HttpSession, "_post", resending(HttpSession._post))
    found = run(plan)
    assert "is sent once" in {wrong.rule for wrong in found.wrong} <= rules, shown(found.events)


def test_a_client_that_swaps_answers_is_found(plan: WebPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(plan).wrong == []
    call_tool, before = Client.call_tool, []  # type: ignore[var-annotated]

    def swapped(*arguments: Any, **keywords: Any) -> Any:
        before.append(call_tool(*arguments, **keywords))
        return before[max(0, len(before) - 2)]

    monkeypatch.setattr(Client, "call_tool", swapped)
    assert "has its own payload" in {wrong.rule for wrong in run(plan).wrong}


def test_a_server_that_runs_a_call_twice_is_found(plan: WebPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.history.web_run.make_server", lambda note: _twice(note))
    assert "runs once" in {wrong.rule for wrong in run(plan).wrong}


def _twice(note: Callable[..., None]) -> Any:
    from .server import make_server

    return make_server(lambda kind, tag: [note(kind, tag)] * 2 and note(kind, tag))


def test_the_command_prints_seed_and_record_of_what_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(WebPlan, "of", lambda seed: echoes("handshake"))
    monkeypatch.setattr(web_relay, "CHANCES", (("cut", 0.5),))
    monkeypatch.setattr(HttpSession, "_post", resending(HttpSession._post))
    assert main(["--seed", "h9"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("seed h9: ") and "begin     1-1" in out
    assert "seed h9: is sent once: " in err and "--seed h9" in err


# ------------------------------------------------------------ the relay

STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"f\r\nid: 1\ndata: \n\n\r\n\r\n9\r\ndata: {}\n\r\nb\r\n\ndata: [1]\n\r\n1\r\n\n\r\n0\r\n\r\n"
)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n\r\n[2]"
EMPTY = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("data", "messages"), [(STREAM, [b"{}", b"[1]"]), (WHOLE, [b"[2]"]), (EMPTY, [])])
def test_responses_are_read_however_they_come(data: bytes, messages: List[bytes], size: int) -> None:
    response, found = Response(), []
    for start in range(0, len(data), size):
        assert not response.done
        found += response.feed(data[start : start + size])
    assert response.done and found == messages
