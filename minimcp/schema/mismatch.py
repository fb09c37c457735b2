"""A value that does not fit, told in one line that a person or a model can act on.

This is the wording only: what is compared with what stands in the kinds and in `check`.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterable, List, Optional, Union

LONGEST_VALUE = 60
"""Characters of a wrong value that a message repeats."""

MOST_KNOWN = 2_000
"""Names among which a misspelt one is looked for."""

MOST_COMPARED = 100
"""How many of them are compared with it letter by letter."""

Key = Union[str, int]


class _Nothing:
    """The value of a field that was not sent."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING: Any = _Nothing()


def printable(text: str) -> str:
    """`text` in one line: what came from a peer must not be able to forge a second one."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "backslashreplace").decode("ascii")
        for each in text
    )


def cut(text: str, limit: int = LONGEST_VALUE) -> str:
    """`text`, or its beginning and three dots when it is longer than `limit` characters."""
    return text if len(text) <= limit else text[:limit] + "..."


def listed(names: Iterable[str], last: str = "or") -> str:
    """Some names for the eye: ``a``, ``a or b``, ``a, b or c``."""
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"


def quoted(text: str) -> str:
    """A string as a message shows it: in quotes, control characters escaped, cut."""
    return repr(cut(text))


def described(value: Any) -> str:
    """What came, in a few words: ``the string 'x'``, ``a list of 3``, ``null``."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, (int, float)):
        return f"the number {_digits(value)}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return "an object with " + cut(", ".join(map(str, value))) if value else "an empty object"
    return "nothing" if value is NOTHING else f"a value of type {type(value).__name__}"


def _digits(value: Union[int, float]) -> str:
    if isinstance(value, int) and value.bit_length() > 1024:
        return "(over 300 digits)"  # Python refuses to print the largest, and nobody wants to read them
    return cut(repr(value))


def shown_path(path: Iterable[Key]) -> str:
    """Where in a value: ``days[2].city``, empty for the value itself."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        elif key.isidentifier():
            text += f".{key}" if text else key
        else:
            text += f"[{quoted(key)}]"
    return text


class Mismatch(ValueError):
    """A value does not fit its type or schema.

    Args:
        expected: What would have fitted, as it reads after the word "expected".
        value: What came; kept, and described when the message is read.
        instead: A whole sentence to use instead of "expected ..., got ..."; None makes that one.

    `path` grows from the inside out while the error passes through the containers (`inside`).
    """

    def __init__(self, expected: str, value: Any = NOTHING, *, instead: Optional[str] = None) -> None:
        super().__init__(expected, value)
        self.expected, self.value, self.instead = expected, value, instead
        self.path: List[Key] = []

    @property
    def got(self) -> str:
        """What came, in words."""
        return described(self.value)

    def inside(self, key: Key) -> Mismatch:
        """This error, seen from the container that holds the value under `key`."""
        self.path.insert(0, key)
        return self

    def copy(self) -> Mismatch:
        """This error as it stands: the path of the copy grows on its own."""
        other = Mismatch(self.expected, self.value, instead=self.instead)
        other.path = list(self.path)
        return other

    @property
    def problem(self) -> str:
        """The message without its path."""
        return self.instead or f"expected {self.expected}, got {self.got}"

    def __str__(self) -> str:
        where = shown_path(self.path)
        if where and self.value is NOTHING:
            where += " is missing"
        return printable(f"{where}: {self.problem}" if where else self.problem)


def nearest(name: str, known: Iterable[str]) -> Optional[str]:
    """The known name that `name` was probably meant to be; None when none is near.

    Near is: equal without case and separators, or few edits for its length (a third of its letters, at most three).
    What it costs is bounded, whoever made up the names: long ones are never near, and of very many the first count.
    """
    best, fewest = None, min(3, len(name) // 3) + 1
    if len(name) > LONGEST_VALUE:
        return None
    plain, letters, compared = _plain(name), set(name), 0
    for candidate in islice(known, MOST_KNOWN):
        if len(candidate) > 2 * LONGEST_VALUE:
            continue
        if _plain(candidate) == plain:
            return candidate
        if abs(len(name) - len(candidate)) < fewest and len(letters.symmetric_difference(candidate)) < 2 * fewest:
            compared += 1
            edits = _edits(name, candidate, fewest) if compared <= MOST_COMPARED else fewest
            if edits < fewest:
                best, fewest = candidate, edits
    return best


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")


def _edits(one: str, other: str, limit: int) -> int:
    """Letters changed, added, left out, or swapped with their neighbour; when these are `limit` or more, `limit`."""
    older: List[int] = []
    old: List[int] = []
    row = list(range(len(other) + 1))
    for i, left in enumerate(one):
        older, old, row = old, row, [i + 1, *[limit] * len(other)]
        for j in range(max(0, i - limit), min(len(other), i + limit + 1)):
            right = other[j]
            row[j + 1] = min(old[j] + (left != right), old[j + 1] + 1, row[j] + 1)
            if i and j and left == other[j - 1] and one[i - 1] == right:
                row[j + 1] = min(row[j + 1], older[j - 1] + 1)
        if min(row) >= limit and min(old) >= limit:
            return limit
    return min(row[-1], limit)
