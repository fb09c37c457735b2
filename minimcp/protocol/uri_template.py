"""URI templates (RFC 6570): which URIs they make, and the values in one; a check of URIs (RFC
3986); http URLs.

Nothing is resolved or fetched, and a URI is compared as it is written, but for the case of the
digits of an escape.

Matching is our own, since the RFC has none: it finds values whose expansion is the URI. A template
is a row of steps, texts and gaps. For each step the positions of the URI from which the rest of the
row fits are the bits of one integer; they are found from the last step to the first, in a few
operations on whole integers. Then one pass from the left gives each gap the most that leads to such
a position. So nothing is tried twice, whatever the URI says. https://www.rfc-editor.org/rfc/rfc6570
https://www.rfc-editor.org/rfc/rfc3986
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Iterator, NamedTuple, Optional, Sequence, Union

from ..errors import one_line

# What no URI holds as it is.
# Patterns are compiled when they are first used: most servers and clients never do.
_ILLEGAL = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+|%(?![0-9A-Fa-f]{2})"

_NO_LITERAL = r"[\x00-\x20\"<>\\^`|{}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"
_ESCAPE = "%.."
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
    """What stands in one pair of braces, or in several that make one query; of a step what stands
    for values."""

    operator: _Operator
    variables: tuple[_Variable, ...]
    # A step takes one or more of these.
    characters: str = ""
    # What begins parameters, and is missing when all of them are; "" for other gaps.
    first: str = ""


_Step = Union[str, _Gap]


class UriTemplate:
    """A family of URIs, written as one URI with variables in braces.

    Args:
        text: The template, such as ``"file:///{+path}"`` or ``"db://users/{id}{?fields,limit}"``.

    Raises:
        ValueError: It is malformed.

    Thread safety: immutable.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        start, *self._steps = _steps(_parse(text))
        self._start = str(start)
        gaps = [step for step in self._steps if isinstance(step, _Gap)]
        # The names, in the order of their first use.
        self.variables = tuple(dict.fromkeys(each.name for gap in gaps for each in gap.variables))

    def __repr__(self) -> str:
        return f"<UriTemplate {self.text!r}>"

    @property
    def example(self) -> str:
        """The template with an "x" in the place of each variable or query: a URI, if the texts
        around them make one."""
        return self._start + "".join(
            step if isinstance(step, str) else f"{step.first}x" for step in self._steps
        )

    def match(self, uri: str) -> Optional[dict[str, str]]:
        """The values that make this URI, percent-decoded once, or None when it is not of this
        family.

        A gap takes one character or more of what expansion leaves there: unreserved ones and
        escapes, for ``{+x}`` and ``{#x}`` reserved ones too (but "?" and "#" only where the
        template does not go on with a query or a fragment). Where several splits fit, the earlier
        gap takes the most. Parameters (``{?x}``, ``{&x}``, ``{;x}``) come in any order, and may be
        empty, or missing here and there; doubled and unknown ones do not match. A list (``{x*}``)
        is one text, its members joined by "/" for ``{/x*}``, "." for ``{.x*}`` and "," for the
        others; no member holds that character. A variable that stands twice has one value.

        What could lead a handler astray does not match: values that are no `is_safe_segment`, for
        the operators of paths (so ``{x}`` refuses "%2F"); NUL; ".." segments in a value or anywhere
        in the URI; escapes that are not UTF-8. ``{+x}``, ``{#x}``, ``{?x}`` and ``{&x}`` may yield
        "/", an absolute path included.
        """
        uri = _comparable(uri)
        if not uri.startswith(self._start) or re.search(_ILLEGAL, uri) or has_parent_segment(uri):
            return None
        values: dict[str, str] = {}
        try:
            taken = _walk(self._steps, uri[len(self._start) :])
            found = [pair for gap, text in taken for pair in _values(gap, text)]
        except ValueError:
            return None
        for variable, value in sorted(
            found, key=lambda each: -(each[0].limit or 10_000)
        ):  # whole values come first
            if values.setdefault(variable.name, value)[: variable.limit] != value:
                return (
                    None  # another place of the same name shows another value, or the prefix of one
                )
        return values


# ---------------------------------------------------------------- a template to steps


def _parse(text: str) -> list[_Step]:
    """The parts of a template: texts as they are written, the first of them maybe empty, and
    expressions.

    Expressions that make one query, as in ``{?a}{&b}``, become one: a query that is written by hand
    is so in any order.

    Raises:
        ValueError: It is malformed.
    """
    parts: list[_Step] = []
    for index, piece in enumerate(re.split(r"\{([^{}]*)\}", text)):
        if index % 2:
            sign = piece[:1] if piece[:1] in _OPERATORS else ""
            read = [re.fullmatch(_VARIABLE, each) for each in piece[len(sign) :].split(",")]
            if not all(read):
                raise ValueError(f"{{{one_line(piece)}}} is no expression of a URI template")
            variables = [
                _Variable(each[1], int(each[2]) if each[2] else None, bool(each[3]))
                for each in read
                if each
            ]
            before, operator = parts[-1], _OPERATORS[sign]
            if isinstance(before, _Gap) and operator.named and before.operator.separator == sign:
                parts[-1] = _Gap(before.operator, (*before.variables, *variables))
            else:
                parts.append(_Gap(operator, tuple(variables)))
            continue
        bad = re.search(_NO_LITERAL, piece)
        if bad and bad.group() == "{":
            raise ValueError(f"a brace is not closed in the URI template '{one_line(text)}'")
        if bad:
            raise ValueError(f"'{one_line(bad.group())}' must be percent-encoded in a URI template")
        if piece or not index:
            parts.append(piece)
    return parts


_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%"


def _comparable(uri: str) -> str:
    """The digits of an escape have no case."""
    return re.sub(_ESCAPE, lambda escape: escape.group().upper(), uri) if "%" in uri else uri


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode())


def _steps(parts: Sequence[_Step]) -> Iterator[_Step]:
    shown = [part if isinstance(part, str) else part.operator.first for part in parts]
    for index, part in enumerate(parts):
        if isinstance(part, str):
            yield _comparable(re.sub(_ILLEGAL, _escape, part))
        elif part.operator.named:
            yield part._replace(
                characters=_UNRESERVED + "=" + part.operator.separator, first=part.operator.first
            )
        else:
            operator, later = part.operator, "".join(shown[index + 1 :])
            reserved = ":/[]@!$&'()*+,;=" + "".join(sign for sign in "?#" if sign not in later)
            for number, each in enumerate(part.variables):
                more = reserved if operator.reserved else operator.separator if each.explode else ""
                if number or operator.first:
                    yield operator.separator if number else operator.first
                yield _Gap(operator, (each,), _UNRESERVED + more)


# ---------------------------------------------------------------- a URI to values


@lru_cache(maxsize=1000)
def _digits(characters: str) -> bytes:
    """A table for `bytes.translate`: the digit 1 for these characters, 0 for all others."""
    return bytes(b"01"[chr(code) in characters] for code in range(256))


def _walk(steps: Sequence[_Step], uri: str) -> list[tuple[_Gap, str]]:
    """The piece of the URI that each gap takes. Positions are counted from its end, where 0 is.

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
                taken.append((step, uri[len(uri) - begin : len(uri) - there]))
                here = there
    return taken


def _values(gap: _Gap, text: str) -> Iterator[tuple[_Variable, str]]:
    """The variables of a gap with their values.

    Raises:
        ValueError: The text is none that expansion makes, or a value could lead a handler astray.
    """
    operator, given = gap.operator, dict[str, list[str]]()
    joiner = "," if operator.named else operator.separator
    is_list = operator.named or (gap.variables[0].explode and not operator.reserved)
    for piece in text.split(operator.separator) if is_list else [text]:
        name, _, value = (
            piece.partition("=")
            if operator.named
            else (_comparable(gap.variables[0].name), "", piece)
        )
        given.setdefault(name, []).append(value)
    for variable in gap.variables:
        members = [
            _decoded(operator, member) for member in given.pop(_comparable(variable.name), ())
        ]
        doubled = len(members) > 1 and not variable.explode
        unclear = (
            variable.explode and not operator.reserved and any(joiner in each for each in members)
        )
        if doubled or unclear or ("" in members and not operator.named):
            raise ValueError(text)
        if members:
            yield variable, joiner.join(members)
    if given:
        raise ValueError(text)  # a parameter that the template does not have


def _decoded(operator: _Operator, text: str) -> str:
    from urllib.parse import unquote

    value = unquote(text, errors="strict")
    in_a_path = not operator.reserved and operator.separator != "&"
    fits = (
        is_safe_segment(value) if in_a_path else "\0" not in value and not has_parent_segment(value)
    )
    if not fits or (operator.named and "=" in text):
        raise ValueError(text)
    return value


# ---------------------------------------------------------------- URIs and segments


def is_safe_segment(text: str) -> bool:
    """Whether a decoded text stays one segment of a path: without "/", "\\" or NUL, and neither "."
    nor ".."."""
    return not ("/" in text or "\\" in text or "\0" in text or text in (".", ".."))


_SEGMENT_ENDS = r"(?i)%2F|%5C|[\\?#]"


def has_parent_segment(text: str) -> bool:
    """Whether a URI or a path has a ".." segment, as it is or escaped. A "\\" ends a segment too."""
    text = text.replace("%2E", ".").replace("%2e", ".")
    return ".." in text and "/../" in f"/{re.sub(_SEGMENT_ENDS, '/', text)}/"


_SCHEME = r"[A-Za-z][A-Za-z0-9+.\-]*:"
_ADDRESS = r"\[(?:[0-9A-Fa-f.]*:[0-9A-Fa-f.:]*|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
_AUTHORITY = rf"(?:[^@\[\]]*@)?(?:{_ADDRESS}|[^@:\[\]]*)(?::[0-9]*)?"
_AFTER_AUTHORITY = r"[^\[\]#]*(?:#[^\[\]#]*)?"


def check_uri(text: str) -> None:
    """Refuse what is no URI by RFC 3986. Dot segments are legal there: `has_parent_segment` finds
    them.

    Raises:
        ValueError: It is none; one sentence says why.
    """
    bad, fault = re.search(_ILLEGAL, text), ""
    authority = re.match("[^:]*://([^/?#]*)", text)
    if not re.match(_SCHEME, text):
        fault = "it does not begin with a scheme and a colon"
    elif bad:
        fault = (
            f"'{one_line(bad.group()[0])}' at character {bad.start() + 1} must be percent-encoded"
        )
    elif authority and not re.fullmatch(_AUTHORITY, authority[1]):
        fault = "its host or port is malformed"
    elif not re.fullmatch(_AFTER_AUTHORITY, text[authority.end() if authority else 0 :]):
        fault = "brackets stand round an address only, and '#' once"
    if fault:
        raise ValueError(f"'{one_line(text)}' is no URI: {fault}")


_WEB_URL = r"(?ai)(https?)://([\w\-.~!$&'()*+,;=:%]*@)?(\w[\w.\-]*|\[[0-9A-F:.]+\])(?::([0-9]{1,5}))?(?:[/?#][^ \\]*)?"

# The last label of a name that browsers take for an address.
_NUMBER = r"(?ai)(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?"


class WebUrl(NamedTuple):
    """Where an http or https URL leads: the scheme and the host in lower case, an address of IPv6
    without brackets."""

    scheme: str
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        """Whether the host is this machine."""
        from ipaddress import ip_address

        with suppress(ValueError):
            return ip_address(self.host).is_loopback
        return self.host == "localhost"


def parse_web_url(url: str, *, userinfo: bool = False) -> WebUrl:
    """Take an http or https URL apart: the only place where that is done with a URL whose host
    matters.

    What two readers of URLs could take for different hosts is refused: backslashes, blanks,
    controls, hosts with letters beyond ASCII (their ``xn--`` form is none of these) or escapes, and
    numbers that some take for an address.

    Args:
        url: Absolute.
        userinfo: Whether a user's name and password may stand before the host.

    Raises:
        ValueError: It is none, or may be misread.
    """
    from ipaddress import IPv4Address, IPv6Address

    found = re.fullmatch(_WEB_URL, url) if url.isprintable() else None
    if found and (userinfo or not found[2]):
        scheme, host = found[1].lower(), found[3].lower()
        port = int(found[4] or (443 if scheme == "https" else 80))
        with suppress(ValueError):
            if host.startswith("["):
                host = str(IPv6Address(host[1:-1]))
            elif re.fullmatch(_NUMBER, host):
                host = str(IPv4Address(host))
            if 0 < port < 65536:
                return WebUrl(scheme, host, port)
    what = "a URL begins with http:// or https:// and names a host in ASCII that all programs read alike"
    # a password stands before the host, and a key in the query
    shown = re.split("[?#]", re.sub("(?s)//.*@", "//...@", url), maxsplit=1)[0]
    raise ValueError(f"{what}, and not so '{one_line(shown, 100)}'")
