"""Executors: where handlers run that need a thread of somebody's own choice (``executor=``).

An executor keeps requests in a queue, in order of arrival, until its thread takes them; there they hold no worker, and
count as begun. A request that is cancelled there, or lost with its connection, leaves the queue and is never run. What
a handler waits for in an executor keeps the executor's thread waiting.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any, Callable, Optional, Protocol, Union
from weakref import WeakSet

from ..engine.requests import CancelToken, Handler, IncomingRequest, Route
from ..errors import RpcError

log = logging.getLogger("minimcp.executors")


class HasSubmit(Protocol):
    """Such as the executors of ``concurrent.futures``."""

    def submit(self, fn: Callable[[], None], /) -> Any:
        """Have a function run somewhere."""


ExecutorOption = Union[None, str, HasSubmit, Callable[[Callable[[], None]], object]]
"""What ``executor=`` may be: None, "main", a `Serial`, what has ``submit``, or a callable that is given a function to
run."""

Watch = Callable[[IncomingRequest], Callable[[], None]]
"""Told that a request begins to wait in a queue; it returns what is called when that is over."""


class Job:
    """One request that waits for an executor's thread; it is run at most once.

    Args:
        incoming: The request.
        queue: Where it waits; it takes itself out.
        watch: Told of the wait; None tells nobody.
    """

    def __init__(self, incoming: IncomingRequest, queue: dict[Job, bool], watch: Optional[Watch]) -> None:
        self.incoming, self._queue = incoming, queue
        self._waited = watch(incoming) if watch is not None else None

    def _take(self) -> bool:
        """Whether the request is still in the queue; it is so only for the first who asks."""
        taken = self._queue.pop(self, False)
        if taken and self._waited is not None:
            self._waited()
        return taken

    def run(self) -> bool:
        """Serve the request on this thread, or answer that it was cancelled; False when it was run before."""
        if not self._take():
            return False
        self.incoming.run()
        if self.incoming.interrupted and threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt  # Ctrl-C struck in the handler, which was answered with an error
        return True

    def fail(self, error: BaseException) -> None:
        """Answer with an error, unless the request was run."""
        if self._take():
            self.incoming.refuse(error)
        else:
            log.error("an executor failed after its job had been run: %r", error, exc_info=error)


class Executor:
    """A queue of requests and the thread that takes them out of it. Thread-safe, and safe in signal handlers."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Begin anew in a forked process: its parent's requests and threads are not there."""
        self._queue: dict[Job, bool] = {}
        self._changed = threading.Condition()

    def start(self, incoming: IncomingRequest, watch: Optional[Watch] = None) -> None:
        """Queue a request (the ``start`` of a `Route`), or refuse it; never blocks.

        Args:
            incoming: The request.
            watch: Told how long it waits; None tells nobody.
        """
        try:
            incoming.sink.requests.begin(incoming)
        except RpcError as error:
            incoming.refuse(error)
            return
        incoming.server.executors.add(self)
        job = Job(incoming, self._queue, watch)
        with self._changed:
            self._queue[job] = True
            self._arrived(job)
        CancelToken.on_cancel(incoming, job.run)  # by the thread that cancels: whoever waits all the same is answered

    def _arrived(self, job: Job) -> None:
        """There is one more in the queue (`_changed` is held)."""
        raise NotImplementedError

    def leave(self, user: object) -> None:
        """A server that used this is closed."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._queue)} waiting>"


class Serial(Executor):
    """``executor=Serial()``: one thread, always the same, for all handlers that name this object. Thread-safe.

    They run one after the other, in order of arrival, whatever server or connection they belong to; so they need no
    locks among themselves, and may keep what belongs to a thread, such as a connection to SQLite. A handler that waits
    (``ctx.sleep``, a question to the client) keeps the thread: the others wait with it.

    The thread begins with the first call. It ends when every server that names this object is closed, or when nothing
    refers to it any more; the next call would begin a new one.
    """

    def renew(self) -> None:
        super().renew()
        self._users: WeakSet[Any] = WeakSet()
        self._thread = SimpleNamespace(runs=False, ends=False)  # shared with the thread, which does not keep this alive

    def _arrived(self, job: Job) -> None:
        self._users.add(job.incoming.server)
        self._thread.ends = False
        if not self._thread.runs:
            self._thread.runs = True
            shared = self._queue, self._changed, self._thread
            threading.Thread(target=_serve_queue, args=shared, name="minimcp-serial", daemon=True).start()
        self._changed.notify_all()

    def leave(self, user: object) -> None:
        with self._changed:
            self._users.discard(user)
            if not self._users:
                self._thread.ends = True
                self._changed.notify_all()

    def __del__(self) -> None:
        with self._changed:
            self._thread.ends = True
            self._changed.notify_all()


def _serve_queue(queue: dict[Job, bool], changed: threading.Condition, thread: SimpleNamespace) -> None:
    """The thread of a `Serial`: serves its queue in order, until it is empty and the thread is to end."""
    while True:
        with changed:
            changed.wait_for(lambda: queue or thread.ends)
            jobs = list(queue)[:1]
            if thread.ends and not jobs:
                thread.runs = False
                return
        try:
            while jobs:  # none when it was cancelled just now; a thread that waits keeps nothing of what it did
                jobs.pop().run()
        except BaseException as error:  # those behind it are still served
            log.error("minimcp-serial: %s", error, exc_info=error)


class Submitting(Executor):
    """Hands each request, as a function without arguments, to a callable of the author, which runs it somewhere.

    The callable is called on a thread of ours, one call at a time and in order; if it waits for the function to end,
    the others wait too. A function that was run, or whose request was cancelled, does nothing when it is run again.

    Args:
        submit: The callable.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], object]) -> None:
        self.submit = submit
        self.running: set[Job] = set()
        """What runs now, on threads that may keep the process when it ends."""
        super().__init__()

    def renew(self) -> None:
        super().renew()
        self._arrivals: deque[Job] = deque()
        self._submits = False

    def _arrived(self, job: Job) -> None:
        self._arrivals.append(job)
        if not self._submits:
            self._submits = True
            job.incoming.sink.spawn(self._submit_all)

    def _submit_all(self) -> None:
        while True:
            with self._changed:
                if not self._arrivals:
                    self._submits = False
                    return
                job = self._arrivals.popleft()
            try:
                self.submit(partial(self._run, job))
            except BaseException as error:
                job.fail(error)

    def _run(self, job: Job) -> None:
        self.running.add(job)
        try:
            job.run()
        finally:
            self.running.discard(job)


class Main(Executor):
    """``executor="main"``: requests wait until a thread of the author pumps.

    Args:
        on_needed: Called on another thread when there is something to pump and nobody was told since the last `pump`;
            None calls nothing.
    """

    def __init__(self, on_needed: Optional[Callable[[], object]] = None) -> None:
        if on_needed is not None and not callable(on_needed):
            raise TypeError(f"on_pump_needed is a callable, not {on_needed!r}")
        self._on_needed = on_needed
        super().__init__()

    def renew(self) -> None:
        super().renew()
        self._told = False
        self._stops = 0
        self._pumping: set[int] = set()

    def _arrived(self, job: Job) -> None:
        self._changed.notify_all()
        if self._on_needed is not None and not self._told:
            self._told = True
            job.incoming.sink.spawn(self._tell_author)

    def _tell_author(self) -> None:
        try:
            self._on_needed()  # type: ignore[misc]
        except Exception as error:
            log.error("on_pump_needed failed: %s", error, exc_info=error)

    def pump(self, timeout: Optional[float] = 0, over: Optional[Callable[[], bool]] = None) -> int:
        """Run what waits now, on this thread; returns how many requests that were.

        Args:
            timeout: Seconds to wait for the first; None waits until there is one, or until it is over.
            over: Says whether that is so, and is asked again after each `wake`; None: after `clear`.

        Raises:
            RuntimeError: This thread is pumping already.
            KeyboardInterrupt: Ctrl-C struck in a handler, which was answered; what is left is for the next time.
        """
        me, stops = threading.get_ident(), self._stops
        if me in self._pumping:
            raise RuntimeError("pump is running on this thread already: what it runs cannot call it")
        with self._changed:
            self._told = False
            self._changed.wait_for(lambda: self._queue or self._stops != stops or (over and over()), timeout)
            self._told = False
            jobs = list(self._queue)  # what comes now is for the next time
        self._pumping.add(me)
        try:
            return sum(job.run() for job in jobs)
        except KeyboardInterrupt:
            with self._changed:  # the author is told of the rest
                for job in list(self._queue)[:1]:
                    self._arrived(job)
            raise
        finally:
            self._pumping.discard(me)

    def pump_until(self, over: Callable[[], bool]) -> None:
        """Pump on this thread until `over` says so, which is asked again after each `wake`."""
        while not over():
            try:
                self.pump(None, over)
            except KeyboardInterrupt:
                pass  # the handler's own: signals only tell the server to end

    def wake(self) -> None:
        """Have `pump_until` ask again."""
        with self._changed:
            self._changed.notify_all()

    def clear(self, reason: str) -> None:
        """Cancel what waits, and let those go who wait for it."""
        for job in list(self._queue):
            job.incoming.cancel(reason)
        self._stops += 1
        self.wake()


def executor_of(given: Any, known: set[Executor]) -> Optional[Executor]:
    """The executor that ``executor=`` means; None for the pool of workers.

    Args:
        given: What an author said.
        known: Those of the server, its `Main` among them; a new one is added.

    Raises:
        ValueError: There is no executor of this name.
        TypeError: It is no executor at all.
    """
    choices = "executor is None, 'main', an object with submit(), such as a Serial(), or a callable"
    if given is None:
        return None
    if isinstance(given, str) and given != "main":
        raise ValueError(f"{choices}, not {given!r}")
    submit = getattr(given, "submit", given)
    if isinstance(given, type) or not (isinstance(given, (str, Executor)) or callable(submit)):
        raise TypeError(f"{choices}, not {given!r}")
    for executor in known:
        if executor is given or (given == "main" and isinstance(executor, Main)):
            return executor
        if isinstance(executor, Submitting) and executor.submit == submit:
            return executor
    made = given if isinstance(given, Executor) else Submitting(submit)
    known.add(made)
    return made


def route_to(handle: Handler, executor: Optional[Executor], watch: Optional[Watch] = None) -> Route:
    """The route of a handler.

    Args:
        handle: The handler.
        executor: Where it runs; None is the pool of workers. A `Main` stands for that of the server that serves.
        watch: Told how long a request waits for the executor; None tells nobody.
    """
    if executor is None:
        return Route(handle)
    if isinstance(executor, Main):
        return Route(handle, start=lambda incoming: incoming.server.main.start(incoming, watch))
    return Route(handle, start=lambda incoming: executor.start(incoming, watch))
