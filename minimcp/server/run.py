"""`Server.run`: serve until the input ends, a signal arrives or `close` is called.

The main thread runs the handlers of ``executor="main"``; a watcher thread waits for the end. A pipe
wakes the watcher: the interpreter writes the numbers of signals into it, whatever the main thread
is doing, and `wake` writes a zero.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import sys
import threading
from contextlib import ExitStack, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, Optional, Protocol

from ..engine.timer import Deadline
from ..log import logger

if TYPE_CHECKING:
    from ..features.executors import Main

log = logger("minimcp.stdio")

TERMINAL_HINT = (
    "this is a server: it waits for a client on stdin, but stdin is a terminal. You can type"
    " messages, one line each; Ctrl-D on an empty line ends the server. To list its tools, run"
    " python3 -m minimcp list FILE"
)

# Seconds between checks whether the parent process still exists. No system reports its end.
PARENT_CHECK_SECONDS = 0.5

# Seconds after a signal in which the process ends, because hosts kill it after two seconds.
SIGNAL_SECONDS = 1.2

# Seconds in which a handler on the main thread must return after everything else has ended.
EXIT_SECONDS = 1.0

# Minimum time in seconds for the main thread to return, even on a busy machine.
RETURN_SECONDS = 0.25

# Seconds between SIGTERM and SIGKILL for a child process.
KILL_SECONDS = 0.1

# Added to a signal's number in a byte that the Python handler wrote.
FROM_HANDLER = 0x80

SIGNALS = tuple(
    [
        getattr(signal, name)
        for name in ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP
        if hasattr(signal, name)
    ]
)


class RunningServer(Protocol):
    """A connection or HTTP server that is being served. It ends by itself or is closed."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    def close(self, grace: float, reason: Optional[str]) -> None:
        """End it after at most ``grace`` seconds.

        If there is a ``reason``, running requests are cancelled with it. If None, they continue.
        """


class Run:
    """One call of `Server.run`, in its thread.

    Args:
        find_main: Returns the executor "main", which this thread then pumps if it is the main
            thread; None while no handler needs it (see `look_for_main`). In any other thread, the
            author pumps, and signals are not handled.
        grace: Seconds that running requests get at the end.
        with_parent: Whether to end when the parent process has ended.
        is_busy: Returns whether a handler is running on an executor whose threads might not be
            daemons.
    """

    def __init__(
        self,
        find_main: Callable[[], Optional[Main]],
        grace: float,
        *,
        with_parent: bool = False,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._find_main = find_main
        self._grace = grace
        self._is_busy = is_busy
        self._parent = os.getppid() if with_parent else None
        self._in_main = threading.current_thread() is threading.main_thread()
        near, far = _pipe()
        self._near = near
        self._far = far
        self._over = threading.Event()
        self._returned = threading.Event()
        # Set when there may be something to pump, or when the run is over.
        self._look = threading.Event()
        # When the process must have exited, after a signal.
        self._deadline: Optional[Deadline] = None
        # The bytes that end the run. The pipe also receives the numbers of other signals, for which
        # the author has handlers.
        self._ending = {0}
        # The bytes that signals have written.
        self._bytes: list[int] = []
        # Restores the signal handlers.
        self._restore = ExitStack()

    def wake(self) -> None:
        """Wake the watcher, because `serve` should end or has ended. Any thread; safe in signal
        handlers."""
        try:
            self._far.write(b"\0")
        except (OSError, ValueError):
            pass  # the run is over

    def serve(self, connect: Callable[[], RunningServer]) -> None:
        """Open a server, and return when it has ended.

        Args:
            connect: Opens the server, which calls `wake` when it has ended.
        """
        _runs.append(self)
        try:
            with self._restore:
                if self._in_main:
                    self._take_signals()
                served = connect()
                watcher = threading.Thread(
                    target=self._watch, args=(served,), name="minimcp-run", daemon=True
                )
                watcher.start()
                while self._in_main and not self._over.is_set():
                    # A handler raised KeyboardInterrupt itself: signals only wake the watcher.
                    with suppress(KeyboardInterrupt):
                        self._serve_main()
                    self._hold_signals()
                self._over.wait()
        except BaseException:
            self._near.close()
            self._far.close()
            raise
        finally:
            if self in _runs:  # not in a forked process
                _runs.remove(self)
            self._returned.set()
        if self._in_main:
            _bound_exit(self._deadline)

    def look_for_main(self) -> None:
        """Look for the executor "main", because a handler that needs it was registered. Any
        thread."""
        self._look.set()

    def _serve_main(self) -> None:
        """Pump, or wait until a handler needs the executor "main"."""
        main = self._find_main()
        if main is not None:
            main.pump(None, self._over.is_set)
        else:
            self._look.wait()
            self._look.clear()

    def _take_signals(self) -> None:
        """Make SIGINT, SIGTERM and SIGHUP wake the watcher until `_restore` is closed."""
        before = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        self._restore.callback(signal.set_wakeup_fd, before)
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._ending.add(int(number))
                old = signal.signal(number, self._on_signal)
                if old is None:  # set by code that is not Python
                    old = signal.SIG_DFL
                self._restore.callback(signal.signal, number, old)

    def _hold_signals(self) -> None:
        """Set the signal handlers again after a handler that ran on the main thread.

        That handler may have replaced them, as an event loop does.
        """
        if self._over.is_set():
            return
        signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        for number in self._ending - {0}:
            if signal.getsignal(number) != self._on_signal:
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        """Wake the watcher. The interpreter has already done so, unless other code took its
        descriptor."""
        with suppress(OSError, ValueError):  # the pipe is full: the watcher is awake
            self._far.write(bytes([number | FROM_HANDLER]))

    def renew_in_fork(self) -> None:
        """Restore the previous signal handlers and end `serve`, in a forked child process."""
        self._restore.close()
        self._near.close()
        self._far.close()
        self._over = threading.Event()
        self._over.set()
        self._in_main = False

    # ------------------------------------------------------------ the watcher thread

    def _watch(self, served: RunningServer) -> None:
        with self._near, self._far:
            woken = False
            while not woken and self._parent in (None, os.getppid()):
                woken = self._wait(PARENT_CHECK_SECONDS)
            signalled = self.signal_count > 0
            reason = "the server received a signal to stop" if signalled else None
            if not woken:
                reason = "the process that started the server has ended"
            deadline = Deadline(SIGNAL_SECONDS if signalled else None)
            self._deadline = deadline if signalled else None
            if not served.ended and self._close(served, reason, deadline) and signalled:
                deadline = Deadline(0)
            self._over.set()
            self._look.set()
            main = self._find_main()
            if main is not None:
                main.wake()
            if self._in_main:
                self._end_process(deadline if signalled else Deadline(EXIT_SECONDS), signalled)

    def _wait(self, seconds: float) -> bool:
        """Wait for `wake` or a signal. Return False if none arrived, or only other signals."""
        if not select.select([self._near], [], [], seconds)[0]:
            return False
        found = [each for each in self._near.read(64) if each % FROM_HANDLER in self._ending]
        self._bytes += [each for each in found if each]
        return bool(found)

    @property
    def signal_count(self) -> int:
        """The number of signals that have arrived. Each signal has written two bytes, or only one
        of them."""
        from_handler = [each for each in self._bytes if each > FROM_HANDLER]
        return max(len(from_handler), len(self._bytes) - len(from_handler))

    def _close(self, served: RunningServer, reason: Optional[str], deadline: Deadline) -> bool:
        """Close the server. Return True if another signal arrived, False when closed or at the
        deadline."""

        def close() -> None:
            grace = self._grace
            if deadline.seconds is not None:
                grace = min(grace, EXIT_SECONDS)
            try:
                served.close(grace, reason)
            finally:
                closed.set()
                self.wake()

        closed = threading.Event()
        before = self.signal_count
        threading.Thread(target=close, name="minimcp-run-close", daemon=True).start()
        while not closed.is_set() and not deadline.expired:
            self._wait(deadline.to_wait())
            if self.signal_count > before:
                return True
        return False

    def _end_process(self, deadline: Deadline, signalled: bool) -> None:
        """End the process if a handler keeps the main thread or, after a signal, an author's
        executor."""
        self._returned.wait(max(deadline.to_wait(), RETURN_SECONDS))
        while signalled and self._is_busy() and not deadline.expired:
            self._wait(0.05)
        if not self._returned.is_set() or (signalled and self._is_busy()):
            log.error("a handler has not returned: ending the process")
            _end_children(Deadline(0))
            os._exit(1)


def _pipe() -> tuple[Any, Any]:
    """Return both ends of a pipe. Writing to it never blocks.

    On Windows it is a pair of sockets, because `select` accepts nothing else.
    """
    if os.name == "nt":  # pragma: no cover - Windows
        import socket  # takes as long to import as this whole folder

        reading, writing = socket.socketpair()
        writing.setblocking(False)
        return reading.makefile("rb", 0), writing.makefile("wb", 0)
    near, far = os.pipe()
    os.set_blocking(far, False)
    return open(near, "rb", 0), open(far, "wb", 0)


# ------------------------------------------------------------ child processes

# Runs that have not returned. More than one thread may serve.
_runs: list[Run] = []
_forking = threading.local()


def _before_fork() -> None:
    """Block the signals of `Run`. Until its own hook has run, a child process has the handlers of
    its parent and would wake the parent.
    """
    if _runs:
        _forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def _after_fork() -> None:
    """Unblock the signals of `Run`."""
    mask = _forking.__dict__.pop("mask", None)
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    for run in _runs:
        run.renew_in_fork()
    _runs.clear()
    _after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )


def _bound_exit(deadline: Optional[Deadline]) -> None:
    """Limit how long the interpreter waits for processes of `multiprocessing` when it exits.

    Args:
        deadline: When to terminate them; None means `EXIT_SECONDS` after the exit began.
    """
    if not _children():
        return
    process = os.getpid()

    def exiting() -> None:
        if os.getpid() == process:
            threading.Thread(
                target=_end_children,
                args=(deadline or Deadline(EXIT_SECONDS),),
                name="minimcp-run-children",
                daemon=True,
            ).start()

    # `concurrent.futures` waits for its processes in such a callback, before `atexit` callbacks
    # run.
    getattr(threading, "_register_atexit", atexit.register)(exiting)


def _children() -> list[Any]:
    """Return the running processes of `multiprocessing`."""
    module = sys.modules.get("multiprocessing.process")
    return [] if module is None else module.active_children()


def _end_children(deadline: Deadline) -> None:
    """Terminate the processes of `multiprocessing` that are running at the deadline, then kill
    them."""
    left = _children()
    _wait_for_children(left, deadline)
    for end in ("terminate", "kill"):
        for child in left:
            with suppress(OSError, ValueError):  # it has ended
                getattr(child, end)()
        _wait_for_children(left, Deadline(KILL_SECONDS))


def _wait_for_children(left: list[Any], deadline: Deadline) -> None:
    """Remove the processes that end before the deadline from the list."""
    if left:
        from multiprocessing.connection import wait
    while left and not deadline.expired:
        ended = wait([child.sentinel for child in left], deadline.to_wait())
        left[:] = [child for child in left if child.sentinel not in ended]
