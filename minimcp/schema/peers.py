"""Checks by schemas that a peer sent: they may say whatever they like, and still cost little.

A regular expression can keep Python's matcher, and with it the whole process, busy for ever. So a pattern of a peer is
looked at first: one that repeats what may itself match in several ways is never run, and the others only on strings for
which they are quick.
"""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, Optional

from .check import compile_finder

STEPS = 400_000_000
"""What matching all strings of a value may cost at most, roughly: the length of each to the power of how often the
pattern that repeats most does so, and once more; times the patterns. About a second."""

_UNBOUNDED = 100
"""A count of repetitions that is as good as none."""

_BRACES = re.compile(r"\{(\d*)(,?)(\d*)\}")
_OPENING = re.compile(r"\(\?(?:P?<\w+>|[:=!>]|<[=!]|[aiLmsux-]+:)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


class EndlessPattern(ValueError):
    """A pattern that is not run, because that may take for ever."""


def compile_peer_check(schema: Any, *, where: str) -> Callable[[Any], Optional[str]]:
    """As `compile_check`, for a schema that a peer sent.

    The check is quick for every value: one that it would be slow for passes unchecked.

    Raises:
        EndlessPattern: A pattern in it may take for ever.
        ValueError: As `compile_check`.
        ImportError: As `compile_check`.
    """
    find = compile_finder(schema, where=where, bounded=True)
    degrees = [_degree_of(pattern, where) for pattern in _patterns(schema)]
    power = max(degrees, default=0) + 1

    def checked(value: Any) -> Optional[str]:
        if degrees and len(degrees) * sum(min(len(text), STEPS) ** power for text in _texts(value)) > STEPS:
            return None
        found = find(value)
        return None if found is None else str(found)

    return checked


def _degree_of(pattern: str, where: str) -> int:
    found = degree(pattern)
    if found is None:
        raise EndlessPattern(f"{where}: the pattern {pattern!r:.60} may take for ever")
    return found


def _patterns(schema: Any) -> Iterator[str]:
    """Every pattern in a schema; what only looks like one (in an enum, say) does no harm here."""
    if isinstance(schema, dict):
        for name, part in schema.items():
            if name == "pattern" and isinstance(part, str):
                yield part
            elif name == "patternProperties" and isinstance(part, dict):
                yield from part
            yield from _patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _patterns(part)


def _texts(value: Any) -> Iterator[str]:
    """Every string in a value, the names of members too."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            yield from part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def degree(pattern: str) -> Optional[int]:
    """How many parts of a pattern repeat without bound; None when matching may be worse than that power of the length.

    It errs on the safe side: None also for a repeated group with a choice in it, and for whatever it cannot read.
    """
    repeats, varies, place = 0, [False], 0  # `varies`: of each open group, whether it matches in several ways
    last: Optional[bool] = None  # whether the piece before this place varies; None where there is none
    while place < len(pattern):
        char = pattern[place]
        if char == "(":
            opening = _OPENING.match(pattern, place)
            if opening is None and pattern.startswith("(?", place):
                return None  # a comment, a condition, a reference
            place = opening.end() if opening is not None else place + 1
            varies.append(False)
            last = None
        elif char == ")":
            if len(varies) == 1:
                return None
            last, place = varies.pop(), place + 1
            varies[-1] |= last
        elif char == "|":
            varies[-1], last, place = True, None, place + 1
        elif char in "*+?" or (char == "{" and last is not None and _BRACES.match(pattern, place)):
            if last is None:
                return None
            least, most, place = _count(pattern, place)
            if last and most > 1:
                return None
            repeats += most >= _UNBOUNDED
            varies[-1] |= least != most
            last = None
        else:
            end = _piece(pattern, place)
            if end is None:
                return None
            last, place = False, end
    return repeats if len(varies) == 1 else None


def _piece(pattern: str, place: int) -> Optional[int]:
    """Where one character, escape or class ends; None for a reference back to a group, or half a piece."""
    if pattern[place] == "\\":
        return None if pattern[place + 1 : place + 2] in tuple("123456789") or place + 1 >= len(pattern) else place + 2
    if pattern[place] == "[":
        found = _CLASS.match(pattern, place)
        return None if found is None else found.end()
    return place + 1


def _count(pattern: str, place: int) -> tuple[int, int, int]:
    """The least and most repetitions that stand here, and where they end, laziness and greed included."""
    least, most = {"*": (0, _UNBOUNDED), "+": (1, _UNBOUNDED), "?": (0, 1)}.get(pattern[place], (0, 0))
    end = place + 1
    braces = _BRACES.match(pattern, place)
    if braces is not None:
        first, comma, second = braces.groups()
        least = min(int(first or 0), _UNBOUNDED)
        most = min(int(second), _UNBOUNDED) if second else _UNBOUNDED if comma else least
        end = braces.end()
    return least, most, end + (pattern[end : end + 1] in ("?", "+") and pattern[end : end + 1] != "")
