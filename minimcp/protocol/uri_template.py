"""URI templates (RFC 6570), and the values in a URI; the check and the comparison of URIs (RFC
3986); http URLs.

Nothing is resolved or fetched.

Matching is our own, since the RFC has none: it finds values whose expansion is the URI. A template
is a row of steps, texts and gaps. For each step the positions of the URI from which the rest of the
row fits are the bits of one integer; they are found from the last step to the first, in a few
operations on whole integers. Then one pass from the left gives each gap the most that leads to such
a position. So nothing is tried twice, whatever the URI says.

URIs that RFC 3986 calls equivalent (sections 6.2.2 and 6.2.3) are one: `normalize_uri` writes them
in the same way, and a template matches each of them.

https://www.rfc-editor.org/rfc/rfc6570
https://www.rfc-editor.org/rfc/rfc3986
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache
from typing import Iterator, NamedTuple, Optional, Sequence, Union

from ..errors import one_line

# Patterns are compiled when they are first used: most servers and clients never do.

# Text that a URI contains only percent-encoded.
_ILLEGAL = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+|%(?![0-9A-Fa-f]{2})"

# Text that does not match a variable even though the rest of `_ILLEGAL` does.
_UNREADABLE = r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"

_NO_LITERAL = r"[\x00-\x20\"<>\\^`|{}\x7f-\x9f\ud800-\udfff]|%(?![0-9A-Fa-f]{2})"
_ESCAPE = "%[0-9A-Fa-f]{2}"
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
        self.example = _join([_escaped(each) for each in texts], [_example(gap) for gap in gaps])
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
        * The value of ``{+x}`` and ``{#x}`` is any text, without "?" and "#" if the template goes on
          with a query or a fragment.
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
        [_plain_escapes(text) for text in texts], [gap.operator.first + _PLACE for gap in gaps]
    )
    if not has_parent_segment(whole):
        whole = _fold_case(_normal_components(whole))
    pieces = whole.split(_PLACE)
    for index, gap in enumerate(gaps):
        pieces[index] = pieces[index].removesuffix(gap.operator.first)
    return pieces


_UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
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
        characters = _without(_UNRESERVED + "%" + _RESERVED, excluded)
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
    given = _plain_escapes(uri)
    forms = (given, _normal_components(given, "/"), _normal_components(given, ""))
    return tuple((form, _fold_case(form)) for form in dict.fromkeys(forms))


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
        given[_plain_escapes(gap.variables[0].name)] = text.split(joiner) if is_list else [text]
    for variable in gap.variables:
        members = [_decoded(gap, each) for each in given.pop(_plain_escapes(variable.name), ())]
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


# ---------------------------------------------------------------- equivalent URIs

# A scheme, a user, and a host with its port. A template has a _PLACE for each gap.
_SCHEME_AND_HOST = r"([A-Za-z\0][A-Za-z0-9+.\-\0]*:)(?://([^/?#]*@)?([^/?#]*))?"
_HOST_AND_PORT = r"([^:]*|\[.*\]):([0-9]*)"
_DOT_SEGMENT = r"(?:^|/)\.\.?(?:/|$)"

# Longer texts are compared as they are, because normalizing takes time for each character.
_MAX_NORMALIZED = 64 * 1024

_DEFAULT_PORTS = {"http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21"}


def normalize_uri(uri: str, *, keep_values: bool = False) -> str:
    """Return the one way to write this URI and all that are equivalent (RFC 3986, 6.2.2 and 6.2.3).

    Never fails; a text that is not a URI is written like one. Idempotent. A text of more than 64 KiB
    is returned as it is.

    Args:
        uri: The URI.
        keep_values: Whether to keep the case of the host if the scheme is not one of the web. Such
            a host may be the value of a template's variable, whose case a server can see.

    https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
    """
    if len(uri) > _MAX_NORMALIZED:
        return uri
    normal = _normal_components(_plain_escapes(uri), "")
    is_web = normal.partition(":")[0].lower() + ":" in _DEFAULT_PORTS
    return _fold_case(normal, host=is_web or not keep_values)


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode(errors="surrogatepass"))


def _escaped(text: str) -> str:
    return re.sub(_ILLEGAL, _escape, text)


def _unescape(found: re.Match[str]) -> str:
    character = chr(int(found.group()[1:], 16))
    return character if character in _UNRESERVED else found.group().upper()


def _plain_escapes(text: str) -> str:
    """Escape what must be escaped, and nothing that need not be."""
    text = _escaped(text)
    return re.sub(_ESCAPE, _unescape, text) if "%" in text else text


def _fold_case(uri: str, *, host: bool = True) -> str:
    """Write the scheme and the host in lower case. The length stays the same."""
    found = re.match(_SCHEME_AND_HOST, uri)
    if found is None:
        return uri
    begin, end = found.start(3), found.end(3)
    if host and begin >= 0:
        name = re.sub(_ESCAPE, lambda escape: escape.group().upper(), found[3].lower())
        uri = uri[:begin] + name + uri[end:]
    return found[1].lower() + uri[found.end(1) :]


def _normal_components(uri: str, empty_path: Optional[str] = None) -> str:
    """Remove a default port and dot segments, and write an empty path behind a host in this way.

    Args:
        uri: With `_plain_escapes`.
        empty_path: "/" or "". None keeps an empty path as it is.
    """
    found = re.match(_SCHEME_AND_HOST, uri)
    if found is None:
        return uri
    begin, host = found.group(), found[3]
    after = uri[found.end() :]
    path = re.sub("[?#].*", "", after, flags=re.DOTALL)
    more = after[len(path) :]
    port = re.fullmatch(_HOST_AND_PORT, host or "")
    if port and port[2] in ("", _DEFAULT_PORTS.get(found[1].lower())):
        begin = begin.removesuffix(f":{port[2]}")
        host = port[1]
    if re.search(_DOT_SEGMENT, path):
        path = _without_dot_segments(path)
    if empty_path is not None and (host or found[2]) and path in ("", "/"):
        path = empty_path
    if host is None and path.startswith("//"):
        path = "/." + path  # as an authority it would be read otherwise
    return begin + path + more


def _without_dot_segments(path: str) -> str:
    kept: list[str] = []
    floor = 1 if path.startswith("/") else 0
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            del kept[max(floor, len(kept) - 1) :]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)


# ---------------------------------------------------------------- other checks

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
