"""RFC 6570 forwards: the parts that a URI template is made of, and what they become.

The way back, from a URI to the values, is uri_template.py. https://www.rfc-editor.org/rfc/rfc6570
"""

from __future__ import annotations

import re
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

from ..errors import one_line

# Fixed patterns, linear in what they read. Nothing of a template ever becomes a pattern.
ILLEGAL = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+|%(?![0-9A-Fa-f]{2})")
"""What no URI holds as it is."""

_NOT_UNRESERVED = re.compile(r"[^A-Za-z0-9\-._~]+")
_NO_LITERAL = re.compile(r"[\x00-\x20\"<>\\^`|{}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})")
_LETTER = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = re.compile(rf"({_LETTER}(?:\.?{_LETTER})*)(?::([1-9][0-9]{{0,3}})|(\*))?")


class Operator(NamedTuple):
    """How an expression is written out (the table in appendix A of the RFC), and what a match of it may yield."""

    first: str
    separator: str
    named: bool = False
    empty: str = ""
    reserved: bool = False
    slashes: bool = False
    """Whether a matched value may hold "/": it is a whole path, or it does not stand in a path."""

    @property
    def joiner(self) -> str:
        """What stands between the members of a matched list."""
        return "," if self.named else self.separator


OPERATORS = {
    "": Operator("", ","),
    "+": Operator("", ",", reserved=True, slashes=True),
    "#": Operator("#", ",", reserved=True, slashes=True),
    ".": Operator(".", "."),
    "/": Operator("/", "/"),
    ";": Operator(";", ";", named=True),
    "?": Operator("?", "&", named=True, empty="=", slashes=True),
    "&": Operator("&", "&", named=True, empty="=", slashes=True),
}


class Variable(NamedTuple):
    """A name in an expression, with its modifier."""

    name: str
    limit: Optional[int]
    """Characters of the value that are used; None means all."""
    explode: bool


class Expression(NamedTuple):
    """What stands in one pair of braces."""

    operator: Operator
    variables: tuple[Variable, ...]


Part = Union[str, Expression]
"""A literal, as it is written, or an expression."""


def parse(text: str) -> Iterator[Part]:
    """The parts of a template, in order.

    Raises:
        ValueError: It is malformed.
    """
    literal, *rest = text.split("{")
    yield from _checked(literal)
    for piece in rest:
        body, brace, literal = piece.partition("}")
        if not brace:
            raise ValueError(f"a brace is not closed in the URI template '{one_line(text)}'")
        yield _expression(body)
        yield from _checked(literal)


def _checked(literal: str) -> Iterator[str]:
    bad = _NO_LITERAL.search(literal)
    if bad:
        raise ValueError(f"'{one_line(bad.group())}' must be percent-encoded in a URI template")
    if literal:
        yield literal


def _expression(body: str) -> Expression:
    sign = body[:1] if body[:1] in OPERATORS else ""
    variables = []
    for each in body[len(sign):].split(","):
        read = _VARIABLE.fullmatch(each)
        if not read:
            raise ValueError(f"{{{one_line(body)}}} is no expression of a URI template")
        name, limit, star = read.groups()
        variables.append(Variable(name, int(limit) if limit else None, bool(star)))
    return Expression(OPERATORS[sign], tuple(variables))


def escaped(text: str, pattern: re.Pattern[str] = ILLEGAL) -> str:
    """The text with everything that the pattern finds percent-encoded, as a literal is.

    Raises:
        ValueError: It holds half of a surrogate pair.
    """
    return pattern.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), text)


def expanded(part: Part, values: Mapping[str, Any]) -> str:
    """What a part becomes with these values.

    Raises:
        ValueError: A prefix meets a list or a mapping, or a text holds half of a surrogate pair.
        TypeError: A value is of a kind that the RFC does not know.
    """
    if isinstance(part, str):
        return escaped(part)
    operator = part.operator
    pieces = [piece for each in part.variables for piece in _pieces(operator, each, values.get(each.name))]
    return operator.first + operator.separator.join(pieces) if pieces else ""


def _pieces(operator: Operator, variable: Variable, value: Any) -> Iterator[str]:
    """What one variable puts between the separators of its expression: nothing where it is undefined."""
    name, limit, explode = variable
    pattern = ILLEGAL if operator.reserved else _NOT_UNRESERVED
    if not isinstance(value, (Mapping, list, tuple)):
        if value is not None:
            yield _labelled(operator, name, escaped(_text(name, value)[:limit], pattern))
        return
    if limit is not None:
        raise ValueError(f"a list or a mapping has no prefix: {name}:{limit}")
    members = _members(name, value, pattern)
    if not explode:
        if members:
            yield _labelled(operator, name, ",".join(text for member in members for text in member))
        return
    for *key, text in members:
        yield f"{key[0]}={text}" if key and not operator.named else _labelled(operator, (key or [name])[0], text)


def _members(name: str, value: Any, pattern: re.Pattern[str]) -> list[list[str]]:
    """The defined members of a list as ``[value]``, of a mapping as ``[key, value]``."""
    pairs = value.items() if isinstance(value, Mapping) else [(each,) for each in value]
    return [[escaped(_text(name, each), pattern) for each in pair] for pair in pairs if pair[-1] is not None]


def _labelled(operator: Operator, name: str, text: str) -> str:
    if not operator.named:
        return text
    return f"{name}={text}" if text else name + operator.empty


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    raise TypeError(f"the value of {name} is a text, a number, a list or a mapping, not {type(value).__name__}")
