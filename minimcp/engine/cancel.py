"""`CancelToken`: one switch that ends calls from any thread."""

from __future__ import annotations

import logging
from typing import Callable, Optional

log = logging.getLogger("minimcp.cancel")


class CancelToken:
    """Given to calls as ``cancel=``; one token may serve many calls. Thread-safe."""

    # No lock: a signal handler may cancel in the middle of `on_cancel`. Who takes an order out of the table runs it.
    __slots__ = ("_callbacks", "_cancelled", "reason")

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._cancelled = False
        self.reason: Optional[str] = None

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def cancel(self, reason: Optional[str] = None) -> None:
        """End every call that has this token, now and later; they raise `Cancelled`. Idempotent.

        Args:
            reason: Told to the servers and in the exception; None gives none.
        """
        if self._cancelled:
            return
        self.reason = reason
        self._cancelled = True
        for order in list(self._callbacks):
            callback = self._callbacks.pop(order, None)
            if callback is not None:
                _run(callback)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `callback` called by the thread that cancels; at once if that has happened. What it raises is logged.

        Returns:
            A function that takes the order back.
        """
        order = object()
        self._callbacks[order] = callback
        if self._cancelled and self._callbacks.pop(order, None) is not None:
            callback()
        return lambda: self._forget(order)

    def _forget(self, order: object) -> None:
        self._callbacks.pop(order, None)

    def __repr__(self) -> str:
        return f"<CancelToken {'cancelled' if self._cancelled else 'open'}>"


def _run(callback: Callable[[], None]) -> None:
    """Run one of several callbacks: none may keep the others from running."""
    try:
        callback()
    except Exception as error:
        log.error("a callback of on_cancel failed: %r", error, exc_info=error)
