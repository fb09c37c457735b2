"""HTTP requests to one server, of which any thread may abort one: `Fetcher`.

This is the one place of `requests`. It brings what its users know (proxies, CA bundles, certificates, auth objects,
cookies); the requests themselves go through the pools of `urllib3` below it, which costs a third of the time. No
request has a timeout of its own once it is connected: who waits has a deadline and calls `AbortableRequest.abort`,
which no peer can delay by sending single bytes. An answer that is compressed is refused: none was asked for.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from typing import Any, Mapping, Optional, Union
from urllib.parse import SplitResult, urljoin, urlsplit

from .. import __version__
from ..errors import AuthorizationError, ConnectionFailed, ConnectionLost, ProtocolViolation, describe, one_line

CONNECT_SECONDS = 10.0
"""For TCP, a proxy's tunnel and TLS."""

KEPT_SECONDS = 1.5
"""How long a connection may be idle and still be used again. Servers close such ones, the hasty ones after 2 s, and
what is sent at that moment is lost: nobody knows whether it has run, so it cannot be sent again."""

MOST_KEPT = 256
"""Connections that are kept open for the next request."""

PIECE_BYTES = 256 * 1024
"""What is read at once."""

NEEDS_REQUESTS = "a server that is named by a URL needs the package 'requests': install it with: pip install requests"

OWN_HEADERS = frozenset({"accept", "content-type", "content-length", "host", "connection", "accept-encoding", "te"})
"""What users cannot set."""

Auth = Any
"""None, a bearer token, a callable that returns one, or an AuthBase of `requests`."""

current = threading.local()
"""Of each thread: ``request``, the `AbortableRequest` that it sends now."""


class AbortableRequest:
    """One HTTP request from before it is sent until its response is read. Any thread may abort it."""

    def __init__(self) -> None:
        self.aborted = threading.Event()
        self._connection: Any = None

    def abort(self) -> None:
        """Make its thread raise ConnectionLost, wherever it is. Idempotent; never blocks."""
        self.aborted.set()
        if self._connection is not None:
            self._connection.abort_for(self)

    def finish(self) -> None:
        """Its response is read: there is nothing to abort any more (its own thread)."""
        self._connection = None

    def uses(self, connection: Any) -> None:
        """It goes over this connection from now on (its own thread)."""
        self._connection = connection
        if self.aborted.is_set():
            connection.abort_for(self)


class AbortableConnection:
    """Mixed into the connections of `urllib3`: the thread that reads or writes can be woken by another one.

    A socket that is closed wakes nobody, one that is shut down does. The connection may serve another request by then:
    so it has an owner, and is shut down for that one alone.
    """

    all_of_fetcher: weakref.WeakSet[Any]
    connects_itself: bool
    """Whether it goes to its host itself, and does not ask a SOCKS proxy for it."""
    new_connection_error: Any
    sock: Any
    close: Any
    timeout: Optional[float]
    port: int
    _dns_host: str
    socket_options: Any

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._lock = threading.RLock()  # a signal handler may abort what its own thread is aborting
        self._owner: Optional[AbortableRequest] = None
        self._socket: Any = None
        """The socket from the first moment until it is closed: ``sock`` comes later, and is None while the response is
        read after which the server closes."""
        self._was_aborted = False
        self._pieces: Optional[list[bytes]] = None
        self.idle_since = float("inf")
        self.all_of_fetcher.add(self)

    def _change_owner(self) -> None:
        owner: Optional[AbortableRequest] = getattr(current, "request", None)
        with self._lock:
            self._owner = owner
            if self._was_aborted and self.sock is not None:  # for its last owner, when that had been served already
                self.close()
            self._was_aborted = False
        if owner is not None:
            owner.uses(self)

    def abort_for(self, request: AbortableRequest) -> None:
        """Shut the socket down, if this still serves that request."""
        with self._lock:
            if self._owner is not request:
                return
            self._was_aborted = True
            for sock in (self.sock, self._socket):
                try:  # not SSLSocket.shutdown, after which bytes would go out in clear
                    socket.socket.shutdown(getattr(sock, "socket", sock), socket.SHUT_RDWR)
                except (OSError, TypeError):
                    pass  # it is not connected, any more or yet

    def _new_conn(self) -> Any:
        self._change_owner()
        try:
            self._socket = self._connected() if self.connects_itself else super()._new_conn()  # type: ignore[misc]
        except OSError as error:
            raise self.new_connection_error(self, f"no connection: {error}") from error
        return self._socket

    def _connected(self) -> socket.socket:
        """As `socket.create_connection`, but the socket is known, and can be shut down, from the beginning."""
        failed = OSError("its name has no address")
        found = socket.getaddrinfo(self._dns_host.strip("[]"), self.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            sock = self._socket = socket.socket(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                sock.settimeout(self.timeout)
                if not self._was_aborted:
                    sock.connect(address)
                if self._was_aborted:
                    raise OSError("given up while connecting")
                return sock
            except BaseException as error:
                sock.close()
                if self._was_aborted or not isinstance(error, OSError):
                    raise
                failed = error
        raise failed

    def connect(self) -> None:
        """As in `http.client`."""
        super().connect()  # type: ignore[misc]
        self._socket = self.sock
        if self._was_aborted:
            raise OSError("given up while connecting")

    def request(self, *args: Any, **keywords: Any) -> None:
        """As in `http.client`, but head and body are sent in one piece."""
        self._change_owner()
        pieces: list[bytes] = []
        self._pieces = pieces
        try:
            super().request(*args, **keywords)  # type: ignore[misc]
        finally:
            self._pieces = None
        self.send(b"".join(pieces))

    def send(self, data: Any) -> None:
        """As in `http.client`; what belongs to one request is kept until all of it is here."""
        if self._pieces is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._pieces.append(data)

    def close_descriptor(self) -> None:
        """Close the socket without a word to the server, in a forked process."""
        sock = self.sock or self._socket
        if sock is not None and sock.fileno() >= 0:
            os.close(sock.detach())


class BrieflyKept:
    """Mixed into the pools of `urllib3`: a connection that was idle for longer than `KEPT_SECONDS` is made anew."""

    def _get_conn(self, *args: Any, **keywords: Any) -> Any:
        connection = super()._get_conn(*args, **keywords)  # type: ignore[misc]
        if time.monotonic() - connection.idle_since > KEPT_SECONDS:
            connection.close()
        return connection

    def _put_conn(self, connection: Any) -> None:
        if connection is not None:
            connection.idle_since = time.monotonic()
        super()._put_conn(connection)  # type: ignore[misc]


class Response:
    """The head of a response, and its body as it comes. For one thread at a time.

    ``headers`` knows names without regard to case. ``cut`` is the loss of a body that ended too early when `start` read
    it; None for others.

    Args:
        where: What was asked, for messages.
        raw: The response, as `urllib3` gives it.
    """

    def __init__(self, where: str, raw: Any) -> None:
        self.status: int = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self.cut: Optional[ConnectionLost] = None
        self._where, self._raw = where, raw

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
            raise ConnectionLost(f"{self._where}: the body ends too early: {first_words(error)}") from error

    def body(self, limit: Optional[int]) -> bytes:
        """The whole body. Errors as `read`, and:

        Args:
            limit: Its longest size, in bytes; None means no limit.

        Raises:
            ProtocolViolation: It is longer.
        """
        announced = self.headers.get("Content-Length", "")
        size = int(announced) if announced.isdigit() and len(announced) < 20 else 0
        found = bytearray()  # no list of pieces: a peer may send single bytes, each of which would be an object
        while limit is None or max(size, len(found)) <= limit:
            piece = self.read()
            if not piece:
                return bytes(found)
            found += piece
        found.clear()  # who keeps the exception need not keep this
        raise ProtocolViolation(f"{self._where}: the body is longer than {limit} bytes (Limits.message_bytes)")

    def start(self, limit: int) -> bytes:
        """The beginning of the body, for a message or for an error in it; as much as could be read."""
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

    def read_rest(self, seconds: float) -> None:
        """Read to the end if it comes soon, so that the connection can be kept; what still comes is dropped."""
        until = time.monotonic() + seconds
        try:
            sock = self._raw.connection.sock
            sock.settimeout(seconds)
            while self._raw.read1(PIECE_BYTES):
                sock.settimeout(max(0.001, until - time.monotonic()))
            sock.settimeout(None)
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

    Redirects by 307 and 308 to the same origin are followed once and remembered; all others come back as they are.

    Args:
        url: Of the server; other URLs that are asked must be of the same origin.
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
            from requests.auth import AuthBase
            from urllib3 import Retry, Timeout
        except ImportError as error:
            raise ImportError(NEEDS_REQUESTS) from error
        self._no_retries, self._timeout = Retry(False, redirect=False), Timeout(connect=CONNECT_SECONDS, read=None)
        self.shown = without_secrets(url)
        self._url, self._auth = url, auth
        self._connections: weakref.WeakSet[Any] = weakref.WeakSet()
        self._session = requests.Session()
        self._adapter = _adapter(self._connections)
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._adapter)
        given = {name: value for name, value in (headers or {}).items() if name.lower() not in OWN_HEADERS}
        self._headers = {"User-Agent": f"minimcp/{__version__}", **given}
        self._settings = self._session.merge_environment_settings(url, dict(proxies or {}), True, verify, cert)
        self._pools: dict[str, tuple[Any, str]] = {}
        self._moved: dict[str, str] = {}
        self._close_lock = threading.Lock()
        self._has_auth_object = isinstance(auth, AuthBase)
        try:
            authorization = self._prepared("GET", url, {}, None).headers.get("Authorization")
            self._pool(url)
        except (requests.RequestException, OSError, ValueError) as error:
            raise ValueError(f"{self.shown}: {first_words(error)}") from error
        if authorization is not None:  # of a URL with a user's name in it
            self._headers["Authorization"] = authorization

    def send(
        self,
        request: AbortableRequest,
        method: str,
        headers: Mapping[str, str],
        body: Optional[bytes] = None,
        url: Optional[str] = None,
    ) -> Response:
        """Send a request and wait for the head of its response.

        Args:
            request: By which another thread may abort it.
            method: In capitals.
            headers: Of this request.
            body: What is sent; None sends none.
            url: Another URL of this server; None asks the one that it is named by.

        Raises:
            ConnectionFailed: There was no connection; nothing was sent.
            ConnectionLost: It broke before the response came, or `request` was aborted.
            AuthorizationError: The callable or the AuthBase raised something.

        Blocks: until then; a connection that is not there in `CONNECT_SECONDS` has failed.
        """
        where = f"{method} {self.shown}"
        url = url or self._url
        headers = {**self._headers, **headers}
        if self._auth is not None and not self._has_auth_object:
            headers["Authorization"] = f"Bearer {self._token()}"
        current.request = request
        try:
            if request.aborted.is_set():
                raise ConnectionLost(f"{where}: given up before it was sent")
            response = Response(where, self._sent(method, self._moved.get(url, url), headers, body))
            target = self._redirected(url, response)
            if target is not None:
                response.start(PIECE_BYTES)
                response.close()
                self._moved[url] = target
                response = Response(where, self._sent(method, target, headers, body))
            return response
        except (ConnectionLost, AuthorizationError):
            raise
        except Exception as error:
            raise _flat(where, error) from error
        finally:
            current.request = None

    def _redirected(self, url: str, response: Response) -> Optional[str]:
        """Where a request is to be sent again: as it is, and to the same origin; None where it is not."""
        location = response.headers.get("Location")
        if response.status not in (307, 308) or location is None or url in self._moved:
            return None
        target = urljoin(url, location)
        return target if same_origin(target, url) else None

    def _sent(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        if self._has_auth_object:
            return self._sent_by_requests(method, url, headers, body)
        pool, path = self._pools.get(url) or self._pool(url)
        if self._session.cookies:
            from requests.cookies import get_cookie_header

            cookie = get_cookie_header(self._session.cookies, self._prepared("GET", url, {}, None))
            headers = {**headers, "Cookie": cookie} if cookie else headers
        raw = pool.urlopen(
            method, path, body=body, headers=headers, retries=self._no_retries, redirect=False, timeout=self._timeout,
            assert_same_host=False, preload_content=False, decode_content=False,
        )
        if "Set-Cookie" in raw.headers:  # by which a balancer finds the machine again that has the session
            from requests.cookies import extract_cookies_to_jar

            extract_cookies_to_jar(self._session.cookies, self._prepared("GET", url, {}, None), raw)
        return raw

    def _sent_by_requests(self, method: str, url: str, headers: Mapping[str, str], body: Optional[bytes]) -> Any:
        """The longer way, for auth objects, which look at requests and at responses."""
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

    def _pool(self, url: str) -> tuple[Any, str]:
        """The pool of connections to a URL, and what is asked there."""
        prepared, settings = self._prepared("GET", url, {}, None), self._settings
        pool = self._adapter.get_connection_with_tls_context(
            prepared, settings["verify"], proxies=settings["proxies"], cert=settings["cert"]
        )
        self._adapter.cert_verify(pool, prepared.url, settings["verify"], settings["cert"])
        found = self._pools[url] = pool, self._adapter.request_url(prepared, settings["proxies"])
        return found

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
            return  # another thread does it just now, and a pool breaks when two close it at once
        try:
            self._session.close()
            for pool, _ in list(self._pools.values()):
                pool.close()
        finally:
            self._close_lock.release()

    def close_descriptors(self) -> None:
        """Let go of all connections in a forked process, without a word to the server."""
        for connection in list(self._connections):
            connection.close_descriptor()


def without_secrets(url: str) -> str:
    """A URL for messages: without a user's name, a password and a query, any of which may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def same_origin(url: str, other: str) -> bool:
    """Whether two URLs have the same scheme, host and port, so that what proves who we are may go to both."""
    try:
        return _origin(urlsplit(url)) == _origin(urlsplit(other))
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, Optional[str], Optional[int]]:
    port = parts.port if parts.port is not None else {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, port


def _adapter(connections: weakref.WeakSet[Any]) -> Any:
    """An adapter of `requests` whose connections can be aborted."""
    from requests.adapters import HTTPAdapter
    from urllib3.connection import HTTPConnection
    from urllib3.exceptions import NewConnectionError

    def abortable(pool: Any) -> Any:
        itself = pool.ConnectionCls._new_conn is HTTPConnection._new_conn
        more = {"all_of_fetcher": connections, "connects_itself": itself, "new_connection_error": NewConnectionError}
        connection = type("Connection", (AbortableConnection, pool.ConnectionCls), more)
        return type("Pool", (BrieflyKept, pool), {"ConnectionCls": connection})

    def adapted(manager: Any) -> Any:
        if not hasattr(manager, "minimcp_pools"):
            manager.minimcp_pools = {name: abortable(pool) for name, pool in manager.pool_classes_by_scheme.items()}
            manager.pool_classes_by_scheme = manager.minimcp_pools
        return manager

    class Adapter(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **keywords: Any) -> None:
            super().init_poolmanager(*args, **keywords)
            adapted(self.poolmanager)

        def proxy_manager_for(self, *args: Any, **keywords: Any) -> Any:
            return adapted(super().proxy_manager_for(*args, **keywords))

    return Adapter(pool_connections=2, pool_maxsize=MOST_KEPT, max_retries=0)


# ------------------------------------------------------------ errors of libraries


# A read that timed out was one of the TLS handshake: no other has a timeout.
_NOT_CONNECTED = frozenset({
    "NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "SSLError",
    "SSLCertVerificationError", "ConnectionRefusedError", "gaierror", "LocationParseError", "InvalidProxyURL",
})


def _flat(where: str, error: Exception) -> Exception:
    """One of our exceptions for what `requests`, `urllib3`, `http` or `ssl` raised."""
    told, chain = first_words(error), {type(each).__name__ for each in _chain(error)}
    if not chain.isdisjoint(_NOT_CONNECTED):
        return ConnectionFailed(f"{where}: no connection: {told}")
    if isinstance(error, (ValueError, TypeError)) and not isinstance(error, OSError):
        return ConnectionFailed(f"{where}: cannot be sent: {told}")  # a header with a line end in it, and the like
    return ConnectionLost(f"{where}: the connection broke: {told}")


def _chain(error: BaseException) -> list[BaseException]:
    """An exception and what it was made of, outermost first."""
    found: list[BaseException] = []
    todo: list[Any] = [error]
    while todo:
        one = todo.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            todo += [getattr(one, "reason", None), *one.args, one.__cause__, one.__context__]
    return found


def first_words(error: BaseException) -> str:
    """What went wrong, in the words of the library that noticed it first."""
    chain = [each for each in _chain(error) if str(each)]
    inner = next((each for each in reversed(chain) if isinstance(each, OSError) and each.strerror), None)
    told = inner or (chain[-1] if chain else error)
    if isinstance(told, ValueError) and str(told).endswith("base 16: b''"):  # where the size of a chunk should be
        return "the connection was closed"
    return one_line(f"{type(told).__name__}: {told}", 300)
