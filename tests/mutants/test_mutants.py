"""The program of tests/mutants finds faults: each judge fails on a subject with the fault."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any, Callable, Dict, List, cast

import pytest

from minimcp.client import questions
from minimcp.http import sse
from minimcp.http.fetch import Fetcher
from minimcp.protocol import uri_template

from . import __main__ as program, inside, lines, requests, running
from .drawing import CHANGES, culprits, draw
from .inside import Inside, Wrong
from .running import Found, Options

HASTY = Options(seed=3, seconds=0.3, patience=3.0, most=2)  # of what hangs
USUAL = HASTY._replace(
    patience=60.0
)  # a judge that burns its processor's time is not to hang on a busy machine
KEPT: List[bytes] = []


def _wrong(data: bytes) -> None:
    raise Wrong("as it should be")


def _slow(data: bytes) -> None:
    begun = time.thread_time()
    while time.thread_time() < begun + 0.5:
        pass


JUDGES: Dict[str, Any] = {
    "right": (len, ""), "wrong": (_wrong, "Wrong: as it should be"), "slow": (_slow, " s, 0 MB"),
    "hang": (lambda data: time.sleep(60), "no outcome within 3 s"), "end": (lambda data: os._exit(3), "ended: 3"),
    "large": (lambda data: b"1" * (400 << 20), " MB"), "fails": (lambda data: {}[data], "KeyError"),
    "refusing": (lambda data: bytes(1 << 40), "MemoryError"),
}  # fmt: skip


@pytest.mark.parametrize("what", JUDGES)
def test_a_fault_of_a_judge_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, said = JUDGES[what]
    monkeypatch.setitem(inside.KINDS, what, Inside([b"a"], judge))
    found = list(running.run(what, HASTY if what == "hang" else USUAL, 2))
    named = [one for one in found if isinstance(one, Found)]
    expected = [[f"{what}:3:0"], [f"{what}:3:1"]] if said else []
    if what == "large":  # only the most that there ever was is known
        del named[1:], expected[1:]
    assert [one.names for one in named] == expected
    assert all(said in one.why for one in named)


def test_growth_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        inside.KINDS, "hoards", Inside([b"a"], lambda data: KEPT.append(b"x" * (1 << 20)))
    )
    [growth] = running.run("hoards", USUAL, 100)
    assert growth > 50


FAULTS: Dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "events": lambda patch: patch.setattr(sse, "_BOM", b"\xef\xbb"),
    "urls": lambda patch: patch.setattr(Fetcher, "_pool", lambda self, url: (SimpleNamespace(host="b"), url)),
    "templates": lambda patch: patch.setattr(uri_template, "_walk", lambda steps, uri: {}[uri]),
    "forms": lambda patch: patch.setattr(questions, "drop_wrong_defaults", lambda request, fits: {}["x"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_of_the_library_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[kind](monkeypatch)
    judge = running.Judge(kind, Options())
    assert any(judge.judge([f"{kind}:1:{number}"]) for number in range(2000))


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 503 Busy\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nHTTP",
    ],
)
def test_an_invalid_response_is_found(data: bytes) -> None:
    assert requests.fault_of(data)


def test_mutants_are_the_same_for_a_name_and_all_kinds_are_drawn() -> None:
    made = [lines.mutant(f"lines:7:{number}") for number in range(300)]
    assert made == [lines.mutant(f"lines:7:{number}") for number in range(300)]
    assert made != [lines.mutant(f"lines:8:{number}") for number in range(300)]
    vital = sum(lines.expected(line).vital for one in made for line in one.split(b"\n"))
    assert 60 < vital < 200  # some still are requests, and some are not
    corpus = inside.KINDS["schemas"].corpus
    assert (
        sum(inside.read(draw(f"schemas:7:{number}", corpus)) is not None for number in range(300))
        > 120
    )
    assert len(CHANGES) == 7 and sum(program.SHARES.values()) == 100
    assert set(program.SHARES) == {*inside.KINDS, "lines", "requests", "answers"}


@pytest.mark.parametrize("cancelled, lost", [(7, []), (8, ["7"])])
def test_a_call_that_was_cancelled_may_stay_unanswered(cancelled: int, lost: List[str]) -> None:
    cancel = (
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": %d}}'
        % cancelled
    )
    call = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
    assert lines.judge([call, cancel], [lines.expected(call)], Counter()).lost == lost


@pytest.mark.parametrize(("second", "may_come"), [(7, True), (8, False)])
def test_the_result_of_a_line_may_follow_the_error_of_another_with_the_same_id(
    second: int, may_come: bool
) -> None:
    call = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
    doubled = b'{"method": "x", "id": %d, "method": "ping"}' % second
    wants, got = [lines.expected(call), lines.expected(doubled)], Counter({("7", "error"): 1})
    assert (("7", "result") in lines.judge([call, doubled], wants, got).open) is may_come


class Mute:
    """A server that answers valid requests only."""

    revision = "2025-06-18"

    def __init__(self) -> None:
        self.answers: List[Dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        for line in data.splitlines():
            if lines.expected(line).vital:
                self.answers.append({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": {}})

    def poll(self, seconds: float) -> bool:
        return bool(self.answers)

    def message(self) -> Any:
        return self.answers.pop(0)


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": "m26", "result": {Uroots": []}}',
        b'{"jsonrpc": "2.0", "id": "m4", "error": "error": {"code": -1, "message": "no"}}',
        b'{"jsonrpc": "2.0", "id": "m5", "method": "ping"',
        b"[]",
    ],
)
def test_a_broken_line_without_an_answer_is_found(line: bytes) -> None:
    call = b'{"jsonrpc": "2.0", "id": 7, "method": "ping"}'
    judge = lines.Lines(lambda revision: cast(Any, Mute()), [Mute.revision], 0.01)
    assert judge._tried(Mute.revision, judge.servers[Mute.revision], [call]) is None
    why = judge._tried(Mute.revision, judge.servers[Mute.revision], [call, line])
    assert why == "1 lines without an answer"


def test_culprits_are_the_smallest_groups() -> None:
    asked: "Counter[int]" = Counter()

    def judge(numbers: Any) -> bool:
        asked.update([len(numbers)])
        return 11 in numbers or {20, 40} <= set(numbers)

    assert culprits(range(64), judge, 5) == [range(11, 12)]
    assert culprits(range(16, 64), judge) == [range(16, 64)]


def test_the_program_shows_one_mutant_and_judges_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--only", "heads:1:5"]) == 0
    assert "taken as it should be" in capsys.readouterr().out
    assert program.main(["--count", "100", "--seed", "5", "--kinds", "templates,events"]) == 0
    assert "14 mutants, seed 5: 0 taken wrongly" in capsys.readouterr().out
