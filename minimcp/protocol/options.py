"""Options as a table: a wrong one is refused by its name, what it is and what came."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional


class Option(NamedTuple):
    """What one option takes, besides None where None is allowed.

    Args:
        what: In words, as it reads after "is".
        fits: Whether a value is of the type that it takes.
        least: The smallest number; None for what has no size.
        above: Whether the number must be more than `least`, not just as much.
        optional: Whether None may stand for it.
    """

    what: str
    fits: Callable[[Any], bool]
    least: Optional[float] = None
    above: bool = False
    optional: bool = True


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_several(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def count(least: int) -> Option:
    """A whole number from `least` on."""
    return Option("a whole number or None", _is_whole, least)


def seconds(least: float = 0, *, above: bool = False) -> Option:
    """A number of seconds from `least` on, or more than that."""
    return Option("a number of seconds or None", _is_number, least, above)


def never_none(option: Option) -> Option:
    """The same where None says nothing."""
    return option._replace(what=option.what.replace(" or None", ""), optional=False)


TEXT = Option("text or None", _is_text)
FLAG = Option("True or False", lambda value: isinstance(value, bool), optional=False)
MAPPING = Option("a mapping or None", lambda value: isinstance(value, Mapping))
SEVERAL = Option("a list or None", _is_several)
ICONS = SEVERAL._replace(what="a list of Icon objects or None")


def check_options(options: Mapping[str, Option], given: Mapping[str, Any], owner: str = "") -> None:
    """Refuse the first option that cannot be what was given.

    Args:
        options: By name.
        given: Values by name, of other things too.
        owner: What messages begin with: "tool 'forecast': ".

    Raises:
        TypeError: A value is of another type.
        ValueError: A number is too small, or none.
    """
    for name, option in options.items():
        value = given[name]
        if value is None and option.optional:
            continue
        if not option.fits(value):
            raise TypeError(f"{owner}{name} is {option.what}, not {repr(value):.60}")
        if isinstance(value, float) and value - value != 0.0:
            raise ValueError(f"{owner}{name} is {option.what}, not {value}")  # infinite, or none
        if option.least is not None and not (value > option.least if option.above else value >= option.least):
            bound = "more than" if option.above else "at least"
            raise ValueError(f"{owner}{name} is {bound} {option.least}, not {value}")
