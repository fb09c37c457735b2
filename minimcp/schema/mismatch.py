"""`Mismatch`: the error for a value that does not fit a type or a schema, and the words that messages are made of."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

LONGEST_VALUE = 60
"""Characters of a wrong value that a message repeats."""

MOST_KNOWN = 500
"""Names among which a misspelt one is looked for: comparing costs up to a millisecond for each."""

Key = Union[str, int]


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING: Any = _Nothing()
"""The value of a field that was not sent, and the default of a parameter without one."""


def printable(text: str) -> str:
    """`text` in one line, every character shown: text from a peer must not be able to forge a second line."""
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
    """Names in a sentence: ``a``, ``a or b``, ``a, b or c``."""
    words = list(names)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" {last} {words[-1]}"


def quoted(text: str) -> str:
    """A string as a message shows it: in quotes, control characters escaped, cut."""
    return repr(cut(text))


def described(value: Any) -> str:
    """A value in a few words: ``the string 'x'``, ``a list of 3``, ``null``."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, int) and value.bit_length() > 1024:
        return "the number (over 300 digits)"  # Python refuses to print the largest
    if isinstance(value, (int, float)):
        return f"the number {cut(repr(value))}"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return "an object with " + cut(", ".join(map(str, value))) if value else "an empty object"
    return "nothing" if value is NOTHING else f"a value of type {type(value).__name__}"


def shown_choice(value: Any) -> str:
    """One of the values that are allowed: ``'x'``, ``3``, ``null``."""
    if isinstance(value, str):
        return cut(repr(value))
    return described(value) if isinstance(value, (list, dict)) else described(value).split()[-1]


def one_of(values: Sequence[Any]) -> str:
    """What is expected where only these values fit: ``one of 'a' or null``."""
    shown = listed(map(shown_choice, values) if values else ["nothing"])
    return cut(f"one of {shown}" if len(values) > 1 else shown, 300)


def shown_path(path: Iterable[Key]) -> str:
    """A place in a value: ``days[2].city``; empty for the value itself."""
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
    """A value does not fit its type or schema. The message is made when it is read.

    Args:
        expected: What would have fitted, as it reads after the word "expected".
        value: The value; `NOTHING` when it is missing.
        instead: A whole sentence in place of "expected ..., got ..."; None makes that one.
        choices: The texts that a misspelt string may have been meant for, each with the value that it stands for.

    `path` leads to the value; containers that the error passes through extend it at its front (`inside`).
    """

    def __init__(
        self,
        expected: str,
        value: Any = NOTHING,
        *,
        instead: Optional[str] = None,
        choices: Optional[Mapping[str, Any]] = None,
    ) -> None:
        super().__init__(expected, value)
        self.expected, self.value, self.instead, self.choices = expected, value, instead, choices
        self.path: list[Key] = []

    def inside(self, key: Key) -> Mismatch:
        """This error, seen from the container that holds the value under `key`."""
        self.path.insert(0, key)
        return self

    def copy(self) -> Mismatch:
        """An equal error with a path of its own."""
        other = Mismatch(self.expected, self.value, instead=self.instead, choices=self.choices)
        other.path = list(self.path)
        return other

    @property
    def hint(self) -> str:
        """`` (did you mean 'x'?)``, or nothing."""
        near = nearest(self.value, self.choices) if self.choices and isinstance(self.value, str) else None
        return f" (did you mean {shown_choice(self.choices[near])}?)" if self.choices and near is not None else ""

    @property
    def problem(self) -> str:
        """The message without its path."""
        return self.instead or f"expected {self.expected}{self.hint}, got {described(self.value)}"

    def __str__(self) -> str:
        where = shown_path(self.path)
        if where and self.value is NOTHING:
            where += " is missing"
        return printable(f"{where}: {self.problem}" if where else self.problem)


def nearest(name: str, known: Iterable[str]) -> Optional[str]:
    """The known name that `name` was probably meant to be; None when none is near.

    Case and separators do not count. Names that are very long are never near, so that the search is bounded.
    """
    if len(name) > LONGEST_VALUE:
        return None
    plain = {_plain(each): each for each in reversed(list(islice(known, MOST_KNOWN))) if len(each) <= 2 * LONGEST_VALUE}
    found = get_close_matches(_plain(name), plain, n=1, cutoff=0.65)
    return plain[found[0]] if found else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
