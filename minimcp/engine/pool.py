"""`Pool`: worker threads that run handlers, with a limit on how many run at the same time.

A server has one pool for all its connections, and so does a client. Tasks run in a separate pool
with the same limit (`extensions.tasks`, `extensions.host_tasks`). A handler that waits inside this
library does not count towards the limit while it waits; see `waiting`.

Other parts of the library use a pool without handlers: the bundled HTTP server for threads that
read requests, without a limit; `http.client` for one thread that sends messages in the background;
and `client.group` for threads that work with many clients at the same time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional
from weakref import WeakSet

from ..log import exit_gate, logger

log = logger("minimcp.pool")

# Seconds after which an idle thread ends.
IDLE_SECONDS = 10.0

Job = Callable[[], object]


class _ThisThread(threading.local):
    """State of the current thread. The defaults are attributes of the class, because a check for a
    missing attribute takes ten times as long."""

    # The pool that counts this thread as running.
    pool: Any = None
    # The incoming request whose handler this thread runs.
    request: Any = None
    # The trace context for calls that this thread makes for another thread's handler.
    trace_context: dict[str, str] = {}


this_thread = _ThisThread()

# Objects with locks or threads. Threads do not survive a fork, so `renew_in_fork` of each object is
# called in the child process.
renewed_in_fork: WeakSet[Any] = WeakSet()


def renew_all_in_fork() -> None:
    """Call `renew_in_fork` of each object in `renewed_in_fork`. Python calls this after a fork."""
    for renewed in list(renewed_in_fork):
        renewed.renew_in_fork()


# Windows has no fork.
getattr(os, "register_at_fork", lambda **_: None)(after_in_child=renew_all_in_fork)


class waiting:  # noqa: N801 (used like a function)
    """Do not count the current thread towards its pool's limit inside the block.

    Rule 3 of `connection.py`: enter this around every wait inside the library, so that a queued job
    can start while a handler waits. The one exception is a write to a slow HTTP peer. On a thread
    that no pool counts, this does nothing.
    """

    def __enter__(self) -> None:
        self._pool: Optional[Pool] = this_thread.pool
        if self._pool is not None:
            this_thread.pool = None
            self._pool.count_running(-1)

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            # The thread counts again even if the pool is then above its limit. No queued job starts
            # until the pool is below the limit again.
            self._pool.count_running(1)
            this_thread.pool = self._pool


class Pool:
    """Runs jobs in order of arrival, with a limit on how many run at the same time.

    A thread that finishes a job takes the next job from the queue. If more jobs can start, one more
    thread is woken or started for the queue. When that thread reaches the queue, it wakes or starts
    the next thread. As a result, short jobs run on a few threads, with few switches between them,
    and no job waits behind a slow job while the limit allows another job.

    The following holds whenever the lock is free: if a job is queued and the limit allows it, a
    thread is on its way to the queue. The only exception is that the system could not start a
    thread. Then the job waits for a thread that finishes another job, or for the next call of
    `_advance`.

    Args:
        size: Maximum number of jobs that run at the same time, not counting those inside `waiting`.
            None means no limit.
        name: Prefix of the threads' names.

    Attributes:
        queue: The queued jobs in order of arrival. For a thread that waits in `run`, the entry is
            an event.

    Thread-safe.
    """

    def __init__(self, size: Optional[int], name: str) -> None:
        self.name = name
        self._limit = float("inf") if size is None else size
        self.threads_started = 0
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Reset to an empty pool without threads."""
        # Reentrant: a signal handler that cancels a call may run while this thread holds the lock.
        self._lock = threading.RLock()
        self.queue: deque[Any] = deque()
        # One inbox for each idle thread. With a single shared queue, every job would wake two
        # threads: a thread that takes an item from a `SimpleQueue` wakes the next one.
        self._idle: list[SimpleQueue[Optional[Job]]] = []
        # Jobs from `spawn` for which the system had no thread.
        self._without_thread: deque[Job] = deque()
        self._running = 0
        # Whether a thread was woken or started for the queue and has not reached it.
        self._thread_is_coming = False
        # Whether idle threads wait for the next job. False until the first job is submitted. A
        # worker thread that calls `fork` finds False in the child process, and so ends there after
        # its job.
        self._keeps_idle_threads = False

    def submit(self, *jobs: Job) -> None:
        """Enqueue jobs, which start in order as soon as the limit allows.

        Exceptions that they raise are logged.
        """
        with self._lock:
            self._keeps_idle_threads = True
            self.queue.extend(jobs)
            self._advance()

    def spawn(self, job: Job) -> None:
        """Run a job at once on a thread that does not count towards the limit."""
        with self._lock:
            self._keeps_idle_threads = True
            if not self._wake_thread(job):
                self._without_thread.append(job)

    def run(self, job: Job, counter: Any = None) -> None:
        """Run a job on the calling thread, after the jobs that are already in the queue.

        Blocks until the limit allows another job.

        Args:
            job: The job.
            counter: The object whose `count_running` is called when the job waits inside `waiting`;
                None means this pool.
        """
        with self._lock:
            # If jobs are queued but no thread is on its way to them, the system could not start
            # one. Waiting behind those jobs could take forever, so this job starts first.
            is_free = self._running < self._limit and not (self.queue and self._thread_is_coming)
            if is_free:
                self._running += 1
            else:
                turn = threading.Event()
                self.queue.append(turn)
                self._advance()
        if not is_free:
            try:
                turn.wait()
            except BaseException:  # KeyboardInterrupt: give the turn back
                with self._lock:
                    if turn in self.queue:
                        self.queue.remove(turn)
                    else:
                        self.count_running(-1)
                raise
        outer = this_thread.pool
        this_thread.pool = counter or self
        try:
            job()
        finally:
            this_thread.pool = outer
            with self._lock:  # as `count_running`; every HTTP request takes this path
                self._running -= 1
                if self.queue or self._without_thread:
                    self._advance()

    def close(self) -> None:
        """End idle threads now, and busy threads after their current job. Queued jobs still run."""
        with self._lock:
            for _ in list(self._idle):
                self.spawn(bool)  # wakes the thread; `bool` does nothing
            self._keeps_idle_threads = False

    def count_running(self, change: int) -> None:
        """Add `change` to the number of running jobs, and start queued jobs if there is room."""
        with self._lock:
            self._running += change
            if self.queue or self._without_thread:
                self._advance()

    # ------------------------------------------------------------ threads

    def _advance(self) -> None:
        """Start as many jobs as the limit allows. The caller holds the lock."""
        while self._without_thread and self._wake_thread(self._without_thread[0]):
            self._without_thread.popleft()
        while self.queue and self._running < self._limit:
            if not isinstance(self.queue[0], threading.Event):
                # The thread that reaches the queue wakes the next one.
                self._thread_is_coming = self._thread_is_coming or self._wake_thread(None)
                break
            self._running += 1
            self.queue.popleft().set()

    def _wake_thread(self, job: Optional[Job]) -> bool:
        """Wake an idle thread, or start one, for `job`. None means the next queued job.

        Return False if the system cannot start a thread. The caller holds the lock.
        """
        if self._idle:
            self._idle.pop().put(job)
            return True
        self.threads_started += 1
        name = f"{self.name}-{self.threads_started}"
        try:
            threading.Thread(target=self._work, args=(job,), name=name, daemon=True).start()
            return True
        except RuntimeError as error:  # an existing thread or a later `_advance` runs the job
            log.error("%s: %s", self.name, error)
            return False

    def _work(self, job: Optional[Job]) -> None:
        """Run jobs until the thread has been idle for too long.

        The first job comes from `spawn` and is not counted. If it is None, the thread takes its
        first job from the queue.
        """
        inbox: SimpleQueue[Optional[Job]] = SimpleQueue()
        while True:
            is_counted = job is None
            if job is None:
                with self._lock:
                    self._thread_is_coming = False
                    job = self._next(inbox, finished=False)
            if is_counted:
                this_thread.pool = self
            with exit_gate:  # a handler may print
                while job is not None:
                    try:
                        job()
                    except BaseException as error:  # jobs handle their exceptions: this is a bug
                        log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
                    job = None  # an idle thread must not keep a job's objects alive
                    job = self._next(inbox, finished=is_counted)
                    if not is_counted:
                        is_counted = True
                        this_thread.pool = self
                    if exit_gate.closed:  # pragma: no cover - the thread never returns from it
                        exit_gate.stop_if_closed()
            this_thread.pool = None
            try:
                # Not a timeout of 0, which waits forever in some Python versions.
                job = inbox.get(self._keeps_idle_threads, IDLE_SECONDS)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                job = inbox.get()  # it arrived after the timeout

    def _next(self, inbox: SimpleQueue[Optional[Job]], *, finished: bool) -> Optional[Job]:
        """Take the next job from the queue, or mark the thread as idle and return None.

        Args:
            inbox: The inbox of the thread.
            finished: Whether the thread has finished a job that counts towards the limit.
        """
        # Not a `with` block, which takes three times as long: this runs between any two jobs.
        self._lock.acquire()
        try:
            self._running -= finished
            job: Optional[Job] = None
            while job is None and self.queue and self._running < self._limit:
                first = self.queue.popleft()
                self._running += 1
                if type(first) is threading.Event:
                    first.set()
                else:
                    job = first
            if job is None:
                self._idle.append(inbox)
            if self._without_thread or (self.queue and not self._thread_is_coming):
                self._advance()
            return job
        finally:
            self._lock.release()

    def __repr__(self) -> str:
        counts = f"{self._running} running, {len(self.queue)} queued, {len(self._idle)} idle"
        return f"<Pool {self.name!r} {counts}>"
