"""Executors: where handlers run that need a thread of somebody's own choice (``executor=``).

An executor keeps requests in a queue, in order of arrival, until its thread takes them; there they
hold no worker, and count as begun. A request that is cancelled there, or lost with its connection,
leaves the queue and is never run. What a handler waits for in an executor keeps the executor's
thread waiting.
"""

from __future__ import annotations

import threading
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol, Union
from weakref import WeakSet

from ..engine.incoming import BEGIN, DONE, Handler, IncomingRequest, Route
from ..errors import RpcError
from ..log import exit_gate, logger
from ..server.feature import Feature

if TYPE_CHECKING:
    from ..server.registry import Registry

log = logger("minimcp.executors")


class HasSubmit(Protocol):
    """Such as the executors of ``concurrent.futures``."""

    def submit(self, fn: Callable[[], None], /) -> Any:
        """Have a function run somewhere."""


# What ``executor=`` may be: None, "main", a `Serial`, what has ``submit``, or a callable that is
# given a function to run.
ExecutorOption = Union[None, str, HasSubmit, Callable[[Callable[[], None]], object]]


class Executor:
    """A queue of requests and the thread that takes them out of it. Thread-safe, and safe in signal
    handlers."""

    # What ``executor=`` was, if that is no executor.
    submit: Any = None

    def __init__(self) -> None:
        # What waits. Who takes an entry out serves it, so once.
        self._queue: dict[object, IncomingRequest] = {}
        self._changed = threading.Condition()

    def start(self, incoming: IncomingRequest) -> None:
        """Queue a request (the ``start`` of a `Route`), or refuse it; never blocks."""
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
        except RuntimeError as error:  # the system gives no thread
            self._queue.pop(key, None)
            incoming.refuse(error)
            return
        # By the thread that cancels: whoever waits all the same is answered.
        incoming.token.on_cancel(partial(self._run, key))

    def route_to(self, handle: Handler) -> Route:
        """Return the route of a handler that runs here."""
        return Route(handle, start=self.start)

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        """There is one more in the queue (`_changed` is held)."""
        raise NotImplementedError

    def _run(self, key: object) -> bool:
        """Serve a request on this thread, or answer that it was cancelled; False when it was run
        before."""
        incoming = self._queue.pop(key, None)
        if incoming is None or incoming.state == DONE:  # the parent of a forked process runs it
            return False
        incoming.run()
        if incoming.interrupted and threading.current_thread() is threading.main_thread():
            # Ctrl-C struck in the handler, which was answered with an error
            raise KeyboardInterrupt
        return True

    def leave(self, user: object) -> None:
        """A server that used this is closed."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self._queue)} waiting>"


class Serial(Executor):
    """``executor=Serial()``: one thread, always the same, for all handlers that name this object.
    Thread-safe.

    They run one after the other, in order of arrival, whatever server or connection they belong to;
    so they need no locks among themselves, and may keep what belongs to a thread, such as a
    connection to SQLite. A handler that waits (``ctx.sleep``, a question to the client) keeps the
    thread: the others wait with it.

    The thread begins with the first call. It ends when every server that names this object is
    closed, or when nothing refers to it any more; the next call would begin a new one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._users: WeakSet[Any] = WeakSet()
        self._jobs: Optional[SimpleQueue[Any]] = None
        self._thread: Optional[threading.Thread] = None

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        self._users.add(incoming.server)
        # In a forked process, the thread of its parent is not alive.
        if self._jobs is None or self._thread is None or not self._thread.is_alive():
            jobs: SimpleQueue[Any] = SimpleQueue()
            work = partial(_work, jobs, self._thread)  # which does not keep this alive
            thread = threading.Thread(
                target=work, name=f"minimcp-{type(self).__name__.lower()}", daemon=True
            )
            thread.start()
            self._jobs = jobs
            self._thread = thread
        self._jobs.put(partial(self._serve, key))

    def _serve(self, key: object) -> None:
        """What the thread does with one request."""
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
    """The thread of a `Serial`: does its jobs in order, up to one that is None."""
    if before is not None:
        before.join()  # it finishes what it has, so that no two handlers meet
    for job in iter(jobs.get, None):
        try:
            with exit_gate:  # a handler may print
                job()
        except BaseException as error:  # those behind it are still served
            log.error("%s: %s", threading.current_thread().name, error, exc_info=error)
        del job  # a thread that waits keeps nothing of what it did


class Submitting(Serial):
    """Hands each request, as a function without arguments, to a callable of the author, which runs
    it somewhere.

    The callable is called on a thread of this object, one call at a time and in order; if it waits
    for the function to end, the others wait too. A function that was run, or whose request was
    cancelled, does nothing when it is run again.

    Args:
        submit: The callable.
    """

    def __init__(self, submit: Callable[[Callable[[], None]], object]) -> None:
        super().__init__()
        self.submit = submit
        # What runs now, on threads that may keep the process when it ends.
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
    """``executor="main"``: requests wait until a thread of the author pumps.

    Args:
        on_needed: Called on another thread when the queue turns non-empty, or is so after a `pump`;
            None calls nothing.
    """

    submit = "main"

    def __init__(self, on_needed: Optional[Callable[[], object]] = None) -> None:
        if on_needed is not None and not callable(on_needed):
            raise TypeError(f"on_pump_needed is a callable, not {on_needed!r}")
        super().__init__()
        self._on_needed = on_needed
        self._stops = 0
        self._pumping: set[int] = set()

    def route_to(self, handle: Handler) -> Route:
        """As `Executor.route_to`, for the `Main` of the server that serves the request."""
        return Route(handle, start=_start_in_main)

    def _arrived(self, key: object, incoming: IncomingRequest) -> None:
        self._changed.notify_all()
        if self._on_needed is not None and len(self._queue) == 1 and not self._pumping:
            incoming.sink.spawn(self._tell_author)

    def _tell_author(self) -> None:
        try:
            self._on_needed()  # type: ignore[misc]
        except Exception as error:
            log.error("on_pump_needed failed: %s", error, exc_info=error)

    def pump(self, timeout: Optional[float] = 0, over: Callable[[], bool] = lambda: False) -> int:
        """Run what waits now, on this thread; returns how many requests that were.

        Args:
            timeout: Seconds to wait for the first; None waits until there is one, or until it is
                over.
            over: Says whether that is so, and is asked again after each `wake`; it is over after
                `clear`, too.

        Raises:
            RuntimeError: This thread is pumping already.
            KeyboardInterrupt: Ctrl-C struck in a handler, which was answered; what is left is for
                the next time.
        """
        me = threading.get_ident()
        stops = self._stops
        if me in self._pumping:
            raise RuntimeError(
                "pump is running on this thread already: what it runs cannot call it"
            )
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._stops != stops or over(), timeout)
            keys = list(self._queue)  # what comes now is for the next time
            self._pumping.add(me)
        try:
            return sum(self._run(key) for key in keys)
        finally:
            with self._changed:
                self._pumping.discard(me)
                left = list(self._queue.values())
            if left and self._on_needed is not None:  # what came meanwhile, or is left after Ctrl-C
                left[0].sink.spawn(self._tell_author)

    def wake(self) -> None:
        """Have `pump` ask again whether it is over."""
        with self._changed:
            self._changed.notify_all()

    def clear(self, reason: str) -> None:
        """Cancel what waits, and let those go who wait for it."""
        for incoming in list(self._queue.values()):
            incoming.token.cancel(reason)
        self._stops += 1
        self.wake()


def _start_in_main(incoming: IncomingRequest) -> None:
    incoming.server.feature("executors").main.start(incoming)
    incoming.server.wake_main()


def executor_of(given: Any, known: set[Executor]) -> Optional[Executor]:
    """Return the executor that ``executor=`` means; None for the pool of workers.

    Args:
        given: The value of the option.
        known: The executors of the server; a new one is added.

    Raises:
        ValueError: There is no executor of this name.
        TypeError: The value is not an executor.
    """
    if given is None:
        return None
    submit = getattr(given, "submit", None) or given
    for executor in list(known):  # the first request of a mounted server adds one
        if executor is given or executor.submit == submit:
            return executor
    if isinstance(given, type) or not (isinstance(given, Executor) or callable(submit)):
        choices = (
            "executor is None, 'main', an object with submit(), such as a Serial(), or a callable"
        )
        error = ValueError if isinstance(given, str) else TypeError
        raise error(f"{choices}, not {given!r}")
    made = given if isinstance(given, Executor) else Submitting(submit)
    known.add(made)
    return made


class Executors(Feature):
    """The executors of one server's handlers, and of the handlers of servers that it mounts.

    Args:
        registry: The server's registry.

    Attributes:
        main: The executor "main".
        known: All of them.
    """

    def __init__(self, registry: Registry) -> None:
        self.main = Main(registry.config.on_pump_needed)
        self.known: set[Executor] = {self.main}

    def find(self, given: Any) -> Optional[Executor]:
        """Return the executor that ``executor=`` means, as `executor_of`."""
        return executor_of(given, self.known)

    def is_busy(self) -> bool:
        """Return whether a handler runs on a thread of an author's own."""
        return any(isinstance(each, Submitting) and each.running for each in list(self.known))

    def leave(self, user: object) -> None:
        """Note that a server is closed."""
        for executor in list(self.known):
            executor.leave(user)
