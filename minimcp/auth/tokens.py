"""Tokens and the token endpoint: `Token`, what a client proves itself by, and the one request that
gets a token.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import re
import time
from base64 import b64encode
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Mapping, Optional
from urllib.parse import quote

from ..errors import AuthorizationError
from ..http.fetch import header_secrets
from ..log import logger
from ..text import one_line
from .discovery import TOKEN_SECONDS, Exchange, Place, is_passing, refusal, words
from .dpop import ProofKey, sign

log = logger("minimcp.auth")

# Seconds before its end at which a token is renewed.
EARLY_SECONDS = 30.0

# Seconds for which an assertion of a client is valid.
ASSERTION_SECONDS = 120

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# What a form may have that is not a secret. Everything else is masked in the server's messages.
PUBLIC = frozenset(
    {"grant_type", "resource", "scope", "client_id", "redirect_uri", "client_assertion_type"}
    | {"audience", "requested_token_type", "subject_token_type"}
)

_VISIBLE = re.compile(r"[\x21-\x7e]{1,65536}")


class TokenRefused(AuthorizationError):
    """The authorization server rejected a request for a token.

    Args:
        message: What it said.
        error: The OAuth error code, or "" if there is none; ``invalid_client`` if the status is
            401.
        is_final: Whether the same request cannot succeed later.
    """

    def __init__(self, message: str, error: str = "", *, is_final: bool = True) -> None:
        super().__init__(message)
        self.error = error
        self.is_final = is_final


@dataclass(frozen=True)
class Token:
    """An access token and where it belongs. Its repr shows no secret."""

    access_token: str = field(repr=False)
    issuer: str
    resource: str
    client_id: str = ""
    scopes: tuple[str, ...] = ()
    """Those that were asked for, and those that were granted."""
    expires_at: Optional[float] = None
    """Seconds since 1970; None where the server did not say."""
    refresh_token: Optional[str] = field(default=None, repr=False)
    client_secret: Optional[str] = field(default=None, repr=False)
    client_method: Optional[str] = None
    """How the client proved itself, as `Credentials` has it: it does so again to refresh the
    token."""
    proof_key: Optional[str] = field(default=None, repr=False)
    """The private key that it is bound to (DPoP), in PEM; None for a bearer token."""

    @property
    def credentials(self) -> Credentials:
        """As whom it was got, and is refreshed."""
        return Credentials(self.client_id, self.client_secret, method=self.client_method)

    @property
    def is_old(self) -> bool:
        """Whether it has ended, or soon will."""
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_SECONDS

    def to_record(self) -> dict[str, Any]:
        """What a token store keeps."""
        return {**asdict(self), "scopes": list(self.scopes)}

    @classmethod
    def from_record(cls, record: Any) -> Optional[Token]:
        """The token of a store; None where there is none, or it is no such record."""
        try:
            token = cls(**{**record, "scopes": words(record["scopes"])})
        except (TypeError, KeyError):
            return None
        texts = (token.access_token, token.issuer, token.resource, token.client_id)
        others = (token.refresh_token, token.proof_key, token.client_secret, token.client_method)
        is_sound = all(isinstance(each, str) for each in texts) and _VISIBLE.fullmatch(
            token.access_token
        )
        if not is_sound or not all(each is None or isinstance(each, str) for each in others):
            return None
        return token if isinstance(token.expires_at, (int, float, type(None))) else None


@dataclass(frozen=True)
class Credentials:
    """As whom a client asks for tokens at one authorization server. Its repr shows no secret."""

    client_id: str
    secret: Optional[str] = field(default=None, repr=False)
    private_key: Optional[str] = field(default=None, repr=False)
    """In PEM; then the client signs instead of sending a secret."""
    algorithm: str = "ES256"
    """By which it signs."""
    method: Optional[str] = None
    """``client_secret_basic``, ``client_secret_post`` or ``none``; None takes what the server
    supports."""

    def prove(self, server: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """What a request to a token endpoint carries to prove who asks: headers, and members of the
        form."""
        if self.private_key is not None:
            now = int(time.time())
            claims = {
                "iss": self.client_id,
                "sub": self.client_id,
                "aud": server.get("issuer"),
                "iat": now,
            }
            assertion = sign(
                {**claims, "exp": now + ASSERTION_SECONDS}, self.private_key, self.algorithm
            )
            return {}, {
                "client_id": self.client_id,
                "client_assertion_type": JWT_BEARER,
                "client_assertion": assertion,
            }
        if self.secret is None or self.method == "none":
            return {}, {"client_id": self.client_id} if self.client_id else {}
        supported = words(server.get("token_endpoint_auth_methods_supported"))
        can_post = "client_secret_post" in supported and "client_secret_basic" not in supported
        if self.method == "client_secret_post" or (self.method is None and can_post):
            return {}, {"client_id": self.client_id, "client_secret": self.secret}
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        basic = f"Basic {b64encode(pair.encode()).decode()}"
        # servers made with the official Python SDK want the id in the form as well
        return {"Authorization": basic}, {"client_id": self.client_id}


def clean_secret(secret: Any, name: str) -> Optional[str]:
    """Return a client secret without the line ends around it, which a file or a variable adds.

    Args:
        secret: As the user gives it; None if there is none.
        name: The name of the parameter, for messages.

    Raises:
        TypeError: It is not a str.
        ValueError: It is empty, or has a control character in it. It is not shown.
    """
    if secret is None:
        return None
    if not isinstance(secret, str):
        raise TypeError(f"{name} must be a str, not {type(secret).__name__}")
    found = secret.strip("\r\n")
    if not found or not found.isprintable():
        why = "has a control character, such as a line end, in it" if found else "is empty"
        raise ValueError(f"{name} {why}: read it again from where it is kept")
    return found


def require_issuer(issuer: Optional[str], name: str) -> None:
    """Check that credentials name their authorization server.

    Otherwise they would be sent to any authorization server that an MCP server names.

    Args:
        issuer: As the user gives it.
        name: The parameter that makes it necessary, for messages.

    Raises:
        ValueError: There is none.
    """
    if issuer is None:
        what = "the URL of the authorization server that the credentials are for"
        raise ValueError(
            f"{name} needs issuer=, {what}: without it, any server could have them sent to itself"
        )


def request_token(
    exchange: Exchange,
    place: Place,
    credentials: Credentials,
    form: Mapping[str, str],
    *,
    scopes: tuple[str, ...] = (),
    asked: tuple[str, ...] = (),
    key: Optional[ProofKey] = None,
    before: Optional[Token] = None,
) -> Token:
    """Ask the token endpoint of an authorization server for a token.

    Args:
        exchange: Sends the request.
        place: Where the token is for, and where it comes from.
        credentials: Who asks.
        form: The grant: ``grant_type`` and what goes with it.
        scopes: To ask for; empty leaves them to the server, or to the grant.
        asked: Those that the grant was got for.
        key: What the token is to be bound to; None gets a bearer token.
        before: The token that is refreshed, of which stays what the answer does not replace; None
            for another grant.

    Raises:
        TokenRefused: The server rejected the request, or its response has no token that can be
            used.
        AuthorizationError: There was no response.
    """
    url = exchange.checked(place.server.get("token_endpoint"), "the token endpoint")
    headers, proof = credentials.prove(place.server)
    sent = {**form, **proof, "resource": place.resource}
    if scopes:
        sent["scope"] = " ".join(scopes)
    answer = post_form(exchange, url, sent, headers, key)
    access, kind = answer.get("access_token"), answer.get("token_type")
    seconds = _lifetime(answer.get("expires_in"))
    expected = "bearer" if key is None else "dpop"
    if not isinstance(access, str) or not _VISIBLE.fullmatch(access):
        told = "the token endpoint answers without an access_token that can be sent"
        raise TokenRefused(told, is_final=bool(answer))
    if kind is None and key is None:
        kind = "bearer"
    if not isinstance(kind, str) or kind.lower() != expected:
        told = f"a token of type {one_line(kind, 50)}, not {expected}"
        raise TokenRefused(f"the token endpoint gives {told}")
    refresh = answer.get("refresh_token")
    asked = (*scopes, *asked) if before is None else before.scopes
    token = Token(
        access,
        place.issuer,
        place.resource,
        credentials.client_id,
        scopes=tuple(dict.fromkeys([*asked, *words(answer.get("scope"))])),
        expires_at=None if seconds is None else time.time() + seconds,
        refresh_token=refresh if isinstance(refresh, str) and refresh else None,
        client_secret=credentials.secret,
        client_method=credentials.method,
        proof_key=None if key is None else key.pem,
    )
    return (
        token
        if token.refresh_token or before is None
        else replace(token, refresh_token=before.refresh_token)
    )


def refreshed(exchange: Exchange, place: Place, token: Token, key: Optional[ProofKey]) -> Token:
    """A new token for an old one, by its refresh token. Errors as `request_token`."""
    credentials = token.credentials
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token or ""}
    return request_token(exchange, place, credentials, form, key=key, before=token)


def _lifetime(seconds: Any) -> Optional[float]:
    """Return how long a token is valid, in seconds; None if the server does not say so."""
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
        seconds = int(seconds[:18])
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if is_number and seconds >= 0:
        return float(min(seconds, 1e10))
    if seconds is not None:
        log.warning("expires_in of a token is not a number of seconds: %s", one_line(seconds, 50))
    return None


def post_form(
    exchange: Exchange,
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str],
    key: Optional[ProofKey] = None,
    *,
    named: bool = False,
) -> dict[str, Any]:
    """Send a form to a token endpoint, once more with a nonce if the server wants one.

    Returns:
        The JSON object of a successful response, empty if there is none.

    Raises:
        TokenRefused: The status is an error, or the response has an OAuth error.
        AuthorizationError: There was no response.
    """
    for is_last in (False, True):
        proof = {} if key is None else {"DPoP": key.proof("POST", url)}
        status, answered, answer = exchange.post(
            url, form, {**headers, **proof}, named=named, seconds=TOKEN_SECONDS
        )
        fresh = key is not None and key.note(url, answered)
        if 200 <= status < 300 and not answer.get("error"):
            return answer
        if is_last or not (fresh and answer.get("error") == "use_dpop_nonce"):
            break
    secrets = [form[name] for name in form if name not in PUBLIC and form[name]]
    for name, value in headers.items():
        secrets += header_secrets(name, value)
    text = refusal(status, answer, secrets)
    error = answer.get("error")
    if not isinstance(error, str):
        error = "invalid_client" if status == 401 else ""
    is_final = status < 300 or (400 <= status < 500 and not is_passing(status))
    raise TokenRefused(f"the token endpoint refused: {text}", error, is_final=is_final)
