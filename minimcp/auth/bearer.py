"""Authorization, the server's side: `Bearer` decides who may send requests, and says where tokens
come from.

Every request over HTTP brings a token, which is verified before anything else is done; a session
belongs to who has opened it. The token itself is kept nowhere, and is handed to nobody but the
function that verifies it.
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
    list_of_text,
)

log = logger("minimcp.auth")

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


@dataclass(frozen=True)
class AccessToken:
    """What is known by a token that was verified: ``ctx.auth``. Never the token itself. Immutable.

    ``subject`` is whom it speaks for, and ``client_id`` the program that it was issued to; None
    where the verifier says nothing. ``scopes`` is what it allows. ``expires_at`` is in seconds
    since 1970, None for never. ``audience`` names the servers that it is for, ``issuer`` who has
    issued it. ``claims`` is all that the verifier said.
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
        """What claims say, by the names that JWTs and introspection have for them.

        Args:
            claims: Of these names are read: sub, client_id (or azp), scope (or scp), exp, aud and
                iss.
            token: Tells apart who has neither a subject nor a client id.

        Raises:
            TypeError: A claim is of another type.
        """
        subject, client, issuer = (
            claims.get("sub"),
            claims.get("client_id", claims.get("azp")),
            claims.get("iss"),
        )
        for name, value in (("sub", subject), ("client_id", client), ("iss", issuer)):
            if not isinstance(value, (str, type(None))):
                raise TypeError(f"the claim {name} is no text")
        expires, audience = claims.get("exp"), claims.get("aud") or ()
        if type(expires) not in (int, float, type(None)):
            raise TypeError("the claim exp is no number")
        scopes = claims.get("scope", claims.get("scp")) or ()
        scopes = list_of_text(
            scopes.split() if isinstance(scopes, str) else scopes, "the claim scope"
        )
        audience = list_of_text(
            [audience] if isinstance(audience, str) else audience, "the claim aud"
        )
        who = (
            [issuer, client, subject] if client or subject else [sha256(token.encode()).hexdigest()]
        )
        return cls(
            subject,
            client,
            frozenset(scopes),
            expires,
            tuple(audience),
            issuer,
            claims,
            json.dumps(who),
        )


class Bearer:
    """Who may send requests over HTTP: ``Server("x", auth=Bearer(...))``. Thread-safe, if
    ``verify`` is.

    `Bearer.static` takes fixed tokens, `Bearer.jwt` signed ones, and `Bearer.introspection` asks
    their issuer. Over stdio nothing of this holds: there the environment has the credentials. Where
    a WSGI host serves `Server.wsgi` below a prefix, it has to serve
    ``/.well-known/oauth-protected-resource`` and what is below by the same application.

    Args:
        verify: Given the token of each request, returns the claims, by the names that JWTs have for
            them: ``sub`` (whom it speaks for), ``client_id``, ``scope`` (a text with blanks, or a
            list), ``exp`` (seconds since 1970), ``aud`` (whom it is for; required) and ``iss``.
            None refuses the token. It is called by many threads at the same time, and may block.
            What it raises is logged, and answered with status 500; `IssuerUnavailable` with 503.
        resource: The URL that clients know this server by, as ``"https://example.com/mcp"``; None
            together with ``authorization_servers`` publishes no metadata, for tokens that clients
            get in another way.
        authorization_servers: Who issues tokens: URLs, as clients find their metadata by them.
        scopes: What every request needs, beside the ``scopes`` of a tool.
        audience: Of which a token has to name one; None takes the resource.
        implies: Scopes that include others, as ``{"admin": ["read", "write"]}``; None are none.
        scopes_supported: The scopes that the published metadata lists, for clients that register
            before they know what they need. None lists ``scopes`` and those of all tools. The
            challenge of a request without a token names ``scopes`` only; if that is empty, clients
            ask for the whole list at their first sign-in.

    Raises:
        TypeError: Something is of another type, or there is neither resource nor audience.
        ValueError: A URL is not https (http on this machine alone), has a fragment, or is none; a
            scope is none.
    """

    # Whether a principal may be many clients, because they all were given one fixed token.
    is_static = False

    def __init__(
        self, verify: Verify, *, resource: Optional[str] = None,
        authorization_servers: Sequence[str] = (),
        scopes: Sequence[str] = (), audience: Union[str, Sequence[str], None] = None,
        implies: Optional[Mapping[str, Sequence[str]]] = None,
        scopes_supported: Optional[Sequence[str]] = None,
    ) -> None:  # fmt: skip
        if not callable(verify):
            raise TypeError(
                "verify is a function from a token to its claims, or None; not "
                f"{type(verify).__name__}"
            )
        servers = list_of_text(authorization_servers, "authorization_servers")
        if (resource is None) is not (not servers):
            raise ValueError(
                "resource and authorization_servers are given together: both, or none of them"
            )
        if resource is None and audience is None:
            raise TypeError(
                "resource is missing: the URL that clients know this server by, which tokens are "
                "for"
            )
        self.scopes = check_scopes(scopes, "scopes")
        self._verify = verify
        self.resource = resource
        said = resource if audience is None else audience
        self._audience = frozenset(
            [said] if isinstance(said, str) else list_of_text(said, "audience")
        )
        if audience is None and resource is not None and urlsplit(resource).path in ("", "/"):
            self._audience |= {
                resource.rstrip("/"),
                resource.rstrip("/") + "/",
            }  # some clients write one for the other
        # What tells servers apart in a store that they share.
        self.audience = tuple(sorted(self._audience))
        self._implies = {
            name: check_scopes(each, "implies") for name, each in (implies or {}).items()
        }
        self._scopes_supported = (
            None if scopes_supported is None else check_scopes(scopes_supported, "scopes_supported")
        )
        self._servers = servers
        # Where the metadata is published: the paths, and the URL.
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
            needed: The scopes that what is offered needs.
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
        scopes_supported: Optional[Sequence[str]] = None,
    ) -> Bearer:  # fmt: skip
        """Fixed tokens, which clients are told in another way; they are compared in constant time.

        Args:
            tokens: The token; or tokens, each with its claims: ``{"kW9...": {"sub": "ada", "scope":
                "read"}}``. Make one by ``secrets.token_urlsafe(32)``, and keep it out of the
                source.
            resource, authorization_servers, scopes, scopes_supported: As of `Bearer`. A token
                without ``scope`` has those of ``scopes``.

        Raises:
            ValueError: A token has other characters than letters, digits and ``-._~+/``, or there
                is none.
            TypeError, ValueError: As of `Bearer`.
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
        """Signed tokens, verified by the issuer's public keys. Needs PyJWT[crypto].

        The audience check is what excludes ID tokens: those name the client in ``aud``, not this
        server. Many issuers sign both kinds with the type "JWT", so ``typ`` cannot tell them apart.

        Args:
            issuer: Who has signed them: a URL, byte for byte as tokens say it in ``iss``.
            keys: The key set: its URL, or the document. None asks the issuer's metadata where it
                is. It is asked for at the first token, after 5 minutes, and for a token that names
                an unknown key; every 10 seconds at most.
            algorithms: By which they may be signed, none of them with a shared secret.
            typ: The accepted values of the header ``typ``, without regard to case and to a leading
                ``application/``. A token without ``typ`` counts as "JWT". ``typ="at+jwt"`` is the
                strict form of RFC 9068.
            authorization_servers: None takes the issuer.
            options: ``resource``, ``scopes``, ``audience``, ``implies`` and ``scopes_supported``,
                as of `Bearer`.

        Raises:
            ImportError: PyJWT[crypto] is not installed.
            TypeError, ValueError: As of `Bearer`; an algorithm is unknown or takes a shared secret;
                or ``typ`` names no type.

        https://www.rfc-editor.org/rfc/rfc9068#section-4
        """
        from .verifiers import KeySet

        servers = [issuer] if authorization_servers is None else authorization_servers
        return cls(
            KeySet(issuer, keys, algorithms, typ).verify, authorization_servers=servers, **options
        )

    @classmethod
    def introspection(cls, url: str, client_id: str, client_secret: str, **options: Any) -> Bearer:
        """Tokens of any form, which their issuer is asked about with each request (RFC 7662).

        Args:
            url: The issuer's introspection endpoint.
            client_id, client_secret: By which this server signs in there (HTTP Basic).
            options: ``resource``, ``authorization_servers``, ``scopes``, ``audience``, ``implies``
                and ``scopes_supported``, as of `Bearer`.

        Raises:
            TypeError, ValueError: As of `Bearer`.
        """
        from .verifiers import introspected

        return cls(introspected(url, client_id, client_secret), **options)

    # ------------------------------------------------------------ for the HTTP server

    def token_in(self, headers: Headers) -> str:
        """The token of a request. Never blocks. Raises HttpError: there is none, or not one that
        can be read."""
        values = headers.all("Authorization")
        scheme, _, token = values[0].partition(" ") if values else ("", "", "")
        if scheme.lower() != "bearer":
            raise self._refusal(
                401, "a token is needed: the header Authorization says Bearer and the token"
            )
        token = token.strip(" ")
        if len(values) > 1 or not _TOKEN.fullmatch(token):
            raise self._refusal(
                400, "the header Authorization is not Bearer and one token", "invalid_request"
            )
        return token

    def admit(self, headers: Headers) -> AccessToken:
        """Verify the token of a request. Blocks: as the verifier does. Raises HttpError: it is
        refused."""
        token = self.token_in(headers)
        try:
            claims = self._verify(token)
            found = None if claims is None else AccessToken.of(claims, token)
        except WrongType as error:
            raise self._refusal(401, str(error), "invalid_token") from None
        except IssuerUnavailable:  # logged by the one request that has asked the issuer
            reason = "tokens cannot be verified now: try again"
            raise HttpError(503, reason, code=INTERNAL_ERROR) from None
        except Exception as error:
            told = describe(error).replace(token, "<token>")
            log.error("a token cannot be verified: %s: %s", type(error).__name__, told)
            raise HttpError(500, "the token cannot be verified now", code=INTERNAL_ERROR) from None
        reason = ""
        if found is None:
            reason = "the token is not valid"
        elif not self._audience.intersection(found.audience):
            reason = "the token is for another server"
        elif claims is not None and claims.get("cnf") is not None:
            # with the scheme Bearer, nobody proves to have that key (RFC 9449, 7.1; RFC 8705, 3)
            reason = "the token is bound to a key, and this server does not verify that"
        elif found.expires_at is not None and time.time() >= found.expires_at:
            reason = "the token has expired"
        if found is None or reason:
            raise self._refusal(401, reason, "invalid_token")
        more = found.scopes.union(*(self._implies.get(name, ()) for name in found.scopes))
        found = replace(found, scopes=more)
        if not found.scopes.issuperset(self.scopes):
            raise self.insufficient()
        return found

    def insufficient(self, scopes: Iterable[str] = (), id: Optional[Id] = None) -> HttpError:
        """The refusal of a request whose token lacks a scope.

        Args:
            scopes: What it needs beside what every request needs.
            id: Of the request.
        """
        return self._refusal(403, "the token lacks a scope", "insufficient_scope", scopes, id)

    def _refusal(
        self,
        status: int,
        reason: str,
        error: str = "",
        scopes: Iterable[str] = (),
        id: Optional[Id] = None,
    ) -> HttpError:
        wanted = " ".join(dict.fromkeys((*self.scopes, *scopes)))
        said = {
            "error": error, "error_description": reason if error else "", "scope": wanted,
            "resource_metadata": self._metadata_url,
        }  # fmt: skip
        parts = [f'{name}="{value}"' for name, value in said.items() if value] or ['realm="mcp"']
        challenge = "Bearer " + ", ".join(parts)
        return HttpError(status, reason, (("WWW-Authenticate", challenge),), id=id)

    def __repr__(self) -> str:
        return f"<Bearer {self.resource or ''} {' '.join(self.scopes)}>"


for _name in ("jwt", "introspection"):
    keywords_shown(vars(Bearer)[_name].__func__, of=Bearer.__init__)


def check_scopes(given: Any, name: str) -> tuple[str, ...]:
    """Scopes that an author gave.

    Raises:
        TypeError: They are no list of texts.
        ValueError: One of them is none, or is for clients alone.
    """
    found = tuple(list_of_text(given, name))
    for each in found:
        if not _SCOPE.fullmatch(each):
            raise ValueError(f"{name}: a scope has neither blanks nor quotes, unlike {each!r:.60}")
        if each == "offline_access":
            raise ValueError(
                f"{name}: offline_access is between a client and its authorization server"
            )
    return found
