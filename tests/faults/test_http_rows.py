"""C53 to C64 find what they look for: each fails on a server that has the fault, and passes on one that has none."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, List, Tuple

import pytest

from ..wire.messages import MODERN
from . import http_many, http_sessions, http_streams
from .http_raw import Site
from .http_streams import resumable
from .toy_proxy import Habits, ToyProxy
from .trial import FAIL, PASS, Options, Outcome, Subject, Trial

pytestmark = pytest.mark.figures  # a fault of time is found by the clock

HERE = Path(__file__).resolve().parent
PATIENT = Options(seed=64, patience=20.0, slack=10.0)
HASTY = PATIENT._replace(patience=2.0, slack=0.3)
TOOLS = frozenset({"echo", "count", "log", "deaf_slow", "report_when_released", "release"})


def bad_site(fault: str) -> Subject:
    command = (sys.executable, "-E", "-S", str(HERE / "bad_site.py"), fault)
    return Subject(
        (), (), http=command, http_revisions=("2024-11-05", "2025-11-25", MODERN), http_tools=TOOLS, tunable=True
    )


def on_site(part: Callable[[Trial, Site], object]) -> Callable[[Trial], None]:
    """A part of a case, on a server of its own."""

    def whole(t: Trial) -> None:
        part(t, t.site())

    return whole


def costs(t: Trial, site: Site) -> None:
    http_sessions.fill(site, "2025-11-25", 10)
    http_sessions.cost(t, site, "2025-11-25", 60)


def ends_idle(t: Trial, site: Site) -> None:
    http_many.ends(t, site, "SIGTERM, idle", 1)


def foreign_ids(t: Trial, site: Site) -> None:
    http_streams._foreign_ids(t, site, resumable(t, site))


def goes_on(t: Trial, site: Site) -> None:
    session = resumable(t, site)
    seen, rest = http_streams._cut_and_resumed(t, site, session, 5, 2)
    t.expect(http_streams.steps(seen + rest) == [1, 2, 3, 4, 5], "steps are missing")
    http_streams._while_it_runs(t, site, session)


def silence(t: Trial) -> None:
    site = http_sessions.hasty(t, keepalive=0.2)
    http_streams._idle(t, site, resumable(t, site))


def zipped(t: Trial, site: Site) -> None:
    with ToyProxy(site.port, Habits(gzips=True)) as proxy:
        http_streams._through(t, site, proxy, "x")


def fifty(t: Trial, site: Site) -> None:
    http_many._at_once(t, site, site.session(MODERN), 40)


def floods(t: Trial, site: Site) -> None:
    http_many._flood(t, site, t.sessions(site))


TRIED: Tuple[Tuple[str, Callable[[Trial], None], str, str, str], ...] = (
    ("C53", http_sessions.paths, "none", PASS, ""),
    ("C53", http_sessions.paths, "anywhere", FAIL, "//mcp got status 200"),
    ("C54", http_sessions.strangers, "none", PASS, ""),
    ("C54", http_sessions.strangers, "anybody", FAIL, "an unknown id got status 200"),
    ("C54", http_sessions.strangers, "immortal", FAIL, "one that has ended got status 200"),
    ("C55", http_sessions.twins, "none", PASS, ""),
    ("C55", http_sessions.twins, "swaps", FAIL, "another"),
    ("C56", http_streams.marks, "none", PASS, ""),
    ("C56", http_streams.marks, "mangles", FAIL, "came back as"),
    ("C56", http_streams.marks, "forges", FAIL, "wrote a line of the log"),
    ("C57", http_sessions.mirrored, "none", PASS, ""),
    ("C57", http_sessions.mirrored, "careless", FAIL, "another method got status 200"),
    ("C58", on_site(costs), "hoards", FAIL, "bytes of a session"),
    ("C58", http_sessions.expiry, "none", PASS, ""),
    ("C58", http_sessions.expiry, "immortal", FAIL, "0 sessions were opened"),
    ("C59", on_site(goes_on), "none", PASS, ""),
    ("C59", on_site(goes_on), "skips", FAIL, "steps are missing"),
    ("C59", on_site(foreign_ids), "none", PASS, ""),
    ("C59", on_site(foreign_ids), "leaks", FAIL, "an id of another session got status 200"),
    ("C60", on_site(ends_idle), "none", PASS, ""),
    ("C60", on_site(ends_idle), "stays", FAIL, "still running"),
    ("C61", on_site(fifty), "none", PASS, ""),
    ("C61", on_site(fifty), "swaps", FAIL, "of 40 at once"),
    ("C61", on_site(http_many._burst), "none", PASS, ""),
    ("C61", on_site(http_many._burst), "narrow", FAIL, "in the backlog"),
    ("C62", http_many.quiet, "talks", FAIL, "lines of log a fault"),
    ("C62", http_many.quiet, "traceback", FAIL, "Traceback in the log"),
    ("C63", silence, "none", PASS, ""),
    ("C63", silence, "silent", FAIL, "no comments come in time"),
    ("C63", on_site(zipped), "none", PASS, ""),
    ("C63", on_site(zipped), "zips", FAIL, "the first step of a call does not come"),
    ("C64", http_sessions.legacy, "none", PASS, ""),
    ("C64", http_sessions.legacy, "anybody", FAIL, "a POST before the GET got status 202"),
)


WAITED_FOR = {"stays", "zips", "immortal", "anybody", "narrow"}
"""Faults that show in a wait."""


def outcome(id: str, case: Callable[[Trial], None], fault: str) -> Outcome:
    trial = Trial(id, bad_site(fault), HASTY if fault in WAITED_FOR else PATIENT)
    try:
        try:
            case(trial)
        finally:
            trial.close()
    except AssertionError as error:
        trial.fail(str(error))
    return trial.outcome(0.0)


@pytest.fixture(scope="module")
def outcomes() -> List[Outcome]:
    """All of them at once: most of the time is waiting."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lambda one: outcome(*one[:3]), TRIED))


@pytest.mark.parametrize("index", range(len(TRIED)), ids=[f"{one[2]}-{one[0]}-{at}" for at, one in enumerate(TRIED)])
def test_faults_are_found(index: int, outcomes: List[Outcome]) -> None:
    _, _, _, verdict, said = TRIED[index]
    found = outcomes[index]
    assert found.verdict == verdict and said in found.observed, found
