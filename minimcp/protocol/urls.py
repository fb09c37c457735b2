"""URIs: checking and comparing them (RFC 3986), and the parts of http and https URLs.

Nothing is resolved or fetched. Equivalent URIs (RFC 3986, sections 6.2.2 and 6.2.3) have the same
normal form, `normalize_uri`.

https://www.rfc-editor.org/rfc/rfc3986
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Iterable, Mapping, NamedTuple, Optional

from ..text import one_line

# Patterns are compiled on first use, because most servers and clients never need them.

# Text that a URI contains only percent-encoded.
_ILLEGAL = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+|%(?![0-9A-Fa-f]{2})"

_ESCAPE = "%[0-9A-Fa-f]{2}"

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

_SEGMENT_ENDS = r"(?i)%2F|%5C|[\\?#]"


def has_parent_segment(text: str) -> bool:
    """Whether a URI or a path has a ".." segment, as it is or escaped. A "\\" ends a segment
    too."""
    text = text.replace("%2E", ".").replace("%2e", ".")
    return ".." in text and "/../" in f"/{re.sub(_SEGMENT_ENDS, '/', text)}/"


# ---------------------------------------------------------------- equivalent URIs

# A scheme, a user, and a host with its port. `uri_template` puts a NUL where a value goes.
_SCHEME_AND_HOST = r"([A-Za-z\0][A-Za-z0-9+.\-\0]*:)(?://([^/?#]*@)?([^/?#]*))?"
_HOST_AND_PORT = r"([^:]*|\[.*\]):([0-9]*)"
_DOT_SEGMENT = r"(?:^|/)\.\.?(?:/|$)"

# Longer texts are compared as they are, because normalizing takes time for each character.
_MAX_NORMALIZED = 64 * 1024

_DEFAULT_PORTS = {"http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21"}


def normalize_uri(uri: str, *, keep_values: bool = False) -> str:
    """Return the one way to write this URI and all that are equivalent (RFC 3986, 6.2.2 and 6.2.3).

    Never fails; a text that is not a URI is written like one. Idempotent. A text of more than 64
    KiB is returned as it is.

    Args:
        uri: The URI.
        keep_values: Whether to keep the case of the host if the scheme is not one of the web. Such
            a host may be the value of a template's variable, whose case a server can see.

    https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
    """
    if len(uri) > _MAX_NORMALIZED:
        return uri
    normal = normal_components(plain_escapes(uri), "")
    is_web = normal.partition(":")[0].lower() + ":" in _DEFAULT_PORTS
    return fold_case(normal, host=is_web or not keep_values)


def _escape(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode(errors="surrogatepass"))


def escaped(text: str) -> str:
    """Percent-encode every character that a URI may not contain."""
    return re.sub(_ILLEGAL, _escape, text)


def _unescape(found: re.Match[str]) -> str:
    character = chr(int(found.group()[1:], 16))
    return character if character in UNRESERVED else found.group().upper()


def plain_escapes(text: str) -> str:
    """Escape what must be escaped, and nothing that need not be."""
    text = escaped(text)
    return re.sub(_ESCAPE, _unescape, text) if "%" in text else text


def fold_case(uri: str, *, host: bool = True) -> str:
    """Write the scheme and the host in lower case. The length stays the same."""
    found = re.match(_SCHEME_AND_HOST, uri)
    if found is None:
        return uri
    begin, end = found.start(3), found.end(3)
    if host and begin >= 0:
        name = re.sub(_ESCAPE, lambda escape: escape.group().upper(), found[3].lower())
        uri = uri[:begin] + name + uri[end:]
    return found[1].lower() + uri[found.end(1) :]


def normal_components(uri: str, empty_path: Optional[str] = None) -> str:
    """Remove a default port and dot segments, and write an empty path behind a host in this way.

    Args:
        uri: With `plain_escapes`.
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


def by_normalized(uris: Iterable[str]) -> dict[str, str]:
    """Return these URIs by their normalized form. Of several that are equivalent the first
    counts."""
    found: dict[str, str] = {}
    for uri in uris:
        found.setdefault(normalize_uri(uri), uri)
    return found


def covering(subscribed: Mapping[str, str], uri: str) -> Optional[str]:
    """Return the subscription that a change of a resource is for: of the resource itself, or of a
    collection that contains it.

    Args:
        subscribed: URIs of resources and collections, from `by_normalized`.
        uri: The URI of the resource that changed.

    Returns:
        The closest of them, as it was subscribed to; None when there is none.
    """
    uri = normalize_uri(uri)
    if uri in subscribed:
        return subscribed[uri]
    while "/" in uri:
        uri = uri.rpartition("/")[0]
        for collection in (f"{uri}/", uri):
            if collection in subscribed:
                return subscribed[collection]
    return None


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
    bad = re.search(_ILLEGAL, text)
    fault = ""
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


# The scheme, the user, the host and the port of an http or https URL.
_WEB_URL = (
    r"(?ai)(https?)://([\w\-.~!$&'()*+,;=:%]*@)?(\w[\w.\-]*|\[[0-9A-F:.]+\])"
    r"(?::([0-9]{1,5}))?(?:[/?#][^ \\]*)?"
)

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
    # Leave out what may be secret: a password before the host, a key in the query.
    shown = re.split("[?#]", re.sub("(?s)//.*@", "//...@", url), maxsplit=1)[0]
    raise ValueError(
        "a URL begins with http:// or https:// and names a host in ASCII that all programs read "
        "alike, "
        f"and not so '{one_line(shown, 100)}'"
    )
