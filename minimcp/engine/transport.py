"""What a transport of one connection implements: receive, send, close. Nothing more.

A `Pipe` carries lines: one JSON-RPC message (or batch) each, UTF-8, ended by a line feed. It knows nothing
of what is inside them. The `Channel` above it has one thread in `receive` and never more than one in `send`.
"""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ..errors import ConnectionLost
from ..protocol.messages import Id
from ..protocol.versions import Revision
from .deadline import Deadline


def nothing() -> None:
    """Do nothing."""


class TooLong:
    """Stands in the place of a line that was longer than the limit and was skipped up to its line feed.

    Args:
        limit: The limit, in bytes.
        head: The beginning of the line.
        tail: The end of it; the two may overlap.
    """

    __slots__ = ("limit", "head", "tail")

    def __init__(self, limit: int, head: bytes = b"", tail: bytes = b"") -> None:
        self.limit, self.head, self.tail = limit, head, tail


class Addressed:
    """A line that came in answer to one request of ours: an answer in it is to that one, or to none.

    Args:
        line: Without its line feed.
        id: Of the request.
    """

    __slots__ = ("line", "id")

    def __init__(self, line: bytes, id: Id) -> None:
        self.line, self.id = line, id


class Ended:
    """How a request of ours ended, where the pipe itself knows it and no line says so.

    Args:
        id: Of the request.
        ending: What its caller gets: an exception, or a `Failure`.
    """

    __slots__ = ("id", "ending")

    def __init__(self, id: Id, ending: Any) -> None:
        self.id, self.ending = id, ending


class SessionGone(ConnectionLost):
    """The server has ended the session. ``refused`` says that it refused a request for it, which so was not run."""

    refused = False


Frame = Union[bytes, TooLong, Addressed, Ended]
"""One received line without its line feed, or what stands in its place."""


class Pipe:
    """One connection to one peer, as bytes.

    `receive` and `send` run at the same time on different threads; `close` may run on any third one, at any
    moment, several times, and makes the other two return.
    """

    __slots__ = ("name",)

    name: str
    """Shown in logs and errors: the command, "stdio", "memory"."""

    headers: Mapping[str, str] = {}
    """Of the HTTP request that opened the connection; empty where none did."""

    def receive(self, before_wait: Callable[[], None] = nothing) -> list[Frame]:
        """Wait for lines and return all that are complete, in order, at least one; an empty list at the end.

        Args:
            before_wait: Called by this thread each time it is about to wait, as the very last thing: threads that it
                wakes find the interpreter's lock free a moment later.

        The end is the peer's end of stream, a broken connection or `close`. What stands after the last line
        feed when the peer's stream ends is returned as a last line. Never raises.
        """
        raise NotImplementedError

    def send(self, data: bytes, seconds: float) -> int:
        """Hand bytes to the peer, waiting while it does not take them.

        Args:
            data: Whole lines, or the rest of what an earlier call could not hand over.
            seconds: How long to go on, at most.

        Returns:
            How many bytes were taken, from 0 to all of them.

        Raises:
            ConnectionLost: The peer is gone, or the pipe is closed.
        """
        raise NotImplementedError

    def send_counted(self, data: bytes, seconds: float, counts: list[int]) -> None:
        """As `send`, but the numbers of bytes go into `counts`, each in the very moment in which the peer takes them.

        On the main thread a signal handler may raise at any point, so that an exception can leave `send` when half is
        sent, or take the place of its result. `counts` is right even then. A pipe that has nothing but `send` is taken
        at its word: where that raises, nothing was taken.
        """
        counts.extend(map(self.send, (data,), (seconds,)))

    def attach(self, take: Callable[[Sequence[Frame]], None], waits: Callable[[Id], bool]) -> None:
        """Called once, before anything else, for pipes that are no one line: where each answer has a way of its own.

        Args:
            take: Takes frames in, on any thread, and wakes those whom they are for. Then `receive` returns nothing
                until the end.
            waits: Whether a request of ours still waits for its answer.
        """

    def agreed(self, revision: Revision) -> None:
        """This revision is spoken from now on. Called before the peer hears that all is well."""

    def ready(self, deadline: Deadline) -> None:
        """Wait until what was sent so far has arrived, and until all ways are open that messages come by."""

    def drop(self, id: Id) -> None:
        """Nobody waits for the answer to this request any more, whether the peer is told or not. Never blocks."""

    def is_heard(self) -> bool:
        """Whether the peer may still read what is sent, though it sends no more; True when that cannot be told."""
        return True

    def was_read(self) -> bool:
        """Whether the peer has taken any of what was sent, asked when it is lost; True when that cannot be told."""
        return True

    def finish(self) -> None:
        """Tell the peer that nothing more will be sent (its end of stream) and go on receiving. Idempotent."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything the pipe holds, within a few seconds at most. Idempotent, from any thread.

        In a process forked from the one that made the pipe it only closes descriptors.
        """
        raise NotImplementedError

    def lost(self, reason: str) -> ConnectionLost:
        """The exception that says how this connection ended.

        Args:
            reason: What was noticed first ("the peer closed the connection").
        """
        return ConnectionLost(f"{self.name}: {reason}")


def tracer(trace: Any) -> Optional[Callable[[str, bytes], None]]:
    """What a connection calls for every line on the wire, made of what a user gave as ``trace=``.

    Args:
        trace: A text file, or a callable that gets ("-->" for sent or "<--" for received, text); None for no trace.
            What it raises is logged once and does not hurt the connection.

    Raises:
        TypeError: It is neither.
    """
    if trace is None:
        return None
    write = getattr(trace, "write", None)
    if not callable(trace) and not callable(write):
        raise TypeError(f"trace is a text file or a callable, not {type(trace).__name__}")
    log = logging.getLogger("minimcp.trace")
    failed: list[Exception] = []

    def record(arrow: str, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        try:
            if callable(trace):
                trace(arrow, text)
            else:
                trace.write(f"{arrow} {text}\n")
        except Exception as error:
            if not failed:
                failed.append(error)
                log.error("trace= failed: %r", error, exc_info=error)

    return record
