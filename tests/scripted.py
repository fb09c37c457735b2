"""A pipe, a role and an outlet that follow a test's script, for the tests of the engine. Nothing
waits unbounded."""

from __future__ import annotations

import heapq
import json
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

from minimcp.engine.connection import Connection, ConnectionRole
from minimcp.engine.incoming import IncomingRequest, Line, Route, Sink
from minimcp.engine.limits import Limits
from minimcp.engine.pool import Pool
from minimcp.engine.running import RunningRequests
from minimcp.engine.transport import Frame, Transport
from minimcp.errors import ConnectionLost, MethodNotFound
from minimcp.protocol.lifecycle import Peer
from minimcp.protocol.messages import Notification, Request
from minimcp.protocol.versions import NEWEST_HANDSHAKE

from .support import WAIT


class Task:
    """A function on a thread of its own. Waiting for its result or exception has a time limit."""

    def __init__(self, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> None:
        self._value: Any = None
        self._error: Optional[BaseException] = None

        def run() -> None:
            try:
                self._value = function(*arguments, **keywords)
            except BaseException as error:
                self._error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()

    def ended(self, seconds: float = WAIT) -> Any:
        """Return the function's result or its exception."""
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "it hangs"
        return self._value if self._error is None else self._error

    def result(self, seconds: float = WAIT) -> Any:
        """Return the function's result, or raise its exception."""
        self.ended(seconds)
        if self._error is not None:
            raise self._error
        return self._value


def wait_for(event: threading.Event) -> None:
    """Wait for an event, with the bound of all tests."""
    assert event.wait(WAIT), "it did not come"


class ScriptedClock:
    """A clock and a timer that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: List[Tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, callback: Callable[[], object]) -> Callable[[], None]:
        self._count += 1
        entry = (self.now + seconds, self._count, callback)
        heapq.heappush(self._entries, entry)

        def cancel() -> None:
            if entry in self._entries:
                self._entries.remove(entry)
                heapq.heapify(self._entries)

        return cancel

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._entries and self._entries[0][0] <= end:
            self.now, _, callback = heapq.heappop(self._entries)
            callback()
        self.now = end

    @property
    def waiting(self) -> int:
        return len(self._entries)


class ScriptedPipe(Transport):
    """The end of a pipe whose other end is the test.

    Args:
        room: Bytes that the peer takes before `send` waits; None means that it takes everything.
    """

    def __init__(self, room: Optional[int] = None) -> None:
        self.name = "scripted"
        self.frames: "SimpleQueue[List[Frame]]" = SimpleQueue()
        self.sent = b""
        self.room = room
        self.closed = False
        self.failing: Optional[BaseException] = None
        self.stuck = threading.Event()
        self._changed = threading.Condition(threading.Lock())

    def receive(self) -> List[Frame]:
        return self.frames.get(timeout=6 * WAIT)

    def send(self, data: bytes, seconds: float) -> int:
        with self._changed:
            if self.room == 0 and seconds:
                self.stuck.set()  # the sender has released everything, and waits
            if seconds:
                self._changed.wait_for(
                    lambda: self.room != 0 or self.closed, timeout=min(seconds, WAIT)
                )
            if self.failing is not None:
                raise self.failing
            if self.closed:
                raise self.loss("closed")
            data = bytes(data)
            taken = len(data) if self.room is None else min(self.room, len(data))
            if self.room is not None:
                self.room -= taken
            self.sent += data[:taken]
            self._changed.notify_all()
            return taken

    def close(self) -> None:
        with self._changed:
            self.closed = True
            self._changed.notify_all()
        self.frames.put([])

    # Methods for the test.

    def take(self, room: Optional[int]) -> None:
        """Let the peer accept this many bytes more; None accepts everything."""
        with self._changed:
            self.room = room
            self.stuck.clear()
            self._changed.notify_all()

    def give(self, *messages: Any) -> None:
        """Have messages arrive in one piece: objects, or frames as they are."""
        self.frames.put(
            [
                m if isinstance(m, bytes) or not isinstance(m, (dict, list)) else dumps(m)
                for m in messages
            ]
        )

    def end(self) -> None:
        self.frames.put([])

    def lines(self, count: int) -> List[Any]:
        """Wait for this many lines, and return all sent lines, decoded."""
        with self._changed:
            enough = self._changed.wait_for(lambda: self.sent.count(b"\n") >= count, timeout=WAIT)
            assert enough, f"only {self.sent!r} was sent"
            return [json.loads(line) for line in self.sent.splitlines()]


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()


def request(id: Any, method: str, **params: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def notice(method: str, **params: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: Any, **members: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": members}


def cancelled(id: Any, reason: str = "never mind") -> Dict[str, Any]:
    return notice("notifications/cancelled", requestId=id, reason=reason)


class ScriptedRole(ConnectionRole):
    """Serves the methods in `routes`, and keeps the received notifications and losses."""

    answers_invalid = True
    takes_batches = True

    def __init__(self) -> None:
        self.routes: Dict[str, Route] = {"ping": Route(lambda exchange: {}, immediate=True)}
        self.peer = Peer(NEWEST_HANDSHAKE)
        self.notices: List[Notification] = []
        self.noticed: Callable[[Notification], None] = self.notices.append
        self.losses: List[ConnectionLost] = []

    def serve(self, method: str, handle: Callable[[IncomingRequest], Any], **options: Any) -> None:
        self.routes[method] = Route(handle, **options)

    def admit(self, request: Request) -> Tuple[Peer, Route]:
        route = self.routes.get(request.method)
        if route is None:
            raise MethodNotFound(f"no {request.method}")
        return self.peer, route

    def notified(self, notification: Notification) -> None:
        self.noticed(notification)

    def connection_lost(self, cause: ConnectionLost) -> None:
        self.losses.append(cause)


class RecordingOutlet(Sink):
    """Takes everything and remembers it: ``lines`` were sent, ``answers`` given, ``works`` are
    posted functions."""

    def __init__(self, **limits: Any) -> None:
        self.requests = RunningRequests(Limits(**limits))
        self.lines: List[bytes] = []
        self.answers: List[Tuple[bytes, bool]] = []
        self.aside: List[Callable[[], object]] = []
        self.works: List[Line] = []

    def deliver(self, line: bytes, wait: bool) -> None:
        self.answers.append((line, wait))

    def post(self, line: Line) -> None:
        self.works.append(line)

    def work(self) -> None:
        """Do the postponed work, as the writer thread would."""
        works, self.works = self.works, []
        for work in works:
            line = work if isinstance(work, bytes) else work()
            if line is not None:
                self.lines += line.splitlines(True)

    def send(self, line: bytes) -> None:
        self.lines.append(line)

    def spawn(self, job: Callable[[], object]) -> None:
        self.aside.append(job)


@contextmanager
def open_channel(
    role: Optional[ScriptedRole] = None,
    *,
    room: Optional[int] = None,
    trace: Any = None,
    **limits: Any,
) -> Iterator[Tuple[Connection, ScriptedPipe, ScriptedRole]]:
    """A channel over a scripted pipe; closed at the end."""
    pipe = ScriptedPipe(room)
    served = role or ScriptedRole()
    given = Limits(**limits)
    pool = Pool(given.workers, "minimcp-test")
    channel = Connection(pipe, served, pool=pool, limits=given, name="test", trace=trace).open()
    try:
        yield channel, pipe, served
    finally:
        channel.close()
        pool.close()
        assert channel.wait_until_ended(WAIT)


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    """During the block, the system starts no thread whose name contains one of these; without
    names, none at all."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if not names or any(name in thread.name for name in names):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield
