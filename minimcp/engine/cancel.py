"""`CancelToken`: ends calls from any thread, also from a signal handler.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

from typing import Callable, Optional

from ..log import logger

log = logger("minimcp.requests")


class CancelToken:
    """Given to calls as ``cancel=``; one token may serve many calls. Thread-safe."""

    # There is no lock, because a signal handler may cancel in the middle of `on_cancel`. Each step
    # is one operation on a dict: the thread that pops a callback runs it.
    cancelled = False
    reason: Optional[str] = None

    # Made by the first `on_cancel`, because most tokens have no callback.
    _callbacks: dict[object, Callable[[], object]]

    def cancel(self, reason: Optional[str] = None) -> None:
        """End every call that has this token, now and later; they raise `Cancelled`. Idempotent.

        Args:
            reason: Told to the servers and in the exception; None gives none.
        """
        if self.cancelled:
            return
        self.reason = reason
        self.cancelled = True
        callbacks = vars(self).get("_callbacks", {})
        for key in list(callbacks):
            callback = callbacks.pop(key, None)
            try:
                if callback is not None:
                    callback()
            except Exception as error:  # none may keep the others from being called
                log.error("a callback of on_cancel failed: %r", error, exc_info=error)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Have `callback` called by the thread that cancels; at once if that has happened. What it
        raises is logged.

        Returns:
            A function that takes this back.
        """
        key = object()
        callbacks = vars(self).setdefault("_callbacks", {})
        callbacks[key] = callback
        if self.cancelled and callbacks.pop(key, None) is not None:
            callback()

        def forget() -> None:
            callbacks.pop(key, None)

        return forget

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'cancelled' if self.cancelled else 'open'}>"
