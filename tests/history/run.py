"""One run, over a line or over HTTP: a plan from a seed, callers, a bad hour, a quiet end, and what is left of it."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple, Union

import minimcp
from minimcp import CancelToken, Client, RpcError, ToolError
from minimcp.engine.transport import Transport
from minimcp.stdio.child import ChildTransport, StdioServer

from ..support import ROOT, WAIT, eventually, held
from .checker import ALL_ANSWERED, ANSWERS, RULES, WEB_RULES, Wrong, check
from .record import Event, Journal, Record
from .relay import Relay
from .server import ERROR, make_server, padded
from .web_relay import WebRelay

TOOLS = ("echo", "echo", "work", "work", "ask", "fail", "refuse", "hold")

SETTLE = WAIT  # seconds that threads, descriptors and children may take to go away

TIMEOUT = 0.3  # seconds that a call gets while the line is bad

PATIENT = 3.0  # the same of a patient plan

Calls = List[List[Tuple[str, int, bool]]]
"""For each caller its calls: the tool, a size, and whether the call is submitted or made."""


def _calls(dice: random.Random, tools: Tuple[str, ...], few: int, many: int) -> Calls:
    return [
        [(dice.choice(tools), dice.choice([1, 3, 5, 8]), dice.random() < 0.3) for _ in range(dice.randint(few, many))]
        for _ in range(dice.randint(2, 5))
    ]


class Plan(NamedTuple):
    seed: int
    stdio: bool
    revision: str
    restart: bool
    breaks: Dict[str, float]
    callers: Calls
    closes: bool  # whether the client is closed while calls are under way

    @classmethod
    def of(cls, seed: int) -> Plan:
        dice = random.Random(seed)
        names = dice.choice([(), (), ("cut", "half"), ("kill",), ("cut", "kill", "half"), ("replace",), ("finish",)])
        callers = _calls(dice, TOOLS, 4, 7)
        return cls(
            seed, dice.random() < 0.2, dice.choice(["handshake", "2026-07-28"]), dice.random() < 0.5,
            dict.fromkeys(names, 0.02 / max(1, len(names))), callers, dice.random() < 0.2,
        )

    @property
    def name(self) -> str:
        return str(self.seed)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {'stdio' if self.stdio else 'memory'}, {self.revision}, "
            f"{'restarting, ' if self.restart else ''}{len(self.callers)} callers, "
            f"{', '.join(self.breaks) or 'no breaks'}{', closed midway' if self.closes else ''}"
        )


class WebPlan(NamedTuple):
    """What a seed stands for over HTTP."""

    seed: int
    process: bool  # whether the server is a process of its own, which ends by being killed
    revision: str
    restarts: float  # how often a request brings the end of the server, and another one
    callers: Calls
    closes: bool  # whether the client is closed while calls are under way
    patient: bool
    """Whether streams are often cut, and calls have the time that resuming takes: the server asks to wait a second."""

    @classmethod
    def of(cls, seed: int) -> WebPlan:
        """The plan of a seed."""
        dice = random.Random(f"http {seed}")
        revision = dice.choice(["handshake", "2026-07-28"])
        patient = revision == "handshake" and dice.random() < 0.3
        callers = _calls(dice, ("work", "work", "ask", "echo") if patient else TOOLS, 3, 6)
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


class Outcome(NamedTuple):
    plan: Any  # its ``name`` runs it again
    events: List[Event]
    wrong: List[Wrong]


class Callers:
    """Those who call."""

    def __init__(self, client: Client, record: Record, timeout: float = TIMEOUT) -> None:
        self._client, self._record, self.timeout = client, record, timeout
        self._submitted: List[threading.Event] = []

    def make(self, tag: str, tool: str, size: int, *, submitted: bool = False, timeout: float = 0.0) -> str:
        """Make a call; how it ended, or empty when somebody else will see. 0 stands for the timeout of all."""
        timeout = timeout or self.timeout
        token, note = CancelToken(), self._record.note
        arguments = {"tag": tag, "size": size * 500 if tool == "echo" else size}
        options: Dict[str, Any] = {
            "timeout": timeout, "cancel": token,
            "on_progress": lambda report: note("item", tag, value=report.progress),
        }
        timer = threading.Timer(TIMEOUT / 4, self._cancel, (tag, token)) if tool == "hold" and size > 3 else None
        note("begin", tag, tool, value=timeout)
        if timer is not None:
            timer.start()
        try:
            if submitted:
                future = self._client.submit(self._client.call_tool, tool, arguments, **options)
                noted = threading.Event()  # a future is done before those hear of it who asked to
                self._submitted.append(noted)
                future.add_done_callback(lambda done: [self._end(tag, arguments, done.result), noted.set()])
                return ""
            return self._end(tag, arguments, lambda: self._client.call_tool(tool, arguments, **options))
        except BaseException as error:  # submit itself
            return self._end(tag, arguments, partial(_throw, error))
        finally:
            if timer is not None:
                timer.join(WAIT)

    def _cancel(self, tag: str, token: CancelToken) -> None:
        self._record.note("cancel", tag)
        token.cancel("enough")

    def _end(self, tag: str, arguments: Dict[str, Any], result: Callable[[], Any]) -> str:
        what, payload, code = _ending(result)
        if payload == padded(tag, arguments["size"]):
            payload = tag
        self._record.note("end", tag, what, payload=payload[:200], value=code)
        return what

    def finish(self) -> None:
        for noted in self._submitted:
            noted.wait(WAIT)


def _throw(error: BaseException) -> Any:
    raise error


REFUSALS = (-32600, -32602)  # what a server answers that has seen the id before, and one that knows of no handshake


def _ending(result: Callable[[], Any]) -> Tuple[str, str, int]:
    """How a call ends, what comes with it, and the code of a refusal."""
    try:
        return "value", result().text, 0
    except ToolError as error:
        return "tool error", str(error), 0
    except RpcError as error:
        if error.from_peer and error.code == ERROR:
            return "error", str(error.data), 0
        return ("refused" if error.from_peer and error.code in REFUSALS else repr(error)), str(error), error.code
    except minimcp.McpError as error:
        kind = next((name for known, name in ENDS.items() if isinstance(error, known)), None)
        return kind or repr(error), str(error) if kind in ("lost", "failed") else "", 0
    except BaseException as error:
        return repr(error), "", 0


ENDS = {
    minimcp.RequestTimeout: "timeout",
    minimcp.Cancelled: "cancelled",
    minimcp.ConnectionLost: "lost",
    minimcp.ConnectionFailed: "failed",
}


def run(plan: Union[Plan, WebPlan]) -> Outcome:
    """Run a plan. What it finds is in the outcome; nothing is raised."""
    record, before, wrong = Record(), held(), []
    web = isinstance(plan, WebPlan)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "journal")

        def events() -> List[Event]:
            return record.events(Journal.read(journal))

        with ExitStack() as ending:
            try:
                if isinstance(plan, WebPlan):
                    _talk_over_http(plan, record, journal, ending)
                else:
                    _talk(plan, record, journal, ending, events)
            except BaseException as error:  # such as a client that cannot be made on a quiet line
                wrong.append(Wrong("runs at all", "", repr(error)))
        happened = events()
    if not eventually(lambda: held().named() == before.named() and held().threads <= before.threads, SETTLE):
        names = [thread.name for thread in held().threads - before.threads]
        wrong.append(Wrong("leaves nothing behind", "", f"{names} {held().named() - before.named()}"))
    return Outcome(plan, happened, wrong + check(happened, WEB_RULES if web else RULES))


def _elicit(request: Any) -> Dict[str, str]:
    return {"tag": request.message}


def _talk(plan: Plan, record: Record, journal: Path, ending: ExitStack, events: Callable[[], List[Event]]) -> None:
    server = make_server(record.note)
    ending.callback(server.close)
    command = [sys.executable, "-S", "-m", "tests.history.server", str(journal)]

    def start() -> Transport:
        return ChildTransport(StdioServer(command, cwd=ROOT), grace=1.0, stderr=lambda line: None, limit=None)

    relay = Relay(start if plan.stdio else server.open_pipe, record, plan.seed, plan.breaks)
    ending.callback(relay.close)
    with minimcp.connect(
        relay, revision=plan.revision, restart=plan.restart, elicit=_elicit, connect_timeout=WAIT
    ) as client:
        callers = Callers(client, record)
        relay.raging.set()
        call_side_by_side(client, callers, plan, record)
        relay.raging.clear()
        _end_quietly(callers, relay, record, events)
        record.note("close")


def _talk_over_http(plan: WebPlan, record: Record, journal: Path, ending: ExitStack) -> None:
    relay = WebRelay(lambda: _start(plan, record, journal), record, plan.seed, plan.restarts, plan.patient)
    ending.callback(relay.close)
    with minimcp.connect(relay.url, revision=plan.revision, elicit=_elicit, connect_timeout=WAIT) as client:
        callers = Callers(client, record, PATIENT if plan.patient else TIMEOUT)
        relay.raging.set()
        call_side_by_side(client, callers, plan, record)
        relay.raging.clear()
        callers.make("quiet", "echo", 1, timeout=WAIT)  # a session that has ended meanwhile may be noticed beside it
        callers.make("last", "echo", 1, timeout=WAIT)
        record.note("close")


def _start(plan: WebPlan, record: Record, journal: Path) -> Tuple[int, Callable[[], None]]:
    """A server over HTTP: its port, and what ends it."""
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


def call_side_by_side(client: minimcp.Client, callers: Callers, plan: Any, record: Record) -> None:
    """Have all callers of a plan, over whatever transport, make their calls at once; return when none is left."""
    threads = [
        threading.Thread(target=call_all, args=(callers, number, calls), name=f"caller-{number}", daemon=True)
        for number, calls in enumerate(plan.callers, 1)
    ]
    for thread in threads:
        thread.start()
    if plan.closes:
        eventually(lambda: sum(event.kind == "end" for event in record.events()) >= len(threads) * 2)
        record.note("close")
        client.close()
    for thread in threads:
        thread.join(WAIT)
    callers.finish()


def call_all(callers: Callers, number: int, calls: List[Tuple[str, int, bool]]) -> None:
    for turn, (tool, size, submitted) in enumerate(calls, 1):
        callers.make(f"{number}-{turn}", tool, size, submitted=submitted)


def _end_quietly(callers: Callers, relay: Relay, record: Record, events: Callable[[], List[Event]]) -> None:
    """On a line that is good again a last call is answered, if there is a connection; and so is all that was done."""
    ended = callers.make("last", "echo", 1, timeout=WAIT)
    for wire in relay.wires:
        if wire.finished and wire.has_ended(WAIT):
            record.note("settled", on=wire.number)
    if ended in ANSWERS and not relay.wires[-1].broken and not relay.wires[-1].finished:
        record.note("settled", on=relay.wires[-1].number)
        eventually(lambda: not any(wrong.rule == ALL_ANSWERED for wrong in check(events())))
