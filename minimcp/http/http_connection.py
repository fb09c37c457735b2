"""One connection of the bundled HTTP server: its requests, in order, and their responses. Part of serving.py.

Sockets are never closed here: `Connection.work` says what becomes of one, and the server's own thread does it.
"""

from __future__ import annotations

import logging
import select
import socket
import struct
import threading
from typing import Any, Callable, NamedTuple, Optional, Union

from ..engine.timer import Deadline
from ..errors import ConnectionLost
from .common import HttpRequest
from .http_framing import BadRequest, Head, RequestStream
from .http_response import CONTINUE, Writer, response_head

LINGER_SECONDS = 0.05
"""How long a worker waits for a peer that may send more at once, before it leaves that to the server's thread."""

NEXT, IDLE, HEAD, BODY, LEAVING, CLOSED = range(6)
"""What is awaited of a peer: nothing, as its next request is here; the beginning of one; the rest of its head; the rest
of its body; that it closes; nothing any more."""

HALF_BODIES = 16
"""Bodies that have not come whole may have as many bytes together as so many of the longest; short ones always may."""

_READ_BYTES = 64 * 1024
_PIECE_BYTES = 64 * 1024
_DONT_WAIT: int = getattr(socket, "MSG_DONTWAIT", 0)
_TO_SEND: int = getattr(socket, "MSG_NOSIGNAL", 0) | _DONT_WAIT
_MOMENT = struct.pack("ll", 0, int(LINGER_SECONDS * 1000000))
_log = logging.getLogger("minimcp.http")


class Timing(NamedTuple):
    """Seconds that a peer has.

    Args:
        head: To send the head of a request, from its first byte or from the beginning of the connection.
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


class Terms:
    """What holds for all connections of a server.

    Args:
        application: Has `serve(request, writer)`.
        timing: What a peer has time for.
        header_bytes: Of the head of a request.
        body_bytes: Of its body; None for any size. `HALF_BODIES` tells what all may have that have not come whole.
    """

    __slots__ = (
        "application", "timing", "header_bytes", "body_bytes", "closing", "crowded", "watch", "_half", "_count_lock",
    )  # fmt: skip

    def __init__(self, application: Any, timing: Timing, *, header_bytes: int, body_bytes: Optional[int]) -> None:
        self.application, self.timing = application, timing
        self.header_bytes, self.body_bytes = header_bytes, body_bytes
        self._half = 0
        self._count_lock = threading.Lock()
        self.closing = False
        """Each response is the last of its connection."""
        self.crowded = False
        """Workers have better to do than to wait for peers that may send more."""
        self.watch: Callable[[Connection], None]
        """Has the peer of a connection watched for leaving, from now on."""

    def count(self, change: int) -> bool:
        """So many bytes more, or fewer, are here of bodies that have not come whole; whether there is room for them."""
        with self._count_lock:
            self._half += change
            return self.body_bytes is None or self._half <= HALF_BODIES * self.body_bytes


class _Unwinding(BaseException):
    """Leaves the application, which asked for a body that is not here; no catch-all of its own may answer to that."""

    def __init__(self, refusal: Optional[BadRequest] = None) -> None:
        self.refusal = refusal


class Connection:
    """An accepted socket. At any time it belongs to one thread: the server's, or the worker that runs `work`.

    Args:
        sock: Not blocking; where the system can do that it is changed, so that `work` waits on it for a moment.
        client: The peer's address, in words.
        terms: What holds for all connections of its server.
    """

    __slots__ = (
        "socket", "client", "stream", "phase", "due", "writer", "watched", "registered", "thread", "_terms", "_head",
        "_continued", "_half",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, client: str, terms: Terms) -> None:
        self.socket, self.client, self._terms = sock, client, terms
        if _DONT_WAIT:
            _let_wait(sock)
        self.stream = RequestStream(header_bytes=terms.header_bytes, body_bytes=terms.body_bytes)
        self._head: Optional[Head] = None
        self._continued = False
        self._half = 0
        self.writer: Optional[Writer] = None
        # The rest is the business of the server's thread.
        self.phase, self.due = IDLE, 0.0
        self.watched: Optional[Writer] = None
        self.registered = False
        self.thread = ""

    def receive(self, flags: int = _DONT_WAIT) -> Optional[bytes]:
        """What the peer sent; None when that is nothing yet, empty when it has closed."""
        try:
            return self.socket.recv(_READ_BYTES, flags)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def advance(self, data: bytes) -> bool:
        """Take what the peer sent; whether a worker is needed now.

        Raises:
            BadRequest: It is refused.
        """
        self.stream.feed(data)
        if self._head is None:
            self._head = self.stream.head()
            return self._head is not None
        whole = self.stream.body() is not None
        self._count(whole)
        return whole

    def _count(self, whole: bool) -> None:
        """Have what is here of a body counted, until all of it is.

        Args:
            whole: Whether it is.

        Raises:
            BadRequest: It is long, and there is no room for it beside the others.
        """
        change = (0 if whole else self.stream.half) - self._half
        if change:
            self._half += change
            if not self._terms.count(change) and self._half > _READ_BYTES:
                raise BadRequest(503, f"{HALF_BODIES} long bodies are on their way already (max_body_bytes)")

    def has_left(self) -> bool:
        """Whether the peer has closed, or cut, the connection."""
        try:
            return not self.socket.recv(1, socket.MSG_PEEK | _DONT_WAIT)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def refuse(self, status: int, reason: str) -> None:
        """Answer what is no request, as far as the peer takes it at once; never raises."""
        _log.debug("%s: refused with %s: %s", self.client, status, reason)
        body = reason.encode() + b"\n"
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        head = response_head(status, headers, length=len(body), keep_alive=False, newer=True)
        try:
            self.socket.send(head + body, _TO_SEND)
        except OSError:
            pass  # it is closed in any case

    def finish(self) -> None:
        """Tell the peer that nothing more comes."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it has left

    def close(self) -> None:
        """Close the socket, and forget what has come."""
        self.socket.close()
        if self._half:
            self._terms.count(-self._half)
            self._half = 0

    def cut(self) -> None:
        """End it now, from any thread: whoever reads or writes here is woken."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the peer was faster
        writer = self.writer
        if writer is not None:
            writer.lose()

    # ------------------------------------------------------------ on a worker's thread

    def work(self) -> int:
        """Serve this request and those that follow at once; what is awaited then."""
        try:
            awaited = self._serve()
            while awaited == NEXT:
                awaited = self._await_next()
                if awaited == NEXT:
                    awaited = self._serve()
            return awaited
        except BadRequest as refused:
            self.refuse(refused.status, refused.reason)
            return LEAVING

    def _serve(self) -> int:
        head, body = self._head, self.stream.body()
        assert head is not None
        self.writer = writer = Writer(head, self.client, self.send, self._keeps_alive, self._began, self.has_room)
        try:
            given = Body(self, writer) if body is None else body
            self._terms.application.serve(HttpRequest(head.method, head.path, head.headers, given, self.client), writer)
        except _Unwinding as unwinding:
            if unwinding.refusal is None:
                return BODY
            if not writer.begun:
                raise unwinding.refusal
        except ConnectionLost:
            pass  # the writer knows
        except BaseException as error:
            _log.error("%s: %r was raised while a request was served", self.client, error, exc_info=error)
        finally:
            self.writer = None
        if not writer.finish():
            return LEAVING
        self.stream.forward()
        self._continued = False
        return NEXT

    def _began(self) -> None:
        self._terms.watch(self)

    def _await_next(self) -> int:
        self._head = self.stream.head()
        if self._head is not None:
            return NEXT
        data = None if self._terms.closing or self._terms.crowded else self._linger()
        if data is not None:
            if not data:
                return CLOSED
            return NEXT if self.advance(data) else HEAD
        return HEAD if self.stream.begun else IDLE

    def _linger(self) -> Optional[bytes]:
        """What the peer sends within a moment, as `receive`."""
        if _DONT_WAIT:
            return self.receive(0)
        return self.receive() if wait(self.socket, LINGER_SECONDS) else None  # pragma: no cover - Windows

    def _keeps_alive(self, head: Head) -> bool:
        """Whether there may be a request after this one: its body is here, and both sides want to go on."""
        if self._terms.closing or not head.keep_alive:
            return False
        if self.stream.whole is not None:
            return True
        try:
            self.stream.feed(self.receive() or b"")
            return self.stream.body() is not None
        except BadRequest:
            return False

    def read_body(self, writer: Writer) -> bytes:
        """The body of this request, from the connection if need be.

        When it does not come at once, the application is left: it is called anew when all of it is here, unless the
        response has begun.
        """
        head = self._head
        deadline = Deadline(self._terms.timing.body if writer.begun else 0 if self._terms.crowded else LINGER_SECONDS)
        try:
            if head is not None and head.expects and not (self._continued or writer.begun):
                self._continued = True
                self.send(CONTINUE)
            while True:
                body = self.stream.body()
                self._count(body is not None)
                if body is not None:
                    return body
                if not wait(self.socket, deadline.wait()):
                    raise _Unwinding(BadRequest(408, "the body did not come in time") if writer.begun else None)
                data = self.receive()
                if data == b"":
                    raise BadRequest(400, "the body is shorter than announced")
                self.stream.feed(data or b"")
        except BadRequest as refused:
            raise _Unwinding(refused)
        except OSError:
            raise _Unwinding(BadRequest(400, "nobody waits for leave to send the body"))

    def send(self, data: Union[bytes, memoryview]) -> None:
        """Send all of it, for one thread at a time.

        Raises:
            OSError: The peer is gone, or does not take it in time.
        """
        done = self._send_some(data)
        if done == len(data):
            return
        rest = memoryview(data)[done:]
        while rest:
            piece, deadline = rest[:_PIECE_BYTES], Deadline(self._terms.timing.write)
            rest = rest[_PIECE_BYTES:]
            while piece:
                if not wait(self.socket, deadline.wait(), to_write=True):
                    raise TimeoutError(f"it took less than {_PIECE_BYTES} bytes in {deadline.seconds:g} s")
                piece = piece[self._send_some(piece) :]

    def has_room(self) -> bool:
        """Whether a short piece can be sent now, or would raise OSError at once."""
        try:
            return wait(self.socket, 0, to_write=True)
        except (OSError, ValueError):
            return True  # it is closed

    def _send_some(self, data: Union[bytes, memoryview]) -> int:
        try:
            return self.socket.send(data, _TO_SEND)
        except (BlockingIOError, InterruptedError):
            return 0


class Body:
    """The body of a request that had not come when the request was begun. For the thread that serves it."""

    __slots__ = ("_connection", "_writer", "_at")

    def __init__(self, connection: Connection, writer: Writer) -> None:
        self._connection, self._writer = connection, writer
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """The next `size` bytes, fewer only at the end; all that are left when it is negative."""
        whole = self._connection.read_body(self._writer)
        begin, self._at = self._at, len(whole) if size < 0 else min(self._at + size, len(whole))
        return whole[begin : self._at]


def _let_wait(sock: socket.socket) -> None:
    """Have the system end a call that waits after a moment, and all other calls say that they do not wait.

    So one call waits and receives: with many connections each call that may wait lets another thread run first.
    """
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _MOMENT)
        sock.setblocking(True)
    except OSError:
        pass  # then no call waits


def wait(sock: socket.socket, seconds: float, *, to_write: bool = False) -> bool:
    """Whether a socket can be read from, or written to, or is closed, within this time."""
    if not hasattr(select, "poll"):  # pragma: no cover - Windows
        reading, writing = ((), (sock,)) if to_write else ((sock,), ())
        return any(select.select(reading, writing, writing, seconds))
    poller = select.poll()
    poller.register(sock, select.POLLOUT if to_write else select.POLLIN)
    return bool(poller.poll(seconds * 1000))
