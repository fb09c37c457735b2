"""URI templates (RFC 6570): the values of the variables in a URI that matches.

The RFC does not define matching. Here, a URI matches if expanding the template with the values
gives that URI. A template is a sequence of steps, which are texts and gaps. The algorithm has two
passes. The first one goes from the last step to the first. For each step, it computes the positions
of the URI from which the remaining steps match, as the bits of one integer. The second pass goes
from left to right. It gives each gap the longest text that ends at such a position. Neither pass
backtracks, so a URI cannot make matching slow.

A template also matches equivalent URIs (see `urls.normalize_uri`).

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

# Text that does not match, although `plain_escapes` would escape it.
_UNREADABLE = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"

_NO_LITERAL = r"[\x00-\x20\"<>\\^`|{}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"
_LETTER = "(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = rf"({_LETTER}(?:\.?{_LETTER})*)(?::([1-9][0-9]{{0,3}})|(\*))?"


class _Operator(NamedTuple):
    """A row of the table of operators in appendix A of the RFC."""

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
    # Length of the prefix of the value that is used, in characters; None means the whole value.
    limit: Optional[int]
    explode: bool


class _Gap(NamedTuple):
    """An expression, or several expressions that form one query. As a step, it matches values."""

    # The expressions with their braces.
    text: str
    operator: _Operator
    variables: tuple[_Variable, ...]
    # The step matches one or more of these characters.
    characters: str = ""
    # The character before parameters, which is missing if all parameters are; "" for other gaps.
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
        example: The template with "x" instead of each variable or query. It is a URI unless the
            texts of the template are malformed.
        normalized: The template with normalized texts; see `normalize_uri`.

    Raises:
        ValueError: The template is malformed.

    Immutable and thread-safe.
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
        """Return the values with which the template expands to this URI or to an equivalent one.

        Return None if the URI does not match. Values are percent-decoded once and keep their case.
        "+" is a plus sign. Only the value of a parameter may be empty.

        * In a path, a value may not contain "/", "\\", "?" or "#", even if they are
          percent-encoded, and may not be "." or "..".
        * In a query, a value may contain "&" and "#" only if they are percent-encoded.
        * The value of ``{+x}`` and ``{#x}`` may contain any character. If the template continues
          with a query or a fragment, "?" and "#" are excluded.
        * Parameters (``{?x}``, ``{&x}``, ``{;x}``) may be in any order, and each may be missing. A
          repeated or unknown parameter does not match.
        * The value of a list (``{x*}``) is one text. Its members are joined by "/" for ``{/x*}``,
          by "." for ``{.x*}`` and by "," for other operators. A member may not contain this
          character if the list has several members.
        * If several splits are possible, the earlier variable gets the longest text. It may not
          contain the first character of parameters that follow, or the separator of a list in the
          same braces.
        * A variable that occurs twice must have the same value.

        A URI does not match if it or a value has a ".." segment, a control character, an encoded
        NUL, or an escape that is not UTF-8. The values of ``{+x}``, ``{#x}`` and of parameters in a
        query may contain "/", so they may be absolute paths.
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
                # The variable has a different value, or a different prefix, elsewhere.
                return None
        return values


# ---------------------------------------------------------------- a template to steps


def _parse(text: str) -> tuple[list[str], list[_Gap]]:
    """Return the texts of a template and the gaps between them.

    Expressions that form one query, as in ``{?a}{&b}``, become one gap, because their parameters
    may be in any order.

    Raises:
        ValueError: The template is malformed.
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
            raise ValueError(f"{{{one_line(piece)}}} is not an expression of a URI template")
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


# A placeholder for each gap while the texts are normalized.
_PLACE = "\0"


def _normalized(texts: Sequence[str], gaps: Sequence[_Gap]) -> list[str]:
    """Return the normalized texts of a template."""
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
    """Yield the steps after the first text."""
    before = texts[0]
    for index, gap in enumerate(gaps):
        operator = gap.operator
        before += operator.first
        in_path = "?" not in before and "#" not in before
        after = list(zip(texts[index + 1 :], gaps[index + 1 :]))
        if operator.reserved:
            later = "".join(text + each.operator.first for text, each in after) + texts[-1]
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


def _parameters_after(after: Sequence[tuple[str, _Gap]], characters: str) -> str:
    """Return the first characters of parameters that a gap with these characters could match."""
    found = ""
    for text, gap in after:
        if not set(text + gap.operator.first).issubset(characters):
            break
        if gap.operator.named:
            found += gap.operator.first
    return found


# ---------------------------------------------------------------- a URI to values


@lru_cache(maxsize=16)
def _forms(uri: str) -> tuple[tuple[str, str], ...]:
    """Return the forms of a URI: as given, and normalized with and without "/" for an empty path.

    Each form is a pair: one text with the original case, for values, and one for comparisons.
    """
    given = plain_escapes(uri)
    forms = (given, normal_components(given, "/"), normal_components(given, ""))
    return tuple((form, fold_case(form)) for form in dict.fromkeys(forms))


@lru_cache(maxsize=1000)
def _digits(characters: str) -> bytes:
    """Return a table for `bytes.translate`: "1" for these characters and "0" for all others."""
    return bytes(b"01"[chr(code) in characters] for code in range(256))


def _walk(steps: Sequence[_Step], form: str, uri: str) -> list[tuple[_Gap, str]]:
    """Match the steps against a URI. Return each gap with its text in `form`.

    Positions are counted from the end of the URI, so its end is bit 0 of an integer and its
    beginning is the highest bit.

    Raises:
        ValueError: The steps do not match.
    """
    text = b"\0" + uri.encode()  # one more character, because `int` does not accept an empty text

    def where(characters: str) -> int:
        """Return an integer whose bit n is set if n characters follow one of these characters."""
        return int(text.translate(_digits(characters)), 2)

    # The positions inside an escape such as "%2F", where a step must not end.
    inside = where("%") | where("%") >> 1
    # For each step from the last to the first, the positions from which it and all later steps
    # match.
    fits = [1]
    for step in reversed(steps):
        before = fits[-1]
        if isinstance(step, str):
            for character in reversed(step):
                before = (before & where(character)) << 1
        else:
            runs = where(step.characters)
            # The carries of the sum extend each position through the rest of its run of characters,
            # for all runs at the same time.
            before = ((((before & runs) + runs) ^ runs | before) & runs) << 1
            if step.first:
                before = (before & where(step.first)) << 1 | fits[-1]
        fits.append(before & ~inside)
    here = len(uri)
    taken = []
    if not fits.pop() >> here & 1:
        raise ValueError(uri)
    for step in steps:
        goals = fits.pop()
        begin = here - len(step if isinstance(step, str) else step.first)
        if isinstance(step, str):
            here = begin
        elif uri.startswith(step.first, len(uri) - here):
            below = (1 << begin) - 1
            # The end of the run of characters, and the goals in the run.
            end = (~where(step.characters) & below).bit_length()
            reached = (goals & below) >> end
            if reached:
                there = end + (reached & -reached).bit_length() - 1
                taken.append((step, form[len(uri) - begin : len(uri) - there]))
                here = there
    return taken


def _values(gap: _Gap, text: str) -> Iterator[tuple[_Variable, str]]:
    """Yield the variables of a gap with their values.

    Raises:
        ValueError: No expansion gives this text, or a value is not safe.
    """
    operator = gap.operator
    given: dict[str, list[str]] = {}
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
    """Return whether text is one segment of a path, and not "." or ".."."""
    return not ("/" in text or "\\" in text or "\0" in text or text in (".", ".."))
