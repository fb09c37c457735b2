"""Terms, checks and exceptions that several modules of authorization share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from ..protocol.messages import Json
from ..protocol.urls import parse_web_url
from ..text import one_line

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"

# By which tokens are signed, where nothing else is said.
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
)

# Given a token, what is known by it; None where it is none.
Verify = Callable[[str], Optional[Mapping[str, Json]]]


class WrongType(Exception):
    """A JWT is of a type that is not accepted. Its message goes into the challenge."""


class IssuerUnavailable(AuthorizationError):
    """The issuer cannot be asked about a token now, so the request gets status 503."""


def list_of_text(given: Any, name: str) -> list[str]:
    """Texts that an author gave. Raises TypeError: it is no list of them."""
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(
        isinstance(each, str) for each in given
    ):
        raise TypeError(f"{name} is a list of texts")
    return list(given)


def check_url(url: Any, *, local_http: bool = True) -> None:
    """Return if this may be the URL of a protected server, of who issues tokens, or of what that
    names.

    Args:
        url: The URL.
        local_http: Whether a URL with http is taken too, if its host is this machine.

    Raises:
        TypeError: It is no text.
        ValueError: It is no URL, not https, or has a fragment.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL is text, not {type(url).__name__}")
    parts = parse_web_url(url)
    if "#" in url or not (parts.scheme == "https" or (local_http and parts.is_local)):
        what = "a URL begins with https:// (http:// on this machine alone) and has no fragment"
        raise ValueError(f"{what}, unlike '{one_line(url, 100)}'")


def split(url: str) -> tuple[str, str]:
    """Origin and path of a URL, the path without a slash at its end."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.rstrip("/")
