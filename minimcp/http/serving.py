"""The bundled HTTP/1.1 server: threads, on the standard library's sockets alone.

One thread of the server's own accepts connections and keeps those that are idle or slow, in a selector; a worker has
one only while a request runs, and for a moment after it. Meant for programs of one machine, or behind a proxy: no TLS.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from functools import partial
from typing import Any, Callable, Optional

from ..engine.pool import Pool
from .http_connection import BODY, CLOSED, HEAD, IDLE, LEAVING, Connection, Terms, Timing
from .http_framing import HEADER_BYTES, BadRequest
from .http_listening import BACKLOG, accept, listen

WATCH_SECONDS = 0.05
"""A peer is watched for leaving once its response comes in pieces, or its request has run for so long: to watch it
costs more than most requests do."""

CROWD = 64
"""With more workers than this none waits for a peer that may send more."""

END_SECONDS = 0.5
"""How long `close` waits for workers whose connections it has cut."""

FAREWELL_SECONDS = 0.2
"""How long a server that closes waits for peers to close their sides."""

_SPARE = 64  # connections beyond the most, for as long as it takes to refuse them
_PAUSE_SECONDS = 0.5  # after the system had no descriptor for us
_log = logging.getLogger("minimcp.http")


class HttpServing:
    """A server that listens and serves, from its construction to `close`; a context manager. Thread-safe.

    Args:
        application: Has ``serve(request, writer)``, with `http_common.HttpRequest` and `ResponseWriter`: called on a
            thread of the connection's, it returns when the response is complete. A body that does not come at once
            leaves the application where it reads it, and it is called anew when all of it has come; so nothing is to
            be done before. What it raises is logged, and answered with status 500.
        host: The name or address to listen at; IPv6 too.
        port: 0 takes a free one.
        path: What `url` ends with.
        max_connections: At the same time; an idle one makes room for a new one, else the new one gets status 503.
        max_header_bytes: Of the head of a request.
        max_body_bytes: Of its body; None for any size. Of bodies that have not come whole 16 of the longest find room.
        timing: What a peer has time for; None for the usual.
        drain_grace: Seconds that running requests get at `close`.

    Raises:
        OSError: It cannot listen there; the message says why.
    """

    def __init__(
        self,
        application: Any,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        path: str = "",
        max_connections: Optional[int] = 1000,
        max_header_bytes: int = HEADER_BYTES,
        max_body_bytes: Optional[int] = 4 * 1024 * 1024,
        timing: Optional[Timing] = None,
        drain_grace: float = 5.0,
    ) -> None:
        timing = timing or Timing()
        self._terms = Terms(application, timing, header_bytes=max_header_bytes, body_bytes=max_body_bytes)
        self._terms.watch = partial(self._post, self._watch_for_leaving)
        self._grace, self._silence = drain_grace, timing.write
        self._most = float("inf") if max_connections is None else max_connections
        self._pid = os.getpid()
        self._listener: Optional[socket.socket] = listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{self.port}{path}"
        self._waits = {IDLE: timing.idle, HEAD: timing.head, BODY: timing.body, LEAVING: timing.leave}
        self._name = f"minimcp-http-{self.port}"
        self._workers = Pool(None, name=self._name)
        self._kept: set[Connection] = set()  # this thread's: idle, slow or leaving
        self._lent: set[Connection] = set()  # the workers'
        self._posts: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._deadline: Optional[float] = None  # of the grace
        self._cut_at: Optional[float] = None
        self._listen_at = 0.0
        self._ended = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._bell_lock = threading.Lock()
        self._hearing, self._calling = socket.socketpair()
        for end in (self._hearing, self._calling):
            end.setblocking(False)
        self._selector.register(self._hearing, selectors.EVENT_READ, partial(self._hearing.recv, 4096))
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._thread = threading.Thread(target=self._run, name=f"{self._name}-reader", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._let_go()
            raise

    def __enter__(self) -> HttpServing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._ended.is_set() else "closing" if self._terms.closing else "open"
        return f"<HttpServing {self.url} {state}, {len(self._lent)} requests, {len(self._kept)} waiting>"

    def close(self, grace: Optional[float] = None) -> None:
        """Listen no more, let running requests end, and cut what is left then. Idempotent; from any thread.

        Args:
            grace: Seconds that they get; None for what the server was made with. A second call may shorten it.

        On a thread that serves a request it does not wait.
        """
        if os.getpid() != self._pid:
            self._abandon()
            return
        grace = self._grace if grace is None else grace
        self._post(self._begin_end, time.monotonic() + grace)
        if not threading.current_thread().name.startswith(self._name + "-"):
            self._ended.wait(grace + 2 * END_SECONDS)

    # ------------------------------------------------------------ for workers

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have something done by the server's thread; if that has ended, here."""
        self._posts.append((function, arguments))
        with self._bell_lock:
            try:
                self._calling.send(b"!")
            except OSError:
                pass  # it is called already, or has ended
        if self._ended.is_set():
            self._take_posts()

    def _work(self, connection: Connection) -> None:
        connection.thread, awaited = threading.current_thread().name, CLOSED
        try:
            awaited = connection.work()
        finally:
            self._post(self._take_back, connection, awaited)

    # ------------------------------------------------------------ on the server's thread

    def _run(self) -> None:
        try:
            while not self._is_over():
                ready, now = self._selector.select(self._patience()), time.monotonic()
                for key, _ in ready:
                    key.data()
                self._take_posts()
                self._look_at_the_time(now)
        except Exception as error:  # a fault of ours
            _log.error("%r ended: %r", self, error, exc_info=error)
        finally:
            self._let_go()

    def _patience(self) -> Optional[float]:
        """Seconds until there is something to do besides what the selector tells."""
        times = [connection.due for connection in self._kept]
        times += [when for when in (self._deadline, self._cut_at) if when is not None]
        if self._listen_at:
            times.append(self._listen_at)
        now = time.monotonic()
        if any(connection.writer is None or connection.watched is not connection.writer for connection in self._lent):
            times.append(now + WATCH_SECONDS)
        return max(0.0, min(times) - now) if times else None

    def _take_posts(self) -> None:
        while self._posts:
            function, arguments = self._posts.popleft()
            function(*arguments)

    def _accept(self) -> None:
        listener = self._listener
        for _ in range(BACKLOG):
            if listener is None:
                return
            try:
                accepted = accept(listener, self._silence)
            except OSError as error:
                _log.warning("no connection is accepted for a moment: %s", error)
                self._make_room()
                self._selector.unregister(listener)
                self._listen_at = time.monotonic() + _PAUSE_SECONDS
                return
            if accepted is None:
                return
            self._welcome(*accepted)

    def _welcome(self, sock: socket.socket, client: str) -> None:
        connection = Connection(sock, client, self._terms)
        here = len(self._kept) + len(self._lent)
        if here < self._most or self._make_room():
            self._keep(connection, HEAD)
        elif here < self._most + _SPARE:
            self._refuse(connection, BadRequest(503, "there are too many connections (max_connections)"))
        else:
            connection.close()

    def _make_room(self) -> bool:
        """Close an idle connection for a new one, if there is one."""
        idle = [connection for connection in self._kept if connection.phase == IDLE]
        if idle:
            self._drop(min(idle, key=lambda connection: connection.due))
        return bool(idle)

    def _keep(self, connection: Connection, awaited: int) -> None:
        """Wait for something of a peer."""
        connection.phase, connection.due = awaited, time.monotonic() + self._waits[awaited]
        self._kept.add(connection)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        if not connection.registered:
            self._selector.register(connection.socket, selectors.EVENT_READ, partial(self._look, connection))
            connection.registered = True

    def _watch_for_leaving(self, connection: Connection) -> None:
        writer = connection.writer
        if writer is not None and writer is not connection.watched and connection in self._lent:
            connection.watched = writer
            self._watch(connection)

    def _unwatch(self, connection: Connection) -> None:
        if connection.registered:
            self._selector.unregister(connection.socket)
            connection.registered = False

    def _look(self, connection: Connection) -> None:
        """Something came from a peer."""
        if connection in self._kept:
            self._read(connection)
            return
        # Once is enough: it left, or it sends the next request already, which is the worker's to read.
        self._unwatch(connection)
        writer = connection.writer
        if writer is not None and writer is connection.watched and connection.has_left():
            writer.lose()

    def _read(self, connection: Connection) -> None:
        data = connection.receive()
        if data is None:
            return
        if connection.phase == LEAVING or not (data or connection.stream.begun):
            if not data:
                self._drop(connection)
            return
        try:
            if not data:
                raise BadRequest(400, "the request ends in the middle")
            if connection.advance(data):
                self._lend(connection)
            elif connection.phase == IDLE:
                self._keep(connection, HEAD)
        except BadRequest as refusal:
            self._refuse(connection, refusal)
        except Exception as error:  # a fault of ours ends one connection, not all of them
            _log.error("%s: %r was raised while a request was read", connection.client, error, exc_info=error)
            self._drop(connection)

    def _lend(self, connection: Connection) -> None:
        self._unwatch(connection)
        self._kept.discard(connection)
        self._lent.add(connection)
        self._terms.crowded = len(self._lent) > CROWD
        try:
            self._workers.submit(partial(self._work, connection))
        except RuntimeError:
            self._lent.discard(connection)
            self._refuse(connection, BadRequest(503, "there is no thread for this request"))

    def _take_back(self, connection: Connection, awaited: int) -> None:
        self._lent.discard(connection)
        connection.watched = None
        self._terms.crowded = len(self._lent) > CROWD
        if awaited == CLOSED or self._ended.is_set() or (self._terms.closing and awaited != LEAVING):
            self._drop(connection)
        elif awaited == LEAVING:
            self._leave(connection)
        else:
            self._keep(connection, awaited)

    def _refuse(self, connection: Connection, refusal: BadRequest) -> None:
        connection.refuse(refusal.status, refusal.reason)
        self._leave(connection)

    def _leave(self, connection: Connection) -> None:
        """Close our side; to close the other one while the peer still sends could destroy our last words."""
        connection.finish()
        self._keep(connection, LEAVING)

    def _drop(self, connection: Connection) -> None:
        self._unwatch(connection)
        self._kept.discard(connection)
        connection.close()

    def _look_at_the_time(self, now: float) -> None:
        """Have done with those whose time was over when what they had sent was asked for last, and not since then."""
        for connection in [connection for connection in self._kept if connection.due <= now]:
            if connection.phase == LEAVING or not connection.stream.begun:
                self._drop(connection)
            else:
                self._refuse(connection, BadRequest(408, "the request did not come in time"))
        for connection in self._lent:
            writer = connection.writer
            if writer is not None and writer is not connection.watched and now - writer.since >= WATCH_SECONDS:
                self._watch_for_leaving(connection)
        if self._listen_at and self._listen_at <= now:
            self._listen_at = 0.0
            if self._listener is not None:
                self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        if self._deadline is not None and self._deadline <= now:
            self._cut(now)

    # ------------------------------------------------------------ the end

    def _begin_end(self, deadline: float) -> None:
        if self._cut_at is not None:
            return
        self._terms.closing = True
        self._deadline = deadline if self._deadline is None else min(deadline, self._deadline)
        self._stop_listening()
        self._waits[LEAVING] = min(FAREWELL_SECONDS, self._waits[LEAVING])
        for connection in list(self._kept):
            if connection.phase == LEAVING:
                self._keep(connection, LEAVING)
            else:
                self._drop(connection)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            if not self._listen_at:
                self._selector.unregister(self._listener)
            self._listener.close()
            self._listener, self._listen_at = None, 0.0

    def _cut(self, now: float) -> None:
        """The grace is over."""
        self._deadline, self._cut_at = None, now + END_SECONDS
        for connection in list(self._kept):
            self._drop(connection)
        for connection in self._lent:
            connection.cut()

    def _is_over(self) -> bool:
        if not self._terms.closing:
            return False
        if self._cut_at is not None and self._cut_at <= time.monotonic():
            names = ", ".join(sorted(connection.thread for connection in self._lent))
            _log.warning("%r: these do not end, and are left behind: %s", self, names)
            return True
        return not (self._kept or self._lent)

    def _let_go(self) -> None:
        self._terms.closing = True
        self._stop_listening()
        for connection in list(self._kept):
            self._drop(connection)
        for connection in self._lent:
            self._unwatch(connection)
        self._workers.close()
        self._selector.close()
        with self._bell_lock:
            self._hearing.close()
            self._calling.close()
            self._ended.set()
        self._take_posts()

    def _abandon(self) -> None:
        """Close descriptors in a forked process, and nothing else: the connections are the parent's."""
        for connection in (*self._kept, *self._lent):
            connection.socket.close()
        for each in (self._listener, self._selector, self._hearing, self._calling):
            if each is not None:
                each.close()
        self._ended.set()
