"""One run over HTTP: a plan from a seed, callers, requests and responses that suffer, a quiet end."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import minimcp

from ..support import ROOT, WAIT, eventually, held
from .checker import Wrong, check
from .record import Journal, Record
from .run import SETTLE, TIMEOUT, TOOLS, Callers, Outcome, call_side_by_side
from .server import make_server
from .web_checker import WEB_RULES
from .web_relay import WebRelay

PATIENT = 3.0
"""Seconds that a call of a patient plan gets."""


class WebPlan(NamedTuple):
    seed: int
    process: bool
    """Whether the server is a process of its own, which ends by being killed."""
    revision: str
    restarts: float
    """How often a request brings the end of the server, and another one."""
    callers: List[List[Tuple[str, int, bool]]]
    """For each caller its calls: the tool, a size, and whether the call is submitted or made."""
    closes: bool
    """Whether the client is closed while calls are under way."""
    patient: bool
    """Whether streams are often cut, and calls have the time that resuming takes: the server asks to wait a second."""

    @classmethod
    def of(cls, seed: int) -> WebPlan:
        dice = random.Random(f"http {seed}")
        revision = dice.choice(["handshake", "2026-07-28"])
        patient = revision == "handshake" and dice.random() < 0.3
        tools = ("work", "work", "ask", "echo") if patient else TOOLS
        callers = [
            [(dice.choice(tools), dice.choice([1, 3, 5, 8]), dice.random() < 0.3) for _ in range(dice.randint(3, 6))]
            for _ in range(dice.randint(2, 5))
        ]
        restarts, closes = dice.choice([0.0, 0.0 if patient else 0.03]), not patient and dice.random() < 0.2
        return cls(seed, dice.random() < 0.2, revision, restarts, callers, closes, patient)

    @property
    def name(self) -> str:
        return f"h{self.seed}"

    def __str__(self) -> str:
        return (
            f"seed {self.name}: HTTP, {'a process' if self.process else 'in memory'}, {self.revision}, "
            f"{len(self.callers)} callers{', restarts' if self.restarts else ''}"
            f"{', closed midway' if self.closes else ''}{', patient' if self.patient else ''}"
        )


def run(plan: WebPlan) -> Outcome:
    """Run a plan. What it finds is in the outcome; nothing is raised."""
    record = Record()
    before = held()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "journal")
        relay = WebRelay(lambda: _start(plan, record, journal), record, plan.seed, plan.restarts, plan.patient)
        try:
            _talk(plan, relay, record)
        except BaseException as error:  # such as a client that cannot be made on a quiet line
            wrong.append(Wrong("runs at all", "", repr(error)))
        finally:
            relay.close()
        events = record.events(Journal.read(journal))
    if not eventually(lambda: held().named() == before.named() and held().threads <= before.threads, SETTLE):
        names = [thread.name for thread in held().threads - before.threads]
        wrong.append(Wrong("leaves nothing behind", "", f"{names} {held().named() - before.named()}"))
    return Outcome(plan, events, wrong + check(events, WEB_RULES))


def _start(plan: WebPlan, record: Record, journal: Path) -> Tuple[int, Callable[[], None]]:
    """A server: its port, and what ends it."""
    if not plan.process:
        server = make_server(record.note)
        return server.start_http().port, server.close
    command = [sys.executable, "-S", "-m", "tests.history.server", str(journal), "http"]
    child = subprocess.Popen(
        command, cwd=str(ROOT), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )

    def end() -> None:
        child.kill()
        child.communicate(timeout=WAIT)

    assert child.stdout is not None
    return int(child.stdout.readline()), end


def _talk(plan: WebPlan, relay: WebRelay, record: Record) -> None:
    def elicit(request: Any) -> Dict[str, str]:
        return {"tag": request.message}

    with minimcp.connect(relay.url, revision=plan.revision, elicit=elicit, connect_timeout=WAIT) as client:
        callers = Callers(client, record, PATIENT if plan.patient else TIMEOUT)
        relay.raging.set()
        call_side_by_side(client, callers, plan, record)
        relay.raging.clear()
        callers.make("quiet", "echo", 1, timeout=WAIT)  # a session that has ended meanwhile may be noticed beside it
        callers.make("last", "echo", 1, timeout=WAIT)
        record.note("close")
