"""Rule 1: the hot lane, where one worker runs quick handlers one after the other, and its watcher.

Not here: what a handler is, or whom its answer goes to. A job is an object with ``run()``, which returns the bytes to
be written, or None, and never raises; and ``pace``, which remembers how quick its handler is.
"""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional

from .workers import Workers, here

TICK = 0.002
"""Seconds between two looks of a watcher; a handler that is seen twice in a row is slow."""

PARK_AFTER = 50
"""Looks without anything to watch after which a watcher goes to sleep."""

QUICK_AGAIN = 16
"""Quick runs in a row after which a slow handler counts as quick again."""

GATHER_BYTES = 64 * 1024
GATHER_SECONDS = 0.001


class Pace:
    """How quick a handler is, from what was seen of it. Changed without a lock: a lost update costs one hand-over."""

    __slots__ = ("slow", "known", "_quick_runs")

    def __init__(self, *, slow: bool = False, known: bool = False) -> None:
        self.slow, self.known, self._quick_runs = slow, slow or known, 0

    def was_slow(self) -> None:
        """It held its thread for a tick or more."""
        self.slow = self.known = True
        self._quick_runs = 0

    def was_quick(self) -> None:
        """It returned within a tick."""
        self._quick_runs += 1
        if not self.known or (self.slow and self._quick_runs >= QUICK_AGAIN):
            self.slow, self.known, self._quick_runs = False, True, 0


class _AlwaysSlow(Pace):
    __slots__ = ()

    def was_quick(self) -> None:
        """It changes nothing: the author has decided."""


ALWAYS_SLOW = _AlwaysSlow(slow=True)
"""For handlers that always get a worker of their own (``executor="pool"``)."""


class _Turn:
    """One worker's time as the hot one; also the seat that its job gives back while it waits."""

    __slots__ = ("lane", "job", "gathered", "worker", "ended", "_given_back")

    def __init__(self, lane: HotLane, gathered: list[bytes]) -> None:
        self.lane, self.gathered = lane, gathered
        self.job: Any = None
        self.worker: Any = None
        self.ended = False
        self._given_back = 0

    def __enter__(self) -> None:
        self.lane.hand_over(self)
        if self.ended:
            self._given_back += 1
            self.worker.__enter__()

    def __exit__(self, *_: object) -> None:
        if self._given_back:  # the watcher may have ended the turn since: only what was given is taken
            self._given_back -= 1
            self.worker.__exit__()


class HotLane:
    """Rule 1: one *hot* worker drains the queue and gathers the answers; a handler that holds it is left behind.

    Args:
        workers: Where threads come from.
        write: Writes bytes to the peer that hold so many answers; called by workers, and must not raise.

    `put` belongs to the reader's thread, everything else is thread-safe.
    """

    def __init__(self, workers: Workers, write: Callable[[bytes, int], None]) -> None:
        self.name = workers.name
        self._workers, self._write = workers, write
        self._arrived: list[Any] = []
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._turn_lock = threading.Lock()
        self._hot: Optional[_Turn] = None
        self._watcher = _Watcher(self)
        self._closed = False

    def open(self) -> None:
        """Start the hot worker and its watcher.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        self._start_turn([])
        self._watcher.open()

    def put(self, job: Any) -> None:
        """Queue a job; `wake` has to follow."""
        self._arrived.append(job)

    def wake(self) -> None:
        """Hand over the jobs that were put."""
        if self._arrived:
            for job in self._arrived:
                self._queue.put(job)
            self._arrived.clear()

    def _start_turn(self, gathered: list[bytes]) -> None:
        before, turn = self._hot, _Turn(self, gathered)
        self._hot = turn
        try:
            self._workers.start(lambda: self._drain(turn), beyond_cap=True)
        except RuntimeError:
            self._hot = before
            raise

    def _drain(self, turn: _Turn) -> None:
        """Be the hot worker until a handler takes too long."""
        turn.worker, here.seat = here.seat, turn
        self._workers.give_back()  # while it is hot it needs no permit
        queue, watcher, lock, clock = self._queue, self._watcher, self._turn_lock, time.monotonic
        since = size = 0.0
        self._flush(turn)
        while True:
            if queue.empty():
                self._flush(turn)
                job = answer = None  # a worker that waits keeps nothing of the last call
            job = queue.get()
            if job is None:
                self._flush(turn)
                self._workers.take_again()
                return
            pace = job.pace
            if pace.slow:
                self._start_alone(_Alone(job, self._write))
                continue
            if turn.gathered and (not pace.known or size > GATHER_BYTES or clock() - since > GATHER_SECONDS):
                self._flush(turn)
            turn.job = job
            if watcher.parked:
                watcher.wake()
            answer = job.run()
            with lock:
                turn.job = None
                still_hot = self._hot is turn
                if still_hot and answer is not None:
                    if not turn.gathered:
                        size, since = 0.0, clock()
                    turn.gathered.append(answer)
                    size += len(answer)
            if not still_hot:
                if answer is not None:
                    self._write(answer, 1)
                return
            pace.was_quick()

    def _start_alone(self, alone: _Alone) -> None:
        try:
            self._workers.start(alone.run)
        except RuntimeError:  # no more threads: better late than never
            alone.run()

    def _flush(self, turn: _Turn) -> None:
        gathered = turn.gathered
        if gathered:
            turn.gathered = []
            self._write(gathered[0] if len(gathered) == 1 else b"".join(gathered), len(gathered))

    def hand_over(self, turn: _Turn, job: Any = None) -> None:
        """Make another worker hot because this one's job is slow or waits; once for each turn.

        Args:
            turn: The turn that ends.
            job: Only if it still runs this job; None ends the turn whatever it runs.
        """
        with self._turn_lock:
            running = turn.job
            if self._hot is not turn or running is None or job not in (None, running) or self._closed:
                return
            running.pace.was_slow()
            gathered, turn.gathered = turn.gathered, []
            try:
                self._start_turn(gathered)
            except RuntimeError:  # no more threads: the old turn has to go on
                turn.gathered = gathered
            else:
                turn.ended = True
                self._workers.take_again()  # from now on its job runs like any other

    def running(self) -> tuple[Optional[_Turn], Any]:
        """The turn and the job that hold the lane now (the watcher's look)."""
        turn = self._hot
        return turn, None if turn is None else turn.job

    def close(self) -> list[Any]:
        """End the hot worker and the watcher; returns the jobs that were never begun."""
        with self._turn_lock:
            self._closed = True
        left = []
        while not self._queue.empty():
            try:
                left.append(self._queue.get_nowait())
            except Empty:
                break
        self._queue.put(None)
        self._watcher.close()
        return [job for job in left if job is not None]


class _Alone:
    """A slow handler's job on a worker of its own."""

    __slots__ = ("_job", "_write")

    def __init__(self, job: Any, write: Callable[[bytes, int], None]) -> None:
        self._job, self._write = job, write

    def run(self) -> None:
        began = time.monotonic()
        answer = self._job.run()
        if time.monotonic() - began < TICK:
            self._job.pace.was_quick()
        else:
            self._job.pace.was_slow()
        if answer is not None:
            self._write(answer, 1)


class _Watcher:
    """Looks at the hot worker every tick while there is one at work (one of the two sleep-and-look loops)."""

    __slots__ = ("parked", "_lane", "_gate", "_closed")

    def __init__(self, lane: HotLane) -> None:
        self.parked = False
        self._lane = lane
        self._gate: SimpleQueue[None] = SimpleQueue()
        self._closed = False

    def open(self) -> None:
        threading.Thread(target=self._watch, name=f"{self._lane.name}-watcher", daemon=True).start()

    def wake(self) -> None:
        self.parked = False
        self._gate.put(None)

    def close(self) -> None:
        self._closed = True
        self._gate.put(None)

    def _watch(self) -> None:
        seen: Any = None
        quiet = 0
        while not self._closed:
            try:
                self._gate.get(timeout=TICK)
            except Empty:
                pass
            turn, job = self._lane.running()
            if turn is not None and job is not None and job is seen:
                self._lane.hand_over(turn, job)
            quiet = quiet + 1 if job is None and seen is None else 0
            seen = job
            if quiet >= PARK_AFTER:
                quiet = 0
                self._park()

    def _park(self) -> None:
        self.parked = True
        if self._lane.running()[1] is None and not self._closed:
            self._gate.get()
        self.parked = False
