"""The folder's base: a stream of bytes cut into lines. No descriptor, no thread, no JSON."""

from __future__ import annotations

import sys
from typing import Optional

from .transport import Frame, TooLong

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Bytes of one line. A longer one is skipped and, at its end, reported as `TooLong`."""

HEAD_BYTES = 4096
"""Bytes that are kept of the beginning of a line that is too long."""

TAIL_BYTES = 512
"""Bytes that are kept of its end."""

_PIECE_BYTES = 64 * 1024
_BOM = b"\xef\xbb\xbf"


class LineSplitter:
    """Cuts a stream of bytes into lines, in time linear in its length however it arrives.

    Only LF ends a line. One CR before it is dropped, empty lines are skipped, a byte order mark is dropped at
    the very start; every other byte is left alone.

    Args:
        limit: Bytes that a line may have, without its line end. None sets no limit.

    For one thread.
    """

    __slots__ = ("_limit", "_pieces", "_small", "_size", "_long", "_first")

    def __init__(self, limit: Optional[int] = MAX_MESSAGE_BYTES) -> None:
        self._limit = sys.maxsize if limit is None else limit
        # The line in progress, joined once. Small chunks are gathered into pieces first: a peer that writes two
        # bytes at a time would make the list twenty times as large as the line. One growing buffer for all of
        # it costs more memory than both: it moves as it grows.
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self._size = 0
        self._long: Optional[TooLong] = None  # of the line that is being skipped
        self._first = True

    def feed(self, chunk: bytes) -> list[Frame]:
        """The lines that `chunk` completes, in order; often none."""
        lines = chunk.split(b"\n")
        tail = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._first or self._size or self._long:
                self._complete(lines.pop(0), frames)
            self._add_whole(lines, chunk, frames)
        if tail:
            self._collect(tail)
        return frames

    def rest(self) -> list[Frame]:
        """What stands after the last line feed: at most one line. To be called at the end of the stream."""
        frames: list[Frame] = []
        self._complete(b"", frames)
        return frames

    def _collect(self, part: bytes) -> None:
        if self._long:
            self._long.tail = (self._long.tail + part)[-TAIL_BYTES:]
            return
        self._size += len(part)
        # One byte more may still turn out to be the CR of the line's end.
        if self._size > self._limit + 1:
            # Joined would be twice the limit. All pieces but the last two are longer than both ends together.
            pieces = [*self._take(), part]
            head, tail = b"".join(pieces[:2])[:HEAD_BYTES], b"".join(pieces[-3:])[-TAIL_BYTES:]
            self._long = TooLong(self._limit, head, tail)
            return
        self._small += part
        if len(self._small) >= _PIECE_BYTES:
            self._pieces.append(bytes(self._small))
            self._small = bytearray()

    def _too_long(self, line: bytes) -> TooLong:
        return TooLong(self._limit, line[:HEAD_BYTES], line[-TAIL_BYTES:])

    def _take(self) -> list[bytes]:
        """The pieces of the line in progress, which is begun anew."""
        pieces = [*self._pieces, bytes(self._small)]
        self._pieces, self._small, self._size = [], bytearray(), 0
        return pieces

    def _complete(self, end: bytes, frames: list[Frame]) -> None:
        """The line in progress ends with `end`."""
        line = end
        if self._size:
            line = b"".join([*self._take(), end])
        if self._first:
            self._first = False
            if line.startswith(_BOM):
                line = line[len(_BOM) :]
        if self._long:
            self._collect(end)
            frames.append(self._long)
            self._long = None
        else:
            self._add(line, frames)

    def _add_whole(self, lines: list[bytes], chunk: bytes, frames: list[Frame]) -> None:
        """Lines that arrived in one piece, as nearly all do: they get a short way when nothing is special."""
        if len(chunk) <= self._limit and b"\r" not in chunk:
            frames += [line for line in lines if line]
        else:
            for line in lines:
                self._add(line, frames)

    def _add(self, line: bytes, frames: list[Frame]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            frames.append(self._too_long(line))
        elif line:
            frames.append(line)
