"""The cases of HTTP clients find what they look for: each of them fails on a client that has the fault."""

from __future__ import annotations

import gzip
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest

from . import client_web
from .client import Reply
from .hostile import web_server, web_tools
from .test_runner import PATIENT
from .trial import ABSENT, FAIL, PASS, WARN, Outcome, Subject, Trial, run

pytestmark = pytest.mark.figures  # a fault of time is found by the clock

ADAPTER = Path(__file__).resolve().parent / "bad_web_adapter.py"
WAITED_FOR = {"patient", "waits", "resends"}
HASTY = PATIENT._replace(patience=3.0, slack=1.0)
RIGHT = ("K03H", "K04H", "K07H", "K11", "K12", "K13", "K14", "K15", "K16", "K18", "K19")

TRIED: Tuple[Tuple[str, str, str, str], ...] = (
    ("patient", "K11", FAIL, "hung"),
    ("patient", "K08H", FAIL, "hung"),
    ("waits", "K04H", FAIL, "error-not-object"),
    ("resends", "K17", FAIL, "the call was sent 2 times"),
    *(("none", row, PASS, "") for row in RIGHT),
    ("absent", "K11", ABSENT, "no HTTP"),
    ("credulous", "K03H", FAIL, "other-ids: not yours"),
    ("deaf", "K05H", FAIL, "the call was lost"),
    ("none", "K06H", FAIL, "of 50,000,000 bytes arrived"),  # its limit is 1 MB
    ("dies", "K07H", WARN, "invalid-utf8"),
    ("takes", "K07H", FAIL, "invalid-utf8"),
    ("inflates", "K12", FAIL, "memory at most"),
    ("follows", "K13", FAIL, "asked 4 times"),
    ("fetches", "K14", FAIL, "fetched"),
    ("wordy", "K15", FAIL, "characters of error"),
    ("vague", "K15", WARN, "does not name its status"),
    ("half", "K16", FAIL, "cut-unterminated: a success"),
    ("posts", "K18", FAIL, "messages went to another origin"),
    ("echoes", "K19", FAIL, "was sent back"),
)  # fmt: skip


@pytest.fixture(scope="module")
def outcomes() -> Iterator[List[Outcome]]:
    """All of them at once: much of the time is waiting. The bomb is as large as it has to be."""
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(8) as pool:
        small = web_tools.bomb(96)
        patch.setattr(web_server, "one_gigabyte", lambda: small)
        yield list(pool.map(_run, TRIED))


def _run(tried: Tuple[str, str, str, str]) -> Outcome:
    fault, row, _, _ = tried
    subject = Subject((), (sys.executable, "-E", "-S", str(ADAPTER), fault))
    return run(row, subject, HASTY if fault in WAITED_FOR else PATIENT)


@pytest.mark.parametrize("index", range(len(TRIED)), ids=[f"{fault}-{row}" for fault, row, _, _ in TRIED])
def test_faults_are_found(index: int, outcomes: List[Outcome]) -> None:
    _, _, verdict, said = TRIED[index]
    assert outcomes[index].verdict == verdict and said in outcomes[index].observed, outcomes[index]


def test_the_bomb_is_one() -> None:
    squeezed = web_tools.bomb(5)
    assert len(squeezed) < 10_000 and gzip.decompress(squeezed) == bytes(5 << 20)
    assert len(web_tools.bomb(1)) * 1024 < 1_200_000  # so 1 GB is about 1 MB


class Timed:
    """A client whose calls take as long as it is told."""

    def __init__(self, seconds: Dict[int, float], *, most: int = client_web.LIMIT, slow: float = 0.0) -> None:
        self.seconds, self.most, self.slow, self.calls = seconds, most, slow, 0

    def call(self, tool: str, timeout: float, *, bytes: int, **_: Any) -> Reply:
        self.calls += 1
        ok = bytes <= self.most
        took = self.seconds.get(bytes >> 20, 0.0) if ok else self.slow
        return Reply(ok, None if ok else "TooLong", "", took, {"text": "whole"} if ok else {})


def judged(case: Any, *arguments: Any) -> Trial:
    trial = Trial("K06H", Subject((), ()), PATIENT._replace(slack=1.0))
    case(trial, *arguments)
    return trial


def test_a_square_is_told_from_a_line() -> None:
    line, square = Timed({4: 0.1, 8: 0.2, 16: 0.5}), Timed({4: 0.1, 8: 0.4, 16: 1.6})
    assert judged(client_web.linear, line).verdict == PASS and line.calls == 3
    found = judged(client_web.linear, square)
    assert found.verdict == FAIL and "16 MB : 4 MB: 16 times, not 10" in found.said and square.calls == 9


@pytest.mark.parametrize("most, slow, verdict", [
    (client_web.LIMIT, 0.0, PASS), (client_web.LIMIT - 1, 0.0, FAIL), (client_web.LIMIT + 1, 0.0, WARN),
    (client_web.LIMIT - 2, 0.0, FAIL), (client_web.LIMIT, 5.0, FAIL),
])  # fmt: skip
def test_the_limit_is_exact(most: int, slow: float, verdict: str) -> None:
    assert judged(client_web.limit, Timed({}, most=most, slow=slow), "event").verdict == verdict
