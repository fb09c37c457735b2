"""Names, checks and exceptions that several modules of authorization share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Optional
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from ..protocol.messages import Json
from ..protocol.urls import parse_web_url
from ..text import one_line

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"

# The signature algorithms that are accepted by default.
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

# Returns the claims of a token, or None to reject it.
Verify = Callable[[str], Optional[Mapping[str, Json]]]


class WrongType(Exception):
    """A JWT has a type that is not accepted. The challenge quotes the message."""


class IssuerUnavailable(AuthorizationError):
    """The issuer cannot be asked about a token now. The response has status 503."""


def list_of_str(given: Any, name: str) -> list[str]:
    """Return a collection of str as a list.

    Raises:
        TypeError: The value is not a list, tuple or set of str.
    """
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(
        isinstance(each, str) for each in given
    ):
        raise TypeError(f"{name} must be a list of str")
    return list(given)


def check_url(url: Any, *, local_http: bool = True) -> None:
    """Check that a value may be the URL of a protected server or of an authorization server.

    Args:
        url: The URL.
        local_http: Whether http is allowed if the host is this machine.

    Raises:
        TypeError: The value is not a str.
        ValueError: It is not an https URL, or has a fragment.
    """
    if not isinstance(url, str):
        raise TypeError(f"a URL must be a str, not {type(url).__name__}")
    parts = parse_web_url(url)
    if "#" in url or not (parts.scheme == "https" or (local_http and parts.is_local)):
        raise ValueError(
            "a URL must begin with https:// (http:// only on this machine) and have no fragment, "
            f"unlike '{one_line(url, 100)}'"
        )


def split(url: str) -> tuple[str, str]:
    """Return the origin and the path of a URL, the path without a final slash."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.rstrip("/")
