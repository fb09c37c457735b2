"""HTTP/1.1 as a server writes it: heads, pieces of bodies as chunks, and the writer of one response.

https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import logging
import threading
import time
from functools import lru_cache
from typing import Callable, Iterable, Optional, Union

from ..errors import ConnectionLost
from .common import ResponseWriter
from .http_framing import FIELD, Head

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

_LAST_CHUNK = b"0\r\n\r\n"
_PIECE_BYTES = 64 * 1024
_REMEMBERED = 64
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_log = logging.getLogger("minimcp.http")

_OURS = frozenset({"connection", "content-length", "date", "transfer-encoding"})
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NO_BODY = frozenset({204, 304})
REASONS = {
    200: "OK", 202: "Accepted", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden",
    404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict",
    411: "Length Required", 413: "Content Too Large", 414: "URI Too Long", 415: "Unsupported Media Type",
    417: "Expectation Failed", 421: "Misdirected Request", 429: "Too Many Requests",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
    503: "Service Unavailable", 505: "HTTP Version Not Supported",
}


def response_head(
    status: int, headers: Iterable[tuple[str, str]], *, length: Optional[int], keep_alive: bool, newer: bool
) -> bytes:
    """The head of a response.

    Args:
        status: The code.
        headers: Pairs; those that frame the body are made here.
        length: Bytes of the body; None when it comes in chunks or, for a peer that knows only 1.0, ends with the
            connection.
        keep_alive: Whether the connection is used again.
        newer: Whether the peer knows HTTP/1.1.

    Raises:
        ValueError: A header would be two, or none.
    """
    fixed, framing = _fixed(status, tuple(headers), keep_alive, newer), b""
    if status not in _NO_BODY:
        framing = b"Content-Length: %d\r\n" % length if length is not None else _CHUNKED if newer else b""
    return b"%bDate: %b\r\n%b\r\n" % (fixed, _date(), framing)


@lru_cache(_REMEMBERED)
def _fixed(status: int, headers: tuple[tuple[str, str], ...], keep_alive: bool, newer: bool) -> bytes:
    """What most responses have in common."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, '')}"]
    for name, value in headers:
        line = f"{name}: {value}"
        if FIELD.fullmatch(line) is None:
            raise ValueError(f"this is no header: {line!r}")
        if name.lower() not in _OURS:
            lines.append(line)
    if not keep_alive:
        lines.append("Connection: close")
    elif not newer:
        lines.append("Connection: keep-alive")
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One piece of a body, which is not empty, as a chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_now = (0, b"")


def _date() -> bytes:
    """This second, in the words of RFC 9110, whatever the language of the process is."""
    global _now
    second = int(time.time())
    if _now[0] == second:
        return _now[1]
    year, month, day, hour, minute, past, weekday = time.gmtime(second)[:7]
    text = f"{_DAYS[weekday]}, {day:02} {_MONTHS[month - 1]} {year} {hour:02}:{minute:02}:{past:02} GMT"
    _now = (second, text.encode())
    return _now[1]


class Writer(ResponseWriter):
    """The response to one request on one connection. Thread-safe.

    A peer that has only stopped sending counts as gone, but is still sent a whole response.

    Args:
        head: Of the request.
        client: The peer's address, in words.
        send: Sends bytes to it, or raises OSError.
        keeps_alive: Whether there may be another request after this one.
        began: Called when a response that comes in pieces has begun.
        has_room: Whether a short piece can be sent to it now, or would raise OSError at once.
    """

    __slots__ = (
        "gone", "since", "begun", "_head", "_client", "_send", "_keeps_alive", "_began", "_has_room", "_mute",
        "_ended", "_keep_alive", "_callbacks", "_lock",
    )  # fmt: skip

    def __init__(
        self,
        head: Head,
        client: str,
        send: Callable[[Union[bytes, memoryview]], None],
        keeps_alive: Callable[[Head], bool],
        began: Callable[[], None],
        has_room: Callable[[], bool],
    ) -> None:
        self.gone = self.begun = False
        self.since = time.monotonic()
        self._head, self._client, self._send, self._keeps_alive = head, client, send, keeps_alive
        self._began, self._has_room = began, has_room
        self._mute = self._ended = self._keep_alive = False
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()  # of the response: what one thread writes is not cut in two by another

    def send(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """As `ResponseWriter.send`."""
        self._start(status, headers, body)

    def begin(self, status: int, headers: list[tuple[str, str]]) -> None:
        """As `ResponseWriter.begin`."""
        self._check()
        self._start(status, headers, None)
        self._began()

    def _start(self, status: int, headers: list[tuple[str, str]], body: Optional[bytes]) -> None:
        """Send the head, with the whole body or before the pieces of one."""
        newer, whole = self._head.newer, body is not None
        with self._lock:
            if self.begun:
                raise RuntimeError("one request has one response, and this one has begun")
            keep = (newer or whole) and self._keeps_alive(self._head)
            length = None if body is None else len(body)
            data = response_head(status, headers, length=length, keep_alive=keep, newer=newer)
            self.begun, self._ended, self._keep_alive = True, whole, keep
            self._mute = self._head.method == "HEAD" or status in _NO_BODY
            shown = b"" if body is None or self._mute else body
            error = self._put(data + shown[:_PIECE_BYTES])
            if error is None and len(shown) > _PIECE_BYTES:
                error = self._put(memoryview(shown)[_PIECE_BYTES:])  # so much is not copied
        if error is not None:
            raise self._lost(error)

    def write(self, data: bytes) -> None:
        """As `ResponseWriter.write`; it is lost, too, what comes after the end."""
        with self._lock:
            self._check()
            if not self.begun:
                raise RuntimeError("a response begins with its head")
            error = None
            if data and not self._mute:
                error = self._put(chunk(data) if self._head.newer else data)
        if error is not None:
            raise self._lost(error)

    def has_room(self) -> bool:
        """As `ResponseWriter.has_room`."""
        return self._has_room()

    def end(self) -> None:
        """As `ResponseWriter.end`."""
        with self._lock:
            ends = self.begun and not self._ended
            self._ended = self._ended or ends
            if ends and self.gone:
                self._keep_alive = False  # pieces may be missing
            elif ends and self._head.newer and not self._mute:
                self._put(_LAST_CHUNK)

    def _put(self, data: Union[bytes, memoryview]) -> Optional[OSError]:
        try:
            self._send(data)
        except OSError as error:
            self.gone, self._keep_alive = True, False
            return error
        return None

    def _lost(self, error: OSError) -> ConnectionLost:
        self.lose()
        lost = ConnectionLost(f"{self._client}: {error}")
        lost.__cause__ = error
        return lost

    def _check(self) -> None:
        if self.gone or self._ended:
            raise ConnectionLost(f"{self._client}: the {'peer is gone' if self.gone else 'response has ended'}")

    def finish(self) -> bool:
        """The application has returned: whether the response is complete and the connection goes on."""
        if not (self.begun or self.gone):
            try:
                self.send(500, [("Content-Type", "text/plain; charset=utf-8")], b"Internal Server Error\n")
            except ConnectionLost:
                pass
        with self._lock:
            complete, self._ended = self._ended, True
        self._callbacks.clear()
        return complete and self._keep_alive

    def lose(self) -> None:
        """The peer is gone: tell whoever wanted to know. Idempotent, from any thread."""
        self.gone = True
        while not self._ended:
            try:
                callback = self._callbacks.pop()
            except IndexError:
                return
            try:
                callback()
            except Exception as error:
                _log.error("what was to be told that a peer has gone raised %r", error, exc_info=error)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """As `ResponseWriter.on_gone`."""
        self._callbacks.append(callback)
        if self.gone:
            self.lose()
