"""Grants that do not involve a browser: client credentials, enterprise-managed authorization,
workload identity.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

from typing import Callable, Optional, Sequence, Union

from ..errors import AuthorizationError
from .authorizer import Grant
from .discovery import Exchange, ProtectedResource
from .dpop import ProofKey
from .shared import check_url
from .store import TokenStore
from .tokens import Credentials, Token, clean_secret, post_form, request_token, require_issuer

Assertion = Union[str, Callable[[], str]]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN, ID_JAG = (f"urn:ietf:params:oauth:token-type:{kind}" for kind in ("id_token", "id-jag"))


class ClientCredentials(Grant):
    """The grant ``client_credentials``: a program signs in as itself. For ``connect(auth=)``.

    Thread-safe.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization

    Args:
        client_id: The id of the client that the server's operator has registered.
        client_secret: The client's secret; None if it has a private key.
        private_key: The client's private key in PEM, for ``private_key_jwt``; None if it has a
            secret. Needs PyJWT[crypto].
        algorithm: The signature algorithm of the private key.
        scopes: Scopes to request in addition to the ones in the challenge.
        issuer: The URL of the authorization server that issued the credentials. It is required,
            because the credentials are sent only there, whatever the MCP server says.
        store: The token store; if None, tokens are kept in memory.

    Raises:
        ValueError: There is neither a secret nor a key, or both; there is no issuer, or it is not
            an https URL (or http on this machine); or the secret is empty or has a line break.
        TypeError: ``scopes`` is not a sequence of str, or the secret is not a str.
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
            raise ValueError("write either client_secret= or private_key=")
        require_issuer(issuer, "client_secret" if private_key is None else "private_key")
        super().__init__(store, scopes, issuer)
        secret = clean_secret(client_secret, "client_secret")
        self._credentials = Credentials(client_id, secret, private_key, algorithm)

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Obtain a token. See `Grant.obtain`."""
        form = {"grant_type": "client_credentials"}
        return request_token(exchange, target, self._credentials, form, scopes=scopes, key=key)


class WorkloadIdentity(Grant):
    """The grant ``jwt-bearer``: a program signs in with a JWT from its platform. For
    ``connect(auth=)``.

    Thread-safe if ``assertion`` is.

    Args:
        assertion: The JWT, or a function that returns it, for example from a file that the platform
            renews.
        client_id: The id of the client that the server's operator has registered; omitted if None.
        scopes, issuer, store: See `ClientCredentials`. The issuer is required.

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
        super().__init__(store, scopes, issuer)
        self._assertion = assertion
        self._credentials = Credentials(client_id or "")

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Obtain a token. See `Grant.obtain`."""
        form = {"grant_type": JWT_BEARER, "assertion": read(self._assertion)}
        return request_token(exchange, target, self._credentials, form, scopes=scopes, key=key)


class EnterpriseManaged(Grant):
    """Enterprise-managed authorization: a person uses their company's sign-in. For
    ``connect(auth=)``.

    The company's identity provider exchanges the person's ID token for a grant (ID-JAG), which the
    server's authorization server exchanges for a token. Thread-safe if ``id_token`` is.

    Args:
        client_id, client_secret: The client's credentials at the server's authorization server; the
            secret is None for a client without one.
        id_token: The person's ID token from the identity provider, or a function that returns it.
        idp_token_endpoint: The URL of the identity provider's token endpoint.
        idp_client_id, idp_client_secret: The client's credentials at the identity provider; the
            secret is None for a client without one.
        scopes, issuer, store: See `ClientCredentials`. The issuer is required; it is the server's
            authorization server, not the identity provider.

    Raises:
        ValueError: There is no issuer, a URL is not https (or http on this machine), or a secret is
            empty or has a line break.
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
        super().__init__(store, scopes, issuer)
        check_url(idp_token_endpoint)
        secret = clean_secret(client_secret, "client_secret")
        self._credentials = Credentials(client_id, secret)
        self._id_token = id_token
        idp_secret = clean_secret(idp_client_secret, "idp_client_secret")
        self._idp = idp_token_endpoint
        self._at_idp = Credentials(idp_client_id, idp_secret)

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Obtain a token. See `Grant.obtain`."""
        headers, proof = self._at_idp.prove({})
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "subject_token": read(self._id_token),
            "subject_token_type": ID_TOKEN,
            "audience": target.issuer,
            "resource": target.resource,
            **proof,
        }
        if scopes:
            form["scope"] = " ".join(scopes)
        answer = post_form(exchange, self._idp, form, headers, named=True)
        assertion = answer.get("access_token")
        if answer.get("issued_token_type") != ID_JAG or not isinstance(assertion, str):
            raise AuthorizationError("the identity provider did not return an ID-JAG")
        grant = {"grant_type": JWT_BEARER, "assertion": assertion}
        return request_token(exchange, target, self._credentials, grant, scopes=scopes, key=key)


def read(assertion: Assertion) -> str:
    """Return an assertion without surrounding whitespace.

    Raises:
        AuthorizationError: The assertion is not a str.
    """
    text = assertion() if callable(assertion) else assertion
    if not isinstance(text, str):
        raise AuthorizationError(f"an assertion must be a str, not {type(text).__name__}")
    return text.strip()
