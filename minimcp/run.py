"""Serving over this process's own stdin and stdout until the input ends, a signal comes or somebody closes. Floor 6."""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional

from .channel import Channel
from .transports.stdio import StandardStreams

LOOK_SECONDS = 1.0
"""How often the thread that waits looks whether the parent lives and lets Python run the handlers of signals."""


class _Signals:
    """SIGINT, SIGTERM and SIGHUP, turned into one wake-up while the main thread serves; elsewhere they are left alone.

    The handlers only wake: whatever a tool does, no signal strikes inside it.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._old: list[tuple[int, Any]] = []
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

    def __exit__(self, *_: object) -> None:
        if self._old:
            import signal

            for number, handler in self._old:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def serve_stdio(
    connect: Callable[[StandardStreams, Callable[[], None]], Channel],
    *,
    max_message_bytes: Optional[int],
    grace: float,
) -> None:
    """Serve one client over stdin and stdout; returns when that has ended.

    Args:
        connect: Opens a channel over the streams; calls the second argument when the channel has ended or shall end.
        max_message_bytes: The longest line; None means no limit.
        grace: Seconds that running requests get at the end.
    """
    gate: SimpleQueue[None] = SimpleQueue()  # unlike a lock of ours, a signal handler may use it at any moment
    parent = os.getppid()

    def wake() -> None:
        gate.put(None)

    streams = StandardStreams.take(max_message_bytes=max_message_bytes)
    try:
        with _Signals(wake) as signals:  # before the first answer: a signal may come right after it
            channel = connect(streams, wake)
            while os.getppid() == parent and not _woken(gate):
                pass
            _finish(channel, grace, gate, signals, orphaned=os.getppid() != parent)
    finally:
        streams.restore()


def _woken(gate: SimpleQueue[None]) -> bool:
    """Wait to be woken, for a second at most.

    This is one of the two loops of this library that look again and again, for two reasons. A client that is killed
    does not always close the pipes, because something else may hold them, and the system's own notice
    (`PR_SET_PDEATHSIG`) comes when the parent's *thread* ends; on Windows nothing is seen. And a signal that strikes
    just before this thread falls asleep wakes nobody: its handler runs only when the thread comes back to Python.
    """
    try:
        gate.get(timeout=LOOK_SECONDS)
    except Empty:
        return False
    return True


def _finish(
    channel: Channel, grace: float, gate: SimpleQueue[None], signals: _Signals, *, orphaned: bool
) -> None:
    """Close, unless the stream has ended by itself; a second signal does not wait for anything."""
    signalled = min(signals.count, 1)  # the first only asks; a second that came as quickly counts
    if channel.ended:
        return
    gone = "the process that started the server has gone" if orphaned else None
    reason = "the server was told to end" if signalled else gone  # None lets running requests go on
    threading.Thread(target=channel.close, args=(grace, reason), name="minimcp-stdio-close", daemon=True).start()
    while not channel.ended and signals.count <= signalled:
        _woken(gate)
