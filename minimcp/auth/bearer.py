"""Authorization of a server. `Bearer` verifies the token of each request and publishes where
clients get tokens.

Every request over HTTP has a token, which is verified before the request is read any further. A
session can be used only by the principal that opened it. The token itself is not stored, and only
the function that verifies it receives it.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
https://www.rfc-editor.org/rfc/rfc6750  https://www.rfc-editor.org/rfc/rfc9728
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from ..errors import INTERNAL_ERROR
from ..http.headers import Headers, HttpError
from ..log import logger
from ..protocol.messages import Id, Json
from ..schema.mismatch import keywords_shown
from ..text import describe
from .shared import (
    ALGORITHMS,
    RESOURCE_METADATA,
    IssuerUnavailable,
    Verify,
    WrongType,
    check_url,
    list_of_str,
)

log = logger("minimcp.auth")

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True)
class AccessToken:
    """The claims of a verified token: ``ctx.auth``. It does not have the token itself. Immutable.

    Attributes:
        subject: The user or program that the token was issued for; None if the claims do not say.
        client_id: The client that the token was issued to; None if the claims do not say.
        scopes: The scopes that the token grants.
        expires_at: Seconds since 1970; None if the token does not expire.
        audience: The servers that the token is for.
        issuer: The authorization server that issued the token; None if the claims do not say.
        claims: All claims that the verifier returned.
        principal: A str that is equal for tokens of the same issuer, client and subject.
    """

    subject: Optional[str]
    client_id: Optional[str]
    scopes: frozenset[str]
    expires_at: Optional[float]
    audience: tuple[str, ...]
    issuer: Optional[str]
    claims: Mapping[str, Json] = field(repr=False, hash=False)
    principal: str = field(repr=False)

    @classmethod
    def of(cls, claims: Mapping[str, Json], token: str = "") -> AccessToken:
        """Return the access token that claims describe.

        Args:
            claims: Claims with the names of JWTs and introspection. These are used: sub, client_id
                (or azp), scope (or scp), exp, aud and iss.
            token: The token. Its hash is the principal if there is neither a subject nor a client
                id.

        Raises:
            TypeError: A claim has the wrong type.
        """
        subject = claims.get("sub")
        client = claims.get("client_id", claims.get("azp"))
        issuer = claims.get("iss")
        for name, value in (("sub", subject), ("client_id", client), ("iss", issuer)):
            if not isinstance(value, (str, type(None))):
                raise TypeError(f"the claim {name} must be a str")
        expires_at = claims.get("exp")
        if type(expires_at) not in (int, float, type(None)):
            raise TypeError("the claim exp must be a number")
        scopes = claims.get("scope", claims.get("scp")) or ()
        if isinstance(scopes, str):
            scopes = scopes.split()
        audience = claims.get("aud") or ()
        if isinstance(audience, str):
            audience = [audience]
        principal = [issuer, client, subject]
        if not client and not subject:
            principal = [sha256(token.encode()).hexdigest()]
        return cls(
            subject,
            client,
            frozenset(list_of_str(scopes, "the claim scope")),
            expires_at,
            tuple(list_of_str(audience, "the claim aud")),
            issuer,
            claims,
            json.dumps(principal),
        )


class Bearer:
    """The tokens that a server accepts over HTTP: ``Server("x", auth=Bearer(...))``.

    `Bearer.static` accepts fixed tokens, `Bearer.jwt` signed ones, and `Bearer.introspection` asks
    their issuer. It does not apply to stdio, where credentials come from the environment. If a WSGI
    host serves `Server.wsgi` below a prefix, it must also route
    ``/.well-known/oauth-protected-resource``, and the paths below, to the same application.

    Thread-safe if ``verify`` is.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization

    Args:
        verify: A function that gets the token of each request and returns its claims, with the
            names of JWTs: ``sub``, ``client_id``, ``scope`` (a str with blanks, or a list), ``exp``
            (seconds since 1970), ``aud`` (required) and ``iss``. If it returns None, the token is
            rejected. Many threads call it at the same time, and it may block. Exceptions are
            logged; the response has status 500, or 503 for `IssuerUnavailable`.
        resource: The URL that clients use for this server, such as ``"https://example.com/mcp"``.
            None, together with no ``authorization_servers``, publishes no metadata; clients then
            get tokens in another way.
        authorization_servers: URLs of the issuers, from which clients derive their metadata URLs.
        scopes: Scopes that every request needs, in addition to those of a tool.
        audience: One or several values, one of which a token's ``aud`` must have; None means the
            resource.
        implies: Scopes that include others, as ``{"admin": ["read", "write"]}``; None means that no
            scope does.
        scopes_supported: The scopes in the published metadata, for clients that register before
            they know what they need. None means ``scopes`` and the fixed scopes of everything that
            all callers may see, never computed ones. The challenge for a request without a token
            names only ``scopes``; if that is empty, clients request the whole list at their first
            sign-in.
        optional: Whether to serve a request without a token. Then ``ctx.auth`` is None, and
            ``scopes`` does not apply. Everything with its own scopes answers with status 401. A
            token that is not valid is still rejected.

    Raises:
        TypeError: An argument has the wrong type, or there is neither a resource nor an audience.
        ValueError: A URL is not https (or http on this machine) or has a fragment; or a scope is
            invalid.
    """

    # True if many clients may have the same principal, because they share one fixed token.
    is_static = False

    def __init__(
        self, verify: Verify, *, resource: Optional[str] = None,
        authorization_servers: Sequence[str] = (),
        scopes: Sequence[str] = (), audience: Union[str, Sequence[str], None] = None,
        implies: Optional[Mapping[str, Sequence[str]]] = None,
        scopes_supported: Optional[Sequence[str]] = None, optional: bool = False,
    ) -> None:  # fmt: skip
        if not callable(verify):
            raise TypeError(
                "verify must be a function that returns the claims of a token, or None; not "
                f"{type(verify).__name__}"
            )
        servers = list_of_str(authorization_servers, "authorization_servers")
        if (resource is None) is not (not servers):
            raise ValueError(
                "resource and authorization_servers belong together: write both or neither"
            )
        if resource is None and audience is None:
            raise TypeError(
                "resource is missing: write the URL that clients use for this server, which is "
                "the audience of tokens"
            )
        if not isinstance(optional, bool):
            raise TypeError(f"optional must be True or False, not {optional!r:.60}")
        self.scopes = check_scopes(scopes, "scopes")
        self.optional = optional
        self._verify = verify
        self.resource = resource
        accepted = resource if audience is None else audience
        if isinstance(accepted, str):
            accepted = [accepted]
        self._audience = frozenset(list_of_str(accepted, "audience"))
        if audience is None and resource is not None and urlsplit(resource).path in ("", "/"):
            # Some clients add a final slash to a URL without a path, and some remove it.
            self._audience |= {resource.rstrip("/"), resource.rstrip("/") + "/"}
        # Distinguishes servers in a store that they share.
        self.audience = tuple(sorted(self._audience))
        self._implies = {
            name: check_scopes(each, "implies") for name, each in (implies or {}).items()
        }
        self._scopes_supported: Optional[tuple[str, ...]] = None
        if scopes_supported is not None:
            self._scopes_supported = check_scopes(scopes_supported, "scopes_supported")
        self._servers = servers
        # The paths and the URL of the published metadata.
        self.metadata_paths: tuple[str, ...] = ()
        self._metadata_url = ""
        if resource is not None:
            for url in (resource, *servers):
                check_url(url)
            parts = urlsplit(resource)
            path = RESOURCE_METADATA + (parts.path if parts.path != "/" else "")
            query = f"?{parts.query}" if parts.query else ""
            self.metadata_paths = (RESOURCE_METADATA, path)
            self._metadata_url = f"{parts.scheme}://{parts.netloc}{path}{query}"

    def metadata(self, needed: Iterable[str]) -> bytes:
        """Return the metadata of the protected resource (RFC 9728), as JSON.

        Args:
            needed: The scopes that the server's features need.
        """
        scopes: Iterable[str] = (*self.scopes, *needed)
        if self._scopes_supported is not None:
            scopes = self._scopes_supported
        document = {
            "resource": self.resource,
            "authorization_servers": self._servers,
            "bearer_methods_supported": ["header"],
            "scopes_supported": list(dict.fromkeys(scopes)),
        }
        if not document["scopes_supported"]:
            del document["scopes_supported"]
        return json.dumps(document).encode()

    @classmethod
    def static(
        cls, tokens: Union[str, Mapping[str, Mapping[str, Json]]], *,
        resource: Optional[str] = None,
        authorization_servers: Sequence[str] = (), scopes: Sequence[str] = (),
        scopes_supported: Optional[Sequence[str]] = None, optional: bool = False,
    ) -> Bearer:  # fmt: skip
        """Accept fixed tokens, which are compared in constant time.

        You have to give the tokens to the clients yourself.

        Args:
            tokens: The token; or several, each with its claims: ``{"kW9...": {"sub": "ada",
                "scope": "read"}}``. Create one with ``secrets.token_urlsafe(32)``, and do not write
                it into the source.
            resource, authorization_servers, scopes, scopes_supported, optional: See `Bearer`. A
                token without ``scope`` has those of ``scopes``.

        Raises:
            ValueError: There is no token, or one has characters other than letters, digits and
                ``-._~+/``.
            TypeError, ValueError: See `Bearer`.
        """
        from .verifiers import fixed

        audience = resource or "static"
        bearer = cls(
            fixed(tokens, {"aud": audience, "scope": list(scopes)}),
            resource=resource,
            audience=audience,
            authorization_servers=authorization_servers,
            scopes=scopes,
            scopes_supported=scopes_supported,
            optional=optional,
        )
        bearer.is_static = True
        return bearer

    @classmethod
    def jwt(
        cls,
        issuer: str,
        *,
        keys: Union[str, Mapping[str, Json], None] = None,
        algorithms: Sequence[str] = ALGORITHMS,
        typ: Union[str, Sequence[str]] = ("at+jwt", "JWT"),
        authorization_servers: Optional[Sequence[str]] = None,
        **options: Any,
    ) -> Bearer:
        """Accept signed tokens (JWTs), verified with the issuer's public keys. Needs PyJWT[crypto].

        ID tokens are rejected by their audience: their ``aud`` names the client, not this server.
        Many issuers sign both kinds with the type "JWT", so ``typ`` does not distinguish them.

        Args:
            issuer: The URL of the issuer, exactly as in the ``iss`` of its tokens.
            keys: The key set: its URL or the document. None means the URL in the issuer's metadata.
                The keys are fetched for the first token, again after 5 minutes, and for a token
                with an unknown key; at most every 10 seconds.
            algorithms: The accepted signature algorithms. Algorithms with a shared secret are not
                possible.
            typ: The accepted values of the header ``typ``, ignoring case and a leading
                ``application/``. A token without ``typ`` counts as "JWT". ``typ="at+jwt"`` is the
                strict form of RFC 9068.
            authorization_servers: See `Bearer`; None means the issuer.
            options: ``resource``, ``scopes``, ``audience``, ``implies``, ``scopes_supported`` and
                ``optional`` of `Bearer`.

        Raises:
            ImportError: PyJWT[crypto] is not installed.
            TypeError, ValueError: See `Bearer`; an algorithm is unknown or has a shared secret; or
                ``typ`` is invalid.

        https://www.rfc-editor.org/rfc/rfc9068#section-4
        """
        from .verifiers import KeySet

        servers = [issuer] if authorization_servers is None else authorization_servers
        return cls(
            KeySet(issuer, keys, algorithms, typ).verify, authorization_servers=servers, **options
        )

    @classmethod
    def introspection(cls, url: str, client_id: str, client_secret: str, **options: Any) -> Bearer:
        """Accept tokens of any form, and ask their issuer about each one (RFC 7662).

        Args:
            url: The issuer's introspection endpoint.
            client_id, client_secret: The credentials of this server there (HTTP Basic).
            options: ``resource``, ``authorization_servers``, ``scopes``, ``audience``, ``implies``,
                ``scopes_supported`` and ``optional`` of `Bearer`.

        Raises:
            TypeError, ValueError: See `Bearer`.
        """
        from .verifiers import introspected

        return cls(introspected(url, client_id, client_secret), **options)

    # ------------------------------------------------------------ for the HTTP server

    def token_in(self, headers: Headers) -> Optional[str]:
        """Return the token of a request. None if it has none and does not need one. Never blocks.

        Raises:
            HttpError: There is no token, or the header is invalid.
        """
        values = headers.all("Authorization")
        if self.optional and not values:
            return None
        scheme, _, token = values[0].partition(" ") if values else ("", "", "")
        if scheme.lower() != "bearer":
            raise self._refusal(
                401, "a token is required: send the header 'Authorization: Bearer TOKEN'"
            )
        token = token.strip(" ")
        if len(values) > 1 or not _TOKEN.fullmatch(token):
            raise self._refusal(
                400,
                "the header Authorization must contain 'Bearer' and one token",
                "invalid_request",
            )
        return token

    def authenticate(self, headers: Headers) -> Optional[AccessToken]:
        """Verify the token of a request and return its claims. Blocks while the verifier does.

        Return None if the request has no token and does not need one.

        Raises:
            HttpError: The token is missing or rejected, or cannot be verified now.
        """
        token = self.token_in(headers)
        if token is None:
            return None
        try:
            claims = self._verify(token)
            found = None if claims is None else AccessToken.of(claims, token)
        except WrongType as error:
            raise self._refusal(401, str(error), "invalid_token") from None
        except IssuerUnavailable:  # logged by the request that asked the issuer
            reason = "tokens cannot be verified now: try again"
            raise HttpError(503, reason, code=INTERNAL_ERROR) from None
        except Exception as error:
            reason = describe(error).replace(token, "<token>")
            log.error("a token cannot be verified: %s: %s", type(error).__name__, reason)
            raise HttpError(500, "the token cannot be verified now", code=INTERNAL_ERROR) from None
        reason = ""
        if found is None:
            reason = "the token is not valid"
        elif not self._audience.intersection(found.audience):
            reason = "the token is for another server"
        elif claims is not None and claims.get("cnf") is not None:
            # With the scheme Bearer, the client does not prove that it has the key (RFC 9449, 7.1;
            # RFC 8705, 3).
            reason = "the token is bound to a key, which this server does not verify"
        elif found.expires_at is not None and time.time() >= found.expires_at:
            reason = "the token has expired"
        if found is None or reason:
            raise self._refusal(401, reason, "invalid_token")
        scopes = found.scopes.union(*(self._implies.get(name, ()) for name in found.scopes))
        found = replace(found, scopes=scopes)
        if not found.scopes.issuperset(self.scopes):
            raise self.insufficient()
        return found

    def insufficient(
        self, scopes: Iterable[str] = (), id: Optional[Id] = None, *, is_anonymous: bool = False
    ) -> HttpError:
        """Return the error for a request whose token lacks a scope.

        Args:
            scopes: The scopes that it needs in addition to those of every request.
            id: The id of the request; None if it is not known.
            is_anonymous: Whether the request has no token.
        """
        if is_anonymous:
            return self._refusal(401, "a token is required for this request", "", scopes, id)
        return self._refusal(403, "the token lacks a scope", "insufficient_scope", scopes, id)

    def _refusal(
        self,
        status: int,
        reason: str,
        error: str = "",
        scopes: Iterable[str] = (),
        id: Optional[Id] = None,
    ) -> HttpError:
        parameters = {
            "error": error,
            "error_description": reason if error else "",
            "scope": " ".join(dict.fromkeys((*self.scopes, *scopes))),
            "resource_metadata": self._metadata_url,
        }
        parts = [f'{name}="{value}"' for name, value in parameters.items() if value]
        parts = parts or ['realm="mcp"']
        challenge = "Bearer " + ", ".join(parts)
        return HttpError(status, reason, (("WWW-Authenticate", challenge),), id=id)

    def __repr__(self) -> str:
        return f"<Bearer {self.resource or ''} {' '.join(self.scopes)}>"


for _name in ("jwt", "introspection"):
    keywords_shown(vars(Bearer)[_name].__func__, of=Bearer.__init__)


def check_scopes(given: Any, name: str) -> tuple[str, ...]:
    """Return the scopes that an author has given as a tuple.

    Raises:
        TypeError: The value is not a list of str.
        ValueError: One of them is not a scope, or is a scope that only clients use.
    """
    scopes = tuple(list_of_str(given, name))
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise ValueError(
                f"{name}: a scope must not contain spaces or quotes, unlike {scope!r:.60}"
            )
        if scope == "offline_access":
            raise ValueError(
                f"{name}: remove offline_access, which concerns only a client and "
                "its authorization server"
            )
    return scopes
