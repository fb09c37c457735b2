"""What a server does about tokens: `Bearer` asks for them, has them verified, and says where they come from.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import hmac
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union
from urllib.parse import urlsplit

from ..errors import INTERNAL_ERROR, logger, one_line
from ..http.headers import JSON_TYPE, Headers, HttpError, HttpResponse
from ..protocol.uri_template import parse_web_url
from .discovery import RESOURCE_METADATA, canonical, is_loopback, words

log = logger("minimcp.auth")

_CREDENTIALS = re.compile(r"(?i)bearer +([A-Za-z0-9\-._~+/]+=*)")

# Characters of the longest header that is looked at.
LONGEST_TOKEN = 64 * 1024


@dataclass(frozen=True)
class AccessToken:
    """What a token that was verified says; ``ctx.auth`` in a handler. The token itself is not in it: it goes nowhere.

    Args:
        subject: Whom it stands for.
        client_id: The program that it was given to.
        scopes: What it is good for, with those that a broader one includes.
        audience: The servers that it is for.
        expires_at: When it ends, in seconds since 1970; None where it does not.
        issuer: The authorization server that gave it; empty where that is not known.
        claims: All that it says.
    """

    subject: str = ""
    client_id: str = ""
    scopes: frozenset[str] = frozenset()
    audience: tuple[str, ...] = ()
    expires_at: Optional[float] = None
    issuer: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def principal(self) -> str:
        """Who asks, as one text: what a client has begun is gone on with by the same one only."""
        return json.dumps([self.issuer, self.client_id, self.subject])

    @classmethod
    def of(cls, claims: Mapping[str, Any]) -> AccessToken:
        """From claims, named as in a JWT or as here.

        Raises:
            ValueError: One of them is of another type.
        """
        expires = claims.get("exp", claims.get("expires_at"))
        names = [claims.get(short, claims.get(long)) or "" for short, long in (
            ("sub", "subject"), ("client_id", "azp"), ("iss", "issuer")
        )]
        if isinstance(expires, bool) or not isinstance(expires, (int, float, type(None))):
            raise ValueError("exp is a number of seconds since 1970")
        if not all(isinstance(name, str) for name in names):
            raise ValueError("sub, client_id and iss are text")
        scopes, audience = claims.get("scope", claims.get("scopes")), claims.get("aud", claims.get("audience"))
        scopes = scopes if isinstance(scopes, str) else list(scopes or ())
        audience = (audience,) if isinstance(audience, str) else words(list(audience or ()))
        return cls(names[0], names[1], frozenset(words(scopes)), tuple(audience), expires, names[2], dict(claims))


# What a program verifies tokens by: claims, or None for a token that is not valid.
Verify = Callable[[str], Union[AccessToken, Mapping[str, Any], None]]


class Bearer:
    """Lets only requests with a valid bearer token in, over HTTP: ``Server("x", auth=Bearer(...))``. Thread-safe.

    Over stdio and in memory it does nothing: there the environment says who asks. `Server.middleware` is no guard in
    its place, because it runs after a request was admitted.

    Args:
        verify: Gets a token and returns what it says: a mapping of claims named as in a JWT (``sub``, ``client_id``,
            ``scope``, ``exp``, ``aud``, ``iss``) or an `AccessToken`; None for one that is not valid. It is called on
            a worker thread for each request. What it raises is answered with 503.
        resource: The URL of this server as clients know it: a token has to name it in its audience.
        authorization_servers: URLs of those that give tokens for it, as their metadata names them (the issuer).
        scopes: Those that every request needs.

    Raises:
        ValueError: A URL cannot be what it is, or there is no authorization server.
        TypeError: ``verify`` cannot be called, or a list is none.
    """

    def __init__(
        self, *, verify: Verify, resource: str, authorization_servers: Sequence[str], scopes: Sequence[str] = (),
    ) -> None:
        for name, given in (("authorization_servers", authorization_servers), ("scopes", scopes)):
            if isinstance(given, str) or not all(isinstance(each, str) for each in given):
                raise TypeError(f"{name} is a list of str")
        if not callable(verify):
            raise TypeError(f"verify is a function, not {type(verify).__name__}")
        if not authorization_servers:
            raise ValueError("authorization_servers names one at least, or clients do not know where to get a token")
        for url in (resource, *authorization_servers):
            parts = parse_web_url(url)
            if "#" in url or not (parts.scheme == "https" or is_loopback(parts.host)):
                raise ValueError(f"a URL with https (http on this machine only) and no fragment, not {url!r:.100}")
        self.resource: Optional[str] = resource
        self._verify, self.scopes, self._servers = verify, tuple(scopes), tuple(authorization_servers)

    @classmethod
    def static(cls, tokens: Union[str, Mapping[str, str]], *, scopes: Iterable[str] = ()) -> Bearer:
        """One token that never changes, or one for each of several callers; for clients that are given it by hand.

        Args:
            tokens: The token, or tokens by the name of who has it (``ctx.auth.subject``).
            scopes: What they are good for.

        Raises:
            ValueError: A token is shorter than 16 characters, or cannot stand in a header.
            TypeError: A token is no str (an environment variable that is not set is None).
        """
        named = {"": tokens} if isinstance(tokens, str) else dict(tokens or {})
        for token in named.values():
            if not isinstance(token, str):
                raise TypeError(f"a token is a str, not {type(token).__name__}")
            if len(token) < 16 or not _CREDENTIALS.fullmatch(f"Bearer {token}"):
                raise ValueError("a token has 16 characters or more, of letters, digits and -._~+/")
        if not named:
            raise TypeError("there is no token: give a str, or a mapping of names to tokens")
        granted = frozenset(scopes)

        def verify(given: str) -> Optional[AccessToken]:
            found = None
            for name, token in named.items():  # all of them: the time tells nothing
                if hmac.compare_digest(token.encode(), given.encode()):
                    found = AccessToken(name, scopes=granted)
            return found

        bearer = cls.__new__(cls)
        bearer.resource, bearer._verify, bearer.scopes, bearer._servers = None, verify, (), ()
        return bearer

    @classmethod
    def jwt(
        cls, *, resource: str, issuer: str, scopes: Sequence[str] = (), jwks_url: Optional[str] = None,
        algorithms: Sequence[str] = ("RS256", "ES256"),
    ) -> Bearer:
        """Tokens that are JWTs, checked by the public keys of who signs them; needs PyJWT[crypto] and requests.

        Args:
            resource: As `Bearer`; the claim ``aud`` has to name it.
            issuer: The authorization server; the claim ``iss`` has to name it.
            scopes: As `Bearer`.
            jwks_url: Where its keys are; None asks its metadata.
            algorithms: By which tokens may be signed.

        Raises:
            ImportError: There is no PyJWT[crypto], or no requests.
            ValueError: As `Bearer`.
        """
        from .verifiers import JwtVerifier

        verify = JwtVerifier(resource, issuer, jwks_url, algorithms)
        return cls(verify=verify, resource=resource, authorization_servers=[issuer], scopes=scopes)

    @classmethod
    def introspection(
        cls, *, resource: str, issuer: str, client_id: str, client_secret: str, scopes: Sequence[str] = (),
        url: Optional[str] = None,
    ) -> Bearer:
        """Tokens that the authorization server is asked about, for each request (RFC 7662); needs requests.

        Args:
            resource: As `Bearer`; the answer has to name it in ``aud``.
            issuer: The authorization server.
            client_id, client_secret: As whom it is asked.
            scopes: As `Bearer`.
            url: Of its introspection endpoint; None asks its metadata.

        Raises:
            ImportError: There is no requests.
            ValueError: As `Bearer`.
        """
        from .verifiers import Introspection

        verify = Introspection(issuer, client_id, client_secret, url)
        return cls(verify=verify, resource=resource, authorization_servers=[issuer], scopes=scopes)

    def __repr__(self) -> str:
        return f"Bearer({self.resource or 'static'})"

    # ------------------------------------------------------------ for the HTTP server

    def check(self, headers: Headers) -> str:
        """The token in the headers of a request. Never blocks. Raises HttpError: there is none, or more than one."""
        given = headers.all("Authorization")
        if len(given) > 1 or len("".join(given)) > LONGEST_TOKEN:
            raise self._refusal(400, "a request has one Authorization header, and a short one", "invalid_request")
        scheme = given[0].partition(" ")[0].lower() if given else ""
        if scheme != "bearer":
            raise self._refusal(401, "this server wants a bearer token")
        found = _CREDENTIALS.fullmatch(given[0])
        if found is None:
            raise self._refusal(400, "what follows Bearer is no token", "invalid_request")
        return found[1]

    def verify(self, headers: Headers) -> AccessToken:
        """What the token of a request says.

        Raises:
            HttpError: It is not valid here, or not for what every request needs.
        """
        try:
            found = self._verify(self.check(headers))
            token = AccessToken.of(found) if isinstance(found, Mapping) else found
        except HttpError:
            raise
        except Exception as error:
            log.error("a token could not be verified: %s", type(error).__name__, exc_info=error)
            raise HttpError(503, "the token cannot be verified now", code=INTERNAL_ERROR) from None
        if not isinstance(token, (AccessToken, type(None))):
            log.error("verify returns claims or None, not %s", type(token).__name__)
            raise HttpError(503, "the token cannot be verified now", code=INTERNAL_ERROR)
        if token is None:
            raise self._refusal(401, "the token is not valid", "invalid_token")
        if token.expires_at is not None and not token.expires_at > time.time():
            raise self._refusal(401, "the token has expired", "invalid_token")
        if self.resource is not None and canonical(self.resource) not in map(_canonical, token.audience):
            raise self._refusal(401, "the token is not for this server", "invalid_token")
        self.require(token, ())
        return token

    def require(self, token: AccessToken, scopes: Sequence[str]) -> None:
        """Return if a token is good for these scopes. Raises HttpError: it is not."""
        wanted = (*self.scopes, *scopes)
        if not token.scopes.issuperset(wanted):
            raise self._refusal(403, f"this needs a token for: {' '.join(wanted)}", "insufficient_scope", wanted)

    def _refusal(
        self, status: int, words: str, error: Optional[str] = None, scopes: Optional[Sequence[str]] = None
    ) -> HttpError:
        scopes = self.scopes if scopes is None else scopes
        parameters = {} if error is None else {"error": error, "error_description": words}
        if scopes:
            parameters["scope"] = " ".join(dict.fromkeys(scopes))
        if self.resource is not None:
            parameters["resource_metadata"] = self.metadata_url
        told = ", ".join([f'{name}="{value}"' for name, value in parameters.items()])
        return HttpError(status, words, (("WWW-Authenticate", f"Bearer {told}".strip()),))

    @property
    def metadata_url(self) -> str:
        """Where the metadata of this server is, for clients."""
        parts = urlsplit(self.resource or "")
        return f"{parts.scheme}://{parts.netloc}{RESOURCE_METADATA}{parts.path.rstrip('/')}"

    def metadata(self, path: str, at: str, name: str, scopes: Iterable[str]) -> Optional[HttpResponse]:
        """The document about this server, which anybody may read; None for a path that has none.

        Args:
            path: That was asked for.
            at: Where the server is.
            name: Of the server.
            scopes: Those of single tools.
        """
        if self.resource is None or not path.startswith(RESOURCE_METADATA):
            return None
        if path[len(RESOURCE_METADATA):] not in ("", "/", at, urlsplit(self.resource).path):
            return None
        document = {
            "resource": self.resource, "authorization_servers": list(self._servers),
            "bearer_methods_supported": ["header"], "resource_name": name,
        }
        supported = sorted({*self.scopes, *scopes} - {"offline_access"})
        if supported:
            document["scopes_supported"] = supported
        headers = [("Content-Type", JSON_TYPE), ("Access-Control-Allow-Origin", "*")]
        return HttpResponse(200, headers, json.dumps(document).encode())


def _canonical(url: str) -> str:
    try:
        return canonical(url)
    except ValueError:  # it is none
        return one_line(url)
