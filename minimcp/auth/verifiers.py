"""Ready-made verifiers for `Bearer`: `JwtVerifier` by public keys, `Introspection` by asking.

https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
"""

from __future__ import annotations

import threading
import time
from typing import Any, Mapping, Optional, Sequence

from ..engine.pool import renewed_in_fork
from ..errors import AuthorizationError
from ..http.fetch import AbortableRequest, Fetcher
from .discovery import Exchange, authorization_server
from .dpop import jwt_package
from .tokens import Credentials

# Seconds after which keys are asked for again, and before which they are not, though a token names another one.
KEYS_SECONDS, PAUSE_SECONDS = 3600.0, 10.0

# Seconds by which the clocks of two machines may differ.
LEEWAY_SECONDS = 10


class _Issuer:
    """An authorization server that is asked, and the URL of one of its endpoints."""

    def __init__(self, issuer: str, url: Optional[str], member: str) -> None:
        Fetcher(url or issuer).close()  # it raises what would be raised later
        self._issuer, self._url, self._member = issuer, url, member

    def _exchange(self) -> Exchange:
        return Exchange(self._issuer, True, None, AbortableRequest())

    def _endpoint(self, exchange: Exchange) -> str:
        """Raises AuthorizationError: it does not say where that is."""
        if self._url is None:
            found = authorization_server(exchange, self._issuer).get(self._member)
            self._url = exchange.checked(found, f"the {self._member} of {self._issuer}")
        return self._url


class JwtVerifier(_Issuer):
    """Verifies JWTs by the keys of who signs them. Thread-safe.

    Args:
        resource: That ``aud`` has to name.
        issuer: That ``iss`` has to name.
        jwks_url: Where the keys are; None asks the issuer's metadata.
        algorithms: By which tokens may be signed.

    Raises:
        ImportError: There is no PyJWT[crypto], or no requests.
        ValueError: An algorithm is none with a public key.
    """

    def __init__(self, resource: str, issuer: str, jwks_url: Optional[str], algorithms: Sequence[str]) -> None:
        super().__init__(issuer, jwks_url, "jwks_uri")
        self._jwt = jwt_package()
        known = self._jwt.algorithms.requires_cryptography
        if isinstance(algorithms, str) or not algorithms or not known.issuperset(algorithms):
            raise ValueError(f"algorithms are some of {', '.join(sorted(known))}")
        self._resource, self._algorithms = resource, list(algorithms)
        self._keys: dict[Optional[str], Any] = {}
        self._asked_at = float("-inf")
        self.renew_in_fork()
        renewed_in_fork.add(self)

    def renew_in_fork(self) -> None:
        """Who holds the lock is in another process."""
        self._lock = threading.Lock()

    def __call__(self, token: str) -> Optional[Mapping[str, Any]]:
        """The claims of a token; None where it is not valid. Raises AuthorizationError: the keys cannot be had."""
        try:
            head = self._jwt.get_unverified_header(token)
            key = self._key(head.get("kid"))
            if key is None or head.get("crit"):
                return None
            claims: Mapping[str, Any] = self._jwt.decode(
                token, key, self._algorithms, audience=[self._resource, self._resource.rstrip("/")],
                issuer=self._issuer, leeway=LEEWAY_SECONDS, options={"require": ["exp", "iss", "aud"]},
            )
        except self._jwt.PyJWTError:
            return None
        return claims

    def _key(self, id: Optional[str]) -> Any:
        """The key of this id; None where there is none."""
        with self._lock:
            age = time.monotonic() - self._asked_at
            if age > KEYS_SECONDS or (id not in self._keys and age > PAUSE_SECONDS):
                exchange = self._exchange()
                document, why = exchange.document(self._endpoint(exchange))
                if document is None:
                    raise AuthorizationError(f"there are no keys: {why}")
                keys = self._jwt.PyJWKSet.from_dict(document).keys
                self._keys = {each.key_id: each.key for each in keys if each.public_key_use in (None, "sig")}
                self._asked_at = time.monotonic()
            if id is None and len(self._keys) == 1:
                return next(iter(self._keys.values()))
            return self._keys.get(id)


class Introspection(_Issuer):
    """Verifies tokens by asking who gave them. Thread-safe.

    Args:
        issuer: The authorization server.
        client_id, client_secret: As whom it is asked.
        url: Of its introspection endpoint; None asks its metadata.

    Raises:
        ImportError: There is no requests.
    """

    def __init__(self, issuer: str, client_id: str, client_secret: str, url: Optional[str]) -> None:
        super().__init__(issuer, url, "introspection_endpoint")
        self._headers, _ = Credentials(client_id, client_secret, method="client_secret_basic").prove({})

    def __call__(self, token: str) -> Optional[Mapping[str, Any]]:
        """What is said of a token; None where it is not valid. Raises AuthorizationError: nobody knows."""
        exchange = self._exchange()
        form = {"token": token, "token_type_hint": "access_token"}
        status, _, answer = exchange.post(self._endpoint(exchange), form, self._headers)
        if status != 200 or not isinstance(answer.get("active"), bool):
            raise AuthorizationError(f"introspection is answered with HTTP {status}, and does not say what is active")
        return {"iss": self._issuer, **answer} if answer["active"] else None
