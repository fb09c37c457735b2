"""Signatures of webhooks, as Standard Webhooks defines them: `sign` and `verify_webhook`.

https://www.standardwebhooks.com
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from ..errors import AuthorizationError
from ..protocol.messages import read_json

PREFIX = "whsec_"
VERSION = "v1,"
ID_HEADER = "webhook-id"
TIME_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

# The number of bytes of a secret.
MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64

# Maximum depth of the JSON in a webhook.
MAX_DEPTH = 256


def key_of(secret: Any) -> Optional[bytes]:
    """Return the key of a secret, or None if it is not a secret of Standard Webhooks."""
    if not isinstance(secret, str) or not secret.startswith(PREFIX):
        return None
    text = secret[len(PREFIX) :]
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    is_exact = base64.b64encode(key).decode() == text
    return key if is_exact and MIN_SECRET_BYTES <= len(key) <= MAX_SECRET_BYTES else None


def sign(secret: str, id: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a webhook: ``v1,...``. Raises ValueError for an invalid secret."""
    key = key_of(secret)
    if key is None:
        raise ValueError(f"a secret must be {PREFIX} and the base64 of 24 to 64 bytes")
    signed = b".".join((id.encode(), timestamp.encode(), body))
    return VERSION + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Union[str, Iterable[str]],
    *,
    tolerance: float = 300,
) -> dict[str, Any]:
    """Check the signature and the time of a webhook, and return its JSON object.

    The caller discards duplicates, by ``eventId``. Thread-safe.

    Args:
        headers: The headers of the request; their case does not matter.
        body: The body, exactly as received.
        secrets: The secret (``whsec_...``), or several of which one must match.
        tolerance: Maximum difference between the time of the signature and now, in seconds.

    Raises:
        AuthorizationError: A header is missing or wrong. The message has neither the body nor a
            secret.
        TypeError: The body is not bytes.
        ValueError: A secret is invalid.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"body must be the bytes of the request, not {type(body).__name__}")
    given = {name.lower(): value for name, value in headers.items()}
    id = given.get(ID_HEADER, "")
    timestamp = given.get(TIME_HEADER, "")
    if not id or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) < 13):
        raise AuthorizationError(f"a webhook must have {ID_HEADER} and {TIME_HEADER}")
    if abs(time.time() - int(timestamp)) > tolerance:
        raise AuthorizationError(f"the {TIME_HEADER} is more than {tolerance:g} s off")
    known = [secrets] if isinstance(secrets, str) else secrets
    expected = [sign(secret, id, timestamp, body).encode() for secret in known]
    signatures = given.get(SIGNATURE_HEADER, "").encode(errors="replace").split()
    if not any(hmac.compare_digest(each, made) for each in signatures for made in expected):
        raise AuthorizationError(f"the {SIGNATURE_HEADER} does not match")
    try:
        found = read_json(body, max_depth=MAX_DEPTH)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AuthorizationError("the body of a webhook must be a JSON object")
    return found
