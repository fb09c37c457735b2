"""A person signs in: `SignIn`, the authorization code flow with PKCE; `StoredToken` uses what it
has left.

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
from .discovery import TOKEN_SECONDS, Exchange, Place, issuer_key, json_object, refusal, words
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

# Where a browser is sent that nobody listens for: a person copies its address from there.
PASTED_URI = "http://127.0.0.1/callback"

# OAuth error codes that mean that the authorization server does not know the client; "" is a
# rejection without a code.
UNKNOWN_CLIENT = frozenset({"invalid_client", "unauthorized_client", ""})

# Seconds between two looks whether who waits for the person has given up.
LOOK_SECONDS = 0.2


class SignIn(Grant):
    """Signs a person in with their browser, when a server wants that, and keeps the token; for
    ``connect(auth=)``.

    Nothing happens before a server wants a token. Thread-safe: one for any number of connections.

    Args:
        store: Where tokens and registrations are kept: an object with ``get(key)`` and ``put(key,
            value)``, such as a `TokenMemory`; None takes the `TokenFile` of this user.
        redirect_uri: Where the browser is sent to in the end: https, or this machine; None takes a
            free port of it.
        on_redirect: Gets the URL that the person has to open; None opens the browser.
        on_callback: Gets ``state`` and ``timeout`` in seconds, waits, and returns the whole URL
            that the browser was sent to; None listens on the redirect URI.
        no_browser: Prints the address instead, and reads by paste where the browser was sent to.
        client_id: Of a client that its operator has registered; None uses ``client_metadata_url``
            or registers one.
        client_secret: Of that client; None where it has none.
        issuer: URL of the authorization server that this client is registered with. It is required
            with a secret, which is sent to no other one; None takes the one of the server.
        client_metadata_url: An https URL of a metadata document of this client, used where the
            authorization server reads them; None has none.
        client_name: Shown to the person where a client is registered.
        scopes: What to ask for beside what the server names.
        timeout: Seconds that the person gets. The deadline of the call that waits is paused
            meanwhile.

    Raises:
        ValueError: A URL cannot be what it is; there is a secret without an id or without an
            issuer; or the secret is empty or has a line end.
        TypeError: ``scopes`` is no sequence of str, or the secret is not a str.
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
                raise ValueError("client_secret needs client_id=, the client that has this secret")
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
        verify: Union[bool, str] = True,
        proxies: Optional[Mapping[str, str]] = None,
        headers: Optional[Mapping[str, str]] = None,
        cert: Any = None,
    ) -> dict[str, Any]:
        """Sign in now, whether or not there is a token, and register this program anew.

        Args:
            url: URL of the server.
            verify, proxies, headers, cert: As `HttpServer`.

        Returns:
            What is known of the token, without secrets.

        Raises:
            AuthorizationError: No token could be obtained or stored.
            TypeError, ValueError: The URL or another argument cannot be used.
        """
        given = Fetcher(url, headers=headers, verify=verify, cert=cert, proxies=proxies)
        return self.for_server(url).sign_in(given.settings)

    def sign_out(
        self,
        url: str,
        *,
        verify: Union[bool, str] = True,
        proxies: Optional[Mapping[str, str]] = None,
        headers: Optional[Mapping[str, str]] = None,
        cert: Any = None,
    ) -> bool:
        """Forget the token of a server and the registration of this program, and have the token
        revoked if that is possible.

        Arguments as `sign_in`.

        Returns:
            Whether there was anything to forget.

        Raises:
            AuthorizationError: The store cannot be read or written.
            TypeError, ValueError: The URL or another argument cannot be used.
        """
        given = Fetcher(url, headers=headers, verify=verify, cert=cert, proxies=proxies)
        return self.for_server(url).sign_out(given.settings)

    def whoami(self, url: str) -> Optional[dict[str, Any]]:
        """What is known of the token of a server, without secrets; None where there is none."""
        return self.for_server(url).known()

    # ------------------------------------------------------------ as whom

    def _known_client(self, place: Place) -> Optional[tuple[Credentials, str]]:
        """As whom to ask, and the redirect URI where that is settled; None where a client is to be
        registered."""
        if self._given is not None:
            return self._given, ""
        if (
            self._document is not None
            and place.server.get("client_id_metadata_document_supported") is True
        ):
            return Credentials(self._document), ""
        return registered(self._registrations(place.issuer).get(self._way))

    @property
    def _way(self) -> str:
        """How the browser comes back, for which a client is registered."""
        if self._redirect_uri:
            return self._redirect_uri
        return "paste" if self._no_browser or self._on_callback else "loopback"

    def _registrations(self, issuer: str) -> dict[str, Any]:
        """Return what an authorization server has registered for this program: records of
        `register` by `_way`."""
        kept = self.store.get(f"client {issuer_key(issuer)}")
        return dict(kept) if isinstance(kept, dict) else {}

    def _keep_client(self, issuer: str, record: dict[str, Any]) -> None:
        """Store a registration; without it, the next sign-in registers another client."""
        try:
            kept = {**self._registrations(issuer), self._way: record}
            self.store.put(f"client {issuer_key(issuer)}", kept)
        except Exception as error:  # also of a store of the user's
            log.warning(
                "the registration at %s is not stored: %s", one_line(issuer), describe(error)
            )

    def forget_client(self, issuer: str, client_id: Optional[str] = None) -> bool:
        """As `Grant.forget_client`."""
        kept = self._registrations(issuer)
        left = {
            way: record
            for way, record in kept.items()
            if client_id is not None
            and not (isinstance(record, dict) and record.get("client_id") == client_id)
        }
        if len(left) < len(kept):
            self.store.put(f"client {issuer_key(issuer)}", left or None)
        return len(left) < len(kept)

    # ------------------------------------------------------------ the flow

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """As `Grant`: ask the person, and get a token for the code that comes back."""
        supported = words(place.server.get("code_challenge_methods_supported"))
        if "S256" not in supported:
            raise AuthorizationError(
                f"{one_line(place.issuer)} does not say that it knows PKCE with S256"
            )
        exchange.checked(
            place.server.get("token_endpoint"), "the token endpoint"
        )  # before a person is asked
        page = exchange.checked(
            place.server.get("authorization_endpoint"), "the authorization endpoint"
        )
        if scopes and "offline_access" in words(place.server.get("scopes_supported")):
            scopes = tuple(dict.fromkeys((*scopes, "offline_access")))
        try:
            return self._flow(exchange, place, page, scopes, key)
        except TokenRefused as refused:
            is_unknown = refused.is_final and refused.error in UNKNOWN_CLIENT
            if is_unknown and self.forget_client(place.issuer):
                told = "this program's registration is deleted, so the next sign-in makes a new one"
                raise TokenRefused(f"{refused} ({told})", refused.error) from None
            raise

    def _flow(
        self,
        exchange: Exchange,
        place: Place,
        page: str,
        scopes: tuple[str, ...],
        key: Optional[ProofKey],
    ) -> Token:
        with ExitStack() as afterwards:
            found = self._known_client(place)
            uri, listener = self._redirect_uri or PASTED_URI, None
            if not self._no_browser and self._on_callback is None:
                listener = afterwards.enter_context(self._listen(self._redirect_uri, found))
                uri = listener.redirect_uri
            if found is None or found[1] not in ("", uri):
                record = register(exchange, place, uri, self._client_name)
                self._keep_client(place.issuer, record)
                found = registered(record)
            assert found is not None
            credentials, state, verifier = found[0], token_urlsafe(32), token_urlsafe(48)
            challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
            query = {
                "response_type": "code",
                "client_id": credentials.client_id,
                "redirect_uri": uri,
                "state": state,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
                "resource": place.resource,
            }
            if scopes:
                query["scope"] = " ".join(scopes)
            if "offline_access" in scopes:
                query["prompt"] = "consent"  # OpenID Connect gives no refresh token without it
            url = f"{page}{'&' if urlsplit(page).query else '?'}{urlencode(query)}"
            came = self._asked(exchange, url, state, listener)
            form = {
                "grant_type": "authorization_code",
                "code": self._code(place, came, state),
                "redirect_uri": uri,
                "code_verifier": verifier,
            }
            return request_token(
                exchange, place, credentials, form, scopes=(), asked=scopes, key=key
            )

    @staticmethod
    def _listen(uri: Optional[str], found: Optional[tuple[Credentials, str]]) -> LoopbackListener:
        if uri is None and found is not None and found[1]:
            try:
                return LoopbackListener(found[1])  # that this client was registered with
            except OSError:  # another program has the port
                pass
        return LoopbackListener(uri)

    def _asked(
        self, exchange: Exchange, url: str, state: str, listener: Optional[LoopbackListener]
    ) -> str:
        """Send the person to a page, and wait; the URL that the browser was sent to in the end."""
        assert self.seconds is not None
        if self._no_browser:
            return paste(url)
        (self._on_redirect or open_browser)(url)
        if listener is None:
            assert self._on_callback is not None
            return self._on_callback(state, self.seconds)
        ends = time.monotonic() + self.seconds
        while time.monotonic() < ends:
            if exchange.request.aborted.is_set():
                raise ConnectionLost(
                    f"{without_secrets(exchange.url)}: given up while a person was to sign in"
                )
            came = listener.wait(state, LOOK_SECONDS)
            if came is not None:
                return came
        told = f"nobody has signed in within {self.seconds:g} s"
        shown = without_secrets(exchange.url)
        raise AuthorizationError(
            f"{told}: try again; if the page showed an error, the authorization server may have "
            f"forgotten this program: 'minimcp logout {shown}', or SignIn().sign_out(url), deletes "
            "what is stored, and the next sign-in registers it anew"
        )

    @staticmethod
    def _code(place: Place, came: Any, state: str) -> str:
        """The code in the URL that the browser was sent to. Raises AuthorizationError: it is no
        answer to ours."""
        if not isinstance(came, str):
            raise AuthorizationError(
                f"on_callback returns the URL that the browser came to, not {type(came).__name__}"
            )
        answer = parse_qs(urlsplit(came).query, keep_blank_values=True, max_num_fields=100)
        if any(len(values) > 1 for values in answer.values()):
            raise AuthorizationError("the browser came back with a parameter twice")
        (code,), (error,), (issuer,), (its_state,) = (
            answer.get(name, [None]) for name in ("code", "error", "iss", "state")
        )
        if its_state is None or not hmac.compare_digest(its_state.encode(), state.encode()):
            raise AuthorizationError(
                "the browser came back from another sign-in: its state is not ours"
            )
        advertised = place.server.get("authorization_response_iss_parameter_supported") is True
        if issuer != place.issuer and not (issuer is None and not advertised):
            raise AuthorizationError(
                f"the browser came back from another server than {one_line(place.issuer)} (iss)"
            )
        if error is not None:
            told = ": ".join([error[:100], *answer.get("error_description", [])])
            raise TokenRefused(f"{one_line(place.issuer)} refuses: {one_line(told)}", error)
        if not code:
            raise AuthorizationError(
                f"{one_line(place.issuer)} sent the browser back without a code"
            )
        return code


class StoredToken(SignIn):
    """The token that ``minimcp login`` has stored, used and refreshed; `connect` takes it without
    ``auth``.

    The file is not read before the server returns 401: most servers want no token.
    """

    can_obtain = False
    loads_early = False

    def obtain(
        self, exchange: Exchange, place: Place, scopes: tuple[str, ...], key: Optional[ProofKey]
    ) -> Token:
        """As `Grant`: nobody is asked."""
        shown = without_secrets(exchange.url)
        raise AuthorizationError(
            f"{shown}: the stored token is not taken any more{how_to_sign_in(shown)}"
        )


# ------------------------------------------------------------ clients that have no id yet


def check_metadata_url(url: str) -> None:
    """Check that a client can have this URL as its id.

    https://datatracker.ietf.org/doc/draft-ietf-oauth-client-id-metadata-document/

    Raises:
        ValueError: It is not https, or has no path, a dot segment, a fragment or a user's name.
        TypeError: It is not a str.
    """
    if not isinstance(url, str):
        raise TypeError(f"client_metadata_url must be a str, not {type(url).__name__}")
    path = urlsplit(url).path if parse_web_url(url).scheme == "https" else ""
    dots = any(re.fullmatch(r"(?i)(?:\.|%2e){1,2}", part) for part in path.split("/"))
    if path in ("", "/") or dots or "#" in url:
        what = "must be an https URL with a path, and without '.' or '..' segments and a fragment"
        raise ValueError(f"client_metadata_url {what}: not {one_line(url, 100)!r}")


def registered(record: Any) -> Optional[tuple[Credentials, str]]:
    """The credentials in a record of `register`, and their redirect URI; None where there are none,
    or no more."""
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


def register(
    exchange: Exchange, place: Place, redirect_uri: str, client_name: str
) -> dict[str, Any]:
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
    known = [
        each for each in ("none", "client_secret_basic", "client_secret_post") if each in supported
    ]
    if not known:
        raise AuthorizationError(
            f"{place.issuer} wants clients to use {one_line(', '.join(supported))}"
        )
    offered = words(place.server.get("grant_types_supported"))
    grants = ["authorization_code"]
    if not offered or "refresh_token" in offered:
        grants.append("refresh_token")
    asked = {
        "client_name": client_name,
        "redirect_uris": [redirect_uri],
        "grant_types": grants,
        "response_types": ["code"],
        "token_endpoint_auth_method": known[0],
        "application_type": "native" if parse_web_url(redirect_uri).is_local else "web",
    }
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    status, _, body = exchange.ask(
        "POST", url, headers, json.dumps(asked).encode(), seconds=TOKEN_SECONDS
    )
    answer = json_object(body) or {}
    if not 200 <= status < 300 or answer.get("error"):
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
        raise AuthorizationError(
            f"{place.issuer} registers a client without an id that can be used"
        )
    return record
