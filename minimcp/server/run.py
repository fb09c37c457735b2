"""`Server.run`: serve until the input ends, a signal comes or `close` is called.

The main thread pumps for ``executor="main"``; another one looks for the end. What wakes that one is
a pipe: the interpreter writes the numbers of signals into it, whatever the main thread is doing,
and `close` a zero.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from contextlib import ExitStack, suppress
from typing import Any, Callable, Optional, Protocol

from ..engine.timer import Deadline
from ..errors import logger
from .executors import Main

log = logger("minimcp.stdio")

FOR_A_PERSON = (
    "this is a server: it waits for a client at stdin, and a terminal is there. To look at it, say "
    "python3 -m minimcp list FILE; to end it, press Ctrl-C"
)

# How often it is looked whether the process lives that started this one: no system says so in time.
LOOK_SECONDS = 0.5

# After a signal the process ends within this time, because hosts kill after two seconds.
SIGNAL_SECONDS = 1.2

# What a handler on the main thread gets to return in when all else has ended.
LAST_SECONDS = 1.0


class Served(Protocol):
    """What is served: it ends by itself, or is closed."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    def close(self, grace: float, reason: Optional[str]) -> None:
        """End it: after ``grace`` seconds, or sooner; ``reason`` cancels what runs, None lets it go
        on."""


class Run:
    """One `Server.run`, in the thread that called it.

    Args:
        main: What wants the main thread. In another thread that is left to whoever pumps, and
            signals are left alone.
        grace: Seconds that running requests get at the end.
        with_parent: Whether it also ends when the process has gone that started this one.
        is_busy: Whether a handler still runs on a thread that may be no daemon.
    """

    def __init__(
        self,
        main: Main,
        grace: float,
        *,
        with_parent: bool = False,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self._main, self._grace, self._is_busy = main, grace, is_busy
        self._parent = os.getppid() if with_parent else None
        self._in_main = threading.current_thread() is threading.main_thread()
        self._near, self._far = _pipe()
        self._over, self._returned = threading.Event(), threading.Event()
        # What wakes the watcher; numbers of other signals, for which the author has handlers, come
        # that way too.
        self._ending = {0}

    def wake(self) -> None:
        """It is to end, or has ended. Any thread, and safe in signal handlers."""
        try:
            self._far.write(b"\0")
        except (OSError, ValueError):
            pass  # it is over

    def serve(self, connect: Callable[[], Served]) -> None:
        """Open what is served, and return when it has ended.

        Args:
            connect: Opens it; has `wake` called when it has ended.
        """
        try:
            with ExitStack() as put_back:
                if self._in_main:
                    self._take_signals(put_back)
                served = connect()
                watcher = threading.Thread(
                    target=self._watch, args=(served,), name="minimcp-run", daemon=True
                )
                watcher.start()
                while self._in_main and not self._over.is_set():
                    with suppress(
                        KeyboardInterrupt
                    ):  # a handler's own: signals only tell the server to end
                        self._main.pump(None, self._over.is_set)
                self._over.wait()
        except BaseException:
            self._near.close()
            self._far.close()
            raise
        finally:
            self._returned.set()

    def _take_signals(self, put_back: ExitStack) -> None:
        """Have SIGINT, SIGTERM and SIGHUP only wake the watcher."""
        before = signal.set_wakeup_fd(self._far.fileno(), warn_on_full_buffer=False)
        put_back.callback(signal.set_wakeup_fd, before)
        for number in [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]:
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._ending.add(int(number))
                old = signal.signal(number, lambda *_: None)
                put_back.callback(signal.signal, number, signal.SIG_DFL if old is None else old)

    # ------------------------------------------------------------ the thread that looks for the end

    def _watch(self, served: Served) -> None:
        with self._near, self._far:
            woken = b""
            while not woken and self._parent in (None, os.getppid()):
                woken = self._wait(LOOK_SECONDS)
            signalled = bool(woken.strip(b"\0"))
            reason = "the server was told to end" if signalled else None
            if not woken:
                reason = "the process that started the server has gone"
            deadline = Deadline(SIGNAL_SECONDS if signalled else None)
            if not served.ended and self._close(served, reason, deadline) and signalled:
                deadline = Deadline(0)
            self._over.set()
            self._main.wake()
            if self._in_main:
                self._end_process(deadline if signalled else Deadline(LAST_SECONDS), signalled)

    def _wait(self, seconds: float) -> bytes:
        """What woke it; empty when nothing did in that time, or only other signals."""
        if not select.select([self._near], [], [], seconds)[0]:
            return b""
        return bytes(self._ending.intersection(self._near.read(64)))

    def _close(self, served: Served, reason: Optional[str], deadline: Deadline) -> bool:
        """Close, at most until the deadline; whether a further signal came, which does not wait for
        anything."""

        def close() -> None:
            try:
                served.close(
                    self._grace if deadline.seconds is None else min(self._grace, LAST_SECONDS),
                    reason,
                )
            finally:
                closed.set()
                self.wake()

        closed = threading.Event()
        threading.Thread(target=close, name="minimcp-run-close", daemon=True).start()
        while not closed.is_set() and not deadline.expired:
            if self._wait(deadline.to_wait()).strip(b"\0"):
                return True
        return False

    def _end_process(self, deadline: Deadline, signalled: bool) -> None:
        """End the process when a handler keeps the main thread, or after a signal a thread of an
        author's executor."""
        self._returned.wait(max(deadline.to_wait(), 0.1))
        while signalled and self._is_busy() and not deadline.expired:
            self._wait(0.05)
        if not self._returned.is_set() or (signalled and self._is_busy()):
            log.error("a handler does not return: the process ends here")
            os._exit(1)


def _pipe() -> tuple[Any, Any]:
    """Both ends of a pipe, to which writing never waits; on Windows only sockets can be waited for."""
    if os.name == "nt":  # pragma: no cover - Windows
        import socket  # takes as long as all of this folder

        reading, writing = socket.socketpair()
        writing.setblocking(False)
        return reading.makefile("rb", 0), writing.makefile("wb", 0)
    near, far = os.pipe()
    os.set_blocking(far, False)
    return open(near, "rb", 0), open(far, "wb", 0)
