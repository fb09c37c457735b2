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

    A thread that has run a job takes the next from the queue. While jobs wait that may start, one more thread is on its
    way to them; once it runs it sends for the next. So short jobs are run by few threads, with few switches between
    them, and none waits for a slow one while there is room.

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
        self._sent: SimpleQueue[Optional[Job]] = SimpleQueue()  # for idle threads: a job; None: look at the queue
        self._running = 0
        self._called = False  # whether a thread is on its way to the queue
        self._idle = 0  # threads without a job, less what is sent to them; less than 0 where threads are missing
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
            self._sent.put(job)
            self._idle -= 1
            self._advance()

    def run(self, job: Job) -> None:
        """Run a job on this thread, when it may start; after those that were submitted before.

        Blocks: until another job ends or waits, if as many run already as may.
        """
        with self._lock:
            # Where the system gives no threads, nobody comes for those that are queued before.
            begins = self._running < self._size and (not self.queue or self._idle < 0)
            if begins:
                self._running += 1
            else:
                place = threading.Event()
                self.queue.append(place)
                self._advance()
        if not begins:
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
        """Let the first in the queue begin, if one may, or call a thread for it; start what is missing (lock held)."""
        while self.queue and self._running < self._size:
            if not isinstance(self.queue[0], threading.Event):
                if not self._called:
                    self._called = True
                    self._sent.put(None)
                    self._idle -= 1
                break
            self._running += 1
            self.queue.popleft().set()
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
                sent = self._sent.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                continue  # one was sent just now
            job = self._next(called=True) if sent is None else sent
            counts = sent is None
            while job is not None:
                here.pool = self if counts else None
                try:
                    job()
                except BaseException as error:  # jobs answer for themselves: this is a fault of ours
                    log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
                job = sent = None  # an idle thread keeps nothing of what it did
                here.pool = None
                job, counts = self._next(ran=counts), True
            with self._lock:
                if not self._keeps and self._idle > 0:
                    self._idle -= 1
                    return

    def _next(self, *, called: bool = False, ran: bool = False) -> Optional[Job]:
        """What a thread runs next; None: nothing may start, and it is idle.

        Args:
            called: Whether it was called to the queue.
            ran: Whether it has counted until now.
        """
        with self._lock:
            self._running -= ran
            self._called = self._called and not called
            job: Optional[Job] = None
            while job is None and self.queue and self._running < self._size:
                first = self.queue.popleft()
                self._running += 1
                if isinstance(first, threading.Event):
                    first.set()
                else:
                    job = first
            if job is None:
                self._idle += 1
            self._advance()
            return job

    def __repr__(self) -> str:
        return f"<Pool {self.name!r} {self._running} running, {len(self.queue)} queued, {self._idle} idle>"
