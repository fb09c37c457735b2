"""Verifiers for the tokens of a `Bearer`: fixed tokens, JWTs with a key set, and introspection.

https://www.rfc-editor.org/rfc/rfc9068  https://www.rfc-editor.org/rfc/rfc7662
"""

from __future__ import annotations

import re
import threading
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Optional, Union
from urllib.parse import quote_plus

from ..errors import AuthorizationError, McpError
from ..log import logger
from ..protocol.messages import Json
from ..text import one_line
from .shared import (
    ALGORITHMS,
    IssuerUnavailable,
    Verify,
    WrongType,
    check_url,
    list_of_str,
)

log = logger("minimcp.auth")

# How long keys are cached.
CACHE_SECONDS = 300.0
# Minimum interval between two requests for keys because of an unknown key.
MIN_INTERVAL_SECONDS = 10.0
# Accepted difference between the clocks of the issuer and this machine.
SKEW_SECONDS = 30.0

# Interval before the next request to an issuer that did not respond or responded with an error.
ISSUER_RETRY_SECONDS = 1.0

# How long a thread without a key waits for the thread that fetches the keys.
WAIT_SECONDS = 2.0

# The key type for an algorithm, by the first two letters of the algorithm.
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def fixed(
    tokens: Union[str, Mapping[str, Mapping[str, Json]]], common: Mapping[str, Json]
) -> Verify:
    """Return a verifier for fixed tokens, which compares in constant time.

    Args:
        tokens: One token, or several with their claims.
        common: Claims of all tokens. Claims of a token override them, except ``aud``.

    Raises:
        ValueError: There is no token, or one cannot be sent in a header.
        TypeError: The tokens are neither a str nor a mapping.
    """
    from hmac import compare_digest  # imported here because it loads OpenSSL

    given = {tokens: {}} if isinstance(tokens, str) else tokens
    if not isinstance(given, Mapping) or not all(
        isinstance(claims, Mapping) for claims in given.values()
    ):
        raise TypeError(
            'tokens must be a str, or a mapping of tokens to their claims: {"kW9...": {"sub": '
            '"ada"}}'
        )
    if not given or not all(
        isinstance(token, str) and re.fullmatch(r"[\w\-.~+/]+=*", token, re.A) for token in given
    ):
        raise ValueError(
            "a token must contain only letters, digits and -._~+/: create one with "
            "secrets.token_urlsafe(32)"
        )
    known = [
        (token.encode(), {**common, **claims, "aud": common["aud"]})
        for token, claims in given.items()
    ]

    def verify(token: str) -> Optional[Mapping[str, Json]]:
        encoded = token.encode()
        found = None
        for (
            each,
            claims,
        ) in known:  # compare with all, so that the time does not depend on the token
            if compare_digest(each, encoded):
                found = claims
        return found

    return verify


# A media type, or its name below ``application/`` (RFC 6838, 4.2).
_MEDIA_TYPE = r"(?:[A-Za-z0-9!#$&^_.+\-]+/)?[A-Za-z0-9!#$&^_.+\-]+"


def _plain_type(typ: Any) -> Any:
    """Normalize the type of a JWT (RFC 7515, 4.1.9)."""
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else None


class KeySet:
    """The public keys of an issuer, which are fetched when a token needs them. Thread-safe.

    Args:
        issuer, keys, algorithms, typ: See `Bearer.jwt`.

    Raises:
        ImportError, TypeError, ValueError: See `Bearer.jwt`.
    """

    def __init__(
        self,
        issuer: str,
        keys: Union[str, Mapping[str, Json], None],
        algorithms: Sequence[str],
        typ: Union[str, Sequence[str]],
    ) -> None:
        from .dpop import jwt_package

        self._jwt = jwt_package()
        for url in (issuer, keys):
            if isinstance(url, str):
                check_url(url)
        unknown = set(algorithms).difference(ALGORITHMS)
        if unknown or isinstance(algorithms, str):
            raise ValueError(
                f"algorithms must be a list of {', '.join(ALGORITHMS)}, not "
                f"{', '.join(sorted(unknown))}"
            )
        self._issuer = issuer
        self._algorithms = list(algorithms)
        self._types = [typ] if isinstance(typ, str) else list_of_str(typ, "typ")
        if not self._types or not all(re.fullmatch(_MEDIA_TYPE, each) for each in self._types):
            raise ValueError(
                f'typ must name the accepted types, such as ("at+jwt", "JWT"), not {typ!r:.100}'
            )
        self._url = keys if isinstance(keys, str) else None
        # Each key as a JWK and as PyJWT's object.
        self._keys: list[tuple[Mapping[str, Json], Any]] = []
        self._fetched_at = float("-inf")
        self._is_failing = False
        self._is_fixed = isinstance(keys, Mapping)
        self._lock = threading.Lock()
        # Set when the running request for keys is finished; None if there is none.
        self._running: Optional[threading.Event] = None
        if isinstance(keys, Mapping):
            self._set_keys(keys)

    def verify(self, token: str) -> Optional[Mapping[str, Json]]:
        """Return the claims of a token, or None if the token is invalid or of another issuer.

        Blocks while keys are fetched.

        Raises:
            AuthorizationError: There are no keys, and they cannot be fetched.
            WrongType: The token has a type that is not accepted.
        """
        try:
            head = self._jwt.get_unverified_header(token)
            self._check_type(head.get("typ", "JWT"))
            if head.get("alg") not in self._algorithms:
                return None
            for key in self._find(head):
                with suppress(self._jwt.InvalidSignatureError):
                    claims: Mapping[str, Json] = self._jwt.decode(
                        token,
                        key,
                        algorithms=[head["alg"]],
                        issuer=self._issuer,
                        leeway=SKEW_SECONDS,
                        options={"verify_aud": False, "require": ["exp", "iss"]},
                    )
                    return claims
        except self._jwt.PyJWTError as error:
            log.info("a token was rejected: %s", type(error).__name__)
        return None

    def _check_type(self, typ: Any) -> None:
        if _plain_type(typ) not in map(_plain_type, self._types):
            accepted = ", ".join(self._types)
            log.info(
                "a token was rejected: its typ is %s, and Bearer.jwt(typ=...) accepts %s",
                one_line(repr(typ), 60),
                accepted,
            )
            raise WrongType(f"the token type is not one of {accepted}")

    def _find(self, head: Mapping[str, Any]) -> list[Any]:
        """Return the keys that may have signed a token with this head.

        Only one thread at a time asks the issuer. Other threads use the known keys. Without a
        matching key they wait for that thread, unless the previous request has failed.

        Raises:
            AuthorizationError: The issuer has no usable keys.
            IssuerUnavailable: The issuer cannot be reached, or this thread does not wait for it.
        """
        found = self._matching(head)
        if self._is_fixed:
            return found
        is_mine = False
        with self._lock:
            running = self._running
            has_failed = self._is_failing
            elapsed = time.monotonic() - self._fetched_at
            if running is None and elapsed >= self._interval(bool(found)):
                running = self._running = threading.Event()
                is_mine = True
        if is_mine and running is not None:
            self._renew(running, head)
        elif found:
            return found
        elif running is not None and (has_failed or not running.wait(WAIT_SECONDS)):
            raise IssuerUnavailable(f"the keys of {self._issuer} are being fetched")
        found = self._matching(head)
        if self._is_failing and not found:
            raise IssuerUnavailable(f"the keys of {self._issuer} could not be fetched")
        return found

    def _interval(self, has_key: bool) -> float:
        """Return the minimum interval between two requests for keys, in seconds."""
        if self._is_failing:
            return MIN_INTERVAL_SECONDS if has_key else ISSUER_RETRY_SECONDS
        return CACHE_SECONDS if has_key else MIN_INTERVAL_SECONDS

    def _renew(self, running: threading.Event, head: Mapping[str, Any]) -> None:
        """Fetch the keys, and wake the threads that wait for them. See `_find` for the errors."""
        has_failed = True
        try:
            self._fetch()
            has_failed = False
        except McpError as error:
            if not self._matching(head):
                log.error("the keys of %s: %s", self._issuer, error)
                raise
            log.warning("the keys of %s could not be refreshed: %s", self._issuer, error)
        finally:
            with self._lock:
                self._is_failing = has_failed
                self._fetched_at = time.monotonic()
                self._running = None
            running.set()

    def _matching(self, head: Mapping[str, Any]) -> list[Any]:
        kid, alg = head.get("kid"), head["alg"]
        return [
            key
            for jwk, key in self._keys
            if jwk.get("kty") == _KINDS[alg[:2]]
            and jwk.get("alg") in (None, alg)
            and jwk.get("use") in (None, "sig")
            and (kid is None or jwk.get("kid") == kid)
        ]

    def _fetch(self) -> None:
        """Fetch the keys. See `_find` for the errors."""
        from ..http.fetch import AbortableRequest
        from .discovery import Exchange, authorization_server

        exchange = Exchange(self._issuer, True, None, AbortableRequest())
        try:
            url = self._url
            if url is None:
                metadata = authorization_server(exchange, self._issuer)
                url = exchange.checked(metadata.get("jwks_uri"), "jwks_uri")
            found, reason = exchange.document(url, named=self._url is not None)
        except McpError as error:
            raise IssuerUnavailable(str(error)) from None
        if found is None:
            raise AuthorizationError(f"the keys of {self._issuer}: {reason}")
        self._set_keys(found)

    def _set_keys(self, document: Mapping[str, Json]) -> None:
        """Replace the keys with the usable ones of a document.

        Raises:
            AuthorizationError: The document has no usable key.
        """
        given = document.get("keys")
        keys = []
        for each in given if isinstance(given, list) else ():
            with suppress(self._jwt.PyJWTError, TypeError, ValueError, AttributeError):
                keys.append((each, self._jwt.PyJWK(each).key))
        if not keys:
            raise AuthorizationError(f"{self._issuer} has no usable key")
        self._keys = keys


class Gate:
    """A context manager that limits requests to an issuer while they fail.

    After a failure it allows one request at a time, and one per `ISSUER_RETRY_SECONDS`.
    Thread-safe.

    Raises:
        IssuerUnavailable: The last request failed, and it is too early for another one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at: Optional[float] = None

    def __enter__(self) -> None:
        with self._lock:
            now = time.monotonic()
            if self._failed_at is not None:
                if now - self._failed_at < ISSUER_RETRY_SECONDS:
                    raise IssuerUnavailable("the last request to the issuer failed")
                self._failed_at = float("inf")  # block others until this request is finished

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        # Any other error is about a single token and must not affect other tokens.
        has_failed = kind is not None and issubclass(kind, IssuerUnavailable)
        with self._lock:
            self._failed_at = time.monotonic() if has_failed else None


def introspected(url: str, client_id: str, client_secret: str) -> Verify:
    """Return a verifier that asks the issuer about each token.

    Args:
        url, client_id, client_secret: See `Bearer.introspection`.

    Raises:
        TypeError, ValueError: The URL is not an https URL (or http on this machine).
    """
    check_url(url)
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}".encode()
    headers = {"Authorization": f"Basic {b64encode(pair).decode()}"}
    gate = Gate()

    def verify(token: str) -> Optional[Mapping[str, Json]]:
        from ..http.fetch import AbortableRequest
        from .discovery import Exchange, is_passing

        exchange = Exchange(url, True, None, AbortableRequest())
        form = {"token": token, "token_type_hint": "access_token"}
        with gate:
            try:
                status, _, answer = exchange.post(url, form, headers, named=True)
            except McpError as error:
                log.error("the introspection endpoint: %s", error)
                raise IssuerUnavailable("the introspection endpoint") from None
            if is_passing(status):
                log.error("the introspection endpoint: HTTP %s", status)
                raise IssuerUnavailable("the introspection endpoint")
            if status != 200:
                raise AuthorizationError(f"the introspection endpoint: HTTP {status}")
        return answer if answer.get("active") is True else None

    return verify
