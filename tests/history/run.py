"""One run: a plan from a seed, callers, the line's bad hour, a quiet end, and what is left of it all."""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import minimcp
from minimcp import CancelToken, Client, RpcError, ToolError
from minimcp.engine.transport import Transport
from minimcp.stdio.child import ChildTransport, StdioServer

from ..support import ROOT, WAIT, eventually, held
from .checker import ALL_ANSWERED, ANSWERS, Wrong, check
from .record import Event, Journal, Record
from .relay import Relay
from .server import ERROR, make_server, padded

TOOLS = ("echo", "echo", "work", "work", "ask", "fail", "refuse", "hold")

SETTLE = WAIT
"""Seconds that threads, descriptors and children may take to go away."""

TIMEOUT = 0.3
"""Seconds that a call gets while the line is bad."""


class Plan(NamedTuple):
    seed: int
    stdio: bool
    revision: str
    restart: bool
    breaks: Dict[str, float]
    callers: List[List[Tuple[str, int, bool]]]
    """For each caller its calls: the tool, a size, and whether the call is submitted or made."""
    closes: bool
    """Whether the client is closed while calls are under way."""

    @classmethod
    def of(cls, seed: int) -> Plan:
        dice = random.Random(seed)
        names = dice.choice([(), (), ("cut", "half"), ("kill",), ("cut", "kill", "half"), ("replace",), ("finish",)])
        callers = [
            [(dice.choice(TOOLS), dice.choice([1, 3, 5, 8]), dice.random() < 0.3) for _ in range(dice.randint(4, 7))]
            for _ in range(dice.randint(2, 5))
        ]
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


class Outcome(NamedTuple):
    plan: Any
    """Its ``name`` runs it again."""
    events: List[Event]
    wrong: List[Wrong]


class Callers:
    """Those who call.

    Args:
        client: What they call.
        record: Takes what happens.
        timeout: Seconds that a call gets while the line is bad.
    """

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
        """Wait for what was submitted; what does not end has no ending in the record."""
        for noted in self._submitted:
            noted.wait(WAIT)


def _throw(error: BaseException) -> Any:
    raise error


REFUSALS = (-32600, -32602)
"""What a server answers that has seen the id before, and one that knows of no handshake."""


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


def run(plan: Plan) -> Outcome:
    """Run a plan. What it finds is in the outcome; nothing is raised."""
    record = Record()
    before = held()
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder, "journal")
        server = make_server(record.note)
        command = [sys.executable, "-S", "-m", "tests.history.server", str(journal)]

        def start() -> Transport:
            return ChildTransport(StdioServer(command, cwd=ROOT), grace=1.0, stderr=lambda line: None, limit=None)

        relay = Relay(start if plan.stdio else server.open_pipe, record, plan.seed, plan.breaks)
        wrong = []
        try:
            _talk(plan, relay, record, lambda: record.events(Journal.read(journal)))
        except BaseException as error:  # such as a client that cannot be made on a quiet line
            wrong.append(Wrong("runs at all", "", repr(error)))
        finally:
            relay.close()
            server.close()
        events = record.events(Journal.read(journal))
    gone = eventually(lambda: held().named() == before.named() and held().threads <= before.threads, SETTLE)
    if not gone:
        names = [thread.name for thread in held().threads - before.threads]
        wrong.append(Wrong("leaves nothing behind", "", f"{names} {held().named() - before.named()}"))
    return Outcome(plan, events, wrong + check(events))


def _talk(plan: Plan, relay: Relay, record: Record, events: Callable[[], List[Event]]) -> None:
    def elicit(request: Any) -> Dict[str, str]:
        return {"tag": request.message}

    with minimcp.connect(
        relay, revision=plan.revision, restart=plan.restart, elicit=elicit, connect_timeout=WAIT
    ) as client:
        callers = Callers(client, record)
        relay.raging.set()
        call_side_by_side(client, callers, plan, record)
        relay.raging.clear()
        _end_quietly(callers, relay, record, events)
        record.note("close")


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
