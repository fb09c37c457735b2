"""A pool of threads with permits, which a thread gives back while it waits (rule 6).

Not here: what is run on it, and in which order (see `lane`).
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional

log = logging.getLogger("minimcp.workers")

IDLE_SECONDS = 10.0
"""How long a worker without work stays."""

here = threading.local()
"""Of each worker's thread: ``seat``, what it gives back while it waits."""


def waiting() -> Any:
    """A context manager for code that is about to wait: a handler's thread gives its place to others meanwhile.

    On threads that are no workers of ours it does nothing. Used by every wait of this library (rule 6).
    """
    return getattr(here, "seat", None) or _NO_SEAT


class _NoSeat:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


_NO_SEAT = _NoSeat()


class Workers:
    """A pool that grows to a cap; jobs beyond it wait their turn. Thread-safe.

    Args:
        cap: Jobs that run at the same time, not counting those that wait for an answer; None means no limit.
        name: The beginning of the threads' names.
    """

    def __init__(self, cap: Optional[int], *, name: str) -> None:
        self.name = name
        self._cap = float("inf") if cap is None else cap
        self._state_lock = threading.Lock()
        self._queue: deque[Callable[[], None]] = deque()
        self._running = 0
        self._idle: list[_Worker] = []
        self._numbers = 0
        self._closed = False

    def start(self, work: Callable[[], None], *, beyond_cap: bool = False) -> None:
        """Run `work` on a thread of its own: now if a permit is free (or `beyond_cap`), else when one is given back.

        Raises:
            RuntimeError: The system gives no more threads, and none of ours will come free.
        """
        with self._state_lock:
            if self._running >= self._cap and not beyond_cap:
                self._queue.append(work)
                return
            self._running += 1
            worker = self._idle.pop() if self._idle else None
        if not self._run_on(worker, work) and not self._put_back(work):
            raise RuntimeError("the system gives no more threads")

    def _run_on(self, worker: Optional[_Worker], work: Callable[[], None]) -> bool:
        """Whether there was a thread for it."""
        if worker is not None:
            worker.inbox.put(work)
            return True
        with self._state_lock:
            self._numbers += 1
            number = self._numbers
        worker = _Worker(self, work)
        thread = threading.Thread(target=worker.live, name=f"{self.name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.warning("%s: no new thread (%s)", self.name, error)
            return False
        return True

    def _put_back(self, work: Callable[[], None], *, someone_returns: bool = False) -> bool:
        """Queue what found no thread; False when no thread of ours will come free for it."""
        with self._state_lock:
            self._running -= 1
            if self._running <= 0 and not someone_returns:
                return False
            self._queue.appendleft(work)
            return True

    def next_for(self, worker: _Worker) -> Optional[Callable[[], None]]:
        """What a worker does after its work: the next one in the queue, or nothing, and then it is idle."""
        with self._state_lock:
            if self._queue and self._running <= self._cap:
                return self._queue.popleft()
            self._running -= 1
            if self._closed:
                worker.inbox.put(None)  # nobody else will tell it to end
            else:
                self._idle.append(worker)
            return None

    def leave(self, worker: _Worker) -> bool:
        """Whether an idle worker may end; False when work is on its way to it."""
        with self._state_lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False  # what is on its way is work, or the None of `close`

    def give_back(self) -> None:
        """A running job begins to wait: the next one in the queue takes its permit. Never raises."""
        with self._state_lock:
            if not self._queue or self._running > self._cap:
                self._running -= 1
                return
            work = self._queue.popleft()
            worker = self._idle.pop() if self._idle else None
        if not self._run_on(worker, work):
            self._put_back(work, someone_returns=True)

    def take_again(self) -> None:
        """A job goes on after its wait, at once, over the cap if need be."""
        with self._state_lock:
            self._running += 1

    def close(self) -> None:
        """Let idle workers end; running ones end after their work. Work that waits is forgotten."""
        with self._state_lock:
            self._closed = True
            self._queue.clear()
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.inbox.put(None)

    def __repr__(self) -> str:
        return f"<Workers {self.name!r} {self._running} running, {len(self._queue)} queued, {len(self._idle)} idle>"


class _Worker:
    """One thread of a pool; also the seat that its job gives back while it waits."""

    __slots__ = ("inbox", "_workers", "_work")

    def __init__(self, workers: Workers, work: Callable[[], None]) -> None:
        self.inbox: SimpleQueue[Optional[Callable[[], None]]] = SimpleQueue()
        self._workers = workers
        self._work: Optional[Callable[[], None]] = work

    def live(self) -> None:
        work = self._work
        self._work = None
        while work is not None:
            here.seat = self
            try:
                work()
            except BaseException as error:  # work is a border of its own: this is a fault of ours
                log.error("%s: %s", threading.current_thread().name, error, exc_info=True)
            work = None  # while it is idle it keeps nothing of what it did
            work = self._workers.next_for(self) or self._idle()

    def _idle(self) -> Optional[Callable[[], None]]:
        while True:
            try:
                return self.inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                if self._workers.leave(self):
                    return None

    def __enter__(self) -> None:
        self._workers.give_back()

    def __exit__(self, *_: object) -> None:
        self._workers.take_again()
