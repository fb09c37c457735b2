"""As whom a client signs in at an authorization server: named by its user, by a document of its own, or registered.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import json
import time
from typing import Any, Optional
from urllib.parse import urlsplit

from ..errors import AuthorizationError, one_line
from ..protocol.uri_template import parse_web_url
from .discovery import Exchange, Place, is_loopback, json_object, refusal, words
from .tokens import Credentials


def check_metadata_url(url: str) -> None:
    """Return if a client can have this URL as its id. Raises ValueError: it cannot."""
    if parse_web_url(url).scheme != "https" or "#" in url or urlsplit(url).path in ("", "/"):
        raise ValueError(f"the URL of a client's metadata has https and a path, and not so {one_line(url, 100)!r}")


def registered(record: Any) -> Optional[tuple[Credentials, str]]:
    """The credentials in a record of `register`, and their redirect URI; None where there are none, or no more."""
    if not isinstance(record, dict) or not isinstance(record.get("client_id"), str):
        return None
    ends, uri = record.get("expires_at"), record.get("redirect_uri")
    secret, method = record.get("client_secret"), record.get("method")
    texts = (each for each in (secret, method) if each is not None)
    if not isinstance(uri, str) or not all(isinstance(each, str) for each in texts):
        return None
    if isinstance(ends, (int, float)) and 0 < ends < time.time():
        return None
    return Credentials(record["client_id"], secret, method=method), uri


def register(exchange: Exchange, place: Place, redirect_uri: str, client_name: str) -> dict[str, Any]:
    """Register a client; a record for the token store.

    Args:
        exchange: By which is asked.
        place: Where.
        redirect_uri: Where the browser is sent to in the end.
        client_name: Shown to the user.

    Raises:
        AuthorizationError: The server registers none, or refuses this one.
    """
    if "registration_endpoint" not in place.server:
        way = "ask its operator for a client id, and give it: SignIn(client_id=...), or --client-id"
        raise AuthorizationError(f"{place.issuer} registers no clients: {way}")
    url = exchange.checked(place.server["registration_endpoint"], "the registration endpoint")
    supported = words(place.server.get("token_endpoint_auth_methods_supported")) or ("none",)
    known = [each for each in ("none", "client_secret_basic", "client_secret_post") if each in supported]
    if not known:
        raise AuthorizationError(f"{place.issuer} wants clients to use {one_line(', '.join(supported))}")
    asked = {
        "client_name": client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": known[0],
        "application_type": "native" if is_loopback(parse_web_url(redirect_uri).host) else "web",
    }
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    status, _, body = exchange.ask("POST", url, headers, json.dumps(asked).encode())
    answer = json_object(body) or {}
    if status not in (200, 201):
        told = f"{place.issuer} does not register this client with {redirect_uri}"
        raise AuthorizationError(f"{told}: {refusal(status, answer)}")
    method = answer.get("token_endpoint_auth_method")
    record = {
        "client_id": answer.get("client_id"),
        "client_secret": answer.get("client_secret"),
        "method": method if method is not None or "client_secret" in answer else "none",
        "expires_at": answer.get("client_secret_expires_at"),
        "redirect_uri": redirect_uri,
    }
    if registered(record) is None:
        raise AuthorizationError(f"{place.issuer} registers a client without an id that can be used")
    return record
