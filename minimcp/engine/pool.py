"""`Pool`: the threads that run handlers, with a cap on how many of them run at the same time.

A server has one for all its connections, and so has a client; tasks, at a server
(`extensions.tasks.Tasks`) or at a client (`extensions.host_tasks.HostTasks`), run in one of their
own with the same cap. A handler that waits inside this library does not count meanwhile; see
`waiting`.

Others have no handlers of their own: that of the bundled HTTP server, without a cap, whose threads
read requests (the handlers that those run count in the server's, `Pool.run`); one thread by which a
client over HTTP sends what nobody waits for (`http.client`); and threads by which a group works
with all its clients at once (`client.group`).
"""

from __future__ import annotations

import os
import threading
from collections import deque
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Callable, Iterator, Optional
from weakref import WeakSet

from ..log import exit_gate, logger

log = logger("minimcp.pool")

# How long a thread without a job is kept.
IDLE_SECONDS = 10.0

Job = Callable[[], object]

# Of each thread: ``pool``, in which it counts as running; ``request``, whose handler it runs;
# ``trace_context``, of the request whose handler has this thread make a call.
this_thread = threading.local()

# Objects with locks and threads: their `renew_in_fork` is called in a forked process, where the
# threads are not.
renewed_in_fork: WeakSet[Any] = WeakSet()


def _forked() -> None:
    for renewed in list(renewed_in_fork):
        renewed.renew_in_fork()


getattr(os, "register_at_fork", lambda **_: None)(after_in_child=_forked)  # Windows has no fork


@contextmanager
def waiting() -> Iterator[None]:
    """Wait without occupying a worker slot (rule 3 of `connection.py`): a queued job may start.

    On threads that no pool counts it does nothing. Waits for an answer, for time, for another's
    call and for room in a queue of lines are in one; those for a slow HTTP peer, to which a handler
    writes, are not.
    """
    pool: Optional[Pool] = getattr(this_thread, "pool", None)
    if pool is None:
        yield
        return
    this_thread.pool = None
    pool.count(-1)
    try:
        yield
    finally:
        pool.count(1)  # over the cap, if need be: then no job starts until it is below it again
        this_thread.pool = pool


class Pool:
    """Runs jobs in order of arrival on as many threads as may run at the same time.

    A thread that has run a job takes the next from the queue. While jobs wait that may start, one
    more thread is on its way to them; once it runs it sends for the next. So short jobs are run by
    few threads, with few switches between them, and none waits for a slow one while there is room.

    Args:
        size: Jobs that run at the same time, not counting those that wait inside this library; None
            means no limit.
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
        self._lock = (
            threading.RLock()
        )  # a signal handler that cancels a call may come in the middle of this
        self.queue: deque[Any] = deque()
        # Of each thread without a job, where it waits for one. One queue for all would wake two for
        # each job: whoever gets something from a `SimpleQueue` wakes the next that waits there.
        self._idle: list[SimpleQueue[Optional[Job]]] = []
        self._late: deque[Job] = deque()  # for which the system gave no thread
        self._running = 0
        self._called = False  # whether a thread is on its way to the queue
        self._keeps = (
            False  # nothing was submitted: in a forked process the thread that forked ends
        )

    def submit(self, *jobs: Job) -> None:
        """Run jobs on threads of the pool, as soon as they may start; after those that were
        submitted before.

        What they raise is logged.
        """
        with self._lock:
            self._keeps = True
            self.queue.extend(jobs)
            self._advance()

    def spawn(self, job: Job) -> None:
        """Run a job at once, on a thread that does not count."""
        with self._lock:
            self._keeps = True
            if not self._send(job):
                self._late.append(job)

    def run(self, job: Job) -> None:
        """Run a job on this thread, when it may start; after those that were submitted before.

        Blocks: until another job ends or waits, if as many run already as may.
        """
        with self._lock:
            # Where the system gives no threads, nobody comes for those that are queued before.
            begins = self._running < self._size and not (self.queue and self._called)
            if begins:
                self._running += 1
            else:
                place = threading.Event()
                self.queue.append(place)
                self._advance()
        if not begins:
            try:
                place.wait()
            except BaseException:  # Ctrl-C: its turn is nobody's now
                with self._lock:
                    if place in self.queue:
                        self.queue.remove(place)
                    else:
                        self.count(-1)
                raise
        outer = getattr(this_thread, "pool", None)
        this_thread.pool = self
        try:
            job()
        finally:
            this_thread.pool = outer
            self.count(-1)

    def close(self) -> None:
        """Let idle threads end now, and busy ones after their jobs. What is queued is still run."""
        with self._lock:
            for _ in list(self._idle):
                self.spawn(bool)  # a job that does nothing
            self._keeps = False

    def count(self, change: int) -> None:
        """A thread counts from now on (1), or does not any more (-1)."""
        with self._lock:
            self._running += change
            if self.queue or self._late:
                self._advance()

    # ------------------------------------------------------------ threads

    def _advance(self) -> None:
        """Let the first in the queue begin, if one may, or call a thread for it (lock held)."""
        while self._late and self._send(self._late[0]):
            self._late.popleft()
        while self.queue and self._running < self._size:
            if not isinstance(self.queue[0], threading.Event):
                self._called = self._called or self._send(None)
                break
            self._running += 1
            self.queue.popleft().set()

    def _send(self, job: Optional[Job]) -> bool:
        """Wake an idle thread or start one for `job` (None: take the next queued job).

        Return False if no thread can be started. The caller holds the lock.
        """
        if self._idle:
            self._idle.pop().put(job)
            return True
        self._numbers += 1
        try:
            name = f"{self.name}-{self._numbers}"
            threading.Thread(target=self._live, args=(job,), name=name, daemon=True).start()
            return True
        except (
            RuntimeError
        ) as error:  # a thread that there is takes it later, or the next look here starts one
            log.error("%s: %s", self.name, error)
            return False

    def _live(self, sent: Optional[Job]) -> None:
        inbox: SimpleQueue[Optional[Job]] = SimpleQueue()
        while True:
            counts = sent is None
            this_thread.pool = self if counts else None
            job = self._next(inbox, called=True) if sent is None else sent
            while job is not None:
                try:
                    with exit_gate:  # a handler may print
                        job()
                except BaseException as error:  # a fault of ours: jobs handle their own exceptions
                    log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
                job = sent = None  # an idle thread keeps nothing of what it did
                job = self._next(inbox, ran=counts)
                counts = True
                this_thread.pool = self
            this_thread.pool = None
            try:
                sent = inbox.get(
                    self._keeps, IDLE_SECONDS
                )  # a timeout of 0 never ends in some Pythons
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                sent = inbox.get()  # it was sent just now

    def _next(
        self, inbox: SimpleQueue[Optional[Job]], *, called: bool = False, ran: bool = False
    ) -> Optional[Job]:
        """What a thread runs next; None: nothing may start, and it is idle.

        Args:
            inbox: Where it waits then.
            called: Whether it was called to the queue.
            ran: Whether it has counted until now.
        """
        self._lock.acquire()  # `with` takes thrice as long, and this comes between any two jobs
        try:
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
                self._idle.append(inbox)
            if self._late or (self.queue and not self._called):
                self._advance()
            return job
        finally:
            self._lock.release()

    def __repr__(self) -> str:
        counts = f"{self._running} running, {len(self.queue)} queued, {len(self._idle)} idle"
        return f"<Pool {self.name!r} {counts}>"
