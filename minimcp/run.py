"""Serving over this process's own stdin and stdout until the input ends, a signal comes or somebody closes. Floor 6."""

from __future__ import annotations

import sys
import threading
from queue import Empty, SimpleQueue
from typing import Any, Callable, Optional

from .channel import Channel
from .transports.stdio import StandardStreams, watch_parent


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

    def wake() -> None:
        gate.put(None)

    streams = StandardStreams.take(max_message_bytes=max_message_bytes)
    try:
        with _Signals(wake) as signals:  # before the first answer: a signal may come right after it
            stop_watching = watch_parent(wake)
            try:
                channel = connect(streams, wake)
                _wait(gate, None)
                _finish(channel, grace, gate, signals)
            finally:
                stop_watching()
    finally:
        streams.restore()


def _wait(gate: SimpleQueue[None], looks: Optional[int]) -> None:
    """Wait to be woken, and return to Python once a second: a signal that strikes just before the thread falls asleep
    wakes nobody, and its handler runs only then.

    Args:
        looks: How often at most; None waits for as long as it takes.
    """
    for _ in range(looks or sys.maxsize):
        try:
            gate.get(timeout=1.0)
            return
        except Empty:
            pass


def _finish(channel: Channel, grace: float, gate: SimpleQueue[None], signals: _Signals) -> None:
    """Close, unless the stream has ended by itself; a second signal does not wait for anything."""
    signalled = min(signals.count, 1)  # the first only asks; a second that came as quickly counts
    if channel.ended:
        return
    threading.Thread(target=channel.close, args=(grace,), name="minimcp-stdio-close", daemon=True).start()
    while not channel.ended and signals.count <= signalled:
        _wait(gate, 1)
