"""Arguments that all calls of a client have: when they are given up, and by what token."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ..engine.requests import CancelToken
from ..engine.timer import Deadline
from ..errors import Cancelled


class _Default:
    def __repr__(self) -> str:
        return "the client's"


DEFAULT: Any = _Default()
"""As ``timeout=``: what the client was connected with."""


def shown(value: object) -> str:
    """A wrong argument, for a message: "the str 'x'"."""
    return f"the {type(value).__name__} {repr(value):.60}"


def moment(
    name: str, seconds: Optional[float], make: Callable[[Optional[float]], Deadline] = Deadline
) -> Deadline:
    """When this many seconds are over.

    Args:
        name: Of the argument, for the message.
        seconds: Its value; None never comes.
        make: Makes the moment.

    Raises:
        TypeError: It is no number.
        ValueError: It is negative.
    """
    try:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"{name} is at least 0 seconds, not {seconds}; None waits for ever")
        return make(seconds)
    except TypeError:
        raise TypeError(f"{name} is a number of seconds or None, not {shown(seconds)}") from None


def check_token(cancel: Optional[CancelToken]) -> None:
    """Return if something with this ``cancel=`` may begin.

    Raises:
        TypeError: It is no token.
        Cancelled: It is cancelled.
    """
    if cancel is not None and not isinstance(cancel, CancelToken):
        raise TypeError(f"cancel is a CancelToken or None, not {shown(cancel)}")
    if cancel is not None and cancel.cancelled:
        raise Cancelled(cancel.reason or "the token was cancelled before the call")
