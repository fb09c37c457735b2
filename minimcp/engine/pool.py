"""`Pool`: the threads that run handlers, with a cap on how many of them run at the same time.

Used by every server (one pool for all its connections and transports) and every client (one pool). A handler that
waits inside this library does not count meanwhile; see `waiting`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Callable, Iterator, Optional, Union
from weakref import WeakSet

log = logging.getLogger("minimcp.pool")

IDLE_SECONDS = 10.0
"""How long a thread without a job is kept."""

Job = Callable[[], object]

here = threading.local()
"""Of each thread: ``pool``, in which it counts as running; ``request``, whose handler it runs."""

renewed_in_fork: WeakSet[Any] = WeakSet()
"""Objects with locks and threads: their `renew_in_fork` is called in a forked process, where the threads are not."""


def _forked() -> None:
    for renewed in list(renewed_in_fork):
        renewed.renew_in_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@contextmanager
def waiting() -> Iterator[None]:
    """For code that is about to wait: the thread does not count in its pool meanwhile, and a queued job may start.

    On threads that no pool counts it does nothing. Every wait of this library for a peer, or for time, is in one.
    """
    pool: Optional[Pool] = getattr(here, "pool", None)
    if pool is None:
        yield
        return
    here.pool = None
    pool._begin_wait()
    try:
        yield
    finally:
        pool._end_wait()
        here.pool = pool


class Pool:
    """Runs jobs in order of arrival on as many threads as may run at the same time.

    Args:
        size: Jobs that run at the same time, not counting those that wait inside this library; None means no limit.
        name: The beginning of the threads' names.

    Thread safety: all methods, from any thread.
    """

    def __init__(self, size: Optional[int], name: str) -> None:
        self.name = name
        self._size = float("inf") if size is None else size
        self._numbers = 0
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Begin without threads."""
        self._lock = threading.RLock()  # a signal handler that cancels a call may come in the middle of this
        self._queue: deque[Union[Job, threading.Event]] = deque()
        self._handed: SimpleQueue[tuple[Optional[Job], bool]] = SimpleQueue()
        self._running = self._idle = 0
        self._keeps = True

    def is_busy(self) -> bool:
        """Whether a job waits for a thread."""
        return bool(self._queue) or not self._handed.empty()

    def submit(self, job: Job) -> None:
        """Run a job on a thread of the pool, as soon as one may start; after those that were submitted before.

        Args:
            job: What it raises is logged.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        with self._lock:
            self._keeps = True
            if self._running >= self._size:
                self._queue.append(job)
                return
            self._running += 1
            reserved = self._reserve()
        self._start(job, True, reserved)

    def spawn(self, job: Job) -> None:
        """Run a job at once, on a thread that does not count."""
        with self._lock:
            self._keeps = True
            reserved = self._reserve()
        self._start(job, False, reserved)

    def run(self, job: Job) -> None:
        """Run a job on this thread, when it may start; after those that were submitted before.

        Blocks: until another job ends or waits, if as many run already as may.
        """
        with self._lock:
            full = self._running >= self._size
            if full:
                gate = threading.Event()
                self._queue.append(gate)
            else:
                self._running += 1
        if full:
            gate.wait()
        outer, here.pool = getattr(here, "pool", None), self
        try:
            job()
        finally:
            here.pool = outer
            self._begin_wait()

    def close(self) -> None:
        """Let idle threads end now, and busy ones after their jobs. What is queued is still run."""
        with self._lock:
            self._keeps = False
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._handed.put((None, False))

    # ------------------------------------------------------------ threads

    def _reserve(self) -> bool:
        """Whether an idle thread takes the next job that is handed over (lock held)."""
        if not self._idle:
            return False
        self._idle -= 1
        return True

    def _start(self, job: Job, counts: bool, reserved: bool) -> None:
        if reserved:
            self._handed.put((job, counts))
            return
        self._numbers += 1
        name = f"{self.name}-{self._numbers}"
        try:
            threading.Thread(target=self._work, args=(job, counts), name=name, daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._running -= counts
            raise

    def _work(self, job: Optional[Job], counts: bool) -> None:
        while job is not None:
            here.pool = self if counts else None
            try:
                job()
            except BaseException as error:  # jobs answer for themselves: this is a fault of ours
                log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
            job = here.pool = here.request = None  # an idle thread keeps nothing of what it did
            job, counts = self._next(counts)

    def _next(self, counted: bool) -> tuple[Optional[Job], bool]:
        """The next job for a thread that has finished one, and whether it counts; None ends the thread."""
        with self._lock:
            job = self._free() if counted else None
            if job is not None:
                return job, True
            if not self._keeps:
                return None, False
            self._idle += 1
        while True:
            try:
                return self._handed.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._reserve():
                        return None, False

    def _free(self) -> Optional[Job]:
        """One job less runs: the next one in its place, which is to be run by the caller (lock held)."""
        if not self._queue or self._running > self._size:
            self._running -= 1
            return None
        job = self._queue.popleft()
        if not isinstance(job, threading.Event):
            return job
        job.set()
        return None

    def _begin_wait(self) -> None:
        with self._lock:
            job = self._free()
            reserved = job is not None and self._reserve()
        if job is None:
            return
        try:
            self._start(job, True, reserved)
        except RuntimeError:  # then the thread that waits now takes it, after its own job
            with self._lock:
                self._queue.appendleft(job)

    def _end_wait(self) -> None:
        with self._lock:
            self._running += 1  # over the cap, if need be: then no job starts until it is below it again

    def __repr__(self) -> str:
        return f"<Pool {self.name!r} {self._running} running, {len(self._queue)} queued, {self._idle} idle>"
