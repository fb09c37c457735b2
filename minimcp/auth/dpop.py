"""Signatures of a client: assertions, and proofs that it has the key that a token is bound to
(DPoP, RFC 9449).

They need the package PyJWT[crypto].
"""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64encode
from contextlib import suppress
from hashlib import sha256
from secrets import token_urlsafe
from typing import Any, Mapping, Optional
from urllib.parse import urlsplit

from ..errors import AuthorizationError
from .shared import split

_NONCE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,1024}")


def jwt_package() -> Any:
    """The package PyJWT, with what public keys need. Raises ImportError: it is not there."""
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError as error:
        what = (
            "signatures need the package 'PyJWT[crypto]': install it with: pip install "
            "'PyJWT[crypto]'"
        )
        raise ImportError(what) from error
    return jwt


def sign(
    claims: Mapping[str, Any],
    private_key: Any,
    algorithm: str,
    head: Optional[Mapping[str, Any]] = None,
) -> str:
    """A JWT with these claims and an id. Raises AuthorizationError: the key is none. ImportError:
    as `jwt_package`."""
    jwt = jwt_package()
    try:
        return str(
            jwt.encode(
                {"jti": token_urlsafe(16), **claims},
                private_key,
                algorithm,
                headers=dict(head or {}),
            )
        )
    except Exception as error:  # of a key: its words may show it
        raise AuthorizationError(
            f"the private key cannot sign by {algorithm} ({type(error).__name__})"
        ) from None


class ProofKey:
    """A key of a client, and the nonces that servers want to see in its proofs. Thread-safe.

    Args:
        pem: The private key; None makes one.

    Raises:
        AuthorizationError: The key is none.
        ImportError: As `jwt_package`.
    """

    def __init__(self, pem: Optional[str] = None) -> None:
        jwt_package()
        from cryptography.hazmat.primitives import serialization as forms
        from cryptography.hazmat.primitives.asymmetric import ec

        key: Any = None
        with suppress(ValueError, TypeError):
            curve = ec.SECP256R1()
            key = (
                ec.generate_private_key(curve)
                if pem is None
                else forms.load_pem_private_key(pem.encode(), None)
            )
        if getattr(getattr(key, "curve", None), "name", "") != "secp256r1":
            raise AuthorizationError(
                "the key that the token is bound to is no key on the curve P-256"
            )
        self.pem = key.private_bytes(
            forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
        ).decode()
        public = key.public_key().public_numbers()
        point = {
            "x": _base64(public.x.to_bytes(32, "big")),
            "y": _base64(public.y.to_bytes(32, "big")),
        }
        self._head = {"typ": "dpop+jwt", "jwk": {"kty": "EC", "crv": "P-256", **point}}
        self._nonces: dict[str, str] = {}

    def proof(self, method: str, url: str, token: Optional[str] = None) -> str:
        """The header ``DPoP`` of one request.

        Args:
            method: Of the request.
            url: Where it goes; its query is not part of the proof.
            token: The access token that goes with it; None where one is asked for.
        """
        origin = split(url)[0]
        claims: dict[str, Any] = {
            "htm": method,
            "htu": f"{origin}{urlsplit(url).path}",
            "iat": int(time.time()),
        }
        if token is not None:
            claims["ath"] = _base64(sha256(token.encode()).digest())
        nonce = self._nonces.get(origin)
        if nonce is not None:
            claims["nonce"] = nonce
        return sign(claims, self.pem, "ES256", self._head)

    def note(self, url: str, headers: Mapping[str, str]) -> bool:
        """Keep the nonce of a response for the next proof; whether it is another one than
        before."""
        origin, nonce = split(url)[0], headers.get("DPoP-Nonce")
        if nonce is None or nonce == self._nonces.get(origin) or not _NONCE.fullmatch(nonce):
            return False
        self._nonces[origin] = nonce
        return True


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
