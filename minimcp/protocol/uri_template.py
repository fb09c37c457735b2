"""URI templates (RFC 6570), forwards and backwards, and a check of URIs (RFC 3986).

No URL library: nothing is resolved, normalised or fetched, and a URI is compared as it is written.

Matching is our own, since the RFC has none: it finds values whose expansion is the URI. No regular expression is made
from a template. A template is a row of steps, texts and gaps. For each step, the places of the URI from where the rest
of the row fits are kept as the bits of one integer; they are worked out from the end of the URI, in a few operations
on whole integers. So nothing is tried twice, and a step costs one pass whatever the URI says.
https://www.rfc-editor.org/rfc/rfc6570  https://www.rfc-editor.org/rfc/rfc3986
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Union

from ..errors import one_line
from .uri_expansion import ILLEGAL, Expression, Operator, Part, Variable, escaped, expanded, parse


class UriTemplate:
    """A family of URIs, written as one URI with variables in braces.

    Args:
        text: The template, such as ``"file:///{+path}"`` or ``"db://users/{id}{?fields,limit}"``.

    Raises:
        ValueError: It is malformed.

    Immutable, so any thread may use it.
    """

    __slots__ = ("text", "variables", "_parts", "_start", "_steps")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = tuple(parse(text))
        expressions = [part for part in self._parts if isinstance(part, Expression)]
        self.variables = tuple(dict.fromkeys(each.name for part in expressions for each in part.variables))
        """The names, in the order of their first use."""
        # Most URIs that do not match differ here already. From the first escape on it is up to the steps.
        self._start = escaped(text.partition("{")[0]).partition("%")[0]
        self._steps = tuple(_steps(_merged(self._parts), len(self._start)))

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text!r}>"

    @property
    def shape(self) -> str:
        """The same for templates that match the same URIs: the text, with places for the names that no URI shows."""
        places = {name: str(place) for place, name in enumerate(self.variables)}
        return "".join(part if isinstance(part, str) else _shape(part, places) for part in self._parts)

    def expand(self, values: Mapping[str, Any]) -> str:
        """The URI for these values, by all four levels of RFC 6570.

        Args:
            values: Texts, numbers, bools, lists of them or mappings to them, by the variables' names. None, an empty
                list, an empty mapping and a missing name are undefined, and leave nothing. Other names are ignored.

        Raises:
            ValueError: A prefix such as ``{x:3}`` meets a list or a mapping, a text holds half of a surrogate pair,
                or the values bring a ".." segment into the path.
            TypeError: A value is of another kind.
        """
        uri = "".join(expanded(part, values) for part in self._parts)
        if ".." not in self.text and has_parent_segment(uri.partition("#")[0].partition("?")[0]):
            raise ValueError(f"these values bring a '..' segment into '{one_line(self.text)}'")
        return uri

    def match(self, uri: str) -> Optional[dict[str, str]]:
        """The values that make this URI, percent-decoded once, or None when it is not of this family.

        A gap takes one character or more of what expansion leaves there: unreserved ones and escapes, for ``{+x}`` and
        ``{#x}`` reserved ones too (but "?" and "#" only where the template does not go on with a query or a fragment).
        Where several splits fit, the earlier gap takes the most. Parameters (``{?x}``, ``{&x}``, ``{;x}``) come in
        any order, and may be empty, or missing here and there; doubled and unknown ones do not match. A list
        (``{x*}``) is one text, its members joined by "/" for ``{/x*}``, "." for ``{.x*}`` and "," for the others; no
        member holds that character. A variable that stands twice has one value.

        What could lead a handler astray does not match: values that are no `is_safe_segment`, for the operators of
        paths (so ``{x}`` refuses "%2F"); NUL; ".." segments in a value or anywhere in the URI; escapes that are not
        UTF-8. ``{+x}``, ``{#x}``, ``{?x}`` and ``{&x}`` may yield "/", an absolute path included.
        """
        if not uri.startswith(self._start) or ILLEGAL.search(uri) or has_parent_segment(uri):
            return None
        taken = _walk(self._steps, uri[len(self._start):])
        if taken is None:
            return None
        found: list[tuple[Variable, str]] = []
        for gap, text in taken:
            values = _parameters(gap, text) if gap.first else _single(gap, text)
            if values is None:
                return None
            found += values
        return _agreed(found)


def _shape(part: Expression, places: Mapping[str, str]) -> str:
    sign, names = part.operator, [each._replace(name=places[each.name]) for each in part.variables]
    return f"{{{sign} {part.variables if sign.named else names}}}"


# ---------------------------------------------------------------- the row of steps


class _Text(NamedTuple):
    """A step that the template spells out: for each character, those that the URI may have there."""

    accepted: tuple[str, ...]


class _Gap(NamedTuple):
    """A step that stands for values: one or more of these characters."""

    operator: Operator
    variables: tuple[Variable, ...]
    characters: str
    first: str = ""
    """What begins parameters, and is missing when all of them are; "" for other gaps."""


_Step = Union[_Text, _Gap]

_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"
_RESERVED = ":/?#[]@!$&'()*+,;="


def _merged(parts: Sequence[Part]) -> list[Part]:
    """The parts with ``{?a}{&b}`` as ``{?a,b}``: whoever writes a query by hand does it in any order."""
    row: list[Part] = []
    for part in parts:
        last = row[-1] if row else ""
        if (
            isinstance(part, Expression) and isinstance(last, Expression)
            and last.operator.named and part.operator.first == last.operator.separator
        ):
            row[-1] = last._replace(variables=last.variables + part.variables)
        else:
            row.append(part)
    return row


def _steps(parts: Sequence[Part], skip: int) -> Iterator[_Step]:
    """The row without the first `skip` characters."""
    shown = [part if isinstance(part, str) else part.operator.first for part in parts]
    last = {sign: max((index for index, text in enumerate(shown) if sign in text), default=-1) for sign in "?#"}
    for index, part in enumerate(parts):
        if isinstance(part, str):
            yield _Text(tuple(_spellings(escaped(part)))[0 if index else skip:])
        elif part.operator.named:
            yield _Gap(*part, _UNRESERVED + "=" + part.operator.separator, part.operator.first)
        else:
            yield from _unnamed(part, "".join(sign for sign in "?#" if last[sign] > index))


def _spellings(literal: str) -> Iterator[str]:
    """The digits of an escape have no case."""
    for piece in re.findall("%..|.", literal):
        yield from (digit.lower() + digit.upper() for digit in piece) if piece[0] == "%" else piece


def _unnamed(expression: Expression, stops: str) -> Iterator[_Step]:
    operator, before = expression.operator, expression.operator.first
    for each in expression.variables:
        if before:
            yield _Text((before,))
        before = operator.separator
        if operator.reserved:
            more = "".join(sign for sign in _RESERVED if sign not in stops)
        else:
            more = operator.joiner if each.explode else ""
        yield _Gap(operator, (each,), _UNRESERVED + more)


# ---------------------------------------------------------------- where the steps fit


class _Masks(Dict[str, int]):
    """For a set of characters, where in a text they stand: bit 0 is the last character."""

    def __init__(self, text: str) -> None:
        self._text = b"\0" + text.encode("ascii")  # in front, where it counts nothing, for the empty text

    def __missing__(self, characters: str) -> int:
        table = bytearray(b"0" * 256)
        for each in characters:
            table[ord(each)] = 0x31  # the digit 1
        mask = self[characters] = int(self._text.translate(table), 2)
        return mask


def _walk(steps: Sequence[_Step], text: str) -> Optional[list[tuple[_Gap, str]]]:
    """The piece of the text that each gap takes, or None.

    A place is counted from the end: 0 lies after the last character. A set of places is an integer with these bits.
    """
    masks = _Masks(text)
    inside = masks["%"] | masks["%"] >> 1  # places between the characters of an escape: no step ends there
    fits = [1]
    for step in reversed(steps):
        fits.append(_before(step, fits[-1], masks) & ~inside)
    here = len(text)
    if not fits.pop() >> here & 1:
        return None
    taken = []
    for step in steps:
        goals = fits.pop()
        if isinstance(step, _Text):
            here -= len(step.accepted)
            continue
        begin = here - len(step.first)
        if step.first and not masks[step.first] << 1 >> here & 1:
            continue
        there = _farthest(masks[step.characters], goals, begin)
        if there is not None:
            taken.append((step, text[len(text) - begin:len(text) - there]))
            here = there
    return taken


def _before(step: _Step, after: int, masks: _Masks) -> int:
    """The places from which a step leads to one of the places `after` it."""
    if isinstance(step, _Text):
        for characters in reversed(step.accepted):
            after = (after & masks[characters]) << 1
        return after
    runs = masks[step.characters]
    # The sum carries each place through the rest of its run of characters, all runs at once.
    passed = (((after & runs) + runs) ^ runs | after) & runs
    before = passed << 1
    return (before & masks[step.first]) << 1 | after if step.first else before


def _farthest(runs: int, goals: int, here: int) -> Optional[int]:
    """The last of the goals that the run of characters from here reaches."""
    below = (1 << here) - 1
    end = (~runs & below).bit_length()
    reached = (goals & below) >> end
    return end + (reached & -reached).bit_length() - 1 if reached else None


# ---------------------------------------------------------------- values out of a match


def _single(gap: _Gap, text: str) -> Optional[list[tuple[Variable, str]]]:
    variable = gap.variables[0]
    as_list = variable.explode and not gap.operator.reserved
    if as_list and "" in text.split(gap.operator.joiner):
        return None  # an empty member would make "/etc" of {/x*}
    value = _list(gap.operator, text) if as_list else _value(gap.operator, text)
    return None if value is None else [(variable, value)]


def _parameters(gap: _Gap, block: str) -> Optional[list[tuple[Variable, str]]]:
    given: dict[str, list[str]] = {}
    for piece in block.split(gap.operator.separator):
        name, _, value = piece.partition("=")
        if "=" in value:
            return None
        given.setdefault(name, []).append(value)
    found = []
    for variable in gap.variables:
        members = given.get(variable.name, [])
        if len(members) > 1 and not variable.explode:
            return None
        joined = ",".join(members)
        text = _list(gap.operator, joined) if variable.explode else _value(gap.operator, joined)
        if text is None:
            return None
        if members:
            found.append((variable, text))
    return found if {variable.name for variable in gap.variables}.issuperset(given) else None


def _decoded(text: str) -> Optional[str]:
    """The text of a piece of a URI; None when its escapes are not UTF-8."""
    # Escapes are known to be well-formed here and a backslash to be absent, so Python's own escapes can stand in.
    raw = text.replace("%", "\\x").encode("ascii").decode("unicode_escape").encode("latin-1")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _value(operator: Operator, text: str) -> Optional[str]:
    value = _decoded(text)
    return value if value is not None and _is_fit(operator, value) else None


def _list(operator: Operator, text: str) -> Optional[str]:
    value, joiner = _decoded(text), operator.joiner
    if value is None or value.count(joiner) > text.count(joiner):
        return None
    return value if all(_is_fit(operator, member) for member in value.split(joiner)) else None


def _is_fit(operator: Operator, value: str) -> bool:
    if operator.slashes:
        return "\0" not in value and not (".." in value and has_parent_segment(value))
    return is_safe_segment(value)


def _agreed(found: list[tuple[Variable, str]]) -> Optional[dict[str, str]]:
    """The values by name, if each place of a name shows the whole value, or the prefix that it asks for."""
    values: dict[str, str] = {}
    for variable, value in sorted(found, key=lambda each: -(each[0].limit or _NO_LIMIT)):
        if values.setdefault(variable.name, value)[:variable.limit] != value:
            return None
    return values


_NO_LIMIT = 10000
"""More than the longest prefix that the RFC can name."""


# ---------------------------------------------------------------- URIs and segments


def is_safe_segment(text: str) -> bool:
    """Whether a decoded text stays one segment of a path: without "/", "\\" or NUL, and neither "." nor ".."."""
    return not ("/" in text or "\\" in text or "\0" in text or text in (".", ".."))


_SAME = (
    ("%2E", "."), ("%2e", "."),
    ("%2F", "/"), ("%2f", "/"), ("%5C", "/"), ("%5c", "/"), ("\\", "/"), ("?", "/"), ("#", "/"),
)


def has_parent_segment(text: str) -> bool:
    """Whether a URI or a path has a ".." segment, as it is or escaped. A "\\" ends a segment too."""
    for written, meant in _SAME:
        text = text.replace(written, meant)
    return "/../" in f"/{text}/"


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_AUTHORITY = re.compile(r"(?:[^@\[\]]*@)?(?:\[([^@\[\]]+)\]|[^@:\[\]]*)(?::[0-9]*)?")
_FUTURE_ADDRESS = re.compile(r"[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+")


def check_uri(text: str) -> None:
    """Refuse what is no URI by RFC 3986. Dot segments are legal there: `has_parent_segment` finds them.

    Raises:
        ValueError: It is none; one sentence says why.
    """
    fault = _fault(text)
    if fault:
        raise ValueError(f"'{one_line(text)}' is no URI: {fault}")


def _fault(text: str) -> Optional[str]:
    scheme = _SCHEME.match(text)
    if not scheme:
        return "it does not begin with a scheme and a colon"
    bad = ILLEGAL.search(text)
    if bad:
        return f"'{one_line(bad.group()[0])}' at character {bad.start() + 1} must be percent-encoded"
    before, _, fragment = text[scheme.end():].partition("#")
    path, _, query = before.partition("?")
    if path.startswith("//"):
        authority, _, path = path[2:].partition("/")
        if not _is_authority(authority):
            return "its host or port is malformed"
    if "#" in fragment:
        return "it has two fragments"
    if any(bracket in piece for bracket in "[]" for piece in (path, query, fragment)):
        return "brackets stand round an address only"
    return None


def _is_authority(text: str) -> bool:
    read = _AUTHORITY.fullmatch(text)
    address = read.group(1) if read else None
    if address is None:
        return read is not None
    if _FUTURE_ADDRESS.fullmatch(address):
        return True
    import ipaddress

    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return "%" not in address  # a zone, which Python takes and RFC 3986 does not
