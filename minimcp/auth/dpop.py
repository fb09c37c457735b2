"""Signatures of a client: assertions, and proofs that it has the key that a token is bound to
(DPoP, RFC 9449).

This module needs the package PyJWT[crypto].
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
    """Return the package PyJWT.

    Raises:
        ImportError: PyJWT or cryptography, which it needs for public keys, is not installed.
    """
    try:
        import cryptography  # noqa: F401
        import jwt
    except ImportError as error:
        raise ImportError(
            "signatures need the package 'PyJWT[crypto]': install it with: pip install "
            "'PyJWT[crypto]'"
        ) from error
    return jwt


def sign(
    claims: Mapping[str, Any],
    private_key: Any,
    algorithm: str,
    head: Optional[Mapping[str, Any]] = None,
) -> str:
    """Return a signed JWT with these claims and a random id.

    Args:
        claims: The claims.
        private_key: The key, as PEM or an object of the package cryptography.
        algorithm: The name of the signature algorithm.
        head: Headers of the JWT in addition to the usual ones.

    Raises:
        AuthorizationError: The key cannot be used with the algorithm.
        ImportError: See `jwt_package`.
    """
    jwt = jwt_package()
    claims = {"jti": token_urlsafe(16), **claims}
    try:
        return str(jwt.encode(claims, private_key, algorithm, headers=dict(head or {})))
    except Exception as error:  # its message may quote the key
        raise AuthorizationError(
            f"the private key cannot sign with {algorithm} ({type(error).__name__})"
        ) from None


class ProofKey:
    """A client's key, and the nonces that servers require in its proofs. Thread-safe.

    Args:
        pem: The private key; if None, one is generated.

    Raises:
        AuthorizationError: The text is not a private key on the curve P-256.
        ImportError: See `jwt_package`.
    """

    def __init__(self, pem: Optional[str] = None) -> None:
        jwt_package()
        from cryptography.hazmat.primitives import serialization as forms
        from cryptography.hazmat.primitives.asymmetric import ec

        key: Any = None
        with suppress(ValueError, TypeError):
            if pem is None:
                key = ec.generate_private_key(ec.SECP256R1())
            else:
                key = forms.load_pem_private_key(pem.encode(), None)
        if getattr(getattr(key, "curve", None), "name", "") != "secp256r1":
            raise AuthorizationError("the key that the token is bound to is not a P-256 key")
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
        """Return the header ``DPoP`` for a request.

        Args:
            method: The method of the request.
            url: The URL of the request; its query is not part of the proof.
            token: The access token of the request; None for a request that obtains one.
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
        """Keep the nonce of a response for the next proof. Return whether it is a new one."""
        origin = split(url)[0]
        nonce = headers.get("DPoP-Nonce")
        if nonce is None or nonce == self._nonces.get(origin) or not _NONCE.fullmatch(nonce):
            return False
        self._nonces[origin] = nonce
        return True


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
