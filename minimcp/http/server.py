"""The bundled HTTP/1.1 server, built on the threads and sockets of the standard library.

- The server's own thread (``...-accept``) accepts connections. It watches idle and slow connections
  in a selector, so that they need no thread. Every `SWEEP_SECONDS` it checks their deadlines, and
  whether peers have disconnected while their requests run.
- A worker thread owns a connection while it serves a request, and for `LINGER_SECONDS` afterwards,
  in case the next request arrives. If more than `CROWD` requests are running, it returns the
  connection at once. The number of workers is not limited. The handlers that they run count in the
  pool of the `Server`, and wait there until a place is free.
- An endpoint checks the head of a request before the server reads the body. It serves each request
  once, with its whole body.

The server does not support TLS. Use it on one machine, or behind a proxy.
"""

from __future__ import annotations

import errno
import math
import select
import selectors
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Callable, NamedTuple, Optional

from ..engine.cancel import CancelToken
from ..engine.pool import Pool
from ..engine.shares import CountedClient, Place, ShareExceeded, Shares
from ..engine.timer import MAX_WAIT_SECONDS
from ..errors import ConnectionLost
from ..log import logger
from .framing import (
    BODY,
    CONTINUE,
    HEAD,
    IDLE,
    LAST_CHUNK,
    READY,
    Head,
    RequestParser,
    response_head,
)
from .headers import LOOPBACK, HttpError, HttpRequest, ResponseWriter, rejected, without_port
from .legacy_sse import MESSAGES_PATH, STREAM_PATH
from .options import HttpOptions

# Connections that the system queues until they are accepted, if it allows so many. A client whose
# connection does not fit retries after a second.
BACKLOG = 1024

# Seconds between two checks of the deadlines and of peers that may have disconnected, while there
# are connections.
SWEEP_SECONDS = 0.1

# Seconds that a worker waits for the next request before it returns the connection to the server's
# thread.
LINGER_SECONDS = 0.05

# Number of running requests above which workers do not wait for the next request, and connections
# stay in the selector while their requests run.
CROWD = 64

# All incomplete bodies together may have as many bytes as this number of bodies of the maximum
# size. A short body is always allowed.
HALF_BODIES = 16

# Seconds that responses get to end when the server closes. Then their connections are shut down.
CUT_SECONDS = 0.3

# Seconds that requests get to end after their connections were shut down.
END_SECONDS = 0.5

# Seconds until the server accepts connections again after the system had no descriptor for one.
PAUSE_SECONDS = 0.5

# Maximum number of connections above the limit that stay open while they are rejected.
SPARE_CONNECTIONS = 64

_PIECE_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024  # more costs a page fault each time
DONT_WAIT: int = getattr(socket, "MSG_DONTWAIT", 0)
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logger("minimcp.http")

# States of a connection, in addition to those of its parser. LEAVING: the last response was sent,
# and the peer should close its side. CLOSED: nothing more is read or sent.
LEAVING = "leave"
CLOSED = "closed"

# Not a state: a request to close the connection if it is idle, so that its client can open another
# one.
YIELDED = "yielded"

# A parameter of glibc's `mallopt`: the size in bytes from which each block is a mapping of its own.
_M_MMAP_THRESHOLD = -3


class Timeouts(NamedTuple):
    """Time limits for a peer, in seconds.

    Args:
        head: The limit for sending the head of a request, from its first byte or from the beginning
            of the connection.
        body: The limit for sending the body.
        idle: The limit for beginning the next request.
        write: The limit for reading 64 KiB of a response.
        leave: The limit for closing its side after the server has closed its own.
    """

    head: float = 10.0
    body: float = 30.0
    idle: float = 5.0
    write: float = 30.0
    leave: float = 1.0


class SocketWriter(ResponseWriter):
    """The response to one request on a connection.

    A peer that has only stopped sending counts as gone, but still receives a whole response.

    Args:
        connection: The connection that the response is sent on.
        head: The head of the request.
    """

    begun = False
    _ended = False
    _keep_alive = False
    _has_body = False
    _gone_at = math.inf

    def __init__(self, connection: HttpConnection, head: Head) -> None:
        self.token = CancelToken()
        self.left = CancelToken()
        self._connection = connection
        self._head = head
        self.address = connection.address
        self.counted = connection.counted
        self._write_lock = connection.write_lock

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        with self._write_lock:
            data = self._start(status, headers, len(body))
            self._ended = True
            if not self._has_body:
                body = b""
            elif len(body) > _PIECE_BYTES:
                self._put(data)
                # A long body is not copied.
                data = body
                body = b""
            self._put(data + body)

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        with self._write_lock:
            self._check_open()
            self._put(self._start(status, headers, None))

    def _start(self, status: int, headers: list[tuple[str, str]], length: Optional[int]) -> bytes:
        if self.begun:
            raise RuntimeError("a request has one response, and this one has begun")
        head = self._head
        keep = (
            head.keep_alive
            and not self._connection.server.closing
            and (head.http11 or length is not None)
        )
        data, has_body = response_head(head, status, (*headers, *self.added), length, keep)
        self._has_body = has_body
        self.begun = True
        self._keep_alive = keep
        return data

    def write(self, data: bytes) -> None:
        with self._write_lock:
            self._check_open()
            if data and self._has_body:
                self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._head.http11 else data)

    def has_room(self) -> bool:
        with suppress(OSError, ValueError):
            return ready(self._connection.socket, to_write=True)
        return True  # the socket is closed

    def end(self) -> None:
        with self._write_lock:
            if not self.begun or self._ended:
                return
            self._ended = True
            if self.gone:
                self._keep_alive = False  # pieces may be missing
            elif self._head.http11 and self._has_body:
                with suppress(ConnectionLost):  # reading the next request fails, too
                    self._put(LAST_CHUNK)

    def _put(self, data: bytes) -> None:
        """Write all of the data. Blocks until the peer has read it.

        If the peer reads too slowly, the server's thread shuts the connection down.
        """
        connection = self._connection
        if connection.released:
            raise ConnectionLost(f"{connection.client}: the peer has disconnected")
        try:
            for at in range(0, len(data), _PIECE_BYTES):
                connection.due = time.monotonic() + connection.server.timeouts.write
                connection.socket.sendall(data[at : at + _PIECE_BYTES], _NO_SIGNAL)
            connection.due = math.inf
        except OSError as error:
            self._keep_alive = False
            self.lose()
            raise ConnectionLost(f"{connection.client}: {error}") from error

    def _check_open(self) -> None:
        if self.gone or self._ended:
            ended = "the peer has disconnected" if self.gone else "the response has ended"
            raise ConnectionLost(f"{self._connection.client}: {ended}")

    def count_for(self, client: CountedClient) -> None:
        connection = self._connection
        if connection.place is not None:
            client.move(connection.place, connection.server.max_connections)
            connection.counted = client
            self.counted = client

    def has_left(self, now: float) -> bool:
        """Return whether the peer has closed its connection.

        A peer that has only stopped sending looks the same, so it gets `Timeouts.leave` seconds for
        its response.
        """
        if not self.gone:
            return False
        self._gone_at = min(self._gone_at, now)
        sock = self._connection.socket
        return now - self._gone_at >= self._connection.server.timeouts.leave or is_reset(sock)

    def leave(self) -> None:
        """Cancel the token `left`. Idempotent and thread-safe."""
        self.lose()
        self.left.cancel()

    def finish(self) -> bool:
        """End the response. Return whether it is complete and the connection can be reused."""
        with self._write_lock:
            if not (self.begun or self.gone):
                with suppress(ConnectionLost):
                    self.send(
                        500,
                        [("Content-Type", "text/plain; charset=utf-8")],
                        b"Internal Server Error\n",
                    )
            complete = self._ended
            self._ended = True
        # The callbacks refer to the response, and that refers to the writer.
        self.token = CancelToken()
        self.left = self.token
        return complete and self._keep_alive

    def lose(self) -> None:
        """Mark the peer as gone and cancel `token`. Idempotent and thread-safe."""
        self.gone = True
        if not self._ended:
            self.token.cancel()

    def look(self) -> None:
        sock = self._connection.socket
        try:
            # Linux reports POLLRDHUP even if bytes of the next request have not been read.
            if hasattr(select, "POLLRDHUP"):
                left = poll(sock, select.POLLRDHUP)
            else:
                left = ready(sock) and not sock.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            left = True
        if left and not self.gone:
            self.lose()


class HttpConnection:
    """An accepted socket, its requests one after the other, and their responses.

    Thread safety: A connection belongs to one thread at a time: the server's thread, or the worker
    that runs `work`. Other threads may only call `cut` and the methods of the `SocketWriter`. Only
    the server's thread closes the socket.

    Args:
        sock: The socket.
        client: The peer's address and port.
        server: The server that accepted it.
    """

    def __init__(self, sock: socket.socket, client: str, server: RunningHttp) -> None:
        self.socket = sock
        self.client = client
        self.server = server
        self.parser = RequestParser(body_bytes=server.max_body_bytes)
        self.writer: Optional[SocketWriter] = None  # of the current request
        self.write_lock = threading.RLock()  # held while writing, so that pieces do not mix
        self.thread = ""  # name of the thread that serves it
        # What the peer should do next: a state of the parser, LEAVING or CLOSED.
        self.phase = HEAD
        # The deadline for that, on the clock of `time.monotonic`.
        self.due = math.inf
        self._checked: Optional[Head] = None  # the head that the endpoint checked last
        self.address = without_port(client)
        # Its place among the connections of a client; None if they are not counted.
        self.place: Optional[Place] = None
        self.counted: Optional[CountedClient] = None
        # Whether the socket was closed because the peer disconnected while a handler was running.
        self.released = False
        # Whether a request is being served, and whether to close the connection when it is idle.
        self.serving = self.yielding = False
        self.watched = False  # whether it is in the selector

    def receive(self, flags: int = DONT_WAIT) -> Optional[bytes]:
        """Return bytes from the peer: empty if there are none yet, None if the peer has closed.

        With ``flags=0``, wait up to `LINGER_SECONDS` for the first byte.
        """
        try:
            if not DONT_WAIT and not ready(self.socket):  # pragma: no cover - Windows
                return b""
            return self.socket.recv(_READ_BYTES, flags) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            return None

    def advance(self, data: Optional[bytes]) -> str:
        """Parse bytes that `receive` returned, and return the next state. Never raises.

        After `work` has served a request, the bytes belong to the next one.
        """
        parser = self.parser
        try:
            if data is None and not parser.begun:
                return CLOSED
            if data is None:
                raise HttpError(400, "the request is incomplete", code=None)
            awaited = parser.feed(data)
            head = parser.head
            if awaited == BODY and head is not None and self._checked is not head:
                self._checked = head
                self.server.endpoint_of(head.path).check(HttpRequest(*head[:3], b"", self.client))
                if head.expects_continue:
                    self._send_some(CONTINUE)
            return awaited
        except HttpError as refusal:
            return self.refuse(refusal)
        except Exception as error:  # a bug in the server ends one connection, not all of them
            _log.error(
                "%s: %r was raised while a request was read", self.client, error, exc_info=error
            )
            return LEAVING

    def work(self) -> str:
        """Serve the complete request, and the next ones if they arrive soon. Return the next state.

        Never raises.
        """
        self.thread = threading.current_thread().name
        server = self.server
        parser = self.parser
        awaited = READY
        context = server.context
        while awaited == READY:
            self.serving = True
            head, body = parser.take()
            self.writer = writer = SocketWriter(self, head)
            request = HttpRequest(*head[:3], body, self.client)
            # The endpoint drops the body of a long request. A reference here would keep it alive.
            body = b""
            try:
                context.copy().run(server.endpoint_of(request.path).serve, request, writer)
            except BaseException as error:
                _log.error(
                    "%s: %r was raised while a request was served",
                    self.client,
                    error,
                    exc_info=error,
                )
            self.writer = None
            is_kept = writer.finish()
            self.serving = False
            if self.released:
                return CLOSED
            if not is_kept:
                return LEAVING
            until = time.monotonic() + LINGER_SECONDS
            data = b"" if parser.buffered else self._linger()
            awaited = self.advance(data)
            # The server's thread reads the rest of a long body, because it counts those bytes.
            while (
                data
                and awaited in (HEAD, BODY)
                and parser.buffered <= _PIECE_BYTES
                and time.monotonic() < until
            ):
                data = self._linger()
                awaited = self.advance(data)
        return awaited

    def end_idle(self) -> bool:
        """Have the server's thread close the connection if it is idle, and return whether it is."""
        if not self.is_idle():
            return False
        self.yielding = True  # for a worker that is about to return it
        self.server.close_soon(self)
        return True

    def is_idle(self) -> bool:
        """Return whether no request is being read or served. One may begin at any moment."""
        if self.serving or self.parser.begun or self.phase == LEAVING:
            return False
        return not has_bytes(self.socket)  # a request may have arrived that was not read yet

    def _linger(self) -> Optional[bytes]:
        """Return what `receive` returns, after waiting up to `LINGER_SECONDS`."""
        server = self.server
        if server.closing or self.watched or len(server.lent) > CROWD:
            return b""
        data = self.receive(0)
        if self.yielding and not data:
            return None
        self.yielding = False
        return data

    def refuse(self, refusal: HttpError) -> str:
        """Send an error as the last response, and return the next state. Never raises or blocks.

        What does not fit into the socket's buffer is dropped.
        """
        response = refusal.response()
        _log.debug("%s: rejected with %d: %s", self.client, response.status, refusal)
        head, has_body = response_head(
            self.parser.head, response.status, response.headers, len(response.body), False
        )
        self._send_some(head + response.body if has_body else head)
        return LEAVING

    def _send_some(self, data: bytes) -> None:
        with suppress(OSError):  # the buffer is full, or the peer has disconnected
            if DONT_WAIT or ready(self.socket, to_write=True):
                self.socket.send(data, _NO_SIGNAL | DONT_WAIT)

    def cut(self, how: int = socket.SHUT_RDWR) -> None:
        """Shut the socket down, which wakes the thread that reads or writes. Thread-safe."""
        with suppress(OSError):  # the peer has closed it already
            self.socket.shutdown(how)


class RunningHttp:
    """A running HTTP server. It listens from its construction to `close`. A context manager.

    Args:
        http: The `Endpoint` for Streamable HTTP, or an object with the same methods `check`,
            `serve` and `close`; None does not serve it.
        sse: The `SseServer` for HTTP+SSE; None does not serve it.
        options: The options of both.
        path: The path of Streamable HTTP.
        host: The name or address to listen on, also an IPv6 address.
        port: The port; 0 chooses a free one.
        write_timeout: Seconds after which a client that reads nothing is disconnected; None means a
            day.
        drain_grace: Seconds that running requests get at `close`.
        timeouts: The other time limits for clients; None means the defaults.
        shares: Counts the connections of each client; None does not count them.

    Attributes:
        url: The URL that clients connect to.
        port: The port that the server listens on.

    Raises:
        ValueError: Other machines could reach the server, and `allowed_hosts` does not name its
            hosts.
        OSError: The server cannot listen on this host and port.

    Thread-safe.
    """

    def __init__(
        self,
        http: Any,
        sse: Any,
        options: HttpOptions,
        *,
        path: str = "/mcp",
        host: str = "127.0.0.1",
        port: int = 0,
        write_timeout: Optional[float] = 30.0,
        drain_grace: float = 5.0,
        timeouts: Optional[Timeouts] = None,
        shares: Optional[Shares] = None,
    ) -> None:
        if not isinstance(host, str):
            raise TypeError(f"host must be a str, not {host!r:.60}")
        if host not in LOOPBACK and options.allowed_hosts is None:
            raise ValueError(
                f"other machines can reach {host!r}: name the hosts that they use in "
                "allowed_hosts, or pass ['*'] to allow every name"
            )
        self._http = http
        self._sse = sse
        self._grace = drain_grace
        self.max_body_bytes = options.body_bytes
        self.shares = shares
        limit, spare = limited_connections(options.max_connections)
        self.max_connections = limit
        self._spare = spare
        write = MAX_WAIT_SECONDS if write_timeout is None else min(write_timeout, MAX_WAIT_SECONDS)
        self.timeouts = (timeouts or Timeouts())._replace(write=write)
        self._listener = listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        path = STREAM_PATH if http is None else path
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}{path}"
        self.closing = False
        self.context = copy_context()  # each request is served in a copy of it
        self._name = f"minimcp-http-{self.port}"
        self._workers = Pool(None, name=self._name)
        self._kept: set[HttpConnection] = set()  # idle, slow or leaving
        self.lent: set[HttpConnection] = set()  # owned by workers
        # Closed because their peers disconnected. Workers still serve their requests.
        self._left: set[HttpConnection] = set()
        self._refused: set[HttpConnection] = set()  # rejected, part of `_kept`
        self.sweep_at = 0.0
        self._accept_at = math.inf  # the end of a pause in accepting; infinite without one
        self._ended = threading.Event()
        self._closed = threading.Lock()  # acquired by the first call of `close`, and kept
        # Connections that workers or `close_soon` return, each with its next state.
        self._back: deque[tuple[HttpConnection, str]] = deque()
        # Held while writing to `_waker`: the descriptor must not belong to another file by then.
        self._waker_lock = threading.Lock()
        # Whether a byte was written to `_waker` and not read yet.
        self._is_woken = False
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self._woken = woken
        self._waker = waker
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ, self._read_waker)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        threading.Thread(target=self._run, name=f"{self._name}-accept", daemon=True).start()

    def __enter__(self) -> RunningHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.ended else "closing" if self.closing else "open"
        requests = f"{len(self.lent)} requests, {len(self._kept)} waiting"
        return f"<RunningHttp {self.url} {state}, {requests}>"

    @property
    def ended(self) -> bool:
        """Whether the server is closed."""
        return self._ended.is_set()

    def close(self, grace: Optional[float] = None, reason: Optional[str] = None) -> None:
        """Stop accepting requests, let running ones end, then shut their connections down.

        Idempotent and thread-safe. A second call during the first one shuts the connections down
        when its own time is over. Blocks until the server is closed. On a thread that serves a
        request, it does not wait for the connections to end.

        Args:
            grace: Seconds that running requests get; None means ``drain_grace``.
            reason: The reason with which running requests are cancelled now; if None, they
                continue.
        """
        grace = self._grace if grace is None else grace
        serves = threading.current_thread().name.startswith(self._name + "-")
        if self._closed.acquire(blocking=False):
            for each in (self._sse, self._http):
                if each is not None:
                    each.close(grace, reason)
        elif serves or self._ended.wait(grace):
            return
        self.closing = True  # each response is the last of its connection from now on
        self._is_woken = False  # an exception may have interrupted `_wake` before it sent a byte
        self._wake()
        if not serves:
            self._ended.wait(CUT_SECONDS + 2 * END_SECONDS)

    def renew(self) -> None:
        """Close the descriptors in a forked process, and do nothing else."""
        self._selector.close()
        sockets = [connection.socket for connection in (*self._kept, *self.lent)]
        for each in (*sockets, self._listener, self._woken, self._waker):
            each.close()
        self._ended = threading.Event()
        self._waker_lock = threading.Lock()
        self._ended.set()

    # ------------------------------------------------------------ for connections

    def endpoint_of(self, path: str) -> Any:
        """Return the endpoint that serves a path."""
        older = self._sse is not None and path.partition("?")[0] in (STREAM_PATH, MESSAGES_PATH)
        return self._sse if self._http is None or older else self._http

    def close_soon(self, connection: HttpConnection) -> None:
        """Make the server's thread close a connection if it is still idle. Thread-safe."""
        self._back.append((connection, YIELDED))
        self._wake()

    def _work(self, connection: HttpConnection) -> None:
        self._back.append((connection, connection.work()))
        self._wake()

    def _wake(self) -> None:
        """Wake the server's thread. If that has ended, do its work on this thread."""
        if not self._is_woken:
            self._is_woken = True
            with self._waker_lock, suppress(OSError):  # the thread has ended
                self._waker.send(b"!")
        if self.ended:
            self._take_back()

    # ------------------------------------------------------------ the server's thread

    def _run(self) -> None:
        """Serve until the server is closed. Then shut down the remaining connections.

        Requests that still do not end are abandoned.
        """
        try:
            self._loop(lambda: self.closing)
            self._accept()  # clients that are already connected get a response: try again later
            if self._accept_at == math.inf:
                self._selector.unregister(self._listener)
            self._accept_at = math.inf
            self._listener.close()
            for connection in [each for each in self._kept if each.phase == IDLE]:
                self._move(connection, CLOSED)
            self._loop(lambda: not (self._kept or self.lent), CUT_SECONDS)
            for connection, writer in [(each, each.writer) for each in self.lent]:
                connection.cut()
                if writer is not None:
                    writer.lose()
            self._loop(lambda: not (self.lent or self._left), END_SECONDS)
            running = self.lent | self._left
            if running:
                names = ", ".join(sorted(connection.thread for connection in running))
                _log.warning("%r: these threads did not end and are abandoned: %s", self, names)
                self.lent.clear()
                self._left.clear()
        except Exception as error:  # a bug in the server
            _log.error("%r ended: %r", self, error, exc_info=error)
        self.closing = True
        self._listener.close()
        for connection in list(self._kept):
            self._move(connection, CLOSED)
        self._workers.close()
        self._selector.close()
        with self._waker_lock:
            self._woken.close()
            self._waker.close()
        self._ended.set()
        self._take_back()

    def _loop(self, over: Callable[[], object], seconds: float = math.inf) -> None:
        """Handle events until ``over()`` is true or the time has passed."""
        now = time.monotonic()
        until = now + seconds
        while not over() and now < until:
            watches = self._kept or self.lent or self._left or self._accept_at < math.inf
            events = self._selector.select(SWEEP_SECONDS if watches else None)
            now = time.monotonic()
            # First, because some events are requests on these connections.
            self._take_back()
            for key, _ in events:
                key.data()
            if self.sweep_at <= now:
                self.sweep_at = now + SWEEP_SECONDS
                self._sweep(now)

    def _read_waker(self) -> None:
        self._woken.recv(4096)
        self._is_woken = False
        # Threads that returned connections before this statement did not wake this one.
        self._take_back()

    def _take_back(self) -> None:
        with suppress(IndexError):  # after the end, other threads empty the queue too
            while self._back:
                self._move(*self._back.popleft())

    def _sweep(self, now: float) -> None:
        """Check all deadlines, and find peers that have disconnected.

        All bytes that arrived before `now` have been read.
        """
        for connection in [each for each in self._kept if each.due <= now]:
            if connection.phase == LEAVING or not connection.parser.begun:
                self._move(connection, CLOSED)
            else:
                self._move(
                    connection,
                    connection.refuse(
                        HttpError(408, "the request did not arrive in time", code=None)
                    ),
                )
        for connection, writer in [(each, each.writer) for each in self.lent]:
            if connection.due <= now:  # the peer does not read the response
                connection.cut()
            elif writer is not None and not connection.watched:
                writer.look()
                if writer.has_left(now):
                    self._release(connection, writer)
        if self._accept_at <= now:
            self._accept_at = math.inf
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _release(self, connection: HttpConnection, writer: SocketWriter) -> None:
        """Close the connection of a peer that has disconnected while its request is being served.

        The worker thread continues until the handler ends. The write lock keeps that thread from
        using the descriptor, which may belong to another connection by then.
        """
        if not connection.write_lock.acquire(blocking=False):
            connection.cut()  # wakes the writer; the next sweep tries again
            return
        try:
            if connection.writer is not writer:
                return  # the worker has finished the request
            connection.released = True
            self.lent.discard(connection)
            self._left.add(connection)
            self._unwatch(connection)
            connection.socket.close()
        finally:
            connection.write_lock.release()
        if connection.place is not None:
            connection.place.leave()
        writer.leave()

    def _accept(self) -> None:
        """Accept all connections in the queue of the system.

        Calls on their sockets do not block with MSG_DONTWAIT. Without it, `recv` waits up to
        `LINGER_SECONDS`: waiting and receiving in one call saves a sixth of the time of a short
        request.
        """
        for _ in range(BACKLOG):
            try:
                sock, address = self._listener.accept()
            except OSError as error:  # the queue is empty, or the peer has disconnected
                if error.errno in _SCARCE:
                    if self._make_room():
                        continue
                    _log.warning("not accepting connections for %s s: %s", PAUSE_SECONDS, error)
                    self._selector.unregister(self._listener)
                    self._accept_at = time.monotonic() + PAUSE_SECONDS
                return
            with suppress(OSError):  # the peer has disconnected, which reading will show
                # Without MSG_DONTWAIT, as on Windows, no call may block forever.
                sock.settimeout(None if DONT_WAIT else self.timeouts.write)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # The system drops the connection of a peer that does not acknowledge bytes.
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    sock.setsockopt(
                        socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(self.timeouts.write * 1000)
                    )
                if DONT_WAIT:
                    linger = struct.pack("ll", 0, int(LINGER_SECONDS * 1_000_000))
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, linger)
            host = f"[{address[0]}]" if ":" in address[0] else address[0]
            connection = HttpConnection(sock, f"{host}:{address[1]}", self)
            refusal = self._refusal_of(connection)
            if refusal is None:
                self._move(connection, HEAD)
            elif len(self._refused) < self._spare:
                self._refused.add(connection)
                self._move(connection, connection.refuse(refusal))
            else:
                sock.close()

    def _refusal_of(self, connection: HttpConnection) -> Optional[HttpError]:
        """Count a new connection. Return the error that rejects it, or None if there is room."""
        most = self.max_connections
        if self.shares is not None:
            client = self.shares.client(None, connection.address)
            try:
                connection.place = client.reserve("connections", most, connection.end_idle)
            except ShareExceeded as error:
                return rejected(error, code=None)
            connection.counted = client
        connections = len(self._kept) + len(self.lent) - len(self._refused)
        if most is None or connections < most or self._make_room():
            return None
        if connection.place is not None:
            connection.place.leave()
        return HttpError(503, "there are too many connections (max_connections)", code=None)

    def _make_room(self) -> bool:
        """Close an idle connection to make room for a new one, and return whether there was one.

        Connections that never sent a byte are closed first.
        """
        idle = [each for each in self._kept if each.phase in (IDLE, HEAD) and not each.parser.begun]
        for connection in sorted(idle, key=lambda each: (each.phase == IDLE, each.due)):
            if not ready(connection.socket):  # otherwise a request has arrived
                self._move(connection, CLOSED)
                return True
        return self._release_any()

    def _release_any(self) -> bool:
        """Close a connection whose peer has stopped sending while its request is being served."""
        for connection, writer in [(each, each.writer) for each in self.lent]:
            if writer is None:
                continue
            writer.look()
            if writer.gone:
                self._release(connection, writer)
            if connection.released:
                return True
        return False

    def _read(self, connection: HttpConnection) -> None:
        """Read from a connection that the selector reports as readable."""
        if connection not in self._kept:
            # The peer sends the next request early, or has disconnected, which `_sweep` will find.
            self._unwatch(connection)
            return
        data = connection.receive()
        if connection.phase != LEAVING:
            self._move(connection, connection.advance(data))
        elif data is None:
            self._move(connection, CLOSED)

    def _move(self, connection: HttpConnection, awaited: str) -> None:
        """Pass a connection to the selector, to a worker or to its end, by its next state."""
        if awaited == YIELDED:
            if connection not in self._kept or not connection.is_idle():
                return
            awaited = CLOSED
        elif awaited == IDLE and connection.yielding:
            awaited = CLOSED
        connection.yielding = False
        self.lent.discard(connection)
        if self.ended or (self.closing and awaited == IDLE):
            awaited = CLOSED
        kept = connection in self._kept
        most = self.max_body_bytes
        if awaited in (READY, CLOSED):
            self._kept.discard(connection)
            if awaited == CLOSED or len(self.lent) < CROWD:
                self._unwatch(connection)
        if awaited == READY:
            self.lent.add(connection)
            connection.due = math.inf
            # Unlike `spawn`, this wakes few threads for many short requests.
            self._workers.submit(partial(self._work, connection))
        elif awaited == CLOSED:
            connection.parser.close()
            connection.socket.close()
            self._refused.discard(connection)
            self._left.discard(connection)
            if connection.place is not None:
                connection.place.leave()
        elif not kept or connection.phase != awaited:
            # Closing both sides while the peer still sends could destroy the last response.
            if awaited == LEAVING:
                connection.cut(socket.SHUT_WR)
            connection.phase = awaited
            connection.due = time.monotonic() + getattr(self.timeouts, awaited)
            if not kept:
                self._kept.add(connection)
                self._watch(connection)
        long = awaited == BODY and connection.parser.buffered > _PIECE_BYTES
        if long and most is not None and self.half_bytes() > HALF_BODIES * most:
            message = f"incomplete bodies use more than {HALF_BODIES} times HttpOptions.body_bytes"
            self._move(connection, connection.refuse(HttpError(503, message, code=None)))

    def _watch(self, connection: HttpConnection) -> None:
        if not connection.watched:
            connection.watched = True
            self._selector.register(
                connection.socket, selectors.EVENT_READ, partial(self._read, connection)
            )

    def _unwatch(self, connection: HttpConnection) -> None:
        if connection.watched and not self.ended:
            connection.watched = False
            self._selector.unregister(connection.socket)

    def half_bytes(self) -> int:
        """Return the number of bytes received of incomplete bodies."""
        return sum(each.parser.buffered for each in self._kept if each.phase == BODY)


def limited_connections(most: Optional[int]) -> tuple[Optional[int], int]:
    """Return the maximum number of open connections, and of connections that are being rejected.

    Both depend on the number of files that this process may open (RLIMIT_NOFILE). An eighth of it
    is left for other files.

    Args:
        most: `HttpOptions.max_connections`.
    """
    try:
        import resource
    except ImportError:  # pragma: no cover - Windows
        return most, SPARE_CONNECTIONS
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return most, SPARE_CONNECTIONS
    spare = min(SPARE_CONNECTIONS, max(1, files // 8))
    allowed = max(1, files - files // 8 - spare)
    if most is not None and most <= allowed:
        return most, spare
    if most is not None:
        _log.info(
            "max_connections is %d, not %d: this process may open %d files", allowed, most, files
        )
    return allowed, spare


def listen(host: str, port: int) -> socket.socket:
    """Return a listening, non-blocking socket.

    Args:
        host: A name or an address. The first address of a name is used.
        port: The port; 0 chooses a free one.

    Raises:
        OSError: The socket cannot listen on this host and port.
        ValueError: The port is not a port number.
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"port must be a number from 0 to 65535, not {port!r}")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server(
            address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both
        )
    except OSError as error:
        words = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            words = "another program is listening there; choose another port, or 0 for a free one"
        raise OSError(error.errno, f"cannot listen on port {port} of {host}: {words}") from error
    listener.setblocking(False)
    return listener


def return_freed_memory() -> None:
    """Make the C library return freed blocks to the system.

    Otherwise glibc keeps several megabytes of them for each thread.
    """
    # The C library is not glibc, or cannot be found.
    with suppress(ImportError, OSError, AttributeError, TypeError):
        import ctypes

        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


def is_reset(sock: socket.socket) -> bool:
    """Return whether a connection has ended in both directions."""
    try:
        return hasattr(select, "poll") and poll(sock, 0)  # POLLHUP and POLLERR are always reported
    except (OSError, ValueError):
        return True


def has_bytes(sock: socket.socket) -> bool:
    """Return whether the socket has received bytes that were not read yet."""
    try:
        if not DONT_WAIT:  # pragma: no cover - Windows
            return ready(sock)
        return bool(sock.recv(1, socket.MSG_PEEK | DONT_WAIT))
    except (OSError, ValueError):  # no bytes, or the socket is closed
        return False


def ready(sock: socket.socket, *, to_write: bool = False) -> bool:
    """Return whether a read or a write would not block, because it can proceed or would fail."""
    if not hasattr(select, "poll"):  # pragma: no cover - Windows
        reading, writing = ((), (sock,)) if to_write else ((sock,), ())
        return any(select.select(reading, writing, writing, 0))
    return poll(sock, select.POLLOUT if to_write else select.POLLIN)


def poll(sock: socket.socket, events: int) -> bool:
    """Return whether `select.poll` reports one of these events for a socket."""
    poller = select.poll()
    poller.register(sock, events)
    return bool(poller.poll(0))
