"""`Pool`: the threads that run handlers, with a cap on how many of them run at the same time.

Used by every server (one pool for all its connections and transports) and every client (one pool). A handler that
waits inside this library does not count meanwhile; see `waiting`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from typing import Any, Callable, ContextManager, Optional, Union
from weakref import WeakSet

log = logging.getLogger("minimcp.pool")

IDLE_SECONDS = 10.0
"""How long a thread without a job is kept."""

COMING = 2
"""How many threads may be on their way to the queue at the same time."""

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


def waiting() -> ContextManager[Any]:
    """For code that is about to wait: the thread does not count in its pool meanwhile, and a queued job may start.

    On threads that no pool counts it does nothing. Every wait of this library for a peer, or for time, is in one.
    """
    pool: Optional[Pool] = getattr(here, "pool", None)
    return _NOTHING if pool is None else _Waiting(pool)


_NOTHING = nullcontext()


class _Waiting:
    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        here.pool = None
        self._pool._begin_wait()

    def __exit__(self, *_: object) -> None:
        self._pool._end_wait()
        here.pool = self._pool


class Pool:
    """Runs jobs in order of arrival on as many threads as may run at the same time.

    At most `COMING` threads at a time are on their way to the queue. One that has taken a job and finds more calls
    another before it begins; so short jobs are run by few threads, and none waits for a slow one while there is room.

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
        self._calls: SimpleQueue[Optional[Job]] = SimpleQueue()  # what idle threads wait for
        self._running = self._idle = self._coming = 0
        self._keeps = True

    def is_busy(self) -> bool:
        """Whether a job waits for a thread."""
        return bool(self._queue)

    def submit(self, job: Job) -> None:
        """Run a job on a thread of the pool, as soon as one may start; after those that were submitted before.

        Args:
            job: What it raises is logged.

        Raises:
            RuntimeError: The system gives no more threads.
        """
        with self._lock:
            self._keeps = True
            self._queue.append(job)
            call = self._has_room()
        if call:
            try:
                self._call(self._look)
            except RuntimeError:
                with self._lock:
                    self._coming -= 1
                    if self._running or job not in self._queue:
                        return  # a thread that runs takes it after its own
                    self._queue.remove(job)
                raise

    def spawn(self, job: Job) -> None:
        """Run a job at once, on a thread that does not count. Errors as `submit`."""
        with self._lock:
            self._keeps = True
        self._call(job)

    def run(self, job: Job) -> None:
        """Run a job on this thread, when it may start; after those that were submitted before.

        Blocks: until another job ends or waits, if as many run already as may.
        """
        gate = threading.Event()
        with self._lock:
            if self._queue or self._running >= self._size:
                self._queue.append(gate)
            else:
                self._running += 1
                gate.set()
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
            self._calls.put(None)

    # ------------------------------------------------------------ threads

    def _has_room(self) -> bool:
        """Whether a thread is to be called for what is queued (lock held)."""
        if self._coming >= min(COMING, len(self._queue)) or self._running >= self._size:
            return False
        self._coming += 1
        return True

    def _call(self, job: Job) -> None:
        """Have a thread that is idle, or a new one, run a job."""
        with self._lock:
            idle = self._idle > 0
            self._idle -= idle
        if idle:
            self._calls.put(job)
            return
        self._numbers += 1
        threading.Thread(target=self._live, args=(job,), name=f"{self.name}-{self._numbers}", daemon=True).start()

    def _live(self, job: Optional[Job]) -> None:
        while job is not None:
            self._run(job)
            job = None  # an idle thread keeps nothing of what it did
            with self._lock:
                if not self._keeps:
                    return
                self._idle += 1
            job = self._next_call()

    def _next_call(self) -> Optional[Job]:
        while True:
            try:
                return self._calls.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if self._idle:
                        self._idle -= 1
                        return None

    def _look(self) -> None:
        """Run what is queued, as long as there is room for it."""
        finished = 0
        while True:
            with self._lock:
                self._running -= finished
                self._coming -= 1 - finished
                job = self._take()
                call = self._has_room()
            if call:
                self._call_another()
            if job is None:
                return
            finished = 1
            here.pool = self
            self._run(job)
            job = here.pool = None

    def _take(self) -> Optional[Job]:
        """The next job of the queue, which counts from now on (lock held)."""
        while self._queue and self._running < self._size:
            self._running += 1
            job = self._queue.popleft()
            if not isinstance(job, threading.Event):
                return job
            job.set()
        return None

    def _run(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:  # jobs answer for themselves: this is a fault of ours
            log.error("%s: %s", threading.current_thread().name, error, exc_info=error)

    def _call_another(self) -> None:
        try:
            self._call(self._look)
        except RuntimeError:  # the system gives no more threads: those that there are look later
            self._coming -= 1

    def _begin_wait(self) -> None:
        with self._lock:
            self._running -= 1
            call = self._has_room()
        if call:
            self._call_another()

    def _end_wait(self) -> None:
        with self._lock:
            self._running += 1  # over the cap, if need be: then no job starts until it is below it again

    def __repr__(self) -> str:
        return f"<Pool {self.name!r} {self._running} running, {len(self._queue)} queued, {self._idle} idle>"
