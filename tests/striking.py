"""Exceptions of signal handlers, at every point at which they can strike, one after the other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import minimcp

_PACKAGE = str(Path(minimcp.__file__).parent)


class Struck(BaseException):
    """What the handler raised."""


def struck_at(number: int, act: Callable[[], object]) -> bool:
    """Run `act` and raise `Struck` at one point of our code; False when there are not so many points.

    Python runs signal handlers where a function begins and where a call has returned, before its result is used. (Also
    where a loop begins again: our loops make calls.) A profiler is called at the same points.

    Args:
        number: Which point, from 0.
        act: What to run.
    """
    left = number

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal left
        if event in ("call", "return", "c_return") and frame.f_code.co_filename.startswith(_PACKAGE):
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise Struck

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        act()
    except Struck:
        return True
    finally:
        sys.setprofile(before)
    return False
