"""Serving until the input ends, a signal comes or somebody closes: over stdin and stdout, or HTTP.

The main thread waits for that and does nothing else, until a request comes that wants it (``executor="main"``). From
then on it pumps, and a stand-in does the waiting: so a handler on the main thread hears of the end like any other, and
only one that does not mind is struck.
"""

from __future__ import annotations

import logging
import os
import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional, Protocol

from ..engine.connection import Connection
from ..stdio.streams import StandardStreams
from .pump import Main

log = logging.getLogger("minimcp.stdio")

FOR_A_PERSON = (
    "this is a server: it waits for a client at stdin, and a terminal is there. To look at it, say "
    "python3 -m minimcp list FILE; to end it, press Ctrl-C"
)

LOOK_SECONDS = 0.2
"""How often the thread that waits looks whether the parent lives and lets Python run the handlers of signals."""

LAST_SECONDS = 1.0
"""What a handler on the main thread gets to return in when all else has ended."""

STRUCK_SECONDS = 5.0
"""What it gets when it is struck then, before the process ends without it."""

STRIKES = 50
"""How often it is struck in that time, until one has got through: a signal just before a wait does not end the wait."""

_END, _WORK = True, False
"""What wakes the thread that waits: it shall end or has ended; the main thread is wanted."""


class Served(Protocol):
    """What is served: it ends by itself, or is closed."""

    @property
    def ended(self) -> bool:
        """Whether it has ended."""

    def close(self, grace: float, reason: Optional[str]) -> None:
        """End it; arguments as of `Connection.close`."""


class _Signals:
    """SIGINT, SIGTERM and SIGHUP, turned into one wake-up while the main thread serves; elsewhere they are left alone.

    The handlers only wake: whatever a tool does, no signal strikes in it, unless ``striking`` is set; then one does.

    Args:
        wake: Called for each signal.
        main: Knows whether the main thread runs a handler.
    """

    def __init__(self, wake: Callable[[], None], main: Main) -> None:
        self._wake, self._main = wake, main
        self._old: list[tuple[int, Any]] = []
        self.striking = False
        self.count = 0

    def __enter__(self) -> _Signals:
        if threading.current_thread() is threading.main_thread():
            import signal

            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    self._old.append((number, signal.signal(number, self._caught)))
        return self

    def _caught(self, number: int, frame: object) -> None:
        self.count += 1
        self._wake()
        if self.striking and self._main.runs_here:
            self.striking = False
            raise KeyboardInterrupt

    def strike(self) -> None:
        """Have a signal come in the main thread; code in C that does not look for signals runs on."""
        import signal

        if hasattr(signal, "pthread_kill"):  # it also ends a wait, which the other cannot
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    def __exit__(self, *_: object) -> None:
        if self._old:
            import signal

            for number, handler in self._old:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def serve_stdio(
    connect: Callable[[StandardStreams, Callable[[], None]], Connection],
    *,
    max_message_bytes: Optional[int],
    grace: float,
    main: Main,
) -> None:
    """Serve one client over stdin and stdout; returns when that has ended.

    Args:
        connect: Opens a channel over the streams; calls the second argument when the channel has ended or shall end.
        max_message_bytes: The longest line; None means no limit.
        grace: Seconds that running requests get at the end.
        main: What wants the main thread. If this is another one, that is left to whoever pumps.
    """
    if os.isatty(0):
        log.warning(FOR_A_PERSON)
    streams = StandardStreams.take(max_message_bytes)
    service = _Service(main, grace)
    try:
        with service.signals:  # before the first answer: a signal may come right after it
            service.last(lambda: connect(streams, service.wake))
    finally:
        streams.restore()


def serve_until_told(open: Callable[[Callable[[], None]], Served], *, grace: float, main: Main) -> None:
    """Serve what has no end of its own, until a signal comes or somebody closes it.

    Args:
        open: Begins to serve; its argument is to be called when that has ended or shall end.
        grace: Seconds that running requests get at the end.
        main: As of `serve_stdio`.
    """
    service = _Service(main, grace, with_parent=False)
    with service.signals:
        service.last(lambda: open(service.wake))


class _Service:
    """What the thread that called `serve_stdio` does while others serve.

    Args:
        main: What wants the main thread.
        grace: Seconds that running requests get at the end.
        with_parent: Whether it also ends when the process has gone that started this one.
    """

    def __init__(self, main: Main, grace: float, *, with_parent: bool = True) -> None:
        self._main, self._grace = main, grace
        self._gate: SimpleQueue[bool] = SimpleQueue()  # unlike a lock of ours, a signal handler may use it any time
        self._work: SimpleQueue[bool] = SimpleQueue()
        self._parent = os.getppid() if with_parent else None
        self._pumping = self._over = False
        self._returned = threading.Event()
        self._strike_lock = threading.Lock()
        self.signals = _Signals(self.wake, main)

    def wake(self) -> None:
        """It shall end, or has ended."""
        self._gate.put(_END)

    def _wanted(self) -> None:
        (self._work if self._pumping else self._gate).put(_WORK)

    def last(self, connect: Callable[[], Served]) -> None:
        """Open the channel, and return when it has ended."""
        bells = self._main.bells if threading.current_thread() is threading.main_thread() else []
        bells.append(self._wanted)
        try:
            channel = connect()
            while not self._told_to_end():
                if self._pump(channel):
                    return
            self._finish(channel)
        finally:
            bells.remove(self._wanted)

    def _told_to_end(self) -> bool:
        """Wait until it shall end, or until the main thread is wanted (False)."""
        while self._parent in (None, os.getppid()):
            told = _woken(self._gate)
            if told is not None:
                return told
        return True

    def _finish(self, channel: Served) -> None:
        """Close, unless the stream has ended by itself; a second signal does not wait for anything."""
        signals = self.signals
        signalled = min(signals.count, 1)  # the first only asks; a second that came as quickly counts
        if channel.ended:
            return
        gone = "the process that started the server has gone" if self._parent not in (None, os.getppid()) else None
        reason = "the server was told to end" if signalled else gone  # None lets running requests go on
        threading.Thread(target=self._close, args=(channel, reason), name="minimcp-stdio-close", daemon=True).start()
        while not channel.ended and signals.count <= signalled:
            _woken(self._gate)

    def _close(self, channel: Served, reason: Optional[str]) -> None:
        try:
            channel.close(self._grace, reason)
        finally:
            self.wake()

    # ------------------------------------------------------------ the main thread at work

    def _pump(self, channel: Served) -> bool:
        """Pump until the channel has ended; False when there is no thread for a stand-in, so it was done only once."""
        self._pumping = True
        try:
            threading.Thread(
                target=self._stand_in, args=(channel,), name="minimcp-stdio-stand-in", daemon=True
            ).start()
        except RuntimeError as error:
            log.warning("while a handler runs on the main thread nothing looks for the end: %s", error)
            self._pumping = False
            self._pump_once()
            return False
        try:
            while not self._over:
                self._pump_once()
                _woken(self._work)
        finally:
            with self._strike_lock:
                self._returned.set()
        return True

    def _pump_once(self) -> None:
        try:
            self._main.pump()
        except KeyboardInterrupt:
            pass  # the handler's own, or the last strike: signals only wake

    def _stand_in(self, channel: Served) -> None:
        """Wait for the end in place of the main thread, and have that return then."""
        while not self._told_to_end():
            pass  # the main thread knows
        self._finish(channel)
        self._over = True
        self._work.put(_END)
        if self._returned.wait(LAST_SECONDS if channel.ended else 0):  # a second signal waits for nothing
            return
        self.signals.striking = True
        for _ in range(STRIKES):
            with self._strike_lock:  # what comes after the handler is not to be struck
                if self.signals.striking and not self._returned.is_set():
                    self.signals.strike()
            if self._returned.wait(STRUCK_SECONDS / STRIKES):
                return
        log.error("a handler on the main thread does not return: the process ends here")
        os._exit(1)


def _woken(gate: SimpleQueue[bool]) -> Optional[bool]:
    """Wait to be woken, for `LOOK_SECONDS` at most; None when nothing came.

    This is one of the two loops of this library that look again and again, for two reasons. A client that is killed
    does not always close the pipes, because something else may hold them, and the system's own notice
    (`PR_SET_PDEATHSIG`) comes when the parent's *thread* ends; on Windows nothing is seen. And a signal that strikes
    just before this thread falls asleep wakes nobody, nor does one that the system gives to another thread, as Linux
    does now and then: its handler runs only when this thread comes back to Python.
    """
    try:
        return gate.get(timeout=LOOK_SECONDS)
    except Empty:
        return None
