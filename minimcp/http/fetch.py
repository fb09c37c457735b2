"""`Fetcher`: HTTP requests to one server, which any thread may abort.

This is the only module that uses `requests`. That library provides what its users know: proxies, CA
bundles, certificates, auth objects and cookies. The requests themselves use the connection pools of
`urllib3` directly, which takes a third of the time. After the connection is made, a request has no
timeout of its own. The caller has a deadline and calls `AbortableRequest.abort`, so that a peer
cannot delay the end by sending single bytes. Compressed responses are rejected, because the request
does not allow them.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import sys
import threading
import time
from base64 import b64decode
from contextlib import closing, suppress
from hashlib import sha256
from html import escape
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urljoin, urlsplit

from .. import __version__
from ..engine.pool import renewed_in_fork
from ..engine.timer import NEVER, Deadline
from ..errors import (
    AuthorizationError,
    ConnectionFailed,
    ConnectionLost,
    McpError,
    ProtocolViolation,
)
from ..protocol.urls import parse_web_url
from ..text import describe, one_line

# Time limit for TCP, a proxy's tunnel and TLS.
CONNECT_SECONDS = 10.0

# How long a connection may be idle and still be reused. Servers close idle connections, some after
# 2 s. A request that is sent at that moment is lost. It cannot be repeated, because the client does
# not know whether the server has run it.
KEPT_SECONDS = 1.5

# Maximum number of connections that are kept open for the next request.
MAX_KEPT = 256

# Maximum number of characters of all cookies of a server. If they have more, all are dropped.
COOKIE_CHARACTERS = 64 * 1024

# Maximum number of bytes that one call reads.
PIECE_BYTES = 256 * 1024

NEEDS_REQUESTS = (
    "connecting to a URL needs the package 'requests': install it with: pip install requests"
)

# Headers that users cannot set.
OWN_HEADERS = frozenset(
    {"accept", "content-type", "content-length", "host", "connection", "accept-encoding", "te"}
)

# None, a bearer token, a callable that returns one, an AuthBase of `requests`, or an object such as
# `SignIn`.
Auth = Any

# Names among the proxies of the environment whose values are hosts that need no proxy.
NO_PROXY = frozenset({"no", "no_proxy"})

# Characters that would end a header, or cannot be encoded in one.
_UNSENDABLE = re.compile("[\\r\\n\\0]|[^\\x00-\\xff]")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")

# Headers whose values are masked in messages even if they are short.
_CREDENTIAL = re.compile("(?i)auth|key|token|secret|cookie|pass|session|signature|credential")

# A value with fewer characters is not masked, because it occurs in unrelated words.
MIN_MASKED = 8

# The same for a value that is known to be a credential.
MIN_CREDENTIAL_MASKED = 4

# Maximum number of tokens that are masked in a server's messages. The most recent ones are kept.
MAX_REMEMBERED = 64

MASK = "..."

# Maximum number of times that one request is sent, each time with another token.
MAX_SENDS = 5

# The likely cause if no connection can be made, by a word of the error.
LIKELY = {
    "WRONG_VERSION_NUMBER": ": does the server use http, not https?",
    "CERTIFICATE_VERIFY_FAILED": ": to trust its certificate, pass connect(..., verify='ca.pem') "
    "(--cacert ca.pem); to trust those of the operating system, install truststore",
    "Connection refused": ": nothing is listening there: is the server running, and is this "
    "its port?",
}

# The attribute ``request`` is the `AbortableRequest` that this thread is sending.
current = threading.local()


class AbortableRequest:
    """One HTTP request, from before it is sent until its response is read.

    Any thread may abort it.

    Args:
        deadline: The caller's deadline. It is paused while a person signs in.
        allowed: Returns whether the request may connect to an IP address; if None, all are allowed.
            It is not called for proxies.

    Attributes:
        address: The peer's IP address on the connection of the last response. Empty before the
            first response, and if the connection uses a proxy or a unix socket.
    """

    def __init__(
        self, deadline: Deadline = NEVER, allowed: Optional[Callable[[str], bool]] = None
    ) -> None:
        self.deadline = deadline
        self.allowed = allowed
        self.address = ""
        self.aborted = threading.Event()
        # The connection that it uses. By now that may serve another request.
        self.connection: Any = None
        # A request for a token that must be answered before this one is sent.
        self.first: Optional[AbortableRequest] = None

    def abort(self) -> None:
        """Make the thread of the request raise ConnectionLost. Idempotent; never blocks."""
        self.aborted.set()
        for each in (self.connection, self.first):
            if each is not None:
                each.abort_for(self)

    def abort_for(self, request: AbortableRequest) -> None:
        """Abort this request, because a request that waits for it is aborted."""
        self.abort()


class NotConnected(Exception):
    """No connection could be made. The cause says why."""


_Mixed: Any = object


class AbortableConnection(_Mixed):
    """A mixin for the connections of `urllib3`. Any thread can wake the one that reads or writes.

    Shutting a socket down wakes that thread, closing the socket does not. The connection may serve
    another request by then. Therefore it has an owner, and only aborting the owner shuts it down.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        # Reentrant, because a signal handler may abort while its own thread is aborting.
        self._lock = threading.RLock()
        self._owner: Optional[AbortableRequest] = None
        # The socket, from its creation until it is closed. ``sock`` is set later, and is None while
        # the last response of the connection is read. During the TLS handshake this is a duplicate.
        self._socket: Any = None
        self._idle_since = float("inf")
        # The peer's address, from the connected socket. Empty if the peer is a proxy.
        self._address = ""
        # Whether the response may be followed by bytes that do not belong to any response.
        self.has_leftover = False
        renewed_in_fork.add(self)

    def belong_to(self, owner: Optional[AbortableRequest]) -> None:
        """Serve this request from now on, or be idle (None)."""
        with self._lock:
            self._owner = owner
        if owner is None:
            self._idle_since = time.monotonic()
            if self.sock is not None:
                # `FetchResponse.read_rest` may have set a timeout.
                self.sock.settimeout(None)
            return
        if time.monotonic() - self._idle_since > KEPT_SECONDS:
            self.close()
        owner.connection = self
        if owner.aborted.is_set():
            self.abort_for(owner)

    def abort_for(self, request: AbortableRequest) -> None:
        """Shut the socket down if the connection still serves this request."""
        with self._lock:
            if self._owner is request:
                with suppress(OSError, TypeError):  # the socket is not connected
                    # `SSLSocket.shutdown` would remove TLS: bytes after it would not be encrypted.
                    socket.socket.shutdown(
                        getattr(self._socket, "socket", self._socket), socket.SHUT_RDWR
                    )

    def connect(self) -> None:
        """Connect. Raises NotConnected."""
        self._address = ""
        try:
            super().connect()
            self._check()
        except Exception as error:
            raise NotConnected from error
        finally:
            with self._lock:
                first = self._socket
                self._socket = self.sock
            if first is not None and first is not self.sock:
                first.close()

    def _check(self) -> None:
        if self._owner is not None and self._owner.aborted.is_set():
            raise OSError("aborted while connecting")

    def _new_conn(self) -> Any:
        """Return a connected socket, like `socket.create_connection`.

        `_socket` is set before the socket connects, so that another thread can shut it down.
        """
        if hasattr(self, "_socks_options"):  # a SOCKS proxy makes the connection
            return super()._new_conn()
        failed = OSError("the host name has no address")
        found = socket.getaddrinfo(self._dns_host.strip("[]"), self.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            self._check_address(str(address[0]))
            sock = self._socket = socket.socket(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.settimeout(self.timeout)
                self._check()
                sock.connect(address)
                self._note_peer(sock)
                self._socket = sock.dup()  # TLS detaches the descriptor of `sock`
                self._check()
                return sock
            except OSError as error:
                sock.close()
                failed = error
            self._check()
        raise failed

    def _check_address(self, address: str) -> None:
        allowed = None
        if self._owner is not None and not getattr(self, "proxy", None):
            allowed = self._owner.allowed
        if allowed is not None and not allowed(address):
            raise OSError(f"{address} is in a private network, but the server is not")

    def _note_peer(self, sock: socket.socket) -> None:
        """Check and record the address that the socket is connected to."""
        if not getattr(self, "proxy", None):
            self._address = str(sock.getpeername()[0])
            self._check_address(self._address)

    def getresponse(self, *args: Any, **keywords: Any) -> Any:
        """Return the response, and record the peer's address in the request."""
        response = super().getresponse(*args, **keywords)
        if self._owner is not None:
            self._owner.address = self._address
        # Some servers send a body with 204. It would be parsed as the next response.
        announced = response.headers.get("Content-Length", "0")
        is_framed = announced != "0" or "Transfer-Encoding" in response.headers
        self.has_leftover = response.status == 204 and is_framed
        return response

    def request(self, *args: Any, **keywords: Any) -> None:
        """Send a request, head and body in one piece."""
        pieces: list[bytes] = []
        self.send = pieces.append
        try:
            super().request(*args, **keywords)
        finally:
            del self.send
        self.send(b"".join(pieces))

    def renew_in_fork(self) -> None:
        """Close the socket in a forked process without sending anything to the server."""
        self._lock = threading.RLock()
        sock = getattr(self._socket, "socket", self._socket)
        if sock is not None and sock.fileno() >= 0:
            os.close(sock.detach())


class KeptPool(_Mixed):
    """A mixin for the pools of `urllib3`: a request owns the connection that it uses."""

    def _get_conn(self, *args: Any, **keywords: Any) -> Any:
        connection = super()._get_conn(*args, **keywords)
        connection.belong_to(current.request)
        return connection

    def _put_conn(self, connection: Any) -> None:
        if connection is not None:
            if connection.has_leftover:
                connection.close()
                connection.has_leftover = False
            connection.belong_to(None)
        super()._put_conn(connection)


class FetchResponse:
    """The head of a response, and a reader of its body. For one thread at a time.

    Args:
        where: Method and URL of the request, for messages.
        raw: The response of `urllib3`.
        masked: Replaces the secrets that were sent to the server in a text from it.

    Attributes:
        status: The status.
        headers: The headers. Names are case-insensitive.
        cut: The error that ended `start` too early; None without one.
    """

    def __init__(self, where: str, raw: Any, masked: Callable[[str], str] = str) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self.cut: Optional[McpError] = None
        self._where = where
        self._raw = raw
        self._masked = masked
        # Bytes of the body that were read and not returned yet.
        self._ahead = bytearray()

    def read(self) -> bytes:
        """Wait for bytes of the body and return them; empty at its end.

        Raises:
            ConnectionLost: The body ends too early.
            ProtocolViolation: The body is compressed, which the request did not allow.
        """
        encoding = self.headers.get("Content-Encoding", "identity")
        if encoding.lower() not in ("", "identity"):
            raise ProtocolViolation(
                f"{self._where}: the body is compressed ({one_line(self._masked(encoding))}), "
                "which the request did not allow"
            )
        try:
            return bytes(self._raw.read1(PIECE_BYTES))
        except Exception as error:
            told = self._masked(first_words(error))
            raise ConnectionLost(f"{self._where}: the body ends too early: {told}") from None

    def _collect(self, limit: int, deadline: Deadline = NEVER) -> bytearray:
        """Read the body up to about `limit` bytes or until the deadline, and return it."""
        # Not a list of pieces: a peer may send single bytes, and each would be an object.
        found = self._ahead
        self._ahead = bytearray()
        piece = b"x"
        try:
            while piece and len(found) < limit and not deadline.expired:
                piece = self.read()
                found += piece
        except McpError as error:
            self.cut = error
        return found

    def start(self, limit: int, pause: Optional[float] = None) -> bytes:
        """Return the beginning of the body, as much as could be read.

        Args:
            limit: The maximum number of bytes.
            pause: Maximum number of seconds to read; None means no limit.
        """
        if pause is not None:
            self._bound_pauses(pause)
        found = self._collect(limit, Deadline(pause))
        self._ahead = found[limit:]
        return bytes(found[:limit])

    def body(self, limit: Optional[int]) -> bytes:
        """Return the whole body.

        Args:
            limit: Its maximum size in bytes; None means no limit.

        Raises:
            ConnectionLost: The body ends too early.
            ProtocolViolation: The body is longer than the limit, or compressed.
        """
        most = sys.maxsize - 1 if limit is None else limit
        announced = self.headers.get("Content-Length", "")
        is_long = announced.isdecimal() and int(announced[:20]) > most
        found = bytearray() if is_long else self._collect(most + 1)
        if is_long or len(found) > most:
            found.clear()  # a caller may keep the exception, whose traceback refers to this
            raise ProtocolViolation(
                f"{self._where}: the body is longer than {limit} bytes (Limits.message_bytes)"
            )
        if self.cut is not None:
            raise self.cut
        return bytes(found)

    def read_rest(self, seconds: float) -> None:
        """Read the end of the body if it arrives soon, so that the connection can be reused."""
        self._bound_pauses(seconds)
        with suppress(Exception):  # `close` then closes the connection
            self._raw.read1(PIECE_BYTES)

    def _bound_pauses(self, seconds: float) -> None:
        """Make reads fail after this number of seconds without a byte."""
        with suppress(Exception):  # the body was read, and the connection is released
            self._raw.connection._socket.settimeout(seconds)

    def close(self) -> None:
        """Release the connection, or close it if the body was not read to its end. Never raises."""
        with suppress(Exception):  # a peer that has disconnected causes many kinds of exceptions
            self._raw.close()


class StoredAuth:
    """The token that ``minimcp login`` has stored, shared by all connections to one server.

    The package `minimcp.auth` is imported, and the token file is read, when the server first
    returns 401. Thread-safe.
    """

    def authorizer(self, url: str) -> Any:
        """Return the object that authorizes requests to a server; None if auth/ is missing."""
        try:
            from ..auth.signin import StoredToken
        except ImportError:
            return None
        # `setdefault` is atomic, so two threads that both get 401 share one object.
        return vars(self).setdefault("_grant", StoredToken()).for_server(url)


class Fetcher:
    """Sends requests to one server. Thread-safe.

    Redirects with status 307 or 308 to the same origin are followed once and remembered. All other
    redirects are returned as responses. No message shows the value of a header, a token or a proxy.

    Args:
        url: The server's URL. Other URLs must have the same origin.
        headers, auth, verify, cert, proxies: See `HttpServer`.
        redirects: Whether redirects are followed.
        cookies: The cookie jar of another `Fetcher` for the same origin; if None, a new one is
            created.
        stored: Authorizes requests after the server has returned 401; if None, the 401 is returned
            as it is.

    Attributes:
        settings: The keyword arguments of an `Exchange` for requests that get a token for this
            server.

    Raises:
        ImportError: The package `requests` is not installed.
        TypeError: A header, or ``auth``, has the wrong type.
        ValueError: The URL, a proxy or a certificate cannot be used.
        ConnectionFailed: A header or the token cannot be sent.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        auth: Auth = None,
        verify: Union[bool, str, None] = None,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
        redirects: bool = True,
        cookies: Any = None,
        stored: Optional[StoredAuth] = None,
    ) -> None:
        try:
            import requests
            from requests.auth import AuthBase
            from urllib3 import Retry, Timeout
        except ImportError as error:
            raise ImportError(NEEDS_REQUESTS) from error
        self._no_retries = Retry(False, redirect=False)
        self._timeout = Timeout(connect=CONNECT_SECONDS, read=None)
        self.shown = without_secrets(url)
        self._requests = requests
        self._url = url
        self._auth = auth
        self._has_auth_object = isinstance(auth, AuthBase)
        self._redirects = redirects
        self._stored = stored
        self._authorizer: Any = None
        if hasattr(auth, "for_server"):
            self._auth = None
            self._authorizer = auth.for_server(url)
        elif auth is not None and not isinstance(auth, str) and not callable(auth):
            what = (
                "None, a bearer token (a str), a callable that returns one, an AuthBase or a SignIn"
            )
            raise TypeError(f"auth must be {what}, not {type(auth).__name__}")
        self._session = requests.Session()
        if cookies is not None:
            self._session.cookies = cookies
        try:
            if isinstance(auth, str):
                self._auth = clean_token(auth)
            cleaned = clean_headers(headers or {})
        except ValueError as error:
            raise ConnectionFailed(f"{self.shown}: cannot be sent: {error}") from None
        given = {name: value for name, value in cleaned.items() if name.lower() not in OWN_HEADERS}
        self._settings = self._session.merge_environment_settings(
            url, dict(proxies or {}), True, verify, cert
        )
        is_default = verify is None and self._settings["verify"] is True
        self._adapter = _adapter(_system_trust() if is_default else None)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._adapter)
        self._settings["proxies"] = self._clean_proxies(self._settings["proxies"])
        # The proxy to the server, for messages; empty without one.
        self.route = proxy_in_words(url, self._settings["proxies"], proxies)
        self._bundle = bundle_in_words(self._settings["verify"], verify)
        self._pools: dict[str, tuple[Any, str]] = {}
        self._moved: dict[str, str] = {}
        try:
            authorization = self._prepared("GET", url).headers.get("Authorization")
            self._pool(url)
        except (requests.RequestException, OSError, ValueError) as error:
            raise ValueError(f"{self.shown}: {first_words(error)}{self._bundle}") from None
        if authorization is not None:  # the URL contains a user name
            given["Authorization"] = authorization
        self._headers = {"User-Agent": f"minimcp/{__version__}", **given}
        # What `masked` removes: the headers of every request, and the credentials sent last.
        self._secrets = {
            *url_secrets(url),
            *[secret for name in given for secret in header_secrets(name, given[name])],
            *[
                secret
                for name, proxy in self._settings["proxies"].items()
                if name not in NO_PROXY
                for secret in url_secrets(proxy)
            ],
        }
        self._remembered: dict[str, None] = {}
        self.settings = {
            "headers": given,
            "verify": verify,
            "cert": cert,
            "proxies": proxies,
            "cookies": self._session.cookies,
        }

    def send(
        self,
        request: AbortableRequest,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        url: Optional[str] = None,
    ) -> FetchResponse:
        """Send a request and wait for the head of its response.

        Args:
            request: The object with which another thread may abort the request.
            method: The method, in upper case.
            headers: Additional headers of this request.
            body: The body; None means no body.
            url: Another URL of this server; None means the server's URL.

        Raises:
            ConnectionFailed: No connection could be made within `CONNECT_SECONDS`; nothing was
                sent.
            ConnectionLost: The connection broke before the response, or `request` was aborted.
            AuthorizationError: The callable or the AuthBase raised an exception.

        Blocks until the head of the response arrives.
        """
        url = url or self._url
        authorizer = self._authorizer
        if authorizer is None and self._stored is None:
            return self._send(request, method, headers, body, url)
        for left in reversed(range(MAX_SENDS)):
            sent = {}
            if authorizer is not None:
                sent = authorizer.authorize(method, url, request, self.settings)
            response = self._send(request, method, {**headers, **sent}, body, url)
            try:
                if authorizer is None:
                    authorizer = self._stored_authorizer(response)
                again = left and authorizer is not None
                if again:
                    again = authorizer.answered(
                        response.status, response.headers, sent, request, self.settings
                    )
            except BaseException:
                response.close()
                raise
            if not again:
                break
            with closing(response):
                response.start(PIECE_BYTES)
        return response

    def _stored_authorizer(self, response: FetchResponse) -> Any:
        """Return the object that authorizes requests, or None if the server requires no token."""
        if response.status == 401 and self._stored is not None:
            self._authorizer = self._stored.authorizer(self._url)
        return self._authorizer

    def _send(
        self,
        request: AbortableRequest,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        url: str,
    ) -> FetchResponse:
        where = f"{method} {without_secrets(self._moved.get(url, url))}"
        headers = {**self._headers, **headers}
        if self._auth is not None and not self._has_auth_object:
            headers["Authorization"] = f"Bearer {self._token()}"
        self._check_sendable(where, headers)
        self._remember(headers)
        current.request = request
        try:
            if request.aborted.is_set():
                raise ConnectionLost(f"{where}: aborted before it was sent")
            raw = self._sent(method, self._moved.get(url, url), headers, body)
            response = FetchResponse(where, raw, self.masked)
            location = response.headers.get("Location") if self._redirects else None
            if response.status in (307, 308) and location is not None and url not in self._moved:
                target = same_origin(url, location)
                if target is not None:
                    response.start(PIECE_BYTES)
                    response.close()
                    self._moved[url] = target
                    raw = self._sent(method, target, headers, body)
                    response = FetchResponse(where, raw, self.masked)
            return response
        except McpError:
            raise
        except Exception as error:  # its message and its causes may show a secret
            raise _flat(where, error, self.masked, self.route, self._bundle) from None
        finally:
            current.request = None

    def _check_sendable(self, where: str, headers: Mapping[str, str]) -> None:
        """Check headers here, because a library would show the value that it rejects."""
        together = "".join(headers.values())
        # Checking the headers one by one takes a microsecond for each.
        if together.isascii() and together.isprintable():
            return
        for name, value in headers.items():
            if _UNSENDABLE.search(value):
                raise ConnectionFailed(f"{where}: cannot be sent: {_unsendable(name)}")

    def _remember(self, headers: Mapping[str, str]) -> None:
        """Make `masked` replace the credentials of a request."""
        credentials = headers.get("Authorization")
        if credentials is not None and credentials not in self._remembered:
            self._remembered[credentials] = None
            if len(self._remembered) > MAX_REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)), None)

    def masked(self, text: str) -> str:
        """Replace all secrets that were sent to the server in a text from it. Thread-safe."""
        cookies = [str(each.value) for each in list(self._session.cookies)]
        remembered = [
            secret
            for value in list(self._remembered)
            for secret in header_secrets("Authorization", value)
        ]
        return mask(text, [*self._secrets, *remembered, *filter(_is_long, cookies)])

    def masked_bytes(self, data: bytes) -> bytes:
        """Replace the secrets, like `masked`, in bytes in UTF-8."""
        text = data.decode("utf-8", "surrogateescape")
        return self.masked(text).encode("utf-8", "surrogateescape")

    def _sent(
        self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]
    ) -> Any:
        if self._has_auth_object:
            return self._sent_by_requests(method, url, headers, body)
        pool, path = self._pools.get(url) or self._pool(url)
        if self._session.cookies:
            cookie = self._requests.cookies.get_cookie_header(
                self._session.cookies, self._prepared("GET", url)
            )
            headers = {**headers, "Cookie": cookie} if cookie else headers
        raw = pool.urlopen(
            method,
            path,
            body=body,
            headers=headers,
            retries=self._no_retries,
            redirect=False,
            timeout=self._timeout,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
        )
        # A load balancer may use a cookie to find the machine that has the session.
        if "Set-Cookie" in raw.headers:
            self._requests.cookies.extract_cookies_to_jar(
                self._session.cookies, self._prepared("GET", url), raw
            )
            self._bound_cookies()
        return raw

    def _bound_cookies(self) -> None:
        if sum(len(str(vars(cookie))) for cookie in self._session.cookies) > COOKIE_CHARACTERS:
            self._session.cookies.clear()

    def _sent_by_requests(
        self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]
    ) -> Any:
        """Send through `requests`, because an auth object reads requests and responses."""
        name = type(self._auth).__name__
        try:
            prepared = self._prepared(method, url, headers=headers, auth=self._auth, data=body)
        except self._requests.RequestException as error:  # its message may show a header
            raise AuthorizationError(f"{self.shown}: {name}: {first_words(error)}") from None
        except Exception as error:
            raise AuthorizationError(f"{self.shown}: {name}: {describe(error)}") from error
        for header, value in prepared.headers.items():
            text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
            if _UNSENDABLE.search(text):
                raise AuthorizationError(f"{self.shown}: {name}: {_unsendable(header)}")
            if headers.get(header) != text and header.lower() not in OWN_HEADERS:
                self._remember({"Authorization": text})
        timeout = (CONNECT_SECONDS, None)
        answer = self._session.send(
            prepared, allow_redirects=False, timeout=timeout, **self._settings
        )
        answer.raw.decode_content = False
        self._bound_cookies()
        return answer.raw

    def _prepared(self, method: str, url: str, **more: Any) -> Any:
        return self._requests.Request(method, url, **more).prepare()

    def _clean_proxies(self, proxies: Mapping[str, Any]) -> dict[str, Any]:
        """Return the proxies without whitespace around their URLs.

        Raises:
            ValueError: The proxy of this server is not a URL. The message does not show it, because
                it may contain a password.
        """
        found = {
            name: proxy.strip() if isinstance(proxy, str) else proxy
            for name, proxy in proxies.items()
        }
        proxy = self._requests.utils.select_proxy(self._url, found)
        is_url = False
        with suppress(ValueError, TypeError):
            parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            is_url = parts.hostname is not None and parts.port != 0  # a port that is not a number
            is_url = is_url and proxy.isprintable() and " " not in proxy  # raises ValueError
        if proxy and not is_url:
            what = "the proxy must be a URL, as in proxies={'https': 'http://proxy.example:3128'}"
            raise ValueError(f"{self.shown}: {what}; the value is not shown")
        return found

    def _pool(self, url: str) -> tuple[Any, str]:
        """Return the pool of connections to a URL, and the target of requests on them."""
        prepared = self._prepared("GET", url)
        settings = self._settings
        pool = self._adapter.get_connection_with_tls_context(
            prepared, settings["verify"], proxies=settings["proxies"], cert=settings["cert"]
        )
        self._adapter.cert_verify(pool, prepared.url, settings["verify"], settings["cert"])
        found = self._pools[url] = pool, self._adapter.request_url(prepared, settings["proxies"])
        return found

    def identity(self) -> str:
        """Return a digest of the credentials of the next request; empty without any.

        Raises:
            AuthorizationError: The callable or the AuthBase failed.
        """
        secret = ""
        if self._authorizer is not None:
            secret = self._authorizer.access_token
        elif self._has_auth_object:
            secret = self._credentials_of_object()
        elif self._auth is not None:
            secret = self._token()
        return sha256(secret.encode()).hexdigest() if secret else ""

    def _credentials_of_object(self) -> str:
        auth: Any = self._auth
        # Digest authentication writes different headers each time.
        if hasattr(auth, "username") and hasattr(auth, "password"):
            return f"{auth.username!r} {auth.password!r}"
        try:
            headers = self._prepared("GET", self._url, auth=auth).headers
        except Exception as error:
            raise AuthorizationError(
                f"{self.shown}: {type(auth).__name__}: {describe(error)}"
            ) from error
        return repr(sorted(headers.items()))

    def _token(self) -> str:
        if isinstance(self._auth, str):
            return self._auth
        try:
            token = self._auth()
        except self._requests.RequestException as error:  # its message may show a header or a URL
            raise AuthorizationError(f"{self.shown}: auth failed: {first_words(error)}") from None
        except Exception as error:
            raise AuthorizationError(f"{self.shown}: auth failed: {describe(error)}") from error
        try:
            return clean_token(token)
        except (TypeError, ValueError) as error:
            raise AuthorizationError(f"{self.shown}: auth must return a token: {error}") from None

    def close(self) -> None:
        """Close the idle connections. Those in use close when they are released. Never blocks."""
        with suppress(KeyError):
            while True:
                # Two threads must not close the same pool. `popitem` is atomic.
                pool, _ = self._pools.popitem()[1]
                pool.close()
        self._session.close()


def without_secrets(url: str) -> str:
    """Return a URL for messages, without user name, password and query, which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def proxy_in_words(url: str, proxies: Mapping[str, str], given: Optional[Mapping[str, str]]) -> str:
    """Return the proxy that is used for a URL, and the setting that names it, for messages.

    Args:
        url: The URL.
        proxies: All proxies by scheme, as merged by `requests`.
        given: The proxies that the program passed; None without any.

    Returns:
        For example " through the proxy http://a:3128 (the environment variable https_proxy)"; empty
        without a proxy.
    """
    from requests.utils import prepend_scheme_if_needed, select_proxy

    proxy = select_proxy(url, proxies)
    if not proxy:
        return ""
    scheme = urlsplit(url).scheme.lower()
    names = [f"{kind}_proxy" for kind in (scheme, "all")]
    names = [each for name in names for each in (name, name.upper())]
    setting = next((name for name in names if os.environ.get(name, "").strip() == proxy), None)
    chosen = select_proxy(url, given or {})
    if isinstance(chosen, str) and chosen.strip() == proxy:
        source = "proxies="
    elif setting is not None:
        source = f"the environment variable {setting}"
    else:
        source = "the system settings"
    shown = without_secrets(prepend_scheme_if_needed(proxy, "http"))
    # The password of a malformed URL may be in its path.
    return f" through the proxy {re.sub('//.*@', '//', shown)} ({source})"


def bundle_in_words(used: Any, given: Any) -> str:
    """Return a text for messages that names the environment variable with the CA bundle.

    Empty if the environment does not name the bundle.
    """
    if not isinstance(used, str) or used == given:
        return ""
    names = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    setting = next((name for name in names if os.environ.get(name) == used), None)
    if setting is None:
        return ""
    return f" (it is checked by {used}, from the environment variable {setting})"


# ------------------------------------------------------------ secrets


def clean_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return a user's headers without whitespace around their values.

    Raises:
        TypeError: A name or a value is not a str.
        ValueError: A name is not a header name, or a value contains a line end. The message does
            not show the value.
    """
    found = {}
    for number, (name, value) in enumerate(headers.items(), 1):
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
            what = "use ASCII letters, digits and hyphens"
            raise ValueError(f"header {number} of headers= has an invalid name: {what}")
        if not isinstance(value, str):
            raise TypeError(f"the header {name} must be a str, not {type(value).__name__}")
        stripped = value.strip(" \t\r\n")
        if _UNSENDABLE.search(stripped):
            raise ValueError(_unsendable(name))
        # One spelling, so that a token replaces the user's header.
        found["Authorization" if name.lower() == "authorization" else name] = stripped
    return found


def clean_token(token: Any) -> str:
    """Return a bearer token without whitespace around it, and without the word Bearer.

    Raises:
        TypeError: The token is not a str.
        ValueError: The token is empty, or cannot be sent in a header. The message does not show it.
    """
    if not isinstance(token, str):
        raise TypeError(f"a bearer token must be a str, not {type(token).__name__}")
    found = re.sub(r"(?i)^bearer(?:\s+|$)", "", token.strip())
    if not found:
        raise ValueError("the bearer token is empty")
    if _UNSENDABLE.search(found):
        raise ValueError("the bearer token has a line end, or a character that is not in Latin-1")
    return found


def _unsendable(name: str) -> str:
    told = f"the header {name} has a line end in its value, or a character that is not in Latin-1"
    return f"{told} (the value is not shown): remove it"


def _is_long(secret: str) -> bool:
    return len(secret) >= MIN_MASKED


def is_credential(name: str) -> bool:
    """Return whether the value of a header with this name is likely a secret."""
    return _CREDENTIAL.search(name) is not None


def header_secrets(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in a header: its value and the parts of it."""
    scheme, _, credentials = value.partition(" ")
    parts = [value]
    if name.lower() in ("authorization", "proxy-authorization"):
        parts += [credentials.strip()]
        if scheme.lower() == "basic":
            with suppress(ValueError):
                pair = b64decode(credentials).decode("utf-8", "replace")
                parts += [pair, pair.partition(":")[2], unquote(pair.partition(":")[2])]
    elif name.lower() == "cookie":
        parts += [each.partition("=")[2].strip() for each in value.split(";")]
    least = MIN_CREDENTIAL_MASKED if is_credential(name) else MIN_MASKED
    yield from (part for part in parts if len(part) >= least)


def url_secrets(url: Any) -> Iterator[str]:
    """Yield the secrets in a URL: its user name, its password and the values of its query."""
    if not isinstance(url, str):
        return
    parts = urlsplit(url if "://" in url else f"http://{url}")
    userinfo = parts.netloc.rpartition("@")[0]
    password = userinfo.partition(":")[2]
    values = [value for _, value in parse_qsl(parts.query)]
    yield from filter(_is_long, [userinfo, unquote(userinfo), *values])
    for secret in (password, unquote(password)):
        if len(secret) >= MIN_CREDENTIAL_MASKED:
            yield secret


def mask(text: str, secrets: Iterable[str]) -> str:
    """Replace secrets in a text, also as JSON, HTML and URLs write them.

    Args:
        text: The text, from a peer or a library.
        secrets: The secrets. The longest one is replaced first.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        quoted = json.dumps(secret)[1:-1]
        forms = {
            secret,
            quoted,
            quoted.replace("/", "\\/"),
            escape(secret),
            quote(secret, safe=""),
            quote_plus(secret),
        }
        for form in sorted(forms, key=len, reverse=True):
            text = text.replace(form, MASK)
    return text


def same_origin(url: str, reference: str) -> Optional[str]:
    """Resolve a reference that a server sent, if credentials may be sent to the resulting URL.

    They may if scheme, host and port stay the same.

    Args:
        url: The URL that the reference is relative to. A user name in it is dropped.
        reference: The reference.

    Returns:
        The URL; None if it has a different origin, or could be misread.
    """
    base = re.sub("(?i)^(https?://)[^/?#]*@", r"\1", url)
    with suppress(ValueError):
        target = urljoin(base, reference)
        if reference.isprintable() and parse_web_url(target) == parse_web_url(base):
            return target
    return None


def _system_trust() -> Any:
    """Return a TLS context that trusts the certificates of the operating system; None without the
    package `truststore`. `requests` adds its own certificates."""
    try:
        import truststore
    except ImportError:
        return None
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _adapter(context: Any) -> Any:
    """Return an adapter of `requests` whose connections can be aborted.

    Args:
        context: The TLS context of all connections; None means those of `requests`.
    """
    from requests.adapters import HTTPAdapter

    more = {} if context is None else {"ssl_context": context}

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **keywords: Any) -> None:
            super().init_poolmanager(*args, **keywords, **more)

        def proxy_manager_for(self, *args: Any, **keywords: Any) -> Any:
            return _adapted(super().proxy_manager_for(*args, **keywords, **more))

    adapter = Adapter(pool_connections=2, pool_maxsize=MAX_KEPT, max_retries=0)
    _adapted(adapter.poolmanager)
    return adapter


def _adapted(manager: Any) -> Any:
    """Return a pool manager after giving it pools whose connections can be aborted."""
    pools = dict(manager.pool_classes_by_scheme)
    for scheme, pool in pools.items():
        if not issubclass(pool, KeptPool):
            connection = type("Connection", (AbortableConnection, pool.ConnectionCls), {})
            pools[scheme] = type("Pool", (KeptPool, pool), {"ConnectionCls": connection})
    manager.pool_classes_by_scheme = pools
    return manager


# ------------------------------------------------------------ errors of libraries


def _flat(
    where: str,
    error: Exception,
    masked: Callable[[str], str],
    route: str = "",
    bundle: str = "",
) -> Exception:
    """Return an exception of minimcp for one that `requests`, `urllib3`, `http` or `ssl` raised.

    Args:
        where: Method and URL of the request.
        error: The exception that was raised.
        masked: Replaces secrets in a text.
        route: The proxy, from `proxy_in_words`.
        bundle: The CA bundle, from `bundle_in_words`.
    """
    told = masked(first_words(error))
    where += route
    if isinstance(error, NotConnected):
        why = next((why for word, why in LIKELY.items() if word in told), "")
        if "CERTIFICATE" in told:
            why += bundle
        elif route:
            why = ": is the proxy running, and does it allow this? NO_PROXY=HOST bypasses it"
        return ConnectionFailed(f"{where}: no connection: {told}{why}")
    if isinstance(error, (ValueError, TypeError)) and not isinstance(error, OSError):
        return ConnectionFailed(f"{where}: cannot be sent: {told}")
    return ConnectionLost(f"{where}: the connection broke: {told}")


def first_words(error: BaseException) -> str:
    """Return the message of the exception that was raised first, with the name of its class.

    If that exception rejects a value, return only the name of its class: the message repeats the
    value, which may be a secret.
    """
    told = error
    inner = [error]
    while inner:
        told = inner[0] if str(inner[0]) else told
        made_of = (inner[0].__cause__, getattr(inner[0], "reason", None), *inner[0].args)
        inner = [each for each in made_of if isinstance(each, BaseException)]
    name = type(told).__name__
    rejects = isinstance(told, (ValueError, TypeError)) or name == "InvalidURL"
    if rejects and not isinstance(told, (ssl.SSLError, UnicodeError)):
        return name
    text = str(told)
    # IncompleteRead, for one, repeats its name.
    return one_line(text if text.startswith(name) else f"{name}: {text}", 300)
