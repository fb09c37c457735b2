"""Functions that check and compare URIs (RFC 3986), and that parse http and https URLs.

They do not resolve names. `normalize_uri` returns the same text for equivalent URIs (RFC 3986,
sections 6.2.2 and 6.2.3).

https://www.rfc-editor.org/rfc/rfc3986
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Iterable, Mapping, NamedTuple, Optional

from ..text import one_line

# Patterns are compiled on first use, because most servers and clients never need them.

# Text that must be percent-encoded in a URI.
_ILLEGAL = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+|%(?![0-9A-Fa-f]{2})"

_ESCAPE = "%[0-9A-Fa-f]{2}"

UNRESERVED = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"

_SEGMENT_ENDS = r"(?i)%2F|%5C|[\\?#]"


def has_parent_segment(text: str) -> bool:
    """Return whether a URI or a path has a ".." segment, escaped or not. A "\\" ends a segment."""
    text = text.replace("%2E", ".").replace("%2e", ".")
    return ".." in text and "/../" in f"/{re.sub(_SEGMENT_ENDS, '/', text)}/"


# ---------------------------------------------------------------- equivalent URIs

# Matches a scheme, a user, and a host with its port. `uri_template` uses NUL as a placeholder.
_SCHEME_AND_HOST = r"([A-Za-z\0][A-Za-z0-9+.\-\0]*:)(?://([^/?#]*@)?([^/?#]*))?"
_HOST_AND_PORT = r"([^:]*|\[.*\]):([0-9]*)"
_DOT_SEGMENT = r"(?:^|/)\.\.?(?:/|$)"

# Maximum length of a text that is normalized, because the time is proportional to the length.
_MAX_NORMALIZED = 64 * 1024

_DEFAULT_PORTS = {"http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21"}


def normalize_uri(uri: str, *, keep_values: bool = False) -> str:
    """Return the normal form of a URI, which is the same for all equivalent URIs.

    Never raises, even if the text is not a URI. A text longer than 64 KiB is returned unchanged.
    Idempotent.

    Args:
        uri: The URI.
        keep_values: Whether to keep the case of the host if the scheme is not one of the web. Such
            a host may be the value of a variable in a template, and values keep their case.

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
    """Percent-encode all characters that a URI may not contain."""
    return re.sub(_ILLEGAL, _escape, text)


def _unescape(found: re.Match[str]) -> str:
    character = chr(int(found.group()[1:], 16))
    return character if character in UNRESERVED else found.group().upper()


def plain_escapes(text: str) -> str:
    """Escape the characters that must be escaped, and decode unnecessary escapes."""
    text = escaped(text)
    return re.sub(_ESCAPE, _unescape, text) if "%" in text else text


def fold_case(uri: str, *, host: bool = True) -> str:
    """Convert the scheme and the host to lower case. The length stays the same."""
    found = re.match(_SCHEME_AND_HOST, uri)
    if found is None:
        return uri
    begin = found.start(3)
    end = found.end(3)
    if host and begin >= 0:
        name = re.sub(_ESCAPE, lambda escape: escape.group().upper(), found[3].lower())
        uri = uri[:begin] + name + uri[end:]
    return found[1].lower() + uri[found.end(1) :]


def normal_components(uri: str, empty_path: Optional[str] = None) -> str:
    """Remove a default port and dot segments, and replace an empty path after a host.

    Args:
        uri: The URI, after `plain_escapes`.
        empty_path: The replacement, "/" or ""; if None, an empty path stays empty.
    """
    found = re.match(_SCHEME_AND_HOST, uri)
    if found is None:
        return uri
    begin = found.group()
    host = found[3]
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
        path = "/." + path  # otherwise it would be parsed as a host
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
    """Return a dict from normalized URIs to these URIs. The first of equivalent URIs is used."""
    found: dict[str, str] = {}
    for uri in uris:
        found.setdefault(normalize_uri(uri), uri)
    return found


def covering(subscribed: Mapping[str, str], uri: str) -> Optional[str]:
    """Return the subscribed URI of a resource, or of the closest collection that contains it.

    Args:
        subscribed: Subscribed URIs of resources and collections, from `by_normalized`.
        uri: The URI of a resource that has changed.

    Returns:
        The URI as it was subscribed, or None.
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
    """Check a URI by RFC 3986. Dot segments are allowed; see `has_parent_segment`.

    Raises:
        ValueError: The text is not a URI.
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
        fault = "brackets may only enclose an address, and '#' may occur only once"
    if fault:
        raise ValueError(f"'{one_line(text)}' is not a URI: {fault}")


# Matches the scheme, the user, the host and the port of an http or https URL.
_WEB_URL = (
    r"(?ai)(https?)://([\w\-.~!$&'()*+,;=:%]*@)?(\w[\w.\-]*|\[[0-9A-F:.]+\])"
    r"(?::([0-9]{1,5}))?(?:[/?#][^ \\]*)?"
)

# Matches a host that browsers treat as an IPv4 address, because its last label is a number.
_NUMBER = r"(?ai)(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?"


class WebUrl(NamedTuple):
    """The scheme, host and port of an http or https URL.

    The scheme and the host are in lower case. An IPv6 address has no brackets.
    """

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
    """Parse an http or https URL. Use this for every URL whose host matters for security.

    A URL is rejected if two programs could find different hosts in it. Such a URL has backslashes,
    spaces, control characters, escapes in the host, a number that some programs treat as an
    address, or a host with characters outside ASCII (the ``xn--`` form is allowed).

    Args:
        url: An absolute URL.
        userinfo: Whether a user name and a password before the host are allowed.

    Raises:
        ValueError: The text is not an http or https URL, or it is ambiguous.
    """
    from ipaddress import IPv4Address, IPv6Address

    found = re.fullmatch(_WEB_URL, url) if url.isprintable() else None
    if found and (userinfo or not found[2]):
        scheme = found[1].lower()
        host = found[3].lower()
        port = int(found[4] or (443 if scheme == "https" else 80))
        with suppress(ValueError):
            if host.startswith("["):
                host = str(IPv6Address(host[1:-1]))
            elif re.fullmatch(_NUMBER, host):
                host = str(IPv4Address(host))
            if 0 < port < 65536:
                return WebUrl(scheme, host, port)
    # Omit a password before the host and a key in the query.
    shown = re.split("[?#]", re.sub("(?s)//.*@", "//...@", url), maxsplit=1)[0]
    raise ValueError(
        "a URL must begin with http:// or https:// and have an unambiguous host in ASCII, not "
        f"'{one_line(shown, 100)}'"
    )
