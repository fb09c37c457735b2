"""The sign-in of a person: `SignIn` runs the authorization code flow with PKCE, and `StoredToken`
uses the tokens that it has stored.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import hmac
import json
import re
import time
from base64 import urlsafe_b64encode
from contextlib import ExitStack
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any, Callable, Mapping, Optional, Sequence, Union
from urllib.parse import parse_qs, urlencode, urlsplit

from ..errors import AuthorizationError, ConnectionLost
from ..http.client import how_to_sign_in
from ..http.fetch import Fetcher, without_secrets
from ..log import logger
from ..protocol.urls import parse_web_url
from ..text import describe, one_line
from .authorizer import Grant
from .discovery import (
    TOKEN_SECONDS,
    Exchange,
    ProtectedResource,
    issuer_key,
    json_object,
    refusal,
    words,
)
from .dpop import ProofKey
from .loopback import LoopbackListener, open_browser, paste
from .shared import check_url
from .store import TokenFile, TokenStore
from .tokens import (
    Credentials,
    Token,
    TokenRefused,
    clean_secret,
    request_token,
    require_issuer,
)

log = logger("minimcp.auth")

# The redirect URI without a listener; a person copies the address from the browser.
PASTED_URI = "http://127.0.0.1/callback"

# OAuth error codes that mean that the authorization server does not know the client; "" is a
# rejection without a code.
UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client", ""})

# Interval at which a thread that waits for a person checks whether its call was aborted.
POLL_SECONDS = 0.2


class SignIn(Grant):
    """A sign-in with the browser, for ``connect(auth=...)``. The token is stored.

    The browser is opened when a server requires a token and none is stored. One object may be used
    for any number of connections. Thread-safe.

    https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization

    Args:
        store: The store for tokens and registrations, an object with ``get(key)`` and ``put(key,
            value)`` such as a `TokenMemory`; None means the `TokenFile` of this user.
        redirect_uri: The URI that the browser is redirected to: https, or http on this machine.
            None means a free port of this machine.
        on_redirect: A function that gets the URL of the sign-in page; if None, the browser is
            opened.
        on_callback: A function that gets ``state`` and ``timeout`` (in seconds), waits, and returns
            the complete URL that the browser was redirected to. If None, the library listens on the
            redirect URI.
        no_browser: Whether to print the address of the page instead, and read the address that the
            browser was redirected to from stdin.
        client_id: The id of a client that the server's operator has registered; None means
            ``client_metadata_url`` or registers a client.
        client_secret: The secret of that client; None if it has none.
        issuer: The URL of the authorization server that the client is registered with; None means
            the one that the server names. It is required with a secret, which is sent only there.
        client_metadata_url: The https URL of a metadata document that describes this client, for
            authorization servers that support such documents; None means no document.
        client_name: The name of a registered client, which the person sees.
        scopes: Scopes to request in addition to the ones in the challenge.
        timeout: Seconds that the person has to sign in. They do not count towards the deadline of
            the waiting call.

    Raises:
        ValueError: A URL is invalid; there is a secret without a client id or an issuer; or the
            secret is empty or has a line break.
        TypeError: ``scopes`` is not a sequence of str, or the secret is not a str.
    """

    def __init__(
        self,
        *,
        store: Optional[TokenStore] = None,
        redirect_uri: Optional[str] = None,
        on_redirect: Optional[Callable[[str], object]] = None,
        on_callback: Optional[Callable[[str, float], str]] = None,
        no_browser: bool = False,
        client_id: Optional[str] = None,
        client_secret: Optional[str] = None,
        issuer: Optional[str] = None,
        client_metadata_url: Optional[str] = None,
        client_name: str = "minimcp",
        scopes: Sequence[str] = (),
        timeout: float = 300.0,
    ) -> None:
        secret = clean_secret(client_secret, "client_secret")
        if secret is not None:
            if client_id is None:
                raise ValueError("client_secret needs client_id=, the id of the client")
            require_issuer(issuer, "client_secret")
        super().__init__(TokenFile() if store is None else store, scopes, issuer)
        if redirect_uri is not None:
            check_url(redirect_uri)
        if client_metadata_url is not None:
            check_metadata_url(client_metadata_url)
        self.seconds = timeout
        self._redirect_uri = redirect_uri
        self._no_browser = no_browser
        self._on_redirect = on_redirect
        self._on_callback = on_callback
        self._given = None if client_id is None else Credentials(client_id, secret)
        self.has_fixed_credentials = client_id is not None
        self._document = client_metadata_url
        self._client_name = client_name

    def sign_in(
        self,
        url: str,
        *,
        verify: Union[bool, str, None] = None,
        proxies: Optional[Mapping[str, str]] = None,
        headers: Optional[Mapping[str, str]] = None,
        cert: Any = None,
    ) -> dict[str, Any]:
        """Sign in now, even if a token is stored, and register this program again.

        Args:
            url: The URL of the server.
            verify, proxies, headers, cert: See `HttpServer`.

        Returns:
            A description of the token without secrets; see `whoami`.

        Raises:
            AuthorizationError: No token could be obtained or stored.
            TypeError, ValueError: The URL or another argument is invalid.
        """
        fetcher = Fetcher(url, headers=headers, verify=verify, cert=cert, proxies=proxies)
        return self.for_server(url).sign_in(fetcher.settings)

    def sign_out(
        self,
        url: str,
        *,
        verify: Union[bool, str, None] = None,
        proxies: Optional[Mapping[str, str]] = None,
        headers: Optional[Mapping[str, str]] = None,
        cert: Any = None,
    ) -> bool:
        """Delete the token of a server and this program's registration. Revoke the token if
        possible.

        Args:
            url, verify, proxies, headers, cert: See `sign_in`.

        Returns:
            Whether there was anything to delete.

        Raises:
            AuthorizationError: The store cannot be read or written.
            TypeError, ValueError: The URL or another argument is invalid.
        """
        fetcher = Fetcher(url, headers=headers, verify=verify, cert=cert, proxies=proxies)
        return self.for_server(url).sign_out(fetcher.settings)

    def whoami(self, url: str) -> Optional[dict[str, Any]]:
        """Return a description of the stored token of a server, or None if there is none.

        It has the keys ``issuer``, ``resource``, ``client_id``, ``expires_at`` (seconds since 1970,
        or None), ``scopes`` and ``can_be_refreshed``, and no secrets.
        """
        return self.for_server(url).known()

    # ------------------------------------------------------------ client registrations

    def _known_client(self, target: ProtectedResource) -> Optional[tuple[Credentials, str]]:
        """Return the client's credentials, and the redirect URI if they are registered for one.

        Return None if a client must be registered.
        """
        if self._given is not None:
            return self._given, ""
        if (
            self._document is not None
            and target.server.get("client_id_metadata_document_supported") is True
        ):
            return Credentials(self._document), ""
        return registered(self._registrations(target.issuer).get(self._registration_key))

    @property
    def _registration_key(self) -> str:
        """The key of a registration in the store: it depends on how the browser is redirected."""
        if self._redirect_uri:
            return self._redirect_uri
        return "paste" if self._no_browser or self._on_callback else "loopback"

    def _registrations(self, issuer: str) -> dict[str, Any]:
        """Return the stored registrations at an authorization server, by `_registration_key`."""
        stored = self.store.get(f"client {issuer_key(issuer)}")
        return dict(stored) if isinstance(stored, dict) else {}

    def _keep_client(self, issuer: str, record: dict[str, Any]) -> None:
        """Store a registration. If this fails, the next sign-in registers another client."""
        try:
            records = {**self._registrations(issuer), self._registration_key: record}
            self.store.put(f"client {issuer_key(issuer)}", records)
        except Exception as error:  # a store of the user may raise anything
            log.warning(
                "the registration at %s could not be stored: %s", one_line(issuer), describe(error)
            )

    def forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        """Delete stored registrations. See `Grant.forget_client`."""
        stored = self._registrations(issuer)
        remaining = {}
        for key, record in stored.items():
            has_id = isinstance(record, dict) and record.get("client_id") == client_id
            if client_id is not None and not has_id:
                remaining[key] = record
        if len(remaining) == len(stored):
            return False
        self.store.put(f"client {issuer_key(issuer)}", remaining or None)
        return True

    # ------------------------------------------------------------ the flow

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Send the person to the sign-in page, and exchange the code for a token.

        See `Grant.obtain`.
        """
        supported = words(target.server.get("code_challenge_methods_supported"))
        if "S256" not in supported:
            raise AuthorizationError(
                f"the metadata of {one_line(target.issuer)} does not list PKCE with S256"
            )
        # Check this before the person is asked.
        exchange.checked(target.server.get("token_endpoint"), "the token endpoint")
        page = exchange.checked(
            target.server.get("authorization_endpoint"), "the authorization endpoint"
        )
        if scopes and "offline_access" in words(target.server.get("scopes_supported")):
            scopes = tuple(dict.fromkeys((*scopes, "offline_access")))
        try:
            return self._flow(exchange, target, page, scopes, key)
        except TokenRefused as refused:
            is_unknown = refused.is_final and refused.error in UNKNOWN_CLIENT
            if is_unknown and self.forget_client(target.issuer):
                raise TokenRefused(
                    f"{refused} (the stored registration was deleted, so the next sign-in "
                    "registers this program again)",
                    refused.error,
                ) from None
            raise

    def _flow(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        page: str,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        with ExitStack() as afterwards:
            found = self._known_client(target)
            uri = self._redirect_uri or PASTED_URI
            listener = None
            if not self._no_browser and self._on_callback is None:
                listener = afterwards.enter_context(self._listen(self._redirect_uri, found))
                uri = listener.redirect_uri
            if found is None or found[1] not in ("", uri):
                record = register(exchange, target, uri, self._client_name)
                self._keep_client(target.issuer, record)
                found = registered(record)
            assert found is not None
            credentials = found[0]
            state = token_urlsafe(32)
            verifier = token_urlsafe(48)
            challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            query = {
                "response_type": "code",
                "client_id": credentials.client_id,
                "redirect_uri": uri,
                "state": state,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
                "resource": target.resource,
            }
            if scopes:
                query["scope"] = " ".join(scopes)
            if "offline_access" in scopes:
                query["prompt"] = "consent"  # OpenID Connect grants no refresh token without it
            url = f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(query)}"
            redirected_to = self._redirected(exchange, url, state, listener)
            form = {
                "grant_type": "authorization_code",
                "code": self._code(target, redirected_to, state),
                "redirect_uri": uri,
                "code_verifier": verifier,
            }
            return request_token(
                exchange, target, credentials, form, scopes=(), asked=scopes, key=key
            )

    @staticmethod
    def _listen(uri: Optional[str], found: Optional[tuple[Credentials, str]]) -> LoopbackListener:
        if uri is None and found is not None and found[1]:
            try:
                return LoopbackListener(found[1])  # the client is registered for this URI
            except OSError:  # the port is in use
                pass
        return LoopbackListener(uri)

    def _redirected(
        self, exchange: Exchange, url: str, state: str, listener: Optional[LoopbackListener]
    ) -> str:
        """Send the person to a page. Return the URL that the browser is redirected to."""
        assert self.seconds is not None
        if self._no_browser:
            return paste(url)
        (self._on_redirect or open_browser)(url)
        if listener is None:
            assert self._on_callback is not None
            return self._on_callback(state, self.seconds)
        deadline = time.monotonic() + self.seconds
        shown = without_secrets(exchange.url)
        while time.monotonic() < deadline:
            if exchange.request.aborted.is_set():
                raise ConnectionLost(f"{shown}: aborted while a person was signing in")
            redirected_to = listener.wait(state, POLL_SECONDS)
            if redirected_to is not None:
                return redirected_to
        raise AuthorizationError(
            f"nobody has signed in within {self.seconds:g} s: try again; if the page showed an "
            "error, the authorization server may no longer know this program: 'python3 -m "
            f"minimcp logout {shown}' or SignIn().sign_out(url) deletes the stored registration, "
            "and the next sign-in makes a new one"
        )

    @staticmethod
    def _code(target: ProtectedResource, redirected_to: Any, state: str) -> str:
        """Return the code in the URL that the browser was redirected to.

        Raises:
            AuthorizationError: The URL does not answer this sign-in.
            TokenRefused: The authorization server returned an error.
        """
        if not isinstance(redirected_to, str):
            raise AuthorizationError(
                "on_callback must return the URL that the browser was redirected to, not "
                f"{type(redirected_to).__name__}"
            )
        query = urlsplit(redirected_to).query
        answer = parse_qs(query, keep_blank_values=True, max_num_fields=100)
        if any(len(values) > 1 for values in answer.values()):
            raise AuthorizationError("the redirect URL has a parameter twice")
        (code,), (error,), (issuer,), (its_state,) = (
            answer.get(name, [None]) for name in ("code", "error", "iss", "state")
        )
        if its_state is None or not hmac.compare_digest(its_state.encode(), state.encode()):
            raise AuthorizationError("the redirect URL belongs to another sign-in: state differs")
        is_required = target.server.get("authorization_response_iss_parameter_supported") is True
        if issuer != target.issuer and (issuer is not None or is_required):
            raise AuthorizationError(
                f"the redirect URL is from a server other than {one_line(target.issuer)} (iss)"
            )
        if error is not None:
            reason = one_line(": ".join([error[:100], *answer.get("error_description", [])]))
            raise TokenRefused(f"{one_line(target.issuer)} rejected the sign-in: {reason}", error)
        if not code:
            raise AuthorizationError(f"the redirect URL from {one_line(target.issuer)} has no code")
        return code


class StoredToken(SignIn):
    """The token that ``minimcp login`` has stored. `connect` uses and refreshes it if there is no
    ``auth``.

    The file is not read before the server returns 401, because most servers require no token.
    """

    can_obtain = False
    loads_early = False

    def obtain(
        self,
        exchange: Exchange,
        target: ProtectedResource,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        """Raise AuthorizationError, because no person can be asked here."""
        shown = without_secrets(exchange.url)
        raise AuthorizationError(
            f"{shown}: the server no longer accepts the stored token{how_to_sign_in(shown)}"
        )


# ------------------------------------------------------------ registering a client


def check_metadata_url(url: str) -> None:
    """Check that a URL can be the id of a client.

    https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/

    Raises:
        ValueError: The URL is not https, has no path, or has a dot segment, a fragment or userinfo.
        TypeError: The URL is not a str.
    """
    if not isinstance(url, str):
        raise TypeError(f"client_metadata_url must be a str, not {type(url).__name__}")
    path = urlsplit(url).path if parse_web_url(url).scheme == "https" else ""
    dots = any(re.fullmatch(r"(?i)(?:\.|%2e){1,2}", part) for part in path.split("/"))
    if path in ("", "/") or dots or "#" in url:
        raise ValueError(
            "client_metadata_url must be an https URL with a path, without a fragment and "
            f"without '.' or '..' segments, not {one_line(url, 100)!r}"
        )


def registered(record: Any) -> Optional[tuple[Credentials, str]]:
    """Return the credentials and the redirect URI in a record of `register`.

    Return None if there is no valid record, or the credentials have expired.
    """
    if not isinstance(record, dict) or not isinstance(record.get("client_id"), str):
        return None
    secret = record.get("client_secret")
    method = record.get("method")
    uri = record.get("redirect_uri")
    if not isinstance(uri, str):
        return None
    if not all(each is None or isinstance(each, str) for each in (secret, method)):
        return None
    expires_at = record.get("expires_at")
    if isinstance(expires_at, (int, float)) and 0 < expires_at < time.time():
        return None
    return Credentials(record["client_id"], secret, method=method), uri


def register(
    exchange: Exchange, target: ProtectedResource, redirect_uri: str, client_name: str
) -> dict[str, Any]:
    """Register a client, and return a record for the token store.

    Args:
        exchange: Sends the request.
        target: The authorization server.
        redirect_uri: The URI that the browser is redirected to.
        client_name: The name that the person sees.

    Raises:
        AuthorizationError: The server does not register clients, or rejected this one.
    """
    if "registration_endpoint" not in target.server:
        raise AuthorizationError(
            f"{target.issuer} does not register clients: ask its operator for a client id, and "
            "write SignIn(client_id=...) or --client-id"
        )
    url = exchange.checked(target.server["registration_endpoint"], "the registration endpoint")
    supported = words(target.server.get("token_endpoint_auth_methods_supported")) or ("none",)
    usable = [
        each for each in ("none", "client_secret_basic", "client_secret_post") if each in supported
    ]
    if not usable:
        raise AuthorizationError(
            f"{target.issuer} supports only clients that use {one_line(', '.join(supported))}"
        )
    offered = words(target.server.get("grant_types_supported"))
    grants = ["authorization_code"]
    if not offered or "refresh_token" in offered:
        grants.append("refresh_token")
    request = {
        "client_name": client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": usable[0],
        "application_type": "native" if parse_web_url(redirect_uri).is_local else "web",
    }
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    status, _, body = exchange.ask(
        "POST", url, headers, json.dumps(request).encode(), seconds=TOKEN_SECONDS
    )
    answer = json_object(body) or {}
    if not 200 <= status < 300 or answer.get("error"):
        raise AuthorizationError(
            f"{target.issuer} did not register this client with {redirect_uri}: "
            f"{refusal(status, answer)}"
        )
    method = answer.get("token_endpoint_auth_method")
    record = {
        "client_id": answer.get("client_id"),
        "client_secret": answer.get("client_secret"),
        "method": method if method is not None or "client_secret" in answer else "none",
        "expires_at": answer.get("client_secret_expires_at"),
        "redirect_uri": redirect_uri,
    }
    if registered(record) is None:
        raise AuthorizationError(f"{target.issuer} registered a client without a usable id")
    return record
