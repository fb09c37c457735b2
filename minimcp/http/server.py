"""The bundled HTTP/1.1 server: threads and sockets of the standard library alone.

- The server's own thread (``...-accept``) accepts connections and waits, in a selector, for those
  that are idle or slow: these cost no thread. Every `SWEEP_SECONDS` it looks at their deadlines,
  and at who has left while a request runs.
- A worker thread has a connection while a request is served, and `LINGER_SECONDS` after that for
  the next one. Workers are as many as requests; the handlers that they run count in the pool of the
  `Server`, and wait for their place there.
- An endpoint looks at a head before its body is waited for, and serves each request once, with its
  whole body.

Meant for programs of one machine, or behind a proxy: no TLS.
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

# Connections that the system keeps until they are accepted, if it allows so many; the next one
# waits a second.
BACKLOG = 1024

# How often deadlines are looked at, and whether peers have left, as long as there are connections.
SWEEP_SECONDS = 0.1

# How long a worker waits for the next request before it leaves that to the server's thread.
LINGER_SECONDS = 0.05

# With more requests than this at the same time no worker waits for the next request of a
# connection.
CROWD = 64

# Bodies that have not come whole may have as many bytes together as so many of the longest; short
# ones always may.
HALF_BODIES = 16

# What responses that were told to end get to do so, before their connections are cut.
CUT_SECONDS = 0.3

# What requests get to end, after their connections were cut.
END_SECONDS = 0.5

# When the next connection is accepted, after the system had no descriptor for one.
PAUSE_SECONDS = 0.5

# Connections beyond the most, for as long as it takes to refuse them.
SPARE_CONNECTIONS = 64

_PIECE_BYTES = 64 * 1024
_READ_BYTES = 16 * 1024  # more costs a page fault each time
DONT_WAIT: int = getattr(socket, "MSG_DONTWAIT", 0)
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_log = logger("minimcp.http")

# States of a connection, besides those of its parser. LEAVING: the last response was sent, and the
# peer should close its side. CLOSED: nothing more is read or sent.
LEAVING = "leave"
CLOSED = "closed"

# Not a state but a request to close the connection if it is idle, so that its client can have
# another one.
YIELDED = "yielded"

# Of glibc's `mallopt`: blocks of so many bytes are got from the system, each by itself.
_M_MMAP_THRESHOLD = -3


class Timeouts(NamedTuple):
    """Seconds that a peer has.

    Args:
        head: To send the head of a request, from its first byte or from the beginning of the
            connection.
        body: To send the body.
        idle: To begin with the next request.
        write: To take 64 KiB.
        leave: To close its side, after we have closed ours.
    """

    head: float = 10.0
    body: float = 30.0
    idle: float = 5.0
    write: float = 30.0
    leave: float = 1.0


class SocketWriter(ResponseWriter):
    """The response to one request on a connection.

    A peer that has only stopped sending counts as gone, but is still sent a whole response.

    Args:
        connection: Where it goes.
        head: Of the request.
    """

    def __init__(self, connection: HttpConnection, head: Head) -> None:
        self.begun = False
        self._connection = connection
        self._head = head
        self._ended = self._keep_alive = self._has_body = False
        super().__init__()
        self._left = CancelToken()
        self._gone_at = math.inf
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
            raise RuntimeError("one request has one response, and this one has begun")
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
        return True  # it is closed

    def end(self) -> None:
        with self._write_lock:
            if not self.begun or self._ended:
                return
            self._ended = True
            if self.gone:
                self._keep_alive = False  # pieces may be missing
            elif self._head.http11 and self._has_body:
                with suppress(ConnectionLost):  # the next request will show it
                    self._put(LAST_CHUNK)

    def _put(self, data: bytes) -> None:
        """Write all of it. Blocks: until the peer takes it; one that takes a piece too slowly is
        cut by the server."""
        connection = self._connection
        if connection.released:
            raise ConnectionLost(f"{connection.client}: the peer is gone")
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
            ended = "the peer is gone" if self.gone else "the response has ended"
            raise ConnectionLost(f"{self._connection.client}: {ended}")

    def on_left(self, callback: Callable[[], object]) -> None:
        self._left.on_cancel(callback)

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
        """Run the callbacks of `on_left`. Idempotent, any thread."""
        self.lose()
        self._left.cancel()

    def finish(self) -> bool:
        """End the response. Return whether it is complete and the connection can be used again."""
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
        # The callbacks refer to the writer.
        self.token = CancelToken()
        self._left = CancelToken()
        return complete and self._keep_alive

    def lose(self) -> None:
        """The peer is gone: run the callbacks of `on_gone`. Idempotent, from any thread."""
        self.gone = True
        if not self._ended:
            self.token.cancel()

    def look(self) -> None:
        sock = self._connection.socket
        try:
            # Linux reports it even if bytes of the next request have not been read.
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

    Thread safety: it belongs to one thread at a time, the server's or the worker that runs `work`;
    only `cut` and what a `SocketWriter` calls may come from others. Only the server's thread closes
    the socket.

    Args:
        sock: Accepted.
        client: The peer's address, as text.
        server: Accepted it.
    """

    def __init__(self, sock: socket.socket, client: str, server: RunningHttp) -> None:
        self.socket = sock
        self.client = client
        self.server = server
        self.parser = RequestParser(body_bytes=server.max_body_bytes)
        self.writer: Optional[SocketWriter] = None  # of the request that is served now
        self.write_lock = threading.RLock()  # held while writing, so that no piece comes apart
        self.thread = ""  # that serves it
        # What the peer should do next: a state of the parser, LEAVING or CLOSED.
        self.phase = HEAD
        # Until when, in `time.monotonic`.
        self.due = math.inf
        self._checked: Optional[Head] = None  # the endpoint has looked at this one
        self.address = without_port(client)
        # Counts it among the connections of a client.
        self.place: Optional[Place] = None
        self.counted: Optional[CountedClient] = None
        # Whether the peer left while a handler was running, and the socket is closed.
        self.released = False
        # Whether a request is being served; and whether to close it if no other request is here.
        self.serving = self.yielding = False

    def receive(self, flags: int = DONT_WAIT) -> Optional[bytes]:
        """What the peer sent, empty when that is nothing yet; None when it has closed. With flags
        0: within a moment."""
        try:
            if not DONT_WAIT and not ready(self.socket):  # pragma: no cover - Windows
                return b""
            return self.socket.recv(_READ_BYTES, flags) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            return None

    def advance(self, data: Optional[bytes]) -> str:
        """Take what `receive` gave, of the next request when this one was served; what is awaited
        then. Never raises."""
        parser = self.parser
        try:
            if data is None and not parser.begun:
                return CLOSED
            if data is None:
                raise HttpError(400, "the request ends in the middle", code=None)
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
        except Exception as error:  # a fault of ours ends one connection, not all of them
            _log.error(
                "%s: %r was raised while a request was read", self.client, error, exc_info=error
            )
            return LEAVING

    def work(self) -> str:
        """Serve the request that is here, and those that follow at once; what is awaited then.
        Never raises."""
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
            # The endpoint drops the body of a request that takes long. This must not keep it.
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
            # A long body that has not come is left to the server's thread, which counts it.
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
        """Return whether no request is being read or served. The next one may begin meanwhile."""
        if self.serving or self.parser.begun or self.phase == LEAVING:
            return False
        return not has_bytes(self.socket)  # else they were not read yet

    def _linger(self) -> Optional[bytes]:
        """As `receive`, after a wait of `LINGER_SECONDS` at most."""
        server = self.server
        if server.closing or len(server.lent) > CROWD:
            return b""
        data = self.receive(0)
        if self.yielding and not data:
            return None
        self.yielding = False
        return data

    def refuse(self, refusal: HttpError) -> str:
        """Send the last response, as far as the peer takes it at once; what is awaited then. Never
        raises."""
        _log.debug("%s: refused: %s", self.client, refusal)
        response = refusal.response()
        head, has_body = response_head(
            self.parser.head, response.status, response.headers, len(response.body), False
        )
        self._send_some(head + response.body if has_body else head)
        return LEAVING

    def _send_some(self, data: bytes) -> None:
        with suppress(OSError):  # it takes nothing now, or has left
            if DONT_WAIT or ready(self.socket, to_write=True):
                self.socket.send(data, _NO_SIGNAL | DONT_WAIT)

    def cut(self, how: int = socket.SHUT_RDWR) -> None:
        """Shut the socket down, from any thread: who reads or writes here is woken."""
        with suppress(OSError):  # the peer was faster
            self.socket.shutdown(how)


class RunningHttp:
    """A server of MCP that listens, from its construction to `close`; a context manager.

    Args:
        http: Serves Streamable HTTP: an `Endpoint`, or what has its `check`, `serve` and `close`;
            None when that is not served.
        sse: Serves HTTP+SSE: an `SseServer`; None when that is not served.
        options: Of both.
        path: Of the first.
        host: The name or address to listen at; IPv6 too.
        port: 0 takes a free one.
        write_timeout: Seconds after which a client that takes nothing is lost; None waits for a
            day.
        drain_grace: Seconds that running requests get at `close`.
        timeouts: What else clients have time for; None takes the defaults.
        shares: Counts the connections of each client; None counts none.

    Raises:
        ValueError: Other machines could reach it there, and `allowed_hosts` does not say by which
            names.
        OSError: It cannot listen there; the message says why.

    Thread safety: all methods, from any thread. ``url`` is where clients connect, ``port`` where it
    listens.
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
        if host not in LOOPBACK and options.allowed_hosts is None:
            raise ValueError(
                f"other machines reach {host!r}: say by which names in allowed_hosts, "
                "or ['*'] for any"
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
        self._kept: set[HttpConnection] = set()  # in the selector: idle, slow or leaving
        self.lent: set[HttpConnection] = set()  # to workers
        # Closed by their peers, while workers serve their requests.
        self._left: set[HttpConnection] = set()
        self._refused: set[HttpConnection] = set()  # that get a last response, part of `_kept`
        self.sweep_at = 0.0
        self._accept_at = math.inf  # after a pause
        self._ended = threading.Event()
        self._closed = threading.Lock()  # held for ever by the first that calls `close`
        # Connections that workers or `close_soon` return, each with its next state.
        self._back: deque[tuple[HttpConnection, str]] = deque()
        # Held while writing to `_waker`: the descriptor must not belong to another file by then.
        self._waker_lock = threading.Lock()
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self._woken = woken
        self._waker = waker
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ, partial(self._woken.recv, 4096))
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
        """Whether it is closed."""
        return self._ended.is_set()

    def close(self, grace: Optional[float] = None, reason: Optional[str] = None) -> None:
        """Take no more requests, let running ones end, and cut what is left then. Idempotent, from
        any thread.

        A second call while the first is at that cuts what is left when its own time is over.

        Blocks: until that is done; on a thread that serves a request it does not wait for the
        connections' end.

        Args:
            grace: Seconds that running requests get; None takes ``drain_grace``.
            reason: Why they are cancelled before that, for their handlers; None lets them run.
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
        self._wake()
        if not serves:
            self._ended.wait(CUT_SECONDS + 2 * END_SECONDS)

    def renew(self) -> None:
        """This process is a fork of the one that serves: close descriptors, and nothing else."""
        self._selector.close()
        sockets = [connection.socket for connection in (*self._kept, *self.lent)]
        for each in (*sockets, self._listener, self._woken, self._waker):
            each.close()
        self._ended = threading.Event()
        self._waker_lock = threading.Lock()
        self._ended.set()

    # ------------------------------------------------------------ for connections

    def endpoint_of(self, path: str) -> Any:
        """Who serves what is at a path."""
        older = self._sse is not None and path.partition("?")[0] in (STREAM_PATH, MESSAGES_PATH)
        return self._sse if self._http is None or older else self._http

    def close_soon(self, connection: HttpConnection) -> None:
        """Have the server's thread close a connection if it is still idle. Any thread."""
        self._back.append((connection, YIELDED))
        self._wake()

    def _work(self, connection: HttpConnection) -> None:
        self._back.append((connection, connection.work()))
        self._wake()

    def _wake(self) -> None:
        """Have the server's thread look what there is to do; if that has ended, do it here."""
        with self._waker_lock, suppress(OSError):  # it is woken already, or has ended
            self._waker.send(b"!")
        if self.ended:
            self._take_back()

    # ------------------------------------------------------------ the server's thread

    def _run(self) -> None:
        """Serve until the server is closed; then cut what is left, and when that has not helped,
        leave it behind."""
        try:
            self._loop(lambda: self.closing)
            self._accept()  # who has connected by now is told to come again
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
                _log.warning("%r: these do not end, and are left behind: %s", self, names)
                self.lent.clear()
                self._left.clear()
        except Exception as error:  # a fault of ours
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
        """Do what there is to do, until it is over or the time is."""
        now = time.monotonic()
        until = now + seconds
        while not over() and now < until:
            watches = self._kept or self.lent or self._left or self._accept_at < math.inf
            events = self._selector.select(SWEEP_SECONDS if watches else None)
            now = time.monotonic()
            for key, _ in events:
                key.data()
            if self._back:
                self._take_back()
            if self.sweep_at <= now:
                self.sweep_at = now + SWEEP_SECONDS
                self._sweep(now)

    def _take_back(self) -> None:
        with suppress(IndexError):  # when the server has ended, another thread may take the last
            while self._back:
                self._move(*self._back.popleft())

    def _sweep(self, now: float) -> None:
        """Look at all deadlines, and at who has left. What came before `now` has been read."""
        for connection in [each for each in self._kept if each.due <= now]:
            if connection.phase == LEAVING or not connection.parser.begun:
                self._move(connection, CLOSED)
            else:
                self._move(
                    connection,
                    connection.refuse(
                        HttpError(408, "the request did not come in time", code=None)
                    ),
                )
        for connection, writer in [(each, each.writer) for each in self.lent]:
            if connection.due <= now:  # it takes nothing
                connection.cut()
            elif writer is not None:
                writer.look()
                if writer.has_left(now):
                    self._release(connection, writer)
        if self._accept_at <= now:
            self._accept_at = math.inf
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _release(self, connection: HttpConnection, writer: SocketWriter) -> None:
        """Close the connection of a peer that has left while its request is being served.

        The worker keeps nothing but its thread until the handler ends. The lock stops it from using
        the descriptor, which may belong to another connection afterwards.
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
            connection.socket.close()
        finally:
            connection.write_lock.release()
        if connection.place is not None:
            connection.place.leave()
        writer.leave()

    def _accept(self) -> None:
        """Take what connects. Calls on a socket do not block with MSG_DONTWAIT; without it `recv`
        waits for `LINGER_SECONDS`. To wait and to receive in one call saves a sixth of the time of
        a short request."""
        for _ in range(BACKLOG):
            try:
                sock, address = self._listener.accept()
            except OSError as error:  # there is none, or it has left meanwhile
                if error.errno in _SCARCE:
                    if self._make_room():
                        continue
                    _log.warning("no connection is accepted for %s s: %s", PAUSE_SECONDS, error)
                    self._selector.unregister(self._listener)
                    self._accept_at = time.monotonic() + PAUSE_SECONDS
                return
            with suppress(OSError):  # it has left already, which will be seen
                # Without a flag for single calls, as on Windows, nothing may wait for ever.
                sock.settimeout(None if DONT_WAIT else self.timeouts.write)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # For a peer that does not confirm the bytes that it is sent.
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
        """Count a new connection. Return the response to it if there are too many, or None."""
        most = self.max_connections
        if self.shares is not None:
            client = self.shares.client(None, connection.address)
            try:
                connection.place = client.admit("connections", most, connection.end_idle)
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
        """Close an idle connection for a new one, if there is one; first those that never sent a
        byte."""
        idle = [each for each in self._kept if each.phase in (IDLE, HEAD) and not each.parser.begun]
        for connection in sorted(idle, key=lambda each: (each.phase == IDLE, each.due)):
            if not ready(connection.socket):  # else its bytes are here, and were not read yet
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
        """Something came on a connection that is kept."""
        data = connection.receive()
        if connection.phase != LEAVING:
            self._move(connection, connection.advance(data))
        elif data is None:
            self._move(connection, CLOSED)

    def _move(self, connection: HttpConnection, awaited: str) -> None:
        """Have a connection go, or stay, where what is awaited of its peer is seen."""
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
        if awaited in (READY, CLOSED) and kept:
            self._kept.discard(connection)
            self._selector.unregister(connection.socket)
        if awaited == READY:
            self.lent.add(connection)
            connection.due = math.inf
            self._workers.spawn(partial(self._work, connection))
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
                self._selector.register(
                    connection.socket, selectors.EVENT_READ, partial(self._read, connection)
                )
        long = awaited == BODY and connection.parser.buffered > _PIECE_BYTES
        if long and most is not None and self.half_bytes() > HALF_BODIES * most:
            message = f"{HALF_BODIES} long bodies are on their way (HttpOptions.body_bytes)"
            self._move(connection, connection.refuse(HttpError(503, message, code=None)))

    def half_bytes(self) -> int:
        """Bytes that have come of bodies which have not come whole."""
        return sum(each.parser.buffered for each in self._kept if each.phase == BODY)


def limited_connections(most: Optional[int]) -> tuple[Optional[int], int]:
    """Return how many connections may be open, and how many more while they are rejected.

    Both are limited by the number of files that this process may open (RLIMIT_NOFILE), an eighth of
    which is left for other files.

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
    """A listening socket, which does not block.

    Args:
        host: A name or an address; the first one of a name.
        port: 0 takes a free one.

    Raises:
        OSError: It cannot listen there; the message says why.
        ValueError: The port is none.
    """
    if not isinstance(port, int) or not 0 <= port <= 65535:
        raise ValueError(f"port is a number from 0 to 65535, not {port!r}")
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
            words = "another program listens there; choose another port, or 0 for a free one"
        raise OSError(error.errno, f"cannot listen on port {port} of {host}: {words}") from error
    listener.setblocking(False)
    return listener


def return_freed_memory() -> None:
    """Have the C library give blocks back when they are freed: glibc keeps some megabytes of them
    for each thread."""
    # Another C library, or none that can be found.
    with suppress(ImportError, OSError, AttributeError, TypeError):
        import ctypes

        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 128 * 1024)


def is_reset(sock: socket.socket) -> bool:
    """Return whether a connection has ended in both directions."""
    try:
        return hasattr(select, "poll") and poll(sock, 0)  # tells of POLLHUP and POLLERR anyway
    except (OSError, ValueError):
        return True


def has_bytes(sock: socket.socket) -> bool:
    """Return whether the peer has sent bytes that were not read yet."""
    try:
        if not DONT_WAIT:  # pragma: no cover - Windows
            return ready(sock)
        return bool(sock.recv(1, socket.MSG_PEEK | DONT_WAIT))
    except (OSError, ValueError):  # there are none, or it is closed
        return False


def ready(sock: socket.socket, *, to_write: bool = False) -> bool:
    """Whether a socket can be read from, or written to, now, or is closed."""
    if not hasattr(select, "poll"):  # pragma: no cover - Windows
        reading, writing = ((), (sock,)) if to_write else ((sock,), ())
        return any(select.select(reading, writing, writing, 0))
    return poll(sock, select.POLLOUT if to_write else select.POLLIN)


def poll(sock: socket.socket, events: int) -> bool:
    """Whether one of these events of `select.poll` is there."""
    poller = select.poll()
    poller.register(sock, events)
    return bool(poller.poll(0))
