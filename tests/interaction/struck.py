"""A process whose main thread is struck by a timer's signal anywhere in its writes; started by test_ctrl_c.py."""

from __future__ import annotations

import signal
import sys
from typing import Any, List

from minimcp.engine.outbox import Outbox

import minimcp
from minimcp.engine.transport import MemoryPipe

from ..scripted import Task
from ..striking import Struck
from ..support import WAIT


def many_writes() -> None:
    """Frames of this thread are torn nowhere, and another one's arrive all the same."""
    ours, theirs = MemoryPipe.pair(capacity=100)
    out = Outbox(ours, patience=WAIT, max_backlog=None)
    count, struck, armed = 300, 0, False

    def read_all() -> List[Any]:
        lines: List[Any] = []
        while b"end" not in lines:
            lines += theirs.receive()
        return lines

    def disturb() -> None:
        for number in range(count):
            out.write(b"theirs %d\n" % number)

    def stop(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:  # else it comes late: another thread took the signal for this one
            armed = False
            raise Struck

    reading, disturbing = Task(read_all), Task(disturb)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for number in range(count):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 150))
                out.write(b"ours %d %s\n" % (number, b"x" * 200))
                armed = False
            except Struck:
                struck += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    disturbing.result()
    Task(out.write, b"end\n").result()
    lines = reading.result()
    assert struck
    assert [line for line in lines if line[:6] == b"theirs"] == [b"theirs %d" % number for number in range(count)]
    ours_seen = [line for line in lines if line[:4] == b"ours"]
    assert ours_seen == sorted(set(ours_seen), key=lambda line: int(line.split()[1]))
    assert all(line.endswith(b" " + b"x" * 200) for line in ours_seen)
    assert len(lines) == count + len(ours_seen) + 1
    ours.close()
    theirs.close()


def calls_while_others_call() -> None:
    """The main thread is struck anywhere in its calls and notifications; another thread calls all the time."""
    server = minimcp.Server("struck")

    @server.tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    armed = False
    struck = 0

    def stop(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Struck

    def others(client: Any) -> None:
        for number in range(200):
            assert client.call_tool("echo", {"text": str(number)}).text == str(number)

    with minimcp.connect(server, timeout=WAIT) as client:
        calling = Task(others, client)
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for number in range(150):
                try:
                    armed = True
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 * (1 + number % 30))
                    client.notify("vendor/noted", {"number": number})
                    assert client.call_tool("echo", {"text": "mine"}).text == "mine"
                    armed = False
                except Struck:
                    struck += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        calling.result()
        assert struck
        assert client.call_tool("echo", {"text": "still there"}).text == "still there"
    server.close()


if __name__ == "__main__":
    {"many_writes": many_writes, "calls_while_others_call": calls_while_others_call}[sys.argv[1]]()
    print("done")
