"""What a child process writes to its stderr: always taken, its end kept, handed on as asked. Part of child.py.

Two threads, because taking must not stop while whoever gets the text is slow, raises or never returns: one
reads and keeps the tail, the other, started with the first byte, hands on. What it cannot hand on waits in a
small queue; then the child waits too, for a second; then text is left out, and the log says so once.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import select
import threading
from typing import Any, Callable, Optional

from ..engine.descriptors import Source
from ..errors import one_line

TAIL_BYTES = 64 * 1024
"""Bytes of the end of stderr that are kept."""

QUEUE_BYTES = 256 * 1024
"""Bytes that may wait for whoever gets the text."""

PATIENCE_SECONDS = 1.0
"""How long the child is held up by a consumer that takes nothing, before text is left out."""

_LINE_BYTES = 64 * 1024
_log = logging.getLogger("minimcp.stdio")


def consumer_of(wanted: Any) -> Callable[[bytes], None]:
    """What hands a piece of stderr to `wanted`, and its last, empty piece at the end.

    Args:
        wanted: None for this process's own stderr, a text or binary file, a logger, or a callable that gets
            each line as str without its line end.

    Raises:
        TypeError: It is none of these.
    """
    if wanted is None:
        return _to_own_stderr
    write = getattr(wanted, "write", None)
    if callable(write):
        return _to_file(wanted)
    log = getattr(wanted, "info", None)
    if callable(log):
        return _by_line(lambda line: log("%s", line))
    if callable(wanted):
        return _by_line(wanted)
    raise TypeError(f"stderr must be None, a file, a logger or a callable, not {type(wanted).__name__}")


def _to_own_stderr(piece: bytes) -> None:
    """Write to descriptor 2, as a child that had inherited it would; where that is impossible, nothing."""
    while piece:
        try:
            piece = piece[os.write(2, piece) :]
        except BlockingIOError:
            # Somebody who shares it made it non-blocking.
            if not select.select([], [2], [], PATIENCE_SECONDS)[1]:
                return
        except OSError:
            return


def _to_file(file: Any) -> Callable[[bytes], None]:
    text = isinstance(file, io.TextIOBase) or hasattr(file, "encoding")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(piece: bytes) -> None:
        file.write(decoder.decode(piece, final=not piece) if text else piece)
        flush = getattr(file, "flush", None)
        if flush is not None:
            flush()

    return write


def _by_line(consume: Callable[[str], Any]) -> Callable[[bytes], None]:
    pending = b""

    def take(piece: bytes) -> None:
        nonlocal pending
        lines = (pending + piece).split(b"\n")
        pending = lines.pop()
        if pending and (not piece or len(pending) > _LINE_BYTES):
            lines.append(pending)
            pending = b""
        failure: Optional[Exception] = None
        for line in lines:
            try:
                consume(line.decode("utf-8", "replace").rstrip("\r"))
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    return take


class _Forwarder:
    """A bounded queue and the thread that empties it into a consumer."""

    __slots__ = ("_name", "_consume", "_changed", "_pieces", "_size", "_ended", "_hurried", "_dropping", "_thread")

    def __init__(self, name: str, consume: Callable[[bytes], None]) -> None:
        self._name = name
        self._consume = consume
        self._changed = threading.Condition()
        self._pieces: list[bytes] = []
        self._size = 0
        self._ended = False
        self._hurried = False
        self._dropping = False
        self._thread: Optional[threading.Thread] = None

    def offer(self, piece: bytes) -> None:
        """Queue a piece, waiting a little for room; without room it is left out."""
        with self._changed:
            if not self._has_room() and not self._dropping:
                self._changed.wait_for(self._has_room, PATIENCE_SECONDS)
            if self._has_room() and self._runs():
                self._dropping = False
                self._pieces.append(piece)
                self._size += len(piece)
                self._changed.notify_all()
            elif not self._dropping:
                self._dropping = True
                _log.warning("stderr of %s: its consumer takes nothing, text is left out", self._name)

    def _has_room(self) -> bool:
        return self._size < QUEUE_BYTES * (4 if self._hurried else 1)

    def _runs(self) -> bool:
        """Whether there is a thread to hand on; it is started by the first piece."""
        if self._thread is None:
            try:
                self._thread = _start(f"minimcp stderr consumer {self._name}", self._run)
            except RuntimeError:
                return False
        return True

    def hurry(self) -> None:
        """The child has ended: what is left of its text is little, and nobody may be held up any more."""
        with self._changed:
            self._hurried = True
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more comes: the thread hands on what is queued and ends."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Whether everything was handed on within `seconds`."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(seconds)
        return not thread.is_alive()

    def _next(self) -> bytes:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._pieces) or self._ended)
            piece = b"".join(self._pieces)
            self._pieces, self._size = [], 0
            self._changed.notify_all()
            return piece

    def _run(self) -> None:
        complained = False
        piece = b"."
        while piece:
            piece = self._next()
            try:
                self._consume(piece)
            except Exception as error:
                if not complained:
                    complained = True
                    _log.warning("stderr of %s: its consumer raised %s", self._name, one_line(error))


class Stderr:
    """The reading end of a child's stderr.

    Args:
        name: Of the child, for thread names and the log.
        source: The descriptor, with a bell of its own.
        consume: From `consumer_of`.

    Raises:
        RuntimeError: No thread could be started.
    """

    __slots__ = ("_source", "_tail", "_forwarder", "_ended", "_name", "_thread")

    def __init__(self, name: str, source: Source, consume: Callable[[bytes], None]) -> None:
        self._name = name
        self._source = source
        self._tail = bytearray()
        self._ended = threading.Event()
        self._forwarder = _Forwarder(name, consume)
        self._thread = _start(f"minimcp stderr {name}", self._run)

    @property
    def tail(self) -> str:
        """The last `TAIL_BYTES` as text; what is no UTF-8 in it is replaced."""
        return bytes(self._tail).decode("utf-8", "replace")

    def _run(self) -> None:
        try:
            while True:
                piece = self._source.read()
                if not piece:
                    break
                # One step, so that whoever reads the tail meanwhile sees a whole one.
                self._tail = (self._tail + piece)[-TAIL_BYTES:]
                self._forwarder.offer(piece)
        finally:
            self._forwarder.end()
            self._ended.set()

    def wait(self, seconds: float) -> bool:
        """Whether everything that the ended child wrote was read within `seconds`."""
        self._forwarder.hurry()
        return self._ended.wait(seconds)

    def close(self, seconds: float) -> None:
        """Stop reading and close; a consumer gets `seconds` to take what is queued, then it is left behind."""
        self._source.bell.ring()
        self._source.retire()
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)
        if not self._forwarder.wait(seconds):
            _log.warning("stderr of %s: its consumer does not return, its thread is left behind", self._name)

    def abandon(self) -> None:
        """Close the descriptors in a forked process."""
        self._source.abandon()
        self._source.bell.abandon()


def _start(name: str, run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
