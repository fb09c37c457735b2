"""HTTP/1.1 as a server reads it: bytes in, requests out; strict, without sockets or threads.

What two programs could read in two ways is refused and ends the connection: a proxy in front of us might have read it
the other way, and would take the rest of one client's request for the answer to another's.
https://www.rfc-editor.org/rfc/rfc9112
"""

from __future__ import annotations

import re
from typing import Callable, NamedTuple, Optional

from .common import Headers

HEADER_BYTES = 32 * 1024
"""Of a request's head, and of a trailer."""

LINE_BYTES = 8 * 1024
"""Of the request line, and of each header."""

FIELDS = 100
"""Headers of one request."""

Field = tuple[str, str]
"""A header: its name in lower case, and its value."""

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"})

_FRAMING = frozenset({"host", "content-length", "transfer-encoding"})
_SEEN = _FRAMING | {"connection", "content-type", "expect"}
_KNOWN_LINES, _KNOWN_BYTES = 64, 256
_KNOWN_HEADS, _KNOWN_HEAD_BYTES = 4, 1024
_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([!-\"$-~]+) HTTP/([0-9]\.[0-9])")
_LENGTH = re.compile(rb"\r\nContent-Length:[\t ]*([0-9]+)[\t ]*(?:\r\n|\Z)", re.IGNORECASE)
FIELD = re.compile(rf"({_TOKEN}):([\t -~\x80-\xff]*)")
_ABSOLUTE = re.compile(r"https?://([^/?]+)(/?.*)", re.IGNORECASE)
_HOST = re.compile(r"[A-Za-z0-9._~%!$&'()*+,;=\-]*(?::[0-9]*)?|\[[0-9A-Fa-f:.]+\](?::[0-9]*)?")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[\t ]*;[\t -~\x80-\xff]*)?")
_BARE = re.compile(rb"(?<!\r)\n|\r(?=[^\n])")
_CHUNK_LINE, _CHUNK_COST, _CHUNK_EXCESS = 1024, 16, 256 * 1024


class BadRequest(Exception):
    """The peer sent what is refused, after which nothing more can be read from it.

    Args:
        status: What to answer with.
        reason: One sentence for the peer, with nothing of what it sent.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


class Head(NamedTuple):
    """The head of one request.

    Args:
        method: One of `METHODS`.
        path: With the query; ``*`` or an authority where the method allows them.
        headers: All of them.
        newer: Whether the peer knows HTTP/1.1.
        keep_alive: Whether it wants to send more on this connection.
        length: Bytes of the body; None when it comes in chunks.
        expects: Whether it waits for status 100 before it sends the body.
    """

    method: str
    path: str
    headers: Headers
    newer: bool
    keep_alive: bool
    length: Optional[int]
    expects: bool

    def with_length(self, digits: bytes) -> Head:
        """The same head, but for the length of the body."""
        method, path, headers, newer, keep_alive, _, expects = self
        fields = (method, path, headers.with_length(digits.decode()), newer, keep_alive, int(digits), expects)
        return tuple.__new__(Head, fields)


def parse_head(block: bytes, known: Optional[dict[str, Field]] = None) -> Head:
    """The head in these bytes, which end before the empty line.

    Args:
        block: The bytes.
        known: Lines of earlier heads and what they say; more are added. A peer says much the same each time.

    Raises:
        BadRequest: It is none, or none that has one meaning only.
    """
    first, *lines = block.decode("latin-1").split("\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        raise BadRequest(400, "the request line is malformed")
    method, target, version = found.groups()
    if version not in ("1.1", "1.0"):
        raise BadRequest(505, "HTTP/1.1 and HTTP/1.0 are spoken here")
    if len(first) > LINE_BYTES:
        raise BadRequest(414, f"the request line is longer than {LINE_BYTES} bytes")
    if method not in METHODS:
        raise BadRequest(501, "no such method is known")
    fields, framing = _fields(lines, {} if known is None else known)
    newer = version == "1.1"
    path = _path(method, target, framing.get("host"), newer)
    length, expects = _length(framing, newer), _expects(framing.get("expect"), newer)
    headers = Headers(fields)
    return Head(method, path, headers, newer, _keeps_alive(framing.get("connection"), newer), length, expects)


def _fields(lines: list[str], known: dict[str, Field]) -> tuple[list[Field], dict[str, str]]:
    """All headers, and those that this file wants to see."""
    if len(lines) > FIELDS:
        raise BadRequest(431, f"there are more than {FIELDS} headers")
    fields, framing = [], {}
    for line in lines:
        field = known.get(line) or _field(line, known)
        fields.append(field)
        name, value = field
        if name in _SEEN:
            if name not in framing:
                framing[name] = value
            elif name == "connection":
                framing[name] += "," + value
            else:
                raise BadRequest(400, f"there is more than one {name}")
    return fields, framing


def _field(line: str, known: dict[str, Field]) -> Field:
    found = FIELD.fullmatch(line)
    if found is None:
        raise BadRequest(400, "a header is malformed")
    if len(line) > LINE_BYTES:
        raise BadRequest(431, f"a header is longer than {LINE_BYTES} bytes")
    field = found[1].lower(), found[2].strip(" \t")
    if "_" in field[0] and field[0].replace("_", "-") in _FRAMING:
        raise BadRequest(400, "a header looks like another one")
    if len(known) < _KNOWN_LINES and len(line) < _KNOWN_BYTES:
        known[line] = field
    return field


def _path(method: str, target: str, host: Optional[str], newer: bool) -> str:
    if (host is None and newer) or (host is not None and not _HOST.fullmatch(host)):
        raise BadRequest(400, "a request names its host, as a host")
    if target.startswith("/"):
        return target
    found = _ABSOLUTE.fullmatch(target)
    if found is not None:
        if found[1].lower() != (host or found[1]).lower():
            raise BadRequest(400, "the target is on another host than the Host header says")
        return found[2] if found[2].startswith("/") else "/" + found[2]
    if (method, target) == ("OPTIONS", "*") or (method == "CONNECT" and ":" in target and _HOST.fullmatch(target)):
        return target
    raise BadRequest(400, "the target is malformed")


def _length(single: dict[str, str], newer: bool) -> Optional[int]:
    coding, length = single.get("transfer-encoding"), single.get("content-length")
    if coding is not None:
        if length is not None:
            raise BadRequest(400, "Content-Length and Transfer-Encoding contradict each other")
        if not newer or coding.lower() != "chunked":
            raise BadRequest(501 if newer and "chunked" not in coding.lower() else 400, "only chunked is decoded")
        return None
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit()):
        raise BadRequest(400, "Content-Length is a number of bytes in decimal digits")
    return int(length) if len(length) < 20 else 10**20  # so many digits that converting them takes long


def _expects(expected: Optional[str], newer: bool) -> bool:
    if expected is None or not newer:
        return False
    if expected.lower() != "100-continue":
        raise BadRequest(417, "only 100-continue can be expected")
    return True


def _keeps_alive(connection: Optional[str], newer: bool) -> bool:
    if connection is None:
        return newer
    options = connection.lower().replace(" ", "").replace("\t", "").split(",")
    return "close" not in options and (newer or "keep-alive" in options)


class RequestStream:
    """What one peer sends, cut into requests: `feed`, then `head` and `body` of each in turn, then `forward`.

    Args:
        header_bytes: Of one head, at most.
        body_bytes: Of one body, at most; None for any size.

    ``whole`` is the body of this request, once `body` has found it to be here. For one thread at a time.
    """

    __slots__ = ("_bytes", "_looked", "_header_bytes", "_body_bytes", "_head", "_chunks", "whole", "_known", "_heads")

    def __init__(self, *, header_bytes: int = HEADER_BYTES, body_bytes: Optional[int]) -> None:
        self._bytes = bytearray()
        self._looked = 0  # how many of them have been searched for the end of the head
        self._header_bytes, self._body_bytes = header_bytes, body_bytes
        self._known: dict[str, Field] = {}
        self._heads: list[tuple[bytes, bytes, Head]] = []
        self.forward()

    def forward(self) -> None:
        """Go on to the next request."""
        self._head: Optional[Head] = None
        self._chunks: Optional[_Chunks] = None
        self.whole: Optional[bytes] = None

    @property
    def begun(self) -> bool:
        """Whether bytes of a request have come."""
        return bool(self._head or self._bytes)

    @property
    def half(self) -> int:
        """Bytes that are here of a body, as long as `body` has not found all of it."""
        return len(self._bytes) + (len(self._chunks.body) if self._chunks is not None else 0)

    def feed(self, data: bytes) -> None:
        """Take what the peer sent."""
        self._bytes += data

    def head(self) -> Optional[Head]:
        """The head of this request; None until all of it has come.

        Raises:
            BadRequest: It is refused.
        """
        if self._head is None and self._bytes:
            block = self._head_block()
            if block is not None:
                self._head = head = self._parsed(block)
                self._check_size(head.length or 0)
        return self._head

    def _parsed(self, block: bytes) -> Head:
        """The head in these bytes: a peer says the same each time, but for the digits of Content-Length."""
        for before, after, known in self._heads:
            if block.startswith(before) and block.endswith(after):
                digits = block[len(before) : len(block) - len(after)]
                if digits.isdigit() and len(digits) < 16:
                    return known.with_length(digits)
        head = parse_head(block, self._known)
        found = _LENGTH.search(block)
        if found is not None and len(block) <= _KNOWN_HEAD_BYTES:
            self._heads.append((block[: found.start(1)], block[found.end(1) :], head))
            del self._heads[:-_KNOWN_HEADS]
        return head

    def _head_block(self) -> Optional[bytes]:
        data = self._bytes
        while data.startswith(b"\r\n"):  # some old clients end a body with a line end that is not in its length
            del data[:2]
            self._looked = 0
        end = data.find(b"\r\n\r\n", max(0, self._looked - 3))
        if (len(data) if end < 0 else end) > self._header_bytes:
            status = 431 if b"\r\n" in data[: self._header_bytes] else 414
            raise BadRequest(status, f"a head has at most {self._header_bytes} bytes (max_header_bytes)")
        if end < 0:
            # What can be no request is refused before its end, which may never come.
            if _BARE.search(data, max(0, self._looked - 1)) or (data[:1] != b"\r" and b"" < data[:1] <= b" "):
                raise BadRequest(400, "a request begins with its method, and its lines end with CR and LF")
            self._looked = len(data)
            return None
        self._looked = 0
        block = bytes(data[:end])
        del data[: end + 4]
        return block

    def _check_size(self, size: int) -> None:
        if self._body_bytes is not None and size > self._body_bytes:
            raise BadRequest(413, f"a body has at most {self._body_bytes} bytes (max_body_bytes)")

    def body(self) -> Optional[bytes]:
        """The body of this request, whose head has come; None until all of it has come.

        Raises:
            BadRequest: It is refused.
        """
        if self.whole is None and self._head is not None:
            length = self._head.length
            if length is None:
                self.whole = self._take_chunks()
            elif len(self._bytes) >= length:
                self.whole = bytes(self._bytes[:length])
                del self._bytes[:length]
        return self.whole

    def _take_chunks(self) -> Optional[bytes]:
        if self._chunks is None:
            self._chunks = _Chunks(self._header_bytes)
        done = self._chunks.take(self._bytes)
        self._check_size(len(self._chunks.body) + self._chunks.missing)
        return bytes(self._chunks.body) if done else None


class _Chunks:
    """A chunked body in the making.

    Args:
        trailer_bytes: Of what follows the last chunk, at most.
    """

    __slots__ = ("body", "missing", "_done", "_excess", "_trailer_bytes", "_step")

    def __init__(self, trailer_bytes: int) -> None:
        self.body = bytearray()
        self.missing = 0  # bytes of this chunk
        self._done = False
        self._excess = 0
        self._trailer_bytes = trailer_bytes
        self._step: Callable[[bytearray, int], int] = self._size

    def take(self, data: bytearray) -> bool:
        """Move what is here of the body out of `data`; whether it is complete."""
        at, before = 0, -1
        while at != before and not self._done:
            before, at = at, self._step(data, at)
        del data[:at]
        return self._done

    # Each step gets the place where it begins and gives the one where it ends: the same when too little is here.

    def _size(self, data: bytearray, at: int) -> int:
        end = data.find(b"\r\n", at, at + _CHUNK_LINE)
        if end < 0 and len(data) - at < _CHUNK_LINE:
            return at
        found = _CHUNK.fullmatch(data, at, end) if end >= 0 else None
        if found is None:
            raise BadRequest(400, "a chunk's size is malformed")
        self.missing = int(found[1], 16)
        self._excess = max(0, self._excess + end - at + _CHUNK_COST - self.missing)
        if self._excess > _CHUNK_EXCESS:
            raise BadRequest(400, "the chunks are too small")
        self._step = self._data if self.missing else self._trailer
        return end + 2

    def _data(self, data: bytearray, at: int) -> int:
        piece = data[at : at + self.missing]
        self.body += piece
        self.missing -= len(piece)
        if not self.missing:
            self._step = self._data_end
        return at + len(piece)

    def _data_end(self, data: bytearray, at: int) -> int:
        end = data[at : at + 2]
        if not b"\r\n".startswith(end):
            raise BadRequest(400, "a chunk is longer than its size")
        if len(end) < 2:
            return at
        self._step = self._size
        return at + 2

    def _trailer(self, data: bytearray, at: int) -> int:
        end = data.find(b"\r\n", at)
        size = (end if end >= 0 else len(data)) - at
        if size > self._trailer_bytes:
            raise BadRequest(431, "the trailer is too long")
        if end < 0:
            return at
        self._trailer_bytes -= size
        found = FIELD.fullmatch(data[at:end].decode("latin-1"))
        if end > at and (found is None or found[1].lower() in _FRAMING):
            raise BadRequest(400, "a trailer is malformed")
        self._done = end == at
        return end + 2
