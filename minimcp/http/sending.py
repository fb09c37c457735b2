"""A request on its way over HTTP, the connection under it that any thread may cut, and what to say of its failures.

Floor 4.5. Not here: how a request is made (see `fetch`).
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import threading
import time
import weakref
from typing import Any, Callable, Optional

from ..engine.timer import Deadline
from ..errors import ConnectionFailed, ConnectionLost, one_line

_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, errno.EALREADY})

here = threading.local()
"""Of each thread: ``sending``, what it sends now."""


KEPT_SECONDS = 1.5
"""How long a connection may be idle and still be used again. Servers close such ones, the hasty ones after 2 s, and
what is sent at that moment is lost: nobody knows whether it has run, so it cannot be sent again."""


class Sending:
    """One HTTP request on its way, from before it is sent until its response is read. Any thread may end it."""

    __slots__ = ("ended", "_connection", "_gate")

    def __init__(self) -> None:
        self.ended = False
        self._connection: Any = None
        self._gate: Optional[threading.Lock] = None

    def end(self) -> None:
        """Nobody wants it any more: its thread gets an error, at whatever point. Idempotent; never blocks."""
        self.ended = True
        gate, connection = self._gate, self._connection
        if gate is not None:
            _open(gate)
        if connection is not None:
            connection.cut_for(self)

    def pause(self, seconds: float) -> bool:
        """Wait, unless it is ended before; whether it still goes on (its own thread)."""
        gate = self._gate = threading.Lock()
        gate.acquire()
        if not self.ended:
            gate.acquire(timeout=seconds)
        self._gate = None
        return not self.ended

    def uses(self, connection: Any) -> None:
        """It goes over this connection from now on (its own thread)."""
        self._connection = connection
        if self.ended:
            connection.cut_for(self)


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        pass  # it is open already


class Cuttable:
    """What is mixed into the connections of `urllib3`: a socket can be shut down by whoever gave the request up.

    The connection may serve another request by then. So it has an owner, and only for that one it is cut.
    """

    kept_in: weakref.WeakSet[Any]
    is_plain: bool
    """Whether it goes to its host itself, and does not ask a SOCKS proxy for it."""
    no_connection: Any
    """What `urllib3` raises then."""
    sock: Any
    close: Callable[[], None]
    timeout: Optional[float]
    port: int
    _dns_host: str
    socket_options: Any

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._owner_lock = threading.RLock()  # a signal handler may end what its own thread is ending
        self._owner: Optional[Sending] = None
        self._wire: Any = None
        """The socket from the first moment until it is closed: ``sock`` comes later, and is None while the response is
        read after which the server closes."""
        self._was_cut = False
        self.idle_since = float("inf")
        self._gathered: Optional[list[bytes]] = None
        self.kept_in.add(self)

    def _serve(self) -> None:
        sending: Optional[Sending] = getattr(here, "sending", None)
        with self._owner_lock:
            self._owner = sending
            if self._was_cut and self.sock is not None:  # for its last owner, when that had been served already
                self.close()
            self._was_cut = False
        if sending is not None:
            sending.uses(self)

    def cut_for(self, sending: Sending) -> None:
        """Wake whoever reads or writes, if this still serves that request; closing a socket would wake nobody."""
        with self._owner_lock:
            if self._owner is not sending:
                return
            self._was_cut = True
            for sock in (self.sock, self._wire):
                try:
                    socket.socket.shutdown(getattr(sock, "socket", sock), socket.SHUT_RDWR)
                except (OSError, TypeError):
                    pass  # it is not connected, any more or yet

    def _new_conn(self) -> Any:
        self._serve()
        try:
            self._wire = self._reach() if self.is_plain else super()._new_conn()  # type: ignore[misc]
        except OSError as error:
            raise self.no_connection(self, f"no connection: {error}") from error
        return self._wire

    def _reach(self) -> socket.socket:
        """As `socket.create_connection`, for somebody who may give up meanwhile.

        Linux lets a socket be shut down before it is connected. Elsewhere whoever gave up waits for its timeout.
        """
        failed = OSError("its name has no address")
        found = socket.getaddrinfo(self._dns_host.strip("[]"), self.port, type=socket.SOCK_STREAM)
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                for option in self.socket_options or ():
                    sock.setsockopt(*option)
                self._join(sock, address, Deadline(self.timeout))
                sock.settimeout(self.timeout)
                return sock
            except BaseException as error:
                sock.close()
                if not isinstance(error, OSError):
                    raise
                failed = error
        raise failed

    def _join(self, sock: socket.socket, address: Any, until: Deadline) -> None:
        sock.setblocking(False)
        self._wire = sock  # from now on `cut_for` wakes this thread
        code = sock.connect_ex(address)
        with selectors.DefaultSelector() as ready:
            ready.register(sock, selectors.EVENT_WRITE)
            while code in _UNDER_WAY and not self._was_cut:
                if not ready.select(until.wait()):
                    raise TimeoutError(f"not connected within {until.seconds:g} s")
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if self._was_cut:
            raise OSError("given up while connecting")
        if code:
            raise OSError(code, os.strerror(code))

    def connect(self) -> None:
        """As in `http.client`; whoever was cut meanwhile does not go on."""
        super().connect()  # type: ignore[misc]
        self._wire = self.sock
        if self._was_cut:
            raise OSError("given up while connecting")

    def request(self, *args: Any, **keywords: Any) -> None:
        """As in `http.client`, but in one piece; from now on this serves whoever this thread sends for."""
        self._serve()
        gathered: list[bytes] = []
        self._gathered = gathered
        try:
            super().request(*args, **keywords)  # type: ignore[misc]
        finally:
            self._gathered = None
        self.send(b"".join(gathered))

    def send(self, data: Any) -> None:
        """As in `http.client`; what belongs to one request is kept until all of it is here."""
        if self._gathered is None:
            super().send(data)  # type: ignore[misc]
        else:
            self._gathered.append(data)

    def close_descriptor(self) -> None:
        """Close the socket without a word, in a forked process."""
        sock = self.sock or self._wire
        if sock is not None and sock.fileno() >= 0:
            os.close(sock.detach())


class KeptBriefly:
    """What is mixed into the pools of `urllib3`: what was idle for longer than `KEPT_SECONDS` is connected anew."""

    def _get_conn(self, *args: Any, **keywords: Any) -> Any:
        connection = super()._get_conn(*args, **keywords)  # type: ignore[misc]
        if time.monotonic() - connection.idle_since > KEPT_SECONDS:
            connection.close()
        return connection

    def _put_conn(self, connection: Any) -> None:
        if connection is not None:
            connection.idle_since = time.monotonic()
        super()._put_conn(connection)  # type: ignore[misc]


# ------------------------------------------------------------ words


def flat(where: str, error: Exception) -> Exception:
    """One of our exceptions for whatever `requests`, `urllib3`, `http` or `ssl` raised."""
    told, chain = words(error), {type(each).__name__ for each in _chain(error)}
    if not chain.isdisjoint(_NOT_CONNECTED):
        return ConnectionFailed(f"{where}: no connection: {told}")
    if isinstance(error, (ValueError, TypeError)) and not isinstance(error, OSError):
        return ConnectionFailed(f"{where}: cannot be sent: {told}")  # a header with a line end in it, and the like
    return ConnectionLost(f"{where}: the connection broke: {told}")


# A read that timed out was one of the TLS handshake: no other has a timeout.
_NOT_CONNECTED = frozenset({
    "NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ReadTimeoutError", "ProxyError", "SSLError",
    "SSLCertVerificationError", "ConnectionRefusedError", "gaierror", "LocationParseError", "InvalidProxyURL",
})


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


def words(error: BaseException) -> str:
    """What went wrong, in the words of whoever noticed it first."""
    chain = [each for each in _chain(error) if str(each)]
    inner = next((each for each in reversed(chain) if isinstance(each, OSError) and each.strerror), None)
    told = inner or (chain[-1] if chain else error)
    if isinstance(told, ValueError) and str(told).endswith("base 16: b''"):  # where the size of a chunk should be
        return "the connection was closed"
    return one_line(f"{type(told).__name__}: {told}", 300)
