"""What checks are made of, and what one may cost: schemas of a peer are held to a count of steps."""

from __future__ import annotations

from math import inf
from typing import Any, Callable, Dict, Optional, Tuple

from .mismatch import Mismatch

MAX_STEPS = 200_000
"""Times that one check of a peer's schema may do what its schema can repeat, and 20 more per part of the value. About a
second: a step that finds something wrong makes the message about it."""

TOO_MUCH = "the value cannot be checked: the schema needs too many steps for it"


Compile = Callable[[Any], "Node"]
"""From a subschema to its check."""

Builder = Callable[[Any, Dict[str, Any], Compile], Optional["Node"]]
"""From a word's value and the schema that it stands in to a check."""


class TooMuch(Exception):
    """The steps of one check are used up."""


class Seen(Dict[Tuple[str, int], Optional[Mismatch]]):
    """Per value checked: which referenced subschema met which part of it and what came of it; and the steps left.

    Args:
        steps: How many; None counts none.
        value: What is checked; its parts are counted, and steps added for them, when the others are used up.
    """

    __slots__ = ("steps", "_value")

    def __init__(self, steps: Optional[int] = None, value: Any = None) -> None:
        super().__init__()
        self.steps: float = inf if steps is None else steps
        self._value = value

    def spend(self, steps: int) -> None:
        """Count some steps. Raises TooMuch when there were fewer left."""
        self.steps -= steps
        if self.steps < 0:
            value, self._value = self._value, None
            self.steps += 20 * parts(value)
            if self.steps < 0 or value is None:
                raise TooMuch

    def weigh(self, value: Any) -> None:
        """Count the parts of a value that is looked at as a whole. Raises TooMuch when fewer steps were left."""
        if self.steps != inf and isinstance(value, (list, dict)):
            self.spend(parts(value))


Node = Callable[[Any, Seen], Optional[Mismatch]]
"""The check of one subschema."""


def parts(value: Any) -> int:
    """How many values there are in a value, itself included."""
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, (list, dict)):
            waiting.extend(part if isinstance(part, list) else part.values())
    return count
