"""`CancelToken`: cancels calls from any thread or signal handler.

https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/cancellation
"""

from __future__ import annotations

from typing import Callable, Optional

from ..log import logger

log = logger("minimcp.requests")


class CancelToken:
    """A token that cancels calls. Pass it as ``cancel=``. Many calls may share one token.

    Attributes:
        cancelled: Whether `cancel` was called.
        reason: The reason given to `cancel`, or None.

    Thread-safe. May be used in signal handlers.
    """

    # This class has no lock, because a signal handler may cancel inside `on_cancel`. Each step
    # is one atomic operation on a dict, and the thread that pops a callback runs it.
    cancelled = False
    reason: Optional[str] = None

    # Set by the first `on_cancel`, because most tokens have no callback.
    callbacks: dict[object, Callable[[], object]]

    def cancel(self, reason: Optional[str] = None) -> None:
        """Cancel all current and future calls with this token. Idempotent.

        The calls raise `Cancelled`, and the servers are notified.

        Args:
            reason: The message of the exceptions and of the notifications; None means a default.
        """
        if self.cancelled:
            return
        self.reason = reason
        self.cancelled = True
        callbacks = vars(self).get("callbacks", {})
        for key in list(callbacks):
            callback = callbacks.pop(key, None)
            try:
                if callback is not None:
                    callback()
            except Exception as error:  # the other callbacks must still be called
                log.error("a callback of on_cancel failed: %r", error, exc_info=error)

    def on_cancel(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` on the thread that cancels, or now if the token was cancelled already.

        If `cancel` calls the callback and it raises an exception, the exception is logged.

        Returns:
            A function that removes the callback.
        """
        key = object()
        callbacks = vars(self).setdefault("callbacks", {})
        callbacks[key] = callback
        if self.cancelled and callbacks.pop(key, None) is not None:
            callback()

        def forget() -> None:
            callbacks.pop(key, None)

        return forget

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'cancelled' if self.cancelled else 'open'}>"
