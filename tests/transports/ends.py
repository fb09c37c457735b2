"""Both ends of a connection for the contract tests: every kind of pipe of ours, and a peer that is a pipe too."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from minimcp.engine.transport import MAX_MESSAGE_BYTES, Bell, DescriptorPipe, Frame, MemoryPipe, Sink, Source, Transport
from minimcp.stdio.child import ChildTransport, StdioServer
from minimcp.stdio.streams import StandardStreams

from ..support import WAIT

Ends = Tuple[Transport, Transport]


class Task:
    """A function on a thread of its own, whose result or exception is waited for with a bound."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments
        self._value: Any = None
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function(*self._arguments)
        except BaseException as error:
            self._error = error

    def result(self, seconds: float = 3 * WAIT) -> Any:
        """What the function returned; its exception is raised."""
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "it hangs"
        if self._error is not None:
            raise self._error
        return self._value


def receive_some(pipe: Transport, count: float) -> List[Frame]:
    """Frames until there are `count`, or the end; a failure when they do not come."""
    frames: List[Frame] = []

    def receive() -> None:
        while len(frames) < count:
            new = pipe.receive()
            if not new:
                break
            frames.extend(new)

    Task(receive).result()
    return frames


def receive_all(pipe: Transport) -> List[Frame]:
    """Every frame up to the end."""
    return receive_some(pipe, float("inf"))


def over(reading: int, writing: int, limit: Optional[int] = None, *, nonblocking: bool = True) -> DescriptorPipe:
    """A pipe over two descriptors."""
    bell = Bell()
    return DescriptorPipe("test", Source(reading, bell), Sink(writing, bell, nonblocking=nonblocking), limit)


class Lent(DescriptorPipe):
    """A peer whose close lets somebody else go as well."""

    __slots__ = ("after",)

    after: Callable[[], None]

    def close(self) -> None:
        super().close()
        self.after()


def memory(limit: Optional[int], undo: ExitStack) -> Ends:
    return MemoryPipe.pair(limit)


def descriptors(limit: Optional[int], undo: ExitStack) -> Ends:
    there, back = os.pipe(), os.pipe()
    return over(back[0], there[1], limit), over(there[0], back[1])


def blocking(limit: Optional[int], undo: ExitStack) -> Ends:
    there, back = os.pipe(), os.pipe()
    return over(back[0], there[1], limit, nonblocking=False), over(there[0], back[1])


def _standard(limit: Optional[int], undo: ExitStack, reading: int, writing: int) -> Transport:
    """This process's own streams, after its stdin and stdout were made these two descriptors."""
    saved = [os.dup(0), os.dup(1)]
    os.dup2(reading, 0)
    os.dup2(writing, 1)
    os.close(reading)
    os.close(writing)

    def put_back() -> None:
        for number, before in enumerate(saved):
            os.dup2(before, number)
            os.close(before)

    undo.callback(put_back)
    return StandardStreams.take(limit)


def standard(limit: Optional[int], undo: ExitStack) -> Ends:
    there, back = os.pipe(), os.pipe()
    ours = _standard(limit, undo, back[0], there[1])
    # Two more holders of the same pipes: what `close` puts back must not keep the peer's ends open.
    return ours, over(there[0], back[1])


def standard_sockets(limit: Optional[int], undo: ExitStack) -> Ends:
    one, other = socket.socketpair()
    reading = one.detach()
    ours = _standard(limit, undo, reading, os.dup(reading))
    return ours, over(os.dup(other.fileno()), other.detach())


LENDER = """
import os, select, socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect(sys.argv[1])
socket.send_fds(control, [b"!"], [0, 1])
os.close(1)
waiting = select.poll()
waiting.register(0, 0)
waiting.register(control, select.POLLIN)
waiting.poll(60000)
"""


def child(limit: Optional[int], undo: ExitStack) -> Ends:
    """A child process that lends us its stdin and stdout and ends when either side closes."""
    folder = undo.enter_context(tempfile.TemporaryDirectory())
    listener = undo.enter_context(socket.socket(socket.AF_UNIX))
    listener.settimeout(WAIT)
    listener.bind(str(Path(folder) / "control"))
    listener.listen()
    command = [sys.executable, "-I", "-S", "-c", LENDER, listener.getsockname()]
    ours = ChildTransport.start(StdioServer(command), max_message_bytes=limit)
    undo.callback(ours.close)
    control = undo.enter_context(listener.accept()[0])
    _, (reading, writing), _, _ = socket.recv_fds(control, 1, 2)
    bell = Bell()
    peer = Lent("peer", Source(reading, bell), Sink(writing, bell, nonblocking=True), None)
    peer.after = control.close
    return ours, peer


KINDS: Dict[str, Callable[[Optional[int], ExitStack], Ends]] = {
    "memory": memory,
    "descriptors": descriptors,
    "blocking": blocking,
    "standard": standard,
    "standard_sockets": standard_sockets,
    "child": child,
}


class Connector:
    """Makes connected ends of one kind and closes them after the test."""

    def __init__(self, kind: str, undo: ExitStack) -> None:
        self.kind = kind
        self._undo = undo

    def __call__(self, limit: Optional[int] = MAX_MESSAGE_BYTES) -> Ends:
        ours, peer = KINDS[self.kind](limit, self._undo)
        self._undo.callback(ours.close)
        self._undo.callback(peer.close)
        return ours, peer
