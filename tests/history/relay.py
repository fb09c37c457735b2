"""The line between client and server, and the faults that it adds."""

from __future__ import annotations

import heapq
import itertools
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from minimcp.engine.transport import Transport, memory_pair
from minimcp.errors import ConnectionLost
from minimcp.stdio.child import ChildTransport

from ..support import WAIT
from .record import Record

TO_SERVER, TO_CLIENT = "to server", "to client"

ONE_BY_ONE = (("drop", 0.05), ("duplicate", 0.06), ("hold", 0.08), ("delay", 0.25))
"""The faults of a line, with their probabilities. Other lines overtake a held line, and a delayed
line delays the lines behind it."""

LONGEST_DELAY, LONGEST_HOLD = 0.01, 0.04  # seconds


class Meaning(NamedTuple):
    what: str
    call: str = ""
    value: float = 0


def chosen(dice: random.Random, chances: Iterable[Tuple[str, float]]) -> str:
    """Return one of these, each with its probability; mostly none."""
    number = dice.random()
    for name, chance in chances:
        number -= chance
        if number < 0:
            return name
    return ""


class Reader:
    """Finds the calls of messages, by the tags in them and by the ids of requests. Thread-safe."""

    def __init__(self) -> None:
        self._calls: Dict[Tuple[str, str, Any], str] = {}

    def read(self, way: str, message: Any, session: str = "") -> Meaning:
        """Return the meaning of a message in this direction. Ids are those of a session."""
        method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
        if method == "tools/call":
            self._calls[session, way, id] = call = params["arguments"]["tag"]
            return Meaning("request", call)
        if method == "elicitation/create":
            self._calls[session, way, id] = call = params["message"]
            return Meaning("question", call)
        if method == "notifications/progress":
            call = self._calls.get((session, TO_SERVER, params["progressToken"]), "")
            return Meaning("progress", call, params["progress"])
        if method == "notifications/cancelled":
            call = self._calls.get((session, way, params["requestId"]), "")
            return Meaning("cancel" if call else "other", call)
        asked = TO_SERVER if way == TO_CLIENT else TO_CLIENT
        call = self._calls.get((session, asked, id), "") if method is None else ""
        result = message.get("result")
        rounds = isinstance(result, dict) and result.get("resultType") == "input_required"
        return Meaning("round" if rounds else "answer", call) if call else Meaning("other")


class Relay:
    """A relay that a client connects to instead of its server. Each connection is a `_Wire`.
    Thread-safe.

    Messages that belong to no call begin a connection after a loss. They suffer no fault except
    another loss, and that more often, because there are few of them.
    """

    def __init__(
        self,
        open_server: Callable[[], Transport],
        record: Record,
        seed: int,
        breaks: Dict[str, float],
    ) -> None:
        self.open_server, self.record = open_server, record
        self.raging = threading.Event()
        self.wires: List[_Wire] = []
        self._seed = seed
        self._chances = (*ONE_BY_ONE, *breaks.items())
        self._early = tuple(
            (name, 8 * chance) for name, chance in breaks.items() if name != "replace"
        )
        self._seen: "Counter[Tuple[str, Meaning]]" = Counter()
        self._lock = threading.Lock()

    def open_pipe(self) -> Transport:
        """The client's end of a new connection."""
        with self._lock:
            wire = _Wire(self, len(self.wires) + 1)
            self.wires.append(wire)
        return wire.open()

    def fate(self, way: str, meaning: Meaning) -> Tuple[str, random.Random]:
        """Return the fault of a line and the dice for it: the same in every run, whenever the line
        arrives."""
        with self._lock:
            self._seen[way, meaning] += 1
            dice = random.Random(f"{self._seed} {way} {meaning} {self._seen[way, meaning]}")
        chances = self._early if meaning.what == "other" else self._chances
        return chosen(dice, chances if self.raging.is_set() else ()), dice

    def close(self) -> None:
        """End all connections and wait for the threads."""
        for wire in self.wires:
            wire.close()
        for wire in self.wires:
            wire.join()


class _Way:
    """One direction of a connection: a thread that reads, a heap of lines with their times, a
    thread that writes."""

    def __init__(self, wire: _Wire, name: str) -> None:
        self._wire, self._name = wire, name
        self._changed = threading.Condition()
        self._lines: List[Tuple[float, int, bytes, Meaning]] = []
        self._numbers = itertools.count()
        self._floor = 0.0
        self._over = False
        self.threads = [
            threading.Thread(target=work, name=f"relay-{wire.number}-{name}-{part}", daemon=True)
            for work, part in ((self._read, "in"), (self._write, "out"))
        ]

    def _read(self) -> None:
        try:
            while True:
                frames = self._wire.source(self._name)
                if not frames:
                    break
                for line in frames:
                    self._take(line)
        finally:
            if self._name == TO_CLIENT:
                self._wire.relay.record.note("over", on=self._wire.number)
            self.stop()

    def _take(self, line: bytes) -> None:
        wire, relay = self._wire, self._wire.relay
        meaning = wire.reader.read(self._name, json.loads(line))
        relay.record.note(
            "sent" if self._name == TO_SERVER else "answered",
            meaning.call,
            meaning.what,
            value=meaning.value,
            on=wire.number,
        )
        fault, dice = relay.fate(self._name, meaning)
        if fault:
            general = fault not in dict(ONE_BY_ONE)
            relay.record.note("fault", "" if general else meaning.call, fault, on=wire.number)
        if fault in ("half", "cut", "kill"):
            wire.break_off(self._name, fault, line)
        elif fault == "replace":
            wire.replace()
        elif fault != "drop" and not self._over:
            self._put(line, meaning, fault, dice)
        if fault == "finish":
            wire.end_input()

    def _put(self, line: bytes, meaning: Meaning, fault: str, dice: random.Random) -> None:
        now = time.monotonic()
        due = max(now, self._floor)
        if fault == "hold":
            due += dice.uniform(0, LONGEST_HOLD)
        elif fault == "delay":
            self._floor = due = due + dice.uniform(0, LONGEST_DELAY)
        with self._changed:
            heapq.heappush(self._lines, (due, next(self._numbers), line, meaning))
            if fault == "duplicate":
                heapq.heappush(
                    self._lines,
                    (due + dice.uniform(0, LONGEST_HOLD), next(self._numbers), line, meaning),
                )
            self._changed.notify()

    def _next(self) -> Optional[Tuple[bytes, Meaning]]:
        """Return the line that is due, or None at the end."""
        with self._changed:
            while not self._over or self._lines:
                wait = self._lines[0][0] - time.monotonic() if self._lines else None
                if wait is not None and wait <= 0:
                    _, _, line, meaning = heapq.heappop(self._lines)
                    return line, meaning
                self._changed.wait(wait)
        return None

    def _write(self) -> None:
        while True:
            found = self._next()
            if found is None:
                break
            line, meaning = found
            self._wire.relay.record.note(
                "reached" if self._name == TO_SERVER else "delivered",
                meaning.call,
                meaning.what,
                value=meaning.value,
                on=self._wire.number,
            )
            if not self._wire.send(self._name, line + b"\n"):
                break
        self._wire.finish(self._name)

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()


class _Wire:
    """One connection over the relay: the near end is the client's, the far end the server's."""

    def __init__(self, relay: Relay, number: int) -> None:
        self.relay, self.number, self.reader = relay, number, Reader()
        self._client_end, self._near = memory_pair(None)
        self._far = relay.open_server()
        self._lock = threading.Lock()
        self.broken = self.finished = False
        self._ways = {name: _Way(self, name) for name in (TO_SERVER, TO_CLIENT)}

    def open(self) -> Transport:
        for way in self._ways.values():
            for thread in way.threads:
                thread.start()
        return self._client_end

    def source(self, way: str) -> List[bytes]:
        """Yield the lines in this direction. Ends with the line, but not with a server that was
        replaced."""
        while True:
            end = self._near if way == TO_SERVER else self._far
            frames: List[Any] = end.receive()
            if frames or way == TO_SERVER or end is self._far:
                return frames

    def send(self, way: str, data: bytes) -> bool:
        """Forward bytes. Return False if they have no reader."""
        while data:
            end = self._far if way == TO_SERVER else self._near
            try:
                data = data[end.send(data, WAIT) :]
            except ConnectionLost:
                if end is self._near or end is self._far:
                    return False
        return True

    def finish(self, way: str) -> None:
        """Pass the end of a direction on, as a line does: the end of the input, or the end of all."""
        if way == TO_SERVER:
            self._far.close_writing()
        else:
            self._near.close()

    def end_input(self) -> None:
        """Send the server the lines in flight, and then the end of its input. Its responses still
        arrive."""
        self.finished = True
        self._ways[TO_SERVER].stop()

    def has_ended(self, seconds: float) -> bool:
        """Wait until the server has closed its output and all of it has been read. Return False if
        that takes too long."""
        reader = self._ways[TO_CLIENT].threads[0]
        reader.join(seconds)
        return not reader.is_alive()

    def break_off(self, way: str, fault: str, line: bytes) -> None:
        """End the connection: at once, in the middle of a line, or with the server's process."""
        self.broken = True
        if fault == "half":
            self.send(way, line[: len(line) // 2])
        if fault == "kill":
            self._kill(self._far)
        self.close()

    @staticmethod
    def _kill(end: Transport) -> None:
        if isinstance(end, ChildTransport):
            try:
                os.kill(end.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended, and its pipe knows
        end.close()

    def replace(self) -> None:
        """Replace this server with another one, behind a line that stays open."""
        with self._lock:
            if self.broken:
                return
            old, self._far = self._far, self.relay.open_server()
            self._kill(old)

    def close(self) -> None:
        for way in self._ways.values():
            way.stop()
        with self._lock:
            self.broken = True
            self._near.close()
            self._far.close()

    def join(self) -> None:
        for way in self._ways.values():
            for thread in way.threads:
                thread.join(WAIT)
