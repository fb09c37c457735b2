"""One run, over a line or over HTTP: a plan from a seed, the callers, the faults, a quiet end, and
the leaks."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Type

import minimcp
from minimcp import CancelToken, Client, RpcError, ToolError
from minimcp.engine.transport import Transport
from minimcp.stdio.child import ChildTransport, StdioServer

from ..redis_server import redis_server
from ..support import ROOT, WAIT, eventually, held
from .checker import (
    ALL_ANSWERED,
    ANSWERS,
    PATIENT,
    OverHttp,
    OverLines,
    OverShared,
    Story,
    Wrong,
    check,
)
from .record import Event, Journal, Record
from .relay import Relay
from .server import ERROR, make_server, padded
from .web_relay import WebRelay

TOOLS = ("echo", "echo", "work", "work", "ask", "fail", "refuse", "hold")
SETTLE = WAIT  # seconds that threads, descriptors and children may need to end
TIMEOUT = 0.3  # seconds that a call gets while the line is bad
RESUMING = 3.0  # the same of a patient plan

Calls = List[List[Tuple[str, int, bool]]]
"""For each caller its calls: the tool, a size, and whether the call is submitted or made."""


def _calls(dice: random.Random, tools: Tuple[str, ...], few: int, many: int) -> Calls:
    return [
        [
            (dice.choice(tools), dice.choice([1, 3, 5, 8]), dice.random() < 0.3)
            for _ in range(dice.randint(few, many))
        ]
        for _ in range(dice.randint(2, 5))
    ]


class Plan(NamedTuple):
    """The plan that a seed describes."""

    # The seed, which runs the plan again. It begins with h for HTTP, and with s for several
    # processes over HTTP with one store.
    name: str
    process: (
        bool  # whether the server is a process of its own, over HTTP one which ends by being killed
    )
    revision: str
    breaks: Dict[
        str, float
    ]  # how often a line, or a request, brings what ends or confuses a connection
    callers: Calls
    closes: bool  # whether the client is closed while calls are under way
    restart: bool = False
    # whether streams are often cut, and calls have the time that resuming takes: a second
    patient: bool = False
    store: str = ""  # what several processes share: "redis" or "sqlite"

    @property
    def web(self) -> bool:
        return self.name.startswith(("h", "s"))

    @property
    def rules(self) -> Type[Story]:
        """The rules for this plan."""
        return OverShared if self.store else OverHttp if self.web else OverLines

    @classmethod
    def of(cls, name: str) -> Plan:
        """The plan of a seed."""
        if name.startswith("s"):
            dice = random.Random(f"shared {name[1:]}")
            revision, store = (
                dice.choice(["handshake", "handshake", "2026-07-28"]),
                dice.choice(["redis", "sqlite"]),
            )
            patient = revision == "handshake" and dice.random() < 0.7
            callers = _calls(dice, ("work", "work", "ask", "echo") if patient else TOOLS, 3, 6)
            return cls(
                name, True, revision, {"kill": 0.06}, callers, False, patient=patient, store=store
            )
        if name.startswith("h"):
            dice = random.Random(f"http {name[1:]}")
            revision = dice.choice(["handshake", "2026-07-28"])
            patient = revision == "handshake" and dice.random() < 0.3
            callers = _calls(dice, ("work", "work", "ask", "echo") if patient else TOOLS, 3, 6)
            restarts, closes = (
                dice.choice([0.0, 0.0 if patient else 0.03]),
                not patient and dice.random() < 0.2,
            )
            breaks = {"restart": restarts} if restarts else {}
            return cls(
                name, dice.random() < 0.2, revision, breaks, callers, closes, patient=patient
            )
        dice = random.Random(int(name))
        names = dice.choice(
            [(), (), ("cut", "half"), ("kill",), ("cut", "kill", "half"), ("replace",), ("finish",)]
        )
        callers = _calls(dice, TOOLS, 4, 7)
        process, revision = dice.random() < 0.2, dice.choice(["handshake", "2026-07-28"])
        restart, breaks = dice.random() < 0.5, dict.fromkeys(names, 0.02 / max(1, len(names)))
        return cls(name, process, revision, breaks, callers, dice.random() < 0.2, restart)

    def __str__(self) -> str:
        words = [
            "HTTP" if self.web else "a line",
            "a process" if self.process else "in memory",
            self.store,
            self.revision,
            "restarting" * self.restart,
            f"{len(self.callers)} callers",
            *(self.breaks or ["no breaks"]),
            "closed midway" * self.closes,
            "patient" * self.patient,
        ]
        return f"seed {self.name}: {', '.join(filter(None, words))}"


class Outcome(NamedTuple):
    plan: Plan
    events: List[Event]
    wrong: List[Wrong]


class Callers:
    """Calls from several threads; threads with even numbers use the second client, if there is one."""

    def __init__(
        self,
        client: Client,
        record: Record,
        timeout: float = TIMEOUT,
        other: Optional[Client] = None,
    ) -> None:
        self._clients, self._record, self.timeout = (client, other or client), record, timeout
        self._submitted: List[threading.Event] = []

    def make(
        self, tag: str, tool: str, size: int, *, submitted: bool = False, timeout: float = 0.0
    ) -> str:
        """Make a call, and return its ending; empty if another thread records it. 0 means the usual
        timeout."""
        timeout, client = timeout or self.timeout, self._clients[tag.startswith(("2", "4"))]
        token, note = CancelToken(), self._record.note
        arguments = {"tag": tag, "size": size * 500 if tool == "echo" else size}
        options: Dict[str, Any] = {
            "timeout": timeout,
            "cancel": token,
            "on_progress": lambda report: note("item", tag, value=report.progress),
        }
        timer = (
            threading.Timer(TIMEOUT / 4, self._cancel, (tag, token))
            if tool == "hold" and size > 3
            else None
        )
        note("begin", tag, tool, value=timeout)
        if timer is not None:
            timer.start()
        try:
            if submitted:
                future = client.submit(client.call_tool, tool, arguments, **options)
                noted = threading.Event()  # a future is done before its callbacks have run
                self._submitted.append(noted)
                future.add_done_callback(
                    lambda done: [self._end(tag, arguments, done.result), noted.set()]
                )
                return ""
            return self._end(tag, arguments, lambda: client.call_tool(tool, arguments, **options))
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


REFUSALS = (
    -32600,
    -32602,
)  # errors of a server that has seen the id before, and of one without a handshake


def _ending(result: Callable[[], Any]) -> Tuple[str, str, int]:
    """Return how a call ends, its payload, and the error code."""
    try:
        return "value", result().text, 0
    except ToolError as error:
        return "tool error", str(error), 0
    except RpcError as error:
        if error.from_peer and error.code == ERROR:
            return "error", str(error.data), 0
        if error.from_peer and "the process of this request has ended" in str(error):
            return "killed", "", 0
        return (
            ("refused" if error.from_peer and error.code in REFUSALS else repr(error)),
            str(error),
            error.code,
        )
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
    minimcp.ProtocolViolation: "torn",
}


def run(plan: Plan) -> Outcome:
    """Run a plan. The outcome holds the findings; nothing is raised."""
    record, before, wrong = Record(), held(), []
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "journal")

        def events() -> List[Event]:
            return record.events(Journal.read(journal))

        with ExitStack() as ending:
            try:
                if plan.web:
                    _talk_over_http(plan, record, journal, ending)
                else:
                    _talk(plan, record, journal, ending, events)
            except BaseException as error:  # such as a client that cannot be made on a quiet line
                wrong.append(Wrong("runs at all", "", repr(error)))
        happened = events()
    if not eventually(
        lambda: held().named() == before.named() and held().threads <= before.threads, SETTLE
    ):
        names = [thread.name for thread in held().threads - before.threads]
        wrong.append(
            Wrong("leaves nothing behind", "", f"{names} {held().named() - before.named()}")
        )
    return Outcome(plan, happened, wrong + check(happened, plan.rules))


def _elicit(request: Any) -> Dict[str, str]:
    return {"tag": request.message}


def _talk(
    plan: Plan, record: Record, journal: Path, ending: ExitStack, events: Callable[[], List[Event]]
) -> None:
    server = make_server(record.note)
    ending.callback(server.close)
    command = [sys.executable, "-S", "-m", "tests.history.server", str(journal)]

    def start() -> Transport:
        return ChildTransport(
            StdioServer(command, cwd=ROOT), grace=1.0, stderr=lambda line: None, limit=None
        )

    relay = Relay(start if plan.process else server.open_pipe, record, int(plan.name), plan.breaks)
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


def _talk_over_http(plan: Plan, record: Record, journal: Path, ending: ExitStack) -> None:
    store = (
        [ending.enter_context(redis_server(journal.parent)).url] if plan.store == "redis" else []
    )
    store += [str(journal.with_name("store.db"))] if plan.store == "sqlite" else []
    servers = 3 if plan.store else 1
    relay = WebRelay(
        lambda: _start(plan, record, journal, *store),
        record,
        int(plan.name[1:]),
        plan.breaks,
        plan.patient,
        servers,
    )
    ending.callback(relay.close)

    def connected(name: str) -> Client:
        return clients.enter_context(
            minimcp.connect(
                relay.url,
                revision=plan.revision,
                elicit=_elicit,
                connect_timeout=WAIT,
                headers={"X-Client": name},
            )
        )

    with ExitStack() as clients:
        client, other = connected("1"), connected("2") if plan.store else None
        timeout = (PATIENT if plan.store else RESUMING) if plan.patient else TIMEOUT
        callers = Callers(client, record, timeout, other)
        relay.raging.set()
        call_side_by_side(client, callers, plan, record)
        relay.raging.clear()
        callers.make(
            "quiet", "echo", 1, timeout=WAIT
        )  # a session that has just ended may still be noticed here
        callers.make("last", "echo", 1, timeout=WAIT)
        record.note("close")


def _start(
    plan: Plan, record: Record, journal: Path, *store: str
) -> Tuple[int, Callable[[], None]]:
    """A server over HTTP: its port, and what ends it."""
    if not plan.process:
        server = make_server(record.note)
        return server.start_http().port, server.close
    command = [
        sys.executable,
        *([] if store else ["-S"]),
        "-m",
        "tests.history.server",
        str(journal),
        "http",
        *store,
    ]
    child = subprocess.Popen(
        command,
        cwd=str(ROOT),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def end() -> None:
        child.kill()
        child.communicate(timeout=WAIT)

    assert child.stdout is not None
    return int(child.stdout.readline()), end


def call_side_by_side(client: minimcp.Client, callers: Callers, plan: Plan, record: Record) -> None:
    """Let all callers of a plan, over any transport, make their calls at once. Return when all have
    ended."""
    threads = [
        threading.Thread(
            target=call_all, args=(callers, number, calls), name=f"caller-{number}", daemon=True
        )
        for number, calls in enumerate(plan.callers, 1)
    ]
    for thread in threads:
        thread.start()
    if plan.closes:
        eventually(
            lambda: sum(event.kind == "end" for event in record.events()) >= len(threads) * 2
        )
        record.note("close")
        client.close()
    for thread in threads:
        thread.join(WAIT)
    callers.finish()


def call_all(callers: Callers, number: int, calls: List[Tuple[str, int, bool]]) -> None:
    for turn, (tool, size, submitted) in enumerate(calls, 1):
        callers.make(f"{number}-{turn}", tool, size, submitted=submitted)


def _end_quietly(
    callers: Callers, relay: Relay, record: Record, events: Callable[[], List[Event]]
) -> None:
    """On a line that is good again a last call is answered, if there is a connection; and so is all
    that was done."""
    ended = callers.make("last", "echo", 1, timeout=WAIT)
    for wire in relay.wires:
        if wire.finished and wire.has_ended(WAIT):
            record.note("settled", on=wire.number)
    if ended in ANSWERS and not relay.wires[-1].broken and not relay.wires[-1].finished:
        record.note("settled", on=relay.wires[-1].number)
        eventually(lambda: not any(wrong.rule == ALL_ANSWERED for wrong in check(events())))
