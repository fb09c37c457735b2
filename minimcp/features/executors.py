"""Executors: threads that the author chooses for handlers (``executor=``).

An executor queues requests in order of arrival until its thread takes them. A queued request does
not occupy a worker, but it counts as started. If it is cancelled, or lost with its connection, it
leaves the queue and never runs. While a handler waits, it keeps the executor's thread.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, Union
from weakref import WeakSet

from ..engine.incoming import Handler, IncomingRequest, Route
from ..engine.running import BEGIN, DONE
from ..engine.timer import timer
from ..errors import RpcError
from ..log import exit_gate, logger
from ..server.feature import Feature

if TYPE_CHECKING:
    from ..server.registry import Registry

log = logger("minimcp.executors")

# How long a request may wait for `Main.pump` before a warning is logged.
PUMP_SECONDS = 1.0


class HasSubmit(Protocol):
    """An object such as the executors of ``concurrent.futures``."""

    def submit(self, fn: Callable[[], None], /) -> Any:
        """Run a function on some thread."""


# The values of ``executor=``: None, "main", a `Serial`, an object with ``submit``, or a callable
# that receives a function to run.
ExecutorOption = Union[None, str, HasSubmit, Callable[[Callable[[], None]], object]]


class Executor:
    """A queue of requests and the thread that serves it. Thread-safe, and safe in signal
    handlers."""

    # The value of ``executor=``, if it is not an `Executor`.
    submit: Any = None

    def __init__(self) -> None:
        # The queued requests. The thread that removes an entry serves it, so it is served once.
        self._queue: dict[object, IncomingRequest] = {}
        self._changed = threading.Condition()

    def enqueue(self, incoming: IncomingRequest) -> None:
        """Queue a request or reject it. This is the ``enqueue`` of a `Route`. Never blocks."""
        try:
            incoming.sink.requests.advance(incoming, BEGIN)
        except RpcError as error:
            incoming.refuse(error)
            return
        incoming.server.feature("executors").known.add(self)
        key = object()
        try:
            with self._changed:
                self._queue[key] = incoming
                self._arrived(key, incoming)
        except RuntimeError as error:  # the system cannot start a thread
            self._queue.pop(key, None)
            incoming.refuse(error)
            return
        # The thread that cancels removes the request and answers it.
        incoming.token.on_cancel(partial(self._run, key))

    def route_to(self, handle: Handler) -> Route:
        """Return the route of a handler that runs on this executor."""
        return Route(handle, enqueue=self.enqueue)

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        """Record that a request was queued. The caller holds `_changed`."""
        raise NotImplementedError

    def _run(self, key: object) -> bool:
        """Serve a request on this thread, or answer that it was cancelled. Return False if it has
        run."""
        incoming = self._queue.pop(key, None)
        if incoming is None or incoming.state == DONE:  # after a fork, the parent runs it
            return False
        incoming.run()
        if incoming.interrupted and threading.current_thread() is threading.main_thread():
            # Ctrl-C was pressed while the handler ran; an error response has been sent.
            raise KeyboardInterrupt
        return True

    def leave(self, user: object) -> None:
        """Called when a server that used this executor is closed."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._queue)} waiting>"


class Serial(Executor):
    """One thread for all handlers that name this object: ``executor=Serial()``. Thread-safe.

    Handlers run one after the other in order of arrival, whatever server or connection they belong
    to. They need no locks among themselves, and can keep objects that belong to a thread, such as a
    SQLite connection. A handler that waits (``ctx.sleep``, a question to the client) keeps the
    thread, so the other handlers wait, too.

    The thread starts with the first call. It ends when every server that uses this object is
    closed, or when the object is garbage collected. Another call starts a new thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self._users: WeakSet[Any] = WeakSet()
        self._jobs: Optional[SimpleQueue[Any]] = None
        self._thread: Optional[threading.Thread] = None

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        self._users.add(incoming.server)
        # In a forked child process, the thread of the parent is not alive.
        if self._jobs is None or self._thread is None or not self._thread.is_alive():
            jobs: SimpleQueue[Any] = SimpleQueue()
            work = partial(_work, jobs, self._thread)  # without a reference to this object
            thread = threading.Thread(
                target=work, name=f"minimcp-{type(self).__name__.lower()}", daemon=True
            )
            thread.start()
            self._jobs = jobs
            self._thread = thread
        self._jobs.put(partial(self._serve, key))

    def _serve(self, key: object) -> None:
        """Serve one request, on the thread of this executor."""
        self._run(key)

    def leave(self, user: object) -> None:
        with self._changed:
            self._users.discard(user)
            if not self._users:
                self._end()

    def _end(self) -> None:
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None

    __del__ = _end


def _work(jobs: SimpleQueue[Any], before: Optional[threading.Thread]) -> None:
    """Run the jobs of a `Serial` in order, until one is None."""
    if before is not None:
        before.join()  # it finishes its jobs, so that two handlers never run at the same time
    for job in iter(jobs.get, None):
        try:
            with exit_gate:  # because a handler may print
                job()
        except BaseException as error:  # later jobs still run
            log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
        del job  # a waiting thread must not keep a job's objects alive


class Submitting(Serial):
    """Passes each request, as a function without arguments, to a callable of the author.

    The callable runs on a thread of this object, one call at a time and in order. If it waits for
    the function to return, the other requests wait, too. The function does nothing if it has run
    before or if its request was cancelled.

    Args:
        submit: The callable.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self.submit = submit
        # The running handlers. Their threads may keep the process alive when it should end.
        self.running: set[object] = set()

    def _serve(self, key: object) -> None:
        try:
            self.submit(partial(self._run_there, key))
        except BaseException as error:
            incoming = self._queue.pop(key, None)
            if incoming is None:
                raise
            incoming.refuse(error)

    def _run_there(self, key: object) -> None:
        self.running.add(key)
        try:
            self._run(key)
        finally:
            self.running.discard(key)


class Main(Executor):
    """The queue of ``executor="main"``. Requests wait until a thread of the author pumps.

    Args:
        on_needed: Called on another thread when the queue is no longer empty, or is not empty after
            a `pump`; None means no callback.
    """

    submit = "main"

    def __init__(self, on_needed: Optional[Callable[[], object]] = None) -> None:
        if on_needed is not None and not callable(on_needed):
            raise TypeError(f"on_pump_needed must be a callable, not {on_needed!r}")
        super().__init__()
        self._on_needed = on_needed
        self._stops = 0
        self._pumping: set[int] = set()
        # How often a call of `pump` has ended.
        self._pumps = 0
        self._is_watched = False
        self._has_warned = False

    def route_to(self, handle: Handler) -> Route:
        """Return a route to the `Main` of the server that serves the request."""
        return Route(handle, enqueue=_enqueue_in_main)

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        self._changed.notify_all()
        if not self._is_watched:
            self._is_watched = True
            with suppress(RuntimeError):  # the system cannot start the timer's thread
                timer.after(PUMP_SECONDS, partial(self._look, (key, self._pumps)))
        if self._on_needed is not None and len(self._queue) == 1 and not self._pumping:
            incoming.sink.spawn(self._call_on_needed)

    def _look(self, before: object) -> None:
        """Warn once if no thread pumps. Called by the timer while requests are queued.

        Args:
            before: The key of the request that was the oldest one `PUMP_SECONDS` ago, and how often
                a call of `pump` had ended.
        """
        with self._changed:
            key, oldest = next(iter(self._queue.items()), (None, None))
            if oldest is None:
                self._is_watched = False
                return
            now = (key, self._pumps)
        if now == before and not self._pumping and not self._has_warned:
            self._has_warned = True
            text = '%s waits for executor="main": call server.pump() again and again in your loop'
            oldest.sink.spawn(partial(log.warning, text, oldest.request.method))
        timer.after(PUMP_SECONDS, partial(self._look, now))

    def _call_on_needed(self) -> None:
        try:
            self._on_needed()  # type: ignore[misc]
        except Exception as error:
            log.error("on_pump_needed failed: %s", error, exc_info=error)

    def pump(self, timeout: Optional[float] = 0, over: Callable[[], bool] = lambda: False) -> int:
        """Run the requests that are queued now, on this thread, and return their number.

        Args:
            timeout: Seconds to wait for the first request; None means until a request arrives or
                the server ends.
            over: Returns whether to stop waiting; called again after each `wake`. `clear` also ends
                the wait.

        Raises:
            RuntimeError: This thread is already pumping.
            KeyboardInterrupt: Ctrl-C was pressed while a handler ran. That request was answered;
                the others remain in the queue.
        """
        me = threading.get_ident()
        stops = self._stops
        if me in self._pumping:
            raise RuntimeError("this thread is already pumping, and a pumped handler cannot pump")
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stops != stops or over(), timeout)
            keys = list(self._queue)  # later requests wait for the next call
            self._pumping.add(me)
            self._has_warned = False
        try:
            return sum(self._run(key) for key in keys)
        finally:
            with self._changed:
                self._pumping.discard(me)
                self._pumps += 1
                left = list(self._queue.values())
            # Requests that arrived in the meantime, or remain after Ctrl-C.
            if left and self._on_needed is not None:
                left[0].sink.spawn(self._call_on_needed)

    def wake(self) -> None:
        """Make `pump` call its function ``over`` again."""
        with self._changed:
            self._changed.notify_all()

    def clear(self, reason: str) -> None:
        """Cancel all queued requests, and end `pump` in all threads."""
        for incoming in list(self._queue.values()):
            incoming.token.cancel(reason)
        self._stops += 1
        self.wake()


def _enqueue_in_main(incoming: IncomingRequest) -> None:
    incoming.server.feature("executors").main.enqueue(incoming)
    incoming.server.wake_main()


def executor_of(given: Any, known: set[Executor]) -> Optional[Executor]:
    """Return the executor for a value of ``executor=``; None is the pool of workers.

    Args:
        given: The value of the option.
        known: The executors of the server. A new one is added.

    Raises:
        ValueError: The name is unknown.
        TypeError: The value is not an executor.
    """
    if given is None:
        return None
    submit = getattr(given, "submit", None) or given
    for executor in list(known):  # a copy: the first request of a mounted server adds one
        if executor is given or executor.submit == submit:
            return executor
    if isinstance(given, type) or not (isinstance(given, Executor) or callable(submit)):
        error = ValueError if isinstance(given, str) else TypeError
        raise error(
            "executor must be None, 'main', an object with submit(), such as a Serial(), or a"
            f" callable, not {given!r}"
        )
    made = given if isinstance(given, Executor) else Submitting(submit)
    known.add(made)
    return made


class Executors(Feature):
    """The executors of one server's handlers, and of the handlers of servers that it mounts.

    Args:
        registry: The server's registry.

    Attributes:
        main: The executor "main".
        known: All executors.
    """

    def __init__(self, registry: Registry) -> None:
        self.main = Main(registry.config.on_pump_needed)
        self.known: set[Executor] = {self.main}

    def find(self, given: Any) -> Optional[Executor]:
        """Return the executor for a value of ``executor=``, see `executor_of`."""
        return executor_of(given, self.known)

    def is_busy(self) -> bool:
        """Return whether a handler is running on a thread of an author's executor."""
        return any(isinstance(each, Submitting) and each.running for each in list(self.known))

    def leave(self, user: object) -> None:
        """Called when a server is closed."""
        for executor in list(self.known):
            executor.leave(user)
