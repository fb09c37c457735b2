"""The runner of tests/faults finds faults: each kind of check fails on a subject with the fault."""

from __future__ import annotations

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import List, Tuple

import pytest

from ..support import ROOT
from . import __main__ as runner
from .catalogue import CLIENT, ROWS
from .trial import ABSENT, CASES, FAIL, PASS, WARN, Options, Outcome, Subject, run

pytestmark = pytest.mark.limit(280, "a row may wait as long as its peer may")

HERE = Path(__file__).resolve().parent
PATIENT = Options(seed=36, patience=30.0, slack=10.0, mutations=200)
HASTY = PATIENT._replace(patience=1.2, slack=0.9)
"""For faults that show in a wait: the others must not fail because the machine is busy."""

SLUGGISH = HASTY._replace(slack=0.15)  # for one that is a little too slow, and always

WAITED_FOR = {
    "hangs", "slow", "forgets", "stays", "stubborn", "waits", "dies", "abandons", "endless", "credulous", "agrees",
    "patient",
}  # fmt: skip


def _options(fault: str, subject: Subject) -> Options:
    if fault == "naive":  # it decodes 8 large bodies at once, however busy the machine is
        return PATIENT._replace(patience=120.0)
    if subject.http:
        return PATIENT
    return SLUGGISH if fault == "slow" else HASTY if fault in WAITED_FOR else PATIENT


def bad_server(fault: str) -> Subject:
    command = (sys.executable, "-E", "-S", str(HERE / "bad_server.py"), fault)
    return Subject(command, (), ("2025-06-18",), frozenset({"echo"}))


def bad_adapter(fault: str) -> Subject:
    return Subject((), (sys.executable, "-E", "-S", str(HERE / "bad_adapter.py"), fault))


def our_http(*before: str) -> Subject:
    tools = frozenset({"echo", "pour", "raiser", "spoil"})
    return Subject(
        (), (), http=(*before, *runner.OUR_HTTP), http_revisions=("2025-11-25",), http_tools=tools
    )


SERVERS: Tuple[Tuple[str, str, str, str], ...] = (
    ("none", "C01", PASS, ""),
    ("none", "C10", PASS, ""),
    ("none", "C16", PASS, ""),
    ("none", "C20", PASS, ""),
    ("none", "C31", PASS, ""),
    ("none", "C26", ABSENT, "no tool deaf_slow"),
    ("silent", "C01", WARN, "no answer to x"),
    ("silent", "C10", FAIL, "no answer to"),
    ("dies", "C01", FAIL, "closed its "),  # output or input: whichever is looked at first
    ("hangs", "C01", FAIL, "nothing came within"),
    ("lenient", "C04", FAIL, "was served"),
    ("mangles", "C02", FAIL, "was served"),
    ("texts", "C07", FAIL, "was not served"),
    ("nameless", "C10", FAIL, "under the id None"),
    ("answers", "C16", FAIL, "answered"),
    ("twice", "C20", FAIL, "unexpected"),
    ("forgets", "C20", FAIL, "unanswered"),
    ("prints", "C22", FAIL, "not JSON"),
    ("swaps", "C22", FAIL, "came back as"),
    ("splits", "C11", FAIL, "U+2028"),
    ("slow", "C18", FAIL, "a sign of life took"),
    ("hoards", "C17", FAIL, "growth"),
    ("dying", "C16", FAIL, "Exception in thread"),
    ("impatient", "C31", FAIL, "of 20 calls"),
    ("stays", "C31", FAIL, "did not end"),
    ("fails", "C31", WARN, "exit code 4"),
    ("stubborn", "C32", FAIL, "did not end"),
)

ADAPTERS: Tuple[Tuple[str, str, str, str], ...] = (
    ("none", "K02", PASS, ""),
    ("none", "K04", PASS, ""),
    ("none", "K22", PASS, ""),
    ("none", "C67", ABSENT, "on_log"),
    ("hangs", "K02", FAIL, "hung"),
    ("credulous", "K03", FAIL, "unknown-ids"),
    ("waits", "K04", FAIL, "error-not-object"),
    ("dies", "K02", FAIL, ""),
    ("talks", "K07", FAIL, "answered a line"),
    ("abandons", "K20", FAIL, "are left"),
    ("hoards", "K22", FAIL, "more descriptors"),
    ("endless", "K24", FAIL, ""),
    ("patient", "K26", FAIL, "hung"),
    ("patient", "K27", FAIL, "hung"),
    ("trusts", "K28", FAIL, "connections elsewhere"),
    ("trusts", "K29", FAIL, "streams of the call"),
    ("trusts", "K30", FAIL, "the answer is lost"),
    ("trusts", "K31", FAIL, "of notices: "),
    ("trusts", "K31", FAIL, "320 cookies"),
    ("trusts", "K32", FAIL, "its peer wrote"),
)

NAIVE = (
    ("C71", "kept"),
    ("C72", "for 8 bodies"),
    ("C73", "ran at once: 100"),
    ("C74", "pushed out the answer"),
    ("C75", "status 503"),
    ("C76", "it slept"),
    ("C77", "its peer wrote"),
)
"""Rows that a server fails which bounds nothing."""


def naive_http() -> Subject:
    command = (sys.executable, "-E", "-S", str(HERE / "naive_http.py"))
    tools = frozenset({"echo", "slow", "count", "big", "pour", "watch", "wait_for", "raiser"})
    return Subject((), (), http=command, http_revisions=("2025-03-26", "2025-11-25", "2026-07-28"), http_tools=tools,
                   tunable=True)  # fmt: skip


AGREEING = our_http(sys.executable, "-m", "tests.faults.toy_proxy")
"""Our server, behind a proxy that makes a success of each refusal."""

REFUSALS = (
    "C39",
    "C41",
    "C42",
    "C43",
    "C44",
    "C51",
    "C53",
    "C54",
)  # rows over HTTP in which a refusal is right

LIED_TO = sorted(
    {row.id for row in ROWS.values() if row.role == CLIENT} - {"K12", "K17", "K20", "K21", "K22"}
)
"""Rows that fail for a client that reports success and does nothing. The other rows would take long
to notice."""

TRIED = [
    *((row, bad_server(fault), fault, verdict, said) for fault, row, verdict, said in SERVERS),
    *((row, bad_adapter(fault), fault, verdict, said) for fault, row, verdict, said in ADAPTERS),
    *((row, naive_http(), "naive", FAIL, said) for row, said in NAIVE),
    *(
        (row, AGREEING, "agrees", FAIL, "served" if row == "C41" else "status 200")
        for row in REFUSALS
    ),
    *((row, bad_adapter("agrees"), "agrees", FAIL, "") for row in LIED_TO),
    (
        "C65",
        bad_server("none")._replace(adapter=bad_adapter("swaps").adapter),
        "swaps",
        FAIL,
        "answer of another",
    ),
]


@pytest.fixture(scope="module")
def outcomes() -> List[Outcome]:
    """Run all of them at once, because they mostly wait."""
    with ThreadPoolExecutor(12) as pool:
        running = {}  # cases that wait come first
        for index in sorted(range(len(TRIED)), key=lambda index: TRIED[index][2] not in WAITED_FOR):
            row, subject, fault, *_ = TRIED[index]
            running[index] = pool.submit(run, row, subject, _options(fault, subject))
        return [running[index].result() for index in range(len(TRIED))]


@pytest.mark.parametrize(
    "index", range(len(TRIED)), ids=[f"{fault}-{row}" for row, _, fault, _, _ in TRIED]
)
def test_faults_are_found(index: int, outcomes: List[Outcome]) -> None:
    _, _, _, verdict, said = TRIED[index]
    assert outcomes[index].verdict == verdict and said in outcomes[index].observed, outcomes[index]


def test_every_row_has_a_case() -> None:
    assert set(CASES) == set(ROWS)
    wanted = {f"C{number:02}" for number in range(1, 78)} | {
        f"K{number:02}" for number in range(1, 33)
    }
    wanted |= {f"K{number:02}H" for number in range(3, 9)}
    assert set(ROWS) == wanted


def test_the_exit_code_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    server = " ".join(bad_server("fails").server)
    assert (
        runner.main(
            ["--server", server, "--only", "C31,C51,K02", "--seed", "5", "--slack", "10", "--table"]
        )
        == 1
    )
    printed = capsys.readouterr().out
    assert f"2 {ABSENT}, 1 {WARN}; seed 5" in printed and f"C31  {WARN}" in printed
    assert "end of input: idle" in printed
    good = " ".join(bad_server("none").server)
    assert runner.main(["--server", good, "--only", "C01", "--slack", "10"]) == 0
    with pytest.raises(SystemExit):
        runner.main(["--only", "C99"])
    assert runner.main(["--list"]) == 0
    assert capsys.readouterr().out.count("\n") > len(ROWS)


def test_a_table_has_a_row_for_each_row() -> None:
    found = [Outcome(id, verdict, "", {}, 0.0) for id, verdict in (("C01", WARN), ("C02", ABSENT))]
    lines = runner.table("one", found).splitlines()
    assert len(lines) == len(ROWS) + 4 and lines[1].split()[-1] == "one"
    assert [line.split()[-1] for line in lines[3:6]] == [WARN, "\\-", "\\-"]


def test_the_page_has_the_table() -> None:
    page = (ROOT / "examples" / "conformance.rst").read_text("utf-8")
    assert page.count(runner.BEGINS) == page.count(runner.ENDS) == 1
    shown = page.split(runner.BEGINS)[1].split(runner.ENDS)[0].strip("\n")
    measured, drawn = shown.split("\n\n", 1)
    lines = drawn.splitlines()
    starts = [match.start() for match in re.finditer("=+", lines[0])]
    cells = [
        [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None])]
        for line in (lines[1], *lines[3:-1])
    ]
    assert [row[:3] for row in cells[1:]] == [
        [row.id, row.fault, row.expected] for row in ROWS.values()
    ]
    names = cells[0][3:]
    assert [line.split(",")[0] for line in measured.splitlines()[::2]] == [
        f"* {name}" for name in names
    ]
    assert names[0] == runner.our_name() and re.search(r"20\d\d-\d\d-\d\d", measured)
    worse = {row[0] for row in cells[1:] if row[3] != PASS}
    explained = page.split(runner.ENDS)[1].split("---")[0]
    assert all(id in explained for id in worse), worse
    assert max(map(len, lines)) <= 120
