"""A call that runs in the background, with the interface of `concurrent.futures.Future`.

Imported only when `Client.submit` is first used: `concurrent.futures` is not cheap.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Callable, Optional

from ..engine.pool import waiting
from ..engine.requests import CancelToken


class CallFuture(Future):  # type: ignore[type-arg]
    """Like its base, and `cancel` also ends a call that runs already, on the wire.

    Args:
        token: The one that the call was given.
    """

    def __init__(self, token: CancelToken) -> None:
        super().__init__()
        self._token = token
        self._begun = False

    def cancel(self) -> bool:
        """End the call and tell the server; False when it has ended already."""
        if not super().cancel():
            return False
        self._token.cancel("the future was cancelled")
        return True

    def result(self, timeout: Optional[float] = None) -> Any:
        """As its base; a handler that waits here gives its place to others meanwhile (rule 6)."""
        with waiting():
            return super().result(timeout)

    def exception(self, timeout: Optional[float] = None) -> Optional[BaseException]:
        """As its base; a handler that waits here gives its place to others meanwhile (rule 6)."""
        with waiting():
            return super().exception(timeout)

    def running(self) -> bool:
        """Whether the call has begun and not ended."""
        return self._begun and not self.done()

    def run(self, work: Callable[[], Any]) -> None:
        """Run the call on this thread and take its outcome, unless it is cancelled meanwhile.

        To its base it is pending until it ends, because a running one could not be cancelled.
        """
        self._begun = True
        try:
            result = work()
        except BaseException as error:
            if self.set_running_or_notify_cancel():
                self.set_exception(error)
        else:
            if self.set_running_or_notify_cancel():
                self.set_result(result)
