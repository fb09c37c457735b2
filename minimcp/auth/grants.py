"""Tokens for programs, without a person: client credentials, enterprise-managed authorization,
workload identity.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence, Union

from ..errors import AuthorizationError
from .authorizer import Grant
from .discovery import Exchange, Place
from .dpop import ProofKey
from .shared import check_url
from .store import TokenMemory, TokenStore
from .tokens import Credentials, Token, clean_secret, post_form, request_token, require_issuer

Assertion = Union[str, Callable[[], str]]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN, ID_JAG = (f"urn:ietf:params:oauth:token-type:{kind}" for kind in ("id_token", "id-jag"))


class ClientCredentials(Grant):
    """A program signs in as itself, by the grant ``client_credentials``; for ``connect(auth=)``.
    Thread-safe.

    Args:
        client_id: Of the client, as its operator has registered it.
        client_secret: Its secret; None where it has a key.
        private_key: Its private key in PEM, by which it signs (``private_key_jwt``; needs
            PyJWT[crypto]); None where it has a secret.
        algorithm: By which it signs.
        scopes: What to ask for beside what the server names.
        issuer: URL of the authorization server that issued the credentials. It is required: they
            are sent to no other one, whatever the MCP server says.
        store: Where tokens are kept; None keeps them in memory.

    Raises:
        ValueError: There is neither a secret nor a key, or both; or there is no issuer, or it is
            not an https URL (or http on this machine); or the secret is empty or has a line end.
        TypeError: ``scopes`` is no sequence of str, or the secret is not a str.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: Optional[str] = None,
        *,
        private_key: Optional[str] = None,
        algorithm: str = "ES256",
        scopes: Sequence[str] = (),
        issuer: Optional[str] = None,
        store: Optional[TokenStore] = None,
    ) -> None:
        if (client_secret is None) == (private_key is None):
            raise ValueError("a client has a client_secret or a private_key")
        require_issuer(issuer, "client_secret" if private_key is None else "private_key")
        super().__init__(TokenMemory() if store is None else store, scopes, issuer)
        secret = clean_secret(client_secret, "client_secret")
        self._credentials = Credentials(client_id, secret, private_key, algorithm)

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """As `Grant`."""
        form = {"grant_type": "client_credentials"}
        return request_token(exchange, place, self._credentials, form, scopes=scopes, key=key)


class WorkloadIdentity(Grant):
    """A program signs in by a JWT that its platform gives it, by the grant ``jwt-bearer``; for
    ``connect(auth=)``.

    Args:
        assertion: The JWT, or a function that returns one (read from a file that the platform
            renews, for example).
        client_id: Of the client, as its operator has registered it; None sends none.
        scopes, issuer, store: As `ClientCredentials`; the issuer is required, too.

    Raises:
        ValueError: There is no issuer, or it is not an https URL (or http on this machine).
        TypeError: ``scopes`` is not a sequence of str.
    """

    def __init__(
        self,
        assertion: Assertion,
        client_id: Optional[str] = None,
        *,
        scopes: Sequence[str] = (),
        issuer: Optional[str] = None,
        store: Optional[TokenStore] = None,
    ) -> None:
        require_issuer(issuer, "assertion")
        super().__init__(TokenMemory() if store is None else store, scopes, issuer)
        self._assertion = assertion
        self._credentials = Credentials(client_id or "")

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """As `Grant`."""
        form = {"grant_type": JWT_BEARER, "assertion": read(self._assertion)}
        return request_token(exchange, place, self._credentials, form, scopes=scopes, key=key)


class EnterpriseManaged(Grant):
    """A person who is signed in at their company signs in to a server with that; for
    ``connect(auth=)``.

    The company's identity provider exchanges the ID token for a grant (ID-JAG), which the server's
    authorization server exchanges for a token.

    Args:
        client_id, client_secret: At the server's authorization server; the secret is None where
            there is none.
        id_token: That the identity provider gave for the person, or a function that returns it.
        idp_token_endpoint: URL of the identity provider's token endpoint.
        idp_client_id, idp_client_secret: There; the secret is None where there is none.
        scopes, issuer, store: As `ClientCredentials`; the issuer, which is the server's
            authorization server and not the identity provider, is required, too.

    Raises:
        ValueError: There is no issuer, a URL is not https (or http on this machine), or a secret is
            empty or has a line end.
        TypeError: ``scopes`` is not a sequence of str, or a secret is not a str.
    """

    def __init__(
        self,
        client_id: str,
        client_secret: Optional[str] = None,
        *,
        id_token: Assertion,
        idp_token_endpoint: str,
        idp_client_id: str,
        idp_client_secret: Optional[str] = None,
        scopes: Sequence[str] = (),
        issuer: Optional[str] = None,
        store: Optional[TokenStore] = None,
    ) -> None:
        require_issuer(issuer, "id_token")
        super().__init__(TokenMemory() if store is None else store, scopes, issuer)
        check_url(idp_token_endpoint)
        secret = clean_secret(client_secret, "client_secret")
        self._credentials = Credentials(client_id, secret)
        self._id_token = id_token
        idp_secret = clean_secret(idp_client_secret, "idp_client_secret")
        self._idp = idp_token_endpoint
        self._at_idp = Credentials(idp_client_id, idp_secret)

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """As `Grant`."""
        headers, proof = self._at_idp.prove({})
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "subject_token": read(self._id_token),
            "subject_token_type": ID_TOKEN,
            "audience": place.issuer,
            "resource": place.resource,
            **proof,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        answer = post_form(exchange, self._idp, form, headers, named=True)
        if answer.get("issued_token_type") != ID_JAG or not isinstance(
            answer.get("access_token"), str
        ):
            raise AuthorizationError("the identity provider gives no ID-JAG")
        grant = {"grant_type": JWT_BEARER, "assertion": answer["access_token"]}
        return request_token(exchange, place, self._credentials, grant, scopes=scopes, key=key)


def read(assertion: Assertion) -> str:
    """Return an assertion without the blanks and line ends around it. Raises AuthorizationError: it
    is not a str."""
    found = assertion() if callable(assertion) else assertion
    if not isinstance(found, str):
        raise AuthorizationError(f"an assertion is a str, not {type(found).__name__}")
    return found.strip()
