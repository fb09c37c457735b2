"""HTTP requests to one server: without redirects, identity encoding, and any thread may end one.

This is the one place of `requests`. It brings what its users know (proxies, CA bundles, certificates, auth objects);
the requests themselves go through `urllib3` below it, which costs a third of the time. No request has a timeout of its
own once it is connected: whoever waits has a deadline and calls `Sending.end`, which no peer that drips can defeat.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, Mapping, Optional, Union
from urllib.parse import urlsplit

from .. import __version__ as VERSION
from ..engine.timer import Deadline
from ..errors import AuthorizationError, ConnectionLost, ProtocolViolation, one_line
from ..errors import describe
from .sending import Cuttable, KeptBriefly, Sending, flat, here, words

CONNECT_SECONDS = 10.0
"""For TCP, a proxy's tunnel and TLS."""

PIECE_BYTES = 256 * 1024
"""What is read at once."""

MOST_KEPT = 256
"""Connections that are kept open for the next request: as many as there are requests at the same time."""

NEEDS_REQUESTS = "a server that is named by a URL needs the package 'requests': install it with: pip install requests"

OWN_HEADERS = frozenset({"accept", "content-type", "content-length", "host", "connection", "accept-encoding", "te"})
"""What users cannot set."""

Auth = Any
"""None, a bearer token, a callable that returns one, or an AuthBase of `requests`."""

class Answer:
    """The head of a response, and its body as it comes. For one thread at a time.

    ``headers`` knows names without regard to case: ``headers.get("Content-Type")``. ``cut`` is the loss of a body that
    ended too early when `start` read it; None for others.

    Args:
        where: What was asked, for messages.
        raw: The response, as `urllib3` gives it.
    """

    __slots__ = ("status", "headers", "cut", "_where", "_raw")

    def __init__(self, where: str, raw: Any) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self._where, self._raw = where, raw
        self.cut: Optional[ConnectionLost] = None

    @property
    def framed(self) -> bool:
        """Whether the head says where the body ends; one that broke off in the middle may look as if it did not."""
        return "Content-Length" in self.headers or "Transfer-Encoding" in self.headers

    def read(self) -> bytes:
        """Wait for bytes of the body; none at its end.

        Raises:
            ConnectionLost: It ends too early.
            ProtocolViolation: It is compressed, though that was not asked for.
        """
        encoding = self.headers.get("Content-Encoding", "identity")
        if encoding.lower() not in ("", "identity"):
            raise ProtocolViolation(f"{self._where}: the body is compressed ({one_line(encoding)}), unasked")
        try:
            data: bytes = self._raw.read1(PIECE_BYTES)
            return data
        except Exception as error:
            raise ConnectionLost(f"{self._where}: the body ends too early: {words(error)}") from error

    def body(self, limit: Optional[int]) -> bytes:
        """The whole body. Errors as `read`, and:

        Args:
            limit: Its longest size, in bytes; None means no limit.

        Raises:
            ProtocolViolation: It is longer.
        """
        announced = self.headers.get("Content-Length", "")
        size = int(announced) if announced.isdigit() and len(announced) < 20 else 0
        found = bytearray()  # and no list of pieces: a peer may send single bytes, each of which would be an object
        while limit is None or max(size, len(found)) <= limit:
            piece = self.read()
            if not piece:
                return bytes(found)
            found += piece
        found.clear()  # whoever keeps the exception need not keep this
        raise ProtocolViolation(f"{self._where}: the body is longer than {limit} bytes, the max_message_bytes")

    def start(self, limit: int) -> bytes:
        """The beginning of the body, for a message or for an error in it; whatever could be read."""
        found = bytearray()
        try:
            while len(found) < limit:
                piece = self.read()
                if not piece:
                    break
                found += piece
        except ConnectionLost as lost:
            self.cut = lost
        except ProtocolViolation:
            pass  # what there is says enough
        return bytes(found[:limit])

    def linger(self, seconds: float) -> None:
        """Read to the end if it comes soon, so that the connection can be kept; what still comes is dropped."""
        try:
            until, sock = Deadline(seconds), self._raw.connection.sock
            sock.settimeout(seconds)
            while not until.expired and self._raw.read1(PIECE_BYTES):
                sock.settimeout(until.wait())
        except Exception:
            pass  # then it is closed

    def close(self) -> None:
        """Let go of it; a connection whose body was not read to its end is closed. Never raises."""
        try:
            self._raw.close()
        except Exception:  # a peer that has gone, in any of a dozen ways
            pass


class Fetcher:
    """Sends requests to one server. Thread-safe.

    Args:
        url: Of the server; other URLs that are asked must be on the same host.
        headers: Sent with every request; None adds none.
        auth: None, a bearer token, a callable that returns one (asked for each request), or an AuthBase of `requests`.
        verify: Whether the server's certificate is checked; a path names a bundle of CAs to check it by.
        cert: A client certificate: the path of a file with key and certificate, or of both; None shows none.
        proxies: By scheme, as `requests` takes them; None leaves it to the environment.

    Raises:
        ImportError: There is no `requests`.
        ValueError: The URL, a proxy or a certificate cannot be what it is.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Optional[Mapping[str, str]] = None,
        auth: Auth = None,
        verify: Union[bool, str] = True,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> None:
        try:
            import requests
            from urllib3 import Retry, Timeout
        except ImportError as error:
            raise ImportError(NEEDS_REQUESTS) from error
        self._once, self._timeout = Retry(False, redirect=False), Timeout(connect=CONNECT_SECONDS, read=None)
        self.shown = shown(url)
        self._url, self._auth = url, auth
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._session = requests.Session()
        self._adapter = _adapter(self._connections)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._adapter)
        given = {name: value for name, value in (headers or {}).items() if name.lower() not in OWN_HEADERS}
        self._headers = {"User-Agent": f"minimcp/{VERSION}", **given}
        self._settings = self._session.merge_environment_settings(url, dict(proxies or {}), True, verify, cert)
        self._ways: dict[str, tuple[Any, str]] = {}
        self._close_lock = threading.Lock()
        self._is_long = _is_auth_base(auth)
        try:
            authorization = self._prepared("GET", url, {}, None).headers.get("Authorization")
            self._way(url)
        except (requests.RequestException, OSError, ValueError) as error:
            raise ValueError(f"{self.shown}: {words(error)}") from error
        if authorization is not None:  # of a URL with a user's name in it
            self._headers["Authorization"] = authorization

    def send(
        self,
        sending: Sending,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        url: Optional[str] = None,
    ) -> Answer:
        """Send a request and wait for the head of its response; redirects come back as they are.

        Args:
            sending: What ends it from another thread.
            method: In capitals.
            headers: Of this request.
            body: What is sent; None sends none.
            url: Another URL of this server; None asks the one that it is named by.

        Raises:
            ConnectionFailed: There was no connection; nothing was sent.
            ConnectionLost: It broke before the response came, or `sending` was ended.
            AuthorizationError: The callable or the AuthBase raised something.
        """
        where = f"{method} {self.shown}"
        headers = {**self._headers, **headers}
        send = self._over_requests if self._is_long else self._directly
        if self._auth is not None and not self._is_long:
            headers["Authorization"] = f"Bearer {self._token()}"
        here.sending = sending
        try:
            if sending.ended:
                raise ConnectionLost(f"{where}: given up before it was sent")
            return Answer(where, send(method, url or self._url, headers, body))
        except (ConnectionLost, AuthorizationError):
            raise
        except Exception as error:
            raise flat(where, error) from error
        finally:
            here.sending = None

    def _directly(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        pool, path = self._ways.get(url) or self._way(url)
        if self._session.cookies:
            headers = {**headers, **self._cookies(url)}
        raw = pool.urlopen(
            method, path, body=body, headers=headers, retries=self._once, redirect=False, assert_same_host=False,
            timeout=self._timeout, preload_content=False, decode_content=False,
        )
        if "Set-Cookie" in raw.headers:
            self._keep_cookies(url, raw)
        return raw

    def _cookies(self, url: str) -> dict[str, str]:
        """What balancers find their way by: a session lives on one of several machines."""
        from requests.cookies import get_cookie_header

        cookie = get_cookie_header(self._session.cookies, self._prepared("GET", url, {}, None))
        return {"Cookie": cookie} if cookie else {}

    def _keep_cookies(self, url: str, raw: Any) -> None:
        from requests.cookies import extract_cookies_to_jar

        extract_cookies_to_jar(self._session.cookies, self._prepared("GET", url, {}, None), raw)

    def _over_requests(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        """The long way, for objects that look at requests and at responses (digests and their like)."""
        try:
            prepared = self._prepared(method, url, headers, self._auth, body)
        except Exception as error:
            raise AuthorizationError(f"{self.shown}: {type(self._auth).__name__}: {describe(error)}") from error
        timeout = (CONNECT_SECONDS, None)
        answer = self._session.send(prepared, allow_redirects=False, timeout=timeout, **self._settings)
        answer.raw.decode_content = False
        return answer.raw

    def _prepared(
        self, method: str, url: str, headers: Mapping[str, str], auth: Any, body: Optional[bytes] = None
    ) -> Any:
        import requests

        return requests.Request(method, url, headers=dict(headers), data=body, auth=auth).prepare()

    def _way(self, url: str) -> tuple[Any, str]:
        """The pool of connections to a URL, and what is asked there."""
        prepared, settings = self._prepared("GET", url, {}, None), self._settings
        pool = self._adapter.get_connection_with_tls_context(
            prepared, settings["verify"], proxies=settings["proxies"], cert=settings["cert"]
        )
        self._adapter.cert_verify(pool, prepared.url, settings["verify"], settings["cert"])
        way = self._ways[url] = pool, self._adapter.request_url(prepared, settings["proxies"])
        return way

    def _token(self) -> str:
        if isinstance(self._auth, str):
            return self._auth
        try:
            token = self._auth()
        except Exception as error:
            raise AuthorizationError(f"{self.shown}: auth failed: {describe(error)}") from error
        if not isinstance(token, str):
            raise AuthorizationError(f"{self.shown}: auth returns a bearer token, not {type(token).__name__}")
        return token

    def close(self) -> None:
        """Close the connections that are kept; those in use close when they are given back. Never waits."""
        if not self._close_lock.acquire(blocking=False):
            return  # somebody does it just now, and a pool breaks when two close it at once
        try:
            self._session.close()
            for pool, _ in list(self._ways.values()):
                pool.close()
        finally:
            self._close_lock.release()

    def close_descriptors(self) -> None:
        """Let go of all connections in a forked process, without a word to the server."""
        for connection in list(self._connections):
            connection.close_descriptor()


def shown(url: str) -> str:
    """A URL for messages: without a user's name, a password and a query, any of which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _is_auth_base(auth: Any) -> bool:
    from requests.auth import AuthBase

    return isinstance(auth, AuthBase)


def _adapter(connections: weakref.WeakSet[Any]) -> Any:
    """An adapter of `requests` whose connections know which `Sending` they work for."""
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection
    from urllib3.exceptions import NewConnectionError

    def ours(pool: Any) -> Any:
        is_plain = pool.ConnectionCls._new_conn is HTTPConnection._new_conn
        more = {"kept_in": connections, "is_plain": is_plain, "no_connection": NewConnectionError}
        connection = type("Connection", (Cuttable, pool.ConnectionCls), more)
        return type("Pool", (KeptBriefly, pool), {"ConnectionCls": connection})

    def adapted(manager: Any) -> Any:
        if not hasattr(manager, "minimcp_pools"):
            manager.minimcp_pools = {scheme: ours(pool) for scheme, pool in manager.pool_classes_by_scheme.items()}
            manager.pool_classes_by_scheme = manager.minimcp_pools
        return manager

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **keywords: Any) -> None:
            super().init_poolmanager(*args, **keywords)
            adapted(self.poolmanager)

        def proxy_manager_for(self, *args: Any, **keywords: Any) -> Any:
            return adapted(super().proxy_manager_for(*args, **keywords))

    return Adapter(pool_connections=2, pool_maxsize=MOST_KEPT, max_retries=0)
