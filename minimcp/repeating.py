"""When a request is sent again that the server takes not for now: HTTP 429, which says that it was not run. Floor 6."""

from __future__ import annotations

from typing import Callable, Optional, Sequence, TypeVar

from .cancel import CancelToken
from .channel import Channel
from .deadline import Deadline
from .errors import RequestTimeout
from .failures import Busy
from .outgoing import OURS
from .rounds import until_cancelled

BUSY_TRIES, LONGEST_BUSY = 3, 60
"""How often a request is sent again, and after how many seconds at most; of many at once each is sent once more."""


T = TypeVar("T")


def patiently(channel: Channel, ask: Callable[[], T], deadline: Deadline, cancel: Optional[CancelToken]) -> T:
    """Ask, and again as often as it is of use; arguments and errors as `waited`, and what ``ask`` raises."""
    for _ in range(BUSY_TRIES):
        try:
            return ask()
        except Busy as busy:
            if not waited(channel, [busy], deadline, cancel):
                raise
    return ask()


def waited(channel: Channel, busy: Sequence[Busy], deadline: Deadline, cancel: Optional[CancelToken]) -> bool:
    """Wait until the server takes requests again; False, and at once, where there would be no time for them then.

    Args:
        channel: Where they were refused; its end ends the wait.
        busy: What the server said to each.
        deadline: Of the calls.
        cancel: Ends the wait; None for one that nobody cancels.

    Raises:
        Cancelled: The token was cancelled.
        ConnectionLost: The connection has ended.
    """
    seconds, left = max(each.seconds for each in busy), deadline.remaining()
    if seconds > LONGEST_BUSY or (left is not None and left <= seconds):
        return False
    call = channel.calls.table.register(OURS)
    forget = until_cancelled(channel.calls, call, cancel)
    try:
        channel.calls.wait(call, Deadline(seconds), tell=False)
    except RequestTimeout:
        pass
    finally:
        forget()
    return True
