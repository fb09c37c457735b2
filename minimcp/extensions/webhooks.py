"""`Webhooks`: how events are delivered by HTTP, with the signatures of Standard Webhooks and a
guarded POST.

A callback URL comes from a client, so it must not lead to machines that only the server can reach:
the name is resolved once, every address is checked, and the connection uses a checked address.
Redirects are not followed, proxies are not used, and no part of a response is passed on.
https://www.standardwebhooks.com
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Optional, Union
from urllib.parse import urlsplit

from ..auth.addresses import Reach, reach_of
from ..auth.shared import check_url
from ..engine.limits import check_number
from ..engine.timer import timer
from ..errors import AuthorizationError, InvalidParams
from ..protocol.messages import read_json
from ..record import FrozenRecord
from ..schema.mismatch import options_checked
from .event_types import SUBSCRIPTION_HEADER

# Names that Standard Webhooks defines.
PREFIX = "whsec_"
VERSION = "v1,"
ID_HEADER = "webhook-id"
TIME_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"

# The minimum and maximum number of bytes in a secret.
MIN_SECRET_BYTES = 24
MAX_SECRET_BYTES = 64

# Maximum depth of the JSON in a webhook.
MAX_DEPTH = 256

# The options that are times in seconds.
_SECONDS = ("default_ttl", "min_ttl", "max_ttl", "timeout")

# Maximum length of a callback URL.
MAX_URL = 2048

# Maximum number of bytes of a response that are read: an echoed challenge is short.
MAX_RESPONSE_BYTES = 4096


@options_checked
class Webhooks(FrozenRecord):
    """Delivery by webhook: ``Events(webhooks=Webhooks())``.

    Args:
        default_ttl: Seconds for which a subscription lasts if the client does not say.
        min_ttl: The minimum that a client can ask for, in seconds.
        max_ttl: The maximum, in seconds.
        endless: Whether a client may ask for a subscription without an end. The store must be a
            `SqliteStore` or `RedisStore`.
        allow_origins: Origins such as "https://hooks.example.com" that need no verification.
        private_addresses: Whether callback URLs may lead to addresses that are not public. Only for
            tests.
        retries: Seconds before each retry of a delivery that failed.
        timeout: Seconds for one attempt.
        in_flight: Maximum number of attempts at the same time for one host. Those for one client
            are limited to the fraction `Limits.client_share` of all.
        webhook_id: "event" to send the id of the event as ``webhook-id`` (a hash of it if it does
            not fit into a header), or "message" to send an id of the delivery.

    Raises:
        TypeError, ValueError: An argument has a wrong type or value.
    """

    default_ttl: float = 3600
    min_ttl: float = 300
    max_ttl: float = 86400
    endless: bool = False
    allow_origins: Sequence[str] = ()
    private_addresses: bool = False
    retries: Sequence[float] = (5, 30, 120, 480)
    timeout: float = 5
    in_flight: int = 8
    webhook_id: str = "event"

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in _SECONDS}
        numbers.update((f"retries[{index}]", each) for index, each in enumerate(self.retries))
        for name, value in numbers.items():
            check_number(name, value, least=0.001, whole=False, optional=False)
        check_number("in_flight", self.in_flight, least=1, optional=False)
        if not self.min_ttl <= self.default_ttl <= self.max_ttl:
            raise ValueError("default_ttl must be between min_ttl and max_ttl")
        if self.webhook_id not in ("event", "message"):
            raise ValueError(
                f'webhook_id must be "event" or "message", not {self.webhook_id!r:.60}'
            )
        for origin in self.allow_origins:
            check_url(origin, local_http=False)


def origin_of(url: str) -> str:
    """Return the origin of a URL in lower case."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def check_callback(url: Any) -> str:
    """Return a callback URL.

    Raises:
        InvalidParams: It is not an https URL, has a user name or a fragment, or is too long.
    """
    try:
        check_url(url, local_http=False)
    except (TypeError, ValueError) as error:
        raise InvalidParams(f"delivery.url: {error}") from None
    if len(url) > MAX_URL:
        raise InvalidParams(f"delivery.url must have at most {MAX_URL} characters")
    return str(url)


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
        AuthorizationError: A header is missing or wrong. The message contains neither the body nor
            a secret.
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


class PrivateAddress(OSError):
    """A callback URL leads to an address that is not public."""


class Posted(NamedTuple):
    """The outcome of one POST."""

    # The status of the response; 0 without one.
    status: int

    # The category of the failure, for clients; None if it succeeded.
    error: Optional[str]

    # The beginning of the body.
    body: bytes = b""


class _Connection(http.client.HTTPSConnection):
    """A connection to a checked address."""

    is_late = False

    def __init__(self, host: str, port: int, options: Webhooks) -> None:
        context = ssl.create_default_context()
        super().__init__(host, port, timeout=options.timeout, context=context)
        self._tls = context
        self._options = options

    def connect(self) -> None:
        """Resolve the name once, check every address, and connect to one of them.

        Raises:
            PrivateAddress: One of the addresses is not public.
        """
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        for each in found:
            is_public = reach_of(str(each[4][0])) == Reach.PUBLIC
            if not is_public and not self._options.private_addresses:
                raise PrivateAddress("the URL leads to an address that is not public")
        failed = OSError("the name has no address")
        for family, kind, protocol, _, address in found:
            plain = socket.socket(family, kind, protocol)
            try:
                plain.settimeout(self._options.timeout)
                plain.connect(address)
                self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
                if self.is_late:
                    raise socket.timeout
                return
            except OSError as error:
                plain.close()
                failed = error
                if self.is_late or isinstance(error, ssl.SSLError):
                    break
        raise failed

    def abort(self) -> None:
        """Wake the thread that reads or writes. Never blocks."""
        self.is_late = True
        if self.sock is not None:
            with suppress(OSError):  # it is closed already
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


def post(
    options: Webhooks,
    url: str,
    subscription: str,
    id: str,
    body: bytes,
    secrets: Sequence[str],
) -> Posted:
    """Send a signed webhook.

    Args:
        options: The options.
        url: The callback URL.
        subscription: The id of the subscription.
        id: The id of the message.
        body: The JSON of the message.
        secrets: The secrets; each signs the message.

    Raises:
        PrivateAddress: The URL leads to an address that is not public.
    """
    timestamp = str(int(time.time()))
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        ID_HEADER: id,
        TIME_HEADER: timestamp,
        SIGNATURE_HEADER: " ".join(sign(each, id, timestamp, body) for each in secrets),
        SUBSCRIPTION_HEADER: subscription,
    }
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _Connection(str(parts.hostname), parts.port or 443, options)
    forget = timer.after(options.timeout, connection.abort)
    try:
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        start = response.read(MAX_RESPONSE_BYTES)
    except PrivateAddress:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Posted(0, _category(error, connection.is_late))
    finally:
        forget()
        connection.close()
    if connection.is_late:
        return Posted(0, "timeout")
    if 200 <= response.status < 300:
        return Posted(response.status, None, start)
    return Posted(response.status, "http_5xx" if response.status >= 500 else "http_4xx")


def _category(error: Exception, is_late: bool) -> str:
    if is_late or isinstance(error, socket.timeout):
        return "timeout"
    return "tls_error" if isinstance(error, ssl.SSLError) else "connection_refused"
