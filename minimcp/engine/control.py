"""The control worker: it writes what a connection itself owes, and runs what must not wait."""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Callable, Optional, Union

from .exchange import Exchange

log = logging.getLogger("minimcp.control")

_AT_ONCE = 64
"""Answers that leave together at most: in a flood of pings there is always one more."""

Work = Union[Exchange, Callable[[], Optional[bytes]], None]


class ControlWorker:
    """Refusals, pings and lists, on one thread that nothing else keeps (rule 6). Thread-safe.

    Args:
        enqueue: Adds a line to those that wait for the peer.
        flush: Sends all that waits, among it so many answers; must not raise.
    """

    __slots__ = ("ended", "_enqueue", "_flush", "_work")

    def __init__(self, enqueue: Callable[[bytes], None], flush: Callable[[int], None]) -> None:
        self._enqueue, self._flush = enqueue, flush
        self._work: SimpleQueue[Work] = SimpleQueue()
        self.ended = threading.Event()

    def owe(self, line: bytes) -> None:
        """Have a line written. Never blocks."""
        self._enqueue(line)
        self.flush()

    def deliver(self, line: bytes) -> None:
        """Have an answer written. Never blocks."""
        self._enqueue(line)
        self._work.put(_answered)

    def flush(self) -> None:
        """Have everything written that waits. Never blocks."""
        self._work.put(_nothing)

    def run(self, work: Union[Exchange, Callable[[], Optional[bytes]]]) -> None:
        """Have a request answered, or a function called whose lines are written. Never blocks, not in a finalizer."""
        self._work.put(work)

    def close(self) -> None:
        """End the thread when everything before has been written."""
        self._work.put(None)

    def live(self) -> None:
        """The thread's work; answers that are ready together leave together."""
        try:
            while self._turn():
                pass
        finally:
            self.ended.set()

    def _turn(self) -> bool:
        """Do what waits now; False at the end."""
        work: Work = self._work.get()
        answers = 0
        while work is not None:
            if isinstance(work, Exchange):
                line: Optional[bytes] = work.run()
                if line is not None:
                    self._enqueue(line)
                    answers += 1
            elif work is _answered:
                answers += 1
            else:
                line = _call(work)
                if line is not None:
                    self._enqueue(line)
            if self._work.empty() or answers >= _AT_ONCE:
                break
            work = self._work.get()
        self._flush(answers)
        return work is not None


def _call(work: Callable[[], Optional[bytes]]) -> Optional[bytes]:
    try:
        return work()
    except Exception as error:  # a fault of ours: what the connection owes is still written
        log.error("the control worker: %s", error, exc_info=error)
        return None


def _nothing() -> None:
    return None


def _answered() -> None:
    """An answer was added to the lines that wait for the peer."""
