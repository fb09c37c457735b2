"""How a mutant is made: the changes, the same for each kind."""

from __future__ import annotations

import random
import re
from typing import Any, Callable, List, Sequence

WORDS = (
    b"null", b"true", b"-1", b"1e9", b"[]", b"{}", b'""', b'"x"', b"7", b"0.1",
    b"999999999999999999999999999999", b"1e999", b"NaN", b"\\u0000", b"\\ud800", b"\x00", b"\xff", b"\xc3\xa9",
    b"\xe2\x80\xa8", b"\x1b[2J", b"\xef\xbb\xbf", b"\n", b"\r\n", b"\r", b" ", b"\t", b'"', b"\\", b",", b":",
    b";", b"=", b"%", b"%00", b"%2e%2e/", b"/", b"?", b"#", b"@", b"[",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", b"{", b"}", b"(", b")", b"*", b"+", b"{0,99}",
    b"(a|a)", b"${", b"$ref", b"..", b"//", b"xn--", b'"id":7,', b'"method":"ping",', b'"result":{},',
    b"chunked", b"close", b"data:", b"id:", b"retry: 0\n",
)  # fmt: skip

VALUES = WORDS[:12]
"""Texts that can replace a JSON value."""

PART = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|true|false|null|\{[^{}]*\}|\[[^\[\]]*\]')
"""A value or a name, an innermost object or array, or the text between the quotes of a header."""

CHANGES = ("flip", "drop", "double", "insert", "cut", "splice", "replace")


def change(kind: str, data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    """Change one place or a run of these bytes."""
    start = dice.randrange(len(data) + 1)
    if kind == "flip":
        data[start : start + 1] = bytes([dice.randrange(256)])
    elif kind == "drop":
        del data[start : start + dice.randrange(1, 20)]
    elif (
        kind == "double"
    ):  # mostly once; often enough to see what costs the square of its length, or more
        data[start:start] = data[start : start + dice.randrange(1, 40)] * dice.choice(
            (1, 1, 1, 2, 5, 30)
        )
    elif kind == "insert":
        data[start:start] = dice.choice(WORDS)
    elif kind == "cut":
        del data[start:]
    elif kind == "splice":
        other = dice.choice(corpus)
        first, last = sorted((dice.randrange(len(other) + 1), dice.randrange(len(other) + 1)))
        data[start : start + last - first] = other[first:last]
    else:
        replace(data, dice, corpus)


def replace(data: bytearray, dice: random.Random, corpus: Sequence[bytes]) -> None:
    """Replace a value or a name with another value. The result is often valid JSON."""
    parts = list(PART.finditer(data))
    if parts:
        others = PART.findall(dice.choice(corpus))
        part, fresh = (
            dice.choice(parts),
            dice.choice(others or VALUES) if dice.random() < 0.5 else dice.choice(VALUES),
        )
        data[part.start() : part.end()] = fresh


def draw(name: str, corpus: Sequence[bytes]) -> bytes:
    """Return the mutant of this name: with other values, with a change inside a value, or with a
    change anywhere."""
    dice = random.Random(name)
    data, how = bytearray(dice.choice(corpus)), dice.random()
    for _ in range(dice.randrange(1, 4)):
        parts = [part for part in PART.finditer(data) if len(part[0]) > 2]
        if how < 0.4:
            replace(data, dice, corpus)
        elif how < 0.7 and parts:
            part = dice.choice(parts)
            inner = bytearray(part[0][1:-1])
            change(dice.choice(CHANGES), inner, dice, corpus)
            data[part.start() + 1 : part.end() - 1] = inner
        else:
            change(dice.choice(CHANGES), data, dice, corpus)
    return bytes(data)


def measured(data: bytes) -> bytes:
    """Return an HTTP message with the length of its body instead of LENGTH, if its head still
    contains LENGTH."""
    head, gap, body = data.partition(b"\r\n\r\n")
    return head.replace(b"LENGTH", b"%d" % len(body)) + gap + body


def culprits(
    numbers: Sequence[int], judge: Callable[[Sequence[int]], Any], most: int = 1
) -> List[Sequence[int]]:
    """Return the smallest groups of these that are still judged wrong, at most this many. Each part
    is judged again."""
    found: List[Sequence[int]] = []
    middle = len(numbers) // 2
    for half in (numbers[:middle], numbers[middle:]) if middle else ():
        if len(found) < most and judge(half):
            found += culprits(half, judge, most - len(found))
    return found or [numbers]
