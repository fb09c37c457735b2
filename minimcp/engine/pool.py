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
from typing import Any, Callable, Iterator, Optional
from weakref import WeakSet

log = logging.getLogger("minimcp.pool")

IDLE_SECONDS = 10.0
"""How long a thread without a job is kept."""

COMING = 2
"""How many jobs may be on their way to a thread at the same time."""

Job = Callable[[], object]

here = threading.local()
"""Of each thread: ``pool``, in which it counts as running; ``request``, whose handler it runs."""

renewed_in_fork: WeakSet[Any] = WeakSet()
"""Objects with locks and threads: their `renew_in_fork` is called in a forked process, where the threads are not."""


def _forked() -> None:
    for renewed in list(renewed_in_fork):
        renewed.renew_in_fork()


getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_forked)  # Windows has no fork


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
    pool.count(-1)
    try:
        yield
    finally:
        pool.count(1)  # over the cap, if need be: then no job starts until it is below it again
        here.pool = pool


class Pool:
    """Runs jobs in order of arrival on as many threads as may run at the same time.

    At most `COMING` jobs at a time are on their way to a thread. One that has taken a job sends the next before it
    begins; so short jobs are run by few threads, and none waits for a slow one while there is room.

    Args:
        size: Jobs that run at the same time, not counting those that wait inside this library; None means no limit.
        name: The beginning of the threads' names.

    Attributes:
        queue: What waits for its place: jobs, and the events of threads that wait in `run`.

    Where the system gives no more threads, jobs wait for one that there is.

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
        self.queue: deque[Any] = deque()
        self._sent: SimpleQueue[tuple[Job, bool]] = SimpleQueue()  # jobs for threads, and whether they count
        self._running = self._coming = 0
        self._idle = 0  # threads without a job, less the jobs that are sent; less than 0 where threads are missing
        self._keeps = True

    def submit(self, job: Job) -> None:
        """Run a job on a thread of the pool, as soon as one may start; after those that were submitted before.

        What it raises is logged.
        """
        with self._lock:
            self._keeps = True
            self.queue.append(job)
            self._advance()

    def spawn(self, job: Job) -> None:
        """Run a job at once, on a thread that does not count."""
        with self._lock:
            self._keeps = True
            self._sent.put((job, False))
            self._idle -= 1
            self._advance()

    def run(self, job: Job) -> None:
        """Run a job on this thread, when it may start; after those that were submitted before.

        Blocks: until another job ends or waits, if as many run already as may.
        """
        place = threading.Event()
        with self._lock:
            self.queue.append(place)
            self._advance()
        place.wait()
        outer, here.pool = getattr(here, "pool", None), self
        try:
            job()
        finally:
            here.pool = outer
            self.count(-1)

    def close(self) -> None:
        """Let idle threads end now, and busy ones after their jobs. What is queued is still run."""
        with self._lock:
            for _ in range(self._idle):
                self.spawn(bool)  # a job that does nothing
            self._keeps = False

    def count(self, change: int) -> None:
        """A thread counts from now on (1), or does not any more (-1)."""
        with self._lock:
            self._running += change
            self._advance()

    # ------------------------------------------------------------ threads

    def _advance(self) -> None:
        """Begin what is queued, as far as there is room, and start the threads that are missing (lock held)."""
        while self.queue and self._running < self._size:
            if isinstance(self.queue[0], threading.Event):
                self.queue.popleft().set()
            elif self._coming < COMING:
                self._sent.put((self.queue.popleft(), True))
                self._coming += 1
                self._idle -= 1
            else:
                break
            self._running += 1
        while self._idle < 0:
            self._numbers += 1
            try:
                threading.Thread(target=self._live, name=f"{self.name}-{self._numbers}", daemon=True).start()
            except RuntimeError as error:  # a thread that there is takes it later, or the next look here starts one
                log.error("%s: %s", self.name, error)
                return
            self._idle += 1

    def _live(self) -> None:
        while True:
            try:
                job, counts = self._sent.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                continue  # one was sent just now
            with self._lock:
                self._coming -= counts
                self._advance()
            here.pool = self if counts else None
            try:
                job()
            except BaseException as error:  # jobs answer for themselves: this is a fault of ours
                log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
            del job  # an idle thread keeps nothing of what it did
            here.pool = None
            with self._lock:
                self._running -= counts
                self._idle += 1
                self._advance()
                if not self._keeps and self._idle > 0:
                    self._idle -= 1
                    return

    def __repr__(self) -> str:
        return f"<Pool {self.name!r} {self._running} running, {len(self.queue)} queued, {self._idle} idle>"
