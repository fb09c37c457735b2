"""A record of events in one order, written by many threads and read by the checker."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Iterable, List, NamedTuple, Sequence


class Event(NamedTuple):
    """One event. Its kind is one of these:

    begin
        A caller starts a call; `what` is the tool, `value` its timeout in seconds.
    item
        The caller received progress; `value` is the amount.
    cancel
        The caller's token is cancelled.
    end
        The call ended; `what` is the kind of the outcome, `payload` its text.
    sent
        The client wrote a message; `what` is "request", "cancel", "answer" or "other".
    reached
        The message was delivered to the server.
    answered
        The server wrote "answer", "progress", "question" or "other".
    delivered
        The message was delivered to the client; `value` is the amount of progress.
    fault
        The fault that the line added to this message, or to all.
    run, done
        A handler began, or returned.
    over
        The server has closed its output, and all output has been read.
    settled
        All calls have ended, and the connection is open.
    close
        The client is closed.
    """

    at: float  # seconds, monotonic, the same clock in all processes
    kind: str
    call: str = ""  # the tag of the call, which is also its payload; empty for an event of no call
    what: str = ""
    value: float = 0
    payload: str = ""
    on: int = 0  # the number of the connection, from 1; 0 for an event of no connection

    def line(self, start: float) -> str:
        words = [
            f"{(self.at - start) * 1000:9.2f} ms",
            f"{self.on or '':>2}",
            f"{self.kind:<9}",
            f"{self.call:<6}",
        ]
        words += [
            self.what,
            f"{self.value:g}" if self.value else "",
            repr(self.payload) if self.payload else "",
        ]
        return " ".join(words).rstrip()


class Record:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: List[Event] = []

    def note(
        self,
        kind: str,
        call: str = "",
        what: str = "",
        *,
        value: float = 0,
        payload: str = "",
        on: int = 0,
    ) -> None:
        with self._lock:
            self._events.append(Event(time.monotonic(), kind, call, what, value, payload, on))

    def events(self, others: Iterable[Event] = ()) -> List[Event]:
        with self._lock:
            return sorted([*self._events, *others], key=lambda event: event.at)


class Journal:
    """The same for a server in a process of its own, which may be killed at any moment: a file of
    lines."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - it lives as long as the process

    def note(self, kind: str, call: str = "") -> None:
        self._file.write(
            json.dumps([time.monotonic(), kind, call]).encode() + b"\n"
        )  # one write: whole or not at all

    @staticmethod
    def read(path: Path) -> List[Event]:
        lines = path.read_bytes().splitlines() if path.exists() else []
        return [Event(*json.loads(line)) for line in lines]


def shown(events: Sequence[Event]) -> str:
    """A record for people."""
    start = events[0].at if events else 0.0
    return "\n".join(event.line(start) for event in events)
