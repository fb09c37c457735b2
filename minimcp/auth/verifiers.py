"""What verifies the tokens of a `Bearer`: fixed ones, JWTs with a key set, and introspection.

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
    list_of_text,
)

log = logger("minimcp.auth")

# How long keys are kept, how long at least before others are asked for, and by how much clocks may
# differ.
KEPT_SECONDS, AGAIN_SECONDS, SKEW_SECONDS = 300.0, 10.0, 30.0

# Seconds after which an issuer is asked again that did not respond, or responded with an error.
ISSUER_RETRY_SECONDS = 1.0

# As long as no request to an issuer has failed, a request for which there is no key waits for the
# one that asks, at most so long.
FIRST_SECONDS = 2.0

# The kind of key that an algorithm takes, by its first letters.
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


def fixed(
    tokens: Union[str, Mapping[str, Mapping[str, Json]]], common: Mapping[str, Json]
) -> Verify:
    """Takes the tokens that there are, and tells them in constant time from others.

    Args:
        tokens: One, or several with their claims.
        common: Claims of all; those of a token come first, but for ``aud``.

    Raises:
        ValueError: A token cannot stand in a header, or there is none.
        TypeError: They are something else.
    """
    from hmac import compare_digest  # brings OpenSSL in

    given = {tokens: {}} if isinstance(tokens, str) else tokens
    if not isinstance(given, Mapping) or not all(
        isinstance(claims, Mapping) for claims in given.values()
    ):
        raise TypeError(
            'a token, or a mapping of tokens to their claims: {"kW9...": {"sub": "ada"}}'
        )
    if not given or not all(
        isinstance(token, str) and re.fullmatch(r"[\w\-.~+/]+=*", token, re.A) for token in given
    ):
        raise ValueError(
            "a token has letters, digits and -._~+/ and no others: make one by "
            "secrets.token_urlsafe(32)"
        )
    known = [
        (token.encode(), {**common, **claims, "aud": common["aud"]})
        for token, claims in given.items()
    ]

    def verify(token: str) -> Optional[Mapping[str, Json]]:
        asked, found = token.encode(), None
        for each, claims in known:  # all of them, however early one is found
            if compare_digest(each, asked):
                found = claims
        return found

    return verify


# A media type, or its name below ``application/`` (RFC 6838, 4.2).
_MEDIA_TYPE = r"(?:[A-Za-z0-9!#$&^_.+\-]+/)?[A-Za-z0-9!#$&^_.+\-]+"


def _plain_type(typ: Any) -> Any:
    """Write the type of a JWT in one way (RFC 7515, 4.1.9)."""
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else None


class KeySet:
    """The public keys of who signs tokens, asked for when a token needs them. Thread-safe.

    Args:
        issuer, keys, algorithms, typ: As of `Bearer.jwt`.

    Raises:
        ImportError, TypeError, ValueError: As of `Bearer.jwt`.
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
                f"algorithms are of {', '.join(ALGORITHMS)}: not {', '.join(sorted(unknown))}"
            )
        self._issuer = issuer
        self._algorithms = list(algorithms)
        self._types = [typ] if isinstance(typ, str) else list_of_text(typ, "typ")
        if not self._types or not all(re.fullmatch(_MEDIA_TYPE, each) for each in self._types):
            raise ValueError(
                f'typ names the accepted types, such as ("at+jwt", "JWT"), and not {typ!r:.100}'
            )
        self._url = keys if isinstance(keys, str) else None
        # Each as it came, and as PyJWT has it.
        self._keys: list[tuple[Mapping[str, Json], Any]] = []
        self._asked_at = float("-inf")
        self._is_failing = False
        self._is_fixed = isinstance(keys, Mapping)
        self._lock = threading.Lock()
        # Set when the request that runs now has ended; None if none runs.
        self._running: Optional[threading.Event] = None
        if isinstance(keys, Mapping):
            self._take(keys)

    def verify(self, token: str) -> Optional[Mapping[str, Json]]:
        """The claims of a token; None where it is not the issuer's, or not valid now. Blocks: while
        keys are asked for.

        Raises:
            AuthorizationError: There are no keys, and none can be had.
            WrongType: It is of a type that is not accepted.
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
            log.info("a token is refused: %s", type(error).__name__)
        return None

    def _check_type(self, typ: Any) -> None:
        if _plain_type(typ) not in map(_plain_type, self._types):
            wanted = ", ".join(self._types)
            log.info(
                "a token is refused: its typ is %s, and Bearer.jwt(typ=...) accepts %s",
                one_line(repr(typ), 60),
                wanted,
            )
            raise WrongType(f"the type of the token is none of {wanted}")

    def _find(self, head: Mapping[str, Any]) -> list[Any]:
        """Return the keys that may have signed what has this head.

        Only one thread asks the issuer. The others use the keys that there are; without a key they
        wait for that thread, but not if the request before has failed.

        Raises:
            AuthorizationError: The issuer has no usable keys.
            IssuerUnavailable: It cannot be reached, or this request does not wait for it.
        """
        found = self._matching(head)
        if self._is_fixed:
            return found
        is_mine = False
        with self._lock:
            running = self._running
            has_failed = self._is_failing
            if running is None and time.monotonic() - self._asked_at >= self._pause(bool(found)):
                running = self._running = threading.Event()
                is_mine = True
        if is_mine and running is not None:
            self._renew(running, head)
        elif found:
            return found
        elif running is not None and (has_failed or not running.wait(FIRST_SECONDS)):
            raise IssuerUnavailable(f"the keys of {self._issuer} are being asked for")
        found = self._matching(head)
        if self._is_failing and not found:
            raise IssuerUnavailable(f"the keys of {self._issuer} could not be had")
        return found

    def _pause(self, has_key: bool) -> float:
        """Return the seconds between two requests for keys."""
        if self._is_failing:
            return AGAIN_SECONDS if has_key else ISSUER_RETRY_SECONDS
        return KEPT_SECONDS if has_key else AGAIN_SECONDS

    def _renew(self, running: threading.Event, head: Mapping[str, Any]) -> None:
        """Ask for the keys, and wake the threads that wait for that. Errors as `_find`."""
        has_failed = True
        try:
            self._ask()
            has_failed = False
        except McpError as error:
            if not self._matching(head):
                log.error("the keys of %s: %s", self._issuer, error)
                raise
            log.warning("the keys of %s are those of before: %s", self._issuer, error)
        finally:
            with self._lock:
                self._is_failing = has_failed
                self._asked_at = time.monotonic()
                self._running = None
            running.set()

    def _matching(self, head: Mapping[str, Any]) -> list[Any]:
        kid, alg = head.get("kid"), head["alg"]
        return [
            key for said, key in self._keys
            if said.get("kty") == _KINDS[alg[:2]] and said.get("alg") in (None, alg)
            and said.get("use") in (None, "sig") and (kid is None or said.get("kid") == kid)
        ]  # fmt: skip

    def _ask(self) -> None:
        """Ask for the keys. Errors as `_find`."""
        from ..http.fetch import AbortableRequest
        from .discovery import Exchange, authorization_server

        exchange = Exchange(self._issuer, True, None, AbortableRequest())
        try:
            url = self._url or exchange.checked(
                authorization_server(exchange, self._issuer).get("jwks_uri"), "jwks_uri"
            )
            found, why = exchange.document(url, named=self._url is not None)
        except McpError as error:
            raise IssuerUnavailable(str(error)) from None
        if found is None:
            raise AuthorizationError(f"the keys of {self._issuer}: {why}")
        self._take(found)

    def _take(self, document: Mapping[str, Json]) -> None:
        """Take the keys of a document that can be used. Raises AuthorizationError: there is
        none."""
        given, keys = document.get("keys"), []
        for each in given if isinstance(given, list) else ():
            with suppress(self._jwt.PyJWTError, TypeError, ValueError, AttributeError):
                keys.append((each, self._jwt.PyJWK(each).key))
        if not keys:
            raise AuthorizationError(f"there is no key of {self._issuer} that can be used")
        self._keys = keys


class Gate:
    """Limits the requests to an issuer while it fails: one at a time, and one per
    `ISSUER_RETRY_SECONDS`. Thread-safe.

    Usable with ``with``, around a request.

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
                self._failed_at = float("inf")  # until this one has ended

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        # another error is about one token, and must not affect the others
        has_failed = kind is not None and issubclass(kind, IssuerUnavailable)
        with self._lock:
            self._failed_at = time.monotonic() if has_failed else None


def introspected(url: str, client_id: str, client_secret: str) -> Verify:
    """Asks the issuer about each token.

    Args:
        url, client_id, client_secret: As of `Bearer.introspection`.

    Raises:
        TypeError, ValueError: The URL is none that may be asked.
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
                status, _, said = exchange.post(url, form, headers, named=True)
            except McpError as error:
                log.error("the introspection endpoint: %s", error)
                raise IssuerUnavailable("the introspection endpoint") from None
            if is_passing(status):
                log.error("the introspection endpoint: HTTP %s", status)
                raise IssuerUnavailable("the introspection endpoint")
            if status != 200:
                raise AuthorizationError(f"the introspection endpoint: HTTP {status}")
        return said if said.get("active") is True else None

    return verify
