"""The interface of a transport, and that one made by somebody else carries the protocol as ours do."""

from __future__ import annotations

import json
import select
import socket
from typing import Any, Callable, List, Tuple

import pytest

import minimcp
from minimcp.engine.transport import Frame, TooLong, Transport
from minimcp.errors import ConnectionLost


class SocketPipe(Transport):
    """The shortest pipe that keeps the rules, over a stream socket."""

    __slots__ = ("_socket", "_rest")

    def __init__(self, stream: socket.socket) -> None:
        self.name, self._socket, self._rest = "custom", stream, b""

    def receive(self, before_wait: Callable[[], None] = lambda: None) -> List[Frame]:
        while True:
            before_wait()
            try:
                chunk = self._socket.recv(65536)
            except OSError:
                chunk = b""
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if not chunk and self._rest:
                lines, self._rest = [*lines, self._rest], b""
            if lines or not chunk:
                return list(lines)

    def send(self, data: bytes, seconds: float) -> int:
        try:
            _, ready, _ = select.select([], [self._socket], [], seconds)
            return self._socket.send(data) if ready else 0
        except (OSError, ValueError):
            raise self.lost("gone") from None

    def finish(self) -> None:
        self._shut(socket.SHUT_WR)

    def close(self) -> None:
        self._shut(socket.SHUT_RDWR)

    def _shut(self, how: int) -> None:
        try:
            self._socket.shutdown(how)
        except OSError:
            pass  # closed before, or by the peer


class OverSocket:
    """A server behind a transport that this library does not know; for `connect`, which asks for `open_pipe`."""

    def __init__(self, server: minimcp.Server) -> None:
        self._server = server
        self.sockets: List[socket.socket] = []

    def open_pipe(self) -> Transport:
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        self._server.connect(SocketPipe(ours), name="custom")
        return SocketPipe(theirs)

    def close(self) -> None:
        self._server.close()
        for stream in self.sockets:
            stream.close()


def a_server() -> minimcp.Server:
    server = minimcp.Server("same", version="1")

    @server.tool
    def count(upto: int, ctx: minimcp.Context) -> int:
        """Count."""
        for number in range(upto):
            ctx.progress(number)
        return upto

    return server


def session(target: Any, revision: str) -> List[Tuple[str, Any]]:
    """What goes over the wire while a client does what clients do."""
    wire: List[Tuple[str, Any]] = []
    with minimcp.connect(
        target, revision=revision, trace=lambda arrow, text: wire.append((arrow, json.loads(text)))
    ) as client:
        client.ping()
        assert [tool.name for tool in client.list_tools()] == ["count"]
        seen: List[float] = []
        assert client.call_tool("count", {"upto": 3}, on_progress=lambda p: seen.append(p.progress)).text == "3"
        assert seen == [0, 1, 2]
        with pytest.raises(minimcp.InvalidParams):
            client.call_tool("none")
        with pytest.raises(minimcp.MethodNotFound):
            client.request("no/such")
    return wire


@pytest.mark.requirement("TRANS-01", "TRANS-02", "M:BASE-24", "M:STD-16")
@pytest.mark.parametrize("revision", ["auto", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_transport_of_somebody_elses_carries_the_same_messages(revision: str) -> None:
    server = a_server()
    custom = OverSocket(server)
    try:
        over_socket = session(custom, revision)
    finally:
        custom.close()
    assert over_socket == session(server, revision)
    methods = [message.get("method") for arrow, message in over_socket if arrow == "-->"]
    opening = {"auto": ["server/discover"], "2026-07-28": ["server/discover"]}
    assert methods[: len(opening.get(revision, "12"))] == opening.get(
        revision, ["initialize", "notifications/initialized"]
    )


def test_a_pipe_says_how_it_was_lost() -> None:
    pipe = Transport()
    pipe.name = "wire"
    lost = pipe.lost("the peer closed the connection")
    assert type(lost) is ConnectionLost
    assert str(lost) == "wire: the peer closed the connection"
    assert pipe.is_heard() and pipe.was_read()


def test_a_line_that_was_too_long_says_what_the_limit_is() -> None:
    assert TooLong(10).limit == 10
    long = TooLong(10, b"a", b"z")
    assert (long.head, long.tail, TooLong(10).head, TooLong(10).tail) == (b"a", b"z", b"", b"")


def test_everything_else_is_the_transports_to_say() -> None:
    pipe = Transport()
    for call in (pipe.receive, lambda: pipe.send(b"", 0), pipe.finish, pipe.close):
        with pytest.raises(NotImplementedError):
            call()
