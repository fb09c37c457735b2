"""Listeners on this machine, for a client or between a client and a server. Each connection has a
thread of its own."""

from __future__ import annotations

import socket
import threading
from typing import Any, Callable, List, Set

from .support import WAIT


class Proxy:
    """A listener from `start` to `close`, which also closes its connections. Thread-safe."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self._lock = threading.Lock()
        self._socks: Set[socket.socket] = set()
        self._threads: List[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Any:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> Any:
        self.begin(self._accept)
        return self

    def begin(self, work: Callable[..., None], *arguments: Any) -> None:
        """Do it on a thread that `close` waits for."""
        thread = threading.Thread(target=work, args=arguments, name="proxy", daemon=True)
        with self._lock:
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]
            thread.start()

    def keep(self, sock: socket.socket) -> socket.socket:
        with self._lock:
            self._socks.add(sock)
        if self.over.is_set():
            shut(sock)
        return sock

    def drop(self, sock: socket.socket) -> None:
        with self._lock:
            self._socks.discard(sock)
        shut(sock)
        sock.close()

    def connect(self, port: int) -> socket.socket:
        """A connection to a server behind this."""
        sock = socket.create_connection(("127.0.0.1", port), WAIT)
        sock.settimeout(None)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.keep(sock)

    def _accept(self) -> None:
        while True:
            try:
                sock = self._listener.accept()[0]
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.begin(self._serve, self.keep(sock))

    def _serve(self, client: socket.socket) -> None:
        try:
            self.serve(client)
        except (OSError, EOFError):
            pass  # one side has closed, and the other will notice
        finally:
            self.drop(client)

    def serve(self, client: socket.socket) -> None:
        """Serve a client's connection. When this returns, the connection is over."""
        raise NotImplementedError

    def pump(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes], bytes] = bytes
    ) -> None:
        """Forward bytes in one direction until the source ends or a side has closed, and then end
        the target."""
        try:
            data = source.recv(1 << 16)
            while data:
                target.sendall(change(data))
                data = source.recv(1 << 16)
        except OSError:
            pass
        shut(target)

    def cut_all(self) -> None:
        """Cut every connection, as the end of a process does."""
        with self._lock:
            socks = list(self._socks)
        for sock in socks:
            shut(sock)

    def close(self) -> None:
        """End all connections, and wait for the threads."""
        self.over.set()
        shut(self._listener)
        self.cut_all()
        for thread in list(self._threads):
            thread.join(WAIT)
        self._listener.close()


def shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it has ended already
