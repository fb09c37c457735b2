"""How the bundled HTTP server comes by its sockets. Part of serving.py."""

from __future__ import annotations

import errno
import socket
from typing import Optional

BACKLOG = 1024
"""Connections that the system keeps until they are accepted, if it allows so many; who finds no room waits a second."""

_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_USER_TIMEOUT: Optional[int] = getattr(socket, "TCP_USER_TIMEOUT", None)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, which does not block.

    Args:
        host: A name or an address; the first one of a name.
        port: 0 takes a free one.

    Raises:
        OSError: Nobody can listen there; the message says why.
        TypeError: The port is no int.
        ValueError: The port is none.
    """
    if not isinstance(port, int):
        raise TypeError(f"port is a number from 0 to 65535, not the {type(port).__name__} {port!r}")
    if not 0 <= port <= 65535:
        raise ValueError(f"port is 0 to 65535, not {port}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        words = error.strerror or str(error)
        if error.errno == errno.EADDRINUSE:
            words = "another program listens there; choose another port, or 0 for a free one"
        raise OSError(error.errno, f"cannot listen on port {port} of {host}: {words}") from error
    listener.setblocking(False)
    return listener


def accept(listener: socket.socket, silence: float) -> Optional[tuple[socket.socket, str]]:
    """The next connection and the peer's address, in words; None when there is none now.

    Args:
        listener: From `listen`.
        silence: Seconds after which a peer is gone that does not confirm what it is sent, where the system knows that.

    Raises:
        OSError: The system has no descriptor or no memory for it, now.
    """
    try:
        sock, address = listener.accept()
    except OSError as error:
        if error.errno in _SCARCE:
            raise
        return None  # nobody is there, or has left meanwhile
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _USER_TIMEOUT is not None:
            sock.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, int(silence * 1000))
    except OSError:
        pass  # it has left already, which will be seen
    return sock, f"{address[0]}:{address[1]}"
