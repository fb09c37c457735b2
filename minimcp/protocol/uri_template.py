"""URI templates (RFC 6570): expansion to a normal form, and the values in a URI that matches.

The RFC defines no matching. Here a URI matches if the template, expanded with the values that are
found, gives that URI. A template is a row of steps, which are texts and gaps. For each step, the
positions of the URI from which the remaining steps fit are the bits of one integer. They are found
from the last step to the first, in a few operations on whole integers. Then one pass from the left
gives each gap the longest text that leads to such a position. Nothing is tried twice, so a URI
cannot make matching slow.

A template matches each of several equivalent URIs (see `urls.normalize_uri`).

https://www.rfc-editor.org/rfc/rfc6570
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Iterator, NamedTuple, Optional, Sequence, Union

from ..text import one_line
from .urls import (
    UNRESERVED,
    escaped,
    fold_case,
    has_parent_segment,
    normal_components,
    plain_escapes,
)

# Patterns are compiled on first use, because most servers and clients never need them.

# Text that does not match a variable although `plain_escapes` would escape it.
_UNREADABLE = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"

_NO_LITERAL = r"[\x00-\x20\"<>\\^`|{}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"
_LETTER = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = rf"({_LETTER}(?:\.?{_LETTER})*)(?::([1-9][0-9]{{0,3}})|(\*))?"


class _Operator(NamedTuple):
    """How an expression is written out: the table in appendix A of the RFC."""

    first: str
    separator: str
    named: bool = False
    reserved: bool = False


_OPERATORS = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True),
    "&": _Operator("&", "&", named=True),
}


class _Variable(NamedTuple):
    name: str
    # Characters of the value that are used; None means all.
    limit: Optional[int]
    explode: bool


class _Gap(NamedTuple):
    """One expression, or several that make one query; as a step, the place of their values."""

    # As the author wrote it, with its braces.
    text: str
    operator: _Operator
    variables: tuple[_Variable, ...]
    # A step takes one or more of these.
    characters: str = ""
    # What begins parameters, and is missing when all of them are; "" for other gaps.
    first: str = ""
    # Whether each value is a segment of a path.
    in_path: bool = False


_Step = Union[str, _Gap]


class UriTemplate:
    """A family of URIs, written as one URI with variables in braces.

    Args:
        text: The template, such as ``"file:///{+path}"`` or ``"db://users/{id}{?fields,limit}"``.

    Attributes:
        variables: The names of the variables, in the order of their first use.
        example: The template with an "x" in the place of each variable or query: a URI, if the
            texts around them make one.
        normalized: The template, with its texts as `normalize_uri` writes them.

    Raises:
        ValueError: It is malformed.

    Thread safety: immutable.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        texts, gaps = _parse(text)
        self.variables = tuple(dict.fromkeys(each.name for gap in gaps for each in gap.variables))
        self.example = _join([escaped(each) for each in texts], [_example(gap) for gap in gaps])
        texts = _normalized(texts, gaps)
        self.normalized = _join(texts, [gap.text for gap in gaps])
        self._start = texts[0]
        self._steps = [step for step in _steps(texts, gaps) if step]

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text!r}>"

    def match(self, uri: str) -> Optional[dict[str, str]]:
        """Return the values that make this URI or an equivalent one, or None if there are none.

        Values are percent-decoded once and keep their case. "+" is a plus sign. A value has one
        character or more, except that a parameter may be empty.

        * In a path, a value is any text without "/", "\\", "?" and "#" that is neither "." nor
          ".."; so ``{x}`` does not match "%2F".
        * In a query, a value is any text without "&" and "#", which may be percent-encoded there.
        * The value of ``{+x}`` and ``{#x}`` is any text, without "?" and "#" if the template goes
          on with a query or a fragment.
        * Parameters (``{?x}``, ``{&x}``, ``{;x}``) may come in any order, and each may be missing.
          A parameter that is repeated or unknown does not match.
        * A list (``{x*}``) is one text: its members joined by "/" for ``{/x*}``, by "." for
          ``{.x*}`` and by "," for other operators. If there are several, none of them contains that
          character.
        * If several splits fit, the earlier variable takes the most. It does not take the character
          that begins parameters after it, nor the separator of a list in the same braces.
        * A variable that occurs twice has one value.

        A ".." segment anywhere in the URI or in a value, a control character, NUL in any form, and
        an escape that is not UTF-8 do not match. ``{+x}``, ``{#x}`` and parameters of a query may
        yield "/", and so an absolute path.
        """
        if re.search(_UNREADABLE, uri) or has_parent_segment(uri):
            return None
        for form, folded in _forms(uri):
            values = self._values(form, folded) if folded.startswith(self._start) else None
            if values is not None:
                return values
        return None

    def _values(self, form: str, folded: str) -> Optional[dict[str, str]]:
        values: dict[str, str] = {}
        begin = len(self._start)
        try:
            taken = _walk(self._steps, form[begin:], folded[begin:])
            found = [pair for gap, text in taken for pair in _values(gap, text)]
        except ValueError:
            return None
        # Whole values come before prefixes.
        found.sort(key=lambda each: -(each[0].limit or 10_000))
        for variable, value in found:
            if values.setdefault(variable.name, value)[: variable.limit] != value:
                # Another place of the same name has another value, or the prefix of one.
                return None
        return values


# ---------------------------------------------------------------- a template to steps


def _parse(text: str) -> tuple[list[str], list[_Gap]]:
    """Return the texts of a template, as they are written, and the gaps between them.

    Expressions that make one query, as in ``{?a}{&b}``, become one gap: a query that is written by
    hand has them in any order.

    Raises:
        ValueError: It is malformed.
    """
    texts: list[str] = []
    gaps: list[_Gap] = []
    for index, piece in enumerate(re.split(r"\{([^{}]*)\}", text)):
        if index % 2 == 0:
            bad = re.search(_NO_LITERAL, piece)
            if bad and bad.group() == "{":
                raise ValueError(f"a brace is not closed in the URI template '{one_line(text)}'")
            if bad:
                raise ValueError(
                    f"'{one_line(bad.group())}' must be percent-encoded in a URI template"
                )
            texts.append(piece)
            continue
        sign = piece[:1] if piece[:1] in _OPERATORS else ""
        read = [re.fullmatch(_VARIABLE, each) for each in piece[len(sign) :].split(",")]
        if not all(read):
            raise ValueError(f"{{{one_line(piece)}}} is no expression of a URI template")
        gap = _Gap(
            f"{{{piece}}}",
            _OPERATORS[sign],
            tuple(
                _Variable(each[1], int(each[2]) if each[2] else None, bool(each[3]))
                for each in read
                if each
            ),
        )
        before = gaps[-1] if gaps and not texts[-1] else None
        if before and gap.operator.named and before.operator.separator == sign:
            texts.pop()
            gaps[-1] = before._replace(
                text=before.text + gap.text, variables=before.variables + gap.variables
            )
        else:
            gaps.append(gap)
    return texts, gaps


def _join(texts: Sequence[str], between: Sequence[str]) -> str:
    return "".join(text + gap for text, gap in zip(texts, [*between, ""]))


def _example(gap: _Gap) -> str:
    operator = gap.operator
    values = ["x"] if operator.named else ["x"] * len(gap.variables)
    return operator.first + operator.separator.join(values)


# The place of a gap in a text that is normalized.
_PLACE = "\0"


def _normalized(texts: Sequence[str], gaps: Sequence[_Gap]) -> list[str]:
    """Return the texts of a template as a normalized URI has them."""
    whole = _join(
        [plain_escapes(text) for text in texts], [gap.operator.first + _PLACE for gap in gaps]
    )
    if not has_parent_segment(whole):
        whole = fold_case(normal_components(whole))
    pieces = whole.split(_PLACE)
    for index, gap in enumerate(gaps):
        pieces[index] = pieces[index].removesuffix(gap.operator.first)
    return pieces


_RESERVED = ":/?#[]@!$&'()*+,;="


def _steps(texts: Sequence[str], gaps: Sequence[_Gap]) -> Iterator[_Step]:
    """The texts and the places of values behind the first text."""
    before = texts[0]
    for index, gap in enumerate(gaps):
        operator = gap.operator
        before += operator.first
        in_path = "?" not in before and "#" not in before
        after = [*zip(texts[index + 1 :], gaps[index + 1 :]), (texts[-1], None)]
        if operator.reserved:
            later = "".join(text + (each.operator.first if each else "") for text, each in after)
            excluded = "".join(sign for sign in "?#" if sign in later)
        elif operator.separator == "&":
            excluded = "#"
        else:
            excluded = "/?#" if in_path else "#" if "#" in before else "&#"
        characters = _without(UNRESERVED + "%" + _RESERVED, excluded)
        if operator.named:
            in_path = in_path and operator.separator != "&"
            yield gap._replace(characters=characters, first=operator.first, in_path=in_path)
        else:
            characters = _without(characters, _parameters_after(after, characters))
            for number, variable in enumerate(gap.variables):
                if number or operator.first:
                    yield operator.separator if number else operator.first
                taken = characters
                if variable.explode:
                    taken += operator.separator
                elif any(each.explode for each in gap.variables[number:]):
                    taken = _without(taken, operator.separator)
                yield _Gap(
                    gap.text,
                    operator,
                    (variable,),
                    taken,
                    in_path=in_path and not operator.reserved,
                )
        yield texts[index + 1]
        before += texts[index + 1]


def _without(characters: str, excluded: str) -> str:
    return "".join(each for each in characters if each not in excluded)


def _parameters_after(after: Sequence[tuple[str, Optional[_Gap]]], characters: str) -> str:
    """What begins the parameters that a gap of these characters could swallow."""
    found = ""
    for text, gap in after:
        if gap is None or not set(text + gap.operator.first).issubset(characters):
            break
        if gap.operator.named:
            found += gap.operator.first
    return found


# ---------------------------------------------------------------- a URI to values


@lru_cache(maxsize=16)
def _forms(uri: str) -> tuple[tuple[str, str], ...]:
    """How a URI may be written: as it is, and normalized with and without the "/" of an empty path.

    Each form comes twice, with the case that values have, and with the case of comparisons.
    """
    given = plain_escapes(uri)
    forms = (given, normal_components(given, "/"), normal_components(given, ""))
    return tuple((form, fold_case(form)) for form in dict.fromkeys(forms))


@lru_cache(maxsize=1000)
def _digits(characters: str) -> bytes:
    """A table for `bytes.translate`: the digit 1 for these characters, 0 for all others."""
    return bytes(b"01"[chr(code) in characters] for code in range(256))


def _walk(steps: Sequence[_Step], form: str, uri: str) -> list[tuple[_Gap, str]]:
    """The piece of a form of the URI that each gap takes. Positions are counted from its end, where
    0 is.

    Raises:
        ValueError: The steps do not fit.
    """
    text = b"\0" + uri.encode()  # one more in front, so that it is no empty number

    def where(characters: str) -> int:
        return int(text.translate(_digits(characters)), 2)

    inside = (
        where("%") | where("%") >> 1
    )  # positions between the characters of an escape, where no step ends
    fits = [1]
    for step in reversed(steps):
        before = fits[-1]
        if isinstance(step, str):
            for character in reversed(step):
                before = (before & where(character)) << 1
        else:
            runs = where(step.characters)
            # The sum takes each position through the rest of its run of characters, all runs at
            # once.
            before = ((((before & runs) + runs) ^ runs | before) & runs) << 1
            if step.first:
                before = (before & where(step.first)) << 1 | fits[-1]
        fits.append(before & ~inside)
    here, taken = len(uri), []
    if not fits.pop() >> here & 1:
        raise ValueError(uri)
    for step in steps:
        goals, begin = fits.pop(), here - len(step if isinstance(step, str) else step.first)
        if isinstance(step, str):
            here = begin
        elif uri.startswith(step.first, len(uri) - here):
            below = (1 << begin) - 1
            end = (~where(step.characters) & below).bit_length()  # of the run of characters
            reached = (goals & below) >> end
            if reached:
                there = end + (reached & -reached).bit_length() - 1
                taken.append((step, form[len(uri) - begin : len(uri) - there]))
                here = there
    return taken


def _values(gap: _Gap, text: str) -> Iterator[tuple[_Variable, str]]:
    """The variables of a gap with their values.

    Raises:
        ValueError: The text is none that expansion makes, or a value could lead a handler astray.
    """
    operator, given = gap.operator, dict[str, list[str]]()
    joiner = "," if operator.named else operator.separator
    if operator.named:
        for piece in text.split(operator.separator):
            name, _, value = piece.partition("=")
            given.setdefault(name, []).append(value)
    else:
        is_list = gap.variables[0].explode and not operator.reserved
        given[plain_escapes(gap.variables[0].name)] = text.split(joiner) if is_list else [text]
    for variable in gap.variables:
        members = [_decoded(gap, each) for each in given.pop(plain_escapes(variable.name), ())]
        several = len(members) > 1
        if several and (not variable.explode or any(joiner in each for each in members)):
            raise ValueError(text)
        if "" in members and not operator.named:
            raise ValueError(text)
        if members:
            yield variable, joiner.join(members)
    if given:
        raise ValueError(text)  # a parameter that the template does not have


def _decoded(gap: _Gap, text: str) -> str:
    from urllib.parse import unquote

    value = unquote(text, errors="strict")
    if gap.in_path:
        is_safe = is_safe_segment(value)
    else:
        is_safe = "\0" not in value and not has_parent_segment(value)
    if not is_safe:
        raise ValueError(text)
    return value


def is_safe_segment(text: str) -> bool:
    """Whether a decoded text stays one segment of a path: without "/", "\\" or NUL, and neither "."
    nor ".."."""
    return not ("/" in text or "\\" in text or "\0" in text or text in (".", ".."))
