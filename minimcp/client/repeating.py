"""When requests are sent again: only if the server says that it did not run them.

It may speak another revision now, have ended the session, or take no more for now (HTTP 429).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, TypeVar

from ..engine.connection import Connection
from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import Cancelled, McpError, RequestTimeout
from ..errors import Busy
from .input_rounds import until_cancelled
from .own_calls import own_call

if TYPE_CHECKING:
    from .calls import Calls

BUSY_TRIES, LONGEST_BUSY = 3, 60
"""How often a request is sent again, and after how many seconds at most; of many at once each is sent once more."""


T = TypeVar("T")


def patiently(channel: Connection, ask: Callable[[], T], deadline: Deadline, cancel: Optional[CancelToken]) -> T:
    """Ask, and again as often as it is of use; arguments and errors as `waited`, and what ``ask`` raises."""
    for _ in range(BUSY_TRIES):
        try:
            return ask()
        except Busy as busy:
            if not waited(channel, [busy], deadline, cancel):
                raise
    return ask()


def waited(channel: Connection, busy: Sequence[Busy], deadline: Deadline, cancel: Optional[CancelToken]) -> bool:
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
    call = own_call(channel.calls)
    forget = until_cancelled(channel.calls, call, cancel)
    try:
        channel.calls.wait(call, Deadline(seconds), tell=False)
    except RequestTimeout:
        pass
    finally:
        forget()
    return True


def send_again(
    calls: Calls,
    method: str,
    params: Sequence[Mapping[str, Any]],
    outcomes: list[Any],
    deadline: Deadline,
    cancel: Optional[CancelToken],
) -> None:
    """Of many requests send those once more that were refused; what comes of them takes the place of the refusals.

    Args:
        calls: What they were sent by.
        method: Of all of them.
        params: One for each request.
        outcomes: What came of each; changed in place.
        deadline: Of all of them together.
        cancel: Ends all of them; None for calls that nobody cancels.
    """
    places = [place for place, outcome in enumerate(outcomes) if calls.adopts(outcome)]
    gone = [place for place, outcome in enumerate(outcomes) if calls.refuses(outcome)]
    busy = [place for place, outcome in enumerate(outcomes) if isinstance(outcome, Busy)]
    again: list[Any] = []
    try:
        if gone:
            places = gone
            calls = calls.next_session(deadline, cancel)
        elif busy and not places and waited(calls.channel, [outcomes[place] for place in busy], deadline, cancel):
            places = busy
        if places:
            if cancel is not None and cancel.cancelled:
                raise Cancelled(cancel.reason or "cancelled")
            again = calls.wave(method, [params[place] for place in places], deadline, cancel)
    except McpError as error:  # what was answered before is not lost with it
        again = [copy(error) for _ in places]
    for place, outcome in zip(places, again):
        outcomes[place] = outcome
