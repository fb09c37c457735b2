"""Tokens, the credentials of clients, and the requests to a token endpoint.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import re
import time
from base64 import b64encode
from dataclasses import asdict, dataclass, field
from typing import Any, Mapping, Optional
from urllib.parse import quote

from ..errors import AuthorizationError
from ..http.fetch import header_secrets
from ..log import logger
from ..text import one_line
from .discovery import TOKEN_SECONDS, Exchange, ProtectedResource, is_passing, refusal, words
from .dpop import ProofKey, sign

log = logger("minimcp.auth")

# How long before its expiry a token is renewed.
EARLY_SECONDS = 30.0

# Validity of a client's assertion.
ASSERTION_SECONDS = 120

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# Members of a form that are not secret. The values of all others are masked in messages.
PUBLIC = frozenset(
    {"grant_type", "resource", "scope", "client_id", "redirect_uri", "client_assertion_type"}
    | {"audience", "requested_token_type", "subject_token_type"}
)

_VISIBLE = re.compile(r"[\x21-\x7e]{1,65536}")


class TokenRefused(AuthorizationError):
    """The authorization server rejected a request for a token.

    Args:
        message: The message of the server.
        error: The OAuth error code; "" if there is none, or ``invalid_client`` if the status is
            401.
        is_final: Whether the same request cannot succeed later.
    """

    def __init__(self, message: str, error: str = "", *, is_final: bool = True) -> None:
        super().__init__(message)
        self.error = error
        self.is_final = is_final


@dataclass(frozen=True)
class Token:
    """An access token with its issuer, resource and client. Its repr shows no secret."""

    access_token: str = field(repr=False)
    issuer: str
    resource: str
    client_id: str = ""
    scopes: tuple[str, ...] = ()
    """The scopes that were requested and those that were granted."""
    expires_at: Optional[float] = None
    """Seconds since 1970; None if the server did not say."""
    refresh_token: Optional[str] = field(default=None, repr=False)
    client_secret: Optional[str] = field(default=None, repr=False)
    client_method: Optional[str] = None
    """The client's authentication method (see `Credentials`), which a refresh uses again."""
    proof_key: Optional[str] = field(default=None, repr=False)
    """The private key in PEM that the token is bound to (DPoP); None for a bearer token."""

    @property
    def credentials(self) -> Credentials:
        """The credentials that obtained the token, and can refresh it."""
        return Credentials(self.client_id, self.client_secret, method=self.client_method)

    @property
    def is_old(self) -> bool:
        """Whether the token has expired or expires soon."""
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_SECONDS

    def to_record(self) -> dict[str, Any]:
        """Return the token as a value for a token store."""
        return {**asdict(self), "scopes": list(self.scopes)}

    @classmethod
    def from_record(cls, record: Any) -> Optional[Token]:
        """Return the token of a value from a token store, or None if the value is not a token."""
        try:
            token = cls(**{**record, "scopes": words(record["scopes"])})
        except (TypeError, KeyError):
            return None
        texts = (token.access_token, token.issuer, token.resource, token.client_id)
        others = (token.refresh_token, token.proof_key, token.client_secret, token.client_method)
        if not all(isinstance(each, str) for each in texts):
            return None
        if not all(each is None or isinstance(each, str) for each in others):
            return None
        if not _VISIBLE.fullmatch(token.access_token):
            return None
        return token if isinstance(token.expires_at, (int, float, type(None))) else None


@dataclass(frozen=True)
class Credentials:
    """A client's credentials at one authorization server. Its repr shows no secret."""

    client_id: str
    secret: Optional[str] = field(default=None, repr=False)
    private_key: Optional[str] = field(default=None, repr=False)
    """The private key in PEM of a client that signs assertions instead of sending a secret."""
    algorithm: str = "ES256"
    """The signature algorithm of the private key."""
    method: Optional[str] = None
    """``client_secret_basic``, ``client_secret_post`` or ``none``; None means one that the server
    supports."""

    def prove(self, server: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and form members that authenticate the client at a token endpoint.

        Args:
            server: The metadata of the authorization server.
        """
        if self.private_key is not None:
            now = int(time.time())
            claims = {
                "iss": self.client_id,
                "sub": self.client_id,
                "aud": server.get("issuer"),
                "iat": now,
                "exp": now + ASSERTION_SECONDS,
            }
            assertion = sign(claims, self.private_key, self.algorithm)
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
        # Servers made with the official Python SDK require the id in the form as well.
        return {"Authorization": basic}, {"client_id": self.client_id}


def clean_secret(secret: Any, name: str) -> Optional[str]:
    """Return a client secret without surrounding line breaks, which files and variables may add.

    Args:
        secret: The value that the user has given; None if there is no secret.
        name: The name of the parameter, for error messages.

    Raises:
        TypeError: The secret is not a str.
        ValueError: The secret is empty or has a control character. The message does not quote it.
    """
    if secret is None:
        return None
    if not isinstance(secret, str):
        raise TypeError(f"{name} must be a str, not {type(secret).__name__}")
    found = secret.strip("\r\n")
    if not found or not found.isprintable():
        problem = "has a control character, such as a line break" if found else "is empty"
        raise ValueError(f"{name} {problem}: check the file or variable that it was read from")
    return found


def require_issuer(issuer: Optional[str], name: str) -> None:
    """Check that the issuer of credentials is given.

    Otherwise the credentials would be sent to any authorization server that an MCP server names.

    Args:
        issuer: The value that the user has given.
        name: The name of the parameter for the credentials, for error messages.

    Raises:
        ValueError: The issuer is None.
    """
    if issuer is None:
        raise ValueError(
            f"{name} needs issuer=, the URL of the authorization server that the credentials are "
            "for: without it, any server could obtain them"
        )


def request_token(
    exchange: Exchange,
    target: ProtectedResource,
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
        target: The server that the token is for, and its authorization server.
        credentials: The client's credentials.
        form: The grant: ``grant_type`` and its members.
        scopes: The scopes to request; empty leaves them to the server or to the grant.
        asked: The scopes that were requested for the grant.
        key: The key that the token is bound to; None means a bearer token.
        before: The token that is refreshed; None for other grants. The new token keeps its refresh
            token if the response has none.

    Raises:
        TokenRefused: The server rejected the request, or its response has no usable token.
        AuthorizationError: There was no response.
    """
    url = exchange.checked(target.server.get("token_endpoint"), "the token endpoint")
    headers, proof = credentials.prove(target.server)
    sent = {**form, **proof, "resource": target.resource}
    if scopes:
        sent["scope"] = " ".join(scopes)
    answer = post_form(exchange, url, sent, headers, key)
    access_token = answer.get("access_token")
    if not isinstance(access_token, str) or not _VISIBLE.fullmatch(access_token):
        raise TokenRefused(
            "the response of the token endpoint has no usable access_token", is_final=bool(answer)
        )
    expected = "bearer" if key is None else "dpop"
    kind = answer.get("token_type")
    if kind is None and key is None:
        kind = "bearer"
    if not isinstance(kind, str) or kind.lower() != expected:
        raise TokenRefused(
            f"the token endpoint returned a token of type {one_line(kind, 50)}, not {expected}"
        )
    refresh_token = answer.get("refresh_token")
    if not isinstance(refresh_token, str) or not refresh_token:
        refresh_token = None if before is None else before.refresh_token
    asked = (*scopes, *asked) if before is None else before.scopes
    seconds = _lifetime(answer.get("expires_in"))
    return Token(
        access_token,
        target.issuer,
        target.resource,
        credentials.client_id,
        scopes=tuple(dict.fromkeys([*asked, *words(answer.get("scope"))])),
        expires_at=None if seconds is None else time.time() + seconds,
        refresh_token=refresh_token,
        client_secret=credentials.secret,
        client_method=credentials.method,
        proof_key=None if key is None else key.pem,
    )


def refreshed(
    exchange: Exchange, target: ProtectedResource, token: Token, key: Optional[ProofKey]
) -> Token:
    """Return a new token for an old one, with its refresh token.

    See `request_token` for the errors.
    """
    credentials = token.credentials
    form = {"grant_type": "refresh_token", "refresh_token": token.refresh_token or ""}
    return request_token(exchange, target, credentials, form, key=key, before=token)


def _lifetime(seconds: Any) -> Optional[float]:
    """Return the validity of a token in seconds, or None if the server does not say."""
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
    """Send a form to a token endpoint. If the server requires a nonce, send it once more with it.

    Returns:
        The JSON object of a successful response; empty if there is none.

    Raises:
        TokenRefused: The status is an error, or the response has an OAuth error.
        AuthorizationError: There was no response.
    """
    for is_last in (False, True):
        proof = {} if key is None else {"DPoP": key.proof("POST", url)}
        status, answered, answer = exchange.post(
            url, form, {**headers, **proof}, named=named, seconds=TOKEN_SECONDS
        )
        has_nonce = key is not None and key.note(url, answered)
        if 200 <= status < 300 and not answer.get("error"):
            return answer
        if is_last or not (has_nonce and answer.get("error") == "use_dpop_nonce"):
            break
    secrets = [form[name] for name in form if name not in PUBLIC and form[name]]
    for name, value in headers.items():
        secrets += header_secrets(name, value)
    text = refusal(status, answer, secrets)
    error = answer.get("error")
    if not isinstance(error, str):
        error = "invalid_client" if status == 401 else ""
    is_final = status < 300 or (400 <= status < 500 and not is_passing(status))
    raise TokenRefused(f"the token endpoint rejected the request: {text}", error, is_final=is_final)
